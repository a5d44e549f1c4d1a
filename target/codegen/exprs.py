# SPDX-License-Identifier: Apache-2.0
"""Expressions -> C.

BMv2 computes with integers of unlimited size and cuts a value only where it is stored or masked. Here each
expression has bounds (exact, from the fields' widths), and is asked for its low `need` bits, or for the
exact value (`need` None). An expression whose bounds fit n limbs, or of which only n limbs are needed, is
computed in n limbs, modulo 2^(64 n): one limb is a uint64_t, two an unsigned __int128, more an array. A
value whose lower bound is negative is held in two's complement.
"""

from __future__ import annotations

from dataclasses import dataclass

from target.bmjson.model import (
    BoolConst,
    Const,
    Expr,
    FieldRef,
    Local,
    Lookahead,
    Op,
    Param,
    RegisterRef,
    StackField,
    StackRef,
    UnionStackRef,
)
from target.codegen import fields
from target.codegen.arrays import register_name
from target.codegen.bounds import BOOLEAN_OPERATORS, COMPARISONS, MAX_LIMBS, Bounds, limbs, limbs_for
from target.codegen.emitter import Emitter, c_u64
from target.codegen.header_tests import HeaderTests
from target.codegen.layout import Layout, slot_bytes
from target.codegen.usage import header_choice


@dataclass(frozen=True, slots=True)
class Value:
    """A computed value. `code`: a C expression of uint64_t (1 limb) or sw_u128 (2), or an array's name."""

    code: str
    limbs: int
    low: int
    high: int
    exact: bool
    """Whether the limbs hold the value itself, within low..high; else only the bits asked for are right."""


