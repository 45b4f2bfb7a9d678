/* jinja_json.c: tojson as transformers defines it: Python's json.dumps with ensure_ascii False and
 * nothing escaped for HTML. */
#include "text/jinja.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_style {
    bool ascii;
    bool sort;
    const jinja_value *indent; /* one level's string; NULL: all in one line */
    const jinja_value *between_items;
    const jinja_value *after_key;
    size_t level;
} json_style;

static bool write_json(jinja_run *run, json_style *style, const jinja_value *v);

static bool emit_string_value(jinja_run *run, const jinja_value *text)
{
    return jinja_emit(run, text->as.string.data, text->as.string.bytes);
}

static bool write_code(jinja_run *run, uint32_t code, bool ascii)
{
    static const char special[] = "\"\\\n\r\t\b\f";
    static const char letters[] = "\"\\nrtbf";
    char text[16];
    const char *found = code != 0 && code < 0x80 ? strchr(special, (int)code) : NULL;
    int n = 0;
    if (found != NULL)
        n = snprintf(text, sizeof text, "\\%c", letters[found - special]);
    else if (code < 0x20 || (ascii && code >= 0x7f && code < 0x10000))
        n = snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
    else if (ascii && code >= 0x10000)
        n = snprintf(text, sizeof text, "\\u%04x\\u%04x",
                     (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                     (unsigned)(0xdc00 + ((code - 0x10000) & 0x3ff)));
    else
        n = jinja_utf8_put(text, code);
    return jinja_emit(run, text, (size_t)n);
}

static bool write_text(jinja_run *run, const jinja_value *v, bool ascii)
{
    const char *p = v->as.string.data;
    const char *end = p + v->as.string.bytes;
    if (!jinja_emit_text(run, "\""))
        return false;
    while (p < end) {
        const char *plain = p;
        while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\' &&
               (!ascii || (unsigned char)*p < 0x7f))
            p++;
        if (p > plain && !jinja_emit(run, plain, (size_t)(p - plain)))
            return false;
        if (p < end && !write_code(run, jinja_utf8_next(&p, end), ascii))
            return false;
    }
    return jinja_emit_text(run, "\"");
}

/* Numbers, true, false and null; *known false for what is none of them. */
static bool write_scalar(jinja_run *run, const jinja_value *v, bool *known)
{
    char text[40];
    *known = true;
    switch (v->kind) {
    case JINJA_NONE:
        return jinja_emit_text(run, "null");
    case JINJA_BOOLEAN:
        return jinja_emit_text(run, v->as.boolean ? "true" : "false");
    case JINJA_INTEGER:
        snprintf(text, sizeof text, "%lld", (long long)v->as.integer);
        return jinja_emit_text(run, text);
    case JINJA_FLOAT:
        if (isnan(v->as.number) || isinf(v->as.number))
            snprintf(text, sizeof text, "%s",
                     isnan(v->as.number) ? "NaN"
                     : v->as.number > 0  ? "Infinity"
                                         : "-Infinity");
        else
            jinja_float_text(text, v->as.number);
        return jinja_emit_text(run, text);
    default:
        *known = false;
        return true;
    }
}

static bool new_line(jinja_run *run, const json_style *style)
{
    if (style->indent == NULL)
        return true;
    if (!jinja_emit_text(run, "\n"))
        return false;
    for (size_t i = 0; i < style->level; i++) {
        if (!emit_string_value(run, style->indent))
            return false;
    }
    return true;
}

static bool begin_item(jinja_run *run, const json_style *style, size_t i)
{
    return (i == 0 || emit_string_value(run, style->between_items)) && new_line(run, style);
}

static bool write_array(jinja_run *run, json_style *style, const jinja_value *v)
{
    if (v->as.list.n == 0)
        return jinja_emit_text(run, "[]");
    if (!jinja_emit_text(run, "["))
        return false;
    style->level++;
    for (size_t i = 0; i < v->as.list.n; i++) {
        if (!begin_item(run, style, i) || !write_json(run, style, v->as.list.items[i]))
            return false;
    }
    style->level--;
    return new_line(run, style) && jinja_emit_text(run, "]");
}

