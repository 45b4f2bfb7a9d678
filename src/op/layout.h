/* layout.h: rows of a tensor by number, and the layouts that parity cases give their operands;
 * private to src/op. */
#ifndef LOAM_OP_LAYOUT_H
#define LOAM_OP_LAYOUT_H

#include "op/op.h"

/* Row number r of loam_tensor_rows(t), in the order of a dense tensor. */
typedef struct loam_row {
    int64_t i1, i2, i3;
} loam_row;

static inline loam_row loam_row_at(const loam_tensor *t, int64_t r)
{
    return (loam_row){
        .i1 = r % t->ne[1], .i2 = r / t->ne[1] % t->ne[2], .i3 = r / t->ne[1] / t->ne[2]};
}

static inline double loam_get_at(const loam_tensor *t, int64_t i0, loam_row r)
{
    return loam_get(t, i0, r.i1, r.i2, r.i3);
}

static inline void loam_set_at(const loam_tensor *t, int64_t i0, loam_row r, double value)
{
    loam_set(t, i0, r.i1, r.i2, r.i3, value);
}

/* The row of b that meets row r of the tensor over which b repeats. */
static inline loam_row loam_row_repeated(const loam_tensor *b, loam_row r)
{
    return (loam_row){.i1 = r.i1 % b->ne[1], .i2 = r.i2 % b->ne[2], .i3 = r.i3 % b->ne[3]};
}

/* No two elements of ne with strides nb, each of element_bytes, share a byte. Sufficient, not
 * necessary: the strides must nest. */
bool loam_strides_are_disjoint(const int64_t ne[LOAM_MAX_DIMS], const size_t nb[LOAM_MAX_DIMS],
                               size_t element_bytes);

/* ---- layouts of cases --------------------------------------------------------------------- */

typedef enum loam_layout {
    LOAM_LAYOUT_DENSE,
    LOAM_LAYOUT_TRANSPOSED, /* dimension 1 is the one that is dense in memory */
    LOAM_LAYOUT_PERMUTED,   /* dimensions 1 and 2 lie the other way round; rows are contiguous */
    LOAM_LAYOUT_STRIDED,    /* a piece from the middle of a larger leaf, with gaps on each axis */
    LOAM_LAYOUT_COUNT
} loam_layout;

const char *loam_layout_name(loam_layout layout);

/* A case's operand of shape ne in a layout: loam_case_input and a view of it. */
loam_node *loam_case_laid_out(loam_graph *g, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                              loam_layout layout, loam_fill fill, double a, double b, bool grad);

#endif /* LOAM_OP_LAYOUT_H */
