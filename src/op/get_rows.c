/* get_rows.c: GET_ROWS, y[:, t, i2, i3] = a[:, ids[t, i2, i3], i2, i3]
 *
 *   a    [n, rows, B2, B3]  any float or block type
 *   ids  I32 [T, B2, B3]    each within [0, rows)
 *   y    [n, T, B2, B3]     F32 (F64 in checks)
 *
 * GET_ROWS_BACK, the gradient of an a without batches: dy [n, T], ids [T] -> [n, rows],
 * da[:, r] = sum over t with ids[t] = r of dy[:, t]. Its own backward is GET_ROWS again. */
#include "op/check.h"
#include "op/op_def.h"

loam_node *loam_get_rows(loam_graph *g, loam_node *a, loam_node *ids)
{
    if (!a || !ids)
        return NULL;
    if (!loam_is_decoded(a->t.type) || ids->t.type != LOAM_TYPE_I32)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "GET_ROWS: a is %s and ids are %s; a must have a float or block "
                               "type, ids i32",
                               loam_operand(a).text, loam_operand(ids).text);
    if (ids->t.ne[1] != a->t.ne[2] || ids->t.ne[2] != a->t.ne[3] || ids->t.ne[3] != 1)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "GET_ROWS: a is %s and ids are %s; ne1 and ne2 of ids must equal "
                               "ne2 and ne3 of a",
                               loam_operand(a).text, loam_operand(ids).text);
    if (a->needs_grad && a->t.ne[2] * a->t.ne[3] != 1)
        return loam_graph_fail(g, LOAM_E_UNSUPPORTED,
                               "GET_ROWS: a is %s; the gradient of a table with batches is not "
                               "defined here, look up each batch by itself",
                               loam_operand(a).text);
    const int64_t ne[] = {a->t.ne[0], ids->t.ne[0], ids->t.ne[1], ids->t.ne[2]};
    return loam_node_new(g, LOAM_OP_GET_ROWS, g->activation, ne, 2, (loam_node *[]){a, ids});
}

loam_node *loam_get_rows_back(loam_graph *g, loam_node *dy, loam_node *ids, int64_t n_rows)
{
    if (!dy || !ids)
        return NULL;
    if (!loam_is_float(dy->t.type) || ids->t.type != LOAM_TYPE_I32)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "GET_ROWS_BACK: dy is %s and ids are %s; dy must have a float type, "
                               "ids i32",
                               loam_operand(dy).text, loam_operand(ids).text);
    if (dy->t.ne[1] != ids->t.ne[0] || dy->t.ne[2] * dy->t.ne[3] != 1 ||
        loam_tensor_rows(&ids->t) != 1 || n_rows < 1)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "GET_ROWS_BACK: dy is %s, ids are %s and the result has %lld rows; "
                               "expected dy [n, T], ids [T] and at least one row",
                               loam_operand(dy).text, loam_operand(ids).text, (long long)n_rows);
    const int64_t ne[] = {dy->t.ne[0], n_rows, 1, 1};
    loam_node *n =
        loam_node_new(g, LOAM_OP_GET_ROWS_BACK, g->activation, ne, 2, (loam_node *[]){dy, ids});
    if (n)
        n->params.rows.ne0_rows = n_rows;
    return n;
}

static loam_status id_outside(const loam_node *n, int64_t id, int64_t n_rows, loam_error *e)
{
    return loam_fail(e, LOAM_E_USAGE, "%s (node '%s'): id %lld lies outside the %lld rows",
                     loam_op_get(n->op)->name, n->name, (long long)id, (long long)n_rows);
}

static loam_status get_rows_reference(const loam_node *n, loam_error *e)
{
    const loam_tensor *a = &n->src[0]->t, *ids = &n->src[1]->t;
    const int64_t *ne = n->t.ne;
    double *row = loam_alloc((size_t)ne[0] * sizeof *row);
    loam_status status = row ? LOAM_OK : loam_reference_memory(n, e);
    for (int64_t r = 0; status == LOAM_OK && r < ne[1] * ne[2] * ne[3]; r++) {
        int64_t t = r % ne[1], i2 = r / ne[1] % ne[2], i3 = r / ne[1] / ne[2];
        int64_t id = (int64_t)loam_get(ids, t, i2, i3, 0);
        if (id < 0 || id >= a->ne[1]) {
            status = id_outside(n, id, a->ne[1], e);
            break;
        }
        loam_get_row(a, id, i2, i3, row);
        for (int64_t i = 0; i < ne[0]; i++)
            loam_set(&n->t, i, t, i2, i3, row[i]);
    }
    loam_free(row);
    return status;
}

