/* bench.c: how fast a model prefills and trains here. */
#include "train/train.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench {
    loam_base *m;
    const loam_bench_options *o;
    int64_t n_tokens;
    double seconds;
    loam_lora *lora;
    loam_stepper *stepper;
    loam_context *context;
    int32_t *ids; /* tokens, labels, positions, ranges */
    loam_batch batch;
    loam_bench_result *out;
    loam_error *e;
} bench;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Random tokens, each labelled with the next. */
static loam_status make_batch(bench *b)
{
    int64_t n = b->n_tokens;
    b->ids = loam_alloc(5 * (size_t)n * sizeof *b->ids);
    if (!b->ids)
        return loam_fail(b->e, LOAM_E_MEMORY, "no memory for %lld tokens", (long long)n);
    b->batch = (loam_batch){.n_tokens = n,
                            .n_trained = n - 1,
                            .n_examples = 1,
                            .tokens = b->ids,
                            .labels = b->ids + n,
                            .positions = b->ids + 2 * n,
                            .ranges = b->ids + 3 * n};
    loam_rng rng = loam_rng_stream(1, "bench");
    for (int64_t i = 0; i < n; i++) {
        b->batch.tokens[i] = (int32_t)loam_rng_below(&rng, (uint64_t)b->m->hparams.n_vocab);
        b->batch.positions[i] = (int32_t)i;
        b->batch.ranges[2 * i] = 0;
        b->batch.ranges[2 * i + 1] = (int32_t)i + 1;
    }
    for (int64_t i = 0; i < n; i++)
        b->batch.labels[i] = i + 1 < n ? b->batch.tokens[i + 1] : -1;
    return LOAM_OK;
}

static loam_status prefill(bench *b)
{
    const float *logits;
    loam_context_truncate(b->context, 0);
    return loam_context_decode(b->context, b->batch.tokens, b->n_tokens, &logits, b->e);
}

static loam_status train(bench *b)
{
    double sum;
    float norm;
    LOAM_TRY(
        loam_stepper_backward(b->stepper, &b->batch, 1.0f / (float)b->batch.n_trained, &sum, b->e));
    if (b->out->first_loss == 0)
        b->out->first_loss = sum / (double)b->batch.n_trained;
    return loam_stepper_update(b->stepper, 1e-4f, &norm, b->e);
}

/* Runs `work` once to warm up, then for the given time; rates by clock and by CPU time. */
static loam_status rate(bench *b, loam_status (*work)(bench *b), double *per_s, double *per_cpu_s)
{
    LOAM_TRY(work(b));
    double began_ms = loam_now_ms(), began_cpu_s = cpu_s(), wall_s;
    int64_t n = 0;
    do {
        LOAM_TRY(work(b));
        n++;
        wall_s = (loam_now_ms() - began_ms) / 1e3;
    } while (wall_s < b->seconds);
    *per_s = (double)(n * b->n_tokens) / wall_s;
    *per_cpu_s = (double)(n * b->n_tokens) / (cpu_s() - began_cpu_s);
    return LOAM_OK;
}

typedef struct op_time {
    loam_op op;
    double ms;
} op_time;

static int by_time(const void *a, const void *b)
{
    const op_time *x = a, *y = b;
    return x->ms < y->ms ? 1 : x->ms > y->ms ? -1 : 0;
}

static loam_status profile(bench *b)
{
    double ms[LOAM_OP_COUNT] = {0};
    op_time times[LOAM_OP_COUNT];
    LOAM_TRY(loam_stepper_profile(b->stepper, &b->batch, ms, &b->out->product_flops, b->e));
    b->out->product_ms = ms[LOAM_OP_MUL_MAT] + ms[LOAM_OP_OUT_PROD];
    for (int i = 0; i < LOAM_OP_COUNT; i++)
        times[i] = (op_time){(loam_op)i, ms[i]};
    qsort(times, LOAM_OP_COUNT, sizeof *times, by_time);
    for (int i = 0; i < LOAM_BENCH_OPS && times[i].ms > 0; i++) {
        b->out->ops[i].name = loam_op_get(times[i].op)->name;
        b->out->ops[i].ms = times[i].ms;
        b->out->n_ops = i + 1;
    }
    return LOAM_OK;
}

static loam_status count_memory(bench *b)
{
    const loam_plan *plan;
    loam_plan_memory memory;
    LOAM_TRY(loam_stepper_plan(b->stepper, b->n_tokens, true, &plan, b->e));
    loam_plan_memory_of(plan, &memory);
    b->out->plan_bytes = (int64_t)(memory.activation_bytes + memory.scratch_bytes +
                                   4 * (size_t)b->lora->n_elements * sizeof(float));
    b->out->peak_resident_bytes = (int64_t)loam_peak_rss_bytes();
    return LOAM_OK;
}

/* Training comes first, so that the peak of resident memory is a training run's. */
static loam_status run(bench *b)
{
    loam_bench_result *out = b->out;
    loam_lora_options lo = {
        .rank = b->o->rank > 0 ? b->o->rank : 16, .alpha = 32, .targets = b->o->targets, .seed = 1};
    loam_stepper_options so = {.grad_checkpoint = b->o->grad_checkpoint,
                               .clip = 1,
                               .beta1 = 0.9f,
                               .beta2 = 0.999f,
                               .eps = 1e-8f,
                               .weight_decay = 0.01f};
    LOAM_TRY(make_batch(b));
    LOAM_TRY(loam_lora_create(b->m, &lo, &b->lora, b->e));
    LOAM_TRY(loam_lora_make_trainable(b->lora, b->e));
    LOAM_TRY(loam_stepper_create(b->m, b->lora, &so, &b->stepper, b->e));
    LOAM_TRY(rate(b, train, &out->train_tokens_per_s, &out->train_tokens_per_cpu_s));
    LOAM_TRY(count_memory(b));
    LOAM_TRY(profile(b));
    LOAM_TRY(loam_context_create(b->m, NULL, b->n_tokens, &b->context, b->e));
    LOAM_TRY(rate(b, prefill, &out->prefill_tokens_per_s, &out->prefill_tokens_per_cpu_s));
    out->train_over_prefill = out->train_tokens_per_s / out->prefill_tokens_per_s;
    return LOAM_OK;
}

loam_status loam_bench_run(loam_base *m, const loam_bench_options *o, loam_bench_result *out,
                           loam_error *e)
{
    bench b = {.m = m,
               .o = o,
               .n_tokens = o->seq_length > 0 ? o->seq_length : 256,
               .seconds = o->seconds > 0 ? o->seconds : 5,
               .out = out,
               .e = e};
    memset(out, 0, sizeof *out);
    loam_status status =
        b.n_tokens < 2 || b.n_tokens > m->hparams.n_ctx_train
            ? loam_fail(e, LOAM_E_USAGE, "--seq-length %lld: this model takes 2 to %lld tokens",
                        (long long)b.n_tokens, (long long)m->hparams.n_ctx_train)
            : run(&b);
    loam_context_free(b.context);
    loam_stepper_free(b.stepper);
    loam_lora_free(b.lora);
    loam_free(b.ids);
    return status;
}
