/* view.c: VIEW, RESHAPE, PERMUTE, TRANSPOSE. Nothing is computed: the result shares its source's
 * storage and says in ne and nb how to read it.
 *
 *   VIEW       a, ne, nb, offset   element i of the result lies at offset + sum_d i_d nb_d bytes
 *                                  from a's first byte
 *   RESHAPE    a dense, ne         the same elements in the same order in another shape
 *   PERMUTE    a, axis             dimension i of a becomes dimension axis[i]
 *   TRANSPOSE  a                   dimensions 0 and 1 swapped
 *
 * Backward: VIEW adds dy into zeros of a's shape (ACC into FILL 0), which needs a dense a and a
 * view that shows no byte twice; the others turn dy back the same way. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

#include <string.h>

/* ---- VIEW --------------------------------------------------------------------------------- */

/* Bytes from the first to past the last of a view; false where the number does not fit. */
static bool view_span(const loam_type_info *type, const int64_t ne[LOAM_MAX_DIMS],
                      const size_t nb[LOAM_MAX_DIMS], size_t *out)
{
    size_t span = type->block_bytes;
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        int64_t steps = d == 0 ? ne[0] / type->block_ne : ne[d];
        size_t reach;
        if (!loam_size_mul((size_t)(steps - 1), nb[d], &reach) ||
            !loam_size_add(span, reach, &span))
            return false;
    }
    *out = span;
    return true;
}

loam_node *loam_view(loam_graph *g, loam_node *a, const int64_t ne[LOAM_MAX_DIMS],
                     const size_t nb[LOAM_MAX_DIMS], size_t offset_bytes)
{
    if (!a)
        return NULL;
    const loam_type_info *type = loam_type_get((int)a->t.type);
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        if (ne[d] < 1)
            return loam_graph_fail(g, LOAM_E_USAGE, "VIEW of %s: ne%d is %lld; it must be positive",
                                   loam_operand(a).text, d, (long long)ne[d]);
    if (type->block_ne > 1 && (ne[0] % type->block_ne != 0 || nb[0] != type->block_bytes ||
                               offset_bytes % type->block_bytes != 0))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "VIEW of %s: ne0 %lld at byte %zu in steps of %zu does not show "
                               "whole blocks (%lld elements, %zu bytes)",
                               loam_operand(a).text, (long long)ne[0], offset_bytes, nb[0],
                               (long long)type->block_ne, type->block_bytes);
    size_t end;
    if (!view_span(type, ne, nb, &end) || !loam_size_add(end, offset_bytes, &end) ||
        end > loam_tensor_bytes(&a->t))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "VIEW of %s: [%lld, %lld, %lld, %lld] at byte %zu reaches past the "
                               "source's %zu bytes",
                               loam_operand(a).text, (long long)ne[0], (long long)ne[1],
                               (long long)ne[2], (long long)ne[3], offset_bytes,
                               loam_tensor_bytes(&a->t));
    loam_node *n = loam_node_view(g, LOAM_OP_VIEW, a, a->t.type, ne, nb, offset_bytes, 1, &a);
    if (n)
        n->params.acc.offset_bytes =
            offset_bytes; /* from a, where the node's own is from the root */
    return n;
}

static void view_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_node *a = n->src[0];
    if (!loam_is_contiguous(&a->t)) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED,
                        "VIEW (node '%s') of %s, which is not dense, has no backward: make the "
                        "source dense with CONT first",
                        n->name, loam_operand(a).text);
        return;
    }
    /* The gradient may be of another type than a: strides count elements, not bytes. */
    size_t from = loam_type_get((int)a->t.type)->block_bytes;
    size_t to = loam_type_get((int)dy->t.type)->block_bytes;
    size_t nb[LOAM_MAX_DIMS];
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        nb[d] = n->t.nb[d] / from * to;
    loam_node *zeros = loam_fill_new(g, dy->t.type, a->t.ne, 0.0f);
    loam_grad_add(g, a, loam_acc(g, zeros, dy, nb, n->params.acc.offset_bytes / from * to));
}

const loam_op_def loam_op_view = {.name = "VIEW", .is_view = true, .backward = view_backward};

/* ---- RESHAPE ------------------------------------------------------------------------------ */

