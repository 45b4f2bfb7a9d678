/* jinja_value.c: making values, and what Python's type, bool, ==, <, in, iter, len, str and repr
 * say of them. */
#include "text/jinja.h"

#include <string.h>

/* ---- making -------------------------------------------------------------------------------- */

static jinja_value *value_new(jinja_run *run, jinja_kind kind)
{
    jinja_value *v = jinja_alloc(run, sizeof *v);
    if (v != NULL)
        v->kind = kind;
    return v;
}

jinja_value *jinja_boolean(jinja_run *run, bool b)
{
    return b ? run->yes : run->no;
}

jinja_value *jinja_integer(jinja_run *run, int64_t i)
{
    jinja_value *v = value_new(run, JINJA_INTEGER);
    if (v != NULL)
        v->as.integer = i;
    return v;
}

jinja_value *jinja_float(jinja_run *run, double d)
{
    jinja_value *v = value_new(run, JINJA_FLOAT);
    if (v != NULL)
        v->as.number = d;
    return v;
}

jinja_value *jinja_string(jinja_run *run, const char *data, size_t bytes)
{
    jinja_value *v = value_new(run, JINJA_STRING);
    if (v != NULL) {
        v->as.string.data = data;
        v->as.string.bytes = bytes;
    }
    return v;
}

jinja_value *jinja_missing(jinja_run *run, const char *name, size_t bytes, const char *owner)
{
    jinja_value *v = value_new(run, JINJA_UNDEFINED);
    if (v != NULL) {
        v->as.undefined.name = name;
        v->as.undefined.bytes = bytes;
        v->as.undefined.owner = owner;
    }
    return v;
}

jinja_value *jinja_list(jinja_run *run, jinja_sequence sequence, size_t capacity)
{
    size_t bytes = 0;
    jinja_value *v = value_new(run, JINJA_LIST);
    if (v == NULL)
        return NULL;
    v->sequence = sequence;
    if (capacity == 0)
        return v;
    if (!loam_size_mul(capacity, sizeof *v->as.list.items, &bytes))
        bytes = SIZE_MAX;
    v->as.list.items = jinja_alloc(run, bytes);
    v->as.list.capacity = capacity;
    return v->as.list.items != NULL ? v : NULL;
}

bool jinja_append(jinja_run *run, jinja_value *list, jinja_value *item)
{
    if (list->as.list.n == list->as.list.capacity) {
        size_t capacity = list->as.list.capacity == 0 ? 4 : list->as.list.capacity * 2;
        jinja_value **items = jinja_alloc(run, capacity * sizeof *items);
        if (items == NULL)
            return false;
        if (list->as.list.n > 0)
            memcpy(items, list->as.list.items, list->as.list.n * sizeof *items);
        list->as.list.items = items;
        list->as.list.capacity = capacity;
    }
    list->as.list.items[list->as.list.n++] = item;
    return jinja_step(run, 1);
}

static jinja_value *array_from_json(jinja_run *run, const json_t *json)
{
    size_t n = json_array_size(json);
    jinja_value *list = jinja_list(run, JINJA_SEQ_LIST, n);
    for (size_t i = 0; list != NULL && i < n; i++) {
        jinja_value *item = jinja_from_json(run, json_array_get(json, i));
        if (item == NULL)
            return NULL;
        list->as.list.items[list->as.list.n++] = item;
    }
    return list;
}

static jinja_value *object_from_json(jinja_run *run, const json_t *json)
{
    jinja_value *dict = jinja_dict_value(run, JINJA_DICT);
    json_t *object = (json_t *)json; /* iterators of jansson are not const; nothing is changed */
    void *at = dict != NULL ? json_object_iter(object) : NULL;
    for (; at != NULL; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        jinja_value *key = jinja_string(run, name, strlen(name));
        jinja_value *value = key != NULL ? jinja_from_json(run, json_object_iter_value(at)) : NULL;
        if (value == NULL || !jinja_dict_set(run, dict->as.dict, key, value))
            return NULL;
    }
    return dict;
}

