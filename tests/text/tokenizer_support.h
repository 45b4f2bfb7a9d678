/* tokenizer_support.h: small vocabularies written as GGUF files, and short ways to tokenize. */
#ifndef LOAM_TESTS_TOKENIZER_SUPPORT_H
#define LOAM_TESTS_TOKENIZER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/text.h"

#define BOTH (LOAM_TOKENIZE_ADD_SPECIAL | LOAM_TOKENIZE_PARSE_SPECIAL)
#define MAX_WORDS 1200

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, BYTE = 6 };

static char directory[64];

static inline int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/loam-test-text-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static inline int remove_directory(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* The path of a shared test input in a static buffer, or NULL where it is absent. */
static inline const char *find_asset(const char *name)
{
    static char path[1024];
    const char *root = getenv("LOAM_ASSETS");
    snprintf(path, sizeof path, "%s/%s", root ? root : LOAM_SOURCE_DIR "/../shared/assets", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

static inline const char *asset(const char *name)
{
    const char *path = find_asset(name);
    if (!path) {
        print_message("absent: %s\n", name);
        skip();
    }
    return path;
}

/* ---- vocabularies being made --------------------------------------------------------------- */

typedef struct words {
    loam_gguf_writer *writer;
    loam_slice texts[MAX_WORDS];
    float scores[MAX_WORDS];
    int32_t types[MAX_WORDS];
    uint64_t n;
    loam_slice merges[MAX_WORDS];
    uint64_t n_merges;
    char *own[2 * MAX_WORDS]; /* copies of the strings above */
    int n_own;
} words;

static inline words *words_new(const char *model)
{
    words *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->writer = loam_gguf_writer_new();
    assert_non_null(w->writer);
    loam_gguf_set_string(w->writer, "general.architecture", "llama");
    loam_gguf_set_string(w->writer, "tokenizer.ggml.model", model);
    return w;
}

static inline loam_slice keep(words *w, const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    assert_true(w->n_own < 2 * MAX_WORDS);
    w->own[w->n_own++] = copy;
    return (loam_slice){copy, n};
}

static inline int32_t add_word(words *w, const char *text, float score, int32_t type)
{
    assert_true(w->n < MAX_WORDS);
    w->texts[w->n] = keep(w, text, strlen(text));
    w->scores[w->n] = score;
    w->types[w->n] = type;
    return (int32_t)w->n++;
}

static inline void add_merge(words *w, const char *text)
{
    assert_true(w->n_merges < MAX_WORDS);
    w->merges[w->n_merges++] = keep(w, text, strlen(text));
}

/* The letter of GPT-2's alphabet for a byte, as UTF-8. */
static inline const char *letter(int byte)
{
    static char out[4][3];
    static int next;
    char *s = out[next++ % 4];
    int code = byte, others = 0;
    for (int b = 0; b <= byte; b++) {
        bool shown = (b > 32 && b < 127) || (b > 160 && b != 173);
        if (b == byte && !shown)
            code = 256 + others;
        others += !shown;
    }
    if (code < 128) {
        s[0] = (char)code;
        s[1] = '\0';
    } else {
        s[0] = (char)(0xC0 | code >> 6);
        s[1] = (char)(0x80 | (code & 63));
        s[2] = '\0';
    }
    return s;
}

/* Tokens 0 to 255 are the bytes, written in GPT-2's alphabet. */
static inline void add_byte_letters(words *w)
{
    for (int byte = 0; byte < 256; byte++)
        add_word(w, letter(byte), 0, NORMAL);
}

/* <unk>, <s>, </s>, then tokens 3 to 258 are <0x00> to <0xFF>. */
static inline void add_spm_basics(words *w)
{
    add_word(w, "<unk>", 0, UNKNOWN);
    add_word(w, "<s>", 0, CONTROL);
    add_word(w, "</s>", 0, CONTROL);
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        add_word(w, name, 0, BYTE);
    }
}

/* Writes the vocabulary without what `without` names; frees it. */
static inline const char *words_write(words *w, const char *without)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/vocab.gguf", directory);
    if (strcmp(without, "tokens") != 0)
        loam_gguf_set_string_array(w->writer, "tokenizer.ggml.tokens", w->texts, w->n);
    if (strcmp(without, "scores") != 0)
        loam_gguf_set_array(w->writer, "tokenizer.ggml.scores", LOAM_KV_F32, w->scores, w->n);
    if (strcmp(without, "token_type") != 0)
        loam_gguf_set_array(w->writer, "tokenizer.ggml.token_type", LOAM_KV_I32, w->types, w->n);
    if (strcmp(without, "merges") != 0)
        loam_gguf_set_string_array(w->writer, "tokenizer.ggml.merges", w->merges, w->n_merges);
    loam_error e = {0};
    if (loam_gguf_write(w->writer, path, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    loam_gguf_writer_free(w->writer);
    for (int i = 0; i < w->n_own; i++)
        free(w->own[i]);
    free(w);
    return path;
}

/* ---- tokenizers in use ------------------------------------------------------------------------
 */

typedef struct opened {
    loam_gguf *g;
    loam_tokenizer *t;
} opened;

static inline opened open_tokenizer(const char *path)
{
    opened o = {0};
    loam_error e = {0};
    if (loam_gguf_open(path, &o.g, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    if (loam_tokenizer_create(o.g, &o.t, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    return o;
}

static inline void close_tokenizer(opened *o)
{
    loam_tokenizer_free(o->t);
    loam_gguf_close(o->g);
}

static inline loam_tokens ids_of(const loam_tokenizer *t, const char *text, size_t n,
                                 unsigned flags)
{
    loam_tokens out = {0};
    loam_error e = {0};
    if (loam_tokenize(t, text, n, flags, &out, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    return out;
}

static inline void check_ids(const loam_tokens *have, const int32_t *want, int64_t n_want,
                             const char *what)
{
    bool same = have->n == n_want;
    for (int64_t i = 0; i < n_want && same; i++)
        same = have->ids[i] == want[i];
    if (same)
        return;
    print_message("%s:\n  have", what);
    for (int64_t i = 0; i < have->n; i++)
        print_message(" %d", have->ids[i]);
    print_message("\n  want");
    for (int64_t i = 0; i < n_want; i++)
        print_message(" %d", want[i]);
    print_message("\n");
    fail();
}

/* expect(t, "text", flags, id, id, ..., -1) */
static inline void expect(const loam_tokenizer *t, const char *text, unsigned flags, ...)
{
    int32_t want[64];
    int64_t n = 0;
    va_list ids;
    va_start(ids, flags);
    for (int id; (id = va_arg(ids, int)) >= 0;)
        want[n++] = id;
    va_end(ids);
    loam_tokens have = ids_of(t, text, strlen(text), flags);
    check_ids(&have, want, n, text);
    assert_int_equal(have.offsets_bytes[have.n], strlen(text));
    loam_tokens_free(&have);
}

/* Offsets rise from token to token and stay within the text. */
static inline void check_offsets(const loam_tokens *t, size_t n_bytes)
{
    for (int64_t i = 0; i < t->n; i++)
        assert_true(t->offsets_bytes[i] <= t->offsets_bytes[i + 1]);
    assert_int_equal(t->offsets_bytes[t->n], n_bytes);
}

/* The pieces of all tokens, one after the other. */
static inline loam_string pieces_of(const loam_tokenizer *t, const loam_tokens *tokens)
{
    loam_string s = {0};
    for (int64_t i = 0; i < tokens->n; i++)
        loam_token_piece(t, tokens->ids[i], true, &s);
    assert_false(s.failed);
    return s;
}

#endif /* LOAM_TESTS_TOKENIZER_SUPPORT_H */
