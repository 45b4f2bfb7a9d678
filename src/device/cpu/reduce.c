/* reduce.c: SUM, SUM_ROWS, GRAD_NORM and REPEAT_BACK. Pieces of a fixed size are summed in double
 * by whichever worker comes by, and the pieces' sums are added in order. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"
#include "device/cpu/vector.h"

#include <math.h>

#define PIECE 16384 /* elements of a row summed by one task */
#define STRIP 256   /* columns of a REPEAT_BACK */

/* ---- SUM and GRAD_NORM -------------------------------------------------------------------- */

typedef struct total {
    loam_tensor x; /* one row where the operand is dense */
    bool of_squares;
    int64_t pieces; /* of a row */
    double *sums;   /* scratch [rows][pieces] */
} total;

static total plan_total(const loam_node *n)
{
    total t = {.x = n->src[0]->t, .of_squares = n->op == LOAM_OP_GRAD_NORM};
    if (loam_is_contiguous(&t.x)) {
        t.x.ne[0] = loam_tensor_ne(&t.x);
        t.x.ne[1] = t.x.ne[2] = t.x.ne[3] = 1;
        loam_dense_strides(t.x.type, t.x.ne, t.x.nb);
    }
    t.pieces = cpu_ceil_div(t.x.ne[0], PIECE);
    return t;
}

static bool takes_total(const loam_node *n)
{
    return cpu_is_f32_rows(&n->src[0]->t) && n->t.type == LOAM_TYPE_F32;
}

static size_t total_scratch(const cpu_device *d, const loam_node *n)
{
    (void)d;
    total t = plan_total(n);
    return (size_t)(loam_tensor_rows(&t.x) * t.pieces) * sizeof *t.sums;
}

static void sum_piece(void *context, int64_t i, int worker)
{
    (void)worker;
    const total *t = context;
    int64_t first = i % t->pieces * PIECE, n = LOAM_MIN(t->x.ne[0] - first, PIECE);
    const float *x = (const float *)cpu_flat_row(&t->x, i / t->pieces) + first;
    t->sums[i] = t->of_squares ? cpu_vector_dot(x, x, n) : cpu_vector_sum(x, n);
}

static loam_status run_total(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)e;
    total t = plan_total(n);
    t.sums = (double *)scratch;
    int64_t n_pieces = loam_tensor_rows(&t.x) * t.pieces;
    cpu_run_rows(d, n_pieces, LOAM_MIN(t.x.ne[0], PIECE), sum_piece, &t);
    double sum = 0;
    for (int64_t i = 0; i < n_pieces; i++)
        sum += t.sums[i];
    *(float *)n->t.data = (float)(t.of_squares ? sqrt(sum) : sum);
    return LOAM_OK;
}

/* ---- SUM_ROWS ----------------------------------------------------------------------------- */

static bool takes_rows(const loam_node *n)
{
    return cpu_is_f32_rows(&n->src[0]->t) && cpu_is_f32_rows(&n->t);
}

static void sum_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    const loam_tensor *x = &n->src[0]->t;
    *(float *)cpu_flat_row(&n->t, r) =
        (float)cpu_vector_sum((const float *)cpu_flat_row(x, r), x->ne[0]);
}

static loam_status run_sum_rows(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->src[0]->t.ne[0], sum_row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

/* ---- REPEAT_BACK -------------------------------------------------------------------------- */

CPU_CLONES
static void add_to_doubles(double *sums, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] += (double)x[i];
}

/* A strip of a row of the result: the sum of that strip over all tiles, in order. */
static void sum_tiles(void *context, int64_t i, int worker)
{
    (void)worker;
    const loam_node *n = context;
    const loam_tensor *a = &n->src[0]->t, *y = &n->t;
    int64_t strips = cpu_ceil_div(y->ne[0], STRIP), r = i / strips, first = i % strips * STRIP;
    int64_t width = LOAM_MIN(y->ne[0] - first, STRIP);
    double sums[STRIP] = {0};
    for (int64_t i3 = r / y->ne[1] / y->ne[2]; i3 < a->ne[3]; i3 += y->ne[3])
        for (int64_t i2 = r / y->ne[1] % y->ne[2]; i2 < a->ne[2]; i2 += y->ne[2])
            for (int64_t i1 = r % y->ne[1]; i1 < a->ne[1]; i1 += y->ne[1]) {
                const float *x = (const float *)cpu_row(a, i1, i2, i3);
                if (y->ne[0] == 1) {
                    sums[0] += cpu_vector_sum(x, a->ne[0]);
                    continue;
                }
                for (int64_t tile = first; tile < a->ne[0]; tile += y->ne[0])
                    add_to_doubles(sums, x + tile, width);
            }
    float *out = (float *)cpu_flat_row(y, r) + first;
    for (int64_t k = 0; k < width; k++)
        out[k] = (float)sums[k];
}

static bool takes_back(const loam_node *n)
{
    return cpu_is_f32_rows(&n->src[0]->t) && cpu_is_f32_rows(&n->t);
}

static loam_status run_back(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    int64_t strips = cpu_ceil_div(n->t.ne[0], STRIP) * loam_tensor_rows(&n->t);
    cpu_run_rows(d, strips, loam_tensor_ne(&n->src[0]->t) / LOAM_MAX(strips, 1), sum_tiles,
                 (void *)(uintptr_t)n);
    return LOAM_OK;
}

void loam_cpu_add_reduce(cpu_kernel *table)
{
    const cpu_kernel sum = {.takes = takes_total, .scratch_bytes = total_scratch, .run = run_total};
    table[LOAM_OP_SUM] = sum;
    table[LOAM_OP_GRAD_NORM] = sum;
    table[LOAM_OP_SUM_ROWS] = (cpu_kernel){.takes = takes_rows, .run = run_sum_rows};
    table[LOAM_OP_REPEAT_BACK] = (cpu_kernel){.takes = takes_back, .run = run_back};
}
