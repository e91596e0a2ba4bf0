/* fastpubpriv: exact integer row sums and exact noise for differential privacy, without Python. csrc/README.md says how to install it.
 *
 * The text between the two marks below is also the cffi declaration of the Python package, so it holds no #if and no
 * static inline, and every size is int64_t. Conventions: inputs, sizes, scalars, workspace, outputs, in this order; the caller
 * owns every byte; a function returns FPP_OK or one of the FPP_ERR codes, never prints, aborts or allocates. Every function is a
 * pure function of its arguments and may run in any number of threads at once (fpp_isa_limit excepted).
 *
 * Pointers: an array without entries (for example n = 0) may be NULL. Any other NULL gives FPP_ERR_ARGUMENT, except where a comment
 * says "or NULL". So does a size below its least value, a size above FPP_DIM_MAX of a kind listed there, and an array larger than an
 * address space. A function that returns FPP_ERR_ARGUMENT has written only in its workspace; one that returns a size returns -1.
 * The caller guarantees the lengths of arrays, and that structures hold what their comments say. */
#ifndef FPP_H
#define FPP_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
/* cdef begins */

#define FPP_OK 0
#define FPP_ERR_ARGUMENT 1
#define FPP_ERR_EXHAUSTED 2
#define FPP_ERR_FOREIGN 3 /* bytes that are no batch of reports, or not all of one */
#define FPP_ERR_VERSION 4 /* a batch of reports of another version */
#define FPP_DIM_MAX 16777216 /* most columns, outputs, nodes, groups, components, panels */
#define FPP_ABI_VERSION 4    /* raised whenever a program compiled before would go wrong */
int32_t fpp_abi_version(void); /* FPP_ABI_VERSION of the library that runs */

/* Instruction sets. Every level gives the same bits; the level decides the speed only. */
#define FPP_ISA_BASELINE 0
#define FPP_ISA_AVX2 1
#define FPP_ISA_AVX512 2
int32_t fpp_isa_detect(void);           /* highest level that this machine and this build have */
int32_t fpp_isa_limit(int32_t level);   /* use at most `level` from now on (tests, benchmarks); returns the level in force */
/* ---- Randomness: ChaCha20 (RFC 8439), a 32-byte key for each release ------------------------------------------------
 * Draws come in blocks of FPP_DRAW_BLOCK. Block j of a kind of draw reads the keystream of nonce (kind, j) from counter 0, so a
 * range of draws is the same whichever thread makes it. `begin` must be a multiple of FPP_DRAW_BLOCK; out[0] is draw `begin`;
 * `end` is at most FPP_DRAW_END_MAX. */
#define FPP_KEY_BYTES 32
#define FPP_NONCE_BYTES 12
#define FPP_DRAW_BLOCK 1024
#define FPP_DRAW_END_MAX 9223372036854774784 /* 2^63 - FPP_DRAW_BLOCK */
#define FPP_LOG2_SCALE_MIN 8
#define FPP_LOG2_SCALE_MAX 40
int32_t fpp_chacha20_keystream(const uint8_t *key, const uint8_t *nonce, uint32_t counter, int64_t n_bytes, uint8_t *out);
int32_t fpp_words_u64(const uint8_t *key, int64_t begin, int64_t end, uint64_t *out);
/* floor(X) with X ~ N(0, 4^log2_scale), independent, within 2^-100 of exact. */
int32_t fpp_gaussian_floor_i64(const uint8_t *key, int64_t begin, int64_t end, int32_t log2_scale, int64_t *out);
/* Discrete Laplace, P(x) proportional to exp(-|x| / 2^log2_scale), within 2^-100 of exact. */
int32_t fpp_laplace_i64(const uint8_t *key, int64_t begin, int64_t end, int32_t log2_scale, int64_t *out);
/* Uniform on the 2^53 multiples of 2^-53 in [0, 1): exact on that grid. */
int32_t fpp_uniform_f64(const uint8_t *key, int64_t begin, int64_t end, double *out);
/* Uniform on {0, ..., bound - 1}, exact by rejection, 1 <= bound <= 2^63 - 1. */
int32_t fpp_below_i64(const uint8_t *key, int64_t begin, int64_t end, int64_t bound, int64_t *out);
/* A permutation of 0 ... n - 1; each equally likely. */
int32_t fpp_permutation_i64(const uint8_t *key, int64_t n, int64_t *out);