loam_node *loam_reshape(loam_graph *g, loam_node *a, const int64_t ne[LOAM_MAX_DIMS])
{
    if (!a)
        return NULL;
    if (!loam_is_contiguous(&a->t))
        return loam_graph_fail(
            g, LOAM_E_USAGE, "RESHAPE of %s (node '%s'), which is not dense: make it so with CONT",
            loam_operand(a).text, a->name);
    int64_t elements = 1;
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        elements *= ne[d];
    if (elements != loam_tensor_ne(&a->t) || ne[0] % loam_type_get((int)a->t.type)->block_ne != 0)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "RESHAPE of %s to [%lld, %lld, %lld, %lld]: the number of elements "
                               "must stay, and rows must be whole blocks",
                               loam_operand(a).text, (long long)ne[0], (long long)ne[1],
                               (long long)ne[2], (long long)ne[3]);
    size_t nb[LOAM_MAX_DIMS];
    loam_dense_strides(a->t.type, ne, nb);
    return loam_node_view(g, LOAM_OP_RESHAPE, a, a->t.type, ne, nb, 0, 1, &a);
}

loam_node *loam_reshape_2d(loam_graph *g, loam_node *a, int64_t ne0, int64_t ne1)
{
    return loam_reshape(g, a, (int64_t[]){ne0, ne1, 1, 1});
}

loam_node *loam_reshape_3d(loam_graph *g, loam_node *a, int64_t ne0, int64_t ne1, int64_t ne2)
{
    return loam_reshape(g, a, (int64_t[]){ne0, ne1, ne2, 1});
}

static void reshape_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_node *dense = loam_is_contiguous(&dy->t) ? dy : loam_cont(g, dy);
    loam_grad_add(g, n->src[0], loam_reshape(g, dense, n->src[0]->t.ne));
}

const loam_op_def loam_op_reshape = {
    .name = "RESHAPE", .is_view = true, .backward = reshape_backward};

/* ---- PERMUTE and TRANSPOSE ---------------------------------------------------------------- */

static loam_node *permuted(loam_graph *g, loam_op op, loam_node *a,
                           const int32_t axis[LOAM_MAX_DIMS])
{
    const loam_type_info *type = loam_type_get((int)a->t.type);
    int64_t ne[LOAM_MAX_DIMS] = {0};
    size_t nb[LOAM_MAX_DIMS] = {0};
    unsigned seen = 0;
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        if (axis[d] >= 0 && axis[d] < LOAM_MAX_DIMS)
            seen |= 1u << axis[d];
    if (seen != 15u)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "PERMUTE: axes (%d, %d, %d, %d) are no permutation of 0 to 3",
                               axis[0], axis[1], axis[2], axis[3]);
    if (type->block_ne > 1 && axis[0] != 0)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "%s of %s: the rows of a block type cannot be taken apart",
                               loam_op_get(op)->name, loam_operand(a).text);
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        ne[axis[d]] = a->t.ne[d];
        nb[axis[d]] = a->t.nb[d];
    }
    loam_node *n = loam_node_view(g, op, a, a->t.type, ne, nb, 0, 1, &a);
    if (n)
        memcpy(n->params.permute.axis, axis, sizeof n->params.permute.axis);
    return n;
}

loam_node *loam_permute(loam_graph *g, loam_node *a, int axis0, int axis1, int axis2, int axis3)
{
    return a ? permuted(g, LOAM_OP_PERMUTE, a, (int32_t[]){axis0, axis1, axis2, axis3}) : NULL;
}

loam_node *loam_transpose(loam_graph *g, loam_node *a)
{
    return a ? permuted(g, LOAM_OP_TRANSPOSE, a, (int32_t[]){1, 0, 2, 3}) : NULL;
}

static void permute_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    int back[LOAM_MAX_DIMS];
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        back[n->params.permute.axis[d]] = d;
    loam_grad_add(g, n->src[0], loam_permute(g, dy, back[0], back[1], back[2], back[3]));
}

const loam_op_def loam_op_permute = {
    .name = "PERMUTE", .is_view = true, .backward = permute_backward};

static void transpose_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_grad_add(g, n->src[0], loam_transpose(g, dy));
}

const loam_op_def loam_op_transpose = {
    .name = "TRANSPOSE", .is_view = true, .backward = transpose_backward};
