/* product.h: what MUL_MAT and OUT_PROD share: operand checks, broadcast batches, parity cases. */
#ifndef LOAM_OP_PRODUCT_H
#define LOAM_OP_PRODUCT_H

#include "op/op.h"

/* False, with the graph's error set, unless a's type has values and whole contiguous rows, b is of
 * a float type, dimension `a_dim` of a equals `b_dim` of b, and a's batches divide b's. */
bool loam_product_check(loam_graph *g, const char *op, const loam_node *a, int a_dim,
                        const loam_node *b, int b_dim);

/* The gradient of a repeated operand: d [ne0, ne1, B2, B3] summed over the batches that read the
 * same batch of a -> a's shape. Returns d where nothing repeats. */
loam_node *loam_product_sum_batches(loam_graph *g, loam_node *d, const loam_node *a);

/* d itself, or a dense copy where its rows are not contiguous. */
loam_node *loam_product_operand(loam_graph *g, loam_node *d);

/* What p[] of a product's case means. y is [m, n]; k is summed over. */
enum {
    LOAM_PRODUCT_M,
    LOAM_PRODUCT_N,
    LOAM_PRODUCT_K,
    LOAM_PRODUCT_BATCH2,  /* of a */
    LOAM_PRODUCT_BATCH3,  /* of a */
    LOAM_PRODUCT_REPEAT2, /* batches of b for one of a */
    LOAM_PRODUCT_REPEAT3,
    LOAM_PRODUCT_TRANSPOSED, /* b is the transposed view of a dense leaf */
    LOAM_PRODUCT_INTO        /* the result is a view into a larger leaf */
};

typedef struct loam_product_shape {
    int64_t m, n, k;
    int64_t batch2, batch3, repeat2, repeat3;
    bool transposed, into;
    size_t scratch_limit_bytes;
} loam_product_shape;

typedef struct loam_product_cases {
    loam_case_list *list;
    loam_op op;
    bool rows_along_k; /* a's ne0 is k (MUL_MAT), else m (OUT_PROD) */
    const int64_t *n_full;
    int n_n_full;
    loam_node *(*build)(loam_graph *, const loam_case *);
} loam_product_cases;

/* Adds one case; batch and repeat numbers of 0 mean 1. */
void loam_product_case(const loam_product_cases *p, loam_type type, loam_product_shape s);
/* The sweep over every type, shape, batch and layout that both products need. */
void loam_product_sweep(const loam_product_cases *p);

/* The case's second operand: [d0, d1] with b's batches, a leaf or the transposed view of one. */
loam_node *loam_product_case_b(loam_graph *g, const loam_case *c, int64_t d0, int64_t d1);
/* The case's first operand: a leaf [d0, d1] of the case's type. */
loam_node *loam_product_case_a(loam_graph *g, const loam_case *c, int64_t d0, int64_t d1);

#endif /* LOAM_OP_PRODUCT_H */
