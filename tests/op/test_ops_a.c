/* Products, look-ups, attention, losses, optimizer steps: references against formulas written out
 * again here, tiny examples by hand, gradients against central differences, refusals, and what the
 * case lists hold. */
#include "op/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- a bench: a graph whose nodes own plain memory ---------------------------------------- */

#define MAX_BLOCKS 4096

typedef struct bench {
    loam_graph *g;
    loam_rng rng;
    void *blocks[MAX_BLOCKS];
    int n_blocks;
} bench;

static bench bench_new(loam_type activation)
{
    bench b = {.rng = loam_rng_stream(7, "ops_a")};
    assert_int_equal(loam_graph_create(activation, &b.g, NULL), LOAM_OK);
    return b;
}

static void bench_free(bench *b)
{
    for (int i = 0; i < b->n_blocks; i++)
        loam_free(b->blocks[i]);
    loam_graph_free(b->g);
}

static void give_memory(bench *b, loam_node *n)
{
    assert_true(b->n_blocks < MAX_BLOCKS);
    n->t.data = loam_alloc(loam_tensor_bytes(&n->t));
    assert_non_null(n->t.data);
    b->blocks[b->n_blocks++] = n->t.data;
}

/* Elements of a node by their number, first dimension fastest. */
static double get(const loam_node *n, int64_t i)
{
    const int64_t *ne = n->t.ne;
    return loam_get(&n->t, i % ne[0], i / ne[0] % ne[1], i / ne[0] / ne[1] % ne[2],
                    i / ne[0] / ne[1] / ne[2]);
}

static void put(loam_node *n, int64_t i, double value)
{
    const int64_t *ne = n->t.ne;
    loam_set(&n->t, i % ne[0], i / ne[0] % ne[1], i / ne[0] / ne[1] % ne[2],
             i / ne[0] / ne[1] / ne[2], value);
}

static loam_node *leaf(bench *b, loam_type type, int64_t n0, int64_t n1, int64_t n2, int64_t n3)
{
    loam_node *n = loam_leaf(b->g, type, (int64_t[]){n0, n1, n2, n3}, "x");
    assert_non_null(n);
    give_memory(b, n);
    return n;
}

/* A leaf of normals; `param` makes it trained. */
static loam_node *normals(bench *b, loam_type type, bool param, int64_t n0, int64_t n1, int64_t n2,
                          int64_t n3)
{
    loam_node *n = leaf(b, type, n0, n1, n2, n3);
    if (loam_type_get((int)type)->is_quantized) {
        loam_error e = {0};
        assert_int_equal(loam_random_fill(type, &b->rng, 1, n->t.data, loam_tensor_ne(&n->t), &e),
                         LOAM_OK);
    } else {
        for (int64_t i = 0; i < loam_tensor_ne(&n->t); i++)
            put(n, i, loam_rng_normal(&b->rng));
    }
    if (param)
        loam_set_param(n);
    return n;
}

static loam_node *values(bench *b, loam_type type, int n, const double *v)
{
    loam_node *x = leaf(b, type, n, 1, 1, 1);
    for (int i = 0; i < n; i++)
        put(x, i, v[i]);
    return x;
}

/* Runs nodes [0, n); nodes without memory get some first. */
static loam_status run_to(bench *b, int n, loam_error *e)
{
    for (int i = 0; i < n; i++) {
        loam_node *node = b->g->nodes[i];
        if (node->t.data)
            continue;
        if (node->view_of)
            node->t.data = (char *)node->view_of->t.data + node->view_offset_bytes;
        else
            give_memory(b, node);
    }
    for (int i = 0; i < n; i++) {
        const loam_op_def *op = loam_op_get(b->g->nodes[i]->op);
        if (op->reference) {
            loam_status status = op->reference(b->g->nodes[i], e);
            if (status != LOAM_OK)
                return status;
        }
    }
    return LOAM_OK;
}

static void run(bench *b)
{
    loam_error e = {0};
    if (loam_graph_status(b->g, &e) != LOAM_OK || run_to(b, b->g->n_nodes, &e) != LOAM_OK)
        fail_msg("%s", e.message);
}

static double contract(const loam_node *y, const loam_node *dy)
{
    double sum = 0;
    for (int64_t i = 0; i < loam_tensor_ne(&y->t); i++)
        sum += get(y, i) * get(dy, i);
    return sum;
}

/* Compares every parameter's gradient of sum(y * dy), dy random, with central differences. */
static void check_gradients(bench *b, loam_node *y)
{
    loam_error e = {0};
    if (loam_graph_status(b->g, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    int n_forward = b->g->n_nodes, n_checked = 0;
    const int64_t *ne = y->t.ne;
    loam_node *dy = normals(b, b->g->activation, false, ne[0], ne[1], ne[2], ne[3]);
    y->grad = dy;
    for (int i = y->index; i >= 0; i--) {
        loam_node *n = b->g->nodes[i];
        if (n->grad && n->needs_grad && n->op != LOAM_OP_NONE) {
            assert_non_null(loam_op_get(n->op)->backward);
            loam_op_get(n->op)->backward(b->g, n, n->grad);
        }
    }
    run(b);
    for (int i = 0; i < n_forward; i++) {
        loam_node *p = b->g->nodes[i];
        if (!p->is_param)
            continue;
        assert_non_null(p->grad);
        assert_true(loam_same_shape(&p->grad->t, &p->t));
        for (int64_t k = 0; k < loam_tensor_ne(&p->t); k++, n_checked++) {
            double x = get(p, k), h = 1e-5;
            put(p, k, x + h);
            assert_int_equal(run_to(b, n_forward, &e), LOAM_OK);
            double up = contract(y, dy);
            put(p, k, x - h);
            assert_int_equal(run_to(b, n_forward, &e), LOAM_OK);
            double slope = (up - contract(y, dy)) / (2 * h), found = get(p->grad, k);
            put(p, k, x);
            if (!(fabs(slope - found) <= 1e-7 * (1 + fabs(slope))))
                fail_msg("%s: element %lld of parameter %d: slope %.12g, gradient %.12g",
                         loam_op_get(y->op)->name, (long long)k, i, slope, found);
        }
    }
    assert_true(n_checked > 0);
}

static void assert_close(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * (1 + fabs(expected))))
        fail_msg("found %.15g, expected %.15g", found, expected);
}

