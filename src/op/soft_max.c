/* soft_max.c: SOFT_MAX and SOFT_MAX_BACK, over rows of ne0 elements.
 *
 *   SOFT_MAX (x [n, T, H, B], mask [n, >= T, MH, MB] or none), MH | H, MB | B
 *     z_i = x_i * scale + slope(h) * mask_i;  y_i = exp(z_i - max z) / sum_j exp(z_j - max z)
 *   SOFT_MAX_BACK (dy, y)
 *     dx_i = scale * y_i * (dy_i - sum_j dy_j y_j)
 *
 * x, dy and y are of a float type in any strides, the result is dense and of the first operand's
 * type; the mask is F32 (F64 in checks) or F16. Batch (h, b) reads mask (h % MH, b % MB).
 * slope(h) is ALiBi's (Press, Smith, Lewis 2021), as ggml has it: 1 where max_bias is 0; else, with
 * P the largest power of two <= H, base^(h+1) for h < P with base = 2^(-max_bias / P), and
 * base^(2 (h - P) + 1) with base = 2^(-max_bias / (2 P)) for the others.
 *
 * A row that is masked whole (all z are -infinity) gives zeros, where ggml gives NaN: padding then
 * stays out of every later sum. Backward: SOFT_MAX_BACK from y; none for the mask. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

#include <math.h>

/* ---- builders ----------------------------------------------------------------------------- */

static bool check_mask(loam_graph *g, const loam_node *x, const loam_node *mask)
{
    const int64_t *ne = mask->t.ne;
    loam_type type = mask->t.type;
    if (type != LOAM_TYPE_F32 && type != LOAM_TYPE_F16 && type != LOAM_TYPE_F64) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED, "SOFT_MAX: the mask is %s; it must be F32 or F16",
                        loam_operand(mask).text);
        return false;
    }
    if (ne[0] != x->t.ne[0] || ne[1] < x->t.ne[1] || x->t.ne[2] % ne[2] != 0 ||
        x->t.ne[3] % ne[3] != 0) {
        loam_graph_fail(g, LOAM_E_USAGE,
                        "SOFT_MAX of %s: the mask is %s; it needs the same ne0, at least ne1 rows, "
                        "and ne2 and ne3 that divide x's",
                        loam_operand(x).text, loam_operand(mask).text);
        return false;
    }
    return true;
}

loam_node *loam_soft_max(loam_graph *g, loam_node *x, loam_node *mask, float scale, float max_bias)
{
    if (!x)
        return NULL;
    if (!loam_is_float(x->t.type))
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED, "SOFT_MAX of %s: x must have a float type",
                               loam_operand(x).text);
    if (!(max_bias >= 0) || (max_bias > 0 && !mask))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "SOFT_MAX with max_bias %g: it must not be negative, and above 0 it "
                               "needs a mask",
                               (double)max_bias);
    if (mask && !check_mask(g, x, mask))
        return NULL;
    loam_node *n = loam_node_new(g, LOAM_OP_SOFT_MAX, x->t.type, x->t.ne, mask ? 2 : 1,
                                 (loam_node *[]){x, mask});
    if (n) {
        n->params.soft_max.scale = scale;
        n->params.soft_max.max_bias = max_bias;
    }
    return n;
}

loam_node *loam_soft_max_back(loam_graph *g, loam_node *dy, loam_node *y, float scale)
{
    if (!dy || !y)
        return NULL;
    if (!loam_is_float(dy->t.type) || !loam_is_float(y->t.type) || !loam_same_shape(&dy->t, &y->t))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "SOFT_MAX_BACK of dy %s and y %s: both must be float types of one "
                               "shape",
                               loam_operand(dy).text, loam_operand(y).text);
    loam_node *n =
        loam_node_new(g, LOAM_OP_SOFT_MAX_BACK, dy->t.type, y->t.ne, 2, (loam_node *[]){dy, y});
    if (n)
        n->params.soft_max.scale = scale;
    return n;
}

/* ---- references and backward -------------------------------------------------------------- */

static double alibi_slope(double max_bias, int64_t n_heads, int64_t head)
{
    if (max_bias == 0)
        return 1;
    int64_t power = 1;
    while (2 * power <= n_heads)
        power *= 2;
    if (head < power)
        return pow(2, -max_bias / (double)power * (double)(head + 1));
    return pow(2, -max_bias / 2 / (double)power * (double)(2 * (head - power) + 1));
}

static void soft_max_row(const loam_node *n, loam_row at, double *z)
{
    const loam_tensor *x = &n->src[0]->t, *mask = n->n_src > 1 ? &n->src[1]->t : NULL;
    const double slope = alibi_slope(n->params.soft_max.max_bias, x->ne[2], at.i2);
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < x->ne[0]; i++) {
        z[i] = loam_get_at(x, i, at) * n->params.soft_max.scale;
        if (mask)
            z[i] += slope * loam_get(mask, i, at.i1, at.i2 % mask->ne[2], at.i3 % mask->ne[3]);
        largest = fmax(largest, z[i]);
    }
    for (int64_t i = 0; i < x->ne[0]; i++) {
        z[i] = largest == -INFINITY ? 0 : exp(z[i] - largest);
        sum += z[i];
    }
    for (int64_t i = 0; i < x->ne[0]; i++)
        loam_set_at(&n->t, i, at, sum == 0 ? 0 : z[i] / sum);
}

