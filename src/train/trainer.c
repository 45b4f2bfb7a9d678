/* trainer.c: a training run from options to adapter. */
#include "train/run.h"

#include <math.h>

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
        .lora_plus_ratio = 1,
        .weight_decay = 0.01f,
        .clip = 1,
        .steps_per_eval = 50,
    };
}

static loam_status check_range(const loam_run *r, const char *flag, double value, double least,
                               double most)
{
    if (value >= least && value <= most)
        return LOAM_OK;
    return loam_fail(r->e, LOAM_E_USAGE, "%s %g: expected a number from %g to %g", flag, value,
                     least, most);
}

static loam_status check_options(const loam_run *r)
{
    const loam_train_options *o = r->o;
    if (!o->data || !o->data[0])
        return loam_fail(r->e, LOAM_E_USAGE, "--data FILE is missing: what to train on");
    if (!r->is_forecast && (!o->output || !o->output[0]))
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
    LOAM_TRY(check_range(r, "--patience", (double)o->patience, 0, 1e9));
    LOAM_TRY(check_range(r, "--save-every", (double)o->save_every, 0, 1e9));
    LOAM_TRY(check_range(r, "--keep", (double)o->keep, 0, LOAM_CHECKPOINTS_MAX - 1));
    LOAM_TRY(check_range(r, "--lora-plus-ratio", o->lora_plus_ratio, 1e-3, 1e3));
    return LOAM_OK;
}

/* ---- events ------------------------------------------------------------------------------- */

void loam_run_send(loam_run *r, loam_event_kind kind, const char *text)
{
    r->event.kind = kind;
    r->event.text = text;
    if (r->on_event && !r->on_event(r->user, &r->event))
        r->stop = true;
    r->event.text = NULL; /* the caller's, for the call alone */
}

static void send_splits(loam_run *r, const loam_plan *plan)
{
    char text[2 * LOAM_REASON_BYTES];
    for (int i = 0; i < loam_plan_n_splits(plan); i++) {
        const loam_split *s = loam_plan_split_at(plan, i);
        const loam_node *first = loam_plan_node_at(plan, s->first);
        snprintf(text, sizeof text, "split %d: %s, %d nodes from %s '%s'%s%s", i,
                 s->device == 0 ? r->m->device->api->kind : "cpu", s->n_nodes,
                 loam_op_get(first->op)->name, first->name, s->reason[0] ? ": " : "", s->reason);
        loam_run_send(r, LOAM_EVENT_SPLIT, text);
    }
}

/* ---- preparation -------------------------------------------------------------------------- */

static loam_status make_adapter(loam_run *r)
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
                               .weight_decay = o->weight_decay,
                               .b_ratio = o->lora_plus_ratio};
    return loam_stepper_create(r->m, r->lora, &so, &r->stepper, r->e);
}

/* The validation set: the file named, else a directory's valid.jsonl, else a share of the data. */
static loam_status load_valid(loam_run *r, const loam_data_options *d)
{
    const loam_train_options *o = r->o;
    if (o->valid_data)
        return loam_dataset_load(r->m, o->valid_data, d, &r->valid, r->e);
    loam_string part = {0};
    loam_status status = loam_dataset_part(o->data, "valid", &part, r->e);
    if (status == LOAM_OK && part.length_bytes > 0)
        status = loam_dataset_load(r->m, part.data, d, &r->valid, r->e);
    else if (status == LOAM_OK && o->valid_share > 0 && r->data->n_examples > 1)
        status = loam_dataset_split(r->data, o->valid_share, o->seed, &r->valid, r->e);
    loam_string_free(&part);
    return status;
}