static bool write_key(jinja_run *run, const json_style *style, const jinja_value *key)
{
    bool known = false;
    if (key->kind == JINJA_STRING)
        return write_text(run, key, style->ascii) && emit_string_value(run, style->after_key);
    if (!jinja_emit_text(run, "\"") || !write_scalar(run, key, &known))
        return false;
    if (!known)
        return jinja_refuse(run, "tojson: keys must be str, int, float, bool or None, not '%s'",
                            jinja_type_name(key));
    return jinja_emit_text(run, "\"") && emit_string_value(run, style->after_key);
}

static bool write_object(jinja_run *run, json_style *style, const jinja_dict *d)
{
    jinja_entry *entries = d->entries;
    if (d->n == 0)
        return jinja_emit_text(run, "{}");
    if (style->sort) {
        entries = jinja_alloc(run, d->n * sizeof *entries);
        if (entries == NULL)
            return false;
        memcpy(entries, d->entries, d->n * sizeof *entries);
        if (!jinja_sort(run, entries, d->n, false))
            return false;
    }
    if (!jinja_emit_text(run, "{"))
        return false;
    style->level++;
    for (size_t i = 0; i < d->n; i++) {
        if (!begin_item(run, style, i) || !write_key(run, style, entries[i].key) ||
            !write_json(run, style, entries[i].value))
            return false;
    }
    style->level--;
    return new_line(run, style) && jinja_emit_text(run, "}");
}

static bool write_any(jinja_run *run, json_style *style, const jinja_value *v)
{
    bool known = false;
    if (v->kind == JINJA_STRING)
        return write_text(run, v, style->ascii);
    if (v->kind == JINJA_DICT)
        return write_object(run, style, v->as.dict);
    if (v->kind == JINJA_LIST && v->sequence <= JINJA_SEQ_GROUP)
        return write_array(run, style, v);
    if (!write_scalar(run, v, &known))
        return false;
    return known ||
           (jinja_defined(run, v) &&
            jinja_refuse(run, "tojson: an object of type '%s' is not JSON", jinja_type_name(v)));
}

static bool write_json(jinja_run *run, json_style *style, const jinja_value *v)
{
    if (!jinja_enter(run) || !write_any(run, style, v))
        return false;
    run->depth--;
    return true;
}

static bool read_separators(jinja_run *run, jinja_value *v, json_style *style)
{
    bool pair = v->kind == JINJA_LIST && v->as.list.n == 2 &&
                v->as.list.items[0]->kind == JINJA_STRING &&
                v->as.list.items[1]->kind == JINJA_STRING;
    if (!pair)
        return jinja_refuse(run, "tojson: separators must be two strings");
    style->between_items = v->as.list.items[0];
    style->after_key = v->as.list.items[1];
    return true;
}

static bool read_indent(jinja_run *run, jinja_value *v, json_style *style)
{
    int64_t n = 0;
    if (v == NULL || v->kind == JINJA_NONE)
        return true;
    if (v->kind == JINJA_STRING) {
        style->indent = v;
        return true;
    }
    if (!jinja_arg_int(run, v, "indent", 0, &n))
        return false;
    if (n > 1000)
        return jinja_refuse(run, "tojson: an indent of at most 1000 is expected");
    size_t bytes = n > 0 ? (size_t)n : 0;
    char *blanks = jinja_alloc(run, bytes);
    if (blanks == NULL)
        return false;
    memset(blanks, ' ', bytes);
    style->indent = jinja_string(run, blanks, bytes);
    return style->indent != NULL;
}

/* arg: ensure_ascii, indent, separators, sort_keys; each may be NULL */
jinja_value *jinja_tojson(jinja_run *run, jinja_value **arg, jinja_value *v)
{
    json_style style = {.ascii = arg[0] != NULL && jinja_truth(arg[0]),
                        .sort = arg[3] != NULL && jinja_truth(arg[3])};
    if (!read_indent(run, arg[1], &style))
        return NULL;
    const char *between = style.indent != NULL ? "," : ", ";
    style.between_items = jinja_string(run, between, strlen(between));
    style.after_key = jinja_string(run, ": ", 2);
    if (style.between_items == NULL || style.after_key == NULL)
        return NULL;
    if (arg[2] != NULL && arg[2]->kind != JINJA_NONE && !read_separators(run, arg[2], &style))
        return NULL;
    size_t mark = jinja_mark(run);
    return write_json(run, &style, v) ? jinja_take(run, mark) : NULL;
}
