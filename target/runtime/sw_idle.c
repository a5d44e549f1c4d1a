/* SPDX-License-Identifier: Apache-2.0 */
/* Idle timeouts: a notice for every entry that no packet has hit for its time to live, and another one after each
 * further such time. Entries with a time to live are in a heap by the time at which to look at them next; a hit only
 * notes the time. */
#include <stdlib.h>

#include "sw_internal.h"

/* Notices come at whole milliseconds of the engine's clock, so that entries share them. */
#define GRAIN_NS UINT64_C(1000000)

static void place(struct sw_idle *idle, uint32_t i, struct sw_entry *e)
{
    idle->heap[i] = e;
    sw_extra(e)->place = i + 1;
}

static uint64_t due(const struct sw_idle *idle, uint32_t i) { return sw_extra(idle->heap[i])->look_ns; }

static void sift(struct sw_idle *idle, uint32_t i)
{
    struct sw_entry *e = idle->heap[i];
    uint64_t when = sw_extra(e)->look_ns;
    while (i > 0 && due(idle, (i - 1) / 2) > when) {
        place(idle, i, idle->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child + 1 < idle->count && due(idle, child + 1) < due(idle, child))
            child++;
        if (child >= idle->count || due(idle, child) >= when)
            break;
        place(idle, i, idle->heap[child]);
        i = child;
    }
    place(idle, i, e);
}

static uint64_t round_up(uint64_t ns)
{
    uint64_t up = (ns + GRAIN_NS - 1) / GRAIN_NS * GRAIN_NS;
    return up < ns ? UINT64_MAX : up; /* so far away that it never comes */
}

/* When the entry will have been idle for its time to live, if nothing hits it. */
static uint64_t deadline(const struct sw_extra *x)
{
    uint64_t since = x->hit_ns > x->told_ns ? x->hit_ns : x->told_ns;
    return round_up(since + x->ttl_ns < since ? UINT64_MAX - GRAIN_NS : since + x->ttl_ns);
}

static void set_alarm(struct sw_pipeline *pl)
{
    sw_engine *engine = pl->device->engine;
    if (pl->idle.count)
        sw_alarm_set(engine, &pl->idle.alarm, due(&pl->idle, 0));
    else
        sw_alarm_cancel(engine, &pl->idle.alarm);
}

void sw_idle_forget(struct sw_pipeline *pl, const struct sw_table_info *info, struct sw_entry *e)
{
    if (!(info->features & SW_AGEING) || !sw_extra(e)->place)
        return;
    struct sw_idle *idle = &pl->idle;
    uint32_t i = sw_extra(e)->place - 1;
    sw_extra(e)->place = 0;
    struct sw_entry *last = idle->heap[--idle->count];
    if (last != e) {
        place(idle, i, last);
        sift(idle, i);
    }
    set_alarm(pl);
}

void sw_idle_replace(struct sw_pipeline *pl, struct sw_entry *to)
{
    if (sw_extra(to)->place)
        pl->idle.heap[sw_extra(to)->place - 1] = to;
}

/* Entries of one table that are due now, taken off the list. */
static void tell(struct sw_pipeline *pl, struct sw_entry **list, uint32_t *count, uint64_t now_ns)
{
    uint64_t *cookies = malloc(8 * (size_t)*count);
    uint32_t table = sw_extra(list[0])->table, told = 0, left = 0;
    for (uint32_t i = 0; i < *count; i++)
        if (sw_extra(list[i])->table != table)
            list[left++] = list[i];
        else if (cookies)
            cookies[told++] = sw_extra(list[i])->cookie;
    *count = left;
    struct sw_notice notice = {
        .device = pl->device, .pipeline = pl->serial, .kind = SW_NOTICE_IDLE, .object = table,
        .time_ns = pl->device->engine->epoch_ns + now_ns, .words = told,
    };
    if (!cookies || !sw_notice_push(pl->device->engine, &notice, cookies))
        pl->device->stats.idle_drops++;
    free(cookies);
}

