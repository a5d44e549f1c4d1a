// SPDX-License-Identifier: Apache-2.0
// The handle: what was promised and expected, violations, statistics.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checker_internal.h"
#include "wire.h"

enum { FIRST_RING = 64, MILLION = 1000000, MAX_QP = 1 << 24 };

static void derive(const checker_t *c, step_slot_t *slot);

int checker_create(const checker_config_t *config, checker_t **out) {
  if (config->gradient_dscp > 63 || config->gradient_trimmed_dscp > 63 || config->data_trimmed_dscp > 63 ||
      config->gradient_trimmed_dscp == config->data_trimmed_dscp ||
      config->gradient_dscp == config->gradient_trimmed_dscp || config->gradient_dscp == config->data_trimmed_dscp ||
      config->kept_violations > 1 << 20)
    return CHECKER_INVALID;
  checker_t *c = calloc(1, sizeof *c);
  if (c == NULL) return CHECKER_NO_MEMORY;
  c->config = *config;
  c->trimmed_dscps = UINT64_C(1) << config->gradient_trimmed_dscp | UINT64_C(1) << config->data_trimmed_dscp;
  c->ring = calloc(FIRST_RING, sizeof *c->ring);
  c->ring_mask = FIRST_RING - 1;
  c->full = FIRST_RING;
  c->violations = calloc(config->kept_violations + 1, sizeof *c->violations);
  if (c->ring == NULL || c->violations == NULL) {
    checker_destroy(c);
    return CHECKER_NO_MEMORY;
  }
  for (uint32_t i = 0; i < CHECKER_STEP_SLOTS; i++) derive(c, &c->slots[i]);
  for (uint32_t i = 0; i < FLOW_SLOTS; i++) c->flows[i].qp = c->flows[i].next_qp = NO_FLOW;
  *out = c;
  return CHECKER_OK;
}

void checker_destroy(checker_t *c) {
  if (c == NULL) return;
  for (uint32_t i = c->reported; i != c->tail; i++)
    if (c->ring[i & c->ring_mask].kind == ARRIVAL_CONTROL) free(c->ring[i & c->ring_mask].change);
  for (uint32_t i = 0; i < FLOW_SLOTS; i++) checker_drop_maps(c, &c->flows[i]);
  while (c->spare != NULL) {
    spare_maps_t *next = c->spare->next;
    free(c->spare);
    c->spare = next;
  }
  free(c->past);
  free(c->violations);
  free(c->ring);
  free(c);
}

// --- violations

void checker_violate(checker_t *c, uint64_t now, uint32_t kind, const arrival_t *a, uint64_t expected, uint64_t seen) {
  c->stats.violations++;
  c->stats.violations_by_kind[kind]++;
  if (c->violation_count == c->config.kept_violations) return;
  checker_violation_t *v = &c->violations[c->violation_count++];
  *v = (checker_violation_t){.time_ns = now, .kind = kind, .expected = expected, .seen = seen, .qp = NO_FLOW};
  if (a == NULL) return;
  v->qp = arrival_qp(a);
  v->psn = arrival_psn(a);
  v->start = arrival_start(a);
  v->length_bytes = arrival_length(a);
}

// What a violation that concerns no packet names.
static arrival_t about(uint32_t qp, uint32_t length_bytes) {
  return (arrival_t){.id = to_network((uint64_t)qp << 32), .source = to_network(length_bytes)};
}

int checker_violations(const checker_t *c, checker_violation_t *out, int capacity) {
  for (int i = 0; i < capacity && i < (int)c->violation_count; i++) out[i] = c->violations[i];
  return (int)c->violation_count;
}

typedef struct kind_text {
  char name[24];
  char numbers[40];  // what `expected` and `seen` are
} kind_text_t;

