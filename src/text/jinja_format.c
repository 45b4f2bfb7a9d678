/* jinja_format.c: Python's two ways to format: "%s" % value and "{}".format(value). */
#include "text/jinja.h"

#include <math.h>
#include <string.h>

#define MAX_WIDTH 1000
#define MAX_PRECISION 300
#define NUMBER_BYTES 1024

/* How one value is to be written. */
typedef struct spec {
    char fill[4];
    int fill_bytes;
    char align; /* '<' '>' '^' '=', or 0: numbers right, others left */
    char sign;  /* '+', ' ', or 0 */
    bool alternate;
    bool comma;
    int width;
    int precision; /* -1: none */
    char type;     /* 0: none */
} spec;

static bool repeat(jinja_run *run, const char *text, int bytes, int times)
{
    for (int i = 0; i < times; i++) {
        if (!jinja_emit(run, text, (size_t)bytes))
            return false;
    }
    return true;
}

/* Writes `prefix` (a sign, 0x) and `body`, padded to the width. */
static bool emit_padded(jinja_run *run, const spec *s, const char *prefix, const char *body,
                        size_t body_bytes, char default_align)
{
    size_t length = strlen(prefix) + jinja_utf8_count(body, body_bytes);
    int missing = length < (size_t)s->width ? s->width - (int)length : 0;
    char align = s->align != 0 ? s->align : default_align;
    int before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    int inside = align == '=' ? missing : 0;
    return repeat(run, s->fill, s->fill_bytes, before) && jinja_emit_text(run, prefix) &&
           repeat(run, s->fill, s->fill_bytes, inside) && jinja_emit(run, body, body_bytes) &&
           repeat(run, s->fill, s->fill_bytes, missing - before - inside);
}

static bool format_string(jinja_run *run, const spec *s, jinja_value *v)
{
    jinja_value *text = jinja_to_string(run, v);
    if (text == NULL)
        return false;
    size_t bytes = text->as.string.bytes;
    if (s->precision >= 0)
        bytes = jinja_utf8_offset(text->as.string.data, bytes, (size_t)s->precision);
    return emit_padded(run, s, "", text->as.string.data, bytes, '<');
}

/* Commas between thousands of the digits at the start of `digits`. */
static void add_commas(char *digits)
{
    size_t n = strspn(digits, "0123456789");
    while (n > 3) {
        n -= 3;
        memmove(digits + n + 1, digits + n, strlen(digits + n) + 1);
        digits[n] = ',';
    }
}

static const char *sign_text(const spec *s, bool negative)
{
    return negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "";
}

static void write_binary(char *out, uint64_t value)
{
    int n = 1;
    while (n < 64 && value >> n != 0)
        n++;
    for (int i = 0; i < n; i++)
        out[i] = (char)('0' + (value >> (n - 1 - i) & 1));
    out[n] = '\0';
}

static bool format_int(jinja_run *run, const spec *s, int64_t i)
{
    char digits[NUMBER_BYTES];
    char prefix[8];
    char type = s->type;
    uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    unsigned long long value = magnitude;
    int precision = LOAM_MAX(1, s->precision);
    if (type == 'b')
        write_binary(digits, magnitude);
    else
        snprintf(digits, sizeof digits,
                 type == 'o'   ? "%.*llo"
                 : type == 'x' ? "%.*llx"
                 : type == 'X' ? "%.*llX"
                               : "%.*llu",
                 precision, value);
    if (s->comma)
        add_commas(digits);
    bool base = s->alternate && type != 0 && strchr("boxX", type) != NULL;
    snprintf(prefix, sizeof prefix, "%s%s%.1s", sign_text(s, i < 0), base ? "0" : "",
             base ? &s->type : "");
    return emit_padded(run, s, prefix, digits, strlen(digits), '>');
}

static bool format_float(jinja_run *run, const spec *s, double d)
{
    char text[NUMBER_BYTES];
    char type = s->type == '%' ? 'f' : s->type == 0 || s->type == 'n' ? 'g' : s->type;
    char pattern[] = {'%', '#', '.', '*', type, '\0'};
    if (!s->alternate)
        memmove(pattern + 1, pattern + 2, sizeof pattern - 2);
    double magnitude = fabs(s->type == '%' ? d * 100 : d);
    if (s->type == 0 && s->precision < 0)
        jinja_float_text(text, magnitude);
    else
        snprintf(text, sizeof text, pattern, s->precision < 0 ? 6 : s->precision, magnitude);
    if (s->type == 0 && strpbrk(text, ".en") == NULL)
        strcat(text, ".0");
    if (s->type == '%')
        strcat(text, "%");
    if (s->comma)
        add_commas(text);
    return emit_padded(run, s, sign_text(s, signbit(d)), text, strlen(text), '>');
}

