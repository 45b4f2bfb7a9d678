/* reference.c: a device that runs the op table's references and nothing else: one thread, host
 * memory, any float type. Slow on purpose; it is what the others are judged by. */
#include "device/device.h"

#include <string.h>
#include <unistd.h>

static void reference_close(loam_device *d)
{
    loam_free(d);
}

static const char *reference_description(const loam_device *d)
{
    (void)d;
    return "the op table's references, one thread";
}

static loam_status reference_memory(loam_device *d, loam_device_memory *out, loam_error *e)
{
    (void)d;
    long page = sysconf(_SC_PAGESIZE), total = sysconf(_SC_PHYS_PAGES);
    if (page < 1 || total < 1)
        return loam_fail(e, LOAM_E_DEVICE, "the system does not say how much memory it has");
    out->total_bytes = (size_t)total * (size_t)page;
    out->free_bytes = out->total_bytes; /* an upper bound: nothing is planned by it */
    return LOAM_OK;
}

/* ---- buffers ------------------------------------------------------------------------------ */

static loam_status reference_buffer_map(loam_device *d, const void *host, size_t bytes,
                                        loam_buffer **out, loam_error *e)
{
    *out = NULL;
    loam_buffer *b = loam_alloc(sizeof *b);
    if (!b)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a buffer's description");
    *b = (loam_buffer){
        .device = d, .host = (void *)(uintptr_t)host, .bytes = bytes, .is_mapped = true};
    *out = b;
    return LOAM_OK;
}

static loam_status reference_buffer_alloc(loam_device *d, size_t bytes, loam_buffer **out,
                                          loam_error *e)
{
    *out = NULL;
    void *host = loam_alloc(bytes);
    if (!host)
        return loam_fail(e, LOAM_E_MEMORY, "no host memory for a buffer of %zu bytes", bytes);
    loam_status status = reference_buffer_map(d, host, bytes, out, e);
    if (status != LOAM_OK)
        loam_free(host);
    else
        (*out)->is_mapped = false;
    return status;
}

static void reference_buffer_free(loam_buffer *b)
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

static loam_status reference_buffer_write(loam_buffer *b, size_t offset_bytes, const void *src,
                                          size_t bytes, loam_error *e)
{
    LOAM_TRY(check_range(b, offset_bytes, bytes, "a write", e));
    if (b->is_mapped)
        return loam_fail(e, LOAM_E_USAGE, "a write to a mapped buffer, which is read-only");
    memcpy((char *)b->host + offset_bytes, src, bytes);
    return LOAM_OK;
}

static loam_status reference_buffer_read(loam_buffer *b, size_t offset_bytes, void *dst,
                                         size_t bytes, loam_error *e)
{
    LOAM_TRY(check_range(b, offset_bytes, bytes, "a read", e));
    memcpy(dst, (const char *)b->host + offset_bytes, bytes);
    return LOAM_OK;
}

/* ---- nodes -------------------------------------------------------------------------------- */

static bool reference_supports(const loam_device *d, const loam_node *n, char *reason)
{
    (void)d;
    const loam_op_def *def = loam_op_get(n->op);
    if (def->is_view || def->reference)
        return true;
    snprintf(reason, LOAM_REASON_BYTES, "%s has no reference", def->name);
    return false;
}

static size_t reference_scratch_bytes(const loam_device *d, const loam_node *n)
{
    (void)d;
    (void)n;
    return 0;
}

static loam_status reference_run(loam_device *d, loam_node *const *nodes, int n_nodes,
                                 loam_buffer *scratch, loam_error *e)
{
    (void)scratch;
    for (int i = 0; i < n_nodes; i++) {
        const loam_op_def *def = loam_op_get(nodes[i]->op);
        if (def->is_view)
            continue;
        char reason[LOAM_REASON_BYTES];
        if (!reference_supports(d, nodes[i], reason))
            return loam_fail(e, LOAM_E_UNSUPPORTED, "node '%s': %s", nodes[i]->name, reason);
        LOAM_TRY(def->reference(nodes[i], e));
    }
    return LOAM_OK;
}

static loam_status reference_synchronize(loam_device *d, loam_error *e)
{
    (void)d;
    (void)e;
    return LOAM_OK;
}

static void reference_set_scratch_limit(loam_device *d, size_t bytes)
{
    (void)d;
    (void)bytes;
}

static const loam_device_api reference_api = {
    .kind = "reference",
    .close = reference_close,
    .description = reference_description,
    .memory = reference_memory,
    .buffer_alloc = reference_buffer_alloc,
    .buffer_map = reference_buffer_map,
    .buffer_free = reference_buffer_free,
    .buffer_write = reference_buffer_write,
    .buffer_read = reference_buffer_read,
    .supports = reference_supports,
    .scratch_bytes = reference_scratch_bytes,
    .run = reference_run,
    .synchronize = reference_synchronize,
    .set_scratch_limit = reference_set_scratch_limit,
};

loam_status loam_device_reference_open(loam_device **out, loam_error *e)
{
    *out = NULL;
    loam_device *d = loam_alloc(sizeof *d);
    if (!d)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the reference device");
    d->api = &reference_api;
    *out = d;
    return LOAM_OK;
}
