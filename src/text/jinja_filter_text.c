/* jinja_filter_text.c: the filters that make text of text. As in Jinja2, what is no string is
 * first made one. */
#include "text/jinja.h"

#include <string.h>

static jinja_value *filter_upper(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value *text = jinja_to_string(run, self);
    return text != NULL ? jinja_cased(run, text, true) : NULL;
}

static jinja_value *filter_lower(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value *text = jinja_to_string(run, self);
    return text != NULL ? jinja_cased(run, text, false) : NULL;
}

static jinja_value *filter_capitalize(jinja_run *run, jinja_value *self, jinja_value **arg,
                                      const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value *text = jinja_to_string(run, self);
    return text != NULL ? jinja_capitalized(run, text) : NULL;
}

/* Every character after a hyphen, an opening bracket or a space is capital. */
static jinja_value *filter_title(jinja_run *run, jinja_value *self, jinja_value **arg,
                                 const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value *text = jinja_to_string(run, self);
    if (text == NULL)
        return NULL;
    size_t mark = jinja_mark(run);
    const char *p = text->as.string.data;
    const char *end = p + text->as.string.bytes;
    bool begins = true;
    while (p < end) {
        uint32_t codes[3];
        char bytes[12];
        int n_bytes = 0;
        uint32_t code = jinja_utf8_next(&p, end);
        int n = begins ? jinja_upper(code, codes) : jinja_lower(code, codes);
        for (int i = 0; i < n; i++)
            n_bytes += jinja_utf8_put(bytes + n_bytes, codes[i]);
        if (!jinja_emit(run, bytes, (size_t)n_bytes))
            return NULL;
        begins = jinja_is_space(code) || (code != 0 && code < 0x80 && strchr("-({[<", (int)code));
    }
    return jinja_take(run, mark);
}

static jinja_value *filter_trim(jinja_run *run, jinja_value *self, jinja_value **arg,
                                const jinja_args *raw)
{
    (void)raw;
    jinja_value *characters = NULL;
    jinja_value *text = jinja_to_string(run, self);
    bool given = arg[0] != NULL && arg[0]->kind != JINJA_NONE;
    if (text == NULL || !jinja_arg_string(run, given ? arg[0] : NULL, "chars", NULL, &characters))
        return NULL;
    return jinja_stripped(run, text, characters, 3);
}

static jinja_value *filter_replace(jinja_run *run, jinja_value *self, jinja_value **arg,
                                   const jinja_args *raw)
{
    (void)raw;
    int64_t limit = -1;
    jinja_value *count = arg[2] != NULL && arg[2]->kind != JINJA_NONE ? arg[2] : NULL;
    jinja_value *text = jinja_to_string(run, self);
    jinja_value *old = text != NULL ? jinja_to_string(run, arg[0]) : NULL;
    jinja_value *with = old != NULL ? jinja_to_string(run, arg[1]) : NULL;
    if (with == NULL || !jinja_arg_int(run, count, "count", -1, &limit))
        return NULL;
    return jinja_replace(run, text, old, with, limit);
}

static jinja_value *filter_string(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    return jinja_to_string(run, self);
}

static jinja_value *filter_escape(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    static const char special[] = "&<>\"'";
    static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    jinja_value *text = jinja_to_string(run, self);
    if (text == NULL)
        return NULL;
    size_t mark = jinja_mark(run);
    const char *p = text->as.string.data;
    const char *end = p + text->as.string.bytes;
    while (p < end) {
        const char *found = memchr(special, *p, sizeof special - 1);
        bool emitted =
            found != NULL ? jinja_emit_text(run, escapes[found - special]) : jinja_emit(run, p, 1);
        if (!emitted)
            return NULL;
        p++;
    }
    return jinja_take(run, mark);
}

static bool emit_indented(jinja_run *run, const jinja_value *line, const jinja_value *indent,
                          bool indented)
{
    return (!indented || jinja_emit(run, indent->as.string.data, indent->as.string.bytes)) &&
           jinja_emit(run, line->as.string.data, line->as.string.bytes);
}

