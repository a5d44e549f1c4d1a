/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SW_INTERNAL_H
#define SW_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "include/sw_engine.h"
#include "sw_extra.h"
#include "sw_program.h"

#define SW_PUBLIC __attribute__((visibility("default")))

#define SW_HEADER_FRAME 256u     /* frames of headers alone, or of which no more is carried */
#define SW_SMALL_FRAME 2048u
#define SW_LARGE_FRAME 10240u
#define SW_GROWTH 1024u          /* by this a program may lengthen a frame of the largest size */
#define SW_TAIL 128u             /* readable slack behind a frame: at least SW_USUAL_COPY */
#define SW_BATCH 32u             /* frames received or sent in one system call */
#define SW_MAX_PASSES 1024u
#define SW_MAX_WAITING 1024u     /* packets that wait to enter ingress again, as in simple_switch */
#define SW_PORT_LIMIT 65536u
#define SW_DEFAULT_QUEUE (1u << 20)
#define SW_CATCH_UP_NS 10000000u /* how far a late loop may make up for lost time on a paced port */
#define SW_PACKET_IN_LIMIT 4096u /* frames that wait for a reader, per device */

/* --- memory for what packets touch: sw_memory.c --- */

#define SW_MEMORY_CLASSES 16u /* from 64 bytes on, in powers of two */

struct sw_free_block {
    struct sw_free_block *next;
};

struct sw_memory {
    pthread_mutex_t lock;
    struct sw_free_block *free[SW_MEMORY_CLASSES];
    uint8_t *next; /* in the last chunk */
    size_t left;
    void **chunks;
    uint32_t chunk_count, chunk_room;
};

void sw_memory_init(struct sw_memory *memory);
void sw_memory_free(struct sw_memory *memory);
/* Or NULL. At a line of the cache; it is given back with its size. */
void *sw_memory_get(struct sw_memory *memory, size_t bytes);
/* Aligned as by calloc if it is large. */
void *sw_memory_zeroed(struct sw_memory *memory, size_t bytes);
void sw_memory_put(struct sw_memory *memory, void *pointer, size_t bytes);

/* --- packet buffers --- */

#define SW_SIZE_CLASSES 3u

extern const uint32_t sw_frame_bytes[SW_SIZE_CLASSES];

/* Buffers of one layout. The devices of an engine whose programs have the same layout share them, so that the buffer
 * that one device has put back, still in the processor's cache, is the one that the next device takes. */
struct sw_store {
    struct sw_packet *free[SW_SIZE_CLASSES];
    uint32_t header_bytes;     /* struct sw_packet and phv, rounded */
    uint32_t headroom;
    uint32_t frame_offset;     /* both */
    uint32_t each[SW_SIZE_CLASSES]; /* bytes of a buffer, all included */
    struct sw_memory *memory;
    uint32_t slab_bytes;
    void **slabs;
    uint32_t slab_count, slab_room;
    uint64_t bytes, limit;
    uint32_t users;
    struct sw_store **list, *next; /* of the engine */
};

/* What the packets of one pipeline hold of a store. It lives as long as the pipeline and its packets. */
struct sw_pool {
    struct sw_store *store;
    uint64_t outstanding;
    uint64_t limit;            /* what it adds to the store's */
    uint32_t reach;            /* the parser reads no byte behind */
    bool retired;              /* free it when the last packet comes back */
};

struct sw_pool *sw_pool_create(sw_engine *engine, uint32_t phv_bytes, uint32_t headroom, uint64_t limit);
void sw_pool_retire(struct sw_pool *pool);
/* A packet with room for `length` bytes, or NULL. data, end, len and pool are set. */
struct sw_packet *sw_pool_get(struct sw_pool *pool, uint32_t length);
/* A packet of `wire_bytes` of which `bytes` at `data` are carried; the parser finds zeros behind them. Or NULL. */
struct sw_packet *sw_pool_frame(struct sw_pool *pool, const uint8_t *data, uint32_t bytes, uint32_t wire_bytes);
void sw_pool_put(struct sw_packet *pkt);
/* A copy of frame and, if `with_phv`, of the per-packet state. */
struct sw_packet *sw_pool_copy(struct sw_pool *pool, const struct sw_packet *pkt, bool with_phv);
/* More buffers; the first of them, or NULL: the limit of the store's users is reached, or memory. */
struct sw_packet *sw_store_grow(struct sw_store *store, uint32_t size_class);

