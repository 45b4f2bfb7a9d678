/* Views, copies, elementwise ops, sums, repeats, norms, softmax, gates, rope: examples worked out
 * by hand, what builders refuse, and which nodes the backward rules emit. Gradients against
 * differences are the parity tester's (tests/graph/test_parity.c). */
#include "op/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_NODES 256
#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-12)

typedef struct bench {
    loam_graph *g;
    void *memory[MAX_NODES];
} bench;

static bench bench_new(void)
{
    bench b = {0};
    assert_int_equal(loam_graph_create(LOAM_TYPE_F64, &b.g, NULL), LOAM_OK);
    return b;
}

static void bench_free(bench *b)
{
    for (int i = 0; i < MAX_NODES; i++)
        loam_free(b->memory[i]);
    loam_graph_free(b->g);
}

/* Leaf [n0, n1, n2, n3] holding v in order; NULL: 1, 2, 3, ... */
static loam_node *leaf(bench *b, loam_type type, int64_t n0, int64_t n1, int64_t n2, int64_t n3,
                       const double *v)
{
    loam_node *n = loam_leaf(b->g, type, (int64_t[]){n0, n1, n2, n3}, "leaf");
    assert_non_null(n);
    n->t.data = b->memory[n->index] = loam_alloc(loam_tensor_bytes(&n->t));
    loam_tensor flat = n->t;
    flat.ne[0] = loam_tensor_ne(&n->t);
    for (int64_t i = 0; i < flat.ne[0]; i++)
        loam_set(&flat, i, 0, 0, 0, v ? v[i] : (double)(i + 1));
    return n;
}

static loam_node *row(bench *b, int64_t n0, const double *v)
{
    return leaf(b, LOAM_TYPE_F64, n0, 1, 1, 1, v);
}

static void run(bench *b)
{
    loam_error e = {0};
    if (loam_graph_status(b->g, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    assert_true(b->g->n_nodes <= MAX_NODES);
    for (int i = 0; i < b->g->n_nodes; i++) {
        loam_node *n = b->g->nodes[i];
        if (n->view_of)
            n->t.data = (char *)n->view_of->t.data + n->view_offset_bytes;
        else if (!n->t.data)
            n->t.data = b->memory[i] = loam_alloc(loam_tensor_bytes(&n->t));
        const loam_op_def *def = loam_op_get(n->op);
        if (def->reference)
            assert_int_equal(def->reference(n, &e), LOAM_OK);
    }
}

/* Element number i in the order of a dense tensor. */
static double at(const loam_node *n, int64_t i)
{
    const int64_t *ne = n->t.ne;
    return loam_get(&n->t, i % ne[0], i / ne[0] % ne[1], i / ne[0] / ne[1] % ne[2],
                    i / ne[0] / ne[1] / ne[2]);
}

static void assert_values(const loam_node *n, int64_t count, const double *v)
{
    assert_int_equal(loam_tensor_ne(&n->t), count);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(at(n, i) - v[i]) < 1e-12))
            fail_msg("element %d is %.17g, not %.17g", (int)i, at(n, i), v[i]);
}

static void assert_shape(const loam_node *n, int64_t n0, int64_t n1, int64_t n2, int64_t n3)
{
    assert_non_null(n);
    const int64_t ne[] = {n0, n1, n2, n3};
    assert_memory_equal(n->t.ne, ne, sizeof ne);
}

/* The builder gave NULL, and the graph's error has this status and says `word`. */
static void assert_refused(bench *b, const loam_node *n, loam_status status, const char *word)
{
    loam_error e = {0};
    assert_null(n);
    assert_int_equal(loam_graph_status(b->g, &e), status);
    if (!strstr(e.message, word))
        fail_msg("'%s' does not say '%s'", e.message, word);
    memset(&b->g->error, 0, sizeof b->g->error);
}

/* ---- views -------------------------------------------------------------------------------- */

static void test_view_shapes(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 4, 3, 2, 1, NULL);
    const size_t *nb = a->t.nb;
    loam_node *v = loam_view(b.g, a, (int64_t[]){2, 2, 2, 1}, nb, nb[0] + nb[1]);
    loam_node *column = loam_view(b.g, a, (int64_t[]){3, 1, 1, 1},
                                  (size_t[]){nb[1], nb[1], nb[1], nb[1]}, 2 * nb[0]);
    loam_node *r = loam_reshape_2d(b.g, a, 6, 4);
    loam_node *p = loam_permute(b.g, a, 2, 0, 1, 3);
    loam_node *t = loam_transpose(b.g, a);
    run(&b);
    assert_values(v, 8, (double[]){6, 7, 10, 11, 18, 19, 22, 23});
    assert_values(column, 3, (double[]){3, 7, 11});
    assert_ptr_equal(v->view_of, a);
    assert_shape(r, 6, 4, 1, 1);
    NEAR(at(r, 23), 24);
    /* Dimension 0 goes to 2, 1 to 0, 2 to 1. */
    assert_shape(p, 3, 2, 4, 1);
    NEAR(loam_get(&p->t, 2, 1, 3, 0), loam_get(&a->t, 3, 2, 1, 0));
    assert_shape(t, 3, 4, 2, 1);
    NEAR(loam_get(&t->t, 2, 1, 0, 0), loam_get(&a->t, 1, 2, 0, 0));
    bench_free(&b);
}

