/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a compiled program, its state, counters and registers. */
#include <dlfcn.h>
#include <stdlib.h>

#include "sw_internal.h"

#define MIN_HEADROOM 128u

static void log_nothing(struct sw_state *st, const char *text, const uint64_t *args, uint32_t count)
{
    (void)st;
    (void)text;
    (void)args;
    (void)count;
}

static size_t cell_bytes(const struct sw_program *prog) { return prog->register_offsets[prog->register_count] + 1; }

static size_t counter_bytes(const struct sw_program *prog)
{
    return ((size_t)prog->counter_offsets[prog->counter_count] + 1) * sizeof(struct sw_counter);
}

static size_t meter_bytes(const struct sw_program *prog)
{
    return ((size_t)prog->meter_offsets[prog->meter_count] + 1) * sizeof(struct sw_meter);
}

/* Timers of a pipeline: one for each digest, one for what is idle. */
static int32_t alarms(const struct sw_program *prog) { return (int32_t)prog->digest_count + 1; }

static bool state_init(struct sw_pipeline *pl)
{
    const struct sw_program *prog = pl->program;
    struct sw_state *st = &pl->state;
    pl->tables = calloc(prog->table_count + 1, sizeof *pl->tables);
    pl->orders = calloc(prog->table_count + 1, sizeof *pl->orders);
    st->cells = sw_memory_zeroed(&pl->device->engine->memory, cell_bytes(prog));
    st->counters = sw_memory_zeroed(&pl->device->engine->memory, counter_bytes(prog));
    st->meters = sw_memory_zeroed(&pl->device->engine->memory, meter_bytes(prog));
    if (!pl->tables || !pl->orders || !st->cells || !st->counters || !st->meters)
        return false;
    for (uint32_t i = 0; i < prog->table_count; i++)
        if (sw_table_init(&pl->tables[i], &prog->tables[i]) != SW_OK)
            return false;
    sw_idle_init(pl);
    if (sw_profiles_init(pl) != SW_OK || !sw_digests_init(pl))
        return false;
    sw_lock(pl->device->engine);
    bool room = sw_timers_reserve(pl->device->engine, alarms(prog));
    pl->reserved = room;
    pl->serial = ++pl->device->engine->serials;
    sw_unlock(pl->device->engine);
    if (!room)
        return false;
    st->tables = pl->tables;
    st->constants = &pl->device->engine->constants;
    st->drop_port = pl->device->config.drop_port;
    st->random = pl->device->config.seed;
    st->log = log_nothing;
    st->digest = sw_digest_sample;
    return true;
}

SW_PUBLIC int sw_pipeline_open(sw_device *device, const char *path, sw_pipeline **result)
{
    sw_engine *engine = device->engine;
    struct sw_memory *memory = &engine->memory;
    struct sw_pipeline *pl = sw_memory_zeroed(memory, sizeof *pl);
    if (!pl)
        return SW_E_MEMORY;
    pl->device = device;
    pl->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!pl->library) {
        snprintf(engine->error, sizeof engine->error, "%s", dlerror());
        sw_memory_put(memory, pl, sizeof *pl);
        return SW_E_SYSTEM;
    }
    pl->program = dlsym(pl->library, "sw_program");
    if (!pl->program || pl->program->abi != SW_ABI) {
        snprintf(engine->error, sizeof engine->error, "%s is not a program of this engine", path);
        dlclose(pl->library);
        sw_memory_put(memory, pl, sizeof *pl);
        return SW_E_INVALID;
    }
    uint32_t headroom = pl->program->max_header_bytes > MIN_HEADROOM ? pl->program->max_header_bytes : MIN_HEADROOM;
    sw_lock(engine);
    pl->pool = sw_pool_create(engine, pl->program->phv_bytes, headroom, device->config.buffer_bytes);
    sw_unlock(engine);
    if (!pl->pool || !state_init(pl)) {
        sw_pipeline_free(pl);
        return SW_E_MEMORY;
    }
    sw_lock(engine);
    pl->next = device->pipelines;
    device->pipelines = pl;
    sw_unlock(engine);
    *result = pl;
    return SW_OK;
}

void sw_pipeline_free(struct sw_pipeline *pl)
{
    sw_lock(pl->device->engine);
    sw_idle_free(pl);
    sw_digests_free(pl);
    if (pl->reserved)
        (void)sw_timers_reserve(pl->device->engine, -alarms(pl->program));
    sw_unlock(pl->device->engine);
    for (uint32_t i = 0; pl->tables && i < pl->program->table_count; i++)
        sw_table_clear(&pl->tables[i], &pl->program->tables[i]);
    sw_profiles_free(pl);
    free(pl->tables);
    free(pl->orders);
    sw_memory_put(&pl->device->engine->memory, pl->state.cells, cell_bytes(pl->program));
    sw_memory_put(&pl->device->engine->memory, pl->state.counters, counter_bytes(pl->program));
    sw_memory_put(&pl->device->engine->memory, pl->state.meters, meter_bytes(pl->program));
    if (pl->pool) { /* its store is shared */
        sw_lock(pl->device->engine);
        sw_pool_retire(pl->pool);
        sw_unlock(pl->device->engine);
    }
    dlclose(pl->library);
    sw_memory_put(&pl->device->engine->memory, pl, sizeof *pl);
}

