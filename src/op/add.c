/* add.c: ADD, y = a + b
 *
 *   a [n0, n1, n2, n3]  a float type, any strides
 *   b                   a float type, any strides; repeats over a (every ne divides a's)
 *   y                   a's shape and type, dense; in place: a's storage
 *
 * Backward: da = dy, db = dy summed over the repetitions (REPEAT_BACK). The in-place form has none:
 * what it overwrote may be needed. */
#include "op/binary.h"
#include "op/layout.h"
#include "op/op_def.h"

#include <string.h>

loam_node *loam_add(loam_graph *g, loam_node *a, loam_node *b)
{
    if (!a || !b || !loam_binary_check(g, "ADD", a, b))
        return NULL;
    return loam_node_new(g, LOAM_OP_ADD, a->t.type, a->t.ne, 2, (loam_node *[]){a, b});
}

loam_node *loam_add_inplace(loam_graph *g, loam_node *a, loam_node *b)
{
    if (!a || !b || !loam_binary_check(g, "ADD", a, b))
        return NULL;
    return loam_node_view(g, LOAM_OP_ADD, a, a->t.type, a->t.ne, a->t.nb, 0, 2,
                          (loam_node *[]){a, b});
}

static loam_status add_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *a = &n->src[0]->t, *b = &n->src[1]->t;
    for (int64_t r = 0; r < loam_tensor_rows(a); r++) {
        const loam_row at = loam_row_at(a, r), of_b = loam_row_repeated(b, at);
        for (int64_t i = 0; i < a->ne[0]; i++)
            loam_set_at(&n->t, i, at, loam_get_at(a, i, at) + loam_get_at(b, i % b->ne[0], of_b));
    }
    return LOAM_OK;
}

static void add_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->view_of) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED,
                        "ADD in place (node '%s') has no backward: use the form that makes a new "
                        "tensor",
                        n->name);
        return;
    }
    loam_grad_add(g, n->src[0], dy);
    if (n->src[1]->needs_grad)
        loam_grad_add(g, n->src[1], loam_binary_reduce(g, dy, n->src[1]));
}

static loam_node *build_add(loam_graph *g, const loam_case *c)
{
    loam_node *a, *b;
    loam_binary_operands(g, c, &a, &b);
    return c->p[LOAM_BINARY_IN_PLACE] ? loam_add_inplace(g, a, b) : loam_add(g, a, b);
}

static void add_cases(loam_case_list *list)
{
    const int64_t whole[] = {10, 6, 4, 2}, row[] = {10, 1, 1, 1};
    loam_binary_cases(list, LOAM_OP_ADD, build_add);
    for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++)
        for (int repeated = 0; repeated < 2; repeated++) {
            loam_case *c = loam_binary_case(list, LOAM_OP_ADD, LOAM_TYPE_F32, LOAM_TYPE_F32, whole,
                                            repeated ? row : whole, layout,
                                            (layout + 1) % LOAM_LAYOUT_COUNT, build_add);
            size_t length = strlen(c->label);
            snprintf(c->label + length, sizeof c->label - length, ", in place");
            c->p[LOAM_BINARY_IN_PLACE] = 1;
        }
}

const loam_op_def loam_op_add = {
    .name = "ADD", .reference = add_reference, .backward = add_backward, .cases = add_cases};
