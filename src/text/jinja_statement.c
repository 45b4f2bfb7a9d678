/* jinja_statement.c: executing statements. A loop's iteration, a macro, and the blocks whose text
 * goes elsewhere have scopes of their own; an if has not. */
#include "text/jinja.h"

#include <string.h>

static jinja_flow execute_one(jinja_run *run, jinja_scope *scope, const jinja_node *node);

/* ---- assignment ---------------------------------------------------------------------------- */

static bool assign(jinja_run *run, jinja_scope *scope, const jinja_node *target,
                   jinja_value *value);

static bool assign_tuple(jinja_run *run, jinja_scope *scope, const jinja_node *target,
                         jinja_value *value)
{
    jinja_value **items = NULL;
    size_t n = 0;
    size_t wanted = 0;
    if (!jinja_defined(run, value) || !jinja_iterate(run, value, &items, &n))
        return false;
    for (const jinja_node *t = target->as.children; t != NULL; t = t->next)
        wanted++;
    if (n != wanted)
        return jinja_refuse(run, "cannot unpack: expected %zu values, found %zu", wanted, n);
    for (const jinja_node *t = target->as.children; t != NULL; t = t->next) {
        if (!assign(run, scope, t, *items++))
            return false;
    }
    return true;
}

static bool assign(jinja_run *run, jinja_scope *scope, const jinja_node *target, jinja_value *value)
{
    if (target->kind == JINJA_NODE_NAME)
        return jinja_scope_set(run, scope, &target->as.name, value);
    if (target->kind == JINJA_NODE_TUPLE)
        return assign_tuple(run, scope, target, value);
    jinja_value *object = jinja_evaluate(run, scope, target->as.attribute.object);
    if (object == NULL)
        return false;
    run->at = target;
    if (!jinja_defined(run, object))
        return false;
    if (object->kind != JINJA_NAMESPACE)
        return jinja_refuse(run, "cannot assign to an attribute of '%s', expected a namespace",
                            jinja_type_name(object));
    return jinja_dict_set(run, object->as.dict, target->as.attribute.key, value);
}

/* ---- loops --------------------------------------------------------------------------------- */

/* Keeps the items for which the loop's condition holds. */
static bool filter_items(jinja_run *run, jinja_scope *scope, const jinja_node *node,
                         jinja_value **items, size_t *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        jinja_scope *inner = jinja_scope_new(run, scope);
        if (inner == NULL || !assign(run, inner, node->as.loop.target, items[i]))
            return false;
        jinja_value *keep = jinja_evaluate(run, inner, node->as.loop.condition);
        if (keep == NULL)
            return false;
        if (jinja_truth(keep))
            items[kept++] = items[i];
    }
    *n = kept;
    return true;
}

static jinja_flow run_loop(jinja_run *run, jinja_scope *scope, const jinja_node *node,
                           jinja_value *iterable, int64_t depth)
{
    static const jinja_name loop_name = {"loop", 4};
    jinja_value *variable = jinja_alloc(run, sizeof *variable);
    jinja_loop *loop = variable != NULL ? jinja_alloc(run, sizeof *loop) : NULL;
    if (loop == NULL || !jinja_iterate(run, iterable, &loop->items, &loop->n))
        return JINJA_FAILED;
    if (node->as.loop.condition != NULL && !filter_items(run, scope, node, loop->items, &loop->n))
        return JINJA_FAILED;
    variable->kind = JINJA_LOOP;
    variable->as.loop = loop;
    loop->node = node;
    loop->scope = scope;
    loop->depth = depth;
    if (loop->n == 0) {
        jinja_scope *inner = jinja_scope_new(run, scope);
        return inner != NULL ? jinja_execute(run, inner, node->as.loop.otherwise) : JINJA_FAILED;
    }
    for (; loop->index < loop->n; loop->index++) {
        jinja_scope *inner = jinja_scope_new(run, scope);
        run->at = node;
        if (inner == NULL || !jinja_step(run, 1) ||
            !jinja_scope_set(run, inner, &loop_name, variable) ||
            !assign(run, inner, node->as.loop.target, loop->items[loop->index]))
            return JINJA_FAILED;
        jinja_flow flow = jinja_execute(run, inner, node->as.loop.body);
        if (flow == JINJA_FAILED)
            return flow;
        if (flow == JINJA_BREAK)
            break;
    }
    return JINJA_NEXT;
}

