/* decode_blocks.h: the vector decoders, written once for all instruction sets.
 *
 * Included by decode_avx512.c, decode_avx2.c and decode_neon.c only. Before including it each
 * defines
 *   LANES_TARGET            attributes that let a function use its instructions
 *   v16                     a type of 16 floats
 *   v16_from_u8, v16_from_s8(cpu_b16)      16 bytes as floats
 *   v16_load_f32, v16_load_f16, v16_load_bf16(const uint8_t *)
 *   v16_mul, v16_add, v16_sub(v16, float)  with one float for all lanes
 *   v16_store_f32(float *, v16), v16_store_bf16(uint16_t *, v16)
 *   b16_lookup(table, numbers)             16 of the table's 16 bytes
 * and after it makes its table with LANES_DECODERS. Byte arithmetic uses the compilers' vector
 * extension. Formulas and layouts: tensor/blocks.h; the order of float
 * operations is the scalar decoders', so the bits agree. */

#include "device/cpu/decode.h"

#define LANES_INLINE static inline __attribute__((always_inline)) LANES_TARGET

typedef uint64_t cpu_u64x2 __attribute__((vector_size(16)));

/* Where results go: float or, if bf16, uint16_t. The flag is a constant after inlining. */
typedef struct lanes_out {
    void *data;
    bool bf16;
} lanes_out;

LANES_INLINE void emit(lanes_out out, int64_t i, v16 v)
{
    if (out.bf16)
        v16_store_bf16((uint16_t *)out.data + i, v);
    else
        v16_store_f32((float *)out.data + i, v);
}

