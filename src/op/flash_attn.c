/* flash_attn.c: FLASH_ATTN_EXT, attention that keeps no matrix of scores
 *
 *   q       [d, n_head, T]      a float type, rows contiguous
 *   k       [d, n_head_kv, K]   n_head_kv | n_head: head h reads head h / (n_head / n_head_kv)
 *   v       [dv, n_head_kv, K]
 *   ranges  I32 [2, T]          query t sees keys begin <= j < end; none: y is 0
 *   y       [dv, n_head, T]     sum_j p[j] v[:, j], p = softmax over the range of scale * k' q
 *   aux     [n_head, T]         where a gradient is needed: log of the sum of exp(scale * k' q),
 *                               natural; -infinity for an empty range
 *
 * FLASH_ATTN_BACK (Dao et al., "FlashAttention", 2022, algorithm 4): dy, q, k, v, ranges, y, aux ->
 * dq, dk, dv one after the other in one flat node [d n_head T + d n_head_kv K + dv n_head_kv K]:
 *     p[j]   = exp(scale * k[:, j]' q - aux)          delta = dy' y
 *     ds[j]  = p[j] (dy' v[:, j] - delta)
 *     dq     = scale * sum_j ds[j] k[:, j]            dk[:, j] += scale * ds[j] q
 *     dv[:, j] += p[j] dy */
#include "op/check.h"
#include "op/op_def.h"

#include <math.h>
#include <string.h>

/* ---- builders ----------------------------------------------------------------------------- */

static bool check_attention_operand(loam_graph *g, const loam_node *n, const char *name)
{
    if (loam_is_float(n->t.type) && loam_rows_contiguous(&n->t) && n->t.ne[3] == 1)
        return true;
    loam_graph_fail(g, LOAM_E_USAGE,
                    "FLASH_ATTN_EXT: %s is %s with %zu bytes between elements; expected a float "
                    "type, three dimensions and contiguous rows",
                    name, loam_operand(n).text, n->t.nb[0]);
    return false;
}

loam_node *loam_flash_attn_ext(loam_graph *g, loam_node *q, loam_node *k, loam_node *v,
                               loam_node *ranges, float scale)
{
    if (!q || !k || !v || !ranges || !check_attention_operand(g, q, "q") ||
        !check_attention_operand(g, k, "k") || !check_attention_operand(g, v, "v"))
        return NULL;
    if (q->t.ne[0] != k->t.ne[0] || k->t.ne[1] != v->t.ne[1] || k->t.ne[2] != v->t.ne[2] ||
        k->t.ne[1] == 0 || q->t.ne[1] % k->t.ne[1] != 0)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "FLASH_ATTN_EXT: q is %s, k is %s and v is %s; expected q [d, "
                               "n_head, T], k [d, n_head_kv, K], v [dv, n_head_kv, K], with n_head "
                               "a multiple of n_head_kv",
                               loam_operand(q).text, loam_operand(k).text, loam_operand(v).text);
    if (ranges->t.type != LOAM_TYPE_I32 || ranges->t.ne[0] != 2 || ranges->t.ne[1] != q->t.ne[2] ||
        ranges->t.ne[2] * ranges->t.ne[3] != 1)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "FLASH_ATTN_EXT: q is %s and the ranges are %s; expected i32 [2, "
                               "%lld]: where each query's keys begin and end",
                               loam_operand(q).text, loam_operand(ranges).text,
                               (long long)q->t.ne[2]);
    const int64_t ne[] = {v->t.ne[0], q->t.ne[1], q->t.ne[2], 1};
    loam_node *n = loam_node_new(g, LOAM_OP_FLASH_ATTN_EXT, g->activation, ne, 4,
                                 (loam_node *[]){q, k, v, ranges});
    if (!n)
        return NULL;
    n->params.attention.scale = scale;
    const int64_t aux_ne[] = {q->t.ne[1], q->t.ne[2], 1, 1};
    if (n->needs_grad && !loam_node_aux(g, n, aux_ne))
        return NULL;
    return n;
}