/* Bytes of the frame that are there; the others read as zeros. */
static inline uint32_t sw_carried(const struct sw_packet *pkt)
{
    size_t there = (size_t)(pkt->end - pkt->data);
    return there < pkt->len ? (uint32_t)there : pkt->len;
}

/* --- timers: what is due when, in order of time and then of `cause`; see sw_timer.c --- */

enum sw_timer_kind { SW_TIMER_SERVICE, SW_TIMER_ARRIVAL, SW_TIMER_WAKE, SW_TIMER_ALARM };

struct sw_timer {
    uint64_t due;
    struct sw_timer *next; /* in its slot of the wheel: a ring; NULL: not in the wheel */
    uint32_t cause;        /* from the engine's counter */
    uint32_t place;        /* SW_IN_HEAP | position, or 0 */
    enum sw_timer_kind kind;
    sw_port *port;
};

/* A timer for what is no port's. One reserves room for it with sw_timers_reserve. */
struct sw_alarm {
    struct sw_timer timer;
    void (*ring)(struct sw_alarm *alarm, uint64_t now_ns);
};

void sw_alarm_set(sw_engine *engine, struct sw_alarm *alarm, uint64_t due_ns);
void sw_alarm_cancel(sw_engine *engine, struct sw_alarm *alarm);

#define SW_IN_HEAP 0x80000000u
#define SW_WHEEL_SLOTS 16384u /* nanoseconds ahead: a data centre link's delay and a frame */

/* --- pipelines --- */

/* Entries with a time to live. */
struct sw_idle {
    struct sw_alarm alarm;    /* first: see sw_idle.c */
    struct sw_entry **heap, **due;
    uint32_t count, room;
};

struct sw_pipeline {
    sw_device *device;
    void *library;
    const struct sw_program *program;
    struct sw_state state;
    struct sw_table *tables;
    uint64_t *orders;         /* next entry order, by table */
    struct sw_profile *profiles;
    bool watches;             /* some group watches ports */
    uint64_t serial;          /* of the engine's pipelines, for notices */
    bool reserved;            /* room for its timers is */
    struct sw_digest *digests;
    uint64_t digest_lists;    /* ids given so far */
    struct sw_idle idle;
    struct sw_pool *pool;
    bool active;
    struct sw_pipeline *next; /* of the device */
};

void sw_pipeline_free(struct sw_pipeline *pipeline);
int sw_table_init(struct sw_table *table, const struct sw_table_info *info);
void sw_table_clear(struct sw_table *table, const struct sw_table_info *info);
/* Point an entry of an indirect table at the member or group that it names. SW_E_NOT_FOUND if that is not there. */
int sw_entry_point(struct sw_pipeline *pipeline, const struct sw_table_info *info, struct sw_entry *entry);

/* What an entry of an ageing table leaves behind, or hands on to the one that replaces it. */
void sw_idle_init(struct sw_pipeline *pipeline);
void sw_idle_free(struct sw_pipeline *pipeline);
void sw_idle_forget(struct sw_pipeline *pipeline, const struct sw_table_info *info, struct sw_entry *entry);
void sw_idle_replace(struct sw_pipeline *pipeline, struct sw_entry *to);

bool sw_digests_init(struct sw_pipeline *pipeline);
void sw_digests_free(struct sw_pipeline *pipeline);
void sw_digest_sample(struct sw_state *st, uint32_t number, const uint64_t *words);

