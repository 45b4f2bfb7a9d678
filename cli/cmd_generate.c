/* cmd_generate.c: loam generate. */
#include "json.h"
#include "opened.h"
#include "options.h"
#include "terminal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct generate_settings {
    settings common;
    loam_generate_options o;
} generate_settings;

#define AT(field) offsetof(generate_settings, field)

static const option generate_options[] = {
    {OPTION_HEADING, .help = "Prompt"},
    {OPTION_TEXT, "prompt", 'p', AT(o.prompt), "TEXT",
     .help = "what the model answers, or goes on from"},
    {OPTION_TEXT, "system", 0, AT(o.system), "TEXT", .help = "a system turn before it"},
    {OPTION_FLAG, "raw", 0, AT(o.raw), .help = "the prompt as it is, without the chat template"},

    {OPTION_HEADING, .help = "Length"},
    {OPTION_INT64, "max-tokens", 0, AT(o.max_tokens), "N",
     .help = "most tokens to generate; 0: until the model ends or the context is full", .least = 0,
     .most = 1e9},
    {OPTION_INT64, "ctx", 0, AT(o.n_ctx), "N", .help = "tokens of context", .least = 0, .most = 1e9,
     .zero = "what the prompt and --max-tokens need"},

    {OPTION_HEADING, .help = "Sampling"},
    {OPTION_FLOAT, "temp", 0, AT(o.temperature), "X", .help = "temperature; 0: the likeliest token",
     .least = 0, .most = 100},
    {OPTION_INT, "top-k", 0, AT(o.top_k), "N", .help = "only the N likeliest tokens; 0: all",
     .least = 0, .most = 1e9},
    {OPTION_FLOAT, "top-p", 0, AT(o.top_p), "X",
     .help = "only the likeliest tokens that make up this probability; 1: all", .least = 1e-6,
     .most = 1},
    {OPTION_FLOAT, "min-p", 0, AT(o.min_p), "X",
     .help = "only tokens at least this likely beside the likeliest; 0: all", .least = 0,
     .most = 1},
    {OPTION_UINT64, "seed", 0, AT(o.seed), "N", .help = "of the sampling"},
    {.kind = OPTION_END},
};

static void set_defaults(void *s)
{
    loam_generate_options_default(&((generate_settings *)s)->o);
}

/* The text so far, for JSON; plain output goes straight on. */
typedef struct answer {
    bool json, quiet;
    char *text;
    size_t n_bytes, capacity;
    bool out_of_memory;
} answer;

static bool keep(answer *a, const char *text, size_t n_bytes)
{
    if (a->n_bytes + n_bytes + 1 > a->capacity) {
        size_t capacity = 2 * (a->n_bytes + n_bytes + 1);
        char *more = realloc(a->text, capacity);
        if (!more) {
            a->out_of_memory = true;
            return false;
        }
        a->text = more;
        a->capacity = capacity;
    }
    memcpy(a->text + a->n_bytes, text, n_bytes);
    a->n_bytes += n_bytes;
    a->text[a->n_bytes] = '\0';
    return true;
}

static bool on_text(void *user, const char *text, size_t n_bytes)
{
    answer *a = user;
    return a->json ? keep(a, text, n_bytes) : terminal_write(text, n_bytes);
}

static double per_second(int64_t n, double ms)
{
    return ms > 0 ? 1e3 * (double)n / ms : 0;
}

static void show(const answer *a, const loam_generate_result *r)
{
    double prompt_rate = per_second(r->n_prompt, r->prompt_ms);
    double rate = per_second(r->n_generated, r->generate_ms);
    if (a->json) {
        json_print_line(json_pack("{s:o, s:I, s:I, s:b, s:o, s:o}", "text",
                                  json_text(a->text ? a->text : ""), "prompt_tokens",
                                  (json_int_t)r->n_prompt, "tokens", (json_int_t)r->n_generated,
                                  "ended", (int)r->ended, "prompt_tokens_per_s",
                                  json_number(prompt_rate), "tokens_per_s", json_number(rate)));
        return;
    }
    terminal_write("\n", 1);
    if (!a->quiet && terminal_is_open())
        terminal_warn("%lld prompt tokens at %.0f/s, %lld tokens at %.1f/s%s",
                      (long long)r->n_prompt, prompt_rate, (long long)r->n_generated, rate,
                      r->ended ? "" : " (the limit of --max-tokens or the context)");
}

static int run(void *settings_of_run, const char *const *operands)
{
    generate_settings *s = settings_of_run;
    if (!s->o.prompt)
        return terminal_usage("-p TEXT is missing: the prompt");
    opened o;
    loam_error e = {0};
    loam_generate_result result = {0};
    answer a = {.json = s->common.json, .quiet = s->common.quiet};
    loam_status status = opened_open(&o, &s->common, operands[0], &e);
    if (status == LOAM_OK)
        status = loam_generate(o.model, o.adapter, &s->o, on_text, &a, &result, &e);
    int exit_status = EXIT_OK;
    if (status != LOAM_OK) {
        exit_status = terminal_error(&e);
    } else if (a.out_of_memory) {
        terminal_warn("no memory for the text");
        exit_status = EXIT_FAILED;
    } else {
        show(&a, &result);
    }
    free(a.text);
    opened_close(&o);
    return exit_status;
}

const command command_generate = {
    .name = "generate",
    .operands = "MODEL.gguf",
    .n_operands = 1,
    .needs = " -p TEXT",
    .summary = "generate text with a model or an adapter",
    .about = "Generates text, to look at what an adapter does. The prompt goes through the model's "
             "chat template as a user's turn unless --raw is given. The text goes to the standard "
             "output as it comes, the speed to the standard error.",
    .examples = "loam generate model.gguf -p \"What is Loam?\"\n"
                "loam generate model.gguf --lora adapter.gguf -p \"What is Loam?\" --temp 0\n",
    .options = {generate_options, options_of_adapter, options_of_model, options_of_output},
    .settings_bytes = sizeof(generate_settings),
    .set_defaults = set_defaults,
    .run = run,
};
