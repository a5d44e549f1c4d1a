/* SPDX-License-Identifier: Apache-2.0 */
/* Packet buffers of three sizes, handed out from slabs. */
#include <stdlib.h>

#include "sw_internal.h"

#define SLAB_PACKETS 32u
#define ALIGNMENT 64u

static const uint32_t frame_bytes[SW_SIZE_CLASSES] = {SW_HEADER_FRAME, SW_SMALL_FRAME, SW_LARGE_FRAME + SW_GROWTH};

struct sw_pool *sw_pool_create(uint32_t phv_bytes, uint32_t headroom, uint64_t limit)
{
    struct sw_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->header_bytes = (uint32_t)((sizeof(struct sw_packet) + phv_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    pool->headroom = (headroom + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    pool->limit = limit;
    pool->reach = UINT32_MAX;
    return pool;
}

static void pool_free(struct sw_pool *pool)
{
    for (uint32_t i = 0; i < pool->slab_count; i++)
        free(pool->slabs[i]);
    free(pool->slabs);
    free(pool);
}

void sw_pool_retire(struct sw_pool *pool)
{
    pool->retired = true;
    if (pool->outstanding == 0)
        pool_free(pool);
}

static bool grow(struct sw_pool *pool, uint32_t size_class)
{
    size_t each = pool->header_bytes + pool->headroom + frame_bytes[size_class] + SW_TAIL;
    each = (each + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t bytes = each * SLAB_PACKETS;
    if (pool->bytes + bytes > pool->limit)
        return false;
    if (pool->slab_count == pool->slab_room) {
        uint32_t room = pool->slab_room ? 2 * pool->slab_room : 16;
        void **slabs = realloc(pool->slabs, room * sizeof *slabs);
        if (!slabs)
            return false;
        pool->slabs = slabs;
        pool->slab_room = room;
    }
    uint8_t *slab = aligned_alloc(ALIGNMENT, bytes);
    if (!slab)
        return false;
    memset(slab, 0, bytes);
    pool->slabs[pool->slab_count++] = slab;
    pool->bytes += bytes;
    for (uint32_t i = 0; i < SLAB_PACKETS; i++) {
        struct sw_packet *pkt = (struct sw_packet *)(slab + i * each);
        pkt->pool = pool;
        pkt->size_class = (uint8_t)size_class;
        pkt->next = pool->free[size_class];
        pool->free[size_class] = pkt;
    }
    return true;
}

struct sw_packet *sw_pool_get(struct sw_pool *pool, uint32_t length)
{
    uint32_t size_class = (length > SW_HEADER_FRAME) + (length > SW_SMALL_FRAME);
    if (length > SW_LARGE_FRAME + SW_GROWTH)
        return NULL;
    if (!pool->free[size_class] && !grow(pool, size_class))
        return NULL;
    struct sw_packet *pkt = pool->free[size_class];
    pool->free[size_class] = pkt->next;
    pool->outstanding++;
    pkt->data = (uint8_t *)pkt + pool->header_bytes + pool->headroom;
    pkt->room = pool->headroom;
    pkt->capacity = frame_bytes[size_class];
    pkt->len = length;
    pkt->end = pkt->data + length;
    pkt->passes = 0;
    pkt->truncate = SW_NO_TRUNCATE;
    pkt->replica = 0;
    pkt->rid = 0;
    return pkt;
}

void sw_pool_put(struct sw_packet *pkt)
{
    struct sw_pool *pool = pkt->pool;
    pkt->next = pool->free[pkt->size_class];
    pool->free[pkt->size_class] = pkt;
    if (--pool->outstanding == 0 && pool->retired)
        pool_free(pool);
}

struct sw_packet *sw_pool_frame(struct sw_pool *pool, const uint8_t *data, uint32_t bytes, uint32_t wire_bytes)
{
    uint32_t seen = wire_bytes < pool->reach ? wire_bytes : pool->reach;
    struct sw_packet *pkt = sw_pool_get(pool, bytes > seen ? bytes : seen);
    if (!pkt)
        return NULL;
    memcpy(pkt->data, data, bytes);
    if (bytes < seen)
        memset(pkt->data + bytes, 0, seen - bytes);
    pkt->len = wire_bytes;
    pkt->end = pkt->data + bytes;
    return pkt;
}

struct sw_packet *sw_pool_copy(struct sw_pool *pool, const struct sw_packet *pkt, bool with_phv)
{
    struct sw_packet *copy = sw_pool_frame(pool, pkt->data, sw_carried(pkt), pkt->len);
    if (!copy)
        return NULL;
    copy->parsed = pkt->parsed;
    copy->length = pkt->length;
    copy->ingress_len = pkt->ingress_len;
    copy->truncate = pkt->truncate;
    copy->rx_ns = pkt->rx_ns;
    copy->ingress_port = pkt->ingress_port;
    copy->instance_type = pkt->instance_type;
    copy->priority = pkt->priority;
    copy->passes = pkt->passes;
    copy->rid = pkt->rid;
    copy->replica = pkt->replica;
    if (with_phv)
        memcpy(copy->phv, pkt->phv, pool->header_bytes - sizeof *pkt);
    return copy;
}
