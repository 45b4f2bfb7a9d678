/* The product library behind its interface: every transposition, odd sizes, distances of rows,
 * alpha and beta, BF16 with and without accumulation, more shapes than are kept. */
#include "device/cpu/gemm.h"
#include "tensor/tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static loam_gemm *gemm;

typedef struct shape {
    int64_t m, n, k, pad; /* pad: elements between rows beyond their length */
} shape;

static float *random_floats(loam_rng *r, int64_t n)
{
    float *x = loam_alloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)loam_rng_normal(r);
    return x;
}

/* Largest difference to the product in double, as a share of the sum's size. */
static double difference(const shape *s, bool ta, bool tb, float alpha, const float *a,
                         const float *b, float beta, const float *before, const float *c)
{
    int64_t lda = (ta ? s->m : s->k) + s->pad, ldb = (tb ? s->k : s->n) + s->pad;
    int64_t ldc = s->n + s->pad;
    double worst = 0;
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double sum = 0, size = 1;
            for (int64_t k = 0; k < s->k; k++) {
                double term = (double)(ta ? a[k * lda + i] : a[i * lda + k]) *
                              (double)(tb ? b[j * ldb + k] : b[k * ldb + j]);
                sum += term;
                size += fabs(term);
            }
            sum *= (double)alpha;
            if (beta != 0)
                sum += (double)beta * (double)before[i * ldc + j];
            worst = fmax(worst, fabs(sum - (double)c[i * ldc + j]) / size);
        }
    return worst;
}

/* What lies between the rows of c must stay. */
static void assert_gaps_untouched(const shape *s, const float *before, const float *c)
{
    for (int64_t i = 0; i < s->m; i++)
        assert_memory_equal(c + i * (s->n + s->pad) + s->n, before + i * (s->n + s->pad) + s->n,
                            (size_t)s->pad * sizeof *c);
}

static void check_f32(const shape *s, bool ta, bool tb, float alpha, float beta)
{
    loam_rng r = loam_rng_stream(3, "gemm");
    int64_t lda = (ta ? s->m : s->k) + s->pad, ldb = (tb ? s->k : s->n) + s->pad;
    int64_t ldc = s->n + s->pad;
    float *a = random_floats(&r, lda * (ta ? s->k : s->m));
    float *b = random_floats(&r, ldb * (tb ? s->n : s->k));
    float *c = random_floats(&r, ldc * s->m), *before = random_floats(&r, ldc * s->m);
    if (beta == 0) /* must not be read */
        for (int64_t i = 0; i < ldc * s->m; i++)
            before[i] = NAN;
    memcpy(c, before, (size_t)(ldc * s->m) * sizeof *c);
    loam_gemm_f32(gemm, 0, ta, tb, s->m, s->n, s->k, alpha, a, lda, b, ldb, beta, c, ldc);
    loam_error e = {0};
    assert_int_equal(loam_gemm_status(gemm, &e), LOAM_OK);
    double worst = difference(s, ta, tb, alpha, a, b, beta, before, c);
    if (!(worst < 1e-6))
        print_error("%d%d m %d n %d k %d: %g\n", ta, tb, (int)s->m, (int)s->n, (int)s->k, worst);
    assert_true(worst < 1e-6);
    assert_gaps_untouched(s, before, c);
    loam_free(a);
    loam_free(b);
    loam_free(c);
    loam_free(before);
}

static const shape shapes[] = {{1, 1, 1, 0},     {1, 7, 33, 3},     {5, 1, 300, 0},
                               {16, 48, 17, 16}, {77, 130, 65, 5},  {64, 256, 64, 0},
                               {3, 16, 1025, 1}, {256, 16, 100, 0}, {33, 31, 29, 2}};

static void test_f32(void **state)
{
    (void)state;
    for (int i = 0; i < LOAM_COUNT(shapes); i++)
        for (int t = 0; t < 4; t++) {
            check_f32(&shapes[i], t & 1, t & 2, 1, 0);
            check_f32(&shapes[i], t & 1, t & 2, 1, 1);
            check_f32(&shapes[i], t & 1, t & 2, -0.125F, 0.5F);
        }
}

