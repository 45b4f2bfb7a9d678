/* random.c: valid random data of any type, for tests and benchmarks. */
#include "tensor/encode.h"

#include <math.h>

#define CHUNK LOAM_MAX_BLOCK_NE /* a multiple of every type's block */

/* Types that Loam does not encode: every bit pattern is valid but for the block's half scale. */

static void random_bytes(loam_rng *rng, uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(loam_rng_next(rng) >> 56);
}

static void store_block_scale(loam_type type, uint8_t *block, float d)
{
    uint8_t half[2];
    loam_store_f16(half, d);
    if (type == LOAM_TYPE_IQ1_M) {
        uint8_t *scales = ((loam_block_iq1_m *)block)->scales;
        for (int k = 0; k < 4; k++) {
            const int nibble = half[k / 2] >> (4 * (k % 2)) & 15;
            scales[2 * k + 1] = (uint8_t)((scales[2 * k + 1] & 15) | nibble << 4);
        }
        return;
    }
    memcpy(block, half, sizeof half); /* d is the first field of the other such types */
}

static void random_block(loam_type type, const loam_type_info *info, loam_rng *rng, float scale,
                         uint8_t *block)
{
    float x[LOAM_MAX_BLOCK_NE];
    double sum = 0.0;
    random_bytes(rng, block, info->block_bytes);
    store_block_scale(type, block, 1.0f);
    info->decode(block, x, info->block_ne);
    for (int64_t i = 0; i < info->block_ne; i++)
        sum += (double)x[i] * (double)x[i];
    const double rms = sqrt(sum / (double)info->block_ne);
    store_block_scale(type, block, (float)((double)scale / rms));
}

loam_status loam_random_fill(loam_type type, loam_rng *rng, float scale, void *blocks, int64_t n,
                             loam_error *e)
{
    const loam_type_info *info = loam_type_get(type);
    if (info == NULL || n < 0 || n % info->block_ne != 0 || !isfinite(scale))
        return loam_fail(e, LOAM_E_USAGE,
                         "random fill of %lld elements of type %d (%s) and scale %g: the type must "
                         "exist, the count be whole blocks of it, the scale finite",
                         (long long)n, (int)type, loam_type_name(type), (double)scale);
    uint8_t *p = blocks;
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t count = LOAM_MIN(n - done, (int64_t)CHUNK);
        const size_t bytes = loam_row_bytes(type, count);
        if (info->encode == NULL) {
            random_block(type, info, rng, scale, p);
        } else {
            const double limit = type == LOAM_TYPE_F16 ? 65504.0 : 1e38;
            float x[CHUNK];
            for (int64_t i = 0; i < count; i++) {
                const double v = (double)scale * loam_rng_normal(rng);
                x[i] = (float)(v > limit ? limit : v < -limit ? -limit : v);
            }
            info->encode(x, p, count);
        }
        p += bytes;
    }
    return LOAM_OK;
}
