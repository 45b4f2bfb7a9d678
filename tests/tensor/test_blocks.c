/* Every decoder against a second, per-element definition: element i of a block is computed from
 * bit fields of the block's bytes, with the float operations in ggml's order, and must agree bit
 * for bit on random blocks, whatever their scales. The codebooks are checked by hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "tensor/tensor.h"

/* ---- reading bits ------------------------------------------------------------------------- */

/* `count` bits from bit `at` of the block, the first of them lowest. */
static int bits(const uint8_t *b, int at, int count)
{
    int v = 0;
    for (int k = 0; k < count; k++)
        v |= (b[(at + k) / 8] >> ((at + k) % 8) & 1) << k;
    return v;
}

static int nibble(const uint8_t *b, int byte, int high)
{
    return bits(b, 8 * byte + 4 * high, 4);
}

static float half_bits(int h)
{
    const int exponent = h >> 10 & 31;
    const int fraction = h & 1023;
    double v = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31)
        v = fraction == 0 ? INFINITY : NAN;
    return (float)(h & 0x8000 ? -v : v);
}

static float half(const uint8_t *b, int byte)
{
    return half_bits(bits(b, 8 * byte, 16));
}

/* ---- one element of each type ------------------------------------------------------------- */

static float legacy_element(loam_type type, const uint8_t *b, int i)
{
    const float d = half(b, 0);
    const int j = i % 16;
    const int high = i / 16;
    switch (type) {
    case LOAM_TYPE_Q4_0:
        return (float)(nibble(b, 2 + j, high) - 8) * d;
    case LOAM_TYPE_Q4_1:
        return (float)nibble(b, 4 + j, high) * d + half(b, 2);
    case LOAM_TYPE_Q5_0:
        return (float)(nibble(b, 6 + j, high) + 16 * bits(b, 16 + i, 1) - 16) * d;
    case LOAM_TYPE_Q5_1:
        return (float)(nibble(b, 8 + j, high) + 16 * bits(b, 32 + i, 1)) * d + half(b, 2);
    case LOAM_TYPE_Q8_0:
        return (float)(int8_t)b[2 + i] * d;
    case LOAM_TYPE_Q8_1:
        return (float)(int8_t)b[4 + i] * d;
    default:
        fail();
        return 0.0f;
    }
}

/* The two low bits of Q2_K and Q3_K, and the two high ones of Q6_K, from byte `start` on. */
static int k_two_bits(const uint8_t *b, int start, int i)
{
    return bits(b, 8 * (start + 32 * (i / 128) + i % 32) + 2 * (i % 128 / 32), 2);
}

/* Scale and min g of Q4_K and Q5_K: six bits each, from byte 4 on. The first four of each are the
 * low bits of bytes 0..3 and 4..7; the others' low nibbles share bytes 8..11, and their two high
 * bits top the bytes of the first four. */
static void k4_scales(const uint8_t *b, int g, int *scale, int *min)
{
    const uint8_t *s = b + 4;
    *scale = g < 4 ? bits(s, 8 * g, 6) : bits(s, 8 * (g + 4), 4) + 16 * bits(s, 8 * (g - 4) + 6, 2);
    *min =
        g < 4 ? bits(s, 8 * (g + 4), 6) : bits(s, 8 * (g + 4) + 4, 4) + 16 * bits(s, 8 * g + 6, 2);
}

