/* spm.h: SentencePiece vocabularies (Kudo and Richardson 2018, arXiv 1808.06226), merged by score.
 * Private to text/. */
#ifndef LOAM_TEXT_SPM_H
#define LOAM_TEXT_SPM_H

#include "text/bpe.h"
#include "text/merge.h"
#include "text/vocab.h"

typedef struct loam_spm {
    const loam_vocab *vocab;
    uint32_t *priorities;   /* of each token: its score, best first */
    int32_t byte_ids[256];  /* the token of a byte that no other token covers, or -1 */
    bool words_apart;       /* no token crosses from a word into the space before the next */
    _Atomic uint8_t *whole; /* per token: whether its own text gives just it */
} loam_spm;

/* False when memory ran out; loam_spm_free() in any case. */
bool loam_spm_init(const loam_vocab *v, loam_spm *s);
void loam_spm_free(loam_spm *s);

/* Tokenizes a text in which spaces are already written as U+2581. False when memory ran out. */
bool loam_spm_tokenize(const loam_spm *s, const char *text, size_t n_bytes, loam_merger *merger,
                       loam_token_taker take, void *context);

/* Appends the bytes that a normal token stands for: its text with U+2581 as spaces. */
void loam_spm_piece(const loam_spm *s, int32_t id, loam_string *out);

#endif /* LOAM_TEXT_SPM_H */
