// SPDX-License-Identifier: Apache-2.0
#include "internal.h"

static void sift_up(heap_t *heap, uint32_t at, uint64_t entry) {
  while (at > 0) {
    uint32_t parent = (at - 1) / 2;
    if (heap->entries[parent] < entry) break;
    heap->entries[at] = heap->entries[parent];
    at = parent;
  }
  heap->entries[at] = entry;
}

// Down to the last level, where a moved entry mostly belongs, and up again.
static void sift_down(heap_t *heap, uint32_t at, uint64_t entry) {
  uint64_t *entries = heap->entries;
  uint32_t child;
  while ((child = 2 * at + 1) < heap->size) {
    child += child + 1 < heap->size && entries[child + 1] < entries[child];
    entries[at] = entries[child];
    at = child;
  }
  sift_up(heap, at, entry);
}

static uint64_t entry_of(uint16_t slot, uint64_t time_ns) { return time_ns << HEAP_SLOT_BITS | slot; }

void heap_push(heap_t *heap, uint16_t slot, uint64_t time_ns) {
  sift_up(heap, heap->size++, entry_of(slot, time_ns));
}

void heap_move_first(heap_t *heap, uint64_t time_ns) { sift_down(heap, 0, entry_of(heap_first_slot(heap), time_ns)); }

void heap_remove(heap_t *heap, uint16_t slot) {
  uint32_t at = 0;
  while (at < heap->size && heap->entries[at] % TRANSPORT_SLOTS != slot) at++;
  if (at == heap->size) return;
  uint64_t last = heap->entries[--heap->size];
  if (at == heap->size) return;
  if (at > 0 && last < heap->entries[(at - 1) / 2])
    sift_up(heap, at, last);
  else
    sift_down(heap, at, last);
}
