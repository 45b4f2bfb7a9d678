/* test_sanity.c: runs that go wrong by themselves: gradients that are not finite, losses that run
 * away, validations that get no better, memory that does not do; and two rates for two factors. */
#include "train/run_support.h"

/* A CPU device that spoils the gradient's norm at chosen steps, and says how much memory it has. */
typedef struct faulty_device {
    loam_device base;
    loam_device_api api;
    loam_device *inner;
    int64_t n_norms;             /* gradient norms computed so far */
    int64_t bad_from, bad_until; /* those that are spoilt, counted from 1; until is excluded */
    size_t free_bytes;           /* 0: as the CPU says */
} faulty_device;

static faulty_device faulty;

static loam_status faulty_run(loam_device *d, loam_node *const *nodes, int n_nodes,
                              loam_buffer *scratch, loam_error *e)
{
    (void)d;
    LOAM_TRY(faulty.inner->api->run(faulty.inner, nodes, n_nodes, scratch, e));
    for (int i = 0; i < n_nodes; i++) {
        if (nodes[i]->op != LOAM_OP_GRAD_NORM)
            continue;
        int64_t n = ++faulty.n_norms;
        if (n >= faulty.bad_from && n < faulty.bad_until)
            *(float *)nodes[i]->t.data = n % 2 ? NAN : INFINITY;
    }
    return LOAM_OK;
}

static loam_status faulty_memory(loam_device *d, loam_device_memory *out, loam_error *e)
{
    (void)d;
    LOAM_TRY(faulty.inner->api->memory(faulty.inner, out, e));
    if (faulty.free_bytes > 0)
        out->free_bytes = faulty.free_bytes;
    return LOAM_OK;
}

/* The rest of the contract, given on. */
static void on_close(loam_device *d)
{
    (void)d;
    loam_device_close(faulty.inner);
}

static const char *on_description(const loam_device *d)
{
    (void)d;
    return faulty.inner->api->description(faulty.inner);
}

static loam_status on_alloc(loam_device *d, size_t bytes, loam_buffer **out, loam_error *e)
{
    (void)d;
    return faulty.inner->api->buffer_alloc(faulty.inner, bytes, out, e);
}

static loam_status on_map(loam_device *d, const void *host, size_t bytes, loam_buffer **out,
                          loam_error *e)
{
    (void)d;
    return faulty.inner->api->buffer_map(faulty.inner, host, bytes, out, e);
}

static bool on_supports(const loam_device *d, const loam_node *n, char *reason)
{
    (void)d;
    return faulty.inner->api->supports(faulty.inner, n, reason);
}

static size_t on_scratch(const loam_device *d, const loam_node *n)
{
    (void)d;
    return faulty.inner->api->scratch_bytes(faulty.inner, n);
}

static loam_status on_synchronize(loam_device *d, loam_error *e)
{
    (void)d;
    return faulty.inner->api->synchronize(faulty.inner, e);
}

static void on_limit(loam_device *d, size_t bytes)
{
    (void)d;
    faulty.inner->api->set_scratch_limit(faulty.inner, bytes);
}

static loam_device *open_faulty(int64_t bad_from, int64_t bad_until, size_t free_bytes)
{
    loam_error e = {0};
    loam_device_options o = {.n_threads = 1};
    faulty =
        (faulty_device){.bad_from = bad_from, .bad_until = bad_until, .free_bytes = free_bytes};
    assert_int_equal(loam_device_cpu_open(&o, &faulty.inner, &e), LOAM_OK);
    faulty.api = *faulty.inner->api;
    faulty.api.close = on_close;
    faulty.api.description = on_description;
    faulty.api.memory = faulty_memory;
    faulty.api.buffer_alloc = on_alloc;
    faulty.api.buffer_map = on_map;
    faulty.api.supports = on_supports;
    faulty.api.scratch_bytes = on_scratch;
    faulty.api.run = faulty_run;
    faulty.api.synchronize = on_synchronize;
    faulty.api.set_scratch_limit = on_limit;
    faulty.base.api = &faulty.api;
    return &faulty.base;
}

