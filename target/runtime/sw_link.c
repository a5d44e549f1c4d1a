/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a frame between the end of its pipeline and its delivery: the link, its faults, links between ports.
 *
 * Frames on their way to another port or to an endpoint lie in a ring of bytes, not in packet buffers: these go back to
 * their pool at once and are used again while they are still in the processor's cache. */
#include <stdlib.h>

#include "sw_internal.h"

#define FIRST_RING 4096u
#define LAST_RING (UINT32_C(1) << 30)

/* --- the ring --- */

static uint32_t record_bytes(uint32_t bytes) { return ((uint32_t)sizeof(struct sw_record) + bytes + 7u) & ~7u; }

static bool ring_grow(struct sw_ring *ring)
{
    uint32_t size = ring->size ? 2 * ring->size : FIRST_RING, first = 0;
    uint8_t *bytes = size > LAST_RING ? NULL : malloc(size);
    if (!bytes)
        return false;
    if (ring->count && ring->turn != UINT32_MAX) {
        first = ring->turn - ring->head;
        memcpy(bytes, ring->bytes + ring->head, first);
        memcpy(bytes + first, ring->bytes, ring->tail);
        first += ring->tail;
    } else if (ring->count) {
        first = ring->tail - ring->head;
        memcpy(bytes, ring->bytes + ring->head, first);
    }
    free(ring->bytes);
    ring->bytes = bytes;
    ring->size = size;
    ring->head = 0;
    ring->tail = first;
    ring->turn = UINT32_MAX;
    return true;
}

/* Room for a record of `bytes`, or NULL. */
static struct sw_record *ring_push(struct sw_ring *ring, uint32_t bytes)
{
    uint32_t need = record_bytes(bytes);
    if (!ring->count) {
        ring->head = ring->tail = 0;
        ring->turn = UINT32_MAX;
    }
    for (;;) {
        if (ring->turn == UINT32_MAX && ring->size - ring->tail >= need)
            break;
        if (ring->turn == UINT32_MAX && ring->head > need) {
            ring->turn = ring->tail;
            ring->tail = 0;
            break;
        }
        if (ring->turn != UINT32_MAX && ring->head - ring->tail > need)
            break;
        if (!ring_grow(ring))
            return NULL;
    }
    struct sw_record *record = (struct sw_record *)(void *)(ring->bytes + ring->tail);
    ring->tail += need;
    ring->count++;
    return record;
}

static struct sw_record *ring_first(const struct sw_ring *ring)
{
    return ring->count ? (struct sw_record *)(void *)(ring->bytes + ring->head) : NULL;
}

static void ring_pop(struct sw_ring *ring)
{
    ring->head += record_bytes(ring_first(ring)->bytes);
    ring->count--;
    if (ring->head == ring->turn) {
        ring->head = 0;
        ring->turn = UINT32_MAX;
    }
}

/* --- sending --- */

static bool drawn(sw_port *port)
{
    uint64_t x = port->loss_seed + ++port->loss_count * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return (uint64_t)((sw_u128)x * 1000000 >> 64) < port->loss_ppm;
}

static void lose(sw_port *port, uint32_t bytes)
{
    port->lost_packets++;
    port->lost_bytes += bytes;
}

static void deliver_packet(sw_port *port, struct sw_packet *pkt)
{
    sw_device *device = port->device;
    if (port->capture.out)
        sw_capture_write(port->capture.out, device->engine, pkt->data, sw_carried(pkt), pkt->len);
    if (port->kind == SW_PORT_SOCKET) {
        sw_socket_queue(port, pkt);
        return;
    }
    port->tx_packets++;
    port->tx_bytes += pkt->len;
    if (port->kind == SW_PORT_MEMORY) {
        pkt->enq_ns = device->engine->now_ns;
        sw_list_push(&port->collected, pkt);
    } else {
        sw_packet_in_push(device, pkt);
        sw_pool_put(pkt);
    }
}

static void deliver_to_endpoint(sw_port *port, const uint8_t *data, uint32_t bytes, uint32_t wire_bytes)
{
    sw_engine *engine = port->device->engine;
    if (port->capture.out)
        sw_capture_write(port->capture.out, engine, data, bytes, wire_bytes);
    port->tx_packets++;
    port->tx_bytes += wire_bytes;
    sw_attached_receive(port->attached, engine->now_ns, data, bytes, wire_bytes);
}

/* Onto the link of a port that is joined to another or to an endpoint. */
static void send_joined(sw_port *port, const struct sw_packet *pkt, uint64_t due)
{
    sw_engine *engine = port->device->engine;
    uint32_t bytes = sw_carried(pkt);
    if (port->attached && due <= engine->now_ns && !port->ring.count) {
        deliver_to_endpoint(port, pkt->data, bytes, pkt->len);
        return;
    }
    /* A loop of links without delay would never end. */
    if (due <= engine->now_ns)
        due = engine->now_ns + 1;
    struct sw_record *record = ring_push(&port->ring, bytes);
    if (!record) {
        port->device->stats.buffer_drops++;
        lose(port, pkt->len);
        return;
    }
    record->due = due;
    record->cause = engine->causes++;
    record->bytes = (uint16_t)bytes;
    record->wire_bytes = (uint16_t)pkt->len;
    memcpy(record->data, pkt->data, bytes);
    if (port->ring.count == 1)
        sw_timer_set(engine, &port->arrival, due, record->cause);
}

