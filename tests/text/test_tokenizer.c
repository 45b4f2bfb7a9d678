/* Tokenizers on vocabularies made here, against plain second implementations of the rules. */
#include "tokenizer_support.h"

/* ---- SentencePiece -------------------------------------------------------------------------- */

#define MARK "\xE2\x96\x81"

/* Ids 259 and up. */
static words *small_spm(void)
{
    words *w = words_new("llama");
    add_spm_basics(w);
    add_word(w, MARK, -9, NORMAL);          /* 259 */
    add_word(w, "h", -8, NORMAL);           /* 260 */
    add_word(w, "e", -8, NORMAL);           /* 261 */
    add_word(w, "l", -8, NORMAL);           /* 262 */
    add_word(w, "o", -8, NORMAL);           /* 263 */
    add_word(w, "he", -2, NORMAL);          /* 264 */
    add_word(w, "ll", -1, NORMAL);          /* 265 */
    add_word(w, "hell", -3, NORMAL);        /* 266 */
    add_word(w, MARK "hell", -4, NORMAL);   /* 267 */
    add_word(w, MARK "hello", -5, NORMAL);  /* 268 */
    add_word(w, MARK MARK, -2, NORMAL);     /* 269 */
    add_word(w, "<tool>", 0, USER);         /* 270 */
    add_word(w, "<|eot_id|>", 0, CONTROL);  /* 271 */
    add_word(w, "\xC3\xA9", -7, NORMAL);    /* 272: é */
    add_word(w, "<tool>\n<tool>", 0, USER); /* 273 */
    return w;
}

static void spm_merges_and_falls_back(void **state)
{
    (void)state;
    opened o = open_tokenizer(words_write(small_spm(), ""));
    expect(o.t, "", 0, -1);
    expect(o.t, "", BOTH, 1, -1);
    expect(o.t, "hello", 0, 268, -1);
    expect(o.t, "hello", BOTH, 1, 268, -1);
    expect(o.t, "hello hello", 0, 268, 268, -1);
    expect(o.t, " hello", 0, 269, 266, 263, -1); /* two marks merge before the word does */
    expect(o.t, "\xC3\xA9\n", 0, 259, 272, 3 + 10, -1);
    /* A first byte FF claims four bytes, as in llama.cpp, so this o is no character of its own. */
    expect(o.t, "z\xFFo", 0, 259, 3 + 'z', 3 + 0xFF, 3 + 'o', -1);
    expect(o.t, "</s>", 0, 259, 3 + '<', 3 + '/', 3 + 's', 3 + '>', -1);
    expect(o.t, "</s>hello", BOTH, 1, 2, 268, -1);
    expect(o.t, "o<tool>o", 0, 259, 263, 270, 259, 263, -1); /* user-defined: always */
    expect(o.t, "<tool>\n<tool>", 0, 273, -1);
    assert_int_equal(loam_tokenizer_n_vocab(o.t), 274);
    assert_int_equal(loam_tokenizer_bos(o.t), 1);
    assert_int_equal(loam_tokenizer_eos(o.t), 2);
    assert_int_equal(loam_tokenizer_eot(o.t), 271);
    assert_true(loam_tokenizer_adds_bos(o.t));
    assert_true(loam_token_is_eog(o.t, 2) && loam_token_is_eog(o.t, 271));
    assert_false(loam_token_is_eog(o.t, 1) || loam_token_is_eog(o.t, -1) ||
                 loam_token_is_eog(o.t, 274));
    assert_true(loam_token_is_control(o.t, 1) && !loam_token_is_control(o.t, 270));
    assert_int_equal(loam_token_find(o.t, "hell", 4), 266);
    assert_int_equal(loam_token_find(o.t, "hel", 3), -1);
    close_tokenizer(&o);
}

static void check_piece(const loam_tokenizer *t, int32_t id, bool special, const char *want)
{
    loam_string s = {0};
    loam_token_piece(t, id, special, &s);
    loam_string_append(&s, "", 1);
    assert_string_equal(s.data, want);
    loam_string_free(&s);
}

