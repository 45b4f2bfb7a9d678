/* step.c: what a device does for a training step, as graphs: forward and backward of a batch,
 * the loss alone, the gradient's norm, and the optimizer. */
#include "train/train.h"

#include <math.h>
#include <string.h>

/* Graphs are kept for this many batch lengths of each kind; a run meets few. */
#define N_KEPT 8

typedef struct batch_graph {
    int64_t n_tokens;
    uint64_t last_use;
    loam_build build;
    loam_node *labels; /* I32 [n_tokens] */
    loam_node *weight; /* F32 [1]; training only */
    loam_node *nll;    /* [n_tokens] */
    loam_plan *plan;
} batch_graph;

typedef struct small_graph {
    loam_graph *g;
    loam_plan *plan;
} small_graph;

struct loam_stepper {
    loam_base *m;
    loam_lora *l;
    loam_stepper_options o;
    loam_workspace *workspace;
    batch_graph train[N_KEPT], eval[N_KEPT];
    uint64_t uses;
    loam_buffer *moments; /* m, then v; made with the first update */
    small_graph norm, update, clear;
    loam_node *norm_out; /* of the norm graph */
    loam_node *norm_in;  /* of the update graph, and the hyperparameters of its parts: all factors,
                          * or A and B where they have rates of their own */
    loam_node *hyper[2];
    int64_t n_steps;
    float *nll; /* host, for the largest batch so far */
    int64_t nll_capacity;
};

loam_status loam_stepper_create(loam_base *m, loam_lora *l, const loam_stepper_options *o,
                                loam_stepper **out, loam_error *e)
{
    *out = NULL;
    loam_stepper *s = loam_alloc(sizeof *s);
    if (s)
        s->workspace = loam_workspace_new();
    if (!s || !s->workspace) {
        loam_stepper_free(s);
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a training step");
    }
    s->m = m;
    s->l = l;
    s->o = *o;
    *out = s;
    return LOAM_OK;
}

static void batch_graph_free(batch_graph *b)
{
    loam_plan_free(b->plan);
    loam_build_end(&b->build);
    loam_graph_free(b->build.g);
    *b = (batch_graph){0};
}

static void small_graph_free(small_graph *s)
{
    loam_plan_free(s->plan);
    loam_graph_free(s->g);
    *s = (small_graph){0};
}

void loam_stepper_free(loam_stepper *s)
{
    if (!s)
        return;
    for (int i = 0; i < N_KEPT; i++) {
        batch_graph_free(&s->train[i]);
        batch_graph_free(&s->eval[i]);
    }
    small_graph_free(&s->norm);
    small_graph_free(&s->update);
    small_graph_free(&s->clear);
    loam_buffer_free(s->moments);
    loam_workspace_free(s->workspace);
    loam_free(s->nll);
    loam_free(s);
}

/* ---- batches ------------------------------------------------------------------------------ */

/* Every factor's gradient is added to its place in the adapter's gradient buffer. */
static void collect_gradients(const loam_stepper *s, const loam_build *b)
{
    for (int i = 0; i < 2 * s->l->n_pairs; i++) {
        loam_node *factor = b->factors[i];
        if (!factor || !factor->grad)
            continue;
        loam_node *sum = loam_leaf(b->g, LOAM_TYPE_F32, factor->t.ne, "gradient");
        if (!sum)
            return;
        loam_node_bind(sum, s->l->grads, factor->offset_bytes);
        loam_set_output(loam_add_inplace(b->g, sum, factor->grad));
    }
}

static loam_status build(loam_stepper *s, batch_graph *b, bool train, loam_error *e)
{
    LOAM_TRY(loam_graph_create(LOAM_TYPE_F32, &b->build.g, e));
    LOAM_TRY(loam_build_begin(&b->build, e));
    loam_graph *g = b->build.g;
    b->labels = loam_leaf_1d(g, LOAM_TYPE_I32, b->n_tokens, "labels");
    loam_set_input(b->labels);
    loam_node *x = loam_build_hidden(&b->build);
    b->nll = loam_linear_cross_entropy(g, loam_build_head(&b->build), x, b->labels);
    loam_set_name(b->nll, "nll");
    loam_set_output(b->nll);
    if (train) {
        b->weight = loam_leaf_1d(g, LOAM_TYPE_F32, 1, "weight");
        loam_set_input(b->weight);
        loam_node *loss = loam_mul(g, loam_sum(g, b->nll), b->weight);
        loam_set_name(loss, "loss");
        LOAM_TRY(loam_graph_status(g, e));
        LOAM_TRY(loam_graph_backward(g, loss, s->o.grad_checkpoint, e));
        collect_gradients(s, &b->build);
    }
    return loam_plan_create(g, &s->m->device, 1, &b->plan, e);
}

