/* Losses do not depend on how examples are laid together. */
#include "dataset_support.h"

#include <math.h>

static double loss_of(const loam_dataset *d, int64_t max_seq_length, int64_t batch_size,
                      bool shuffle, int64_t *n_batches, int64_t *n_trained)
{
    loam_error e = {0};
    loam_batches *b = NULL;
    loam_stepper *s = NULL;
    loam_cursor cursor = {0};
    double sum = 0;
    if (loam_batches_create(d, max_seq_length, batch_size, shuffle, 3, &b, &e) != LOAM_OK ||
        loam_stepper_create(test_model, NULL, &(loam_stepper_options){0}, &s, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    *n_batches = loam_batches_per_epoch(b, 0);
    *n_trained = 0;
    for (int64_t i = 0; i < *n_batches; i++) {
        loam_batch batch;
        double here = 0;
        if (loam_batches_next(b, &cursor, &batch, &e) != LOAM_OK ||
            loam_stepper_loss(s, &batch, &here, &e) != LOAM_OK)
            fail_msg("%s", e.message);
        sum += here;
        *n_trained += batch.n_trained;
    }
    loam_stepper_free(s);
    loam_batches_free(b);
    return sum;
}

static loam_dataset *small_set(void)
{
    return load_text("a.jsonl",
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"What is two plus two?\"}"
                     ", {\"role\": \"assistant\", \"content\": \"Four.\"}]}\n"
                     "{\"prompt\": \"Name a colour\", \"completion\": \"Blue, or green, or red.\"}"
                     "\n{\"text\": \"It was the best of times, it was the worst of times.\"}\n"
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": "
                     "\"assistant\", \"content\": \"Hello there, how are you?\"}, {\"role\": "
                     "\"user\", \"content\": \"Fine\"}, {\"role\": \"assistant\", \"content\": "
                     "\"Good to hear.\"}]}\n"
                     "{\"instruction\": \"Spell\", \"input\": \"cat\", \"output\": \"c a t\"}\n",
                     NULL);
}

/* Each example alone; several in a row; several rows in a batch: the same sum of losses, and the
 * mean over all trained tokens is the same however batches are cut. */
static void test_packed_equals_unpacked(void **state)
{
    (void)state;
    loam_dataset *d = small_set();
    int64_t n_batches, n_trained, n_here;
    double alone = 0;
    int64_t n_alone = 0;
    for (int64_t i = 0; i < d->n_examples; i++) {
        loam_dataset one = *d;
        one.examples = d->examples + i;
        one.n_examples = 1;
        alone += loss_of(&one, 2048, 1, false, &n_batches, &n_here);
        n_alone += n_here;
        assert_int_equal(n_batches, 1);
    }
    assert_int_equal(n_alone, d->n_trained);
    assert_true(alone / (double)n_alone > 0.5);
    static const struct {
        int64_t max, rows, n_batches;
        bool shuffle;
    } cases[] = {{2048, 1, 1, true}, {100, 1, 0, true}, {100, 2, 0, false}, {60, 3, 0, true}};
    for (int i = 0; i < LOAM_COUNT(cases); i++) {
        double packed =
            loss_of(d, cases[i].max, cases[i].rows, cases[i].shuffle, &n_batches, &n_trained);
        assert_int_equal(n_trained, n_alone);
        if (cases[i].n_batches)
            assert_int_equal(n_batches, cases[i].n_batches);
        if (!(fabs(packed - alone) <= 1e-5 * alone))
            fail_msg("rows of %lld tokens, %lld to a batch: a loss of %.9g, alone %.9g",
                     (long long)cases[i].max, (long long)cases[i].rows, packed, alone);
    }
    loam_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_packed_equals_unpacked)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
