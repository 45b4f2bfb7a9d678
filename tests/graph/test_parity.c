/* The parity tester: the whole table on the reference device, gradients included, and on the CPU;
 * refusals, selection, cancelling, reproducible results; central differences that catch a rule. */
#include "parity_support.h"

#include "graph/parity.h"

typedef struct totals {
    int n[3]; /* by outcome */
    int64_t n_grad;
    double nmse_sum, time_ms, flops, bytes;
    int stop_after;
} totals;

static bool add(void *user, const loam_parity_case *r)
{
    totals *t = user;
    t->n[r->outcome]++;
    t->n_grad += r->n_grad;
    t->nmse_sum += r->nmse;
    t->flops += r->flops;
    t->bytes += r->bytes;
    if (r->time_ms > 0)
        t->time_ms += r->time_ms;
    if (r->outcome == LOAM_FAILED)
        print_error("%s %s: %s\n", r->op, r->label, r->reason);
    return t->stop_after == 0 || --t->stop_after > 0;
}

static bool add_quietly(void *user, const loam_parity_case *r)
{
    totals *t = user;
    t->n[r->outcome]++;
    return true;
}

static totals run(loam_device *d, loam_parity_options o)
{
    totals t = {0};
    assert_int_equal(loam_parity_run(d, &o, add, &t, NULL), LOAM_OK);
    return t;
}

/* Products have over a thousand cases; of those a few types run here. `loam parity` runs all. */
static bool is_product(loam_op op)
{
    return op == LOAM_OP_MUL_MAT || op == LOAM_OP_OUT_PROD || op == LOAM_OP_LINEAR_CROSS_ENTROPY;
}

static void check_table(const char *device, int n_types)
{
    static const char *const types[] = {"q4_K", "iq2_s", "bf16"};
    loam_device *d;
    assert_int_equal(loam_device_open(device, NULL, &d, NULL), LOAM_OK);
    for (int op = 0; op < LOAM_OP_COUNT; op++) {
        const loam_op_def *def = loam_op_get((loam_op)op);
        if (def->is_view)
            continue;
        totals sum = {0};
        for (int k = 0; k < n_types; k++) {
            const char *type = is_product((loam_op)op) ? types[k] : NULL;
            totals t = run(d, (loam_parity_options){
                                  .op = def->name, .type = type, .grad = true, .skip_slow = true});
            for (int i = 0; i < LOAM_COUNT(t.n); i++)
                sum.n[i] += t.n[i];
            sum.n_grad += t.n_grad;
            if (!type)
                break;
        }
        print_message("%s %s: %d/%d, %lld gradients\n", device, def->name, sum.n[LOAM_PASSED],
                      sum.n[LOAM_PASSED] + sum.n[LOAM_FAILED], (long long)sum.n_grad);
        assert_true(sum.n[LOAM_PASSED] > 0);
        assert_int_equal(sum.n[LOAM_FAILED], 0);
        assert_int_equal(sum.n[LOAM_REFUSED], 0);
        /* An op with a rule has had it checked; the types above train no first operand. */
        if (def->backward && !is_product((loam_op)op))
            assert_true(sum.n_grad > 0);
    }
    loam_device_close(d);
}

static void test_table_on_the_reference(void **state)
{
    (void)state;
    check_table("reference", 1);
}

static void test_table_on_the_cpu(void **state)
{
    (void)state;
    check_table("cpu", 3);
}

static void test_results_are_reproducible(void **state)
{
    (void)state;
    loam_device *d;
    assert_int_equal(loam_device_reference_open(&d, NULL), LOAM_OK);
    loam_parity_options o = {.op = "soft_max", .seed = 3};
    totals a = run(d, o), b = run(d, o);
    o.seed = 4;
    totals c = run(d, o);
    assert_true(a.nmse_sum > 0);
    assert_true(a.nmse_sum == b.nmse_sum);
    assert_true(a.nmse_sum != c.nmse_sum);
    loam_device_close(d);
}

static void test_perf_counts(void **state)
{
    (void)state;
    loam_device *d;
    assert_int_equal(loam_device_reference_open(&d, NULL), LOAM_OK);
    totals t = run(d, (loam_parity_options){.op = "ADD", .type = "bf16", .perf = true});
    assert_true(t.time_ms > 0);
    /* [1025, 3] in bf16 with f32, f16 and bf16: one operation an element; both operands and the
     * result move. */
    assert_int_equal(t.n[LOAM_PASSED], 3);
    assert_true(t.flops == 3 * 3075.0);
    assert_true(t.bytes == 3075.0 * ((2 + 4 + 2) + (2 + 2 + 2) + (2 + 2 + 2)));
    loam_device_close(d);
}

