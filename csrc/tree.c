/* Rows down a cluster tree, and rows of a chunk put together by the leaf they reached.
 *
 * A row that one pass counts in a leaf and another adds up in its sibling would break the accounting of disjoint clusters. So one
 * fixed sequence of scalar operations decides, without fused multiply-adds or library functions; vectors hold different rows.
 */
#include "rowmap.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define FPP_TREE_ROWS 32   /* rows that a node takes at a time; a multiple of every vector */
#define FPP_TREE_DEPTH 128 /* columns turned at a time: 32 KiB */
#define FPP_TREE_BLOCK 1024

typedef struct {
    double *t;         /* (FPP_TREE_DEPTH, FPP_TREE_ROWS) */
    double *y;         /* (widest projection, FPP_TREE_ROWS) */
    double *distances; /* (most centers, FPP_TREE_ROWS) */
} fpp_node_scratch;

/* child (FPP_TREE_ROWS) = which child of a node that is no leaf takes each of so many rows, from 0; -1 for a row with a non-finite
 * entry where `check` asks for it. */
typedef void (*fpp_decide)(const fpp_tree_node *node, int64_t dim, const char *const *rows, int32_t is_f32, int32_t check,
                           const fpp_node_scratch *scratch, int32_t *child);

typedef struct {
    fpp_node_scratch node;
    int64_t *begin;    /* (n_nodes) rows of a block that reached a node: order[begin] ... order[end - 1] */
    int64_t *end;
    int32_t *order;    /* (FPP_TREE_BLOCK) */
    int32_t *sorted;
    int32_t *child;    /* (FPP_TREE_BLOCK + FPP_TREE_ROWS) */
} fpp_tree_scratch;

#define W 2
#define NAME(x) x##_baseline
#define TARGET
#define RV 2
#include "tree_simd.h"

#if FPP_X86
#define W 4
#define NAME(x) x##_avx2
#define TARGET FPP_TARGET_AVX2
#define RV 2
#include "tree_simd.h"

#define W 8
#define NAME(x) x##_avx512
#define TARGET FPP_TARGET_AVX512
#define RV 4
#include "tree_simd.h"
#endif

static int64_t n_children(const fpp_tree_node *node)
{
    return node->rule == FPP_NODE_LEAF ? 0 : node->rule == FPP_NODE_BALL ? 2 : node->n_centers;
}

/* Whether a node that is no leaf can take rows of `dim` columns; its children are not looked at. */
static int32_t is_split(const fpp_tree_node *node, int64_t dim)
{
    return (node->rule == FPP_NODE_BALL || node->rule == FPP_NODE_NEAREST) && node->origin != NULL && node->centers != NULL
           && node->out_dim >= 1 && node->out_dim <= FPP_DIM_MAX && (node->projection != NULL || node->out_dim == dim)
           && node->n_centers >= 1 && node->n_centers <= FPP_DIM_MAX && (node->rule != FPP_NODE_BALL || node->n_centers == 1);
}

static int32_t is_valid_at(const fpp_tree_node *node, int64_t index, int64_t n_nodes, int64_t dim)
{
    /* Children come after their parent, so one ascending sweep visits every node once. */
    return node->rule == FPP_NODE_LEAF
           || (is_split(node, dim) && node->n_centers <= n_nodes && node->first_child > index
               && node->first_child <= n_nodes - n_children(node));
}

/* Scratch for any of these nodes; leaves need none. */
static void take_scratch(int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes, char *base, int64_t *used, fpp_node_scratch *scratch)
{
    int64_t width = 0, centers = 0;
    for (int64_t i = 0; i < n_nodes; i++) {
        if (nodes[i].rule != FPP_NODE_LEAF) {
            width = nodes[i].projection != NULL && nodes[i].out_dim > width ? nodes[i].out_dim : width;
            centers = nodes[i].n_centers > centers ? nodes[i].n_centers : centers;
        }
    }
    scratch->t = fpp_take(base, used, fpp_min(dim, FPP_TREE_DEPTH) * FPP_TREE_ROWS * 8);
    scratch->y = fpp_take(base, used, width * FPP_TREE_ROWS * 8);
    scratch->distances = fpp_take(base, used, centers * FPP_TREE_ROWS * 8);
}

