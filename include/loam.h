/* loam.h: train LoRA adapters on the quantized GGUF model a machine already serves.
 *
 * The whole public interface of libloam. Every function that can fail returns a loam_status
 * (LOAM_OK is 0 everywhere) and, where it takes a loam_error, writes one message that names the
 * file, line or tensor, what was found, what was expected and what to do. The library never
 * prints and never exits. Strings are UTF-8. Handles are not safe to share between threads that
 * call at the same time; different handles are independent.
 */
#ifndef LOAM_H
#define LOAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOAM_VERSION_MAJOR 0
#define LOAM_VERSION_MINOR 1
#define LOAM_VERSION_PATCH 0

#if defined(__GNUC__)
#define LOAM_API __attribute__((visibility("default")))
#define LOAM_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define LOAM_API
#define LOAM_PRINTF(format_at, first_at)
#endif

/* ---- status ------------------------------------------------------------------------------- */

typedef enum loam_status {
    LOAM_OK = 0,
    LOAM_E_USAGE,       /* an option or argument has a value that cannot be meant */
    LOAM_E_IO,          /* the system refused a file operation */
    LOAM_E_FORMAT,      /* a file is not what its format says */
    LOAM_E_UNSUPPORTED, /* a valid input that Loam does not handle (architecture, type, op) */
    LOAM_E_DATA,        /* a data set's line cannot be used */
    LOAM_E_MEMORY,      /* memory of the host or of the device ran out */
    LOAM_E_DEVICE,      /* a device failed */
    LOAM_E_DIVERGED,    /* the loss is no longer a number, or far above where it began */
    LOAM_E_CANCELLED    /* a callback asked to stop */
} loam_status;

#define LOAM_MESSAGE_BYTES 1024

typedef struct loam_error {
    loam_status status;
    char message[LOAM_MESSAGE_BYTES];
} loam_error;

/* A short English name of a status: "usage", "io", ... Static storage. */
LOAM_API const char *loam_status_name(loam_status status);

/* "0.1.0", and one line per library and device the build holds. Static storage. */
LOAM_API const char *loam_version(void);
LOAM_API const char *loam_build_info(void);

/* ---- models ------------------------------------------------------------------------------- */

typedef struct loam_model loam_model;

typedef enum loam_compute {
    LOAM_COMPUTE_F32, /* products of F32 operands, F32 sums */
    LOAM_COMPUTE_BF16 /* operands of products rounded to BF16, F32 sums */
} loam_compute;

typedef struct loam_model_options {
    const char *device; /* "cpu", ...; NULL: "cpu". loam_device_list has them */
    int n_threads;      /* CPU threads; 0: one for each core */
    loam_compute compute;
} loam_model_options;

/* The devices of this build, NULL-terminated. Static storage. */
LOAM_API const char *const *loam_device_list(void);
/* The architectures that this version runs, NULL-terminated. Static storage. */
LOAM_API const char *const *loam_architecture_list(void);

/* Opens a GGUF model (the first file of a split one) and checks it whole, without reading the
 * weights. `o` may be NULL. Close it after everything made from it. */
LOAM_API loam_status loam_model_open(const char *path, const loam_model_options *o,
                                     loam_model **out, loam_error *e);
LOAM_API void loam_model_close(loam_model *m); /* NULL is fine */

typedef struct loam_model_info {
    const char *name; /* these three live as long as the model */
    const char *architecture;
    const char *device;
    int64_t n_parameters;
    int64_t n_layer, n_embd, n_vocab;
    int64_t n_ctx_train; /* tokens */
    int64_t file_bytes;
    bool has_chat_template;
} loam_model_info;
LOAM_API void loam_model_info_get(const loam_model *m, loam_model_info *out);

/* ---- adapters ----------------------------------------------------------------------------- */

typedef struct loam_adapter loam_adapter;

/* Reads a GGUF LoRA for a model and checks every factor against it. `scale` multiplies it (1: as
 * trained). Free it before the model is closed. */
LOAM_API loam_status loam_adapter_load(loam_model *m, const char *path, float scale,
                                       loam_adapter **out, loam_error *e);
LOAM_API void loam_adapter_free(loam_adapter *a); /* NULL is fine */

/* ---- data --------------------------------------------------------------------------------- */

typedef enum loam_overlong {
    LOAM_OVERLONG_DROP,     /* leave examples longer than max_seq_length out, and count them */
    LOAM_OVERLONG_TRUNCATE, /* cut their end off, and count them */
    LOAM_OVERLONG_SPLIT,    /* cut them into several examples */
    LOAM_OVERLONG_ERROR     /* refuse the file */
} loam_overlong;