static bool wrong_value(jinja_run *run, const spec *s, const jinja_value *v)
{
    return jinja_refuse(run, "a format of type '%c' cannot write '%s'", s->type,
                        jinja_type_name(v));
}

/* ---- "%s" % value -------------------------------------------------------------------------- */

typedef struct percent {
    const char *p;
    const char *end;
    jinja_value *mapping; /* the value, where it is a dict */
    jinja_value **items;
    size_t n;
    size_t used;
} percent;

static jinja_value *next_item(jinja_run *run, percent *f)
{
    if (f->used < f->n)
        return f->items[f->used++];
    return jinja_fail(run, LOAM_E_DATA, "the format takes more values than the %zu given", f->n);
}

/* A number in the format, or the next value where '*' stands. */
static bool read_number(jinja_run *run, percent *f, int limit, int *number)
{
    int64_t value = 0;
    if (f->p < f->end && *f->p == '*') {
        jinja_value *item = next_item(run, f);
        f->p++;
        if (item == NULL || !jinja_arg_int(run, item, "*", 0, &value))
            return false;
    }
    while (f->p < f->end && *f->p >= '0' && *f->p <= '9' && value <= limit)
        value = value * 10 + (*f->p++ - '0');
    if (value < 0 || value > limit)
        return jinja_refuse(run, "a width or precision of at most %d is expected in a format",
                            limit);
    *number = (int)value;
    return true;
}

/* "(name)" picks the value from the dict. */
static bool read_mapping_key(jinja_run *run, percent *f, jinja_value **item)
{
    if (f->p >= f->end || *f->p != '(')
        return true;
    const char *close = memchr(f->p, ')', (size_t)(f->end - f->p));
    if (close == NULL || f->mapping == NULL)
        return jinja_refuse(run, "%%(name) in a format needs a closing parenthesis and a dict");
    size_t bytes = (size_t)(close - f->p) - 1;
    *item = jinja_dict_text(f->mapping->as.dict, f->p + 1, bytes);
    if (*item == NULL)
        return jinja_refuse(run, "the format names '%.*s', which is not in the dict",
                            (int)LOAM_MIN(bytes, 80), f->p + 1);
    f->p = close + 1;
    return true;
}

static bool read_flags(jinja_run *run, percent *f, spec *s)
{
    bool left = false;
    bool zero = false;
    for (; f->p < f->end && *f->p != '\0' && strchr("#0- +", *f->p) != NULL; f->p++) {
        left = left || *f->p == '-';
        zero = zero || *f->p == '0';
        s->alternate = s->alternate || *f->p == '#';
        if (*f->p == '+' || (*f->p == ' ' && s->sign == 0))
            s->sign = *f->p;
    }
    if (!read_number(run, f, MAX_WIDTH, &s->width))
        return false;
    if (f->p < f->end && *f->p == '.') {
        f->p++;
        if (!read_number(run, f, MAX_PRECISION, &s->precision))
            return false;
    }
    while (f->p < f->end && (*f->p == 'h' || *f->p == 'l' || *f->p == 'L'))
        f->p++;
    s->align = left ? '<' : '>';
    if (zero && !left) { /* for numbers; strings are padded with blanks */
        s->fill[0] = '0';
        s->align = '=';
    }
    return true;
}

static bool percent_text(jinja_run *run, spec *s, jinja_value *v)
{
    char bytes[4];
    if (s->align == '=') {
        s->align = '>';
        s->fill[0] = ' ';
    }
    if (s->type == 's')
        return format_string(run, s, v);
    if (s->type == 'c' && jinja_is_int(v)) {
        int64_t code = jinja_int_of(v);
        if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
            return jinja_refuse(run, "%%c: there is no character of that number");
        return emit_padded(run, s, "", bytes, (size_t)jinja_utf8_put(bytes, (uint32_t)code), '>');
    }
    if (s->type == 'c')
        return v->kind == JINJA_STRING ? format_string(run, s, v) : wrong_value(run, s, v);
    size_t mark = jinja_mark(run);
    jinja_value *text = jinja_emit_value(run, v, true) ? jinja_take(run, mark) : NULL;
    return text != NULL && format_string(run, s, text);
}

