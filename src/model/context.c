/* context.c: running a model forward: scoring whole sequences, and decoding with a cache. */
#include "model/build.h"

#include <string.h>

/* Prompts go through the model in pieces of this many tokens. */
#define PREFILL_TOKENS 512

/* A graph for a number of tokens, with its plan; kept, since the next call often has as many. */
typedef struct runner {
    int64_t n_tokens;
    loam_build build;
    loam_node *labels; /* scoring */
    loam_node *result; /* scoring: [n_tokens] nll; decoding: [n_vocab] logits */
    loam_plan *plan;
} runner;

struct loam_context {
    loam_base *m;
    const loam_lora *lora;
    int64_t n_ctx;
    int64_t n_past;
    loam_kv_cache *cache; /* made on the first decode */
    loam_workspace *workspace;
    runner score, prefill, step;
    float *logits;
    int32_t *ids; /* host staging for inputs: 2 * the largest number of tokens so far */
    int64_t ids_capacity;
};

/* ---- cache -------------------------------------------------------------------------------- */

loam_status loam_kv_cache_create(const loam_base *m, int64_t n_ctx, loam_kv_cache **out,
                                 loam_error *e)
{
    const loam_hparams *h = &m->hparams;
    size_t bytes = (size_t)((h->n_embd_head_k + h->n_embd_head_v) * h->n_head_kv * h->n_layer);
    *out = NULL;
    if (!loam_size_mul(bytes, (size_t)n_ctx * sizeof(float), &bytes))
        return loam_fail(e, LOAM_E_MEMORY, "a cache of %lld tokens is too large", (long long)n_ctx);
    loam_kv_cache *c = loam_alloc(sizeof *c);
    if (!c)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a cache");
    c->n_ctx = n_ctx;
    loam_status status = loam_buffer_alloc(m->device, bytes, &c->buffer, e);
    if (status != LOAM_OK) {
        loam_kv_cache_free(c);
        return status;
    }
    *out = c;
    return LOAM_OK;
}

void loam_kv_cache_free(loam_kv_cache *c)
{
    if (!c)
        return;
    loam_buffer_free(c->buffer);
    loam_free(c);
}

/* ---- graphs ------------------------------------------------------------------------------- */

static void runner_free(runner *r)
{
    loam_plan_free(r->plan);
    loam_build_end(&r->build);
    loam_graph_free(r->build.g);
    *r = (runner){0};
}

/* The last token's column of the hidden state. */
static loam_node *last_token(loam_graph *g, loam_node *x)
{
    if (!x)
        return NULL;
    return loam_view(g, x, (int64_t[]){x->t.ne[0], 1, 1, 1}, x->t.nb,
                     (size_t)(x->t.ne[1] - 1) * x->t.nb[1]);
}

static loam_status runner_build(runner *r, loam_context *c, bool score, loam_error *e)
{
    loam_build *b = &r->build;
    LOAM_TRY(loam_graph_create(LOAM_TYPE_F32, &b->g, e));
    LOAM_TRY(loam_build_begin(b, e));
    loam_node *x = loam_build_hidden(b);
    if (score) {
        r->labels = loam_leaf_1d(b->g, LOAM_TYPE_I32, b->n_tokens, "labels");
        loam_set_input(r->labels);
        r->result = loam_linear_cross_entropy(b->g, loam_build_head(b), x, r->labels);
    } else {
        r->result = loam_mul_mat(b->g, loam_build_head(b), last_token(b->g, x));
    }
    loam_set_output(r->result);
    LOAM_TRY(loam_graph_status(b->g, e));
    LOAM_TRY(loam_plan_create(b->g, &c->m->device, 1, &r->plan, e));
    return loam_plan_prepare(r->plan, c->workspace, e);
}

/* Makes r hold a graph for n tokens. */
static loam_status runner_ready(runner *r, loam_context *c, int64_t n, bool score, loam_error *e)
{
    if (r->plan && r->n_tokens == n)
        return LOAM_OK;
    runner_free(r);
    r->n_tokens = n;
    r->build =
        (loam_build){.m = c->m, .lora = c->lora, .cache = score ? NULL : c->cache, .n_tokens = n};
    loam_status status = runner_build(r, c, score, e);
    if (status != LOAM_OK)
        runner_free(r);
    return status;
}

/* ---- inputs ------------------------------------------------------------------------------- */

static loam_status stage(loam_context *c, int64_t n, loam_error *e)
{
    if (c->ids_capacity >= n)
        return LOAM_OK;
    int32_t *ids = loam_realloc(c->ids, 2 * (size_t)n * sizeof *ids);
    if (!ids)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for %lld tokens", (long long)n);
    c->ids = ids;
    c->ids_capacity = n;
    return LOAM_OK;
}

static loam_status check_tokens(const loam_context *c, const int32_t *tokens, int64_t n,
                                loam_error *e)
{
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= c->m->hparams.n_vocab)
            return loam_fail(e, LOAM_E_USAGE, "token %d at position %lld is not in the vocabulary",
                             tokens[i], (long long)i);
    return LOAM_OK;
}

