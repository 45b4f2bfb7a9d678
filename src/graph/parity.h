/* parity.h: what the parts of the parity tester share; private to src/graph.
 *
 * A case is built several times: with F32 activations for the device under test, with F64 for the
 * reference. Each build is a parity_run: a graph, and one block of memory that holds a copy of
 * every value with guard bytes between. */
#ifndef LOAM_GRAPH_PARITY_H
#define LOAM_GRAPH_PARITY_H

#include "graph/graph.h"

typedef struct parity_run {
    loam_graph *g;
    loam_node *target; /* the node that the case checks */
    loam_node **nodes; /* those that compute what was asked for, in order */
    int n_nodes;
    loam_device *device;
    loam_buffer *memory;
    loam_buffer *scratch;
    size_t bytes;
    uint8_t *before; /* the memory as it was written; the device's own where the host can see it */
    uint8_t *after;  /* the memory as it was found after the run; may be the same bytes */
    bool is_own;     /* before and after are copies that this run frees */
} parity_run;

/* ---- parity_run.c ------------------------------------------------------------------------- */

/* Builds a case's graph; a failure names the case. */
loam_status parity_build(parity_run *r, const loam_case *c, loam_type activation, loam_error *e);
void parity_release(parity_run *r);

/* Gives every node of the graph a place, all bytes 0xff (a NaN in every float type). The nodes that
 * `outputs` need (the target where n_outputs is 0) will run. With `in_place` (host memory only) the
 * images are the memory itself, which saves two copies where nothing is compared with before.
 * `refusal` (LOAM_REASON_BYTES) is set
 * where the device does not take one of them, and nothing is bound then. */
loam_status parity_bind(parity_run *r, loam_device *d, loam_node *const *outputs, int n_outputs,
                        bool in_place, char *refusal, loam_error *e);

/* A node's tensor in one of the run's host images. */
loam_tensor parity_tensor(const loam_node *n, uint8_t *image);

/* Copies r->before to the device, runs, and copies everything back to r->after. */
loam_status parity_execute(parity_run *r, loam_error *e);
/* Runs the nodes once more over what is there. */
loam_status parity_repeat(parity_run *r, loam_error *e);

/* True where the bytes between the values still are what they were; else `reason` says after which
 * value they are not. */
bool parity_guards_hold(const parity_run *r, char *reason);

/* ---- parity_fill.c ------------------------------------------------------------------------ */

/* Fills a dense leaf in host memory as its case asks, from a stream named by `stream`. */
loam_status parity_fill_leaf(const loam_graph *g, const loam_node *leaf, const loam_tensor *t,
                             uint64_t seed, const char *stream, loam_error *e);
/* The values of `from` in `to`, dense tensors of one shape: the same bytes where the types agree.
 */
void parity_copy(const loam_tensor *from, const loam_tensor *to);

/* ---- parity_grad.c ------------------------------------------------------------------------ */

/* Checks the backward rules that a case uses: the F64 gradient of sum(dy * y) for a random dy
 * against central differences, then the device's gradient against the F64 one. Sets outcome (only
 * where it is not PASSED), n_grad and grad_nmse of `out`; reason has LOAM_REASON_BYTES. */
loam_status parity_check_grad(loam_device *d, loam_device *reference, const loam_case *c,
                              uint64_t seed, loam_parity_case *out, char *reason, loam_error *e);

/* ---- parity.c ----------------------------------------------------------------------------- */

/* The random stream of a case's values called `what`. */
typedef struct parity_stream {
    char name[256];
} parity_stream;
parity_stream parity_stream_of(const loam_case *c, const char *what, int index);

/* Squared differences of `got` from `expected`, gathered over any number of tensors. */
typedef struct parity_error {
    double difference, size;
    double worst; /* largest single difference */
    char where[160];
} parity_error;
/* Gathers elements; one that is no number where the reference has one is an infinite error. */
void parity_compare(parity_error *p, const loam_tensor *got, const loam_tensor *expected);
/* Normalized mean squared error: 0 where both are zero, infinity where only the reference is. */
double parity_nmse(const parity_error *p);

#endif /* LOAM_GRAPH_PARITY_H */
