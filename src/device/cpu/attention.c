/* attention.c: FLASH_ATTN_EXT and FLASH_ATTN_BACK over tiles of queries and keys.
 *
 * Forward: a task is one head and QUERIES queries; keys go by in tiles of at most KEYS between the
 * first and the last key that any of the queries sees. A tile's scores are one product; their
 * exponentials against the largest score so far weigh the tile's values in a second one (online
 * soft-max: Milakov and Gimelshein 2018). No more than one tile of scores exists.
 *
 * Backward: with p = e^(score - lse) recomputed per tile and delta = sum(dy * y) per query,
 *   dv += p' dy,  ds = p * (dy v' - delta) * scale,  dk += ds' q,  dq += ds k.
 * Queries and keys are cut into as many blocks each. In one wave block i of the keys meets block
 * (i + wave) of the queries: no two tasks of a wave touch the same part of dq, dk or dv, and every
 * part gathers its sums in an order that the number of threads does not change.
 *
 * Both compute in F32 whatever the device's products do. */
#include "device/cpu/cpu.h"
#include "device/cpu/matrix.h"
#include "device/cpu/simd.h"
#include "device/cpu/vector.h"

#include <math.h>

#define QUERIES 64
#define KEYS 256
#define LDS (KEYS + 16) /* distance of rows of scores: not a power of two */
#define BLOCK 256       /* tokens of a block of the backward, unless there are too many, */
#define MOST_BLOCKS 8   /* because each is a wave */

typedef struct attention {
    cpu_device *d;
    const loam_tensor *q, *k, *v, *dy;
    const int32_t *ranges; /* [n_queries][2] */
    int64_t n_queries, n_keys, n_heads, n_kv_heads, group, width, value_width;
    float scale;
    float *y, *lse;      /* forward's results, lse may be NULL there; [t][head][value_width] */
    float *dq, *dk, *dv; /* backward's */
    float *delta;        /* scratch [t][head] */
    char *workers;       /* scratch */
    size_t delta_bytes, keys_bytes, values_bytes, worker_bytes;
    int64_t n_blocks, query_block, key_block, wave;
} attention;

/* Queries [first, first + n) against keys [begin, end). */
typedef struct tile {
    int64_t first, n, begin, end;
} tile;

static float *head_at(const loam_tensor *t, int64_t head, int64_t token)
{
    return (float *)cpu_row(t, head, token, 0);
}

static int64_t token_ld(const loam_tensor *t)
{
    return t->ne[2] == 1 ? LOAM_MAX(t->ne[0], 1) : (int64_t)(t->nb[2] / sizeof(float));
}

static int64_t begin_of(const attention *a, int64_t t)
{
    return a->ranges[2 * t];
}

static int64_t end_of(const attention *a, int64_t t)
{
    return a->ranges[2 * t + 1];
}

static loam_status check_ranges(const attention *a, const loam_node *n, loam_error *e)
{
    for (int64_t t = 0; t < a->n_queries; t++)
        if (begin_of(a, t) < end_of(a, t) && (begin_of(a, t) < 0 || end_of(a, t) > a->n_keys))
            return loam_fail(
                e, LOAM_E_USAGE,
                "%s (node '%s'): query %lld sees keys [%lld, %lld), but there are %lld",
                loam_op_get(n->op)->name, n->name, (long long)t, (long long)begin_of(a, t),
                (long long)end_of(a, t), (long long)a->n_keys);
    return LOAM_OK;
}

/* The keys of [begin, end) that some query of the tile sees; no keys: end <= begin. */
static void narrow_keys(const attention *a, tile *s)
{
    int64_t begin = s->end, end = s->begin;
    for (int64_t t = s->first; t < s->first + s->n; t++) {
        int64_t b = LOAM_MAX(begin_of(a, t), s->begin), e = LOAM_MIN(end_of(a, t), s->end);
        if (b >= e)
            continue;
        begin = LOAM_MIN(begin, b);
        end = LOAM_MAX(end, e);
    }
    s->begin = begin;
    s->end = end;
}

