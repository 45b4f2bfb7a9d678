/* op_def.h: the definitions that op files provide; private to src/op. */
#ifndef LOAM_OP_DEF_H
#define LOAM_OP_DEF_H

#include "op/op.h"

#define LOAM_OP(name, definition) extern const loam_op_def loam_op_##definition;
#include "op/op_list.h"
#undef LOAM_OP

#endif /* LOAM_OP_DEF_H */
