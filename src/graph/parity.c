/* parity.c: every case of the op table on a device, against the references in double precision.
 * Nothing here knows an op: what a case is stands in the op's own file. */
#include "graph/parity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MIN_TIMED_RUNS 5
#define MAX_TIMED_RUNS 50
#define TIMED_MS 200.0

typedef struct tester {
    loam_device *device;
    loam_device *reference;
    const loam_parity_options *o;
    bool (*report)(void *user, const loam_parity_case *r);
    void *user;
} tester;

parity_stream parity_stream_of(const loam_case *c, const char *what, int index)
{
    parity_stream s;
    snprintf(s.name, sizeof s.name, "%s/%s/%s/%d", loam_op_get(c->op)->name, c->label, what, index);
    return s;
}

/* ---- comparison --------------------------------------------------------------------------- */

static void compare_element(parity_error *p, double got, double expected, int64_t i0, int64_t i1,
                            int64_t i2, int64_t i3)
{
    double d = got == expected || (isnan(got) && isnan(expected)) ? 0 : fabs(got - expected);
    if (isnan(d))
        d = INFINITY;
    p->difference += d * d;
    if (isfinite(expected))
        p->size += expected * expected;
    if (d > p->worst) {
        p->worst = d;
        snprintf(p->where, sizeof p->where, "[%lld,%lld,%lld,%lld] is %.7g, not %.7g",
                 (long long)i0, (long long)i1, (long long)i2, (long long)i3, got, expected);
    }
}

void parity_compare(parity_error *p, const loam_tensor *got, const loam_tensor *expected)
{
    for (int64_t i3 = 0; i3 < got->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < got->ne[2]; i2++)
            for (int64_t i1 = 0; i1 < got->ne[1]; i1++)
                for (int64_t i0 = 0; i0 < got->ne[0]; i0++)
                    compare_element(p, loam_get(got, i0, i1, i2, i3),
                                    loam_get(expected, i0, i1, i2, i3), i0, i1, i2, i3);
}

double parity_nmse(const parity_error *p)
{
    if (p->difference == 0)
        return 0;
    double nmse = p->size > 0 ? p->difference / p->size : INFINITY;
    return isnan(nmse) ? INFINITY : nmse;
}

static void fail(loam_parity_case *out, char *reason, const char *format, ...) LOAM_PRINTF(3, 4);
static void fail(loam_parity_case *out, char *reason, const char *format, ...)
{
    if (out->outcome == LOAM_FAILED)
        return;
    out->outcome = LOAM_FAILED;
    va_list args;
    va_start(args, format);
    vsnprintf(reason, LOAM_REASON_BYTES, format, args);
    va_end(args);
}

/* Takes one tensor's error into the result. */
static void judge(loam_parity_case *out, char *reason, const parity_error *p, const char *what)
{
    double nmse = parity_nmse(p);
    if (!(nmse <= out->nmse))
        out->nmse = nmse;
    if (!(nmse <= out->bar))
        fail(out, reason, "%s: NMSE %.2g above %.0g; %.100s", what, nmse, out->bar, p->where);
}

static bool differs(double a, double b)
{
    return !(a == b || (isnan(a) && isnan(b)));
}

/* A leaf after the run. What the reference left alone must be untouched on the device too; what it
 * wrote (an in-place op's target) is compared like any result. */
static void check_leaf(const parity_run *dev, const parity_run *ref, int index,
                       loam_parity_case *out, char *reason)
{
    const loam_node *n = dev->g->nodes[index], *m = ref->g->nodes[index];
    const loam_tensor was = parity_tensor(n, dev->before), got = parity_tensor(n, dev->after);
    const loam_tensor expected = parity_tensor(m, ref->after);
    bool is_same = memcmp(was.data, got.data, loam_tensor_bytes(&was)) == 0;
    if (n->t.type == m->t.type && memcmp(was.data, expected.data, loam_tensor_bytes(&was)) == 0) {
        if (!is_same)
            fail(out, reason, "input %d (%s) was changed", index, loam_type_name(n->t.type));
        return;
    }
    bool is_written = false;
    for (int64_t r = 0; r < loam_tensor_rows(&was); r++) {
        int64_t i1 = r % was.ne[1], i2 = r / was.ne[1] % was.ne[2], i3 = r / was.ne[1] / was.ne[2];
        for (int64_t i = 0; i < was.ne[0]; i++) {
            double before = loam_get(&was, i, i1, i2, i3);
            if (differs(before, loam_get(&expected, i, i1, i2, i3)))
                is_written = true;
            else if (!is_same && differs(before, loam_get(&got, i, i1, i2, i3)))
                fail(out, reason, "input %d was changed at [%lld,%lld,%lld,%lld]", index,
                     (long long)i, (long long)i1, (long long)i2, (long long)i3);
        }
    }
    if (is_written) {
        parity_error p = {0};
        parity_compare(&p, &got, &expected);
        judge(out, reason, &p, "what was written in place");
    }
}

