/* The tester is itself tested: seeded mutants of references, run as if they were a device's
 * kernels. Each must make exactly the cases fail that it should, by label, and no other. */
#include "parity_support.h"

typedef struct mutant {
    const char *name;
    loam_op op;
    const char *type; /* of the cases to run; NULL: all */
    bool grad;
    loam_status (*run)(const loam_node *n, loam_error *e);
    bool (*must_fail)(const char *label);
    const char *tested_op; /* whose cases run, where that is not `op` */
} mutant;

/* A node with its sources, to be bent and handed to the true reference. */
typedef struct bent_node {
    loam_node n;
    loam_node src[LOAM_MAX_SRC];
} bent_node;

static void bend(bent_node *b, const loam_node *n)
{
    b->n = *n;
    for (int i = 0; i < n->n_src; i++)
        if (n->src[i]) {
            b->src[i] = *n->src[i];
            b->n.src[i] = &b->src[i];
        }
}

static loam_status reference(const bent_node *b, loam_error *e)
{
    return loam_op_get(b->n.op)->reference(&b->n, e);
}

static bool has(const char *label, const char *word)
{
    return strstr(label, word) != NULL;
}

/* The number that follows `key` in a label. */
static long long number(const char *label, const char *key)
{
    const char *at = strstr(label, key);
    assert_non_null(at);
    return strtoll(at + strlen(key), NULL, 10);
}

/* ---- a wrong exponent --------------------------------------------------------------------- */

/* 1 / (mean + eps) instead of its root. */
static loam_status rms_norm_without_root(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *x = &n->src[0]->t;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++) {
        int64_t i1 = r % x->ne[1], i2 = r / x->ne[1] % x->ne[2], i3 = r / x->ne[1] / x->ne[2];
        double sum = 0;
        for (int64_t i = 0; i < x->ne[0]; i++)
            sum += pow(loam_get(x, i, i1, i2, i3), 2);
        double scale = 1 / (sum / (double)x->ne[0] + n->params.norm.eps);
        for (int64_t i = 0; i < x->ne[0]; i++)
            loam_set(&n->t, i, i1, i2, i3, loam_get(x, i, i1, i2, i3) * scale);
    }
    return LOAM_OK;
}

static bool every_case(const char *label)
{
    (void)label;
    return true;
}

/* x^2 instead of x^3 within the tanh. */
static loam_status gelu_of_squares(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *x = &n->src[0]->t;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++)
        for (int64_t i = 0; i < x->ne[0]; i++) {
            int64_t i1 = r % x->ne[1], i2 = r / x->ne[1] % x->ne[2], i3 = r / x->ne[1] / x->ne[2];
            double v = loam_get(x, i, i1, i2, i3);
            loam_set(&n->t, i, i1, i2, i3,
                     0.5 * v * (1 + tanh(sqrt(2 / 3.14159265358979) * (v + 0.044715 * v * v))));
        }
    return LOAM_OK;
}

/* ---- a swapped stride --------------------------------------------------------------------- */

/* Strides 1 and 2 swapped; addresses past the end begin again, so that nothing else is read. */
static loam_status cont_with_swapped_strides(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *a = &n->src[0]->t;
    const size_t bytes = loam_tensor_bytes(a);
    for (int64_t r = 0; r < loam_tensor_rows(a); r++)
        for (int64_t i = 0; i < a->ne[0]; i++) {
            int64_t i1 = r % a->ne[1], i2 = r / a->ne[1] % a->ne[2], i3 = r / a->ne[1] / a->ne[2];
            size_t at = (size_t)i * a->nb[0] + (size_t)i1 * a->nb[2] + (size_t)i2 * a->nb[1] +
                        (size_t)i3 * a->nb[3];
            loam_tensor element = *a;
            element.data = (char *)a->data + at % bytes;
            loam_set(&n->t, i, i1, i2, i3, loam_get(&element, 0, 0, 0, 0));
        }
    return LOAM_OK;
}

/* With ne2 = 1 both strides of a permuted leaf are a row. */
static bool strides_differ(const char *label)
{
    return !has(label, "[1,1,1,1]") && !has(label, "[1027,77,1,1] permuted");
}

/* ne is believed and nb is not looked at. */
static loam_status silu_of_a_dense_source(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    loam_dense_strides(b.src[0].t.type, b.src[0].t.ne, b.src[0].t.nb);
    return reference(&b, e);
}

static bool is_not_dense(const char *label)
{
    return !has(label, "dense");
}

