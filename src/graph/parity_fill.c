/* parity_fill.c: values for the inputs of parity cases. Every leaf has a random stream of its own,
 * named by op, label and leaf, so that a case's inputs do not depend on which cases ran before. */
#include "graph/parity.h"

#include <math.h>
#include <string.h>

typedef struct filler {
    const loam_tensor *t; /* dense */
    loam_rng rng;
    double a, b;
} filler;

static void set(const filler *f, int64_t i0, int64_t row, double value)
{
    const int64_t *ne = f->t->ne;
    loam_set(f->t, i0, row % ne[1], row / ne[1] % ne[2], row / ne[1] / ne[2], value);
}

/* ---- one row ------------------------------------------------------------------------------ */

static void normal_row(filler *f, int64_t row)
{
    for (int64_t i = 0; i < f->t->ne[0]; i++)
        set(f, i, row, loam_rng_normal(&f->rng) * f->a + f->b);
}

static void uniform_row(filler *f, int64_t row)
{
    for (int64_t i = 0; i < f->t->ne[0]; i++)
        set(f, i, row, f->a + loam_rng_uniform(&f->rng) * (f->b - f->a));
}

static void ids_row(filler *f, int64_t row)
{
    for (int64_t i = 0; i < f->t->ne[0]; i++)
        set(f, i, row, f->a + (double)loam_rng_below(&f->rng, (uint64_t)(f->b - f->a)));
}

static void constant_row(filler *f, int64_t row)
{
    for (int64_t i = 0; i < f->t->ne[0]; i++)
        set(f, i, row, f->a);
}

static void one_hot_row(filler *f, int64_t row)
{
    bool is_zero = loam_rng_uniform(&f->rng) < f->a;
    int64_t hot = (int64_t)loam_rng_below(&f->rng, (uint64_t)f->t->ne[0]);
    for (int64_t i = 0; i < f->t->ne[0]; i++)
        set(f, i, row, i == hot && !is_zero ? 1 : 0);
}

/* Positive weights over their sum, drawn twice from the same state instead of kept. */
static void soft_row(filler *f, int64_t row)
{
    bool is_zero = loam_rng_uniform(&f->rng) < f->a;
    const loam_rng start = f->rng;
    double sum = 0;
    for (int64_t i = 0; i < f->t->ne[0]; i++)
        sum += exp(2 * loam_rng_normal(&f->rng));
    f->rng = start;
    for (int64_t i = 0; i < f->t->ne[0]; i++) {
        double weight = exp(2 * loam_rng_normal(&f->rng)) / sum;
        set(f, i, row, is_zero ? 0 : weight);
    }
}

static void huge_one_row(filler *f, int64_t row)
{
    int64_t huge = (int64_t)loam_rng_below(&f->rng, (uint64_t)f->t->ne[0]);
    for (int64_t i = 0; i < f->t->ne[0]; i++) {
        double value = loam_rng_normal(&f->rng);
        set(f, i, row, i == huge ? copysign(f->a, value) : value);
    }
}

static void mask_row(filler *f, int64_t row)
{
    bool is_whole = loam_rng_uniform(&f->rng) < f->b;
    for (int64_t i = 0; i < f->t->ne[0]; i++)
        set(f, i, row, is_whole || loam_rng_uniform(&f->rng) < f->a ? -INFINITY : 0);
}

/* Row t is [begin, end): from the start of t's sequence, or of its window, to t itself. */
static void ranges_row(filler *f, int64_t row)
{
    double length = f->a, t = (double)row;
    double begin = floor(t / length) * length;
    if (f->b > 0)
        begin = fmax(begin, t + 1 - f->b);
    set(f, 0, row, begin);
    set(f, 1, row, t + 1);
}

static void same_range_row(filler *f, int64_t row)
{
    set(f, 0, row, f->a);
    set(f, 1, row, f->b);
}

static void adamw_row(filler *f, int64_t row)
{
    const double beta1 = 0.9, beta2 = 0.999;
    const double values[] = {
        f->b, beta1, beta2, 1e-8, 0.01, 1 / (1 - pow(beta1, f->a)), 1 / (1 - pow(beta2, f->a))};
    for (int i = 0; i < LOAM_COUNT(values); i++)
        set(f, i, row, values[i]);
}

/* ---- whole leaves ------------------------------------------------------------------------- */

