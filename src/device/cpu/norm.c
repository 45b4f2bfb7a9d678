/* norm.c: RMS_NORM and RMS_NORM_BACK, a row at a time, with the rows' sums in double. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"
#include "device/cpu/vector.h"

#include <math.h>

static bool takes(const loam_node *n)
{
    for (int i = 0; i < n->n_src; i++)
        if (!cpu_is_f32_rows(&n->src[i]->t))
            return false;
    return cpu_is_f32_rows(&n->t);
}

static void norm_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    int64_t width = n->t.ne[0];
    const float *x = (const float *)cpu_flat_row(&n->src[0]->t, r);
    double mean = cpu_vector_dot(x, x, width) / (double)width;
    double inverse = 1 / sqrt(mean + (double)n->params.norm.eps);
    cpu_vector_scale((float *)cpu_flat_row(&n->t, r), x, (float)inverse, 0, width);
}

CPU_CLONES
static void combine(float *dx, const float *dy, const float *x, float inverse, float slope,
                    int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = inverse * dy[i] - slope * x[i];
}

/* dx = r (dy - x r^2 mean(dy x)), r = 1 / sqrt(mean(x^2) + eps) */
static void norm_back_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    int64_t width = n->t.ne[0];
    const float *dy = (const float *)cpu_flat_row(&n->src[0]->t, r);
    const float *x = (const float *)cpu_flat_row(&n->src[1]->t, r);
    double mean = cpu_vector_dot(x, x, width) / (double)width;
    double inverse = 1 / sqrt(mean + (double)n->params.norm.eps);
    double along = cpu_vector_dot(dy, x, width) / (double)width;
    combine((float *)cpu_flat_row(&n->t, r), dy, x, (float)inverse,
            (float)(along * inverse * inverse * inverse), width);
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->t.ne[0],
                 n->op == LOAM_OP_RMS_NORM ? norm_row : norm_back_row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

void loam_cpu_add_norm(cpu_kernel *table)
{
    table[LOAM_OP_RMS_NORM] = (cpu_kernel){.takes = takes, .run = run};
    table[LOAM_OP_RMS_NORM_BACK] = (cpu_kernel){.takes = takes, .run = run};
}
