/* glu.c: SWIGLU, GEGLU and their backs, element by element; float types in any strides.
 *
 *   SWIGLU (a, b)           y = silu(a) * b        GEGLU: gelu(a) * b (tanh form)
 *   SWIGLU_BACK (dy, a, b)  da = dy * b * silu'(a),  db = dy * silu(a)
 *
 * Split: a and b [n, ...]. Fused: b is missing and a is [2n, ...], the gated half first.
 * y is [n, ...], dense, of a's type. A back's result is [2n, ...], dense, of dy's type: each row
 * holds da, then db, which for a fused a is its gradient as it stands.
 * Backward: the back; for split operands two views of it. */
#include "op/activation.h"
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

/* ---- builders ----------------------------------------------------------------------------- */

static bool check_gates(loam_graph *g, loam_op op, const loam_node *a, const loam_node *b)
{
    if (!loam_is_float(a->t.type) || (b && !loam_is_float(b->t.type))) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED, "%s of %s and %s: both must be float types",
                        loam_op_get(op)->name, loam_operand(a).text,
                        b ? loam_operand(b).text : "nothing");
        return false;
    }
    if (b ? !loam_same_shape(&a->t, &b->t) : a->t.ne[0] % 2 != 0) {
        loam_graph_fail(g, LOAM_E_USAGE,
                        "%s of %s and %s: two operands must have one shape, a single one an even "
                        "ne0",
                        loam_op_get(op)->name, loam_operand(a).text,
                        b ? loam_operand(b).text : "nothing");
        return false;
    }
    return true;
}

static loam_node *gated(loam_graph *g, loam_op op, loam_node *a, loam_node *b)
{
    if (!a || !check_gates(g, op, a, b))
        return NULL;
    const int64_t ne[] = {b ? a->t.ne[0] : a->t.ne[0] / 2, a->t.ne[1], a->t.ne[2], a->t.ne[3]};
    return loam_node_new(g, op, a->t.type, ne, b ? 2 : 1, (loam_node *[]){a, b});
}

static loam_node *gated_back(loam_graph *g, loam_op op, loam_node *dy, loam_node *a, loam_node *b)
{
    if (!dy || !a || !check_gates(g, op, a, b))
        return NULL;
    const int64_t n = b ? a->t.ne[0] : a->t.ne[0] / 2;
    if (!loam_is_float(dy->t.type) || dy->t.ne[0] != n || dy->t.ne[1] != a->t.ne[1] ||
        dy->t.ne[2] != a->t.ne[2] || dy->t.ne[3] != a->t.ne[3])
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "%s: dy is %s; it must be a float type of the result's shape, ne0 "
                               "%lld for a %s",
                               loam_op_get(op)->name, loam_operand(dy).text, (long long)n,
                               loam_operand(a).text);
    const int64_t ne[] = {2 * n, a->t.ne[1], a->t.ne[2], a->t.ne[3]};
    return loam_node_new(g, op, dy->t.type, ne, b ? 3 : 2, (loam_node *[]){dy, a, b});
}

loam_node *loam_swiglu(loam_graph *g, loam_node *a, loam_node *b)
{
    return gated(g, LOAM_OP_SWIGLU, a, b);
}

loam_node *loam_geglu(loam_graph *g, loam_node *a, loam_node *b)
{
    return gated(g, LOAM_OP_GEGLU, a, b);
}

loam_node *loam_swiglu_back(loam_graph *g, loam_node *dy, loam_node *a, loam_node *b)
{
    return gated_back(g, LOAM_OP_SWIGLU_BACK, dy, a, b);
}

loam_node *loam_geglu_back(loam_graph *g, loam_node *dy, loam_node *a, loam_node *b)
{
    return gated_back(g, LOAM_OP_GEGLU_BACK, dy, a, b);
}

/* ---- references and backward -------------------------------------------------------------- */

/* Element i of the second operand: b's, or the second half of the fused a. */
static double second(const loam_tensor *a, const loam_tensor *b, int64_t i, loam_row at)
{
    return b ? loam_get_at(b, i, at) : loam_get_at(a, i + a->ne[0] / 2, at);
}

static void apply(const loam_node *n, double (*value)(double))
{
    const loam_tensor *a = &n->src[0]->t, *b = n->n_src > 1 ? &n->src[1]->t : NULL;
    for (int64_t r = 0; r < loam_tensor_rows(&n->t); r++) {
        const loam_row at = loam_row_at(&n->t, r);
        for (int64_t i = 0; i < n->t.ne[0]; i++)
            loam_set_at(&n->t, i, at, value(loam_get_at(a, i, at)) * second(a, b, i, at));
    }
}

static void apply_back(const loam_node *n, double (*value)(double), double (*slope)(double))
{
    const loam_tensor *dy = &n->src[0]->t, *a = &n->src[1]->t;
    const loam_tensor *b = n->n_src > 2 ? &n->src[2]->t : NULL;
    const int64_t half = dy->ne[0];
    for (int64_t r = 0; r < loam_tensor_rows(dy); r++) {
        const loam_row at = loam_row_at(dy, r);
        for (int64_t i = 0; i < half; i++) {
            const double d = loam_get_at(dy, i, at), x = loam_get_at(a, i, at);
            loam_set_at(&n->t, i, at, d * second(a, b, i, at) * slope(x));
            loam_set_at(&n->t, i + half, at, d * value(x));
        }
    }
}

static loam_status swiglu_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    apply(n, loam_silu_value);
    return LOAM_OK;
}

