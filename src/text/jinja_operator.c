/* jinja_operator.c: what the operators, dots and brackets of an expression do, as in Python. */
#include "text/jinja.h"

#include <math.h>
#include <string.h>

/* ---- arithmetic ---------------------------------------------------------------------------- */

static const char *op_text(jinja_op op)
{
    static const char *const texts[] = {"",   "+",  "-", "*",  "/", "//", "%",  "**",
                                        "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return op < LOAM_COUNT(texts) ? texts[op] : "";
}

static jinja_value *wrong_operands(jinja_run *run, jinja_op op, const jinja_value *a,
                                   const jinja_value *b)
{
    return jinja_fail(run, LOAM_E_DATA, "unsupported operand types for %s: '%s' and '%s'",
                      op_text(op), jinja_type_name(a), jinja_type_name(b));
}

static jinja_value *overflow(jinja_run *run, jinja_op op)
{
    return jinja_fail(run, LOAM_E_DATA, "the result of %s does not fit a 64-bit integer",
                      op_text(op));
}

static jinja_value *power(jinja_run *run, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0 && base == 0)
        return jinja_fail(run, LOAM_E_DATA, "0 cannot be raised to a negative power");
    if (exponent < 0)
        return jinja_float(run, pow((double)base, (double)exponent));
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result))
            return overflow(run, JINJA_OP_POW);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return overflow(run, JINJA_OP_POW);
    }
    return jinja_integer(run, result);
}

/* Division towards minus infinity; the remainder has the divisor's sign. */
static jinja_value *divide_ints(jinja_run *run, jinja_op op, int64_t x, int64_t y)
{
    if (y == 0)
        return jinja_fail(run, LOAM_E_DATA, "division by zero");
    if (y == -1) /* INT64_MIN / -1 has no result */
        return op == JINJA_OP_MOD ? jinja_integer(run, 0)
               : x == INT64_MIN   ? overflow(run, op)
                                  : jinja_integer(run, -x);
    int64_t quotient = x / y;
    int64_t remainder = x % y;
    if (remainder != 0 && (remainder < 0) != (y < 0)) {
        quotient--;
        remainder += y;
    }
    return jinja_integer(run, op == JINJA_OP_MOD ? remainder : quotient);
}

static jinja_value *int_operation(jinja_run *run, jinja_op op, int64_t x, int64_t y)
{
    int64_t result = 0;
    bool overflowed = false;
    switch (op) {
    case JINJA_OP_ADD:
        overflowed = __builtin_add_overflow(x, y, &result);
        break;
    case JINJA_OP_SUB:
        overflowed = __builtin_sub_overflow(x, y, &result);
        break;
    case JINJA_OP_MUL:
        overflowed = __builtin_mul_overflow(x, y, &result);
        break;
    case JINJA_OP_DIV:
        if (y == 0)
            return jinja_fail(run, LOAM_E_DATA, "division by zero");
        return jinja_float(run, (double)x / (double)y);
    case JINJA_OP_POW:
        return power(run, x, y);
    default:
        return divide_ints(run, op, x, y);
    }
    return overflowed ? overflow(run, op) : jinja_integer(run, result);
}

static jinja_value *float_operation(jinja_run *run, jinja_op op, double x, double y)
{
    double remainder = 0;
    switch (op) {
    case JINJA_OP_ADD:
        return jinja_float(run, x + y);
    case JINJA_OP_SUB:
        return jinja_float(run, x - y);
    case JINJA_OP_MUL:
        return jinja_float(run, x * y);
    case JINJA_OP_POW:
        if ((x == 0 && y < 0) || (x < 0 && y != floor(y)))
            return jinja_fail(run, LOAM_E_DATA, "** has no real result for these numbers");
        return jinja_float(run, pow(x, y));
    default:
        break;
    }
    if (y == 0)
        return jinja_fail(run, LOAM_E_DATA, "division by zero");
    if (op == JINJA_OP_DIV)
        return jinja_float(run, x / y);
    remainder = fmod(x, y);
    if (remainder != 0 && (remainder < 0) != (y < 0))
        remainder += y;
    if (op == JINJA_OP_MOD)
        return jinja_float(run, remainder != 0 ? remainder : copysign(0.0, y));
    return jinja_float(run, rint((x - remainder) / y));
}

