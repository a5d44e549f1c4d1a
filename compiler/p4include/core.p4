// SPDX-License-Identifier: Apache-2.0
//
// Core library of P4_16: what the language specification (section "Standard library") asks of every
// implementation. Written for this project.

#ifndef _CORE_P4_
#define _CORE_P4_

// What a parser can report in parser_error. The order gives the numbers that targets use.
error {
    NoError,
    PacketTooShort,
    NoMatch,
    StackOutOfBounds,
    HeaderTooShort,
    ParserTimeout,
    ParserInvalidArgument
}

match_kind { exact, ternary, lpm }

// The packet as a parser reads it, front to back.
extern packet_in {
    // Reads a header of fixed size and makes it valid.
    void extract<T>(out T hdr);

    // Reads a header whose one varbit field takes `variableFieldSizeInBits` bits.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);

    // Reads without moving forward.
    T lookahead<T>();

    void advance(in bit<32> sizeInBits);

    // Bytes in the packet.
    bit<32> length();
}

// The packet as a deparser writes it. Invalid headers are left out.
extern packet_out {
    void emit<T>(in T hdr);
}

// Ends the parser with `toSignal` unless `check` holds.
extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() {
}

// Checked by the compiler.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif  // _CORE_P4_
