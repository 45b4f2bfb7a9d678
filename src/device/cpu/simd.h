/* simd.h: sixteen floats at a time, in the compilers' own vector extension, so that one text
 * becomes SSE2, AVX2, AVX-512 or NEON code.
 *
 * The program is built for the plainest processor of its kind; a function marked CPU_CLONES is
 * compiled once per generation of x86 and the loader picks the one that the machine runs. What it
 * calls must be always_inline to be compiled along. Vectors are passed by address: passing them by
 * value would tie the calling convention to the target. */
#ifndef LOAM_CPU_SIMD_H
#define LOAM_CPU_SIMD_H

#include "core/core.h"

#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define CPU_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CPU_SANITIZED 1
#endif

/* Sanitizers instrument the loader's choice before they are ready to run; clang before 17 does not
 * link target_clones across files. */
#if defined(__clang__) && __clang_major__ < 17
#define CPU_NO_CLONES 1
#endif
#if defined(__x86_64__) && defined(__linux__) && !defined(CPU_SANITIZED) && !defined(CPU_NO_CLONES)
#define CPU_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CPU_CLONES
#endif
#define CPU_INLINE static inline __attribute__((always_inline))

#define CPU_LANES 16

typedef float cpu_v16 __attribute__((vector_size(64)));
typedef int32_t cpu_i16 __attribute__((vector_size(64)));
typedef uint32_t cpu_u16 __attribute__((vector_size(64)));
typedef float cpu_half16 __attribute__((vector_size(32)));
typedef double cpu_d8 __attribute__((vector_size(64)));

CPU_INLINE void cpu_load16(cpu_v16 *v, const float *from)
{
    memcpy(v, from, sizeof *v);
}

CPU_INLINE void cpu_store16(float *to, const cpu_v16 *v)
{
    memcpy(to, v, sizeof *v);
}

CPU_INLINE float cpu_sum16(const cpu_v16 *v)
{
    float lanes[CPU_LANES];
    memcpy(lanes, v, sizeof lanes);
    for (int width = CPU_LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
    return lanes[0];
}

CPU_INLINE float cpu_max16(const cpu_v16 *v)
{
    float lanes[CPU_LANES];
    memcpy(lanes, v, sizeof lanes);
    float largest = lanes[0];
    for (int i = 1; i < CPU_LANES; i++)
        largest = lanes[i] > largest ? lanes[i] : largest;
    return largest;
}

CPU_INLINE double cpu_sum8(const cpu_d8 *v)
{
    const cpu_d8 d = *v;
    return ((d[0] + d[4]) + (d[2] + d[6])) + ((d[1] + d[5]) + (d[3] + d[7]));
}

/* Adds sixteen floats to two vectors of doubles. */
CPU_INLINE void cpu_add_wide(cpu_d8 sums[2], const cpu_v16 *v)
{
    cpu_half16 halves[2];
    memcpy(halves, v, sizeof halves);
    sums[0] += __builtin_convertvector(halves[0], cpu_d8);
    sums[1] += __builtin_convertvector(halves[1], cpu_d8);
}

/* Lanes of `mask` (all ones or all zeros) pick a, else b. */
CPU_INLINE void cpu_select16(cpu_v16 *out, const cpu_i16 *mask, const cpu_v16 *a, const cpu_v16 *b)
{
    *out = (cpu_v16)(((cpu_i16)*a & *mask) | ((cpu_i16)*b & ~*mask));
}

/* x = e^x, within 2 units in the last place (tests/device/test_cpu_kernels.c measures it); below
 * -87.33 it is 0 instead of a subnormal, above 88.72 infinite; NaN stays NaN.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 is split so that n times its first part is exact; e^r
 * by its series to r^7 / 7!, whose remainder is below 6e-9 of it; 2^n by its exponent bits, in two
 * factors because 2^128 has none. Adding 1.5 * 2^23 rounds to an integer in the low bits. */
CPU_INLINE void cpu_exp16(cpu_v16 *x)
{
    const cpu_v16 v = *x;
    const float round_bits = 12582912.0F;
    const cpu_v16 shifted = v * 1.44269504F + round_bits;
    const cpu_v16 n = shifted - round_bits;
    const cpu_i16 whole = (cpu_i16)shifted - 0x4B400000;
    const cpu_v16 r = (v - n * 0.693359375F) - n * -2.12194440e-4F;
    cpu_v16 y = r * (1.0F / 5040) + 1.0F / 720;
    y = y * r + 1.0F / 120;
    y = y * r + 1.0F / 24;
    y = y * r + 1.0F / 6;
    y = y * r + 0.5F;
    y = y * (r * r) + r;
    y = y + 1.0F;
    const cpu_i16 half = whole >> 1;
    y *= (cpu_v16)((cpu_u16)(half + 127) << 23);
    y *= (cpu_v16)((cpu_u16)(whole - half + 127) << 23);
    const cpu_i16 too_low = v<-87.3365F, too_high = v> 88.7228F;
    const cpu_v16 zero = {0};
    const cpu_v16 infinity = zero + __builtin_inff();
    cpu_select16(&y, &too_low, &zero, &y);
    cpu_select16(x, &too_high, &infinity, &y);
}

#endif /* LOAM_CPU_SIMD_H */
