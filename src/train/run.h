/* run.h: a training run, and what its parts do for each other; private to src/train.
 *
 *   trainer.c     options, preparation, the loop
 *   checkpoint.c  adapters and states on disk, and going on from them
 *   sanity.c      gradients that are not finite, losses that run away
 *   forecast.c    what a run will need
 *   metrics.c     one JSON object per step and validation */
#ifndef LOAM_TRAIN_RUN_H
#define LOAM_TRAIN_RUN_H

#include "train/train.h"

/* Checkpoints that a run remembers, to remove the oldest; more than that are all kept. */
#define LOAM_CHECKPOINTS_MAX 1024

typedef struct loam_run {
    loam_base *m;
    const loam_train_options *o;
    loam_event_fn on_event;
    void *user;
    loam_error *e;
    bool is_forecast; /* nothing is trained or written */

    loam_lora *lora;
    loam_stepper *stepper;
    loam_dataset *data, *valid;
    loam_batches *batches, *valid_batches;
    int64_t max_seq_length;
    uint64_t base_hash;
    loam_forecast forecast;
    char *state_path; /* beside the output */
    char *lock_path;
    int lock_fd;
    bool is_locked;
    FILE *metrics;

    int64_t n_steps, n_warmup;
    int64_t first_step; /* of this call: more than 0 after a resume */
    int64_t saved_step; /* of the state on disk; -1: none yet */
    double started_ms;
    bool stop; /* a callback asked for it */

    /* What a state holds, beside the factors and the moments. */
    loam_event event; /* what every event carries; its step, tokens and losses go into the state */
    loam_train_result result;
    loam_cursor cursor;
    int64_t n_updates;  /* of the optimizer: steps that were not skipped */
    int64_t valid_step; /* of the last validation */
    int64_t n_stale;    /* validations since the best */
    int64_t skipped_in_a_row;
    double first_losses; /* sum of the first few steps' losses */
    int64_t n_first;
    double smoothed_loss;
    int64_t n_high;        /* steps in a row with a smoothed loss far above the first */
    int64_t n_checkpoints; /* step numbers of the checkpoints that were not removed */
    int64_t checkpoints[LOAM_CHECKPOINTS_MAX];
} loam_run;

/* trainer.c */
void loam_run_send(loam_run *r, loam_event_kind kind, const char *text);
/* Everything before the first step: options, output, adapter, data, plan, state. */
loam_status loam_run_prepare(loam_run *r);
void loam_run_release(loam_run *r);

/* checkpoint.c */

/* "adapter.gguf" with "-state" or "-step100" before its ending; loam_free() it. NULL where memory
 * ran out. */
char *loam_run_path_beside(const char *path, const char *suffix);
/* Writes the adapter as it is now. */
loam_status loam_run_save_adapter(loam_run *r, const char *path);
/* Replaces the state beside the output; the rename is the moment from which a killed run goes on.
 * Does nothing while the loss is running away, so that the state before that stays. */
loam_status loam_run_save_state(loam_run *r);
/* Writes a checkpoint's adapter and state, and removes those beyond o->keep. */
loam_status loam_run_save_checkpoint(loam_run *r);
/* Reads o->resume into a prepared run. LOAM_E_USAGE names an option or file that differs. */
loam_status loam_run_resume(loam_run *r);

/* sanity.c */

/* After a step: counts and names what is not finite. LOAM_E_DIVERGED ends the run. */
loam_status loam_run_check_step(loam_run *r);
bool loam_run_is_running_away(const loam_run *r);

/* forecast.c */

/* Fills r->forecast. */
loam_status loam_run_forecast(loam_run *r);

/* outputs.c */
/* Names the files that the run writes, sees that they can be written and that the model is none of
 * them, and locks them against other runs. */
loam_status loam_run_claim_outputs(loam_run *r);
/* Refuses data files that the run would write over. */
loam_status loam_run_protect_data(const loam_run *r);
void loam_run_release_outputs(loam_run *r);

/* metrics.c */

/* Opens o->metrics; of a file that is there a resumed run keeps the steps that it has. */
loam_status loam_run_metrics_open(loam_run *r);
/* `event`: "step" or "valid", of r->event. A file that takes no more is a warning. */
loam_status loam_run_metrics_write(loam_run *r, const char *event);

#endif /* LOAM_TRAIN_RUN_H */
