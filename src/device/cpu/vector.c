/* vector.c: loops over one row of floats. */
#include "device/cpu/vector.h"
#include "device/cpu/simd.h"

#include <math.h>

/* The last n < 16 elements, with `fill` in the lanes beyond. */
CPU_INLINE void load_tail(cpu_v16 *v, const float *x, int64_t n, float fill)
{
    float lanes[CPU_LANES];
    for (int i = 0; i < CPU_LANES; i++)
        lanes[i] = i < n ? x[i] : fill;
    memcpy(v, lanes, sizeof *v);
}

CPU_CLONES
float cpu_vector_max(const float *x, int64_t n)
{
    cpu_v16 largest[2], v;
    load_tail(&largest[0], x, n < CPU_LANES ? n : 0, -INFINITY);
    largest[1] = largest[0];
    int64_t i = n < CPU_LANES ? n : 0;
    for (; i + 2 * CPU_LANES <= n; i += 2 * CPU_LANES)
        for (int part = 0; part < 2; part++) {
            cpu_load16(&v, x + i + part * CPU_LANES);
            const cpu_i16 is_larger = v > largest[part];
            cpu_select16(&largest[part], &is_larger, &v, &largest[part]);
        }
    for (; i < n; i += CPU_LANES) {
        load_tail(&v, x + i, LOAM_MIN(n - i, CPU_LANES), -INFINITY);
        const cpu_i16 is_larger = v > largest[0];
        cpu_select16(&largest[0], &is_larger, &v, &largest[0]);
    }
    const float a = cpu_max16(&largest[0]), b = cpu_max16(&largest[1]);
    return a > b ? a : b;
}

CPU_CLONES
double cpu_vector_sum(const float *x, int64_t n)
{
    cpu_d8 sums[2] = {{0}, {0}};
    cpu_v16 v;
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES) {
        cpu_load16(&v, x + i);
        cpu_add_wide(sums, &v);
    }
    load_tail(&v, x + i, n - i, 0);
    cpu_add_wide(sums, &v);
    sums[0] += sums[1];
    return cpu_sum8(&sums[0]);
}

CPU_CLONES
double cpu_vector_dot(const float *a, const float *b, int64_t n)
{
    cpu_d8 sums[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES)
        for (int part = 0; part < 2; part++) {
            cpu_half16 u, v;
            memcpy(&u, a + i + part * 8, sizeof u);
            memcpy(&v, b + i + part * 8, sizeof v);
            sums[part] += __builtin_convertvector(u, cpu_d8) * __builtin_convertvector(v, cpu_d8);
        }
    double tail = 0;
    for (; i < n; i++)
        tail += (double)a[i] * b[i];
    sums[0] += sums[1];
    return cpu_sum8(&sums[0]) + tail;
}

CPU_CLONES
double cpu_vector_exp(float *x, int64_t n, float scale, float max)
{
    cpu_d8 sums[2] = {{0}, {0}};
    cpu_v16 v;
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES) {
        cpu_load16(&v, x + i);
        v = v * scale - max;
        cpu_exp16(&v);
        cpu_store16(x + i, &v);
        cpu_add_wide(sums, &v);
    }
    if (i < n) {
        load_tail(&v, x + i, n - i, 0);
        v = v * scale - max;
        cpu_exp16(&v);
        float lanes[CPU_LANES];
        memcpy(lanes, &v, sizeof lanes);
        memcpy(x + i, lanes, (size_t)(n - i) * sizeof *x);
        load_tail(&v, lanes, n - i, 0);
        cpu_add_wide(sums, &v);
    }
    sums[0] += sums[1];
    return cpu_sum8(&sums[0]);
}

CPU_CLONES
double cpu_vector_sum_exp(const float *x, int64_t n, float max)
{
    cpu_d8 sums[2] = {{0}, {0}};
    for (int64_t i = 0; i < n; i += CPU_LANES) {
        cpu_v16 v;
        if (i + CPU_LANES <= n)
            cpu_load16(&v, x + i);
        else
            load_tail(&v, x + i, n - i, -INFINITY);
        v = v - max;
        cpu_exp16(&v);
        cpu_add_wide(sums, &v);
    }
    sums[0] += sums[1];
    return cpu_sum8(&sums[0]);
}

CPU_CLONES
void cpu_vector_scale(float *y, const float *x, float scale, float bias, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * scale + bias;
}

CPU_CLONES
void cpu_vector_add_scaled(float *y, const float *x, float scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i] * scale;
}