static void spm_pieces_and_offsets(void **state)
{
    (void)state;
    opened o = open_tokenizer(words_write(small_spm(), ""));
    check_piece(o.t, 268, false, " hello");
    check_piece(o.t, 3 + 'z', false, "z");
    check_piece(o.t, 1, false, "");
    check_piece(o.t, 1, true, "<s>");
    check_piece(o.t, 270, false, "<tool>");
    check_piece(o.t, -1, true, "");
    check_piece(o.t, 274, true, "");
    const char *text = "hello\xC3\xA9  z<tool>o";
    loam_tokens t = ids_of(o.t, text, strlen(text), LOAM_TOKENIZE_ADD_SPECIAL);
    const int32_t ids[] = {1, 268, 272, 269, 3 + 'z', 270, 259, 263};
    const size_t offsets[] = {0, 0, 5, 7, 9, 10, 16, 16, 17};
    check_ids(&t, ids, LOAM_COUNT(ids), text);
    assert_memory_equal(t.offsets_bytes, offsets, sizeof offsets);
    loam_tokens_free(&t);
    close_tokenizer(&o);
}

static void spm_without_space_prefix(void **state)
{
    (void)state;
    words *w = small_spm();
    loam_gguf_set_bool(w->writer, "tokenizer.ggml.add_space_prefix", false);
    loam_gguf_set_bool(w->writer, "tokenizer.ggml.add_bos_token", false);
    loam_gguf_set_bool(w->writer, "tokenizer.ggml.add_eos_token", true);
    opened o = open_tokenizer(words_write(w, ""));
    expect(o.t, "hello", 0, 266, 263, -1);
    expect(o.t, " hello", LOAM_TOKENIZE_ADD_SPECIAL, 268, 2, -1);
    loam_tokens t = ids_of(o.t, " hello", 6, LOAM_TOKENIZE_ADD_SPECIAL);
    assert_int_equal(t.offsets_bytes[1], 6);
    loam_tokens_free(&t);
    close_tokenizer(&o);
}

static void spm_without_byte_tokens_gives_unknown(void **state)
{
    (void)state;
    words *w = words_new("llama");
    add_word(w, "<unk>", 0, UNKNOWN);
    add_word(w, "<s>", 0, CONTROL);
    add_word(w, "</s>", 0, CONTROL);
    add_word(w, "a", -1, NORMAL);
    opened o = open_tokenizer(words_write(w, ""));
    /* The mark of the added space has three bytes, and each is unknown. */
    expect(o.t, "ab", 0, 0, 0, 0, 3, 0, -1);
    close_tokenizer(&o);
}

/* ---- SentencePiece against a plain implementation -----------------------------------------------
 */

/* Merges the best pair, leftmost among equals, looking at all of them every time. */
static int64_t plain_spm(const words *w, const char *text, size_t n, int32_t *ids)
{
    static struct {
        size_t begin, end;
    } parts[4096];
    size_t n_parts = 0;
    for (size_t i = 0; i < n;) {
        size_t bytes = (uint8_t)text[i] >= 0xE0 ? 3 : (uint8_t)text[i] >= 0xC0 ? 2 : 1;
        parts[n_parts].begin = i;
        i = LOAM_MIN(i + bytes, n);
        parts[n_parts++].end = i;
    }
    for (;;) {
        size_t best = SIZE_MAX;
        float best_score = 0;
        for (size_t i = 0; i + 1 < n_parts; i++) {
            size_t bytes = parts[i + 1].end - parts[i].begin;
            for (uint64_t k = 0; k < w->n; k++) {
                if (w->texts[k].bytes == bytes &&
                    memcmp(w->texts[k].data, text + parts[i].begin, bytes) == 0 &&
                    (best == SIZE_MAX || w->scores[k] > best_score)) {
                    best = i;
                    best_score = w->scores[k];
                }
            }
        }
        if (best == SIZE_MAX)
            break;
        parts[best].end = parts[best + 1].end;
        n_parts--;
        memmove(&parts[best + 1], &parts[best + 2], (n_parts - best - 1) * sizeof parts[0]);
    }
    int64_t n_ids = 0;
    for (size_t i = 0; i < n_parts; i++) {
        const size_t bytes = parts[i].end - parts[i].begin;
        uint64_t k = 0;
        while (k < w->n && !(w->texts[k].bytes == bytes &&
                             memcmp(w->texts[k].data, text + parts[i].begin, bytes) == 0))
            k++;
        for (size_t b = 0; k == w->n && b < bytes; b++)
            ids[n_ids++] = 3 + (uint8_t)text[parts[i].begin + b];
        if (k < w->n)
            ids[n_ids++] = (int32_t)k;
    }
    return n_ids;
}