/* Lays the scratch out from `base` and returns the bytes used, -1 for an invalid tree; a null base only counts. */
static int64_t lay_out(int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes, char *base, fpp_tree_scratch *scratch)
{
    int64_t used = 0;
    if (dim < 1 || dim > FPP_DIM_MAX || nodes == NULL || n_nodes < 1 || n_nodes > FPP_DIM_MAX) {
        return -1;
    }
    for (int64_t i = 0; i < n_nodes; i++) {
        if (!is_valid_at(nodes + i, i, n_nodes, dim)) {
            return -1;
        }
    }
    take_scratch(dim, nodes, n_nodes, base, &used, &scratch->node);
    scratch->begin = fpp_take(base, &used, n_nodes * 8);
    scratch->end = fpp_take(base, &used, n_nodes * 8);
    scratch->order = fpp_take(base, &used, FPP_TREE_BLOCK * 4);
    scratch->sorted = fpp_take(base, &used, FPP_TREE_BLOCK * 4);
    scratch->child = fpp_take(base, &used, (FPP_TREE_BLOCK + FPP_TREE_ROWS) * 4);
    return used;
}

FPP_API int64_t fpp_tree_workspace_size(int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes)
{
    fpp_tree_scratch scratch;
    const int64_t used = lay_out(dim, nodes, n_nodes, NULL, &scratch);
    return used < 0 ? -1 : used + 64;
}

/* The children of a node share out its rows, in order; -1 has its label already. */
static void share_out(const fpp_tree_node *nodes, const fpp_tree_node *node, int64_t begin, int64_t end, fpp_tree_scratch *scratch,
                      int32_t *labels)
{
    const int64_t first = node->first_child, children = n_children(node);
    int leaves = 1;
    for (int64_t c = first; c < first + children; c++) {
        leaves &= nodes[c].rule == FPP_NODE_LEAF;
        scratch->begin[c] = scratch->end[c] = begin;
    }
    if (leaves) {
        for (int64_t p = begin; p < end; p++) {
            const int32_t c = scratch->child[p - begin];
            labels[scratch->order[p]] = c < 0 ? -1 : nodes[first + c].label;
        }
        return;
    }
    for (int64_t p = begin; p < end; p++) {
        const int32_t c = scratch->child[p - begin];
        if (c >= 0) {
            scratch->end[first + c]++;
        } else {
            labels[scratch->order[p]] = -1;
        }
    }
    int64_t next = begin;
    for (int64_t c = first; c < first + children; c++) {
        const int64_t count = scratch->end[c] - begin;
        scratch->begin[c] = scratch->end[c] = next;
        next += count;
    }
    for (int64_t p = begin; p < end; p++) {
        const int32_t c = scratch->child[p - begin];
        if (c >= 0) {
            scratch->sorted[scratch->end[first + c]++] = scratch->order[p];
        }
    }
    memcpy(scratch->order + begin, scratch->sorted + begin, (size_t)(next - begin) * sizeof *scratch->order);
}

static void assign_block(const char *x, int64_t n, int64_t stride_bytes, int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes,
                         int32_t is_f32, fpp_decide decide, fpp_tree_scratch *scratch, int32_t *labels)
{
    for (int64_t i = 0; i < n; i++) {
        scratch->order[i] = (int32_t)i;
    }
    /* Only the root's rows and those that a parent shared out are looked at. */
    memset(scratch->begin, 0, (size_t)n_nodes * sizeof *scratch->begin);
    memset(scratch->end, 0, (size_t)n_nodes * sizeof *scratch->end);
    scratch->end[0] = n;
    for (int64_t i = 0; i < n_nodes; i++) {
        const fpp_tree_node *node = nodes + i;
        const int64_t begin = scratch->begin[i], end = scratch->end[i];
        if (node->rule == FPP_NODE_LEAF) {
            for (int64_t p = begin; p < end; p++) {
                const int64_t row = scratch->order[p];
                labels[row] = i == 0 && !fpp_row_is_finite(x + row * stride_bytes, dim, is_f32) ? -1 : node->label;
            }
            continue;
        }
        for (int64_t p = begin; p < end; p += FPP_TREE_ROWS) {
            const char *rows[FPP_TREE_ROWS];
            for (int64_t r = 0; r < FPP_TREE_ROWS; r++) {
                rows[r] = x + scratch->order[fpp_min(p + r, end - 1)] * stride_bytes; /* the last row fills the group */
            }
            decide(node, dim, rows, is_f32, i == 0, &scratch->node, scratch->child + (p - begin));
        }
        if (begin < end) {
            share_out(nodes, node, begin, end, scratch, labels);
        }
    }
}

