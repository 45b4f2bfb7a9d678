/* format.c: files of records: JSONL and JSON arrays. */
#include "train/dataset.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    loam_data_format format;
} FORMATS[] = {
    {"messages", LOAM_DATA_MESSAGES},
    {"conversations", LOAM_DATA_CONVERSATIONS},
    {"instruction", LOAM_DATA_INSTRUCTION},
    {"completion", LOAM_DATA_COMPLETION},
    {"text", LOAM_DATA_TEXT},
    {"plain", LOAM_DATA_PLAIN},
};

loam_status loam_data_format_find(const char *name, loam_data_format *out, loam_error *e)
{
    *out = LOAM_DATA_AUTO;
    if (!name || !*name)
        return LOAM_OK;
    for (int i = 0; i < LOAM_COUNT(FORMATS); i++) {
        if (strcmp(name, FORMATS[i].name) == 0) {
            *out = FORMATS[i].format;
            return LOAM_OK;
        }
    }
    return loam_fail(e, LOAM_E_USAGE,
                     "the data format '%s' is unknown; expected messages, conversations, "
                     "instruction, completion, text or plain, or none to have it found out",
                     name);
}

/* ---- errors ------------------------------------------------------------------------------- */

loam_status loam_data_refuse(loam_loader *l, const char *format, ...)
{
    char text[LOAM_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return loam_fail(l->e, LOAM_E_DATA, "%s:%lld: %s", l->file_name, (long long)l->line, text);
}

loam_status loam_data_no_memory(loam_loader *l)
{
    return loam_fail(l->e, LOAM_E_MEMORY, "%s:%lld: no memory for the example", l->file_name,
                     (long long)l->line);
}

const char *loam_data_keys(const json_t *object, char *out, size_t n_bytes)
{
    size_t at = 0;
    out[0] = '\0';
    json_t *o = (json_t *)object; /* jansson's iterators are not const */
    for (void *i = json_object_iter(o); i; i = json_object_iter_next(o, i)) {
        const char *key = json_object_iter_key(i);
        int n = snprintf(out + at, n_bytes - at, "%s%.60s", at ? ", " : "", key);
        if (n < 0 || (size_t)n >= n_bytes - at)
            break;
        at += (size_t)n;
    }
    return at ? out : "none";
}

const char *loam_data_type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "true or false";
    }
}

loam_status loam_data_string(loam_loader *l, const json_t *object, const char *where,
                             const char *key, const char **out)
{
    char keys[200];
    const json_t *value = json_object_get(object, key);
    if (!value)
        return loam_data_refuse(l, "%s'%s' is missing; expected a string (keys found: %s)", where,
                                key, loam_data_keys(object, keys, sizeof keys));
    if (!json_is_string(value))
        return loam_data_refuse(l, "%s'%s' is %s, expected a string", where, key,
                                loam_data_type_name(value));
    *out = json_string_value(value);
    return LOAM_OK;
}

bool loam_data_is_blank(const char *s)
{
    return s[strspn(s, " \t\r\n\v\f")] == '\0';
}

/* ---- UTF-8 -------------------------------------------------------------------------------- */

/* Bytes of the character at s[0 .. n), or 0 where it is none: the well-formed sequences of the
 * Unicode Standard, table 3-7. */
static size_t character_bytes(const unsigned char *s, size_t n)
{
    size_t want = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (want == 0 || s[0] > 0xF4 || want > n)
        return 0;
    for (size_t i = 1; i < want; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    }
    bool bad = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
               (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F);
    return bad ? 0 : want;
}

/* Refuses text[0 .. n) where a byte is not UTF-8 or zero. It begins at byte `offset` of the file,
 * on line l->line, which is set to the bad byte's. */
static loam_status check_text(loam_loader *l, const char *text, size_t n, size_t offset)
{
    size_t line_begin = 0, n_lines = 0;
    for (size_t i = 0; i < n;) {
        size_t step = character_bytes((const unsigned char *)text + i, n - i);
        if (step == 0 || text[i] == '\0') {
            const char *what = text[i] ? "is not UTF-8" : "is zero, which no text holds";
            l->line += (int64_t)n_lines;
            return loam_fail(l->e, LOAM_E_DATA,
                             "%s:%lld:%zu: the byte 0x%02x at offset %zu of the file %s; expected "
                             "UTF-8 text: convert the file (iconv -f WINDOWS-1252 -t UTF-8)",
                             l->file_name, (long long)l->line, i - line_begin + 1,
                             (unsigned char)text[i], offset + i, what);
        }
        if (text[i] == '\n') {
            n_lines++;
            line_begin = i + 1;
        }
        i += step;
    }
    return LOAM_OK;
}

/* ---- records ------------------------------------------------------------------------------ */