static jinja_value *join_two(jinja_run *run, const jinja_value *a, const jinja_value *b)
{
    size_t bytes = 0;
    if (!loam_size_add(a->as.string.bytes, b->as.string.bytes, &bytes))
        bytes = SIZE_MAX;
    if (!jinja_scan(run, bytes))
        return NULL;
    char *text = jinja_alloc(run, bytes);
    if (text == NULL)
        return NULL;
    memcpy(text, a->as.string.data, a->as.string.bytes);
    memcpy(text + a->as.string.bytes, b->as.string.data, b->as.string.bytes);
    return jinja_string(run, text, bytes);
}

static jinja_value *join_lists(jinja_run *run, const jinja_value *a, const jinja_value *b)
{
    size_t n = a->as.list.n + b->as.list.n;
    jinja_sequence sequence = a->sequence == JINJA_SEQ_LIST ? JINJA_SEQ_LIST : JINJA_SEQ_TUPLE;
    jinja_value *list = jinja_list(run, sequence, n);
    if (list == NULL || !jinja_step(run, n))
        return NULL;
    if (a->as.list.n > 0)
        memcpy(list->as.list.items, a->as.list.items, a->as.list.n * sizeof *list->as.list.items);
    if (b->as.list.n > 0)
        memcpy(list->as.list.items + a->as.list.n, b->as.list.items,
               b->as.list.n * sizeof *list->as.list.items);
    list->as.list.n = n;
    return list;
}

static bool is_plain_list(const jinja_value *v)
{
    return v->kind == JINJA_LIST && v->sequence <= JINJA_SEQ_GROUP;
}

static jinja_value *repeat_string(jinja_run *run, const jinja_value *text, size_t times)
{
    size_t bytes = 0;
    if (!loam_size_mul(text->as.string.bytes, times, &bytes))
        bytes = SIZE_MAX;
    if (bytes == 0)
        return run->empty;
    if (!jinja_scan(run, bytes))
        return NULL;
    char *data = jinja_alloc(run, bytes);
    if (data == NULL)
        return NULL;
    for (size_t i = 0; i < times; i++)
        memcpy(data + i * text->as.string.bytes, text->as.string.data, text->as.string.bytes);
    return jinja_string(run, data, bytes);
}

static jinja_value *repeat(jinja_run *run, const jinja_value *v, int64_t times)
{
    if (times < 0)
        times = 0;
    if (v->kind == JINJA_STRING)
        return repeat_string(run, v, (size_t)times);
    size_t n = 0;
    if (!loam_size_mul(v->as.list.n, (size_t)times, &n))
        n = SIZE_MAX;
    jinja_value *list = jinja_list(run, v->sequence, n);
    if (list == NULL || !jinja_step(run, n))
        return NULL;
    for (size_t i = 0; i < n; i++)
        list->as.list.items[i] = v->as.list.items[i % v->as.list.n];
    list->as.list.n = n;
    return list;
}

