/* glu.c: SILU, GELU, SWIGLU, GEGLU and their backs, sixteen elements at a time.
 *
 * Both activations are x * s(x): SiLU with s the sigmoid of x; GELU's tanh form with s the sigmoid
 * of 2 u, u = sqrt(2/pi) (x + 0.044715 x^3), because (1 + tanh u) / 2 is that. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

#define GELU_SCALE 0.797884561F /* sqrt(2/pi) */
#define GELU_CUBE 0.044715F
#define GELU_LARGE 30.0F /* where the sigmoid has long been 0 or 1, and x^3 is still small */

/* s(x), and the slope of x * s(x). */
CPU_INLINE void activate(bool is_gelu, const cpu_v16 *at, cpu_v16 *sigmoid, cpu_v16 *slope)
{
    const cpu_v16 zero = {0}, x = *at;
    cpu_v16 inner = x, inner_slope = zero + 1.0F;
    if (is_gelu) {
        const cpu_v16 largest = zero + GELU_LARGE, least = zero - GELU_LARGE;
        const cpu_i16 is_above = x > largest, is_below = x < least;
        cpu_v16 near;
        cpu_select16(&near, &is_above, &largest, &x);
        cpu_select16(&near, &is_below, &least, &near);
        inner = 2 * GELU_SCALE * (near + GELU_CUBE * near * near * near);
        inner_slope = 2 * GELU_SCALE * (1.0F + 3 * GELU_CUBE * near * near);
    }
    cpu_v16 s = -inner;
    cpu_exp16(&s);
    s = 1.0F / (1.0F + s);
    *sigmoid = s;
    *slope = s + x * s * (1.0F - s) * inner_slope;
}

/* Sixteen elements of y = x s(x), times b where there is one. */
CPU_INLINE void forward16(bool is_gelu, float *y, const float *a, const float *b)
{
    cpu_v16 x, gate, sigmoid, slope;
    cpu_load16(&x, a);
    activate(is_gelu, &x, &sigmoid, &slope);
    x *= sigmoid;
    if (b) {
        cpu_load16(&gate, b);
        x *= gate;
    }
    cpu_store16(y, &x);
}

CPU_INLINE void forward(bool is_gelu, float *y, const float *a, const float *b, int64_t n)
{
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES)
        forward16(is_gelu, y + i, a + i, b ? b + i : NULL);
    if (i == n)
        return;
    float tail[3][CPU_LANES] = {{0}};
    const size_t bytes = (size_t)(n - i) * sizeof(float);
    memcpy(tail[0], a + i, bytes);
    if (b)
        memcpy(tail[1], b + i, bytes);
    forward16(is_gelu, tail[2], tail[0], b ? tail[1] : NULL);
    memcpy(y + i, tail[2], bytes);
}

/* Sixteen elements of da = dy b slope(a) and db = dy a s(a); without b, da = dy slope(a). */
CPU_INLINE void backward16(bool is_gelu, float *da, float *db, const float *dy, const float *a,
                           const float *b)
{
    cpu_v16 x, gate, d, sigmoid, slope;
    cpu_load16(&x, a);
    cpu_load16(&d, dy);
    activate(is_gelu, &x, &sigmoid, &slope);
    slope *= d;
    if (b) {
        cpu_load16(&gate, b);
        slope *= gate;
        x *= sigmoid * d;
        cpu_store16(db, &x);
    }
    cpu_store16(da, &slope);
}

CPU_INLINE void backward(bool is_gelu, float *da, float *db, const float *dy, const float *a,
                         const float *b, int64_t n)
{
    int64_t i = 0;
    for (; i + CPU_LANES <= n; i += CPU_LANES)
        backward16(is_gelu, da + i, db + i, dy + i, a + i, b ? b + i : NULL);
    if (i == n)
        return;
    float tail[5][CPU_LANES] = {{0}};
    const size_t bytes = (size_t)(n - i) * sizeof(float);
    memcpy(tail[0], dy + i, bytes);
    memcpy(tail[1], a + i, bytes);
    if (b)
        memcpy(tail[2], b + i, bytes);
    backward16(is_gelu, tail[3], tail[4], tail[0], tail[1], b ? tail[2] : NULL);
    memcpy(da + i, tail[3], bytes);
    if (b)
        memcpy(db + i, tail[4], bytes);
}

