/* train_report.c: the lines of a training run, for people and as JSON. */
#include "train_report.h"
#include "forecast.h"
#include "format.h"
#include "json.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Plain output shows the first few steps, then as many as make about 50 lines in all. */
#define FIRST_LINES 5
#define MOST_LINES 50

/* ---- the start ---------------------------------------------------------------------------- */

static int64_t choose_every(int64_t n_steps)
{
    static const int64_t nice[] = {1, 2, 5};
    int64_t power = 1;
    for (;; power *= 10) {
        for (int i = 0; i < 3; i++) {
            int64_t every = nice[i] * power;
            if (n_steps / every <= MOST_LINES - FIRST_LINES - 1)
                return every;
        }
    }
}

/* ", 3 dropped as too long, 1 truncated ..." of what is not zero. */
static void describe_losses(const loam_data_summary *d, char *text, size_t n_bytes)
{
    const struct {
        int64_t n;
        const char *what;
    } parts[] = {
        {d->n_bad, "bad lines left out"},
        {d->n_overlong, "too long"},
        {d->n_truncated, "truncated"},
        {d->n_split, "split"},
        {d->n_untrained, "without a trained token"},
    };
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].n == 0)
            continue;
        int n = snprintf(text + length, n_bytes - length, ", %lld %s", (long long)parts[i].n,
                         parts[i].what);
        length += n > 0 ? (size_t)n : 0;
        if (length >= n_bytes)
            return;
    }
}

static void show_data(const char *label, const char *path, const loam_data_summary *d)
{
    char losses[256];
    describe_losses(d, losses, sizeof losses);
    double share = d->n_tokens > 0 ? 100.0 * (double)d->n_trained / (double)d->n_tokens : 0;
    terminal_line("%-10s %s: %lld examples, %lld tokens, %.0f%% of them trained, longest %lld%s",
                  label, path, (long long)d->n_examples, (long long)d->n_tokens, share,
                  (long long)d->n_longest, losses);
}

static void show_start(const train_report *r, const loam_event *event)
{
    const loam_model_info *m = &r->model;
    const loam_train_options *o = r->options;
    terminal_line("%-10s %s (%s, %s parameters, %s)", "model", m->name, m->architecture,
                  format_count(m->n_parameters).text, format_bytes(m->file_bytes).text);
    terminal_line("%-10s %s", "device", m->device);
    show_data("data", o->data, &event->data);
    if (event->valid.n_examples > 0)
        show_data("validation", o->valid_data ? o->valid_data : "the same source", &event->valid);
    terminal_line("%-10s %s%s, %s trained parameters (%s)", "adapter",
                  o->init_adapter ? "from " : "new", o->init_adapter ? o->init_adapter : "",
                  format_count(event->n_trainable).text, format_bytes(event->n_trainable * 4).text);
    forecast_show(event->forecast, false);
    terminal_line("%-10s %lld of %lld x %lld rows", "steps", (long long)event->n_steps,
                  (long long)o->grad_accumulation_steps, (long long)o->batch_size);
}

static void json_start(const train_report *r, const loam_event *event)
{
    const loam_model_info *m = &r->model;
    json_t *model =
        json_pack("{s:o, s:o, s:I, s:I, s:o}", "name", json_text(m->name), "architecture",
                  json_text(m->architecture), "parameters", (json_int_t)m->n_parameters, "bytes",
                  (json_int_t)m->file_bytes, "device", json_text(m->device));
    json_t *valid = event->valid.n_examples > 0 ? json_data_summary(&event->valid) : json_null();
    json_print_line(json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:o}", "event", "start", "model",
                              model, "data", json_data_summary(&event->data), "valid", valid,
                              "trainable", (json_int_t)event->n_trainable, "memory_bytes",
                              (json_int_t)event->memory_bytes, "steps", (json_int_t)event->n_steps,
                              "forecast", forecast_json(event->forecast)));
}

/* ---- steps -------------------------------------------------------------------------------- */

