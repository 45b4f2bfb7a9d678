/* gemm_accelerate.c: products by Accelerate (macOS), which uses the chip's matrix unit. A call may
 * use the unit that several cores share, and more threads than the calling one; macOS 15 lets a
 * thread say that it wants one. There is no BF16 product: the device rounds operands and
 * multiplies in F32. */
#ifdef LOAM_BLAS_ACCELERATE

#include "device/cpu/gemm.h"

#include <Accelerate/Accelerate.h>

/* Arguments are checked by our callers and the library reports no failure. */
struct loam_gemm {
    int n_workers;
};

const char *loam_gemm_library(void)
{
    return "Accelerate";
}

bool loam_gemm_has_bf16(void)
{
    return false;
}

loam_status loam_gemm_open(int n_workers, loam_gemm **out, loam_error *e)
{
    *out = loam_alloc(sizeof **out);
    if (!*out)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the product library's state");
    (*out)->n_workers = n_workers;
    return LOAM_OK;
}

void loam_gemm_close(loam_gemm *g)
{
    loam_free(g);
}

loam_status loam_gemm_status(loam_gemm *g, loam_error *e)
{
    (void)g;
    (void)e;
    return LOAM_OK;
}

static void hold_one_thread(void)
{
#if defined(__MAC_OS_X_VERSION_MAX_ALLOWED) && __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
    if (__builtin_available(macOS 15.0, *))
        BLASSetThreading(BLAS_THREADING_SINGLE_THREADED);
#endif
}

void loam_gemm_f32(loam_gemm *g, int worker, bool trans_a, bool trans_b, int64_t m, int64_t n,
                   int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                   float beta, float *c, int64_t ldc)
{
    (void)g;
    (void)worker;
    hold_one_thread();
    cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
                trans_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a, (int)lda, b,
                (int)ldb, beta, c, (int)ldc);
}

void loam_gemm_bf16(loam_gemm *g, int worker, bool trans_b, int64_t m, int64_t n, int64_t k,
                    const uint16_t *a, int64_t lda, const uint16_t *b, int64_t ldb, bool accumulate,
                    float *c, int64_t ldc)
{
    (void)g, (void)worker, (void)trans_b, (void)m, (void)n, (void)k, (void)a, (void)lda;
    (void)b, (void)ldb, (void)accumulate, (void)c, (void)ldc;
    LOAM_ASSERT(!"Accelerate has no BF16 product: ask loam_gemm_has_bf16 first");
}

#else
typedef int loam_gemm_accelerate_is_not_built; /* C wants a declaration in every file */
#endif
