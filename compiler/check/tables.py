# SPDX-License-Identifier: Apache-2.0
"""Checking of tables: keys, actions, default action, entries, properties."""

from __future__ import annotations

from collections.abc import Sequence

from .. import annos as an
from .. import ast, ir
from ..diag import CompileError, fail
from ..show import expr as show
from ..source import Span
from ..types import BOOL, BROKEN, ERROR, INT, Bits, Enum, SerEnum, base_type
from .fold import as_int, is_const
from .stmts import StmtChecker

#: Properties v1model gives a meaning to.
KNOWN = frozenset(
    {
        "key",
        "actions",
        "default_action",
        "entries",
        "size",
        "counters",
        "meters",
        "implementation",
        "support_timeout",
        "largest_priority_wins",
        "priority_delta",
    }
)
_PRIORITY_KINDS = frozenset({"ternary", "range", "optional"})


class TableChecker(StmtChecker):
    """Tables."""

    def table(self, d: ast.TableDecl) -> ir.Table:
        t = ir.Table(d.name, d.name_span, d.annos)
        props: dict[str, ast.Property] = {}
        for p in d.props:
            if p.name in props:
                self.diags.error("E011", f"property '{p.name}' is given twice", p.span)
            props.setdefault(p.name, p)
        for step in (self._keys, self._actions, self._default, self._other_props, self._entries):
            try:
                step(t, d, props)
            except CompileError as e:
                self.report(e)
        return t

    def _keys(self, t: ir.Table, d: ast.TableDecl, props: dict[str, ast.Property]) -> None:
        prop = props.get("key")
        for k in (prop.keys if prop is not None else None) or ():
            try:
                t.keys.append(self._key(k))
            except CompileError as e:
                self.report(e)
                t.keys.append(ir.Key(ir.Lit(k.span, BROKEN, 0), k.match_kind, None, k.annos, k.span))

    def _key(self, k: ast.KeyElement) -> ir.Key:
        expr = self.expr(k.expr)
        if k.match_kind not in self.match_kinds:
            raise fail(
                "E010",
                f"match kind '{k.match_kind}' is not declared",
                k.match_span,
                hint=f"one of {', '.join(self.match_kinds)}",
            )
        b = base_type(expr.type)
        if not (isinstance(b, (Bits, Enum, SerEnum)) or b in (BOOL, ERROR) or b is BROKEN):
            hint = "give the number a width" if b == INT else None
            raise fail("E032", f"a key cannot have type {expr.type}", k.expr.span, hint=hint)
        anno = an.find(k.annos, "name")
        name = an.string_arg(anno) if anno is not None else self.key_name(k.expr)
        return ir.Key(expr, k.match_kind, name, k.annos, k.span)

    # -- actions -------------------------------------------------------------------------------

    def _find_action(self, name: str, rooted: bool, span: Span) -> ir.Action:
        sym = self.lookup(name, span, rooted)
        if not isinstance(sym, ir.Action):
            raise fail("E013", f"'{name}' is not an action", span)
        sym.used = True
        return sym

    def _actions(self, t: ir.Table, d: ast.TableDecl, props: dict[str, ast.Property]) -> None:
        prop = props.get("actions")
        if prop is None or prop.actions is None:
            raise fail(
                "E031", f"table {d.name} has no 'actions'", d.name_span, hint="add: actions = { NoAction; }"
            )
        for r in prop.actions:
            try:
                action = self._find_action(r.name, r.rooted, r.span)
                if any(x.action is action for x in t.actions):
                    raise fail("E011", f"action {r.name} is in the list twice", r.span)
                args = self._directional(action, r)
                t.actions.append(ir.ActionRef(action, args, r.annos, r.span))
            except CompileError as e:
                self.report(e)

    def _directional(self, action: ir.Action, r: ast.ActionRef) -> tuple[ir.Expr | None, ...]:
        """Arguments of an action in the list: they bind the parameters that have a direction."""
        bound = [p for p in action.params if p.direction]
        args = self.bind(bound, r.args or (), r.span, action.name)
        return tuple(
            None if a is None else self._argument(p, self.expr(a, p.type), p.type, action.name)
            for p, a in zip(bound, args, strict=True)
        )

    def _call_of(self, t: ir.Table, r: ast.ActionRef, what: str) -> ir.ActionCall:
        action = self._find_action(r.name, r.rooted, r.span)
        ref = next((x for x in t.actions if x.action is action), None)
        if ref is None:
            raise fail(
                "E031",
                f"{what} {r.name} is not in the list of actions of table {t.name}",
                r.span,
                hint="add it to 'actions'",
            )
        given = r.args or ()
        params: Sequence[ir.VarSym] = action.params
        plain = [p for p in params if not p.direction]
        full = self.bind(params, given, r.span, action.name)
        values = iter(v for p, v in zip(params, full, strict=True) if not p.direction)
        args: list[ir.Expr | None] = []
        for p in plain:
            a = next(values)
            if a is None:
                args.append(p.default)
                continue
            e = self._argument(p, self.expr(a, p.type), p.type, action.name)
            if not is_const(e) and e.type is not BROKEN:
                raise fail("E025", f"argument '{p.name}' must be known at compile time", a.span)
            args.append(e)
        return ir.ActionCall(action, tuple(args), r.span)

    def _default(self, t: ir.Table, d: ast.TableDecl, props: dict[str, ast.Property]) -> None:
        prop = props.get("default_action")
        if prop is not None and prop.expr is not None:
            t.default = self._call_of(t, self._as_action_ref(prop.expr), "default action")
            t.default_const = prop.const
            self._same_bound(t, prop.expr)
            for ref in t.actions:
                if ref.action is t.default.action and an.has(ref.annos, "tableonly"):
                    raise fail(
                        "E031",
                        f"action {ref.action.name} is @tableonly and cannot be the default action",
                        prop.span,
                    )
            return
        if "actions" not in props:
            return
        no_action = self.globals.find("NoAction")
        if not isinstance(no_action, ir.Action):
            raise fail(
                "E031",
                f"table {d.name} has no default_action, and NoAction is not declared",
                d.name_span,
                hint="include <core.p4>",
            )
        if not any(r.action is no_action for r in t.actions):
            span = d.name_span
            t.actions.append(ir.ActionRef(no_action, (), (ast.Annotation(span, "defaultonly"),), span))
        t.default = ir.ActionCall(no_action, (), d.name_span)

    def _same_bound(self, t: ir.Table, e: ast.Expr) -> None:
        """Arguments with a direction must be those given in the list of actions."""
        r = self._as_action_ref(e)
        assert t.default is not None
        ref = next(x for x in t.actions if x.action is t.default.action)
        full = self.bind(ref.action.params, r.args or (), r.span, ref.action.name)
        given = [v for p, v in zip(ref.action.params, full, strict=True) if p.direction]
        bound = [p for p in ref.action.params if p.direction]
        for p, a, b in zip(bound, given, ref.args, strict=True):
            if a is None or b is None:
                continue
            if show(self._argument(p, self.expr(a, p.type), p.type, ref.action.name)) != show(b):
                raise fail("E031", f"argument '{p.name}' differs from the one in the list of actions", a.span)

    def _as_action_ref(self, e: ast.Expr) -> ast.ActionRef:
        if isinstance(e, ast.Name):
            return ast.ActionRef(e.span, e.name, e.rooted, None, ())
        if isinstance(e, ast.Call) and isinstance(e.target, ast.Name) and not e.targs:
            return ast.ActionRef(e.span, e.target.name, e.target.rooted, e.args, ())
        raise fail("E031", "default_action must be an action", e.span)

    # -- other properties ----------------------------------------------------------------------

    def _other_props(self, t: ir.Table, d: ast.TableDecl, props: dict[str, ast.Property]) -> None:
        for name, p in props.items():
            if name in ("key", "actions", "default_action", "entries") or p.expr is None:
                continue
            if name not in KNOWN:
                self.diags.warning("W106", f"table property '{name}' is not known and is ignored", p.span)
                continue
            value = self.expr(p.expr)
            if name in ("size", "priority_delta"):
                n = as_int(value)
                if n is None or not (value.type == INT or isinstance(value.type, Bits)):
                    raise fail("E031", f"'{name}' must be an integer known at compile time", p.expr.span)
                if n < 0:
                    raise fail("E026", f"'{name}' cannot be negative", p.expr.span)
                if name == "size":
                    t.size = n
            elif name in ("support_timeout", "largest_priority_wins"):
                if not (isinstance(value, ir.Lit) and value.type == BOOL):
                    raise fail("E031", f"'{name}' must be true or false", p.expr.span)
            elif not isinstance(value, (ir.InstanceRef, ir.Call)):
                raise fail("E031", f"'{name}' must name an extern instance", p.expr.span)
            t.props[name] = ir.Property(name, value, p.annos, p.span, p.const)

    # -- entries -------------------------------------------------------------------------------

    def _entries(self, t: ir.Table, d: ast.TableDecl, props: dict[str, ast.Property]) -> None:
        prop = props.get("entries")
        if prop is None or prop.entries is None:
            return
        if not t.keys and prop.entries:
            raise fail("E032", f"table {d.name} has entries but no key", prop.span)
        t.entries = []
        t.entries_const = prop.const
        for e in prop.entries:
            try:
                t.entries.append(self._entry(t, e))
            except CompileError as err:
                self.report(err)
        self._priorities(t, prop)

    def _entry(self, t: ir.Table, e: ast.Entry) -> ir.Entry:
        if len(e.keys) != len(t.keys):
            raise fail("E032", f"table {t.name} has {len(t.keys)} keys, this entry {len(e.keys)}", e.span)
        keys = []
        for k, key in zip(e.keys, t.keys, strict=True):
            typed = self.keyset(k, key.expr.type, "in this entry")
            self._check_entry_key(typed, key)
            keys.append(typed)
        call = self._call_of(t, e.action, "action")
        for ref in t.actions:
            if ref.action is call.action and an.has(ref.annos, "defaultonly"):
                raise fail(
                    "E032", f"action {call.action.name} is @defaultonly and cannot be in an entry", e.span
                )
        priority = None if e.priority is None else self.const_int(e.priority, "a priority")
        return ir.Entry(tuple(keys), call, priority, e.const, e.annos, e.span)

    def _check_entry_key(self, e: ir.Expr, key: ir.Key) -> None:
        kind = key.match_kind
        parts = (
            (e.value, e.mask)
            if isinstance(e, ir.MaskKey)
            else (e.lo, e.hi)
            if isinstance(e, ir.RangeKey)
            else ()
            if isinstance(e, ir.AnyKey)
            else (e,)
        )
        for part in parts:
            if not is_const(part) and part.type is not BROKEN:
                raise fail("E025", "the keys of an entry must be known at compile time", part.span)
        if isinstance(e, ir.MaskKey) and kind not in ("ternary", "lpm"):
            raise fail("E032", f"a mask cannot be used for a key of kind {kind}", e.span)
        if isinstance(e, ir.RangeKey) and kind != "range":
            raise fail("E032", f"a range cannot be used for a key of kind {kind}", e.span)
        if isinstance(e, ir.AnyKey) and kind == "exact":
            raise fail("E032", "'_' cannot be used for an exact key", e.span)
        if isinstance(e, ir.MaskKey) and kind == "lpm":
            mask, width = as_int(e.mask), base_type(key.expr.type)
            if mask is not None and isinstance(width, Bits):
                inverted = ~mask & ((1 << width.width) - 1)
                if inverted & (inverted + 1):
                    raise fail("E032", "the mask of an lpm key must be a prefix", e.mask.span)

    def _priorities(self, t: ir.Table, prop: ast.Property) -> None:
        """Priorities of initial entries (P4_16 specification, section on entries with priorities)."""
        entries = t.entries or []
        needs = any(k.match_kind in _PRIORITY_KINDS for k in t.keys)
        if not needs or not entries:
            for e in entries:
                if e.priority is not None:
                    self.diags.error(
                        "E032", "priorities are only allowed with ternary, range or optional keys", e.span
                    )
            return
        if prop.const and any(e.priority is not None for e in entries):
            self.diags.error(
                "E032", "entries that are const are tried in order and take no priorities", prop.span
            )
            return
        if prop.const:
            return
        largest_prop, delta_prop = t.props.get("largest_priority_wins"), t.props.get("priority_delta")
        largest = not (
            largest_prop is not None
            and isinstance(largest_prop.value, ir.Lit)
            and not largest_prop.value.value
        )
        delta = (as_int(delta_prop.value) if delta_prop is not None else None) or 1
        if all(e.priority is None for e in entries):
            count = len(entries)
            values = [1 + (count - 1 - i) * delta if largest else 1 + i * delta for i in range(count)]
        else:
            values = []
            for e in entries:
                if e.priority is not None:
                    values.append(e.priority)
                elif not values:
                    self.diags.error("E032", "the first entry needs a priority if others have one", e.span)
                    return
                else:
                    values.append(values[-1] - delta if largest else values[-1] + delta)
        t.entries = [
            ir.Entry(e.keys, e.call, v, e.const, e.annos, e.span)
            for e, v in zip(entries, values, strict=True)
        ]
