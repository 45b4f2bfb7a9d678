/* trainer.c: a training run from options to adapter. */
#include "train/train.h"

#include <math.h>
#include <string.h>

/* So many steps in a row without a finite gradient end the run. */
#define MAX_SKIPPED_IN_A_ROW 5

typedef struct run {
    loam_base *m;
    const loam_train_options *o;
    loam_event_fn on_event;
    void *user;
    loam_error *e;

    loam_lora *lora;
    loam_stepper *stepper;
    loam_dataset *data, *valid;
    loam_batches *batches, *valid_batches;
    uint64_t base_hash;

    int64_t n_steps, n_warmup;
    loam_cursor cursor;
    loam_event event; /* what every event carries */
    loam_train_result result;
    double started_ms;
    int64_t skipped_in_a_row;
    bool best_is_saved;
    bool stop; /* a callback asked for it */
} run;

/* ---- options ------------------------------------------------------------------------------ */

void loam_train_options_default(loam_train_options *o)
{
    *o = (loam_train_options){
        .valid_share = 0.05,
        .rank = 16,
        .alpha = 32,
        .epochs = 3,
        .batch_size = 1,
        .grad_accumulation_steps = 8,
        .learning_rate = 2e-4f,
        .warmup_share = 0.05f,
        .weight_decay = 0.01f,
        .clip = 1,
        .steps_per_eval = 50,
    };
}

static loam_status check_range(const run *r, const char *flag, double value, double least,
                               double most)
{
    if (value >= least && value <= most)
        return LOAM_OK;
    return loam_fail(r->e, LOAM_E_USAGE, "%s %g: expected a number from %g to %g", flag, value,
                     least, most);
}

static loam_status check_options(const run *r)
{
    const loam_train_options *o = r->o;
    if (!o->data || !o->data[0])
        return loam_fail(r->e, LOAM_E_USAGE, "--data FILE is missing: what to train on");
    if (!o->output || !o->output[0])
        return loam_fail(r->e, LOAM_E_USAGE, "-o FILE is missing: where the adapter goes");
    LOAM_TRY(check_range(r, "--valid-share", o->valid_share, 0, 0.9));
    LOAM_TRY(check_range(r, "--iters", (double)o->iters, 0, 1e9));
    LOAM_TRY(check_range(r, "--epochs", o->epochs, o->iters > 0 ? 0 : 1e-3, 1e6));
    LOAM_TRY(check_range(r, "--batch-size", (double)o->batch_size, 1, 65536));
    LOAM_TRY(
        check_range(r, "--grad-accumulation-steps", (double)o->grad_accumulation_steps, 1, 1e6));
    LOAM_TRY(check_range(r, "--learning-rate", o->learning_rate, 1e-12, 10));
    LOAM_TRY(check_range(r, "--warmup", o->warmup_share, 0, 1));
    LOAM_TRY(check_range(r, "--weight-decay", o->weight_decay, 0, 10));
    LOAM_TRY(check_range(r, "--clip", o->clip, 0, 1e9));
    LOAM_TRY(check_range(r, "--steps-per-eval", (double)o->steps_per_eval, 0, 1e9));
    LOAM_TRY(check_range(r, "--save-every", (double)o->save_every, 0, 1e9));
    return LOAM_OK;
}

/* ---- events ------------------------------------------------------------------------------- */

static void send(run *r, loam_event_kind kind, const char *text)
{
    r->event.kind = kind;
    r->event.text = text;
    if (r->on_event && !r->on_event(r->user, &r->event))
        r->stop = true;
}

static void send_splits(run *r, const loam_plan *plan)
{
    char text[2 * LOAM_REASON_BYTES];
    for (int i = 0; i < loam_plan_n_splits(plan); i++) {
        const loam_split *s = loam_plan_split_at(plan, i);
        const loam_node *first = loam_plan_node_at(plan, s->first);
        snprintf(text, sizeof text, "split %d: %s, %d nodes from %s '%s'%s%s", i,
                 s->device == 0 ? r->m->device->api->kind : "cpu", s->n_nodes,
                 loam_op_get(first->op)->name, first->name, s->reason[0] ? ": " : "", s->reason);
        send(r, LOAM_EVENT_SPLIT, text);
    }
}

/* ---- preparation -------------------------------------------------------------------------- */

/* The folder of the output takes files: known before the first step, not after the last. */
static loam_status check_output(const run *r)
{
    loam_file_writer *w;
    LOAM_TRY(loam_file_writer_open(r->o->output, &w, r->e));
    loam_file_writer_discard(w);
    return LOAM_OK;
}