static jinja_flow execute_for(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *iterable = jinja_evaluate(run, scope, node->as.loop.iterable);
    run->at = node;
    return iterable != NULL ? run_loop(run, scope, node, iterable, 0) : JINJA_FAILED;
}

jinja_value *jinja_call_loop(jinja_run *run, jinja_loop *loop, jinja_value *iterable)
{
    if (!loop->node->as.loop.recursive)
        return jinja_fail(run, LOAM_E_DATA,
                          "loop(...) was called in a loop that is not marked "
                          "'recursive'");
    size_t mark = jinja_mark(run);
    if (!jinja_enter(run) ||
        run_loop(run, loop->scope, loop->node, iterable, loop->depth + 1) == JINJA_FAILED)
        return NULL;
    run->depth--;
    return jinja_take(run, mark);
}

/* ---- the other statements ------------------------------------------------------------------ */

static jinja_flow execute_if(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    for (const jinja_node *b = node->as.children; b != NULL; b = b->next) {
        if (b->as.block.value == NULL)
            return jinja_execute(run, scope, b->as.block.body);
        jinja_value *condition = jinja_evaluate(run, scope, b->as.block.value);
        if (condition == NULL)
            return JINJA_FAILED;
        if (jinja_truth(condition))
            return jinja_execute(run, scope, b->as.block.body);
    }
    return JINJA_NEXT;
}

static jinja_flow execute_set(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *value = jinja_evaluate(run, scope, node->as.block.value);
    run->at = node;
    return value != NULL && assign(run, scope, node->as.block.target, value) ? JINJA_NEXT
                                                                             : JINJA_FAILED;
}

/* Executes a body in its own scope; its text becomes *text. A break or continue drops the text. */
static jinja_flow capture(jinja_run *run, jinja_scope *scope, const jinja_node *body,
                          jinja_value **text)
{
    jinja_scope *inner = jinja_scope_new(run, scope);
    size_t mark = jinja_mark(run);
    jinja_flow flow = inner != NULL ? jinja_execute(run, inner, body) : JINJA_FAILED;
    if (flow == JINJA_FAILED)
        return flow;
    *text = jinja_take(run, mark);
    return *text != NULL ? flow : JINJA_FAILED;
}

static jinja_flow execute_set_block(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *text = NULL;
    jinja_flow flow = capture(run, scope, node->as.block.body, &text);
    if (flow != JINJA_NEXT)
        return flow;
    if (node->as.block.value != NULL)
        text = jinja_filter_value(run, scope, node->as.block.value, text);
    run->at = node;
    return text != NULL && assign(run, scope, node->as.block.target, text) ? JINJA_NEXT
                                                                           : JINJA_FAILED;
}

static jinja_flow execute_filter_block(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *text = NULL;
    jinja_flow flow = capture(run, scope, node->as.block.body, &text);
    if (flow != JINJA_NEXT)
        return flow;
    text = jinja_filter_value(run, scope, node->as.block.value, text);
    return text != NULL && jinja_emit_value(run, text, false) ? JINJA_NEXT : JINJA_FAILED;
}

static jinja_value *macro_value(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *v = jinja_alloc(run, sizeof *v);
    if (v != NULL) {
        v->kind = JINJA_MACRO;
        v->as.macro.node = node;
        v->as.macro.scope = scope;
    }
    return v;
}

