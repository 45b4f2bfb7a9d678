/* The first 20 losses of a run against a second program in double precision: a decoder with LoRA,
 * its backward by hand and AdamW, written here as plain loops over plain arrays. It shares with
 * Loam only the reading of weights from the file. */
#include "support/random_model.h"
#include "train/train.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { T = 24, RANK = 4, N_STEPS = 20, N_LINEAR = 7 };

typedef struct mat {
    int rows, cols;
    double *v;
} mat;

/* All arrays of a comparison; what a step leaves is given back at the end. */
static loam_arena *memory;

static void *zeroed(size_t n_bytes)
{
    void *p = loam_arena_alloc(memory, n_bytes);
    assert_non_null(p);
    return p;
}

static mat mat_new(int rows, int cols)
{
    return (mat){rows, cols, zeroed((size_t)rows * (size_t)cols * sizeof(double))};
}

static double *row(mat m, int r)
{
    return m.v + (size_t)r * (size_t)m.cols;
}

/* ---- weights ------------------------------------------------------------------------------ */

typedef struct linear {
    mat w;    /* [out][in] */
    mat a, b; /* [rank][in], [out][rank] */
    mat da, db;
    mat moments[4]; /* of a, of b */
    mat x, u;       /* kept from the forward: input, and a x */
} linear;

typedef struct layer {
    linear lin[N_LINEAR]; /* q k v o gate up down */
    mat attn_norm, ffn_norm, q_norm, k_norm;
    /* kept from the forward */
    mat x_in, normed, q_raw, k_raw, q, k, v, attn, x_mid, normed2, gate, up;
    double *p; /* [head][T][T] */
} layer;

typedef struct net {
    int n_layer, n_embd, n_head, n_kv, d, n_ff, n_vocab;
    bool neox, qk_norm;
    double eps, base;
    mat embd, head, out_norm;
    layer *layers;
    mat x_last, normed; /* kept */
} net;

static const char *const parts[N_LINEAR] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                            "ffn_gate", "ffn_up", "ffn_down"};

static mat read_weight(const loam_gguf *g, const char *name)
{
    const loam_gguf_tensor *t = loam_gguf_find_tensor(g, name);
    if (!t)
        return (mat){0};
    mat m = mat_new((int)t->t.ne[1], (int)t->t.ne[0]);
    float *f = malloc((size_t)m.rows * (size_t)m.cols * sizeof *f);
    loam_decode(t->t.type, t->t.data, f, (int64_t)m.rows * m.cols);
    for (int i = 0; i < m.rows * m.cols; i++)
        m.v[i] = f[i];
    free(f);
    return m;
}

static mat read_block(const loam_gguf *g, int il, const char *part)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", il, part);
    return read_weight(g, name);
}

static void copy_factor(mat *m, const float *values)
{
    for (int i = 0; i < m->rows * m->cols; i++)
        m->v[i] = values[i];
}

static net net_read(const loam_base *base, const loam_lora *lora)
{
    const loam_hparams *h = &base->hparams;
    const loam_gguf *g = base->gguf;
    net n = {.n_layer = (int)h->n_layer,
             .n_embd = (int)h->n_embd,
             .n_head = (int)h->n_head,
             .n_kv = (int)h->n_head_kv,
             .d = (int)h->n_embd_head_k,
             .n_ff = (int)h->n_ff,
             .n_vocab = (int)h->n_vocab};
    n.qk_norm = n.neox = strcmp(loam_base_arch_name(base), "qwen3") == 0;
    n.eps = 1e-5f;
    n.base = 10000;
    n.embd = read_weight(g, "token_embd.weight");
    n.head = read_weight(g, "output.weight");
    n.out_norm = read_weight(g, "output_norm.weight");
    n.layers = zeroed((size_t)n.n_layer * sizeof *n.layers);
    const float *values = lora->values->host;
    for (int il = 0; il < n.n_layer; il++) {
        layer *l = &n.layers[il];
        l->attn_norm = read_block(g, il, "attn_norm");
        l->ffn_norm = read_block(g, il, "ffn_norm");
        l->q_norm = read_block(g, il, "attn_q_norm");
        l->k_norm = read_block(g, il, "attn_k_norm");
        l->p = zeroed((size_t)n.n_head * T * T * sizeof(double));
        for (int i = 0; i < N_LINEAR; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", il, parts[i]);
            const loam_lora_pair *p = loam_lora_find(lora, name);
            assert_non_null(p);
            linear *lin = &l->lin[i];
            lin->w = read_block(g, il, parts[i]);
            lin->a = mat_new(RANK, lin->w.cols);
            lin->b = mat_new(lin->w.rows, RANK);
            lin->da = mat_new(RANK, lin->w.cols);
            lin->db = mat_new(lin->w.rows, RANK);
            for (int k = 0; k < 4; k++)
                lin->moments[k] = k < 2 ? mat_new(RANK, lin->w.cols) : mat_new(lin->w.rows, RANK);
            copy_factor(&lin->a, values + p->a_offset);
            copy_factor(&lin->b, values + p->b_offset);
        }
    }
    return n;
}

