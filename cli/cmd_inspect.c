/* cmd_inspect.c: loam inspect: the keys and tensors of a GGUF file. */
#include "format.h"
#include "json.h"
#include "options.h"
#include "terminal.h"

#include <fnmatch.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TYPES 64

typedef struct inspect_settings {
    settings common;
    const char *keys, *tensors;
    bool full;
} inspect_settings;

#define AT(field) offsetof(inspect_settings, field)

static const option inspect_options[] = {
    {OPTION_HEADING, .help = "What to show"},
    {OPTION_TEXT, "keys", 0, AT(keys), "PATTERN",
     .help = "only keys that match: a glob such as 'tokenizer.*', or a part of the name; without "
             "--tensors no tensors"},
    {OPTION_TEXT, "tensors", 0, AT(tensors), "PATTERN",
     .help = "only tensors that match, such as 'blk.0.*'; without --keys no keys"},
    {OPTION_FLAG, "full", 0, AT(full), .help = "values in full, however long they are"},
    {.kind = OPTION_END},
};

static void set_defaults(void *s)
{
    (void)s; /* all zero */
}

/* A pattern without wildcards is looked for anywhere in the name. */
static bool matches(const char *pattern, const char *name)
{
    if (!pattern)
        return true;
    if (!strpbrk(pattern, "*?["))
        return strstr(name, pattern) != NULL;
    return fnmatch(pattern, name, 0) == 0;
}

static bool shows_keys(const inspect_settings *s)
{
    return s->keys || !s->tensors;
}

static bool shows_tensors(const inspect_settings *s)
{
    return s->tensors || !s->keys;
}

/* "2560 x 9728" */
static short_text shape_text(const loam_file_tensor *t)
{
    short_text text = {""};
    size_t length = 0;
    for (int i = 0; i < t->n_dims && i < 4 && length < sizeof text.text; i++) {
        int n = snprintf(text.text + length, sizeof text.text - length, "%s%lld",
                         i > 0 ? " x " : "", (long long)t->ne[i]);
        length += n > 0 ? (size_t)n : 0;
    }
    return text;
}

/* ---- tables ------------------------------------------------------------------------------- */

/* The widest name that is shown; tables begin with it. */
static int name_width(loam_file *f, const loam_file_info *info, const inspect_settings *s,
                      loam_error *e)
{
    size_t width = 4;
    for (int64_t i = 0; shows_keys(s) && i < info->n_keys; i++) {
        loam_file_key key;
        if (loam_file_key_at(f, i, 8, &key, e) != LOAM_OK)
            return -1;
        if (matches(s->keys, key.name) && strlen(key.name) > width)
            width = strlen(key.name);
    }
    for (int64_t i = 0; shows_tensors(s) && i < info->n_tensors; i++) {
        loam_file_tensor t;
        loam_file_tensor_at(f, i, &t);
        if (matches(s->tensors, t.name) && strlen(t.name) > width)
            width = strlen(t.name);
    }
    return width < 64 ? (int)width : 64;
}

static loam_status show_keys(loam_file *f, const loam_file_info *info, const inspect_settings *s,
                             int width, loam_error *e)
{
    int room = terminal_columns() - width - 14;
    size_t value_bytes = s->full ? SIZE_MAX : room < 60 ? 60 : (size_t)room;
    terminal_line("%s%-*s  %-9s  %s%s", terminal_style(STYLE_BOLD), width, "key", "type", "value",
                  terminal_style(STYLE_NONE));
    for (int64_t i = 0; i < info->n_keys && terminal_is_open(); i++) {
        loam_file_key key;
        loam_status status = loam_file_key_at(f, i, value_bytes, &key, e);
        if (status != LOAM_OK)
            return status;
        if (matches(s->keys, key.name))
            terminal_line("%-*s  %-9s  %s", width, key.name, key.type, key.value);
    }
    return LOAM_OK;
}

static void show_tensors(const loam_file *f, const loam_file_info *info, const inspect_settings *s,
                         int width)
{
    terminal_line("%s%-*s  %-8s  %-22s  %14s  %16s%s%s", terminal_style(STYLE_BOLD), width,
                  "tensor", "type", "shape", "bytes", "offset", info->n_files > 1 ? "  file" : "",
                  terminal_style(STYLE_NONE));
    for (int64_t i = 0; i < info->n_tensors && terminal_is_open(); i++) {
        loam_file_tensor t;
        char shard[24] = "";
        loam_file_tensor_at(f, i, &t);
        if (!matches(s->tensors, t.name))
            continue;
        if (info->n_files > 1)
            snprintf(shard, sizeof shard, "  %4d", t.shard + 1);
        terminal_line("%-*s  %-8s  %-22s  %14lld  %16lld%s", width, t.name, t.type,
                      shape_text(&t).text, (long long)t.bytes, (long long)t.offset_bytes, shard);
    }
}

typedef struct type_sum {
    const char *type;
    int64_t n_tensors, n_elements, bytes;
} type_sum;

/* What each type adds up to, in the order of first use. */
static int sum_types(const loam_file *f, const loam_file_info *info, type_sum sums[MAX_TYPES])
{
    int n = 0;
    for (int64_t i = 0; i < info->n_tensors; i++) {
        loam_file_tensor t;
        int k = 0;
        loam_file_tensor_at(f, i, &t);
        while (k < n && strcmp(sums[k].type, t.type) != 0)
            k++;
        if (k == MAX_TYPES)
            continue;
        if (k == n)
            sums[n++] = (type_sum){.type = t.type};
        sums[k].n_tensors++;
        sums[k].n_elements += t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3];
        sums[k].bytes += t.bytes;
    }
    return n;
}