static loam_status make_adapter(run *r)
{
    const loam_train_options *o = r->o;
    if (o->init_adapter) {
        LOAM_TRY(loam_lora_load(r->m, o->init_adapter, 1.0f, &r->lora, r->e));
    } else {
        loam_lora_options lo = {.rank = o->rank,
                                .alpha = o->alpha,
                                .rslora = o->rslora,
                                .targets = o->targets,
                                .n_last_layers = o->n_last_layers,
                                .seed = o->seed};
        LOAM_TRY(loam_lora_create(r->m, &lo, &r->lora, r->e));
    }
    LOAM_TRY(loam_lora_make_trainable(r->lora, r->e));
    r->event.n_trainable = r->lora->n_elements;
    loam_stepper_options so = {.grad_checkpoint = o->grad_checkpoint,
                               .clip = o->clip,
                               .beta1 = 0.9f,
                               .beta2 = 0.999f,
                               .eps = 1e-8f,
                               .weight_decay = o->weight_decay};
    return loam_stepper_create(r->m, r->lora, &so, &r->stepper, r->e);
}

static loam_status load_data(run *r)
{
    const loam_train_options *o = r->o;
    loam_data_options d = o->data_options;
    if (d.max_seq_length == 0)
        d.max_seq_length = LOAM_MIN((int64_t)2048, r->m->hparams.n_ctx_train);
    LOAM_TRY(loam_dataset_load(r->m, o->data, &d, &r->data, r->e));
    if (o->valid_data)
        LOAM_TRY(loam_dataset_load(r->m, o->valid_data, &d, &r->valid, r->e));
    else if (o->valid_share > 0 && r->data->n_examples > 1)
        LOAM_TRY(loam_dataset_split(r->data, o->valid_share, o->seed, &r->valid, r->e));
    LOAM_TRY(loam_batches_create(r->data, d.max_seq_length, o->batch_size, true, o->seed,
                                 &r->batches, r->e));
    if (r->valid)
        LOAM_TRY(loam_batches_create(r->valid, d.max_seq_length, o->batch_size, false, o->seed,
                                     &r->valid_batches, r->e));
    r->event.data = r->data->summary;
    if (r->valid)
        r->event.valid = r->valid->summary;
    return LOAM_OK;
}

static void count_steps(run *r)
{
    const loam_train_options *o = r->o;
    double per_epoch = (double)loam_batches_per_epoch(r->batches, 0);
    r->n_steps = o->iters > 0
                     ? o->iters
                     : (int64_t)ceil(o->epochs * per_epoch / (double)o->grad_accumulation_steps);
    r->n_steps = LOAM_MAX(r->n_steps, 1);
    r->n_warmup = (int64_t)llround((double)o->warmup_share * (double)r->n_steps);
    r->event.n_steps = r->n_steps;
}

/* The longest batch is planned before step 1, so that memory does not run out on it later. */
static loam_status plan_longest(run *r)
{
    const loam_plan *plan;
    loam_plan_memory memory;
    int64_t n_epochs = 1 + r->n_steps * r->o->grad_accumulation_steps /
                               LOAM_MAX(loam_batches_per_epoch(r->batches, 0), 1);
    LOAM_TRY(loam_stepper_plan(r->stepper,
                               loam_batches_longest(r->batches, LOAM_MIN(n_epochs, (int64_t)4)),
                               true, &plan, r->e));
    loam_plan_memory_of(plan, &memory);
    size_t adapter_bytes = 4 * (size_t)r->lora->n_elements * sizeof(float);
    r->event.memory_bytes = (int64_t)(memory.activation_bytes + memory.scratch_bytes +
                                      memory.weight_bytes + adapter_bytes);
    send_splits(r, plan);
    return LOAM_OK;
}

static loam_status prepare(run *r)
{
    const loam_plan *plan;
    LOAM_TRY(check_options(r));
    LOAM_TRY(check_output(r));
    LOAM_TRY(make_adapter(r));
    /* Before any data is read: does every op on the way have a backward, and a device? */
    LOAM_TRY(loam_stepper_plan(r->stepper, 32, true, &plan, r->e));
    LOAM_TRY(load_data(r));
    count_steps(r);
    LOAM_TRY(plan_longest(r));
    r->base_hash = loam_gguf_hash(r->m->gguf);
    return LOAM_OK;
}

