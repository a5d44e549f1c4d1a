/* SPDX-License-Identifier: Apache-2.0 */
/* pcap files of a port's frames: nanosecond timestamps, buffered. */
#include "sw_internal.h"

#define BUFFER_BYTES (256u << 10)
#define PCAP_NS_MAGIC 0xa1b23c4du
#define LINKTYPE_ETHERNET 1u

static FILE *open_file(const char *directory, const char *name, const char *suffix)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s_%s.pcap", directory, name, suffix);
    if (length < 0 || (size_t)length >= sizeof path)
        return NULL;
    FILE *file = fopen(path, "wbe");
    if (!file)
        return NULL;
    const uint32_t head[6] = {PCAP_NS_MAGIC, 2u | 4u << 16, 0, 0, 65535, LINKTYPE_ETHERNET};
    setvbuf(file, NULL, _IOFBF, BUFFER_BYTES);
    if (fwrite(head, sizeof head, 1, file) != 1) {
        fclose(file);
        return NULL;
    }
    return file;
}

SW_PUBLIC int sw_port_capture(sw_device *device, uint32_t number, const char *directory, const char *name)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port) {
        sw_capture_close(&port->capture);
        port->capture.in = open_file(directory, name, "in");
        port->capture.out = port->capture.in ? open_file(directory, name, "out") : NULL;
        rc = SW_OK;
        if (!port->capture.out) {
            rc = sw_fail(device->engine, directory);
            sw_capture_close(&port->capture);
        }
        sw_port_refresh(port);
    }
    sw_unlock(device->engine);
    return rc;
}

SW_PUBLIC int sw_port_flush_capture(sw_device *device, uint32_t number)
{
    int rc = SW_E_NOT_FOUND;
    sw_lock(device->engine);
    sw_port *port = sw_device_port(device, number);
    if (port) {
        rc = SW_OK;
        if ((port->capture.in && fflush(port->capture.in)) || (port->capture.out && fflush(port->capture.out)))
            rc = sw_fail(device->engine, "capture");
    }
    sw_unlock(device->engine);
    return rc;
}

void sw_capture_write(FILE *file, const sw_engine *engine, const uint8_t *data, uint32_t bytes, uint32_t wire_bytes)
{
    uint64_t t = engine->epoch_ns + engine->now_ns;
    const uint32_t head[4] = {(uint32_t)(t / 1000000000), (uint32_t)(t % 1000000000), bytes, wire_bytes};
    /* A full disk loses records; the packet loop goes on. */
    if (fwrite(head, sizeof head, 1, file) == 1)
        (void)!fwrite(data, 1, bytes, file);
}

void sw_capture_close(struct sw_capture *capture)
{
    if (capture->in)
        fclose(capture->in);
    if (capture->out)
        fclose(capture->out);
    capture->in = capture->out = NULL;
}
