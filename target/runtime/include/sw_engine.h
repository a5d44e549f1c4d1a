/* SPDX-License-Identifier: Apache-2.0 */
/* The native switch engine: devices that run programs compiled from BMv2 JSON, their ports, queues and clock.
 *
 * An engine holds any number of devices and is driven by one thread at a time: either by `sw_engine_run` (the wall
 * clock, packet sockets) or by `sw_engine_advance` (a clock that the caller moves). The core reads no clock itself.
 * All functions may be called from any thread; each is atomic against the packet loop.
 *
 * Functions return SW_OK (0) or a negative status unless they say otherwise. Times are nanoseconds since the engine
 * started, lengths are bytes of the frame from the Ethernet header on, rates are bits per second. */
#ifndef SW_ENGINE_H
#define SW_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sw_status {
    SW_OK = 0,
    SW_E_NOT_FOUND = -1, /* no such object, entry or interface */
    SW_E_EXISTS = -2,    /* already there */
    SW_E_INVALID = -3,   /* an argument out of its range */
    SW_E_FULL = -4,      /* no room: buffer, queue or table */
    SW_E_STATE = -5,     /* not now: no pipeline, engine running or not running */
    SW_E_MEMORY = -6,
    SW_E_SYSTEM = -7,    /* a system call failed: sw_engine_error() has the text */
};

typedef struct sw_engine sw_engine;
typedef struct sw_device sw_device;
typedef struct sw_pipeline sw_pipeline;
typedef struct sw_port sw_port;

#define SW_MAX_QUEUES 8
#define SW_NO_PORT UINT32_MAX

/* --- engine --- */

sw_engine *sw_engine_create(void);
/* Destroys its devices, pipelines and ports too. The loop must not be running. */
void sw_engine_destroy(sw_engine *engine);
/* The text of the last SW_E_SYSTEM or load failure. Valid until the next failing call. */
const char *sw_engine_error(const sw_engine *engine);
/* What the packet loop needs of the system, so that failing shows before a thread is started. sw_engine_run does it
 * too. */
int sw_engine_prepare(sw_engine *engine);
/* Runs the packet loop on the calling thread until sw_engine_stop. */
int sw_engine_run(sw_engine *engine);
void sw_engine_stop(sw_engine *engine);
/* Manual clock: processes everything due until `now_ns`, in order of time; at equal times, in order of cause. */
int sw_engine_advance(sw_engine *engine, uint64_t now_ns);
/* The same, but returns 1, with the clock at the time of the event, as soon as an endpoint or an observer asks for it;
 * 0 when until_ns was reached. */
int sw_engine_run_until(sw_engine *engine, uint64_t until_ns);
uint64_t sw_engine_now(sw_engine *engine);
/* Nothing happens before this time, unless it is caused from outside; UINT64_MAX: nothing ever. */
uint64_t sw_engine_next(sw_engine *engine);

/* --- devices --- */

struct sw_device_config {
    uint32_t cpu_port;  /* SW_NO_PORT: none */
    uint32_t drop_port;
    uint32_t queues;    /* priority queues of each port, 1..SW_MAX_QUEUES */
    uint64_t seed;      /* of random() */
    uint64_t buffer_bytes; /* memory for packets, 0: 256 MiB; what devices with like programs have is shared */
};

/* NULL: out of memory or an argument out of range. */
sw_device *sw_device_create(sw_engine *engine, const struct sw_device_config *config);

struct sw_device_stats {
    uint64_t no_pipeline_drops;  /* arrived before a pipeline was there */
    uint64_t buffer_drops;       /* no packet buffer */
    uint64_t oversize_drops;     /* longer than the largest buffer */
    uint64_t priority_drops;     /* priority beyond the queues */
    uint64_t pass_drops;         /* resubmitted or recirculated too often */
    uint64_t header_drops;       /* deparsed headers did not fit in front of the payload */
    uint64_t swap_drops;         /* in a queue when the pipeline was replaced */
    uint64_t unknown_port;       /* sent to a port that does not exist */
    uint64_t ingress_drops, egress_drops; /* by decision of the program */
    uint64_t parser_errors, index_errors, assert_failures, loop_limits;
    uint64_t packet_in_drops;    /* for the CPU port, nobody fetched them in time */
    uint64_t digest_drops, idle_drops; /* samples and notices, likewise, or no memory */
    uint64_t held_packets;       /* now in queues, on links or in memory ports */
    uint64_t held_bytes;         /* memory of the packet buffers that the engine's devices with such a program share */
};
void sw_device_stats(sw_device *device, struct sw_device_stats *stats);

