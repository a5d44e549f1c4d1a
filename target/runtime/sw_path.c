/* SPDX-License-Identifier: Apache-2.0 */
/* Events and the path of a packet: from the link through ingress, queue, egress and deparser to the next link. What most
 * packets do is here in one piece, and inlined into the loop over the events; everything else is called. */
#include <stdlib.h>

#include "sw_pool.h"
#include "sw_timer.h"

/* Two counters in one vector register take more instructions than two additions. */
#pragma GCC optimize("no-tree-slp-vectorize")

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE static inline __attribute__((always_inline))
#define COLD static __attribute__((noinline, cold))

static void egress(sw_device *device, sw_port *port, struct sw_packet *pkt);

/* --- onto the link --- */

INLINE void deliver_to_endpoint(sw_engine *engine, sw_port *port, const uint8_t *data, uint32_t bytes,
                                uint32_t wire_bytes)
{
    struct sw_attached *attached = port->attached;
    if (UNLIKELY(port->watched && port->capture.out))
        sw_capture_write(port->capture.out, engine, data, bytes, wire_bytes);
    port->tx_packets++;
    port->tx_bytes += wire_bytes;
    if (UNLIKELY(attached->endpoint.receive(attached->endpoint.context, engine->now_ns, data, bytes, wire_bytes)))
        sw_ask_to_stop(engine);
    attached->not_before = 0;
    if (!attached->settling) { /* its next_wake may have changed */
        attached->settling = true;
        attached->next_settling = engine->settling;
        engine->settling = attached;
    }
}

/* The serialization time of a frame is added to the time at which the link was free, exactly. */
INLINE void occupy(sw_port *port, uint32_t length)
{
    int64_t bytes = (int64_t)length + port->frame_adjust;
    uint64_t weight = bytes < (int64_t)port->min_frame ? port->min_frame : (uint64_t)bytes;
    uint64_t bits = weight * (8 * UINT64_C(1000000000)) + port->free_fraction;
    port->free_ns += bits / port->rate_bps;
    port->free_fraction = bits % port->rate_bps;
}

COLD bool long_record(struct sw_record *record, const uint8_t *data, uint32_t bytes)
{
    record->data.elsewhere = malloc(bytes);
    if (!record->data.elsewhere)
        return false;
    memcpy(record->data.elsewhere, data, bytes);
    return true;
}

INLINE void send_joined(sw_engine *engine, sw_port *port, const struct sw_packet *pkt, uint64_t due)
{
    struct sw_ring *ring = &port->ring;
    uint32_t bytes = sw_carried(pkt);
    if (UNLIKELY(due <= engine->now_ns)) {
        if (port->attached && ring->head == ring->tail) {
            deliver_to_endpoint(engine, port, pkt->data, bytes, pkt->len);
            return;
        }
        due = engine->now_ns + 1; /* a loop of links without delay would never end */
    }
    bool stored = LIKELY(ring->tail - ring->head < ring->mask) || sw_ring_grow(&engine->memory, ring);
    struct sw_record *record = &ring->records[ring->tail & ring->mask];
    if (LIKELY(stored && bytes <= SW_USUAL_COPY))
        memcpy(record->data.here, pkt->data, SW_USUAL_COPY);
    else if (!stored || !long_record(record, pkt->data, bytes)) {
        port->device->stats.buffer_drops++;
        sw_port_lose(port, pkt->len);
        return;
    }
    uint32_t cause = engine->causes++;
    record->due = due;
    record->cause = cause;
    record->bytes = (uint16_t)bytes;
    record->wire_bytes = (uint16_t)pkt->len;
    if (ring->tail++ == ring->head)
        sw_timer_start(engine, &port->arrival, due, cause);
}

/* A port that is joined to nothing: a socket, the CPU port, or one that is read from outside. */
COLD void send_elsewhere(sw_engine *engine, sw_port *port, struct sw_packet *pkt, uint64_t due)
{
    if (due <= engine->now_ns && !port->line.head) {
        sw_port_deliver(port, pkt);
        return;
    }
    pkt->enq_ns = due;
    pkt->deq_depth = engine->causes++; /* of no use any more as a depth */
    sw_list_push(&port->line, pkt);
    if (port->line.head == pkt)
        sw_timer_start(engine, &port->arrival, due, pkt->deq_depth);
}

