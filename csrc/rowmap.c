/* What rowmap.h declares: the plan of a map, tiles of rows, and the rare rescaling of rows whose norm overflows. */
#include "losses.h"
#include "rowmap.h"

#include <float.h>
#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define FPP_FUSED_SHARE 4 /* one row in so many may be taken twice: then both take about as long as the unfused product */

static void rescue(const fpp_plan *plan, const char *x, double *z, double *factor);

#define W 2
#define NAME(x) x##_baseline
#define TARGET
#define RB 4
#define CB 2
#define RT 1
#include "rows_simd.h"

#if FPP_X86
#define W 4
#define NAME(x) x##_avx2
#define TARGET FPP_TARGET_AVX2
#define RB 4
#define CB 3
#define RT 2
#include "rows_simd.h"

#define W 8
#define NAME(x) x##_avx512
#define TARGET FPP_TARGET_AVX512
#define RB 8
#define CB 3
#define RT 4
#include "rows_simd.h"
#endif

FPP_LOCAL const fpp_row_kernels *fpp_row_kernels_now(void)
{
    return FPP_AT_LEVEL(&kernels);
}

/* Written so that NaN fails. */
static int32_t loss_is_valid(const fpp_row_score *score)
{
    if (score->loss == FPP_LOSS_HUBER) {
        return score->numbers[0] > 0.0 && score->numbers[0] < INFINITY;
    }
    return score->loss >= FPP_LOSS_SQUARED && score->loss <= FPP_LOSS_WEIGHTED_LOGISTIC;
}

/* As above. */
static int32_t map_is_valid(const fpp_row_map *map)
{
    if (map == NULL || map->dim < 1 || map->dim > FPP_DIM_MAX || map->out_dim < 1 || map->out_dim > FPP_DIM_MAX) {
        return 0;
    }
    if (map->matrix_kind < FPP_MATRIX_IDENTITY || map->matrix_kind > FPP_MATRIX_FULL) {
        return 0;
    }
    /* The last row of a LOWER matrix must reach the last column, or a non-finite entry there would go unseen. */
    const fpp_row_score *score = map->score;
    if (score != NULL
        && (!loss_is_valid(score) || score->slope == NULL
            || map->center != NULL || map->offset != NULL || !(score->unit > 0.0 && score->unit < INFINITY)
            || !(score->step > 0.0 && score->step < INFINITY))) {
        return 0;
    }
    return (map->matrix_kind == FPP_MATRIX_IDENTITY || map->matrix != NULL)
           && (map->matrix_kind == FPP_MATRIX_FULL || map->out_dim == map->dim
               || (map->matrix_kind == FPP_MATRIX_LOWER && map->out_dim > map->dim));
}

FPP_LOCAL int32_t fpp_plan_scale(fpp_plan *plan, const fpp_row_kernels *kernels)
{
    const fpp_row_map *map = plan->map;
    const int64_t exact = INT64_C(1) << 53;
    if (map->quant_bound < 1 || map->quant_bound > INT64_C(94906265) /* floor(2^26.5) */
        || map->out_dim > exact / (map->quant_bound * map->quant_bound) || !(map->inv_step > 0.0 && map->inv_step < INFINITY)
        || !(map->limit > 0.0 && map->limit < INFINITY)) {
        return FPP_ERR_ARGUMENT;
    }
    plan->inv_step = map->inv_step;
    plan->limit = map->limit;
    plan->quant_bound_sq = (double)(map->quant_bound * map->quant_bound);
    /* `doubts` knows no factor of a score. */
    *plan->fused = map->score == NULL && plan->matrix_kind >= FPP_MATRIX_LOWER && plan->dim >= FPP_FUSED_DIM && kernels->weigh != NULL && kernels->weigh(plan);
    return FPP_OK;
}

static int64_t row_ld(const fpp_row_map *map)
{
    /* The first panel of a product writes up to FPP_PANEL_MAX - 1 numbers in front of a row. A power of two would put all rows of a
     * tile in one cache set. */
    const int64_t ld = fpp_round_up(map->out_dim, FPP_LANES) + (map->matrix_kind >= FPP_MATRIX_LOWER ? FPP_PANEL_MAX : 0);
    return ld % 64 == 0 ? ld + FPP_LANES : ld;
}

