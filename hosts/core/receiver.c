// SPDX-License-Identifier: Apache-2.0
// The receiving half of a message. The NIC holds the scoreboard and decides;
// here payload is placed as its delivery header says, and every block is
// checked to come exactly once.
#include <stdlib.h>
#include <string.h>

#include "bitmap.h"
#include "internal.h"

static uint32_t block_ceiling(uint32_t bytes) { return bytes / BLOCK_BYTES + (bytes % BLOCK_BYTES != 0); }

static void complete(transport_t *t, receive_flow_t *flow, uint64_t now) {
  flow->done = true;
  flow->stats.completed_ns = now;
  t->stats.received_messages++;
  events_push(t, &(transport_event_t){.type = TRANSPORT_RECEIVED,
                                      .qp = flow->qp,
                                      .id = flow->id,
                                      .cookie = flow->cookie,
                                      .time_ns = now,
                                      .length_bytes = flow->length,
                                      .forgiven_bytes = (uint32_t)flow->stats.forgiven_bytes});
}

static void report_double(transport_t *t, receive_flow_t *flow, uint64_t now, uint32_t start) {
  t->stats.double_settlements++;
  if (flow->reported) return;
  flow->reported = true;
  events_push(t, &(transport_event_t){.type = TRANSPORT_DOUBLE_SETTLEMENT,
                                      .qp = flow->qp,
                                      .id = flow->id,
                                      .cookie = flow->cookie,
                                      .time_ns = now,
                                      .offset = start});
}

// Takes the blocks of `mask`, block 0 being the range's first, that are not
// settled yet; returns their bytes.
static uint32_t settle(receive_flow_t *flow, uint32_t start, uint32_t end, uint32_t mask, const uint8_t *payload) {
  uint32_t bytes = 0;
  uint32_t first = start / BLOCK_BYTES;
  uint32_t blocks = block_ceiling(end - start);
  if (mask == UINT32_MAX >> (32 - blocks)) {
    bitmap_set(flow->settled, first, first + blocks);
    if (payload != NULL && flow->buffer != NULL) memcpy(flow->buffer + start, payload, end - start);
    return end - start;
  }
  while (mask != 0) {
    uint32_t from = (uint32_t)__builtin_ctz(mask);
    uint64_t rest = ~((uint64_t)mask >> from);
    uint32_t to = from + (uint32_t)__builtin_ctzll(rest);
    uint32_t run_start = start + from * BLOCK_BYTES;
    uint32_t run_end = to * BLOCK_BYTES < end - start ? start + to * BLOCK_BYTES : end;
    bitmap_set(flow->settled, first + from, first + to);
    if (payload != NULL && flow->buffer != NULL)
      memcpy(flow->buffer + run_start, payload + from * BLOCK_BYTES, run_end - run_start);
    bytes += run_end - run_start;
    mask &= to == 32 ? 0 : ~UINT32_C(0) << to;
  }
  return bytes;
}

int receiver_deliver(transport_t *t, uint64_t now, const uint8_t *bth, size_t bytes, size_t wire_bytes) {
  enum { HEADERS = BTH_BYTES + RETH_BYTES + DELIVERY_BYTES };
  if (bytes < HEADERS) return TRANSPORT_MALFORMED;
  const uint8_t *reth = bth + BTH_BYTES;
  const uint8_t *delivery = reth + RETH_BYTES;
  uint8_t event = delivery[0];
  uint32_t accept = get32(delivery + 4);
  uint32_t start = get32(reth + RETH_ADDR);
  uint32_t length = get32(reth + RETH_LENGTH);
  bool solicited = (bth[BTH_FLAGS] & BTH_SOLICITED) != 0;
  uint32_t blocks = block_ceiling(length);
  if ((event != DELIVERY_DATA && event != DELIVERY_FORGIVEN) || start % BLOCK_BYTES != 0 || length == 0 ||
      blocks > MAX_RANGE_BLOCKS || (length % BLOCK_BYTES != 0 && !solicited) || accept == 0 ||
      (blocks < 32 && accept >> blocks != 0) || (event == DELIVERY_DATA && wire_bytes < HEADERS + (size_t)length))
    return TRANSPORT_MALFORMED;

  uint32_t qp = get24(bth + BTH_DEST_QP);
  receive_flow_t *flow = t->receives[qp_slot(qp)];
  if (flow == NULL || flow->qp != qp) {
    t->stats.unknown_qp++;
    return TRANSPORT_UNKNOWN;
  }
  uint64_t end = (uint64_t)start + length;
  // Only the message's last packet ends it, and nothing lies beyond. It may end
  // below what was posted: then that is its length.
  if (end > flow->length || (flow->length < flow->posted && solicited && end != flow->length))
    return TRANSPORT_MALFORMED;
  uint32_t last = block_ceiling(flow->length), after = block_ceiling((uint32_t)end);
  if (solicited && end < flow->length && bitmap_next(flow->settled, after, last) < last) return TRANSPORT_MALFORMED;

  if (flow->stats.packets++ == 0) flow->stats.first_ns = now;
  t->stats.received_packets++;
  if (solicited) flow->length = (uint32_t)end;
  uint32_t first = start / BLOCK_BYTES;
  uint32_t already = 0;
  for (uint32_t w = first / 64; w <= (first + blocks - 1) / 64; w++) {
    uint64_t word = flow->settled[w];
    already |= (uint32_t)(w == first / 64 ? word >> first % 64 : word << (64 - first % 64));
  }
  if ((already & accept) != 0) {
    report_double(t, flow, now, start);
    accept &= ~already;
  }
  const uint8_t *payload = NULL;
  if (event == DELIVERY_DATA && bytes >= HEADERS + (size_t)length) payload = bth + HEADERS;
  uint32_t fresh = settle(flow, start, (uint32_t)end, accept, payload);
  flow->settled_bytes += fresh;
  if (event == DELIVERY_FORGIVEN) {
    for (uint32_t mask = accept; mask != 0; mask &= mask - 1) {
      uint32_t block = first + (uint32_t)__builtin_ctz(mask);
      flow->forgiven[block / 64] |= UINT64_C(1) << block % 64;
    }
    flow->stats.forgiven_bytes += fresh;
    t->stats.forgiven_bytes += fresh;
  } else {
    flow->stats.first_bytes += fresh;
    t->stats.received_bytes += fresh;
  }
  if (!flow->done && flow->settled_bytes == flow->length) complete(t, flow, now);
  return TRANSPORT_OK;
}

