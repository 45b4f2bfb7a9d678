/* linear_loss.c: LINEAR_CROSS_ENTROPY in one pass over the vocabulary.
 *
 * Tokens that count are gathered and cut into chunks. For a chunk, the vocabulary's rows go by in
 * panels: a panel is decoded once, gives the chunk's logits [chunk, panel], and while it is still
 * in cache its rows are added, weighted by e^(logit - largest so far), to the chunk's gradient.
 * Where a larger logit appears, what was summed before is scaled down. So neither logits nor their
 * probabilities of a whole vocabulary are ever stored. Short batches cut the vocabulary into
 * segments as well; segments are put together at the end, in order:
 *
 *   nll = log sum e^logit - logit[label],   d nll / dx = sum softmax * w - w[label] */
#include "device/cpu/matrix.h"
#include "device/cpu/vector.h"

#include <math.h>
#include <string.h>

#define CHUNK 128       /* tokens of a task */
#define LARGE_CHUNK 256 /* of a batch of at least LARGE_BATCH tokens */
#define LARGE_BATCH 4096
#define PANEL 256      /* rows of the vocabulary decoded at a time */
#define WIDE_PANEL 128 /* of rows longer than WIDE */
#define WIDE 2048
#define WANTED_TASKS 16
#define MOST_SEGMENTS 8

/* What a task leaves of one token. */
typedef struct part {
    double sum; /* of e^(logit - max) over the segment */
    float max;
    float label_logit; /* where the segment holds the label */
} part;

typedef struct linear_loss {
    cpu_device *d;
    const loam_node *n;
    cpu_matrix w;
    int64_t width, vocabulary, tokens;
    float *gradient; /* aux [width, tokens], or NULL */
    int64_t chunk, n_chunks, panel, n_segments, segment_rows;
    int64_t ld, ldl; /* of rows of operands, and of logits */
    int64_t n_counted;
    int32_t *counted; /* scratch: which tokens count */
    char *x;          /* their rows as operands */
    part *parts;      /* [segment][counted] */
    float *sums;      /* [segment][counted][width], where there is a gradient */
    char *workers;
    size_t counted_bytes, x_bytes, parts_bytes, sums_bytes;
    size_t panel_bytes, logits_bytes, weights_bytes, worker_bytes;
} linear_loss;

static linear_loss plan(cpu_device *d, const loam_node *n)
{
    const loam_tensor *w = &n->src[0]->t;
    linear_loss p = {.d = d, .n = n, .width = w->ne[0], .vocabulary = w->ne[1]};
    p.w = (cpu_matrix){.type = w->type,
                       .data = w->data,
                       .rows = w->ne[1],
                       .cols = w->ne[0],
                       .row_bytes = w->nb[1],
                       .col_bytes = w->nb[0]};
    p.tokens = n->src[1]->t.ne[1];
    p.gradient = n->aux ? n->aux->t.data : NULL;
    size_t size = cpu_operand_bytes(d), tokens = (size_t)p.tokens;
    p.ld = cpu_operand_ld(p.width);
    p.chunk = p.tokens >= LARGE_BATCH ? LARGE_CHUNK : CHUNK;
    p.panel = p.width > WIDE ? WIDE_PANEL : PANEL;
    int64_t most = (int64_t)(d->decode_scratch_bytes / ((size_t)p.ld * size));
    p.panel = LOAM_MAX(1, LOAM_MIN(LOAM_MIN(p.panel, p.vocabulary), most));
    p.ldl = cpu_operand_ld(p.panel);
    /* Cut by the tokens there are, not by those that count, to ask for scratch before the run. */
    int64_t panels = cpu_ceil_div(p.vocabulary, p.panel);
    int64_t segments = cpu_ceil_div(WANTED_TASKS, cpu_ceil_div(p.tokens, p.chunk));
    segments = LOAM_MIN(LOAM_MIN(segments, MOST_SEGMENTS), panels);
    p.segment_rows = cpu_ceil_div(panels, segments) * p.panel;
    p.n_segments = cpu_ceil_div(p.vocabulary, p.segment_rows);
    p.counted_bytes = cpu_align(tokens * sizeof *p.counted);
    p.x_bytes = cpu_align(tokens * (size_t)p.ld * size);
    p.parts_bytes = cpu_align((size_t)p.n_segments * tokens * sizeof *p.parts);
    if (n->aux)
        p.sums_bytes = cpu_align((size_t)p.n_segments * tokens * (size_t)p.width * sizeof *p.sums);
    p.panel_bytes =
        cpu_align(LOAM_MAX((size_t)(p.panel * p.ld) * size, (size_t)p.width * sizeof(float)));
    p.logits_bytes = cpu_align((size_t)(p.chunk * p.ldl) * sizeof(float));
    p.weights_bytes = cpu_multiplies_bf16(d) || d->compute == LOAM_COMPUTE_BF16
                          ? cpu_align((size_t)(p.chunk * p.ldl) * size)
                          : 0;
    p.worker_bytes = p.panel_bytes + p.logits_bytes + p.weights_bytes;
    return p;
}