static void test_options(void **state)
{
    (void)state;
    loam_device *d;
    loam_error e = {0};
    totals t = {.stop_after = 2};
    assert_int_equal(loam_device_reference_open(&d, NULL), LOAM_OK);
    const loam_parity_options no_op = {.op = "MATMUL"}, no_type = {.type = "q4_X"};
    const loam_parity_options few = {.op = "FILL"};
    assert_int_equal(loam_parity_run(d, &no_op, add, &t, &e), LOAM_E_USAGE);
    assert_non_null(strstr(e.message, "MATMUL"));
    e = (loam_error){0};
    assert_int_equal(loam_parity_run(d, &no_type, add, &t, &e), LOAM_E_USAGE);
    assert_non_null(strstr(e.message, "q4_X"));
    assert_int_equal(loam_parity_run(d, &few, add, &t, NULL), LOAM_E_CANCELLED);
    assert_int_equal(t.n[LOAM_PASSED], 2);
    loam_device_close(d);
}

/* ---- refusals ----------------------------------------------------------------------------- */

static bool takes_no_repeat_back(const loam_device *d, const loam_node *n, char *reason)
{
    (void)d;
    if (n->op != LOAM_OP_REPEAT_BACK)
        return true;
    snprintf(reason, LOAM_REASON_BYTES, "no kernel for it");
    return false;
}

typedef struct refusals {
    int n_forward, n_backward, n_passed;
} refusals;

static bool count_refusals(void *user, const loam_parity_case *r)
{
    refusals *n = user;
    assert_int_not_equal(r->outcome, LOAM_FAILED);
    if (r->outcome == LOAM_PASSED)
        n->n_passed++;
    else if (strcmp(r->reason, "REPEAT_BACK: no kernel for it") == 0)
        n->n_forward++;
    else if (strcmp(r->reason, "backward: REPEAT_BACK: no kernel for it") == 0)
        n->n_backward++;
    else
        fail_msg("reason '%s'", r->reason);
    return true;
}

/* A refusal is neither a pass nor a failure, and one in the backward graph counts too. */
static void test_refusals(void **state)
{
    (void)state;
    test_device d;
    test_device_init(&d, LOAM_OP_NONE, NULL);
    d.api.supports = takes_no_repeat_back;
    refusals n = {0};
    loam_parity_options o = {.op = "REPEAT_BACK"};
    assert_int_equal(loam_parity_run(&d.base, &o, count_refusals, &n, NULL), LOAM_OK);
    assert_true(n.n_forward > 0);
    assert_int_equal(n.n_passed + n.n_backward, 0);
    n = (refusals){0};
    o = (loam_parity_options){.op = "REPEAT", .grad = true};
    assert_int_equal(loam_parity_run(&d.base, &o, count_refusals, &n, NULL), LOAM_OK);
    assert_true(n.n_backward > 0);
    assert_true(n.n_passed > 0); /* those that check no gradient */
    assert_int_equal(n.n_forward, 0);
}

/* ---- scratch ------------------------------------------------------------------------------ */

static size_t limit_now, largest_limit;
static int n_limits;

static void note_limit(loam_device *d, size_t bytes)
{
    (void)d;
    limit_now = bytes;
    if (bytes > 0)
        n_limits++;
    largest_limit = LOAM_MAX(largest_limit, bytes);
}

static size_t one_byte_of_scratch(const loam_device *d, const loam_node *n)
{
    (void)d;
    (void)n;
    return 1000;
}

/* Scratch is as large as was asked for, and holds no zeros to be relied on. */
static loam_status look_at_scratch(loam_device *d, loam_node *const *nodes, int n_nodes,
                                   loam_buffer *scratch, loam_error *e)
{
    assert_true(scratch->bytes >= 1000);
    assert_int_equal(((uint8_t *)scratch->host)[999], 0xff);
    return test_device_run(d, nodes, n_nodes, scratch, e);
}

