# SPDX-License-Identifier: Apache-2.0
"""`SetForwardingPipelineConfig` and `GetForwardingPipelineConfig`, action by action."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from finsy.proto import p4i, p4r

from target.api import DeviceError
from tests.target.p4runtime import entities as e
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client, RpcError
from tests.target.p4runtime.fake import FakeDevice


def test_nothing_works_before_the_first_config(client: Client) -> None:
    client.primary()
    assert not client.get_config().HasField("config")
    for call in (
        lambda: client.insert(e.exact(1)),
        lambda: client.read(e.exact(1)),
    ):
        with pytest.raises(RpcError) as error:
            call()
        assert error.value.code == "FAILED_PRECONDITION"
        assert "No forwarding pipeline config" in error.value.message
        assert error.value.details is None


def test_get_returns_what_was_set(primary: Client) -> None:
    sent = program.config(cookie=42)
    assert primary.get_config().config == sent
    assert primary.get_config("COOKIE_ONLY").config == p4r.ForwardingPipelineConfig(cookie=sent.cookie)
    assert primary.get_config("P4INFO_AND_COOKIE").config == p4r.ForwardingPipelineConfig(
        p4info=sent.p4info, cookie=sent.cookie
    )
    assert primary.get_config("DEVICE_CONFIG_AND_COOKIE").config == p4r.ForwardingPipelineConfig(
        p4_device_config=sent.p4_device_config, cookie=sent.cookie
    )


def test_a_config_without_cookie_has_none(primary: Client) -> None:
    primary.set_config(program.config())
    assert not primary.get_config("COOKIE_ONLY").config.HasField("cookie")


def test_commit_clears_the_state(primary: Client) -> None:
    primary.insert(e.exact(1))
    primary.set_config(program.config())
    assert primary.read(e.table(program.EXACT_T)) == []


def test_verify_changes_nothing(primary: Client, fake: FakeDevice) -> None:
    primary.insert(e.exact(1))
    primary.set_config(program.config(cookie=43), "VERIFY")
    assert primary.get_config("COOKIE_ONLY").config.cookie.cookie == 42
    assert len(primary.read(e.table(program.EXACT_T))) == 1
    assert fake.loads == 1


def test_save_then_commit_replays_the_writes(primary: Client, fake: FakeDevice) -> None:
    primary.insert(e.exact(1))
    primary.set_config(program.config(cookie=43), "VERIFY_AND_SAVE")
    # Reads and writes mean the saved config now, the device still runs the first.
    assert primary.get_config("COOKIE_ONLY").config.cookie.cookie == 43
    assert primary.read(e.table(program.EXACT_T)) == []
    primary.insert(e.exact(2), e.group(5, (1, 1)))
    with pytest.raises(RpcError):
        primary.insert(e.exact(3), e.exact(3))
    primary.modify(e.register(program.REG32, 3, b"\x07"))
    assert len(fake.table_entries("MyIngress.exact_t")) == 1
    assert fake.loads == 1
    primary.set_config(None, "COMMIT")
    assert fake.loads == 2
    assert fake.register_read("MyIngress.reg32", 3) == 7
    assert fake.mcast_groups() == {5: [(1, 1)]}
    assert {entry.key for entry in fake.table_entries("MyIngress.exact_t")} == {((2,),), ((3,),)}
    assert len(primary.read(e.table(program.EXACT_T))) == 2
    with pytest.raises(RpcError) as error:
        primary.set_config(None, "COMMIT")
    assert error.value.code == "NOT_FOUND"


def test_a_commit_discards_what_was_saved(primary: Client, fake: FakeDevice) -> None:
    primary.set_config(program.config(cookie=43), "VERIFY_AND_SAVE")
    primary.insert(e.exact(2))
    primary.set_config(program.config(cookie=44))
    assert primary.read(e.table(program.EXACT_T)) == []
    assert primary.get_config("COOKIE_ONLY").config.cookie.cookie == 44


def test_commit_takes_no_config(primary: Client) -> None:
    primary.set_config(program.config(cookie=43), "VERIFY_AND_SAVE")
    with pytest.raises(RpcError) as error:
        primary.set_config(program.config(), "COMMIT")
    assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("action", ["VERIFY", "VERIFY_AND_SAVE", "VERIFY_AND_COMMIT", "RECONCILE_AND_COMMIT"])
def test_a_config_must_be_given(primary: Client, action: str) -> None:
    for config in (
        None,
        p4r.ForwardingPipelineConfig(),
        p4r.ForwardingPipelineConfig(p4info=program.p4info()),
        p4r.ForwardingPipelineConfig(p4_device_config=program.bmv2_json().encode()),
    ):
        with pytest.raises(RpcError) as error:
            primary.set_config(config, action)
        assert error.value.code == "INVALID_ARGUMENT"


def test_the_action_must_be_given(primary: Client) -> None:
    with pytest.raises(RpcError) as error:
        primary.set_config(program.config(), "UNSPECIFIED")
    assert error.value.code == "INVALID_ARGUMENT"


def test_only_the_primary_may_set_a_config(primary: Client) -> None:
    primary.election_id = 2
    with pytest.raises(RpcError) as error:
        primary.set_config(program.config())
    assert error.value.code == "PERMISSION_DENIED"
    primary.election_id = None
    with pytest.raises(RpcError) as error:
        primary.set_config(program.config())
    assert error.value.code == "PERMISSION_DENIED"


def test_a_refused_pipeline_leaves_all_as_it_was(primary: Client, fake: FakeDevice) -> None:
    primary.insert(e.exact(1))
    fake.refuse = DeviceError("INVALID_ARGUMENT", "the parser is too deep")
    for action in ("VERIFY", "VERIFY_AND_SAVE", "VERIFY_AND_COMMIT"):
        with pytest.raises(RpcError) as error:
            primary.set_config(program.config(cookie=1), action)
        assert error.value.code == "INVALID_ARGUMENT"
        assert "the parser is too deep" in error.value.message
    assert primary.get_config("COOKIE_ONLY").config.cookie.cookie == 42
    assert len(primary.read(e.table(program.EXACT_T))) == 1


# --- reconcile


def test_reconcile_keeps_the_state(primary: Client, fake: FakeDevice) -> None:
    primary.insert(e.exact(1, counter=(3, 400), metadata=b"mine"), e.lpm(5, 40), e.acl(9), e.group(7, (2, 1)))
    primary.insert(e.clone_session(8, (3, 0), length=64))
    primary.modify(
        e.register(program.REG32, 3, b"\x07"),
        e.counter(2, packets=5, octets=6),
        e.default(program.LPM_T, program.FORWARD, b"\x03"),
        e.direct_counter(e.const_key(0x0800), packets=1, octets=2),
    )
    everything = [
        e.table(0, counters=True),
        e.table(0, default=True),
        e.all_registers(),
        e.all_counters(),
        e.all_groups(),
        e.all_sessions(),
    ]
    before = primary.read(*everything)
    changed = program.bmv2_program()
    changed["program"] = "changed.p4i"
    config = program.config(cookie=50)
    config.p4_device_config = json.dumps(changed).encode()
    primary.set_config(config, "RECONCILE_AND_COMMIT")
    assert fake.loads == 2
    assert primary.get_config().config == config
    assert primary.read(*everything) == before


def test_reconcile_with_the_same_program_loads_nothing(primary: Client, fake: FakeDevice) -> None:
    primary.insert(e.exact(1))
    primary.set_config(program.config(cookie=51), "RECONCILE_AND_COMMIT")
    assert fake.loads == 1
    assert len(primary.read(e.table(program.EXACT_T))) == 1
    assert primary.get_config("COOKIE_ONLY").config.cookie.cookie == 51


def test_reconcile_refuses_what_cannot_be_kept(primary: Client, fake: FakeDevice) -> None:
    primary.insert(*(e.exact(n) for n in range(program.EXACT_SIZE)))
    smaller = program.bmv2_program()
    smaller["pipelines"][0]["tables"][1]["max_size"] = program.EXACT_SIZE - 1
    config = program.config(cookie=52)
    config.p4_device_config = json.dumps(smaller).encode()
    with pytest.raises(RpcError) as error:
        primary.set_config(config, "RECONCILE_AND_COMMIT")
    assert error.value.code == "INVALID_ARGUMENT"
    assert "exact_t" in error.value.message
    assert fake.loads == 1
    assert len(primary.read(e.table(program.EXACT_T))) == program.EXACT_SIZE


def test_a_replay_that_fails_restores_the_former_state(primary: Client, fake: FakeDevice) -> None:
    primary.insert(e.exact(1), e.lpm(1, 48))
    primary.set_config(program.config(cookie=60), "VERIFY_AND_SAVE")
    primary.insert(e.acl(1))
    fake.fail_inserts = "MyIngress.acl_t"
    with pytest.raises(RpcError) as error:
        primary.set_config(None, "COMMIT")
    assert error.value.code == "INTERNAL"
    assert fake.table_entries("MyIngress.exact_t")
    assert fake.table_entries("MyIngress.lpm_t")
    # The saved config is still there and can be committed once the device can.
    fake.fail_inserts = None
    primary.set_config(None, "COMMIT")
    assert not fake.table_entries("MyIngress.exact_t")
    assert fake.table_entries("MyIngress.acl_t")


# --- what is refused


def _table(info: p4i.P4Info, number: int = 0) -> p4i.Table:
    return info.tables[number]


def _rename_table(info: p4i.P4Info) -> None:
    _table(info).preamble.name = "MyIngress.other_t"


def _widen_key(info: p4i.P4Info) -> None:
    _table(info).match_fields[0].bitwidth = 47


def _change_match(info: p4i.P4Info) -> None:
    _table(info).match_fields[0].match_type = p4i.MatchField.TERNARY


def _drop_key(info: p4i.P4Info) -> None:
    del _table(info).match_fields[0]


def _unknown_action(info: p4i.P4Info) -> None:
    info.actions[2].preamble.name = "MyIngress.backward"


def _widen_param(info: p4i.P4Info) -> None:
    info.actions[2].params[0].bitwidth = 16


def _drop_param(info: p4i.P4Info) -> None:
    del info.actions[2].params[0]


def _counter_size(info: p4i.P4Info) -> None:
    info.counters[0].size += 1


def _register_width(info: p4i.P4Info) -> None:
    info.registers[0].type_spec.bitstring.bit.bitwidth = 31


def _register_name(info: p4i.P4Info) -> None:
    info.registers[0].preamble.name = "MyIngress.other_register"


def _same_id(info: p4i.P4Info) -> None:
    info.tables[1].preamble.id = info.tables[0].preamble.id


def _dangling_action(info: p4i.P4Info) -> None:
    _table(info).action_refs[0].id = 0x01FFFFFF


def _no_direct_counter(info: p4i.P4Info) -> None:
    del _table(info).direct_resource_ids[:]


@pytest.mark.parametrize(
    ("breakage", "named"),
    [
        (_rename_table, "MyIngress.other_t"),
        (_widen_key, "hdr.ethernet.dst"),
        (_change_match, "hdr.ethernet.dst"),
        (_drop_key, "MyIngress.exact_t"),
        (_unknown_action, "MyIngress.backward"),
        (_widen_param, "port"),
        (_drop_param, "MyIngress.forward"),
        (_counter_size, "MyIngress.counter"),
        (_register_width, "MyIngress.reg32"),
        (_register_name, "MyIngress.other_register"),
        (_same_id, "MyIngress.lpm_t"),
        (_dangling_action, "MyIngress.exact_t"),
        (_no_direct_counter, "MyIngress.exact_t"),
    ],
)
def test_p4info_of_another_program_is_refused_by_name(
    primary: Client, fake: FakeDevice, breakage: Callable[[p4i.P4Info], None], named: str
) -> None:
    primary.insert(e.exact(1))
    config = program.config(cookie=9)
    breakage(config.p4info)
    with pytest.raises(RpcError) as error:
        primary.set_config(config)
    assert error.value.code == "INVALID_ARGUMENT"
    assert named in error.value.message
    assert "\n" not in error.value.message
    assert primary.get_config("COOKIE_ONLY").config.cookie.cookie == 42
    assert fake.loads == 1


def test_what_the_compiler_left_out_is_accepted_but_cannot_be_used(primary: Client) -> None:
    left_out = program.bmv2_program()
    tables = left_out["pipelines"][0]["tables"]
    assert tables.pop()["name"] == "MyIngress.keyless_t"
    tables[-1]["base_default_next"] = None
    tables[-1]["next_tables"] = dict.fromkeys(tables[-1]["next_tables"])
    del left_out["counter_arrays"][0]
    actions = left_out["actions"]
    actions[program_index("MyIngress.forward", actions)]["primitives"].pop()
    config = program.config()
    config.p4_device_config = json.dumps(left_out).encode()
    primary.set_config(config)
    primary.insert(e.exact(1))
    assert len(primary.read(e.table(0, default=True))) == 5
    assert primary.read(e.all_counters()) == []
    for call, entity, name in (
        (primary.modify, e.default(program.KEYLESS_T, program.NO_ACTION), "MyIngress.keyless_t"),
        (primary.read, e.counter(1), "MyIngress.counter"),
    ):
        with pytest.raises(RpcError) as error:
            call(entity)
        assert error.value.codes == ["INVALID_ARGUMENT"]
        assert name in error.value.messages[0]


def program_index(name: str, items: list[dict[str, Any]]) -> int:
    return next(n for n, item in enumerate(items) if item["name"] == name)


def test_a_width_that_p4info_does_not_know_is_the_device_configs(primary: Client) -> None:
    # P4Info gives no bitwidth for the type `error`.
    config = program.config()
    config.p4info.tables[0].match_fields[0].ClearField("bitwidth")
    config.p4info.actions[2].params[0].ClearField("bitwidth")
    primary.set_config(config)
    primary.insert(e.exact(2**48 - 1, port=511))
    with pytest.raises(RpcError) as error:
        primary.insert(e.exact(2**48))
    assert error.value.codes == ["OUT_OF_RANGE"]


@pytest.mark.parametrize(
    "device_config",
    [b"\x00", b"{", b"[]", b"{}", b"\xff\xfe", b"\x1a\xff", b"\x1a\x05{", b'{"__meta__": 3}', b"\x08" * 20],
)
def test_garbage_as_device_config_is_refused(primary: Client, device_config: bytes) -> None:
    config = program.config()
    config.p4_device_config = device_config
    with pytest.raises(RpcError) as error:
        primary.set_config(config)
    assert error.value.code == "INVALID_ARGUMENT"
    assert "p4_device_config" in error.value.message


def test_the_old_wrapper_around_the_json_is_understood(primary: Client) -> None:
    data = program.bmv2_json().encode()
    length = len(data)
    encoded_length = bytearray()
    while length > 0x7F:
        encoded_length.append(length & 0x7F | 0x80)
        length >>= 7
    encoded_length.append(length)
    config = program.config()
    config.p4_device_config = b"\x08\x01\x12\x00\x1a" + bytes(encoded_length) + data
    primary.set_config(config)
    assert primary.get_config().config == config
    primary.insert(e.exact(1))
