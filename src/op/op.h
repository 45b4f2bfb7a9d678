/* op.h: graph nodes, the table of operations, and the functions that build nodes.
 *
 * One file per operation: src/op/<op>.c holds the builder (shape rule), the reference forward,
 * the backward rule and the parity cases of the operation and of its _BACK forms. op_list.h
 * lists them once. Names, ne and nb mean what they mean in ggml.
 */
#ifndef LOAM_OP_H
#define LOAM_OP_H

#include "core/core.h"
#include "tensor/tensor.h"

#define LOAM_MAX_SRC 8
#define LOAM_NAME_BYTES 64

typedef enum loam_op {
#define LOAM_OP(name, definition) LOAM_OP_##name,
#include "op/op_list.h"
#undef LOAM_OP
    LOAM_OP_COUNT
} loam_op;

typedef struct loam_node loam_node;
typedef struct loam_graph loam_graph;
typedef struct loam_buffer loam_buffer; /* device/device.h */

/* ---- nodes -------------------------------------------------------------------------------- */

typedef enum loam_rope_mode {
    LOAM_ROPE_NORMAL = 0, /* pairs (2i, 2i + 1): GGUF's llama */
    LOAM_ROPE_NEOX = 2    /* pairs (i, i + n_dims/2): qwen2, qwen3 and most others */
} loam_rope_mode;

typedef struct loam_rope_params {
    loam_rope_mode mode;
    int32_t n_dims; /* how many leading elements of a head rotate; even */
    int32_t n_ctx_orig;
    float freq_base;
    float freq_scale;  /* 1 for none */
    float ext_factor;  /* YaRN mix; 0 for none */
    float attn_factor; /* 1 for none */
    float beta_fast;
    float beta_slow;
} loam_rope_params;

typedef union loam_op_params {
    struct {
        float eps;
    } norm; /* RMS_NORM, RMS_NORM_BACK */
    struct {
        float scale;
        float bias;
    } scale; /* SCALE: y = x * scale + bias */
    struct {
        float scale;
        float max_bias;
    } soft_max; /* SOFT_MAX, SOFT_MAX_BACK */
    loam_rope_params rope;
    struct {
        float scale;
    } attention; /* FLASH_ATTN_EXT, FLASH_ATTN_BACK */
    struct {
        float value;
    } fill;
    struct {
        int32_t axis[LOAM_MAX_DIMS];
    } permute; /* dimension i of the source becomes dimension axis[i] of the result */
    struct {
        size_t nb[LOAM_MAX_DIMS];
        size_t offset_bytes;
    } acc; /* ACC: where src1 lies within src0 */
    struct {
        int64_t ne0_rows; /* GET_ROWS_BACK: rows of the result */
    } rows;
    struct {
        float max_norm;
    } clip; /* CLIP_NORM */
} loam_op_params;

/* A value of the graph: what computes it, from what, and the tensor it becomes. */
struct loam_node {
    loam_tensor t; /* t.data is set when storage is bound or planned, for host-visible memory */
    loam_op op;    /* LOAM_OP_NONE for leaves: inputs, weights, parameters */
    loam_op_params params;
    int n_src;
    loam_node *src[LOAM_MAX_SRC]; /* optional operands are NULL */

    /* A result that shares the storage of another node (views, and ops that write in place). */
    loam_node *view_of;       /* the root that owns the storage, never itself a view */
    size_t view_offset_bytes; /* from the root's first byte */

    /* A second F32 result of the same computation (attention's log-sum-exp, the loss's gradient).
     * The companion has op AUX, owner = this node; it is planned and written with this node. */
    loam_node *aux;
    loam_node *owner;

    bool needs_grad; /* some trained parameter stands below; set when the node is made */
    bool is_param;   /* trained */
    bool is_input;   /* the caller writes it before each run */
    bool is_output;  /* the caller reads it after a run: its storage is kept to the end */
    int block;       /* transformer block for messages, splits and checkpointing; -1 outside */
    int index;       /* position in the graph */
    loam_node *grad; /* set by the backward walk */
    char name[LOAM_NAME_BYTES];

    /* Where the bytes are; set for leaves by loam_node_bind, for others by the plan. */
    loam_buffer *buffer;
    size_t offset_bytes;
    int device; /* index in the plan's devices; set by placement */
};

/* ---- graph -------------------------------------------------------------------------------- */

/* Nodes in the order they were made, which is a topological order. Building is sticky: the first
 * error is kept in `error`, builders then return NULL, and builders given a NULL operand return
 * NULL; so a model is written without checks and loam_graph_status() is asked once at the end. */
