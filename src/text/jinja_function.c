/* jinja_function.c: the global functions, finding built-ins, and reading their arguments. */
#include "text/jinja.h"

#include <string.h>
#include <time.h>

/* ---- finding and reading ------------------------------------------------------------------- */

const jinja_builtin *jinja_find(const jinja_builtin *table, const char *name, size_t bytes)
{
    for (; table->name != NULL; table++) {
        if (strlen(table->name) == bytes && memcmp(table->name, name, bytes) == 0)
            return table;
    }
    return NULL;
}

const jinja_builtin *jinja_find_filter(const char *name, size_t bytes)
{
    const jinja_builtin *const tables[] = {jinja_text_filters, jinja_sequence_filters,
                                           jinja_value_filters};
    const jinja_builtin *found = NULL;
    for (int i = 0; i < LOAM_COUNT(tables) && found == NULL; i++)
        found = jinja_find(tables[i], name, bytes);
    return found;
}

const jinja_builtin *jinja_find_method(const jinja_value *object, const char *name, size_t bytes)
{
    switch (object->kind) {
    case JINJA_STRING:
        return jinja_find(jinja_string_methods, name, bytes);
    case JINJA_LIST:
        if (object->sequence == JINJA_SEQ_LIST)
            return jinja_find(jinja_list_methods, name, bytes);
        return object->sequence <= JINJA_SEQ_RANGE ? jinja_find(jinja_tuple_methods, name, bytes)
                                                   : NULL;
    case JINJA_DICT:
        return jinja_find(jinja_dict_methods, name, bytes);
    case JINJA_LOOP:
        return jinja_find(jinja_loop_methods, name, bytes);
    case JINJA_CYCLER:
        return jinja_find(jinja_cycler_methods, name, bytes);
    default:
        return NULL;
    }
}

bool jinja_arg_int(jinja_run *run, jinja_value *v, const char *name, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (v == NULL)
        return true;
    if (!jinja_defined(run, v))
        return false;
    if (!jinja_is_int(v))
        return jinja_refuse(run, "the argument '%s' must be an integer, not '%s'", name,
                            jinja_type_name(v));
    *out = jinja_int_of(v);
    return true;
}

bool jinja_arg_string(jinja_run *run, jinja_value *v, const char *name, jinja_value *fallback,
                      jinja_value **out)
{
    *out = v != NULL ? v : fallback;
    if (v == NULL || v->kind == JINJA_STRING)
        return true;
    return jinja_defined(run, v) &&
           jinja_refuse(run, "the argument '%s' must be a string, not '%s'", name,
                        jinja_type_name(v));
}

jinja_value *jinja_path(jinja_run *run, jinja_value *object, jinja_value *path)
{
    if (path == NULL || path->kind == JINJA_NONE)
        return object;
    if (path->kind != JINJA_STRING)
        return jinja_subscript(run, object, path);
    const char *p = path->as.string.data;
    const char *end = p + path->as.string.bytes;
    while (object != NULL) {
        const char *dot = p < end ? memchr(p, '.', (size_t)(end - p)) : NULL;
        size_t bytes = (size_t)((dot != NULL ? dot : end) - p);
        int64_t number = 0;
        bool digits = bytes > 0 && p[0] != '-' && p[0] != '+' && p[0] != ' ' &&
                      jinja_parse_int(p, bytes, 10, &number);
        jinja_value *key = digits ? jinja_integer(run, number) : jinja_string(run, p, bytes);
        object = key != NULL ? jinja_subscript(run, object, key) : NULL;
        if (dot == NULL)
            break;
        p = dot + 1;
    }
    return object;
}

/* ---- functions ----------------------------------------------------------------------------- */