/* ---- saving ------------------------------------------------------------------------------- */

static loam_status save(run *r, const char *path)
{
    char base[32], data[32], seed[32], steps[32], options[512];
    const loam_train_options *o = r->o;
    snprintf(base, sizeof base, "%016llx", (unsigned long long)r->base_hash);
    snprintf(data, sizeof data, "%016llx", (unsigned long long)r->data->hash);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)o->seed);
    snprintf(steps, sizeof steps, "%lld", (long long)r->event.step);
    snprintf(options, sizeof options,
             "rank=%lld alpha=%g lr=%g batch=%lldx%lld clip=%g weight_decay=%g targets=%s",
             (long long)r->lora->pairs[0].rank, (double)r->lora->alpha, (double)o->learning_rate,
             (long long)o->batch_size, (long long)o->grad_accumulation_steps, (double)o->clip,
             (double)o->weight_decay, o->targets ? o->targets : "all");
    const loam_lora_metadata extra[] = {
        {"loam.version", loam_version()},
        {"loam.base.name", r->m->name},
        {"loam.base.hash", base},
        {"loam.data.hash", data},
        {"loam.seed", seed},
        {"loam.steps", steps},
        {"loam.options", options},
    };
    LOAM_TRY(loam_lora_save(r->m, r->lora, path, extra, LOAM_COUNT(extra), r->e));
    send(r, LOAM_EVENT_SAVED, path);
    return LOAM_OK;
}

/* "adapter.gguf" with "-last" or "-step100" before its ending. */
static void beside(const char *path, const char *suffix, char *out, size_t n)
{
    const char *dot = strrchr(path, '.');
    const char *slash = strrchr(path, '/');
    if (!dot || (slash && dot < slash))
        dot = path + strlen(path);
    snprintf(out, n, "%.*s%s%s", (int)(dot - path), path, suffix, dot);
}

static loam_status save_beside(run *r, const char *suffix)
{
    size_t n = strlen(r->o->output) + 64;
    char *path = loam_alloc(n);
    if (!path)
        return loam_fail(r->e, LOAM_E_MEMORY, "no memory to save");
    beside(r->o->output, suffix, path, n);
    loam_status status = save(r, path);
    loam_free(path);
    return status;
}

/* ---- the loop ----------------------------------------------------------------------------- */

/* Validates, and keeps the adapter where it is the best so far. */
static loam_status validate(run *r, bool is_baseline)
{
    double loss;
    LOAM_TRY(loam_evaluate(r->stepper, r->valid_batches, &loss, r->e));
    double train_loss = r->event.loss;
    bool is_best = !is_baseline && !(loss >= r->result.best_valid_loss);
    if (is_baseline)
        r->result.first_valid_loss = loss;
    if (is_best) {
        r->result.best_valid_loss = loss;
        r->result.best_step = r->event.step;
    }
    r->event.loss = loss;
    r->event.best_loss = r->result.best_valid_loss;
    send(r, LOAM_EVENT_VALID, NULL);
    r->event.loss = train_loss;
    if (!is_best)
        return LOAM_OK;
    r->best_is_saved = true;
    return save(r, r->o->output);
}

/* Trained tokens of the next optimizer step: each weighs one over this, so that accumulating over
 * batches of unequal length equals one large batch. */
static loam_status count_trained(run *r, int64_t *n_trained)
{
    loam_cursor ahead = r->cursor;
    *n_trained = 0;
    for (int64_t i = 0; i < r->o->grad_accumulation_steps; i++) {
        loam_batch batch;
        LOAM_TRY(loam_batches_next(r->batches, &ahead, &batch, r->e));
        *n_trained += batch.n_trained;
    }
    return LOAM_OK;
}

static loam_status note_gradient(run *r, float norm)
{
    r->event.grad_norm = norm;
    if (isfinite(norm)) {
        r->skipped_in_a_row = 0;
        return LOAM_OK;
    }
    char text[160];
    r->result.n_skipped++;
    r->skipped_in_a_row++;
    snprintf(text, sizeof text,
             "step %lld: the gradient is not finite (loss %g); the step is skipped, %lld so far",
             (long long)r->event.step, r->event.loss, (long long)r->result.n_skipped);
    send(r, LOAM_EVENT_WARNING, text);
    if (r->skipped_in_a_row < MAX_SKIPPED_IN_A_ROW)
        return LOAM_OK;
    return loam_fail(r->e, LOAM_E_DIVERGED,
                     "%d steps in a row had no finite gradient; the last good adapter is kept: "
                     "lower --learning-rate, or look at the data with 'loam data --show'",
                     MAX_SKIPPED_IN_A_ROW);
}

