/* encode.c: the searches behind the encoders of block types (contract in encode.h).
 *
 * For fixed codes v, the error sum w (x - s v)^2 is least at s = sum(w x v) / sum(w v v), and is
 * then lower than that of s = 0 by sum(w x v)^2 / sum(w v v); a search tries codes from several
 * starting scales and keeps those with the largest gain. With an offset b the normal equations
 * are 2 x 2. Sums run in LANES partial sums, a fixed order that compilers can vectorise. */
#include "tensor/encode.h"

#include <math.h>

#define LANES 8
#define HALF_MAX 65504.0f
#define BLOCK_LIMIT 1e30f  /* above what any block type but MXFP4 reaches */
#define BLOCK_TINY 1e-20f  /* below what a half scale reaches */
#define SCALE_TINY 1e-30f  /* reciprocals of anything larger are finite */
#define ROUNDER 12582912.f /* 1.5 * 2^23: adding it rounds |x| < 2^22 to an integer */

const loam_levels loam_levels_iq4 = {-127.0f, 113.0f, loam_iq4nl_levels};

float loam_normalise(const float *in, float *x, int n)
{
    float largest = 0.0f;
    for (int i = 0; i < n; i++) {
        float v = in[i] == in[i] ? in[i] : 0.0f;
        v = v > BLOCK_LIMIT ? BLOCK_LIMIT : v;
        v = v < -BLOCK_LIMIT ? -BLOCK_LIMIT : v;
        x[i] = v;
        largest = fabsf(v) > largest ? fabsf(v) : largest;
    }
    if (largest < BLOCK_TINY) {
        memset(x, 0, (size_t)n * sizeof(float));
        return 0.0f;
    }
    const float unit = ldexpf(1.0f, ilogbf(largest));
    const float inverse = 1.0f / unit;
    for (int i = 0; i < n; i++)
        x[i] *= inverse;
    return unit;
}

void loam_error_weights(const float *x, float *w, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    const float rms = sqrtf(sum / (float)n);
    for (int i = 0; i < n; i++)
        w[i] = rms + fabsf(x[i]);
}

static float total(const float lanes[LANES])
{
    float sum = 0.0f;
    for (int l = 0; l < LANES; l++)
        sum += lanes[l];
    return sum;
}

/* v[i] = the level nearest to (x[i] - offset) * inverse. */
static void nearest_levels(const loam_levels *levels, const float *x, int n, float inverse,
                           float offset, float *v)
{
    const float lo = levels->lo;
    const float hi = levels->hi;
    for (int i = 0; i < n; i++) {
        float t = (x[i] - offset) * inverse;
        t = t < lo ? lo : t;
        v[i] = t > hi ? hi : t;
    }
    if (levels->table == NULL) {
        for (int i = 0; i < n; i++)
            v[i] = (v[i] + ROUNDER) - ROUNDER;
        return;
    }
    float level[LOAM_MAX_BLOCK_NE];
    for (int i = 0; i < n; i++)
        level[i] = lo;
    for (int k = 1; k < 16; k++) {
        const float step = (float)(levels->table[k] - levels->table[k - 1]);
        const float middle = 0.5f * (float)(levels->table[k] + levels->table[k - 1]);
        for (int i = 0; i < n; i++)
            level[i] += v[i] > middle ? step : 0.0f;
    }
    memcpy(v, level, (size_t)n * sizeof(float));
}

/* The best scale so far, and how far it lowers the error of scale 0. */
typedef struct scale_fit {
    float scale;
    float gain;
} scale_fit;

/* Tries codes from the scale that puts the element `extreme` at `target`. */
static void try_target(const loam_levels *levels, const float *x, const float *w, int n,
                       float extreme, float target, scale_fit *best)
{
    float v[LOAM_MAX_BLOCK_NE];
    float xv[LANES] = {0};
    float vv[LANES] = {0};
    nearest_levels(levels, x, n, target / extreme, 0.0f, v);
    for (int i = 0; i < n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            const float wv = w[i + l] * v[i + l];
            xv[l] += wv * x[i + l];
            vv[l] += wv * v[i + l];
        }
    }
    const float sum_xv = total(xv);
    const float sum_vv = total(vv);
    if (sum_vv > 0.0f && sum_xv * sum_xv > best->gain * sum_vv) {
        best->gain = sum_xv * sum_xv / sum_vv;
        best->scale = sum_xv / sum_vv;
    }
}

static float extreme_of(const float *x, int n)
{
    float extreme = 0.0f;
    for (int i = 0; i < n; i++)
        extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
    return extreme;
}

float loam_fit_scale(const loam_levels *levels, const float *x, const float *w, int n,
                     float target_first, float target_last, int tries)
{
    const float extreme = extreme_of(x, n);
    scale_fit best = {0};
    if (fabsf(extreme) < SCALE_TINY)
        return 0.0f;
    for (int k = 0; k < tries; k++) {
        const float part = tries > 1 ? (float)k / (float)(tries - 1) : 0.0f;
        try_target(levels, x, w, n, extreme, target_first + part * (target_last - target_first),
                   &best);
    }
    return best.scale;
}

