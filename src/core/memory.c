/* memory.c: the heap, with failures on demand for tests, and the arena. */
#include "core/core.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ALLOC_ALIGNMENT 64
#define ARENA_ALIGNMENT 16
#define ARENA_CHUNK_BYTES ((size_t)64 * 1024)

/* Allocations that still succeed; negative: all of them do. */
static _Atomic int64_t allocations_left = -1;

void loam_alloc_fail_after(int64_t n)
{
    atomic_store(&allocations_left, n < 0 ? -1 : n);
}

static bool may_allocate(void)
{
    int64_t left = atomic_load_explicit(&allocations_left, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&allocations_left, &left, left - 1))
            return true;
    }
    return left < 0;
}

void *loam_alloc(size_t bytes)
{
    void *p = NULL;
    if (!may_allocate() || posix_memalign(&p, ALLOC_ALIGNMENT, bytes ? bytes : 1) != 0)
        return NULL;
    return memset(p, 0, bytes ? bytes : 1);
}

void *loam_realloc(void *p, size_t bytes)
{
    return may_allocate() ? realloc(p, bytes ? bytes : 1) : NULL;
}

void loam_free(void *p)
{
    free(p);
}

char *loam_strdup(const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = loam_alloc(bytes);
    return copy ? memcpy(copy, s, bytes) : NULL;
}

typedef struct chunk {
    struct chunk *next;
    size_t used_bytes;
    size_t capacity_bytes;
    _Alignas(ARENA_ALIGNMENT) unsigned char bytes[];
} chunk;

struct loam_arena {
    chunk *chunks; /* the first one is the one that small objects go to */
};

loam_arena *loam_arena_new(void)
{
    return loam_alloc(sizeof(loam_arena));
}

void *loam_arena_alloc(loam_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = LOAM_MAX(bytes, (size_t)1);
    need = (need + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    chunk *c = a->chunks;
    if (!c || c->capacity_bytes - c->used_bytes < need) {
        size_t capacity = LOAM_MAX(need, ARENA_CHUNK_BYTES - sizeof(chunk));
        c = loam_alloc(sizeof(chunk) + capacity);
        if (!c)
            return NULL;
        c->capacity_bytes = capacity;
        if (a->chunks && capacity == need) {
            /* A large object fills its own chunk; the current one stays in use. */
            c->next = a->chunks->next;
            a->chunks->next = c;
        } else {
            c->next = a->chunks;
            a->chunks = c;
        }
    }
    void *p = c->bytes + c->used_bytes;
    c->used_bytes += need;
    return p;
}

char *loam_arena_strdup(loam_arena *a, const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = loam_arena_alloc(a, bytes);
    return copy ? memcpy(copy, s, bytes) : NULL;
}

void loam_arena_free(loam_arena *a)
{
    if (!a)
        return;
    for (chunk *c = a->chunks; c;) {
        chunk *next = c->next;
        loam_free(c);
        c = next;
    }
    loam_free(a);
}
