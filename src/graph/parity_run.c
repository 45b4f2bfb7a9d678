/* parity_run.c: one build of a parity case, its memory, and its runs. */
#include "graph/parity.h"

#include <string.h>

/* Between two values lie at least this many bytes that nobody may touch. */
#define GUARD_BYTES 256

static size_t align_up(size_t bytes)
{
    return (bytes + GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES;
}

loam_status parity_build(parity_run *r, const loam_case *c, loam_type activation, loam_error *e)
{
    memset(r, 0, sizeof *r);
    LOAM_TRY(loam_graph_create(activation, &r->g, e));
    r->target = c->build(r->g, c);
    LOAM_TRY(loam_graph_status(r->g, e));
    LOAM_ASSERT(r->target);
    return LOAM_OK;
}

void parity_release(parity_run *r)
{
    if (r->is_own) {
        loam_free(r->before);
        loam_free(r->after);
    }
    loam_buffer_free(r->memory);
    loam_buffer_free(r->scratch);
    loam_free(r->nodes);
    loam_graph_free(r->g);
    memset(r, 0, sizeof *r);
}

/* ---- memory ------------------------------------------------------------------------------- */

static void need(bool *needed, const loam_node *n)
{
    if (n)
        needed[n->index] = true;
}

/* Lists the nodes that the outputs stand on. */
static loam_status collect_nodes(parity_run *r, loam_node *const *outputs, int n_outputs,
                                 loam_error *e)
{
    bool *needed = loam_alloc((size_t)r->g->n_nodes * sizeof *needed);
    r->nodes = loam_alloc((size_t)r->g->n_nodes * sizeof(loam_node *));
    if (!needed || !r->nodes) {
        loam_free(needed);
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a parity case's %d nodes", r->g->n_nodes);
    }
    for (int i = 0; i < n_outputs; i++)
        need(needed, outputs[i]);
    if (n_outputs == 0)
        need(needed, r->target);
    for (int i = r->g->n_nodes - 1; i >= 0; i--) {
        const loam_node *n = r->g->nodes[i];
        if (!needed[i])
            continue;
        for (int s = 0; s < n->n_src; s++)
            need(needed, n->src[s]);
        need(needed, n->view_of);
        need(needed, n->owner);
    }
    for (int i = 0; i < r->g->n_nodes; i++)
        if (needed[i] && !loam_op_get(r->g->nodes[i]->op)->is_view)
            r->nodes[r->n_nodes++] = r->g->nodes[i];
    loam_free(needed);
    return LOAM_OK;
}

static bool device_takes(const parity_run *r, char *refusal)
{
    for (int i = 0; i < r->n_nodes; i++) {
        char why[LOAM_REASON_BYTES] = "no reason given";
        if (r->device->api->supports(r->device, r->nodes[i], why))
            continue;
        snprintf(refusal, LOAM_REASON_BYTES, "%s: %.100s", loam_op_get(r->nodes[i]->op)->name, why);
        return false;
    }
    return true;
}

static loam_status allocate(parity_run *r, bool in_place, loam_error *e)
{
    size_t scratch = 0;
    r->bytes = GUARD_BYTES;
    for (int i = 0; i < r->g->n_nodes; i++)
        if (!r->g->nodes[i]->view_of)
            r->bytes += align_up(loam_tensor_bytes(&r->g->nodes[i]->t)) + GUARD_BYTES;
    for (int i = 0; i < r->n_nodes; i++)
        scratch = LOAM_MAX(scratch, r->device->api->scratch_bytes(r->device, r->nodes[i]));
    LOAM_TRY(loam_buffer_alloc(r->device, r->bytes, &r->memory, e));
    LOAM_TRY(loam_buffer_alloc(r->device, LOAM_MAX(scratch, (size_t)GUARD_BYTES), &r->scratch, e));
    if (in_place) {
        LOAM_ASSERT(r->memory->host);
        r->before = r->after = r->memory->host;
    } else {
        r->is_own = true;
        r->before = loam_alloc(r->bytes);
        r->after = loam_alloc(r->bytes);
        if (!r->before || !r->after)
            return loam_fail(e, LOAM_E_MEMORY, "no memory for a parity case of %zu bytes",
                             r->bytes);
    }
    memset(r->before, 0xff, r->bytes);
    return LOAM_OK;
}

static void bind_nodes(parity_run *r)
{
    size_t offset = GUARD_BYTES;
    for (int i = 0; i < r->g->n_nodes; i++) {
        loam_node *n = r->g->nodes[i];
        if (n->view_of) {
            loam_node_bind(n, r->memory, n->view_of->offset_bytes + n->view_offset_bytes);
            continue;
        }
        loam_node_bind(n, r->memory, offset);
        offset += align_up(loam_tensor_bytes(&n->t)) + GUARD_BYTES;
    }
}

loam_status parity_bind(parity_run *r, loam_device *d, loam_node *const *outputs, int n_outputs,
                        bool in_place, char *refusal, loam_error *e)
{
    refusal[0] = '\0';
    r->device = d;
    LOAM_TRY(collect_nodes(r, outputs, n_outputs, e));
    if (!device_takes(r, refusal))
        return LOAM_OK;
    LOAM_TRY(allocate(r, in_place, e));
    bind_nodes(r);
    return LOAM_OK;
}

loam_tensor parity_tensor(const loam_node *n, uint8_t *image)
{
    loam_tensor t = n->t;
    t.data = image + n->offset_bytes;
    return t;
}

/* ---- runs --------------------------------------------------------------------------------- */

/* What the scratch holds from earlier must not matter: fill it with NaN. */
static loam_status poison_scratch(parity_run *r, loam_error *e)
{
    uint8_t poison[4096];
    memset(poison, 0xff, sizeof poison);
    for (size_t at = 0; at < r->scratch->bytes; at += sizeof poison)
        LOAM_TRY(loam_buffer_write(r->scratch, at, poison,
                                   LOAM_MIN(sizeof poison, r->scratch->bytes - at), e));
    return LOAM_OK;
}

loam_status parity_execute(parity_run *r, loam_error *e)
{
    if (r->is_own)
        LOAM_TRY(loam_buffer_write(r->memory, 0, r->before, r->bytes, e));
    LOAM_TRY(poison_scratch(r, e));
    LOAM_TRY(parity_repeat(r, e));
    if (r->is_own)
        LOAM_TRY(loam_buffer_read(r->memory, 0, r->after, r->bytes, e));
    return LOAM_OK;
}

loam_status parity_repeat(parity_run *r, loam_error *e)
{
    LOAM_TRY(r->device->api->run(r->device, r->nodes, r->n_nodes, r->scratch, e));
    return r->device->api->synchronize(r->device, e);
}

bool parity_guards_hold(const parity_run *r, char *reason)
{
    size_t at = 0;
    const loam_node *before = NULL;
    for (int i = 0; i <= r->g->n_nodes; i++) {
        const loam_node *n = i < r->g->n_nodes ? r->g->nodes[i] : NULL;
        if (n && n->view_of)
            continue;
        size_t end = n ? n->offset_bytes : r->bytes;
        for (; at < end; at++)
            if (r->after[at] != 0xff) {
                snprintf(reason, LOAM_REASON_BYTES, "wrote outside: byte %zu after %s '%.40s'", at,
                         before ? loam_op_get(before->op)->name : "the start of memory",
                         before ? before->name : "");
                return false;
            }
        if (n)
            at = end + loam_tensor_bytes(&n->t);
        before = n;
    }
    return true;
}
