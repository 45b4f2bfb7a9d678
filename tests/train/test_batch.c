/* The order of a set and the arrays of its batches. */
#include "dataset_support.h"

/* A set of examples with the given lengths: token values say example and place. */
static loam_dataset *made(const int64_t *lengths, int64_t n, uint64_t seed)
{
    loam_rng rng = loam_rng_stream(seed, "made");
    loam_dataset *d = loam_alloc(sizeof *d);
    assert_non_null(d);
    for (int64_t i = 0; i < n; i++)
        d->n_tokens += lengths[i];
    d->tokens = loam_alloc((size_t)d->n_tokens * sizeof *d->tokens);
    d->trained = loam_alloc((size_t)d->n_tokens);
    d->examples = loam_alloc((size_t)n * sizeof *d->examples);
    d->files = loam_alloc(sizeof *d->files);
    assert_true(d->tokens && d->trained && d->examples && d->files);
    d->files[0] = loam_strdup("made");
    d->n_files = 1;
    d->n_examples = n;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        d->examples[i] = (loam_example){.first = at, .n_tokens = lengths[i], .line = i + 1};
        for (int64_t k = 0; k < lengths[i]; k++, at++) {
            d->tokens[at] = (int32_t)(i * 1000 + k);
            d->trained[at] = k > 0 && (k == 1 || loam_rng_below(&rng, 2));
            d->examples[i].n_trained += d->trained[at];
        }
        d->n_trained += d->examples[i].n_trained;
    }
    d->summary =
        (loam_data_summary){.n_examples = n, .n_tokens = d->n_tokens, .n_trained = d->n_trained};
    return d;
}

static loam_dataset *random_set(int64_t n, int64_t longest, uint64_t seed)
{
    loam_rng rng = loam_rng_stream(seed, "lengths");
    int64_t *lengths = loam_alloc((size_t)n * sizeof *lengths);
    for (int64_t i = 0; i < n; i++)
        lengths[i] = 2 + (int64_t)loam_rng_below(&rng, (uint64_t)longest - 1);
    loam_dataset *d = made(lengths, n, seed);
    loam_free(lengths);
    return d;
}

