/* special.c: finds the special tokens that are written out in a text. */
#include "text/special.h"

#include <stdlib.h>
#include <string.h>

typedef struct named_id {
    loam_slice text;
    int32_t id;
} named_id;

static int compare_texts(const void *a, const void *b)
{
    const loam_slice *x = &((const named_id *)a)->text, *y = &((const named_id *)b)->text;
    int c = memcmp(x->data, y->data, LOAM_MIN(x->bytes, y->bytes));
    return c ? c : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The tokens to look for, ascending by text; loam_free() it. NULL when memory ran out. */
static named_id *collect(const loam_vocab *v, bool all, int32_t *n)
{
    const uint16_t hidden = LOAM_TOKEN_CONTROL | LOAM_TOKEN_UNKNOWN;
    const uint16_t wanted = hidden | LOAM_TOKEN_USER_DEFINED;
    named_id *list = NULL;
    for (int pass = 0; pass < 2; pass++) {
        *n = 0;
        for (int32_t id = 0; id < v->n; id++) {
            if (!(v->attributes[id] & wanted) || (!all && (v->attributes[id] & hidden)))
                continue;
            if (list)
                list[*n] = (named_id){v->texts[id], id};
            ++*n;
        }
        if (!list)
            list = loam_alloc((size_t)*n * sizeof(*list));
        if (!list)
            return NULL;
    }
    if (*n > 0)
        qsort(list, (size_t)*n, sizeof(*list), compare_texts);
    return list;
}

bool loam_specials_init(loam_specials *s, const loam_vocab *v, bool all)
{
    named_id *list = collect(v, all, &s->n);
    if (!list)
        return false;
    s->ids = loam_alloc((size_t)s->n * sizeof(*s->ids));
    s->order = loam_alloc((size_t)s->n * sizeof(*s->order));
    loam_queue by_length = {0};
    bool ok = s->ids && s->order;
    for (int32_t i = 0; i < s->n && ok; i++) {
        const loam_slice *text = &list[i].text;
        s->ids[i] = list[i].id;
        s->first[(uint8_t)text->data[0]] = true;
        uint64_t shortness = UINT32_MAX - (uint32_t)LOAM_MIN(text->bytes, (size_t)UINT32_MAX);
        ok = loam_queue_push(&by_length, (loam_queue_entry){shortness << 32 | (uint32_t)list[i].id,
                                                            (uint32_t)i, 0, 0});
    }
    loam_free(list);
    for (uint32_t order = 0; ok && by_length.n > 0; order++)
        s->order[loam_queue_pop(&by_length).a] = order;
    loam_queue_free(&by_length);
    return ok;
}

void loam_specials_free(loam_specials *s)
{
    loam_free(s->ids);
    loam_free(s->order);
    *s = (loam_specials){0};
}

/* The index of the longest token at text[0 .. n_bytes), or -1. Narrows the sorted list byte by
 * byte: the tokens that share the text's first `depth` bytes are low .. high. */
static int32_t longest_at(const loam_specials *s, const loam_vocab *v, const char *text,
                          size_t n_bytes)
{
    int32_t low = 0, high = s->n, best = -1;
    for (size_t depth = 0; depth < n_bytes && low < high; depth++) {
        uint8_t want = (uint8_t)text[depth];
        int32_t bounds[2];
        for (int side = 0; side < 2; side++) {
            int32_t a = low, b = high;
            while (a < b) {
                int32_t middle = a + (b - a) / 2;
                const loam_slice *t = &v->texts[s->ids[middle]];
                int have = t->bytes > depth ? (uint8_t)t->data[depth] : -1;
                if (have < (int)want + side)
                    a = middle + 1;
                else
                    b = middle;
            }
            bounds[side] = a;
        }
        low = bounds[0];
        high = bounds[1];
        if (low < high && v->texts[s->ids[low]].bytes == depth + 1)
            best = low;
    }
    return best;
}

static bool offer(const loam_specials *s, const loam_vocab *v, const char *text, uint32_t pos,
                  size_t n_bytes, loam_queue *candidates)
{
    int32_t i = longest_at(s, v, text + pos, n_bytes);
    if (i < 0)
        return true;
    return loam_queue_push(
        candidates, (loam_queue_entry){(uint64_t)s->order[i] << 32 | pos, (uint32_t)i, 0, 0});
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Takes candidates in order of preference; `taken` marks the bytes that already belong to one. A
 * candidate that meets a longer token gives way to the next shorter one at its place. */
static bool choose(const loam_specials *s, const loam_vocab *v, const char *text, size_t n_bytes,
                   loam_queue *candidates, bool *taken, loam_queue *found)
{
    while (candidates->n > 0) {
        loam_queue_entry c = loam_queue_pop(candidates);
        uint32_t pos = (uint32_t)c.key;
        int32_t id = s->ids[c.a];
        size_t end = pos + v->texts[id].bytes;
        /* What was taken before is at least as long: it cannot lie between first and last. */
        if (taken[pos])
            continue;
        if (taken[end - 1]) {
            if (!offer(s, v, text, pos, end - 1 - pos, candidates))
                return false;
            continue;
        }
        if (v->attributes[id] & LOAM_TOKEN_EATS_SPACE) {
            while (end < n_bytes && !taken[end] && is_space(text[end]))
                end++;
        }
        memset(taken + pos, true, end - pos);
        if (!loam_queue_push(found, (loam_queue_entry){pos, (uint32_t)id, (uint32_t)end, 0}))
            return false;
    }
    return true;
}

bool loam_specials_find(const loam_specials *s, const loam_vocab *v, const char *text,
                        size_t n_bytes, loam_queue *found)
{
    loam_queue candidates = {0};
    bool ok = true;
    for (size_t i = 0; i < n_bytes && ok; i++) {
        if (s->first[(uint8_t)text[i]])
            ok = offer(s, v, text, (uint32_t)i, n_bytes - i, &candidates);
    }
    if (ok && candidates.n > 0) {
        bool *taken = loam_alloc(n_bytes);
        ok = taken && choose(s, v, text, n_bytes, &candidates, taken, found);
        loam_free(taken);
    }
    loam_queue_free(&candidates);
    return ok;
}
