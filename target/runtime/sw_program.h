/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the engine and the C generated from a BMv2 JSON. A generated shared object exports one symbol,
 * `sw_program`, and keeps no state of its own: all of it hangs off `struct sw_state`, which the engine owns. */
#ifndef SW_PROGRAM_H
#define SW_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "sw_meter.h"
#include "sw_table.h"
#include "sw_wide.h"

#define SW_ABI 4
#define SW_CLONE_VALID 0x8000u
#define SW_NO_TRUNCATE UINT32_MAX

/* standard_metadata.instance_type as simple_switch numbers it */
enum sw_instance_type {
    SW_NORMAL = 0,
    SW_INGRESS_CLONE = 1,
    SW_EGRESS_CLONE = 2,
    SW_COALESCED = 3,
    SW_RECIRC = 4,
    SW_REPLICATION = 5,
    SW_RESUBMIT = 6,
};

/* One packet. It is followed by the program's per-packet state (phv), headroom, the frame, and SW_TAIL slack. */
struct sw_pool;

struct sw_packet {
    struct sw_packet *next;
    struct sw_pool *pool;
    uint8_t *data;            /* first byte of the frame */
    uint8_t *end;             /* behind the last byte that is carried: the frame's other bytes read as zeros */
    uint32_t len;             /* bytes of the frame */
    uint32_t room;            /* bytes in front of data that may be used */
    /* From here to size_class: what a copy of the packet has, too. */
    uint32_t parsed;          /* bytes the parser consumed */
    uint32_t length;          /* BMv2's packet length register: the frame, plus headers added, less headers removed */
    uint32_t ingress_len;     /* bytes on arrival: what counters and meters count */
    uint32_t truncate;        /* bytes to keep at the end of egress, or SW_NO_TRUNCATE */
    uint32_t queued_len;      /* bytes the packet weighs in its queue */
    uint64_t rx_ns, enq_ns;   /* program time of arrival and of enqueueing */
    uint32_t enq_depth;       /* packets in the queue before this one */
    uint32_t deq_depth;
    uint32_t ingress_port, egress_port;
    uint32_t rid;
    uint32_t instance_type;
    /* What a control decided. */
    uint32_t egress_spec, mcast_grp;
    uint16_t clone_session;   /* session | SW_CLONE_VALID, or 0 */
    uint16_t clone_list, resubmit_list, recirculate_list;
    uint16_t passes;          /* resubmissions and recirculations so far */
    uint8_t priority;
    uint8_t replica;          /* rid is to be seen by egress */
    uint8_t size_class;       /* of the buffer */
    uint8_t exit;
    _Alignas(32) uint8_t phv[];
};

struct sw_counter {
    uint64_t packets, bytes;
};

/* Constant tables that the engine computes once. */
struct sw_constants {
    uint32_t crc32[8][256];
    uint16_t crc16[256];
    uint16_t crc_ccitt[256];
};

/* The state of one program on one device. */
struct sw_state {
    const struct sw_constants *constants;
    struct sw_table *tables;
    uint8_t *cells;               /* of all registers */
    struct sw_counter *counters;
    struct sw_meter *meters;
    uint64_t now_ns;          /* program time: since the device started */
    uint64_t random;          /* state of the pseudo-random generator */
    uint32_t drop_port;
    uint64_t index_errors;    /* register or counter accesses beyond the array */
    uint64_t parser_errors;
    uint64_t assert_failures;
    uint64_t loop_limits;     /* loops cut short */
    void (*log)(struct sw_state *st, const char *text, const uint64_t *args, uint32_t count);
    void (*digest)(struct sw_state *st, uint32_t number, const uint64_t *words); /* a sample of a digest */
};

struct sw_program {
    uint32_t abi;
    uint32_t phv_bytes;
    uint32_t max_header_bytes; /* the deparser may put this much in front of a payload */
    uint32_t table_count, register_count, counter_count, profile_count, meter_count, digest_count;
    const struct sw_table_info *tables;
    const uint32_t *register_sizes;  /* elements */
    const uint32_t *register_bytes;  /* bytes of one element in memory */
    const uint64_t *register_offsets; /* of the first element, in bytes; behind the last register: all of them */
    const uint32_t *counter_sizes;
    const uint32_t *counter_offsets;  /* of the first counter; behind the last array: all of them */
    const uint32_t *meter_sizes;
    const uint32_t *meter_offsets;    /* as those of counters */
    const uint32_t *digest_words;     /* of one sample */
    const uint32_t *profile_words;    /* of the arguments of a profile's longest action */
    /* A packet as it came from a port: reset, parse, verify, ingress. Reads data, len, ingress_port, rx_ns. */
    void (*receive)(struct sw_state *st, struct sw_packet *pkt);
    /* The same without the reset, after `preserve`: a resubmitted or recirculated packet. */
    void (*reenter)(struct sw_state *st, struct sw_packet *pkt);
    /* Parse only: the copy that an ingress clone makes. */
    void (*parse)(struct sw_state *st, struct sw_packet *pkt);
    /* Reset the metadata of `to`, then copy the field list from `from`. Headers stay. Sets instance_type. */
    void (*preserve)(struct sw_packet *to, const struct sw_packet *from, uint32_t list, uint32_t instance_type);
    /* Egress control. Reads egress_port, rid, instance_type, depths, enq_ns. Where `deparse` is NULL, deparses what is
     * not to be dropped, too. Returns as deparse does. */
    int (*egress)(struct sw_state *st, struct sw_packet *pkt);
    /* Checksums and deparser: rewrites data and len. Returns 0, or -1 if the headers don't fit the buffer. NULL in a
     * program that neither clones in egress nor recirculates. */
    int (*deparse)(struct sw_state *st, struct sw_packet *pkt);
};

#endif