/* ---- a dropped factor --------------------------------------------------------------------- */

static loam_status soft_max_without_scale(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    b.n.params.soft_max.scale = 1;
    return reference(&b, e);
}

/* A scale shows wherever a row has two elements that are not masked. (At scale 2 the case is about
 * exp's range: the largest of each row takes all, scaled or not.) */
static bool soft_max_is_scaled(const char *label)
{
    return !has(label, "scale 1,") && !has(label, "scale 2,") && !has(label, "[1,") &&
           !has(label, "all masked");
}

static loam_status soft_max_back_without_scale(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    b.n.params.soft_max.scale = 1;
    return reference(&b, e);
}

/* A row of one element has the gradient 0 with any scale. */
static bool soft_max_back_is_scaled(const char *label)
{
    return has(label, "scale 0.1") && !has(label, "[1,");
}

static loam_status rope_without_freq_scale(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    b.n.params.rope.freq_scale = 1;
    return reference(&b, e);
}

static bool rope_is_scaled(const char *label)
{
    return !has(label, "scale 1,");
}

static loam_status soft_max_without_slopes(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    b.n.params.soft_max.max_bias = 0;
    return reference(&b, e);
}

/* Slopes show where the mask is neither 0 nor -infinity, and a row has two elements. */
static bool has_slopes(const char *label)
{
    return has(label, "max_bias 8") && has(label, "finite mask") && !has(label, "[1,5");
}

/* ---- a missing last block ----------------------------------------------------------------- */

#define BLOCK 256

static loam_status out_prod_of_whole_blocks(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    b.src[0].t.ne[1] = b.src[1].t.ne[1] = n->src[0]->t.ne[1] / BLOCK * BLOCK;
    return reference(&b, e);
}

static bool k_has_a_rest(const char *label)
{
    return number(label, ",k=") % BLOCK != 0;
}

static loam_status sum_rows_of_whole_blocks(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    b.src[0].t.ne[0] = n->src[0]->t.ne[0] / BLOCK * BLOCK;
    return reference(&b, e);
}

static bool row_has_a_rest(const char *label)
{
    return number(label, "[") % BLOCK != 0;
}

/* ---- a transposed operand read untransposed ----------------------------------------------- */

static loam_status out_prod_of_rows(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    loam_tensor *t = &b.src[1].t;
    if (!loam_rows_contiguous(t))
        loam_dense_strides(t->type, t->ne, t->nb);
    return reference(&b, e);
}

/* A single row or column is its own transpose. */
static bool is_transposed(const char *label)
{
    return has(label, "layout=transposed") && number(label, ",n=") > 1 && number(label, ",k=") > 1;
}

/* ---- a mask ignored ----------------------------------------------------------------------- */

static loam_status soft_max_without_mask(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    b.n.n_src = 1;
    return reference(&b, e);
}

/* A row of one element is 1 unless it is masked whole. */
static bool has_mask(const char *label)
{
    return !has(label, "no mask") && !(has(label, "[1,5") && has(label, "finite mask"));
}

/* ---- a sum kept in float over 5120 -------------------------------------------------------- */

static float float_sum(const loam_tensor *a, const loam_tensor *b, int64_t i1, int64_t i2,
                       int64_t i3)
{
    float sum = 0;
    for (int64_t i = 0; i < a->ne[0]; i++)
        sum += (float)loam_get(a, i, i1, i2, i3) * (float)loam_get(b, i, i1, i2, i3);
    return sum;
}

static loam_status rms_norm_in_float(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *x = &n->src[0]->t;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++) {
        int64_t i1 = r % x->ne[1], i2 = r / x->ne[1] % x->ne[2], i3 = r / x->ne[1] / x->ne[2];
        double mean = float_sum(x, x, i1, i2, i3) / (double)x->ne[0];
        for (int64_t i = 0; i < x->ne[0]; i++)
            loam_set(&n->t, i, i1, i2, i3,
                     loam_get(x, i, i1, i2, i3) / sqrt(mean + n->params.norm.eps));
    }
    return LOAM_OK;
}

