/* Random numbers and hashes against published values and their distributions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "core/core.h"

static void test_splitmix64_sequence(void **state)
{
    (void)state;
    /* The reference program's output for the state 1234567. */
    const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                 4593380528125082431u, 16408922859458223821u};
    loam_rng rng = {.state = 1234567};
    for (int i = 0; i < LOAM_COUNT(expected); i++)
        assert_true(loam_rng_next(&rng) == expected[i]);
}

static void test_streams_differ_and_repeat(void **state)
{
    (void)state;
    loam_rng a = loam_rng_stream(7, "blk.0.attn_q");
    loam_rng again = loam_rng_stream(7, "blk.0.attn_q");
    loam_rng other_name = loam_rng_stream(7, "blk.1.attn_q");
    loam_rng other_seed = loam_rng_stream(8, "blk.0.attn_q");
    assert_true(a.state == again.state);
    assert_true(a.state != other_name.state && a.state != other_seed.state);
    loam_rng resumed = a;
    for (int i = 0; i < 10; i++) {
        resumed.state = a.state; /* the state is all there is */
        uint64_t x = loam_rng_next(&a);
        assert_true(loam_rng_next(&resumed) == x);
        assert_true(loam_rng_next(&other_name) != x);
    }
}

static void test_uniform(void **state)
{
    (void)state;
    enum { N = 200000, BINS = 20 };
    loam_rng rng = loam_rng_stream(1, "uniform");
    int bins[BINS] = {0};
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double x = loam_rng_uniform(&rng);
        assert_true(x >= 0 && x < 1);
        bins[(int)(x * BINS)]++;
        sum += x;
    }
    assert_true(fabs(sum / N - 0.5) < 5 * sqrt(1.0 / 12 / N));
    double chi2 = 0;
    for (int i = 0; i < BINS; i++)
        chi2 += pow(bins[i] - N / BINS, 2) / (N / BINS);
    assert_true(chi2 < 60); /* 19 degrees of freedom: p below 1e-5 */
}

static void test_normal(void **state)
{
    (void)state;
    enum { N = 400000 };
    loam_rng rng = loam_rng_stream(2, "normal");
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
    int beyond2 = 0;
    for (int i = 0; i < N; i++) {
        double x = loam_rng_normal(&rng);
        assert_true(isfinite(x));
        m1 += x / N;
        m2 += x * x / N;
        m3 += x * x * x / N;
        m4 += x * x * x * x / N;
        beyond2 += fabs(x) > 2;
    }
    double sigma = 1 / sqrt((double)N);
    assert_true(fabs(m1) < 5 * sigma);
    assert_true(fabs(m2 - 1) < 5 * sqrt(2.0) * sigma);
    assert_true(fabs(m3) < 5 * sqrt(15.0) * sigma);
    assert_true(fabs(m4 - 3) < 5 * sqrt(96.0) * sigma);
    assert_true(fabs(beyond2 / (double)N - 0.0455003) < 5 * 0.21 * sigma);
}

static void test_below(void **state)
{
    (void)state;
    loam_rng rng = loam_rng_stream(3, "below");
    for (int i = 0; i < 100; i++)
        assert_int_equal(loam_rng_below(&rng, 1), 0);
    int bins[3] = {0};
    for (int i = 0; i < 90000; i++)
        bins[loam_rng_below(&rng, 3)]++;
    for (int i = 0; i < 3; i++)
        assert_true(abs(bins[i] - 30000) < 5 * 142);
    /* For n = 3 * 2^62 a plain remainder would give the lower third twice as often. */
    uint64_t n = (uint64_t)3 << 62;
    int low = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t x = loam_rng_below(&rng, n);
        assert_true(x < n);
        low += x < n / 3;
    }
    assert_true(abs(low - 10000) < 5 * 82);
}

static void test_hash(void **state)
{
    (void)state;
    /* XXH3-64 of nothing, from the specification of xxHash. */
    assert_true(loam_hash("", 0, 0) == 0x2d06800538d394c2u);
    assert_true(loam_hash("loam", 4, 0) != loam_hash("loan", 4, 0));
    assert_true(loam_hash("loam", 4, 0) != loam_hash("loam", 4, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splitmix64_sequence),
        cmocka_unit_test(test_streams_differ_and_repeat),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