static const kind_text_t kind_texts[CHECKER_KINDS] = {
    [CHECKER_FORGAVE_BEYOND_BUDGET] = {"forgave_beyond_budget", "forgiven bytes, at most"},
    [CHECKER_FORGAVE_UNVESTED] = {"forgave_unvested", "forgiven bytes, at most"},
    [CHECKER_FORGAVE_CLASS] = {"forgave_class", ""},
    [CHECKER_FORGAVE_CLOSED] = {"forgave_closed", ""},
    [CHECKER_FORGAVE_DRAW] = {"forgave_draw", "forgiven bytes"},
    [CHECKER_NOT_FORGIVEN] = {"not_forgiven", "forgiven bytes, up to"},
    [CHECKER_DOUBLE_DELIVERY] = {"double_delivery", "delivery header"},
    [CHECKER_WRONG_DELIVERY] = {"wrong_delivery", "delivery header or frame bytes"},
    [CHECKER_NOT_DELIVERED] = {"not_delivered", "delivery header"},
    [CHECKER_STRAY_DELIVERY] = {"stray_delivery", "delivery header"},
    [CHECKER_ACKNOWLEDGED_HOLE] = {"acknowledged_hole", "rcv_nxt, or request"},
    [CHECKER_REQUESTED_SETTLED] = {"requested_settled", "request"},
    [CHECKER_RCV_NXT] = {"rcv_nxt", "rcv_nxt"},
    [CHECKER_RANGE] = {"range", "start * 2^32 + length"},
    [CHECKER_ELIGIBLE_FLAG] = {"eligible_flag", "flag"},
    [CHECKER_EXHAUSTED_FLAG] = {"exhausted_flag", "flag"},
    [CHECKER_ECHO] = {"echo", "BECN"},
    [CHECKER_REPORT_FIELD] = {"report_field", "header bits or frame bytes"},
    [CHECKER_UNANSWERED] = {"unanswered", ""},
    [CHECKER_STRAY_REPORT] = {"stray_report", ""},
    [CHECKER_UNKNOWN_FLOW] = {"unknown_flow", "queue pair"},
    [CHECKER_OUTSIDE_MESSAGE] = {"outside_message", "end of the range, at most"},
    [CHECKER_WRONG_BUDGET] = {"wrong_budget", "bytes"},
    [CHECKER_REOPENED] = {"reopened", ""},
    [CHECKER_NOT_SETTLED] = {"not_settled", "blocks from the start"},
    [CHECKER_OUTSTANDING] = {"outstanding", "outstanding bytes"},
    [CHECKER_INCOMPLETE] = {"incomplete", "captured bytes, at least"},
};

const char *checker_kind_name(uint32_t kind) { return kind < CHECKER_KINDS ? kind_texts[kind].name : "unknown"; }

int checker_describe(const checker_violation_t *v, char *text, size_t size) {
  char where[160] = "", numbers[120] = "";
  if (v->qp != NO_FLOW)
    snprintf(where, sizeof where, "queue pair %#x (step slot %u, owner %u, flow slot %u), PSN %u, bytes %u + %u", v->qp,
             v->qp >> (OWNER_WIDTH + FLOW_SLOT_WIDTH), v->qp >> FLOW_SLOT_WIDTH & (OWNERS - 1),
             v->qp & (FLOW_SLOTS - 1), v->psn, v->start, v->length_bytes);
  if (v->kind < CHECKER_KINDS && kind_texts[v->kind].numbers[0] != 0)
    snprintf(numbers, sizeof numbers, "; %s %llu, seen %llu", kind_texts[v->kind].numbers,
             (unsigned long long)v->expected, (unsigned long long)v->seen);
  return snprintf(text, size, "%llu ns: %s: %s%s", (unsigned long long)v->time_ns, checker_kind_name(v->kind), where,
                  numbers);
}

// --- steps

static uint64_t budget_of(uint32_t p_ppm, uint64_t expected_bytes) {
  __extension__ typedef unsigned __int128 wide_t;
  return (uint64_t)((wide_t)p_ppm * expected_bytes / MILLION);
}

static bool same_but_open(const checker_step_t *a, const checker_step_t *b) {
  return a->expected_bytes == b->expected_bytes && a->budget_bytes == b->budget_bytes &&
         a->forgive_threshold == b->forgive_threshold && a->p_ppm == b->p_ppm && a->packet_bytes == b->packet_bytes &&
         a->vesting == b->vesting && a->exemption == b->exemption && a->eligible == b->eligible &&
         a->notification_interval_us == b->notification_interval_us && a->forgiveness_echoes == b->forgiveness_echoes &&
         a->trimmed_starts_flow == b->trimmed_starts_flow;
}

// What every packet asks of a slot.
static void derive(const checker_t *c, step_slot_t *slot) {
  const checker_step_t *entry = &slot->entry;
  uint32_t interval = slot->present ? entry->notification_interval_us : c->config.notification_interval_us;
  slot->live_tag = slot->present ? entry->step_tag : 0;
  slot->echo = interval == 0 ? BTH_BECN : 0;
  slot->flags = entry->exemption != EXEMPTION_NEVER ? BTH_ELIGIBLE : 0;
  slot->exhausted_flags = slot->flags | (entry->exemption != EXEMPTION_NEVER_ENDS ? BTH_EXHAUSTED : 0);
  slot->allowance = (int64_t)entry->budget_bytes - entry->packet_bytes;
}