static float k_element(loam_type type, const uint8_t *b, int i)
{
    int scale = 0;
    int min = 0;
    switch (type) {
    case LOAM_TYPE_Q2_K: {
        const float dl = half(b, 80) * (float)nibble(b, i / 16, 0);
        const float ml = half(b, 82) * (float)nibble(b, i / 16, 1);
        return dl * (float)k_two_bits(b, 16, i) - ml;
    }
    case LOAM_TYPE_Q3_K: {
        const int g = i / 16;
        const int q = k_two_bits(b, 32, i) + 4 * bits(b, 8 * (i % 32) + i / 32, 1);
        scale = nibble(b, 96 + g % 8, g / 8) + 16 * bits(b, 8 * (104 + g % 4) + g / 4 * 2, 2);
        return half(b, 108) * (float)(scale - 32) * (float)(q - 4);
    }
    case LOAM_TYPE_Q4_K:
        k4_scales(b, i / 32, &scale, &min);
        return half(b, 0) * (float)scale * (float)nibble(b, 16 + i / 64 * 32 + i % 32, i / 32 % 2) -
               half(b, 2) * (float)min;
    case LOAM_TYPE_Q5_K: {
        const int q = nibble(b, 48 + i / 64 * 32 + i % 32, i / 32 % 2) +
                      16 * bits(b, 8 * (16 + i % 32) + i / 32, 1);
        k4_scales(b, i / 32, &scale, &min);
        return half(b, 0) * (float)scale * (float)q - half(b, 2) * (float)min;
    }
    case LOAM_TYPE_Q6_K: {
        const int low = nibble(b, 64 * (i / 128) + i % 64, i % 128 / 64);
        const int q = low + 16 * k_two_bits(b, 128, i) - 32;
        return half(b, 208) * (float)(int8_t)b[192 + i / 16] * (float)q;
    }
    case LOAM_TYPE_Q8_K: {
        float d;
        memcpy(&d, b, sizeof d);
        return d * (float)(int8_t)b[4 + i];
    }
    default:
        fail();
        return 0.0f;
    }
}

/* Sign j of seven stored signs from bit `at` on; the eighth makes the count of minuses even. */
static float stored_sign(const uint8_t *b, int at, int j)
{
    int minuses = 0;
    if (j < 7)
        return bits(b, at + j, 1) ? -1.0f : 1.0f;
    for (int k = 0; k < 7; k++)
        minuses += bits(b, at + k, 1);
    return minuses % 2 ? -1.0f : 1.0f;
}

static float word8(const uint16_t *words, int number, int j)
{
    const float levels[] = {8.0f, 25.0f, 43.0f};
    return levels[(words[number] >> (2 * j)) % 4];
}

static float iq2_element(loam_type type, const uint8_t *b, int i)
{
    const float d = half(b, 0);
    const int word = i / 8;
    const int group = i / 32;
    const int j = i % 8;
    if (type == LOAM_TYPE_IQ2_XXS) {
        const int at = 8 * (2 + 8 * group);
        const float s = (float)bits(b, at + 60, 4);
        return d * (0.5f + s) * 0.25f *
               word8(loam_iq2xxs_words, bits(b, at + 8 * (word % 4), 8), j) *
               stored_sign(b, at + 32 + 7 * (word % 4), j);
    }
    if (type == LOAM_TYPE_IQ2_XS) {
        const int at = 16 + 16 * word;
        const float s = (float)nibble(b, 66 + group, i % 32 / 16);
        return d * (0.5f + s) * 0.25f * word8(loam_iq2xs_words, bits(b, at, 9), j) *
               stored_sign(b, at + 9, j);
    }
    const int number = b[2 + word] + 256 * bits(b, 8 * 66 + 2 * word, 2);
    const float s = (float)nibble(b, 74 + group, i % 32 / 16);
    return d * (0.5f + s) * 0.25f * word8(loam_iq2s_words, number, j) *
           (bits(b, 8 * 34 + i, 1) ? -1.0f : 1.0f);
}

