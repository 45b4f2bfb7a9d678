/* Tokenizers under bad vocabularies, random bytes, long words, several threads, and no memory. */
#include "tokenizer_support.h"
#include "text/unicode.h"

#define MARK "\xE2\x96\x81"

static words *bpe_words(void)
{
    words *w = words_new("gpt2");
    loam_gguf_set_string(w->writer, "tokenizer.ggml.pre", "qwen2");
    add_byte_letters(w);
    add_word(w, "ab", 0, NORMAL);
    add_word(w, "aba", 0, NORMAL);
    add_word(w, "<|im_end|>", 0, CONTROL);
    add_word(w, "<tool>", 0, USER);
    add_merge(w, "a b");
    add_merge(w, "ab a");
    add_merge(w, "a a");
    return w;
}

static words *spm_words(void)
{
    words *w = words_new("llama");
    add_spm_basics(w);
    add_word(w, MARK, -5, NORMAL);
    add_word(w, "a", -4, NORMAL);
    add_word(w, "ab", -1, NORMAL);
    add_word(w, "aba", -2, NORMAL);
    add_word(w, MARK "a", -3, NORMAL);
    add_word(w, "aa", -3, NORMAL);
    add_word(w, "<tool>", 0, USER);
    return w;
}

/* ---- vocabularies that are refused ----------------------------------------------------------- */