jinja_value *jinja_binary(jinja_run *run, jinja_op op, jinja_value *a, jinja_value *b)
{
    if (!jinja_defined(run, a))
        return NULL;
    if (op == JINJA_OP_MOD && a->kind == JINJA_STRING)
        return jinja_format_percent(run, a, b);
    if (!jinja_defined(run, b))
        return NULL;
    if (jinja_is_int(a) && jinja_is_int(b))
        return int_operation(run, op, jinja_int_of(a), jinja_int_of(b));
    if (jinja_is_number(a) && jinja_is_number(b))
        return float_operation(run, op, jinja_double_of(a), jinja_double_of(b));
    if (op == JINJA_OP_ADD && a->kind == JINJA_STRING && b->kind == JINJA_STRING)
        return join_two(run, a, b);
    if (op == JINJA_OP_ADD && is_plain_list(a) && is_plain_list(b) &&
        (a->sequence == JINJA_SEQ_LIST) == (b->sequence == JINJA_SEQ_LIST))
        return join_lists(run, a, b);
    if (op == JINJA_OP_MUL && (a->kind == JINJA_STRING || is_plain_list(a)) && jinja_is_int(b))
        return repeat(run, a, jinja_int_of(b));
    if (op == JINJA_OP_MUL && (b->kind == JINJA_STRING || is_plain_list(b)) && jinja_is_int(a))
        return repeat(run, b, jinja_int_of(a));
    return wrong_operands(run, op, a, b);
}

bool jinja_compare(jinja_run *run, jinja_op op, jinja_value *a, jinja_value *b, bool *result)
{
    int order = 0;
    switch (op) {
    case JINJA_OP_EQ:
        return jinja_equal(run, a, b, result);
    case JINJA_OP_NE:
        if (!jinja_equal(run, a, b, result))
            return false;
        *result = !*result;
        return true;
    case JINJA_OP_IN:
        return jinja_contains(run, b, a, result);
    case JINJA_OP_NOT_IN:
        if (!jinja_contains(run, b, a, result))
            return false;
        *result = !*result;
        return true;
    default:
        break;
    }
    if (!jinja_order(run, a, b, op_text(op), &order))
        return false;
    bool unordered = (a->kind == JINJA_FLOAT && isnan(a->as.number)) ||
                     (b->kind == JINJA_FLOAT && isnan(b->as.number));
    *result = !unordered && (op == JINJA_OP_LT   ? order < 0
                             : op == JINJA_OP_LE ? order <= 0
                             : op == JINJA_OP_GT ? order > 0
                                                 : order >= 0);
    return true;
}

/* ---- attributes and items ------------------------------------------------------------------ */

static bool is_named(const jinja_name *name, const char *text)
{
    return name->bytes == strlen(text) && memcmp(name->data, text, name->bytes) == 0;
}

/* A property of the loop variable; *found false where there is none of that name. */
static jinja_value *loop_property(jinja_run *run, const jinja_loop *loop, const jinja_name *name,
                                  bool *found)
{
    int64_t index = (int64_t)loop->index;
    int64_t n = (int64_t)loop->n;
    *found = true;
    if (is_named(name, "index"))
        return jinja_integer(run, index + 1);
    if (is_named(name, "index0"))
        return jinja_integer(run, index);
    if (is_named(name, "revindex"))
        return jinja_integer(run, n - index);
    if (is_named(name, "revindex0"))
        return jinja_integer(run, n - index - 1);
    if (is_named(name, "first"))
        return jinja_boolean(run, index == 0);
    if (is_named(name, "last"))
        return jinja_boolean(run, index == n - 1);
    if (is_named(name, "length"))
        return jinja_integer(run, n);
    if (is_named(name, "depth"))
        return jinja_integer(run, loop->depth + 1);
    if (is_named(name, "depth0"))
        return jinja_integer(run, loop->depth);
    if (is_named(name, "previtem"))
        return index > 0 ? loop->items[index - 1]
                         : jinja_missing(run, "there is no previous item", 25, NULL);
    if (is_named(name, "nextitem"))
        return index + 1 < n ? loop->items[index + 1]
                             : jinja_missing(run, "there is no next item", 21, NULL);
    *found = false;
    return NULL;
}

