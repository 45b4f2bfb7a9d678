/* checkpoint.c: adapters and states on disk, and going on from them.
 *
 * A state is a GGUF file: F32 tensors "values", "m" and "v" (the flat factors and both moments),
 * numbers under "loam.state.*", and the options that the run's path depends on as lines
 * "name=value". It holds the factors too, so that one rename moves a run on as a whole: whatever
 * else stands on the disk when a run is killed, adapter files included, is written again by the
 * run that goes on. */
#include "train/run.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define STATE_TYPE "loam-training-state"
#define STATE_VERSION 1
#define PREFIX "loam.state."

typedef struct field {
    const char *key;
    bool is_real; /* double, else int64_t */
    size_t offset;
} field;

#define INTEGER(key, member)                                                                       \
    {                                                                                              \
        PREFIX key, false, offsetof(loam_run, member)                                              \
    }
#define REAL(key, member)                                                                          \
    {                                                                                              \
        PREFIX key, true, offsetof(loam_run, member)                                               \
    }

static const field fields[] = {
    INTEGER("step", event.step),
    INTEGER("tokens", event.n_tokens),
    INTEGER("cursor.epoch", cursor.epoch),
    INTEGER("cursor.batch", cursor.batch),
    INTEGER("updates", n_updates),
    INTEGER("skipped", result.n_skipped),
    INTEGER("skipped_in_a_row", skipped_in_a_row),
    INTEGER("valid_step", valid_step),
    INTEGER("best_step", result.best_step),
    INTEGER("stale", n_stale),
    INTEGER("first.count", n_first),
    INTEGER("high", n_high),
    REAL("loss.first", result.first_loss),
    REAL("loss.last", result.last_loss),
    REAL("loss.first_valid", result.first_valid_loss),
    REAL("loss.best_valid", result.best_valid_loss),
    REAL("first.sum", first_losses),
    REAL("loss.smoothed", smoothed_loss),
};

char *loam_run_path_beside(const char *path, const char *suffix)
{
    size_t n = strlen(path) + strlen(suffix) + 1;
    char *out = loam_alloc(n);
    const char *dot = strrchr(path, '.');
    const char *slash = strrchr(path, '/');
    if (!dot || dot == path || (slash && dot <= slash + 1))
        dot = path + strlen(path);
    if (out)
        snprintf(out, n, "%.*s%s%s", (int)(dot - path), path, suffix, dot);
    return out;
}

/* ---- options ------------------------------------------------------------------------------ */

/* What every adapter of the same layout shares: weights, shapes and scales. */
static uint64_t layout_hash(const loam_lora *l)
{
    uint64_t hash = 0;
    for (int i = 0; i < l->n_pairs; i++) {
        const loam_lora_pair *p = &l->pairs[i];
        int64_t sizes[] = {p->n_in, p->n_out, p->rank};
        hash = loam_hash(p->target, strlen(p->target), hash);
        hash = loam_hash(sizes, sizeof sizes, hash);
        hash = loam_hash(&p->scale, sizeof p->scale, hash);
    }
    return hash;
}

