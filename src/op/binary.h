/* binary.h: what ADD and MUL share: the check of operands, and parity cases; private to src/op. */
#ifndef LOAM_OP_BINARY_H
#define LOAM_OP_BINARY_H

#include "op/op.h"

/* False, with the graph's error set, unless both are float types and b repeats over a. */
bool loam_binary_check(loam_graph *g, const char *op, const loam_node *a, const loam_node *b);

/* d, of a's shape, summed over the repetitions of b: the gradient of b. */
loam_node *loam_binary_reduce(loam_graph *g, loam_node *d, const loam_node *b);

/* Cases: equal shapes, b repeated over each axis and over all, views on both sides, half types.
 * c->p[LOAM_BINARY_IN_PLACE] asks for the in-place form. */
#define LOAM_BINARY_IN_PLACE 10
void loam_binary_cases(loam_case_list *list, loam_op op,
                       loam_node *(*build)(loam_graph *, const loam_case *));
/* One case; a_layout and b_layout are loam_layouts. */
loam_case *loam_binary_case(loam_case_list *list, loam_op op, loam_type a_type, loam_type b_type,
                            const int64_t a_ne[LOAM_MAX_DIMS], const int64_t b_ne[LOAM_MAX_DIMS],
                            int a_layout, int b_layout,
                            loam_node *(*build)(loam_graph *, const loam_case *));
/* The operands that a case declares; a and b may be trained. */
void loam_binary_operands(loam_graph *g, const loam_case *c, loam_node **a, loam_node **b);

#endif /* LOAM_OP_BINARY_H */
