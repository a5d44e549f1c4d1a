/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums that go on over the payload. */
#ifndef SW_PAYLOAD_H
#define SW_PAYLOAD_H

#include "sw_hash.h"

/* csum16 of `bits` header bits, whose sum is `sum`, followed by the payload behind the parsed headers. */
static inline __attribute__((unused)) uint64_t sw_csum_with_payload(const struct sw_packet *pkt, uint64_t sum,
                                                                    uint32_t bits)
{
    uint32_t n = pkt->len - pkt->parsed;
    const uint8_t *d = pkt->data + pkt->parsed;
    uint64_t total = 0;
    if (n > pkt->truncate)
        n = pkt->truncate;
    /* What is not carried is zero and adds nothing. */
    if (pkt->end < d)
        n = 0;
    else if (n > (size_t)(pkt->end - d))
        n = (uint32_t)(pkt->end - d);
    for (uint32_t i = 0; i < n; i++)
        total += (uint64_t)d[i] << (i % 2 ? 0 : 8);
    total = sw_fold16(total);
    if ((bits + 7) / 8 % 2) /* the payload starts at an odd byte */
        total = (total << 8 | total >> 8) & 0xffff;
    return ~sw_fold16((sw_u128)sum + total) & 0xffff;
}

#endif