float loam_fit_scale_iq4(const float *x, const float *w, int n)
{
    const float extreme = extreme_of(x, n);
    scale_fit best = {0};
    if (fabsf(extreme) < SCALE_TINY)
        return 0.0f;
    for (int k = 0; k < 11; k++) {
        const float stretch = 0.8f + 0.04f * (float)k;
        try_target(&loam_levels_iq4, x, w, n, extreme, loam_levels_iq4.lo * stretch, &best);
        try_target(&loam_levels_iq4, x, w, n, extreme, loam_levels_iq4.hi * stretch, &best);
    }
    return best.scale;
}

void loam_iq4_codes(const float *v, uint8_t *codes, int n)
{
    for (int i = 0; i < n; i++) {
        codes[i] = 0;
        while (codes[i] < 15 && (float)loam_iq4nl_levels[codes[i]] < v[i])
            codes[i]++;
    }
}

/* Weighted sums over a group, for fixed codes q. */
typedef struct affine_sums {
    double w, x, xx, q, qq, xq;
} affine_sums;

/* The best scale and offset for fixed codes; returns their error, or a negative number where all
 * codes are 0. Where all codes are equal (up to the rounding of the sums) they do not determine
 * both: the offset stays `lowest`. */
static double solve_affine(const affine_sums *s, bool offset_not_positive, double lowest,
                           double *scale, double *offset)
{
    const double determinant = s->w * s->qq - s->q * s->q;
    if (s->qq <= 0.0)
        return -1.0;
    if (determinant > 1e-5 * s->w * s->qq) {
        *scale = (s->w * s->xq - s->q * s->x) / determinant;
        *offset = (s->qq * s->x - s->q * s->xq) / determinant;
    } else {
        *offset = lowest;
        *scale = (s->xq - lowest * s->q) / s->qq;
    }
    if (offset_not_positive && *offset > 0.0) {
        *offset = 0.0;
        *scale = s->xq / s->qq;
    }
    const double error = s->xx + *scale * *scale * s->qq + *offset * *offset * s->w -
                         2.0 * *scale * s->xq - 2.0 * *offset * s->x +
                         2.0 * *scale * *offset * s->q;
    return error > 0.0 ? error : 0.0;
}

static void sum_codes(const float *x, const float *w, const float *q, int n, affine_sums *s)
{
    float sq[LANES] = {0};
    float sqq[LANES] = {0};
    float sxq[LANES] = {0};
    for (int i = 0; i < n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            const float wq = w[i + l] * q[i + l];
            sq[l] += wq;
            sqq[l] += wq * q[i + l];
            sxq[l] += wq * x[i + l];
        }
    }
    s->q = (double)total(sq);
    s->qq = (double)total(sqq);
    s->xq = (double)total(sxq);
}

void loam_fit_affine(float qmax, const float *x, const float *w, int n, bool offset_not_positive,
                     float *scale, float *offset)
{
    const loam_levels levels = {0.0f, qmax, NULL};
    affine_sums s = {0};
    float lowest = x[0];
    float highest = x[0];
    for (int i = 0; i < n; i++) {
        lowest = x[i] < lowest ? x[i] : lowest;
        highest = x[i] > highest ? x[i] : highest;
        s.w += (double)w[i];
        s.x += (double)(w[i] * x[i]);
        s.xx += (double)(w[i] * x[i] * x[i]);
    }
    if (offset_not_positive && lowest > 0.0f)
        lowest = 0.0f;
    *scale = 0.0f;
    *offset = lowest;
    if (highest - lowest < SCALE_TINY)
        return;

    /* The range may be cut a little (values beyond the ends saturate) or left with room. */
    const int tries = 21;
    double best_error = INFINITY;
    for (int k = 0; k < tries; k++) {
        const float stretch = qmax > 3.0f ? -1.0f + 0.1f * (float)k : -0.6f + 0.08f * (float)k;
        float q[LOAM_MAX_BLOCK_NE];
        double trial_scale = 0.0;
        double trial_offset = 0.0;
        nearest_levels(&levels, x, n, (qmax + stretch) / (highest - lowest), lowest, q);
        sum_codes(x, w, q, n, &s);
        const double error =
            solve_affine(&s, offset_not_positive, (double)lowest, &trial_scale, &trial_offset);
        if (error >= 0.0 && error < best_error) {
            best_error = error;
            *scale = (float)trial_scale;
            *offset = (float)trial_offset;
        }
    }
}

float loam_quantize(const loam_levels *levels, const float *x, const float *w, int n, float scale,
                    float offset, float *v)
{
    const float inverse = fabsf(scale) > SCALE_TINY ? 1.0f / scale : 0.0f;
    float errors[LANES] = {0};
    nearest_levels(levels, x, n, inverse, offset, v);
    for (int i = 0; i < n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            const float error = scale * v[i + l] + offset - x[i + l];
            errors[l] += w[i + l] * error * error;
        }
    }
    return total(errors);
}

float loam_store_f16(uint8_t *p, float value)
{
    const float limited = value > HALF_MAX ? HALF_MAX : value < -HALF_MAX ? -HALF_MAX : value;
    const uint16_t h = loam_f32_to_f16(limited);
    p[0] = (uint8_t)(h & 0xff);
    p[1] = (uint8_t)(h >> 8);
    return loam_half_value(h);
}

void loam_pack_nibbles(const uint8_t *codes, int half, uint8_t *out)
{
    for (int j = 0; j < half; j++)
        out[j] = (uint8_t)(codes[j] | codes[j + half] << 4);
}