/* Queue a notice with its words. False: nobody reads them, or memory. */
bool sw_notice_push(sw_engine *engine, const struct sw_notice *notice, const uint64_t *words);
void sw_notices_free(sw_engine *engine);

/* With the lock held: an entry, or NULL. */
struct sw_entry *sw_table_find(sw_pipeline *pipeline, uint32_t table, const struct sw_entry_key *key);

/* Members and groups of one action profile, by number. */
struct sw_profile {
    struct sw_choice_cell **members, **groups;
    uint32_t member_room, group_room;
};

int sw_profiles_init(struct sw_pipeline *pipeline);
void sw_profiles_free(struct sw_pipeline *pipeline);
/* A port came, went, or its link did: look at the groups that watch ports. */
void sw_profiles_ports_changed(sw_device *device);

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
    struct sw_pipeline *pipeline;  /* active, or NULL */
    sw_port **ports;               /* by number, SW_PORT_LIMIT entries grown on demand */
    uint32_t port_room;
    uint32_t ingress_waiting;      /* length of ingress_work */
    struct sw_list ingress_work, egress_work;
    struct sw_device_config config;
    struct sw_pipeline *pipelines; /* opened, inactive ones too */
    sw_port *null_port;            /* stands in for every port that does not exist */
    struct sw_replicas **mcast, **clones;
    uint32_t mcast_room, clone_room;
    uint32_t packet_in_waiting;
    struct sw_packet *reserve[SW_BATCH]; /* buffers kept for the next receive call */
    uint32_t reserved;
    struct sw_device_stats stats;
    struct sw_device *next;
};

struct sw_wheel {
    uint64_t base;            /* no timer is due earlier */
    uint64_t bits[SW_WHEEL_SLOTS / 64];     /* which slots are not empty */
    struct sw_timer *slots[SW_WHEEL_SLOTS]; /* the last one of each */
};

/* --- ports --- */

enum sw_port_kind { SW_PORT_MEMORY, SW_PORT_SOCKET, SW_PORT_CPU, SW_PORT_NULL };

struct sw_queue {
    struct sw_list list;
    uint64_t capacity, bytes, packets;
    uint64_t peak_bytes, peak_packets;
    uint64_t drops, drop_bytes;
    int64_t credit;         /* bytes that the link owes to the queue, times a million */
};

struct sw_capture {
    FILE *in, *out;
};

/* Frames without payload have no more bytes than this, as a rule: where they are copied, it is always so much. */
#define SW_USUAL_COPY 96u

/* A frame on a link. If it has more than SW_USUAL_COPY bytes, they are elsewhere. */
struct sw_record {
    uint64_t due;
    uint32_t cause;
    uint16_t bytes, wire_bytes;
    union {
        uint8_t here[112];
        uint8_t *elsewhere;
    } data;
};

/* The frames on a link: records from `head` up to `tail`, modulo the room, which is a power of two. */
struct sw_ring {
    struct sw_record *records;
    uint32_t mask;          /* room - 1; 0 without room */
    uint32_t head, tail;
};

/* An endpoint on a port. */
struct sw_attached {
    struct sw_endpoint endpoint;
    sw_port *port, *gate;
    struct sw_timer timer;
    uint64_t wake;          /* what next_wake said last */
    uint64_t not_before;    /* it had nothing to send at the time before, whatever its next_wake says */
    bool shut;              /* its gate was removed */
    bool settling;          /* in the engine's list of endpoints to look at */
    struct sw_attached *next_settling;
};

#define SW_STARTING 0x100u /* in sw_port.waiting */

