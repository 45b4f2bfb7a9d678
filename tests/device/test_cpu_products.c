/* Products, attention and the linear loss at sizes that the CPU cuts into several panels, strips,
 * pieces, chunks, segments and waves: against the references, in F32 and BF16, the same bits at any
 * number of threads, and at any limit of the decode scratch nearly the same numbers. */
#include "cpu_support.h"

#define F32_BAR 1e-10

static loam_device *f32_devices[3], *bf16_devices[3];

/* Runs on a set of devices; `bar` against the reference on the first, equal bits on the others. */
static void check_on(bench *b, const loam_node *result, loam_device *const *devices, double bar,
                     const char *what)
{
    int64_t n = loam_tensor_ne(&result->t);
    double *expected = run_references(b, result);
    double *first = run_device(b, devices[0], result);
    double error = nmse(first, expected, n);
    if (!(error <= bar))
        print_error("%s: NMSE %g over %g\n", what, error, bar);
    assert_true(error <= bar);
    for (int i = 1; i < 3; i++) {
        double *got = run_device(b, devices[i], result);
        assert_memory_equal(got, first, (size_t)n * sizeof *got);
        loam_free(got);
    }
    loam_free(first);
    loam_free(expected);
}

static void check_both(bench *b, const loam_node *result, const char *what)
{
    loam_error e = {0};
    if (loam_graph_status(b->g, &e) != LOAM_OK)
        print_error("%s: %s\n", what, e.message);
    assert_non_null(result);
    bench_bind(b);
    check_on(b, result, f32_devices, F32_BAR, what);
    check_on(b, result, bf16_devices, LOAM_BAR_PRODUCT, what);
}

/* ---- MUL_MAT and OUT_PROD ----------------------------------------------------------------- */

typedef struct product {
    loam_type type;
    int64_t n_in, n_out, n, batches;
    bool gap;    /* x is a piece of a wider tensor */
    bool turned; /* the second operand lies the other way round */
} product;

/* [width, rows, batches], with gaps between rows, or as a transposed view. */
static loam_node *operand(bench *b, int64_t width, int64_t rows, int64_t batches, bool gap,
                          bool turned)
{
    if (turned) {
        loam_node *t = loam_leaf(b->g, LOAM_TYPE_F32, (int64_t[]){rows, width, batches, 1}, "t");
        return loam_transpose(b->g, t);
    }
    int64_t whole = width + (gap ? 5 : 0);
    loam_node *x = loam_leaf(b->g, LOAM_TYPE_F32, (int64_t[]){whole, rows, batches, 1}, "x");
    if (!gap || !x)
        return x;
    return loam_view(b->g, x, (int64_t[]){width, rows, batches, 1}, x->t.nb, 3 * sizeof(float));
}

static void check_products(const product *p)
{
    char what[160];
    for (int back = 0; back < 2; back++) {
        snprintf(what, sizeof what, "%s %s %lld x %lld, n %lld, %lld batches%s%s",
                 back ? "OUT_PROD" : "MUL_MAT", loam_type_name(p->type), (long long)p->n_in,
                 (long long)p->n_out, (long long)p->n, (long long)p->batches, p->gap ? ", gap" : "",
                 p->turned ? ", turned" : "");
        bench b = bench_open(what);
        loam_node *w = loam_leaf_2d(b.g, p->type, p->n_in, p->n_out, "w");
        loam_node *result;
        if (back) {
            /* [n, n_out]: contiguous rows, or the transposed view that a backward passes. */
            loam_node *dy = operand(&b, p->n, p->n_out, p->batches, p->gap, !p->turned);
            result = loam_out_prod(b.g, w, dy);
        } else {
            result =
                loam_mul_mat(b.g, w, operand(&b, p->n_in, p->n, p->batches, p->gap, p->turned));
        }
        check_both(&b, result, what);
        bench_close(&b);
    }
}

