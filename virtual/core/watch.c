// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "attach.h"

struct watch {
  sw_device *device;
  uint32_t port;
  uint32_t count;
  struct sw_observer observers[WATCH_OBSERVERS];
};

static int show_all(void *context, uint64_t now_ns, int outgoing, const uint8_t *data, uint32_t bytes,
                    uint32_t wire_bytes) {
  const watch_t *watch = context;
  int stop = 0;
  for (uint32_t i = 0; i < watch->count; i++) {
    const struct sw_observer *observer = &watch->observers[i];
    stop |= observer->frame(observer->context, now_ns, outgoing, data, bytes, wire_bytes);
  }
  return stop;
}

// A single observer is asked directly.
static int install(watch_t *watch) {
  struct sw_observer all = {.context = watch, .frame = show_all};
  const struct sw_observer *chosen = watch->count > 1 ? &all : watch->count == 1 ? watch->observers : NULL;
  return sw_port_observe(watch->device, watch->port, chosen) == SW_OK ? ATTACH_OK : ATTACH_ENGINE;
}

watch_t *watch_create(sw_device *device, uint32_t port) {
  watch_t *watch = calloc(1, sizeof *watch);
  if (watch != NULL) *watch = (watch_t){.device = device, .port = port};
  return watch;
}

void watch_destroy(watch_t *watch) { free(watch); }

int watch_add(watch_t *watch, const struct sw_observer *observer) {
  if (watch->count == WATCH_OBSERVERS || observer->frame == NULL) return ATTACH_INVALID;
  watch->observers[watch->count++] = *observer;
  int status = install(watch);
  if (status != ATTACH_OK) watch->count--;
  return status;
}

int watch_remove(watch_t *watch, const void *context) {
  for (uint32_t i = 0; i < watch->count; i++) {
    if (watch->observers[i].context != context) continue;
    watch->count--;
    for (; i < watch->count; i++) watch->observers[i] = watch->observers[i + 1];
    return install(watch);
  }
  return ATTACH_NOT_FOUND;
}
