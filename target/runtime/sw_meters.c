/* SPDX-License-Identifier: Apache-2.0 */
/* The control side of meters. */
#include "sw_internal.h"

static void set(struct sw_meter *m, const struct sw_meter_config *config)
{
    m->mode = config->mode;
    for (uint32_t i = 0; i < 2; i++) {
        m->rate[i] = config->rate[i];
        m->burst[i] = m->tokens[i] = config->burst[i];
        m->filled[i] = 0;
    }
}

static void view_of(const struct sw_meter *m, struct sw_meter_view *view)
{
    view->config.mode = m->mode;
    memcpy(view->config.rate, m->rate, sizeof m->rate);
    memcpy(view->config.burst, m->burst, sizeof m->burst);
    memcpy(view->packets, m->packets, sizeof m->packets);
    memcpy(view->bytes, m->bytes, sizeof m->bytes);
}

static void set_marks(struct sw_meter *m, const struct sw_meter_view *view)
{
    memcpy(m->packets, view->packets, sizeof m->packets);
    memcpy(m->bytes, view->bytes, sizeof m->bytes);
}

static int cell(sw_pipeline *pl, uint32_t meter, uint32_t index, struct sw_meter **m)
{
    if (meter >= pl->program->meter_count)
        return SW_E_NOT_FOUND;
    if (index >= pl->program->meter_sizes[meter])
        return SW_E_INVALID;
    *m = &pl->state.meters[pl->program->meter_offsets[meter] + index];
    return SW_OK;
}

static bool valid(const struct sw_meter_config *config) { return config->mode <= SW_METER_ONE_RATE; }

SW_PUBLIC int sw_meter_set(sw_pipeline *pl, uint32_t meter, uint32_t index, const struct sw_meter_config *config)
{
    struct sw_meter *m;
    int rc = valid(config) ? cell(pl, meter, index, &m) : SW_E_INVALID;
    if (rc == SW_OK) {
        sw_lock(pl->device->engine);
        set(m, config);
        sw_unlock(pl->device->engine);
    }
    return rc;
}

SW_PUBLIC int sw_meter_read(sw_pipeline *pl, uint32_t meter, uint32_t index, struct sw_meter_view *view)
{
    struct sw_meter *m;
    int rc = cell(pl, meter, index, &m);
    if (rc == SW_OK) {
        sw_lock(pl->device->engine);
        view_of(m, view);
        sw_unlock(pl->device->engine);
    }
    return rc;
}

SW_PUBLIC int sw_meter_write_marks(sw_pipeline *pl, uint32_t meter, uint32_t index, const struct sw_meter_view *view)
{
    struct sw_meter *m;
    int rc = cell(pl, meter, index, &m);
    if (rc == SW_OK) {
        sw_lock(pl->device->engine);
        set_marks(m, view);
        sw_unlock(pl->device->engine);
    }
    return rc;
}

/* With the lock held, whatever it returns. */
static int direct(sw_pipeline *pl, uint32_t table, const struct sw_entry_key *key, struct sw_meter **m)
{
    sw_lock(pl->device->engine);
    const struct sw_entry *e = sw_table_find(pl, table, key);
    if (!e)
        return SW_E_NOT_FOUND;
    if (!(pl->program->tables[table].features & SW_METERED))
        return SW_E_STATE;
    *m = sw_extra(e)->meter;
    return SW_OK;
}

SW_PUBLIC int sw_table_set_meter(sw_pipeline *pl, uint32_t table, const struct sw_entry_key *key,
                                 const struct sw_meter_config *config)
{
    struct sw_meter *m;
    if (!valid(config))
        return SW_E_INVALID;
    int rc = direct(pl, table, key, &m);
    if (rc == SW_OK)
        set(m, config);
    sw_unlock(pl->device->engine);
    return rc;
}

SW_PUBLIC int sw_table_read_meter(sw_pipeline *pl, uint32_t table, const struct sw_entry_key *key,
                                  struct sw_meter_view *view)
{
    struct sw_meter *m;
    int rc = direct(pl, table, key, &m);
    if (rc == SW_OK)
        view_of(m, view);
    sw_unlock(pl->device->engine);
    return rc;
}

SW_PUBLIC int sw_table_write_marks(sw_pipeline *pl, uint32_t table, const struct sw_entry_key *key,
                                   const struct sw_meter_view *view)
{
    struct sw_meter *m;
    int rc = direct(pl, table, key, &m);
    if (rc == SW_OK)
        set_marks(m, view);
    sw_unlock(pl->device->engine);
    return rc;
}
