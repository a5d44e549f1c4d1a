/* SPDX-License-Identifier: Apache-2.0 */
/* The packet loop of the wall clock: the only file that reads a clock. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "sw_internal.h"

#define HOUSEKEEPING_NS UINT64_C(500000000)
#define MAX_EVENTS 64
#define MAX_WAIT_NS UINT64_C(500000000)

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static int wait_events(int fd, struct epoll_event *events, uint64_t ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    int n = epoll_pwait2(fd, events, MAX_EVENTS, &timeout, NULL);
    if (n < 0 && errno == ENOSYS) /* before Linux 5.11: whole milliseconds */
        n = epoll_wait(fd, events, MAX_EVENTS, (int)((ns + 999999) / 1000000));
    return n;
}

/* Twice a second: write out captures, count the kernel's drops, look for interfaces that came back. */
static void housekeeping(sw_engine *engine)
{
    for (sw_device *device = engine->devices; device; device = device->next)
        for (uint32_t i = 0; i < device->port_room; i++) {
            sw_port *port = device->ports[i];
            if (!port)
                continue;
            if (port->capture.in)
                fflush(port->capture.in);
            if (port->capture.out)
                fflush(port->capture.out);
            sw_socket_count_drops(port);
            if (port->kind == SW_PORT_SOCKET && !port->up) {
                sw_socket_close(port);
                if (sw_socket_open(port) == SW_OK)
                    sw_profiles_ports_changed(device);
            }
        }
}

static int prepare(sw_engine *engine)
{
    if (!engine->overflow)
        engine->overflow = malloc((size_t)SW_BATCH * SW_LARGE_FRAME);
    if (!engine->overflow)
        return SW_E_MEMORY;
    if (engine->wake_fd < 0)
        engine->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (engine->wake_fd < 0)
        return sw_fail(engine, "eventfd");
    if (engine->epoll_fd >= 0)
        return SW_OK;
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (engine->epoll_fd < 0)
        return sw_fail(engine, "epoll");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->wake_fd, &event) < 0)
        return sw_fail(engine, "epoll");
    for (sw_device *device = engine->devices; device; device = device->next)
        for (uint32_t i = 0; i < device->port_room; i++) {
            sw_port *port = device->ports[i];
            if (!port || port->fd < 0)
                continue;
            event.data.ptr = port;
            if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, port->fd, &event) < 0)
                return sw_fail(engine, port->interface);
        }
    return SW_OK;
}

SW_PUBLIC int sw_engine_prepare(sw_engine *engine)
{
    sw_lock(engine);
    int rc = prepare(engine);
    sw_unlock(engine);
    return rc;
}

/* With the lock held: everything that is ready or due now. Returns the time of the next event. */
static uint64_t turn(sw_engine *engine, const struct epoll_event *events, int count)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC) - engine->start_ns;
    if (now > engine->now_ns)
        engine->now_ns = now;
    for (int i = 0; i < count; i++) {
        sw_port *port = events[i].data.ptr;
        if (port == NULL) {
            uint64_t wakes;
            ssize_t got = read(engine->wake_fd, &wakes, sizeof wakes);
            (void)got;
        } else if (port->fd >= 0) {
            sw_socket_receive(port);
        }
    }
    sw_engine_free_removed(engine);
    while (sw_run_events(engine, engine->now_ns)) {
    }
    sw_flush_all(engine);
    if (engine->now_ns >= engine->housekeeping_ns) {
        housekeeping(engine);
        engine->housekeeping_ns = engine->now_ns + HOUSEKEEPING_NS;
    }
    return sw_next_event(engine);
}

static void loop(sw_engine *engine)
{
    struct epoll_event events[MAX_EVENTS];
    int count = 0;
    /* Timers to the microsecond, not to the default 50. */
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    while (!atomic_load_explicit(&engine->stop, memory_order_relaxed)) {
        sw_lock(engine);
        uint64_t next = turn(engine, events, count), wait = MAX_WAIT_NS;
        sw_unlock(engine);
        if (next != UINT64_MAX) {
            uint64_t now = clock_ns(CLOCK_MONOTONIC) - engine->start_ns;
            wait = next <= now ? 0 : next - now < MAX_WAIT_NS ? next - now : MAX_WAIT_NS;
        }
        count = wait_events(engine->epoll_fd, events, wait);
        if (count < 0)
            count = 0;
    }
}

SW_PUBLIC int sw_engine_run(sw_engine *engine)
{
    sw_lock(engine);
    if (engine->running) {
        sw_unlock(engine);
        return SW_E_STATE;
    }
    int rc = prepare(engine);
    if (rc == SW_OK) {
        engine->start_ns = clock_ns(CLOCK_MONOTONIC) - engine->now_ns;
        engine->epoch_ns = clock_ns(CLOCK_REALTIME) - engine->now_ns;
        engine->exact = false;
        engine->running = true;
    }
    sw_unlock(engine);
    if (rc != SW_OK)
        return rc;
    loop(engine);
    sw_lock(engine);
    sw_flush_all(engine);
    housekeeping(engine);
    sw_engine_free_removed(engine);
    engine->running = false;
    engine->exact = true;
    atomic_store(&engine->stop, false);
    sw_unlock(engine);
    return SW_OK;
}

SW_PUBLIC void sw_engine_stop(sw_engine *engine)
{
    atomic_store(&engine->stop, true);
    sw_wake(engine);
}

static void set_discard(sw_device *device, bool discard)
{
    for (uint32_t i = 0; i < device->port_room; i++)
        if (device->ports[i]) {
            device->ports[i]->discard = discard;
            sw_port_refresh(device->ports[i]);
        }
}

SW_PUBLIC int64_t sw_device_benchmark(sw_device *device, uint32_t number, const uint8_t *frames,
                                      const uint32_t *lengths, uint32_t frame_count, uint64_t count)
{
    sw_engine *engine = device->engine;
    sw_lock(engine);
    struct sw_pipeline *pl = device->pipeline;
    sw_port *port = sw_device_port(device, number);
    const uint8_t **starts = calloc(frame_count + 1, sizeof *starts);
    int64_t result = !pl || !port || frame_count == 0 ? SW_E_STATE : starts ? SW_OK : SW_E_MEMORY;
    for (uint32_t i = 0; result == SW_OK && i < frame_count; i++) {
        starts[i] = frames;
        frames += lengths[i];
    }
    uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID), now = engine->now_ns;
    set_discard(device, true);
    for (uint64_t i = 0, frame = 0; result == SW_OK && i < count; i++) {
        struct sw_packet *pkt = sw_pool_get(pl->pool, lengths[frame]);
        if (!pkt) {
            result = SW_E_FULL;
            break;
        }
        memcpy(pkt->data, starts[frame], pkt->len);
        engine->now_ns += 1000;
        sw_device_receive(device, port, pkt);
        if (++frame == frame_count)
            frame = 0;
    }
    set_discard(device, false);
    engine->now_ns = now;
    if (result == SW_OK)
        result = (int64_t)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start);
    free(starts);
    sw_unlock(engine);
    return result;
}
