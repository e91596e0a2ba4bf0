/* The row pipeline for one vector width: included by rowmap.c once per instruction set, with
 *   W, NAME and TARGET, see row_vectors_simd.h
 *   RB, CB  rows and vectors of the register block of the matrix product
 *   RT      rows that the loop over x takes together; RB and RT divide 8
 * Padding columns hold zero everywhere, so that tails need no second loop.
 */
#include "row_vectors_simd.h"
#include "losses_simd.h"

#define PANEL (CB * W)

/* `count` rows of an identity or diagonal map, side by side. */
TARGET FPP_INLINE void NAME(rows_together)(const fpp_plan *plan, const char *x, int64_t stride_bytes, double *restrict z,
                                           double (*restrict lanes)[FPP_LANES], int count, int general, int is_f32)
{
    const int64_t dim = plan->dim, ld = plan->ld;
    const double inv_step = plan->inv_step;
    const double *restrict center = plan->center;
    const double *restrict diagonal = plan->diagonal;
    const double *restrict offset = plan->offset;
    V acc[RT][PARTS];
    for (int r = 0; r < count; r++) {
        for (int s = 0; s < PARTS; s++) {
            acc[r][s] = (V){0.0};
        }
    }
#define STEP(k, left)                                                                      \
    for (int s = 0; s < PARTS; s++) {                                                      \
        for (int r = 0; r < count; r++) {                                                  \
            V t = NAME(load_x)(x + r * stride_bytes, (k) + s * W, (left)-s * W, is_f32);   \
            t = t - NAME(load)(center + (k) + s * W);                        \
            t = general ? t * NAME(load)(diagonal + (k) + s * W) : t;                      \
            t = general ? t + NAME(load)(offset + (k) + s * W) : t;                        \
            t = t * inv_step;                                                              \
            NAME(store)(z + r * ld + (k) + s * W, t);                                      \
            acc[r][s] += t * t;                                                            \
        }                                                                                  \
    }
    int64_t k = 0;
    for (; k + FPP_LANES <= dim; k += FPP_LANES) {
        for (int r = 0; r < count; r++) {
            __builtin_prefetch(x + r * stride_bytes + k * (is_f32 ? 4 : 8) + FPP_AHEAD);
        }
        STEP(k, FPP_LANES)
    }
    if (k < dim) {
        for (int r = 0; r < count; r++) {
            __builtin_prefetch(x + r * stride_bytes + k * (is_f32 ? 4 : 8) + FPP_AHEAD);
        }
        STEP(k, dim - k)
    }
#undef STEP
    for (int r = 0; r < count; r++) {
        for (int s = 0; s < PARTS; s++) {
            NAME(store)(lanes[r] + s * W, acc[r][s]);
        }
    }
}

TARGET FPP_INLINE void NAME(rows_diagonal)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq,
                                           int general, int is_f32)
{
    double lanes[FPP_LANES][FPP_LANES] = {{0.0}};
    int64_t r = 0;
    while (r < rows) {
        const int64_t at = r % FPP_LANES;
        double *z = plan->z + r * plan->ld;
        if (rows - r >= RT) {
            NAME(rows_together)(plan, x + r * stride_bytes, stride_bytes, z, lanes + at, RT, general, is_f32);
            r += RT;
        } else {
            NAME(rows_together)(plan, x + r * stride_bytes, stride_bytes, z, lanes + at, 1, general, is_f32);
            r += 1;
        }
        if (r % FPP_LANES == 0 || r == rows) {
            NAME(fold)((const double(*)[FPP_LANES])lanes, norm_sq + (r - 1) / FPP_LANES * FPP_LANES);
        }
    }
}

TARGET FPP_INLINE double NAME(lane_sum)(V v)
{
    double sum = 0.0;
    for (int l = 0; l < W; l++) {
        sum += v[l];
    }
    return sum;
}

/* The rounding loops take groups of rows: they get zero rows that fill the last one. */
TARGET FPP_INLINE void NAME(fill_group)(const fpp_plan *plan, int64_t rows, double *norm_sq)
{
    for (int64_t r = rows; r % FPP_LANES != 0; r++) {
        norm_sq[r] = 0.0;
        memset(plan->z + r * plan->ld, 0, (size_t)fpp_round_up(plan->out_dim, FPP_LANES) * sizeof(double));
    }
}

#include "products_simd.h"

