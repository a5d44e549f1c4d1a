# SPDX-License-Identifier: Apache-2.0
"""Tests of whole headers and header unions: valid or not, equal or not, as simple_switch has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from target.bmjson.model import Expr, FieldRef, Op
from target.codegen.usage import Choice, header_choice, union_choice

if TYPE_CHECKING:
    from target.codegen.exprs import ExprGen


class HeaderTests:
    def __init__(self, gen: ExprGen) -> None:
        self.gen = gen

    def denotes(self, e: Expr | None) -> Choice | None:
        """The headers or unions that an expression may denote."""
        return header_choice(self.gen.program, e) or union_choice(self.gen.program, e)

    def validity(self, op: str, e: Expr | None) -> str:
        found = (header_choice if op == "valid" else union_choice)(self.gen.program, e)
        if found is None:
            raise self.gen.fail(f"{op!r} needs a header{' union' if op == 'valid_union' else ''}")
        test = self.gen.layout.valid if op == "valid" else self.gen.layout.any_valid
        index, names = found
        if index is None:
            return test(names[0])
        result = self.gen.out.fresh()
        self.gen.out.line(f"int {result} = 0;")
        with self._choose_name(found) as cases:
            for i, name in cases:
                self.gen.out.line(f"case {i}: {result} = {test(name)}; break;")
        return result

    @contextmanager
    def _choose_name(self, choice: Choice) -> Iterator[Iterator[tuple[int, str]]]:
        """A switch over what an index chooses. An index beyond is counted."""
        index, names = choice
        assert index is not None
        with self.gen.out.block(f"switch ({self.gen.exact_u64(index)})"):
            yield enumerate(names)
            self.gen.out.line("default: st->index_errors++;")

    def equal(self, e: Op) -> str:
        left, right = self.denotes(e.left), self.denotes(e.right)
        if left is None or right is None:
            raise self.gen.fail("a header or union can be compared with another one only")
        if left[0] is None and right[0] is None:
            same = self._same(left[1][0], right[1][0])
            return same if e.op == "==" else f"(!{same})"
        result = self.gen.out.fresh()
        self.gen.out.line(f"int {result} = 0;")

        def both(a: str, b: str) -> None:
            self.gen.out.line(f"{result} = {self._same(a, b)};")

        self.for_chosen(left, lambda a: self.for_chosen(right, lambda b: both(a, b)))
        return result if e.op == "==" else f"(!{result})"

    def for_chosen(self, choice: Choice, body: Callable[[str], None]) -> None:
        """Emit `body` for what an expression denotes, in a switch where an index chooses it."""
        if choice[0] is None:
            body(choice[1][0])
            return
        with self._choose_name(choice) as cases:
            for i, name in cases:
                with self.gen.out.block(f"case {i}:", " break;"):
                    body(name)

    def _same(self, a: str, b: str) -> str:
        """C expression: two headers, or two unions, are equal: both are valid and have the same fields."""
        program = self.gen.program
        if a in program.unions and b in program.unions:
            if program.unions[a].type is not program.unions[b].type:
                raise self.gen.fail("unions of different types can't be compared")
            members = zip(program.unions[a].headers, program.unions[b].headers, strict=True)
            return f"({' || '.join(self._same(x, y) for x, y in members)})"
        if a not in program.headers or b not in program.headers:
            raise self.gen.fail("a header can't be compared with a union")
        header_type = program.headers[a].type
        if header_type is not program.headers[b].type:
            raise self.gen.fail("headers of different types can't be compared")
        tests = [self.gen.compare("==", FieldRef(a, f.name), FieldRef(b, f.name)) for f in header_type.fields]
        return f"({' && '.join([self.gen.layout.valid(a), self.gen.layout.valid(b), *tests])})"
