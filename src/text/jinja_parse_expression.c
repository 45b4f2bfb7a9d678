/* jinja_parse_expression.c: Jinja2's expression grammar, loosest first:
 *
 *   a if c else b | or | and | not | == != < <= > >= in, not in | + - | ~ | * / // % | ** |
 *   unary - + | primary, then .name [index] (call), then |filter and `is test`
 *
 * "**" groups to the left and binds looser than a sign, as in Jinja2 and not as in Python. */
#include "text/jinja.h"

#include <stdlib.h>
#include <string.h>

static jinja_node *parse_or(jinja_parser *p);
static jinja_node *parse_unary(jinja_parser *p, bool with_filters);

/* ---- helpers shared by both files ---------------------------------------------------------- */

const jinja_token *jinja_peek(const jinja_parser *p)
{
    return &p->tokens[p->at];
}

bool jinja_at_op(const jinja_parser *p, jinja_op op)
{
    return jinja_peek(p)->kind == JINJA_TOKEN_OPERATOR && jinja_peek(p)->op == op;
}

static bool token_is_name(const jinja_token *t, const char *name)
{
    return t->kind == JINJA_TOKEN_NAME && t->bytes == strlen(name) &&
           memcmp(t->data, name, t->bytes) == 0;
}

bool jinja_at_name(const jinja_parser *p, const char *name)
{
    return token_is_name(jinja_peek(p), name);
}

bool jinja_skip_op(jinja_parser *p, jinja_op op)
{
    if (!jinja_at_op(p, op))
        return false;
    p->at++;
    return true;
}

bool jinja_skip_name(jinja_parser *p, const char *name)
{
    if (!jinja_at_name(p, name))
        return false;
    p->at++;
    return true;
}

void *jinja_unexpected(jinja_parser *p, const char *expected)
{
    const jinja_token *t = jinja_peek(p);
    char found[80];
    switch (t->kind) {
    case JINJA_TOKEN_END:
        snprintf(found, sizeof found, "the end of the template");
        break;
    case JINJA_TOKEN_BLOCK_END:
    case JINJA_TOKEN_OUTPUT_END:
        snprintf(found, sizeof found, "the end of the tag");
        break;
    case JINJA_TOKEN_STRING:
        snprintf(found, sizeof found, "the string '%.*s'", (int)LOAM_MIN(t->bytes, 40), t->data);
        break;
    case JINJA_TOKEN_TEXT:
        snprintf(found, sizeof found, "text");
        break;
    default:
        snprintf(found, sizeof found, "'%.*s'", (int)LOAM_MIN(t->bytes, 40), t->data);
        break;
    }
    jinja_syntax_error(p->source, t->line, t->column, "found %s, expected %s", found, expected);
    return NULL;
}

bool jinja_expect_op(jinja_parser *p, jinja_op op, const char *what)
{
    if (jinja_skip_op(p, op))
        return true;
    return jinja_unexpected(p, what) != NULL;
}

bool jinja_expect_name(jinja_parser *p, const char *what, const jinja_token **token)
{
    if (jinja_peek(p)->kind != JINJA_TOKEN_NAME)
        return jinja_unexpected(p, what) != NULL;
    *token = &p->tokens[p->at++];
    return true;
}

bool jinja_deeper(jinja_parser *p)
{
    if (p->depth < JINJA_MAX_PARSE_DEPTH) {
        p->depth++;
        return true;
    }
    const jinja_token *t = jinja_peek(p);
    jinja_syntax_error(p->source, t->line, t->column,
                       "nested too deeply: expected at most %d levels", JINJA_MAX_PARSE_DEPTH);
    return false;
}

static void *allocate(jinja_parser *p, size_t bytes)
{
    void *memory = loam_arena_alloc(p->source->arena, bytes);
    if (memory == NULL)
        loam_fail(p->source->error, LOAM_E_MEMORY, "%s: out of memory parsing the template",
                  p->source->name);
    return memory;
}

