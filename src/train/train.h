/* train.h: data sets, batches, the schedule, the training loop, evaluation. */
#ifndef LOAM_TRAIN_H
#define LOAM_TRAIN_H

#include "core/core.h"
#include "graph/graph.h"
#include "model/model.h"
#include "text/text.h"

/* ---- data sets (dataset.c and the format files it calls) ----------------------------------- */

/* One example: a run of tokens, of which some are trained on: trained[i] says whether the loss of
 * predicting token i from those before it counts (never true for the first). */
typedef struct loam_example {
    int64_t first; /* in the set's token arrays */
    int64_t n_tokens;
    int64_t n_trained;
    int32_t file; /* index in the set's files */
    int64_t line; /* 1-based; of a plain text, the line where the window begins */
} loam_example;

/* A file's weight above 1 repeats examples: such copies stand next to each other and share their
 * tokens (the same `first`). */
typedef struct loam_dataset {
    int32_t *tokens;
    uint8_t *trained;
    int64_t n_tokens; /* of the arrays */
    loam_example *examples;
    int64_t n_examples;
    int64_t n_trained;
    char **files; /* as messages name them */
    int n_files;
    uint64_t hash; /* of tokens, masks and boundaries: what the set is, for resume and provenance */
    loam_data_summary summary; /* n_overlong: examples longer than max_seq_length, whatever
                                * became of them; n_truncated, n_split and the rest, dropped */
} loam_dataset;

/* Reads data for a model.
 *
 * `path` names a file; a directory (its train.jsonl is read); several of these with commas between
 * them, each with a weight where wanted ("a.jsonl@2,b.jsonl@0.5": every example of a twice an
 * epoch, a fixed half of b's); or "-", standard input. Pipes are read too.
 *
 * Files that end in .jsonl, .ndjson or .json, or whose text begins as a JSON object with a key or
 * an array of such, hold records, one on each line or in one array; all others are plain text.
 * options.format forces: "messages", "conversations", "instruction", "completion", "text" (all
 * JSON) or "plain". A record is told by its keys:
 *
 *   {"messages": [{"role", "content"}, ...]}   roles system, developer, user, assistant, tool; with
 *       "tools", and in a message "tool_calls" (arguments an object or its JSON text) and
 *       "reasoning_content"
 *   {"conversations": [{"from", "value"}, ...]}   from human or user, gpt or assistant, system,
 * tool
 *   {"instruction", "input", "output"}   a user turn "instruction\ninput" and its answer
 *   {"prompt", "completion"}             a user turn and its answer
 *   {"text"}                             BOS as the model says, the text, EOS
 *
 * Chats go through the model's own template (ChatML where it has none but the tokens of ChatML);
 * instructions and completions do where the model has a template, else their texts are joined as
 * they are ("\n" before an "output") and end with EOS. Trained are, by options.train_on: every
 * assistant turn with its end-of-turn token; the last one; everything after the first prompt;
 * all. A token is trained if its first byte lies in what is trained. Where a template rewrites
 * earlier turns, every assistant turn becomes an example of its own: the conversation up to it,
 * with this turn trained. A turn that ends in no special token gets the EOS. {"text"} and plain
 * texts are trained whole. Plain text is cut into windows of max_seq_length tokens; see
 * LOAM_OVERLONG_SPLIT too: pieces after the first begin with BOS, or for a model without one with
 * the last token of the piece before, untrained. Dates in templates are those of 26 July 2024, so
 * that a set is the same every day.
 *
 * Errors name file:line:column, what was found and what was expected; with options.skip_bad such
 * records are left out and counted. Bytes that are not UTF-8 in a JSON array or a plain text, and
 * broken syntax in an array, end the reading always. An empty set, or one in which nothing is
 * trained, is an error with the counts of what was left out. Preference pairs are
 * LOAM_E_UNSUPPORTED. */
loam_status loam_dataset_load(const loam_base *m, const char *path, const loam_data_options *o,
                              loam_dataset **out, loam_error *e);
void loam_dataset_free(loam_dataset *d); /* NULL is fine */

/* Appends to `out` the file that holds a part ("train", "valid" or "test") of what `path` names: in
 * a directory its <part>.jsonl, nothing where that does not exist. Any other path is its own
 * training part and has no further ones. */
loam_status loam_dataset_part(const char *path, const char *part, loam_string *out, loam_error *e);

/* Moves a seeded share of the examples into a second set (at least one, never all; a share is more
 * than 0 and less than 1). Both keep their order; copies of an example stay together. */
loam_status loam_dataset_split(loam_dataset *d, double share, uint64_t seed, loam_dataset **out,
                               loam_error *e);

/* Appends an example to `out` for people to read: a line with its number, file, line and counts,
 * then its text, special tokens spelt out, each run of trained tokens between U+27E6 and U+27E7
 * (white square brackets), and a newline. */
loam_status loam_dataset_show(const loam_dataset *d, const loam_base *m, int64_t example,
                              loam_string *out, loam_error *e);

/* ---- batches (batch.c) -------------------------------------------------------------------- */

/* Several packed rows laid end to end. Attention stays inside each example: token t sees the keys
 * [ranges[2t], ranges[2t + 1]), and positions restart with every example. labels[t] is the token
 * after t where that is in the same example and trained, else -1. */
typedef struct loam_batch {
    int64_t n_tokens; /* a multiple of 32: padding follows, labelled -1, each seeing only itself */
    int64_t n_trained;
    int64_t n_examples;
    int32_t *tokens, *labels, *positions, *ranges;
} loam_batch;

