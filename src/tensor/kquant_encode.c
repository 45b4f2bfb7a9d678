/* kquant_encode.c: encoding of the K types and IQ4_XS, super-blocks of 256 whose groups have small
 * integer scales.
 *
 * Each group's own best scale is searched first (encode.h); the super-block's half scale is set by
 * the largest of them; each group then takes the integer scale (and minimum) with the least error
 * among the neighbours of its best; and last the half scales are solved once more by least squares
 * for the integers and codes chosen, and kept if that lowers the error. */
#include "tensor/encode.h"
#include "tensor/families.h"

#include <math.h>

#define BLOCK 256
#define MAX_GROUPS 16

static float clamp(float v, float lo, float hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* ---- x ~ d * scale * level ---------------------------------------------------------------- */

typedef struct symmetric_format {
    loam_levels levels;
    int groups;
    float scale_lo; /* the integer scales; lo has the larger magnitude */
    float scale_hi;
} symmetric_format;

typedef struct symmetric_block {
    float x[BLOCK];
    float w[BLOCK];
    float v[BLOCK];           /* the chosen levels */
    float scales[MAX_GROUPS]; /* integers */
    float d;                  /* in units of the block */
} symmetric_block;

static float fit_group(const symmetric_format *f, const float *x, const float *w, int n)
{
    if (f->levels.table != NULL)
        return loam_fit_scale_iq4(x, w, n);
    return loam_fit_scale(&f->levels, x, w, n, f->levels.lo - 0.9f, f->levels.lo + 0.9f, 19);
}

/* Chooses the integer scale of group g, and its levels; returns the error. */
static float choose_scale(const symmetric_format *f, symmetric_block *s, int g, float fitted)
{
    const int n = BLOCK / f->groups;
    const float ideal = s->d != 0.0f ? rintf(fitted / s->d) : 0.0f;
    float best = INFINITY;
    for (int step = -1; step <= 1; step++) {
        float v[BLOCK];
        const float scale = clamp(ideal + (float)step, f->scale_lo, f->scale_hi);
        const float error =
            loam_quantize(&f->levels, s->x + g * n, s->w + g * n, n, s->d * scale, 0.0f, v);
        if (error < best) {
            best = error;
            s->scales[g] = scale;
            memcpy(s->v + g * n, v, (size_t)n * sizeof(float));
        }
    }
    return best;
}

/* The d of least error for the chosen scales and levels. */
static float solve_d(const symmetric_format *f, const symmetric_block *s)
{
    double xv = 0.0;
    double vv = 0.0;
    for (int i = 0; i < BLOCK; i++) {
        const double v = (double)(s->scales[i / (BLOCK / f->groups)] * s->v[i]);
        xv += (double)(s->w[i] * s->x[i]) * v;
        vv += (double)s->w[i] * v * v;
    }
    return vv > 0.0 ? (float)(xv / vv) : 0.0f;
}

static void encode_symmetric(const symmetric_format *f, const float *in, uint8_t d[2],
                             symmetric_block *s)
{
    const int n = BLOCK / f->groups;
    float fitted[MAX_GROUPS];
    float extreme = 0.0f;
    float error = 0.0f;
    const float unit = loam_normalise(in, s->x, BLOCK);
    loam_error_weights(s->x, s->w, BLOCK);
    for (int g = 0; g < f->groups; g++) {
        fitted[g] = fit_group(f, s->x + g * n, s->w + g * n, n);
        extreme = fabsf(fitted[g]) > fabsf(extreme) ? fitted[g] : extreme;
    }
    const float inverse_unit = unit > 0.0f ? 1.0f / unit : 0.0f;
    s->d = loam_store_f16(d, extreme / f->scale_lo * unit) * inverse_unit;
    for (int g = 0; g < f->groups; g++)
        error += choose_scale(f, s, g, fitted[g]);

    uint8_t solved[2];
    float v[BLOCK];
    const float solved_d = loam_store_f16(solved, solve_d(f, s) * unit) * inverse_unit;
    float solved_error = 0.0f;
    for (int g = 0; g < f->groups; g++)
        solved_error += loam_quantize(&f->levels, s->x + g * n, s->w + g * n, n,
                                      solved_d * s->scales[g], 0.0f, v + g * n);
    if (solved_error < error) {
        memcpy(d, solved, sizeof solved);
        memcpy(s->v, v, sizeof v);
    }
}

void loam_encode_q3_k(const float *in, void *blocks, int64_t n)
{
    static const symmetric_format format = {{-4.0f, 3.0f, NULL}, 16, -32.0f, 31.0f};
    loam_block_q3_k *b = blocks;
    symmetric_block s;
    for (int64_t k = 0; k < n / BLOCK; k++) {
        loam_block_q3_k *out = &b[k];
        memset(out, 0, sizeof *out);
        encode_symmetric(&format, in + BLOCK * k, out->d, &s);
        for (int g = 0; g < 16; g++) {
            const int scale = (int)s.scales[g] + 32;
            out->scales[g % 8] |= (uint8_t)((scale & 15) << (g < 8 ? 0 : 4));
            out->scales[8 + g % 4] |= (uint8_t)(scale >> 4 << (2 * (g / 4)));
        }
        for (int i = 0; i < BLOCK; i++) {
            const int q = (int)s.v[i] + 4;
            out->qs[32 * (i / 128) + i % 32] |= (uint8_t)((q & 3) << (2 * (i / 32 % 4)));
            out->hmask[i % 32] |= (uint8_t)(q >> 2 << (i / 32));
        }
    }
}

void loam_encode_q6_k(const float *in, void *blocks, int64_t n)
{
    static const symmetric_format format = {{-32.0f, 31.0f, NULL}, 16, -128.0f, 127.0f};
    loam_block_q6_k *b = blocks;
    symmetric_block s;
    for (int64_t k = 0; k < n / BLOCK; k++) {
        loam_block_q6_k *out = &b[k];
        memset(out, 0, sizeof *out);
        encode_symmetric(&format, in + BLOCK * k, out->d, &s);
        for (int g = 0; g < 16; g++)
            out->scales[g] = (int8_t)s.scales[g];
        for (int i = 0; i < BLOCK; i++) {
            const int q = (int)s.v[i] + 32;
            const int run = i / 32 % 4;
            out->ql[64 * (i / 128) + i % 64] |= (uint8_t)((q & 15) << (run < 2 ? 0 : 4));
            out->qh[32 * (i / 128) + i % 32] |= (uint8_t)(q >> 4 << (2 * run));
        }
    }
}

void loam_encode_iq4_xs(const float *in, void *blocks, int64_t n)
{
    const symmetric_format format = {loam_levels_iq4, 8, -32.0f, 31.0f};
    loam_block_iq4_xs *b = blocks;
    symmetric_block s;
    uint8_t codes[BLOCK];
    for (int64_t k = 0; k < n / BLOCK; k++) {
        loam_block_iq4_xs *out = &b[k];
        memset(out, 0, sizeof *out);
        encode_symmetric(&format, in + BLOCK * k, out->d, &s);
        loam_iq4_codes(s.v, codes, BLOCK);
        for (int g = 0; g < 8; g++) {
            const int scale = (int)s.scales[g] + 32;
            out->scales_l[g / 2] |= (uint8_t)((scale & 15) << (4 * (g % 2)));
            out->scales_h[g / 4] |= (uint8_t)(scale >> 4 << (2 * (g % 4)));
            loam_pack_nibbles(codes + 32 * g, 16, out->qs + 16 * g);
        }
    }
}

/* ---- x ~ d * scale * q - dmin * min ------------------------------------------------------- */

typedef struct affine_format {
    float qmax;
    int groups;
    float scale_max; /* of the integer scales and mins, from 0 */
} affine_format;

typedef struct affine_block {
    float x[BLOCK];
    float w[BLOCK];
    float q[BLOCK];
    float scales[MAX_GROUPS]; /* integers */
    float mins[MAX_GROUPS];
    float d; /* in units of the block */
    float dmin;
} affine_block;

/* Chooses the integer scale and min of group g, and its codes; returns the error. */
static float choose_scale_min(const affine_format *f, affine_block *s, int g, float fitted_scale,
                              float fitted_min)
{
    const loam_levels levels = {0.0f, f->qmax, NULL};
    const int n = BLOCK / f->groups;
    const float scale = s->d > 0.0f ? floorf(fitted_scale / s->d) : 0.0f;
    const float min = s->dmin > 0.0f ? floorf(fitted_min / s->dmin) : 0.0f;
    float best = INFINITY;
    for (int step = 0; step < 4; step++) {
        float q[BLOCK];
        const float trial_scale = clamp(scale + (float)(step & 1), 0.0f, f->scale_max);
        const float trial_min = clamp(min + (float)(step >> 1), 0.0f, f->scale_max);
        const float error = loam_quantize(&levels, s->x + g * n, s->w + g * n, n,
                                          s->d * trial_scale, -s->dmin * trial_min, q);
        if (error < best) {
            best = error;
            s->scales[g] = trial_scale;
            s->mins[g] = trial_min;
            memcpy(s->q + g * n, q, (size_t)n * sizeof(float));
        }
    }
    return best;
}

/* The d and dmin of least error for the chosen integers; false where they are not determined or
 * not positive. */
static bool solve_d_dmin(const affine_format *f, const affine_block *s, float *d, float *dmin)
{
    double aa = 0.0, ab = 0.0, bb = 0.0, xa = 0.0, xb = 0.0;
    for (int i = 0; i < BLOCK; i++) {
        const int g = i / (BLOCK / f->groups);
        const double a = (double)(s->scales[g] * s->q[i]);
        const double b = -(double)s->mins[g];
        const double w = (double)s->w[i];
        aa += w * a * a;
        ab += w * a * b;
        bb += w * b * b;
        xa += w * a * (double)s->x[i];
        xb += w * b * (double)s->x[i];
    }
    const double determinant = aa * bb - ab * ab;
    if (determinant <= 1e-9 * aa * bb)
        return false;
    *d = (float)((bb * xa - ab * xb) / determinant);
    *dmin = (float)((aa * xb - ab * xa) / determinant);
    return *d > 0.0f && *dmin >= 0.0f;
}

static void encode_affine(const affine_format *f, const float *in, uint8_t d[2], uint8_t dmin[2],
                          affine_block *s)
{
    const loam_levels levels = {0.0f, f->qmax, NULL};
    const int n = BLOCK / f->groups;
    float scales[MAX_GROUPS];
    float offsets[MAX_GROUPS];
    float largest_scale = 0.0f;
    float lowest_offset = 0.0f;
    float error = 0.0f;
    const float unit = loam_normalise(in, s->x, BLOCK);
    loam_error_weights(s->x, s->w, BLOCK);
    for (int g = 0; g < f->groups; g++) {
        loam_fit_affine(f->qmax, s->x + g * n, s->w + g * n, n, true, &scales[g], &offsets[g]);
        largest_scale = scales[g] > largest_scale ? scales[g] : largest_scale;
        lowest_offset = offsets[g] < lowest_offset ? offsets[g] : lowest_offset;
    }
    const float inverse_unit = unit > 0.0f ? 1.0f / unit : 0.0f;
    s->d = loam_store_f16(d, largest_scale / f->scale_max * unit) * inverse_unit;
    s->dmin = loam_store_f16(dmin, -lowest_offset / f->scale_max * unit) * inverse_unit;
    for (int g = 0; g < f->groups; g++)
        error += choose_scale_min(f, s, g, scales[g], -offsets[g]);

    float solved_d;
    float solved_dmin;
    if (!solve_d_dmin(f, s, &solved_d, &solved_dmin))
        return;
    uint8_t stored[4];
    float q[BLOCK];
    solved_d = loam_store_f16(stored, solved_d * unit) * inverse_unit;
    solved_dmin = loam_store_f16(stored + 2, solved_dmin * unit) * inverse_unit;
    float solved_error = 0.0f;
    for (int g = 0; g < f->groups; g++)
        solved_error +=
            loam_quantize(&levels, s->x + g * n, s->w + g * n, n, solved_d * s->scales[g],
                          -solved_dmin * s->mins[g], q + g * n);
    if (solved_error < error) {
        memcpy(d, stored, 2);
        memcpy(dmin, stored + 2, 2);
        memcpy(s->q, q, sizeof q);
    }
}

void loam_encode_q2_k(const float *in, void *blocks, int64_t n)
{
    static const affine_format format = {3.0f, 16, 15.0f};
    loam_block_q2_k *b = blocks;
    affine_block s;
    for (int64_t k = 0; k < n / BLOCK; k++) {
        loam_block_q2_k *out = &b[k];
        memset(out, 0, sizeof *out);
        encode_affine(&format, in + BLOCK * k, out->d, out->dmin, &s);
        for (int g = 0; g < 16; g++)
            out->scales[g] = (uint8_t)((int)s.scales[g] | (int)s.mins[g] << 4);
        for (int i = 0; i < BLOCK; i++)
            out->qs[32 * (i / 128) + i % 32] |= (uint8_t)((int)s.q[i] << (2 * (i / 32 % 4)));
    }
}

/* The inverse of loam_k4_scale_min; out is zero before. */
static void pack_k4_scales(const affine_block *s, uint8_t out[12])
{
    for (int g = 0; g < 8; g++) {
        const int scale = (int)s->scales[g];
        const int min = (int)s->mins[g];
        if (g < 4) {
            out[g] |= (uint8_t)scale;
            out[g + 4] |= (uint8_t)min;
        } else {
            out[g + 4] |= (uint8_t)((scale & 15) | (min & 15) << 4);
            out[g - 4] |= (uint8_t)(scale >> 4 << 6);
            out[g] |= (uint8_t)(min >> 4 << 6);
        }
    }
}

void loam_encode_q4_k(const float *in, void *blocks, int64_t n)
{
    static const affine_format format = {15.0f, 8, 63.0f};
    loam_block_q4_k *b = blocks;
    affine_block s;
    for (int64_t k = 0; k < n / BLOCK; k++) {
        loam_block_q4_k *out = &b[k];
        memset(out, 0, sizeof *out);
        encode_affine(&format, in + BLOCK * k, out->d, out->dmin, &s);
        pack_k4_scales(&s, out->scales);
        for (int i = 0; i < BLOCK; i++)
            out->qs[32 * (i / 64) + i % 32] |= (uint8_t)((int)s.q[i] << (4 * (i / 32 % 2)));
    }
}

void loam_encode_q5_k(const float *in, void *blocks, int64_t n)
{
    static const affine_format format = {31.0f, 8, 63.0f};
    loam_block_q5_k *b = blocks;
    affine_block s;
    for (int64_t k = 0; k < n / BLOCK; k++) {
        loam_block_q5_k *out = &b[k];
        memset(out, 0, sizeof *out);
        encode_affine(&format, in + BLOCK * k, out->d, out->dmin, &s);
        pack_k4_scales(&s, out->scales);
        for (int i = 0; i < BLOCK; i++) {
            const int q = (int)s.q[i];
            out->qs[32 * (i / 64) + i % 32] |= (uint8_t)((q & 15) << (4 * (i / 32 % 2)));
            out->qh[i % 32] |= (uint8_t)(q >> 4 << (i / 32));
        }
    }
}

/* ---- Q8_K --------------------------------------------------------------------------------- */

void loam_encode_q8_k(const float *in, void *blocks, int64_t n)
{
    const loam_levels levels = {-127.0f, 127.0f, NULL};
    loam_block_q8_k *b = blocks;
    for (int64_t k = 0; k < n / BLOCK; k++) {
        float x[BLOCK];
        float w[BLOCK];
        float v[BLOCK];
        float largest = 0.0f;
        const float unit = loam_normalise(in + BLOCK * k, x, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
            w[i] = 1.0f;
        }
        const uint32_t d = loam_bits_from_float(largest / 127.0f * unit);
        for (int i = 0; i < 4; i++)
            b[k].d[i] = (uint8_t)(d >> (8 * i));
        loam_quantize(&levels, x, w, BLOCK, largest / 127.0f, 0.0f, v);
        for (int g = 0; g < 16; g++) {
            int sum = 0;
            for (int l = 0; l < 16; l++) {
                b[k].qs[16 * g + l] = (int8_t)v[16 * g + l];
                sum += b[k].qs[16 * g + l];
            }
            b[k].bsums[2 * g] = (uint8_t)(sum & 0xff);
            b[k].bsums[2 * g + 1] = (uint8_t)(sum >> 8 & 0xff);
        }
    }
}