static size_t scratch_bytes(const cpu_device *d, const loam_node *n)
{
    linear_loss p = plan((cpu_device *)(uintptr_t)d, n);
    return p.counted_bytes + p.x_bytes + p.parts_bytes + p.sums_bytes +
           p.worker_bytes * (size_t)d->n_threads;
}

static bool takes(const loam_node *n)
{
    const loam_tensor *w = &n->src[0]->t, *x = &n->src[1]->t, *labels = &n->src[2]->t;
    cpu_matrix m = {.type = w->type,
                    .data = w->data,
                    .rows = w->ne[1],
                    .cols = w->ne[0],
                    .row_bytes = w->nb[1],
                    .col_bytes = w->nb[0]};
    return cpu_matrix_is_readable(&m) && cpu_is_f32_rows(x) && n->t.type == LOAM_TYPE_F32 &&
           loam_is_contiguous(&n->t) && labels->type == LOAM_TYPE_I32 &&
           loam_is_contiguous(labels) &&
           (!n->aux || (n->aux->t.type == LOAM_TYPE_F32 && loam_is_contiguous(&n->aux->t)));
}

static void gather(void *context, int64_t i, int worker)
{
    (void)worker;
    const linear_loss *p = context;
    cpu_matrix row = {.type = LOAM_TYPE_F32,
                      .data = cpu_row(&p->n->src[1]->t, p->counted[i], 0, 0),
                      .rows = 1,
                      .cols = p->width,
                      .row_bytes = sizeof(float),
                      .col_bytes = sizeof(float)};
    cpu_matrix_load(p->d, &row, 0, 1, 0, p->width,
                    p->x + (size_t)(i * p->ld) * cpu_operand_bytes(p->d), p->ld);
}

/* One token's logits of a panel become weights e^(logit - max). */
static void weigh(part *t, float *logits, int64_t n, float *sums, int64_t width, bool is_first)
{
    float max = cpu_vector_max(logits, n);
    if (is_first) {
        t->max = max;
        t->sum = 0;
    } else if (max > t->max) {
        float factor = expf(t->max - max);
        t->sum *= factor;
        if (sums)
            cpu_vector_scale(sums, sums, factor, 0, width);
        t->max = max;
    }
    t->sum += cpu_vector_exp(logits, n, 1, t->max);
}

static void add_panel(const linear_loss *p, int worker, int64_t first, int64_t n, int64_t row,
                      int64_t rows, part *parts, float *sums, bool is_first)
{
    char *panel = p->workers + (size_t)worker * p->worker_bytes;
    float *logits = (float *)(panel + p->panel_bytes);
    const int32_t *labels = p->n->src[2]->t.data;
    size_t size = cpu_operand_bytes(p->d);
    cpu_matrix_load(p->d, &p->w, row, rows, 0, p->width, panel, p->ld);
    cpu_multiply(p->d, worker, false, true, n, rows, p->width,
                 p->x + (size_t)(first * p->ld) * size, p->ld, panel, p->ld, false, logits, p->ldl);
    for (int64_t i = 0; i < n; i++) {
        int64_t label = labels[p->counted[first + i]] - row;
        if (label >= 0 && label < rows)
            parts[i].label_logit = logits[i * p->ldl + label];
        weigh(&parts[i], logits + i * p->ldl, rows, sums ? sums + i * p->width : NULL, p->width,
              is_first);
    }
    if (!sums)
        return;
    const void *weights = logits;
    if (p->weights_bytes > 0) {
        cpu_matrix m = {.type = LOAM_TYPE_F32,
                        .data = (const char *)logits,
                        .rows = n,
                        .cols = rows,
                        .row_bytes = (size_t)p->ldl * sizeof(float),
                        .col_bytes = sizeof(float)};
        char *rounded = panel + p->panel_bytes + p->logits_bytes;
        cpu_matrix_load(p->d, &m, 0, n, 0, rows, rounded, p->ldl);
        weights = rounded;
    }
    cpu_multiply(p->d, worker, false, false, n, p->width, rows, weights, p->ldl, panel, p->ld,
                 !is_first, sums, p->width);
}

