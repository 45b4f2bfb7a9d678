/* rows.c: GET_ROWS, GET_ROWS_BACK and SET_ROWS. */
#include "device/cpu/cpu.h"
#include "device/cpu/matrix.h"
#include "device/cpu/vector.h"

#include <string.h>

#define STRIP 256 /* columns of a gradient that a task sums */

static loam_status check_id(const loam_node *n, int64_t id, int64_t n_rows, loam_error *e)
{
    if (id >= 0 && id < n_rows)
        return LOAM_OK;
    return loam_fail(e, LOAM_E_USAGE, "%s (node '%s'): id %lld lies outside the %lld rows",
                     loam_op_get(n->op)->name, n->name, (long long)id, (long long)n_rows);
}

static bool are_ids(const loam_tensor *t, loam_type type)
{
    return t->type == type && t->nb[0] == loam_type_get((int)type)->block_bytes;
}

static cpu_matrix table_of(const loam_tensor *t, int64_t i2, int64_t i3)
{
    return (cpu_matrix){.type = t->type,
                        .data = cpu_row(t, 0, i2, i3),
                        .rows = t->ne[1],
                        .cols = t->ne[0],
                        .row_bytes = t->nb[1],
                        .col_bytes = t->nb[0]};
}

/* ---- GET_ROWS ----------------------------------------------------------------------------- */

static bool takes_get(const loam_node *n)
{
    cpu_matrix m = table_of(&n->src[0]->t, 0, 0);
    return cpu_matrix_is_readable(&m) && cpu_is_f32_rows(&n->t) &&
           are_ids(&n->src[1]->t, LOAM_TYPE_I32);
}

static int32_t id_of_row(const loam_node *n, int64_t r)
{
    const int64_t *ne = n->t.ne;
    const int32_t *ids =
        (const int32_t *)cpu_row(&n->src[1]->t, r / ne[1] % ne[2], r / ne[1] / ne[2], 0);
    return ids[r % ne[1]];
}

static void get_row(void *context, int64_t r, int worker)
{
    (void)worker;
    const loam_node *n = context;
    const int64_t *ne = n->t.ne;
    cpu_matrix m = table_of(&n->src[0]->t, r / ne[1] % ne[2], r / ne[1] / ne[2]);
    cpu_matrix_load(NULL, &m, id_of_row(n, r), 1, 0, m.cols, cpu_flat_row(&n->t, r), m.cols);
}

static loam_status run_get(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    for (int64_t r = 0; r < loam_tensor_rows(&n->t); r++)
        LOAM_TRY(check_id(n, id_of_row(n, r), n->src[0]->t.ne[1], e));
    cpu_run_rows(d, loam_tensor_rows(&n->t), n->t.ne[0], get_row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

/* ---- GET_ROWS_BACK ------------------------------------------------------------------------ */

static bool takes_back(const loam_node *n)
{
    return cpu_is_f32_rows(&n->src[0]->t) && cpu_is_f32_rows(&n->t) &&
           are_ids(&n->src[1]->t, LOAM_TYPE_I32);
}

/* Rows may repeat, so a task owns columns: each sum is made in the order of the tokens. */
static void sum_strip(void *context, int64_t i, int worker)
{
    (void)worker;
    const loam_node *n = context;
    const loam_tensor *dy = &n->src[0]->t;
    const int32_t *ids = n->src[1]->t.data;
    int64_t first = i * STRIP, width = LOAM_MIN(n->t.ne[0] - first, STRIP);
    for (int64_t r = 0; r < n->t.ne[1]; r++)
        memset((float *)cpu_row(&n->t, r, 0, 0) + first, 0, (size_t)width * sizeof(float));
    for (int64_t t = 0; t < dy->ne[1]; t++)
        cpu_vector_add_scaled((float *)cpu_row(&n->t, ids[t], 0, 0) + first,
                              (const float *)cpu_row(dy, t, 0, 0) + first, 1, width);
}

static loam_status run_back(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    const int32_t *ids = n->src[1]->t.data;
    for (int64_t t = 0; t < n->src[0]->t.ne[1]; t++)
        LOAM_TRY(check_id(n, ids[t], n->t.ne[1], e));
    loam_pool_run(d->pool, cpu_ceil_div(n->t.ne[0], STRIP), sum_strip, (void *)(uintptr_t)n);
    return LOAM_OK;
}

/* ---- SET_ROWS ----------------------------------------------------------------------------- */

static bool takes_set(const loam_node *n)
{
    loam_type to = n->t.type;
    bool is_writable = to == LOAM_TYPE_F32 || to == LOAM_TYPE_F16 || to == LOAM_TYPE_BF16;
    return is_writable && loam_rows_contiguous(&n->t) && cpu_is_f32_rows(&n->src[1]->t) &&
           (are_ids(&n->src[2]->t, LOAM_TYPE_I32) || are_ids(&n->src[2]->t, LOAM_TYPE_I64));
}

static int64_t target_row(const loam_node *n, int64_t t)
{
    const loam_tensor *ids = &n->src[2]->t;
    return ids->type == LOAM_TYPE_I32 ? ((const int32_t *)ids->data)[t]
                                      : ((const int64_t *)ids->data)[t];
}

static void set_row(void *context, int64_t t, int worker)
{
    (void)worker;
    const loam_node *n = context;
    const float *from = (const float *)cpu_row(&n->src[1]->t, t, 0, 0);
    char *to = cpu_row(&n->t, target_row(n, t), 0, 0);
    int64_t width = n->t.ne[0];
    if (n->t.type == LOAM_TYPE_F32)
        memcpy(to, from, (size_t)width * sizeof(float));
    else if (n->t.type == LOAM_TYPE_BF16)
        cpu_to_bf16(from, (uint16_t *)to, width);
    else
        for (int64_t i = 0; i < width; i++)
            ((uint16_t *)to)[i] = loam_f32_to_f16(from[i]);
}

static loam_status run_set(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)scratch;
    int64_t n_tokens = n->src[1]->t.ne[1];
    for (int64_t t = 0; t < n_tokens; t++)
        LOAM_TRY(check_id(n, target_row(n, t), n->t.ne[1], e));
    cpu_run_rows(d, n_tokens, n->t.ne[0], set_row, (void *)(uintptr_t)n);
    return LOAM_OK;
}

void loam_cpu_add_rows(cpu_kernel *table)
{
    table[LOAM_OP_GET_ROWS] = (cpu_kernel){.takes = takes_get, .run = run_get};
    table[LOAM_OP_GET_ROWS_BACK] = (cpu_kernel){.takes = takes_back, .run = run_back};
    table[LOAM_OP_SET_ROWS] = (cpu_kernel){.takes = takes_set, .run = run_set};
}