static void test_view_of_a_view(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 4, 5, 1, 1, NULL);
    const size_t *nb = a->t.nb;
    loam_node *v = loam_view(b.g, a, (int64_t[]){4, 3, 1, 1}, nb, nb[1]);
    loam_node *w = loam_view(b.g, v, (int64_t[]){2, 1, 1, 1}, nb, 2 * nb[1] + nb[0]);
    run(&b);
    assert_ptr_equal(w->view_of, a);
    assert_int_equal(w->view_offset_bytes, 3 * nb[1] + nb[0]);
    assert_values(w, 2, (double[]){14, 15});
    bench_free(&b);
}

static void test_view_refusals(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 4, 3, 1, 1, NULL);
    loam_node *q = loam_leaf(b.g, LOAM_TYPE_Q4_K, (int64_t[]){512, 4, 1, 1}, "w");
    const size_t *nb = a->t.nb, *qb = q->t.nb;
    const int64_t all[] = {4, 3, 1, 1};
    assert_refused(&b, loam_view(b.g, a, all, nb, 8), LOAM_E_USAGE, "reaches past");
    assert_refused(&b, loam_view(b.g, a, (int64_t[]){4, 0, 1, 1}, nb, 0), LOAM_E_USAGE, "ne1");
    assert_refused(
        &b,
        loam_view(b.g, a, (int64_t[]){1, 1, 1, INT64_MAX}, (size_t[]){8, 8, 8, SIZE_MAX / 2}, 0),
        LOAM_E_USAGE, "reaches past");
    assert_refused(&b, loam_view(b.g, q, (int64_t[]){128, 4, 1, 1}, qb, 0), LOAM_E_USAGE,
                   "whole blocks");
    assert_refused(&b, loam_view(b.g, q, (int64_t[]){256, 1, 1, 1}, qb, 7), LOAM_E_USAGE,
                   "whole blocks");
    assert_refused(&b, loam_reshape_2d(b.g, a, 5, 2), LOAM_E_USAGE, "number of elements");
    assert_refused(&b, loam_reshape_2d(b.g, q, 128, 16), LOAM_E_USAGE, "whole blocks");
    assert_refused(&b, loam_reshape_2d(b.g, loam_transpose(b.g, a), 6, 2), LOAM_E_USAGE, "CONT");
    assert_refused(&b, loam_permute(b.g, a, 0, 0, 2, 3), LOAM_E_USAGE, "permutation");
    assert_refused(&b, loam_permute(b.g, a, 0, 1, 2, 4), LOAM_E_USAGE, "permutation");
    assert_refused(&b, loam_transpose(b.g, q), LOAM_E_USAGE, "block type");
    assert_shape(loam_permute(b.g, q, 0, 2, 1, 3), 512, 1, 4, 1); /* rows stay whole */
    assert_null(loam_reshape_2d(b.g, NULL, 1, 1));
    bench_free(&b);
}

/* ---- copies ------------------------------------------------------------------------------- */

static void test_copies(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 3, 2, 1, 1, NULL);
    loam_node *into = leaf(&b, LOAM_TYPE_F32, 4, 2, 1, 1, (double[]){9, 9, 9, 9, 9, 9, 9, 9});
    const size_t *nb = into->t.nb;
    loam_node *window = loam_view(b.g, into, (int64_t[]){2, 3, 1, 1},
                                  (size_t[]){nb[1], nb[0], nb[0], nb[0]}, nb[0]);
    loam_node *c = loam_cpy(b.g, a, window);
    loam_node *d = loam_cont(b.g, loam_transpose(b.g, a));
    loam_node *h = loam_cast(b.g, a, LOAM_TYPE_F16);
    loam_node *same = loam_cast(b.g, a, LOAM_TYPE_F32);
    run(&b);
    /* a in order 1..6 over the window in its order: columns of `into`, from its second element. */
    assert_values(into, 8, (double[]){9, 1, 3, 5, 9, 2, 4, 6});
    assert_ptr_equal(c->view_of, into);
    assert_values(d, 6, (double[]){1, 4, 2, 5, 3, 6});
    assert_true(loam_is_contiguous(&d->t));
    assert_int_equal(h->t.type, LOAM_TYPE_F16);
    assert_values(h, 6, (double[]){1, 2, 3, 4, 5, 6});
    assert_int_equal(same->t.type, LOAM_TYPE_F64); /* F32 stands for the graph's activation */
    bench_free(&b);
}