static float iq3_element(loam_type type, const uint8_t *b, int i)
{
    const float d = half(b, 0);
    const int word = i / 4;
    if (type == LOAM_TYPE_IQ3_XXS) {
        const float levels[] = {4, 12, 20, 28, 36, 44, 52, 62};
        const int at = 8 * (66 + 4 * (i / 32));
        const float level = levels[(loam_iq3xxs_words[b[2 + word]] >> (3 * (i % 4))) % 8];
        return d * (0.5f + (float)bits(b, at + 28, 4)) * 0.5f * level *
               stored_sign(b, at + 7 * (i % 32 / 8), i % 8);
    }
    const int number = b[2 + word] + 256 * bits(b, 8 * 66 + word, 1);
    const int level = 1 + 2 * ((loam_iq3s_words[number] >> (3 * (i % 4))) % 8);
    const int s = nibble(b, 106 + i / 64, i % 64 / 32);
    return d * (float)(1 + 2 * s) * (float)level * (bits(b, 8 * 74 + i, 1) ? -1.0f : 1.0f);
}

static float iq1_element(loam_type type, const uint8_t *b, int i)
{
    const int word = i / 8;
    float d;
    int number;
    int s;
    int minus;
    if (type == LOAM_TYPE_IQ1_S) {
        const int at = 8 * 34 + 16 * (i / 32);
        d = half(b, 0);
        number = b[2 + word] + 256 * bits(b, at + 3 * (word % 4), 3);
        s = bits(b, at + 12, 3);
        minus = bits(b, at + 15, 1);
    } else {
        const int at = 8 * 32 + 4 * word;
        int h = 0;
        for (int k = 0; k < 4; k++)
            h += nibble(b, 49 + 2 * k, 1) << (4 * k);
        d = half_bits(h);
        number = b[word] + 256 * bits(b, at, 3);
        s = bits(b, 8 * 48 + 16 * (i / 64) + 3 * (i % 64 / 16), 3);
        minus = bits(b, at + 3, 1);
    }
    const float level = (float)((loam_iq1_words[number] >> (2 * (i % 8))) % 4 - 1);
    return d * (float)(2 * s + 1) * (level + (minus ? -0.125f : 0.125f));
}

