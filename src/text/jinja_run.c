/* jinja_run.c: what every part of a rendering uses: errors, limits, memory, output. */
#include "text/jinja.h"

#include <string.h>

static void write_error(jinja_run *run, loam_status status, const char *format, va_list args)
{
    if (run->status != LOAM_OK)
        return;
    char text[LOAM_MESSAGE_BYTES];
    vsnprintf(text, sizeof text, format, args);
    run->status = status;
    loam_fail(run->error, status, "%s:%u:%u: %s", run->owner->name,
              run->at != NULL ? run->at->line : 1u, run->at != NULL ? run->at->column : 1u, text);
}

jinja_value *jinja_fail(jinja_run *run, loam_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_error(run, status, format, args);
    va_end(args);
    return NULL;
}

bool jinja_refuse(jinja_run *run, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_error(run, LOAM_E_DATA, format, args);
    va_end(args);
    return false;
}

void *jinja_alloc(jinja_run *run, size_t bytes)
{
    size_t limit = run->limits->max_memory_bytes;
    if (bytes > limit || run->memory_bytes > limit - bytes)
        return jinja_fail(run, LOAM_E_DATA,
                          "the memory limit was reached: the values of one rendering would take "
                          "more than max_memory_bytes = %zu",
                          limit);
    void *memory = loam_arena_alloc(run->arena, bytes);
    if (memory == NULL)
        return jinja_fail(run, LOAM_E_MEMORY, "out of memory rendering the template");
    run->memory_bytes += bytes + 16;
    return memory;
}

bool jinja_step(jinja_run *run, uint64_t n)
{
    if (n <= run->limits->max_steps && run->steps <= run->limits->max_steps - n) {
        run->steps += n;
        return true;
    }
    run->steps = run->limits->max_steps;
    return jinja_refuse(run,
                        "the step limit was reached: the template takes more than "
                        "max_steps = %llu",
                        (unsigned long long)run->limits->max_steps);
}

bool jinja_scan(jinja_run *run, size_t bytes)
{
    return jinja_step(run, bytes / 16 + 1);
}

bool jinja_enter(jinja_run *run)
{
    if (run->depth < run->limits->max_depth) {
        run->depth++;
        return true;
    }
    return jinja_refuse(run,
                        "the depth limit was reached: expressions, blocks, calls or values "
                        "nest deeper than max_depth = %d",
                        run->limits->max_depth);
}

bool jinja_emit(jinja_run *run, const char *data, size_t bytes)
{
    size_t used = run->out->length_bytes - run->out_begin;
    size_t limit = run->limits->max_output_bytes;
    if (bytes > limit || used > limit - bytes)
        return jinja_refuse(run,
                            "the output limit was reached: the text would take more than "
                            "max_output_bytes = %zu",
                            limit);
    if (bytes > 0)
        loam_string_append(run->out, data, bytes);
    if (run->out->failed)
        return jinja_fail(run, LOAM_E_MEMORY, "out of memory for the rendered text") != NULL;
    return jinja_scan(run, bytes);
}

bool jinja_emit_text(jinja_run *run, const char *text)
{
    return jinja_emit(run, text, strlen(text));
}

size_t jinja_mark(const jinja_run *run)
{
    return run->out->length_bytes;
}

/* Cuts the output back to the mark. */
static void cut(jinja_run *run, size_t mark)
{
    if (run->out->data == NULL)
        return;
    run->out->length_bytes = mark;
    run->out->data[mark] = '\0';
}

jinja_value *jinja_take(jinja_run *run, size_t mark)
{
    size_t bytes = run->out->length_bytes - mark;
    if (bytes == 0)
        return run->empty;
    char *text = jinja_alloc(run, bytes);
    if (text == NULL)
        return NULL;
    memcpy(text, run->out->data + mark, bytes);
    cut(run, mark);
    return jinja_string(run, text, bytes);
}
