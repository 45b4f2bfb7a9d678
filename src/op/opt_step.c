/* opt_step.c: one step of an optimizer, in place in the parameter (the result is it).
 *
 * OPT_STEP_ADAMW (ggml's; Loshchilov and Hutter, 2019), with alpha, beta1, beta2, eps, decay,
 * c1 = 1/(1 - beta1^t) and c2 = 1/(1 - beta2^t) in hyper [7]:
 *     m <- beta1 m + (1 - beta1) g
 *     v <- beta2 v + (1 - beta2) g^2
 *     p <- p (1 - alpha decay) - alpha (c1 m) / (sqrt(c2 v) + eps)
 * OPT_STEP_SGD, with alpha and decay in hyper [2]:
 *     p <- p (1 - alpha decay) - alpha g
 *
 * p, g, m and v have one shape; p, m and v are F32 (F64 in checks) and are written; hyper is a
 * leaf, so that a step's schedule changes no graph. */
#include "op/check.h"
#include "op/op_def.h"

#include <math.h>

static bool check_step(loam_graph *g, const char *op, const loam_node *param,
                       const loam_node *other, const char *what)
{
    if (loam_is_float(param->t.type) && param->t.type == other->t.type &&
        loam_same_shape(&param->t, &other->t))
        return true;
    loam_graph_fail(g, LOAM_E_USAGE,
                    "%s: the parameter is %s and %s %s; expected one shape and type", op,
                    loam_operand(param).text, what, loam_operand(other).text);
    return false;
}

static bool check_hyper(loam_graph *g, const char *op, const loam_node *hyper, int64_t n)
{
    if (loam_is_float(hyper->t.type) && hyper->t.ne[0] == n && loam_tensor_rows(&hyper->t) == 1)
        return true;
    loam_graph_fail(g, LOAM_E_USAGE, "%s: hyper is %s; expected f32 [%lld]", op,
                    loam_operand(hyper).text, (long long)n);
    return false;
}

loam_node *loam_opt_step_adamw(loam_graph *g, loam_node *param, loam_node *grad, loam_node *m,
                               loam_node *v, loam_node *hyper)
{
    static const char op[] = "OPT_STEP_ADAMW";
    if (!param || !grad || !m || !v || !hyper || !check_step(g, op, param, grad, "the gradient") ||
        !check_step(g, op, param, m, "m") || !check_step(g, op, param, v, "v") ||
        !check_hyper(g, op, hyper, 7))
        return NULL;
    return loam_node_view(g, LOAM_OP_OPT_STEP_ADAMW, param, param->t.type, param->t.ne, param->t.nb,
                          0, 5, (loam_node *[]){param, grad, m, v, hyper});
}

loam_node *loam_opt_step_sgd(loam_graph *g, loam_node *param, loam_node *grad, loam_node *hyper)
{
    static const char op[] = "OPT_STEP_SGD";
    if (!param || !grad || !hyper || !check_step(g, op, param, grad, "the gradient") ||
        !check_hyper(g, op, hyper, 2))
        return NULL;
    return loam_node_view(g, LOAM_OP_OPT_STEP_SGD, param, param->t.type, param->t.ne, param->t.nb,
                          0, 3, (loam_node *[]){param, grad, hyper});
}

static void adamw_element(const loam_node *n, const double *h, const int64_t i[LOAM_MAX_DIMS])
{
    loam_tensor *moment1 = &n->src[2]->t, *moment2 = &n->src[3]->t;
    double grad = loam_get(&n->src[1]->t, i[0], i[1], i[2], i[3]);
    double m = h[1] * loam_get(moment1, i[0], i[1], i[2], i[3]) + (1 - h[1]) * grad;
    double v = h[2] * loam_get(moment2, i[0], i[1], i[2], i[3]) + (1 - h[2]) * grad * grad;
    double p = loam_get(&n->t, i[0], i[1], i[2], i[3]);
    loam_set(moment1, i[0], i[1], i[2], i[3], m);
    loam_set(moment2, i[0], i[1], i[2], i[3], v);
    loam_set(&n->t, i[0], i[1], i[2], i[3],
             p * (1 - h[0] * h[4]) - h[0] * (h[5] * m) / (sqrt(h[6] * v) + h[3]));
}

static void sgd_element(const loam_node *n, const double *h, const int64_t i[LOAM_MAX_DIMS])
{
    double grad = loam_get(&n->src[1]->t, i[0], i[1], i[2], i[3]);
    double p = loam_get(&n->t, i[0], i[1], i[2], i[3]);
    loam_set(&n->t, i[0], i[1], i[2], i[3], p * (1 - h[0] * h[1]) - h[0] * grad);
}

static void each_element(const loam_node *n, const double *hyper,
                         void (*step)(const loam_node *, const double *, const int64_t *))
{
    int64_t i[LOAM_MAX_DIMS];
    for (i[3] = 0; i[3] < n->t.ne[3]; i[3]++)
        for (i[2] = 0; i[2] < n->t.ne[2]; i[2]++)
            for (i[1] = 0; i[1] < n->t.ne[1]; i[1]++)
                for (i[0] = 0; i[0] < n->t.ne[0]; i[0]++)
                    step(n, hyper, i);
}

