/* jinja_expression.c: evaluating expressions, and calling what can be called. */
#include "text/jinja.h"

#include <string.h>

/* ---- names --------------------------------------------------------------------------------- */

static bool same_name(const jinja_name *a, const jinja_name *b)
{
    return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

jinja_scope *jinja_scope_new(jinja_run *run, jinja_scope *parent)
{
    jinja_scope *scope = jinja_alloc(run, sizeof *scope);
    if (scope != NULL)
        scope->parent = parent;
    return scope;
}

bool jinja_scope_set(jinja_run *run, jinja_scope *scope, const jinja_name *name, jinja_value *value)
{
    uint64_t looked_at = 0;
    for (jinja_variable *v = scope->first; v != NULL; v = v->next, looked_at++) {
        if (same_name(v->name, name)) {
            v->value = value;
            return jinja_step(run, looked_at / 8);
        }
    }
    jinja_variable *v = jinja_alloc(run, sizeof *v);
    if (v == NULL)
        return false;
    v->name = name;
    v->value = value;
    v->next = scope->first;
    scope->first = v;
    return jinja_step(run, looked_at / 8);
}

static jinja_value *look_up(jinja_run *run, const jinja_scope *scope, const jinja_name *name)
{
    uint64_t looked_at = 0;
    for (; scope != NULL; scope = scope->parent) {
        for (const jinja_variable *v = scope->first; v != NULL; v = v->next, looked_at++) {
            if (same_name(v->name, name))
                return jinja_step(run, looked_at / 8) ? v->value : NULL;
        }
    }
    if (!jinja_step(run, looked_at / 8))
        return NULL;
    jinja_value *value = jinja_dict_text(run->variables, name->data, name->bytes);
    if (value != NULL)
        return value;
    const jinja_builtin *function = jinja_find(jinja_functions, name->data, name->bytes);
    if (function == NULL)
        return jinja_missing(run, name->data, name->bytes, NULL);
    value = jinja_alloc(run, sizeof *value);
    if (value != NULL) {
        value->kind = JINJA_FUNCTION;
        value->as.function.builtin = function;
    }
    return value;
}

/* ---- calls --------------------------------------------------------------------------------- */

static bool add_positional(jinja_run *run, jinja_args *args, size_t *capacity, jinja_value *value)
{
    if (args->n_positional == *capacity) {
        *capacity = *capacity == 0 ? 4 : *capacity * 2;
        jinja_value **items = jinja_alloc(run, *capacity * sizeof *items);
        if (items == NULL)
            return false;
        if (args->n_positional > 0)
            memcpy(items, args->positional, args->n_positional * sizeof *items);
        args->positional = items;
    }
    args->positional[args->n_positional++] = value;
    return true;
}

static bool add_named(jinja_run *run, jinja_args *args, jinja_value *name, jinja_value *value)
{
    size_t at = 0;
    bool found = false;
    if (!jinja_dict_find(run, &args->named, name, &at, &found))
        return false;
    if (found)
        return jinja_refuse(run, "the argument '%.*s' is given twice",
                            (int)LOAM_MIN(name->as.string.bytes, 80), name->as.string.data);
    return jinja_dict_set(run, &args->named, name, value);
}

static bool add_star(jinja_run *run, jinja_args *args, size_t *capacity, jinja_value *value)
{
    jinja_value **items = NULL;
    size_t n = 0;
    if (!jinja_iterate(run, value, &items, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!add_positional(run, args, capacity, items[i]))
            return false;
    }
    return true;
}

static bool add_star_star(jinja_run *run, jinja_args *args, const jinja_value *value)
{
    if (value->kind != JINJA_DICT)
        return jinja_refuse(run, "the argument after ** must be a dict, not '%s'",
                            jinja_type_name(value));
    for (size_t i = 0; i < value->as.dict->n; i++) {
        const jinja_entry *e = &value->as.dict->entries[i];
        if (e->key->kind != JINJA_STRING)
            return jinja_refuse(run, "the keys of an argument after ** must be strings");
        if (!add_named(run, args, e->key, e->value))
            return false;
    }
    return true;
}

bool jinja_evaluate_args(jinja_run *run, jinja_scope *scope, const jinja_node *arguments,
                         jinja_args *args)
{
    size_t capacity = 0;
    memset(args, 0, sizeof *args);
    for (const jinja_node *a = arguments; a != NULL; a = a->next) {
        jinja_value *value = jinja_evaluate(run, scope, a->as.argument.value);
        if (value == NULL)
            return false;
        run->at = a;
        bool added = false;
        switch (a->as.argument.kind) {
        case JINJA_ARGUMENT_POSITIONAL:
            added = add_positional(run, args, &capacity, value);
            break;
        case JINJA_ARGUMENT_NAMED:
            added = add_named(run, args, a->as.argument.name, value);
            break;
        case JINJA_ARGUMENT_STAR:
            added = add_star(run, args, &capacity, value);
            break;
        case JINJA_ARGUMENT_STAR_STAR:
            added = add_star_star(run, args, value);
            break;
        }
        if (!added)
            return false;
    }
    return true;
}

#define MAX_PARAMETERS 6

/* The number of the parameter called name[0 .. bytes), or of all parameters; -1 for none. */
static int find_parameter(const char *parameters, const char *name, size_t bytes)
{
    int i = 0;
    for (const char *p = parameters; *p != '\0'; i++) {
        size_t n = strcspn(p, " ");
        if (name != NULL && n == bytes && memcmp(p, name, n) == 0)
            return i;
        p += n + (p[n] == ' ');
    }
    return name == NULL ? i : -1;
}

static bool bind(jinja_run *run, const char *what, const jinja_builtin *b, const jinja_args *args,
                 jinja_value **bound)
{
    int n = find_parameter(b->parameters, NULL, 0);
    if (args->n_positional > (size_t)n)
        return jinja_refuse(run, "the %s '%s' takes at most %d arguments, found %zu", what, b->name,
                            n, args->n_positional);
    for (size_t i = 0; i < args->n_positional; i++)
        bound[i] = args->positional[i];
    for (size_t i = 0; i < args->named.n; i++) {
        const jinja_value *name = args->named.entries[i].key;
        const char *text = name->as.string.data;
        int at = find_parameter(b->parameters, text, name->as.string.bytes);
        if (at < 0 || bound[at] != NULL)
            return jinja_refuse(run, "the %s '%s' %s '%.*s'; its arguments are: %s", what, b->name,
                                at < 0 ? "has no argument" : "has two values for the argument",
                                (int)LOAM_MIN(name->as.string.bytes, 80), text, b->parameters);
        bound[at] = args->named.entries[i].value;
    }
    for (int i = 0; i < b->n_required; i++) {
        if (bound[i] == NULL)
            return jinja_refuse(run, "the %s '%s' needs its first %d of the arguments: %s", what,
                                b->name, b->n_required, b->parameters);
    }
    return true;
}

jinja_value *jinja_call_builtin(jinja_run *run, const char *what, const jinja_builtin *b,
                                jinja_value *self, const jinja_args *args)
{
    jinja_value *bound[MAX_PARAMETERS] = {NULL};
    if (b->parameters != NULL && !bind(run, what, b, args, bound))
        return NULL;
    return b->call(run, self, bound, args);
}

/* The value of one parameter of a macro: given by position, by name, its default, or undefined. */
static jinja_value *parameter_value(jinja_run *run, jinja_scope *scope, const jinja_node *parameter,
                                    size_t at, const jinja_args *args, size_t *n_named)
{
    const jinja_name *name = &parameter->as.parameter.name;
    jinja_value *named = jinja_dict_text(&args->named, name->data, name->bytes);
    if (at < args->n_positional && named != NULL)
        return jinja_fail(run, LOAM_E_DATA, "the argument '%.*s' is given twice",
                          (int)LOAM_MIN(name->bytes, 80), name->data);
    if (at < args->n_positional)
        return args->positional[at];
    if (named != NULL) {
        ++*n_named;
        return named;
    }
    if (parameter->as.parameter.fallback != NULL)
        return jinja_evaluate(run, scope, parameter->as.parameter.fallback);
    return jinja_missing(run, name->data, name->bytes, NULL);
}

static const jinja_node *find_macro_parameter(const jinja_node *parameters, const jinja_value *name)
{
    jinja_name wanted = {name->as.string.data, name->as.string.bytes};
    while (parameters != NULL && !same_name(&parameters->as.parameter.name, &wanted))
        parameters = parameters->next;
    return parameters;
}

/* kwargs: the named arguments that are no parameters, and not caller. */
static jinja_value *rest_named(jinja_run *run, const jinja_node *macro, const jinja_args *args)
{
    jinja_value *rest = jinja_dict_value(run, JINJA_DICT);
    for (size_t i = 0; rest != NULL && i < args->named.n; i++) {
        const jinja_entry *e = &args->named.entries[i];
        if (find_macro_parameter(macro->as.macro.parameters, e->key) != NULL ||
            (macro->as.macro.takes_caller && jinja_is_text(e->key, "caller")))
            continue;
        if (!jinja_dict_set(run, rest->as.dict, e->key, e->value))
            return NULL;
    }
    return rest;
}

/* What a call gives beyond the parameters: varargs, kwargs, caller. */
static bool bind_rest(jinja_run *run, jinja_scope *scope, const jinja_node *macro,
                      const jinja_args *args, size_t n_parameters, size_t n_named)
{
    static const jinja_name varargs = {"varargs", 7};
    static const jinja_name kwargs = {"kwargs", 6};
    static const jinja_name caller = {"caller", 6};
    const jinja_name *name = &macro->as.macro.name;
    size_t extra = args->n_positional > n_parameters ? args->n_positional - n_parameters : 0;
    if (extra > 0 && !macro->as.macro.takes_varargs)
        return jinja_refuse(run, "the macro '%.*s' takes at most %zu arguments, found %zu",
                            (int)LOAM_MIN(name->bytes, 80), name->data, n_parameters,
                            args->n_positional);
    if (macro->as.macro.takes_varargs) {
        jinja_value *rest = jinja_list(run, JINJA_SEQ_TUPLE, extra);
        for (size_t i = 0; rest != NULL && i < extra; i++)
            rest->as.list.items[rest->as.list.n++] = args->positional[n_parameters + i];
        if (rest == NULL || !jinja_scope_set(run, scope, &varargs, rest))
            return false;
    }
    if (macro->as.macro.takes_caller &&
        find_macro_parameter(macro->as.macro.parameters,
                             &(jinja_value){.kind = JINJA_STRING, .as.string = {"caller", 6}}) ==
            NULL) {
        jinja_value *given = jinja_dict_text(&args->named, "caller", 6);
        n_named += given != NULL;
        if (given == NULL)
            given = jinja_missing(run, "caller", 6, NULL);
        if (given == NULL || !jinja_scope_set(run, scope, &caller, given))
            return false;
    }
    if (macro->as.macro.takes_kwargs) {
        jinja_value *rest = rest_named(run, macro, args);
        return rest != NULL && jinja_scope_set(run, scope, &kwargs, rest);
    }
    for (size_t i = 0; n_named < args->named.n && i < args->named.n; i++) {
        const jinja_value *key = args->named.entries[i].key;
        if (find_macro_parameter(macro->as.macro.parameters, key) == NULL &&
            !(macro->as.macro.takes_caller && jinja_is_text(key, "caller")))
            return jinja_refuse(run, "the macro '%.*s' has no argument '%.*s'",
                                (int)LOAM_MIN(name->bytes, 80), name->data,
                                (int)LOAM_MIN(key->as.string.bytes, 80), key->as.string.data);
    }
    return true;
}

static jinja_value *call_macro(jinja_run *run, jinja_value *macro, jinja_args *args)
{
    const jinja_node *node = macro->as.macro.node;
    jinja_scope *scope = jinja_scope_new(run, macro->as.macro.scope);
    size_t n_parameters = 0;
    size_t n_named = 0;
    if (scope == NULL)
        return NULL;
    for (const jinja_node *p = node->as.macro.parameters; p != NULL; p = p->next, n_parameters++) {
        jinja_value *value = parameter_value(run, scope, p, n_parameters, args, &n_named);
        if (value == NULL || !jinja_scope_set(run, scope, &p->as.parameter.name, value))
            return NULL;
    }
    if (!bind_rest(run, scope, node, args, n_parameters, n_named))
        return NULL;
    size_t mark = jinja_mark(run);
    if (jinja_execute(run, scope, node->as.macro.body) == JINJA_FAILED)
        return NULL;
    return jinja_take(run, mark);
}

static jinja_value *call_joiner(jinja_run *run, jinja_value *joiner)
{
    bool used = joiner->as.joiner.used;
    joiner->as.joiner.used = true;
    return used ? joiner->as.joiner.separator : run->empty;
}

jinja_value *jinja_call(jinja_run *run, jinja_value *callee, jinja_args *args)
{
    const jinja_builtin *b = NULL;
    switch (callee->kind) {
    case JINJA_FUNCTION:
        b = callee->as.function.builtin;
        return jinja_call_builtin(run, callee->as.function.self != NULL ? "method" : "function", b,
                                  callee->as.function.self, args);
    case JINJA_MACRO:
        return call_macro(run, callee, args);
    case JINJA_JOINER:
        return call_joiner(run, callee);
    case JINJA_LOOP:
        if (args->n_positional == 1 && args->named.n == 0)
            return jinja_call_loop(run, callee->as.loop, args->positional[0]);
        return jinja_fail(run, LOAM_E_DATA, "loop(...) takes one iterable");
    default:
        if (!jinja_defined(run, callee))
            return NULL;
        return jinja_fail(run, LOAM_E_DATA, "'%s' object is not callable", jinja_type_name(callee));
    }
}

/* ---- nodes --------------------------------------------------------------------------------- */

static jinja_value *evaluate_list(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_sequence sequence = node->kind == JINJA_NODE_LIST ? JINJA_SEQ_LIST : JINJA_SEQ_TUPLE;
    jinja_value *list = jinja_list(run, sequence, 0);
    for (const jinja_node *c = node->as.children; list != NULL && c != NULL; c = c->next) {
        jinja_value *item = jinja_evaluate(run, scope, c);
        if (item == NULL || !jinja_append(run, list, item))
            return NULL;
    }
    return list;
}

static jinja_value *evaluate_dict(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *dict = jinja_dict_value(run, JINJA_DICT);
    for (const jinja_node *c = node->as.children; dict != NULL && c != NULL; c = c->next->next) {
        jinja_value *key = jinja_evaluate(run, scope, c);
        jinja_value *value = key != NULL ? jinja_evaluate(run, scope, c->next) : NULL;
        run->at = c;
        if (value == NULL || !jinja_dict_set(run, dict->as.dict, key, value))
            return NULL;
    }
    return dict;
}

static jinja_value *evaluate_concat(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    size_t mark = jinja_mark(run);
    for (const jinja_node *c = node->as.children; c != NULL; c = c->next) {
        jinja_value *part = jinja_evaluate(run, scope, c);
        run->at = c;
        if (part == NULL || !jinja_emit_value(run, part, false))
            return NULL;
    }
    return jinja_take(run, mark);
}

static jinja_value *evaluate_unary(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *v = jinja_evaluate(run, scope, node->as.binary.left);
    if (v == NULL)
        return NULL;
    if (node->kind == JINJA_NODE_NOT)
        return jinja_boolean(run, !jinja_truth(v));
    run->at = node;
    if (!jinja_defined(run, v))
        return NULL;
    bool negate = node->kind == JINJA_NODE_NEGATE;
    if (v->kind == JINJA_FLOAT)
        return jinja_float(run, negate ? -v->as.number : v->as.number);
    if (!jinja_is_int(v))
        return jinja_fail(run, LOAM_E_DATA, "bad operand type for unary %c: '%s'",
                          negate ? '-' : '+', jinja_type_name(v));
    int64_t i = jinja_int_of(v);
    if (negate && i == INT64_MIN)
        return jinja_fail(run, LOAM_E_DATA, "the result of - does not fit a 64-bit integer");
    return jinja_integer(run, negate ? -i : i);
}

static jinja_value *evaluate_binary(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *left = jinja_evaluate(run, scope, node->as.binary.left);
    if (left == NULL)
        return NULL;
    if (node->kind == JINJA_NODE_AND || node->kind == JINJA_NODE_OR) {
        bool decided = jinja_truth(left) == (node->kind == JINJA_NODE_OR);
        return decided ? left : jinja_evaluate(run, scope, node->as.binary.right);
    }
    jinja_value *right = jinja_evaluate(run, scope, node->as.binary.right);
    if (right == NULL)
        return NULL;
    run->at = node;
    return jinja_binary(run, node->as.binary.op, left, right);
}

static jinja_value *evaluate_compare(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *left = jinja_evaluate(run, scope, node->as.compare.left);
    bool result = left != NULL;
    for (const jinja_node *s = node->as.compare.steps; result && s != NULL; s = s->next) {
        jinja_value *right = jinja_evaluate(run, scope, s->as.binary.right);
        run->at = s;
        if (right == NULL || !jinja_compare(run, s->as.binary.op, left, right, &result))
            return NULL;
        left = right;
    }
    return left != NULL ? jinja_boolean(run, result) : NULL;
}

static jinja_value *evaluate_conditional(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *condition = jinja_evaluate(run, scope, node->as.conditional.condition);
    if (condition == NULL)
        return NULL;
    if (jinja_truth(condition))
        return jinja_evaluate(run, scope, node->as.conditional.yes);
    if (node->as.conditional.no != NULL)
        return jinja_evaluate(run, scope, node->as.conditional.no);
    return run->nothing;
}

static bool evaluate_part(jinja_run *run, jinja_scope *scope, const jinja_node *node,
                          jinja_value **part)
{
    *part = node != NULL ? jinja_evaluate(run, scope, node) : NULL;
    return node == NULL || *part != NULL;
}

static jinja_value *evaluate_subscript(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    const jinja_node *index = node->as.subscript.index;
    jinja_value *object = jinja_evaluate(run, scope, node->as.subscript.object);
    if (object == NULL)
        return NULL;
    if (index->kind != JINJA_NODE_SLICE) {
        jinja_value *key = jinja_evaluate(run, scope, index);
        run->at = node;
        return key != NULL ? jinja_subscript(run, object, key) : NULL;
    }
    jinja_value *start = NULL;
    jinja_value *stop = NULL;
    jinja_value *step = NULL;
    if (!evaluate_part(run, scope, index->as.slice.start, &start) ||
        !evaluate_part(run, scope, index->as.slice.stop, &stop) ||
        !evaluate_part(run, scope, index->as.slice.step, &step))
        return NULL;
    run->at = node;
    return jinja_slice(run, object, start, stop, step);
}

static jinja_value *evaluate_call(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_args args;
    jinja_value *callee = jinja_evaluate(run, scope, node->as.call.object);
    if (callee == NULL || !jinja_evaluate_args(run, scope, node->as.call.arguments, &args))
        return NULL;
    run->at = node->as.call.object;
    jinja_value *result = jinja_call(run, callee, &args);
    run->at = node;
    return result;
}

static jinja_value *apply(jinja_run *run, jinja_scope *scope, const jinja_node *node,
                          jinja_value *value)
{
    jinja_args args;
    const jinja_builtin *b = node->as.call.builtin;
    const char *what = node->kind == JINJA_NODE_TEST ? "test" : "filter";
    if (!jinja_evaluate_args(run, scope, node->as.call.arguments, &args))
        return NULL;
    run->at = node;
    if (b == NULL)
        return jinja_fail(run, LOAM_E_UNSUPPORTED, "unknown %s '%.*s'", what,
                          (int)LOAM_MIN(node->as.call.name.bytes, 80), node->as.call.name.data);
    return jinja_call_builtin(run, what, b, value, &args);
}

jinja_value *jinja_filter_value(jinja_run *run, jinja_scope *scope, const jinja_node *node,
                                jinja_value *value)
{
    if (node->as.call.object != NULL) {
        if (!jinja_enter(run))
            return NULL;
        value = jinja_filter_value(run, scope, node->as.call.object, value);
        run->depth--;
    }
    return value != NULL ? apply(run, scope, node, value) : NULL;
}

static jinja_value *evaluate_node(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *v = NULL;
    switch (node->kind) {
    case JINJA_NODE_CONSTANT:
        return node->as.constant;
    case JINJA_NODE_NAME:
        return look_up(run, scope, &node->as.name);
    case JINJA_NODE_LIST:
    case JINJA_NODE_TUPLE:
        return evaluate_list(run, scope, node);
    case JINJA_NODE_DICT:
        return evaluate_dict(run, scope, node);
    case JINJA_NODE_CONCAT:
        return evaluate_concat(run, scope, node);
    case JINJA_NODE_NEGATE:
    case JINJA_NODE_PLUS:
    case JINJA_NODE_NOT:
        return evaluate_unary(run, scope, node);
    case JINJA_NODE_AND:
    case JINJA_NODE_OR:
    case JINJA_NODE_BINARY:
        return evaluate_binary(run, scope, node);
    case JINJA_NODE_COMPARE:
        return evaluate_compare(run, scope, node);
    case JINJA_NODE_CONDITIONAL:
        return evaluate_conditional(run, scope, node);
    case JINJA_NODE_ATTRIBUTE:
        v = jinja_evaluate(run, scope, node->as.attribute.object);
        run->at = node;
        return v != NULL ? jinja_attribute(run, v, &node->as.attribute.name, node->as.attribute.key)
                         : NULL;
    case JINJA_NODE_SUBSCRIPT:
        return evaluate_subscript(run, scope, node);
    case JINJA_NODE_CALL:
        return evaluate_call(run, scope, node);
    case JINJA_NODE_FILTER:
    case JINJA_NODE_TEST:
        v = jinja_evaluate(run, scope, node->as.call.object);
        return v != NULL ? apply(run, scope, node, v) : NULL;
    default:
        break;
    }
    LOAM_ASSERT(!"an expression");
    return NULL;
}

jinja_value *jinja_evaluate(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    run->at = node;
    if (!jinja_step(run, 1) || !jinja_enter(run))
        return NULL;
    jinja_value *v = evaluate_node(run, scope, node);
    run->depth--;
    return v;
}