static void check_refused(const char *path, loam_status status, const char *part)
{
    loam_gguf *g = NULL;
    loam_tokenizer *t = NULL;
    loam_error e = {0};
    if (loam_gguf_open(path, &g, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    assert_int_equal(loam_tokenizer_create(g, &t, &e), status);
    assert_null(t);
    if (!strstr(e.message, path) || !strstr(e.message, part))
        fail_msg("'%s' does not name '%s'", e.message, part);
    loam_gguf_close(g);
}

static void refuses_with_the_key(void **state)
{
    (void)state;
    words *w = spm_words();
    check_refused(words_write(w, "tokens"), LOAM_E_FORMAT, "tokenizer.ggml.tokens");
    check_refused(words_write(spm_words(), "scores"), LOAM_E_FORMAT, "tokenizer.ggml.scores");
    check_refused(words_write(bpe_words(), "merges"), LOAM_E_FORMAT, "tokenizer.ggml.merges");
    check_refused(words_write(words_new("llama"), ""), LOAM_E_FORMAT, "tokenizer.ggml.tokens");
    check_refused(words_write(words_new("bert"), ""), LOAM_E_UNSUPPORTED, "'bert'");

    w = bpe_words();
    loam_gguf_set_string(w->writer, "tokenizer.ggml.tokens", "no array");
    check_refused(words_write(w, "tokens"), LOAM_E_FORMAT, "tokenizer.ggml.tokens");
    w = bpe_words();
    int32_t two[] = {1, 1};
    loam_gguf_set_array(w->writer, "tokenizer.ggml.token_type", LOAM_KV_I32, two, 2);
    check_refused(words_write(w, "token_type"), LOAM_E_FORMAT, "tokenizer.ggml.token_type");
    w = spm_words();
    loam_gguf_set_array(w->writer, "tokenizer.ggml.scores", LOAM_KV_I32, two, 2);
    check_refused(words_write(w, "scores"), LOAM_E_FORMAT, "tokenizer.ggml.scores");
    w = bpe_words();
    add_word(w, "ab", 0, NORMAL);
    check_refused(words_write(w, ""), LOAM_E_FORMAT, "'ab'");
    w = bpe_words();
    loam_gguf_set_u32(w->writer, "tokenizer.ggml.eos_token_id", 5000);
    check_refused(words_write(w, ""), LOAM_E_FORMAT, "tokenizer.ggml.eos_token_id");

    static const char *const merges[] = {"", " ", "ab", "ab ", " b", "a"};
    for (int i = 0; i < LOAM_COUNT(merges); i++) {
        w = bpe_words();
        add_merge(w, merges[i]);
        check_refused(words_write(w, ""), LOAM_E_FORMAT, "tokenizer.ggml.merges");
    }
    w = words_new("gpt2");
    loam_gguf_set_string(w->writer, "tokenizer.ggml.pre", "unheard-of");
    add_byte_letters(w);
    check_refused(words_write(w, ""), LOAM_E_UNSUPPORTED, "'unheard-of'");
}

static void odd_but_harmless(void **state)
{
    (void)state;
    /* An id of -1 is none; merges of characters that stand for no byte, or that repeat, or whose
     * parts never arise; scores that are no numbers; types out of range; a broken byte token. */
    words *w = bpe_words();
    loam_gguf_set_u32(w->writer, "tokenizer.ggml.bos_token_id", UINT32_MAX);
    loam_gguf_set_i32(w->writer, "tokenizer.ggml.eos_token_id", -1);
    loam_gguf_set_bool(w->writer, "tokenizer.ggml.add_bos_token", true);
    add_merge(w, "\xE4\xB8\xAD a");
    add_merge(w, "a b");
    add_merge(w, "qq qqq");
    add_word(w, "<0xZZ>", 0, BYTE);
    add_word(w, "odd", 0, 77);
    opened o = open_tokenizer(words_write(w, ""));
    expect(o.t, "abab aba", BOTH, 256, 256, ' ', 257, -1);
    assert_int_equal(loam_tokenizer_bos(o.t), -1);
    loam_string s = {0};
    loam_token_piece(o.t, 260, false, &s);
    loam_token_piece(o.t, 261, false, &s);
    assert_int_equal(s.length_bytes, 6);
    loam_string_free(&s);
    close_tokenizer(&o);

    w = spm_words();
    w->scores[260] = (float)strtod("nan", NULL);
    w->scores[261] = -(float)strtod("inf", NULL);
    o = open_tokenizer(words_write(w, ""));
    loam_tokens t = ids_of(o.t, "ababab aab", 10, BOTH);
    check_offsets(&t, 10);
    loam_tokens_free(&t);
    close_tokenizer(&o);

    /* One token in all. */
    w = words_new("llama");
    add_word(w, "a", 0, NORMAL);
    o = open_tokenizer(words_write(w, ""));
    expect(o.t, "aba", BOTH, 0, 0, 0, 0, 0, 0, -1); /* unknown is 0, too */
    close_tokenizer(&o);
}

/* ---- random bytes -------------------------------------------------------------------------------
 */

static size_t random_text(loam_rng *r, char *text, size_t most)
{
    size_t n = loam_rng_below(r, most);
    uint64_t kind = loam_rng_below(r, 5);
    if (kind == 4) { /* characters of every length */
        size_t used = 0;
        while (used + 4 <= n) {
            uint32_t limit = (uint32_t[]){0x80, 0x800, 0x10000, 0x110000}[loam_rng_below(r, 4)];
            used += loam_utf8_encode((uint32_t)loam_rng_below(r, limit), text + used);
        }
        return used;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t x = loam_rng_next(r);
        if (kind == 0)
            text[i] = (char)x;
        else if (kind == 1)
            text[i] = "\x80\xBF\xC2\xE2\x96\x81\xF0\x9F\xED\xA0 a"[x % 12];
        else if (kind == 2)
            text[i] = "ab  <tool>|im_end\n\t"[x % 19];
        else
            text[i] = (char)(32 + x % 95);
    }
    return n;
}

static void random_bytes(void **state)
{
    (void)state;
    loam_rng r = loam_rng_stream(7, "random bytes");
    for (int kind = 0; kind < 2; kind++) {
        opened o = open_tokenizer(words_write(kind ? spm_words() : bpe_words(), ""));
        int n_back = 0;
        for (int i = 0; i < 2000; i++) {
            char text[300];
            size_t n = random_text(&r, text, sizeof text);
            loam_tokens t = ids_of(o.t, text, n, (unsigned)loam_rng_below(&r, 4));
            check_offsets(&t, n);
            for (int64_t k = 0; k < t.n; k++)
                assert_in_range(t.ids[k], 0, loam_tokenizer_n_vocab(o.t) - 1);
            loam_tokens_free(&t);

            /* Tokens give a text of UTF-8 back; SPM with a space before and where no mark stands.
             */
            t = ids_of(o.t, text, n, 0);
            loam_string back = pieces_of(o.t, &t);
            if (n > 0 && loam_utf8_is_clean(text, n) && !memmem(text, n, "<tool>", 6) &&
                !(kind && memmem(text, n, MARK, 3))) {
                size_t lead = kind ? 1 : 0;
                assert_int_equal(back.length_bytes, n + lead);
                assert_memory_equal(back.data + lead, text, n);
                n_back++;
            }
            loam_string_free(&back);
            loam_tokens_free(&t);
        }
        assert_true(n_back > 500);
        close_tokenizer(&o);
    }
}

/* ---- long words
 * ----------------------------------------------------------------------------------- */

/* As Gemma has them: every run of newlines is a token, and each place begins 31 of them. */
static words *newline_words(void)
{
    words *w = bpe_words();
    char text[32] = "";
    for (int i = 0; i < 31; i++) {
        text[i] = '\n';
        add_word(w, text, 0, USER);
    }
    return w;
}

static void a_megabyte_without_spaces(void **state)
{
    (void)state;
    const size_t n = 1 << 20;
    char *text = malloc(n);
    loam_rng r = loam_rng_stream(8, "long");
    for (int kind = 0; kind < 3; kind++) {
        words *w = kind == 0 ? bpe_words() : kind == 1 ? spm_words() : newline_words();
        opened o = open_tokenizer(words_write(w, ""));
        static const char *const alphabets[] = {"a", "ab", " ", "\n", "\n ", "<", "<tool>", "\xC3"};
        for (int i = 0; i < LOAM_COUNT(alphabets); i++) {
            size_t size = strlen(alphabets[i]);
            for (size_t k = 0; k < n; k++)
                text[k] = alphabets[i][size == 2 ? loam_rng_below(&r, 2) : k % size];
            double begin = loam_now_ms();
            loam_tokens t = ids_of(o.t, text, n, BOTH);
            check_offsets(&t, n);
            loam_tokens_free(&t);
            /* A quadratic step would take hours; this leaves room for sanitizers. */
            assert_true(loam_now_ms() - begin < 30000);
        }
        close_tokenizer(&o);
    }
    free(text);
    loam_error e = {0};
    opened o = open_tokenizer(words_write(bpe_words(), ""));
    loam_tokens t = {0};
    assert_int_equal(loam_tokenize(o.t, "", ((size_t)1 << 30) + 1, 0, &t, &e), LOAM_E_DATA);
    close_tokenizer(&o);
}

/* ---- several threads ---------------------------------------------------------------------------
 */

typedef struct shared {
    const loam_tokenizer *t;
    char texts[64][200];
    size_t sizes[64];
    loam_tokens results[64];
} shared;

static void tokenize_one(void *context, int64_t i, int worker)
{
    (void)worker;
    shared *s = context;
    if (loam_tokenize(s->t, s->texts[i % 32], s->sizes[i % 32], 0, &s->results[i], NULL) != LOAM_OK)
        s->results[i].n = -1;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    static shared s;
    loam_rng r = loam_rng_stream(9, "threads");
    for (int kind = 0; kind < 2; kind++) {
        opened o = open_tokenizer(words_write(kind ? spm_words() : bpe_words(), ""));
        memset(&s, 0, sizeof s);
        s.t = o.t;
        for (int i = 0; i < 32; i++)
            s.sizes[i] = random_text(&r, s.texts[i], sizeof s.texts[i]);
        loam_pool *pool;
        assert_int_equal(loam_pool_create(4, &pool, NULL), LOAM_OK);
        loam_pool_run(pool, 64, tokenize_one, &s);
        loam_pool_free(pool);
        for (int i = 0; i < 32; i++) {
            check_ids(&s.results[i], s.results[i + 32].ids, s.results[i + 32].n, "threads");
            loam_tokens_free(&s.results[i]);
            loam_tokens_free(&s.results[i + 32]);
        }
        close_tokenizer(&o);
    }
}

/* ---- no memory
 * ------------------------------------------------------------------------------------ */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    /* Words of more than 24 symbols, bytes that are no UTF-8, special tokens. */
    static const char text[] = "aababaabababaabaababababaabab \xFF <tool>ab  <|im_end|>abab\n";
    for (int kind = 0; kind < 2; kind++) {
        const char *path = words_write(kind ? spm_words() : bpe_words(), "");
        loam_gguf *g = NULL;
        loam_error e = {0};
        if (loam_gguf_open(path, &g, &e) != LOAM_OK)
            fail_msg("%s", e.message);
        loam_tokenizer *t = NULL;
        int64_t failures = 0;
        for (loam_status status = LOAM_E_MEMORY; status != LOAM_OK; failures++) {
            e = (loam_error){0};
            loam_alloc_fail_after(failures);
            status = loam_tokenizer_create(g, &t, &e);
            loam_alloc_fail_after(-1);
            if (status != LOAM_OK) {
                assert_int_equal(status, LOAM_E_MEMORY);
                assert_null(t);
                assert_true(e.message[0] != '\0');
            }
        }
        assert_true(failures > 10);
        loam_tokens want = ids_of(t, text, sizeof text - 1, BOTH);
        loam_tokens have = {0};
        failures = 0;
        for (loam_status status = LOAM_E_MEMORY; status != LOAM_OK; failures++) {
            e = (loam_error){0};
            loam_alloc_fail_after(failures);
            status = loam_tokenize(t, text, sizeof text - 1, BOTH, &have, &e);
            loam_alloc_fail_after(-1);
            assert_true(status == LOAM_OK || (status == LOAM_E_MEMORY && have.n == 0));
        }
        assert_true(failures > 3);
        check_ids(&have, want.ids, want.n, text);
        loam_tokens_free(&want);
        loam_tokens_free(&have);
        loam_tokenizer_free(t);
        loam_gguf_close(g);
    }
    loam_tokenizer_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_with_the_key),
        cmocka_unit_test(odd_but_harmless),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(a_megabyte_without_spaces),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