SW_PUBLIC uint64_t sw_pipeline_serial(const sw_pipeline *pl) { return pl->serial; }

SW_PUBLIC int sw_pipeline_set_reach(sw_pipeline *pl, uint32_t bytes)
{
    if (pl->active)
        return SW_E_STATE;
    pl->pool->reach = bytes;
    return SW_OK;
}

static void unlink_pipeline(struct sw_pipeline *pl)
{
    for (struct sw_pipeline **link = &pl->device->pipelines; *link; link = &(*link)->next)
        if (*link == pl) {
            *link = pl->next;
            return;
        }
}

SW_PUBLIC void sw_pipeline_close(sw_pipeline *pl)
{
    sw_engine *engine = pl->device->engine;
    sw_lock(engine);
    unlink_pipeline(pl);
    sw_unlock(engine);
    sw_pipeline_free(pl);
}

SW_PUBLIC int sw_pipeline_commit(sw_pipeline *pl)
{
    sw_device *device = pl->device;
    sw_engine *engine = device->engine;
    if (pl->active)
        return SW_E_STATE;
    sw_lock(engine);
    struct sw_pipeline *old = device->pipeline;
    sw_device_reset_packets(device);
    sw_device_reset_replicas(device);
    device->pipeline = pl;
    pl->active = true;
    if (old)
        unlink_pipeline(old);
    sw_unlock(engine);
    if (old)
        sw_pipeline_free(old);
    return SW_OK;
}

/* --- counters and registers --- */

static int counter_cell(sw_pipeline *pl, uint32_t counter, uint32_t index, struct sw_counter **cell)
{
    if (counter >= pl->program->counter_count)
        return SW_E_NOT_FOUND;
    if (index >= pl->program->counter_sizes[counter])
        return SW_E_INVALID;
    *cell = &pl->state.counters[pl->program->counter_offsets[counter] + index];
    return SW_OK;
}

SW_PUBLIC int sw_counter_read(sw_pipeline *pl, uint32_t counter, uint32_t index, uint64_t *packets, uint64_t *bytes)
{
    struct sw_counter *cell;
    int rc = counter_cell(pl, counter, index, &cell);
    if (rc == SW_OK) {
        sw_lock(pl->device->engine);
        *packets = cell->packets;
        *bytes = cell->bytes;
        sw_unlock(pl->device->engine);
    }
    return rc;
}

SW_PUBLIC int sw_counter_write(sw_pipeline *pl, uint32_t counter, uint32_t index, uint64_t packets, uint64_t bytes)
{
    struct sw_counter *cell;
    int rc = counter_cell(pl, counter, index, &cell);
    if (rc == SW_OK) {
        sw_lock(pl->device->engine);
        cell->packets = packets;
        cell->bytes = bytes;
        sw_unlock(pl->device->engine);
    }
    return rc;
}

static int register_cells(sw_pipeline *pl, uint32_t reg, uint32_t index, uint32_t count, uint8_t **cells,
                          size_t *bytes)
{
    if (reg >= pl->program->register_count)
        return SW_E_NOT_FOUND;
    uint32_t size = pl->program->register_sizes[reg];
    if (index > size || count > size - index)
        return SW_E_INVALID;
    *bytes = pl->program->register_bytes[reg];
    *cells = pl->state.cells + pl->program->register_offsets[reg] + index * *bytes;
    return SW_OK;
}

SW_PUBLIC int sw_register_read(sw_pipeline *pl, uint32_t reg, uint32_t index, uint32_t count, void *data)
{
    uint8_t *cells;
    size_t bytes;
    int rc = register_cells(pl, reg, index, count, &cells, &bytes);
    if (rc == SW_OK) {
        sw_lock(pl->device->engine);
        memcpy(data, cells, count * bytes);
        sw_unlock(pl->device->engine);
    }
    return rc;
}

SW_PUBLIC int sw_register_write(sw_pipeline *pl, uint32_t reg, uint32_t index, uint32_t count, const void *data)
{
    uint8_t *cells;
    size_t bytes;
    int rc = register_cells(pl, reg, index, count, &cells, &bytes);
    if (rc == SW_OK) {
        sw_lock(pl->device->engine);
        memcpy(cells, data, count * bytes);
        sw_unlock(pl->device->engine);
    }
    return rc;
}

SW_PUBLIC int sw_register_fill(sw_pipeline *pl, uint32_t reg, const void *data)
{
    uint8_t *cells;
    size_t bytes;
    int rc = register_cells(pl, reg, 0, 0, &cells, &bytes);
    if (rc == SW_OK) {
        sw_lock(pl->device->engine);
        for (uint32_t i = 0; i < pl->program->register_sizes[reg]; i++)
            memcpy(cells + i * bytes, data, bytes);
        sw_unlock(pl->device->engine);
    }
    return rc;
}
