/* bpe.h: byte-level byte pair encoding (Sennrich et al. 2016, arXiv 1508.07909; on bytes as in
 * GPT-2). Private to text/. */
#ifndef LOAM_TEXT_BPE_H
#define LOAM_TEXT_BPE_H

#include "text/merge.h"
#include "text/pretokenize.h"
#include "text/vocab.h"

/* Takes the next token of a text and where it begins there; false when memory ran out. */
typedef bool (*loam_token_taker)(void *context, int32_t id, size_t begin_bytes);

/* One merge: the symbols left and right become `joined`. */
typedef struct loam_bpe_merge {
    uint32_t left_plus_1; /* 0: a free slot of the table */
    uint32_t right;
    uint32_t rank;
    uint32_t joined;
} loam_bpe_merge;

/* Everything is done on bytes: the letters that stand for bytes in the file are translated once.
 * A symbol below the vocabulary's size is that token; those above come from merges that give no
 * token. Start from {0}. */
typedef struct loam_bpe {
    const loam_vocab *vocab;
    const loam_pretokenizer *pre;
    uint8_t *classes;
    loam_slice *symbols; /* the bytes of each; empty where no bytes of a text can give it */
    uint32_t n_symbols, symbols_capacity;
    loam_strtab by_bytes; /* over symbols */
    size_t max_symbol_bytes;
    loam_bpe_merge *merges; /* open addressing on left and right */
    uint32_t n_merge_slots; /* a power of 2 */
    uint32_t byte_symbols[256];
    _Atomic uint8_t *whole; /* per token: whether its own bytes, as a word, give just it */
    loam_arena *arena;
} loam_bpe;

loam_status loam_bpe_init(const loam_gguf *g, const loam_vocab *v, const loam_pretokenizer *pre,
                          loam_bpe *b, loam_error *e);
void loam_bpe_free(loam_bpe *b);

/* Tokenizes a text that is clean (loam_utf8_is_clean). False when memory ran out. */
bool loam_bpe_tokenize(const loam_bpe *b, const char *text, size_t n_bytes, loam_merger *merger,
                       loam_token_taker take, void *context);

/* Appends the bytes that a normal token stands for. */
void loam_bpe_piece(const loam_bpe *b, int32_t id, loam_string *out);

#endif /* LOAM_TEXT_BPE_H */