static float iq4_element(loam_type type, const uint8_t *b, int i)
{
    const int levels[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    if (type == LOAM_TYPE_IQ4_NL)
        return half(b, 0) * (float)levels[nibble(b, 2 + i % 16, i / 16)];
    const int g = i / 32;
    const int s = bits(b, 32 + 4 * g, 4) + 16 * bits(b, 16 + 2 * g, 2);
    return half(b, 0) * (float)(s - 32) *
           (float)levels[nibble(b, 8 + 16 * g + i % 16, i % 32 / 16)];
}

/* E2M1: sign, two exponent bits, one fraction bit, exponent bias 1. */
static float e2m1(int code)
{
    const int exponent = code >> 1 & 3;
    const int fraction = code & 1;
    const float v = exponent == 0 ? 0.5f * (float)fraction
                                  : ldexpf(1.0f + 0.5f * (float)fraction, exponent - 1);
    return code & 8 && v != 0.0f ? -v : v;
}

static float small_element(loam_type type, const uint8_t *b, int i)
{
    switch (type) {
    case LOAM_TYPE_TQ1_0: {
        /* The byte is the fraction 0.t0t1t2t3t4 in base 3, in 256ths, rounded up. */
        const int byte = i < 160   ? b[i % 32]
                         : i < 240 ? b[32 + (i - 160) % 16]
                                   : b[48 + (i - 240) % 4];
        const int digit = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
        int rest = byte * 243 / 256;
        for (int k = digit; k < 4; k++)
            rest /= 3;
        return (float)(rest % 3 - 1) * half(b, 52);
    }
    case LOAM_TYPE_TQ2_0:
        return (float)(k_two_bits(b, 0, i) - 1) * half(b, 64);
    case LOAM_TYPE_Q1_0:
        return (bits(b, 16 + i, 1) ? 1.0f : -1.0f) * half(b, 0);
    case LOAM_TYPE_Q2_0:
        return (float)(bits(b, 16 + 2 * i, 2) - 1) * half(b, 0);
    case LOAM_TYPE_MXFP4:
        return 2.0f * e2m1(nibble(b, 1 + i % 16, i / 16)) * (float)ldexp(1.0, b[0] - 128);
    case LOAM_TYPE_NVFP4: {
        const int scale = b[i / 16] % 128;
        double d = scale < 8 ? ldexp(scale, -9) : ldexp(8 + scale % 8, scale / 8 - 10);
        if (b[i / 16] == 0x7f)
            d = 0.0;
        return 2.0f * e2m1(nibble(b, 4 + 8 * (i / 16) + i % 8, i % 16 / 8)) * (float)(d / 2.0);
    }
    default:
        fail();
        return 0.0f;
    }
}

static float element(loam_type type, const uint8_t *b, int i)
{
    switch (type) {
    case LOAM_TYPE_Q2_K:
    case LOAM_TYPE_Q3_K:
    case LOAM_TYPE_Q4_K:
    case LOAM_TYPE_Q5_K:
    case LOAM_TYPE_Q6_K:
    case LOAM_TYPE_Q8_K:
        return k_element(type, b, i);
    case LOAM_TYPE_IQ2_XXS:
    case LOAM_TYPE_IQ2_XS:
    case LOAM_TYPE_IQ2_S:
        return iq2_element(type, b, i);
    case LOAM_TYPE_IQ3_XXS:
    case LOAM_TYPE_IQ3_S:
        return iq3_element(type, b, i);
    case LOAM_TYPE_IQ1_S:
    case LOAM_TYPE_IQ1_M:
        return iq1_element(type, b, i);
    case LOAM_TYPE_IQ4_NL:
    case LOAM_TYPE_IQ4_XS:
        return iq4_element(type, b, i);
    case LOAM_TYPE_TQ1_0:
    case LOAM_TYPE_TQ2_0:
    case LOAM_TYPE_Q1_0:
    case LOAM_TYPE_Q2_0:
    case LOAM_TYPE_MXFP4:
    case LOAM_TYPE_NVFP4:
        return small_element(type, b, i);
    default:
        return legacy_element(type, b, i);
    }
}

/* ---- comparison --------------------------------------------------------------------------- */

static void compare_blocks(loam_type type, const uint8_t *blocks, int64_t n)
{
    const loam_type_info *info = loam_type_get((int)type);
    float *out = loam_alloc((size_t)(n + 1) * sizeof(float));
    assert_non_null(out);
    out[n] = 12345.0f;
    loam_decode(type, blocks, out, n);
    assert_true(out[n] == 12345.0f);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *b = blocks + i / info->block_ne * (int64_t)info->block_bytes;
        const float expected = element(type, b, (int)(i % info->block_ne));
        const bool same =
            memcmp(&expected, &out[i], sizeof expected) == 0 || (isnan(expected) && isnan(out[i]));
        if (!same)
            print_error("%s element %lld: %a, expected %a\n", info->name, (long long)i,
                        (double)out[i], (double)expected);
        assert_true(same);
    }
    loam_free(out);
}

/* Random bytes (every bit pattern, infinite and NaN scales too), at an odd address. */
static void test_random_bytes(void **state)
{
    (void)state;
    loam_rng rng = loam_rng_stream(5, "blocks");
    const int64_t n = 256 * 300;
    int types = 0;
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        const loam_type_info *info = loam_type_get(type);
        if (info == NULL || !info->is_quantized)
            continue;
        const size_t bytes = loam_row_bytes((loam_type)type, n);
        uint8_t *memory = loam_alloc(bytes + 1);
        assert_non_null(memory);
        for (size_t i = 0; i < bytes; i++)
            memory[1 + i] = (uint8_t)(loam_rng_next(&rng) >> 40);
        compare_blocks((loam_type)type, memory + 1, n);
        loam_free(memory);
        types++;
    }
    assert_int_equal(types, 27);
}