/* Drops queries at both ends that see none of the tile's keys. */
static void narrow_queries(const attention *a, tile *s)
{
    while (s->n > 0 &&
           LOAM_MAX(begin_of(a, s->first), s->begin) >= LOAM_MIN(end_of(a, s->first), s->end)) {
        s->first++;
        s->n--;
    }
    while (s->n > 0) {
        int64_t last = s->first + s->n - 1;
        if (LOAM_MAX(begin_of(a, last), s->begin) < LOAM_MIN(end_of(a, last), s->end))
            break;
        s->n--;
    }
}

static attention attention_of(cpu_device *d, loam_node *const *qkv, float scale)
{
    const loam_tensor *q = &qkv[0]->t, *k = &qkv[1]->t, *v = &qkv[2]->t;
    return (attention){.d = d,
                       .q = q,
                       .k = k,
                       .v = v,
                       .ranges = qkv[3]->t.data,
                       .n_queries = q->ne[2],
                       .n_keys = k->ne[2],
                       .n_heads = q->ne[1],
                       .n_kv_heads = k->ne[1],
                       .group = q->ne[1] / k->ne[1],
                       .width = q->ne[0],
                       .value_width = v->ne[0],
                       .scale = scale};
}

static bool is_dense_f32(const loam_node *n)
{
    return n->t.type == LOAM_TYPE_F32 && loam_is_contiguous(&n->t);
}

static bool are_ranges(const loam_node *n)
{
    return n->t.type == LOAM_TYPE_I32 && loam_is_contiguous(&n->t);
}

/* Heads whose tokens are rows at a distance that a product can step. */
static bool has_head_rows(const loam_tensor *t)
{
    return cpu_is_f32_rows(t) && t->ne[3] == 1 &&
           (t->ne[2] == 1 || t->nb[2] >= (size_t)t->ne[0] * sizeof(float));
}

/* ---- forward ------------------------------------------------------------------------------ */

static attention plan_forward(cpu_device *d, const loam_node *n)
{
    attention a = attention_of(d, n->src, n->params.attention.scale);
    a.y = n->t.data;
    a.lse = n->aux ? n->aux->t.data : NULL;
    /* Caches in F16 or BF16 are widened tile by tile. */
    if (a.k->type != LOAM_TYPE_F32)
        a.keys_bytes = cpu_align((size_t)(KEYS * a.width) * sizeof(float));
    if (a.v->type != LOAM_TYPE_F32)
        a.values_bytes = cpu_align((size_t)(KEYS * a.value_width) * sizeof(float));
    a.worker_bytes = a.keys_bytes + a.values_bytes +
                     cpu_align((size_t)(QUERIES * LDS) * sizeof(float)) +
                     cpu_align(QUERIES * sizeof(double)) + cpu_align(QUERIES * sizeof(float));
    return a;
}

static size_t forward_scratch(const cpu_device *d, const loam_node *n)
{
    return plan_forward((cpu_device *)(uintptr_t)d, n).worker_bytes * (size_t)d->n_threads;
}

static bool is_cache(const loam_tensor *t)
{
    const loam_type_info *type = loam_type_get((int)t->type);
    bool is_half = t->type == LOAM_TYPE_F16 || t->type == LOAM_TYPE_BF16;
    return has_head_rows(t) || (is_half && t->nb[0] == type->block_bytes && t->ne[3] == 1);
}

static bool takes_forward(const loam_node *n)
{
    return has_head_rows(&n->src[0]->t) && is_cache(&n->src[1]->t) && is_cache(&n->src[2]->t) &&
           are_ranges(n->src[3]) && is_dense_f32(n) && (!n->aux || is_dense_f32(n->aux));
}

/* Keys or values [begin, end) of a head: where they lie, or widened into `room`. */
static const float *head_tile(const loam_tensor *t, int64_t head, const tile *s, float *room,
                              int64_t *ld)
{
    if (t->type == LOAM_TYPE_F32) {
        *ld = token_ld(t);
        return head_at(t, head, s->begin);
    }
    cpu_matrix m = {.type = t->type,
                    .data = cpu_row(t, head, 0, 0),
                    .rows = t->ne[2],
                    .cols = t->ne[0],
                    .row_bytes = t->nb[2],
                    .col_bytes = t->nb[0]};
    cpu_matrix_load(NULL, &m, s->begin, s->end - s->begin, 0, m.cols, room, m.cols);
    *ld = m.cols;
    return room;
}