static void test_copies_round_to_nearest_even(void **state)
{
    (void)state;
    bench b = bench_new();
    /* Half way between neighbours, and above the largest half. */
    loam_node *a = row(&b, 4, (double[]){2049, 2051, 1 + 0x1p-12, 70000});
    loam_node *h = loam_cast(b.g, a, LOAM_TYPE_F16);
    loam_node *w = loam_cast(b.g, row(&b, 2, (double[]){257, 259}), LOAM_TYPE_BF16);
    run(&b);
    NEAR(at(h, 0), 2048);
    NEAR(at(h, 1), 2052);
    NEAR(at(h, 2), 1);
    assert_true(isinf(at(h, 3)));
    assert_values(w, 2, (double[]){256, 260});
    bench_free(&b);
}

static void test_copy_refusals(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 4, 2, 1, 1, NULL);
    loam_node *q = loam_leaf(b.g, LOAM_TYPE_Q8_0, (int64_t[]){32, 1, 1, 1}, "w");
    loam_node *x = leaf(&b, LOAM_TYPE_F64, 32, 1, 1, 1, NULL);
    loam_node *ids = leaf(&b, LOAM_TYPE_I32, 8, 1, 1, 1, NULL);
    assert_refused(&b, loam_cpy(b.g, x, q), LOAM_E_UNSUPPORTED, "quantized types");
    assert_refused(&b, loam_cast(b.g, x, LOAM_TYPE_Q4_0), LOAM_E_UNSUPPORTED, "quantized types");
    assert_refused(&b, loam_cpy(b.g, ids, a), LOAM_E_UNSUPPORTED, "i32 [8]");
    assert_refused(&b, loam_cpy(b.g, x, a), LOAM_E_USAGE, "number of elements");
    assert_refused(&b, loam_cont(b.g, q), LOAM_E_UNSUPPORTED, "CONT");
    loam_node *twice = loam_view(b.g, x, (int64_t[]){4, 2, 1, 1}, (size_t[]){8, 8, 8, 8}, 0);
    assert_refused(&b, loam_cpy(b.g, a, twice), LOAM_E_USAGE, "twice");
    loam_node *p = leaf(&b, LOAM_TYPE_F64, 8, 1, 1, 1, NULL);
    loam_set_param(p);
    assert_refused(&b, loam_cpy(b.g, a, p), LOAM_E_USAGE, "gradient");
    bench_free(&b);
}

/* ---- fill, acc ---------------------------------------------------------------------------- */