/* Lines "name=value" of all that the steps of a run depend on. */
static void describe_path(const loam_run *r, loam_string *s)
{
    const loam_train_options *o = r->o;
    loam_string_printf(s, "MODEL=hash %016llx\n", (unsigned long long)r->base_hash);
    loam_string_printf(s, "--data=hash %016llx\n", (unsigned long long)r->data->hash);
    loam_string_printf(s, "--valid-data=hash %016llx\n",
                       r->valid ? (unsigned long long)r->valid->hash : 0);
    loam_string_printf(s, "--device=%s\n", r->m->device->api->kind);
    if (!o->init_adapter) {
        loam_string_printf(s, "--rank=%lld\n", (long long)o->rank);
        loam_string_printf(s, "--lora-alpha=%.9g\n", (double)o->alpha);
        loam_string_printf(s, "--rslora=%s\n", o->rslora ? "yes" : "no");
        loam_string_printf(s, "--target-modules=%s\n", o->targets ? o->targets : "all");
        loam_string_printf(s, "--num-layers=%lld\n", (long long)o->n_last_layers);
    } else {
        loam_string_printf(s, "--init-adapter=scale %.9g\n", (double)r->lora->pairs[0].scale);
    }
    loam_string_printf(s, "--iters or --epochs=%lld steps\n", (long long)r->n_steps);
    loam_string_printf(s, "--batch-size=%lld\n", (long long)o->batch_size);
    loam_string_printf(s, "--grad-accumulation-steps=%lld\n",
                       (long long)o->grad_accumulation_steps);
    loam_string_printf(s, "--max-seq-length=%lld\n", (long long)r->max_seq_length);
    loam_string_printf(s, "--learning-rate=%.9g\n", (double)o->learning_rate);
    loam_string_printf(s, "--lora-plus-ratio=%.9g\n", (double)o->lora_plus_ratio);
    loam_string_printf(s, "--warmup=%lld steps\n", (long long)r->n_warmup);
    loam_string_printf(s, "--weight-decay=%.9g\n", (double)o->weight_decay);
    loam_string_printf(s, "--clip=%.9g\n", (double)o->clip);
    loam_string_printf(s, "--seed=%llu\n", (unsigned long long)o->seed);
}

/* The value of the line that begins with the n_bytes of `name` and "="; NULL where there is none.
 */
