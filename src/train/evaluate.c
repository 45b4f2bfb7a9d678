/* evaluate.c: the loss of a whole data set. */
#include "train/train.h"

loam_status loam_evaluate(loam_stepper *s, loam_batches *b, double *loss, loam_error *e)
{
    loam_cursor cursor = {0};
    double sum = 0;
    int64_t n_trained = 0;
    int64_t n_batches = loam_batches_per_epoch(b, 0);
    for (int64_t i = 0; i < n_batches; i++) {
        loam_batch batch;
        double batch_sum;
        LOAM_TRY(loam_batches_next(b, &cursor, &batch, e));
        LOAM_TRY(loam_stepper_loss(s, &batch, &batch_sum, e));
        sum += batch_sum;
        n_trained += batch.n_trained;
    }
    *loss = sum / (double)LOAM_MAX(n_trained, 1);
    return LOAM_OK;
}
