# SPDX-License-Identifier: Apache-2.0
"""The exact range of an expression's value, from the widths of what it reads."""

from __future__ import annotations

from target.bmjson.model import (
    BoolConst,
    Const,
    Expr,
    FieldRef,
    FieldType,
    HeaderRef,
    Local,
    Lookahead,
    Op,
    Param,
    Program,
    RegisterRef,
    StackField,
    StackRef,
    UnionRef,
    UnionStackRef,
)
from target.bmjson.node import JsonError
from target.codegen.usage import header_type

MAX_LIMBS = 128
"""Widest intermediate value: 8192 bits."""

COMPARISONS = {"==", "!=", "<", "<=", ">", ">="}
BOOLEAN_OPERATORS = {"and", "or", "not", "valid", "valid_union", "d2b"}


def limbs_for(low: int, high: int) -> int:
    """Limbs that hold every value in low..high: unsigned if low >= 0, else two's complement."""
    if low >= 0:
        return max(1, limbs(high.bit_length()))
    bits = max((-low - 1).bit_length(), high.bit_length() if high > 0 else 0) + 1
    return limbs(bits)


def limbs(width: int) -> int:
    """64-bit words that hold so many bits."""
    return (width + 63) // 64


class Bounds:
    """Bounds of expressions within one function, whose action has `params`. `place`: for messages."""

    def __init__(self, program: Program, params: tuple[Param, ...] = (), place: str = "") -> None:
        self.program = program
        self.params = params
        self.place = place
        # By identity: equal expressions occur many times, hashing them all the way down would be quadratic.
        self._bounds: dict[int, tuple[int, int]] = {}
        self._keep: list[Expr] = []

    def fail(self, message: str) -> JsonError:
        return JsonError(f"{self.place}: {message}")

    def bounds(self, e: Expr) -> tuple[int, int]:
        found = self._bounds.get(id(e))
        if found is None:
            found = self._compute_bounds(e)
            self._bounds[id(e)] = found
            self._keep.append(e)
        return found

    def width_bounds(self, width: int, signed: bool = False) -> tuple[int, int]:
        return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)

    def _compute_bounds(self, e: Expr) -> tuple[int, int]:
        if isinstance(e, Const):
            return e.value, e.value
        if isinstance(e, FieldRef):
            kind = self.program.field_type(e)
            return self.width_bounds(kind.width, kind.signed)
        if isinstance(e, StackField):
            element = self.program.headers[self.program.stack_headers(e.stack, e.member)[0]].type
            kind = element.fields[element.index(e.field)]
            return self.width_bounds(kind.width, kind.signed)
        if isinstance(e, Lookahead):
            return self.width_bounds(e.width)
        if isinstance(e, Local):
            return self.width_bounds(self.params[e.index].width)
        if isinstance(e, RegisterRef):
            return self.width_bounds(self.program.registers[e.array].width)
        if isinstance(e, BoolConst | HeaderRef | StackRef | UnionRef | UnionStackRef):
            return 0, 1
        return self._op_bounds(e)

    def _op_bounds(self, e: Op) -> tuple[int, int]:
        op = e.op
        if op in COMPARISONS or op in BOOLEAN_OPERATORS or op == "b2d":
            return 0, 1
        if op in ("last_stack_index", "size_stack"):
            return -1, 255
        if op == "access_field":
            kind = self.accessed(e)
            return self.width_bounds(kind.width, kind.signed)
        if op == "~":
            assert e.right is not None
            low, high = self.bounds(e.right)
            return -high - 1, -low - 1
        if e.left is None or e.right is None:
            raise self.fail(f"operator {op!r} needs two operands")
        left, right = self.bounds(e.left), self.bounds(e.right)
        if op == "?":
            return min(left[0], right[0]), max(left[1], right[1])
        if op == "+":
            return left[0] + right[0], left[1] + right[1]
        if op == "-":
            return left[0] - right[1], left[1] - right[0]
        if op == "*":
            products = [a * b for a in left for b in right]
            return min(products), max(products)
        if op in ("&", "|", "^"):
            return self._bit_bounds(op, left, right)
        if op == "<<":
            low, high = max(0, right[0]), min(max(0, right[1]), 64 * MAX_LIMBS)
            return min(left[0] << low, left[0] << high), max(left[1] << low, left[1] << high)
        if op == ">>":
            low, high = max(0, right[0]), min(max(0, right[1]), 64 * MAX_LIMBS)
            return min(left[0] >> low, left[0] >> high), max(left[1] >> low, left[1] >> high)
        if op == "/":
            return 0, max(0, left[1])
        if op == "%":
            return 0, max(0, min(left[1], right[1] - 1 if right[1] > 0 else 0))
        if op in ("two_comp_mod", "sat_cast", "usat_cast"):
            low, high = self.width_bounds(self.const_width(e.right, op), op != "usat_cast")
            if low <= left[0] and left[1] <= high:
                return left
            if op == "two_comp_mod":
                return low, high
            return min(max(left[0], low), high), min(max(left[1], low), high)
        raise self.fail(f"operator {op!r} is not supported here")

    @staticmethod
    def _bit_bounds(op: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        if op == "&":
            if left[0] >= 0 and right[0] >= 0:
                return 0, min(left[1], right[1])
            if left[0] >= 0:
                return 0, left[1]
            if right[0] >= 0:
                return 0, right[1]
        bits = max(max(b.bit_length(), (~a).bit_length() if a < 0 else 0) for a, b in (left, right))
        return (0 if left[0] >= 0 and right[0] >= 0 else -(1 << bits)), (1 << bits) - 1

    def is_below(self, e: Expr, size: int) -> bool:
        """Whether an index is surely within an array of `size` elements."""
        low, high = self.bounds(e)
        return low >= 0 and high < size

    def const_width(self, e: Expr | None, what: str) -> int:
        if not isinstance(e, Const) or not 1 <= e.value <= 4096:
            raise self.fail(f"{what!r} needs a constant width")
        return e.value

    def accessed(self, e: Op) -> FieldType:
        found = header_type(self.program, e.left)
        index = e.right.value if isinstance(e.right, Const) else -1
        if found is None or not 0 <= index < len(found.fields):
            raise self.fail("'access_field' needs a header and one of its fields")
        return found.fields[index]
