/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints (what is attached to a port instead of a link) and observers. */
#include <stdlib.h>

#include "sw_timer.h"

#define POLLS_AT_ONCE 64u /* frames fetched at one instant that do not occupy the gate's link */

void sw_attached_schedule(struct sw_attached *attached)
{
    sw_engine *engine = attached->port->device->engine;
    const sw_port *gate = attached->gate;
    uint64_t first = engine->now_ns;
    if (attached->shut || (gate && gate->waiting))
        return; /* the gate comes back to it when its queues are empty */
    if (gate && gate->rate_bps && gate->free_ns > first)
        first = gate->free_ns;
    if (attached->not_before > first)
        first = attached->not_before;
    /* A timer that fires too early sets itself anew; so moving a wake-up to a later time costs nothing here. */
    struct sw_timer *timer = &attached->timer;
    bool set = sw_timer_is_set(timer);
    if (set && timer->due <= first)
        return;
    attached->wake = attached->endpoint.next_wake(attached->endpoint.context);
    if (attached->wake == UINT64_MAX)
        return;
    uint64_t due = attached->wake > first ? attached->wake : first;
    if (set) {
        if (timer->due <= due)
            return;
        sw_timer_cancel(engine, timer);
    }
    sw_timer_start(engine, timer, due, engine->causes++);
}

void sw_attached_settle(sw_engine *engine)
{
    while (engine->settling) {
        struct sw_attached *attached = engine->settling;
        engine->settling = attached->next_settling;
        attached->settling = false;
        sw_attached_schedule(attached);
    }
}

static bool gate_open(const sw_port *gate, uint64_t now)
{
    return !gate || (!gate->waiting && (gate->rate_bps == 0 || gate->free_ns <= now));
}

void sw_attached_wake(struct sw_attached *attached, uint64_t now)
{
    const struct sw_endpoint *endpoint = &attached->endpoint;
    sw_engine *engine = attached->port->device->engine;
    uint32_t polls = 0;
    struct sw_frame frame;
    if (attached->shut)
        return;
    /* The wake-up may have moved since it was set, to a later time only: then there is nothing to poll. */
    while (polls < POLLS_AT_ONCE && attached->wake <= now && gate_open(attached->gate, now)) {
        polls++;
        if (!endpoint->poll(endpoint->context, now, &frame)) {
            attached->wake = UINT64_MAX;
            attached->not_before = now + 1;
        } else {
            (void)sw_device_enter(attached->port->device, attached->port, &frame);
        }
    }
    if (polls && endpoint->attention && endpoint->attention(endpoint->context))
        sw_ask_to_stop(engine);
    if (polls == POLLS_AT_ONCE) /* time goes on, whatever the endpoint says */
        sw_timer_set(engine, &attached->timer, now + 1, engine->causes++);
    else
        sw_attached_schedule(attached);
}

static int attach(sw_device *device, sw_port *port, const struct sw_endpoint *endpoint, sw_port *gate)
{
    sw_engine *engine = device->engine;
    if (port->kind != SW_PORT_MEMORY || !endpoint->receive || !endpoint->poll || !endpoint->next_wake)
        return SW_E_INVALID;
    if (port->peer || port->attached || port->line.head || (gate && gate->gated))
        return SW_E_EXISTS;
    struct sw_attached *attached = sw_memory_zeroed(&engine->memory, sizeof *attached);
    if (!attached || !sw_timers_reserve(engine, 1)) {
        sw_memory_put(&engine->memory, attached, sizeof *attached);
        return SW_E_MEMORY;
    }
    attached->endpoint = *endpoint;
    attached->port = port;
    attached->gate = gate;
    attached->timer.kind = SW_TIMER_WAKE;
    attached->timer.port = port;
    port->attached = attached;
    sw_port_refresh(port);
    if (gate)
        gate->gated = attached;
    sw_attached_schedule(attached);
    return SW_OK;
}

void sw_attached_free(sw_port *port)
{
    struct sw_attached *attached = port->attached;
    sw_engine *engine = port->device->engine;
    if (port->gated) {
        port->gated->gate = NULL;
        port->gated->shut = true;
        port->gated = NULL;
    }
    if (!attached)
        return;
    for (struct sw_attached **link = &engine->settling; *link; link = &(*link)->next_settling)
        if (*link == attached) {
            *link = attached->next_settling;
            break;
        }
    sw_timer_cancel(engine, &attached->timer);
    (void)sw_timers_reserve(engine, -1);
    if (attached->gate)
        attached->gate->gated = NULL;
    port->attached = NULL;
    sw_port_refresh(port);
    sw_memory_put(&engine->memory, attached, sizeof *attached);
}

SW_PUBLIC int sw_port_attach(sw_device *device, uint32_t number, const struct sw_endpoint *endpoint, uint32_t gate)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    sw_port *gate_port = gate == SW_NO_PORT ? NULL : sw_device_port(device, gate);
    if (port && !endpoint) {
        if (port->attached)
            sw_port_lose_line(port);
        sw_attached_free(port);
        rc = SW_OK;
    } else if (port && (gate_port || gate == SW_NO_PORT)) {
        rc = attach(device, port, endpoint, gate_port);
    }
    sw_unlock(device->engine);
    sw_wake(device->engine);
    return rc;
}

SW_PUBLIC int sw_port_kick(sw_device *device, uint32_t number)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port && port->attached) {
        port->attached->not_before = 0;
        sw_attached_schedule(port->attached);
        rc = SW_OK;
    }
    sw_unlock(device->engine);
    sw_wake(device->engine);
    return rc;
}

/* --- observers --- */

void sw_port_observed(sw_port *port, int outgoing, const struct sw_packet *pkt)
{
    sw_engine *engine = port->device->engine;
    if (port->observer.frame(port->observer.context, engine->now_ns, outgoing, pkt->data, sw_carried(pkt), pkt->len))
        sw_ask_to_stop(engine);
}

SW_PUBLIC int sw_port_observe(sw_device *device, uint32_t number, const struct sw_observer *observer)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port) {
        port->observer = observer ? *observer : (struct sw_observer){0};
        sw_port_refresh(port);
        rc = SW_OK;
    }
    sw_unlock(device->engine);
    return rc;
}