/* Tokens at positions n_past .. with causal sight of everything before. */
static loam_status write_inputs(loam_context *c, runner *r, const int32_t *tokens, int64_t n_past,
                                loam_error *e)
{
    int64_t n = r->n_tokens;
    loam_build *b = &r->build;
    LOAM_TRY(stage(c, n, e));
    LOAM_TRY(loam_node_write(b->tokens, tokens, (size_t)n * sizeof(int32_t), e));
    for (int64_t i = 0; i < n; i++)
        c->ids[i] = (int32_t)(n_past + i);
    LOAM_TRY(loam_node_write(b->positions, c->ids, (size_t)n * sizeof(int32_t), e));
    if (b->cache_rows)
        LOAM_TRY(loam_node_write(b->cache_rows, c->ids, (size_t)n * sizeof(int32_t), e));
    for (int64_t i = 0; i < n; i++) {
        c->ids[2 * i] = 0;
        c->ids[2 * i + 1] = (int32_t)(n_past + i + 1);
    }
    return loam_node_write(b->ranges, c->ids, 2 * (size_t)n * sizeof(int32_t), e);
}

/* ---- the interface ------------------------------------------------------------------------ */

loam_status loam_context_create(loam_base *m, const loam_lora *lora, int64_t n_ctx,
                                loam_context **out, loam_error *e)
{
    *out = NULL;
    loam_context *c = loam_alloc(sizeof *c);
    if (c)
        c->workspace = loam_workspace_new();
    if (!c || !c->workspace) {
        loam_context_free(c);
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a context");
    }
    c->m = m;
    c->lora = lora;
    c->n_ctx = n_ctx > 0 ? n_ctx : m->hparams.n_ctx_train;
    *out = c;
    return LOAM_OK;
}

void loam_context_free(loam_context *c)
{
    if (!c)
        return;
    runner_free(&c->score);
    runner_free(&c->prefill);
    runner_free(&c->step);
    loam_kv_cache_free(c->cache);
    loam_workspace_free(c->workspace);
    loam_free(c->logits);
    loam_free(c->ids);
    loam_free(c);
}

loam_status loam_context_score(loam_context *c, const int32_t *tokens, int64_t n, float *logprobs,
                               loam_error *e)
{
    if (n < 2)
        return loam_fail(e, LOAM_E_USAGE, "%lld tokens: scoring needs at least two", (long long)n);
    LOAM_TRY(check_tokens(c, tokens, n, e));
    runner *r = &c->score;
    LOAM_TRY(runner_ready(r, c, n - 1, true, e));
    LOAM_TRY(write_inputs(c, r, tokens, 0, e));
    LOAM_TRY(loam_node_write(r->labels, tokens + 1, (size_t)(n - 1) * sizeof(int32_t), e));
    LOAM_TRY(loam_plan_run(r->plan, e));
    LOAM_TRY(loam_node_read(r->result, logprobs, (size_t)(n - 1) * sizeof(float), e));
    for (int64_t i = 0; i < n - 1; i++)
        logprobs[i] = -logprobs[i];
    return LOAM_OK;
}

void loam_context_truncate(loam_context *c, int64_t n_keep)
{
    c->n_past = LOAM_MIN(c->n_past, LOAM_MAX(n_keep, 0));
}

int64_t loam_context_n_past(const loam_context *c)
{
    return c->n_past;
}

int64_t loam_context_n_ctx(const loam_context *c)
{
    return c->n_ctx;
}

static loam_status decode_piece(loam_context *c, const int32_t *tokens, int64_t n, loam_error *e)
{
    runner *r = n == 1 ? &c->step : &c->prefill;
    LOAM_TRY(runner_ready(r, c, n, false, e));
    LOAM_TRY(write_inputs(c, r, tokens, c->n_past, e));
    LOAM_TRY(loam_plan_run(r->plan, e));
    c->n_past += n;
    return loam_node_read(r->result, c->logits, (size_t)c->m->hparams.n_vocab * sizeof(float), e);
}

loam_status loam_context_decode(loam_context *c, const int32_t *tokens, int64_t n,
                                const float **logits, loam_error *e)
{
    if (n < 1)
        return loam_fail(e, LOAM_E_USAGE, "nothing to decode: the prompt has no token");
    if (c->n_past + n > c->n_ctx)
        return loam_fail(e, LOAM_E_USAGE,
                         "%lld tokens after %lld are more than the context of %lld", (long long)n,
                         (long long)c->n_past, (long long)c->n_ctx);
    LOAM_TRY(check_tokens(c, tokens, n, e));
    if (!c->cache)
        LOAM_TRY(loam_kv_cache_create(c->m, c->n_ctx, &c->cache, e));
    if (!c->logits)
        c->logits = loam_alloc((size_t)c->m->hparams.n_vocab * sizeof *c->logits);
    if (!c->logits)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for logits");
    for (int64_t i = 0; i < n; i += PREFILL_TOKENS)
        LOAM_TRY(decode_piece(c, tokens + i, LOAM_MIN(n - i, (int64_t)PREFILL_TOKENS), e));
    *logits = c->logits;
    return LOAM_OK;
}
