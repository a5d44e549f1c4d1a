/* SPDX-License-Identifier: Apache-2.0 */
/* A device: its life, and what happens to a packet off the usual path, as simple_switch orders it. */
#include <stdlib.h>

#include "sw_internal.h"

SW_PUBLIC sw_device *sw_device_create(sw_engine *engine, const struct sw_device_config *config)
{
    if (config->queues < 1 || config->queues > SW_MAX_QUEUES)
        return NULL;
    sw_device *device = sw_memory_zeroed(&engine->memory, sizeof *device);
    if (!device)
        return NULL;
    device->engine = engine;
    device->config = *config;
    if (!device->config.buffer_bytes)
        device->config.buffer_bytes = UINT64_C(256) << 20;
    device->null_port = sw_memory_zeroed(&engine->memory, sizeof *device->null_port);
    if (!device->null_port) {
        sw_memory_put(&engine->memory, device, sizeof *device);
        return NULL;
    }
    device->null_port->device = device;
    device->null_port->kind = SW_PORT_NULL;
    device->null_port->number = SW_NO_PORT;
    device->null_port->fd = -1;
    device->null_port->unusual = true;
    device->null_port->least_capacity = UINT64_MAX;
    if (config->cpu_port != SW_NO_PORT) {
        struct sw_port_config port = {0};
        if (sw_port_add(device, config->cpu_port, NULL, &port) != SW_OK) {
            sw_memory_put(&engine->memory, device->null_port, sizeof *device->null_port);
            sw_memory_put(&engine->memory, device, sizeof *device);
            return NULL;
        }
        device->ports[config->cpu_port]->kind = SW_PORT_CPU;
    }
    sw_lock(engine);
    sw_device **link = &engine->devices;
    while (*link)
        link = &(*link)->next;
    *link = device;
    sw_unlock(engine);
    return device;
}

static void replicas_free(struct sw_replicas *r)
{
    if (r) {
        free(r->ports);
        free(r->rids);
        free(r);
    }
}

static void list_drop(struct sw_list *list, uint64_t *count)
{
    struct sw_packet *pkt;
    while ((pkt = sw_list_pop(list)) != NULL) {
        sw_pool_put(pkt);
        (*count)++;
    }
}

/* Give up every packet that the running program's egress has not seen. */
void sw_device_reset_packets(sw_device *device)
{
    for (uint32_t i = 0; i < device->port_room; i++)
        if (device->ports[i])
            sw_port_drop_queued(device->ports[i], &device->stats.swap_drops);
    list_drop(&device->ingress_work, &device->stats.swap_drops);
    device->ingress_waiting = 0;
    list_drop(&device->egress_work, &device->stats.swap_drops);
    while (device->reserved)
        sw_pool_put(device->reserve[--device->reserved]);
}

void sw_device_reset_replicas(sw_device *device)
{
    for (uint32_t i = 0; i < device->mcast_room; i++)
        replicas_free(device->mcast[i]);
    for (uint32_t i = 0; i < device->clone_room; i++)
        replicas_free(device->clones[i]);
    free(device->mcast);
    free(device->clones);
    device->mcast = device->clones = NULL;
    device->mcast_room = device->clone_room = 0;
}

void sw_device_free(sw_device *device)
{
    sw_device_reset_packets(device);
    for (uint32_t i = 0; i < device->port_room; i++)
        if (device->ports[i])
            sw_port_free(device->ports[i]);
    free(device->ports);
    sw_memory_put(&device->engine->memory, device->null_port, sizeof *device->null_port);
    while (device->pipelines) {
        struct sw_pipeline *pl = device->pipelines;
        device->pipelines = pl->next;
        sw_pipeline_free(pl);
    }
    sw_device_reset_replicas(device);
    sw_memory_put(&device->engine->memory, device, sizeof *device);
}

