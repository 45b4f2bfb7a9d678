/* jinja_method.c: the methods of lists, tuples, the loop variable and cyclers. */
#include "text/jinja.h"

#include <string.h>

static jinja_value *list_append(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    return jinja_append(run, self, arg[0]) ? run->none : NULL;
}

static jinja_value *list_extend(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    jinja_value **items = NULL;
    size_t n = 0;
    if (!jinja_iterate(run, arg[0], &items, &n))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (!jinja_append(run, self, items[i]))
            return NULL;
    }
    return run->none;
}

static jinja_value *list_insert(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    int64_t at = 0;
    int64_t n = (int64_t)self->as.list.n;
    if (!jinja_arg_int(run, arg[0], "index", 0, &at) || !jinja_append(run, self, arg[1]) ||
        !jinja_step(run, (uint64_t)n / 8))
        return NULL;
    at = at < -n ? 0 : at < 0 ? at + n : LOAM_MIN(at, n);
    jinja_value **items = self->as.list.items;
    memmove(items + at + 1, items + at, (size_t)(n - at) * sizeof *items);
    items[at] = arg[1];
    return run->none;
}

static bool remove_at(jinja_run *run, jinja_value *list, size_t at)
{
    jinja_value **items = list->as.list.items;
    list->as.list.n--;
    memmove(items + at, items + at + 1, (list->as.list.n - at) * sizeof *items);
    return jinja_step(run, (list->as.list.n - at) / 8);
}

static jinja_value *list_pop(jinja_run *run, jinja_value *self, jinja_value **arg,
                             const jinja_args *raw)
{
    (void)raw;
    int64_t at = 0;
    int64_t n = (int64_t)self->as.list.n;
    if (!jinja_arg_int(run, arg[0], "index", -1, &at))
        return NULL;
    if (at < -n || at >= n)
        return jinja_fail(run, LOAM_E_DATA, "pop: the index is not in the list of %lld",
                          (long long)n);
    at = at < 0 ? at + n : at;
    jinja_value *item = self->as.list.items[at];
    return remove_at(run, self, (size_t)at) ? item : NULL;
}

static bool find_item(jinja_run *run, const jinja_value *list, const jinja_value *item, size_t *at)
{
    bool equal = false;
    for (*at = 0; *at < list->as.list.n; ++*at) {
        if (!jinja_step(run, 1) || !jinja_equal(run, list->as.list.items[*at], item, &equal))
            return false;
        if (equal)
            return true;
    }
    return jinja_refuse(run, "the item is not in the list");
}

static jinja_value *list_remove(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    size_t at = 0;
    return find_item(run, self, arg[0], &at) && remove_at(run, self, at) ? run->none : NULL;
}

static jinja_value *list_index(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)raw;
    size_t at = 0;
    return find_item(run, self, arg[0], &at) ? jinja_integer(run, (int64_t)at) : NULL;
}

static jinja_value *list_count(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)raw;
    int64_t n = 0;
    bool equal = false;
    for (size_t i = 0; i < self->as.list.n; i++) {
        if (!jinja_step(run, 1) || !jinja_equal(run, self->as.list.items[i], arg[0], &equal))
            return NULL;
        n += equal;
    }
    return jinja_integer(run, n);
}

static jinja_value *list_reverse(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    size_t n = self->as.list.n;
    for (size_t i = 0; i < n / 2; i++) {
        jinja_value *item = self->as.list.items[i];
        self->as.list.items[i] = self->as.list.items[n - 1 - i];
        self->as.list.items[n - 1 - i] = item;
    }
    return jinja_step(run, n) ? run->none : NULL;
}

static jinja_value *list_copy(jinja_run *run, jinja_value *self, jinja_value **arg,
                              const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value *copy = jinja_list(run, JINJA_SEQ_LIST, 0);
    if (copy == NULL || !jinja_iterate(run, self, &copy->as.list.items, &copy->as.list.n))
        return NULL;
    copy->as.list.capacity = copy->as.list.n;
    return copy;
}

static jinja_value *list_clear(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    self->as.list.n = 0;
    return run->none;
}

const jinja_builtin jinja_list_methods[] = {
    {"append", list_append, 1, "object"},
    {"extend", list_extend, 1, "iterable"},
    {"insert", list_insert, 2, "index object"},
    {"pop", list_pop, 0, "index"},
    {"remove", list_remove, 1, "value"},
    {"index", list_index, 1, "value"},
    {"count", list_count, 1, "value"},
    {"reverse", list_reverse, 0, ""},
    {"copy", list_copy, 0, ""},
    {"clear", list_clear, 0, ""},
    {NULL, NULL, 0, NULL},
};

const jinja_builtin jinja_tuple_methods[] = {
    {"index", list_index, 1, "value"},
    {"count", list_count, 1, "value"},
    {NULL, NULL, 0, NULL},
};

/* ---- loop and cycler ----------------------------------------------------------------------- */

static jinja_value *loop_cycle(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    if (raw->n_positional == 0)
        return jinja_fail(run, LOAM_E_DATA, "loop.cycle needs at least one value");
    return raw->positional[self->as.loop->index % raw->n_positional];
}

/* Whether the arguments differ from those of the call before; more than one are a tuple. */
static jinja_value *loop_changed(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    jinja_loop *loop = self->as.loop;
    jinja_value *now = jinja_list(run, JINJA_SEQ_TUPLE, 0);
    bool equal = false;
    if (now == NULL)
        return NULL;
    now->as.list.items = raw->positional;
    now->as.list.n = raw->n_positional;
    if (loop->last_changed != NULL && !jinja_equal(run, loop->last_changed, now, &equal))
        return NULL;
    loop->last_changed = now;
    return jinja_boolean(run, !equal);
}

const jinja_builtin jinja_loop_methods[] = {
    {"cycle", loop_cycle, 0, NULL},
    {"changed", loop_changed, 0, NULL},
    {NULL, NULL, 0, NULL},
};

static jinja_value *cycler_next(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)run;
    (void)arg;
    (void)raw;
    jinja_value *item = self->as.cycler.items[self->as.cycler.at];
    self->as.cycler.at = (self->as.cycler.at + 1) % self->as.cycler.n;
    return item;
}

static jinja_value *cycler_reset(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    self->as.cycler.at = 0;
    return run->none;
}

const jinja_builtin jinja_cycler_methods[] = {
    {"next", cycler_next, 0, ""},
    {"reset", cycler_reset, 0, ""},
    {NULL, NULL, 0, NULL},
};
