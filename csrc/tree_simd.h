/* One node of a cluster tree for FPP_TREE_ROWS rows at a time, for one vector width: included by tree.c once per instruction set, with
 *   W       doubles per vector (2, 4 or 8)
 *   NAME    makes a name unique to the instruction set
 *   TARGET  function attribute
 *   RV      vectors of rows in a register block; a divisor of FPP_TREE_ROWS / W
 * A lane holds one row from the first operation to the last, and every sum is taken term by term in ascending order: what a row
 * gets is what the same operations give one row at a time.
 */
#include "vector_simd.h"
#define VECTORS (FPP_TREE_ROWS / W)

/* All ones where a lane is NaN or infinite. */
TARGET FPP_INLINE VI NAME(not_finite)(V v)
{
    return ((VI)v & INT64_MAX) >= INT64_C(0x7ff0000000000000);
}

/* t[k][row] = x - origin for `depth` columns from k0; bad[...] collects the rows with a non-finite entry. */
TARGET FPP_INLINE void NAME(pack)(const char *const *rows, const double *origin, int64_t k0, int64_t depth, int check,
                                  double *restrict t, VI *bad, int is_f32)
{
    for (int g = 0; g < VECTORS; g++) {
        const char *const *row = rows + g * W;
        VI wrong = bad[g];
        int64_t k = 0;
        for (; k + W <= depth; k += W) {
            V m[W];
            for (int r = 0; r < W; r++) {
                m[r] = NAME(load_x)(row[r], k0 + k, is_f32);
            }
            NAME(transpose)(m);
            for (int r = 0; r < W; r++) {
                wrong |= check ? NAME(not_finite)(m[r]) : (VI){0};
                NAME(store)(t + (k + r) * FPP_TREE_ROWS + g * W, m[r] - origin[k0 + k + r]);
            }
        }
        for (; k < depth; k++) {
            V v = {0.0};
            for (int r = 0; r < W; r++) {
                v[r] = is_f32 ? (double)((const float *)(const void *)row[r])[k0 + k] : ((const double *)(const void *)row[r])[k0 + k];
            }
            wrong |= check ? NAME(not_finite)(v) : (VI){0};
            NAME(store)(t + k * FPP_TREE_ROWS + g * W, v - origin[k0 + k]);
        }
        bad[g] = wrong;
    }
}

/* `count` of the sums over `depth` terms side by side, for RV vectors of rows: of weight * term, or of (term - weight)^2. */
TARGET FPP_INLINE void NAME(sums_block)(const double *restrict terms, const double *restrict weights, int64_t weight_stride,
                                        int64_t depth, int first, double *restrict sums, int count, int squares)
{
    V acc[4][RV];
    for (int j = 0; j < count; j++) {
        for (int v = 0; v < RV; v++) {
            acc[j][v] = first ? (V){0.0} : NAME(load)(sums + j * FPP_TREE_ROWS + v * W);
        }
    }
    for (int64_t k = 0; k < depth; k++) {
        V term[RV];
        for (int v = 0; v < RV; v++) {
            term[v] = NAME(load)(terms + k * FPP_TREE_ROWS + v * W);
        }
        for (int j = 0; j < count; j++) {
            const double weight = weights[j * weight_stride + k];
            for (int v = 0; v < RV; v++) {
                const V part = squares ? (V)(term[v] - weight) : (V)(term[v] * weight);
                acc[j][v] += squares ? (V)(part * part) : part;
            }
        }
    }
    for (int j = 0; j < count; j++) {
        for (int v = 0; v < RV; v++) {
            NAME(store)(sums + j * FPP_TREE_ROWS + v * W, acc[j][v]);
        }
    }
}

TARGET FPP_INLINE void NAME(sums)(const double *terms, const double *weights, int64_t weight_stride, int64_t n_sums, int64_t depth,
                                  int first, double *sums, int squares)
{
    for (int g = 0; g < VECTORS; g += RV) {
        int64_t j = 0;
        for (; j + 4 <= n_sums; j += 4) {
            NAME(sums_block)(terms + g * W, weights + j * weight_stride, weight_stride, depth, first,
                             sums + j * FPP_TREE_ROWS + g * W, 4, squares);
        }
        for (; j < n_sums; j++) {
            NAME(sums_block)(terms + g * W, weights + j * weight_stride, weight_stride, depth, first,
                             sums + j * FPP_TREE_ROWS + g * W, 1, squares);
        }
    }
}

/* child[row] = which child of the node takes the row, from 0; -1 for a row with a non-finite entry, where `check` asks for it. */
TARGET FPP_INLINE void NAME(decide_rows)(const fpp_tree_node *node, int64_t dim, const char *const *rows, int check,
                                         const fpp_node_scratch *scratch, int32_t *child, int is_f32)
{
    VI bad[VECTORS];
    double *const distances = scratch->distances;
    memset(bad, 0, sizeof bad);
    for (int64_t k0 = 0; k0 < dim; k0 += FPP_TREE_DEPTH) {
        const int64_t depth = dim - k0 < FPP_TREE_DEPTH ? dim - k0 : FPP_TREE_DEPTH;
        if (check) {
            NAME(pack)(rows, node->origin, k0, depth, 1, scratch->t, bad, is_f32);
        } else {
            NAME(pack)(rows, node->origin, k0, depth, 0, scratch->t, bad, is_f32);
        }
        if (node->projection != NULL) {
            NAME(sums)(scratch->t, node->projection + k0, dim, node->out_dim, depth, k0 == 0, scratch->y, 0);
        } else {
            NAME(sums)(scratch->t, node->centers + k0, dim, node->n_centers, depth, k0 == 0, distances, 1);
        }
    }
    if (node->projection != NULL) {
        NAME(sums)(scratch->y, node->centers, node->out_dim, node->n_centers, node->out_dim, 1, distances, 1);
    }
    for (int g = 0; g < VECTORS; g++) {
        V best = NAME(load)(distances + g * W);
        VI choice = {0};
        if (node->rule == FPP_NODE_BALL) {
            choice = ~(best <= node->radius_sq) & 1; /* NaN is outside */
        } else {
            for (int64_t c = 1; c < node->n_centers; c++) {
                const V distance = NAME(load)(distances + c * FPP_TREE_ROWS + g * W);
                const VI nearer = distance < best; /* the first of equals stays; NaN is never nearer */
                best = (V)((nearer & (VI)distance) | (~nearer & (VI)best));
                choice = (nearer & c) | (~nearer & choice);
            }
        }
        *(NAME(half_u) *)(child + g * W) = __builtin_convertvector(choice | bad[g], NAME(half));
    }
}

TARGET static void NAME(decide)(const fpp_tree_node *node, int64_t dim, const char *const *rows, int32_t is_f32, int32_t check,
                                const fpp_node_scratch *scratch, int32_t *child)
{
    if (is_f32) {
        NAME(decide_rows)(node, dim, rows, check, scratch, child, 1);
    } else {
        NAME(decide_rows)(node, dim, rows, check, scratch, child, 0);
    }
}

#undef V
#undef VI
#undef VECTORS
#undef W
#undef NAME
#undef TARGET
#undef RV