typedef enum loam_train_on {
    LOAM_TRAIN_ON_ASSISTANT,  /* every assistant turn; completions; all of a plain text */
    LOAM_TRAIN_ON_LAST,       /* the last assistant turn */
    LOAM_TRAIN_ON_COMPLETION, /* everything after the first user turn or prompt */
    LOAM_TRAIN_ON_ALL         /* every token */
} loam_train_on;

typedef struct loam_data_options {
    int64_t max_seq_length; /* tokens; 0: 2048, or the model's context where that is less */
    loam_overlong overlong;
    loam_train_on train_on;
    const char *format; /* NULL: found out; else "text", "completion", "messages", ... */
    bool skip_bad;      /* leave unusable lines out and count them */
} loam_data_options;

typedef struct loam_data_summary {
    int64_t n_examples;
    int64_t n_tokens;
    int64_t n_trained;  /* tokens whose prediction counts */
    int64_t n_longest;  /* tokens of the longest example */
    int64_t n_bad;      /* lines left out because they could not be used */
    int64_t n_overlong; /* examples longer than max_seq_length, whatever became of them */
    int64_t n_truncated;
    int64_t n_split;
    int64_t n_untrained;
} loam_data_summary;

/* ---- training ----------------------------------------------------------------------------- */

typedef struct loam_train_options {
    const char *data;       /* file; required */
    const char *valid_data; /* file, or NULL: valid_share of `data` */
    double valid_share;     /* 0: no validation */
    loam_data_options data_options;

    const char *output;       /* adapter file; required */
    const char *init_adapter; /* start from this adapter, or NULL */
    /* Go on with a run from its state: the state file, or the adapter that it stands beside; NULL:
     * a new run. The other options are those of the run: what would change its path is refused. */
    const char *resume;
    /* Resume although such an option differs, and train although the memory may not do. */
    bool override;
    int64_t rank;
    float alpha;
    bool rslora;           /* scale by alpha / sqrt(rank) */
    const char *targets;   /* comma-separated names or globs of block linears; NULL: all */
    int64_t n_last_layers; /* 0: all */

    int64_t iters;                   /* optimizer steps; 0: `epochs` decides */
    double epochs;                   /* passes over the data */
    int64_t batch_size;              /* packed rows in a batch */
    int64_t grad_accumulation_steps; /* batches in an optimizer step */
    float learning_rate;
    float warmup_share;    /* of the steps */
    float lora_plus_ratio; /* learning rate of B over that of A (LoRA+, arXiv 2402.12354); 1: one */
    float weight_decay;
    float clip; /* largest gradient norm; 0: none */
    bool grad_checkpoint;
    uint64_t seed;
    int64_t steps_per_eval; /* validation every so many steps, and at the end; 0: at the end */
    int64_t patience;       /* stop after so many validations without a better one; 0: never */
    int64_t save_every;     /* a checkpoint every so many steps; 0: only the best and the last */
    int64_t keep;           /* checkpoints that stay, the newest; 0: all */
    const char *metrics;    /* a file that gets one JSON object per step and validation, or NULL */
} loam_train_options;

/* Rank 16, alpha 32, all block linears, AdamW at 2e-4 with weight decay 0.01, cosine after 5%
 * warm-up, clip 1, effective batch 8, one epoch's worth of 3, 5% validation. */
LOAM_API void loam_train_options_default(loam_train_options *o);

/* What a run will need. */
typedef struct loam_forecast {
    int64_t weight_bytes;     /* of the model, mapped: shared with whatever else serves it */
    int64_t adapter_bytes;    /* factors and their gradients */
    int64_t optimizer_bytes;  /* both moments */
    int64_t activation_bytes; /* of the longest batch */
    int64_t scratch_bytes;
    int64_t other_bytes; /* the data, the batch, and the copy that is made to save an adapter */
    int64_t total_bytes;
    int64_t free_bytes;     /* of the device, before the run */
    int64_t longest_tokens; /* of the longest batch */
    int64_t n_steps, n_tokens;
    double tokens_per_s, seconds; /* by the timing of one batch; 0 where none was asked for */
    bool fits;
    char advice[256]; /* where it does not fit: what to lower, and what that gives; else "" */
} loam_forecast;

typedef enum loam_event_kind {
    LOAM_EVENT_START,   /* the plan is made, step 0 has not begun */
    LOAM_EVENT_STEP,    /* an optimizer step is done */
    LOAM_EVENT_VALID,   /* a validation is done */
    LOAM_EVENT_SAVED,   /* `text` is the file that was written */
    LOAM_EVENT_WARNING, /* `text` says what */
    LOAM_EVENT_SPLIT    /* placement: `text` names device, nodes and reason; sent at the start */
} loam_event_kind;

