/* linear_cross_entropy.c: LINEAR_CROSS_ENTROPY, y[t] = -log softmax(w' x[:, t])[labels[t]]
 *
 *   w       [n, vocabulary]  the output head, any float or block type, frozen
 *   x       [n, T]           a float type
 *   labels  I32 [T]          a row of w, or -1 where the token is masked (y 0, gradient 0)
 *   y       [T]
 *   aux     [n, T]           where x needs a gradient: d y[t] / d x[:, t], that is
 *                            sum_v (softmax(w' x[:, t])[v] - (v == labels[t])) w[:, v]
 *
 * The logits, vocabulary x T, never exist at once on a device: it walks the vocabulary or the
 * tokens in chunks. The gradient is made in the same pass, while the logits are at hand, and the
 * backward only multiplies it by dy. */
#include "op/check.h"
#include "op/op_def.h"

#include <math.h>

loam_node *loam_linear_cross_entropy(loam_graph *g, loam_node *w, loam_node *x, loam_node *labels)
{
    if (!w || !x || !labels)
        return NULL;
    if (!loam_is_decoded(w->t.type) || !loam_is_float(x->t.type) || labels->t.type != LOAM_TYPE_I32)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "LINEAR_CROSS_ENTROPY: w is %s, x is %s and labels are %s; w must "
                               "have a float or block type, x a float type, labels i32",
                               loam_operand(w).text, loam_operand(x).text,
                               loam_operand(labels).text);
    if (w->t.ne[0] != x->t.ne[0] || x->t.ne[1] != labels->t.ne[0] ||
        w->t.ne[2] * w->t.ne[3] * x->t.ne[2] * x->t.ne[3] != 1 ||
        loam_tensor_rows(&labels->t) != 1 || !loam_rows_contiguous(&w->t))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "LINEAR_CROSS_ENTROPY: w is %s, x is %s and labels are %s; expected "
                               "w [n, vocabulary] with contiguous rows, x [n, T] and labels [T]",
                               loam_operand(w).text, loam_operand(x).text,
                               loam_operand(labels).text);
    if (w->needs_grad)
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED,
                               "LINEAR_CROSS_ENTROPY: the head w, %s, is frozen here; to train it, "
                               "use MUL_MAT and CROSS_ENTROPY_LOSS",
                               loam_operand(w).text);
    const int64_t ne[] = {x->t.ne[1], 1, 1, 1};
    loam_node *n = loam_node_new(g, LOAM_OP_LINEAR_CROSS_ENTROPY, g->activation, ne, 3,
                                 (loam_node *[]){w, x, labels});
    if (n && n->needs_grad && !loam_node_aux(g, n, x->t.ne))
        return NULL;
    return n;
}

typedef struct head {
    const loam_tensor *w;
    int64_t width, n_tokens, vocabulary;
    const double *x;  /* [n_tokens][width] */
    double *logits;   /* [vocabulary][n_tokens]; later softmax minus one-hot */
    double *row;      /* [width] */
    double *gradient; /* [n_tokens][width] */
} head;

static void make_logits(const head *h)
{
    for (int64_t v = 0; v < h->vocabulary; v++) {
        loam_get_row(h->w, v, 0, 0, h->row);
        for (int64_t t = 0; t < h->n_tokens; t++) {
            double sum = 0;
            for (int64_t i = 0; i < h->width; i++)
                sum += h->row[i] * h->x[t * h->width + i];
            h->logits[v * h->n_tokens + t] = sum;
        }
    }
}

/* A token's loss; its column of logits becomes the loss's gradient by the logits. */
static double finish_token(const head *h, int64_t t, int64_t label)
{
    double *column = h->logits + t;
    double largest = -INFINITY, sum = 0;
    for (int64_t v = 0; v < h->vocabulary; v++)
        largest = fmax(largest, column[v * h->n_tokens]);
    for (int64_t v = 0; v < h->vocabulary; v++)
        sum += exp(column[v * h->n_tokens] - largest);
    double lse = largest + log(sum);
    double loss = label < 0 ? 0 : lse - column[label * h->n_tokens];
    for (int64_t v = 0; v < h->vocabulary; v++) {
        double *l = &column[v * h->n_tokens];
        *l = label < 0 ? 0 : exp(*l - lse) - (v == label);
    }
    return loss;
}