/* --- pipelines --- */

/* Load a compiled program. It is inactive, and its tables can be filled, until it is committed. */
int sw_pipeline_open(sw_device *device, const char *path, sw_pipeline **pipeline);
/* Make it the device's pipeline; the old one is freed, multicast groups and clone sessions are forgotten. Packets
 * that wait for egress are dropped and counted. */
int sw_pipeline_commit(sw_pipeline *pipeline);
/* No packet makes the parser read a frame's byte behind the first `bytes`: so much of a frame that is not carried is kept
 * as zeros. Without this call, all of it. Must hold, and be called before the pipeline is committed. */
int sw_pipeline_set_reach(sw_pipeline *pipeline, uint32_t bytes);
/* Free a pipeline that was never committed. */
void sw_pipeline_close(sw_pipeline *pipeline);

/* --- tables: keys, masks and arguments are packed into 64-bit words as the program's layout says --- */

struct sw_entry_view {
    uint32_t action;
    int32_t priority;
    uint64_t packets, bytes;
};

/* `mask`: NULL for an exact table. `ranges`: low, high per range field. SW_E_EXISTS if the same key, mask, ranges and
 * priority is there. */
int sw_table_insert(sw_pipeline *pipeline, uint32_t table, const uint64_t *key, const uint64_t *mask,
                    const uint64_t *ranges, int32_t priority, uint32_t action, const uint64_t *args,
                    uint32_t arg_words);
int sw_table_modify(sw_pipeline *pipeline, uint32_t table, const uint64_t *key, const uint64_t *mask,
                    const uint64_t *ranges, int32_t priority, uint32_t action, const uint64_t *args,
                    uint32_t arg_words);
int sw_table_delete(sw_pipeline *pipeline, uint32_t table, const uint64_t *key, const uint64_t *mask,
                    const uint64_t *ranges, int32_t priority);
int sw_table_read(sw_pipeline *pipeline, uint32_t table, const uint64_t *key, const uint64_t *mask,
                  const uint64_t *ranges, int32_t priority, struct sw_entry_view *view);
int sw_table_write_counter(sw_pipeline *pipeline, uint32_t table, const uint64_t *key, const uint64_t *mask,
                           const uint64_t *ranges, int32_t priority, uint64_t packets, uint64_t bytes);
/* Replace all entries at once: `count` keys, masks and ranges one after the other, of a table without actions. */
int sw_table_replace(sw_pipeline *pipeline, uint32_t table, uint32_t count, const uint64_t *keys, const uint64_t *masks,
                     const uint64_t *ranges);
/* UINT32_MAX as action: none. */
int sw_table_set_default(sw_pipeline *pipeline, uint32_t table, uint32_t action, const uint64_t *args,
                         uint32_t arg_words);

/* --- meters --- */

struct sw_entry_key {
    const uint64_t *key, *mask, *ranges; /* as in sw_table_insert */
    int32_t priority;
};

/* Units are bytes or packets, as the program says; rates are units per second. mode 0: unset, all is green; 1: two rates
 * (committed, peak); 2: one rate, whose second burst is the excess. */
struct sw_meter_config {
    uint32_t mode;
    uint64_t rate[2], burst[2];
};

struct sw_meter_view {
    struct sw_meter_config config;
    uint64_t packets[3], bytes[3]; /* marked green, yellow, red */
};

/* Buckets are full afterwards. */
int sw_meter_set(sw_pipeline *pipeline, uint32_t meter, uint32_t index, const struct sw_meter_config *config);
int sw_meter_read(sw_pipeline *pipeline, uint32_t meter, uint32_t index, struct sw_meter_view *view);
/* Set what is marked. */
int sw_meter_write_marks(sw_pipeline *pipeline, uint32_t meter, uint32_t index, const struct sw_meter_view *view);
/* The direct meter of an entry. */
int sw_table_set_meter(sw_pipeline *pipeline, uint32_t table, const struct sw_entry_key *key,
                       const struct sw_meter_config *config);