static loam_status load_data(loam_run *r)
{
    const loam_train_options *o = r->o;
    loam_data_options d = o->data_options;
    if (d.max_seq_length == 0)
        d.max_seq_length = LOAM_MIN((int64_t)2048, r->m->hparams.n_ctx_train);
    r->max_seq_length = d.max_seq_length;
    LOAM_TRY(loam_dataset_load(r->m, o->data, &d, &r->data, r->e));
    LOAM_TRY(load_valid(r, &d));
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

static void count_steps(loam_run *r)
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

/* Where the run's state goes, and what there is of it. */
static loam_status prepare_files(loam_run *r)
{
    r->saved_step = -1;
    r->base_hash = loam_gguf_hash(r->m->gguf);
    r->result.first_valid_loss = r->result.best_valid_loss = NAN;
    r->event.best_loss = NAN;
    return r->o->resume ? loam_run_resume(r) : LOAM_OK;
}

loam_status loam_run_prepare(loam_run *r)
{
    const loam_plan *plan;
    LOAM_TRY(check_options(r));
    if (!r->is_forecast)
        LOAM_TRY(loam_run_claim_outputs(r));
    LOAM_TRY(make_adapter(r));
    /* Before any data is read: does every op on the way have a backward, and a device? */
    LOAM_TRY(loam_stepper_plan(r->stepper, 32, true, &plan, r->e));
    LOAM_TRY(load_data(r));
    if (!r->is_forecast)
        LOAM_TRY(loam_run_protect_data(r));
    count_steps(r);
    LOAM_TRY(loam_run_forecast(r));
    r->event.memory_bytes = r->forecast.total_bytes;
    r->event.forecast = &r->forecast;
    LOAM_TRY(loam_stepper_plan(r->stepper, r->forecast.longest_tokens, true, &plan, r->e));
    send_splits(r, plan);
    return r->is_forecast ? LOAM_OK : prepare_files(r);
}

void loam_run_release(loam_run *r)
{
    if (r->metrics)
        fclose(r->metrics);
    loam_batches_free(r->batches);
    loam_batches_free(r->valid_batches);
    loam_dataset_free(r->data);
    loam_dataset_free(r->valid);
    loam_stepper_free(r->stepper);
    loam_lora_free(r->lora);
    loam_run_release_outputs(r);
}

/* ---- the loop ----------------------------------------------------------------------------- */

/* Validates, and keeps the adapter where it is the best so far. */
static loam_status validate(loam_run *r, bool is_baseline)
{
    double loss;
    LOAM_TRY(loam_evaluate(r->stepper, r->valid_batches, &loss, r->e));
    double train_loss = r->event.loss;
    bool is_best = !is_baseline && isfinite(loss) && !(loss >= r->result.best_valid_loss);
    if (is_baseline)
        r->result.first_valid_loss = loss;
    else
        r->n_stale = is_best ? 0 : r->n_stale + 1;
    if (is_best) {
        r->result.best_valid_loss = loss;
        r->result.best_step = r->event.step;
    }
    r->valid_step = r->event.step;
    r->event.loss = loss;
    r->event.best_loss = r->result.best_valid_loss;
    loam_run_send(r, LOAM_EVENT_VALID, NULL);
    LOAM_TRY(loam_run_metrics_write(r, "valid"));
    r->event.loss = train_loss;
    return is_best ? loam_run_save_adapter(r, r->o->output) : LOAM_OK;
}

static bool validation_is_due(const loam_run *r)
{
    int64_t every = r->o->steps_per_eval, step = r->event.step;
    return r->valid && step > 0 && r->valid_step != step &&
           (step == r->n_steps || (every > 0 && step % every == 0));
}

static bool is_out_of_patience(const loam_run *r)
{
    return r->o->patience > 0 && r->n_stale >= r->o->patience;
}

/* Trained tokens of the next optimizer step: each weighs one over this, so that accumulating over
 * batches of unequal length equals one large batch. */
static loam_status count_trained(loam_run *r, int64_t *n_trained)
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

static loam_status train_step(loam_run *r)
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
    r->event.eta_s = (now_ms - r->started_ms) / 1e3 / (double)(r->event.step - r->first_step) *
                     (double)(r->n_steps - r->event.step);
    r->event.grad_norm = norm;
    return LOAM_OK;
}

/* In this order a state says of its own step whether it was validated; one that stopped before is
 * validated by the run that goes on. */
static loam_status after_step(loam_run *r)
{
    const loam_train_options *o = r->o;
    int64_t step = r->event.step;
    if (step == 1)
        r->result.first_loss = r->event.loss;
    r->result.last_loss = r->event.loss;
    loam_run_send(r, LOAM_EVENT_STEP, NULL);
    LOAM_TRY(loam_run_metrics_write(r, "step"));
    LOAM_TRY(loam_run_check_step(r));
    bool is_valid_step = validation_is_due(r) && !r->stop;
    if (is_valid_step)
        LOAM_TRY(validate(r, false));
    bool is_checkpoint = o->save_every > 0 && step % o->save_every == 0 && step < r->n_steps;
    if (is_checkpoint)
        LOAM_TRY(loam_run_save_checkpoint(r));
    return is_valid_step || is_checkpoint ? loam_run_save_state(r) : LOAM_OK;
}