static jinja_value *blanks(jinja_run *run, int64_t n)
{
    char *text = n > 0 ? jinja_alloc(run, (size_t)n) : NULL;
    if (n <= 0)
        return run->empty;
    if (text == NULL || !jinja_scan(run, (size_t)n))
        return NULL;
    memset(text, ' ', (size_t)n);
    return jinja_string(run, text, (size_t)n);
}

static jinja_value *filter_indent(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)raw;
    int64_t width = 4;
    jinja_value *indent = arg[0];
    bool first = arg[1] != NULL && jinja_truth(arg[1]);
    bool blank = arg[2] != NULL && jinja_truth(arg[2]);
    jinja_value *text = jinja_to_string(run, self);
    if (text == NULL)
        return NULL;
    if (indent == NULL || indent->kind != JINJA_STRING) {
        if (!jinja_arg_int(run, arg[0], "width", 4, &width))
            return NULL;
        indent = blanks(run, width);
    }
    jinja_value *newline = indent != NULL ? jinja_string(run, "\n", 1) : NULL;
    jinja_value *ended = newline != NULL ? jinja_binary(run, JINJA_OP_ADD, text, newline) : NULL;
    jinja_value *lines = ended != NULL ? jinja_lines(run, ended, false) : NULL;
    if (lines == NULL)
        return NULL;
    size_t mark = jinja_mark(run);
    for (size_t i = 0; i < lines->as.list.n; i++) {
        const jinja_value *line = lines->as.list.items[i];
        bool indented = i == 0 ? first : blank || line->as.string.bytes > 0;
        if ((i > 0 && !jinja_emit_text(run, "\n")) || !emit_indented(run, line, indent, indented))
            return NULL;
    }
    return jinja_take(run, mark);
}

static jinja_value *filter_center(jinja_run *run, jinja_value *self, jinja_value **arg,
                                  const jinja_args *raw)
{
    (void)raw;
    int64_t width = 80;
    size_t n = 0;
    jinja_value *text = jinja_to_string(run, self);
    if (text == NULL || !jinja_arg_int(run, arg[0], "width", 80, &width) ||
        !jinja_length(run, text, &n))
        return NULL;
    int64_t missing = width - (int64_t)n;
    if (missing <= 0)
        return text;
    int64_t left = missing / 2 + (missing & width & 1);
    jinja_value *before = blanks(run, left);
    jinja_value *after = before != NULL ? blanks(run, missing - left) : NULL;
    jinja_value *parts[] = {before, text, after};
    return after != NULL ? jinja_join(run, run->empty, parts, 3) : NULL;
}

static jinja_value *filter_truncate(jinja_run *run, jinja_value *self, jinja_value **arg,
                                    const jinja_args *raw)
{
    (void)raw;
    int64_t length = 255;
    int64_t leeway = 5;
    size_t n = 0;
    size_t n_end = 0;
    jinja_value *end = NULL;
    jinja_value *dots = jinja_string(run, "...", 3);
    jinja_value *text = dots != NULL ? jinja_to_string(run, self) : NULL;
    if (text == NULL || !jinja_arg_int(run, arg[0], "length", 255, &length) ||
        !jinja_arg_string(run, arg[2], "end", dots, &end) ||
        !jinja_arg_int(run, arg[3], "leeway", 5, &leeway) || !jinja_length(run, text, &n) ||
        !jinja_length(run, end, &n_end))
        return NULL;
    if (length < (int64_t)n_end || leeway < 0)
        return jinja_fail(run, LOAM_E_DATA,
                          "truncate: length must be at least that of the end "
                          "(%zu), and leeway at least 0",
                          n_end);
    if ((int64_t)n <= length || (int64_t)n - length <= leeway)
        return text;
    const char *data = text->as.string.data;
    size_t bytes =
        jinja_utf8_offset(data, text->as.string.bytes, (size_t)(length - (int64_t)n_end));
    bool whole_words = arg[1] == NULL || !jinja_truth(arg[1]);
    size_t space = bytes;
    while (whole_words && space > 0 && data[space - 1] != ' ')
        space--;
    jinja_value *kept = jinja_string(run, data, whole_words && space > 0 ? space - 1 : bytes);
    return kept != NULL ? jinja_binary(run, JINJA_OP_ADD, kept, end) : NULL;
}

