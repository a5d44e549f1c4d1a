// SPDX-License-Identifier: Apache-2.0
// Compile-time sizes, and the few constants that shape registers. Everything
// that a deployment may want to change at run time is a table entry instead.
#ifndef _SIZES_P4_
#define _SIZES_P4_

// Unit of the scoreboard. Every range starts and ends on a block, except where
// it ends a message.
#define BLOCK_SHIFT 9
#define BLOCK_BYTES 512

// Ring of scoreboard words per flow: RING_WORDS words of 64 blocks. A flow's
// window is one word less, so that the word being filled never meets the word
// being drained: 127 * 64 * 512 B = 4,161,536 B.
#define RING_WORDS 128
#define RING_SHIFT 7
#define WORD_BLOCKS 64
#define WORD_SHIFT 6
#define WORD_MASK 63

// Queue pair number = step slot | owner tag | flow slot (headers.p4).
#define STEP_SLOT_WIDTH 3
#define OWNER_WIDTH 11
#define FLOW_SLOT_WIDTH 10
#define QP_FLOW_SLOT 9:0
#define QP_OWNER 20:10
#define QP_STEP_SLOT 23:21
#define WORD_INDEX_WIDTH 17   // flow slot, then place in its ring
#define STEP_SLOTS 8
#define FLOW_SLOTS 1024

// Largest range one packet may report, in blocks: it then spans at most two
// scoreboard words, and its delivery mask fits in 32 bits.
#define MAX_RANGE_BLOCKS 32

// Guaranteed table sizes; NIC: an entry per step slot and as many while they change.
#define MAX_TRAFFIC_CLASSES 64
#define MAX_STEP_ENTRIES 16

// Switch: ports with state of their own, and guaranteed table sizes.
#define MAX_PORTS 512
#define MAX_ROUTES 131072
#define MAX_GROUP_MEMBERS 16384

// NIC ports.
#define HOST_PORT 1
#define WIRE_PORT 2
#define CPU_PORT 255

#endif  // _SIZES_P4_
