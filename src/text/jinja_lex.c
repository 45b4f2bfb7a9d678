/* jinja_lex.c: a template's source cut into tokens, by the rules of Jinja2's lexer with
 * trim_blocks and lstrip_blocks on: a block or comment tag eats the newline behind it and the
 * blanks before it on its line; '-' at a tag's edge eats all whitespace on that side, '+' none. */
#include "text/jinja.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct lexer {
    const jinja_source *source;
    const char *p;
    const char *end;
    uint32_t line; /* of `counted` */
    uint32_t column;
    const char *counted;
    bool line_starting; /* what was read last ends with a newline */
    jinja_token *tokens;
    size_t n;
    size_t capacity;
} lexer;

typedef struct operator_text {
    const char *text;
    jinja_op op;
} operator_text;

/* Longer ones first. */
static const operator_text OPERATORS[] = {
    {"//", JINJA_OP_FLOORDIV}, {"**", JINJA_OP_POW},      {"==", JINJA_OP_EQ},
    {"!=", JINJA_OP_NE},       {"<=", JINJA_OP_LE},       {">=", JINJA_OP_GE},
    {"+", JINJA_OP_ADD},       {"-", JINJA_OP_SUB},       {"*", JINJA_OP_MUL},
    {"/", JINJA_OP_DIV},       {"%", JINJA_OP_MOD},       {"<", JINJA_OP_LT},
    {">", JINJA_OP_GT},        {"=", JINJA_OP_ASSIGN},    {"~", JINJA_OP_TILDE},
    {"|", JINJA_OP_PIPE},      {".", JINJA_OP_DOT},       {",", JINJA_OP_COMMA},
    {":", JINJA_OP_COLON},     {";", JINJA_OP_SEMICOLON}, {"(", JINJA_OP_LPAREN},
    {")", JINJA_OP_RPAREN},    {"[", JINJA_OP_LBRACKET},  {"]", JINJA_OP_RBRACKET},
    {"{", JINJA_OP_LBRACE},    {"}", JINJA_OP_RBRACE}};

