/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of the fabric benchmark: each sends one frame again and again, as fast as its port takes them. */
#include <stdint.h>
#include <stdlib.h>

#include "include/sw_engine.h"

struct bench_host {
    struct sw_endpoint endpoint;
    const uint8_t *frame;
    uint32_t bytes, wire_bytes;
    uint64_t left;      /* frames to send */
    uint64_t received;
};

static int receive(void *context, uint64_t now, const uint8_t *data, uint32_t bytes, uint32_t wire_bytes)
{
    struct bench_host *host = context;
    (void)now;
    (void)data;
    (void)bytes;
    (void)wire_bytes;
    host->received++;
    return 0;
}

static int poll(void *context, uint64_t now, struct sw_frame *frame)
{
    struct bench_host *host = context;
    (void)now;
    if (!host->left)
        return 0;
    host->left--;
    frame->data = host->frame;
    frame->bytes = host->bytes;
    frame->wire_bytes = host->wire_bytes;
    return 1;
}

static uint64_t next_wake(const void *context)
{
    const struct bench_host *host = context;
    return host->left ? 0 : UINT64_MAX;
}

__attribute__((visibility("default"))) void bench_host_init(struct bench_host *host)
{
    host->endpoint = (struct sw_endpoint){.context = host, .receive = receive, .poll = poll, .next_wake = next_wake};
}
