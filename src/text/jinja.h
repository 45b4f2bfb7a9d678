/* jinja.h: the Jinja engine behind template.h. Private to src/text.
 *
 * source --jinja_lex--> tokens --jinja_parse--> tree, kept in the template's arena;
 * jinja_execute walks the tree, with values in an arena that lives as long as the rendering.
 *
 * In a rendering, a function that returns a jinja_value * returns NULL, and one that returns bool
 * returns false, after an error was written to the run; callers hand it on. Strings are UTF-8,
 * lengths and indices that templates see count code points. */
#ifndef LOAM_TEXT_JINJA_H
#define LOAM_TEXT_JINJA_H

#include "text/template.h"

typedef struct jinja_value jinja_value;
typedef struct jinja_node jinja_node;
typedef struct jinja_run jinja_run;

/* ---- names and values --------------------------------------------------------------------- */

typedef struct jinja_name {
    const char *data;
    size_t bytes;
} jinja_name;

typedef enum jinja_kind {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOLEAN,
    JINJA_INTEGER,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST, /* every sequence that is not a string; jinja_sequence tells which */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_MACRO,
    JINJA_FUNCTION, /* a built-in function, or a method bound to its object */
    JINJA_LOOP,
    JINJA_CYCLER,
    JINJA_JOINER
} jinja_kind;

typedef enum jinja_sequence {
    JINJA_SEQ_LIST,
    JINJA_SEQ_TUPLE,
    JINJA_SEQ_GROUP, /* groupby's (grouper, list) */
    JINJA_SEQ_RANGE,
    JINJA_SEQ_KEYS, /* dict views are snapshots here */
    JINJA_SEQ_VALUES,
    JINJA_SEQ_ITEMS,
    JINJA_SEQ_GENERATOR /* empty once it was iterated; always true; has no length */
} jinja_sequence;

typedef struct jinja_entry {
    jinja_value *key;
    jinja_value *value;
    uint64_t hash;
} jinja_entry;

/* Insertion-ordered. `index` (open addressing, entry number + 1) exists from 9 entries on. */
typedef struct jinja_dict {
    jinja_entry *entries;
    size_t n;
    size_t capacity;
    uint32_t *index;
    size_t index_size;
} jinja_dict;

typedef struct jinja_variable {
    const jinja_name *name;
    jinja_value *value;
    struct jinja_variable *next;
} jinja_variable;

/* Lookup goes through the parents, then the variables of the rendering, then the functions. */
typedef struct jinja_scope {
    struct jinja_scope *parent;
    jinja_variable *first;
} jinja_scope;

/* The arguments of one call. */
typedef struct jinja_args {
    jinja_value **positional;
    size_t n_positional;
    jinja_dict named; /* keys are strings */
} jinja_args;

/* A built-in filter, test, function or method. `self` is the filtered value, the tested value, the
 * object, or NULL for a function. `arg` has one entry for each name in `parameters`, NULL where it
 * was not given; variadic built-ins (parameters NULL) read `raw`. */
typedef jinja_value *(*jinja_callback)(jinja_run *run, jinja_value *self, jinja_value **arg,
                                       const jinja_args *raw);
typedef struct jinja_builtin {
    const char *name; /* NULL ends a table */
    jinja_callback call;
    int n_required;
    const char *parameters; /* names in order, one space between them, at most 6 */
} jinja_builtin;

typedef struct jinja_loop {
    const jinja_node *node; /* the for statement */
    jinja_scope *scope;     /* around it */
    jinja_value **items;
    size_t n;
    size_t index;
    int64_t depth; /* of a recursive loop, from 0 */
    jinja_value *last_changed;
} jinja_loop;

struct jinja_value {
    jinja_kind kind;
    jinja_sequence sequence; /* of a JINJA_LIST */
    union {
        struct { /* what was missing, and of what type of object (NULL: a variable) */
            const char *name;
            size_t bytes;
            const char *owner;
        } undefined;
        bool boolean;
        int64_t integer;
        double number;
        struct {
            const char *data;
            size_t bytes;
        } string;
        struct {
            jinja_value **items;
            size_t n;
            size_t capacity;
        } list;
        jinja_dict *dict; /* of a dict or a namespace */
        struct {
            const jinja_node *node; /* a macro, or a call block */
            jinja_scope *scope;     /* where it was defined */
        } macro;
        struct {
            const jinja_builtin *builtin;
            jinja_value *self;
        } function;
        jinja_loop *loop;
        struct {
            jinja_value **items;
            size_t n;
            size_t at;
        } cycler;
        struct {
            jinja_value *separator;
            bool used;
        } joiner;
    } as;
};

