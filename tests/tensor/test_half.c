/* Conversions of 16-bit floats: all 65536 halves and bfloat16s, every rounding boundary between
 * neighbours, and the compiler's own _Float16 where it has one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "tensor/tensor.h"

#if defined(__FLT16_MANT_DIG__) && !defined(__clang__)
#define HAVE_FLOAT16 1
#endif

/* The value of a half from its definition: sign, 5 exponent bits, 10 fraction bits. */
static double half_by_definition(unsigned h)
{
    const int exponent = (int)(h >> 10 & 31);
    const double fraction = (double)(h & 1023);
    double v;
    if (exponent == 31)
        v = fraction == 0.0 ? INFINITY : NAN;
    else if (exponent == 0)
        v = ldexp(fraction, -24);
    else
        v = ldexp(1024.0 + fraction, exponent - 25);
    return h & 0x8000u ? -v : v;
}

static void test_every_half_decodes(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        const double expected = half_by_definition(h);
        const float found = loam_f16_to_f32((uint16_t)h);
        if (isnan(expected))
            assert_true(isnan(found));
        else
            assert_true((double)found == expected);
        assert_int_equal(signbit(found) != 0, h >> 15);
    }
}

static void test_every_half_round_trips(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        const uint16_t back = loam_f32_to_f16(loam_f16_to_f32((uint16_t)h));
        if ((h & 0x7fff) > 0x7c00) {
            assert_true((back & 0x7fff) > 0x7c00);
            assert_int_equal(back >> 15, h >> 15);
        } else {
            assert_int_equal(back, h);
        }
    }
}

/* Between neighbouring halves: the middle goes to the even one, anything off it to the nearer. */
static void test_half_rounding_boundaries(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) {
        const double low = half_by_definition(h);
        const double high = h == 0x7bff ? 65536.0 : half_by_definition(h + 1);
        const float middle = (float)((low + high) / 2.0); /* exact: it needs 12 bits */
        const unsigned even = h & 1 ? h + 1 : h;
        assert_int_equal(loam_f32_to_f16(middle), even);
        assert_int_equal(loam_f32_to_f16(nextafterf(middle, 0.0f)), h);
        assert_int_equal(loam_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(loam_f32_to_f16(-middle), even | 0x8000u);
        assert_int_equal(loam_f32_to_f16(-nextafterf(middle, 0.0f)), h | 0x8000u);
        assert_int_equal(loam_f32_to_f16(-nextafterf(middle, INFINITY)), (h + 1) | 0x8000u);
    }
    assert_int_equal(loam_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(loam_f32_to_f16(-1e38f), 0xfc00);
    assert_int_equal(loam_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(loam_f32_to_f16(-0.0f), 0x8000);
}

static void test_half_against_compiler(void **state)
{
    (void)state;
#ifdef HAVE_FLOAT16
    loam_rng rng = loam_rng_stream(11, "half");
    for (int i = 0; i < 4000000; i++) {
        const float f = loam_float_from_bits((uint32_t)loam_rng_next(&rng));
        const _Float16 expected = (_Float16)f;
        uint16_t bits;
        memcpy(&bits, &expected, sizeof bits);
        if (isnan(f))
            assert_true((loam_f32_to_f16(f) & 0x7fff) > 0x7c00);
        else
            assert_int_equal(loam_f32_to_f16(f), bits);
    }
    for (unsigned h = 0; h < 65536; h++) {
        const uint16_t bits = (uint16_t)h;
        _Float16 half;
        memcpy(&half, &bits, sizeof half);
        const float expected = (float)half;
        const float found = loam_f16_to_f32(bits);
        if (!isnan(expected))
            assert_memory_equal(&found, &expected, sizeof found);
    }
#else
    skip();
#endif
}

static void test_every_bf16(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        const float f = loam_bf16_to_f32((uint16_t)h);
        assert_int_equal(loam_bits_from_float(f), h << 16);
        const uint16_t back = loam_f32_to_bf16(f);
        if (isnan(f))
            assert_true(isnan(loam_bf16_to_f32(back)));
        else
            assert_int_equal(back, h);
    }
}

static void test_bf16_rounding_boundaries(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7f80; h++) {
        const uint32_t even = h & 1 ? h + 1 : h;
        for (uint32_t sign = 0; sign < 2; sign++) {
            const uint32_t base = sign << 31 | h << 16;
            assert_int_equal(loam_f32_to_bf16(loam_float_from_bits(base + 0x8000)),
                             even | sign << 15);
            assert_int_equal(loam_f32_to_bf16(loam_float_from_bits(base + 0x7fff)), h | sign << 15);
            assert_int_equal(loam_f32_to_bf16(loam_float_from_bits(base + 0x8001)),
                             (h + 1) | sign << 15);
        }
    }
    /* NaNs whose payload lies in the lower half only must not become infinities. */
    for (uint32_t payload = 1; payload < 0x10000; payload += 77)
        assert_true(
            isnan(loam_bf16_to_f32(loam_f32_to_bf16(loam_float_from_bits(0x7f800000u | payload)))));
    assert_true(isnan(loam_bf16_to_f32(loam_f32_to_bf16(loam_float_from_bits(0xffffffffu)))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_decodes),
        cmocka_unit_test(test_every_half_round_trips),
        cmocka_unit_test(test_half_rounding_boundaries),
        cmocka_unit_test(test_half_against_compiler),
        cmocka_unit_test(test_every_bf16),
        cmocka_unit_test(test_bf16_rounding_boundaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