loam_node *loam_flash_attn_back(loam_graph *g, loam_node *dy, loam_node *attn)
{
    if (!dy || !attn)
        return NULL;
    if (attn->op != LOAM_OP_FLASH_ATTN_EXT || !attn->aux)
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "FLASH_ATTN_BACK: needs a FLASH_ATTN_EXT node whose q, k or v needs "
                               "a gradient, not %s %s",
                               loam_op_get(attn->op)->name, loam_operand(attn).text);
    if (!loam_is_float(dy->t.type) || !loam_same_shape(&dy->t, &attn->t) ||
        !loam_rows_contiguous(&dy->t))
        return loam_graph_fail(g, LOAM_E_USAGE,
                               "FLASH_ATTN_BACK: dy is %s and the attention's result %s; expected "
                               "a float type, one shape and contiguous rows",
                               loam_operand(dy).text, loam_operand(attn).text);
    loam_node *const *s = attn->src;
    const int64_t ne[] = {
        loam_tensor_ne(&s[0]->t) + loam_tensor_ne(&s[1]->t) + loam_tensor_ne(&s[2]->t), 1, 1, 1};
    loam_node *n = loam_node_new(g, LOAM_OP_FLASH_ATTN_BACK, g->activation, ne, 7,
                                 (loam_node *[]){dy, s[0], s[1], s[2], s[3], attn, attn->aux});
    if (n)
        n->params.attention.scale = attn->params.attention.scale;
    return n;
}

/* ---- reference ---------------------------------------------------------------------------- */

/* Operands as doubles, dense: [T][n_head][d] and so on. */
typedef struct attention {
    const loam_node *node;
    const loam_tensor *ranges;
    int64_t d, dv, n_head, n_head_kv, n_queries, n_keys;
    double scale;
    double *q, *k, *v, *dy, *y; /* dy and y for the backward only */
    double *scores;             /* [n_keys]: of one query and head */
    double *dq, *dk, *dv_sums;  /* the backward's results */
} attention;

static void attention_free(attention *a)
{
    double *all[] = {a->q, a->k, a->v, a->dy, a->y, a->scores, a->dq};
    for (int i = 0; i < LOAM_COUNT(all); i++)
        loam_free(all[i]);
}

/* Reads q, k, v and sizes; false when memory ran out. */
static bool attention_read(attention *a, const loam_node *n, const loam_node *q, const loam_node *k,
                           const loam_node *v, const loam_node *ranges)
{
    *a = (attention){.node = n,
                     .ranges = &ranges->t,
                     .d = q->t.ne[0],
                     .dv = v->t.ne[0],
                     .n_head = q->t.ne[1],
                     .n_head_kv = k->t.ne[1],
                     .n_queries = q->t.ne[2],
                     .n_keys = k->t.ne[2],
                     .scale = (double)n->params.attention.scale};
    a->q = loam_node_doubles(q);
    a->k = loam_node_doubles(k);
    a->v = loam_node_doubles(v);
    a->scores = loam_alloc((size_t)a->n_keys * sizeof *a->scores);
    return a->q && a->k && a->v && a->scores;
}

