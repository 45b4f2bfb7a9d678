/* repeat.c: REPEAT and REPEAT_BACK; float types in any strides, the result of the source's type.
 *
 *   REPEAT       a, ne (multiples of a's): y[i0, i1, i2, i3] = a[i0 % a0, i1 % a1, ...]
 *   REPEAT_BACK  a, ne (divisors of a's):  y[j] = the sum of a[i] over all i that are j modulo ne
 *
 * Each is the other's backward. The _into forms write over a tensor that is there already. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

static bool check_repeat(loam_graph *g, loam_op op, const loam_node *a,
                         const int64_t ne[LOAM_MAX_DIMS])
{
    if (!loam_is_float(a->t.type)) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED, "%s of %s: only float types are repeated",
                        loam_op_get(op)->name, loam_operand(a).text);
        return false;
    }
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        int64_t large = op == LOAM_OP_REPEAT ? ne[d] : a->t.ne[d];
        int64_t small = op == LOAM_OP_REPEAT ? a->t.ne[d] : ne[d];
        if (small < 1 || large < 1 || large % small != 0) {
            loam_graph_fail(
                g, LOAM_E_USAGE,
                "%s of %s to [%lld, %lld, %lld, %lld]: ne%d %lld is no multiple of %lld",
                loam_op_get(op)->name, loam_operand(a).text, (long long)ne[0], (long long)ne[1],
                (long long)ne[2], (long long)ne[3], d, (long long)large, (long long)small);
            return false;
        }
    }
    return true;
}

static loam_node *repeated(loam_graph *g, loam_op op, loam_node *a, const int64_t ne[LOAM_MAX_DIMS])
{
    if (!a || !check_repeat(g, op, a, ne))
        return NULL;
    return loam_node_new(g, op, a->t.type, ne, 1, &a);
}

static loam_node *repeated_into(loam_graph *g, loam_op op, loam_node *a, loam_node *dst)
{
    if (!a || !dst || !check_repeat(g, op, a, dst->t.ne))
        return NULL;
    if (dst->t.type != a->t.type || dst->needs_grad ||
        !loam_strides_are_disjoint(dst->t.ne, dst->t.nb,
                                   loam_type_get((int)dst->t.type)->block_bytes))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "%s of %s into %s: the target must have the source's type, need no "
                               "gradient and show no byte twice",
                               loam_op_get(op)->name, loam_operand(a).text, loam_operand(dst).text);
    return loam_node_view(g, op, dst, dst->t.type, dst->t.ne, dst->t.nb, 0, 2,
                          (loam_node *[]){a, dst});
}

loam_node *loam_repeat(loam_graph *g, loam_node *a, const int64_t ne[LOAM_MAX_DIMS])
{
    return repeated(g, LOAM_OP_REPEAT, a, ne);
}

loam_node *loam_repeat_back(loam_graph *g, loam_node *a, const int64_t ne[LOAM_MAX_DIMS])
{
    return repeated(g, LOAM_OP_REPEAT_BACK, a, ne);
}

loam_node *loam_repeat_into(loam_graph *g, loam_node *a, loam_node *dst)
{
    return repeated_into(g, LOAM_OP_REPEAT, a, dst);
}

loam_node *loam_repeat_back_into(loam_graph *g, loam_node *a, loam_node *dst)
{
    return repeated_into(g, LOAM_OP_REPEAT_BACK, a, dst);
}

/* ---- references and backward -------------------------------------------------------------- */

static loam_status repeat_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *a = &n->src[0]->t, *y = &n->t;
    for (int64_t r = 0; r < loam_tensor_rows(y); r++) {
        const loam_row to = loam_row_at(y, r), from = loam_row_repeated(a, to);
        for (int64_t i = 0; i < y->ne[0]; i++)
            loam_set_at(y, i, to, loam_get_at(a, i % a->ne[0], from));
    }
    return LOAM_OK;
}

/* The sum of all tiles of a at place (i0, at) of a tile of y's shape. */
static double sum_of_tiles(const loam_tensor *a, const loam_tensor *y, int64_t i0, loam_row at)
{
    double sum = 0;
    for (int64_t i3 = at.i3; i3 < a->ne[3]; i3 += y->ne[3])
        for (int64_t i2 = at.i2; i2 < a->ne[2]; i2 += y->ne[2])
            for (int64_t i1 = at.i1; i1 < a->ne[1]; i1 += y->ne[1])
                for (int64_t i = i0; i < a->ne[0]; i += y->ne[0])
                    sum += loam_get(a, i, i1, i2, i3);
    return sum;
}

static loam_status repeat_back_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *a = &n->src[0]->t, *y = &n->t;
    for (int64_t r = 0; r < loam_tensor_rows(y); r++)
        for (int64_t i = 0; i < y->ne[0]; i++)
            loam_set_at(y, i, loam_row_at(y, r), sum_of_tiles(a, y, i, loam_row_at(y, r)));
    return LOAM_OK;
}

