/* kv.c: metadata values: their sizes, their names, and typed reads. */
#include "gguf/format.h"

#include <math.h>
#include <string.h>

size_t loam_kv_type_bytes(uint32_t type)
{
    switch (type) {
    case LOAM_KV_U8:
    case LOAM_KV_I8:
    case LOAM_KV_BOOL:
        return 1;
    case LOAM_KV_U16:
    case LOAM_KV_I16:
        return 2;
    case LOAM_KV_U32:
    case LOAM_KV_I32:
    case LOAM_KV_F32:
        return 4;
    case LOAM_KV_U64:
    case LOAM_KV_I64:
    case LOAM_KV_F64:
        return 8;
    default:
        return 0;
    }
}

const char *loam_kv_type_name(uint32_t type)
{
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return type < (uint32_t)LOAM_COUNT(names) ? names[type] : "unknown";
}

/* The bytes of element i, moved to where every type may be read from. */
static uint64_t bits_at(const loam_kv *kv, uint64_t i)
{
    size_t bytes = loam_kv_type_bytes((uint32_t)kv->element_type);
    uint64_t bits = 0;
    if (bytes > 0)
        memcpy(&bits, kv->data + i * bytes, bytes);
    return bits;
}

static float bits_to_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static double bits_to_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The nearest int64; 0 for NaN. */
static int64_t clamp_to_int(double value)
{
    if (isnan(value))
        return 0;
    if (value >= 0x1p63)
        return INT64_MAX;
    return value < -0x1p63 ? INT64_MIN : (int64_t)value;
}

int64_t loam_kv_int_at(const loam_kv *kv, uint64_t i)
{
    uint64_t bits = bits_at(kv, i);
    switch (kv->element_type) {
    case LOAM_KV_I8:
        return (int8_t)bits;
    case LOAM_KV_I16:
        return (int16_t)bits;
    case LOAM_KV_I32:
        return (int32_t)bits;
    case LOAM_KV_BOOL:
        return bits != 0;
    case LOAM_KV_F32:
        return clamp_to_int((double)bits_to_float(bits));
    case LOAM_KV_F64:
        return clamp_to_int(bits_to_double(bits));
    case LOAM_KV_U64:
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    default: /* U8, U16, U32 and I64 as they are; 0 for strings */
        return (int64_t)bits;
    }
}

double loam_kv_number_at(const loam_kv *kv, uint64_t i)
{
    uint64_t bits = bits_at(kv, i);
    switch (kv->element_type) {
    case LOAM_KV_F32:
        return (double)bits_to_float(bits);
    case LOAM_KV_F64:
        return bits_to_double(bits);
    case LOAM_KV_U64:
        return (double)bits;
    default:
        return (double)loam_kv_int_at(kv, i);
    }
}

bool loam_kv_integer(const loam_kv *kv, int64_t *out)
{
    switch (kv->type) {
    case LOAM_KV_U64:
        if (bits_at(kv, 0) > INT64_MAX)
            return false;
        break;
    case LOAM_KV_U8:
    case LOAM_KV_I8:
    case LOAM_KV_U16:
    case LOAM_KV_I16:
    case LOAM_KV_U32:
    case LOAM_KV_I32:
    case LOAM_KV_I64:
        break;
    default:
        return false;
    }
    *out = loam_kv_int_at(kv, 0);
    return true;
}

/* Finds a key for a typed read. *out is NULL for an absent key that need not be there. */
static loam_status find_for(const loam_gguf *g, const char *key, bool required,
                            const char *expected, const loam_kv **out, loam_error *e)
{
    *out = loam_gguf_find(g, key);
    if (!*out && required)
        return loam_fail(e, LOAM_E_FORMAT, "'%s': metadata key '%s' (%s) is missing",
                         loam_gguf_path(g), key, expected);
    return LOAM_OK;
}

static loam_status wrong_type(const loam_gguf *g, const loam_kv *kv, const char *key,
                              const char *expected, loam_error *e)
{
    if (kv->type == LOAM_KV_ARRAY)
        return loam_fail(e, LOAM_E_FORMAT,
                         "'%s': metadata key '%s' is an array of %llu %s, expected %s",
                         loam_gguf_path(g), key, (unsigned long long)kv->n,
                         loam_kv_type_name((uint32_t)kv->element_type), expected);
    return loam_fail(e, LOAM_E_FORMAT, "'%s': metadata key '%s' has type %s, expected %s",
                     loam_gguf_path(g), key, loam_kv_type_name((uint32_t)kv->type), expected);
}

loam_status loam_kv_u32(const loam_gguf *g, const char *key, bool required, uint32_t *out,
                        loam_error *e)
{
    const loam_kv *kv;
    LOAM_TRY(find_for(g, key, required, "an integer", &kv, e));
    if (!kv)
        return LOAM_OK;
    int64_t value = 0;
    bool too_large = kv->type == LOAM_KV_U64 && bits_at(kv, 0) > INT64_MAX;
    if (!too_large && !loam_kv_integer(kv, &value))
        return wrong_type(g, kv, key, "an integer", e);
    if (too_large || value < 0 || value > UINT32_MAX)
        return loam_fail(e, LOAM_E_FORMAT,
                         "'%s': metadata key '%s' is %s%lld, expected 0 to 4294967295",
                         loam_gguf_path(g), key, too_large ? "above " : "",
                         (long long)(too_large ? INT64_MAX : value));
    *out = (uint32_t)value;
    return LOAM_OK;
}

loam_status loam_kv_f32(const loam_gguf *g, const char *key, bool required, float *out,
                        loam_error *e)
{
    const loam_kv *kv;
    LOAM_TRY(find_for(g, key, required, "a floating-point number", &kv, e));
    if (!kv)
        return LOAM_OK;
    if (kv->type != LOAM_KV_F32 && kv->type != LOAM_KV_F64)
        return wrong_type(g, kv, key, "f32", e);
    double value = loam_kv_number_at(kv, 0);
    float narrow = (float)value;
    if (isinf(narrow) && !isinf(value))
        return loam_fail(e, LOAM_E_FORMAT,
                         "'%s': metadata key '%s' is %g, which does not fit an f32",
                         loam_gguf_path(g), key, value);
    *out = narrow;
    return LOAM_OK;
}

loam_status loam_kv_bool(const loam_gguf *g, const char *key, bool required, bool *out,
                         loam_error *e)
{
    const loam_kv *kv;
    LOAM_TRY(find_for(g, key, required, "a bool", &kv, e));
    if (!kv)
        return LOAM_OK;
    if (kv->type != LOAM_KV_BOOL)
        return wrong_type(g, kv, key, "bool", e);
    *out = loam_kv_int_at(kv, 0) != 0;
    return LOAM_OK;
}

loam_status loam_kv_string(const loam_gguf *g, const char *key, bool required, loam_slice *out,
                           loam_error *e)
{
    const loam_kv *kv;
    LOAM_TRY(find_for(g, key, required, "a string", &kv, e));
    if (!kv)
        return LOAM_OK;
    if (kv->type != LOAM_KV_STRING)
        return wrong_type(g, kv, key, "string", e);
    *out = kv->strings[0];
    return LOAM_OK;
}
