/* pretokenize.h: cuts a text into the words that BPE merges within, as the model's
 * tokenizer.ggml.pre says. Private to text/.
 *
 * A pre-tokenizer is a list of stages; each cuts every piece of the stage before, and a piece's
 * end is an end of text to the stages below. The regular expressions are those of the models'
 * tokenizer.json as llama.cpp runs them, on the classes of Unicode 15.1; they are scanned by hand
 * because a regex library brings the classes of its own Unicode version. */
#ifndef LOAM_TEXT_PRETOKENIZE_H
#define LOAM_TEXT_PRETOKENIZE_H

#include "gguf/gguf.h"

typedef struct loam_split_stage loam_split_stage;

typedef struct loam_pretokenizer {
    const char *name;
    const loam_split_stage *stages;
    int n_stages;
    bool ignore_merges; /* a word that is a token is that token, whatever the merges give */
    bool adds_bos;      /* where the file has no tokenizer.ggml.add_bos_token */
} loam_pretokenizer;

/* By the value of tokenizer.ggml.pre, aliases included; NULL where it is not known. */
const loam_pretokenizer *loam_pretokenizer_find(loam_slice name);
/* The i-th known name, or NULL past the last. */
const char *loam_pretokenizer_name(int i);

/* Takes the word text[begin .. end); false stops the cutting. */
typedef bool (*loam_word_taker)(void *context, size_t begin, size_t end);

/* Cuts text[0 .. n_bytes), which is clean (loam_utf8_is_clean), into words that follow each other
 * without gaps. `classes` is loam_unicode_classes(). False where `take` returned false. */
bool loam_pretokenize(const loam_pretokenizer *p, const uint8_t *classes, const char *text,
                      size_t n_bytes, loam_word_taker take, void *context);

#endif /* LOAM_TEXT_PRETOKENIZE_H */
