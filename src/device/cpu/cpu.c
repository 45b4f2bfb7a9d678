/* cpu.c: the CPU device: buffers in host memory, the kernel table, and the run loop.
 *
 * The table starts full of the op references and each family of kernels enters what it does
 * better. Every node that has a reference can run here, so a graph never fails for want of a
 * kernel; what is fast is what the training graphs of the model architectures need. */
#include "device/cpu/cpu.h"

/* A tile of decoded weights is sized for a core's L2 cache; this only bounds it from above. */
#define DEFAULT_DECODE_SCRATCH ((size_t)64 << 20)

static cpu_device *cpu_of(loam_device *d)
{
    return (cpu_device *)d;
}

static const cpu_kernel *kernel_of(const cpu_device *d, const loam_node *n)
{
    const cpu_kernel *k = &d->kernels[n->op];
    return k->run && (!k->takes || k->takes(n)) ? k : NULL;
}

/* ---- the device --------------------------------------------------------------------------- */

static void cpu_close(loam_device *device)
{
    cpu_device *d = cpu_of(device);
    loam_pool_free(d->pool);
    loam_gemm_close(d->gemm);
    loam_free(d);
}

static const char *cpu_description(const loam_device *d)
{
    return ((const cpu_device *)d)->description;
}

static loam_status cpu_memory(loam_device *d, loam_device_memory *out, loam_error *e)
{
    (void)d;
    loam_cpu_memory(out);
    if (out->total_bytes == 0)
        return loam_fail(e, LOAM_E_DEVICE, "the system does not say how much memory it has");
    return LOAM_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define TASK_ELEMENTS 8192 /* enough work to be worth handing out */

typedef struct row_group {
    loam_task row;
    void *context;
    int64_t n_rows, rows_per_task;
} row_group;

static void run_row_group(void *context, int64_t i, int worker)
{
    const row_group *g = context;
    int64_t end = LOAM_MIN((i + 1) * g->rows_per_task, g->n_rows);
    for (int64_t r = i * g->rows_per_task; r < end; r++)
        g->row(g->context, r, worker);
}

void cpu_run_rows(cpu_device *d, int64_t n_rows, int64_t width, loam_task row, void *context)
{
    row_group g = {.row = row, .context = context, .n_rows = n_rows};
    g.rows_per_task = LOAM_MAX(1, TASK_ELEMENTS / LOAM_MAX(width, 1));
    loam_pool_run(d->pool, cpu_ceil_div(n_rows, g.rows_per_task), run_row_group, &g);
}

/* ---- nodes -------------------------------------------------------------------------------- */

static bool cpu_supports(const loam_device *d, const loam_node *n, char *reason)
{
    (void)d;
    const loam_op_def *def = loam_op_get(n->op);
    if (def->is_view || def->reference)
        return true;
    snprintf(reason, LOAM_REASON_BYTES, "%s has no reference", def->name);
    return false;
}

static size_t cpu_scratch_bytes(const loam_device *device, const loam_node *n)
{
    const cpu_device *d = (const cpu_device *)device;
    if (loam_op_get(n->op)->is_view || loam_tensor_ne(&n->t) == 0)
        return 0;
    const cpu_kernel *k = kernel_of(d, n);
    return k && k->scratch_bytes ? k->scratch_bytes(d, n) : 0;
}

static loam_status run_node(cpu_device *d, const loam_node *n, loam_buffer *scratch, loam_error *e)
{
    const loam_op_def *def = loam_op_get(n->op);
    if (def->is_view || loam_tensor_ne(&n->t) == 0)
        return LOAM_OK;
    const cpu_kernel *k = kernel_of(d, n);
    if (!k) {
        if (!def->reference)
            return loam_fail(e, LOAM_E_UNSUPPORTED, "node '%s': the CPU cannot run %s", n->name,
                             def->name);
        return def->reference(n, e);
    }
    size_t needed = k->scratch_bytes ? k->scratch_bytes(d, n) : 0;
    size_t given = scratch ? scratch->bytes : 0;
    if (needed > given)
        return loam_fail(e, LOAM_E_DEVICE,
                         "node '%s' (%s) needs %zu bytes of scratch and was given %zu", n->name,
                         def->name, needed, given);
    LOAM_TRY(k->run(d, n, scratch ? scratch->host : NULL, e));
    loam_error failure = {0};
    loam_status status = loam_gemm_status(d->gemm, &failure);
    if (status != LOAM_OK)
        return loam_fail(e, status, "node '%s' (%s): %s", n->name, def->name, failure.message);
    return LOAM_OK;
}

static loam_status cpu_run(loam_device *device, loam_node *const *nodes, int n_nodes,
                           loam_buffer *scratch, loam_error *e)
{
    cpu_device *d = cpu_of(device);
    loam_status status = LOAM_OK;
    for (int i = 0; i < n_nodes && status == LOAM_OK; i++) {
        /* A handler that ran inside oneDNN's sgemm would overwrite its work area, which that uses
         * as a stack. Node by node, so that a signal waits for milliseconds. */
        sigset_t before;
        loam_signals_hold(&before);
        status = run_node(d, nodes[i], scratch, e);
        loam_signals_release(&before);
    }
    return status;
}

static loam_status cpu_synchronize(loam_device *d, loam_error *e)
{
    (void)d;
    (void)e;
    return LOAM_OK; /* run() returns when the work is done */
}

static void cpu_set_scratch_limit(loam_device *device, size_t bytes)
{
    cpu_device *d = cpu_of(device);
    d->decode_scratch_bytes = bytes ? bytes : d->default_decode_scratch_bytes;
}

static const loam_device_api cpu_api = {
    .kind = "cpu",
    .close = cpu_close,
    .description = cpu_description,
    .memory = cpu_memory,
    .buffer_alloc = loam_host_buffer_alloc,
    .buffer_map = loam_host_buffer_map,
    .buffer_free = loam_host_buffer_free,
    .buffer_write = loam_host_buffer_write,
    .buffer_read = loam_host_buffer_read,
    .supports = cpu_supports,
    .scratch_bytes = cpu_scratch_bytes,
    .run = cpu_run,
    .synchronize = cpu_synchronize,
    .set_scratch_limit = cpu_set_scratch_limit,
};

static void fill_table(cpu_kernel *table)
{
    loam_cpu_add_mul_mat(table);
    loam_cpu_add_out_prod(table);
    loam_cpu_add_attention(table);
    loam_cpu_add_loss(table);
    loam_cpu_add_linear_loss(table);
    loam_cpu_add_norm(table);
    loam_cpu_add_softmax(table);
    loam_cpu_add_glu(table);
    loam_cpu_add_rope(table);
    loam_cpu_add_rows(table);
    loam_cpu_add_copy(table);
    loam_cpu_add_elementwise(table);
    loam_cpu_add_reduce(table);
    loam_cpu_add_optimizer(table);
}

loam_status loam_device_cpu_open(const loam_device_options *o, loam_device **out, loam_error *e)
{
    *out = NULL;
    loam_device_options options = o ? *o : (loam_device_options){0};
    cpu_device *d = loam_alloc(sizeof *d);
    if (!d)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the CPU device");
    d->base.api = &cpu_api;
    d->compute = options.compute;
    d->multiplies_bf16 = d->compute == LOAM_COMPUTE_BF16 && loam_gemm_has_bf16();
    d->decode_scratch_bytes =
        options.decode_scratch_bytes ? options.decode_scratch_bytes : DEFAULT_DECODE_SCRATCH;
    d->default_decode_scratch_bytes = d->decode_scratch_bytes;
    loam_status status = loam_pool_create(options.n_threads, &d->pool, e);
    if (status == LOAM_OK) {
        d->n_threads = loam_pool_size(d->pool);
        status = loam_gemm_open(d->n_threads, &d->gemm, e);
    }
    if (status != LOAM_OK) {
        cpu_close(&d->base);
        return status;
    }
    fill_table(d->kernels);
    snprintf(d->description, sizeof d->description, "CPU, %d thread%s, %s, %s products",
             d->n_threads, d->n_threads == 1 ? "" : "s", loam_gemm_library(),
             d->compute == LOAM_COMPUTE_BF16 ? "BF16" : "F32");
    *out = &d->base;
    return LOAM_OK;
}