/* ---- pieces ------------------------------------------------------------------------------- */

static mat times_transposed(mat x, mat w)
{
    mat y = mat_new(x.rows, w.rows);
    for (int t = 0; t < x.rows; t++)
        for (int o = 0; o < w.rows; o++) {
            double s = 0;
            for (int i = 0; i < x.cols; i++)
                s += row(x, t)[i] * row(w, o)[i];
            row(y, t)[o] = s;
        }
    return y;
}

static void add_product(mat dx, mat dy, mat w, double scale)
{
    for (int t = 0; t < dy.rows; t++)
        for (int o = 0; o < dy.cols; o++)
            for (int i = 0; i < w.cols; i++)
                row(dx, t)[i] += scale * row(dy, t)[o] * row(w, o)[i];
}

static mat linear_forward(linear *l, mat x, double s)
{
    mat y = times_transposed(x, l->w);
    l->x = x;
    l->u = times_transposed(x, l->a);
    mat z = times_transposed(l->u, l->b);
    for (int i = 0; i < y.rows * y.cols; i++)
        y.v[i] += s * z.v[i];
    return y;
}

static mat linear_backward(linear *l, mat dy, double s)
{
    mat dx = mat_new(dy.rows, l->w.cols), du = mat_new(dy.rows, RANK);
    add_product(dx, dy, l->w, 1);
    add_product(du, dy, l->b, s);
    add_product(dx, du, l->a, 1);
    for (int t = 0; t < dy.rows; t++) {
        for (int o = 0; o < dy.cols; o++)
            for (int r = 0; r < RANK; r++)
                row(l->db, o)[r] += s * row(dy, t)[o] * row(l->u, t)[r];
        for (int r = 0; r < RANK; r++)
            for (int i = 0; i < l->x.cols; i++)
                row(l->da, r)[i] += row(du, t)[r] * row(l->x, t)[i];
    }
    return dx;
}

/* RMS norm of runs of w.cols (a row may hold several heads). */
static mat norm_forward(mat x, mat w, double eps)
{
    mat y = mat_new(x.rows, x.cols);
    for (int at = 0; at < x.rows * x.cols; at += w.cols) {
        double s = 0;
        for (int i = 0; i < w.cols; i++)
            s += x.v[at + i] * x.v[at + i];
        double r = 1 / sqrt(s / w.cols + eps);
        for (int i = 0; i < w.cols; i++)
            y.v[at + i] = x.v[at + i] * r * w.v[i];
    }
    return y;
}

static mat norm_backward(mat dy, mat x, mat w, double eps)
{
    mat dx = mat_new(x.rows, x.cols);
    for (int at = 0; at < x.rows * x.cols; at += w.cols) {
        double s = 0, dot = 0;
        for (int i = 0; i < w.cols; i++) {
            s += x.v[at + i] * x.v[at + i];
            dot += dy.v[at + i] * w.v[i] * x.v[at + i];
        }
        double r = 1 / sqrt(s / w.cols + eps);
        for (int i = 0; i < w.cols; i++)
            dx.v[at + i] = r * (dy.v[at + i] * w.v[i] - x.v[at + i] * r * r * dot / w.cols);
    }
    return dx;
}

