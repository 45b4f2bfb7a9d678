/* gelu.c: GELU and GELU_BACK, element by element; float types in any strides, the result dense, of
 * x's shape and of the first operand's type.
 *
 *   GELU (x)           y = x/2 * (1 + t),  t = tanh(sqrt(2/pi) * (x + 0.044715 x^3))
 *   GELU_BACK (dy, x)  dx = dy * (1/2 (1 + t) + x/2 (1 - t^2) sqrt(2/pi) (1 + 3 * 0.044715 x^2))
 *
 * Backward of GELU: GELU_BACK. */
#include "op/activation.h"
#include "op/op_def.h"
#include "op/unary.h"

loam_node *loam_gelu(loam_graph *g, loam_node *x)
{
    return loam_unary(g, LOAM_OP_GELU, x);
}

loam_node *loam_gelu_back(loam_graph *g, loam_node *dy, loam_node *x)
{
    return loam_unary_back(g, LOAM_OP_GELU_BACK, dy, x);
}

static loam_status gelu_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    loam_unary_apply(n, loam_gelu_value);
    return LOAM_OK;
}

static loam_status gelu_back_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    loam_unary_back_apply(n, loam_gelu_slope);
    return LOAM_OK;
}

static void gelu_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], loam_gelu_back(g, dy, n->src[0]));
}

static void gelu_cases(loam_case_list *list)
{
    loam_unary_cases(list, LOAM_OP_GELU);
}

static void gelu_back_cases(loam_case_list *list)
{
    loam_unary_back_cases(list, LOAM_OP_GELU_BACK);
}

const loam_op_def loam_op_gelu = {
    .name = "GELU", .reference = gelu_reference, .backward = gelu_backward, .cases = gelu_cases};

const loam_op_def loam_op_gelu_back = {
    .name = "GELU_BACK", .reference = gelu_back_reference, .cases = gelu_back_cases};
