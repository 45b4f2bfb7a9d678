/* bench_products.c: how close products with quantized weights come to the product library.
 *
 *   bench_products [threads [bf16]]
 *
 * For each weight shape, type and number of tokens: MUL_MAT (forward) and OUT_PROD with the
 * transposed view of a gradient (backward) on the CPU device, in GFLOP/s, beside what the library
 * alone reaches with the whole weight already decoded, in the same run and on one thread per
 * worker. The share is the median of alternating repetitions. */
#include "device/cpu/gemm.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#define REPETITIONS 9

typedef struct setup {
    loam_graph *g;
    loam_device *d;
    loam_gemm *gemm;
    loam_buffer *scratch;
    loam_node *node;
    float *a, *b, *c; /* the library's own operands */
    bool is_back, bf16;
    int64_t n_in, n_out, n;
} setup;

static void die(const char *what, const loam_error *e)
{
    fprintf(stderr, "%s: %s\n", what, e->message);
    exit(1);
}

static void check(loam_status status, const char *what, const loam_error *e)
{
    if (status != LOAM_OK)
        die(what, e);
}

static void bind(loam_node *n, loam_rng *rng)
{
    n->t.data = loam_alloc(loam_tensor_bytes(&n->t));
    loam_error e = {0};
    if (!n->t.data)
        die("out of memory", &e);
    if (n->op == LOAM_OP_NONE)
        check(loam_random_fill(n->t.type, rng, 1, n->t.data, loam_tensor_ne(&n->t), &e), "fill",
              &e);
}

static void prepare(setup *s, loam_type type)
{
    loam_error e = {0};
    loam_rng rng = loam_rng_stream(1, "bench");
    check(loam_graph_create(LOAM_TYPE_F32, &s->g, &e), "graph", &e);
    loam_node *w = loam_leaf_2d(s->g, type, s->n_in, s->n_out, "w");
    loam_node *x = loam_leaf_2d(s->g, LOAM_TYPE_F32, s->is_back ? s->n_out : s->n_in, s->n, "x");
    s->node =
        s->is_back ? loam_out_prod(s->g, w, loam_transpose(s->g, x)) : loam_mul_mat(s->g, w, x);
    check(loam_graph_status(s->g, &e), "graph", &e);
    for (int i = 0; i < s->g->n_nodes; i++)
        if (!s->g->nodes[i]->view_of)
            bind(s->g->nodes[i], &rng);
    for (int i = 0; i < s->g->n_nodes; i++)
        if (s->g->nodes[i]->view_of)
            s->g->nodes[i]->t.data = s->g->nodes[i]->view_of->t.data;
    check(s->d->api->buffer_alloc(s->d, s->d->api->scratch_bytes(s->d, s->node), &s->scratch, &e),
          "scratch", &e);
}

static void release(setup *s)
{
    for (int i = 0; i < s->g->n_nodes; i++)
        if (!s->g->nodes[i]->view_of)
            loam_free(s->g->nodes[i]->t.data);
    s->d->api->buffer_free(s->scratch);
    loam_graph_free(s->g);
}

static double time_node(const setup *s)
{
    loam_error e = {0};
    double start = loam_now_ms();
    check(s->d->api->run(s->d, &s->node, 1, s->scratch, &e), "run", &e);
    return loam_now_ms() - start;
}

/* The same product by one call of the library. */
static double time_library(const setup *s)
{
    int64_t k = s->is_back ? s->n_out : s->n_in, m = s->is_back ? s->n_in : s->n_out;
    double start = loam_now_ms();
    if (s->bf16)
        loam_gemm_bf16(s->gemm, 0, !s->is_back, s->n, m, k, (const uint16_t *)s->a, k,
                       (const uint16_t *)s->b, s->is_back ? m : k, false, s->c, m);
    else
        loam_gemm_f32(s->gemm, 0, false, !s->is_back, s->n, m, k, 1, s->a, k, s->b,
                      s->is_back ? m : k, 0, s->c, m);
    return loam_now_ms() - start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times)
{
    qsort(times, REPETITIONS, sizeof *times, by_value);
    return times[REPETITIONS / 2];
}

static void measure(setup *s, loam_type type, int threads)
{
    double ours[REPETITIONS], library[REPETITIONS];
    prepare(s, type);
    time_node(s);
    time_library(s);
    for (int i = 0; i < REPETITIONS; i++) {
        ours[i] = time_node(s);
        library[i] = time_library(s);
    }
    double gflop = 2e-6 * (double)s->n_in * (double)s->n_out * (double)s->n;
    double rate = gflop / median(ours), full = gflop / median(library) * threads;
    printf("%-9s %-5s %5lld x %5lld, n %4lld  %7.1f GFLOP/s  library %7.1f  %3.0f%%\n",
           s->is_back ? "OUT_PROD" : "MUL_MAT", loam_type_name(type), (long long)s->n_in,
           (long long)s->n_out, (long long)s->n, rate, full, 100 * rate / full);
    release(s);
}

int main(int argc, char **argv)
{
    static const loam_type types[] = {LOAM_TYPE_F32, LOAM_TYPE_Q8_0, LOAM_TYPE_Q4_K};
    static const int64_t shapes[][2] = {{768, 2048}, {2048, 768}, {4096, 1024}};
    static const int64_t tokens[] = {1, 256};
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    bool bf16 = argc > 2 && strcmp(argv[2], "bf16") == 0;
    loam_error e = {0};
    setup s = {.bf16 = bf16};
    loam_device_options options = {.n_threads = threads,
                                   .compute = bf16 ? LOAM_COMPUTE_BF16 : LOAM_COMPUTE_F32};
    check(loam_device_cpu_open(&options, &s.d, &e), "device", &e);
    check(loam_gemm_open(1, &s.gemm, &e), "library", &e);
    puts(s.d->api->description(s.d));
    size_t bytes = 4096 * 4096 * sizeof(float);
    s.a = loam_alloc(bytes);
    s.b = loam_alloc(bytes);
    s.c = loam_alloc(bytes);
    if (!s.a || !s.b || !s.c)
        die("out of memory", &e);
    for (int i = 0; i < LOAM_COUNT(shapes); i++)
        for (int j = 0; j < LOAM_COUNT(tokens); j++)
            for (int t = 0; t < LOAM_COUNT(types); t++)
                for (int back = 0; back < 2; back++) {
                    s.n_in = shapes[i][0];
                    s.n_out = shapes[i][1];
                    s.n = tokens[j];
                    s.is_back = back;
                    if (!back || s.n > 1)
                        measure(&s, types[t], threads);
                }
    loam_gemm_close(s.gemm);
    s.d->api->close(s.d);
    loam_free(s.a);
    loam_free(s.b);
    loam_free(s.c);
    return 0;
}
