// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void flow_recycle(flow_memory_t **free_list, flow_memory_t *flow) {
  flow->next_free = *free_list;
  *free_list = flow;
}

flow_memory_t *flow_obtain(flow_memory_t **free_list, size_t bytes, uint32_t words) {
  flow_memory_t *flow = *free_list;
  if (flow != NULL)
    *free_list = flow->next_free;
  else if ((flow = calloc(1, bytes)) == NULL)
    return NULL;
  flow_memory_t memory = *flow;
  size_t map_bytes = (size_t)words * 2 * sizeof *memory.maps;
  if (memory.capacity < 2 * words) {
    free(memory.maps);
    memory.maps = malloc(map_bytes);
    memory.capacity = memory.maps == NULL ? 0 : 2 * words;
  }
  memset(flow, 0, bytes);
  flow->maps = memory.maps;
  flow->capacity = memory.capacity;
  if (memory.maps == NULL) {
    flow_recycle(free_list, flow);
    return NULL;
  }
  memset(memory.maps, 0, map_bytes);
  return flow;
}

void flow_free(flow_memory_t *flow) {
  if (flow == NULL) return;
  free(flow->maps);
  free(flow);
}

void flow_free_list(flow_memory_t *free_list) {
  while (free_list != NULL) {
    flow_memory_t *next = free_list->next_free;
    flow_free(free_list);
    free_list = next;
  }
}
