# SPDX-License-Identifier: Apache-2.0
"""Topologies as data: counts, addresses, ports, layers, routes, files."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import (
    Kind,
    Port,
    Tier,
    Topology,
    TopologyError,
    build,
    fat_tree,
    from_json,
    leaf_spine,
    path_count,
    routes,
    to_json,
)

even_k = st.sampled_from((2, 4, 6, 8))
fabrics = st.one_of(
    even_k.map(fat_tree),
    st.builds(leaf_spine, st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)),
)


def test_fat_tree_4_is_the_textbook_one() -> None:
    topology = fat_tree(4)
    assert [len(topology.layer(name)) for name in topology.layers] == [16, 8, 8, 4]
    assert len(topology.hosts) == 16
    assert len(topology.links) == 16 + 16 + 16 + 16
    first, last = topology.host("h1"), topology.host("h16")
    assert (str(first.ip), first.mac) == ("10.0.0.2", "02:00:0a:00:00:02")
    assert (str(last.ip), last.nic) == ("10.3.1.3", "nic16")
    # Ports by arithmetic: edge3 is the first edge switch of the second pod.
    assert topology.neighbour("edge3", 1) == Port("nic5", 2)
    assert topology.neighbour("edge3", 4) == Port("agg4", 1)
    assert topology.neighbour("agg4", 3) == Port("core3", 2)
    assert topology.neighbour("core3", 2) == Port("agg4", 3)
    assert topology.port_to("core3", "agg8") == 4
    assert [link.other("agg4").node for link in topology.up_links("agg4")] == ["core3", "core4"]
    assert [link.other("agg4").node for link in topology.down_links("agg4")] == ["edge3", "edge4"]
    assert topology.host_of("nic5").name == "h5"


def test_fat_tree_4_routes() -> None:
    table = routes(fat_tree(4))

    def of(name: str) -> list[tuple[str, tuple[int, ...]]]:
        return [(str(route.prefix), route.ports) for route in table[name].routes]

    up = (3, 4)
    assert of("edge1") == [
        ("10.0.0.2/32", (1,)),
        ("10.0.0.3/32", (2,)),
        ("10.0.1.0/24", up),
        ("10.1.0.0/16", up),
        ("10.2.0.0/16", up),
        ("10.3.0.0/16", up),
    ]
    assert of("agg1")[:3] == [("10.0.0.0/24", (1,)), ("10.0.1.0/24", (2,)), ("10.1.0.0/16", up)]
    assert of("core4") == [(f"10.{pod}.0.0/16", (pod + 1,)) for pod in range(4)]
    assert table["edge1"].groups == (up,)
    assert table["edge1"].group_of(up) == 1
    assert table["core1"].groups == ()


def test_leaf_spine_of_the_paper() -> None:
    topology = leaf_spine(8, 2, 8)
    assert len(topology.links) == 64 + 80  # 64 hosts to their NICs, then the 80 links of the published cell
    assert str(topology.host("h17").ip) == "10.0.2.2"
    table = routes(topology)
    assert table["leaf1"].lookup(topology.host("h64").ip) == (9, 10)
    assert table["spine2"].lookup(topology.host("h64").ip) == (8,)


@given(fabrics)
@settings(max_examples=30, deadline=None)
def test_names_addresses_and_ids_are_unique(topology: Topology) -> None:
    for values in (
        [host.ip for host in topology.hosts],
        [host.mac for host in topology.hosts],
        list(topology.nodes()),
        [device.device_id for device in topology.devices],
        [end for link in topology.links for end in (link.a, link.b)],
    ):
        assert len(set(values)) == len(values)
    assert all(host.ip in ipaddress.IPv4Network("10.0.0.0/8") for host in topology.hosts)
    interfaces = [end.interface for link in topology.links for end in (link.a, link.b)]
    assert max(map(len, interfaces)) <= 15
    for device in topology.devices:
        numbers = [link.end(device.name).number for link in topology.links_of(device.name)]
        assert numbers == list(range(1, device.ports + 1))


@given(fabrics)
@settings(max_examples=30, deadline=None)
def test_layers_join_only_neighbours(topology: Topology) -> None:
    for link in topology.links:
        below, above = topology.height(link.a.node), topology.height(link.b.node)
        assert above == below + 1
        assert link.tier is (Tier.HOST, Tier.ACCESS, Tier.FABRIC)[min(below, 2)]
    for device in topology.devices:
        links = topology.up_links(device.name) + topology.down_links(device.name)
        assert sorted(links, key=lambda link: link.end(device.name)) == list(topology.links_of(device.name))


@given(even_k, st.data())
@settings(max_examples=30, deadline=None)
def test_fat_tree_paths(k: int, data: st.DataObject) -> None:
    topology = fat_tree(k)
    table = routes(topology)
    half = k // 2
    names = st.integers(1, len(topology.hosts)).map(lambda i: f"h{i}")
    source, target = data.draw(names), data.draw(names)
    a, b = topology.host(source).ip.packed, topology.host(target).ip.packed
    expected = 1 if a[:3] == b[:3] else half if a[:2] == b[:2] else half * half
    assert path_count(topology, source, target, table) == expected


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.data())
@settings(max_examples=30, deadline=None)
def test_leaf_spine_paths(leaves: int, spines: int, hosts: int, data: st.DataObject) -> None:
    topology = leaf_spine(leaves, spines, hosts)
    table = routes(topology)
    a, b = (data.draw(st.integers(0, leaves * hosts - 1)) for _ in range(2))
    expected = 1 if a // hosts == b // hosts else spines
    assert path_count(topology, f"h{a + 1}", f"h{b + 1}", table) == expected


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_routes_avoid_links_that_are_down(data: st.DataObject) -> None:
    topology = fat_tree(4)
    fabric = [link for link in topology.links if link.tier is Tier.FABRIC]
    down = data.draw(st.sets(st.sampled_from(fabric), max_size=6))
    table = routes(topology, down)
    for switch in topology.switches():
        for link in topology.links_of(switch.name):
            if link in down:
                port = link.end(switch.name).number
                assert all(port not in route.ports for route in table[switch.name].routes)
    # Whoever still has a way has a route: compare with plain reachability.
    alive = {node: {node} for node in (d.name for d in topology.switches())}
    changed = True
    while changed:
        changed = False
        for link in fabric:
            if link not in down and alive[link.a.node] != alive[link.b.node]:
                both = alive[link.a.node] | alive[link.b.node]
                alive[link.a.node], alive[link.b.node], changed = both, set(both), True
    for target in ("h1", "h16"):
        home = topology.neighbour(topology.host(target).nic, 2).node
        for switch in topology.switches():
            has_route = table[switch.name].lookup(topology.host(target).ip) != ()
            assert has_route == (home in alive[switch.name])


def test_no_host_no_route() -> None:
    table = routes(fat_tree(4))
    assert table["edge1"].lookup(ipaddress.IPv4Address("10.0.0.9")) == ()
    assert table["core1"].lookup(ipaddress.IPv4Address("10.9.0.2")) == ()


@given(fabrics)
@settings(max_examples=20, deadline=None)
def test_json_and_back(topology: Topology) -> None:
    text = to_json(topology)
    assert from_json(text) == topology
    assert to_json(from_json(text)) == text


def test_build_by_name() -> None:
    assert build("fat_tree", k=2) == fat_tree(2)
    assert build("leaf_spine", leaves=2, spines=1, hosts_per_leaf=1) == leaf_spine(2, 1, 1)


def test_devices_of_a_kind() -> None:
    topology = fat_tree(2)
    assert all(d.kind is Kind.NIC for d in topology.nics())
    assert all(d.kind is Kind.SWITCH for d in topology.switches())
    assert len(topology.nics()) + len(topology.switches()) == len(topology.devices)


def _mangled(change: str) -> str:
    tree = json.loads(to_json(fat_tree(2)))
    match change:
        case "address twice":
            tree["hosts"][1]["ip"] = tree["hosts"][0]["ip"]
        case "bad address":
            tree["hosts"][1]["ip"] = "10.0.0"
        case "port twice":
            tree["links"][-1]["a"] = tree["links"][-2]["a"]
        case "no such node":
            tree["links"][0]["a"] = ["h99", 0]
        case "unlinked host":
            del tree["links"][0]
        case "bad kind":
            tree["devices"][0]["kind"] = "router"
        case "bad layer":
            tree["devices"][0]["layer"] = "attic"
        case "missing key":
            del tree["devices"][0]["ports"]
        case "port beyond":
            tree["devices"][-1]["ports"] = 1
        case "long name":
            text = json.dumps(tree).replace('"edge1"', '"a-very-long-name"')
            tree = json.loads(text)
        case "format":
            tree["format"] = "2"
        case "bad port":
            tree["links"][0]["a"] = "h1"
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("address twice", "t.json: address 10.0.0.2 is given twice; give each its own"),
        ("bad address", "t.json: hosts[1].ip is '10.0.0'; give an IPv4 address"),
        ("port twice", "has two links; give one of them another port"),
        ("no such node", "no node h99"),
        ("unlinked host", "host h1 has no link at port 0; connect it to its NIC"),
        ("bad kind", 't.json: devices[0].kind is "router"; give nic or switch'),
        ("bad layer", "device nic1: layer attic is none of nic, edge, agg, core"),
        ("missing key", "t.json: devices[0] has the keys name, kind, layer, device_id; mend: ports"),
        ("port beyond", "device core1 has ports 1 to 1, links use [1, 2]"),
        ("long name", "is longer than 15 characters"),
        ("format", "t.json: format is '2'; give \"forgive-topology-1\""),
        ("bad port", 't.json: links[0].a is "h1"; give [node, port]'),
    ],
)
def test_bad_files_get_one_line(change: str, said: str) -> None:
    with pytest.raises(TopologyError) as caught:
        from_json(_mangled(change), "t.json")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_not_json() -> None:
    with pytest.raises(TopologyError, match=r"t.json: not JSON: .*line 1 column 2.*; mend it there"):
        from_json("{", "t.json")


@pytest.mark.parametrize(
    ("family", "parameters", "said"),
    [
        ("fat_tree", {"k": 5}, "fat-tree k=5: give an even k from 2 to 254"),
        ("fat_tree", {"k": 0}, "fat-tree k=0: give an even k"),
        ("fat_tree", {}, "fat_tree takes k, not nothing"),
        ("ring", {}, "no topology family ring; give fat_tree or leaf_spine"),
        ("leaf_spine", {"leaves": 1, "spines": 0, "hosts_per_leaf": 1}, "leaf-spine spines=0: give 1 to"),
        (
            "leaf_spine",
            {"leaves": 1, "spines": 1, "hosts_per_leaf": 300},
            "hosts_per_leaf=300: give 1 to 253",
        ),
    ],
)
def test_bad_parameters_get_one_line(family: str, parameters: dict[str, int], said: str) -> None:
    with pytest.raises(TopologyError) as caught:
        build(family, **parameters)
    assert said in str(caught.value)


@pytest.mark.parametrize("ask", ["host", "device", "layer"])
def test_unknown_names_say_what_there_is(ask: str) -> None:
    with pytest.raises(TopologyError, match=f"no {ask} nobody; {ask}s are"):
        getattr(fat_tree(2), ask)("nobody")


def test_picture(tmp_path: Path) -> None:
    from topologies.picture import draw

    topology = fat_tree(2)
    plain, coloured = tmp_path / "plain.svg", tmp_path / "coloured.svg"
    draw(topology, plain)
    draw(topology, coloured, {link: float(i) for i, link in enumerate(topology.links)})
    assert plain.stat().st_size > 0
    assert plain.read_bytes() != coloured.read_bytes()


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from topologies.__main__ import main

    file = tmp_path / "t.json"
    assert main(["leaf_spine", "leaves=2", "spines=2", "hosts_per_leaf=1", "--json", str(file)]) == 0
    assert capsys.readouterr().out == "leaf_spine: 2 hosts, 2 nic, 2 leaf, 2 spine, 8 links\n"
    assert main([str(file), "--routes"]) == 0
    assert "leaf1 10.0.1.0/24 -> 2, 3\n" in capsys.readouterr().out
    for words, said in (
        (["fat_tree", "k=3"], "fat-tree k=3: give an even k"),
        (["fat_tree", "four"], "four: write a name and a whole number"),
        ([str(tmp_path / "none.json")], "No such file or directory; give the file of a topology"),
        (["fat_tree", "k=2", "--json", str(tmp_path / "no" / "x")], "give a path that can be written"),
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
