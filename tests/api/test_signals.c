/* A program that embeds Loam keeps its own signal handlers: they run thousands of times during a
 * training run and change nothing. (oneDNN 2.6's sgemm uses a heap area as its stack, so a handler
 * that interrupts it corrupts the heap.) */
#include "loam.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

static volatile sig_atomic_t n_signals;

static void on_alarm(int number)
{
    volatile char stack[4096]; /* what a handler with locals does to the stack it runs on */
    (void)number;
    memset((char *)stack, 1, sizeof stack);
    n_signals += stack[7];
}

static double train(const char *output)
{
    loam_error e = {0};
    loam_model *m;
    loam_train_options o;
    loam_train_result r;
    if (loam_model_open(LOAM_SOURCE_DIR "/models/loam-29m-Q4_K_M.gguf", NULL, &m, &e))
        fail_msg("%s", e.message);
    loam_train_options_default(&o);
    o.data = LOAM_SOURCE_DIR "/examples/loam-valid.jsonl";
    o.valid_share = 0;
    o.output = output;
    o.iters = 3;
    o.grad_accumulation_steps = 1;
    o.data_options.max_seq_length = 128;
    if (loam_train(m, &o, NULL, NULL, &r, &e))
        fail_msg("%s", e.message);
    loam_model_close(m);
    return r.last_loss;
}

static void test_handlers_do_no_harm(void **state)
{
    (void)state;
    char folder[] = "/tmp/loam-signals-XXXXXX", path[64], command[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.gguf", folder);
    double quiet = train(path);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    double interrupted = train(path);
    setitimer(ITIMER_REAL, &never, NULL);
    print_message("%d signals\n", (int)n_signals);
    assert_true(n_signals > 100);
    assert_true(quiet == interrupted);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_handlers_do_no_harm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