static void test_fill_and_acc(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *z = loam_fill_new(b.g, LOAM_TYPE_F64, (int64_t[]){3, 2, 1, 1}, 0.5f);
    loam_node *d = leaf(&b, LOAM_TYPE_F64, 2, 1, 1, 1, NULL);
    loam_node *y = loam_acc(b.g, z, d, (size_t[]){16, 48, 48, 48}, 24);
    assert_refused(&b, loam_fill_new(b.g, LOAM_TYPE_I32, (int64_t[]){1, 1, 1, 1}, 0),
                   LOAM_E_UNSUPPORTED, "FILL");
    assert_refused(&b, loam_acc(b.g, z, d, (size_t[]){16, 48, 48, 48}, 40), LOAM_E_USAGE,
                   "past the end");
    assert_refused(&b, loam_acc(b.g, z, d, (size_t[]){0, 48, 48, 48}, 0), LOAM_E_UNSUPPORTED,
                   "twice");
    assert_refused(&b, loam_acc(b.g, z, d, (size_t[]){12, 48, 48, 48}, 0), LOAM_E_USAGE,
                   "multiple");
    run(&b);
    assert_values(y, 6, (double[]){0.5, 0.5, 0.5, 1.5, 0.5, 2.5});
    assert_values(z, 6, (double[]){0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
    bench_free(&b);
}

/* ---- elementwise -------------------------------------------------------------------------- */

static void test_add_and_mul(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 4, 2, 1, 1, NULL);
    loam_node *r = row(&b, 2, (double[]){10, 20});
    loam_node *column = leaf(&b, LOAM_TYPE_F64, 1, 2, 1, 1, (double[]){2, 3});
    loam_node *s = loam_add(b.g, a, r);
    loam_node *m = loam_mul(b.g, a, column);
    run(&b);
    assert_values(s, 8, (double[]){11, 22, 13, 24, 15, 26, 17, 28});
    assert_values(m, 8, (double[]){2, 4, 6, 8, 15, 18, 21, 24});
    assert_values(a, 8, (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    bench_free(&b);
}

static void test_add_in_place(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 2, 3, 1, 1, NULL);
    loam_node *s =
        loam_add_inplace(b.g, loam_transpose(b.g, a), row(&b, 3, (double[]){10, 20, 30}));
    run(&b);
    assert_ptr_equal(s->view_of, a);
    assert_values(a, 6, (double[]){11, 12, 23, 24, 35, 36});
    loam_node *p = row(&b, 2, NULL);
    loam_set_param(p);
    loam_node *y = loam_add_inplace(b.g, p, row(&b, 2, NULL));
    loam_op_get(y->op)->backward(b.g, y, row(&b, 2, NULL));
    assert_refused(&b, NULL, LOAM_E_UNSUPPORTED, "in place");
    bench_free(&b);
}

static void test_result_type_is_the_first_operands(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *h = leaf(&b, LOAM_TYPE_F16, 4, 1, 1, 1, NULL);
    loam_node *f = leaf(&b, LOAM_TYPE_F32, 4, 1, 1, 1, NULL);
    assert_int_equal(loam_add(b.g, h, f)->t.type, LOAM_TYPE_F16);
    assert_int_equal(loam_mul(b.g, f, h)->t.type, LOAM_TYPE_F32);
    assert_int_equal(loam_silu(b.g, h)->t.type, LOAM_TYPE_F16);
    assert_int_equal(loam_sum(b.g, f)->t.type, LOAM_TYPE_F32);
    bench_free(&b);
}

static void test_elementwise_refusals(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 4, 3, 1, 1, NULL);
    loam_node *three = row(&b, 3, NULL);
    loam_node *ids = leaf(&b, LOAM_TYPE_I32, 4, 3, 1, 1, NULL);
    assert_refused(&b, loam_add(b.g, a, three), LOAM_E_USAGE, "multiple");
    assert_refused(&b, loam_mul(b.g, row(&b, 1, NULL), three), LOAM_E_USAGE, "multiple");
    assert_refused(&b, loam_add(b.g, ids, a), LOAM_E_UNSUPPORTED, "i32 [4, 3]");
    assert_refused(&b, loam_scale(b.g, ids, 2), LOAM_E_UNSUPPORTED, "SCALE");
    assert_refused(&b, loam_sum(b.g, ids), LOAM_E_UNSUPPORTED, "SUM");
    assert_refused(&b, loam_silu(b.g, ids), LOAM_E_UNSUPPORTED, "SILU");
    assert_refused(&b, loam_gelu_back(b.g, a, three), LOAM_E_USAGE, "one shape");
    assert_null(loam_add(b.g, a, NULL));
    assert_int_equal(loam_graph_status(b.g, NULL), LOAM_OK);
    bench_free(&b);
}

static void test_scale_and_sums(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 3, 2, 1, 1, NULL);
    loam_node *k = loam_scale(b.g, a, -0.5f);
    loam_node *s = loam_sum(b.g, a);
    loam_node *r = loam_sum_rows(b.g, loam_transpose(b.g, a));
    run(&b);
    assert_values(k, 6, (double[]){-0.5, -1, -1.5, -2, -2.5, -3});
    assert_values(s, 1, (double[]){21});
    assert_shape(r, 1, 3, 1, 1);
    assert_values(r, 3, (double[]){5, 7, 9});
    bench_free(&b);
}

static void test_repeat(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 2, 1, 1, 1, NULL);
    loam_node *y = loam_repeat(b.g, a, (int64_t[]){4, 2, 1, 1});
    loam_node *back =
        loam_repeat_back(b.g, leaf(&b, LOAM_TYPE_F64, 4, 2, 1, 1, NULL), (int64_t[]){2, 1, 1, 1});
    loam_node *dst = leaf(&b, LOAM_TYPE_F64, 2, 4, 1, 1, NULL);
    loam_node *into = loam_repeat_into(b.g, a, loam_transpose(b.g, dst));
    assert_refused(&b, loam_repeat(b.g, a, (int64_t[]){3, 1, 1, 1}), LOAM_E_USAGE, "ne0");
    assert_refused(&b, loam_repeat_back(b.g, a, (int64_t[]){2, 3, 1, 1}), LOAM_E_USAGE, "ne1");
    assert_refused(&b, loam_repeat_into(b.g, a, leaf(&b, LOAM_TYPE_F32, 4, 1, 1, 1, NULL)),
                   LOAM_E_USAGE, "type");
    run(&b);
    assert_values(y, 8, (double[]){1, 2, 1, 2, 1, 2, 1, 2});
    assert_values(back, 2, (double[]){1 + 3 + 5 + 7, 2 + 4 + 6 + 8});
    assert_values(into, 8, (double[]){1, 2, 1, 2, 1, 2, 1, 2});
    assert_values(dst, 8, (double[]){1, 1, 2, 2, 1, 1, 2, 2});
    bench_free(&b);
}

/* ---- norms and softmax -------------------------------------------------------------------- */

