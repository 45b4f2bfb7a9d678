/* template.h: chat templates. A model's GGUF carries its chat format as a Jinja template
 * (tokenizer.chat_template); this renders a conversation with it, as the programs that serve the
 * model do, and finds where the assistant's turns lie in the rendered text.
 *
 * The language is Jinja2 3.1 with Python's semantics, configured as the transformers library
 * configures it: trim_blocks and lstrip_blocks on, no autoescape, the loop controls break and
 * continue, {% generation %} blocks, raise_exception, strftime_now, and a tojson that escapes
 * nothing for HTML. Left out, and refused by name: extends, block, include, import. Integers have
 * 64 bits; an overflow is an error. */
#ifndef LOAM_TEXT_TEMPLATE_H
#define LOAM_TEXT_TEMPLATE_H

#include "core/core.h"

#include <jansson.h>

typedef struct loam_template loam_template;

/* Parses `source` (UTF-8, `bytes` long, not kept). `name` stands before line and column in every
 * message: a file's path, or the model's. Errors: LOAM_E_FORMAT with line, column, what was found
 * and what was expected; LOAM_E_MEMORY. An unknown filter, test or function is no parse error: a
 * template may hold one in a branch that never runs. */
loam_status loam_template_create(const char *source, size_t bytes, const char *name,
                                 loam_template **out, loam_error *e);
void loam_template_free(loam_template *t); /* NULL is fine */

/* What one rendering may use, and the clock it sees. Reaching a limit is LOAM_E_DATA, with the
 * limit's name, line and column. */
typedef struct loam_template_limits {
    int max_depth;      /* nesting of expressions, blocks, macro calls and values */
    uint64_t max_steps; /* nodes evaluated, items visited, and 1 for each 16 bytes scanned */
    size_t max_output_bytes;
    size_t max_memory_bytes; /* all intermediate values of one rendering */
    int64_t clock_s;         /* strftime_now's wall clock, in seconds since 1970-01-01 00:00 on
                              * that clock (Unix time plus the zone's offset) */
    /* strip, lstrip and rstrip with an argument remove whitespace instead of the characters named,
     * as @huggingface/jinja does (to 0.5.11 at least), which LM Studio serves with. */
    bool strip_ignores_characters;
} loam_template_limits;

/* Depth 500, 20 million steps, 64 MiB of output, 256 MiB of values, the local time now. */
loam_template_limits loam_template_limits_default(void);

/* Appends the rendering to `out`. `variables` is a JSON object (messages, tools, bos_token,
 * add_generation_prompt, ...) and is not changed; `limits` may be NULL for the defaults. A template
 * may be rendered by several threads at once. On failure `out` is as it was. Errors: LOAM_E_DATA
 * (raise_exception's message, an operation Python refuses, a limit), LOAM_E_UNSUPPORTED (an unknown
 * filter, test or method), LOAM_E_MEMORY. */
loam_status loam_template_render(const loam_template *t, const json_t *variables,
                                 const loam_template_limits *limits, loam_string *out,
                                 loam_error *e);

/* One assistant turn: the bytes [begin, end) of the rendered text that the model has to produce,
 * which is the message's text as rendered and its end-of-turn marker. */
typedef struct loam_template_span {
    size_t begin_bytes;
    size_t end_bytes;
    size_t message_index;
} loam_template_span;

/* Grows; start from {0}. */
typedef struct loam_template_span_list {
    loam_template_span *items;
    size_t n;
    size_t capacity;
} loam_template_span_list;
void loam_template_span_list_free(loam_template_span_list *list);

/* Appends to `text` the rendering of the whole conversation (add_generation_prompt false), and to
 * `spans` one span for each message whose role is "assistant", in order; offsets count from where
 * this rendering begins. `messages` is a JSON array; `variables` (an object, or NULL) holds the
 * rest: tools, bos_token, ... its "messages" and "add_generation_prompt" are not looked at.
 *
 * The turn i begins where the rendering of the messages before it with add_generation_prompt ends,
 * and ends with the last byte that is not whitespace of the rendering of messages 0..i: the newline
 * that ChatML puts after <|im_end|> is not the model's to say, and neither is an eos_token that the
 * template writes only where no answer is asked for. Both renderings are verified to be
 * prefixes of the whole text. A template for which they are not (it rewrites earlier turns, or its
 * generation prompt is not how its assistant turns begin), or which ignores add_generation_prompt
 * and writes a role header into the turn, is LOAM_E_DATA with the message's index and the reason.
 * On failure `text` and `spans` are as they were. */
loam_status loam_template_spans(const loam_template *t, const json_t *messages,
                                const json_t *variables, const loam_template_limits *limits,
                                loam_string *text, loam_template_span_list *spans, loam_error *e);

#endif /* LOAM_TEXT_TEMPLATE_H */