/* Scores of one query become weights; what was summed before is scaled to the new maximum. */
static void weigh_query(const attention *a, const tile *s, int64_t t, float *scores, float *max,
                        double *sum, float *y)
{
    int64_t lo = LOAM_MAX(begin_of(a, t), s->begin) - s->begin;
    int64_t hi = LOAM_MIN(end_of(a, t), s->end) - s->begin, width = s->end - s->begin;
    if (lo >= hi) {
        memset(scores, 0, (size_t)width * sizeof *scores);
        return;
    }
    memset(scores, 0, (size_t)lo * sizeof *scores);
    memset(scores + hi, 0, (size_t)(width - hi) * sizeof *scores);
    float largest = cpu_vector_max(scores + lo, hi - lo);
    if (largest > *max) {
        float factor = expf(*max - largest);
        *sum *= factor;
        cpu_vector_scale(y, y, factor, 0, a->value_width);
        *max = largest;
    }
    *sum += cpu_vector_exp(scores + lo, hi - lo, 1, *max);
}

static void attend_tile(const attention *a, int worker, int64_t head, const tile *s, char *scratch,
                        float *scores, double *sums, float *maxima, int64_t tile_first)
{
    int64_t ldk, ldv, ldy = a->n_heads * a->value_width, kv = head / a->group;
    int64_t width = s->end - s->begin;
    const float *keys = head_tile(a->k, kv, s, (float *)scratch, &ldk);
    const float *values = head_tile(a->v, kv, s, (float *)(scratch + a->keys_bytes), &ldv);
    loam_gemm_f32(a->d->gemm, worker, false, true, s->n, width, a->width, a->scale,
                  head_at(a->q, head, s->first), token_ld(a->q), keys, ldk, 0, scores, LDS);
    for (int64_t i = 0; i < s->n; i++) {
        int64_t t = s->first + i;
        weigh_query(a, s, t, scores + i * LDS, &maxima[t - tile_first], &sums[t - tile_first],
                    a->y + t * ldy + head * a->value_width);
    }
    loam_gemm_f32(a->d->gemm, worker, false, false, s->n, a->value_width, width, 1, scores, LDS,
                  values, ldv, 1, a->y + s->first * ldy + head * a->value_width, ldy);
}

static void attend(void *context, int64_t task, int worker)
{
    const attention *a = context;
    int64_t head = task % a->n_heads, first = task / a->n_heads * QUERIES;
    int64_t n = LOAM_MIN(a->n_queries - first, QUERIES);
    char *scratch = a->workers + (size_t)worker * a->worker_bytes;
    float *scores = (float *)(scratch + a->keys_bytes + a->values_bytes);
    double *sums = (double *)((char *)scores + cpu_align((size_t)(QUERIES * LDS) * sizeof(float)));
    float *maxima = (float *)((char *)sums + cpu_align(QUERIES * sizeof(double)));
    int64_t ldy = a->n_heads * a->value_width;
    for (int64_t i = 0; i < n; i++) {
        sums[i] = 0;
        maxima[i] = -INFINITY;
        memset(a->y + (first + i) * ldy + head * a->value_width, 0,
               (size_t)a->value_width * sizeof(float));
    }
    tile all = {.first = first, .n = n, .begin = 0, .end = a->n_keys};
    narrow_keys(a, &all);
    for (int64_t begin = all.begin; begin < all.end; begin += KEYS) {
        tile s = {first, n, begin, LOAM_MIN(begin + KEYS, all.end)};
        narrow_keys(a, &s);
        if (s.begin >= s.end)
            continue;
        narrow_queries(a, &s);
        attend_tile(a, worker, head, &s, scratch, scores, sums, maxima, first);
    }
    for (int64_t i = 0; i < n; i++) {
        float *y = a->y + (first + i) * ldy + head * a->value_width;
        if (sums[i] != 0)
            cpu_vector_scale(y, y, (float)(1 / sums[i]), 0, a->value_width);
        if (a->lse)
            a->lse[(first + i) * a->n_heads + head] = (float)(log(sums[i]) + maxima[i]);
    }
}

