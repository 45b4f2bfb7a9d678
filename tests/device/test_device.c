/* Devices by name, the reference device's buffers and runs. */
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_no_device(const char *name, const char *word)
{
    loam_device *d = (loam_device *)&d;
    loam_error e = {0};
    assert_int_equal(loam_device_open(name, NULL, &d, &e), LOAM_E_USAGE);
    assert_null(d);
    if (!strstr(e.message, word))
        fail_msg("'%s' does not say '%s'", e.message, word);
}

static void test_names(void **state)
{
    (void)state;
    int n = 0;
    for (const char *const *name = loam_device_names(); *name; name++, n++) {
        loam_device *d;
        loam_error e = {0};
        if (strcmp(*name, "cpu") != 0 && strcmp(*name, "reference") != 0)
            continue; /* a card may be missing where the build knows its kind */
        assert_int_equal(loam_device_open(*name, NULL, &d, &e), LOAM_OK);
        assert_string_equal(d->api->kind, *name);
        assert_true(strlen(d->api->description(d)) > 0);
        loam_device_memory memory = {0};
        assert_int_equal(d->api->memory(d, &memory, &e), LOAM_OK);
        assert_true(memory.free_bytes > 0 && memory.free_bytes <= memory.total_bytes);
        loam_device_close(d);
    }
    assert_true(n >= 2);
    loam_device_close(NULL);
}

static void test_wrong_names(void **state)
{
    (void)state;
    assert_no_device("", "it has: cpu");
    assert_no_device("cp", "it has: cpu");
    assert_no_device("cpu2", "it has: cpu");
    assert_no_device("CPU", "it has: cpu");
    assert_no_device("cpu:1", "only one");
    assert_no_device(":0", "it has: cpu");
}

static void test_buffers(void **state)
{
    (void)state;
    static const char *const names[] = {"reference", "cpu"};
    for (int i = 0; i < LOAM_COUNT(names); i++) {
        loam_device *d;
        loam_buffer *b, *m;
        loam_error e = {0};
        char text[8] = "";
        assert_int_equal(loam_device_open(names[i], NULL, &d, &e), LOAM_OK);
        assert_int_equal(loam_buffer_alloc(d, 100, &b, &e), LOAM_OK);
        assert_int_equal(b->bytes, 100);
        assert_int_equal(loam_buffer_write(b, 93, "seventy", 7, &e), LOAM_OK);
        assert_int_equal(loam_buffer_read(b, 93, text, 7, &e), LOAM_OK);
        assert_string_equal(text, "seventy");
        assert_int_equal(loam_buffer_write(b, 94, "seventy", 7, &e), LOAM_E_USAGE);
        assert_int_equal(loam_buffer_read(b, SIZE_MAX, text, 7, NULL), LOAM_E_USAGE);
        const float weights[] = {1, 2};
        assert_int_equal(d->api->buffer_map(d, weights, sizeof weights, &m, NULL), LOAM_OK);
        assert_true(m->is_mapped);
        assert_ptr_equal(m->host, weights);
        assert_int_equal(loam_buffer_write(m, 0, text, 1, NULL), LOAM_E_USAGE);
        loam_buffer_free(m);
        loam_buffer_free(b);
        loam_buffer_free(NULL);
        loam_device_close(d);
    }
}

static void test_reference_runs_nodes(void **state)
{
    (void)state;
    loam_device *d;
    loam_buffer *b;
    loam_graph *g;
    loam_error e = {0};
    assert_int_equal(loam_device_reference_open(&d, &e), LOAM_OK);
    assert_int_equal(loam_graph_create(LOAM_TYPE_F32, &g, &e), LOAM_OK);
    assert_int_equal(loam_buffer_alloc(d, 64, &b, &e), LOAM_OK);
    loam_node *x = loam_leaf_1d(g, LOAM_TYPE_F32, 2, "x");
    loam_node *flat = loam_reshape_2d(g, x, 1, 2);
    loam_node *y = loam_scale(g, flat, 3);
    loam_node_bind(x, b, 0);
    loam_node_bind(flat, b, 0);
    loam_node_bind(y, b, 16);
    assert_ptr_equal(y->t.data, (char *)b->host + 16);
    const float values[] = {1, -2};
    float got[2];
    assert_int_equal(loam_buffer_write(b, 0, values, sizeof values, &e), LOAM_OK);
    char reason[LOAM_REASON_BYTES];
    assert_true(d->api->supports(d, y, reason));
    assert_int_equal(d->api->scratch_bytes(d, y), 0);
    loam_node *const nodes[] = {x, flat, y};
    assert_int_equal(d->api->run(d, nodes, 3, NULL, &e), LOAM_OK);
    assert_int_equal(d->api->synchronize(d, &e), LOAM_OK);
    assert_int_equal(loam_buffer_read(b, 16, got, sizeof got, &e), LOAM_OK);
    assert_true(got[0] == 3 && got[1] == -6);
    loam_buffer_free(b);
    loam_graph_free(g);
    loam_device_close(d);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    loam_device *d;
    loam_buffer *b;
    loam_alloc_fail_after(0);
    assert_int_equal(loam_device_reference_open(&d, NULL), LOAM_E_MEMORY);
    loam_alloc_fail_after(-1);
    assert_int_equal(loam_device_reference_open(&d, NULL), LOAM_OK);
    for (int n = 0; n < 2; n++) {
        loam_alloc_fail_after(n);
        assert_int_equal(loam_buffer_alloc(d, 10, &b, NULL), LOAM_E_MEMORY);
        assert_null(b);
    }
    loam_alloc_fail_after(-1);
    loam_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),           cmocka_unit_test(test_wrong_names),
        cmocka_unit_test(test_buffers),         cmocka_unit_test(test_reference_runs_nodes),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
