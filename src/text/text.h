/* text.h: tokenizers built from GGUF metadata, and chat templates. */
#ifndef LOAM_TEXT_H
#define LOAM_TEXT_H

#include "core/core.h"
#include "gguf/gguf.h"
#include "text/template.h"

/* ---- tokenizer (tokenizer.c; spm.c and bpe.c hold the two algorithms) ---------------------- */

typedef struct loam_tokenizer loam_tokenizer;

/* Reads tokenizer.ggml.*: model "llama" (SPM) or "gpt2" (byte-level BPE) with a known
 * tokenizer.ggml.pre. Anything else is refused by name. `g` must outlive the tokenizer. */
loam_status loam_tokenizer_create(const loam_gguf *g, loam_tokenizer **out, loam_error *e);
void loam_tokenizer_free(loam_tokenizer *t);

enum {
    LOAM_TOKENIZE_ADD_SPECIAL = 1,  /* BOS/EOS as the model's add_bos_token/add_eos_token say */
    LOAM_TOKENIZE_PARSE_SPECIAL = 2 /* "<|im_end|>" in the text becomes its one token */
};

/* Token ids and, for each, the byte offset in the text where it begins (an added BOS/EOS has the
 * offset of the text's start/end and covers no byte). Start from {0}; grows; free with the call. */
typedef struct loam_tokens {
    int32_t *ids;
    size_t *offsets_bytes; /* n + 1 entries: the last is the text's length */
    int64_t n;
    int64_t capacity;
} loam_tokens;
void loam_tokens_free(loam_tokens *t);

/* Appends the tokens of text[0 .. n_bytes) to `out` (offsets count from this text's start).
 * Any bytes are accepted; invalid UTF-8 is tokenized as llama.cpp does. */
loam_status loam_tokenize(const loam_tokenizer *t, const char *text, size_t n_bytes, unsigned flags,
                          loam_tokens *out, loam_error *e);

/* Appends the bytes a token stands for. Control tokens append nothing unless `special`. */
void loam_token_piece(const loam_tokenizer *t, int32_t id, bool special, loam_string *out);

int32_t loam_tokenizer_n_vocab(const loam_tokenizer *t);
int32_t loam_tokenizer_bos(const loam_tokenizer *t); /* -1 where the model has none */
int32_t loam_tokenizer_eos(const loam_tokenizer *t);
int32_t loam_tokenizer_eot(const loam_tokenizer *t); /* end of turn; falls back to eos */
bool loam_tokenizer_adds_bos(const loam_tokenizer *t);
bool loam_token_is_eog(const loam_tokenizer *t, int32_t id); /* ends a generation */
bool loam_token_is_control(const loam_tokenizer *t, int32_t id);
/* The id of a token by its exact text in the vocabulary, or -1. */
int32_t loam_token_find(const loam_tokenizer *t, const char *text, size_t n_bytes);

#endif /* LOAM_TEXT_H */
