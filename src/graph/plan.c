/* plan.c: which nodes run, where each runs, and where its bytes are; then the run.
 *
 * Storage is laid out before anything is allocated: a value lives from the node that makes it to
 * the last node that reads it (or a view of it), and two values whose lives do not meet may share
 * bytes. Values are placed largest first at the lowest free offset. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* Suits vector loads on the CPU and buffer offsets on GPUs. */
#define ALIGN_BYTES 256

typedef struct storage {
    loam_node *root;
    size_t bytes;
    size_t offset_bytes;
    int first, last; /* positions in the run, both inclusive */
    bool is_leaf;    /* lasts as long as the plan, in the plan's own buffer */
} storage;

struct loam_workspace {
    loam_buffer *values;
    loam_buffer *scratch;
    int generation; /* grows whenever a buffer was replaced */
};

struct loam_plan {
    loam_graph *g;
    loam_device *const *devices;
    int n_devices;
    loam_node **run; /* the nodes that compute something, in order */
    int n_run;
    bool *needed; /* by node index */
    int n_needed; /* nodes of the graph when the plan was made */
    storage *storages;
    int n_storages;
    loam_split *splits;
    int n_splits;
    loam_plan_memory memory;
    loam_buffer *leaves;
    loam_workspace *workspace;
    int bound_generation; /* the workspace's when the nodes were bound; 0: never */
};

