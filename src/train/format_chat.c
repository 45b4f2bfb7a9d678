/* format_chat.c: conversations through the chat template, with the assistant's turns marked. */
#include "train/dataset.h"

#include <string.h>

#define WHERE_BYTES 96

/* A conversation as the template wants it. */
typedef struct chat {
    json_t *messages;
    json_t *tools; /* or NULL */
} chat;

static void chat_free(chat *c)
{
    json_decref(c->messages);
    json_decref(c->tools);
}

static const char *string_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

static bool is_assistant(const json_t *messages, size_t i)
{
    return strcmp(string_of(json_array_get(messages, i), "role"), "assistant") == 0;
}

static bool is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

/* jansson's copy goes on where memory for a member is missing. */
static json_t *copy_of(json_t *value)
{
    json_t *copy = json_copy(value);
    if (copy && json_object_size(copy) == json_object_size(value))
        return copy;
    json_decref(copy);
    return NULL;
}

static const char *first_tool_name(const json_t *list)
{
    const json_t *call = json_array_get(list, 0);
    const json_t *function = json_object_get(call, "function");
    return string_of(function ? function : call, "name");
}

/* ---- tools -------------------------------------------------------------------------------- */

/* A value given as itself or as its JSON text: *out is a new reference. */
static loam_status from_text(loam_loader *l, const char *where, json_t *value, json_t **out)
{
    json_error_t je = {0};
    if (!json_is_string(value)) {
        *out = json_incref(value);
        return LOAM_OK;
    }
    *out = json_loadb(json_string_value(value), json_string_length(value),
                      JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
    if (*out)
        return LOAM_OK;
    if (loam_data_json_failed(&je))
        return loam_data_no_memory(l);
    return loam_data_refuse(l, "%s is a string that is not JSON: %s (its character %d)", where,
                            je.text, je.column);
}

static loam_status read_tools(loam_loader *l, const json_t *record, json_t **out)
{
    json_t *value = json_object_get(record, "tools");
    *out = NULL;
    if (!is_given(value))
        return LOAM_OK;
    if (json_is_string(value) && loam_data_is_blank(json_string_value(value)))
        return LOAM_OK;
    LOAM_TRY(from_text(l, "'tools'", value, out));
    if (!json_is_array(*out))
        return loam_data_refuse(l, "'tools' is %s, expected an array of objects",
                                loam_data_type_name(*out));
    for (size_t i = 0; i < json_array_size(*out); i++) {
        const json_t *tool = json_array_get(*out, i);
        if (!json_is_object(tool))
            return loam_data_refuse(l, "tools[%zu] is %s, expected an object", i,
                                    loam_data_type_name(tool));
        const json_t *function = json_object_get(tool, "function");
        const json_t *holder = function ? function : tool;
        if (!json_is_string(json_object_get(holder, "name")))
            return loam_data_refuse(l,
                                    "tools[%zu] has no string 'name', expected {\"type\": "
                                    "\"function\", \"function\": {\"name\", ...}}",
                                    i);
    }
    if (json_array_size(*out) == 0) {
        json_decref(*out);
        *out = NULL;
    }
    return LOAM_OK;
}

/* {"type": "function", "function": {"name", "arguments": object}}, whichever way it was written. */
static loam_status normal_call(loam_loader *l, const char *where, json_t *call, json_t *out)
{
    char at[WHERE_BYTES + 32];
    if (!json_is_object(call))
        return loam_data_refuse(l, "%s is %s, expected an object", where,
                                loam_data_type_name(call));
    json_t *function = json_object_get(call, "function");
    bool is_flat = function == NULL;
    function = copy_of(is_flat ? call : function);
    json_t *outer = is_flat ? json_pack("{s:s}", "type", "function") : copy_of(call);
    loam_status status = LOAM_OK;
    const char *name;
    json_t *arguments = json_object_get(function, "arguments"), *object = NULL;
    snprintf(at, sizeof at, "%s.", where);
    if (!function || !outer)
        status = loam_data_no_memory(l);
    else if (!json_is_object(function))
        status = loam_data_refuse(l, "%s'function' is %s, expected an object", at,
                                  loam_data_type_name(function));
    else
        status = loam_data_string(l, function, at, "name", &name);
    snprintf(at, sizeof at, "%s.arguments", where);
    if (status == LOAM_OK && is_given(arguments))
        status = from_text(l, at, arguments, &object);
    else if (status == LOAM_OK)
        object = json_object();
    if (status == LOAM_OK && object && !json_is_object(object))
        status = loam_data_refuse(l, "%s is %s, expected an object or its JSON text", at,
                                  loam_data_type_name(object));
    if (status == LOAM_OK &&
        (!object || json_object_set(function, "arguments", object) != 0 ||
         json_object_set(outer, "function", function) != 0 || json_array_append(out, outer) != 0))
        status = loam_data_no_memory(l);
    json_decref(object);
    json_decref(function);
    json_decref(outer);
    return status;
}

static loam_status normal_calls(loam_loader *l, size_t i, json_t *message)
{
    char where[WHERE_BYTES];
    json_t *calls = json_object_get(message, "tool_calls");
    if (!is_given(calls) || (json_is_array(calls) && json_array_size(calls) == 0)) {
        json_object_del(message, "tool_calls");
        return LOAM_OK;
    }
    if (!json_is_array(calls))
        return loam_data_refuse(l, "messages[%zu].'tool_calls' is %s, expected an array", i,
                                loam_data_type_name(calls));
    if (strcmp(string_of(message, "role"), "assistant") != 0)
        return loam_data_refuse(l,
                                "messages[%zu] has 'tool_calls', expected them in a message of "
                                "the assistant alone",
                                i);
    json_t *normal = json_array();
    loam_status status = normal ? LOAM_OK : loam_data_no_memory(l);
    for (size_t j = 0; status == LOAM_OK && j < json_array_size(calls); j++) {
        snprintf(where, sizeof where, "messages[%zu].tool_calls[%zu]", i, j);
        status = normal_call(l, where, json_array_get(calls, j), normal);
    }
    if (status == LOAM_OK && json_object_set(message, "tool_calls", normal) != 0)
        status = loam_data_no_memory(l);
    json_decref(normal);
    return status;
}

/* Some templates join the arguments as text: the same calls with their JSON text instead. */
static bool calls_as_text(json_t *messages, bool *any)
{
    *any = false;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *calls = json_object_get(json_array_get(messages, i), "tool_calls");
        for (size_t j = 0; j < json_array_size(calls); j++) {
            json_t *function = json_object_get(json_array_get(calls, j), "function");
            char *text = json_dumps(json_object_get(function, "arguments"), 0);
            bool ok = text && json_object_set_new(function, "arguments", json_string(text)) == 0;
            json_free_t give_back;
            json_get_alloc_funcs(NULL, &give_back);
            give_back(text);
            if (!ok)
                return false;
            *any = true;
        }
    }
    return true;
}