static loam_data_format format_of(const json_t *record)
{
    static const struct {
        const char *key;
        loam_data_format format;
    } told_by[] = {
        {"messages", LOAM_DATA_MESSAGES},       {"conversations", LOAM_DATA_CONVERSATIONS},
        {"instruction", LOAM_DATA_INSTRUCTION}, {"prompt", LOAM_DATA_COMPLETION},
        {"completion", LOAM_DATA_COMPLETION},   {"text", LOAM_DATA_TEXT}};
    for (int i = 0; i < LOAM_COUNT(told_by); i++) {
        if (json_object_get(record, told_by[i].key))
            return told_by[i].format;
    }
    return LOAM_DATA_AUTO;
}

static loam_status add_record(loam_loader *l, const json_t *record)
{
    char keys[200];
    if (!json_is_object(record))
        return loam_data_refuse(l, "found %s, expected a JSON object", loam_data_type_name(record));
    if (json_object_get(record, "chosen") && json_object_get(record, "rejected"))
        return loam_fail(l->e, LOAM_E_UNSUPPORTED,
                         "%s:%lld: a preference pair ('chosen' and 'rejected'): Loam trains on "
                         "examples and cannot learn from preferences; keep the chosen answers as "
                         "{\"messages\"} or {\"prompt\", \"completion\"}",
                         l->file_name, (long long)l->line);
    switch (l->format == LOAM_DATA_AUTO ? format_of(record) : l->format) {
    case LOAM_DATA_MESSAGES:
        return loam_data_messages(l, record);
    case LOAM_DATA_CONVERSATIONS:
        return loam_data_conversations(l, record);
    case LOAM_DATA_INSTRUCTION:
        return loam_data_instruction(l, record);
    case LOAM_DATA_COMPLETION:
        return loam_data_completion(l, record);
    case LOAM_DATA_TEXT:
        return loam_data_text(l, record);
    default:
        return loam_data_refuse(l,
                                "no known format: expected a key 'messages', 'conversations', "
                                "'instruction' and 'output', 'prompt' and 'completion', or 'text' "
                                "(keys found: %s)",
                                loam_data_keys(record, keys, sizeof keys));
    }
}

/* One record's outcome: where it is bad and bad ones are skipped, all it added is taken back. */
static loam_status end_record(loam_loader *l, loam_status status, const loam_dataset *before,
                              const loam_error *found, loam_error *e)
{
    l->e = e;
    if (status == LOAM_OK)
        return LOAM_OK;
    if (status != LOAM_E_DATA || !l->o.skip_bad)
        return loam_fail(e, status, "%s", found->message);
    loam_data_restore(l->set, before);
    if (l->set->summary.n_bad++ == 0)
        l->first_bad = *found;
    return LOAM_OK;
}

bool loam_data_json_failed(const json_error_t *je)
{
    if (je->text[0] == '\0' || json_error_code(je) == json_error_out_of_memory)
        return true;
    /* Where the text of a token could not grow, jansson goes on with what it has and finds broken
     * syntax there: that is believed only where there is memory for such a text. */
    json_malloc_t take;
    json_free_t give_back;
    json_get_alloc_funcs(&take, &give_back);
    void *probe = take(2 * (size_t)LOAM_MAX(je->position, 0) + 64);
    give_back(probe);
    return probe == NULL;
}

static loam_status refuse_syntax(loam_loader *l, const json_error_t *je, int64_t line,
                                 int64_t column, const char *expected)
{
    if (loam_data_json_failed(je))
        return loam_data_no_memory(l);
    enum json_error_code code = json_error_code(je);
    return loam_fail(l->e, LOAM_E_DATA, "%s:%lld:%lld: broken JSON: %s; expected %s", l->file_name,
                     (long long)line, (long long)column, je->text,
                     code == json_error_null_character ? "a text without the character \\u0000"
                                                       : expected);
}

static loam_status parse_line(loam_loader *l, const char *text, size_t n, size_t offset,
                              json_t **out)
{
    json_error_t je = {0};
    LOAM_TRY(check_text(l, text, n, offset));
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
    if (*out)
        return LOAM_OK;
    return refuse_syntax(l, &je, l->line, je.column,
                         json_error_code(&je) == json_error_premature_end_of_input
                             ? "the rest of the value: in JSONL each line holds one whole object"
                             : "one JSON object on the line");
}

static loam_status read_line(loam_loader *l, const char *text, size_t n, size_t offset)
{
    loam_dataset before = *l->set;
    loam_error found = {0}, *e = l->e;
    json_t *record = NULL;
    l->e = &found;
    l->n_records++;
    loam_status status = parse_line(l, text, n, offset, &record);
    if (status == LOAM_OK)
        status = add_record(l, record);
    json_decref(record);
    return end_record(l, status, &before, &found, e);
}

static loam_status read_lines(loam_loader *l, const char *data, size_t n, size_t begin)
{
    l->line = 1;
    for (size_t at = begin; at < n; l->line++) {
        const char *newline = memchr(data + at, '\n', n - at);
        size_t end = newline ? (size_t)(newline - data) : n;
        size_t first = at;
        while (first < end && strchr(" \t\r", data[first]) && data[first])
            first++;
        if (first < end)
            LOAM_TRY(read_line(l, data + at, end - at, at));
        at = end + 1;
    }
    return LOAM_OK;
}

