# SPDX-License-Identifier: Apache-2.0
"""The same conversation with the embedded target and with simple_switch_grpc: the same comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from finsy.proto import p4r

from tests.target.p4runtime import test_action_profiles as profiles
from tests.target.p4runtime import test_meters as meters
from tests.target.p4runtime import test_notices as notices
from tests.target.p4runtime.both import Answer, Step, converse, unavailable
from tests.target.p4runtime.client import updates
from tests.target.p4runtime.describe import Described
from tests.target.resources import digest_frame, meter_program, selector_frame

pytestmark = pytest.mark.root

Converse = Callable[[p4r.ForwardingPipelineConfig, Sequence[Step]], list[Answer]]


@pytest.fixture(params=["embedded", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> Converse:
    kind = str(request.param)
    reason = unavailable(kind)
    if reason is not None:
        pytest.skip(reason)
    return lambda config, steps: converse(kind, tmp_path / kind, config, steps)


def write(kind: str, *entities: p4r.Entity) -> Step:
    return Step(write=updates(kind, entities))


def picks(answers: Sequence[Answer]) -> list[int]:
    """x.result of the frames."""
    return [int.from_bytes(frame[5:9], "big") for answer in answers for frame in answer.frames.get(2, [])]


def test_selectors_pick_the_same_members(talk: Converse) -> None:
    member, group, entry, action = profiles.member, profiles.group, profiles.entry, profiles.action
    probe = [Step(frame=(1, selector_frame(1, flow))) for flow in range(8)]
    answers = talk(
        profiles.SELECTOR.config(),
        [
            write("INSERT", *(member(n, 100 + n) for n in range(1, 5))),
            write("INSERT", group(1, (4, 1), (2, 3), (3, 2))),
            write("INSERT", entry(1, group=1)),
            *probe,
            write("MODIFY", group(1, (2, 1), (3, 2))),
            write("INSERT", member(9, 109)),
            write("MODIFY", group(1, (2, 1), (3, 2), (9, 1))),
            write("MODIFY", member(3, 333)),
            *probe,
            write("DELETE", entry(1)),
            write("DELETE", group(1)),
            write("DELETE", *(member(n) for n in (1, 2, 3, 4, 9))),
            write("INSERT", entry(1, actions=[(action(profiles.SET, n), n) for n in (1, 2, 3)])),
            *probe,
        ],
    )
    assert not any(code for answer in answers for code in answer.codes)
    # Handles 0..3 are members 1..4; the weights of 2 take 4 and 5, that of 3 takes 6.
    first = [102, 103, 104, 102, 102, 103]
    second = [102, 333, 109, 333]  # 9 has the handle 4, and 3 keeps the 6
    third = [1, 2, 2, 3, 3, 3]
    assert picks(answers) == [row[flow % len(row)] for row in (first, second, third) for flow in range(8)]


def test_meters_give_the_same_colours(talk: Converse) -> None:
    """Without a rate the buckets only empty: no clock takes part."""

    def frame(key: int, index: int, size: int) -> Step:
        return Step(frame=(1, bytes([key, index, 0xA0, 0xA0, 0]).ljust(size, b"\0")))

    program = Described(meter_program("bytes"))
    assert program.id("table", "t") == meters.T
    answers = talk(
        program.config(),
        [
            write("INSERT", meters.entry(1, (0, 100, 0, 250)), meters.entry(2)),
            write("MODIFY", meters.meter(3, (0, 64, 0, 128))),
            *[frame(1, 3, 60) for _ in range(5)],
            *[frame(2, 0, 60) for _ in range(2)],
            frame(9, 0, 60),
            write("MODIFY", meters.meter(3)),
            write("MODIFY", meters.direct(1, (0, 20, 0, 40))),
            frame(1, 3, 20),
            frame(1, 3, 20),
            frame(1, 3, 20),
            Step(read=[meters.meter(3), meters.direct(1)]),
        ],
    )
    assert not any(code for answer in answers for code in answer.codes)
    seen = [f[2:4] for answer in answers for f in answer.frames.get(2, [])]
    assert seen[:5] == [b"\x00\x10", b"\x01\x11", b"\x02\x11", b"\x02\x11", b"\x02\x12"]
    assert seen[5:7] == [b"\x00\x10"] * 2
    assert seen[7:] == [b"\x00\xa0", b"\x00\x10", b"\x00\x11", b"\x00\x12"]
    assert answers[-1].read == [meters.meter(3), meters.direct(1, (0, 20, 0, 40))]


def test_digests_teach_the_same(talk: Converse) -> None:
    hour = 3_600_000 * notices.MS
    frames = [(1, 7, 2**127), (1, 7, 2**127), (2, 0, 0), (1, 7, 2**127), (2, 0, 0)]
    probe = [Step(frame=(1, digest_frame(*values)), wait_s=0.2) for values in frames]
    answers = talk(
        notices.DIGEST.config(),
        [
            Step(write=updates("INSERT", [notices.learn()])),
            probe[0],  # nothing is learnt yet
            Step(write=updates("INSERT", [notices.digest((0, 1, hour))])),
            *probe[:3],
            Step(write=updates("MODIFY", [notices.digest((0, 1, 0))])),
            Step(read=[notices.digest()]),
            Step(write=updates("DELETE", [notices.digest()]), wait_s=0.2),
            probe[0],
        ],
    )
    assert not any(code for answer in answers for code in answer.codes)
    lists = [m.digest for answer in answers for m in answer.stream if m.HasField("digest")]
    assert [list(item.data) for item in lists] == [
        [notices.sample(1, 7, 2**127)],
        [notices.sample(2)],
    ]
    assert all(item.digest_id == notices.MAC for item in lists)
    assert answers[-3].read == [notices.digest((0, 1, 0))]


def test_idle_entries_are_told_of(talk: Converse) -> None:
    second = 1000 * notices.MS
    answers = talk(
        notices.IDLE.config(),
        [
            write("INSERT", notices.entry(1, second, cookie=5), notices.entry(2)),
            Step(frame=(1, bytes([1, 0, 0]) + bytes(20)), wait_s=4.0),
            Step(read=[notices.with_elapsed(notices.entry(1, action=False))]),
        ],
    )
    assert not any(code for answer in answers for code in answer.codes)
    told = [m.idle_timeout_notification for a in answers for m in a.stream]
    entries = [entry for message in told for entry in message.table_entry]
    key = notices.entry(1).table_entry.match
    assert entries
    for entry in entries:
        assert (list(entry.match), entry.idle_timeout_ns, entry.controller_metadata) == (list(key), second, 5)
    (found,) = answers[-1].read
    assert found.table_entry.idle_timeout_ns == second
    assert found.table_entry.time_since_last_hit.elapsed_ns >= second