static void test_cut_products(void **state)
{
    (void)state;
    static const product products[] = {
        /* several panels and strips, ends that do not divide */
        {LOAM_TYPE_Q4_K, 512, 1100, 40, 1, false, false},
        {LOAM_TYPE_Q8_0, 544, 200, 33, 1, false, false},
        {LOAM_TYPE_F32, 533, 301, 29, 1, true, false},
        {LOAM_TYPE_F16, 300, 130, 21, 1, false, true},
        {LOAM_TYPE_BF16, 300, 130, 21, 1, false, false},
        {LOAM_TYPE_BF16, 301, 129, 9, 1, true, true},
        /* long rows in pieces along k, many rows in tiles */
        {LOAM_TYPE_Q6_K, 2304, 70, 18, 1, false, false},
        {LOAM_TYPE_Q4_0, 1600, 1300, 9, 1, false, false},
        /* few panels: the other operand is cut */
        {LOAM_TYPE_Q4_K, 256, 48, 500, 1, false, false},
        {LOAM_TYPE_F32, 256, 16, 700, 1, false, false},
        {LOAM_TYPE_F32, 16, 256, 700, 1, false, true},
        /* batches, merged and not */
        {LOAM_TYPE_Q4_K, 256, 100, 13, 3, false, false},
        {LOAM_TYPE_Q8_0, 96, 100, 13, 3, true, false},
        {LOAM_TYPE_F32, 96, 100, 13, 3, true, true},
        /* generation */
        {LOAM_TYPE_Q4_K, 512, 99, 1, 1, false, false},
        {LOAM_TYPE_IQ4_XS, 256, 70, 7, 1, true, false},
        {LOAM_TYPE_F32, 77, 70, 8, 2, false, true},
        {LOAM_TYPE_F16, 70, 77, 3, 1, false, false},
    };
    for (int i = 0; i < LOAM_COUNT(products); i++)
        check_products(&products[i]);
}

static void test_random_products(void **state)
{
    (void)state;
    loam_rng r = loam_rng_stream(5, "shapes");
    static const loam_type types[] = {LOAM_TYPE_F32,  LOAM_TYPE_F16,   LOAM_TYPE_BF16,
                                      LOAM_TYPE_Q8_0, LOAM_TYPE_Q4_K,  LOAM_TYPE_Q5_K,
                                      LOAM_TYPE_Q6_K, LOAM_TYPE_IQ2_XS};
    for (int i = 0; i < 40; i++) {
        loam_type type = types[loam_rng_below(&r, LOAM_COUNT(types))];
        int64_t block = loam_type_get((int)type)->block_ne;
        int64_t blocks = 1 + (int64_t)loam_rng_below(&r, (uint64_t)(600 / block + 1));
        check_products(&(product){type, blocks * block, 1 + (int64_t)loam_rng_below(&r, 300),
                                  1 + (int64_t)loam_rng_below(&r, 60),
                                  1 + (int64_t)loam_rng_below(&r, 3), loam_rng_below(&r, 2),
                                  loam_rng_below(&r, 2)});
    }
}

/* The limit on decoded pieces bounds scratch, and changes results by rounding only. */
static void test_scratch_limit(void **state)
{
    (void)state;
    for (int back = 0; back < 2; back++) {
        bench b = bench_open("limit");
        loam_node *w = loam_leaf_2d(b.g, LOAM_TYPE_Q4_K, 2048, 600, "w");
        loam_node *x = loam_leaf_2d(b.g, LOAM_TYPE_F32, back ? 600 : 2048, 24, "x");
        loam_node *y =
            back ? loam_out_prod(b.g, w, loam_transpose(b.g, x)) : loam_mul_mat(b.g, w, x);
        bench_bind(&b);
        double *expected = run_references(&b, y);
        loam_device *d = f32_devices[1];
        size_t usual = d->api->scratch_bytes(d, y);
        static const size_t limits[] = {1, 5000, 70000};
        for (int i = 0; i < LOAM_COUNT(limits); i++) {
            d->api->set_scratch_limit(d, limits[i]);
            /* One row of a piece is the least; two workers. */
            size_t most = 2 * LOAM_MAX(limits[i], (size_t)(1024 + 16) * 4) + 128;
            assert_true(d->api->scratch_bytes(d, y) <= most);
            double *got = run_device(&b, d, y);
            assert_true(nmse(got, expected, loam_tensor_ne(&y->t)) <= F32_BAR);
            loam_free(got);
        }
        d->api->set_scratch_limit(d, 0);
        assert_int_equal(d->api->scratch_bytes(d, y), usual);
        loam_free(expected);
        bench_close(&b);
    }
}