LANES_INLINE cpu_b16 load_b16(const void *p)
{
    cpu_b16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* 16 bytes: the 8 bytes of `low`, then those of `high`. */
LANES_INLINE cpu_b16 two_u64(uint64_t low, uint64_t high)
{
    const cpu_u64x2 v = {low, high};
    return (cpu_b16)v;
}

/* Byte i is 0xff where bit i of the 16 bits is set, else 0. */
LANES_INLINE cpu_b16 bytes_of_bits(uint32_t bits)
{
    const cpu_b16 byte_of = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    const cpu_b16 one_bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const cpu_b16 spread = b16_lookup(two_u64(bits, 0), byte_of);
    return (cpu_b16)((spread & one_bit) == one_bit);
}

/* ---- 32-element blocks -------------------------------------------------------------------- */

LANES_INLINE void block_q4_0(const uint8_t *block, lanes_out out)
{
    const loam_block_q4_0 *b = (const loam_block_q4_0 *)block;
    const float d = loam_load_f16(b->d);
    const cpu_b16 q = load_b16(b->qs);
    emit(out, 0, v16_mul(v16_from_s8((q & 15) - 8), d));
    emit(out, 16, v16_mul(v16_from_s8((q >> 4) - 8), d));
}

LANES_INLINE void block_q4_1(const uint8_t *block, lanes_out out)
{
    const loam_block_q4_1 *b = (const loam_block_q4_1 *)block;
    const float d = loam_load_f16(b->d);
    const float m = loam_load_f16(b->m);
    const cpu_b16 q = load_b16(b->qs);
    emit(out, 0, v16_add(v16_mul(v16_from_u8(q & 15), d), m));
    emit(out, 16, v16_add(v16_mul(v16_from_u8(q >> 4), d), m));
}

LANES_INLINE void block_q5_0(const uint8_t *block, lanes_out out)
{
    const loam_block_q5_0 *b = (const loam_block_q5_0 *)block;
    const float d = loam_load_f16(b->d);
    const cpu_b16 q = load_b16(b->qs);
    emit(out, 0,
         v16_mul(v16_from_s8(((q & 15) | (bytes_of_bits(loam_load_u16(b->qh)) & 16)) - 16), d));
    emit(out, 16,
         v16_mul(v16_from_s8((q >> 4 | (bytes_of_bits(loam_load_u16(b->qh + 2)) & 16)) - 16), d));
}

LANES_INLINE void block_q5_1(const uint8_t *block, lanes_out out)
{
    const loam_block_q5_1 *b = (const loam_block_q5_1 *)block;
    const float d = loam_load_f16(b->d);
    const float m = loam_load_f16(b->m);
    const cpu_b16 q = load_b16(b->qs);
    emit(
        out, 0,
        v16_add(v16_mul(v16_from_u8((q & 15) | (bytes_of_bits(loam_load_u16(b->qh)) & 16)), d), m));
    emit(out, 16,
         v16_add(v16_mul(v16_from_u8(q >> 4 | (bytes_of_bits(loam_load_u16(b->qh + 2)) & 16)), d),
                 m));
}

LANES_INLINE void block_q8_0(const uint8_t *block, lanes_out out)
{
    const loam_block_q8_0 *b = (const loam_block_q8_0 *)block;
    const float d = loam_load_f16(b->d);
    emit(out, 0, v16_mul(v16_from_s8(load_b16(b->qs)), d));
    emit(out, 16, v16_mul(v16_from_s8(load_b16(b->qs + 16)), d));
}

/* 32 nibbles as numbers into 16 levels, times a scale. */
LANES_INLINE void emit_levels(const uint8_t qs[16], const int8_t levels[16], float scale,
                              lanes_out out, int64_t i)
{
    const cpu_b16 table = load_b16(levels);
    const cpu_b16 q = load_b16(qs);
    emit(out, i, v16_mul(v16_from_s8(b16_lookup(table, q & 15)), scale));
    emit(out, i + 16, v16_mul(v16_from_s8(b16_lookup(table, q >> 4)), scale));
}

LANES_INLINE void block_iq4_nl(const uint8_t *block, lanes_out out)
{
    const loam_block_iq4_nl *b = (const loam_block_iq4_nl *)block;
    emit_levels(b->qs, loam_iq4nl_levels, loam_load_f16(b->d), out, 0);
}

LANES_INLINE void block_mxfp4(const uint8_t *block, lanes_out out)
{
    const loam_block_mxfp4 *b = (const loam_block_mxfp4 *)block;
    emit_levels(b->qs, loam_fp4_levels, loam_e8m0_half(b->e), out, 0);
}

LANES_INLINE void block_nvfp4(const uint8_t *block, lanes_out out)
{
    const loam_block_nvfp4 *b = (const loam_block_nvfp4 *)block;
    const cpu_b16 table = load_b16(loam_fp4_levels);
    for (int g = 0; g < 4; g++) {
        uint64_t q;
        memcpy(&q, b->qs + 8 * g, sizeof q);
        const cpu_b16 numbers = two_u64(q, q >> 4) & 15;
        emit(out, 16 * g,
             v16_mul(v16_from_s8(b16_lookup(table, numbers)), loam_ue4m3_half(b->d[g])));
    }
}

/* ---- 256-element blocks ------------------------------------------------------------------- */

LANES_INLINE void block_q2_k(const uint8_t *block, lanes_out out)
{
    const loam_block_q2_k *b = (const loam_block_q2_k *)block;
    const float d = loam_load_f16(b->d);
    const float dmin = loam_load_f16(b->dmin);
    for (int h = 0; h < 2; h++) {
        cpu_b16 q[2] = {load_b16(b->qs + 32 * h), load_b16(b->qs + 32 * h + 16)};
        for (int k = 0; k < 8; k++) {
            const int g = 8 * h + k;
            const float scale = d * (float)(b->scales[g] & 15);
            const float min = dmin * (float)(b->scales[g] >> 4);
            emit(out, 16 * g, v16_sub(v16_mul(v16_from_u8(q[k % 2] & 3), scale), min));
            q[k % 2] = q[k % 2] >> 2;
        }
    }
}

LANES_INLINE void block_q3_k(const uint8_t *block, lanes_out out)
{
    const loam_block_q3_k *b = (const loam_block_q3_k *)block;
    const float d = loam_load_f16(b->d);
    cpu_b16 high[2] = {load_b16(b->hmask), load_b16(b->hmask + 16)};
    int8_t scales[16];
    loam_q3k_scales(b->scales, scales);
    for (int h = 0; h < 2; h++) {
        cpu_b16 q[2] = {load_b16(b->qs + 32 * h), load_b16(b->qs + 32 * h + 16)};
        for (int k = 0; k < 8; k++) {
            const int g = 8 * h + k;
            const cpu_b16 code = (q[k % 2] & 3) + (high[k % 2] & 1) * 4 - 4;
            emit(out, 16 * g, v16_mul(v16_from_s8(code), d * (float)scales[g]));
            q[k % 2] = q[k % 2] >> 2;
            high[k % 2] = high[k % 2] >> 1;
        }
    }
}

LANES_INLINE void block_q4_k(const uint8_t *block, lanes_out out)
{
    const loam_block_q4_k *b = (const loam_block_q4_k *)block;
    const float d = loam_load_f16(b->d);
    const float dmin = loam_load_f16(b->dmin);
    for (int g = 0; g < 8; g++) {
        uint8_t sc, mn;
        loam_k4_scale_min(b->scales, g, &sc, &mn);
        const float scale = d * (float)sc;
        const float min = dmin * (float)mn;
        for (int l = 0; l < 32; l += 16) {
            const cpu_b16 q = load_b16(b->qs + 32 * (g / 2) + l);
            const cpu_b16 code = g % 2 ? q >> 4 : q & 15;
            emit(out, 32 * g + l, v16_sub(v16_mul(v16_from_u8(code), scale), min));
        }
    }
}

LANES_INLINE void block_q5_k(const uint8_t *block, lanes_out out)
{
    const loam_block_q5_k *b = (const loam_block_q5_k *)block;
    const float d = loam_load_f16(b->d);
    const float dmin = loam_load_f16(b->dmin);
    cpu_b16 high[2] = {load_b16(b->qh), load_b16(b->qh + 16)};
    for (int g = 0; g < 8; g++) {
        uint8_t sc, mn;
        loam_k4_scale_min(b->scales, g, &sc, &mn);
        const float scale = d * (float)sc;
        const float min = dmin * (float)mn;
        for (int l = 0; l < 2; l++) {
            const cpu_b16 q = load_b16(b->qs + 32 * (g / 2) + 16 * l);
            const cpu_b16 code = (g % 2 ? q >> 4 : q & 15) | (high[l] & 1) * 16;
            emit(out, 32 * g + 16 * l, v16_sub(v16_mul(v16_from_u8(code), scale), min));
            high[l] = high[l] >> 1;
        }
    }
}

LANES_INLINE void block_q6_k(const uint8_t *block, lanes_out out)
{
    const loam_block_q6_k *b = (const loam_block_q6_k *)block;
    const float d = loam_load_f16(b->d);
    for (int h = 0; h < 2; h++) {
        cpu_b16 high[2] = {load_b16(b->qh + 32 * h), load_b16(b->qh + 32 * h + 16)};
        for (int k = 0; k < 8; k++) {
            const cpu_b16 low = load_b16(b->ql + 64 * h + 16 * (k % 4));
            const cpu_b16 code = (k < 4 ? low & 15 : low >> 4) | (high[k % 2] & 3) * 16;
            const float scale = d * (float)b->scales[8 * h + k];
            emit(out, 128 * h + 16 * k, v16_mul(v16_from_s8(code - 32), scale));
            high[k % 2] = high[k % 2] >> 2;
        }
    }
}

LANES_INLINE void block_iq4_xs(const uint8_t *block, lanes_out out)
{
    const loam_block_iq4_xs *b = (const loam_block_iq4_xs *)block;
    const float d = loam_load_f16(b->d);
    const int high = loam_load_u16(b->scales_h);
    for (int g = 0; g < 8; g++) {
        const int low = b->scales_l[g / 2] >> (4 * (g % 2)) & 15;
        const float scale = d * (float)((low | (high >> (2 * g) & 3) << 4) - 32);
        emit_levels(b->qs + 16 * g, loam_iq4nl_levels, scale, out, 32 * g);
    }
}

LANES_INLINE void block_tq2_0(const uint8_t *block, lanes_out out)
{
    const loam_block_tq2_0 *b = (const loam_block_tq2_0 *)block;
    const float d = loam_load_f16(b->d);
    for (int h = 0; h < 2; h++) {
        cpu_b16 q[2] = {load_b16(b->qs + 32 * h), load_b16(b->qs + 32 * h + 16)};
        for (int k = 0; k < 8; k++) {
            emit(out, 128 * h + 16 * k, v16_mul(v16_from_s8((q[k % 2] & 3) - 1), d));
            q[k % 2] = q[k % 2] >> 2;
        }
    }
}

LANES_INLINE void emit_trits(cpu_b16 digit_first, float d, lanes_out out, int64_t i)
{
    /* The first digit of a fraction f / 256 in base 3 is floor(3 f / 256). */
    const cpu_b16 one = (cpu_b16)(digit_first > 85) & 1;
    const cpu_b16 two = (cpu_b16)(digit_first > 170) & 1;
    emit(out, i, v16_mul(v16_from_s8(one + two - 1), d));
}

LANES_INLINE void block_tq1_0(const uint8_t *block, lanes_out out)
{
    const loam_block_tq1_0 *b = (const loam_block_tq1_0 *)block;
    const float d = loam_load_f16(b->d);
    const cpu_b16 byte_of = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
    const cpu_b16 power = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
    cpu_b16 q[3] = {load_b16(b->qs), load_b16(b->qs + 16), load_b16(b->qs + 32)};
    for (int digit = 0; digit < 5; digit++) {
        emit_trits(q[0], d, out, 32 * digit);
        emit_trits(q[1], d, out, 32 * digit + 16);
        emit_trits(q[2], d, out, 160 + 16 * digit);
        for (int k = 0; k < 3; k++)
            q[k] = q[k] + q[k] + q[k];
    }
    emit_trits(b16_lookup(two_u64(loam_load_u32(b->qh), 0), byte_of) * power, d, out, 240);
}

/* ---- codebooks of words ------------------------------------------------------------------- */

/* Keeps `word` in a general register: gcc would put two of them into one vector, 16 bits at a time
 * and each insertion waiting for the last use of the register. */
LANES_INLINE uint64_t in_register(uint64_t word)
{
    __asm__("" : "+r"(word));
    return word;
}

/* Eight 2-bit numbers, one in each byte. */
LANES_INLINE uint64_t spread_2_bits(uint64_t word)
{
    word = in_register(word);
    word = (word | word << 24) & 0x000000ff000000ffu;
    word = (word | word << 12) & 0x000f000f000f000fu;
    return (word | word << 6) & 0x0303030303030303u;
}

/* Eight 3-bit numbers, one in each byte. */
LANES_INLINE uint64_t spread_3_bits(uint64_t word)
{
    word = in_register(word);
    word = (word | word << 20) & 0x00000fff00000fffu;
    word = (word | word << 10) & 0x003f003f003f003fu;
    return (word | word << 5) & 0x0707070707070707u;
}

/* Sixteen numbers into at most eight levels, negated where a sign bit is set, times a scale. */
LANES_INLINE void emit_words(uint64_t first, uint64_t second, const int8_t *levels, int n_levels,
                             uint32_t signs, float scale, lanes_out out, int64_t i)
{
    uint64_t table = 0;
    memcpy(&table, levels, (size_t)n_levels);
    const cpu_b16 v = b16_lookup(two_u64(table, 0), two_u64(first, second));
    const cpu_b16 minus = bytes_of_bits(signs);
    emit(out, i, v16_mul(v16_from_s8((v ^ minus) - minus), scale));
}

LANES_INLINE uint32_t two_signs(uint32_t fourteen)
{
    return loam_iq_signs(fourteen & 127) | (uint32_t)loam_iq_signs(fourteen >> 7 & 127) << 8;
}

LANES_INLINE void block_iq2_xxs(const uint8_t *block, lanes_out out)
{
    const loam_block_iq2_xxs *b = (const loam_block_iq2_xxs *)block;
    const float d = loam_load_f16(b->d);
    for (int g = 0; g < 8; g++) {
        const uint8_t *numbers = b->qs + 8 * g;
        const uint32_t packed = loam_load_u32(numbers + 4);
        const float scale = d * (0.5f + (float)(packed >> 28)) * 0.25f;
        for (int r = 0; r < 4; r += 2)
            emit_words(spread_2_bits(loam_iq2xxs_words[numbers[r]]),
                       spread_2_bits(loam_iq2xxs_words[numbers[r + 1]]), loam_iq2_levels, 4,
                       two_signs(packed >> (7 * r)), scale, out, 32 * g + 8 * r);
    }
}

LANES_INLINE void block_iq2_xs(const uint8_t *block, lanes_out out)
{
    const loam_block_iq2_xs *b = (const loam_block_iq2_xs *)block;
    const float d = loam_load_f16(b->d);
    for (int run = 0; run < 16; run++) {
        const uint32_t first = loam_load_u16(b->qs + 4 * run);
        const uint32_t second = loam_load_u16(b->qs + 4 * run + 2);
        const int s = b->scales[run / 2] >> (4 * (run % 2)) & 15;
        emit_words(spread_2_bits(loam_iq2xs_words[first & 511]),
                   spread_2_bits(loam_iq2xs_words[second & 511]), loam_iq2_levels, 4,
                   two_signs(first >> 9 | second >> 9 << 7), d * (0.5f + (float)s) * 0.25f, out,
                   16 * run);
    }
}

LANES_INLINE void block_iq2_s(const uint8_t *block, lanes_out out)
{
    const loam_block_iq2_s *b = (const loam_block_iq2_s *)block;
    const float d = loam_load_f16(b->d);
    for (int run = 0; run < 16; run++) {
        const uint32_t high = b->qh[run / 2] >> (4 * (run % 2));
        const uint32_t first = b->qs[2 * run] | (high & 3) << 8;
        const uint32_t second = b->qs[2 * run + 1] | (high >> 2 & 3) << 8;
        const int s = b->scales[run / 2] >> (4 * (run % 2)) & 15;
        emit_words(spread_2_bits(loam_iq2s_words[first]), spread_2_bits(loam_iq2s_words[second]),
                   loam_iq2_levels, 4, loam_load_u16(b->signs + 2 * run),
                   d * (0.5f + (float)s) * 0.25f, out, 16 * run);
    }
}

LANES_INLINE void block_iq3_xxs(const uint8_t *block, lanes_out out)
{
    const loam_block_iq3_xxs *b = (const loam_block_iq3_xxs *)block;
    const uint16_t *words = loam_iq3xxs_words;
    const float d = loam_load_f16(b->d);
    for (int g = 0; g < 8; g++) {
        const uint32_t packed = loam_load_u32(b->scales_signs + 4 * g);
        const float scale = d * (0.5f + (float)(packed >> 28)) * 0.5f;
        for (int r = 0; r < 4; r += 2) {
            const uint8_t *n = b->qs + 8 * g + 2 * r;
            emit_words(spread_3_bits(words[n[0]] | (uint64_t)words[n[1]] << 12),
                       spread_3_bits(words[n[2]] | (uint64_t)words[n[3]] << 12), loam_iq3xxs_levels,
                       8, two_signs(packed >> (7 * r)), scale, out, 32 * g + 8 * r);
        }
    }
}

LANES_INLINE void block_iq3_s(const uint8_t *block, lanes_out out)
{
    const loam_block_iq3_s *b = (const loam_block_iq3_s *)block;
    const uint16_t *words = loam_iq3s_words;
    const float d = loam_load_f16(b->d);
    for (int run = 0; run < 16; run++) {
        const uint8_t *n = b->qs + 4 * run;
        const uint32_t high = (uint32_t)b->qh[run / 2] >> (4 * (run % 2)) << 8;
        const int s = b->scales[run / 4] >> (4 * (run / 2 % 2)) & 15;
        const uint64_t w0 = words[n[0] | (high & 256)];
        const uint64_t w1 = words[n[1] | (high >> 1 & 256)];
        const uint64_t w2 = words[n[2] | (high >> 2 & 256)];
        const uint64_t w3 = words[n[3] | (high >> 3 & 256)];
        emit_words(spread_3_bits(w0 | w1 << 12), spread_3_bits(w2 | w3 << 12), loam_iq3s_levels, 8,
                   loam_load_u16(b->signs + 2 * run), d * (float)(1 + 2 * s), out, 16 * run);
    }
}

/* Two IQ1 words; bit 0 of first_minus and second_minus says that the word's delta is -1/8. Level
 * and delta together are a whole number of eighths. */
LANES_INLINE void emit_iq1_words(uint32_t first, uint32_t second, uint32_t first_minus,
                                 uint32_t second_minus, float scale, lanes_out out, int64_t i)
{
    const cpu_b16 numbers =
        two_u64(spread_2_bits(loam_iq1_words[first]), spread_2_bits(loam_iq1_words[second]));
    const cpu_b16 minus = two_u64(0u - (uint64_t)first_minus, 0u - (uint64_t)second_minus);
    const cpu_b16 eighths = numbers * 8 - 8 + (minus | 1);
    emit(out, i, v16_mul(v16_mul(v16_from_s8(eighths), 0.125f), scale));
}

LANES_INLINE void block_iq1_s(const uint8_t *block, lanes_out out)
{
    const loam_block_iq1_s *b = (const loam_block_iq1_s *)block;
    const float d = loam_load_f16(b->d);
    for (int g = 0; g < 8; g++) {
        const uint32_t high = loam_load_u16(b->qh + 2 * g);
        const float scale = d * (float)(2 * (high >> 12 & 7) + 1);
        for (int r = 0; r < 4; r += 2)
            emit_iq1_words(b->qs[4 * g + r] | (high >> (3 * r) & 7) << 8,
                           b->qs[4 * g + r + 1] | (high >> (3 * r + 3) & 7) << 8, high >> 15,
                           high >> 15, scale, out, 32 * g + 8 * r);
    }
}

LANES_INLINE void block_iq1_m(const uint8_t *block, lanes_out out)
{
    const loam_block_iq1_m *b = (const loam_block_iq1_m *)block;
    uint32_t half = 0;
    for (int k = 0; k < 4; k++)
        half |= (uint32_t)(b->scales[2 * k + 1] >> 4) << (4 * k);
    const float d = loam_half_value((uint16_t)half);
    for (int run = 0; run < 16; run++) {
        const uint32_t high = b->qh[run];
        const uint32_t s = loam_load_u16(b->scales + run / 4 * 2) >> (3 * (run % 4)) & 7u;
        emit_iq1_words(b->qs[2 * run] | (high & 7) << 8, b->qs[2 * run + 1] | (high >> 4 & 7) << 8,
                       high >> 3 & 1, high >> 7, d * (float)(2 * s + 1), out, 16 * run);
    }
}

/* ---- whole rows --------------------------------------------------------------------------- */

/* Defines rows_<type>_f32 and rows_<type>_bf16, which decode n elements block by block. */
#define LANES_ROWS(type, block_ne, block_bytes)                                                    \
    LANES_TARGET static void rows_##type##_f32(const void *blocks, void *out, int64_t n)           \
    {                                                                                              \
        const uint8_t *b = blocks;                                                                 \
        for (int64_t i = 0; i < n; i += (block_ne), b += (block_bytes))                            \
            block_##type(b, (lanes_out){(float *)out + i, false});                                 \
    }                                                                                              \
    LANES_TARGET static void rows_##type##_bf16(const void *blocks, void *out, int64_t n)          \
    {                                                                                              \
        const uint8_t *b = blocks;                                                                 \
        for (int64_t i = 0; i < n; i += (block_ne), b += (block_bytes))                            \
            block_##type(b, (lanes_out){(uint16_t *)out + i, true});                               \
    }

LANES_ROWS(q4_0, 32, sizeof(loam_block_q4_0))
LANES_ROWS(q4_1, 32, sizeof(loam_block_q4_1))
LANES_ROWS(q5_0, 32, sizeof(loam_block_q5_0))
LANES_ROWS(q5_1, 32, sizeof(loam_block_q5_1))
LANES_ROWS(q8_0, 32, sizeof(loam_block_q8_0))
LANES_ROWS(iq4_nl, 32, sizeof(loam_block_iq4_nl))
LANES_ROWS(mxfp4, 32, sizeof(loam_block_mxfp4))
LANES_ROWS(nvfp4, 64, sizeof(loam_block_nvfp4))
LANES_ROWS(q2_k, 256, sizeof(loam_block_q2_k))
LANES_ROWS(q3_k, 256, sizeof(loam_block_q3_k))
LANES_ROWS(q4_k, 256, sizeof(loam_block_q4_k))
LANES_ROWS(q5_k, 256, sizeof(loam_block_q5_k))
LANES_ROWS(q6_k, 256, sizeof(loam_block_q6_k))
LANES_ROWS(iq4_xs, 256, sizeof(loam_block_iq4_xs))
LANES_ROWS(tq1_0, 256, sizeof(loam_block_tq1_0))
LANES_ROWS(tq2_0, 256, sizeof(loam_block_tq2_0))
LANES_ROWS(iq2_xxs, 256, sizeof(loam_block_iq2_xxs))
LANES_ROWS(iq2_xs, 256, sizeof(loam_block_iq2_xs))
LANES_ROWS(iq2_s, 256, sizeof(loam_block_iq2_s))
LANES_ROWS(iq3_xxs, 256, sizeof(loam_block_iq3_xxs))
LANES_ROWS(iq3_s, 256, sizeof(loam_block_iq3_s))
LANES_ROWS(iq1_s, 256, sizeof(loam_block_iq1_s))
LANES_ROWS(iq1_m, 256, sizeof(loam_block_iq1_m))

/* Sixteen elements of a type whose block is one element. */
LANES_INLINE v16 load_16(loam_type type, const uint8_t *p)
{
    return type == LOAM_TYPE_F32   ? v16_load_f32(p)
           : type == LOAM_TYPE_F16 ? v16_load_f16(p)
                                   : v16_load_bf16(p);
}

LANES_INLINE void rows_scalar_type(loam_type type, int element_bytes, const uint8_t *from,
                                   lanes_out out, int64_t n)
{
    const int64_t whole = n - n % 16;
    for (int64_t i = 0; i < whole; i += 16)
        emit(out, i, load_16(type, from + i * element_bytes));
    if (whole < n) {
        uint8_t last[16 * sizeof(float)] = {0};
        float floats[16];
        uint16_t halves[16];
        memcpy(last, from + whole * element_bytes, (size_t)((n - whole) * element_bytes));
        const v16 v = load_16(type, last);
        if (out.bf16) {
            v16_store_bf16(halves, v);
            memcpy((uint16_t *)out.data + whole, halves, (size_t)(n - whole) * sizeof *halves);
        } else {
            v16_store_f32(floats, v);
            memcpy((float *)out.data + whole, floats, (size_t)(n - whole) * sizeof *floats);
        }
    }
}

LANES_TARGET static void rows_f32_bf16(const void *blocks, void *out, int64_t n)
{
    rows_scalar_type(LOAM_TYPE_F32, 4, blocks, (lanes_out){out, true}, n);
}

LANES_TARGET static void rows_f16_f32(const void *blocks, void *out, int64_t n)
{
    rows_scalar_type(LOAM_TYPE_F16, 2, blocks, (lanes_out){out, false}, n);
}

LANES_TARGET static void rows_f16_bf16(const void *blocks, void *out, int64_t n)
{
    rows_scalar_type(LOAM_TYPE_F16, 2, blocks, (lanes_out){out, true}, n);
}

LANES_TARGET static void rows_bf16_f32(const void *blocks, void *out, int64_t n)
{
    rows_scalar_type(LOAM_TYPE_BF16, 2, blocks, (lanes_out){out, false}, n);
}

LANES_TARGET static void rows_bf16_bf16(const void *blocks, void *out, int64_t n)
{
    rows_scalar_type(LOAM_TYPE_BF16, 2, blocks, (lanes_out){out, true}, n);
}

/* clang-format off */
#define LANES_TABLE(suffix)                                                                        \
    [LOAM_TYPE_F16] = rows_f16_##suffix,         [LOAM_TYPE_BF16] = rows_bf16_##suffix,            \
    [LOAM_TYPE_Q4_0] = rows_q4_0_##suffix,       [LOAM_TYPE_Q4_1] = rows_q4_1_##suffix,            \
    [LOAM_TYPE_Q5_0] = rows_q5_0_##suffix,       [LOAM_TYPE_Q5_1] = rows_q5_1_##suffix,            \
    [LOAM_TYPE_Q8_0] = rows_q8_0_##suffix,       [LOAM_TYPE_Q2_K] = rows_q2_k_##suffix,            \
    [LOAM_TYPE_Q3_K] = rows_q3_k_##suffix,       [LOAM_TYPE_Q4_K] = rows_q4_k_##suffix,            \
    [LOAM_TYPE_Q5_K] = rows_q5_k_##suffix,       [LOAM_TYPE_Q6_K] = rows_q6_k_##suffix,            \
    [LOAM_TYPE_IQ1_S] = rows_iq1_s_##suffix,     [LOAM_TYPE_IQ1_M] = rows_iq1_m_##suffix,          \
    [LOAM_TYPE_IQ2_XXS] = rows_iq2_xxs_##suffix, [LOAM_TYPE_IQ2_XS] = rows_iq2_xs_##suffix,        \
    [LOAM_TYPE_IQ2_S] = rows_iq2_s_##suffix,     [LOAM_TYPE_IQ3_XXS] = rows_iq3_xxs_##suffix,      \
    [LOAM_TYPE_IQ3_S] = rows_iq3_s_##suffix,     [LOAM_TYPE_IQ4_NL] = rows_iq4_nl_##suffix,        \
    [LOAM_TYPE_IQ4_XS] = rows_iq4_xs_##suffix,   [LOAM_TYPE_TQ1_0] = rows_tq1_0_##suffix,          \
    [LOAM_TYPE_TQ2_0] = rows_tq2_0_##suffix,     [LOAM_TYPE_MXFP4] = rows_mxfp4_##suffix,          \
    [LOAM_TYPE_NVFP4] = rows_nvfp4_##suffix
/* clang-format on */

#define LANES_DECODERS(set_name)                                                                   \
    {                                                                                              \
        .name = (set_name), .to_f32 = {LANES_TABLE(f32)},                                          \
        .to_bf16 = {[LOAM_TYPE_F32] = rows_f32_bf16, LANES_TABLE(bf16)},                           \
    }
