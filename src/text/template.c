/* template.c: chat templates on top of the Jinja engine, and the spans of assistant turns. */
#include "text/template.h"

#include "text/jinja.h"

#include <string.h>
#include <time.h>

#define MAX_SOURCE_BYTES ((size_t)16 << 20)

/* ---- parsing ------------------------------------------------------------------------------- */

/* Copies the source with every newline as "\n" and without one at the end. */
static void normalise(char *out, size_t *n, const char *source, size_t bytes)
{
    size_t written = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = source[i];
        if (c == '\r') {
            c = '\n';
            if (i + 1 < bytes && source[i + 1] == '\n')
                i++;
        }
        out[written++] = c;
    }
    if (written > 0 && out[written - 1] == '\n')
        written--;
    *n = written;
}

static loam_status check_source(const char *source, size_t bytes, const char *name, loam_error *e)
{
    size_t bad = 0;
    if (bytes > MAX_SOURCE_BYTES)
        return loam_fail(e, LOAM_E_FORMAT, "%s: the template has %zu bytes, expected at most %zu",
                         name, bytes, MAX_SOURCE_BYTES);
    if (jinja_utf8_valid(source, bytes, &bad))
        return LOAM_OK;
    size_t line = 1;
    size_t line_begin = 0;
    for (size_t i = 0; i < bad; i++) {
        if (source[i] == '\n') {
            line++;
            line_begin = i + 1;
        }
    }
    return loam_fail(e, LOAM_E_FORMAT,
                     "%s:%zu:%zu: found the byte 0x%02x (offset %zu), expected UTF-8", name, line,
                     jinja_utf8_count(source + line_begin, bad - line_begin) + 1,
                     (unsigned char)source[bad], bad);
}

static loam_status build(loam_template *t, const char *source, size_t bytes, const char *name,
                         loam_error *e)
{
    t->arena = loam_arena_new();
    char *copy = t->arena != NULL ? loam_arena_alloc(t->arena, bytes + 1) : NULL;
    t->name = copy != NULL ? loam_arena_strdup(t->arena, name) : NULL;
    if (t->name == NULL)
        return loam_fail(e, LOAM_E_MEMORY, "%s: out of memory for the template", name);
    jinja_source s = {.name = t->name, .data = copy, .arena = t->arena, .error = e};
    normalise(copy, &s.bytes, source, bytes);
    return jinja_parse(&s, &t->body);
}

loam_status loam_template_create(const char *source, size_t bytes, const char *name,
                                 loam_template **out, loam_error *e)
{
    loam_error own = {0};
    *out = NULL;
    LOAM_TRY(check_source(source, bytes, name, e));
    loam_template *t = loam_alloc(sizeof *t);
    if (t == NULL)
        return loam_fail(e, LOAM_E_MEMORY, "%s: out of memory for the template", name);
    loam_status status = build(t, source, bytes, name, &own);
    if (status != LOAM_OK) {
        loam_template_free(t);
        return loam_fail(e, status, "%s", own.message);
    }
    *out = t;
    return LOAM_OK;
}

void loam_template_free(loam_template *t)
{
    if (t == NULL)
        return;
    loam_arena_free(t->arena);
    loam_free(t);
}

/* ---- rendering ----------------------------------------------------------------------------- */

loam_template_limits loam_template_limits_default(void)
{
    time_t now = time(NULL);
    struct tm local;
    int64_t offset_s = localtime_r(&now, &local) != NULL ? local.tm_gmtoff : 0;
    return (loam_template_limits){.max_depth = 500,
                                  .max_steps = 20000000,
                                  .max_output_bytes = (size_t)64 << 20,
                                  .max_memory_bytes = (size_t)256 << 20,
                                  .clock_s = (int64_t)now + offset_s};
}

/* What one rendering sees: the variables, and in a span search the messages and the prompt. */
typedef struct job {
    const json_t *variables; /* an object, or NULL */
    const json_t *messages;  /* NULL: those of the variables */
    size_t n_messages;
    bool prompt;
} job;

static bool set_variable(jinja_run *run, const char *name, jinja_value *value)
{
    jinja_value *key = value != NULL ? jinja_string(run, name, strlen(name)) : NULL;
    return key != NULL && jinja_dict_set(run, run->variables, key, value);
}

static bool set_messages(jinja_run *run, const job *j)
{
    jinja_value *list = jinja_list(run, JINJA_SEQ_LIST, j->n_messages);
    for (size_t i = 0; list != NULL && i < j->n_messages; i++) {
        jinja_value *message = jinja_from_json(run, json_array_get(j->messages, i));
        if (message == NULL)
            return false;
        list->as.list.items[list->as.list.n++] = message;
    }
    return set_variable(run, "messages", list) &&
           set_variable(run, "add_generation_prompt", jinja_boolean(run, j->prompt));
}

