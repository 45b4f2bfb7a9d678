/* dataset.c: reading data into a set of examples. */
#include "train/dataset.h"

#include <math.h>
#include <string.h>

/* strftime_now in templates: 26 July 2024, noon, the date that templates which want one fall back
 * to. The day of the run would make another data set, with another hash, of the same file. */
#define CLOCK_S 1721995200

#define DEFAULT_SEQ_LENGTH 2048

static const char CHATML[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}";

void loam_dataset_free(loam_dataset *d)
{
    if (!d)
        return;
    loam_free(d->tokens);
    loam_free(d->trained);
    loam_free(d->examples);
    for (int i = 0; i < d->n_files; i++)
        loam_free(d->files[i]);
    loam_free(d->files);
    loam_free(d);
}

/* ---- the loader --------------------------------------------------------------------------- */

static void loader_end(loam_loader *l)
{
    loam_template_free(l->chat);
    json_decref(l->variables);
    loam_dataset_free(l->set);
    loam_tokens_free(&l->tokens);
    loam_free(l->draft.ids);
    loam_free(l->draft.trained);
    loam_string_free(&l->text);
    loam_string_free(&l->before);
    loam_string_free(&l->after);
    loam_template_span_list_free(&l->spans);
}

static bool set_token_text(loam_loader *l, const char *key, int32_t id)
{
    loam_string text = {0};
    if (id >= 0)
        loam_token_piece(l->tokenizer, id, true, &text);
    bool ok = !text.failed &&
              json_object_set_new(l->variables, key, json_string(text.data ? text.data : "")) == 0;
    loam_string_free(&text);
    return ok;
}

static bool has_token(const loam_loader *l, const char *text)
{
    return loam_token_find(l->tokenizer, text, strlen(text)) >= 0;
}

static loam_status find_template(loam_loader *l, const loam_base *m, loam_error *e)
{
    loam_slice source = {0};
    LOAM_TRY(loam_kv_string(m->gguf, "tokenizer.chat_template", false, &source, e));
    l->chat_is_own = source.data != NULL;
    if (source.data)
        LOAM_TRY(loam_template_create(source.data, source.bytes, "tokenizer.chat_template",
                                      &l->chat, e));
    else if (has_token(l, "<|im_start|>") && has_token(l, "<|im_end|>"))
        LOAM_TRY(loam_template_create(CHATML, sizeof CHATML - 1, "ChatML", &l->chat, e));
    l->limits = loam_template_limits_default();
    l->limits.clock_s = CLOCK_S;
    l->variables = json_object();
    if (!l->variables || !set_token_text(l, "bos_token", loam_tokenizer_bos(l->tokenizer)) ||
        !set_token_text(l, "eos_token", loam_tokenizer_eos(l->tokenizer)))
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a template's variables");
    return LOAM_OK;
}

static loam_status loader_begin(loam_loader *l, const loam_base *m, const loam_data_options *o,
                                loam_error *e)
{
    l->tokenizer = m->tokenizer;
    l->o = o ? *o : (loam_data_options){0};
    LOAM_TRY(loam_data_format_find(l->o.format, &l->format, e));
    if (l->o.max_seq_length == 0)
        l->o.max_seq_length = LOAM_MIN((int64_t)DEFAULT_SEQ_LENGTH, m->hparams.n_ctx_train);
    if (l->o.max_seq_length < 2)
        return loam_fail(e, LOAM_E_USAGE,
                         "max_seq_length is %lld; expected at least 2: a token, and one to predict",
                         (long long)l->o.max_seq_length);
    if (l->o.overlong > LOAM_OVERLONG_ERROR || l->o.train_on > LOAM_TRAIN_ON_ALL)
        return loam_fail(e, LOAM_E_USAGE,
                         "the data options hold overlong %d and train_on %d, which are not values "
                         "of their kinds",
                         (int)l->o.overlong, (int)l->o.train_on);
    l->set = loam_alloc(sizeof *l->set);
    if (!l->set)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a data set");
    return find_template(l, m, e);
}

/* ---- weights ------------------------------------------------------------------------------ */

/* Repeats or leaves out the examples from `begin` on: each floor(weight) times, and as many of them
 * once more, chosen by a fixed stream, as the fraction says. */