static loam_batches *batches(const loam_dataset *d, int64_t max, int64_t rows, bool shuffle)
{
    loam_error e = {0};
    loam_batches *b = NULL;
    if (loam_batches_create(d, max, rows, shuffle, 11, &b, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    return b;
}

/* The example that a token of `made` belongs to. */
static int64_t example_of(int32_t token)
{
    return token / 1000;
}

/* Walks one batch: arrays against the set, token by token. Marks the examples seen. */
static void check_batch(const loam_dataset *d, const loam_batch *b, int64_t max, int64_t rows,
                        int *seen)
{
    int64_t at = 0, n_trained = 0, n_examples = 0;
    assert_int_equal(b->n_tokens % 32, 0);
    assert_in_range(b->n_tokens, 32, (rows * max + 31) / 32 * 32);
    while (at < b->n_tokens && b->ranges[2 * at + 1] == at + 1 &&
           (at + 1 < b->n_tokens && b->ranges[2 * at + 2] == at)) {
        const loam_example *x = &d->examples[example_of(b->tokens[at])];
        seen[example_of(b->tokens[at])]++;
        n_examples++;
        for (int64_t k = 0; k < x->n_tokens; k++) {
            int64_t t = at + k;
            bool labelled = k + 1 < x->n_tokens && d->trained[x->first + k + 1];
            assert_int_equal(b->tokens[t], d->tokens[x->first + k]);
            assert_int_equal(b->labels[t], labelled ? d->tokens[x->first + k + 1] : -1);
            assert_int_equal(b->positions[t], k);
            assert_int_equal(b->ranges[2 * t], at);
            assert_int_equal(b->ranges[2 * t + 1], t + 1);
            n_trained += labelled;
        }
        at += x->n_tokens;
    }
    assert_true(b->n_tokens - at < 32);
    for (; at < b->n_tokens; at++) {
        assert_int_equal(b->labels[at], -1);
        assert_int_equal(b->ranges[2 * at], at);
        assert_int_equal(b->ranges[2 * at + 1], at + 1);
        assert_int_equal(b->positions[at], 0);
    }
    assert_int_equal(b->n_trained, n_trained);
    assert_int_equal(b->n_examples, n_examples);
}

/* Every example exactly once in every epoch, each token with the right arrays beside it. */
static void test_every_example_once(void **state)
{
    (void)state;
    static const struct {
        int64_t n, longest, max, rows;
        bool shuffle;
    } cases[] = {{1, 2, 2, 1, true},      {1, 30, 64, 4, true},    {100, 40, 64, 4, true},
                 {100, 40, 40, 3, true},  {257, 20, 500, 2, true}, {64, 64, 64, 8, false},
                 {300, 9, 4096, 1, true}, {500, 70, 8200, 2, true}};
    for (int i = 0; i < LOAM_COUNT(cases); i++) {
        loam_dataset *d = random_set(cases[i].n, cases[i].longest, (uint64_t)i);
        loam_batches *b = batches(d, cases[i].max, cases[i].rows, cases[i].shuffle);
        loam_cursor cursor = {0};
        int64_t longest = 0, n_epochs = 3;
        for (int64_t epoch = 0; epoch < n_epochs; epoch++) {
            int *seen = loam_alloc((size_t)cases[i].n * sizeof *seen);
            int64_t n_trained = 0, n = loam_batches_per_epoch(b, epoch);
            for (int64_t k = 0; k < n; k++) {
                loam_batch batch;
                assert_int_equal(cursor.epoch, epoch);
                assert_int_equal(cursor.batch, k);
                assert_int_equal(loam_batches_next(b, &cursor, &batch, NULL), LOAM_OK);
                check_batch(d, &batch, cases[i].max, cases[i].rows, seen);
                n_trained += batch.n_trained;
                longest = LOAM_MAX(longest, batch.n_tokens);
            }
            for (int64_t x = 0; x < cases[i].n; x++)
                assert_int_equal(seen[x], 1);
            assert_int_equal(n_trained, d->n_trained);
            loam_free(seen);
        }
        assert_int_equal(loam_batches_longest(b, n_epochs), longest);
        loam_batches_free(b);
        loam_dataset_free(d);
    }
}

/* Against a packing written here the plain way: each example, in the permuted order as it shows in
 * one-row batches, to the fullest row that holds it. The number of rows must agree, and no row may
 * hold more than its length. */
static void test_best_fit(void **state)
{
    (void)state;
    enum { N = 200, MAX = 100 };
    loam_dataset *d = random_set(N, 60, 5);
    loam_batches *b = batches(d, MAX, 1, false);
    int64_t room[N], n_rows = 0, row_of[N];
    for (int64_t i = 0; i < N; i++) {
        int64_t need = d->examples[i].n_tokens, least = MAX + 1;
        for (int64_t r = 0; r < n_rows; r++) {
            if (room[r] >= need)
                least = LOAM_MIN(least, room[r]);
        }
        if (least > MAX) {
            room[n_rows] = MAX - need;
            row_of[i] = n_rows++;
            continue;
        }
        int64_t r = 0;
        while (room[r] != least)
            r++;
        row_of[i] = r;
        room[r] -= need;
    }
    assert_int_equal(loam_batches_per_epoch(b, 0), n_rows);
    /* The first rows have no ties yet: they agree example by example. */
    loam_cursor cursor = {0};
    loam_batch batch;
    assert_int_equal(loam_batches_next(b, &cursor, &batch, NULL), LOAM_OK);
    assert_int_equal(example_of(batch.tokens[0]), 0);
    assert_int_equal(row_of[0], 0);
    int64_t used = 0;
    for (int64_t i = 0; i < N; i++)
        used += d->examples[i].n_tokens;
    assert_true(n_rows * MAX < used * 12 / 10); /* a fifth of empty room at most */
    loam_batches_free(b);
    loam_dataset_free(d);
}

static uint64_t batch_hash(const loam_batch *b)
{
    size_t n = (size_t)b->n_tokens * sizeof(int32_t);
    uint64_t h = loam_hash(b->tokens, n, 1);
    h = loam_hash(b->labels, n, h);
    h = loam_hash(b->positions, n, h);
    return loam_hash(b->ranges, 2 * n, h);
}

/* The order is the seed's alone: the same again from a new start, from a kept cursor, and after
 * other epochs have been asked about; another one in the next epoch. */
static void test_order_is_the_seeds(void **state)
{
    (void)state;
    enum { N_KEPT = 40 };
    loam_dataset *d = random_set(120, 40, 9);
    loam_batches *b = batches(d, 64, 4, true), *again = batches(d, 64, 4, true);
    loam_cursor cursor = {0}, kept[N_KEPT];
    uint64_t hashes[N_KEPT];
    loam_batch batch;
    for (int i = 0; i < N_KEPT; i++) {
        kept[i] = cursor;
        assert_int_equal(loam_batches_next(b, &cursor, &batch, NULL), LOAM_OK);
        hashes[i] = batch_hash(&batch);
    }
    assert_true(cursor.epoch > 1);
    for (int i = N_KEPT - 1; i >= 0; i -= 3) {
        loam_cursor older = kept[i];
        assert_int_equal(loam_batches_next(b, &older, &batch, NULL), LOAM_OK);
        assert_int_equal(batch_hash(&batch), hashes[i]);
        loam_batches_per_epoch(again, 7);
        loam_batches_longest(again, 2);
        older = kept[i];
        assert_int_equal(loam_batches_next(again, &older, &batch, NULL), LOAM_OK);
        assert_int_equal(batch_hash(&batch), hashes[i]);
    }
    int first = 0; /* of epoch 1 */
    while (kept[first].epoch == 0)
        first++;
    assert_true(hashes[first] != hashes[0]);
    loam_batches_free(again);
    assert_int_equal(loam_batches_create(d, 64, 4, true, 12, &again, NULL), LOAM_OK);
    cursor = (loam_cursor){0};
    assert_int_equal(loam_batches_next(again, &cursor, &batch, NULL), LOAM_OK);
    assert_true(batch_hash(&batch) != hashes[0]);
    loam_batches_free(again);
    loam_batches_free(b);
    loam_dataset_free(d);
}

/* Without shuffling, examples that fill a row each come in the order of the file. */
static void test_unshuffled(void **state)
{
    (void)state;
    static const int64_t lengths[] = {16, 15, 16, 15, 16};
    loam_dataset *d = made(lengths, 5, 1);
    loam_batches *b = batches(d, 16, 2, false);
    loam_cursor cursor = {.epoch = 3};
    loam_batch batch;
    assert_int_equal(loam_batches_per_epoch(b, 3), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(loam_batches_next(b, &cursor, &batch, NULL), LOAM_OK);
        assert_int_equal(example_of(batch.tokens[0]), 2 * i);
        assert_int_equal(batch.n_examples, i < 2 ? 2 : 1);
    }
    assert_int_equal(cursor.epoch, 4);
    assert_int_equal(cursor.batch, 0);
    loam_batches_free(b);
    loam_dataset_free(d);
}

static void test_refusals(void **state)
{
    (void)state;
    static const int64_t lengths[] = {10, 20};
    loam_dataset *d = made(lengths, 2, 1);
    loam_batches *b = NULL;
    loam_error e = {0};
    assert_int_equal(loam_batches_create(d, 19, 1, true, 1, &b, &e), LOAM_E_USAGE);
    assert_non_null(strstr(e.message, "made:2: the example has 20 tokens, but a row holds 19"));
    assert_null(b);
    assert_int_equal(loam_batches_create(d, 20, 0, true, 1, &b, &(loam_error){0}), LOAM_E_USAGE);
    assert_int_equal(loam_batches_create(d, 0, 1, true, 1, &b, &(loam_error){0}), LOAM_E_USAGE);
    b = batches(d, 20, 1, true);
    loam_batch batch;
    loam_cursor bad[] = {{0, 2}, {0, -1}, {-1, 0}};
    for (int i = 0; i < LOAM_COUNT(bad); i++)
        assert_int_equal(loam_batches_next(b, &bad[i], &batch, NULL), LOAM_E_USAGE);
    loam_batches_free(b);
    loam_dataset_free(d);
}

/* Copies of an example, which share its tokens, are examples. */
static void test_copies(void **state)
{
    (void)state;
    static const int64_t lengths[] = {10, 12};
    loam_dataset *d = made(lengths, 2, 1), *without = made(lengths, 2, 1);
    loam_example copies[] = {d->examples[0], d->examples[0], d->examples[1]};
    loam_free(d->examples);
    d->examples = loam_alloc(sizeof copies);
    memcpy(d->examples, copies, sizeof copies);
    d->n_examples = 3;
    d->summary.n_tokens = 32;
    loam_batches *b = batches(d, 64, 1, true);
    loam_cursor cursor = {0};
    loam_batch batch;
    int seen[2] = {0};
    assert_int_equal(loam_batches_next(b, &cursor, &batch, NULL), LOAM_OK);
    check_batch(without, &batch, 64, 1, seen);
    assert_int_equal(batch.n_examples, 3);
    assert_int_equal(seen[0], 2);
    assert_int_equal(seen[1], 1);
    loam_batches_free(b);
    loam_dataset_free(without);
    loam_dataset_free(d);
}

static void test_memory(void **state)
{
    (void)state;
    loam_dataset *d = random_set(20, 40, 2);
    for (int64_t n = 0;; n++) {
        loam_batches *b = NULL;
        loam_batch batch;
        loam_cursor cursor = {0};
        loam_alloc_fail_after(n);
        loam_status status = loam_batches_create(d, 64, 2, true, 1, &b, NULL);
        if (status == LOAM_OK)
            status = loam_batches_next(b, &cursor, &batch, NULL);
        loam_alloc_fail_after(-1);
        if (status == LOAM_OK) {
            loam_batches_free(b);
            assert_true(n > 10);
            break;
        }
        assert_int_equal(status, LOAM_E_MEMORY);
        if (b) { /* the arrays failed: the next try gives them */
            assert_int_equal(cursor.batch, 0);
            assert_int_equal(loam_batches_next(b, &cursor, &batch, NULL), LOAM_OK);
        }
        loam_batches_free(b);
    }
    loam_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_example_once),
        cmocka_unit_test(test_best_fit),
        cmocka_unit_test(test_order_is_the_seeds),
        cmocka_unit_test(test_unshuffled),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
