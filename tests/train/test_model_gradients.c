/* The gradient of a whole model's loss with respect to its adapter, as the CPU device computes it,
 * against central differences of the loss in double precision on the reference device. */
#include "support/random_model.h"
#include "train/train.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define N_TOKENS 32
#define N_CHECKED 48

static const random_model shape = {.n_vocab = 300,
                                   .n_embd = 256,
                                   .n_layer = 2,
                                   .n_head = 4,
                                   .n_head_kv = 2,
                                   .n_embd_head = 64,
                                   .n_ff = 256,
                                   .n_ctx = 64,
                                   .seed = 7};

typedef struct fixture {
    char path[64];
    loam_device *cpu, *reference;
    loam_base *on_cpu, *on_reference;
    loam_lora *lora;      /* on the CPU */
    loam_lora *lora_wide; /* the same values on the reference device */
    int32_t tokens[N_TOKENS], labels[N_TOKENS], positions[N_TOKENS], ranges[2 * N_TOKENS];
    loam_batch batch;
} fixture;

/* Two packed sequences, a few masked labels, and padding that sees only itself. */
static void fill_batch(fixture *f)
{
    loam_rng rng = loam_rng_stream(3, "batch");
    static const int first[] = {0, 19, 30}, end[] = {19, 30, N_TOKENS};
    for (int s = 0; s < 3; s++)
        for (int i = first[s]; i < end[s]; i++) {
            bool is_padding = s == 2;
            f->tokens[i] = (int32_t)loam_rng_below(&rng, 300);
            f->positions[i] = is_padding ? 0 : i - first[s];
            f->ranges[2 * i] = is_padding ? i : first[s];
            f->ranges[2 * i + 1] = i + 1;
            f->labels[i] = is_padding || i % 5 == 0 ? -1 : (int32_t)loam_rng_below(&rng, 300);
            f->batch.n_trained += f->labels[i] >= 0;
        }
    f->batch.n_tokens = N_TOKENS;
    f->batch.tokens = f->tokens;
    f->batch.labels = f->labels;
    f->batch.positions = f->positions;
    f->batch.ranges = f->ranges;
}

static void begin(fixture *f, const char *arch, const char *ftype, int n_threads)
{
    loam_error e = {0};
    random_model r = shape;
    r.arch = arch;
    r.ftype = ftype;
    r.rope_freqs = strcmp(arch, "llama") == 0;
    memset(f, 0, sizeof *f);
    snprintf(f->path, sizeof f->path, "/tmp/loam-gradients-%d.gguf", (int)getpid());
    loam_device_options d = {.n_threads = n_threads};
    if (random_model_write(&r, f->path, &e) || loam_device_open("cpu", &d, &f->cpu, &e) ||
        loam_device_open("reference", &d, &f->reference, &e) ||
        loam_base_open(f->path, f->cpu, &f->on_cpu, &e) ||
        loam_base_open(f->path, f->reference, &f->on_reference, &e))
        fail_msg("%s", e.message);
    loam_lora_options o = {.rank = 4, .alpha = 8, .seed = 11};
    if (loam_lora_create(f->on_cpu, &o, &f->lora, &e) ||
        loam_lora_create(f->on_reference, &o, &f->lora_wide, &e) ||
        loam_lora_make_trainable(f->lora, &e))
        fail_msg("%s", e.message);
    /* B is zero at the start, and then A has no gradient: give it values. */
    loam_rng rng = loam_rng_stream(5, "b");
    float *values = f->lora->values->host, *wide = f->lora_wide->values->host;
    for (int64_t i = f->lora->n_a_elements; i < f->lora->n_elements; i++)
        values[i] = wide[i] = 0.3f * (float)loam_rng_normal(&rng);
    fill_batch(f);
}

static void end(fixture *f)
{
    loam_lora_free(f->lora);
    loam_lora_free(f->lora_wide);
    loam_base_close(f->on_cpu);
    loam_base_close(f->on_reference);
    loam_device_close(f->cpu);
    loam_device_close(f->reference);
    unlink(f->path);
}

/* Gradients of the mean loss, into grads[n_elements]. */
static void run_backward(fixture *f, bool checkpoint, float *grads)
{
    loam_error e = {0};
    loam_stepper *s;
    double sum;
    loam_stepper_options o = {.grad_checkpoint = checkpoint};
    memset(f->lora->grads->host, 0, f->lora->grads->bytes);
    if (loam_stepper_create(f->on_cpu, f->lora, &o, &s, &e) ||
        loam_stepper_backward(s, &f->batch, 1.0f / (float)f->batch.n_trained, &sum, &e))
        fail_msg("%s", e.message);
    memcpy(grads, f->lora->grads->host, (size_t)f->lora->n_elements * sizeof *grads);
    loam_stepper_free(s);
}

typedef struct wide_loss {
    loam_build b;
    loam_node *labels, *nll;
    loam_plan *plan;
    loam_workspace *workspace;
} wide_loss;

static void wide_begin(wide_loss *w, fixture *f)
{
    loam_error e = {0};
    *w = (wide_loss){.b = {.m = f->on_reference, .lora = f->lora_wide, .n_tokens = N_TOKENS},
                     .workspace = loam_workspace_new()};
    assert_int_equal(loam_graph_create(LOAM_TYPE_F64, &w->b.g, &e), LOAM_OK);
    assert_int_equal(loam_build_begin(&w->b, &e), LOAM_OK);
    w->labels = loam_leaf_1d(w->b.g, LOAM_TYPE_I32, N_TOKENS, "labels");
    w->nll = loam_linear_cross_entropy(w->b.g, loam_build_head(&w->b), loam_build_hidden(&w->b),
                                       w->labels);
    loam_set_output(w->nll);
    if (loam_plan_create(w->b.g, &f->reference, 1, &w->plan, &e) ||
        loam_plan_prepare(w->plan, w->workspace, &e) ||
        loam_node_write(w->b.tokens, f->tokens, sizeof f->tokens, &e) ||
        loam_node_write(w->b.positions, f->positions, sizeof f->positions, &e) ||
        loam_node_write(w->b.ranges, f->ranges, sizeof f->ranges, &e) ||
        loam_node_write(w->labels, f->labels, sizeof f->labels, &e))
        fail_msg("%s", e.message);
}

