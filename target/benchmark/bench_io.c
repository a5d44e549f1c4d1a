/* SPDX-License-Identifier: Apache-2.0 */
/* Load for the benchmarks: a sender, a receiver, and a forwarder that does nothing else. Each runs on its caller's
 * thread until `*stop` is set, and returns frames, or -errno. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define BATCH 32
#define FRAME 2048

static int open_socket(const char *interface)
{
    int one = 1, bytes = 4 << 20;
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex(interface)};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    (void)setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

struct batch {
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    uint8_t frames[BATCH][FRAME];
};

static void prepare(struct batch *b)
{
    memset(b->messages, 0, sizeof b->messages);
    for (int i = 0; i < BATCH; i++) {
        b->parts[i].iov_base = b->frames[i];
        b->parts[i].iov_len = FRAME;
        b->messages[i].msg_hdr.msg_iov = &b->parts[i];
        b->messages[i].msg_hdr.msg_iovlen = 1;
    }
}

/* Send `frame` over and over, `pps` a second (0: as fast as it goes). */
PUBLIC int64_t bench_send(const char *interface, const uint8_t *frame, uint32_t length, uint64_t pps,
                          const volatile int *stop)
{
    int fd = open_socket(interface);
    struct batch *b = fd < 0 ? NULL : malloc(sizeof *b);
    int64_t total = 0;
    struct timespec start, now;
    if (!b)
        return fd < 0 ? fd : -ENOMEM;
    prepare(b);
    for (int i = 0; i < BATCH; i++) {
        memcpy(b->frames[i], frame, length);
        b->parts[i].iov_len = length;
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (!*stop) {
        if (pps) {
            clock_gettime(CLOCK_MONOTONIC, &now);
            double elapsed = (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9;
            if ((double)total > elapsed * (double)pps) {
                struct timespec pause = {0, 50000};
                nanosleep(&pause, NULL);
                continue;
            }
        }
        int n = sendmmsg(fd, b->messages, BATCH, 0);
        if (n > 0)
            total += n;
    }
    free(b);
    close(fd);
    return total;
}

/* Count the frames that arrive. */
PUBLIC int64_t bench_receive(const char *interface, const volatile int *stop)
{
    int fd = open_socket(interface);
    struct batch *b = fd < 0 ? NULL : malloc(sizeof *b);
    int64_t total = 0;
    if (!b)
        return fd < 0 ? fd : -ENOMEM;
    prepare(b);
    while (!*stop) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0)
            continue;
        int n = recvmmsg(fd, b->messages, BATCH, MSG_DONTWAIT, NULL);
        if (n > 0)
            total += n;
    }
    free(b);
    close(fd);
    return total;
}

/* From one interface to another: receive a batch, send a batch. */
PUBLIC int64_t bench_forward(const char *from, const char *to, const volatile int *stop)
{
    int in = open_socket(from), out = in < 0 ? -1 : open_socket(to);
    struct batch *b = out < 0 ? NULL : malloc(sizeof *b);
    int64_t total = 0;
    if (!b) {
        if (in >= 0)
            close(in);
        return in < 0 ? in : out < 0 ? out : -ENOMEM;
    }
    prepare(b);
    while (!*stop) {
        struct pollfd p = {.fd = in, .events = POLLIN};
        for (int i = 0; i < BATCH; i++)
            b->parts[i].iov_len = FRAME;
        if (poll(&p, 1, 20) <= 0)
            continue;
        int n = recvmmsg(in, b->messages, BATCH, MSG_DONTWAIT, NULL);
        if (n <= 0)
            continue;
        for (int i = 0; i < n; i++)
            b->parts[i].iov_len = b->messages[i].msg_len;
        int sent = sendmmsg(out, b->messages, (unsigned)n, 0);
        if (sent > 0)
            total += sent;
    }
    free(b);
    close(in);
    close(out);
    return total;
}