jinja_node *jinja_node_new(jinja_parser *p, jinja_node_kind kind, const jinja_token *at)
{
    jinja_node *node = allocate(p, sizeof *node);
    if (node != NULL) {
        node->kind = kind;
        node->line = at->line;
        node->column = at->column;
    }
    return node;
}

jinja_value *jinja_constant_string(jinja_parser *p, const char *data, size_t bytes)
{
    jinja_value *v = allocate(p, sizeof *v);
    if (v != NULL) {
        v->kind = JINJA_STRING;
        v->as.string.data = data;
        v->as.string.bytes = bytes;
    }
    return v;
}

static jinja_node *one_operand(jinja_parser *p, jinja_node_kind kind, const jinja_token *at,
                               jinja_node *operand)
{
    jinja_node *node = operand != NULL ? jinja_node_new(p, kind, at) : NULL;
    if (node != NULL)
        node->as.binary.left = operand;
    return node;
}

static jinja_node *two_operands(jinja_parser *p, jinja_node_kind kind, const jinja_token *at,
                                jinja_node *left, jinja_node *right)
{
    jinja_node *node = right != NULL ? jinja_node_new(p, kind, at) : NULL;
    if (node != NULL) {
        node->as.binary.op = at->op;
        node->as.binary.left = left;
        node->as.binary.right = right;
    }
    return node;
}

/* ---- primaries ----------------------------------------------------------------------------- */

static jinja_node *constant(jinja_parser *p, const jinja_token *at, jinja_kind kind)
{
    jinja_node *node = jinja_node_new(p, JINJA_NODE_CONSTANT, at);
    jinja_value *value = node != NULL ? allocate(p, sizeof *value) : NULL;
    if (value == NULL)
        return NULL;
    value->kind = kind;
    node->as.constant = value;
    return node;
}

static jinja_node *parse_name(jinja_parser *p)
{
    const jinja_token *t = &p->tokens[p->at++];
    bool yes = token_is_name(t, "true") || token_is_name(t, "True");
    if (yes || token_is_name(t, "false") || token_is_name(t, "False")) {
        jinja_node *node = constant(p, t, JINJA_BOOLEAN);
        if (node != NULL)
            node->as.constant->as.boolean = yes;
        return node;
    }
    if (token_is_name(t, "none") || token_is_name(t, "None"))
        return constant(p, t, JINJA_NONE);
    jinja_node *node = jinja_node_new(p, JINJA_NODE_NAME, t);
    if (node == NULL)
        return NULL;
    node->as.name = (jinja_name){t->data, t->bytes};
    if (p->macro != NULL) {
        p->macro->as.macro.takes_varargs |= token_is_name(t, "varargs");
        p->macro->as.macro.takes_kwargs |= token_is_name(t, "kwargs");
        p->macro->as.macro.takes_caller |= token_is_name(t, "caller");
    }
    return node;
}

/* One string literal, or several side by side, which are one. */
static jinja_node *parse_string(jinja_parser *p)
{
    const jinja_token *first = jinja_peek(p);
    size_t bytes = 0;
    size_t n = 0;
    for (; first[n].kind == JINJA_TOKEN_STRING; n++)
        bytes += first[n].bytes;
    jinja_node *node = jinja_node_new(p, JINJA_NODE_CONSTANT, first);
    char *text = node != NULL ? allocate(p, bytes + 1) : NULL;
    if (text == NULL)
        return NULL;
    node->as.constant = jinja_constant_string(p, text, bytes);
    for (size_t i = 0; i < n; i++) {
        memcpy(text, first[i].data, first[i].bytes);
        text += first[i].bytes;
    }
    p->at += n;
    return node->as.constant != NULL ? node : NULL;
}

