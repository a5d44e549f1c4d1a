/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: its lock, its heap of port events, the manual clock, packets for the CPU port. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sw_internal.h"

SW_PUBLIC sw_engine *sw_engine_create(void)
{
    sw_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return NULL;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&engine->turnstile, NULL);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->in_lock, NULL);
    pthread_cond_init(&engine->in_ready, &attr);
    pthread_condattr_destroy(&attr);
    sw_constants_init(&engine->constants);
    engine->exact = true;
    engine->epoll_fd = -1;
    engine->wake_fd = -1;
    return engine;
}

SW_PUBLIC void sw_engine_destroy(sw_engine *engine)
{
    sw_engine_free_removed(engine);
    while (engine->devices) {
        sw_device *device = engine->devices;
        engine->devices = device->next;
        sw_device_free(device);
    }
    while (engine->in_head) {
        struct sw_packet_in *item = engine->in_head;
        engine->in_head = item->next;
        free(item);
    }
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
    if (engine->wake_fd >= 0)
        close(engine->wake_fd);
    free(engine->overflow);
    free(engine->heap);
    pthread_mutex_destroy(&engine->turnstile);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->in_lock);
    pthread_cond_destroy(&engine->in_ready);
    free(engine);
}

SW_PUBLIC const char *sw_engine_error(const sw_engine *engine) { return engine->error; }

int sw_fail(sw_engine *engine, const char *what)
{
    char text[128];
    const char *reason = strerror_r(errno, text, sizeof text);
    snprintf(engine->error, sizeof engine->error, "%s: %s", what, reason);
    return SW_E_SYSTEM;
}

void sw_lock(sw_engine *engine)
{
    pthread_mutex_lock(&engine->turnstile);
    pthread_mutex_lock(&engine->lock);
    pthread_mutex_unlock(&engine->turnstile);
}

void sw_unlock(sw_engine *engine) { pthread_mutex_unlock(&engine->lock); }

void sw_wake(sw_engine *engine)
{
    if (engine->running) {
        uint64_t one = 1;
        ssize_t written = write(engine->wake_fd, &one, sizeof one);
        (void)written; /* a full eventfd wakes as well */
    }
}

/* --- the heap of ports, by time of their next event --- */

static bool before(const sw_port *a, const sw_port *b)
{
    return a->event_ns != b->event_ns ? a->event_ns < b->event_ns : a->order < b->order;
}

static void place(sw_engine *engine, uint32_t i, sw_port *port)
{
    engine->heap[i] = port;
    port->heap_index = i + 1;
}

static void sift(sw_engine *engine, uint32_t i)
{
    sw_port *port = engine->heap[i];
    while (i > 0) {
        uint32_t parent = (i - 1) / 2;
        if (!before(port, engine->heap[parent]))
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
        if (!before(engine->heap[child], port))
            break;
        place(engine, i, engine->heap[child]);
        i = child;
    }
    place(engine, i, port);
}

void sw_unschedule(sw_port *port)
{
    sw_engine *engine = port->device->engine;
    if (!port->heap_index)
        return;
    uint32_t i = port->heap_index - 1;
    sw_port *last = engine->heap[--engine->heap_count];
    port->heap_index = 0;
    if (last != port) {
        place(engine, i, last);
        sift(engine, i);
    }
}

/* Put the port's next event into the heap. If the heap can't grow, the event waits for the next occasion. */
void sw_schedule(sw_port *port)
{
    sw_engine *engine = port->device->engine;
    uint64_t due = UINT64_MAX;
    if (port->line.head)
        due = port->line.head->enq_ns;
    if (port->queued && port->free_ns < due)
        due = port->free_ns;
    if (due == UINT64_MAX) {
        sw_unschedule(port);
        return;
    }
    if (port->heap_index && port->event_ns == due)
        return;
    port->event_ns = due;
    if (!port->heap_index) {
        if (engine->heap_count == engine->heap_room) {
            uint32_t room = engine->heap_room ? 2 * engine->heap_room : 64;
            sw_port **heap = realloc(engine->heap, room * sizeof *heap);
            if (!heap)
                return;
            engine->heap = heap;
            engine->heap_room = room;
        }
        place(engine, engine->heap_count++, port);
    }
    sift(engine, port->heap_index - 1);
}

