/* cross_entropy_loss.c: CROSS_ENTROPY_LOSS, y = -sum(b * log_softmax(a)) / rows
 *
 *   a  [n, ...]  logits, a float type; log_softmax over ne0
 *   b  a's shape: any distribution per row; an all-zero row is masked, but counts as a row
 *   y  [1]       rows = ne1 * ne2 * ne3, as in ggml
 *
 * CROSS_ENTROPY_LOSS_BACK: dy [1], a, b -> da = (softmax(a) * sum(b) - b) * dy / rows, where the
 * sum is the row's: 1 for a distribution, 0 for a masked row, whose gradient is then 0 too. */
#include "op/check.h"
#include "op/op_def.h"

#include <math.h>

static bool check_loss(loam_graph *g, const char *op, const loam_node *a, const loam_node *b)
{
    if (!loam_is_float(a->t.type) || !loam_is_float(b->t.type) || !loam_same_shape(&a->t, &b->t)) {
        loam_graph_fail(g, LOAM_E_USAGE,
                        "%s: the logits are %s and the labels %s; expected float types and one "
                        "shape",
                        op, loam_operand(a).text, loam_operand(b).text);
        return false;
    }
    if (b->needs_grad) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED, "%s: the labels, %s, must not need a gradient", op,
                        loam_operand(b).text);
        return false;
    }
    return true;
}

loam_node *loam_cross_entropy_loss(loam_graph *g, loam_node *a, loam_node *b)
{
    if (!a || !b || !check_loss(g, "CROSS_ENTROPY_LOSS", a, b))
        return NULL;
    const int64_t ne[] = {1, 1, 1, 1};
    return loam_node_new(g, LOAM_OP_CROSS_ENTROPY_LOSS, g->activation, ne, 2,
                         (loam_node *[]){a, b});
}

loam_node *loam_cross_entropy_loss_back(loam_graph *g, loam_node *dy, loam_node *a, loam_node *b)
{
    if (!dy || !a || !b || !check_loss(g, "CROSS_ENTROPY_LOSS_BACK", a, b))
        return NULL;
    if (!loam_is_float(dy->t.type) || loam_tensor_ne(&dy->t) != 1)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "CROSS_ENTROPY_LOSS_BACK: dy is %s; expected one float element",
                               loam_operand(dy).text);
    return loam_node_new(g, LOAM_OP_CROSS_ENTROPY_LOSS_BACK, g->activation, a->t.ne, 3,
                         (loam_node *[]){dy, a, b});
}

/* The row's largest logit, and log(sum(exp(a))). */
static double log_sum_exp(const double *a, int64_t n)
{
    double largest = a[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        largest = a[i] > largest ? a[i] : largest;
    for (int64_t i = 0; i < n; i++)
        sum += exp(a[i] - largest);
    return largest + log(sum);
}

static loam_status cross_entropy_loss_reference(const loam_node *n, loam_error *e)
{
    const loam_tensor *a = &n->src[0]->t, *b = &n->src[1]->t;
    double *logits = loam_alloc((size_t)a->ne[0] * sizeof *logits);
    double *labels = loam_alloc((size_t)a->ne[0] * sizeof *labels);
    bool ok = logits && labels;
    double sum = 0;
    for (int64_t r = 0; ok && r < loam_tensor_rows(a); r++) {
        int64_t i1 = r % a->ne[1], i2 = r / a->ne[1] % a->ne[2], i3 = r / a->ne[1] / a->ne[2];
        loam_get_row(a, i1, i2, i3, logits);
        loam_get_row(b, i1, i2, i3, labels);
        double lse = log_sum_exp(logits, a->ne[0]);
        for (int64_t i = 0; i < a->ne[0]; i++)
            if (labels[i] != 0)
                sum += labels[i] * (logits[i] - lse);
    }
    loam_free(logits);
    loam_free(labels);
    if (!ok)
        return loam_reference_memory(n, e);
    loam_set(&n->t, 0, 0, 0, 0, -sum / (double)loam_tensor_rows(a));
    return LOAM_OK;
}

static loam_status cross_entropy_loss_back_reference(const loam_node *n, loam_error *e)
{
    const loam_tensor *a = &n->src[1]->t, *b = &n->src[2]->t;
    double *logits = loam_alloc((size_t)a->ne[0] * sizeof *logits);
    double *labels = loam_alloc((size_t)a->ne[0] * sizeof *labels);
    bool ok = logits && labels;
    double scale = loam_get(&n->src[0]->t, 0, 0, 0, 0) / (double)loam_tensor_rows(a);
    for (int64_t r = 0; ok && r < loam_tensor_rows(a); r++) {
        int64_t i1 = r % a->ne[1], i2 = r / a->ne[1] % a->ne[2], i3 = r / a->ne[1] / a->ne[2];
        loam_get_row(a, i1, i2, i3, logits);
        loam_get_row(b, i1, i2, i3, labels);
        double lse = log_sum_exp(logits, a->ne[0]), mass = 0;
        for (int64_t i = 0; i < a->ne[0]; i++)
            mass += labels[i];
        for (int64_t i = 0; i < a->ne[0]; i++)
            loam_set(&n->t, i, i1, i2, i3, (exp(logits[i] - lse) * mass - labels[i]) * scale);
    }
    loam_free(logits);
    loam_free(labels);
    return ok ? LOAM_OK : loam_reference_memory(n, e);
}

static void cross_entropy_loss_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], loam_cross_entropy_loss_back(g, dy, n->src[0], n->src[1]));
}

