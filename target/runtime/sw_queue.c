/* SPDX-License-Identifier: Apache-2.0 */
/* A port's priority queues and the rate that they share.
 *
 * A frame's service starts when the link is free and lasts its bits divided by the rate; it is delivered at the end of
 * its service plus the port's delay. The time at which the link is free again follows from ideal times (with the
 * fraction of a nanosecond kept), so a late loop does not slow a port down. */
#include <stdlib.h>

#include "sw_timer.h"

/* Bytes that a frame occupies the link for. */
static uint32_t weight_on_link(const sw_port *port, uint32_t length)
{
    int64_t bytes = (int64_t)length + port->frame_adjust;
    return bytes < (int64_t)port->min_frame ? port->min_frame : (uint32_t)bytes;
}

/* Of the queues with a share, the one that the link owes most; the higher priority of equal ones. */
static uint32_t choose_shared(const sw_port *port)
{
    uint32_t waiting = port->waiting & port->shared, best = 31u - (uint32_t)__builtin_clz(waiting);
    for (uint32_t left = waiting & ~(1u << best); left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        if (port->queues[i].credit > port->queues[best].credit)
            best = i;
    }
    return best;
}

/* While others wait, each frame of one queue is owed to all that wait, by their shares. */
static void charge_shared(sw_port *port, uint32_t served, uint32_t length)
{
    uint32_t waiting = port->waiting & port->shared;
    if (waiting == 1u << served)
        return;
    int64_t bytes = weight_on_link(port, length), total = 0, bound = 0;
    for (uint32_t left = port->shared; left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        bound += port->share_ppm[i];
        if (waiting & 1u << i) {
            total += port->share_ppm[i];
            port->queues[i].credit += bytes * port->share_ppm[i];
        }
    }
    port->queues[served].credit -= bytes * total;
    bound *= SW_SHARE_BYTES;
    for (uint32_t left = waiting; left; left &= left - 1) {
        struct sw_queue *q = &port->queues[__builtin_ctz(left)];
        if (q->credit > bound)
            q->credit = bound;
        if (q->credit < -bound)
            q->credit = -bound;
    }
}

uint32_t sw_port_choose_shared(sw_port *port)
{
    uint32_t i = choose_shared(port);
    charge_shared(port, i, port->queues[i].list.head->queued_len);
    return i;
}

void sw_port_drop_queued(sw_port *port, uint64_t *count)
{
    for (uint32_t i = 0; i < SW_MAX_QUEUES; i++) {
        struct sw_queue *q = &port->queues[i];
        struct sw_packet *pkt;
        while ((pkt = sw_list_pop(&q->list)) != NULL) {
            sw_pool_put(pkt);
            (*count)++;
        }
        q->bytes = q->packets = 0;
    }
    port->waiting = 0;
    sw_timer_cancel(port->device->engine, &port->service);
}

void sw_port_schedule_service(sw_port *port)
{
    sw_engine *engine = port->device->engine;
    uint64_t due = port->rate_bps ? port->free_ns : engine->now_ns;
    if (port->waiting)
        sw_timer_set(engine, &port->service, due, engine->causes++);
}
