/* out_prod.c: OUT_PROD, y[i, j] = sum_k a[i, k] b[j, k]
 *
 *   a [m, k, A2, A3]  any float or block type, rows contiguous
 *   b [n, k, B2, B3]  a float type, any strides; A2 | B2, A3 | B3
 *   y [m, n, B2, B3]  F32 (F64 in checks); batch (i2, i3) reads batch (i2/(B2/A2), i3/(B3/A3)) of a
 *   dst               where given, y is written over it, whatever its strides
 *
 * This is the backward of a product with a frozen weight: dx = OUT_PROD(W, dy'), with dy' the
 * transposed view of dy.
 *
 * Backward: da = OUT_PROD(dy, b'), summed over the batches that read the same batch of a;
 * db = MUL_MAT(a, dy) transposed. */
#include "op/check.h"
#include "op/op_def.h"
#include "op/product.h"

#include <string.h>

static bool check_out_prod(loam_graph *g, loam_node *a, loam_node *b)
{
    return a && b && loam_product_check(g, "OUT_PROD", a, 1, b, 1);
}

loam_node *loam_out_prod(loam_graph *g, loam_node *a, loam_node *b)
{
    if (!check_out_prod(g, a, b))
        return NULL;
    const int64_t ne[] = {a->t.ne[0], b->t.ne[0], b->t.ne[2], b->t.ne[3]};
    return loam_node_new(g, LOAM_OP_OUT_PROD, g->activation, ne, 2, (loam_node *[]){a, b});
}

loam_node *loam_out_prod_into(loam_graph *g, loam_node *a, loam_node *b, loam_node *dst)
{
    if (!dst || !check_out_prod(g, a, b))
        return NULL;
    const int64_t ne[] = {a->t.ne[0], b->t.ne[0], b->t.ne[2], b->t.ne[3]};
    if (dst->t.type != g->activation || memcmp(dst->t.ne, ne, sizeof ne) != 0)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "OUT_PROD: the product of a %s and b %s does not fit dst %s",
                               loam_operand(a).text, loam_operand(b).text, loam_operand(dst).text);
    if (dst->needs_grad)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "OUT_PROD: dst %s is overwritten, so it must not need a gradient",
                               loam_operand(dst).text);
    return loam_node_view(g, LOAM_OP_OUT_PROD, dst, dst->t.type, dst->t.ne, dst->t.nb, 0, 3,
                          (loam_node *[]){a, b, dst});
}

static void add_outer_products(const loam_node *n, int64_t i2, int64_t i3, double *row,
                               double *column, double *sums)
{
    const loam_tensor *a = &n->src[0]->t, *b = &n->src[1]->t;
    int64_t n_m = a->ne[0], n_n = b->ne[0];
    int64_t a2 = i2 / (b->ne[2] / a->ne[2]), a3 = i3 / (b->ne[3] / a->ne[3]);
    memset(sums, 0, (size_t)(n_m * n_n) * sizeof *sums);
    for (int64_t k = 0; k < a->ne[1]; k++) {
        loam_get_row(a, k, a2, a3, row);
        loam_get_row(b, k, i2, i3, column);
        for (int64_t j = 0; j < n_n; j++) {
            double *y = sums + j * n_m;
            double factor = column[j];
            for (int64_t i = 0; i < n_m; i++)
                y[i] += row[i] * factor;
        }
    }
    for (int64_t j = 0; j < n_n; j++)
        for (int64_t i = 0; i < n_m; i++)
            loam_set(&n->t, i, j, i2, i3, sums[j * n_m + i]);
}

static loam_status out_prod_reference(const loam_node *n, loam_error *e)
{
    size_t n_m = (size_t)n->t.ne[0], n_n = (size_t)n->t.ne[1];
    double *row = loam_alloc(n_m * sizeof *row);
    double *column = loam_alloc(n_n * sizeof *column);
    double *sums = loam_alloc(n_m * n_n * sizeof *sums);
    bool ok = row && column && sums;
    for (int64_t i3 = 0; ok && i3 < n->t.ne[3]; i3++)
        for (int64_t i2 = 0; i2 < n->t.ne[2]; i2++)
            add_outer_products(n, i2, i3, row, column, sums);
    loam_free(row);
    loam_free(column);
    loam_free(sums);
    return ok ? LOAM_OK : loam_reference_memory(n, e);
}

static void out_prod_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_node *a = n->src[0], *b = n->src[1];
    if (a->needs_grad) {
        loam_node *da = loam_out_prod(g, loam_product_operand(g, dy), loam_transpose(g, b));
        loam_grad_add(g, a, loam_product_sum_batches(g, da, a));
    }
    if (b->needs_grad)
        loam_grad_add(g, b, loam_cont(g, loam_transpose(g, loam_mul_mat(g, a, dy))));
}

/* The product written over a part of a larger leaf, which is returned whole, so that what lies
 * around the product is checked too. Three elements in, no vector store is aligned. */