/* Lays the scratch out from `base`, 64-byte aligned, and returns the bytes used; a null base only counts them. */
static int64_t lay_out(const fpp_row_map *map, char *base, fpp_plan *plan)
{
    const int64_t in_pad = fpp_round_up(map->dim, FPP_LANES);
    const int matrix = map->matrix_kind >= FPP_MATRIX_LOWER;
    int64_t used = 0;
    plan->ld = row_ld(map);
    plan->row = fpp_take(base, &used, 8 * in_pad);
    plan->fused = fpp_take(base, &used, 8);
    plan->center = fpp_take(base, &used, 8 * in_pad);
    plan->diagonal = fpp_take(base, &used, 8 * in_pad);
    plan->offset = fpp_take(base, &used, 8 * plan->ld);
    plan->sums = fpp_take(base, &used, 8 * plan->ld);
    plan->outer_sums = fpp_take(base, &used, 8 * plan->ld);
    plan->slope = fpp_take(base, &used, map->score == NULL ? 0 : 8 * in_pad);
    double *z = fpp_take(base, &used, 8 * ((matrix ? FPP_PANEL_MAX : 0) + FPP_TILE_ROWS * plan->ld));
    plan->z = z == NULL ? NULL : z + (matrix ? FPP_PANEL_MAX : 0);
    plan->t = fpp_take(base, &used, matrix ? 8 * FPP_TILE_ROWS * FPP_T_LD : 0);
    plan->weights = fpp_take(base, &used, matrix ? 8 * in_pad : 0);
    plan->tau_sq = fpp_take(base, &used, matrix ? 8 * FPP_TILE_ROWS : 0);
    /* Narrower panels need no more than the widest. */
    const int64_t panels = (map->out_dim + FPP_PANEL_MAX - 1) / FPP_PANEL_MAX;
    plan->panels = fpp_take(base, &used, matrix ? 8 * fpp_panel_begin(map->matrix_kind, map->dim, FPP_PANEL_MAX, panels) : 0);
    plan->gram = fpp_take(base, &used, 0);
    return used;
}

FPP_API int64_t fpp_rows_workspace_size(const fpp_row_map *map)
{
    fpp_plan plan;
    if (!map_is_valid(map)) {
        return -1;
    }
    return 64 + lay_out(map, NULL, &plan) + fpp_gram_workspace_size(map->out_dim);
}

static void fill(double *to, const double *from, int64_t count, int64_t padded, double absent)
{
    for (int64_t k = 0; k < padded; k++) {
        to[k] = k >= count ? 0.0 : from != NULL ? from[k] : absent;
    }
}

/* Column panels of the transposed matrix, so that the product reads outputs side by side. */
static void pack_panels(const fpp_row_map *map, int64_t panel, double *panels)
{
    const int64_t dim = map->dim, before = fpp_panels_before(map->out_dim, panel);
    for (int64_t p = 0; p * panel < map->out_dim; p++) {
        double *to = panels + fpp_panel_begin(map->matrix_kind, dim, panel, p);
        const int64_t begin = p * panel - before;
        const int64_t depth = map->matrix_kind == FPP_MATRIX_LOWER ? fpp_min(begin + panel, dim) : dim;
        for (int64_t k0 = 0; k0 < depth; k0 += FPP_LANES) {
            const int64_t k1 = fpp_min(depth, k0 + FPP_LANES);
            for (int64_t c = 0; c < panel; c++) {
                const int64_t i = begin + c;
                const int64_t last = map->matrix_kind == FPP_MATRIX_LOWER ? i + 1 : dim;
                for (int64_t k = k0; k < k1; k++) {
                    to[k * panel + c] = i >= 0 && k < last ? map->matrix[i * dim + k] : 0.0;
                }
            }
        }
    }
}

