/* SPDX-License-Identifier: Apache-2.0 */
/* Integers wider than a machine word: unsigned __int128 up to 128 bits, arrays of 64-bit limbs (least significant
 * first, two's complement where signed) beyond. Everything is inline with constant sizes, so that it unrolls. */
#ifndef SW_WIDE_H
#define SW_WIDE_H

#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 sw_u128;
__extension__ typedef __int128 sw_i128;

#define SW_INLINE static inline __attribute__((always_inline, unused))
/* Left to the compiler: forced in, dozens of limbs make huge code. */
#define SW_WIDE static inline __attribute__((unused))
#define SW_U128(hi, lo) (((sw_u128)(hi) << 64) | (sw_u128)(lo))

/* Clears a multiple of 16 bytes, a small one in place. */
SW_INLINE void sw_zero(void *p, uint32_t bytes)
{
    typedef uint64_t pair __attribute__((vector_size(16), aligned(16), may_alias));
    pair *v = p;
    if (bytes > 512)
        memset(p, 0, bytes);
    else
        _Pragma("GCC unroll 32") for (uint32_t i = 0; i < bytes / 16; i++) v[i] = (pair){0, 0};
}

/* Numbers in network order. */
SW_INLINE uint64_t sw_load_be8(const uint8_t *p) { return p[0]; }
SW_INLINE void sw_store_be8(uint8_t *p, uint64_t v) { p[0] = (uint8_t)v; }

#define SW_BIG_ENDIAN(bits)                                                                                            \
    SW_INLINE uint64_t sw_load_be##bits(const uint8_t *p)                                                             \
    {                                                                                                                  \
        uint##bits##_t v;                                                                                              \
        memcpy(&v, p, sizeof v);                                                                                       \
        return __builtin_bswap##bits(v);                                                                               \
    }                                                                                                                  \
    SW_INLINE void sw_store_be##bits(uint8_t *p, uint64_t v)                                                          \
    {                                                                                                                  \
        uint##bits##_t w = __builtin_bswap##bits((uint##bits##_t)v);                                                   \
        memcpy(p, &w, sizeof w);                                                                                       \
    }
SW_BIG_ENDIAN(16)
SW_BIG_ENDIAN(32)
SW_BIG_ENDIAN(64)

/* `width` bits (1..64) starting `bit` bits after p, most significant first. May read up to 8 bytes past the field;
 * packet buffers have that slack. */
SW_INLINE uint64_t sw_get_bits(const uint8_t *p, uint32_t bit, uint32_t width)
{
    p += bit >> 3;
    bit &= 7;
    if (bit == 0 && width == 8)
        return p[0];
    if (bit == 0 && width == 16) {
        uint16_t v;
        memcpy(&v, p, 2);
        return __builtin_bswap16(v);
    }
    if (bit == 0 && width == 32) {
        uint32_t v;
        memcpy(&v, p, 4);
        return __builtin_bswap32(v);
    }
    uint64_t v = sw_load_be64(p) << bit;
    if (bit + width > 64)
        v |= (uint64_t)p[8] >> (8 - bit);
    return v >> (64 - width);
}

/* Store the low `width` bits of v (1..64) `bit` bits after p; neighbouring bits stay. May touch up to 8 bytes past the
 * field, like sw_get_bits. */
SW_INLINE void sw_put_bits(uint8_t *p, uint32_t bit, uint32_t width, uint64_t v)
{
    p += bit >> 3;
    bit &= 7;
    if (bit == 0 && width == 8) {
        p[0] = (uint8_t)v;
        return;
    }
    if (bit == 0 && width == 16) {
        uint16_t b = __builtin_bswap16((uint16_t)v);
        memcpy(p, &b, 2);
        return;
    }
    if (bit == 0 && width == 32) {
        uint32_t b = __builtin_bswap32((uint32_t)v);
        memcpy(p, &b, 4);
        return;
    }
    if (bit == 0 && width == 48) {
        uint32_t b = __builtin_bswap32((uint32_t)(v >> 16));
        uint16_t c = __builtin_bswap16((uint16_t)v);
        memcpy(p, &b, 4);
        memcpy(p + 4, &c, 2);
        return;
    }
    /* Through a 64-bit word; the bytes behind the field are read and written back. */
    uint64_t ones = width < 64 ? (UINT64_C(1) << width) - 1 : UINT64_MAX;
    v &= ones;
    if (bit + width <= 64) {
        uint32_t shift = 64 - bit - width;
        sw_store_be64(p, (sw_load_be64(p) & ~(ones << shift)) | v << shift);
    } else {
        uint32_t over = bit + width - 64; /* bits in the ninth byte */
        sw_store_be64(p, (sw_load_be64(p) & ~(ones >> over)) | v >> over);
        p[8] = (uint8_t)((p[8] & (0xffu >> over)) | v << (8 - over));
    }
}

