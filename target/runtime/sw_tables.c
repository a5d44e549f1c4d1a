/* SPDX-License-Identifier: Apache-2.0 */
/* The control side of the match tables: insert, modify, delete, read. */
#include <stdlib.h>

#include "sw_internal.h"

#define FIRST_SLOTS 16u

/* Everything that identifies an entry. */
struct identity {
    const uint64_t *key, *mask, *ranges;
    int32_t priority;
};

static bool group_init(struct sw_group *g, const uint64_t *mask, uint32_t words)
{
    memset(g, 0, sizeof *g);
    g->slots = calloc(FIRST_SLOTS, sizeof *g->slots);
    g->mask = malloc(8 * (size_t)(words ? words : 1));
    if (!g->slots || !g->mask) {
        free(g->slots);
        free(g->mask);
        return false;
    }
    g->slot_mask = FIRST_SLOTS - 1;
    g->best = INT32_MIN;
    memcpy(g->mask, mask, 8 * (size_t)words);
    g->first = words ? mask[0] : 0;
    return true;
}

static void slot_place(struct sw_slot *slots, uint32_t slot_mask, struct sw_slot item)
{
    uint32_t i = sw_tag_home(item.tag, slot_mask);
    while (slots[i].entry)
        i = (i + 1) & slot_mask;
    slots[i] = item;
}

static bool group_grow(struct sw_group *g)
{
    uint32_t size = 2 * (g->slot_mask + 1);
    struct sw_slot *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i <= g->slot_mask; i++)
        if (g->slots[i].entry)
            slot_place(slots, size - 1, g->slots[i]);
    free(g->slots);
    g->slots = slots;
    g->slot_mask = size - 1;
    return true;
}

static struct sw_slot *group_slot(struct sw_group *g, const uint64_t *key, uint32_t words)
{
    uint64_t tag = sw_key_tag(key, words);
    for (uint32_t i = sw_tag_home(tag, g->slot_mask); g->slots[i].entry; i = (i + 1) & g->slot_mask)
        if (g->slots[i].tag == tag && sw_key_equal(g->slots[i].entry->key, key, words))
            return &g->slots[i];
    return NULL;
}

static void slot_remove(struct sw_group *g, struct sw_slot *slot)
{
    uint32_t hole = (uint32_t)(slot - g->slots);
    for (uint32_t i = (hole + 1) & g->slot_mask; g->slots[i].entry; i = (i + 1) & g->slot_mask) {
        uint32_t home = sw_tag_home(g->slots[i].tag, g->slot_mask);
        /* Move the item back if its home is not between the hole and its place. */
        if (((i - home) & g->slot_mask) >= ((i - hole) & g->slot_mask)) {
            g->slots[hole] = g->slots[i];
            hole = i;
        }
    }
    g->slots[hole].entry = NULL;
}

static struct sw_group *find_group(struct sw_table *t, const uint64_t *mask, uint32_t words)
{
    for (uint32_t i = 0; i < t->group_count; i++)
        if (sw_key_equal(t->groups[i].mask, mask, words))
            return &t->groups[i];
    return NULL;
}

/* Keep the groups in falling order of their best priority. */
static void sort_groups(struct sw_table *t)
{
    for (uint32_t i = 1; i < t->group_count; i++) {
        struct sw_group g = t->groups[i];
        uint32_t j = i;
        for (; j > 0 && t->groups[j - 1].best < g.best; j--)
            t->groups[j] = t->groups[j - 1];
        t->groups[j] = g;
    }
}

static void group_free(struct sw_group *g)
{
    free(g->slots);
    free(g->mask);
}

static void remove_group(struct sw_table *t, struct sw_group *g)
{
    group_free(g);
    uint32_t i = (uint32_t)(g - t->groups);
    memmove(g, g + 1, (t->group_count - i - 1) * sizeof *g);
    t->group_count--;
}

static size_t extra_bytes(const struct sw_table_info *info) { return info->features ? sizeof(struct sw_extra) : 0; }

