/* gemm_onednn.c: products by oneDNN, 2.x or 3.x.
 *
 * F32 goes through dnnl_sgemm. BF16 goes through matmul primitives, which are made per shape: each
 * worker keeps its own, with its own stream and scratchpad, so that nothing is locked; making one
 * a second time is cheap, as the library caches the code. oneDNN takes its thread count from
 * OpenMP's setting of the calling thread, which is held at one around every call. */
#ifdef LOAM_BLAS_ONEDNN

#include "device/cpu/gemm.h"

#include <dnnl.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define MAX_PRODUCTS 64

typedef struct product_key {
    int64_t m, n, k, lda, ldb, ldc;
    int64_t trans_b, accumulate; /* as wide as the rest: keys are compared as bytes */
} product_key;

typedef struct product {
    product_key key;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c, scratchpad;
    size_t scratchpad_bytes;
    uint64_t used; /* when; the least recent one makes room */
} product;

typedef struct worker_state {
    dnnl_stream_t stream;
    product products[MAX_PRODUCTS];
    int n_products;
    uint64_t clock;
    void *scratchpad;
    size_t scratchpad_bytes;
    loam_error failure;
} worker_state;

struct loam_gemm {
    dnnl_engine_t engine;
    int n_workers;
    worker_state *workers;
};

/* ---- OpenMP's thread count of the calling thread ------------------------------------------ */

static int enter_one_thread(void)
{
#ifdef _OPENMP
    int before = omp_get_max_threads();
    if (before != 1)
        omp_set_num_threads(1);
    return before;
#else
    return 1;
#endif
}

static void leave_one_thread(int before)
{
#ifdef _OPENMP
    if (before != 1)
        omp_set_num_threads(before);
#else
    (void)before;
#endif
}

/* ---- what differs between oneDNN 2 and 3 -------------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t descriptor;

static dnnl_status_t make_descriptor(descriptor *d, dnnl_data_type_t type, int64_t rows,
                                     int64_t cols, int64_t row_stride, int64_t col_stride)
{
    return dnnl_memory_desc_create_with_strides(d, 2, (dnnl_dims_t){rows, cols}, type,
                                                (dnnl_dims_t){row_stride, col_stride});
}

static void free_descriptor(descriptor *d)
{
    if (*d)
        dnnl_memory_desc_destroy(*d);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0F, 0, dnnl_data_type_undef);
}

static dnnl_status_t make_matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                 const descriptor *a, const descriptor *b, const descriptor *c,
                                 const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, engine, *a, *b, NULL, *c, attr);
}

static dnnl_status_t make_memory(dnnl_memory_t *out, const descriptor *d, dnnl_engine_t engine)
{
    return dnnl_memory_create(out, *d, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t make_scratchpad(product *p, const_dnnl_primitive_desc_t pd,
                                     dnnl_engine_t engine)
{
    const_dnnl_memory_desc_t d = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    p->scratchpad_bytes = d ? dnnl_memory_desc_get_size(d) : 0;
    if (p->scratchpad_bytes == 0)
        return dnnl_success;
    return dnnl_memory_create(&p->scratchpad, d, engine, DNNL_MEMORY_NONE);
}

#else

typedef dnnl_memory_desc_t descriptor;

static dnnl_status_t make_descriptor(descriptor *d, dnnl_data_type_t type, int64_t rows,
                                     int64_t cols, int64_t row_stride, int64_t col_stride)
{
    return dnnl_memory_desc_init_by_strides(d, 2, (dnnl_dims_t){rows, cols}, type,
                                            (dnnl_dims_t){row_stride, col_stride});
}

static void free_descriptor(descriptor *d)
{
    (void)d;
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0F);
}

static dnnl_status_t make_matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                 const descriptor *a, const descriptor *b, const descriptor *c,
                                 const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status = dnnl_matmul_desc_init(&matmul, a, b, NULL, c);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(pd, &matmul, attr, engine, NULL);
}

static dnnl_status_t make_memory(dnnl_memory_t *out, const descriptor *d, dnnl_engine_t engine)
{
    return dnnl_memory_create(out, d, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t make_scratchpad(product *p, const_dnnl_primitive_desc_t pd,
                                     dnnl_engine_t engine)
{
    const dnnl_memory_desc_t *d = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    p->scratchpad_bytes = d ? dnnl_memory_desc_get_size(d) : 0;
    if (p->scratchpad_bytes == 0)
        return dnnl_success;
    return dnnl_memory_create(&p->scratchpad, d, engine, DNNL_MEMORY_NONE);
}

#endif

/* ---- open and close ----------------------------------------------------------------------- */

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *loam_gemm_library(void)
{
    return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(
        DNNL_VERSION_PATCH);
}