SW_INLINE sw_u128 sw_get_bits128(const uint8_t *p, uint32_t bit, uint32_t width)
{
    return SW_U128(sw_get_bits(p, bit, width - 64), sw_get_bits(p, bit + width - 64, 64));
}

SW_INLINE void sw_put_bits128(uint8_t *p, uint32_t bit, uint32_t width, sw_u128 v)
{
    sw_put_bits(p, bit, width - 64, (uint64_t)(v >> 64));
    sw_put_bits(p, bit + width - 64, 64, (uint64_t)v);
}

SW_WIDE void sw_get_wide(uint64_t *v, const uint8_t *p, uint32_t bit, uint32_t width)
{
    uint32_t limbs = (width + 63) / 64, top = width - (limbs - 1) * 64;
    v[limbs - 1] = sw_get_bits(p, bit, top);
    for (uint32_t i = 0; i + 1 < limbs; i++)
        v[limbs - 2 - i] = sw_get_bits(p, bit + top + 64 * i, 64);
}

SW_WIDE void sw_put_wide(uint8_t *p, uint32_t bit, uint32_t width, const uint64_t *v)
{
    uint32_t limbs = (width + 63) / 64, top = width - (limbs - 1) * 64;
    sw_put_bits(p, bit, top, v[limbs - 1]);
    for (uint32_t i = 0; i + 1 < limbs; i++)
        sw_put_bits(p, bit + top + 64 * i, 64, v[limbs - 2 - i]);
}

/* --- single words --- */

SW_INLINE uint64_t sw_shl64(uint64_t a, uint64_t s) { return s < 64 ? a << s : 0; }
SW_INLINE uint64_t sw_shr64(uint64_t a, uint64_t s) { return s < 64 ? a >> s : 0; }
SW_INLINE uint64_t sw_sar64(uint64_t a, uint64_t s) { return (uint64_t)((int64_t)a >> (s < 64 ? s : 63)); }
SW_INLINE uint64_t sw_sext64(uint64_t a, uint32_t w) { return (uint64_t)((int64_t)(a << (64 - w)) >> (64 - w)); }
SW_INLINE sw_u128 sw_shl128(sw_u128 a, uint64_t s) { return s < 128 ? a << s : 0; }
SW_INLINE sw_u128 sw_shr128(sw_u128 a, uint64_t s) { return s < 128 ? a >> s : 0; }
SW_INLINE sw_u128 sw_sar128(sw_u128 a, uint64_t s) { return (sw_u128)((sw_i128)a >> (s < 128 ? s : 127)); }
SW_INLINE sw_u128 sw_sext128(sw_u128 a, uint32_t w) { return (sw_u128)((sw_i128)(a << (128 - w)) >> (128 - w)); }
SW_INLINE sw_u128 sw_wide_to128(const uint64_t *a) { return SW_U128(a[1], a[0]); }

/* --- n limbs --- */

SW_WIDE void sw_wide_copy(uint64_t *d, const uint64_t *a, uint32_t n) { memmove(d, a, 8 * (size_t)n); }

SW_WIDE void sw_wide_set(uint64_t *d, uint32_t n, uint64_t low, int negative)
{
    d[0] = low;
    for (uint32_t i = 1; i < n; i++)
        d[i] = negative ? UINT64_MAX : 0;
}

SW_WIDE void sw_wide_set128(uint64_t *d, uint32_t n, sw_u128 v, int negative)
{
    d[0] = (uint64_t)v;
    d[1] = (uint64_t)(v >> 64);
    for (uint32_t i = 2; i < n; i++)
        d[i] = negative ? UINT64_MAX : 0;
}

/* d (n limbs) = a (m limbs) extended or cut; `is_signed`: a's top bit is its sign. */
SW_WIDE void sw_wide_resize(uint64_t *d, uint32_t n, const uint64_t *a, uint32_t m, int is_signed)
{
    uint64_t fill = is_signed && (a[m - 1] >> 63) ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < n; i++)
        d[i] = i < m ? a[i] : fill;
}

SW_WIDE void sw_wide_add(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n)
{
    uint64_t carry = 0;
    for (uint32_t i = 0; i < n; i++) {
        sw_u128 s = (sw_u128)a[i] + b[i] + carry;
        d[i] = (uint64_t)s;
        carry = (uint64_t)(s >> 64);
    }
}

SW_WIDE void sw_wide_sub(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n)
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < n; i++) {
        sw_u128 s = (sw_u128)a[i] - b[i] - borrow;
        d[i] = (uint64_t)s;
        borrow = (uint64_t)(s >> 64) & 1;
    }
}

