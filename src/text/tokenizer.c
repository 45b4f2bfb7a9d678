/* tokenizer.c: what text.h offers of tokenizers, over the two algorithms in bpe.c and spm.c. */
#include "text/text.h"
#include "text/bpe.h"
#include "text/special.h"
#include "text/spm.h"
#include "text/unicode.h"

#include <string.h>

#define MAX_TEXT_BYTES                                                                             \
    ((size_t)1 << 30) /* so that positions fit 32 bits even where text triples                     \
                       */

struct loam_tokenizer {
    loam_vocab vocab;
    loam_bpe bpe; /* one of the two is in use */
    loam_spm spm;
    loam_specials shown;   /* user-defined tokens: looked for in every text */
    loam_specials special; /* those and control tokens */
};

/* ---- making one ---------------------------------------------------------------------------- */

void loam_tokenizer_free(loam_tokenizer *t)
{
    if (!t)
        return;
    loam_bpe_free(&t->bpe);
    loam_spm_free(&t->spm);
    loam_specials_free(&t->shown);
    loam_specials_free(&t->special);
    loam_vocab_free(&t->vocab);
    loam_free(t);
}

static bool equals(loam_slice s, const char *text)
{
    return s.bytes == strlen(text) && memcmp(s.data, text, s.bytes) == 0;
}

static loam_status find_pretokenizer(const loam_gguf *g, const loam_pretokenizer **out,
                                     loam_error *e)
{
    loam_slice name = {"default", 7};
    LOAM_TRY(loam_kv_string(g, "tokenizer.ggml.pre", false, &name, e));
    *out = loam_pretokenizer_find(name);
    if (*out)
        return LOAM_OK;
    loam_string known = {0};
    for (int i = 0; loam_pretokenizer_name(i); i++)
        loam_string_printf(&known, "%s%s", i ? ", " : "", loam_pretokenizer_name(i));
    loam_status status = loam_fail(
        e, LOAM_E_UNSUPPORTED,
        "%s: tokenizer.ggml.pre is '%.*s', which Loam does not know; known: %s", loam_gguf_path(g),
        (int)LOAM_MIN(name.bytes, (size_t)80), name.data, known.data ? known.data : "");
    loam_string_free(&known);
    return status;
}

static loam_status fill(const loam_gguf *g, loam_tokenizer *t, loam_error *e)
{
    loam_slice model = {NULL, 0};
    LOAM_TRY(loam_kv_string(g, "tokenizer.ggml.model", true, &model, e));
    bool memory = true;
    if (equals(model, "llama")) {
        LOAM_TRY(loam_vocab_read(g, LOAM_VOCAB_SPM, true, &t->vocab, e));
        memory = loam_spm_init(&t->vocab, &t->spm);
    } else if (equals(model, "gpt2")) {
        const loam_pretokenizer *pre;
        LOAM_TRY(find_pretokenizer(g, &pre, e));
        LOAM_TRY(loam_vocab_read(g, LOAM_VOCAB_BPE, pre->adds_bos, &t->vocab, e));
        LOAM_TRY(loam_bpe_init(g, &t->vocab, pre, &t->bpe, e));
    } else {
        return loam_fail(e, LOAM_E_UNSUPPORTED,
                         "%s: tokenizer.ggml.model is '%.*s'; Loam knows 'llama' and 'gpt2'",
                         loam_gguf_path(g), (int)LOAM_MIN(model.bytes, (size_t)80), model.data);
    }
    if (!memory || !loam_specials_init(&t->shown, &t->vocab, false) ||
        !loam_specials_init(&t->special, &t->vocab, true))
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory left for the tokenizer",
                         loam_gguf_path(g));
    return LOAM_OK;
}

loam_status loam_tokenizer_create(const loam_gguf *g, loam_tokenizer **out, loam_error *e)
{
    *out = NULL;
    loam_tokenizer *t = loam_alloc(sizeof(*t));
    if (!t)
        return loam_fail(e, LOAM_E_MEMORY, "%s: no memory left for the tokenizer",
                         loam_gguf_path(g));
    loam_status status = fill(g, t, e);
    if (status != LOAM_OK) {
        loam_tokenizer_free(t);
        return status;
    }
    *out = t;
    return LOAM_OK;
}

/* ---- lists of tokens ------------------------------------------------------------------------- */

void loam_tokens_free(loam_tokens *t)
{
    loam_free(t->ids);
    loam_free(t->offsets_bytes);
    *t = (loam_tokens){0};
}

/* Room for one more token and for the offset that closes the list. */
static bool reserve(loam_tokens *t)
{
    if (t->n < t->capacity)
        return true;
    if (t->capacity > INT64_MAX / 32)
        return false;
    size_t capacity = t->capacity ? (size_t)t->capacity * 2 : 64;
    int32_t *ids = loam_realloc(t->ids, capacity * sizeof(*ids));
    if (!ids)
        return false;
    t->ids = ids;
    size_t *offsets = loam_realloc(t->offsets_bytes, (capacity + 1) * sizeof(*offsets));
    if (!offsets)
        return false;
    t->offsets_bytes = offsets;
    t->capacity = (int64_t)capacity;
    return true;
}

