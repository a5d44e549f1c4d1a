# SPDX-License-Identifier: Apache-2.0
"""Profiles: the shipped ones, proportions kept at any rate, and one line for every kind of bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profiles
from profiles import Configuration, Exemption, FaultKind, Profile, ProfileError, from_json, load, to_json

SHIPPED = sorted(path.stem for path in Path(profiles.__file__).parent.glob("*.toml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_load_and_survive_json(name: str) -> None:
    profile = load(name)
    assert profile.name == name
    assert from_json(Profile, to_json(profile)) == profile
    configuration = profile.at_rate(10_000_000)
    assert Configuration.from_json(configuration.to_json()) == configuration


def test_the_paper_s_fabric_comes_out_of_its_ratios() -> None:
    """Unscaled, with the study's frames at 400 Gb/s, the published bytes and times come back."""
    profile = load("mininet").override({"scale.factor": 1, "wire.payload_bytes": 4096})
    configuration = profile.at_rate(400_000_000_000)
    assert configuration.queue.data_limit_bytes == pytest.approx(4_194_304, rel=0.01)
    assert configuration.queue.kmin_bytes == pytest.approx(800_000, rel=0.02)
    assert configuration.queue.kmax_bytes == pytest.approx(3_200_000, rel=0.02)
    assert configuration.queue.pmax_2e32 / 2**32 == pytest.approx(0.2)
    assert configuration.transport.window_bytes == pytest.approx(3_516_200, rel=0.01)
    assert configuration.transport.rto_ns == pytest.approx(1_000_000, rel=0.02)
    assert configuration.dcqcn.additive_bps == 200_000_000
    assert configuration.dcqcn.hyper_bps == 400_000_000
    assert configuration.dcqcn.minimum_rate_bps == 400_000_000
    assert configuration.dcqcn.alpha_period_ns == pytest.approx(1_000, rel=0.02)
    assert configuration.dcqcn.decrease_period_ns == pytest.approx(4_000, rel=0.02)
    assert configuration.dcqcn.increase_period_ns == pytest.approx(900_000, rel=0.02)
    assert configuration.links.access_delay_ns == pytest.approx(5_000, rel=0.02)
    assert configuration.queue.ingress is not None
    assert configuration.queue.ingress.shared_bytes == pytest.approx(33_554_432, rel=0.01)


@given(st.integers(1_000_000, 10**12), st.integers(1, 16))
@settings(max_examples=60, deadline=None)
def test_times_stay_in_proportion_to_a_packet(rate: int, factor: int) -> None:
    profile = load("mininet").override({"scale.factor": factor})
    configuration = profile.at_rate(rate)
    packet = configuration.wire.frame_bytes * 8 * 1e9 / rate
    exact = profile.transport.rto_packets * packet / factor
    assert abs(configuration.transport.rto_ns - exact) <= 1
    assert configuration.queue.data_limit_bytes == round(1015 * configuration.wire.frame_bytes / factor)
    payload = configuration.wire.payload_bytes
    assert configuration.transport.window_bytes == max(payload, round(851 * payload / factor))
    assert configuration.queue.data_capacity_bytes >= 2 * configuration.queue.data_limit_bytes
    assert (
        0
        < configuration.queue.kmin_bytes
        < configuration.queue.kmax_bytes
        < configuration.queue.data_limit_bytes
    )


def test_the_paper_profile_is_the_study_s_fabric() -> None:
    """EXPERIMENT.md's bytes and times, exactly; byte limits as the number of full frames that fit."""
    configuration = load("paper").configuration()
    wire, queue, links = configuration.wire, configuration.queue, configuration.links
    assert (wire.weight_bytes(wire.frame_bytes), wire.weight_bytes(wire.trimmed_frame_bytes)) == (4132, 48)
    assert links.rate_bps == links.core_rate_bps == 400_000_000_000
    assert (links.access_delay_ns, links.fabric_delay_ns) == (5_000, 12_500)
    frame = wire.frame_bytes
    assert queue.data_limit_bytes // frame == 4_194_304 // 4132 == 1015
    for ours, study in ((queue.kmin_bytes, 800_000), (queue.kmax_bytes, 3_200_000)):
        assert ours // frame == study // 4132
        assert ours / frame == pytest.approx(study / 4132, abs=1e-4)
    assert queue.ingress is not None
    assert queue.ingress.reserve_bytes / frame == pytest.approx(4096 / 4132, abs=0.01)
    assert queue.ingress.shared_bytes / frame == pytest.approx((2**25 - 10 * 4096) / 4132, abs=1e-4)
    assert queue.trimmed_capacity_bytes // wire.trimmed_frame_bytes == 1_048_576 // 48
    assert queue.trimmed_share_percent == 25
    dcqcn = configuration.dcqcn
    assert (dcqcn.additive_bps, dcqcn.hyper_bps, dcqcn.minimum_rate_bps) == (200e6, 400e6, 400e6)
    assert (dcqcn.alpha_period_ns, dcqcn.decrease_period_ns, dcqcn.increase_period_ns) == (1e3, 4e3, 9e5)
    assert (configuration.transport.rto_ns, configuration.transport.gap_repair_ns) == (1_000_000, 500_000)
    assert configuration.path_window_bytes(access_links=2, fabric_links=0) == 1_008_100
    assert configuration.path_window_bytes(access_links=2, fabric_links=2) == 3_516_200