static const char *find_line(const char *lines, const char *name, size_t n_bytes)
{
    for (const char *line = lines; *line;) {
        if (strncmp(line, name, n_bytes) == 0 && line[n_bytes] == '=')
            return line + n_bytes + 1;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return NULL;
}

/* Appends "--rank is 8 and was 16" for every line that differs. */
static void find_differences(const char *now, const char *then, loam_string *out)
{
    for (const char *line = now; *line;) {
        size_t n_line = strcspn(line, "\n"), n_name = strcspn(line, "=");
        const char *value = line + n_name + 1;
        int n_value = (int)(n_line - n_name - 1);
        const char *before = find_line(then, line, n_name);
        int n_before = before ? (int)strcspn(before, "\n") : 0;
        if (!before || n_before != n_value || memcmp(before, value, (size_t)n_value) != 0)
            loam_string_printf(out, "%s%.*s is %.*s and was %.*s", out->length_bytes ? ", " : "",
                               (int)n_name, line, n_value, value, before ? n_before : 7,
                               before ? before : "not set");
        line += n_line;
        line += *line == '\n';
    }
}

/* ---- saving ------------------------------------------------------------------------------- */

/* A save that failed, with what is left to go on from. */
static loam_status save_failed(const loam_run *r, const loam_error *cause)
{
    if (r->saved_step < 0)
        return loam_fail(r->e, cause->status, "%s", cause->message);
    return loam_fail(r->e, cause->status,
                     "%s; the state of step %lld is kept: with that put right, go on from it with "
                     "--resume '%s'",
                     cause->message, (long long)r->saved_step, r->state_path);
}

loam_status loam_run_save_adapter(loam_run *r, const char *path)
{
    char base[32], data[32], seed[32], steps[32], options[512];
    const loam_train_options *o = r->o;
    loam_error cause = {0};
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
    if (loam_lora_save(r->m, r->lora, path, extra, LOAM_COUNT(extra), &cause) != LOAM_OK)
        return save_failed(r, &cause);
    loam_run_send(r, LOAM_EVENT_SAVED, path);
    return LOAM_OK;
}

static void add_flat(loam_gguf_writer *w, const char *name, int64_t n, const float *data)
{
    loam_tensor t = {.type = LOAM_TYPE_F32, .ne = {n, 1, 1, 1}, .data = (void *)(uintptr_t)data};
    loam_dense_strides(t.type, t.ne, t.nb);
    loam_gguf_add_tensor(w, name, 1, &t);
}

static void add_metadata(const loam_run *r, loam_gguf_writer *w, const char *path_options)
{
    loam_gguf_set_string(w, "general.type", STATE_TYPE);
    loam_gguf_set_string(w, "general.architecture", loam_base_arch_name(r->m));
    loam_gguf_set_string(w, "loam.version", loam_version());
    loam_gguf_set_u32(w, PREFIX "version", STATE_VERSION);
    loam_gguf_set_u64(w, PREFIX "layout", layout_hash(r->lora));
    loam_gguf_set_string(w, PREFIX "options", path_options);
    for (int i = 0; i < LOAM_COUNT(fields); i++)
        loam_gguf_set_array(w, fields[i].key, fields[i].is_real ? LOAM_KV_F64 : LOAM_KV_I64,
                            (const char *)r + fields[i].offset, 1);
    loam_gguf_set_array(w, PREFIX "checkpoints", LOAM_KV_I64, r->checkpoints,
                        (uint64_t)r->n_checkpoints);
}

static loam_status write_state(loam_run *r, const char *path, loam_error *e)
{
    int64_t n = r->lora->n_elements;
    loam_string options = {0};
    loam_gguf_writer *w = loam_gguf_writer_new();
    float *copy = loam_alloc(3 * (size_t)n * sizeof *copy);
    r->n_updates = loam_stepper_n_steps(r->stepper);
    describe_path(r, &options);
    loam_status status = LOAM_OK;
    if (!w || !copy || options.failed)
        status = loam_fail(e, LOAM_E_MEMORY, "%s: no memory to save the run's state", path);
    if (status == LOAM_OK)
        status = loam_buffer_read(r->lora->values, 0, copy, (size_t)n * sizeof *copy, e);
    if (status == LOAM_OK)
        status = loam_stepper_read_moments(r->stepper, copy + n, copy + 2 * n, e);
    if (status == LOAM_OK) {
        add_metadata(r, w, options.data);
        add_flat(w, "values", n, copy);
        add_flat(w, "m", n, copy + n);
        add_flat(w, "v", n, copy + 2 * n);
        status = loam_gguf_write(w, path, e);
    }
    loam_free(copy);
    loam_gguf_writer_free(w);
    loam_string_free(&options);
    return status;
}

loam_status loam_run_save_state(loam_run *r)
{
    loam_error cause = {0};
    if (loam_run_is_running_away(r))
        return LOAM_OK;
    if (write_state(r, r->state_path, &cause) != LOAM_OK)
        return save_failed(r, &cause);
    r->saved_step = r->event.step;
    return LOAM_OK;
}

/* ---- checkpoints -------------------------------------------------------------------------- */

static bool checkpoint_paths(const loam_run *r, int64_t step, char **adapter, char **state)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, "-step%lld", (long long)step);
    *adapter = loam_run_path_beside(r->o->output, suffix);
    *state = *adapter ? loam_run_path_beside(*adapter, "-state") : NULL;
    return *state != NULL;
}

/* The numbers of those removed are forgotten before the next state is written; a run killed in
 * between finds them gone, which is fine. */
static void remove_old(loam_run *r)
{
    while (r->o->keep > 0 && r->n_checkpoints > r->o->keep) {
        char *adapter, *state;
        if (checkpoint_paths(r, r->checkpoints[0], &adapter, &state)) {
            unlink(state);
            unlink(adapter);
        }
        loam_free(adapter);
        loam_free(state);
        r->n_checkpoints--;
        memmove(r->checkpoints, r->checkpoints + 1,
                (size_t)r->n_checkpoints * sizeof *r->checkpoints);
    }
}

static void remember(loam_run *r)
{
    int64_t step = r->event.step;
    if (r->n_checkpoints == LOAM_CHECKPOINTS_MAX) {
        r->n_checkpoints--;
        memmove(r->checkpoints, r->checkpoints + 1,
                (size_t)r->n_checkpoints * sizeof *r->checkpoints);
    }
    r->checkpoints[r->n_checkpoints++] = step;
}