void sw_engine_free_removed(sw_engine *engine)
{
    while (engine->removed) {
        sw_port *port = engine->removed;
        engine->removed = port->next_removed;
        sw_port_free(port);
    }
}

void sw_run_events(sw_engine *engine, uint64_t now)
{
    while (engine->heap_count && engine->heap[0]->event_ns <= now) {
        sw_port *port = engine->heap[0];
        if (engine->exact)
            engine->now_ns = port->event_ns;
        sw_port_event(port, engine->now_ns);
    }
    if (now > engine->now_ns)
        engine->now_ns = now;
}

SW_PUBLIC int sw_engine_advance(sw_engine *engine, uint64_t now_ns)
{
    int rc = SW_OK;
    sw_lock(engine);
    if (engine->running || now_ns < engine->now_ns) {
        rc = engine->running ? SW_E_STATE : SW_E_INVALID;
    } else {
        sw_run_events(engine, now_ns);
        sw_flush_all(engine);
    }
    sw_unlock(engine);
    return rc;
}

SW_PUBLIC uint64_t sw_engine_now(sw_engine *engine)
{
    sw_lock(engine);
    uint64_t now = engine->now_ns;
    sw_unlock(engine);
    return now;
}

SW_PUBLIC uint64_t sw_engine_next(sw_engine *engine)
{
    sw_lock(engine);
    uint64_t next = sw_next_event(engine);
    sw_unlock(engine);
    return next;
}

/* --- packets for the CPU port --- */

void sw_packet_in_push(sw_device *device, const struct sw_packet *pkt)
{
    sw_engine *engine = device->engine;
    struct sw_packet_in *item = NULL;
    pthread_mutex_lock(&engine->in_lock);
    if (device->packet_in_waiting < SW_PACKET_IN_LIMIT)
        item = malloc(sizeof *item + pkt->len);
    if (!item) {
        device->stats.packet_in_drops++;
        pthread_mutex_unlock(&engine->in_lock);
        return;
    }
    item->next = NULL;
    item->device = device;
    item->length = pkt->len;
    memcpy(item->frame, pkt->data, pkt->len);
    device->packet_in_waiting++;
    if (engine->in_tail)
        engine->in_tail->next = item;
    else
        engine->in_head = item;
    engine->in_tail = item;
    pthread_cond_signal(&engine->in_ready);
    pthread_mutex_unlock(&engine->in_lock);
}

SW_PUBLIC int64_t sw_packet_in(sw_engine *engine, sw_device **device, uint8_t *frame, uint32_t capacity,
                               uint32_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&engine->in_lock);
    while (!engine->in_head && !engine->in_cancel)
        if (timeout_ms == 0 || pthread_cond_timedwait(&engine->in_ready, &engine->in_lock, &until) == ETIMEDOUT)
            break;
    struct sw_packet_in *item = engine->in_head;
    engine->in_cancel = false;
    if (item) {
        engine->in_head = item->next;
        if (!engine->in_head)
            engine->in_tail = NULL;
        item->device->packet_in_waiting--;
    }
    pthread_mutex_unlock(&engine->in_lock);
    if (!item)
        return 0;
    uint32_t length = item->length < capacity ? item->length : capacity;
    memcpy(frame, item->frame, length);
    *device = item->device;
    free(item);
    return length;
}

SW_PUBLIC void sw_engine_cancel_wait(sw_engine *engine)
{
    pthread_mutex_lock(&engine->in_lock);
    engine->in_cancel = true;
    pthread_cond_broadcast(&engine->in_ready);
    pthread_mutex_unlock(&engine->in_lock);
}
