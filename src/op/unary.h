/* unary.h: what SILU and GELU share, y = f(x) and dx = dy * f'(x); private to src/op. */
#ifndef LOAM_OP_UNARY_H
#define LOAM_OP_UNARY_H

#include "op/op.h"

/* x of a float type in any strides -> a dense node of its shape and type. */
loam_node *loam_unary(loam_graph *g, loam_op op, loam_node *x);
/* dy and x of float types, of one shape, in any strides -> dense, of dy's type. */
loam_node *loam_unary_back(loam_graph *g, loam_op op, loam_node *dy, loam_node *x);

void loam_unary_apply(const loam_node *n, double (*value)(double));
void loam_unary_back_apply(const loam_node *n, double (*slope)(double));

/* Cases of an op and of its _BACK op. */
void loam_unary_cases(loam_case_list *list, loam_op op);
void loam_unary_back_cases(loam_case_list *list, loam_op op);

#endif /* LOAM_OP_UNARY_H */