static mat rope(const net *n, mat x, int n_head, double sign)
{
    mat y = mat_new(x.rows, x.cols);
    for (int t = 0; t < x.rows; t++)
        for (int h = 0; h < n_head; h++)
            for (int i = 0; i < n->d / 2; i++) {
                double angle = sign * t * pow(n->base, -2.0 * i / n->d);
                int i0 = h * n->d + (n->neox ? i : 2 * i);
                int i1 = h * n->d + (n->neox ? i + n->d / 2 : 2 * i + 1);
                double a = row(x, t)[i0], b = row(x, t)[i1];
                row(y, t)[i0] = a * cos(angle) - b * sin(angle);
                row(y, t)[i1] = a * sin(angle) + b * cos(angle);
            }
    return y;
}

static mat attention_forward(const net *n, layer *l)
{
    mat y = mat_new(T, n->n_head * n->d);
    for (int h = 0; h < n->n_head; h++) {
        int q0 = h * n->d, k0 = h / (n->n_head / n->n_kv) * n->d;
        for (int t = 0; t < T; t++) {
            double *p = l->p + ((size_t)h * T + (size_t)t) * T, sum = 0;
            for (int s = 0; s <= t; s++) {
                double dot = 0;
                for (int i = 0; i < n->d; i++)
                    dot += row(l->q, t)[q0 + i] * row(l->k, s)[k0 + i];
                sum += p[s] = exp(dot / sqrt(n->d));
            }
            for (int s = 0; s <= t; s++) {
                p[s] /= sum;
                for (int i = 0; i < n->d; i++)
                    row(y, t)[q0 + i] += p[s] * row(l->v, s)[k0 + i];
            }
        }
    }
    return y;
}

static void attention_backward(const net *n, const layer *l, mat dy, mat dq, mat dk, mat dv)
{
    for (int h = 0; h < n->n_head; h++) {
        int q0 = h * n->d, k0 = h / (n->n_head / n->n_kv) * n->d;
        for (int t = 0; t < T; t++) {
            const double *p = l->p + ((size_t)h * T + (size_t)t) * T;
            double dp[T] = {0}, mean = 0;
            for (int s = 0; s <= t; s++) {
                for (int i = 0; i < n->d; i++) {
                    dp[s] += row(dy, t)[q0 + i] * row(l->v, s)[k0 + i];
                    row(dv, s)[k0 + i] += p[s] * row(dy, t)[q0 + i];
                }
                mean += p[s] * dp[s];
            }
            for (int s = 0; s <= t; s++) {
                double ds = p[s] * (dp[s] - mean) / sqrt(n->d);
                for (int i = 0; i < n->d; i++) {
                    row(dq, t)[q0 + i] += ds * row(l->k, s)[k0 + i];
                    row(dk, s)[k0 + i] += ds * row(l->q, t)[q0 + i];
                }
            }
        }
    }
}

static mat sum_of(mat a, mat b)
{
    mat y = mat_new(a.rows, a.cols);
    for (int i = 0; i < a.rows * a.cols; i++)
        y.v[i] = a.v[i] + b.v[i];
    return y;
}

/* ---- the network ------------------- */

static mat layer_forward(const net *n, layer *l, mat x, double s)
{
    l->x_in = x;
    l->normed = norm_forward(x, l->attn_norm, n->eps);
    l->q_raw = linear_forward(&l->lin[0], l->normed, s);
    l->k_raw = linear_forward(&l->lin[1], l->normed, s);
    l->v = linear_forward(&l->lin[2], l->normed, s);
    mat q = n->qk_norm ? norm_forward(l->q_raw, l->q_norm, n->eps) : l->q_raw;
    mat k = n->qk_norm ? norm_forward(l->k_raw, l->k_norm, n->eps) : l->k_raw;
    l->q = rope(n, q, n->n_head, 1);
    l->k = rope(n, k, n->n_kv, 1);
    l->attn = attention_forward(n, l);
    l->x_mid = sum_of(x, linear_forward(&l->lin[3], l->attn, s));
    l->normed2 = norm_forward(l->x_mid, l->ffn_norm, n->eps);
    l->gate = linear_forward(&l->lin[4], l->normed2, s);
    l->up = linear_forward(&l->lin[5], l->normed2, s);
    mat y = mat_new(T, n->n_ff);
    for (int i = 0; i < T * n->n_ff; i++)
        y.v[i] = l->gate.v[i] / (1 + exp(-l->gate.v[i])) * l->up.v[i];
    return sum_of(l->x_mid, linear_forward(&l->lin[6], y, s));
}

