/* build_info.c: what this build was made of. */
#include "api/api.h"

#include <jansson.h>
#include <pthread.h>

#if defined(LOAM_BLAS_ONEDNN)
#include <dnnl.h>
#elif defined(LOAM_BLAS_OPENBLAS)
#include <cblas.h>
#endif

static char info[2048];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *compiler_name(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

/* The library that is loaded, which may be newer than the headers. */
static void products_name(char *text, size_t n_bytes)
{
#if defined(LOAM_BLAS_ONEDNN)
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, n_bytes, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
#elif defined(LOAM_BLAS_OPENBLAS)
    snprintf(text, n_bytes, "%s", openblas_get_config());
#elif defined(LOAM_BLAS_ACCELERATE)
    snprintf(text, n_bytes, "Accelerate");
#else
#error "cmake/blas.cmake defines one of LOAM_BLAS_ONEDNN, _OPENBLAS, _ACCELERATE"
#endif
}

static void make_info(void)
{
    char products[256], devices[256] = "";
    size_t length = 0;
    const char *const *names = loam_device_list();
    products_name(products, sizeof products);
    for (int i = 0; names[i] && length < sizeof devices; i++)
        length += (size_t)snprintf(devices + length, sizeof devices - length, "%s%s", i ? ", " : "",
                                   names[i]);
    snprintf(info, sizeof info,
             "compiler: %s\n"
             "matrix products: %s\n"
             "JSON: jansson %s\n"
             "devices: %s\n",
             compiler_name(), products, JANSSON_VERSION, devices);
}

const char *loam_build_info(void)
{
    pthread_once(&once, make_info);
    return info;
}