static void sum_segment(void *context, int64_t task, int worker)
{
    const linear_loss *p = context;
    int64_t segment = task % p->n_segments, first = task / p->n_segments * p->chunk;
    int64_t n = LOAM_MIN(p->n_counted - first, p->chunk);
    int64_t begin = segment * p->segment_rows;
    int64_t end = LOAM_MIN(begin + p->segment_rows, p->vocabulary);
    int64_t at = segment * p->tokens + first;
    float *sums = p->gradient ? p->sums + at * p->width : NULL;
    for (int64_t row = begin; row < end; row += p->panel)
        add_panel(p, worker, first, n, row, LOAM_MIN(end - row, p->panel), p->parts + at, sums,
                  row == begin);
}

/* Puts a token's segments together. */
static void finish(void *context, int64_t i, int worker)
{
    const linear_loss *p = context;
    const part *parts = p->parts + i;
    int64_t token = p->counted[i];
    int64_t label = ((const int32_t *)p->n->src[2]->t.data)[token];
    float max = -INFINITY;
    for (int64_t s = 0; s < p->n_segments; s++)
        max = parts[s * p->tokens].max > max ? parts[s * p->tokens].max : max;
    double total = 0;
    for (int64_t s = 0; s < p->n_segments; s++)
        total += parts[s * p->tokens].sum * exp((double)parts[s * p->tokens].max - max);
    double label_logit = parts[label / p->segment_rows * p->tokens].label_logit;
    ((float *)p->n->t.data)[token] = (float)(log(total) + max - label_logit);
    if (!p->gradient)
        return;
    float *out = p->gradient + token * p->width;
    float *row = (float *)(p->workers + (size_t)worker * p->worker_bytes);
    cpu_matrix_load(NULL, &p->w, label, 1, 0, p->width, row, p->width);
    cpu_vector_scale(out, row, -1, 0, p->width);
    for (int64_t s = 0; s < p->n_segments; s++)
        cpu_vector_add_scaled(out, p->sums + (s * p->tokens + i) * p->width,
                              (float)(exp((double)parts[s * p->tokens].max - max) / total),
                              p->width);
}

static loam_status check_labels(const linear_loss *p, const int32_t *labels, loam_error *e)
{
    for (int64_t t = 0; t < p->tokens; t++)
        if (labels[t] < -1 || labels[t] >= p->vocabulary)
            return loam_fail(
                e, LOAM_E_USAGE,
                "LINEAR_CROSS_ENTROPY (node '%s'): label %d of token %lld lies outside "
                "the vocabulary of %lld; a masked token has label -1",
                p->n->name, (int)labels[t], (long long)t, (long long)p->vocabulary);
    return LOAM_OK;
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    linear_loss p = plan(d, n);
    p.counted = (int32_t *)scratch;
    p.x = scratch + p.counted_bytes;
    p.parts = (part *)(p.x + p.x_bytes);
    p.sums = (float *)((char *)p.parts + p.parts_bytes);
    p.workers = (char *)p.sums + p.sums_bytes;
    const int32_t *labels = n->src[2]->t.data;
    LOAM_TRY(check_labels(&p, labels, e));
    for (int64_t t = 0; t < p.tokens; t++) {
        if (labels[t] >= 0) {
            p.counted[p.n_counted++] = (int32_t)t;
            continue;
        }
        ((float *)n->t.data)[t] = 0;
        if (p.gradient)
            memset(p.gradient + t * p.width, 0, (size_t)p.width * sizeof(float));
    }
    p.n_chunks = cpu_ceil_div(p.n_counted, p.chunk);
    loam_pool_run(d->pool, p.n_counted, gather, &p);
    loam_pool_run(d->pool, p.n_chunks * p.n_segments, sum_segment, &p);
    loam_pool_run(d->pool, p.n_counted, finish, &p);
    return LOAM_OK;
}

void loam_cpu_add_linear_loss(cpu_kernel *table)
{
    table[LOAM_OP_LINEAR_CROSS_ENTROPY] =
        (cpu_kernel){.takes = takes, .scratch_bytes = scratch_bytes, .run = run};
}
