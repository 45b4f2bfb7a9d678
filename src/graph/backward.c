/* backward.c: the reverse walk. Each op's own file says what its gradient is; this file only
 * visits the nodes, last to first, and, with checkpointing, lets a block be computed again just
 * before its gradient is. */
#include "graph/graph.h"

#include <string.h>

typedef struct walk {
    loam_graph *g;
    int n_forward;      /* nodes before the walk; those it adds come after */
    bool *below;        /* the loss depends on the node, and the node on a parameter */
    loam_node **copies; /* of a node computed again, else NULL */
} walk;

/* Marks what lies between the loss and the parameters, and refuses an op without a backward. */
static loam_status mark_below(walk *w, const loam_node *loss, loam_error *e)
{
    w->below[loss->index] = true;
    for (int i = loss->index; i >= 0; i--) {
        const loam_node *n = w->g->nodes[i];
        if (!w->below[i])
            continue;
        if (n->op != LOAM_OP_NONE && !loam_op_get(n->op)->backward) {
            char where[32] = "outside the blocks";
            if (n->block >= 0)
                snprintf(where, sizeof where, "in block %d", n->block);
            return loam_fail(e, LOAM_E_UNSUPPORTED,
                             "%s (node '%s', %s) has no backward, so nothing below it can be "
                             "trained: choose other --target-modules or another model",
                             loam_op_get(n->op)->name, n->name, where);
        }
        for (int s = 0; s < n->n_src; s++)
            if (n->src[s] && n->src[s]->needs_grad)
                w->below[n->src[s]->index] = true;
    }
    return LOAM_OK;
}

static loam_node *copy_of(const walk *w, loam_node *n)
{
    return n && n->index < w->n_forward && w->copies[n->index] ? w->copies[n->index] : n;
}

/* Makes node i once more, reading copies of its sources where those were made again too. */
static bool copy_node(walk *w, int i)
{
    const loam_node *n = w->g->nodes[i];
    if (n->op == LOAM_OP_NONE)
        return true;
    loam_node *src[LOAM_MAX_SRC];
    for (int s = 0; s < n->n_src; s++)
        src[s] = copy_of(w, n->src[s]);
    loam_node *copy = loam_node_new(w->g, n->op, n->t.type, n->t.ne, n->n_src, src);
    if (!copy)
        return false;
    memcpy(copy->t.nb, n->t.nb, sizeof copy->t.nb);
    memcpy(copy->name, n->name, sizeof copy->name);
    copy->params = n->params;
    copy->view_of = copy_of(w, n->view_of);
    copy->view_offset_bytes = n->view_offset_bytes;
    copy->needs_grad = n->needs_grad;
    copy->block = n->block;
    copy->grad = n->grad; /* what later blocks have added so far */
    if (n->owner) {
        copy->owner = copy_of(w, n->owner);
        copy->owner->aux = copy;
    }
    w->copies[i] = copy;
    return true;
}

/* The run of nodes around `last` that belong to its block is computed again. */
static loam_status copy_block(walk *w, int last, loam_error *e)
{
    int first = last;
    while (first > 0 && w->g->nodes[first - 1]->block == w->g->nodes[last]->block)
        first--;
    for (int i = first; i <= last; i++)
        if (!copy_node(w, i))
            return loam_graph_status(w->g, e);
    return LOAM_OK;
}

static loam_status visit(walk *w, const loam_node *loss, bool checkpoint, loam_error *e)
{
    loam_graph *g = w->g;
    int block = -1;
    bool is_last_block = true; /* its values are still there when the walk begins */
    for (int i = loss->index; i >= 0; i--) {
        loam_node *n = g->nodes[i];
        if (n->block != block) {
            if (block >= 0)
                is_last_block = false;
            block = n->block;
            if (checkpoint && block >= 0 && !is_last_block)
                LOAM_TRY(copy_block(w, i, e));
        }
        loam_node *made = copy_of(w, n);
        if (!w->below[i] || n->op == LOAM_OP_NONE || !made->grad)
            continue;
        g->block = n->block;
        loam_op_get(n->op)->backward(g, made, made->grad);
        LOAM_TRY(loam_graph_status(g, e));
    }
    return LOAM_OK;
}

loam_status loam_graph_backward(loam_graph *g, loam_node *loss, bool checkpoint, loam_error *e)
{
    LOAM_TRY(loam_graph_status(g, e));
    LOAM_ASSERT(loss && loam_tensor_ne(&loss->t) == 1);
    if (!loss->needs_grad)
        return loam_fail(e, LOAM_E_USAGE, "the loss depends on no trained parameter");
    walk w = {.g = g, .n_forward = g->n_nodes};
    w.below = loam_alloc((size_t)g->n_nodes * sizeof *w.below);
    w.copies = loam_alloc((size_t)g->n_nodes * sizeof *w.copies);
    loam_status status = LOAM_OK;
    if (!w.below || !w.copies)
        status = loam_fail(e, LOAM_E_MEMORY, "no memory for the backward of %d nodes", g->n_nodes);
    if (status == LOAM_OK)
        status = mark_below(&w, loss, e);
    if (status == LOAM_OK) {
        g->block = -1;
        loss->grad = loam_fill_new(g, loss->t.type, loss->t.ne, 1.0f);
        loam_set_name(loss->grad, "grad(%s)", loss->name);
        status = visit(&w, loss, checkpoint, e);
    }
    g->block = -1;
    loam_free(w.below);
    loam_free(w.copies);
    return status == LOAM_OK ? loam_graph_status(g, e) : status;
}
