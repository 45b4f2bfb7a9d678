/* sum.c: SUM and SUM_ROWS; x of a float type in any strides, the result of its type.
 *
 *   SUM       x any shape          -> [1], the sum of all elements
 *   SUM_ROWS  x [n0, n1, n2, n3]   -> [1, n1, n2, n3], the sum of each row
 *
 * Backward: dy repeated over x's shape. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

static loam_node *summed(loam_graph *g, loam_op op, loam_node *a, const int64_t ne[LOAM_MAX_DIMS])
{
    if (!loam_is_float(a->t.type))
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED, "%s of %s: only float types are summed",
                               loam_op_get(op)->name, loam_operand(a).text);
    return loam_node_new(g, op, a->t.type, ne, 1, &a);
}

loam_node *loam_sum(loam_graph *g, loam_node *a)
{
    return a ? summed(g, LOAM_OP_SUM, a, (int64_t[]){1, 1, 1, 1}) : NULL;
}

loam_node *loam_sum_rows(loam_graph *g, loam_node *a)
{
    if (!a)
        return NULL;
    return summed(g, LOAM_OP_SUM_ROWS, a, (int64_t[]){1, a->t.ne[1], a->t.ne[2], a->t.ne[3]});
}

static double row_sum(const loam_tensor *x, loam_row at)
{
    double sum = 0;
    for (int64_t i = 0; i < x->ne[0]; i++)
        sum += loam_get_at(x, i, at);
    return sum;
}

static loam_status sum_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *x = &n->src[0]->t;
    double sum = 0;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++)
        sum += row_sum(x, loam_row_at(x, r));
    loam_set(&n->t, 0, 0, 0, 0, sum);
    return LOAM_OK;
}

static loam_status sum_rows_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *x = &n->src[0]->t;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++)
        loam_set_at(&n->t, 0, loam_row_at(x, r), row_sum(x, loam_row_at(x, r)));
    return LOAM_OK;
}

static void sum_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], loam_repeat(g, dy, n->src[0]->t.ne));
}

static double sum_flops(const loam_node *n)
{
    return (double)loam_tensor_ne(&n->src[0]->t);
}

/* p: ne, layout. */
static loam_node *build_sum(loam_graph *g, const loam_case *c)
{
    loam_node *x = loam_case_laid_out(g, c->type, c->p, (loam_layout)c->p[4], LOAM_FILL_NORMAL, 1,
                                      0.5, c->check_grad);
    return c->op == LOAM_OP_SUM ? loam_sum(g, x) : loam_sum_rows(g, x);
}

static void cases_of(loam_case_list *list, loam_op op)
{
    static const loam_type types[] = {LOAM_TYPE_F32, LOAM_TYPE_F16, LOAM_TYPE_BF16};
    static const int64_t shapes[][4] = {
        {10, 5, 4, 3}, {1, 1, 1, 1}, {1, 7, 3, 1}, {1025, 3, 1, 1}, {5120, 77, 1, 1}};
    for (int type = 0; type < LOAM_COUNT(types); type++)
        for (int s = 0; s < LOAM_COUNT(shapes); s++)
            for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++) {
                const int64_t *ne = shapes[s];
                if (type > 0 && layout > 0)
                    continue;
                loam_case *c = loam_case_add(
                    list, op, types[type], build_sum, "%s [%lld,%lld,%lld,%lld] %s",
                    loam_type_name(types[type]), (long long)ne[0], (long long)ne[1],
                    (long long)ne[2], (long long)ne[3], loam_layout_name((loam_layout)layout));
                for (int d = 0; d < LOAM_MAX_DIMS; d++)
                    c->p[d] = ne[d];
                c->p[4] = layout;
                c->check_grad = type == 0 && s < 3;
            }
}

static void sum_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_SUM);
}

static void sum_rows_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_SUM_ROWS);
}

const loam_op_def loam_op_sum = {.name = "SUM",
                                 .reference = sum_reference,
                                 .backward = sum_backward,
                                 .cases = sum_cases,
                                 .flops = sum_flops};

const loam_op_def loam_op_sum_rows = {.name = "SUM_ROWS",
                                      .reference = sum_rows_reference,
                                      .backward = sum_backward,
                                      .cases = sum_rows_cases,
                                      .flops = sum_flops};
