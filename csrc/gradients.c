/* Gradients of linear models as exact integers: the residual of a loss times a row, clipped as a whole. What a row adds depends on that
 * row and the map alone, and each sum along a row has one order on every instruction set: eight lanes, folded as those of fpp_fold. */
#include "losses.h"
#include "rowmap.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define KEEP_MAX 1024 /* columns of a row of which z is written down, aligned, until its step is known; wider ones are read again */

/* The map with its vectors padded to eight columns, and scratch in the caller's workspace. */
typedef struct {
    const fpp_gradient_map *map;
    int64_t ld;             /* doubles from one row of z to the next; zero beyond dim */
    int64_t rows;           /* of a group whose z are written down, at most FPP_LANES */
    int has_z;              /* there is room to write z down until its step is known */
    int has_outputs;        /* `weights` is a matrix, be it of one row */
    double quant_bound_sq, surely_sq;
    double *weights;        /* (outputs, ld) */
    double *spread;         /* (ld), where the map has one */
    double *z;              /* (2, rows, ld) if `has_z`: z of two groups */
    double *scores;         /* (outputs, FPP_LANES, FPP_LANES): lanes of the scores of each row of a group */
    double *norms;          /* (FPP_LANES, FPP_LANES): lanes of their squared norms */
    double *steps;          /* (outputs, FPP_LANES): scores, then grid steps for each unit of a column */
    double *score;          /* (outputs): of one row */
    double *found;          /* (outputs): its residuals */
    uint64_t *sums;         /* (outputs, ld) */
} gradient_plan;

typedef struct {
    const char *at;
    int64_t n, stride_bytes;
    const int64_t *places;  /* (n): which rows, NULL for one after the other */
    int is_f32;
} labelled_rows;

/* A group and the one before it. */
typedef struct {
    const char *row[FPP_LANES], *old[FPP_LANES], *ahead[FPP_LANES];
    double *to, *from;                 /* where their z are kept */
    int64_t bytes_ahead, places_ahead; /* what is fetched: so far after a row, or so many of the places after it */
} row_group;

FPP_INLINE const char *row_at(const labelled_rows *x, int64_t i)
{
    return x->at + (x->places == NULL ? i : x->places[i]) * x->stride_bytes;
}

/* Of rows that lie apart, the group after the next one is fetched. */
FPP_INLINE void look_ahead(const gradient_plan *plan, const labelled_rows *x, int64_t rows, row_group *group)
{
    const int64_t places = 1 + FPP_AHEAD / (plan->map->dim * (x->is_f32 ? 4 : 8)), bytes = rows * x->stride_bytes;
    group->places_ahead = places > 2 * rows ? places : 2 * rows;
    group->bytes_ahead = bytes > FPP_AHEAD ? bytes : FPP_AHEAD;
}

/* Beyond the end the last row is read again, without a step. */
FPP_INLINE void begin_group(const labelled_rows *x, int64_t i, int64_t rows, row_group *group)
{
    const int64_t last = x->n - 1;
    for (int64_t r = 0; r < rows; r++) {
        group->old[r] = group->row[r];
        group->row[r] = row_at(x, fpp_min(i + r, last));
        group->ahead[r] = x->places == NULL ? group->row[r] + group->bytes_ahead : row_at(x, fpp_min(i + r + group->places_ahead, last));
    }
}

FPP_INLINE double number(const char *row, int64_t column, int is_f32)
{
    return is_f32 ? (double)((const float *)(const void *)row)[column] : ((const double *)(const void *)row)[column];
}