static loam_status run_forward(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    attention a = plan_forward(d, n);
    LOAM_TRY(check_ranges(&a, n, e));
    a.workers = scratch;
    loam_pool_run(d->pool, a.n_heads * cpu_ceil_div(a.n_queries, QUERIES), attend, &a);
    return LOAM_OK;
}

/* ---- backward ----------------------------------------------------------------------------- */

/* src: dy, q, k, v, ranges, attn, aux. */
static attention plan_backward(cpu_device *d, const loam_node *n)
{
    attention a = attention_of(d, n->src + 1, n->params.attention.scale);
    a.dy = &n->src[0]->t;
    a.y = n->src[5]->t.data;
    a.lse = n->src[6]->t.data;
    a.dq = n->t.data;
    if (a.dq) { /* not while scratch is asked for */
        a.dk = a.dq + a.width * a.n_heads * a.n_queries;
        a.dv = a.dk + a.width * a.n_kv_heads * a.n_keys;
    }
    a.delta_bytes = cpu_align((size_t)(a.n_heads * a.n_queries) * sizeof(float));
    a.worker_bytes = cpu_align((size_t)(2 * QUERIES * LDS) * sizeof(float));
    int64_t blocks = cpu_ceil_div(LOAM_MAX(a.n_queries, a.n_keys), BLOCK);
    a.n_blocks = LOAM_MIN(blocks, MOST_BLOCKS);
    a.query_block = cpu_ceil_div(cpu_ceil_div(a.n_queries, a.n_blocks), QUERIES) * QUERIES;
    a.key_block = cpu_ceil_div(cpu_ceil_div(a.n_keys, a.n_blocks), QUERIES) * QUERIES;
    return a;
}

static size_t backward_scratch(const cpu_device *d, const loam_node *n)
{
    attention a = plan_backward((cpu_device *)(uintptr_t)d, n);
    return a.delta_bytes + a.worker_bytes * (size_t)d->n_threads;
}

static bool takes_backward(const loam_node *n)
{
    for (int i = 0; i < 4; i++)
        if (!has_head_rows(&n->src[i]->t))
            return false;
    return are_ranges(n->src[4]) && is_dense_f32(n->src[5]) && is_dense_f32(n->src[6]) &&
           is_dense_f32(n);
}

static void sum_delta(void *context, int64_t t, int worker)
{
    (void)worker;
    const attention *a = context;
    for (int64_t head = 0; head < a->n_heads; head++)
        a->delta[t * a->n_heads + head] =
            (float)cpu_vector_dot(head_at(a->dy, head, t),
                                  a->y + (t * a->n_heads + head) * a->value_width, a->value_width);
}

/* p = e^(score - lse) where the query sees the key, else 0; ds = p * (dp - delta) * scale. */
static void differentiate_query(const attention *a, const tile *s, int64_t t, int64_t head,
                                float *p, float *ds)
{
    int64_t lo = LOAM_MAX(begin_of(a, t), s->begin) - s->begin;
    int64_t hi = LOAM_MIN(end_of(a, t), s->end) - s->begin, width = s->end - s->begin;
    if (lo >= hi)
        lo = hi = 0;
    memset(p, 0, (size_t)lo * sizeof *p);
    memset(p + hi, 0, (size_t)(width - hi) * sizeof *p);
    cpu_vector_exp(p + lo, hi - lo, 1, a->lse[t * a->n_heads + head]);
    float delta = a->delta[t * a->n_heads + head];
    for (int64_t i = 0; i < width; i++)
        ds[i] = p[i] * (ds[i] - delta) * a->scale;
}