static loam_status geglu_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    apply(n, loam_gelu_value);
    return LOAM_OK;
}

static loam_status swiglu_back_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    apply_back(n, loam_silu_value, loam_silu_slope);
    return LOAM_OK;
}

static loam_status geglu_back_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    apply_back(n, loam_gelu_value, loam_gelu_slope);
    return LOAM_OK;
}

static void glu_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_node *a = n->src[0], *b = n->n_src > 1 ? n->src[1] : NULL;
    loam_op op = n->op == LOAM_OP_SWIGLU ? LOAM_OP_SWIGLU_BACK : LOAM_OP_GEGLU_BACK;
    loam_node *both = gated_back(g, op, dy, a, b);
    if (!both)
        return;
    if (!b) {
        loam_grad_add(g, a, both);
        return;
    }
    if (a->needs_grad)
        loam_grad_add(g, a, loam_view(g, both, a->t.ne, both->t.nb, 0));
    if (b->needs_grad)
        loam_grad_add(g, b,
                      loam_view(g, both, b->t.ne, both->t.nb, (size_t)b->t.ne[0] * both->t.nb[0]));
}

static double glu_flops(const loam_node *n)
{
    return 6.0 * (double)loam_tensor_ne(&n->t);
}

/* ---- cases -------------------------------------------------------------------------------- */

enum { P_NE = 0, P_LAYOUT = 4, P_B_LAYOUT = 5, P_FUSED = 6 };

/* p: ne of the result, layout of a, layout of b and dy, whether a is fused; f: spread of a. */
static loam_node *build_glu(loam_graph *g, const loam_case *c)
{
    const int64_t *ne = c->p + P_NE;
    const int64_t fused_ne[] = {2 * ne[0], ne[1], ne[2], ne[3]};
    loam_layout layout = (loam_layout)c->p[P_LAYOUT], b_layout = (loam_layout)c->p[P_B_LAYOUT];
    loam_node *a = loam_case_laid_out(g, c->type, c->p[P_FUSED] ? fused_ne : ne, layout,
                                      LOAM_FILL_NORMAL, c->f[0], 0, c->check_grad);
    loam_node *b = NULL;
    if (!c->p[P_FUSED])
        b = loam_case_laid_out(g, c->type, ne, b_layout, LOAM_FILL_NORMAL, 1, 0, c->check_grad);
    if (c->op == LOAM_OP_SWIGLU || c->op == LOAM_OP_GEGLU)
        return gated(g, c->op, a, b);
    loam_node *dy = loam_case_laid_out(g, c->type, ne, b_layout, LOAM_FILL_NORMAL, 1, 0, false);
    return gated_back(g, c->op, dy, a, b);
}

static void add_case(loam_case_list *list, loam_op op, const int64_t ne[4], int layout,
                     int b_layout, bool fused, float spread)
{
    loam_case *c =
        loam_case_add(list, op, LOAM_TYPE_F32, build_glu,
                      "f32 [%lld,%lld,%lld,%lld] %s, a %s, others %s, spread %g", (long long)ne[0],
                      (long long)ne[1], (long long)ne[2], (long long)ne[3],
                      fused ? "fused" : "split", loam_layout_name((loam_layout)layout),
                      loam_layout_name((loam_layout)b_layout), (double)spread);
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        c->p[P_NE + d] = ne[d];
    c->p[P_LAYOUT] = layout;
    c->p[P_B_LAYOUT] = b_layout;
    c->p[P_FUSED] = fused;
    c->f[0] = spread;
    c->check_grad = (op == LOAM_OP_SWIGLU || op == LOAM_OP_GEGLU) && ne[0] <= 64 && spread < 10;
}

static void cases_of(loam_case_list *list, loam_op op)
{
    const int64_t whole[] = {64, 5, 4, 3}, odd[] = {1023, 3, 1, 1}, one[] = {1, 2, 1, 1};
    const int64_t model[] = {13824, 9, 1, 1};
    for (int fused = 0; fused < 2; fused++) {
        for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++) {
            add_case(list, op, whole, layout, layout, fused, 2.0f);
            add_case(list, op, whole, layout, (layout + 1) % LOAM_LAYOUT_COUNT, fused, 2.0f);
        }
        add_case(list, op, whole, 0, 0, fused, 40.0f);
        add_case(list, op, odd, 0, 0, fused, 2.0f);
        add_case(list, op, one, 0, 0, fused, 2.0f);
        add_case(list, op, model, 0, 0, fused, 2.0f);
    }
}

static void swiglu_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_SWIGLU);
}

static void swiglu_back_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_SWIGLU_BACK);
}

static void geglu_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_GEGLU);
}

static void geglu_back_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_GEGLU_BACK);
}

const loam_op_def loam_op_swiglu = {.name = "SWIGLU",
                                    .reference = swiglu_reference,
                                    .backward = glu_backward,
                                    .cases = swiglu_cases,
                                    .flops = glu_flops};

const loam_op_def loam_op_swiglu_back = {.name = "SWIGLU_BACK",
                                         .reference = swiglu_back_reference,
                                         .cases = swiglu_back_cases,
                                         .flops = glu_flops};

const loam_op_def loam_op_geglu = {.name = "GEGLU",
                                   .reference = geglu_reference,
                                   .backward = glu_backward,
                                   .cases = geglu_cases,
                                   .flops = glu_flops};

const loam_op_def loam_op_geglu_back = {.name = "GEGLU_BACK",
                                        .reference = geglu_back_reference,
                                        .cases = geglu_back_cases,
                                        .flops = glu_flops};
