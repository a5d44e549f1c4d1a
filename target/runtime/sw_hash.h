/* SPDX-License-Identifier: Apache-2.0 */
/* Hash algorithms of v1model as BMv2 computes them, over a bit string held in 64-bit words, first bit highest. The
 * last byte is padded with zero bits. */
#ifndef SW_HASH_H
#define SW_HASH_H

#include "sw_program.h"

/* A bit string that grows: for inputs whose layout depends on which headers are valid. */
struct sw_bits {
    uint64_t *words; /* zeroed */
    uint32_t count;  /* bits */
};

SW_INLINE void sw_bits_put(struct sw_bits *b, uint64_t v, uint32_t width)
{
    uint32_t word = b->count / 64, used = b->count % 64, space = 64 - used;
    if (width <= space) {
        b->words[word] |= v << (space - width);
    } else {
        b->words[word] |= v >> (width - space);
        b->words[word + 1] |= v << (64 - (width - space));
    }
    b->count += width;
}

SW_INLINE uint32_t sw_byte(const uint64_t *w, uint32_t i) { return (uint32_t)(w[i / 8] >> (56 - 8 * (i % 8))) & 0xff; }

/* `count` (1..8) bytes, in the highest bits of w, at once: each goes through the table for its distance from the end. */
SW_INLINE uint32_t sw_crc32_step(const struct sw_constants *k, uint32_t crc, uint64_t w, uint32_t count)
{
    uint32_t next = count < 4 ? crc >> 8 * count : 0;
    w ^= (uint64_t)__builtin_bswap32(crc) << 32;
    _Pragma("GCC unroll 8") for (uint32_t i = 0; i < count; i++)
        next ^= k->crc32[count - 1 - i][w >> (56 - 8 * i) & 0xff];
    return next;
}

SW_INLINE uint64_t sw_hash_crc32(const struct sw_constants *k, const uint64_t *w, uint32_t bits)
{
    uint32_t bytes = (bits + 7) / 8, crc = UINT32_MAX, i = 0;
    _Pragma("GCC unroll 4") for (; i < bytes / 8; i++)
        crc = sw_crc32_step(k, crc, w[i], 8);
    switch (bytes % 8) {
    case 1: crc = sw_crc32_step(k, crc, w[i], 1); break;
    case 2: crc = sw_crc32_step(k, crc, w[i], 2); break;
    case 3: crc = sw_crc32_step(k, crc, w[i], 3); break;
    case 4: crc = sw_crc32_step(k, crc, w[i], 4); break;
    case 5: crc = sw_crc32_step(k, crc, w[i], 5); break;
    case 6: crc = sw_crc32_step(k, crc, w[i], 6); break;
    case 7: crc = sw_crc32_step(k, crc, w[i], 7); break;
    default: break;
    }
    return crc ^ UINT32_MAX;
}

SW_INLINE uint64_t sw_hash_crc16(const struct sw_constants *k, const uint64_t *w, uint32_t bits)
{
    uint32_t bytes = (bits + 7) / 8, crc = 0;
    for (uint32_t i = 0; i < bytes; i++)
        crc = crc >> 8 ^ k->crc16[(crc ^ sw_byte(w, i)) & 0xff];
    return crc;
}

SW_INLINE uint64_t sw_hash_crcCCITT(const struct sw_constants *k, const uint64_t *w, uint32_t bits)
{
    uint32_t bytes = (bits + 7) / 8, crc = 0xffff;
    for (uint32_t i = 0; i < bytes; i++)
        crc = (crc << 8 & 0xffff) ^ k->crc_ccitt[(crc >> 8 ^ sw_byte(w, i)) & 0xff];
    return crc;
}

SW_INLINE uint64_t sw_fold16(sw_u128 sum)
{
    uint64_t s = (uint64_t)(sum & UINT32_MAX) + (uint64_t)(sum >> 32 & UINT32_MAX) + (uint64_t)(sum >> 64);
    while (s >> 16)
        s = (s & 0xffff) + (s >> 16);
    return s;
}

/* One's complement sum of all bits, not inverted; an odd last byte counts as the high byte of a word. */
SW_INLINE uint64_t sw_sum16(const uint64_t *w, uint32_t bits)
{
    sw_u128 sum = 0;
    for (uint32_t i = 0; i < (bits + 63) / 64; i++)
        sum += w[i];
    return sw_fold16(sum);
}

SW_INLINE uint64_t sw_hash_csum16(const struct sw_constants *k, const uint64_t *w, uint32_t bits)
{
    (void)k;
    return ~sw_sum16(w, bits) & 0xffff;
}

SW_INLINE uint64_t sw_hash_xor16(const struct sw_constants *k, const uint64_t *w, uint32_t bits)
{
    uint64_t v = 0;
    (void)k;
    for (uint32_t i = 0; i < (bits + 63) / 64; i++)
        v ^= w[i];
    return (v ^ v >> 16 ^ v >> 32 ^ v >> 48) & 0xffff;
}

SW_INLINE uint64_t sw_hash_xor32(const struct sw_constants *k, const uint64_t *w, uint32_t bits)
{
    uint64_t v = 0;
    (void)k;
    for (uint32_t i = 0; i < (bits + 63) / 64; i++)
        v ^= w[i];
    return (v ^ v >> 32) & UINT32_MAX;
}

/* The first 8 bytes as a number. */
SW_INLINE uint64_t sw_hash_identity(const struct sw_constants *k, const uint64_t *w, uint32_t bits)
{
    uint32_t bytes = (bits + 7) / 8;
    (void)k;
    return bytes == 0 ? 0 : bytes >= 8 ? w[0] : w[0] >> (64 - 8 * bytes);
}

/* splitmix64: one draw, seeded by the engine. */
SW_INLINE uint64_t sw_random(struct sw_state *st)
{
    uint64_t z = st->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Uniform in low..high, both included. */
SW_INLINE uint64_t sw_random_range(struct sw_state *st, uint64_t low, uint64_t high)
{
    uint64_t span = high - low + 1;
    if (span == 0)
        return sw_random(st);
    return low + (uint64_t)(((sw_u128)sw_random(st) * span) >> 64);
}

#endif
