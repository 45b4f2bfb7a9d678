/* test_forecast.c: the memory that a run was said to need, against what it took. */
#include "train/run_support.h"

#include <sys/wait.h>

/* ASan's shadow and quarantine are resident too. */
#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED true
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

static double resident_bytes(void)
{
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    int n = fscanf(file, "%ld %ld", &size, &resident);
    fclose(file);
    return n == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

static loam_train_options options(int64_t n_tokens)
{
    loam_train_options o = small_run(in_folder("memory.gguf"));
    o.data = LOAM_SOURCE_DIR "/examples/loam-train.jsonl";
    o.valid_share = 0;
    o.rank = 16;
    o.targets = NULL;
    o.n_last_layers = 0;
    o.iters = 2;
    o.grad_accumulation_steps = 1;
    o.data_options.max_seq_length = n_tokens;
    return o;
}

/* A process of its own trains and sends what it was told and what it took. */
static void measure(int64_t n_tokens, loam_forecast *f, double *taken)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        loam_error e = {0};
        loam_device *d;
        loam_base *m;
        loam_train_options o = options(n_tokens);
        listener l = {0};
        if (loam_device_cpu_open(NULL, &d, &e) || loam_base_open(MODEL, d, &m, &e))
            _exit(1);
        double before = resident_bytes();
        if (loam_trainer_run(m, &o, listen, &l, NULL, &e))
            _exit(2);
        double used = (double)loam_peak_rss_bytes() - before;
        bool sent = write(ends[1], &l.forecast, sizeof l.forecast) == sizeof l.forecast &&
                    write(ends[1], &used, sizeof used) == sizeof used;
        _exit(sent ? 0 : 3);
    }
    int status;
    assert_int_equal(read(ends[0], f, sizeof *f), sizeof *f);
    assert_int_equal(read(ends[0], taken, sizeof *taken), sizeof *taken);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
}

static void check(int64_t n_tokens)
{
    loam_forecast f;
    double taken;
    if (resident_bytes() == 0 || IS_SANITIZED)
        skip();
    measure(n_tokens, &f, &taken);
    print_message("%lld tokens: planned %.1f MB (weights %.1f, adapter %.1f, optimizer %.1f, "
                  "activations %.1f, scratch %.1f, other %.1f), taken %.1f MB: %+.1f%%\n",
                  (long long)f.longest_tokens, (double)f.total_bytes / 1e6,
                  (double)f.weight_bytes / 1e6, (double)f.adapter_bytes / 1e6,
                  (double)f.optimizer_bytes / 1e6, (double)f.activation_bytes / 1e6,
                  (double)f.scratch_bytes / 1e6, (double)f.other_bytes / 1e6, taken / 1e6,
                  100 * (taken / (double)f.total_bytes - 1));
    assert_int_equal(f.longest_tokens, n_tokens);
    assert_true(fabs(taken / (double)f.total_bytes - 1) < 0.15);
}

static void test_512(void **state)
{
    (void)state;
    check(512);
}

static void test_1024(void **state)
{
    (void)state;
    check(1024);
}

static void test_time_and_steps(void **state)
{
    (void)state;
    loam_error e = {0};
    loam_device *d;
    loam_base *m;
    loam_forecast f;
    loam_train_options o = small_run(NULL); /* nothing is written: no output is needed */
    assert_int_equal(loam_device_cpu_open(NULL, &d, &e), LOAM_OK);
    assert_int_equal(loam_base_open(MODEL, d, &m, &e), LOAM_OK);
    assert_int_equal(loam_trainer_forecast(m, &o, true, &f, &e), LOAM_OK);
    assert_true(f.fits);
    assert_string_equal(f.advice, "");
    assert_int_equal(f.n_steps, N_STEPS);
    assert_true(f.n_tokens > 0 && f.n_tokens <= 2 * N_STEPS * 64);
    assert_true(f.seconds > 0 && f.tokens_per_s > 0);
    assert_int_equal(f.total_bytes, f.weight_bytes + f.adapter_bytes + f.optimizer_bytes +
                                        f.activation_bytes + f.scratch_bytes + f.other_bytes);
    o.data = "/nowhere.jsonl";
    assert_int_equal(loam_trainer_forecast(m, &o, true, &f, &e), LOAM_E_IO);
    loam_base_close(m);
    loam_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_512),
        cmocka_unit_test(test_1024),
        cmocka_unit_test(test_time_and_steps),
    };
    return cmocka_run_group_tests(tests, begin_folder, end_folder);
}
