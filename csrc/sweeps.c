/* One step of many gradient methods side by side, on rows that need no protection: sums of clipped gradients of each. Rows are read from
 * memory once, a group at a time: all settings take their scores and add their sums while it is in the cache, and the next group is
 * fetched meanwhile, half of it by each of the two.
 *
 * Of paper B's 700 rows of 2,000 columns in a table of 27,000, on a full-width AVX-512 machine, in ms: one setting .34, which is how long
 * reading the rows takes; sixteen .78 (rows in the cache .66, multiply-adds alone .39); with AVX2 .43 and 1.15. Sixteen, otherwise: groups
 * of half or twice the size .88 and .86 (four times: .97), without fetching .91, all fetched by the scores .90 or by the sums .91. One
 * setting: fetched into the first cache .58 in place of .43, without fetching .39 in place of .35; one group ahead in place of four .50 in
 * place of .46, eight rows to a group the same. Tried without gain: weights 256 columns at
 * a time for all rows of a group; weights and sums of sixteen settings where the caller has them, which are not aligned (.84). */
#include "losses.h"
#include "rowmap.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define LANES 16     /* settings, or columns, side by side on every instruction set */
#define FEW 6        /* up to so many settings are taken one after the other, with columns side by side */
#define FEW_ROWS 4
#define FEW_AHEAD 4  /* groups of so few rows between one and what is fetched beside it */
#define GROUP_ROWS 64
#define GROUP_BYTES (INT64_C(1) << 17)

enum { RAW, CLIPPED, ON_SPHERE }; /* what becomes of a residual */

typedef struct {
    const fpp_gradient_map *map;
    int64_t dim, settings;
    int64_t few;        /* a panel is one setting with its columns adjacent, else LANES settings for each column */
    int64_t panels, panel_size, rows;
    int32_t bounded;
    const float *factors;
    float *weights, *totals; /* (panels, panel_size) */
    float *found;            /* (GROUP_ROWS, LANES): scores, then what rows are multiplied by */
} sweep_plan;

typedef struct {
    const float *at, *labels;
    int64_t count, stride;
    const int64_t *places;
    float *norms;
} sweep_rows;

typedef struct {
    const float *row[GROUP_ROWS], *ahead[GROUP_ROWS];
    int64_t rows, used; /* the last ones may be there only to fill up a block: they are multiplied by zero */
} row_group;

FPP_INLINE int64_t place_of(const sweep_rows *x, int64_t i)
{
    return x->places == NULL ? i : x->places[i];
}

FPP_INLINE const float *row_at(const sweep_rows *x, int64_t i)
{
    return x->at + place_of(x, fpp_min(i, x->count - 1)) * x->stride;
}

FPP_INLINE void begin_group(const sweep_plan *plan, const sweep_rows *x, int64_t i, row_group *group)
{
    const int64_t ahead = plan->rows * (plan->few ? FEW_AHEAD : 1);
    group->used = fpp_min(plan->rows, x->count - i);
    group->rows = plan->few ? FEW_ROWS : fpp_round_up(group->used, 8);
    for (int64_t r = 0; r < group->rows; r++) {
        group->row[r] = row_at(x, i + r);
        group->ahead[r] = row_at(x, i + ahead + r);
    }
}

FPP_INLINE int knows_norms(const sweep_rows *x, const row_group *group, int64_t begin)
{
    int known = 1;
    for (int64_t r = 0; r < group->used; r++) {
        known &= x->norms[place_of(x, begin + r)] >= 0.0f;
    }
    return known;
}

FPP_INLINE float step_of(int bounded, float residual, float bound)
{
    float step = residual;
    if (bounded == CLIPPED) {
        step = step > bound ? bound : step;
        step = step < -bound ? -bound : step;
    } else if (bounded == ON_SPHERE) {
        step = residual > 0.0f ? bound : residual < 0.0f ? -bound : 0.0f;
    }
    return fabsf(residual) < INFINITY ? step : 0.0f;
}

/* Scores of a group at settings from `first` on become what its rows are multiplied by. */
static void turn_into_steps(const sweep_plan *plan, const sweep_rows *x, const row_group *group, int64_t begin, int64_t first)
{
    const int64_t lanes = plan->few ? 1 : fpp_min(LANES, plan->settings - first);
    const int bounded = plan->bounded;
    for (int64_t r = 0; r < group->used; r++) {
        float *restrict found = plan->found + r * LANES;
        const int64_t place = place_of(x, begin + r);
        const float label = x->labels[place], norm = x->norms[place];
        const float bound = (float)plan->map->limit / (norm > 1e-30f ? norm : 1e-30f);
        if (plan->map->loss == FPP_LOSS_SQUARED) {
            for (int64_t l = 0; l < lanes; l++) {
                found[l] = step_of(bounded, label - found[l], bound) * plan->factors[first + l];
            }
        } else {
            for (int64_t l = 0; l < lanes; l++) {
                const float residual = (float)fpp_residual_of(plan->map, (double)found[l], (double)label);
                found[l] = step_of(bounded, residual, bound) * plan->factors[first + l];
            }
        }
    }
    memset(plan->found + group->used * LANES, 0, (size_t)((group->rows - group->used) * LANES) * sizeof(float));
}

#define F 4
#define BLOCK 2
#define TILE 2
#define NAME(x) x##_baseline
#define TARGET
#define SPLAT(a) ((V){0.0f} + (a))
#define FUSED(a, b, c) ((a) * (b) + (c))
#include "sweeps_simd.h"