/* A weight's scratch does not grow with it, and a batch's logits are not kept. */
static void test_scratch_is_bounded(void **state)
{
    (void)state;
    loam_device *d = f32_devices[0];
    bench b = bench_open("bounded");
    loam_node *w = loam_leaf_2d(b.g, LOAM_TYPE_Q4_K, 5120, 151936, "w");
    loam_node *x = loam_leaf_2d(b.g, LOAM_TYPE_F32, 5120, 512, "x");
    loam_node *dy = loam_leaf_2d(b.g, LOAM_TYPE_F32, 151936, 512, "dy");
    loam_node *labels = loam_leaf_1d(b.g, LOAM_TYPE_I32, 512, "labels");
    loam_set_param(x);
    size_t mib = (size_t)1 << 20;
    assert_true(d->api->scratch_bytes(d, loam_mul_mat(b.g, w, x)) <= 1 * mib);
    assert_true(d->api->scratch_bytes(d, loam_out_prod(b.g, w, loam_transpose(b.g, dy))) <=
                1 * mib);
    /* Four segments' sums of 512 gradients, and the operands: not 512 x 151936 floats. */
    assert_true(d->api->scratch_bytes(d, loam_linear_cross_entropy(b.g, w, x, labels)) <= 64 * mib);
    bench_close(&b);
}

/* ---- LINEAR_CROSS_ENTROPY ----------------------------------------------------------------- */

static void check_linear_loss(loam_type type, int64_t width, int64_t vocabulary, int64_t tokens,
                              double masked, double spread)
{
    char what[160];
    snprintf(what, sizeof what, "LINEAR_CROSS_ENTROPY %s %lld x %lld, %lld tokens",
             loam_type_name(type), (long long)width, (long long)vocabulary, (long long)tokens);
    for (int dx = 0; dx < 2; dx++) {
        bench b = bench_open(what);
        loam_node *w = loam_leaf_2d(b.g, type, width, vocabulary, "w");
        loam_node *x = loam_leaf_2d(b.g, LOAM_TYPE_F32, width, tokens, "x");
        loam_node *labels = loam_leaf_1d(b.g, LOAM_TYPE_I32, tokens, "labels");
        if (dx)
            loam_set_param(x);
        loam_node *loss = loam_linear_cross_entropy(b.g, w, x, labels);
        loam_node *result = dx ? loam_cont(b.g, loss->aux) : loss;
        labels->t.data = loam_alloc((size_t)tokens * sizeof(int32_t));
        for (int64_t t = 0; t < tokens; t++)
            ((int32_t *)labels->t.data)[t] =
                loam_rng_uniform(&b.rng) < masked
                    ? -1
                    : (int32_t)loam_rng_below(&b.rng, (uint64_t)vocabulary);
        bench_bind(&b);
        for (int64_t i = 0; i < width * tokens; i++)
            ((float *)x->t.data)[i] *= (float)(spread / sqrt((double)width));
        for (int i = 0; i < b.n_stores; i++)
            memcpy(b.stores[i].before, b.stores[i].data, b.stores[i].bytes);
        check_on(&b, result, f32_devices, F32_BAR, what);
        check_on(&b, result, bf16_devices, LOAM_BAR_PRODUCT, what);
        loam_free(labels->t.data);
        bench_close(&b);
    }
}

static void test_linear_loss(void **state)
{
    (void)state;
    check_linear_loss(LOAM_TYPE_Q6_K, 256, 3000, 300, 0.3, 1);
    check_linear_loss(LOAM_TYPE_Q4_K, 512, 1000, 130, 0, 2);
    check_linear_loss(LOAM_TYPE_F32, 100, 777, 65, 0.5, 1);
    check_linear_loss(LOAM_TYPE_F16, 64, 100, 9, 1, 1);
    check_linear_loss(LOAM_TYPE_Q8_0, 2080, 300, 20, 0, 1);
}

/* ---- attention ---------------------------------------------------------------------------- */

typedef struct attention_case {
    int64_t d, dv, heads, kv_heads, queries, keys;
    double packed, window;
} attention_case;

static loam_node *head_operand(bench *b, loam_type type, int64_t d, int64_t heads, int64_t tokens)
{
    return loam_leaf(b->g, type, (int64_t[]){d, heads, tokens, 1}, "operand");
}

