/* blocks.h: the byte layouts of ggml's block types, and the constants that decoding them needs.
 *
 * Included through tensor.h; device kernels read the same layouts. Every multi-byte field is
 * little-endian and kept as bytes, so a block may lie at any address and the structs have no
 * padding (types.c asserts the sizes). Layouts and formulas are those of ggml (ggml-common.h and
 * dequantize_row_* in ggml-quants.c); "f16" is an IEEE half.
 *
 * Every formula is evaluated in single precision, left to right, without fused multiply-add. */
#ifndef LOAM_TENSOR_BLOCKS_H
#define LOAM_TENSOR_BLOCKS_H

#include <stdint.h>
#include <string.h>

/* ---- scalar formats ----------------------------------------------------------------------- */

static inline float loam_float_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t loam_bits_from_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline uint16_t loam_load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t loam_load_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* An IEEE half as a float, exactly. Subnormals come from (1 + m/1024) * 2^-14 - 2^-14, so that a
 * processor that flushes subnormals to zero gives the same value. */
static inline float loam_half_value(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t magnitude = (uint32_t)(h & 0x7fffu) << 13;
    const uint32_t tiny = loam_bits_from_float(loam_float_from_bits(0x38800000u + magnitude) -
                                               loam_float_from_bits(0x38800000u));
    const uint32_t normal = magnitude + (112u << 23);
    const uint32_t special = magnitude + (224u << 23);
    const uint32_t bits = magnitude < 0x00800000u   ? tiny
                          : magnitude < 0x0f800000u ? normal
                                                    : special;
    return loam_float_from_bits(sign | bits);
}

static inline float loam_load_f16(const uint8_t *p)
{
    return loam_half_value(loam_load_u16(p));
}

/* Half of an E8M0 scale, 2^(e - 128); MXFP4's levels are stored doubled. e = 0 and 1 give the
 * subnormals 2^-128 and 2^-127; 255 is not treated as NaN. */
static inline float loam_e8m0_half(uint8_t e)
{
    return loam_float_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Half of an unsigned E4M3 scale (bias 7); the top bit has no meaning. 0 and 0x7f are zero. */
static inline float loam_ue4m3_half(uint8_t x)
{
    const uint32_t exponent = (x >> 3) & 15u;
    const uint32_t mantissa = x & 7u;
    if (x == 0x7f)
        return 0.0f;
    if (exponent == 0)
        return (float)mantissa * 0x1p-10f;
    return loam_float_from_bits((exponent + 119u) << 23 | mantissa << 20);
}

/* ---- 32-element blocks -------------------------------------------------------------------- */
/* In all 4- and 5-bit types here, the low nibble of qs[j] is element j and the high nibble is
 * element j + 16; bit i of the little-endian qh is the fifth bit of element i. */

typedef struct loam_block_q4_0 { /* x = (q - 8) * d */
    uint8_t d[2];                /* f16 */
    uint8_t qs[16];
} loam_block_q4_0;

typedef struct loam_block_q4_1 { /* x = q * d + m */
    uint8_t d[2];                /* f16 */
    uint8_t m[2];                /* f16 */
    uint8_t qs[16];
} loam_block_q4_1;

typedef struct loam_block_q5_0 { /* x = (q - 16) * d */
    uint8_t d[2];                /* f16 */
    uint8_t qh[4];
    uint8_t qs[16];
} loam_block_q5_0;

typedef struct loam_block_q5_1 { /* x = q * d + m */
    uint8_t d[2];                /* f16 */
    uint8_t m[2];                /* f16 */
    uint8_t qh[4];
    uint8_t qs[16];
} loam_block_q5_1;

typedef struct loam_block_q8_0 { /* x = q * d */
    uint8_t d[2];                /* f16 */
    int8_t qs[32];
} loam_block_q8_0;

typedef struct loam_block_q8_1 { /* x = q * d; ggml uses it for activations only */
    uint8_t d[2];                /* f16 */
    uint8_t s[2];                /* f16: d times the sum of qs, redundant */
    int8_t qs[32];
} loam_block_q8_1;

typedef struct loam_block_iq4_nl { /* x = d * loam_iq4nl_levels[q] */
    uint8_t d[2];                  /* f16 */
    uint8_t qs[16];
} loam_block_iq4_nl;

typedef struct loam_block_mxfp4 { /* x = loam_fp4_levels[q] * loam_e8m0_half(e) */
    uint8_t e;
    uint8_t qs[16];
} loam_block_mxfp4;

/* ---- other small blocks ------------------------------------------------------------------- */

/* 64 elements in four groups of 16; x = loam_fp4_levels[q] * loam_ue4m3_half(d[group]). The low
 * nibble of qs[8 * group + j] is element j of the group, the high one element j + 8. */
typedef struct loam_block_nvfp4 {
    uint8_t d[4];
    uint8_t qs[32];
} loam_block_nvfp4;

/* 128 elements; bit j % 8 of qs[j / 8] set: d, clear: -d. */
typedef struct loam_block_q1_0 {
    uint8_t d[2]; /* f16 */
    uint8_t qs[16];
} loam_block_q1_0;

/* 64 elements; x = (q - 1) * d, q the bits 2 * (j % 4) and up of qs[j / 4]. */
typedef struct loam_block_q2_0 {
    uint8_t d[2]; /* f16 */
    uint8_t qs[16];
} loam_block_q2_0;

/* ---- 256-element blocks: K types ---------------------------------------------------------- */

/* 16 groups of 16: x = d * (scales & 15) * q - dmin * (scales >> 4). Element 128*h + 32*s + l has
 * its two bits at 2*s of qs[32*h + l]. */
typedef struct loam_block_q2_k {
    uint8_t scales[16];
    uint8_t qs[64];
    uint8_t d[2];    /* f16 */
    uint8_t dmin[2]; /* f16 */
} loam_block_q2_k;

/* 16 groups of 16: x = d * (scale - 32) * (q - 4). q's low two bits lie as in Q2_K; its high bit,
 * for element 32*s + l, is bit s of hmask[l]. Scale g has its low four bits in scales[g % 8]
 * (low nibble for g < 8) and its high two in scales[8 + g % 4] at bit 2 * (g / 4). */
typedef struct loam_block_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint8_t d[2]; /* f16 */
} loam_block_q3_k;