loam_status jinja_syntax_error(const jinja_source *s, uint32_t line, uint32_t column,
                               const char *format, ...)
{
    char text[LOAM_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return loam_fail(s->error, LOAM_E_FORMAT, "%s:%u:%u: %s", s->name, line, column, text);
}

/* Moves line and column forward to p. */
static void count_to(lexer *lx, const char *p)
{
    while (lx->counted < p) {
        if (*lx->counted == '\n') {
            lx->line++;
            lx->column = 1;
        } else if (((unsigned char)*lx->counted & 0xc0u) != 0x80u) {
            lx->column++;
        }
        lx->counted++;
    }
}

static loam_status lex_error(lexer *lx, const char *at, const char *message)
{
    count_to(lx, at);
    return jinja_syntax_error(lx->source, lx->line, lx->column, "%s", message);
}

static loam_status out_of_memory(const lexer *lx)
{
    return loam_fail(lx->source->error, LOAM_E_MEMORY, "%s: out of memory reading the template",
                     lx->source->name);
}

static loam_status push(lexer *lx, jinja_token_kind kind, const char *data, size_t bytes,
                        jinja_token **out)
{
    if (lx->n == lx->capacity) {
        size_t capacity = lx->capacity == 0 ? 64 : lx->capacity * 2;
        jinja_token *tokens = loam_realloc(lx->tokens, capacity * sizeof *tokens);
        if (tokens == NULL)
            return out_of_memory(lx);
        lx->tokens = tokens;
        lx->capacity = capacity;
    }
    count_to(lx, data);
    jinja_token *t = &lx->tokens[lx->n++];
    *t = (jinja_token){.kind = kind, .data = data, .bytes = bytes};
    t->line = lx->line;
    t->column = lx->column;
    if (out != NULL)
        *out = t;
    return LOAM_OK;
}

static bool starts(const lexer *lx, const char *p, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(lx->end - p) >= n && memcmp(p, text, n) == 0;
}

static const char *skip_spaces(const lexer *lx, const char *p)
{
    while (p < lx->end) {
        const char *next = p;
        if (!jinja_is_space(jinja_utf8_next(&next, lx->end)))
            break;
        p = next;
    }
    return p;
}

static const char *skip_spaces_back(const char *begin, const char *p)
{
    while (p > begin) {
        const char *last = jinja_utf8_previous(p, begin);
        const char *next = last;
        if (!jinja_is_space(jinja_utf8_next(&next, p)))
            break;
        p = last;
    }
    return p;
}

/* Past the end of a tag at p ("%}", "-%}" and, except for outputs, "+%}") with the whitespace it
 * eats; NULL where none is there. `close` is "%}", "#}" or "}}". */
static const char *tag_end(const lexer *lx, const char *p, const char *close)
{
    bool output = close[0] == '}';
    if (*p == '-' && starts(lx, p + 1, close))
        return skip_spaces(lx, p + 3);
    if (*p == '+' && !output && starts(lx, p + 1, close))
        return p + 3;
    if (!starts(lx, p, close))
        return NULL;
    p += 2;
    return !output && p < lx->end && *p == '\n' ? p + 1 : p;
}

static void leave_tag(lexer *lx, const char *after)
{
    lx->line_starting = after[-1] == '\n';
    lx->p = after;
}

/* The text up to a tag, less what the tag eats of it. */
static loam_status push_text(lexer *lx, const char *tag, char sign, bool output)
{
    const char *begin = lx->p;
    const char *end = tag;
    if (sign == '-') {
        end = skip_spaces_back(begin, end);
    } else if (sign != '+' && !output) {
        const char *line = end;
        while (line > begin && line[-1] != '\n')
            line--;
        if ((line > begin || lx->line_starting) && skip_spaces_back(line, end) == line)
            end = line;
    }
    if (end == begin)
        return LOAM_OK;
    return push(lx, JINJA_TOKEN_TEXT, begin, (size_t)(end - begin), NULL);
}

/* ---- literals ------------------------------------------------------------------------------ */

/* Reads `digits` hexadecimal digits; -1 where they are not there. */
static int64_t hex_code(const char *p, const char *end, int digits)
{
    if (end - p < digits)
        return -1;
    int64_t code = 0;
    for (int i = 0; i < digits; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

/* \xhh, \uhhhh, \Uhhhhhhhh with p at the letter; a pair of \u surrogates is one code point. */
static loam_status hex_escape(lexer *lx, const char **p, const char *end, uint32_t *code)
{
    int digits = **p == 'x' ? 2 : **p == 'u' ? 4 : 8;
    int64_t value = hex_code(*p + 1, end, digits);
    if (value < 0 || value > 0x10ffff)
        return lex_error(lx, *p - 1,
                         "bad escape in a string: expected \\xhh, \\uhhhh or "
                         "\\Uhhhhhhhh up to 10ffff");
    *p += 1 + digits;
    if (value >= 0xd800 && value <= 0xdbff && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        int64_t low = hex_code(*p + 2, end, 4);
        if (low >= 0xdc00 && low <= 0xdfff) {
            value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
            *p += 6;
        }
    }
    if (value >= 0xd800 && value <= 0xdfff)
        return lex_error(lx, *p - 1 - digits,
                         "a lone surrogate in a string: expected a code "
                         "point that UTF-8 can write");
    *code = (uint32_t)value;
    return LOAM_OK;
}

/* One escape with *p behind the backslash; writes its bytes to *out. Unknown escapes stay. */
static loam_status unescape(lexer *lx, const char **p, const char *end, char **out)
{
    static const char letters[] = "\\'\"abfnrtv";
    static const char codes[] = "\\'\"\a\b\f\n\r\t\v";
    char c = **p;
    const char *known = memchr(letters, c, sizeof letters - 1);
    uint32_t code = 0;
    if (c == '\n') {
        (*p)++;
        return LOAM_OK;
    }
    if (known != NULL) {
        *(*out)++ = codes[known - letters];
        (*p)++;
        return LOAM_OK;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        LOAM_TRY(hex_escape(lx, p, end, &code));
    } else if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3 && *p < end && **p >= '0' && **p <= '7'; i++, (*p)++)
            code = code * 8 + (uint32_t)(**p - '0');
    } else if (c == 'N') {
        return lex_error(lx, *p - 1, "\\N{...} in a string is not supported: write \\uhhhh");
    } else {
        *(*out)++ = '\\';
        return LOAM_OK;
    }
    *out += jinja_utf8_put(*out, code);
    return LOAM_OK;
}

static loam_status lex_string(lexer *lx)
{
    const char *begin = lx->p;
    const char *p = begin + 1;
    bool escapes = false;
    while (p < lx->end && *p != *begin) {
        escapes = escapes || *p == '\\';
        p += *p == '\\' && p + 1 < lx->end ? 2 : 1;
    }
    if (p >= lx->end)
        return lex_error(lx, begin,
                         "a string begins here and does not end: expected a closing "
                         "quote");
    jinja_token *token = NULL;
    LOAM_TRY(push(lx, JINJA_TOKEN_STRING, begin, (size_t)(p - begin) + 1, &token));
    lx->p = p + 1;
    token->data = begin + 1;
    token->bytes = (size_t)(p - begin) - 1;
    if (!escapes)
        return LOAM_OK;
    char *text = loam_arena_alloc(lx->source->arena, token->bytes + 1);
    if (text == NULL)
        return out_of_memory(lx);
    char *out = text;
    for (const char *q = begin + 1; q < p;) {
        if (*q != '\\') {
            *out++ = *q++;
            continue;
        }
        q++;
        LOAM_TRY(unescape(lx, &q, p, &out));
    }
    token->data = text;
    token->bytes = (size_t)(out - text);
    return LOAM_OK;
}

static bool is_digit(const lexer *lx, const char *p)
{
    return p < lx->end && *p >= '0' && *p <= '9';
}

/* Past digits with single underscores between them. */
static const char *skip_digits(const lexer *lx, const char *p)
{
    while (is_digit(lx, p) || (p < lx->end && *p == '_' && is_digit(lx, p + 1)))
        p++;
    return p;
}

/* Past a floating-point literal at p, or NULL where it is an integer. */
static const char *float_end(const lexer *lx, const char *p)
{
    if (p > lx->source->data && p[-1] == '.')
        return NULL;
    const char *q = skip_digits(lx, p);
    bool is_float = false;
    if (q < lx->end && *q == '.' && is_digit(lx, q + 1)) {
        q = skip_digits(lx, q + 1);
        is_float = true;
    }
    if (q < lx->end && (*q == 'e' || *q == 'E')) {
        const char *exponent = q + 1;
        if (exponent < lx->end && (*exponent == '+' || *exponent == '-'))
            exponent++;
        if (is_digit(lx, exponent)) {
            q = skip_digits(lx, exponent);
            is_float = true;
        }
    }
    return is_float ? q : NULL;
}

static const char *integer_end(const lexer *lx, const char *p)
{
    if (*p != '0')
        return skip_digits(lx, p);
    const char *q = p + 1;
    char letter = q < lx->end ? (char)(*q | 0x20) : '\0';
    const char *digits = letter == 'b'   ? "01_"
                         : letter == 'o' ? "01234567_"
                         : letter == 'x' ? "0123456789abcdefABCDEF_"
                                         : "0_";
    if (digits[0] == '0' && digits[1] != '_')
        q++;
    while (q < lx->end && *q != '\0' && strchr(digits, *q) != NULL)
        q++;
    return q;
}

static loam_status lex_number(lexer *lx)
{
    const char *end = float_end(lx, lx->p);
    bool is_float = end != NULL;
    if (!is_float)
        end = integer_end(lx, lx->p);
    jinja_token *token = NULL;
    size_t bytes = (size_t)(end - lx->p);
    LOAM_TRY(push(lx, is_float ? JINJA_TOKEN_FLOAT : JINJA_TOKEN_INTEGER, lx->p, bytes, &token));
    if (is_float && !jinja_parse_float(lx->p, bytes, &token->number))
        return lex_error(lx, lx->p, "expected a number of fewer than 128 digits");
    if (!is_float && !jinja_parse_int(lx->p, bytes, 0, &token->integer))
        return lex_error(lx, lx->p, "expected an integer that fits 64 bits");
    lx->p = end;
    return LOAM_OK;
}

/* ---- tags ---------------------------------------------------------------------------------- */

static loam_status lex_name(lexer *lx)
{
    const char *p = lx->p;
    while (p < lx->end) {
        const char *next = p;
        if (!jinja_is_word(jinja_utf8_next(&next, lx->end)))
            break;
        p = next;
    }
    if (p == lx->p) {
        char message[64];
        const char *next = p;
        jinja_utf8_next(&next, lx->end);
        snprintf(message, sizeof message, "unexpected character '%.*s' in a tag", (int)(next - p),
                 p);
        return lex_error(lx, p, message);
    }
    LOAM_TRY(push(lx, JINJA_TOKEN_NAME, lx->p, (size_t)(p - lx->p), NULL));
    lx->p = p;
    return LOAM_OK;
}

/* Keeps the open brackets, because "}}" and "%}" end a tag only outside of them. */
static loam_status track_brackets(lexer *lx, const jinja_token *token, char *open, int *n_open)
{
    char message[80];
    char c = token->data[0];
    if (c == '(' || c == '[' || c == '{') {
        if (*n_open == JINJA_MAX_PARSE_DEPTH)
            return lex_error(lx, token->data,
                             "brackets are nested too deeply: expected at most "
                             "200 levels");
        open[(*n_open)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (*n_open > 0 && open[*n_open - 1] == c) {
            (*n_open)--;
            return LOAM_OK;
        }
        if (*n_open > 0)
            snprintf(message, sizeof message, "found '%c', expected '%c'", c, open[*n_open - 1]);
        else
            snprintf(message, sizeof message, "found '%c' without its opening bracket", c);
        return lex_error(lx, token->data, message);
    }
    return LOAM_OK;
}

static loam_status lex_operator(lexer *lx, char *open, int *n_open, bool *found)
{
    *found = false;
    for (int i = 0; i < LOAM_COUNT(OPERATORS); i++) {
        if (!starts(lx, lx->p, OPERATORS[i].text))
            continue;
        jinja_token *token = NULL;
        size_t bytes = strlen(OPERATORS[i].text);
        LOAM_TRY(push(lx, JINJA_TOKEN_OPERATOR, lx->p, bytes, &token));
        token->op = OPERATORS[i].op;
        LOAM_TRY(track_brackets(lx, token, open, n_open));
        lx->p += bytes;
        *found = true;
        return LOAM_OK;
    }
    return LOAM_OK;
}

/* The inside of {{ }} or {% %}, and its end. */
static loam_status lex_tag(lexer *lx, const char *tag, bool output)
{
    char open[JINJA_MAX_PARSE_DEPTH];
    int n_open = 0;
    const char *close = output ? "}}" : "%}";
    LOAM_TRY(push(lx, output ? JINJA_TOKEN_OUTPUT_BEGIN : JINJA_TOKEN_BLOCK_BEGIN, tag, 2, NULL));
    for (;;) {
        lx->p = skip_spaces(lx, lx->p);
        if (lx->p >= lx->end) {
            char message[96];
            snprintf(message, sizeof message,
                     "the end of the template was found, expected '%s' for the '%.2s' here", close,
                     tag);
            lx->counted = lx->source->data;
            lx->line = lx->column = 1;
            return lex_error(lx, tag, message);
        }
        const char *after = n_open == 0 ? tag_end(lx, lx->p, close) : NULL;
        if (after != NULL) {
            LOAM_TRY(
                push(lx, output ? JINJA_TOKEN_OUTPUT_END : JINJA_TOKEN_BLOCK_END, lx->p, 2, NULL));
            leave_tag(lx, after);
            return LOAM_OK;
        }
        bool is_operator = false;
        if (is_digit(lx, lx->p))
            LOAM_TRY(lex_number(lx));
        else if (*lx->p == '\'' || *lx->p == '"')
            LOAM_TRY(lex_string(lx));
        else {
            LOAM_TRY(lex_operator(lx, open, &n_open, &is_operator));
            if (!is_operator)
                LOAM_TRY(lex_name(lx));
        }
    }
}

static loam_status lex_comment(lexer *lx, const char *tag)
{
    for (const char *p = lx->p; p < lx->end; p++) {
        const char *after = tag_end(lx, p, "#}");
        if (after == NULL)
            continue;
        leave_tag(lx, after);
        return LOAM_OK;
    }
    return lex_error(lx, tag, "a comment begins here and does not end: expected '#}'");
}

/* "{%", a sign, "raw" or "endraw" and spaces at p: where its "%}" should be, or NULL. */
static const char *raw_tag(const lexer *lx, const char *p, const char *name)
{
    p += 2;
    if (p < lx->end && (*p == '-' || *p == '+'))
        p++;
    p = skip_spaces(lx, p);
    if (!starts(lx, p, name))
        return NULL;
    p = skip_spaces(lx, p + strlen(name));
    return p < lx->end ? p : NULL;
}

static loam_status lex_raw(lexer *lx, const char *tag)
{
    for (const char *p = lx->p; p < lx->end; p++) {
        if (!starts(lx, p, "{%"))
            continue;
        const char *close = raw_tag(lx, p, "endraw");
        const char *after = close != NULL ? tag_end(lx, close, "%}") : NULL;
        if (after == NULL)
            continue;
        LOAM_TRY(push_text(lx, p, p[2], false));
        leave_tag(lx, after);
        return LOAM_OK;
    }
    return lex_error(lx, tag,
                     "a raw block begins here and does not end: expected "
                     "'{% endraw %}'");
}

static const char *next_tag(const lexer *lx)
{
    const char *p = lx->p;
    while (p < lx->end && (p = memchr(p, '{', (size_t)(lx->end - p))) != NULL) {
        if (p + 1 < lx->end && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            return p;
        p++;
    }
    return NULL;
}

/* Past the end of "{% raw %}", which eats no newline, or NULL. */
static const char *raw_begin(const lexer *lx, const char *tag)
{
    const char *close = tag[1] == '%' ? raw_tag(lx, tag, "raw") : NULL;
    if (close == NULL)
        return NULL;
    if (starts(lx, close, "-%}"))
        return skip_spaces(lx, close + 3);
    return starts(lx, close, "%}") ? close + 2 : NULL;
}

static loam_status lex_all(lexer *lx)
{
    const char *tag = NULL;
    while ((tag = next_tag(lx)) != NULL) {
        char sign = tag + 2 < lx->end ? tag[2] : '\0';
        const char *raw = raw_begin(lx, tag);
        LOAM_TRY(push_text(lx, tag, sign, tag[1] == '{'));
        lx->p = tag + (sign == '-' || sign == '+' ? 3 : 2);
        if (raw != NULL) {
            leave_tag(lx, raw);
            LOAM_TRY(lex_raw(lx, tag));
        } else if (tag[1] == '#') {
            LOAM_TRY(lex_comment(lx, tag));
        } else {
            LOAM_TRY(lex_tag(lx, tag, tag[1] == '{'));
        }
    }
    if (lx->p < lx->end)
        LOAM_TRY(push(lx, JINJA_TOKEN_TEXT, lx->p, (size_t)(lx->end - lx->p), NULL));
    return push(lx, JINJA_TOKEN_END, lx->end, 0, NULL);
}

loam_status jinja_lex(const jinja_source *s, jinja_token **tokens, size_t *n)
{
    lexer lx = {.source = s,
                .p = s->data,
                .end = s->data + s->bytes,
                .line = 1,
                .column = 1,
                .counted = s->data,
                .line_starting = true};
    loam_status status = lex_all(&lx);
    *tokens = lx.tokens;
    *n = lx.n;
    return status;
}
