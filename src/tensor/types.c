/* types.c: the type table. Names, numbers and block sizes are ggml's (type_traits in ggml.c). */
#include "tensor/families.h"

#include <strings.h>

_Static_assert(sizeof(loam_block_q4_0) == 18, "q4_0");
_Static_assert(sizeof(loam_block_q4_1) == 20, "q4_1");
_Static_assert(sizeof(loam_block_q5_0) == 22, "q5_0");
_Static_assert(sizeof(loam_block_q5_1) == 24, "q5_1");
_Static_assert(sizeof(loam_block_q8_0) == 34, "q8_0");
_Static_assert(sizeof(loam_block_q8_1) == 36, "q8_1");
_Static_assert(sizeof(loam_block_q2_k) == 84, "q2_K");
_Static_assert(sizeof(loam_block_q3_k) == 110, "q3_K");
_Static_assert(sizeof(loam_block_q4_k) == 144, "q4_K");
_Static_assert(sizeof(loam_block_q5_k) == 176, "q5_K");
_Static_assert(sizeof(loam_block_q6_k) == 210, "q6_K");
_Static_assert(sizeof(loam_block_q8_k) == 292, "q8_K");
_Static_assert(sizeof(loam_block_iq2_xxs) == 66, "iq2_xxs");
_Static_assert(sizeof(loam_block_iq2_xs) == 74, "iq2_xs");
_Static_assert(sizeof(loam_block_iq2_s) == 82, "iq2_s");
_Static_assert(sizeof(loam_block_iq3_xxs) == 98, "iq3_xxs");
_Static_assert(sizeof(loam_block_iq3_s) == 110, "iq3_s");
_Static_assert(sizeof(loam_block_iq1_s) == 50, "iq1_s");
_Static_assert(sizeof(loam_block_iq1_m) == 56, "iq1_m");
_Static_assert(sizeof(loam_block_iq4_nl) == 18, "iq4_nl");
_Static_assert(sizeof(loam_block_iq4_xs) == 136, "iq4_xs");
_Static_assert(sizeof(loam_block_tq1_0) == 54, "tq1_0");
_Static_assert(sizeof(loam_block_tq2_0) == 66, "tq2_0");
_Static_assert(sizeof(loam_block_mxfp4) == 17, "mxfp4");
_Static_assert(sizeof(loam_block_nvfp4) == 36, "nvfp4");
_Static_assert(sizeof(loam_block_q1_0) == 18, "q1_0");
_Static_assert(sizeof(loam_block_q2_0) == 18, "q2_0");