jinja_value *jinja_from_json(jinja_run *run, const json_t *json)
{
    jinja_value *v = NULL;
    if (!jinja_enter(run) || !jinja_step(run, 1))
        return NULL;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        v = object_from_json(run, json);
        break;
    case JSON_ARRAY:
        v = array_from_json(run, json);
        break;
    case JSON_STRING:
        v = jinja_string(run, json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        v = jinja_integer(run, json_integer_value(json));
        break;
    case JSON_REAL:
        v = jinja_float(run, json_real_value(json));
        break;
    case JSON_TRUE:
        v = run->yes;
        break;
    case JSON_FALSE:
        v = run->no;
        break;
    case JSON_NULL:
        v = run->none;
        break;
    }
    run->depth--;
    return v;
}

/* ---- asking -------------------------------------------------------------------------------- */

const char *jinja_type_name(const jinja_value *v)
{
    static const char *const kinds[] = {"Undefined", "NoneType",    "bool",   "int",       "float",
                                        "str",       "list",        "dict",   "Namespace", "Macro",
                                        "function",  "LoopContext", "Cycler", "Joiner"};
    static const char *const sequences[] = {"list",      "tuple",       "tuple",      "range",
                                            "dict_keys", "dict_values", "dict_items", "generator"};
    return v->kind == JINJA_LIST ? sequences[v->sequence] : kinds[v->kind];
}

bool jinja_is_int(const jinja_value *v)
{
    return v->kind == JINJA_INTEGER || v->kind == JINJA_BOOLEAN;
}

bool jinja_is_number(const jinja_value *v)
{
    return v->kind == JINJA_FLOAT || jinja_is_int(v);
}

int64_t jinja_int_of(const jinja_value *v)
{
    return v->kind == JINJA_BOOLEAN ? v->as.boolean : v->as.integer;
}

double jinja_double_of(const jinja_value *v)
{
    return v->kind == JINJA_FLOAT ? v->as.number : (double)jinja_int_of(v);
}

bool jinja_is_text(const jinja_value *v, const char *text)
{
    return v->kind == JINJA_STRING && v->as.string.bytes == strlen(text) &&
           memcmp(v->as.string.data, text, v->as.string.bytes) == 0;
}

bool jinja_truth(const jinja_value *v)
{
    switch (v->kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOLEAN:
        return v->as.boolean;
    case JINJA_INTEGER:
        return v->as.integer != 0;
    case JINJA_FLOAT:
        return v->as.number != 0;
    case JINJA_STRING:
        return v->as.string.bytes > 0;
    case JINJA_LIST:
        return v->as.list.n > 0 || v->sequence == JINJA_SEQ_GENERATOR;
    case JINJA_DICT:
        return v->as.dict->n > 0;
    default:
        return true;
    }
}

bool jinja_defined(jinja_run *run, const jinja_value *v)
{
    if (v->kind != JINJA_UNDEFINED)
        return true;
    const char *name = v->as.undefined.name;
    int bytes = (int)LOAM_MIN(v->as.undefined.bytes, 200);
    if (name == NULL)
        return jinja_refuse(run, "a value is undefined here, expected a defined one");
    if (v->as.undefined.owner == NULL)
        return jinja_refuse(run, "'%.*s' is undefined", bytes, name);
    return jinja_refuse(run, "'%s object' has no attribute '%.*s'", v->as.undefined.owner, bytes,
                        name);
}

bool jinja_length(jinja_run *run, const jinja_value *v, size_t *n)
{
    *n = 0;
    if (v->kind == JINJA_UNDEFINED)
        return true;
    if (v->kind == JINJA_STRING) {
        *n = jinja_utf8_count(v->as.string.data, v->as.string.bytes);
        return jinja_scan(run, v->as.string.bytes);
    }
    if (v->kind == JINJA_LIST && v->sequence != JINJA_SEQ_GENERATOR)
        *n = v->as.list.n;
    else if (v->kind == JINJA_DICT)
        *n = v->as.dict->n;
    else if (v->kind == JINJA_LOOP)
        *n = v->as.loop->n;
    else
        return jinja_refuse(run, "object of type '%s' has no len()", jinja_type_name(v));
    return true;
}

static bool iterate_string(jinja_run *run, const jinja_value *v, jinja_value ***items, size_t *n)
{
    *n = jinja_utf8_count(v->as.string.data, v->as.string.bytes);
    *items = jinja_alloc(run, *n * sizeof **items);
    if (*items == NULL || !jinja_step(run, *n))
        return false;
    const char *p = v->as.string.data;
    const char *end = p + v->as.string.bytes;
    for (size_t i = 0; i < *n; i++) {
        const char *begin = p;
        jinja_utf8_next(&p, end);
        (*items)[i] = jinja_string(run, begin, (size_t)(p - begin));
        if ((*items)[i] == NULL)
            return false;
    }
    return true;
}

