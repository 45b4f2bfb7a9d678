/* jinja_filter_sequence.c: filters of sequences. Those that Jinja2 makes lazily (map, select,
 * batch, ...) give generators: true even when empty, without a length, read once. */
#include "text/jinja.h"

#include <string.h>

/* ---- sorting ------------------------------------------------------------------------------- */

static bool merge_sort(jinja_run *run, jinja_entry *entries, jinja_entry *scratch, size_t n,
                       bool reverse)
{
    if (n < 2)
        return true;
    size_t half = n / 2;
    if (!merge_sort(run, entries, scratch, half, reverse) ||
        !merge_sort(run, entries + half, scratch, n - half, reverse))
        return false;
    memcpy(scratch, entries, half * sizeof *entries);
    size_t left = 0;
    size_t right = half;
    for (size_t i = 0; left < half; i++) {
        int order = 0;
        if (right < n && !jinja_order(run, scratch[left].key, entries[right].key, "<", &order))
            return false;
        bool take_left = right == n || (reverse ? order >= 0 : order <= 0);
        entries[i] = take_left ? scratch[left++] : entries[right++];
    }
    return true;
}

bool jinja_sort(jinja_run *run, jinja_entry *entries, size_t n, bool reverse)
{
    jinja_entry *scratch = jinja_alloc(run, (n / 2 + 1) * sizeof *scratch);
    return scratch != NULL && merge_sort(run, entries, scratch, n, reverse);
}

static bool is_true(const jinja_value *v)
{
    return v != NULL && jinja_truth(v);
}

static jinja_value *lowered(jinja_run *run, jinja_value *v, bool case_sensitive)
{
    if (v == NULL || case_sensitive || v->kind != JINJA_STRING)
        return v;
    return jinja_cased(run, v, false);
}

/* The attributes that sort compares by ("a" or "a,b") as a tuple. */
static jinja_value *attributes_of(jinja_run *run, jinja_value *item, const jinja_value *names,
                                  bool case_sensitive)
{
    jinja_value *keys = jinja_list(run, JINJA_SEQ_TUPLE, 0);
    const char *p = names->as.string.data;
    const char *end = p + names->as.string.bytes;
    while (keys != NULL && p <= end) {
        const char *comma = p < end ? memchr(p, ',', (size_t)(end - p)) : NULL;
        size_t bytes = (size_t)((comma != NULL ? comma : end) - p);
        jinja_value *part = jinja_string(run, p, bytes);
        jinja_value *key =
            part != NULL ? lowered(run, jinja_path(run, item, part), case_sensitive) : NULL;
        if (key == NULL || !jinja_append(run, keys, key))
            return NULL;
        p += bytes + 1;
    }
    return keys;
}

/* The items of a value with what they are compared by: themselves, or an attribute. */
static bool keyed_items(jinja_run *run, jinja_value *self, jinja_value *attribute,
                        bool case_sensitive, jinja_entry **entries, size_t *n)
{
    jinja_value **items = NULL;
    if (!jinja_iterate(run, self, &items, n))
        return false;
    *entries = jinja_alloc(run, *n * sizeof **entries);
    for (size_t i = 0; *entries != NULL && i < *n; i++) {
        (*entries)[i].value = items[i];
        (*entries)[i].key = lowered(run, jinja_path(run, items[i], attribute), case_sensitive);
        if ((*entries)[i].key == NULL)
            return false;
    }
    return *entries != NULL;
}

static jinja_value *values_of(jinja_run *run, const jinja_entry *entries, size_t n)
{
    jinja_value *list = jinja_list(run, JINJA_SEQ_LIST, n);
    for (size_t i = 0; list != NULL && i < n; i++)
        list->as.list.items[list->as.list.n++] = entries[i].value;
    return list;
}

static jinja_value *filter_sort(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    jinja_entry *entries = NULL;
    size_t n = 0;
    bool several = arg[2] != NULL && arg[2]->kind == JINJA_STRING;
    if (!keyed_items(run, self, several ? NULL : arg[2], is_true(arg[1]), &entries, &n))
        return NULL;
    for (size_t i = 0; several && i < n; i++) {
        entries[i].key = attributes_of(run, entries[i].value, arg[2], is_true(arg[1]));
        if (entries[i].key == NULL)
            return NULL;
    }
    if (!jinja_sort(run, entries, n, is_true(arg[0])))
        return NULL;
    return values_of(run, entries, n);
}

