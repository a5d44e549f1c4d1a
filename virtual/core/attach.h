// SPDX-License-Identifier: Apache-2.0
//
// Hosts on a simulated fabric: each host's transport behind its NIC's host port,
// on the engine's clock. The only code that knows both the transport and the
// engine. One thread; no clock, no global state.
//
// A message has a number, the same at both ends, from attach_post until
// attach_release. attach_run moves the clock until something is to be told.
#ifndef VIRTUAL_ATTACH_H
#define VIRTUAL_ATTACH_H

#include <stdint.h>

#include "include/transport.h"
#include "sw_engine.h"

typedef struct attach attach_t;

enum attach_status {
  ATTACH_OK = 0,
  ATTACH_INVALID = -1,    // an argument out of its range
  ATTACH_NO_MEMORY = -2,
  ATTACH_EXHAUSTED = -3,  // all queue pairs of the sender are in use
  ATTACH_EXHAUSTED_RECEIVER = -4,
  ATTACH_ENGINE = -5,     // the engine refused
  ATTACH_NOT_FOUND = -6,  // no such host or message
};

enum attach_event_type {
  ATTACH_SENT = 1,      // the sender has the last acknowledgement
  ATTACH_RECEIVED = 2,  // every byte is settled at the receiver; only with `tell_received`
  ATTACH_FAILED = 3,    // given up after too many timeouts
  ATTACH_DOUBLE = 4,    // the receiver was given a block twice
};

// One message's end. `received_ns` 0: not received.
typedef struct attach_event {
  uint64_t time_ns;
  uint64_t posted_ns;
  uint64_t first_ns;     // first packet left
  uint64_t received_ns;
  uint64_t retransmitted_bytes;
  uint32_t type;
  uint32_t message;
  uint32_t sender;
  uint32_t receiver;
  uint32_t posted_bytes;  // as the receiver expects
  uint32_t length_bytes;  // as sent
  uint32_t forgiven_bytes;
  uint32_t naks;
  uint32_t signals;
  uint32_t rate_cuts;
  uint32_t rtos;
  uint32_t offset;  // ATTACH_DOUBLE
} attach_event_t;

int attach_create(sw_engine *engine, uint32_t hosts, attach_t **out);
// After the engine. NULL is allowed.
void attach_destroy(attach_t *a);

// 0, as at first: a receiver's completion is told with the sender's (ATTACH_SENT) alone.
void attach_tell_received(attach_t *a, uint32_t wanted);

// Puts a transport behind a NIC: fed at `host_port`, fetched from when `wire_port` could send at once.
int attach_host(attach_t *a, uint32_t host, const transport_config_t *config, sw_device *nic, uint32_t host_port,
                uint32_t wire_port);
// For statistics. NULL: no such host.
transport_t *attach_transport(attach_t *a, uint32_t host);

// Posts a message at both of its ends now. `data`, `buffer`: of the payload, borrowed until attach_release; NULL: not
// carried, not stored. `window_bytes` 0: the configured one. Returns its number or a negative status.
int64_t attach_post(attach_t *a, uint32_t sender, uint32_t receiver, uint32_t length_bytes, uint32_t posted_bytes,
                    uint32_t class_, uint32_t step_slot, uint64_t window_bytes, const uint8_t *data, uint8_t *buffer);
// The receiver's queue pair of a message.
int64_t attach_queue_pair(const attach_t *a, uint32_t message);
// How far a message is.
typedef struct attach_progress {
  uint64_t sent_bytes;     // for the first time
  uint64_t settled_bytes;  // at its receiver: received or forgiven
} attach_progress_t;
int attach_get_progress(attach_t *a, uint32_t message, attach_progress_t *progress);
// As transport_forgiven.
int attach_forgiven(const attach_t *a, uint32_t message, transport_range_t *ranges, int capacity);
// Ends a message in any state and frees its queue pairs.
int attach_release(attach_t *a, uint32_t message);

// Moves the clock to `until_ns`, or to the first events before it. Writes at most `capacity` of them, oldest first;
// what is left comes with the next call, before the clock moves. Returns how many, or a negative status.
int attach_run(attach_t *a, uint64_t until_ns, attach_event_t *events, uint32_t capacity);

// --- observers: the engine shows a port's frames to one; here are several

typedef struct watch watch_t;

enum { WATCH_OBSERVERS = 8 };

// Of one port, without observers at first. NULL: no memory.
watch_t *watch_create(sw_device *device, uint32_t port);
void watch_destroy(watch_t *watch);  // NULL is allowed
// Frames are shown in the order in which observers were added. ATTACH_ENGINE: no such port.
int watch_add(watch_t *watch, const struct sw_observer *observer);
int watch_remove(watch_t *watch, const void *context);

// Writes the frames that it is shown to a classic pcap file with ns timestamps, at most `snap_bytes` of each.
typedef struct capture capture_t;

// Returns 0 or a negative errno.
int capture_open(const char *path, uint32_t snap_bytes, capture_t **out);
struct sw_observer capture_observer(capture_t *capture);
// Returns 0 or the negative errno of the first write that failed. It must be observing no more.
int capture_close(capture_t *capture);

#endif