static void repeat_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], loam_repeat_back(g, dy, n->src[0]->t.ne));
}

static void repeat_back_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], loam_repeat(g, dy, n->src[0]->t.ne));
}

static double repeat_back_flops(const loam_node *n)
{
    return (double)loam_tensor_ne(&n->src[0]->t);
}

/* ---- cases -------------------------------------------------------------------------------- */

enum { P_FROM_NE = 0, P_TO_NE = 4, P_LAYOUT = 8, P_TO_LAYOUT = 9 };

/* p: the source's ne, the result's ne, the source's layout, the target's layout or -1 for none. */
static loam_node *build_repeat(loam_graph *g, const loam_case *c)
{
    loam_node *a = loam_case_laid_out(g, c->type, c->p + P_FROM_NE, (loam_layout)c->p[P_LAYOUT],
                                      LOAM_FILL_NORMAL, 1, 0, c->check_grad);
    if (c->p[P_TO_LAYOUT] < 0)
        return repeated(g, c->op, a, c->p + P_TO_NE);
    loam_node *dst = loam_case_laid_out(g, c->type, c->p + P_TO_NE, (loam_layout)c->p[P_TO_LAYOUT],
                                        LOAM_FILL_NORMAL, 1, 0, false);
    return repeated_into(g, c->op, a, dst);
}

static void add_case(loam_case_list *list, loam_op op, loam_type type, const int64_t small[4],
                     const int64_t large[4], int layout, int to_layout)
{
    const int64_t *from = op == LOAM_OP_REPEAT ? small : large;
    const int64_t *to = op == LOAM_OP_REPEAT ? large : small;
    loam_case *c = loam_case_add(
        list, op, type, build_repeat, "%s [%lld,%lld,%lld,%lld] %s -> [%lld,%lld,%lld,%lld]%s%s",
        loam_type_name(type), (long long)from[0], (long long)from[1], (long long)from[2],
        (long long)from[3], loam_layout_name((loam_layout)layout), (long long)to[0],
        (long long)to[1], (long long)to[2], (long long)to[3], to_layout < 0 ? "" : " into ",
        to_layout < 0 ? "" : loam_layout_name((loam_layout)to_layout));
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        c->p[P_FROM_NE + d] = from[d];
        c->p[P_TO_NE + d] = to[d];
    }
    c->p[P_LAYOUT] = layout;
    c->p[P_TO_LAYOUT] = to_layout;
    c->check_grad = type == LOAM_TYPE_F32 && to_layout < 0 && large[0] < 100;
    if (op == LOAM_OP_REPEAT)
        c->bar = 0;
}

static void cases_of(loam_case_list *list, loam_op op)
{
    const int64_t small[] = {8, 6, 4, 2};
    /* x1; x2 on each axis; x2 on all; x3 on all. */
    for (int mode = 0; mode < 7; mode++) {
        int64_t large[LOAM_MAX_DIMS];
        for (int d = 0; d < LOAM_MAX_DIMS; d++)
            large[d] = small[d] * (mode == 6 ? 3 : mode == 5 || mode == d + 1 ? 2 : 1);
        for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++) {
            add_case(list, op, LOAM_TYPE_F32, small, large, layout, -1);
            if (layout > 0)
                add_case(list, op, LOAM_TYPE_F32, small, large, LOAM_LAYOUT_DENSE, layout);
            if (layout > 0)
                add_case(list, op, LOAM_TYPE_F32, small, large,
                         layout % (LOAM_LAYOUT_COUNT - 1) + 1, layout);
        }
    }
    const int64_t bias[] = {5120, 1, 1, 1}, model[] = {5120, 77, 1, 1}, one[] = {1, 1, 1, 1};
    const int64_t grouped[] = {64, 1, 5, 1}, heads[] = {64, 4, 5, 1}, odd[] = {1023, 7, 1, 1};
    add_case(list, op, LOAM_TYPE_F32, bias, model, LOAM_LAYOUT_DENSE, -1);
    add_case(list, op, LOAM_TYPE_F32, one, odd, LOAM_LAYOUT_DENSE, -1);
    add_case(list, op, LOAM_TYPE_F32, grouped, heads, LOAM_LAYOUT_DENSE, -1);
    add_case(list, op, LOAM_TYPE_F16, grouped, heads, LOAM_LAYOUT_DENSE, -1);
    add_case(list, op, LOAM_TYPE_BF16, grouped, heads, LOAM_LAYOUT_DENSE, -1);
}

static void repeat_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_REPEAT);
}

static void repeat_back_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_REPEAT_BACK);
}

const loam_op_def loam_op_repeat = {.name = "REPEAT",
                                    .reference = repeat_reference,
                                    .backward = repeat_backward,
                                    .cases = repeat_cases};

const loam_op_def loam_op_repeat_back = {.name = "REPEAT_BACK",
                                         .reference = repeat_back_reference,
                                         .backward = repeat_back_backward,
                                         .cases = repeat_back_cases,
                                         .flops = repeat_back_flops};