static loam_status get_rows_back_reference(const loam_node *n, loam_error *e)
{
    const loam_tensor *dy = &n->src[0]->t, *ids = &n->src[1]->t;
    int64_t width = n->t.ne[0], n_rows = n->t.ne[1];
    double *row = loam_alloc((size_t)width * sizeof *row);
    double *sums = loam_alloc((size_t)(width * n_rows) * sizeof *sums);
    loam_status status = row && sums ? LOAM_OK : loam_reference_memory(n, e);
    for (int64_t t = 0; status == LOAM_OK && t < dy->ne[1]; t++) {
        int64_t id = (int64_t)loam_get(ids, t, 0, 0, 0);
        if (id < 0 || id >= n_rows) {
            status = id_outside(n, id, n_rows, e);
            break;
        }
        loam_get_row(dy, t, 0, 0, row);
        for (int64_t i = 0; i < width; i++)
            sums[id * width + i] += row[i];
    }
    if (status == LOAM_OK)
        for (int64_t r = 0; r < n_rows; r++)
            for (int64_t i = 0; i < width; i++)
                loam_set(&n->t, i, r, 0, 0, sums[r * width + i]);
    loam_free(row);
    loam_free(sums);
    return status;
}

static void get_rows_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_node *a = n->src[0];
    if (a->needs_grad)
        loam_grad_add(g, a, loam_get_rows_back(g, dy, n->src[1], a->t.ne[1]));
}

static void get_rows_back_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    loam_grad_add(g, n->src[0], loam_get_rows(g, dy, n->src[1]));
}

/* p: width, rows, T, B2, B3, all ids alike, a as a view with gaps between its rows. */
static loam_node *build_get_rows(loam_graph *g, const loam_case *c)
{
    const int64_t *p = c->p;
    bool is_view = p[6] != 0;
    const int64_t ne[] = {p[0], p[1], p[3], p[4]};
    const int64_t whole_ne[] = {is_view ? 3 * p[0] : p[0], p[1], p[3], p[4]};
    const int64_t ids_ne[] = {p[2], p[3], p[4], 1};
    loam_node *a = loam_case_input(g, c->type, whole_ne, LOAM_FILL_NORMAL, 1, 0,
                                   c->type == LOAM_TYPE_F32 && p[3] * p[4] == 1);
    if (a && is_view)
        a = loam_view(g, a, ne, a->t.nb, loam_row_bytes(a->t.type, p[0]));
    loam_node *ids =
        p[5] ? loam_case_input(g, LOAM_TYPE_I32, ids_ne, LOAM_FILL_CONSTANT, (double)p[1] - 1, 0,
                               false)
             : loam_case_input(g, LOAM_TYPE_I32, ids_ne, LOAM_FILL_IDS, 0, (double)p[1], false);
    return loam_get_rows(g, a, ids);
}

static void add_get_rows(loam_case_list *list, loam_type type, int64_t width, int64_t rows,
                         int64_t n_ids, int64_t b2, int64_t b3, bool alike, bool is_view)
{
    width = LOAM_MAX(width / loam_type_get((int)type)->block_ne, 1) *
            loam_type_get((int)type)->block_ne;
    loam_case *c = loam_case_add(list, LOAM_OP_GET_ROWS, type, build_get_rows,
                                 "type=%s,n=%lld,rows=%lld,ids=%lld,bs=[%lld,%lld],repeated=%s%s",
                                 loam_type_name(type), (long long)width, (long long)rows,
                                 (long long)n_ids, (long long)b2, (long long)b3,
                                 alike ? "all" : "some", is_view ? ",layout=view" : "");
    const int64_t values[] = {width, rows, n_ids, b2, b3, alike, is_view};
    for (int i = 0; i < LOAM_COUNT(values); i++)
        c->p[i] = values[i];
    c->check_grad = type == LOAM_TYPE_F32 && b2 * b3 == 1 && width * rows * n_ids < 20000;
}