SW_PUBLIC void sw_device_stats(sw_device *device, struct sw_device_stats *stats)
{
    sw_lock(device->engine);
    *stats = device->stats;
    if (device->pipeline) {
        const struct sw_state *st = &device->pipeline->state;
        stats->parser_errors = st->parser_errors;
        stats->index_errors = st->index_errors;
        stats->assert_failures = st->assert_failures;
        stats->loop_limits = st->loop_limits;
        stats->held_packets = device->pipeline->pool->outstanding - device->reserved;
        stats->held_bytes = device->pipeline->pool->store->bytes;
    }
    sw_unlock(device->engine);
}

/* --- what a program may ask for besides forwarding --- */

static struct sw_replicas *clone_session(sw_device *device, const struct sw_packet *pkt)
{
    uint32_t session = pkt->clone_session & ~SW_CLONE_VALID;
    return session < device->clone_room ? device->clones[session] : NULL;
}

static bool next_pass(sw_device *device, struct sw_packet *pkt)
{
    if (++pkt->passes <= SW_MAX_PASSES)
        return true;
    device->stats.pass_drops++;
    sw_pool_put(pkt);
    return false;
}

/* A packet that goes through ingress again. Both limits together end every loop, copies included. */
static void again_to_ingress(sw_device *device, struct sw_packet *pkt)
{
    if (!next_pass(device, pkt))
        return;
    if (device->ingress_waiting == SW_MAX_WAITING) {
        device->stats.pass_drops++;
        sw_pool_put(pkt);
        return;
    }
    device->ingress_waiting++;
    sw_list_push(&device->ingress_work, pkt);
}

/* The clone is parsed anew from the frame as it came in; of the metadata only the field list survives. */
static void ingress_clone(sw_device *device, const struct sw_packet *pkt, const struct sw_replicas *r)
{
    const struct sw_program *prog = device->pipeline->program;
    struct sw_packet *copy = sw_pool_copy(device->pipeline->pool, pkt, false);
    if (!copy) {
        device->stats.buffer_drops++;
        return;
    }
    copy->length = copy->len;
    copy->truncate = SW_NO_TRUNCATE;
    prog->parse(&device->pipeline->state, copy);
    prog->preserve(copy, pkt, pkt->clone_list, SW_INGRESS_CLONE);
    sw_device_replicate(device, copy, r, r->packet_length, SW_INGRESS_CLONE);
}

bool sw_device_special_ingress(sw_device *device, struct sw_packet *pkt)
{
    struct sw_pipeline *pl = device->pipeline;
    if (pkt->clone_session) {
        struct sw_replicas *r = clone_session(device, pkt);
        if (r)
            ingress_clone(device, pkt, r);
    }
    if (pkt->resubmit_list) {
        struct sw_packet *again = sw_pool_copy(pl->pool, pkt, false);
        if (again) {
            memset(again->phv, 0, pl->program->phv_bytes);
            again->length = again->len;
            again->truncate = SW_NO_TRUNCATE;
            pl->program->preserve(again, pkt, pkt->resubmit_list, SW_RESUBMIT);
            again_to_ingress(device, again);
        } else {
            device->stats.buffer_drops++;
        }
        sw_pool_put(pkt);
        return false;
    }
    if (pkt->mcast_grp) {
        const struct sw_replicas *r = pkt->mcast_grp < device->mcast_room ? device->mcast[pkt->mcast_grp] : NULL;
        sw_device_replicate(device, pkt, r, 0, SW_REPLICATION);
        return false;
    }
    return true;
}

void sw_device_egress_clone(sw_device *device, struct sw_packet *pkt)
{
    struct sw_pipeline *pl = device->pipeline;
    struct sw_replicas *r = clone_session(device, pkt);
    struct sw_packet *copy = r ? sw_pool_copy(pl->pool, pkt, true) : NULL;
    if (copy && next_pass(device, copy)) {
        copy->replica = 0;
        pl->program->preserve(copy, pkt, pkt->clone_list, SW_EGRESS_CLONE);
        sw_device_replicate(device, copy, r, r->packet_length, SW_EGRESS_CLONE);
    } else if (r && !copy) {
        device->stats.buffer_drops++;
    }
}

