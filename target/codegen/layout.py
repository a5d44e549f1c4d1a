# SPDX-License-Identifier: Apache-2.0
"""Where each field lives.

Headers are kept as they are on the wire: the parser copies their bytes from the frame into the packet's
`struct phv`, fields are read and written there, the deparser copies back the headers that were written to, or
all of them where they have moved. A bit says which are valid, another which are `dirty`.

Metadata lives in `struct meta`, local to the function that runs a control, so that the C compiler keeps it in
registers. What a later function needs of it is kept in `struct phv` in between; metadata wider than 128 bits
is always there. Metadata fields that nobody reads have no storage, and assignments to them vanish.
"""

from __future__ import annotations

import copy

from target.bmjson.model import Expr, FieldRef, HeaderType, Program
from target.codegen.bounds import limbs
from target.codegen.emitter import Emitter, comment
from target.codegen.liveness import Fields, Liveness
from target.codegen.parseplan import ParsePlan
from target.codegen.usage import EGRESS_RID, EGRESS_STARTS, Usage, header_type
from target.codegen.varbit import VarField, var_field

_MOVING = {
    "add_header", "remove_header", "assign_header", "assign_header_stack", "assign_union",
    "assign_union_stack", "push", "pop", "copy_header", "add_header_fast",
}  # fmt: skip


def ctype(width: int) -> str:
    """C type of an unsigned value of `width` bits, up to 128."""
    for bits in (8, 16, 32, 64):
        if width <= bits:
            return f"uint{bits}_t"
    return "sw_u128"


def declare(width: int, name: str) -> str:
    return f"uint64_t {name}[{limbs(width)}]" if width > 128 else f"{ctype(width)} {name}"


def slot_bytes(size: int) -> int:
    """Room for a header of `size` bytes: what is quick to copy at once."""
    for step in (1, 2, 4, 8):
        if size <= step:
            return step
    return (size + 15) // 16 * 16