struct loam_graph {
    loam_arena *arena;
    loam_node **nodes;
    int n_nodes;
    int capacity;
    loam_type activation; /* of results of products and look-ups of weights: F32; F64 in checks */
    int block;            /* stamped on new nodes */
    struct loam_case_fill *fills; /* how a parity case's inputs are filled */
    loam_error error;
};

loam_status loam_graph_create(loam_type activation, loam_graph **out, loam_error *e);
void loam_graph_free(loam_graph *g); /* NULL is fine */
/* The first error met while building, copied to e. */
loam_status loam_graph_status(const loam_graph *g, loam_error *e);
/* Records an error (the first one wins) and returns NULL, for builders. */
loam_node *loam_graph_fail(loam_graph *g, loam_status status, const char *format, ...)
    LOAM_PRINTF(3, 4);

/* Leaves. */
loam_node *loam_leaf(loam_graph *g, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                     const char *name);
loam_node *loam_leaf_1d(loam_graph *g, loam_type type, int64_t ne0, const char *name);
loam_node *loam_leaf_2d(loam_graph *g, loam_type type, int64_t ne0, int64_t ne1, const char *name);
/* Marks a leaf as trained: everything made from it from now on needs a gradient. */
void loam_set_param(loam_node *n);
void loam_set_input(loam_node *n);
void loam_set_output(loam_node *n);
void loam_set_name(loam_node *n, const char *format, ...) LOAM_PRINTF(2, 3);

/* For op files: a new dense node (sources may be NULL where optional), a new node that shares
 * root storage with `of`, and a companion result of `owner`. NULL when memory ran out. */
loam_node *loam_node_new(loam_graph *g, loam_op op, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                         int n_src, loam_node *const *src);
loam_node *loam_node_view(loam_graph *g, loam_op op, loam_node *of, loam_type type,
                          const int64_t ne[LOAM_MAX_DIMS], const size_t nb[LOAM_MAX_DIMS],
                          size_t offset_bytes, int n_src, loam_node *const *src);
loam_node *loam_node_aux(loam_graph *g, loam_node *owner, const int64_t ne[LOAM_MAX_DIMS]);

/* Adds d to the gradient of n (emits ADD from the second time on); nothing where n needs none. */
void loam_grad_add(loam_graph *g, loam_node *n, loam_node *d);

/* ---- the table ---------------------------------------------------------------------------- */

typedef struct loam_case loam_case;
typedef struct loam_case_list loam_case_list;

typedef struct loam_op_def {
    const char *name; /* ggml's */
    /* Views and leaves compute nothing: reference is NULL and devices skip them. */
    bool is_view;
    /* Plain loops in double; operands and result in any float type through loam_get/loam_set.
     * All data pointers are host addresses. */
    loam_status (*reference)(const loam_node *n, loam_error *e);
    /* Emits the gradients of n's sources from dy, n's own gradient, with loam_grad_add. NULL: the
     * op has no backward and a graph that needs one is refused before it runs. */
    void (*backward)(loam_graph *g, loam_node *n, loam_node *dy);
    /* Declares the parity cases; NULL for leaves and views only. */
    void (*cases)(loam_case_list *list);
    /* Floating-point operations of one run, from the shapes; NULL: one per element of the result.
     */
    double (*flops)(const loam_node *n);
} loam_op_def;

const loam_op_def *loam_op_get(loam_op op);
/* Floating-point operations of one run of n, from the shapes. */
double loam_op_flops(const loam_node *n);
/* LOAM_OP_COUNT where no op has that name. */
loam_op loam_op_from_name(const char *name);

/* ---- parity cases ------------------------------------------------------------------------- */

/* One case of an op. The op's file sets the fields in its `cases` function and reads them back in
 * its `build`: p and f mean what that file says. The tester builds the case twice, with F32
 * activations for the device and F64 for the reference, with the same input values. */
struct loam_case {
    loam_op op;
    loam_type type;  /* of the first operand; --type selects by it */
    char label[160]; /* unique within the op: types, shapes, layout */
    int64_t p[20];
    float f[8];
    loam_node *(*build)(loam_graph *g, const loam_case *c); /* returns the node to check */
    double bar;                                             /* largest NMSE; 0: exact */
    bool check_grad;            /* central differences of this case are part of --grad */
    bool is_slow;               /* more than about a second; still part of a full run */
    size_t scratch_limit_bytes; /* lowers the device's dequantize scratch for this case; 0: no */
};

