/* tensor.h: element types and block layouts, shapes and strides, decoding and encoding.
 *
 * Type numbers, block layouts and the meaning of ne (elements per dimension, ne[0] fastest) and
 * nb (byte strides) are ggml's. */
#ifndef LOAM_TENSOR_H
#define LOAM_TENSOR_H

#include "core/core.h"
#include "tensor/blocks.h"

#define LOAM_MAX_DIMS 4

/* GGUF's type numbers (ggml_type); the gaps are types that ggml removed. */
typedef enum loam_type {
    LOAM_TYPE_F32 = 0,
    LOAM_TYPE_F16 = 1,
    LOAM_TYPE_Q4_0 = 2,
    LOAM_TYPE_Q4_1 = 3,
    LOAM_TYPE_Q5_0 = 6,
    LOAM_TYPE_Q5_1 = 7,
    LOAM_TYPE_Q8_0 = 8,
    LOAM_TYPE_Q8_1 = 9,
    LOAM_TYPE_Q2_K = 10,
    LOAM_TYPE_Q3_K = 11,
    LOAM_TYPE_Q4_K = 12,
    LOAM_TYPE_Q5_K = 13,
    LOAM_TYPE_Q6_K = 14,
    LOAM_TYPE_Q8_K = 15,
    LOAM_TYPE_IQ2_XXS = 16,
    LOAM_TYPE_IQ2_XS = 17,
    LOAM_TYPE_IQ3_XXS = 18,
    LOAM_TYPE_IQ1_S = 19,
    LOAM_TYPE_IQ4_NL = 20,
    LOAM_TYPE_IQ3_S = 21,
    LOAM_TYPE_IQ2_S = 22,
    LOAM_TYPE_IQ4_XS = 23,
    LOAM_TYPE_I8 = 24,
    LOAM_TYPE_I16 = 25,
    LOAM_TYPE_I32 = 26,
    LOAM_TYPE_I64 = 27,
    LOAM_TYPE_F64 = 28,
    LOAM_TYPE_IQ1_M = 29,
    LOAM_TYPE_BF16 = 30,
    LOAM_TYPE_TQ1_0 = 34,
    LOAM_TYPE_TQ2_0 = 35,
    LOAM_TYPE_MXFP4 = 39,
    LOAM_TYPE_NVFP4 = 40,
    LOAM_TYPE_Q1_0 = 41,
    LOAM_TYPE_Q2_0 = 42,
    LOAM_TYPE_COUNT = 43
} loam_type;

/* The largest block of any type, in elements and bytes (for stack buffers). */
#define LOAM_MAX_BLOCK_NE 256
#define LOAM_MAX_BLOCK_BYTES 512

/* What a type is. `decode` turns whole blocks into floats, exactly as the format defines them;
 * `encode` is NULL where Loam does not write the type. n is a multiple of block_ne.
 *
 * Encoders of block types search the block scales for the least squared error (weighted towards
 * larger values), take NaN as 0, and saturate what the format cannot reach, infinities included:
 * what they write decodes to finite values, whatever the input. F16 and BF16 convert as IEEE does
 * (overflow to infinity, NaN stays NaN); integers round to nearest and saturate, NaN gives 0. */
typedef struct loam_type_info {
    const char *name; /* ggml's spelling: "f32", "q4_K", "iq2_xxs" */
    int64_t block_ne;
    size_t block_bytes;
    bool is_quantized;
    void (*decode)(const void *blocks, float *out, int64_t n);
    void (*encode)(const float *in, void *blocks, int64_t n);
} loam_type_info;

/* NULL for numbers that are no type (gaps and beyond). Static storage. */
const loam_type_info *loam_type_get(int type);
/* "unknown" for numbers that are no type. */
const char *loam_type_name(loam_type type);
/* False where no type has that name (any case). */
bool loam_type_from_name(const char *name, loam_type *out);

/* Bytes of a row of ne0 elements; ne0 must be a multiple of the block. */
size_t loam_row_bytes(loam_type type, int64_t ne0);

/* Decodes n elements (whole blocks) to floats; F64 narrows, integers convert. */
void loam_decode(loam_type type, const void *blocks, float *out, int64_t n);
/* Encodes n floats; LOAM_E_UNSUPPORTED where the type has no encoder. */
loam_status loam_encode(loam_type type, const float *in, void *blocks, int64_t n, loam_error *e);

/* Fills n elements (whole blocks) of any type with valid random data whose values are of the order
 * of `scale`: encoded normals where there is an encoder, else random blocks whose scales are set
 * so that each block's root mean square is `scale`. Never NaN or infinite. */
loam_status loam_random_fill(loam_type type, loam_rng *rng, float scale, void *blocks, int64_t n,
                             loam_error *e);

/* Scalar formats (half.c); NaN stays NaN, f32_to_f16 makes it quiet. */
float loam_f16_to_f32(uint16_t h);
uint16_t loam_f32_to_f16(float f); /* round to nearest even; overflow gives infinity */
float loam_bf16_to_f32(uint16_t h);
uint16_t loam_f32_to_bf16(float f); /* round to nearest even; NaN stays NaN */

/* ---- shapes (shape.c) --------------------------------------------------------------------- */

/* A view of memory that somebody else owns. */
typedef struct loam_tensor {
    loam_type type;
    int64_t ne[LOAM_MAX_DIMS];
    size_t nb[LOAM_MAX_DIMS]; /* nb[0] is the size of a block for block types */
    void *data;               /* host address; NULL where the memory is a device's */
} loam_tensor;

int64_t loam_tensor_ne(const loam_tensor *t);   /* elements */
int64_t loam_tensor_rows(const loam_tensor *t); /* ne[1] * ne[2] * ne[3] */
size_t loam_tensor_bytes(const loam_tensor *t); /* from the first to past the last byte */
/* nb of a dense tensor. */
void loam_dense_strides(loam_type type, const int64_t ne[LOAM_MAX_DIMS], size_t nb[LOAM_MAX_DIMS]);
bool loam_is_contiguous(const loam_tensor *t);
bool loam_rows_contiguous(const loam_tensor *t); /* nb[0] is the element's size */
bool loam_same_shape(const loam_tensor *a, const loam_tensor *b);
/* Every ne of b is a multiple of a's. */
bool loam_can_repeat(const loam_tensor *a, const loam_tensor *b);

/* Element access for references and tests, any strides; slow on purpose. Block types decode the
 * block that holds the element. set() takes F64, F32, F16, BF16, I32, I64 only. */
double loam_get(const loam_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3);
void loam_set(const loam_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3, double value);
/* Row (i1, i2, i3) as doubles; for block types each block is decoded once. */
void loam_get_row(const loam_tensor *t, int64_t i1, int64_t i2, int64_t i3, double *out);

#endif /* LOAM_TENSOR_H */
