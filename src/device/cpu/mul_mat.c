/* mul_mat.c: MUL_MAT, y[j, i] = sum over k of x[j, k] w[i, k].
 *
 * The rows of w are cut into panels. A task decodes a panel, in pieces along k that stay in a
 * core's L2 cache, and multiplies each piece by x at once: a weight is decoded once a pass, and
 * never stored whole. Weights that lie as the product library reads them are not copied. Up to
 * eight rows of x (generation) are dotted with each decoded row instead. */
#include "device/cpu/matrix.h"
#include "device/cpu/simd.h"

#define DOT_ROWS 8     /* rows of x up to which rows are dotted */
#define DOT_PANEL 32   /* rows of w a task dots */
#define PANEL 128      /* rows of w a task multiplies */
#define SMALL_PANEL 64 /* of a decoded weight with fewer rows than SMALL_WEIGHT */
#define SMALL_WEIGHT 512
#define WHOLE_K 1536 /* longer rows are decoded in pieces of K_PIECE */
#define K_PIECE 1024
#define WANTED_TASKS 16 /* fewer panels than this: x is cut as well, */
#define LEAST_ROWS 192  /* into no fewer rows than that */

typedef struct mul_mat {
    cpu_device *d;
    cpu_matrix w, x; /* batch (0, 0) of each */
    cpu_batches w_batches, x_batches;
    char *y;
    size_t y_bytes2, y_bytes3;
    int64_t ldy;
    bool w_direct, x_direct, w_trans, x_trans, is_dot;
    int64_t ldw, ldx;
    int64_t panel_rows, n_panels, k_piece, x_rows, n_x_pieces;
    size_t x_stride_bytes; /* of one packed batch of x */
    size_t packed_bytes, worker_bytes;
    char *packed, *workers; /* scratch */
} mul_mat;

/* Batches of x that follow each other, times one w, are one batch of more rows. */
static void merge_batches(mul_mat *p, const loam_tensor *w, const loam_tensor *x,
                          const loam_tensor *y)
{
    int64_t n = x->ne[1];
    if (w->ne[2] * w->ne[3] != 1 || x->ne[2] * x->ne[3] == 1)
        return;
    for (int i = 0; i < 2; i++) {
        const loam_tensor *t = i ? y : x;
        if (t->nb[2] != (size_t)n * t->nb[1] || t->nb[3] != (size_t)t->ne[2] * t->nb[2])
            return;
    }
    p->x.rows = n * x->ne[2] * x->ne[3];
    p->x_batches.n2 = p->x_batches.n3 = 1;
}

static void cut(mul_mat *p)
{
    int64_t m = p->w.rows, k = p->w.cols, n = p->x.rows;
    const cpu_device *d = p->d;
    size_t size = cpu_operand_bytes(d);
    if (p->is_dot) {
        p->panel_rows = DOT_PANEL;
        p->worker_bytes = cpu_align((size_t)k * sizeof(float));
        p->n_x_pieces = 1;
        p->x_rows = n;
    } else {
        p->k_piece = p->w_direct || k <= WHOLE_K ? k : K_PIECE;
        p->panel_rows = m < SMALL_WEIGHT && !p->w_direct ? SMALL_PANEL : PANEL;
        if (!p->w_direct) {
            int64_t ld = cpu_operand_ld(p->k_piece);
            int64_t most = (int64_t)(d->decode_scratch_bytes / ((size_t)ld * size));
            p->panel_rows = LOAM_MAX(1, LOAM_MIN(p->panel_rows, most));
            p->ldw = ld;
            p->worker_bytes = cpu_align((size_t)(p->panel_rows * ld) * size);
        }
        int64_t panels = cpu_ceil_div(m, p->panel_rows);
        int64_t pieces = LOAM_MIN(cpu_ceil_div(WANTED_TASKS, panels), n / LEAST_ROWS);
        pieces = LOAM_MAX(1, pieces);
        p->x_rows = cpu_ceil_div(cpu_ceil_div(n, pieces), 16) * 16;
        p->n_x_pieces = cpu_ceil_div(n, p->x_rows);
    }
    p->n_panels = cpu_ceil_div(m, p->panel_rows);
    if (!p->x_direct) {
        p->ldx = cpu_operand_ld(k);
        p->x_stride_bytes = cpu_align((size_t)(n * p->ldx) * (p->is_dot ? sizeof(float) : size));
        p->packed_bytes = p->x_stride_bytes * (size_t)(p->x_batches.n2 * p->x_batches.n3);
    }
}

