/* outputs.c: the files that a run writes are its own: none of them is a file that it reads, and no
 * other run writes them at the same time. */
#include "train/run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Two names of one file: links and paths that are spelt differently too. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Refuses to write any output over `path`, which the run reads as its `what`. */
static loam_status protect(const loam_run *r, const char *path, const char *what)
{
    const char *outputs[] = {r->o->output, r->state_path, r->o->metrics};
    for (int i = 0; path && i < LOAM_COUNT(outputs); i++)
        if (outputs[i] && is_same_file(outputs[i], path))
            return loam_fail(r->e, LOAM_E_USAGE,
                             "'%s' would be written over '%s', which is %s: choose another %s",
                             outputs[i], path, what, i == 2 ? "--metrics" : "-o");
    return LOAM_OK;
}

static loam_status check_metrics(const loam_run *r)
{
    const char *metrics = r->o->metrics;
    loam_file_writer *w;
    if (!metrics)
        return LOAM_OK;
    if (is_same_file(metrics, r->o->output) || is_same_file(metrics, r->state_path))
        return loam_fail(r->e, LOAM_E_USAGE,
                         "--metrics '%s' is where the run writes its adapter or state", metrics);
    struct stat info;
    if (stat(metrics, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return LOAM_OK; /* a pipe or a device takes lines as they come */
    LOAM_TRY(loam_file_writer_open(metrics, &w, r->e));
    loam_file_writer_discard(w);
    return LOAM_OK;
}

/* The lock is a file beside the state, held while the run lives and gone with it. A run that was
 * killed leaves the file, but not the lock. */
static loam_status lock(loam_run *r)
{
    r->lock_path = loam_run_path_beside(r->state_path, "-lock");
    if (!r->lock_path)
        return loam_fail(r->e, LOAM_E_MEMORY, "no memory for a path");
    int fd = open(r->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return loam_fail(r->e, LOAM_E_IO, "cannot write '%s': %s", r->lock_path, strerror(errno));
    struct stat held, there;
    bool is_ours = flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &held) == 0 &&
                   stat(r->lock_path, &there) == 0 && held.st_ino == there.st_ino;
    if (!is_ours) {
        close(fd);
        return loam_fail(r->e, LOAM_E_USAGE,
                         "another run is writing '%s': wait for it, or choose another -o",
                         r->o->output);
    }
    r->lock_fd = fd;
    r->is_locked = true;
    return LOAM_OK;
}

loam_status loam_run_claim_outputs(loam_run *r)
{
    loam_file_writer *w;
    r->state_path = loam_run_path_beside(r->o->output, "-state");
    if (!r->state_path)
        return loam_fail(r->e, LOAM_E_MEMORY, "no memory for a path");
    for (int i = 0; i < loam_gguf_n_shards(r->m->gguf); i++)
        LOAM_TRY(protect(r, loam_gguf_shard_path(r->m->gguf, i), "the model"));
    /* The folder takes files: known before the first step, not after the last. */
    LOAM_TRY(loam_file_writer_open(r->o->output, &w, r->e));
    loam_file_writer_discard(w);
    LOAM_TRY(check_metrics(r));
    return lock(r);
}

loam_status loam_run_protect_data(const loam_run *r)
{
    for (int i = 0; i < r->data->n_files; i++)
        LOAM_TRY(protect(r, r->data->files[i], "the data"));
    for (int i = 0; r->valid && i < r->valid->n_files; i++)
        LOAM_TRY(protect(r, r->valid->files[i], "the validation data"));
    return LOAM_OK;
}

void loam_run_release_outputs(loam_run *r)
{
    if (r->is_locked) {
        unlink(r->lock_path);
        close(r->lock_fd);
    }
    loam_free(r->lock_path);
    loam_free(r->state_path);
}