/* ---- tokens (jinja_lex.c) ------------------------------------------------------------------ */

typedef enum jinja_token_kind {
    JINJA_TOKEN_END,
    JINJA_TOKEN_TEXT,
    JINJA_TOKEN_BLOCK_BEGIN,
    JINJA_TOKEN_BLOCK_END,
    JINJA_TOKEN_OUTPUT_BEGIN,
    JINJA_TOKEN_OUTPUT_END,
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_STRING,
    JINJA_TOKEN_INTEGER,
    JINJA_TOKEN_FLOAT,
    JINJA_TOKEN_OPERATOR
} jinja_token_kind;

typedef enum jinja_op {
    JINJA_OP_NONE,
    JINJA_OP_ADD,
    JINJA_OP_SUB,
    JINJA_OP_MUL,
    JINJA_OP_DIV,
    JINJA_OP_FLOORDIV,
    JINJA_OP_MOD,
    JINJA_OP_POW,
    JINJA_OP_EQ,
    JINJA_OP_NE,
    JINJA_OP_LT,
    JINJA_OP_LE,
    JINJA_OP_GT,
    JINJA_OP_GE,
    JINJA_OP_IN,
    JINJA_OP_NOT_IN,
    JINJA_OP_ASSIGN,
    JINJA_OP_TILDE,
    JINJA_OP_PIPE,
    JINJA_OP_DOT,
    JINJA_OP_COMMA,
    JINJA_OP_COLON,
    JINJA_OP_SEMICOLON,
    JINJA_OP_LPAREN,
    JINJA_OP_RPAREN,
    JINJA_OP_LBRACKET,
    JINJA_OP_RBRACKET,
    JINJA_OP_LBRACE,
    JINJA_OP_RBRACE
} jinja_op;

typedef struct jinja_token {
    jinja_token_kind kind;
    jinja_op op;
    uint32_t line;
    uint32_t column;  /* in code points, from 1 */
    const char *data; /* text, name, or the token as written */
    size_t bytes;
    int64_t integer;
    double number;
} jinja_token;

/* What lexer and parser share: where memory comes from and where the error goes. */
typedef struct jinja_source {
    const char *name;
    const char *data; /* newlines are \n, one trailing newline is gone */
    size_t bytes;
    loam_arena *arena;
    loam_error *error;
} jinja_source;

loam_status jinja_syntax_error(const jinja_source *s, uint32_t line, uint32_t column,
                               const char *format, ...) LOAM_PRINTF(4, 5);

/* *tokens (loam_free it, also after an error) ends with one JINJA_TOKEN_END. */
loam_status jinja_lex(const jinja_source *s, jinja_token **tokens, size_t *n);

/* ---- tree (jinja_parse.c, jinja_parse_expression.c) ---------------------------------------- */

typedef enum jinja_node_kind {
    /* expressions */
    JINJA_NODE_CONSTANT, /* also a statement: text between the tags */
    JINJA_NODE_NAME,
    JINJA_NODE_LIST,   /* children */
    JINJA_NODE_TUPLE,  /* children */
    JINJA_NODE_DICT,   /* children: key, value, key, value, ... */
    JINJA_NODE_CONCAT, /* children */
    JINJA_NODE_NEGATE, /* binary.left */
    JINJA_NODE_PLUS,   /* binary.left */
    JINJA_NODE_NOT,    /* binary.left */
    JINJA_NODE_AND,
    JINJA_NODE_OR,
    JINJA_NODE_BINARY,
    JINJA_NODE_COMPARE,      /* compare.left and a list of JINJA_NODE_COMPARE_STEP */
    JINJA_NODE_COMPARE_STEP, /* binary.op, binary.right */
    JINJA_NODE_CONDITIONAL,
    JINJA_NODE_ATTRIBUTE,
    JINJA_NODE_SUBSCRIPT,
    JINJA_NODE_SLICE,
    JINJA_NODE_CALL,
    JINJA_NODE_FILTER,
    JINJA_NODE_TEST,
    JINJA_NODE_ARGUMENT,  /* of a call */
    JINJA_NODE_NS_TARGET, /* ns.attribute as a target of set; an attribute node otherwise */
    /* statements */
    JINJA_NODE_OUTPUT, /* block.value */
    JINJA_NODE_IF,     /* children: JINJA_NODE_BRANCH */
    JINJA_NODE_BRANCH, /* block.value (NULL: else) and block.body */
    JINJA_NODE_FOR,
    JINJA_NODE_SET,       /* block.target, block.value */
    JINJA_NODE_SET_BLOCK, /* block.target, block.body, block.value: filters or NULL */
    JINJA_NODE_MACRO,
    JINJA_NODE_PARAMETER,    /* parameter of a macro */
    JINJA_NODE_CALL_BLOCK,   /* macro, with macro.call */
    JINJA_NODE_FILTER_BLOCK, /* block.value, block.body */
    JINJA_NODE_WITH,         /* block.target: list of JINJA_NODE_SET; block.body */
    JINJA_NODE_SCOPE,        /* block.body */
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE
} jinja_node_kind;

