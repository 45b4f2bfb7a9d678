/* parity_grad.c: the backward rules of a parity case.
 *
 * The loss is sum(dy * y) for a random dy: the plain sum of y would hide scale errors behind
 * gradients that are truly zero (a softmax's row sums to 1). Differences are taken in F64 with the
 * five-point stencil (8 (y(h) - y(-h)) - (y(2h) - y(-2h))) / 12 h, element by element of y before
 * the contraction, so that what does not change cancels exactly. */
#include "graph/parity.h"

#include <math.h>
#include <string.h>

#define SAMPLED_ELEMENTS 64 /* of each parameter */
#define STEP 1e-3
#define GRAD_BAR 1e-8
/* Squared gradients below these count as zero: what is left is rounding. */
#define FLOOR_F64 1e-12
#define FLOOR_F32 1e-8

/* One build with its gradient. */
typedef struct grad_run {
    parity_run run;
    loam_node *dy;
    int n_forward; /* nodes of run.nodes up to the case's target */
} grad_run;

static loam_status build_gradient(grad_run *r, const loam_case *c, loam_type activation,
                                  loam_error *e)
{
    LOAM_TRY(parity_build(&r->run, c, activation, e));
    loam_graph *g = r->run.g;
    loam_node *y = r->run.target;
    loam_type type = y->t.type == LOAM_TYPE_F64 ? LOAM_TYPE_F64 : LOAM_TYPE_F32;
    r->dy = loam_leaf(g, type, y->t.ne, "dy");
    return loam_graph_backward(g, loam_sum(g, loam_mul(g, y, r->dy)), false, e);
}

static loam_status bind_gradient(grad_run *r, loam_device *d, bool in_place, char *refusal,
                                 loam_error *e)
{
    const loam_graph *g = r->run.g;
    loam_node **outputs = loam_alloc(((size_t)g->n_nodes + 1) * sizeof(loam_node *));
    if (!outputs)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for a gradient's outputs");
    int n = 0;
    outputs[n++] = r->run.target;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->is_param && g->nodes[i]->grad)
            outputs[n++] = g->nodes[i]->grad;
    loam_status status = parity_bind(&r->run, d, outputs, n, in_place, refusal, e);
    loam_free(outputs);
    for (int i = 0; i < r->run.n_nodes && r->run.nodes[i]->index <= r->run.target->index; i++)
        r->n_forward = i + 1;
    return status;
}

static void fill_dy(const grad_run *r, const loam_case *c, uint64_t seed)
{
    loam_rng rng = loam_rng_stream(seed, parity_stream_of(c, "dy", 0).name);
    const loam_tensor t = parity_tensor(r->dy, r->run.before);
    for (int64_t row = 0; row < loam_tensor_rows(&t); row++)
        for (int64_t i = 0; i < t.ne[0]; i++)
            loam_set(&t, i, row % t.ne[1], row / t.ne[1] % t.ne[2], row / t.ne[1] / t.ne[2],
                     loam_rng_normal(&rng));
}

static loam_status fill_inputs(const grad_run *r, const loam_case *c, uint64_t seed, loam_error *e)
{
    for (int i = 0; i < r->dy->index; i++) {
        const loam_node *n = r->run.g->nodes[i];
        const loam_tensor t = parity_tensor(n, r->run.before);
        if (n->op == LOAM_OP_NONE)
            LOAM_TRY(
                parity_fill_leaf(r->run.g, n, &t, seed, parity_stream_of(c, "leaf", i).name, e));
    }
    fill_dy(r, c, seed);
    return LOAM_OK;
}

/* ---- central differences ------------------------------------------------------------------ */

/* Adds weight * sum(dy * y) to the elements of `terms`, one for each of y. */
static void add_terms(const grad_run *r, double weight, double *terms)
{
    const loam_tensor y = parity_tensor(r->run.target, r->run.after);
    const loam_tensor dy = parity_tensor(r->dy, r->run.after);
    for (int64_t row = 0; row < loam_tensor_rows(&y); row++) {
        int64_t i1 = row % y.ne[1], i2 = row / y.ne[1] % y.ne[2], i3 = row / y.ne[1] / y.ne[2];
        for (int64_t i = 0; i < y.ne[0]; i++, terms++)
            *terms += weight * loam_get(&dy, i, i1, i2, i3) * loam_get(&y, i, i1, i2, i3);
    }
}