/* Attributes that belong to the kind of object and are no methods. */
static jinja_value *property(jinja_run *run, jinja_value *object, const jinja_name *name,
                             bool *found)
{
    *found = false;
    if (object->kind == JINJA_LOOP)
        return loop_property(run, object->as.loop, name, found);
    if (object->kind == JINJA_CYCLER && is_named(name, "current")) {
        *found = true;
        return object->as.cycler.items[object->as.cycler.at];
    }
    if (object->kind == JINJA_LIST && object->sequence == JINJA_SEQ_GROUP) {
        *found = is_named(name, "grouper") || is_named(name, "list");
        return *found ? object->as.list.items[name->data[0] == 'l'] : NULL;
    }
    if (object->kind == JINJA_NAMESPACE) {
        jinja_value *value = jinja_dict_text(object->as.dict, name->data, name->bytes);
        *found = value != NULL;
        return value;
    }
    if (object->kind == JINJA_MACRO && is_named(name, "name")) {
        const jinja_name *macro = &object->as.macro.node->as.macro.name;
        *found = true;
        return jinja_string(run, macro->data, macro->bytes);
    }
    return NULL;
}

static jinja_value *bound_method(jinja_run *run, jinja_value *object, const jinja_name *name,
                                 bool *found)
{
    const jinja_builtin *method = jinja_find_method(object, name->data, name->bytes);
    *found = method != NULL;
    jinja_value *v = method != NULL ? jinja_alloc(run, sizeof *v) : NULL;
    if (v != NULL) {
        v->kind = JINJA_FUNCTION;
        v->as.function.builtin = method;
        v->as.function.self = object;
    }
    return v;
}

jinja_value *jinja_attribute(jinja_run *run, jinja_value *object, const jinja_name *name,
                             jinja_value *key)
{
    bool found = false;
    if (!jinja_defined(run, object))
        return NULL;
    jinja_value *v = property(run, object, name, &found);
    if (found)
        return v;
    v = bound_method(run, object, name, &found);
    if (found)
        return v;
    if (object->kind == JINJA_DICT)
        v = jinja_dict_text(object->as.dict, key->as.string.data, key->as.string.bytes);
    return v != NULL ? v : jinja_missing(run, name->data, name->bytes, jinja_type_name(object));
}

static jinja_value *no_element(jinja_run *run, const jinja_value *object, int64_t index)
{
    char *text = jinja_alloc(run, 24);
    if (text == NULL)
        return NULL;
    int n = snprintf(text, 24, "%lld", (long long)index);
    return jinja_missing(run, text, (size_t)n, jinja_type_name(object));
}

static jinja_value *element(jinja_run *run, jinja_value *object, int64_t index)
{
    size_t n = 0;
    if (object->kind == JINJA_LIST && object->sequence >= JINJA_SEQ_KEYS)
        return no_element(run, object, index);
    if (!jinja_length(run, object, &n))
        return NULL;
    int64_t at = index < 0 ? index + (int64_t)n : index;
    if (at < 0 || at >= (int64_t)n)
        return no_element(run, object, index);
    if (object->kind == JINJA_LIST)
        return object->as.list.items[at];
    const char *data = object->as.string.data;
    const char *end = data + object->as.string.bytes;
    const char *p = data + jinja_utf8_offset(data, object->as.string.bytes, (size_t)at);
    const char *begin = p;
    jinja_utf8_next(&p, end);
    return jinja_string(run, begin, (size_t)(p - begin));
}

jinja_value *jinja_subscript(jinja_run *run, jinja_value *object, jinja_value *key)
{
    if (!jinja_defined(run, object))
        return NULL;
    bool indexed = object->kind == JINJA_LIST || object->kind == JINJA_STRING;
    if (indexed && jinja_is_int(key))
        return element(run, object, jinja_int_of(key));
    bool unhashable =
        key->kind > JINJA_STRING && !(key->kind == JINJA_LIST && key->sequence == JINJA_SEQ_TUPLE);
    if (object->kind == JINJA_DICT && !unhashable && key->kind != JINJA_UNDEFINED) {
        size_t at = 0;
        bool found = false;
        if (!jinja_dict_find(run, object->as.dict, key, &at, &found))
            return NULL;
        if (found)
            return object->as.dict->entries[at].value;
    }
    if (key->kind != JINJA_STRING)
        return jinja_is_int(key) ? no_element(run, object, jinja_int_of(key))
                                 : jinja_missing(run, "that key", 8, jinja_type_name(object));
    jinja_name name = {key->as.string.data, key->as.string.bytes};
    return jinja_attribute(run, object, &name, key);
}