void checker_apply(checker_t *c, uint64_t now, step_change_t *change) {
  step_slot_t *slot = &c->slots[change->slot];
  arrival_t a = about(change->slot << (OWNER_WIDTH + FLOW_SLOT_WIDTH), 0);
  const checker_step_t *step = &change->step;
  switch (change->what) {
    case STEP_SET:
      if (step->budget_bytes != budget_of(step->p_ppm, step->expected_bytes))
        checker_violate(c, now, CHECKER_WRONG_BUDGET, &a, budget_of(step->p_ppm, step->expected_bytes),
                        step->budget_bytes);
      if (slot->books.step_tag != step->step_tag) {
        slot->books = (checker_step_stats_t){
            .step_tag = step->step_tag,
            .p_ppm = step->p_ppm,
            .expected_bytes = step->expected_bytes,
            .limit_bytes = budget_of(step->p_ppm, step->expected_bytes),
        };
      } else {
        if (!same_but_open(&slot->entry, step))
          checker_violate(c, now, CHECKER_WRONG_BUDGET, &a, slot->entry.budget_bytes, step->budget_bytes);
        if (!slot->entry.open && step->open) checker_violate(c, now, CHECKER_REOPENED, &a, 0, 0);
      }
      slot->entry = *step;
      slot->present = true;
      break;
    case STEP_CLOSE:
      slot->entry.open = 0;
      break;
    case STEP_REMOVE:
      slot->present = false;
      break;
  }
  derive(c, slot);
  free(change);
}

// Takes effect now, or after the packets that came before it.
static int change_step(checker_t *c, uint64_t now, const step_change_t *what) {
  if (what->slot >= CHECKER_STEP_SLOTS) return CHECKER_INVALID;
  step_change_t *change = malloc(sizeof *change);
  if (change == NULL) return CHECKER_NO_MEMORY;
  *change = *what;
  if (c->undecided > 0) checker_next(c, now, NULL);
  if (c->undecided == 0) {
    checker_apply(c, now, change);
    return CHECKER_OK;
  }
  if (checker_push(c, &(arrival_t){.kind = ARRIVAL_CONTROL, .change = change})) return CHECKER_OK;
  free(change);
  return CHECKER_NO_MEMORY;
}

int checker_set_step(checker_t *c, uint64_t now, uint32_t slot, const checker_step_t *step) {
  // Products with p and 10^6 stay within 64 bits.
  const uint64_t most = UINT64_C(1) << 43;
  if (step->step_tag == 0 || step->p_ppm > MILLION || step->expected_bytes > most || step->budget_bytes > most ||
      step->forgive_threshold > UINT64_C(1) << 32 || step->open > 1 || step->vesting > 1 || step->exemption > 2 ||
      step->eligible > 1 || step->forgiveness_echoes > 1 || step->trimmed_starts_flow > 1)
    return CHECKER_INVALID;
  return change_step(c, now, &(step_change_t){.slot = slot, .what = STEP_SET, .step = *step});
}

int checker_close_step(checker_t *c, uint64_t now, uint32_t slot) {
  return change_step(c, now, &(step_change_t){.slot = slot, .what = STEP_CLOSE});
}

int checker_remove_step(checker_t *c, uint64_t now, uint32_t slot) {
  return change_step(c, now, &(step_change_t){.slot = slot, .what = STEP_REMOVE});
}

int checker_get_step(const checker_t *c, uint32_t slot, checker_step_stats_t *stats) {
  if (slot >= CHECKER_STEP_SLOTS) return CHECKER_INVALID;
  *stats = c->slots[slot].books;
  return CHECKER_OK;
}

// --- messages

int checker_expect(checker_t *c, uint32_t qp, uint32_t length_bytes) {
  if (qp >= MAX_QP || length_bytes == 0 || length_bytes > UINT32_MAX - BLOCK_BYTES + 1) return CHECKER_INVALID;
  checked_flow_t *flow = &c->flows[qp & (FLOW_SLOTS - 1)];
  if (flow->qp == qp) return CHECKER_INVALID;
  flow->next_qp = qp;
  flow->next_length = length_bytes;
  flow->next_forgotten = false;
  return CHECKER_OK;
}

int checker_forget(checker_t *c, uint32_t qp) {
  if (qp >= MAX_QP) return CHECKER_INVALID;
  checked_flow_t *flow = &c->flows[qp & (FLOW_SLOTS - 1)];
  if (flow->next_qp == qp)
    flow->next_forgotten = true;
  else if (flow->qp == qp)
    flow->forgotten = true;
  else
    return CHECKER_INVALID;
  return CHECKER_OK;
}

void checker_is_settled(checker_t *c, uint64_t now, const checked_flow_t *flow) {
  if (flow->length == 0 || flow->forgotten || flow->rcv_nxt >= flow->blocks) return;
  arrival_t a = about(flow->qp, flow->length);
  checker_violate(c, now, CHECKER_NOT_SETTLED, &a, flow->blocks, flow->rcv_nxt);
}

