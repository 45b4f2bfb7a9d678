/* out_prod.c: OUT_PROD, y[j, i] = sum over k of b[j, k] a[k, i], where a is the weight of a product
 * whose backward this is, and b the transposed view of the product's gradient.
 *
 * The columns of a are cut into strips of whole blocks. A task decodes its strip in tiles of rows,
 * which stay in a core's L2 cache, and adds each tile's product to y: a weight is decoded once a
 * pass (a few times where a weight has so few columns that y's rows are cut as well), and scratch
 * does not grow with it. Both layouts of b are read where they lie. */
#include "device/cpu/matrix.h"

#define STRIP 256       /* columns of a: the largest block of any type */
#define TILE_ROWS 512   /* rows of a decoded at a time */
#define WANTED_TASKS 16 /* fewer strips than this: y's rows are cut as well, */
#define LEAST_ROWS 192  /* into no fewer rows than this where a is decoded, */
#define LEAST_DIRECT 64 /* and than this where it is not */

typedef struct out_prod {
    cpu_device *d;
    cpu_matrix a, b; /* batch (0, 0) of each: a [k, m], b [n, k] */
    cpu_batches a_batches, b_batches;
    char *y;
    size_t y_bytes2, y_bytes3;
    int64_t ldy;
    bool a_direct, b_direct, a_trans, b_trans;
    int64_t lda, ldb;
    int64_t strip, n_strips, tile_rows, y_rows, n_pieces;
    size_t b_stride_bytes; /* of one packed batch of b */
    size_t packed_bytes, worker_bytes;
    char *packed, *workers; /* scratch */
} out_prod;

static cpu_matrix matrix_a(const loam_tensor *a)
{
    return (cpu_matrix){.type = a->type,
                        .data = a->data,
                        .rows = a->ne[1],
                        .cols = a->ne[0],
                        .row_bytes = a->nb[1],
                        .col_bytes = a->nb[0]};
}

static cpu_matrix matrix_b(const loam_tensor *b)
{
    return (cpu_matrix){.type = b->type,
                        .data = b->data,
                        .rows = b->ne[0],
                        .cols = b->ne[1],
                        .row_bytes = b->nb[0],
                        .col_bytes = b->nb[1]};
}

static void cut(out_prod *p)
{
    int64_t m = p->a.cols, k = p->a.rows, n = p->b.rows;
    size_t size = cpu_operand_bytes(p->d);
    p->strip = LOAM_MIN(m, STRIP);
    p->n_strips = cpu_ceil_div(m, p->strip);
    p->tile_rows = k;
    if (!p->a_direct) {
        p->lda = cpu_operand_ld(p->strip);
        int64_t most = (int64_t)(p->d->decode_scratch_bytes / ((size_t)p->lda * size));
        p->tile_rows = LOAM_MAX(1, LOAM_MIN(LOAM_MIN(k, TILE_ROWS), most));
        p->worker_bytes = cpu_align((size_t)(p->tile_rows * p->lda) * size);
    }
    int64_t least = p->a_direct ? LEAST_DIRECT : LEAST_ROWS;
    int64_t pieces = LOAM_MIN(cpu_ceil_div(WANTED_TASKS, p->n_strips), n / least);
    pieces = LOAM_MAX(1, pieces);
    p->y_rows = cpu_ceil_div(cpu_ceil_div(n, pieces), 16) * 16;
    p->n_pieces = cpu_ceil_div(n, p->y_rows);
    if (!p->b_direct) {
        p->ldb = cpu_operand_ld(k);
        p->b_stride_bytes = cpu_align((size_t)(n * p->ldb) * size);
        p->packed_bytes = p->b_stride_bytes * (size_t)(p->b_batches.n2 * p->b_batches.n3);
    }
}

static out_prod plan(cpu_device *d, const loam_node *n)
{
    const loam_tensor *a = &n->src[0]->t, *b = &n->src[1]->t, *y = &n->t;
    out_prod p = {.d = d, .a = matrix_a(a), .b = matrix_b(b), .y = y->data};
    p.a_batches = (cpu_batches){a->ne[2], a->ne[3], a->nb[2], a->nb[3]};
    p.b_batches = (cpu_batches){b->ne[2], b->ne[3], b->nb[2], b->nb[3]};
    p.y_bytes2 = y->nb[2];
    p.y_bytes3 = y->nb[3];
    p.ldy = y->ne[1] == 1 ? y->ne[0] : (int64_t)(y->nb[1] / sizeof(float));
    p.a_direct = cpu_matrix_is_direct(d, &p.a, &p.a_trans, &p.lda);
    p.b_direct = cpu_matrix_is_direct(d, &p.b, &p.b_trans, &p.ldb);
    /* A BF16 product takes its first operand in rows only. */
    p.b_direct = p.b_direct && !(p.b_trans && cpu_multiplies_bf16(d));
    if (!p.a_direct)
        p.a_trans = false;
    if (!p.b_direct)
        p.b_trans = false;
    cut(&p);
    return p;
}

