/* hparams.c: the metadata that all architectures share. */
#include "model/build.h"

#include <math.h>
#include <string.h>

/* What is read here, or says nothing that a graph depends on. */
static const char *const common_keys[] = {
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.layer_norm_rms_epsilon",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "expert_count",
    "expert_used_count",
    "tensor_data_layout",
    NULL,
};

static bool has_key(const char *const *keys, const char *name, size_t n_bytes)
{
    for (; keys && *keys; keys++)
        if (strlen(*keys) == n_bytes && memcmp(*keys, name, n_bytes) == 0)
            return true;
    return false;
}

static loam_status refuse_unknown_keys(const loam_gguf *g, const loam_arch *arch, loam_error *e)
{
    size_t n_prefix = strlen(arch->name);
    for (int64_t i = 0; i < loam_gguf_n_kv(g); i++) {
        loam_slice key = loam_gguf_kv_at(g, i)->key;
        if (key.bytes <= n_prefix + 1 || memcmp(key.data, arch->name, n_prefix) != 0 ||
            key.data[n_prefix] != '.')
            continue;
        const char *name = key.data + n_prefix + 1;
        size_t n_bytes = key.bytes - n_prefix - 1;
        if (!has_key(common_keys, name, n_bytes) && !has_key(arch->keys, name, n_bytes))
            return loam_fail(e, LOAM_E_UNSUPPORTED,
                             "%s: Loam does not know what '%.*s' changes in a %s model, so it "
                             "does not run it",
                             loam_gguf_path(g), (int)key.bytes, key.data, arch->name);
    }
    return LOAM_OK;
}

typedef struct reader {
    const loam_gguf *g;
    const loam_arch *arch;
    loam_error *e;
} reader;

static const char *key_of(const reader *r, const char *name, char out[160])
{
    snprintf(out, 160, "%s.%s", r->arch->name, name);
    return out;
}

/* A count; `fallback` < 0 makes it required. */
static loam_status read_count(const reader *r, const char *name, int64_t fallback, int64_t *out)
{
    char key[160];
    uint32_t value = fallback < 0 ? 0 : (uint32_t)fallback;
    LOAM_TRY(loam_kv_u32(r->g, key_of(r, name, key), fallback < 0, &value, r->e));
    if (value > INT32_MAX || (fallback < 0 && value == 0))
        return loam_fail(r->e, LOAM_E_FORMAT, "%s: '%s' is %u, which is no sensible count",
                         loam_gguf_path(r->g), key, value);
    *out = value;
    return LOAM_OK;
}

static loam_status read_float(const reader *r, const char *name, bool required, float *out)
{
    char key[160];
    LOAM_TRY(loam_kv_f32(r->g, key_of(r, name, key), required, out, r->e));
    if (!isfinite(*out))
        return loam_fail(r->e, LOAM_E_FORMAT, "%s: '%s' is not a finite number",
                         loam_gguf_path(r->g), key);
    return LOAM_OK;
}