/* ---- messages ----------------------------------------------------------------------------- */

/* Content given as parts: their texts joined. */
static loam_status join_parts(loam_loader *l, size_t i, const json_t *parts, json_t *message)
{
    loam_string text = {0};
    loam_status status = LOAM_OK;
    for (size_t j = 0; status == LOAM_OK && j < json_array_size(parts); j++) {
        const json_t *part = json_array_get(parts, j);
        const char *type = string_of(part, "type");
        if (strcmp(type, "text") != 0 || !json_is_string(json_object_get(part, "text")))
            status = loam_data_refuse(l,
                                      "messages[%zu].content[%zu] is of the type '%.60s', "
                                      "expected {\"type\": \"text\", \"text\"}: Loam trains on "
                                      "text alone",
                                      i, j, type);
        else
            loam_string_puts(&text, string_of(part, "text"));
    }
    if (status == LOAM_OK &&
        (text.failed ||
         json_object_set_new(message, "content", json_string(text.data ? text.data : "")) != 0))
        status = loam_data_no_memory(l);
    loam_string_free(&text);
    return status;
}

static loam_status normal_content(loam_loader *l, size_t i, json_t *message)
{
    char where[WHERE_BYTES], keys[200];
    const json_t *content = json_object_get(message, "content");
    bool has_calls = json_object_get(message, "tool_calls") != NULL;
    bool has_reasoning = is_given(json_object_get(message, "reasoning_content"));
    snprintf(where, sizeof where, "messages[%zu].", i);
    const char *text;
    if (has_reasoning)
        LOAM_TRY(loam_data_string(l, message, where, "reasoning_content", &text));
    if (json_is_array(content)) {
        LOAM_TRY(join_parts(l, i, content, message));
    } else if ((has_calls || has_reasoning) && !is_given(content)) {
        /* Templates add the content to other text, which null and nothing cannot be. */
        if (json_object_set_new(message, "content", json_string("")) != 0)
            return loam_data_no_memory(l);
    } else {
        LOAM_TRY(loam_data_string(l, message, where, "content", &text));
    }
    const char *role = string_of(message, "role");
    if (loam_data_is_blank(string_of(message, "content")) && !has_calls && !has_reasoning &&
        strcmp(role, "tool") != 0)
        return loam_data_refuse(l,
                                "messages[%zu] is an empty turn of the role '%s', expected some "
                                "content (keys found: %s)",
                                i, role, loam_data_keys(message, keys, sizeof keys));
    return LOAM_OK;
}