static void test_rms_norm(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *x = row(&b, 2, (double[]){3, 4});
    loam_node *y = loam_rms_norm(b.g, x, 0);
    loam_node *with_eps = loam_rms_norm(b.g, x, 3.5f);
    loam_node *dx = loam_rms_norm_back(b.g, row(&b, 2, (double[]){1, 0}), x, 0);
    assert_refused(&b, loam_rms_norm(b.g, x, -1), LOAM_E_USAGE, "eps");
    assert_refused(&b, loam_rms_norm(b.g, x, NAN), LOAM_E_USAGE, "eps");
    assert_refused(&b, loam_rms_norm_back(b.g, row(&b, 3, NULL), x, 0), LOAM_E_USAGE, "one shape");
    run(&b);
    /* mean(x^2) = 12.5; with eps 3.5 the root is 4. */
    assert_values(y, 2, (double[]){3 / sqrt(12.5), 4 / sqrt(12.5)});
    assert_values(with_eps, 2, (double[]){0.75, 1});
    /* d/dx0 of x / sqrt((x0^2 + x1^2) / 2): r (1 - x0^2 r^2 / 2) and r (-x0 x1 r^2 / 2). */
    double r = 1 / sqrt(12.5);
    assert_values(dx, 2, (double[]){r * (1 - 9 / 25.0), -r * 12 / 25.0});
    bench_free(&b);
}

static void test_soft_max(void **state)
{
    (void)state;
    bench b = bench_new();
    const double inf = INFINITY;
    loam_node *x = leaf(&b, LOAM_TYPE_F64, 2, 3, 1, 1, (double[]){0, log(3), 1000, 1000, 5, 7});
    loam_node *mask =
        leaf(&b, LOAM_TYPE_F16, 2, 4, 1, 1, (double[]){0, 0, -inf, 0, -inf, -inf, 0, 0});
    loam_node *y = loam_soft_max(b.g, x, NULL, 1, 0);
    loam_node *m = loam_soft_max(b.g, x, mask, 1, 0);
    loam_node *half = loam_soft_max(b.g, x, NULL, 2, 0);
    loam_node *dx = loam_soft_max_back(b.g, leaf(&b, LOAM_TYPE_F64, 2, 1, 1, 1, (double[]){1, 0}),
                                       row(&b, 2, (double[]){0.25, 0.75}), 2);
    run(&b);
    NEAR(at(y, 0), 0.25);
    NEAR(at(y, 1), 0.75);
    NEAR(at(y, 2), 0.5);
    assert_values(m, 6, (double[]){0.25, 0.75, 0, 1, 0, 0}); /* a row masked whole gives zeros */
    NEAR(at(half, 0), 0.1);
    assert_values(dx, 2, (double[]){2 * 0.25 * 0.75, -2 * 0.75 * 0.25});
    bench_free(&b);
}

/* The slopes of six heads at max_bias 8: 2^-2, 2^-4, 2^-6, 2^-8, then 2^-1, 2^-3. */
static void test_soft_max_slopes(void **state)
{
    (void)state;
    bench b = bench_new();
    const double slopes[] = {0.25, 0.0625, 1 / 64.0, 1 / 256.0, 0.5, 0.125};
    loam_node *x = loam_scale(b.g, leaf(&b, LOAM_TYPE_F64, 2, 1, 6, 1, NULL), 0);
    loam_node *mask = leaf(&b, LOAM_TYPE_F32, 2, 1, 1, 1, (double[]){0, -4});
    loam_node *y = loam_soft_max(b.g, x, mask, 1, 8);
    run(&b);
    for (int h = 0; h < 6; h++)
        NEAR(loam_get(&y->t, 1, 0, h, 0), 1 / (1 + exp(4 * slopes[h])));
    bench_free(&b);
}

static void test_soft_max_refusals(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *x = leaf(&b, LOAM_TYPE_F64, 4, 3, 2, 1, NULL);
    loam_node *few = leaf(&b, LOAM_TYPE_F32, 4, 2, 1, 1, NULL);
    loam_node *wide = leaf(&b, LOAM_TYPE_F32, 5, 3, 1, 1, NULL);
    loam_node *heads = leaf(&b, LOAM_TYPE_F32, 4, 3, 3, 1, NULL);
    loam_node *brain = leaf(&b, LOAM_TYPE_BF16, 4, 3, 1, 1, NULL);
    loam_node *good = leaf(&b, LOAM_TYPE_F32, 4, 3, 1, 1, NULL);
    assert_refused(&b, loam_soft_max(b.g, x, few, 1, 0), LOAM_E_USAGE, "mask");
    assert_refused(&b, loam_soft_max(b.g, x, wide, 1, 0), LOAM_E_USAGE, "mask");
    assert_refused(&b, loam_soft_max(b.g, x, heads, 1, 0), LOAM_E_USAGE, "mask");
    assert_refused(&b, loam_soft_max(b.g, x, brain, 1, 0), LOAM_E_UNSUPPORTED, "mask");
    assert_refused(&b, loam_soft_max(b.g, x, NULL, 1, 8), LOAM_E_USAGE, "needs a mask");
    assert_refused(&b, loam_soft_max(b.g, x, good, 1, -1), LOAM_E_USAGE, "negative");
    assert_refused(&b, loam_soft_max_back(b.g, x, good, 1), LOAM_E_USAGE, "one shape");
    loam_set_param(good);
    loam_node *y = loam_soft_max(b.g, x, good, 1, 0);
    loam_op_get(y->op)->backward(b.g, y, x);
    assert_refused(&b, NULL, LOAM_E_UNSUPPORTED, "mask");
    bench_free(&b);
}

