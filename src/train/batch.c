/* batch.c: the order in which a set is seen, and the batches' arrays.
 *
 * An epoch's plan is a seeded permutation of the examples, packed by best fit: each example goes to
 * the row with the least room that still holds it, else it opens a new row. Rows with equal room
 * are taken last opened or filled first. All memory of planning is taken when the batches are
 * made, so that counting the batches of an epoch cannot fail. */
#include "train/train.h"

#include <string.h>

/* A batch's length is a multiple of this. */
#define N_ROUND 32

/* Rows [first[i], first[i + 1]) of `order` are the examples of row i. */
typedef struct epoch_plan {
    int64_t epoch; /* -1: none yet */
    int64_t n_rows;
    int64_t *order; /* n_examples */
    int64_t *first; /* n_examples + 1 */
} epoch_plan;

/* Rows by the room left in them. `set` has a bit for each room that some row has, `summary` a bit
 * for each word of `set` that is not zero. */
typedef struct packer {
    int64_t *permutation; /* n_examples */
    int64_t *row_of;      /* by place in the permutation */
    int64_t *next;        /* by row: the next one with the same room, or -1 */
    int64_t *head;        /* by room, 0 .. n_room: the first row, or -1 */
    uint64_t *set, *summary;
    int64_t n_room, n_words, n_summary;
} packer;

struct loam_batches {
    const loam_dataset *d;
    int64_t max_seq_length, batch_size;
    bool shuffle;
    uint64_t seed;
    epoch_plan *current, *other; /* of the epoch being seen, and of one asked about */
    packer *pack;
    int32_t *arrays; /* tokens, labels, positions, ranges of the last batch */
    int64_t capacity;
};

/* ---- packing ------------------------------------------------------------------------------ */

static void room_add(packer *p, int64_t room, int64_t row)
{
    p->next[row] = p->head[room];
    p->head[room] = row;
    p->set[room / 64] |= 1ull << (room % 64);
    p->summary[room / 4096] |= 1ull << (room / 64 % 64);
}

static int64_t room_take(packer *p, int64_t room)
{
    int64_t row = p->head[room];
    p->head[room] = p->next[row];
    if (p->head[room] < 0) {
        p->set[room / 64] &= ~(1ull << (room % 64));
        if (!p->set[room / 64])
            p->summary[room / 4096] &= ~(1ull << (room / 64 % 64));
    }
    return row;
}

/* The first bit set at or after `bit` of n words, or -1. */
static int64_t next_bit(const uint64_t *words, int64_t n, int64_t bit)
{
    int64_t w = bit / 64;
    if (w >= n)
        return -1;
    uint64_t word = words[w] & (~0ull << (bit % 64));
    while (!word) {
        if (++w == n)
            return -1;
        word = words[w];
    }
    return w * 64 + __builtin_ctzll(word);
}

/* The least room of any row that is at least `need`, or -1. */
static int64_t room_find(const packer *p, int64_t need)
{
    if (need > p->n_room)
        return -1;
    uint64_t word = p->set[need / 64] & (~0ull << (need % 64));
    if (word)
        return need / 64 * 64 + __builtin_ctzll(word);
    int64_t w = next_bit(p->summary, p->n_summary, need / 64 + 1);
    return w < 0 ? -1 : w * 64 + __builtin_ctzll(p->set[w]);
}

static void permute(const loam_batches *b, int64_t epoch, int64_t *out)
{
    int64_t n = b->d->n_examples;
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    if (!b->shuffle)
        return;
    char name[32];
    snprintf(name, sizeof name, "epoch %lld", (long long)epoch);
    loam_rng rng = loam_rng_stream(b->seed, name);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)loam_rng_below(&rng, (uint64_t)i + 1);
        int64_t kept = out[i];
        out[i] = out[j];
        out[j] = kept;
    }
}

static void make_plan(const loam_batches *b, int64_t epoch, epoch_plan *out)
{
    packer *p = b->pack;
    int64_t n = b->d->n_examples;
    permute(b, epoch, p->permutation);
    memset(p->set, 0, (size_t)p->n_words * sizeof *p->set);
    memset(p->summary, 0, (size_t)p->n_summary * sizeof *p->summary);
    for (int64_t i = 0; i <= p->n_room; i++)
        p->head[i] = -1;
    memset(out->first, 0, (size_t)(n + 1) * sizeof *out->first);
    out->epoch = epoch;
    out->n_rows = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t need = b->d->examples[p->permutation[i]].n_tokens;
        int64_t room = room_find(p, need);
        int64_t row = room < 0 ? out->n_rows++ : room_take(p, room);
        room_add(p, (room < 0 ? p->n_room : room) - need, row);
        p->row_of[i] = row;
        out->first[row + 1]++;
    }
    for (int64_t row = 0; row < out->n_rows; row++)
        out->first[row + 1] += out->first[row];
    /* `next` is free now: it holds where each row's next example goes. */
    memcpy(p->next, out->first, (size_t)out->n_rows * sizeof *p->next);
    for (int64_t i = 0; i < n; i++)
        out->order[p->next[p->row_of[i]]++] = p->permutation[i];
}

