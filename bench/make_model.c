/* make_model.c: writes a GGUF model of a given shape with random weights.
 *
 *   make_model SHAPE FTYPE OUT.gguf      SHAPE: llama-125m, llama-8b, qwen3-0.6b, qwen3-1.7b,
 *                                        qwen3-27b; FTYPE: F32, F16, Q8_0, Q4_0, Q4_K_M */
#include "support/random_model.h"

#include <string.h>

static const struct {
    const char *name;
    random_model shape;
} shapes[] = {
    {"llama-125m",
     {.arch = "llama",
      .n_vocab = 32000,
      .n_embd = 768,
      .n_layer = 12,
      .n_head = 12,
      .n_head_kv = 12,
      .n_embd_head = 64,
      .n_ff = 2048,
      .n_ctx = 4096}},
    {"llama-8b",
     {.arch = "llama",
      .n_vocab = 128256,
      .n_embd = 4096,
      .n_layer = 32,
      .n_head = 32,
      .n_head_kv = 8,
      .n_embd_head = 128,
      .n_ff = 14336,
      .n_ctx = 8192,
      .rope_freqs = true,
      .freq_base = 500000.0f}},
    {"qwen3-0.6b",
     {.arch = "qwen3",
      .n_vocab = 151936,
      .n_embd = 1024,
      .n_layer = 28,
      .n_head = 16,
      .n_head_kv = 8,
      .n_embd_head = 128,
      .n_ff = 3072,
      .n_ctx = 8192,
      .tied = true,
      .freq_base = 1000000.0f}},
    {"qwen3-1.7b",
     {.arch = "qwen3",
      .n_vocab = 151936,
      .n_embd = 2048,
      .n_layer = 28,
      .n_head = 16,
      .n_head_kv = 8,
      .n_embd_head = 128,
      .n_ff = 6144,
      .n_ctx = 8192,
      .tied = true,
      .freq_base = 1000000.0f}},
    {"qwen3-27b",
     {.arch = "qwen3",
      .n_vocab = 151936,
      .n_embd = 5120,
      .n_layer = 77,
      .n_head = 40,
      .n_head_kv = 8,
      .n_embd_head = 128,
      .n_ff = 17408,
      .n_ctx = 8192,
      .freq_base = 1000000.0f}},
};

int main(int argc, char **argv)
{
    loam_error e = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: make_model SHAPE FTYPE OUT.gguf; shapes:");
        for (int i = 0; i < LOAM_COUNT(shapes); i++)
            fprintf(stderr, " %s", shapes[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    for (int i = 0; i < LOAM_COUNT(shapes); i++) {
        if (strcmp(shapes[i].name, argv[1]) != 0)
            continue;
        random_model r = shapes[i].shape;
        r.ftype = argv[2];
        r.seed = 1;
        if (random_model_write(&r, argv[3], &e) == LOAM_OK)
            return 0;
        fprintf(stderr, "make_model: %s\n", e.message);
        return 1;
    }
    fprintf(stderr, "make_model: no shape '%s'\n", argv[1]);
    return 2;
}