#define LOAM_BAR_ELEMENTWISE 1e-7
#define LOAM_BAR_PRODUCT 1e-5

struct loam_case_list {
    loam_case *cases;
    int n;
    int capacity;
    bool failed;     /* memory ran out */
    loam_case spare; /* handed out then */
};
/* Adds a case with op, type and label (printf) set, for the op file to complete; never NULL: after
 * a failure it hands out a spare. */
loam_case *loam_case_add(loam_case_list *list, loam_op op, loam_type type,
                         loam_node *(*build)(loam_graph *, const loam_case *), const char *format,
                         ...) LOAM_PRINTF(5, 6);

/* How the tester fills a case's inputs. */
typedef enum loam_fill {
    LOAM_FILL_NORMAL,   /* normals times `a` plus `b` */
    LOAM_FILL_UNIFORM,  /* uniform in [a, b) */
    LOAM_FILL_IDS,      /* integers uniform in [a, b) */
    LOAM_FILL_CONSTANT, /* a */
    LOAM_FILL_ONE_HOT,  /* each row of ne0: one 1, else 0; a share `a` of rows all zero */
    LOAM_FILL_SOFT,     /* each row: non-negative, sums to 1; a share `a` of rows all zero */
    LOAM_FILL_HUGE_ONE, /* normals, and one value per row of size `a` */
    LOAM_FILL_MASK,     /* 0, or -infinity with probability a; a share `b` of whole rows masked */
    LOAM_FILL_RANGES,   /* I32 [2, n]: packed causal sequences of length a, window b (0: none) */
    LOAM_FILL_PERMUTATION, /* integers: a random permutation of 0 .. ne-1 (distinct ids) */
    LOAM_FILL_SAME_RANGE,  /* I32 [2, n]: every pair is (a, b) */
    LOAM_FILL_ADAMW        /* [7]: hyper of OPT_STEP_ADAMW at step a with alpha b, beta1 0.9,
                              beta2 0.999, eps 1e-8, weight decay 0.01 */
} loam_fill;

typedef struct loam_case_fill {
    struct loam_case_fill *next;
    loam_node *node;
    loam_fill fill;
    double a, b;
} loam_case_fill;

/* A leaf that the tester fills; float leaves take the graph's activation type where type is F32.
 * `grad` makes it a parameter, so that --grad checks it. */
loam_node *loam_case_input(loam_graph *g, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                           loam_fill fill, double a, double b, bool grad);
/* What loam_case_input recorded of a leaf; false for nodes it did not make. */
bool loam_case_fill_of(const loam_graph *g, const loam_node *n, loam_fill *fill, double *a,
                       double *b);

/* ---- builders ----------------------------------------------------------------------------- */
/* All return NULL on error (recorded in the graph). Shapes are given as [ne0, ne1, ne2, ne3]. */

/* view.c: no computation. */
loam_node *loam_view(loam_graph *g, loam_node *a, const int64_t ne[LOAM_MAX_DIMS],
                     const size_t nb[LOAM_MAX_DIMS], size_t offset_bytes); /* nb[0] may differ */
loam_node *loam_reshape(loam_graph *g, loam_node *a, const int64_t ne[LOAM_MAX_DIMS]); /* dense a */
loam_node *loam_reshape_2d(loam_graph *g, loam_node *a, int64_t ne0, int64_t ne1);
loam_node *loam_reshape_3d(loam_graph *g, loam_node *a, int64_t ne0, int64_t ne1, int64_t ne2);
loam_node *loam_permute(loam_graph *g, loam_node *a, int axis0, int axis1, int axis2, int axis3);
loam_node *loam_transpose(loam_graph *g, loam_node *a); /* swaps dimensions 0 and 1 */

/* cpy.c: CPY writes a's elements in order over b's (same number of elements, any types and
 * strides; in place in b); CONT makes a dense copy; CAST (a CPY into a new dense node;
 * F32 stands for the graph's activation type, so that checks in F64 stay F64). Quantized types are
 * read, never written. */
loam_node *loam_cpy(loam_graph *g, loam_node *a, loam_node *b);
loam_node *loam_cont(loam_graph *g, loam_node *a);
loam_node *loam_cast(loam_graph *g, loam_node *a, loam_type type);

/* fill.c, acc.c: FILL makes a dense node of one value; ACC adds b into a's view (nb, offset) and
 * returns a dense copy of a with it (the backward of VIEW is ACC into FILL 0). */
