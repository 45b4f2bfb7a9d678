/* jinja_parse.c: the statements. A body is a list of statement nodes; an unnamed tag ends where
 * its end tag, or one that continues it (elif, else), stands next. */
#include "text/jinja.h"

#include <string.h>

static bool parse_body(jinja_parser *p, const jinja_token *opened, const char *const *ends,
                       jinja_node **body);

/* A node whose children the caller fills in, at the name of the statement's tag. */
static jinja_node *statement(jinja_parser *p, jinja_node_kind kind)
{
    return jinja_node_new(p, kind, jinja_peek(p));
}

static bool end_tag(jinja_parser *p)
{
    if (jinja_peek(p)->kind != JINJA_TOKEN_BLOCK_END)
        return jinja_unexpected(p, "'%}'") != NULL;
    p->at++;
    return true;
}

/* The body between a tag whose "%}" comes next and its one end tag, which is read too. */
static bool parse_block(jinja_parser *p, const jinja_token *opened, const char *end_name,
                        jinja_node **body)
{
    const char *const ends[] = {end_name, NULL};
    if (!end_tag(p) || !parse_body(p, opened, ends, body))
        return false;
    p->at++;
    return end_tag(p);
}

static jinja_node *parse_if(jinja_parser *p, const jinja_token *opened)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jinja_node *node = statement(p, JINJA_NODE_IF);
    jinja_node **tail = node != NULL ? &node->as.children : NULL;
    bool with_condition = true;
    while (node != NULL) {
        jinja_node *branch = statement(p, JINJA_NODE_BRANCH);
        if (branch == NULL)
            return NULL;
        *tail = branch;
        tail = &branch->next;
        if (with_condition) {
            branch->as.block.value = jinja_parse_tuple(p, false, NULL, false);
            if (branch->as.block.value == NULL)
                return NULL;
        }
        if (!end_tag(p) ||
            !parse_body(p, opened, with_condition ? ends : ends + 2, &branch->as.block.body))
            return NULL;
        with_condition = jinja_skip_name(p, "elif");
        if (!with_condition && !jinja_skip_name(p, "else")) {
            p->at++;
            return end_tag(p) ? node : NULL;
        }
    }
    return NULL;
}

static jinja_node *parse_for(jinja_parser *p, const jinja_token *opened)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    static const char *const else_ends[] = {"endfor", NULL};
    jinja_node *node = statement(p, JINJA_NODE_FOR);
    if (node == NULL)
        return NULL;
    node->as.loop.target = jinja_parse_target(p, false);
    if (node->as.loop.target == NULL)
        return NULL;
    if (!jinja_skip_name(p, "in"))
        return jinja_unexpected(p, "'in'");
    node->as.loop.iterable = jinja_parse_tuple(p, false, "recursive", false);
    if (node->as.loop.iterable == NULL)
        return NULL;
    if (jinja_skip_name(p, "if")) {
        node->as.loop.condition = jinja_parse_expression(p, true);
        if (node->as.loop.condition == NULL)
            return NULL;
    }
    node->as.loop.recursive = jinja_skip_name(p, "recursive");
    p->loops++;
    bool parsed = end_tag(p) && parse_body(p, opened, ends, &node->as.loop.body);
    p->loops--;
    if (!parsed)
        return NULL;
    if (jinja_skip_name(p, "else") &&
        (!end_tag(p) || !parse_body(p, opened, else_ends, &node->as.loop.otherwise)))
        return NULL;
    p->at++;
    return end_tag(p) ? node : NULL;
}