/* Checks a message and appends a copy as templates want it. */
static loam_status add_message(loam_loader *l, json_t *messages, json_t *source)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    size_t i = json_array_size(messages);
    char where[WHERE_BYTES];
    const char *role;
    if (!json_is_object(source))
        return loam_data_refuse(l,
                                "messages[%zu] is %s, expected an object with 'role' and "
                                "'content'",
                                i, loam_data_type_name(source));
    snprintf(where, sizeof where, "messages[%zu].", i);
    LOAM_TRY(loam_data_string(l, source, where, "role", &role));
    bool is_known = false;
    for (int k = 0; k < LOAM_COUNT(roles); k++)
        is_known = is_known || strcmp(role, roles[k]) == 0;
    if (!is_known)
        return loam_data_refuse(l,
                                "messages[%zu] has the role '%.60s', expected system, "
                                "developer, user, assistant or tool",
                                i, role);
    json_t *message = copy_of(source);
    if (!message || json_array_append_new(messages, message) != 0)
        return loam_data_no_memory(l);
    LOAM_TRY(normal_calls(l, i, message));
    return normal_content(l, i, message);
}

/* ---- rendering ---------------------------------------------------------------------------- */

/* A template's own failure becomes the record's; what no record could help stays what it is. */
static loam_status from_template(loam_loader *l, loam_status status, const loam_error *found)
{
    if (status == LOAM_OK)
        return LOAM_OK;
    return loam_fail(l->e, status, "%s:%lld: %s", l->file_name, (long long)l->line, found->message);
}

static loam_status variables_of(loam_loader *l, const chat *c, json_t **out)
{
    *out = copy_of(l->variables);
    if (*out && (!c->tools || json_object_set(*out, "tools", c->tools) == 0))
        return LOAM_OK;
    json_decref(*out);
    return loam_data_no_memory(l);
}

/* Renders the first n messages. */
static loam_status render(loam_loader *l, const json_t *messages, size_t n, bool prompt,
                          json_t *variables, loam_string *out, loam_error *found)
{
    json_t *first = json_array();
    bool ok = first != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = json_array_append(first, json_array_get(messages, i)) == 0;
    ok = ok && json_object_set(variables, "messages", first) == 0 &&
         json_object_set_new(variables, "add_generation_prompt", json_boolean(prompt)) == 0;
    json_decref(first);
    if (!ok)
        return loam_fail(found, LOAM_E_MEMORY, "no memory for a conversation");
    loam_string_clear(out);
    return loam_template_render(l->chat, variables, &l->limits, out, found);
}

/* A template may know nothing of tools: what it leaves out would be trained on as if it had not
 * been said. */
static loam_status check_shown(loam_loader *l, const chat *c, size_t n_messages)
{
    const char *text = l->text.data ? l->text.data : "";
    const char *name = c->tools ? first_tool_name(c->tools) : "";
    if (!strstr(text, name))
        return loam_data_refuse(l,
                                "the chat template leaves 'tools' out (the tool '%.60s' is not "
                                "in its text); remove them, or use a model with tools",
                                name);
    for (size_t i = 0; i < n_messages; i++) {
        const json_t *calls = json_object_get(json_array_get(c->messages, i), "tool_calls");
        name = first_tool_name(calls);
        if (calls && !strstr(text, name))
            return loam_data_refuse(l,
                                    "the chat template leaves the tool calls of messages[%zu] "
                                    "out (the tool '%.60s' is not in its text)",
                                    i, name);
    }
    return LOAM_OK;
}