/* The order in which a set is seen: each epoch a seeded permutation, packed by best fit into rows
 * of at most max_seq_length tokens, batch_size rows to a batch. A position in it is two integers,
 * which go into checkpoints. */
typedef struct loam_batches loam_batches;
typedef struct loam_cursor {
    int64_t epoch;
    int64_t batch; /* within the epoch */
} loam_cursor;
loam_status loam_batches_create(const loam_dataset *d, int64_t max_seq_length, int64_t batch_size,
                                bool shuffle, uint64_t seed, loam_batches **out, loam_error *e);
void loam_batches_free(loam_batches *b); /* NULL is fine */
int64_t loam_batches_per_epoch(const loam_batches *b, int64_t epoch);
/* n_tokens of the largest batch of any of the first `n_epochs` epochs. */
int64_t loam_batches_longest(loam_batches *b, int64_t n_epochs);
/* Fills `out` with the batch at the cursor (owned by b, until the next call) and moves the cursor
 * on; past an epoch's last batch it goes to the next epoch's first. */
loam_status loam_batches_next(loam_batches *b, loam_cursor *cursor, loam_batch *out, loam_error *e);

/* ---- steps (step.c) ----------------------------------------------------------------------- */

/* Forward and backward of batches, gradients summed into the adapter's buffer; losses of batches
 * alone; the optimizer's step. Graphs are kept for the batch sizes met. */
typedef struct loam_stepper loam_stepper;

typedef struct loam_stepper_options {
    bool grad_checkpoint;
    float clip; /* largest gradient norm; 0: none */
    float beta1, beta2, eps, weight_decay;
    float b_ratio; /* learning rate of the B factors over that of the A; 0 or 1: one rate */
} loam_stepper_options;

/* `l` is trainable (or, for evaluation, NULL or any adapter). m and l must outlive the stepper. */
loam_status loam_stepper_create(loam_base *m, loam_lora *l, const loam_stepper_options *o,
                                loam_stepper **out, loam_error *e);
void loam_stepper_free(loam_stepper *s); /* NULL is fine */

/* Builds and plans the graph for batches of n_tokens (training, or evaluation) and returns its
 * plan, for its memory and splits. */
loam_status loam_stepper_plan(loam_stepper *s, int64_t n_tokens, bool train, const loam_plan **out,
                              loam_error *e);
/* Takes the memory that training on a batch of n_tokens needs. */
loam_status loam_stepper_reserve(loam_stepper *s, int64_t n_tokens, loam_error *e);
/* Adds the batch's gradients, each trained token weighted by `weight` (1 / the trained tokens of
 * the whole optimizer step), and gives the sum of its tokens' losses. */
loam_status loam_stepper_backward(loam_stepper *s, const loam_batch *b, float weight,
                                  double *loss_sum, loam_error *e);
/* As loam_stepper_backward, one node at a time: adds each op's time to ms[op], and the products'
 * operations to *flops. */
loam_status loam_stepper_profile(loam_stepper *s, const loam_batch *b, double ms[LOAM_OP_COUNT],
                                 double *flops, loam_error *e);
/* The sum of the losses alone. */
loam_status loam_stepper_loss(loam_stepper *s, const loam_batch *b, double *loss_sum,
                              loam_error *e);
/* Forgets the gradients summed so far. */
loam_status loam_stepper_clear(loam_stepper *s, loam_error *e);
/* One AdamW step with the gradients summed so far, which are then zeroed. *grad_norm is the norm
 * before clipping; where it is not finite nothing is changed but the gradients' zeroing. */
loam_status loam_stepper_update(loam_stepper *s, float learning_rate, float *grad_norm,
                                loam_error *e);

/* What a checkpoint holds beside the adapter: both moments (n_elements each) and the count of
 * steps taken. */
loam_status loam_stepper_read_moments(const loam_stepper *s, float *m, float *v, loam_error *e);
loam_status loam_stepper_write_moments(loam_stepper *s, const float *m, const float *v,
                                       int64_t n_steps, loam_error *e);
int64_t loam_stepper_n_steps(const loam_stepper *s);

/* Linear warm-up over n_warmup steps, then a cosine from lr to lr * final_share at n_steps.
 * `step` counts from 0. */
float loam_schedule_cosine(float lr, int64_t step, int64_t n_steps, int64_t n_warmup,
                           float final_share);

/* ---- runs (trainer.c and the files run.h names, evaluate.c)
 * --------------------------------------------------------- */

/* The mean loss of a set's trained tokens, with the stepper's adapter as it is now. */
loam_status loam_evaluate(loam_stepper *s, loam_batches *b, double *loss, loam_error *e);

/* loam_train of loam.h. */
loam_status loam_trainer_run(loam_base *m, const loam_train_options *o, loam_event_fn on_event,
                             void *user, loam_train_result *out, loam_error *e);
/* loam_forecast_make of loam.h. */
loam_status loam_trainer_forecast(loam_base *m, const loam_train_options *o, bool timed,
                                  loam_forecast *out, loam_error *e);

/* ---- speed (bench.c) ---------------------------------------------------------------------- */

/* loam_bench of loam.h. */
loam_status loam_bench_run(loam_base *m, const loam_bench_options *o, loam_bench_result *out,
                           loam_error *e);

#endif /* LOAM_TRAIN_H */
