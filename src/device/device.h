/* device.h: the contract between the graph and what computes it.
 *
 * A device owns buffers, says node by node whether it can run it (a no comes with a reason), says
 * how much scratch a node needs, and runs lists of nodes in order. It starts full of the op
 * table's references or refuses; it never decides where a node runs. */
#ifndef LOAM_DEVICE_H
#define LOAM_DEVICE_H

#include "core/core.h"
#include "op/op.h"

typedef struct loam_device loam_device;

/* Memory of a device. `host` is the address of its first byte where the host can use it. */
struct loam_buffer {
    loam_device *device;
    void *host;
    void *handle; /* the device's own */
    size_t bytes;
    bool is_mapped; /* the file's map or the caller's memory: not the device's to free */
};

typedef struct loam_device_options {
    int n_threads;               /* CPU: 0 for all cores */
    loam_compute compute;        /* CPU default: F32 */
    size_t decode_scratch_bytes; /* largest decoded piece of a weight; 0: the device's default */
    int index;                   /* which card */
} loam_device_options;

typedef struct loam_device_memory {
    size_t free_bytes;
    size_t total_bytes;
} loam_device_memory;

#define LOAM_REASON_BYTES 160

/* Filled by each device; every function is set. */
typedef struct loam_device_api {
    const char *kind; /* "cpu", "cuda", "metal", "reference" */
    void (*close)(loam_device *d);
    const char *(*description)(const loam_device *d);
    loam_status (*memory)(loam_device *d, loam_device_memory *out, loam_error *e);

    /* Zeroed. */
    loam_status (*buffer_alloc)(loam_device *d, size_t bytes, loam_buffer **out, loam_error *e);
    /* A buffer over host memory (a model's map) without a copy where the device can. */
    loam_status (*buffer_map)(loam_device *d, const void *host, size_t bytes, loam_buffer **out,
                              loam_error *e);
    void (*buffer_free)(loam_buffer *b);
    loam_status (*buffer_write)(loam_buffer *b, size_t offset_bytes, const void *src, size_t bytes,
                                loam_error *e);
    loam_status (*buffer_read)(loam_buffer *b, size_t offset_bytes, void *dst, size_t bytes,
                               loam_error *e);

    /* May the node run here? If not, `reason` (LOAM_REASON_BYTES) says why. */
    bool (*supports)(const loam_device *d, const loam_node *n, char *reason);
    /* Scratch the node needs while it runs; the plan provides the largest of a list. */
    size_t (*scratch_bytes)(const loam_device *d, const loam_node *n);
    /* Runs nodes in order; storage is bound, scratch holds at least the largest request. */
    loam_status (*run)(loam_device *d, loam_node *const *nodes, int n_nodes, loam_buffer *scratch,
                       loam_error *e);
    loam_status (*synchronize)(loam_device *d, loam_error *e);
    /* Lowers the largest decoded piece of a weight (loam_device_options.decode_scratch_bytes), so
     * that checks reach several row blocks with small weights; 0 restores the device's default. A
     * device that decodes nothing to memory does nothing. Asked before scratch_bytes and run. */
    void (*set_scratch_limit)(loam_device *d, size_t bytes);
} loam_device_api;

struct loam_device {
    const loam_device_api *api;
};

/* cpu/cpu.c: the CPU. */
loam_status loam_device_cpu_open(const loam_device_options *o, loam_device **out, loam_error *e);
/* reference.c: runs the references alone, one thread; the oracle of parity and of checks. */
loam_status loam_device_reference_open(loam_device **out, loam_error *e);

/* cuda/ and metal/, where the build defines LOAM_DEVICE_CUDA and LOAM_DEVICE_METAL. */
loam_status loam_device_cuda_open(const loam_device_options *o, loam_device **out, loam_error *e);
loam_status loam_device_metal_open(const loam_device_options *o, loam_device **out, loam_error *e);

/* Opens a device by name: "cpu", "reference", and what the build holds ("cuda:1", "metal"). The
 * number after the colon is options.index. `o` may be NULL for all defaults. */
loam_status loam_device_open(const char *name, const loam_device_options *o, loam_device **out,
                             loam_error *e);
void loam_device_close(loam_device *d); /* NULL is fine */

/* The names loam_device_open takes in this build, NULL-terminated. */
const char *const *loam_device_names(void);

loam_status loam_buffer_alloc(loam_device *d, size_t bytes, loam_buffer **out, loam_error *e);
void loam_buffer_free(loam_buffer *b); /* NULL is fine */
loam_status loam_buffer_write(loam_buffer *b, size_t offset_bytes, const void *src, size_t bytes,
                              loam_error *e);
loam_status loam_buffer_read(loam_buffer *b, size_t offset_bytes, void *dst, size_t bytes,
                             loam_error *e);

/* host_buffer.c: the buffer functions of loam_device_api for devices that compute in host memory.
 * Mapping takes no copy; the map stays read-only by agreement, since no node writes a weight. */
loam_status loam_host_buffer_alloc(loam_device *d, size_t bytes, loam_buffer **out, loam_error *e);
loam_status loam_host_buffer_map(loam_device *d, const void *host, size_t bytes, loam_buffer **out,
                                 loam_error *e);
void loam_host_buffer_free(loam_buffer *b);
loam_status loam_host_buffer_write(loam_buffer *b, size_t offset_bytes, const void *src,
                                   size_t bytes, loam_error *e);
loam_status loam_host_buffer_read(loam_buffer *b, size_t offset_bytes, void *dst, size_t bytes,
                                  loam_error *e);

/* Binds a leaf (or any root node) to memory: sets buffer, offset and, for host memory, t.data. */
void loam_node_bind(loam_node *n, loam_buffer *b, size_t offset_bytes);

#endif /* LOAM_DEVICE_H */
