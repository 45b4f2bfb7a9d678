/* jinja_test.c: the tests behind `is`. */
#include "text/jinja.h"

#include <string.h>

static jinja_value *test_defined(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind != JINJA_UNDEFINED);
}

static jinja_value *test_undefined(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_UNDEFINED);
}

static jinja_value *test_none(jinja_run *run, jinja_value *self, jinja_value **arg,
                              const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_NONE);
}

static jinja_value *test_string(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_STRING);
}

static jinja_value *test_number(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, jinja_is_number(self));
}

static jinja_value *test_integer(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_INTEGER);
}

static jinja_value *test_float(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_FLOAT);
}

static jinja_value *test_boolean(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_BOOLEAN);
}

static jinja_value *test_true(jinja_run *run, jinja_value *self, jinja_value **arg,
                              const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_BOOLEAN && self->as.boolean);
}

static jinja_value *test_false(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_BOOLEAN && !self->as.boolean);
}

static jinja_value *test_mapping(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_DICT);
}

/* What has a length and an item at []; in Python that holds of undefined values too. */
static jinja_value *test_sequence(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    bool list = self->kind == JINJA_LIST && self->sequence <= JINJA_SEQ_RANGE;
    return jinja_boolean(run, list || self->kind == JINJA_STRING || self->kind == JINJA_DICT ||
                                  self->kind == JINJA_UNDEFINED);
}

static jinja_value *test_iterable(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_LIST || self->kind == JINJA_STRING ||
                                  self->kind == JINJA_DICT || self->kind == JINJA_UNDEFINED);
}

static jinja_value *test_callable(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_FUNCTION || self->kind == JINJA_MACRO ||
                                  self->kind == JINJA_LOOP || self->kind == JINJA_JOINER ||
                                  self->kind == JINJA_UNDEFINED);
}

/* self % divisor, as the operator does it. */
static jinja_value *remainder_is(jinja_run *run, jinja_value *self, jinja_value *divisor,
                                 int64_t wanted)
{
    bool equal = false;
    jinja_value *remainder = jinja_binary(run, JINJA_OP_MOD, self, divisor);
    jinja_value *number = remainder != NULL ? jinja_integer(run, wanted) : NULL;
    return number != NULL && jinja_equal(run, remainder, number, &equal) ? jinja_boolean(run, equal)
                                                                         : NULL;
}

static jinja_value *test_odd(jinja_run *run, jinja_value *self, jinja_value **arg,
                             const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value *two = jinja_integer(run, 2);
    return two != NULL ? remainder_is(run, self, two, 1) : NULL;
}

static jinja_value *test_even(jinja_run *run, jinja_value *self, jinja_value **arg,
                              const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value *two = jinja_integer(run, 2);
    return two != NULL ? remainder_is(run, self, two, 0) : NULL;
}

static jinja_value *test_divisibleby(jinja_run *run, jinja_value *self, jinja_value **arg,
                                     const jinja_args *raw)
{
    (void)raw;
    return remainder_is(run, self, arg[0], 0);
}

static jinja_value *compared(jinja_run *run, jinja_op op, jinja_value *a, jinja_value *b)
{
    bool result = false;
    return jinja_compare(run, op, a, b, &result) ? jinja_boolean(run, result) : NULL;
}

static jinja_value *test_eq(jinja_run *run, jinja_value *self, jinja_value **arg,
                            const jinja_args *raw)
{
    (void)raw;
    return compared(run, JINJA_OP_EQ, self, arg[0]);
}

static jinja_value *test_ne(jinja_run *run, jinja_value *self, jinja_value **arg,
                            const jinja_args *raw)
{
    (void)raw;
    return compared(run, JINJA_OP_NE, self, arg[0]);
}

static jinja_value *test_lt(jinja_run *run, jinja_value *self, jinja_value **arg,
                            const jinja_args *raw)
{
    (void)raw;
    return compared(run, JINJA_OP_LT, self, arg[0]);
}

static jinja_value *test_le(jinja_run *run, jinja_value *self, jinja_value **arg,
                            const jinja_args *raw)
{
    (void)raw;
    return compared(run, JINJA_OP_LE, self, arg[0]);
}

static jinja_value *test_gt(jinja_run *run, jinja_value *self, jinja_value **arg,
                            const jinja_args *raw)
{
    (void)raw;
    return compared(run, JINJA_OP_GT, self, arg[0]);
}

static jinja_value *test_ge(jinja_run *run, jinja_value *self, jinja_value **arg,
                            const jinja_args *raw)
{
    (void)raw;
    return compared(run, JINJA_OP_GE, self, arg[0]);
}

static jinja_value *test_in(jinja_run *run, jinja_value *self, jinja_value **arg,
                            const jinja_args *raw)
{
    (void)raw;
    return compared(run, JINJA_OP_IN, self, arg[0]);
}

