/* encode.h: what the encoders of block types share (encode.c); private to this folder.
 *
 * An encoder works on a block in units of a power of two near its largest magnitude, so that
 * neither squares nor reciprocals leave the range of a float, and searches scales there. */
#ifndef LOAM_TENSOR_ENCODE_H
#define LOAM_TENSOR_ENCODE_H

#include "tensor/tensor.h"

/* Where a quantized code can lie: the integers lo .. hi, or, if `table` is not NULL, its 16
 * ascending values (lo and hi are then its ends). */
typedef struct loam_levels {
    float lo;
    float hi;
    const int8_t *table;
} loam_levels;

extern const loam_levels loam_levels_iq4;

/* x[i] = in[i] / unit for a power of two `unit`, |x| < 2; returns unit. NaN becomes 0; infinite
 * and enormous values saturate. Returns 0, and zeros in x, for a block too small to be told from
 * zero (all magnitudes below 1e-20, far under the smallest half). */
float loam_normalise(const float *in, float *x, int n);

/* The weight of each element's squared error: |x| plus the root mean square of x, so that large
 * values, which matter most to a dot product, are kept a little better. */
void loam_error_weights(const float *x, float *w, int n);

/* The scale s for which x ~ s * level has the least weighted squared error, among `tries` scales
 * that put the element of largest magnitude at target_first .. target_last, each refined by least
 * squares. n is a multiple of 8, at most LOAM_MAX_BLOCK_NE; 0 where all x are 0. */
float loam_fit_scale(const loam_levels *levels, const float *x, const float *w, int n,
                     float target_first, float target_last, int tries);

/* The same for the levels of IQ4_NL and IQ4_XS, with the extreme near either end of them. */
float loam_fit_scale_iq4(const float *x, const float *w, int n);

/* The scale >= 0 and offset for which x ~ scale * q + offset, q in 0 .. qmax, has the least
 * weighted squared error; where `offset_not_positive`, offset <= 0. n as above. */
void loam_fit_affine(float qmax, const float *x, const float *w, int n, bool offset_not_positive,
                     float *scale, float *offset);

/* v[i] = the level nearest to (x[i] - offset) / scale (any where scale is 0); returns the weighted
 * sum of squared errors of scale * v + offset. n as above. */
float loam_quantize(const loam_levels *levels, const float *x, const float *w, int n, float scale,
                    float offset, float *v);

/* The codes 0 .. 15 of values that loam_quantize chose from loam_levels_iq4. */
void loam_iq4_codes(const float *v, uint8_t *codes, int n);

/* Stores `value` as a half, saturating at +-65504, and returns what was stored. */
float loam_store_f16(uint8_t *p, float value);

/* Two 4-bit codes a byte: byte j holds code[j] and, above it, code[j + half]. */
void loam_pack_nibbles(const uint8_t *codes, int half, uint8_t *out);

#endif /* LOAM_TENSOR_ENCODE_H */
