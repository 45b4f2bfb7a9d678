/* dataset_support.h: data files, the model they are read for, and what was made of them, as text.
 */
#ifndef LOAM_TESTS_TRAIN_DATASET_SUPPORT_H
#define LOAM_TESTS_TRAIN_DATASET_SUPPORT_H

#include "train/train.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char test_directory[64];
static loam_device *test_device;
static loam_base *test_model; /* ChatML, no BOS of its own, n_ctx 512 or more */
static loam_string shown;     /* of the last call of trained_text */

static inline const char *model_path(void)
{
    return LOAM_SOURCE_DIR "/models/loam-29m-Q4_K_M.gguf";
}

static inline int open_model(void **state)
{
    (void)state;
    loam_error e = {0};
    strcpy(test_directory, "/tmp/loam-test-data-XXXXXX");
    if (!mkdtemp(test_directory) || loam_device_open("cpu", NULL, &test_device, &e) != LOAM_OK ||
        loam_base_open(model_path(), test_device, &test_model, &e) != LOAM_OK) {
        print_error("%s\n", e.message);
        return -1;
    }
    return 0;
}

static inline int close_model(void **state)
{
    (void)state;
    char command[128];
    loam_base_close(test_model);
    loam_device_close(test_device);
    loam_string_free(&shown);
    snprintf(command, sizeof command, "rm -rf '%s'", test_directory);
    return system(command);
}

/* One of eight static buffers. */
static inline char *path_buffer(void)
{
    static char paths[8][1024];
    static int next;
    return paths[next++ % 8];
}

static inline const char *in_directory(const char *name)
{
    char *path = path_buffer();
    snprintf(path, 1024, "%s/%s", test_directory, name);
    return path;
}

/* The path of a file of the shared test inputs; skips the test where they are absent. */
static inline const char *asset(const char *name)
{
    const char *root = getenv("LOAM_ASSETS");
    char *path = path_buffer();
    snprintf(path, 1024, "%s/%s", root ? root : LOAM_SOURCE_DIR "/../shared/assets", name);
    if (access(path, R_OK) != 0) {
        print_message("absent: %s\n", path);
        skip();
    }
    return path;
}

static inline const char *put_bytes(const char *name, const void *bytes, size_t n)
{
    const char *path = in_directory(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *put(const char *name, const char *text)
{
    return put_bytes(name, text, strlen(text));
}

static inline loam_dataset *load_for(const loam_base *m, const char *path,
                                     const loam_data_options *o)
{
    loam_error e = {0};
    loam_dataset *d = NULL;
    if (loam_dataset_load(m, path, o, &d, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    return d;
}

static inline loam_dataset *load(const char *path, const loam_data_options *o)
{
    return load_for(test_model, path, o);
}

/* A file's text, which is read. */
static inline loam_dataset *load_text(const char *name, const char *text,
                                      const loam_data_options *o)
{
    return load(put(name, text), o);
}

/* Loading fails with the status, and its message holds both texts. */
static inline void refused_for(const loam_base *m, const char *path, const loam_data_options *o,
                               loam_status status, const char *first, const char *second)
{
    loam_error e = {0};
    loam_dataset *d = NULL;
    loam_status found = loam_dataset_load(m, path, o, &d, &e);
    assert_null(d);
    if (found != status || !strstr(e.message, first) || !strstr(e.message, second))
        fail_msg("found status %s, \"%s\"; expected %s, \"%s\" and \"%s\"", loam_status_name(found),
                 e.message, loam_status_name(status), first, second);
    assert_int_equal(e.status, status);
}

static inline void refused(const char *name, const char *text, const char *first,
                           const char *second)
{
    refused_for(test_model, put(name, text), NULL, LOAM_E_DATA, first, second);
}

/* The text of tokens [begin, end) of an example, special tokens spelt out: the trained ones, each
 * run ended by '|', or all. The string lives until the next call. */
static inline const char *text_of(const loam_base *m, const loam_dataset *d, int64_t example,
                                  bool trained_only)
{
    const loam_example *x = &d->examples[example];
    loam_string_clear(&shown);
    loam_string_append(&shown, "", 0);
    for (int64_t i = x->first; i < x->first + x->n_tokens; i++) {
        bool ends = i + 1 == x->first + x->n_tokens || !d->trained[i + 1];
        if (!trained_only || d->trained[i])
            loam_token_piece(m->tokenizer, d->tokens[i], true, &shown);
        if (trained_only && d->trained[i] && ends)
            loam_string_puts(&shown, "|");
    }
    assert_false(shown.failed);
    return shown.data ? shown.data : "";
}

static inline const char *trained_text(const loam_dataset *d, int64_t example)
{
    return text_of(test_model, d, example, true);
}

static inline const char *whole_text(const loam_dataset *d, int64_t example)
{
    return text_of(test_model, d, example, false);
}

/* What every set promises. */
static inline void check_set(const loam_dataset *d, int64_t max_seq_length)
{
    int64_t n_tokens = 0, n_trained = 0, longest = 0;
    for (int64_t i = 0; i < d->n_examples; i++) {
        const loam_example *x = &d->examples[i];
        int64_t here = 0;
        assert_in_range(x->n_tokens, 2, max_seq_length);
        assert_true(x->first >= 0 && x->first + x->n_tokens <= d->n_tokens);
        assert_false(d->trained[x->first]);
        for (int64_t t = x->first; t < x->first + x->n_tokens; t++)
            here += d->trained[t];
        assert_int_equal(here, x->n_trained);
        assert_true(here > 0);
        assert_true(x->line > 0 && x->file >= 0 && x->file < d->n_files);
        n_tokens += x->n_tokens;
        n_trained += here;
        longest = LOAM_MAX(longest, x->n_tokens);
    }
    assert_true(d->n_examples > 0);
    assert_int_equal(d->summary.n_examples, d->n_examples);
    assert_int_equal(d->summary.n_tokens, n_tokens);
    assert_int_equal(d->summary.n_trained, n_trained);
    assert_int_equal(d->n_trained, n_trained);
    assert_int_equal(d->summary.n_longest, longest);
}

/* The test model's vocabulary with another chat template (NULL: none) and another wish for a BOS,
 * without weights: all that reading data asks of a model. */
static inline loam_base variant_open(const char *chat_template, bool adds_bos)
{
    loam_error e = {0};
    const char *path = in_directory("variant.gguf");
    loam_gguf_writer *w = loam_gguf_writer_new();
    for (int64_t i = 0; i < loam_gguf_n_kv(test_model->gguf); i++) {
        const loam_kv *kv = loam_gguf_kv_at(test_model->gguf, i);
        static const char key[] = "tokenizer.chat_template";
        if (kv->key.bytes != sizeof key - 1 || memcmp(kv->key.data, key, sizeof key - 1) != 0)
            loam_gguf_set_kv(w, kv);
    }
    if (chat_template)
        loam_gguf_set_string(w, "tokenizer.chat_template", chat_template);
    loam_gguf_set_bool(w, "tokenizer.ggml.add_bos_token", adds_bos);
    loam_status status = loam_gguf_write(w, path, &e);
    loam_gguf_writer_free(w);
    loam_base m = {.hparams = test_model->hparams};
    if (status != LOAM_OK || loam_gguf_open(path, &m.gguf, &e) != LOAM_OK ||
        loam_tokenizer_create(m.gguf, &m.tokenizer, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    return m;
}

static inline void variant_close(loam_base *m)
{
    loam_tokenizer_free(m->tokenizer);
    loam_gguf_close(m->gguf);
}

#endif /* LOAM_TESTS_TRAIN_DATASET_SUPPORT_H */
