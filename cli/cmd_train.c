/* cmd_train.c: loam train. */
#include "format.h"
#include "json.h"
#include "options.h"
#include "terminal.h"
#include "train_settings.h"
#include "train_report.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

extern const command command_train;

#define AT(field) offsetof(train_settings, field)

const option options_of_training[] = {
    {OPTION_HEADING, .help = "Data"},
    {OPTION_TEXT, "data", 0, AT(o.data), "FILE",
     .help = "examples to train on: JSONL or plain text"},
    {OPTION_TEXT, "valid-data", 0, AT(o.valid_data), "FILE",
     .help = "examples to validate on (default: a share of --data)"},
    {OPTION_DOUBLE, "valid-share", 0, AT(o.valid_share), "X",
     .help = "share of --data that is kept for validation; 0: no validation", .least = 0,
     .most = 0.9},

    {OPTION_HEADING, .help = "Result"},
    {OPTION_TEXT, "output", 'o', AT(o.output), "FILE",
     .help = "where the adapter goes: the best by validation loss, else the last"},
    {OPTION_TEXT, "adapter-path", 0, AT(o.output), "FILE", .help = "the same as --output"},
    {OPTION_INT64, "save-every", 0, AT(o.save_every), "N",
     .help = "keep an adapter and its state every N steps, as FILE with '-stepN' in the names",
     .least = 0, .most = 1e9, .zero = "only the best or the last"},
    {OPTION_INT64, "keep", 0, AT(o.keep), "N", .help = "of those, keep the newest N", .least = 0,
     .most = 1024, .zero = "all"},
    {OPTION_TEXT, "metrics", 0, AT(o.metrics), "FILE",
     .help = "one JSON object per step and validation (default: beside the adapter, with "
             "'-metrics.jsonl' at its end)"},
    {OPTION_TEXT, "resume", 0, AT(o.resume), "FILE",
     .help = "go on from this state, or from the state beside this adapter; the other flags are "
             "those of the run",
     .once = true},
    {OPTION_FLAG, "override", 0, AT(o.override),
     .help = "resume although other flags or files would change the path of the run; train "
             "although the memory may not do",
     .once = true},
    {OPTION_CONFIG, "config", 'c', AT(config), "FILE",
     .help = "flags from a YAML file, 'name: value' on each line, and 'model' for the model; flags "
             "of the command line win. Every run writes its own beside the adapter"},

    {OPTION_HEADING, .help = "Length of the run"},
    {OPTION_INT64, "iters", 0, AT(o.iters), "N", .help = "optimizer steps", .least = 0, .most = 1e9,
     .zero = "as --epochs says"},
    {OPTION_DOUBLE, "epochs", 0, AT(o.epochs), "X", .help = "passes over the data", .least = 1e-3,
     .most = 1e6},
    {OPTION_INT64, "batch-size", 0, AT(o.batch_size), "N", .help = "rows of a batch", .least = 1,
     .most = 65536},
    {OPTION_INT64, "grad-accumulation-steps", 0, AT(o.grad_accumulation_steps), "N",
     .help = "batches of an optimizer step", .least = 1, .most = 1e6},
    {OPTION_INT64, "steps-per-eval", 0, AT(o.steps_per_eval), "N",
     .help = "validate every N steps, and at the end", .least = 0, .most = 1e9,
     .zero = "at the end only"},
    {OPTION_INT64, "patience", 0, AT(o.patience), "N",
     .help = "stop after N validations without a better one", .least = 0, .most = 1e9,
     .zero = "never"},

    {OPTION_HEADING, .help = "Adapter"},
    {OPTION_INT64, "rank", 0, AT(o.rank), "N", .help = "inner dimension of the two factors",
     .least = 1, .most = 65536},
    {OPTION_FLOAT, "lora-alpha", 0, AT(o.alpha), "X",
     .help = "the adapter is scaled by alpha / rank", .least = 1e-6, .most = 1e6},
    {OPTION_FLAG, "rslora", 0, AT(o.rslora), .help = "scale by alpha / sqrt(rank) instead"},
    {OPTION_TEXT, "target-modules", 0, AT(o.targets), "LIST",
     .help = "weights that get factors, with commas: names or globs such as attn_q,ffn_* or q_proj "
             "(default: all linear weights of the blocks)"},
    {OPTION_INT64, "num-layers", 0, AT(o.n_last_layers), "N", .help = "only the last N blocks",
     .least = 0, .most = 1e6, .zero = "all"},
    {OPTION_TEXT, "init-adapter", 0, AT(o.init_adapter), "FILE",
     .help = "start from this adapter; its rank and weights are kept"},

    {OPTION_HEADING, .help = "Optimizer (AdamW, cosine schedule)"},
    {OPTION_FLOAT, "learning-rate", 0, AT(o.learning_rate), "X", .help = "at its highest",
     .least = 1e-12, .most = 10},
    {OPTION_FLOAT, "lora-plus-ratio", 0, AT(o.lora_plus_ratio), "X",
     .help = "LoRA+: learning rate of the B factors over that of the A", .least = 1e-3,
     .most = 1e3},
    {OPTION_FLOAT, "warmup", 0, AT(o.warmup_share), "X",
     .help = "share of the steps in which the rate rises", .least = 0, .most = 1},
    {OPTION_FLOAT, "weight-decay", 0, AT(o.weight_decay), "X", .help = "pulls factors towards 0",
     .least = 0, .most = 10},
    {OPTION_FLOAT, "clip", 0, AT(o.clip), "X", .help = "largest norm of a gradient; 0: no limit",
     .least = 0, .most = 1e9},
    {OPTION_UINT64, "seed", 0, AT(o.seed), "N", .help = "of the factors, the order and the split"},
    {OPTION_FLAG, "grad-checkpoint", 0, AT(o.grad_checkpoint),
     .help = "compute a block's activations again instead of keeping them: less memory, more time"},
    {.kind = OPTION_END},
};

