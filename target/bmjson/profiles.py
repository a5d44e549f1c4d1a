# SPDX-License-Identifier: Apache-2.0
"""Reads the action profiles and action selectors of a BMv2 JSON."""

from __future__ import annotations

from target.bmjson.calculations import calc_input
from target.bmjson.exprs import ExprReader
from target.bmjson.model import Action, ActionProfile, Calculation, Program
from target.bmjson.node import Node

_CALCULATION = "$selector "
"""In front of a selector's name: its hash among the program's calculations. No P4 name has a blank."""


def read_profile(node: Node, program: Program, exprs: ExprReader) -> ActionProfile:
    node.keys("name id max_size", "source_info selector")
    name = node["name"].string()
    if name in program.profiles:
        node.fail(f"the name {name!r} is already taken")
    size = node["max_size"].integer(0, 2**31)
    if not node.has("selector"):
        return ActionProfile(name, size, None)
    selector = node["selector"]
    selector.keys("algo input", "source_info")
    calculation = _CALCULATION + name
    if calculation in program.calculations:
        node.fail(f"the name {calculation!r} is already taken")
    inputs = tuple(calc_input(entry, program, exprs) for entry in selector["input"].elements())
    program.calculations[calculation] = Calculation(
        calculation, selector["algo"].string(), inputs, selector.path
    )
    return ActionProfile(name, size, calculation)


def table_profile(node: Node, kind: str, profiles: dict[str, ActionProfile]) -> str | None:
    """The profile that a table of this type uses."""
    if kind == "simple":
        if node.has("action_profile"):
            node["action_profile"].fail("a table of type 'simple' has no action profile")
        return None
    name = node["action_profile"].string()
    if name not in profiles:
        node["action_profile"].fail(f"there is no action profile {name!r} in this pipeline")
    if (profiles[name].calculation is not None) != (kind == "indirect_ws"):
        node["type"].fail(f"{kind!r} does not fit action profile {name!r}: see whether it has a selector")
    if node.has("entries"):
        node["entries"].fail(f"a table of type {kind!r} can't have constant entries")
    if node.has("default_entry") and node["default_entry"].get("action_const", False).boolean():
        node["default_entry"].fail(f"a table of type {kind!r} can't have a constant default action")
    return name


def check_shared(node: Node, actions: list[Action], known: dict[str, Action]) -> None:
    """Actions of one name are one action to a profile, whichever table runs them: their parameters agree."""
    for action in actions:
        other = known.setdefault(action.name, action)
        if [p.width for p in other.params] != [p.width for p in action.params]:
            node["actions"].fail(
                f"action {action.name!r} has other parameters in another table of the same action profile"
            )
