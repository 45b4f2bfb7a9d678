/* cpu_support.h: runs graphs on the CPU device and on the references, for the tests of the CPU. */
#ifndef LOAM_TESTS_CPU_SUPPORT_H
#define LOAM_TESTS_CPU_SUPPORT_H

#include "device/device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_STORES 256

/* A graph whose nodes own plain memory. Leaves keep their contents over runs; stores that nodes
 * write are restored before each run, so that nodes that work in place can run again. */
typedef struct bench {
    loam_graph *g;
    loam_rng rng;
    struct {
        void *data, *before;
        size_t bytes;
    } stores[MAX_STORES];
    int n_stores;
} bench;

static inline bench bench_open(const char *stream)
{
    bench b = {.rng = loam_rng_stream(11, stream)};
    assert_int_equal(loam_graph_create(LOAM_TYPE_F32, &b.g, NULL), LOAM_OK);
    return b;
}

static inline void bench_close(bench *b)
{
    for (int i = 0; i < b->n_stores; i++) {
        loam_free(b->stores[i].data);
        loam_free(b->stores[i].before);
    }
    loam_graph_free(b->g);
}

/* ---- fills -------------------------------------------------------------------------------- */

static inline void set_flat(const loam_node *n, int64_t i, double value)
{
    const int64_t *ne = n->t.ne;
    loam_set(&n->t, i % ne[0], i / ne[0] % ne[1], i / ne[0] / ne[1] % ne[2],
             i / ne[0] / ne[1] / ne[2], value);
}

static inline void fill_rows(const loam_node *n, loam_fill fill, double a, double b, loam_rng *r)
{
    int64_t width = n->t.ne[0];
    for (int64_t row = 0; row < loam_tensor_rows(&n->t); row++) {
        bool is_empty = loam_rng_uniform(r) < (fill == LOAM_FILL_MASK ? b : a);
        int64_t hot = (int64_t)loam_rng_below(r, (uint64_t)width);
        double sum = 0;
        for (int64_t i = 0; i < width; i++) {
            double v = loam_rng_uniform(r);
            if (fill == LOAM_FILL_MASK)
                v = is_empty || v < a ? -INFINITY : 0;
            else if (fill == LOAM_FILL_HUGE_ONE)
                v = i == hot ? a : loam_rng_normal(r);
            else if (fill == LOAM_FILL_ONE_HOT)
                v = i == hot && !is_empty;
            else
                v = is_empty ? 0 : v;
            sum += v;
            set_flat(n, row * width + i, v);
        }
        for (int64_t i = 0; fill == LOAM_FILL_SOFT && !is_empty && i < width; i++)
            set_flat(n, row * width + i,
                     loam_get(&n->t, i, row % n->t.ne[1], row / n->t.ne[1] % n->t.ne[2],
                              row / n->t.ne[1] / n->t.ne[2]) /
                         sum);
    }
}

