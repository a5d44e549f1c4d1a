// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "include/udp_driver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

enum {
  BATCH = 32,
  // BTH, RETH and delivery header in front of the largest payload.
  MAX_DATAGRAM = TRANSPORT_MAX_PAYLOAD_BYTES + 64,
  ERROR_PAUSE_NS = 1000000,
  HANDOVER_NS = 20000,
};

typedef struct send_slot {
  transport_packet_t packet;
  struct sockaddr_in to;
  struct iovec parts[2];
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
} send_slot_t;

struct udp_driver {
  transport_t *transport;
  pthread_mutex_t lock;
  atomic_int waiting;  // threads that want the lock
  pthread_t thread;
  int socket;
  int wake_fd;
  int event_fd;
  bool stop;      // under the lock
  bool sleeping;  // under the lock: the thread must be woken to see a change
  bool announced; // under the lock: event_fd is readable
  uint32_t port;
  uint64_t quantum_ns;
  uint64_t origin_ns;
  udp_driver_stats_t stats;
  struct mmsghdr in[BATCH];
  struct iovec in_part[BATCH];
  struct mmsghdr out[BATCH];
  send_slot_t slots[BATCH];
  uint8_t buffers[BATCH][MAX_DATAGRAM];
};

static uint64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t driver_now(const udp_driver_t *d) { return clock_ns(CLOCK_MONOTONIC) - d->origin_ns; }

static void raise_fd(int fd) {
  uint64_t one = 1;
  ssize_t written = write(fd, &one, sizeof one);
  (void)written;  // EAGAIN: it is readable already
}

static void clear_fd(int fd) {
  uint64_t count;
  ssize_t got = read(fd, &count, sizeof count);
  (void)got;
}

static void prepare(udp_driver_t *d) {
  for (int i = 0; i < BATCH; i++) {
    d->in_part[i] = (struct iovec){.iov_base = d->buffers[i], .iov_len = MAX_DATAGRAM};
    d->in[i].msg_hdr = (struct msghdr){.msg_iov = &d->in_part[i], .msg_iovlen = 1};

    send_slot_t *slot = &d->slots[i];
    slot->to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(UDP_PORT_ROCE)};
    slot->parts[0] = (struct iovec){
        .iov_base = slot->packet.header + TRANSPORT_UDP_OFFSET,
        .iov_len = TRANSPORT_HEADER_BYTES - TRANSPORT_UDP_OFFSET,
    };
    struct msghdr *message = &d->out[i].msg_hdr;
    *message = (struct msghdr){
        .msg_name = &slot->to,
        .msg_namelen = sizeof slot->to,
        .msg_iov = slot->parts,
        .msg_iovlen = 2,
        .msg_control = slot->control.bytes,
        .msg_controllen = sizeof slot->control.bytes,
    };
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    control->cmsg_level = IPPROTO_IP;
    control->cmsg_type = IP_TOS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
  }
}

// Sends what is due, up to a batch; returns how many packets. The socket blocks:
// payload is borrowed, and may be gone once the lock is given back.
static int send_due(udp_driver_t *d) {
  static const uint8_t zeros[TRANSPORT_MAX_PAYLOAD_BYTES];
  int count = 0;
  uint64_t now = driver_now(d);
  while (count < BATCH && transport_poll(d->transport, now, &d->slots[count].packet) == 1) {
    send_slot_t *slot = &d->slots[count];
    const transport_packet_t *packet = &slot->packet;
    slot->to.sin_addr.s_addr = htonl(packet->dst_addr);
    const uint8_t *payload = packet->payload != NULL ? packet->payload : zeros;
    slot->parts[1] = (struct iovec){.iov_base = (void *)(uintptr_t)payload, .iov_len = packet->payload_bytes};
    int tos = packet->dscp << 2 | ECN_ECT0;
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&d->out[count].msg_hdr)), &tos, sizeof tos);
    count++;
  }
  for (int sent = 0; sent < count;) {
    d->stats.send_calls++;
    int done = sendmmsg(d->socket, d->out + sent, (unsigned)(count - sent), 0);
    if (done > 0) {
      sent += done;
    } else if (errno != EINTR) {
      d->stats.send_errors++;
      sent++;
    }
  }
  return count;
}

