/* Every parity case of every op on the CPU device, against the reference on the same F32 inputs;
 * the same bits with one, two and three threads. */
#include "cpu_support.h"

/* The bar of a case is for F32 against doubles; on the CPU products are far better than that. */
#define PRODUCT_BAR 1e-10

static loam_device *devices[3];

static bool check_case(const loam_case *c)
{
    bench b = bench_open(c->label);
    loam_node *result = c->build(b.g, c);
    loam_error e = {0};
    loam_graph_status(b.g, &e);
    if (!result)
        print_error("%s %s: %s\n", loam_op_get(c->op)->name, c->label, e.message);
    assert_non_null(result);
    bench_bind(&b);
    int64_t n = loam_tensor_ne(&result->t);
    double *expected = run_references(&b, result);
    double *first = NULL;
    bool ok = true;
    for (int i = 0; i < LOAM_COUNT(devices); i++) {
        devices[i]->api->set_scratch_limit(devices[i], c->scratch_limit_bytes);
        double *got = run_device(&b, devices[i], result);
        if (!first) {
            first = got;
            double error = nmse(got, expected, n), bar = c->bar;
            if (c->bar == LOAM_BAR_PRODUCT)
                bar = PRODUCT_BAR;
            if (!(error <= bar)) {
                print_error("%s %s: NMSE %g over %g\n", loam_op_get(c->op)->name, c->label, error,
                            bar);
                ok = false;
            }
            continue;
        }
        if (memcmp(got, first, (size_t)n * sizeof *got) != 0) {
            print_error("%s %s: %d threads give other bits\n", loam_op_get(c->op)->name, c->label,
                        i + 1);
            ok = false;
        }
        loam_free(got);
    }
    loam_free(first);
    loam_free(expected);
    bench_close(&b);
    return ok;
}

/* Of the products' thousands of cases one in SHARE, unless LOAM_TEST_OP names their op: `loam
 * parity` runs all, and references are slow. */
#if defined(__SANITIZE_ADDRESS__)
#define SHARE 24
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHARE 24
#endif
#endif
#ifndef SHARE
#define SHARE 6
#endif

static bool is_sampled(const loam_case *c)
{
    if (getenv("LOAM_TEST_OP") || (c->op != LOAM_OP_MUL_MAT && c->op != LOAM_OP_OUT_PROD))
        return true;
    return loam_hash(c->label, strlen(c->label), 0) % SHARE == 0;
}

static void test_all_cases(void **state)
{
    (void)state;
    int n_failed = 0, n_run = 0;
    const char *only = getenv("LOAM_TEST_OP");
    for (int op = 0; op < LOAM_OP_COUNT; op++) {
        const loam_op_def *def = loam_op_get((loam_op)op);
        if (!def->cases || (only && strcmp(only, def->name) != 0))
            continue;
        loam_case_list list = {0};
        def->cases(&list);
        assert_false(list.failed);
        double start = loam_now_ms();
        for (int i = 0; i < list.n; i++) {
            /* References of these take minutes; `loam parity` runs them. */
            if (list.cases[i].is_slow || !is_sampled(&list.cases[i]))
                continue;
            n_run++;
            n_failed += !check_case(&list.cases[i]);
        }
        if (only)
            print_message("%s: %d cases, %.0f ms\n", def->name, list.n, loam_now_ms() - start);
        loam_free(list.cases);
    }
    assert_true(n_run > 0);
    assert_int_equal(n_failed, 0);
}

static int open_devices(void **state)
{
    (void)state;
    for (int i = 0; i < LOAM_COUNT(devices); i++)
        devices[i] = open_cpu(i + 1, LOAM_COMPUTE_F32);
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    for (int i = 0; i < LOAM_COUNT(devices); i++)
        devices[i]->api->close(devices[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_cases)};
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
