/* mul.c: MUL, y = a * b, element by element
 *
 *   a [n0, n1, n2, n3]  a float type, any strides
 *   b                   a float type, any strides; repeats over a (every ne divides a's)
 *   y                   a's shape and type, dense
 *
 * Backward: da = dy * b, db = dy * a summed over the repetitions (REPEAT_BACK). */
#include "op/binary.h"
#include "op/layout.h"
#include "op/op_def.h"

loam_node *loam_mul(loam_graph *g, loam_node *a, loam_node *b)
{
    if (!a || !b || !loam_binary_check(g, "MUL", a, b))
        return NULL;
    return loam_node_new(g, LOAM_OP_MUL, a->t.type, a->t.ne, 2, (loam_node *[]){a, b});
}

static loam_status mul_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *a = &n->src[0]->t, *b = &n->src[1]->t;
    for (int64_t r = 0; r < loam_tensor_rows(a); r++) {
        const loam_row at = loam_row_at(a, r), of_b = loam_row_repeated(b, at);
        for (int64_t i = 0; i < a->ne[0]; i++)
            loam_set_at(&n->t, i, at, loam_get_at(a, i, at) * loam_get_at(b, i % b->ne[0], of_b));
    }
    return LOAM_OK;
}

static void mul_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_node *a = n->src[0], *b = n->src[1];
    if (a->needs_grad)
        loam_grad_add(g, a, loam_mul(g, dy, b));
    if (b->needs_grad)
        loam_grad_add(g, b, loam_binary_reduce(g, loam_mul(g, dy, a), b));
}

static loam_node *build_mul(loam_graph *g, const loam_case *c)
{
    loam_node *a, *b;
    loam_binary_operands(g, c, &a, &b);
    return loam_mul(g, a, b);
}

static void mul_cases(loam_case_list *list)
{
    loam_binary_cases(list, LOAM_OP_MUL, build_mul);
}

const loam_op_def loam_op_mul = {
    .name = "MUL", .reference = mul_reference, .backward = mul_backward, .cases = mul_cases};
