// SPDX-License-Identifier: Apache-2.0
// The timer heap against a table: random insertions, moves and removals.
#include <stdio.h>

#include "internal.h"

static uint64_t state = 88172645463325252u;

static uint64_t draw(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 11) % below;
}

int main(void) {
  static heap_t heap;
  static uint64_t times[TRANSPORT_SLOTS];
  for (int i = 0; i < TRANSPORT_SLOTS; i++) times[i] = UINT64_MAX;
  uint32_t size = 0;
  uint16_t first = 0;
  for (int step = 0; step < 60000; step++) {
    // Few slots at first, all of them later; few times, so that there are ties.
    uint16_t slot = (uint16_t)draw(step < 20000 ? 40 : TRANSPORT_SLOTS);
    if (draw(3) == 0 && size > 0) {
      times[first] += draw(30);
      heap_move_first(&heap, times[first]);
    } else if (times[slot] != UINT64_MAX || draw(20) == 0) {
      size -= times[slot] != UINT64_MAX;
      times[slot] = UINT64_MAX;
      heap_remove(&heap, slot);
    } else {
      size++;
      times[slot] = draw(1000) + (draw(2) << 52);
      heap_push(&heap, slot, times[slot]);
    }
    first = 0;
    for (uint16_t i = 1; i < TRANSPORT_SLOTS; i++)
      if (times[i] < times[first]) first = i;
    if (heap.size != size || heap_first_ns(&heap) != times[first] || (size > 0 && heap_first_slot(&heap) != first)) {
      fprintf(stderr, "heap: step %d: wrong first entry or size\n", step);
      return 1;
    }
  }
  return 0;
}
