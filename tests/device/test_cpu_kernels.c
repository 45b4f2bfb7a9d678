/* The CPU device's contract (buffers, scratch, messages), and its vector code: the exponential's
 * error, rounding to BF16, sums and maxima at every length. */
#include "cpu_support.h"

#include "device/cpu/matrix.h"
#include "device/cpu/vector.h"

/* ---- vectors ------------------------------------------------------------------------------ */

static void test_exp_error(void **state)
{
    (void)state;
    enum { N = 1 << 14 };
    static float x[N], y[N];
    double worst = 0;
    for (int block = 0; block < 200; block++) {
        for (int i = 0; i < N; i++)
            x[i] = (float)(-87.3 + (88.7 + 87.3) * (block * (double)N + i) / (200.0 * N));
        memcpy(y, x, sizeof y);
        cpu_vector_exp(y, N, 1, 0);
        for (int i = 0; i < N; i++) {
            double expected = exp((double)x[i]);
            double unit = ldexp(1, (int)floor(log2(expected)) - 23);
            worst = fmax(worst, fabs((double)y[i] - expected) / unit);
        }
    }
    if (worst > 2)
        print_error("the exponential is off by %g units in the last place\n", worst);
    assert_true(worst <= 2);
}

static void test_exp_ends(void **state)
{
    (void)state;
    float x[] = {0, -0.0F, -INFINITY, INFINITY, NAN, -88, -1e30F, 89, 1e30F, 88.7F, -87.3F, 1};
    cpu_vector_exp(x, LOAM_COUNT(x), 1, 0);
    assert_true(x[0] == 1 && x[1] == 1);
    assert_true(x[2] == 0 && isinf(x[3]) && isnan(x[4]));
    assert_true(x[5] == 0 && x[6] == 0 && isinf(x[7]) && isinf(x[8]));
    assert_true(fabs(x[9] / exp(88.7F) - 1) < 1e-6 && fabs(x[10] / exp(-87.3F) - 1) < 1e-6);
    assert_true(fabs(x[11] - exp(1.0)) < 3e-7);
}

static void test_vector_lengths(void **state)
{
    (void)state;
    loam_rng r = loam_rng_stream(2, "vectors");
    float a[200], b[200], e[200];
    for (int n = 0; n <= 200; n++) {
        double sum = 0, dot = 0, sum_exp = 0;
        float max = -INFINITY;
        for (int i = 0; i < n; i++) {
            a[i] = (float)loam_rng_normal(&r);
            b[i] = (float)loam_rng_normal(&r);
            max = a[i] > max ? a[i] : max;
            sum += a[i];
            dot += (double)a[i] * b[i];
            sum_exp += exp((double)a[i] - 0.5);
        }
        memcpy(e, a, sizeof e);
        assert_true(cpu_vector_max(a, n) == max);
        assert_true(fabs(cpu_vector_sum(a, n) - sum) < 1e-12);
        assert_true(fabs(cpu_vector_dot(a, b, n) - dot) < 1e-12);
        assert_true(fabs(cpu_vector_sum_exp(a, n, 0.5F) - sum_exp) < 1e-5);
        assert_true(fabs(cpu_vector_exp(e, n, 1, 0.5F) - sum_exp) < 1e-5);
        for (int i = 0; i < n; i++)
            assert_true(fabs((double)e[i] - exp((double)a[i] - 0.5)) < 1e-5);
    }
}

static void test_bf16_rounding(void **state)
{
    (void)state;
    enum { N = 1 << 12 };
    static uint32_t bits[N];
    static float x[N];
    static uint16_t y[N];
    for (uint32_t high = 0; high < 1U << 16; high += 7) {
        for (uint32_t i = 0; i < N; i++)
            bits[i] = high << 16 | (i * 16 + i % 16);
        memcpy(x, bits, sizeof x);
        cpu_to_bf16(x, y, N - high % 16);
        for (uint32_t i = 0; i < N - high % 16; i++)
            if (y[i] != loam_f32_to_bf16(x[i])) {
                assert_true(isnan(x[i]) && isnan(loam_bf16_to_f32(y[i])));
            }
        cpu_round_to_bf16(x, N);
        for (uint32_t i = 0; i < N - high % 16; i++)
            assert_true(x[i] == loam_bf16_to_f32(y[i]) || isnan(x[i]));
    }
}

/* ---- matrices ----------------------------------------------------------------------------- */

