/* The type table against the numbers that ggml's GGUF files depend on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tensor/tensor.h"

typedef struct expected_type {
    int number;
    const char *name;
    int block_ne;
    int block_bytes;
} expected_type;

/* ggml.h's enum and the block sizes of its GGUF writer (gguf-py, GGML_QUANT_SIZES). */
static const expected_type expected[] = {
    {0, "f32", 1, 4},         {1, "f16", 1, 2},         {2, "q4_0", 32, 18},
    {3, "q4_1", 32, 20},      {6, "q5_0", 32, 22},      {7, "q5_1", 32, 24},
    {8, "q8_0", 32, 34},      {9, "q8_1", 32, 36},      {10, "q2_K", 256, 84},
    {11, "q3_K", 256, 110},   {12, "q4_K", 256, 144},   {13, "q5_K", 256, 176},
    {14, "q6_K", 256, 210},   {15, "q8_K", 256, 292},   {16, "iq2_xxs", 256, 66},
    {17, "iq2_xs", 256, 74},  {18, "iq3_xxs", 256, 98}, {19, "iq1_s", 256, 50},
    {20, "iq4_nl", 32, 18},   {21, "iq3_s", 256, 110},  {22, "iq2_s", 256, 82},
    {23, "iq4_xs", 256, 136}, {24, "i8", 1, 1},         {25, "i16", 1, 2},
    {26, "i32", 1, 4},        {27, "i64", 1, 8},        {28, "f64", 1, 8},
    {29, "iq1_m", 256, 56},   {30, "bf16", 1, 2},       {34, "tq1_0", 256, 54},
    {35, "tq2_0", 256, 66},   {39, "mxfp4", 32, 17},    {40, "nvfp4", 64, 36},
    {41, "q1_0", 128, 18},    {42, "q2_0", 64, 18},
};

static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < LOAM_COUNT(expected); i++) {
        const loam_type_info *info = loam_type_get(expected[i].number);
        assert_non_null(info);
        assert_string_equal(info->name, expected[i].name);
        assert_string_equal(loam_type_name((loam_type)expected[i].number), expected[i].name);
        assert_int_equal(info->block_ne, expected[i].block_ne);
        assert_int_equal(info->block_bytes, expected[i].block_bytes);
        assert_int_equal(info->is_quantized, expected[i].block_ne > 1);
        assert_non_null(info->decode);
        assert_true(info->block_ne <= LOAM_MAX_BLOCK_NE);
        assert_true(info->block_bytes <= LOAM_MAX_BLOCK_BYTES);
        assert_int_equal(LOAM_MAX_BLOCK_NE % info->block_ne, 0);
        assert_int_equal(loam_row_bytes((loam_type)expected[i].number, 512),
                         512 / expected[i].block_ne * expected[i].block_bytes);
    }
}

static void test_gaps_are_no_types(void **state)
{
    (void)state;
    int known = 0;
    for (int type = -3; type < 300; type++)
        known += loam_type_get(type) != NULL;
    assert_int_equal(known, LOAM_COUNT(expected));
    assert_null(loam_type_get(4));
    assert_null(loam_type_get(31));
    assert_null(loam_type_get(INT32_MAX));
    assert_null(loam_type_get(INT32_MIN));
    assert_string_equal(loam_type_name((loam_type)5), "unknown");
}

static void test_names_are_found_in_any_case(void **state)
{
    (void)state;
    loam_type type = LOAM_TYPE_F32;
    for (int i = 0; i < LOAM_COUNT(expected); i++) {
        assert_true(loam_type_from_name(expected[i].name, &type));
        assert_int_equal(type, expected[i].number);
    }
    assert_true(loam_type_from_name("Q4_k", &type));
    assert_int_equal(type, LOAM_TYPE_Q4_K);
    assert_true(loam_type_from_name("BF16", &type));
    assert_int_equal(type, LOAM_TYPE_BF16);
    assert_false(loam_type_from_name("q4_K_M", &type));
    assert_false(loam_type_from_name("", &type));
    assert_int_equal(type, LOAM_TYPE_BF16);
}

static void test_types_without_encoder_say_so(void **state)
{
    (void)state;
    const float x[256] = {0};
    uint8_t blocks[LOAM_MAX_BLOCK_BYTES];
    loam_error e = {0};
    assert_int_equal(loam_encode(LOAM_TYPE_IQ2_XXS, x, blocks, 256, &e), LOAM_E_UNSUPPORTED);
    assert_non_null(strstr(e.message, "iq2_xxs"));
    assert_int_equal(loam_encode(LOAM_TYPE_Q4_K, x, blocks, 256, NULL), LOAM_OK);
}

static void test_integers_and_doubles(void **state)
{
    (void)state;
    const float in[] = {-1e30f, -128.5f, -2.5f, -0.5f, 0.0f, 1.5f, 127.4f, 40000.0f, 1e30f};
    const loam_type types[] = {LOAM_TYPE_I8, LOAM_TYPE_I16, LOAM_TYPE_I32, LOAM_TYPE_I64,
                               LOAM_TYPE_F64};
    const float expected_values[][9] = {
        {-128, -128, -2, 0, 0, 2, 127, 127, 127},
        {-32768, -128, -2, 0, 0, 2, 127, 32767, 32767},
        {-0x1p31f, -128, -2, 0, 0, 2, 127, 40000, 0x1p31f},
        {-0x1p63f, -128, -2, 0, 0, 2, 127, 40000, 0x1p63f},
        {-1e30f, -128.5f, -2.5f, -0.5f, 0, 1.5f, 127.4f, 40000, 1e30f},
    };
    for (int t = 0; t < LOAM_COUNT(types); t++) {
        uint8_t blocks[9 * 8];
        float out[9];
        assert_int_equal(loam_encode(types[t], in, blocks, 9, NULL), LOAM_OK);
        loam_decode(types[t], blocks, out, 9);
        for (int i = 0; i < 9; i++)
            assert_true(out[i] == expected_values[t][i]);
    }
    int32_t integer = -1;
    const float nan = loam_float_from_bits(0x7fc00000u);
    assert_int_equal(loam_encode(LOAM_TYPE_I32, &nan, &integer, 1, NULL), LOAM_OK);
    assert_int_equal(integer, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_gaps_are_no_types),
        cmocka_unit_test(test_names_are_found_in_any_case),
        cmocka_unit_test(test_types_without_encoder_say_so),
        cmocka_unit_test(test_integers_and_doubles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
