/* rope.c: ROPE and ROPE_BACK, rotary position embedding (Su et al. 2021) with YaRN (Peng et al.
 * 2023), by ggml's formulas.
 *
 *   x [d, n_head, T, B]  a float type, any strides; the result dense, of its shape and type
 *   positions I32 [T]; freq_factors F32 [n_dims / 2] or none
 *
 * The first n_dims of d turn in pairs: (2j, 2j + 1) in NORMAL mode, (j, j + n_dims/2) in NEOX mode,
 * j < n_dims/2; the others are copied. Pair j at position p turns by
 *
 *   extrapolated = p * freq_base^(-2j / n_dims) / factor_j
 *   angle = freq_scale * extrapolated                                  where ext_factor is 0
 *   angle = freq_scale * extrapolated * (1 - m) + extrapolated * m     else, with
 *     m = ext_factor * (1 - clamp((j - low) / max(0.001, high - low), 0, 1))
 *     low = max(0, floor(dim(beta_fast))), high = min(n_dims - 1, ceil(dim(beta_slow)))
 *     dim(beta) = n_dims * ln(n_ctx_orig / (2 pi beta)) / (2 ln freq_base)
 *
 * and is scaled by attn_factor, times 1 + 0.1 ln(1 / freq_scale) where ext_factor is not 0. BACK
 * turns by -angle with the same scale, which is the transpose.
 *
 * Angles here are double. At position 100000 an F32 angle is off by 0.004 and misses the bar: a
 * device keeps each pair's frequency in turns (divided by 2 pi) as two floats, hi + lo, and drops
 * whole turns before the sine: t = p * hi, rest = fma(p, hi, -t), (t - floor(t)) + rest + p * lo.
 * Multiplying powers one after the other, as older code does, is worse. */
#include "op/check.h"
#include "op/layout.h"
#include "op/op_def.h"

#include <math.h>

#define TWO_PI 6.283185307179586476925

/* ---- builders ----------------------------------------------------------------------------- */

static bool check_params(loam_graph *g, loam_op op, const loam_node *x, const loam_rope_params *p)
{
    const char *name = loam_op_get(op)->name;
    if (!loam_is_float(x->t.type)) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED, "%s of %s: x must have a float type", name,
                        loam_operand(x).text);
        return false;
    }
    if (p->mode != LOAM_ROPE_NORMAL && p->mode != LOAM_ROPE_NEOX) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED, "%s: mode %d is neither NORMAL (0) nor NEOX (2)",
                        name, (int)p->mode);
        return false;
    }
    if (p->n_dims < 2 || p->n_dims % 2 != 0 || p->n_dims > x->t.ne[0]) {
        loam_graph_fail(g, LOAM_E_USAGE,
                        "%s of %s: n_dims is %d; it must be even, positive and at most ne0", name,
                        loam_operand(x).text, p->n_dims);
        return false;
    }
    if (!(p->freq_base > 0) || !(p->freq_scale > 0) ||
        (p->ext_factor != 0 && (p->n_ctx_orig < 1 || !(p->freq_base > 1) || !(p->beta_fast > 0) ||
                                !(p->beta_slow > 0)))) {
        loam_graph_fail(
            g, LOAM_E_USAGE,
            "%s: freq_base %g and freq_scale %g must be positive, and YaRN (ext_factor "
            "%g) needs n_ctx_orig %d, beta_fast %g and beta_slow %g positive and a base "
            "above 1",
            name, (double)p->freq_base, (double)p->freq_scale, (double)p->ext_factor, p->n_ctx_orig,
            (double)p->beta_fast, (double)p->beta_slow);
        return false;
    }
    return true;
}

