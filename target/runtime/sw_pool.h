/* SPDX-License-Identifier: Apache-2.0 */
/* Packet buffers: the parts that every packet runs. */
#ifndef SW_POOL_H
#define SW_POOL_H

#include "sw_internal.h"

/* Copy `bytes` of a frame. The usual case copies a fixed number: both sides have so much room. */
static inline void sw_copy_frame(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    if (__builtin_expect(bytes <= SW_USUAL_COPY, 1))
        memcpy(to, from, SW_USUAL_COPY);
    else
        memcpy(to, from, bytes);
}

static inline uint32_t sw_size_class(uint32_t length)
{
    return (uint32_t)(length > SW_HEADER_FRAME) + (uint32_t)(length > SW_SMALL_FRAME);
}

static inline struct sw_packet *sw_pool_take(struct sw_pool *pool, uint32_t size_class)
{
    struct sw_store *store = pool->store;
    struct sw_packet *pkt = store->free[size_class];
    if (__builtin_expect(!pkt, 0)) {
        pkt = sw_store_grow(store, size_class);
        if (!pkt)
            return NULL;
    }
    store->free[size_class] = pkt->next;
    pool->outstanding++;
    pkt->pool = pool;
    pkt->data = (uint8_t *)pkt + store->frame_offset;
    pkt->room = store->headroom;
    pkt->truncate = SW_NO_TRUNCATE;
    pkt->passes = 0;
    pkt->priority = 0;
    pkt->replica = 0;
    return pkt;
}

static inline void sw_pool_give(struct sw_pool *pool, struct sw_packet *pkt)
{
    struct sw_store *store = pool->store;
    pkt->next = store->free[pkt->size_class];
    store->free[pkt->size_class] = pkt;
    pool->outstanding--;
}

/* A packet that has waited long will be needed soon. */
static inline void sw_pool_prefetch(const struct sw_packet *pkt)
{
    const uint8_t *bytes = (const uint8_t *)pkt;
    for (uint32_t at = 0; at < 256; at += 64)
        __builtin_prefetch(bytes + at);
    __builtin_prefetch(pkt->data);
    __builtin_prefetch(pkt->data + 64);
}

/* See sw_pool_frame. `data` has SW_USUAL_COPY readable bytes. */
static inline struct sw_packet *sw_pool_take_frame(struct sw_pool *pool, const uint8_t *data, uint32_t bytes,
                                                   uint32_t wire_bytes)
{
    if (__builtin_expect(bytes > SW_USUAL_COPY || (bytes < pool->reach && bytes != wire_bytes), 0))
        return sw_pool_frame(pool, data, bytes, wire_bytes);
    struct sw_packet *pkt = sw_pool_take(pool, 0);
    if (__builtin_expect(!pkt, 0))
        return NULL;
    memcpy(pkt->data, data, SW_USUAL_COPY);
    pkt->len = wire_bytes;
    pkt->end = pkt->data + bytes;
    return pkt;
}

#endif