static bool set_variables(jinja_run *run, const job *j)
{
    jinja_value *dict = jinja_dict_value(run, JINJA_DICT);
    if (dict == NULL)
        return false;
    run->variables = dict->as.dict;
    json_t *object = (json_t *)j->variables; /* jansson's iterators are not const */
    void *at = object != NULL ? json_object_iter(object) : NULL;
    for (; at != NULL; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        bool replaced = j->messages != NULL && strcmp(name, "messages") == 0;
        if (!replaced && !set_variable(run, name, jinja_from_json(run, json_object_iter_value(at))))
            return false;
    }
    return j->messages == NULL || set_messages(run, j);
}

static jinja_value *new_constant(jinja_run *run, jinja_kind kind)
{
    jinja_value *v = jinja_alloc(run, sizeof *v);
    if (v != NULL)
        v->kind = kind;
    return v;
}

static bool set_constants(jinja_run *run)
{
    run->none = new_constant(run, JINJA_NONE);
    run->no = new_constant(run, JINJA_BOOLEAN);
    run->yes = new_constant(run, JINJA_BOOLEAN);
    run->nothing = new_constant(run, JINJA_UNDEFINED);
    run->empty = jinja_string(run, "", 0);
    if (run->empty == NULL || run->nothing == NULL || run->yes == NULL)
        return false;
    run->yes->as.boolean = true;
    return true;
}

static void cut_text(loam_string *text, size_t bytes)
{
    text->length_bytes = bytes;
    if (text->data != NULL)
        text->data[bytes] = '\0';
}

static loam_status render(const loam_template *t, const job *j, const loam_template_limits *limits,
                          loam_string *out, loam_error *e)
{
    loam_template_limits defaults;
    if (limits == NULL) {
        defaults = loam_template_limits_default();
        limits = &defaults;
    }
    jinja_run run = {.owner = t, .limits = limits, .out = out, .error = e};
    run.out_begin = out->length_bytes;
    run.arena = loam_arena_new();
    if (run.arena == NULL)
        return loam_fail(e, LOAM_E_MEMORY, "%s: out of memory rendering the template", t->name);
    bool ready = set_constants(&run) && set_variables(&run, j);
    jinja_scope *scope = ready ? jinja_scope_new(&run, NULL) : NULL;
    bool done = scope != NULL && jinja_execute(&run, scope, t->body) != JINJA_FAILED;
    LOAM_ASSERT(done == (run.status == LOAM_OK)); /* what fails says why */
    loam_arena_free(run.arena);
    if (run.status != LOAM_OK) {
        out->failed = false;
        cut_text(out, run.out_begin);
    }
    return run.status;
}

loam_status loam_template_render(const loam_template *t, const json_t *variables,
                                 const loam_template_limits *limits, loam_string *out,
                                 loam_error *e)
{
    if (!json_is_object(variables))
        return loam_fail(e, LOAM_E_USAGE, "%s: the variables of a template must be a JSON object",
                         t->name);
    return render(t, &(job){.variables = variables}, limits, out, e);
}

/* ---- spans --------------------------------------------------------------------------------- */

void loam_template_span_list_free(loam_template_span_list *list)
{
    loam_free(list->items);
    *list = (loam_template_span_list){0};
}

static loam_status add_span(loam_template_span_list *list, loam_template_span span, loam_error *e)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        loam_template_span *items = loam_realloc(list->items, capacity * sizeof *items);
        if (items == NULL)
            return loam_fail(e, LOAM_E_MEMORY, "out of memory for the spans of a conversation");
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = span;
    return LOAM_OK;
}

typedef struct span_search {
    const loam_template *t;
    const json_t *messages;
    const json_t *variables;
    const loam_template_limits *limits;
    const char *text; /* the whole conversation's */
    size_t bytes;
    loam_string before; /* the prompt of a turn */
    loam_string after;  /* up to and with the turn */
    loam_error *error;
} span_search;

static loam_status render_prefix(const span_search *s, size_t n, bool prompt, loam_string *out)
{
    loam_string_clear(out);
    return render(
        s->t,
        &(job){
            .variables = s->variables, .messages = s->messages, .n_messages = n, .prompt = prompt},
        s->limits, out, s->error);
}