static void assert_refused(bench *b, const loam_node *n, const char *const *words)
{
    assert_null(n);
    loam_error e = {0};
    assert_int_not_equal(loam_graph_status(b->g, &e), LOAM_OK);
    for (; *words; words++)
        if (!strstr(e.message, *words))
            fail_msg("message '%s' lacks '%s'", e.message, *words);
    memset(&b->g->error, 0, sizeof b->g->error);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- products ----------------------------------------------------------------------------- */

static void mul_mat_by_hand(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *a =
        loam_reshape_2d(b.g, values(&b, LOAM_TYPE_F64, 6, (double[]){1, 2, 3, 4, 5, 6}), 3, 2);
    loam_node *x = values(&b, LOAM_TYPE_F64, 3, (double[]){1, 0, -2});
    loam_node *y = loam_mul_mat(b.g, a, x);
    run(&b);
    assert_int_equal(y->t.type, LOAM_TYPE_F64);
    assert_int_equal(y->t.ne[0], 2);
    assert_int_equal(y->t.ne[1], 1);
    assert_close(get(y, 0), 1 - 6);
    assert_close(get(y, 1), 4 - 12);
    bench_free(&b);
}

static void check_mul_mat(loam_type type, int64_t k, bool transposed)
{
    bench b = bench_new(LOAM_TYPE_F64);
    int64_t m = 5, n = 3;
    loam_node *a = normals(&b, type, false, k, m, 2, 1);
    loam_node *x = transposed ? loam_transpose(b.g, normals(&b, LOAM_TYPE_F64, false, n, k, 4, 3))
                              : normals(&b, LOAM_TYPE_F64, false, k, n, 4, 3);
    loam_node *y = loam_mul_mat(b.g, a, x);
    run(&b);
    for (int64_t i3 = 0; i3 < 3; i3++)
        for (int64_t i2 = 0; i2 < 4; i2++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < m; i++) {
                    double sum = 0;
                    for (int64_t l = 0; l < k; l++)
                        sum += loam_get(&a->t, l, i, i2 / 2, 0) * loam_get(&x->t, l, j, i2, i3);
                    assert_close(loam_get(&y->t, i, j, i2, i3), sum);
                }
    bench_free(&b);
}

static void check_out_prod(loam_type type, int64_t m, bool transposed)
{
    bench b = bench_new(LOAM_TYPE_F64);
    int64_t k = 5, n = 3;
    loam_node *a = normals(&b, type, false, m, k, 1, 2);
    loam_node *x = transposed ? loam_transpose(b.g, normals(&b, LOAM_TYPE_F64, false, k, n, 3, 4))
                              : normals(&b, LOAM_TYPE_F64, false, n, k, 3, 4);
    loam_node *y = loam_out_prod(b.g, a, x);
    run(&b);
    for (int64_t i3 = 0; i3 < 4; i3++)
        for (int64_t i2 = 0; i2 < 3; i2++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < m; i++) {
                    double sum = 0;
                    for (int64_t l = 0; l < k; l++)
                        sum += loam_get(&a->t, i, l, 0, i3 / 2) * loam_get(&x->t, j, l, i2, i3);
                    assert_close(loam_get(&y->t, i, j, i2, i3), sum);
                }
    bench_free(&b);
}

static void products_follow_the_formula(void **state)
{
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++) {
        check_mul_mat(LOAM_TYPE_F64, 7, transposed);
        check_mul_mat(LOAM_TYPE_F16, 7, transposed);
        check_mul_mat(LOAM_TYPE_Q4_K, 512, transposed);
        check_mul_mat(LOAM_TYPE_Q8_0, 64, transposed);
        check_out_prod(LOAM_TYPE_F64, 7, transposed);
        check_out_prod(LOAM_TYPE_BF16, 7, transposed);
        check_out_prod(LOAM_TYPE_Q6_K, 512, transposed);
        check_out_prod(LOAM_TYPE_Q4_0, 64, transposed);
    }
}

static void out_prod_into_a_view(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *a = normals(&b, LOAM_TYPE_F64, false, 2, 4, 1, 1);
    loam_node *x = normals(&b, LOAM_TYPE_F64, false, 3, 4, 1, 1);
    loam_node *whole = leaf(&b, LOAM_TYPE_F64, 5, 6, 1, 1);
    for (int i = 0; i < 30; i++)
        put(whole, i, 100 + i);
    const size_t *nb = whole->t.nb;
    loam_node *dst = loam_view(b.g, whole, (int64_t[]){2, 3, 1, 1}, nb, nb[1] + 2 * nb[0]);
    loam_node *y = loam_out_prod_into(b.g, a, x, dst);
    loam_node *again = loam_out_prod(b.g, a, x);
    run(&b);
    assert_ptr_equal(y->view_of, whole);
    for (int64_t j = 0; j < 6; j++)
        for (int64_t i = 0; i < 5; i++) {
            bool inside = i >= 2 && i < 4 && j >= 1 && j < 4;
            double expected = inside ? get(again, (j - 1) * 2 + i - 2) : (double)(100 + j * 5 + i);
            assert_close(get(whole, j * 5 + i), expected);
        }
    bench_free(&b);
}

