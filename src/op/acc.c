/* acc.c: ACC, a dense copy of a in which b is added to the elements that a view shows.
 *
 *   a [any shape]  a float type, any strides
 *   b [any shape]  a float type, any strides; element i lands offset + sum_d i_d nb_d bytes into
 *                  the result, which has a's type and shape and is dense
 *
 * The view must not show a byte twice. Backward: da = dy, db = the view of dy. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

#include <string.h>

loam_node *loam_acc(loam_graph *g, loam_node *a, loam_node *b, const size_t nb[LOAM_MAX_DIMS],
                    size_t offset_bytes)
{
    if (!a || !b)
        return NULL;
    if (!loam_is_float(a->t.type) || !loam_is_float(b->t.type))
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED, "ACC of %s into %s: both must be float types",
                               loam_operand(b).text, loam_operand(a).text);
    size_t size = loam_type_get((int)a->t.type)->block_bytes;
    size_t end = offset_bytes + size;
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        if (nb[d] % size != 0 || offset_bytes % size != 0)
            return loam_graph_fail(g, LOAM_E_USAGE,
                                   "ACC into %s: stride %d of %zu bytes, or the offset of %zu, is "
                                   "no multiple of the element's %zu",
                                   loam_operand(a).text, d, nb[d], offset_bytes, size);
        end += nb[d] * (size_t)(b->t.ne[d] - 1);
    }
    if (end > size * (size_t)loam_tensor_ne(&a->t))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "ACC of %s into %s at byte %zu ends at byte %zu, past the end",
                               loam_operand(b).text, loam_operand(a).text, offset_bytes, end);
    if (!loam_strides_are_disjoint(b->t.ne, nb, size))
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED,
                               "ACC of %s into %s: the view shows some elements twice",
                               loam_operand(b).text, loam_operand(a).text);
    loam_node *n = loam_node_new(g, LOAM_OP_ACC, a->t.type, a->t.ne, 2, (loam_node *[]){a, b});
    if (n) {
        memcpy(n->params.acc.nb, nb, sizeof n->params.acc.nb);
        n->params.acc.offset_bytes = offset_bytes;
    }
    return n;
}

static loam_status acc_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *a = &n->src[0]->t, *b = &n->src[1]->t;
    for (int64_t r = 0; r < loam_tensor_rows(a); r++)
        for (int64_t i = 0; i < a->ne[0]; i++)
            loam_set_at(&n->t, i, loam_row_at(a, r), loam_get_at(a, i, loam_row_at(a, r)));
    loam_tensor view = *b;
    view.type = n->t.type;
    view.data = (char *)n->t.data + n->params.acc.offset_bytes;
    memcpy(view.nb, n->params.acc.nb, sizeof view.nb);
    for (int64_t r = 0; r < loam_tensor_rows(b); r++) {
        const loam_row at = loam_row_at(b, r);
        for (int64_t i = 0; i < b->ne[0]; i++)
            loam_set_at(&view, i, at, loam_get_at(&view, i, at) + loam_get_at(b, i, at));
    }
    return LOAM_OK;
}

static void acc_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_grad_add(g, n->src[0], dy);
    if (!n->src[1]->needs_grad)
        return;
    size_t from = loam_type_get((int)n->t.type)->block_bytes;
    size_t to = loam_type_get((int)dy->t.type)->block_bytes;
    size_t nb[LOAM_MAX_DIMS];
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        nb[d] = n->params.acc.nb[d] / from * to;
    loam_node *dense = loam_is_contiguous(&dy->t) ? dy : loam_cont(g, dy);
    loam_grad_add(g, n->src[1],
                  loam_view(g, dense, n->src[1]->t.ne, nb, n->params.acc.offset_bytes / from * to));
}

/* ---- cases -------------------------------------------------------------------------------- */

enum { P_A_NE = 0, P_B_NE = 4, P_STRIDE = 8, P_OFFSET = 12, P_A_LAYOUT = 13, P_B_LAYOUT = 14 };

/* p: a's ne, b's ne, strides and offset in elements, layouts of a and b. */
static loam_node *build_acc(loam_graph *g, const loam_case *c)
{
    loam_node *a = loam_case_laid_out(g, c->type, c->p + P_A_NE, (loam_layout)c->p[P_A_LAYOUT],
                                      LOAM_FILL_NORMAL, 1, 0, c->check_grad);
    loam_node *b = loam_case_laid_out(g, c->type, c->p + P_B_NE, (loam_layout)c->p[P_B_LAYOUT],
                                      LOAM_FILL_NORMAL, 1, 0, c->check_grad);
    if (!a)
        return NULL;
    size_t size = loam_type_get((int)a->t.type)->block_bytes;
    size_t nb[LOAM_MAX_DIMS];
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        nb[d] = (size_t)c->p[P_STRIDE + d] * size;
    return loam_acc(g, a, b, nb, (size_t)c->p[P_OFFSET] * size);
}

static void acc_cases(loam_case_list *list)
{
    static const struct {
        const char *what;
        int64_t a[4], b[4], stride[4], offset;
    } shapes[] = {
        {"whole", {7, 5, 3, 2}, {7, 5, 3, 2}, {1, 7, 35, 105}, 0},
        {"rows from the middle", {64, 9, 1, 1}, {64, 4, 1, 1}, {1, 64, 576, 576}, 128},
        {"second half of each row", {128, 9, 2, 1}, {64, 9, 2, 1}, {1, 128, 1152, 2304}, 64},
        {"inner box", {11, 7, 5, 3}, {4, 3, 2, 2}, {1, 11, 77, 385}, 477},
        {"every other element", {20, 6, 1, 1}, {10, 3, 1, 1}, {2, 40, 120, 120}, 1},
        {"transposed view", {9, 8, 1, 1}, {8, 9, 1, 1}, {9, 1, 72, 72}, 0},
        {"one element", {5120, 3, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, 15359},
    };
    for (int s = 0; s < LOAM_COUNT(shapes); s++)
        for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++) {
            int b_layout = (layout + 1) % LOAM_LAYOUT_COUNT;
            loam_case *c = loam_case_add(
                list, LOAM_OP_ACC, LOAM_TYPE_F32, build_acc,
                "[%lld,%lld,%lld,%lld] %s + [%lld,%lld,%lld,%lld] %s, %s",
                (long long)shapes[s].a[0], (long long)shapes[s].a[1], (long long)shapes[s].a[2],
                (long long)shapes[s].a[3], loam_layout_name((loam_layout)layout),
                (long long)shapes[s].b[0], (long long)shapes[s].b[1], (long long)shapes[s].b[2],
                (long long)shapes[s].b[3], loam_layout_name((loam_layout)b_layout), shapes[s].what);
            for (int d = 0; d < LOAM_MAX_DIMS; d++) {
                c->p[P_A_NE + d] = shapes[s].a[d];
                c->p[P_B_NE + d] = shapes[s].b[d];
                c->p[P_STRIDE + d] = shapes[s].stride[d];
            }
            c->p[P_OFFSET] = shapes[s].offset;
            c->p[P_A_LAYOUT] = layout;
            c->p[P_B_LAYOUT] = b_layout;
            c->check_grad = true;
        }
}

const loam_op_def loam_op_acc = {
    .name = "ACC", .reference = acc_reference, .backward = acc_backward, .cases = acc_cases};
