/* matrix.c: reading operands of any type and layout into what the product library multiplies. */
#include "device/cpu/matrix.h"
#include "device/cpu/decode.h"
#include "device/cpu/simd.h"

#define TILE 16 /* side of the squares that a transposed read goes through */
#define ROWS_PER_TASK 16
#define ROWS_AHEAD                                                                                 \
    8 /* pieces of rows are fetched this early: the processor does not foresee them */

bool cpu_multiplies_bf16(const cpu_device *d)
{
    return d && d->multiplies_bf16;
}

size_t cpu_operand_bytes(const cpu_device *d)
{
    return cpu_multiplies_bf16(d) ? sizeof(uint16_t) : sizeof(float);
}

static bool has_contiguous_rows(const cpu_matrix *m)
{
    const loam_type_info *type = loam_type_get((int)m->type);
    return m->col_bytes == type->block_bytes || m->cols <= type->block_ne;
}

bool cpu_matrix_is_readable(const cpu_matrix *m)
{
    switch (m->type) {
    case LOAM_TYPE_F32:
        return m->row_bytes % sizeof(float) == 0 && m->col_bytes % sizeof(float) == 0 &&
               (uintptr_t)m->data % sizeof(float) == 0;
    case LOAM_TYPE_F64:
    case LOAM_TYPE_I8:
    case LOAM_TYPE_I16:
    case LOAM_TYPE_I32:
    case LOAM_TYPE_I64:
        return false;
    default:
        return has_contiguous_rows(m);
    }
}

bool cpu_matrix_is_direct(const cpu_device *d, const cpu_matrix *m, bool *trans, int64_t *ld)
{
    loam_type wanted = cpu_multiplies_bf16(d) ? LOAM_TYPE_BF16 : LOAM_TYPE_F32;
    if (m->type != wanted || (wanted == LOAM_TYPE_F32 && d->compute != LOAM_COMPUTE_F32))
        return false;
    size_t size = cpu_operand_bytes(d);
    if (m->row_bytes % size || m->col_bytes % size || (uintptr_t)m->data % size)
        return false;
    int64_t row = m->rows == 1 ? m->cols : (int64_t)(m->row_bytes / size);
    int64_t col = m->cols == 1 ? m->rows : (int64_t)(m->col_bytes / size);
    if ((col == 1 || m->cols == 1) && row >= m->cols) {
        *trans = false;
        *ld = row;
        return true;
    }
    *trans = true;
    *ld = col;
    return (row == 1 || m->rows == 1) && col >= m->rows;
}

int64_t cpu_operand_ld(int64_t n)
{
    int64_t ld = (n + 15) / 16 * 16;
    return ld % 256 == 0 ? ld + 16 : ld;
}

/* ---- rounding ----------------------------------------------------------------------------- */

/* To the nearest, ties to even; a NaN keeps a bit that says so. */
CPU_INLINE void bf16_bits(cpu_u16 *bits)
{
    const cpu_u16 b = *bits;
    const cpu_u16 is_nan = (cpu_u16)((b & 0x7FFFFFFF) > 0x7F800000);
    const cpu_u16 rounded = (b + 0x7FFF + ((b >> 16) & 1)) >> 16;
    *bits = (rounded & ~is_nan) | (((b >> 16) | 0x40) & is_nan);
}

CPU_CLONES
void cpu_to_bf16(const float *in, uint16_t *out, int64_t n)
{
    typedef uint16_t short16 __attribute__((vector_size(32)));
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES) {
        cpu_u16 bits;
        memcpy(&bits, in + i, sizeof bits);
        bf16_bits(&bits);
        const short16 narrow = __builtin_convertvector(bits, short16);
        memcpy(out + i, &narrow, sizeof narrow);
    }
    for (; i < n; i++)
        out[i] = loam_f32_to_bf16(in[i]);
}

CPU_CLONES
void cpu_round_to_bf16(float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES) {
        cpu_u16 bits;
        memcpy(&bits, x + i, sizeof bits);
        bf16_bits(&bits);
        bits <<= 16;
        memcpy(x + i, &bits, sizeof bits);
    }
    for (; i < n; i++)
        x[i] = loam_bf16_to_f32(loam_f32_to_bf16(x[i]));
}

/* ---- loading ------------------------------------------------------------------------------ */

/* n floats of one row become operands. */
static void put_row(const cpu_device *d, const float *in, char *out, int64_t n)
{
    if (cpu_multiplies_bf16(d)) {
        cpu_to_bf16(in, (uint16_t *)out, n);
        return;
    }
    if ((const char *)in != out)
        memcpy(out, in, (size_t)n * sizeof *in);
    if (d && d->compute == LOAM_COMPUTE_BF16)
        cpu_round_to_bf16((float *)out, n);
}