static void compare_runs(const parity_run *dev, const parity_run *ref, loam_parity_case *out,
                         char *reason)
{
    char guard[LOAM_REASON_BYTES];
    if (!parity_guards_hold(dev, guard))
        fail(out, reason, "%s", guard);
    parity_error p = {0};
    const loam_tensor got = parity_tensor(dev->target, dev->after);
    const loam_tensor expected = parity_tensor(ref->target, ref->after);
    parity_compare(&p, &got, &expected);
    judge(out, reason, &p, "the result");
    if (dev->target->aux) {
        parity_error q = {0};
        const loam_tensor aux = parity_tensor(dev->target->aux, dev->after);
        const loam_tensor expected_aux = parity_tensor(ref->target->aux, ref->after);
        parity_compare(&q, &aux, &expected_aux);
        judge(out, reason, &q, "the second result");
    }
    for (int i = 0; i < dev->g->n_nodes; i++)
        if (dev->g->nodes[i]->op == LOAM_OP_NONE)
            check_leaf(dev, ref, i, out, reason);
}

/* ---- one case ----------------------------------------------------------------------------- */

/* Operations, and bytes of operands and results, of all nodes that a run computes. */
static void count_work(const parity_run *r, loam_parity_case *out)
{
    for (int i = 0; i < r->n_nodes; i++) {
        const loam_node *n = r->nodes[i];
        out->flops += loam_op_flops(n);
        out->bytes += (double)loam_tensor_bytes(&n->t);
        if (n->aux)
            out->bytes += (double)loam_tensor_bytes(&n->aux->t);
        for (int s = 0; s < n->n_src; s++)
            if (n->src[s])
                out->bytes += (double)loam_tensor_bytes(&n->src[s]->t);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static loam_status measure(parity_run *r, loam_parity_case *out, loam_error *e)
{
    double times[MAX_TIMED_RUNS], total = 0;
    int n = 0;
    while (n < MIN_TIMED_RUNS || (n < MAX_TIMED_RUNS && total < TIMED_MS)) {
        double start = loam_now_ms();
        LOAM_TRY(parity_repeat(r, e));
        times[n] = loam_now_ms() - start;
        total += times[n++];
    }
    qsort(times, (size_t)n, sizeof times[0], by_value);
    out->time_ms = times[n / 2];
    return LOAM_OK;
}

static loam_status prepare_inputs(const tester *t, const loam_case *c, const parity_run *dev,
                                  const parity_run *ref, loam_error *e)
{
    if (dev->g->n_nodes != ref->g->n_nodes)
        return loam_fail(e, LOAM_E_USAGE, "the case has %d nodes in F32 and %d in F64",
                         dev->g->n_nodes, ref->g->n_nodes);
    for (int i = 0; i < dev->g->n_nodes; i++) {
        const loam_node *n = dev->g->nodes[i], *m = ref->g->nodes[i];
        if (n->op != m->op || !loam_same_shape(&n->t, &m->t))
            return loam_fail(e, LOAM_E_USAGE, "node %d of the case differs in F32 and F64", i);
        if (n->op != LOAM_OP_NONE)
            continue;
        const loam_tensor from = parity_tensor(n, dev->before);
        const loam_tensor to = parity_tensor(m, ref->before);
        LOAM_TRY(
            parity_fill_leaf(dev->g, n, &from, t->o->seed, parity_stream_of(c, "leaf", i).name, e));
        parity_copy(&from, &to);
    }
    return LOAM_OK;
}

static loam_status run_both(const tester *t, const loam_case *c, parity_run *dev, parity_run *ref,
                            loam_parity_case *out, char *reason, loam_error *e)
{
    char refusal[LOAM_REASON_BYTES];
    LOAM_TRY(parity_build(dev, c, LOAM_TYPE_F32, e));
    LOAM_TRY(parity_bind(dev, t->device, NULL, 0, false, refusal, e));
    count_work(dev, out);
    if (refusal[0]) {
        out->outcome = LOAM_REFUSED;
        snprintf(reason, LOAM_REASON_BYTES, "%s", refusal);
        return LOAM_OK;
    }
    LOAM_TRY(parity_build(ref, c, LOAM_TYPE_F64, e));
    LOAM_TRY(parity_bind(ref, t->reference, NULL, 0, true, refusal, e));
    if (refusal[0])
        return loam_fail(e, LOAM_E_UNSUPPORTED, "the reference: %s", refusal);
    LOAM_TRY(prepare_inputs(t, c, dev, ref, e));
    LOAM_TRY(parity_execute(ref, e));
    LOAM_TRY(parity_execute(dev, e));
    compare_runs(dev, ref, out, reason);
    if (t->o->perf)
        LOAM_TRY(measure(dev, out, e));
    return LOAM_OK;
}

static bool run_case(const tester *t, const loam_case *c)
{
    char reason[LOAM_REASON_BYTES] = "";
    loam_parity_case out = {.op = loam_op_get(c->op)->name,
                            .type = loam_type_name(c->type),
                            .label = c->label,
                            .bar = c->bar,
                            .reason = reason};
    parity_run dev = {0}, ref = {0};
    loam_error e = {0};
    t->device->api->set_scratch_limit(t->device, c->scratch_limit_bytes);
    loam_status status = run_both(t, c, &dev, &ref, &out, reason, &e);
    parity_release(&dev);
    parity_release(&ref);
    if (status == LOAM_OK && out.outcome == LOAM_PASSED && t->o->grad && c->check_grad)
        status = parity_check_grad(t->device, t->reference, c, t->o->seed, &out, reason, &e);
    t->device->api->set_scratch_limit(t->device, 0);
    if (status != LOAM_OK) {
        out.nmse = INFINITY;
        fail(&out, reason, "%.150s", e.message);
    }
    return t->report(t->user, &out);
}

/* ---- the table ---------------------------------------------------------------------------- */

/* A result for an op whose list of cases is itself at fault. */
static bool report_op(const tester *t, loam_op op, const char *reason)
{
    const loam_parity_case out = {.op = loam_op_get(op)->name,
                                  .type = "",
                                  .label = "declared cases",
                                  .outcome = LOAM_FAILED,
                                  .nmse = INFINITY,
                                  .reason = reason};
    return t->report(t->user, &out);
}

static bool labels_differ(const loam_case_list *list)
{
    for (int i = 0; i < list->n; i++)
        for (int j = 0; j < i; j++)
            if (list->cases[i].op == list->cases[j].op &&
                strcmp(list->cases[i].label, list->cases[j].label) == 0)
                return false;
    return true;
}

static bool run_list(const tester *t, loam_op op, const loam_case_list *list)
{
    bool has_grad = false;
    if (list->n == 0)
        return report_op(t, op, "the op declares no parity case");
    if (!labels_differ(list))
        return report_op(t, op, "two of the op's parity cases have one label");
    for (int i = 0; i < list->n; i++) {
        const loam_case *c = &list->cases[i];
        has_grad = has_grad || c->check_grad;
        if (t->o->type && strcasecmp(t->o->type, loam_type_name(c->type)) != 0)
            continue;
        if (t->o->skip_slow && c->is_slow)
            continue;
        if (!run_case(t, c))
            return false;
    }
    if (t->o->grad && !has_grad && loam_op_get(op)->backward)
        return report_op(t, op, "the op has a backward rule, and no case checks it");
    return true;
}

static loam_status run_op(const tester *t, loam_op op, loam_error *e)
{
    const loam_op_def *def = loam_op_get(op);
    loam_case_list list = {0};
    if (def->cases)
        def->cases(&list);
    else if (def->is_view)
        return LOAM_OK;
    loam_status status = LOAM_OK;
    if (list.failed)
        status = loam_fail(e, LOAM_E_MEMORY, "no memory for the parity cases of %s", def->name);
    else if (!run_list(t, op, &list))
        status = loam_fail(e, LOAM_E_CANCELLED, "parity was stopped at %s", def->name);
    loam_free(list.cases);
    return status;
}

static loam_status check_options(const loam_parity_options *o, loam_error *e)
{
    loam_type type;
    if (o->op && loam_op_from_name(o->op) == LOAM_OP_COUNT)
        return loam_fail(e, LOAM_E_USAGE, "no op is called '%s'; names are ggml's, such as MUL_MAT",
                         o->op);
    if (o->type && !loam_type_from_name(o->type, &type))
        return loam_fail(e, LOAM_E_USAGE, "no type is called '%s'; names are ggml's, such as q4_K",
                         o->type);
    return LOAM_OK;
}

loam_status loam_parity_run(loam_device *d, const loam_parity_options *o,
                            bool (*report)(void *user, const loam_parity_case *r), void *user,
                            loam_error *e)
{
    LOAM_TRY(check_options(o, e));
    tester t = {.device = d, .o = o, .report = report, .user = user};
    LOAM_TRY(loam_device_reference_open(&t.reference, e));
    loam_status status = LOAM_OK;
    for (int op = 0; status == LOAM_OK && op < LOAM_OP_COUNT; op++)
        if (!o->op || loam_op_from_name(o->op) == (loam_op)op)
            status = run_op(&t, (loam_op)op, e);
    loam_device_close(t.reference);
    return status;
}