static void make_gradient(const head *h)
{
    for (int64_t v = 0; v < h->vocabulary; v++) {
        loam_get_row(h->w, v, 0, 0, h->row);
        for (int64_t t = 0; t < h->n_tokens; t++) {
            double factor = h->logits[v * h->n_tokens + t];
            for (int64_t i = 0; i < h->width; i++)
                h->gradient[t * h->width + i] += factor * h->row[i];
        }
    }
}

static loam_status run_head(const loam_node *n, const head *h, loam_error *e)
{
    make_logits(h);
    for (int64_t t = 0; t < h->n_tokens; t++) {
        int64_t label = (int64_t)loam_get(&n->src[2]->t, t, 0, 0, 0);
        if (label < -1 || label >= h->vocabulary)
            return loam_fail(e, LOAM_E_USAGE,
                             "LINEAR_CROSS_ENTROPY (node '%s'): label %lld of token %lld lies "
                             "outside the vocabulary of %lld; a masked token has label -1",
                             n->name, (long long)label, (long long)t, (long long)h->vocabulary);
        loam_set(&n->t, t, 0, 0, 0, finish_token(h, t, label));
    }
    if (!n->aux)
        return LOAM_OK;
    make_gradient(h);
    for (int64_t t = 0; t < h->n_tokens; t++)
        for (int64_t i = 0; i < h->width; i++)
            loam_set(&n->aux->t, i, t, 0, 0, h->gradient[t * h->width + i]);
    return LOAM_OK;
}

static loam_status linear_cross_entropy_reference(const loam_node *n, loam_error *e)
{
    const loam_tensor *w = &n->src[0]->t;
    head h = {.w = w, .width = w->ne[0], .n_tokens = n->t.ne[0], .vocabulary = w->ne[1]};
    double *x = loam_node_doubles(n->src[1]);
    h.x = x;
    h.logits = loam_alloc((size_t)(h.vocabulary * h.n_tokens) * sizeof *h.logits);
    h.row = loam_alloc((size_t)h.width * sizeof *h.row);
    h.gradient = loam_alloc((size_t)(h.width * h.n_tokens) * sizeof *h.gradient);
    loam_status status =
        x && h.logits && h.row && h.gradient ? run_head(n, &h, e) : loam_reference_memory(n, e);
    loam_free(x);
    loam_free(h.logits);
    loam_free(h.row);
    loam_free(h.gradient);
    return status;
}

static void linear_cross_entropy_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (!n->src[1]->needs_grad)
        return;
    if (!loam_is_contiguous(&dy->t))
        dy = loam_cont(g, dy);
    loam_node *by_token = loam_reshape_2d(g, dy, 1, n->t.ne[0]);
    loam_grad_add(g, n->src[1], loam_mul(g, n->aux, by_token));
}

/* p: width, vocabulary, T, labels' fill, return a copy of aux; f: what the fill takes. */
static loam_node *build_head(loam_graph *g, const loam_case *c)
{
    const int64_t *p = c->p;
    const int64_t w_ne[] = {p[0], p[1], 1, 1}, x_ne[] = {p[0], p[2], 1, 1};
    const int64_t labels_ne[] = {p[2], 1, 1, 1};
    bool grad = p[4] != 0 || c->check_grad;
    loam_node *w = loam_case_input(g, c->type, w_ne, LOAM_FILL_NORMAL, (double)c->f[2], 0, false);
    loam_node *x = loam_case_input(g, LOAM_TYPE_F32, x_ne, LOAM_FILL_NORMAL, 1, 0, grad);
    loam_node *labels = loam_case_input(g, LOAM_TYPE_I32, labels_ne, (loam_fill)p[3],
                                        (double)c->f[0], (double)c->f[1], false);
    loam_node *n = loam_linear_cross_entropy(g, w, x, labels);
    return n && p[4] ? loam_cont(g, n->aux) : n;
}