static loam_status soft_max_reference(const loam_node *n, loam_error *e)
{
    double *z = loam_alloc((size_t)n->t.ne[0] * sizeof *z);
    if (!z)
        return loam_reference_memory(n, e);
    for (int64_t r = 0; r < loam_tensor_rows(&n->t); r++)
        soft_max_row(n, loam_row_at(&n->t, r), z);
    loam_free(z);
    return LOAM_OK;
}

static loam_status soft_max_back_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *dy = &n->src[0]->t, *y = &n->src[1]->t;
    for (int64_t r = 0; r < loam_tensor_rows(y); r++) {
        const loam_row at = loam_row_at(y, r);
        double dot = 0;
        for (int64_t i = 0; i < y->ne[0]; i++)
            dot += loam_get_at(dy, i, at) * loam_get_at(y, i, at);
        for (int64_t i = 0; i < y->ne[0]; i++)
            loam_set_at(&n->t, i, at,
                        n->params.soft_max.scale * loam_get_at(y, i, at) *
                            (loam_get_at(dy, i, at) - dot));
    }
    return LOAM_OK;
}

static void soft_max_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->n_src > 1 && n->src[1]->needs_grad) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED, "SOFT_MAX (node '%s') has no gradient for its mask",
                        n->name);
        return;
    }
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], loam_soft_max_back(g, dy, n, n->params.soft_max.scale));
}

static double soft_max_flops(const loam_node *n)
{
    return 5.0 * (double)loam_tensor_ne(&n->t);
}

/* ---- cases -------------------------------------------------------------------------------- */

enum { P_NE = 0, P_MASK_NE = 4, P_LAYOUT = 8, P_MASK = 9, P_MASK_TYPE = 10 };
enum { F_SCALE = 0, F_MAX_BIAS = 1, F_SPREAD = 2 };

typedef enum mask_kind {
    MASK_NONE,
    MASK_SOME,   /* -infinity here and there, and some rows whole */
    MASK_ALL,    /* every row whole */
    MASK_FINITE, /* finite distances, which ALiBi's slopes scale */
} mask_kind;

/* p: x's ne, the mask's ne, layout, kind and type of the mask; f: scale, max_bias, spread of x. */
static loam_node *build_soft_max(loam_graph *g, const loam_case *c)
{
    loam_type mask_type = (loam_type)c->p[P_MASK_TYPE];
    loam_node *x = loam_case_laid_out(g, c->type, c->p + P_NE, (loam_layout)c->p[P_LAYOUT],
                                      LOAM_FILL_NORMAL, c->f[F_SPREAD], 0, c->check_grad);
    loam_node *mask = NULL;
    switch ((mask_kind)c->p[P_MASK]) {
    case MASK_SOME:
        mask = loam_case_input(g, mask_type, c->p + P_MASK_NE, LOAM_FILL_MASK, 0.3, 0.2, false);
        break;
    case MASK_ALL:
        mask = loam_case_input(g, mask_type, c->p + P_MASK_NE, LOAM_FILL_MASK, 1, 1, false);
        break;
    case MASK_FINITE:
        mask = loam_case_input(g, mask_type, c->p + P_MASK_NE, LOAM_FILL_UNIFORM, -20, 0, false);
        break;
    case MASK_NONE:
        break;
    }
    return loam_soft_max(g, x, mask, c->f[F_SCALE], c->f[F_MAX_BIAS]);
}

static loam_case *add_case(loam_case_list *list, const int64_t ne[4], int layout, float scale,
                           mask_kind kind, loam_type mask_type, int64_t mask_heads, float max_bias)
{
    static const char *const kinds[] = {"no mask", "mask", "all masked", "finite mask"};
    char mask[64] = "no mask";
    const int64_t mask_ne[] = {ne[0], ne[1] + (mask_heads > 1 ? 3 : 0), mask_heads, 1};
    if (kind != MASK_NONE)
        snprintf(mask, sizeof mask, "%s %s [%lld,%lld,%lld,%lld]", kinds[kind],
                 loam_type_name(mask_type), (long long)mask_ne[0], (long long)mask_ne[1],
                 (long long)mask_ne[2], (long long)mask_ne[3]);
    loam_case *c =
        loam_case_add(list, LOAM_OP_SOFT_MAX, LOAM_TYPE_F32, build_soft_max,
                      "f32 [%lld,%lld,%lld,%lld] %s, scale %g, %s, max_bias %g", (long long)ne[0],
                      (long long)ne[1], (long long)ne[2], (long long)ne[3],
                      loam_layout_name((loam_layout)layout), (double)scale, mask, (double)max_bias);
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        c->p[P_NE + d] = ne[d];
        c->p[P_MASK_NE + d] = mask_ne[d];
    }
    c->p[P_LAYOUT] = layout;
    c->p[P_MASK] = kind;
    c->p[P_MASK_TYPE] = mask_type;
    c->f[F_SCALE] = scale;
    c->f[F_MAX_BIAS] = max_bias;
    c->f[F_SPREAD] = 4;
    c->check_grad = ne[0] == 16 && kind != MASK_ALL;
    return c;
}