/* 8 groups of 32: x = d * scale * q - dmin * min. Element 64*p + l is the low nibble of
 * qs[32*p + l], element 64*p + 32 + l the high one. Scales and mins: loam_k4_scale_min(). */
typedef struct loam_block_q4_k {
    uint8_t d[2];    /* f16 */
    uint8_t dmin[2]; /* f16 */
    uint8_t scales[12];
    uint8_t qs[128];
} loam_block_q4_k;

/* Q4_K with a fifth bit: for group g and element l of it, bit g of qh[l]. */
typedef struct loam_block_q5_k {
    uint8_t d[2];    /* f16 */
    uint8_t dmin[2]; /* f16 */
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} loam_block_q5_k;

/* 16 groups of 16: x = d * scale * (q - 32). In half h, element 32*s + l: low four bits in
 * ql[64*h + 32*(s % 2) + l] (low nibble for s < 2), high two at bit 2*s of qh[32*h + l]. */
typedef struct loam_block_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint8_t d[2]; /* f16 */
} loam_block_q6_k;

/* x = d * q; ggml uses it for activations only. */
typedef struct loam_block_q8_k {
    uint8_t d[4]; /* f32 */
    int8_t qs[256];
    uint8_t bsums[32]; /* i16: sums of 16 qs each, redundant */
} loam_block_q8_k;

/* The 6-bit scale and min of group 0..7 of Q4_K and Q5_K. */
static inline void loam_k4_scale_min(const uint8_t scales[12], int group, uint8_t *scale,
                                     uint8_t *min)
{
    if (group < 4) {
        *scale = scales[group] & 63;
        *min = scales[group + 4] & 63;
    } else {
        *scale = (uint8_t)((scales[group + 4] & 15) | (scales[group - 4] >> 6) << 4);
        *min = (uint8_t)(scales[group + 4] >> 4 | (scales[group] >> 6) << 4);
    }
}

/* The sixteen scales of a Q3_K block, minus 32. */
static inline void loam_q3k_scales(const uint8_t scales[12], int8_t out[16])
{
    for (int g = 0; g < 16; g++) {
        const int low = (scales[g % 8] >> (g < 8 ? 0 : 4)) & 15;
        const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
        out[g] = (int8_t)((low | high << 4) - 32);
    }
}

/* ---- 256-element blocks: ternary ---------------------------------------------------------- */

/* x = (t - 1) * d. A byte holds five base-3 digits as ceil(256 * value / 243): digit n is
 * ((byte * 3^n mod 256) * 3) >> 8. qs[0..31] hold digits of elements m + 32*n, qs[32..47] those of
 * 160 + m + 16*n, qh[j] those of 240 + j + 4*n (n < 4). */
typedef struct loam_block_tq1_0 {
    uint8_t qs[48];
    uint8_t qh[4];
    uint8_t d[2]; /* f16 */
} loam_block_tq1_0;

/* x = (q - 1) * d. Element 128*h + 32*s + l has its two bits at 2*s of qs[32*h + l]. */
typedef struct loam_block_tq2_0 {
    uint8_t qs[64];
    uint8_t d[2]; /* f16 */
} loam_block_tq2_0;

