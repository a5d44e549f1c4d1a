/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: strict-priority queues that share a byte rate, the link behind them, captures.
 *
 * A frame's service starts when the link is free and lasts its bits divided by the rate; it is delivered at the end of
 * its service plus the port's delay. The time at which the link is free again follows from ideal times (with the
 * fraction of a nanosecond kept), so a late loop does not slow a port down. */
#include <stdlib.h>

#include "sw_internal.h"

static void configure(sw_port *port, const struct sw_port_config *config)
{
    port->rate_bps = config->rate_bps;
    port->delay_ns = config->delay_ns;
    port->frame_adjust = config->frame_adjust;
    for (uint32_t i = 0; i < SW_MAX_QUEUES; i++)
        port->queues[i].capacity = config->queue_bytes[i] ? config->queue_bytes[i] : SW_DEFAULT_QUEUE;
}

SW_PUBLIC int sw_port_add(sw_device *device, uint32_t number, const char *interface,
                          const struct sw_port_config *config)
{
    if (number >= SW_PORT_LIMIT || number == device->config.drop_port)
        return SW_E_INVALID;
    if (interface && strlen(interface) >= sizeof((sw_port *)0)->interface)
        return SW_E_INVALID;
    if (sw_device_port(device, number))
        return SW_E_EXISTS;
    sw_engine *engine = device->engine;
    sw_port *port = calloc(1, sizeof *port);
    if (!port)
        return SW_E_MEMORY;
    port->device = device;
    port->number = number;
    port->fd = -1;
    configure(port, config);
    int rc = SW_OK;
    if (interface) {
        port->kind = SW_PORT_SOCKET;
        snprintf(port->interface, sizeof port->interface, "%s", interface);
        rc = sw_socket_open(port);
        if (rc != SW_OK) {
            free(port);
            return rc;
        }
    }
    sw_lock(engine);
    if (number >= device->port_room) {
        uint32_t room = device->port_room ? device->port_room : 64;
        while (room <= number)
            room *= 2;
        sw_port **ports = realloc(device->ports, room * sizeof *ports);
        if (ports) {
            memset(ports + device->port_room, 0, (room - device->port_room) * sizeof *ports);
            device->ports = ports;
            device->port_room = room;
        } else {
            rc = SW_E_MEMORY;
        }
    }
    if (rc == SW_OK) {
        port->order = engine->port_order++;
        device->ports[number] = port;
    }
    sw_unlock(engine);
    if (rc != SW_OK) {
        sw_socket_close(port);
        free(port);
    }
    sw_wake(engine);
    return rc;
}

SW_PUBLIC int sw_port_configure(sw_device *device, uint32_t number, const struct sw_port_config *config)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port) {
        configure(port, config);
        port->free_fraction = 0;
        sw_schedule(port);
        rc = SW_OK;
    }
    sw_unlock(device->engine);
    sw_wake(device->engine);
    return rc;
}

SW_PUBLIC int sw_port_remove(sw_device *device, uint32_t number)
{
    if (number == device->config.cpu_port)
        return SW_E_INVALID;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port) {
        device->ports[number] = NULL;
        sw_port_drop_queued(port, &device->stats.unknown_port);
        sw_port_close(port);
        port->next_removed = device->engine->removed;
        device->engine->removed = port;
        if (!device->engine->running)
            sw_engine_free_removed(device->engine);
    }
    sw_unlock(device->engine);
    return port ? SW_OK : SW_E_NOT_FOUND;
}

static void line_free(struct sw_list *list)
{
    struct sw_packet *pkt;
    while ((pkt = sw_list_pop(list)) != NULL)
        sw_pool_put(pkt);
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
    port->queued = 0;
    sw_schedule(port);
}

void sw_port_close(sw_port *port)
{
    uint64_t ignored = 0;
    sw_port_drop_queued(port, &ignored);
    line_free(&port->line);
    line_free(&port->collected);
    sw_unschedule(port);
    sw_socket_close(port);
    sw_capture_close(&port->capture);
}

void sw_port_free(sw_port *port)
{
    sw_port_close(port);
    free(port);
}

/* --- queues --- */

/* Serialization time of a frame added to the time the link was free, exactly. */
static void occupy(sw_port *port, uint32_t length)
{
    int64_t bytes = (int64_t)length + port->frame_adjust;
    if (bytes < 1)
        bytes = 1;
    sw_u128 bits = (sw_u128)(uint64_t)bytes * 8 * UINT64_C(1000000000) + port->free_fraction;
    port->free_ns += (uint64_t)(bits / port->rate_bps);
    port->free_fraction = (uint64_t)(bits % port->rate_bps);
}

static struct sw_packet *dequeue(sw_port *port)
{
    for (uint32_t i = port->device->config.queues; i-- > 0;) {
        struct sw_queue *q = &port->queues[i];
        struct sw_packet *pkt = sw_list_pop(&q->list);
        if (pkt) {
            q->packets--;
            q->bytes -= pkt->queued_len;
            port->queued--;
            pkt->deq_depth = (uint32_t)q->packets;
            return pkt;
        }
    }
    return NULL;
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
    if (port->queued == 0 && port->free_ns < now) {
        /* An idle port starts when the packet comes, a backlogged one goes on from its ideal time. */
        port->free_ns = now;
        port->free_fraction = 0;
    }
    pkt->enq_depth = (uint32_t)q->packets;
    pkt->queued_len = weight;
    q->packets++;
    q->bytes += weight;
    port->queued++;
    sw_list_push(&q->list, pkt);
    if (port->queued == 1)
        sw_schedule(port);
}

