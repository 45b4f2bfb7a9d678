/* merge.h: the loop that both tokenizers share: among all neighbouring symbols that may be joined,
 * join the best pair, leftmost among equals, until none is left. Private to text/. */
#ifndef LOAM_TEXT_MERGE_H
#define LOAM_TEXT_MERGE_H

#include "core/core.h"

#define LOAM_SYMBOL_NONE UINT32_MAX

/* A stretch of the word being tokenized. */
typedef struct loam_symbol {
    uint32_t begin_bytes; /* from the word's start */
    uint32_t n_bytes;     /* 0: joined into a symbol on its left */
    uint32_t id;          /* of the tokenizer's own numbering */
    uint32_t previous;    /* neighbours, or LOAM_SYMBOL_NONE */
    uint32_t next;
} loam_symbol;

/* Whether left and right (neighbours) may be joined; if so, sets the pair's priority (smaller is
 * better) and the id of the joined symbol. */
typedef bool (*loam_pair_rule)(const void *context, const loam_symbol *left,
                               const loam_symbol *right, uint32_t *priority, uint32_t *id);

/* A queue of entries with the smallest key first; equal keys come out in no stated order. */
typedef struct loam_queue_entry {
    uint64_t key;
    uint32_t a, b, c;
} loam_queue_entry;

typedef struct loam_queue {
    loam_queue_entry *entries;
    size_t n, capacity;
} loam_queue;

bool loam_queue_push(loam_queue *q, loam_queue_entry entry); /* false when memory ran out */
loam_queue_entry loam_queue_pop(loam_queue *q);              /* q->n > 0 */
void loam_queue_free(loam_queue *q);

/* Room for one word's symbols; kept from word to word. Start from {0}. */
typedef struct loam_merger {
    loam_symbol *symbols;
    uint32_t n; /* symbols of the word before merging */
    uint32_t capacity;
    loam_queue queue;
} loam_merger;

/* Empties the merger; then add the word's smallest symbols from left to right. */
void loam_merger_clear(loam_merger *m);
bool loam_merger_add(loam_merger *m, uint32_t n_bytes, uint32_t id); /* false: memory ran out */
/* Joins what can be joined, in time n log n. Afterwards the symbols with n_bytes > 0 are the
 * result. False when memory ran out. */
bool loam_merger_run(loam_merger *m, loam_pair_rule rule, const void *context);
void loam_merger_free(loam_merger *m);

#endif /* LOAM_TEXT_MERGE_H */