FPP_LOCAL int32_t fpp_plan_make(const fpp_row_map *map, int32_t is_f32, const fpp_row_kernels *kernels, void *workspace,
                                fpp_plan *plan)
{
    if (!map_is_valid(map) || workspace == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    lay_out(map, fpp_aligned(workspace), plan);
    plan->map = map;
    plan->dim = map->dim;
    plan->out_dim = map->out_dim;
    plan->matrix_kind = map->matrix_kind;
    plan->is_f32 = is_f32;
    plan->linear = 0;
    plan->neutral = NULL;
    *plan->fused = 0;
    plan->general = map->matrix_kind != FPP_MATRIX_IDENTITY || map->offset != NULL;
    plan->inv_step = 1.0;
    plan->limit = 1.0;
    plan->quant_bound_sq = 1.0;
    const int64_t in_pad = fpp_round_up(map->dim, FPP_LANES);
    fill(plan->center, map->center, map->dim, in_pad, 0.0);
    fill(plan->offset, map->offset, map->out_dim, plan->ld, 0.0);
    if (map->score != NULL) {
        fill(plan->slope, map->score->slope, map->dim, in_pad, 0.0);
    }
    if (map->matrix_kind >= FPP_MATRIX_LOWER) {
        pack_panels(map, kernels->panel, plan->panels);
        /* A few rows and what becomes of them stay in L1; a matrix that is far from it is read for more rows. */
        plan->tile_rows = map->dim <= FPP_TILE_ROWS_FEW_DIM ? FPP_TILE_ROWS_FEW : FPP_TILE_ROWS;
        for (int64_t r = 0; r < FPP_TILE_ROWS; r++) { /* no panel writes beyond the last output */
            fill(plan->z + r * plan->ld + map->out_dim, NULL, 0, fpp_round_up(map->out_dim, FPP_LANES) - map->out_dim, 0.0);
        }
    } else {
        fill(plan->diagonal, map->matrix_kind == FPP_MATRIX_DIAGONAL ? map->matrix : NULL, map->dim, in_pad, 1.0);
        /* Tiles of about 16 KiB stay in L1 between the two loops; eight rows fill a group of any instruction set. */
        const int64_t fit = 2048 / plan->ld / 8 * 8;
        plan->tile_rows = fit < 8 ? 8 : fpp_min(fit, FPP_TILE_ROWS);
    }
    /* Short rows need several in a group to hide the latency of a factor; of long ones, two groups should fit L1. */
    plan->stream_rows = plan->ld <= 128 ? 8 : plan->ld <= 256 ? 4 : plan->ld <= 512 ? 2 : 1;
    memset(plan->sums, 0, (size_t)plan->ld * sizeof *plan->sums);
    memset(plan->outer_sums, 0, (size_t)plan->ld * sizeof *plan->sums);
    return FPP_OK;
}

FPP_LOCAL int32_t fpp_row_is_finite(const char *x, int64_t dim, int32_t is_f32)
{
    int32_t finite = 1;
    for (int64_t k = 0; k < dim; k++) {
        const double v = is_f32 ? (double)((const float *)(const void *)x)[k] : ((const double *)(const void *)x)[k];
        finite &= fabs(v) < INFINITY;
    }
    return finite;
}

/* z of one scaled row, by the same operations in the same order as the fast path, without vectors. */
static double scaled_row(const fpp_plan *plan, const char *x, double scale, double *z)
{
    const int64_t dim = plan->dim, out_dim = plan->out_dim;
    double *t = plan->row;
    for (int64_t k = 0; k < dim; k++) {
        const double v = plan->is_f32 ? (double)((const float *)(const void *)x)[k] : ((const double *)(const void *)x)[k];
        t[k] = v * scale - plan->center[k] * scale;
    }
    if (plan->matrix_kind < FPP_MATRIX_LOWER) {
        for (int64_t k = 0; k < dim; k++) {
            z[k] = plan->matrix_kind == FPP_MATRIX_DIAGONAL ? t[k] * plan->diagonal[k] : t[k];
        }
    } else {
        /* Eight outputs side by side hide the latency of the additions. */
        for (int64_t i0 = 0; i0 < out_dim; i0 += FPP_LANES) {
            double acc[FPP_LANES] = {0.0};
            const int64_t count = fpp_min(FPP_LANES, out_dim - i0);
            const int64_t last = plan->matrix_kind == FPP_MATRIX_LOWER ? fpp_min(i0 + count, dim) : dim;
            for (int64_t k = 0; k < last; k++) {
                for (int64_t l = 0; l < count; l++) {
                    const int inside = plan->matrix_kind == FPP_MATRIX_FULL || k <= i0 + l;
                    acc[l] += inside ? t[k] * plan->map->matrix[(i0 + l) * dim + k] : 0.0;
                }
            }
            memcpy(z + i0, acc, (size_t)count * sizeof(double));
        }
    }
    double lanes[FPP_LANES] = {0.0};
    for (int64_t k = 0; k < out_dim; k++) {
        z[k] = (z[k] + plan->offset[k] * scale) * plan->inv_step;
        lanes[k % FPP_LANES] += z[k] * z[k];
    }
    return fpp_fold(lanes);
}

/* For a row whose squared norm is not finite. If the row itself is finite, it is still clipped: its direction is found from the row
 * times a small power of two, the first of four that gives a finite positive norm. Otherwise it is neutral: zero. */
static void rescue(const fpp_plan *plan, const char *x, double *z, double *factor)
{
    static const double scales[4] = {0x1p-256, 0x1p-512, 0x1p-768, 0x1p-1022};
    if (fpp_row_is_finite(x, plan->dim, plan->is_f32)) {
        for (int i = 0; i < 4; i++) {
            const double norm_sq = scaled_row(plan, x, scales[i], z);
            /* 0 * inf may have left NaN in the padding. */
            for (int64_t k = plan->out_dim; k % FPP_LANES != 0; k++) {
                z[k] = 0.0;
            }
            if (norm_sq > 0.0 && norm_sq < INFINITY) {
                *factor = plan->limit / sqrt(norm_sq);
                return;
            }
        }
    }
    memset(z, 0, (size_t)fpp_round_up(plan->out_dim, FPP_LANES) * sizeof(double));
    *factor = 1.0;
    if (plan->neutral != NULL) {
        ++*plan->neutral;
    }
}

/* Factors of the outer pieces of rows, (min(norm^2, 2 limit^2) - limit^2)^.5 / norm, or if `linear` min(norm, 2 limit) - limit over norm,
 * by the factors limit / norm of the rows. */
static void outer_factors(int64_t rows, int32_t linear, const double *restrict factor, double *restrict outer)
{
    for (int64_t r = 0; r < fpp_round_up(rows, FPP_LANES); r++) {
        const double square = factor[r] * factor[r];
        outer[r] = linear ? fpp_smaller(2.0 * factor[r], 1.0) - factor[r] : __builtin_sqrt(square < 0.5 ? square : 1.0 - square);
    }
}

FPP_LOCAL void fpp_score_norms(const fpp_plan *plan, const fpp_row_kernels *kernels, const char *x, int64_t stride_bytes, int64_t rows,
                               double *times, double *norm_sq)
{
    kernels->score(plan, x, stride_bytes, rows, times);
    for (int64_t r = 0; r < fpp_round_up(rows, FPP_LANES); r++) {
        norm_sq[r] = norm_sq[r] * times[r] * times[r];
    }
}

FPP_LOCAL void fpp_row_tile(const fpp_plan *plan, const fpp_row_kernels *kernels, const char *x, int64_t stride_bytes, int64_t rows,
                            double *norm_sq, double *factor, double *outer)
{
    double times[FPP_TILE_ROWS];
    const int scored = plan->map->score != NULL;
    (*plan->fused ? kernels->tile_fused : kernels->tile)(plan, x, stride_bytes, rows, norm_sq);
    if (scored) {
        fpp_score_norms(plan, kernels, x, stride_bytes, rows, times, norm_sq);
    }
    for (int again = 0;; again = 1) {
        int64_t count = 0;
        kernels->factors(plan, rows, norm_sq, factor);
        if (outer != NULL) {
            outer_factors(rows, plan->linear, factor, outer);
        }
        const uint64_t doubts = *plan->fused && !again ? kernels->doubts(plan, rows, norm_sq, factor, outer) : 0;
        if (FPP_LIKELY(doubts == 0)) {
            break;
        }
        for (int64_t r = 0; r < rows; r++) {
            if (doubts >> r & 1) {
                norm_sq[r] = kernels->row_alone(plan, x + r * stride_bytes, r);
                count++;
            }
        }
        *plan->fused = count <= rows / FPP_FUSED_SHARE;
    }
    for (int64_t r = 0; r < rows; r++) {
        /* A non-finite entry always shows here: the last output of every kind of matrix reads all columns, and 0 * inf is NaN. */
        if (FPP_UNLIKELY(!(norm_sq[r] < INFINITY))) {
            rescue(plan, x + r * stride_bytes, plan->z + r * plan->ld, factor + r);
            times[r] = !scored ? 1.0 : (double)((times[r] > 0.0) - (times[r] < 0.0)); /* its length is known: the limit */
            if (outer != NULL) {
                outer[r] = factor[r]; /* beyond both radii */
            }
        }
    }
    for (int64_t r = 0; scored && r < rows; r++) {
        factor[r] *= times[r];
        if (outer != NULL) {
            outer[r] *= times[r];
        }
    }
}
