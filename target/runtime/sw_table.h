/* SPDX-License-Identifier: Apache-2.0 */
/* Match tables. A key is an array of 64-bit words. Entries that share a mask form a group with a hash table of its
 * own: an exact table has one group, an lpm table one per prefix length, a ternary table one per mask (tuple space
 * search). Groups are sorted by their best priority, so that a search ends early. An exact table with a short key
 * also has an array that the key is the index of. */
#ifndef SW_TABLE_H
#define SW_TABLE_H

#include <stdint.h>

#include "sw_wide.h"

enum sw_match { SW_MATCH_EXACT = 0, SW_MATCH_MASKED = 1, SW_MATCH_RANGE = 2 };

struct sw_range_field {
    uint32_t word, shift, width;
};

struct sw_table_info {
    uint32_t key_words;
    uint32_t match; /* enum sw_match */
    uint32_t range_count;
    const struct sw_range_field *ranges;
    uint32_t direct_bits; /* width of a key that is used as an index, 0: it is not */
    uint32_t features;    /* enum sw_feature */
    uint32_t profile;     /* of an indirect table: its action profile */
};

/* What a table's entries have besides key, counter and action; see sw_extra.h. */
enum sw_feature { SW_INDIRECT = 1, SW_METERED = 2, SW_AGEING = 4 };

struct sw_entry {
    uint64_t packets, bytes; /* direct counter */
    uint32_t action;         /* action id of the JSON; SW_NO_ACTION: none */
    int32_t priority;        /* the larger wins; among equals the older (smaller order) */
    uint64_t order;
    struct sw_entry *chain;  /* next entry with the same masked key, in falling precedence */
    const uint64_t *ranges;  /* low, high for each range field, in words as the field */
    uint64_t key[];          /* and behind it the action's arguments */
};

#define SW_NO_ACTION UINT32_MAX
/* As an entry's action, in an indirect table: its argument is the number of a member, or of a group. */
#define SW_TO_MEMBER (UINT32_MAX - 1)
#define SW_TO_GROUP (UINT32_MAX - 2)

struct sw_slot {
    uint64_t tag;           /* of the entry's key */
    struct sw_entry *entry; /* NULL: free */
};

struct sw_group {
    struct sw_slot *slots;
    uint32_t slot_mask;
    uint32_t used;
    int32_t best;   /* highest priority in the group */
    uint64_t first; /* word of the mask */
    uint64_t *mask;
};

struct sw_table {
    struct sw_entry **direct; /* by key: the entry or `miss`; NULL where the key is too long for that */
    struct sw_group *groups;
    uint32_t group_count;
    struct sw_entry *miss; /* default action; its action may be SW_NO_ACTION */
};

/* Equal for equal keys; a key of one word is its own tag, and no other key has it. */
SW_INLINE uint64_t sw_key_tag(const uint64_t *key, uint32_t words)
{
    if (words == 1)
        return key[0];
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = 0; i < words; i++) {
        sw_u128 m = (sw_u128)(h ^ key[i]) * UINT64_C(0xd6e8feb86659fd93);
        h = (uint64_t)m ^ (uint64_t)(m >> 64);
        h ^= UINT64_C(0xa0761d6478bd642f);
    }
    return h;
}

/* Where the search for a tag begins. */
SW_INLINE uint32_t sw_tag_home(uint64_t tag, uint32_t slot_mask)
{
    return (uint32_t)(tag * UINT64_C(0x9e3779b97f4a7c15) >> 32) & slot_mask;
}

SW_INLINE int sw_key_equal(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    uint64_t diff = 0;
    for (uint32_t i = 0; i < words; i++)
        diff |= a[i] ^ b[i];
    return diff == 0;
}

SW_INLINE struct sw_entry *sw_group_find(const struct sw_group *g, const uint64_t *key, uint32_t words)
{
    uint64_t tag = sw_key_tag(key, words);
    for (uint32_t i = sw_tag_home(tag, g->slot_mask);; i = (i + 1) & g->slot_mask) {
        const struct sw_slot *s = &g->slots[i];
        if (s->tag == tag && s->entry != NULL && (words == 1 || sw_key_equal(s->entry->key, key, words)))
            return s->entry;
        if (s->entry == NULL)
            return NULL;
    }
}

SW_INLINE struct sw_entry *sw_find_exact(const struct sw_table *t, const uint64_t *key, uint32_t words)
{
    return t->group_count ? sw_group_find(&t->groups[0], key, words) : NULL;
}

SW_INLINE int sw_precedes(const struct sw_entry *a, const struct sw_entry *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->order < b->order;
}

SW_INLINE struct sw_entry *sw_group_find_masked(const struct sw_group *g, const uint64_t *key, uint32_t words)
{
    uint64_t masked[words];
    masked[0] = key[0] & g->first;
    for (uint32_t i = 1; i < words; i++)
        masked[i] = key[i] & g->mask[i];
    return sw_group_find(g, masked, words);
}

/* Where every group has a priority of its own, as prefixes of one field have: the first that is found. */
SW_INLINE struct sw_entry *sw_find_prefix(const struct sw_table *t, const uint64_t *key, uint32_t words)
{
    const struct sw_group *g = t->groups;
    for (uint32_t left = t->group_count; left > 0; left--, g++) {
        struct sw_entry *found = sw_group_find_masked(g, key, words);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* The best in the groups behind the first, or `best`. */
static __attribute__((noinline, unused)) struct sw_entry *sw_find_better(const struct sw_table *t, const uint64_t *key,
                                                                         uint32_t words, struct sw_entry *best)
{
    for (uint32_t i = 1; i < t->group_count; i++) {
        const struct sw_group *g = &t->groups[i];
        if (best != NULL && best->priority > g->best)
            break;
        struct sw_entry *found = sw_group_find_masked(g, key, words);
        if (found != NULL && (best == NULL || sw_precedes(found, best)))
            best = found;
    }
    return best;
}

SW_INLINE struct sw_entry *sw_find_masked(const struct sw_table *t, const uint64_t *key, uint32_t words)
{
    if (t->group_count == 0)
        return NULL;
    struct sw_entry *best = sw_group_find_masked(&t->groups[0], key, words);
    if (t->group_count > 1)
        best = sw_find_better(t, key, words, best);
    return best;
}

SW_INLINE uint32_t sw_range_words(const struct sw_range_field *f) { return (f->width + 63) / 64; }

static inline __attribute__((unused)) struct sw_entry *sw_find_range(const struct sw_table *t,
                                                                     const struct sw_table_info *info,
                                                                     const uint64_t *key)
{
    struct sw_entry *best = NULL;
    for (uint32_t g = 0; g < t->group_count; g++) {
        const struct sw_group *group = &t->groups[g];
        if (best != NULL && best->priority > group->best)
            break;
        for (struct sw_entry *e = sw_group_find_masked(group, key, info->key_words); e != NULL; e = e->chain) {
            const uint64_t *low = e->ranges;
            uint32_t r = 0;
            for (; r < info->range_count; r++) {
                const struct sw_range_field *f = &info->ranges[r];
                uint32_t n = sw_range_words(f);
                uint64_t v = key[f->word] >> f->shift;
                if (f->width < 64)
                    v &= (UINT64_C(1) << f->width) - 1;
                if (n == 1 ? v < low[0] || v > low[1]
                           : sw_wide_lt(&key[f->word], low, n, 0) || sw_wide_lt(low + n, &key[f->word], n, 0))
                    break;
                low += 2 * n;
            }
            if (r == info->range_count) {
                if (best == NULL || sw_precedes(e, best))
                    best = e;
                break;
            }
        }
    }
    return best;
}

#endif
