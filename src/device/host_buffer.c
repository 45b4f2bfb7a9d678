/* host_buffer.c: buffers in host memory, for the devices that compute there. */
#include "device/device.h"

#include <string.h>

static loam_status new_buffer(loam_device *d, void *host, size_t bytes, bool is_mapped,
                              loam_buffer **out, loam_error *e)
{
    loam_buffer *b = loam_alloc(sizeof *b);
    if (!b)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a buffer's description");
    *b = (loam_buffer){.device = d, .host = host, .bytes = bytes, .is_mapped = is_mapped};
    *out = b;
    return LOAM_OK;
}

loam_status loam_host_buffer_alloc(loam_device *d, size_t bytes, loam_buffer **out, loam_error *e)
{
    *out = NULL;
    void *host = loam_alloc(bytes);
    if (!host)
        return loam_fail(e, LOAM_E_MEMORY,
                         "no host memory for a buffer of %zu bytes; use a shorter sequence, a "
                         "smaller batch or gradient checkpointing",
                         bytes);
    loam_status status = new_buffer(d, host, bytes, false, out, e);
    if (status != LOAM_OK)
        loam_free(host);
    return status;
}

loam_status loam_host_buffer_map(loam_device *d, const void *host, size_t bytes, loam_buffer **out,
                                 loam_error *e)
{
    *out = NULL;
    /* The map stays read-only by agreement: weights are leaves that no node writes. */
    return new_buffer(d, (void *)(uintptr_t)host, bytes, true, out, e);
}

void loam_host_buffer_free(loam_buffer *b)
{
    if (!b->is_mapped)
        loam_free(b->host);
    loam_free(b);
}

static loam_status check_range(const loam_buffer *b, size_t offset_bytes, size_t bytes,
                               const char *what, loam_error *e)
{
    if (offset_bytes > b->bytes || bytes > b->bytes - offset_bytes)
        return loam_fail(e, LOAM_E_USAGE, "%s of %zu bytes at %zu is outside a buffer of %zu", what,
                         bytes, offset_bytes, b->bytes);
    return LOAM_OK;
}

loam_status loam_host_buffer_write(loam_buffer *b, size_t offset_bytes, const void *src,
                                   size_t bytes, loam_error *e)
{
    LOAM_TRY(check_range(b, offset_bytes, bytes, "a write", e));
    if (b->is_mapped)
        return loam_fail(e, LOAM_E_USAGE, "a write to a mapped buffer, which is read-only");
    if (bytes > 0)
        memcpy((char *)b->host + offset_bytes, src, bytes);
    return LOAM_OK;
}

loam_status loam_host_buffer_read(loam_buffer *b, size_t offset_bytes, void *dst, size_t bytes,
                                  loam_error *e)
{
    LOAM_TRY(check_range(b, offset_bytes, bytes, "a read", e));
    if (bytes > 0)
        memcpy(dst, (const char *)b->host + offset_bytes, bytes);
    return LOAM_OK;
}
