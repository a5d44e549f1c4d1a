# SPDX-License-Identifier: Apache-2.0
"""Control-plane names that table keys have by themselves."""

from __future__ import annotations

from .. import annos as an
from .. import ast
from ..diag import CompileError
from ..types import Struct
from .exprs import ExprChecker
from .fold import as_int


class KeyNamer(ExprChecker):
    """Names of keys without ``@name``."""

    def key_name(self, e: ast.Expr) -> str | None:
        """Control-plane name that a key has by itself; None if it needs ``@name``."""
        if isinstance(e, ast.Name):
            return ("." if e.rooted else "") + e.name
        if isinstance(e, ast.Member):
            return self._member_key_name(e)
        if isinstance(e, ast.Call) and not e.args and isinstance(e.target, ast.Member):
            base = self.key_name(e.target.base)
            return f"{base}.$valid$" if base is not None and e.target.name == "isValid" else None
        if isinstance(e, ast.Int):
            return _shown_int(e)
        parts: tuple[str | None, ...] = ()
        shape = ""
        if isinstance(e, ast.Index):
            parts, shape = (self.key_name(e.base), self._const_name(e.index)), "{}[{}]"
        elif isinstance(e, ast.Slice) and not e.plus:
            parts = (self.key_name(e.base), self._const_name(e.hi), self._const_name(e.lo))
            shape = "{}[{}:{}]"
        elif isinstance(e, ast.Binary) and e.op == "&":
            parts, shape = (self.key_name(e.left), self.key_name(e.right)), "{} & {}"
        if not shape or None in parts:
            return None
        return shape.format(*parts)

    def _const_name(self, e: ast.Expr) -> str | None:
        if isinstance(e, ast.Int):
            return _shown_int(e)
        try:
            value = as_int(self.expr(e))
        except CompileError:
            return None
        return self.key_name(e) if value is None else str(value)

    def _member_key_name(self, e: ast.Member) -> str | None:
        name = e.name
        try:
            base_type_ = self.expr(e.base).type
        except CompileError:
            return None
        if isinstance(base_type_, Struct):
            f = base_type_.find(name)
            if f is not None:
                name = an.external_name(name, f.annos)
        if name.startswith("."):
            return name[1:]
        base = self.key_name(e.base)
        return None if base is None else f"{base}.{name}"


def _shown_int(e: ast.Int) -> str:
    lead = e.text.replace("_", "").lower()
    body = lead.split("w")[-1].split("s")[-1] if e.width is not None else lead
    if body.startswith("0x"):
        return f"0x{e.value:x}"
    if body.startswith("0b"):
        return f"0b{e.value:b}"
    if body.startswith("0o"):
        return f"0o{e.value:o}"
    return str(e.value)
