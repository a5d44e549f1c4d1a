/* SPDX-License-Identifier: Apache-2.0 */
/* Digests: what a program wants its controller to learn, in lists, each sample once until its list is acknowledged or too
 * old (P4Runtime specification, "DigestEntry"). */
#include <stdlib.h>

#include "sw_internal.h"

#define FIRST_BUCKETS 64u
#define MOST_SAMPLES (1u << 20) /* that are remembered, per digest; what is beyond is dropped and counted */
#define USUAL_LIST 1024u        /* samples of a list whose size is left to us */

struct sw_sample {
    struct sw_sample *hash_next, *list_next;
    uint64_t hash;
    uint64_t words[];
};

struct sw_digest_list {
    struct sw_digest_list *next;
    uint64_t id, sent_ns;
    uint32_t count;
    struct sw_sample *head, *tail;
};

struct sw_digest {
    struct sw_alarm alarm; /* the open list is due */
    struct sw_pipeline *pl;
    uint32_t number, words;
    bool enabled;
    struct sw_digest_config config;
    struct sw_sample **buckets; /* of all samples that are remembered, in the open list or in those sent */
    uint32_t mask, used;
    struct sw_digest_list *open;
    uint64_t opened_ns;
    struct sw_digest_list *sent_head, *sent_tail;
};

static uint64_t hash_of(const uint64_t *words, uint32_t count)
{
    return count == 1 ? words[0] * UINT64_C(0x9e3779b97f4a7c15) : sw_key_tag(words, count);
}

static uint32_t bucket(const struct sw_digest *d, uint64_t hash) { return (uint32_t)(hash >> 32) & d->mask; }

static bool grow(struct sw_digest *d)
{
    uint32_t size = d->buckets ? 2 * (d->mask + 1) : FIRST_BUCKETS, old = d->buckets ? d->mask + 1 : 0;
    struct sw_sample **buckets = calloc(size, sizeof *buckets);
    if (!buckets)
        return false;
    d->mask = size - 1;
    for (uint32_t i = 0; i < old; i++)
        for (struct sw_sample *s = d->buckets[i]; s;) {
            struct sw_sample *next = s->hash_next;
            s->hash_next = buckets[bucket(d, s->hash)];
            buckets[bucket(d, s->hash)] = s;
            s = next;
        }
    free(d->buckets);
    d->buckets = buckets;
    return true;
}

static bool known(const struct sw_digest *d, const uint64_t *words, uint64_t hash)
{
    for (const struct sw_sample *s = d->buckets ? d->buckets[bucket(d, hash)] : NULL; s; s = s->hash_next)
        if (s->hash == hash && sw_key_equal(s->words, words, d->words))
            return true;
    return false;
}

static void forget_list(struct sw_digest *d, struct sw_digest_list *list)
{
    for (struct sw_sample *s = list->head; s;) {
        struct sw_sample *next = s->list_next, **link = &d->buckets[bucket(d, s->hash)];
        while (*link != s)
            link = &(*link)->hash_next;
        *link = s->hash_next;
        free(s);
        d->used--;
        s = next;
    }
    free(list);
}

static void expire(struct sw_digest *d, uint64_t now_ns)
{
    while (d->sent_head && now_ns - d->sent_head->sent_ns >= d->config.ack_timeout_ns) {
        struct sw_digest_list *list = d->sent_head;
        d->sent_head = list->next;
        if (!d->sent_head)
            d->sent_tail = NULL;
        forget_list(d, list);
    }
}

/* Send the open list, which has samples. */
static void send_list(struct sw_digest *d, uint64_t now_ns)
{
    struct sw_pipeline *pl = d->pl;
    struct sw_digest_list *list = d->open;
    uint64_t *words = malloc(8 * (size_t)list->count * d->words + 8), *p = words;
    d->open = NULL;
    sw_alarm_cancel(pl->device->engine, &d->alarm);
    bool sent = false;
    if (words) {
        for (const struct sw_sample *s = list->head; s; s = s->list_next, p += d->words)
            memcpy(p, s->words, 8 * (size_t)d->words);
        struct sw_notice notice = {
            .device = pl->device, .pipeline = pl->serial, .kind = SW_NOTICE_DIGEST, .object = d->number,
            .id = list->id, .time_ns = pl->device->engine->epoch_ns + now_ns, .words = list->count * d->words,
        };
        sent = sw_notice_push(pl->device->engine, &notice, words);
        free(words);
    }
    if (!sent)
        pl->device->stats.digest_drops += list->count;
    if (!sent || d->config.ack_timeout_ns == 0) {
        forget_list(d, list);
        return;
    }
    list->sent_ns = now_ns;
    if (d->sent_tail)
        d->sent_tail->next = list;
    else
        d->sent_head = list;
    d->sent_tail = list;
}

