/* gemm.h: the product library behind the CPU device, behind one narrow interface.
 *
 * gemm_onednn.c, gemm_openblas.c and gemm_accelerate.c each implement all of it; the build's
 * LOAM_BLAS_* definition says which of them is not empty. Every product runs on the thread that
 * asks for it: the device's own workers are the only threads. Matrices are row-major, ld* is the
 * distance between rows in elements. */
#ifndef LOAM_CPU_GEMM_H
#define LOAM_CPU_GEMM_H

#include "core/core.h"

typedef struct loam_gemm loam_gemm;

/* State for workers 0 .. n_workers-1, each of which may multiply at the same time as the others. */
loam_status loam_gemm_open(int n_workers, loam_gemm **out, loam_error *e);
void loam_gemm_close(loam_gemm *g); /* NULL is fine */

/* "oneDNN 2.6.0", static storage. */
const char *loam_gemm_library(void);

/* True where the machine multiplies BF16 faster than F32, and loam_gemm_bf16 may be called. */
bool loam_gemm_has_bf16(void);

/* c [m, n] = alpha * op(a) op(b) + beta * c, op(a) [m, k], op(b) [k, n]; with trans_x the stored
 * matrix is the transposed one. beta = 0 does not read c. m, n and k are at least 1. */
void loam_gemm_f32(loam_gemm *g, int worker, bool trans_a, bool trans_b, int64_t m, int64_t n,
                   int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                   float beta, float *c, int64_t ldc);

/* c [m, n] (F32) = a op(b), plus c where `accumulate`; a [m, k] and op(b) [k, n] are BF16. */
void loam_gemm_bf16(loam_gemm *g, int worker, bool trans_b, int64_t m, int64_t n, int64_t k,
                    const uint16_t *a, int64_t lda, const uint16_t *b, int64_t ldb, bool accumulate,
                    float *c, int64_t ldc);

/* The first failure of any worker since the last call, or OK. Call it while no product runs. */
loam_status loam_gemm_status(loam_gemm *g, loam_error *e);

#endif /* LOAM_CPU_GEMM_H */
