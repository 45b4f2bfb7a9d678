/* index.c: a hash table with open addressing, at most half full. */
#include "gguf/format.h"

#include <string.h>

bool loam_index_init(loam_index *index, loam_arena *arena, size_t n)
{
    size_t capacity = 4;
    while (capacity / 2 < n)
        capacity *= 2;
    *index = (loam_index){loam_arena_alloc(arena, capacity * sizeof *index->slots), capacity - 1};
    if (!index->slots)
        return false;
    for (size_t i = 0; i < capacity; i++)
        index->slots[i].value = -1;
    return true;
}

/* The slot that holds the name, or the free one where it belongs. */
static loam_index_slot *slot_of(const loam_index *index, loam_slice name)
{
    size_t i = (size_t)loam_hash(name.data, name.bytes, 0) & index->mask;
    for (;; i = (i + 1) & index->mask) {
        loam_index_slot *slot = &index->slots[i];
        if (slot->value < 0 ||
            (slot->name.bytes == name.bytes && memcmp(slot->name.data, name.data, name.bytes) == 0))
            return slot;
    }
}

int64_t loam_index_add(loam_index *index, loam_slice name, int64_t value)
{
    loam_index_slot *slot = slot_of(index, name);
    if (slot->value >= 0)
        return slot->value;
    *slot = (loam_index_slot){name, value};
    return -1;
}

int64_t loam_index_find(const loam_index *index, loam_slice name)
{
    return slot_of(index, name)->value;
}