/* Rotary position scaling: linear (positions divided by the factor) or YaRN (arXiv 2309.00071). */
static loam_status read_rope(const reader *r, loam_hparams *h)
{
    loam_rope_params *p = &h->rope;
    int64_t n_dims = 0, n_ctx_orig = 0;
    *p = (loam_rope_params){.mode = r->arch->rope_mode,
                            .freq_base = 10000.0f,
                            .freq_scale = 1.0f,
                            .attn_factor = 1.0f,
                            .beta_fast = 32.0f,
                            .beta_slow = 1.0f};
    LOAM_TRY(read_count(r, "rope.dimension_count", h->n_embd_head_k, &n_dims));
    LOAM_TRY(read_count(r, "rope.scaling.original_context_length", h->n_ctx_train, &n_ctx_orig));
    LOAM_TRY(read_float(r, "rope.freq_base", false, &p->freq_base));
    LOAM_TRY(read_float(r, "rope.scaling.attn_factor", false, &p->attn_factor));
    if (n_dims % 2 != 0 || n_dims > h->n_embd_head_k || p->freq_base <= 0)
        return loam_fail(r->e, LOAM_E_FORMAT,
                         "%s: RoPE over %lld of a head's %lld elements with base %g",
                         loam_gguf_path(r->g), (long long)n_dims, (long long)h->n_embd_head_k,
                         (double)p->freq_base);
    p->n_dims = (int32_t)n_dims;
    p->n_ctx_orig = (int32_t)n_ctx_orig;

    char key[160];
    loam_slice type = {"linear", 6};
    float factor = 0;
    LOAM_TRY(read_float(r, "rope.scale_linear", false, &factor));
    LOAM_TRY(read_float(r, "rope.scaling.factor", false, &factor));
    LOAM_TRY(loam_kv_string(r->g, key_of(r, "rope.scaling.type", key), false, &type, r->e));
    bool is_yarn = type.bytes == 4 && memcmp(type.data, "yarn", 4) == 0;
    bool is_linear = type.bytes == 6 && memcmp(type.data, "linear", 6) == 0;
    bool is_none = type.bytes == 4 && memcmp(type.data, "none", 4) == 0;
    if (!is_yarn && !is_linear && !is_none)
        return loam_fail(r->e, LOAM_E_UNSUPPORTED,
                         "%s: RoPE scaling '%.*s' is unknown to Loam (none, linear, yarn are not)",
                         loam_gguf_path(r->g), (int)LOAM_MIN(type.bytes, (size_t)100), type.data);
    if (factor < 0 || (factor > 0 && !isfinite(1.0f / factor)) || !(p->attn_factor > 0))
        return loam_fail(r->e, LOAM_E_FORMAT, "%s: RoPE scaling by %g, attention factor %g",
                         loam_gguf_path(r->g), (double)factor, (double)p->attn_factor);
    if (factor > 0 && !is_none)
        p->freq_scale = 1.0f / factor;
    if (is_yarn)
        p->ext_factor = 1.0f;
    return LOAM_OK;
}

static loam_status check_heads(const reader *r, const loam_hparams *h)
{
    int64_t n_expert = 0;
    LOAM_TRY(read_count(r, "expert_count", 0, &n_expert));
    if (n_expert > 0)
        return loam_fail(r->e, LOAM_E_UNSUPPORTED,
                         "%s: a mixture of %lld experts; Loam runs dense %s models only",
                         loam_gguf_path(r->g), (long long)n_expert, r->arch->name);
    if (h->n_head_kv < 1 || h->n_head % h->n_head_kv != 0)
        return loam_fail(r->e, LOAM_E_FORMAT, "%s: %lld heads over %lld key/value heads",
                         loam_gguf_path(r->g), (long long)h->n_head, (long long)h->n_head_kv);
    if (h->n_embd_head_k < 1 || h->n_embd_head_v < 1)
        return loam_fail(r->e, LOAM_E_FORMAT, "%s: heads of %lld elements", loam_gguf_path(r->g),
                         (long long)h->n_embd_head_k);
    if (h->rms_eps < 0)
        return loam_fail(r->e, LOAM_E_FORMAT, "%s: a negative RMS norm epsilon",
                         loam_gguf_path(r->g));
    return LOAM_OK;
}

loam_status loam_hparams_read(const loam_gguf *g, const loam_arch *arch, loam_hparams *h,
                              loam_error *e)
{
    reader r = {g, arch, e};
    *h = (loam_hparams){0};
    LOAM_TRY(refuse_unknown_keys(g, arch, e));
    LOAM_TRY(read_count(&r, "context_length", -1, &h->n_ctx_train));
    LOAM_TRY(read_count(&r, "embedding_length", -1, &h->n_embd));
    LOAM_TRY(read_count(&r, "block_count", -1, &h->n_layer));
    LOAM_TRY(read_count(&r, "feed_forward_length", -1, &h->n_ff));
    LOAM_TRY(read_count(&r, "attention.head_count", -1, &h->n_head));
    LOAM_TRY(read_count(&r, "attention.head_count_kv", h->n_head, &h->n_head_kv));
    LOAM_TRY(read_count(&r, "attention.key_length", h->n_embd / h->n_head, &h->n_embd_head_k));
    LOAM_TRY(read_count(&r, "attention.value_length", h->n_embd / h->n_head, &h->n_embd_head_v));
    LOAM_TRY(read_float(&r, "attention.layer_norm_rms_epsilon", true, &h->rms_eps));
    LOAM_TRY(check_heads(&r, h));
    h->attention_scale = 1.0f / sqrtf((float)h->n_embd_head_k);
    return read_rope(&r, h);
}
