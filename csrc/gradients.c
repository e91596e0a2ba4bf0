/* Gradients of linear models as exact integers: the residual of a loss times a row, clipped as a whole. Sixteen rows go side by side;
 * what one adds depends on that row and the map alone, and each sum along a row has one order on every instruction set. */
#include "rowmap.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define SIDE 16 /* rows side by side: a tile of 100 columns stays in the first cache, and their sums hide the latency of additions */

typedef struct {
    double *tile;    /* (dim, SIDE) */
    double *steps;   /* (outputs, SIDE): scores, then grid steps for each unit of a column */
    double *scores;  /* (outputs): of one row */
    double *found;   /* (outputs): its residuals */
    uint64_t *sums;  /* (outputs, dim, lanes of a vector) */
} gradient_scratch;

FPP_INLINE double number(const char *row, int64_t column, int is_f32)
{
    return is_f32 ? (double)((const float *)(const void *)row)[column] : ((const double *)(const void *)row)[column];
}

/* As Python's min and max: the first of two that are equal or cannot be compared. */
FPP_INLINE double smaller(double a, double b)
{
    return b < a ? b : a;
}

FPP_INLINE double larger(double a, double b)
{
    return b > a ? b : a;
}

FPP_INLINE double chance_of(double score)
{
    if (score >= 0.0) {
        return 1.0 / (1.0 + exp(-score));
    }
    const double grown = exp(score);
    return grown / (1.0 + grown);
}

/* Operation by operation the functions of the same names in fastpubpriv/losses.py. */
static double residual_of(const fpp_gradient_map *map, double score, double label)
{
    const int is_class = label == 0.0 || label == 1.0;
    switch (map->loss) {
    case FPP_LOSS_FUNCTION:
        return map->function(score, label);
    case FPP_LOSS_SQUARED:
        return label - score;
    case FPP_LOSS_LOGISTIC:
        return is_class ? label - chance_of(score) : NAN;
    case FPP_LOSS_WEIGHTED_LOGISTIC: {
        const double chance = is_class ? chance_of(score) : NAN;
        return label == 1.0 ? map->numbers[1] * (1.0 - chance) : -map->numbers[0] * chance;
    }
    case FPP_LOSS_HUBER:
        return smaller(larger(label - score, -map->numbers[0]), map->numbers[0]);
    case FPP_LOSS_SMOOTH_HINGE: {
        const double sign = 2.0 * label - 1.0;
        return is_class ? sign * smaller(larger(1.0 - sign * score, 0.0), 1.0) : NAN;
    }
    default: /* FPP_LOSS_POISSON */
        return label >= 0.0 ? label - exp(smaller(score, 700.0)) : NAN;
    }
}

static void softmax(const double *scores, int64_t outputs, double label, double *found)
{
    double largest = scores[0], total = 0.0;
    int known = 0;
    for (int64_t o = 0; o < outputs; o++) {
        largest = larger(largest, scores[o]);
    }
    for (int64_t o = 0; o < outputs; o++) {
        found[o] = exp(scores[o] - largest);
        total += found[o];
    }
    for (int64_t o = 0; o < outputs; o++) {
        found[o] = -found[o] / total;
        if (label == (double)o) {
            found[o] += 1.0;
            known = 1;
        }
    }
    if (!known) {
        found[0] = NAN;
    }
}

/* Whether `weights` is a matrix, be it of one row. */
FPP_INLINE int has_outputs(const fpp_gradient_map *map)
{
    return map->loss == FPP_LOSS_SOFTMAX || map->functions != NULL;
}

/* Rows whose predictions have several outputs: steps (outputs, SIDE) of row r, zero where something is not finite. */
static void steps_of_outputs(const fpp_gradient_map *map, double label, double norm_sq, const gradient_scratch *scratch, int64_t r)
{
    const int64_t outputs = map->outputs;
    double length_sq = 0.0;
    int finite = fabs(label) < INFINITY;
    for (int64_t o = 0; o < outputs; o++) {
        scratch->scores[o] = scratch->steps[o * SIDE + r];
        scratch->found[o] = 0.0;
    }
    if (map->loss == FPP_LOSS_SOFTMAX) {
        softmax(scratch->scores, outputs, label, scratch->found);
    } else {
        map->functions(scratch->scores, outputs, label, scratch->found);
    }
    for (int64_t o = 0; o < outputs; o++) {
        length_sq += scratch->found[o] * scratch->found[o];
    }
    const double length = sqrt(length_sq), longest = map->limit / sqrt(norm_sq);
    const double shortened = (length > longest ? longest / length : 1.0) * map->inv_step;
    for (int64_t o = 0; o < outputs; o++) {
        scratch->found[o] *= shortened;
        finite &= fabs(scratch->found[o]) < INFINITY;
    }
    for (int64_t o = 0; o < outputs; o++) {
        scratch->steps[o * SIDE + r] = finite ? scratch->found[o] : 0.0;
    }
}

static void no_steps(const fpp_gradient_map *map, const gradient_scratch *scratch, int64_t r)
{
    for (int64_t o = 0; o < map->outputs; o++) {
        scratch->steps[o * SIDE + r] = 0.0;
    }
}

