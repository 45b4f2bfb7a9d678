/* decode_avx512.c: decoders for x86 processors with AVX-512 F, BW, DQ and VL. */
#if defined(__x86_64__)

#include "device/cpu/decode.h"

#include <immintrin.h>

#define LANES_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define LANES_OP static inline __attribute__((always_inline)) LANES_TARGET

typedef uint8_t cpu_b16 __attribute__((vector_size(16)));
typedef __m512 v16;

LANES_OP v16 v16_from_u8(cpu_b16 bytes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32((__m128i)bytes));
}

LANES_OP v16 v16_from_s8(cpu_b16 bytes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)bytes));
}

LANES_OP v16 v16_load_f32(const uint8_t *p)
{
    return _mm512_loadu_ps(p);
}

LANES_OP v16 v16_load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

LANES_OP v16 v16_load_bf16(const uint8_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

LANES_OP v16 v16_mul(v16 v, float f)
{
    return _mm512_mul_ps(v, _mm512_set1_ps(f));
}

LANES_OP v16 v16_add(v16 v, float f)
{
    return _mm512_add_ps(v, _mm512_set1_ps(f));
}

LANES_OP v16 v16_sub(v16 v, float f)
{
    return _mm512_sub_ps(v, _mm512_set1_ps(f));
}

LANES_OP void v16_store_f32(float *to, v16 v)
{
    _mm512_storeu_ps(to, v);
}

/* In integers: the processor's own conversion takes subnormals as zero. */
LANES_OP void v16_store_bf16(uint16_t *to, v16 v)
{
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i upper = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i biased = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i rounded = _mm512_srli_epi32(biased, 16);
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    const __m512i result = _mm512_mask_or_epi32(rounded, is_nan, upper, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(result));
}

LANES_OP cpu_b16 b16_lookup(cpu_b16 table, cpu_b16 numbers)
{
    return (cpu_b16)_mm_shuffle_epi8((__m128i)table, (__m128i)numbers);
}

#include "device/cpu/decode_blocks.h"

const cpu_decoders loam_cpu_decoders_avx512 = LANES_DECODERS("avx512");

#else
typedef int loam_no_avx512; /* a translation unit needs a declaration */
#endif
