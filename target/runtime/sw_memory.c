/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for what packets touch: in chunks that the system is asked to map as huge pages. A fabric's ports,
 * links and buffers are thousands of small pages otherwise, and finding them in the page tables takes as long as the
 * rest of a hop. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "sw_internal.h"

#define CHUNK ((size_t)2 << 20)
#define LEAST 6u /* 64 bytes, a line of the cache */

#if defined(__SANITIZE_ADDRESS__)
#define SEPARATE true /* so that the sanitizer sees the bounds of each */
#else
#define SEPARATE false
#endif

static uint32_t size_class(size_t bytes)
{
    uint32_t i = LEAST;
    while ((size_t)1 << i < bytes)
        i++;
    return i - LEAST;
}

static bool is_large(size_t bytes) { return bytes > CHUNK / 4; }

static void *aligned(size_t alignment, size_t bytes)
{
    size_t size = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, size);
    if (memory && alignment == CHUNK)
        (void)madvise(memory, size, MADV_HUGEPAGE); /* without it, it is only slower */
    return memory;
}

static void *from_chunk(struct sw_memory *memory, uint32_t class)
{
    size_t bytes = (size_t)1 << (class + LEAST);
    struct sw_free_block *block = memory->free[class];
    if (block) {
        memory->free[class] = block->next;
        return block;
    }
    if (memory->left < bytes) {
        if (memory->chunk_count == memory->chunk_room) {
            uint32_t room = memory->chunk_room ? 2 * memory->chunk_room : 16;
            void **chunks = realloc(memory->chunks, room * sizeof *chunks);
            if (!chunks)
                return NULL;
            memory->chunks = chunks;
            memory->chunk_room = room;
        }
        uint8_t *chunk = aligned(CHUNK, CHUNK);
        if (!chunk)
            return NULL;
        memory->chunks[memory->chunk_count++] = chunk;
        memory->next = chunk;
        memory->left = CHUNK;
    }
    void *result = memory->next;
    memory->next += bytes;
    memory->left -= bytes;
    return result;
}

void *sw_memory_get(struct sw_memory *memory, size_t bytes)
{
    if (SEPARATE || is_large(bytes))
        return aligned((size_t)1 << LEAST, bytes);
    pthread_mutex_lock(&memory->lock);
    void *result = from_chunk(memory, size_class(bytes));
    pthread_mutex_unlock(&memory->lock);
    return result;
}

void *sw_memory_zeroed(struct sw_memory *memory, size_t bytes)
{
    if (is_large(bytes)) /* most of it may never be touched: the system's zeros need no memory */
        return calloc(1, bytes);
    void *result = sw_memory_get(memory, bytes);
    return result ? memset(result, 0, bytes) : NULL;
}

void sw_memory_put(struct sw_memory *memory, void *pointer, size_t bytes)
{
    if (!pointer)
        return;
    if (SEPARATE || is_large(bytes)) {
        free(pointer);
        return;
    }
    uint32_t class = size_class(bytes);
    struct sw_free_block *block = pointer;
    pthread_mutex_lock(&memory->lock);
    block->next = memory->free[class];
    memory->free[class] = block;
    pthread_mutex_unlock(&memory->lock);
}

void sw_memory_init(struct sw_memory *memory) { pthread_mutex_init(&memory->lock, NULL); }

void sw_memory_free(struct sw_memory *memory)
{
    for (uint32_t i = 0; i < memory->chunk_count; i++)
        free(memory->chunks[i]);
    free(memory->chunks);
    pthread_mutex_destroy(&memory->lock);
}
