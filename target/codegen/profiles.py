# SPDX-License-Identifier: Apache-2.0
"""Indirect tables: the member of an action profile that an entry leads to, and its action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from target.bmjson.model import Program, Table
from target.codegen.bounds import limbs
from target.codegen.hashing import calc_name

if TYPE_CHECKING:
    from target.codegen.control import ControlGen, TableLayout

INDIRECT = 1
"""enum sw_feature"""


def all_actions(table: Table) -> list[int]:
    default = [table.default[0]] if table.default is not None else []
    return list(dict.fromkeys([*table.action_ids, *default]))


def profile_actions(program: Program, profile: str) -> dict[str, int]:
    """An action's number within the profile, by name: each table has actions of its own."""
    tables = [t for t in program.tables.values() if t.profile == profile]
    names = [program.actions[i].name for t in tables for i in all_actions(t)]
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def argument_words(program: Program, profile: str) -> int:
    """Words of the arguments of a profile's longest action."""
    tables = [t for t in program.tables.values() if t.profile == profile]
    actions = [program.actions[i] for t in tables for i in all_actions(t)]
    return max((sum(limbs(p.width) for p in a.params) for a in actions), default=0)


def emit_choice(control: ControlGen, table: Table, info: TableLayout, after: str | None) -> None:
    """Behind the lookup that has found the entry `e`: choose, run, go on."""
    out, program = control.out, control.program
    assert table.profile is not None
    calculation = program.profiles[table.profile].calculation
    numbers = profile_actions(program, table.profile)
    out.line("const struct sw_choice *c = sw_extra(e)->choice;")
    out.line("uint32_t action = e->action;")
    out.line(f"const uint64_t *a = e->key + {info.words};")
    with out.block("if (c != NULL)"):
        # An empty group runs no action.
        out.line("action = SW_NO_ACTION;")
        with out.block("if (c->count)"):
            pick = "c->members[0]"
            if calculation is not None:
                name = calc_name(program, calculation, control.where)
                pick = f"c->count == 1 ? {pick} : sw_pick(c, {name}(st, pkt, p, m))"
            out.line(f"const struct sw_member *chosen = {pick};")
            out.line("action = chosen->action;")
            out.line("a = chosen->args;")
    with out.block("switch (action)"):
        for action_id in all_actions(table):
            with out.block(f"case {numbers[program.actions[action_id].name]}:"):
                control.run(table, action_id, "a", after)
        out.line(f"default: {after or control.goto(table.default_next)}")