bool jinja_iterate(jinja_run *run, jinja_value *v, jinja_value ***items, size_t *n)
{
    *items = NULL;
    *n = 0;
    if (v->kind == JINJA_UNDEFINED)
        return true;
    if (v->kind == JINJA_STRING)
        return iterate_string(run, v, items, n);
    if (v->kind == JINJA_DICT) {
        v = jinja_dict_view(run, v->as.dict, JINJA_SEQ_KEYS);
        if (v == NULL)
            return false;
    }
    if (v->kind != JINJA_LIST)
        return jinja_refuse(run, "'%s' object is not iterable", jinja_type_name(v));
    *n = v->as.list.n;
    *items = jinja_alloc(run, *n * sizeof **items);
    if (*items == NULL || !jinja_step(run, *n))
        return false;
    if (*n > 0)
        memcpy(*items, v->as.list.items, *n * sizeof **items);
    if (v->sequence == JINJA_SEQ_GENERATOR)
        v->as.list.n = 0;
    return true;
}

/* ---- comparing ----------------------------------------------------------------------------- */

static bool equal_lists(jinja_run *run, const jinja_value *a, const jinja_value *b, bool *equal)
{
    bool tuple_a = a->sequence == JINJA_SEQ_TUPLE || a->sequence == JINJA_SEQ_GROUP;
    bool tuple_b = b->sequence == JINJA_SEQ_TUPLE || b->sequence == JINJA_SEQ_GROUP;
    *equal = a->as.list.n == b->as.list.n && (a->sequence == b->sequence || (tuple_a && tuple_b)) &&
             a->sequence != JINJA_SEQ_GENERATOR;
    for (size_t i = 0; *equal && i < a->as.list.n; i++) {
        if (!jinja_equal(run, a->as.list.items[i], b->as.list.items[i], equal))
            return false;
    }
    return true;
}

static bool equal_dicts(jinja_run *run, const jinja_dict *a, const jinja_dict *b, bool *equal)
{
    *equal = a->n == b->n;
    for (size_t i = 0; *equal && i < a->n; i++) {
        size_t at = 0;
        if (!jinja_dict_find(run, b, a->entries[i].key, &at, equal))
            return false;
        if (*equal && !jinja_equal(run, a->entries[i].value, b->entries[at].value, equal))
            return false;
    }
    return true;
}

static bool equal_same_kind(jinja_run *run, const jinja_value *a, const jinja_value *b, bool *equal)
{
    switch (a->kind) {
    case JINJA_STRING:
        *equal = a->as.string.bytes == b->as.string.bytes &&
                 memcmp(a->as.string.data, b->as.string.data, a->as.string.bytes) == 0;
        return jinja_scan(run, a->as.string.bytes);
    case JINJA_LIST:
        return equal_lists(run, a, b, equal);
    case JINJA_DICT:
        return equal_dicts(run, a->as.dict, b->as.dict, equal);
    case JINJA_NONE:
    case JINJA_UNDEFINED:
        *equal = true;
        return true;
    default:
        *equal = false;
        return true;
    }
}

bool jinja_equal(jinja_run *run, const jinja_value *a, const jinja_value *b, bool *equal)
{
    if (!jinja_step(run, 1))
        return false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *equal = jinja_is_int(a) && jinja_is_int(b) ? jinja_int_of(a) == jinja_int_of(b)
                                                    : jinja_double_of(a) == jinja_double_of(b);
        return true;
    }
    *equal = a == b;
    if (*equal || a->kind != b->kind)
        return true;
    if (!jinja_enter(run) || !equal_same_kind(run, a, b, equal))
        return false;
    run->depth--;
    return true;
}

static int order_strings(const jinja_value *a, const jinja_value *b)
{
    size_t n = LOAM_MIN(a->as.string.bytes, b->as.string.bytes);
    int order = memcmp(a->as.string.data, b->as.string.data, n);
    if (order != 0)
        return order; /* UTF-8 orders as its code points do */
    return (a->as.string.bytes > b->as.string.bytes) - (a->as.string.bytes < b->as.string.bytes);
}