static void check_bf16(const shape *s, bool tb, bool accumulate)
{
    loam_rng r = loam_rng_stream(4, "gemm");
    int64_t lda = s->k + s->pad, ldb = (tb ? s->k : s->n) + s->pad, ldc = s->n + s->pad;
    int64_t n_a = lda * s->m, n_b = ldb * (tb ? s->n : s->k);
    float *a = random_floats(&r, n_a), *b = random_floats(&r, n_b);
    float *c = random_floats(&r, ldc * s->m), *before = random_floats(&r, ldc * s->m);
    uint16_t *narrow_a = loam_alloc((size_t)n_a * sizeof *narrow_a);
    uint16_t *narrow_b = loam_alloc((size_t)n_b * sizeof *narrow_b);
    for (int64_t i = 0; i < n_a; i++)
        a[i] = loam_bf16_to_f32(narrow_a[i] = loam_f32_to_bf16(a[i]));
    for (int64_t i = 0; i < n_b; i++)
        b[i] = loam_bf16_to_f32(narrow_b[i] = loam_f32_to_bf16(b[i]));
    memcpy(c, before, (size_t)(ldc * s->m) * sizeof *c);
    loam_gemm_bf16(gemm, 1, tb, s->m, s->n, s->k, narrow_a, lda, narrow_b, ldb, accumulate, c, ldc);
    loam_error e = {0};
    assert_int_equal(loam_gemm_status(gemm, &e), LOAM_OK);
    assert_true(difference(s, false, tb, 1, a, b, accumulate, before, c) < 1e-6);
    assert_gaps_untouched(s, before, c);
    loam_free(a);
    loam_free(b);
    loam_free(c);
    loam_free(before);
    loam_free(narrow_a);
    loam_free(narrow_b);
}

static void test_bf16(void **state)
{
    (void)state;
    if (!loam_gemm_has_bf16())
        skip();
    for (int i = 0; i < LOAM_COUNT(shapes); i++)
        for (int t = 0; t < 4; t++)
            check_bf16(&shapes[i], t & 1, t & 2);
}

/* Shapes past what a worker keeps push the oldest out; coming back to them works. */
static void test_many_shapes(void **state)
{
    (void)state;
    if (!loam_gemm_has_bf16())
        skip();
    for (int round = 0; round < 2; round++)
        for (int i = 1; i <= 70; i++)
            check_bf16(&(shape){i, 16, 32, 0}, true, false);
}

/* A refusal is remembered once, with its shape, and then forgotten. */
static void test_failure(void **state)
{
    (void)state;
#ifdef LOAM_BLAS_ONEDNN
    float x[4] = {0};
    loam_gemm_f32(gemm, 1, false, false, 2, 2, 2, 1, x, 1, x, 2, 0, x, 2); /* lda below k */
    loam_error e = {0};
    assert_int_equal(loam_gemm_status(gemm, &e), LOAM_E_DEVICE);
    assert_non_null(strstr(e.message, "m 2, n 2, k 2"));
    assert_int_equal(loam_gemm_status(gemm, NULL), LOAM_OK);
#else
    skip();
#endif
}

static void test_open_without_memory(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        loam_gemm *g = NULL;
        loam_error e = {0};
        loam_alloc_fail_after(n);
        loam_status status = loam_gemm_open(4, &g, &e);
        loam_alloc_fail_after(-1);
        if (status == LOAM_OK)
            loam_gemm_close(g);
        else
            assert_int_equal(status, LOAM_E_MEMORY);
        assert_true(status != LOAM_OK || n > 0);
    }
    loam_gemm_close(NULL);
}

static int open_gemm(void **state)
{
    (void)state;
    return loam_gemm_open(2, &gemm, NULL) == LOAM_OK ? 0 : -1;
}

static int close_gemm(void **state)
{
    (void)state;
    loam_gemm_close(gemm);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16), cmocka_unit_test(test_many_shapes),
        cmocka_unit_test(test_failure), cmocka_unit_test(test_open_without_memory)};
    return cmocka_run_group_tests(tests, open_gemm, close_gemm);
}
