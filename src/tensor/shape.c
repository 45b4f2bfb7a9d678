/* shape.c: what ne and nb say, and element access for references and tests. */
#include "tensor/tensor.h"

#include <string.h>

int64_t loam_tensor_ne(const loam_tensor *t)
{
    return t->ne[0] * loam_tensor_rows(t);
}

int64_t loam_tensor_rows(const loam_tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3];
}

size_t loam_tensor_bytes(const loam_tensor *t)
{
    const loam_type_info *type = loam_type_get((int)t->type);
    if (loam_tensor_ne(t) == 0)
        return 0;
    size_t bytes = type->block_bytes + (size_t)(t->ne[0] / type->block_ne - 1) * t->nb[0];
    for (int d = 1; d < LOAM_MAX_DIMS; d++)
        bytes += (size_t)(t->ne[d] - 1) * t->nb[d];
    return bytes;
}

void loam_dense_strides(loam_type type, const int64_t ne[LOAM_MAX_DIMS], size_t nb[LOAM_MAX_DIMS])
{
    nb[0] = loam_type_get((int)type)->block_bytes;
    nb[1] = loam_row_bytes(type, ne[0]);
    for (int d = 2; d < LOAM_MAX_DIMS; d++)
        nb[d] = nb[d - 1] * (size_t)ne[d - 1];
}

bool loam_is_contiguous(const loam_tensor *t)
{
    if (loam_tensor_ne(t) == 0)
        return true;
    const loam_type_info *type = loam_type_get((int)t->type);
    size_t expected = type->block_bytes;
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        int64_t steps = d == 0 ? t->ne[0] / type->block_ne : t->ne[d];
        /* The stride of a dimension with one step is never taken. */
        if (steps != 1 && t->nb[d] != expected)
            return false;
        expected *= (size_t)steps;
    }
    return true;
}

bool loam_rows_contiguous(const loam_tensor *t)
{
    return t->nb[0] == loam_type_get((int)t->type)->block_bytes;
}

bool loam_same_shape(const loam_tensor *a, const loam_tensor *b)
{
    return memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

bool loam_can_repeat(const loam_tensor *a, const loam_tensor *b)
{
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        if (a->ne[d] == 0 ? b->ne[d] != 0 : b->ne[d] % a->ne[d] != 0)
            return false;
    }
    return true;
}

/* The address of the block that holds an element; `block` counts blocks along the row. */
static char *address_of(const loam_tensor *t, int64_t block, int64_t i1, int64_t i2, int64_t i3)
{
    return (char *)t->data + (size_t)block * t->nb[0] + (size_t)i1 * t->nb[1] +
           (size_t)i2 * t->nb[2] + (size_t)i3 * t->nb[3];
}

/* Decodes one block, or one element of a plain type, to at most LOAM_MAX_BLOCK_NE doubles. The
 * wide plain types do not go through floats, which would drop their low bits. */
static void get_block(const loam_type_info *type, loam_type number, const char *at, double *out)
{
    switch (number) {
    case LOAM_TYPE_F64:
        memcpy(out, at, sizeof *out);
        return;
    case LOAM_TYPE_I32: {
        int32_t v;
        memcpy(&v, at, sizeof v);
        *out = v;
        return;
    }
    case LOAM_TYPE_I64: {
        int64_t v;
        memcpy(&v, at, sizeof v);
        *out = (double)v;
        return;
    }
    default:
        break;
    }
    _Alignas(64) unsigned char block[LOAM_MAX_BLOCK_BYTES];
    float values[LOAM_MAX_BLOCK_NE];
    memcpy(block, at, type->block_bytes);
    type->decode(block, values, type->block_ne);
    for (int64_t i = 0; i < type->block_ne; i++)
        out[i] = values[i];
}

double loam_get(const loam_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3)
{
    const loam_type_info *type = loam_type_get((int)t->type);
    double values[LOAM_MAX_BLOCK_NE];
    get_block(type, t->type, address_of(t, i0 / type->block_ne, i1, i2, i3), values);
    return values[i0 % type->block_ne];
}

void loam_get_row(const loam_tensor *t, int64_t i1, int64_t i2, int64_t i3, double *out)
{
    const loam_type_info *type = loam_type_get((int)t->type);
    for (int64_t block = 0; block < t->ne[0] / type->block_ne; block++)
        get_block(type, t->type, address_of(t, block, i1, i2, i3), out + block * type->block_ne);
}

void loam_set(const loam_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3, double value)
{
    char *at = address_of(t, i0, i1, i2, i3);
    float narrow = (float)value;
    switch (t->type) {
    case LOAM_TYPE_F64:
        memcpy(at, &value, sizeof value);
        return;
    case LOAM_TYPE_F32:
        memcpy(at, &narrow, sizeof narrow);
        return;
    case LOAM_TYPE_F16: {
        uint16_t half = loam_f32_to_f16(narrow);
        memcpy(at, &half, sizeof half);
        return;
    }
    case LOAM_TYPE_BF16: {
        uint16_t half = loam_f32_to_bf16(narrow);
        memcpy(at, &half, sizeof half);
        return;
    }
    case LOAM_TYPE_I32: {
        int32_t v = (int32_t)value;
        memcpy(at, &v, sizeof v);
        return;
    }
    case LOAM_TYPE_I64: {
        int64_t v = (int64_t)value;
        memcpy(at, &v, sizeof v);
        return;
    }
    default:
        LOAM_ASSERT(!"loam_set writes F64, F32, F16, BF16, I32 and I64 only");
    }
}