static inline void fill_special(const loam_node *n, loam_fill fill, double a, double b, loam_rng *r)
{
    int64_t count = loam_tensor_ne(&n->t);
    if (fill == LOAM_FILL_PERMUTATION) {
        int64_t *order = loam_alloc((size_t)count * sizeof *order);
        for (int64_t i = 0; i < count; i++) {
            int64_t j = (int64_t)loam_rng_below(r, (uint64_t)i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        for (int64_t i = 0; i < count; i++)
            set_flat(n, i, (double)order[i]);
        loam_free(order);
        return;
    }
    double hyper[7] = {b, 0.9, 0.999, 1e-8, 0.01, 1 / (1 - pow(0.9, a)), 1 / (1 - pow(0.999, a))};
    for (int64_t i = 0; i < count; i++) {
        int64_t t = i / 2, begin = t / (int64_t)LOAM_MAX(a, 1) * (int64_t)LOAM_MAX(a, 1);
        if (fill == LOAM_FILL_RANGES && b > 0)
            begin = LOAM_MAX(begin, t + 1 - (int64_t)b);
        double value = fill == LOAM_FILL_RANGES  ? (double)(i % 2 ? t + 1 : begin)
                       : fill == LOAM_FILL_ADAMW ? hyper[i]
                                                 : (i % 2 ? b : a);
        set_flat(n, i, value);
    }
}

static inline void fill_leaf(bench *b, const loam_node *n)
{
    loam_fill fill = LOAM_FILL_NORMAL;
    double lo = 1, hi = 0;
    loam_case_fill_of(b->g, n, &fill, &lo, &hi);
    int64_t count = loam_tensor_ne(&n->t);
    const loam_type_info *type = loam_type_get((int)n->t.type);
    if (type->is_quantized) {
        assert_int_equal(loam_random_fill(n->t.type, &b->rng, (float)lo, n->t.data, count, NULL),
                         LOAM_OK);
        return;
    }
    switch (fill) {
    case LOAM_FILL_NORMAL:
    case LOAM_FILL_UNIFORM:
    case LOAM_FILL_IDS:
    case LOAM_FILL_CONSTANT:
        for (int64_t i = 0; i < count; i++)
            set_flat(n, i,
                     fill == LOAM_FILL_NORMAL    ? loam_rng_normal(&b->rng) * lo + hi
                     : fill == LOAM_FILL_UNIFORM ? lo + (hi - lo) * loam_rng_uniform(&b->rng)
                     : fill == LOAM_FILL_IDS
                         ? lo + (double)loam_rng_below(&b->rng, (uint64_t)(hi - lo))
                         : lo);
        return;
    case LOAM_FILL_ONE_HOT:
    case LOAM_FILL_SOFT:
    case LOAM_FILL_HUGE_ONE:
    case LOAM_FILL_MASK:
        fill_rows(n, fill, lo, hi, &b->rng);
        return;
    default:
        fill_special(n, fill, lo, hi, &b->rng);
    }
}

/* ---- storage and runs --------------------------------------------------------------------- */

/* Gives every root node memory, fills the leaves, and notes what the memory holds. */
static inline void bench_bind(bench *b)
{
    for (int i = 0; i < b->g->n_nodes; i++) {
        loam_node *n = b->g->nodes[i];
        if (n->view_of) {
            n->t.data = (char *)n->view_of->t.data + n->view_offset_bytes;
            continue;
        }
        if (n->t.data)
            continue;
        assert_true(b->n_stores < MAX_STORES);
        size_t bytes = loam_tensor_bytes(&n->t);
        n->t.data = loam_alloc(bytes);
        void *before = loam_alloc(bytes);
        assert_true(n->t.data && before);
        if (n->op == LOAM_OP_NONE)
            fill_leaf(b, n);
        else
            memset(n->t.data, 0xFF, bytes); /* NaN, so that what is not written shows */
        memcpy(before, n->t.data, bytes);
        b->stores[b->n_stores].data = n->t.data;
        b->stores[b->n_stores].before = before;
        b->stores[b->n_stores++].bytes = bytes;
    }
}

static inline void bench_restore(bench *b)
{
    for (int i = 0; i < b->n_stores; i++)
        memcpy(b->stores[i].data, b->stores[i].before, b->stores[i].bytes);
}

/* Elements of n as doubles, dense; free it. */
static inline double *doubles_of(const loam_node *n)
{
    double *out = loam_alloc((size_t)loam_tensor_ne(&n->t) * sizeof *out);
    assert_non_null(out);
    for (int64_t r = 0; r < loam_tensor_rows(&n->t); r++)
        loam_get_row(&n->t, r % n->t.ne[1], r / n->t.ne[1] % n->t.ne[2],
                     r / n->t.ne[1] / n->t.ne[2], out + r * n->t.ne[0]);
    return out;
}

static inline double *run_references(bench *b, const loam_node *result)
{
    bench_restore(b);
    for (int i = 0; i < b->g->n_nodes; i++) {
        const loam_op_def *def = loam_op_get(b->g->nodes[i]->op);
        if (!def->is_view)
            assert_int_equal(def->reference(b->g->nodes[i], NULL), LOAM_OK);
    }
    return doubles_of(result);
}

static inline double *run_device(bench *b, loam_device *d, const loam_node *result)
{
    bench_restore(b);
    size_t bytes = 0;
    for (int i = 0; i < b->g->n_nodes; i++)
        bytes = LOAM_MAX(bytes, d->api->scratch_bytes(d, b->g->nodes[i]));
    loam_buffer *scratch = NULL;
    loam_error e = {0};
    assert_int_equal(d->api->buffer_alloc(d, bytes, &scratch, &e), LOAM_OK);
    memset(scratch->host, 0xFF, bytes);
    loam_status status = d->api->run(d, b->g->nodes, b->g->n_nodes, scratch, &e);
    d->api->buffer_free(scratch);
    if (status != LOAM_OK)
        print_error("%s\n", e.message);
    assert_int_equal(status, LOAM_OK);
    return doubles_of(result);
}

/* Normalized mean squared error; 0 where both are 0, infinity where one is no number. Equal
 * infinities are equal. */
static inline double nmse(const double *x, const double *reference, int64_t n)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] == reference[i] && isinf(x[i]))
            continue;
        error += (x[i] - reference[i]) * (x[i] - reference[i]);
        size += reference[i] * reference[i];
    }
    if (isnan(error) || isnan(size))
        return INFINITY;
    return error == 0 ? 0 : error / (size == 0 ? 1 : size);
}

static inline loam_device *open_cpu(int n_threads, loam_compute compute)
{
    loam_device *d = NULL;
    loam_error e = {0};
    loam_status status = loam_device_cpu_open(
        &(loam_device_options){.n_threads = n_threads, .compute = compute}, &d, &e);
    if (status != LOAM_OK)
        print_error("%s\n", e.message);
    assert_int_equal(status, LOAM_OK);
    return d;
}

#endif /* LOAM_TESTS_CPU_SUPPORT_H */
