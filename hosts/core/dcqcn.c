// SPDX-License-Identifier: Apache-2.0
#include "dcqcn.h"

#define ONE_Q31 (UINT32_C(1) << 31)

__extension__ typedef unsigned __int128 uint128_t;

static uint32_t multiply_q31(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 31); }

// Rounded up, so that recovery ends at line rate and not one bit below.
static uint64_t mean(uint64_t a, uint64_t b) { return a / 2 + b / 2 + ((a | b) & 1); }

void dcqcn_params_init(dcqcn_params_t *params, const transport_dcqcn_t *config, uint64_t line_rate_bps) {
  params->config = *config;
  params->line_rate_bps = line_rate_bps;
  params->decay_q31[0] = ONE_Q31 - config->gain_q31;
  for (int k = 1; k < DCQCN_POWERS; k++)
    params->decay_q31[k] = multiply_q31(params->decay_q31[k - 1], params->decay_q31[k - 1]);
}

void dcqcn_init(dcqcn_t *flow, const dcqcn_params_t *params) {
  *flow = (dcqcn_t){
      .rate_bps = params->line_rate_bps,
      .target_bps = params->line_rate_bps,
      .cut_ns = UINT64_MAX,
      .increase_ns = UINT64_MAX,
      .next_ns = UINT64_MAX,
  };
}

static uint32_t decay(const dcqcn_params_t *params, uint32_t alpha, uint64_t periods) {
  for (int k = 0; periods != 0 && alpha != 0; k++, periods >>= 1) {
    if (k == DCQCN_POWERS) return 0;
    if (periods & 1) alpha = multiply_q31(alpha, params->decay_q31[k]);
  }
  return alpha;
}

// Brings alpha to the end of the given alpha period.
static void advance_alpha(dcqcn_t *flow, const dcqcn_params_t *params, uint64_t tick) {
  if (flow->signalled_tick != 0 && flow->signalled_tick <= tick) {
    uint32_t alpha = decay(params, flow->alpha_q31, flow->signalled_tick - flow->alpha_tick);
    flow->alpha_q31 = alpha + params->config.gain_q31;
    flow->alpha_tick = flow->signalled_tick;
    flow->signalled_tick = 0;
  }
  flow->alpha_q31 = decay(params, flow->alpha_q31, tick - flow->alpha_tick);
  flow->alpha_tick = tick;
}

static void cut(dcqcn_t *flow, const dcqcn_params_t *params) {
  const transport_dcqcn_t *config = &params->config;
  advance_alpha(flow, params, (flow->cut_ns - flow->anchor_ns) / config->alpha_period_ns);
  if (config->clamp_target || flow->stage > 0) flow->target_bps = flow->rate_bps;
  uint64_t rate = flow->rate_bps - (uint64_t)((uint128_t)flow->rate_bps * flow->alpha_q31 >> 32);
  flow->rate_bps = rate > config->min_bps ? rate : config->min_bps;
  flow->stage = 0;
  flow->increase_ns = flow->cut_ns + config->increase_period_ns;
  flow->cut_ns = UINT64_MAX;
  flow->cuts++;
}

static void increase(dcqcn_t *flow, const dcqcn_params_t *params) {
  const transport_dcqcn_t *config = &params->config;
  if (flow->stage >= config->fast_recovery_stages) {
    uint64_t step = flow->stage == config->fast_recovery_stages ? config->additive_bps : config->hyper_bps;
    uint64_t room = params->line_rate_bps - flow->target_bps;
    flow->target_bps += step < room ? step : room;
  }
  flow->rate_bps = mean(flow->rate_bps, flow->target_bps);
  if (flow->stage < UINT32_MAX) flow->stage++;
  flow->increase_ns += config->increase_period_ns;
}

void dcqcn_advance(dcqcn_t *flow, const dcqcn_params_t *params, uint64_t now) {
  // The increase timer was set before the check that falls on the same
  // nanosecond, so it comes first.
  for (;;) {
    if (flow->increase_ns <= flow->cut_ns && flow->increase_ns <= now)
      increase(flow, params);
    else if (flow->cut_ns <= now)
      cut(flow, params);
    else
      break;
  }
  flow->next_ns = flow->cut_ns < flow->increase_ns ? flow->cut_ns : flow->increase_ns;
}

void dcqcn_signal(dcqcn_t *flow, const dcqcn_params_t *params, uint64_t now) {
  const transport_dcqcn_t *config = &params->config;
  flow->signals++;
  if (!config->enabled) return;
  dcqcn_advance(flow, params, now);
  if (!flow->started) {
    // This signal counts for the first check, not for alpha's first period:
    // alpha was just set.
    flow->started = true;
    flow->anchor_ns = now;
    flow->alpha_q31 = config->initial_alpha_q31;
    uint64_t rate = (uint64_t)((uint128_t)flow->rate_bps * config->first_signal_ppm / 1000000);
    flow->rate_bps = rate > config->min_bps ? rate : config->min_bps;
    flow->target_bps = flow->rate_bps;
    flow->cut_ns = flow->next_ns = now + config->decrease_period_ns + 1;
    return;
  }
  uint64_t elapsed = now - flow->anchor_ns;
  uint64_t tick = elapsed / config->alpha_period_ns;
  if (flow->signalled_tick != tick + 1) {
    advance_alpha(flow, params, tick);
    flow->signalled_tick = tick + 1;
  }
  if (flow->cut_ns == UINT64_MAX) {
    uint64_t checks = elapsed == 0 ? 0 : (elapsed - 1) / config->decrease_period_ns;
    flow->cut_ns = flow->anchor_ns + 1 + (checks + 1) * config->decrease_period_ns;
    if (flow->cut_ns < flow->next_ns) flow->next_ns = flow->cut_ns;
  }
}
