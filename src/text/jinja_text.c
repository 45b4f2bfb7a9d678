/* jinja_text.c: UTF-8, character classes and the text of numbers. */
#include "text/jinja.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- UTF-8 (RFC 3629) ---------------------------------------------------------------------- */

/* The length of the valid sequence at p, or 0. */
static int utf8_sequence(const unsigned char *p, size_t left)
{
    int n = 0;
    uint32_t code = 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        n = 2;
        code = p[0] & 0x1fu;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        n = 3;
        code = p[0] & 0x0fu;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        n = 4;
        code = p[0] & 0x07u;
    }
    if (n == 0 || (size_t)n > left)
        return 0;
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0u) != 0x80u)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    bool overlong = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return overlong || surrogate || code > 0x10ffff ? 0 : n;
}

bool jinja_utf8_valid(const char *data, size_t bytes, size_t *bad)
{
    size_t at = 0;
    while (at < bytes) {
        int n = utf8_sequence((const unsigned char *)data + at, bytes - at);
        if (n == 0) {
            *bad = at;
            return false;
        }
        at += (size_t)n;
    }
    return true;
}

uint32_t jinja_utf8_next(const char **p, const char *end)
{
    const unsigned char *s = (const unsigned char *)*p;
    uint32_t code = s[0];
    int n = 1;
    if (code >= 0xf0) {
        n = 4;
        code &= 0x07u;
    } else if (code >= 0xe0) {
        n = 3;
        code &= 0x0fu;
    } else if (code >= 0xc0) {
        n = 2;
        code &= 0x1fu;
    }
    int i = 1;
    for (; i < n && (const char *)s + i < end; i++)
        code = code << 6 | (s[i] & 0x3fu);
    *p += i;
    return code;
}

const char *jinja_utf8_previous(const char *p, const char *begin)
{
    do
        p--;
    while (p > begin && ((unsigned char)*p & 0xc0u) == 0x80u);
    return p;
}

int jinja_utf8_put(char out[4], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0u | code >> 6);
        out[1] = (char)(0x80u | (code & 0x3fu));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0u | code >> 12);
        out[1] = (char)(0x80u | (code >> 6 & 0x3fu));
        out[2] = (char)(0x80u | (code & 0x3fu));
        return 3;
    }
    out[0] = (char)(0xf0u | code >> 18);
    out[1] = (char)(0x80u | (code >> 12 & 0x3fu));
    out[2] = (char)(0x80u | (code >> 6 & 0x3fu));
    out[3] = (char)(0x80u | (code & 0x3fu));
    return 4;
}

size_t jinja_utf8_count(const char *data, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)data[i] & 0xc0u) != 0x80u;
    return n;
}

size_t jinja_utf8_offset(const char *data, size_t bytes, size_t index)
{
    const char *p = data;
    const char *end = data + bytes;
    for (; index > 0 && p < end; index--)
        jinja_utf8_next(&p, end);
    return (size_t)(p - data);
}

/* ---- classes and case ---------------------------------------------------------------------- */

static bool in_ranges(const jinja_range *ranges, int n, uint32_t code)
{
    int low = 0;
    while (low < n) {
        int middle = low + (n - low) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else if (code < ranges[middle].first)
            n = middle;
        else
            return true;
    }
    return false;
}

