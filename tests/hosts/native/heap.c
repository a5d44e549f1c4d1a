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
  static uint64_t keys[TRANSPORT_SLOTS];
  heap_init(&heap);
  for (int i = 0; i < TRANSPORT_SLOTS; i++) keys[i] = UINT64_MAX;
  uint32_t size = 0;
  for (int step = 0; step < 40000; step++) {
    // Few slots at first, all of them later; few keys, so that there are ties.
    uint16_t slot = (uint16_t)draw(step < 20000 ? 40 : TRANSPORT_SLOTS);
    if (draw(3) == 0) {
      size -= keys[slot] != UINT64_MAX;
      keys[slot] = UINT64_MAX;
      heap_remove(&heap, slot);
    } else {
      size += keys[slot] == UINT64_MAX;
      keys[slot] = draw(1000);
      heap_set(&heap, slot, keys[slot]);
    }
    uint16_t first = 0;
    for (uint16_t i = 1; i < TRANSPORT_SLOTS; i++)
      if (keys[i] < keys[first]) first = i;
    if (heap.size != size || (size > 0 && (heap.entries[0].slot != first || heap.entries[0].key != keys[first]))) {
      fprintf(stderr, "heap: step %d: wrong first entry or size\n", step);
      return 1;
    }
  }
  return 0;
}