/* ---- Rows to integers ----------------------------------------------------------------------------------------------
 * A row x (dim) becomes y = offset + matrix (x - center), then z = y * inv_step, then z shortened to norm `limit` if it is longer,
 * then q = z rounded to nearest integers. A row with a non-finite entry becomes q = 0, and so does a row whose q fails
 * |q_j| <= quant_bound for a j or sum q_j^2 <= quant_bound^2: those two checks, not the floating-point steps, are what the
 * privacy proof rests on. out_dim * quant_bound^2 must be at most 2^53, so that the second check is exact in doubles. */
#define FPP_MATRIX_IDENTITY 0
#define FPP_MATRIX_DIAGONAL 1
#define FPP_MATRIX_LOWER 2
#define FPP_MATRIX_FULL 3
#define FPP_GRAM_QUANT_MAX 2896

/* Of a map with a score, a row (z, label) has dim + 1 columns, and if `weighted` a weight in 0 ... 1 after them. In place of x comes f step z:
 * with s = unit <slope, z>, f is the residual of the loss (see fpp_gradient_map), or of a `curvature` the root of minus its derivative in s,
 * times the weight or its root; 0 where f is not finite. <slope, z> is exact for whole numbers with |slope| |z| <= 2^53. */
typedef struct {
    int32_t loss;            /* FPP_LOSS_SQUARED, _LOGISTIC, _WEIGHTED_LOGISTIC or _HUBER */
    int32_t curvature, weighted; /* 0 or 1 */
    double numbers[2];       /* of the loss */
    double unit, step;       /* positive and finite */
    const double *slope;     /* (dim,) */
} fpp_row_score;

typedef struct {
    int64_t dim;          /* columns of a row */
    int64_t out_dim;      /* columns of y: any number if the matrix is FULL, at least dim if LOWER, else dim */
    int64_t quant_bound;  /* Q, the largest integer norm that passes */
    int32_t matrix_kind;  /* FPP_MATRIX_... */
    const double *center; /* (dim,) or NULL for zero */
    const double *matrix; /* NULL, diagonal (dim,), or row-major (out_dim, dim); LOWER reads row i up to column i */
    const double *offset; /* (out_dim,) or NULL for zero */
    double inv_step;      /* grid steps per unit of y */
    double limit;         /* clip norm, in grid steps */
    const fpp_row_score *score; /* or NULL; NULL for boxed rows */
} fpp_row_map;
int64_t fpp_rows_workspace_size(const fpp_row_map *map); /* bytes, any alignment; enough for every function below; -1 if invalid */

/* x: n rows, row i at x + i * row_stride (in elements; not read for n < 2), its columns adjacent. Outputs are added to, modulo 2^64. */
int32_t fpp_rows_sum(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace, int64_t *sums);
/* The same, and neutral (1): the rows that are zero in it because an entry is not finite. */
int32_t fpp_rows_sum_counted(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                             int64_t *sums, int64_t *neutral);
/* gram (out_dim, out_dim): sum of q q^T, lower triangle with diagonal only. quant_bound <= FPP_GRAM_QUANT_MAX. */
int32_t fpp_rows_gram(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace, int64_t *gram);
/* The same, and `neutral` as above. */
int32_t fpp_rows_gram_counted(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                              int64_t *gram, int64_t *neutral);
/* Two pieces of each row, in one pass over rows of doubles or single: `gram` as above, of the part inside the radius `limit`, and `outer`
 * (out_dim, out_dim) of the part from there to the radius 2^.5 limit, z (min(|z|^2, 2 limit^2) - limit^2)^.5 / |z|, rounded and checked
 * in the same way. A row whose outer part fails the check is zero in both. */
