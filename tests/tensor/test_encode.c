/* Encoders: how close they come on normal data, and what they do with zeros, constants, extremes
 * and non-numbers; and random data of every type.
 *
 * The bars on normal data are those of an ideal quantizer without search: exact scales from the
 * extremes of each group, rounding to nearest. It is run here, in doubles, on the same data; a
 * search must beat it although its scales are halves or few bits. Types with few or uneven levels
 * have bars from rate theory or from ggml's own encoders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "tensor/tensor.h"

#define SAMPLES (256 * 800)

static bool is_encoded_block_type(int type)
{
    const loam_type_info *info = loam_type_get(type);
    return info != NULL && info->is_quantized && info->encode != NULL;
}

static void encode_decode(int type, const float *in, float *out, int64_t n)
{
    uint8_t *blocks = loam_alloc(loam_row_bytes((loam_type)type, n));
    assert_non_null(blocks);
    assert_int_equal(loam_encode((loam_type)type, in, blocks, n, NULL), LOAM_OK);
    loam_decode((loam_type)type, blocks, out, n);
    loam_free(blocks);
}

static float *normals(int64_t n, const char *stream)
{
    loam_rng rng = loam_rng_stream(3, stream);
    float *x = loam_alloc((size_t)n * sizeof(float));
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)loam_rng_normal(&rng);
    return x;
}

static double relative_rmse(const float *x, const float *y, int64_t n)
{
    double error = 0.0;
    double power = 0.0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        power += (double)x[i] * (double)x[i];
    }
    return sqrt(error / power);
}

static double encoder_rmse(int type, const float *x, int64_t n)
{
    float *y = loam_alloc((size_t)n * sizeof(float));
    assert_non_null(y);
    encode_decode(type, x, y, n);
    const double rmse = relative_rmse(x, y, n);
    loam_free(y);
    return rmse;
}

/* Groups of `group` elements, `last` + 1 equal steps from the lowest to the highest. */
static double ideal_affine_rmse(const float *x, int64_t n, int group, double last)
{
    double error = 0.0;
    double power = 0.0;
    for (int64_t start = 0; start < n; start += group) {
        double low = INFINITY;
        double high = -INFINITY;
        for (int i = 0; i < group; i++) {
            low = fmin(low, (double)x[start + i]);
            high = fmax(high, (double)x[start + i]);
        }
        const double step = (high - low) / last;
        for (int i = 0; i < group; i++) {
            const double v = (double)x[start + i];
            const double e = low + step * rint((v - low) / step) - v;
            error += e * e;
            power += v * v;
        }
    }
    return sqrt(error / power);
}

/* Groups of `group` elements, steps of (largest magnitude) / half_range, codes saturating at
 * half_range - 1 on the side away from the extreme. */
static double ideal_symmetric_rmse(const float *x, int64_t n, int group, double half_range)
{
    double error = 0.0;
    double power = 0.0;
    for (int64_t start = 0; start < n; start += group) {
        double extreme = 0.0;
        for (int i = 0; i < group; i++)
            if (fabs((double)x[start + i]) > fabs(extreme))
                extreme = (double)x[start + i];
        const double step = extreme / -half_range;
        for (int i = 0; i < group; i++) {
            const double v = (double)x[start + i];
            const double e = step * fmin(rint(v / step), half_range - 1.0) - v;
            error += e * e;
            power += v * v;
        }
    }
    return sqrt(error / power);
}

typedef struct error_bar {
    int type;
    double bar;
} error_bar;

static void assert_bars(const error_bar *bars, int count, const float *x)
{
    for (int i = 0; i < count; i++) {
        const double rmse = encoder_rmse(bars[i].type, x, SAMPLES);
        print_message("  %-7s relative RMSE %.5f, bar %.5f\n",
                      loam_type_name((loam_type)bars[i].type), rmse, bars[i].bar);
        assert_true(rmse < bars[i].bar);
    }
}

