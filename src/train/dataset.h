/* dataset.h: what the files that read data sets share. Everyone else includes train.h.
 *
 * dataset.c         options, files, the set as a whole
 * dataset_source.c  what a --data argument names; the bytes of a file
 * dataset_add.c     one example's tokens into the set: BOS, lengths, masks
 * dataset_view.c    splitting, hashing and showing a set
 * format.c          JSONL and JSON arrays: lines, errors, which format a record has
 * format_text.c     {"text"}, {"prompt", "completion"}, {"instruction", ...}, plain text
 * format_chat.c     {"messages"} and {"conversations"} through the chat template */
#ifndef LOAM_TRAIN_DATASET_H
#define LOAM_TRAIN_DATASET_H

#include "train/train.h"

typedef enum loam_data_format {
    LOAM_DATA_AUTO,
    LOAM_DATA_MESSAGES,
    LOAM_DATA_CONVERSATIONS,
    LOAM_DATA_INSTRUCTION,
    LOAM_DATA_COMPLETION,
    LOAM_DATA_TEXT,
    LOAM_DATA_PLAIN
} loam_data_format;

/* The tokens of the example being made. */
typedef struct loam_draft {
    int32_t *ids;
    uint8_t *trained;
    int64_t n, capacity;
    int64_t n_bos; /* tokens put before those of `loader.tokens`: 0 or 1 */
} loam_draft;

typedef struct loam_loader {
    const loam_tokenizer *tokenizer;
    loam_data_options o; /* max_seq_length is at least 2 */
    loam_data_format format;
    loam_template *chat; /* NULL: the model has none */
    bool chat_is_own;    /* the model has a template; else it is Loam's ChatML */
    json_t *variables;   /* bos_token, eos_token */
    loam_template_limits limits;

    loam_dataset *set;
    int64_t token_capacity, example_capacity;

    loam_tokens tokens; /* of the text of one example */
    loam_draft draft;
    loam_string text, before, after;
    loam_template_span_list spans;

    const char *file_name;
    int32_t file;
    int64_t line;      /* of the record being read */
    int64_t n_records; /* so far */
    loam_error first_bad;
    loam_error *e; /* of the record being read */
} loam_loader;

/* ---- dataset_source.c --------------------------------------------------------------------- */

typedef struct loam_data_source {
    char *path; /* "-": standard input */
    double weight;
} loam_data_source;

/* Cuts "a.jsonl@2,b.jsonl" into sources; a path that exists as it is written is one source, and a
 * directory stands for its train.jsonl. Free with the call below, after a failure too. */
loam_status loam_data_sources(const char *argument, loam_data_source **out, int *n, loam_error *e);
void loam_data_sources_free(loam_data_source *sources, int n);

/* The bytes of a file: mapped, or read where it is a pipe or standard input. */
typedef struct loam_data_bytes {
    const char *data;
    size_t n;
    loam_map map;
    char *read; /* NULL: mapped */
} loam_data_bytes;
loam_status loam_data_bytes_open(const char *path, loam_data_bytes *out, loam_error *e);
void loam_data_bytes_close(loam_data_bytes *b);

/* ---- dataset_add.c ------------------------------------------------------------------------ */

/* Tokenizes a text into l->tokens and l->draft, special tokens parsed, nothing trained yet. One BOS
 * stands at the start where the model wants one, whether the text brings it or not. */
loam_status loam_data_tokenize(loam_loader *l, const char *text, size_t n_bytes);
/* Marks the draft's tokens that begin in bytes [begin, end) of the text. A token that straddles an
 * edge is decided by its first byte. */
void loam_data_mark(loam_loader *l, size_t begin_bytes, size_t end_bytes);
/* Ends the draft with a trained EOS unless it ends with a token that ends a generation already. */
loam_status loam_data_end(loam_loader *l);
/* Adds the draft as an example, or as what options.overlong makes of it. */
loam_status loam_data_add(loam_loader *l);
/* Adds the draft in pieces of at most max_seq_length tokens. Each piece after the first begins with
 * the BOS if the draft does, else with the last token of the piece before it, so that every token
 * but the draft's first is predicted exactly once. `text`, where not NULL, is what l->tokens was
 * made from, and a piece's line is the one where it begins. */
loam_status loam_data_add_pieces(loam_loader *l, const char *text);

/* Takes back what was added to a set since `before` was copied from it. */
void loam_data_restore(loam_dataset *d, const loam_dataset *before);

/* ---- dataset_view.c ----------------------------------------------------------------------- */

/* Fills the summary's sums and the hash from the examples. Examples that share their tokens
 * (copies, which stand next to each other) count each. */
void loam_dataset_count(loam_dataset *d);
/* Moves tokens that no example holds out of the arrays. The examples' tokens are in their order. */
void loam_dataset_compact(loam_dataset *d);

/* ---- format.c ----------------------------------------------------------------------------- */

loam_status loam_data_format_find(const char *name, loam_data_format *out, loam_error *e);

/* Reads a whole file into the set. */
loam_status loam_data_read(loam_loader *l, const char *data, size_t n_bytes);

/* Fails with LOAM_E_DATA and "file:line: " before the message. */
loam_status loam_data_refuse(loam_loader *l, const char *format, ...) LOAM_PRINTF(2, 3);
loam_status loam_data_no_memory(loam_loader *l);
/* The string of a key: missing keys and other types are refused; `where` names the object ("",
 * "messages[2]."). */
loam_status loam_data_string(loam_loader *l, const json_t *object, const char *where,
                             const char *key, const char **out);
bool loam_data_is_blank(const char *s);
/* "a, b, c": the keys of an object, for messages; cut where they are many. */
const char *loam_data_keys(const json_t *object, char *out, size_t n_bytes);
/* Whether parsing failed for want of memory and not because of syntax. */
bool loam_data_json_failed(const json_error_t *je);
const char *loam_data_type_name(const json_t *value);

/* ---- format_text.c ------------------------------------------------------------------------ */

loam_status loam_data_read_plain(loam_loader *l, const char *data, size_t n_bytes);
loam_status loam_data_text(loam_loader *l, const json_t *record);
loam_status loam_data_completion(loam_loader *l, const json_t *record);
loam_status loam_data_instruction(loam_loader *l, const json_t *record);

/* ---- format_chat.c ------------------------------------------------------------------------ */

loam_status loam_data_messages(loam_loader *l, const json_t *record);
loam_status loam_data_conversations(loam_loader *l, const json_t *record);
/* A conversation of at most one system turn (or NULL), a user turn and an assistant turn. */
loam_status loam_data_exchange(loam_loader *l, const char *system, const char *user,
                               const char *assistant);

#endif /* LOAM_TRAIN_DATASET_H */
