// SPDX-License-Identifier: Apache-2.0
#include "attach.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// Of one message: SENT or FAILED, RECEIVED, one DOUBLE.
enum { EVENTS_PER_MESSAGE = 3, NO_MESSAGE = UINT32_MAX };

typedef struct message {
  uint64_t send_id;
  uint64_t receive_id;
  uint64_t posted_ns;
  uint64_t received_ns;
  uint32_t sender;
  uint32_t receiver;
  uint32_t send_qp;
  uint32_t receive_qp;
  uint32_t posted_bytes;
  uint32_t forgiven_bytes;
  uint32_t next_free;
  bool in_use;
} message_t;

typedef struct host {
  attach_t *attach;
  transport_t *transport;
  sw_device *nic;
  uint32_t host_port;
  uint32_t address;
  uint64_t mac;
  struct sw_endpoint endpoint;
  transport_packet_t packet;
  uint8_t frame[TRANSPORT_HEADER_BYTES + TRANSPORT_MAX_PAYLOAD_BYTES];
} host_t;

struct attach {
  sw_engine *engine;
  uint32_t host_count;
  bool tell_received;
  host_t *hosts;
  message_t *messages;
  uint32_t message_capacity;
  uint32_t free_message;
  attach_event_t *events;  // ring
  uint32_t event_capacity;
  uint32_t event_head;
  uint32_t event_count;
};

// --- events

static void push(attach_t *a, const transport_event_t *event, uint32_t type) {
  const message_t *m = &a->messages[event->cookie];
  attach_event_t *told = &a->events[(a->event_head + a->event_count++) % a->event_capacity];
  *told = (attach_event_t){.time_ns = event->time_ns,
                           .posted_ns = m->posted_ns,
                           .received_ns = m->received_ns,
                           .type = type,
                           .message = (uint32_t)event->cookie,
                           .sender = m->sender,
                           .receiver = m->receiver,
                           .posted_bytes = m->posted_bytes,
                           .length_bytes = event->length_bytes,
                           .forgiven_bytes = m->forgiven_bytes,
                           .offset = event->offset};
  transport_flow_stats_t stats;
  if (type != ATTACH_SENT && type != ATTACH_FAILED) return;
  if (transport_flow_stats(a->hosts[m->sender].transport, event->time_ns, m->send_id, &stats) != TRANSPORT_OK) return;
  told->first_ns = stats.first_ns;
  told->retransmitted_bytes = stats.retransmitted_bytes;
  told->naks = (uint32_t)stats.naks;
  told->signals = (uint32_t)stats.signals;
  told->rate_cuts = (uint32_t)stats.rate_cuts;
  told->rtos = (uint32_t)stats.rtos;
}

static void harvest(host_t *host) {
  attach_t *a = host->attach;
  transport_event_t event;
  while (transport_next_event(host->transport, &event) == 1) {
    switch (event.type) {
      case TRANSPORT_SENT:
        push(a, &event, ATTACH_SENT);
        break;
      case TRANSPORT_FAILED:
        push(a, &event, ATTACH_FAILED);
        break;
      case TRANSPORT_RECEIVED:
        a->messages[event.cookie].received_ns = event.time_ns;
        a->messages[event.cookie].forgiven_bytes = event.forgiven_bytes;
        if (a->tell_received) push(a, &event, ATTACH_RECEIVED);
        break;
      default:
        push(a, &event, ATTACH_DOUBLE);
    }
  }
}

// --- what the engine calls

static int endpoint_receive(void *context, uint64_t now_ns, const uint8_t *data, uint32_t bytes, uint32_t wire_bytes) {
  host_t *host = context;
  transport_receive_frame(host->transport, now_ns, data, bytes, wire_bytes);
  if (transport_waiting_events(host->transport) > 0) harvest(host);
  return host->attach->event_count > 0;
}

static int endpoint_poll(void *context, uint64_t now_ns, struct sw_frame *frame) {
  host_t *host = context;
  transport_packet_t *packet = &host->packet;
  if (transport_poll(host->transport, now_ns, packet) != 1) return 0;
  frame->data = packet->header;
  frame->bytes = TRANSPORT_HEADER_BYTES;
  frame->wire_bytes = TRANSPORT_HEADER_BYTES + packet->payload_bytes;
  if (packet->payload != NULL) {
    memcpy(host->frame, packet->header, TRANSPORT_HEADER_BYTES);
    memcpy(host->frame + TRANSPORT_HEADER_BYTES, packet->payload, packet->payload_bytes);
    frame->data = host->frame;
    frame->bytes = frame->wire_bytes;
  }
  return 1;
}

static uint64_t endpoint_next_wake(const void *context) {
  const host_t *host = context;
  return transport_next_wake(host->transport);
}

