/* sample.c: drawing a token: top-k, top-p (nucleus, arXiv 1904.09751), min-p, temperature. */
#include "model/model.h"

#include <math.h>
#include <stdlib.h>

typedef struct candidate {
    float p; /* logit, then probability */
    int32_t id;
} candidate;

size_t loam_sample_scratch_bytes(int64_t n)
{
    return (size_t)n * sizeof(candidate);
}

static int32_t most_likely(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Most likely first; equal ones by id, so that the order is the same everywhere. */
static int by_p(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->p != y->p)
        return x->p < y->p ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* Softmax of sorted logits in place; the most likely is first. */
static void to_probabilities(candidate *c, int64_t n, float temperature)
{
    double sum = 0;
    float top = c[0].p;
    for (int64_t i = 0; i < n; i++) {
        c[i].p = expf((c[i].p - top) / temperature);
        sum += c[i].p;
    }
    for (int64_t i = 0; i < n; i++)
        c[i].p = (float)(c[i].p / sum);
}

/* How many of the sorted candidates stay. */
static int64_t cut(const loam_sampling *s, const candidate *c, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && c[i].p < s->min_p * c[0].p)
            return i;
        sum += c[i].p;
        if (sum >= s->top_p)
            return i + 1;
    }
    return n;
}

int32_t loam_sample(const loam_sampling *s, const float *logits, int64_t n, void *scratch,
                    loam_rng *rng)
{
    if (s->temperature <= 0)
        return most_likely(logits, n);
    candidate *c = scratch;
    for (int64_t i = 0; i < n; i++)
        c[i] = (candidate){logits[i], (int32_t)i};
    qsort(c, (size_t)n, sizeof *c, by_p);
    if (s->top_k > 0)
        n = LOAM_MIN(n, (int64_t)s->top_k);
    to_probabilities(c, n, s->temperature);
    n = cut(s, c, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += c[i].p;
    double draw = loam_rng_uniform(rng) * sum;
    for (int64_t i = 0; i < n - 1; i++) {
        draw -= c[i].p;
        if (draw < 0)
            return c[i].id;
    }
    return c[n - 1].id;
}