static void product_gradients(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        bool transposed = variant & 1, broadcast = variant & 2;
        int64_t a2 = broadcast ? 2 : 1, a3 = broadcast ? 3 : 1;
        int64_t b2 = broadcast ? 4 : 1, b3 = broadcast ? 6 : 1;
        for (int op = 0; op < 2; op++) {
            bench b = bench_new(LOAM_TYPE_F64);
            /* MUL_MAT: a [3, 2], b [3, 5]; OUT_PROD: a [2, 3], b [5, 3]. */
            int64_t d0 = op ? 5 : 3, d1 = op ? 3 : 5;
            loam_node *a = normals(&b, LOAM_TYPE_F64, true, op ? 2 : 3, op ? 3 : 2, a2, a3);
            loam_node *x =
                transposed ? loam_transpose(b.g, normals(&b, LOAM_TYPE_F64, true, d1, d0, b2, b3))
                           : normals(&b, LOAM_TYPE_F64, true, d0, d1, b2, b3);
            check_gradients(&b, op ? loam_out_prod(b.g, a, x) : loam_mul_mat(b.g, a, x));
            bench_free(&b);
        }
    }
    /* A frozen quantized weight passes the gradient on and gets none. */
    for (int op = 0; op < 2; op++) {
        bench b = bench_new(LOAM_TYPE_F64);
        loam_node *w = normals(&b, LOAM_TYPE_Q4_K, false, 256, 3, 1, 1);
        loam_node *x = op ? normals(&b, LOAM_TYPE_F64, true, 2, 3, 1, 1)
                          : normals(&b, LOAM_TYPE_F64, true, 256, 2, 1, 1);
        check_gradients(&b, op ? loam_out_prod(b.g, w, x) : loam_mul_mat(b.g, w, x));
        assert_null(w->grad);
        bench_free(&b);
    }
}

/* The backward of a frozen weight reads the transposed view of dy itself. */
static void mul_mat_backward_makes_no_copy(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *w = normals(&b, LOAM_TYPE_Q4_K, false, 256, 3, 1, 1);
    loam_node *x = normals(&b, LOAM_TYPE_F64, true, 256, 2, 1, 1);
    loam_node *y = loam_mul_mat(b.g, w, x);
    loam_node *dy = normals(&b, LOAM_TYPE_F64, false, 3, 2, 1, 1);
    loam_op_get(y->op)->backward(b.g, y, dy);
    assert_int_equal(x->grad->op, LOAM_OP_OUT_PROD);
    assert_ptr_equal(x->grad->src[0], w);
    assert_int_equal(x->grad->src[1]->op, LOAM_OP_TRANSPOSE);
    assert_ptr_equal(x->grad->src[1]->view_of, dy);
    bench_free(&b);
}

static void products_refuse(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F32);
    loam_node *a = normals(&b, LOAM_TYPE_F32, false, 4, 3, 2, 1);
    loam_node *q = normals(&b, LOAM_TYPE_Q8_0, false, 32, 3, 1, 1);
    loam_node *x = normals(&b, LOAM_TYPE_F32, false, 5, 2, 2, 1);
    loam_node *odd = normals(&b, LOAM_TYPE_F32, false, 4, 3, 3, 1);
    loam_node *ids = leaf(&b, LOAM_TYPE_I32, 4, 1, 1, 1);
    assert_null(loam_mul_mat(b.g, NULL, x));
    assert_null(loam_out_prod(b.g, a, NULL));
    assert_int_equal(loam_graph_status(b.g, NULL), LOAM_OK);
    assert_refused(&b, loam_mul_mat(b.g, a, x), WORDS("MUL_MAT", "f32 [4, 3, 2]", "f32 [5, 2, 2]"));
    assert_refused(&b, loam_mul_mat(b.g, a, odd), WORDS("MUL_MAT", "[4, 3, 3]", "multiple"));
    assert_refused(&b, loam_mul_mat(b.g, a, q), WORDS("MUL_MAT", "q8_0 [32, 3]"));
    assert_refused(&b, loam_mul_mat(b.g, ids, a), WORDS("MUL_MAT", "i32 [4]"));
    assert_refused(&b, loam_mul_mat(b.g, loam_transpose(b.g, a), x), WORDS("MUL_MAT", "gaps"));
    assert_refused(&b, loam_out_prod(b.g, a, x),
                   WORDS("OUT_PROD", "f32 [4, 3, 2]", "f32 [5, 2, 2]"));
    assert_refused(&b, loam_out_prod_into(b.g, a, normals(&b, LOAM_TYPE_F32, false, 7, 3, 2, 1), x),
                   WORDS("OUT_PROD", "dst f32 [5, 2, 2]"));
    bench_free(&b);
}

/* ---- look-ups ----------------------------------------------------------------------------- */

static void rows_by_hand(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *table = normals(&b, LOAM_TYPE_Q4_K, false, 256, 4, 1, 1);
    loam_node *ids = values(&b, LOAM_TYPE_I32, 3, (double[]){2, 0, 2});
    loam_node *y = loam_get_rows(b.g, table, ids);
    loam_node *dy =
        loam_reshape_2d(b.g, values(&b, LOAM_TYPE_F64, 6, (double[]){1, 2, 3, 4, 5, 6}), 2, 3);
    loam_node *back = loam_get_rows_back(b.g, dy, ids, 4);
    run(&b);
    float decoded[1024];
    loam_decode(LOAM_TYPE_Q4_K, table->t.data, decoded, 1024);
    for (int i = 0; i < 256; i++) {
        assert_close(get(y, i), (double)decoded[512 + i]);
        assert_close(get(y, 256 + i), (double)decoded[i]);
        assert_close(get(y, 512 + i), (double)decoded[512 + i]);
    }
    const double expected[] = {3, 4, 0, 0, 1 + 5, 2 + 6, 0, 0};
    for (int i = 0; i < 8; i++)
        assert_close(get(back, i), expected[i]);
    bench_free(&b);
}

