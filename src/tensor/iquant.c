/* iquant.c: the IQ types: codebooks of levels (IQ4) and of words (IQ1 to IQ3). Layouts and
 * formulas in blocks.h; ggml's order of operations. */
#include "tensor/encode.h"
#include "tensor/families.h"

#define BLOCK 256
#define IQ1_DELTA 0.125f

/* out[j] = +-(scale * level j of the word), for the 8 elements of an IQ2 word. */
static void decode_word8(uint16_t word, uint8_t signs, float scale, float *out)
{
    for (int j = 0; j < 8; j++) {
        const float v = scale * (float)loam_iq2_levels[word >> (2 * j) & 3];
        out[j] = signs >> j & 1 ? -v : v;
    }
}

/* The same for two words of 4 elements (IQ3). */
static void decode_words4(const int8_t levels[8], uint16_t first, uint16_t second, uint8_t signs,
                          float scale, float *out)
{
    const uint32_t word = first | (uint32_t)second << 12;
    for (int j = 0; j < 8; j++) {
        const float v = scale * (float)levels[word >> (3 * j) & 7];
        out[j] = signs >> j & 1 ? -v : v;
    }
}

static void decode_iq1_word(uint16_t word, float scale, float delta, float *out)
{
    for (int j = 0; j < 8; j++)
        out[j] = scale * ((float)loam_iq1_levels[word >> (2 * j) & 3] + delta);
}

void loam_decode_iq2_xxs(const void *blocks, float *out, int64_t n)
{
    const loam_block_iq2_xxs *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++) {
        const float d = loam_load_f16(b[i].d);
        for (int g = 0; g < 8; g++) {
            const uint8_t *numbers = b[i].qs + 8 * g;
            const uint32_t packed = loam_load_u32(numbers + 4);
            const float scale = d * (0.5f + (float)(packed >> 28)) * 0.25f;
            for (int r = 0; r < 4; r++, out += 8)
                decode_word8(loam_iq2xxs_words[numbers[r]], loam_iq_signs(packed >> (7 * r) & 127),
                             scale, out);
        }
    }
}

void loam_decode_iq2_xs(const void *blocks, float *out, int64_t n)
{
    const loam_block_iq2_xs *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++) {
        const float d = loam_load_f16(b[i].d);
        for (int g = 0; g < 8; g++) {
            for (int r = 0; r < 4; r++, out += 8) {
                const uint16_t packed = loam_load_u16(b[i].qs + 2 * (4 * g + r));
                const int s = b[i].scales[g] >> (4 * (r / 2)) & 15;
                const float scale = d * (0.5f + (float)s) * 0.25f;
                decode_word8(loam_iq2xs_words[packed & 511], loam_iq_signs(packed >> 9), scale,
                             out);
            }
        }
    }
}

void loam_decode_iq2_s(const void *blocks, float *out, int64_t n)
{
    const loam_block_iq2_s *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++) {
        const float d = loam_load_f16(b[i].d);
        for (int g = 0; g < 8; g++) {
            for (int r = 0; r < 4; r++, out += 8) {
                const int number = b[i].qs[4 * g + r] | (b[i].qh[g] >> (2 * r) & 3) << 8;
                const int s = b[i].scales[g] >> (4 * (r / 2)) & 15;
                const float scale = d * (0.5f + (float)s) * 0.25f;
                decode_word8(loam_iq2s_words[number], b[i].signs[4 * g + r], scale, out);
            }
        }
    }
}

void loam_decode_iq3_xxs(const void *blocks, float *out, int64_t n)
{
    const loam_block_iq3_xxs *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++) {
        const float d = loam_load_f16(b[i].d);
        for (int g = 0; g < 8; g++) {
            const uint8_t *numbers = b[i].qs + 8 * g;
            const uint32_t packed = loam_load_u32(b[i].scales_signs + 4 * g);
            const float scale = d * (0.5f + (float)(packed >> 28)) * 0.5f;
            for (int r = 0; r < 4; r++, out += 8)
                decode_words4(loam_iq3xxs_levels, loam_iq3xxs_words[numbers[2 * r]],
                              loam_iq3xxs_words[numbers[2 * r + 1]],
                              loam_iq_signs(packed >> (7 * r) & 127), scale, out);
        }
    }
}

