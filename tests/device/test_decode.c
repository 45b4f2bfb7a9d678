/* The CPU device's vector decoders against the scalar ones, bit for bit, for every type, on every
 * instruction set that this machine runs, with random bytes and ordinary blocks, odd addresses and
 * odd lengths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "device/cpu/decode.h"

#define GUARD 64

/* Blocks at an odd address, the scalar result, and room for a vector result between guards. */
typedef struct decode_case {
    loam_type type;
    int64_t n;
    uint8_t *memory;
    uint8_t *blocks;
    float *expected;
    float *found;
    uint16_t *found_bf16;
} decode_case;

static void case_new(decode_case *c, loam_type type, int64_t n)
{
    c->type = type;
    c->n = n;
    c->memory = loam_alloc(loam_row_bytes(type, n) + 1);
    c->expected = loam_alloc((size_t)n * sizeof(float));
    c->found = loam_alloc((size_t)(n + GUARD) * sizeof(float));
    c->found_bf16 = loam_alloc((size_t)(n + GUARD) * sizeof(uint16_t));
    assert_true(c->memory != NULL && c->expected != NULL && c->found != NULL &&
                c->found_bf16 != NULL);
    c->blocks = c->memory + 1;
}

static void case_free(decode_case *c)
{
    loam_free(c->memory);
    loam_free(c->expected);
    loam_free(c->found);
    loam_free(c->found_bf16);
}

static void case_guard(decode_case *c)
{
    memset(c->found, 0x5a, (size_t)(c->n + GUARD) * sizeof(float));
    memset(c->found_bf16, 0x5a, (size_t)(c->n + GUARD) * sizeof(uint16_t));
}

static void case_check(const decode_case *c, const char *set, bool f32, bool bf16)
{
    for (int64_t i = 0; i < c->n; i++) {
        const float e = c->expected[i];
        const uint16_t rounded = loam_f32_to_bf16(e);
        const bool f32_same =
            memcmp(&c->found[i], &e, sizeof e) == 0 || (isnan(e) && isnan(c->found[i]));
        const bool bf16_same =
            c->found_bf16[i] == rounded || (isnan(e) && isnan(loam_bf16_to_f32(c->found_bf16[i])));
        if ((f32 && !f32_same) || (bf16 && !bf16_same))
            print_error("%s, %s, element %lld of %lld: %a and %04x, expected %a and %04x\n", set,
                        loam_type_name(c->type), (long long)i, (long long)c->n, (double)c->found[i],
                        c->found_bf16[i], (double)e, rounded);
        assert_true((!f32 || f32_same) && (!bf16 || bf16_same));
    }
    for (int64_t i = c->n; i < c->n + GUARD; i++) {
        assert_int_equal(loam_bits_from_float(c->found[i]), 0x5a5a5a5a);
        assert_int_equal(c->found_bf16[i], 0x5a5a);
    }
}

/* Runs the public functions and each instruction set's own kernels on filled blocks. */
static void case_run(decode_case *c)
{
    const cpu_decoders *sets[CPU_MAX_DECODERS];
    const int n_sets = loam_cpu_decoders(sets);
    loam_decode(c->type, c->blocks, c->expected, c->n);
    case_guard(c);
    loam_cpu_decode(c->type, c->blocks, c->found, c->n);
    loam_cpu_decode_bf16(c->type, c->blocks, c->found_bf16, c->n);
    case_check(c, "best", true, true);
    for (int s = 0; s < n_sets; s++) {
        const cpu_decode_kernel to_f32 = sets[s]->to_f32[c->type];
        const cpu_decode_kernel to_bf16 = sets[s]->to_bf16[c->type];
        case_guard(c);
        if (to_f32 != NULL)
            to_f32(c->blocks, c->found, c->n);
        if (to_bf16 != NULL)
            to_bf16(c->blocks, c->found_bf16, c->n);
        case_check(c, sets[s]->name, to_f32 != NULL, to_bf16 != NULL);
    }
}

static void test_random_bytes(void **state)
{
    (void)state;
    loam_rng rng = loam_rng_stream(1, "decode");
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        decode_case c;
        if (loam_type_get(type) == NULL)
            continue;
        case_new(&c, (loam_type)type, 256 * 200);
        for (size_t i = 0; i < loam_row_bytes(c.type, c.n); i++)
            c.blocks[i] = (uint8_t)(loam_rng_next(&rng) >> 33);
        case_run(&c);
        case_free(&c);
    }
}

