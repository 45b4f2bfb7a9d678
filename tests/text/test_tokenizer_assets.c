/* Tokenizers of real models against ids that llama.cpp and the models' own tokenizers gave. */
#include "tokenizer_support.h"

#include <jansson.h>

/* ---- pairs of .inp and .out
 * ---------------------------------------------------------------------- */

static const char *const vocabularies[] = {
    "gpt-2",  "phi-3",     "qwen2",  "llama-spm",    "llama-bpe",      "falcon",   "mpt",
    "refact", "starcoder", "qwen35", "deepseek-llm", "deepseek-coder", "command-r"};

static char *read_text(const char *path, size_t *n)
{
    char *data;
    loam_error e = {0};
    if (loam_read_file(path, 1 << 24, &data, n, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    return data;
}

/* Compares chunk by chunk with one line of ids each; returns how many chunks. */
static int compare_pair(const loam_tokenizer *t, const char *name, char *inputs, char *outputs)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    int n_chunks = 0;
    char *line = outputs;
    for (char *chunk = inputs, *end; (end = strstr(chunk, separator)) != NULL;
         chunk = end + strlen(separator), n_chunks++) {
        int32_t want[2048];
        int64_t n_want = 0;
        char *newline = strchr(line, '\n');
        assert_non_null(newline);
        *newline = '\0';
        for (char *after; (void)strtol(line, &after, 10), after != line; line = after)
            want[n_want++] = (int32_t)strtol(line, NULL, 10);
        line = newline + 1;
        size_t n = (size_t)(end - chunk);
        loam_tokens have = ids_of(t, chunk, n, 0);
        check_ids(&have, want, n_want, name);
        check_offsets(&have, n);
        loam_tokens_free(&have);
    }
    return n_chunks;
}

static void pairs_of_llama_cpp(void **state)
{
    (void)state;
    int n_absent = 0, n_run = 0;
    for (int i = 0; i < LOAM_COUNT(vocabularies); i++) {
        char name[128];
        snprintf(name, sizeof name, "tokenizers/ggml-vocab-%s.gguf", vocabularies[i]);
        const char *path = find_asset(name);
        if (!path) {
            n_absent++;
            continue;
        }
        opened o = open_tokenizer(path);
        /* llama-spm's ids are phi-3's, for these inputs. */
        const char *sources[] = {vocabularies[i],
                                 strcmp(vocabularies[i], "phi-3") == 0 ? "llama-spm" : NULL};
        for (int k = 0; k < 2 && sources[k]; k++) {
            size_t n;
            snprintf(name, sizeof name, "tokenizers/ggml-vocab-%s.gguf.inp", sources[k]);
            char *inputs = read_text(asset(name), &n);
            snprintf(name, sizeof name, "tokenizers/ggml-vocab-%s.gguf.out", sources[k]);
            char *outputs = read_text(asset(name), &n);
            int n_chunks = compare_pair(o.t, sources[k], inputs, outputs);
            assert_true(n_chunks >= 46);
            print_message("%s with the vocabulary of %s: %d chunks\n", sources[k], vocabularies[i],
                          n_chunks);
            loam_free(inputs);
            loam_free(outputs);
            n_run++;
        }
        close_tokenizer(&o);
    }
    print_message("%d pairs compared, %d vocabularies absent\n", n_run, n_absent);
    if (n_run == 0)
        skip();
}

/* ---- ids beside log-probabilities
 * ------------------------------------------------------------------ */

static json_t *read_json(const char *path)
{
    json_error_t e;
    json_t *root = json_load_file(path, 0, &e);
    if (!root)
        fail_msg("%s:%d: %s", path, e.line, e.text);
    return root;
}

static void check_json_ids(const loam_tokenizer *t, const json_t *text, const json_t *ids,
                           unsigned flags)
{
    const char *s = json_string_value(text);
    int32_t want[512];
    int64_t n = (int64_t)json_array_size(ids);
    assert_true(s && n > 0 && n < 512);
    for (int64_t i = 0; i < n; i++)
        want[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    loam_tokens have = ids_of(t, s, json_string_length(text), flags);
    check_ids(&have, want, n, s);
    loam_string back = {0};
    for (int64_t i = 0; i < have.n; i++)
        loam_token_piece(t, have.ids[i], have.ids[i] != loam_tokenizer_bos(t), &back);
    size_t lead = back.length_bytes - json_string_length(text);
    assert_true(lead <= 1);
    assert_memory_equal(back.data + lead, s, json_string_length(text));
    loam_string_free(&back);
    loam_tokens_free(&have);
}

static void texts_of_loam_29m(void **state)
{
    (void)state;
    json_t *root = read_json(asset("models/loam-29m-expected-logprobs.json"));
    opened o = open_tokenizer(asset("models/loam-29m-Q8_0.gguf"));
    const json_t *texts = json_object_get(root, "texts");
    assert_int_equal(json_array_size(texts), 5);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *one = json_array_get(texts, i);
        check_json_ids(o.t, json_object_get(one, "text"), json_object_get(one, "ids"),
                       LOAM_TOKENIZE_PARSE_SPECIAL);
        check_json_ids(o.t, json_object_get(one, "text"), json_object_get(one, "ids"), BOTH);
    }
    assert_int_equal(loam_tokenizer_n_vocab(o.t), 8192);
    assert_int_equal(loam_tokenizer_bos(o.t), 8189);
    assert_int_equal(loam_tokenizer_eos(o.t), 8191);
    assert_int_equal(loam_tokenizer_eot(o.t), 8191);
    assert_false(loam_tokenizer_adds_bos(o.t));
    assert_true(loam_token_is_eog(o.t, 8189) && loam_token_is_eog(o.t, 8191));
    assert_false(loam_token_is_eog(o.t, 8190));
    close_tokenizer(&o);
    json_decref(root);
}

static void text_of_stories(void **state)
{
    (void)state;
    json_t *root = read_json(asset("models/expected-logprobs.json"));
    opened o = open_tokenizer(asset("models/stories260K-F32.gguf"));
    check_json_ids(o.t, json_object_get(root, "text"), json_object_get(root, "tokens"), BOTH);
    assert_true(loam_tokenizer_adds_bos(o.t));
    close_tokenizer(&o);
    json_decref(root);
}

/* ---- there and back
 * --------------------------------------------------------------------------------- */

static void megabyte_there_and_back(void **state)
{
    (void)state;
    size_t n;
    char *text = read_text(asset("data/tinyshakespeare.txt"), &n);
    for (int i = 0; i < LOAM_COUNT(vocabularies); i++) {
        char name[128];
        snprintf(name, sizeof name, "tokenizers/ggml-vocab-%s.gguf", vocabularies[i]);
        const char *path = find_asset(name);
        if (!path)
            continue;
        opened o = open_tokenizer(path);
        double ms = loam_now_ms();
        loam_tokens t = ids_of(o.t, text, n, 0);
        ms = loam_now_ms() - ms;
        print_message("%s: %.1f MB/s\n", vocabularies[i], (double)n / 1e3 / ms);
        check_offsets(&t, n);
        loam_string back = pieces_of(o.t, &t);
        size_t lead = back.length_bytes - n; /* the added space of SentencePiece */
        assert_true(lead <= 1);
        assert_memory_equal(back.data + lead, text, n);
        /* Each token's piece stands at its offset. */
        size_t at = 0;
        for (int64_t k = 0; k < t.n; k++) {
            assert_int_equal(t.offsets_bytes[k], at < lead ? 0 : at - lead);
            loam_string piece = {0};
            loam_token_piece(o.t, t.ids[k], true, &piece);
            at += piece.length_bytes;
            loam_string_free(&piece);
        }
        loam_string_free(&back);
        loam_tokens_free(&t);
        close_tokenizer(&o);
    }
    loam_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_of_llama_cpp),
        cmocka_unit_test(texts_of_loam_29m),
        cmocka_unit_test(text_of_stories),
        cmocka_unit_test(megabyte_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