static void check_attention(const attention_case *c)
{
    for (int part = 0; part < 3; part++) {
        bench b = bench_open("attention");
        loam_node *q = head_operand(&b, LOAM_TYPE_F32, c->d, c->heads, c->queries);
        loam_node *k = head_operand(&b, LOAM_TYPE_F32, c->d, c->kv_heads, c->keys);
        loam_node *v = head_operand(&b, LOAM_TYPE_F32, c->dv, c->kv_heads, c->keys);
        loam_node *ranges = loam_leaf_2d(b.g, LOAM_TYPE_I32, 2, c->queries, "ranges");
        loam_set_param(q);
        loam_node *y = loam_flash_attn_ext(b.g, q, k, v, ranges, (float)(1 / sqrt((double)c->d)));
        loam_node *dy = head_operand(&b, LOAM_TYPE_F32, c->dv, c->heads, c->queries);
        loam_node *result = part == 0   ? y
                            : part == 1 ? loam_cont(b.g, y->aux)
                                        : loam_flash_attn_back(b.g, dy, y);
        ranges->t.data = loam_alloc((size_t)c->queries * 2 * sizeof(int32_t));
        fill_special(ranges, LOAM_FILL_RANGES, c->packed, c->window, &b.rng);
        for (int64_t t = 0; t < c->queries; t++) {
            int32_t *range = (int32_t *)ranges->t.data + 2 * t;
            range[1] = (int32_t)LOAM_MIN(range[1], c->keys);
            if (t % 11 == 5) /* queries that see nothing */
                range[1] = range[0];
        }
        check_both(&b, result, "attention");
        loam_free(ranges->t.data);
        bench_close(&b);
    }
}

static void test_attention(void **state)
{
    (void)state;
    static const attention_case cases[] = {
        {64, 64, 4, 2, 700, 700, 700, 0},   /* causal, several waves */
        {32, 48, 6, 2, 300, 300, 70, 0},    /* packed, values of another width */
        {80, 80, 2, 2, 530, 530, 530, 100}, /* sliding window */
        {64, 64, 8, 1, 1, 400, 400, 0},     /* generation */
        {96, 96, 3, 3, 65, 290, 65, 0},     /* a cache longer than the queries */
    };
    for (int i = 0; i < LOAM_COUNT(cases); i++)
        check_attention(&cases[i]);
}

static void test_half_caches(void **state)
{
    (void)state;
    static const loam_type types[] = {LOAM_TYPE_F16, LOAM_TYPE_BF16};
    for (int i = 0; i < LOAM_COUNT(types); i++) {
        bench b = bench_open("caches");
        loam_node *q = head_operand(&b, LOAM_TYPE_F32, 64, 4, 70);
        loam_node *k = head_operand(&b, types[i], 64, 2, 600);
        loam_node *v = head_operand(&b, types[1 - i], 64, 2, 600);
        loam_node *ranges = loam_leaf_2d(b.g, LOAM_TYPE_I32, 2, 70, "ranges");
        loam_node *y = loam_flash_attn_ext(b.g, q, k, v, ranges, 0.125F);
        ranges->t.data = loam_alloc(70 * 2 * sizeof(int32_t));
        for (int32_t t = 0; t < 70; t++) {
            ((int32_t *)ranges->t.data)[2 * t] = t;
            ((int32_t *)ranges->t.data)[2 * t + 1] = 500 + t;
        }
        check_both(&b, y, "caches");
        loam_free(ranges->t.data);
        bench_close(&b);
    }
}

static int open_devices(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        f32_devices[i] = open_cpu(i + 1, LOAM_COMPUTE_F32);
        bf16_devices[i] = open_cpu(i + 1, LOAM_COMPUTE_BF16);
    }
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        f32_devices[i]->api->close(f32_devices[i]);
        bf16_devices[i]->api->close(bf16_devices[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_products),  cmocka_unit_test(test_random_products),
        cmocka_unit_test(test_scratch_limit), cmocka_unit_test(test_scratch_is_bounded),
        cmocka_unit_test(test_linear_loss),   cmocka_unit_test(test_attention),
        cmocka_unit_test(test_half_caches)};
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