static int32_t tree_assign(const char *x, int64_t n, int64_t row_stride, int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes,
                           int32_t is_f32, void *workspace, int32_t *labels)
{
    fpp_tree_scratch scratch;
    int64_t stride_bytes;
    const fpp_decide decide = FPP_AT_LEVEL(decide);
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || workspace == NULL
        || !fpp_is_given(labels, n, (int64_t)sizeof *labels) || lay_out(dim, nodes, n_nodes, NULL, &scratch) < 0) {
        return FPP_ERR_ARGUMENT;
    }
    lay_out(dim, nodes, n_nodes, fpp_aligned(workspace), &scratch);
    for (int64_t i = 0; i < n; i += FPP_TREE_BLOCK) {
        const int64_t rows = fpp_min(FPP_TREE_BLOCK, n - i);
        assign_block(x + i * stride_bytes, rows, stride_bytes, dim, nodes, n_nodes, is_f32, decide, &scratch, labels + i);
    }
    return FPP_OK;
}

FPP_API int32_t fpp_tree_assign_f64(const double *x, int64_t n, int64_t row_stride, int64_t dim, const fpp_tree_node *nodes,
                                    int64_t n_nodes, void *workspace, int32_t *labels)
{
    return tree_assign((const char *)x, n, row_stride, dim, nodes, n_nodes, 0, workspace, labels);
}

FPP_API int32_t fpp_tree_assign_f32(const float *x, int64_t n, int64_t row_stride, int64_t dim, const fpp_tree_node *nodes,
                                    int64_t n_nodes, void *workspace, int32_t *labels)
{
    return tree_assign((const char *)x, n, row_stride, dim, nodes, n_nodes, 1, workspace, labels);
}

/* A stable counting sort of whole rows. The second sweep leaves begins[g] at the end of group g, which is where g + 1 begins. */
static int32_t rows_group(const char *x, int64_t n, int64_t row_stride, int64_t dim, int32_t is_f32, const int32_t *labels,
                          int64_t n_groups, char *out, int64_t *begins)
{
    int64_t stride_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || dim < 1 || dim > FPP_DIM_MAX || n_groups < 1
        || n_groups > FPP_DIM_MAX || begins == NULL || !fpp_is_given(labels, n, (int64_t)sizeof *labels)
        || !fpp_is_given(out, n, dim * 8)) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t row_bytes = dim * (is_f32 ? 4 : 8);
    memset(begins, 0, (size_t)(n_groups + 1) * sizeof *begins);
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] >= 0 && labels[i] < n_groups) {
            begins[labels[i] + 1]++;
        }
    }
    for (int64_t g = 0; g < n_groups; g++) {
        begins[g + 1] += begins[g];
    }
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] >= 0 && labels[i] < n_groups) {
            memcpy(out + begins[labels[i]]++ * row_bytes, x + i * stride_bytes, (size_t)row_bytes);
        }
    }
    memmove(begins + 1, begins, (size_t)n_groups * sizeof *begins);
    begins[0] = 0;
    return FPP_OK;
}

FPP_API int32_t fpp_rows_group_f64(const double *x, int64_t n, int64_t row_stride, int64_t dim, const int32_t *labels,
                                   int64_t n_groups, double *out, int64_t *begins)
{
    return rows_group((const char *)x, n, row_stride, dim, 0, labels, n_groups, (char *)out, begins);
}

FPP_API int32_t fpp_rows_group_f32(const float *x, int64_t n, int64_t row_stride, int64_t dim, const int32_t *labels,
                                   int64_t n_groups, float *out, int64_t *begins)
{
    return rows_group((const char *)x, n, row_stride, dim, 1, labels, n_groups, (char *)out, begins);
}
