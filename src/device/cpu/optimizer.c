/* optimizer.c: OPT_STEP_ADAMW, OPT_STEP_SGD and CLIP_NORM over dense F32 tensors, in pieces. The
 * arithmetic is double, as in the references: the steps wait for memory, not for it. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

#include <math.h>

#define PIECE 8192

static bool is_dense(const loam_tensor *t)
{
    return t->type == LOAM_TYPE_F32 && loam_is_contiguous(t);
}

static bool takes(const loam_node *n)
{
    for (int i = 0; i < n->n_src; i++)
        if (!is_dense(&n->src[i]->t))
            return false;
    return is_dense(&n->t);
}

/* hyper: alpha, beta1, beta2, eps, weight decay, 1/(1 - beta1^t), 1/(1 - beta2^t). */
CPU_CLONES
static void adamw(float *p, const float *g, float *m, float *v, const float *hyper, int64_t n)
{
    const double alpha = hyper[0], beta1 = hyper[1], beta2 = hyper[2], eps = hyper[3];
    const double keep = 1 - alpha * hyper[4], c1 = hyper[5], c2 = hyper[6];
    for (int64_t i = 0; i < n; i++) {
        const double grad = g[i];
        const double mean = beta1 * m[i] + (1 - beta1) * grad;
        const double square = beta2 * v[i] + (1 - beta2) * grad * grad;
        m[i] = (float)mean;
        v[i] = (float)square;
        p[i] = (float)(p[i] * keep - alpha * (c1 * mean) / (sqrt(c2 * square) + eps));
    }
}

static void adamw_piece(void *context, int64_t i, int worker)
{
    (void)worker;
    const loam_node *n = context;
    int64_t at = i * PIECE;
    adamw((float *)n->t.data + at, (const float *)n->src[1]->t.data + at,
          (float *)n->src[2]->t.data + at, (float *)n->src[3]->t.data + at, n->src[4]->t.data,
          LOAM_MIN(loam_tensor_ne(&n->t) - at, PIECE));
}

/* hyper: alpha, weight decay. */
CPU_CLONES
static void sgd(float *p, const float *g, const float *hyper, int64_t n)
{
    const double alpha = hyper[0], keep = 1 - alpha * hyper[1];
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)(p[i] * keep - alpha * g[i]);
}

static void sgd_piece(void *context, int64_t i, int worker)
{
    (void)worker;
    const loam_node *n = context;
    int64_t at = i * PIECE;
    sgd((float *)n->t.data + at, (const float *)n->src[1]->t.data + at, n->src[2]->t.data,
        LOAM_MIN(loam_tensor_ne(&n->t) - at, PIECE));
}

static void clip_piece(void *context, int64_t i, int worker)
{
    (void)worker;
    const loam_node *n = context;
    float *x = (float *)n->t.data + i * PIECE;
    double factor = (double)n->params.clip.max_norm / *(const float *)n->src[1]->t.data;
    int64_t count = LOAM_MIN(loam_tensor_ne(&n->t) - i * PIECE, PIECE);
    for (int64_t k = 0; k < count; k++)
        x[k] = (float)(x[k] * factor);
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    loam_task piece = n->op == LOAM_OP_OPT_STEP_ADAMW ? adamw_piece : sgd_piece;
    loam_pool_run(d->pool, cpu_ceil_div(loam_tensor_ne(&n->t), PIECE), piece, (void *)(uintptr_t)n);
    return LOAM_OK;
}

/* Leaves a as it is where the norm is small enough, or not finite: the step is not taken then. */
static loam_status run_clip(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    float norm = *(const float *)n->src[1]->t.data;
    if (isfinite(norm) && norm > n->params.clip.max_norm)
        loam_pool_run(d->pool, cpu_ceil_div(loam_tensor_ne(&n->t), PIECE), clip_piece,
                      (void *)(uintptr_t)n);
    return LOAM_OK;
}

void loam_cpu_add_optimizer(cpu_kernel *table)
{
    table[LOAM_OP_OPT_STEP_ADAMW] = (cpu_kernel){.takes = takes, .run = run};
    table[LOAM_OP_OPT_STEP_SGD] = (cpu_kernel){.takes = takes, .run = run};
    table[LOAM_OP_CLIP_NORM] = (cpu_kernel){.takes = takes, .run = run_clip};
}
