/* rng.c: SplitMix64, after Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014. */
#include "core/core.h"

#include <math.h>
#include <string.h>

#define GOLDEN_GAMMA 0x9e3779b97f4a7c15u

/* The output function: a bijection of 64-bit integers (Stafford's variant 13). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

loam_rng loam_rng_stream(uint64_t seed, const char *name)
{
    return (loam_rng){.state = mix(seed + GOLDEN_GAMMA) ^ loam_hash(name, strlen(name), seed)};
}

uint64_t loam_rng_next(loam_rng *r)
{
    r->state += GOLDEN_GAMMA;
    return mix(r->state);
}

double loam_rng_uniform(loam_rng *r)
{
    return (double)(loam_rng_next(r) >> 11) * 0x1p-53;
}

double loam_rng_normal(loam_rng *r)
{
    /* Box and Muller 1958; the radius takes a uniform from (0, 1] so that its log is finite. */
    double radius = sqrt(-2.0 * log(1.0 - loam_rng_uniform(r)));
    return radius * cos(2.0 * 3.14159265358979323846 * loam_rng_uniform(r));
}

uint64_t loam_rng_below(loam_rng *r, uint64_t n)
{
    LOAM_ASSERT(n > 0);
    /* 2^64 mod n values at the bottom would make some remainders likelier than others. */
    uint64_t reject_below = (0 - n) % n;
    uint64_t x;
    do {
        x = loam_rng_next(r);
    } while (x < reject_below);
    return x % n;
}