/* Scores of row r become its steps: see fpp_gradient_map. */
static void row_steps(const fpp_gradient_map *map, double label, double norm_sq, const gradient_scratch *scratch, int64_t r)
{
    if (has_outputs(map)) {
        steps_of_outputs(map, label, norm_sq, scratch, r);
        return;
    }
    const double residual = residual_of(map, scratch->steps[r], label) * map->inv_scale;
    double steps;
    if (map->spread != NULL) {
        const double norm = sqrt(norm_sq), shortened = norm > map->limit ? map->limit / norm : 1.0;
        steps = shortened * (smaller(larger(residual, -map->clip), map->clip) / map->clip) * map->inv_step;
    } else {
        const double longest = map->limit / sqrt(norm_sq);
        steps = smaller(larger(residual, -longest), longest) * map->inv_step;
    }
    const int finite = fabs(residual) < INFINITY && fabs(steps) < INFINITY && (map->spread != NULL || fabs(label) < INFINITY);
    scratch->steps[r] = finite ? steps : 0.0;
}

/* The weight of row r, from 0 to 1, is a factor of its steps: what they were bounded by still holds. */
static void weigh_steps(const fpp_gradient_map *map, double weight, const gradient_scratch *scratch, int64_t r)
{
    const double factor = weight > 0.0 ? smaller(weight, 1.0) : 0.0;
    for (int64_t o = 0; o < map->outputs; o++) {
        scratch->steps[o * SIDE + r] *= factor;
    }
}

enum { lanes_baseline = 2, lanes_avx2 = 4, lanes_avx512 = 8 };

#define KERNELS "gradients_simd.h"
#include "each_level.h"

FPP_INLINE int is_positive(double value)
{
    return value > 0.0 && value < INFINITY;
}

static int32_t map_is_valid(const fpp_gradient_map *map)
{
    const int64_t exact = INT64_C(1) << 53;
    if (map == NULL || map->dim < 1 || map->dim > FPP_DIM_MAX || map->outputs < 1 || map->outputs > FPP_DIM_MAX / map->dim
        || map->weights == NULL || map->loss < FPP_LOSS_FUNCTION || map->loss > FPP_LOSS_SOFTMAX || map->quant_bound < 1
        || map->quant_bound > INT64_C(94906265) /* floor(2^26.5) */
        || map->dim * map->outputs > exact / (map->quant_bound * map->quant_bound) || !is_positive(map->limit)
        || !is_positive(map->inv_step) || !is_positive(map->inv_scale) || map->weighted < 0 || map->weighted > 1
        || (map->spread != NULL && !is_positive(map->clip))) {
        return 0;
    }
    if (map->loss == FPP_LOSS_FUNCTION ? (map->function == NULL) == (map->functions == NULL)
                                       : map->function != NULL || map->functions != NULL) {
        return 0;
    }
    /* A row that fails its check becomes zeros, and zero times infinity would not be zero. */
    for (int64_t k = 0; map->spread != NULL && k < map->dim; k++) {
        if (!(fabs(map->spread[k]) < INFINITY)) {
            return 0;
        }
    }
    return has_outputs(map) ? map->spread == NULL : map->outputs == 1;
}

FPP_API int64_t fpp_gradients_workspace_size(const fpp_gradient_map *map)
{
    if (!map_is_valid(map)) {
        return -1;
    }
    return 64 + ((map->dim + map->outputs) * SIDE + 2 * map->outputs + map->outputs * map->dim * FPP_LANES) * (int64_t)sizeof(double);
}

static gradient_scratch lay_out(const fpp_gradient_map *map, char *workspace)
{
    gradient_scratch scratch;
    scratch.tile = (double *)(void *)(workspace + (64 - (uintptr_t)workspace % 64) % 64);
    scratch.steps = scratch.tile + map->dim * SIDE;
    scratch.sums = (uint64_t *)(void *)(scratch.steps + map->outputs * SIDE);
    scratch.scores = (double *)(void *)(scratch.sums + map->outputs * map->dim * FPP_LANES);
    scratch.found = scratch.scores + map->outputs;
    return scratch;
}

FPP_INLINE int32_t gradients_sum(const char *x, int64_t n, int64_t row_stride, const fpp_gradient_map *map, int is_f32,
                                 void *workspace, int64_t *sums)
{
    int64_t stride_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || !map_is_valid(map) || workspace == NULL || sums == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const gradient_scratch scratch = lay_out(map, workspace);
    const int64_t entries = map->outputs * map->dim, lanes = FPP_AT_LEVEL(lanes);
    void (*const tile)(const fpp_gradient_map *, const char *, int64_t, int64_t, int, const gradient_scratch *) = FPP_AT_LEVEL(tile);
    memset(scratch.sums, 0, (size_t)(entries * lanes) * sizeof *scratch.sums);
    uint64_t added = 0; /* rows of a vector's lane */
    for (int64_t i = 0; i < n; i += SIDE, added += (uint64_t)(SIDE / lanes)) {
        tile(map, x + i * stride_bytes, stride_bytes, fpp_min(SIDE, n - i), is_f32, &scratch);
    }
    for (int64_t k = 0; k < entries; k++) {
        uint64_t steps = (uint64_t)sums[k];
        for (int64_t l = 0; l < lanes; l++) {
            steps += scratch.sums[k * lanes + l] - added * FPP_ROUNDER_BITS;
        }
        sums[k] = (int64_t)steps;
    }
    return FPP_OK;
}

FPP_API int32_t fpp_gradients_sum_f64(const double *x, int64_t n, int64_t row_stride, const fpp_gradient_map *map, void *workspace,
                                      int64_t *sums)
{
    return gradients_sum((const char *)x, n, row_stride, map, 0, workspace, sums);
}

FPP_API int32_t fpp_gradients_sum_f32(const float *x, int64_t n, int64_t row_stride, const fpp_gradient_map *map, void *workspace,
                                      int64_t *sums)
{
    return gradients_sum((const char *)x, n, row_stride, map, 1, workspace, sums);
}