/* d loss / d element, by differences. */
static loam_status difference(grad_run *r, double *element, double *terms, double *out,
                              loam_error *e)
{
    static const double steps[] = {1, -1, 2, -2}, weights[] = {8, -8, -1, 1};
    const int64_t n = loam_tensor_ne(&r->run.target->t);
    const double at = *element, h = STEP * fmax(1, fabs(at));
    memset(terms, 0, (size_t)n * sizeof *terms);
    for (int s = 0; s < LOAM_COUNT(steps); s++) {
        *element = at + steps[s] * h;
        LOAM_TRY(
            r->run.device->api->run(r->run.device, r->run.nodes, r->n_forward, r->run.scratch, e));
        add_terms(r, weights[s], terms);
    }
    *element = at;
    *out = 0;
    for (int64_t i = 0; i < n; i++)
        *out += terms[i];
    *out /= 12 * h;
    return LOAM_OK;
}

/* All elements where there are few, else a random choice without repetition. */
static int choose_elements(int64_t n, loam_rng *rng, int64_t chosen[SAMPLED_ELEMENTS])
{
    int count = (int)LOAM_MIN(n, SAMPLED_ELEMENTS);
    for (int k = 0; k < count; k++) {
        /* Floyd's sampling: the k-th draw is from the first n - count + k + 1. */
        int64_t top = n - count + k;
        chosen[k] = (int64_t)loam_rng_below(rng, (uint64_t)top + 1);
        for (int j = 0; j < k; j++)
            if (chosen[j] == chosen[k]) {
                chosen[k] = top;
                break;
            }
    }
    return count;
}

static double floored_nmse(double squares, double size, int64_t n, double floor)
{
    return squares / fmax(size, (double)n * floor);
}

static loam_status check_parameter(grad_run *r, const loam_node *p, loam_rng *rng, double *terms,
                                   loam_parity_case *out, char *reason, loam_error *e)
{
    const loam_tensor t = parity_tensor(p, r->run.before);
    double squares = 0, size = 0, worst = -1, got = 0, expected = 0;
    int64_t chosen[SAMPLED_ELEMENTS], at = 0;
    int count = choose_elements(loam_tensor_ne(&t), rng, chosen);
    for (int k = 0; k < count; k++) {
        int64_t i0 = chosen[k] % t.ne[0], row = chosen[k] / t.ne[0];
        int64_t i1 = row % t.ne[1], i2 = row / t.ne[1] % t.ne[2], i3 = row / t.ne[1] / t.ne[2];
        double by_rule = 0, by_difference;
        if (p->grad) {
            const loam_tensor d = parity_tensor(p->grad, r->run.after);
            by_rule = loam_get(&d, i0, i1, i2, i3);
        }
        LOAM_TRY(difference(r, (double *)t.data + chosen[k], terms, &by_difference, e));
        squares += (by_rule - by_difference) * (by_rule - by_difference);
        size += by_difference * by_difference;
        if (!(fabs(by_rule - by_difference) <= worst)) {
            worst = fabs(by_rule - by_difference);
            got = by_rule;
            expected = by_difference;
            at = chosen[k];
        }
    }
    double nmse = floored_nmse(squares, size, count, FLOOR_F64);
    out->n_grad += count;
    if (!(nmse <= out->grad_nmse))
        out->grad_nmse = isnan(nmse) ? INFINITY : nmse;
    if (!(nmse <= GRAD_BAR) && out->outcome == LOAM_PASSED) {
        out->outcome = LOAM_FAILED;
        snprintf(reason, LOAM_REASON_BYTES,
                 "gradient: NMSE %.2g above %.0g; at element %lld of leaf %d the rule gives %g, "
                 "differences %g",
                 nmse, GRAD_BAR, (long long)at, p->index, got, expected);
    }
    return LOAM_OK;
}