static jinja_node *parse_number(jinja_parser *p)
{
    const jinja_token *t = &p->tokens[p->at++];
    bool integer = t->kind == JINJA_TOKEN_INTEGER;
    jinja_node *node = constant(p, t, integer ? JINJA_INTEGER : JINJA_FLOAT);
    if (node == NULL)
        return NULL;
    if (integer)
        node->as.constant->as.integer = t->integer;
    else
        node->as.constant->as.number = t->number;
    return node;
}

static jinja_node *parse_list(jinja_parser *p)
{
    jinja_node *node = jinja_node_new(p, JINJA_NODE_LIST, &p->tokens[p->at++]);
    jinja_node **tail = node != NULL ? &node->as.children : NULL;
    while (node != NULL && !jinja_skip_op(p, JINJA_OP_RBRACKET)) {
        if (node->as.children != NULL) {
            if (!jinja_expect_op(p, JINJA_OP_COMMA, "',' or ']' in a list"))
                return NULL;
            if (jinja_skip_op(p, JINJA_OP_RBRACKET))
                return node;
        }
        *tail = jinja_parse_expression(p, true);
        if (*tail == NULL)
            return NULL;
        tail = &(*tail)->next;
    }
    return node;
}

static jinja_node *parse_dict(jinja_parser *p)
{
    jinja_node *node = jinja_node_new(p, JINJA_NODE_DICT, &p->tokens[p->at++]);
    jinja_node **tail = node != NULL ? &node->as.children : NULL;
    while (node != NULL && !jinja_skip_op(p, JINJA_OP_RBRACE)) {
        if (node->as.children != NULL) {
            if (!jinja_expect_op(p, JINJA_OP_COMMA, "',' or '}' in a dict"))
                return NULL;
            if (jinja_skip_op(p, JINJA_OP_RBRACE))
                return node;
        }
        jinja_node *key = jinja_parse_expression(p, true);
        if (key == NULL || !jinja_expect_op(p, JINJA_OP_COLON, "':' after a dict's key"))
            return NULL;
        key->next = jinja_parse_expression(p, true);
        if (key->next == NULL)
            return NULL;
        *tail = key;
        tail = &key->next->next;
    }
    return node;
}

static jinja_node *parse_primary(jinja_parser *p)
{
    const jinja_token *t = jinja_peek(p);
    if (t->kind == JINJA_TOKEN_NAME)
        return parse_name(p);
    if (t->kind == JINJA_TOKEN_STRING)
        return parse_string(p);
    if (t->kind == JINJA_TOKEN_INTEGER || t->kind == JINJA_TOKEN_FLOAT)
        return parse_number(p);
    if (jinja_at_op(p, JINJA_OP_LBRACKET))
        return parse_list(p);
    if (jinja_at_op(p, JINJA_OP_LBRACE))
        return parse_dict(p);
    if (!jinja_skip_op(p, JINJA_OP_LPAREN))
        return jinja_unexpected(p, "an expression");
    jinja_node *node = jinja_parse_tuple(p, true, NULL, true);
    if (node == NULL || !jinja_expect_op(p, JINJA_OP_RPAREN, "')'"))
        return NULL;
    return node;
}

/* ---- calls, filters, tests, subscripts ----------------------------------------------------- */

static jinja_node *parse_argument(jinja_parser *p, jinja_argument_kind *latest)
{
    const jinja_token *t = jinja_peek(p);
    jinja_node *node = jinja_node_new(p, JINJA_NODE_ARGUMENT, t);
    if (node == NULL)
        return NULL;
    jinja_argument_kind kind = JINJA_ARGUMENT_POSITIONAL;
    bool named = t->kind == JINJA_TOKEN_NAME && t[1].kind == JINJA_TOKEN_OPERATOR &&
                 t[1].op == JINJA_OP_ASSIGN;
    if (jinja_skip_op(p, JINJA_OP_MUL)) {
        kind = JINJA_ARGUMENT_STAR;
    } else if (jinja_skip_op(p, JINJA_OP_POW)) {
        kind = JINJA_ARGUMENT_STAR_STAR;
    } else if (named) {
        kind = JINJA_ARGUMENT_NAMED;
        node->as.argument.name = jinja_constant_string(p, t->data, t->bytes);
        p->at += 2;
        if (node->as.argument.name == NULL)
            return NULL;
    }
    if (kind == JINJA_ARGUMENT_POSITIONAL && *latest != JINJA_ARGUMENT_POSITIONAL)
        return jinja_unexpected(p, "a named argument: positional ones come first");
    *latest = LOAM_MAX(*latest, kind);
    node->as.argument.kind = kind;
    node->as.argument.value = jinja_parse_expression(p, true);
    return node->as.argument.value != NULL ? node : NULL;
}

