/* SPDX-License-Identifier: Apache-2.0 */
/* Timers, by time and then by cause: a wheel with a slot for each of the next nanoseconds, a heap for what is further
 * away. Timers never move from the heap to the wheel: the first of both is the first of all. */
#include <stdlib.h>

#include "sw_timer.h"

static void place(sw_engine *engine, uint32_t i, struct sw_timer *timer)
{
    engine->heap[i] = timer;
    timer->place = SW_IN_HEAP | i;
}

static void sift(sw_engine *engine, uint32_t i)
{
    struct sw_timer *timer = engine->heap[i];
    while (i > 0) {
        uint32_t parent = (i - 1) / 2;
        if (!sw_timer_before(timer, engine->heap[parent]))
            break;
        place(engine, i, engine->heap[parent]);
        i = parent;
    }
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= engine->heap_count)
            break;
        if (child + 1 < engine->heap_count && sw_timer_before(engine->heap[child + 1], engine->heap[child]))
            child++;
        if (!sw_timer_before(engine->heap[child], timer))
            break;
        place(engine, i, engine->heap[child]);
        i = child;
    }
    place(engine, i, timer);
}

void sw_heap_push(sw_engine *engine, struct sw_timer *timer)
{
    place(engine, engine->heap_count++, timer);
    sift(engine, engine->heap_count - 1);
    sw_set_limit(engine);
}

void sw_heap_remove(sw_engine *engine, struct sw_timer *timer)
{
    uint32_t i = timer->place & ~SW_IN_HEAP;
    struct sw_timer *last = engine->heap[--engine->heap_count];
    timer->place = 0;
    if (last != timer) {
        place(engine, i, last);
        sift(engine, i);
    }
    sw_set_limit(engine);
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

void sw_timer_cancel(sw_engine *engine, struct sw_timer *timer)
{
    struct sw_wheel *wheel = &engine->wheel;
    if (timer->place & SW_IN_HEAP) {
        sw_heap_remove(engine, timer);
    } else if (timer->next) {
        struct sw_timer *behind = wheel->slots[timer->due & SW_WHEEL_MASK];
        while (behind->next != timer)
            behind = behind->next;
        sw_wheel_take(wheel, behind);
    }
}

void sw_timer_set(sw_engine *engine, struct sw_timer *timer, uint64_t due, uint32_t cause)
{
    sw_timer_cancel(engine, timer);
    sw_timer_start(engine, timer, due, cause);
}

void sw_alarm_set(sw_engine *engine, struct sw_alarm *alarm, uint64_t due_ns)
{
    alarm->timer.kind = SW_TIMER_ALARM;
    sw_timer_set(engine, &alarm->timer, due_ns, engine->causes++);
}

void sw_alarm_cancel(sw_engine *engine, struct sw_alarm *alarm) { sw_timer_cancel(engine, &alarm->timer); }

/* The first timer in the wheel, or NULL. Words of `bits` from that of `base` on, once around: it comes last again. */
static struct sw_timer *wheel_first(const struct sw_wheel *wheel)
{
    const uint32_t words = SW_WHEEL_SLOTS / 64;
    uint32_t slot = (uint32_t)wheel->base & SW_WHEEL_MASK, word = slot / 64;
    uint64_t set = wheel->bits[word] & ~UINT64_C(0) << slot % 64;
    for (uint32_t left = words; !set && left; left--) {
        word = (word + 1) % words;
        set = wheel->bits[word];
    }
    return set ? wheel->slots[word * 64 + (uint32_t)__builtin_ctzll(set)]->next : NULL;
}

struct sw_timer *sw_timer_first(const sw_engine *engine)
{
    struct sw_timer *timer = wheel_first(&engine->wheel);
    if (engine->heap_count && (!timer || sw_timer_before(engine->heap[0], timer)))
        timer = engine->heap[0];
    return timer;
}

struct sw_timer *sw_timer_search(sw_engine *engine)
{
    struct sw_timer *timer = engine->attention ? NULL : sw_timer_first(engine);
    if (!timer || timer->due >= engine->end)
        return NULL;
    sw_timer_cancel(engine, timer);
    engine->wheel.base = timer->due;
    return timer;
}
