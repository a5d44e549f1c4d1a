/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: its lock, the manual clock, packets for the CPU port. */
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
    sw_memory_init(&engine->memory);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&engine->turnstile, NULL);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->in_lock, NULL);
    pthread_cond_init(&engine->in_ready, &attr);
    pthread_cond_init(&engine->notice_ready, &attr);
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
    sw_notices_free(engine);
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
    if (engine->wake_fd >= 0)
        close(engine->wake_fd);
    free(engine->overflow);
    free(engine->heap);
    sw_memory_free(&engine->memory);
    pthread_mutex_destroy(&engine->turnstile);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->in_lock);
    pthread_cond_destroy(&engine->in_ready);
    pthread_cond_destroy(&engine->notice_ready);
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

/* --- events --- */

void sw_engine_free_removed(sw_engine *engine)
{
    while (engine->removed) {
        sw_port *port = engine->removed;
        engine->removed = port->next_removed;
        sw_port_free(port);
    }
}

SW_PUBLIC int sw_engine_run_until(sw_engine *engine, uint64_t until_ns)
{
    int rc;
    sw_lock(engine);
    if (engine->running || until_ns < engine->now_ns) {
        rc = engine->running ? SW_E_STATE : SW_E_INVALID;
    } else {
        rc = sw_run_events(engine, until_ns);
        sw_flush_all(engine);
    }
    sw_unlock(engine);
    return rc;
}

SW_PUBLIC int sw_engine_advance(sw_engine *engine, uint64_t now_ns)
{
    int rc;
    do
        rc = sw_engine_run_until(engine, now_ns);
    while (rc == 1);
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
    uint32_t carried = sw_carried(pkt);
    memcpy(item->frame, pkt->data, carried);
    memset(item->frame + carried, 0, pkt->len - carried);
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
    engine->in_cancel = engine->notice_cancel = true;
    pthread_cond_broadcast(&engine->in_ready);
    pthread_cond_broadcast(&engine->notice_ready);
    pthread_mutex_unlock(&engine->in_lock);
}
