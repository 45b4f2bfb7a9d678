/* jinja_filter_value.c: filters that convert one value, or ask about it. */
#include "text/jinja.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static jinja_value *filter_default(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)raw;
    bool replace_false = arg[1] != NULL && jinja_truth(arg[1]);
    if (self->kind != JINJA_UNDEFINED && (!replace_false || jinja_truth(self)))
        return self;
    return arg[0] != NULL ? arg[0] : run->empty;
}

static jinja_value *filter_length(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    size_t n = 0;
    return jinja_length(run, self, &n) ? jinja_integer(run, (int64_t)n) : NULL;
}

/* int(d), which truncates. */
static jinja_value *truncated(jinja_run *run, double d)
{
    if (!(fabs(d) < 9223372036854775808.0))
        return jinja_fail(run, LOAM_E_DATA, "int: the number does not fit a 64-bit integer");
    return jinja_integer(run, (int64_t)d);
}

static jinja_value *filter_int(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)raw;
    int64_t base = 10;
    int64_t parsed = 0;
    double number = 0;
    jinja_value *fallback = arg[0] != NULL ? arg[0] : jinja_integer(run, 0);
    if (fallback == NULL || !jinja_defined(run, self) ||
        !jinja_arg_int(run, arg[1], "base", 10, &base))
        return NULL;
    if (base != 0 && (base < 2 || base > 36))
        return jinja_fail(run, LOAM_E_DATA, "int: the base must be 0 or from 2 to 36");
    if (jinja_is_int(self))
        return jinja_integer(run, jinja_int_of(self));
    if (self->kind == JINJA_FLOAT)
        return isnan(self->as.number) ? fallback : truncated(run, self->as.number);
    if (self->kind != JINJA_STRING)
        return fallback;
    if (jinja_parse_int(self->as.string.data, self->as.string.bytes, (int)base, &parsed))
        return jinja_integer(run, parsed);
    if (!jinja_parse_float(self->as.string.data, self->as.string.bytes, &number) || isnan(number) ||
        isinf(number))
        return fallback;
    return truncated(run, number);
}

static jinja_value *filter_float(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    double number = 0;
    if (!jinja_defined(run, self))
        return NULL;
    if (jinja_is_number(self))
        return jinja_float(run, jinja_double_of(self));
    if (self->kind == JINJA_STRING &&
        jinja_parse_float(self->as.string.data, self->as.string.bytes, &number))
        return jinja_float(run, number);
    return arg[0] != NULL ? arg[0] : jinja_float(run, 0);
}

static jinja_value *filter_abs(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    if (!jinja_defined(run, self))
        return NULL;
    if (self->kind == JINJA_FLOAT)
        return jinja_float(run, fabs(self->as.number));
    if (!jinja_is_int(self))
        return jinja_fail(run, LOAM_E_DATA, "abs: expected a number, not '%s'",
                          jinja_type_name(self));
    int64_t i = jinja_int_of(self);
    if (i == INT64_MIN)
        return jinja_fail(run, LOAM_E_DATA, "abs: the result does not fit a 64-bit integer");
    return jinja_integer(run, i < 0 ? -i : i);
}

/* Rounds to even at the last decimal that is kept, as round() does. */
static double round_decimals(double d, int precision)
{
    char text[400];
    if (precision < 0) {
        double unit = pow(10, -precision);
        return rint(d / unit) * unit;
    }
    snprintf(text, sizeof text, "%.*f", precision, d);
    return strtod(text, NULL);
}