struct sw_port {
    sw_device *device;
    /* the sending direction */
    uint64_t free_ns;       /* when the link can take the next frame */
    uint64_t free_fraction; /* remainder of free_ns, in 1/rate_bps of a nanosecond */
    uint64_t rate_bps, delay_ns;
    uint64_t least_capacity; /* of its queues */
    uint32_t waiting;       /* bit set of the priorities that have packets in their queues; SW_STARTING: a packet is on
                             * its way from an idle port to its link */
    int32_t frame_adjust;
    uint32_t min_frame;
    uint32_t number;
    /* what is on the link: of a joined port, records; else packets by delivery time (enq_ns) */
    struct sw_ring ring;
    sw_port *peer;
    bool joined;            /* peer or attached is set */
    bool watched;           /* by an observer or a capture */
    bool unusual;           /* watched, down, lossy, without device behind it, or nothing is sent at all */
    bool discard;           /* benchmark: nothing queues, nothing is sent */
    enum sw_port_kind kind;
    struct sw_timer arrival, service;
    uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes;
    uint64_t sent[SW_MAX_QUEUES]; /* packets put on the link */
    struct sw_attached *attached;
    struct sw_attached *gated;   /* the endpoint that is polled when this port is idle */
    struct sw_queue queues[SW_MAX_QUEUES];
    uint32_t shared;        /* bit set of the priorities with a share */
    uint32_t share_ppm[SW_MAX_QUEUES];
    struct sw_list line;
    struct sw_list collected;
    struct sw_observer observer;
    struct sw_capture capture;
    bool down;              /* the link, by sw_port_set_link */
    uint32_t loss_ppm;
    uint64_t loss_seed, loss_count;
    uint64_t lost_packets, lost_bytes;
    /* socket */
    int fd;
    char interface[32];
    bool up;
    bool in_tx_list;
    struct sw_packet *tx[SW_BATCH];
    uint32_t tx_count;
    struct sw_port *next_tx, *next_removed;
    uint64_t rx_drops, tx_errors;
};

/* --- engine --- */

struct sw_packet_in {
    struct sw_packet_in *next;
    sw_device *device;
    uint32_t length;
    uint8_t frame[];
};

struct sw_engine {
    uint64_t now_ns;
    uint32_t causes;
    bool exact;             /* manual clock: events happen exactly when they are due */
    bool direct;            /* events are being processed at their exact times: idle ports serve at once */
    bool attention;         /* an endpoint or observer asks sw_engine_run_until to stop: set by sw_ask_to_stop */
    uint64_t end;           /* of the run of events: the first time that is not part of it */
    uint64_t limit;         /* the wheel alone tells the next event before this time: the end, the heap's first timer */
    struct sw_attached *settling;
    struct sw_timer **heap; /* timers beyond the wheel */
    uint32_t heap_count, heap_room, timers;
    struct sw_wheel wheel;
    pthread_mutex_t turnstile, lock; /* see sw_lock */
    struct sw_constants constants;
    sw_device *devices;
    struct sw_store *stores;
    struct sw_memory memory;
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
    pthread_cond_t notice_ready; /* with in_lock */
    struct sw_waiting_notice *notices_head, *notices_tail;
    uint32_t notices_waiting;
    bool notice_cancel;
    uint64_t serials;
};

/* The packet loop gives way: a caller that waits holds the turnstile, on which the loop then waits too. */
void sw_lock(sw_engine *engine);
void sw_unlock(sw_engine *engine);
void sw_wake(sw_engine *engine);
int sw_fail(sw_engine *engine, const char *what);

/* Room for `count` timers more (less, if negative), so that setting one can't fail. */
bool sw_timers_reserve(sw_engine *engine, int32_t count);
/* Set or move a timer. */
void sw_timer_set(sw_engine *engine, struct sw_timer *timer, uint64_t due, uint32_t cause);
void sw_timer_cancel(sw_engine *engine, struct sw_timer *timer);
/* The first timer, or NULL. It stays set. */
struct sw_timer *sw_timer_first(const sw_engine *engine);
/* Everything until `until_ns`. True: stopped because somebody asked for it. */
bool sw_run_events(sw_engine *engine, uint64_t until_ns);

void sw_device_free(sw_device *device);
static inline sw_port *sw_device_port(const sw_device *device, uint32_t number)
{
    return number < device->port_room ? device->ports[number] : NULL;
}