static loam_status train_step(run *r)
{
    int64_t n_trained, n_tokens = 0;
    double sum = 0, began_ms = loam_now_ms();
    float norm;
    LOAM_TRY(count_trained(r, &n_trained));
    r->event.epoch =
        (double)r->cursor.epoch +
        (double)r->cursor.batch / (double)loam_batches_per_epoch(r->batches, r->cursor.epoch);
    for (int64_t i = 0; i < r->o->grad_accumulation_steps; i++) {
        loam_batch batch;
        double batch_sum;
        LOAM_TRY(loam_batches_next(r->batches, &r->cursor, &batch, r->e));
        LOAM_TRY(
            loam_stepper_backward(r->stepper, &batch, 1.0f / (float)n_trained, &batch_sum, r->e));
        sum += batch_sum;
        n_tokens += batch.n_tokens;
    }
    float lr =
        loam_schedule_cosine(r->o->learning_rate, r->event.step, r->n_steps, r->n_warmup, 0.0f);
    LOAM_TRY(loam_stepper_update(r->stepper, lr, &norm, r->e));
    double now_ms = loam_now_ms();
    r->event.step++;
    r->event.loss = sum / (double)n_trained;
    r->event.learning_rate = lr;
    r->event.n_tokens += n_tokens;
    r->event.tokens_per_s = 1e3 * (double)n_tokens / (now_ms - began_ms);
    r->event.eta_s = (now_ms - r->started_ms) / 1e3 / (double)r->event.step *
                     (double)(r->n_steps - r->event.step);
    return note_gradient(r, norm);
}

static loam_status after_step(run *r)
{
    const loam_train_options *o = r->o;
    bool is_last = r->event.step == r->n_steps;
    if (r->event.step == 1)
        r->result.first_loss = r->event.loss;
    r->result.last_loss = r->event.loss;
    send(r, LOAM_EVENT_STEP, NULL);
    if (o->save_every > 0 && r->event.step % o->save_every == 0 && !is_last) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "-step%lld", (long long)r->event.step);
        LOAM_TRY(save_beside(r, suffix));
    }
    bool is_due = is_last || (o->steps_per_eval > 0 && r->event.step % o->steps_per_eval == 0);
    if (r->valid && is_due && !r->stop)
        LOAM_TRY(validate(r, false));
    return LOAM_OK;
}

static loam_status stopped(run *r)
{
    bool to_output = !r->best_is_saved;
    LOAM_TRY(to_output ? save(r, r->o->output) : save_beside(r, "-last"));
    return loam_fail(r->e, LOAM_E_CANCELLED,
                     "stopped after step %lld of %lld; the adapter of this step is saved: go on "
                     "from it with --init-adapter",
                     (long long)r->event.step, (long long)r->n_steps);
}

static loam_status loop(run *r)
{
    r->result.first_valid_loss = r->result.best_valid_loss = NAN;
    r->event.best_loss = NAN;
    send(r, LOAM_EVENT_START, NULL);
    if (r->valid && !r->stop)
        LOAM_TRY(validate(r, true));
    r->started_ms = loam_now_ms();
    while (r->event.step < r->n_steps && !r->stop) {
        LOAM_TRY(train_step(r));
        LOAM_TRY(after_step(r));
    }
    r->result.n_steps = r->event.step;
    r->result.n_tokens = r->event.n_tokens;
    r->result.seconds = (loam_now_ms() - r->started_ms) / 1e3;
    if (r->stop)
        return stopped(r);
    return r->valid ? LOAM_OK : save(r, r->o->output);
}

loam_status loam_trainer_run(loam_base *m, const loam_train_options *o, loam_event_fn on_event,
                             void *user, loam_train_result *out, loam_error *e)
{
    run r = {.m = m, .o = o, .on_event = on_event, .user = user, .e = e};
    loam_status status = prepare(&r);
    if (status == LOAM_OK)
        status = loop(&r);
    if (out)
        *out = r.result;
    loam_batches_free(r.batches);
    loam_batches_free(r.valid_batches);
    loam_dataset_free(r.data);
    loam_dataset_free(r.valid);
    loam_stepper_free(r.stepper);
    loam_lora_free(r.lora);
    return status;
}