static double wide_mean_loss(wide_loss *w, const fixture *f)
{
    loam_error e = {0};
    double nll[N_TOKENS], sum = 0;
    if (loam_plan_run(w->plan, &e) || loam_node_read(w->nll, nll, sizeof nll, &e))
        fail_msg("%s", e.message);
    for (int i = 0; i < N_TOKENS; i++)
        sum += nll[i];
    return sum / (double)f->batch.n_trained;
}

static void wide_end(wide_loss *w)
{
    loam_plan_free(w->plan);
    loam_workspace_free(w->workspace);
    loam_build_end(&w->b);
    loam_graph_free(w->b.g);
}

/* A random sample of every factor's elements, half from A and half from B. */
static void check_gradients(const char *arch, const char *ftype)
{
    fixture f;
    wide_loss w;
    begin(&f, arch, ftype, 2);
    wide_begin(&w, &f);
    float *grads = malloc((size_t)f.lora->n_elements * sizeof *grads);
    run_backward(&f, false, grads);
    float *values = f.lora_wide->values->host;
    loam_rng rng = loam_rng_stream(9, "elements");
    double error = 0, norm = 0;
    for (int i = 0; i < N_CHECKED; i++) {
        const loam_lora_pair *p = &f.lora->pairs[loam_rng_below(&rng, (uint64_t)f.lora->n_pairs)];
        int64_t at = i % 2 ? p->a_offset + (int64_t)loam_rng_below(&rng, 4 * (uint64_t)p->n_in)
                           : p->b_offset + (int64_t)loam_rng_below(&rng, 4 * (uint64_t)p->n_out);
        float before = values[at], above = before + 1e-3f, below = before - 1e-3f;
        values[at] = above;
        double loss_above = wide_mean_loss(&w, &f);
        values[at] = below;
        double loss_below = wide_mean_loss(&w, &f);
        values[at] = before;
        double slope = (loss_above - loss_below) / ((double)above - (double)below);
        error += (slope - grads[at]) * (slope - grads[at]);
        norm += slope * slope;
    }
    assert_true(norm > 0);
    print_message("%s %s: relative error %.2e over %d elements\n", arch, ftype, sqrt(error / norm),
                  N_CHECKED);
    assert_true(sqrt(error / norm) < 1e-4);
    free(grads);
    wide_end(&w);
    end(&f);
}

static void test_llama_f32(void **state)
{
    (void)state;
    check_gradients("llama", "F32");
}

static void test_llama_q4_k(void **state)
{
    (void)state;
    check_gradients("llama", "Q4_K");
}

static void test_qwen2_q8_0(void **state)
{
    (void)state;
    check_gradients("qwen2", "Q8_0");
}

static void test_qwen3_f32(void **state)
{
    (void)state;
    check_gradients("qwen3", "F32");
}

static void test_qwen3_q4_k(void **state)
{
    (void)state;
    check_gradients("qwen3", "Q4_K");
}

/* Recomputing a block gives the same bits as keeping it, and so does any number of threads. */
static void test_checkpoint_and_threads(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "qwen3", "Q4_K_M", 1);
    size_t bytes = (size_t)f.lora->n_elements * sizeof(float);
    float *kept = malloc(bytes), *other = malloc(bytes);
    run_backward(&f, false, kept);
    run_backward(&f, true, other);
    assert_memory_equal(kept, other, bytes);
    end(&f);
    for (int n_threads = 2; n_threads <= 3; n_threads++) {
        begin(&f, "qwen3", "Q4_K_M", n_threads);
        run_backward(&f, n_threads == 3, other);
        assert_memory_equal(kept, other, bytes);
        end(&f);
    }
    free(kept);
    free(other);
}

/* Checkpointing is there to save memory. */
static void test_checkpoint_memory(void **state)
{
    (void)state;
    loam_error e = {0};
    fixture f;
    begin(&f, "llama", "Q8_0", 1);
    size_t bytes[2];
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        const loam_plan *plan;
        loam_plan_memory memory;
        loam_stepper *s;
        loam_stepper_options o = {.grad_checkpoint = checkpoint};
        assert_int_equal(loam_stepper_create(f.on_cpu, f.lora, &o, &s, &e), LOAM_OK);
        assert_int_equal(loam_stepper_plan(s, 512, true, &plan, &e), LOAM_OK);
        loam_plan_memory_of(plan, &memory);
        bytes[checkpoint] = memory.activation_bytes;
        assert_int_equal(loam_plan_n_splits(plan), 1);
        loam_stepper_free(s);
    }
    print_message("activations %zu bytes, checkpointed %zu\n", bytes[0], bytes[1]);
    assert_true(bytes[1] < 3 * bytes[0] / 4);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_f32),         cmocka_unit_test(test_llama_q4_k),
        cmocka_unit_test(test_qwen2_q8_0),        cmocka_unit_test(test_qwen3_f32),
        cmocka_unit_test(test_qwen3_q4_k),        cmocka_unit_test(test_checkpoint_and_threads),
        cmocka_unit_test(test_checkpoint_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