static loam_status ready(loam_stepper *s, int64_t n_tokens, bool train, batch_graph **out,
                         loam_error *e)
{
    batch_graph *kept = train ? s->train : s->eval;
    batch_graph *oldest = &kept[0];
    for (int i = 0; i < N_KEPT; i++) {
        if (kept[i].plan && kept[i].n_tokens == n_tokens) {
            kept[i].last_use = ++s->uses;
            *out = &kept[i];
            return LOAM_OK;
        }
        if (kept[i].last_use < oldest->last_use)
            oldest = &kept[i];
    }
    batch_graph_free(oldest);
    *oldest =
        (batch_graph){.n_tokens = n_tokens,
                      .last_use = ++s->uses,
                      .build = {.m = s->m, .lora = s->l, .train = train, .n_tokens = n_tokens}};
    loam_status status = build(s, oldest, train, e);
    if (status != LOAM_OK) {
        batch_graph_free(oldest);
        return status;
    }
    *out = oldest;
    return LOAM_OK;
}

loam_status loam_stepper_plan(loam_stepper *s, int64_t n_tokens, bool train, const loam_plan **out,
                              loam_error *e)
{
    batch_graph *b;
    LOAM_TRY(ready(s, n_tokens, train, &b, e));
    *out = b->plan;
    return LOAM_OK;
}

loam_status loam_stepper_reserve(loam_stepper *s, int64_t n_tokens, loam_error *e)
{
    batch_graph *b;
    LOAM_TRY(ready(s, n_tokens, true, &b, e));
    return loam_plan_prepare(b->plan, s->workspace, e);
}

static loam_status write_batch(loam_stepper *s, batch_graph *g, const loam_batch *b, loam_error *e)
{
    size_t n = (size_t)b->n_tokens;
    LOAM_TRY(loam_plan_prepare(g->plan, s->workspace, e));
    LOAM_TRY(loam_node_write(g->build.tokens, b->tokens, n * sizeof(int32_t), e));
    LOAM_TRY(loam_node_write(g->build.positions, b->positions, n * sizeof(int32_t), e));
    LOAM_TRY(loam_node_write(g->build.ranges, b->ranges, 2 * n * sizeof(int32_t), e));
    return loam_node_write(g->labels, b->labels, n * sizeof(int32_t), e);
}

static loam_status run_batch(loam_stepper *s, batch_graph *g, const loam_batch *b, double *loss_sum,
                             loam_error *e)
{
    size_t n = (size_t)b->n_tokens;
    LOAM_TRY(write_batch(s, g, b, e));
    LOAM_TRY(loam_plan_run(g->plan, e));
    if (s->nll_capacity < b->n_tokens) {
        float *nll = loam_realloc(s->nll, n * sizeof *nll);
        if (!nll)
            return loam_fail(e, LOAM_E_MEMORY, "no memory for %zu losses", n);
        s->nll = nll;
        s->nll_capacity = b->n_tokens;
    }
    LOAM_TRY(loam_node_read(g->nll, s->nll, n * sizeof *s->nll, e));
    *loss_sum = 0;
    for (size_t i = 0; i < n; i++)
        *loss_sum += s->nll[i];
    return LOAM_OK;
}

loam_status loam_stepper_backward(loam_stepper *s, const loam_batch *b, float weight,
                                  double *loss_sum, loam_error *e)
{
    batch_graph *g;
    LOAM_TRY(ready(s, b->n_tokens, true, &g, e));
    LOAM_TRY(loam_plan_prepare(g->plan, s->workspace, e));
    LOAM_TRY(loam_node_write(g->weight, &weight, sizeof weight, e));
    return run_batch(s, g, b, loss_sum, e);
}