static void get_rows_in_batches(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *a = normals(&b, LOAM_TYPE_F32, false, 3, 5, 2, 2);
    loam_node *ids = leaf(&b, LOAM_TYPE_I32, 4, 2, 2, 1);
    for (int i = 0; i < 16; i++)
        put(ids, i, (i * 7) % 5);
    loam_node *y = loam_get_rows(b.g, a, ids);
    run(&b);
    for (int i = 0; i < 16; i++)
        for (int l = 0; l < 3; l++)
            assert_close(loam_get(&y->t, l, i % 4, i / 4 % 2, i / 8),
                         loam_get(&a->t, l, (i * 7) % 5, i / 4 % 2, i / 8));
    bench_free(&b);
}

static void row_gradients(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *ids = values(&b, LOAM_TYPE_I32, 4, (double[]){1, 3, 1, 0});
    loam_node *table = normals(&b, LOAM_TYPE_F64, true, 3, 5, 1, 1);
    check_gradients(&b, loam_get_rows(b.g, table, ids));
    bench_free(&b);

    b = bench_new(LOAM_TYPE_F64);
    ids = values(&b, LOAM_TYPE_I32, 4, (double[]){1, 3, 1, 0});
    check_gradients(&b,
                    loam_get_rows_back(b.g, normals(&b, LOAM_TYPE_F64, true, 3, 4, 1, 1), ids, 5));
    bench_free(&b);

    b = bench_new(LOAM_TYPE_F64);
    ids = values(&b, LOAM_TYPE_I32, 3, (double[]){4, 0, 2});
    loam_node *cache = normals(&b, LOAM_TYPE_F64, false, 3, 5, 1, 1);
    check_gradients(&b,
                    loam_set_rows(b.g, cache, normals(&b, LOAM_TYPE_F64, true, 3, 3, 1, 1), ids));
    bench_free(&b);
}

static void set_rows_in_place(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *cache = leaf(&b, LOAM_TYPE_F16, 2, 4, 1, 1);
    for (int i = 0; i < 8; i++)
        put(cache, i, i);
    loam_node *rows = loam_transpose(
        b.g, loam_reshape_2d(b.g, values(&b, LOAM_TYPE_F64, 4, (double[]){10, 20, 11, 21}), 2, 2));
    loam_node *ids = values(&b, LOAM_TYPE_I64, 2, (double[]){3, 1});
    loam_node *y = loam_set_rows(b.g, cache, rows, ids);
    run(&b);
    assert_ptr_equal(y->view_of, cache);
    const double expected[] = {0, 1, 20, 21, 4, 5, 10, 11};
    for (int i = 0; i < 8; i++)
        assert_close(get(cache, i), expected[i]);
    bench_free(&b);
}

static void rows_refuse(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *a = normals(&b, LOAM_TYPE_F64, false, 3, 5, 2, 1);
    loam_node *flat = normals(&b, LOAM_TYPE_F64, false, 3, 5, 1, 1);
    loam_node *ids = values(&b, LOAM_TYPE_I32, 2, (double[]){1, 5});
    loam_node *rows = normals(&b, LOAM_TYPE_F64, false, 3, 2, 1, 1);
    loam_node *trained = normals(&b, LOAM_TYPE_F64, true, 3, 5, 1, 1);
    assert_refused(&b, loam_get_rows(b.g, a, ids), WORDS("GET_ROWS", "[3, 5, 2]", "i32 [2]"));
    assert_refused(&b, loam_get_rows(b.g, flat, rows), WORDS("GET_ROWS", "i32"));
    assert_refused(&b, loam_get_rows_back(b.g, flat, ids, 4), WORDS("GET_ROWS_BACK", "[3, 5]"));
    assert_refused(&b, loam_set_rows(b.g, flat, flat, ids), WORDS("SET_ROWS", "[3, 5]", "i32 [2]"));
    assert_refused(&b, loam_set_rows(b.g, trained, rows, ids), WORDS("SET_ROWS", "overwritten"));
    /* An id past the table is found when it runs, not read. */
    loam_error e = {0};
    loam_set_name(loam_get_rows(b.g, flat, ids), "look-up");
    assert_int_equal(run_to(&b, b.g->n_nodes, &e), LOAM_E_USAGE);
    assert_non_null(strstr(e.message, "look-up"));
    assert_non_null(strstr(e.message, "id 5"));
    bench_free(&b);
}

/* ---- attention ---------------------------------------------------------------------------- */

static loam_node *ranges_of(bench *b, int n, const double *pairs)
{
    loam_node *r = leaf(b, LOAM_TYPE_I32, 2, n, 1, 1);
    for (int i = 0; i < 2 * n; i++)
        put(r, i, pairs[i]);
    return r;
}

static void attention_by_hand(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    /* One head of size 1: scores 2 q k = 0, 2 ln 3 / 2 ... p = 1/4, 3/4. */
    loam_node *q = values(&b, LOAM_TYPE_F64, 1, (double[]){1});
    loam_node *k =
        loam_reshape_3d(b.g, values(&b, LOAM_TYPE_F64, 2, (double[]){0, log(3) / 2}), 1, 1, 2);
    loam_node *v = loam_reshape_3d(b.g, values(&b, LOAM_TYPE_F64, 2, (double[]){8, 16}), 1, 1, 2);
    loam_node *y = loam_flash_attn_ext(b.g, q, k, v, ranges_of(&b, 1, (double[]){0, 2}), 2);
    run(&b);
    assert_null(y->aux);
    assert_close(get(y, 0), 8 * 0.25 + 16 * 0.75);
    bench_free(&b);
}

