/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: a heap, by time and then by cause. */
#include <stdlib.h>

#include "sw_internal.h"

static bool before(const struct sw_timer *a, const struct sw_timer *b)
{
    return a->due != b->due ? a->due < b->due : (int32_t)(a->cause - b->cause) < 0;
}

static void place(sw_engine *engine, uint32_t i, struct sw_timer *timer)
{
    engine->heap[i] = timer;
    timer->heap_index = i + 1;
}

static void sift(sw_engine *engine, uint32_t i)
{
    struct sw_timer *timer = engine->heap[i];
    while (i > 0) {
        uint32_t parent = (i - 1) / 2;
        if (!before(timer, engine->heap[parent]))
            break;
        place(engine, i, engine->heap[parent]);
        i = parent;
    }
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= engine->heap_count)
            break;
        if (child + 1 < engine->heap_count && before(engine->heap[child + 1], engine->heap[child]))
            child++;
        if (!before(engine->heap[child], timer))
            break;
        place(engine, i, engine->heap[child]);
        i = child;
    }
    place(engine, i, timer);
}

bool sw_timers_reserve(sw_engine *engine, int32_t count)
{
    uint32_t timers = engine->timers + (uint32_t)count;
    if (timers > engine->heap_room) {
        uint32_t room = engine->heap_room ? 2 * engine->heap_room : 64;
        struct sw_timer **heap = realloc(engine->heap, room * sizeof *heap);
        if (!heap)
            return false;
        engine->heap = heap;
        engine->heap_room = room;
    }
    engine->timers = timers;
    return true;
}

void sw_timer_set(sw_engine *engine, struct sw_timer *timer, uint64_t due, uint32_t cause)
{
    timer->due = due;
    timer->cause = cause;
    if (!timer->heap_index)
        place(engine, engine->heap_count++, timer);
    sift(engine, timer->heap_index - 1);
}

void sw_timer_cancel(sw_engine *engine, struct sw_timer *timer)
{
    if (!timer->heap_index)
        return;
    uint32_t i = timer->heap_index - 1;
    struct sw_timer *last = engine->heap[--engine->heap_count];
    timer->heap_index = 0;
    if (last != timer) {
        place(engine, i, last);
        sift(engine, i);
    }
}

struct sw_timer *sw_timer_first(const sw_engine *engine) { return engine->heap_count ? engine->heap[0] : NULL; }