/* Lengths from one block up: odd numbers of blocks, and of elements for scalar types. */
static void test_every_length(void **state)
{
    (void)state;
    loam_rng rng = loam_rng_stream(2, "decode");
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        const loam_type_info *info = loam_type_get(type);
        if (info == NULL)
            continue;
        for (int64_t blocks = 0; blocks < (info->block_ne == 1 ? 70 : 12); blocks++) {
            decode_case c;
            case_new(&c, (loam_type)type, blocks * info->block_ne);
            assert_int_equal(loam_random_fill(c.type, &rng, 0.5f, c.blocks, c.n, NULL), LOAM_OK);
            case_run(&c);
            case_free(&c);
        }
    }
}

/* Scales from subnormal to the largest: BF16 must round subnormals and carry into infinity. */
static void test_extreme_scales(void **state)
{
    (void)state;
    const float scales[] = {1e-44f, 1e-39f, 1e-7f, 1e4f, 6e4f, 1e30f, 1e38f};
    loam_rng rng = loam_rng_stream(3, "decode");
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        if (loam_type_get(type) == NULL)
            continue;
        for (int s = 0; s < LOAM_COUNT(scales); s++) {
            decode_case c;
            case_new(&c, (loam_type)type, 1024);
            assert_int_equal(loam_random_fill(c.type, &rng, scales[s], c.blocks, c.n, NULL),
                             LOAM_OK);
            case_run(&c);
            case_free(&c);
        }
    }
}

/* All halves, and floats around every rounding boundary of a range of BF16s. */
static void test_scalar_types_exhaustively(void **state)
{
    (void)state;
    const loam_type types[] = {LOAM_TYPE_F16, LOAM_TYPE_BF16};
    for (int t = 0; t < LOAM_COUNT(types); t++) {
        decode_case c;
        case_new(&c, types[t], 65536);
        for (unsigned h = 0; h < 65536; h++) {
            const uint16_t bits = (uint16_t)h;
            memcpy(c.blocks + 2 * h, &bits, sizeof bits);
        }
        case_run(&c);
        case_free(&c);
    }
    decode_case c;
    case_new(&c, LOAM_TYPE_F32, 65536 * 4);
    for (uint32_t h = 0; h < 65536; h++) {
        const uint32_t bits[4] = {h << 16 | 0x7fff, h << 16 | 0x8000, h << 16 | 0x8001,
                                  h << 16 | 1};
        memcpy(c.blocks + 16 * h, bits, sizeof bits);
    }
    case_run(&c);
    case_free(&c);
}

/* The types that models are served in have vector kernels wherever there is a set at all. */
static void test_common_types_have_kernels(void **state)
{
    (void)state;
    const loam_type types[] = {LOAM_TYPE_F16,   LOAM_TYPE_BF16,   LOAM_TYPE_Q4_0,  LOAM_TYPE_Q4_1,
                               LOAM_TYPE_Q5_0,  LOAM_TYPE_Q5_1,   LOAM_TYPE_Q8_0,  LOAM_TYPE_Q2_K,
                               LOAM_TYPE_Q3_K,  LOAM_TYPE_Q4_K,   LOAM_TYPE_Q5_K,  LOAM_TYPE_Q6_K,
                               LOAM_TYPE_MXFP4, LOAM_TYPE_IQ4_NL, LOAM_TYPE_IQ4_XS};
    const cpu_decoders *sets[CPU_MAX_DECODERS];
    const int n_sets = loam_cpu_decoders(sets);
    print_message("  instruction sets:");
    for (int s = 0; s < n_sets; s++) {
        print_message(" %s", sets[s]->name);
        for (int t = 0; t < LOAM_COUNT(types); t++) {
            assert_non_null(sets[s]->to_f32[types[t]]);
            assert_non_null(sets[s]->to_bf16[types[t]]);
        }
    }
    print_message("\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_extreme_scales),
        cmocka_unit_test(test_scalar_types_exhaustively),
        cmocka_unit_test(test_common_types_have_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
