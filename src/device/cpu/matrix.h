/* matrix.h: operands of products as matrices in any type and layout, and how they become what the
 * product library reads. */
#ifndef LOAM_CPU_MATRIX_H
#define LOAM_CPU_MATRIX_H

#include "device/cpu/cpu.h"

/* Element (r, c) lies at data + r * row_bytes + (c / block) * col_bytes. */
typedef struct cpu_matrix {
    loam_type type;
    const char *data;
    int64_t rows, cols;
    size_t row_bytes, col_bytes;
} cpu_matrix;

/* True where the device multiplies in BF16 itself: operands are then uint16_t, else float. */
bool cpu_multiplies_bf16(const cpu_device *d);
size_t cpu_operand_bytes(const cpu_device *d);

/* Whether cpu_matrix_load can read it: block types with whole contiguous rows, F16 and BF16 with
 * contiguous rows, F32 in any strides of whole floats. */
bool cpu_matrix_is_readable(const cpu_matrix *m);

/* Whether a product can read the matrix where it lies. Then *trans says that it is stored
 * transposed and *ld is the distance of its stored rows in elements. */
bool cpu_matrix_is_direct(const cpu_device *d, const cpu_matrix *m, bool *trans, int64_t *ld);

/* Writes the piece that starts at (row, col) as row-major operands, ld elements apart; col and
 * n_cols are whole blocks. `d` NULL: plain floats, whatever the device computes in. */
void cpu_matrix_load(const cpu_device *d, const cpu_matrix *m, int64_t row, int64_t n_rows,
                     int64_t col, int64_t n_cols, void *out, int64_t ld);

/* The distance of rows of n loaded operands: whole vectors, and never a multiple of a page, which
 * would put all rows into the same few lines of the cache. */
int64_t cpu_operand_ld(int64_t n);

/* Rounds floats to BF16: as 16-bit numbers, or in place as floats. */
void cpu_to_bf16(const float *in, uint16_t *out, int64_t n);
void cpu_round_to_bf16(float *x, int64_t n);

/* c [m, n] = op(a) op(b), plus c where `accumulate`, of operands as cpu_matrix_load writes them. In
 * BF16 a is never transposed. */
void cpu_multiply(cpu_device *d, int worker, bool trans_a, bool trans_b, int64_t m, int64_t n,
                  int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb,
                  bool accumulate, float *c, int64_t ldc);

/* Loads whole matrices, `stride_bytes` apart in out, over the pool: the batches (i2, i3) of t with
 * matrix `first` as batch (0, 0). */
typedef struct cpu_batches {
    int64_t n2, n3;
    size_t bytes2, bytes3; /* from one batch to the next */
} cpu_batches;
void cpu_matrix_load_all(cpu_device *d, const cpu_matrix *first, const cpu_batches *batches,
                         bool as_floats, void *out, int64_t ld, size_t stride_bytes);

#endif /* LOAM_CPU_MATRIX_H */