/* "(a, b, name=c, *d, **e)", with the open parenthesis not yet read. */
static bool parse_arguments(jinja_parser *p, jinja_node **list)
{
    jinja_argument_kind latest = JINJA_ARGUMENT_POSITIONAL;
    p->at++;
    *list = NULL;
    while (!jinja_skip_op(p, JINJA_OP_RPAREN)) {
        if (latest == JINJA_ARGUMENT_STAR_STAR)
            return jinja_unexpected(p, "')' after a ** argument") != NULL;
        *list = parse_argument(p, &latest);
        if (*list == NULL)
            return false;
        list = &(*list)->next;
        if (!jinja_at_op(p, JINJA_OP_RPAREN) &&
            !jinja_expect_op(p, JINJA_OP_COMMA, "',' or ')' in a call's arguments"))
            return false;
    }
    return true;
}

static jinja_node *parse_call(jinja_parser *p, jinja_node *callee)
{
    jinja_node *node = jinja_node_new(p, JINJA_NODE_CALL, jinja_peek(p));
    if (node == NULL || !parse_arguments(p, &node->as.call.arguments))
        return NULL;
    node->as.call.object = callee;
    return node;
}

/* The name of a filter or test, which may hold dots. */
static bool parse_dotted_name(jinja_parser *p, const char *what, jinja_name *name)
{
    const jinja_token *t = NULL;
    if (!jinja_expect_name(p, what, &t) || !t)
        return false;
    const char *end = t->data + t->bytes;
    const char *begin = t->data;
    while (jinja_skip_op(p, JINJA_OP_DOT)) {
        if (!jinja_expect_name(p, what, &t))
            return false;
        end = t->data + t->bytes;
    }
    *name = (jinja_name){begin, (size_t)(end - begin)};
    return true;
}

jinja_node *jinja_parse_filters(jinja_parser *p, jinja_node *object, bool inline_start)
{
    while (inline_start || jinja_skip_op(p, JINJA_OP_PIPE)) {
        jinja_node *node = jinja_node_new(p, JINJA_NODE_FILTER, jinja_peek(p));
        if (node == NULL || !parse_dotted_name(p, "a filter's name", &node->as.call.name))
            return NULL;
        if (jinja_at_op(p, JINJA_OP_LPAREN) && !parse_arguments(p, &node->as.call.arguments))
            return NULL;
        node->as.call.builtin =
            jinja_find_filter(node->as.call.name.data, node->as.call.name.bytes);
        node->as.call.object = object;
        object = node;
        inline_start = false;
    }
    return object;
}

static jinja_node *parse_postfix(jinja_parser *p, jinja_node *node);

/* A test's one argument without parentheses: `is divisibleby 3`. */
static bool parse_bare_argument(jinja_parser *p, jinja_node **argument)
{
    const jinja_token *t = jinja_peek(p);
    bool begins = t->kind == JINJA_TOKEN_NAME || t->kind == JINJA_TOKEN_STRING ||
                  t->kind == JINJA_TOKEN_INTEGER || t->kind == JINJA_TOKEN_FLOAT ||
                  jinja_at_op(p, JINJA_OP_LBRACKET) || jinja_at_op(p, JINJA_OP_LBRACE);
    if (!begins || jinja_at_name(p, "else") || jinja_at_name(p, "or") || jinja_at_name(p, "and"))
        return true;
    if (jinja_at_name(p, "is"))
        return jinja_unexpected(p, "no second 'is': tests cannot be chained") != NULL;
    *argument = jinja_node_new(p, JINJA_NODE_ARGUMENT, t);
    jinja_node *value = *argument != NULL ? parse_primary(p) : NULL;
    if (value != NULL)
        value = parse_postfix(p, value);
    if (value != NULL)
        (*argument)->as.argument.value = value;
    return value != NULL;
}