static const option train_debug_options[] = {
    {OPTION_FLAG, "sched-debug", 0, AT(sched_debug),
     .help = "say which device runs which part of a step, and why", .once = true},
    {.kind = OPTION_END},
};

void train_set_defaults(void *s)
{
    loam_train_options_default(&((train_settings *)s)->o);
}

/* "adapter.gguf" with another ending. The caller frees it; exits where memory ran out. */
static char *with_ending(const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t n = dot && dot > name ? (size_t)(dot - path) : strlen(path);
    size_t n_bytes = n + strlen(ending) + 1;
    char *out = malloc(n_bytes);
    if (!out) {
        terminal_warn("no memory");
        exit(EXIT_FAILED);
    }
    snprintf(out, n_bytes, "%.*s%s", (int)n, path, ending);
    return out;
}

typedef struct training {
    train_report report; /* first: events go on to it */
    const train_settings *s;
    const loam_train_options *o; /* of the settings, with what belongs beside the adapter */
    const char *config_path;
    bool began;
} training;

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The options are written once the run is known to begin. */
static bool on_event(void *user, const loam_event *event)
{
    training *t = user;
    if (event->kind == LOAM_EVENT_START) {
        t->began = true;
        /* A run from its own configuration leaves that as it is. */
        bool is_own = t->s->config && is_same_file(t->s->config, t->config_path);
        if (!is_own &&
            !options_write_config(&command_train, t->config_path, t->report.model_path, t->s))
            terminal_warn("cannot write '%s': %s", t->config_path, strerror(errno));
    }
    return train_report_event(&t->report, event);
}

static void say_how_to_go_on(const training *t)
{
    char *config = format_shell_word(t->config_path);
    char *adapter = format_shell_word(t->s->o.output);
    if (config && adapter)
        terminal_warn("to go on: loam train -c %s --resume %s", config, adapter);
    free(config);
    free(adapter);
}

static int finish(const training *t, const loam_train_result *result, loam_status status,
                  const loam_error *e)
{
    const train_report *r = &t->report;
    if (status == LOAM_OK) {
        train_report_result(r, result, status);
        return EXIT_OK;
    }
    if (r->json && status == LOAM_E_CANCELLED)
        train_report_result(r, result, status);
    else if (r->json)
        json_print_error(e);
    int exit_status = terminal_error(e);
    if (t->began && (status == LOAM_E_CANCELLED || status == LOAM_E_IO))
        say_how_to_go_on(t);
    return status == LOAM_E_CANCELLED ? EXIT_SIGNAL + terminal_signal() : exit_status;
}

static int train(const training *t, const char *model_path)
{
    const train_settings *s = t->s;
    loam_model *model;
    loam_model_options mo = {.device = s->common.device,
                             .n_threads = s->common.n_threads,
                             .compute = (loam_compute)s->common.compute};
    loam_error e = {0};
    loam_train_result result = {0};
    loam_status status = loam_model_open(model_path, &mo, &model, &e);
    if (status != LOAM_OK)
        return finish(t, &result, status, &e);
    training running = *t;
    loam_model_info_get(model, &running.report.model);
    status = loam_train(model, t->o, on_event, &running, &result, &e);
    int exit_status = finish(&running, &result, status, &e);
    loam_model_close(model);
    return exit_status;
}

static int run(void *settings_of_run, const char *const *operands)
{
    train_settings *s = settings_of_run;
    if (!s->o.data)
        return terminal_usage("--data FILE is missing: what to train on");
    if (!s->o.output)
        return terminal_usage("-o FILE is missing: where the adapter goes");
    s->o.data_options = s->common.data;
    char *config_path = with_ending(s->o.output, ".yaml");
    char *metrics_path = with_ending(s->o.output, "-metrics.jsonl");
    loam_train_options o = s->o;
    if (!o.metrics)
        o.metrics = metrics_path;
    training t = {.report = {.options = &s->o,
                             .model_path = operands[0],
                             .json = s->common.json,
                             .sched_debug = s->sched_debug},
                  .s = s,
                  .o = &o,
                  .config_path = config_path};
    int exit_status = train(&t, operands[0]);
    free(config_path);
    free(metrics_path);
    return exit_status;
}

const command command_train = {
    .name = "train",
    .operands = "MODEL.gguf",
    .n_operands = 1,
    .needs = " --data FILE -o FILE",
    .summary = "train a LoRA adapter",
    .about = "Trains a LoRA adapter on a GGUF model, which stays as it is, quantized and read "
             "only, and writes the adapter as a GGUF file for llama.cpp, Ollama and LM Studio.\n"
             "A data file is JSONL, each line an object with \"messages\", with \"prompt\" and "
             "\"completion\", or with \"text\"; or it is plain text. Conversations are rendered "
             "with the model's own chat template.\n"
             "Beside the adapter stand the run's state, its flags (a file for -c) and its metrics. "
             "Ctrl-C stops after the current step and saves; a second one ends at once. A run that "
             "stopped, or was killed, goes on with --resume as if it had not.",
    .examples = "loam train model.gguf --data train.jsonl -o adapter.gguf\n"
                "loam train model.gguf --data train.jsonl --valid-data valid.jsonl \\\n"
                "    -o adapter.gguf --rank 8 --epochs 2 --learning-rate 1e-4\n"
                "loam train -c adapter.yaml --resume adapter.gguf\n",
    .options = {options_of_training, options_of_data, options_of_model, options_of_output,
                train_debug_options},
    .settings_bytes = sizeof(train_settings),
    .set_defaults = train_set_defaults,
    .run = run,
};