CPU_CLONES
static void silu_forward(float *y, const float *a, const float *b, int64_t n)
{
    forward(false, y, a, b, n);
}

CPU_CLONES
static void gelu_forward(float *y, const float *a, const float *b, int64_t n)
{
    forward(true, y, a, b, n);
}

CPU_CLONES
static void silu_backward(float *da, float *db, const float *dy, const float *a, const float *b,
                          int64_t n)
{
    backward(false, da, db, dy, a, b, n);
}

CPU_CLONES
static void gelu_backward(float *da, float *db, const float *dy, const float *a, const float *b,
                          int64_t n)
{
    backward(true, da, db, dy, a, b, n);
}

static bool is_gelu_op(loam_op op)
{
    return op == LOAM_OP_GELU || op == LOAM_OP_GELU_BACK || op == LOAM_OP_GEGLU ||
           op == LOAM_OP_GEGLU_BACK;
}

static bool is_gated(loam_op op)
{
    return op == LOAM_OP_SWIGLU || op == LOAM_OP_GEGLU || op == LOAM_OP_SWIGLU_BACK ||
           op == LOAM_OP_GEGLU_BACK;
}

static bool takes(const loam_node *n)
{
    for (int i = 0; i < n->n_src; i++)
        if (!cpu_is_f32_rows(&n->src[i]->t))
            return false;
    return cpu_is_f32_rows(&n->t);
}

/* The second operand's row: b's, or the second half of the fused a's. */
static const float *gate_row(const loam_node *n, int at, int64_t r, int64_t width)
{
    if (!is_gated(n->op))
        return NULL;
    return n->n_src > at + 1 ? (const float *)cpu_flat_row(&n->src[at + 1]->t, r)
                             : (const float *)cpu_flat_row(&n->src[at]->t, r) + width;
}

static void forward_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    int64_t width = n->t.ne[0];
    const float *a = (const float *)cpu_flat_row(&n->src[0]->t, r);
    float *y = (float *)cpu_flat_row(&n->t, r);
    if (is_gelu_op(n->op))
        gelu_forward(y, a, gate_row(n, 0, r, width), width);
    else
        silu_forward(y, a, gate_row(n, 0, r, width), width);
}

static void backward_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    int64_t width = n->src[0]->t.ne[0];
    const float *dy = (const float *)cpu_flat_row(&n->src[0]->t, r);
    const float *a = (const float *)cpu_flat_row(&n->src[1]->t, r);
    float *da = (float *)cpu_flat_row(&n->t, r);
    if (is_gelu_op(n->op))
        gelu_backward(da, da + width, dy, a, gate_row(n, 1, r, width), width);
    else
        silu_backward(da, da + width, dy, a, gate_row(n, 1, r, width), width);
}

static loam_status run_forward(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->t.ne[0], forward_row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

static loam_status run_backward(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    (void)e;
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->t.ne[0], backward_row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

void loam_cpu_add_glu(cpu_kernel *table)
{
    static const loam_op ops[] = {LOAM_OP_SILU, LOAM_OP_GELU, LOAM_OP_SWIGLU, LOAM_OP_GEGLU};
    static const loam_op backs[] = {LOAM_OP_SILU_BACK, LOAM_OP_GELU_BACK, LOAM_OP_SWIGLU_BACK,
                                    LOAM_OP_GEGLU_BACK};
    for (int i = 0; i < LOAM_COUNT(ops); i++) {
        table[ops[i]] = (cpu_kernel){.takes = takes, .run = run_forward};
        table[backs[i]] = (cpu_kernel){.takes = takes, .run = run_backward};
    }
}