/* b's rows here are its columns there: only F32, or a dense transposed view, can be read. */
static bool takes(const loam_node *n)
{
    cpu_matrix a = matrix_a(&n->src[0]->t), b = matrix_b(&n->src[1]->t);
    return cpu_is_f32_rows(&n->t) && cpu_matrix_is_readable(&a) && cpu_matrix_is_readable(&b) &&
           a.rows > 0;
}

static size_t scratch_bytes(const cpu_device *d, const loam_node *n)
{
    out_prod p = plan((cpu_device *)(uintptr_t)d, n);
    return p.packed_bytes + p.worker_bytes * (size_t)d->n_threads;
}

static void select_batch(const out_prod *p, int64_t batch, cpu_matrix *a, const char **b, char **y)
{
    int64_t i2 = batch % p->b_batches.n2, i3 = batch / p->b_batches.n2;
    *a = p->a;
    a->data += (size_t)(i2 / (p->b_batches.n2 / p->a_batches.n2)) * p->a_batches.bytes2 +
               (size_t)(i3 / (p->b_batches.n3 / p->a_batches.n3)) * p->a_batches.bytes3;
    *b = p->b_direct
             ? p->b.data + (size_t)i2 * p->b_batches.bytes2 + (size_t)i3 * p->b_batches.bytes3
             : p->packed + (size_t)batch * p->b_stride_bytes;
    *y = p->y + (size_t)i2 * p->y_bytes2 + (size_t)i3 * p->y_bytes3;
}

static void multiply_strip(void *context, int64_t task, int worker)
{
    const out_prod *p = context;
    int64_t piece = task % p->n_pieces, rest = task / p->n_pieces;
    int64_t col = rest % p->n_strips * p->strip, first = piece * p->y_rows;
    int64_t n_cols = LOAM_MIN(p->a.cols - col, p->strip);
    int64_t n = LOAM_MIN(p->b.rows - first, p->y_rows);
    size_t size = cpu_operand_bytes(p->d);
    cpu_matrix a;
    const char *b;
    char *y;
    select_batch(p, rest / p->n_strips, &a, &b, &y);
    b += (size_t)(p->b_trans ? first : first * p->ldb) * size;
    float *c = (float *)y + first * p->ldy + col;
    if (p->a_direct) {
        const char *from = a.data + (size_t)(p->a_trans ? col * p->lda : col) * size;
        cpu_multiply(p->d, worker, p->b_trans, p->a_trans, n, n_cols, a.rows, b, p->ldb, from,
                     p->lda, false, c, p->ldy);
        return;
    }
    char *tile = p->workers + (size_t)worker * p->worker_bytes;
    for (int64_t k = 0; k < a.rows; k += p->tile_rows) {
        int64_t n_k = LOAM_MIN(a.rows - k, p->tile_rows);
        cpu_matrix_load(p->d, &a, k, n_k, col, n_cols, tile, p->lda);
        cpu_multiply(p->d, worker, p->b_trans, false, n, n_cols, n_k,
                     b + (size_t)(p->b_trans ? k * p->ldb : k) * size, p->ldb, tile, p->lda, k > 0,
                     c, p->ldy);
    }
}

static loam_status run(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    (void)e;
    out_prod p = plan(d, n);
    p.packed = scratch;
    p.workers = scratch + p.packed_bytes;
    if (!p.b_direct)
        cpu_matrix_load_all(d, &p.b, &p.b_batches, false, p.packed, p.ldb, p.b_stride_bytes);
    int64_t batches = p.b_batches.n2 * p.b_batches.n3;
    loam_pool_run(d->pool, batches * p.n_strips * p.n_pieces, multiply_strip, &p);
    return LOAM_OK;
}

void loam_cpu_add_out_prod(cpu_kernel *table)
{
    table[LOAM_OP_OUT_PROD] =
        (cpu_kernel){.takes = takes, .scratch_bytes = scratch_bytes, .run = run};
}