/* --- the path of a packet: sw_path.c --- */

void sw_device_receive(sw_device *device, sw_port *port, struct sw_packet *pkt);
/* Run everything that became ready: recirculated packets, queues without a rate. */
void sw_device_drain(sw_device *device);
void sw_device_egress(sw_device *device, sw_port *port, struct sw_packet *pkt);
/* A frame from outside enters at a port. */
int sw_device_enter(sw_device *device, sw_port *port, const struct sw_frame *frame);
void sw_device_reset_packets(sw_device *device);
void sw_device_reset_replicas(sw_device *device);
/* Takes the packet: the last replica is the packet itself. `keep`: bytes kept of each, 0: all. */
void sw_device_replicate(sw_device *device, struct sw_packet *pkt, const struct sw_replicas *replicas, uint32_t keep,
                         uint32_t instance_type);
/* What a program asked for besides forwarding. The first and third return false if the packet is used up. */
bool sw_device_special_ingress(sw_device *device, struct sw_packet *pkt);
void sw_device_egress_clone(sw_device *device, struct sw_packet *pkt);
void sw_device_recirculate(sw_device *device, struct sw_packet *pkt);

/* Close and empty a port; its memory stays. */
void sw_port_close(sw_port *port);
void sw_port_free(sw_port *port);
void sw_engine_free_removed(sw_engine *engine);
void sw_port_observed(sw_port *port, int outgoing, const struct sw_packet *pkt);

/* queues */
void sw_port_schedule_service(sw_port *port);
/* Of the queues with a share, of which some wait: the one to serve, which is charged. */
uint32_t sw_port_choose_shared(sw_port *port);
void sw_port_drop_queued(sw_port *port, uint64_t *count);

/* the link */
/* A port that is joined to nothing: what is due on its link. */
void sw_port_deliver_line(sw_port *port, uint64_t now_ns);
/* A frame leaves the link of a port that is joined to nothing. */
void sw_port_deliver(sw_port *port, struct sw_packet *pkt);
bool sw_ring_grow(struct sw_memory *memory, struct sw_ring *ring);
/* Whether a fault takes this frame; it is counted then. */
bool sw_port_loses(sw_port *port, uint32_t bytes);
void sw_port_lose(sw_port *port, uint32_t bytes);
void sw_port_lose_line(sw_port *port);
void sw_port_disconnect(sw_port *port);
/* Set `joined`, `watched` and `unusual` by what they stand for. */
void sw_port_refresh(sw_port *port);

/* endpoints */
void sw_attached_wake(struct sw_attached *attached, uint64_t now_ns);
/* Set its timer anew: its next_wake, or what its gate waits for, may have changed. */
void sw_attached_schedule(struct sw_attached *attached);
void sw_attached_settle(sw_engine *engine);
void sw_attached_free(sw_port *port);

int sw_socket_open(sw_port *port);
void sw_socket_close(sw_port *port);
void sw_socket_queue(sw_port *port, struct sw_packet *pkt);
void sw_socket_flush(sw_port *port);
void sw_socket_receive(sw_port *port);
void sw_socket_count_drops(sw_port *port);
void sw_flush_all(sw_engine *engine);

void sw_packet_in_push(sw_device *device, const struct sw_packet *pkt);

void sw_capture_write(FILE *file, const sw_engine *engine, const uint8_t *data, uint32_t bytes, uint32_t wire_bytes);
void sw_capture_close(struct sw_capture *capture);

void sw_constants_init(struct sw_constants *constants);

static inline bool sw_timer_is_set(const struct sw_timer *timer) { return timer->next || timer->place; }

static inline void sw_ask_to_stop(sw_engine *engine)
{
    engine->attention = true;
    engine->limit = 0;
}

static inline uint64_t sw_next_event(const sw_engine *engine)
{
    const struct sw_timer *first = sw_timer_first(engine);
    return first ? first->due : UINT64_MAX;
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