static bool push(loam_tokens *t, int32_t id, size_t offset)
{
    if (!reserve(t))
        return false;
    t->ids[t->n] = id;
    t->offsets_bytes[t->n] = offset;
    t->n++;
    return true;
}

/* ---- tokenizing --------------------------------------------------------------------------------
 */

/* How the text that an algorithm sees differs from the user's. */
typedef enum rewriting {
    REWRITE_NOTHING,
    REWRITE_SPACES, /* each space is U+2581, 3 bytes */
    REWRITE_INVALID /* each byte that is not UTF-8 is U+FFFD, 3 bytes; overlong forms are short */
} rewriting;

/* Where tokens go. They arrive in order, with positions in the rewritten text; the cursor walks
 * along both texts to translate these. */
typedef struct sink {
    loam_tokens *out;
    const char *source; /* of the fragment */
    size_t source_bytes;
    size_t base; /* where the fragment begins in the whole text */
    rewriting how;
    size_t lead_bytes; /* of the rewritten text that no source byte stands for */
    size_t source_at, rewritten_at;
} sink;

/* Sizes of the character at the cursor in both texts. */
static void widths(const sink *s, size_t *source, size_t *rewritten)
{
    const char *p = s->source + s->source_at;
    *source = *rewritten = 1;
    if (s->how == REWRITE_SPACES) {
        *rewritten = *p == ' ' ? 3 : 1;
    } else {
        char again[4];
        uint32_t c = loam_utf8_decode(p, s->source_bytes - s->source_at, source);
        *rewritten = loam_utf8_encode(c, again);
    }
}

static bool take_token(void *context, int32_t id, size_t begin)
{
    sink *s = context;
    if (s->how == REWRITE_NOTHING)
        return push(s->out, id, s->base + begin);
    begin -= LOAM_MIN(begin, s->lead_bytes);
    while (s->rewritten_at < begin && s->source_at < s->source_bytes) {
        size_t source, rewritten;
        widths(s, &source, &rewritten);
        if (s->rewritten_at + rewritten > begin)
            break;
        s->source_at += source;
        s->rewritten_at += rewritten;
    }
    return push(s->out, id, s->base + s->source_at);
}

/* The memory of one call. */
typedef struct scratch {
    loam_merger merger;
    loam_queue found;
    char *text;
    size_t text_capacity;
} scratch;

static bool make_room(scratch *w, size_t n_bytes)
{
    if (n_bytes <= w->text_capacity)
        return true;
    char *text = loam_realloc(w->text, n_bytes);
    if (!text)
        return false;
    w->text = text;
    w->text_capacity = n_bytes;
    return true;
}

static bool tokenize_spm(const loam_tokenizer *t, sink *s, scratch *w)
{
    bool space_prefix = t->vocab.adds_space_prefix;
    size_t n_spaces = space_prefix, n = 0;
    for (size_t i = 0; i < s->source_bytes; i++)
        n_spaces += s->source[i] == ' ';
    if (!make_room(w, s->source_bytes + 3 * n_spaces))
        return false;
    s->how = REWRITE_SPACES;
    s->lead_bytes = space_prefix ? 3 : 0;
    if (space_prefix) {
        memcpy(w->text, "\xE2\x96\x81", 3);
        n = 3;
    }
    for (size_t i = 0; i < s->source_bytes; i++) {
        if (s->source[i] == ' ') {
            memcpy(w->text + n, "\xE2\x96\x81", 3);
            n += 3;
        } else {
            w->text[n++] = s->source[i];
        }
    }
    return loam_spm_tokenize(&t->spm, w->text, n, &w->merger, take_token, s);
}

static bool tokenize_bpe(const loam_tokenizer *t, sink *s, scratch *w)
{
    s->how = REWRITE_NOTHING;
    if (loam_utf8_is_clean(s->source, s->source_bytes))
        return loam_bpe_tokenize(&t->bpe, s->source, s->source_bytes, &w->merger, take_token, s);
    if (!make_room(w, 3 * s->source_bytes))
        return false;
    s->how = REWRITE_INVALID;
    size_t n = 0;
    for (size_t i = 0, used; i < s->source_bytes; i += used) {
        char encoded[4];
        size_t size =
            loam_utf8_encode(loam_utf8_decode(s->source + i, s->source_bytes - i, &used), encoded);
        memcpy(w->text + n, encoded, size);
        n += size;
    }
    return loam_bpe_tokenize(&t->bpe, w->text, n, &w->merger, take_token, s);
}

