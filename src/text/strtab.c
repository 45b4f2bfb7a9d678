/* strtab.c: a table from byte strings to numbers. */
#include "text/strtab.h"

#include <string.h>

void loam_strtab_init(loam_strtab *t, const loam_slice **strings)
{
    *t = (loam_strtab){.strings = strings};
}

void loam_strtab_free(loam_strtab *t)
{
    loam_free(t->slots);
    t->slots = NULL;
    t->n = t->n_slots = 0;
}

uint32_t loam_strtab_find(const loam_strtab *t, const char *data, size_t bytes)
{
    if (t->n_slots == 0)
        return LOAM_STRTAB_NONE;
    uint32_t hash = (uint32_t)loam_hash(data, bytes, 0);
    const loam_slice *strings = *t->strings;
    for (uint32_t i = hash;; i++) {
        const loam_strtab_slot *s = &t->slots[i & (t->n_slots - 1)];
        if (s->value_plus_1 == 0)
            return LOAM_STRTAB_NONE;
        if (s->hash != hash)
            continue;
        const loam_slice *have = &strings[s->value_plus_1 - 1];
        if (have->bytes == bytes && memcmp(have->data, data, bytes) == 0)
            return s->value_plus_1 - 1;
    }
}

static void place(loam_strtab_slot *slots, uint32_t n_slots, loam_strtab_slot entry)
{
    uint32_t i = entry.hash;
    while (slots[i & (n_slots - 1)].value_plus_1 != 0)
        i++;
    slots[i & (n_slots - 1)] = entry;
}

static bool grow(loam_strtab *t)
{
    if (t->n_slots > UINT32_MAX / 4)
        return false;
    uint32_t n_slots = t->n_slots ? t->n_slots * 2 : 256;
    loam_strtab_slot *slots = loam_alloc(n_slots * sizeof(*slots));
    if (!slots)
        return false;
    for (uint32_t i = 0; i < t->n_slots; i++) {
        if (t->slots[i].value_plus_1 != 0)
            place(slots, n_slots, t->slots[i]);
    }
    loam_free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    return true;
}

bool loam_strtab_add(loam_strtab *t, uint32_t value)
{
    if (t->n >= t->n_slots / 2 && !grow(t))
        return false;
    const loam_slice *s = &(*t->strings)[value];
    place(t->slots, t->n_slots,
          (loam_strtab_slot){(uint32_t)loam_hash(s->data, s->bytes, 0), value + 1});
    t->n++;
    return true;
}