static void has_begun(checker_t *c, uint64_t now, const checked_flow_t *flow) {
  if (flow->next_qp == NO_FLOW || flow->next_forgotten) return;
  arrival_t a = about(flow->next_qp, flow->next_length);
  checker_violate(c, now, CHECKER_NOT_SETTLED, &a, (flow->next_length + BLOCK_BYTES - 1) / BLOCK_BYTES, 0);
}

// --- restart

uint32_t checker_past_length(const checker_t *c, uint32_t qp) {
  if (c->past == NULL) return 0;
  const past_flows_t *past = &c->past[qp & (FLOW_SLOTS - 1)];
  for (uint32_t i = 0; i < PAST_FLOWS; i++)
    if (past->qp[i] == qp) return past->length[i];
  return 0;
}

static void remember(past_flows_t *past, uint32_t qp, uint32_t length) {
  if (qp == NO_FLOW || length == 0 || qp == past->qp[0]) return;
  for (uint32_t i = PAST_FLOWS - 1; i > 0; i--) {
    past->qp[i] = past->qp[i - 1];
    past->length[i] = past->length[i - 1];
  }
  past->qp[0] = qp;
  past->length[0] = length;
}

static bool take_past(checker_t *c) {
  if (c->past != NULL) return true;
  c->past = malloc(FLOW_SLOTS * sizeof *c->past);
  if (c->past == NULL) return false;
  for (uint32_t i = 0; i < FLOW_SLOTS; i++)
    for (uint32_t j = 0; j < PAST_FLOWS; j++) c->past[i].qp[j] = NO_FLOW;
  return true;
}

int checker_restart(checker_t *c, uint64_t now) {
  if (!take_past(c)) return CHECKER_NO_MEMORY;
  // Changes of steps behind packets that are lost have been made all the same.
  for (; c->reported != c->tail; c->reported++) {
    const arrival_t *a = &c->ring[c->reported & c->ring_mask];
    if (a->kind == ARRIVAL_CONTROL)
      checker_apply(c, now, a->change);
    else
      c->stats.lost_packets++;
  }
  c->delivered = c->tail;
  c->undecided = 0;
  memset(c->ring, 0, ((size_t)c->ring_mask + 1) * sizeof *c->ring);
  for (uint32_t i = 0; i < FLOW_SLOTS; i++) {
    checked_flow_t *flow = &c->flows[i];
    remember(&c->past[i], flow->qp, flow->length);
    remember(&c->past[i], flow->next_qp, flow->next_length);
    checker_drop_maps(c, flow);
    *flow = (checked_flow_t){.qp = NO_FLOW, .next_qp = NO_FLOW, .plain.id = UINT64_MAX};
  }
  for (uint32_t i = 0; i < CHECKER_STEP_SLOTS; i++) {
    step_slot_t *slot = &c->slots[i];
    slot->entry.open = 0;
    slot->books = (checker_step_stats_t){
        .step_tag = slot->books.step_tag,
        .p_ppm = slot->books.p_ppm,
        .expected_bytes = slot->books.expected_bytes,
        .limit_bytes = slot->books.limit_bytes,
    };
    derive(c, slot);
  }
  return CHECKER_OK;
}

int64_t checker_finish(checker_t *c, uint64_t now) {
  const arrival_t *a;
  while ((a = checker_next(c, now, NULL)) != NULL) {
    checker_violate(c, now, CHECKER_UNANSWERED, a, 0, 0);
    if (!(a->state & ARRIVAL_EAGER)) c->undecided--;
    c->reported++;
  }
  checker_pass(c, now, c->tail);
  for (uint32_t i = 0; i < FLOW_SLOTS; i++) {
    checker_is_settled(c, now, &c->flows[i]);
    has_begun(c, now, &c->flows[i]);
  }
  for (uint32_t i = 0; i < CHECKER_STEP_SLOTS; i++) {
    uint64_t left = c->slots[i].books.outstanding_bytes;
    arrival_t step = about(i << (OWNER_WIDTH + FLOW_SLOT_WIDTH), 0);
    if (left != 0) checker_violate(c, now, CHECKER_OUTSTANDING, &step, 0, left);
  }
  return (int64_t)c->stats.violations;
}

int checker_get_stats(const checker_t *c, checker_stats_t *stats) {
  *stats = c->stats;
  stats->data_packets = stats->reports - stats->trimmed_packets;
  for (uint32_t i = c->reported; i != c->tail; i++) stats->pending += c->ring[i & c->ring_mask].kind != ARRIVAL_CONTROL;
  return CHECKER_OK;
}