static int endpoint_attention(const void *context) {
  // Not its own state, but what the engine lends it to: events of timeouts lie in the transport.
  const host_t *host = context;
  if (transport_waiting_events(host->transport) > 0) harvest(&host->attach->hosts[host - host->attach->hosts]);
  return host->attach->event_count > 0;
}

// --- life

int attach_create(sw_engine *engine, uint32_t hosts, attach_t **out) {
  if (engine == NULL || hosts == 0) return ATTACH_INVALID;
  attach_t *a = calloc(1, sizeof *a);
  if (a == NULL) return ATTACH_NO_MEMORY;
  a->hosts = calloc(hosts, sizeof *a->hosts);
  if (a->hosts == NULL) {
    free(a);
    return ATTACH_NO_MEMORY;
  }
  a->engine = engine;
  a->host_count = hosts;
  a->free_message = NO_MESSAGE;
  *out = a;
  return ATTACH_OK;
}

void attach_destroy(attach_t *a) {
  if (a == NULL) return;
  for (uint32_t i = 0; i < a->host_count; i++) transport_destroy(a->hosts[i].transport);
  free(a->hosts);
  free(a->messages);
  free(a->events);
  free(a);
}

void attach_tell_received(attach_t *a, uint32_t wanted) { a->tell_received = wanted != 0; }

int attach_host(attach_t *a, uint32_t host, const transport_config_t *config, sw_device *nic, uint32_t host_port,
                uint32_t wire_port) {
  if (host >= a->host_count || a->hosts[host].transport != NULL) return ATTACH_INVALID;
  host_t *h = &a->hosts[host];
  transport_t *transport;
  int status = transport_create(config, &transport);
  if (status != TRANSPORT_OK) return status == TRANSPORT_NO_MEMORY ? ATTACH_NO_MEMORY : ATTACH_INVALID;
  *h = (host_t){.attach = a,
                .transport = transport,
                .nic = nic,
                .host_port = host_port,
                .address = config->src_addr,
                .mac = config->src_mac,
                .endpoint = {.receive = endpoint_receive,
                             .poll = endpoint_poll,
                             .next_wake = endpoint_next_wake,
                             .attention = endpoint_attention}};
  h->endpoint.context = h;
  if (sw_port_attach(nic, host_port, &h->endpoint, wire_port) == SW_OK) return ATTACH_OK;
  transport_destroy(transport);
  h->transport = NULL;
  return ATTACH_ENGINE;
}

transport_t *attach_transport(attach_t *a, uint32_t host) {
  return host < a->host_count ? a->hosts[host].transport : NULL;
}

// --- messages

static bool grow_messages(attach_t *a) {
  if (a->free_message != NO_MESSAGE) return true;
  uint32_t capacity = a->message_capacity == 0 ? 256 : a->message_capacity * 2;
  message_t *messages = realloc(a->messages, capacity * sizeof *messages);
  if (messages == NULL) return false;
  a->messages = messages;
  // Events can't wait for memory in the middle of a run: there is room for all that may come.
  uint32_t event_capacity = capacity * EVENTS_PER_MESSAGE;
  attach_event_t *events = malloc(event_capacity * sizeof *events);
  if (events == NULL) return false;
  for (uint32_t i = 0; i < a->event_count; i++) events[i] = a->events[(a->event_head + i) % a->event_capacity];
  free(a->events);
  a->events = events;
  a->event_capacity = event_capacity;
  a->event_head = 0;
  for (uint32_t i = capacity; i-- > a->message_capacity;) {
    messages[i] = (message_t){.next_free = a->free_message};
    a->free_message = i;
  }
  a->message_capacity = capacity;
  return true;
}

static int post_both(attach_t *a, uint64_t now, uint32_t number, const transport_send_t *given,
                     const transport_expect_t *expected, uint32_t step_slot) {
  message_t *m = &a->messages[number];
  transport_t *from = a->hosts[m->sender].transport;
  transport_t *to = a->hosts[m->receiver].transport;
  if (transport_alloc_receive_qp(to, step_slot, &m->receive_qp) != TRANSPORT_OK) return ATTACH_EXHAUSTED_RECEIVER;
  transport_expect_t expect = *expected;
  expect.qp = m->receive_qp;
  int status = transport_post_receive(to, now, &expect, &m->receive_id);
  if (status != TRANSPORT_OK) {
    transport_free_receive_qp(to, m->receive_qp);
    return status == TRANSPORT_NO_MEMORY ? ATTACH_NO_MEMORY : ATTACH_INVALID;
  }
  transport_send_t send = *given;
  send.dst_qp = m->receive_qp;
  status = ATTACH_EXHAUSTED;
  if (transport_alloc_send_qp(from, 0, &m->send_qp) == TRANSPORT_OK) {
    send.src_qp = m->send_qp;
    status = transport_post_send(from, now, &send, &m->send_id);
    if (status == TRANSPORT_OK) return ATTACH_OK;
    transport_free_send_qp(from, m->send_qp);
    status = status == TRANSPORT_NO_MEMORY ? ATTACH_NO_MEMORY : ATTACH_INVALID;
  }
  transport_release(to, m->receive_id);
  transport_free_receive_qp(to, m->receive_qp);
  return status;
}