int32_t fpp_rows_pieces(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                        int64_t *gram, int64_t *outer);
/* Each of three where it is not NULL, one of the first two at least. sums (2, out_dim) of two pieces of each row: q of the part inside the
 * radius `limit`, and z (min(|z|, 2 limit) - limit) / |z|, zero inside, rounded and checked in the same way, each by itself. gram: the sum of
 * p p^T, lower triangle, with p the integers nearest to per_step z min(1, 2 limit / |z|), zero unless sum p_j^2 <= square_bound^2,
 * 1 <= square_bound <= FPP_GRAM_QUANT_MAX. counts (n_edges + 1) as below, of |z|^2 before it is shortened. */
int32_t fpp_rows_radial(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, double per_step,
                        int64_t square_bound, const double *edges_sq, int64_t n_edges, void *workspace, int64_t *sums, int64_t *gram,
                        int64_t *counts);
/* out (n, out_dim): q itself, overwritten. */
int32_t fpp_rows_quantise(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace, int32_t *out);
/* The same in single precision, which is exact up to 2^24: row i at out + i * out_stride, out_stride >= out_dim. */
int32_t fpp_rows_single(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                        int64_t out_stride, float *out);
/* counts (n_edges + 1): rows by how many of the ascending edges_sq lie strictly below |y|^2 (a row on an edge is inside it).
 * Rows with a non-finite entry are in no cell. quant_bound, inv_step and limit are not read. */
int32_t fpp_rows_shell_counts(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, const double *edges_sq,
                                  int64_t n_edges, void *workspace, int64_t *counts);

/* ---- Cluster trees -------------------------------------------------------------------------------------------------
 * A node sends a row x (dim) on by y = projection (x - origin) (y = x - origin without a projection) and the squared distances
 * d_c = sum_j (y_j - centers[c][j])^2: BALL to its first child if d_0 <= radius_sq, else (NaN too) to its second; NEAREST to the
 * child of the least d_c, of the first of equals. Each sum starts at 0.0 and goes term by term in ascending order, without fused
 * multiply-adds: what a row gets depends on that row and the tree alone. */
#define FPP_NODE_LEAF 0
#define FPP_NODE_BALL 1
#define FPP_NODE_NEAREST 2

typedef struct {
    int32_t rule;             /* FPP_NODE_...; nothing below but `label` is read of a LEAF */
    int32_t label;            /* LEAF: what the rows that end here get */
    int64_t out_dim;          /* columns of y; equals dim without a projection */
    int64_t n_centers;        /* 1 for BALL */
    int64_t first_child;      /* children follow one another, after their parent: two for BALL, n_centers for NEAREST */
    const double *origin;     /* (dim,) */
    const double *projection; /* row-major (out_dim, dim), or NULL */
    const double *centers;    /* row-major (n_centers, out_dim) */
    double radius_sq;         /* BALL */
} fpp_tree_node;
int64_t fpp_tree_workspace_size(int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes); /* bytes, any alignment; -1 if invalid */
/* labels (n): label of the leaf that each row reaches from node 0; -1 for a row with a non-finite entry. */
int32_t fpp_tree_assign_f64(const double *x, int64_t n, int64_t row_stride, int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes,
                            void *workspace, int32_t *labels);
int32_t fpp_tree_assign_f32(const float *x, int64_t n, int64_t row_stride, int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes,
                            void *workspace, int32_t *labels);
/* The rows with label g, in order, at rows begins[g] ... begins[g + 1] - 1 of out; other labels than 0 ... n_groups - 1 are left out.
 * out holds up to n rows of dim adjacent columns; begins has n_groups + 1 entries. */
int32_t fpp_rows_group_f64(const double *x, int64_t n, int64_t row_stride, int64_t dim, const int32_t *labels, int64_t n_groups,
                           double *out, int64_t *begins);
int32_t fpp_rows_group_f32(const float *x, int64_t n, int64_t row_stride, int64_t dim, const int32_t *labels, int64_t n_groups,
                           float *out, int64_t *begins);

/* ---- Bins of columns ------------------------------------------------------------------------------------------------
 * A rule gives each number a bin, by its key, or none (FPP_BIN_NONE). WIDTH: key i holds [offset + (i - 1/2) width, offset + (i + 1/2)
 * width); none beyond |i| = 2^53, or for a number that is not finite. DYADIC: key i holds 2^i < |x| <= 2^(i + 1), i = -1075 ... 1023;
 * none for 0, infinities and NaN. The key depends on the number and the rule alone. */