static void draw_live(const loam_event *event)
{
    /* The parts from left to right, as many as the line has room for. */
    char parts[6][64];
    char line[400] = "";
    snprintf(parts[0], sizeof parts[0], "step %lld/%lld", (long long)event->step,
             (long long)event->n_steps);
    snprintf(parts[1], sizeof parts[1], "  loss %.4f", event->loss);
    snprintf(parts[2], sizeof parts[2], "  %.0f tokens/s", event->tokens_per_s);
    snprintf(parts[3], sizeof parts[3], "  ETA %s", format_clock(event->eta_s).text);
    snprintf(parts[4], sizeof parts[4], "  %s", format_bytes(event->memory_bytes).text);
    snprintf(parts[5], sizeof parts[5], "  lr %.2e  gradient %.3g", event->learning_rate,
             event->grad_norm);
    size_t length = 0, room = (size_t)terminal_columns() - 1;
    for (int i = 0; i < 6 && length + strlen(parts[i]) <= room; i++) {
        memcpy(line + length, parts[i], strlen(parts[i]) + 1);
        length += strlen(parts[i]);
    }
    terminal_live(line);
}

static void show_step(const train_report *r, const loam_event *event)
{
    if (terminal_is_live()) {
        draw_live(event);
        return;
    }
    if (event->step > FIRST_LINES && event->step % r->every != 0 && event->step != event->n_steps)
        return;
    terminal_line("step %lld/%lld  loss %.4f  lr %.2e  gradient %.3g  %.0f tokens/s  ETA %s",
                  (long long)event->step, (long long)event->n_steps, event->loss,
                  event->learning_rate, event->grad_norm, event->tokens_per_s,
                  format_clock(event->eta_s).text);
}

static void json_step(const loam_event *event)
{
    json_print_line(json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "event", "step",
                              "step", (json_int_t)event->step, "steps", (json_int_t)event->n_steps,
                              "epoch", json_number(event->epoch), "loss", json_number(event->loss),
                              "learning_rate", json_number(event->learning_rate), "grad_norm",
                              json_number(event->grad_norm), "tokens_per_s",
                              json_number(event->tokens_per_s), "eta_s", json_number(event->eta_s),
                              "tokens", (json_int_t)event->n_tokens));
}

static void show_valid(const loam_event *event)
{
    const char *note = "";
    if (event->step > 0 && !(event->loss > event->best_loss))
        note = ", the best so far";
    terminal_line("%sstep %lld: validation loss %.4f%s%s", terminal_style(STYLE_BOLD),
                  (long long)event->step, event->loss, note, terminal_style(STYLE_NONE));
}

static void json_valid(const loam_event *event)
{
    json_print_line(json_pack("{s:s, s:I, s:o, s:o}", "event", "valid", "step",
                              (json_int_t)event->step, "loss", json_number(event->loss),
                              "best_loss", json_number(event->best_loss)));
}

/* ---- events ------------------------------------------------------------------------------- */

static void json_with_text(const char *event, const char *key, const loam_event *e)
{
    json_print_line(json_pack("{s:s, s:I, s:o}", "event", event, "step", (json_int_t)e->step, key,
                              json_text(e->text)));
}

static void on_json(const train_report *r, const loam_event *event)
{
    switch (event->kind) {
    case LOAM_EVENT_START:
        json_start(r, event);
        break;
    case LOAM_EVENT_STEP:
        json_step(event);
        break;
    case LOAM_EVENT_VALID:
        json_valid(event);
        break;
    case LOAM_EVENT_SAVED:
        json_with_text("saved", "path", event);
        break;
    case LOAM_EVENT_WARNING:
        json_with_text("warning", "text", event);
        break;
    case LOAM_EVENT_SPLIT:
        if (r->sched_debug)
            json_with_text("split", "text", event);
        break;
    }
}