static bool order_lists(jinja_run *run, const jinja_value *a, const jinja_value *b,
                        const char *sign, int *order)
{
    size_t n = LOAM_MIN(a->as.list.n, b->as.list.n);
    for (size_t i = 0; i < n; i++) {
        bool equal = false;
        const jinja_value *x = a->as.list.items[i];
        const jinja_value *y = b->as.list.items[i];
        if (!jinja_equal(run, x, y, &equal))
            return false;
        if (!equal)
            return jinja_order(run, x, y, sign, order);
    }
    *order = (a->as.list.n > b->as.list.n) - (a->as.list.n < b->as.list.n);
    return true;
}

bool jinja_order(jinja_run *run, const jinja_value *a, const jinja_value *b, const char *sign,
                 int *order)
{
    if (!jinja_step(run, 1) || !jinja_defined(run, a) || !jinja_defined(run, b))
        return false;
    if (jinja_is_int(a) && jinja_is_int(b)) {
        *order = (jinja_int_of(a) > jinja_int_of(b)) - (jinja_int_of(a) < jinja_int_of(b));
        return true;
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        double x = jinja_double_of(a);
        double y = jinja_double_of(b);
        *order = (x > y) - (x < y);
        return true;
    }
    if (a->kind == JINJA_STRING && b->kind == JINJA_STRING) {
        *order = order_strings(a, b);
        return jinja_scan(run, LOAM_MIN(a->as.string.bytes, b->as.string.bytes));
    }
    bool lists = a->kind == JINJA_LIST && b->kind == JINJA_LIST && a->sequence <= JINJA_SEQ_GROUP &&
                 b->sequence <= JINJA_SEQ_GROUP &&
                 (a->sequence == JINJA_SEQ_LIST) == (b->sequence == JINJA_SEQ_LIST);
    if (!lists)
        return jinja_refuse(run, "'%s' not supported between instances of '%s' and '%s'", sign,
                            jinja_type_name(a), jinja_type_name(b));
    if (!jinja_enter(run) || !order_lists(run, a, b, sign, order))
        return false;
    run->depth--;
    return true;
}

bool jinja_contains(jinja_run *run, jinja_value *container, jinja_value *item, bool *found)
{
    size_t at = 0;
    jinja_value **items = NULL;
    size_t n = 0;
    *found = false;
    switch (container->kind) {
    case JINJA_STRING:
        if (item->kind != JINJA_STRING)
            return jinja_defined(run, item) &&
                   jinja_refuse(run, "'in <string>' requires string as left operand, not %s",
                                jinja_type_name(item));
        *found = memmem(container->as.string.data, container->as.string.bytes, item->as.string.data,
                        item->as.string.bytes) != NULL;
        return jinja_scan(run, container->as.string.bytes);
    case JINJA_DICT:
        return jinja_dict_find(run, container->as.dict, item, &at, found);
    case JINJA_UNDEFINED:
        return true;
    case JINJA_LIST:
        items = container->as.list.items;
        n = container->as.list.n;
        if (container->sequence == JINJA_SEQ_GENERATOR)
            container->as.list.n = 0;
        for (size_t i = 0; i < n && !*found; i++) {
            if (!jinja_equal(run, items[i], item, found))
                return false;
        }
        return true;
    default:
        return jinja_refuse(run, "argument of type '%s' is not iterable",
                            jinja_type_name(container));
    }
}

/* ---- str() and repr() ---------------------------------------------------------------------- */

static bool emit_quoted_code(jinja_run *run, uint32_t code, char quote)
{
    char text[16];
    int n = 0;
    if (code == '\\' || code == (uint32_t)quote)
        n = snprintf(text, sizeof text, "\\%c", (char)code);
    else if (code == '\n' || code == '\r' || code == '\t')
        n = snprintf(text, sizeof text, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    else if (jinja_is_printable(code))
        n = jinja_utf8_put(text, code);
    else
        n = snprintf(text, sizeof text,
                     code < 0x100     ? "\\x%02x"
                     : code < 0x10000 ? "\\u%04x"
                                      : "\\U%08x",
                     (unsigned)code);
    return jinja_emit(run, text, (size_t)n);
}

static bool emit_quoted(jinja_run *run, const jinja_value *v)
{
    const char *p = v->as.string.data;
    const char *end = p + v->as.string.bytes;
    bool single = v->as.string.bytes > 0 && memchr(p, '\'', v->as.string.bytes) != NULL;
    bool twofold = v->as.string.bytes > 0 && memchr(p, '"', v->as.string.bytes) != NULL;
    char quote = single && !twofold ? '"' : '\'';
    if (!jinja_emit(run, &quote, 1))
        return false;
    while (p < end) {
        if (!emit_quoted_code(run, jinja_utf8_next(&p, end), quote))
            return false;
    }
    return jinja_emit(run, &quote, 1);
}

static bool emit_items(jinja_run *run, jinja_value *const *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && !jinja_emit_text(run, ", "))
            return false;
        if (!jinja_emit_value(run, items[i], true))
            return false;
    }
    return true;
}