loam_status loam_run_save_checkpoint(loam_run *r)
{
    char *adapter, *state;
    loam_status status;
    if (!checkpoint_paths(r, r->event.step, &adapter, &state)) {
        status = loam_fail(r->e, LOAM_E_MEMORY, "no memory to save a checkpoint");
    } else {
        loam_error cause = {0};
        remember(r);
        status = loam_run_save_adapter(r, adapter);
        if (status == LOAM_OK && write_state(r, state, &cause) != LOAM_OK)
            status = save_failed(r, &cause);
        if (status == LOAM_OK)
            remove_old(r);
    }
    loam_free(adapter);
    loam_free(state);
    return status;
}

/* ---- resuming ----------------------------------------------------------------------------- */

static loam_status check_type(const loam_gguf *g, loam_error *e)
{
    loam_slice type = {"", 0};
    uint32_t version = 0;
    LOAM_TRY(loam_kv_string(g, "general.type", false, &type, e));
    if (type.bytes != strlen(STATE_TYPE) || memcmp(type.data, STATE_TYPE, type.bytes) != 0)
        return loam_fail(e, LOAM_E_FORMAT,
                         "--resume '%s': this is not the state of a run (its general.type is "
                         "'%.*s'), and no state stands beside it; states end in '-state.gguf'. "
                         "To start a new run from an adapter, use --init-adapter",
                         loam_gguf_path(g), (int)LOAM_MIN(type.bytes, (size_t)40), type.data);
    LOAM_TRY(loam_kv_u32(g, PREFIX "version", true, &version, e));
    if (version != STATE_VERSION)
        return loam_fail(e, LOAM_E_UNSUPPORTED,
                         "--resume '%s': a state of version %u; this Loam reads version %d",
                         loam_gguf_path(g), version, STATE_VERSION);
    return LOAM_OK;
}

static loam_status check_path(loam_run *r, const loam_gguf *g)
{
    loam_slice then;
    loam_string now = {0}, before = {0}, differences = {0};
    LOAM_TRY(loam_kv_string(g, PREFIX "options", true, &then, r->e));
    describe_path(r, &now);
    loam_string_append(&before, then.data, then.bytes);
    loam_string_puts(&before, "");
    loam_status status = LOAM_OK;
    if (now.failed || before.failed)
        status = loam_fail(r->e, LOAM_E_MEMORY, "no memory to resume");
    else
        find_differences(now.data, before.data ? before.data : "", &differences);
    if (status == LOAM_OK && differences.length_bytes > 0 && !r->o->override)
        status = loam_fail(r->e, LOAM_E_USAGE,
                           "--resume '%s': %s: the run would take another path; give what it had, "
                           "or --override to go on all the same",
                           loam_gguf_path(g), differences.data);
    loam_string_free(&now);
    loam_string_free(&before);
    loam_string_free(&differences);
    return status;
}

static const loam_kv *number(const loam_gguf *g, const char *key, loam_kv_type type, uint64_t most)
{
    const loam_kv *kv = loam_gguf_find(g, key);
    bool is_array = kv && kv->type == LOAM_KV_ARRAY && kv->element_type == type;
    return is_array && kv->n <= most ? kv : NULL;
}

static loam_status bad_state(const loam_gguf *g, const char *what, loam_error *e)
{
    return loam_fail(e, LOAM_E_FORMAT,
                     "--resume '%s': '%s' is missing or not what a state has: the file is damaged",
                     loam_gguf_path(g), what);
}

static loam_status read_fields(loam_run *r, const loam_gguf *g)
{
    for (int i = 0; i < LOAM_COUNT(fields); i++) {
        const field *f = &fields[i];
        char *at = (char *)r + f->offset;
        const loam_kv *kv = number(g, f->key, f->is_real ? LOAM_KV_F64 : LOAM_KV_I64, 1);
        if (!kv || kv->n != 1)
            return bad_state(g, f->key, r->e);
        double real = loam_kv_number_at(kv, 0);
        int64_t integer = loam_kv_int_at(kv, 0);
        if (!f->is_real && integer < 0)
            return bad_state(g, f->key, r->e);
        memcpy(at, f->is_real ? (const void *)&real : (const void *)&integer, 8);
    }
    const loam_kv *kv = number(g, PREFIX "checkpoints", LOAM_KV_I64, LOAM_CHECKPOINTS_MAX);
    if (!kv)
        return bad_state(g, PREFIX "checkpoints", r->e);
    r->n_checkpoints = (int64_t)kv->n;
    for (uint64_t i = 0; i < kv->n; i++)
        r->checkpoints[i] = loam_kv_int_at(kv, i);
    return LOAM_OK;
}