/* A deparsed frame starts on the link. */
void sw_port_send(sw_port *port, struct sw_packet *pkt)
{
    sw_device *device = port->device;
    uint64_t now = device->engine->now_ns, due = now;
    if (__builtin_expect(port->kind == SW_PORT_NULL || device->discard, 0)) {
        device->stats.unknown_port += port->kind == SW_PORT_NULL;
        sw_pool_put(pkt);
        return;
    }
    port->queues[pkt->priority].sent++;
    if (port->observer.frame)
        sw_port_observed(port, 1, pkt);
    if (port->rate_bps) {
        sw_port_occupy(port, pkt->len);
        due = port->free_ns;
    }
    due += port->delay_ns;
    if (__builtin_expect(port->down || (port->loss_ppm && drawn(port)), 0)) {
        lose(port, pkt->len);
        sw_pool_put(pkt);
    } else if (port->peer || port->attached) {
        send_joined(port, pkt, due);
        sw_pool_put(pkt);
    } else if (due > now || port->line.head) {
        pkt->enq_ns = due;
        pkt->deq_depth = device->engine->causes++;
        sw_list_push(&port->line, pkt);
        if (port->line.head == pkt)
            sw_timer_set(device->engine, &port->arrival, due, pkt->deq_depth);
    } else {
        deliver_packet(port, pkt);
    }
}

/* --- arriving --- */

static void arrive_joined(sw_port *port)
{
    sw_engine *engine = port->device->engine;
    struct sw_record *record = ring_first(&port->ring);
    if (port->attached) {
        deliver_to_endpoint(port, record->data, record->bytes, record->wire_bytes);
    } else {
        const struct sw_frame frame = {record->data, record->bytes, record->wire_bytes};
        if (port->capture.out)
            sw_capture_write(port->capture.out, engine, frame.data, frame.bytes, frame.wire_bytes);
        port->tx_packets++;
        port->tx_bytes += frame.wire_bytes;
        (void)sw_device_enter(port->peer->device, port->peer, &frame);
    }
    ring_pop(&port->ring);
}

void sw_port_arrive(sw_port *port, uint64_t now)
{
    sw_engine *engine = port->device->engine;
    if (port->peer || port->attached) {
        do
            arrive_joined(port);
        while (!engine->exact && port->ring.count && ring_first(&port->ring)->due <= now);
        const struct sw_record *next = ring_first(&port->ring);
        if (next)
            sw_timer_set(engine, &port->arrival, next->due, next->cause);
        return;
    }
    while (port->line.head && port->line.head->enq_ns <= now)
        deliver_packet(port, sw_list_pop(&port->line));
    if (port->line.head)
        sw_timer_set(engine, &port->arrival, port->line.head->enq_ns, port->line.head->deq_depth);
}

/* Whatever is on the link is lost. */
void sw_port_lose_line(sw_port *port)
{
    for (const struct sw_record *record; (record = ring_first(&port->ring)) != NULL; ring_pop(&port->ring))
        lose(port, record->wire_bytes);
    for (struct sw_packet *pkt; (pkt = sw_list_pop(&port->line)) != NULL; sw_pool_put(pkt))
        lose(port, pkt->len);
    sw_timer_cancel(port->device->engine, &port->arrival);
}

/* --- joining --- */

static bool joinable(const sw_port *port)
{
    return port->kind == SW_PORT_MEMORY && !port->peer && !port->attached && !port->line.head;
}

SW_PUBLIC int sw_port_connect(sw_device *a, uint32_t port_a, sw_device *b, uint32_t port_b)
{
    if (a->engine != b->engine)
        return SW_E_INVALID;
    sw_lock(a->engine);
    sw_port *one = sw_device_port(a, port_a), *other = sw_device_port(b, port_b);
    int rc = SW_OK;
    if (!one || !other)
        rc = SW_E_NOT_FOUND;
    else if (one == other || one->kind != SW_PORT_MEMORY || other->kind != SW_PORT_MEMORY)
        rc = SW_E_INVALID;
    else if (!joinable(one) || !joinable(other))
        rc = SW_E_EXISTS;
    if (rc == SW_OK) {
        one->peer = other;
        other->peer = one;
        one->down = other->down = one->down || other->down;
    }
    sw_unlock(a->engine);
    return rc;
}

void sw_port_disconnect(sw_port *port)
{
    sw_port *peer = port->peer;
    sw_port_lose_line(port);
    if (peer) {
        sw_port_lose_line(peer);
        peer->peer = NULL;
        port->peer = NULL;
    }
    free(port->ring.bytes);
    port->ring = (struct sw_ring){0};
}

/* --- faults --- */

SW_PUBLIC int sw_port_set_link(sw_device *device, uint32_t number, int up)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port)
        rc = port->kind == SW_PORT_MEMORY ? SW_OK : SW_E_INVALID;
    for (sw_port *end = rc == SW_OK ? port : NULL; end; end = end == port ? port->peer : NULL) {
        end->down = !up;
        if (!up)
            sw_port_lose_line(end);
    }
    sw_unlock(device->engine);
    return rc;
}

SW_PUBLIC int sw_port_set_loss(sw_device *device, uint32_t number, uint32_t ppm, uint64_t seed)
{
    if (ppm > 1000000)
        return SW_E_INVALID;
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port) {
        rc = port->kind == SW_PORT_MEMORY ? SW_OK : SW_E_INVALID;
        if (rc == SW_OK) {
            port->loss_ppm = ppm;
            port->loss_seed = seed;
            port->loss_count = 0;
        }
    }
    sw_unlock(device->engine);
    return rc;
}
