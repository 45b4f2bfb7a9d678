/* gemm_openblas.c: products by OpenBLAS, each on the calling thread. Its BF16 product is an option
 * that distributions leave out, so the device rounds operands and multiplies in F32 instead. */
#ifdef LOAM_BLAS_OPENBLAS

#include "device/cpu/gemm.h"

#include <cblas.h>

/* Arguments are checked by our callers and the library reports no failure. */
struct loam_gemm {
    int threads_before;
};

const char *loam_gemm_library(void)
{
    return "OpenBLAS";
}

bool loam_gemm_has_bf16(void)
{
    return false;
}

loam_status loam_gemm_open(int n_workers, loam_gemm **out, loam_error *e)
{
    (void)n_workers;
    *out = loam_alloc(sizeof **out);
    if (!*out)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the product library's state");
    (*out)->threads_before = openblas_get_num_threads();
    openblas_set_num_threads(1);
    return LOAM_OK;
}

void loam_gemm_close(loam_gemm *g)
{
    if (!g)
        return;
    openblas_set_num_threads(g->threads_before);
    loam_free(g);
}

loam_status loam_gemm_status(loam_gemm *g, loam_error *e)
{
    (void)g;
    (void)e;
    return LOAM_OK;
}

void loam_gemm_f32(loam_gemm *g, int worker, bool trans_a, bool trans_b, int64_t m, int64_t n,
                   int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                   float beta, float *c, int64_t ldc)
{
    (void)g;
    (void)worker;
    cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
                trans_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a,
                (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

void loam_gemm_bf16(loam_gemm *g, int worker, bool trans_b, int64_t m, int64_t n, int64_t k,
                    const uint16_t *a, int64_t lda, const uint16_t *b, int64_t ldb, bool accumulate,
                    float *c, int64_t ldc)
{
    (void)g, (void)worker, (void)trans_b, (void)m, (void)n, (void)k, (void)a, (void)lda;
    (void)b, (void)ldb, (void)accumulate, (void)c, (void)ldc;
    LOAM_ASSERT(!"OpenBLAS has no BF16 product: ask loam_gemm_has_bf16 first");
}

#else
typedef int loam_gemm_openblas_is_not_built; /* C wants a declaration in every file */
#endif