static loam_status opt_step_adamw_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    double hyper[7];
    loam_get_row(&n->src[4]->t, 0, 0, 0, hyper);
    each_element(n, hyper, adamw_element);
    return LOAM_OK;
}

static loam_status opt_step_sgd_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    double hyper[2];
    loam_get_row(&n->src[2]->t, 0, 0, 0, hyper);
    each_element(n, hyper, sgd_element);
    return LOAM_OK;
}

/* p: ne0 .. ne3, step, which result (0 parameter, 1 m, 2 v), moments zero; f: size of gradients. */
static loam_node *build_opt_step(loam_graph *g, const loam_case *c)
{
    const int64_t *p = c->p;
    double moment = p[6] ? 0 : 1;
    loam_node *param = loam_case_input(g, LOAM_TYPE_F32, p, LOAM_FILL_NORMAL, 1, 0, false);
    loam_node *grad =
        loam_case_input(g, LOAM_TYPE_F32, p, LOAM_FILL_NORMAL, (double)c->f[0], 0, false);
    if (c->op == LOAM_OP_OPT_STEP_SGD) {
        const int64_t two[] = {2, 1, 1, 1};
        loam_node *hyper =
            loam_case_input(g, LOAM_TYPE_F32, two, LOAM_FILL_UNIFORM, 0.1, 0.3, false);
        return loam_opt_step_sgd(g, param, grad, hyper);
    }
    const int64_t seven[] = {7, 1, 1, 1};
    loam_node *m = loam_case_input(g, LOAM_TYPE_F32, p, LOAM_FILL_NORMAL, moment, 0, false);
    loam_node *v = loam_case_input(g, LOAM_TYPE_F32, p, LOAM_FILL_UNIFORM, 0, moment, false);
    /* Alpha is large, so that a wrong step is not lost beside the parameter. */
    loam_node *hyper =
        loam_case_input(g, LOAM_TYPE_F32, seven, LOAM_FILL_ADAMW, (double)p[4], 0.1, false);
    loam_node *y = loam_opt_step_adamw(g, param, grad, m, v, hyper);
    if (!y || p[5] == 0)
        return y;
    loam_node *written = p[5] == 1 ? m : v;
    return loam_node_view(g, LOAM_OP_VIEW, written, written->t.type, written->t.ne, written->t.nb,
                          0, 1, (loam_node *[]){y});
}

static void add_opt_step(loam_case_list *list, loam_op op, const int64_t *ne, int64_t step,
                         const char *gradients, float size, int result, bool zero_moments)
{
    static const char *const results[] = {"param", "m", "v"};
    loam_case *c =
        loam_case_add(list, op, LOAM_TYPE_F32, build_opt_step,
                      "type=f32,ne=[%lld,%lld,%lld,%lld],step=%lld,grad=%s,moments=%s,result=%s",
                      (long long)ne[0], (long long)ne[1], (long long)ne[2], (long long)ne[3],
                      (long long)step, gradients, zero_moments ? "zero" : "set", results[result]);
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        c->p[d] = ne[d];
    c->p[4] = step;
    c->p[5] = result;
    c->p[6] = zero_moments;
    c->f[0] = size;
}

static const struct {
    const char *name;
    float size;
} gradient_sizes[] = {{"normal", 1}, {"small", 1e-6f}, {"zero", 0}, {"huge", 1e12f}};

static const int64_t step_shapes[][4] = {
    {10, 5, 4, 3}, {1, 1, 1, 1}, {10007, 1, 1, 1}, {16, 5120, 1, 1}};

static void opt_step_adamw_cases(loam_case_list *list)
{
    static const int64_t steps[] = {1, 1000};
    for (int s = 0; s < LOAM_COUNT(step_shapes); s++)
        for (int t = 0; t < LOAM_COUNT(steps); t++)
            for (int i = 0; i < LOAM_COUNT(gradient_sizes); i++)
                for (int result = 0; result < 3; result++)
                    for (int zero = 0; zero < 2; zero++)
                        add_opt_step(list, LOAM_OP_OPT_STEP_ADAMW, step_shapes[s], steps[t],
                                     gradient_sizes[i].name, gradient_sizes[i].size, result, zero);
}

static void opt_step_sgd_cases(loam_case_list *list)
{
    for (int s = 0; s < LOAM_COUNT(step_shapes); s++)
        for (int i = 0; i < LOAM_COUNT(gradient_sizes); i++)
            add_opt_step(list, LOAM_OP_OPT_STEP_SGD, step_shapes[s], 1, gradient_sizes[i].name,
                         gradient_sizes[i].size, 0, true);
}

const loam_op_def loam_op_opt_step_adamw = {
    .name = "OPT_STEP_ADAMW", .reference = opt_step_adamw_reference, .cases = opt_step_adamw_cases};

const loam_op_def loam_op_opt_step_sgd = {
    .name = "OPT_STEP_SGD", .reference = opt_step_sgd_reference, .cases = opt_step_sgd_cases};