static void test_direct_matrices(void **state)
{
    (void)state;
    loam_device *device = open_cpu(1, LOAM_COMPUTE_F32);
    const cpu_device *d = (const cpu_device *)device;
    static float data[64];
    bool trans;
    int64_t ld;
    cpu_matrix m = {LOAM_TYPE_F32, (const char *)data, 4, 8, 36, 4};
    assert_true(cpu_matrix_is_direct(d, &m, &trans, &ld) && !trans && ld == 9);
    m = (cpu_matrix){LOAM_TYPE_F32, (const char *)data, 4, 8, 4, 20};
    assert_true(cpu_matrix_is_direct(d, &m, &trans, &ld) && trans && ld == 5);
    m = (cpu_matrix){LOAM_TYPE_F32, (const char *)data, 4, 8, 64, 8}; /* every other element */
    assert_false(cpu_matrix_is_direct(d, &m, &trans, &ld));
    m = (cpu_matrix){LOAM_TYPE_F32, (const char *)data, 4, 8, 16, 4}; /* rows overlap */
    assert_false(cpu_matrix_is_direct(d, &m, &trans, &ld));
    m = (cpu_matrix){LOAM_TYPE_F32, (const char *)data + 1, 4, 8, 32, 4};
    assert_false(cpu_matrix_is_direct(d, &m, &trans, &ld) || cpu_matrix_is_readable(&m));
    device->api->close(device);
}

/* ---- the contract ------------------------------------------------------------------------- */

static void test_buffers(void **state)
{
    (void)state;
    loam_device *d = open_cpu(2, LOAM_COMPUTE_F32);
    loam_error e = {0};
    loam_buffer *b = NULL;
    char in[16] = "some bytes", out[16] = {0};
    assert_int_equal(d->api->buffer_alloc(d, 64, &b, &e), LOAM_OK);
    assert_int_equal(b->bytes, 64);
    assert_int_equal(d->api->buffer_write(b, 48, in, 16, &e), LOAM_OK);
    assert_int_equal(d->api->buffer_read(b, 48, out, 16, &e), LOAM_OK);
    assert_memory_equal(in, out, 16);
    assert_int_equal(d->api->buffer_write(b, 49, in, 16, &e), LOAM_E_USAGE);
    assert_int_equal(d->api->buffer_read(b, SIZE_MAX, out, 2, NULL), LOAM_E_USAGE);
    d->api->buffer_free(b);
    /* A mapped buffer is the caller's memory, and nobody writes it. */
    assert_int_equal(d->api->buffer_map(d, in, sizeof in, &b, NULL), LOAM_OK);
    assert_ptr_equal(b->host, in);
    assert_true(b->is_mapped);
    assert_int_equal(d->api->buffer_write(b, 0, out, 1, NULL), LOAM_E_USAGE);
    d->api->buffer_free(b);
    for (int n = 0; n < 2; n++) {
        loam_alloc_fail_after(n);
        assert_int_equal(d->api->buffer_alloc(d, 64, &b, NULL), LOAM_E_MEMORY);
        loam_alloc_fail_after(-1);
        assert_null(b);
    }
    loam_device_memory memory;
    assert_int_equal(d->api->memory(d, &memory, NULL), LOAM_OK);
    assert_true(memory.free_bytes > 0 && memory.free_bytes <= memory.total_bytes);
    assert_non_null(strstr(d->api->description(d), "2 threads"));
    d->api->close(d);
}

static void test_open_without_memory(void **state)
{
    (void)state;
    for (int n = 0;; n++) {
        loam_device *d = NULL;
        loam_error e = {0};
        loam_alloc_fail_after(n);
        loam_status status = loam_device_cpu_open(&(loam_device_options){.n_threads = 2}, &d, &e);
        loam_alloc_fail_after(-1);
        if (status == LOAM_OK) {
            d->api->close(d);
            assert_true(n > 2);
            return;
        }
        assert_int_equal(status, LOAM_E_MEMORY);
        assert_null(d);
        assert_true(n < 20);
    }
}