static cpu_matrix rows_of(const loam_tensor *t)
{
    return (cpu_matrix){.type = t->type,
                        .data = t->data,
                        .rows = t->ne[1],
                        .cols = t->ne[0],
                        .row_bytes = t->nb[1],
                        .col_bytes = t->nb[0]};
}

static mul_mat plan(cpu_device *d, const loam_node *n)
{
    const loam_tensor *w = &n->src[0]->t, *x = &n->src[1]->t, *y = &n->t;
    mul_mat p = {.d = d, .w = rows_of(w), .x = rows_of(x), .y = y->data};
    p.w_batches = (cpu_batches){w->ne[2], w->ne[3], w->nb[2], w->nb[3]};
    p.x_batches = (cpu_batches){x->ne[2], x->ne[3], x->nb[2], x->nb[3]};
    p.y_bytes2 = y->nb[2];
    p.y_bytes3 = y->nb[3];
    p.ldy = y->ne[1] * y->ne[2] * y->ne[3] == 1 ? y->ne[0] : (int64_t)(y->nb[1] / sizeof(float));
    merge_batches(&p, w, x, y);
    if (p.x.rows <= DOT_ROWS && (w->type != LOAM_TYPE_F32 || w->nb[0] == sizeof(float))) {
        p.is_dot = true;
        p.w_direct = w->type == LOAM_TYPE_F32;
        p.x_direct = x->type == LOAM_TYPE_F32 && x->nb[0] == sizeof(float);
        p.ldx = (int64_t)(x->nb[1] / sizeof(float));
    } else {
        p.w_direct = cpu_matrix_is_direct(d, &p.w, &p.w_trans, &p.ldw);
        p.x_direct = cpu_matrix_is_direct(d, &p.x, &p.x_trans, &p.ldx);
        /* A BF16 product takes its first operand in rows only. */
        p.x_direct = p.x_direct && !(p.x_trans && cpu_multiplies_bf16(d));
    }
    if (!p.w_direct)
        p.w_trans = false;
    if (!p.x_direct)
        p.x_trans = false;
    cut(&p);
    return p;
}

static bool takes(const loam_node *n)
{
    cpu_matrix w = rows_of(&n->src[0]->t), x = rows_of(&n->src[1]->t);
    return cpu_is_f32_rows(&n->t) && cpu_matrix_is_readable(&w) && cpu_matrix_is_readable(&x) &&
           w.cols > 0;
}

static size_t scratch_bytes(const cpu_device *d, const loam_node *n)
{
    mul_mat p = plan((cpu_device *)(uintptr_t)d, n);
    return p.packed_bytes + p.worker_bytes * (size_t)d->n_threads;
}

/* Batch i as (i2, i3): w repeats over the batches of x. */
static void select_batch(const mul_mat *p, int64_t batch, cpu_matrix *w, const char **x, char **y)
{
    int64_t i2 = batch % p->x_batches.n2, i3 = batch / p->x_batches.n2;
    int64_t repeat2 = LOAM_MAX(1, p->x_batches.n2 / p->w_batches.n2);
    int64_t repeat3 = LOAM_MAX(1, p->x_batches.n3 / p->w_batches.n3);
    *w = p->w;
    w->data +=
        (size_t)(i2 / repeat2) * p->w_batches.bytes2 + (size_t)(i3 / repeat3) * p->w_batches.bytes3;
    *x = p->x_direct
             ? p->x.data + (size_t)i2 * p->x_batches.bytes2 + (size_t)i3 * p->x_batches.bytes3
             : p->packed + (size_t)batch * p->x_stride_bytes;
    *y = p->y + (size_t)i2 * p->y_bytes2 + (size_t)i3 * p->y_bytes3;
}

