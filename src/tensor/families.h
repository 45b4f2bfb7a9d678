/* families.h: the decoders and encoders behind the type table; only types.c and the files that
 * define them include it. All of them take whole blocks (see loam_type_info). */
#ifndef LOAM_TENSOR_FAMILIES_H
#define LOAM_TENSOR_FAMILIES_H

#include "tensor/tensor.h"

/* simple.c */
void loam_decode_f32(const void *blocks, float *out, int64_t n);
void loam_decode_f16(const void *blocks, float *out, int64_t n);
void loam_decode_bf16(const void *blocks, float *out, int64_t n);
void loam_decode_f64(const void *blocks, float *out, int64_t n);
void loam_decode_i8(const void *blocks, float *out, int64_t n);
void loam_decode_i16(const void *blocks, float *out, int64_t n);
void loam_decode_i32(const void *blocks, float *out, int64_t n);
void loam_decode_i64(const void *blocks, float *out, int64_t n);
void loam_encode_f32(const float *in, void *blocks, int64_t n);
void loam_encode_f16(const float *in, void *blocks, int64_t n);
void loam_encode_bf16(const float *in, void *blocks, int64_t n);
void loam_encode_f64(const float *in, void *blocks, int64_t n);
void loam_encode_i8(const float *in, void *blocks, int64_t n);
void loam_encode_i16(const float *in, void *blocks, int64_t n);
void loam_encode_i32(const float *in, void *blocks, int64_t n);
void loam_encode_i64(const float *in, void *blocks, int64_t n);

/* legacy.c */
void loam_decode_q4_0(const void *blocks, float *out, int64_t n);
void loam_decode_q4_1(const void *blocks, float *out, int64_t n);
void loam_decode_q5_0(const void *blocks, float *out, int64_t n);
void loam_decode_q5_1(const void *blocks, float *out, int64_t n);
void loam_decode_q8_0(const void *blocks, float *out, int64_t n);
void loam_decode_q8_1(const void *blocks, float *out, int64_t n);
void loam_encode_q4_0(const float *in, void *blocks, int64_t n);
void loam_encode_q4_1(const float *in, void *blocks, int64_t n);
void loam_encode_q5_0(const float *in, void *blocks, int64_t n);
void loam_encode_q5_1(const float *in, void *blocks, int64_t n);
void loam_encode_q8_0(const float *in, void *blocks, int64_t n);
void loam_encode_q8_1(const float *in, void *blocks, int64_t n);

/* kquant.c */
void loam_decode_q2_k(const void *blocks, float *out, int64_t n);
void loam_decode_q3_k(const void *blocks, float *out, int64_t n);
void loam_decode_q4_k(const void *blocks, float *out, int64_t n);
void loam_decode_q5_k(const void *blocks, float *out, int64_t n);
void loam_decode_q6_k(const void *blocks, float *out, int64_t n);
void loam_decode_q8_k(const void *blocks, float *out, int64_t n);

/* kquant_encode.c */
void loam_encode_q2_k(const float *in, void *blocks, int64_t n);
void loam_encode_q3_k(const float *in, void *blocks, int64_t n);
void loam_encode_q4_k(const float *in, void *blocks, int64_t n);
void loam_encode_q5_k(const float *in, void *blocks, int64_t n);
void loam_encode_q6_k(const float *in, void *blocks, int64_t n);
void loam_encode_q8_k(const float *in, void *blocks, int64_t n);
void loam_encode_iq4_xs(const float *in, void *blocks, int64_t n);

/* iquant.c */
void loam_decode_iq1_s(const void *blocks, float *out, int64_t n);
void loam_decode_iq1_m(const void *blocks, float *out, int64_t n);
void loam_decode_iq2_xxs(const void *blocks, float *out, int64_t n);
void loam_decode_iq2_xs(const void *blocks, float *out, int64_t n);
void loam_decode_iq2_s(const void *blocks, float *out, int64_t n);
void loam_decode_iq3_xxs(const void *blocks, float *out, int64_t n);
void loam_decode_iq3_s(const void *blocks, float *out, int64_t n);
void loam_decode_iq4_nl(const void *blocks, float *out, int64_t n);
void loam_decode_iq4_xs(const void *blocks, float *out, int64_t n);
void loam_encode_iq4_nl(const float *in, void *blocks, int64_t n);

/* lowbit.c */
void loam_decode_q1_0(const void *blocks, float *out, int64_t n);
void loam_decode_q2_0(const void *blocks, float *out, int64_t n);
void loam_decode_tq1_0(const void *blocks, float *out, int64_t n);
void loam_decode_tq2_0(const void *blocks, float *out, int64_t n);
void loam_encode_q1_0(const float *in, void *blocks, int64_t n);
void loam_encode_q2_0(const float *in, void *blocks, int64_t n);
void loam_encode_tq1_0(const float *in, void *blocks, int64_t n);
void loam_encode_tq2_0(const float *in, void *blocks, int64_t n);

/* fp4.c */
void loam_decode_mxfp4(const void *blocks, float *out, int64_t n);
void loam_decode_nvfp4(const void *blocks, float *out, int64_t n);
void loam_encode_mxfp4(const float *in, void *blocks, int64_t n);
void loam_encode_nvfp4(const float *in, void *blocks, int64_t n);

#endif /* LOAM_TENSOR_FAMILIES_H */