/* ---- arrays ------------------------------------------------------------------------------- */

/* A place in an array's text. */
typedef struct reader {
    const char *data;
    size_t n, at;
    int64_t line;
    size_t line_begin;
} reader;

static void advance(reader *r, size_t to)
{
    for (; r->at < to; r->at++) {
        if (r->data[r->at] == '\n') {
            r->line++;
            r->line_begin = r->at + 1;
        }
    }
}

/* The next character that is no space, or 0 at the end. */
static char peek(reader *r)
{
    size_t to = r->at;
    while (to < r->n && (r->data[to] == ' ' || r->data[to] == '\t' || r->data[to] == '\r' ||
                         r->data[to] == '\n'))
        to++;
    advance(r, to);
    return to < r->n ? r->data[to] : '\0';
}

static loam_status refuse_at(loam_loader *l, const reader *r, char found, const char *expected)
{
    char what[32] = "the end of the file";
    if (found)
        snprintf(what, sizeof what, found >= ' ' && found < 127 ? "'%c'" : "a byte 0x%02x",
                 (unsigned char)found);
    return loam_fail(l->e, LOAM_E_DATA, "%s:%lld:%zu: found %s, expected %s", l->file_name,
                     (long long)r->line, r->at - r->line_begin + 1, what, expected);
}

static loam_status read_element(loam_loader *l, reader *r)
{
    json_error_t je = {0};
    l->line = r->line;
    json_t *record =
        json_loadb(r->data + r->at, r->n - r->at,
                   JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &je);
    if (!record) {
        int64_t column = je.column + (je.line <= 1 ? (int64_t)(r->at - r->line_begin) : 0);
        return refuse_syntax(l, &je, r->line + LOAM_MAX(je.line, 1) - 1, column,
                             "a JSON object as the array's next element");
    }
    loam_dataset before = *l->set;
    loam_error found = {0}, *e = l->e;
    l->e = &found;
    l->n_records++;
    loam_status status = add_record(l, record);
    json_decref(record);
    advance(r, r->at + (size_t)je.position);
    return end_record(l, status, &before, &found, e);
}

static loam_status read_array(loam_loader *l, const char *data, size_t n, size_t begin)
{
    reader r = {.data = data, .n = n, .at = begin, .line = 1, .line_begin = begin};
    l->line = 1;
    LOAM_TRY(check_text(l, data + begin, n - begin, begin));
    peek(&r);
    advance(&r, r.at + 1); /* the bracket */
    char c = peek(&r);
    while (c != ']') {
        if (!c)
            return refuse_at(l, &r, c, "an element of the array, or its ']'");
        LOAM_TRY(read_element(l, &r));
        c = peek(&r);
        if (c != ',' && c != ']')
            return refuse_at(l, &r, c, "',' or ']' after an element of the array");
        if (c == ',') {
            advance(&r, r.at + 1);
            c = peek(&r);
            if (c == ']')
                return refuse_at(l, &r, c, "an element of the array after the ','");
        }
    }
    advance(&r, r.at + 1);
    c = peek(&r);
    return c || r.at < r.n ? refuse_at(l, &r, c, "nothing after the array") : LOAM_OK;
}

/* ---- files -------------------------------------------------------------------------------- */

static bool has_json_extension(const char *name)
{
    static const char *const extensions[] = {".jsonl", ".ndjson", ".json"};
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < LOAM_COUNT(extensions); i++) {
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    }
    return false;
}

/* Whether a text begins as an object with a key, or as an array of objects. */
static bool begins_as_json(reader r)
{
    char c = peek(&r);
    if (c == '[') {
        advance(&r, r.at + 1);
        if (peek(&r) != '{')
            return false;
        c = '{';
    }
    if (c != '{')
        return false;
    advance(&r, r.at + 1);
    c = peek(&r);
    return c == '"' || c == '}';
}

loam_status loam_data_read(loam_loader *l, const char *data, size_t n)
{
    const unsigned char *u = (const unsigned char *)data;
    if (n >= 2 && ((u[0] == 0xFF && u[1] == 0xFE) || (u[0] == 0xFE && u[1] == 0xFF)))
        return loam_fail(l->e, LOAM_E_DATA,
                         "%s: the file begins with the mark of UTF-16; expected UTF-8: convert it "
                         "(iconv -f UTF-16 -t UTF-8)",
                         l->file_name);
    size_t begin = n >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    reader r = {.data = data, .n = n, .at = begin, .line = 1, .line_begin = begin};
    bool is_json = l->format != LOAM_DATA_AUTO
                       ? l->format != LOAM_DATA_PLAIN
                       : has_json_extension(l->file_name) || begins_as_json(r);
    if (is_json)
        return peek(&r) == '[' ? read_array(l, data, n, begin) : read_lines(l, data, n, begin);
    l->line = 1;
    LOAM_TRY(check_text(l, data + begin, n - begin, begin));
    l->line = 1;
    l->n_records++;
    return loam_data_read_plain(l, data + begin, n - begin);
}
