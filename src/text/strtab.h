/* strtab.h: a table from byte strings to numbers. Private to text/. */
#ifndef LOAM_TEXT_STRTAB_H
#define LOAM_TEXT_STRTAB_H

#include "gguf/gguf.h"

/* Open addressing; the strings belong to the caller and must outlive the table. Start from {0}. */
typedef struct loam_strtab_slot {
    uint32_t hash;
    uint32_t value_plus_1; /* 0: free */
} loam_strtab_slot;

typedef struct loam_strtab {
    loam_strtab_slot *slots;
    const loam_slice **strings; /* of the caller: value v has the string (*strings)[v] */
    uint32_t n;
    uint32_t n_slots; /* a power of 2, or 0 */
} loam_strtab;

#define LOAM_STRTAB_NONE UINT32_MAX

/* `strings` is where the caller keeps its array of strings; the array may move. */
void loam_strtab_init(loam_strtab *t, const loam_slice **strings);
/* The value of a string, or LOAM_STRTAB_NONE. */
uint32_t loam_strtab_find(const loam_strtab *t, const char *data, size_t bytes);
/* Adds (*strings)[value], which must not be in the table. False when memory ran out. */
bool loam_strtab_add(loam_strtab *t, uint32_t value);
void loam_strtab_free(loam_strtab *t);

#endif /* LOAM_TEXT_STRTAB_H */