static jinja_value *filter_dictsort(jinja_run *run, jinja_value *self, jinja_value **arg,
                                    const jinja_args *raw)
{
    (void)raw;
    jinja_value *by = NULL;
    if (!jinja_arg_string(run, arg[1], "by", run->empty, &by) || !jinja_defined(run, self))
        return NULL;
    bool by_value = jinja_is_text(by, "value");
    if (arg[1] != NULL && !by_value && !jinja_is_text(by, "key"))
        return jinja_fail(run, LOAM_E_DATA, "dictsort: by must be key or value");
    if (self->kind != JINJA_DICT)
        return jinja_fail(run, LOAM_E_DATA, "dictsort: expected a dict, not '%s'",
                          jinja_type_name(self));
    jinja_value *pairs = jinja_dict_view(run, self->as.dict, JINJA_SEQ_ITEMS);
    jinja_value *at = pairs != NULL ? jinja_integer(run, by_value) : NULL;
    jinja_entry *entries = NULL;
    size_t n = 0;
    if (at == NULL || !keyed_items(run, pairs, at, is_true(arg[0]), &entries, &n) ||
        !jinja_sort(run, entries, n, is_true(arg[2])))
        return NULL;
    return values_of(run, entries, n);
}

static jinja_value *extreme(jinja_run *run, jinja_value *self, jinja_value **arg, int sign)
{
    jinja_entry *entries = NULL;
    size_t n = 0;
    if (!keyed_items(run, self, arg[1], is_true(arg[0]), &entries, &n))
        return NULL;
    if (n == 0)
        return jinja_missing(run, "the smallest or largest of nothing", 34, NULL);
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        int order = 0;
        if (!jinja_order(run, entries[i].key, entries[best].key, sign < 0 ? "<" : ">", &order))
            return NULL;
        if (order * sign > 0)
            best = i;
    }
    return entries[best].value;
}

static jinja_value *filter_min(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)raw;
    return extreme(run, self, arg, -1);
}

static jinja_value *filter_max(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)raw;
    return extreme(run, self, arg, 1);
}

static jinja_value *filter_unique(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)raw;
    jinja_entry *entries = NULL;
    size_t n = 0;
    jinja_value *seen = jinja_dict_value(run, JINJA_DICT);
    if (seen == NULL || !keyed_items(run, self, arg[1], is_true(arg[0]), &entries, &n))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        bool found = false;
        if (!jinja_dict_find(run, seen->as.dict, entries[i].key, &at, &found))
            return NULL;
        if (!found && !jinja_dict_set(run, seen->as.dict, entries[i].key, entries[i].value))
            return NULL;
    }
    jinja_value *values = jinja_dict_view(run, seen->as.dict, JINJA_SEQ_VALUES);
    if (values != NULL)
        values->sequence = JINJA_SEQ_GENERATOR;
    return values;
}

/* path, with a default for each part that is missing */
static jinja_value *path_or(jinja_run *run, jinja_value *item, jinja_value *path,
                            jinja_value *fallback)
{
    jinja_value *found = jinja_path(run, item, path);
    bool replaced = found != NULL && found->kind == JINJA_UNDEFINED && fallback != NULL &&
                    fallback->kind != JINJA_NONE;
    return replaced ? fallback : found;
}

static jinja_value *new_group(jinja_run *run, jinja_value *grouper)
{
    jinja_value *group = jinja_list(run, JINJA_SEQ_GROUP, 2);
    jinja_value *members = group != NULL ? jinja_list(run, JINJA_SEQ_LIST, 0) : NULL;
    if (members == NULL)
        return NULL;
    group->as.list.items[0] = grouper;
    group->as.list.items[1] = members;
    group->as.list.n = 2;
    return group;
}