static void get_rows_cases(loam_case_list *list)
{
    for (int t = 0; t < LOAM_TYPE_COUNT; t++) {
        loam_type type = (loam_type)t;
        if (!loam_is_decoded(type) || type == LOAM_TYPE_F64 || type == LOAM_TYPE_Q8_1 ||
            type == LOAM_TYPE_Q8_K)
            continue;
        add_get_rows(list, type, 256, 5, 4, 1, 1, false, false);
        add_get_rows(list, type, 768, 80, 100, 1, 1, false, false);
        add_get_rows(list, type, 256, 5, 4, 7, 1, false, false);
        add_get_rows(list, type, 256, 5, 4, 3, 2, false, false);
        add_get_rows(list, type, 256, 9, 33, 1, 1, true, false);
        add_get_rows(list, type, 256, 9, 33, 1, 1, false, true);
    }
    static const loam_type large[] = {LOAM_TYPE_F32, LOAM_TYPE_F16, LOAM_TYPE_Q4_K, LOAM_TYPE_Q8_0};
    for (int i = 0; i < LOAM_COUNT(large); i++) {
        add_get_rows(list, large[i], 32, 70000, 77, 1, 1, false, false);
        add_get_rows(list, large[i], 32, 70000, 70000, 1, 1, false, false);
    }
    add_get_rows(list, LOAM_TYPE_F32, 1, 8, 2, 1, 1, false, false);
    add_get_rows(list, LOAM_TYPE_F32, 1, 8, 2, 700, 100, false, false); /* 70000 batches */
    add_get_rows(list, LOAM_TYPE_F32, 31, 7, 12, 1, 1, false, false);
}

/* p: width, T, rows, all ids alike, dy transposed. */
static loam_node *build_get_rows_back(loam_graph *g, const loam_case *c)
{
    const int64_t *p = c->p;
    const int64_t ne[] = {p[4] ? p[1] : p[0], p[4] ? p[0] : p[1], 1, 1};
    const int64_t ids_ne[] = {p[1], 1, 1, 1};
    loam_node *dy = loam_case_input(g, LOAM_TYPE_F32, ne, LOAM_FILL_NORMAL, 1, 0, true);
    loam_node *ids =
        p[3] ? loam_case_input(g, LOAM_TYPE_I32, ids_ne, LOAM_FILL_CONSTANT, (double)p[2] - 1, 0,
                               false)
             : loam_case_input(g, LOAM_TYPE_I32, ids_ne, LOAM_FILL_IDS, 0, (double)p[2], false);
    return loam_get_rows_back(g, p[4] ? loam_transpose(g, dy) : dy, ids, p[2]);
}

static void get_rows_back_cases(loam_case_list *list)
{
    static const int64_t shapes[][5] = {
        {1, 2, 8, 0, 0},     {256, 4, 5, 0, 0},        {256, 100, 80, 0, 0}, {31, 12, 7, 0, 0},
        {31, 12, 7, 1, 0},   {31, 12, 7, 0, 1},        {64, 500, 3, 0, 0},   {256, 77, 70000, 0, 0},
        {8, 70000, 9, 0, 0}, {32, 70000, 70000, 0, 0}, {5120, 33, 10, 0, 1},
    };
    for (int i = 0; i < LOAM_COUNT(shapes); i++) {
        const int64_t *s = shapes[i];
        loam_case *c = loam_case_add(
            list, LOAM_OP_GET_ROWS_BACK, LOAM_TYPE_F32, build_get_rows_back,
            "type=f32,n=%lld,ids=%lld,rows=%lld,repeated=%s,layout=%s", (long long)s[0],
            (long long)s[1], (long long)s[2], s[3] ? "all" : "some", s[4] ? "transposed" : "rows");
        for (int j = 0; j < 5; j++)
            c->p[j] = s[j];
        c->check_grad = s[0] * s[1] * s[2] < 20000;
    }
}

const loam_op_def loam_op_get_rows = {.name = "GET_ROWS",
                                      .reference = get_rows_reference,
                                      .backward = get_rows_backward,
                                      .cases = get_rows_cases};

const loam_op_def loam_op_get_rows_back = {.name = "GET_ROWS_BACK",
                                           .reference = get_rows_back_reference,
                                           .backward = get_rows_back_backward,
                                           .cases = get_rows_back_cases};