int sw_table_read_meter(sw_pipeline *pipeline, uint32_t table, const struct sw_entry_key *key,
                        struct sw_meter_view *view);
int sw_table_write_marks(sw_pipeline *pipeline, uint32_t table, const struct sw_entry_key *key,
                         const struct sw_meter_view *view);

/* --- idle entries: times are those of the engine's clock --- */

/* A notice comes when the entry was not hit for ttl_ns, and after each further such time. 0: never. The time starts over.
 * `cookie` names the entry in the notice. SW_E_STATE: the table does not age. */
int sw_table_set_ttl(sw_pipeline *pipeline, uint32_t table, const struct sw_entry_key *key, uint64_t ttl_ns,
                     uint64_t cookie);
/* Since the last hit, or since the time to live was set. */
int sw_table_idle(sw_pipeline *pipeline, uint32_t table, const struct sw_entry_key *key, uint64_t *elapsed_ns);

/* --- digests --- */

/* A list is sent when it has max_list_size samples (0: we choose), or max_timeout_ns after its first one (0: at once). A
 * sample that is in the open list, or in one sent less than ack_timeout_ns ago and not acknowledged, is not sent again. */
struct sw_digest_config {
    uint64_t max_timeout_ns, ack_timeout_ns;
    uint32_t max_list_size;
};

/* NULL: no lists of this digest are made, as before the first call. */
int sw_digest_set(sw_pipeline *pipeline, uint32_t digest, const struct sw_digest_config *config);
int sw_digest_acknowledge(sw_pipeline *pipeline, uint32_t digest, uint64_t list);

/* --- notices: digests' lists and idle entries --- */

enum sw_notice_kind { SW_NOTICE_DIGEST = 1, SW_NOTICE_IDLE = 2 };

struct sw_notice {
    sw_device *device;
    uint64_t pipeline; /* sw_pipeline_serial */
    uint32_t kind;
    uint32_t object;   /* digest, or table */
    uint64_t id;       /* of a digest's list */
    uint64_t time_ns;  /* since the epoch, or of the manual clock */
    uint32_t words;    /* behind it: samples, or cookies */
};

uint64_t sw_pipeline_serial(const sw_pipeline *pipeline);
/* Wait for a notice. 1: there is one; 0: none within the time, or sw_engine_cancel_wait; SW_E_FULL: more words than
 * `capacity`, and it stays. */
int sw_next_notice(sw_engine *engine, struct sw_notice *notice, uint64_t *words, uint32_t capacity,
                   uint32_t timeout_ms);

/* --- members and groups of action profiles --- */

/* Both have small numbers that the caller chooses. An entry of an indirect table has SW_TO_MEMBER or SW_TO_GROUP as its
 * action, and the number as its argument. The caller keeps what is referred to: an entry whose group is deleted finds it
 * empty. `action`: the number within the profile. */
#define SW_MAX_MEMBERS (1u << 24)
int sw_member_set(sw_pipeline *pipeline, uint32_t profile, uint32_t member, uint32_t action, const uint64_t *args,
                  uint32_t arg_words);
int sw_member_delete(sw_pipeline *pipeline, uint32_t profile, uint32_t member);
/* The group has a member as often as it occurs in `members`; a hash value picks one by its place. A place whose port in
 * `watch` is down or not there does not count; SW_NO_PORT: it always does. `watch` may be NULL. */
int sw_group_set(sw_pipeline *pipeline, uint32_t profile, uint32_t group, const uint32_t *members,
                 const uint32_t *watch, uint32_t count);
int sw_group_delete(sw_pipeline *pipeline, uint32_t profile, uint32_t group);

/* --- counters and registers --- */