loam_status loam_stepper_profile(loam_stepper *s, const loam_batch *b, double ms[LOAM_OP_COUNT],
                                 double *flops, loam_error *e)
{
    batch_graph *g;
    float weight = 1.0f / (float)LOAM_MAX(b->n_trained, 1);
    LOAM_TRY(ready(s, b->n_tokens, true, &g, e));
    LOAM_TRY(loam_plan_prepare(g->plan, s->workspace, e));
    LOAM_TRY(loam_node_write(g->weight, &weight, sizeof weight, e));
    LOAM_TRY(write_batch(s, g, b, e));
    LOAM_TRY(loam_plan_run_profiled(g->plan, ms, e));
    for (int i = 0; i < loam_plan_n_nodes(g->plan); i++) {
        const loam_node *n = loam_plan_node_at(g->plan, i);
        if (n->op == LOAM_OP_MUL_MAT || n->op == LOAM_OP_OUT_PROD)
            *flops += loam_op_flops(n);
    }
    return LOAM_OK;
}

loam_status loam_stepper_loss(loam_stepper *s, const loam_batch *b, double *loss_sum, loam_error *e)
{
    batch_graph *g;
    LOAM_TRY(ready(s, b->n_tokens, false, &g, e));
    return run_batch(s, g, b, loss_sum, e);
}

/* ---- the optimizer ------------------------------------------------------------------------ */

static loam_node *flat_leaf(loam_graph *g, int64_t n, loam_buffer *buffer, int64_t first,
                            const char *name)
{
    loam_node *leaf = loam_leaf_1d(g, LOAM_TYPE_F32, n, name);
    if (leaf)
        loam_node_bind(leaf, buffer, (size_t)first * sizeof(float));
    return leaf;
}

static loam_status finish(loam_stepper *s, small_graph *small, loam_node *result, loam_error *e)
{
    loam_set_output(result);
    LOAM_TRY(loam_plan_create(small->g, &s->m->device, 1, &small->plan, e));
    return loam_plan_prepare(small->plan, s->workspace, e);
}

static loam_status build_norm(loam_stepper *s, loam_error *e)
{
    LOAM_TRY(loam_graph_create(LOAM_TYPE_F32, &s->norm.g, e));
    loam_node *grad = flat_leaf(s->norm.g, s->l->n_elements, s->l->grads, 0, "gradients");
    s->norm_out = loam_grad_norm(s->norm.g, grad);
    return finish(s, &s->norm, s->norm_out, e);
}

static loam_status build_clear(loam_stepper *s, loam_error *e)
{
    LOAM_TRY(loam_graph_create(LOAM_TYPE_F32, &s->clear.g, e));
    loam_node *grad = flat_leaf(s->clear.g, s->l->n_elements, s->l->grads, 0, "gradients");
    return finish(s, &s->clear, loam_fill_inplace(s->clear.g, grad, 0.0f), e);
}

/* The optimizer's node for elements first .. end - 1. */
static loam_node *update_part(loam_stepper *s, int64_t first, int64_t end, loam_node **hyper)
{
    loam_graph *g = s->update.g;
    int64_t n = end - first;
    loam_node *grad = flat_leaf(g, n, s->l->grads, first, "gradients");
    if (s->norm_in)
        grad = loam_clip_norm(g, grad, s->norm_in, s->o.clip);
    *hyper = loam_leaf_1d(g, LOAM_TYPE_F32, 7, "hyper");
    loam_set_input(*hyper);
    return loam_opt_step_adamw(g, flat_leaf(g, n, s->l->values, first, "parameters"), grad,
                               flat_leaf(g, n, s->moments, first, "m"),
                               flat_leaf(g, n, s->moments, s->l->n_elements + first, "v"), *hyper);
}

static bool has_two_rates(const loam_stepper *s)
{
    return s->o.b_ratio > 0 && s->o.b_ratio != 1;
}

static loam_status build_update(loam_stepper *s, loam_error *e)
{
    int64_t n = s->l->n_elements, n_a = s->l->n_a_elements;
    LOAM_TRY(loam_graph_create(LOAM_TYPE_F32, &s->update.g, e));
    if (s->o.clip > 0) {
        s->norm_in = loam_leaf_1d(s->update.g, LOAM_TYPE_F32, 1, "norm");
        loam_set_input(s->norm_in);
    }
    if (!has_two_rates(s))
        return finish(s, &s->update, update_part(s, 0, n, &s->hyper[0]), e);
    loam_set_output(update_part(s, 0, n_a, &s->hyper[0]));
    return finish(s, &s->update, update_part(s, n_a, n, &s->hyper[1]), e);
}

