/* legacy.c: ggml's first quantized types, blocks of 32 with one scale (layouts in blocks.h). */
#include "tensor/encode.h"
#include "tensor/families.h"

#include <math.h>

#define BLOCK 32

/* ---- decoding ----------------------------------------------------------------------------- */

void loam_decode_q4_0(const void *blocks, float *out, int64_t n)
{
    const loam_block_q4_0 *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)((b[i].qs[j] & 15) - 8) * d;
            out[j + 16] = (float)((b[i].qs[j] >> 4) - 8) * d;
        }
    }
}

void loam_decode_q4_1(const void *blocks, float *out, int64_t n)
{
    const loam_block_q4_1 *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        const float m = loam_load_f16(b[i].m);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)(b[i].qs[j] & 15) * d + m;
            out[j + 16] = (float)(b[i].qs[j] >> 4) * d + m;
        }
    }
}

void loam_decode_q5_0(const void *blocks, float *out, int64_t n)
{
    const loam_block_q5_0 *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        const uint32_t high = loam_load_u32(b[i].qh);
        for (int j = 0; j < 16; j++) {
            const int low_half = (b[i].qs[j] & 15) | (int)(high >> j & 1) << 4;
            const int high_half = b[i].qs[j] >> 4 | (int)(high >> (j + 16) & 1) << 4;
            out[j] = (float)(low_half - 16) * d;
            out[j + 16] = (float)(high_half - 16) * d;
        }
    }
}

void loam_decode_q5_1(const void *blocks, float *out, int64_t n)
{
    const loam_block_q5_1 *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        const float m = loam_load_f16(b[i].m);
        const uint32_t high = loam_load_u32(b[i].qh);
        for (int j = 0; j < 16; j++) {
            const int low_half = (b[i].qs[j] & 15) | (int)(high >> j & 1) << 4;
            const int high_half = b[i].qs[j] >> 4 | (int)(high >> (j + 16) & 1) << 4;
            out[j] = (float)low_half * d + m;
            out[j + 16] = (float)high_half * d + m;
        }
    }
}

void loam_decode_q8_0(const void *blocks, float *out, int64_t n)
{
    const loam_block_q8_0 *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        for (int j = 0; j < BLOCK; j++)
            out[j] = (float)b[i].qs[j] * d;
    }
}

void loam_decode_q8_1(const void *blocks, float *out, int64_t n)
{
    const loam_block_q8_1 *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        for (int j = 0; j < BLOCK; j++)
            out[j] = (float)b[i].qs[j] * d;
    }
}

/* ---- encoding ----------------------------------------------------------------------------- */

/* Codes 0 .. 2 * half_range - 1 of a block x ~ (code - half_range) * d. */
static void encode_symmetric(const float *in, float half_range, uint8_t d[2], uint8_t codes[BLOCK])
{
    const loam_levels levels = {-half_range, half_range - 1.0f, NULL};
    float x[BLOCK];
    float w[BLOCK];
    float v[BLOCK];
    const float unit = loam_normalise(in, x, BLOCK);
    loam_error_weights(x, w, BLOCK);
    const float fitted =
        loam_fit_scale(&levels, x, w, BLOCK, -half_range - 0.9f, -half_range + 0.9f, 19);
    const float stored = loam_store_f16(d, fitted * unit);
    loam_quantize(&levels, x, w, BLOCK, unit > 0.0f ? stored / unit : 0.0f, 0.0f, v);
    for (int i = 0; i < BLOCK; i++)
        codes[i] = (uint8_t)(v[i] + half_range);
}

/* Codes 0 .. qmax of a block x ~ code * d + m. */
static void encode_affine(const float *in, float qmax, uint8_t d[2], uint8_t m[2],
                          uint8_t codes[BLOCK])
{
    const loam_levels levels = {0.0f, qmax, NULL};
    float x[BLOCK];
    float w[BLOCK];
    float v[BLOCK];
    float scale;
    float offset;
    const float unit = loam_normalise(in, x, BLOCK);
    loam_error_weights(x, w, BLOCK);
    loam_fit_affine(qmax, x, w, BLOCK, false, &scale, &offset);
    const float stored_d = loam_store_f16(d, scale * unit);
    const float stored_m = loam_store_f16(m, offset * unit);
    const float inverse = unit > 0.0f ? 1.0f / unit : 0.0f;
    loam_quantize(&levels, x, w, BLOCK, stored_d * inverse, stored_m * inverse, v);
    for (int i = 0; i < BLOCK; i++)
        codes[i] = (uint8_t)v[i];
}