typedef enum jinja_argument_kind {
    JINJA_ARGUMENT_POSITIONAL,
    JINJA_ARGUMENT_NAMED,
    JINJA_ARGUMENT_STAR,
    JINJA_ARGUMENT_STAR_STAR
} jinja_argument_kind;

struct jinja_node {
    jinja_node_kind kind;
    uint32_t line;
    uint32_t column;
    jinja_node *next; /* the next of a list */
    union {
        jinja_value *constant;
        jinja_name name;
        jinja_node *children;
        struct {
            jinja_op op;
            jinja_node *left;
            jinja_node *right;
        } binary;
        struct {
            jinja_node *left;
            jinja_node *steps;
        } compare;
        struct {
            jinja_node *condition;
            jinja_node *yes;
            jinja_node *no; /* NULL: undefined */
        } conditional;
        struct {
            jinja_node *object;
            jinja_name name;
            jinja_value *key; /* the name as a string */
        } attribute;
        struct {
            jinja_node *object;
            jinja_node *index;
        } subscript;
        struct {
            jinja_node *start; /* each may be NULL */
            jinja_node *stop;
            jinja_node *step;
        } slice;
        struct {                /* a call; a filter or a test with its name */
            jinja_node *object; /* NULL: the body of a filter block */
            jinja_node *arguments;
            jinja_name name;
            const jinja_builtin *builtin; /* of a filter or test; NULL: unknown */
        } call;
        struct {
            jinja_argument_kind kind;
            jinja_value *name; /* a string, of a named one */
            jinja_node *value;
        } argument;
        struct {
            jinja_node *target;
            jinja_node *value;
            jinja_node *body;
        } block;
        struct {
            jinja_node *target;
            jinja_node *iterable;
            jinja_node *condition; /* or NULL */
            jinja_node *body;
            jinja_node *otherwise;
            bool recursive;
        } loop;
        struct {
            jinja_name name;
            jinja_node *parameters;
            jinja_node *body;
            jinja_node *call; /* of a call block */
            bool takes_varargs;
            bool takes_kwargs;
            bool takes_caller;
        } macro;
        struct {
            jinja_name name;
            jinja_value *key;     /* the name as a string */
            jinja_node *fallback; /* or NULL */
        } parameter;
    } as;
};

#define JINJA_MAX_PARSE_DEPTH 200

typedef struct jinja_parser {
    const jinja_source *source;
    jinja_token *tokens;
    size_t at;
    int depth;
    int loops;         /* open for statements in this macro */
    jinja_node *macro; /* the open macro, or NULL */
} jinja_parser;

/* Parses the whole template into a list of statements (NULL where it is empty). */
loam_status jinja_parse(const jinja_source *s, jinja_node **body);

/* Between the two parser files. Parse functions return NULL after an error. */
jinja_node *jinja_parse_expression(jinja_parser *p, bool conditional);
jinja_node *jinja_parse_tuple(jinja_parser *p, bool conditional, const char *end_name,
                              bool parenthesised);
