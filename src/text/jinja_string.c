/* jinja_string.c: the operations on strings that filters and methods share. */
#include "text/jinja.h"

#include <string.h>

static bool emit_string_value(jinja_run *run, const jinja_value *text)
{
    return jinja_emit(run, text->as.string.data, text->as.string.bytes);
}

/* An empty `old` stands before every character and at the end. */
static jinja_value *replace_nothing(jinja_run *run, const jinja_value *text,
                                    const jinja_value *with, int64_t limit)
{
    size_t mark = jinja_mark(run);
    const char *p = text->as.string.data;
    const char *end = p + text->as.string.bytes;
    for (; limit != 0; limit--) {
        if (!emit_string_value(run, with))
            return NULL;
        if (p == end)
            break;
        const char *begin = p;
        jinja_utf8_next(&p, end);
        if (!jinja_emit(run, begin, (size_t)(p - begin)))
            return NULL;
    }
    return jinja_emit(run, p, (size_t)(end - p)) ? jinja_take(run, mark) : NULL;
}

jinja_value *jinja_replace(jinja_run *run, jinja_value *text, jinja_value *old, jinja_value *with,
                           int64_t limit)
{
    if (old->as.string.bytes == 0)
        return replace_nothing(run, text, with, limit);
    if (!jinja_scan(run, text->as.string.bytes))
        return NULL;
    size_t mark = jinja_mark(run);
    const char *p = text->as.string.data;
    const char *end = p + text->as.string.bytes;
    for (; limit != 0; limit--) {
        const char *found = memmem(p, (size_t)(end - p), old->as.string.data, old->as.string.bytes);
        if (found == NULL)
            break;
        if (!jinja_emit(run, p, (size_t)(found - p)) || !emit_string_value(run, with))
            return NULL;
        p = found + old->as.string.bytes;
    }
    if (p == text->as.string.data)
        return text;
    return jinja_emit(run, p, (size_t)(end - p)) ? jinja_take(run, mark) : NULL;
}

jinja_value *jinja_join(jinja_run *run, jinja_value *separator, jinja_value **items, size_t n)
{
    size_t mark = jinja_mark(run);
    for (size_t i = 0; i < n; i++) {
        if ((i > 0 && !emit_string_value(run, separator)) ||
            !jinja_emit_value(run, items[i], false))
            return NULL;
    }
    return jinja_take(run, mark);
}

static bool emit_codes(jinja_run *run, const uint32_t *codes, int n)
{
    char bytes[12];
    int written = 0;
    for (int i = 0; i < n; i++)
        written += jinja_utf8_put(bytes + written, codes[i]);
    return jinja_emit(run, bytes, (size_t)written);
}

/* Whether the capital sigma at p ends its word, where its lower case has another form. */
static bool is_final_sigma(const char *begin, const char *p, const char *end)
{
    const char *next = p;
    jinja_utf8_next(&next, end);
    if (next < end && jinja_is_cased(jinja_utf8_next(&next, end)))
        return false;
    if (p == begin)
        return false;
    const char *previous = jinja_utf8_previous(p, begin);
    return jinja_is_cased(jinja_utf8_next(&previous, end));
}

static bool emit_cased(jinja_run *run, const char *begin, const char **p, const char *end,
                       bool upper)
{
    uint32_t codes[3];
    const char *at = *p;
    uint32_t code = jinja_utf8_next(p, end);
    if (!upper && code == 0x3a3 && is_final_sigma(begin, at, end))
        return emit_codes(run, (const uint32_t[]){0x3c2}, 1);
    int n = upper ? jinja_upper(code, codes) : jinja_lower(code, codes);
    return emit_codes(run, codes, n);
}

jinja_value *jinja_cased(jinja_run *run, const jinja_value *text, bool upper)
{
    size_t mark = jinja_mark(run);
    const char *begin = text->as.string.data;
    const char *end = begin + text->as.string.bytes;
    for (const char *p = begin; p < end;) {
        if (!emit_cased(run, begin, &p, end, upper))
            return NULL;
    }
    return jinja_take(run, mark);
}

jinja_value *jinja_capitalized(jinja_run *run, const jinja_value *text)
{
    uint32_t codes[3];
    size_t mark = jinja_mark(run);
    const char *begin = text->as.string.data;
    const char *end = begin + text->as.string.bytes;
    const char *p = begin;
    if (p < end) { /* of an upper case of several letters, only the first is capital */
        int n = jinja_upper(jinja_utf8_next(&p, end), codes);
        for (int i = 1; i < n; i++) {
            uint32_t lower[3];
            jinja_lower(codes[i], lower);
            codes[i] = lower[0];
        }
        if (!emit_codes(run, codes, n))
            return NULL;
    }
    while (p < end) {
        if (!emit_cased(run, begin, &p, end, false))
            return NULL;
    }
    return jinja_take(run, mark);
}

static bool is_stripped(uint32_t code, const jinja_value *characters)
{
    if (characters == NULL)
        return jinja_is_space(code);
    const char *p = characters->as.string.data;
    const char *end = p + characters->as.string.bytes;
    while (p < end) {
        if (jinja_utf8_next(&p, end) == code)
            return true;
    }
    return false;
}

jinja_value *jinja_stripped(jinja_run *run, jinja_value *text, const jinja_value *characters,
                            int sides)
{
    const char *begin = text->as.string.data;
    const char *end = begin + text->as.string.bytes;
    size_t cost = characters != NULL ? characters->as.string.bytes : 16;
    while ((sides & 1) != 0 && begin < end) {
        const char *p = begin;
        if (!is_stripped(jinja_utf8_next(&p, end), characters))
            break;
        if (!jinja_scan(run, cost))
            return NULL;
        begin = p;
    }
    while ((sides & 2) != 0 && end > begin) {
        const char *last = jinja_utf8_previous(end, begin);
        const char *p = last;
        if (!is_stripped(jinja_utf8_next(&p, end), characters))
            break;
        if (!jinja_scan(run, cost))
            return NULL;
        end = last;
    }
    return jinja_string(run, begin, (size_t)(end - begin));
}

static bool ends_line(uint32_t code)
{
    return (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

jinja_value *jinja_lines(jinja_run *run, const jinja_value *text, bool keep_ends)
{
    jinja_value *lines = jinja_list(run, JINJA_SEQ_LIST, 0);
    const char *p = text->as.string.data;
    const char *end = p + text->as.string.bytes;
    if (lines == NULL || !jinja_scan(run, text->as.string.bytes))
        return NULL;
    while (p < end) {
        const char *begin = p;
        const char *stop = p;
        while (p < end) {
            stop = p;
            uint32_t code = jinja_utf8_next(&p, end);
            if (ends_line(code)) {
                if (code == '\r' && p < end && *p == '\n')
                    p++;
                break;
            }
            stop = p;
        }
        jinja_value *line = jinja_string(run, begin, (size_t)((keep_ends ? p : stop) - begin));
        if (line == NULL || !jinja_append(run, lines, line))
            return NULL;
    }
    return lines;
}