static const epoch_plan *plan_of(const loam_batches *b, int64_t epoch)
{
    if (!b->shuffle)
        epoch = 0;
    if (b->current->epoch == epoch)
        return b->current;
    if (b->other->epoch != epoch)
        make_plan(b, epoch, b->other);
    return b->other;
}

/* ---- batches ------------------------------------------------------------------------------ */

static void plan_free(epoch_plan *p)
{
    if (!p)
        return;
    loam_free(p->order);
    loam_free(p->first);
    loam_free(p);
}

static void pack_free(packer *p)
{
    if (!p)
        return;
    loam_free(p->permutation);
    loam_free(p->row_of);
    loam_free(p->next);
    loam_free(p->head);
    loam_free(p->set);
    loam_free(p->summary);
    loam_free(p);
}

void loam_batches_free(loam_batches *b)
{
    if (!b)
        return;
    plan_free(b->current);
    plan_free(b->other);
    pack_free(b->pack);
    loam_free(b->arrays);
    loam_free(b);
}

static epoch_plan *plan_new(int64_t n)
{
    epoch_plan *p = loam_alloc(sizeof *p);
    if (!p)
        return NULL;
    p->epoch = -1;
    p->order = loam_alloc((size_t)n * sizeof *p->order);
    p->first = loam_alloc((size_t)(n + 1) * sizeof *p->first);
    if (p->order && p->first)
        return p;
    plan_free(p);
    return NULL;
}

static packer *pack_new(int64_t n, int64_t n_room)
{
    packer *p = loam_alloc(sizeof *p);
    if (!p)
        return NULL;
    p->n_room = n_room;
    p->n_words = n_room / 64 + 1;
    p->n_summary = (p->n_words - 1) / 64 + 1;
    p->permutation = loam_alloc((size_t)n * sizeof *p->permutation);
    p->row_of = loam_alloc((size_t)n * sizeof *p->row_of);
    p->next = loam_alloc((size_t)n * sizeof *p->next);
    p->head = loam_alloc((size_t)(n_room + 1) * sizeof *p->head);
    p->set = loam_alloc((size_t)p->n_words * sizeof *p->set);
    p->summary = loam_alloc((size_t)p->n_summary * sizeof *p->summary);
    if (p->permutation && p->row_of && p->next && p->head && p->set && p->summary)
        return p;
    pack_free(p);
    return NULL;
}

static loam_status check_set(const loam_dataset *d, int64_t max_seq_length, int64_t batch_size,
                             loam_error *e)
{
    if (max_seq_length < 1 || batch_size < 1)
        return loam_fail(e, LOAM_E_USAGE,
                         "batches of %lld rows of %lld tokens: both numbers must be at least 1",
                         (long long)batch_size, (long long)max_seq_length);
    if (d->n_examples < 1)
        return loam_fail(e, LOAM_E_DATA, "a data set without an example makes no batch");
    for (int64_t i = 0; i < d->n_examples; i++) {
        const loam_example *x = &d->examples[i];
        if (x->n_tokens > max_seq_length)
            return loam_fail(e, LOAM_E_USAGE,
                             "%s:%lld: the example has %lld tokens, but a row holds %lld; load the "
                             "data with this max_seq_length",
                             d->files[x->file], (long long)x->line, (long long)x->n_tokens,
                             (long long)max_seq_length);
    }
    /* The arrays are indexed with int32. */
    if (max_seq_length > (INT32_MAX - N_ROUND) / batch_size &&
        d->summary.n_tokens > INT32_MAX - N_ROUND)
        return loam_fail(e, LOAM_E_USAGE,
                         "a batch of %lld rows of %lld tokens has more than 2^31 tokens; lower "
                         "the batch size",
                         (long long)batch_size, (long long)max_seq_length);
    return LOAM_OK;
}

loam_status loam_batches_create(const loam_dataset *d, int64_t max_seq_length, int64_t batch_size,
                                bool shuffle, uint64_t seed, loam_batches **out, loam_error *e)
{
    *out = NULL;
    LOAM_TRY(check_set(d, max_seq_length, batch_size, e));
    /* A row can hold no more than all of the set. */
    int64_t n_room = LOAM_MIN(max_seq_length, d->summary.n_tokens);
    loam_batches *b = loam_alloc(sizeof *b);
    if (b) {
        b->current = plan_new(d->n_examples);
        b->other = plan_new(d->n_examples);
        b->pack = pack_new(d->n_examples, n_room);
    }
    if (!b || !b->current || !b->other || !b->pack) {
        loam_batches_free(b);
        return loam_fail(e, LOAM_E_MEMORY, "no memory for the order of %lld examples",
                         (long long)d->n_examples);
    }
    b->d = d;
    b->max_seq_length = max_seq_length;
    b->batch_size = batch_size;
    b->shuffle = shuffle;
    b->seed = seed;
    *out = b;
    return LOAM_OK;
}

