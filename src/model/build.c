/* build.c: the pieces that architectures are made of. */
#include "model/build.h"

#include <string.h>

loam_status loam_build_begin(loam_build *b, loam_error *e)
{
    b->tokens = loam_leaf_1d(b->g, LOAM_TYPE_I32, b->n_tokens, "tokens");
    b->positions = loam_leaf_1d(b->g, LOAM_TYPE_I32, b->n_tokens, "positions");
    b->ranges = loam_leaf_2d(b->g, LOAM_TYPE_I32, 2, b->n_tokens, "ranges");
    loam_set_input(b->tokens);
    loam_set_input(b->positions);
    loam_set_input(b->ranges);
    if (b->cache) {
        b->cache_rows = loam_leaf_1d(b->g, LOAM_TYPE_I32, b->n_tokens, "cache_rows");
        loam_set_input(b->cache_rows);
    }
    if (b->lora && b->lora->n_pairs > 0) {
        b->factors = loam_alloc(2 * (size_t)b->lora->n_pairs * sizeof *b->factors);
        if (!b->factors)
            return loam_fail(e, LOAM_E_MEMORY, "no memory for %d adapter pairs", b->lora->n_pairs);
    }
    return loam_graph_status(b->g, e);
}

void loam_build_end(loam_build *b)
{
    loam_free(b->factors);
    b->factors = NULL;
}

loam_tensor_name loam_block_name(int64_t layer, const char *part)
{
    loam_tensor_name name;
    snprintf(name.text, sizeof name.text, "blk.%d.%s", (int)layer, part);
    return name;
}

loam_node *loam_build_weight(loam_build *b, const char *name, int64_t ne0, int64_t ne1,
                             bool required)
{
    const loam_gguf *g = b->m->gguf;
    const loam_gguf_tensor *t = loam_gguf_find_tensor(g, name);
    if (!t) {
        if (required)
            loam_graph_fail(b->g, LOAM_E_FORMAT, "%s: tensor '%s' is missing", loam_gguf_path(g),
                            name);
        return NULL;
    }
    if (t->t.ne[0] != ne0 || t->t.ne[1] != ne1 || t->t.ne[2] != 1 || t->t.ne[3] != 1)
        return loam_graph_fail(b->g, LOAM_E_FORMAT,
                               "%s: tensor '%s' is [%lld, %lld, %lld, %lld], expected [%lld, %lld]",
                               loam_gguf_path(g), name, (long long)t->t.ne[0],
                               (long long)t->t.ne[1], (long long)t->t.ne[2], (long long)t->t.ne[3],
                               (long long)ne0, (long long)ne1);
    loam_node *n = loam_leaf(b->g, t->t.type, t->t.ne, name);
    if (!n)
        return NULL;
    const uint8_t *map = loam_gguf_map(g, t->shard)->data;
    loam_node_bind(n, b->m->shards[t->shard], (size_t)((const uint8_t *)t->t.data - map));
    if (b->used)
        b->used[t - loam_gguf_tensor_at(g, 0)] = true;
    return n;
}

/* One factor of an adapter pair as a leaf on the adapter's buffer. */
static loam_node *factor(loam_build *b, int slot, int64_t offset, int64_t ne0, int64_t ne1,
                         const char *target, char which)
{
    if (b->factors[slot])
        return b->factors[slot];
    char name[LOAM_NAME_BYTES];
    snprintf(name, sizeof name, "%.50s.lora_%c", target, which);
    loam_node *n = loam_leaf_2d(b->g, LOAM_TYPE_F32, ne0, ne1, name);
    if (!n)
        return NULL;
    loam_node_bind(n, b->lora->values, (size_t)offset * sizeof(float));
    if (b->train)
        loam_set_param(n);
    b->factors[slot] = n;
    return n;
}

static loam_node *lora_product(loam_build *b, const loam_lora_pair *p, loam_node *x)
{
    int slot = 2 * (int)(p - b->lora->pairs);
    loam_node *a = factor(b, slot, p->a_offset, p->n_in, p->rank, p->target, 'a');
    loam_node *bb = factor(b, slot + 1, p->b_offset, p->rank, p->n_out, p->target, 'b');
    return loam_mul_mat(b->g, bb, loam_scale(b->g, loam_mul_mat(b->g, a, x), p->scale));
}

static void mark_linear(loam_build *b, const char *name)
{
    const loam_gguf_tensor *t = loam_gguf_find_tensor(b->m->gguf, name);
    if (t)
        b->linears[t - loam_gguf_tensor_at(b->m->gguf, 0)] = true;
}

loam_node *loam_build_linear(loam_build *b, int64_t layer, const char *part, loam_node *x,
                             int64_t n_out)
{
    if (!x)
        return NULL;
    char name[LOAM_NAME_BYTES];
    snprintf(name, sizeof name, "%s.weight", part);
    loam_tensor_name weight = loam_block_name(layer, name);
    if (b->linears)
        mark_linear(b, weight.text);
    loam_node *y =
        loam_mul_mat(b->g, loam_build_weight(b, weight.text, x->t.ne[0], n_out, true), x);
    loam_set_name(y, "%s", weight.text);
    const loam_lora_pair *p = b->lora ? loam_lora_find(b->lora, weight.text) : NULL;
    if (p)
        y = loam_add(b->g, y, lora_product(b, p, x));
    snprintf(name, sizeof name, "%s.bias", part);
    loam_node *bias = loam_build_weight(b, loam_block_name(layer, name).text, n_out, 1, false);
    return bias ? loam_add(b->g, y, bias) : y;
}

