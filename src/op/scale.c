/* scale.c: SCALE, y = x * scale + bias; x of a float type in any strides, y dense of its type.
 * Backward: dx = dy * scale. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

loam_node *loam_scale(loam_graph *g, loam_node *a, float scale)
{
    if (!a)
        return NULL;
    if (!loam_is_float(a->t.type))
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED, "SCALE of %s: only float types are scaled",
                               loam_operand(a).text);
    loam_node *n = loam_node_new(g, LOAM_OP_SCALE, a->t.type, a->t.ne, 1, &a);
    if (n)
        n->params.scale.scale = scale;
    return n;
}

static loam_status scale_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *x = &n->src[0]->t;
    const double scale = n->params.scale.scale, bias = n->params.scale.bias;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++) {
        const loam_row at = loam_row_at(x, r);
        for (int64_t i = 0; i < x->ne[0]; i++)
            loam_set_at(&n->t, i, at, loam_get_at(x, i, at) * scale + bias);
    }
    return LOAM_OK;
}

static void scale_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], loam_scale(g, dy, n->params.scale.scale));
}

/* p: ne, layout; f: scale, bias. */
static loam_node *build_scale(loam_graph *g, const loam_case *c)
{
    loam_node *n = loam_scale(g,
                              loam_case_laid_out(g, c->type, c->p, (loam_layout)c->p[4],
                                                 LOAM_FILL_NORMAL, 1, 0, c->check_grad),
                              c->f[0]);
    if (n)
        n->params.scale.bias = c->f[1];
    return n;
}

static void scale_cases(loam_case_list *list)
{
    static const loam_type types[] = {LOAM_TYPE_F32, LOAM_TYPE_F16, LOAM_TYPE_BF16};
    static const int64_t shapes[][4] = {{10, 5, 4, 3}, {1, 1, 1, 1}, {5120, 77, 1, 1}};
    static const float scales[][2] = {{0.125f, 0.0f}, {-3.0f, 0.75f}, {0.0f, 0.0f}};
    for (int type = 0; type < LOAM_COUNT(types); type++)
        for (int s = 0; s < LOAM_COUNT(shapes); s++)
            for (int k = 0; k < LOAM_COUNT(scales); k++)
                for (int layout = 0; layout < LOAM_LAYOUT_COUNT; layout++) {
                    const int64_t *ne = shapes[s];
                    if ((s > 0 || type > 0 || k > 1) && layout != s + k)
                        continue;
                    loam_case *c = loam_case_add(
                        list, LOAM_OP_SCALE, types[type], build_scale,
                        "%s [%lld,%lld,%lld,%lld] %s, * %g + %g", loam_type_name(types[type]),
                        (long long)ne[0], (long long)ne[1], (long long)ne[2], (long long)ne[3],
                        loam_layout_name((loam_layout)layout), (double)scales[k][0],
                        (double)scales[k][1]);
                    for (int d = 0; d < LOAM_MAX_DIMS; d++)
                        c->p[d] = ne[d];
                    c->p[4] = layout;
                    c->f[0] = scales[k][0];
                    c->f[1] = scales[k][1];
                    c->check_grad = type == 0 && s == 0 && k < 2;
                }
}

const loam_op_def loam_op_scale = {.name = "SCALE",
                                   .reference = scale_reference,
                                   .backward = scale_backward,
                                   .cases = scale_cases};