/* The frame as deparsed starts over; only the field list survives. */
void sw_device_recirculate(sw_device *device, struct sw_packet *pkt)
{
    struct sw_pipeline *pl = device->pipeline;
    struct sw_packet *again = sw_pool_copy(pl->pool, pkt, false);
    if (!again) {
        device->stats.buffer_drops++;
    } else {
        memset(again->phv, 0, pl->program->phv_bytes);
        again->length = again->len;
        again->ingress_len = again->len;
        again->truncate = SW_NO_TRUNCATE;
        again->replica = 0;
        pl->program->preserve(again, pkt, pkt->recirculate_list, SW_RECIRC);
        again_to_ingress(device, again);
    }
    sw_pool_put(pkt);
}

/* --- packet replication --- */

static int replicas_set(struct sw_replicas ***table, uint32_t *room, uint32_t index, struct sw_replicas *r)
{
    if (index >= *room) {
        uint32_t size = *room ? *room : 16;
        while (size <= index)
            size *= 2;
        struct sw_replicas **grown = realloc(*table, size * sizeof *grown);
        if (!grown)
            return SW_E_MEMORY;
        memset(grown + *room, 0, (size - *room) * sizeof *grown);
        *table = grown;
        *room = size;
    }
    replicas_free((*table)[index]);
    (*table)[index] = r;
    return SW_OK;
}

static struct sw_replicas *replicas_create(const uint32_t *ports, const uint32_t *rids, uint32_t count)
{
    struct sw_replicas *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->count = count;
    r->ports = malloc((count + 1) * sizeof *r->ports);
    r->rids = malloc((count + 1) * sizeof *r->rids);
    if (!r->ports || !r->rids) {
        replicas_free(r);
        return NULL;
    }
    memcpy(r->ports, ports, count * sizeof *ports);
    memcpy(r->rids, rids, count * sizeof *rids);
    return r;
}

SW_PUBLIC int sw_mcast_set(sw_device *device, uint32_t group, const uint32_t *ports, const uint32_t *rids,
                           uint32_t count)
{
    if (group == 0 || group > 65535)
        return SW_E_INVALID;
    struct sw_replicas *r = replicas_create(ports, rids, count);
    if (!r)
        return SW_E_MEMORY;
    sw_lock(device->engine);
    int rc = replicas_set(&device->mcast, &device->mcast_room, group, r);
    sw_unlock(device->engine);
    if (rc != SW_OK)
        replicas_free(r);
    return rc;
}

SW_PUBLIC int sw_mcast_delete(sw_device *device, uint32_t group)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    if (group < device->mcast_room && device->mcast[group])
        rc = replicas_set(&device->mcast, &device->mcast_room, group, NULL);
    sw_unlock(device->engine);
    return rc;
}

SW_PUBLIC int sw_clone_set(sw_device *device, uint32_t session, const uint32_t *ports, const uint32_t *rids,
                           uint32_t count, uint32_t packet_length)
{
    if (session >= SW_CLONE_VALID)
        return SW_E_INVALID;
    struct sw_replicas *r = replicas_create(ports, rids, count);
    if (!r)
        return SW_E_MEMORY;
    r->packet_length = packet_length;
    sw_lock(device->engine);
    int rc = replicas_set(&device->clones, &device->clone_room, session, r);
    sw_unlock(device->engine);
    if (rc != SW_OK)
        replicas_free(r);
    return rc;
}

SW_PUBLIC int sw_clone_delete(sw_device *device, uint32_t session)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    if (session < device->clone_room && device->clones[session])
        rc = replicas_set(&device->clones, &device->clone_room, session, NULL);
    sw_unlock(device->engine);
    return rc;
}