static loam_status query_range(const attention *a, int64_t t, int64_t *begin, int64_t *end,
                               loam_error *e)
{
    *begin = (int64_t)loam_get(a->ranges, 0, t, 0, 0);
    *end = (int64_t)loam_get(a->ranges, 1, t, 0, 0);
    if (*begin < *end && (*begin < 0 || *end > a->n_keys))
        return loam_fail(e, LOAM_E_USAGE,
                         "%s (node '%s'): query %lld sees keys [%lld, %lld), but there are %lld",
                         loam_op_get(a->node->op)->name, a->node->name, (long long)t,
                         (long long)*begin, (long long)*end, (long long)a->n_keys);
    return LOAM_OK;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *y, const double *x, double factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* The row of a dense operand for key j that head h reads. */
static double *key_row(const attention *a, double *rows, int64_t width, int64_t h, int64_t j)
{
    return rows + (j * a->n_head_kv + h / (a->n_head / a->n_head_kv)) * width;
}

/* One query of one head: its result into out [dv]; returns the log-sum-exp. */
static double attend(const attention *a, int64_t h, int64_t t, int64_t begin, int64_t end,
                     double *out)
{
    const double *q = a->q + (t * a->n_head + h) * a->d;
    double largest = -INFINITY, sum = 0;
    memset(out, 0, (size_t)a->dv * sizeof *out);
    for (int64_t j = begin; j < end; j++) {
        a->scores[j] = a->scale * dot(q, key_row(a, a->k, a->d, h, j), a->d);
        largest = fmax(largest, a->scores[j]);
    }
    if (begin >= end)
        return -INFINITY;
    for (int64_t j = begin; j < end; j++)
        sum += exp(a->scores[j] - largest);
    for (int64_t j = begin; j < end; j++)
        add_scaled(out, key_row(a, a->v, a->dv, h, j), exp(a->scores[j] - largest) / sum, a->dv);
    return largest + log(sum);
}

static loam_status flash_attn_ext_reference(const loam_node *n, loam_error *e)
{
    attention a;
    bool ok = attention_read(&a, n, n->src[0], n->src[1], n->src[2], n->src[3]);
    double *out = loam_alloc((size_t)n->t.ne[0] * sizeof *out);
    loam_status status = ok && out ? LOAM_OK : loam_reference_memory(n, e);
    for (int64_t t = 0; status == LOAM_OK && t < a.n_queries; t++) {
        int64_t begin, end;
        status = query_range(&a, t, &begin, &end, e);
        for (int64_t h = 0; status == LOAM_OK && h < a.n_head; h++) {
            double lse = attend(&a, h, t, begin, end, out);
            for (int64_t i = 0; i < a.dv; i++)
                loam_set(&n->t, i, h, t, 0, out[i]);
            if (n->aux)
                loam_set(&n->aux->t, h, t, 0, 0, lse);
        }
    }
    loam_free(out);
    attention_free(&a);
    return status;
}

/* Adds what one query of one head gives to dq, dk and dv. */
static void attend_back(attention *a, int64_t h, int64_t t, int64_t begin, int64_t end)
{
    int64_t row = t * a->n_head + h;
    const double *q = a->q + row * a->d, *dy = a->dy + row * a->dv;
    double lse = loam_get(&a->node->src[6]->t, h, t, 0, 0);
    double delta = dot(dy, a->y + row * a->dv, a->dv);
    for (int64_t j = begin; j < end; j++) {
        const double *k = key_row(a, a->k, a->d, h, j), *v = key_row(a, a->v, a->dv, h, j);
        double p = exp(a->scale * dot(q, k, a->d) - lse);
        double ds = p * (dot(dy, v, a->dv) - delta) * a->scale;
        add_scaled(a->dq + row * a->d, k, ds, a->d);
        add_scaled(key_row(a, a->dk, a->d, h, j), q, ds, a->d);
        add_scaled(key_row(a, a->dv_sums, a->dv, h, j), dy, p, a->dv);
    }
}

static loam_status flash_attn_back_reference(const loam_node *n, loam_error *e)
{
    attention a;
    loam_node *const *s = n->src;
    bool ok = attention_read(&a, n, s[1], s[2], s[3], s[4]);
    a.dy = loam_node_doubles(s[0]);
    a.y = loam_node_doubles(s[5]);
    a.dq = loam_alloc((size_t)n->t.ne[0] * sizeof *a.dq);
    loam_status status = ok && a.dy && a.y && a.dq ? LOAM_OK : loam_reference_memory(n, e);
    if (status == LOAM_OK) {
        a.dk = a.dq + a.d * a.n_head * a.n_queries;
        a.dv_sums = a.dk + a.d * a.n_head_kv * a.n_keys;
    }
    for (int64_t t = 0; status == LOAM_OK && t < a.n_queries; t++) {
        int64_t begin, end;
        status = query_range(&a, t, &begin, &end, e);
        for (int64_t h = 0; status == LOAM_OK && h < a.n_head; h++)
            attend_back(&a, h, t, begin, end);
    }
    if (status == LOAM_OK)
        for (int64_t i = 0; i < n->t.ne[0]; i++)
            loam_set(&n->t, i, 0, 0, 0, a.dq[i]);
    attention_free(&a);
    return status;
}

/* ---- backward ----------------------------------------------------------------------------- */

static void flash_attn_ext_backward(loam_graph *g, loam_node *n, loam_node *dy)
{
    if (!loam_rows_contiguous(&dy->t))
        dy = loam_cont(g, dy);
    loam_node *flat = loam_flash_attn_back(g, dy, n);
    size_t offset_bytes = 0;
    for (int i = 0; flat && i < 3; i++) {
        loam_node *operand = n->src[i];
        size_t nb[LOAM_MAX_DIMS];
        loam_dense_strides(flat->t.type, operand->t.ne, nb);
        if (operand->needs_grad)
            loam_grad_add(g, operand, loam_view(g, flat, operand->t.ne, nb, offset_bytes));
        offset_bytes += nb[3];
    }
}

/* ---- cases -------------------------------------------------------------------------------- */

/* What p[] of a case means. */
enum { HEAD, HEAD_V, N_HEAD, N_HEAD_KV, N_QUERIES, N_KEYS, FILL, FUSED };

/* f: what the ranges' fill takes, the size of q. Fused: q, k and v are views of one leaf
 * [d, n_head + 2 n_head_kv, T], as a projection makes them. */
static loam_node *build_attention(loam_graph *g, const loam_case *c)
{
    const int64_t *p = c->p;
    const int64_t q_ne[] = {p[HEAD], p[N_HEAD], p[N_QUERIES], 1};
    const int64_t k_ne[] = {p[HEAD], p[N_HEAD_KV], p[N_KEYS], 1};
    const int64_t v_ne[] = {p[HEAD_V], p[N_HEAD_KV], p[N_KEYS], 1};
    const int64_t ranges_ne[] = {2, p[N_QUERIES], 1, 1};
    double size = (double)c->f[2];
    bool grad = c->type == LOAM_TYPE_F32;
    loam_node *q, *k, *v;
    if (p[FUSED]) {
        const int64_t ne[] = {p[HEAD], p[N_HEAD] + 2 * p[N_HEAD_KV], p[N_QUERIES], 1};
        loam_node *all = loam_case_input(g, LOAM_TYPE_F32, ne, LOAM_FILL_NORMAL, size, 0, grad);
        if (!all)
            return NULL;
        const size_t *nb = all->t.nb;
        q = loam_view(g, all, q_ne, nb, 0);
        k = loam_view(g, all, k_ne, nb, (size_t)p[N_HEAD] * nb[1]);
        v = loam_view(g, all, v_ne, nb, (size_t)(p[N_HEAD] + p[N_HEAD_KV]) * nb[1]);
    } else {
        q = loam_case_input(g, LOAM_TYPE_F32, q_ne, LOAM_FILL_NORMAL, size, 0, grad);
        k = loam_case_input(g, c->type, k_ne, LOAM_FILL_NORMAL, 1, 0, grad);
        v = loam_case_input(g, c->type, v_ne, LOAM_FILL_NORMAL, 1, 0, grad);
    }
    loam_node *ranges = loam_case_input(g, LOAM_TYPE_I32, ranges_ne, (loam_fill)p[FILL],
                                        (double)c->f[0], (double)c->f[1], false);
    loam_node *y = loam_flash_attn_ext(g, q, k, v, ranges, 1.0f / sqrtf((float)p[HEAD]));
    if (!y || c->op == LOAM_OP_FLASH_ATTN_EXT)
        return y;
    loam_node *dy = loam_case_input(g, LOAM_TYPE_F32, y->t.ne, LOAM_FILL_NORMAL, 1, 0, false);
    return loam_flash_attn_back(g, dy, y);
}

typedef struct attention_shape {
    int64_t d, dv, n_head, n_head_kv, n_queries, n_keys;
    const char *ranges;
    loam_fill fill;
    float a, b;
    bool fused;
    float size;
} attention_shape;

static void add_attention(loam_case_list *list, loam_op op, loam_type type, attention_shape s)
{
    if (s.dv == 0)
        s.dv = s.d;
    if (s.n_keys == 0)
        s.n_keys = s.n_queries;
    if (s.size == 0)
        s.size = 1;
    loam_case *c = loam_case_add(
        list, op, type, build_attention,
        "type_kv=%s,d=%lld,dv=%lld,heads=%lld,heads_kv=%lld,tokens=%lld,keys=%lld,ranges=%s,"
        "layout=%s,size=%g",
        loam_type_name(type), (long long)s.d, (long long)s.dv, (long long)s.n_head,
        (long long)s.n_head_kv, (long long)s.n_queries, (long long)s.n_keys, s.ranges,
        s.fused ? "fused" : "split", (double)s.size);
    const int64_t values[] = {s.d,         s.dv,     s.n_head, s.n_head_kv,
                              s.n_queries, s.n_keys, s.fill,   s.fused};
    for (int i = 0; i < LOAM_COUNT(values); i++)
        c->p[i] = values[i];
    c->f[0] = s.a;
    c->f[1] = s.b;
    c->f[2] = s.size;
    c->bar = LOAM_BAR_PRODUCT;
    c->check_grad =
        op == LOAM_OP_FLASH_ATTN_EXT && type == LOAM_TYPE_F32 && s.n_queries < 10 && s.n_keys < 10;
}

static void add_attention_cases(loam_case_list *list, loam_op op)
{
    static const int64_t heads[] = {32, 64, 80, 96, 128, 256};
    static const int64_t groups[] = {1, 2, 4, 8};
    static const attention_shape kinds[] = {
        {.ranges = "causal", .fill = LOAM_FILL_RANGES, .a = 1e6f},
        {.ranges = "packed", .fill = LOAM_FILL_RANGES, .a = 13},
        {.ranges = "window", .fill = LOAM_FILL_RANGES, .a = 1e6f, .b = 9},
        {.ranges = "packed_window", .fill = LOAM_FILL_RANGES, .a = 25, .b = 4},
    };
    for (int h = 0; h < LOAM_COUNT(heads); h++)
        for (int r = 0; r < LOAM_COUNT(groups); r++)
            for (int i = 0; i < LOAM_COUNT(kinds); i++) {
                attention_shape s = kinds[i];
                s.d = heads[h];
                s.n_head_kv = 2;
                s.n_head = 2 * groups[r];
                s.n_queries = 65 + 3 * r;
                s.fused = i % 2 == 1;
                add_attention(list, op, LOAM_TYPE_F32, s);
            }
    for (int i = 0; i < LOAM_COUNT(kinds); i++) {
        attention_shape s = kinds[i];
        s.a = fminf(s.a, 4);
        s.b = fminf(s.b, 3);
        for (int fused = 0; fused < 2; fused++) {
            s.fused = fused;
            s.d = 32;
            s.n_head = 4;
            s.n_head_kv = 2;
            s.n_queries = 7;
            add_attention(list, op, LOAM_TYPE_F32, s);
        }
        s = kinds[i];
        s.d = 128;
        s.n_head = 4;
        s.n_head_kv = 1;
        s.n_queries = 300;
        add_attention(list, op, LOAM_TYPE_F32, s);
        s.d = 64;
        s.size = 30; /* scores far apart */
        add_attention(list, op, LOAM_TYPE_F32, s);
        s.size = 1;
        s.d = 96;
        s.dv = 64;
        s.n_queries = 33;
        add_attention(list, op, LOAM_TYPE_F32, s);
    }
    static const attention_shape cached[] = {
        {.d = 128, .n_head = 8, .n_head_kv = 2, .n_queries = 1, .n_keys = 1000, .a = 0, .b = 777},
        {.d = 64, .n_head = 4, .n_head_kv = 4, .n_queries = 5, .n_keys = 256, .a = 100, .b = 256},
        {.d = 32, .n_head = 4, .n_head_kv = 2, .n_queries = 3, .n_keys = 9, .a = 2, .b = 8},
        {.d = 32, .n_head = 4, .n_head_kv = 2, .n_queries = 3, .n_keys = 9, .a = 5, .b = 5},
        {.d = 80, .n_head = 2, .n_head_kv = 1, .n_queries = 1, .n_keys = 1, .a = 0, .b = 1},
    };
    static const char *const names[] = {"0-777", "100-256", "2-8", "empty", "0-1"};
    for (int i = 0; i < LOAM_COUNT(cached); i++) {
        attention_shape s = cached[i];
        s.fill = LOAM_FILL_SAME_RANGE;
        s.ranges = names[i];
        add_attention(list, op, LOAM_TYPE_F32, s);
        if (op == LOAM_OP_FLASH_ATTN_EXT)
            add_attention(list, op, LOAM_TYPE_F16, s);
    }
}

static void flash_attn_ext_cases(loam_case_list *list)
{
    add_attention_cases(list, LOAM_OP_FLASH_ATTN_EXT);
}

static void flash_attn_back_cases(loam_case_list *list)
{
    add_attention_cases(list, LOAM_OP_FLASH_ATTN_BACK);
}

/* Every pair of a query and a key, as if each saw all: causal ranges need about half of it. */
static double pair_flops(const loam_tensor *q, const loam_tensor *k, int64_t width)
{
    return 2.0 * (double)width * (double)q->ne[1] * (double)q->ne[2] * (double)k->ne[2];
}

/* q k and p v. */
static double flash_attn_ext_flops(const loam_node *n)
{
    const loam_tensor *q = &n->src[0]->t;
    return pair_flops(q, &n->src[1]->t, q->ne[0] + n->src[2]->t.ne[0]);
}

/* q k again, dy v, and the products for dq, dk and dv. */
static double flash_attn_back_flops(const loam_node *n)
{
    const loam_tensor *q = &n->src[1]->t;
    return pair_flops(q, &n->src[2]->t, 3 * q->ne[0] + 2 * n->src[3]->t.ne[0]);
}

const loam_op_def loam_op_flash_attn_ext = {.name = "FLASH_ATTN_EXT",
                                            .reference = flash_attn_ext_reference,
                                            .backward = flash_attn_ext_backward,
                                            .cases = flash_attn_ext_cases,
                                            .flops = flash_attn_ext_flops};

const loam_op_def loam_op_flash_attn_back = {.name = "FLASH_ATTN_BACK",
                                             .reference = flash_attn_back_reference,
                                             .cases = flash_attn_back_cases,
                                             .flops = flash_attn_back_flops};