jinja_node *jinja_parse_target(jinja_parser *p, bool with_namespace);
jinja_node *jinja_parse_filters(jinja_parser *p, jinja_node *object, bool inline_start);
const jinja_token *jinja_peek(const jinja_parser *p);
bool jinja_at_op(const jinja_parser *p, jinja_op op);
bool jinja_at_name(const jinja_parser *p, const char *name);
bool jinja_skip_op(jinja_parser *p, jinja_op op);
bool jinja_skip_name(jinja_parser *p, const char *name);
bool jinja_expect_op(jinja_parser *p, jinja_op op, const char *what);
bool jinja_expect_name(jinja_parser *p, const char *what, const jinja_token **token);
void *jinja_unexpected(jinja_parser *p, const char *expected); /* writes the error; is NULL */
bool jinja_deeper(jinja_parser *p);
jinja_node *jinja_node_new(jinja_parser *p, jinja_node_kind kind, const jinja_token *at);
jinja_value *jinja_constant_string(jinja_parser *p, const char *data, size_t bytes);

/* ---- rendering (jinja_run.c) --------------------------------------------------------------- */

struct loam_template {
    loam_arena *arena;
    const char *name;
    jinja_node *body;
};

struct jinja_run {
    const loam_template *owner;
    const loam_template_limits *limits;
    loam_arena *arena;
    size_t memory_bytes;
    uint64_t steps;
    int depth;
    loam_string *out;
    size_t out_begin;
    jinja_dict *variables;
    const jinja_node *at; /* what an error message points to */
    loam_status status;
    loam_error *error;
    jinja_value *none;
    jinja_value *yes;
    jinja_value *no;
    jinja_value *nothing; /* an undefined without a name */
    jinja_value *empty;   /* "" */
};

/* Both write "name:line:column: message" and the status; the first error of a run wins. */
jinja_value *jinja_fail(jinja_run *run, loam_status status, const char *format, ...)
    LOAM_PRINTF(3, 4);                                                        /* NULL */
bool jinja_refuse(jinja_run *run, const char *format, ...) LOAM_PRINTF(2, 3); /* LOAM_E_DATA */

void *jinja_alloc(jinja_run *run, size_t bytes); /* zeroed; NULL after an error */
bool jinja_step(jinja_run *run, uint64_t n);     /* counts n steps */
bool jinja_scan(jinja_run *run, size_t bytes);   /* counts the steps of reading bytes */
bool jinja_enter(jinja_run *run);                /* one level deeper; undo with run->depth-- */

/* Output, and the building of strings: what was emitted after a mark becomes a string value and
 * leaves the output again. jinja_emit's bytes must not lie in the output. */
bool jinja_emit(jinja_run *run, const char *data, size_t bytes);
bool jinja_emit_text(jinja_run *run, const char *text);
size_t jinja_mark(const jinja_run *run);
jinja_value *jinja_take(jinja_run *run, size_t mark);

/* ---- values (jinja_value.c, jinja_dict.c) -------------------------------------------------- */

jinja_value *jinja_boolean(jinja_run *run, bool b);
jinja_value *jinja_integer(jinja_run *run, int64_t i);
jinja_value *jinja_float(jinja_run *run, double d);
jinja_value *jinja_string(jinja_run *run, const char *data, size_t bytes); /* data is not copied */
jinja_value *jinja_missing(jinja_run *run, const char *name, size_t bytes, const char *owner);
jinja_value *jinja_list(jinja_run *run, jinja_sequence sequence, size_t capacity);
bool jinja_append(jinja_run *run, jinja_value *list, jinja_value *item);
jinja_value *jinja_from_json(jinja_run *run, const json_t *json);

const char *jinja_type_name(const jinja_value *v); /* Python's */
bool jinja_is_number(const jinja_value *v);        /* integer, float or boolean */
bool jinja_is_int(const jinja_value *v);           /* integer or boolean */
int64_t jinja_int_of(const jinja_value *v);        /* of an integer or boolean */
double jinja_double_of(const jinja_value *v);      /* of a number */
bool jinja_is_text(const jinja_value *v, const char *text);
bool jinja_truth(const jinja_value *v);
bool jinja_equal(jinja_run *run, const jinja_value *a, const jinja_value *b, bool *equal);
/* *order < 0, 0, > 0; refuses types that Python does not order. `sign` is for the message. */
bool jinja_order(jinja_run *run, const jinja_value *a, const jinja_value *b, const char *sign,
                 int *order);
bool jinja_contains(jinja_run *run, jinja_value *container, jinja_value *item, bool *found);
/* The items of anything iterable, copied; a generator is empty afterwards. */
bool jinja_iterate(jinja_run *run, jinja_value *v, jinja_value ***items, size_t *n);
bool jinja_length(jinja_run *run, const jinja_value *v, size_t *n);
/* Fails with the message Python gives for the use of an undefined value; true otherwise. */
bool jinja_defined(jinja_run *run, const jinja_value *v);