/* p: ne0 .. ne3, how labels are filled, how logits are; f: what those fills take. */
static loam_node *build_loss(loam_graph *g, const loam_case *c)
{
    loam_node *a = loam_case_input(g, LOAM_TYPE_F32, c->p, (loam_fill)c->p[5], (double)c->f[2],
                                   (double)c->f[3], true);
    loam_node *b = loam_case_input(g, LOAM_TYPE_F32, c->p, (loam_fill)c->p[4], (double)c->f[0],
                                   (double)c->f[1], false);
    if (c->op == LOAM_OP_CROSS_ENTROPY_LOSS)
        return loam_cross_entropy_loss(g, a, b);
    const int64_t one[] = {1, 1, 1, 1};
    loam_node *dy = loam_case_input(g, LOAM_TYPE_F32, one, LOAM_FILL_UNIFORM, 0.5, 2, false);
    return loam_cross_entropy_loss_back(g, dy, a, b);
}

static void add_loss_cases(loam_case_list *list, loam_op op)
{
    static const int64_t shapes[][4] = {
        {10, 5, 4, 3}, {30000, 1, 1, 1}, {151936, 7, 1, 1}, {1, 3, 1, 1}, {1023, 9, 1, 1}};
    static const struct {
        const char *name;
        loam_fill fill;
        float a;
    } labels[] = {
        {"one_hot", LOAM_FILL_ONE_HOT, 0},           {"soft", LOAM_FILL_SOFT, 0},
        {"one_hot_masked", LOAM_FILL_ONE_HOT, 0.4f}, {"soft_masked", LOAM_FILL_SOFT, 0.4f},
        {"all_masked", LOAM_FILL_CONSTANT, 0},       {"not_normalized", LOAM_FILL_UNIFORM, 0}};
    static const struct {
        const char *name;
        loam_fill fill;
        float a, b;
    } logits[] = {{"normal", LOAM_FILL_NORMAL, 1, 0},
                  {"+-1e4", LOAM_FILL_UNIFORM, -1e4f, 1e4f},
                  {"one_1e4", LOAM_FILL_HUGE_ONE, 1e4f, 0},
                  {"all_-1e4", LOAM_FILL_CONSTANT, -1e4f, 0}};
    for (int s = 0; s < LOAM_COUNT(shapes); s++)
        for (int b = 0; b < LOAM_COUNT(labels); b++)
            for (int a = 0; a < LOAM_COUNT(logits); a++) {
                const int64_t *ne = shapes[s];
                if (ne[0] > 2000 && a > 0 && b > 1)
                    continue;
                loam_case *c =
                    loam_case_add(list, op, LOAM_TYPE_F32, build_loss,
                                  "type=f32,ne=[%lld,%lld,%lld,%lld],labels=%s,logits=%s",
                                  (long long)ne[0], (long long)ne[1], (long long)ne[2],
                                  (long long)ne[3], labels[b].name, logits[a].name);
                for (int d = 0; d < LOAM_MAX_DIMS; d++)
                    c->p[d] = ne[d];
                c->p[4] = labels[b].fill;
                c->p[5] = logits[a].fill;
                c->f[0] = labels[b].a;
                c->f[1] = 1;
                c->f[2] = logits[a].a;
                c->f[3] = logits[a].b;
                /* Differences of a loss near 1e4 have no digits left. */
                c->check_grad = op == LOAM_OP_CROSS_ENTROPY_LOSS && ne[0] <= 10 && a == 0;
            }
}

static void cross_entropy_loss_cases(loam_case_list *list)
{
    add_loss_cases(list, LOAM_OP_CROSS_ENTROPY_LOSS);
}

static void cross_entropy_loss_back_cases(loam_case_list *list)
{
    add_loss_cases(list, LOAM_OP_CROSS_ENTROPY_LOSS_BACK);
}

const loam_op_def loam_op_cross_entropy_loss = {.name = "CROSS_ENTROPY_LOSS",
                                                .reference = cross_entropy_loss_reference,
                                                .backward = cross_entropy_loss_backward,
                                                .cases = cross_entropy_loss_cases};

const loam_op_def loam_op_cross_entropy_loss_back = {.name = "CROSS_ENTROPY_LOSS_BACK",
                                                     .reference = cross_entropy_loss_back_reference,
                                                     .cases = cross_entropy_loss_back_cases};