/* Everything that is due at this port now. */
void sw_port_event(sw_port *port, uint64_t now)
{
    sw_device *device = port->device;
    while (port->line.head && port->line.head->enq_ns <= now) {
        struct sw_packet *pkt = sw_list_pop(&port->line);
        if (port->capture.out)
            sw_capture_write(port->capture.out, device->engine, pkt);
        if (port->kind == SW_PORT_SOCKET) {
            sw_socket_queue(port, pkt);
        } else {
            port->tx_packets++;
            port->tx_bytes += pkt->len;
            if (port->kind == SW_PORT_MEMORY) {
                sw_list_push(&port->collected, pkt);
            } else {
                sw_packet_in_push(device, pkt);
                sw_pool_put(pkt);
            }
        }
    }
    while (port->queued && (port->rate_bps == 0 || port->free_ns <= now)) {
        struct sw_packet *pkt = dequeue(port);
        if (!device->engine->exact && now > port->free_ns + SW_CATCH_UP_NS)
            port->free_ns = now - SW_CATCH_UP_NS;
        device->pipeline->state.now_ns = now;
        sw_device_egress(device, port, pkt);
        sw_device_drain(device);
    }
    sw_schedule(port);
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
    if (port->rate_bps) {
        occupy(port, pkt->len);
        due = port->free_ns;
    }
    due += port->delay_ns;
    if (due > now) {
        pkt->enq_ns = due;
        sw_list_push(&port->line, pkt);
        if (port->line.head == pkt)
            sw_schedule(port);
        return;
    }
    if (port->capture.out)
        sw_capture_write(port->capture.out, device->engine, pkt);
    if (port->kind == SW_PORT_SOCKET) {
        sw_socket_queue(port, pkt);
        return;
    }
    port->tx_packets++;
    port->tx_bytes += pkt->len;
    if (port->kind == SW_PORT_MEMORY) {
        pkt->enq_ns = now;
        sw_list_push(&port->collected, pkt);
    } else {
        sw_packet_in_push(device, pkt);
        sw_pool_put(pkt);
    }
}

/* --- reading, in-memory ports --- */

SW_PUBLIC int sw_port_stats(sw_device *device, uint32_t number, struct sw_port_stats *stats)
{
    int rc = SW_E_NOT_FOUND;
    memset(stats, 0, sizeof *stats);
    sw_lock(device->engine);
    const sw_port *port = sw_device_port(device, number);
    if (port) {
        stats->rx_packets = port->rx_packets;
        stats->rx_bytes = port->rx_bytes;
        stats->tx_packets = port->tx_packets;
        stats->tx_bytes = port->tx_bytes;
        stats->rx_drops = port->rx_drops;
        stats->tx_errors = port->tx_errors;
        stats->up = port->kind != SW_PORT_SOCKET || port->up;
        for (uint32_t i = 0; i < SW_MAX_QUEUES; i++) {
            stats->queue_drops[i] = port->queues[i].drops;
            stats->queue_drop_bytes[i] = port->queues[i].drop_bytes;
            stats->depth_packets[i] = port->queues[i].packets;
            stats->depth_bytes[i] = port->queues[i].bytes;
        }
        rc = SW_OK;
    }
    sw_unlock(device->engine);
    return rc;
}

/* With the lock held: a frame given from outside enters at a port. */
static int inject(sw_device *device, sw_port *port, const uint8_t *frame, uint32_t length)
{
    if (!device->pipeline) {
        device->stats.no_pipeline_drops++;
        port->rx_drops++;
        return SW_E_STATE;
    }
    if (length == 0 || length > SW_LARGE_FRAME)
        return SW_E_INVALID;
    struct sw_packet *pkt = sw_pool_get(device->pipeline->pool, length);
    if (!pkt) {
        device->stats.buffer_drops++;
        port->rx_drops++;
        return SW_E_FULL;
    }
    memcpy(pkt->data, frame, length);
    sw_device_receive(device, port, pkt);
    sw_flush_all(device->engine);
    return SW_OK;
}

SW_PUBLIC int sw_port_inject(sw_device *device, uint32_t number, const uint8_t *frame, uint32_t length)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port)
        rc = inject(device, port, frame, length);
    sw_unlock(device->engine);
    sw_wake(device->engine);
    return rc;
}

SW_PUBLIC int sw_packet_out(sw_device *device, const uint8_t *frame, uint32_t length)
{
    return sw_port_inject(device, device->config.cpu_port, frame, length);
}

SW_PUBLIC int64_t sw_port_collect(sw_device *device, uint32_t number, uint8_t *frame, uint32_t capacity,
                                  uint64_t *time_ns)
{
    int64_t rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port) {
        rc = 0;
        const struct sw_packet *head = port->collected.head;
        if (head && head->len > capacity) {
            rc = SW_E_FULL;
        } else if (head) {
            struct sw_packet *pkt = sw_list_pop(&port->collected);
            memcpy(frame, pkt->data, pkt->len);
            *time_ns = pkt->enq_ns;
            rc = pkt->len;
            sw_pool_put(pkt);
        }
    }
    sw_unlock(device->engine);
    return rc;
}