static void test_error_below_ideal_rounding(void **state)
{
    (void)state;
    float *x = normals(SAMPLES, "bars");
    const error_bar bars[] = {
        {LOAM_TYPE_Q4_0, ideal_symmetric_rmse(x, SAMPLES, 32, 8.0)},
        {LOAM_TYPE_Q5_0, ideal_symmetric_rmse(x, SAMPLES, 32, 16.0)},
        {LOAM_TYPE_Q4_1, ideal_affine_rmse(x, SAMPLES, 32, 15.0)},
        {LOAM_TYPE_Q5_1, ideal_affine_rmse(x, SAMPLES, 32, 31.0)},
        {LOAM_TYPE_Q2_K, ideal_affine_rmse(x, SAMPLES, 16, 3.0)},
        {LOAM_TYPE_Q3_K, ideal_symmetric_rmse(x, SAMPLES, 16, 4.0)},
        {LOAM_TYPE_Q4_K, ideal_affine_rmse(x, SAMPLES, 32, 15.0)},
        {LOAM_TYPE_Q5_K, ideal_affine_rmse(x, SAMPLES, 32, 31.0)},
        {LOAM_TYPE_Q6_K, ideal_symmetric_rmse(x, SAMPLES, 16, 32.0)},
        /* No search, and a half for the scale: 1% for its rounding. */
        {LOAM_TYPE_Q8_0, 1.01 * ideal_symmetric_rmse(x, SAMPLES, 32, 127.0)},
        {LOAM_TYPE_Q8_1, 1.01 * ideal_symmetric_rmse(x, SAMPLES, 32, 127.0)},
        {LOAM_TYPE_Q8_K, 1.01 * ideal_symmetric_rmse(x, SAMPLES, 256, 127.0)},
    };
    assert_bars(bars, LOAM_COUNT(bars), x);
    loam_free(x);
}

static void test_error_below_known_figures(void **state)
{
    (void)state;
    float *x = normals(SAMPLES, "bars");
    const error_bar bars[] = {
        /* What ggml's own encoders (without importance matrix) reach on normal data. */
        {LOAM_TYPE_Q4_0, 0.0858},
        {LOAM_TYPE_Q5_0, 0.0427},
        {LOAM_TYPE_Q2_K, 0.2965},
        {LOAM_TYPE_Q3_K, 0.1508},
        {LOAM_TYPE_Q4_K, 0.0714},
        {LOAM_TYPE_Q5_K, 0.0361},
        {LOAM_TYPE_Q6_K, 0.0178},
        {LOAM_TYPE_IQ4_NL, 0.0762},
        {LOAM_TYPE_IQ4_XS, 0.0768},
        {LOAM_TYPE_MXFP4, 0.1150},
        {LOAM_TYPE_NVFP4, 0.0951},
        /* The best three-level quantizer of a normal variable has a mean square error of 0.1902
         * (Max 1960); its scale adapts to 256 values here, with one of them weighted: 3%. */
        {LOAM_TYPE_TQ1_0, 1.03 * sqrt(0.1902)},
        {LOAM_TYPE_TQ2_0, 1.03 * sqrt(0.1902)},
        /* Two levels +-d: 1 - 2/pi. Four levels must do better than three. */
        {LOAM_TYPE_Q1_0, sqrt(1.0 - 2.0 / 3.14159265358979)},
        {LOAM_TYPE_Q2_0, sqrt(0.1902)},
    };
    assert_bars(bars, LOAM_COUNT(bars), x);
    loam_free(x);
}

static void test_zeros_stay_zeros(void **state)
{
    (void)state;
    const float x[512] = {0};
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        if (!is_encoded_block_type(type))
            continue;
        float y[512];
        encode_decode(type, x, y, 512);
        for (int i = 0; i < 512; i++)
            assert_true(y[i] == 0.0f);
    }
}

/* +-1.5 and its multiples by powers of two can be written exactly in every type (FP4's levels
 * included) up to the rounding of a half scale. */
static void test_constants(void **state)
{
    (void)state;
    const float constants[] = {1.5f, -1.5f, 0.1875f, -96.0f};
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        if (!is_encoded_block_type(type))
            continue;
        for (int c = 0; c < LOAM_COUNT(constants); c++) {
            float x[256];
            float y[256];
            for (int i = 0; i < 256; i++)
                x[i] = constants[c];
            encode_decode(type, x, y, 256);
            for (int i = 0; i < 256; i++)
                assert_true(fabsf(y[i] - x[i]) <= 1e-3f * fabsf(x[i]));
        }
    }
}

static void assert_finite_code(int type, const float *x)
{
    float y[256];
    encode_decode(type, x, y, 256);
    for (int i = 0; i < 256; i++) {
        if (!isfinite(y[i]))
            print_error("%s: %g became %g\n", loam_type_name((loam_type)type), (double)x[i],
                        (double)y[i]);
        assert_true(isfinite(y[i]));
    }
}