static void test_scratch(void **state)
{
    (void)state;
    test_device d;
    test_device_init(&d, LOAM_OP_NONE, NULL);
    d.api.set_scratch_limit = note_limit;
    d.api.scratch_bytes = one_byte_of_scratch;
    d.api.run = look_at_scratch;
    totals t =
        run(&d.base, (loam_parity_options){.op = "OUT_PROD", .type = "q8_0", .skip_slow = true});
    assert_true(t.n[LOAM_PASSED] > 0);
    assert_int_equal(t.n[LOAM_FAILED], 0);
    assert_true(n_limits > 0); /* cases in several row blocks */
    assert_true(largest_limit < (size_t)1 << 20);
    assert_int_equal(limit_now, 0); /* the device's default again */
}

/* ---- central differences ------------------------------------------------------------------ */

/* Through BF16 and back: the rule says 1, the differences see steps. */
static loam_node *build_steps(loam_graph *g, const loam_case *c)
{
    (void)c;
    loam_node *x =
        loam_case_input(g, LOAM_TYPE_F32, (int64_t[]){40, 5, 1, 1}, LOAM_FILL_NORMAL, 1, 0, true);
    return loam_cast(g, loam_cast(g, x, LOAM_TYPE_BF16), LOAM_TYPE_F32);
}

static loam_node *build_smooth(loam_graph *g, const loam_case *c)
{
    (void)c;
    loam_node *x =
        loam_case_input(g, LOAM_TYPE_F32, (int64_t[]){40, 5, 1, 1}, LOAM_FILL_NORMAL, 1, 0, true);
    return loam_gelu(g, loam_rms_norm(g, x, 1e-5f));
}

static void test_differences(void **state)
{
    (void)state;
    loam_device *d;
    assert_int_equal(loam_device_reference_open(&d, NULL), LOAM_OK);
    loam_case c = {.op = LOAM_OP_CPY, .label = "steps", .build = build_steps};
    loam_parity_case r = {0};
    char reason[LOAM_REASON_BYTES] = "";
    assert_int_equal(parity_check_grad(d, d, &c, 1, &r, reason, NULL), LOAM_OK);
    assert_int_equal(r.outcome, LOAM_FAILED);
    assert_int_equal(r.n_grad, 64); /* of 200 elements a sample */
    assert_true(r.grad_nmse > 0.1);
    assert_non_null(strstr(reason, "gradient"));

    c.build = build_smooth;
    r = (loam_parity_case){0};
    assert_int_equal(parity_check_grad(d, d, &c, 1, &r, reason, NULL), LOAM_OK);
    assert_int_equal(r.outcome, LOAM_PASSED);
    assert_int_equal(r.n_grad, 64);
    assert_true(r.grad_nmse < 1e-15);
    loam_device_close(d);
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Whichever allocation fails, a case ends as an error or a failure, and nothing leaks. */
static void test_memory_runs_out(void **state)
{
    (void)state;
    loam_device *d;
    assert_int_equal(loam_device_reference_open(&d, NULL), LOAM_OK);
    loam_case c = {.op = LOAM_OP_CPY, .label = "smooth", .build = build_smooth};
    loam_status status = LOAM_E_MEMORY;
    int n_failed = 0;
    for (int64_t n = 0; status != LOAM_OK; n++) {
        loam_parity_case r = {0};
        char reason[LOAM_REASON_BYTES] = "";
        loam_error e = {0};
        loam_alloc_fail_after(n);
        status = parity_check_grad(d, d, &c, 1, &r, reason, &e);
        loam_alloc_fail_after(-1);
        if (status == LOAM_OK) {
            assert_int_equal(r.outcome, LOAM_PASSED);
            break;
        }
        assert_int_equal(status, LOAM_E_MEMORY);
        n_failed++;
    }
    assert_true(n_failed > 5);
    bool has_passed = false;
    for (int64_t n = 0; !has_passed; n += 7) {
        const loam_parity_options o = {.op = "FILL", .type = "f16"};
        totals t = {0};
        loam_alloc_fail_after(n);
        status = loam_parity_run(d, &o, add_quietly, &t, NULL);
        loam_alloc_fail_after(-1);
        has_passed = status == LOAM_OK && t.n[LOAM_FAILED] == 0;
    }
    loam_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_on_the_reference),
        cmocka_unit_test(test_table_on_the_cpu),
        cmocka_unit_test(test_results_are_reproducible),
        cmocka_unit_test(test_perf_counts),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