static void recycle(transport_t *t, receive_flow_t *flow) {
  flow->next_free = t->free_receives;
  t->free_receives = flow;
}

static receive_flow_t *obtain(transport_t *t, uint32_t words) {
  receive_flow_t *flow = t->free_receives;
  if (flow != NULL)
    t->free_receives = flow->next_free;
  else if ((flow = calloc(1, sizeof *flow)) == NULL)
    return NULL;
  if (flow->capacity < words) {
    free(flow->settled);
    flow->settled = malloc((size_t)words * 2 * sizeof *flow->settled);
    flow->capacity = flow->settled == NULL ? 0 : words;
    if (flow->settled == NULL) {
      recycle(t, flow);
      return NULL;
    }
  }
  uint64_t *settled = flow->settled;
  uint32_t capacity = flow->capacity;
  memset(settled, 0, (size_t)words * 2 * sizeof *settled);
  memset(flow, 0, sizeof *flow);
  flow->settled = settled;
  flow->forgiven = settled + words;
  flow->capacity = capacity;
  return flow;
}

int transport_post_receive(transport_t *t, uint64_t now, const transport_expect_t *expect, uint64_t *id) {
  uint32_t slot = qp_slot(expect->qp);
  if (expect->length_bytes == 0 || expect->qp >> 24 != 0) return TRANSPORT_INVALID;
  if (t->receive_qps.qp[slot] != expect->qp) return TRANSPORT_NOT_FOUND;
  if (t->receives[slot] != NULL) return TRANSPORT_BUSY;
  receive_flow_t *flow = obtain(t, bitmap_words(block_ceiling(expect->length_bytes)));
  if (flow == NULL) return TRANSPORT_NO_MEMORY;
  if (!events_reserve(t, 2)) {
    recycle(t, flow);
    return TRANSPORT_NO_MEMORY;
  }
  flow->posted = expect->length_bytes;
  flow->length = expect->length_bytes;
  flow->buffer = expect->buffer;
  flow->qp = expect->qp;
  flow->slot = (uint16_t)slot;
  flow->cookie = expect->cookie;
  flow->id = ++t->serial << ID_SERIAL_SHIFT | ID_RECEIVE_BIT | slot;
  flow->stats.posted_ns = now;
  t->receives[slot] = flow;
  *id = flow->id;
  return TRANSPORT_OK;
}

int receiver_forgiven(const receive_flow_t *flow, transport_range_t *ranges, int capacity) {
  uint32_t blocks = block_ceiling(flow->length);
  int count = 0;
  for (uint32_t from = bitmap_next(flow->forgiven, 0, blocks); from < blocks; count++) {
    uint32_t to = bitmap_run_end(flow->forgiven, from, blocks);
    if (count < capacity) {
      uint32_t end = to == blocks ? flow->length : to * BLOCK_BYTES;
      ranges[count] = (transport_range_t){.start = from * BLOCK_BYTES, .length_bytes = end - from * BLOCK_BYTES};
    }
    from = bitmap_next(flow->forgiven, to, blocks);
  }
  return count;
}

void receiver_release(transport_t *t, receive_flow_t *flow) {
  events_unreserve(t, (uint32_t)!flow->done + (uint32_t)!flow->reported);
  t->receives[flow->slot] = NULL;
  recycle(t, flow);
}

void receiver_free(receive_flow_t *flow) {
  if (flow == NULL) return;
  free(flow->settled);
  free(flow);
}
