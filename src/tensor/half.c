/* half.c: conversions between floats and the two 16-bit float formats (IEEE 754 binary16, and
 * bfloat16, the upper half of a float). */
#include "tensor/tensor.h"

#define INFINITY_BITS 0x7f800000u
#define HALF_OVERFLOW_BITS 0x477ff000u /* 65520: halfway between the largest half and 2^16 */
#define HALF_NORMAL_BITS 0x38800000u   /* 2^-14 */

float loam_f16_to_f32(uint16_t h)
{
    return loam_half_value(h);
}

uint16_t loam_f32_to_f16(float f)
{
    const uint32_t bits = loam_bits_from_float(f);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);

    if (magnitude > INFINITY_BITS)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= HALF_OVERFLOW_BITS)
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < HALF_NORMAL_BITS) {
        /* Adding 0.5 leaves a result whose last bit is 2^-24, a half's smallest step: the sum
         * itself rounds to nearest even. */
        const float sum = loam_float_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (loam_bits_from_float(sum) - loam_bits_from_float(0.5f)));
    }
    return (uint16_t)(sign | (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

float loam_bf16_to_f32(uint16_t h)
{
    return loam_float_from_bits((uint32_t)h << 16);
}

uint16_t loam_f32_to_bf16(float f)
{
    const uint32_t bits = loam_bits_from_float(f);
    if ((bits & 0x7fffffffu) > INFINITY_BITS)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