/* The text between two special tokens. */
static bool tokenize_fragment(const loam_tokenizer *t, const char *text, size_t begin, size_t end,
                              loam_tokens *out, scratch *w)
{
    sink s = {.out = out, .source = text + begin, .source_bytes = end - begin, .base = begin};
    if (begin == end)
        return true;
    if (t->vocab.kind == LOAM_VOCAB_SPM)
        return tokenize_spm(t, &s, w);
    return tokenize_bpe(t, &s, w);
}

static bool tokenize(const loam_tokenizer *t, const char *text, size_t n_bytes, unsigned flags,
                     loam_tokens *out, scratch *w)
{
    const loam_vocab *v = &t->vocab;
    const loam_specials *specials = flags & LOAM_TOKENIZE_PARSE_SPECIAL ? &t->special : &t->shown;
    bool add = flags & LOAM_TOKENIZE_ADD_SPECIAL;
    if (!reserve(out) || !loam_specials_find(specials, v, text, n_bytes, &w->found))
        return false;
    if (add && v->adds_bos && !push(out, v->bos, 0))
        return false;
    size_t begin = 0;
    while (w->found.n > 0) {
        loam_queue_entry token = loam_queue_pop(&w->found);
        if (!tokenize_fragment(t, text, begin, (size_t)token.key, out, w) ||
            !push(out, (int32_t)token.a, (size_t)token.key))
            return false;
        begin = token.b;
    }
    if (!tokenize_fragment(t, text, begin, n_bytes, out, w))
        return false;
    return !(add && v->adds_eos) || push(out, v->eos, n_bytes);
}

loam_status loam_tokenize(const loam_tokenizer *t, const char *text, size_t n_bytes, unsigned flags,
                          loam_tokens *out, loam_error *e)
{
    if (n_bytes > MAX_TEXT_BYTES)
        return loam_fail(e, LOAM_E_DATA,
                         "a text of %zu bytes is too long to tokenize at once; the most is %zu",
                         n_bytes, MAX_TEXT_BYTES);
    scratch w = {0};
    int64_t n = out->n;
    size_t closing = n > 0 ? out->offsets_bytes[n] : 0;
    bool ok = tokenize(t, text, n_bytes, flags, out, &w);
    loam_merger_free(&w.merger);
    loam_queue_free(&w.found);
    loam_free(w.text);
    if (!ok) {
        out->n = n;
        if (n > 0)
            out->offsets_bytes[n] = closing;
        return loam_fail(e, LOAM_E_MEMORY, "no memory left to tokenize a text of %zu bytes",
                         n_bytes);
    }
    out->offsets_bytes[out->n] = n_bytes;
    return LOAM_OK;
}

/* ---- about tokens ------------------------------------------------------------------------------
 */

void loam_token_piece(const loam_tokenizer *t, int32_t id, bool special, loam_string *out)
{
    const loam_vocab *v = &t->vocab;
    if (id < 0 || id >= v->n)
        return;
    uint16_t a = v->attributes[id];
    const loam_slice *text = &v->texts[id];
    int byte = loam_byte_token_value(*text);
    if (a & (LOAM_TOKEN_CONTROL | LOAM_TOKEN_UNKNOWN)) {
        if (special)
            loam_string_append(out, text->data, text->bytes);
    } else if (a & LOAM_TOKEN_USER_DEFINED) {
        loam_string_append(out, text->data, text->bytes);
    } else if (a & LOAM_TOKEN_BYTE && byte >= 0) {
        loam_string_append(out, &(char){(char)byte}, 1);
    } else if (a & (LOAM_TOKEN_NORMAL | LOAM_TOKEN_BYTE)) {
        if (v->kind == LOAM_VOCAB_SPM)
            loam_spm_piece(&t->spm, id, out);
        else
            loam_bpe_piece(&t->bpe, id, out);
    }
}

int32_t loam_tokenizer_n_vocab(const loam_tokenizer *t)
{
    return t->vocab.n;
}

int32_t loam_tokenizer_bos(const loam_tokenizer *t)
{
    return t->vocab.bos;
}

int32_t loam_tokenizer_eos(const loam_tokenizer *t)
{
    return t->vocab.eos;
}

int32_t loam_tokenizer_eot(const loam_tokenizer *t)
{
    return t->vocab.eot >= 0 ? t->vocab.eot : t->vocab.eos;
}

bool loam_tokenizer_adds_bos(const loam_tokenizer *t)
{
    return t->vocab.adds_bos;
}

static bool has(const loam_tokenizer *t, int32_t id, uint16_t attribute)
{
    return id >= 0 && id < t->vocab.n && (t->vocab.attributes[id] & attribute);
}

bool loam_token_is_eog(const loam_tokenizer *t, int32_t id)
{
    return has(t, id, LOAM_TOKEN_EOG);
}

bool loam_token_is_control(const loam_tokenizer *t, int32_t id)
{
    return has(t, id, LOAM_TOKEN_CONTROL);
}

int32_t loam_token_find(const loam_tokenizer *t, const char *text, size_t n_bytes)
{
    return loam_vocab_find(&t->vocab, text, n_bytes);
}