bool jinja_is_space(uint32_t code)
{
    if (code < 0x80)
        return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool jinja_is_alpha(uint32_t code)
{
    return in_ranges(jinja_alpha_ranges, jinja_n_alpha_ranges, code);
}

bool jinja_is_digit(uint32_t code)
{
    return in_ranges(jinja_digit_ranges, jinja_n_digit_ranges, code);
}

bool jinja_is_printable(uint32_t code)
{
    return !in_ranges(jinja_unprintable_ranges, jinja_n_unprintable_ranges, code);
}

bool jinja_is_word(uint32_t code)
{
    return code == '_' || jinja_is_alpha(code) || jinja_is_digit(code);
}

/* The ranges of one mapping may interleave (two strides), so all that begin at or before `code`
 * and near it are looked at; they are sorted by `first`. */
static uint32_t map_case(const jinja_case_range *ranges, int n, uint32_t code)
{
    for (int i = 0; i < n && ranges[i].first <= code; i++) {
        const jinja_case_range *r = &ranges[i];
        if (code <= r->last && (code - r->first) % r->stride == 0)
            return (uint32_t)((int64_t)code + r->delta);
    }
    return code;
}

static uint32_t simple_upper(uint32_t code)
{
    if (code < 0x80)
        return code >= 'a' && code <= 'z' ? code - 32 : code;
    return map_case(jinja_upper_ranges, jinja_n_upper_ranges, code);
}

static uint32_t simple_lower(uint32_t code)
{
    if (code < 0x80)
        return code >= 'A' && code <= 'Z' ? code + 32 : code;
    return map_case(jinja_lower_ranges, jinja_n_lower_ranges, code);
}

int jinja_upper(uint32_t code, uint32_t out[3])
{
    for (int i = 0; code >= 0x80 && i < jinja_n_upper_special; i++) {
        const uint32_t *row = jinja_upper_special[i];
        if (row[0] != code)
            continue;
        memcpy(out, row + 1, 3 * sizeof *out);
        return row[3] != 0 ? 3 : 2;
    }
    out[0] = simple_upper(code);
    return 1;
}

int jinja_lower(uint32_t code, uint32_t out[3])
{
    if (code == 0x130) { /* the one lower case of two code points: i and a dot above */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = simple_lower(code);
    return 1;
}

bool jinja_is_cased(uint32_t code)
{
    uint32_t upper[3];
    return simple_lower(code) != code || jinja_upper(code, upper) > 1 || upper[0] != code;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* The fewest digits that read back as d: digits (without a point) and the decimal exponent of the
 * first of them. */
static int shortest_digits(double d, char digits[24], int *exponent)
{
    char text[40];
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, d);
        if (strtod(text, NULL) == d)
            break;
    }
    int n = 0;
    const char *p = text;
    for (; *p != '\0' && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    }
    *exponent = *p == 'e' ? atoi(p + 1) : 0;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    return n;
}

int jinja_float_text(char out[40], double d)
{
    if (isnan(d))
        return snprintf(out, 40, "nan");
    if (isinf(d))
        return snprintf(out, 40, d > 0 ? "inf" : "-inf");
    const char *sign = signbit(d) ? "-" : "";
    char digits[24];
    int exponent = 0;
    int n = shortest_digits(fabs(d), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        int written = snprintf(out, 40, "%s%c%s%s", sign, digits[0], n > 1 ? "." : "", digits + 1);
        return written + snprintf(out + written, 40 - (size_t)written, "e%c%02d",
                                  exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (exponent < 0)
        return snprintf(out, 40, "%s0.%.*s%s", sign, -exponent - 1, "0000", digits);
    if (n <= exponent + 1)
        return snprintf(out, 40, "%s%s%.*s.0", sign, digits, exponent + 1 - n, "0000000000000000");
    return snprintf(out, 40, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
}

static void trim_spaces(const char **data, size_t *bytes)
{
    const char *p = *data;
    const char *end = p + *bytes;
    while (p < end) {
        const char *next = p;
        if (!jinja_is_space(jinja_utf8_next(&next, end)))
            break;
        p = next;
    }
    while (end > p) {
        const char *last = jinja_utf8_previous(end, p);
        const char *next = last;
        if (!jinja_is_space(jinja_utf8_next(&next, end)))
            break;
        end = last;
    }
    *data = p;
    *bytes = (size_t)(end - p);
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    return 99;
}

/* Whether `prefix` (such as "0x") of `base` begins the digits, which base 0 takes from it. */
static bool skip_base_prefix(const char **p, const char *end, int *base)
{
    if (end - *p < 2 || (*p)[0] != '0')
        return false;
    char letter = (char)((*p)[1] | 0x20);
    int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named == 0 || (*base != 0 && *base != named))
        return false;
    *base = named;
    *p += 2;
    return true;
}

bool jinja_parse_int(const char *data, size_t bytes, int base, int64_t *out)
{
    trim_spaces(&data, &bytes);
    const char *p = data;
    const char *end = data + bytes;
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    bool prefixed = skip_base_prefix(&p, end, &base);
    if (base == 0)
        base = 10;
    if (p == end)
        return false;
    int64_t value = 0;
    bool digit_before = prefixed;
    for (; p < end; p++) {
        if (*p == '_') {
            if (!digit_before || p + 1 == end)
                return false;
            digit_before = false;
            continue;
        }
        int digit = digit_value(*p);
        if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_sub_overflow(value, digit, &value)) /* negative: INT64_MIN has no opposite */
            return false;
        digit_before = true;
    }
    if (!negative && value == INT64_MIN)
        return false;
    *out = negative ? value : -value;
    return true;
}

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcasecmp(text, *words) == 0)
            return true;
    }
    return false;
}

bool jinja_parse_float(const char *data, size_t bytes, double *out)
{
    static const char *const infinities[] = {"inf", "infinity", NULL};
    static const char *const nans[] = {"nan", NULL};
    trim_spaces(&data, &bytes);
    char text[128];
    if (bytes == 0 || bytes >= sizeof text)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        bool between = i > 0 && i + 1 < bytes && data[i - 1] >= '0' && data[i - 1] <= '9' &&
                       data[i + 1] >= '0' && data[i + 1] <= '9';
        if (data[i] == '_' && between)
            continue;
        text[n++] = data[i];
    }
    text[n] = '\0';
    const char *digits = text[0] == '-' || text[0] == '+' ? text + 1 : text;
    bool special = is_one_of(digits, infinities) || is_one_of(digits, nans);
    if (!special && strspn(digits, "0123456789.eE+-") != strlen(digits))
        return false;
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0')
        return false;
    *out = value;
    return true;
}
