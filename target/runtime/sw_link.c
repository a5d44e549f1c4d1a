/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a frame between the end of its pipeline and its delivery: the link, its faults, who is joined to whom.
 *
 * Frames on their way to another port or to an endpoint lie in a ring of small records, not in packet buffers: these go
 * back to their pool at once and are used again while they are still in the processor's cache. */
#include <stdlib.h>

#include "sw_internal.h"

#define FIRST_RING 32u
#define LAST_RING (UINT32_C(1) << 24)

_Static_assert(sizeof(struct sw_record) == 128, "two lines of a cache");

static size_t ring_bytes(const struct sw_ring *ring)
{
    return ring->records ? (ring->mask + 1) * sizeof *ring->records : 0;
}

bool sw_ring_grow(struct sw_memory *memory, struct sw_ring *ring)
{
    uint32_t room = ring->records ? 2 * (ring->mask + 1) : FIRST_RING, count = ring->tail - ring->head;
    struct sw_record *records = room > LAST_RING ? NULL : sw_memory_get(memory, room * sizeof *records);
    if (!records)
        return false;
    for (uint32_t i = 0; i < count; i++)
        records[i] = ring->records[(ring->head + i) & ring->mask];
    sw_memory_put(memory, ring->records, ring_bytes(ring));
    *ring = (struct sw_ring){.records = records, .mask = room - 1, .tail = count};
    return true;
}

/* --- delivering --- */

void sw_port_deliver(sw_port *port, struct sw_packet *pkt)
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

void sw_port_deliver_line(sw_port *port, uint64_t now)
{
    while (port->line.head && port->line.head->enq_ns <= now)
        sw_port_deliver(port, sw_list_pop(&port->line));
    if (port->line.head)
        sw_timer_set(port->device->engine, &port->arrival, port->line.head->enq_ns, port->line.head->deq_depth);
}

/* --- losing --- */

static bool drawn(sw_port *port)
{
    uint64_t x = port->loss_seed + ++port->loss_count * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return (uint64_t)((sw_u128)x * 1000000 >> 64) < port->loss_ppm;
}

void sw_port_lose(sw_port *port, uint32_t bytes)
{
    port->lost_packets++;
    port->lost_bytes += bytes;
}

bool sw_port_loses(sw_port *port, uint32_t bytes)
{
    bool lost = port->loss_ppm && drawn(port);
    if (!lost && !port->down)
        return false;
    sw_port_lose(port, bytes);
    return true;
}

void sw_port_lose_line(sw_port *port)
{
    for (struct sw_ring *ring = &port->ring; ring->head != ring->tail; ring->head++) {
        const struct sw_record *record = &ring->records[ring->head & ring->mask];
        sw_port_lose(port, record->wire_bytes);
        if (record->bytes > SW_USUAL_COPY)
            free(record->data.elsewhere);
    }
    for (struct sw_packet *pkt; (pkt = sw_list_pop(&port->line)) != NULL; sw_pool_put(pkt))
        sw_port_lose(port, pkt->len);
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
        sw_port_refresh(one);
        sw_port_refresh(other);
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
        sw_port_refresh(peer);
    }
    sw_memory_put(&port->device->engine->memory, port->ring.records, ring_bytes(&port->ring));
    port->ring = (struct sw_ring){0};
    sw_port_refresh(port);
}

void sw_port_refresh(sw_port *port)
{
    port->joined = port->peer || port->attached;
    port->watched = port->observer.frame || port->capture.in || port->capture.out;
    port->unusual = port->watched || port->down || port->loss_ppm || port->discard || port->kind == SW_PORT_NULL;
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
        sw_port_refresh(end);
        if (!up)
            sw_port_lose_line(end);
        sw_profiles_ports_changed(end->device);
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
            sw_port_refresh(port);
        }
    }
    sw_unlock(device->engine);
    return rc;
}