#define FPP_BINS_WIDTH 0
#define FPP_BINS_DYADIC 1
#define FPP_BIN_NONE -9223372036854775807
#define FPP_BIN_KEY_MAX 9007199254740992
#define FPP_BIN_BLOCK 512
#define FPP_BIN_WORDS_MAX 64
#define FPP_BIN_DYADIC_CELLS 4095

typedef struct {
    int32_t kind;  /* FPP_BINS_... */
    double offset; /* finite; not read for DYADIC */
    double width;  /* positive and finite; not read for DYADIC */
} fpp_bin_rule;

/* Counts in the making. Keys base ... base + window - 1 are counted in `dense` (for DYADIC rules window = FPP_BIN_DYADIC_CELLS, base
 * = -1023, and only cells 1 ... 2045 mean a key), all others in the hash table, whose slots with count 0 are free. At most 2^32 - 1
 * rows between two flushes. */
typedef struct {
    int64_t base, window;
    int64_t lanes;    /* 1, 2, 4 or 8 counters for a cell */
    uint32_t *dense;  /* ((window + 1) * lanes), zero at first; or NULL with window 0, where base and lanes are not read */
    int64_t words;    /* entries of a key, 1 ... FPP_BIN_WORDS_MAX; 1 with a window */
    int64_t slots;    /* a power of two, at least 2 * FPP_BIN_BLOCK */
    int64_t used;     /* slots taken, at most three quarters */
    int64_t *keys;    /* (slots, words) */
    int64_t *counts;  /* (slots), zero at first */
} fpp_bin_table;

/* Count n numbers, a row_stride (in elements) apart, until the hash table is three quarters full: *done of them are counted. */
int32_t fpp_bins_count_f64(const double *x, int64_t n, int64_t row_stride, const fpp_bin_rule *rule, fpp_bin_table *table, int64_t *done);
int32_t fpp_bins_count_f32(const float *x, int64_t n, int64_t row_stride, const fpp_bin_rule *rule, fpp_bin_table *table, int64_t *done);
/* The keys themselves, a key_stride apart. */
int32_t fpp_bins_keys_f64(const double *x, int64_t n, int64_t row_stride, const fpp_bin_rule *rule, int64_t key_stride, int64_t *keys);
int32_t fpp_bins_keys_f32(const float *x, int64_t n, int64_t row_stride, const fpp_bin_rule *rule, int64_t key_stride, int64_t *keys);
/* Add n keys (n, words) with their counts (or NULL: one each) to the hash table until it is three quarters full. Skipped, and
 * counted as done: keys with a FPP_BIN_NONE in them, and counts below one, so that the slots of one table may go into a larger one.
 * A sum of counts stops at 2^63 - 1. */
int32_t fpp_bins_insert(const int64_t *keys, const int64_t *counts, int64_t n, fpp_bin_table *table, int64_t *done);
/* totals (window) += the dense counters, which become zero; nothing for a window of 0. */
int32_t fpp_bins_flush(fpp_bin_table *table, int64_t *totals);

/* ---- Cells and boxes of columns --------------------------------------------------------------------------------------
 * A column's numbers x about its centre c, by v = x - c in doubles: 2047 << log2_parts cells for each sign, a zero cell, and one for
 * what is missing (x not finite). An octave has 2^log2_parts cells of equal width; cell k of a sign holds the |v| whose bit patterns p
 * have (p - 1) >> (52 - log2_parts) = k, an interval open below and closed above. A finite x whose v overflows is in the last cell. */
#define FPP_COLUMN_LOG2_PARTS_MAX 2
/* counts (dim, apart) += rows of n by dim numbers, each row in one of a column's 2 (2047 << log2_parts) + 2 <= apart cells: those of
 * v > 0, those of v < 0, zero, missing. If `neutral`, a row with a number that is not finite is missing in every column. */
int32_t fpp_columns_count(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, int64_t dim, const double *center, int32_t log2_parts,
                              int32_t neutral, int64_t apart, int64_t *counts);