/* Builds a graph where it is not there; one that failed half-way is forgotten. */
static loam_status small_graph_ready(loam_stepper *s, small_graph *small,
                                     loam_status (*build_it)(loam_stepper *s, loam_error *e),
                                     loam_error *e)
{
    if (small->plan)
        return LOAM_OK;
    loam_status status = build_it(s, e);
    if (status != LOAM_OK)
        small_graph_free(small);
    return status;
}

/* The optimizer's memory and graphs, once. */
static loam_status optimizer_ready(loam_stepper *s, loam_error *e)
{
    LOAM_ASSERT(s->l && s->l->grads);
    if (!s->moments) {
        LOAM_TRY(loam_buffer_alloc(s->m->device, 2 * (size_t)s->l->n_elements * sizeof(float),
                                   &s->moments, e));
    }
    LOAM_TRY(small_graph_ready(s, &s->norm, build_norm, e));
    LOAM_TRY(small_graph_ready(s, &s->clear, build_clear, e));
    return small_graph_ready(s, &s->update, build_update, e);
}

loam_status loam_stepper_clear(loam_stepper *s, loam_error *e)
{
    LOAM_TRY(optimizer_ready(s, e));
    return loam_plan_run(s->clear.plan, e);
}

loam_status loam_stepper_update(loam_stepper *s, float learning_rate, float *grad_norm,
                                loam_error *e)
{
    LOAM_TRY(optimizer_ready(s, e));
    LOAM_TRY(loam_plan_run(s->norm.plan, e));
    LOAM_TRY(loam_node_read(s->norm_out, grad_norm, sizeof *grad_norm, e));
    if (isfinite(*grad_norm)) {
        double t = (double)++s->n_steps;
        float hyper[7] = {learning_rate,
                          s->o.beta1,
                          s->o.beta2,
                          s->o.eps,
                          s->o.weight_decay,
                          (float)(1.0 / (1.0 - pow(s->o.beta1, t))),
                          (float)(1.0 / (1.0 - pow(s->o.beta2, t)))};
        LOAM_TRY(loam_node_write(s->hyper[0], hyper, sizeof hyper, e));
        if (has_two_rates(s)) {
            hyper[0] = learning_rate * s->o.b_ratio;
            LOAM_TRY(loam_node_write(s->hyper[1], hyper, sizeof hyper, e));
        }
        if (s->norm_in)
            LOAM_TRY(loam_node_write(s->norm_in, grad_norm, sizeof *grad_norm, e));
        LOAM_TRY(loam_plan_run(s->update.plan, e));
    }
    return loam_plan_run(s->clear.plan, e);
}

loam_status loam_stepper_read_moments(const loam_stepper *s, float *m, float *v, loam_error *e)
{
    size_t n_bytes = (size_t)s->l->n_elements * sizeof(float);
    if (!s->moments) {
        memset(m, 0, n_bytes);
        memset(v, 0, n_bytes);
        return LOAM_OK;
    }
    LOAM_TRY(loam_buffer_read(s->moments, 0, m, n_bytes, e));
    return loam_buffer_read(s->moments, n_bytes, v, n_bytes, e);
}

loam_status loam_stepper_write_moments(loam_stepper *s, const float *m, const float *v,
                                       int64_t n_steps, loam_error *e)
{
    size_t n_bytes = (size_t)s->l->n_elements * sizeof(float);
    LOAM_TRY(optimizer_ready(s, e));
    LOAM_TRY(loam_buffer_write(s->moments, 0, m, n_bytes, e));
    LOAM_TRY(loam_buffer_write(s->moments, n_bytes, v, n_bytes, e));
    s->n_steps = n_steps;
    return LOAM_OK;
}

int64_t loam_stepper_n_steps(const loam_stepper *s)
{
    return s->n_steps;
}

float loam_schedule_cosine(float lr, int64_t step, int64_t n_steps, int64_t n_warmup,
                           float final_share)
{
    if (step < n_warmup)
        return lr * (float)(step + 1) / (float)n_warmup;
    double done = (double)(step - n_warmup) / (double)LOAM_MAX(n_steps - n_warmup, 1);
    double cosine = 0.5 * (1.0 + cos(3.14159265358979323846 * LOAM_MIN(done, 1.0)));
    return (float)(lr * (final_share + (1.0 - final_share) * cosine));
}
