/* cpy.c: CPY and CONT.
 *
 *   CPY   a any float or block type, b a float type, as many elements, any strides: a's elements,
 *         in order (dimension 0 fastest), written over b's in order. The result is b's storage;
 *         without b (a cast) it is a new dense tensor of a's shape.
 *   CONT  a of a float type, any strides -> the same elements, dense
 *
 * Values are rounded to nearest, ties to even, where the target is narrower.
 * Backward: dy in a's shape and type; rounding counts as the identity. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

/* ---- builders ----------------------------------------------------------------------------- */

static bool check_types(loam_graph *g, const loam_node *a, loam_type to)
{
    if (!loam_is_decoded(a->t.type)) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED, "CPY of %s: only float and block types are copied",
                        loam_operand(a).text);
        return false;
    }
    if (!loam_is_float(to)) {
        loam_graph_fail(
            g, LOAM_E_UNSUPPORTED,
            "CPY of %s to %s: the target must be F32, F16, BF16 or F64; quantized types "
            "are written to files only",
            loam_operand(a).text, loam_type_get((int)to) ? loam_type_name(to) : "an unknown type");
        return false;
    }
    return true;
}

loam_node *loam_cpy(loam_graph *g, loam_node *a, loam_node *b)
{
    if (!a || !b || !check_types(g, a, b->t.type))
        return NULL;
    if (loam_tensor_ne(&a->t) != loam_tensor_ne(&b->t))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "CPY of %s to %s: both must have the same number of elements",
                               loam_operand(a).text, loam_operand(b).text);
    if (!loam_strides_are_disjoint(b->t.ne, b->t.nb, loam_type_get((int)b->t.type)->block_bytes))
        return loam_graph_fail(g, LOAM_E_USAGE, "CPY to %s: the target shows some bytes twice",
                               loam_operand(b).text);
    if (b->needs_grad)
        return loam_graph_fail(
            g, LOAM_E_USAGE, "CPY over '%s', %s: a value that needs a gradient is not overwritten",
            b->name, loam_operand(b).text);
    return loam_node_view(g, LOAM_OP_CPY, b, b->t.type, b->t.ne, b->t.nb, 0, 2,
                          (loam_node *[]){a, b});
}

loam_node *loam_cast(loam_graph *g, loam_node *a, loam_type type)
{
    loam_type to = type == LOAM_TYPE_F32 ? g->activation : type;
    if (!a || !check_types(g, a, to))
        return NULL;
    return loam_node_new(g, LOAM_OP_CPY, to, a->t.ne, 1, &a);
}

loam_node *loam_cont(loam_graph *g, loam_node *a)
{
    if (!a)
        return NULL;
    if (!loam_is_float(a->t.type))
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED, "CONT of %s: only float types are copied",
                               loam_operand(a).text);
    return loam_node_new(g, LOAM_OP_CONT, a->t.type, a->t.ne, 1, &a);
}

/* ---- reference and backward --------------------------------------------------------------- */

static loam_status cpy_reference(const loam_node *n, loam_error *e)
{
    const loam_tensor *a = &n->src[0]->t, *y = &n->t;
    double *row = loam_alloc((size_t)a->ne[0] * sizeof *row);
    if (!row)
        return loam_reference_memory(n, e);
    int64_t at = 0;
    for (int64_t r = 0; r < loam_tensor_rows(a); r++) {
        const loam_row from = loam_row_at(a, r);
        loam_get_row(a, from.i1, from.i2, from.i3, row);
        for (int64_t i = 0; i < a->ne[0]; i++, at++)
            loam_set_at(y, at % y->ne[0], loam_row_at(y, at / y->ne[0]), row[i]);
    }
    loam_free(row);
    return LOAM_OK;
}

