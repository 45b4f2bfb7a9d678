/* cpu.h: what the files of the CPU device share; private to src/device/cpu.
 *
 * A kernel replaces an op's reference for the nodes that it takes; all others run the reference.
 * Kernels cut their work by shapes alone, never by the number of threads, and add up in a fixed
 * order, so that results are the same bits at any number of threads. They allocate nothing: what
 * they need beside operands and result comes from scratch_bytes. */
#ifndef LOAM_CPU_H
#define LOAM_CPU_H

#include "device/cpu/gemm.h"
#include "device/device.h"

typedef struct cpu_device cpu_device;

typedef struct cpu_kernel {
    /* Whether the kernel can run this node; NULL: any node. */
    bool (*takes)(const loam_node *n);
    /* Bytes of scratch for the node; NULL: none. */
    size_t (*scratch_bytes)(const cpu_device *d, const loam_node *n);
    /* Runs the node; `scratch` is aligned to 64 bytes. What the data can get wrong (an id outside
     * its table) is the status; failed products are kept by d->gemm, which the run loop asks. */
    loam_status (*run)(cpu_device *d, const loam_node *n, char *scratch, loam_error *e);
} cpu_kernel;

struct cpu_device {
    loam_device base;
    loam_pool *pool;
    loam_gemm *gemm;
    int n_threads;
    loam_compute compute;
    bool multiplies_bf16; /* compute is BF16 and the processor has it; else operands are rounded */
    size_t decode_scratch_bytes; /* largest decoded piece of a weight */
    size_t default_decode_scratch_bytes;
    cpu_kernel kernels[LOAM_OP_COUNT]; /* run is NULL where the reference runs */
    char description[160];
};

/* One per file: enters its kernels in the table. */
void loam_cpu_add_mul_mat(cpu_kernel *table);
void loam_cpu_add_out_prod(cpu_kernel *table);
void loam_cpu_add_attention(cpu_kernel *table);
void loam_cpu_add_loss(cpu_kernel *table);
void loam_cpu_add_linear_loss(cpu_kernel *table);
void loam_cpu_add_norm(cpu_kernel *table);
void loam_cpu_add_softmax(cpu_kernel *table);
void loam_cpu_add_glu(cpu_kernel *table);
void loam_cpu_add_rope(cpu_kernel *table);
void loam_cpu_add_rows(cpu_kernel *table);
void loam_cpu_add_copy(cpu_kernel *table);
void loam_cpu_add_elementwise(cpu_kernel *table);
void loam_cpu_add_reduce(cpu_kernel *table);
void loam_cpu_add_optimizer(cpu_kernel *table);

/* cpu.c: calls row(context, r, worker) for every r in [0, n_rows) over the pool, several rows of
 * `width` elements to a task where they are short. */
void cpu_run_rows(cpu_device *d, int64_t n_rows, int64_t width, loam_task row, void *context);

/* memory.c: what the machine has, and what is left of it for a new process. */
void loam_cpu_memory(loam_device_memory *out);

static inline size_t cpu_align(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static inline int64_t cpu_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The address of row (i1, i2, i3); NULL while the tensor has no storage yet, as when scratch is
 * asked for. */
static inline char *cpu_row(const loam_tensor *t, int64_t i1, int64_t i2, int64_t i3)
{
    if (!t->data)
        return NULL;
    return (char *)t->data + (size_t)i1 * t->nb[1] + (size_t)i2 * t->nb[2] + (size_t)i3 * t->nb[3];
}

/* The address of the r-th row when dimensions 1 to 3 are counted as one. */
static inline char *cpu_flat_row(const loam_tensor *t, int64_t r)
{
    int64_t i1 = r % t->ne[1], rest = r / t->ne[1];
    return cpu_row(t, i1, rest % t->ne[2], rest / t->ne[2]);
}

/* F32 with contiguous rows that start on whole floats: what most kernels take. */
static inline bool cpu_is_f32_rows(const loam_tensor *t)
{
    return t->type == LOAM_TYPE_F32 && (t->nb[0] == sizeof(float) || t->ne[0] == 1) &&
           t->nb[1] % sizeof(float) == 0 && t->nb[2] % sizeof(float) == 0 &&
           t->nb[3] % sizeof(float) == 0;
}

#endif /* LOAM_CPU_H */
