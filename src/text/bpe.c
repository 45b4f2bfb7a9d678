/* bpe.c: byte-level byte pair encoding. */
#include "text/bpe.h"
#include "text/unicode.h"

#include <stdatomic.h>
#include <string.h>

enum { WHOLE_NOT_KNOWN, WHOLE_YES, WHOLE_NO };

/* The letter that stands for a byte in the file: printable characters of Latin-1 for themselves,
 * the others from U+0100 upwards in order (GPT-2's bytes_to_unicode). */
static uint32_t letter_of_byte(int byte)
{
    uint32_t others = 0;
    for (int b = 0; b <= byte; b++) {
        bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        if (b == byte && printable)
            return (uint32_t)b;
        if (b < byte && !printable)
            others++;
    }
    return 0x100 + others;
}

#define N_LETTERS 0x144 /* one past the largest of them */

/* Translates letters back to bytes; false where some character stands for none. `out` has room for
 * text.bytes. */
static bool to_bytes(const int16_t byte_of_letter[N_LETTERS], loam_slice text, char *out,
                     size_t *n_out)
{
    *n_out = 0;
    for (size_t i = 0, used; i < text.bytes; i += used) {
        uint32_t c = loam_utf8_decode(text.data + i, text.bytes - i, &used);
        if (c >= N_LETTERS || byte_of_letter[c] < 0)
            return false;
        out[(*n_out)++] = (char)byte_of_letter[c];
    }
    return true;
}

void loam_bpe_free(loam_bpe *b)
{
    loam_free(b->classes);
    loam_free(b->symbols);
    loam_strtab_free(&b->by_bytes);
    loam_free(b->merges);
    loam_free((void *)b->whole);
    loam_arena_free(b->arena);
}

/* The symbol of these bytes, made where there is none yet; LOAM_SYMBOL_NONE when memory ran out. */
static uint32_t intern(loam_bpe *b, const char *data, size_t n_bytes)
{
    uint32_t symbol = loam_strtab_find(&b->by_bytes, data, n_bytes);
    if (symbol != LOAM_STRTAB_NONE)
        return symbol;
    if (b->n_symbols == b->symbols_capacity) {
        uint32_t capacity = b->symbols_capacity + b->symbols_capacity / 2 + 256;
        loam_slice *grown =
            capacity < UINT32_MAX / 2 ? loam_realloc(b->symbols, capacity * sizeof(*grown)) : NULL;
        if (!grown)
            return LOAM_SYMBOL_NONE;
        b->symbols = grown;
        b->symbols_capacity = capacity;
    }
    char *copy = loam_arena_alloc(b->arena, n_bytes);
    if (!copy)
        return LOAM_SYMBOL_NONE;
    memcpy(copy, data, n_bytes);
    b->symbols[b->n_symbols] = (loam_slice){copy, n_bytes};
    if (!loam_strtab_add(&b->by_bytes, b->n_symbols))
        return LOAM_SYMBOL_NONE;
    b->max_symbol_bytes = LOAM_MAX(b->max_symbol_bytes, n_bytes);
    return b->n_symbols++;
}

static bool init_symbols(loam_bpe *b, const int16_t byte_of_letter[N_LETTERS])
{
    const loam_vocab *v = b->vocab;
    b->n_symbols = b->symbols_capacity = (uint32_t)v->n;
    b->symbols = loam_alloc((size_t)v->n * sizeof(*b->symbols));
    b->whole = loam_alloc((size_t)v->n);
    b->arena = loam_arena_new();
    if (!b->symbols || !b->whole || !b->arena)
        return false;
    loam_strtab_init(&b->by_bytes, (const loam_slice **)&b->symbols);
    for (int32_t id = 0; id < v->n; id++) {
        char *bytes = loam_arena_alloc(b->arena, v->texts[id].bytes);
        size_t n_bytes;
        if (!bytes)
            return false;
        if (!to_bytes(byte_of_letter, v->texts[id], bytes, &n_bytes))
            continue;
        b->symbols[id] = (loam_slice){bytes, n_bytes};
        b->max_symbol_bytes = LOAM_MAX(b->max_symbol_bytes, n_bytes);
        if (!loam_strtab_add(&b->by_bytes, (uint32_t)id))
            return false;
    }
    for (int byte = 0; byte < 256; byte++) {
        char one = (char)byte;
        b->byte_symbols[byte] = intern(b, &one, 1);
        if (b->byte_symbols[byte] == LOAM_SYMBOL_NONE)
            return false;
    }
    return true;
}