/* Softmax over all keys with those outside the range at -infinity, head by head. */
static void attention_follows_the_formula(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    int64_t d = 4, dv = 3, n_head = 4, n_kv = 2, n_t = 5, n_k = 6;
    loam_node *q = normals(&b, LOAM_TYPE_F64, true, d, n_head, n_t, 1);
    loam_node *k = normals(&b, LOAM_TYPE_F16, false, d, n_kv, n_k, 1);
    loam_node *v = normals(&b, LOAM_TYPE_F64, false, dv, n_kv, n_k, 1);
    loam_node *r = ranges_of(&b, 5, (double[]){0, 1, 0, 6, 2, 4, 3, 3, 5, 6});
    loam_node *y = loam_flash_attn_ext(b.g, q, k, v, r, 0.7f);
    run(&b);
    assert_non_null(y->aux);
    for (int64_t t = 0; t < n_t; t++)
        for (int64_t h = 0; h < n_head; h++) {
            double p[6], sum = 0;
            for (int64_t j = 0; j < n_k; j++) {
                double s = 0;
                for (int64_t i = 0; i < d; i++)
                    s += loam_get(&q->t, i, h, t, 0) * loam_get(&k->t, i, h / 2, j, 0);
                bool sees = j >= (int64_t)get(r, 2 * t) && j < (int64_t)get(r, 2 * t + 1);
                p[j] = sees ? exp((double)0.7f * s) : 0;
                sum += p[j];
            }
            double lse = loam_get(&y->aux->t, h, t, 0, 0);
            if (sum > 0)
                assert_close(lse, log(sum));
            else
                assert_true(isinf(lse) && lse < 0);
            for (int64_t i = 0; i < dv; i++) {
                double expected = 0;
                for (int64_t j = 0; j < n_k && sum > 0; j++)
                    expected += p[j] / sum * loam_get(&v->t, i, h / 2, j, 0);
                assert_close(loam_get(&y->t, i, h, t, 0), expected);
            }
        }
    bench_free(&b);
}

static void attention_gradients(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        bench b = bench_new(LOAM_TYPE_F64);
        loam_node *q, *k, *v;
        if (fused) {
            loam_node *all = normals(&b, LOAM_TYPE_F64, true, 3, 8, 5, 1);
            const size_t *nb = all->t.nb;
            q = loam_view(b.g, all, (int64_t[]){3, 4, 5, 1}, nb, 0);
            k = loam_view(b.g, all, (int64_t[]){3, 2, 5, 1}, nb, 4 * nb[1]);
            v = loam_view(b.g, all, (int64_t[]){3, 2, 5, 1}, nb, 6 * nb[1]);
        } else {
            q = normals(&b, LOAM_TYPE_F64, true, 3, 4, 5, 1);
            k = normals(&b, LOAM_TYPE_F64, true, 3, 2, 6, 1);
            v = normals(&b, LOAM_TYPE_F64, true, 2, 2, 6, 1);
        }
        loam_node *r = ranges_of(&b, 5, (double[]){0, 1, 0, 5, 2, 4, 3, 3, 1, 5});
        check_gradients(&b, loam_flash_attn_ext(b.g, q, k, v, r, 0.7f));
        bench_free(&b);
    }
}

static void attention_refuses(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *q = normals(&b, LOAM_TYPE_F64, false, 4, 4, 2, 1);
    loam_node *k = normals(&b, LOAM_TYPE_F64, false, 4, 2, 3, 1);
    loam_node *k3 = normals(&b, LOAM_TYPE_F64, false, 4, 3, 3, 1);
    loam_node *r = ranges_of(&b, 2, (double[]){0, 3, 1, 4});
    loam_node *r3 = ranges_of(&b, 3, (double[]){0, 1, 0, 1, 0, 1});
    assert_refused(&b, loam_flash_attn_ext(b.g, q, k3, k3, r, 1),
                   WORDS("FLASH_ATTN_EXT", "[4, 3, 3]"));
    assert_refused(&b, loam_flash_attn_ext(b.g, q, k, k3, r, 1),
                   WORDS("FLASH_ATTN_EXT", "[4, 2, 3]"));
    assert_refused(&b, loam_flash_attn_ext(b.g, q, k, k, r3, 1),
                   WORDS("FLASH_ATTN_EXT", "i32 [2, 3]"));
    assert_refused(&b, loam_flash_attn_ext(b.g, loam_transpose(b.g, q), k, k, r, 1),
                   WORDS("FLASH_ATTN_EXT", "contiguous"));
    loam_node *y = loam_flash_attn_ext(b.g, q, k, k, r, 1);
    assert_refused(&b, loam_flash_attn_back(b.g, y, y), WORDS("FLASH_ATTN_BACK", "gradient"));
    loam_error e = {0};
    assert_int_equal(run_to(&b, b.g->n_nodes, &e), LOAM_E_USAGE);
    assert_non_null(strstr(e.message, "query 1 sees keys [1, 4), but there are 3"));
    bench_free(&b);
}

/* ---- losses ------------------------------------------------------------------------------- */

static void cross_entropy_by_hand(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    /* Three rows: even logits with a one-hot label; a huge logit that the label names; a masked
     * row. The mean is over all three. */
    loam_node *a =
        loam_reshape_2d(b.g, values(&b, LOAM_TYPE_F64, 6, (double[]){5, 5, 1e4, -1e4, 3, 4}), 2, 3);
    loam_node *labels =
        loam_reshape_2d(b.g, values(&b, LOAM_TYPE_F64, 6, (double[]){0, 1, 1, 0, 0, 0}), 2, 3);
    loam_node *y = loam_cross_entropy_loss(b.g, a, labels);
    loam_node *dy = values(&b, LOAM_TYPE_F64, 1, (double[]){6});
    loam_node *da = loam_cross_entropy_loss_back(b.g, dy, a, labels);
    run(&b);
    assert_close(get(y, 0), log(2) / 3);
    const double expected[] = {0.5 * 2, -0.5 * 2, 0, 0, 0, 0};
    for (int i = 0; i < 6; i++)
        assert_close(get(da, i), expected[i]);
    bench_free(&b);
}