/* Scores of labelled rows become their factors: the weighted residual or the root of the weighted curvature, 0 where that is not finite. */
TARGET FPP_INLINE void NAME(factors_of_scores)(const fpp_row_score *of, const double *restrict labels, const double *restrict weights,
                                               double *restrict factor, int64_t rows, int curvature)
{
    static const double even[2] = {1.0, 1.0};
    const double *const classes = of->loss == FPP_LOSS_WEIGHTED_LOGISTIC ? of->numbers : even;
    for (int64_t r = 0; r < rows; r += W) {
        const V score = NAME(load)(factor + r) * of->unit, label = NAME(load)(labels + r);
        V found = label - score;
        if (of->loss == FPP_LOSS_HUBER) {
            found = NAME(bounded_factor)(of->numbers[0], found, curvature);
        } else if (of->loss != FPP_LOSS_SQUARED) {
            found = NAME(class_factor)(classes, score, label, curvature);
        } else if (curvature) {
            found = found - found + 1.0; /* what is not finite stays so */
        }
        NAME(store)(factor + r, found);
    }
    for (int64_t r = 0; of->weighted && r < rows; r++) {
        const double part = weights[r] > 0.0 ? fpp_smaller(weights[r], 1.0) : 0.0;
        factor[r] *= curvature ? __builtin_sqrt(part) : part;
    }
    for (int64_t r = 0; r < rows; r += W) {
        const V found = NAME(load)(factor + r) * of->step;
        NAME(store)(factor + r, (V)((VI)found & NAME(is_finite)(found)));
    }
}

/* Factors of labelled rows, see fpp_row_score. Scores are folded from lanes, so that inexact ones have one order too. */
TARGET FPP_INLINE void NAME(score_rows)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *factor, int is_f32)
{
    const int64_t dim = plan->dim, groups = fpp_round_up(rows, FPP_LANES);
    const fpp_row_score *of = plan->map->score;
    double lanes[FPP_LANES][FPP_LANES] = {{0.0}}, labels[FPP_TILE_ROWS] = {0.0}, weights[FPP_TILE_ROWS] = {0.0};
    for (int64_t r = 0; r < rows; r++) {
        const char *row = x + r * stride_bytes;
        labels[r] = fpp_entry(row, dim, is_f32);
        weights[r] = of->weighted ? fpp_entry(row, dim + 1, is_f32) : 1.0;
        V acc[PARTS];
        memset(acc, 0, sizeof acc);
        int64_t k = 0;
        for (; k + FPP_LANES <= dim; k += FPP_LANES) {
            for (int s = 0; s < PARTS; s++) {
                acc[s] += NAME(load_x)(row, k + s * W, W, is_f32) * NAME(load)(plan->slope + k + s * W);
            }
        }
        for (int s = 0; s < PARTS && k < dim; s++) {
            acc[s] += NAME(load_x)(row, k + s * W, dim - k - s * W, is_f32) * NAME(load)(plan->slope + k + s * W);
        }
        for (int s = 0; s < PARTS; s++) {
            NAME(store)(lanes[r % FPP_LANES] + s * W, acc[s]);
        }
        if (r % FPP_LANES == FPP_LANES - 1 || r == rows - 1) {
            NAME(fold)((const double(*)[FPP_LANES])lanes, factor + r / FPP_LANES * FPP_LANES);
        }
    }
    if (of->curvature) {
        NAME(factors_of_scores)(of, labels, weights, factor, groups, 1);
    } else {
        NAME(factors_of_scores)(of, labels, weights, factor, groups, 0);
    }
}

TARGET static void NAME(score)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *factor)
{
    plan->is_f32 ? NAME(score_rows)(plan, x, stride_bytes, rows, factor, 1) : NAME(score_rows)(plan, x, stride_bytes, rows, factor, 0);
}

/* The loops over x, specialised: no map, a center alone, or everything. */
#define BY_KIND(function, ...)                 \
    do {                                       \
        if (plan->general && plan->is_f32) {   \
            function(__VA_ARGS__, 1, 1);       \
        } else if (plan->general) {            \
            function(__VA_ARGS__, 1, 0);       \
        } else if (plan->is_f32) {             \
            function(__VA_ARGS__, 0, 1);       \
        } else {                               \
            function(__VA_ARGS__, 0, 0);       \
        }                                      \
    } while (0)

TARGET static void NAME(tile)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq)
{
    if (plan->matrix_kind >= FPP_MATRIX_LOWER) {
        if (plan->is_f32) {
            NAME(rows_matrix)(plan, x, stride_bytes, rows, norm_sq, 1, RB, 0);
        } else {
            NAME(rows_matrix)(plan, x, stride_bytes, rows, norm_sq, 0, RB, 0);
        }
    } else {
        BY_KIND(NAME(rows_diagonal), plan, x, stride_bytes, rows, norm_sq);
    }
    NAME(fill_group)(plan, rows, norm_sq);
}


/* limit / norm for rows longer than the limit, else limit / limit = 1: no branch, for half of the rows may be clipped. */
TARGET static void NAME(factors)(const fpp_plan *plan, int64_t rows, const double *restrict norm_sq, double *restrict factor)
{
    const double limit = plan->limit;
    for (int64_t r = 0; r < fpp_round_up(rows, FPP_LANES); r++) {
        const double norm = __builtin_sqrt(norm_sq[r]);
        factor[r] = limit / (norm > limit ? norm : limit);
    }
}

/* A row that fails the integer check counts as zero. The sum of squares is taken in doubles: integers up to quant_bound^2 <= 2^53
 * are exact there, a rounded sum never falls below a term or a true sum that exceeds 2^53, and infinity and NaN fail. So this one
 * comparison is the check of each |q_j| <= quant_bound and of the exact sum of squares together. */