static void differentiate_tile(const attention *a, int worker, int64_t head, const tile *s)
{
    float *p = (float *)(a->workers + (size_t)worker * a->worker_bytes);
    float *ds = p + QUERIES * LDS;
    loam_gemm *g = a->d->gemm;
    int64_t kv = head / a->group, width = s->end - s->begin, ldq = token_ld(a->q);
    int64_t ldk = token_ld(a->k), ldv = token_ld(a->v), ldy = token_ld(a->dy);
    int64_t lddq = a->n_heads * a->width, lddk = a->n_kv_heads * a->width;
    int64_t lddv = a->n_kv_heads * a->value_width;
    const float *q = head_at(a->q, head, s->first), *k = head_at(a->k, kv, s->begin);
    const float *dy = head_at(a->dy, head, s->first), *v = head_at(a->v, kv, s->begin);
    loam_gemm_f32(g, worker, false, true, s->n, width, a->width, a->scale, q, ldq, k, ldk, 0, p,
                  LDS);
    loam_gemm_f32(g, worker, false, true, s->n, width, a->value_width, 1, dy, ldy, v, ldv, 0, ds,
                  LDS);
    for (int64_t i = 0; i < s->n; i++)
        differentiate_query(a, s, s->first + i, head, p + i * LDS, ds + i * LDS);
    loam_gemm_f32(g, worker, true, false, width, a->value_width, s->n, 1, p, LDS, dy, ldy, 1,
                  a->dv + s->begin * lddv + kv * a->value_width, lddv);
    loam_gemm_f32(g, worker, true, false, width, a->width, s->n, 1, ds, LDS, q, ldq, 1,
                  a->dk + s->begin * lddk + kv * a->width, lddk);
    loam_gemm_f32(g, worker, false, false, s->n, a->width, width, 1, ds, LDS, k, ldk, 1,
                  a->dq + s->first * lddq + head * a->width, lddq);
}

/* One block of keys and one of queries, for the heads that share a head of keys. */
static void differentiate(void *context, int64_t task, int worker)
{
    const attention *a = context;
    int64_t kv = task % a->n_kv_heads, key_block = task / a->n_kv_heads;
    int64_t query_block = (key_block + a->wave) % a->n_blocks;
    int64_t key_end = LOAM_MIN((key_block + 1) * a->key_block, a->n_keys);
    int64_t query_end = LOAM_MIN((query_block + 1) * a->query_block, a->n_queries);
    for (int64_t first = query_block * a->query_block; first < query_end; first += QUERIES) {
        int64_t n = LOAM_MIN(query_end - first, QUERIES);
        tile all = {.first = first, .n = n, .begin = key_block * a->key_block, .end = key_end};
        narrow_keys(a, &all);
        for (int64_t begin = all.begin; begin < all.end; begin += KEYS) {
            tile s = {first, n, begin, LOAM_MIN(begin + KEYS, all.end)};
            narrow_keys(a, &s);
            if (s.begin >= s.end)
                continue;
            narrow_queries(a, &s);
            for (int64_t i = 0; i < a->group; i++)
                differentiate_tile(a, worker, kv * a->group + i, &s);
        }
    }
}

static loam_status run_backward(cpu_device *d, const loam_node *n, char *scratch, loam_error *e)
{
    attention a = plan_backward(d, n);
    LOAM_TRY(check_ranges(&a, n, e));
    a.delta = (float *)scratch;
    a.workers = scratch + a.delta_bytes;
    memset(n->t.data, 0, loam_tensor_bytes(&n->t));
    loam_pool_run(d->pool, a.n_queries, sum_delta, &a);
    for (a.wave = 0; a.wave < a.n_blocks; a.wave++)
        loam_pool_run(d->pool, a.n_kv_heads * a.n_blocks, differentiate, &a);
    return LOAM_OK;
}

void loam_cpu_add_attention(cpu_kernel *table)
{
    table[LOAM_OP_FLASH_ATTN_EXT] =
        (cpu_kernel){.takes = takes_forward, .scratch_bytes = forward_scratch, .run = run_forward};
    table[LOAM_OP_FLASH_ATTN_BACK] = (cpu_kernel){
        .takes = takes_backward, .scratch_bytes = backward_scratch, .run = run_backward};
}
