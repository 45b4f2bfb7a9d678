/* parity_support.h: devices for the tests of the parity tester: the reference device with one
 * thing replaced. */
#ifndef LOAM_TESTS_PARITY_SUPPORT_H
#define LOAM_TESTS_PARITY_SUPPORT_H

#include "graph/graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The reference device, except that `run` is asked first for nodes of op `op`. Buffers of the
 * reference device do not look into their device, so they serve this one as they are. */
typedef struct test_device {
    loam_device base; /* first: a loam_device is a test_device */
    loam_device_api api;
    loam_op op;
    loam_status (*run)(const loam_node *n, loam_error *e);
} test_device;

static inline loam_status test_device_run(loam_device *d, loam_node *const *nodes, int n_nodes,
                                          loam_buffer *scratch, loam_error *e)
{
    const test_device *t = (const test_device *)d;
    (void)scratch;
    for (int i = 0; i < n_nodes; i++) {
        const loam_op_def *def = loam_op_get(nodes[i]->op);
        if (def->is_view)
            continue;
        bool is_replaced = t->run && nodes[i]->op == t->op;
        LOAM_TRY(is_replaced ? t->run(nodes[i], e) : def->reference(nodes[i], e));
    }
    return LOAM_OK;
}

static inline void test_device_init(test_device *t, loam_op op,
                                    loam_status (*run)(const loam_node *n, loam_error *e))
{
    loam_device *reference;
    assert_int_equal(loam_device_reference_open(&reference, NULL), LOAM_OK);
    *t = (test_device){.api = *reference->api, .op = op, .run = run};
    loam_device_close(reference);
    t->api.kind = "test";
    t->api.run = test_device_run;
    t->base.api = &t->api;
}

#endif /* LOAM_TESTS_PARITY_SUPPORT_H */