loam_node *loam_fill_new(loam_graph *g, loam_type type, const int64_t ne[LOAM_MAX_DIMS],
                         float value);
loam_node *loam_fill_inplace(loam_graph *g, loam_node *a, float value); /* over a's storage */
loam_node *loam_acc(loam_graph *g, loam_node *a, loam_node *b, const size_t nb[LOAM_MAX_DIMS],
                    size_t offset_bytes);

/* add.c, mul.c, scale.c, sum.c: b repeats over a. */
loam_node *loam_add(loam_graph *g, loam_node *a, loam_node *b);
loam_node *loam_add_inplace(loam_graph *g, loam_node *a, loam_node *b); /* result is a's storage */
loam_node *loam_mul(loam_graph *g, loam_node *a, loam_node *b);
loam_node *loam_scale(loam_graph *g, loam_node *a, float scale);
loam_node *loam_sum(loam_graph *g, loam_node *a);      /* [1] */
loam_node *loam_sum_rows(loam_graph *g, loam_node *a); /* [1, ne1, ne2, ne3] */
/* repeat.c: a tiled to b's shape; its backward sums the tiles. */
loam_node *loam_repeat(loam_graph *g, loam_node *a, const int64_t ne[LOAM_MAX_DIMS]);
loam_node *loam_repeat_back(loam_graph *g, loam_node *a, const int64_t ne[LOAM_MAX_DIMS]);
/* The same, written over `dst` (src[1]: the result's shape in any strides, no gradient); the result
 * shares dst's storage. */
loam_node *loam_repeat_into(loam_graph *g, loam_node *a, loam_node *dst);
loam_node *loam_repeat_back_into(loam_graph *g, loam_node *a, loam_node *dst);

/* mul_mat.c: MUL_MAT a [k, m, A2, A3], b [k, n, B2, B3] -> [m, n, B2, B3],
 * y[i, j] = sum_k a[k, i] b[k, j]; A2 | B2, A3 | B3 (a repeats: batch (i2, i3) of y reads batch
 * (i2 / (B2/A2), i3 / (B3/A3)) of a, as in ggml). a may be any block type, its rows contiguous;
 * b F32 (F64, F16, BF16) in any strides. */
loam_node *loam_mul_mat(loam_graph *g, loam_node *a, loam_node *b);
/* out_prod.c: OUT_PROD a [m, k, A2, A3], b [n, k, B2, B3] -> [m, n, B2, B3],
 * y[i, j] = sum_k a[i, k] b[j, k]; a repeats as in MUL_MAT. a may be any block type, its rows
 * contiguous; b in any strides. _into writes the product over `dst` (src[2], [m, n, B2, B3], any
 * strides, no gradient) and the result shares dst's storage. */
loam_node *loam_out_prod(loam_graph *g, loam_node *a, loam_node *b);
loam_node *loam_out_prod_into(loam_graph *g, loam_node *a, loam_node *b, loam_node *dst);

/* rms_norm.c: over ne0, y = x / sqrt(mean(x^2) + eps). BACK: (dy, x) -> dx. */
loam_node *loam_rms_norm(loam_graph *g, loam_node *x, float eps);
loam_node *loam_rms_norm_back(loam_graph *g, loam_node *dy, loam_node *x, float eps);

/* soft_max.c: over ne0 of x * scale + slope * mask; mask (F32 or F16, [ne0, >= ne1], or NULL);
 * ALiBi slopes by head (ne2) from max_bias. A row that is masked whole gives zeros.
 * BACK: (dy, y) -> dx. */
loam_node *loam_soft_max(loam_graph *g, loam_node *x, loam_node *mask, float scale, float max_bias);
loam_node *loam_soft_max_back(loam_graph *g, loam_node *dy, loam_node *y, float scale);

/* silu.c, gelu.c (tanh form, as ggml), glu.c: SWIGLU(a, b) = silu(a) * b, GEGLU = gelu(a) * b.
 * b NULL: a is fused [2n, ...] with the gated half first. GLU backs: (dy, a, b) -> [2n, ...]
 * holding [da | db] (for fused a this is the gradient of a itself). */
loam_node *loam_silu(loam_graph *g, loam_node *x);
loam_node *loam_silu_back(loam_graph *g, loam_node *dy, loam_node *x);
loam_node *loam_gelu(loam_graph *g, loam_node *x);
loam_node *loam_gelu_back(loam_graph *g, loam_node *dy, loam_node *x);
loam_node *loam_swiglu(loam_graph *g, loam_node *a, loam_node *b);
loam_node *loam_swiglu_back(loam_graph *g, loam_node *dy, loam_node *a, loam_node *b);
loam_node *loam_geglu(loam_graph *g, loam_node *a, loam_node *b);
loam_node *loam_geglu_back(loam_graph *g, loam_node *dy, loam_node *a, loam_node *b);