/* False: it does not come to the link. */
COLD bool unusual_send(sw_port *port, const struct sw_packet *pkt)
{
    if (port->kind == SW_PORT_NULL || port->discard) {
        port->device->stats.unknown_port += port->kind == SW_PORT_NULL;
        return false;
    }
    if (port->observer.frame)
        sw_port_observed(port, 1, pkt);
    if (!sw_port_loses(port, pkt->len))
        return true;
    port->sent[pkt->priority]++;
    if (port->rate_bps)
        occupy(port, pkt->len);
    return false;
}

/* A deparsed frame starts on the link. */
INLINE void send(sw_engine *engine, sw_port *port, struct sw_packet *pkt)
{
    uint64_t due = engine->now_ns;
    if (UNLIKELY(port->unusual && !unusual_send(port, pkt))) {
        sw_pool_put(pkt);
        return;
    }
    port->sent[pkt->priority]++;
    if (LIKELY(port->rate_bps)) {
        occupy(port, pkt->len);
        due = port->free_ns;
    }
    due += port->delay_ns;
    if (LIKELY(port->joined)) {
        send_joined(engine, port, pkt, due);
        sw_pool_give(pkt->pool, pkt);
    } else {
        send_elsewhere(engine, port, pkt, due);
    }
}

/* --- egress --- */

INLINE void run_egress(sw_device *device, sw_port *port, struct sw_packet *pkt)
{
    struct sw_pipeline *pl = device->pipeline;
    /* What the parser took for headers is there, if only as zeros. */
    if (UNLIKELY(pkt->end < pkt->data + pkt->parsed))
        pkt->end = pkt->data + pkt->parsed;
    int made = pl->program->egress(&pl->state, pkt);
    if (UNLIKELY(pkt->clone_session != 0))
        sw_device_egress_clone(device, pkt);
    if (UNLIKELY(pkt->egress_spec == device->config.drop_port)) {
        device->stats.egress_drops++;
        sw_pool_put(pkt);
        return;
    }
    if (UNLIKELY(pl->program->deparse != NULL))
        made = pl->program->deparse(&pl->state, pkt);
    if (UNLIKELY(made != 0)) {
        device->stats.header_drops++;
        sw_pool_put(pkt);
        return;
    }
    if (UNLIKELY(pkt->recirculate_list != 0)) {
        sw_device_recirculate(device, pkt);
        return;
    }
    send(device->engine, port, pkt);
}

static __attribute__((noinline)) void egress(sw_device *device, sw_port *port, struct sw_packet *pkt)
{
    run_egress(device, port, pkt);
}

/* --- into the queue --- */

/* Some packet waits: service is when the link is free. It may be set already, for packets that are gone. */
INLINE void next_service(sw_engine *engine, sw_port *port)
{
    if (UNLIKELY(sw_timer_is_set(&port->service)))
        sw_timer_cancel(engine, &port->service);
    sw_timer_start(engine, &port->service, port->free_ns, engine->causes++);
}

/* The port is busy, or it is not the time for short ways. True: egress is to be run now. */
static __attribute__((noinline)) bool enqueue_busy(sw_device *device, sw_port *port, struct sw_packet *pkt)
{
    sw_engine *engine = device->engine;
    if (pkt->priority >= device->config.queues) {
        device->stats.priority_drops++;
        sw_pool_put(pkt);
        return false;
    }
    if (port->rate_bps == 0 || port->discard) {
        pkt->enq_depth = 0;
        pkt->deq_depth = 0;
        return true;
    }
    struct sw_queue *q = &port->queues[pkt->priority];
    uint32_t weight = pkt->length < pkt->truncate ? pkt->length : pkt->truncate;
    if (q->bytes + weight > q->capacity) {
        q->drops++;
        q->drop_bytes += weight;
        sw_pool_put(pkt);
        return false;
    }
    if (!port->waiting && port->free_ns < engine->now_ns) {
        /* An idle port starts when the packet comes, a backlogged one goes on from its ideal time. */
        port->free_ns = engine->now_ns;
        port->free_fraction = 0;
    }
    pkt->enq_depth = (uint32_t)q->packets;
    pkt->queued_len = weight;
    q->packets++;
    q->bytes += weight;
    if (q->packets > q->peak_packets)
        q->peak_packets = q->packets;
    if (q->bytes > q->peak_bytes)
        q->peak_bytes = q->bytes;
    bool first = !(port->waiting & ~SW_STARTING);
    port->waiting |= 1u << pkt->priority;
    sw_list_push(&q->list, pkt);
    if (first)
        next_service(engine, port);
    return false;
}

