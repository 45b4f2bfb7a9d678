/* merge.c: the merge loop that both tokenizers share. */
#include "text/merge.h"

#define SMALL_WORD 24 /* up to here looking at every pair each time beats a queue */

/* Makes room for one more of `size` bytes each. */
static bool reserve(void **array, size_t *capacity, size_t n, size_t size)
{
    if (n < *capacity)
        return true;
    size_t want = *capacity ? *capacity * 2 : 64, bytes;
    if (!loam_size_mul(want, size, &bytes))
        return false;
    void *grown = loam_realloc(*array, bytes);
    if (!grown)
        return false;
    *array = grown;
    *capacity = want;
    return true;
}

bool loam_queue_push(loam_queue *q, loam_queue_entry entry)
{
    void *entries = q->entries;
    bool room = reserve(&entries, &q->capacity, q->n, sizeof(*q->entries));
    q->entries = entries;
    if (!room)
        return false;
    size_t i = q->n++;
    while (i > 0 && entry.key < q->entries[(i - 1) / 2].key) {
        q->entries[i] = q->entries[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->entries[i] = entry;
    return true;
}

loam_queue_entry loam_queue_pop(loam_queue *q)
{
    loam_queue_entry top = q->entries[0], last = q->entries[--q->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < q->n; i = child) {
        if (child + 1 < q->n && q->entries[child + 1].key < q->entries[child].key)
            child++;
        if (last.key <= q->entries[child].key)
            break;
        q->entries[i] = q->entries[child];
    }
    if (q->n > 0)
        q->entries[i] = last;
    return top;
}

void loam_queue_free(loam_queue *q)
{
    loam_free(q->entries);
    *q = (loam_queue){0};
}

void loam_merger_clear(loam_merger *m)
{
    m->n = 0;
    m->queue.n = 0;
}

bool loam_merger_add(loam_merger *m, uint32_t n_bytes, uint32_t id)
{
    void *symbols = m->symbols;
    size_t capacity = m->capacity;
    bool room = reserve(&symbols, &capacity, m->n, sizeof(*m->symbols));
    m->symbols = symbols;
    m->capacity = (uint32_t)capacity;
    if (!room)
        return false;
    loam_symbol *s = &m->symbols[m->n];
    *s = (loam_symbol){0, n_bytes, id, LOAM_SYMBOL_NONE, LOAM_SYMBOL_NONE};
    if (m->n > 0) {
        s->previous = m->n - 1;
        s->begin_bytes = s[-1].begin_bytes + s[-1].n_bytes;
        s[-1].next = m->n;
    }
    m->n++;
    return true;
}

/* Joins the symbol after `left` into it. */
static void join(loam_merger *m, uint32_t left, uint32_t id)
{
    loam_symbol *l = &m->symbols[left], *r = &m->symbols[l->next];
    l->n_bytes += r->n_bytes;
    l->id = id;
    l->next = r->next;
    r->n_bytes = 0;
    if (r->next != LOAM_SYMBOL_NONE)
        m->symbols[r->next].previous = left;
}

typedef struct candidate {
    uint32_t priority, id;
    bool possible;
} candidate;

static candidate look(const loam_merger *m, uint32_t left, loam_pair_rule rule, const void *context)
{
    candidate c = {0, 0, false};
    const loam_symbol *l = &m->symbols[left];
    if (l->next != LOAM_SYMBOL_NONE)
        c.possible = rule(context, l, &m->symbols[l->next], &c.priority, &c.id);
    return c;
}

static void run_small(loam_merger *m, loam_pair_rule rule, const void *context)
{
    candidate pairs[SMALL_WORD];
    for (uint32_t i = 0; i < m->n; i++)
        pairs[i] = look(m, i, rule, context);
    for (;;) {
        uint32_t best = LOAM_SYMBOL_NONE;
        for (uint32_t i = 0; i != LOAM_SYMBOL_NONE; i = m->symbols[i].next) {
            if (pairs[i].possible &&
                (best == LOAM_SYMBOL_NONE || pairs[i].priority < pairs[best].priority))
                best = i;
        }
        if (best == LOAM_SYMBOL_NONE)
            return;
        join(m, best, pairs[best].id);
        pairs[best] = look(m, best, rule, context);
        uint32_t before = m->symbols[best].previous;
        if (before != LOAM_SYMBOL_NONE)
            pairs[before] = look(m, before, rule, context);
    }
}

/* Queues the pair that begins at `left`, if it may be joined. */
static bool offer(loam_merger *m, uint32_t left, loam_pair_rule rule, const void *context)
{
    candidate c = look(m, left, rule, context);
    if (!c.possible)
        return true;
    const loam_symbol *l = &m->symbols[left];
    uint32_t bytes = l->n_bytes + m->symbols[l->next].n_bytes;
    return loam_queue_push(
        &m->queue, (loam_queue_entry){(uint64_t)c.priority << 32 | left, l->next, bytes, c.id});
}

static bool run_large(loam_merger *m, loam_pair_rule rule, const void *context)
{
    for (uint32_t i = 0; i + 1 < m->n; i++) {
        if (!offer(m, i, rule, context))
            return false;
    }
    while (m->queue.n > 0) {
        loam_queue_entry e = loam_queue_pop(&m->queue);
        uint32_t left = (uint32_t)e.key;
        const loam_symbol *l = &m->symbols[left], *r = &m->symbols[e.a];
        /* Stale where either side was joined away or has grown since. */
        if (l->n_bytes == 0 || r->n_bytes == 0 || l->n_bytes + r->n_bytes != e.b)
            continue;
        join(m, left, e.c);
        if (l->previous != LOAM_SYMBOL_NONE && !offer(m, l->previous, rule, context))
            return false;
        if (!offer(m, left, rule, context))
            return false;
    }
    return true;
}

bool loam_merger_run(loam_merger *m, loam_pair_rule rule, const void *context)
{
    if (m->n > SMALL_WORD)
        return run_large(m, rule, context);
    if (m->n > 0)
        run_small(m, rule, context);
    return true;
}

void loam_merger_free(loam_merger *m)
{
    loam_free(m->symbols);
    loam_queue_free(&m->queue);
    *m = (loam_merger){0};
}
