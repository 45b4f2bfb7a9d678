/* sanity.c: gradients that are not finite, losses that run away. */
#include "train/run.h"

#include <math.h>

/* So many steps in a row without a finite gradient end the run. */
#define MAX_SKIPPED_IN_A_ROW 5

/* The smoothed loss is compared with the mean of the first few steps': 3 times as high, or 2 nats
 * above it (guessing costs only log n_vocab, which may be less than 3 times a high first loss), for
 * many steps in a row is no bad batch any more. */
#define N_FIRST 5
#define SMOOTHING 0.9
#define HIGH_FACTOR 3.0
#define HIGH_NATS 2.0
#define MAX_HIGH_IN_A_ROW 20

bool loam_run_is_running_away(const loam_run *r)
{
    return r->n_high > 0;
}

/* The step changed nothing: the factors are those of the last good one. */
static loam_status check_gradient(loam_run *r)
{
    char text[160];
    if (isfinite(r->event.grad_norm)) {
        r->skipped_in_a_row = 0;
        return LOAM_OK;
    }
    r->result.n_skipped++;
    r->skipped_in_a_row++;
    snprintf(text, sizeof text,
             "step %lld: the gradient is not finite (loss %g); the step is skipped, %lld so far",
             (long long)r->event.step, r->event.loss, (long long)r->result.n_skipped);
    loam_run_send(r, LOAM_EVENT_WARNING, text);
    if (r->skipped_in_a_row < MAX_SKIPPED_IN_A_ROW)
        return LOAM_OK;
    if (!isfinite(r->result.best_valid_loss))
        LOAM_TRY(loam_run_save_adapter(r, r->o->output));
    return loam_fail(r->e, LOAM_E_DIVERGED,
                     "%d steps in a row had no finite gradient, up to step %lld; the last good "
                     "adapter is kept in '%s': lower --learning-rate, or look at the data",
                     MAX_SKIPPED_IN_A_ROW, (long long)r->event.step, r->o->output);
}

static loam_status check_loss(loam_run *r)
{
    double loss = r->event.loss;
    if (!isfinite(loss))
        return LOAM_OK; /* its gradient was not finite either */
    r->smoothed_loss =
        r->n_first > 0 ? SMOOTHING * r->smoothed_loss + (1 - SMOOTHING) * loss : loss;
    if (r->n_first < N_FIRST) {
        r->first_losses += loss;
        r->n_first++;
        return LOAM_OK;
    }
    double first = r->first_losses / (double)r->n_first;
    /* A run that begins on easy examples, or from a fitted adapter, may rise by a nat and be well.
     */
    double limit = LOAM_MAX(LOAM_MIN(HIGH_FACTOR * first, first + HIGH_NATS), first + 1);
    r->n_high = r->smoothed_loss > limit ? r->n_high + 1 : 0;
    if (r->n_high < MAX_HIGH_IN_A_ROW)
        return LOAM_OK;
    bool has_best = isfinite(r->result.best_valid_loss);
    return loam_fail(r->e, LOAM_E_DIVERGED,
                     "the loss was above %.4f for %d steps (%.4f at step %lld, %.4f at first): the "
                     "run diverged; %s%s%sgo on from the state of step %lld with a lower "
                     "--learning-rate, --override and --resume '%s'",
                     limit, MAX_HIGH_IN_A_ROW, r->smoothed_loss, (long long)r->event.step, first,
                     has_best ? "the best adapter is kept in '" : "", has_best ? r->o->output : "",
                     has_best ? "'; " : "", (long long)r->saved_step, r->state_path);
}

loam_status loam_run_check_step(loam_run *r)
{
    LOAM_TRY(check_gradient(r));
    return check_loss(r);
}
