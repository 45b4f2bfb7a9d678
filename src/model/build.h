/* build.h: what architecture files share; private to src/model. */
#ifndef LOAM_MODEL_BUILD_H
#define LOAM_MODEL_BUILD_H

#include "model/model.h"

/* One architecture. `keys` are the "<arch>.*" metadata that it understands beside the common ones
 * (hparams.c); a model with another key is refused. */
struct loam_arch {
    const char *name;
    loam_rope_mode rope_mode;
    const char *const *keys; /* NULL-terminated, or NULL */
    /* The hidden state after the last norm; errors stay in the graph. */
    loam_node *(*hidden)(loam_build *b);
};

extern const loam_arch loam_arch_llama;
extern const loam_arch loam_arch_qwen2;
extern const loam_arch loam_arch_qwen3;

/* hparams.c: reads the common metadata and refuses keys that neither list holds. */
loam_status loam_hparams_read(const loam_gguf *g, const loam_arch *arch, loam_hparams *h,
                              loam_error *e);

/* A base tensor as a leaf bound to the map, checked to be [ne0, ne1] (ne1 = 1: a vector). NULL,
 * with an error in the graph, where it is missing and `required`; NULL alone where it is not. */
loam_node *loam_build_weight(loam_build *b, const char *name, int64_t ne0, int64_t ne1,
                             bool required);

/* "blk.<layer>.<part>". */
typedef struct loam_tensor_name {
    char text[2 * LOAM_NAME_BYTES];
} loam_tensor_name;
loam_tensor_name loam_block_name(int64_t layer, const char *part);

/* W x, plus "<part>.bias" where the model has one, plus the adapter's B (A x) where it has one. */
loam_node *loam_build_linear(loam_build *b, int64_t layer, const char *part, loam_node *x,
                             int64_t n_out);
/* RMS norm times a weight vector of ne0 elements. */
loam_node *loam_build_norm(loam_build *b, loam_node *x, const char *name);

typedef struct loam_block_style {
    bool qk_norm; /* RMS norm of each head of q and k before RoPE */
} loam_block_style;
/* One pre-norm block: x + attention(norm x), then x + swiglu(norm x). */
loam_node *loam_build_block(loam_build *b, int64_t layer, loam_node *x,
                            const loam_block_style *style);
/* Embedding, all blocks of one style, last norm. */
loam_node *loam_build_decoder(loam_build *b, const loam_block_style *style);

/* lora.c: lays out the factors of l's pairs, all A before all B, and makes their buffer. */
loam_status loam_lora_allocate(loam_lora *l, loam_device *device, loam_error *e);

#endif /* LOAM_MODEL_BUILD_H */