static void test_extremes_stay_finite(void **state)
{
    (void)state;
    const float scales[] = {1e-45f, 1e-38f, 1e-25f, 1e-19f, 1e-9f, 3e-8f,
                            6e4f,   1e7f,   1e12f,  1e30f,  1e38f, 3.4e38f};
    loam_rng rng = loam_rng_stream(4, "extremes");
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        if (!is_encoded_block_type(type))
            continue;
        for (int s = 0; s < LOAM_COUNT(scales); s++) {
            float x[256];
            for (int i = 0; i < 256; i++)
                x[i] = scales[s] * (float)(2.0 * loam_rng_uniform(&rng) - 1.0);
            assert_finite_code(type, x);
            /* One huge value among ordinary ones, of either sign. */
            for (int i = 0; i < 256; i++)
                x[i] = (float)loam_rng_normal(&rng);
            x[17] = scales[s];
            x[200] = -scales[s];
            assert_finite_code(type, x);
        }
    }
}

static void test_non_numbers(void **state)
{
    (void)state;
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        if (!is_encoded_block_type(type))
            continue;
        float x[256];
        float y[256];
        for (int i = 0; i < 256; i++)
            x[i] = i % 2 ? 1.5f : -1.5f;
        x[7] = INFINITY;
        x[8] = -INFINITY;
        assert_finite_code(type, x);
        for (int i = 0; i < 256; i++)
            x[i] = NAN;
        encode_decode(type, x, y, 256);
        for (int i = 0; i < 256; i++)
            assert_true(y[i] == 0.0f);
        /* A NaN counts as 0 and leaves the others alone; Q1_0 has no zero to give. */
        for (int i = 0; i < 256; i++)
            x[i] = i % 2 ? 1.5f : -1.5f;
        x[100] = NAN;
        encode_decode(type, x, y, 256);
        for (int i = 0; i < 256; i++)
            assert_true(i == 100 ? fabsf(y[i]) < 0.51f || type == LOAM_TYPE_Q1_0
                                 : fabsf(y[i] - x[i]) < 0.51f);
    }
}

/* Codes are chosen in units of a power of two near the block's largest value, so scaling the input
 * by one scales the output, as long as the half scales stay normal. */
static void test_power_of_two_invariance(void **state)
{
    (void)state;
    float *x = normals(1024, "invariance");
    float *big = loam_alloc(1024 * sizeof(float));
    float *y = loam_alloc(1024 * sizeof(float));
    float *z = loam_alloc(1024 * sizeof(float));
    assert_true(big != NULL && y != NULL && z != NULL);
    for (int i = 0; i < 1024; i++)
        big[i] = 32.0f * x[i];
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        if (!is_encoded_block_type(type) || type == LOAM_TYPE_NVFP4)
            continue;
        encode_decode(type, x, y, 1024);
        encode_decode(type, big, z, 1024);
        for (int i = 0; i < 1024; i++)
            assert_true(z[i] == 32.0f * y[i]);
    }
    loam_free(x);
    loam_free(big);
    loam_free(y);
    loam_free(z);
}

