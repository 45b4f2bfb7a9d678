/* fill.c: FILL, y = value everywhere; no source, y dense of any float type.
 * Nothing flows back: it depends on nothing. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

loam_node *loam_fill_new(loam_graph *g, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                         float value)
{
    if (!loam_is_float(type))
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED,
                               "FILL of type %s: only float types are filled",
                               loam_type_get((int)type) ? loam_type_name(type) : "unknown");
    loam_node *n = loam_node_new(g, LOAM_OP_FILL, type, ne, 0, NULL);
    if (n)
        n->params.fill.value = value;
    return n;
}

loam_node *loam_fill_inplace(loam_graph *g, loam_node *a, float value)
{
    if (!a)
        return NULL;
    if (!loam_is_float(a->t.type) || a->needs_grad)
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED,
                               "FILL in place of '%s' (%s): only float types without a gradient",
                               a->name, loam_type_name(a->t.type));
    loam_node *n = loam_node_view(g, LOAM_OP_FILL, a, a->t.type, a->t.ne, a->t.nb, 0, 1, &a);
    if (n)
        n->params.fill.value = value;
    return n;
}

static loam_status fill_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    for (int64_t r = 0; r < loam_tensor_rows(&n->t); r++)
        for (int64_t i = 0; i < n->t.ne[0]; i++)
            loam_set_at(&n->t, i, loam_row_at(&n->t, r), n->params.fill.value);
    return LOAM_OK;
}

static loam_node *build_fill(loam_graph *g, const loam_case *c)
{
    loam_type type = c->type == LOAM_TYPE_F32 ? g->activation : c->type;
    return loam_fill_new(g, type, c->p, c->f[0]);
}

static void fill_cases(loam_case_list *list)
{
    static const loam_type types[] = {LOAM_TYPE_F32, LOAM_TYPE_F16, LOAM_TYPE_BF16};
    static const int64_t shapes[][4] = {{1, 1, 1, 1}, {7, 5, 3, 2}, {5120, 77, 1, 1}};
    static const float values[] = {0.0f, -1.5f};
    for (int type = 0; type < LOAM_COUNT(types); type++)
        for (int s = 0; s < LOAM_COUNT(shapes); s++)
            for (int v = 0; v < LOAM_COUNT(values); v++) {
                const int64_t *ne = shapes[s];
                loam_case *c = loam_case_add(
                    list, LOAM_OP_FILL, types[type], build_fill, "%s [%lld,%lld,%lld,%lld] %g",
                    loam_type_name(types[type]), (long long)ne[0], (long long)ne[1],
                    (long long)ne[2], (long long)ne[3], (double)values[v]);
                for (int d = 0; d < LOAM_MAX_DIMS; d++)
                    c->p[d] = ne[d];
                c->f[0] = values[v];
                c->bar = 0;
            }
}

const loam_op_def loam_op_fill = {.name = "FILL", .reference = fill_reference, .cases = fill_cases};