/* d must not overlap a or b. */
SW_WIDE void sw_wide_mul(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n)
{
    memset(d, 0, 8 * (size_t)n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t carry = 0;
        if (a[i] == 0)
            continue;
        for (uint32_t j = 0; i + j < n; j++) {
            sw_u128 s = (sw_u128)a[i] * b[j] + d[i + j] + carry;
            d[i + j] = (uint64_t)s;
            carry = (uint64_t)(s >> 64);
        }
    }
}

#define SW_WIDE_BITOP(name, op)                                                                                        \
    SW_WIDE void sw_wide_##name(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n)                       \
    {                                                                                                                  \
        for (uint32_t i = 0; i < n; i++)                                                                               \
            d[i] = a[i] op b[i];                                                                                       \
    }
SW_WIDE_BITOP(and, &)
SW_WIDE_BITOP(or, |)
SW_WIDE_BITOP(xor, ^)

SW_WIDE void sw_wide_not(uint64_t *d, const uint64_t *a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        d[i] = ~a[i];
}

/* d must not overlap a. */
SW_WIDE void sw_wide_shl(uint64_t *d, const uint64_t *a, uint64_t s, uint32_t n)
{
    uint64_t limbs = s / 64, bits = s % 64;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v = 0;
        if (i >= limbs)
            v = a[i - limbs] << bits;
        if (bits && i >= limbs + 1)
            v |= a[i - limbs - 1] >> (64 - bits);
        d[i] = v;
    }
}

/* Arithmetic where `is_signed`. d must not overlap a. */
SW_WIDE void sw_wide_shr(uint64_t *d, const uint64_t *a, uint64_t s, uint32_t n,
                                                       int is_signed)
{
    uint64_t fill = is_signed && (a[n - 1] >> 63) ? UINT64_MAX : 0;
    uint64_t limbs = s / 64 < n ? s / 64 : n, bits = s % 64;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t low = i + limbs < n ? a[i + limbs] : fill;
        uint64_t high = i + limbs + 1 < n ? a[i + limbs + 1] : fill;
        d[i] = bits ? low >> bits | high << (64 - bits) : low;
    }
}

/* Keep the low w bits; where `is_signed`, bit w-1 is copied upwards. In place. */
SW_WIDE void sw_wide_trunc(uint64_t *d, uint32_t n, uint32_t w, int is_signed)
{
    uint32_t limb = (w - 1) / 64, bits = (w - 1) % 64 + 1;
    uint64_t fill = is_signed && (d[limb] >> (bits - 1) & 1) ? UINT64_MAX : 0;
    if (bits < 64)
        d[limb] = (d[limb] & ((UINT64_C(1) << bits) - 1)) | (fill << bits);
    for (uint32_t i = limb + 1; i < n; i++)
        d[i] = fill;
}

SW_WIDE int sw_wide_eq(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    uint64_t diff = 0;
    for (uint32_t i = 0; i < n; i++)
        diff |= a[i] ^ b[i];
    return diff == 0;
}

/* a < b */
SW_WIDE int sw_wide_lt(const uint64_t *a, const uint64_t *b, uint32_t n, int is_signed)
{
    if (is_signed && (a[n - 1] ^ b[n - 1]) >> 63)
        return (int)(a[n - 1] >> 63);
    for (uint32_t i = n; i-- > 0;)
        if (a[i] != b[i])
            return a[i] < b[i];
    return 0;
}

/* q = a / b and r = a % b, unsigned; both are 0 where b is. Nothing may overlap. */
SW_WIDE void sw_wide_divide(uint64_t *q, uint64_t *r, const uint64_t *a, const uint64_t *b, uint32_t n)
{
    uint32_t used = n;
    memset(q, 0, 8 * (size_t)n);
    memset(r, 0, 8 * (size_t)n);
    while (used > 0 && b[used - 1] == 0)
        used--;
    if (used == 0)
        return;
    if (used == 1) {
        for (uint32_t i = n; i-- > 0;) {
            sw_u128 rest = SW_U128(r[0], a[i]);
            q[i] = (uint64_t)(rest / b[0]);
            r[0] = (uint64_t)(rest % b[0]);
        }
        return;
    }
    for (uint32_t i = 64 * n; i-- > 0;) {
        uint64_t carry = a[i / 64] >> i % 64 & 1;
        for (uint32_t k = 0; k < n; k++) {
            uint64_t next = r[k] >> 63;
            r[k] = r[k] << 1 | carry;
            carry = next;
        }
        if (carry || !sw_wide_lt(r, b, n, 0)) {
            sw_wide_sub(r, r, b, n);
            q[i / 64] |= UINT64_C(1) << i % 64;
        }
    }
}

#endif