def test_windows_of_paths_have_a_limit_and_fixed_ones_are_what_they_are() -> None:
    profile = load("paper").override({"transport.window_packets": 300})
    configuration = profile.configuration()
    assert configuration.path_window_bytes(2, 0) == 1_008_100
    assert configuration.path_window_bytes(2, 2) == 300 * 4096
    fixed = profile.override({"transport.window": "fixed"}).configuration()
    assert fixed.path_window_bytes(2, 0) == fixed.path_window_bytes(2, 4) == 300 * 4096


def test_a_profile_without_a_rate_asks_for_one() -> None:
    with pytest.raises(ProfileError, match=r"mininet: fabric.rate_bps is 0; give the link rate"):
        load("mininet").configuration()


def test_faults_are_read_in_order() -> None:
    profile = load("paper").override(
        {"faults": [{"at_ns": 5, "kind": "link_down", "what": "leaf1-spine2", "reroute": True}]}
    )
    (fault,) = profile.configuration().faults
    assert (fault.at_ns, fault.kind, fault.what, fault.ppm, fault.reroute) == (
        5, FaultKind.LINK_DOWN, "leaf1-spine2", 0, True,
    )  # fmt: skip
    assert from_json(Profile, to_json(profile)) == profile
    with pytest.raises(ProfileError, match=r"faults\[0\].kind is 'cut'; give one of"):
        load("paper").override({"faults": [{"at_ns": 5, "kind": "cut", "what": "leaf1-spine2"}]})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("study.dp_width", 8, r"study.dp_width is 8; give at most data_parallel - 1 \(7\)"),
        ("study.tp_bytes", 31, r"study.tp_bytes is 31; 4 streams among 8 ranks need a byte each"),
        ("study.burst.receiver", 64, r"study.burst.receiver is 64; give a rank below 64"),
        ("study.burst.sources", 65, r"study.burst.sources is 65; there are 64 ranks"),
        ("transport.repeat_tail", False, r"window_repairs is true; set repeat_tail to true"),
        ("transport.ignore_beyond_gap", "most", r"transport.ignore_beyond_gap is .most.; give one of"),
        ("wire.weight_adjust", -71, r"wire.weight_adjust is -71; give -70 or more"),
    ],
)
def test_a_study_that_cannot_be(key: str, value: int, said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        load("paper").override({key: value})


def test_budget_policy() -> None:
    budget = load("mininet").at_rate(10**7).budget
    assert (budget.p_ppm(critical=True), budget.p_ppm(critical=False)) == (5_000, 100_000)
    assert budget.forgive_threshold == 2**32
    assert budget.exemption is Exemption.PAPER
    quarter = load("mininet").override({"budget.forgive_ppm": 250_000}).at_rate(10**7)
    assert quarter.budget.forgive_threshold == 2**30


def test_the_demo_s_steps_are_worth_looking_at() -> None:
    """Flows outlast their first report, and a critical step can forgive 8 packets or more."""
    for name in SHIPPED:
        profile = load(name)
        payload, work = profile.wire.payload_bytes, profile.workload
        flow = work.gradient_bytes // work.ranks
        assert flow // payload >= 100
        expected = 2 * (work.ranks - 1) * flow
        assert profile.budget.p_low_ppm * expected // 1_000_000 >= 8 * payload


def test_overrides_from_a_command_line() -> None:
    profile = load("mininet").override_text(
        ["budget.exemption=never", "budget.vesting=false", "fabric.k = 8", "workload.seeds=[1, 2]"]
    )
    assert profile.budget.exemption is Exemption.NEVER
    assert (profile.budget.vesting, profile.fabric.k, profile.workload.seeds) == (False, 8, (1, 2))


def test_an_optional_table_can_be_left_out_and_filled(tmp_path: Path) -> None:
    text = Path(profiles.__file__).with_name("mininet.toml").read_text()
    path = tmp_path / "p.toml"
    path.write_text(text[: text.index("[queue.ingress]")] + text[text.index("[dcqcn]") :])
    profile = load(path)
    assert profile.queue.ingress is None
    assert profile.at_rate(10**7).queue.ingress is None
    with pytest.raises(ProfileError, match=r"queue.ingress.reserve_packets is missing"):
        profile.override({"queue.ingress.alpha_shift": 2})
    full = profile.override(
        {
            "queue.ingress.alpha_shift": 2,
            "queue.ingress.reserve_packets": 1,
            "queue.ingress.shared_packets": 800,
        }
    )
    ingress = full.at_rate(10**7).queue.ingress
    assert ingress is not None
    assert (ingress.reserve_bytes, ingress.alpha_shift) == (full.wire.frame_bytes, 2)


def _file(tmp_path: Path, old: str, new: str) -> Path:
    text = Path(profiles.__file__).with_name("mininet.toml").read_text()
    assert old in text
    path = tmp_path / "p.toml"
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kmin_packets = 194", "", "queue.kmin_packets is missing; add it (a number)"),
        (
            "kmin_packets = 194",
            "kmin_packet = 194",
            "queue.kmin_packet is not known; did you mean kmin_packets?",
        ),
        (
            "kmin_packets = 194",
            "kmin_packets = 900",
            "queue.kmin_packets is 900; give less than kmax_packets (775)",
        ),
        ("kmin_packets = 194", "kmin_packets = -1", "queue.kmin_packets is -1; give 0 or more"),
        ("kmin_packets = 194", "kmin_packets = inf", "queue.kmin_packets is inf; give a finite number"),
        ("spray = true", "spray = 1", "fabric.spray is 1; give true or false"),
        ("k = 4", "k = 5", "fabric.k is 5; a fat-tree needs an even k of 2 or more"),
        ("k = 4", 'k = "4"', "fabric.k is '4'; give a whole number"),
        ("k = 4", "k = true", "fabric.k is True; give a whole number"),
        (
            'family = "fat_tree"',
            'family = "ring"',
            'fabric.family is \'ring\'; give one of "fat_tree", "leaf_spine"',
        ),
        ("payload_bytes = 1024", "payload_bytes = 1000", "give a multiple of block_bytes (512)"),
        ("payload_bytes = 1024", "payload_bytes = 32768", "give 16384 or less (32 blocks"),
        ("gradient_trimmed = 16", "gradient_trimmed = 8", "give five different values"),
        ("control = 46", "control = 64", "dscp.control is 64; give 63 or less"),
        ("seeds = [314159265]", "seeds = []", "workload.seeds is empty; give at least one number"),
        ("seeds = [314159265]", 'seeds = ["a"]', "workload.seeds[0] is 'a'; give a whole number"),
        ("seeds = [314159265]", "seeds = 3", "workload.seeds is 3; give a list, each element a whole number"),
        ("[scale]\nfactor = 4", "", "scale is missing; add it (a table)"),
        ("[scale]\nfactor = 4", "[scale]\nfactor = 0", "scale.factor is 0; give 1 or more"),
        ('name = "mininet"', 'name = "mininet"\nscales = 3', "scales is not known; did you mean scale?"),
        ('name = "mininet"', "name =", "not TOML"),
        ("p_low_ppm = 5000", "p_low_ppm = 1_000_000", "budget.p_low_ppm is 1000000; give 999999 or less"),
    ],
)
def test_bad_files_get_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = _file(tmp_path, old, new)
    with pytest.raises(ProfileError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert said in message
    assert "\n" not in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="No such file or directory; give the path of a readable profile"):
        load(tmp_path / "none.toml")
    with pytest.raises(
        ProfileError, match=r"profile nonesuch: there is none; give a \.toml file or one of: bmv2, "
    ):
        load("nonesuch")
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"name = '\xff'")
    with pytest.raises(ProfileError, match="byte 8 is not UTF-8; save the file as UTF-8"):
        load(bad)


