/* grad_norm.c: GRAD_NORM, y = sqrt(sum of a^2 over all elements)
 *
 *   a  a float type, any shape and strides;  y [1], F32 (F64 in checks)
 *
 * CLIP_NORM, in place in a (the result is a): a <- a min(1, max_norm / norm), norm [1]. Where the
 * norm is not finite the factor is 1: the step is not taken then, and a must show why. */
#include "op/check.h"
#include "op/op_def.h"

#include <math.h>

loam_node *loam_grad_norm(loam_graph *g, loam_node *a)
{
    if (!a)
        return NULL;
    if (!loam_is_float(a->t.type))
        return loam_graph_fail(g, LOAM_E_USAGE, "GRAD_NORM: a is %s; expected a float type",
                               loam_operand(a).text);
    const int64_t ne[] = {1, 1, 1, 1};
    return loam_node_new(g, LOAM_OP_GRAD_NORM, g->activation, ne, 1, (loam_node *[]){a});
}

loam_node *loam_clip_norm(loam_graph *g, loam_node *a, loam_node *norm, float max_norm)
{
    if (!a || !norm)
        return NULL;
    if (!loam_is_float(a->t.type) || !loam_is_float(norm->t.type) ||
        loam_tensor_ne(&norm->t) != 1 || !(max_norm > 0))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "CLIP_NORM: a is %s, the norm %s and the largest norm %g; expected "
                               "float types, one norm and a positive limit",
                               loam_operand(a).text, loam_operand(norm).text, (double)max_norm);
    loam_node *n = loam_node_view(g, LOAM_OP_CLIP_NORM, a, a->t.type, a->t.ne, a->t.nb, 0, 2,
                                  (loam_node *[]){a, norm});
    if (n)
        n->params.clip.max_norm = max_norm;
    return n;
}

static loam_status grad_norm_reference(const loam_node *n, loam_error *e)
{
    const loam_tensor *a = &n->src[0]->t;
    double *row = loam_alloc((size_t)a->ne[0] * sizeof *row);
    if (!row)
        return loam_reference_memory(n, e);
    double sum = 0;
    for (int64_t i3 = 0; i3 < a->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < a->ne[2]; i2++)
            for (int64_t i1 = 0; i1 < a->ne[1]; i1++) {
                loam_get_row(a, i1, i2, i3, row);
                for (int64_t i = 0; i < a->ne[0]; i++)
                    sum += row[i] * row[i];
            }
    loam_free(row);
    loam_set(&n->t, 0, 0, 0, 0, sqrt(sum));
    return LOAM_OK;
}

static loam_status clip_norm_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    double norm = loam_get(&n->src[1]->t, 0, 0, 0, 0), largest = (double)n->params.clip.max_norm;
    if (!isfinite(norm) || norm <= largest)
        return LOAM_OK;
    double factor = largest / norm;
    for (int64_t i3 = 0; i3 < n->t.ne[3]; i3++)
        for (int64_t i2 = 0; i2 < n->t.ne[2]; i2++)
            for (int64_t i1 = 0; i1 < n->t.ne[1]; i1++)
                for (int64_t i0 = 0; i0 < n->t.ne[0]; i0++)
                    loam_set(&n->t, i0, i1, i2, i3, loam_get(&n->t, i0, i1, i2, i3) * factor);
    return LOAM_OK;
}

static const int64_t norm_shapes[][4] = {
    {10, 5, 4, 3}, {1, 1, 1, 1}, {1025, 3, 1, 1}, {16, 5120, 1, 1}, {1000003, 1, 1, 1}};

/* p: ne0 .. ne3, fill, transposed view; f: what the fill takes. */
static loam_node *build_grad_norm(loam_graph *g, const loam_case *c)
{
    loam_node *a =
        loam_case_input(g, LOAM_TYPE_F32, c->p, (loam_fill)c->p[4], (double)c->f[0], 0, false);
    return loam_grad_norm(g, c->p[5] ? loam_transpose(g, a) : a);
}

static void grad_norm_cases(loam_case_list *list)
{
    static const struct {
        const char *name;
        loam_fill fill;
        float a;
    } fills[] = {{"normal", LOAM_FILL_NORMAL, 1},
                 {"zero", LOAM_FILL_CONSTANT, 0},
                 {"huge", LOAM_FILL_NORMAL, 1e14f},
                 {"small", LOAM_FILL_NORMAL, 1e-12f},
                 {"one_huge", LOAM_FILL_HUGE_ONE, 1e6f}};
    for (int s = 0; s < LOAM_COUNT(norm_shapes); s++)
        for (int f = 0; f < LOAM_COUNT(fills); f++)
            for (int transposed = 0; transposed < 2; transposed++) {
                const int64_t *ne = norm_shapes[s];
                loam_case *c = loam_case_add(
                    list, LOAM_OP_GRAD_NORM, LOAM_TYPE_F32, build_grad_norm,
                    "type=f32,ne=[%lld,%lld,%lld,%lld],values=%s,layout=%s", (long long)ne[0],
                    (long long)ne[1], (long long)ne[2], (long long)ne[3], fills[f].name,
                    transposed ? "transposed" : "rows");
                for (int d = 0; d < LOAM_MAX_DIMS; d++)
                    c->p[d] = ne[d];
                c->p[4] = fills[f].fill;
                c->p[5] = transposed;
                c->f[0] = fills[f].a;
            }
}

/* p: ne0 .. ne3; f: the norm, the limit. */
static loam_node *build_clip_norm(loam_graph *g, const loam_case *c)
{
    const int64_t one[] = {1, 1, 1, 1};
    loam_node *a = loam_case_input(g, LOAM_TYPE_F32, c->p, LOAM_FILL_NORMAL, 1, 0, false);
    loam_node *norm =
        loam_case_input(g, LOAM_TYPE_F32, one, LOAM_FILL_CONSTANT, (double)c->f[0], 0, false);
    return loam_clip_norm(g, a, norm, c->f[1]);
}

static void clip_norm_cases(loam_case_list *list)
{
    static const float norms[][2] = {{0.25f, 1}, {1, 1},        {7, 1},   {1e14f, 1},
                                     {3, 0.01f}, {INFINITY, 1}, {NAN, 1}, {0, 1}};
    for (int s = 0; s < LOAM_COUNT(norm_shapes); s++)
        for (int i = 0; i < LOAM_COUNT(norms); i++) {
            const int64_t *ne = norm_shapes[s];
            loam_case *c =
                loam_case_add(list, LOAM_OP_CLIP_NORM, LOAM_TYPE_F32, build_clip_norm,
                              "type=f32,ne=[%lld,%lld,%lld,%lld],norm=%g,max_norm=%g",
                              (long long)ne[0], (long long)ne[1], (long long)ne[2],
                              (long long)ne[3], (double)norms[i][0], (double)norms[i][1]);
            for (int d = 0; d < LOAM_MAX_DIMS; d++)
                c->p[d] = ne[d];
            c->f[0] = norms[i][0];
            c->f[1] = norms[i][1];
        }
}

const loam_op_def loam_op_grad_norm = {
    .name = "GRAD_NORM", .reference = grad_norm_reference, .cases = grad_norm_cases};

const loam_op_def loam_op_clip_norm = {
    .name = "CLIP_NORM", .reference = clip_norm_reference, .cases = clip_norm_cases};