static void ring(struct sw_alarm *alarm, uint64_t now_ns)
{
    struct sw_idle *idle = (struct sw_idle *)alarm;
    struct sw_pipeline *pl = (struct sw_pipeline *)((uint8_t *)idle - offsetof(struct sw_pipeline, idle));
    uint32_t count = 0;
    while (idle->count && due(idle, 0) <= now_ns) {
        struct sw_entry *e = idle->heap[0];
        struct sw_extra *x = sw_extra(e);
        if (deadline(x) <= now_ns) {
            x->told_ns = now_ns;
            idle->due[count++] = e;
        }
        x->look_ns = deadline(x);
        sift(idle, 0);
    }
    while (count)
        tell(pl, idle->due, &count, now_ns);
    set_alarm(pl);
}

void sw_idle_init(struct sw_pipeline *pl) { pl->idle.alarm.ring = ring; }

void sw_idle_free(struct sw_pipeline *pl)
{
    sw_alarm_cancel(pl->device->engine, &pl->idle.alarm);
    free(pl->idle.heap);
    free(pl->idle.due);
    pl->idle.heap = pl->idle.due = NULL;
    pl->idle.count = 0;
}

static bool room(struct sw_idle *idle)
{
    if (idle->count < idle->room)
        return true;
    uint32_t size = idle->room ? 2 * idle->room : 64;
    struct sw_entry **heap = realloc(idle->heap, size * sizeof *heap);
    if (heap)
        idle->heap = heap;
    struct sw_entry **due_list = realloc(idle->due, size * sizeof *due_list);
    if (due_list)
        idle->due = due_list;
    if (heap && due_list)
        idle->room = size;
    return heap && due_list;
}

static int set_ttl(struct sw_pipeline *pl, uint32_t table, struct sw_entry *e, uint64_t ttl_ns, uint64_t cookie)
{
    struct sw_extra *x = sw_extra(e);
    if (ttl_ns && !x->place && !room(&pl->idle))
        return SW_E_MEMORY;
    sw_idle_forget(pl, &pl->program->tables[table], e);
    x->hit_ns = x->told_ns = pl->device->engine->now_ns;
    x->ttl_ns = ttl_ns;
    x->cookie = cookie;
    x->table = table;
    if (ttl_ns) {
        x->look_ns = deadline(x);
        place(&pl->idle, pl->idle.count++, e);
        sift(&pl->idle, pl->idle.count - 1);
    }
    set_alarm(pl);
    return SW_OK;
}

SW_PUBLIC int sw_table_set_ttl(sw_pipeline *pl, uint32_t table, const struct sw_entry_key *key, uint64_t ttl_ns,
                               uint64_t cookie)
{
    sw_engine *engine = pl->device->engine;
    sw_lock(engine);
    struct sw_entry *e = sw_table_find(pl, table, key);
    int rc = !e                                                          ? SW_E_NOT_FOUND
             : !(pl->program->tables[table].features & SW_AGEING) ? SW_E_STATE
                                                                         : set_ttl(pl, table, e, ttl_ns, cookie);
    sw_unlock(engine);
    sw_wake(engine);
    return rc;
}

SW_PUBLIC int sw_table_idle(sw_pipeline *pl, uint32_t table, const struct sw_entry_key *key, uint64_t *elapsed_ns)
{
    sw_engine *engine = pl->device->engine;
    int rc = SW_OK;
    sw_lock(engine);
    const struct sw_entry *e = sw_table_find(pl, table, key);
    if (!e)
        rc = SW_E_NOT_FOUND;
    else if (!(pl->program->tables[table].features & SW_AGEING))
        rc = SW_E_STATE;
    else
        *elapsed_ns = engine->now_ns - sw_extra(e)->hit_ns;
    sw_unlock(engine);
    return rc;
}
