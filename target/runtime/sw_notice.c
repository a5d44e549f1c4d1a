/* SPDX-License-Identifier: Apache-2.0 */
/* What the packet loop has to tell a program's controller: a queue that a reader outside waits on. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "sw_internal.h"

#define LIMIT 4096u /* notices that wait for a reader, per engine */

struct sw_waiting_notice {
    struct sw_waiting_notice *next;
    struct sw_notice notice;
    uint64_t words[];
};

bool sw_notice_push(sw_engine *engine, const struct sw_notice *notice, const uint64_t *words)
{
    struct sw_waiting_notice *item = NULL;
    pthread_mutex_lock(&engine->in_lock);
    if (engine->notices_waiting < LIMIT)
        item = malloc(sizeof *item + 8 * (size_t)notice->words);
    if (item) {
        item->next = NULL;
        item->notice = *notice;
        if (notice->words)
            memcpy(item->words, words, 8 * (size_t)notice->words);
        if (engine->notices_tail)
            engine->notices_tail->next = item;
        else
            engine->notices_head = item;
        engine->notices_tail = item;
        engine->notices_waiting++;
        pthread_cond_signal(&engine->notice_ready);
    }
    pthread_mutex_unlock(&engine->in_lock);
    return item != NULL;
}

static void pop(sw_engine *engine)
{
    struct sw_waiting_notice *item = engine->notices_head;
    engine->notices_head = item->next;
    if (!engine->notices_head)
        engine->notices_tail = NULL;
    engine->notices_waiting--;
    free(item);
}

void sw_notices_free(sw_engine *engine)
{
    while (engine->notices_head)
        pop(engine);
}

SW_PUBLIC int sw_next_notice(sw_engine *engine, struct sw_notice *notice, uint64_t *words, uint32_t capacity,
                             uint32_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int rc = 0;
    pthread_mutex_lock(&engine->in_lock);
    while (!engine->notices_head && !engine->notice_cancel)
        if (timeout_ms == 0 || pthread_cond_timedwait(&engine->notice_ready, &engine->in_lock, &until) == ETIMEDOUT)
            break;
    engine->notice_cancel = false;
    if (engine->notices_head) {
        *notice = engine->notices_head->notice;
        rc = notice->words <= capacity ? 1 : SW_E_FULL;
        if (rc == 1) {
            memcpy(words, engine->notices_head->words, 8 * (size_t)notice->words);
            pop(engine);
        }
    }
    pthread_mutex_unlock(&engine->in_lock);
    return rc;
}
