/* check.h: what builders ask of operands, and how their messages name them; private to src/op. */
#ifndef LOAM_OP_CHECK_H
#define LOAM_OP_CHECK_H

#include "op/op.h"

typedef struct loam_operand_text {
    char text[112];
} loam_operand_text;

/* "q4_K [256, 16]" (trailing ones left out), for messages: loam_operand(a).text lives to the end
 * of the full expression. */
loam_operand_text loam_operand(const loam_node *n);

bool loam_is_float(loam_type type);   /* F64, F32, F16, BF16 */
bool loam_is_decoded(loam_type type); /* a float type, or a block type that has values */

/* n's elements as doubles, first dimension fastest; loam_free it. NULL when memory ran out. */
double *loam_node_doubles(const loam_node *n);

/* A failure of a reference whose working memory could not be had. */
loam_status loam_reference_memory(const loam_node *n, loam_error *e);

#endif /* LOAM_OP_CHECK_H */
