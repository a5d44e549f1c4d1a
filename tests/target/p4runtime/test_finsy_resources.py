# SPDX-License-Identifier: Apache-2.0
"""finsy on action profiles, meters, digest and idle-timeout settings, on the embedded target and on BMv2."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from google.protobuf import text_format

from tests.target.p4runtime.describe import Described
from tests.target.p4runtime.processes import target
from tests.target.resources import digest_program, idle_program, meter_program, selector_program, text

Scenario = Callable[[Any], Awaitable[None]]
Run = Callable[[dict[str, Any], Scenario], None]


@pytest.fixture(scope="module", params=["embedded", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with target(str(request.param), tmp_path_factory.mktemp(str(request.param))) as found:
        yield found


@pytest.fixture
def run(address: str, tmp_path: Path) -> Run:
    def run_scenario(program: dict[str, Any], scenario: Scenario) -> None:
        p4info, blob = tmp_path / "program.p4info.txtpb", tmp_path / "program.json"
        p4info.write_text(text_format.MessageToString(Described(program).info))
        blob.write_text(text(program))
        options = fy.SwitchOptions(p4info=p4info, p4blob=blob, p4force=True)

        async def main() -> None:
            async with fy.Switch("s1", address, options) as switch:
                await scenario(switch)

        asyncio.run(asyncio.wait_for(main(), 60))

    return run_scenario


async def read(switch: Any, *entities: object) -> list[Any]:
    return [entity async for entity in switch.read(list(entities))]


def member(number: int, value: int) -> fy.P4ActionProfileMember:
    action = fy.P4TableAction("set", value=value)
    return fy.P4ActionProfileMember("sel", member_id=number, action=action)


def entry(key: int, action: fy.P4IndirectAction) -> fy.P4TableEntry:
    return fy.P4TableEntry("t", match=fy.P4TableMatch({"key": key}), action=action)


def test_members_and_groups(run: Run) -> None:
    async def scenario(switch: Any) -> None:
        members = [member(1, 10), member(2, 20)]
        group = fy.P4ActionProfileGroup(
            "sel", group_id=3, max_size=8, members=[fy.P4Member(1, weight=1), fy.P4Member(2, weight=3)]
        )
        entries = [entry(1, fy.P4IndirectAction(group_id=3)), entry(2, fy.P4IndirectAction(member_id=1))]
        await switch.insert(members)
        await switch.insert([group])
        await switch.insert(entries)
        found = await read(switch, fy.P4ActionProfileMember("sel"))
        # BMv2's server tells of a member as often as the largest weight says.
        assert [m for i, m in enumerate(found) if m not in found[:i]] == members
        assert await read(switch, fy.P4ActionProfileGroup("sel")) == [group]
        assert await read(switch, fy.P4TableEntry("t")) == entries
        with pytest.raises(fy.P4ClientError):
            await switch.delete([members[0]])
        await switch.delete(entries)
        await switch.delete([group])
        await switch.delete(members)
        assert await read(switch, fy.P4ActionProfileMember("sel")) == []

    run(selector_program(), scenario)


def test_one_shots(run: Run) -> None:
    async def scenario(switch: Any) -> None:
        actions: list[Any] = [(2, fy.P4TableAction("set", value=7)), (1, fy.P4TableAction("set", value=8))]
        wanted = entry(1, fy.P4IndirectAction(actions))
        await switch.insert([wanted])
        assert await read(switch, fy.P4TableEntry("t")) == [wanted]
        await switch.delete([wanted])

    run(selector_program(), scenario)


def test_meters(run: Run) -> None:
    async def scenario(switch: Any) -> None:
        config = fy.P4MeterConfig(cir=1000, cburst=10, pir=2000, pburst=20)
        wanted = fy.P4MeterEntry("m", index=2, config=config)
        await switch.modify([wanted])
        assert await read(switch, fy.P4MeterEntry("m", index=2)) == [wanted]
        key = fy.P4TableEntry("t", match=fy.P4TableMatch({"key": 1}), action=fy.P4TableAction("mark"))
        await switch.insert([key])
        direct = fy.P4DirectMeterEntry(
            table_entry=fy.P4TableEntry("t", match=fy.P4TableMatch({"key": 1})), config=config
        )
        await switch.modify([direct])
        (found,) = await read(switch, fy.P4DirectMeterEntry(table_entry=direct.table_entry))
        assert found.config == config

    run(meter_program(), scenario)


def test_digest_settings(run: Run) -> None:
    async def scenario(switch: Any) -> None:
        wanted = fy.P4DigestEntry("mac", max_list_size=3, max_timeout_ns=5_000_000, ack_timeout_ns=7_000_000)
        await switch.insert([wanted])
        assert await read(switch, fy.P4DigestEntry("mac")) == [wanted]
        await switch.delete([wanted])

    run(digest_program(), scenario)


def test_idle_timeouts(run: Run) -> None:
    async def scenario(switch: Any) -> None:
        wanted = fy.P4TableEntry(
            "t",
            match=fy.P4TableMatch({"key": 1}),
            action=fy.P4TableAction("pass"),
            idle_timeout_ns=3_600_000_000_000,
        )
        await switch.insert([wanted])
        assert await read(switch, fy.P4TableEntry("t")) == [wanted]

    run(idle_program(), scenario)
