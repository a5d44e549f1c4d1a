/* SPDX-License-Identifier: Apache-2.0 */
/* Headers with a field of variable length, in whole bytes. In a packet's state the field always has all its room, so
 * that the fields behind it have fixed places; on the wire it has as many bytes as it was given. */
#ifndef SW_VARBIT_H
#define SW_VARBIT_H

#include "sw_hash.h"

/* The byte that starts `bit` bits after p. */
SW_INLINE uint8_t sw_varbit_byte(const uint8_t *p, uint32_t bit)
{
    uint32_t shift = bit % 8;
    p += bit / 8;
    return shift ? (uint8_t)(p[0] << shift | p[1] >> (8 - shift)) : p[0];
}

/* Wire to state. `before`: bits in front of the field; `room`: bytes it has in the state; `bytes`: its length;
 * `size`: bytes of the other fields. */
SW_WIDE void sw_varbit_unpack(uint8_t *to, const uint8_t *from, uint32_t before, uint32_t room, uint32_t bytes,
                              uint32_t size)
{
    uint32_t cut = before / 8;
    /* A byte that the field shares with the next one is copied twice. */
    memcpy(to, from, cut + bytes + (before % 8 != 0));
    memcpy(to + cut + room, from + cut + bytes, size - cut);
}

/* State to wire. */
SW_WIDE void sw_varbit_pack(uint8_t *to, const uint8_t *from, uint32_t before, uint32_t room, uint32_t bytes,
                            uint32_t size)
{
    uint32_t cut = before / 8, shared = before % 8 != 0;
    memcpy(to, from, cut + bytes + shared);
    if (shared) {
        uint32_t low = 0xffu >> before % 8;
        to[cut + bytes] = (uint8_t)((to[cut + bytes] & ~low) | (from[cut + room] & low));
    }
    memcpy(to + cut + bytes + shared, from + cut + room + shared, size - cut - shared);
}

/* The field as a number of n limbs. */
SW_WIDE void sw_varbit_get(uint64_t *v, uint32_t n, const uint8_t *p, uint32_t bit, uint32_t bytes)
{
    memset(v, 0, 8 * (size_t)n);
    for (uint32_t i = 0; i < bytes; i++) {
        uint32_t place = bytes - 1 - i;
        v[place / 8] |= (uint64_t)sw_varbit_byte(p, bit + 8 * i) << 8 * (place % 8);
    }
}

/* One field to another, which has room for it. */
SW_WIDE void sw_varbit_copy(uint8_t *to, uint32_t to_bit, const uint8_t *from, uint32_t from_bit, uint32_t bytes)
{
    uint32_t shift = to_bit % 8;
    if (shift == 0 && from_bit % 8 == 0) {
        memmove(to + to_bit / 8, from + from_bit / 8, bytes);
        return;
    }
    uint8_t *d = to + to_bit / 8;
    for (uint32_t i = 0; i < bytes; i++) {
        uint8_t b = sw_varbit_byte(from, from_bit + 8 * i);
        if (shift == 0) {
            d[i] = b;
            continue;
        }
        d[i] = (uint8_t)((d[i] & ~(0xffu >> shift)) | b >> shift);
        d[i + 1] = (uint8_t)((d[i + 1] & 0xffu >> shift) | b << (8 - shift));
    }
}

SW_WIDE void sw_varbit_hash(struct sw_bits *b, const uint8_t *p, uint32_t bit, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        sw_bits_put(b, sw_varbit_byte(p, bit + 8 * i), 8);
}

#endif