int64_t attach_post(attach_t *a, uint32_t sender, uint32_t receiver, uint32_t length_bytes, uint32_t posted_bytes,
                    uint32_t class_, uint32_t step_slot, uint64_t window_bytes, const uint8_t *data,
                    uint8_t *buffer) {
  if (sender >= a->host_count || receiver >= a->host_count) return ATTACH_NOT_FOUND;
  if (sender == receiver || step_slot >= TRANSPORT_STEP_SLOTS) return ATTACH_INVALID;
  host_t *from = &a->hosts[sender];
  const host_t *to = &a->hosts[receiver];
  if (from->transport == NULL || to->transport == NULL) return ATTACH_NOT_FOUND;
  if (!grow_messages(a)) return ATTACH_NO_MEMORY;
  uint64_t now = sw_engine_now(a->engine);
  uint32_t number = a->free_message;
  message_t *m = &a->messages[number];
  uint32_t next_free = m->next_free;
  *m = (message_t){.posted_ns = now,
                   .sender = sender,
                   .receiver = receiver,
                   .posted_bytes = posted_bytes,
                   .next_free = next_free};
  transport_send_t send = {.cookie = number,
                           .dst_mac = to->mac,
                           .dst_addr = to->address,
                           .class_ = class_,
                           .data = data,
                           .length_bytes = length_bytes,
                           .window_bytes = window_bytes};
  transport_expect_t expect = {.cookie = number, .length_bytes = posted_bytes, .buffer = buffer};
  int status = post_both(a, now, number, &send, &expect, step_slot);
  if (status != ATTACH_OK) return status;
  a->free_message = next_free;
  m->in_use = true;
  return sw_port_kick(from->nic, from->host_port) == SW_OK ? (int64_t)number : ATTACH_ENGINE;
}

static const message_t *find(const attach_t *a, uint32_t message) {
  return message < a->message_capacity && a->messages[message].in_use ? &a->messages[message] : NULL;
}

int64_t attach_queue_pair(const attach_t *a, uint32_t message) {
  const message_t *m = find(a, message);
  return m == NULL ? ATTACH_NOT_FOUND : (int64_t)m->receive_qp;
}

int attach_get_progress(attach_t *a, uint32_t message, attach_progress_t *progress) {
  const message_t *m = find(a, message);
  if (m == NULL) return ATTACH_NOT_FOUND;
  uint64_t now = sw_engine_now(a->engine);
  transport_flow_stats_t sent, settled;
  if (transport_flow_stats(a->hosts[m->sender].transport, now, m->send_id, &sent) != TRANSPORT_OK ||
      transport_flow_stats(a->hosts[m->receiver].transport, now, m->receive_id, &settled) != TRANSPORT_OK)
    return ATTACH_INVALID;
  *progress = (attach_progress_t){.sent_bytes = sent.first_bytes, .settled_bytes = settled.settled_bytes};
  return ATTACH_OK;
}

int attach_forgiven(const attach_t *a, uint32_t message, transport_range_t *ranges, int capacity) {
  const message_t *m = find(a, message);
  if (m == NULL) return ATTACH_NOT_FOUND;
  return transport_forgiven(a->hosts[m->receiver].transport, m->receive_id, ranges, capacity);
}

int attach_release(attach_t *a, uint32_t message) {
  if (find(a, message) == NULL) return ATTACH_NOT_FOUND;
  message_t *m = &a->messages[message];
  transport_t *from = a->hosts[m->sender].transport;
  transport_t *to = a->hosts[m->receiver].transport;
  transport_release(from, m->send_id);
  transport_free_send_qp(from, m->send_qp);
  transport_release(to, m->receive_id);
  transport_free_receive_qp(to, m->receive_qp);
  m->in_use = false;
  m->next_free = a->free_message;
  a->free_message = message;
  return ATTACH_OK;
}

// --- time

static uint32_t take(attach_t *a, attach_event_t *events, uint32_t capacity) {
  uint32_t count = 0;
  for (; count < capacity && a->event_count > 0; count++) {
    events[count] = a->events[a->event_head];
    a->event_head = (a->event_head + 1) % a->event_capacity;
    a->event_count--;
  }
  return count;
}

int attach_run(attach_t *a, uint64_t until_ns, attach_event_t *events, uint32_t capacity) {
  // An observer may stop the engine, too, and leaves no event.
  int stopped = 1;
  while (a->event_count == 0 && stopped == 1) stopped = sw_engine_run_until(a->engine, until_ns);
  if (stopped < 0) return ATTACH_ENGINE;
  return (int)take(a, events, capacity);
}