/* Rows in `groups`, 1 to FPP_GROUPS_MAX: a row is in the group code[row], or in none if that is not 0 ... groups - 1; code NULL: all are in
 * group 0. `x` are floats if is_f32, else doubles.
 * counts (for each column, for each group, edges + 1) += rows of n by dim numbers: column k has the edges begins[k] ... begins[k + 1] - 1,
 * ascending, and cell j of it holds the x with j of them at most x. A number that is not finite is in no cell. begins[0] = 0. With
 * `own`, groups have lists of their own, that of group g in column k from begins[k groups + g] on. */
#define FPP_GROUPS_MAX 4194304
int32_t fpp_columns_cells(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, int64_t dim, const int32_t *code, int64_t groups,
                          int32_t own, const double *edges, const int64_t *begins, int64_t *counts);
/* code (n,) = the place of each number of a column among ascending keys; n_keys if it is none of them, n_keys + 1 if it is not finite. */
int32_t fpp_column_codes(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const double *keys, int64_t n_keys, int32_t *code);
/* out (n, dim) = columns of n numbers each, side by side. */
int32_t fpp_columns_join(const double *const *columns, int64_t n, int64_t dim, double *out);
/* sums (groups, 3, p) += for each of the dim columns of rows, with p = dim rounded up to FPP_VECTOR: finite numbers; the sum of q, the integer nearest
 * to t = steps (x - middle) clipped to -Q ... Q, Q = quant_bound <= 2^26, or if `squared` to Q (2 t^2 - 1), t clipped to -1 ... 1; and of
 * floor(q^2 / Q) - floor(Q / 2). middle, steps (groups, p); what is added beyond dim means nothing. */
#define FPP_VECTOR 8
int32_t fpp_group_moments(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, int64_t dim, const int32_t *code, int64_t groups,
                          const double *middle, const double *steps, int32_t squared, int64_t quant_bound, int64_t *sums);

typedef struct {
    int64_t dim;
    int32_t neutral;      /* a row with a number that is not finite becomes NaN throughout */
    const double *center; /* (dim,) each: y = ((x - center) clipped to lower ... upper, less middle) / width */
    const double *lower, *upper, *middle, *width;
    const double *absent; /* y of a number that is not finite */
} fpp_column_box;
/* out (n, dim) = y of each number. */
int32_t fpp_columns_box(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_column_box *box, double *out);
/* fpp_rows_sum and fpp_rows_shell_counts of the boxed rows, doubles or single, which are never written out. The dim of the box must be
 * that of the map. Bytes of workspace, -1 for an invalid map. */
int64_t fpp_boxed_workspace_size(const fpp_row_map *map);
int32_t fpp_boxed_sum(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_column_box *box, const fpp_row_map *map,
                      void *workspace, int64_t *sums);
int32_t fpp_boxed_shell_counts(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_column_box *box,
                               const fpp_row_map *map, const double *edges_sq, int64_t n_edges, void *workspace, int64_t *counts);

/* ---- Gradients of linear models -------------------------------------------------------------------------------------
 * A labelled row (z, label) has dim + 1 adjacent columns, the label last. It adds q, the integers nearest to steps z; with score =
 * <weights, z> (eight sums of every eighth term, added by halves; no fused multiply-adds) and residual r, minus the derivative of a loss:
 *   without `spread`: steps = r shortened to limit / |z|, times inv_step; zero if r or label is not finite;
 *   with `spread`: z becomes spread z, steps = min(1, limit / |spread z|) (r inv_scale clipped to -clip ... clip) / clip inv_step.
 * SOFTMAX, and `functions`, have a score for each of `outputs` classes and as many rows of q; |r| |z| is then shortened as a whole.
 * With `weighted`, a row has dim + 2 columns: a weight after the label, by which its steps are multiplied; above 1 it counts as 1, and
 * as 0 unless it is above 0.
 * A row adds nothing if a step is not finite or its q fails sum q^2 <= quant_bound^2, whatever a function returns:
 * outputs dim quant_bound^2 must be at most 2^53. A function is called once for each row and returns; it need not be pure. */