static void add_head(loam_case_list *list, loam_type type, int64_t width, int64_t vocabulary,
                     int64_t n_tokens)
{
    static const struct {
        const char *name;
        loam_fill fill;
    } labels[] = {
        {"any", LOAM_FILL_IDS}, {"some_masked", LOAM_FILL_IDS}, {"all_masked", LOAM_FILL_CONSTANT}};
    static const char *const results[] = {"loss", "dx"};
    bool is_large = width * vocabulary * n_tokens > 20000000;
    for (int l = 0; l < LOAM_COUNT(labels); l++)
        for (int dx = 0; dx < 2; dx++) {
            if (is_large && l != 1)
                continue;
            loam_case *c =
                loam_case_add(list, LOAM_OP_LINEAR_CROSS_ENTROPY, type, build_head,
                              "type_w=%s,n=%lld,vocabulary=%lld,tokens=%lld,labels=%s,result=%s",
                              loam_type_name(type), (long long)width, (long long)vocabulary,
                              (long long)n_tokens, labels[l].name, results[dx]);
            c->p[0] = width;
            c->p[1] = vocabulary;
            c->p[2] = n_tokens;
            c->p[3] = labels[l].fill;
            c->p[4] = dx;
            /* Masked: a draw from -1, 0, 1, 2. */
            c->f[0] = l == 0 ? 0 : -1;
            c->f[1] = (float)(l == 0 ? vocabulary : LOAM_MIN(vocabulary, 3));
            c->f[2] = 1.5f / sqrtf((float)width); /* logits of the order of 1 */
            c->bar = LOAM_BAR_PRODUCT;
            c->is_slow = width * vocabulary * n_tokens > 190000000;
            c->check_grad =
                !dx && width * vocabulary * n_tokens * width * n_tokens < 200000000 && l != 2;
        }
}

static void linear_cross_entropy_cases(loam_case_list *list)
{
    static const loam_type types[] = {
        LOAM_TYPE_F32,   LOAM_TYPE_F16,    LOAM_TYPE_BF16,  LOAM_TYPE_Q4_0, LOAM_TYPE_Q5_1,
        LOAM_TYPE_Q8_0,  LOAM_TYPE_Q4_K,   LOAM_TYPE_Q5_K,  LOAM_TYPE_Q6_K, LOAM_TYPE_IQ2_XXS,
        LOAM_TYPE_IQ3_S, LOAM_TYPE_IQ4_XS, LOAM_TYPE_TQ2_0, LOAM_TYPE_MXFP4};
    static const loam_type heads[] = {LOAM_TYPE_F16, LOAM_TYPE_Q4_K, LOAM_TYPE_Q6_K,
                                      LOAM_TYPE_Q8_0};
    for (int i = 0; i < LOAM_COUNT(types); i++) {
        add_head(list, types[i], 256, 512, 3);
        add_head(list, types[i], 512, 512, 33);
    }
    add_head(list, LOAM_TYPE_F32, 31, 77, 7);
    add_head(list, LOAM_TYPE_F32, 31, 1, 2);
    add_head(list, LOAM_TYPE_F32, 64, 512, 300);
    for (int i = 0; i < LOAM_COUNT(heads); i++) {
        add_head(list, heads[i], 256, 32000, 1);
        add_head(list, heads[i], 256, 32000, 19);
        add_head(list, heads[i], 256, 151936, 5);
    }
}

/* The logits, and where the gradient is made its product too, as if no token were masked. */
static double linear_cross_entropy_flops(const loam_node *n)
{
    const loam_tensor *w = &n->src[0]->t;
    return (n->aux ? 4.0 : 2.0) * (double)w->ne[0] * (double)w->ne[1] * (double)n->t.ne[0];
}

const loam_op_def loam_op_linear_cross_entropy = {.name = "LINEAR_CROSS_ENTROPY",
                                                  .reference = linear_cross_entropy_reference,
                                                  .backward = linear_cross_entropy_backward,
                                                  .cases = linear_cross_entropy_cases,
                                                  .flops = linear_cross_entropy_flops};
