/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in front of a table's entries where the table needs it: a choice among members of an action profile, a
 * direct meter, the time of the last hit. Entries of other tables have none of it. */
#ifndef SW_EXTRA_H
#define SW_EXTRA_H

#include "sw_meter.h"
#include "sw_table.h"

/* A member of an action profile. Its place never changes while the pipeline lives. */
struct sw_member {
    uint32_t action; /* number within the profile; SW_NO_ACTION: the member is gone */
    uint64_t args[];
};

/* What an entry of an indirect table leads to: one member, or a group with a member as often as its weight says. */
struct sw_choice {
    uint32_t count; /* 0: an empty group */
    struct sw_member *const *members;
};

struct sw_extra {
    const struct sw_choice *choice; /* NULL: the entry's own action */
    struct sw_meter *meter;         /* direct meter; NULL: none */
    uint64_t hit_ns;                /* of an ageing table: the last hit, or when it was inserted */
    uint64_t told_ns, look_ns;      /* last notice; when to look again */
    uint64_t ttl_ns, cookie;        /* 0: it does not age; what the notice says */
    uint32_t place, table;          /* in the heap, from 1 on; 0: not there */
};

SW_INLINE struct sw_extra *sw_extra(const struct sw_entry *e) { return (struct sw_extra *)(uintptr_t)e - 1; }

/* The member that a hash value picks; not to be called for an empty group. */
SW_INLINE const struct sw_member *sw_pick(const struct sw_choice *c, uint64_t hash)
{
    return c->members[(uint32_t)hash % c->count];
}

#endif