/* ---- activations and gates ---------------------------------------------------------------- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void test_activations(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *x = row(&b, 4, (double[]){0, 1, -2, 800});
    loam_node *s = loam_silu(b.g, x), *u = loam_gelu(b.g, x);
    loam_node *ones = row(&b, 4, (double[]){1, 1, 1, 1});
    loam_node *ds = loam_silu_back(b.g, ones, x), *du = loam_gelu_back(b.g, ones, x);
    run(&b);
    assert_values(s, 4, (double[]){0, sigmoid(1), -2 * sigmoid(-2), 800});
    /* The tanh form at 1, to ten digits: 0.8411919906. */
    assert_true(fabs(at(u, 1) - 0.8411919906082768) < 1e-12);
    NEAR(at(u, 0), 0);
    NEAR(at(u, 3), 800);
    NEAR(at(ds, 0), 0.5);
    NEAR(at(ds, 1), sigmoid(1) * (1 + 1 - sigmoid(1)));
    NEAR(at(ds, 3), 1);
    NEAR(at(du, 0), 0.5);
    NEAR(at(du, 3), 1);
    bench_free(&b);
}

static void test_gates(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = row(&b, 2, (double[]){1, -2}), *up = row(&b, 2, (double[]){3, 5});
    loam_node *both = row(&b, 4, (double[]){1, -2, 3, 5});
    loam_node *split = loam_swiglu(b.g, a, up), *fused = loam_swiglu(b.g, both, NULL);
    loam_node *g = loam_geglu(b.g, a, up);
    loam_node *dy = row(&b, 2, (double[]){1, 10});
    loam_node *d = loam_swiglu_back(b.g, dy, a, up), *df = loam_swiglu_back(b.g, dy, both, NULL);
    loam_node *slope = loam_silu_back(b.g, row(&b, 2, (double[]){1, 1}), a);
    run(&b);
    const double y[] = {3 * sigmoid(1), -10 * sigmoid(-2)};
    assert_values(split, 2, y);
    assert_values(fused, 2, y);
    NEAR(at(g, 0), 3 * 0.8411919906082768);
    const double grad[] = {3 * at(slope, 0), 50 * at(slope, 1), sigmoid(1), -20 * sigmoid(-2)};
    assert_values(d, 4, grad);
    assert_values(df, 4, grad);
    loam_node *odd = row(&b, 3, NULL);
    assert_refused(&b, loam_swiglu(b.g, odd, NULL), LOAM_E_USAGE, "even");
    assert_refused(&b, loam_geglu(b.g, odd, a), LOAM_E_USAGE, "one shape");
    assert_refused(&b, loam_geglu_back(b.g, odd, a, up), LOAM_E_USAGE, "dy");
    bench_free(&b);
}

/* Split operands get the two halves of one back node, as views. */
static void test_gate_backward_makes_views(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 3, 2, 1, 1, NULL);
    loam_node *up = leaf(&b, LOAM_TYPE_F64, 3, 2, 1, 1, NULL);
    loam_set_param(a);
    loam_set_param(up);
    loam_node *y = loam_swiglu(b.g, a, up);
    loam_op_get(y->op)->backward(b.g, y, leaf(&b, LOAM_TYPE_F64, 3, 2, 1, 1, NULL));
    assert_non_null(a->grad);
    assert_non_null(up->grad);
    assert_ptr_equal(a->grad->view_of, up->grad->view_of);
    assert_int_equal(a->grad->view_of->op, LOAM_OP_SWIGLU_BACK);
    assert_int_equal(up->grad->view_offset_bytes, 3 * sizeof(double));
    assert_int_equal(up->grad->t.nb[1], 6 * sizeof(double));
    bench_free(&b);
}

/* ---- rope --------------------------------------------------------------------------------- */

static const loam_rope_params plain_rope = {
    .mode = LOAM_ROPE_NORMAL, .n_dims = 4, .freq_base = 100, .freq_scale = 1, .attn_factor = 1};