/* Random tokens over a, b and the mark; crossing words only where `crossing`. */
static words *random_spm(loam_rng *r, bool crossing)
{
    words *w = words_new("llama");
    add_spm_basics(w);
    for (int i = 0; i < 60; i++) {
        char text[32] = "";
        uint64_t marks = loam_rng_below(r, 3), letters = loam_rng_below(r, 5);
        for (uint64_t k = 0; k < marks; k++)
            strcat(text, MARK);
        for (uint64_t k = 0; k < letters; k++)
            strcat(text, loam_rng_below(r, 2) ? "a" : "b");
        if (crossing && loam_rng_below(r, 2))
            strcat(text, MARK "a");
        bool is_new = text[0] != '\0';
        for (uint64_t k = 0; k < w->n && is_new; k++)
            is_new = w->texts[k].bytes != strlen(text) ||
                     memcmp(w->texts[k].data, text, w->texts[k].bytes) != 0;
        if (is_new) /* few scores, so that there are ties */
            add_word(w, text, (float)loam_rng_below(r, 6) - 3, NORMAL);
    }
    return w;
}

static void spm_equals_plain_merging(void **state)
{
    (void)state;
    loam_rng r = loam_rng_stream(1, "spm");
    for (int vocabulary = 0; vocabulary < 40; vocabulary++) {
        words *w = random_spm(&r, vocabulary % 2);
        words copy = *w;
        for (uint64_t i = 0; i < w->n; i++)
            copy.texts[i].data = strndup(w->texts[i].data, w->texts[i].bytes);
        opened o = open_tokenizer(words_write(w, ""));
        for (int i = 0; i < 30; i++) {
            char text[256], escaped[1024] = MARK;
            size_t n_escaped = 3;
            size_t n = loam_rng_below(&r, i < 20 ? 20 : 120);
            for (size_t k = 0; k < n; k++)
                text[k] = "aabb  c"[loam_rng_below(&r, 7)];
            text[n] = '\0';
            for (size_t k = 0; k < n; k++) {
                memcpy(escaped + n_escaped, text[k] == ' ' ? MARK : &text[k],
                       text[k] == ' ' ? 3 : 1);
                n_escaped += text[k] == ' ' ? 3 : 1;
            }
            int32_t want[1024];
            int64_t n_want = n ? plain_spm(&copy, escaped, n_escaped, want) : 0;
            loam_tokens have = ids_of(o.t, text, n, 0);
            check_ids(&have, want, n_want, text);
            check_offsets(&have, n);
            loam_tokens_free(&have);
        }
        for (uint64_t i = 0; i < copy.n; i++)
            free((void *)copy.texts[i].data);
        close_tokenizer(&o);
    }
}

/* ---- BPE ----------------------------------------------------------------------------------------
 */