static loam_node *build_into(loam_graph *g, loam_node *a, loam_node *b)
{
    if (!a || !b)
        return NULL;
    const int64_t ne[] = {a->t.ne[0], b->t.ne[0], b->t.ne[2], b->t.ne[3]};
    const int64_t whole_ne[] = {ne[0] + 7, ne[1] + 2, ne[2] + 1, ne[3]};
    loam_node *whole = loam_case_input(g, LOAM_TYPE_F32, whole_ne, LOAM_FILL_NORMAL, 1, 0, false);
    if (!whole)
        return NULL;
    const size_t *nb = whole->t.nb;
    loam_node *dst = loam_view(g, whole, ne, nb, 3 * nb[0] + nb[1]);
    loam_node *y = loam_out_prod_into(g, a, b, dst);
    if (!y)
        return NULL;
    return loam_node_view(g, LOAM_OP_VIEW, whole, whole->t.type, whole_ne, nb, 0, 1,
                          (loam_node *[]){y});
}

static loam_node *build_out_prod(loam_graph *g, const loam_case *c)
{
    const int64_t *p = c->p;
    loam_node *a = loam_product_case_a(g, c, p[LOAM_PRODUCT_M], p[LOAM_PRODUCT_K]);
    loam_node *b = loam_product_case_b(g, c, p[LOAM_PRODUCT_N], p[LOAM_PRODUCT_K]);
    return p[LOAM_PRODUCT_INTO] ? build_into(g, a, b) : loam_out_prod(g, a, b);
}

static void add_into_cases(const loam_product_cases *p)
{
    static const loam_type types[] = {LOAM_TYPE_F32, LOAM_TYPE_F16, LOAM_TYPE_Q4_K, LOAM_TYPE_Q8_0};
    static const int64_t ns[] = {1, 16, 77};
    for (int t = 0; t < LOAM_COUNT(types); t++)
        for (int in = 0; in < LOAM_COUNT(ns); in++)
            for (int transposed = 0; transposed < 2; transposed++) {
                loam_product_shape s = {
                    .m = 256, .n = ns[in], .k = 48, .transposed = transposed, .into = true};
                loam_product_case(p, types[t], s);
                s.batch2 = s.repeat2 = 2;
                loam_product_case(p, types[t], s);
                s.k = 600;
                s.scratch_limit_bytes = 250 * 256 * sizeof(float);
                loam_product_case(p, types[t], s);
            }
}

/* What training a LoRA needs: dA = OUT_PROD(x, dh), dB = OUT_PROD(h, dy), dh = OUT_PROD(B, dy'),
 * dx = OUT_PROD(A, dh'). */
static void add_lora_cases(const loam_product_cases *p)
{
    static const int64_t ranks[] = {1, 4, 16, 64, 256};
    for (int i = 0; i < LOAM_COUNT(ranks); i++) {
        int64_t r = ranks[i];
        loam_product_shape da = {.m = 608, .n = r, .k = 77};
        loam_product_shape db = {.m = r, .n = 320, .k = 77};
        loam_product_shape dh = {.m = r, .n = 77, .k = 320, .transposed = true};
        loam_product_shape dx = {.m = 608, .n = 77, .k = r, .transposed = true};
        loam_product_case(p, LOAM_TYPE_F32, da);
        loam_product_case(p, LOAM_TYPE_F32, db);
        loam_product_case(p, LOAM_TYPE_F32, dh);
        loam_product_case(p, LOAM_TYPE_F32, dx);
    }
}

static void out_prod_cases(loam_case_list *list)
{
    static const int64_t ns[] = {1, 16, 77};
    static const loam_type long_types[] = {LOAM_TYPE_Q4_K, LOAM_TYPE_Q8_0};
    loam_product_cases p = {.list = list,
                            .op = LOAM_OP_OUT_PROD,
                            .n_full = ns,
                            .n_n_full = LOAM_COUNT(ns),
                            .build = build_out_prod};
    loam_product_sweep(&p);
    add_into_cases(&p);
    add_lora_cases(&p);
    /* Ten pieces at a scratch of 64 MiB. */
    for (int t = 0; t < LOAM_COUNT(long_types); t++)
        for (int transposed = 0; transposed < 2; transposed++)
            loam_product_case(
                &p, long_types[t],
                (loam_product_shape){.m = 256, .n = 16, .k = 600000, .transposed = transposed});
}

/* A multiplication and an addition for each k of each element. */
static double out_prod_flops(const loam_node *n)
{
    return 2.0 * (double)n->src[0]->t.ne[1] * (double)loam_tensor_ne(&n->t);
}

const loam_op_def loam_op_out_prod = {.name = "OUT_PROD",
                                      .reference = out_prod_reference,
                                      .backward = out_prod_backward,
                                      .cases = out_prod_cases,
                                      .flops = out_prod_flops};
