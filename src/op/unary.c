/* unary.c: what SILU and GELU share. */
#include "op/unary.h"
#include "op/check.h"
#include "op/layout.h"

loam_node *loam_unary(loam_graph *g, loam_op op, loam_node *x)
{
    if (!x)
        return NULL;
    if (!loam_is_float(x->t.type))
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED, "%s of %s: x must have a float type",
                               loam_op_get(op)->name, loam_operand(x).text);
    return loam_node_new(g, op, x->t.type, x->t.ne, 1, &x);
}

loam_node *loam_unary_back(loam_graph *g, loam_op op, loam_node *dy, loam_node *x)
{
    if (!dy || !x)
        return NULL;
    if (!loam_is_float(dy->t.type) || !loam_is_float(x->t.type) || !loam_same_shape(&dy->t, &x->t))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "%s of dy %s and x %s: both must be float types of one shape",
                               loam_op_get(op)->name, loam_operand(dy).text, loam_operand(x).text);
    return loam_node_new(g, op, dy->t.type, x->t.ne, 2, (loam_node *[]){dy, x});
}

void loam_unary_apply(const loam_node *n, double (*value)(double))
{
    const loam_tensor *x = &n->src[0]->t;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++)
        for (int64_t i = 0; i < x->ne[0]; i++)
            loam_set_at(&n->t, i, loam_row_at(x, r), value(loam_get_at(x, i, loam_row_at(x, r))));
}

void loam_unary_back_apply(const loam_node *n, double (*slope)(double))
{
    const loam_tensor *dy = &n->src[0]->t, *x = &n->src[1]->t;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++) {
        const loam_row at = loam_row_at(x, r);
        for (int64_t i = 0; i < x->ne[0]; i++)
            loam_set_at(&n->t, i, at, loam_get_at(dy, i, at) * slope(loam_get_at(x, i, at)));
    }
}

/* ---- cases -------------------------------------------------------------------------------- */

/* p: ne, layout of x, layout of dy, whether the op is a back; f: spread of x. */
static loam_node *build(loam_graph *g, const loam_case *c)
{
    loam_node *x = loam_case_laid_out(g, c->type, c->p, (loam_layout)c->p[4], LOAM_FILL_NORMAL,
                                      c->f[0], 0, c->check_grad);
    if (!c->p[6])
        return loam_unary(g, c->op, x);
    loam_node *dy =
        loam_case_laid_out(g, c->type, c->p, (loam_layout)c->p[5], LOAM_FILL_NORMAL, 1, 0, false);
    return loam_unary_back(g, c->op, dy, x);
}

static void cases_of(loam_case_list *list, loam_op op, bool is_back)
{
    static const int64_t shapes[][4] = {
        {64, 5, 4, 3}, {1, 1, 1, 1}, {1025, 3, 1, 1}, {5120, 16, 1, 1}};
    static const float spreads[] = {2.0f, 40.0f}; /* the second saturates exp and tanh */
    for (int s = 0; s < LOAM_COUNT(shapes); s++)
        for (int k = 0; k < LOAM_COUNT(spreads); k++)
            for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++) {
                const int64_t *ne = shapes[s];
                if (s > 0 && layout > 0)
                    continue;
                int dy_layout = is_back ? (layout + k) % LOAM_LAYOUT_COUNT : layout;
                loam_case *c = loam_case_add(
                    list, op, LOAM_TYPE_F32, build, "f32 [%lld,%lld,%lld,%lld] %s%s%s, spread %g",
                    (long long)ne[0], (long long)ne[1], (long long)ne[2], (long long)ne[3],
                    loam_layout_name((loam_layout)layout), is_back ? ", dy " : "",
                    is_back ? loam_layout_name((loam_layout)dy_layout) : "", (double)spreads[k]);
                for (int d = 0; d < LOAM_MAX_DIMS; d++)
                    c->p[d] = ne[d];
                c->p[4] = layout;
                c->p[5] = dy_layout;
                c->p[6] = is_back;
                c->f[0] = spreads[k];
                c->check_grad = !is_back && k == 0 && s < 2;
            }
}

void loam_unary_cases(loam_case_list *list, loam_op op)
{
    cases_of(list, op, false);
}

void loam_unary_back_cases(loam_case_list *list, loam_op op)
{
    cases_of(list, op, true);
}