static void cross_entropy_gradients(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *a = normals(&b, LOAM_TYPE_F64, true, 4, 3, 2, 1);
    loam_node *labels = leaf(&b, LOAM_TYPE_F64, 4, 3, 2, 1);
    for (int i = 4; i < 24; i++) /* row 0 is masked; the others do not sum to 1 */
        put(labels, i, loam_rng_uniform(&b.rng));
    check_gradients(&b, loam_cross_entropy_loss(b.g, a, labels));
    assert_refused(&b, loam_cross_entropy_loss(b.g, labels, a),
                   WORDS("CROSS_ENTROPY_LOSS", "labels", "gradient"));
    assert_refused(&b, loam_cross_entropy_loss(b.g, a, loam_transpose(b.g, labels)),
                   WORDS("CROSS_ENTROPY_LOSS", "f64 [4, 3, 2]", "f64 [3, 4, 2]"));
    bench_free(&b);
}

/* Against MUL_MAT and CROSS_ENTROPY_LOSS of each token by itself. */
static void linear_cross_entropy_is_both_ops(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *w = normals(&b, LOAM_TYPE_Q8_0, false, 32, 11, 1, 1);
    loam_node *x = normals(&b, LOAM_TYPE_F64, false, 32, 4, 1, 1);
    const double ids[] = {3, -1, 10, 0};
    loam_node *y = loam_linear_cross_entropy(b.g, w, x, values(&b, LOAM_TYPE_I32, 4, ids));
    loam_node *logits = loam_mul_mat(b.g, w, x);
    loam_node *losses[4];
    for (int t = 0; t < 4; t++) {
        loam_node *label = leaf(&b, LOAM_TYPE_F64, 11, 1, 1, 1);
        if (ids[t] >= 0)
            put(label, (int64_t)ids[t], 1);
        loam_node *column =
            loam_view(b.g, logits, label->t.ne, logits->t.nb, (size_t)t * logits->t.nb[1]);
        losses[t] = loam_cross_entropy_loss(b.g, column, label);
    }
    run(&b);
    for (int t = 0; t < 4; t++)
        assert_close(get(y, t), get(losses[t], 0));
    assert_true(get(y, 1) == 0);
    bench_free(&b);
}

static void linear_cross_entropy_gradients(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *w = normals(&b, LOAM_TYPE_F64, false, 6, 9, 1, 1);
    loam_node *x = normals(&b, LOAM_TYPE_F64, true, 6, 4, 1, 1);
    loam_node *labels = values(&b, LOAM_TYPE_I32, 4, (double[]){3, -1, 8, 0});
    loam_node *y = loam_linear_cross_entropy(b.g, w, x, labels);
    check_gradients(&b, y);
    for (int i = 0; i < 6; i++)
        assert_true(loam_get(&y->aux->t, i, 1, 0, 0) == 0);
    bench_free(&b);

    b = bench_new(LOAM_TYPE_F64);
    w = normals(&b, LOAM_TYPE_F64, true, 6, 9, 1, 1);
    x = normals(&b, LOAM_TYPE_F64, true, 6, 4, 1, 1);
    labels = values(&b, LOAM_TYPE_I32, 4, (double[]){3, -1, 9, 0});
    assert_refused(&b, loam_linear_cross_entropy(b.g, w, x, labels),
                   WORDS("LINEAR_CROSS_ENTROPY", "frozen", "MUL_MAT"));
    assert_refused(&b, loam_linear_cross_entropy(b.g, x, w, labels),
                   WORDS("LINEAR_CROSS_ENTROPY", "f64 [6, 4]", "f64 [6, 9]"));
    w = normals(&b, LOAM_TYPE_F64, false, 6, 9, 1, 1);
    loam_linear_cross_entropy(b.g, w, x, labels);
    loam_error e = {0};
    assert_int_equal(run_to(&b, b.g->n_nodes, &e), LOAM_E_USAGE);
    assert_non_null(strstr(e.message, "label 9 of token 2"));
    bench_free(&b);
}

/* ---- optimizer ---------------------------------------------------------------------------- */

static void adamw_by_hand(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *p = values(&b, LOAM_TYPE_F64, 3, (double[]){1, 2, 3});
    loam_node *grad = values(&b, LOAM_TYPE_F64, 3, (double[]){4, -0.5, 0});
    loam_node *m = values(&b, LOAM_TYPE_F64, 3, (double[]){0, 0, 0});
    loam_node *v = values(&b, LOAM_TYPE_F64, 3, (double[]){0, 0, 0});
    /* Step 1: the bias corrections make the step alpha * sign(g). */
    loam_node *hyper = values(&b, LOAM_TYPE_F64, 7, (double[]){0.1, 0.9, 0.99, 0, 0.5, 10, 100});
    loam_node *one = loam_opt_step_adamw(b.g, p, grad, m, v, hyper);
    put(hyper, 3, 1e-300);
    run(&b);
    assert_ptr_equal(one->view_of, p);
    assert_close(get(p, 0), 1 * 0.95 - 0.1);
    assert_close(get(p, 1), 2 * 0.95 + 0.1);
    assert_close(get(p, 2), 3 * 0.95);
    assert_close(get(m, 0), 0.4);
    assert_close(get(v, 0), 0.16);
    assert_close(get(v, 1), 0.0025);
    /* Step 2, worked out with the formula. */
    put(hyper, 5, 1 / (1 - 0.9 * 0.9));
    put(hyper, 6, 1 / (1 - 0.99 * 0.99));
    put(grad, 0, -1);
    double before = get(p, 0), m2 = 0.9 * 0.4 - 0.1, v2 = 0.99 * 0.16 + 0.01;
    run(&b);
    assert_close(get(p, 0), before * 0.95 - 0.1 * (m2 / 0.19) / sqrt(v2 / 0.0199));
    bench_free(&b);
}

