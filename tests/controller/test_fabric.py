# SPDX-License-Identifier: Apache-2.0
"""The controller against devices in memory: what it writes, how it checks, what it says of a failure."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
from finsy.proto import p4r

from controller import ControllerError, Fabric, Programs
from profiles import Configuration
from tests.controller.conftest import FakeFabric
from tests.controller.fake import FakeDevice


def entries(device: FakeDevice, fabric: Fabric, table: str) -> list[p4r.TableEntry]:
    """What a fake device holds in a table."""
    schema = next(d for d in fabric.controller.devices if d.address == device.address).schema
    number = schema.tables[table].id
    return [e.table_entry for e in device.entities.values() if e.table_entry.table_id == number]


def values(entry: p4r.TableEntry) -> list[int]:
    return [int.from_bytes(param.value, "big") for param in entry.action.action.params]


def test_every_device_gets_its_program_once(fabric: Fabric, fakes: FakeFabric) -> None:
    assert {name: device.pipelines for name, device in fakes.devices.items()} == dict.fromkeys(
        fakes.devices, 1
    )


def test_install_and_read_back(fabric: Fabric, fakes: FakeFabric, configuration: Configuration) -> None:
    fabric.install(configuration)
    assert fabric.verify() == sum(len(device.entities) for device in fakes.devices.values())
    edge = fakes.devices["edge1"]
    (settings,) = entries(edge, fabric, "switch_config")
    assert settings.is_default_action
    assert values(settings) == [configuration.fabric.seed + fakes.topology.device("edge1").device_id]
    classes = {e.match[0].exact.value[0]: values(e) for e in entries(edge, fabric, "traffic_class")}
    assert classes == {
        8: [1, 16, 0, 1],
        10: [1, 18, 0, 1],
        16: [0, 0, 1, 1],
        18: [0, 0, 1, 1],
        46: [0, 0, 2, 0],
    }
    queue = configuration.queue
    assert [values(e) for e in entries(edge, fabric, "queue_limits")] == [[queue.data_limit_bytes]] * 2
    marking = [queue.kmin_bytes, queue.kmax_bytes, queue.pmax_2e32]
    assert [values(e) for e in entries(edge, fabric, "ecn_thresholds")] == [marking] * 2
    assert queue.ingress is not None
    shared = [queue.ingress.reserve_bytes, queue.ingress.shared_bytes, queue.ingress.alpha_shift]
    assert [values(e) for e in entries(edge, fabric, "ingress_limits")] == [shared] * 2
    # The pod's only host hangs at port 1, everything else is up.
    prefixes = {tuple(e.match[0].lpm.value): values(e) for e in entries(edge, fabric, "ipv4_routes")}
    assert prefixes == {(10, 0, 0, 0): [1], (10, 1, 0, 0): [2]}


def test_equal_cost_groups(programs: Programs, configuration: Configuration) -> None:
    from controller.switch import routes as entities
    from topologies import fat_tree, routes

    shown = [str(entity) for entity in entities(routes(fat_tree(4))["agg1"])]
    assert shown == [
        "group_members[group=1, member=0] forward(port=3)",
        "group_members[group=1, member=1] forward(port=4)",
        "ipv4_routes[dst_addr=10.0.0.0/24] forward(port=1)",
        "ipv4_routes[dst_addr=10.0.1.0/24] forward(port=2)",
        "ipv4_routes[dst_addr=10.1.0.0/16] balance(group=1, members=2)",
        "ipv4_routes[dst_addr=10.2.0.0/16] balance(group=1, members=2)",
        "ipv4_routes[dst_addr=10.3.0.0/16] balance(group=1, members=2)",
    ]


def test_nic_gets_settings_classes_and_groups(
    fabric: Fabric, fakes: FakeFabric, configuration: Configuration
) -> None:
    fabric.install(configuration, seed=7)
    for index, name in enumerate(("nic1", "nic2")):
        nic = fakes.devices[name]
        (settings,) = entries(nic, fabric, "nic_config")
        assert values(settings) == [7 + index, 46, 0]
        classes = {e.match[0].exact.value[0]: values(e) for e in entries(nic, fabric, "traffic_class")}
        assert classes == {8: [1, 0], 16: [1, 1], 10: [0, 0], 18: [0, 1]}
        groups = {
            group.multicast_group_id: [(r.egress_port, r.instance) for r in group.replicas]
            for group in (
                e.packet_replication_engine_entry.multicast_group_entry
                for e in nic.entities.values()
                if e.HasField("packet_replication_engine_entry")
            )
        }
        assert groups == {1: [(1, 1), (2, 2)], 2: [(1, 1), (2, 2), (2, 3)], 3: [(2, 2), (2, 3)]}


def test_routes_alone(fabric: Fabric, fakes: FakeFabric) -> None:
    fabric.install(None)
    assert fabric.verify() == 10
    assert fakes.devices["nic1"].entities == {}


def test_read_back_finds_what_changed(
    fabric: Fabric, fakes: FakeFabric, configuration: Configuration
) -> None:
    fabric.install(configuration)
    edge = fakes.devices["edge1"]
    key = next(k for k, e in edge.entities.items() if e.table_entry in entries(edge, fabric, "queue_limits"))
    edge.entities[key].table_entry.action.action.params[0].value = b"\x07"
    with pytest.raises(ControllerError) as caught:
        fabric.verify()
    said = str(caught.value)
    assert said.startswith(
        f"edge1: queue_limits[egress_port=1] limit_queue(bytes={configuration.queue.data_limit_bytes})"
    )
    assert "but the device has queue_limits" in said
    assert "bytes=0x7" in said


def test_read_back_finds_what_is_missing(
    fabric: Fabric, fakes: FakeFabric, configuration: Configuration
) -> None:
    fabric.install(configuration)
    nic = fakes.devices["nic2"]
    group = next(k for k, e in nic.entities.items() if e.HasField("packet_replication_engine_entry"))
    del nic.entities[group]
    with pytest.raises(ControllerError, match=r"^nic2: multicast group 1 .* was written and isn't there$"):
        fabric.verify()


def test_read_back_finds_what_nobody_wrote(
    fabric: Fabric, fakes: FakeFabric, configuration: Configuration
) -> None:
    fabric.install(configuration)
    core = fakes.devices["core1"]
    strange = p4r.Entity()
    strange.CopyFrom(
        next(e for e in core.entities.values() if e.table_entry in entries(core, fabric, "ipv4_routes"))
    )
    strange.table_entry.match[0].lpm.value = bytes((10, 77, 0, 0))
    core.entities[b"strange"] = strange
    with pytest.raises(ControllerError, match=r"^core1: ipv4_routes \[dst_addr=10\.77\..* nobody wrote it$"):
        fabric.verify()


def test_values_are_compared_as_numbers(
    fabric: Fabric, fakes: FakeFabric, configuration: Configuration
) -> None:
    """A device may pad byte strings to the full width."""
    fabric.install(configuration)
    for device in fakes.devices.values():
        for entity in device.entities.values():
            for param in entity.table_entry.action.action.params:
                param.value = b"\0\0" + param.value
    assert fabric.verify() > 0


def test_a_refused_entity_is_named(fakes: FakeFabric, configuration: Configuration) -> None:
    with fakes.connect() as fabric:
        agg = fakes.devices["agg2"]
        table = fabric.controller.switch("agg2").device.schema.tables["ecn_thresholds"].id
        agg.refuse = lambda update: "table is full" if update.entity.table_entry.table_id == table else None
        with pytest.raises(ControllerError) as caught:
            fabric.install(configuration)
    kmin = configuration.queue.kmin_bytes
    assert str(caught.value).startswith(
        f"agg2: insert ecn_thresholds[egress_port=1] mark_between(kmin={kmin}, "
    )
    assert str(caught.value).endswith(": INVALID_ARGUMENT: table is full")


def test_a_refused_program_is_named(fakes: FakeFabric) -> None:
    fakes.devices["core1"].pipeline_error = "unknown primitive frobnicate"
    with pytest.raises(ControllerError) as caught:
        fakes.connect()
    assert str(caught.value) == "core1: program switch: INVALID_ARGUMENT: unknown primitive frobnicate"


def test_another_primary_is_named(fakes: FakeFabric) -> None:
    fakes.devices["nic1"].primary = False
    with pytest.raises(
        ControllerError, match=r"^nic1: another controller is primary \(election id \d+\); stop it"
    ):
        fakes.connect()


def test_no_server(fakes: FakeFabric) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        fakes.addresses[-1] = replace(fakes.addresses[-1], grpc_address=address)
        with pytest.raises(ControllerError) as caught:
            fakes.connect()
    assert str(caught.value) == f"core1: no P4Runtime server at {address}; start the target first"


def test_a_device_that_goes_away(fabric: Fabric, fakes: FakeFabric, configuration: Configuration) -> None:
    fakes.devices["edge2"].__exit__(None, None, None)
    with pytest.raises(ControllerError, match=r"^edge2: .*; is the target alive\?$"):
        fabric.install(configuration)


def test_missing_address(fakes: FakeFabric) -> None:
    del fakes.addresses[0]
    with pytest.raises(ControllerError, match=r"^nic1: no address given; the target knows nic2, "):
        fakes.connect()


def test_unknown_names(fabric: Fabric) -> None:
    with pytest.raises(ControllerError, match="no NIC nic9"):
        fabric.counters("nic9")
    with pytest.raises(ControllerError, match="no switch s1; switches are edge1, "):
        fabric.controller.switch("s1")


def test_counters_are_typed(fabric: Fabric) -> None:
    """The fake answers every cell with a number made of its counter's id and index."""
    edge = fabric.switch_counters()["edge1"]
    schema = fabric.controller.switch("edge1").device.schema
    assert set(edge.ports) == {1, 2}
    for port, row in edge.ports.items():
        for name in ("forwarded", "marked", "trimmed", "dropped"):
            assert getattr(row, name) == (schema.counters[name].id & 0xFF) * 1000 + port
    assert edge.total.trimmed == edge.ports[1].trimmed + edge.ports[2].trimmed
    assert edge.no_route == (schema.counters["no_route"].id & 0xFF) * 1000
    nic = fabric.counters("h1")
    assert nic == fabric.nic_counters()["nic1"]
    schema = fabric.controller.nic("nic1").device.schema
    assert nic.forgiven == (schema.counters["forgiven"].id & 0xFF) * 1000
    assert (nic - nic).forgiven == 0


def test_close_twice(fakes: FakeFabric) -> None:
    fabric = fakes.connect()
    fabric.close()
    fabric.close()