static struct sw_entry *entry_alloc(const struct sw_table_info *info, size_t words)
{
    uint8_t *block = calloc(1, extra_bytes(info) + sizeof(struct sw_entry) + 8 * words);
    return block ? (struct sw_entry *)(block + extra_bytes(info)) : NULL;
}

static void entry_free(const struct sw_table_info *info, struct sw_entry *e)
{
    if (!e)
        return;
    if (info->features)
        free(sw_extra(e)->meter);
    free((uint8_t *)e - extra_bytes(info));
}

/* What an entry of its kind has from its first day on. */
static bool extra_init(const struct sw_pipeline *pl, const struct sw_table_info *info, struct sw_entry *e)
{
    if (info->features & SW_AGEING)
        sw_extra(e)->hit_ns = pl->device->engine->now_ns;
    if (!(info->features & SW_METERED))
        return true;
    sw_extra(e)->meter = calloc(1, sizeof(struct sw_meter));
    return sw_extra(e)->meter != NULL;
}

/* An entry takes the place of another, with all that is not its action. */
static void extra_move(struct sw_pipeline *pl, const struct sw_table_info *info, struct sw_entry *to,
                       struct sw_entry *from)
{
    if (!info->features)
        return;
    const struct sw_choice *choice = sw_extra(to)->choice;
    *sw_extra(to) = *sw_extra(from);
    sw_extra(to)->choice = choice;
    sw_extra(from)->meter = NULL;
    if (info->features & SW_AGEING)
        sw_idle_replace(pl, to);
}

/* Words of an entry's ranges. */
static size_t range_words(const struct sw_table_info *info)
{
    size_t words = 0;
    for (uint32_t i = 0; i < info->range_count; i++)
        words += 2 * sw_range_words(&info->ranges[i]);
    return words;
}

static struct sw_entry *entry_create(const struct sw_table_info *info, const struct identity *id, uint32_t action,
                                     const uint64_t *args, uint32_t arg_words)
{
    size_t ranges = range_words(info);
    struct sw_entry *e = entry_alloc(info, info->key_words + arg_words + ranges);
    if (!e)
        return NULL;
    uint64_t *p = e->key;
    if (id->key)
        memcpy(p, id->key, 8 * (size_t)info->key_words);
    p += info->key_words;
    if (arg_words)
        memcpy(p, args, 8 * (size_t)arg_words);
    p += arg_words;
    e->ranges = p;
    if (ranges && id->ranges)
        memcpy(p, id->ranges, 8 * ranges);
    e->action = action;
    e->priority = id->priority;
    return e;
}

static bool same(const struct sw_entry *e, const struct identity *id, const struct sw_table_info *info)
{
    return e->priority == id->priority &&
           (info->range_count == 0 || memcmp(e->ranges, id->ranges, 8 * range_words(info)) == 0);
}

/* The link that points at the entry, or NULL. */
static struct sw_entry **find_link(struct sw_table *t, const struct sw_table_info *info, const struct identity *id,
                                   struct sw_group **group, struct sw_slot **slot)
{
    *group = find_group(t, id->mask, info->key_words);
    if (!*group)
        return NULL;
    *slot = group_slot(*group, id->key, info->key_words);
    if (!*slot)
        return NULL;
    for (struct sw_entry **link = &(*slot)->entry; *link; link = &(*link)->chain)
        if (same(*link, id, info))
            return link;
    return NULL;
}

/* What a key leads to. */
static void direct_set(struct sw_table *t, const uint64_t *key, struct sw_entry *e)
{
    if (t->direct)
        t->direct[key[0]] = e;
}

int sw_table_init(struct sw_table *t, const struct sw_table_info *info)
{
    t->miss = entry_alloc(info, info->key_words);
    if (!t->miss)
        return SW_E_MEMORY;
    t->miss->action = SW_NO_ACTION;
    if (!info->direct_bits)
        return SW_OK;
    size_t size = (size_t)1 << info->direct_bits;
    t->direct = malloc(size * sizeof(struct sw_entry *));
    if (!t->direct)
        return SW_E_MEMORY;
    for (size_t i = 0; i < size; i++)
        t->direct[i] = t->miss;
    return SW_OK;
}

