/* random_model.h: GGUF models of any shape with random weights, for tests and measurements. They
 * load in Loam and in llama.cpp; what they say is noise. */
#ifndef LOAM_RANDOM_MODEL_H
#define LOAM_RANDOM_MODEL_H

#include "gguf/gguf.h"

typedef struct random_model {
    const char *arch; /* "llama", "qwen2", "qwen3" */
    /* "F32", "F16", "Q8_0", "Q4_0", or "Q4_K_M": Q4_K, with Q6_K for the head and half of attn_v
     * and ffn_down, as llama.cpp mixes them. */
    const char *ftype;
    int64_t n_vocab; /* at least 259: three control tokens and every byte */
    int64_t n_embd, n_layer, n_head, n_head_kv, n_embd_head, n_ff, n_ctx;
    bool tied;       /* no output.weight */
    bool rope_freqs; /* with a table of frequency factors, as Llama 3 has */
    float freq_base; /* 0: 10000 */
    uint64_t seed;
} random_model;

/* Writes the model to `path`. LOAM_E_USAGE for an architecture or ftype it does not know. */
loam_status random_model_write(const random_model *r, const char *path, loam_error *e);

#endif /* LOAM_RANDOM_MODEL_H */
