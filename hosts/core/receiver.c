// SPDX-License-Identifier: Apache-2.0
// The receiving half of a message. The NIC holds the scoreboard and decides;
// here payload is placed as its delivery header says, and every block is
// checked to come exactly once.
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

// Blocks of a range of `blocks` that are settled, as a mask.
static uint32_t settled_mask(const receive_flow_t *flow, uint32_t first, uint32_t blocks) {
  uint32_t mask = 0;
  if (flow->above > 0)
    for (uint32_t w = first / 64; w <= (first + blocks - 1) / 64; w++)
      mask |= (uint32_t)(w == first / 64 ? flow->settled[w] >> first % 64 : flow->settled[w] << (64 - first % 64));
  if (first < flow->front) {
    uint32_t below = flow->front - first;
    mask |= below >= 32 ? UINT32_MAX : ~(UINT32_MAX << below);
  }
  return mask;
}

static bool any_settled_from(const receive_flow_t *flow, uint32_t block) {
  uint32_t blocks = block_ceiling(flow->length);
  return block < flow->front || (flow->above > 0 && bitmap_next(flow->settled, block, blocks) < blocks);
}

// Takes the blocks of `mask`, block 0 being the range's first, none of which is
// settled; returns their bytes.
static uint32_t settle(receive_flow_t *flow, uint32_t start, uint32_t end, uint32_t mask, const uint8_t *payload) {
  uint32_t bytes = 0;
  uint32_t first = start / BLOCK_BYTES;
  while (mask != 0) {
    uint32_t from = (uint32_t)__builtin_ctz(mask);
    uint64_t rest = ~((uint64_t)mask >> from);
    uint32_t to = from + (uint32_t)__builtin_ctzll(rest);
    uint32_t run_start = start + from * BLOCK_BYTES;
    uint32_t run_end = to * BLOCK_BYTES < end - start ? start + to * BLOCK_BYTES : end;
    flow->above += bitmap_set(flow->settled, first + from, first + to);
    if (payload != NULL && flow->buffer != NULL)
      memcpy(flow->buffer + run_start, payload + from * BLOCK_BYTES, run_end - run_start);
    bytes += run_end - run_start;
    mask &= to == 32 ? 0 : ~UINT32_C(0) << to;
  }
  uint32_t front = bitmap_run_end(flow->settled, flow->front, block_ceiling(flow->posted));
  flow->above -= front - flow->front;
  flow->front = front;
  return bytes;
}

enum { HEADERS = BTH_BYTES + RETH_BYTES + DELIVERY_BYTES };

static void place(receive_flow_t *flow, uint32_t start, uint32_t length, const uint8_t *bth, size_t bytes) {
  if (flow->buffer != NULL && bytes >= HEADERS + (size_t)length) memcpy(flow->buffer + start, bth + HEADERS, length);
}

// The common case: the next packet of a message without holes, as long and as whole
// as the last one, and not its end.
static inline bool is_plain_delivery(receive_flow_t *flow, const uint8_t *bth, size_t bytes, size_t wire_bytes) {
  uint32_t start = get32(bth + BTH_BYTES + RETH_ADDR), length = get32(bth + BTH_BYTES + RETH_LENGTH);
  if (start != flow->front * (uint64_t)BLOCK_BYTES || length != flow->whole_bytes || flow->above != 0 ||
      get64(bth + BTH_BYTES + RETH_BYTES) != flow->whole_delivery || bth[BTH_FLAGS] & BTH_SOLICITED ||
      wire_bytes < HEADERS + (size_t)length || (uint64_t)start + length >= flow->length)
    return false;
  flow->stats.packets++;
  flow->front += length / BLOCK_BYTES;
  flow->settled_bytes += length;
  place(flow, start, length, bth, bytes);
  return true;
}