static void show_summary(const loam_file *f, const loam_file_info *info, const char *path)
{
    type_sum sums[MAX_TYPES];
    int n = sum_types(f, info, sums);
    char files[32] = "";
    if (info->n_files > 1)
        snprintf(files, sizeof files, " in %d files", info->n_files);
    terminal_line("%s: GGUF version %u%s, %lld keys, %lld tensors, %s elements, %s of data, "
                  "aligned to %zu bytes",
                  path, info->version, files, (long long)info->n_keys, (long long)info->n_tensors,
                  format_count(info->n_elements).text, format_bytes(info->data_bytes).text,
                  info->alignment_bytes);
    for (int k = 0; k < n; k++)
        terminal_line("  %-8s %5lld tensors  %8s elements  %10s  %.3f bits each", sums[k].type,
                      (long long)sums[k].n_tensors, format_count(sums[k].n_elements).text,
                      format_bytes(sums[k].bytes).text,
                      sums[k].n_elements > 0
                          ? 8.0 * (double)sums[k].bytes / (double)sums[k].n_elements
                          : 0.0);
}

static loam_status show(loam_file *f, const loam_file_info *info, const inspect_settings *s,
                        const char *path, loam_error *e)
{
    loam_status status = LOAM_OK;
    int width = name_width(f, info, s, e);
    if (width < 0)
        return e->status;
    show_summary(f, info, path);
    if (shows_keys(s)) {
        terminal_line("%s", "");
        status = show_keys(f, info, s, width, e);
    }
    if (status == LOAM_OK && shows_tensors(s)) {
        terminal_line("%s", "");
        show_tensors(f, info, s, width);
    }
    return status;
}

/* ---- JSON --------------------------------------------------------------------------------- */

/* A value is itself where the library gave all of it, else the shortened text. */
static json_t *json_key(const loam_file_key *key)
{
    json_t *value = json_loads(key->value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    json_t *object = json_pack("{s:o, s:o, s:I}", "name", json_text(key->name), "type",
                               json_text(key->type), "n", (json_int_t)key->n);
    if (object && value)
        json_object_set_new(object, "value", value);
    else if (object)
        json_object_set_new(object, "shortened", json_text(key->value));
    return object;
}

static loam_status json_keys(loam_file *f, const loam_file_info *info, const inspect_settings *s,
                             json_t *list, loam_error *e)
{
    for (int64_t i = 0; i < info->n_keys; i++) {
        loam_file_key key;
        loam_status status = loam_file_key_at(f, i, s->full ? SIZE_MAX : 256, &key, e);
        if (status != LOAM_OK)
            return status;
        if (matches(s->keys, key.name))
            json_array_append_new(list, json_key(&key));
    }
    return LOAM_OK;
}

static void json_tensors(const loam_file *f, const loam_file_info *info, const inspect_settings *s,
                         json_t *list)
{
    for (int64_t i = 0; i < info->n_tensors; i++) {
        loam_file_tensor t;
        loam_file_tensor_at(f, i, &t);
        if (!matches(s->tensors, t.name))
            continue;
        json_t *shape = json_array();
        for (int d = 0; d < t.n_dims; d++)
            json_array_append_new(shape, json_integer(t.ne[d]));
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:o, s:I, s:I, s:i}", "name", json_text(t.name),
                                        "type", t.type, "ne", shape, "bytes", (json_int_t)t.bytes,
                                        "offset", (json_int_t)t.offset_bytes, "file", t.shard));
    }
}

static loam_status show_json(loam_file *f, const loam_file_info *info, const inspect_settings *s,
                             const char *path, loam_error *e)
{
    json_t *keys = json_array(), *tensors = json_array();
    loam_status status = LOAM_OK;
    if (shows_keys(s))
        status = json_keys(f, info, s, keys, e);
    if (shows_tensors(s))
        json_tensors(f, info, s, tensors);
    json_t *object =
        json_pack("{s:o, s:I, s:i, s:I, s:I, s:I, s:I, s:I}", "path", json_text(path), "version",
                  (json_int_t)info->version, "files", info->n_files, "n_keys",
                  (json_int_t)info->n_keys, "n_tensors", (json_int_t)info->n_tensors, "n_elements",
                  (json_int_t)info->n_elements, "data_bytes", (json_int_t)info->data_bytes,
                  "alignment_bytes", (json_int_t)info->alignment_bytes);
    json_object_set_new(object, "keys", keys);
    json_object_set_new(object, "tensors", tensors);
    if (status == LOAM_OK)
        json_print_line(object);
    else
        json_decref(object);
    return status;
}

static int run(void *settings_of_run, const char *const *operands)
{
    const inspect_settings *s = settings_of_run;
    loam_file *f;
    loam_file_info info;
    loam_error e = {0};
    loam_status status = loam_file_open(operands[0], &f, &e);
    if (status != LOAM_OK)
        return terminal_error(&e);
    loam_file_info_get(f, &info);
    status = s->common.json ? show_json(f, &info, s, operands[0], &e)
                            : show(f, &info, s, operands[0], &e);
    loam_file_close(f);
    return status == LOAM_OK ? EXIT_OK : terminal_error(&e);
}

const command command_inspect = {
    .name = "inspect",
    .operands = "FILE.gguf",
    .n_operands = 1,
    .needs = "",
    .summary = "show what a GGUF file holds",
    .about = "Shows the metadata keys and the tensors of a GGUF file: a model, the first file of a "
             "split one, or an adapter. A file of which only the beginning was downloaded will "
             "do.",
    .examples = "loam inspect model.gguf\n"
                "loam inspect model.gguf --keys 'tokenizer.*' --full\n"
                "loam inspect model.gguf --tensors ffn_down --json\n",
    .options = {inspect_options, options_of_output},
    .settings_bytes = sizeof(inspect_settings),
    .set_defaults = set_defaults,
    .run = run,
};