static void load_contiguous_row(const cpu_device *d, loam_type type, const char *from, char *out,
                                int64_t n)
{
    if (type == LOAM_TYPE_F32) {
        put_row(d, (const float *)from, out, n);
    } else if (!cpu_multiplies_bf16(d)) {
        loam_cpu_decode(type, from, (float *)out, n);
        put_row(d, (float *)out, out, n);
    } else if (type == LOAM_TYPE_BF16) {
        memcpy(out, from, (size_t)n * sizeof(uint16_t));
    } else {
        loam_cpu_decode_bf16(type, from, (uint16_t *)out, n);
    }
}

/* Rows whose elements are apart go through small squares, read along whichever side is dense. */
static void load_strided(const cpu_device *d, const cpu_matrix *m, int64_t row, int64_t n_rows,
                         int64_t col, int64_t n_cols, char *out, int64_t ld)
{
    size_t size = cpu_operand_bytes(d);
    float square[TILE][TILE];
    for (int64_t r0 = 0; r0 < n_rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < n_cols; c0 += TILE) {
            int64_t height = LOAM_MIN(n_rows - r0, TILE), width = LOAM_MIN(n_cols - c0, TILE);
            for (int64_t c = 0; c < width; c++) {
                const char *from = m->data + (size_t)(row + r0) * m->row_bytes +
                                   (size_t)(col + c0 + c) * m->col_bytes;
                for (int64_t r = 0; r < height; r++)
                    memcpy(&square[r][c], from + (size_t)r * m->row_bytes, sizeof(float));
            }
            for (int64_t r = 0; r < height; r++)
                put_row(d, square[r], out + (size_t)((r0 + r) * ld + c0) * size, width);
        }
}

void cpu_matrix_load(const cpu_device *d, const cpu_matrix *m, int64_t row, int64_t n_rows,
                     int64_t col, int64_t n_cols, void *out, int64_t ld)
{
    if (m->type == LOAM_TYPE_F32 && m->col_bytes != sizeof(float)) {
        load_strided(d, m, row, n_rows, col, n_cols, out, ld);
        return;
    }
    const loam_type_info *type = loam_type_get((int)m->type);
    const size_t row_bytes = (size_t)ld * cpu_operand_bytes(d);
    const size_t piece_bytes = (size_t)(n_cols / type->block_ne) * type->block_bytes;
    const char *from =
        m->data + (size_t)row * m->row_bytes + (size_t)(col / type->block_ne) * type->block_bytes;
    for (int64_t r = 0; r < n_rows; r++, from += m->row_bytes) {
        if (r + ROWS_AHEAD < n_rows && piece_bytes < m->row_bytes)
            for (size_t i = 0; i < piece_bytes; i += 64)
                __builtin_prefetch(from + ROWS_AHEAD * m->row_bytes + i);
        load_contiguous_row(d, m->type, from, (char *)out + (size_t)r * row_bytes, n_cols);
    }
}

typedef struct load_all {
    const cpu_device *d;
    const cpu_matrix *first;
    const cpu_batches *batches;
    char *out;
    int64_t ld, pieces;
    size_t stride_bytes;
} load_all;

static void load_piece(void *context, int64_t i, int worker)
{
    (void)worker;
    const load_all *l = context;
    int64_t batch = i / l->pieces, row = i % l->pieces * ROWS_PER_TASK;
    cpu_matrix m = *l->first;
    m.data += (size_t)(batch % l->batches->n2) * l->batches->bytes2 +
              (size_t)(batch / l->batches->n2) * l->batches->bytes3;
    cpu_matrix_load(l->d, &m, row, LOAM_MIN(m.rows - row, ROWS_PER_TASK), 0, m.cols,
                    l->out + (size_t)batch * l->stride_bytes +
                        (size_t)(row * l->ld) * cpu_operand_bytes(l->d),
                    l->ld);
}

void cpu_matrix_load_all(cpu_device *d, const cpu_matrix *first, const cpu_batches *batches,
                         bool as_floats, void *out, int64_t ld, size_t stride_bytes)
{
    load_all l = {.d = as_floats ? NULL : d,
                  .first = first,
                  .batches = batches,
                  .out = out,
                  .ld = ld,
                  .pieces = cpu_ceil_div(first->rows, ROWS_PER_TASK),
                  .stride_bytes = stride_bytes};
    loam_pool_run(d->pool, l.pieces * batches->n2 * batches->n3, load_piece, &l);
}

void cpu_multiply(cpu_device *d, int worker, bool trans_a, bool trans_b, int64_t m, int64_t n,
                  int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb,
                  bool accumulate, float *c, int64_t ldc)
{
    if (cpu_multiplies_bf16(d)) {
        LOAM_ASSERT(!trans_a);
        loam_gemm_bf16(d->gemm, worker, trans_b, m, n, k, a, lda, b, ldb, accumulate, c, ldc);
        return;
    }
    loam_gemm_f32(d->gemm, worker, trans_a, trans_b, m, n, k, 1, a, lda, b, ldb,
                  accumulate ? 1.0F : 0.0F, c, ldc);
}