static void sgd_and_norms_by_hand(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F64);
    loam_node *p = values(&b, LOAM_TYPE_F64, 2, (double[]){1, 2});
    loam_node *grad = values(&b, LOAM_TYPE_F64, 2, (double[]){3, -4});
    loam_node *norm = loam_grad_norm(b.g, grad);
    loam_node *clipped = loam_clip_norm(b.g, grad, norm, 2.5f);
    loam_opt_step_sgd(b.g, p, clipped, values(&b, LOAM_TYPE_F64, 2, (double[]){0.1, 0.2}));
    run(&b);
    assert_close(get(norm, 0), 5);
    assert_close(get(grad, 0), 1.5);
    assert_close(get(grad, 1), -2);
    assert_close(get(p, 0), 1 * 0.98 - 0.15);
    assert_close(get(p, 1), 2 * 0.98 + 0.2);
    bench_free(&b);

    /* Small enough, and not a number: nothing changes. */
    const double norms[] = {2.5, 0, INFINITY, NAN};
    for (int i = 0; i < 4; i++) {
        b = bench_new(LOAM_TYPE_F64);
        grad = values(&b, LOAM_TYPE_F64, 2, (double[]){3, -4});
        loam_clip_norm(b.g, grad, values(&b, LOAM_TYPE_F64, 1, &norms[i]), 2.5f);
        run(&b);
        assert_true(get(grad, 0) == 3 && get(grad, 1) == -4);
        bench_free(&b);
    }
}

static void optimizer_refuses(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F32);
    loam_node *p = normals(&b, LOAM_TYPE_F32, true, 3, 2, 1, 1);
    loam_node *other = normals(&b, LOAM_TYPE_F32, false, 2, 3, 1, 1);
    loam_node *hyper = normals(&b, LOAM_TYPE_F32, false, 7, 1, 1, 1);
    assert_refused(&b, loam_opt_step_adamw(b.g, p, p, other, p, hyper),
                   WORDS("OPT_STEP_ADAMW", "m f32 [2, 3]", "f32 [3, 2]"));
    assert_refused(&b, loam_opt_step_sgd(b.g, p, p, hyper), WORDS("OPT_STEP_SGD", "f32 [7]"));
    assert_refused(&b, loam_clip_norm(b.g, p, other, 1), WORDS("CLIP_NORM", "f32 [2, 3]"));
    assert_refused(&b, loam_clip_norm(b.g, p, normals(&b, LOAM_TYPE_F32, false, 1, 1, 1, 1), 0),
                   WORDS("CLIP_NORM", "positive"));
    assert_refused(&b, loam_grad_norm(b.g, leaf(&b, LOAM_TYPE_I32, 3, 1, 1, 1)),
                   WORDS("GRAD_NORM", "i32 [3]"));
    bench_free(&b);
}

/* ---- cases -------------------------------------------------------------------------------- */

static const loam_op tested[] = {
    LOAM_OP_MUL_MAT,
    LOAM_OP_OUT_PROD,
    LOAM_OP_GET_ROWS,
    LOAM_OP_GET_ROWS_BACK,
    LOAM_OP_SET_ROWS,
    LOAM_OP_FLASH_ATTN_EXT,
    LOAM_OP_FLASH_ATTN_BACK,
    LOAM_OP_CROSS_ENTROPY_LOSS,
    LOAM_OP_CROSS_ENTROPY_LOSS_BACK,
    LOAM_OP_LINEAR_CROSS_ENTROPY,
    LOAM_OP_OPT_STEP_ADAMW,
    LOAM_OP_OPT_STEP_SGD,
    LOAM_OP_GRAD_NORM,
    LOAM_OP_CLIP_NORM,
};

static int by_label(const void *a, const void *b)
{
    return strcmp(((const loam_case *)a)->label, ((const loam_case *)b)->label);
}

static void cases_build_and_differ(void **state)
{
    (void)state;
    for (int o = 0; o < LOAM_COUNT(tested); o++) {
        loam_case_list list = {0};
        loam_op_get(tested[o])->cases(&list);
        assert_false(list.failed);
        assert_true(list.n > 0);
        int n_slow = 0, n_grad = 0;
        for (int i = 0; i < list.n; i++) {
            assert_int_equal(list.cases[i].op, tested[o]);
            n_slow += list.cases[i].is_slow;
            n_grad += list.cases[i].check_grad;
            for (int wide = 0; wide < 2; wide++) {
                loam_graph *g;
                loam_error e = {0};
                loam_type activation = wide ? LOAM_TYPE_F64 : LOAM_TYPE_F32;
                assert_int_equal(loam_graph_create(activation, &g, NULL), LOAM_OK);
                const loam_node *n = list.cases[i].build(g, &list.cases[i]);
                if (!n || loam_graph_status(g, &e) != LOAM_OK)
                    fail_msg("%s %s: %s", loam_op_get(tested[o])->name, list.cases[i].label,
                             e.message);
                assert_true(loam_is_contiguous(&n->t));
                loam_graph_free(g);
            }
        }
        print_message("%s: %d cases, %d slow, %d with gradients\n", loam_op_get(tested[o])->name,
                      list.n, n_slow, n_grad);
        qsort(list.cases, (size_t)list.n, sizeof *list.cases, by_label);
        for (int i = 1; i < list.n; i++)
            if (strcmp(list.cases[i - 1].label, list.cases[i].label) == 0)
                fail_msg("%s twice: %s", loam_op_get(tested[o])->name, list.cases[i].label);
        loam_free(list.cases);
    }
}

