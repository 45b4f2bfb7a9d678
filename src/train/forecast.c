/* forecast.c: what a run will need: memory by kind, steps, tokens, time. */
#include "train/run.h"

#include <math.h>

/* Later epochs are packed in other orders; so many are looked at for the longest batch. */
#define N_EPOCHS_SEEN 4

/* Losses alone cost about half of a training batch: a forward, and no product backward. */
#define EVAL_COST 0.5

static int64_t longest_batch(const loam_run *r)
{
    int64_t per_epoch = LOAM_MAX(loam_batches_per_epoch(r->batches, 0), 1);
    int64_t n_epochs = 1 + r->n_steps * r->o->grad_accumulation_steps / per_epoch;
    return loam_batches_longest(r->batches, LOAM_MIN(n_epochs, (int64_t)N_EPOCHS_SEEN));
}

static int64_t model_bytes(const loam_base *m)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < loam_gguf_n_tensors(m->gguf); i++)
        bytes += (int64_t)loam_gguf_tensor_at(m->gguf, i)->bytes;
    return bytes;
}

static loam_status add_plan(loam_run *r, loam_stepper *s, int64_t n_tokens, bool train,
                            loam_forecast *f)
{
    const loam_plan *plan;
    loam_plan_memory memory;
    LOAM_TRY(loam_stepper_plan(s, n_tokens, train, &plan, r->e));
    loam_plan_memory_of(plan, &memory);
    /* An embedding that is the head too is two leaves of one tensor. */
    int64_t weight_bytes = LOAM_MAX(f->weight_bytes, (int64_t)memory.weight_bytes);
    f->weight_bytes = LOAM_MIN(weight_bytes, model_bytes(r->m));
    f->activation_bytes = LOAM_MAX(f->activation_bytes, (int64_t)memory.activation_bytes);
    f->scratch_bytes = LOAM_MAX(f->scratch_bytes, (int64_t)memory.scratch_bytes);
    f->other_bytes += (int64_t)memory.leaf_bytes;
    return LOAM_OK;
}

static void sum_up(const loam_run *r, loam_forecast *f)
{
    int64_t n = r->lora->n_elements * (int64_t)sizeof(float);
    int64_t n_data = r->data->n_tokens + (r->valid ? r->valid->n_tokens : 0);
    f->adapter_bytes = 2 * n;
    f->optimizer_bytes = 2 * n;
    /* Beside the plans' inputs: tokens and masks; a batch's arrays and losses on the host; factors
     * and moments on their way to a file. */
    f->other_bytes += 5 * n_data + f->longest_tokens * 6 * 4 + 3 * n;
    f->total_bytes = f->weight_bytes + f->adapter_bytes + f->optimizer_bytes + f->activation_bytes +
                     f->scratch_bytes + f->other_bytes;
    f->fits = f->total_bytes <= f->free_bytes;
}

/* What the run would need with another stepper, or with shorter batches. */
static loam_status needed(loam_run *r, bool grad_checkpoint, int64_t n_tokens, int64_t *bytes)
{
    loam_stepper *s;
    loam_stepper_options so = {.grad_checkpoint = grad_checkpoint};
    loam_forecast f = {.longest_tokens = n_tokens};
    LOAM_TRY(loam_stepper_create(r->m, r->lora, &so, &s, r->e));
    loam_status status = add_plan(r, s, n_tokens, true, &f);
    loam_stepper_free(s);
    sum_up(r, &f);
    *bytes = f.total_bytes;
    return status;
}

static double gb(int64_t bytes)
{
    return (double)bytes / 1e9;
}

/* The first change that fits, in the order in which they cost least. */
static loam_status advise(loam_run *r)
{
    loam_forecast *f = &r->forecast;
    int64_t bytes = f->total_bytes;
    if (!r->o->grad_checkpoint) {
        LOAM_TRY(needed(r, true, f->longest_tokens, &bytes));
        if (bytes <= f->free_bytes) {
            snprintf(f->advice, sizeof f->advice, "--grad-checkpoint lowers it to %.2f GB",
                     gb(bytes));
            return LOAM_OK;
        }
    }
    int64_t row = (f->longest_tokens + r->o->batch_size - 1) / r->o->batch_size;
    bool one_row = r->o->batch_size > 1;
    for (int64_t n = one_row ? row : row / 2; n >= 64; n /= 2) {
        int64_t n_tokens = (n + 31) / 32 * 32;
        LOAM_TRY(needed(r, true, n_tokens, &bytes));
        if (bytes > f->free_bytes)
            continue;
        snprintf(f->advice, sizeof f->advice,
                 "--grad-checkpoint%s --max-seq-length %lld lower it to %.2f GB",
                 one_row ? " --batch-size 1" : "", (long long)n_tokens, gb(bytes));
        return LOAM_OK;
    }
    snprintf(f->advice, sizeof f->advice,
             "even short sequences do not fit: take a smaller model, a lower --rank or fewer "
             "--target-modules");
    return LOAM_OK;
}

loam_status loam_run_forecast(loam_run *r)
{
    loam_forecast *f = &r->forecast;
    loam_device_memory memory;
    *f = (loam_forecast){.longest_tokens = longest_batch(r), .n_steps = r->n_steps};
    LOAM_TRY(r->m->device->api->memory(r->m->device, &memory, r->e));
    f->free_bytes = (int64_t)memory.free_bytes;
    LOAM_TRY(add_plan(r, r->stepper, f->longest_tokens, true, f));
    if (r->valid)
        LOAM_TRY(add_plan(r, r->stepper, loam_batches_longest(r->valid_batches, 1), false, f));
    sum_up(r, f);
    double per_batch = (double)r->data->summary.n_tokens /
                       (double)LOAM_MAX(loam_batches_per_epoch(r->batches, 0), 1);
    f->n_tokens = llround(per_batch * (double)(r->n_steps * r->o->grad_accumulation_steps));
    return f->fits ? LOAM_OK : advise(r);
}

/* Two batches, the first of which warms caches; one where that takes long. */
static loam_status time_batch(loam_run *r)
{
    loam_forecast *f = &r->forecast;
    loam_cursor cursor = {0};
    loam_batch batch;
    double ms = 0;
    LOAM_TRY(loam_batches_next(r->batches, &cursor, &batch, r->e));
    for (int i = 0; i < 2 && ms < 5000; i++) {
        double sum, began_ms = loam_now_ms();
        LOAM_TRY(loam_stepper_backward(r->stepper, &batch, 1.0f, &sum, r->e));
        ms = loam_now_ms() - began_ms;
    }
    f->tokens_per_s = 1e3 * (double)batch.n_tokens / ms;
    double n_tokens = (double)f->n_tokens;
    if (r->valid) {
        int64_t every = r->o->steps_per_eval;
        double n_validations = 2 + (every > 0 ? (double)r->n_steps / (double)every : 0);
        n_tokens += EVAL_COST * n_validations * (double)r->valid->summary.n_tokens;
    }
    f->seconds = n_tokens / f->tokens_per_s;
    return LOAM_OK;
}

loam_status loam_trainer_forecast(loam_base *m, const loam_train_options *o, bool timed,
                                  loam_forecast *out, loam_error *e)
{
    loam_run r = {.m = m, .o = o, .e = e, .is_forecast = true};
    loam_status status = loam_run_prepare(&r);
    if (status == LOAM_OK && timed && r.forecast.fits)
        status = time_batch(&r);
    *out = r.forecast;
    loam_run_release(&r);
    return status;
}