static void multiply_panel(void *context, int64_t task, int worker)
{
    const mul_mat *p = context;
    int64_t piece = task % p->n_x_pieces, rest = task / p->n_x_pieces;
    int64_t row = rest % p->n_panels * p->panel_rows, first = piece * p->x_rows;
    int64_t n_rows = LOAM_MIN(p->w.rows - row, p->panel_rows);
    int64_t n = LOAM_MIN(p->x.rows - first, p->x_rows);
    size_t size = cpu_operand_bytes(p->d);
    cpu_matrix w;
    const char *x;
    char *y;
    select_batch(p, rest / p->n_panels, &w, &x, &y);
    x += (size_t)(p->x_trans ? first : first * p->ldx) * size;
    float *c = (float *)y + first * p->ldy + row;
    if (p->w_direct) {
        const char *b = w.data + (size_t)(p->w_trans ? row : row * p->ldw) * size;
        cpu_multiply(p->d, worker, p->x_trans, !p->w_trans, n, n_rows, w.cols, x, p->ldx, b, p->ldw,
                     false, c, p->ldy);
        return;
    }
    char *panel = p->workers + (size_t)worker * p->worker_bytes;
    for (int64_t k = 0; k < w.cols; k += p->k_piece) {
        int64_t n_k = LOAM_MIN(w.cols - k, p->k_piece);
        cpu_matrix_load(p->d, &w, row, n_rows, k, n_k, panel, p->ldw);
        cpu_multiply(p->d, worker, p->x_trans, true, n, n_rows, n_k,
                     x + (size_t)(p->x_trans ? k * p->ldx : k) * size, p->ldx, panel, p->ldw, k > 0,
                     c, p->ldy);
    }
}

CPU_CLONES
static float dot(const float *a, const float *b, int64_t n)
{
    cpu_v16 sums[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 4 * CPU_LANES <= n; i += 4 * CPU_LANES)
        for (int64_t part = 0; part < 4; part++) {
            cpu_v16 u, v;
            cpu_load16(&u, a + i + part * CPU_LANES);
            cpu_load16(&v, b + i + part * CPU_LANES);
            sums[part] += u * v;
        }
    for (; i + CPU_LANES <= n; i += CPU_LANES) {
        cpu_v16 u, v;
        cpu_load16(&u, a + i);
        cpu_load16(&v, b + i);
        sums[0] += u * v;
    }
    float tail = 0;
    for (; i < n; i++)
        tail += a[i] * b[i];
    sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return cpu_sum16(&sums[0]) + tail;
}

static void dot_panel(void *context, int64_t task, int worker)
{
    const mul_mat *p = context;
    cpu_matrix w;
    const char *x;
    char *y;
    select_batch(p, task / p->n_panels, &w, &x, &y);
    int64_t first = task % p->n_panels * p->panel_rows;
    float *decoded = (float *)(p->workers + (size_t)worker * p->worker_bytes);
    for (int64_t i = first; i < LOAM_MIN(w.rows, first + p->panel_rows); i++) {
        const float *row = decoded;
        if (p->w_direct)
            row = (const float *)(w.data + (size_t)i * w.row_bytes);
        else
            cpu_matrix_load(NULL, &w, i, 1, 0, w.cols, decoded, w.cols);
        for (int64_t j = 0; j < p->x.rows; j++)
            ((float *)y)[j * p->ldy + i] = dot((const float *)x + j * p->ldx, row, w.cols);
    }
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)e;
    mul_mat p = plan(d, n);
    p.packed = scratch;
    p.workers = scratch + p.packed_bytes;
    if (!p.x_direct)
        cpu_matrix_load_all(d, &p.x, &p.x_batches, p.is_dot, p.packed, p.ldx, p.x_stride_bytes);
    int64_t batches = p.x_batches.n2 * p.x_batches.n3;
    loam_pool_run(d->pool, batches * p.n_panels * p.n_x_pieces,
                  p.is_dot ? dot_panel : multiply_panel, &p);
    return LOAM_OK;
}

void loam_cpu_add_mul_mat(cpu_kernel *table)
{
    table[LOAM_OP_MUL_MAT] =
        (cpu_kernel){.takes = takes, .scratch_bytes = scratch_bytes, .run = run};
}