static const loam_type_info type_table[LOAM_TYPE_COUNT] = {
    [LOAM_TYPE_F32] = {"f32", 1, 4, false, loam_decode_f32, loam_encode_f32},
    [LOAM_TYPE_F16] = {"f16", 1, 2, false, loam_decode_f16, loam_encode_f16},
    [LOAM_TYPE_Q4_0] = {"q4_0", 32, 18, true, loam_decode_q4_0, loam_encode_q4_0},
    [LOAM_TYPE_Q4_1] = {"q4_1", 32, 20, true, loam_decode_q4_1, loam_encode_q4_1},
    [LOAM_TYPE_Q5_0] = {"q5_0", 32, 22, true, loam_decode_q5_0, loam_encode_q5_0},
    [LOAM_TYPE_Q5_1] = {"q5_1", 32, 24, true, loam_decode_q5_1, loam_encode_q5_1},
    [LOAM_TYPE_Q8_0] = {"q8_0", 32, 34, true, loam_decode_q8_0, loam_encode_q8_0},
    [LOAM_TYPE_Q8_1] = {"q8_1", 32, 36, true, loam_decode_q8_1, loam_encode_q8_1},
    [LOAM_TYPE_Q2_K] = {"q2_K", 256, 84, true, loam_decode_q2_k, loam_encode_q2_k},
    [LOAM_TYPE_Q3_K] = {"q3_K", 256, 110, true, loam_decode_q3_k, loam_encode_q3_k},
    [LOAM_TYPE_Q4_K] = {"q4_K", 256, 144, true, loam_decode_q4_k, loam_encode_q4_k},
    [LOAM_TYPE_Q5_K] = {"q5_K", 256, 176, true, loam_decode_q5_k, loam_encode_q5_k},
    [LOAM_TYPE_Q6_K] = {"q6_K", 256, 210, true, loam_decode_q6_k, loam_encode_q6_k},
    [LOAM_TYPE_Q8_K] = {"q8_K", 256, 292, true, loam_decode_q8_k, loam_encode_q8_k},
    [LOAM_TYPE_IQ2_XXS] = {"iq2_xxs", 256, 66, true, loam_decode_iq2_xxs, NULL},
    [LOAM_TYPE_IQ2_XS] = {"iq2_xs", 256, 74, true, loam_decode_iq2_xs, NULL},
    [LOAM_TYPE_IQ3_XXS] = {"iq3_xxs", 256, 98, true, loam_decode_iq3_xxs, NULL},
    [LOAM_TYPE_IQ1_S] = {"iq1_s", 256, 50, true, loam_decode_iq1_s, NULL},
    [LOAM_TYPE_IQ4_NL] = {"iq4_nl", 32, 18, true, loam_decode_iq4_nl, loam_encode_iq4_nl},
    [LOAM_TYPE_IQ3_S] = {"iq3_s", 256, 110, true, loam_decode_iq3_s, NULL},
    [LOAM_TYPE_IQ2_S] = {"iq2_s", 256, 82, true, loam_decode_iq2_s, NULL},
    [LOAM_TYPE_IQ4_XS] = {"iq4_xs", 256, 136, true, loam_decode_iq4_xs, loam_encode_iq4_xs},
    [LOAM_TYPE_I8] = {"i8", 1, 1, false, loam_decode_i8, loam_encode_i8},
    [LOAM_TYPE_I16] = {"i16", 1, 2, false, loam_decode_i16, loam_encode_i16},
    [LOAM_TYPE_I32] = {"i32", 1, 4, false, loam_decode_i32, loam_encode_i32},
    [LOAM_TYPE_I64] = {"i64", 1, 8, false, loam_decode_i64, loam_encode_i64},
    [LOAM_TYPE_F64] = {"f64", 1, 8, false, loam_decode_f64, loam_encode_f64},
    [LOAM_TYPE_IQ1_M] = {"iq1_m", 256, 56, true, loam_decode_iq1_m, NULL},
    [LOAM_TYPE_BF16] = {"bf16", 1, 2, false, loam_decode_bf16, loam_encode_bf16},
    [LOAM_TYPE_TQ1_0] = {"tq1_0", 256, 54, true, loam_decode_tq1_0, loam_encode_tq1_0},
    [LOAM_TYPE_TQ2_0] = {"tq2_0", 256, 66, true, loam_decode_tq2_0, loam_encode_tq2_0},
    [LOAM_TYPE_MXFP4] = {"mxfp4", 32, 17, true, loam_decode_mxfp4, loam_encode_mxfp4},
    [LOAM_TYPE_NVFP4] = {"nvfp4", 64, 36, true, loam_decode_nvfp4, loam_encode_nvfp4},
    [LOAM_TYPE_Q1_0] = {"q1_0", 128, 18, true, loam_decode_q1_0, loam_encode_q1_0},
    [LOAM_TYPE_Q2_0] = {"q2_0", 64, 18, true, loam_decode_q2_0, loam_encode_q2_0},
};

const loam_type_info *loam_type_get(int type)
{
    if (type < 0 || type >= LOAM_TYPE_COUNT || type_table[type].name == NULL)
        return NULL;
    return &type_table[type];
}

const char *loam_type_name(loam_type type)
{
    const loam_type_info *info = loam_type_get(type);
    return info != NULL ? info->name : "unknown";
}

bool loam_type_from_name(const char *name, loam_type *out)
{
    for (int i = 0; i < LOAM_TYPE_COUNT; i++) {
        if (type_table[i].name != NULL && strcasecmp(type_table[i].name, name) == 0) {
            *out = (loam_type)i;
            return true;
        }
    }
    return false;
}

/* The table's entry of a type that the caller knows to exist, n being whole blocks of it. */
static const loam_type_info *checked_type(loam_type type, int64_t n)
{
    const loam_type_info *info = loam_type_get(type);
    LOAM_ASSERT(info != NULL);
    LOAM_ASSERT(n >= 0 && n % info->block_ne == 0);
    return info;
}

size_t loam_row_bytes(loam_type type, int64_t ne0)
{
    const loam_type_info *info = checked_type(type, ne0);
    return (size_t)(ne0 / info->block_ne) * info->block_bytes;
}

void loam_decode(loam_type type, const void *blocks, float *out, int64_t n)
{
    checked_type(type, n)->decode(blocks, out, n);
}

loam_status loam_encode(loam_type type, const float *in, void *blocks, int64_t n, loam_error *e)
{
    const loam_type_info *info = checked_type(type, n);
    if (info->encode == NULL)
        return loam_fail(e, LOAM_E_UNSUPPORTED,
                         "type %s has no encoder: it can be read but not written; choose another "
                         "type, such as q4_K or q8_0",
                         info->name);
    info->encode(in, blocks, n);
    return LOAM_OK;
}