static size_t align_up(size_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static void need(loam_plan *p, const loam_node *n)
{
    if (n)
        p->needed[n->index] = true;
}

/* Sources come before their users, so one pass from the end finds all that outputs need. */
static void mark_needed(loam_plan *p)
{
    for (int i = p->n_needed - 1; i >= 0; i--) {
        const loam_node *n = p->g->nodes[i];
        if (n->is_output)
            p->needed[i] = true;
        if (!p->needed[i])
            continue;
        for (int s = 0; s < n->n_src; s++)
            need(p, n->src[s]);
        need(p, n->view_of);
        need(p, n->owner);
    }
    /* A companion is written with its owner, read or not. */
    for (int i = 0; i < p->n_needed; i++)
        if (p->needed[i])
            need(p, p->g->nodes[i]->aux);
}

/* ---- placement ---------------------------------------------------------------------------- */

/* The first device that takes the node; `reason` is why the ones before it did not. */
static loam_status place(const loam_plan *p, loam_node *n, char *reason, loam_error *e)
{
    char all[LOAM_MESSAGE_BYTES / 2] = "";
    size_t length = 0;
    reason[0] = '\0';
    for (int d = 0; d < p->n_devices; d++) {
        char why[LOAM_REASON_BYTES] = "";
        if (p->devices[d]->api->supports(p->devices[d], n, why)) {
            n->device = d;
            return LOAM_OK;
        }
        if (d == 0)
            snprintf(reason, LOAM_REASON_BYTES, "%s", why);
        if (length < sizeof all)
            length += (size_t)snprintf(all + length, sizeof all - length, "%s%s: %s", d ? "; " : "",
                                       p->devices[d]->api->kind, why);
    }
    return loam_fail(e, LOAM_E_UNSUPPORTED, "no device runs %s (node '%s'): %s",
                     loam_op_get(n->op)->name, n->name, all);
}

static loam_status place_all(loam_plan *p, loam_error *e)
{
    p->splits = loam_alloc((size_t)LOAM_MAX(p->n_run, 1) * sizeof *p->splits);
    if (!p->splits)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the placement of %d nodes", p->n_run);
    for (int i = 0; i < p->n_run; i++) {
        char reason[LOAM_REASON_BYTES];
        LOAM_TRY(place(p, p->run[i], reason, e));
        loam_split *last = p->n_splits ? &p->splits[p->n_splits - 1] : NULL;
        if (last && last->device == p->run[i]->device) {
            last->n_nodes++;
            continue;
        }
        loam_split *split = &p->splits[p->n_splits++];
        *split = (loam_split){.device = p->run[i]->device, .first = i, .n_nodes = 1};
        memcpy(split->reason, reason, sizeof reason);
    }
    return LOAM_OK;
}

/* ---- storage ------------------------------------------------------------------------------ */

static loam_node *root_of(loam_node *n)
{
    return n->view_of ? n->view_of : n;
}

/* One storage for each needed node that owns bytes and is not bound; at[index] finds it. */
static int collect_storages(loam_plan *p, int *at)
{
    int n = 0;
    for (int i = 0; i < p->n_needed; i++) {
        loam_node *node = p->g->nodes[i];
        at[i] = -1;
        if (!p->needed[i] || node->view_of || node->buffer)
            continue;
        at[i] = n;
        p->storages[n++] = (storage){.root = node,
                                     .bytes = align_up(loam_tensor_bytes(&node->t)),
                                     .first = p->n_run,
                                     .last = -1,
                                     .is_leaf = node->op == LOAM_OP_NONE};
    }
    return n;
}

static void touch(loam_plan *p, const int *at, loam_node *n, int position)
{
    if (!n || at[root_of(n)->index] < 0)
        return;
    storage *s = &p->storages[at[root_of(n)->index]];
    s->first = LOAM_MIN(s->first, position);
    s->last = LOAM_MAX(s->last, position);
}

static void find_lives(loam_plan *p, const int *at)
{
    for (int i = 0; i < p->n_run; i++) {
        loam_node *n = p->run[i];
        touch(p, at, n, i);
        touch(p, at, n->aux, i);
        for (int s = 0; s < n->n_src; s++)
            touch(p, at, n->src[s], i);
    }
    for (int i = 0; i < p->n_needed; i++)
        if (p->needed[i] && p->g->nodes[i]->is_output)
            touch(p, at, p->g->nodes[i], LOAM_MAX(p->n_run - 1, 0));
}

static int by_size(const void *a, const void *b)
{
    const storage *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->root->index < y->root->index ? -1 : 1;
}

/* The lowest offset at which `s` meets none of the placed storages alive with it. `placed` is kept
 * sorted by offset. */
static size_t find_offset(const storage *s, storage *const *placed, int n_placed)
{
    size_t offset = 0;
    for (int i = 0; i < n_placed; i++) {
        const storage *o = placed[i];
        if (o->last < s->first || o->first > s->last)
            continue;
        if (o->offset_bytes >= offset + s->bytes)
            break;
        offset = LOAM_MAX(offset, o->offset_bytes + o->bytes);
    }
    return offset;
}

static void lay_out(loam_plan *p, storage **placed)
{
    int n_placed = 0;
    size_t leaf_end = 0;
    qsort(p->storages, (size_t)p->n_storages, sizeof *p->storages, by_size);
    for (int i = 0; i < p->n_storages; i++) {
        storage *s = &p->storages[i];
        if (s->is_leaf) {
            s->offset_bytes = leaf_end;
            leaf_end += s->bytes;
            continue;
        }
        s->offset_bytes = find_offset(s, placed, n_placed);
        int at = n_placed++;
        while (at > 0 && placed[at - 1]->offset_bytes > s->offset_bytes) {
            placed[at] = placed[at - 1];
            at--;
        }
        placed[at] = s;
        p->memory.activation_bytes =
            LOAM_MAX(p->memory.activation_bytes, s->offset_bytes + s->bytes);
    }
    p->memory.leaf_bytes = leaf_end;
}

static loam_status plan_storage(loam_plan *p, loam_error *e)
{
    size_t n = (size_t)LOAM_MAX(p->n_needed, 1);
    int *at = loam_alloc(n * sizeof *at);
    storage **placed = loam_alloc(n * sizeof(storage *));
    p->storages = loam_alloc(n * sizeof *p->storages);
    loam_status status = LOAM_OK;
    if (!at || !placed || !p->storages) {
        status = loam_fail(e, LOAM_E_MEMORY, "no memory for the plan of %d nodes", p->n_needed);
    } else {
        p->n_storages = collect_storages(p, at);
        find_lives(p, at);
        lay_out(p, placed);
    }
    loam_free(at);
    loam_free(placed);
    return status;
}

static void count_memory(loam_plan *p)
{
    for (int i = 0; i < p->n_needed; i++) {
        const loam_node *n = p->g->nodes[i];
        if (!p->needed[i] || n->op != LOAM_OP_NONE || !n->buffer || n->view_of)
            continue;
        if (n->buffer->is_mapped)
            p->memory.weight_bytes += loam_tensor_bytes(&n->t);
    }
    for (int i = 0; i < p->n_run; i++) {
        loam_device *d = p->devices[p->run[i]->device];
        p->memory.scratch_bytes =
            LOAM_MAX(p->memory.scratch_bytes, d->api->scratch_bytes(d, p->run[i]));
    }
}

static loam_status build(loam_plan *p, loam_error *e)
{
    size_t n = (size_t)LOAM_MAX(p->n_needed, 1);
    p->needed = loam_alloc(n * sizeof *p->needed);
    p->run = loam_alloc(n * sizeof(loam_node *));
    if (!p->needed || !p->run)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the plan of %d nodes", p->n_needed);
    mark_needed(p);
    for (int i = 0; i < p->n_needed; i++)
        if (p->needed[i] && !loam_op_get(p->g->nodes[i]->op)->is_view)
            p->run[p->n_run++] = p->g->nodes[i];
    LOAM_TRY(place_all(p, e));
    LOAM_TRY(plan_storage(p, e));
    count_memory(p);
    return LOAM_OK;
}

loam_status loam_plan_create(loam_graph *g, loam_device *const *devices, int n_devices,
                             loam_plan **out, loam_error *e)
{
    *out = NULL;
    LOAM_TRY(loam_graph_status(g, e));
    loam_plan *p = loam_alloc(sizeof *p);
    if (!p)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a plan");
    p->g = g;
    p->devices = devices;
    p->n_devices = n_devices;
    p->n_needed = g->n_nodes;
    loam_status status = build(p, e);
    if (status != LOAM_OK) {
        loam_plan_free(p);
        return status;
    }
    *out = p;
    return LOAM_OK;
}

void loam_plan_free(loam_plan *p)
{
    if (!p)
        return;
    loam_buffer_free(p->leaves);
    loam_free(p->needed);
    loam_free(p->run);
    loam_free(p->storages);
    loam_free(p->splits);
    loam_free(p);
}

void loam_plan_memory_of(const loam_plan *p, loam_plan_memory *out)
{
    *out = p->memory;
}

int loam_plan_n_nodes(const loam_plan *p)
{
    return p->n_run;
}

const loam_node *loam_plan_node_at(const loam_plan *p, int i)
{
    return p->run[i];
}

int loam_plan_n_splits(const loam_plan *p)
{
    return p->n_splits;
}

const loam_split *loam_plan_split_at(const loam_plan *p, int i)
{
    return &p->splits[i];
}

/* ---- memory and run ----------------------------------------------------------------------- */

loam_workspace *loam_workspace_new(void)
{
    return loam_alloc(sizeof(loam_workspace));
}

void loam_workspace_free(loam_workspace *w)
{
    if (!w)
        return;
    loam_buffer_free(w->values);
    loam_buffer_free(w->scratch);
    loam_free(w);
}

static loam_status grow(loam_workspace *w, loam_buffer **buffer, loam_device *d, size_t bytes,
                        loam_error *e)
{
    if (*buffer && (*buffer)->bytes >= bytes)
        return LOAM_OK;
    /* The old one goes first: both together may not fit. Plans that were bound to it see the new
     * generation, and loam_plan_run refuses while there is none. */
    loam_buffer_free(*buffer);
    *buffer = NULL;
    w->generation++;
    return loam_buffer_alloc(d, LOAM_MAX(bytes, (size_t)ALIGN_BYTES), buffer, e);
}

static void bind_nodes(loam_plan *p)
{
    for (int i = 0; i < p->n_storages; i++) {
        storage *s = &p->storages[i];
        loam_node_bind(s->root, s->is_leaf ? p->leaves : p->workspace->values, s->offset_bytes);
    }
    for (int i = 0; i < p->n_needed; i++) {
        loam_node *n = p->g->nodes[i];
        if (p->needed[i] && n->view_of)
            loam_node_bind(n, n->view_of->buffer, n->view_of->offset_bytes + n->view_offset_bytes);
    }
    p->bound_generation = p->workspace->generation;
}

loam_status loam_plan_prepare(loam_plan *p, loam_workspace *w, loam_error *e)
{
    LOAM_ASSERT(!p->workspace || p->workspace == w);
    loam_device *d = p->devices[0];
    if (!p->leaves)
        LOAM_TRY(loam_buffer_alloc(d, LOAM_MAX(p->memory.leaf_bytes, (size_t)ALIGN_BYTES),
                                   &p->leaves, e));
    LOAM_TRY(grow(w, &w->values, d, p->memory.activation_bytes, e));
    LOAM_TRY(grow(w, &w->scratch, d, p->memory.scratch_bytes, e));
    p->workspace = w;
    bind_nodes(p);
    /* Devices other than the first read the same bytes, which only host memory allows. */
    if (p->n_splits > 1 && !w->values->host)
        return loam_fail(e, LOAM_E_UNSUPPORTED,
                         "the graph needs %d splits, and values on %s cannot be reached from "
                         "another device",
                         p->n_splits, d->api->kind);
    return LOAM_OK;
}

/* Another plan may have replaced the workspace's buffers since this one was bound. */
static loam_status rebind(loam_plan *p, loam_error *e)
{
    LOAM_ASSERT(p->workspace);
    if (!p->workspace->values || !p->workspace->scratch)
        return loam_fail(e, LOAM_E_MEMORY, "the memory of the graph's values could not be had");
    if (p->bound_generation != p->workspace->generation)
        bind_nodes(p);
    return LOAM_OK;
}

loam_status loam_plan_run(loam_plan *p, loam_error *e)
{
    LOAM_TRY(rebind(p, e));
    for (int i = 0; i < p->n_splits; i++) {
        const loam_split *s = &p->splits[i];
        loam_device *d = p->devices[s->device];
        LOAM_TRY(d->api->run(d, p->run + s->first, s->n_nodes, p->workspace->scratch, e));
        LOAM_TRY(d->api->synchronize(d, e));
    }
    return LOAM_OK;
}

loam_status loam_plan_run_profiled(loam_plan *p, double ms[LOAM_OP_COUNT], loam_error *e)
{
    LOAM_TRY(rebind(p, e));
    for (int i = 0; i < p->n_run; i++) {
        loam_device *d = p->devices[p->run[i]->device];
        double began_ms = loam_now_ms();
        LOAM_TRY(d->api->run(d, &p->run[i], 1, p->workspace->scratch, e));
        LOAM_TRY(d->api->synchronize(d, e));
        ms[p->run[i]->op] += loam_now_ms() - began_ms;
    }
    return LOAM_OK;
}

loam_status loam_node_write(loam_node *n, const void *src, size_t bytes, loam_error *e)
{
    LOAM_ASSERT(n->buffer && loam_is_contiguous(&n->t) && bytes == loam_tensor_bytes(&n->t));
    return loam_buffer_write(n->buffer, n->offset_bytes, src, bytes, e);
}

loam_status loam_node_read(const loam_node *n, void *dst, size_t bytes, loam_error *e)
{
    LOAM_ASSERT(n->buffer && loam_is_contiguous(&n->t) && bytes == loam_tensor_bytes(&n->t));
    return loam_buffer_read(n->buffer, n->offset_bytes, dst, bytes, e);
}