/* Both layouts, the long sums and the pieces that public suites leave out. */
static void out_prod_cases_hold(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "type_a=q4_K,m=256,n=16,k=600000,bs=[1,1],nr=[1,1],layout=transposed",
        "type_a=q8_0,m=256,n=16,k=600000,bs=[1,1],nr=[1,1],layout=rows",
        "type_a=iq1_m,m=5120,n=77,k=16,bs=[1,1],nr=[1,1],layout=transposed",
        "type_a=mxfp4,m=256,n=16,k=5120,bs=[1,1],nr=[1,1],layout=transposed",
        "type_a=tq1_0,m=256,n=7,k=16,bs=[3,3],nr=[2,2],layout=transposed",
        "type_a=f32,m=5120,n=16,k=5120,bs=[1,1],nr=[1,1],layout=transposed",
        "type_a=f32,m=16,n=77,k=600,bs=[1,1],nr=[1,1],layout=rows",
        "type_a=q4_K,m=256,n=16,k=600,bs=[1,1],nr=[1,1],layout=transposed,scratch=256000",
        "type_a=q4_K,m=256,n=16,k=48,bs=[2,1],nr=[2,1],layout=transposed,dst=view",
        "type_a=f32,m=1,n=77,k=320,bs=[1,1],nr=[1,1],layout=transposed",
    };
    loam_case_list list = {0};
    loam_op_get(LOAM_OP_OUT_PROD)->cases(&list);
    for (int i = 0; i < LOAM_COUNT(expected); i++) {
        bool found = false;
        for (int k = 0; k < list.n && !found; k++)
            found = strcmp(list.cases[k].label, expected[i]) == 0;
        if (!found)
            fail_msg("no case %s", expected[i]);
    }
    loam_free(list.cases);
}

/* One node of each op whose reference allocates. */
static void build_each(bench *b)
{
    loam_node *w = normals(b, LOAM_TYPE_F32, false, 4, 3, 1, 1);
    loam_node *x = normals(b, LOAM_TYPE_F32, true, 4, 2, 1, 1);
    loam_node *ranges = ranges_of(b, 2, (double[]){0, 1, 0, 2});
    loam_node *labels = values(b, LOAM_TYPE_I32, 2, (double[]){1, -1});
    loam_node *ids = values(b, LOAM_TYPE_I32, 2, (double[]){1, 0});
    loam_node *heads = loam_reshape_3d(b->g, x, 2, 2, 2);
    loam_node *y = loam_flash_attn_ext(b->g, heads, heads, heads, ranges, 1);
    loam_flash_attn_back(b->g, y, y);
    loam_linear_cross_entropy(b->g, w, x, labels);
    loam_grad_norm(b->g, loam_get_rows_back(b->g, loam_get_rows(b->g, x, ids), ids, 3));
    loam_node *logits = loam_mul_mat(b->g, w, x);
    loam_out_prod(b->g, logits, logits);
    loam_node *soft = normals(b, LOAM_TYPE_F32, false, 3, 2, 1, 1);
    loam_node *loss = loam_cross_entropy_loss(b->g, logits, soft);
    loam_cross_entropy_loss_back(b->g, loss, logits, soft);
}

static void references_survive_no_memory(void **state)
{
    (void)state;
    bench b = bench_new(LOAM_TYPE_F32);
    build_each(&b);
    run(&b);
    for (int i = 0; i < b.g->n_nodes; i++) {
        const loam_op_def *op = loam_op_get(b.g->nodes[i]->op);
        if (!op->reference)
            continue;
        loam_status status = LOAM_E_MEMORY;
        for (int n = 0; status != LOAM_OK; n++) {
            assert_true(n < 20);
            loam_error failure = {0};
            loam_alloc_fail_after(n);
            status = op->reference(b.g->nodes[i], &failure);
            loam_alloc_fail_after(-1);
            if (status != LOAM_OK) {
                assert_int_equal(status, LOAM_E_MEMORY);
                assert_non_null(strstr(failure.message, op->name));
            }
        }
    }
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mul_mat_by_hand),
        cmocka_unit_test(products_follow_the_formula),
        cmocka_unit_test(out_prod_into_a_view),
        cmocka_unit_test(product_gradients),
        cmocka_unit_test(mul_mat_backward_makes_no_copy),
        cmocka_unit_test(products_refuse),
        cmocka_unit_test(rows_by_hand),
        cmocka_unit_test(get_rows_in_batches),
        cmocka_unit_test(row_gradients),
        cmocka_unit_test(set_rows_in_place),
        cmocka_unit_test(rows_refuse),
        cmocka_unit_test(attention_by_hand),
        cmocka_unit_test(attention_follows_the_formula),
        cmocka_unit_test(attention_gradients),
        cmocka_unit_test(attention_refuses),
        cmocka_unit_test(cross_entropy_by_hand),
        cmocka_unit_test(cross_entropy_gradients),
        cmocka_unit_test(linear_cross_entropy_is_both_ops),
        cmocka_unit_test(linear_cross_entropy_gradients),
        cmocka_unit_test(adamw_by_hand),
        cmocka_unit_test(sgd_and_norms_by_hand),
        cmocka_unit_test(optimizer_refuses),
        cmocka_unit_test(cases_build_and_differ),
        cmocka_unit_test(out_prod_cases_hold),
        cmocka_unit_test(references_survive_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
