/* spm.c: SentencePiece vocabularies, merged by score. */
#include "text/spm.h"
#include "text/unicode.h"

#include <stdatomic.h>
#include <string.h>

#define MARK "\xE2\x96\x81" /* U+2581, which stands for a space */
#define MARK_BYTES 3

enum { WHOLE_NOT_KNOWN, WHOLE_YES, WHOLE_NO };

static bool is_mark(const char *text, size_t n_bytes)
{
    return n_bytes >= MARK_BYTES && memcmp(text, MARK, MARK_BYTES) == 0;
}

/* Smaller is better: the bits of a float, turned so that they order as the numbers do, falling. */
static uint32_t priority_of(float score)
{
    float positive_zero = score == 0.0f ? 0.0f : score;
    uint32_t bits;
    memcpy(&bits, &positive_zero, sizeof(bits));
    return bits >> 31 ? bits : ~bits & 0x7FFFFFFF;
}

/* Whether no token has U+2581 behind anything but U+2581. Then no merge can cross such a place, and
 * the words between can be tokenized each by itself with the same result. */
static bool keeps_words_apart(const loam_vocab *v)
{
    for (int32_t id = 0; id < v->n; id++) {
        const loam_slice *t = &v->texts[id];
        for (size_t i = 1; i < t->bytes; i++) {
            bool after_mark = i >= MARK_BYTES && is_mark(t->data + i - MARK_BYTES, MARK_BYTES);
            if (is_mark(t->data + i, t->bytes - i) && !after_mark)
                return false;
        }
    }
    return true;
}

bool loam_spm_init(const loam_vocab *v, loam_spm *s)
{
    s->vocab = v;
    s->priorities = loam_alloc((size_t)v->n * sizeof(*s->priorities));
    s->whole = loam_alloc((size_t)v->n);
    if (!s->priorities || !s->whole)
        return false;
    for (int32_t id = 0; id < v->n; id++)
        s->priorities[id] = priority_of(v->scores[id]);
    for (int byte = 0; byte < 256; byte++) {
        char name[8], one = (char)byte;
        int n = snprintf(name, sizeof(name), "<0x%02X>", (unsigned)byte);
        int32_t id = loam_vocab_find(v, name, (size_t)n);
        if (id < 0)
            id = loam_vocab_find(v, &one, 1);
        s->byte_ids[byte] = id < 0 ? v->unknown : id;
    }
    s->words_apart = keeps_words_apart(v);
    return true;
}

void loam_spm_free(loam_spm *s)
{
    loam_free(s->priorities);
    loam_free((void *)s->whole);
}

typedef struct session {
    const loam_spm *spm;
    const char *word;
} session;

static bool pair_rule(const void *context, const loam_symbol *left, const loam_symbol *right,
                      uint32_t *priority, uint32_t *id)
{
    const session *s = context;
    size_t n_bytes = (size_t)left->n_bytes + right->n_bytes;
    if (n_bytes > s->spm->vocab->max_text_bytes)
        return false;
    int32_t token = loam_vocab_find(s->spm->vocab, s->word + left->begin_bytes, n_bytes);
    if (token < 0)
        return false;
    *priority = s->spm->priorities[token];
    *id = (uint32_t)token;
    return true;
}

static bool emit(const loam_spm *s, const char *text, const loam_symbol *symbol, size_t begin,
                 loam_token_taker take, void *context)
{
    if (symbol->id != LOAM_SYMBOL_NONE)
        return take(context, (int32_t)symbol->id, begin);
    for (size_t i = 0; i < symbol->n_bytes; i++) {
        int32_t id = s->byte_ids[(uint8_t)text[i]];
        if (id >= 0 && !take(context, id, begin + i))
            return false;
    }
    return true;
}

/* Tokenizes text[begin .. end). */
static bool take_word(const loam_spm *s, const char *text, size_t begin, size_t end,
                      loam_merger *merger, loam_token_taker take, void *context)
{
    const loam_vocab *v = s->vocab;
    int32_t token = -1, known = WHOLE_NO;
    if (end - begin <= v->max_text_bytes)
        token = loam_vocab_find(v, text + begin, end - begin);
    if (token >= 0) {
        known = atomic_load_explicit(&s->whole[token], memory_order_relaxed);
        if (known == WHOLE_YES)
            return take(context, token, begin);
    }
    loam_merger_clear(merger);
    for (size_t i = begin, n; i < end; i += n) {
        n = LOAM_MIN(loam_utf8_length(text[i]), end - i);
        int32_t id = loam_vocab_find(v, text + i, n);
        if (!loam_merger_add(merger, (uint32_t)n, id < 0 ? LOAM_SYMBOL_NONE : (uint32_t)id))
            return false;
    }
    session session = {s, text + begin};
    if (!loam_merger_run(merger, pair_rule, &session))
        return false;
    if (known == WHOLE_NOT_KNOWN)
        atomic_store_explicit(&s->whole[token],
                              merger->symbols[0].next == LOAM_SYMBOL_NONE ? WHOLE_YES : WHOLE_NO,
                              memory_order_relaxed);
    for (uint32_t i = 0; i != LOAM_SYMBOL_NONE; i = merger->symbols[i].next) {
        const loam_symbol *symbol = &merger->symbols[i];
        size_t at = begin + symbol->begin_bytes;
        if (!emit(s, text + at, symbol, at, take, context))
            return false;
    }
    return true;
}

bool loam_spm_tokenize(const loam_spm *s, const char *text, size_t n_bytes, loam_merger *merger,
                       loam_token_taker take, void *context)
{
    size_t begin = 0;
    bool after_mark = true;
    for (size_t i = 0, n; i < n_bytes; i += n) {
        n = LOAM_MIN(loam_utf8_length(text[i]), n_bytes - i);
        bool mark = n == MARK_BYTES && is_mark(text + i, n);
        if (s->words_apart && mark && !after_mark) {
            if (!take_word(s, text, begin, i, merger, take, context))
                return false;
            begin = i;
        }
        after_mark = mark;
    }
    return begin == n_bytes || take_word(s, text, begin, n_bytes, merger, take, context);
}

void loam_spm_piece(const loam_spm *s, int32_t id, loam_string *out)
{
    const loam_slice *t = &s->vocab->texts[id];
    for (size_t i = 0; i < t->bytes;) {
        bool mark = is_mark(t->data + i, t->bytes - i);
        loam_string_append(out, mark ? " " : t->data + i, 1);
        i += mark ? MARK_BYTES : 1;
    }
}
