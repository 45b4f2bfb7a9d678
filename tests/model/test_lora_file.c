/* Adapters that a file may hold and no model can use: each is refused with its reason. */
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define TARGET "blk.0.attn_q.weight"

typedef struct damage {
    int64_t rank_a, rank_b, n_in;
    float alpha, value;
    const char *expected; /* in the message; NULL: loads */
} damage;

static float factor[4 * 512];

static void add(loam_gguf_writer *w, const char *name, int64_t ne0, int64_t ne1)
{
    loam_tensor t = {.type = LOAM_TYPE_F32, .ne = {ne0, ne1, 1, 1}, .data = factor};
    loam_dense_strides(t.type, t.ne, t.nb);
    loam_gguf_add_tensor(w, name, 2, &t);
}

static void check(const loam_base *m, const damage *d)
{
    char path[64];
    loam_error e = {0};
    loam_lora *l;
    loam_gguf_writer *w = loam_gguf_writer_new();
    snprintf(path, sizeof path, "/tmp/loam-adapter-%d.gguf", (int)getpid());
    factor[3] = d->value;
    loam_gguf_set_string(w, "general.type", "adapter");
    loam_gguf_set_string(w, "general.architecture", "qwen3");
    loam_gguf_set_string(w, "adapter.type", "lora");
    loam_gguf_set_f32(w, "adapter.lora.alpha", d->alpha);
    add(w, TARGET ".lora_a", d->n_in, d->rank_a);
    add(w, TARGET ".lora_b", d->rank_b, 512);
    assert_int_equal(loam_gguf_write(w, path, &e), LOAM_OK);
    loam_gguf_writer_free(w);
    loam_status status = loam_lora_load(m, path, 1, &l, &e);
    unlink(path);
    if (d->expected) {
        assert_int_equal(status, LOAM_E_FORMAT);
        assert_null(l);
        if (!strstr(e.message, d->expected))
            fail_msg("'%s' does not say '%s'", e.message, d->expected);
        return;
    }
    if (status != LOAM_OK)
        fail_msg("%s", e.message);
    assert_true(l->pairs[0].scale == d->alpha / (float)d->rank_a);
    loam_lora_free(l);
}

static void test_refusals(void **state)
{
    (void)state;
    static const damage cases[] = {
        {4, 4, 512, 8, 0, NULL},
        {0, 0, 512, 8, 0, "do not fit"},
        {4, 2, 512, 8, 0, "do not fit"},
        {4, 4, 256, 8, 0, "do not fit"},
        {4, 4, 512, NAN, 0, "alpha"},
        {4, 4, 512, INFINITY, 0, "alpha"},
        {4, 4, 512, 8, NAN, "not a number"},
    };
    loam_error e = {0};
    loam_device *device;
    loam_base *m;
    if (loam_device_open("cpu", &(loam_device_options){.n_threads = 1}, &device, &e) ||
        loam_base_open(LOAM_SOURCE_DIR "/models/loam-29m-Q4_K_M.gguf", device, &m, &e))
        fail_msg("%s", e.message);
    for (int i = 0; i < LOAM_COUNT(cases); i++)
        check(m, &cases[i]);
    loam_base_close(m);
    loam_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
