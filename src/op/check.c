/* check.c: operands in messages, and what references share. */
#include "op/check.h"

loam_operand_text loam_operand(const loam_node *n)
{
    loam_operand_text out;
    int n_dims = LOAM_MAX_DIMS;
    while (n_dims > 1 && n->t.ne[n_dims - 1] == 1)
        n_dims--;
    int used = snprintf(out.text, sizeof out.text, "%s [", loam_type_name(n->t.type));
    for (int d = 0; d < n_dims; d++)
        used += snprintf(out.text + used, sizeof out.text - (size_t)used, "%s%lld", d ? ", " : "",
                         (long long)n->t.ne[d]);
    snprintf(out.text + used, sizeof out.text - (size_t)used, "]");
    return out;
}

bool loam_is_float(loam_type type)
{
    return type == LOAM_TYPE_F32 || type == LOAM_TYPE_F64 || type == LOAM_TYPE_F16 ||
           type == LOAM_TYPE_BF16;
}

bool loam_is_decoded(loam_type type)
{
    const loam_type_info *info = loam_type_get((int)type);
    return info && (info->is_quantized || loam_is_float(type));
}

double *loam_node_doubles(const loam_node *n)
{
    double *out = loam_alloc((size_t)loam_tensor_ne(&n->t) * sizeof *out);
    if (!out)
        return NULL;
    double *row = out;
    for (int64_t i3 = 0; i3 < n->t.ne[3]; i3++)
        for (int64_t i2 = 0; i2 < n->t.ne[2]; i2++)
            for (int64_t i1 = 0; i1 < n->t.ne[1]; i1++, row += n->t.ne[0])
                loam_get_row(&n->t, i1, i2, i3, row);
    return out;
}

loam_status loam_reference_memory(const loam_node *n, loam_error *e)
{
    return loam_fail(e, LOAM_E_MEMORY, "%s: no memory for the reference of %s",
                     loam_op_get(n->op)->name, loam_operand(n).text);
}