static loam_status apply_weight(loam_loader *l, int64_t begin, double weight, loam_error *e)
{
    loam_dataset *d = l->set;
    int64_t n = d->n_examples - begin;
    int64_t whole = (int64_t)floor(weight);
    int64_t more = (int64_t)llround((weight - (double)whole) * (double)n);
    if (weight == 1 || n == 0)
        return LOAM_OK;
    if (whole == 0)
        more = LOAM_MAX(more, (int64_t)1);
    int64_t n_new = begin + n * whole + more;
    loam_example *examples = loam_alloc((size_t)n_new * sizeof *examples);
    if (!examples)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for %lld examples", (long long)n_new);
    memcpy(examples, d->examples, (size_t)begin * sizeof *examples);
    char name[32];
    snprintf(name, sizeof name, "weight %d", (int)l->file);
    loam_rng rng = loam_rng_stream(0, name);
    int64_t at = begin;
    for (int64_t i = 0; i < n; i++) {
        bool once_more = loam_rng_below(&rng, (uint64_t)(n - i)) < (uint64_t)more;
        more -= once_more;
        for (int64_t copy = 0; copy < whole + once_more; copy++)
            examples[at++] = d->examples[begin + i];
    }
    loam_free(d->examples);
    d->examples = examples;
    d->n_examples = l->example_capacity = n_new;
    loam_dataset_compact(d);
    return LOAM_OK;
}

/* ---- loading ------------------------------------------------------------------------------ */

static loam_status read_source(loam_loader *l, const loam_data_source *s, loam_error *e)
{
    loam_dataset *d = l->set;
    const char *name = strcmp(s->path, "-") == 0 ? "standard input" : s->path;
    d->files[d->n_files] = loam_strdup(name);
    if (!d->files[d->n_files])
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a path");
    l->file = d->n_files++;
    l->file_name = d->files[l->file];
    l->e = e;
    int64_t begin = d->n_examples;
    loam_data_bytes bytes;
    loam_status status = loam_data_bytes_open(s->path, &bytes, e);
    if (status == LOAM_OK)
        status = loam_data_read(l, bytes.data, bytes.n);
    loam_data_bytes_close(&bytes);
    LOAM_TRY(status);
    return apply_weight(l, begin, s->weight, e);
}

static loam_status refuse_empty(const loam_loader *l, const char *path, loam_error *e)
{
    static const char *const train_on[] = {"assistant", "last", "completion", "all"};
    const loam_data_summary *s = &l->set->summary;
    char bad[LOAM_MESSAGE_BYTES / 2] = "";
    if (s->n_bad > 0)
        snprintf(bad, sizeof bad, " (the first: %.400s)", l->first_bad.message);
    return loam_fail(e, LOAM_E_DATA,
                     "'%s' leaves nothing to train on: of %lld records, %lld could not be used%s, "
                     "%lld were longer than max_seq_length %lld (%lld of them dropped), %lld "
                     "examples had no token to train on (train_on %s)",
                     path, (long long)l->n_records, (long long)s->n_bad, bad,
                     (long long)s->n_overlong, (long long)l->o.max_seq_length,
                     (long long)(s->n_overlong - s->n_truncated - s->n_split),
                     (long long)s->n_untrained, train_on[l->o.train_on]);
}

/* Gives memory that growing took in excess back; where that fails the old stays. */
static void shrink(loam_dataset *d)
{
    int32_t *tokens = loam_realloc(d->tokens, (size_t)d->n_tokens * sizeof *tokens);
    d->tokens = tokens ? tokens : d->tokens;
    uint8_t *trained = loam_realloc(d->trained, (size_t)d->n_tokens);
    d->trained = trained ? trained : d->trained;
    loam_example *examples = loam_realloc(d->examples, (size_t)d->n_examples * sizeof *examples);
    d->examples = examples ? examples : d->examples;
}

static loam_status load(loam_loader *l, const loam_data_source *sources, int n, const char *path,
                        loam_error *e)
{
    l->set->files = loam_alloc((size_t)n * sizeof *l->set->files);
    if (!l->set->files)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for %d files", n);
    for (int i = 0; i < n; i++)
        LOAM_TRY(read_source(l, &sources[i], e));
    if (l->set->n_examples == 0)
        return refuse_empty(l, path, e);
    shrink(l->set);
    loam_dataset_count(l->set);
    return LOAM_OK;
}

loam_status loam_dataset_load(const loam_base *m, const char *path, const loam_data_options *o,
                              loam_dataset **out, loam_error *e)
{
    *out = NULL;
    loam_loader l = {0};
    loam_data_source *sources = NULL;
    int n = 0;
    loam_status status = loader_begin(&l, m, o, e);
    if (status == LOAM_OK)
        status = loam_data_sources(path, &sources, &n, e);
    if (status == LOAM_OK)
        status = load(&l, sources, n, path, e);
    if (status == LOAM_OK) {
        *out = l.set;
        l.set = NULL;
    }
    loam_data_sources_free(sources, n);
    loader_end(&l);
    return status;
}