static uint32_t hash_pair(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 8);
}

static const loam_bpe_merge *find_merge(const loam_bpe *b, uint32_t left, uint32_t right)
{
    for (uint32_t i = hash_pair(left, right);; i++) {
        const loam_bpe_merge *m = &b->merges[i & (b->n_merge_slots - 1)];
        if (m->left_plus_1 == 0 || (m->left_plus_1 == left + 1 && m->right == right))
            return m;
    }
}

/* Enters the merge "left right"; one that no text can reach is left out. */
static bool add_merge(loam_bpe *b, const int16_t byte_of_letter[N_LETTERS], loam_slice left,
                      loam_slice right, uint32_t rank, char *buffer)
{
    size_t n_left, n_right;
    if (!to_bytes(byte_of_letter, left, buffer, &n_left) ||
        !to_bytes(byte_of_letter, right, buffer + n_left, &n_right))
        return true;
    uint32_t l = intern(b, buffer, n_left), r = intern(b, buffer + n_left, n_right);
    uint32_t joined = intern(b, buffer, n_left + n_right);
    if (l == LOAM_SYMBOL_NONE || r == LOAM_SYMBOL_NONE || joined == LOAM_SYMBOL_NONE)
        return false;
    loam_bpe_merge *slot = (loam_bpe_merge *)find_merge(b, l, r);
    if (slot->left_plus_1 == 0) /* of two equal merges the first counts */
        *slot = (loam_bpe_merge){l + 1, r, rank, joined};
    return true;
}

static loam_status read_merges(const loam_gguf *g, loam_bpe *b,
                               const int16_t byte_of_letter[N_LETTERS], loam_error *e)
{
    static const char key[] = "tokenizer.ggml.merges";
    const loam_kv *kv = loam_gguf_find(g, key);
    if (!kv || kv->type != LOAM_KV_ARRAY || kv->element_type != LOAM_KV_STRING)
        return loam_fail(e, LOAM_E_FORMAT, "%s: %s is %s; expected an array of strings",
                         loam_gguf_path(g), key, kv ? "of another type" : "missing");
    if (kv->n > UINT32_MAX / 8)
        return loam_fail(e, LOAM_E_FORMAT, "%s: %s has %llu entries, which is too many",
                         loam_gguf_path(g), key, (unsigned long long)kv->n);
    size_t longest = 0;
    for (uint64_t i = 0; i < kv->n; i++)
        longest = LOAM_MAX(longest, kv->strings[i].bytes);
    b->n_merge_slots = 16;
    while (b->n_merge_slots < 2 * kv->n)
        b->n_merge_slots *= 2;
    b->merges = loam_alloc(b->n_merge_slots * sizeof(*b->merges));
    char *buffer = loam_alloc(longest);
    bool ok = b->merges && buffer;
    for (uint64_t i = 0; i < kv->n && ok; i++) {
        loam_slice s = kv->strings[i];
        /* A merge's left side is at least one character, so the first space is not the cut. */
        const char *space = s.bytes > 2 ? memchr(s.data + 1, ' ', s.bytes - 1) : NULL;
        if (!space || space == s.data + s.bytes - 1) {
            loam_free(buffer);
            return loam_fail(e, LOAM_E_FORMAT,
                             "%s: %s has '%.*s' at %llu; expected two parts and a space between",
                             loam_gguf_path(g), key, (int)LOAM_MIN(s.bytes, (size_t)80), s.data,
                             (unsigned long long)i);
        }
        loam_slice left = {s.data, (size_t)(space - s.data)};
        loam_slice right = {space + 1, s.bytes - left.bytes - 1};
        ok = add_merge(b, byte_of_letter, left, right, (uint32_t)i, buffer);
    }
    loam_free(buffer);
    return ok ? LOAM_OK
              : loam_fail(e, LOAM_E_MEMORY, "%s: no memory left for %s", loam_gguf_path(g), key);
}