static loam_node *turned(loam_graph *g, loam_op op, loam_node *x, loam_node *positions,
                         loam_node *freq_factors, const loam_rope_params *p)
{
    if (!x || !positions || !check_params(g, op, x, p))
        return NULL;
    const char *name = loam_op_get(op)->name;
    if (positions->t.type != LOAM_TYPE_I32 || positions->t.ne[0] != x->t.ne[2] ||
        loam_tensor_rows(&positions->t) != 1)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "%s of %s: the positions are %s; they must be i32 [%lld], one for "
                               "each step of ne2",
                               name, loam_operand(x).text, loam_operand(positions).text,
                               (long long)x->t.ne[2]);
    if (freq_factors &&
        ((freq_factors->t.type != LOAM_TYPE_F32 && freq_factors->t.type != LOAM_TYPE_F64) ||
         freq_factors->t.ne[0] != p->n_dims / 2 || loam_tensor_rows(&freq_factors->t) != 1))
        return loam_graph_fail(
            g, LOAM_E_USAGE,
            "%s of %s: the frequency factors are %s; they must be f32 [%d], half "
            "of n_dims",
            name, loam_operand(x).text, loam_operand(freq_factors).text, p->n_dims / 2);
    loam_node *n = loam_node_new(g, op, x->t.type, x->t.ne, freq_factors ? 3 : 2,
                                 (loam_node *[]){x, positions, freq_factors});
    if (n)
        n->params.rope = *p;
    return n;
}

loam_node *loam_rope(loam_graph *g, loam_node *x, loam_node *positions, loam_node *freq_factors,
                     const loam_rope_params *p)
{
    return turned(g, LOAM_OP_ROPE, x, positions, freq_factors, p);
}

loam_node *loam_rope_back(loam_graph *g, loam_node *dy, loam_node *positions,
                          loam_node *freq_factors, const loam_rope_params *p)
{
    return turned(g, LOAM_OP_ROPE_BACK, dy, positions, freq_factors, p);
}

/* ---- references and backward -------------------------------------------------------------- */

/* The pair at which a frequency turns `beta` times within the original context. */
static double pair_of_turns(const loam_rope_params *p, double beta)
{
    return p->n_dims * log(p->n_ctx_orig / (beta * TWO_PI)) / (2 * log((double)p->freq_base));
}

/* YaRN's share of the extrapolated angle at pair j. */
static double yarn_mix(const loam_rope_params *p, int64_t j)
{
    const double low = fmax(0, floor(pair_of_turns(p, p->beta_fast)));
    const double high = fmin(p->n_dims - 1, ceil(pair_of_turns(p, p->beta_slow)));
    const double ramp = ((double)j - low) / fmax(0.001, high - low);
    return p->ext_factor * (1 - fmin(1, fmax(0, ramp)));
}

/* Radians that pair j turns for each step of position. */
static double angle_per_step(const loam_rope_params *p, const loam_tensor *freq_factors, int64_t j)
{
    const double factor = freq_factors ? loam_get(freq_factors, j, 0, 0, 0) : 1;
    const double extrapolated = pow((double)p->freq_base, -2.0 * (double)j / p->n_dims) / factor;
    if (p->ext_factor == 0)
        return p->freq_scale * extrapolated;
    const double mix = yarn_mix(p, j);
    return p->freq_scale * extrapolated * (1 - mix) + extrapolated * mix;
}

static double magnitude(const loam_rope_params *p)
{
    if (p->ext_factor == 0)
        return p->attn_factor;
    return p->attn_factor * (1 + 0.1 * log(1 / (double)p->freq_scale));
}

static void turn(const loam_node *n, double direction)
{
    const loam_tensor *x = &n->src[0]->t, *positions = &n->src[1]->t;
    const loam_tensor *factors = n->n_src > 2 ? &n->src[2]->t : NULL;
    const loam_rope_params *p = &n->params.rope;
    const double scale = magnitude(p);
    for (int64_t j = 0; j < p->n_dims / 2; j++) {
        const int64_t first = p->mode == LOAM_ROPE_NEOX ? j : 2 * j;
        const int64_t second = p->mode == LOAM_ROPE_NEOX ? j + p->n_dims / 2 : 2 * j + 1;
        const double step = direction * angle_per_step(p, factors, j);
        for (int64_t r = 0; r < loam_tensor_rows(x); r++) {
            const loam_row at = loam_row_at(x, r);
            const double angle = step * loam_get(positions, at.i2, 0, 0, 0);
            const double c = scale * cos(angle), s = scale * sin(angle);
            const double a = loam_get_at(x, first, at), b = loam_get_at(x, second, at);
            loam_set_at(&n->t, first, at, a * c - b * s);
            loam_set_at(&n->t, second, at, a * s + b * c);
        }
    }
    for (int64_t r = 0; r < loam_tensor_rows(x); r++)
        for (int64_t i = p->n_dims; i < x->ne[0]; i++)
            loam_set_at(&n->t, i, loam_row_at(x, r), loam_get_at(x, i, loam_row_at(x, r)));
}

