/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: the parts that every event runs. */
#ifndef SW_TIMER_H
#define SW_TIMER_H

#include "sw_internal.h"

#define SW_WHEEL_MASK (SW_WHEEL_SLOTS - 1u)

void sw_heap_push(sw_engine *engine, struct sw_timer *timer);
void sw_heap_remove(sw_engine *engine, struct sw_timer *timer);

static inline bool sw_timer_before(const struct sw_timer *a, const struct sw_timer *b)
{
    return a->due != b->due ? a->due < b->due : (int32_t)(a->cause - b->cause) < 0;
}

/* Set a timer that is not set. One that is late is due at once. */
static inline void sw_timer_start(sw_engine *engine, struct sw_timer *timer, uint64_t due, uint32_t cause)
{
    struct sw_wheel *wheel = &engine->wheel;
    timer->due = due;
    timer->cause = cause;
    if (__builtin_expect(due - wheel->base >= SW_WHEEL_SLOTS, 0)) {
        if (due > wheel->base) {
            sw_heap_push(engine, timer);
            return;
        }
        timer->due = due = wheel->base;
    }
    uint32_t slot = (uint32_t)due & SW_WHEEL_MASK;
    struct sw_timer *last = wheel->slots[slot];
    if (!last) {
        timer->next = timer;
        wheel->slots[slot] = timer;
        wheel->bits[slot / 64] |= UINT64_C(1) << slot % 64;
        return;
    }
    /* All of a slot are due at the same time: the cause decides. */
    struct sw_timer *behind = last;
    if ((int32_t)(timer->cause - last->cause) >= 0)
        wheel->slots[slot] = timer;
    else
        while ((int32_t)(behind->next->cause - timer->cause) < 0)
            behind = behind->next;
    timer->next = behind->next;
    behind->next = timer;
}

/* Take the timer that follows `last` in its slot out of the wheel. */
static inline void sw_wheel_take(struct sw_wheel *wheel, struct sw_timer *last)
{
    struct sw_timer *timer = last->next;
    uint32_t slot = (uint32_t)timer->due & SW_WHEEL_MASK;
    if (timer == last) {
        wheel->slots[slot] = NULL;
        wheel->bits[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    } else {
        last->next = timer->next;
        if (wheel->slots[slot] == timer)
            wheel->slots[slot] = last;
    }
    timer->next = NULL;
}

/* What the heap's first timer or the run's end allow has changed. */
static inline void sw_set_limit(sw_engine *engine)
{
    uint64_t limit = engine->attention ? 0 : engine->end;
    engine->limit = engine->heap_count && engine->heap[0]->due < limit ? engine->heap[0]->due : limit;
}

/* The first timer of all, taken out, if it is due before the run's end; else NULL. The wheel turns to it. */
struct sw_timer *sw_timer_search(sw_engine *engine);

static inline struct sw_timer *sw_timer_next(sw_engine *engine)
{
    struct sw_wheel *wheel = &engine->wheel;
    uint32_t slot = (uint32_t)wheel->base & SW_WHEEL_MASK;
    uint64_t set = wheel->bits[slot / 64] >> slot % 64;
    if (__builtin_expect(set != 0, 1)) {
        struct sw_timer *last = wheel->slots[slot + (uint32_t)__builtin_ctzll(set)], *timer = last->next;
        if (__builtin_expect(timer->due < engine->limit, 1)) {
            wheel->base = timer->due;
            sw_wheel_take(wheel, last);
            return timer;
        }
    }
    return sw_timer_search(engine);
}

#endif