/* A template without any mark after the last turn would teach the model never to stop: the EOS
 * takes the place of what follows the turn. */
static loam_status end_turn(loam_loader *l, size_t end_bytes)
{
    const loam_tokens *t = &l->tokens;
    int64_t last = t->n - 1;
    while (last >= 0 && t->offsets_bytes[last] >= end_bytes)
        last--;
    if (last < 0 || loam_token_is_control(l->tokenizer, t->ids[last]) ||
        loam_token_is_eog(l->tokenizer, t->ids[last]))
        return LOAM_OK;
    l->draft.n = last + 1 + l->draft.n_bos;
    return loam_data_end(l);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t trimmed_end(const loam_string *s, size_t begin)
{
    size_t end = s->length_bytes;
    while (end > begin && is_space(s->data[end - 1]))
        end--;
    return end;
}

/* Adds the conversation rendered in l->text, trained where l->spans and the options say. */
static loam_status add_rendered(loam_loader *l, const chat *c, size_t n_messages)
{
    const loam_template_span *spans = l->spans.items;
    size_t n = l->spans.n;
    LOAM_TRY(check_shown(l, c, n_messages));
    LOAM_TRY(loam_data_tokenize(l, l->text.data ? l->text.data : "", l->text.length_bytes));
    switch (l->o.train_on) {
    case LOAM_TRAIN_ON_ALL:
        loam_data_mark(l, 0, l->text.length_bytes);
        break;
    case LOAM_TRAIN_ON_COMPLETION:
        if (n > 0)
            loam_data_mark(l, spans[0].begin_bytes, trimmed_end(&l->text, spans[0].begin_bytes));
        break;
    case LOAM_TRAIN_ON_LAST:
        if (n > 0)
            loam_data_mark(l, spans[n - 1].begin_bytes, spans[n - 1].end_bytes);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            loam_data_mark(l, spans[i].begin_bytes, spans[i].end_bytes);
    }
    if (n > 0 && spans[n - 1].message_index + 1 == n_messages)
        LOAM_TRY(end_turn(l, spans[n - 1].end_bytes));
    return loam_data_add(l);
}

/* ---- templates that rewrite --------------------------------------------------------------- */

static bool starts_with_content(const json_t *message, const char *turn, const char *end)
{
    const char *content = string_of(message, "content");
    while (is_space(*content))
        content++;
    while (turn < end && is_space(*turn))
        turn++;
    size_t n = LOAM_MIN(strlen(content), (size_t)16);
    while (n > 0 && is_space(content[n - 1]))
        n--;
    return (size_t)(end - turn) >= n && memcmp(turn, content, n) == 0;
}

/* Renders the conversation up to the assistant's message i, whose turn becomes the only span. */
static loam_status last_turn(loam_loader *l, const chat *c, size_t i, json_t *variables,
                             loam_error *found)
{
    loam_string *before = &l->before, *text = &l->text;
    LOAM_TRY(render(l, c->messages, i, true, variables, before, found));
    LOAM_TRY(render(l, c->messages, i + 1, false, variables, text, found));
    size_t n = before->length_bytes;
    if (n > text->length_bytes || (n > 0 && memcmp(before->data, text->data, n) != 0))
        return loam_fail(found, LOAM_E_DATA,
                         "the assistant's turn in messages[%zu] cannot be told from the rest: the "
                         "chat template's generation prompt is not how it begins this turn",
                         i);
    size_t end = trimmed_end(text, n);
    if (n == end)
        return loam_fail(found, LOAM_E_DATA,
                         "the chat template writes nothing for the assistant's turn in "
                         "messages[%zu]",
                         i);
    if (!starts_with_content(json_array_get(c->messages, i), text->data + n, text->data + end)) {
        LOAM_TRY(render(l, c->messages, i, false, variables, &l->after, found));
        if (l->after.length_bytes == n)
            return loam_fail(found, LOAM_E_DATA,
                             "the chat template does not look at add_generation_prompt, so its "
                             "role header would be taken for the words of messages[%zu]",
                             i);
    }
    l->spans.items[0] =
        (loam_template_span){.begin_bytes = n, .end_bytes = end, .message_index = i};
    l->spans.n = 1;
    return LOAM_OK;
}

/* One example for each assistant turn: the conversation up to it, with this turn trained. */
static loam_status add_turns(loam_loader *l, const chat *c, json_t *variables, loam_error *found)
{
    size_t n = json_array_size(c->messages), first = 0;
    if (l->spans.capacity == 0) {
        l->spans.items = loam_alloc(sizeof *l->spans.items);
        if (!l->spans.items)
            return loam_data_no_memory(l);
        l->spans.capacity = 1;
    }
    for (size_t i = 0; i < n && l->o.train_on == LOAM_TRAIN_ON_LAST; i++)
        first = is_assistant(c->messages, i) ? i : first;
    for (size_t i = first; i < n; i++) {
        if (!is_assistant(c->messages, i))
            continue;
        LOAM_TRY(from_template(l, last_turn(l, c, i, variables, found), found));
        LOAM_TRY(add_rendered(l, c, i + 1));
    }
    return LOAM_OK;
}

/* Renders the whole conversation and finds its spans. */
static loam_status render_all(loam_loader *l, const chat *c, json_t *variables, loam_error *found)
{
    l->spans.n = 0;
    loam_string_clear(&l->text);
    if (l->o.train_on == LOAM_TRAIN_ON_ALL)
        return render(l, c->messages, json_array_size(c->messages), false, variables, &l->text,
                      found);
    return loam_template_spans(l->chat, c->messages, variables, &l->limits, &l->text, &l->spans,
                               found);
}

static loam_status add_with(loam_loader *l, const chat *c, json_t *variables)
{
    loam_error found = {0}, again = {0};
    loam_status status = render_all(l, c, variables, &found);
    if (status == LOAM_OK)
        return add_rendered(l, c, json_array_size(c->messages));
    if (status != LOAM_E_DATA || l->o.train_on == LOAM_TRAIN_ON_ALL)
        return from_template(l, status, &found);
    return add_turns(l, c, variables, &again);
}

/* Once more, with the arguments of tool calls as text. False where there are none. */
static bool add_again(loam_loader *l, const chat *c, json_t *variables, loam_status *status)
{
    bool any = false;
    if (!calls_as_text(c->messages, &any)) {
        *status = loam_data_no_memory(l);
        return true;
    }
    if (any)
        *status = add_with(l, c, variables);
    return any;
}

static loam_status add_chat(loam_loader *l, const chat *c)
{
    json_t *variables = NULL;
    loam_error *e = l->e, found = {0}, again = {0};
    loam_dataset before = *l->set;
    loam_status status = variables_of(l, c, &variables);
    LOAM_TRY(status);
    l->e = &found;
    status = add_with(l, c, variables);
    if (status == LOAM_E_DATA) {
        loam_data_restore(l->set, &before);
        l->e = &again;
        loam_status second = status;
        if (add_again(l, c, variables, &second) && second != LOAM_E_DATA) {
            status = second;
            found = again;
        }
    }
    l->e = e;
    json_decref(variables);
    return status == LOAM_OK ? LOAM_OK : loam_fail(e, status, "%s", found.message);
}

/* ---- records ------------------------------------------------------------------------------ */

static loam_status need_template(loam_loader *l, const chat *c)
{
    if (!l->chat)
        return loam_fail(
            l->e, LOAM_E_UNSUPPORTED,
            "%s:%lld: a conversation needs a chat template, and the model has none "
            "(nor the tokens of ChatML); use {\"prompt\", \"completion\"} or {\"text\"}",
            l->file_name, (long long)l->line);
    if (l->chat_is_own)
        return LOAM_OK;
    bool has_more = c->tools != NULL;
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        const json_t *message = json_array_get(c->messages, i);
        has_more = has_more || json_object_get(message, "tool_calls") ||
                   is_given(json_object_get(message, "reasoning_content"));
    }
    if (has_more)
        return loam_data_refuse(l, "the model has no chat template, and ChatML, which takes its "
                                   "place, knows no tools and no reasoning");
    return LOAM_OK;
}

