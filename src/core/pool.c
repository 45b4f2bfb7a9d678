/* pool.c: a fixed set of threads that share the tasks of one loop at a time.
 *
 * A run is published by counting `generation` up; workers and caller then take task numbers from
 * one atomic counter. Every worker checks in once a run, so that the run's description may be
 * overwritten as soon as `unfinished` is 0. Both sides spin for a moment before they sleep: the
 * loops of a training step follow each other within microseconds. */
#include "core/core.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 1024
#define SPINS 2000

typedef struct worker {
    loam_pool *pool;
    int number;
    pthread_t thread;
} worker;

struct loam_pool {
    int n_workers; /* started threads; the caller is worker 0 and not among them */
    worker *workers;
    bool running;

    loam_task task;
    void *context;
    int64_t n_tasks;
    _Atomic int64_t next_task;
    _Atomic int unfinished;

    _Atomic uint64_t generation;
    _Atomic bool stopping;
    pthread_mutex_t lock;
    pthread_cond_t started;
    pthread_cond_t finished;
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int loam_cpu_count(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static void take_tasks(loam_pool *p, int number)
{
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&p->next_task, 1, memory_order_relaxed);
        if (i >= p->n_tasks)
            return;
        p->task(p->context, i, number);
    }
}

/* Returns the new generation once it differs from `seen`. */
static uint64_t wait_for_work(loam_pool *p, uint64_t seen)
{
    for (int spin = 0; spin < SPINS; spin++) {
        uint64_t now = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (now != seen)
            return now;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    uint64_t now;
    while ((now = atomic_load(&p->generation)) == seen)
        pthread_cond_wait(&p->started, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return now;
}

static void *worker_main(void *argument)
{
    worker *w = argument;
    loam_pool *p = w->pool;
    uint64_t seen = 0;
    for (;;) {
        seen = wait_for_work(p, seen);
        if (atomic_load(&p->stopping))
            return NULL;
        take_tasks(p, w->number);
        if (atomic_fetch_sub(&p->unfinished, 1) == 1) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->finished);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void publish(loam_pool *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->generation, 1);
    pthread_cond_broadcast(&p->started);
    pthread_mutex_unlock(&p->lock);
}

void loam_signals_hold(sigset_t *before)
{
    sigset_t held;
    sigfillset(&held);
    sigdelset(&held, SIGSEGV);
    sigdelset(&held, SIGBUS);
    sigdelset(&held, SIGFPE);
    sigdelset(&held, SIGILL);
    sigdelset(&held, SIGABRT);
    pthread_sigmask(SIG_BLOCK, &held, before);
}

void loam_signals_release(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* Workers inherit the mask of the thread that starts them, and take no signals: those are the
 * program's, and a handler on a thread that computes can meet a library that has moved the stack
 * pointer (oneDNN 2.6's sgemm does). Faults of the thread itself still arrive. */
static loam_status start_workers(loam_pool *p, int n_workers, loam_error *e)
{
    sigset_t before;
    loam_signals_hold(&before);
    loam_status status = LOAM_OK;
    for (int i = 0; i < n_workers && status == LOAM_OK; i++) {
        p->workers[i] = (worker){.pool = p, .number = i + 1};
        int code = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (code != 0)
            status = loam_fail(e, LOAM_E_MEMORY,
                               "could not start thread %d of %d: %s; use fewer threads", i + 2,
                               n_workers + 1, strerror(code));
        else
            p->n_workers = i + 1;
    }
    loam_signals_release(&before);
    return status;
}

loam_status loam_pool_create(int n_threads, loam_pool **out, loam_error *e)
{
    *out = NULL;
    if (n_threads <= 0)
        n_threads = LOAM_MIN(loam_cpu_count(), MAX_THREADS);
    if (n_threads > MAX_THREADS)
        return loam_fail(e, LOAM_E_USAGE, "%d threads asked for; at most %d are possible",
                         n_threads, MAX_THREADS);
    loam_pool *p = loam_alloc(sizeof *p);
    worker *workers = loam_alloc((size_t)n_threads * sizeof *workers);
    if (!p || !workers) {
        loam_free(p);
        loam_free(workers);
        return loam_fail(e, LOAM_E_MEMORY, "out of memory for a pool of %d threads", n_threads);
    }
    p->workers = workers;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->started, NULL);
    pthread_cond_init(&p->finished, NULL);
    loam_status status = start_workers(p, n_threads - 1, e);
    if (status != LOAM_OK) {
        loam_pool_free(p);
        return status;
    }
    *out = p;
    return LOAM_OK;
}

int loam_pool_size(const loam_pool *p)
{
    return p->n_workers + 1;
}

static void wait_until_finished(loam_pool *p)
{
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(&p->unfinished, memory_order_acquire) == 0)
            return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->unfinished) != 0)
        pthread_cond_wait(&p->finished, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void loam_pool_run(loam_pool *p, int64_t n_tasks, loam_task task, void *context)
{
    if (p->n_workers == 0 || n_tasks <= 1) {
        for (int64_t i = 0; i < n_tasks; i++)
            task(context, i, 0);
        return;
    }
    LOAM_ASSERT(!p->running); /* a task must not run the pool that runs it */
    p->running = true;
    p->task = task;
    p->context = context;
    p->n_tasks = n_tasks;
    atomic_store(&p->next_task, 0);
    atomic_store(&p->unfinished, p->n_workers);
    publish(p);
    take_tasks(p, 0);
    wait_until_finished(p);
    p->running = false;
}

void loam_pool_free(loam_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stopping, true);
    publish(p);
    for (int i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->finished);
    pthread_cond_destroy(&p->started);
    pthread_mutex_destroy(&p->lock);
    loam_free(p->workers);
    loam_free(p);
}
