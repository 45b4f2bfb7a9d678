/* graph.c: the list of nodes, and the ways of making one. */
#include "op/op.h"

#include <string.h>

loam_status loam_graph_create(loam_type activation, loam_graph **out, loam_error *e)
{
    *out = NULL;
    loam_arena *arena = loam_arena_new();
    loam_graph *g = arena ? loam_arena_alloc(arena, sizeof *g) : NULL;
    if (!g) {
        loam_arena_free(arena);
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a graph");
    }
    g->arena = arena;
    g->activation = activation;
    g->block = -1;
    *out = g;
    return LOAM_OK;
}

void loam_graph_free(loam_graph *g)
{
    if (!g)
        return;
    loam_free(g->nodes);
    loam_arena_free(g->arena); /* g itself lives there */
}

loam_status loam_graph_status(const loam_graph *g, loam_error *e)
{
    if (g->error.status == LOAM_OK)
        return LOAM_OK;
    return loam_fail(e, g->error.status, "%s", g->error.message);
}

loam_node *loam_graph_fail(loam_graph *g, loam_status status, const char *format, ...)
{
    char message[LOAM_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    loam_fail(&g->error, status, "%s", message);
    return NULL;
}

static bool append(loam_graph *g, loam_node *n)
{
    if (g->n_nodes == g->capacity) {
        int capacity = g->capacity ? 2 * g->capacity : 256;
        loam_node **nodes = loam_realloc(g->nodes, (size_t)capacity * sizeof *nodes);
        if (!nodes)
            return false;
        g->nodes = nodes;
        g->capacity = capacity;
    }
    n->index = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
    return true;
}

loam_node *loam_node_new(loam_graph *g, loam_op op, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                         int n_src, loam_node *const *src)
{
    LOAM_ASSERT(n_src <= LOAM_MAX_SRC);
    loam_node *n = loam_arena_alloc(g->arena, sizeof *n);
    if (!n || !append(g, n))
        return loam_graph_fail(g, LOAM_E_MEMORY, "no memory for node %d of a graph", g->n_nodes);
    n->op = op;
    n->t.type = type;
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        n->t.ne[d] = ne[d];
    loam_dense_strides(type, ne, n->t.nb);
    n->n_src = n_src;
    for (int i = 0; i < n_src; i++) {
        n->src[i] = src[i];
        if (src[i] && src[i]->needs_grad)
            n->needs_grad = true;
    }
    n->block = g->block;
    n->device = -1;
    return n;
}

loam_node *loam_node_view(loam_graph *g, loam_op op, loam_node *of, loam_type type,
                          const int64_t ne[LOAM_MAX_DIMS], const size_t nb[LOAM_MAX_DIMS],
                          size_t offset_bytes, int n_src, loam_node *const *src)
{
    loam_node *n = loam_node_new(g, op, type, ne, n_src, src);
    if (!n)
        return NULL;
    memcpy(n->t.nb, nb, sizeof n->t.nb);
    n->view_of = of->view_of ? of->view_of : of;
    n->view_offset_bytes = (of->view_of ? of->view_offset_bytes : 0) + offset_bytes;
    return n;
}

loam_node *loam_node_aux(loam_graph *g, loam_node *owner, const int64_t ne[LOAM_MAX_DIMS])
{
    loam_type type = g->activation == LOAM_TYPE_F64 ? LOAM_TYPE_F64 : LOAM_TYPE_F32;
    loam_node *n = loam_node_new(g, LOAM_OP_AUX, type, ne, 1, (loam_node *[]){owner});
    if (!n)
        return NULL;
    n->needs_grad = false; /* a by-product: no loss depends on it */
    n->owner = owner;
    owner->aux = n;
    return n;
}

loam_node *loam_leaf(loam_graph *g, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                     const char *name)
{
    const loam_type_info *info = loam_type_get(type);
    if (!info || ne[0] % info->block_ne != 0)
        return loam_graph_fail(g, LOAM_E_FORMAT,
                               "leaf '%s': rows of %lld elements are no whole blocks of %s", name,
                               (long long)ne[0], info ? info->name : "an unknown type");
    loam_node *n = loam_node_new(g, LOAM_OP_NONE, type, ne, 0, NULL);
    if (n)
        loam_set_name(n, "%s", name);
    return n;
}

loam_node *loam_leaf_1d(loam_graph *g, loam_type type, int64_t ne0, const char *name)
{
    return loam_leaf(g, type, (int64_t[]){ne0, 1, 1, 1}, name);
}

loam_node *loam_leaf_2d(loam_graph *g, loam_type type, int64_t ne0, int64_t ne1, const char *name)
{
    return loam_leaf(g, type, (int64_t[]){ne0, ne1, 1, 1}, name);
}

void loam_set_param(loam_node *n)
{
    if (n)
        n->is_param = n->needs_grad = true;
}

void loam_set_input(loam_node *n)
{
    if (n)
        n->is_input = true;
}

void loam_set_output(loam_node *n)
{
    if (n)
        n->is_output = true;
}

void loam_set_name(loam_node *n, const char *format, ...)
{
    if (!n)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(n->name, sizeof n->name, format, args);
    va_end(args);
}

void loam_grad_add(loam_graph *g, loam_node *n, loam_node *d)
{
    if (!n || !d || !n->needs_grad)
        return;
    n->grad = n->grad ? loam_add(g, n->grad, d) : d;
}
