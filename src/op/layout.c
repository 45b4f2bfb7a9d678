/* layout.c: the layouts that parity cases give their operands. */
#include "op/layout.h"

bool loam_strides_are_disjoint(const int64_t ne[LOAM_MAX_DIMS], const size_t nb[LOAM_MAX_DIMS],
                               size_t element_bytes)
{
    bool used[LOAM_MAX_DIMS] = {false};
    size_t span = element_bytes; /* of the dimensions looked at so far */
    for (int step = 0; step < LOAM_MAX_DIMS; step++) {
        int smallest = -1;
        for (int d = 0; d < LOAM_MAX_DIMS; d++)
            if (!used[d] && ne[d] > 1 && (smallest < 0 || nb[d] < nb[smallest]))
                smallest = d;
        if (smallest < 0)
            return true;
        if (nb[smallest] < span)
            return false;
        used[smallest] = true;
        span += nb[smallest] * (size_t)(ne[smallest] - 1);
    }
    return true;
}

const char *loam_layout_name(loam_layout layout)
{
    static const char *const names[] = {"dense", "transposed", "permuted", "strided"};
    return names[layout];
}

static loam_node *strided(loam_graph *g, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                          loam_fill fill, double a, double b, bool grad)
{
    const int64_t larger[] = {ne[0] + 3, ne[1] + 2, ne[2] + 1, ne[3]};
    loam_node *leaf = loam_case_input(g, type, larger, fill, a, b, grad);
    if (!leaf)
        return NULL;
    const size_t *nb = leaf->t.nb;
    return loam_view(g, leaf, ne, nb, 2 * nb[0] + nb[1] + nb[2]);
}

loam_node *loam_case_laid_out(loam_graph *g, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                              loam_layout layout, loam_fill fill, double a, double b, bool grad)
{
    switch (layout) {
    case LOAM_LAYOUT_TRANSPOSED: {
        const int64_t stored[] = {ne[1], ne[0], ne[2], ne[3]};
        return loam_transpose(g, loam_case_input(g, type, stored, fill, a, b, grad));
    }
    case LOAM_LAYOUT_PERMUTED: {
        const int64_t stored[] = {ne[0], ne[2], ne[1], ne[3]};
        return loam_permute(g, loam_case_input(g, type, stored, fill, a, b, grad), 0, 2, 1, 3);
    }
    case LOAM_LAYOUT_STRIDED:
        return strided(g, type, ne, fill, a, b, grad);
    default:
        return loam_case_input(g, type, ne, fill, a, b, grad);
    }
}