static jinja_value *filter_groupby(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)raw;
    bool case_sensitive = is_true(arg[2]);
    jinja_entry *entries = NULL;
    size_t n = 0;
    if (!keyed_items(run, self, NULL, true, &entries, &n))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        jinja_value *found = path_or(run, entries[i].value, arg[0], arg[1]);
        entries[i].key = lowered(run, found, case_sensitive);
        if (entries[i].key == NULL)
            return NULL;
    }
    if (!jinja_sort(run, entries, n, false))
        return NULL;
    jinja_value *groups = jinja_list(run, JINJA_SEQ_LIST, 0);
    jinja_value *group = NULL;
    for (size_t i = 0; groups != NULL && i < n; i++) {
        bool same = false;
        if (i > 0 && !jinja_equal(run, entries[i - 1].key, entries[i].key, &same))
            return NULL;
        if (!same) {
            jinja_value *grouper = path_or(run, entries[i].value, arg[0], arg[1]);
            group = grouper != NULL ? new_group(run, grouper) : NULL;
            if (group == NULL || !jinja_append(run, groups, group))
                return NULL;
        }
        if (!jinja_append(run, group->as.list.items[1], entries[i].value))
            return NULL;
    }
    return groups;
}

/* ---- picking and combining ----------------------------------------------------------------- */

static jinja_value *filter_first(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value **items = NULL;
    size_t n = 0;
    if (!jinja_iterate(run, self, &items, &n))
        return NULL;
    return n > 0 ? items[0] : jinja_missing(run, "the first of nothing", 20, NULL);
}

static jinja_value *filter_last(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value **items = NULL;
    size_t n = 0;
    if (self->kind == JINJA_LIST && self->sequence == JINJA_SEQ_GENERATOR)
        return jinja_fail(run, LOAM_E_DATA,
                          "last: a generator cannot be read backwards, expected "
                          "a list (use |list first)");
    if (!jinja_iterate(run, self, &items, &n))
        return NULL;
    return n > 0 ? items[n - 1] : jinja_missing(run, "the last of nothing", 19, NULL);
}

static jinja_value *filter_join(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    jinja_value **items = NULL;
    size_t n = 0;
    jinja_value *separator = arg[0] != NULL ? jinja_to_string(run, arg[0]) : run->empty;
    if (separator == NULL || !jinja_iterate(run, self, &items, &n))
        return NULL;
    for (size_t i = 0; arg[1] != NULL && i < n; i++) {
        items[i] = jinja_path(run, items[i], arg[1]);
        if (items[i] == NULL)
            return NULL;
    }
    return jinja_join(run, separator, items, n);
}

static jinja_value *list_of(jinja_run *run, jinja_value *self, jinja_sequence sequence)
{
    jinja_value *list = jinja_list(run, sequence, 0);
    if (list == NULL || !jinja_iterate(run, self, &list->as.list.items, &list->as.list.n))
        return NULL;
    list->as.list.capacity = list->as.list.n;
    return list;
}

static jinja_value *filter_list(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return list_of(run, self, JINJA_SEQ_LIST);
}

static jinja_value *filter_reverse(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value *list = list_of(run, self, JINJA_SEQ_GENERATOR);
    if (list == NULL)
        return NULL;
    size_t n = list->as.list.n;
    for (size_t i = 0; i < n / 2; i++) {
        jinja_value *item = list->as.list.items[i];
        list->as.list.items[i] = list->as.list.items[n - 1 - i];
        list->as.list.items[n - 1 - i] = item;
    }
    if (self->kind == JINJA_STRING)
        return jinja_join(run, run->empty, list->as.list.items, n);
    return list;
}

static jinja_value *filter_sum(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)raw;
    jinja_value **items = NULL;
    size_t n = 0;
    jinja_value *total = arg[1] != NULL ? arg[1] : jinja_integer(run, 0);
    if (!jinja_iterate(run, self, &items, &n))
        return NULL;
    for (size_t i = 0; total != NULL && i < n; i++) {
        jinja_value *item = jinja_path(run, items[i], arg[0]);
        total = item != NULL ? jinja_binary(run, JINJA_OP_ADD, total, item) : NULL;
    }
    return total;
}