static int insert(struct sw_table *t, const struct sw_table_info *info, const struct identity *id,
                  struct sw_entry *e)
{
    struct sw_group *g = find_group(t, id->mask, info->key_words);
    if (!g) {
        struct sw_group *groups = realloc(t->groups, (t->group_count + 1) * sizeof *groups);
        if (!groups)
            return SW_E_MEMORY;
        t->groups = groups;
        g = &groups[t->group_count];
        if (!group_init(g, id->mask, info->key_words))
            return SW_E_MEMORY;
        t->group_count++;
    }
    struct sw_slot *slot = group_slot(g, e->key, info->key_words);
    if (!slot) {
        if (2 * (g->used + 1) > g->slot_mask && !group_grow(g))
            return SW_E_MEMORY;
        struct sw_slot item = {sw_key_tag(e->key, info->key_words), e};
        slot_place(g->slots, g->slot_mask, item);
        g->used++;
    } else {
        struct sw_entry **link = &slot->entry;
        while (*link && sw_precedes(*link, e))
            link = &(*link)->chain;
        e->chain = *link;
        *link = e;
    }
    if (e->priority > g->best) {
        g->best = e->priority;
        sort_groups(t);
    }
    return SW_OK;
}

static int find(sw_pipeline *pl, uint32_t table, struct identity *id, uint64_t *ones, struct sw_table **t,
                const struct sw_table_info **info)
{
    if (table >= pl->program->table_count)
        return SW_E_NOT_FOUND;
    *t = &pl->tables[table];
    *info = &pl->program->tables[table];
    if (!id->mask) {
        for (uint32_t i = 0; i < (*info)->key_words; i++)
            ones[i] = UINT64_MAX;
        id->mask = ones;
    }
    return SW_OK;
}

#define MAX_KEY_WORDS 1024u

SW_PUBLIC int sw_table_insert(sw_pipeline *pl, uint32_t table, const uint64_t *key, const uint64_t *mask,
                              const uint64_t *ranges, int32_t priority, uint32_t action, const uint64_t *args,
                              uint32_t arg_words)
{
    struct identity id = {key, mask, ranges, priority};
    uint64_t ones[MAX_KEY_WORDS];
    struct sw_table *t;
    const struct sw_table_info *info;
    sw_engine *engine = pl->device->engine;
    sw_lock(engine);
    int rc = find(pl, table, &id, ones, &t, &info);
    if (rc == SW_OK) {
        struct sw_group *group;
        struct sw_slot *slot;
        if (find_link(t, info, &id, &group, &slot)) {
            rc = SW_E_EXISTS;
        } else {
            struct sw_entry *e = entry_create(info, &id, action, args, arg_words);
            if (!e) {
                rc = SW_E_MEMORY;
            } else {
                e->order = pl->orders[table]++;
                rc = extra_init(pl, info, e) ? sw_entry_point(pl, info, e) : SW_E_MEMORY;
                if (rc == SW_OK)
                    rc = insert(t, info, &id, e);
                if (rc == SW_OK)
                    direct_set(t, e->key, e);
                else
                    entry_free(info, e);
            }
        }
    }
    sw_unlock(engine);
    return rc;
}