void loam_decode_iq3_s(const void *blocks, float *out, int64_t n)
{
    const loam_block_iq3_s *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++) {
        const float d = loam_load_f16(b[i].d);
        for (int g = 0; g < 8; g++) {
            const uint8_t *numbers = b[i].qs + 8 * g;
            const uint32_t high = b[i].qh[g];
            const int s = b[i].scales[g / 2] >> (4 * (g % 2)) & 15;
            const float scale = d * (float)(1 + 2 * s);
            for (int r = 0; r < 4; r++, out += 8) {
                const uint32_t first = numbers[2 * r] | (high >> (2 * r) & 1) << 8;
                const uint32_t second = numbers[2 * r + 1] | (high >> (2 * r + 1) & 1) << 8;
                decode_words4(loam_iq3s_levels, loam_iq3s_words[first], loam_iq3s_words[second],
                              b[i].signs[4 * g + r], scale, out);
            }
        }
    }
}

void loam_decode_iq1_s(const void *blocks, float *out, int64_t n)
{
    const loam_block_iq1_s *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++) {
        const float d = loam_load_f16(b[i].d);
        for (int g = 0; g < 8; g++) {
            const uint32_t high = loam_load_u16(b[i].qh + 2 * g);
            const float scale = d * (float)(2 * (high >> 12 & 7) + 1);
            const float delta = high >> 15 ? -IQ1_DELTA : IQ1_DELTA;
            for (int r = 0; r < 4; r++, out += 8) {
                const uint32_t number = b[i].qs[4 * g + r] | (high >> (3 * r) & 7) << 8;
                decode_iq1_word(loam_iq1_words[number], scale, delta, out);
            }
        }
    }
}

void loam_decode_iq1_m(const void *blocks, float *out, int64_t n)
{
    const loam_block_iq1_m *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++) {
        uint32_t scales[4];
        uint32_t half = 0;
        for (int k = 0; k < 4; k++) {
            scales[k] = loam_load_u16(b[i].scales + 2 * k);
            half |= scales[k] >> 12 << (4 * k);
        }
        const float d = loam_half_value((uint16_t)half);
        for (int word = 0; word < 32; word++, out += 8) {
            const uint32_t high = b[i].qh[word / 2] >> (4 * (word % 2)) & 15u;
            const uint32_t number = b[i].qs[word] | (high & 7) << 8;
            const uint32_t s = scales[word / 8] >> (3 * (word / 2 % 4)) & 7;
            decode_iq1_word(loam_iq1_words[number], d * (float)(2 * s + 1),
                            high & 8 ? -IQ1_DELTA : IQ1_DELTA, out);
        }
    }
}

void loam_decode_iq4_nl(const void *blocks, float *out, int64_t n)
{
    const loam_block_iq4_nl *b = blocks;
    for (int64_t i = 0; i < n / 32; i++, out += 32) {
        const float d = loam_load_f16(b[i].d);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)loam_iq4nl_levels[b[i].qs[j] & 15];
            out[j + 16] = d * (float)loam_iq4nl_levels[b[i].qs[j] >> 4];
        }
    }
}

void loam_decode_iq4_xs(const void *blocks, float *out, int64_t n)
{
    const loam_block_iq4_xs *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++) {
        const float d = loam_load_f16(b[i].d);
        const int high = loam_load_u16(b[i].scales_h);
        for (int g = 0; g < 8; g++, out += 32) {
            const uint8_t *qs = b[i].qs + 16 * g;
            const int low = b[i].scales_l[g / 2] >> (4 * (g % 2)) & 15;
            const float scale = d * (float)((low | (high >> (2 * g) & 3) << 4) - 32);
            for (int j = 0; j < 16; j++) {
                out[j] = scale * (float)loam_iq4nl_levels[qs[j] & 15];
                out[j + 16] = scale * (float)loam_iq4nl_levels[qs[j] >> 4];
            }
        }
    }
}

void loam_encode_iq4_nl(const float *in, void *blocks, int64_t n)
{
    loam_block_iq4_nl *b = blocks;
    for (int64_t i = 0; i < n / 32; i++) {
        float x[32];
        float w[32];
        float v[32];
        uint8_t codes[32];
        const float unit = loam_normalise(in + 32 * i, x, 32);
        loam_error_weights(x, w, 32);
        const float fitted = loam_fit_scale_iq4(x, w, 32);
        const float stored = loam_store_f16(b[i].d, fitted * unit);
        loam_quantize(&loam_levels_iq4, x, w, 32, unit > 0.0f ? stored / unit : 0.0f, 0.0f, v);
        loam_iq4_codes(v, codes, 32);
        loam_pack_nibbles(codes, 16, b[i].qs);
    }
}