static jinja_node *parse_test(jinja_parser *p, jinja_node *object)
{
    const jinja_token *is = &p->tokens[p->at++];
    bool negated = jinja_skip_name(p, "not");
    jinja_node *node = jinja_node_new(p, JINJA_NODE_TEST, jinja_peek(p));
    if (node == NULL || !parse_dotted_name(p, "a test's name", &node->as.call.name))
        return NULL;
    bool parsed = jinja_at_op(p, JINJA_OP_LPAREN)
                      ? parse_arguments(p, &node->as.call.arguments)
                      : parse_bare_argument(p, &node->as.call.arguments);
    if (!parsed)
        return NULL;
    node->as.call.object = object;
    node->as.call.builtin =
        jinja_find(jinja_tests, node->as.call.name.data, node->as.call.name.bytes);
    return negated ? one_operand(p, JINJA_NODE_NOT, is, node) : node;
}

static bool slice_part(jinja_parser *p, jinja_node **part)
{
    if (jinja_at_op(p, JINJA_OP_COLON) || jinja_at_op(p, JINJA_OP_RBRACKET) ||
        jinja_at_op(p, JINJA_OP_COMMA))
        return true;
    *part = jinja_parse_expression(p, true);
    return *part != NULL;
}

/* An index or a slice. */
static jinja_node *parse_index(jinja_parser *p)
{
    const jinja_token *t = jinja_peek(p);
    jinja_node *start = NULL;
    if (!jinja_at_op(p, JINJA_OP_COLON)) {
        start = jinja_parse_expression(p, true);
        if (start == NULL || !jinja_at_op(p, JINJA_OP_COLON))
            return start;
    }
    p->at++;
    jinja_node *node = jinja_node_new(p, JINJA_NODE_SLICE, t);
    if (node == NULL || !slice_part(p, &node->as.slice.stop))
        return NULL;
    node->as.slice.start = start;
    if (jinja_skip_op(p, JINJA_OP_COLON) && !slice_part(p, &node->as.slice.step))
        return NULL;
    return node;
}

static jinja_node *parse_brackets(jinja_parser *p, jinja_node *object)
{
    const jinja_token *t = &p->tokens[p->at++];
    jinja_node *node = jinja_node_new(p, JINJA_NODE_SUBSCRIPT, t);
    jinja_node *index = node != NULL ? parse_index(p) : NULL;
    if (index == NULL)
        return NULL;
    node->as.subscript.object = object;
    node->as.subscript.index = index;
    if (jinja_at_op(p, JINJA_OP_COMMA) &&
        index->kind != JINJA_NODE_SLICE) { /* a[1, 2]: a tuple as the key */
        jinja_node *tuple = jinja_node_new(p, JINJA_NODE_TUPLE, t);
        if (tuple == NULL)
            return NULL;
        tuple->as.children = index;
        while (jinja_skip_op(p, JINJA_OP_COMMA)) {
            index->next = jinja_parse_expression(p, true);
            index = index->next;
            if (index == NULL)
                return NULL;
        }
        node->as.subscript.index = tuple;
    }
    return jinja_expect_op(p, JINJA_OP_RBRACKET, "']'") ? node : NULL;
}

