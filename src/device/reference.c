/* reference.c: a device that runs the op table's references and nothing else: one thread, host
 * memory, any float type. Slow on purpose; it is what the others are judged by. */
#include "device/device.h"

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
    .buffer_alloc = loam_host_buffer_alloc,
    .buffer_map = loam_host_buffer_map,
    .buffer_free = loam_host_buffer_free,
    .buffer_write = loam_host_buffer_write,
    .buffer_read = loam_host_buffer_read,
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
