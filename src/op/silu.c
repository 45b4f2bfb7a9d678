/* silu.c: SILU and SILU_BACK, element by element; float types in any strides, the result dense, of
 * x's shape and of the first operand's type.
 *
 *   SILU (x)           y = x * sigmoid(x)
 *   SILU_BACK (dy, x)  dx = dy * s * (1 + x * (1 - s)),  s = sigmoid(x)
 *
 * Backward of SILU: SILU_BACK. */
#include "op/activation.h"
#include "op/op_def.h"
#include "op/unary.h"

loam_node *loam_silu(loam_graph *g, loam_node *x)
{
    return loam_unary(g, LOAM_OP_SILU, x);
}

loam_node *loam_silu_back(loam_graph *g, loam_node *dy, loam_node *x)
{
    return loam_unary_back(g, LOAM_OP_SILU_BACK, dy, x);
}

static loam_status silu_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    loam_unary_apply(n, loam_silu_value);
    return LOAM_OK;
}

static loam_status silu_back_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    loam_unary_back_apply(n, loam_silu_slope);
    return LOAM_OK;
}

static void silu_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], loam_silu_back(g, dy, n->src[0]));
}

static void silu_cases(loam_case_list *list)
{
    loam_unary_cases(list, LOAM_OP_SILU);
}

static void silu_back_cases(loam_case_list *list)
{
    loam_unary_back_cases(list, LOAM_OP_SILU_BACK);
}

const loam_op_def loam_op_silu = {
    .name = "SILU", .reference = silu_reference, .backward = silu_backward, .cases = silu_cases};

const loam_op_def loam_op_silu_back = {
    .name = "SILU_BACK", .reference = silu_back_reference, .cases = silu_back_cases};