class ExprGen(Bounds):
    """Generates expressions for one function, which has `p`, `m`, `st` and `a` (arguments) in scope."""

    def __init__(self, layout: Layout, out: Emitter, params: tuple[Param, ...] = (), place: str = "") -> None:
        super().__init__(layout.program, params, place)
        self.layout = layout
        self.out = out
        self.headers = HeaderTests(self)

    # --- values

    def is_bool(self, e: Expr) -> bool:
        if isinstance(e, BoolConst):
            return True
        if isinstance(e, Op):
            if e.op == "?":
                return e.left is not None and self.is_bool(e.left)
            return e.op in COMPARISONS or e.op in BOOLEAN_OPERATORS
        return False

    def const(self, value: int, n: int) -> str:
        if n == 1:
            return c_u64(value)
        value &= (1 << 64 * n) - 1
        words = [value >> 64 * i & (2**64 - 1) for i in range(n)]
        if n == 2:
            return f"SW_U128({c_u64(words[1])}, {c_u64(words[0])})"
        name = self.out.fresh("c")
        self.out.line(f"static const uint64_t {name}[{n}] = {{{', '.join(c_u64(w) for w in words)}}};")
        return name

    def resize(self, v: Value, n: int) -> str:
        """`v` in n limbs: extended by its sign, or cut."""
        if v.limbs == n:
            return v.code
        signed = v.low < 0
        if n == 1:
            return f"{v.code}[0]" if v.limbs > 2 else f"(uint64_t){v.code}"
        if n == 2:
            if v.limbs > 2:
                return f"sw_wide_to128({v.code})"
            return f"(sw_u128)(sw_i128)(int64_t){v.code}" if signed else f"(sw_u128){v.code}"
        name = self.out.fresh()
        self.out.line(f"uint64_t {name}[{n}];")
        if v.limbs == 1:
            self.out.line(f"sw_wide_set({name}, {n}, {v.code}, {f'(int64_t){v.code} < 0' if signed else 0});")
        elif v.limbs == 2:
            sign = f"(sw_i128){v.code} < 0" if signed else 0
            self.out.line(f"sw_wide_set128({name}, {n}, {v.code}, {sign});")
        else:
            self.out.line(f"sw_wide_resize({name}, {n}, {v.code}, {v.limbs}, {int(signed)});")
        return name

    def store(self, code: str, n: int) -> str:
        """Keep a computed value in a variable; its name."""
        name = self.out.fresh()
        self.out.line(f"{'uint64_t' if n == 1 else 'sw_u128'} {name} = {code};")
        return name

    def value(self, e: Expr, need: int | None = None) -> Value:
        """The value of a data expression: its low `need` bits, or all of it."""
        low, high = self.bounds(e)
        n = limbs_for(low, high)
        exact = True
        if need is not None and limbs(need) < n:
            n, exact = limbs(need), False
        if n > MAX_LIMBS:
            raise self.fail(f"an intermediate value of {n * 64} bits is too wide, at most {64 * MAX_LIMBS}")
        if isinstance(e, Const):
            return Value(self.const(e.value, n), n, low, high, exact)
        if self.is_bool(e):
            return Value(f"(uint64_t)({self.boolean(e)})", 1, 0, 1, True)
        if isinstance(e, Op):
            return Value(self._op(e, n, exact), n, low, high, exact)
        return self._load(e, low, high)

    def number(self, e: Expr, width: int = 64) -> str:
        """The low `width` (1..64) bits of a value as a uint64_t, masked."""
        v = self.value(e, width)
        code = self.resize(v, 1)
        if (v.exact and v.low >= 0 and v.high >> width == 0) or width == 64:
            return code
        return f"({code} & {c_u64((1 << width) - 1)})"

    def exact_u64(self, e: Expr) -> str:
        """A value as a uint64_t index or amount; what does not fit becomes UINT64_MAX."""
        v = self.value(e)
        if v.low < 0:
            v = self.value(Op("&", e, Const(2**64 - 1)))
        if v.limbs == 1:
            return v.code
        if v.limbs == 2:
            t = self.store(v.code, 2)
            return f"({t} >> 64 ? UINT64_MAX : (uint64_t){t})"
        raise self.fail("an index or shift amount wider than 128 bits is not supported")

    def _load(self, e: Expr, low: int, high: int) -> Value:
        n = limbs_for(low, high)
        width = max(high.bit_length(), 1) + (1 if low < 0 else 0)
        if isinstance(e, FieldRef):
            if e.field == "$valid$":
                return Value(f"(uint64_t){self.layout.valid(e.header)}", 1, 0, 1, True)
            return self._extend(self.field(e), width, n, low, high)
        if isinstance(e, Local):
            word = sum(limbs(p.width) for p in self.params[: e.index])
            codes = {1: f"a[{word}]", 2: f"SW_U128(a[{word + 1}], a[{word}])"}
            return Value(codes.get(n, f"(a + {word})"), n, low, high, True)
        if isinstance(e, Lookahead):
            return Value(self._lookahead(e, n), n, low, high, True)
        if isinstance(e, RegisterRef):
            return self._register(e, n, low, high)
        if isinstance(e, StackField):
            index = f"(uint64_t){self.layout.cursor(e.stack)} - 1"
            headers = self.program.stack_headers(e.stack, e.member)
            return self._stack_field(headers, index, e.field, width, low, high)
        raise self.fail("this is not a value")

    def field(self, ref: FieldRef) -> str:
        """C expression of a field as an unsigned number; beyond 128 bits the name of an array."""
        layout = self.layout
        if self.program.headers[ref.header].metadata:
            return layout.metadata(ref)
        place, bit, width = layout.spot(ref)
        if layout.is_varbit(ref):
            return self._varbit(ref, place, bit, limbs(width))
        if width <= 64:
            return fields.load(place, bit, width, slot_bytes(layout.size(ref.header)))
        if width <= 128:
            return f"sw_get_bits128({place}, {bit}, {width})"
        name = self.out.fresh()
        self.out.line(f"uint64_t {name}[{limbs(width)}];")
        self.out.line(f"sw_get_wide({name}, {place}, {bit}, {width});")
        return name

    def _varbit(self, ref: FieldRef, place: str, bit: int, n: int) -> str:
        name = self.out.fresh()
        length = self.layout.var_length(ref.header)
        self.out.line(f"uint64_t {name}[{n}];")
        self.out.line(f"sw_varbit_get({name}, {n}, {place}, {bit}, {length});")
        return f"{name}[0]" if n == 1 else f"SW_U128({name}[1], {name}[0])" if n == 2 else name

    def _extend(self, code: str, width: int, n: int, low: int, high: int) -> Value:
        if n == 1:
            code = f"(uint64_t){code}"
        if low < 0:
            if n <= 2:
                code = f"sw_sext{64 * n}({code}, {width})"
            else:
                name = self.out.fresh()
                self.out.line(f"uint64_t {name}[{n}];")
                self.out.line(f"sw_wide_copy({name}, {code}, {n});")
                self.out.line(f"sw_wide_trunc({name}, {n}, {width}, 1);")
                code = name
        return Value(code, n, low, high, True)

    def _lookahead(self, e: Lookahead, n: int) -> str:
        # The parser emits the check for enough data before it reads.
        if n == 1:
            return f"sw_get_bits(d + off, {e.offset}, {e.width})"
        if n == 2:
            return f"sw_get_bits128(d + off, {e.offset}, {e.width})"
        name = self.out.fresh()
        self.out.line(f"uint64_t {name}[{n}];")
        self.out.line(f"sw_get_wide({name}, d + off, {e.offset}, {e.width});")
        return name

    def _register(self, e: RegisterRef, n: int, low: int, high: int) -> Value:
        register = self.program.registers[e.array]
        cells = register_name(self.program, e.array)
        i = self.store(self.exact_u64(e.index), 1)
        name = self.out.fresh()
        kind = "uint64_t" if n == 1 else "sw_u128"
        if n <= 2:
            cell = f"{cells}[{i}]"
            if not self.is_below(e.index, register.size):
                cell = f"{i} < {register.size}u ? {cell} : (st->index_errors++, 0)"
            self.out.line(f"{kind} {name} = {cell};")
        else:
            self.out.line(f"uint64_t {name}[{n}] = {{0}};")
            self.out.line(f"if ({i} < {register.size}u) sw_wide_copy({name}, {cells} + {i} * {n}, {n});")
            self.out.line("else st->index_errors++;")
        return Value(name, n, low, high, True)

    def _stack_field(
        self, headers: tuple[str, ...], index: str, field: str, width: int, low: int, high: int
    ) -> Value:
        n = limbs_for(low, high)
        name = self.out.fresh()
        refs = [FieldRef(h, field) for h in headers]
        if n <= 2:
            self.out.line(f"{'uint64_t' if n == 1 else 'sw_u128'} {name} = 0;")
        else:
            self.out.line(f"uint64_t {name}[{n}] = {{0}};")
        with self.out.block(f"switch ({index})"):
            for i, ref in enumerate(refs):
                with self.out.block(f"case {i}:", " break;"):
                    code = self.field(ref)
                    self.out.line(f"{name} = {code};" if n <= 2 else f"sw_wide_copy({name}, {code}, {n});")
            self.out.line("default: st->index_errors++;")
        return self._extend(name, width, n, low, high) if low < 0 else Value(name, n, low, high, True)

    # --- operators

    def _op(self, e: Op, n: int, exact: bool) -> str:
        op = e.op
        if op in ("+", "-", "*", "&", "|", "^"):
            assert e.left is not None and e.right is not None
            return self._modular(op, e.left, e.right, n)
        if op == "~":
            assert e.right is not None
            code = self.resize(self.value(e.right, 64 * n), n)
            if n <= 2:
                return f"(~{code})"
            return self._wide("not", n, code)
        if op == "b2d":
            assert e.right is not None
            return f"(uint64_t)({self.boolean(e.right)})"
        if op in ("<<", ">>"):
            return self._shift(e, n)
        if op == "?":
            return self._choose(e, n)
        if op in ("/", "%"):
            return self._divide(e, n)
        if op in ("two_comp_mod", "sat_cast", "usat_cast"):
            return self._cast(e, n)
        if op in ("last_stack_index", "size_stack"):
            if not isinstance(e.right, StackRef | UnionStackRef):
                raise self.fail(f"{op!r} needs a header stack")
            code = f"(uint64_t){self.layout.cursor(e.right.name)}"
            return f"({code} - 1)" if op == "last_stack_index" else code
        if op == "access_field":
            kind = self.accessed(e)
            low, high = self.bounds(e)
            found = header_choice(self.program, e.left)
            assert found is not None
            chosen, headers = found
            if chosen is None:
                return self._load(FieldRef(headers[0], kind.name), low, high).code
            index = self.exact_u64(chosen)
            return self._stack_field(headers, index, kind.name, kind.width, low, high).code
        raise self.fail(f"operator {op!r} is not supported here")

    def _wide(self, name: str, n: int, *args: str) -> str:
        result = self.out.fresh()
        self.out.line(f"uint64_t {result}[{n}];")
        self.out.line(f"sw_wide_{name}({result}, {', '.join(args)}, {n});")
        return result

    def _modular(self, op: str, left: Expr, right: Expr, n: int) -> str:
        need = 64 * n
        if op == "&":
            # A mask that keeps whatever the other side can hold is no work at all.
            for value, mask in ((left, right), (right, left)):
                if isinstance(mask, Const) and mask.value >= 0:
                    low, high = self.bounds(value)
                    ones = mask.value & (mask.value + 1) == 0
                    if ones and low >= 0 and high <= mask.value:
                        return self.resize(self.value(value, need), n)
                    need = min(need, max(1, mask.value.bit_length()))
        a = self.resize(self.value(left, need), n)
        b = self.resize(self.value(right, need), n)
        if n <= 2:
            return f"({a} {op} {b})"
        names = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
        return self._wide(names[op], n, a, b)

    def _shift(self, e: Op, n: int) -> str:
        assert e.left is not None and e.right is not None
        low, high = self.bounds(e.right)
        if low < 0:
            raise self.fail("a negative shift amount is not supported")
        amount = str(e.right.value) if isinstance(e.right, Const) else self.exact_u64(e.right)
        if e.op == "<<":
            code = self.resize(self.value(e.left, 64 * n), n)
            if n <= 2 and high < 64 * n and isinstance(e.right, Const):
                return f"({code} << {amount})"
            if n <= 2:
                return f"sw_shl{64 * n}({code}, {amount})"
            return self._wide("shl", n, code, amount)
        v = self.value(e.left)
        if v.limbs <= 2:
            bits = 64 * v.limbs
            if v.low >= 0 and high < bits and isinstance(e.right, Const):
                code = f"({v.code} >> {amount})"
            else:
                code = f"sw_{'sar' if v.low < 0 else 'shr'}{bits}({v.code}, {amount})"
            return self.resize(Value(code, v.limbs, v.low, v.high, True), n)
        if n <= 2 and isinstance(e.right, Const) and v.low >= 0 and e.right.value + 64 * n <= 64 * v.limbs:
            # A slice of a wide value: pick its limbs.
            limb, bit = divmod(e.right.value, 64)
            word = [f"{v.code}[{limb + i}]" for i in range(min(n + 1, v.limbs - limb))]
            if bit:
                parts = [
                    f"({word[i]} >> {bit} | {word[i + 1]} << {64 - bit})"
                    if i + 1 < len(word)
                    else f"({word[i]} >> {bit})"
                    for i in range(n)
                ]
            else:
                parts = word[:n]
            return parts[0] if n == 1 else f"SW_U128({parts[1]}, {parts[0]})"
        result = self.out.fresh()
        self.out.line(f"uint64_t {result}[{v.limbs}];")
        self.out.line(f"sw_wide_shr({result}, {v.code}, {amount}, {v.limbs}, {int(v.low < 0)});")
        return self.resize(Value(result, v.limbs, v.low, v.high, True), n)

    def _choose(self, e: Op, n: int) -> str:
        assert e.cond is not None and e.left is not None and e.right is not None
        cond = self.boolean(e.cond)
        name = self.out.fresh()
        if n <= 2:
            kind = "uint64_t" if n == 1 else "sw_u128"
            self.out.line(f"{kind} {name};")
        else:
            self.out.line(f"uint64_t {name}[{n}];")
        for head, part in ((f"if ({cond})", e.left), ("else", e.right)):
            with self.out.block(head):
                code = self.resize(self.value(part, 64 * n), n)
                self.out.line(f"{name} = {code};" if n <= 2 else f"sw_wide_copy({name}, {code}, {n});")
        return name

    def _divide(self, e: Op, n: int) -> str:
        assert e.left is not None and e.right is not None
        a, b = self.value(e.left), self.value(e.right)
        width = max(a.limbs, b.limbs)
        if a.low < 0 or b.low < 0:
            raise self.fail("division of signed values is not supported")
        if width > 2:
            quotient, rest = self.out.fresh(), self.out.fresh()
            self.out.line(f"uint64_t {quotient}[{width}], {rest}[{width}];")
            dividend, divisor = self.resize(a, width), self.resize(b, width)
            self.out.line(f"sw_wide_divide({quotient}, {rest}, {dividend}, {divisor}, {width});")
            return self.resize(Value(quotient if e.op == "/" else rest, width, 0, a.high, True), n)
        dividend, divisor = self.resize(a, width), self.store(self.resize(b, width), width)
        code = f"({divisor} ? {dividend} {e.op} {divisor} : 0)"
        return self.resize(Value(code, width, 0, a.high, True), n)

    def _cast(self, e: Op, n: int) -> str:
        assert e.left is not None
        width = self.const_width(e.right, e.op)
        low, high = self.width_bounds(width, e.op != "usat_cast")
        inner = self.bounds(e.left)
        if low <= inner[0] and inner[1] <= high:
            return self.resize(self.value(e.left, 64 * n), n)
        if e.op == "two_comp_mod":
            m = limbs(width)
            code = self.resize(self.value(e.left, width), m)
            if m <= 2:
                code = f"sw_sext{64 * m}({code}, {width})"
            else:
                name = self._wide_copy(code, m)
                self.out.line(f"sw_wide_trunc({name}, {m}, {width}, 1);")
                code = name
            return self.resize(Value(code, m, low, high, True), n)
        v = self.value(e.left)
        m = max(v.limbs, limbs_for(min(low, v.low), max(high, v.high)))
        code = self.resize(v, m)
        signed = min(low, v.low) < 0
        if m <= 2:
            name = self.store(code, m)
            kind = ("int64_t" if m == 1 else "sw_i128") if signed else ("uint64_t" if m == 1 else "sw_u128")
            for test, limit in (("<", low), (">", high)):
                if (v.low < low) if test == "<" else (v.high > high):
                    bound = self.const(limit, m)
                    self.out.line(f"if (({kind}){name} {test} ({kind}){bound}) {name} = {bound};")
            return self.resize(Value(name, m, low, high, True), n)
        name = self._wide_copy(code, m)
        low_name, high_name = self.const(low, m), self.const(high, m)
        self.out.line(
            f"if (sw_wide_lt({name}, {low_name}, {m}, {int(signed)})) sw_wide_copy({name}, {low_name}, {m});"
        )
        self.out.line(
            f"else if (sw_wide_lt({high_name}, {name}, {m}, {int(signed)}))"
            f" sw_wide_copy({name}, {high_name}, {m});"
        )
        return self.resize(Value(name, m, low, high, True), n)

    def _wide_copy(self, code: str, n: int) -> str:
        name = self.out.fresh()
        self.out.line(f"uint64_t {name}[{n}];")
        self.out.line(f"sw_wide_copy({name}, {code}, {n});")
        return name

    # --- booleans

    def boolean(self, e: Expr) -> str:
        """A C expression that is 0 or not 0."""
        if isinstance(e, BoolConst):
            return str(int(e.value))
        if not isinstance(e, Op) or not self.is_bool(e):
            raise self.fail("expected a boolean expression")
        op = e.op
        if op == "not":
            assert e.right is not None
            return f"(!{self.boolean(e.right)})"
        if op in ("and", "or"):
            assert e.left is not None and e.right is not None
            return f"({self.boolean(e.left)} {'&&' if op == 'and' else '||'} {self.boolean(e.right)})"
        if op in ("valid", "valid_union"):
            return self.headers.validity(op, e.right)
        if op == "d2b":
            assert e.right is not None
            v = self.value(e.right)
            return f"({v.code} != 0)" if v.limbs <= 2 else f"(!{self._is_zero(v)})"
        if op == "?":
            assert e.cond is not None and e.left is not None and e.right is not None
            return f"({self.boolean(e.cond)} ? {self.boolean(e.left)} : {self.boolean(e.right)})"
        assert e.left is not None and e.right is not None
        if op in ("==", "!=") and self.is_bool(e.left):
            return f"(!{self.boolean(e.left)} {op} !{self.boolean(e.right)})"
        if op in ("==", "!=") and self.headers.denotes(e.left) is not None:
            return self.headers.equal(e)
        return self.compare(op, e.left, e.right)

    def _is_zero(self, v: Value) -> str:
        return f"sw_wide_eq({v.code}, {self.const(0, v.limbs)}, {v.limbs})"

    def compare(self, op: str, left: Expr, right: Expr) -> str:
        a, b = self.value(left), self.value(right)
        low, high = min(a.low, b.low), max(a.high, b.high)
        n = limbs_for(low, high)
        x, y = self.resize(a, n), self.resize(b, n)
        if n <= 2:
            if low < 0 and op not in ("==", "!="):
                kind = "int64_t" if n == 1 else "sw_i128"
                return f"(({kind}){x} {op} ({kind}){y})"
            return f"({x} {op} {y})"
        signed = int(low < 0)
        if op in ("==", "!="):
            return f"({'!' if op == '!=' else ''}sw_wide_eq({x}, {y}, {n}))"
        if op in ("<", ">="):
            return f"({'!' if op == '>=' else ''}sw_wide_lt({x}, {y}, {n}, {signed}))"
        return f"({'!' if op == '<=' else ''}sw_wide_lt({y}, {x}, {n}, {signed}))"