bool jinja_emit_value(jinja_run *run, const jinja_value *v, bool repr); /* str() or repr() */
jinja_value *jinja_to_string(jinja_run *run, jinja_value *v);           /* str() */

jinja_value *jinja_dict_value(jinja_run *run, jinja_kind kind);
bool jinja_dict_find(jinja_run *run, const jinja_dict *d, const jinja_value *key, size_t *at,
                     bool *found);
jinja_value *jinja_dict_text(const jinja_dict *d, const char *data, size_t bytes); /* or NULL */
bool jinja_dict_set(jinja_run *run, jinja_dict *d, jinja_value *key, jinja_value *value);
bool jinja_dict_remove(jinja_run *run, jinja_dict *d, size_t at);
jinja_value *jinja_dict_view(jinja_run *run, const jinja_dict *d, jinja_sequence which);

/* ---- expressions and statements (jinja_expression.c, jinja_operator.c, jinja_statement.c) -- */

typedef enum jinja_flow { JINJA_NEXT, JINJA_BREAK, JINJA_CONTINUE, JINJA_FAILED } jinja_flow;

jinja_value *jinja_evaluate(jinja_run *run, jinja_scope *scope, const jinja_node *node);
/* As jinja_evaluate of a filter whose innermost object is `value`. */
jinja_value *jinja_filter_value(jinja_run *run, jinja_scope *scope, const jinja_node *node,
                                jinja_value *value);
bool jinja_evaluate_args(jinja_run *run, jinja_scope *scope, const jinja_node *arguments,
                         jinja_args *args);
jinja_value *jinja_call(jinja_run *run, jinja_value *callee, jinja_args *args);
jinja_value *jinja_call_builtin(jinja_run *run, const char *what, const jinja_builtin *b,
                                jinja_value *self, const jinja_args *args);
jinja_value *jinja_call_loop(jinja_run *run, jinja_loop *loop, jinja_value *iterable);
jinja_flow jinja_execute(jinja_run *run, jinja_scope *scope, const jinja_node *body);
jinja_scope *jinja_scope_new(jinja_run *run, jinja_scope *parent);
bool jinja_scope_set(jinja_run *run, jinja_scope *scope, const jinja_name *name,
                     jinja_value *value);

jinja_value *jinja_binary(jinja_run *run, jinja_op op, jinja_value *a, jinja_value *b);
bool jinja_compare(jinja_run *run, jinja_op op, jinja_value *a, jinja_value *b, bool *result);
jinja_value *jinja_attribute(jinja_run *run, jinja_value *object, const jinja_name *name,
                             jinja_value *key);
jinja_value *jinja_subscript(jinja_run *run, jinja_value *object, jinja_value *key);
jinja_value *jinja_slice(jinja_run *run, jinja_value *object, jinja_value *start, jinja_value *stop,
                         jinja_value *step);

/* ---- built-ins ----------------------------------------------------------------------------- */

/* NULL where there is none of that name. */
const jinja_builtin *jinja_find(const jinja_builtin *table, const char *name, size_t bytes);
const jinja_builtin *jinja_find_filter(const char *name, size_t bytes);
const jinja_builtin *jinja_find_method(const jinja_value *object, const char *name, size_t bytes);
extern const jinja_builtin jinja_text_filters[];     /* jinja_filter_text.c */
extern const jinja_builtin jinja_sequence_filters[]; /* jinja_filter_sequence.c */
extern const jinja_builtin jinja_value_filters[];    /* jinja_filter_value.c */
extern const jinja_builtin jinja_tests[];            /* jinja_test.c */
extern const jinja_builtin jinja_functions[];        /* jinja_function.c */
extern const jinja_builtin jinja_string_methods[];   /* jinja_method_string.c */
extern const jinja_builtin jinja_dict_methods[];     /* jinja_function.c */
extern const jinja_builtin jinja_list_methods[];     /* jinja_method.c, and those below */
extern const jinja_builtin jinja_tuple_methods[];
extern const jinja_builtin jinja_loop_methods[];
extern const jinja_builtin jinja_cycler_methods[];

