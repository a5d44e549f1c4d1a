/* SPDX-License-Identifier: Apache-2.0 */
/* Members and groups of action profiles. What an entry points at stays where it is until the pipeline goes: a number
 * that is given again finds its former place. */
#include <stdlib.h>

#include "sw_internal.h"

/* A member is what it leads to itself: a choice of one. */
struct sw_choice_cell {
    struct sw_choice choice;
    struct sw_member **list; /* what choice.members is */
    bool there;
    struct sw_member *member; /* of a member */
    struct sw_member **all;   /* of a group that watches ports, whichever are up */
    uint32_t *watch;
    uint32_t total;
};

int sw_profiles_init(struct sw_pipeline *pl)
{
    pl->profiles = calloc(pl->program->profile_count + 1, sizeof *pl->profiles);
    return pl->profiles ? SW_OK : SW_E_MEMORY;
}

static void cells_free(struct sw_choice_cell **cells, uint32_t room)
{
    for (uint32_t i = 0; i < room; i++)
        if (cells[i]) {
            free(cells[i]->list);
            free(cells[i]->member);
            free(cells[i]->all);
            free(cells[i]->watch);
            free(cells[i]);
        }
    free(cells);
}

void sw_profiles_free(struct sw_pipeline *pl)
{
    for (uint32_t i = 0; pl->profiles && i < pl->program->profile_count; i++) {
        cells_free(pl->profiles[i].members, pl->profiles[i].member_room);
        cells_free(pl->profiles[i].groups, pl->profiles[i].group_room);
    }
    free(pl->profiles);
}

static struct sw_choice_cell *find_cell(struct sw_choice_cell **cells, uint32_t room, uint64_t number)
{
    return number < room && cells[number] && cells[number]->there ? cells[number] : NULL;
}

/* The cell of a number, made if need be; or NULL. */
static struct sw_choice_cell *make_cell(struct sw_choice_cell ***cells, uint32_t *room, uint32_t number)
{
    if (number >= *room) {
        uint32_t size = *room ? *room : 16;
        while (size <= number)
            size *= 2;
        struct sw_choice_cell **grown = realloc(*cells, size * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + *room, 0, (size - *room) * sizeof *grown);
        *cells = grown;
        *room = size;
    }
    if (!(*cells)[number])
        (*cells)[number] = calloc(1, sizeof ***cells);
    return (*cells)[number];
}

int sw_entry_point(struct sw_pipeline *pl, const struct sw_table_info *info, struct sw_entry *e)
{
    if (!(info->features & SW_INDIRECT) || (e->action != SW_TO_MEMBER && e->action != SW_TO_GROUP))
        return SW_OK;
    const struct sw_profile *profile = &pl->profiles[info->profile];
    uint64_t number = e->key[info->key_words];
    const struct sw_choice_cell *cell = e->action == SW_TO_MEMBER
                                            ? find_cell(profile->members, profile->member_room, number)
                                            : find_cell(profile->groups, profile->group_room, number);
    if (!cell)
        return SW_E_NOT_FOUND;
    sw_extra(e)->choice = &cell->choice;
    return SW_OK;
}

static int member_set(struct sw_profile *profile, uint32_t words, uint32_t number,
                      uint32_t action, const uint64_t *args, uint32_t arg_words)
{
    struct sw_choice_cell *cell = make_cell(&profile->members, &profile->member_room, number);
    if (!cell)
        return SW_E_MEMORY;
    if (!cell->member) {
        cell->member = calloc(1, sizeof *cell->member + 8 * (size_t)words);
        cell->list = malloc(sizeof *cell->list);
        if (!cell->member || !cell->list) {
            free(cell->member);
            free(cell->list);
            cell->member = NULL;
            cell->list = NULL;
            return SW_E_MEMORY;
        }
        cell->list[0] = cell->member;
        cell->choice.members = cell->list;
    }
    cell->member->action = action;
    if (arg_words)
        memcpy(cell->member->args, args, 8 * (size_t)arg_words);
    cell->choice.count = 1;
    cell->there = true;
    return SW_OK;
}

SW_PUBLIC int sw_member_set(sw_pipeline *pl, uint32_t profile, uint32_t member, uint32_t action, const uint64_t *args,
                            uint32_t arg_words)
{
    if (profile >= pl->program->profile_count)
        return SW_E_NOT_FOUND;
    uint32_t words = pl->program->profile_words[profile];
    if (member >= SW_MAX_MEMBERS || arg_words > words)
        return SW_E_INVALID;
    sw_lock(pl->device->engine);
    int rc = member_set(&pl->profiles[profile], words, member, action, args, arg_words);
    sw_unlock(pl->device->engine);
    return rc;
}

