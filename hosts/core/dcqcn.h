// SPDX-License-Identifier: Apache-2.0
// DCQCN's reaction point for one flow. transport.h has the definition.
#ifndef HOSTS_DCQCN_H
#define HOSTS_DCQCN_H

#include <stdbool.h>
#include <stdint.h>

#include "include/transport.h"

enum { DCQCN_POWERS = 40 };

// What all flows of a host share.
typedef struct dcqcn_params {
  transport_dcqcn_t config;
  uint64_t line_rate_bps;
  uint32_t decay_q31[DCQCN_POWERS];  // (1 - g)^(2^k)
} dcqcn_params_t;

typedef struct dcqcn {
  uint64_t rate_bps;
  uint64_t target_bps;
  uint64_t anchor_ns;        // first signal
  uint64_t alpha_tick;       // alpha holds after this many alpha periods
  uint64_t signalled_tick;   // the period end that sees a signal; 0: none
  uint64_t cut_ns;           // next check that sees a signal; UINT64_MAX: none
  uint64_t increase_ns;      // next expiry of the increase timer; UINT64_MAX: not running
  uint64_t next_ns;          // the earlier of these two
  uint64_t signals;
  uint64_t cuts;
  uint32_t alpha_q31;
  uint32_t stage;
  bool started;
} dcqcn_t;

void dcqcn_params_init(dcqcn_params_t *params, const transport_dcqcn_t *config, uint64_t line_rate_bps);
void dcqcn_init(dcqcn_t *flow, const dcqcn_params_t *params);
void dcqcn_signal(dcqcn_t *flow, const dcqcn_params_t *params, uint64_t now);
// Cuts and increases that are due by `now` take effect. Only what is due by then,
// that is at next_ns or later, changes anything.
void dcqcn_advance(dcqcn_t *flow, const dcqcn_params_t *params, uint64_t now);

#endif  // HOSTS_DCQCN_H
