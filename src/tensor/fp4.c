/* fp4.c: E2M1 elements with E8M0 scales (MXFP4, OCP Microscaling Formats 1.0) or unsigned E4M3
 * scales (NVFP4). ggml keeps the levels doubled and the scales halved (blocks.h). */
#include "tensor/encode.h"
#include "tensor/families.h"

#include <float.h>
#include <math.h>

/* ---- decoding ----------------------------------------------------------------------------- */

void loam_decode_mxfp4(const void *blocks, float *out, int64_t n)
{
    const loam_block_mxfp4 *b = blocks;
    for (int64_t i = 0; i < n / 32; i++, out += 32) {
        const float d = loam_e8m0_half(b[i].e);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)loam_fp4_levels[b[i].qs[j] & 15] * d;
            out[j + 16] = (float)loam_fp4_levels[b[i].qs[j] >> 4] * d;
        }
    }
}

void loam_decode_nvfp4(const void *blocks, float *out, int64_t n)
{
    const loam_block_nvfp4 *b = blocks;
    for (int64_t i = 0; i < n / 64; i++) {
        for (int g = 0; g < 4; g++, out += 16) {
            const float d = loam_ue4m3_half(b[i].d[g]);
            const uint8_t *qs = b[i].qs + 8 * g;
            for (int j = 0; j < 8; j++) {
                out[j] = (float)loam_fp4_levels[qs[j] & 15] * d;
                out[j + 8] = (float)loam_fp4_levels[qs[j] >> 4] * d;
            }
        }
    }
}

/* ---- encoding ----------------------------------------------------------------------------- */

/* The largest E8M0 code whose levels are all finite floats, and the codes of E4M3 scales. */
#define E8M0_LAST 252
#define UE4M3_LAST 126

/* Codes of x in units of `half_scale` (double: its reciprocal may be no float); returns the sum of
 * squared errors, in those units of the input. */
static double nearest_codes(const float *x, int n, double half_scale, uint8_t *codes)
{
    double errors = 0.0;
    const double inverse = half_scale > 0.0 ? 1.0 / half_scale : 0.0;
    for (int i = 0; i < n; i++) {
        const double t = fabs((double)x[i]) * inverse;
        int code = 0;
        while (code < 7 && t > 0.5 * (loam_fp4_levels[code] + loam_fp4_levels[code + 1]))
            code++;
        const double error = half_scale * loam_fp4_levels[code] - fabs((double)x[i]);
        errors += error * error;
        codes[i] = (uint8_t)(x[i] < 0.0f && code > 0 ? code + 8 : code);
    }
    return errors;
}

/* in without NaN and infinities; returns the largest magnitude. */
static float finite_copy(const float *in, float *x, int n)
{
    float largest = 0.0f;
    for (int i = 0; i < n; i++) {
        float v = in[i] == in[i] ? in[i] : 0.0f;
        v = v > FLT_MAX ? FLT_MAX : v;
        v = v < -FLT_MAX ? -FLT_MAX : v;
        x[i] = v;
        largest = fabsf(v) > largest ? fabsf(v) : largest;
    }
    return largest;
}

/* Of the scale whose range just falls short of the largest magnitude (6 to 8 times it saturates)
 * and the next one, the better. */
void loam_encode_mxfp4(const float *in, void *blocks, int64_t n)
{
    loam_block_mxfp4 *b = blocks;
    for (int64_t i = 0; i < n / 32; i++) {
        float x[32];
        uint8_t codes[32];
        double best = INFINITY;
        const float largest = finite_copy(in + 32 * i, x, 32);
        const int first = largest > 0.0f ? ilogbf(largest) - 2 + 127 : 0;
        for (int e = first; e <= first + 1; e++) {
            const int scale = LOAM_MIN(LOAM_MAX(e, 0), E8M0_LAST);
            const double error =
                nearest_codes(x, 32, (double)loam_e8m0_half((uint8_t)scale), codes);
            if (error < best) {
                best = error;
                b[i].e = (uint8_t)scale;
                loam_pack_nibbles(codes, 16, b[i].qs);
            }
        }
    }
}

/* Of the smallest scale that reaches the largest magnitude and the few below it, the best. */
static void encode_nvfp4_group(const float *in, uint8_t *d, uint8_t qs[8])
{
    float x[16];
    uint8_t codes[16];
    double best = INFINITY;
    const float largest = finite_copy(in, x, 16);
    int reach = 0;
    while (reach < UE4M3_LAST && 12.0f * loam_ue4m3_half((uint8_t)reach) < largest)
        reach++;
    for (int scale = LOAM_MAX(reach - 5, 0); scale <= reach; scale++) {
        const double error = nearest_codes(x, 16, (double)loam_ue4m3_half((uint8_t)scale), codes);
        if (error < best) {
            best = error;
            *d = (uint8_t)scale;
            loam_pack_nibbles(codes, 8, qs);
        }
    }
}

void loam_encode_nvfp4(const float *in, void *blocks, int64_t n)
{
    loam_block_nvfp4 *b = blocks;
    for (int64_t i = 0; i < n / 64; i++)
        for (int g = 0; g < 4; g++)
            encode_nvfp4_group(in + 64 * i + 16 * g, &b[i].d[g], b[i].qs + 8 * g);
}