#if FPP_X86
#define F 8
#define BLOCK 4
#define TILE 4
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define SPLAT(a) ((V)_mm256_set1_ps(a)) /* one load: adding to zeros is two instructions more */
#define FUSED(a, b, c) ((V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "sweeps_simd.h"

#define F 16
#define BLOCK 8
#define TILE 16
#define NAME(x) x##_avx512
#define TARGET FPP_TARGET_AVX512
#define SPLAT(a) ((V)_mm512_set1_ps(a))
#define FUSED(a, b, c) ((V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "sweeps_simd.h"
#endif

static int32_t map_is_valid(const fpp_gradient_map *map)
{
    return map != NULL && map->dim >= 1 && map->dim <= FPP_DIM_MAX && map->outputs >= 1 && map->outputs <= FPP_DIM_MAX / map->dim
           && map->limit > 0.0 && map->limit < INFINITY && map->loss >= FPP_LOSS_FUNCTION && map->loss < FPP_LOSS_SOFTMAX
           && (map->loss == FPP_LOSS_FUNCTION) == (map->function != NULL);
}

static int64_t lay_out(const fpp_gradient_map *map, float *base, sweep_plan *plan)
{
    plan->map = map;
    plan->dim = map->dim;
    plan->settings = map->outputs;
    plan->few = map->outputs <= FEW;
    plan->panels = plan->few ? map->outputs : fpp_round_up(map->outputs, LANES) / LANES;
    plan->panel_size = plan->few ? fpp_round_up(map->dim, LANES) : map->dim * LANES;
    const int64_t fit = GROUP_BYTES / 4 / map->dim / 8 * 8;
    plan->rows = plan->few ? FEW_ROWS : fit < 8 ? 8 : fpp_min(fit, GROUP_ROWS);
    plan->found = base;
    plan->weights = base == NULL ? NULL : base + GROUP_ROWS * LANES;
    plan->totals = base == NULL ? NULL : plan->weights + plan->panels * plan->panel_size;
    return GROUP_ROWS * LANES + 2 * plan->panels * plan->panel_size;
}

FPP_API int64_t fpp_sweep_workspace_size(const fpp_gradient_map *map)
{
    sweep_plan plan;
    return map_is_valid(map) ? 64 + lay_out(map, NULL, &plan) * (int64_t)sizeof(float) : -1;
}

/* Weights (dim, settings) into panels. */
static void put_weights(const sweep_plan *plan, const float *weights)
{
    for (int64_t p = 0; p < plan->panels; p++) {
        const int64_t first = plan->few ? p : p * LANES, lanes = plan->few ? 1 : fpp_min(LANES, plan->settings - first);
        float *to = plan->weights + p * plan->panel_size;
        if (lanes == LANES) { /* a known size is one instruction or two, not a call */
            for (int64_t k = 0; k < plan->dim; k++) {
                memcpy(to + k * LANES, weights + k * plan->settings + first, LANES * sizeof(float));
            }
        } else {
            for (int64_t k = 0; k < plan->dim; k++) {
                memcpy(to + k * (plan->few ? 1 : LANES), weights + k * plan->settings + first, (size_t)lanes * sizeof(float));
            }
        }
    }
}

FPP_INLINE void add_panel(const sweep_plan *plan, const float *restrict from, int64_t lanes, int64_t apart, float *restrict total)
{
    for (int64_t k = 0; k < plan->dim; k++) {
        for (int64_t l = 0; l < lanes; l++) {
            total[k * plan->settings + l] += from[k * apart + l];
        }
    }
}

/* total (dim, settings) += panels of sums. */
static void add_totals(const sweep_plan *plan, float *total)
{
    for (int64_t p = 0; p < plan->panels; p++) {
        const int64_t first = plan->few ? p : p * LANES, lanes = plan->few ? 1 : fpp_min(LANES, plan->settings - first);
        const float *from = plan->totals + p * plan->panel_size;
        if (lanes == LANES) {
            add_panel(plan, from, LANES, LANES, total + first);
        } else {
            add_panel(plan, from, lanes, plan->few ? 1 : LANES, total + first);
        }
    }
}

FPP_API int32_t fpp_sweep_sum_f32(const float *x, int64_t n, int64_t row_stride, const float *labels, const int64_t *places,
                                  int64_t count, const fpp_gradient_map *map, const float *weights, const float *factors, int32_t bounded,
                                  void *workspace, float *norms, float *total)
{
    sweep_rows rows = {.at = x, .labels = labels, .count = count, .stride = n > 1 ? row_stride : 0, .places = places, .norms = norms};
    sweep_plan plan;
    int64_t bytes;
    if (!fpp_rows_are_given(x, n, row_stride, 1, &bytes) || !map_is_valid(map) || weights == NULL || factors == NULL || bounded < RAW
        || bounded > ON_SPHERE || workspace == NULL || total == NULL || (n > 0 && (labels == NULL || norms == NULL)) || count < 0
        || (places == NULL && count > n)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; places != NULL && i < count; i++) {
        if (places[i] < 0 || places[i] >= n) {
            return FPP_ERR_ARGUMENT;
        }
    }
    if (count == 0) {
        return FPP_OK;
    }
    float *aligned = fpp_aligned(workspace);
    const int64_t words = lay_out(map, aligned, &plan);
    plan.bounded = bounded;
    plan.factors = factors;
    memset(aligned, 0, (size_t)words * sizeof(float));
    put_weights(&plan, weights);
    FPP_AT_LEVEL(sweep_rows)(&plan, &rows);
    add_totals(&plan, total);
    return FPP_OK;
}
