/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline benchmark without Python, for callgrind to look on: bench_instructions PROGRAM.so SCRIPT, the script as
 * instructions.py writes it. Links to the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/sw_engine.h"

#define MAX_NUMBERS 4096u
#define DROP_PORT 511u

struct numbers {
    uint64_t value[MAX_NUMBERS];
    uint32_t count;
};

static struct numbers *read_numbers(FILE *script, uint32_t count)
{
    struct numbers *n = calloc(1, sizeof *n);
    if (!n || count > MAX_NUMBERS)
        return NULL;
    for (; n->count < count; n->count++)
        if (fscanf(script, "%lu", &n->value[n->count]) != 1)
            return NULL;
    return n;
}

/* table priority action, the lengths of key, mask, ranges and arguments, and these */
static int read_entry(FILE *script, sw_pipeline *pipeline, int insert)
{
    uint32_t table, action, length[4];
    int32_t priority;
    if (fscanf(script, "%u %d %u", &table, &priority, &action) != 3)
        return SW_E_INVALID;
    struct numbers *part[4];
    for (int i = 0; i < 4; i++)
        if (fscanf(script, "%u", &length[i]) != 1)
            return SW_E_INVALID;
    for (int i = 0; i < 4; i++)
        if (!(part[i] = read_numbers(script, length[i])))
            return SW_E_INVALID;
    int rc = insert ? sw_table_insert(pipeline, table, part[0]->value, length[1] ? part[1]->value : NULL,
                                      length[2] ? part[2]->value : NULL, priority, action, part[3]->value, length[3])
                    : sw_table_set_default(pipeline, table, action, part[3]->value, length[3]);
    for (int i = 0; i < 4; i++)
        free(part[i]);
    return rc;
}

static int read_group(FILE *script, sw_device *device)
{
    uint32_t group, count, ports[64], rids[64];
    if (fscanf(script, "%u %u", &group, &count) != 2 || count > 64)
        return SW_E_INVALID;
    for (uint32_t i = 0; i < count; i++)
        if (fscanf(script, "%u %u", &ports[i], &rids[i]) != 2)
            return SW_E_INVALID;
    return sw_mcast_set(device, group, ports, rids, count);
}

/* count rounds port, and frames: length, bytes in hex */
static int run_frames(FILE *script, sw_device *device)
{
    uint32_t count, rounds, port, at = 0, room = 0;
    if (fscanf(script, "%u %u %u", &count, &rounds, &port) != 3 || count == 0)
        return SW_E_INVALID;
    uint8_t *bytes = NULL;
    uint32_t *lengths = calloc(count, sizeof *lengths);
    for (uint32_t i = 0; lengths && i < count; i++) {
        if (fscanf(script, "%u ", &lengths[i]) != 1)
            return SW_E_INVALID;
        if (at + lengths[i] > room) {
            room = 2 * (at + lengths[i]);
            bytes = realloc(bytes, room);
        }
        for (uint32_t j = 0; bytes && j < lengths[i]; j++)
            if (fscanf(script, "%2hhx", &bytes[at + j]) != 1)
                return SW_E_INVALID;
        at += lengths[i];
    }
    if (!bytes || !lengths)
        return SW_E_MEMORY;
    struct sw_port_config plain = {0};
    int rc = sw_port_add(device, port, NULL, &plain);
    int64_t ns = rc == SW_OK ? sw_device_benchmark(device, port, bytes, lengths, count, (uint64_t)count * rounds) : rc;
    free(bytes);
    free(lengths);
    return ns < 0 ? (int)ns : SW_OK;
}

int main(int argc, char **argv)
{
    FILE *script = argc == 3 ? fopen(argv[2], "r") : NULL;
    sw_engine *engine = sw_engine_create();
    struct sw_device_config config = {.cpu_port = SW_NO_PORT, .drop_port = DROP_PORT, .queues = SW_MAX_QUEUES, .seed = 1};
    sw_device *device = engine ? sw_device_create(engine, &config) : NULL;
    sw_pipeline *pipeline;
    if (!script || !device || sw_pipeline_open(device, argv[1], &pipeline) != SW_OK)
        return 1;
    char word[16];
    int rc = SW_OK;
    while (rc == SW_OK && fscanf(script, "%15s", word) == 1) {
        if (!strcmp(word, "insert") || !strcmp(word, "default"))
            rc = read_entry(script, pipeline, word[0] == 'i');
        else if (!strcmp(word, "commit"))
            rc = sw_pipeline_commit(pipeline);
        else if (!strcmp(word, "group"))
            rc = read_group(script, device);
        else if (!strcmp(word, "frames"))
            rc = run_frames(script, device);
        else
            rc = SW_E_INVALID;
    }
    /* The program stays loaded: callgrind looks its names up at the end. */
    fclose(script);
    return rc == SW_OK ? 0 : 1;
}
