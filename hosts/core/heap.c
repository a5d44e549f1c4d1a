// SPDX-License-Identifier: Apache-2.0
#include "internal.h"

static bool before(const heap_entry_t *a, const heap_entry_t *b) {
  return a->key != b->key ? a->key < b->key : a->slot < b->slot;
}

static void place(heap_t *heap, uint32_t at, heap_entry_t entry) {
  heap->entries[at] = entry;
  heap->position[entry.slot] = (uint16_t)at;
}

static void sift_up(heap_t *heap, uint32_t at, heap_entry_t entry) {
  while (at > 0) {
    uint32_t parent = (at - 1) / 2;
    if (!before(&entry, &heap->entries[parent])) break;
    place(heap, at, heap->entries[parent]);
    at = parent;
  }
  place(heap, at, entry);
}

static void sift_down(heap_t *heap, uint32_t at, heap_entry_t entry) {
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= heap->size) break;
    if (child + 1 < heap->size && before(&heap->entries[child + 1], &heap->entries[child])) child++;
    if (!before(&heap->entries[child], &entry)) break;
    place(heap, at, heap->entries[child]);
    at = child;
  }
  place(heap, at, entry);
}

void heap_init(heap_t *heap) {
  heap->size = 0;
  for (uint32_t i = 0; i < TRANSPORT_SLOTS; i++) heap->position[i] = NO_SLOT;
}

void heap_set(heap_t *heap, uint16_t slot, uint64_t key) {
  heap_entry_t entry = {.key = key, .slot = slot};
  uint32_t at = heap->position[slot];
  if (at == NO_SLOT) {
    sift_up(heap, heap->size++, entry);
  } else if (before(&entry, &heap->entries[at])) {
    sift_up(heap, at, entry);
  } else {
    sift_down(heap, at, entry);
  }
}

void heap_remove(heap_t *heap, uint16_t slot) {
  uint32_t at = heap->position[slot];
  if (at == NO_SLOT) return;
  heap->position[slot] = NO_SLOT;
  heap_entry_t last = heap->entries[--heap->size];
  if (at == heap->size) return;
  if (at > 0 && before(&last, &heap->entries[(at - 1) / 2]))
    sift_up(heap, at, last);
  else
    sift_down(heap, at, last);
}