/* The number of values of a range. */
static uint64_t range_count(int64_t start, int64_t stop, int64_t step)
{
    if (step > 0)
        return start < stop ? ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1 : 0;
    return start > stop ? ((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1 : 0;
}

static jinja_value *function_range(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)self;
    (void)raw;
    int64_t bounds[3] = {0, 0, 1};
    if (!jinja_arg_int(run, arg[0], "start", 0, &bounds[0]) ||
        !jinja_arg_int(run, arg[1], "stop", 0, &bounds[1]) ||
        !jinja_arg_int(run, arg[2], "step", 1, &bounds[2]))
        return NULL;
    if (arg[1] == NULL) {
        bounds[1] = bounds[0];
        bounds[0] = 0;
    }
    if (bounds[2] == 0)
        return jinja_fail(run, LOAM_E_DATA, "range's step must not be zero");
    uint64_t n = range_count(bounds[0], bounds[1], bounds[2]);
    if (!jinja_step(run, n))
        return NULL;
    size_t capacity = (size_t)LOAM_MIN(n, SIZE_MAX - 3) + 3;
    jinja_value *list = jinja_list(run, JINJA_SEQ_RANGE, capacity);
    for (uint64_t i = 0; list != NULL && i < n + 3; i++) {
        /* unsigned, so that the last step may pass INT64_MAX without harm */
        uint64_t value = (uint64_t)bounds[0] + i * (uint64_t)bounds[2];
        list->as.list.items[i] = jinja_integer(run, i < n ? (int64_t)value : bounds[i - n]);
        if (list->as.list.items[i] == NULL)
            return NULL;
    }
    if (list != NULL)
        list->as.list.n = (size_t)n;
    return list;
}

/* Adds the entries of a dict, or pairs, to a dict: dict(x), namespace(x) and update(x). */
static bool add_entries(jinja_run *run, jinja_dict *dict, jinja_value *from)
{
    if (from->kind == JINJA_DICT) {
        for (size_t i = 0; i < from->as.dict->n; i++) {
            const jinja_entry *e = &from->as.dict->entries[i];
            if (!jinja_dict_set(run, dict, e->key, e->value))
                return false;
        }
        return true;
    }
    jinja_value **items = NULL;
    size_t n = 0;
    if (!jinja_iterate(run, from, &items, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        jinja_value **pair = NULL;
        size_t n_pair = 0;
        if (!jinja_iterate(run, items[i], &pair, &n_pair))
            return false;
        if (n_pair != 2)
            return jinja_refuse(run, "expected pairs of key and value, found %zu values", n_pair);
        if (!jinja_dict_set(run, dict, pair[0], pair[1]))
            return false;
    }
    return true;
}

static jinja_value *build_dict(jinja_run *run, jinja_kind kind, const jinja_args *raw)
{
    jinja_value *dict = jinja_dict_value(run, kind);
    if (dict == NULL)
        return NULL;
    if (raw->n_positional > 1)
        return jinja_fail(run, LOAM_E_DATA, "expected at most 1 positional argument, found %zu",
                          raw->n_positional);
    if (raw->n_positional == 1 && !add_entries(run, dict->as.dict, raw->positional[0]))
        return NULL;
    for (size_t i = 0; i < raw->named.n; i++) {
        if (!jinja_dict_set(run, dict->as.dict, raw->named.entries[i].key,
                            raw->named.entries[i].value))
            return NULL;
    }
    return dict;
}

static jinja_value *function_dict(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)self;
    (void)arg;
    return build_dict(run, JINJA_DICT, raw);
}

static jinja_value *function_namespace(jinja_run *run, jinja_value *self, jinja_value **arg,
                                       const jinja_args *raw)
{
    (void)self;
    (void)arg;
    return build_dict(run, JINJA_NAMESPACE, raw);
}

static jinja_value *function_joiner(jinja_run *run, jinja_value *self, jinja_value **arg,
                                    const jinja_args *raw)
{
    (void)self;
    (void)raw;
    jinja_value *v = jinja_alloc(run, sizeof *v);
    if (v == NULL)
        return NULL;
    v->kind = JINJA_JOINER;
    v->as.joiner.separator = arg[0] != NULL ? arg[0] : jinja_string(run, ", ", 2);
    return v->as.joiner.separator != NULL ? v : NULL;
}

static jinja_value *function_cycler(jinja_run *run, jinja_value *self, jinja_value **arg,
                                    const jinja_args *raw)
{
    (void)self;
    (void)arg;
    jinja_value *v = jinja_alloc(run, sizeof *v);
    if (raw->n_positional == 0)
        return jinja_fail(run, LOAM_E_DATA, "cycler needs at least one item");
    if (v == NULL)
        return NULL;
    v->kind = JINJA_CYCLER;
    v->as.cycler.items = raw->positional;
    v->as.cycler.n = raw->n_positional;
    return v;
}

static jinja_value *function_raise(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)self;
    (void)raw;
    jinja_value *text = jinja_to_string(run, arg[0]);
    if (text == NULL)
        return NULL;
    return jinja_fail(run, LOAM_E_DATA, "the template refuses this conversation: %.*s",
                      (int)LOAM_MIN(text->as.string.bytes, 800), text->as.string.data);
}

