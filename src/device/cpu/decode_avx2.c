/* decode_avx2.c: decoders for x86 processors with AVX2 and F16C; sixteen lanes are two vectors. */
#if defined(__x86_64__)

#include "device/cpu/decode.h"

#include <immintrin.h>

#define LANES_TARGET __attribute__((target("avx2,f16c")))
#define LANES_OP static inline __attribute__((always_inline)) LANES_TARGET

typedef uint8_t cpu_b16 __attribute__((vector_size(16)));
typedef struct v16 {
    __m256 low;
    __m256 high;
} v16;

LANES_OP v16 v16_from_u8(cpu_b16 bytes)
{
    const __m128i b = (__m128i)bytes;
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)),
                 _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(b, b)))};
}

LANES_OP v16 v16_from_s8(cpu_b16 bytes)
{
    const __m128i b = (__m128i)bytes;
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(b, b)))};
}

LANES_OP v16 v16_load_f32(const uint8_t *p)
{
    return (v16){_mm256_loadu_ps((const float *)p), _mm256_loadu_ps((const float *)(p + 32))};
}

LANES_OP v16 v16_load_f16(const uint8_t *p)
{
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 16)))};
}

LANES_OP __m256 bf16_to_f32_8(const uint8_t *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

LANES_OP v16 v16_load_bf16(const uint8_t *p)
{
    return (v16){bf16_to_f32_8(p), bf16_to_f32_8(p + 16)};
}

LANES_OP v16 v16_mul(v16 v, float f)
{
    const __m256 all = _mm256_set1_ps(f);
    return (v16){_mm256_mul_ps(v.low, all), _mm256_mul_ps(v.high, all)};
}

LANES_OP v16 v16_add(v16 v, float f)
{
    const __m256 all = _mm256_set1_ps(f);
    return (v16){_mm256_add_ps(v.low, all), _mm256_add_ps(v.high, all)};
}

LANES_OP v16 v16_sub(v16 v, float f)
{
    const __m256 all = _mm256_set1_ps(f);
    return (v16){_mm256_sub_ps(v.low, all), _mm256_sub_ps(v.high, all)};
}

LANES_OP void v16_store_f32(float *to, v16 v)
{
    _mm256_storeu_ps(to, v.low);
    _mm256_storeu_ps(to + 8, v.high);
}

/* Eight floats rounded to BF16, in the lower halves of 32-bit lanes. */
LANES_OP __m256i round_bf16_8(__m256 v)
{
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i upper = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i biased = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i rounded = _mm256_srli_epi32(biased, 16);
    const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

/* Packing works within 128-bit halves: the middle quarters change places after it. */
LANES_OP void v16_store_bf16(uint16_t *to, v16 v)
{
    const __m256i packed = _mm256_packus_epi32(round_bf16_8(v.low), round_bf16_8(v.high));
    _mm256_storeu_si256((__m256i *)to, _mm256_permute4x64_epi64(packed, 0xd8));
}

LANES_OP cpu_b16 b16_lookup(cpu_b16 table, cpu_b16 numbers)
{
    return (cpu_b16)_mm_shuffle_epi8((__m128i)table, (__m128i)numbers);
}

#include "device/cpu/decode_blocks.h"

const cpu_decoders loam_cpu_decoders_avx2 = LANES_DECODERS("avx2");

#else
typedef int loam_no_avx2; /* a translation unit needs a declaration */
#endif