static bool percent_value(jinja_run *run, spec *s, jinja_value *v)
{
    if (strchr("srac", s->type) != NULL)
        return percent_text(run, s, v);
    if (!jinja_is_number(v))
        return jinja_defined(run, v) && wrong_value(run, s, v);
    if (strchr("eEfFgG", s->type) != NULL)
        return format_float(run, s, jinja_double_of(v));
    if (v->kind == JINJA_FLOAT && strchr("oxX", s->type) != NULL)
        return wrong_value(run, s, v);
    if (v->kind == JINJA_FLOAT && !(fabs(v->as.number) < 9223372036854775808.0))
        return jinja_refuse(run, "%%d: the number does not fit a 64-bit integer");
    return format_int(run, s, v->kind == JINJA_FLOAT ? (int64_t)v->as.number : jinja_int_of(v));
}

static bool percent_one(jinja_run *run, percent *f)
{
    spec s = {.fill = " ", .fill_bytes = 1, .precision = -1};
    jinja_value *item = NULL;
    if (!read_mapping_key(run, f, &item) || !read_flags(run, f, &s))
        return false;
    s.type = f->p < f->end ? *f->p++ : '\0';
    if (s.type == '%')
        return jinja_emit_text(run, "%");
    if (s.type == '\0' || strchr("diueEfFgGoxXcrsa", s.type) == NULL)
        return jinja_refuse(run, "a format has no conversion behind '%%', expected one of "
                                 "d i u o x X e E f F g G c r s a %%");
    if (item == NULL)
        item = next_item(run, f);
    return item != NULL && percent_value(run, &s, item);
}

jinja_value *jinja_format_percent(jinja_run *run, const jinja_value *format, jinja_value *value)
{
    percent f = {.p = format->as.string.data, .items = &value, .n = 1};
    f.end = f.p + format->as.string.bytes;
    if (value->kind == JINJA_DICT)
        f.mapping = value;
    if (value->kind == JINJA_LIST && value->sequence == JINJA_SEQ_TUPLE) {
        f.items = value->as.list.items;
        f.n = value->as.list.n;
    }
    size_t mark = jinja_mark(run);
    while (f.p < f.end) {
        const char *sign = memchr(f.p, '%', (size_t)(f.end - f.p));
        const char *plain_end = sign != NULL ? sign : f.end;
        if (!jinja_emit(run, f.p, (size_t)(plain_end - f.p)))
            return NULL;
        f.p = sign != NULL ? sign + 1 : f.end;
        if (sign != NULL && !percent_one(run, &f))
            return NULL;
    }
    if (f.used < f.n && f.mapping == NULL)
        return jinja_fail(run, LOAM_E_DATA, "the format takes %zu values, found %zu", f.used, f.n);
    return jinja_take(run, mark);
}