class Layout:
    """Answers: is this field live, where is it. In scope: `st`, `pkt`, `p` (phv) and `m` (meta)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.usage = Usage(program)
        self.plan = ParsePlan(program)
        self.header_index = {name: i for i, name in enumerate(program.headers)}
        self.stack_index = {name: i for i, name in enumerate(program.stacks)}
        self.union_stack_index = {name: i for i, name in enumerate(program.union_stacks)}
        self.stack_of = {h: s.name for s in program.stacks.values() for h in s.headers}
        self._union_of = {h: union for union in program.unions.values() for h in union.headers}
        self.packed = [h.name for h in program.headers.values() if not h.metadata]
        self._bit = {name: i for i, name in enumerate(self.packed)}
        found = {name: var_field(program.headers[name].type) for name in self.packed}
        self.varbits: dict[str, VarField] = {name: f for name, f in found.items() if f is not None}
        ops = self.usage.ops
        self.reenters = bool(ops & {"resubmit", "recirculate"})
        self.splits_egress = bool(ops & {"clone_egress_pkt_to_egress", "recirculate"})
        """Whether the engine may have to look at a packet between egress and deparser."""
        self.exits = "exit" in ops
        self.clones = bool(ops & {"clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress"})
        self.clones_ingress = "clone_ingress_pkt_to_egress" in ops
        self.can_move = bool(ops & _MOVING) or bool(self.plan.irregular) or bool(self.varbits)
        self._kept_by_packets()
        self.in_phv: Fields = frozenset()
        """Metadata that the function at hand reads and writes in `p`."""

    def _kept_by_packets(self) -> None:
        program = self.program
        liveness = Liveness(program)
        listed = frozenset(
            (ref.header, ref.field)
            for fields in program.field_lists.values()
            for ref in fields.fields
            if program.headers[ref.header].metadata and ref.field != "$valid$"
        )
        spec = program.standard("standard_metadata.egress_spec")
        ends = listed | (frozenset([(spec.header, spec.field)]) if spec is not None else frozenset())
        self.into_deparser = liveness.before_deparser(listed)
        starts = [program.standard(name) for name in EGRESS_STARTS]
        always = frozenset((ref.header, ref.field) for ref in starts if ref is not None)
        rid = program.standard(EGRESS_RID)
        self.set_for_egress = always | (frozenset([(rid.header, rid.field)]) if rid is not None else always)
        self.into_egress = liveness.before_egress(self.into_deparser | ends, always)
        self.written_in_egress = liveness.written(program.egress)
        self.drops_in_egress = spec is not None and (spec.header, spec.field) in self.written_in_egress
        """Else `egress_spec` stays what egress starts with, which is no port to drop at."""
        self.listed = listed
        metadata = [h for h in program.headers.values() if h.metadata]
        wide = frozenset((h.name, f.name) for h in metadata for f in h.type.fields if f.width > 128)
        self.wide = wide
        kind = program.standard("standard_metadata.instance_type")
        again = frozenset([(kind.header, kind.field)]) if self.reenters and kind is not None else frozenset()
        self.preserved = listed | again
        """What a packet that enters ingress again has from before."""
        self.kept = (self.into_egress | self.into_deparser | self.preserved) - wide

    def view(self, in_phv: Fields) -> Layout:
        """The same for functions that find this metadata in `p`."""
        found = copy.copy(self)
        found.in_phv = in_phv
        return found

    # --- which fields live

    def is_live(self, ref: FieldRef) -> bool:
        """Whether the field has storage."""
        if ref.field == "$valid$" or not self.program.headers[ref.header].metadata:
            return True
        return self.usage.key(ref.header, ref.field) in self.usage.read

    def is_written(self, ref: FieldRef) -> bool:
        return self.usage.key(ref.header, ref.field) in self.usage.written

    def has_writes(self, header: str) -> bool:
        """Whether a field of the header may be written."""
        fields = self.program.headers[header].type.fields
        return any(self.is_written(FieldRef(header, f.name)) for f in fields)

    def type_of(self, expr: Expr | None) -> HeaderType | None:
        """Header type of an expression that denotes a header."""
        return header_type(self.program, expr)

    # --- headers

    def _mask(self, header: str, what: str) -> tuple[str, str]:
        word, bit = divmod(self._bit[header], 64)
        return f"m->{what}{word}", f"UINT64_C({1 << bit:#x})"

    def valid(self, header: str) -> str:
        """C expression for a header's validity: 0 or 1; metadata is always valid."""
        if self.program.headers[header].metadata or self.program.headers[header].local:
            return "1"
        word, bit = divmod(self._bit[header], 64)
        return f"(m->valid{word} >> {bit} & 1)" if bit else f"(m->valid{word} & 1)"

    def all_valid(self, headers: list[str]) -> str:
        """C condition: all of these headers are valid."""
        words: dict[int, int] = {}
        for name in headers:
            if self.program.headers[name].local:
                continue
            word, bit = divmod(self._bit[name], 64)
            words[word] = words.get(word, 0) | 1 << bit
        tests = [f"(m->valid{w} & UINT64_C({bits:#x})) == UINT64_C({bits:#x})" for w, bits in words.items()]
        return " && ".join(tests) or "1"

    def set_valid(self, header: str) -> str:
        """Of a union, the others become invalid."""
        word, mask = self._mask(header, "valid")
        union = self._union_of.get(header)
        others = (
            [self.set_invalid(name) for name in union.headers if name != header] if union is not None else []
        )
        return " ".join([*others, f"{word} |= {mask};"])

    def flip_valid(self, header: str) -> str:
        word, mask = self._mask(header, "valid")
        return f"{word} ^= {mask};"

    def any_valid(self, union: str) -> str:
        """C expression for a union's validity: 0 or 1."""
        words: dict[int, int] = {}
        for name in self.program.unions[union].headers:
            word, bit = divmod(self._bit[name], 64)
            words[word] = words.get(word, 0) | 1 << bit
        tests = [f"(m->valid{w} & UINT64_C({bits:#x}))" for w, bits in words.items()]
        return f"(({' | '.join(tests)}) != 0)"

    def set_invalid(self, header: str) -> str:
        word, mask = self._mask(header, "valid")
        return f"{word} &= ~{mask};"

    def set_dirty(self, header: str) -> str:
        word, mask = self._mask(header, "dirty")
        return f"{word} |= {mask};"

    def needs_writing(self, header: str) -> str:
        """C condition: valid and dirty."""
        word, mask = self._mask(header, "valid")
        return f"{word} & {self._mask(header, 'dirty')[0]} & {mask}"

    @property
    def words(self) -> int:
        """Words of `valid` and of `dirty`."""
        return max(1, (len(self.packed) + 63) // 64)

    def place(self, header: str) -> str:
        """C expression of a header's bytes."""
        return f"p->h{self.header_index[header]}"

    def size(self, header: str) -> int:
        """Bytes, with a varbit field at its largest."""
        return self.program.headers[header].type.room // 8

    def var_length(self, header: str) -> str:
        """C lvalue of the bytes that the header's varbit field has."""
        return f"m->l{self.header_index[header]}"

    def length(self, header: str) -> str:
        """C expression of the bytes that the header has on the wire."""
        found = self.varbits.get(header)
        if found is None:
            return f"{self.size(header)}u"
        return f"({found.size}u + {self.var_length(header)})"

    def is_varbit(self, ref: FieldRef) -> bool:
        found = self.varbits.get(ref.header)
        return found is not None and found.name == ref.field

    def unpack(self, header: str, source: str, length: str = "") -> str:
        """Statement that copies a header's bytes from a frame. `length`: C expression of a varbit's bytes."""
        found = self.varbits.get(header)
        if found is None:
            # Whole words: frames have readable slack behind them, headers have room.
            return f"memcpy({self.place(header)}, {source}, {slot_bytes(self.size(header))});"
        return (
            f"sw_varbit_unpack({self.place(header)}, {source}, {found.before}, {found.room}, "
            f"{length}, {found.size});"
        )

    def pack(self, header: str, dest: str) -> str:
        """Statement that copies a header's bytes to a frame."""
        found = self.varbits.get(header)
        if found is None:
            return f"memcpy({dest}, {self.place(header)}, {self.size(header)});"
        return (
            f"sw_varbit_pack({dest}, {self.place(header)}, {found.before}, {found.room}, "
            f"{self.var_length(header)}, {found.size});"
        )

    def offset(self, header: str) -> str:
        """C expression of where in the frame the header was parsed."""
        known = self.plan.offset.get(header)
        return str(known) if known is not None else f"m->o{self.header_index[header]}"

    def has_offset(self, header: str) -> bool:
        """Whether the place in the frame is remembered: it varies, and the deparser may need it."""
        return self.has_writes(header) and self.plan.parsed(header) and header not in self.plan.offset

    def spot(self, ref: FieldRef) -> tuple[str, int, int]:
        """(C expression of its header's bytes, bits before it, width) of a field."""
        found = self.program.headers[ref.header].type
        index = found.index(ref.field)
        bits = sum(f.width for f in found.fields[:index])
        return self.place(ref.header), bits, found.fields[index].width

    def cursor(self, stack: str) -> str:
        """C lvalue of the number of elements extracted into a stack."""
        if stack in self.union_stack_index:
            return f"m->u{self.union_stack_index[stack]}_next"
        return f"m->s{self.stack_index[stack]}_next"

    # --- metadata

    def name(self, ref: FieldRef) -> str:
        header = self.program.headers[ref.header]
        return f"m{self.header_index[ref.header]}_{header.type.index(ref.field)}"

    def metadata(self, ref: FieldRef) -> str:
        """C lvalue of a live metadata field."""
        key = (ref.header, ref.field)
        return f"p->m.{self.name(ref)}" if key in self.in_phv or key in self.wide else f"m->{self.name(ref)}"

    def is_kept(self, ref: FieldRef) -> bool:
        """Whether `struct phv` has the metadata field."""
        key = (ref.header, ref.field)
        return self.is_live(ref) and (key in self.kept or key in self.wide)

    def kept_fields(self, fields: Fields) -> list[FieldRef]:
        """Those of some metadata that move between `struct phv` and `struct meta`, in a fixed order."""
        return [r for r in self._live_metadata() if (r.header, r.field) in fields and not self._stays(r)]

    def _stays(self, ref: FieldRef) -> bool:
        key = (ref.header, ref.field)
        return key in self.wide or key in self.in_phv

    def _live_metadata(self) -> list[FieldRef]:
        """Wide ones first, so that the compiler need not pad."""
        headers = [h for h in self.program.headers.values() if h.metadata]
        refs = [FieldRef(h.name, f.name) for h in headers for f in h.type.fields]
        live = [r for r in refs if self.is_live(r)]
        return sorted(live, key=lambda r: -min(self.program.field_type(r).width, 129))

    def state(self) -> list[str]:
        """Names of what `struct meta` and `struct phv` both have besides fields."""
        names = [f"{what}{word}" for what in ("valid", "dirty") for word in range(self.words)]
        if self.can_move:
            names.append("moved")
        names += [f"o{self.header_index[h]}" for h in self.packed if self.has_offset(h)]
        names += [f"l{self.header_index[h]}" for h in self.varbits]
        names += [f"u{i}_next" for i in self.union_stack_index.values()]
        return [*names, *(f"s{i}_next" for i in self.stack_index.values())]

    # --- the structs

    def emit_structs(self, out: Emitter) -> None:
        with out.block("struct meta", ";"):
            for ref in self._live_metadata():
                if (ref.header, ref.field) not in self.wide:
                    self._declare(ref, out)
            if "generate_digest" in self.usage.ops:
                out.line("uint16_t digest;")
            self._emit_state(out)
        with out.block("struct kept", ";"):
            for ref in self._live_metadata():
                if self.is_kept(ref):
                    self._declare(ref, out)
            out.line("uint8_t unused;")
        with out.block("struct phv", ";"):
            # Headers whose fields are read come first: they are zeroed for each packet.
            def rank(name: str) -> tuple[bool, int]:
                return not self._has_reads(name), -slot_bytes(self.size(name))

            for name in sorted(self.packed, key=rank):
                text = comment(f"{name}, {self.size(name)} bytes")
                place = self.place(name).removeprefix("p->")
                out.line(f"uint8_t {place}[{slot_bytes(self.size(name))}]; {text}")
            out.line("_Alignas(16) struct kept m;")
            self._emit_state(out)

    def _emit_state(self, out: Emitter) -> None:
        for name in self.state():
            kind = "uint64_t" if name[0] in "vd" else "uint16_t" if name[0] in "ol" else "uint8_t"
            out.line(f"{kind} {name};")

    def _declare(self, ref: FieldRef, out: Emitter) -> None:
        width = self.program.field_type(ref).width
        text = comment(f"{ref.header}.{ref.field} : {width}")
        out.line(f"{declare(width, self.name(ref))}; {text}")

    def _has_reads(self, header: str) -> bool:
        fields = self.program.headers[header].type.fields
        return any(self.usage.key(header, f.name) in self.usage.read for f in fields)

    def zeroed_bytes(self) -> int:
        """Leading bytes of `struct phv` that are zeroed for each packet, a multiple of 16."""
        return (sum(slot_bytes(self.size(h)) for h in self.packed if self._has_reads(h)) + 15) // 16 * 16