static bool emit_list(jinja_run *run, const jinja_value *v)
{
    static const char *const opens[] = {
        "[", "(", "(", "range(", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const closes[] = {"]", ")", ")", ")", "])", "])", "])"};
    jinja_value **items = v->as.list.items;
    size_t n = v->as.list.n;
    if (v->sequence == JINJA_SEQ_GENERATOR)
        return jinja_emit_text(run, "<generator object>");
    if (v->sequence == JINJA_SEQ_RANGE) { /* start, stop and step stand behind the items */
        items += n;
        n = items[2]->as.integer == 1 ? 2 : 3;
    }
    bool one = n == 1 && (v->sequence == JINJA_SEQ_TUPLE || v->sequence == JINJA_SEQ_GROUP);
    return jinja_emit_text(run, opens[v->sequence]) && emit_items(run, items, n) &&
           (!one || jinja_emit_text(run, ",")) && jinja_emit_text(run, closes[v->sequence]);
}

static bool emit_dict(jinja_run *run, const jinja_dict *d)
{
    if (!jinja_emit_text(run, "{"))
        return false;
    for (size_t i = 0; i < d->n; i++) {
        if ((i > 0 && !jinja_emit_text(run, ", ")) ||
            !jinja_emit_value(run, d->entries[i].key, true) || !jinja_emit_text(run, ": ") ||
            !jinja_emit_value(run, d->entries[i].value, true))
            return false;
    }
    return jinja_emit_text(run, "}");
}

static bool emit_object(jinja_run *run, const jinja_value *v)
{
    const jinja_name *name = NULL;
    switch (v->kind) {
    case JINJA_NAMESPACE:
        return jinja_emit_text(run, "<Namespace ") && emit_dict(run, v->as.dict) &&
               jinja_emit_text(run, ">");
    case JINJA_MACRO:
        name = &v->as.macro.node->as.macro.name;
        return jinja_emit_text(run, "<Macro '") && jinja_emit(run, name->data, name->bytes) &&
               jinja_emit_text(run, "'>");
    case JINJA_FUNCTION:
        return jinja_emit_text(run, "<function ") &&
               jinja_emit_text(run, v->as.function.builtin->name) && jinja_emit_text(run, ">");
    default:
        return jinja_emit_text(run, "<") && jinja_emit_text(run, jinja_type_name(v)) &&
               jinja_emit_text(run, ">");
    }
}

static bool emit_any(jinja_run *run, const jinja_value *v, bool repr)
{
    char text[40];
    switch (v->kind) {
    case JINJA_UNDEFINED:
        return jinja_emit_text(run, repr ? "Undefined" : "");
    case JINJA_NONE:
        return jinja_emit_text(run, "None");
    case JINJA_BOOLEAN:
        return jinja_emit_text(run, v->as.boolean ? "True" : "False");
    case JINJA_INTEGER:
        snprintf(text, sizeof text, "%lld", (long long)v->as.integer);
        return jinja_emit_text(run, text);
    case JINJA_FLOAT:
        jinja_float_text(text, v->as.number);
        return jinja_emit_text(run, text);
    case JINJA_STRING:
        return repr ? emit_quoted(run, v) : jinja_emit(run, v->as.string.data, v->as.string.bytes);
    case JINJA_LIST:
        return emit_list(run, v);
    case JINJA_DICT:
        return emit_dict(run, v->as.dict);
    default:
        return emit_object(run, v);
    }
}

bool jinja_emit_value(jinja_run *run, const jinja_value *v, bool repr)
{
    if (!jinja_enter(run) || !emit_any(run, v, repr))
        return false;
    run->depth--;
    return true;
}

jinja_value *jinja_to_string(jinja_run *run, jinja_value *v)
{
    if (v->kind == JINJA_STRING)
        return v;
    size_t mark = jinja_mark(run);
    return jinja_emit_value(run, v, false) ? jinja_take(run, mark) : NULL;
}