static loam_status finish_chat(loam_loader *l, chat *c, loam_status status)
{
    if (status == LOAM_OK)
        status = need_template(l, c);
    if (status == LOAM_OK)
        status = add_chat(l, c);
    chat_free(c);
    return status;
}

/* The array of turns under a key, which is not empty. */
static loam_status turns_of(loam_loader *l, const json_t *record, const char *key, json_t **out)
{
    char keys[200];
    *out = json_object_get(record, key);
    if (!*out)
        return loam_data_refuse(l, "'%s' is missing; expected an array of turns (keys found: %s)",
                                key, loam_data_keys(record, keys, sizeof keys));
    if (!json_is_array(*out) || json_array_size(*out) == 0)
        return loam_data_refuse(l, "'%s' is %s, expected an array of turns", key,
                                json_is_array(*out) ? "empty" : loam_data_type_name(*out));
    return LOAM_OK;
}

static loam_status read_messages(loam_loader *l, const json_t *record, chat *c)
{
    json_t *turns;
    LOAM_TRY(turns_of(l, record, "messages", &turns));
    LOAM_TRY(read_tools(l, record, &c->tools));
    c->messages = json_array();
    if (!c->messages)
        return loam_data_no_memory(l);
    for (size_t i = 0; i < json_array_size(turns); i++)
        LOAM_TRY(add_message(l, c->messages, json_array_get(turns, i)));
    return LOAM_OK;
}

