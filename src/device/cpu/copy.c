/* copy.c: CPY, CONT, ACC and FILL.
 *
 * A copy between tensors of one shape goes by strips of rows: read as floats (decoded, widened, or
 * turned where the source is a transposed view), then narrowed to the target's type. Dense tensors
 * of different shapes are the same elements in the same order, and count as one row each. */
#include "device/cpu/cpu.h"
#include "device/cpu/matrix.h"
#include "device/cpu/vector.h"

#include <string.h>

#define STRIP_ROWS 16
#define STRIP_COLS 1024 /* whole blocks of any type */

typedef struct copy {
    const loam_tensor *from, *to;
    loam_tensor flat_from, flat_to; /* where shapes differ */
    int64_t row_strips, col_strips;
    size_t worker_bytes;
    char *workers;
} copy;

static bool is_float16(loam_type type)
{
    return type == LOAM_TYPE_F16 || type == LOAM_TYPE_BF16;
}

static void flatten(loam_tensor *t)
{
    t->ne[0] = loam_tensor_ne(t);
    t->ne[1] = t->ne[2] = t->ne[3] = 1;
    loam_dense_strides(t->type, t->ne, t->nb);
}

static bool plan(copy *c, const loam_node *n)
{
    *c = (copy){.from = &n->src[0]->t, .to = &n->t};
    if (!loam_same_shape(c->from, c->to)) {
        if (!loam_is_contiguous(c->from) || !loam_is_contiguous(c->to))
            return false;
        c->flat_from = *c->from;
        c->flat_to = *c->to;
        flatten(&c->flat_from);
        flatten(&c->flat_to);
        c->from = &c->flat_from;
        c->to = &c->flat_to;
    }
    c->row_strips = cpu_ceil_div(c->to->ne[1], STRIP_ROWS);
    c->col_strips = cpu_ceil_div(c->to->ne[0], STRIP_COLS);
    if (c->to->type != LOAM_TYPE_F32)
        c->worker_bytes = STRIP_ROWS * STRIP_COLS * sizeof(float);
    return true;
}

static cpu_matrix source_of(const loam_tensor *t, int64_t i2, int64_t i3)
{
    return (cpu_matrix){.type = t->type,
                        .data = cpu_row(t, 0, i2, i3),
                        .rows = t->ne[1],
                        .cols = t->ne[0],
                        .row_bytes = t->nb[1],
                        .col_bytes = t->nb[0]};
}

static bool takes(const loam_node *n)
{
    copy c;
    if (!plan(&c, n))
        return false;
    cpu_matrix m = source_of(c.from, 0, 0);
    return cpu_matrix_is_readable(&m) &&
           (cpu_is_f32_rows(c.to) || (is_float16(c.to->type) && loam_rows_contiguous(c.to)));
}

static size_t scratch_bytes(const cpu_device *d, const loam_node *n)
{
    copy c;
    return plan(&c, n) ? c.worker_bytes * (size_t)d->n_threads : 0;
}

static void narrow_row(loam_type type, const float *from, char *to, int64_t n)
{
    if (type == LOAM_TYPE_BF16) {
        cpu_to_bf16(from, (uint16_t *)to, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((uint16_t *)to)[i] = loam_f32_to_f16(from[i]);
}

static void copy_strip(void *context, int64_t i, int worker)
{
    const copy *c = context;
    const loam_tensor *to = c->to;
    int64_t col = i % c->col_strips * STRIP_COLS, rest = i / c->col_strips;
    int64_t row = rest % c->row_strips * STRIP_ROWS, batch = rest / c->row_strips;
    int64_t i2 = batch % to->ne[2], i3 = batch / to->ne[2];
    int64_t n_rows = LOAM_MIN(to->ne[1] - row, STRIP_ROWS);
    int64_t n_cols = LOAM_MIN(to->ne[0] - col, STRIP_COLS);
    cpu_matrix from = source_of(c->from, i2, i3);
    if (to->type == LOAM_TYPE_F32) {
        cpu_matrix_load(NULL, &from, row, n_rows, col, n_cols,
                        (float *)cpu_row(to, row, i2, i3) + col,
                        (int64_t)(to->nb[1] / sizeof(float)));
        return;
    }
    float *floats = (float *)(c->workers + (size_t)worker * c->worker_bytes);
    cpu_matrix_load(NULL, &from, row, n_rows, col, n_cols, floats, n_cols);
    for (int64_t r = 0; r < n_rows; r++)
        narrow_row(to->type, floats + r * n_cols,
                   cpu_row(to, row + r, i2, i3) + (size_t)col * sizeof(uint16_t), n_cols);
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)e;
    copy c;
    plan(&c, n);
    c.workers = scratch;
    loam_pool_run(d->pool, c.row_strips * c.col_strips * c.to->ne[2] * c.to->ne[3], copy_strip, &c);
    return LOAM_OK;
}

/* ---- ACC ---------------------------------------------------------------------------------- */

static bool takes_acc(const loam_node *n)
{
    return cpu_is_f32_rows(&n->src[0]->t) && cpu_is_f32_rows(&n->src[1]->t) &&
           cpu_is_f32_rows(&n->t) && n->params.acc.nb[0] == sizeof(float);
}

static void copy_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    memcpy(cpu_flat_row(&n->t, r), cpu_flat_row(&n->src[0]->t, r),
           (size_t)n->t.ne[0] * sizeof(float));
}

static void add_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    loam_tensor target = n->src[1]->t;
    target.data = (char *)n->t.data + n->params.acc.offset_bytes;
    memcpy(target.nb, n->params.acc.nb, sizeof target.nb);
    cpu_vector_add_scaled((float *)cpu_flat_row(&target, r),
                          (const float *)cpu_flat_row(&n->src[1]->t, r), 1, target.ne[0]);
}

static loam_status run_acc(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    const loam_tensor *b = &n->src[1]->t;
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->t.ne[0], copy_row, (void *)(uintptr_t)n);
    cpu_run_rows(d, loam_tensor_rows(b), b->ne[0], add_row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

/* ---- FILL --------------------------------------------------------------------------------- */

static bool takes_fill(const loam_node *n)
{
    return cpu_is_f32_rows(&n->t);
}

static void fill_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    float *y = (float *)cpu_flat_row(&n->t, r);
    for (int64_t i = 0; i < n->t.ne[0]; i++)
        y[i] = n->params.fill.value;
}

static loam_status run_fill(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->t.ne[0], fill_row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

void loam_cpu_add_copy(cpu_kernel *table)
{
    const cpu_kernel kernel = {.takes = takes, .scratch_bytes = scratch_bytes, .run = run};
    table[LOAM_OP_CPY] = kernel;
    table[LOAM_OP_CONT] = kernel;
    table[LOAM_OP_ACC] = (cpu_kernel){.takes = takes_acc, .run = run_acc};
    table[LOAM_OP_FILL] = (cpu_kernel){.takes = takes_fill, .run = run_fill};
}
