/* model.h: a GGUF model as a graph, low-rank adapters on it, and contexts that evaluate it.
 *
 * One file per architecture (llama.c, qwen2.c, qwen3.c): each reads its own metadata and builds
 * its own graph from the shared pieces in build.h. */
#ifndef LOAM_MODEL_H
#define LOAM_MODEL_H

#include "core/core.h"
#include "device/device.h"
#include "gguf/gguf.h"
#include "graph/graph.h"
#include "op/op.h"
#include "text/text.h"

typedef struct loam_arch loam_arch;

/* What every architecture has; read from "<arch>.*" metadata. */
typedef struct loam_hparams {
    int64_t n_vocab;
    int64_t n_embd;
    int64_t n_layer;
    int64_t n_ff;
    int64_t n_head;
    int64_t n_head_kv;
    int64_t n_embd_head_k; /* elements of one head of q and k */
    int64_t n_embd_head_v;
    int64_t n_ctx_train;
    float rms_eps;
    float attention_scale; /* of q k before the softmax */
    loam_rope_params rope;
} loam_hparams;

/* ---- model (model.c) ---------------------------------------------------------------------- */

typedef struct loam_base {
    loam_gguf *gguf;
    loam_tokenizer *tokenizer;
    const loam_arch *arch;
    loam_hparams hparams;
    char name[128]; /* general.name, or the file's name */
    loam_device *device;
    loam_buffer **shards; /* one over each file's map */
    bool *linears;        /* by tensor index: a block linear, which an adapter may target */
} loam_base;

/* Opens a model on a device: checks the architecture, its metadata and every tensor's shape, and
 * builds the graph once without running it, so that a tensor or key that Loam does not understand
 * is refused by name before anything else happens. The device must outlive the model. */
loam_status loam_base_open(const char *path, loam_device *device, loam_base **out, loam_error *e);
void loam_base_close(loam_base *m); /* NULL is fine */
const char *loam_base_arch_name(const loam_base *m);
/* The architectures of this build, NULL-terminated. */
const char *const *loam_arch_names(void);

/* ---- low-rank adapters (lora.c, lora_file.c) ---------------------------------------------- */

/* y = W x + scale * B (A x), with A [n_in, rank], B [rank, n_out], scale = alpha / rank.
 * All A come first in one flat F32 buffer, then all B: one optimizer step, one norm, one
 * reduction covers the adapter. Offsets count elements. */
typedef struct loam_lora_pair {
    char target[LOAM_NAME_BYTES]; /* the base weight: "blk.0.attn_q.weight" */
    int64_t n_in, n_out;
    int64_t rank;
    float scale;
    int64_t a_offset, b_offset;
} loam_lora_pair;

typedef struct loam_lora {
    loam_lora_pair *pairs; /* in the order of the layers; of a loaded one, in the file's */
    int n_pairs;
    int64_t n_elements;   /* of all factors */
    int64_t n_a_elements; /* where the B factors begin */
    float alpha;
    loam_buffer *values; /* F32, n_elements */
    loam_buffer *grads;  /* same layout; NULL unless trainable */
} loam_lora;

typedef struct loam_lora_options {
    int64_t rank;
    float alpha;
    bool rslora; /* scale = alpha / sqrt(rank) */
    /* Comma-separated names or globs of block linears ("attn_q,ffn_*", HF spellings such as
     * q_proj too) or "all"; NULL: all. */
    const char *targets;
    int64_t n_last_layers; /* only the last N blocks; 0: all */
    uint64_t seed;
} loam_lora_options;

/* A new adapter on m's device: A uniform within 1/sqrt(n_in) from one random stream per tensor
 * name, B zero. Errors: a rank below 1 or above a target's smaller side; a name that matches no
 * block linear (the message lists those there are). */
loam_status loam_lora_create(const loam_base *m, const loam_lora_options *o, loam_lora **out,
                             loam_error *e);
/* Reads a GGUF adapter written by Loam or by llama.cpp's converter and checks every factor against
 * m's tensors. `scale` multiplies it (1 for as trained). */
loam_status loam_lora_load(const loam_base *m, const char *path, float scale, loam_lora **out,
                           loam_error *e);
/* Allocates the gradient buffer of an adapter that is to be trained. */
loam_status loam_lora_make_trainable(loam_lora *l, loam_error *e);
void loam_lora_free(loam_lora *l); /* NULL is fine */
const loam_lora_pair *loam_lora_find(const loam_lora *l, const char *target);