int sw_counter_read(sw_pipeline *pipeline, uint32_t counter, uint32_t index, uint64_t *packets, uint64_t *bytes);
int sw_counter_write(sw_pipeline *pipeline, uint32_t counter, uint32_t index, uint64_t packets, uint64_t bytes);
/* `count` elements from `index` on, `element_bytes` each, in memory order (little endian). */
int sw_register_read(sw_pipeline *pipeline, uint32_t reg, uint32_t index, uint32_t count, void *data);
int sw_register_write(sw_pipeline *pipeline, uint32_t reg, uint32_t index, uint32_t count, const void *data);
/* Every element gets the one in `data`. */
int sw_register_fill(sw_pipeline *pipeline, uint32_t reg, const void *data);

/* --- packet replication --- */

int sw_mcast_set(sw_device *device, uint32_t group, const uint32_t *ports, const uint32_t *rids, uint32_t count);
int sw_mcast_delete(sw_device *device, uint32_t group);
/* `packet_length`: bytes kept of a clone, 0: all. */
int sw_clone_set(sw_device *device, uint32_t session, const uint32_t *ports, const uint32_t *rids, uint32_t count,
                 uint32_t packet_length);
int sw_clone_delete(sw_device *device, uint32_t session);

/* --- ports --- */

/* All of a port's sending direction. A frame occupies the link for max(length + frame_adjust, min_frame) bytes. */
struct sw_port_config {
    uint64_t rate_bps;                    /* shared by the port's queues; 0: no limit, no queue */
    uint64_t delay_ns;                    /* from the end of a frame to its delivery */
    int32_t frame_adjust;                 /* up to +-65536 */
    uint32_t min_frame;                   /* up to 65536; 0: 1 */
    uint64_t queue_bytes[SW_MAX_QUEUES];  /* capacity by priority; 0: 1 MiB */
    /* By priority, parts in a million, at most a million in sum. 0: strict, served before every lower priority. The
     * queues with a share stand together where the highest of them stands, and divide what the strict queues above
     * leave: each gets at least its share while others wait. What is owed is bounded by SW_SHARE_BYTES. */
    uint32_t share_ppm[SW_MAX_QUEUES];
};

#define SW_SHARE_BYTES 9000

/* An in-memory port (`interface` NULL) or one on a network interface. */
int sw_port_add(sw_device *device, uint32_t number, const char *interface, const struct sw_port_config *config);
int sw_port_configure(sw_device *device, uint32_t number, const struct sw_port_config *config);
int sw_port_remove(sw_device *device, uint32_t number);
/* Write <directory>/<name>_in.pcap and _out.pcap. */
int sw_port_capture(sw_device *device, uint32_t number, const char *directory, const char *name);
int sw_port_flush_capture(sw_device *device, uint32_t number);

struct sw_port_stats {
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
    uint64_t rx_drops, tx_errors;
    uint64_t queue_drops[SW_MAX_QUEUES], queue_drop_bytes[SW_MAX_QUEUES];
    uint64_t depth_packets[SW_MAX_QUEUES], depth_bytes[SW_MAX_QUEUES];
    uint64_t peak_packets[SW_MAX_QUEUES], peak_bytes[SW_MAX_QUEUES]; /* largest depths since sw_port_take_peaks */
    uint64_t sent_packets[SW_MAX_QUEUES]; /* put on the link, by priority */
    uint64_t lost_packets, lost_bytes;    /* sent or arriving, and lost: link down, random loss, port taken away */
    uint32_t up;
};
int sw_port_stats(sw_device *device, uint32_t number, struct sw_port_stats *stats);
/* The largest depths since the last call, by priority; they start over from the present depths. */
int sw_port_take_peaks(sw_device *device, uint32_t number, uint64_t packets[SW_MAX_QUEUES],
                       uint64_t bytes[SW_MAX_QUEUES]);

/* A frame whose payload may not be carried: `bytes` at `data`, `wire_bytes` its true length. What is not carried reads as
 * zeros: to parsers, to checksums over the payload, to whoever collects it. */
struct sw_frame {
    const uint8_t *data;
    uint32_t bytes, wire_bytes;
};

/* In-memory ports. Inject: a frame arrives now. Collect: the oldest frame sent; returns its length (0: none) and the
 * time of its delivery, or SW_E_FULL if `capacity` is too small. */