#define FPP_LOSS_FUNCTION 0
#define FPP_LOSS_SQUARED 1
#define FPP_LOSS_LOGISTIC 2          /* labels 0 and 1, as in the two below */
#define FPP_LOSS_WEIGHTED_LOGISTIC 3 /* numbers: weights of the two classes */
#define FPP_LOSS_SMOOTH_HINGE 4
#define FPP_LOSS_HUBER 5             /* numbers: the threshold */
#define FPP_LOSS_POISSON 6
#define FPP_LOSS_SOFTMAX 7           /* labels 0 ... outputs - 1 */

typedef double (*fpp_residual)(double score, double label);
typedef void (*fpp_residuals)(const double *scores, int64_t outputs, double label, double *found);

typedef struct {
    int64_t dim;             /* columns of z */
    int64_t outputs;         /* 1 without classes */
    int64_t quant_bound;     /* Q */
    int32_t loss;            /* FPP_LOSS_... */
    double numbers[2];       /* of the loss */
    fpp_residual function;   /* FUNCTION: one of the two, else both NULL */
    fpp_residuals functions; /* `found` holds zeros and gets the residuals */
    const double *weights;   /* row-major (outputs, dim) */
    const double *spread;    /* (dim,) finite, or NULL; NULL for several outputs */
    double inv_scale;        /* 1.0 without `spread` */
    double clip;             /* not read without `spread` */
    double limit;            /* bound on |r z| or on |spread z| */
    double inv_step;
    int32_t weighted;        /* 1: rows have weights, 0: they have none */
} fpp_gradient_map;
int64_t fpp_gradients_workspace_size(const fpp_gradient_map *map); /* bytes, any alignment; -1 if invalid */
/* sums (outputs, dim): sum of q, added to modulo 2^64, of all rows, or where `places` (count) is not NULL of the rows at those places, each
 * in 0 ... n - 1. */
int32_t fpp_gradients_sum(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const int64_t *places, int64_t count,
                          const fpp_gradient_map *map, void *workspace, int64_t *sums);

/* ---- Pairs of hypotheses ---------------------------------------------------------------------------------------------
 * Hypotheses stand in panels of FPP_PANEL: entry l of panel p is hypothesis p FPP_PANEL + l, and what is kept for each of them
 * has an innermost axis of FPP_PANEL. Codes have shape (panels, capacity, FPP_PANEL); the first n of the `capacity` rows count. */
#define FPP_PANEL 64
#define FPP_CODES_PER_NAT 2048
#define FPP_TOP_CODE 32767
#define FPP_PAIR_WORKSPACE 65536 /* bytes that fpp_pair_counts_i32 needs */

typedef struct {
    int64_t dim;
    int64_t components;      /* of every mixture; a missing one has the constant -1e300 */
    int64_t panels;
    int32_t lower;           /* 0: a factor is a diagonal; 1: a lower triangle, row by row */
    const double *means;     /* (panels, components, dim, FPP_PANEL) */
    const double *factors;   /* (panels, components, dim or dim (dim + 1) / 2, FPP_PANEL): factor^T factor inverts the covariance */
    const double *constants; /* (panels, components, FPP_PANEL): log weight, log determinant and the power of 2 pi */
} fpp_mixtures;

int64_t fpp_density_workspace_size(const fpp_mixtures *mix); /* bytes; -1 if invalid */
/* Codes of rows x (n, dim): FPP_TOP_CODE for the hypothesis that is likeliest at a row, 1 less for each 1/2048 of log density, -32768 from
 * 32 on. A row with a non-finite entry has code 0 for all of them, so it never prefers one. */
int32_t fpp_density_codes_i16(const fpp_mixtures *mix, const double *x, int64_t n, int64_t capacity, double *workspace, int16_t *codes);
/* counts (FPP_PANEL, (panels - panel) FPP_PANEL) += rows where the hypothesis of `panel` has the larger code, for it and each one
 * from its panel on. */
int32_t fpp_pair_counts_i32(const int16_t *codes, int64_t n, int64_t capacity, int64_t panels, int64_t panel,
                            int32_t *workspace, int32_t *counts);
/* table (panels, cells, FPP_PANEL): mass of a hypothesis in a cell less the rows in it, in units of 2^-shift rows; sums over cells
 * stay within 31 bits. For each pair i < j with i in `panel`, and both members h: worst[h] = the larger of itself and
 * |(2^shift / 2 + sum of table[h] over cells where i exceeds j) >> shift|. worst (panels FPP_PANEL). */