/* Weights that are ternary, or already E2M1 multiples of powers of two, come back as they were. */
static void test_exact_weights_come_back(void **state)
{
    (void)state;
    const int ternary[] = {LOAM_TYPE_TQ1_0, LOAM_TYPE_TQ2_0, LOAM_TYPE_Q2_0};
    const float levels[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    loam_rng rng = loam_rng_stream(9, "exact");
    float x[2048];
    float y[2048];
    for (int t = 0; t < LOAM_COUNT(ternary); t++) {
        for (int i = 0; i < 2048; i++)
            x[i] = 0.046875f * ((float)loam_rng_below(&rng, 3) - 1.0f);
        encode_decode(ternary[t], x, y, 2048);
        for (int i = 0; i < 2048; i++)
            assert_true(x[i] == y[i]);
    }
    for (int i = 0; i < 2048; i++)
        x[i] = ldexpf(levels[loam_rng_below(&rng, 8)] * (loam_rng_below(&rng, 2) ? 1.0f : -1.0f),
                      i / 32 - 40);
    encode_decode(LOAM_TYPE_MXFP4, x, y, 2048);
    for (int i = 0; i < 2048; i++)
        assert_true(x[i] == y[i]);
}

/* Q8_1 and Q8_K hold sums of their codes. */
static void test_redundant_sums(void **state)
{
    (void)state;
    float *x = normals(256, "sums");
    loam_block_q8_1 small[8];
    loam_block_q8_k large;
    float y[256];
    assert_int_equal(loam_encode(LOAM_TYPE_Q8_1, x, small, 256, NULL), LOAM_OK);
    loam_decode(LOAM_TYPE_Q8_1, small, y, 256);
    for (int b = 0; b < 8; b++) {
        float sum = 0.0f;
        for (int i = 0; i < 32; i++)
            sum += y[32 * b + i];
        assert_true(fabsf(sum - loam_load_f16(small[b].s)) < 2e-2f);
    }
    assert_int_equal(loam_encode(LOAM_TYPE_Q8_K, x, &large, 256, NULL), LOAM_OK);
    for (int g = 0; g < 16; g++) {
        int sum = 0;
        for (int i = 0; i < 16; i++)
            sum += large.qs[16 * g + i];
        assert_int_equal((int16_t)loam_load_u16(large.bsums + 2 * g), sum);
    }
    loam_free(x);
}

/* ---- random data -------------------------------------------------------------------------- */

static void test_random_fill_of_every_type(void **state)
{
    (void)state;
    const float scales[] = {0.02f, 1.0f, 100.0f};
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        const loam_type_info *info = loam_type_get(type);
        const bool is_integer = type >= LOAM_TYPE_I8 && type <= LOAM_TYPE_I64;
        if (info == NULL)
            continue;
        for (int s = is_integer ? 2 : 0; s < LOAM_COUNT(scales); s++) {
            const int64_t n = 256 * 9;
            uint8_t blocks[256 * 9 * 8];
            uint8_t again[256 * 9 * 8];
            float y[256 * 9];
            double power = 0.0;
            loam_rng rng = loam_rng_stream(21, info->name);
            loam_rng same = rng;
            assert_int_equal(loam_random_fill((loam_type)type, &rng, scales[s], blocks, n, NULL),
                             LOAM_OK);
            assert_int_equal(loam_random_fill((loam_type)type, &same, scales[s], again, n, NULL),
                             LOAM_OK);
            assert_memory_equal(blocks, again, loam_row_bytes((loam_type)type, n));
            loam_decode((loam_type)type, blocks, y, n);
            for (int64_t i = 0; i < n; i++) {
                assert_true(isfinite(y[i]));
                power += (double)y[i] * (double)y[i];
            }
            const double rms = sqrt(power / (double)n);
            assert_true(rms > 0.6 * (double)scales[s] && rms < 1.4 * (double)scales[s]);
        }
    }
}

static void test_random_fill_partial_chunk_and_errors(void **state)
{
    (void)state;
    loam_rng rng = loam_rng_stream(1, "partial");
    loam_error e = {0};
    uint8_t blocks[4096];
    memset(blocks, 0xee, sizeof blocks);
    assert_int_equal(loam_random_fill(LOAM_TYPE_Q4_0, &rng, 1.0f, blocks, 288, &e), LOAM_OK);
    for (size_t i = 9 * 18; i < sizeof blocks; i++)
        assert_int_equal(blocks[i], 0xee);
    assert_int_equal(loam_random_fill(LOAM_TYPE_F16, &rng, 1e9f, blocks, 100, &e), LOAM_OK);
    for (int i = 0; i < 100; i++)
        assert_true(isfinite(loam_load_f16(blocks + 2 * i)));
    assert_int_equal(loam_random_fill(LOAM_TYPE_IQ1_M, &rng, 1e12f, blocks, 256, &e), LOAM_OK);
    float y[256];
    loam_decode(LOAM_TYPE_IQ1_M, blocks, y, 256);
    for (int i = 0; i < 256; i++)
        assert_true(isfinite(y[i]));
    assert_int_equal(loam_random_fill(LOAM_TYPE_Q4_0, &rng, 1.0f, blocks, 33, &e), LOAM_E_USAGE);
    assert_non_null(strstr(e.message, "q4_0"));
    assert_int_equal(loam_random_fill((loam_type)5, &rng, 1.0f, blocks, 32, NULL), LOAM_E_USAGE);
    assert_int_equal(loam_random_fill(LOAM_TYPE_F32, &rng, NAN, blocks, 32, NULL), LOAM_E_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_below_ideal_rounding),
        cmocka_unit_test(test_error_below_known_figures),
        cmocka_unit_test(test_zeros_stay_zeros),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_extremes_stay_finite),
        cmocka_unit_test(test_non_numbers),
        cmocka_unit_test(test_power_of_two_invariance),
        cmocka_unit_test(test_exact_weights_come_back),
        cmocka_unit_test(test_redundant_sums),
        cmocka_unit_test(test_random_fill_of_every_type),
        cmocka_unit_test(test_random_fill_partial_chunk_and_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
