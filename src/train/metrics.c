/* metrics.c: one JSON object per step and validation, in a file. */
#include "train/run.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The length of the lines that belong to steps up to `step`. */
static size_t kept_bytes(const char *data, size_t n_bytes, int64_t step)
{
    size_t at = 0;
    while (at < n_bytes) {
        const char *end = memchr(data + at, '\n', n_bytes - at);
        if (!end)
            return at; /* a line that was cut off */
        json_t *line = json_loadb(data + at, (size_t)(end - data) - at, 0, NULL);
        int64_t found = json_integer_value(json_object_get(line, "step"));
        bool is_kept = line && found <= step;
        json_decref(line);
        if (!is_kept)
            return at;
        at = (size_t)(end - data) + 1;
    }
    return at;
}

/* A run that was killed may have written more steps than it had saved. */
static loam_status cut(const loam_run *r)
{
    char *data;
    size_t n_bytes;
    loam_file_writer *w;
    FILE *there = fopen(r->o->metrics, "rb");
    if (!there)
        return LOAM_OK;
    bool is_empty = fgetc(there) == EOF;
    fclose(there);
    if (is_empty)
        return LOAM_OK;
    LOAM_TRY(loam_read_file(r->o->metrics, (size_t)1 << 32, &data, &n_bytes, r->e));
    loam_status status = loam_file_writer_open(r->o->metrics, &w, r->e);
    if (status == LOAM_OK) {
        status = loam_file_writer_write(w, data, kept_bytes(data, n_bytes, r->event.step), r->e);
        if (status == LOAM_OK)
            status = loam_file_writer_commit(w, r->e);
        else
            loam_file_writer_discard(w);
    }
    loam_free(data);
    return status;
}

loam_status loam_run_metrics_open(loam_run *r)
{
    if (!r->o->metrics)
        return LOAM_OK;
    if (r->o->resume)
        LOAM_TRY(cut(r));
    r->metrics = fopen(r->o->metrics, r->o->resume ? "ab" : "wb");
    if (!r->metrics)
        return loam_fail(r->e, LOAM_E_IO, "--metrics '%s': %s", r->o->metrics, strerror(errno));
    return LOAM_OK;
}

/* JSON has no word for what is not a number. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

loam_status loam_run_metrics_write(loam_run *r, const char *event)
{
    if (!r->metrics)
        return LOAM_OK;
    const loam_event *v = &r->event;
    json_t *line =
        v->kind == LOAM_EVENT_VALID
            ? json_pack("{s:s, s:I, s:o, s:o}", "event", event, "step", (json_int_t)v->step, "loss",
                        number(v->loss), "best_loss", number(v->best_loss))
            : json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "event", event, "step",
                        (json_int_t)v->step, "epoch", number(v->epoch), "loss", number(v->loss),
                        "learning_rate", number(v->learning_rate), "grad_norm",
                        number(v->grad_norm), "tokens_per_s", number(v->tokens_per_s), "tokens",
                        (json_int_t)v->n_tokens, "skipped", (json_int_t)r->result.n_skipped);
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if (!text)
        return loam_fail(r->e, LOAM_E_MEMORY, "no memory for a line of '%s'", r->o->metrics);
    bool failed = fprintf(r->metrics, "%s\n", text) < 0 || fflush(r->metrics) != 0;
    free(text);
    if (!failed)
        return LOAM_OK;
    /* Training is worth more than its log. */
    char warning[512];
    snprintf(warning, sizeof warning, "--metrics '%s': %s; nothing more is written to it",
             r->o->metrics, strerror(errno));
    fclose(r->metrics);
    r->metrics = NULL;
    loam_run_send(r, LOAM_EVENT_WARNING, warning);
    return LOAM_OK;
}
