/* case.c: lists of parity cases, and the inputs that a case declares. */
#include "op/op.h"

#include <string.h>

loam_case *loam_case_add(loam_case_list *list, loam_op op, loam_type type,
                         loam_node *(*build)(loam_graph *, const loam_case *), const char *format,
                         ...)
{
    if (list->n == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64;
        loam_case *cases = loam_realloc(list->cases, (size_t)capacity * sizeof *cases);
        if (!cases) {
            list->failed = true;
            return &list->spare;
        }
        list->cases = cases;
        list->capacity = capacity;
    }
    loam_case *c = &list->cases[list->n++];
    memset(c, 0, sizeof *c);
    c->op = op;
    c->type = type;
    c->build = build;
    c->bar = LOAM_BAR_ELEMENTWISE;
    va_list args;
    va_start(args, format);
    vsnprintf(c->label, sizeof c->label, format, args);
    va_end(args);
    return c;
}

loam_node *loam_case_input(loam_graph *g, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                           loam_fill fill, double a, double b, bool grad)
{
    loam_type wide = type == LOAM_TYPE_F32 ? g->activation : type;
    loam_node *n = loam_leaf(g, wide, ne, "input");
    loam_case_fill *f = n ? loam_arena_alloc(g->arena, sizeof *f) : NULL;
    if (!f)
        return loam_graph_fail(g, LOAM_E_MEMORY, "no memory for a case's input");
    *f = (loam_case_fill){.next = g->fills, .node = n, .fill = fill, .a = a, .b = b};
    g->fills = f;
    loam_set_input(n);
    if (grad)
        loam_set_param(n);
    return n;
}

bool loam_case_fill_of(const loam_graph *g, const loam_node *n, loam_fill *fill, double *a,
                       double *b)
{
    for (const loam_case_fill *f = g->fills; f; f = f->next)
        if (f->node == n) {
            *fill = f->fill;
            *a = f->a;
            *b = f->b;
            return true;
        }
    return false;
}