/* True: egress is to be run now. Else the packet is in a queue, or dropped. */
INLINE bool enqueue(sw_device *device, sw_port *port, struct sw_packet *pkt)
{
    const sw_engine *engine = device->engine;
    uint64_t now = engine->now_ns;
    pkt->enq_ns = now;
    if (UNLIKELY(!engine->direct || port->waiting || port->free_ns > now || pkt->length > port->least_capacity ||
                 pkt->priority >= device->config.queues))
        return enqueue_busy(device, port, pkt);
    if (port->free_ns < now) {
        port->free_ns = now;
        port->free_fraction = 0;
    }
    pkt->enq_depth = 0;
    pkt->deq_depth = 0;
    return true;
}

/* As in simple_switch, egress runs even for a port that is not there: it may recirculate or clone. */
INLINE sw_port *egress_port(sw_device *device, struct sw_packet *pkt, uint32_t number, uint32_t instance_type)
{
    sw_port *port = sw_device_port(device, number);
    pkt->egress_port = number;
    pkt->instance_type = instance_type;
    return LIKELY(port) ? port : device->null_port;
}

static void start_later(sw_device *device, sw_port *port, struct sw_packet *pkt)
{
    port->waiting |= SW_STARTING;
    sw_list_push(&device->egress_work, pkt);
}

void sw_device_replicate(sw_device *device, struct sw_packet *pkt, const struct sw_replicas *r, uint32_t keep,
                         uint32_t instance_type)
{
    uint32_t count = r ? r->count : 0;
    if (count == 0) {
        sw_pool_put(pkt);
        return;
    }
    /* Clones wait until the packet that they are of is done with, and others wait behind them. */
    bool at_once = instance_type == SW_REPLICATION && !device->egress_work.head;
    for (uint32_t i = 0; i < count; i++) {
        struct sw_packet *copy = i + 1 == count ? pkt : sw_pool_copy(device->pipeline->pool, pkt, true);
        if (UNLIKELY(!copy)) {
            device->stats.buffer_drops++;
            continue;
        }
        copy->rid = r->rids[i];
        copy->replica = 1;
        if (keep && keep < copy->truncate)
            copy->truncate = keep;
        sw_port *port = egress_port(device, copy, r->ports[i], instance_type);
        if (!enqueue(device, port, copy))
            continue;
        if (at_once)
            egress(device, port, copy);
        else
            start_later(device, port, copy);
    }
}

/* --- ingress --- */

/* The port whose egress is to be run now, or NULL. */
INLINE sw_port *after_ingress(sw_device *device, struct sw_packet *pkt)
{
    if (UNLIKELY((uint32_t)(pkt->clone_session | pkt->resubmit_list) | pkt->mcast_grp) &&
        !sw_device_special_ingress(device, pkt))
        return NULL;
    if (UNLIKELY(pkt->egress_spec == device->config.drop_port)) {
        device->stats.ingress_drops++;
        sw_pool_put(pkt);
        return NULL;
    }
    sw_port *port = egress_port(device, pkt, pkt->egress_spec, SW_NORMAL);
    if (!enqueue(device, port, pkt))
        return NULL;
    if (LIKELY(!device->egress_work.head))
        return port;
    start_later(device, port, pkt); /* clones of it go first */
    return NULL;
}

/* Everything that became ready meanwhile: clones, replicas, packets that go through ingress again. */
static __attribute__((noinline)) void drain(sw_device *device)
{
    for (;;) {
        struct sw_packet *pkt = sw_list_pop(&device->egress_work);
        if (pkt) {
            sw_port *port = sw_device_port(device, pkt->egress_port);
            if (!port)
                port = device->null_port;
            egress(device, port, pkt);
            port->waiting &= ~SW_STARTING;
            continue;
        }
        pkt = sw_list_pop(&device->ingress_work);
        if (!pkt)
            return;
        device->ingress_waiting--;
        device->pipeline->program->reenter(&device->pipeline->state, pkt);
        sw_port *port = after_ingress(device, pkt);
        if (port)
            egress(device, port, pkt);
    }
}

