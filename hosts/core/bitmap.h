// SPDX-License-Identifier: Apache-2.0
// Bitmaps over the blocks of a message. A range is [from, to), in blocks.
#ifndef HOSTS_BITMAP_H
#define HOSTS_BITMAP_H

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t bitmap_words(uint32_t bits) { return (bits + 63) / 64; }

// The bits of word `w` that belong to the range.
static inline uint64_t bitmap_mask(uint32_t w, uint32_t from, uint32_t to) {
  uint64_t mask = ~UINT64_C(0);
  if (w == from / 64) mask <<= from % 64;
  if (w == (to - 1) / 64) mask &= ~UINT64_C(0) >> (63 - (to - 1) % 64);
  return mask;
}

static inline bool bitmap_test(const uint64_t *map, uint32_t bit) { return map[bit / 64] >> (bit % 64) & 1; }

static inline uint32_t bitmap_count(const uint64_t *map, uint32_t from, uint32_t to) {
  uint32_t count = 0;
  if (from >= to) return 0;
  for (uint32_t w = from / 64; w <= (to - 1) / 64; w++)
    count += (uint32_t)__builtin_popcountll(map[w] & bitmap_mask(w, from, to));
  return count;
}

// Sets the range, returns how many bits were clear.
static inline uint32_t bitmap_set(uint64_t *map, uint32_t from, uint32_t to) {
  uint32_t count = 0;
  if (from >= to) return 0;
  for (uint32_t w = from / 64; w <= (to - 1) / 64; w++) {
    uint64_t fresh = bitmap_mask(w, from, to) & ~map[w];
    map[w] |= fresh;
    count += (uint32_t)__builtin_popcountll(fresh);
  }
  return count;
}

// Clears the range, returns how many bits were set.
static inline uint32_t bitmap_clear(uint64_t *map, uint32_t from, uint32_t to) {
  uint32_t count = 0;
  if (from >= to) return 0;
  for (uint32_t w = from / 64; w <= (to - 1) / 64; w++) {
    uint64_t old = bitmap_mask(w, from, to) & map[w];
    map[w] &= ~old;
    count += (uint32_t)__builtin_popcountll(old);
  }
  return count;
}

// First set bit at or above `from`, or `bits` if there is none.
static inline uint32_t bitmap_next(const uint64_t *map, uint32_t from, uint32_t bits) {
  if (from >= bits) return bits;
  uint64_t word = map[from / 64] & (~UINT64_C(0) << from % 64);
  for (uint32_t w = from / 64;;) {
    if (word != 0) {
      uint32_t bit = w * 64 + (uint32_t)__builtin_ctzll(word);
      return bit < bits ? bit : bits;
    }
    if (++w >= bitmap_words(bits)) return bits;
    word = map[w];
  }
}

// First clear bit at or above `from`, or `limit`.
static inline uint32_t bitmap_run_end(const uint64_t *map, uint32_t from, uint32_t limit) {
  while (from < limit) {
    uint64_t clear = ~map[from / 64] >> from % 64;
    if (clear != 0) {
      uint32_t bit = from + (uint32_t)__builtin_ctzll(clear);
      return bit < limit ? bit : limit;
    }
    from = (from / 64 + 1) * 64;
  }
  return limit;
}

#endif  // HOSTS_BITMAP_H