static jinja_node *parse_set(jinja_parser *p, const jinja_token *opened)
{
    jinja_node *node = statement(p, JINJA_NODE_SET);
    if (node == NULL)
        return NULL;
    node->as.block.target = jinja_parse_target(p, true);
    if (node->as.block.target == NULL)
        return NULL;
    if (jinja_skip_op(p, JINJA_OP_ASSIGN)) {
        node->as.block.value = jinja_parse_tuple(p, true, NULL, false);
        return node->as.block.value != NULL && end_tag(p) ? node : NULL;
    }
    node->kind = JINJA_NODE_SET_BLOCK;
    if (jinja_at_op(p, JINJA_OP_PIPE)) {
        node->as.block.value = jinja_parse_filters(p, NULL, false);
        if (node->as.block.value == NULL)
            return NULL;
    } else if (jinja_peek(p)->kind != JINJA_TOKEN_BLOCK_END) {
        return jinja_unexpected(p, "'=', '|' or '%}' after set's target");
    }
    return parse_block(p, opened, "endset", &node->as.block.body) ? node : NULL;
}

/* "(a, b=1)" of a macro or a call block. */
static bool parse_parameters(jinja_parser *p, jinja_node **list)
{
    const jinja_token *t = NULL;
    bool fallbacks = false;
    *list = NULL;
    if (!jinja_expect_op(p, JINJA_OP_LPAREN, "'(' before the parameters"))
        return false;
    while (!jinja_skip_op(p, JINJA_OP_RPAREN)) {
        if (!jinja_expect_name(p, "a parameter's name or ')'", &t))
            return false;
        jinja_node *parameter = jinja_node_new(p, JINJA_NODE_PARAMETER, t);
        if (parameter == NULL)
            return false;
        parameter->as.parameter.name = (jinja_name){t->data, t->bytes};
        parameter->as.parameter.key = jinja_constant_string(p, t->data, t->bytes);
        if (parameter->as.parameter.key == NULL)
            return false;
        if (jinja_skip_op(p, JINJA_OP_ASSIGN)) {
            parameter->as.parameter.fallback = jinja_parse_expression(p, true);
            if (parameter->as.parameter.fallback == NULL)
                return false;
            fallbacks = true;
        } else if (fallbacks) {
            return jinja_unexpected(p, "'=' and a default: the parameter before has one") != NULL;
        }
        *list = parameter;
        list = &parameter->next;
        if (!jinja_at_op(p, JINJA_OP_RPAREN) &&
            !jinja_expect_op(p, JINJA_OP_COMMA, "',' or ')' in the parameters"))
            return false;
    }
    return true;
}

/* The body of a macro or call block, in which the loops around it do not count. */
static bool parse_macro_body(jinja_parser *p, const jinja_token *opened, const char *end_name,
                             jinja_node *node)
{
    int loops = p->loops;
    jinja_node *outer = p->macro;
    p->loops = 0;
    p->macro = node;
    bool parsed = parse_block(p, opened, end_name, &node->as.macro.body);
    p->loops = loops;
    p->macro = outer;
    return parsed;
}

static jinja_node *parse_macro(jinja_parser *p, const jinja_token *opened)
{
    const jinja_token *t = NULL;
    jinja_node *node = statement(p, JINJA_NODE_MACRO);
    if (node == NULL || !jinja_expect_name(p, "the macro's name", &t) ||
        !parse_parameters(p, &node->as.macro.parameters))
        return NULL;
    node->as.macro.name = (jinja_name){t->data, t->bytes};
    return parse_macro_body(p, opened, "endmacro", node) ? node : NULL;
}

static jinja_node *parse_call_block(jinja_parser *p, const jinja_token *opened)
{
    jinja_node *node = statement(p, JINJA_NODE_CALL_BLOCK);
    if (node == NULL)
        return NULL;
    node->as.macro.name = (jinja_name){"caller", strlen("caller")};
    if (jinja_at_op(p, JINJA_OP_LPAREN) && !parse_parameters(p, &node->as.macro.parameters))
        return NULL;
    const jinja_token *t = jinja_peek(p);
    node->as.macro.call = jinja_parse_expression(p, true);
    if (node->as.macro.call == NULL)
        return NULL;
    if (node->as.macro.call->kind != JINJA_NODE_CALL) {
        jinja_syntax_error(p->source, t->line, t->column,
                           "found another expression, expected a call after 'call'");
        return NULL;
    }
    return parse_macro_body(p, opened, "endcall", node) ? node : NULL;
}

