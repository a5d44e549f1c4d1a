/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SW_INTERNAL_H
#define SW_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "include/sw_engine.h"
#include "sw_program.h"

#define SW_PUBLIC __attribute__((visibility("default")))

#define SW_SMALL_FRAME 2048u
#define SW_LARGE_FRAME 10240u
#define SW_GROWTH 1024u          /* by this a program may lengthen a frame of the largest size */
#define SW_TAIL 64u              /* readable slack behind a frame */
#define SW_BATCH 32u             /* frames received or sent in one system call */
#define SW_MAX_PASSES 1024u
#define SW_MAX_WAITING 1024u     /* packets that wait to enter ingress again, as in simple_switch */
#define SW_PORT_LIMIT 65536u
#define SW_DEFAULT_QUEUE (1u << 20)
#define SW_CATCH_UP_NS 10000000u /* how far a late loop may make up for lost time on a paced port */
#define SW_PACKET_IN_LIMIT 4096u /* frames that wait for a reader, per device */

/* --- packet buffers: one pool per pipeline, because the per-packet state differs --- */

struct sw_pool {
    struct sw_packet *free[2]; /* by size class */
    void **slabs;
    uint32_t slab_count, slab_room;
    uint64_t bytes, limit;
    uint64_t outstanding;
    uint32_t header_bytes;     /* struct sw_packet and phv, rounded */
    uint32_t headroom;
    bool retired;              /* free it when the last packet comes back */
};

struct sw_pool *sw_pool_create(uint32_t phv_bytes, uint32_t headroom, uint64_t limit);
void sw_pool_retire(struct sw_pool *pool);
/* A packet with room for `length` bytes, or NULL. data, len and pool are set. */
struct sw_packet *sw_pool_get(struct sw_pool *pool, uint32_t length);
void sw_pool_put(struct sw_packet *pkt);
/* A copy of frame and, if `with_phv`, of the per-packet state. */
struct sw_packet *sw_pool_copy(struct sw_pool *pool, const struct sw_packet *pkt, bool with_phv);

/* --- pipelines --- */

struct sw_pipeline {
    sw_device *device;
    void *library;
    const struct sw_program *program;
    struct sw_state state;
    struct sw_table *tables;
    uint64_t *orders;         /* next entry order, by table */
    struct sw_pool *pool;
    bool active;
    struct sw_pipeline *next; /* of the device */
};

void sw_pipeline_free(struct sw_pipeline *pipeline);
void sw_table_clear(struct sw_table *table);

/* --- devices --- */

struct sw_replicas {
    uint32_t count;
    uint32_t packet_length;
    uint32_t *ports;
    uint32_t *rids;
};

struct sw_list {
    struct sw_packet *head, *tail;
};

struct sw_device {
    sw_engine *engine;
    struct sw_device_config config;
    struct sw_pipeline *pipeline;  /* active, or NULL */
    struct sw_pipeline *pipelines; /* opened, inactive ones too */
    sw_port **ports;               /* by number, SW_PORT_LIMIT entries grown on demand */
    uint32_t port_room;
    sw_port *null_port;            /* stands in for every port that does not exist */
    struct sw_replicas **mcast, **clones;
    uint32_t mcast_room, clone_room;
    struct sw_packet *reserve[SW_BATCH]; /* buffers kept for the next receive call */
    uint32_t reserved;
    struct sw_list ingress_work, egress_work;
    uint32_t ingress_waiting;      /* length of ingress_work */
    uint32_t packet_in_waiting;
    bool discard;                  /* benchmark: nothing queues, nothing is sent */
    struct sw_device_stats stats;
    struct sw_device *next;
};

/* --- ports --- */

enum sw_port_kind { SW_PORT_MEMORY, SW_PORT_SOCKET, SW_PORT_CPU, SW_PORT_NULL };

struct sw_queue {
    struct sw_list list;
    uint64_t capacity, bytes, packets;
    uint64_t drops, drop_bytes;
};

struct sw_capture {
    FILE *in, *out;
};