static jinja_value *filter_round(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)raw;
    int64_t precision = 0;
    jinja_value *method = NULL;
    if (!jinja_arg_int(run, arg[0], "precision", 0, &precision) ||
        !jinja_arg_string(run, arg[1], "method", run->empty, &method) || !jinja_defined(run, self))
        return NULL;
    bool common = arg[1] == NULL || jinja_is_text(method, "common");
    bool up = jinja_is_text(method, "ceil");
    if (!common && !up && !jinja_is_text(method, "floor"))
        return jinja_fail(run, LOAM_E_DATA, "round: method must be common, ceil or floor");
    if (!jinja_is_number(self))
        return jinja_fail(run, LOAM_E_DATA, "round: expected a number, not '%s'",
                          jinja_type_name(self));
    if (common && jinja_is_int(self) && precision >= 0)
        return jinja_integer(run, jinja_int_of(self));
    double d = jinja_double_of(self);
    int digits = (int)LOAM_MAX(-308, LOAM_MIN(precision, 60));
    if (common) {
        if (jinja_is_int(self))
            return truncated(run, round_decimals(d, digits));
        return jinja_float(run, isfinite(d) ? round_decimals(d, digits) : d);
    }
    double unit = pow(10, digits);
    return jinja_float(run, (up ? ceil(d * unit) : floor(d * unit)) / unit);
}

static jinja_value *filter_tojson(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)raw;
    return jinja_tojson(run, arg, self);
}

static jinja_value *filter_items(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    if (self->kind == JINJA_UNDEFINED)
        return jinja_list(run, JINJA_SEQ_GENERATOR, 0);
    if (self->kind != JINJA_DICT)
        return jinja_fail(run, LOAM_E_DATA, "items: expected a dict, not '%s'",
                          jinja_type_name(self));
    jinja_value *view = jinja_dict_view(run, self->as.dict, JINJA_SEQ_ITEMS);
    if (view != NULL)
        view->sequence = JINJA_SEQ_GENERATOR;
    return view;
}

/* The attribute only: a dict's keys are not looked at. */
static jinja_value *filter_attr(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    jinja_value *name = NULL;
    if (!jinja_arg_string(run, arg[0], "name", NULL, &name))
        return NULL;
    jinja_name attribute = {name->as.string.data, name->as.string.bytes};
    if (self->kind == JINJA_DICT &&
        jinja_find_method(self, attribute.data, attribute.bytes) == NULL)
        return jinja_missing(run, attribute.data, attribute.bytes, "dict");
    return jinja_attribute(run, self, &attribute, name);
}

static jinja_value *filter_format(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    jinja_value *format = jinja_to_string(run, self);
    if (format == NULL)
        return NULL;
    if (raw->named.n > 0) {
        if (raw->n_positional > 0)
            return jinja_fail(run, LOAM_E_DATA,
                              "format: expected positional or named arguments, "
                              "not both");
        jinja_value *dict = jinja_dict_value(run, JINJA_DICT);
        if (dict == NULL)
            return NULL;
        *dict->as.dict = raw->named;
        return jinja_format_percent(run, format, dict);
    }
    jinja_value *tuple = jinja_list(run, JINJA_SEQ_TUPLE, 0);
    if (tuple == NULL)
        return NULL;
    tuple->as.list.items = raw->positional;
    tuple->as.list.n = raw->n_positional;
    return jinja_format_percent(run, format, tuple);
}

static jinja_value *filter_pprint(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    size_t mark = jinja_mark(run);
    return jinja_emit_value(run, self, true) ? jinja_take(run, mark) : NULL;
}

const jinja_builtin jinja_value_filters[] = {
    {"default", filter_default, 0, "default_value boolean"},
    {"d", filter_default, 0, "default_value boolean"},
    {"length", filter_length, 0, ""},
    {"count", filter_length, 0, ""},
    {"int", filter_int, 0, "default base"},
    {"float", filter_float, 0, "default"},
    {"abs", filter_abs, 0, ""},
    {"round", filter_round, 0, "precision method"},
    {"tojson", filter_tojson, 0, "ensure_ascii indent separators sort_keys"},
    {"items", filter_items, 0, ""},
    {"attr", filter_attr, 1, "name"},
    {"format", filter_format, 0, NULL},
    {"pprint", filter_pprint, 0, ""},
    {NULL, NULL, 0, NULL},
};
