/* rms_norm.c: RMS_NORM and RMS_NORM_BACK, over rows of ne0 = n elements; x, dy of a float type in
 * any strides, the result dense, of x's shape and of the first operand's type.
 *
 *   RMS_NORM (x)           y_i = x_i * r,  r = 1 / sqrt(mean(x^2) + eps)
 *   RMS_NORM_BACK (dy, x)  dx_i = r * (dy_i - x_i * r^2 * mean(dy x))
 *
 * (Zhang and Sennrich 2019, without the gain, which is a MUL.) The sums here are double. A device
 * may sum in F32 but not one element after the other: with one huge value in a row of 5120 such a
 * sum loses the rest, which the cases with a lower bar show. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

#include <math.h>

/* ---- builders ----------------------------------------------------------------------------- */

loam_node *loam_rms_norm(loam_graph *g, loam_node *x, float eps)
{
    if (!x)
        return NULL;
    if (!loam_is_float(x->t.type) || !(eps >= 0))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "RMS_NORM of %s with eps %g: x must have a float type and eps must "
                               "not be negative",
                               loam_operand(x).text, (double)eps);
    loam_node *n = loam_node_new(g, LOAM_OP_RMS_NORM, x->t.type, x->t.ne, 1, &x);
    if (n)
        n->params.norm.eps = eps;
    return n;
}

loam_node *loam_rms_norm_back(loam_graph *g, loam_node *dy, loam_node *x, float eps)
{
    if (!dy || !x)
        return NULL;
    if (!loam_is_float(x->t.type) || !loam_is_float(dy->t.type) || !(eps >= 0) ||
        !loam_same_shape(&dy->t, &x->t))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "RMS_NORM_BACK of dy %s and x %s with eps %g: both must be float "
                               "types of one shape, and eps must not be negative",
                               loam_operand(dy).text, loam_operand(x).text, (double)eps);
    loam_node *n =
        loam_node_new(g, LOAM_OP_RMS_NORM_BACK, dy->t.type, x->t.ne, 2, (loam_node *[]){dy, x});
    if (n)
        n->params.norm.eps = eps;
    return n;
}

/* ---- references and backward -------------------------------------------------------------- */

static double inverse_rms(const loam_tensor *x, loam_row at, double eps)
{
    double sum = 0;
    for (int64_t i = 0; i < x->ne[0]; i++)
        sum += loam_get_at(x, i, at) * loam_get_at(x, i, at);
    return 1 / sqrt(sum / (double)x->ne[0] + eps);
}

static loam_status rms_norm_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *x = &n->src[0]->t;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++) {
        const loam_row at = loam_row_at(x, r);
        const double scale = inverse_rms(x, at, n->params.norm.eps);
        for (int64_t i = 0; i < x->ne[0]; i++)
            loam_set_at(&n->t, i, at, loam_get_at(x, i, at) * scale);
    }
    return LOAM_OK;
}

static loam_status rms_norm_back_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *dy = &n->src[0]->t, *x = &n->src[1]->t;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++) {
        const loam_row at = loam_row_at(x, r);
        const double scale = inverse_rms(x, at, n->params.norm.eps);
        double dot = 0;
        for (int64_t i = 0; i < x->ne[0]; i++)
            dot += loam_get_at(dy, i, at) * loam_get_at(x, i, at);
        const double mean = dot / (double)x->ne[0] * scale * scale;
        for (int64_t i = 0; i < x->ne[0]; i++)
            loam_set_at(&n->t, i, at,
                        scale * (loam_get_at(dy, i, at) - loam_get_at(x, i, at) * mean));
    }
    return LOAM_OK;
}

static void rms_norm_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], loam_rms_norm_back(g, dy, n->src[0], n->params.norm.eps));
}

static double rms_norm_flops(const loam_node *n)
{
    return 3.0 * (double)loam_tensor_ne(&n->t);
}

static double rms_norm_back_flops(const loam_node *n)
{
    return 7.0 * (double)loam_tensor_ne(&n->t);
}

/* ---- cases -------------------------------------------------------------------------------- */

enum { P_NE = 0, P_LAYOUT = 4, P_HUGE = 5 };