static loam_status rope_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    turn(n, 1);
    return LOAM_OK;
}

static loam_status rope_back_reference(const loam_node *n, loam_error *e)
{
    (void)e;
    turn(n, -1);
    return LOAM_OK;
}

/* The gradient of either turns the other way. */
static void rope_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_node *factors = n->n_src > 2 ? n->src[2] : NULL;
    if (factors && factors->needs_grad) {
        loam_graph_fail(g, LOAM_E_UNSUPPORTED,
                        "%s (node '%s') has no gradient for its frequency factors",
                        loam_op_get(n->op)->name, n->name);
        return;
    }
    loam_op op = n->op == LOAM_OP_ROPE ? LOAM_OP_ROPE_BACK : LOAM_OP_ROPE;
    if (n->src[0]->needs_grad)
        loam_grad_add(g, n->src[0], turned(g, op, dy, n->src[1], factors, &n->params.rope));
}

static double rope_flops(const loam_node *n)
{
    return 6.0 * (double)n->params.rope.n_dims / 2 * (double)loam_tensor_rows(&n->t);
}

/* ---- cases -------------------------------------------------------------------------------- */

enum { P_LAYOUT, P_MODE, P_DIMS, P_CONTEXT, P_FACTORS, P_FIRST, P_LAST };
enum { F_BASE, F_SCALE, F_EXT, F_ATTN, F_FAST, F_SLOW };

typedef struct rope_case {
    int64_t ne[LOAM_MAX_DIMS];
    int layout;
    int n_dims;
    bool factors;
    bool yarn;
    float base, freq_scale, attn_factor;
    int64_t first_position, last_position;
} rope_case;

/* p: layout, mode, n_dims, n_ctx_orig, factors, positions, then ne; f: the parameters. */
static loam_node *build_rope(loam_graph *g, const loam_case *c)
{
    const int64_t *ne = c->p + P_LAST + 1;
    const loam_rope_params p = {.mode = (loam_rope_mode)c->p[P_MODE],
                                .n_dims = (int32_t)c->p[P_DIMS],
                                .n_ctx_orig = (int32_t)c->p[P_CONTEXT],
                                .freq_base = c->f[F_BASE],
                                .freq_scale = c->f[F_SCALE],
                                .ext_factor = c->f[F_EXT],
                                .attn_factor = c->f[F_ATTN],
                                .beta_fast = c->f[F_FAST],
                                .beta_slow = c->f[F_SLOW]};
    loam_node *x = loam_case_laid_out(g, c->type, ne, (loam_layout)c->p[P_LAYOUT], LOAM_FILL_NORMAL,
                                      1, 0, c->check_grad);
    loam_node *positions =
        loam_case_input(g, LOAM_TYPE_I32, (int64_t[]){ne[2], 1, 1, 1}, LOAM_FILL_IDS,
                        (double)c->p[P_FIRST], (double)c->p[P_LAST], false);
    loam_node *factors = NULL;
    if (c->p[P_FACTORS])
        factors = loam_case_input(g, LOAM_TYPE_F32, (int64_t[]){p.n_dims / 2, 1, 1, 1},
                                  LOAM_FILL_UNIFORM, 1, 8, false);
    return turned(g, c->op, x, positions, factors, &p);
}