int32_t fpp_cell_scores_i32(const int32_t *table, int64_t cells, int64_t panels, int64_t panel, int32_t shift, int32_t *worst);
/* Mixtures on the line with constants (log of weight over deviation), means and inverses of deviations (size, components), and points
 * grids (size, points), ascending, between which one sign of a difference is looked for. For each j > own: roots (size - own - 1, most),
 * ascending, then infinity, where the density of `own` and that of j change places; counts[j - own - 1] = n roots if `own` leads left of
 * the first, -n - 1 if it does not. After `most` roots the rest of the line counts as one piece. */
int32_t fpp_pair_roots_f64(const double *constants, const double *means, const double *inverses, const double *grids, int64_t size,
                           int64_t components, int64_t points, int64_t own, int64_t most, double *roots, int64_t *counts);

/* ---- Elementary functions: the same bits on every processor, within one unit in the last place; log of 0 is -infinity, of less NaN ----- */
int32_t fpp_log_f64(const double *x, int64_t n, double *out);
int32_t fpp_exp_f64(const double *x, int64_t n, double *out);

/* ---- Reports of the local model -------------------------------------------------------------------------------------
 * The row of a user becomes a unit vector v: x / |x| (the first axis if x is zero or not finite), for `ball` with a sign that keeps
 * E v = x / radius. Its report is round(2^log2_grid X); relative to dim standard normals, X has density p / q in a cap of mass q, else
 * (1 - p) / (1 - q): SPHERE <X, v> >= threshold |X|, and a reader uses X / |X|; GAUSSIAN <X, v> >= threshold. Of independent seeds the
 * first is sent with X in the cap, or that a coin of probability `tail` lets pass. A code is the number of a book (8 bytes) and that of a
 * word in it (2): one of the `chosen` nearest to v, but with chance miss / 2^62 another. A word is dim normals (codes.c). Rows get numbers
 * first ... first + n - 1 of a key, which serves one batch; out is (n, dim). Bytes of batches: wire.c. */
#define FPP_REPORT_SPHERE 0
#define FPP_REPORT_GAUSSIAN 1
#define FPP_REPORT_DIRECT 0
#define FPP_REPORT_SEEDS 1
#define FPP_REPORT_CODES 2
#define FPP_REPORT_GRID_MAX 30
#define FPP_REPORT_MOST 2147483647 /* largest size of an entry */
#define FPP_REPORTS_MAX 8589934592 /* reports of a key: 2^33, or 2^53 / dim if that is less */
#define FPP_REPORT_HEADER_BYTES 64
#define FPP_SEED_BYTES 32
#define FPP_CODE_BYTES 10
#define FPP_BOOK_WORDS_MAX 1024
typedef struct {
    int64_t dim;
    int32_t kind, log2_grid, ball;  /* FPP_REPORT_SPHERE or _GAUSSIAN; 0 ... FPP_REPORT_GRID_MAX; 1: rows lie in the ball of `radius` */
    double threshold, miss, radius; /* in [0, 1), 0 for dim = 1, or GAUSSIAN in [0, 1000); 1 - p in (0, 1); positive and finite */
} fpp_report_law;
typedef struct {
    int64_t dim, count;
    int32_t kind, form, ball, log2_grid, entry_bytes; /* form FPP_REPORT_DIRECT, _SEEDS or _CODES; entry_bytes 2 or 4, else 0 */
    double threshold, logit, radius, epsilon;
} fpp_report_header;
typedef struct { int64_t words, chosen, miss; } fpp_report_book; /* 2 ... _MAX, 1 ... words - 1, 1 ... 2^62 - 1 */
int64_t fpp_report_workspace_size(const fpp_report_law *law); /* bytes, any alignment; -1 if invalid */
int32_t fpp_reports_f64(const double *x, int64_t n, int64_t row_stride, const fpp_report_law *law, const uint8_t *key, int64_t first,
                        void *workspace, int32_t *out);