static loam_status stopped(loam_run *r)
{
    LOAM_TRY(loam_run_save_state(r));
    bool has_best = isfinite(r->result.best_valid_loss);
    char *path = loam_run_path_beside(r->o->output, has_best ? "-last" : "");
    if (!path)
        return loam_fail(r->e, LOAM_E_MEMORY, "no memory to save");
    loam_status status = loam_run_save_adapter(r, path);
    loam_free(path);
    LOAM_TRY(status);
    if (r->saved_step != r->event.step)
        return loam_fail(r->e, LOAM_E_CANCELLED,
                         "stopped after step %lld of %lld; the loss was running away, so the state "
                         "kept is that of step %lld: go on from it with the same command and "
                         "--resume '%s'",
                         (long long)r->event.step, (long long)r->n_steps, (long long)r->saved_step,
                         r->state_path);
    return loam_fail(r->e, LOAM_E_CANCELLED,
                     "stopped after step %lld of %lld; state and adapter of this step are saved: "
                     "go on with the same command and --resume '%s'",
                     (long long)r->event.step, (long long)r->n_steps, r->state_path);
}

static loam_status check_fit(loam_run *r)
{
    const loam_forecast *f = &r->forecast;
    char text[512];
    if (f->fits)
        return LOAM_OK;
    snprintf(text, sizeof text, "the run needs %.2f GB of memory and %s has %.2f GB free; %s",
             (double)f->total_bytes / 1e9, r->m->device->api->kind, (double)f->free_bytes / 1e9,
             f->advice);
    if (!r->o->override)
        return loam_fail(r->e, LOAM_E_MEMORY, "%s (--override tries all the same)", text);
    loam_run_send(r, LOAM_EVENT_WARNING, text);
    return LOAM_OK;
}

/* What comes before the first step of this call. */
static loam_status begin(loam_run *r)
{
    loam_run_send(r, LOAM_EVENT_START, NULL);
    LOAM_TRY(check_fit(r));
    /* The memory of the longest batch of the first epochs is taken before step 1, so that a run
     * does not find out after an hour that there is not enough. */
    LOAM_TRY(loam_stepper_reserve(r->stepper, r->forecast.longest_tokens, r->e));
    LOAM_TRY(loam_run_metrics_open(r));
    r->started_ms = loam_now_ms();
    if (r->stop)
        return LOAM_OK;
    if (r->o->resume) {
        if (!validation_is_due(r))
            return LOAM_OK;
        LOAM_TRY(validate(r, false));
    } else if (r->valid) {
        LOAM_TRY(validate(r, true));
    }
    return loam_run_save_state(r);
}

static loam_status loop(loam_run *r)
{
    int64_t n_tokens_before = r->event.n_tokens;
    LOAM_TRY(begin(r));
    while (r->event.step < r->n_steps && !r->stop && !is_out_of_patience(r)) {
        LOAM_TRY(train_step(r));
        LOAM_TRY(after_step(r));
    }
    r->result.stopped_early = is_out_of_patience(r) && r->event.step < r->n_steps;
    r->result.n_steps = r->event.step;
    r->result.n_tokens = r->event.n_tokens - n_tokens_before;
    r->result.seconds = (loam_now_ms() - r->started_ms) / 1e3;
    if (r->stop && (r->event.step < r->n_steps || validation_is_due(r)))
        return stopped(r);
    if (!isfinite(r->result.best_valid_loss))
        LOAM_TRY(loam_run_save_adapter(r, r->o->output));
    return loam_run_save_state(r);
}

loam_status loam_trainer_run(loam_base *m, const loam_train_options *o, loam_event_fn on_event,
                             void *user, loam_train_result *out, loam_error *e)
{
    loam_run r = {.m = m, .o = o, .on_event = on_event, .user = user, .e = e};
    loam_status status = loam_run_prepare(&r);
    if (status == LOAM_OK)
        status = loop(&r);
    if (out)
        *out = r.result;
    loam_run_release(&r);
    return status;
}
