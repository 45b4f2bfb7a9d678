/* mul_mat.c: MUL_MAT, y[i, j] = sum_k a[k, i] b[k, j]
 *
 *   a [k, m, A2, A3]  any float or block type, rows contiguous
 *   b [k, n, B2, B3]  a float type, any strides; A2 | B2, A3 | B3
 *   y [m, n, B2, B3]  F32 (F64 in checks); batch (i2, i3) reads batch (i2/(B2/A2), i3/(B3/A3)) of a
 *
 * Backward: db = OUT_PROD(a, dy'), where dy' is dy's transposed view and never a copy of it;
 * da = OUT_PROD(b, dy), summed over the batches that read the same batch of a. */
#include "op/check.h"
#include "op/op_def.h"
#include "op/product.h"

loam_node *loam_mul_mat(loam_graph *g, loam_node *a, loam_node *b)
{
    if (!a || !b || !loam_product_check(g, "MUL_MAT", a, 0, b, 0))
        return NULL;
    const int64_t ne[] = {a->t.ne[1], b->t.ne[1], b->t.ne[2], b->t.ne[3]};
    return loam_node_new(g, LOAM_OP_MUL_MAT, g->activation, ne, 2, (loam_node *[]){a, b});
}

/* One batch: columns holds b as [k][n], so that the inner loop runs over neighbours. */
static void multiply_batch(const loam_node *n, int64_t i2, int64_t i3, double *columns, double *row,
                           double *sums)
{
    const loam_tensor *a = &n->src[0]->t, *b = &n->src[1]->t;
    int64_t n_k = a->ne[0], n_n = b->ne[1];
    int64_t a2 = i2 / (b->ne[2] / a->ne[2]), a3 = i3 / (b->ne[3] / a->ne[3]);
    for (int64_t j = 0; j < n_n; j++) {
        loam_get_row(b, j, i2, i3, row);
        for (int64_t k = 0; k < n_k; k++)
            columns[k * n_n + j] = row[k];
    }
    for (int64_t i = 0; i < a->ne[1]; i++) {
        loam_get_row(a, i, a2, a3, row);
        for (int64_t j = 0; j < n_n; j++)
            sums[j] = 0;
        for (int64_t k = 0; k < n_k; k++)
            for (int64_t j = 0; j < n_n; j++)
                sums[j] += row[k] * columns[k * n_n + j];
        for (int64_t j = 0; j < n_n; j++)
            loam_set(&n->t, i, j, i2, i3, sums[j]);
    }
}

static loam_status mul_mat_reference(const loam_node *n, loam_error *e)
{
    size_t n_k = (size_t)n->src[0]->t.ne[0], n_n = (size_t)n->t.ne[1];
    double *columns = loam_alloc(n_k * n_n * sizeof *columns);
    double *row = loam_alloc(n_k * sizeof *row);
    double *sums = loam_alloc(n_n * sizeof *sums);
    bool ok = columns && row && sums;
    for (int64_t i3 = 0; ok && i3 < n->t.ne[3]; i3++)
        for (int64_t i2 = 0; i2 < n->t.ne[2]; i2++)
            multiply_batch(n, i2, i3, columns, row, sums);
    loam_free(columns);
    loam_free(row);
    loam_free(sums);
    return ok ? LOAM_OK : loam_reference_memory(n, e);
}

static void mul_mat_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_node *a = n->src[0], *b = n->src[1];
    if (b->needs_grad)
        loam_grad_add(g, b, loam_out_prod(g, a, loam_transpose(g, dy)));
    if (a->needs_grad) {
        loam_node *da = loam_out_prod(g, loam_product_operand(g, b), dy);
        loam_grad_add(g, a, loam_product_sum_batches(g, da, a));
    }
}

static loam_node *build_mul_mat(loam_graph *g, const loam_case *c)
{
    const int64_t *p = c->p;
    loam_node *a = loam_product_case_a(g, c, p[LOAM_PRODUCT_K], p[LOAM_PRODUCT_M]);
    return loam_mul_mat(g, a, loam_product_case_b(g, c, p[LOAM_PRODUCT_K], p[LOAM_PRODUCT_N]));
}

static void mul_mat_cases(loam_case_list *list)
{
    static const int64_t ns[] = {1, 16, 77};
    static const int64_t ranks[] = {1, 4, 16, 64, 256};
    loam_product_cases p = {.list = list,
                            .op = LOAM_OP_MUL_MAT,
                            .rows_along_k = true,
                            .n_full = ns,
                            .n_n_full = LOAM_COUNT(ns),
                            .build = build_mul_mat};
    loam_product_sweep(&p);
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        const loam_type_info *info = loam_type_get(type);
        if (!info || !loam_is_decoded((loam_type)type) || type == LOAM_TYPE_F64 ||
            type == LOAM_TYPE_Q8_1 || type == LOAM_TYPE_Q8_K)
            continue;
        /* Generation: a few tokens at once. Training: many. */
        for (int64_t n = 1; n <= 8; n++)
            loam_product_case(&p, (loam_type)type,
                              (loam_product_shape){.m = 320, .n = n, .k = 600});
        loam_product_case(&p, (loam_type)type, (loam_product_shape){.m = 256, .n = 512, .k = 600});
    }
    loam_product_case(&p, LOAM_TYPE_F32, (loam_product_shape){.m = 256, .n = 512, .k = 5120});
    loam_product_case(&p, LOAM_TYPE_Q4_K, (loam_product_shape){.m = 256, .n = 512, .k = 5120});
    /* LoRA: h = A x and y = B h. */
    for (int i = 0; i < LOAM_COUNT(ranks); i++)
        for (int64_t n = 1; n <= 77; n += 76) {
            loam_product_case(&p, LOAM_TYPE_F32,
                              (loam_product_shape){.m = ranks[i], .n = n, .k = 608});
            loam_product_case(&p, LOAM_TYPE_F32,
                              (loam_product_shape){.m = 608, .n = n, .k = ranks[i]});
        }
    /* A vocabulary's worth of rows. */
    loam_product_case(&p, LOAM_TYPE_Q6_K, (loam_product_shape){.m = 151936, .n = 4, .k = 256});
}

/* A multiplication and an addition for each k of each element. */
static double mul_mat_flops(const loam_node *n)
{
    return 2.0 * (double)n->src[0]->t.ne[0] * (double)loam_tensor_ne(&n->t);
}

const loam_op_def loam_op_mul_mat = {.name = "MUL_MAT",
                                     .reference = mul_mat_reference,
                                     .backward = mul_mat_backward,
                                     .cases = mul_mat_cases,
                                     .flops = mul_mat_flops};
