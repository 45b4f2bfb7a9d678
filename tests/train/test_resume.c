/* test_resume.c: states and checkpoints: a run that stopped, was killed, or ran out of disk goes on
 * as if it had not, bit by bit. LOAM_KILLS sets how many runs are killed. */
#include "train/run_support.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define N_KILLS 20

/* The run that nothing interrupts: what every other one must come to. */
static int straight_run(void **state)
{
    if (begin_folder(state) != 0)
        return -1;
    loam_train_options o = small_run(in_folder("straight.gguf"));
    train_well(&o);
    return 0;
}

static void assert_as_straight(const char *output, const char *state)
{
    assert_same_file(output, in_folder("straight.gguf"));
    assert_same_file(state, in_folder("straight-state.gguf"));
}

/* Stops after each step in turn, the last and those with a validation among them. */
static void test_stop_and_resume(void **state)
{
    (void)state;
    for (int64_t at = 1; at <= N_STEPS; at++) {
        loam_error e;
        loam_train_options o = small_run(in_folder("stopped.gguf"));
        listener l = {.stop_at = at};
        assert_int_equal(train_on(NULL, &o, &l, NULL, &e), LOAM_E_CANCELLED);
        assert_non_null(strstr(e.message, "--resume '"));
        assert_non_null(strstr(e.message, "stopped-state.gguf'"));
        assert_int_equal(l.n_steps, at);
        o.resume = o.output;
        loam_train_result result;
        listener after = {0};
        if (train_on(NULL, &o, &after, &result, &e) != LOAM_OK)
            fail_msg("%s", e.message);
        assert_int_equal(after.n_steps, N_STEPS - at);
        assert_int_equal(result.n_steps, N_STEPS);
        assert_as_straight(o.output, in_folder("stopped-state.gguf"));
        /* A run that is done goes on to nothing. */
        train_well(&o);
        assert_as_straight(o.output, in_folder("stopped-state.gguf"));
    }
}

/* Without validation the last adapter is the result. */
static void test_without_validation(void **state)
{
    (void)state;
    loam_error e;
    loam_train_options o = small_run(in_folder("plain.gguf"));
    o.valid_share = 0;
    train_well(&o);
    o.output = in_folder("plain2.gguf");
    listener l = {.stop_at = 5};
    assert_int_equal(train_on(NULL, &o, &l, NULL, &e), LOAM_E_CANCELLED);
    o.resume = in_folder("plain2-state.gguf");
    train_well(&o);
    assert_same_file(o.output, in_folder("plain.gguf"));
}

static void test_checkpoints(void **state)
{
    (void)state;
    loam_train_options o = small_run(in_folder("saved.gguf"));
    o.save_every = 1;
    o.keep = 3;
    train_well(&o);
    assert_same_file(o.output, in_folder("straight.gguf"));
    for (int step = 1; step <= N_STEPS; step++) {
        char name[64];
        bool is_kept = step >= 5 && step <= 7;
        snprintf(name, sizeof name, "saved-step%d.gguf", step);
        assert_int_equal(exists(in_folder(name)), is_kept);
        snprintf(name, sizeof name, "saved-step%d-state.gguf", step);
        assert_int_equal(exists(in_folder(name)), is_kept);
    }
    unlink(o.output);
    /* The best before step 6 is gone with the file: the one after it is found again, or none. */
    o.resume = in_folder("saved-step5.gguf");
    train_well(&o);
    assert_true(exists(o.output));
    assert_true(exists(in_folder("saved-step7-state.gguf")));
}

/* ---- refusals ----------------------------------------------------------------------------- */

static void expect_refusal(const loam_train_options *o, const char *name)
{
    loam_error e;
    assert_int_equal(train_on(NULL, o, NULL, NULL, &e), LOAM_E_USAGE);
    if (!strstr(e.message, name))
        fail_msg("'%s' is not in: %s", name, e.message);
}

static void test_refusals(void **state)
{
    (void)state;
    loam_error e;
    loam_train_options o = small_run(in_folder("refused.gguf"));
    listener l = {.stop_at = 4};
    assert_int_equal(train_on(NULL, &o, &l, NULL, &e), LOAM_E_CANCELLED);
    o.resume = o.output;
    loam_train_options x = o;
    x.learning_rate = 2e-3f;
    expect_refusal(&x, "--learning-rate is 0.002");
    x = o, x.rank = 4, expect_refusal(&x, "--rank is 4 and was 2");
    x = o, x.alpha = 8, expect_refusal(&x, "--lora-alpha");
    x = o, x.rslora = true, expect_refusal(&x, "--rslora");
    x = o, x.targets = "attn_q", expect_refusal(&x, "--target-modules");
    x = o, x.n_last_layers = 3, expect_refusal(&x, "--num-layers");
    x = o, x.iters = 9, expect_refusal(&x, "--iters");
    x = o, x.batch_size = 2, expect_refusal(&x, "--batch-size");
    x = o, x.grad_accumulation_steps = 1, expect_refusal(&x, "--grad-accumulation-steps");
    x = o, x.data_options.max_seq_length = 96, expect_refusal(&x, "--max-seq-length");
    x = o, x.warmup_share = 0.5f, expect_refusal(&x, "--warmup");
    x = o, x.weight_decay = 0, expect_refusal(&x, "--weight-decay");
    x = o, x.lora_plus_ratio = 4, expect_refusal(&x, "--lora-plus-ratio");
    x = o, x.clip = 0, expect_refusal(&x, "--clip");
    x = o, x.seed = 6, expect_refusal(&x, "--seed");
    x = o, x.valid_share = 0.2, expect_refusal(&x, "--data is hash");
    x = o, x.data = LOAM_SOURCE_DIR "/examples/loam-train.jsonl", expect_refusal(&x, "--data");
    /* --override goes on, but factors of another shape fit nothing. */
    x = o, x.rank = 4, x.override = true, expect_refusal(&x, "other shapes");
    x = o, x.learning_rate = 2e-3f, x.override = true, x.data_options.max_seq_length = 96;
    train_well(&x);
}

