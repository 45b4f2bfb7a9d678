/* json.c: JSON on the standard output. */
#include "json.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_text(const char *text)
{
    if (!text)
        return json_null();
    json_t *s = json_string(text);
    if (s)
        return s;
    /* Keeps what is ASCII: this is the rare text that is broken. */
    size_t n = strlen(text);
    char *clean = malloc(3 * n + 1);
    if (!clean)
        return json_null();
    char *p = clean;
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] < 0x80) {
            *p++ = text[i];
        } else {
            memcpy(p, "\xEF\xBF\xBD", 3);
            p += 3;
        }
    }
    *p = '\0';
    s = json_string(clean);
    free(clean);
    return s;
}

json_t *json_data_summary(const loam_data_summary *d)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "examples",
                     (json_int_t)d->n_examples, "tokens", (json_int_t)d->n_tokens, "trained",
                     (json_int_t)d->n_trained, "longest", (json_int_t)d->n_longest, "bad",
                     (json_int_t)d->n_bad, "overlong", (json_int_t)d->n_overlong, "truncated",
                     (json_int_t)d->n_truncated, "split", (json_int_t)d->n_split, "untrained",
                     (json_int_t)d->n_untrained);
}

bool json_print_line(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (!text) {
        terminal_warn("no memory for a line of JSON");
        return false;
    }
    bool is_open = terminal_write(text, strlen(text)) && terminal_write("\n", 1);
    free(text);
    return is_open;
}

void json_print_error(const loam_error *e)
{
    json_print_line(json_pack("{s:s, s:s, s:o}", "event", "error", "status",
                              loam_status_name(e->status), "message", json_text(e->message)));
}
