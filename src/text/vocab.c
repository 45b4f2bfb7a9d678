/* vocab.c: reads a vocabulary from GGUF metadata and finds out what its tokens are. The rules that
 * go by a token's text are llama.cpp's (llama_vocab::impl::load), for files that do not say. */
#include "text/vocab.h"

#include <math.h>
#include <string.h>

#define KEY "tokenizer.ggml."
#define DEFAULT_BPE_ID 11 /* llama.cpp's bos and eos where the file names none; Falcon's */

int32_t loam_vocab_find(const loam_vocab *v, const char *text, size_t n_bytes)
{
    uint32_t id = loam_strtab_find(&v->by_text, text, n_bytes);
    return id == LOAM_STRTAB_NONE ? -1 : (int32_t)id;
}

static int32_t find_text(const loam_vocab *v, const char *text)
{
    return loam_vocab_find(v, text, strlen(text));
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int loam_byte_token_value(loam_slice text)
{
    if (text.bytes != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>')
        return -1;
    int high = hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void loam_vocab_free(loam_vocab *v)
{
    loam_free(v->texts);
    loam_free(v->scores);
    loam_free(v->attributes);
    loam_strtab_free(&v->by_text);
    loam_arena_free(v->arena);
}

static loam_status no_memory(const loam_gguf *g, loam_error *e)
{
    return loam_fail(e, LOAM_E_MEMORY, "%s: no memory left for the vocabulary", loam_gguf_path(g));
}

static loam_status read_texts(const loam_gguf *g, loam_vocab *v, loam_error *e)
{
    const loam_kv *kv = loam_gguf_find(g, KEY "tokens");
    if (!kv || kv->type != LOAM_KV_ARRAY || kv->element_type != LOAM_KV_STRING)
        return loam_fail(e, LOAM_E_FORMAT, "%s: " KEY "tokens is %s; expected an array of strings",
                         loam_gguf_path(g), kv ? "of another type" : "missing");
    if (kv->n == 0 || kv->n > INT32_MAX)
        return loam_fail(e, LOAM_E_FORMAT,
                         "%s: " KEY "tokens has %llu entries; expected 1 to 2147483647",
                         loam_gguf_path(g), (unsigned long long)kv->n);
    v->n = (int32_t)kv->n;
    v->texts = loam_alloc((size_t)v->n * sizeof(*v->texts));
    v->attributes = loam_alloc((size_t)v->n * sizeof(*v->attributes));
    v->arena = loam_arena_new();
    if (!v->texts || !v->attributes || !v->arena)
        return no_memory(g, e);
    loam_strtab_init(&v->by_text, (const loam_slice **)&v->texts);
    for (int32_t i = 0; i < v->n; i++) {
        loam_slice *text = &v->texts[i];
        *text = kv->strings[i];
        if (text->bytes == 0) {
            char *name = loam_arena_alloc(v->arena, 24);
            if (!name)
                return no_memory(g, e);
            int n = snprintf(name, 24, "[EMPTY_%d]", i);
            *text = (loam_slice){name, (size_t)n};
        }
        int32_t other = loam_vocab_find(v, text->data, text->bytes);
        if (other >= 0)
            return loam_fail(e, LOAM_E_FORMAT,
                             "%s: " KEY "tokens has the same text at %d and %d: '%.*s'; every "
                             "token needs its own",
                             loam_gguf_path(g), other, i, (int)LOAM_MIN(text->bytes, (size_t)80),
                             text->data);
        if (!loam_strtab_add(&v->by_text, (uint32_t)i))
            return no_memory(g, e);
        v->max_text_bytes = LOAM_MAX(v->max_text_bytes, text->bytes);
    }
    return LOAM_OK;
}

/* A numeric array with one entry per token, or NULL where the key is missing. */
static loam_status per_token(const loam_gguf *g, const loam_vocab *v, const char *key,
                             const loam_kv **out, loam_error *e)
{
    const loam_kv *kv = loam_gguf_find(g, key);
    *out = kv;
    if (!kv)
        return LOAM_OK;
    if (kv->type != LOAM_KV_ARRAY || kv->element_type == LOAM_KV_STRING ||
        kv->element_type == LOAM_KV_ARRAY || kv->element_type == LOAM_KV_BOOL)
        return loam_fail(e, LOAM_E_FORMAT, "%s: %s is not an array of numbers", loam_gguf_path(g),
                         key);
    if (kv->n != (uint64_t)v->n)
        return loam_fail(e, LOAM_E_FORMAT,
                         "%s: %s has %llu entries, but " KEY
                         "tokens has %d; both must have one per token",
                         loam_gguf_path(g), key, (unsigned long long)kv->n, v->n);
    return LOAM_OK;
}

static loam_status read_scores(const loam_gguf *g, loam_vocab *v, loam_error *e)
{
    const loam_kv *kv;
    LOAM_TRY(per_token(g, v, KEY "scores", &kv, e));
    if (!kv)
        return loam_fail(e, LOAM_E_FORMAT,
                         "%s: " KEY "scores is missing; a vocabulary of model 'llama' needs them",
                         loam_gguf_path(g));
    v->scores = loam_alloc((size_t)v->n * sizeof(float));
    if (!v->scores)
        return no_memory(g, e);
    for (int32_t i = 0; i < v->n; i++) {
        float score = (float)loam_kv_number_at(kv, (uint64_t)i);
        v->scores[i] = isnan(score) ? -INFINITY : score;
    }
    return LOAM_OK;
}

static loam_status read_types(const loam_gguf *g, loam_vocab *v, loam_error *e)
{
    /* Values of tokenizer.ggml.token_type: 0 undefined, 1 normal, 2 unknown, 3 control, ... */
    static const uint16_t bits[] = {
        LOAM_TOKEN_UNDEFINED,    LOAM_TOKEN_NORMAL, LOAM_TOKEN_UNKNOWN, LOAM_TOKEN_CONTROL,
        LOAM_TOKEN_USER_DEFINED, LOAM_TOKEN_UNUSED, LOAM_TOKEN_BYTE};
    const loam_kv *kv;
    LOAM_TRY(per_token(g, v, KEY "token_type", &kv, e));
    if (kv && (kv->element_type == LOAM_KV_F32 || kv->element_type == LOAM_KV_F64))
        return loam_fail(e, LOAM_E_FORMAT, "%s: " KEY "token_type is not an array of integers",
                         loam_gguf_path(g));
    for (int32_t i = 0; i < v->n; i++) {
        int64_t type = kv ? loam_kv_int_at(kv, (uint64_t)i) : 1;
        v->attributes[i] = type >= 0 && type < LOAM_COUNT(bits) ? bits[type] : LOAM_TOKEN_UNDEFINED;
    }
    return LOAM_OK;
}

/* Reads a token id into *id, which keeps its default where the key is missing or -1. */
static loam_status read_id(const loam_gguf *g, const loam_vocab *v, const char *key, int32_t *id,
                           loam_error *e)
{
    const loam_kv *kv = loam_gguf_find(g, key);
    if (*id >= v->n)
        *id = -1;
    if (!kv || (kv->type == LOAM_KV_I32 && loam_kv_int_at(kv, 0) == -1))
        return LOAM_OK;
    uint32_t value = UINT32_MAX;
    LOAM_TRY(loam_kv_u32(g, key, true, &value, e));
    if (value == UINT32_MAX)
        return LOAM_OK;
    if (value >= (uint32_t)v->n)
        return loam_fail(e, LOAM_E_FORMAT,
                         "%s: %s is %u, but " KEY "tokens has only %d entries; correct the key",
                         loam_gguf_path(g), key, value, v->n);
    *id = (int32_t)value;
    return LOAM_OK;
}

/* The first token of the list that exists becomes a control token; its id, or -1. */
static int32_t control_by_text(loam_vocab *v, const char *const *texts)
{
    for (; *texts; texts++) {
        int32_t id = find_text(v, *texts);
        if (id >= 0) {
            v->attributes[id] |= LOAM_TOKEN_CONTROL;
            return id;
        }
    }
    return -1;
}

/* Tokens for code infilling: control tokens all, and the last three kinds end a generation. */
static loam_status find_infill_tokens(const loam_gguf *g, loam_vocab *v, loam_error *e)
{
    static const struct {
        const char *key;
        const char *texts[10];
        bool ends;
    } kinds[] = {
        {KEY "fim_pre_token_id",
         {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
          "<|code_prefix|>", "<|prefix|>"},
         false},
        {KEY "fim_suf_token_id",
         {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
          "<|code_suffix|>", "<|suffix|>"},
         false},
        {KEY "fim_mid_token_id",
         {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
          "<|code_middle|>", "<|middle|>"},
         false},
        {KEY "fim_pad_token_id", {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}, true},
        {KEY "fim_rep_token_id",
         {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
         true},
        {KEY "fim_sep_token_id", {"<|file_sep|>"}, true},
    };
    for (int i = 0; i < LOAM_COUNT(kinds); i++) {
        int32_t id = -1;
        LOAM_TRY(read_id(g, v, kinds[i].key, &id, e));
        if (id < 0)
            id = control_by_text(v, kinds[i].texts);
        if (id >= 0 && kinds[i].ends)
            v->attributes[id] |= LOAM_TOKEN_EOG;
    }
    return LOAM_OK;
}

static bool ends(const loam_vocab *v, const char *text)
{
    int32_t id = find_text(v, text);
    return id >= 0 && (v->attributes[id] & LOAM_TOKEN_EOG);
}

/* Which tokens end a generation, by id and by text. */
static void find_ends(loam_vocab *v)
{
    static const char *const texts[] = {"<|eot_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<|flush|>",
                                        "<|calls|>",
                                        "<end_of_turn>",
                                        "<|endoftext|>",
                                        "</s>",
                                        "<|eom_id|>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "[EOT]",
                                        "[EOS]",
                                        "<|end_of_text|>",
                                        "<end_of_utterance>",
                                        "<eos>",
                                        "<turn|>",
                                        "<|tool_response>",
                                        "<｜end▁of▁sentence｜>",
                                        "[e~["};
    static const char *const always_shown[] = {"<|channel|>", "<|message|>", "<|start|>",
                                               "<|constrain|>"};
    for (int i = 0; i < LOAM_COUNT(texts); i++) {
        int32_t id = find_text(v, texts[i]);
        if (id >= 0)
            v->attributes[id] |= LOAM_TOKEN_CONTROL | LOAM_TOKEN_EOG;
    }
    for (int i = 0; i < LOAM_COUNT(always_shown); i++) {
        int32_t id = find_text(v, always_shown[i]);
        if (id >= 0)
            v->attributes[id] =
                LOAM_TOKEN_USER_DEFINED | (v->attributes[id] & (uint16_t)LOAM_TOKEN_EOG);
    }
    const int32_t ids[] = {v->eos, v->eot, v->eom};
    for (int i = 0; i < LOAM_COUNT(ids); i++) {
        if (ids[i] >= 0)
            v->attributes[ids[i]] |= LOAM_TOKEN_EOG;
    }
    /* In gpt-oss and solar-open <|end|> ends a channel, not the answer. */
    bool call = ends(v, "<|call|>") || ends(v, "<|calls|>");
    if (call && ends(v, "<|end|>") && (ends(v, "<|return|>") || ends(v, "<|flush|>")))
        v->attributes[find_text(v, "<|end|>")] = LOAM_TOKEN_USER_DEFINED;
    /* In gemma 4 </s> is an HTML tag. */
    if (ends(v, "<|tool_response>") && ends(v, "</s>"))
        v->attributes[find_text(v, "</s>")] = LOAM_TOKEN_NORMAL;
}

/* Phi-3's special tokens take the white space behind them; GGUF has no key for that, so llama.cpp
 * goes by the model's name. */
static loam_status find_space_eaters(const loam_gguf *g, loam_vocab *v, loam_error *e)
{
    static const char *const not_these[] = {"<unk>", "<s>", "<|endoftext|>"};
    loam_slice name = {"", 0};
    LOAM_TRY(loam_kv_string(g, "general.name", false, &name, e));
    char lower[256];
    size_t n = LOAM_MIN(name.bytes, sizeof(lower));
    for (size_t i = 0; i < n; i++)
        lower[i] =
            name.data[i] >= 'A' && name.data[i] <= 'Z' ? (char)(name.data[i] + 32) : name.data[i];
    if (!memmem(lower, n, "phi-3", 5) && !memmem(lower, n, "phi3", 4))
        return LOAM_OK;
    const uint16_t special = LOAM_TOKEN_CONTROL | LOAM_TOKEN_USER_DEFINED | LOAM_TOKEN_UNKNOWN;
    for (int32_t i = 0; i < v->n; i++) {
        if (v->attributes[i] & special)
            v->attributes[i] |= LOAM_TOKEN_EATS_SPACE;
    }
    for (int i = 0; i < LOAM_COUNT(not_these); i++) {
        int32_t id = find_text(v, not_these[i]);
        if (id >= 0)
            v->attributes[id] &= (uint16_t)~LOAM_TOKEN_EATS_SPACE;
    }
    return LOAM_OK;
}

static loam_status read_special_ids(const loam_gguf *g, loam_vocab *v, loam_error *e)
{
    static const char *const eot_texts[] = {
        "<|eot_id|>",         "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
        "<|end_of_text|>",    "<EOT>",      "_<EOT>",  "[EOT]",         "<｜end▁of▁sentence｜>",
        "<end_of_utterance>", NULL};
    static const char *const eom_texts[] = {"<|eom_id|>", NULL};
    bool spm = v->kind == LOAM_VOCAB_SPM;
    /* The default of BPE is right for Falcon alone; elsewhere it would make a comma the BOS. */
    int32_t bpe = v->n > DEFAULT_BPE_ID && (v->attributes[DEFAULT_BPE_ID] & LOAM_TOKEN_CONTROL)
                      ? DEFAULT_BPE_ID
                      : -1;
    v->bos = spm ? 1 : bpe;
    v->eos = spm ? 2 : bpe;
    v->unknown = spm ? 0 : -1;
    v->eot = v->eom = -1;
    LOAM_TRY(read_id(g, v, KEY "bos_token_id", &v->bos, e));
    LOAM_TRY(read_id(g, v, KEY "eos_token_id", &v->eos, e));
    LOAM_TRY(read_id(g, v, KEY "eot_token_id", &v->eot, e));
    LOAM_TRY(read_id(g, v, KEY "eom_token_id", &v->eom, e));
    LOAM_TRY(read_id(g, v, KEY "unknown_token_id", &v->unknown, e));
    if (v->eot < 0)
        v->eot = control_by_text(v, eot_texts);
    if (v->eom < 0)
        v->eom = control_by_text(v, eom_texts);
    return LOAM_OK;
}

loam_status loam_vocab_read(const loam_gguf *g, loam_vocab_kind kind, bool adds_bos, loam_vocab *v,
                            loam_error *e)
{
    v->kind = kind;
    v->adds_bos = kind == LOAM_VOCAB_SPM || adds_bos;
    v->adds_space_prefix = kind == LOAM_VOCAB_SPM;
    LOAM_TRY(read_texts(g, v, e));
    if (kind == LOAM_VOCAB_SPM)
        LOAM_TRY(read_scores(g, v, e));
    LOAM_TRY(read_types(g, v, e));
    LOAM_TRY(read_special_ids(g, v, e));
    LOAM_TRY(find_infill_tokens(g, v, e));
    find_ends(v);
    LOAM_TRY(find_space_eaters(g, v, e));
    LOAM_TRY(loam_kv_bool(g, KEY "add_bos_token", false, &v->adds_bos, e));
    LOAM_TRY(loam_kv_bool(g, KEY "add_eos_token", false, &v->adds_eos, e));
    LOAM_TRY(loam_kv_bool(g, KEY "add_space_prefix", false, &v->adds_space_prefix, e));
    v->adds_bos = v->adds_bos && v->bos >= 0;
    v->adds_eos = v->adds_eos && v->eos >= 0;
    return LOAM_OK;
}