static loam_status read_flat(const loam_run *r, const loam_gguf *g, const char *name,
                             const float **out)
{
    const loam_gguf_tensor *t = loam_gguf_find_tensor(g, name);
    if (!t || t->t.type != LOAM_TYPE_F32 || t->n_dims != 1 || t->t.ne[0] != r->lora->n_elements)
        return bad_state(g, name, r->e);
    *out = t->t.data;
    for (int64_t i = 0; i < t->t.ne[0]; i++)
        if (!isfinite((*out)[i]))
            return bad_state(g, name, r->e);
    return LOAM_OK;
}

static loam_status read_tensors(loam_run *r, const loam_gguf *g)
{
    const float *values, *m, *v;
    const loam_kv *layout = loam_gguf_find(g, PREFIX "layout");
    uint64_t hash = layout_hash(r->lora);
    if (!layout || layout->type != LOAM_KV_U64)
        return bad_state(g, PREFIX "layout", r->e);
    if (memcmp(layout->data, &hash, sizeof hash) != 0)
        return loam_fail(r->e, LOAM_E_USAGE,
                         "--resume '%s': its factors have other shapes than this run's; --rank, "
                         "--target-modules, --num-layers and --init-adapter must be those of the "
                         "run, --override or not",
                         loam_gguf_path(g));
    LOAM_TRY(read_flat(r, g, "values", &values));
    LOAM_TRY(read_flat(r, g, "m", &m));
    LOAM_TRY(read_flat(r, g, "v", &v));
    LOAM_TRY(loam_buffer_write(r->lora->values, 0, values,
                               (size_t)r->lora->n_elements * sizeof *values, r->e));
    return loam_stepper_write_moments(r->stepper, m, v, r->n_updates, r->e);
}

/* What the file says must fit the data that is there now, which --override may have changed. */
static void settle(loam_run *r)
{
    if (r->cursor.batch >= loam_batches_per_epoch(r->batches, r->cursor.epoch))
        r->cursor = (loam_cursor){.epoch = r->cursor.epoch + 1};
    if (isfinite(r->result.best_valid_loss) && access(r->o->output, F_OK) != 0) {
        loam_run_send(r, LOAM_EVENT_WARNING,
                      "the best adapter so far is not where -o says; the next validation counts as "
                      "the best");
        r->result.best_valid_loss = NAN;
        r->n_stale = 0;
    }
    r->event.best_loss = r->result.best_valid_loss;
    r->event.loss = r->result.last_loss;
    r->first_step = r->event.step;
    r->saved_step = r->event.step;
}

static loam_status read_state(loam_run *r, const char *path)
{
    loam_gguf *g;
    LOAM_TRY(loam_gguf_open(path, &g, r->e));
    loam_status status = check_type(g, r->e);
    if (status == LOAM_OK)
        status = check_path(r, g);
    if (status == LOAM_OK)
        status = read_fields(r, g);
    if (status == LOAM_OK)
        status = read_tensors(r, g);
    loam_gguf_close(g);
    if (status == LOAM_OK)
        settle(r);
    return status;
}

loam_status loam_run_resume(loam_run *r)
{
    char *beside = loam_run_path_beside(r->o->resume, "-state");
    if (!beside)
        return loam_fail(r->e, LOAM_E_MEMORY, "no memory to resume");
    loam_status status = read_state(r, access(beside, F_OK) == 0 ? beside : r->o->resume);
    loam_free(beside);
    return status;
}
