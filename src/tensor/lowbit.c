/* lowbit.c: types of one or two bits whose levels are small integers: TQ1_0 and TQ2_0 (ternary, as
 * BitNet and TriLM weights are), Q1_0 and Q2_0. Layouts and formulas in blocks.h. */
#include "tensor/encode.h"
#include "tensor/families.h"

#include <math.h>

/* ---- decoding ----------------------------------------------------------------------------- */

static const uint8_t powers_of_three[5] = {1, 3, 9, 27, 81};

/* Digit n of `count` bytes, as floats -d, 0, d. */
static float *decode_trits(const uint8_t *bytes, int count, int digits, float d, float *out)
{
    for (int digit = 0; digit < digits; digit++) {
        for (int m = 0; m < count; m++) {
            const uint32_t rest = (bytes[m] * (uint32_t)powers_of_three[digit]) & 255u;
            out[m] = (float)((int)(rest * 3 >> 8) - 1) * d;
        }
        out += count;
    }
    return out;
}

void loam_decode_tq1_0(const void *blocks, float *out, int64_t n)
{
    const loam_block_tq1_0 *b = blocks;
    for (int64_t i = 0; i < n / 256; i++) {
        const float d = loam_load_f16(b[i].d);
        out = decode_trits(b[i].qs, 32, 5, d, out);
        out = decode_trits(b[i].qs + 32, 16, 5, d, out);
        out = decode_trits(b[i].qh, 4, 4, d, out);
    }
}

void loam_decode_tq2_0(const void *blocks, float *out, int64_t n)
{
    const loam_block_tq2_0 *b = blocks;
    for (int64_t i = 0; i < n / 256; i++, out += 256) {
        const float d = loam_load_f16(b[i].d);
        for (int run = 0; run < 8; run++) {
            const uint8_t *qs = b[i].qs + 32 * (run / 4);
            for (int m = 0; m < 32; m++)
                out[32 * run + m] = (float)((qs[m] >> (2 * (run % 4)) & 3) - 1) * d;
        }
    }
}

void loam_decode_q1_0(const void *blocks, float *out, int64_t n)
{
    const loam_block_q1_0 *b = blocks;
    for (int64_t i = 0; i < n / 128; i++, out += 128) {
        const float d = loam_load_f16(b[i].d);
        for (int j = 0; j < 128; j++)
            out[j] = b[i].qs[j / 8] >> (j % 8) & 1 ? d : -d;
    }
}

void loam_decode_q2_0(const void *blocks, float *out, int64_t n)
{
    const loam_block_q2_0 *b = blocks;
    for (int64_t i = 0; i < n / 64; i++, out += 64) {
        const float d = loam_load_f16(b[i].d);
        for (int j = 0; j < 64; j++)
            out[j] = (float)((b[i].qs[j / 4] >> (2 * (j % 4)) & 3) - 1) * d;
    }
}

/* ---- encoding ----------------------------------------------------------------------------- */

/* Codes 0 .. of a block x ~ (code - 1) * d. The extreme element is tried at 1, where ternary
 * weights want it, up to three times `hi`: few levels want many values beyond the last. */
static void encode_small(const float *in, int n, float hi, uint8_t d[2], uint8_t *codes)
{
    const loam_levels levels = {-1.0f, hi, NULL};
    float x[LOAM_MAX_BLOCK_NE];
    float w[LOAM_MAX_BLOCK_NE];
    float v[LOAM_MAX_BLOCK_NE];
    const float unit = loam_normalise(in, x, n);
    loam_error_weights(x, w, n);
    const float fitted = loam_fit_scale(&levels, x, w, n, 1.0f, 3.0f * hi, 21);
    const float stored = loam_store_f16(d, fitted * unit);
    loam_quantize(&levels, x, w, n, unit > 0.0f ? stored / unit : 0.0f, 0.0f, v);
    for (int i = 0; i < n; i++)
        codes[i] = (uint8_t)(v[i] + 1.0f);
}

/* The inverse of decode_trits: ceil(256 * value / 243). */
static const uint8_t *encode_trits(const uint8_t *codes, int count, int digits, uint8_t *bytes)
{
    for (int m = 0; m < count; m++) {
        uint32_t value = 0;
        for (int digit = 0; digit < 5; digit++)
            value = value * 3 + (digit < digits ? codes[m + digit * count] : 0u);
        bytes[m] = (uint8_t)((value * 256 + 242) / 243);
    }
    return codes + digits * count;
}

void loam_encode_tq1_0(const float *in, void *blocks, int64_t n)
{
    loam_block_tq1_0 *b = blocks;
    uint8_t codes[256];
    for (int64_t i = 0; i < n / 256; i++) {
        encode_small(in + 256 * i, 256, 1.0f, b[i].d, codes);
        const uint8_t *rest = encode_trits(codes, 32, 5, b[i].qs);
        rest = encode_trits(rest, 16, 5, b[i].qs + 32);
        encode_trits(rest, 4, 4, b[i].qh);
    }
}

void loam_encode_tq2_0(const float *in, void *blocks, int64_t n)
{
    loam_block_tq2_0 *b = blocks;
    uint8_t codes[256];
    for (int64_t i = 0; i < n / 256; i++) {
        encode_small(in + 256 * i, 256, 1.0f, b[i].d, codes);
        memset(b[i].qs, 0, sizeof b[i].qs);
        for (int j = 0; j < 256; j++)
            b[i].qs[32 * (j / 128) + j % 32] |= (uint8_t)(codes[j] << (2 * (j / 32 % 4)));
    }
}

/* The error of +-d is least where d is the mean magnitude. */
void loam_encode_q1_0(const float *in, void *blocks, int64_t n)
{
    loam_block_q1_0 *b = blocks;
    for (int64_t i = 0; i < n / 128; i++) {
        float x[128];
        float sum = 0.0f;
        const float unit = loam_normalise(in + 128 * i, x, 128);
        memset(b[i].qs, 0, sizeof b[i].qs);
        for (int j = 0; j < 128; j++) {
            sum += fabsf(x[j]);
            b[i].qs[j / 8] |= (uint8_t)((x[j] >= 0.0f) << (j % 8));
        }
        loam_store_f16(b[i].d, sum / 128.0f * unit);
    }
}

void loam_encode_q2_0(const float *in, void *blocks, int64_t n)
{
    loam_block_q2_0 *b = blocks;
    uint8_t codes[64];
    for (int64_t i = 0; i < n / 64; i++) {
        encode_small(in + 64 * i, 64, 2.0f, b[i].d, codes);
        memset(b[i].qs, 0, sizeof b[i].qs);
        for (int j = 0; j < 64; j++)
            b[i].qs[j / 4] |= (uint8_t)(codes[j] << (2 * (j % 4)));
    }
}
