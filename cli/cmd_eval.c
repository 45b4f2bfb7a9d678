/* cmd_eval.c: loam eval: the loss of a data file, or the log-probabilities of a text. */
#include "format.h"
#include "json.h"
#include "opened.h"
#include "options.h"
#include "terminal.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct eval_settings {
    settings common;
    const char *data;
    bool logprobs;
    const char *text, *text_file;
} eval_settings;

#define AT(field) offsetof(eval_settings, field)

static const option eval_options[] = {
    {OPTION_HEADING, .help = "What to evaluate"},
    {OPTION_TEXT, "data", 0, AT(data), "FILE",
     .help = "mean loss and perplexity of these examples"},
    {OPTION_FLAG, "logprobs", 0, AT(logprobs),
     .help = "log-probability of every token of a text, given by --text or --text-file"},
    {OPTION_TEXT, "text", 0, AT(text), "TEXT", .help = "the text of --logprobs"},
    {OPTION_TEXT, "text-file", 0, AT(text_file), "FILE",
     .help = "a file with the text of --logprobs"},
    {.kind = OPTION_END},
};

static void set_defaults(void *s)
{
    (void)s; /* all zero */
}

/* ---- a data file -------------------------------------------------------------------------- */

static loam_status evaluate(const opened *o, const eval_settings *s, loam_error *e)
{
    loam_eval_result r;
    loam_status status = loam_eval(o->model, o->adapter, s->data, &s->common.data, &r, e);
    if (status != LOAM_OK)
        return status;
    if (s->common.json) {
        json_print_line(json_pack("{s:o, s:o, s:o, s:o, s:o}", "loss", json_number(r.loss),
                                  "perplexity", json_number(r.perplexity), "data",
                                  json_data_summary(&r.data), "seconds", json_number(r.seconds),
                                  "tokens_per_s", json_number(r.tokens_per_s)));
        return LOAM_OK;
    }
    terminal_line("loss %.4f, perplexity %.3f", r.loss, r.perplexity);
    terminal_line("%lld of %lld tokens in %lld examples; %s, %.0f tokens/s",
                  (long long)r.data.n_trained, (long long)r.data.n_tokens,
                  (long long)r.data.n_examples, format_duration(r.seconds).text, r.tokens_per_s);
    if (r.data.n_bad + r.data.n_overlong > 0)
        terminal_line("%lld lines left out as bad; %lld examples too long", (long long)r.data.n_bad,
                      (long long)r.data.n_overlong);
    return LOAM_OK;
}

/* ---- a text ------------------------------------------------------------------------------- */

/* A failure that this file finds itself, in the library's form. */
static loam_status fail(loam_error *e, loam_status status, const char *what, const char *path)
{
    e->status = status;
    snprintf(e->message, sizeof e->message, "%s: %s", path, what);
    return status;
}

/* A whole file, NUL-terminated; "-" is the standard input. free() it. */
static loam_status read_text(const char *path, char **text, size_t *n_bytes, loam_error *e)
{
    size_t capacity = 1 << 16, n = 0, got;
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    *text = NULL;
    if (!f)
        return fail(e, LOAM_E_IO, "cannot be opened", path);
    char *data = malloc(capacity);
    while (data && (got = fread(data + n, 1, capacity - 1 - n, f)) > 0) {
        n += got;
        if (n + 1 < capacity)
            continue;
        capacity *= 2;
        char *more = realloc(data, capacity);
        if (!more)
            free(data);
        data = more;
    }
    bool failed = ferror(f) != 0;
    if (f != stdin)
        fclose(f);
    if (!data)
        return fail(e, LOAM_E_MEMORY, "no memory to read it", path);
    if (failed) {
        free(data);
        return fail(e, LOAM_E_IO, "reading failed", path);
    }
    data[n] = '\0';
    *text = data;
    *n_bytes = n;
    return LOAM_OK;
}

