/* kquant.c: decoding of the K types, super-blocks of 256 with quantized scales (layouts and
 * formulas in blocks.h; ggml's order of operations). */
#include "tensor/families.h"

#define BLOCK 256

void loam_decode_q2_k(const void *blocks, float *out, int64_t n)
{
    const loam_block_q2_k *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        const float dmin = loam_load_f16(b[i].dmin);
        for (int g = 0; g < 16; g++) {
            const uint8_t *qs = b[i].qs + 32 * (g / 8) + 16 * (g % 2);
            const int shift = 2 * (g / 2 % 4);
            const float scale = d * (float)(b[i].scales[g] & 15);
            const float min = dmin * (float)(b[i].scales[g] >> 4);
            for (int l = 0; l < 16; l++)
                out[16 * g + l] = scale * (float)(qs[l] >> shift & 3) - min;
        }
    }
}

void loam_decode_q3_k(const void *blocks, float *out, int64_t n)
{
    const loam_block_q3_k *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        int8_t scales[16];
        loam_q3k_scales(b[i].scales, scales);
        for (int g = 0; g < 16; g++) {
            const uint8_t *qs = b[i].qs + 32 * (g / 8) + 16 * (g % 2);
            const uint8_t *hmask = b[i].hmask + 16 * (g % 2);
            const int shift = 2 * (g / 2 % 4);
            const float scale = d * (float)scales[g];
            for (int l = 0; l < 16; l++) {
                const int q = (qs[l] >> shift & 3) | (hmask[l] >> (g / 2) & 1) << 2;
                out[16 * g + l] = scale * (float)(q - 4);
            }
        }
    }
}

void loam_decode_q4_k(const void *blocks, float *out, int64_t n)
{
    const loam_block_q4_k *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        const float dmin = loam_load_f16(b[i].dmin);
        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = b[i].qs + 32 * (g / 2);
            const int shift = 4 * (g % 2);
            uint8_t sc, mn;
            loam_k4_scale_min(b[i].scales, g, &sc, &mn);
            const float scale = d * (float)sc;
            const float min = dmin * (float)mn;
            for (int l = 0; l < 32; l++)
                out[32 * g + l] = scale * (float)(qs[l] >> shift & 15) - min;
        }
    }
}

void loam_decode_q5_k(const void *blocks, float *out, int64_t n)
{
    const loam_block_q5_k *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        const float dmin = loam_load_f16(b[i].dmin);
        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = b[i].qs + 32 * (g / 2);
            const int shift = 4 * (g % 2);
            uint8_t sc, mn;
            loam_k4_scale_min(b[i].scales, g, &sc, &mn);
            const float scale = d * (float)sc;
            const float min = dmin * (float)mn;
            for (int l = 0; l < 32; l++) {
                const int q = (qs[l] >> shift & 15) | (b[i].qh[l] >> g & 1) << 4;
                out[32 * g + l] = scale * (float)q - min;
            }
        }
    }
}

void loam_decode_q6_k(const void *blocks, float *out, int64_t n)
{
    const loam_block_q6_k *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_load_f16(b[i].d);
        for (int g = 0; g < 16; g++) {
            const int s = g / 2 % 4;
            const uint8_t *ql = b[i].ql + 64 * (g / 8) + 32 * (s % 2) + 16 * (g % 2);
            const uint8_t *qh = b[i].qh + 32 * (g / 8) + 16 * (g % 2);
            const int low_shift = s < 2 ? 0 : 4;
            const float scale = d * (float)b[i].scales[g];
            for (int l = 0; l < 16; l++) {
                const int q = (ql[l] >> low_shift & 15) | (qh[l] >> (2 * s) & 3) << 4;
                out[16 * g + l] = scale * (float)(q - 32);
            }
        }
    }
}

void loam_decode_q8_k(const void *blocks, float *out, int64_t n)
{
    const loam_block_q8_k *b = blocks;
    for (int64_t i = 0; i < n / BLOCK; i++, out += BLOCK) {
        const float d = loam_float_from_bits(loam_load_u32(b[i].d));
        for (int j = 0; j < BLOCK; j++)
            out[j] = d * (float)b[i].qs[j];
    }
}
