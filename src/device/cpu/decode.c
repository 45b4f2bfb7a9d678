/* decode.c: chooses the decoding kernel by type and by what the machine runs (contract in
 * decode.h). */
#include "device/cpu/decode.h"

#define CHUNK 1024 /* elements; whole blocks of any type */

int loam_cpu_decoders(const cpu_decoders *sets[CPU_MAX_DECODERS])
{
    int n = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        sets[n++] = &loam_cpu_decoders_avx512;
    /* Every processor with AVX2 has the older F16C. */
    if (__builtin_cpu_supports("avx2"))
        sets[n++] = &loam_cpu_decoders_avx2;
#elif defined(__aarch64__)
    sets[n++] = &loam_cpu_decoders_neon;
#else
    (void)sets;
#endif
    return n;
}

/* Cheap enough to ask every time: the processor's features are read once, at start. */
static const cpu_decoders *best_decoders(void)
{
    const cpu_decoders *sets[CPU_MAX_DECODERS];
    return loam_cpu_decoders(sets) > 0 ? sets[0] : NULL;
}

void loam_cpu_decode(loam_type type, const void *blocks, float *out, int64_t n)
{
    const cpu_decoders *best = best_decoders();
    if (best != NULL && best->to_f32[type] != NULL)
        best->to_f32[type](blocks, out, n);
    else
        loam_decode(type, blocks, out, n);
}

void loam_cpu_decode_bf16(loam_type type, const void *blocks, uint16_t *out, int64_t n)
{
    const cpu_decoders *best = best_decoders();
    if (best != NULL && best->to_bf16[type] != NULL) {
        best->to_bf16[type](blocks, out, n);
        return;
    }
    const size_t chunk_bytes = loam_row_bytes(type, CHUNK);
    const uint8_t *from = blocks;
    for (int64_t done = 0; done < n; done += CHUNK, from += chunk_bytes) {
        float decoded[CHUNK];
        const int64_t count = LOAM_MIN(n - done, (int64_t)CHUNK);
        loam_decode(type, from, decoded, count);
        if (best != NULL)
            best->to_bf16[LOAM_TYPE_F32](decoded, out + done, count);
        else
            for (int64_t i = 0; i < count; i++)
                out[done + i] = loam_f32_to_bf16(decoded[i]);
    }
}
