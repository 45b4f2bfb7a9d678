/* vocab.h: the vocabulary of a model and what its tokens are. Private to text/. */
#ifndef LOAM_TEXT_VOCAB_H
#define LOAM_TEXT_VOCAB_H

#include "gguf/gguf.h"
#include "text/strtab.h"

/* What a token is, as bits: the types of tokenizer.ggml.token_type, which llama.cpp then corrects
 * by the tokens' texts, so that a token can be more than one. */
enum {
    LOAM_TOKEN_NORMAL = 1,
    LOAM_TOKEN_UNKNOWN = 2,
    LOAM_TOKEN_CONTROL = 4,
    LOAM_TOKEN_USER_DEFINED = 8,
    LOAM_TOKEN_UNUSED = 16,
    LOAM_TOKEN_BYTE = 32,
    LOAM_TOKEN_UNDEFINED = 64,
    LOAM_TOKEN_EATS_SPACE = 128, /* white space behind it in the text belongs to it ("rstrip") */
    LOAM_TOKEN_EOG = 256         /* ends a generation */
};

typedef enum loam_vocab_kind { LOAM_VOCAB_SPM, LOAM_VOCAB_BPE } loam_vocab_kind;

typedef struct loam_vocab {
    loam_vocab_kind kind;
    int32_t n;
    loam_slice *texts; /* as in the file; an empty one reads "[EMPTY_<id>]" */
    float *scores;     /* SPM; NULL for BPE */
    uint16_t *attributes;
    loam_strtab by_text;   /* over texts */
    size_t max_text_bytes; /* of the longest token */
    loam_arena *arena;     /* of texts that are not in the file */
    int32_t bos, eos, eot, eom, unknown;
    bool adds_bos, adds_eos, adds_space_prefix;
} loam_vocab;

/* Reads tokenizer.ggml.* into `v`, which is {0} and which loam_vocab_free() releases even after a
 * failure. `adds_bos` is the pre-tokenizer's default where the file does not say. */
loam_status loam_vocab_read(const loam_gguf *g, loam_vocab_kind kind, bool adds_bos, loam_vocab *v,
                            loam_error *e);
void loam_vocab_free(loam_vocab *v);

/* The id of a token by its text, or -1. */
int32_t loam_vocab_find(const loam_vocab *v, const char *text, size_t n_bytes);

/* The byte that the text "<0xNN>" stands for, or -1 for any other text. */
int loam_byte_token_value(loam_slice text);

#endif /* LOAM_TEXT_VOCAB_H */
