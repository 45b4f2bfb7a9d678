/* vector.h: loops over one row of floats, compiled for each generation of the processor. Sums are
 * double; none of the pointers needs alignment; n may be 0 where nothing else is said. */
#ifndef LOAM_CPU_VECTOR_H
#define LOAM_CPU_VECTOR_H

#include "core/core.h"

float cpu_vector_max(const float *x, int64_t n);                    /* -infinity for n = 0 */
double cpu_vector_sum(const float *x, int64_t n);                   /* sum of x */
double cpu_vector_dot(const float *a, const float *b, int64_t n);   /* sum of a * b, in double */
double cpu_vector_exp(float *x, int64_t n, float scale, float max); /* x = e^(x * scale - max);
                                                                       returns the new x's sum */
double cpu_vector_sum_exp(const float *x, int64_t n, float max);    /* sum of e^(x - max) */
void cpu_vector_scale(float *y, const float *x, float scale, float bias, int64_t n);
void cpu_vector_add_scaled(float *y, const float *x, float scale, int64_t n); /* y += scale x */

#endif /* LOAM_CPU_VECTOR_H */