/* Ids 256 and up. */
static words *small_bpe(const char *pre)
{
    words *w = words_new("gpt2");
    loam_gguf_set_string(w->writer, "tokenizer.ggml.pre", pre);
    add_byte_letters(w);
    add_word(w, "he", 0, NORMAL);            /* 256 */
    add_word(w, "ll", 0, NORMAL);            /* 257 */
    add_word(w, "hell", 0, NORMAL);          /* 258 */
    add_word(w, "\xC4\xA0hello", 0, NORMAL); /* 259: space hello */
    add_word(w, "lo", 0, NORMAL);            /* 260 */
    add_word(w, "hello", 0, NORMAL);         /* 261: no merge leads to it */
    add_word(w, "<|im_start|>", 0, CONTROL); /* 262 */
    add_word(w, "<|im_end|>", 0, CONTROL);   /* 263 */
    add_word(w, "<tool>", 0, USER);          /* 264 */
    add_word(w, "  ", 0, USER);              /* 265: two spaces */
    add_word(w, "", 0, NORMAL);              /* 266 */
    add_merge(w, "h e");
    add_merge(w, "l l");
    add_merge(w, "he ll");
    add_merge(w, "l o");
    loam_gguf_set_u32(w->writer, "tokenizer.ggml.eos_token_id", 263);
    return w;
}

