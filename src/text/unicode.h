/* unicode.h: UTF-8 as the tokenizers read it, and the classes of characters. Private to text/. */
#ifndef LOAM_TEXT_UNICODE_H
#define LOAM_TEXT_UNICODE_H

#include "core/core.h"

/* Classes of a code point, one bit each; a code point has exactly one of the first six, and SPACE
 * besides where the Unicode property White_Space holds. */
enum {
    LOAM_CLASS_NUMBER = 1,      /* \p{N} */
    LOAM_CLASS_LETTER = 2,      /* \p{L} */
    LOAM_CLASS_MARK = 4,        /* \p{M} */
    LOAM_CLASS_PUNCTUATION = 8, /* \p{P} */
    LOAM_CLASS_SYMBOL = 16,     /* \p{S} */
    LOAM_CLASS_OTHER = 32,      /* separators, controls, unassigned */
    LOAM_CLASS_SPACE = 64       /* \s */
};

#define LOAM_N_CODE_POINTS 0x110000

/* Facts of unicode_table.c. */
extern const uint32_t loam_unicode_runs[];
extern const int loam_unicode_n_runs;

/* A table of LOAM_N_CODE_POINTS classes; loam_free() it. NULL when memory ran out. */
uint8_t *loam_unicode_classes(void);

/* Decodes the character at p[0 .. n), n > 0, and sets how many bytes it takes. As llama.cpp does,
 * overlong forms and surrogates are taken as they come; anything else that is not UTF-8 gives
 * U+FFFD for one byte. */
uint32_t loam_utf8_decode(const char *p, size_t n, size_t *used);

/* Writes a code point below LOAM_N_CODE_POINTS as UTF-8; returns how many bytes, 1 to 4. */
size_t loam_utf8_encode(uint32_t code_point, char out[4]);

/* Bytes that a character takes by its first byte alone (1 for a continuation byte). */
size_t loam_utf8_length(char first);

/* Whether decoding and encoding again gives the same bytes. */
bool loam_utf8_is_clean(const char *text, size_t n_bytes);

#endif /* LOAM_TEXT_UNICODE_H */