typedef struct loam_event {
    loam_event_kind kind;
    int64_t step, n_steps; /* step counts from 1 */
    double epoch;
    double loss;      /* mean over the step's trained tokens, or over the validation's */
    double best_loss; /* of the validations so far */
    double learning_rate;
    double grad_norm;    /* before clipping */
    double tokens_per_s; /* all tokens of the step, over its time */
    double eta_s;
    int64_t n_tokens;     /* so far */
    int64_t memory_bytes; /* planned for weights, adapter, optimizer, activations and scratch */
    int64_t n_trainable;  /* elements of the adapter */
    loam_data_summary data, valid; /* at LOAM_EVENT_START */
    const loam_forecast *forecast; /* the same */
    const char *text;
} loam_event;

/* Returning false ends the run after the current step: the state is saved, and the adapter, and
 * the call returns LOAM_E_CANCELLED with a message that says how to go on. */
typedef bool (*loam_event_fn)(void *user, const loam_event *event);

typedef struct loam_train_result {
    int64_t n_steps;
    int64_t n_skipped; /* steps whose gradient was not finite */
    double first_loss, last_loss;
    double first_valid_loss, best_valid_loss; /* NAN without validation */
    int64_t best_step;
    int64_t n_tokens;   /* of this call, as seconds; not those before a resume */
    double seconds;     /* of this call */
    bool stopped_early; /* by patience */
} loam_train_result;

/* Trains an adapter and writes it to o->output (whole or not at all): the one with the best
 * validation loss, or the last one without validation. `on_event` and `out` may be NULL. The graph
 * is checked before data is read; the data before anything is trained; the output's folder before
 * the first step; memory that does not do is LOAM_E_MEMORY after LOAM_EVENT_START.
 *
 * Beside the output stands the run's state ("adapter-state.gguf" of "adapter.gguf"): factors,
 * moments, schedule, place in the data, best loss, options and hashes. It is replaced as a whole
 * at the start, at every validation and checkpoint, and at the end, so that a run that was killed
 * at any moment goes on with o->resume as if it had not been: on the CPU bit by bit. A checkpoint
 * is an adapter and its state, "-stepN" in their names. LOAM_E_DIVERGED: gradients were not finite
 * 5 steps in a row, or the smoothed loss stayed above 3 times its first value, or 2
 * nats above it, for 20 steps. */
LOAM_API loam_status loam_train(loam_model *m, const loam_train_options *o, loam_event_fn on_event,
                                void *user, loam_train_result *out, loam_error *e);

/* The same checks and the same plan as loam_train, without a step; with `timed` one batch is run
 * to estimate the time. A run that does not fit is a result, not an error. */
LOAM_API loam_status loam_forecast_make(loam_model *m, const loam_train_options *o, bool timed,
                                        loam_forecast *out, loam_error *e);

/* ---- evaluation --------------------------------------------------------------------------- */

typedef struct loam_eval_result {
    double loss;       /* mean negative log-likelihood of the trained tokens, in nats */
    double perplexity; /* exp(loss) */
    loam_data_summary data;
    double seconds;
    double tokens_per_s;
} loam_eval_result;

/* The loss of a model, or of a model with an adapter (or NULL), on a data file. */
LOAM_API loam_status loam_eval(loam_model *m, loam_adapter *a, const char *data,
                               const loam_data_options *o, loam_eval_result *out, loam_error *e);

/* Tokenizes a text (special tokens parsed, BOS as the model says) and gives the log-probability of
 * each token after the first. Arrays are the caller's to free with loam_release. */
LOAM_API loam_status loam_score(loam_model *m, loam_adapter *a, const char *text, size_t text_bytes,
                                int32_t **tokens, float **logprobs, int64_t *n_tokens,
                                loam_error *e);
LOAM_API void loam_release(void *p);

/* ---- generation --------------------------------------------------------------------------- */

typedef struct loam_generate_options {
    const char *prompt; /* required */
    const char *system; /* a system turn, or NULL */
    bool raw;           /* the prompt as it is, without the model's chat template */
    int64_t max_tokens; /* 0: until the model ends or the context is full */
    int64_t n_ctx;      /* 0: the model's own */
    float temperature;  /* 0: greedy */
    int32_t top_k;      /* 0: off */
    float top_p;        /* 1: off */
    float min_p;        /* 0: off */
    uint64_t seed;
} loam_generate_options;
LOAM_API void loam_generate_options_default(loam_generate_options *o);

typedef struct loam_generate_result {
    int64_t n_prompt, n_generated; /* tokens */
    double prompt_ms, generate_ms;
    bool ended; /* the model ended its turn */
} loam_generate_result;

/* Generates text; `on_text` gets it in pieces of whole UTF-8 characters as they come (returning
 * false stops, with LOAM_OK). `out` may be NULL. */