static jinja_value *filter_batch(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    jinja_value **items = NULL;
    size_t n = 0;
    int64_t size = 0;
    jinja_value *batches = jinja_list(run, JINJA_SEQ_GENERATOR, 0);
    jinja_value *batch = NULL;
    if (batches == NULL || !jinja_arg_int(run, arg[0], "linecount", 0, &size) ||
        !jinja_iterate(run, self, &items, &n))
        return NULL;
    if (size < 1)
        return jinja_fail(run, LOAM_E_DATA, "batch: linecount must be at least 1");
    for (size_t i = 0; i < n; i++) {
        if (batch == NULL || batch->as.list.n == (size_t)size) {
            batch = jinja_list(run, JINJA_SEQ_LIST, 0);
            if (batch == NULL || !jinja_append(run, batches, batch))
                return NULL;
        }
        if (!jinja_append(run, batch, items[i]))
            return NULL;
    }
    bool fill = arg[1] != NULL && arg[1]->kind != JINJA_NONE;
    while (fill && batch != NULL && batch->as.list.n < (size_t)size) {
        if (!jinja_append(run, batch, arg[1]))
            return NULL;
    }
    return batches;
}

static jinja_value *filter_slice(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    jinja_value **items = NULL;
    size_t n = 0;
    int64_t slices = 0;
    jinja_value *result = jinja_list(run, JINJA_SEQ_GENERATOR, 0);
    if (result == NULL || !jinja_arg_int(run, arg[0], "slices", 0, &slices) ||
        !jinja_iterate(run, self, &items, &n))
        return NULL;
    if (slices < 1)
        return jinja_fail(run, LOAM_E_DATA, "slice: slices must be at least 1");
    size_t each = n / (size_t)slices;
    size_t longer = n % (size_t)slices;
    for (size_t s = 0; s < (size_t)slices; s++) {
        jinja_value *slice = jinja_list(run, JINJA_SEQ_LIST, 0);
        if (slice == NULL || !jinja_append(run, result, slice))
            return NULL;
        for (size_t i = 0; i < each + (s < longer); i++) {
            if (!jinja_append(run, slice, *items++))
                return NULL;
        }
        bool fill = arg[1] != NULL && arg[1]->kind != JINJA_NONE && s >= longer;
        if (fill && !jinja_append(run, slice, arg[1]))
            return NULL;
    }
    return result;
}

/* ---- map, select and the others that call --------------------------------------------------- */

/* The arguments of `raw` behind the first n positional ones. */
static jinja_args rest_of(const jinja_args *raw, size_t n)
{
    jinja_args rest = *raw;
    n = LOAM_MIN(n, raw->n_positional);
    if (n > 0)
        rest.positional += n;
    rest.n_positional -= n;
    return rest;
}

static bool find_named(jinja_run *run, const char *what, jinja_value *name,
                       const jinja_builtin **found)
{
    if (!jinja_arg_string(run, name, "name", NULL, &name))
        return false;
    *found = what[0] == 'f' ? jinja_find_filter(name->as.string.data, name->as.string.bytes)
                            : jinja_find(jinja_tests, name->as.string.data, name->as.string.bytes);
    if (*found == NULL)
        jinja_fail(run, LOAM_E_UNSUPPORTED, "unknown %s '%.*s'", what,
                   (int)LOAM_MIN(name->as.string.bytes, 80), name->as.string.data);
    return *found != NULL;
}

static jinja_value *map_attribute(jinja_run *run, jinja_value **items, size_t n,
                                  const jinja_args *raw, jinja_value *path)
{
    jinja_value *fallback = jinja_dict_text(&raw->named, "default", 7);
    jinja_value *result = jinja_list(run, JINJA_SEQ_GENERATOR, n);
    if (raw->named.n > 1 + (size_t)(fallback != NULL))
        return jinja_fail(run, LOAM_E_DATA, "map: expected attribute and default only");
    for (size_t i = 0; result != NULL && i < n; i++) {
        jinja_value *item = path_or(run, items[i], path, fallback);
        if (item == NULL || !jinja_append(run, result, item))
            return NULL;
    }
    return result;
}