/* ---- 256-element blocks: codebooks -------------------------------------------------------- */
/* Eight groups of 32. Codebook words of 8 (IQ2, IQ1) or 4 (IQ3) values are held as the packed
 * level numbers of loam_iq*_words (below). "signs" are 8 bits, bit j negating element j of an
 * 8-element run; where only 7 are stored, loam_iq_signs() restores the eighth. */

/* x = d * (0.5 + s) * 0.25 * level * sign. Each group has 8 bytes: four word numbers, then a
 * little-endian u32: four times 7 sign bits, then s in the top 4. */
typedef struct loam_block_iq2_xxs {
    uint8_t d[2]; /* f16 */
    uint8_t qs[64];
} loam_block_iq2_xxs;

/* The same formula; qs are 32 u16 with a 9-bit word number and 7 signs; s of the first 16
 * elements of group g is the low nibble of scales[g], of the second 16 the high one. */
typedef struct loam_block_iq2_xs {
    uint8_t d[2]; /* f16 */
    uint8_t qs[64];
    uint8_t scales[8];
} loam_block_iq2_xs;

/* The same formula; word number r of group g: qs[4*g + r] and bits 2*r of qh[g] above it. */
typedef struct loam_block_iq2_s {
    uint8_t d[2]; /* f16 */
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
} loam_block_iq2_s;

/* x = d * (0.5 + s) * 0.5 * level * sign; qs: word numbers; scales_signs: per group a u32 as in
 * IQ2_XXS. */
typedef struct loam_block_iq3_xxs {
    uint8_t d[2]; /* f16 */
    uint8_t qs[64];
    uint8_t scales_signs[32];
} loam_block_iq3_xxs;

/* x = d * (1 + 2 * s) * level * sign; bit r of qh[g] is bit 8 of word number r of group g; s of
 * group g is a nibble of scales[g / 2], the low one for even g. */
typedef struct loam_block_iq3_s {
    uint8_t d[2]; /* f16 */
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
} loam_block_iq3_s;

/* x = d * (2 * s + 1) * (level + delta), delta = +-0.125. qh are u16: three bits for each of four
 * word numbers, then s in bits 12..14 and the sign of delta in bit 15. */
typedef struct loam_block_iq1_s {
    uint8_t d[2]; /* f16 */
    uint8_t qs[32];
    uint8_t qh[16];
} loam_block_iq1_s;

/* The same formula. qh[k] serves words 2k (low nibble) and 2k + 1: three bits of the word number,
 * then the sign of delta. scales are four u16 with four 3-bit s (16 elements each) in bits 0..11;
 * their top nibbles together are d, an f16, lowest nibble first. */
typedef struct loam_block_iq1_m {
    uint8_t qs[32];
    uint8_t qh[16];
    uint8_t scales[8];
} loam_block_iq1_m;

/* x = d * (s - 32) * loam_iq4nl_levels[q]; the 6-bit s of group g: a nibble of scales_l[g / 2]
 * and bits 2*g of the u16 scales_h. Nibbles of a group's 16 qs lie as in IQ4_NL. */
typedef struct loam_block_iq4_xs {
    uint8_t d[2]; /* f16 */
    uint8_t scales_h[2];
    uint8_t scales_l[4];
    uint8_t qs[128];
} loam_block_iq4_xs;

/* ---- codebooks (iquant_tables.c) ---------------------------------------------------------- */

extern const int8_t loam_iq4nl_levels[16];
extern const int8_t loam_fp4_levels[16]; /* E2M1 times two, for MXFP4 and NVFP4 */

/* Words of 8 elements, 2 bits each, element 0 lowest: numbers into the levels. */
extern const int8_t loam_iq2_levels[4]; /* number 3 does not occur */
extern const int8_t loam_iq1_levels[4]; /* number 3 does not occur */
extern const uint16_t loam_iq2xxs_words[256];
extern const uint16_t loam_iq2xs_words[512];
extern const uint16_t loam_iq2s_words[1024];
extern const uint16_t loam_iq1_words[2048];

/* Words of 4 elements, 3 bits each, element 0 lowest. */
extern const int8_t loam_iq3xxs_levels[8];
extern const int8_t loam_iq3s_levels[8];
extern const uint16_t loam_iq3xxs_words[256];
extern const uint16_t loam_iq3s_words[512];

/* The eighth sign makes the number of negated elements even. */
static inline uint8_t loam_iq_signs(uint32_t seven)
{
    uint32_t parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (uint8_t)(seven | (parity & 1u) << 7);
}

#endif /* LOAM_TENSOR_BLOCKS_H */
