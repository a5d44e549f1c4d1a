// SPDX-License-Identifier: Apache-2.0
//
// Drives a transport from one UDP socket and the monotonic clock, in a thread
// of its own. Packets carry DSCP and ECT(0) each, and no UDP checksum: a
// trimmed packet could not keep one. Linux only.
//
// The transport is reached between udp_driver_enter and udp_driver_leave, from
// any thread; never keep its pointer beyond.

#ifndef HOSTS_UDP_DRIVER_H
#define HOSTS_UDP_DRIVER_H

#include "transport.h"

typedef struct udp_driver udp_driver_t;

typedef struct udp_driver_config {
  uint32_t address;         // to bind to, host byte order
  uint32_t port;            // 4791 on a RoCE fabric; 0: any
  uint32_t socket_bytes;    // receive and send buffer of the socket
  uint32_t quantum_ns;      // sleep at least this long, so that packets go out in batches
  uint32_t realtime;        // 1..99: SCHED_FIFO at this priority; 0: the caller's scheduling
} udp_driver_config_t;

typedef struct udp_driver_stats {
  uint64_t wakeups;
  uint64_t receive_calls;
  uint64_t send_calls;
  uint64_t send_errors;      // packets the kernel refused: left to the retransmission timeout
  uint64_t receive_errors;
  uint64_t truncated;        // datagrams longer than any of ours
  uint64_t socket_drops;     // the kernel's count for this socket: its buffer was full
  uint64_t cpu_ns;           // of the thread
} udp_driver_stats_t;

// Opens the socket and starts the thread. On success the driver owns `t`.
// Returns 0 or a negative errno, EPERM if `realtime` needs privilege; `t` then
// stays the caller's.
int udp_driver_open(transport_t *t, const udp_driver_config_t *config, udp_driver_t **out);

// Stops the thread, closes the socket, destroys the transport. NULL is allowed.
void udp_driver_close(udp_driver_t *driver);

// Takes the lock. `now` (may be NULL) gets the time to hand to the transport.
transport_t *udp_driver_enter(udp_driver_t *driver, uint64_t *now);
// Gives it back; `wake` 1: something was posted, so the thread looks again.
void udp_driver_leave(udp_driver_t *driver, int wake);

// Readable while events may wait in the transport. udp_driver_events_seen, called
// inside the lock once all are taken, makes it unreadable.
int udp_driver_event_fd(const udp_driver_t *driver);
void udp_driver_events_seen(udp_driver_t *driver);
// Waits for it: 1 readable, 0 timed out, negative errno.
int udp_driver_wait(udp_driver_t *driver, int64_t timeout_ns);

uint32_t udp_driver_port(const udp_driver_t *driver);
int udp_driver_get_stats(udp_driver_t *driver, udp_driver_stats_t *stats);

#endif  // HOSTS_UDP_DRIVER_H