/* Splits 5-bit codes into nibbles and fifth bits. */
static void pack_five_bits(uint8_t codes[BLOCK], uint8_t qh[4], uint8_t qs[16])
{
    memset(qh, 0, 4);
    for (int i = 0; i < BLOCK; i++) {
        qh[i / 8] |= (uint8_t)((codes[i] >> 4) << (i % 8));
        codes[i] &= 15;
    }
    loam_pack_nibbles(codes, 16, qs);
}

void loam_encode_q4_0(const float *in, void *blocks, int64_t n)
{
    loam_block_q4_0 *b = blocks;
    uint8_t codes[BLOCK];
    for (int64_t i = 0; i < n / BLOCK; i++) {
        encode_symmetric(in + i * BLOCK, 8.0f, b[i].d, codes);
        loam_pack_nibbles(codes, 16, b[i].qs);
    }
}

void loam_encode_q4_1(const float *in, void *blocks, int64_t n)
{
    loam_block_q4_1 *b = blocks;
    uint8_t codes[BLOCK];
    for (int64_t i = 0; i < n / BLOCK; i++) {
        encode_affine(in + i * BLOCK, 15.0f, b[i].d, b[i].m, codes);
        loam_pack_nibbles(codes, 16, b[i].qs);
    }
}

void loam_encode_q5_0(const float *in, void *blocks, int64_t n)
{
    loam_block_q5_0 *b = blocks;
    uint8_t codes[BLOCK];
    for (int64_t i = 0; i < n / BLOCK; i++) {
        encode_symmetric(in + i * BLOCK, 16.0f, b[i].d, codes);
        pack_five_bits(codes, b[i].qh, b[i].qs);
    }
}

void loam_encode_q5_1(const float *in, void *blocks, int64_t n)
{
    loam_block_q5_1 *b = blocks;
    uint8_t codes[BLOCK];
    for (int64_t i = 0; i < n / BLOCK; i++) {
        encode_affine(in + i * BLOCK, 31.0f, b[i].d, b[i].m, codes);
        pack_five_bits(codes, b[i].qh, b[i].qs);
    }
}

/* 8 bits leave a search nothing to gain: the largest magnitude goes to 127. */
static float encode_eight_bits(const float *in, uint8_t d[2], int8_t qs[BLOCK])
{
    const loam_levels levels = {-127.0f, 127.0f, NULL};
    float x[BLOCK];
    float w[BLOCK];
    float v[BLOCK];
    float largest = 0.0f;
    const float unit = loam_normalise(in, x, BLOCK);
    for (int i = 0; i < BLOCK; i++) {
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
        w[i] = 1.0f;
    }
    const float stored = loam_store_f16(d, largest / 127.0f * unit);
    loam_quantize(&levels, x, w, BLOCK, unit > 0.0f ? stored / unit : 0.0f, 0.0f, v);
    for (int i = 0; i < BLOCK; i++)
        qs[i] = (int8_t)v[i];
    return stored;
}

void loam_encode_q8_0(const float *in, void *blocks, int64_t n)
{
    loam_block_q8_0 *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++)
        encode_eight_bits(in + i * BLOCK, b[i].d, b[i].qs);
}

void loam_encode_q8_1(const float *in, void *blocks, int64_t n)
{
    loam_block_q8_1 *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++) {
        const float d = encode_eight_bits(in + i * BLOCK, b[i].d, b[i].qs);
        int sum = 0;
        for (int j = 0; j < BLOCK; j++)
            sum += b[i].qs[j];
        loam_store_f16(b[i].s, d * (float)sum);
    }
}
