/* SPDX-License-Identifier: Apache-2.0 */
/* Packet buffers of three sizes, handed out from slabs. */
#include <stdlib.h>

#include "sw_pool.h"

#define SLAB_BYTES (UINT32_C(64) << 10) /* or one buffer, if a program's state is that large */
#define ALIGNMENT 64u

const uint32_t sw_frame_bytes[SW_SIZE_CLASSES] = {SW_HEADER_FRAME, SW_SMALL_FRAME, SW_LARGE_FRAME + SW_GROWTH};

static uint32_t round_up(size_t bytes) { return (uint32_t)((bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT); }

/* The store of a layout, made if there is none. */
static struct sw_store *store_of(sw_engine *engine, uint32_t header_bytes, uint32_t headroom)
{
    struct sw_store **stores = &engine->stores;
    struct sw_store *store = *stores;
    while (store && (store->header_bytes != header_bytes || store->headroom != headroom))
        store = store->next;
    if (store)
        return store;
    store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->header_bytes = header_bytes;
    store->headroom = headroom;
    store->frame_offset = header_bytes + headroom;
    for (uint32_t i = 0; i < SW_SIZE_CLASSES; i++)
        store->each[i] = round_up(header_bytes + headroom + sw_frame_bytes[i] + SW_TAIL);
    store->slab_bytes = SLAB_BYTES > store->each[SW_SIZE_CLASSES - 1] ? SLAB_BYTES : store->each[SW_SIZE_CLASSES - 1];
    store->memory = &engine->memory;
    store->list = stores;
    store->next = *stores;
    *stores = store;
    return store;
}

struct sw_pool *sw_pool_create(sw_engine *engine, uint32_t phv_bytes, uint32_t headroom, uint64_t limit)
{
    struct sw_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->store = store_of(engine, round_up(sizeof(struct sw_packet) + phv_bytes), round_up(headroom));
    if (!pool->store) {
        free(pool);
        return NULL;
    }
    pool->store->users++;
    pool->store->limit += limit;
    pool->limit = limit;
    pool->reach = UINT32_MAX;
    return pool;
}

static void store_free(struct sw_store *store)
{
    struct sw_store **link = store->list;
    while (*link != store)
        link = &(*link)->next;
    *link = store->next;
    for (uint32_t i = 0; i < store->slab_count; i++)
        sw_memory_put(store->memory, store->slabs[i], store->slab_bytes);
    free(store->slabs);
    free(store);
}

static void pool_free(struct sw_pool *pool)
{
    pool->store->limit -= pool->limit;
    if (--pool->store->users == 0)
        store_free(pool->store);
    free(pool);
}

void sw_pool_retire(struct sw_pool *pool)
{
    pool->retired = true;
    if (pool->outstanding == 0)
        pool_free(pool);
}

struct sw_packet *sw_store_grow(struct sw_store *store, uint32_t size_class)
{
    uint32_t each = store->each[size_class];
    if (store->bytes + store->slab_bytes > store->limit)
        return NULL;
    if (store->slab_count == store->slab_room) {
        uint32_t room = store->slab_room ? 2 * store->slab_room : 16;
        void **slabs = realloc(store->slabs, room * sizeof *slabs);
        if (!slabs)
            return NULL;
        store->slabs = slabs;
        store->slab_room = room;
    }
    uint8_t *slab = sw_memory_get(store->memory, store->slab_bytes);
    if (!slab)
        return NULL;
    memset(slab, 0, store->slab_bytes);
    store->slabs[store->slab_count++] = slab;
    store->bytes += store->slab_bytes;
    for (uint32_t i = 0; i < store->slab_bytes / each; i++) {
        struct sw_packet *pkt = (struct sw_packet *)(void *)(slab + i * each);
        pkt->size_class = (uint8_t)size_class;
        pkt->next = store->free[size_class];
        store->free[size_class] = pkt;
    }
    return store->free[size_class];
}

struct sw_packet *sw_pool_get(struct sw_pool *pool, uint32_t length)
{
    if (length > SW_LARGE_FRAME + SW_GROWTH)
        return NULL;
    struct sw_packet *pkt = sw_pool_take(pool, sw_size_class(length));
    if (pkt) {
        pkt->len = length;
        pkt->end = pkt->data + length;
    }
    return pkt;
}

void sw_pool_put(struct sw_packet *pkt)
{
    struct sw_pool *pool = pkt->pool;
    sw_pool_give(pool, pkt);
    if (pool->outstanding == 0 && pool->retired)
        pool_free(pool);
}

struct sw_packet *sw_pool_frame(struct sw_pool *pool, const uint8_t *data, uint32_t bytes, uint32_t wire_bytes)
{
    uint32_t seen = wire_bytes < pool->reach ? wire_bytes : pool->reach, room = bytes > seen ? bytes : seen;
    struct sw_packet *pkt = room > SW_LARGE_FRAME + SW_GROWTH ? NULL : sw_pool_take(pool, sw_size_class(room));
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
    struct sw_packet *copy = sw_pool_take_frame(pool, pkt->data, sw_carried(pkt), pkt->len);
    if (!copy)
        return NULL;
    /* All that is known of the packet. */
    const size_t first = offsetof(struct sw_packet, parsed), last = offsetof(struct sw_packet, size_class);
    memcpy((uint8_t *)copy + first, (const uint8_t *)pkt + first, last - first);
    if (with_phv)
        memcpy(copy->phv, pkt->phv, pool->store->header_bytes - sizeof *pkt);
    return copy;
}
