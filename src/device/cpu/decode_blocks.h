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

/* 16 where bit i of the 16 bits is set, else 0. */
LANES_INLINE cpu_b16 fifth_bits(const uint8_t bits[2])
{
    const cpu_b16 one_bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint64_t every_byte = 0x0101010101010101u;
    const cpu_b16 bytes = two_u64(bits[0] * every_byte, bits[1] * every_byte);
    return (cpu_b16)((bytes & one_bit) == one_bit) & 16;
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
    emit(out, 0, v16_mul(v16_from_s8(((q & 15) | fifth_bits(b->qh)) - 16), d));
    emit(out, 16, v16_mul(v16_from_s8((q >> 4 | fifth_bits(b->qh + 2)) - 16), d));
}

LANES_INLINE void block_q5_1(const uint8_t *block, lanes_out out)
{
    const loam_block_q5_1 *b = (const loam_block_q5_1 *)block;
    const float d = loam_load_f16(b->d);
    const float m = loam_load_f16(b->m);
    const cpu_b16 q = load_b16(b->qs);
    emit(out, 0, v16_add(v16_mul(v16_from_u8((q & 15) | fifth_bits(b->qh)), d), m));
    emit(out, 16, v16_add(v16_mul(v16_from_u8(q >> 4 | fifth_bits(b->qh + 2)), d), m));
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
LANES_ROWS(tq2_0, 256, sizeof(loam_block_tq2_0))

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
    [LOAM_TYPE_F16] = rows_f16_##suffix,       [LOAM_TYPE_BF16] = rows_bf16_##suffix,              \
    [LOAM_TYPE_Q4_0] = rows_q4_0_##suffix,     [LOAM_TYPE_Q4_1] = rows_q4_1_##suffix,              \
    [LOAM_TYPE_Q5_0] = rows_q5_0_##suffix,     [LOAM_TYPE_Q5_1] = rows_q5_1_##suffix,              \
    [LOAM_TYPE_Q8_0] = rows_q8_0_##suffix,     [LOAM_TYPE_Q2_K] = rows_q2_k_##suffix,              \
    [LOAM_TYPE_Q3_K] = rows_q3_k_##suffix,     [LOAM_TYPE_Q4_K] = rows_q4_k_##suffix,              \
    [LOAM_TYPE_Q5_K] = rows_q5_k_##suffix,     [LOAM_TYPE_Q6_K] = rows_q6_k_##suffix,              \
    [LOAM_TYPE_IQ4_NL] = rows_iq4_nl_##suffix, [LOAM_TYPE_IQ4_XS] = rows_iq4_xs_##suffix,          \
    [LOAM_TYPE_TQ2_0] = rows_tq2_0_##suffix,   [LOAM_TYPE_MXFP4] = rows_mxfp4_##suffix,            \
    [LOAM_TYPE_NVFP4] = rows_nvfp4_##suffix
/* clang-format on */

#define LANES_DECODERS(set_name)                                                                   \
    {                                                                                              \
        .name = (set_name), .to_f32 = {LANES_TABLE(f32)},                                          \
        .to_bf16 = {[LOAM_TYPE_F32] = rows_f32_bf16, LANES_TABLE(bf16)},                           \
    }