static void cpy_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_node *a = n->src[0];
    if (!a->needs_grad)
        return;
    loam_node *d = dy;
    if (!loam_same_shape(&a->t, &dy->t)) {
        if (!loam_is_contiguous(&d->t))
            d = loam_cont(g, d);
        d = loam_reshape(g, d, a->t.ne);
    }
    if (d && d->t.type != a->t.type)
        d = loam_cast(g, d, a->t.type);
    loam_grad_add(g, a, d);
}

/* ---- cases -------------------------------------------------------------------------------- */

enum { P_NE = 0, P_TO = 4, P_LAYOUT = 5, P_TO_LAYOUT = 6, P_TO_NE = 7 };

/* p: a's ne, the target's type, a's layout, the target's layout, the target's ne. */
static loam_node *build_cpy(loam_graph *g, const loam_case *c)
{
    loam_node *a = loam_case_laid_out(g, c->type, c->p + P_NE, (loam_layout)c->p[P_LAYOUT],
                                      LOAM_FILL_NORMAL, 1, 0, c->check_grad);
    return loam_cpy(g, a,
                    loam_case_laid_out(g, (loam_type)c->p[P_TO], c->p + P_TO_NE,
                                       (loam_layout)c->p[P_TO_LAYOUT], LOAM_FILL_NORMAL, 1, 0,
                                       false));
}

static loam_node *build_cast(loam_graph *g, const loam_case *c)
{
    return loam_cast(g,
                     loam_case_laid_out(g, c->type, c->p + P_NE, (loam_layout)c->p[P_LAYOUT],
                                        LOAM_FILL_NORMAL, 1, 0, c->check_grad),
                     (loam_type)c->p[P_TO]);
}

static void add_cpy(loam_case_list *list, loam_type from, loam_type to, const int64_t ne[4],
                    loam_layout layout, const int64_t to_ne[4], loam_layout to_layout)
{
    loam_case *c = loam_case_add(
        list, LOAM_OP_CPY, from, build_cpy,
        "%s [%lld,%lld,%lld,%lld] %s -> %s [%lld,%lld,%lld,%lld] %s", loam_type_name(from),
        (long long)ne[0], (long long)ne[1], (long long)ne[2], (long long)ne[3],
        loam_layout_name(layout), loam_type_name(to), (long long)to_ne[0], (long long)to_ne[1],
        (long long)to_ne[2], (long long)to_ne[3], loam_layout_name(to_layout));
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        c->p[P_NE + d] = ne[d];
        c->p[P_TO_NE + d] = to_ne[d];
    }
    c->p[P_TO] = to;
    c->p[P_LAYOUT] = layout;
    c->p[P_TO_LAYOUT] = to_layout;
    c->bar = 0; /* a copy is a copy, and rounding is defined to the bit */
    c->check_grad = from == LOAM_TYPE_F32 && to == LOAM_TYPE_F32 && ne[0] < 100;
}

static void add_cast(loam_case_list *list, loam_type from, loam_type to, const int64_t ne[4],
                     loam_layout layout)
{
    loam_case *c =
        loam_case_add(list, LOAM_OP_CPY, from, build_cast, "cast %s -> %s [%lld,%lld,%lld,%lld] %s",
                      loam_type_name(from), loam_type_name(to), (long long)ne[0], (long long)ne[1],
                      (long long)ne[2], (long long)ne[3], loam_layout_name(layout));
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        c->p[P_NE + d] = ne[d];
    c->p[P_TO] = to;
    c->p[P_LAYOUT] = layout;
    if (!loam_type_get((int)from)->is_quantized)
        c->bar = 0;
}