SW_PUBLIC int sw_table_modify(sw_pipeline *pl, uint32_t table, const uint64_t *key, const uint64_t *mask,
                              const uint64_t *ranges, int32_t priority, uint32_t action, const uint64_t *args,
                              uint32_t arg_words)
{
    struct identity id = {key, mask, ranges, priority};
    uint64_t ones[MAX_KEY_WORDS];
    struct sw_table *t;
    const struct sw_table_info *info;
    sw_engine *engine = pl->device->engine;
    sw_lock(engine);
    int rc = find(pl, table, &id, ones, &t, &info);
    if (rc == SW_OK) {
        struct sw_group *group;
        struct sw_slot *slot;
        struct sw_entry **link = find_link(t, info, &id, &group, &slot);
        struct sw_entry *e = link ? entry_create(info, &id, action, args, arg_words) : NULL;
        if (!link) {
            rc = SW_E_NOT_FOUND;
        } else if (!e) {
            rc = SW_E_MEMORY;
        } else if ((rc = sw_entry_point(pl, info, e)) != SW_OK) {
            entry_free(info, e);
        } else {
            struct sw_entry *old = *link;
            e->packets = old->packets;
            e->bytes = old->bytes;
            e->order = old->order;
            e->chain = old->chain;
            extra_move(pl, info, e, old);
            *link = e;
            direct_set(t, e->key, e);
            entry_free(info, old);
        }
    }
    sw_unlock(engine);
    return rc;
}

SW_PUBLIC int sw_table_delete(sw_pipeline *pl, uint32_t table, const uint64_t *key, const uint64_t *mask,
                              const uint64_t *ranges, int32_t priority)
{
    struct identity id = {key, mask, ranges, priority};
    uint64_t ones[MAX_KEY_WORDS];
    struct sw_table *t;
    const struct sw_table_info *info;
    sw_engine *engine = pl->device->engine;
    sw_lock(engine);
    int rc = find(pl, table, &id, ones, &t, &info);
    if (rc == SW_OK) {
        struct sw_group *group;
        struct sw_slot *slot;
        struct sw_entry **link = find_link(t, info, &id, &group, &slot);
        if (!link) {
            rc = SW_E_NOT_FOUND;
        } else {
            struct sw_entry *old = *link;
            *link = old->chain;
            direct_set(t, old->key, t->miss);
            if (!slot->entry) {
                slot_remove(group, slot);
                group->used--;
            }
            sw_idle_forget(pl, info, old);
            entry_free(info, old);
            /* `best` may stay too high: a search then only ends later than it could. */
            if (group->used == 0)
                remove_group(t, group);
        }
    }
    sw_unlock(engine);
    return rc;
}

struct sw_entry *sw_table_find(sw_pipeline *pl, uint32_t table, const struct sw_entry_key *key)
{
    struct identity id = {key->key, key->mask, key->ranges, key->priority};
    uint64_t ones[MAX_KEY_WORDS];
    struct sw_table *t;
    const struct sw_table_info *info;
    if (find(pl, table, &id, ones, &t, &info) != SW_OK)
        return NULL;
    struct sw_group *group;
    struct sw_slot *slot;
    struct sw_entry **link = find_link(t, info, &id, &group, &slot);
    return link ? *link : NULL;
}

SW_PUBLIC int sw_table_read(sw_pipeline *pl, uint32_t table, const uint64_t *key, const uint64_t *mask,
                            const uint64_t *ranges, int32_t priority, struct sw_entry_view *view)
{
    struct identity id = {key, mask, ranges, priority};
    uint64_t ones[MAX_KEY_WORDS];
    struct sw_table *t;
    const struct sw_table_info *info;
    sw_engine *engine = pl->device->engine;
    sw_lock(engine);
    int rc = find(pl, table, &id, ones, &t, &info);
    if (rc == SW_OK) {
        struct sw_group *group;
        struct sw_slot *slot;
        struct sw_entry **link = find_link(t, info, &id, &group, &slot);
        if (link) {
            view->action = (*link)->action;
            view->priority = (*link)->priority;
            view->packets = (*link)->packets;
            view->bytes = (*link)->bytes;
        } else {
            rc = SW_E_NOT_FOUND;
        }
    }
    sw_unlock(engine);
    return rc;
}

