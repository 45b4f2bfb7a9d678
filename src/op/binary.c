/* binary.c: what ADD and MUL share. */
#include "op/binary.h"
#include "op/check.h"
#include "op/layout.h"

bool loam_binary_check(loam_graph *g, const char *op, const loam_node *a, const loam_node *b)
{
    if (!loam_is_float(a->t.type) || !loam_is_float(b->t.type)) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED, "%s of %s and %s: both must be float types", op,
                        loam_operand(a).text, loam_operand(b).text);
        return false;
    }
    if (!loam_can_repeat(&b->t, &a->t)) {
        loam_graph_fail(g, LOAM_E_USAGE,
                        "%s of %s and %s: every ne of the first must be a multiple of the second's",
                        op, loam_operand(a).text, loam_operand(b).text);
        return false;
    }
    return true;
}

loam_node *loam_binary_reduce(loam_graph *g, loam_node *d, const loam_node *b)
{
    if (!d || loam_same_shape(&d->t, &b->t))
        return d;
    return loam_repeat_back(g, d, b->t.ne);
}

/* ---- cases -------------------------------------------------------------------------------- */

enum { P_A_NE = 0, P_B_NE = 4, P_A_LAYOUT = 8, P_B_LAYOUT = 9, P_B_TYPE = 11 };

void loam_binary_operands(loam_graph *g, const loam_case *c, loam_node **a, loam_node **b)
{
    *a = loam_case_laid_out(g, c->type, c->p + P_A_NE, (loam_layout)c->p[P_A_LAYOUT],
                            LOAM_FILL_NORMAL, 1, 0, c->check_grad);
    *b = loam_case_laid_out(g, (loam_type)c->p[P_B_TYPE], c->p + P_B_NE,
                            (loam_layout)c->p[P_B_LAYOUT], LOAM_FILL_NORMAL, 1, 0, c->check_grad);
}

loam_case *loam_binary_case(loam_case_list *list, loam_op op, loam_type a_type, loam_type b_type,
                            const int64_t a_ne[LOAM_MAX_DIMS], const int64_t b_ne[LOAM_MAX_DIMS],
                            int a_layout, int b_layout,
                            loam_node *(*build)(loam_graph *, const loam_case *))
{
    loam_case *c = loam_case_add(
        list, op, a_type, build, "%s [%lld,%lld,%lld,%lld] %s, %s [%lld,%lld,%lld,%lld] %s",
        loam_type_name(a_type), (long long)a_ne[0], (long long)a_ne[1], (long long)a_ne[2],
        (long long)a_ne[3], loam_layout_name((loam_layout)a_layout), loam_type_name(b_type),
        (long long)b_ne[0], (long long)b_ne[1], (long long)b_ne[2], (long long)b_ne[3],
        loam_layout_name((loam_layout)b_layout));
    for (int d = 0; d < LOAM_MAX_DIMS; d++) {
        c->p[P_A_NE + d] = a_ne[d];
        c->p[P_B_NE + d] = b_ne[d];
    }
    c->p[P_A_LAYOUT] = a_layout;
    c->p[P_B_LAYOUT] = b_layout;
    c->p[P_B_TYPE] = b_type;
    return c;
}

void loam_binary_cases(loam_case_list *list, loam_op op,
                       loam_node *(*build)(loam_graph *, const loam_case *))
{
    static const loam_type types[] = {LOAM_TYPE_F32, LOAM_TYPE_F16, LOAM_TYPE_BF16};
    const loam_type f32 = LOAM_TYPE_F32;
    const int64_t whole[] = {10, 6, 4, 2}, model[] = {5120, 77, 1, 1}, bias[] = {5120, 1, 1, 1};
    const int64_t one[] = {1, 1, 1, 1}, odd[] = {1025, 3, 1, 1};
    /* The same shape; one element; b's ne a half, then 1, on each axis; on all. */
    for (int mode = 0; mode < 11; mode++) {
        int64_t b_ne[] = {10, 6, 4, 2};
        if (mode == 9)
            b_ne[0] = 5, b_ne[1] = 3, b_ne[2] = 2, b_ne[3] = 1;
        else if (mode == 10)
            b_ne[0] = b_ne[1] = b_ne[2] = b_ne[3] = 1;
        else if (mode > 0)
            b_ne[(mode - 1) % 4] = mode <= 4 ? 1 : b_ne[(mode - 1) % 4] / 2;
        if (mode == 8)
            continue; /* half of 2 is 1 again */
        loam_binary_case(list, op, f32, f32, whole, b_ne, 0, 0, build)->check_grad = true;
        for (int layout = 1; layout < LOAM_LAYOUT_COUNT; layout++) {
            int other = layout % (LOAM_LAYOUT_COUNT - 1) + 1;
            loam_binary_case(list, op, f32, f32, whole, b_ne, layout, 0, build);
            loam_binary_case(list, op, f32, f32, whole, b_ne, 0, layout, build);
            loam_binary_case(list, op, f32, f32, whole, b_ne, layout, other, build)->check_grad =
                true;
        }
    }
    loam_binary_case(list, op, f32, f32, one, one, 0, 0, build)->check_grad = true;
    loam_binary_case(list, op, f32, f32, odd, odd, 0, 0, build);
    loam_binary_case(list, op, f32, f32, model, model, 0, 0, build);
    loam_binary_case(list, op, f32, f32, model, bias, 0, 0, build);
    for (int a = 0; a < LOAM_COUNT(types); a++)
        for (int b = 0; b < LOAM_COUNT(types); b++)
            if (a || b)
                loam_binary_case(list, op, types[a], types[b], odd, odd, 0, 0, build);
}