static jinja_node *parse_filter_block(jinja_parser *p, const jinja_token *opened)
{
    jinja_node *node = statement(p, JINJA_NODE_FILTER_BLOCK);
    if (node == NULL)
        return NULL;
    node->as.block.value = jinja_parse_filters(p, NULL, true);
    if (node->as.block.value == NULL || !parse_block(p, opened, "endfilter", &node->as.block.body))
        return NULL;
    return node;
}

static jinja_node *parse_with(jinja_parser *p, const jinja_token *opened)
{
    jinja_node *node = statement(p, JINJA_NODE_WITH);
    jinja_node **tail = node != NULL ? &node->as.block.target : NULL;
    while (node != NULL && jinja_peek(p)->kind != JINJA_TOKEN_BLOCK_END) {
        if (node->as.block.target != NULL &&
            !jinja_expect_op(p, JINJA_OP_COMMA, "',' or '%}' in 'with'"))
            return NULL;
        jinja_node *set = statement(p, JINJA_NODE_SET);
        if (set == NULL)
            return NULL;
        set->as.block.target = jinja_parse_target(p, false);
        if (set->as.block.target == NULL || !jinja_expect_op(p, JINJA_OP_ASSIGN, "'='"))
            return NULL;
        set->as.block.value = jinja_parse_expression(p, true);
        if (set->as.block.value == NULL)
            return NULL;
        *tail = set;
        tail = &set->next;
    }
    if (node == NULL || !parse_block(p, opened, "endwith", &node->as.block.body))
        return NULL;
    return node;
}

static jinja_node *parse_generation(jinja_parser *p, const jinja_token *opened)
{
    jinja_node *node = statement(p, JINJA_NODE_SCOPE);
    if (node == NULL || !parse_block(p, opened, "endgeneration", &node->as.block.body))
        return NULL;
    return node;
}

static jinja_node *parse_print(jinja_parser *p, const jinja_token *opened)
{
    (void)opened;
    jinja_node *node = statement(p, JINJA_NODE_OUTPUT);
    if (node == NULL)
        return NULL;
    node->as.block.value = jinja_parse_expression(p, true);
    return node->as.block.value != NULL && end_tag(p) ? node : NULL;
}

static jinja_node *parse_jump(jinja_parser *p, const jinja_token *opened)
{
    bool is_break = opened->data[0] == 'b';
    if (p->loops == 0) {
        jinja_syntax_error(p->source, opened->line, opened->column,
                           "found '%.*s' outside of a loop, expected it inside of one",
                           (int)opened->bytes, opened->data);
        return NULL;
    }
    jinja_node *node = jinja_node_new(p, is_break ? JINJA_NODE_BREAK : JINJA_NODE_CONTINUE, opened);
    return node != NULL && end_tag(p) ? node : NULL;
}

typedef struct statement_parser {
    const char *name;
    jinja_node *(*parse)(jinja_parser *p, const jinja_token *opened);
} statement_parser;

static const statement_parser STATEMENTS[] = {
    {"if", parse_if},           {"for", parse_for},
    {"set", parse_set},         {"macro", parse_macro},
    {"call", parse_call_block}, {"filter", parse_filter_block},
    {"with", parse_with},       {"generation", parse_generation},
    {"print", parse_print},     {"break", parse_jump},
    {"continue", parse_jump},
};

static const char *last_of(const char *const *ends)
{
    while (ends[1] != NULL)
        ends++;
    return ends[0];
}