loam_status loam_bpe_init(const loam_gguf *g, const loam_vocab *v, const loam_pretokenizer *pre,
                          loam_bpe *b, loam_error *e)
{
    int16_t byte_of_letter[N_LETTERS];
    memset(byte_of_letter, -1, sizeof(byte_of_letter));
    for (int byte = 0; byte < 256; byte++)
        byte_of_letter[letter_of_byte(byte)] = (int16_t)byte;
    b->vocab = v;
    b->pre = pre;
    b->classes = loam_unicode_classes();
    if (!b->classes || !init_symbols(b, byte_of_letter))
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory left for the vocabulary",
                         loam_gguf_path(g));
    return read_merges(g, b, byte_of_letter, e);
}

static bool pair_rule(const void *context, const loam_symbol *left, const loam_symbol *right,
                      uint32_t *priority, uint32_t *id)
{
    const loam_bpe_merge *m = find_merge(context, left->id, right->id);
    if (m->left_plus_1 == 0)
        return false;
    *priority = m->rank;
    *id = m->joined;
    return true;
}

typedef struct session {
    const loam_bpe *bpe;
    const char *text;
    loam_merger *merger;
    loam_token_taker take;
    void *context;
} session;

/* Emits one symbol. One that is no token gives the tokens of those of its bytes that the file
 * writes as one ASCII character, and nothing for the others, as in llama.cpp. */
static bool emit(const session *s, uint32_t symbol, size_t begin, size_t n_bytes)
{
    uint32_t n_vocab = (uint32_t)s->bpe->vocab->n;
    if (symbol < n_vocab)
        return s->take(s->context, (int32_t)symbol, begin);
    for (size_t i = begin; i < begin + n_bytes; i++) {
        uint8_t byte = (uint8_t)s->text[i];
        uint32_t one = s->bpe->byte_symbols[byte];
        if (byte > 0x20 && byte < 0x7F && one < n_vocab && !s->take(s->context, (int32_t)one, i))
            return false;
    }
    return true;
}

static bool take_word(void *context, size_t begin, size_t end)
{
    const session *s = context;
    const loam_bpe *b = s->bpe;
    uint32_t token = LOAM_STRTAB_NONE;
    if (end - begin <= b->max_symbol_bytes)
        token = loam_strtab_find(&b->by_bytes, s->text + begin, end - begin);
    int known = WHOLE_NO;
    if (token < (uint32_t)b->vocab->n) {
        known = b->pre->ignore_merges
                    ? WHOLE_YES
                    : atomic_load_explicit(&b->whole[token], memory_order_relaxed);
        if (known == WHOLE_YES)
            return s->take(s->context, (int32_t)token, begin);
    }
    loam_merger *m = s->merger;
    loam_merger_clear(m);
    for (size_t i = begin; i < end; i++) {
        if (!loam_merger_add(m, 1, b->byte_symbols[(uint8_t)s->text[i]]))
            return false;
    }
    if (!loam_merger_run(m, pair_rule, b))
        return false;
    if (known == WHOLE_NOT_KNOWN)
        atomic_store_explicit(&b->whole[token],
                              m->symbols[0].next == LOAM_SYMBOL_NONE ? WHOLE_YES : WHOLE_NO,
                              memory_order_relaxed);
    for (uint32_t i = 0; i != LOAM_SYMBOL_NONE; i = m->symbols[i].next) {
        const loam_symbol *symbol = &m->symbols[i];
        if (!emit(s, symbol->id, begin + symbol->begin_bytes, symbol->n_bytes))
            return false;
    }
    return true;
}

bool loam_bpe_tokenize(const loam_bpe *b, const char *text, size_t n_bytes, loam_merger *merger,
                       loam_token_taker take, void *context)
{
    session s = {b, text, merger, take, context};
    return loam_pretokenize(b->pre, b->classes, text, n_bytes, take_word, &s);
}

void loam_bpe_piece(const loam_bpe *b, int32_t id, loam_string *out)
{
    /* A token with characters that stand for no byte is shown as it is. */
    const loam_slice *s = &b->symbols[id];
    if (s->bytes == 0)
        s = &b->vocab->texts[id];
    loam_string_append(out, s->data, s->bytes);
}