int receiver_deliver(transport_t *t, uint64_t now, const uint8_t *bth, size_t bytes, size_t wire_bytes) {
  if (bytes < HEADERS) return transport_malformed(t);
  uint32_t qp = bth_dest_qp(bth);
  receive_flow_t *flow = t->receives[qp_slot(qp)];
  if (flow != NULL && flow->qp != qp) flow = NULL;
  if (flow != NULL && is_plain_delivery(flow, bth, bytes, wire_bytes)) return TRANSPORT_OK;
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
    return transport_malformed(t);
  if (flow == NULL) {
    t->stats.unknown_qp++;
    return TRANSPORT_UNKNOWN;
  }
  uint64_t end = (uint64_t)start + length;
  // Only the message's last packet ends it, and nothing lies beyond. It may end
  // below what was posted: then that is its length.
  if (end > flow->length || (flow->length < flow->posted && solicited && end != flow->length))
    return transport_malformed(t);
  if (solicited && end < flow->length && any_settled_from(flow, block_ceiling((uint32_t)end)))
    return transport_malformed(t);

  if (flow->stats.packets++ == 0) flow->stats.first_ns = now;
  if (solicited) flow->length = (uint32_t)end;
  uint32_t first = start / BLOCK_BYTES;
  if (first == flow->front && flow->above == 0 && event == DELIVERY_DATA && accept == UINT32_MAX >> (32 - blocks)) {
    // In order, and all of it new.
    flow->front += blocks;
    flow->settled_bytes += length;
    flow->whole_bytes = length % BLOCK_BYTES == 0 ? length : 0;
    flow->whole_delivery = get64(delivery);
    place(flow, start, length, bth, bytes);
  } else {
    const uint8_t *payload = NULL;
    if (event == DELIVERY_DATA && bytes >= HEADERS + (size_t)length) payload = bth + HEADERS;
    uint32_t already = settled_mask(flow, first, blocks);
    if ((already & accept) != 0) {
      report_double(t, flow, now, start);
      accept &= ~already;
    }
    uint32_t fresh = settle(flow, start, (uint32_t)end, accept, payload);
    flow->settled_bytes += fresh;
    if (event == DELIVERY_FORGIVEN) {
      for (uint32_t mask = accept; mask != 0; mask &= mask - 1) {
        uint32_t block = first + (uint32_t)__builtin_ctz(mask);
        flow->forgiven[block / 64] |= UINT64_C(1) << block % 64;
      }
      flow->stats.forgiven_bytes += fresh;
    }
  }
  if (flow->settled_bytes == flow->length && !flow->done) complete(t, flow, now);
  return TRANSPORT_OK;
}

int transport_post_receive(transport_t *t, uint64_t now, const transport_expect_t *expect, uint64_t *id) {
  uint32_t slot = qp_slot(expect->qp);
  if (expect->length_bytes == 0 || expect->qp >> 24 != 0) return TRANSPORT_INVALID;
  if (t->receive_qps.qp[slot] != expect->qp) return TRANSPORT_NOT_FOUND;
  if (t->receives[slot] != NULL) return TRANSPORT_BUSY;
  uint32_t words = bitmap_words(block_ceiling(expect->length_bytes));
  receive_flow_t *flow = (receive_flow_t *)flow_obtain(&t->free_receives, sizeof *flow, words);
  if (flow == NULL) return TRANSPORT_NO_MEMORY;
  if (!events_reserve(t, 2)) {
    flow_recycle(&t->free_receives, &flow->memory);
    return TRANSPORT_NO_MEMORY;
  }
  flow->settled = flow->memory.maps;
  flow->forgiven = flow->memory.maps + words;
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

void receiver_sum(const receive_flow_t *flow, transport_stats_t *sums) {
  sums->received_packets += flow->stats.packets;
  sums->received_bytes += flow->settled_bytes - flow->stats.forgiven_bytes;
  sums->forgiven_bytes += flow->stats.forgiven_bytes;
}

void receiver_stats(const receive_flow_t *flow, transport_flow_stats_t *stats) {
  *stats = flow->stats;
  stats->settled_bytes = flow->settled_bytes;
  stats->first_bytes = flow->settled_bytes - flow->stats.forgiven_bytes;
}

void receiver_release(transport_t *t, receive_flow_t *flow) {
  events_unreserve(t, (uint32_t)!flow->done + (uint32_t)!flow->reported);
  receiver_sum(flow, &t->stats);
  t->receives[flow->slot] = NULL;
  flow_recycle(&t->free_receives, &flow->memory);
}