static jinja_node *parse_dot(jinja_parser *p, jinja_node *object)
{
    p->at++;
    const jinja_token *t = jinja_peek(p);
    if (t->kind == JINJA_TOKEN_INTEGER) {
        jinja_node *node = jinja_node_new(p, JINJA_NODE_SUBSCRIPT, t);
        if (node != NULL) {
            node->as.subscript.object = object;
            node->as.subscript.index = parse_number(p);
        }
        return node != NULL && node->as.subscript.index != NULL ? node : NULL;
    }
    if (t->kind != JINJA_TOKEN_NAME)
        return jinja_unexpected(p, "a name or a number after '.'");
    jinja_node *node = jinja_node_new(p, JINJA_NODE_ATTRIBUTE, t);
    if (node == NULL)
        return NULL;
    p->at++;
    node->as.attribute.object = object;
    node->as.attribute.name = (jinja_name){t->data, t->bytes};
    node->as.attribute.key = jinja_constant_string(p, t->data, t->bytes);
    return node->as.attribute.key != NULL ? node : NULL;
}

static jinja_node *parse_postfix(jinja_parser *p, jinja_node *node)
{
    while (node != NULL) {
        if (jinja_at_op(p, JINJA_OP_DOT))
            node = parse_dot(p, node);
        else if (jinja_at_op(p, JINJA_OP_LBRACKET))
            node = parse_brackets(p, node);
        else if (jinja_at_op(p, JINJA_OP_LPAREN))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

static jinja_node *parse_filter_expression(jinja_parser *p, jinja_node *node)
{
    while (node != NULL) {
        if (jinja_at_op(p, JINJA_OP_PIPE))
            node = jinja_parse_filters(p, node, false);
        else if (jinja_at_name(p, "is"))
            node = parse_test(p, node);
        else if (jinja_at_op(p, JINJA_OP_LPAREN))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* ---- operators ----------------------------------------------------------------------------- */

static jinja_node *parse_unary_inner(jinja_parser *p, bool with_filters)
{
    const jinja_token *t = jinja_peek(p);
    jinja_node *node = NULL;
    if (jinja_skip_op(p, JINJA_OP_SUB))
        node = one_operand(p, JINJA_NODE_NEGATE, t, parse_unary(p, false));
    else if (jinja_skip_op(p, JINJA_OP_ADD))
        node = one_operand(p, JINJA_NODE_PLUS, t, parse_unary(p, false));
    else
        node = parse_primary(p);
    node = parse_postfix(p, node);
    return with_filters ? parse_filter_expression(p, node) : node;
}

static jinja_node *parse_unary(jinja_parser *p, bool with_filters)
{
    if (!jinja_deeper(p))
        return NULL;
    jinja_node *node = parse_unary_inner(p, with_filters);
    p->depth--;
    return node;
}

static jinja_node *parse_power(jinja_parser *p)
{
    jinja_node *left = parse_unary(p, true);
    while (left != NULL && jinja_at_op(p, JINJA_OP_POW)) {
        const jinja_token *t = &p->tokens[p->at++];
        left = two_operands(p, JINJA_NODE_BINARY, t, left, parse_unary(p, true));
    }
    return left;
}

static jinja_node *parse_product(jinja_parser *p)
{
    jinja_node *left = parse_power(p);
    while (left != NULL && (jinja_at_op(p, JINJA_OP_MUL) || jinja_at_op(p, JINJA_OP_DIV) ||
                            jinja_at_op(p, JINJA_OP_FLOORDIV) || jinja_at_op(p, JINJA_OP_MOD))) {
        const jinja_token *t = &p->tokens[p->at++];
        left = two_operands(p, JINJA_NODE_BINARY, t, left, parse_power(p));
    }
    return left;
}

static jinja_node *parse_concat(jinja_parser *p)
{
    const jinja_token *t = jinja_peek(p);
    jinja_node *first = parse_product(p);
    if (first == NULL || !jinja_at_op(p, JINJA_OP_TILDE))
        return first;
    jinja_node *node = jinja_node_new(p, JINJA_NODE_CONCAT, t);
    if (node == NULL)
        return NULL;
    node->as.children = first;
    while (jinja_skip_op(p, JINJA_OP_TILDE)) {
        first->next = parse_product(p);
        first = first->next;
        if (first == NULL)
            return NULL;
    }
    return node;
}

static jinja_node *parse_sum(jinja_parser *p)
{
    jinja_node *left = parse_concat(p);
    while (left != NULL && (jinja_at_op(p, JINJA_OP_ADD) || jinja_at_op(p, JINJA_OP_SUB))) {
        const jinja_token *t = &p->tokens[p->at++];
        left = two_operands(p, JINJA_NODE_BINARY, t, left, parse_concat(p));
    }
    return left;
}

/* The comparison that stands here, read past; JINJA_OP_NONE where there is none. */
static jinja_op comparison(jinja_parser *p)
{
    const jinja_token *t = jinja_peek(p);
    if (t->kind == JINJA_TOKEN_OPERATOR && t->op >= JINJA_OP_EQ && t->op <= JINJA_OP_GE) {
        p->at++;
        return t->op;
    }
    if (jinja_skip_name(p, "in"))
        return JINJA_OP_IN;
    if (token_is_name(t, "not") && token_is_name(t + 1, "in")) {
        p->at += 2;
        return JINJA_OP_NOT_IN;
    }
    return JINJA_OP_NONE;
}

static jinja_node *parse_compare(jinja_parser *p)
{
    jinja_node *left = parse_sum(p);
    jinja_node *node = NULL;
    jinja_node **tail = NULL;
    while (left != NULL) {
        const jinja_token *t = jinja_peek(p);
        jinja_op op = comparison(p);
        if (op == JINJA_OP_NONE)
            return node != NULL ? node : left;
        if (node == NULL) {
            node = jinja_node_new(p, JINJA_NODE_COMPARE, t);
            if (node == NULL)
                return NULL;
            node->as.compare.left = left;
            tail = &node->as.compare.steps;
        }
        *tail = two_operands(p, JINJA_NODE_COMPARE_STEP, t, NULL, parse_sum(p));
        if (*tail == NULL)
            return NULL;
        (*tail)->as.binary.op = op;
        tail = &(*tail)->next;
    }
    return NULL;
}

static jinja_node *parse_not(jinja_parser *p)
{
    const jinja_token *t = jinja_peek(p);
    if (!jinja_skip_name(p, "not"))
        return parse_compare(p);
    if (!jinja_deeper(p))
        return NULL;
    jinja_node *node = one_operand(p, JINJA_NODE_NOT, t, parse_not(p));
    p->depth--;
    return node;
}

static jinja_node *parse_and(jinja_parser *p)
{
    jinja_node *left = parse_not(p);
    while (left != NULL && jinja_at_name(p, "and")) {
        const jinja_token *t = &p->tokens[p->at++];
        left = two_operands(p, JINJA_NODE_AND, t, left, parse_not(p));
    }
    return left;
}

static jinja_node *parse_or(jinja_parser *p)
{
    jinja_node *left = parse_and(p);
    while (left != NULL && jinja_at_name(p, "or")) {
        const jinja_token *t = &p->tokens[p->at++];
        left = two_operands(p, JINJA_NODE_OR, t, left, parse_and(p));
    }
    return left;
}

static jinja_node *parse_conditional(jinja_parser *p)
{
    jinja_node *yes = parse_or(p);
    while (yes != NULL && jinja_at_name(p, "if")) {
        jinja_node *node = jinja_node_new(p, JINJA_NODE_CONDITIONAL, &p->tokens[p->at++]);
        jinja_node *condition = node != NULL ? parse_or(p) : NULL;
        if (condition == NULL)
            return NULL;
        node->as.conditional.yes = yes;
        node->as.conditional.condition = condition;
        if (jinja_skip_name(p, "else")) {
            node->as.conditional.no = jinja_parse_expression(p, true);
            if (node->as.conditional.no == NULL)
                return NULL;
        }
        yes = node;
    }
    return yes;
}

jinja_node *jinja_parse_expression(jinja_parser *p, bool conditional)
{
    if (!jinja_deeper(p))
        return NULL;
    jinja_node *node = conditional ? parse_conditional(p) : parse_or(p);
    p->depth--;
    return node;
}

static bool tuple_ends(const jinja_parser *p, const char *end_name)
{
    jinja_token_kind kind = jinja_peek(p)->kind;
    return kind == JINJA_TOKEN_OUTPUT_END || kind == JINJA_TOKEN_BLOCK_END ||
           jinja_at_op(p, JINJA_OP_RPAREN) || (end_name != NULL && jinja_at_name(p, end_name));
}

jinja_node *jinja_parse_tuple(jinja_parser *p, bool conditional, const char *end_name,
                              bool parenthesised)
{
    const jinja_token *t = jinja_peek(p);
    jinja_node *first = NULL;
    jinja_node **tail = &first;
    bool comma = false;
    while (!tuple_ends(p, end_name)) {
        *tail = jinja_parse_expression(p, conditional);
        if (*tail == NULL)
            return NULL;
        tail = &(*tail)->next;
        if (!jinja_skip_op(p, JINJA_OP_COMMA)) {
            if (!comma)
                return first;
            break;
        }
        comma = true;
    }
    if (first == NULL && !parenthesised)
        return jinja_unexpected(p, "an expression");
    jinja_node *node = jinja_node_new(p, JINJA_NODE_TUPLE, t);
    if (node != NULL)
        node->as.children = first;
    return node;
}

static jinja_node *parse_one_target(jinja_parser *p, bool with_namespace)
{
    if (jinja_skip_op(p, JINJA_OP_LPAREN)) {
        if (!jinja_deeper(p))
            return NULL;
        jinja_node *inner = jinja_parse_target(p, with_namespace);
        p->depth--;
        if (inner == NULL || !jinja_expect_op(p, JINJA_OP_RPAREN, "')'"))
            return NULL;
        return inner;
    }
    if (jinja_peek(p)->kind != JINJA_TOKEN_NAME)
        return jinja_unexpected(p, "a name to assign to");
    const jinja_token *t = jinja_peek(p);
    jinja_node *node = parse_name(p);
    if (node != NULL && node->kind != JINJA_NODE_NAME) {
        p->at--;
        return jinja_unexpected(p, "a name that can be assigned to");
    }
    if (node == NULL || !with_namespace || !jinja_at_op(p, JINJA_OP_DOT))
        return node;
    node = parse_dot(p, node);
    if (node != NULL && node->kind != JINJA_NODE_ATTRIBUTE) {
        jinja_syntax_error(p->source, t->line, t->column,
                           "found a subscript, expected a name or namespace.name to assign to");
        return NULL;
    }
    if (node != NULL)
        node->kind = JINJA_NODE_NS_TARGET;
    return node;
}

/* A name, ns.name where that is allowed, or several with commas. */
jinja_node *jinja_parse_target(jinja_parser *p, bool with_namespace)
{
    const jinja_token *t = jinja_peek(p);
    jinja_node *first = parse_one_target(p, with_namespace);
    if (first == NULL || !jinja_at_op(p, JINJA_OP_COMMA))
        return first;
    jinja_node *node = jinja_node_new(p, JINJA_NODE_TUPLE, t);
    if (node == NULL)
        return NULL;
    node->as.children = first;
    while (jinja_skip_op(p, JINJA_OP_COMMA)) {
        if (jinja_peek(p)->kind != JINJA_TOKEN_NAME && !jinja_at_op(p, JINJA_OP_LPAREN))
            break;
        if (jinja_at_name(p, "in"))
            break;
        first->next = parse_one_target(p, with_namespace);
        first = first->next;
        if (first == NULL)
            return NULL;
    }
    return node;
}