INLINE void drain_if_needed(sw_device *device)
{
    if (UNLIKELY(device->egress_work.head || device->ingress_work.head))
        drain(device);
}

COLD void watch_incoming(sw_port *port, const struct sw_packet *pkt)
{
    if (port->capture.in)
        sw_capture_write(port->capture.in, port->device->engine, pkt->data, sw_carried(pkt), pkt->len);
    if (port->observer.frame)
        sw_port_observed(port, 0, pkt);
}

INLINE void receive(sw_engine *engine, sw_device *device, sw_port *port, struct sw_packet *pkt)
{
    struct sw_pipeline *pl = device->pipeline;
    uint32_t length = pkt->len;
    port->rx_packets++;
    port->rx_bytes += length;
    if (UNLIKELY(port->watched))
        watch_incoming(port, pkt);
    pl->state.now_ns = engine->now_ns;
    pkt->rx_ns = engine->now_ns;
    pkt->ingress_port = port->number;
    pkt->length = length;
    pkt->ingress_len = length;
    pl->program->receive(&pl->state, pkt);
    sw_port *out = after_ingress(device, pkt);
    if (LIKELY(out != NULL))
        run_egress(device, out, pkt);
    drain_if_needed(device);
}

void sw_device_receive(sw_device *device, sw_port *port, struct sw_packet *pkt)
{
    receive(device->engine, device, port, pkt);
}

/* --- from the link --- */

INLINE const uint8_t *record_data(const struct sw_record *record)
{
    return LIKELY(record->bytes <= SW_USUAL_COPY) ? record->data.here : record->data.elsewhere;
}

/* Take the first record off, and set the timer for the next. */
INLINE void ring_pop(sw_engine *engine, sw_port *port, const struct sw_record *first)
{
    struct sw_ring *ring = &port->ring;
    if (UNLIKELY(first->bytes > SW_USUAL_COPY))
        free(first->data.elsewhere);
    if (++ring->head != ring->tail) {
        const struct sw_record *next = &ring->records[ring->head & ring->mask];
        const struct sw_record *after = &ring->records[(ring->head + 1) & ring->mask];
        /* Written long ago; by the time that it is the first it is here. */
        __builtin_prefetch(after);
        __builtin_prefetch(after->data.here + 48);
        sw_timer_start(engine, &port->arrival, next->due, next->cause);
    }
}

static __attribute__((noinline)) void arrive_at_endpoint(sw_engine *engine, sw_port *port, const struct sw_record *record)
{
    deliver_to_endpoint(engine, port, record_data(record), record->bytes, record->wire_bytes);
    ring_pop(engine, port, record);
}

COLD void arrive_in_vain(sw_device *device, sw_port *port, uint32_t wire_bytes)
{
    port->rx_drops++;
    if (!device->pipeline)
        device->stats.no_pipeline_drops++;
    else if (wire_bytes > SW_LARGE_FRAME)
        device->stats.oversize_drops++;
    else
        device->stats.buffer_drops++;
}

/* A frame has come to the end of the link of a joined port. */
INLINE void arrive(sw_engine *engine, sw_port *port)
{
    const struct sw_record *record = &port->ring.records[port->ring.head & port->ring.mask];
    sw_port *peer = port->peer;
    if (UNLIKELY(!peer)) {
        arrive_at_endpoint(engine, port, record);
        return;
    }
    sw_device *device = peer->device;
    struct sw_packet *pkt = NULL;
    uint32_t bytes = record->bytes, wire_bytes = record->wire_bytes;
    port->tx_packets++;
    port->tx_bytes += wire_bytes;
    if (UNLIKELY(port->watched && port->capture.out))
        sw_capture_write(port->capture.out, engine, record_data(record), bytes, wire_bytes);
    if (LIKELY(device->pipeline && wire_bytes <= SW_LARGE_FRAME))
        pkt = sw_pool_take_frame(device->pipeline->pool, record_data(record), bytes, wire_bytes);
    ring_pop(engine, port, record);
    if (LIKELY(pkt))
        receive(engine, device, peer, pkt);
    else
        arrive_in_vain(device, peer, wire_bytes);
}

