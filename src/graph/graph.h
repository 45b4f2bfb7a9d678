/* graph.h: the backward walk, placement, the memory plan, and the run. */
#ifndef LOAM_GRAPH_H
#define LOAM_GRAPH_H

#include "core/core.h"
#include "device/device.h"
#include "op/op.h"

/* ---- backward (backward.c) ---------------------------------------------------------------- */

/* Appends the nodes that compute d loss / d p for every parameter p below `loss` (one element),
 * leaving p->grad. Refuses, with op and node named, where an op on the way has no backward.
 * With `checkpoint`, the nodes of each transformer block (node->block >= 0) are computed again
 * when the walk reaches the block, so that only blocks' inputs stay in memory. */
loam_status loam_graph_backward(loam_graph *g, loam_node *loss, bool checkpoint, loam_error *e);

/* ---- plan (plan.c) ------------------------------------------------------------------------ */

typedef struct loam_plan loam_plan;

typedef struct loam_plan_memory {
    size_t activation_bytes; /* the arena that holds every planned node, at its peak */
    size_t scratch_bytes;
    size_t weight_bytes; /* leaves that are bound to a map */
    size_t leaf_bytes;   /* leaves that the plan holds itself: inputs */
} loam_plan_memory;

typedef struct loam_split {
    int device; /* index in the plan's devices */
    int first, n_nodes;
    char reason[LOAM_REASON_BYTES]; /* why an earlier device did not take the split's first node */
} loam_split;

/* Keeps what the graph's outputs (nodes marked is_output, in-place results among them) need, in
 * order; places each node on the first device that supports it; lays out storage by liveness.
 * A leaf that is not bound when the plan is made gets storage of the plan's own, zeroed, that
 * lasts as long as the plan. A node that no device takes is an error with each device's reason.
 * The graph and the devices must outlive the plan; a graph has one plan. */
loam_status loam_plan_create(loam_graph *g, loam_device *const *devices, int n_devices,
                             loam_plan **out, loam_error *e);
void loam_plan_free(loam_plan *p); /* NULL is fine */
void loam_plan_memory_of(const loam_plan *p, loam_plan_memory *out);
int loam_plan_n_nodes(const loam_plan *p); /* nodes that compute something */
const loam_node *loam_plan_node_at(const loam_plan *p, int i);
int loam_plan_n_splits(const loam_plan *p);
const loam_split *loam_plan_split_at(const loam_plan *p, int i);

/* Allocates the plan's memory (before the first run; later calls do nothing). Several plans that
 * never run at the same time may share one workspace: the larger one's memory serves both. */
typedef struct loam_workspace loam_workspace;
loam_workspace *loam_workspace_new(void); /* NULL when memory ran out */
void loam_workspace_free(loam_workspace *w);
loam_status loam_plan_prepare(loam_plan *p, loam_workspace *w, loam_error *e);
loam_status loam_plan_run(loam_plan *p, loam_error *e);
/* Runs one node at a time and adds each op's time to ms[op]; slower than loam_plan_run. */
loam_status loam_plan_run_profiled(loam_plan *p, double ms[LOAM_OP_COUNT], loam_error *e);

/* Host access to bound or planned storage, whole and dense. */
loam_status loam_node_write(loam_node *n, const void *src, size_t bytes, loam_error *e);
loam_status loam_node_read(const loam_node *n, void *dst, size_t bytes, loam_error *e);

/* ---- parity (parity.c) -------------------------------------------------------------------- */

/* Runs every case that o->op and o->type select (o->device is not read) on the device and calls
 * `report` for each; LOAM_E_CANCELLED when report returns false. A miss is a result, not an error
 * of this call. The strings of a result are valid during the call of report. */
loam_status loam_parity_run(loam_device *d, const loam_parity_options *o,
                            bool (*report)(void *user, const loam_parity_case *r), void *user,
                            loam_error *e);

#endif /* LOAM_GRAPH_H */