bool loam_gemm_has_bf16(void)
{
    int isa = (int)dnnl_get_effective_cpu_isa();
    return (isa & (int)dnnl_cpu_isa_avx512_core_bf16) == (int)dnnl_cpu_isa_avx512_core_bf16;
}

static void destroy_product(product *p)
{
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    dnnl_memory_t memories[] = {p->a, p->b, p->c, p->scratchpad};
    for (int i = 0; i < LOAM_COUNT(memories); i++)
        if (memories[i])
            dnnl_memory_destroy(memories[i]);
    *p = (product){0};
}

void loam_gemm_close(loam_gemm *g)
{
    if (!g)
        return;
    for (int w = 0; g->workers && w < g->n_workers; w++) {
        worker_state *s = &g->workers[w];
        for (int i = 0; i < s->n_products; i++)
            destroy_product(&s->products[i]);
        if (s->stream)
            dnnl_stream_destroy(s->stream);
        loam_free(s->scratchpad);
    }
    if (g->engine)
        dnnl_engine_destroy(g->engine);
    loam_free(g->workers);
    loam_free(g);
}

loam_status loam_gemm_open(int n_workers, loam_gemm **out, loam_error *e)
{
    *out = NULL;
    loam_gemm *g = loam_alloc(sizeof *g);
    if (!g)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the product library's state");
    g->n_workers = n_workers;
    g->workers = loam_alloc((size_t)n_workers * sizeof *g->workers);
    if (!g->workers) {
        loam_gemm_close(g);
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the product library's %d workers",
                         n_workers);
    }
    dnnl_status_t status = dnnl_engine_create(&g->engine, dnnl_cpu, 0);
    for (int w = 0; w < n_workers && status == dnnl_success; w++)
        status = dnnl_stream_create(&g->workers[w].stream, g->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        loam_gemm_close(g);
        return loam_fail(e, LOAM_E_DEVICE, "%s did not start on this CPU (its status %d)",
                         loam_gemm_library(), (int)status);
    }
    *out = g;
    return LOAM_OK;
}

loam_status loam_gemm_status(loam_gemm *g, loam_error *e)
{
    loam_status first = LOAM_OK;
    for (int w = 0; w < g->n_workers; w++) {
        loam_error *failure = &g->workers[w].failure;
        if (failure->status == LOAM_OK)
            continue;
        if (first == LOAM_OK)
            first = loam_fail(e, failure->status, "%s", failure->message);
        *failure = (loam_error){0};
    }
    return first;
}

static void record(worker_state *s, dnnl_status_t status, const char *what, int64_t m, int64_t n,
                   int64_t k)
{
    if (status == dnnl_success)
        return;
    loam_fail(&s->failure, status == dnnl_out_of_memory ? LOAM_E_MEMORY : LOAM_E_DEVICE,
              "%s refused a %s product of m %lld, n %lld, k %lld (its status %d)",
              loam_gemm_library(), what, (long long)m, (long long)n, (long long)k, (int)status);
}

/* ---- F32 ---------------------------------------------------------------------------------- */

void loam_gemm_f32(loam_gemm *g, int worker, bool trans_a, bool trans_b, int64_t m, int64_t n,
                   int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                   float beta, float *c, int64_t ldc)
{
    int before = enter_one_thread();
    dnnl_status_t status = dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, alpha, a,
                                      lda, b, ldb, beta, c, ldc);
    leave_one_thread(before);
    record(&g->workers[worker], status, "F32", m, n, k);
}

/* ---- BF16 --------------------------------------------------------------------------------- */