/* seeds (n, FPP_SEED_BYTES), each of at most most_trials (1 ... 2^24), else FPP_ERR_EXHAUSTED; 0 < tail < 1; `miss` is not used. */
int32_t fpp_report_seeds_f64(const double *x, int64_t n, int64_t row_stride, const fpp_report_law *law, double tail,
                             int64_t most_trials, const uint8_t *key, int64_t first, void *workspace, uint8_t *seeds);
int32_t fpp_report_of_seeds_i32(const uint8_t *seeds, int64_t n, const fpp_report_law *law, void *workspace, int32_t *out);
/* codes (n, FPP_CODE_BYTES) of a SPHERE law, of which dim, ball and radius are used; or what they stand for. */
int32_t fpp_report_codes_f64(const double *x, int64_t n, int64_t row_stride, const fpp_report_law *law, const fpp_report_book *book,
                             const uint8_t *key, int64_t first, void *workspace, uint8_t *codes);
int32_t fpp_report_of_codes_i32(const uint8_t *codes, int64_t n, const fpp_report_law *law, void *workspace, int32_t *out);
int64_t fpp_report_batch_size(const fpp_report_header *header); /* bytes of the whole batch; -1 if invalid */
/* Entries (count, dim), cut off at the largest that entry_bytes hold, or seeds or codes; the other may be NULL. Bytes may follow what is read. */
int32_t fpp_report_batch_write(const fpp_report_header *header, const int32_t *entries, const uint8_t *seeds, uint8_t *bytes);
int32_t fpp_report_batch_read(const uint8_t *bytes, int64_t n_bytes, fpp_report_header *header);
int32_t fpp_report_batch_entries(const uint8_t *bytes, int64_t n_bytes, int32_t *entries, uint8_t *seeds);

/* ---- Rows under a mixture of normals: the exponentials of shares are the caller's, between two calls ------------------------------- */
typedef struct {
    int64_t dim, components;
    const double *means, *stds; /* (components, dim) each */
} fpp_normals;
int64_t fpp_statistic_tiles(const fpp_normals *at, int64_t n); /* numbers in `tiles` for n rows; -1 if invalid */
/* tiles: rows in standard deviations of each component, within 1e70; length_sq (components, n); whole (n): 1 if all entries are finite. */
int32_t fpp_normal_distances(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_normals *at, double *tiles,
                                 double *length_sq, uint8_t *whole);
/* out (n, components (1 + dim), or (1 + 2 dim) if radii[2] > 0): with shares (components, n), radii[0] share; share z clipped to
 * radii[1]; share (z^2 - 1) / sqrt 2 clipped to radii[2]; zeros for a row that is not whole. */
int32_t fpp_normal_statistic_f64(const double *tiles, const double *length_sq, const double *share, const uint8_t *whole, int64_t n,
                                 const fpp_normals *at, const double *radii, double *out);

/* ---- Sizes of the structures above in bytes: a program that declares them again, in another language, compares its own ----------------- */
int64_t fpp_row_score_size(void);
int64_t fpp_row_map_size(void);
int64_t fpp_tree_node_size(void);
int64_t fpp_bin_rule_size(void);
int64_t fpp_bin_table_size(void);
int64_t fpp_column_box_size(void);
int64_t fpp_gradient_map_size(void);
int64_t fpp_mixtures_size(void);
int64_t fpp_report_law_size(void);
int64_t fpp_report_header_size(void);
int64_t fpp_report_book_size(void);
int64_t fpp_normals_size(void);

/* ---- Test hooks: not part of the stable interface -------------------------------------------------------------------
 * As the samplers (law 0 Gaussian, 1 Laplace), but the quick tests leave a window of 2^window_log2 undecided, so that the slow exact
 * comparison runs often. window_log2 = 0 means the window of ordinary draws. */
int32_t fpp_test_noise_i64(const uint8_t *key, int64_t begin, int64_t end, int32_t law, int32_t log2_scale, int32_t window_log2,
                           int64_t *out);
/* exp(-s) of the slow comparison: s (7 limbs of 64 bits, least first, 384 fraction bits, s < 129) gives e_and_n (6 limbs, then n):
 * exp(-s) = e / 2^(384 + n). */
int32_t fpp_test_fixed_exp(const uint64_t *s, uint64_t *e_and_n);

/* cdef ends */
#ifdef __cplusplus
}
#endif
#endif