static int64_t n_batches(const loam_batches *b, const epoch_plan *p)
{
    return (p->n_rows - 1) / b->batch_size + 1;
}

int64_t loam_batches_per_epoch(const loam_batches *b, int64_t epoch)
{
    return n_batches(b, plan_of(b, epoch));
}

/* The examples of a batch are order[*first .. *end). Returns its tokens, before rounding. */
static int64_t batch_extent(const loam_batches *b, const epoch_plan *p, int64_t batch,
                            int64_t *first, int64_t *end)
{
    int64_t row = batch * b->batch_size;
    *first = p->first[row];
    *end = p->first[LOAM_MIN(row + b->batch_size, p->n_rows)];
    int64_t n_tokens = 0;
    for (int64_t i = *first; i < *end; i++)
        n_tokens += b->d->examples[p->order[i]].n_tokens;
    return n_tokens;
}

static int64_t rounded(int64_t n_tokens)
{
    return (n_tokens + N_ROUND - 1) / N_ROUND * N_ROUND;
}

int64_t loam_batches_longest(loam_batches *b, int64_t n_epochs)
{
    int64_t longest = 0;
    if (!b->shuffle)
        n_epochs = LOAM_MIN(n_epochs, (int64_t)1);
    for (int64_t epoch = 0; epoch < n_epochs; epoch++) {
        const epoch_plan *p = plan_of(b, epoch);
        for (int64_t i = 0; i < n_batches(b, p); i++) {
            int64_t first, end;
            int64_t n_tokens = batch_extent(b, p, i, &first, &end);
            longest = LOAM_MAX(longest, n_tokens);
        }
    }
    return rounded(longest);
}

static loam_status reserve(loam_batches *b, int64_t n_tokens, loam_batch *out, loam_error *e)
{
    if (b->capacity < n_tokens) {
        int32_t *arrays = loam_alloc((size_t)n_tokens * 5 * sizeof *arrays);
        if (!arrays)
            return loam_fail(e, LOAM_E_MEMORY, "no memory for a batch of %lld tokens",
                             (long long)n_tokens);
        loam_free(b->arrays);
        b->arrays = arrays;
        b->capacity = n_tokens;
    }
    *out = (loam_batch){.n_tokens = n_tokens,
                        .tokens = b->arrays,
                        .labels = b->arrays + n_tokens,
                        .positions = b->arrays + 2 * n_tokens,
                        .ranges = b->arrays + 3 * n_tokens};
    return LOAM_OK;
}

/* Lays an example at token `at` of the batch. */
static void lay(const loam_dataset *d, const loam_example *x, int64_t at, loam_batch *out)
{
    const int32_t *tokens = d->tokens + x->first;
    const uint8_t *trained = d->trained + x->first;
    for (int64_t i = 0; i < x->n_tokens; i++) {
        int64_t t = at + i;
        bool labelled = i + 1 < x->n_tokens && trained[i + 1];
        out->tokens[t] = tokens[i];
        out->labels[t] = labelled ? tokens[i + 1] : -1;
        out->n_trained += labelled;
        out->positions[t] = (int32_t)i;
        out->ranges[2 * t] = (int32_t)at;
        out->ranges[2 * t + 1] = (int32_t)t + 1;
    }
    out->n_examples++;
}

loam_status loam_batches_next(loam_batches *b, loam_cursor *cursor, loam_batch *out, loam_error *e)
{
    int64_t epoch = b->shuffle ? cursor->epoch : 0;
    if (b->current->epoch != epoch) {
        /* What was asked about may be what is seen next. */
        epoch_plan *kept = b->current;
        if (b->other->epoch != epoch)
            make_plan(b, epoch, b->other);
        b->current = b->other;
        b->other = kept;
    }
    int64_t n = n_batches(b, b->current);
    if (cursor->epoch < 0 || cursor->batch < 0 || cursor->batch >= n)
        return loam_fail(e, LOAM_E_USAGE,
                         "batch %lld of epoch %lld does not exist: the epoch has %lld batches; the "
                         "position belongs to other data or options",
                         (long long)cursor->batch, (long long)cursor->epoch, (long long)n);
    int64_t first, end;
    int64_t n_tokens = batch_extent(b, b->current, cursor->batch, &first, &end);
    LOAM_TRY(reserve(b, rounded(n_tokens), out, e));
    int64_t at = 0;
    for (int64_t i = first; i < end; i++) {
        const loam_example *x = &b->d->examples[b->current->order[i]];
        lay(b->d, x, at, out);
        at += x->n_tokens;
    }
    for (; at < out->n_tokens; at++) {
        out->tokens[at] = 0;
        out->labels[at] = -1;
        out->positions[at] = 0;
        out->ranges[2 * at] = (int32_t)at;
        out->ranges[2 * at + 1] = (int32_t)at + 1;
    }
    if (++cursor->batch == n)
        *cursor = (loam_cursor){.epoch = cursor->epoch + 1};
    return LOAM_OK;
}
