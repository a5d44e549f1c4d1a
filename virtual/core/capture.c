// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "attach.h"

enum { MAGIC_NANOSECONDS = 0xa1b23c4d, VERSION_MAJOR = 2, VERSION_MINOR = 4, LINKTYPE_ETHERNET = 1 };
enum { NANOSECONDS = 1000000000, BUFFER_BYTES = 1 << 18 };

struct capture {
  FILE *file;
  uint32_t snap_bytes;
  int problem;  // negative errno of the first failure
};

static void put(capture_t *capture, const void *data, size_t bytes) {
  if (capture->problem == 0 && fwrite(data, 1, bytes, capture->file) != bytes) capture->problem = -errno;
}

static int frame(void *context, uint64_t now_ns, int outgoing, const uint8_t *data, uint32_t bytes,
                 uint32_t wire_bytes) {
  (void)outgoing;
  capture_t *capture = context;
  uint32_t kept = bytes < capture->snap_bytes ? bytes : capture->snap_bytes;
  uint32_t header[4] = {(uint32_t)(now_ns / NANOSECONDS), (uint32_t)(now_ns % NANOSECONDS), kept, wire_bytes};
  put(capture, header, sizeof header);
  put(capture, data, kept);
  return 0;
}

int capture_open(const char *path, uint32_t snap_bytes, capture_t **out) {
  capture_t *capture = calloc(1, sizeof *capture);
  if (capture == NULL) return -ENOMEM;
  capture->snap_bytes = snap_bytes;
  capture->file = fopen(path, "wb");
  if (capture->file == NULL) {
    int problem = -errno;
    free(capture);
    return problem;
  }
  setvbuf(capture->file, NULL, _IOFBF, BUFFER_BYTES);
  uint32_t header[6] = {MAGIC_NANOSECONDS, VERSION_MINOR << 16 | VERSION_MAJOR, 0, 0, snap_bytes, LINKTYPE_ETHERNET};
  put(capture, header, sizeof header);
  *out = capture;
  return 0;
}

struct sw_observer capture_observer(capture_t *capture) {
  return (struct sw_observer){.context = capture, .frame = frame};
}

int capture_close(capture_t *capture) {
  int problem = capture->problem;
  if (fclose(capture->file) != 0 && problem == 0) problem = -errno;
  free(capture);
  return problem;
}
