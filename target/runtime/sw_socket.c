/* SPDX-License-Identifier: Apache-2.0 */
/* Ports on network interfaces: AF_PACKET sockets, frames in batches. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sw_hash.h"
#include "sw_internal.h"

#define RECEIVE_BUFFER (4 << 20)
#define VLAN_BYTES 4u

int sw_socket_open(sw_port *port)
{
    sw_engine *engine = port->device->engine;
    unsigned index = if_nametoindex(port->interface);
    if (index == 0) {
        snprintf(engine->error, sizeof engine->error, "there is no interface %s", port->interface);
        return SW_E_NOT_FOUND;
    }
    /* Protocol 0: nothing arrives before the socket is set up and bound. */
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return sw_fail(engine, "packet socket");
    int one = 1, bytes = RECEIVE_BUFFER;
    struct packet_mreq promiscuous = {.mr_ifindex = (int)index, .mr_type = PACKET_MR_PROMISC};
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)index};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    /* No PACKET_QDISC_BYPASS: it is no faster on veth, hides what is sent from tcpdump at this end, and skips what tc is
     * asked to do to the link. */
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof one) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int rc = sw_fail(engine, port->interface);
        close(fd);
        return rc;
    }
    if (engine->epoll_fd >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = port};
        if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
            int rc = sw_fail(engine, port->interface);
            close(fd);
            return rc;
        }
    }
    port->fd = fd;
    port->up = true;
    return SW_OK;
}

void sw_socket_close(sw_port *port)
{
    sw_engine *engine = port->device->engine;
    while (port->tx_count)
        sw_pool_put(port->tx[--port->tx_count]);
    if (port->in_tx_list) {
        sw_port **link = &engine->tx_list;
        while (*link != port)
            link = &(*link)->next_tx;
        *link = port->next_tx;
        port->in_tx_list = false;
    }
    if (port->fd >= 0)
        close(port->fd);
    port->fd = -1;
    port->up = false;
}

/* --- sending --- */

/* The frame with every byte in place, for the system. Takes the packet. */
static struct sw_packet *whole(sw_port *port, struct sw_packet *pkt)
{
    uint32_t carried = sw_carried(pkt);
    struct sw_packet *all = sw_pool_get(pkt->pool, pkt->len);
    if (all) {
        memcpy(all->data, pkt->data, carried);
        memset(all->data + carried, 0, pkt->len - carried);
    } else {
        port->device->stats.buffer_drops++;
    }
    sw_pool_put(pkt);
    return all;
}

void sw_socket_queue(sw_port *port, struct sw_packet *pkt)
{
    sw_engine *engine = port->device->engine;
    if (__builtin_expect(sw_carried(pkt) < pkt->len, 0)) {
        pkt = whole(port, pkt);
        if (!pkt)
            return;
    }
    port->tx[port->tx_count++] = pkt;
    if (!port->in_tx_list) {
        port->in_tx_list = true;
        port->next_tx = engine->tx_list;
        engine->tx_list = port;
    }
    if (port->tx_count == SW_BATCH)
        sw_socket_flush(port);
}