static bool is_prefix(const loam_string *prefix, const char *text, size_t bytes)
{
    return prefix->length_bytes <= bytes &&
           (prefix->length_bytes == 0 || memcmp(prefix->data, text, prefix->length_bytes) == 0);
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether the turn [begin, end) of the text starts with the message's content, blanks aside; true
 * where the content is no text to compare with. */
static bool starts_with_content(const json_t *message, const char *begin, const char *end)
{
    const json_t *value = json_object_get(message, "content");
    if (!json_is_string(value))
        return true;
    const char *content = json_string_value(value);
    const char *content_end = content + json_string_length(value);
    while (content < content_end && is_blank(*content))
        content++;
    while (begin < end && is_blank(*begin))
        begin++;
    size_t compared = LOAM_MIN((size_t)(content_end - content), (size_t)16);
    while (compared > 0 && is_blank(content[compared - 1]))
        compared--;
    return (size_t)(end - begin) >= compared && memcmp(begin, content, compared) == 0;
}

static loam_status refuse_turn(const span_search *s, size_t i, const char *reason)
{
    return loam_fail(s->error, LOAM_E_DATA,
                     "%s: the assistant's turn in message %zu cannot be "
                     "told from the rest of the text: %s",
                     s->t->name, i, reason);
}

/* A template that ignores add_generation_prompt leaves its role header in the turn. */
static loam_status check_prompt(span_search *s, size_t i, const json_t *message)
{
    size_t begin = s->before.length_bytes;
    if (starts_with_content(message, s->text + begin, s->text + s->after.length_bytes))
        return LOAM_OK;
    loam_string plain = {0};
    loam_status status = render_prefix(s, i, false, &plain);
    bool ignored = status == LOAM_OK && plain.length_bytes == begin;
    loam_string_free(&plain);
    LOAM_TRY(status);
    if (ignored)
        return refuse_turn(s, i,
                           "the template does not look at add_generation_prompt, so its "
                           "role header would be taken for the assistant's words");
    return LOAM_OK;
}

static bool ends_with(const loam_string *text, const char *end, size_t bytes)
{
    return bytes > 0 && text->length_bytes >= bytes &&
           memcmp(text->data + text->length_bytes - bytes, end, bytes) == 0;
}

/* Some templates close a conversation that asks for no answer with eos_token (Phi-3). That is not
 * the turn's end: with add_generation_prompt it is not there. Cuts it off s->after. */
static loam_status cut_closing_token(span_search *s, size_t i)
{
    const json_t *eos = json_object_get(s->variables, "eos_token");
    size_t bytes = json_is_string(eos) ? json_string_length(eos) : 0;
    loam_string prompted = {0};
    if (!ends_with(&s->after, json_string_value(eos), bytes))
        return LOAM_OK;
    loam_status status = render_prefix(s, i + 1, true, &prompted);
    if (status == LOAM_OK && !is_prefix(&s->after, prompted.data, prompted.length_bytes)) {
        loam_string open = s->after;
        open.length_bytes -= bytes;
        if (is_prefix(&open, prompted.data, prompted.length_bytes))
            s->after.length_bytes -= bytes;
    }
    loam_string_free(&prompted);
    return status;
}

static loam_status find_turn(span_search *s, size_t i, loam_template_span *span)
{
    const json_t *message = json_array_get(s->messages, i);
    LOAM_TRY(render_prefix(s, i, true, &s->before));
    LOAM_TRY(render_prefix(s, i + 1, false, &s->after));
    if (!is_prefix(&s->before, s->after.data, s->after.length_bytes))
        return refuse_turn(s, i,
                           "what the template writes for add_generation_prompt is not how it "
                           "begins this turn");
    LOAM_TRY(cut_closing_token(s, i));
    if (!is_prefix(&s->after, s->text, s->bytes))
        return refuse_turn(s, i,
                           "the template renders the messages up to it differently when "
                           "more follow (as those do that drop earlier reasoning)");
    LOAM_TRY(check_prompt(s, i, message));
    size_t end = s->after.length_bytes;
    while (end > s->before.length_bytes && is_blank(s->text[end - 1]))
        end--;
    *span = (loam_template_span){
        .begin_bytes = s->before.length_bytes, .end_bytes = end, .message_index = i};
    return LOAM_OK;
}

static loam_status find_turns(span_search *s, loam_template_span_list *spans)
{
    for (size_t i = 0; i < json_array_size(s->messages); i++) {
        loam_template_span span = {0};
        const json_t *role = json_object_get(json_array_get(s->messages, i), "role");
        if (!json_is_string(role) || strcmp(json_string_value(role), "assistant") != 0)
            continue;
        LOAM_TRY(find_turn(s, i, &span));
        LOAM_TRY(add_span(spans, span, s->error));
    }
    return LOAM_OK;
}

loam_status loam_template_spans(const loam_template *t, const json_t *messages,
                                const json_t *variables, const loam_template_limits *limits,
                                loam_string *text, loam_template_span_list *spans, loam_error *e)
{
    span_search s = {
        .t = t, .messages = messages, .variables = variables, .limits = limits, .error = e};
    if (!json_is_array(messages) || (variables != NULL && !json_is_object(variables)))
        return loam_fail(e, LOAM_E_USAGE,
                         "%s: the messages must be a JSON array and the variables an object",
                         t->name);
    loam_template_limits defaults = loam_template_limits_default();
    if (limits == NULL) /* here, so that the clock is the same in every rendering */
        s.limits = &defaults;
    size_t text_begin = text->length_bytes;
    size_t n_spans = spans->n;
    job whole = {.variables = variables,
                 .messages = messages,
                 .n_messages = json_array_size(messages),
                 .prompt = false};
    LOAM_TRY(render(t, &whole, s.limits, text, e));
    s.text = text->data != NULL ? text->data + text_begin : "";
    s.bytes = text->length_bytes - text_begin;
    loam_status status = find_turns(&s, spans);
    loam_string_free(&s.before);
    loam_string_free(&s.after);
    if (status != LOAM_OK) {
        spans->n = n_spans;
        cut_text(text, text_begin);
    }
    return status;
}
