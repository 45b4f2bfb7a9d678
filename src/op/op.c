/* op.c: the table of operations, expanded from op_list.h. */
#include "op/op_def.h"

#include <strings.h>

/* A leaf: an input, a weight or a parameter. Nothing computes it. */
const loam_op_def loam_op_none = {.name = "NONE", .is_view = true};

/* A second result; its owner computes it. */
const loam_op_def loam_op_aux = {.name = "AUX", .is_view = true};

static const loam_op_def *const table[LOAM_OP_COUNT] = {
#define LOAM_OP(name, definition) [LOAM_OP_##name] = &loam_op_##definition,
#include "op/op_list.h"
#undef LOAM_OP
};

const loam_op_def *loam_op_get(loam_op op)
{
    LOAM_ASSERT((int)op >= 0 && op < LOAM_OP_COUNT);
    return table[op];
}

double loam_op_flops(const loam_node *n)
{
    const loam_op_def *def = loam_op_get(n->op);
    return def->flops ? def->flops(n) : (double)loam_tensor_ne(&n->t);
}

loam_op loam_op_from_name(const char *name)
{
    for (int i = 0; i < LOAM_OP_COUNT; i++)
        if (strcasecmp(table[i]->name, name) == 0)
            return (loam_op)i;
    return LOAM_OP_COUNT;
}