static jinja_value *function_strftime_now(jinja_run *run, jinja_value *self, jinja_value **arg,
                                          const jinja_args *raw)
{
    (void)self;
    (void)raw;
    static const char known[] = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%";
    jinja_value *format = NULL;
    if (!jinja_arg_string(run, arg[0], "format", NULL, &format))
        return NULL;
    struct tm now;
    time_t seconds = (time_t)run->limits->clock_s;
    if (gmtime_r(&seconds, &now) == NULL)
        return jinja_fail(run, LOAM_E_DATA, "the clock's time has no date");
    LOAM_ASSERT(format);
    size_t mark = jinja_mark(run);
    const char *p = format->as.string.data;
    const char *end = p + format->as.string.bytes;
    while (p < end) {
        char text[128];
        size_t taken = p[0] == '%' && end - p > 1 && strchr(known, p[1]) != NULL ? 2 : 1;
        const char conversion[] = {'%', p[taken - 1], '\0'};
        size_t n = taken == 2 ? strftime(text, sizeof text, conversion, &now) : 1;
        if (!jinja_emit(run, taken == 2 ? text : p, n))
            return NULL;
        p += taken;
    }
    return jinja_take(run, mark);
}

const jinja_builtin jinja_functions[] = {
    {"range", function_range, 1, "start stop step"},
    {"dict", function_dict, 0, NULL},
    {"namespace", function_namespace, 0, NULL},
    {"joiner", function_joiner, 0, "sep"},
    {"cycler", function_cycler, 0, NULL},
    {"raise_exception", function_raise, 1, "message"},
    {"strftime_now", function_strftime_now, 1, "format"},
    {NULL, NULL, 0, NULL},
};

/* ---- dict.update, which adds as dict() does ------------------------------------------------ */

static jinja_value *dict_update(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)arg;
    jinja_value *added = build_dict(run, JINJA_DICT, raw);
    return added != NULL && add_entries(run, self->as.dict, added) ? run->none : NULL;
}

/* ---- methods of dicts ---------------------------------------------------------------------- */

static jinja_value *dict_get(jinja_run *run, jinja_value *self, jinja_value **arg,
                             const jinja_args *raw)
{
    (void)raw;
    size_t at = 0;
    bool found = false;
    if (!jinja_dict_find(run, self->as.dict, arg[0], &at, &found))
        return NULL;
    if (found)
        return self->as.dict->entries[at].value;
    return arg[1] != NULL ? arg[1] : run->none;
}

static jinja_value *dict_items(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_dict_view(run, self->as.dict, JINJA_SEQ_ITEMS);
}

static jinja_value *dict_keys(jinja_run *run, jinja_value *self, jinja_value **arg,
                              const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_dict_view(run, self->as.dict, JINJA_SEQ_KEYS);
}

static jinja_value *dict_values(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_dict_view(run, self->as.dict, JINJA_SEQ_VALUES);
}

static jinja_value *dict_pop(jinja_run *run, jinja_value *self, jinja_value **arg,
                             const jinja_args *raw)
{
    (void)raw;
    size_t at = 0;
    bool found = false;
    if (!jinja_dict_find(run, self->as.dict, arg[0], &at, &found))
        return NULL;
    if (!found)
        return arg[1] != NULL ? arg[1] : jinja_fail(run, LOAM_E_DATA, "pop: the key is not there");
    jinja_value *value = self->as.dict->entries[at].value;
    return jinja_dict_remove(run, self->as.dict, at) ? value : NULL;
}

static jinja_value *dict_setdefault(jinja_run *run, jinja_value *self, jinja_value **arg,
                                    const jinja_args *raw)
{
    (void)raw;
    size_t at = 0;
    bool found = false;
    jinja_value *value = arg[1] != NULL ? arg[1] : run->none;
    if (!jinja_dict_find(run, self->as.dict, arg[0], &at, &found))
        return NULL;
    if (found)
        return self->as.dict->entries[at].value;
    return jinja_dict_set(run, self->as.dict, arg[0], value) ? value : NULL;
}

static jinja_value *dict_copy(jinja_run *run, jinja_value *self, jinja_value **arg,
                              const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value *copy = jinja_dict_value(run, JINJA_DICT);
    return copy != NULL && add_entries(run, copy->as.dict, self) ? copy : NULL;
}

static jinja_value *dict_clear(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    memset(self->as.dict, 0, sizeof *self->as.dict);
    return run->none;
}

const jinja_builtin jinja_dict_methods[] = {
    {"get", dict_get, 1, "key default"}, {"items", dict_items, 0, ""},
    {"keys", dict_keys, 0, ""},          {"values", dict_values, 0, ""},
    {"pop", dict_pop, 1, "key default"}, {"setdefault", dict_setdefault, 1, "key default"},
    {"update", dict_update, 0, NULL},    {"copy", dict_copy, 0, ""},
    {"clear", dict_clear, 0, ""},        {NULL, NULL, 0, NULL},
};