static jinja_value *filter_wordcount(jinja_run *run, jinja_value *self, jinja_value **arg,
                                     const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    int64_t words = 0;
    bool inside = false;
    jinja_value *text = jinja_to_string(run, self);
    if (text == NULL || !jinja_scan(run, text->as.string.bytes))
        return NULL;
    const char *p = text->as.string.data;
    const char *end = p + text->as.string.bytes;
    while (p < end) {
        bool word = jinja_is_word(jinja_utf8_next(&p, end));
        words += word && !inside;
        inside = word;
    }
    return jinja_integer(run, words);
}

/* Percent-encodes str(v); in a query a slash is encoded and a space is '+'. */
static bool emit_url(jinja_run *run, jinja_value *v, bool query)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~";
    jinja_value *text = jinja_to_string(run, v);
    for (size_t i = 0; text != NULL && i < text->as.string.bytes; i++) {
        unsigned char c = (unsigned char)text->as.string.data[i];
        char code[4];
        if ((c != 0 && strchr(plain, c) != NULL) || (c == '/' && !query))
            snprintf(code, sizeof code, "%c", c);
        else if (c == ' ' && query)
            snprintf(code, sizeof code, "+");
        else
            snprintf(code, sizeof code, "%%%02X", c);
        if (!jinja_emit_text(run, code))
            return false;
    }
    return text != NULL;
}

static bool emit_query(jinja_run *run, jinja_value **items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        jinja_value **pair = NULL;
        size_t n_pair = 0;
        if (!jinja_iterate(run, items[i], &pair, &n_pair))
            return false;
        if (n_pair != 2)
            return jinja_refuse(run, "urlencode: expected pairs, found %zu values", n_pair);
        if ((i > 0 && !jinja_emit_text(run, "&")) || !emit_url(run, pair[0], true) ||
            !jinja_emit_text(run, "=") || !emit_url(run, pair[1], true))
            return false;
    }
    return true;
}

static jinja_value *filter_urlencode(jinja_run *run, jinja_value *self, jinja_value **arg,
                                     const jinja_args *raw)
{
    (void)arg;
    (void)raw;
    jinja_value **items = NULL;
    size_t n = 0;
    bool query = self->kind == JINJA_DICT || self->kind == JINJA_LIST;
    if (self->kind == JINJA_DICT)
        self = jinja_dict_view(run, self->as.dict, JINJA_SEQ_ITEMS);
    if (self == NULL || (query && !jinja_iterate(run, self, &items, &n)))
        return NULL;
    size_t mark = jinja_mark(run);
    bool emitted = query ? emit_query(run, items, n) : emit_url(run, self, false);
    return emitted ? jinja_take(run, mark) : NULL;
}

const jinja_builtin jinja_text_filters[] = {
    {"upper", filter_upper, 0, ""},
    {"lower", filter_lower, 0, ""},
    {"capitalize", filter_capitalize, 0, ""},
    {"title", filter_title, 0, ""},
    {"trim", filter_trim, 0, "chars"},
    {"replace", filter_replace, 2, "old new count"},
    {"string", filter_string, 0, ""},
    {"safe", filter_string, 0, ""},
    {"escape", filter_escape, 0, ""},
    {"e", filter_escape, 0, ""},
    {"forceescape", filter_escape, 0, ""},
    {"indent", filter_indent, 0, "width first blank"},
    {"center", filter_center, 0, "width"},
    {"truncate", filter_truncate, 0, "length killwords end leeway"},
    {"wordcount", filter_wordcount, 0, ""},
    {"urlencode", filter_urlencode, 0, ""},
    {NULL, NULL, 0, NULL},
};