static void soft_max_cases(loam_case_list *list)
{
    static const int64_t widths[] = {1, 16, 1023, 1024, 4096};
    static const float scales[] = {1.0f, 0.1f}, biases[] = {0.0f, 8.0f};
    static const loam_type types[] = {LOAM_TYPE_F32, LOAM_TYPE_F16};
    for (int w = 0; w < LOAM_COUNT(widths); w++) {
        const int64_t ne[] = {widths[w], 5, 3, 2};
        for (int s = 0; s < LOAM_COUNT(scales); s++) {
            add_case(list, ne, 0, scales[s], MASK_NONE, LOAM_TYPE_F32, 1, 0);
            for (int type = 0; type < LOAM_COUNT(types); type++)
                for (int b = 0; b < LOAM_COUNT(biases); b++) {
                    add_case(list, ne, 0, scales[s], MASK_SOME, types[type], 1, biases[b]);
                    add_case(list, ne, 0, scales[s], MASK_FINITE, types[type], s ? 3 : 1,
                             biases[b]);
                }
        }
        add_case(list, ne, 0, 1.0f, MASK_ALL, LOAM_TYPE_F32, 1, 0);
        add_case(list, ne, 0, 1.0f, MASK_ALL, LOAM_TYPE_F16, 3, 8.0f);
    }
    const int64_t heads[] = {16, 5, 12, 1}, far[] = {1023, 5, 1, 1}, square[] = {77, 77, 8, 1};
    add_case(list, heads, 0, 1.0f, MASK_FINITE, LOAM_TYPE_F32, 1, 8.0f);
    add_case(list, square, 0, 0.1f, MASK_SOME, LOAM_TYPE_F16, 1, 0);
    for (int layout = 1; layout < LOAM_LAYOUT_COUNT; layout++) {
        add_case(list, heads, layout, 0.1f, MASK_NONE, LOAM_TYPE_F32, 1, 0);
        add_case(list, heads, layout, 0.1f, MASK_SOME, LOAM_TYPE_F16, 4, 0);
    }
    loam_case *c = add_case(list, far, 0, 2.0f, MASK_NONE, LOAM_TYPE_F32, 1, 0);
    c->f[F_SPREAD] = 1000; /* exp must not overflow before the largest is taken off */
}

/* p: ne, layout; f: scale. y is a distribution; a share of its rows is masked, all zero. */
static loam_node *build_soft_max_back(loam_graph *g, const loam_case *c)
{
    loam_layout layout = (loam_layout)c->p[P_LAYOUT];
    loam_node *dy =
        loam_case_laid_out(g, c->type, c->p + P_NE, layout, LOAM_FILL_NORMAL, 1, 0, false);
    loam_node *y =
        loam_case_laid_out(g, c->type, c->p + P_NE, layout, LOAM_FILL_SOFT, 0.2, 0, false);
    return loam_soft_max_back(g, dy, y, c->f[F_SCALE]);
}

static void soft_max_back_cases(loam_case_list *list)
{
    static const int64_t widths[] = {1, 16, 1023, 1024, 4096};
    static const float scales[] = {1.0f, 0.1f};
    for (int w = 0; w < LOAM_COUNT(widths); w++)
        for (int s = 0; s < LOAM_COUNT(scales); s++)
            for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++) {
                if (layout != 0 && widths[w] != 16 && widths[w] != 1023)
                    continue;
                const int64_t ne[] = {widths[w], 5, 3, 2};
                loam_case *c =
                    loam_case_add(list, LOAM_OP_SOFT_MAX_BACK, LOAM_TYPE_F32, build_soft_max_back,
                                  "f32 [%lld,%lld,%lld,%lld] %s, scale %g", (long long)ne[0],
                                  (long long)ne[1], (long long)ne[2], (long long)ne[3],
                                  loam_layout_name((loam_layout)layout), (double)scales[s]);
                for (int d = 0; d < LOAM_MAX_DIMS; d++)
                    c->p[P_NE + d] = ne[d];
                c->p[P_LAYOUT] = layout;
                c->f[F_SCALE] = scales[s];
            }
}

const loam_op_def loam_op_soft_max = {.name = "SOFT_MAX",
                                      .reference = soft_max_reference,
                                      .backward = soft_max_backward,
                                      .cases = soft_max_cases,
                                      .flops = soft_max_flops};

const loam_op_def loam_op_soft_max_back = {.name = "SOFT_MAX_BACK",
                                           .reference = soft_max_back_reference,
                                           .cases = soft_max_back_cases,
                                           .flops = soft_max_flops};