static void expect_bad_state(const char *path, loam_status status, const char *text)
{
    loam_error e;
    loam_train_options o = small_run(in_folder("bad.gguf"));
    o.resume = path;
    assert_int_equal(train_on(NULL, &o, NULL, NULL, &e), status);
    if (!strstr(e.message, text))
        fail_msg("'%s' is not in: %s", text, e.message);
}

static void test_bad_states(void **state)
{
    (void)state;
    loam_error e = {0};
    char *data;
    size_t n_bytes;
    expect_bad_state(in_folder("missing.gguf"), LOAM_E_IO, "missing.gguf");
    expect_bad_state(MODEL, LOAM_E_FORMAT, "not the state of a run");
    const char *good = in_folder("straight-state.gguf");
    char cut[256];
    snprintf(cut, sizeof cut, "%s", in_folder("cut-state.gguf"));
    assert_int_equal(loam_read_file(good, (size_t)1 << 30, &data, &n_bytes, &e), LOAM_OK);
    for (size_t n = 100; n < n_bytes; n += n_bytes / 7) {
        FILE *file = fopen(cut, "wb");
        assert_int_equal(fwrite(data, 1, n, file), n);
        fclose(file);
        expect_bad_state(cut, LOAM_E_FORMAT, "cut-state.gguf");
    }
    /* A factor that is not a number. */
    memset(data + n_bytes - 64, 0xff, 4);
    FILE *file = fopen(cut, "wb");
    assert_int_equal(fwrite(data, 1, n_bytes, file), n_bytes);
    fclose(file);
    expect_bad_state(cut, LOAM_E_FORMAT, "damaged");
    loam_free(data);
}

/* ---- a disk that is full ------------------------------------------------------------------ */

static struct rlimit file_limit;

static void fill_disk(int64_t step)
{
    struct rlimit full = {.rlim_cur = 1000, .rlim_max = file_limit.rlim_max};
    if (step == 5)
        setrlimit(RLIMIT_FSIZE, &full);
}

static void test_full_disk(void **state)
{
    (void)state;
    loam_error e;
    loam_train_options o = small_run(in_folder("full.gguf"));
    listener l = {.on_step = fill_disk};
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &file_limit);
    loam_status status = train_on(NULL, &o, &l, NULL, &e);
    setrlimit(RLIMIT_FSIZE, &file_limit);
    assert_int_equal(status, LOAM_E_IO);
    assert_non_null(strstr(e.message, "the state of step 3 is kept"));
    assert_non_null(strstr(e.message, "--resume '"));
    o.resume = o.output;
    train_well(&o);
    assert_as_straight(o.output, in_folder("full-state.gguf"));
}

/* ---- runs that are killed ----------------------------------------------------------------- */

/* A process that runs, or goes on from the state where there is one; it exits with 0 when done. */
static pid_t start(const loam_train_options *o, const char *state_path)
{
    pid_t pid = fork();
    if (pid == 0) {
        loam_error e;
        loam_train_options x = *o;
        x.resume = exists(state_path) ? x.output : NULL;
        loam_status status = train_on(NULL, &x, NULL, NULL, &e);
        if (status != LOAM_OK)
            fprintf(stderr, "%s\n", e.message);
        _exit(status);
    }
    return pid;
}

static void wait_ms(double ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(fmod(ms, 1e3) * 1e6)};
    nanosleep(&t, NULL);
}

/* Waits until the file is there, or the process has ended; the time that took. */
static double wait_for(const char *path, pid_t pid)
{
    double began_ms = loam_now_ms();
    siginfo_t ended = {0};
    while (!exists(path) && ended.si_pid == 0) {
        wait_ms(0.5);
        waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT);
    }
    return loam_now_ms() - began_ms;
}

/* Kills a run at a random moment, lets it go on, and compares what comes out. Starting takes most
 * of such a short run: three of four moments are chosen after the first state was written. */
static void test_kill(void **state)
{
    (void)state;
    const char *wanted = getenv("LOAM_KILLS");
    int n_kills = wanted ? atoi(wanted) : N_KILLS, n_done = 0, n_early = 0, status;
    char output[256], path[256];
    snprintf(output, sizeof output, "%s", in_folder("killed.gguf"));
    snprintf(path, sizeof path, "%s", in_folder("killed-state.gguf"));
    loam_train_options o = small_run(output);
    o.save_every = 2;
    o.keep = 1;
    double began_ms = loam_now_ms();
    pid_t pid = start(&o, path);
    double first_ms = wait_for(path, pid);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    double run_ms = loam_now_ms() - began_ms;
    assert_same_file(output, in_folder("straight.gguf"));
    loam_rng rng = loam_rng_stream(11, "moments");
    for (int i = 0; i < n_kills; i++) {
        unlink(path);
        unlink(output);
        pid = start(&o, path);
        if (i % 4 != 0)
            wait_for(path, pid);
        wait_ms(loam_rng_uniform(&rng) * (i % 4 == 0 ? run_ms : run_ms - first_ms));
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        n_done += WIFEXITED(status);
        n_early += !exists(path);
        pid = start(&o, path);
        waitpid(pid, &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_same_file(output, in_folder("straight.gguf"));
    }
    print_message("%d runs killed within %.0f ms: %d before their first state, %d were done\n",
                  n_kills, run_ms, n_early, n_done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_and_resume),
        cmocka_unit_test(test_without_validation),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bad_states),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_kill),
    };
    return cmocka_run_group_tests(tests, straight_run, end_folder);
}