loam_node *loam_build_norm(loam_build *b, loam_node *x, const char *name)
{
    if (!x)
        return NULL;
    loam_node *y = loam_rms_norm(b->g, x, b->m->hparams.rms_eps);
    return loam_mul(b->g, y, loam_build_weight(b, name, x->t.ne[0], 1, true));
}

/* The cache's keys (which 0) or values (1) of a layer, after this graph's own went in. */
static loam_node *cached(loam_build *b, int64_t layer, int which, loam_node *x, int64_t n_embd_head)
{
    const loam_hparams *h = &b->m->hparams;
    int64_t n_row = n_embd_head * h->n_head_kv;
    int64_t n_row_both = (h->n_embd_head_k + h->n_embd_head_v) * h->n_head_kv;
    int64_t first = layer * n_row_both + (which ? h->n_embd_head_k * h->n_head_kv : 0);
    loam_node *rows =
        loam_leaf_2d(b->g, LOAM_TYPE_F32, n_row, b->cache->n_ctx, which ? "cache_v" : "cache_k");
    if (!rows)
        return NULL;
    loam_node_bind(rows, b->cache->buffer, (size_t)(first * b->cache->n_ctx) * sizeof(float));
    rows = loam_set_rows(b->g, rows, loam_reshape_2d(b->g, x, n_row, b->n_tokens), b->cache_rows);
    return loam_reshape_3d(b->g, rows, n_embd_head, h->n_head_kv, b->cache->n_ctx);
}

static loam_node *attention(loam_build *b, int64_t layer, loam_node *x,
                            const loam_block_style *style)
{
    loam_graph *g = b->g;
    const loam_hparams *h = &b->m->hparams;
    int64_t dk = h->n_embd_head_k, dv = h->n_embd_head_v, n = b->n_tokens;
    loam_node *q = loam_build_linear(b, layer, "attn_q", x, dk * h->n_head);
    loam_node *k = loam_build_linear(b, layer, "attn_k", x, dk * h->n_head_kv);
    loam_node *v = loam_build_linear(b, layer, "attn_v", x, dv * h->n_head_kv);
    q = loam_reshape_3d(g, q, dk, h->n_head, n);
    k = loam_reshape_3d(g, k, dk, h->n_head_kv, n);
    v = loam_reshape_3d(g, v, dv, h->n_head_kv, n);
    if (style->qk_norm) {
        q = loam_build_norm(b, q, loam_block_name(layer, "attn_q_norm.weight").text);
        k = loam_build_norm(b, k, loam_block_name(layer, "attn_k_norm.weight").text);
    }
    loam_node *factors = loam_build_weight(b, "rope_freqs.weight", h->rope.n_dims / 2, 1, false);
    q = loam_rope(g, q, b->positions, factors, &h->rope);
    k = loam_rope(g, k, b->positions, factors, &h->rope);
    if (b->cache) {
        k = cached(b, layer, 0, k, dk);
        v = cached(b, layer, 1, v, dv);
    }
    loam_node *y = loam_flash_attn_ext(g, q, k, v, b->ranges, h->attention_scale);
    y = loam_reshape_2d(g, y, dv * h->n_head, n);
    return loam_build_linear(b, layer, "attn_output", y, h->n_embd);
}

loam_node *loam_build_block(loam_build *b, int64_t layer, loam_node *x,
                            const loam_block_style *style)
{
    loam_graph *g = b->g;
    const loam_hparams *h = &b->m->hparams;
    g->block = (int)layer;
    loam_node *y = loam_build_norm(b, x, loam_block_name(layer, "attn_norm.weight").text);
    x = loam_add(g, x, attention(b, layer, y, style));
    y = loam_build_norm(b, x, loam_block_name(layer, "ffn_norm.weight").text);
    loam_node *gate = loam_build_linear(b, layer, "ffn_gate", y, h->n_ff);
    loam_node *up = loam_build_linear(b, layer, "ffn_up", y, h->n_ff);
    y = loam_build_linear(b, layer, "ffn_down", loam_swiglu(g, gate, up), h->n_embd);
    x = loam_add(g, x, y);
    g->block = -1;
    return x;
}

loam_node *loam_build_decoder(loam_build *b, const loam_block_style *style)
{
    const loam_hparams *h = &b->m->hparams;
    loam_node *x = loam_get_rows(
        b->g, loam_build_weight(b, "token_embd.weight", h->n_embd, h->n_vocab, true), b->tokens);
    for (int64_t i = 0; x && i < h->n_layer; i++)
        x = loam_build_block(b, i, x, style);
    return loam_build_norm(b, x, "output_norm.weight");
}

loam_node *loam_build_hidden(loam_build *b)
{
    return b->m->arch->hidden(b);
}

loam_node *loam_build_head(loam_build *b)
{
    const loam_hparams *h = &b->m->hparams;
    bool is_tied = !loam_gguf_find_tensor(b->m->gguf, "output.weight");
    return loam_build_weight(b, is_tied ? "token_embd.weight" : "output.weight", h->n_embd,
                             h->n_vocab, true);
}
