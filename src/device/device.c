/* device.c: devices by name, and the calls that only forward. */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

static loam_status open_reference(const loam_device_options *o, loam_device **out, loam_error *e)
{
    (void)o;
    return loam_device_reference_open(out, e);
}

typedef struct device_kind {
    const char *name;
    loam_status (*open)(const loam_device_options *o, loam_device **out, loam_error *e);
    bool has_index; /* there may be several of them */
} device_kind;

static const device_kind kinds[] = {
    {"cpu", loam_device_cpu_open, false},
#ifdef LOAM_DEVICE_CUDA
    {"cuda", loam_device_cuda_open, true},
#endif
#ifdef LOAM_DEVICE_METAL
    {"metal", loam_device_metal_open, true},
#endif
    {"reference", open_reference, false},
};

const char *const *loam_device_names(void)
{
    static const char *const names[] = {
        "cpu",
#ifdef LOAM_DEVICE_CUDA
        "cuda",
#endif
#ifdef LOAM_DEVICE_METAL
        "metal",
#endif
        "reference", NULL,
    };
    return names;
}

static loam_status unknown_device(const char *name, loam_error *e)
{
    char all[128] = "";
    size_t length = 0;
    for (int k = 0; k < LOAM_COUNT(kinds); k++)
        length += (size_t)snprintf(all + length, sizeof all - length, "%s%s", k ? ", " : "",
                                   kinds[k].name);
    return loam_fail(e, LOAM_E_USAGE, "no device '%s' in this build; it has: %s", name, all);
}

/* The number after the colon of "cuda:1"; false where it is none. */
static bool parse_index(const char *text, int *out)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value > 1023)
        return false;
    *out = (int)value;
    return true;
}

loam_status loam_device_open(const char *name, const loam_device_options *o, loam_device **out,
                             loam_error *e)
{
    *out = NULL;
    loam_device_options options = {0};
    if (o)
        options = *o;
    const char *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    for (int k = 0; k < LOAM_COUNT(kinds); k++) {
        if (strlen(kinds[k].name) != length || strncmp(kinds[k].name, name, length) != 0)
            continue;
        if (colon && !kinds[k].has_index)
            return loam_fail(e, LOAM_E_USAGE,
                             "device '%s': there is only one '%s'; leave ':%s' out", name,
                             kinds[k].name, colon + 1);
        if (colon && !parse_index(colon + 1, &options.index))
            return loam_fail(e, LOAM_E_USAGE, "device '%s': '%s' is no card's number", name,
                             colon + 1);
        return kinds[k].open(&options, out, e);
    }
    return unknown_device(name, e);
}

void loam_device_close(loam_device *d)
{
    if (d)
        d->api->close(d);
}

/* ---- buffers ------------------------------------------------------------------------------ */

loam_status loam_buffer_alloc(loam_device *d, size_t bytes, loam_buffer **out, loam_error *e)
{
    return d->api->buffer_alloc(d, bytes, out, e);
}

void loam_buffer_free(loam_buffer *b)
{
    if (b)
        b->device->api->buffer_free(b);
}

loam_status loam_buffer_write(loam_buffer *b, size_t offset_bytes, const void *src, size_t bytes,
                              loam_error *e)
{
    return b->device->api->buffer_write(b, offset_bytes, src, bytes, e);
}

loam_status loam_buffer_read(loam_buffer *b, size_t offset_bytes, void *dst, size_t bytes,
                             loam_error *e)
{
    return b->device->api->buffer_read(b, offset_bytes, dst, bytes, e);
}

void loam_node_bind(loam_node *n, loam_buffer *b, size_t offset_bytes)
{
    n->buffer = b;
    n->offset_bytes = offset_bytes;
    n->t.data = b->host ? (char *)b->host + offset_bytes : NULL;
}