static void json_scores(const int32_t *tokens, const float *logprobs, int64_t n)
{
    json_t *ids = json_array(), *values = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(ids, json_integer(tokens[i]));
    for (int64_t i = 0; i + 1 < n; i++)
        json_array_append_new(values, json_number(logprobs[i]));
    json_print_line(json_pack("{s:o, s:o}", "tokens", ids, "logprobs", values));
}

static void show_scores(const int32_t *tokens, const float *logprobs, int64_t n)
{
    double sum = 0;
    terminal_line("%8s %8s %12s", "position", "token", "log-prob");
    terminal_line("%8d %8d %12s", 0, tokens[0], "-");
    for (int64_t i = 0; i + 1 < n; i++) {
        terminal_line("%8lld %8d %12.5f", (long long)i + 1, tokens[i + 1], (double)logprobs[i]);
        sum -= logprobs[i];
    }
    double mean = sum / (double)(n - 1);
    terminal_line("mean negative log-probability %.5f, perplexity %.4f, %lld tokens", mean,
                  exp(mean), (long long)n);
}

static loam_status score(const opened *o, const eval_settings *s, const char *text, size_t n_bytes,
                         loam_error *e)
{
    int32_t *tokens;
    float *logprobs;
    int64_t n;
    loam_status status = loam_score(o->model, o->adapter, text, n_bytes, &tokens, &logprobs, &n, e);
    if (status != LOAM_OK)
        return status;
    if (s->common.json)
        json_scores(tokens, logprobs, n);
    else
        show_scores(tokens, logprobs, n);
    loam_release(tokens);
    loam_release(logprobs);
    return LOAM_OK;
}

static loam_status score_text(const opened *o, const eval_settings *s, loam_error *e)
{
    if (s->text)
        return score(o, s, s->text, strlen(s->text), e);
    char *text;
    size_t n_bytes;
    loam_status status = read_text(s->text_file, &text, &n_bytes, e);
    if (status == LOAM_OK)
        status = score(o, s, text, n_bytes, e);
    free(text);
    return status;
}

static int run(void *settings_of_run, const char *const *operands)
{
    eval_settings *s = settings_of_run;
    if (s->text && s->text_file)
        return terminal_usage("--text and --text-file: give one of them");
    if (s->logprobs && !s->text && !s->text_file)
        return terminal_usage("--logprobs needs a text: --text TEXT or --text-file FILE");
    if (!s->logprobs && (s->text || s->text_file))
        return terminal_usage("--text and --text-file go with --logprobs");
    if (!s->logprobs && !s->data)
        return terminal_usage("--data FILE is missing: what to evaluate");
    if (s->logprobs && s->data)
        return terminal_usage("--data and --logprobs: give one of them");
    opened o;
    loam_error e = {0};
    loam_status status = opened_open(&o, &s->common, operands[0], &e);
    if (status == LOAM_OK)
        status = s->logprobs ? score_text(&o, s, &e) : evaluate(&o, s, &e);
    opened_close(&o);
    return status == LOAM_OK ? EXIT_OK : terminal_error(&e);
}

const command command_eval = {
    .name = "eval",
    .operands = "MODEL.gguf",
    .n_operands = 1,
    .needs = " --data FILE",
    .summary = "loss and perplexity of a model or an adapter",
    .about = "Measures how well a model, or a model with an adapter, predicts a data file: the "
             "mean negative log-likelihood of its trained tokens in nats, and exp of it.\n"
             "With --logprobs it prints the log-probability of each token of a text. As JSON that "
             "is {\"tokens\": [...], \"logprobs\": [...]}, where logprobs[i] belongs to "
             "tokens[i + 1].",
    .examples = "loam eval model.gguf --data test.jsonl\n"
                "loam eval model.gguf --lora adapter.gguf --data test.jsonl --json\n"
                "loam eval model.gguf --logprobs --text \"Loam is\" --json\n",
    .options = {eval_options, options_of_adapter, options_of_data, options_of_model,
                options_of_output},
    .settings_bytes = sizeof(eval_settings),
    .set_defaults = set_defaults,
    .run = run,
};