/* Blocks with ordinary scales, as in a model. */
static void test_ordinary_blocks(void **state)
{
    (void)state;
    loam_rng rng = loam_rng_stream(6, "blocks");
    const int64_t n = 256 * 60;
    for (int type = 0; type < LOAM_TYPE_COUNT; type++) {
        const loam_type_info *info = loam_type_get(type);
        if (info == NULL || !info->is_quantized)
            continue;
        uint8_t *blocks = loam_alloc(loam_row_bytes((loam_type)type, n));
        assert_non_null(blocks);
        assert_int_equal(loam_random_fill((loam_type)type, &rng, 0.03f, blocks, n, NULL), LOAM_OK);
        compare_blocks((loam_type)type, blocks, n);
        loam_free(blocks);
    }
}

/* Every scale byte of the FP4 types. */
static void test_every_fp4_scale(void **state)
{
    (void)state;
    uint8_t mx[256][17];
    uint8_t nv[256][36];
    for (int s = 0; s < 256; s++) {
        memset(mx[s], 0x71 + s % 8, sizeof mx[s]);
        memset(nv[s], 0xa5 + s % 64, sizeof nv[s]);
        mx[s][0] = (uint8_t)s;
        memset(nv[s], s, 4);
    }
    compare_blocks(LOAM_TYPE_MXFP4, mx[0], 256 * 32);
    compare_blocks(LOAM_TYPE_NVFP4, nv[0], 256 * 64);
}

/* ---- codebooks ---------------------------------------------------------------------------- */

static uint64_t fnv1a(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * 0x100000001b3u;
}

/* FNV-1a of the bytes of ggml's own grid: one byte a level, words in order. */
static uint64_t grid_hash(const uint16_t *words, int count, int ne, const int8_t *levels)
{
    const int width = ne == 8 ? 2 : 3;
    uint64_t hash = 0xcbf29ce484222325u;
    for (int w = 0; w < count; w++)
        for (int j = 0; j < ne; j++)
            hash = fnv1a(hash, (uint8_t)levels[words[w] >> (width * j) & ((1 << width) - 1)]);
    return hash;
}

static void assert_ascending(const uint16_t *words, int count)
{
    for (int w = 1; w < count; w++)
        assert_true(words[w] > words[w - 1]);
}

static void test_codebooks(void **state)
{
    (void)state;
    /* The hashes were taken of the tables inside a compiled ggml (iq2xxs_grid and so on). */
    assert_true(grid_hash(loam_iq2xxs_words, 256, 8, loam_iq2_levels) == 0xbb4ee025b5ac6e8eu);
    assert_true(grid_hash(loam_iq2xs_words, 512, 8, loam_iq2_levels) == 0xc9b1ee61e79909bdu);
    assert_true(grid_hash(loam_iq2s_words, 1024, 8, loam_iq2_levels) == 0x123edd38a3b62b90u);
    assert_true(grid_hash(loam_iq1_words, 2048, 8, loam_iq1_levels) == 0x6703ed863501ae2eu);
    assert_true(grid_hash(loam_iq3xxs_words, 256, 4, loam_iq3xxs_levels) == 0xdfa5dc83d6a155d5u);
    assert_true(grid_hash(loam_iq3s_words, 512, 4, loam_iq3s_levels) == 0xfa37020c25b44829u);
    assert_ascending(loam_iq2xxs_words, 256);
    assert_ascending(loam_iq2xs_words, 512);
    assert_ascending(loam_iq2s_words, 1024);
    assert_ascending(loam_iq1_words, 2048);
    assert_ascending(loam_iq3xxs_words, 256);
    assert_ascending(loam_iq3s_words, 512);
}

/* IQ2's words are points of a lattice in which the number of middle levels is even. */
static void test_iq2_parity(void **state)
{
    (void)state;
    for (int w = 0; w < 1024; w++) {
        int middles = 0;
        for (int j = 0; j < 8; j++)
            middles += (loam_iq2s_words[w] >> (2 * j) & 3) == 1;
        assert_int_equal(middles % 2, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_bytes),    cmocka_unit_test(test_ordinary_blocks),
        cmocka_unit_test(test_every_fp4_scale), cmocka_unit_test(test_codebooks),
        cmocka_unit_test(test_iq2_parity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
