/* softmax.c: SOFT_MAX and SOFT_MAX_BACK, a row at a time. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"
#include "device/cpu/vector.h"

#include <math.h>
#include <string.h>

static bool takes(const loam_node *n)
{
    const loam_tensor *mask = n->n_src > 1 ? &n->src[1]->t : NULL;
    if (!cpu_is_f32_rows(&n->src[0]->t) || !cpu_is_f32_rows(&n->t))
        return false;
    return !mask || cpu_is_f32_rows(mask) ||
           (mask->type == LOAM_TYPE_F16 && loam_rows_contiguous(mask));
}

static bool takes_back(const loam_node *n)
{
    return cpu_is_f32_rows(&n->src[0]->t) && cpu_is_f32_rows(&n->src[1]->t) &&
           cpu_is_f32_rows(&n->t);
}

/* ALiBi's slope of a head (Press, Smith and Lewis 2021) for any number of heads, as in ggml. */
static float slope_of(float max_bias, int64_t n_heads, int64_t head)
{
    if (max_bias == 0)
        return 1;
    int64_t power = 1;
    while (2 * power <= n_heads)
        power *= 2;
    double exponent =
        head < power ? -(double)max_bias / (double)power * (double)(head + 1)
                     : -(double)max_bias / 2 / (double)power * (double)(2 * (head - power) + 1);
    return (float)exp2(exponent);
}

static void add_mask(float *y, const loam_tensor *mask, const char *row, float slope, int64_t n)
{
    if (mask->type == LOAM_TYPE_F32) {
        cpu_vector_add_scaled(y, (const float *)row, slope, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, row + (size_t)i * sizeof half, sizeof half);
        y[i] += slope * loam_f16_to_f32(half);
    }
}

static void soft_max_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    const loam_tensor *t = &n->t;
    int64_t width = t->ne[0], i1 = r % t->ne[1], i2 = r / t->ne[1] % t->ne[2];
    int64_t i3 = r / t->ne[1] / t->ne[2];
    float *y = (float *)cpu_flat_row(t, r);
    cpu_vector_scale(y, (const float *)cpu_flat_row(&n->src[0]->t, r), n->params.soft_max.scale, 0,
                     width);
    if (n->n_src > 1) {
        const loam_tensor *mask = &n->src[1]->t;
        add_mask(y, mask, cpu_row(mask, i1, i2 % mask->ne[2], i3 % mask->ne[3]),
                 slope_of(n->params.soft_max.max_bias, t->ne[2], i2), width);
    }
    float max = cpu_vector_max(y, width);
    if (max == -INFINITY) { /* masked whole */
        memset(y, 0, (size_t)width * sizeof *y);
        return;
    }
    double sum = cpu_vector_exp(y, width, 1, max);
    cpu_vector_scale(y, y, (float)(1 / sum), 0, width);
}

/* In double: where one y is nearly 1, dy - mean is a difference of nearly equal numbers. */
CPU_CLONES
static void combine(float *dx, const float *dy, const float *y, double scale, double mean,
                    int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = (float)(scale * y[i] * (dy[i] - mean));
}

static void soft_max_back_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    const float *dy = (const float *)cpu_flat_row(&n->src[0]->t, r);
    const float *y = (const float *)cpu_flat_row(&n->src[1]->t, r);
    double mean = cpu_vector_dot(dy, y, n->t.ne[0]);
    combine((float *)cpu_flat_row(&n->t, r), dy, y, (double)n->params.soft_max.scale, mean,
            n->t.ne[0]);
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->t.ne[0],
                 n->op == LOAM_OP_SOFT_MAX ? soft_max_row : soft_max_back_row,
                 (void *)(uintptr_t)n);
    return LOAM_OK;
}

void loam_cpu_add_softmax(cpu_kernel *table)
{
    table[LOAM_OP_SOFT_MAX] = (cpu_kernel){.takes = takes, .run = run};
    table[LOAM_OP_SOFT_MAX_BACK] = (cpu_kernel){.takes = takes_back, .run = run};
}
