/* SPDX-License-Identifier: Apache-2.0 */
/* Meters with token buckets as BMv2 has them: two rates and three colours (RFC 2698, blind), buckets full at first, tokens
 * by the microsecond and counted from the clock's start, so that no remainder is lost. One rate and three colours
 * (RFC 2697, blind) besides. */
#ifndef SW_METER_H
#define SW_METER_H

#include "sw_wide.h"

enum sw_colour { SW_GREEN = 0, SW_YELLOW = 1, SW_RED = 2 };
enum sw_meter_mode { SW_METER_UNSET = 0, SW_METER_TWO_RATES = 1, SW_METER_ONE_RATE = 2 };

struct sw_meter {
    sw_u128 filled[2];  /* tokens that have come since the clock's start */
    uint64_t tokens[2]; /* committed; peak, or excess where there is one rate */
    uint64_t rate[2], burst[2];
    uint32_t mode;      /* enum sw_meter_mode; unset: all is green */
    uint64_t packets[3], bytes[3]; /* marked, by colour */
};

/* Tokens that came into a bucket since the last call. */
SW_INLINE sw_u128 sw_meter_new_tokens(struct sw_meter *m, uint32_t bucket, uint64_t now_ns)
{
    uint64_t micros = now_ns / 1000, product;
    sw_u128 filled;
    if (!__builtin_mul_overflow(micros, m->rate[bucket], &product))
        filled = product / 1000000;
    else
        filled = (sw_u128)micros * m->rate[bucket] / 1000000;
    sw_u128 more = filled - m->filled[bucket];
    m->filled[bucket] = filled;
    return more;
}

/* Put tokens into a bucket; returns those that are too many. */
SW_INLINE sw_u128 sw_meter_fill(struct sw_meter *m, uint32_t bucket, sw_u128 more)
{
    uint64_t room = m->burst[bucket] - m->tokens[bucket];
    if (more > room) {
        m->tokens[bucket] = m->burst[bucket];
        return more - room;
    }
    m->tokens[bucket] += (uint64_t)more;
    return 0;
}

SW_INLINE int sw_meter_take(struct sw_meter *m, uint32_t bucket, uint64_t units)
{
    if (m->tokens[bucket] < units)
        return 0;
    m->tokens[bucket] -= units;
    return 1;
}

/* The colour of a packet of `length` bytes that is worth `units` tokens. */
static __attribute__((noinline, unused)) uint32_t sw_meter_execute(struct sw_meter *m, uint64_t now_ns, uint64_t units,
                                                                   uint32_t length)
{
    uint32_t colour = SW_GREEN;
    if (m->mode == SW_METER_TWO_RATES) {
        (void)sw_meter_fill(m, 1, sw_meter_new_tokens(m, 1, now_ns));
        if (!sw_meter_take(m, 1, units)) {
            colour = SW_RED;
        } else {
            (void)sw_meter_fill(m, 0, sw_meter_new_tokens(m, 0, now_ns));
            if (!sw_meter_take(m, 0, units))
                colour = SW_YELLOW;
        }
    } else if (m->mode == SW_METER_ONE_RATE) {
        (void)sw_meter_fill(m, 1, sw_meter_fill(m, 0, sw_meter_new_tokens(m, 0, now_ns)));
        if (!sw_meter_take(m, 0, units))
            colour = sw_meter_take(m, 1, units) ? SW_YELLOW : SW_RED;
    }
    m->packets[colour]++;
    m->bytes[colour] += length;
    return colour;
}

#endif
