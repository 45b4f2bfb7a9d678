/* random_model.c: the tensors of a shape, filled from one random stream per name. */
#include "support/random_model.h"

#include <math.h>
#include <string.h>

/* Weights repeat after this many elements, or an 8B model would take minutes to draw. */
#define TILE_ELEMENTS ((int64_t)1 << 20)

typedef struct writer {
    const random_model *r;
    loam_gguf_writer *w;
    void **owned;
    int n_owned, capacity;
    loam_error *e;
    loam_status status;
} writer;

static void keep(writer *x, void *p)
{
    if (x->n_owned == x->capacity) {
        x->capacity = x->capacity ? 2 * x->capacity : 64;
        x->owned = loam_realloc(x->owned, (size_t)x->capacity * sizeof(void *));
        LOAM_ASSERT(x->owned); /* a tool for tests: no memory is the end */
    }
    x->owned[x->n_owned++] = p;
}

/* Normals of the given scale, repeated every TILE_ELEMENTS, in a row-wise encoding. */
static void *draw(writer *x, const char *name, loam_type type, int64_t n, float scale, float mean)
{
    const loam_type_info *info = loam_type_get(type);
    int64_t n_tile = LOAM_MIN(n, TILE_ELEMENTS / info->block_ne * info->block_ne);
    size_t bytes = (size_t)(n / info->block_ne) * info->block_bytes;
    size_t tile_bytes = (size_t)(n_tile / info->block_ne) * info->block_bytes;
    uint8_t *data = loam_alloc(bytes);
    float *values = loam_alloc((size_t)n_tile * sizeof *values);
    LOAM_ASSERT(data && values);
    loam_rng rng = loam_rng_stream(x->r->seed, name);
    for (int64_t i = 0; i < n_tile; i++)
        values[i] = mean + scale * (float)loam_rng_normal(&rng);
    if (x->status == LOAM_OK)
        x->status = loam_encode(type, values, data, n_tile, x->e);
    for (size_t at = tile_bytes; at < bytes; at += tile_bytes)
        memcpy(data + at, data, LOAM_MIN(tile_bytes, bytes - at));
    loam_free(values);
    keep(x, data);
    return data;
}

static void add(writer *x, const char *name, loam_type type, int64_t ne0, int64_t ne1, float scale,
                float mean)
{
    loam_tensor t = {.type = type, .ne = {ne0, ne1, 1, 1}};
    if (x->status != LOAM_OK)
        return;
    if (ne0 % loam_type_get(type)->block_ne != 0)
        t.type = type = LOAM_TYPE_F16; /* as llama.cpp falls back for odd rows */
    t.data = draw(x, name, type, ne0 * ne1, scale, mean);
    loam_dense_strides(type, t.ne, t.nb);
    loam_gguf_add_tensor(x->w, name, ne1 == 1 ? 1 : 2, &t);
}

/* llama.cpp's Q4_K_M: the better type for the first and last eighth, and every third between. */
static loam_type mixed(const random_model *r, int64_t layer, loam_type base, bool is_sensitive)
{
    int64_t n = r->n_layer;
    bool more = layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
    return base == LOAM_TYPE_Q4_K && is_sensitive && more ? LOAM_TYPE_Q6_K : base;
}

static void add_linear(writer *x, int64_t layer, const char *part, int64_t n_in, int64_t n_out,
                       loam_type type)
{
    char name[LOAM_MESSAGE_BYTES / 8];
    snprintf(name, sizeof name, "blk.%d.%s.weight", (int)layer, part);
    add(x, name, type, n_in, n_out, 1.0f / sqrtf((float)n_in), 0);
}

static void add_vector(writer *x, int64_t layer, const char *part, int64_t n, float mean)
{
    char name[LOAM_MESSAGE_BYTES / 8];
    snprintf(name, sizeof name, "blk.%d.%s", (int)layer, part);
    add(x, name, LOAM_TYPE_F32, n, 1, 0.1f, mean);
}

static void add_block(writer *x, int64_t layer, loam_type type)
{
    const random_model *r = x->r;
    int64_t n_q = r->n_embd_head * r->n_head, n_kv = r->n_embd_head * r->n_head_kv;
    add_vector(x, layer, "attn_norm.weight", r->n_embd, 1);
    add_linear(x, layer, "attn_q", r->n_embd, n_q, type);
    add_linear(x, layer, "attn_k", r->n_embd, n_kv, type);
    add_linear(x, layer, "attn_v", r->n_embd, n_kv, mixed(r, layer, type, true));
    add_linear(x, layer, "attn_output", n_q, r->n_embd, type);
    if (strcmp(r->arch, "qwen3") == 0) {
        add_vector(x, layer, "attn_q_norm.weight", r->n_embd_head, 1);
        add_vector(x, layer, "attn_k_norm.weight", r->n_embd_head, 1);
    }
    if (strcmp(r->arch, "qwen2") == 0) {
        add_vector(x, layer, "attn_q.bias", n_q, 0);
        add_vector(x, layer, "attn_k.bias", n_kv, 0);
        add_vector(x, layer, "attn_v.bias", n_kv, 0);
    }
    add_vector(x, layer, "ffn_norm.weight", r->n_embd, 1);
    add_linear(x, layer, "ffn_gate", r->n_embd, r->n_ff, type);
    add_linear(x, layer, "ffn_up", r->n_embd, r->n_ff, type);
    add_linear(x, layer, "ffn_down", r->n_ff, r->n_embd, mixed(r, layer, type, true));
}

