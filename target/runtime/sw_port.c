/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: making, configuring, reading and removing them; frames from outside. */
#include <stdlib.h>

#include "sw_internal.h"

#define FRAME_LIMIT 65536

static bool valid(const struct sw_port_config *config)
{
    uint64_t shares = 0;
    for (uint32_t i = 0; i < SW_MAX_QUEUES; i++)
        shares += config->share_ppm[i];
    return shares <= 1000000 && config->min_frame <= FRAME_LIMIT && config->frame_adjust <= FRAME_LIMIT &&
           config->frame_adjust >= -FRAME_LIMIT && config->rate_bps <= INT64_MAX;
}

static void configure(sw_port *port, const struct sw_port_config *config)
{
    port->rate_bps = config->rate_bps;
    port->delay_ns = config->delay_ns;
    port->frame_adjust = config->frame_adjust;
    port->min_frame = config->min_frame ? config->min_frame : 1;
    port->shared = 0;
    port->least_capacity = UINT64_MAX;
    for (uint32_t i = 0; i < SW_MAX_QUEUES; i++) {
        port->queues[i].capacity = config->queue_bytes[i] ? config->queue_bytes[i] : SW_DEFAULT_QUEUE;
        if (port->queues[i].capacity < port->least_capacity)
            port->least_capacity = port->queues[i].capacity;
        port->queues[i].credit = 0;
        port->share_ppm[i] = config->share_ppm[i];
        if (config->share_ppm[i])
            port->shared |= 1u << i;
    }
}

SW_PUBLIC int sw_port_add(sw_device *device, uint32_t number, const char *interface,
                          const struct sw_port_config *config)
{
    if (number >= SW_PORT_LIMIT || number == device->config.drop_port || !valid(config))
        return SW_E_INVALID;
    if (interface && strlen(interface) >= sizeof((sw_port *)0)->interface)
        return SW_E_INVALID;
    if (sw_device_port(device, number))
        return SW_E_EXISTS;
    sw_engine *engine = device->engine;
    sw_port *port = sw_memory_zeroed(&engine->memory, sizeof *port);
    if (!port)
        return SW_E_MEMORY;
    port->device = device;
    port->number = number;
    port->fd = -1;
    port->service = (struct sw_timer){.kind = SW_TIMER_SERVICE, .port = port};
    port->arrival = (struct sw_timer){.kind = SW_TIMER_ARRIVAL, .port = port};
    configure(port, config);
    int rc = SW_OK;
    if (interface) {
        port->kind = SW_PORT_SOCKET;
        snprintf(port->interface, sizeof port->interface, "%s", interface);
        rc = sw_socket_open(port);
        if (rc != SW_OK) {
            sw_memory_put(&engine->memory, port, sizeof *port);
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
    if (rc == SW_OK && !sw_timers_reserve(engine, 2))
        rc = SW_E_MEMORY;
    if (rc == SW_OK) {
        device->ports[number] = port;
        sw_profiles_ports_changed(device);
    }
    sw_unlock(engine);
    if (rc != SW_OK) {
        sw_socket_close(port);
        sw_memory_put(&engine->memory, port, sizeof *port);
    }
    sw_wake(engine);
    return rc;
}

SW_PUBLIC int sw_port_configure(sw_device *device, uint32_t number, const struct sw_port_config *config)
{
    int rc = SW_E_NOT_FOUND;
    if (!valid(config))
        return SW_E_INVALID;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port) {
        configure(port, config);
        port->free_fraction = 0;
        sw_port_schedule_service(port);
        if (port->gated)
            sw_attached_schedule(port->gated);
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
        sw_profiles_ports_changed(device);
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

void sw_port_close(sw_port *port)
{
    uint64_t ignored = 0;
    sw_port_drop_queued(port, &ignored);
    sw_port_disconnect(port);
    sw_attached_free(port);
    for (struct sw_packet *pkt; (pkt = sw_list_pop(&port->collected)) != NULL;)
        sw_pool_put(pkt);
    sw_socket_close(port);
    sw_capture_close(&port->capture);
}

void sw_port_free(sw_port *port)
{
    sw_port_close(port);
    (void)sw_timers_reserve(port->device->engine, -2);
    sw_memory_put(&port->device->engine->memory, port, sizeof *port);
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
        stats->lost_packets = port->lost_packets;
        stats->lost_bytes = port->lost_bytes;
        stats->up = port->down ? 0 : port->kind != SW_PORT_SOCKET || port->up;
        for (uint32_t i = 0; i < SW_MAX_QUEUES; i++) {
            stats->queue_drops[i] = port->queues[i].drops;
            stats->queue_drop_bytes[i] = port->queues[i].drop_bytes;
            stats->depth_packets[i] = port->queues[i].packets;
            stats->depth_bytes[i] = port->queues[i].bytes;
            stats->peak_packets[i] = port->queues[i].peak_packets;
            stats->peak_bytes[i] = port->queues[i].peak_bytes;
            stats->sent_packets[i] = port->sent[i];
        }
        rc = SW_OK;
    }
    sw_unlock(device->engine);
    return rc;
}

SW_PUBLIC int sw_port_take_peaks(sw_device *device, uint32_t number, uint64_t packets[SW_MAX_QUEUES],
                                 uint64_t bytes[SW_MAX_QUEUES])
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    for (uint32_t i = 0; port && i < SW_MAX_QUEUES; i++) {
        struct sw_queue *q = &port->queues[i];
        packets[i] = q->peak_packets;
        bytes[i] = q->peak_bytes;
        q->peak_packets = q->packets;
        q->peak_bytes = q->bytes;
        rc = SW_OK;
    }
    sw_unlock(device->engine);
    return rc;
}

SW_PUBLIC int sw_port_inject_frame(sw_device *device, uint32_t number, const struct sw_frame *frame)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port) {
        rc = sw_device_enter(device, port, frame);
        sw_attached_settle(device->engine);
        sw_flush_all(device->engine);
    }
    sw_unlock(device->engine);
    sw_wake(device->engine);
    return rc;
}

SW_PUBLIC int sw_port_inject(sw_device *device, uint32_t number, const uint8_t *frame, uint32_t length)
{
    const struct sw_frame whole = {frame, length, length};
    return sw_port_inject_frame(device, number, &whole);
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
            uint32_t carried = sw_carried(pkt);
            memcpy(frame, pkt->data, carried);
            memset(frame + carried, 0, pkt->len - carried);
            *time_ns = pkt->enq_ns;
            rc = pkt->len;
            sw_pool_put(pkt);
        }
    }
    sw_unlock(device->engine);
    return rc;
}
