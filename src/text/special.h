/* special.h: finds the special tokens that are written out in a text. Private to text/. */
#ifndef LOAM_TEXT_SPECIAL_H
#define LOAM_TEXT_SPECIAL_H

#include "text/merge.h"
#include "text/vocab.h"

/* The tokens that one kind of parse looks for. Start from {0}. */
typedef struct loam_specials {
    int32_t *ids;    /* ascending by text */
    uint32_t *order; /* of each: 0 is the longest text, the smaller id among equals */
    int32_t n;
    bool first[256]; /* whether some text begins with this byte */
} loam_specials;

/* Collects user-defined tokens, and control and unknown tokens too where `all`. False when memory
 * ran out; loam_specials_free() in any case. */
bool loam_specials_init(loam_specials *s, const loam_vocab *v, bool all);
void loam_specials_free(loam_specials *s);

/* Queues the special tokens of text[0 .. n_bytes) by position: an entry's key is where it begins, a
 * the token's id, b where the text goes on behind it. The longest texts are looked for first, all
 * over the text, and shorter ones only in what is left; equal texts from left to right. So does
 * llama.cpp (tokenizer_st_partition). n_bytes fits 32 bits. False when memory ran out. */
bool loam_specials_find(const loam_specials *s, const loam_vocab *v, const char *text,
                        size_t n_bytes, loam_queue *found);

#endif /* LOAM_TEXT_SPECIAL_H */