SW_PUBLIC int sw_table_write_counter(sw_pipeline *pl, uint32_t table, const uint64_t *key, const uint64_t *mask,
                                     const uint64_t *ranges, int32_t priority, uint64_t packets, uint64_t bytes)
{
    struct identity id = {key, mask, ranges, priority};
    uint64_t ones[MAX_KEY_WORDS];
    struct sw_table *t;
    const struct sw_table_info *info;
    sw_engine *engine = pl->device->engine;
    sw_lock(engine);
    int rc = find(pl, table, &id, ones, &t, &info);
    if (rc == SW_OK) {
        struct sw_group *group;
        struct sw_slot *slot;
        struct sw_entry **link = find_link(t, info, &id, &group, &slot);
        if (link) {
            (*link)->packets = packets;
            (*link)->bytes = bytes;
        } else {
            rc = SW_E_NOT_FOUND;
        }
    }
    sw_unlock(engine);
    return rc;
}

static int fill(struct sw_table *t, const struct sw_table_info *info, uint32_t count, const uint64_t *keys,
                const uint64_t *masks, const uint64_t *ranges)
{
    size_t words = range_words(info);
    for (uint32_t i = 0; i < count; i++) {
        struct identity id = {keys + (size_t)i * info->key_words, masks + (size_t)i * info->key_words, ranges + i * words,
                              0};
        struct sw_entry *e = entry_create(info, &id, SW_NO_ACTION, NULL, 0);
        if (!e)
            return SW_E_MEMORY;
        e->order = i;
        int rc = insert(t, info, &id, e);
        if (rc != SW_OK) {
            entry_free(info, e);
            return rc;
        }
    }
    return SW_OK;
}

SW_PUBLIC int sw_table_replace(sw_pipeline *pl, uint32_t table, uint32_t count, const uint64_t *keys,
                               const uint64_t *masks, const uint64_t *ranges)
{
    if (table >= pl->program->table_count)
        return SW_E_NOT_FOUND;
    const struct sw_table_info *info = &pl->program->tables[table];
    struct sw_table fresh = {0};
    int rc = sw_table_init(&fresh, info);
    if (rc == SW_OK)
        rc = fill(&fresh, info, count, keys, masks, ranges);
    if (rc == SW_OK) {
        sw_lock(pl->device->engine);
        struct sw_table old = pl->tables[table];
        pl->tables[table] = fresh;
        sw_unlock(pl->device->engine);
        fresh = old;
    }
    sw_table_clear(&fresh, info);
    return rc;
}

SW_PUBLIC int sw_table_set_default(sw_pipeline *pl, uint32_t table, uint32_t action, const uint64_t *args,
                                   uint32_t arg_words)
{
    if (table >= pl->program->table_count)
        return SW_E_NOT_FOUND;
    struct identity id = {NULL, NULL, NULL, 0};
    const struct sw_table_info *info = &pl->program->tables[table];
    struct sw_entry *e = entry_create(info, &id, action, args, arg_words);
    if (!e)
        return SW_E_MEMORY;
    sw_engine *engine = pl->device->engine;
    sw_lock(engine);
    int rc = sw_entry_point(pl, info, e);
    if (rc != SW_OK) {
        sw_unlock(engine);
        entry_free(info, e);
        return rc;
    }
    struct sw_entry *old = pl->tables[table].miss;
    if (old) {
        e->packets = old->packets;
        e->bytes = old->bytes;
    }
    pl->tables[table].miss = e;
    for (size_t i = 0; pl->tables[table].direct && i >> pl->program->tables[table].direct_bits == 0; i++)
        if (pl->tables[table].direct[i] == old)
            pl->tables[table].direct[i] = e;
    sw_unlock(engine);
    entry_free(info, old);
    return SW_OK;
}

void sw_table_clear(struct sw_table *t, const struct sw_table_info *info)
{
    for (uint32_t g = 0; g < t->group_count; g++) {
        struct sw_group *group = &t->groups[g];
        for (uint32_t i = 0; i <= group->slot_mask; i++)
            for (struct sw_entry *e = group->slots[i].entry; e;) {
                struct sw_entry *next = e->chain;
                entry_free(info, e);
                e = next;
            }
        group_free(group);
    }
    free(t->groups);
    free(t->direct);
    entry_free(info, t->miss);
    memset(t, 0, sizeof *t);
}
