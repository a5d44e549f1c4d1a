# SPDX-License-Identifier: Apache-2.0
"""Digest lists and idle entries, to the nanosecond of the manual clock."""

from __future__ import annotations

import queue
import random
from collections.abc import Callable
from typing import Any

import pytest

from target.api import DeviceError, DigestConfig, DigestList, IdleEntries, Notice, TableEntry
from target.engine import Device
from tests.target.resources import check_damage, digest_frame, digest_program, idle_program, text

Make = Callable[..., Device]
MS = 1_000_000
S = 1000 * MS


class Listener:
    """What a device tells, fetched when a test asks."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._queue: queue.Queue[Notice] = queue.Queue()
        device.set_notices(self._queue.put)

    def digests(self, count: int) -> list[DigestList]:
        found = [self._queue.get(timeout=20) for _ in range(count)]
        assert all(isinstance(n, DigestList) for n in found)
        return [n for n in found if isinstance(n, DigestList)]

    def idle(self, count: int) -> list[IdleEntries]:
        found = [self._queue.get(timeout=20) for _ in range(count)]
        return [n for n in found if isinstance(n, IdleEntries)]

    def silent(self) -> bool:
        """Nothing came before what a mark at the end makes: here, nothing within a short time."""
        try:
            self._queue.get(timeout=0.2)
        except queue.Empty:
            return True
        return False


def learner(make_device: Make, config: DigestConfig | None, program: Any = None) -> Listener:
    device = make_device(text(program or digest_program()))
    for what, action in ((1, "tell"), (2, "forget")):
        device.table_insert("learn", TableEntry(((what,),), action, ()))
    if config is not None:
        device.digest_set("mac", config)
    return Listener(device)


def see(listener: Listener, at_ns: int, *sources: int, **more: int) -> None:
    listener.device.engine.run_until(at_ns)
    for source in sources:
        listener.device.inject(1, digest_frame(source, **more))


def sources(lists: list[DigestList]) -> list[list[int]]:
    return [[sample[0] for sample in item.samples] for item in lists]


def test_every_field_at_its_width(make_device: Make) -> None:
    listener = learner(make_device, DigestConfig())
    see(listener, 5, 2**48 - 1, port=0xABCD, big=2**127 + 9)
    (found,) = listener.digests(1)
    assert found == DigestList("mac", 1, ((2**48 - 1, 0xABCD, 2**127 + 9),), 5)
    see(listener, 6, 1, what=3)
    see(listener, 6, 1, what=2)  # taken back
    assert listener.silent()


def test_without_config_there_are_no_lists(make_device: Make) -> None:
    listener = learner(make_device, None)
    see(listener, 1, 1)
    assert listener.silent()
    listener.device.digest_set("mac", DigestConfig())
    assert listener.device.digest_config("mac") == DigestConfig()
    see(listener, 2, 2)
    listener.device.digest_set("mac", None)
    see(listener, 3, 3)
    assert sources(listener.digests(1)) == [[2]]
    assert listener.silent()


def test_in_egress_a_digest_has_no_effect(make_device: Make) -> None:
    listener = learner(make_device, DigestConfig(), digest_program(ingress=False))
    see(listener, 1, 1)
    assert len(listener.device.collect(2)) == 1
    assert listener.silent()


def test_a_list_is_sent_when_it_is_full(make_device: Make) -> None:
    listener = learner(make_device, DigestConfig(max_timeout_ns=S, max_list_size=3, ack_timeout_ns=S))
    see(listener, 1, 1, 2, 1, 2, 2, 3, 4, 5)
    (first,) = listener.digests(1)
    assert sources([first]) == [[1, 2, 3]]
    # 4 and 5 wait until a second after 4 came.
    listener.device.engine.run_until(S)
    listener.device.engine.run_until(S + 1)
    (second,) = listener.digests(1)
    assert (sources([second]), second.time_ns) == ([[4, 5]], S + 1)
    assert second.id != first.id


def test_the_timeout_starts_with_the_first_sample(make_device: Make) -> None:
    listener = learner(make_device, DigestConfig(max_timeout_ns=10 * MS, max_list_size=0, ack_timeout_ns=S))
    see(listener, 3 * MS, 1)
    see(listener, 9 * MS, 2)
    see(listener, 20 * MS, 3)
    see(listener, 40 * MS)
    lists = listener.digests(2)
    assert [(s, item.time_ns) for s, item in zip(sources(lists), lists, strict=True)] == [
        ([1, 2], 13 * MS),
        ([3], 30 * MS),
    ]


def test_what_is_not_acknowledged_is_not_sent_again(make_device: Make) -> None:
    listener = learner(make_device, DigestConfig(max_list_size=1, ack_timeout_ns=10 * MS))
    see(listener, 1, 1, 1, 2)
    first, second = listener.digests(2)
    see(listener, 5 * MS, 1, 2)
    listener.device.digest_acknowledge("mac", first.id)
    listener.device.digest_acknowledge("mac", first.id)  # known no more
    listener.device.digest_acknowledge("mac", 99)
    see(listener, 6 * MS, 1, 2)
    (third,) = listener.digests(1)
    assert sources([first, second, third]) == [[1], [2], [1]]
    # 2 was sent at 1 ns, 1 at 6 ms: each is forgotten 10 ms later.
    see(listener, 10 * MS, 1, 2)
    see(listener, 10 * MS + 1, 1, 2)
    see(listener, 16 * MS, 1, 2)
    assert sources(listener.digests(2)) == [[2], [1]]
    assert listener.silent()


def test_without_ack_timeout_everything_is_sent(make_device: Make) -> None:
    listener = learner(make_device, DigestConfig(max_list_size=2, max_timeout_ns=S))
    see(listener, 1, 1, 1, 2, 1, 2)
    assert sources(listener.digests(2)) == [[1, 2], [1, 2]]


def test_a_new_config_applies_to_the_open_list(make_device: Make) -> None:
    listener = learner(make_device, DigestConfig(max_timeout_ns=100 * S, max_list_size=10))
    see(listener, 1, 1, 2, 3)
    listener.device.digest_set("mac", DigestConfig(max_timeout_ns=10 * S, max_list_size=10))
    see(listener, 10 * S)
    see(listener, 10 * S + 1, 4, 5)
    assert [item.time_ns for item in listener.digests(1)] == [10 * S + 1]
    listener.device.digest_set("mac", DigestConfig(max_timeout_ns=10 * S, max_list_size=2))
    assert sources(listener.digests(1)) == [[4, 5]]


def test_many_samples_against_a_model(make_device: Make) -> None:
    """Lists of 7, a cache of 1 ms, acknowledgements at random."""
    listener = learner(make_device, DigestConfig(max_list_size=7, max_timeout_ns=S, ack_timeout_ns=MS))
    rng = random.Random(4)
    open_list: list[int] = []
    sent: list[tuple[int, int, list[int]]] = []
    expected: list[list[int]] = []
    number = 1
    for at in range(1000, 6 * MS, 3000):
        sent = [item for item in sent if at - item[0] < MS]
        source = rng.randrange(200)
        see(listener, at, source)
        if source not in open_list and not any(source in samples for _, _, samples in sent):
            open_list.append(source)
        if len(open_list) == 7:
            expected.append(open_list)
            sent.append((at, number, open_list))
            open_list, number = [], number + 1
        if sent and rng.random() < 0.05:
            gone = sent.pop(rng.randrange(len(sent)))
            listener.device.digest_acknowledge("mac", gone[1])
    assert len(expected) > 50
    lists = listener.digests(len(expected))
    assert sources(lists) == expected
    assert [item.id for item in lists] == list(range(1, len(expected) + 1))


def test_nobody_reads(make_device: Make) -> None:
    device = make_device(text(digest_program()))
    device.table_insert("learn", TableEntry(((1,),), "tell", ()))
    device.digest_set("mac", DigestConfig(ack_timeout_ns=S))
    for source in range(5000):
        device.inject(1, digest_frame(source))
    assert device.stats()["digest_drops"] == 5000 - 4096


def test_a_program_that_is_gone_tells_nothing(make_device: Make) -> None:
    listener = learner(make_device, DigestConfig(max_timeout_ns=S, max_list_size=9))
    see(listener, 1, 1, 2)
    listener.device.load_pipeline(text(digest_program()))
    assert listener.device.digest_config("mac") is None
    listener.device.engine.run_until(2 * S)
    assert listener.silent()


# --- idle entries


def idle_device(make_device: Make, timeouts: dict[int, int]) -> Listener:
    device = make_device(text(idle_program()))
    for key, timeout in timeouts.items():
        device.table_insert("t", TableEntry(((key,),), "pass", ()))
        device.entry_set_timeout("t", ((key,),), 0, timeout)
    return Listener(device)


def hit(listener: Listener, at_ns: int, *keys: int) -> None:
    listener.device.engine.run_until(at_ns)
    for key in keys:
        listener.device.inject(1, bytes([key, 0, 0]))


def told(notices: list[IdleEntries]) -> list[tuple[int, list[int]]]:
    return [(n.time_ns, sorted(key[0][0] for key, _ in n.entries)) for n in notices]


def test_a_notice_for_each_idle_time(make_device: Make) -> None:
    listener = idle_device(make_device, {1: 10 * MS, 2: 25 * MS, 3: 0})
    hit(listener, 60 * MS)
    assert told(listener.idle(7)) == [
        (10 * MS, [1]), (20 * MS, [1]), (25 * MS, [2]), (30 * MS, [1]), (40 * MS, [1]),
        (50 * MS, [1, 2]), (60 * MS, [1]),
    ]  # fmt: skip
    assert listener.silent()


def test_hits_put_it_off(make_device: Make) -> None:
    listener = idle_device(make_device, {1: 10 * MS})
    for at in (4, 9, 14, 23):
        hit(listener, at * MS, 1)
        assert listener.device.entry_idle_ns("t", ((1,),)) == 0
    hit(listener, 30 * MS, 2)
    assert listener.device.entry_idle_ns("t", ((1,),)) == 7 * MS
    hit(listener, 45 * MS)
    assert told(listener.idle(2)) == [(33 * MS, [1]), (43 * MS, [1])]
    assert listener.device.entry_idle_ns("t", ((1,),)) == 22 * MS


def test_timeouts_change_and_entries_go(make_device: Make) -> None:
    listener = idle_device(make_device, dict.fromkeys(range(1, 6), 10 * MS))
    device = listener.device
    hit(listener, 5 * MS)
    device.entry_set_timeout("t", ((1,),), 0, 20 * MS)  # starts over
    device.entry_set_timeout("t", ((2,),), 0, 0)
    device.table_delete("t", ((3,),))
    device.table_modify("t", TableEntry(((4,),), "pass", ()))
    assert [device.entry_timeout("t", ((k,),)) for k in (1, 2, 4, 5)] == [20 * MS, 0, 10 * MS, 10 * MS]
    hit(listener, 25 * MS)
    assert told(listener.idle(3)) == [(10 * MS, [4, 5]), (20 * MS, [4, 5]), (25 * MS, [1])]
    assert listener.silent()
    device.table_insert("t", TableEntry(((3,),), "pass", ()))
    assert device.entry_timeout("t", ((3,),)) == 0


def test_small_and_large_timeouts(make_device: Make) -> None:
    listener = idle_device(make_device, {1: 1, 2: 2**63 - 1})
    hit(listener, 3 * MS)
    assert told(listener.idle(3)) == [(MS, [1]), (2 * MS, [1]), (3 * MS, [1])]


def test_other_kinds_of_keys(make_device: Make) -> None:
    device = make_device(text(idle_program((("ternary", "key"), ("lpm", "wide")))))
    key = ((0x10, 0xF0), (0xAB00, 8))
    device.table_insert("t", TableEntry(key, "pass", (), 7))
    device.entry_set_timeout("t", key, 7, 5 * MS)
    listener = Listener(device)
    device.engine.run_until(3 * MS)
    device.inject(1, bytes([0x1F, 0xAB, 0xCD]))
    device.engine.run_until(8 * MS)
    (notice,) = listener.idle(1)
    assert notice == IdleEntries("t", ((key, 7),), 8 * MS)


def test_many_entries_at_random(make_device: Make) -> None:
    """Against a model in whole milliseconds."""
    rng = random.Random(5)
    listener = idle_device(make_device, {})
    device = listener.device
    ttl: dict[int, int] = {}
    since: dict[int, int] = {}
    expected: dict[int, list[int]] = {}
    for ms in range(400):
        device.engine.run_until(ms * MS)
        for key in [k for k in ttl if ttl[k] and ms - since[k] >= ttl[k]]:
            expected.setdefault(ms, []).append(key)
            since[key] = ms
        if ms in expected:  # at once: what is told of an entry that is gone meanwhile says nothing
            assert told(listener.idle(1)) == [(ms * MS, sorted(expected[ms]))]
        key = rng.randrange(256)
        choice = rng.randrange(4)
        if choice == 0 and key not in ttl:
            device.table_insert("t", TableEntry(((key,),), "pass", ()))
            ttl[key], since[key] = 0, ms
        elif choice == 1 and key in ttl:
            device.table_delete("t", ((key,),))
            del ttl[key]
        elif choice == 2:
            for known in rng.sample(sorted(ttl), min(3, len(ttl))):
                ttl[known], since[known] = rng.choice((0, 3, 17, 40)), ms
                device.entry_set_timeout("t", ((known,),), 0, ttl[known] * MS)
        else:
            for known in rng.sample(sorted(ttl), min(5, len(ttl))):
                hit(listener, ms * MS, known)
                since[known] = ms
    assert len(expected) > 100
    assert listener.silent()


BAD: list[tuple[str, tuple[Any, ...], str, str]] = [
    ("digest_set", ("zz", DigestConfig()), "NOT_FOUND", "zz"),
    ("digest_config", ("zz",), "NOT_FOUND", "zz"),
    ("digest_acknowledge", ("zz", 1), "NOT_FOUND", "zz"),
    ("digest_set", ("mac", DigestConfig(-1)), "INVALID_ARGUMENT", "max_timeout_ns"),
    ("digest_set", ("mac", DigestConfig(1, 2**31)), "INVALID_ARGUMENT", "max_list_size"),
    ("entry_timeout", ("learn", ((1,),)), "FAILED_PRECONDITION", "learn"),
    ("entry_set_timeout", ("learn", ((1,),), 0, 1), "FAILED_PRECONDITION", "learn"),
]


@pytest.mark.parametrize(("method", "args", "code", "named"), BAD)
def test_what_is_refused(
    method: str, args: tuple[Any, ...], code: str, named: str, make_device: Make
) -> None:
    device = learner(make_device, None).device
    with pytest.raises(DeviceError) as error:
        getattr(device, method)(*args)
    assert (error.value.code, named in error.value.message) == (code, True)


def test_entries_that_are_not_there(make_device: Make) -> None:
    device = idle_device(make_device, {1: 5}).device
    for call in (device.entry_timeout, device.entry_idle_ns):
        with pytest.raises(DeviceError, match="no such entry"):
            call("t", ((2,),))
    with pytest.raises(DeviceError, match="timeout -1"):
        device.entry_set_timeout("t", ((1,),), 0, -1)
    assert device.entry_timeout("t", ((1,),)) == 5


BAD_JSON: list[tuple[tuple[Any, ...], Any, str]] = [
    (("learn_lists", 0, "elements", 0, "value"), ["x", "zz"], "zz"),
    (("learn_lists", 0, "elements", 0, "type"), "regex", "regex"),
    (("learn_lists", 0, "surprise"), 1, "surprise"),
    (("learn_lists", 0, "id"), -1, "learn_lists[0] 'mac'"),
    (("actions", 0, "primitives", 0, "parameters", 1, "value"), "0x8", "generate_digest"),
    (("actions", 0, "primitives", 0, "parameters"), [], "generate_digest"),
]


@pytest.mark.parametrize(("path", "value", "named"), BAD_JSON)
def test_bad_jsons_name_the_element(path: tuple[Any, ...], value: Any, named: str) -> None:
    check_damage(digest_program(), path, value, named)