static void send_or_wait(struct sw_digest *d, uint64_t now_ns)
{
    uint32_t most = d->config.max_list_size ? d->config.max_list_size : USUAL_LIST;
    if (d->config.max_timeout_ns == 0 || d->open->count >= most ||
        now_ns - d->opened_ns >= d->config.max_timeout_ns)
        send_list(d, now_ns);
    else
        sw_alarm_set(d->pl->device->engine, &d->alarm, d->opened_ns + d->config.max_timeout_ns);
}

static bool add(struct sw_digest *d, const uint64_t *words, uint64_t hash, uint64_t now_ns)
{
    if (d->used >= MOST_SAMPLES || ((!d->buckets || d->used > d->mask) && !grow(d)))
        return false;
    struct sw_sample *s = malloc(sizeof *s + 8 * (size_t)d->words);
    if (!d->open && s) {
        d->open = calloc(1, sizeof *d->open);
        d->opened_ns = now_ns;
        if (d->open)
            d->open->id = ++d->pl->digest_lists;
    }
    if (!s || !d->open) {
        free(s);
        return false;
    }
    memcpy(s->words, words, 8 * (size_t)d->words);
    s->hash = hash;
    s->list_next = NULL;
    s->hash_next = d->buckets[bucket(d, hash)];
    d->buckets[bucket(d, hash)] = s;
    if (d->open->tail)
        d->open->tail->list_next = s;
    else
        d->open->head = s;
    d->open->tail = s;
    d->open->count++;
    d->used++;
    return true;
}

void sw_digest_sample(struct sw_state *st, uint32_t number, const uint64_t *words)
{
    struct sw_pipeline *pl = (struct sw_pipeline *)((uint8_t *)st - offsetof(struct sw_pipeline, state));
    struct sw_digest *d = &pl->digests[number];
    uint64_t now_ns = pl->device->engine->now_ns;
    if (!d->enabled)
        return;
    expire(d, now_ns);
    uint64_t hash = hash_of(words, d->words);
    if (known(d, words, hash))
        return;
    bool first = !d->open;
    if (!add(d, words, hash, now_ns)) {
        pl->device->stats.digest_drops++;
        return;
    }
    if (first || d->config.max_list_size == 0 || d->open->count >= d->config.max_list_size)
        send_or_wait(d, now_ns);
}

static void ring(struct sw_alarm *alarm, uint64_t now_ns)
{
    struct sw_digest *d = (struct sw_digest *)alarm;
    if (d->open)
        send_list(d, now_ns);
}

static void clear(struct sw_digest *d)
{
    if (d->open)
        forget_list(d, d->open);
    d->open = NULL;
    while (d->sent_head) {
        struct sw_digest_list *list = d->sent_head;
        d->sent_head = list->next;
        forget_list(d, list);
    }
    d->sent_tail = NULL;
    sw_alarm_cancel(d->pl->device->engine, &d->alarm);
}

bool sw_digests_init(struct sw_pipeline *pl)
{
    uint32_t count = pl->program->digest_count;
    pl->digests = calloc(count + 1, sizeof *pl->digests);
    if (!pl->digests)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        pl->digests[i].pl = pl;
        pl->digests[i].number = i;
        pl->digests[i].words = pl->program->digest_words[i];
        pl->digests[i].alarm.ring = ring;
    }
    return true;
}

void sw_digests_free(struct sw_pipeline *pl)
{
    for (uint32_t i = 0; pl->digests && i < pl->program->digest_count; i++) {
        clear(&pl->digests[i]);
        free(pl->digests[i].buckets);
    }
    free(pl->digests);
    pl->digests = NULL;
}

SW_PUBLIC int sw_digest_set(sw_pipeline *pl, uint32_t number, const struct sw_digest_config *config)
{
    if (number >= pl->program->digest_count)
        return SW_E_NOT_FOUND;
    sw_engine *engine = pl->device->engine;
    struct sw_digest *d = &pl->digests[number];
    sw_lock(engine);
    d->enabled = config != NULL;
    if (config) {
        d->config = *config;
        expire(d, engine->now_ns);
        if (d->open)
            send_or_wait(d, engine->now_ns);
    } else {
        clear(d);
    }
    sw_unlock(engine);
    sw_wake(engine);
    return SW_OK;
}

SW_PUBLIC int sw_digest_acknowledge(sw_pipeline *pl, uint32_t number, uint64_t id)
{
    if (number >= pl->program->digest_count)
        return SW_E_NOT_FOUND;
    int rc = SW_E_NOT_FOUND;
    struct sw_digest *d = &pl->digests[number];
    sw_lock(pl->device->engine);
    struct sw_digest_list *before = NULL;
    for (struct sw_digest_list *list = d->sent_head; list; before = list, list = list->next)
        if (list->id == id) {
            if (before)
                before->next = list->next;
            else
                d->sent_head = list->next;
            if (d->sent_tail == list)
                d->sent_tail = before;
            forget_list(d, list);
            rc = SW_OK;
            break;
        }
    sw_unlock(pl->device->engine);
    return rc;
}