struct sw_port {
    sw_device *device;
    uint32_t number;
    enum sw_port_kind kind;
    uint64_t rate_bps, delay_ns;
    int32_t frame_adjust;
    uint64_t free_ns;       /* when the link can take the next frame */
    uint64_t free_fraction; /* remainder of free_ns, in 1/rate_bps of a nanosecond */
    uint32_t queued;        /* packets in all queues */
    struct sw_queue queues[SW_MAX_QUEUES];
    struct sw_list line;    /* on the link, by delivery time (enq_ns) */
    struct sw_list collected;
    uint64_t event_ns;      /* key in the engine's heap */
    uint32_t heap_index;    /* position + 1, 0: not in it */
    uint32_t order;         /* breaks ties between events, by creation */
    struct sw_capture capture;
    /* socket */
    int fd;
    char interface[32];
    bool up;
    bool in_tx_list;
    struct sw_packet *tx[SW_BATCH];
    uint32_t tx_count;
    struct sw_port *next_tx, *next_removed;
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes, rx_drops, tx_errors;
};

/* --- engine --- */

struct sw_packet_in {
    struct sw_packet_in *next;
    sw_device *device;
    uint32_t length;
    uint8_t frame[];
};

struct sw_engine {
    pthread_mutex_t turnstile, lock; /* see sw_lock */
    struct sw_constants constants;
    sw_device *devices;
    uint64_t now_ns;
    bool exact;             /* manual clock: events happen exactly when they are due */
    sw_port **heap;
    uint32_t heap_count, heap_room, port_order;
    sw_port *tx_list;       /* ports with frames to flush */
    sw_port *removed;       /* ports to free once the loop has seen the events it already fetched */
    atomic_bool stop;
    atomic_bool running;
    int epoll_fd, wake_fd;
    uint64_t start_ns;      /* CLOCK_MONOTONIC at start of the loop's time */
    uint64_t epoch_ns;      /* wall time at now_ns 0, for captures */
    uint64_t housekeeping_ns;
    uint8_t *overflow;      /* SW_BATCH * SW_LARGE_FRAME: what of a frame does not fit a small buffer */
    char error[256];
    pthread_mutex_t in_lock;
    pthread_cond_t in_ready;
    struct sw_packet_in *in_head, *in_tail;
    bool in_cancel;
};

/* The packet loop gives way: a caller that waits holds the turnstile, on which the loop then waits too. */
void sw_lock(sw_engine *engine);
void sw_unlock(sw_engine *engine);
void sw_wake(sw_engine *engine);
int sw_fail(sw_engine *engine, const char *what);

void sw_schedule(sw_port *port);
void sw_unschedule(sw_port *port);
void sw_run_events(sw_engine *engine, uint64_t now_ns);

void sw_device_free(sw_device *device);
struct sw_port *sw_device_port(sw_device *device, uint32_t number);
void sw_device_receive(sw_device *device, sw_port *port, struct sw_packet *pkt);
/* Run everything that became ready: recirculated packets, queues without a rate. */
void sw_device_drain(sw_device *device);
void sw_device_egress(sw_device *device, sw_port *port, struct sw_packet *pkt);
void sw_device_reset_packets(sw_device *device);
void sw_device_reset_replicas(sw_device *device);

/* Close and empty a port; its memory stays. */
void sw_port_close(sw_port *port);
void sw_port_free(sw_port *port);
void sw_engine_free_removed(sw_engine *engine);
void sw_port_enqueue(sw_port *port, struct sw_packet *pkt);
void sw_port_event(sw_port *port, uint64_t now_ns);
void sw_port_send(sw_port *port, struct sw_packet *pkt);
void sw_port_drop_queued(sw_port *port, uint64_t *count);

int sw_socket_open(sw_port *port);
void sw_socket_close(sw_port *port);
void sw_socket_queue(sw_port *port, struct sw_packet *pkt);
void sw_socket_flush(sw_port *port);
void sw_socket_receive(sw_port *port);
void sw_socket_count_drops(sw_port *port);
void sw_flush_all(sw_engine *engine);

void sw_packet_in_push(sw_device *device, const struct sw_packet *pkt);

void sw_capture_write(FILE *file, const sw_engine *engine, const struct sw_packet *pkt);
void sw_capture_close(struct sw_capture *capture);

void sw_constants_init(struct sw_constants *constants);

static inline uint64_t sw_next_event(const sw_engine *engine)
{
    return engine->heap_count ? engine->heap[0]->event_ns : UINT64_MAX;
}

static inline void sw_list_push(struct sw_list *list, struct sw_packet *pkt)
{
    pkt->next = NULL;
    if (list->tail)
        list->tail->next = pkt;
    else
        list->head = pkt;
    list->tail = pkt;
}

static inline struct sw_packet *sw_list_pop(struct sw_list *list)
{
    struct sw_packet *pkt = list->head;
    if (pkt) {
        list->head = pkt->next;
        if (!list->head)
            list->tail = NULL;
    }
    return pkt;
}

#endif