static int remove_cell(sw_pipeline *pl, struct sw_choice_cell *cell)
{
    if (cell) {
        cell->there = false;
        cell->choice.count = 0;
        if (cell->member)
            cell->member->action = SW_NO_ACTION;
    }
    sw_unlock(pl->device->engine);
    return cell ? SW_OK : SW_E_NOT_FOUND;
}

SW_PUBLIC int sw_member_delete(sw_pipeline *pl, uint32_t profile, uint32_t member)
{
    if (profile >= pl->program->profile_count)
        return SW_E_NOT_FOUND;
    sw_lock(pl->device->engine);
    const struct sw_profile *p = &pl->profiles[profile];
    return remove_cell(pl, find_cell(p->members, p->member_room, member));
}

static bool is_up(const sw_device *device, uint32_t number)
{
    const sw_port *port = sw_device_port(device, number);
    return number == SW_NO_PORT || (port && !port->down && (port->kind != SW_PORT_SOCKET || port->up));
}

/* Choose among those whose ports are up. */
static void look_at_ports(const sw_device *device, struct sw_choice_cell *cell)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cell->total; i++)
        if (is_up(device, cell->watch[i]))
            cell->list[count++] = cell->all[i];
    cell->choice.count = count;
}

void sw_profiles_ports_changed(sw_device *device)
{
    for (struct sw_pipeline *pl = device->pipelines; pl; pl = pl->next)
        for (uint32_t i = 0; pl->watches && i < pl->program->profile_count; i++)
            for (uint32_t g = 0; g < pl->profiles[i].group_room; g++) {
                struct sw_choice_cell *cell = find_cell(pl->profiles[i].groups, pl->profiles[i].group_room, g);
                if (cell && cell->watch)
                    look_at_ports(device, cell);
            }
}

struct lists {
    struct sw_member **list, **all;
    uint32_t *watch;
};

static int lists_fill(struct lists *l, const struct sw_profile *profile, const uint32_t *members,
                      const uint32_t *watch, uint32_t count)
{
    l->list = malloc((count + (size_t)1) * sizeof *l->list);
    if (watch) {
        l->all = malloc((count + (size_t)1) * sizeof *l->all);
        l->watch = malloc((count + (size_t)1) * sizeof *l->watch);
    }
    if (!l->list || (watch && (!l->all || !l->watch)))
        return SW_E_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const struct sw_choice_cell *member = find_cell(profile->members, profile->member_room, members[i]);
        if (!member)
            return SW_E_NOT_FOUND;
        l->list[i] = member->member;
    }
    if (watch) {
        memcpy(l->all, l->list, count * sizeof *l->all);
        memcpy(l->watch, watch, count * sizeof *l->watch);
    }
    return SW_OK;
}

static void lists_free(struct lists *l)
{
    free(l->list);
    free(l->all);
    free(l->watch);
}

static int group_set(struct sw_pipeline *pl, struct sw_profile *profile, uint32_t number, const uint32_t *members,
                     const uint32_t *watch, uint32_t count)
{
    struct lists l = {NULL, NULL, NULL};
    int rc = lists_fill(&l, profile, members, watch, count);
    struct sw_choice_cell *cell = NULL;
    if (rc == SW_OK) {
        cell = make_cell(&profile->groups, &profile->group_room, number);
        rc = cell ? SW_OK : SW_E_MEMORY;
    }
    if (rc != SW_OK) {
        lists_free(&l);
        return rc;
    }
    struct lists old = {cell->list, cell->all, cell->watch};
    lists_free(&old);
    cell->list = l.list;
    cell->all = l.all;
    cell->watch = l.watch;
    cell->total = count;
    cell->choice.members = l.list;
    cell->choice.count = count;
    cell->there = true;
    if (watch) {
        pl->watches = true;
        look_at_ports(pl->device, cell);
    }
    return SW_OK;
}

SW_PUBLIC int sw_group_set(sw_pipeline *pl, uint32_t profile, uint32_t group, const uint32_t *members,
                           const uint32_t *watch, uint32_t count)
{
    if (profile >= pl->program->profile_count)
        return SW_E_NOT_FOUND;
    if (group >= SW_MAX_MEMBERS || count > SW_MAX_MEMBERS)
        return SW_E_INVALID;
    sw_lock(pl->device->engine);
    int rc = group_set(pl, &pl->profiles[profile], group, members, watch, count);
    sw_unlock(pl->device->engine);
    return rc;
}

SW_PUBLIC int sw_group_delete(sw_pipeline *pl, uint32_t profile, uint32_t group)
{
    if (profile >= pl->program->profile_count)
        return SW_E_NOT_FOUND;
    sw_lock(pl->device->engine);
    const struct sw_profile *p = &pl->profiles[profile];
    return remove_cell(pl, find_cell(p->groups, p->group_room, group));
}