static jinja_flow execute_macro(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *macro = macro_value(run, scope, node);
    return macro != NULL && jinja_scope_set(run, scope, &node->as.macro.name, macro) ? JINJA_NEXT
                                                                                     : JINJA_FAILED;
}

static jinja_flow execute_call_block(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    const jinja_node *call = node->as.macro.call;
    jinja_args args;
    jinja_value *callee = jinja_evaluate(run, scope, call->as.call.object);
    if (callee == NULL || !jinja_evaluate_args(run, scope, call->as.call.arguments, &args))
        return JINJA_FAILED;
    run->at = node;
    jinja_value *caller = macro_value(run, scope, node);
    jinja_value *name = caller != NULL ? jinja_string(run, "caller", 6) : NULL;
    if (name == NULL || !jinja_dict_set(run, &args.named, name, caller))
        return JINJA_FAILED;
    jinja_value *text = jinja_call(run, callee, &args);
    return text != NULL && jinja_emit_value(run, text, false) ? JINJA_NEXT : JINJA_FAILED;
}

/* The values of a with are those around it, also where an earlier name hides one. */
static jinja_flow execute_with(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_scope *inner = jinja_scope_new(run, scope);
    if (inner == NULL)
        return JINJA_FAILED;
    for (const jinja_node *s = node->as.block.target; s != NULL; s = s->next) {
        jinja_value *value = jinja_evaluate(run, scope, s->as.block.value);
        run->at = s;
        if (value == NULL || !assign(run, inner, s->as.block.target, value))
            return JINJA_FAILED;
    }
    return jinja_execute(run, inner, node->as.block.body);
}

static jinja_flow execute_output(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_value *value = jinja_evaluate(run, scope, node->as.block.value);
    run->at = node;
    return value != NULL && jinja_emit_value(run, value, false) ? JINJA_NEXT : JINJA_FAILED;
}

static jinja_flow execute_one(jinja_run *run, jinja_scope *scope, const jinja_node *node)
{
    jinja_scope *inner = NULL;
    switch (node->kind) {
    case JINJA_NODE_CONSTANT:
        return jinja_emit_value(run, node->as.constant, false) ? JINJA_NEXT : JINJA_FAILED;
    case JINJA_NODE_OUTPUT:
        return execute_output(run, scope, node);
    case JINJA_NODE_IF:
        return execute_if(run, scope, node);
    case JINJA_NODE_FOR:
        return execute_for(run, scope, node);
    case JINJA_NODE_SET:
        return execute_set(run, scope, node);
    case JINJA_NODE_SET_BLOCK:
        return execute_set_block(run, scope, node);
    case JINJA_NODE_MACRO:
        return execute_macro(run, scope, node);
    case JINJA_NODE_CALL_BLOCK:
        return execute_call_block(run, scope, node);
    case JINJA_NODE_FILTER_BLOCK:
        return execute_filter_block(run, scope, node);
    case JINJA_NODE_WITH:
        return execute_with(run, scope, node);
    case JINJA_NODE_SCOPE:
        inner = jinja_scope_new(run, scope);
        return inner != NULL ? jinja_execute(run, inner, node->as.block.body) : JINJA_FAILED;
    case JINJA_NODE_BREAK:
        return JINJA_BREAK;
    case JINJA_NODE_CONTINUE:
        return JINJA_CONTINUE;
    default:
        break;
    }
    LOAM_ASSERT(!"a statement");
    return JINJA_FAILED;
}

jinja_flow jinja_execute(jinja_run *run, jinja_scope *scope, const jinja_node *body)
{
    if (!jinja_enter(run))
        return JINJA_FAILED;
    jinja_flow flow = JINJA_NEXT;
    for (; body != NULL && flow == JINJA_NEXT; body = body->next) {
        run->at = body;
        flow = jinja_step(run, 1) ? execute_one(run, scope, body) : JINJA_FAILED;
    }
    run->depth--;
    return flow;
}
