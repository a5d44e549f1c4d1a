# SPDX-License-Identifier: Apache-2.0
"""A small interpreter of BMv2 JSON actions, as the format's documentation describes them, for tests."""

from __future__ import annotations

from typing import Any

Fields = dict[tuple[str, str], int]


class Machine:
    """Fields of one packet, with the widths and signs of the JSON."""

    def __init__(self, program: dict[str, Any]) -> None:
        self.fields: Fields = {}
        self.shape: dict[tuple[str, str], tuple[int, bool]] = {}
        types = {t["name"]: t["fields"] for t in program["header_types"]}
        for h in program["headers"]:
            for f in types[h["header_type"]]:
                if f[1] != "*":
                    self.shape[h["name"], f[0]] = (f[1], bool(f[2]))
        self.actions = {a["name"]: a for a in program["actions"]}
        self.registers: dict[str, dict[int, int]] = {}
        self.steps = 0

    def get(self, header: str, field: str) -> int:
        return self.fields.get((header, field), 0)

    def set(self, header: str, field: str, value: int) -> None:
        width, signed = self.shape[header, field]
        value &= (1 << width) - 1
        if signed and value >> (width - 1):
            value -= 1 << width
        self.fields[header, field] = value

    def value(self, j: Any, data: list[int]) -> int:
        kind: str
        v: Any
        kind, v = j["type"], j["value"]
        if kind == "hexstr":
            return int(v, 16)
        if kind == "bool":
            return int(v)
        if kind == "field":
            return self.get(v[0], v[1])
        if kind in ("runtime_data", "local"):
            return data[int(v)]
        assert kind == "expression", j
        if "type" in v:
            return self.value(v, data)
        if v["op"] == "?":
            return self.value(v["left"] if self.value(v["cond"], data) else v["right"], data)
        right = self.value(v["right"], data)
        left = 0 if v["left"] is None else self.value(v["left"], data)
        return self._op(v["op"], left, right)

    def _op(self, op: str, a: int, b: int) -> int:
        if op == "two_comp_mod":
            a &= (1 << b) - 1
            return a - (1 << b) if a >> (b - 1) else a
        if op == "usat_cast":
            return max(0, min(a, (1 << b) - 1))
        if op == "sat_cast":
            return max(-(1 << (b - 1)), min(a, (1 << (b - 1)) - 1))
        return {
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "<<": lambda: a << b,
            ">>": lambda: a >> b, "&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b,
            "~": lambda: ~b, "==": lambda: int(a == b), "!=": lambda: int(a != b), "<": lambda: int(a < b),
            ">": lambda: int(a > b), "<=": lambda: int(a <= b), ">=": lambda: int(a >= b),
            "and": lambda: int(bool(a) and bool(b)), "or": lambda: int(bool(a) or bool(b)),
            "not": lambda: int(not b), "d2b": lambda: int(bool(b)), "b2d": lambda: b,
        }[op]()  # fmt: skip

    def run(self, action: str, *data: int) -> None:
        """Run `action` with runtime data `data`."""
        primitives = self.actions[action]["primitives"]
        at = 0
        args = list(data)
        while at < len(primitives):
            self.steps += 1
            assert self.steps < 100_000
            p = primitives[at]
            at += 1
            ps = p["parameters"]
            if p["op"] == "assign":
                header, field = ps[0]["value"]
                self.set(header, field, self.value(ps[1], args))
            elif p["op"] == "_jump":
                at = int(ps[0]["value"], 16)
            elif p["op"] == "_jump_if_zero":
                if not self.value(ps[0], args):
                    at = int(ps[1]["value"], 16)
            elif p["op"] == "register_read":
                cell = self.registers.setdefault(ps[1]["value"], {}).get(self.value(ps[2], args), 0)
                header, field = ps[0]["value"]
                self.set(header, field, cell)
            elif p["op"] == "register_write":
                self.registers.setdefault(ps[0]["value"], {})[self.value(ps[1], args)] = self.value(
                    ps[2], args
                )
            elif p["op"] == "exit":
                return
            else:
                raise AssertionError(p["op"])