/* Runs one node with `bytes` of scratch and expects a failure whose message holds `text`. */
static void expect_failure(bench *b, loam_node *n, size_t bytes, loam_status expected,
                           const char *text)
{
    loam_device *d = open_cpu(1, LOAM_COMPUTE_F32);
    loam_buffer *scratch = NULL;
    loam_error e = {0};
    assert_int_equal(d->api->buffer_alloc(d, bytes, &scratch, &e), LOAM_OK);
    assert_int_equal(d->api->run(d, &n, 1, scratch, &e), expected);
    if (!strstr(e.message, text))
        print_error("%s\n", e.message);
    assert_non_null(strstr(e.message, text));
    d->api->buffer_free(scratch);
    d->api->close(d);
    bench_close(b);
}

static void test_messages(void **state)
{
    (void)state;
    bench b = bench_open("scratch");
    loam_node *w = loam_leaf_2d(b.g, LOAM_TYPE_Q8_0, 32, 32, "w");
    loam_node *y = loam_mul_mat(b.g, w, loam_leaf_2d(b.g, LOAM_TYPE_F32, 32, 20, "x"));
    loam_set_name(y, "projection");
    bench_bind(&b);
    expect_failure(&b, y, 64, LOAM_E_DEVICE, "projection");

    b = bench_open("ids");
    loam_node *ids = loam_leaf_1d(b.g, LOAM_TYPE_I32, 3, "ids");
    loam_node *rows = loam_get_rows(b.g, loam_leaf_2d(b.g, LOAM_TYPE_F32, 8, 5, "table"), ids);
    bench_bind(&b);
    for (int i = 0; i < 3; i++)
        ((int32_t *)ids->t.data)[i] = i + 3;
    expect_failure(&b, rows, 0, LOAM_E_USAGE, "id 5 lies outside the 5 rows");

    b = bench_open("labels");
    loam_node *labels = loam_leaf_1d(b.g, LOAM_TYPE_I32, 2, "labels");
    loam_node *loss =
        loam_linear_cross_entropy(b.g, loam_leaf_2d(b.g, LOAM_TYPE_F32, 8, 5, "head"),
                                  loam_leaf_2d(b.g, LOAM_TYPE_F32, 8, 2, "x"), labels);
    bench_bind(&b);
    ((int32_t *)labels->t.data)[0] = -1;
    ((int32_t *)labels->t.data)[1] = 5;
    expect_failure(&b, loss, 1 << 20, LOAM_E_USAGE, "label 5 of token 1");

    b = bench_open("ranges");
    loam_node *ranges = loam_leaf_2d(b.g, LOAM_TYPE_I32, 2, 2, "ranges");
    const int64_t ne[] = {8, 1, 2, 1};
    loam_node *attention = loam_flash_attn_ext(b.g, loam_leaf(b.g, LOAM_TYPE_F32, ne, "q"),
                                               loam_leaf(b.g, LOAM_TYPE_F32, ne, "k"),
                                               loam_leaf(b.g, LOAM_TYPE_F32, ne, "v"), ranges, 1);
    bench_bind(&b);
    memcpy(ranges->t.data, (int32_t[]){0, 1, 0, 3}, 4 * sizeof(int32_t));
    expect_failure(&b, attention, 1 << 20, LOAM_E_USAGE, "query 1 sees keys [0, 3)");
}

/* A gradient that is no number is seen, not clipped away. */
static void test_norm_that_is_no_number(void **state)
{
    (void)state;
    bench b = bench_open("norm");
    loam_node *x = loam_leaf_1d(b.g, LOAM_TYPE_F32, 40000, "x");
    loam_node *y = loam_clip_norm(b.g, x, loam_grad_norm(b.g, x), 1);
    bench_bind(&b);
    ((float *)x->t.data)[33333] = NAN;
    memcpy(b.stores[0].before, x->t.data, b.stores[0].bytes);
    loam_device *d = open_cpu(2, LOAM_COMPUTE_F32);
    double *got = run_device(&b, d, y);
    assert_true(isnan(got[33333]));
    for (int i = 0; i < 33333; i++)
        assert_true(got[i] == (double)((float *)b.stores[0].before)[i]);
    loam_free(got);
    d->api->close(d);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exp_error),
                                       cmocka_unit_test(test_exp_ends),
                                       cmocka_unit_test(test_vector_lengths),
                                       cmocka_unit_test(test_bf16_rounding),
                                       cmocka_unit_test(test_direct_matrices),
                                       cmocka_unit_test(test_buffers),
                                       cmocka_unit_test(test_open_without_memory),
                                       cmocka_unit_test(test_messages),
                                       cmocka_unit_test(test_norm_that_is_no_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
