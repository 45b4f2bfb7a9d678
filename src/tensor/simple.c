/* simple.c: types whose block is one element. Elements are read and written as bytes, so that
 * buffers need no alignment. */
#include "tensor/families.h"

#include <math.h>

void loam_decode_f32(const void *blocks, float *out, int64_t n)
{
    memcpy(out, blocks, (size_t)n * sizeof(float));
}

void loam_encode_f32(const float *in, void *blocks, int64_t n)
{
    memcpy(blocks, in, (size_t)n * sizeof(float));
}

void loam_decode_f16(const void *blocks, float *out, int64_t n)
{
    const uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++)
        out[i] = loam_load_f16(p + 2 * i);
}

void loam_encode_f16(const float *in, void *blocks, int64_t n)
{
    uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t h = loam_f32_to_f16(in[i]);
        memcpy(p + 2 * i, &h, sizeof h);
    }
}

void loam_decode_bf16(const void *blocks, float *out, int64_t n)
{
    const uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++)
        out[i] = loam_float_from_bits((uint32_t)loam_load_u16(p + 2 * i) << 16);
}

void loam_encode_bf16(const float *in, void *blocks, int64_t n)
{
    uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t h = loam_f32_to_bf16(in[i]);
        memcpy(p + 2 * i, &h, sizeof h);
    }
}

void loam_decode_f64(const void *blocks, float *out, int64_t n)
{
    const uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        double v;
        memcpy(&v, p + 8 * i, sizeof v);
        out[i] = (float)v;
    }
}

void loam_encode_f64(const float *in, void *blocks, int64_t n)
{
    uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        const double v = in[i];
        memcpy(p + 8 * i, &v, sizeof v);
    }
}

void loam_decode_i8(const void *blocks, float *out, int64_t n)
{
    const int8_t *p = blocks;
    for (int64_t i = 0; i < n; i++)
        out[i] = p[i];
}

void loam_decode_i16(const void *blocks, float *out, int64_t n)
{
    const uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        int16_t v;
        memcpy(&v, p + 2 * i, sizeof v);
        out[i] = v;
    }
}

void loam_decode_i32(const void *blocks, float *out, int64_t n)
{
    const uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        int32_t v;
        memcpy(&v, p + 4 * i, sizeof v);
        out[i] = (float)v;
    }
}

void loam_decode_i64(const void *blocks, float *out, int64_t n)
{
    const uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        int64_t v;
        memcpy(&v, p + 8 * i, sizeof v);
        out[i] = (float)v;
    }
}

/* The nearest integer of a signed type with the given number of bits. */
static int64_t to_integer(float x, int bits)
{
    const int64_t largest = INT64_MAX >> (64 - bits);
    const double v = rint((double)x);
    if (isnan(v))
        return 0;
    if (v <= -(double)largest - 1.0)
        return -largest - 1;
    if (v >= (double)largest)
        return largest;
    return (int64_t)v;
}

void loam_encode_i8(const float *in, void *blocks, int64_t n)
{
    uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        const int8_t v = (int8_t)to_integer(in[i], 8);
        memcpy(p + 1 * i, &v, sizeof v);
    }
}

void loam_encode_i16(const float *in, void *blocks, int64_t n)
{
    uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        const int16_t v = (int16_t)to_integer(in[i], 16);
        memcpy(p + 2 * i, &v, sizeof v);
    }
}

void loam_encode_i32(const float *in, void *blocks, int64_t n)
{
    uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        const int32_t v = (int32_t)to_integer(in[i], 32);
        memcpy(p + 4 * i, &v, sizeof v);
    }
}

void loam_encode_i64(const float *in, void *blocks, int64_t n)
{
    uint8_t *p = blocks;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = (int64_t)to_integer(in[i], 64);
        memcpy(p + 8 * i, &v, sizeof v);
    }
}
