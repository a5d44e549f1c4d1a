# SPDX-License-Identifier: Apache-2.0
"""finsy as the client, on the embedded target and on BMv2: what one accepts and answers, the other does too.

Where they differ on purpose, the test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import finsy as fy
import pytest
from google.protobuf import text_format

from tests.target.p4runtime import program
from tests.target.p4runtime.processes import target

Scenario = Callable[[fy.Switch], Awaitable[None]]
DST, SRC, TYPE, PORT = "dst", "src", "type", "ingress_port"


@pytest.fixture(scope="module", params=["embedded", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def address(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with target(kind, tmp_path_factory.mktemp(kind)) as address:
        yield address


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> fy.SwitchOptions:
    directory = tmp_path_factory.mktemp("program")
    p4info = directory / "program.p4info.txtpb"
    p4info.write_text(text_format.MessageToString(program.p4info()))
    (directory / "program.json").write_text(program.bmv2_json())
    # Forced: each test starts from an empty pipeline.
    return fy.SwitchOptions(p4info=p4info, p4blob=directory / "program.json", p4force=True)


@pytest.fixture
def run(address: str, options: fy.SwitchOptions) -> Callable[[Scenario], None]:
    def run_scenario(scenario: Scenario) -> None:
        async def main() -> None:
            async with fy.Switch("s1", address, options) as switch:
                await scenario(switch)

        asyncio.run(asyncio.wait_for(main(), 60))

    return run_scenario


Run = Callable[[Scenario], None]


async def read(switch: Any, *entities: object) -> list[Any]:
    return [entity async for entity in switch.read(list(entities))]


def exact(dst: int, port: int = 1, **more: object) -> fy.P4TableEntry:
    return fy.P4TableEntry(
        "exact_t",
        match=fy.Match({DST: dst}),
        action=fy.Action("forward", port=port),
        **more,  # type: ignore[arg-type]
    )


def acl(priority: int, **match: object) -> fy.P4TableEntry:
    names = {"dst": DST, "type": TYPE, "port": PORT}
    return fy.P4TableEntry(
        "acl_t",
        match=fy.Match({names[name]: value for name, value in match.items()}) if match else None,
        action=fy.Action("drop"),
        priority=priority,
    )


def test_primary_and_version(run: Run) -> None:
    async def scenario(switch: fy.Switch) -> None:
        assert switch.is_primary
        assert switch.p4runtime_version >= fy.P4RuntimeVersion.parse("1.3.0")

    run(scenario)


def test_entries_of_every_kind_are_read_back(run: Run) -> None:
    async def scenario(switch: fy.Switch) -> None:
        entries = [
            exact(0x0A0B0C0D0E0F, port=5),
            fy.P4TableEntry(
                "lpm_t",
                match=fy.Match({TYPE: 0x800, SRC: (0xAABB00000000, 16)}),
                action=fy.Action("forward", port=2),
            ),
            acl(10, dst=(0x10, 0xF0), type=(0x800, 0x86DD), port=3),
            acl(11, port=3),
            acl(11, type=(1, 1)),
            acl(12),
        ]
        await switch.insert(entries)
        found = await read(switch, *(fy.P4TableEntry(t) for t in ("exact_t", "lpm_t", "acl_t")))
        assert sorted(found, key=repr) == sorted(entries, key=repr)
        await switch.delete([entries[2]])
        with pytest.raises(fy.P4ClientError) as error:
            await switch.delete([entries[2]])
        assert error.value.details[0].canonical_code == fy.GRPCStatusCode.NOT_FOUND
        await switch.modify([exact(0x0A0B0C0D0E0F, port=6)])
        assert await read(switch, fy.P4TableEntry("exact_t")) == [exact(0x0A0B0C0D0E0F, port=6)]
        await switch.delete_all()
        assert await read(switch, fy.P4TableEntry("exact_t"), fy.P4TableEntry("acl_t")) == []

    run(scenario)


def test_errors_name_the_element(run: Run) -> None:
    async def scenario(switch: fy.Switch) -> None:
        await switch.insert([exact(1)])
        with pytest.raises(fy.P4ClientError) as error:
            await switch.insert([exact(2), exact(1), exact(3)])
        assert error.value.code == fy.GRPCStatusCode.UNKNOWN
        assert list(error.value.details) == [1]
        assert error.value.details[1].canonical_code == fy.GRPCStatusCode.ALREADY_EXISTS
        assert len(await read(switch, fy.P4TableEntry("exact_t"))) == 3

    run(scenario)


def test_a_full_table(run: Run, kind: str) -> None:
    async def scenario(switch: fy.Switch) -> None:
        await switch.insert([exact(n) for n in range(program.EXACT_SIZE)])
        with pytest.raises(fy.P4ClientError) as error:
            await switch.insert([exact(program.EXACT_SIZE)])
        code = error.value.details[0].canonical_code
        # BMv2 says UNKNOWN, the specification RESOURCE_EXHAUSTED.
        assert code == getattr(fy.GRPCStatusCode, "UNKNOWN" if kind == "bmv2" else "RESOURCE_EXHAUSTED")

    run(scenario)


def test_default_and_constant_entries(run: Run, kind: str) -> None:
    async def scenario(switch: fy.Switch) -> None:
        default = fy.P4TableEntry("exact_t", is_default_action=True)
        (found,) = await read(switch, default)
        assert found.action == fy.Action("drop")
        new = fy.P4TableEntry("exact_t", is_default_action=True, action=fy.Action("forward", port=9))
        await switch.modify([new])
        assert await read(switch, default) == [new]
        await switch.modify([default])
        (found,) = await read(switch, default)
        assert found.action == fy.Action("drop")
        constant = await read(switch, fy.P4TableEntry("const_t"))
        matches = [(c.match[TYPE], c.action) for c in constant]
        assert matches == [(0x800, fy.Action("mark", value=1, wide=2)), (0x86DD, fy.Action("NoAction"))]
        with pytest.raises(fy.P4ClientError) as error:
            await switch.delete([fy.P4TableEntry("const_t", match=fy.Match({TYPE: 0x800}))])
        code = error.value.details[0].canonical_code
        # BMv2 does not find the entry, the specification says PERMISSION_DENIED.
        assert code == getattr(fy.GRPCStatusCode, "NOT_FOUND" if kind == "bmv2" else "PERMISSION_DENIED")

    run(scenario)


def test_counters(run: Run) -> None:
    async def scenario(switch: fy.Switch) -> None:
        data = fy.P4CounterData(byte_count=600, packet_count=5)
        await switch.modify([fy.P4CounterEntry("counter", index=3, data=data)])
        (found,) = await read(switch, fy.P4CounterEntry("counter", index=3))
        assert found.data == data
        assert len(await read(switch, fy.P4CounterEntry("counter"))) == program.COUNTER_SIZE
        await switch.insert([exact(1, counter_data=data)])
        (entry,) = await read(switch, fy.P4TableEntry("exact_t", counter_data=fy.P4CounterData()))
        assert entry.counter_data == data
        direct = fy.P4DirectCounterEntry(
            "exact_t_counter", table_entry=fy.P4TableEntry("exact_t", match=fy.Match({DST: 1}))
        )
        (count,) = await read(switch, direct)
        assert count.data == data

    run(scenario)


def test_registers(run: Run, kind: str) -> None:
    async def scenario(switch: fy.Switch) -> None:
        entry = fy.P4RegisterEntry("reg32", index=3, data=0xDEADBEEF)
        if kind == "bmv2":
            with pytest.raises(fy.P4ClientError) as error:
                await switch.modify([entry])
            assert error.value.details[0].canonical_code == fy.GRPCStatusCode.UNIMPLEMENTED
            return
        await switch.modify([entry])
        assert await read(switch, fy.P4RegisterEntry("reg32", index=3)) == [entry]
        everything = await read(switch, fy.P4RegisterEntry("reg32"))
        assert [r.data for r in everything] == [0] * 3 + [0xDEADBEEF] + [0] * 12
        signed = fy.P4RegisterEntry("reg_signed", index=0, data=-5)
        await switch.modify([signed])
        assert await read(switch, fy.P4RegisterEntry("reg_signed", index=0)) == [signed]

    run(scenario)


def test_groups_and_sessions(run: Run, kind: str) -> None:
    async def scenario(switch: fy.Switch) -> None:
        group = fy.P4MulticastGroupEntry(7, replicas=[(1, 1), (2, 2)])
        # BMv2's server refuses to truncate a clone.
        length = 0 if kind == "bmv2" else 64
        session = fy.P4CloneSessionEntry(9, replicas=[(255, 1)], packet_length_bytes=length)
        await switch.insert([group, session])
        (found,) = await read(switch, fy.P4MulticastGroupEntry(7))
        assert _replicas(found) == [(1, 1), (2, 2)]
        (found,) = await read(switch, fy.P4CloneSessionEntry(9))
        assert (_replicas(found), found.packet_length_bytes) == ([(255, 1)], length)
        with pytest.raises(fy.P4ClientError) as error:
            await switch.insert([group])
        assert error.value.details[0].canonical_code == fy.GRPCStatusCode.ALREADY_EXISTS
        await switch.modify([fy.P4MulticastGroupEntry(7, replicas=[(3, 0)])])
        (found,) = await read(switch, fy.P4MulticastGroupEntry())
        assert _replicas(found) == [(3, 0)]
        await switch.delete([fy.P4MulticastGroupEntry(7), fy.P4CloneSessionEntry(9)])
        assert await read(switch, fy.P4MulticastGroupEntry(), fy.P4CloneSessionEntry()) == []

    run(scenario)


def _replicas(entry: Any) -> list[tuple[int, int]]:
    replicas = entry.replicas
    return sorted((r, 0) if isinstance(r, int) else (r.port, r.instance) for r in replicas)


def test_packets_through_the_pipeline_to_the_controller(run: Run) -> None:
    """A packet-out for the CPU port comes back as packet-in: both headers, and the way between them."""

    async def scenario(switch: fy.Switch) -> None:
        payload = bytes(range(60))
        received: list[fy.P4PacketIn] = []

        async def receive() -> None:
            async for packet in switch.read_packets():
                received.append(packet)
                if len(received) == 20:
                    return

        reader = asyncio.create_task(receive())
        await asyncio.sleep(0)
        for number in range(20):
            await switch.write(
                [fy.P4PacketOut(payload + bytes([number]), egress_port=program.CPU_PORT, pad=0)]
            )
        await asyncio.wait_for(reader, 30)
        assert [packet.payload for packet in received] == [payload + bytes([n]) for n in range(20)]
        for packet in received:
            assert packet.metadata == {"ingress_port": program.CPU_PORT, "reason": 5, "pad": 0}

    run(scenario)


def test_a_packet_goes_by_the_tables(run: Run) -> None:
    async def scenario(switch: fy.Switch) -> None:
        # From the CPU to port 300, where nothing is: gone. Then to the CPU.
        received: asyncio.Queue[fy.P4PacketIn] = asyncio.Queue()

        async def receive() -> None:
            async for packet in switch.read_packets():
                received.put_nowait(packet)

        reader = asyncio.create_task(receive())
        await asyncio.sleep(0)
        await switch.write([fy.P4PacketOut(bytes(60), egress_port=300, pad=0)])
        await switch.write([fy.P4PacketOut(bytes(60) + b"x", egress_port=program.CPU_PORT, pad=0)])
        assert (await asyncio.wait_for(received.get(), 30)).payload == bytes(60) + b"x"
        reader.cancel()

    run(scenario)


def test_a_second_controller_is_backup_and_takes_over(address: str, options: fy.SwitchOptions) -> None:
    async def main() -> None:
        async with fy.Switch("first", address, options) as first:
            assert first.is_primary
            async with fy.Switch("second", address, options(p4force=False)) as second:
                assert not second.is_primary
                with pytest.raises(fy.P4ClientError) as error:
                    await second.insert([exact(1)])
                assert error.value.code == fy.GRPCStatusCode.PERMISSION_DENIED
                await first.insert([exact(1)])
                assert len(await read(second, fy.P4TableEntry("exact_t"))) == 1
                promoted = second.ee.event_future(fy.SwitchEvent.BECOME_PRIMARY)
                first_channel = first._p4client
                assert first_channel is not None
                await first_channel.close()
                await asyncio.wait_for(promoted, 30)
                await second.insert([exact(2)])
                assert len(await read(second, fy.P4TableEntry("exact_t"))) == 2

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_pipeline_with_the_same_cookie_is_not_pushed_again(address: str, options: fy.SwitchOptions) -> None:
    async def main() -> None:
        async with fy.Switch("s1", address, options) as switch:
            await switch.insert([exact(1)])
        async with fy.Switch("s1", address, options(p4force=False)) as switch:
            assert await read(switch, fy.P4TableEntry("exact_t")) == [exact(1)]

    asyncio.run(asyncio.wait_for(main(), 60))