/* A frame from an endpoint or from outside. */
int sw_device_enter(sw_device *device, sw_port *port, const struct sw_frame *frame)
{
    if (UNLIKELY(!device->pipeline)) {
        device->stats.no_pipeline_drops++;
        port->rx_drops++;
        return SW_E_STATE;
    }
    if (UNLIKELY(frame->wire_bytes == 0 || frame->wire_bytes > SW_LARGE_FRAME || frame->bytes > frame->wire_bytes)) {
        device->stats.oversize_drops += frame->wire_bytes > SW_LARGE_FRAME;
        port->rx_drops++;
        return SW_E_INVALID;
    }
    if (UNLIKELY(port->down)) {
        sw_port_lose(port, frame->wire_bytes);
        return SW_OK;
    }
    struct sw_packet *pkt = sw_pool_frame(device->pipeline->pool, frame->data, frame->bytes, frame->wire_bytes);
    if (UNLIKELY(!pkt)) {
        device->stats.buffer_drops++;
        port->rx_drops++;
        return SW_E_FULL;
    }
    receive(device->engine, device, port, pkt);
    return SW_OK;
}

/* --- from the queue --- */

INLINE struct sw_packet *dequeue(sw_port *port)
{
    uint32_t i = 31u - (uint32_t)__builtin_clz(port->waiting);
    if (UNLIKELY(port->waiting & port->shared)) {
        /* The queues with a share stand where the highest of them stands. */
        uint32_t group = 31u - (uint32_t)__builtin_clz(port->shared);
        if (group >= i || port->shared & 1u << i)
            i = sw_port_choose_shared(port);
    }
    struct sw_queue *q = &port->queues[i];
    struct sw_packet *pkt = sw_list_pop(&q->list);
    q->packets--;
    q->bytes -= pkt->queued_len;
    if (!q->packets)
        port->waiting &= ~(1u << i);
    else
        sw_pool_prefetch(q->list.head);
    pkt->deq_depth = (uint32_t)q->packets;
    return pkt;
}

/* The link is free: the next packet. */
INLINE void serve(sw_engine *engine, sw_port *port)
{
    sw_device *device = port->device;
    uint64_t now = engine->now_ns;
    while (port->waiting && (port->rate_bps == 0 || port->free_ns <= now)) {
        struct sw_packet *pkt = dequeue(port);
        if (UNLIKELY(!engine->exact && now > port->free_ns + SW_CATCH_UP_NS))
            port->free_ns = now - SW_CATCH_UP_NS;
        device->pipeline->state.now_ns = now;
        egress(device, port, pkt);
        drain_if_needed(device);
    }
    if (port->waiting)
        next_service(engine, port);
    else if (port->gated)
        sw_attached_schedule(port->gated);
}

/* --- events --- */

bool sw_run_events(sw_engine *engine, uint64_t until)
{
    struct sw_timer *timer;
    const bool exact = engine->exact;
    engine->direct = exact;
    engine->end = until < UINT64_MAX ? until + 1 : until;
    sw_set_limit(engine);
    while ((timer = sw_timer_next(engine)) != NULL) {
        sw_port *port = timer->port;
        if (LIKELY(exact))
            engine->now_ns = timer->due;
        switch (timer->kind) {
        case SW_TIMER_ARRIVAL:
            if (LIKELY(port->joined))
                arrive(engine, port);
            else
                sw_port_deliver_line(port, engine->now_ns);
            break;
        case SW_TIMER_SERVICE:
            serve(engine, port);
            break;
        case SW_TIMER_ALARM:
            ((struct sw_alarm *)timer)->ring((struct sw_alarm *)timer, engine->now_ns);
            break;
        case SW_TIMER_WAKE:
            sw_attached_wake(port->attached, engine->now_ns);
            break;
        }
        if (engine->settling)
            sw_attached_settle(engine);
    }
    bool stopped = engine->attention;
    engine->attention = engine->direct = false;
    if (!stopped && until > engine->now_ns)
        engine->now_ns = until;
    if (!stopped && until > engine->wheel.base)
        engine->wheel.base = until;
    return stopped;
}