typedef struct loam_lora_metadata {
    const char *key; /* "loam.seed" */
    const char *value;
} loam_lora_metadata;

/* Writes a GGUF adapter that llama.cpp, Ollama and LM Studio load: adapter.lora.alpha is chosen so
 * that alpha / rank is each pair's scale; where pairs differ, the difference is folded into B.
 * `extra` strings go into the metadata. The file appears whole or not at all. */
loam_status loam_lora_save(const loam_base *m, const loam_lora *l, const char *path,
                           const loam_lora_metadata *extra, int n_extra, loam_error *e);

/* ---- building graphs (build.c) ------------------------------------------------------------ */

/* Keys and values of past tokens, one leaf pair per layer. */
typedef struct loam_kv_cache {
    int64_t n_ctx;
    loam_buffer *buffer;
} loam_kv_cache;
loam_status loam_kv_cache_create(const loam_base *m, int64_t n_ctx, loam_kv_cache **out,
                                 loam_error *e);
void loam_kv_cache_free(loam_kv_cache *c);

/* What a graph of the model is built from. The inputs are made by loam_build_begin. */
typedef struct loam_build {
    loam_graph *g;
    const loam_base *m;
    const loam_lora *lora;      /* or NULL */
    bool train;                 /* the adapter's factors are parameters */
    const loam_kv_cache *cache; /* or NULL: keys are this graph's own tokens */
    int64_t n_tokens;

    loam_node *tokens;     /* I32 [n_tokens] */
    loam_node *positions;  /* I32 [n_tokens] */
    loam_node *ranges;     /* I32 [2, n_tokens]: the keys each token sees */
    loam_node *cache_rows; /* I32 [n_tokens]: where the cache takes this graph's keys */

    loam_node **factors; /* leaves of the adapter's A and B, 2 per pair; made on first use */
    /* By index in the file, filled while building where not NULL: which base tensors the graph
     * reads, and which of them are block linears. */
    bool *used;
    bool *linears;
} loam_build;

/* Fills b's input leaves and factor table from g, m, lora, cache, n_tokens. */
loam_status loam_build_begin(loam_build *b, loam_error *e);
void loam_build_end(loam_build *b); /* frees the tables, not the graph */

/* The hidden state after the last norm, [n_embd, n_tokens]. Errors stay in the graph. */
loam_node *loam_build_hidden(loam_build *b);
/* The output head's weight [n_embd, n_vocab]: output.weight, or the embedding where tied. */
loam_node *loam_build_head(loam_build *b);

/* ---- evaluating (context.c) --------------------------------------------------------------- */

/* Runs a model (and an adapter) forward: scoring whole sequences, and generating with a cache. */
typedef struct loam_context loam_context;
loam_status loam_context_create(loam_base *m, const loam_lora *lora, int64_t n_ctx,
                                loam_context **out, loam_error *e);
void loam_context_free(loam_context *c); /* NULL is fine */

/* Log-probability of each of tokens[1 .. n-1] given those before it: n - 1 values. Longer than
 * the model's context is the caller's decision. */
loam_status loam_context_score(loam_context *c, const int32_t *tokens, int64_t n, float *logprobs,
                               loam_error *e);

/* Forgets the cache from position n_keep on. */
void loam_context_truncate(loam_context *c, int64_t n_keep);
int64_t loam_context_n_past(const loam_context *c);
int64_t loam_context_n_ctx(const loam_context *c);
/* Appends tokens to the cache; logits [n_vocab] of the last one (owned by the context, until the
 * next call). An error where n_ctx is exceeded. */
loam_status loam_context_decode(loam_context *c, const int32_t *tokens, int64_t n,
                                const float **logits, loam_error *e);

/* ---- sampling (sample.c) ------------------------------------------------------------------ */

typedef struct loam_sampling {
    float temperature; /* 0: the most likely token */
    int32_t top_k;     /* 0: all */
    float top_p;       /* 1: all */
    float min_p;       /* 0: all */
} loam_sampling;
/* Draws a token from logits [n]; `scratch` holds n pairs (see loam_sample_scratch_bytes). */
size_t loam_sample_scratch_bytes(int64_t n);
int32_t loam_sample(const loam_sampling *s, const float *logits, int64_t n, void *scratch,
                    loam_rng *rng);

#endif /* LOAM_MODEL_H */
