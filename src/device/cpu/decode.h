/* decode.h: weights from blocks to floats or BF16 with the processor's vector instructions;
 * private to src/device/cpu and its tests.
 *
 * The scalar decoders of src/tensor are the definition: results are the same bits (a NaN stays
 * some NaN). Types without a vector kernel go through them. */
#ifndef LOAM_CPU_DECODE_H
#define LOAM_CPU_DECODE_H

#include "tensor/tensor.h"

/* Decodes n elements, whole blocks of `type`, as loam_decode does. */
void loam_cpu_decode(loam_type type, const void *blocks, float *out, int64_t n);

/* The same, rounded to BF16 (nearest, ties to even). */
void loam_cpu_decode_bf16(loam_type type, const void *blocks, uint16_t *out, int64_t n);

/* One instruction set's kernels; NULL where the type has none. `out` is float or uint16_t. */
typedef void (*cpu_decode_kernel)(const void *blocks, void *out, int64_t n);
typedef struct cpu_decoders {
    const char *name; /* "avx512", "avx2", "neon" */
    cpu_decode_kernel to_f32[LOAM_TYPE_COUNT];
    cpu_decode_kernel to_bf16[LOAM_TYPE_COUNT];
} cpu_decoders;

#define CPU_MAX_DECODERS 2

/* The sets that were built in and that this machine runs, best first; returns their number. */
int loam_cpu_decoders(const cpu_decoders *sets[CPU_MAX_DECODERS]);

/* Defined where the build's processor has them. */
extern const cpu_decoders loam_cpu_decoders_avx512;
extern const cpu_decoders loam_cpu_decoders_avx2;
extern const cpu_decoders loam_cpu_decoders_neon;

#endif /* LOAM_CPU_DECODE_H */
