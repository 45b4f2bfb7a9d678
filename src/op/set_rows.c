/* set_rows.c: SET_ROWS, a[:, ids[t]] = b[:, t], in place: the result is a.
 *
 *   a    [n, rows]      F32, F16, BF16 (a cache; F64 in checks), needs no gradient
 *   b    [n, T]         a float type, any strides
 *   ids  I64 or I32 [T] distinct, each within [0, rows)
 *
 * Backward: db = GET_ROWS(dy, ids), for I32 ids. */
#include "op/check.h"
#include "op/op_def.h"

loam_node *loam_set_rows(loam_graph *g, loam_node *a, loam_node *b, loam_node *ids)
{
    if (!a || !b || !ids)
        return NULL;
    if (!loam_is_float(a->t.type) || !loam_is_float(b->t.type) ||
        (ids->t.type != LOAM_TYPE_I32 && ids->t.type != LOAM_TYPE_I64))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "SET_ROWS: a is %s, b is %s and ids are %s; a and b must have float "
                               "types, ids i32 or i64",
                               loam_operand(a).text, loam_operand(b).text, loam_operand(ids).text);
    if (a->t.ne[0] != b->t.ne[0] || b->t.ne[1] != ids->t.ne[0] ||
        a->t.ne[2] * a->t.ne[3] * b->t.ne[2] * b->t.ne[3] != 1 || loam_tensor_rows(&ids->t) != 1)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "SET_ROWS: a is %s, b is %s and ids are %s; expected a [n, rows], b "
                               "[n, T] and ids [T]",
                               loam_operand(a).text, loam_operand(b).text, loam_operand(ids).text);
    if (a->needs_grad)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "SET_ROWS: a, %s, is overwritten, so it must not need a gradient",
                               loam_operand(a).text);
    return loam_node_view(g, LOAM_OP_SET_ROWS, a, a->t.type, a->t.ne, a->t.nb, 0, 3,
                          (loam_node *[]){a, b, ids});
}

static loam_status set_rows_reference(const loam_node *n, loam_error *e)
{
    const loam_tensor *b = &n->src[1]->t, *ids = &n->src[2]->t;
    for (int64_t t = 0; t < b->ne[1]; t++) {
        int64_t id = (int64_t)loam_get(ids, t, 0, 0, 0);
        if (id < 0 || id >= n->t.ne[1])
            return loam_fail(e, LOAM_E_USAGE,
                             "SET_ROWS (node '%s'): id %lld lies outside %lld rows", n->name,
                             (long long)id, (long long)n->t.ne[1]);
        for (int64_t i = 0; i < b->ne[0]; i++)
            loam_set(&n->t, i, id, 0, 0, loam_get(b, i, t, 0, 0));
    }
    return LOAM_OK;
}

static void set_rows_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->src[1]->needs_grad)
        loam_grad_add(g, n->src[1], loam_get_rows(g, dy, n->src[2]));
}

/* p: width, rows, T, type of ids, b transposed. */
static loam_node *build_set_rows(loam_graph *g, const loam_case *c)
{
    const int64_t *p = c->p;
    const int64_t a_ne[] = {p[0], p[1], 1, 1}, ids_ne[] = {p[2], 1, 1, 1};
    const int64_t b_ne[] = {p[4] ? p[2] : p[0], p[4] ? p[0] : p[2], 1, 1};
    bool grad = c->check_grad;
    loam_node *a = loam_case_input(g, c->type, a_ne, LOAM_FILL_NORMAL, 1, 0, false);
    loam_node *b = loam_case_input(g, LOAM_TYPE_F32, b_ne, LOAM_FILL_NORMAL, 1, 0, grad);
    loam_node *ids =
        loam_case_input(g, (loam_type)p[3], ids_ne, LOAM_FILL_PERMUTATION, 0, 0, false);
    return loam_set_rows(g, a, p[4] ? loam_transpose(g, b) : b, ids);
}

static void set_rows_cases(loam_case_list *list)
{
    static const loam_type types[] = {LOAM_TYPE_F32, LOAM_TYPE_F16, LOAM_TYPE_BF16};
    static const int64_t shapes[][3] = {{1, 8, 3},     {64, 5, 5},     {31, 40, 7},
                                        {256, 300, 1}, {1025, 77, 33}, {8, 70001, 70000}};
    for (int t = 0; t < LOAM_COUNT(types); t++)
        for (int s = 0; s < LOAM_COUNT(shapes); s++)
            for (int variant = 0; variant < 4; variant++) {
                loam_type ids = variant & 1 ? LOAM_TYPE_I64 : LOAM_TYPE_I32;
                bool transposed = variant & 2;
                loam_case *c =
                    loam_case_add(list, LOAM_OP_SET_ROWS, types[t], build_set_rows,
                                  "type=%s,n=%lld,rows=%lld,ids=%lld,type_ids=%s,layout=%s",
                                  loam_type_name(types[t]), (long long)shapes[s][0],
                                  (long long)shapes[s][1], (long long)shapes[s][2],
                                  loam_type_name(ids), transposed ? "transposed" : "rows");
                for (int i = 0; i < 3; i++)
                    c->p[i] = shapes[s][i];
                c->p[3] = ids;
                c->p[4] = transposed;
                c->check_grad = types[t] == LOAM_TYPE_F32 && ids == LOAM_TYPE_I32 &&
                                shapes[s][0] * shapes[s][2] < 1000;
            }
}

const loam_op_def loam_op_set_rows = {.name = "SET_ROWS",
                                      .reference = set_rows_reference,
                                      .backward = set_rows_backward,
                                      .cases = set_rows_cases};