static mat layer_backward(const net *n, layer *l, mat dx, double s)
{
    mat dy = linear_backward(&l->lin[6], dx, s);
    mat dgate = mat_new(T, n->n_ff), dup = mat_new(T, n->n_ff);
    for (int i = 0; i < T * n->n_ff; i++) {
        double g = l->gate.v[i], sig = 1 / (1 + exp(-g));
        dup.v[i] = dy.v[i] * g * sig;
        dgate.v[i] = dy.v[i] * l->up.v[i] * sig * (1 + g * (1 - sig));
    }
    mat d = sum_of(linear_backward(&l->lin[4], dgate, s), linear_backward(&l->lin[5], dup, s));
    dx = sum_of(dx, norm_backward(d, l->x_mid, l->ffn_norm, n->eps));
    mat dattn = linear_backward(&l->lin[3], dx, s);
    mat dq = mat_new(T, n->n_head * n->d), dk = mat_new(T, n->n_kv * n->d);
    mat dv = mat_new(T, n->n_kv * n->d);
    attention_backward(n, l, dattn, dq, dk, dv);
    dq = rope(n, dq, n->n_head, -1);
    dk = rope(n, dk, n->n_kv, -1);
    if (n->qk_norm) {
        dq = norm_backward(dq, l->q_raw, l->q_norm, n->eps);
        dk = norm_backward(dk, l->k_raw, l->k_norm, n->eps);
    }
    d = sum_of(linear_backward(&l->lin[0], dq, s), linear_backward(&l->lin[1], dk, s));
    d = sum_of(d, linear_backward(&l->lin[2], dv, s));
    return sum_of(dx, norm_backward(d, l->x_in, l->attn_norm, n->eps));
}

/* Mean loss of the labelled tokens, and its gradients in every da, db. */
static double net_step(net *n, const loam_batch *batch, double s)
{
    mat x = mat_new(T, n->n_embd), dh = mat_new(T, n->n_embd);
    for (int t = 0; t < T; t++)
        memcpy(row(x, t), row(n->embd, batch->tokens[t]), (size_t)n->n_embd * sizeof(double));
    for (int il = 0; il < n->n_layer; il++)
        x = layer_forward(n, &n->layers[il], x, s);
    mat normed = norm_forward(x, n->out_norm, n->eps);
    mat logits = times_transposed(normed, n->head);
    double loss = 0;
    for (int t = 0; t < T; t++) {
        if (batch->labels[t] < 0)
            continue;
        double sum = 0, *z = row(logits, t);
        for (int i = 0; i < n->n_vocab; i++)
            sum += exp(z[i]);
        loss += log(sum) - z[batch->labels[t]];
        for (int i = 0; i < n->n_vocab; i++) {
            double dz = (exp(z[i]) / sum - (i == batch->labels[t])) / (double)batch->n_trained;
            for (int j = 0; j < n->n_embd; j++)
                row(dh, t)[j] += dz * row(n->head, i)[j];
        }
    }
    mat dx = norm_backward(dh, x, n->out_norm, n->eps);
    for (int il = n->n_layer - 1; il >= 0; il--)
        dx = layer_backward(n, &n->layers[il], dx, s);
    return loss / (double)batch->n_trained;
}

static void adamw(mat w, mat g, mat m, mat v, double clip, double lr, int t)
{
    for (int i = 0; i < w.rows * w.cols; i++) {
        double gi = g.v[i] * clip;
        m.v[i] = 0.9 * m.v[i] + 0.1 * gi;
        v.v[i] = 0.999 * v.v[i] + 0.001 * gi * gi;
        double mh = m.v[i] / (1 - pow(0.9, t)), vh = v.v[i] / (1 - pow(0.999, t));
        w.v[i] = w.v[i] * (1 - lr * 0.01) - lr * mh / (sqrt(vh) + 1e-8);
        g.v[i] = 0;
    }
}

static double square_sum(mat m)
{
    double s = 0;
    for (int i = 0; i < m.rows * m.cols; i++)
        s += m.v[i] * m.v[i];
    return s;
}