TARGET FPP_INLINE int NAME(reject)(const fpp_plan *plan, double *z, double *factor, double sum_sq)
{
    if (FPP_LIKELY(sum_sq <= plan->quant_bound_sq)) {
        return 0;
    }
    memset(z, 0, (size_t)fpp_round_up(plan->out_dim, FPP_LANES) * sizeof(double));
    *factor = 1.0;
    return 1;
}

/* The low 32 bits of FPP_ROUNDER + q are q modulo 2^32: no cast that could overflow. Single precision is written for `single`. */
TARGET FPP_INLINE void NAME(write_rows)(const fpp_plan *plan, int64_t rows, double *factor, int64_t out_stride, void *out, int single)
{
    typedef int32_t words __attribute__((vector_size(4 * W)));
    typedef float floats __attribute__((vector_size(4 * W)));
    const int64_t out_dim = plan->out_dim;
    for (int64_t r = 0; r < rows; r++) {
        double *restrict z = plan->z + r * plan->ld;
        int32_t *restrict row = (int32_t *)out + r * out_stride; /* of entries of four bytes */
        int rejected;
        do {
            V sum_sq = {0.0};
            for (int64_t k = 0; k < out_dim; k += W) {
                const V raised = NAME(load)(z + k) * factor[r] + FPP_ROUNDER;
                const V q = raised - FPP_ROUNDER;
                sum_sq = ADD_SQUARE(sum_sq, q);
                const words low = single ? (words)__builtin_convertvector(q, floats) : __builtin_convertvector((VI)raised, words);
                if (k + W <= out_dim) {
                    *(NAME(half_u) *)(row + k) = low;
                } else {
                    for (int l = 0; l < W - 1; l++) {
                        if (k + l < out_dim) {
                            row[k + l] = low[l];
                        }
                    }
                }
            }
            rejected = NAME(reject)(plan, z, factor + r, NAME(lane_sum)(sum_sq));
        } while (rejected);
    }
}

TARGET static void NAME(quantise)(const fpp_plan *plan, int64_t rows, double *factor, int32_t *out)
{
    NAME(write_rows)(plan, rows, factor, plan->out_dim, out, 0);
}

TARGET static void NAME(single)(const fpp_plan *plan, int64_t rows, double *factor, int64_t out_stride, float *out)
{
    NAME(write_rows)(plan, rows, factor, out_stride, out, 1);
}

/* Pairs of rows as int32 words of two int16, low half first: packed[panel][pair][column of the panel]. */
TARGET static void NAME(pack)(const fpp_plan *plan, int64_t rows, double *factor, int64_t width, int64_t panel_stride,
                              int32_t *packed)
{
    const int64_t ld = plan->ld, columns = fpp_round_up(plan->out_dim, FPP_LANES);
    for (int64_t r = 0; r < rows; r += 2) {
        double *restrict z = plan->z + r * ld;
        int32_t *restrict target = packed + r / 2 * width;
        double one = 1.0;
        double *f0 = factor + r, *f1 = r + 1 < rows ? f0 + 1 : &one;
        int rejected;
        do {
            V low_sq = {0.0}, high_sq = {0.0};
            for (int64_t begin = 0; begin < columns; begin += width) {
                int32_t *restrict words = target + begin / width * panel_stride;
                const int64_t end = fpp_min(width, columns - begin);
                for (int64_t k = 0; k < end; k += W) {
                    const V low = NAME(load)(z + begin + k) * *f0 + FPP_ROUNDER;
                    const V high = NAME(load)(z + ld + begin + k) * *f1 + FPP_ROUNDER;
                    const V q0 = low - FPP_ROUNDER, q1 = high - FPP_ROUNDER;
                    low_sq = ADD_SQUARE(low_sq, q0);
                    high_sq = ADD_SQUARE(high_sq, q1);
                    const VI word = ((VI)low & 0xffff) | ((VI)high << 16);
                    *(NAME(half_u) *)(words + k) = __builtin_convertvector(word, NAME(half));
                }
            }
            rejected = NAME(reject)(plan, z, f0, NAME(lane_sum)(low_sq)) | NAME(reject)(plan, z + ld, f1, NAME(lane_sum)(high_sq));
        } while (rejected);
    }
}

#include "sums_simd.h"

static const fpp_row_kernels NAME(kernels) = {
    PANEL, NAME(score), NAME(tile), NAME(factors), NAME(sum), NAME(quantise), NAME(single), NAME(pack), NAME(stream),
#if W > 2
    NAME(weigh), NAME(tile_fused), NAME(doubts), NAME(row_alone),
#else
    NULL, NULL, NULL, NULL, /* without fused instructions */
#endif
};

#undef BY_KIND
#undef V
#undef VI
#undef PANEL
#undef ADD_SQUARE
#undef PARTS
#undef W
#undef NAME
#undef TARGET
#undef RB
#undef CB
#undef RT
