/* format_text.c: records that are texts, and plain text. */
#include "train/dataset.h"

#include <string.h>

/* Tokenizes a whole text, all of it trained, with an EOS. */
static loam_status draft_whole(loam_loader *l, const char *text, size_t n_bytes)
{
    LOAM_TRY(loam_data_tokenize(l, text, n_bytes));
    loam_data_mark(l, 0, n_bytes);
    return loam_data_end(l);
}

/* ---- plain text --------------------------------------------------------------------------- */

static bool has_crlf(const char *data, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        if (data[i] == '\r' && data[i + 1] == '\n')
            return true;
    }
    return false;
}

static loam_status read_plain(loam_loader *l, const char *data, size_t n)
{
    LOAM_TRY(draft_whole(l, data, n));
    return loam_data_add_pieces(l, data);
}

loam_status loam_data_read_plain(loam_loader *l, const char *data, size_t n)
{
    size_t first = 0;
    while (first < n && strchr(" \t\r\n", data[first]))
        first++;
    if (first == n)
        return loam_data_refuse(l, "found no text, only blanks");
    if (!has_crlf(data, n))
        return read_plain(l, data, n);
    /* Lines end with LF in what is trained, as in text that programs read as text. */
    char *copy = loam_alloc(n);
    if (!copy)
        return loam_data_no_memory(l);
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        if (data[i] != '\r' || i + 1 == n || data[i + 1] != '\n')
            copy[written++] = data[i];
    }
    loam_status status = read_plain(l, copy, written);
    loam_free(copy);
    return status;
}

/* ---- records ------------------------------------------------------------------------------ */

static loam_status full_string(loam_loader *l, const json_t *record, const char *key,
                               const char **out)
{
    LOAM_TRY(loam_data_string(l, record, "", key, out));
    if (loam_data_is_blank(*out))
        return loam_data_refuse(l, "'%s' is empty, expected some text", key);
    return LOAM_OK;
}

loam_status loam_data_text(loam_loader *l, const json_t *record)
{
    const char *text;
    LOAM_TRY(full_string(l, record, "text", &text));
    LOAM_TRY(draft_whole(l, text, strlen(text)));
    return loam_data_add(l);
}

/* A prompt and what follows it, joined in l->text with `n_prompt` bytes of prompt. */
static loam_status add_joined(loam_loader *l, size_t n_prompt)
{
    if (l->text.failed)
        return loam_data_no_memory(l);
    LOAM_TRY(loam_data_tokenize(l, l->text.data, l->text.length_bytes));
    loam_data_mark(l, l->o.train_on == LOAM_TRAIN_ON_ALL ? 0 : n_prompt, l->text.length_bytes);
    LOAM_TRY(loam_data_end(l));
    return loam_data_add(l);
}

loam_status loam_data_completion(loam_loader *l, const json_t *record)
{
    const char *prompt, *completion;
    LOAM_TRY(full_string(l, record, "prompt", &prompt));
    LOAM_TRY(full_string(l, record, "completion", &completion));
    if (l->chat_is_own)
        return loam_data_exchange(l, NULL, prompt, completion);
    loam_string_clear(&l->text);
    loam_string_puts(&l->text, prompt);
    size_t n_prompt = l->text.length_bytes;
    loam_string_puts(&l->text, completion);
    return add_joined(l, n_prompt);
}

static loam_status optional_string(loam_loader *l, const json_t *record, const char *key,
                                   const char **out)
{
    const json_t *value = json_object_get(record, key);
    *out = NULL;
    if (!value || json_is_null(value))
        return LOAM_OK;
    LOAM_TRY(loam_data_string(l, record, "", key, out));
    if (loam_data_is_blank(*out))
        *out = NULL;
    return LOAM_OK;
}

loam_status loam_data_instruction(loam_loader *l, const json_t *record)
{
    const char *instruction, *input, *output, *system;
    LOAM_TRY(full_string(l, record, "instruction", &instruction));
    LOAM_TRY(optional_string(l, record, "input", &input));
    LOAM_TRY(full_string(l, record, "output", &output));
    LOAM_TRY(optional_string(l, record, "system", &system));
    loam_string prompt = {0};
    if (system && !l->chat_is_own)
        loam_string_printf(&prompt, "%s\n", system);
    loam_string_printf(&prompt, "%s%s%s", instruction, input ? "\n" : "", input ? input : "");
    loam_status status;
    if (prompt.failed) {
        status = loam_data_no_memory(l);
    } else if (l->chat_is_own) {
        status = loam_data_exchange(l, system, prompt.data, output);
    } else {
        loam_string_clear(&l->text);
        loam_string_printf(&l->text, "%s\n", prompt.data);
        size_t n_prompt = l->text.length_bytes;
        loam_string_puts(&l->text, output);
        status = add_joined(l, n_prompt);
    }
    loam_string_free(&prompt);
    return status;
}
