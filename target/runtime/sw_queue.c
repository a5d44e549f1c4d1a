/* SPDX-License-Identifier: Apache-2.0 */
/* A port's priority queues and the rate that they share.
 *
 * A frame's service starts when the link is free and lasts its bits divided by the rate; it is delivered at the end of
 * its service plus the port's delay. The time at which the link is free again follows from ideal times (with the
 * fraction of a nanosecond kept), so a late loop does not slow a port down. */
#include <stdlib.h>

#include "sw_internal.h"

/* Bytes that a frame occupies the link for. */
static uint32_t weight_on_link(const sw_port *port, uint32_t length)
{
    int64_t bytes = (int64_t)length + port->frame_adjust;
    return bytes < (int64_t)port->min_frame ? port->min_frame : (uint32_t)bytes;
}

void sw_port_occupy(sw_port *port, uint32_t length)
{
    sw_u128 bits = (sw_u128)weight_on_link(port, length) * 8 * UINT64_C(1000000000) + port->free_fraction;
    port->free_ns += (uint64_t)(bits / port->rate_bps);
    port->free_fraction = (uint64_t)(bits % port->rate_bps);
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

static struct sw_packet *dequeue(sw_port *port)
{
    uint32_t ready = port->waiting;
    if (ready & port->shared) /* they stand where the highest of them stands */
        ready = (ready & ~port->shared) | 1u << (31 - __builtin_clz(port->shared));
    uint32_t i = 31u - (uint32_t)__builtin_clz(ready);
    if (port->shared & 1u << i) {
        i = choose_shared(port);
        charge_shared(port, i, port->queues[i].list.head->queued_len);
    }
    struct sw_queue *q = &port->queues[i];
    struct sw_packet *pkt = sw_list_pop(&q->list);
    q->packets--;
    q->bytes -= pkt->queued_len;
    if (!q->packets)
        port->waiting &= ~(1u << i);
    port->queued--;
    pkt->deq_depth = (uint32_t)q->packets;
    return pkt;
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
    port->queued = port->waiting = 0;
    port->starting = false;
    sw_timer_cancel(port->device->engine, &port->service);
}

void sw_port_schedule_service(sw_port *port)
{
    sw_engine *engine = port->device->engine;
    uint64_t due = port->rate_bps ? port->free_ns : engine->now_ns;
    if (port->queued)
        sw_timer_set(engine, &port->service, due, engine->causes++);
}

void sw_port_enqueue(sw_port *port, struct sw_packet *pkt)
{
    sw_device *device = port->device;
    uint64_t now = device->engine->now_ns;
    if (__builtin_expect(pkt->priority >= device->config.queues, 0)) {
        device->stats.priority_drops++;
        sw_pool_put(pkt);
        return;
    }
    pkt->enq_ns = now;
    if (port->rate_bps == 0 || device->discard) {
        pkt->enq_depth = 0;
        pkt->deq_depth = 0;
        sw_list_push(&device->egress_work, pkt);
        return;
    }
    struct sw_queue *q = &port->queues[pkt->priority];
    uint32_t weight = pkt->length < pkt->truncate ? pkt->length : pkt->truncate;
    if (q->bytes + weight > q->capacity) {
        q->drops++;
        q->drop_bytes += weight;
        sw_pool_put(pkt);
        return;
    }
    pkt->enq_depth = (uint32_t)q->packets;
    pkt->queued_len = weight;
    if (port->queued == 0) {
        /* An idle port starts when the packet comes, a backlogged one goes on from its ideal time. */
        if (port->free_ns < now) {
            port->free_ns = now;
            port->free_fraction = 0;
        }
        if (port->free_ns == now && device->engine->direct && !port->starting) {
            port->starting = true;
            pkt->deq_depth = 0;
            sw_list_push(&device->egress_work, pkt);
            return;
        }
    }
    q->packets++;
    q->bytes += weight;
    if (q->packets > q->peak_packets)
        q->peak_packets = q->packets;
    if (q->bytes > q->peak_bytes)
        q->peak_bytes = q->bytes;
    port->waiting |= 1u << pkt->priority;
    port->queued++;
    sw_list_push(&q->list, pkt);
    if (port->queued == 1)
        sw_port_schedule_service(port);
}

void sw_port_serve(sw_port *port, uint64_t now)
{
    sw_device *device = port->device;
    while (port->queued && (port->rate_bps == 0 || port->free_ns <= now)) {
        struct sw_packet *pkt = dequeue(port);
        if (!device->engine->exact && now > port->free_ns + SW_CATCH_UP_NS)
            port->free_ns = now - SW_CATCH_UP_NS;
        device->pipeline->state.now_ns = now;
        sw_device_egress(device, port, pkt);
        sw_device_drain(device);
    }
    sw_port_schedule_service(port);
    if (!port->queued && port->gated)
        sw_attached_schedule(port->gated);
}
