/* decode_neon.c: decoders for 64-bit ARM; sixteen lanes are four vectors. */
#if defined(__aarch64__)

#include "device/cpu/decode.h"

#include <arm_neon.h>

#define LANES_TARGET
#define LANES_OP static inline __attribute__((always_inline))

typedef uint8_t cpu_b16 __attribute__((vector_size(16)));
typedef float32x4x4_t v16;

LANES_OP v16 v16_from_u8(cpu_b16 bytes)
{
    const uint8x16_t b = (uint8x16_t)bytes;
    const uint16x8_t low = vmovl_u8(vget_low_u8(b));
    const uint16x8_t high = vmovl_high_u8(b);
    return (v16){{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_high_u16(low)),
                  vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
                  vcvtq_f32_u32(vmovl_high_u16(high))}};
}

LANES_OP v16 v16_from_s8(cpu_b16 bytes)
{
    const int8x16_t b = (int8x16_t)bytes;
    const int16x8_t low = vmovl_s8(vget_low_s8(b));
    const int16x8_t high = vmovl_high_s8(b);
    return (v16){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
                  vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                  vcvtq_f32_s32(vmovl_high_s16(high))}};
}

LANES_OP v16 v16_load_f32(const uint8_t *p)
{
    v16 v;
    for (int k = 0; k < 4; k++)
        v.val[k] = vreinterpretq_f32_u8(vld1q_u8(p + 16 * k));
    return v;
}

LANES_OP v16 v16_load_f16(const uint8_t *p)
{
    v16 v;
    for (int k = 0; k < 4; k++)
        v.val[k] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * k)));
    return v;
}

LANES_OP v16 v16_load_bf16(const uint8_t *p)
{
    v16 v;
    for (int k = 0; k < 4; k++)
        v.val[k] = vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * k)), 16));
    return v;
}

LANES_OP v16 v16_mul(v16 v, float f)
{
    for (int k = 0; k < 4; k++)
        v.val[k] = vmulq_n_f32(v.val[k], f);
    return v;
}

LANES_OP v16 v16_add(v16 v, float f)
{
    for (int k = 0; k < 4; k++)
        v.val[k] = vaddq_f32(v.val[k], vdupq_n_f32(f));
    return v;
}

LANES_OP v16 v16_sub(v16 v, float f)
{
    for (int k = 0; k < 4; k++)
        v.val[k] = vsubq_f32(v.val[k], vdupq_n_f32(f));
    return v;
}

LANES_OP void v16_store_f32(float *to, v16 v)
{
    for (int k = 0; k < 4; k++)
        vst1q_f32(to + 4 * k, v.val[k]);
}

LANES_OP void v16_store_bf16(uint16_t *to, v16 v)
{
    for (int k = 0; k < 4; k++) {
        const uint32x4_t bits = vreinterpretq_u32_f32(v.val[k]);
        const uint32x4_t upper = vshrq_n_u32(bits, 16);
        const uint32x4_t odd = vandq_u32(upper, vdupq_n_u32(1));
        const uint32x4_t biased = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        const uint32x4_t quiet = vorrq_u32(upper, vdupq_n_u32(0x40));
        const uint32x4_t is_number = vceqq_f32(v.val[k], v.val[k]);
        vst1_u16(to + 4 * k, vmovn_u32(vbslq_u32(is_number, vshrq_n_u32(biased, 16), quiet)));
    }
}

LANES_OP cpu_b16 b16_lookup(cpu_b16 table, cpu_b16 numbers)
{
    return (cpu_b16)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)numbers);
}

#include "device/cpu/decode_blocks.h"

const cpu_decoders loam_cpu_decoders_neon = LANES_DECODERS("neon");

#else
typedef int loam_no_neon; /* a translation unit needs a declaration */
#endif