/* ---- "{}".format(value) -------------------------------------------------------------------- */

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static bool spec_number(jinja_run *run, const char **p, const char *end, int limit, int *number)
{
    int value = 0;
    while (*p < end && **p >= '0' && **p <= '9' && value <= limit)
        value = value * 10 + (*(*p)++ - '0');
    if (value > limit)
        return jinja_refuse(run, "a width or precision of at most %d is expected in a format",
                            limit);
    *number = value;
    return true;
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static bool read_spec(jinja_run *run, const char *p, const char *end, spec *s)
{
    const char *after = p;
    if (p < end)
        jinja_utf8_next(&after, end);
    bool filled = after < end && is_align(*after);
    if (filled) {
        s->fill_bytes = (int)(after - p);
        memcpy(s->fill, p, (size_t)s->fill_bytes);
        p = after;
    }
    if (p < end && is_align(*p))
        s->align = *p++;
    if (p < end && (*p == '+' || *p == '-' || *p == ' '))
        s->sign = *p++;
    if (p < end && *p == '#') {
        s->alternate = true;
        p++;
    }
    if (p < end && *p == '0') {
        if (!filled)
            s->fill[0] = '0';
        if (s->align == 0)
            s->align = '=';
        p++;
    }
    if (!spec_number(run, &p, end, MAX_WIDTH, &s->width))
        return false;
    if (p < end && *p == ',') {
        s->comma = true;
        p++;
    }
    if (p < end && *p == '.') {
        p++;
        if (!spec_number(run, &p, end, MAX_PRECISION, &s->precision))
            return false;
    }
    s->type = p < end ? *p++ : '\0';
    if (p < end || (s->type != '\0' && strchr("sdboxXneEfFgG%", s->type) == NULL))
        return jinja_refuse(run,
                            "'%.*s' is no format: expected [[fill]align][sign][#][0][width][,]"
                            "[.precision][type] with a type of s d b o x X n e E f F g G %%",
                            (int)LOAM_MIN(end - p + 1, 40), p - 1);
    return true;
}

static bool format_value(jinja_run *run, const char *p, const char *end, jinja_value *v)
{
    spec s = {.fill = " ", .fill_bytes = 1, .precision = -1};
    if (p == end)
        return jinja_emit_value(run, v, false);
    if (!read_spec(run, p, end, &s))
        return false;
    if (v->kind == JINJA_STRING)
        return s.type == '\0' || s.type == 's' ? format_string(run, &s, v)
                                               : wrong_value(run, &s, v);
    if (!jinja_is_number(v) || s.type == 's')
        return wrong_value(run, &s, v);
    bool float_type = s.type != '\0' && strchr("eEfFgG%", s.type) != NULL;
    if (v->kind == JINJA_FLOAT || float_type) {
        if (s.type != '\0' && !float_type && s.type != 'n')
            return wrong_value(run, &s, v);
        return format_float(run, &s, jinja_double_of(v));
    }
    return s.precision < 0 ? format_int(run, &s, jinja_int_of(v))
                           : jinja_refuse(run, "a precision is not allowed for integers");
}

/* The first part of a field: nothing (the next value), a number, or a name. */
static jinja_value *field_value(jinja_run *run, const char *name, size_t bytes,
                                const jinja_args *args, size_t *next)
{
    int64_t index = 0;
    if (bytes == 0)
        index = (int64_t)(*next)++;
    else if (!jinja_parse_int(name, bytes, 10, &index)) {
        jinja_value *named = jinja_dict_text(&args->named, name, bytes);
        return named != NULL ? named
                             : jinja_fail(run, LOAM_E_DATA, "format: no value is named '%.*s'",
                                          (int)LOAM_MIN(bytes, 80), name);
    }
    if (index < 0 || (size_t)index >= args->n_positional)
        return jinja_fail(run, LOAM_E_DATA, "format: there is no value %lld", (long long)index);
    return args->positional[index];
}

/* ".name" and "[key]" behind a field's first part. */
static jinja_value *follow(jinja_run *run, jinja_value *v, const char *p, const char *end)
{
    while (v != NULL && p < end) {
        bool bracket = *p == '[';
        const char *stop = ++p;
        while (stop < end && (bracket ? *stop != ']' : *stop != '.' && *stop != '['))
            stop++;
        if (bracket && stop == end)
            return jinja_fail(run, LOAM_E_DATA, "format: '[' without ']'");
        jinja_value *key = jinja_string(run, p, (size_t)(stop - p));
        int64_t index = 0;
        if (key != NULL && bracket && jinja_parse_int(p, (size_t)(stop - p), 10, &index))
            key = jinja_integer(run, index);
        v = key != NULL ? jinja_subscript(run, v, key) : NULL;
        p = stop + bracket;
    }
    return v;
}

/* One "{...}" with p behind the brace and end at the closing one. */
static bool format_field(jinja_run *run, const char *p, const char *end, const jinja_args *args,
                         size_t *next)
{
    const char *colon = memchr(p, ':', (size_t)(end - p));
    const char *name_end = colon != NULL ? colon : end;
    const char *mark = memchr(p, '!', (size_t)(name_end - p));
    const char *conversion = mark;
    if (mark != NULL)
        name_end = mark;
    size_t first = 0;
    while (p + first < name_end && p[first] != '.' && p[first] != '[')
        first++;
    jinja_value *v = field_value(run, p, first, args, next);
    v = v != NULL ? follow(run, v, p + first, name_end) : NULL;
    if (v == NULL)
        return false;
    if (conversion != NULL) {
        char kind = conversion + 1 < end ? conversion[1] : '\0';
        if (kind != 'r' && kind != 's')
            return jinja_refuse(run, "format: expected !r or !s");
        size_t begin = jinja_mark(run);
        v = jinja_emit_value(run, v, kind == 'r') ? jinja_take(run, begin) : NULL;
    }
    return v != NULL && format_value(run, colon != NULL ? colon + 1 : end, end, v);
}

jinja_value *jinja_format_braces(jinja_run *run, const jinja_value *format, const jinja_args *args)
{
    size_t mark = jinja_mark(run);
    size_t next = 0;
    const char *p = format->as.string.data;
    const char *end = p + format->as.string.bytes;
    while (p < end) {
        if (*p != '{' && *p != '}') {
            if (!jinja_emit(run, p++, 1))
                return NULL;
        } else if (p + 1 < end && p[1] == *p) {
            if (!jinja_emit(run, p, 1))
                return NULL;
            p += 2;
        } else {
            const char *close = *p == '{' ? memchr(p, '}', (size_t)(end - p)) : NULL;
            if (close == NULL)
                return jinja_fail(run, LOAM_E_DATA, "format: a single '%c', expected two", *p);
            if (!format_field(run, p + 1, close, args, &next))
                return NULL;
            p = close + 1;
        }
    }
    return jinja_take(run, mark);
}