LOAM_API loam_status loam_generate(loam_model *m, loam_adapter *a, const loam_generate_options *o,
                                   bool (*on_text)(void *user, const char *text, size_t n_bytes),
                                   void *user, loam_generate_result *out, loam_error *e);

/* ---- files -------------------------------------------------------------------------------- */

/* What a GGUF file holds, without opening it as a model. */
typedef struct loam_file loam_file;
LOAM_API loam_status loam_file_open(const char *path, loam_file **out, loam_error *e);
LOAM_API void loam_file_close(loam_file *f); /* NULL is fine */

typedef struct loam_file_info {
    uint32_t version;
    int n_files; /* more than one: a split model */
    int64_t n_keys, n_tensors;
    int64_t n_elements; /* of all tensors */
    int64_t data_bytes;
    size_t alignment_bytes;
} loam_file_info;
LOAM_API void loam_file_info_get(const loam_file *f, loam_file_info *out);

typedef struct loam_file_key {
    const char *name;  /* valid until the next call on this file */
    const char *type;  /* "u32", "str", "arr[f32]" */
    uint64_t n;        /* elements */
    const char *value; /* as text: strings escaped, long arrays and strings shortened */
} loam_file_key;
/* Entry i (0 .. n_keys - 1); `value_bytes` bounds the length of the text of the value. */
LOAM_API loam_status loam_file_key_at(loam_file *f, int64_t i, size_t value_bytes,
                                      loam_file_key *out, loam_error *e);

typedef struct loam_file_tensor {
    const char *name; /* lives as long as the file */
    const char *type; /* "q4_K" */
    int n_dims;
    int64_t ne[4];
    int64_t bytes;
    int64_t offset_bytes;
    int shard;
} loam_file_tensor;
LOAM_API void loam_file_tensor_at(const loam_file *f, int64_t i, loam_file_tensor *out);

/* ---- speed -------------------------------------------------------------------------------- */

typedef struct loam_bench_options {
    int64_t seq_length;  /* tokens of the one sequence that is trained on; 0: 256 */
    int64_t rank;        /* 0: 16 */
    const char *targets; /* NULL: all block linears */
    bool grad_checkpoint;
    double seconds; /* time for each of the two measurements; 0: 5 */
} loam_bench_options;

#define LOAM_BENCH_OPS 16

typedef struct loam_bench_result {
    double prefill_tokens_per_s, train_tokens_per_s;         /* by the clock */
    double prefill_tokens_per_cpu_s, train_tokens_per_cpu_s; /* by this process's CPU time */
    double train_over_prefill;
    double first_loss;
    double product_flops;        /* of the matrix products of one training step */
    double product_ms;           /* time of those */
    int64_t plan_bytes;          /* adapter, optimizer, activations and scratch; not the weights */
    int64_t peak_resident_bytes; /* of this process, mapped weights included */
    int n_ops;                   /* the ops that a training step spends most time in, most first */
    struct {
        const char *name;
        double ms;
    } ops[LOAM_BENCH_OPS];
} loam_bench_result;

/* Measures prefill (forward, logits of the last token) and training steps on random tokens. */
LOAM_API loam_status loam_bench(loam_model *m, const loam_bench_options *o, loam_bench_result *out,
                                loam_error *e);

/* ---- parity ------------------------------------------------------------------------------- */

typedef enum loam_outcome { LOAM_PASSED, LOAM_FAILED, LOAM_REFUSED } loam_outcome;

typedef struct loam_parity_case {
    const char *op;    /* ggml's name */
    const char *type;  /* of the first operand */
    const char *label; /* types, shapes, layout */
    loam_outcome outcome;
    double nmse, bar;
    double time_ms;      /* with perf: the median of repeated runs */
    double flops, bytes; /* of one run: operations, and bytes that must move */
    int64_t n_grad;      /* gradient elements checked by central differences */
    double grad_nmse;
    const char *reason; /* of a refusal or a failure */
} loam_parity_case;

typedef struct loam_parity_options {
    const char *device; /* NULL: "cpu" */
    int n_threads;
    const char *op;   /* NULL: all */
    const char *type; /* NULL: all */
    bool grad;        /* check backward rules too */
    bool perf;        /* time every case */
    bool skip_slow;
    uint64_t seed;
} loam_parity_options;

/* Checks a device's operations against the double-precision reference, case by case; `on_case`
 * returning false ends it with LOAM_E_CANCELLED. A failed case is a result, not an error. */
LOAM_API loam_status loam_parity(const loam_parity_options *o,
                                 bool (*on_case)(void *user, const loam_parity_case *c), void *user,
                                 loam_error *e);

#ifdef __cplusplus
}
#endif

#endif /* LOAM_H */