/* rope.c: x [d, n_head, T, ...], positions I32 [T], freq_factors F32 [n_dims/2] or NULL.
 * BACK turns the other way. */
loam_node *loam_rope(loam_graph *g, loam_node *x, loam_node *positions, loam_node *freq_factors,
                     const loam_rope_params *p);
loam_node *loam_rope_back(loam_graph *g, loam_node *dy, loam_node *positions,
                          loam_node *freq_factors, const loam_rope_params *p);

/* get_rows.c: a [n, rows, B2, B3], ids I32 [T, B2, B3] -> [n, T, B2, B3]; ids outside the rows are
 * the caller's error. BACK: dy summed into [n, rows]. set_rows.c: SET_ROWS writes rows of b
 * [n, T] into a [n, rows] at ids (I64 or I32 [T]) in place; the result is a. */
loam_node *loam_get_rows(loam_graph *g, loam_node *a, loam_node *ids);
loam_node *loam_get_rows_back(loam_graph *g, loam_node *dy, loam_node *ids, int64_t n_rows);
loam_node *loam_set_rows(loam_graph *g, loam_node *a, loam_node *b, loam_node *ids);

/* flash_attn.c: attention without a score matrix kept. q [d, n_head, T], k [d, n_head_kv, K],
 * v [dv, n_head_kv, K], ranges I32 [2, T]: query t sees keys [begin, end) (causal, packed and
 * windowed attention and caches are all ranges; an empty range gives zeros) -> [dv, n_head, T];
 * head h reads head h / (n_head / n_head_kv). aux: log-sum-exp [n_head, T].
 * BACK (src: dy, q, k, v, ranges, attn, aux) -> [d*n_head*T + d*n_head_kv*K + dv*n_head_kv*K]:
 * dq, dk, dv one after the other in one dense 1-D node. */
loam_node *loam_flash_attn_ext(loam_graph *g, loam_node *q, loam_node *k, loam_node *v,
                               loam_node *ranges, float scale);
loam_node *loam_flash_attn_back(loam_graph *g, loam_node *dy, loam_node *attn);

/* cross_entropy_loss.c: ggml's: logits a [n, rows], labels b of the same shape (any distribution;
 * an all-zero row counts nothing) -> [1], -sum(b * log_softmax(a)) / rows.
 * BACK: (dy [1], a, b) -> da = (softmax(a) * sum(b) - b) * dy / rows. */
loam_node *loam_cross_entropy_loss(loam_graph *g, loam_node *a, loam_node *b);
loam_node *loam_cross_entropy_loss_back(loam_graph *g, loam_node *dy, loam_node *a, loam_node *b);

/* linear_cross_entropy.c (Loam's own): w [n, vocabulary] of any type, x [n, T], labels I32 [T]
 * (-1: masked) -> [T]: each token's -log softmax(w x)[label], 0 where masked. The logits exist in
 * chunks only. aux (where x needs a gradient): d nll_t / d x_t [n, T], made in the same pass;
 * the backward multiplies it by dy. */
loam_node *loam_linear_cross_entropy(loam_graph *g, loam_node *w, loam_node *x, loam_node *labels);

/* opt_step.c, in place in `param` (and its moments): AdamW as ggml's OPT_STEP_ADAMW, with
 * hyper F32 [7] = alpha, beta1, beta2, eps, weight decay, 1/(1-beta1^t), 1/(1-beta2^t);
 * SGD with hyper F32 [2] = alpha, weight decay. grad_norm.c: L2 norm of all elements [1];
 * CLIP_NORM scales a in place by min(1, max_norm / norm), by 1 where the norm is not finite. */
loam_node *loam_opt_step_adamw(loam_graph *g, loam_node *param, loam_node *grad, loam_node *m,
                               loam_node *v, loam_node *hyper);
loam_node *loam_opt_step_sgd(loam_graph *g, loam_node *param, loam_node *grad, loam_node *hyper);
loam_node *loam_grad_norm(loam_graph *g, loam_node *a);
loam_node *loam_clip_norm(loam_graph *g, loam_node *a, loam_node *norm, float max_norm);

#endif /* LOAM_OP_H */