static loam_status check_parameters(grad_run *r, const loam_case *c, uint64_t seed,
                                    loam_parity_case *out, char *reason, loam_error *e)
{
    loam_rng rng = loam_rng_stream(seed, parity_stream_of(c, "chosen", 0).name);
    double *terms = loam_alloc((size_t)loam_tensor_ne(&r->run.target->t) * sizeof *terms);
    if (!terms)
        return loam_fail(e, LOAM_E_MEMORY, "no memory for central differences");
    loam_status status = LOAM_OK;
    for (int i = 0; status == LOAM_OK && i < r->dy->index; i++) {
        const loam_node *p = r->run.g->nodes[i];
        /* A leaf of a narrower type cannot be moved by a small step. */
        if (p->is_param && p->t.type == LOAM_TYPE_F64)
            status = check_parameter(r, p, &rng, terms, out, reason, e);
    }
    loam_free(terms);
    if (status == LOAM_OK && out->n_grad == 0)
        return loam_fail(e, LOAM_E_USAGE, "the case asks for a gradient and trains no f32 leaf");
    return status;
}

/* ---- the device's gradient ---------------------------------------------------------------- */

static loam_status compare_gradients(const grad_run *reference, grad_run *r, loam_parity_case *out,
                                     char *reason, loam_error *e)
{
    for (int i = 0; i <= r->dy->index; i++) {
        const loam_node *n = r->run.g->nodes[i];
        const loam_tensor from = parity_tensor(reference->run.g->nodes[i], reference->run.before);
        const loam_tensor to = parity_tensor(n, r->run.before);
        if (n->op == LOAM_OP_NONE)
            parity_copy(&from, &to);
    }
    LOAM_TRY(parity_execute(&r->run, e));
    for (int i = 0; i < r->dy->index; i++) {
        const loam_node *p = r->run.g->nodes[i], *q = reference->run.g->nodes[i];
        if (!p->is_param || !p->grad || !q->grad)
            continue;
        const loam_tensor got = parity_tensor(p->grad, r->run.after);
        const loam_tensor expected = parity_tensor(q->grad, reference->run.after);
        parity_error difference = {0};
        parity_compare(&difference, &got, &expected);
        double nmse =
            floored_nmse(difference.difference, difference.size, loam_tensor_ne(&got), FLOOR_F32);
        if (!(nmse <= LOAM_BAR_PRODUCT) && out->outcome == LOAM_PASSED) {
            out->outcome = LOAM_FAILED;
            snprintf(reason, LOAM_REASON_BYTES,
                     "the device's gradient of leaf %d: NMSE %.2g; %.90s", i, nmse,
                     difference.where);
        }
    }
    if (!parity_guards_hold(&r->run, reason))
        out->outcome = LOAM_FAILED;
    return LOAM_OK;
}

static loam_status check_device(loam_device *d, const grad_run *reference, const loam_case *c,
                                loam_parity_case *out, char *reason, loam_error *e)
{
    grad_run r = {0};
    char refusal[LOAM_REASON_BYTES] = "";
    loam_status status = build_gradient(&r, c, LOAM_TYPE_F32, e);
    if (status == LOAM_OK)
        status = bind_gradient(&r, d, false, refusal, e);
    if (status == LOAM_OK && refusal[0]) {
        out->outcome = LOAM_REFUSED;
        snprintf(reason, LOAM_REASON_BYTES, "backward: %.140s", refusal);
    } else if (status == LOAM_OK) {
        status = compare_gradients(reference, &r, out, reason, e);
    }
    parity_release(&r.run);
    return status;
}

loam_status parity_check_grad(loam_device *d, loam_device *reference, const loam_case *c,
                              uint64_t seed, loam_parity_case *out, char *reason, loam_error *e)
{
    grad_run r = {0};
    char refusal[LOAM_REASON_BYTES] = "";
    loam_status status = build_gradient(&r, c, LOAM_TYPE_F64, e);
    if (status == LOAM_OK)
        status = bind_gradient(&r, reference, true, refusal, e);
    if (status == LOAM_OK && refusal[0])
        status = loam_fail(e, LOAM_E_UNSUPPORTED, "%s", refusal);
    if (status == LOAM_OK)
        status = fill_inputs(&r, c, seed, e);
    if (status == LOAM_OK)
        status = parity_execute(&r.run, e);
    if (status == LOAM_OK)
        status = check_parameters(&r, c, seed, out, reason, e);
    if (status == LOAM_OK && out->outcome == LOAM_PASSED)
        status = check_device(d, &r, c, out, reason, e);
    parity_release(&r.run);
    return status;
}
