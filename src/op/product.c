/* product.c: what MUL_MAT and OUT_PROD share.
 *
 * Batches broadcast as in ggml: with B2 = A2 * r2, batch i2 of b meets batch i2 / r2 of a, so a
 * batch of a serves r2 neighbours (grouped heads), not every A2-th. */
#include "op/product.h"
#include "op/check.h"

/* ---- operands ----------------------------------------------------------------------------- */

bool loam_product_check(loam_graph *g, const char *op, const loam_node *a, int a_dim,
                        const loam_node *b, int b_dim)
{
    if (!loam_is_decoded(a->t.type) || !loam_is_float(b->t.type)) {
        loam_graph_fail(g, LOAM_E_USAGE,
                        "%s: a is %s and b is %s; a must have a float or block type, b a float "
                        "type",
                        op, loam_operand(a).text, loam_operand(b).text);
        return false;
    }
    if (!loam_rows_contiguous(&a->t)) {
        loam_graph_fail(g, LOAM_E_USAGE,
                        "%s: a, %s, has rows with gaps (%zu bytes between elements); make it "
                        "contiguous first",
                        op, loam_operand(a).text, a->t.nb[0]);
        return false;
    }
    if (a->t.ne[a_dim] != b->t.ne[b_dim]) {
        loam_graph_fail(g, LOAM_E_USAGE, "%s: a is %s and b is %s; ne%d of a must equal ne%d of b",
                        op, loam_operand(a).text, loam_operand(b).text, a_dim, b_dim);
        return false;
    }
    for (int d = 2; d < LOAM_MAX_DIMS; d++)
        if (a->t.ne[d] == 0 || b->t.ne[d] % a->t.ne[d] != 0) {
            loam_graph_fail(g, LOAM_E_USAGE,
                            "%s: a is %s and b is %s; ne%d of b must be a multiple of a's", op,
                            loam_operand(a).text, loam_operand(b).text, d);
            return false;
        }
    return true;
}

/* Dense d seen as [inner, repeat, outer], summed over the middle. */
static loam_node *sum_neighbours(loam_graph *g, loam_node *d, int64_t inner, int64_t repeat,
                                 int64_t outer)
{
    if (repeat == 1)
        return d;
    loam_node *seen = loam_reshape_3d(g, d, inner, repeat, outer);
    return loam_repeat_back(g, seen, (int64_t[]){inner, 1, outer, 1});
}

loam_node *loam_product_sum_batches(loam_graph *g, loam_node *d, const loam_node *a)
{
    if (!d || loam_same_shape(&d->t, &a->t))
        return d;
    const int64_t *ne = a->t.ne;
    int64_t b2 = d->t.ne[2], b3 = d->t.ne[3], plane = ne[0] * ne[1];
    d = sum_neighbours(g, d, plane, b2 / ne[2], ne[2] * b3);
    d = sum_neighbours(g, d, plane * ne[2], b3 / ne[3], ne[3]);
    return loam_reshape(g, d, ne);
}

loam_node *loam_product_operand(loam_graph *g, loam_node *d)
{
    return d && !loam_rows_contiguous(&d->t) ? loam_cont(g, d) : d;
}

/* ---- cases -------------------------------------------------------------------------------- */

static const loam_type swept_types[] = {
    LOAM_TYPE_F16,     LOAM_TYPE_BF16,  LOAM_TYPE_Q4_0,    LOAM_TYPE_Q4_1,   LOAM_TYPE_Q5_0,
    LOAM_TYPE_Q5_1,    LOAM_TYPE_Q8_0,  LOAM_TYPE_Q2_K,    LOAM_TYPE_Q3_K,   LOAM_TYPE_Q5_K,
    LOAM_TYPE_IQ1_S,   LOAM_TYPE_IQ1_M, LOAM_TYPE_IQ2_XXS, LOAM_TYPE_IQ2_XS, LOAM_TYPE_IQ2_S,
    LOAM_TYPE_IQ3_XXS, LOAM_TYPE_IQ3_S, LOAM_TYPE_IQ4_NL,  LOAM_TYPE_IQ4_XS, LOAM_TYPE_TQ1_0,
    LOAM_TYPE_TQ2_0,   LOAM_TYPE_MXFP4, LOAM_TYPE_NVFP4,
};

/* Swept in full: an index error that Q8_0 hides shows in a K-quant. */
static const loam_type full_types[] = {LOAM_TYPE_F32, LOAM_TYPE_Q4_K, LOAM_TYPE_Q6_K};