@pytest.mark.parametrize(
    ("settings_", "said"),
    [
        (["budget"], "--set budget: write section.key=value"),
        (["nosuch.key=1"], "--set: nosuch is not a section; known: wire, "),
        (["budget.nosuch=1"], "--set: budget.nosuch is not known"),
        (["budget.exemption=often"], "--set: budget.exemption is 'often'; give one of"),
    ],
)
def test_bad_overrides_get_one_line(settings_: list[str], said: str) -> None:
    with pytest.raises(ProfileError) as caught:
        load("mininet").override_text(settings_)
    assert said in str(caught.value)


def test_rates_and_windows_out_of_reach() -> None:
    with pytest.raises(ProfileError, match=r"mininet: link rate 1000 bit/s; give 87520 or more \(10 frames"):
        load("mininet").at_rate(1000)
    huge = load("mininet").override({"transport.window_packets": 100_000})
    with pytest.raises(ProfileError, match="the NIC's scoreboard holds 4161536: lower it to 16256"):
        huge.at_rate(10**7)


def test_bad_json() -> None:
    with pytest.raises(ProfileError, match=r"c\.json: not JSON: .*; mend it there"):
        Configuration.from_json("{", "c.json")
    with pytest.raises(ProfileError, match=r"c\.json: the file is a list; give a table of keys"):
        Configuration.from_json("[]", "c.json")