/* The statement whose name stands here; `opened` is the block's tag around it, or NULL. */
static jinja_node *parse_statement(jinja_parser *p, const jinja_token *around,
                                   const char *const *ends)
{
    if (jinja_peek(p)->kind != JINJA_TOKEN_NAME)
        return jinja_unexpected(p, "a statement's name after '{%'");
    for (int i = 0; i < LOAM_COUNT(STATEMENTS); i++) {
        if (!jinja_at_name(p, STATEMENTS[i].name))
            continue;
        const jinja_token *opened = &p->tokens[p->at++];
        return STATEMENTS[i].parse(p, opened);
    }
    const jinja_token *t = jinja_peek(p);
    if (around == NULL)
        return jinja_unexpected(p, "a statement that chat templates use (if, for, set, macro, "
                                   "call, filter, with, generation, break, continue, raw)");
    jinja_syntax_error(p->source, t->line, t->column,
                       "found the statement '%.*s', expected a known one, or '%s' for the '%.*s' "
                       "of line %u",
                       (int)LOAM_MIN(t->bytes, 40), t->data, last_of(ends), (int)around->bytes,
                       around->data, around->line);
    return NULL;
}

static bool at_end(const jinja_parser *p, const char *const *ends)
{
    for (int i = 0; ends != NULL && ends[i] != NULL; i++) {
        if (jinja_at_name(p, ends[i]))
            return true;
    }
    return false;
}

static jinja_node *parse_output(jinja_parser *p)
{
    jinja_node *node = jinja_node_new(p, JINJA_NODE_OUTPUT, &p->tokens[p->at++]);
    if (node == NULL)
        return NULL;
    node->as.block.value = jinja_parse_tuple(p, true, NULL, false);
    if (node->as.block.value == NULL)
        return NULL;
    if (jinja_peek(p)->kind != JINJA_TOKEN_OUTPUT_END)
        return jinja_unexpected(p, "'}}' or an operator");
    p->at++;
    return node;
}

static jinja_node *parse_text(jinja_parser *p)
{
    const jinja_token *t = &p->tokens[p->at++];
    jinja_node *node = jinja_node_new(p, JINJA_NODE_CONSTANT, t);
    if (node != NULL)
        node->as.constant = jinja_constant_string(p, t->data, t->bytes);
    return node != NULL && node->as.constant != NULL ? node : NULL;
}

/* Statements up to "{%" and one of `ends`, with the parser left at that name; to the end of the
 * template where `ends` is NULL. `opened` names the tag that needs the end. */
static bool parse_statements(jinja_parser *p, const jinja_token *opened, const char *const *ends,
                             jinja_node **body)
{
    *body = NULL;
    for (;;) {
        const jinja_token *t = jinja_peek(p);
        jinja_node *node = NULL;
        if (t->kind == JINJA_TOKEN_END) {
            if (opened == NULL)
                return true;
            jinja_syntax_error(p->source, t->line, t->column,
                               "found the end of the template, expected '{%% %s %%}' for the "
                               "'%.*s' of line %u",
                               last_of(ends), (int)opened->bytes, opened->data, opened->line);
            return false;
        }
        if (t->kind == JINJA_TOKEN_BLOCK_BEGIN) {
            p->at++;
            if (at_end(p, ends))
                return true;
            node = parse_statement(p, opened, ends);
        } else if (t->kind == JINJA_TOKEN_OUTPUT_BEGIN) {
            node = parse_output(p);
        } else {
            node = parse_text(p);
        }
        if (node == NULL)
            return false;
        *body = node;
        body = &node->next;
    }
}

static bool parse_body(jinja_parser *p, const jinja_token *opened, const char *const *ends,
                       jinja_node **body)
{
    if (!jinja_deeper(p))
        return false;
    bool parsed = parse_statements(p, opened, ends, body);
    p->depth--;
    return parsed;
}

loam_status jinja_parse(const jinja_source *s, jinja_node **body)
{
    jinja_parser p = {.source = s};
    size_t n = 0;
    loam_status status = jinja_lex(s, &p.tokens, &n);
    if (status == LOAM_OK && !parse_body(&p, NULL, NULL, body))
        status = s->error->status;
    loam_free(p.tokens);
    return status;
}
