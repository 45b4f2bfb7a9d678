/* rope.c: ROPE and ROPE_BACK. A token's sines and cosines are made once, in double, and serve all
 * of its heads; the formulas are those of op/rope.c. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

#include <math.h>
#include <string.h>

#define TWO_PI 6.283185307179586476925

typedef struct rope {
    const loam_node *n;
    int64_t n_pairs;
    double direction, magnitude;
    double *step;  /* scratch [n_pairs]: radians a pair turns from one position to the next */
    char *workers; /* scratch: a token's cosines, then sines */
    size_t step_bytes, worker_bytes;
} rope;

static rope plan(const loam_node *n)
{
    const loam_rope_params *p = &n->params.rope;
    rope r = {.n = n, .n_pairs = p->n_dims / 2, .direction = n->op == LOAM_OP_ROPE ? 1 : -1};
    r.magnitude = p->attn_factor;
    if (p->ext_factor != 0)
        r.magnitude *= 1 + 0.1 * log(1 / (double)p->freq_scale);
    r.step_bytes = cpu_align((size_t)r.n_pairs * sizeof *r.step);
    r.worker_bytes = cpu_align(2 * (size_t)r.n_pairs * sizeof(float));
    return r;
}

static size_t scratch_bytes(const cpu_device *d, const loam_node *n)
{
    rope r = plan(n);
    return r.step_bytes + r.worker_bytes * (size_t)d->n_threads;
}

static bool takes(const loam_node *n)
{
    const loam_tensor *factors = n->n_src > 2 ? &n->src[2]->t : NULL;
    return cpu_is_f32_rows(&n->src[0]->t) && cpu_is_f32_rows(&n->t) &&
           n->src[1]->t.type == LOAM_TYPE_I32 && loam_is_contiguous(&n->src[1]->t) &&
           (!factors || (factors->type == LOAM_TYPE_F32 && loam_is_contiguous(factors)));
}

/* The pair whose wave turns `beta` times within the original context. */
static double pair_turning(const loam_rope_params *p, double beta)
{
    return p->n_dims * log(p->n_ctx_orig / (beta * TWO_PI)) / (2 * log((double)p->freq_base));
}

static void fill_steps(const rope *r)
{
    const loam_rope_params *p = &r->n->params.rope;
    const float *factors = r->n->n_src > 2 ? r->n->src[2]->t.data : NULL;
    double low = 0, high = 0;
    if (p->ext_factor != 0) {
        low = fmax(0, floor(pair_turning(p, p->beta_fast)));
        high = fmin(p->n_dims - 1, ceil(pair_turning(p, p->beta_slow)));
    }
    for (int64_t j = 0; j < r->n_pairs; j++) {
        double step = pow((double)p->freq_base, -2.0 * (double)j / p->n_dims);
        if (factors)
            step /= (double)factors[j];
        double ramp = fmin(1, fmax(0, ((double)j - low) / fmax(0.001, high - low)));
        double mix = p->ext_factor * (1 - ramp);
        r->step[j] = p->freq_scale * step * (1 - mix) + step * mix;
    }
}

CPU_CLONES
static void turn_halves(float *y, const float *x, const float *cosines, const float *sines,
                        int64_t n_pairs)
{
    for (int64_t j = 0; j < n_pairs; j++) {
        const float a = x[j], b = x[j + n_pairs];
        y[j] = a * cosines[j] - b * sines[j];
        y[j + n_pairs] = a * sines[j] + b * cosines[j];
    }
}

CPU_CLONES
static void turn_neighbours(float *y, const float *x, const float *cosines, const float *sines,
                            int64_t n_pairs)
{
    for (int64_t j = 0; j < n_pairs; j++) {
        const float a = x[2 * j], b = x[2 * j + 1];
        y[2 * j] = a * cosines[j] - b * sines[j];
        y[2 * j + 1] = a * sines[j] + b * cosines[j];
    }
}

static void turn_token(void *context, int64_t t, int worker)
{
    const rope *r = context;
    const loam_node *n = r->n;
    const loam_rope_params *p = &n->params.rope;
    float *cosines = (float *)(r->workers + (size_t)worker * r->worker_bytes);
    float *sines = cosines + r->n_pairs;
    double position = ((const int32_t *)n->src[1]->t.data)[t];
    for (int64_t j = 0; j < r->n_pairs; j++) {
        cosines[j] = (float)(cos(position * r->step[j]) * r->magnitude);
        sines[j] = (float)(sin(position * r->step[j]) * r->magnitude * r->direction);
    }
    for (int64_t i3 = 0; i3 < n->t.ne[3]; i3++)
        for (int64_t head = 0; head < n->t.ne[1]; head++) {
            const float *x = (const float *)cpu_row(&n->src[0]->t, head, t, i3);
            float *y = (float *)cpu_row(&n->t, head, t, i3);
            if (p->mode == LOAM_ROPE_NEOX)
                turn_halves(y, x, cosines, sines, r->n_pairs);
            else
                turn_neighbours(y, x, cosines, sines, r->n_pairs);
            memcpy(y + p->n_dims, x + p->n_dims, (size_t)(n->t.ne[0] - p->n_dims) * sizeof(float));
        }
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)e;
    rope r = plan(n);
    r.step = (double *)scratch;
    r.workers = scratch + r.step_bytes;
    fill_steps(&r);
    cpu_run_rows(d, n->t.ne[2], n->t.ne[0] * n->t.ne[1] * n->t.ne[3], turn_token, &r);
    return LOAM_OK;
}

void loam_cpu_add_rope(cpu_kernel *table)
{
    const cpu_kernel kernel = {.takes = takes, .scratch_bytes = scratch_bytes, .run = run};
    table[LOAM_OP_ROPE] = kernel;
    table[LOAM_OP_ROPE_BACK] = kernel;
}
