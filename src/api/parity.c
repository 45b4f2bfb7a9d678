/* parity.c: the op table of a device, checked. */
#include "api/api.h"

loam_status loam_parity(const loam_parity_options *o,
                        bool (*on_case)(void *user, const loam_parity_case *c), void *user,
                        loam_error *e)
{
    loam_device *device;
    loam_device_options d = {.n_threads = o->n_threads};
    LOAM_TRY(loam_device_open(o->device ? o->device : "cpu", &d, &device, e));
    loam_status status = loam_parity_run(device, o, on_case, user, e);
    loam_device_close(device);
    return status;
}