static void add_case(loam_case_list *list, loam_op op, loam_rope_mode mode, const rope_case *r)
{
    const int64_t *ne = r->ne;
    loam_case *c = loam_case_add(
        list, op, LOAM_TYPE_F32, build_rope,
        "f32 [%lld,%lld,%lld,%lld] %s, %s, n_dims %d, base %g, scale %g%s%s, positions %lld-%lld",
        (long long)ne[0], (long long)ne[1], (long long)ne[2], (long long)ne[3],
        loam_layout_name((loam_layout)r->layout), mode == LOAM_ROPE_NEOX ? "neox" : "normal",
        r->n_dims, (double)r->base, (double)r->freq_scale, r->yarn ? ", yarn" : "",
        r->factors ? ", factors" : "", (long long)r->first_position,
        (long long)r->last_position - 1);
    c->p[P_LAYOUT] = r->layout;
    c->p[P_MODE] = mode;
    c->p[P_DIMS] = r->n_dims;
    c->p[P_CONTEXT] = r->yarn ? 4096 : 0;
    c->p[P_FACTORS] = r->factors;
    c->p[P_FIRST] = r->first_position;
    c->p[P_LAST] = r->last_position;
    for (int d = 0; d < LOAM_MAX_DIMS; d++)
        c->p[P_LAST + 1 + d] = ne[d];
    c->f[F_BASE] = r->base;
    c->f[F_SCALE] = r->freq_scale;
    c->f[F_EXT] = r->yarn ? 1 : 0;
    c->f[F_ATTN] = r->attn_factor;
    c->f[F_FAST] = 32;
    c->f[F_SLOW] = 1;
    c->check_grad = ne[0] * ne[1] * ne[2] * ne[3] < 10000;
}

static void cases_of(loam_case_list *list, loam_op op)
{
    static const rope_case rows[] = {
        {{128, 3, 5, 1}, 0, 128, false, false, 1e4f, 1, 1, 0, 512},
        {{64, 4, 7, 2}, 0, 64, false, false, 5e5f, 1, 1, 0, 4096},
        {{64, 4, 7, 2}, LOAM_LAYOUT_TRANSPOSED, 64, false, false, 1e4f, 1, 1, 0, 4096},
        {{64, 4, 7, 2}, LOAM_LAYOUT_PERMUTED, 64, false, false, 1e4f, 1, 1, 0, 4096},
        {{64, 4, 7, 2}, LOAM_LAYOUT_STRIDED, 64, false, false, 1e4f, 1, 1, 0, 4096},
        {{80, 2, 5, 1}, 0, 20, false, false, 1e4f, 1, 1, 0, 4096},
        {{96, 2, 5, 1}, LOAM_LAYOUT_STRIDED, 64, false, false, 1e4f, 1, 1, 0, 4096},
        {{2, 1, 3, 1}, 0, 2, false, false, 1e4f, 1, 1, 0, 4096},
        {{128, 2, 5, 1}, 0, 128, true, false, 5e5f, 1, 1, 0, 131072},
        {{96, 2, 5, 1}, 0, 48, true, false, 1e4f, 1, 1.19f, 0, 131072},
        {{128, 2, 5, 1}, 0, 128, false, false, 1e4f, 0.125f, 1, 0, 32768},
        {{128, 2, 5, 1}, 0, 128, false, true, 1e4f, 0.25f, 1, 0, 16384},
        {{128, 2, 5, 1}, 0, 64, false, true, 1e6f, 0.25f, 0.8f, 32768, 131072},
        {{128, 2, 5, 1}, 0, 128, true, true, 1e4f, 0.25f, 1, 0, 16384},
        {{128, 2, 9, 1}, 0, 128, false, false, 1e4f, 1, 1, 32768, 131072},
        {{64, 2, 9, 1}, 0, 64, false, false, 1e6f, 1, 1, 131072, 1048576},
        {{128, 32, 64, 1}, 0, 128, false, false, 1e6f, 1, 1, 0, 32768},
    };
    for (int i = 0; i < LOAM_COUNT(rows); i++) {
        add_case(list, op, LOAM_ROPE_NORMAL, &rows[i]);
        add_case(list, op, LOAM_ROPE_NEOX, &rows[i]);
    }
}

static void rope_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_ROPE);
}

static void rope_back_cases(loam_case_list *list)
{
    cases_of(list, LOAM_OP_ROPE_BACK);
}

const loam_op_def loam_op_rope = {.name = "ROPE",
                                  .reference = rope_reference,
                                  .backward = rope_backward,
                                  .cases = rope_cases,
                                  .flops = rope_flops};

const loam_op_def loam_op_rope_back = {.name = "ROPE_BACK",
                                       .reference = rope_back_reference,
                                       .backward = rope_backward,
                                       .cases = rope_back_cases,
                                       .flops = rope_flops};
