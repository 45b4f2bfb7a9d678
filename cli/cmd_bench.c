/* cmd_bench.c: loam bench: how fast a model prefills and trains on this machine. */
#include "format.h"
#include "json.h"
#include "opened.h"
#include "options.h"
#include "terminal.h"

#include <stddef.h>

typedef struct bench_settings {
    settings common;
    loam_bench_options o;
} bench_settings;

#define AT(field) offsetof(bench_settings, field)

static const option bench_options[] = {
    {OPTION_HEADING, .help = "What to measure"},
    {OPTION_INT64, "seq-length", 0, AT(o.seq_length), "N",
     .help = "tokens of the one sequence that is prefilled and trained on", .least = 2,
     .most = 1e6},
    {OPTION_INT64, "rank", 0, AT(o.rank), "N", .help = "rank of the adapter", .least = 1,
     .most = 65536},
    {OPTION_TEXT, "target-modules", 0, AT(o.targets), "LIST",
     .help = "block linears to adapt, names or globs (all of them)"},
    {OPTION_FLAG, "grad-checkpoint", 0, AT(o.grad_checkpoint),
     .help = "compute blocks again in the backward instead of keeping their values"},
    {OPTION_DOUBLE, "seconds", 0, AT(o.seconds), "S",
     .help = "time for each of the two measurements", .least = 0.01, .most = 3600},
    {.kind = OPTION_END},
};

static void set_defaults(void *s)
{
    bench_settings *b = s;
    b->o.seq_length = 256;
    b->o.rank = 16;
    b->o.seconds = 5;
}

static double gflops(const loam_bench_result *r)
{
    return r->product_ms > 0 ? r->product_flops / r->product_ms / 1e6 : 0;
}

static void show(const loam_bench_result *r)
{
    double sum_ms = 0;
    terminal_line("prefill   %8.0f tokens/s  (%.0f for each second of CPU time)",
                  r->prefill_tokens_per_s, r->prefill_tokens_per_cpu_s);
    terminal_line("training  %8.0f tokens/s  (%.0f)", r->train_tokens_per_s,
                  r->train_tokens_per_cpu_s);
    terminal_line("training over prefill %.2f, products at %.0f GFLOP/s", r->train_over_prefill,
                  gflops(r));
    terminal_line("memory    %s planned beside the weights, %s resident at most",
                  format_bytes(r->plan_bytes).text, format_bytes(r->peak_resident_bytes).text);
    for (int i = 0; i < r->n_ops; i++)
        sum_ms += r->ops[i].ms;
    for (int i = 0; i < r->n_ops; i++)
        terminal_line("  %-22s %8.2f ms  %4.1f%%", r->ops[i].name, r->ops[i].ms,
                      100 * r->ops[i].ms / sum_ms);
}

static void show_json(const loam_bench_result *r)
{
    json_t *ops = json_object();
    for (int i = 0; i < r->n_ops; i++)
        json_object_set_new(ops, r->ops[i].name, json_number(r->ops[i].ms));
    json_print_line(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}",
                              "prefill_tokens_per_s", json_number(r->prefill_tokens_per_s),
                              "prefill_tokens_per_cpu_s", json_number(r->prefill_tokens_per_cpu_s),
                              "train_tokens_per_s", json_number(r->train_tokens_per_s),
                              "train_tokens_per_cpu_s", json_number(r->train_tokens_per_cpu_s),
                              "train_over_prefill", json_number(r->train_over_prefill),
                              "product_gflops", json_number(gflops(r)), "plan_bytes",
                              (json_int_t)r->plan_bytes, "peak_resident_bytes",
                              (json_int_t)r->peak_resident_bytes, "ops_ms", ops));
}

static int run(void *settings_of_run, const char *const *operands)
{
    bench_settings *s = settings_of_run;
    loam_bench_result r;
    opened o;
    loam_error e = {0};
    loam_status status = opened_open(&o, &s->common, operands[0], &e);
    if (status == LOAM_OK)
        status = loam_bench(o.model, &s->o, &r, &e);
    opened_close(&o);
    if (status != LOAM_OK)
        return terminal_error(&e);
    if (s->common.json)
        show_json(&r);
    else
        show(&r);
    return EXIT_OK;
}

const command command_bench = {
    .name = "bench",
    .operands = "MODEL.gguf",
    .n_operands = 1,
    .needs = "",
    .summary = "speed of prefill and training on this machine",
    .about = "Measures prefill (a forward, with the logits of the last token) and training steps "
             "(forward, backward, optimizer) on random tokens, by the clock and by CPU time, and "
             "says which operations a step spends its time in.",
    .examples = "loam bench model.gguf --seq-length 1024 --compute bf16 -t 2\n",
    .options = {bench_options, options_of_model, options_of_output},
    .settings_bytes = sizeof(bench_settings),
    .set_defaults = set_defaults,
    .run = run,
};