/* Reading arguments: `v` NULL (not given) gives the fallback. The name is for the message. */
bool jinja_arg_int(jinja_run *run, jinja_value *v, const char *name, int64_t fallback,
                   int64_t *out);
bool jinja_arg_string(jinja_run *run, jinja_value *v, const char *name, jinja_value *fallback,
                      jinja_value **out);
/* A path such as "function.name" or "0.text", as map(attribute=...) takes it. */
jinja_value *jinja_path(jinja_run *run, jinja_value *object, jinja_value *path);

/* Sorts by key, keeping the order of equal ones also in reverse (jinja_filter_sequence.c). */
bool jinja_sort(jinja_run *run, jinja_entry *entries, size_t n, bool reverse);

/* Strings (jinja_string.c). */
jinja_value *jinja_replace(jinja_run *run, jinja_value *text, jinja_value *old, jinja_value *with,
                           int64_t limit);
jinja_value *jinja_join(jinja_run *run, jinja_value *separator, jinja_value **items, size_t n);
jinja_value *jinja_cased(jinja_run *run, const jinja_value *text, bool upper);
jinja_value *jinja_capitalized(jinja_run *run, const jinja_value *text);
/* sides: 1 left, 2 right, 3 both; `characters` NULL: whitespace */
jinja_value *jinja_stripped(jinja_run *run, jinja_value *text, const jinja_value *characters,
                            int sides);
jinja_value *jinja_lines(jinja_run *run, const jinja_value *text, bool keep_ends);
/* "..." % value and "...".format(...) (jinja_format.c) */
jinja_value *jinja_format_percent(jinja_run *run, const jinja_value *format, jinja_value *value);
jinja_value *jinja_format_braces(jinja_run *run, const jinja_value *format, const jinja_args *args);
/* json.dumps (jinja_json.c): filter_tojson's work */
jinja_value *jinja_tojson(jinja_run *run, jinja_value **arg, jinja_value *v);
/* Python's int() and float() of a string; false where Python raises ValueError. */
bool jinja_parse_int(const char *data, size_t bytes, int base, int64_t *out);
bool jinja_parse_float(const char *data, size_t bytes, double *out);

/* ---- text (jinja_text.c, jinja_unicode.c) -------------------------------------------------- */

/* True for valid UTF-8; else *bad is the offset of the first byte that is not. */
bool jinja_utf8_valid(const char *data, size_t bytes, size_t *bad);
/* The code point at *p, which moves past it; *p < end. */
uint32_t jinja_utf8_next(const char **p, const char *end);
/* The start of the code point before p; p > begin. */
const char *jinja_utf8_previous(const char *p, const char *begin);
int jinja_utf8_put(char out[4], uint32_t code);
size_t jinja_utf8_count(const char *data, size_t bytes);
/* The byte offset of code point number `index`, or `bytes` where there are fewer. */
size_t jinja_utf8_offset(const char *data, size_t bytes, size_t index);
bool jinja_is_space(uint32_t code);
bool jinja_is_alpha(uint32_t code);
bool jinja_is_digit(uint32_t code);
bool jinja_is_printable(uint32_t code);
bool jinja_is_word(uint32_t code); /* \w */
bool jinja_is_cased(uint32_t code);
/* Up to three code points. */
int jinja_upper(uint32_t code, uint32_t out[3]);
int jinja_lower(uint32_t code, uint32_t out[3]);
/* Python's repr() of a float; the length. */
int jinja_float_text(char out[40], double d);

typedef struct jinja_range {
    uint32_t first;
    uint32_t last;
} jinja_range;
typedef struct jinja_case_range { /* every `stride`th of first..last maps to itself + delta */
    uint32_t first;
    uint32_t last;
    int32_t delta;
    uint32_t stride;
} jinja_case_range;
extern const jinja_range jinja_alpha_ranges[];
extern const int jinja_n_alpha_ranges;
extern const jinja_range jinja_digit_ranges[];
extern const int jinja_n_digit_ranges;
extern const jinja_range jinja_unprintable_ranges[];
extern const int jinja_n_unprintable_ranges;
extern const jinja_case_range jinja_upper_ranges[];
extern const int jinja_n_upper_ranges;
extern const jinja_case_range jinja_lower_ranges[];
extern const int jinja_n_lower_ranges;
extern const uint32_t jinja_upper_special[][4]; /* code, then up to three that it becomes */
extern const int jinja_n_upper_special;

#endif /* LOAM_TEXT_JINJA_H */