static jinja_value *filter_map(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    jinja_value **items = NULL;
    size_t n = 0;
    const jinja_builtin *filter = NULL;
    jinja_value *path = jinja_dict_text(&raw->named, "attribute", 9);
    if (!jinja_iterate(run, self, &items, &n))
        return NULL;
    if (raw->n_positional == 0 && path != NULL)
        return map_attribute(run, items, n, raw, path);
    if (raw->n_positional == 0)
        return jinja_fail(run, LOAM_E_DATA, "map: expected a filter's name or attribute=...");
    if (!find_named(run, "filter", raw->positional[0], &filter))
        return NULL;
    jinja_args rest = rest_of(raw, 1);
    jinja_value *result = jinja_list(run, JINJA_SEQ_GENERATOR, n);
    if (result == NULL || !jinja_enter(run))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        jinja_value *item = jinja_call_builtin(run, "filter", filter, items[i], &rest);
        if (item == NULL || !jinja_append(run, result, item))
            return NULL;
    }
    run->depth--;
    return result;
}

/* Keeps the items, or whose attribute, a test (or truth) finds to be `wanted`. */
static jinja_value *pick(jinja_run *run, jinja_value *self, const jinja_args *raw,
                         bool by_attribute, bool wanted)
{
    jinja_value **items = NULL;
    size_t n = 0;
    size_t at = by_attribute;
    const jinja_builtin *test = NULL;
    jinja_value *result = jinja_list(run, JINJA_SEQ_GENERATOR, 0);
    if (raw->n_positional < at)
        return jinja_fail(run, LOAM_E_DATA, "expected the name of an attribute");
    if (result == NULL || !jinja_iterate(run, self, &items, &n) || !jinja_enter(run))
        return NULL;
    if (raw->n_positional > at && !find_named(run, "test", raw->positional[at], &test))
        return NULL;
    jinja_args rest = rest_of(raw, at + 1);
    for (size_t i = 0; i < n; i++) {
        jinja_value *v = items[i];
        if (by_attribute)
            v = jinja_path(run, v, raw->positional[0]);
        if (v != NULL && test != NULL)
            v = jinja_call_builtin(run, "test", test, v, &rest);
        if (v == NULL || (jinja_truth(v) == wanted && !jinja_append(run, result, items[i])) ||
            !jinja_step(run, 1))
            return NULL;
    }
    run->depth--;
    return result;
}

static jinja_value *filter_select(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    return pick(run, self, raw, false, true);
}

static jinja_value *filter_reject(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    return pick(run, self, raw, false, false);
}

static jinja_value *filter_selectattr(jinja_run *run, jinja_value *self, jinja_value **arg,
                                      const jinja_args *raw)
{
    (void)arg;
    return pick(run, self, raw, true, true);
}

static jinja_value *filter_rejectattr(jinja_run *run, jinja_value *self, jinja_value **arg,
                                      const jinja_args *raw)
{
    (void)arg;
    return pick(run, self, raw, true, false);
}

const jinja_builtin jinja_sequence_filters[] = {
    {"first", filter_first, 0, ""},
    {"last", filter_last, 0, ""},
    {"join", filter_join, 0, "d attribute"},
    {"list", filter_list, 0, ""},
    {"reverse", filter_reverse, 0, ""},
    {"sort", filter_sort, 0, "reverse case_sensitive attribute"},
    {"dictsort", filter_dictsort, 0, "case_sensitive by reverse"},
    {"unique", filter_unique, 0, "case_sensitive attribute"},
    {"min", filter_min, 0, "case_sensitive attribute"},
    {"max", filter_max, 0, "case_sensitive attribute"},
    {"sum", filter_sum, 0, "attribute start"},
    {"groupby", filter_groupby, 1, "attribute default case_sensitive"},
    {"batch", filter_batch, 1, "linecount fill_with"},
    {"slice", filter_slice, 1, "slices fill_with"},
    {"map", filter_map, 0, NULL},
    {"select", filter_select, 0, NULL},
    {"reject", filter_reject, 0, NULL},
    {"selectattr", filter_selectattr, 0, NULL},
    {"rejectattr", filter_rejectattr, 0, NULL},
    {NULL, NULL, 0, NULL},
};