static loam_status rms_norm_back_in_float(const loam_node *n, loam_error *e)
{
    (void)e;
    const loam_tensor *dy = &n->src[0]->t, *x = &n->src[1]->t;
    for (int64_t r = 0; r < loam_tensor_rows(x); r++) {
        int64_t i1 = r % x->ne[1], i2 = r / x->ne[1] % x->ne[2], i3 = r / x->ne[1] / x->ne[2];
        double size = (double)x->ne[0];
        double scale = 1 / sqrt(float_sum(x, x, i1, i2, i3) / size + n->params.norm.eps);
        double mean = float_sum(dy, x, i1, i2, i3) / size * scale * scale;
        for (int64_t i = 0; i < x->ne[0]; i++)
            loam_set(&n->t, i, i1, i2, i3,
                     scale * (loam_get(dy, i, i1, i2, i3) - loam_get(x, i, i1, i2, i3) * mean));
    }
    return LOAM_OK;
}

/* Only there does an F32 running sum lose what the bar can see. */
static bool is_long_with_a_huge_value(const char *label)
{
    return has(label, "[5120,") && has(label, "4096");
}

/* ---- gradients on the device -------------------------------------------------------------- */

/* db without its factor: the forward is right, the gradient of the second operand is not. */
static loam_status swiglu_back_with_half_db(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    loam_status status = reference(&b, e);
    for (int64_t r = 0; r < loam_tensor_rows(&n->t); r++)
        for (int64_t i = n->t.ne[0] / 2; i < n->t.ne[0]; i++) {
            int64_t i1 = r % n->t.ne[1], i2 = r / n->t.ne[1] % n->t.ne[2];
            int64_t i3 = r / n->t.ne[1] / n->t.ne[2];
            loam_set(&n->t, i, i1, i2, i3, loam_get(&n->t, i, i1, i2, i3) / 2);
        }
    return status;
}

static bool checks_a_gradient(const char *label)
{
    return number(label, "[") <= 64 && has(label, "spread 2");
}

/* ---- memory ------------------------------------------------------------------------------- */

static loam_status scale_past_the_end(const loam_node *n, loam_error *e)
{
    loam_status status = loam_op_get(n->op)->reference(n, e);
    ((uint8_t *)n->t.data)[loam_tensor_bytes(&n->t)] = 0;
    return status;
}

static loam_status scale_into_its_source(const loam_node *n, loam_error *e)
{
    loam_status status = loam_op_get(n->op)->reference(n, e);
    loam_set(&n->src[0]->t, 0, 0, 0, 0, 123);
    return status;
}

static loam_status scale_without_last_element(const loam_node *n, loam_error *e)
{
    loam_tensor *t = &((loam_node *)(uintptr_t)n)->t;
    const int64_t *ne = t->ne;
    uint8_t poison[8];
    memset(poison, 0xff, sizeof poison);
    loam_status status = loam_op_get(n->op)->reference(n, e);
    memcpy((char *)t->data + loam_tensor_bytes(t) - t->nb[0], poison, t->nb[0]);
    assert_true(isnan(loam_get(t, ne[0] - 1, ne[1] - 1, ne[2] - 1, ne[3] - 1)));
    return status;
}

static loam_status scale_fails(const loam_node *n, loam_error *e)
{
    return loam_fail(e, LOAM_E_DEVICE, "node '%s' caught fire", n->name);
}

/* In place, but over the dense memory instead of the view. */
static loam_status cpy_beside_the_view(const loam_node *n, loam_error *e)
{
    bent_node b;
    bend(&b, n);
    if (n->n_src > 1)
        loam_dense_strides(b.n.t.type, b.n.t.ne, b.n.t.nb);
    return reference(&b, e);
}

static bool target_is_not_dense(const char *label)
{
    const char *to = strstr(label, "->");
    assert_non_null(to);
    return !has(label, "cast") && is_not_dense(to);
}

/* ---- the runs ----------------------------------------------------------------------------- */