static dnnl_status_t make_attributes(dnnl_primitive_attr_t *attr, bool accumulate)
{
    dnnl_status_t status = dnnl_primitive_attr_create(attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status != dnnl_success || !accumulate)
        return status;
    dnnl_post_ops_t ops = NULL;
    status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success)
        status = append_sum(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t make_product(product *p, const product_key *key, dnnl_engine_t engine)
{
    descriptor a = {0}, b = {0}, c = {0};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    p->key = *key;
    dnnl_status_t status = make_descriptor(&a, dnnl_bf16, key->m, key->k, key->lda, 1);
    if (status == dnnl_success)
        status = make_descriptor(&b, dnnl_bf16, key->k, key->n, key->trans_b ? 1 : key->ldb,
                                 key->trans_b ? key->ldb : 1);
    if (status == dnnl_success)
        status = make_descriptor(&c, dnnl_f32, key->m, key->n, key->ldc, 1);
    if (status == dnnl_success)
        status = make_attributes(&attr, key->accumulate);
    if (status == dnnl_success)
        status = make_matmul(&pd, engine, &a, &b, &c, attr);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&p->primitive, pd);
    if (status == dnnl_success)
        status = make_memory(&p->a, &a, engine);
    if (status == dnnl_success)
        status = make_memory(&p->b, &b, engine);
    if (status == dnnl_success)
        status = make_memory(&p->c, &c, engine);
    if (status == dnnl_success)
        status = make_scratchpad(p, pd, engine);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    free_descriptor(&a);
    free_descriptor(&b);
    free_descriptor(&c);
    if (status != dnnl_success)
        destroy_product(p);
    return status;
}

static bool reserve_scratchpad(worker_state *s, size_t bytes)
{
    if (bytes <= s->scratchpad_bytes)
        return true;
    loam_free(s->scratchpad);
    s->scratchpad_bytes = 0;
    s->scratchpad = loam_alloc(bytes);
    if (!s->scratchpad)
        return false;
    s->scratchpad_bytes = bytes;
    return true;
}

/* The worker's product of that shape, made on first use; NULL with *status set on failure. */
static product *find_product(worker_state *s, const product_key *key, dnnl_engine_t engine,
                             dnnl_status_t *status)
{
    int oldest = 0;
    for (int i = 0; i < s->n_products; i++) {
        product *p = &s->products[i];
        if (memcmp(&p->key, key, sizeof *key) == 0 && p->primitive) {
            p->used = ++s->clock;
            return p;
        }
        if (p->used < s->products[oldest].used)
            oldest = i;
    }
    product *p =
        s->n_products < MAX_PRODUCTS ? &s->products[s->n_products++] : &s->products[oldest];
    destroy_product(p);
    *status = make_product(p, key, engine);
    if (*status != dnnl_success)
        return NULL;
    if (!reserve_scratchpad(s, p->scratchpad_bytes)) {
        destroy_product(p);
        *status = dnnl_out_of_memory;
        return NULL;
    }
    p->used = ++s->clock;
    return p;
}

static dnnl_status_t set_handles(const product *p, const uint16_t *a, const uint16_t *b, float *c,
                                 void *scratchpad)
{
    dnnl_status_t status = dnnl_memory_set_data_handle(p->a, (void *)(uintptr_t)a);
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(p->b, (void *)(uintptr_t)b);
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(p->c, c);
    if (status == dnnl_success && p->scratchpad)
        status = dnnl_memory_set_data_handle(p->scratchpad, scratchpad);
    return status;
}

void loam_gemm_bf16(loam_gemm *g, int worker, bool trans_b, int64_t m, int64_t n, int64_t k,
                    const uint16_t *a, int64_t lda, const uint16_t *b, int64_t ldb, bool accumulate,
                    float *c, int64_t ldc)
{
    worker_state *s = &g->workers[worker];
    product_key key = {.m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc};
    key.trans_b = trans_b;
    key.accumulate = accumulate;
    int before = enter_one_thread();
    dnnl_status_t status = dnnl_success;
    product *p = find_product(s, &key, g->engine, &status);
    if (p)
        status = set_handles(p, a, b, c, s->scratchpad);
    if (p && status == dnnl_success) {
        dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->a},
                                  {DNNL_ARG_WEIGHTS, p->b},
                                  {DNNL_ARG_DST, p->c},
                                  {DNNL_ARG_SCRATCHPAD, p->scratchpad}};
        status = dnnl_primitive_execute(p->primitive, s->stream, p->scratchpad ? 4 : 3, args);
    }
    if (status == dnnl_success)
        status = dnnl_stream_wait(s->stream);
    leave_one_thread(before);
    record(s, status, "BF16", m, n, k);
}

#else
typedef int loam_gemm_onednn_is_not_built; /* C wants a declaration in every file */
#endif
