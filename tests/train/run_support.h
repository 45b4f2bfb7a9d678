/* run_support.h: what the tests of training runs share: a small run on the bundled model, a folder
 * of its own, and comparing files. */
#ifndef LOAM_TEST_RUN_SUPPORT_H
#define LOAM_TEST_RUN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL LOAM_SOURCE_DIR "/models/loam-29m-Q4_K_M.gguf"
#define DATA LOAM_SOURCE_DIR "/examples/loam-valid.jsonl"
#define N_STEPS 8

static char folder[64]; /* of this program, removed by end_folder */

static int begin_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/loam-run-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int end_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* "<folder>/<name>", in a few buffers that take turns. */
static const char *in_folder(const char *name)
{
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* A few steps of a small adapter, validated every three steps. */
static inline loam_train_options small_run(const char *output)
{
    loam_train_options o;
    loam_train_options_default(&o);
    o.data = DATA;
    o.data_options.max_seq_length = 64;
    o.data_options.overlong = LOAM_OVERLONG_TRUNCATE;
    o.output = output;
    o.rank = 2;
    o.targets = "attn_q,ffn_down";
    o.n_last_layers = 2;
    o.iters = N_STEPS;
    o.grad_accumulation_steps = 2;
    o.learning_rate = 1e-3f;
    o.valid_share = 0.1;
    o.steps_per_eval = 3;
    o.seed = 5;
    return o;
}

typedef struct listener {
    int64_t stop_at; /* the run is asked to end after this step; 0: never */
    int n_steps, n_valid, n_warnings;
    loam_forecast forecast;
    char warning[512];
    double first_loss, last_loss;
    void (*on_step)(int64_t step);
} listener;

static inline bool listen(void *user, const loam_event *event)
{
    listener *l = user;
    if (event->kind == LOAM_EVENT_START)
        l->forecast = *event->forecast;
    l->n_valid += event->kind == LOAM_EVENT_VALID;
    if (event->kind == LOAM_EVENT_WARNING) {
        l->n_warnings++;
        snprintf(l->warning, sizeof l->warning, "%s", event->text);
    }
    if (event->kind != LOAM_EVENT_STEP)
        return true;
    if (l->n_steps++ == 0)
        l->first_loss = event->loss;
    l->last_loss = event->loss;
    if (l->on_step)
        l->on_step(event->step);
    return event->step != l->stop_at;
}

/* Runs on a device of its own, or on `device`. */
static inline loam_status train_on(loam_device *device, const loam_train_options *o, listener *l,
                                   loam_train_result *result, loam_error *e)
{
    loam_device *own = NULL;
    loam_base *m = NULL;
    loam_device_options d = {.n_threads = 1};
    *e = (loam_error){0};
    loam_status status = LOAM_OK;
    if (!device)
        status = loam_device_cpu_open(&d, &own, e);
    if (status == LOAM_OK)
        status = loam_base_open(MODEL, device ? device : own, &m, e);
    if (status == LOAM_OK)
        status = loam_trainer_run(m, o, l ? listen : NULL, l, result, e);
    loam_base_close(m);
    loam_device_close(own);
    return status;
}

static inline void train_well(const loam_train_options *o)
{
    loam_error e;
    if (train_on(NULL, o, NULL, NULL, &e) != LOAM_OK)
        fail_msg("%s", e.message);
}

static inline void assert_same_file(const char *a, const char *b)
{
    loam_error e = {0};
    char *x = NULL, *y = NULL;
    size_t n_x = 0, n_y = 0;
    if (loam_read_file(a, (size_t)1 << 30, &x, &n_x, &e) ||
        loam_read_file(b, (size_t)1 << 30, &y, &n_y, &e))
        fail_msg("%s", e.message);
    if (n_x != n_y || memcmp(x, y, n_x) != 0)
        fail_msg("'%s' and '%s' differ", a, b);
    loam_free(x);
    loam_free(y);
}

static inline bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

#endif /* LOAM_TEST_RUN_SUPPORT_H */