/* a's batches, and how often each is read. */
static const int64_t batches[][4] = {
    {3, 1, 1, 1}, {1, 3, 1, 1}, {3, 3, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2},
    {3, 1, 2, 1}, {1, 3, 1, 2}, {3, 3, 2, 1}, {3, 3, 1, 2}, {3, 3, 2, 2},
};

/* Multiply-adds above which a reference takes around a second. */
#define SLOW_OPS 1e9
/* Multiply-adds that the central differences of one case may cost in all. */
#define GRAD_OPS 60e6

static int64_t round_up(int64_t n, int64_t block)
{
    return (n + block - 1) / block * block;
}

void loam_product_case(const loam_product_cases *p, loam_type type, loam_product_shape s)
{
    int64_t block = loam_type_get((int)type)->block_ne;
    if (p->rows_along_k)
        s.k = round_up(s.k, block);
    else
        s.m = round_up(s.m, block);
    s.batch2 = LOAM_MAX(s.batch2, 1);
    s.batch3 = LOAM_MAX(s.batch3, 1);
    s.repeat2 = LOAM_MAX(s.repeat2, 1);
    s.repeat3 = LOAM_MAX(s.repeat3, 1);
    char limit[48] = "";
    if (s.scratch_limit_bytes)
        snprintf(limit, sizeof limit, ",scratch=%zu", s.scratch_limit_bytes);
    loam_case *c = loam_case_add(
        p->list, p->op, type, p->build,
        "type_a=%s,m=%lld,n=%lld,k=%lld,bs=[%lld,%lld],nr=[%lld,%lld],layout=%s%s%s",
        loam_type_name(type), (long long)s.m, (long long)s.n, (long long)s.k, (long long)s.batch2,
        (long long)s.batch3, (long long)s.repeat2, (long long)s.repeat3,
        s.transposed ? "transposed" : "rows", s.into ? ",dst=view" : "", limit);
    const int64_t values[] = {s.m,       s.n,       s.k,          s.batch2, s.batch3,
                              s.repeat2, s.repeat3, s.transposed, s.into};
    for (int i = 0; i < LOAM_COUNT(values); i++)
        c->p[i] = values[i];
    double n_batches = (double)(s.batch2 * s.batch3 * s.repeat2 * s.repeat3);
    double ops = (double)s.m * (double)s.n * (double)s.k * n_batches;
    double n_grad = (double)s.n * (double)s.k * n_batches;
    if (type == LOAM_TYPE_F32)
        n_grad += (double)s.m * (double)s.k * (double)(s.batch2 * s.batch3);
    c->bar = LOAM_BAR_PRODUCT;
    c->is_slow = ops > SLOW_OPS || (double)s.m * (double)s.k > 8e6;
    c->check_grad = !s.into && !s.scratch_limit_bytes && ops * 2 * n_grad <= GRAD_OPS;
    c->scratch_limit_bytes = s.scratch_limit_bytes;
}

/* The same case in both layouts of b. */
static void both_layouts(const loam_product_cases *p, loam_type type, loam_product_shape s)
{
    s.transposed = false;
    loam_product_case(p, type, s);
    s.transposed = true;
    loam_product_case(p, type, s);
}

static void batched(const loam_product_cases *p, loam_type type, int64_t m, int64_t n, int64_t k)
{
    for (int i = 0; i < LOAM_COUNT(batches); i++)
        both_layouts(p, type,
                     (loam_product_shape){.m = m,
                                          .n = n,
                                          .k = k,
                                          .batch2 = batches[i][0],
                                          .batch3 = batches[i][1],
                                          .repeat2 = batches[i][2],
                                          .repeat3 = batches[i][3]});
}

/* Is `value` rounded up to blocks what an earlier value of the list already became? */
static bool repeats(const int64_t *values, int at, int64_t block)
{
    for (int i = 0; i < at; i++)
        if (round_up(values[i], block) == round_up(values[at], block))
            return true;
    return false;
}

/* Every m, n and k; where a has 5120 x 5120 elements, one n has to do. */
static void sweep_full(const loam_product_cases *p, loam_type type)
{
    static const int64_t ms[] = {16, 48, 256, 5120};
    static const int64_t ks[] = {1, 16, 600, 5120};
    int64_t block = loam_type_get((int)type)->block_ne;
    int64_t block_m = p->rows_along_k ? 1 : block, block_k = p->rows_along_k ? block : 1;
    for (int im = 0; im < LOAM_COUNT(ms); im++)
        for (int ik = 0; ik < LOAM_COUNT(ks); ik++) {
            if (repeats(ms, im, block_m) || repeats(ks, ik, block_k))
                continue;
            bool is_large = ms[im] * ks[ik] > 8000000;
            for (int in = 0; in < p->n_n_full; in++)
                if (!is_large || p->n_full[in] == 16)
                    both_layouts(
                        p, type,
                        (loam_product_shape){.m = ms[im], .n = p->n_full[in], .k = ks[ik]});
        }
    batched(p, type, 256, 16, 16);
    batched(p, type, 256, 1, 600);
    batched(p, type, 48, 77, 1);
}

