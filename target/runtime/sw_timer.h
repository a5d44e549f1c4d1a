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
    timer->place = SW_IN_WHEEL;
    wheel->count++;
    if (!last) {
        timer->next = timer;
        wheel->slots[slot] = timer;
        wheel->bits[slot / 64] |= UINT64_C(1) << slot % 64;
        wheel->summary[slot / 4096] |= UINT64_C(1) << slot / 64 % 64;
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
    timer->place = 0;
    wheel->count--;
    if (timer != last) {
        last->next = timer->next;
        if (wheel->slots[slot] == timer)
            wheel->slots[slot] = last;
        return;
    }
    wheel->slots[slot] = NULL;
    wheel->bits[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    if (!wheel->bits[slot / 64])
        wheel->summary[slot / 4096] &= ~(UINT64_C(1) << slot / 64 % 64);
}

/* The first word of `bits` behind `word`, around the wheel and `word` itself last, that is not 0. There is one. */
static inline uint32_t sw_wheel_word(const struct sw_wheel *wheel, uint32_t word)
{
    const uint32_t words = SW_WHEEL_SLOTS / 4096;
    uint32_t next = (word + 1) % (SW_WHEEL_SLOTS / 64), group = next / 64;
    uint64_t set = wheel->summary[group] & ~UINT64_C(0) << next % 64;
    while (!set) {
        group = (group + 1) % words;
        set = wheel->summary[group];
    }
    return group * 64 + (uint32_t)__builtin_ctzll(set);
}

/* The last timer of the wheel's first slot that has some; there is one. */
static inline struct sw_timer *sw_wheel_slot(const struct sw_wheel *wheel)
{
    uint32_t slot = (uint32_t)wheel->base & SW_WHEEL_MASK, word = slot / 64;
    uint64_t set = wheel->bits[word] >> slot % 64;
    if (__builtin_expect(set != 0, 1))
        return wheel->slots[slot + (uint32_t)__builtin_ctzll(set)];
    word = sw_wheel_word(wheel, word);
    return wheel->slots[word * 64 + (uint32_t)__builtin_ctzll(wheel->bits[word])];
}

/* The first timer of all, taken out, if it is due by `until`; else NULL. The wheel turns to it. */
static inline struct sw_timer *sw_timer_next(sw_engine *engine, uint64_t until)
{
    struct sw_wheel *wheel = &engine->wheel;
    struct sw_timer *last = wheel->count ? sw_wheel_slot(wheel) : NULL, *timer = last ? last->next : NULL;
    if (__builtin_expect(engine->heap_count && (!timer || sw_timer_before(engine->heap[0], timer)), 0)) {
        timer = engine->heap[0];
        if (timer->due > until)
            return NULL;
        sw_heap_remove(engine, timer);
    } else {
        if (!timer || timer->due > until)
            return NULL;
        sw_wheel_take(wheel, last);
    }
    wheel->base = timer->due;
    return timer;
}

#endif
