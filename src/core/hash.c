/* hash.c: XXH3. */
#include "core/core.h"

#include <xxhash.h>

uint64_t loam_hash(const void *bytes, size_t n_bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, n_bytes, seed);
}
