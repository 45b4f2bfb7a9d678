/* loss.c: CROSS_ENTROPY_LOSS and CROSS_ENTROPY_LOSS_BACK over whole logits, a row at a time. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"
#include "device/cpu/vector.h"

#include <math.h>
#include <string.h>

static bool takes(const loam_node *n)
{
    for (int i = 0; i < n->n_src; i++)
        if (!cpu_is_f32_rows(&n->src[i]->t))
            return false;
    return cpu_is_f32_rows(&n->t);
}

typedef struct loss {
    const loam_node *n;
    double *sums; /* scratch: one a row */
} loss;

static size_t scratch_bytes(const cpu_device *d, const loam_node *n)
{
    (void)d;
    return (size_t)loam_tensor_rows(&n->src[0]->t) * sizeof(double);
}

static void loss_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loss *l = context;
    const loam_tensor *a = &l->n->src[0]->t;
    const float *logits = (const float *)cpu_flat_row(a, r);
    const float *labels = (const float *)cpu_flat_row(&l->n->src[1]->t, r);
    float max = cpu_vector_max(logits, a->ne[0]);
    double lse = max + log(cpu_vector_sum_exp(logits, a->ne[0], max)), sum = 0;
    for (int64_t i = 0; i < a->ne[0]; i++)
        if (labels[i] != 0) /* a logit of -infinity that no label asks for costs nothing */
            sum += labels[i] * (logits[i] - lse);
    l->sums[r] = sum;
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)e;
    loss l = {.n = n, .sums = (double *)scratch};
    int64_t rows = loam_tensor_rows(&n->src[0]->t);
    cpu_run_rows(d, rows, n->src[0]->t.ne[0], loss_row, &l);
    double sum = 0;
    for (int64_t r = 0; r < rows; r++)
        sum += l.sums[r];
    *(float *)n->t.data = (float)(-sum / (double)rows);
    return LOAM_OK;
}

CPU_CLONES
static void combine(float *da, const float *labels, float share, float scale, int64_t n)
{
    /* The difference first: where the two are equal the gradient is exactly zero. */
    for (int64_t i = 0; i < n; i++)
        da[i] = (da[i] * share - labels[i]) * scale;
}

/* da = (softmax(a) * sum(b) - b) * dy / rows */
static void loss_back_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    int64_t width = n->t.ne[0];
    const float *logits = (const float *)cpu_flat_row(&n->src[1]->t, r);
    const float *labels = (const float *)cpu_flat_row(&n->src[2]->t, r);
    float *da = (float *)cpu_flat_row(&n->t, r);
    double scale = *(const float *)n->src[0]->t.data / (double)loam_tensor_rows(&n->t);
    double mass = cpu_vector_sum(labels, width);
    float max = cpu_vector_max(logits, width);
    memcpy(da, logits, (size_t)width * sizeof *da);
    double sum = cpu_vector_exp(da, width, 1, max);
    combine(da, labels, (float)(mass / sum), (float)scale, width);
}

static loam_status run_back(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->t.ne[0], loss_back_row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

void loam_cpu_add_loss(cpu_kernel *table)
{
    table[LOAM_OP_CROSS_ENTROPY_LOSS] =
        (cpu_kernel){.takes = takes, .scratch_bytes = scratch_bytes, .run = run};
    table[LOAM_OP_CROSS_ENTROPY_LOSS_BACK] = (cpu_kernel){.takes = takes, .run = run_back};
}