static void cpy_cases(loam_case_list *list)
{
    static const loam_type plain[] = {LOAM_TYPE_F32, LOAM_TYPE_F16, LOAM_TYPE_BF16};
    static const int64_t small[] = {7, 5, 3, 2}, wide[] = {1027, 6, 2, 1},
                         blocks[] = {768, 5, 3, 1};
    static const int64_t odd[] = {12, 5, 3, 1}, other[] = {9, 20, 1, 1};
    static const int64_t model[] = {5120, 77, 1, 1}, heads[] = {64, 9, 37, 1};
    for (int from = 0; from < LOAM_COUNT(plain); from++)
        for (int to = 0; to < LOAM_COUNT(plain); to++) {
            for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++) {
                add_cpy(list, plain[from], plain[to], small, (loam_layout)layout, small,
                        LOAM_LAYOUT_DENSE);
                if (layout != LOAM_LAYOUT_DENSE)
                    add_cpy(list, plain[from], plain[to], small, LOAM_LAYOUT_DENSE, small,
                            (loam_layout)layout);
            }
            add_cpy(list, plain[from], plain[to], small, LOAM_LAYOUT_TRANSPOSED, small,
                    LOAM_LAYOUT_STRIDED);
            add_cpy(list, plain[from], plain[to], wide, LOAM_LAYOUT_DENSE, wide,
                    LOAM_LAYOUT_PERMUTED);
            add_cpy(list, plain[from], plain[to], odd, LOAM_LAYOUT_PERMUTED, other,
                    LOAM_LAYOUT_STRIDED);
            add_cast(list, plain[from], plain[to], model, LOAM_LAYOUT_DENSE);
            add_cast(list, plain[from], plain[to], wide, LOAM_LAYOUT_TRANSPOSED);
        }
    add_cpy(list, LOAM_TYPE_F32, LOAM_TYPE_F32, heads, LOAM_LAYOUT_PERMUTED, heads,
            LOAM_LAYOUT_DENSE);
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        const loam_type_info *info = loam_type_get(type);
        if (!info || !info->is_quantized || type == LOAM_TYPE_Q8_1 || type == LOAM_TYPE_Q8_K)
            continue; /* those two hold activations, never a model's weights */
        for (int to = 0; to < LOAM_COUNT(plain); to++)
            add_cast(list, (loam_type)type, plain[to], blocks, LOAM_LAYOUT_DENSE);
        add_cast(list, (loam_type)type, LOAM_TYPE_F32, blocks, LOAM_LAYOUT_PERMUTED);
    }
}

const loam_op_def loam_op_cpy = {
    .name = "CPY", .reference = cpy_reference, .backward = cpy_backward, .cases = cpy_cases};

static loam_node *build_cont(loam_graph *g, const loam_case *c)
{
    return loam_cont(g, loam_case_laid_out(g, c->type, c->p + P_NE, (loam_layout)c->p[P_LAYOUT],
                                           LOAM_FILL_NORMAL, 1, 0, c->check_grad));
}

static void cont_cases(loam_case_list *list)
{
    static const loam_type plain[] = {LOAM_TYPE_F32, LOAM_TYPE_F16, LOAM_TYPE_BF16};
    static const int64_t shapes[][4] = {
        {1, 1, 1, 1}, {7, 5, 3, 2}, {33, 65, 2, 1}, {1027, 77, 1, 1}};
    for (int type = 0; type < LOAM_COUNT(plain); type++)
        for (int s = 0; s < LOAM_COUNT(shapes); s++)
            for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++) {
                const int64_t *ne = shapes[s];
                loam_case *c = loam_case_add(
                    list, LOAM_OP_CONT, plain[type], build_cont, "%s [%lld,%lld,%lld,%lld] %s",
                    loam_type_name(plain[type]), (long long)ne[0], (long long)ne[1],
                    (long long)ne[2], (long long)ne[3], loam_layout_name((loam_layout)layout));
                for (int d = 0; d < LOAM_MAX_DIMS; d++)
                    c->p[P_NE + d] = ne[d];
                c->p[P_LAYOUT] = layout;
                c->bar = 0;
                c->check_grad = type == 0 && s < 2;
            }
}

/* CONT is a CPY whose target is new. */
const loam_op_def loam_op_cont = {
    .name = "CONT", .reference = cpy_reference, .backward = cpy_backward, .cases = cont_cases};