/* 0 .. n-1 in random order (Fisher and Yates), over the rows one after the other. */
static void fill_permutation(filler *f)
{
    const int64_t n = loam_tensor_ne(f->t), width = f->t->ne[0];
    for (int64_t i = 0; i < n; i++)
        set(f, i % width, i / width, (double)i);
    loam_tensor flat = *f->t;
    flat.ne[0] = n;
    flat.ne[1] = flat.ne[2] = flat.ne[3] = 1;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t other = (int64_t)loam_rng_below(&f->rng, (uint64_t)i + 1);
        double mine = loam_get(&flat, i, 0, 0, 0);
        loam_set(&flat, i, 0, 0, 0, loam_get(&flat, other, 0, 0, 0));
        loam_set(&flat, other, 0, 0, 0, mine);
    }
}

/* Encoding is slow, so a large leaf repeats its first blocks. Their number is a prime: neither rows
 * nor the pieces in which a device decodes them fall on the same place of the period. */
#define PERIOD_BLOCKS 8191

static loam_status fill_blocks(filler *f, loam_error *e)
{
    const loam_type_info *type = loam_type_get((int)f->t->type);
    int64_t n_blocks = loam_tensor_ne(f->t) / type->block_ne;
    int64_t n_fresh = LOAM_MIN(n_blocks, PERIOD_BLOCKS);
    uint8_t *blocks = f->t->data;
    LOAM_TRY(
        loam_random_fill(f->t->type, &f->rng, (float)f->a, blocks, n_fresh * type->block_ne, e));
    for (int64_t b = n_fresh; b < n_blocks; b++)
        memcpy(blocks + (size_t)b * type->block_bytes,
               blocks + (size_t)(b % PERIOD_BLOCKS) * type->block_bytes, type->block_bytes);
    return LOAM_OK;
}

static void fill_rows(filler *f, void (*fill_row)(filler *, int64_t))
{
    for (int64_t row = 0; row < loam_tensor_rows(f->t); row++)
        fill_row(f, row);
}

loam_status parity_fill_leaf(const loam_graph *g, const loam_node *leaf, const loam_tensor *t,
                             uint64_t seed, const char *stream, loam_error *e)
{
    static void (*const rows[])(filler *, int64_t) = {
        [LOAM_FILL_NORMAL] = normal_row,     [LOAM_FILL_UNIFORM] = uniform_row,
        [LOAM_FILL_IDS] = ids_row,           [LOAM_FILL_CONSTANT] = constant_row,
        [LOAM_FILL_ONE_HOT] = one_hot_row,   [LOAM_FILL_SOFT] = soft_row,
        [LOAM_FILL_HUGE_ONE] = huge_one_row, [LOAM_FILL_MASK] = mask_row,
        [LOAM_FILL_RANGES] = ranges_row,     [LOAM_FILL_SAME_RANGE] = same_range_row,
        [LOAM_FILL_ADAMW] = adamw_row};
    loam_fill fill;
    filler f = {.t = t, .rng = loam_rng_stream(seed, stream)};
    if (!loam_case_fill_of(g, leaf, &fill, &f.a, &f.b))
        return loam_fail(e, LOAM_E_USAGE,
                         "leaf '%s' of a parity case was not made by loam_case_input, so nothing "
                         "says how to fill it",
                         leaf->name);
    if (loam_type_get((int)t->type)->is_quantized) {
        if (fill != LOAM_FILL_NORMAL || f.b != 0)
            return loam_fail(e, LOAM_E_USAGE, "a %s leaf is filled with normals only",
                             loam_type_name(t->type));
        return fill_blocks(&f, e);
    }
    if (fill == LOAM_FILL_PERMUTATION)
        fill_permutation(&f);
    else
        fill_rows(&f, rows[fill]);
    return LOAM_OK;
}

void parity_copy(const loam_tensor *from, const loam_tensor *to)
{
    if (from->type == to->type) {
        memcpy(to->data, from->data, loam_tensor_bytes(from));
        return;
    }
    for (int64_t i3 = 0; i3 < from->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < from->ne[2]; i2++)
            for (int64_t i1 = 0; i1 < from->ne[1]; i1++)
                for (int64_t i0 = 0; i0 < from->ne[0]; i0++)
                    loam_set(to, i0, i1, i2, i3, loam_get(from, i0, i1, i2, i3));
}