static float *read_factors(const char *path, size_t *n_bytes)
{
    loam_error e = {0};
    char *data;
    assert_int_equal(loam_read_file(path, (size_t)1 << 30, &data, n_bytes, &e), LOAM_OK);
    return (float *)(void *)data;
}

/* Skipped steps are counted, named, and change nothing; the run goes on. */
static void test_skipped_steps(void **state)
{
    (void)state;
    loam_error e;
    loam_train_result result;
    listener l = {0};
    loam_train_options o = small_run(in_folder("skipped.gguf"));
    o.valid_share = 0;
    loam_device *d = open_faulty(2, 5, 0);
    if (train_on(d, &o, &l, &result, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    assert_int_equal(result.n_skipped, 3);
    assert_int_equal(l.n_warnings, 3);
    assert_non_null(strstr(l.warning, "step 4: the gradient is not finite"));
    assert_non_null(strstr(l.warning, "3 so far"));
    loam_device_close(d);
    /* All steps but the first spoilt: as one step, and none of NaN is in the factors. */
    o.output = in_folder("one.gguf");
    o.iters = 4;
    d = open_faulty(2, 5, 0);
    if (train_on(d, &o, NULL, &result, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    loam_device_close(d);
    o.output = in_folder("one2.gguf");
    d = open_faulty(0, 0, 0);
    listener stop = {.stop_at = 1};
    assert_int_equal(train_on(d, &o, &stop, NULL, &e), LOAM_E_CANCELLED);
    loam_device_close(d);
    size_t n_one, n_two;
    float *one = read_factors(in_folder("one.gguf"), &n_one);
    float *two = read_factors(in_folder("one2.gguf"), &n_two);
    /* The metadata differ by the step; the factors are the last bytes of both. */
    size_t n = 2 * 2 * (512 + 512) * sizeof(float);
    assert_memory_equal((char *)one + n_one - n, (char *)two + n_two - n, n);
    loam_free(one);
    loam_free(two);
}

static void test_too_many_skipped(void **state)
{
    (void)state;
    loam_error e;
    loam_train_result result;
    loam_train_options o = small_run(in_folder("nan.gguf"));
    o.valid_share = 0;
    loam_device *d = open_faulty(2, 100, 0);
    assert_int_equal(train_on(d, &o, NULL, &result, &e), LOAM_E_DIVERGED);
    loam_device_close(d);
    assert_non_null(strstr(e.message, "5 steps in a row"));
    assert_non_null(strstr(e.message, "learning-rate"));
    assert_int_equal(result.n_skipped, 5);
    loam_device *cpu;
    loam_base *m;
    loam_lora *l;
    assert_int_equal(loam_device_cpu_open(NULL, &cpu, &e), LOAM_OK);
    assert_int_equal(loam_base_open(MODEL, cpu, &m, &e), LOAM_OK);
    assert_int_equal(loam_lora_load(m, o.output, 1, &l, &e), LOAM_OK); /* finite factors */
    loam_lora_free(l);
    loam_base_close(m);
    loam_device_close(cpu);
}

/* A learning rate far too high: the run ends by itself, and the best adapter stays. */
static void test_divergence(void **state)
{
    (void)state;
    loam_error e;
    loam_train_result result;
    loam_train_options o = small_run(in_folder("diverged.gguf"));
    o.iters = 2000;
    o.steps_per_eval = 3;
    o.learning_rate = 10; /* after a warm-up of all the steps */
    o.clip = 0;
    o.warmup_share = 1;
    assert_int_equal(train_on(NULL, &o, NULL, &result, &e), LOAM_E_DIVERGED);
    assert_non_null(strstr(e.message, "the run diverged"));
    assert_non_null(strstr(e.message, "the best adapter is kept in"));
    assert_non_null(strstr(e.message, "--resume '"));
    assert_true(exists(o.output));
    assert_true(result.best_valid_loss < 2 * result.first_valid_loss);
    /* The state is one from before, and a lower rate goes on from it. */
    o.resume = o.output;
    o.override = true;
    o.learning_rate = 1e-5f;
    o.iters = 20;
    listener l = {0};
    if (train_on(NULL, &o, &l, &result, &e) != LOAM_OK)
        fail_msg("%s", e.message);
}

static void test_patience(void **state)
{
    (void)state;
    loam_error e;
    loam_train_result result;
    loam_train_options o = small_run(in_folder("patience.gguf"));
    o.iters = 200;
    o.steps_per_eval = 1;
    o.learning_rate = 0.05f;
    o.warmup_share = 0;
    o.patience = 3;
    if (train_on(NULL, &o, NULL, &result, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    assert_true(result.stopped_early);
    assert_true(result.n_steps < 200);
    assert_int_equal(result.n_steps, result.best_step + 3);
    o.resume = o.output; /* it has no patience left */
    listener l = {0};
    assert_int_equal(train_on(NULL, &o, &l, &result, &e), LOAM_OK);
    assert_int_equal(l.n_steps, 0);
}

/* ---- memory ------------------------------------------------------------------------------- */

static void test_refuses_what_does_not_fit(void **state)
{
    (void)state;
    loam_error e;
    listener l = {0};
    loam_train_options o = small_run(in_folder("large.gguf"));
    o.iters = 1;
    o.valid_share = 0;
    o.data_options.max_seq_length = 512;
    loam_device *d = open_faulty(0, 0, 0);
    assert_int_equal(train_on(d, &o, &l, NULL, &e), LOAM_OK);
    loam_device_close(d);
    assert_true(l.forecast.fits);
    size_t just_below = (size_t)l.forecast.total_bytes - 1;
    d = open_faulty(0, 0, just_below);
    assert_int_equal(train_on(d, &o, &l, NULL, &e), LOAM_E_MEMORY);
    assert_false(l.forecast.fits);
    assert_non_null(strstr(e.message, "--grad-checkpoint lowers it to"));
    o.override = true;
    assert_int_equal(train_on(d, &o, &l, NULL, &e), LOAM_OK);
    assert_non_null(strstr(l.warning, "--grad-checkpoint"));
    o.override = false;
    o.grad_checkpoint = true; /* the advice holds */
    assert_int_equal(train_on(d, &o, &l, NULL, &e), LOAM_OK);
    loam_device_close(d);
    d = open_faulty(0, 0, 1000);
    assert_int_equal(train_on(d, &o, &l, NULL, &e), LOAM_E_MEMORY);
    assert_non_null(strstr(e.message, "even short sequences do not fit"));
    loam_device_close(d);
}

/* ---- LoRA+ -------------------------------------------------------------------------------- */

/* The first AdamW step moves every element with a gradient by its learning rate, so B moves by the
 * ratio times as far as with one rate, and A, whose gradient is zero while B is, only decays. */
static void test_two_rates(void **state)
{
    (void)state;
    loam_error e;
    float *data[2];
    size_t n_bytes[2];
    for (int i = 0; i < 2; i++) {
        loam_train_options o = small_run(in_folder(i ? "plus.gguf" : "same.gguf"));
        o.valid_share = 0;
        o.iters = 1;
        o.targets = "attn_q";
        o.n_last_layers = 1;
        o.warmup_share = 0;
        o.weight_decay = 0;
        o.lora_plus_ratio = i ? 16 : 1;
        if (train_on(NULL, &o, NULL, NULL, &e) != LOAM_OK)
            fail_msg("%s", e.message);
        data[i] = read_factors(o.output, &n_bytes[i]);
    }
    assert_int_equal(n_bytes[0], n_bytes[1]);
    /* A [512, 2], then B [2, 512], at the end of the file. */
    size_t n = n_bytes[0] / sizeof(float), n_b = 0;
    for (size_t i = n - 2048; i < n - 1024; i++)
        assert_true(data[0][i] == data[1][i]);
    for (size_t i = n - 1024; i < n; i++) {
        n_b += data[0][i] != 0;
        assert_true(fabsf(data[1][i] - 16 * data[0][i]) <= 1e-4f * fabsf(data[1][i]));
    }
    assert_true(n_b > 900);
    loam_free(data[0]);
    loam_free(data[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skipped_steps), cmocka_unit_test(test_too_many_skipped),
        cmocka_unit_test(test_divergence),    cmocka_unit_test(test_patience),
        cmocka_unit_test(test_two_rates),     cmocka_unit_test(test_refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, begin_folder, end_folder);
}
