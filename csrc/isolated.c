/* The race for the most isolated row: fastpubpriv/kernels/nearest.py says how it works and prepares the panels. Public rows only.
 * */
#include "lanes.h"

/* Columns between two looks at whether a panel may be left, and exact distances that a panel may cost on average. */
#define COLUMNS_AT_ONCE 32
#define DOUBTS 4

typedef struct {
    int64_t best, done, looked, doubts;
    double farthest;
} race_state;

#define KERNELS "isolated_simd.h"
#include "each_level.h"

static int32_t race_is_valid(const fpp_race *race)
{
    if (race == NULL || race->dim < 1 || race->dim > FPP_DIM_MAX || race->m < 1 || race->groups < 1 || race->groups > LANES
        || race->points == NULL || race->panels == NULL || race->order == NULL || race->starts == NULL || race->near == NULL
        || race->far == NULL || race->middles == NULL || race->starts[0] != 0) {
        return 0;
    }
    for (int64_t g = 0; g < race->groups; g++) {
        if (race->starts[g + 1] < race->starts[g]) {
            return 0;
        }
    }
    return 1;
}

FPP_API int32_t fpp_race_run(const fpp_race *race, const int64_t *queue, int64_t n, int64_t most_work, void *workspace,
                             int64_t *best,
                             double *farthest, int64_t *done, int32_t *settled)
{
    if (!race_is_valid(race) || !fpp_is_given(queue, n, (int64_t)sizeof *queue) || workspace == NULL || best == NULL
        || farthest == NULL || done == NULL || settled == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    race_state state = {*best, 0, 0, 0, *farthest};
    void (*run)(const fpp_race *, const int64_t *, int64_t, int64_t, void *, race_state *) = FPP_AT_LEVEL(race);
    run(race, queue, n, most_work, workspace, &state);
    *best = state.best;
    *farthest = state.farthest;
    *done = state.done;
    *settled = state.done == n || state.looked >= most_work;
    return FPP_OK;
}

FPP_API int32_t fpp_race_join(const void *x, int32_t is_f32, int64_t n, int64_t dim, const void *pivots, int64_t *group,
                              double *sums)
{
    if (dim < 1 || dim > FPP_DIM_MAX || !fpp_is_given(x, n, dim * 8) || pivots == NULL
        || !fpp_is_given(group, n, (int64_t)sizeof *group) || sums == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    void (*join)(const void *, int32_t, int64_t, int64_t, const void *, int64_t *, double *) = FPP_AT_LEVEL(join);
    join(x, is_f32, n, dim, pivots, group, sums);
    return FPP_OK;
}