/* An SPM vocabulary: <unk>, <s>, </s>, every byte, then words that no text holds. */
static void add_vocabulary(writer *x)
{
    size_t n = (size_t)x->r->n_vocab;
    char(*text)[16] = loam_alloc(n * sizeof *text);
    loam_slice *tokens = loam_alloc(n * sizeof *tokens);
    float *scores = loam_alloc(n * sizeof *scores);
    int32_t *types = loam_alloc(n * sizeof *types);
    LOAM_ASSERT(text && tokens && scores && types);
    for (size_t i = 0; i < n; i++) {
        static const char *const control[] = {"<unk>", "<s>", "</s>"};
        if (i < 3)
            snprintf(text[i], sizeof text[i], "%s", control[i]);
        else if (i < 259)
            snprintf(text[i], sizeof text[i], "<0x%02X>", (unsigned)(i - 3));
        else
            snprintf(text[i], sizeof text[i], "\xE2\x96\x81w%u", (unsigned)i);
        tokens[i] = (loam_slice){text[i], strlen(text[i])};
        scores[i] = i < 259 ? 0 : -(float)i;
        types[i] = i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1;
    }
    loam_gguf_set_string(x->w, "tokenizer.ggml.model", "llama");
    loam_gguf_set_string_array(x->w, "tokenizer.ggml.tokens", tokens, n);
    loam_gguf_set_array(x->w, "tokenizer.ggml.scores", LOAM_KV_F32, scores, n);
    loam_gguf_set_array(x->w, "tokenizer.ggml.token_type", LOAM_KV_I32, types, n);
    loam_gguf_set_u32(x->w, "tokenizer.ggml.bos_token_id", 1);
    loam_gguf_set_u32(x->w, "tokenizer.ggml.eos_token_id", 2);
    loam_gguf_set_u32(x->w, "tokenizer.ggml.unknown_token_id", 0);
    loam_free(text);
    loam_free(tokens);
    loam_free(scores);
    loam_free(types);
}

static void set_count(writer *x, const char *key, int64_t value)
{
    char name[LOAM_MESSAGE_BYTES / 8];
    snprintf(name, sizeof name, "%s.%s", x->r->arch, key);
    loam_gguf_set_u32(x->w, name, (uint32_t)value);
}

static void set_float(writer *x, const char *key, float value)
{
    char name[LOAM_MESSAGE_BYTES / 8];
    snprintf(name, sizeof name, "%s.%s", x->r->arch, key);
    loam_gguf_set_f32(x->w, name, value);
}

static void add_metadata(writer *x)
{
    const random_model *r = x->r;
    loam_gguf_set_string(x->w, "general.type", "model");
    loam_gguf_set_string(x->w, "general.architecture", r->arch);
    loam_gguf_set_string(x->w, "general.name", "random weights");
    loam_gguf_set_u32(x->w, "general.quantization_version", 2);
    set_count(x, "context_length", r->n_ctx);
    set_count(x, "embedding_length", r->n_embd);
    set_count(x, "block_count", r->n_layer);
    set_count(x, "feed_forward_length", r->n_ff);
    set_count(x, "attention.head_count", r->n_head);
    set_count(x, "attention.head_count_kv", r->n_head_kv);
    set_count(x, "attention.key_length", r->n_embd_head);
    set_count(x, "attention.value_length", r->n_embd_head);
    set_count(x, "rope.dimension_count", r->n_embd_head);
    set_float(x, "rope.freq_base", r->freq_base > 0 ? r->freq_base : 10000.0f);
    set_float(x, "attention.layer_norm_rms_epsilon", 1e-5f);
    add_vocabulary(x);
}

static void add_tensors(writer *x, loam_type type)
{
    const random_model *r = x->r;
    bool is_mixed = type == LOAM_TYPE_Q4_K;
    add(x, "token_embd.weight", is_mixed && r->tied ? LOAM_TYPE_Q6_K : type, r->n_embd, r->n_vocab,
        1.0f, 0);
    for (int64_t i = 0; i < r->n_layer; i++)
        add_block(x, i, type);
    if (r->rope_freqs)
        add(x, "rope_freqs.weight", LOAM_TYPE_F32, r->n_embd_head / 2, 1, 0.5f, 4.0f);
    add(x, "output_norm.weight", LOAM_TYPE_F32, r->n_embd, 1, 0.1f, 1);
    if (!r->tied)
        add(x, "output.weight", is_mixed ? LOAM_TYPE_Q6_K : type, r->n_embd, r->n_vocab,
            1.0f / sqrtf((float)r->n_embd), 0);
}

loam_status random_model_write(const random_model *r, const char *path, loam_error *e)
{
    loam_type type;
    bool is_mixed = strcmp(r->ftype, "Q4_K_M") == 0;
    if (!loam_type_from_name(is_mixed ? "Q4_K" : r->ftype, &type) || r->n_vocab < 259)
        return loam_fail(e, LOAM_E_USAGE, "a random model of type %s with %lld tokens", r->ftype,
                         (long long)r->n_vocab);
    if (strcmp(r->arch, "llama") != 0 && strcmp(r->arch, "qwen2") != 0 &&
        strcmp(r->arch, "qwen3") != 0)
        return loam_fail(e, LOAM_E_USAGE, "no random model of architecture '%s'", r->arch);
    writer x = {.r = r, .w = loam_gguf_writer_new(), .e = e};
    LOAM_ASSERT(x.w);
    add_metadata(&x);
    add_tensors(&x, type);
    if (x.status == LOAM_OK)
        x.status = loam_gguf_write(x.w, path, e);
    loam_gguf_writer_free(x.w);
    for (int i = 0; i < x.n_owned; i++)
        loam_free(x.owned[i]);
    loam_free(x.owned);
    return x.status;
}