void sw_socket_flush(sw_port *port)
{
    struct mmsghdr messages[SW_BATCH];
    struct iovec parts[SW_BATCH];
    uint32_t count = port->tx_count, sent = 0;
    if (count == 0)
        return;
    memset(messages, 0, count * sizeof *messages);
    for (uint32_t i = 0; i < count; i++) {
        parts[i].iov_base = port->tx[i]->data;
        parts[i].iov_len = port->tx[i]->len;
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    while (sent < count) {
        int n = port->fd < 0 ? -1 : sendmmsg(port->fd, messages + sent, count - sent, 0);
        if (n > 0) {
            for (int i = 0; i < n; i++)
                port->tx_bytes += port->tx[sent + (uint32_t)i]->len;
            port->tx_packets += (uint32_t)n;
            sent += (uint32_t)n;
        } else if (port->fd >= 0 && errno == EINTR) {
            continue;
        } else {
            /* Refused (down, too long, no buffers): this frame is lost, the next may pass. */
            port->tx_errors++;
            sent++;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        sw_pool_put(port->tx[i]);
    port->tx_count = 0;
}

void sw_flush_all(sw_engine *engine)
{
    while (engine->tx_list) {
        sw_port *port = engine->tx_list;
        engine->tx_list = port->next_tx;
        port->in_tx_list = false;
        sw_socket_flush(port);
    }
}

/* --- receiving --- */

/* Add what the kernel dropped since the last call. */
void sw_socket_count_drops(sw_port *port)
{
    struct tpacket_stats stats;
    socklen_t size = sizeof stats;
    if (port->fd >= 0 && getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0)
        port->rx_drops += stats.tp_drops;
}

static bool fill_reserve(sw_device *device)
{
    while (device->reserved < SW_BATCH) {
        struct sw_packet *pkt = sw_pool_get(device->pipeline->pool, SW_SMALL_FRAME);
        if (!pkt)
            break;
        device->reserve[device->reserved++] = pkt;
    }
    return device->reserved > 0;
}

/* A frame from this machine may lack its TCP or UDP checksum: the field holds the sum over the pseudo header, and
 * whoever puts the frame on a wire does the rest. */
static void complete_checksum(struct sw_packet *pkt)
{
    uint32_t at = 2 * ETH_ALEN;
    uint8_t protocol;
    if (pkt->len < at + 2 + 20)
        return;
    uint64_t type = sw_get_bits(pkt->data + at, 0, 16);
    at += 2;
    if (type == ETHERTYPE_IP) {
        if (pkt->data[at + 6] & 0x3f || pkt->data[at + 7]) /* a fragment */
            return;
        protocol = pkt->data[at + 9];
        at += (pkt->data[at] & 0xfu) * 4u;
    } else if (type == ETHERTYPE_IPV6) {
        protocol = pkt->data[at + 6];
        at += 40;
    } else {
        return;
    }
    uint32_t field = at + (protocol == IPPROTO_TCP ? 16u : 6u);
    if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || field + 2 > pkt->len)
        return;
    uint64_t sum = 0;
    for (uint32_t i = at; i < pkt->len; i++)
        sum += (uint64_t)pkt->data[i] << ((i - at) % 2 ? 0 : 8);
    uint64_t result = ~sw_fold16(sum) & 0xffff;
    if (result == 0 && protocol == IPPROTO_UDP)
        result = 0xffff;
    sw_put_bits(pkt->data + field, 0, 16, result);
}

/* What the kernel keeps beside a frame: the outermost VLAN tag, which goes back into it (there is headroom), and
 * whether its checksum is still to be done. */
static void apply_auxiliary(struct sw_packet *pkt, struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
            continue;
        struct tpacket_auxdata aux;
        memcpy(&aux, CMSG_DATA(c), sizeof aux);
        if (aux.tp_status & TP_STATUS_CSUMNOTREADY)
            complete_checksum(pkt);
        if (!(aux.tp_status & TP_STATUS_VLAN_VALID) || pkt->len < 2 * ETH_ALEN)
            return;
        uint16_t tpid = aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid : ETHERTYPE_VLAN;
        const uint16_t tag[2] = {htons(tpid), htons(aux.tp_vlan_tci)};
        memmove(pkt->data - VLAN_BYTES, pkt->data, 2 * ETH_ALEN);
        pkt->data -= VLAN_BYTES;
        pkt->room -= VLAN_BYTES;
        pkt->len += VLAN_BYTES;
        memcpy(pkt->data + 2 * ETH_ALEN, tag, sizeof tag);
        return;
    }
}

/* A frame longer than a small buffer: its rest lies in `rest`. */
static struct sw_packet *join(sw_device *device, struct sw_packet *small, uint32_t length, const uint8_t *rest)
{
    struct sw_packet *pkt = sw_pool_get(device->pipeline->pool, length);
    if (pkt) {
        memcpy(pkt->data, small->data, SW_SMALL_FRAME);
        memcpy(pkt->data + SW_SMALL_FRAME, rest, length - SW_SMALL_FRAME);
    }
    sw_pool_put(small);
    return pkt;
}

void sw_socket_receive(sw_port *port)
{
    sw_device *device = port->device;
    sw_engine *engine = device->engine;
    struct mmsghdr messages[SW_BATCH];
    struct iovec parts[SW_BATCH][2];
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
    } control[SW_BATCH];

    if (!device->pipeline || !fill_reserve(device)) {
        /* Nowhere to put a frame: let it go, so that the socket does not stay readable. */
        uint8_t byte;
        ssize_t n = recv(port->fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC);
        if (n > 0) {
            port->rx_drops++;
            if (device->pipeline)
                device->stats.buffer_drops++;
            else
                device->stats.no_pipeline_drops++;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            port->up = false;
            sw_profiles_ports_changed(device);
        }
        return;
    }
    uint32_t room = device->reserved;
    memset(messages, 0, room * sizeof *messages);
    for (uint32_t i = 0; i < room; i++) {
        parts[i][0].iov_base = device->reserve[i]->data;
        parts[i][0].iov_len = SW_SMALL_FRAME;
        parts[i][1].iov_base = engine->overflow + (size_t)i * SW_LARGE_FRAME;
        parts[i][1].iov_len = SW_LARGE_FRAME - SW_SMALL_FRAME;
        messages[i].msg_hdr.msg_iov = parts[i];
        messages[i].msg_hdr.msg_iovlen = 2;
        messages[i].msg_hdr.msg_control = &control[i];
        messages[i].msg_hdr.msg_controllen = sizeof control[i];
    }
    int n = recvmmsg(port->fd, messages, room, MSG_DONTWAIT, NULL);
    if (n <= 0) {
        if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
            port->up = false; /* the interface went down or away */
            port->rx_drops += errno != ENETDOWN;
            sw_profiles_ports_changed(device);
        }
        return;
    }
    struct sw_packet *batch[SW_BATCH];
    uint32_t count = (uint32_t)n;
    memcpy(batch, device->reserve, count * sizeof *batch);
    memmove(device->reserve, device->reserve + count, (device->reserved - count) * sizeof *batch);
    device->reserved -= count;
    for (uint32_t i = 0; i < count; i++) {
        struct sw_packet *pkt = batch[i];
        uint32_t length = messages[i].msg_len;
        if (messages[i].msg_hdr.msg_flags & MSG_TRUNC) {
            device->stats.oversize_drops++;
            port->rx_drops++;
            sw_pool_put(pkt);
            continue;
        }
        if (length > SW_SMALL_FRAME) {
            pkt = join(device, pkt, length, parts[i][1].iov_base);
            if (!pkt) {
                device->stats.buffer_drops++;
                port->rx_drops++;
                continue;
            }
        }
        pkt->len = length;
        pkt->end = pkt->data + length;
        apply_auxiliary(pkt, &messages[i].msg_hdr);
        sw_device_receive(device, port, pkt);
    }
}
