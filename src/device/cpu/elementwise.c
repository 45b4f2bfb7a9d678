/* elementwise.c: ADD and MUL with a repeated second operand, SCALE, and REPEAT. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"
#include "device/cpu/vector.h"

#include <string.h>

static bool takes(const loam_node *n)
{
    for (int i = 0; i < n->n_src; i++)
        if (!cpu_is_f32_rows(&n->src[i]->t))
            return false;
    return cpu_is_f32_rows(&n->t);
}

/* The row of b that meets row r of a tensor of shape ne over which b repeats. */
static const float *repeated_row(const loam_tensor *b, const int64_t *ne, int64_t r)
{
    return (const float *)cpu_row(b, r % ne[1] % b->ne[1], r / ne[1] % ne[2] % b->ne[2],
                                  r / ne[1] / ne[2] % b->ne[3]);
}

CPU_CLONES
static void add_rows(float *y, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

CPU_CLONES
static void multiply_rows(float *y, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void binary_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    const loam_tensor *a = &n->src[0]->t, *b = &n->src[1]->t;
    const float *x = (const float *)cpu_flat_row(a, r), *other = repeated_row(b, a->ne, r);
    float *y = (float *)cpu_flat_row(&n->t, r);
    int64_t width = a->ne[0];
    bool is_add = n->op == LOAM_OP_ADD;
    if (b->ne[0] == 1) {
        cpu_vector_scale(y, x, is_add ? 1 : *other, is_add ? *other : 0, width);
        return;
    }
    for (int64_t i = 0; i < width; i += b->ne[0]) {
        if (is_add)
            add_rows(y + i, x + i, other, b->ne[0]);
        else
            multiply_rows(y + i, x + i, other, b->ne[0]);
    }
}

static void scale_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    cpu_vector_scale((float *)cpu_flat_row(&n->t, r), (const float *)cpu_flat_row(&n->src[0]->t, r),
                     n->params.scale.scale, n->params.scale.bias, n->t.ne[0]);
}

static void repeat_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    const loam_tensor *a = &n->src[0]->t;
    const float *x = repeated_row(a, n->t.ne, r);
    float *y = (float *)cpu_flat_row(&n->t, r);
    if (a->ne[0] == 1) {
        for (int64_t i = 0; i < n->t.ne[0]; i++)
            y[i] = *x;
        return;
    }
    for (int64_t i = 0; i < n->t.ne[0]; i += a->ne[0])
        memcpy(y + i, x, (size_t)a->ne[0] * sizeof(float));
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    loam_task row = n->op == LOAM_OP_SCALE    ? scale_row
                    : n->op == LOAM_OP_REPEAT ? repeat_row
                                              : binary_row;
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->t.ne[0], row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

void loam_cpu_add_elementwise(cpu_kernel *table)
{
    static const loam_op ops[] = {LOAM_OP_ADD, LOAM_OP_MUL, LOAM_OP_SCALE, LOAM_OP_REPEAT};
    for (int i = 0; i < LOAM_COUNT(ops); i++)
        table[ops[i]] = (cpu_kernel){.takes = takes, .run = run};
}