static void test_rope_pairs(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_rope_params p = plain_rope;
    loam_node *x =
        leaf(&b, LOAM_TYPE_F64, 6, 1, 2, 1, (double[]){1, 0, 1, 0, 7, 8, 1, 0, 0, 1, 7, 8});
    loam_node *positions = leaf(&b, LOAM_TYPE_I32, 2, 1, 1, 1, (double[]){0, 3});
    loam_node *normal = loam_rope(b.g, x, positions, NULL, &p);
    p.mode = LOAM_ROPE_NEOX;
    loam_node *neox = loam_rope(b.g, x, positions, NULL, &p);
    loam_node *back = loam_rope_back(b.g, neox, positions, NULL, &p);
    p.freq_scale = 0.5f;
    loam_node *factors = row(&b, 2, (double[]){1, 2});
    loam_node *slow = loam_rope(b.g, x, positions, factors, &p);
    run(&b);
    /* Frequencies 1 and 100^-0.5 = 0.1; the last two elements do not turn. */
    assert_values(normal, 12,
                  (double[]){1, 0, 1, 0, 7, 8, cos(3), sin(3), -sin(0.3), cos(0.3), 7, 8});
    /* NEOX pairs are (0, 2) and (1, 3). */
    assert_values(neox, 12,
                  (double[]){1, 0, 1, 0, 7, 8, cos(3), -sin(0.3), sin(3), cos(0.3), 7, 8});
    assert_values(back, 12, (double[]){1, 0, 1, 0, 7, 8, 1, 0, 0, 1, 7, 8});
    NEAR(loam_get(&slow->t, 0, 0, 1, 0), cos(1.5));
    NEAR(loam_get(&slow->t, 3, 0, 1, 0), cos(0.3 * 0.5 / 2));
    bench_free(&b);
}

/* YaRN at context 4096, base 10000, 128 dimensions, beta 32 and 1: dim(32) = 20.94 and dim(1) =
 * 45.03, so pairs up to 20 extrapolate, pairs from 46 interpolate, and 33 is half way. */
static void test_rope_yarn(void **state)
{
    (void)state;
    bench b = bench_new();
    const loam_rope_params p = {.mode = LOAM_ROPE_NORMAL,
                                .n_dims = 128,
                                .n_ctx_orig = 4096,
                                .freq_base = 10000,
                                .freq_scale = 0.25f,
                                .ext_factor = 1,
                                .attn_factor = 1,
                                .beta_fast = 32,
                                .beta_slow = 1};
    double unit[128];
    for (int i = 0; i < 128; i++)
        unit[i] = i % 2 == 0;
    loam_node *x = leaf(&b, LOAM_TYPE_F64, 128, 1, 1, 1, unit);
    loam_node *positions = leaf(&b, LOAM_TYPE_I32, 1, 1, 1, 1, (double[]){2});
    loam_node *y = loam_rope(b.g, x, positions, NULL, &p);
    run(&b);
    const double scale = 1 + 0.1 * log(4);
    const struct {
        int pair;
        double keep; /* the share that extrapolates */
    } rows[] = {{0, 1}, {20, 1}, {33, 0.5}, {46, 0}, {63, 0}};
    for (int i = 0; i < LOAM_COUNT(rows); i++) {
        double angle = 2 * pow(10000, -rows[i].pair / 64.0);
        angle *= rows[i].keep + 0.25 * (1 - rows[i].keep);
        NEAR(at(y, 2 * rows[i].pair), scale * cos(angle));
        NEAR(at(y, 2 * rows[i].pair + 1), scale * sin(angle));
    }
    bench_free(&b);
}

static void test_rope_refusals(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_rope_params p = plain_rope;
    loam_node *x = leaf(&b, LOAM_TYPE_F64, 6, 1, 2, 1, NULL);
    loam_node *positions = leaf(&b, LOAM_TYPE_I32, 2, 1, 1, 1, NULL);
    assert_refused(&b, loam_rope(b.g, x, row(&b, 2, NULL), NULL, &p), LOAM_E_USAGE, "i32 [2]");
    assert_refused(&b, loam_rope(b.g, x, leaf(&b, LOAM_TYPE_I32, 3, 1, 1, 1, NULL), NULL, &p),
                   LOAM_E_USAGE, "positions");
    assert_refused(&b, loam_rope(b.g, x, positions, row(&b, 3, NULL), &p), LOAM_E_USAGE, "factors");
    p.n_dims = 5;
    assert_refused(&b, loam_rope(b.g, x, positions, NULL, &p), LOAM_E_USAGE, "n_dims");
    p.n_dims = 8;
    assert_refused(&b, loam_rope_back(b.g, x, positions, NULL, &p), LOAM_E_USAGE, "n_dims");
    p = plain_rope;
    p.mode = (loam_rope_mode)8;
    assert_refused(&b, loam_rope(b.g, x, positions, NULL, &p), LOAM_E_UNSUPPORTED, "mode 8");
    p = plain_rope;
    p.freq_scale = 0;
    assert_refused(&b, loam_rope(b.g, x, positions, NULL, &p), LOAM_E_USAGE, "freq_scale");
    p = plain_rope;
    p.ext_factor = 1; /* YaRN without its original context */
    assert_refused(&b, loam_rope(b.g, x, positions, NULL, &p), LOAM_E_USAGE, "YaRN");
    loam_node *factors = row(&b, 2, NULL);
    loam_set_param(factors);
    p = plain_rope;
    loam_node *y = loam_rope(b.g, x, positions, factors, &p);
    loam_op_get(y->op)->backward(b.g, y, x);
    assert_refused(&b, NULL, LOAM_E_UNSUPPORTED, "factors");
    bench_free(&b);
}