static void softmax(const double *scores, int64_t outputs, double label, double *found)
{
    double largest = scores[0], total = 0.0;
    int known = 0;
    for (int64_t o = 0; o < outputs; o++) {
        largest = fpp_larger(largest, scores[o]);
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

FPP_INLINE int has_outputs(const fpp_gradient_map *map)
{
    return map->loss == FPP_LOSS_SOFTMAX || map->functions != NULL;
}

/* Scores of row r of a group, whose predictions have several outputs, become its steps: zero where something is not finite. */
static void steps_of_outputs(const gradient_plan *plan, double label, double norm_sq, int64_t r)
{
    const fpp_gradient_map *map = plan->map;
    const int64_t outputs = map->outputs;
    double length_sq = 0.0;
    int finite = fabs(label) < INFINITY;
    for (int64_t o = 0; o < outputs; o++) {
        plan->score[o] = plan->steps[o * FPP_LANES + r];
        plan->found[o] = 0.0;
    }
    if (map->loss == FPP_LOSS_SOFTMAX) {
        softmax(plan->score, outputs, label, plan->found);
    } else {
        map->functions(plan->score, outputs, label, plan->found);
    }
    for (int64_t o = 0; o < outputs; o++) {
        length_sq += plan->found[o] * plan->found[o];
    }
    const double length = sqrt(length_sq), longest = map->limit / sqrt(norm_sq);
    const double shortened = (length > longest ? longest / length : 1.0) * map->inv_step;
    for (int64_t o = 0; o < outputs; o++) {
        plan->found[o] *= shortened;
        finite &= fabs(plan->found[o]) < INFINITY;
    }
    for (int64_t o = 0; o < outputs; o++) {
        plan->steps[o * FPP_LANES + r] = finite ? plan->found[o] : 0.0;
    }
}

static void no_steps(const gradient_plan *plan, int64_t r)
{
    for (int64_t o = 0; o < plan->map->outputs; o++) {
        plan->steps[o * FPP_LANES + r] = 0.0;
    }
}

/* The weight of row r, from 0 to 1, is a factor of its steps: what they were bounded by still holds. */
static void weigh_steps(const gradient_plan *plan, double weight, int64_t r)
{
    const double factor = weight > 0.0 ? fpp_smaller(weight, 1.0) : 0.0;
    for (int64_t o = 0; o < plan->map->outputs; o++) {
        plan->steps[o * FPP_LANES + r] *= factor;
    }
}

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

/* Lays the scratch out from `base`, 64-byte aligned, and returns the bytes used; a null base only counts them. */
static int64_t lay_out(const fpp_gradient_map *map, char *base, gradient_plan *plan)
{
    const int64_t ld = fpp_round_up(map->dim, FPP_LANES);
    int64_t used = 0;
    /* A power of two would put all rows of a group in one cache set. */
    plan->ld = ld % 64 == 0 ? ld + FPP_LANES : ld;
    /* Short rows need several in a group to hide the latency of a factor; of long ones, two groups should fit the first cache. */
    plan->rows = plan->ld <= 128 ? 8 : plan->ld <= 256 ? 4 : 1;
    plan->has_z = map->spread != NULL || plan->ld <= KEEP_MAX;
    plan->weights = fpp_take(base, &used, 8 * map->outputs * plan->ld);
    plan->spread = fpp_take(base, &used, map->spread == NULL ? 0 : 8 * plan->ld);
    plan->z = fpp_take(base, &used, plan->has_z ? 8 * 2 * plan->rows * plan->ld : 0);
    plan->scores = fpp_take(base, &used, 8 * map->outputs * FPP_LANES * FPP_LANES);
    plan->norms = fpp_take(base, &used, 8 * FPP_LANES * FPP_LANES);
    plan->steps = fpp_take(base, &used, 8 * map->outputs * FPP_LANES);
    plan->score = fpp_take(base, &used, 8 * map->outputs);
    plan->found = fpp_take(base, &used, 8 * map->outputs);
    plan->sums = fpp_take(base, &used, 8 * map->outputs * plan->ld);
    return used;
}

FPP_API int64_t fpp_gradients_workspace_size(const fpp_gradient_map *map)
{
    gradient_plan plan;
    if (!map_is_valid(map)) {
        return -1;
    }
    return 64 + lay_out(map, NULL, &plan);
}

static gradient_plan plan_of(const fpp_gradient_map *map, void *workspace)
{
    gradient_plan plan;
    lay_out(map, fpp_aligned(workspace), &plan);
    plan.map = map;
    plan.has_outputs = has_outputs(map);
    plan.quant_bound_sq = (double)(map->quant_bound * map->quant_bound);
    /* Rounding moves each entry by at most 1/2: if the steps have a norm of at most Q - sqrt(D) / 2, their integers pass. The squared
     * norm of D < 2^25 steps, as that of the row times the factor's, errs by less than 2^-20 of it. Only the other rows need the check of their integers, which is a subtraction more. */
    const double surely = (double)map->quant_bound - 0.5 * sqrt((double)(map->outputs * map->dim));
    plan.surely_sq = surely >= 1.0 ? surely * surely * (1.0 - 0x1p-20) : -1.0;
    for (int64_t o = 0; o < map->outputs; o++) {
        for (int64_t k = 0; k < plan.ld; k++) {
            plan.weights[o * plan.ld + k] = k < map->dim ? map->weights[o * map->dim + k] : 0.0;
        }
    }
    for (int64_t k = 0; map->spread != NULL && k < plan.ld; k++) {
        plan.spread[k] = k < map->dim ? map->spread[k] : 0.0;
    }
    /* From z to the end. */
    memset(plan.z, 0, (size_t)((char *)(plan.sums + map->outputs * plan.ld) - (char *)plan.z));
    return plan;
}

FPP_API int32_t fpp_gradients_sum(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const int64_t *places, int64_t count,
                                  const fpp_gradient_map *map, void *workspace, int64_t *sums)
{
    labelled_rows rows = {.at = x, .n = places == NULL ? n : count, .places = places, .is_f32 = is_f32 != 0};
    if (!fpp_rows_are_given(x, n, row_stride, rows.is_f32, &rows.stride_bytes) || (places != NULL && count < 0) || !map_is_valid(map)
        || workspace == NULL || sums == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; places != NULL && i < count; i++) {
        if (places[i] < 0 || places[i] >= n) {
            return FPP_ERR_ARGUMENT;
        }
    }
    if (rows.n == 0) {
        return FPP_OK;
    }
    gradient_plan plan = plan_of(map, workspace);
    const int64_t passed = FPP_AT_LEVEL(stream)(&plan, &rows);
    for (int64_t o = 0; o < map->outputs; o++) {
        for (int64_t k = 0; k < map->dim; k++) {
            /* Every row that passed has left the bits of the rounder. */
            const uint64_t steps = plan.sums[o * plan.ld + k] - FPP_ROUNDER_BITS * (uint64_t)passed;
            sums[o * map->dim + k] = (int64_t)((uint64_t)sums[o * map->dim + k] + steps);
        }
    }
    return FPP_OK;
}