int sw_port_inject(sw_device *device, uint32_t number, const uint8_t *frame, uint32_t length);
int sw_port_inject_frame(sw_device *device, uint32_t number, const struct sw_frame *frame);
int64_t sw_port_collect(sw_device *device, uint32_t number, uint8_t *frame, uint32_t capacity, uint64_t *time_ns);

/* --- links, endpoints, observers, faults: in-memory ports only --- */

/* Join two ports by a full-duplex link. A frame takes at least a nanosecond. Both ports must be free. */
int sw_port_connect(sw_device *a, uint32_t port_a, sw_device *b, uint32_t port_b);

/* What is attached to a port instead of a link: a host's transport, say. Called by the engine, on its thread, in order
 * of time; never re-entered. Must not call the engine. */
struct sw_endpoint {
    void *context;
    /* A frame left the port and has arrived. 1: sw_engine_run_until stops after this event, else 0. */
    int (*receive)(void *context, uint64_t now_ns, const uint8_t *data, uint32_t bytes, uint32_t wire_bytes);
    /* The next frame to enter the device now: 1 and *frame, valid until the next call of anything here; or 0. */
    int (*poll)(void *context, uint64_t now_ns, struct sw_frame *frame);
    /* When poll must be called next if nothing else happens; UINT64_MAX: never; a past time: at once, but a
     * nanosecond after a poll without frame. */
    uint64_t (*next_wake)(const void *context);
    /* Called after polling, whether there were frames or not. 1: sw_engine_run_until stops after this event. May be
     * NULL. */
    int (*attention)(const void *context);
};

/* Frames sent out of `port` go to the endpoint. It is polled whenever its next_wake has come and the port `gate` could
 * put a frame on its link at once (queues empty, link free), so that no queue builds up behind the gate. SW_NO_PORT: no
 * such condition. The structure is copied; NULL takes the endpoint away. SW_E_EXISTS if the port is in use or the gate
 * has an endpoint already. */
int sw_port_attach(sw_device *device, uint32_t port, const struct sw_endpoint *endpoint, uint32_t gate);
/* The endpoint's next_wake may have changed for a reason that the engine does not know. */
int sw_port_kick(sw_device *device, uint32_t port);

/* Sees every frame that enters (outgoing 0) or leaves (outgoing 1, when it is deparsed, before the link) the device at a
 * port. Must not call the engine. Returns 1 to stop sw_engine_run_until after this event, else 0. */
struct sw_observer {
    void *context;
    int (*frame)(void *context, uint64_t now_ns, int outgoing, const uint8_t *data, uint32_t bytes,
                 uint32_t wire_bytes);
};
int sw_port_observe(sw_device *device, uint32_t port, const struct sw_observer *observer); /* NULL: none */

/* A link that is down loses what is on it, in both directions, and what is sent to it or arrives from outside. Each
 * sender goes on at its rate. */
int sw_port_set_link(sw_device *device, uint32_t port, int up);
/* Each frame sent is lost with probability `ppm` parts in a million, drawn by a hash of the seed and the number of frames
 * sent since this call. It occupies the link as any other. */
int sw_port_set_loss(sw_device *device, uint32_t port, uint32_t ppm, uint64_t seed);

/* --- CPU port --- */

/* A frame enters ingress on the CPU port. */
int sw_packet_out(sw_device *device, const uint8_t *frame, uint32_t length);
/* Wait for a frame sent to any device's CPU port. Returns its length, 0 after `timeout_ms` or after
 * sw_engine_cancel_wait. `device` receives the sender. Frames longer than `capacity` are cut. */
int64_t sw_packet_in(sw_engine *engine, sw_device **device, uint8_t *frame, uint32_t capacity, uint32_t timeout_ms);
void sw_engine_cancel_wait(sw_engine *engine);

/* --- measurement --- */

/* Run `count` frames through the device, replication included, round robin over `frames` (stored one after the other
 * with their `lengths`), entering at `port` a microsecond apart. Nothing queues and nothing is sent. Returns the
 * nanoseconds of the calling thread's processor time, or a status. */
int64_t sw_device_benchmark(sw_device *device, uint32_t port, const uint8_t *frames, const uint32_t *lengths,
                            uint32_t frame_count, uint64_t count);

#ifdef __cplusplus
}
#endif

#endif