/* Python's identity, which small integers, strings and singletons share with equality. */
static jinja_value *test_sameas(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    bool by_value = self->kind == arg[0]->kind && self->kind <= JINJA_STRING;
    if (by_value)
        return compared(run, JINJA_OP_EQ, self, arg[0]);
    return jinja_boolean(run, self == arg[0]);
}

/* Whether the text has cased characters and all of them are of one case. */
static jinja_value *all_cased(jinja_run *run, jinja_value *self, bool upper)
{
    bool cased = false;
    uint32_t other[3];
    jinja_value *text = jinja_to_string(run, self);
    if (text == NULL || !jinja_scan(run, text->as.string.bytes))
        return NULL;
    const char *p = text->as.string.data;
    const char *end = p + text->as.string.bytes;
    while (p < end) {
        uint32_t code = jinja_utf8_next(&p, end);
        if (!jinja_is_cased(code))
            continue;
        cased = true;
        int n = upper ? jinja_upper(code, other) : jinja_lower(code, other);
        if (n > 1 || other[0] != code)
            return run->no;
    }
    return jinja_boolean(run, cased);
}

static jinja_value *test_lower(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return all_cased(run, self, false);
}

static jinja_value *test_upper(jinja_run *run, jinja_value *self, jinja_value **arg,
                               const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return all_cased(run, self, true);
}

static jinja_value *has_edge(jinja_run *run, jinja_value *self, jinja_value *edge, bool at_end)
{
    jinja_value *text = jinja_to_string(run, self);
    jinja_value *part = text != NULL ? jinja_to_string(run, edge) : NULL;
    if (part == NULL)
        return NULL;
    if (part->as.string.bytes > text->as.string.bytes)
        return run->no;
    size_t at = at_end ? text->as.string.bytes - part->as.string.bytes : 0;
    return jinja_boolean(
        run, memcmp(text->as.string.data + at, part->as.string.data, part->as.string.bytes) == 0);
}

static jinja_value *test_startingwith(jinja_run *run, jinja_value *self, jinja_value **arg,
                                      const jinja_args *raw)
{
    (void)raw;
    return has_edge(run, self, arg[0], false);
}

static jinja_value *test_endingwith(jinja_run *run, jinja_value *self, jinja_value **arg,
                                    const jinja_args *raw)
{
    (void)raw;
    return has_edge(run, self, arg[0], true);
}

static jinja_value *test_filter(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run, self->kind == JINJA_STRING &&
                                  jinja_find_filter(self->as.string.data, self->as.string.bytes) !=
                                      NULL);
}

static jinja_value *test_test(jinja_run *run, jinja_value *self, jinja_value **arg,
                              const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_boolean(run,
                         self->kind == JINJA_STRING && jinja_find(jinja_tests, self->as.string.data,
                                                                  self->as.string.bytes) != NULL);
}

/* Nothing is marked as escaped, because nothing escapes by itself. */
static jinja_value *test_escaped(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)self;
    (void)arg;
    (void)raw;
    return run->no;
}

const jinja_builtin jinja_tests[] = {
    {"defined", test_defined, 0, ""},
    {"undefined", test_undefined, 0, ""},
    {"none", test_none, 0, ""},
    {"string", test_string, 0, ""},
    {"number", test_number, 0, ""},
    {"integer", test_integer, 0, ""},
    {"float", test_float, 0, ""},
    {"boolean", test_boolean, 0, ""},
    {"true", test_true, 0, ""},
    {"false", test_false, 0, ""},
    {"mapping", test_mapping, 0, ""},
    {"sequence", test_sequence, 0, ""},
    {"iterable", test_iterable, 0, ""},
    {"callable", test_callable, 0, ""},
    {"odd", test_odd, 0, ""},
    {"even", test_even, 0, ""},
    {"divisibleby", test_divisibleby, 1, "num"},
    {"eq", test_eq, 1, "other"},
    {"equalto", test_eq, 1, "other"},
    {"==", test_eq, 1, "other"},
    {"ne", test_ne, 1, "other"},
    {"!=", test_ne, 1, "other"},
    {"lt", test_lt, 1, "other"},
    {"lessthan", test_lt, 1, "other"},
    {"<", test_lt, 1, "other"},
    {"le", test_le, 1, "other"},
    {"<=", test_le, 1, "other"},
    {"gt", test_gt, 1, "other"},
    {"greaterthan", test_gt, 1, "other"},
    {">", test_gt, 1, "other"},
    {"ge", test_ge, 1, "other"},
    {">=", test_ge, 1, "other"},
    {"in", test_in, 1, "seq"},
    {"sameas", test_sameas, 1, "other"},
    {"lower", test_lower, 0, ""},
    {"upper", test_upper, 0, ""},
    {"startingwith", test_startingwith, 1, "prefix"},
    {"endingwith", test_endingwith, 1, "suffix"},
    {"filter", test_filter, 0, ""},
    {"test", test_test, 0, ""},
    {"escaped", test_escaped, 0, ""},
    {NULL, NULL, 0, NULL},
};