static const mutant mutants[] = {
    {"wrong exponent, RMS_NORM", LOAM_OP_RMS_NORM, NULL, false, rms_norm_without_root, every_case,
     NULL},
    {"wrong exponent, GELU", LOAM_OP_GELU, NULL, false, gelu_of_squares, every_case, NULL},
    {"swapped stride", LOAM_OP_CONT, NULL, false, cont_with_swapped_strides, strides_differ, NULL},
    {"strides ignored", LOAM_OP_SILU, NULL, false, silu_of_a_dense_source, is_not_dense, NULL},
    {"dropped factor, SOFT_MAX", LOAM_OP_SOFT_MAX, NULL, false, soft_max_without_scale,
     soft_max_is_scaled, NULL},
    {"dropped factor, SOFT_MAX_BACK", LOAM_OP_SOFT_MAX_BACK, NULL, false,
     soft_max_back_without_scale, soft_max_back_is_scaled, NULL},
    {"dropped factor, ROPE", LOAM_OP_ROPE, NULL, false, rope_without_freq_scale, rope_is_scaled,
     NULL},
    {"slopes ignored", LOAM_OP_SOFT_MAX, NULL, false, soft_max_without_slopes, has_slopes, NULL},
    {"missing last block, OUT_PROD", LOAM_OP_OUT_PROD, "iq4_xs", false, out_prod_of_whole_blocks,
     k_has_a_rest, NULL},
    {"missing last block, SUM_ROWS", LOAM_OP_SUM_ROWS, NULL, false, sum_rows_of_whole_blocks,
     row_has_a_rest, NULL},
    {"transposed operand read untransposed", LOAM_OP_OUT_PROD, "iq4_xs", false, out_prod_of_rows,
     is_transposed, NULL},
    {"mask ignored", LOAM_OP_SOFT_MAX, NULL, false, soft_max_without_mask, has_mask, NULL},
    {"sum in float, RMS_NORM", LOAM_OP_RMS_NORM, NULL, false, rms_norm_in_float,
     is_long_with_a_huge_value, NULL},
    {"sum in float, RMS_NORM_BACK", LOAM_OP_RMS_NORM_BACK, NULL, false, rms_norm_back_in_float,
     is_long_with_a_huge_value, NULL},
    {"half a gradient", LOAM_OP_SWIGLU_BACK, NULL, true, swiglu_back_with_half_db,
     checks_a_gradient, "SWIGLU"},
    {"write past the end", LOAM_OP_SCALE, NULL, false, scale_past_the_end, every_case, NULL},
    {"write into an input", LOAM_OP_SCALE, NULL, false, scale_into_its_source, every_case, NULL},
    {"element not written", LOAM_OP_SCALE, NULL, false, scale_without_last_element, every_case,
     NULL},
    {"error while running", LOAM_OP_SCALE, NULL, false, scale_fails, every_case, NULL},
    {"write beside a view", LOAM_OP_CPY, "f16", false, cpy_beside_the_view, target_is_not_dense,
     NULL},
};

typedef struct tally {
    const mutant *m; /* NULL: nothing is mutated */
    int n_failed, n_passed, n_wrong;
} tally;

static bool count(void *user, const loam_parity_case *r)
{
    tally *t = user;
    bool expected = t->m && t->m->must_fail(r->label);
    bool failed = r->outcome == LOAM_FAILED;
    if (failed != expected) {
        print_error("%s: %s %s %s (NMSE %g, %s)\n", t->m ? t->m->name : "no mutant", r->op,
                    r->label, failed ? "failed" : "passed", r->nmse, r->reason);
        t->n_wrong++;
    }
    assert_int_not_equal(r->outcome, LOAM_REFUSED);
    /* A failure says why. */
    assert_int_equal(failed, r->reason[0] != '\0');
    if (failed)
        t->n_failed++;
    else
        t->n_passed++;
    return true;
}

static tally run(const mutant *m, bool is_mutated)
{
    test_device d;
    tally t = {.m = is_mutated ? m : NULL};
    test_device_init(&d, m->op, is_mutated ? m->run : NULL);
    const char *op = m->tested_op ? m->tested_op : loam_op_get(m->op)->name;
    const loam_parity_options o = {.op = op, .type = m->type, .grad = m->grad, .skip_slow = true};
    assert_int_equal(loam_parity_run(&d.base, &o, count, &t, NULL), LOAM_OK);
    return t;
}

static void test_mutants_fail_where_they_should(void **state)
{
    (void)state;
    int n_wrong = 0;
    for (int i = 0; i < LOAM_COUNT(mutants); i++) {
        tally t = run(&mutants[i], true);
        print_message("%-40s fails %d, passes %d\n", mutants[i].name, t.n_failed, t.n_passed);
        assert_true(t.n_failed > 0);
        n_wrong += t.n_wrong;
    }
    assert_int_equal(n_wrong, 0);
}

static void test_the_same_cases_pass_unmutated(void **state)
{
    (void)state;
    for (int i = 0; i < LOAM_COUNT(mutants); i++) {
        tally t = run(&mutants[i], false);
        assert_true(t.n_passed > 0);
        assert_int_equal(t.n_wrong, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutants_fail_where_they_should),
        cmocka_unit_test(test_the_same_cases_pass_unmutated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