/* p: ne, layout, whether rows hold one huge value; f: eps. */
static loam_node *build_rms_norm(loam_graph *g, const loam_case *c)
{
    loam_layout layout = (loam_layout)c->p[P_LAYOUT];
    loam_node *x = loam_case_laid_out(g, c->type, c->p + P_NE, layout,
                                      c->p[P_HUGE] ? LOAM_FILL_HUGE_ONE : LOAM_FILL_NORMAL,
                                      c->p[P_HUGE] ? (double)c->p[P_HUGE] : 1, 0, c->check_grad);
    if (c->op == LOAM_OP_RMS_NORM)
        return loam_rms_norm(g, x, c->f[0]);
    loam_node *dy =
        loam_case_laid_out(g, c->type, c->p + P_NE, layout, LOAM_FILL_NORMAL, 1, 0, false);
    return loam_rms_norm_back(g, dy, x, c->f[0]);
}

static loam_case *add_case(loam_case_list *list, loam_op op, const int64_t ne[4], int layout,
                           float eps, int64_t huge)
{
    char what[32] = "";
    if (huge)
        snprintf(what, sizeof what, ", one value of %lld", (long long)huge);
    loam_case *c = loam_case_add(list, op, LOAM_TYPE_F32, build_rms_norm,
                                 "f32 [%lld,%lld,%lld,%lld] %s, eps %g%s", (long long)ne[0],
                                 (long long)ne[1], (long long)ne[2], (long long)ne[3],
                                 loam_layout_name((loam_layout)layout), (double)eps, what);
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        c->p[P_NE + d] = ne[d];
    c->p[P_LAYOUT] = layout;
    c->p[P_HUGE] = huge;
    c->f[0] = eps;
    return c;
}

static void cases_of(loam_case_list *list, loam_op op)
{
    static const float all_eps[] = {0.0f, 1e-6f, 1e-4f, 1e-1f, 10.0f};
    const int64_t whole[] = {64, 5, 4, 3}, one[] = {1, 7, 2, 1}, odd[] = {1025, 5, 1, 1};
    const int64_t model[] = {5120, 16, 1, 1}, heads[] = {128, 9, 5, 1};
    const bool has_backward = op == LOAM_OP_RMS_NORM;
    for (int k = 0; k < LOAM_COUNT(all_eps); k++)
        for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++)
            add_case(list, op, whole, layout, all_eps[k], 0)->check_grad = has_backward;
    /* With one element and a small eps the gradient is what cancels, and F32 has no digits of it.
     */
    add_case(list, op, one, 0, has_backward ? 1e-6f : 0.1f, 0);
    add_case(list, op, one, 0, 10.0f, 0)->check_grad = has_backward;
    add_case(list, op, odd, 0, 1e-6f, 0);
    add_case(list, op, heads, LOAM_LAYOUT_PERMUTED, 1e-6f, 0);
    add_case(list, op, model, 0, 1e-6f, 0);
    add_case(list, op, model, LOAM_LAYOUT_STRIDED, 1e-6f, 0);
    add_case(list, op, whole, 0, 1e-6f, 4096)->check_grad = has_backward;
    add_case(list, op, odd, 0, 1e-6f, 4096);
    /* 4096^2 = 2^24: an F32 running sum takes no square below 1 after it. What is lost, 5120 parts
     * in 2^24, gives an NMSE of 1e-9 to 1e-8. */
    add_case(list, op, model, 0, 1e-6f, 4096)->bar = 1e-10;
}

static void rms_norm_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_RMS_NORM);
}

static void rms_norm_back_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_RMS_NORM_BACK);
}

const loam_op_def loam_op_rms_norm = {.name = "RMS_NORM",
                                      .reference = rms_norm_reference,
                                      .backward = rms_norm_backward,
                                      .cases = rms_norm_cases,
                                      .flops = rms_norm_flops};

const loam_op_def loam_op_rms_norm_back = {.name = "RMS_NORM_BACK",
                                           .reference = rms_norm_back_reference,
                                           .cases = rms_norm_back_cases,
                                           .flops = rms_norm_back_flops};