static void on_plain(const train_report *r, const loam_event *event)
{
    switch (event->kind) {
    case LOAM_EVENT_START:
        show_start(r, event);
        break;
    case LOAM_EVENT_STEP:
        show_step(r, event);
        break;
    case LOAM_EVENT_VALID:
        show_valid(event);
        break;
    case LOAM_EVENT_SAVED:
        /* The best adapter's line is the validation's; others are files of their own. */
        if (strcmp(event->text, r->options->output) != 0)
            terminal_line("step %lld: saved %s", (long long)event->step, event->text);
        break;
    case LOAM_EVENT_WARNING:
        terminal_warn("%s", event->text);
        break;
    case LOAM_EVENT_SPLIT:
        if (r->sched_debug)
            terminal_line("%s", event->text);
        break;
    }
}

bool train_report_event(void *user, const loam_event *event)
{
    train_report *r = user;
    bool was_open = terminal_is_open();
    if (event->kind == LOAM_EVENT_START) {
        r->every = choose_every(event->n_steps);
        /* Before this there is nothing to save, and a signal may end the process as usual. */
        terminal_catch_signals();
    }
    if (r->json)
        on_json(r, event);
    else
        on_plain(r, event);
    if (was_open && !terminal_is_open())
        terminal_warn("nobody reads the standard output any more; training goes on without it");
    return terminal_signal() == 0;
}

/* ---- the end ------------------------------------------------------------------------------ */

static int64_t file_bytes(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (int64_t)s.st_size : 0;
}

/* Ollama takes a path without a directory for the name of a model. */
static const char *ollama_prefix(const char *path)
{
    return path[0] == '/' || path[0] == '.' ? "" : "./";
}

static void show_use(const train_report *r)
{
    char *model = format_shell_word(r->model_path);
    char *adapter = format_shell_word(r->options->output);
    if (model && adapter) {
        terminal_line("\nUse it:");
        terminal_line("  loam generate %s --lora %s -p \"...\"", model, adapter);
        terminal_line("  llama-cli -m %s --lora %s", model, adapter);
        terminal_line("  llama-server -m %s --lora %s", model, adapter);
        terminal_line("or in Ollama (ollama create NAME -f Modelfile), with this Modelfile:");
        terminal_line("  FROM %s%s", ollama_prefix(r->model_path), r->model_path);
        terminal_line("  ADAPTER %s%s", ollama_prefix(r->options->output), r->options->output);
    }
    free(model);
    free(adapter);
}

static void json_result(const train_report *r, const loam_train_result *result, loam_status status)
{
    json_print_line(json_pack(
        "{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:I}", "event", "end",
        "status", loam_status_name(status), "steps", (json_int_t)result->n_steps, "skipped",
        (json_int_t)result->n_skipped, "first_loss", json_number(result->first_loss), "last_loss",
        json_number(result->last_loss), "first_valid_loss", json_number(result->first_valid_loss),
        "best_valid_loss", json_number(result->best_valid_loss), "best_step",
        (json_int_t)result->best_step, "tokens", (json_int_t)result->n_tokens, "seconds",
        json_number(result->seconds), "adapter", json_text(r->options->output), "adapter_bytes",
        (json_int_t)file_bytes(r->options->output)));
}

void train_report_result(const train_report *r, const loam_train_result *result, loam_status status)
{
    if (r->json) {
        json_result(r, result, status);
        return;
    }
    if (isfinite(result->best_valid_loss)) {
        terminal_line("\nvalidation loss %.4f at first, %s%.4f%s at best (step %lld)",
                      result->first_valid_loss, terminal_style(STYLE_GOOD), result->best_valid_loss,
                      terminal_style(STYLE_NONE), (long long)result->best_step);
        if (result->best_valid_loss > result->first_valid_loss)
            terminal_warn("no validation was better than the model was before: the adapter makes "
                          "it worse; try a lower --learning-rate");
    } else if (result->n_steps > 0)
        terminal_line("\nloss %.4f at the first step, %.4f at the last", result->first_loss,
                      result->last_loss);
    terminal_line("%lld steps, %lld tokens in %s (%.0f tokens/s)", (long long)result->n_steps,
                  (long long)result->n_tokens, format_duration(result->seconds).text,
                  result->seconds > 0 ? (double)result->n_tokens / result->seconds : 0);
    terminal_line("adapter: %s (%s)", r->options->output,
                  format_bytes(file_bytes(r->options->output)).text);
    show_use(r);
}
