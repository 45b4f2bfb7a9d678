/* The thread pool: every task once, nothing lost, failures reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

typedef struct tally {
    int size;
    int counts[5000]; /* plain on purpose: a task that ran twice is a race */
    _Atomic int bad_workers;
    _Atomic int64_t sum;
} tally;

static void count(void *context, int64_t i, int worker)
{
    tally *t = context;
    t->counts[i]++;
    atomic_fetch_add(&t->sum, i);
    if (worker < 0 || worker >= t->size)
        atomic_fetch_add(&t->bad_workers, 1);
}

static void test_every_task_runs_once(void **state)
{
    (void)state;
    static tally t;
    const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 1000, 5000};
    for (int threads = 1; threads <= 9; threads += 2) {
        loam_pool *p = NULL;
        loam_error e = {0};
        assert_int_equal(loam_pool_create(threads, &p, &e), LOAM_OK);
        assert_int_equal(loam_pool_size(p), threads);
        for (int s = 0; s < LOAM_COUNT(sizes); s++) {
            memset(&t, 0, sizeof t);
            t.size = threads;
            loam_pool_run(p, sizes[s], count, &t);
            for (int64_t i = 0; i < LOAM_COUNT(t.counts); i++)
                assert_int_equal(t.counts[i], i < sizes[s]);
            assert_int_equal(atomic_load(&t.bad_workers), 0);
            assert_int_equal(atomic_load(&t.sum), sizes[s] * (sizes[s] - 1) / 2);
        }
        loam_pool_free(p);
    }
}

/* Short runs one after another, some after a pause that sends the workers to sleep. The results
 * of one run are read by the next without any lock. */
static void next_value(void *context, int64_t i, int worker)
{
    (void)worker;
    int64_t(*values)[8] = context;
    (*values)[i] = (*values)[i] * 3 + i;
}

static void test_runs_follow_each_other(void **state)
{
    (void)state;
    loam_pool *p = NULL;
    assert_int_equal(loam_pool_create(4, &p, NULL), LOAM_OK);
    int64_t values[8] = {0};
    int64_t expected[8] = {0};
    for (int run = 0; run < 3000; run++) {
        loam_pool_run(p, 8, next_value, &values);
        for (int64_t i = 0; i < 8; i++)
            expected[i] = (int64_t)(((uint64_t)expected[i] * 3 + (uint64_t)i) & 0xffffffff);
        for (int64_t i = 0; i < 8; i++) {
            values[i] &= 0xffffffff;
            assert_int_equal(values[i], expected[i]);
        }
        if (run % 500 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 2 * 1000 * 1000}, NULL);
    }
    loam_pool_free(p);
}

static void note_worker(void *context, int64_t i, int worker)
{
    (void)i;
    nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    atomic_fetch_or((_Atomic int *)context, 1 << worker);
}

static void test_all_workers_take_part(void **state)
{
    (void)state;
    loam_pool *p = NULL;
    assert_int_equal(loam_pool_create(4, &p, NULL), LOAM_OK);
    _Atomic int seen = 0;
    loam_pool_run(p, 100, note_worker, &seen);
    assert_int_equal(atomic_load(&seen), 0xf);
    loam_pool_free(p);
}

static void test_sizes(void **state)
{
    (void)state;
    assert_true(loam_cpu_count() >= 1);
    loam_pool *p = NULL;
    assert_int_equal(loam_pool_create(0, &p, NULL), LOAM_OK);
    assert_int_equal(loam_pool_size(p), loam_cpu_count());
    loam_pool_free(p);
    loam_error e = {0};
    assert_int_equal(loam_pool_create(1000000, &p, &e), LOAM_E_USAGE);
    assert_non_null(strstr(e.message, "1000000"));
    assert_null(p);
    loam_pool_free(NULL);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        loam_pool *p = NULL;
        loam_error e = {0};
        loam_alloc_fail_after(n);
        assert_int_equal(loam_pool_create(3, &p, &e), LOAM_E_MEMORY);
        loam_alloc_fail_after(-1);
        assert_null(p);
    }
}

/* With too little address space for the stacks the system refuses to start threads. */
static void test_thread_that_does_not_start(void **state)
{
    (void)state;
#ifdef SANITIZED
    skip();
#endif
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {(rlim_t)256 << 20, (rlim_t)256 << 20};
        setrlimit(RLIMIT_AS, &limit);
        loam_pool *p = NULL;
        loam_error e = {0};
        loam_status status = loam_pool_create(1000, &p, &e);
        bool good = status == LOAM_E_MEMORY && !p && strstr(e.message, "could not start thread");
        status = loam_pool_create(2, &p, NULL); /* and the started ones are gone again */
        _exit(good && status == LOAM_OK ? 0 : 1);
    }
    int code = 0;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_runs_once),
        cmocka_unit_test(test_runs_follow_each_other),
        cmocka_unit_test(test_all_workers_take_part),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_thread_that_does_not_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