static void bpe_merges_and_parses(void **state)
{
    (void)state;
    opened o = open_tokenizer(words_write(small_bpe("gpt-2"), "scores"));
    expect(o.t, "", BOTH, -1);
    expect(o.t, "hello", 0, 258, 'o', -1);
    expect(o.t, "helo", 0, 256, 260, -1);
    expect(o.t, "<|im_end|>", 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', -1);
    expect(o.t, "<|im_start|>lo<|im_end|>\n", BOTH, 262, 260, 263, '\n', -1);
    expect(o.t, "<tool>he  he", 0, 264, 256, 265, 256, -1);
    expect(o.t, "a\xFFz", 0, 'a', 0xEF, 0xBF, 0xBD, 'z', -1); /* U+FFFD, as in llama.cpp */
    assert_int_equal(loam_tokenizer_bos(o.t), -1);
    assert_int_equal(loam_tokenizer_eos(o.t), 263);
    assert_int_equal(loam_tokenizer_eot(o.t), 263);
    assert_false(loam_tokenizer_adds_bos(o.t));
    assert_true(loam_token_is_eog(o.t, 263) && !loam_token_is_eog(o.t, 262));
    check_piece(o.t, 259, false, " hello");
    check_piece(o.t, 263, false, "");
    check_piece(o.t, 263, true, "<|im_end|>");
    assert_int_equal(loam_token_find(o.t, "\xC4\xA0hello", 7), 259);
    assert_int_equal(loam_token_find(o.t, "[EMPTY_266]", 11), 266);
    close_tokenizer(&o);
}

static void bpe_offsets_point_into_the_text(void **state)
{
    (void)state;
    opened o = open_tokenizer(words_write(small_bpe("gpt-2"), ""));
    /* A byte that is not UTF-8 becomes three tokens that all begin at it; C0 80 is one byte 0. */
    const char text[] = "he\xFFlo\xC0\x80<|im_end|>h";
    loam_tokens t = ids_of(o.t, text, sizeof text - 1, BOTH);
    const int32_t ids[] = {256, 0xEF, 0xBF, 0xBD, 260, 0, 263, 'h'};
    const size_t offsets[] = {0, 2, 2, 2, 3, 5, 7, 17, 18};
    check_ids(&t, ids, LOAM_COUNT(ids), text);
    assert_memory_equal(t.offsets_bytes, offsets, sizeof offsets);
    /* Appending keeps what is there; the new offsets count from the new text. */
    loam_error e = {0};
    assert_int_equal(loam_tokenize(o.t, "hehe", 4, 0, &t, &e), LOAM_OK);
    assert_int_equal(t.n, 10);
    assert_int_equal(t.ids[7], 'h');
    assert_int_equal(t.ids[9], 256);
    assert_int_equal(t.offsets_bytes[8], 0);
    assert_int_equal(t.offsets_bytes[9], 2);
    assert_int_equal(t.offsets_bytes[10], 4);
    loam_tokens_free(&t);
    close_tokenizer(&o);
}

static void bpe_whole_words_first_where_the_model_says(void **state)
{
    (void)state;
    words *w = small_bpe("llama-bpe");
    loam_gguf_set_u32(w->writer, "tokenizer.ggml.bos_token_id", 262);
    opened o = open_tokenizer(words_write(w, ""));
    assert_true(loam_tokenizer_adds_bos(o.t));
    expect(o.t, "hello hello", LOAM_TOKENIZE_ADD_SPECIAL, 262, 261, 259, -1);
    expect(o.t, "hellos", LOAM_TOKENIZE_ADD_SPECIAL, 262, 258, 'o', 's', -1);
    close_tokenizer(&o);
}

/* ---- BPE against a plain implementation ---------------------------------------------------------
 */

typedef struct plain_merge {
    char left[64], right[64];
} plain_merge;

static int64_t plain_bpe(const plain_merge *merges, int n_merges, const char *text, size_t n,
                         char parts[][64])
{
    size_t n_parts = n;
    for (size_t i = 0; i < n; i++)
        snprintf(parts[i], 64, "%c", text[i]);
    for (int rank = 0; rank < n_merges;) {
        size_t i = 0;
        while (i + 1 < n_parts && (strcmp(parts[i], merges[rank].left) != 0 ||
                                   strcmp(parts[i + 1], merges[rank].right) != 0))
            i++;
        if (i + 1 >= n_parts) {
            rank++;
            continue;
        }
        memcpy(parts[i] + strlen(parts[i]), parts[i + 1], strlen(parts[i + 1]) + 1);
        n_parts--;
        memmove(parts[i + 1], parts[i + 2], (n_parts - i - 1) * 64);
        rank = 0; /* a merge can make room for a better one */
    }
    return (int64_t)n_parts;
}

static void bpe_equals_plain_merging(void **state)
{
    (void)state;
    loam_rng r = loam_rng_stream(2, "bpe");
    static char known[64][64], parts[512][64];
    static plain_merge merges[64];
    for (int vocabulary = 0; vocabulary < 30; vocabulary++) {
        words *w = words_new("gpt2");
        loam_gguf_set_string(w->writer, "tokenizer.ggml.pre", "gpt-2");
        add_byte_letters(w);
        int n_known = 3, n_merges = 0;
        strcpy(known[0], "a");
        strcpy(known[1], "b");
        strcpy(known[2], "c");
        while (n_merges < 40) {
            plain_merge *m = &merges[n_merges];
            strcpy(m->left, known[loam_rng_below(&r, (uint64_t)n_known)]);
            strcpy(m->right, known[loam_rng_below(&r, (uint64_t)n_known)]);
            bool is_new = strlen(m->left) + strlen(m->right) < 20;
            for (int i = 0; i < n_merges && is_new; i++)
                is_new =
                    strcmp(merges[i].left, m->left) != 0 || strcmp(merges[i].right, m->right) != 0;
            if (!is_new)
                continue;
            char joined[64], line[160];
            snprintf(joined, sizeof joined, "%.30s%.30s", m->left, m->right);
            snprintf(line, sizeof line, "%s %s", m->left, m->right);
            add_merge(w, line);
            n_merges++;
            bool is_word = true;
            for (int i = 0; i < n_known && is_word; i++)
                is_word = strcmp(known[i], joined) != 0;
            if (is_word) {
                strcpy(known[n_known++], joined);
                add_word(w, joined, 0, NORMAL);
            }
        }
        opened o = open_tokenizer(words_write(w, ""));
        for (int i = 0; i < 60; i++) {
            char text[512];
            size_t n = 1 + loam_rng_below(&r, i < 40 ? 24 : 300);
            for (size_t k = 0; k < n; k++)
                text[k] = "abc"[loam_rng_below(&r, 3)];
            text[n] = '\0';
            int64_t n_want = plain_bpe(merges, n_merges, text, n, parts);
            int32_t want[512];
            for (int64_t k = 0; k < n_want; k++)
                want[k] = loam_token_find(o.t, parts[k], strlen(parts[k]));
            for (int again = 0; again < 2; again++) { /* the second time from what was learnt */
                loam_tokens have = ids_of(o.t, text, n, 0);
                check_ids(&have, want, n_want, text);
                check_offsets(&have, n);
                loam_tokens_free(&have);
            }
        }
        close_tokenizer(&o);
    }
}

static void bpe_symbols_that_are_no_token(void **state)
{
    (void)state;
    words *w = words_new("gpt2");
    loam_gguf_set_string(w->writer, "tokenizer.ggml.pre", "gpt-2");
    add_byte_letters(w);
    char line[16];
    add_merge(w, "x y"); /* "xy" is not in the vocabulary */
    snprintf(line, sizeof line, "%s %s", letter(0xC3), letter(0xA9));
    add_merge(w, line); /* nor is é */
    opened o = open_tokenizer(words_write(w, ""));
    /* llama.cpp then looks up the bytes of the file's alphabet: ASCII is found, é is lost. */
    expect(o.t, "axyb", 0, 'a', 'x', 'y', 'b', -1);
    expect(o.t, "a\xC3\xA9z", 0, 'a', 'z', -1);
    close_tokenizer(&o);
}

/* ---- special tokens against a plain implementation
 * ----------------------------------------------- */

typedef struct fragment {
    size_t begin, end;
    int32_t id; /* -1: text */
} fragment;

/* Cuts every text fragment at every occurrence of each token, longest token first. */
static int plain_partition(const words *w, const int *order, int n_order, bool eats_space,
                           const char *text, size_t n, fragment *out)
{
    int n_out = n > 0;
    out[0] = (fragment){0, n, -1};
    for (int k = 0; k < n_order; k++) {
        const loam_slice *token = &w->texts[order[k]];
        for (int i = 0; i < n_out; i++) {
            fragment f = out[i];
            const char *at =
                f.id < 0 ? memmem(text + f.begin, f.end - f.begin, token->data, token->bytes)
                         : NULL;
            if (!at)
                continue;
            size_t begin = (size_t)(at - text), end = begin + token->bytes;
            while (eats_space && end < f.end && strchr(" \n\t", text[end]))
                end++;
            fragment made[3];
            int n_made = 0;
            if (begin > f.begin)
                made[n_made++] = (fragment){f.begin, begin, -1};
            made[n_made++] = (fragment){begin, end, order[k]};
            if (end < f.end)
                made[n_made++] = (fragment){end, f.end, -1};
            memmove(&out[i + n_made], &out[i + 1], (size_t)(n_out - i - 1) * sizeof *out);
            memcpy(&out[i], made, (size_t)n_made * sizeof *out);
            n_out += n_made - 1;
            i += begin > f.begin; /* on with the token, then with what is right of it */
        }
    }
    return n_out;
}

static void specials_equal_plain_partition(void **state)
{
    (void)state;
    loam_rng r = loam_rng_stream(3, "specials");
    for (int vocabulary = 0; vocabulary < 60; vocabulary++) {
        bool phi3 = vocabulary % 2;
        words *w = words_new("gpt2");
        loam_gguf_set_string(w->writer, "tokenizer.ggml.pre", "gpt-2");
        loam_gguf_set_string(w->writer, "general.name", phi3 ? "My Phi-3 mini" : "other");
        add_byte_letters(w);
        int order[16], n_order = 0;
        /* One token of each length: with two, their order would not be defined. */
        for (int length = 6; length >= 2; length--) {
            char text[16] = "";
            for (int k = 0; k < length; k++)
                text[k] = "<<ab\n "[loam_rng_below(&r, 6)];
            order[n_order++] = add_word(w, text, 0, loam_rng_below(&r, 2) ? CONTROL : USER);
        }
        words copy = *w;
        for (uint64_t i = 0; i < w->n; i++)
            copy.texts[i].data = strndup(w->texts[i].data, w->texts[i].bytes);
        opened o = open_tokenizer(words_write(w, ""));
        for (int i = 0; i < 60; i++) {
            char text[128];
            size_t n = loam_rng_below(&r, 60);
            for (size_t k = 0; k < n; k++)
                text[k] = "<<ab\n "[loam_rng_below(&r, 6)];
            text[n] = '\0';
            fragment fragments[128];
            int n_fragments = plain_partition(&copy, order, n_order, phi3, text, n, fragments);
            int32_t want[128];
            int64_t n_want = 0;
            for (int k = 0; k < n_fragments; k++) {
                if (fragments[k].id >= 0)
                    want[n_want++] = fragments[k].id;
                else /* without merges, every byte is a token */
                    for (size_t b = fragments[k].begin; b < fragments[k].end; b++)
                        want[n_want++] = (uint8_t)text[b];
            }
            loam_tokens have = ids_of(o.t, text, n, LOAM_TOKENIZE_PARSE_SPECIAL);
            check_ids(&have, want, n_want, text);
            check_offsets(&have, n);
            loam_tokens_free(&have);
        }
        for (uint64_t i = 0; i < copy.n; i++)
            free((void *)copy.texts[i].data);
        close_tokenizer(&o);
    }
}

static void ends_are_found_by_text(void **state)
{
    (void)state;
    static const char *const ends[] = {"<|im_end|>",    "<|eot_id|>", "<|end|>",
                                       "<end_of_turn>", "<EOT>",      "<|endoftext|>",
                                       "<|file_sep|>",  "<|fim_pad|>"};
    words *w = words_new("gpt2");
    add_byte_letters(w);
    int32_t first = (int32_t)w->n;
    for (int i = 0; i < LOAM_COUNT(ends); i++)
        add_word(w, ends[i], 0, NORMAL);
    int32_t shown = add_word(w, "<|channel|>", 0, CONTROL);
    int32_t prefix = add_word(w, "<|fim_prefix|>", 0, NORMAL);
    opened o = open_tokenizer(words_write(w, ""));
    for (int32_t i = 0; i < LOAM_COUNT(ends); i++) {
        assert_true(loam_token_is_eog(o.t, first + i));
        assert_true(loam_token_is_control(o.t, first + i));
    }
    assert_int_equal(loam_tokenizer_eot(o.t), first + 1);
    assert_false(loam_token_is_control(o.t, shown));
    assert_true(loam_token_is_control(o.t, prefix) && !loam_token_is_eog(o.t, prefix));
    close_tokenizer(&o);

    /* Where <|return|> and <|call|> end answers, <|end|> does not. */
    w = words_new("gpt2");
    add_byte_letters(w);
    add_word(w, "<|return|>", 0, CONTROL);
    add_word(w, "<|call|>", 0, CONTROL);
    int32_t end = add_word(w, "<|end|>", 0, CONTROL);
    o = open_tokenizer(words_write(w, ""));
    assert_false(loam_token_is_eog(o.t, end));
    assert_true(loam_token_is_eog(o.t, end - 1) && loam_token_is_eog(o.t, end - 2));
    close_tokenizer(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spm_merges_and_falls_back),
        cmocka_unit_test(spm_pieces_and_offsets),
        cmocka_unit_test(spm_without_space_prefix),
        cmocka_unit_test(spm_without_byte_tokens_gives_unknown),
        cmocka_unit_test(spm_equals_plain_merging),
        cmocka_unit_test(bpe_merges_and_parses),
        cmocka_unit_test(bpe_offsets_point_into_the_text),
        cmocka_unit_test(bpe_whole_words_first_where_the_model_says),
        cmocka_unit_test(bpe_equals_plain_merging),
        cmocka_unit_test(bpe_symbols_that_are_no_token),
        cmocka_unit_test(specials_equal_plain_partition),
        cmocka_unit_test(ends_are_found_by_text),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