static void net_update(net *n, double lr, int t)
{
    double sum = 0;
    for (int il = 0; il < n->n_layer; il++)
        for (int i = 0; i < N_LINEAR; i++)
            sum += square_sum(n->layers[il].lin[i].da) + square_sum(n->layers[il].lin[i].db);
    double clip = sqrt(sum) > 0.5 ? 0.5 / sqrt(sum) : 1;
    for (int il = 0; il < n->n_layer; il++)
        for (int i = 0; i < N_LINEAR; i++) {
            linear *l = &n->layers[il].lin[i];
            adamw(l->a, l->da, l->moments[0], l->moments[1], clip, lr, t);
            adamw(l->b, l->db, l->moments[2], l->moments[3], clip, lr, t);
        }
}

/* ---- the comparison ----------------------------------------------------------------------- */

static void fill_batch(loam_batch *b, int32_t ids[5 * T + 5])
{
    loam_rng rng = loam_rng_stream(21, "tokens");
    *b = (loam_batch){.n_tokens = T,
                      .tokens = ids,
                      .labels = ids + T,
                      .positions = ids + 2 * T,
                      .ranges = ids + 3 * T};
    for (int i = 0; i < T; i++) {
        b->tokens[i] = (int32_t)loam_rng_below(&rng, 300);
        b->labels[i] = i % 4 == 1 ? -1 : (int32_t)loam_rng_below(&rng, 300);
        b->positions[i] = i;
        b->ranges[2 * i] = 0;
        b->ranges[2 * i + 1] = i + 1;
        b->n_trained += b->labels[i] >= 0;
    }
}

static void compare(const char *arch, const char *ftype)
{
    char path[64];
    loam_error e = {0};
    loam_device *device;
    loam_base *base;
    loam_lora *lora;
    loam_stepper *stepper;
    loam_batch batch;
    int32_t ids[5 * T + 5];
    random_model r = {.arch = arch,
                      .ftype = ftype,
                      .n_vocab = 300,
                      .n_embd = 256,
                      .n_layer = 2,
                      .n_head = 4,
                      .n_head_kv = 2,
                      .n_embd_head = 64,
                      .n_ff = 256,
                      .n_ctx = 64,
                      .seed = 13};
    snprintf(path, sizeof path, "/tmp/loam-losses-%d.gguf", (int)getpid());
    loam_device_options d = {.n_threads = 2};
    loam_lora_options lo = {.rank = RANK, .alpha = 8, .seed = 17};
    loam_stepper_options so = {
        .clip = 0.5f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.01f};
    if (random_model_write(&r, path, &e) || loam_device_open("cpu", &d, &device, &e) ||
        loam_base_open(path, device, &base, &e) || loam_lora_create(base, &lo, &lora, &e) ||
        loam_lora_make_trainable(lora, &e) || loam_stepper_create(base, lora, &so, &stepper, &e))
        fail_msg("%s", e.message);
    memory = loam_arena_new();
    assert_non_null(memory);
    fill_batch(&batch, ids);
    net n = net_read(base, lora);
    double worst = 0, first = 0, last = 0;
    for (int step = 0; step < N_STEPS; step++) {
        double sum;
        float norm;
        last = net_step(&n, &batch, 8.0 / RANK);
        first = step == 0 ? last : first;
        net_update(&n, 5e-3f, step + 1);
        if (loam_stepper_backward(stepper, &batch, 1.0f / (float)batch.n_trained, &sum, &e) ||
            loam_stepper_update(stepper, 5e-3f, &norm, &e))
            fail_msg("%s", e.message);
        worst = fmax(worst, fabs(sum / (double)batch.n_trained - last) / last);
    }
    print_message("%s %s: loss %.4f to %.4f, worst relative difference %.2e\n", arch, ftype, first,
                  last, worst);
    assert_true(last < 0.9 * first);
    assert_true(worst < 2e-5);
    loam_arena_free(memory);
    loam_stepper_free(stepper);
    loam_lora_free(lora);
    loam_base_close(base);
    loam_device_close(device);
    unlink(path);
}

static void test_llama(void **state)
{
    (void)state;
    compare("llama", "F32");
    compare("llama", "Q4_K");
}

static void test_qwen3(void **state)
{
    (void)state;
    compare("qwen3", "F32");
    compare("qwen3", "Q4_K");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_qwen3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