/* ---- slices -------------------------------------------------------------------------------- */

static bool slice_bound(jinja_run *run, const jinja_value *v, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (v == NULL || v->kind == JINJA_NONE)
        return true;
    if (!jinja_is_int(v))
        return jinja_refuse(run, "slice indices must be integers or None, not '%s'",
                            jinja_type_name(v));
    *out = jinja_int_of(v);
    return true;
}

/* An index of Python's slices made one of [low, high]. */
static int64_t clamp_index(int64_t index, int64_t n, int64_t low, int64_t high)
{
    if (index < 0)
        index = index < -n ? low : index + n;
    return index < low ? low : index > high ? high : index;
}

static jinja_value *slice_items(jinja_run *run, jinja_value *object, int64_t start, int64_t step,
                                int64_t count)
{
    jinja_value **items = object->as.list.items;
    size_t n = object->as.list.n;
    if (object->kind == JINJA_STRING && !jinja_iterate(run, object, &items, &n))
        return NULL;
    jinja_sequence sequence = object->kind == JINJA_LIST && object->sequence == JINJA_SEQ_LIST
                                  ? JINJA_SEQ_LIST
                                  : JINJA_SEQ_TUPLE;
    jinja_value *list = jinja_list(run, sequence, (size_t)count);
    if (list == NULL || !jinja_step(run, (uint64_t)count))
        return NULL;
    for (int64_t i = 0; i < count; i++)
        list->as.list.items[i] = items[start + i * step];
    list->as.list.n = (size_t)count;
    if (object->kind == JINJA_LIST)
        return list;
    return jinja_join(run, run->empty, list->as.list.items, list->as.list.n);
}

jinja_value *jinja_slice(jinja_run *run, jinja_value *object, jinja_value *start, jinja_value *stop,
                         jinja_value *step)
{
    size_t length = 0;
    int64_t by = 1;
    int64_t from = 0;
    int64_t to = 0;
    if (!jinja_defined(run, object))
        return NULL;
    if (object->kind != JINJA_STRING &&
        (object->kind != JINJA_LIST || object->sequence >= JINJA_SEQ_KEYS))
        return jinja_missing(run, "a slice", 7, jinja_type_name(object));
    if (!jinja_length(run, object, &length) || !slice_bound(run, step, 1, &by))
        return NULL;
    if (by == 0)
        return jinja_fail(run, LOAM_E_DATA, "slice step cannot be zero");
    int64_t n = (int64_t)length;
    int64_t low = by > 0 ? 0 : -1;
    int64_t high = by > 0 ? n : n - 1;
    if (!slice_bound(run, start, by > 0 ? 0 : INT64_MAX, &from) ||
        !slice_bound(run, stop, by > 0 ? INT64_MAX : INT64_MIN, &to))
        return NULL;
    from = clamp_index(from, n, low, high);
    to = clamp_index(to, n, low, high);
    if (by < -n - 1) /* as far as the first item reaches, and no overflow */
        by = -n - 1;
    if (by > n + 1)
        by = n + 1;
    int64_t count = by > 0 ? (to > from ? (to - from - 1) / by + 1 : 0)
                           : (from > to ? (from - to - 1) / -by + 1 : 0);
    if (object->kind == JINJA_STRING && by == 1) {
        const char *data = object->as.string.data;
        size_t bytes = object->as.string.bytes;
        size_t begin = jinja_utf8_offset(data, bytes, (size_t)from);
        size_t size = jinja_utf8_offset(data + begin, bytes - begin, (size_t)count);
        return jinja_string(run, data + begin, size);
    }
    return slice_items(run, object, from, by, count);
}