/* ---- backward of views -------------------------------------------------------------------- */

/* The gradient of a view is zero outside it. */
static void test_view_backward(void **state)
{
    (void)state;
    bench b = bench_new();
    loam_node *a = leaf(&b, LOAM_TYPE_F64, 3, 2, 1, 1, NULL);
    loam_set_param(a);
    loam_node *v = loam_view(b.g, a, (int64_t[]){2, 2, 1, 1}, a->t.nb, 8);
    loam_op_get(v->op)->backward(b.g, v, leaf(&b, LOAM_TYPE_F64, 2, 2, 1, 1, NULL));
    run(&b);
    assert_values(a->grad, 6, (double[]){0, 1, 2, 0, 3, 4});

    loam_node *t = loam_transpose(b.g, a);
    loam_node *w = loam_view(b.g, t, (int64_t[]){2, 2, 1, 1}, t->t.nb, 0);
    loam_op_get(w->op)->backward(b.g, w, leaf(&b, LOAM_TYPE_F64, 2, 2, 1, 1, NULL));
    assert_refused(&b, NULL, LOAM_E_UNSUPPORTED, "CONT");
    bench_free(&b);
}

/* Every op of this file has cases; every row of the list has its own label. */
static void test_case_lists(void **state)
{
    (void)state;
    const loam_op ops[] = {
        LOAM_OP_CPY,           LOAM_OP_CONT,     LOAM_OP_FILL,          LOAM_OP_ACC,
        LOAM_OP_ADD,           LOAM_OP_MUL,      LOAM_OP_SCALE,         LOAM_OP_SUM,
        LOAM_OP_SUM_ROWS,      LOAM_OP_REPEAT,   LOAM_OP_REPEAT_BACK,   LOAM_OP_RMS_NORM,
        LOAM_OP_RMS_NORM_BACK, LOAM_OP_SOFT_MAX, LOAM_OP_SOFT_MAX_BACK, LOAM_OP_SILU,
        LOAM_OP_SILU_BACK,     LOAM_OP_GELU,     LOAM_OP_GELU_BACK,     LOAM_OP_SWIGLU,
        LOAM_OP_SWIGLU_BACK,   LOAM_OP_GEGLU,    LOAM_OP_GEGLU_BACK,    LOAM_OP_ROPE,
        LOAM_OP_ROPE_BACK};
    for (int i = 0; i < LOAM_COUNT(ops); i++) {
        loam_case_list list = {0};
        loam_op_get(ops[i])->cases(&list);
        assert_false(list.failed);
        assert_true(list.n > 5);
        for (int j = 0; j < list.n; j++) {
            assert_int_equal(list.cases[j].op, ops[i]);
            assert_true(list.cases[j].bar <= LOAM_BAR_ELEMENTWISE);
            for (int k = 0; k < j; k++)
                assert_string_not_equal(list.cases[j].label, list.cases[k].label);
        }
        loam_free(list.cases);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view_shapes),
        cmocka_unit_test(test_view_of_a_view),
        cmocka_unit_test(test_view_refusals),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_copies_round_to_nearest_even),
        cmocka_unit_test(test_copy_refusals),
        cmocka_unit_test(test_fill_and_acc),
        cmocka_unit_test(test_add_and_mul),
        cmocka_unit_test(test_add_in_place),
        cmocka_unit_test(test_result_type_is_the_first_operands),
        cmocka_unit_test(test_elementwise_refusals),
        cmocka_unit_test(test_scale_and_sums),
        cmocka_unit_test(test_repeat),
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_soft_max),
        cmocka_unit_test(test_soft_max_slopes),
        cmocka_unit_test(test_soft_max_refusals),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_gate_backward_makes_views),
        cmocka_unit_test(test_rope_pairs),
        cmocka_unit_test(test_rope_yarn),
        cmocka_unit_test(test_rope_refusals),
        cmocka_unit_test(test_view_backward),
        cmocka_unit_test(test_case_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