/* Each m, n, k and batch at least once. */
static void sweep_some(const loam_product_cases *p, loam_type type)
{
    static const loam_product_shape shapes[] = {
        {.m = 256, .n = 1, .k = 1},     {.m = 256, .n = 16, .k = 16},
        {.m = 5120, .n = 77, .k = 16},  {.m = 256, .n = 77, .k = 600},
        {.m = 256, .n = 16, .k = 5120}, {.m = 5120, .n = 1, .k = 600},
    };
    int64_t block = loam_type_get((int)type)->block_ne;
    for (int i = 0; i < LOAM_COUNT(shapes); i++)
        both_layouts(p, type, shapes[i]);
    if (p->rows_along_k || block <= 32) {
        both_layouts(p, type, (loam_product_shape){.m = 16, .n = 77, .k = 48});
        both_layouts(p, type, (loam_product_shape){.m = 48, .n = 16, .k = 16});
    }
    batched(p, type, block == 256 || p->rows_along_k ? 256 : 96, 7, 16);
}

/* A weight larger than the device's scratch is decoded in pieces. Bounds that hold a number of
 * rows that does not divide the rows there are leave a short last piece. */
static void sweep_pieces(const loam_product_cases *p)
{
    static const loam_type types[] = {LOAM_TYPE_Q4_K, LOAM_TYPE_Q8_0};
    for (int i = 0; i < LOAM_COUNT(types); i++) {
        /* Rows of 256 in OUT_PROD (600 of them), of 768 or 608 in MUL_MAT (256 of them). */
        int64_t block = loam_type_get((int)types[i])->block_ne;
        size_t row = (size_t)(p->rows_along_k ? round_up(600, block) : 256) * sizeof(float);
        size_t n_rows = p->rows_along_k ? 256 : 600;
        size_t limits[] = {row * (n_rows / 3), row * (n_rows * 5 / 12), row * (n_rows / 3 + 1),
                           row * 7};
        for (int l = 0; l < LOAM_COUNT(limits); l++) {
            loam_product_shape s = {.m = 256, .n = 16, .k = 600, .scratch_limit_bytes = limits[l]};
            both_layouts(p, types[i], s);
            s.n = 77;
            both_layouts(p, types[i], s);
            s.n = 1;
            both_layouts(p, types[i], s);
        }
        loam_product_shape batch = {.m = 256,
                                    .n = 5,
                                    .k = 600,
                                    .batch2 = 2,
                                    .repeat2 = 2,
                                    .scratch_limit_bytes = limits[1]};
        both_layouts(p, types[i], batch);
    }
}

void loam_product_sweep(const loam_product_cases *p)
{
    for (int i = 0; i < LOAM_COUNT(full_types); i++)
        sweep_full(p, full_types[i]);
    for (int i = 0; i < LOAM_COUNT(swept_types); i++)
        sweep_some(p, swept_types[i]);
    sweep_pieces(p);
}

loam_node *loam_product_case_a(loam_graph *g, const loam_case *c, int64_t d0, int64_t d1)
{
    const int64_t ne[] = {d0, d1, c->p[LOAM_PRODUCT_BATCH2], c->p[LOAM_PRODUCT_BATCH3]};
    return loam_case_input(g, c->type, ne, LOAM_FILL_NORMAL, 1, 0, c->type == LOAM_TYPE_F32);
}

loam_node *loam_product_case_b(loam_graph *g, const loam_case *c, int64_t d0, int64_t d1)
{
    bool transposed = c->p[LOAM_PRODUCT_TRANSPOSED] != 0;
    const int64_t ne[] = {transposed ? d1 : d0, transposed ? d0 : d1,
                          c->p[LOAM_PRODUCT_BATCH2] * c->p[LOAM_PRODUCT_REPEAT2],
                          c->p[LOAM_PRODUCT_BATCH3] * c->p[LOAM_PRODUCT_REPEAT3]};
    bool is_plain = c->p[LOAM_PRODUCT_INTO] == 0;
    loam_node *b = loam_case_input(g, LOAM_TYPE_F32, ne, LOAM_FILL_NORMAL, 1, 0, is_plain);
    return transposed ? loam_transpose(g, b) : b;
}