loam_status loam_data_messages(loam_loader *l, const json_t *record)
{
    chat c = {0};
    return finish_chat(l, &c, read_messages(l, record, &c));
}

static loam_status add_pair(loam_loader *l, chat *c, const char *role, const char *content)
{
    json_t *message = json_pack("{s:s, s:s}", "role", role, "content", content);
    loam_status status = message ? add_message(l, c->messages, message) : loam_data_no_memory(l);
    json_decref(message);
    return status;
}

static loam_status add_from_value(loam_loader *l, chat *c, json_t *turn)
{
    static const char *const roles[][2] = {{"human", "user"},    {"user", "user"},
                                           {"gpt", "assistant"}, {"assistant", "assistant"},
                                           {"system", "system"}, {"tool", "tool"}};
    char where[WHERE_BYTES];
    const char *from, *value;
    size_t i = json_array_size(c->messages);
    if (json_object_get(turn, "role") && !json_object_get(turn, "from"))
        return add_message(l, c->messages, turn);
    if (!json_is_object(turn))
        return loam_data_refuse(l,
                                "conversations[%zu] is %s, expected an object with 'from' and "
                                "'value'",
                                i, loam_data_type_name(turn));
    snprintf(where, sizeof where, "conversations[%zu].", i);
    LOAM_TRY(loam_data_string(l, turn, where, "from", &from));
    LOAM_TRY(loam_data_string(l, turn, where, "value", &value));
    for (int k = 0; k < LOAM_COUNT(roles); k++) {
        if (strcmp(from, roles[k][0]) == 0)
            return add_pair(l, c, roles[k][1], value);
    }
    return loam_data_refuse(l,
                            "conversations[%zu] is from '%.60s', expected human, user, gpt, "
                            "assistant, system or tool",
                            i, from);
}

static loam_status read_conversations(loam_loader *l, const json_t *record, chat *c)
{
    json_t *turns;
    const char *system;
    LOAM_TRY(turns_of(l, record, "conversations", &turns));
    LOAM_TRY(read_tools(l, record, &c->tools));
    c->messages = json_array();
    if (!c->messages)
        return loam_data_no_memory(l);
    if (is_given(json_object_get(record, "system"))) {
        LOAM_TRY(loam_data_string(l, record, "", "system", &system));
        if (!loam_data_is_blank(system))
            LOAM_TRY(add_pair(l, c, "system", system));
    }
    for (size_t i = 0; i < json_array_size(turns); i++)
        LOAM_TRY(add_from_value(l, c, json_array_get(turns, i)));
    return LOAM_OK;
}

loam_status loam_data_conversations(loam_loader *l, const json_t *record)
{
    chat c = {0};
    return finish_chat(l, &c, read_conversations(l, record, &c));
}

loam_status loam_data_exchange(loam_loader *l, const char *system, const char *user,
                               const char *assistant)
{
    chat c = {.messages = json_array()};
    loam_status status = c.messages ? LOAM_OK : loam_data_no_memory(l);
    if (status == LOAM_OK && system)
        status = add_pair(l, &c, "system", system);
    if (status == LOAM_OK)
        status = add_pair(l, &c, "user", user);
    if (status == LOAM_OK)
        status = add_pair(l, &c, "assistant", assistant);
    return finish_chat(l, &c, status);
}