static int receive_arrived(udp_driver_t *d) {
  d->stats.receive_calls++;
  int count = recvmmsg(d->socket, d->in, BATCH, MSG_DONTWAIT, NULL);
  if (count < 0) {
    if (errno != EAGAIN && errno != EINTR) d->stats.receive_errors++;
    return 0;
  }
  uint64_t now = driver_now(d);
  for (int i = 0; i < count; i++) {
    if (d->in[i].msg_hdr.msg_flags & MSG_TRUNC) {
      d->stats.truncated++;
      continue;
    }
    transport_receive(d->transport, now, d->buffers[i], d->in[i].msg_len, d->in[i].msg_len);
  }
  return count;
}

static void *run(void *argument) {
  udp_driver_t *d = argument;
  // The default slack of 50 us would be added to every short sleep.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  struct pollfd fds[2] = {{.fd = d->socket, .events = POLLIN}, {.fd = d->wake_fd, .events = POLLIN}};
  bool readable = true;
  pthread_mutex_lock(&d->lock);
  while (!d->stop) {
    int received = readable ? receive_arrived(d) : 0;
    int sent = send_due(d);
    if (!d->announced && transport_waiting_events(d->transport) > 0) {
      d->announced = true;
      raise_fd(d->event_fd);
    }
    if (received == BATCH || sent == BATCH) {
      // More waits, but a thread that wants to post goes first. Giving the lock
      // back is not enough: this thread would have it again before the other runs.
      pthread_mutex_unlock(&d->lock);
      if (atomic_load(&d->waiting) > 0) nanosleep(&(struct timespec){.tv_nsec = HANDOVER_NS}, NULL);
      pthread_mutex_lock(&d->lock);
      continue;
    }
    uint64_t wake_ns = transport_next_wake(d->transport);
    uint64_t now = driver_now(d);
    struct timespec sleep, *timeout = NULL;
    if (wake_ns != UINT64_MAX) {
      uint64_t pause_ns = wake_ns > now ? wake_ns - now : 0;
      if (pause_ns < d->quantum_ns) pause_ns = d->quantum_ns;
      sleep.tv_sec = (time_t)(pause_ns / 1000000000);
      sleep.tv_nsec = (long)(pause_ns % 1000000000);
      timeout = &sleep;
    }
    d->sleeping = true;
    pthread_mutex_unlock(&d->lock);
    fds[0].revents = fds[1].revents = 0;
    int ready = ppoll(fds, 2, timeout, NULL);
    bool broken = ready > 0 && (fds[0].revents & ~POLLIN) != 0;
    if (broken) {
      // An error of the socket is cleared by reading it; never spin on it.
      int error;
      socklen_t size = sizeof error;
      getsockopt(d->socket, SOL_SOCKET, SO_ERROR, &error, &size);
      nanosleep(&(struct timespec){.tv_nsec = ERROR_PAUSE_NS}, NULL);
    }
    pthread_mutex_lock(&d->lock);
    d->sleeping = false;
    d->stats.wakeups++;
    if (broken) d->stats.receive_errors++;
    readable = ready > 0 && (fds[0].revents & POLLIN) != 0;
    if (ready > 0 && fds[1].revents != 0) clear_fd(d->wake_fd);
  }
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

static int open_socket(udp_driver_t *d, const udp_driver_config_t *config) {
  d->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (d->socket < 0) return -errno;
  int one = 1, bytes = (int)config->socket_bytes, discover = IP_PMTUDISC_DO;
  struct sockaddr_in address = {
      .sin_family = AF_INET,
      .sin_port = htons((uint16_t)config->port),
      .sin_addr.s_addr = htonl(config->address),
  };
  // Never fragment: a packet that does not fit is refused here and counted.
  if (setsockopt(d->socket, SOL_SOCKET, SO_NO_CHECK, &one, sizeof one) != 0 ||
      setsockopt(d->socket, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) != 0)
    return -errno;
  // The forced variants pass the system's limit, with privilege only.
  if (setsockopt(d->socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0 &&
      setsockopt(d->socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) != 0)
    return -errno;
  if (setsockopt(d->socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0 &&
      setsockopt(d->socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) != 0)
    return -errno;
  if (bind(d->socket, (struct sockaddr *)&address, sizeof address) != 0) return -errno;
  socklen_t size = sizeof address;
  if (getsockname(d->socket, (struct sockaddr *)&address, &size) != 0) return -errno;
  d->port = ntohs(address.sin_port);
  return 0;
}

static void close_descriptors(udp_driver_t *d) {
  if (d->socket >= 0) close(d->socket);
  if (d->wake_fd >= 0) close(d->wake_fd);
  if (d->event_fd >= 0) close(d->event_fd);
}

static int start_thread(udp_driver_t *d, uint32_t realtime) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (realtime != 0) {
    struct sched_param priority = {.sched_priority = (int)realtime};
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &priority);
  }
  // Signals are for the application's threads.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int error = pthread_create(&d->thread, &attributes, run, d);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attributes);
  return -error;
}

int udp_driver_open(transport_t *t, const udp_driver_config_t *config, udp_driver_t **out) {
  if (config->port > 65535 || config->socket_bytes > INT32_MAX / 2 || config->realtime > 99)
    return -EINVAL;
  udp_driver_t *d = calloc(1, sizeof *d);
  if (d == NULL) return -ENOMEM;
  d->socket = -1;
  d->transport = t;
  d->quantum_ns = config->quantum_ns;
  d->origin_ns = clock_ns(CLOCK_MONOTONIC);
  d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int status = d->wake_fd < 0 || d->event_fd < 0 ? -errno : open_socket(d, config);
  if (status == 0) {
    pthread_mutex_init(&d->lock, NULL);
    prepare(d);
    status = start_thread(d, config->realtime);
    if (status != 0) pthread_mutex_destroy(&d->lock);
  }
  if (status != 0) {
    close_descriptors(d);
    free(d);
    return status;
  }
  *out = d;
  return 0;
}

void udp_driver_close(udp_driver_t *d) {
  if (d == NULL) return;
  pthread_mutex_lock(&d->lock);
  d->stop = true;
  pthread_mutex_unlock(&d->lock);
  raise_fd(d->wake_fd);
  pthread_join(d->thread, NULL);
  pthread_mutex_destroy(&d->lock);
  close_descriptors(d);
  transport_destroy(d->transport);
  free(d);
}

transport_t *udp_driver_enter(udp_driver_t *d, uint64_t *now) {
  atomic_fetch_add(&d->waiting, 1);
  pthread_mutex_lock(&d->lock);
  atomic_fetch_sub(&d->waiting, 1);
  if (now != NULL) *now = driver_now(d);
  return d->transport;
}

void udp_driver_leave(udp_driver_t *d, int wake) {
  if (wake && d->sleeping) {
    raise_fd(d->wake_fd);
    d->sleeping = false;
  }
  pthread_mutex_unlock(&d->lock);
}

int udp_driver_event_fd(const udp_driver_t *d) { return d->event_fd; }

void udp_driver_events_seen(udp_driver_t *d) {
  if (!d->announced) return;
  d->announced = false;
  clear_fd(d->event_fd);
}

int udp_driver_wait(udp_driver_t *d, int64_t timeout_ns) {
  struct pollfd fd = {.fd = d->event_fd, .events = POLLIN};
  struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
  int ready = ppoll(&fd, 1, timeout_ns < 0 ? NULL : &timeout, NULL);
  return ready < 0 ? -errno : ready;
}

uint32_t udp_driver_port(const udp_driver_t *d) { return d->port; }

int udp_driver_get_stats(udp_driver_t *d, udp_driver_stats_t *stats) {
  pthread_mutex_lock(&d->lock);
  *stats = d->stats;
  pthread_mutex_unlock(&d->lock);
  uint32_t meminfo[SK_MEMINFO_VARS];
  socklen_t size = sizeof meminfo;
  if (getsockopt(d->socket, SOL_SOCKET, SO_MEMINFO, meminfo, &size) == 0 &&
      size >= (SK_MEMINFO_DROPS + 1) * sizeof meminfo[0])
    stats->socket_drops = meminfo[SK_MEMINFO_DROPS];
  clockid_t clock;
  if (pthread_getcpuclockid(d->thread, &clock) == 0) stats->cpu_ns = clock_ns(clock);
  return 0;
}
