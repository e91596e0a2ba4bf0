/* The race for the most isolated row: fastpubpriv/kernels/nearest.py says how it works and prepares the panels. Public rows only.
 * */
#include "lanes.h"

/* Columns between two looks at whether a panel may be left, and exact distances that a panel may cost on average. */
#define COLUMNS_AT_ONCE 32
#define DOUBTS 4

/* Rows of a panel of the early race, few, as most rows leave at the first panel; and rows at least whose price says what all cost. */
#define EARLY 16
#define EARLY_SAMPLE 3
/* Columns up to which few rows are all put into panels first. */
#define SMALL_COLUMNS 32
/* Squares between these are as far from underflow and overflow as sums in any order have to be. */
#define EARLY_SMALLEST 1e-280
#define EARLY_LARGEST 1e300
/* The same of single precision, and the columns from which on its panels pay for the copies that they need. */
#define NARROW_SMALLEST 1e-20
#define NARROW_LARGEST 1e30
#define NARROW_COLUMNS 8
#define NARROW_DOUBTS 64 /* exact distances that cost as much as what has been looked at, or this many rows */

typedef struct {
    int64_t best, done, looked, doubts;
    double farthest;
} race_state;

typedef struct {
    int64_t best;
    double farthest;
    struct {
        int64_t row;            /* points gone through */
        int64_t filled, hint;   /* panels that hold points, and the point that was near the last one */
        int64_t looked, passed; /* coordinates so far, in panels and in passes over all points */
        int64_t marked_row, marked_looked; /* row and looked when the price of a point was last worked out */
        int64_t wide, doubts;   /* whether panels are in double precision; exact distances that single precision left open */
    } kept;                     /* from call to call */
} early_state;

/* Panels in single precision, less the first point: the first half of the memory of panels, and beyond it what belongs to them. */
typedef struct {
    float *at;      /* (panels, dim, EARLY) */
    float *row;     /* (dim): the point whose turn it is */
    double *widest; /* (panels): at least the norm of each row of a panel */
} narrow_panels;

static narrow_panels narrow_of(double *panels, int64_t m, int64_t dim)
{
    float *at = fpp_aligned(panels); /* vectors that straddle lines cost two loads */
    const int64_t count = (m + EARLY - 1) / EARLY;
    float *row = at + count * dim * EARLY;
    return (narrow_panels){at, row, (double *)(void *)(row + (dim + EARLY - 1) / EARLY * EARLY)};
}

/* bounds[0], [1]: a square computed in single precision below [0] means one below limit, and one above [1] means one above limit.
 * Points less the first are rounded once, which moves one of norm a by 2^-24 a; their difference once more, and its squares and sums
 * dim + 4 times. The roundings of double precision, of squares that underflow and of the bounds themselves are within the millionth. */
FPP_INLINE void narrow_bounds(double root, double norms, int64_t dim, double *bounds)
{
    const double drift = 1.01 * 0x1p-24 * norms, kappa = (double)(dim + 8) * 0x1p-24;
    const double low = (root - drift) * (1.0 - kappa), high = (root + drift) * (1.0 + kappa);
    bounds[0] = low > 0.0 ? low * low * (1.0 - 1e-6) : 0.0;
    bounds[1] = high * high * (1.0 + 1e-6);
}

FPP_INLINE double early_slack(int64_t dim)
{
    return 4.0 * (double)(dim + 4) * 0x1p-53;
}

/* The first `most` panels hold their rows, NaN in unused lanes. */
FPP_INLINE void early_fill(const double *x, int64_t m, int64_t dim, int64_t most, double *panels, early_state *state)
{
    const int64_t end = least(most, (m + EARLY - 1) / EARLY);
    for (int64_t p = state->kept.filled; p < end; p++) {
        const int64_t count = least(EARLY, m - p * EARLY);
        const double *from = x + p * EARLY * dim;
        double *to = panels + p * dim * EARLY;
        for (int64_t k = 0; k < dim; k++) {
            for (int64_t lane = 0; lane < count; lane++) {
                to[k * EARLY + lane] = from[lane * dim + k];
            }
            for (int64_t lane = count; lane < EARLY; lane++) {
                to[k * EARLY + lane] = (double)NAN;
            }
        }
    }
    if (end > state->kept.filled) {
        state->kept.looked += 2 * dim * EARLY * (end - state->kept.filled); /* what it costs */
        state->kept.filled = end;
    }
}

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

FPP_API int32_t fpp_race_early(const double *x, int64_t m, int64_t dim, int64_t other_work, int64_t trial_work, int64_t most_work,
                               double *panels, int64_t *kept, int64_t *best, double *farthest, int32_t *left)
{
    early_state state;
    if (m < 1 || dim < 1 || dim > FPP_DIM_MAX || m > INT64_MAX / 8 / dim - EARLY || x == NULL || panels == NULL || kept == NULL
        || best == NULL || farthest == NULL || left == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    memcpy(&state.kept, kept, sizeof state.kept);
    if (dim < NARROW_COLUMNS) {
        state.kept.wide = 1;
    }
    if (state.kept.row < 0 || state.kept.filled < 0 || state.kept.filled > (m + EARLY - 1) / EARLY || state.kept.hint < 0
        || state.kept.hint >= m) {
        return FPP_ERR_ARGUMENT;
    }
    state.best = *best;
    state.farthest = *farthest;
    int32_t (*run)(const double *, int64_t, int64_t, int64_t, int64_t, int64_t, double *, early_state *) = FPP_AT_LEVEL(early);
    *left = run(x, m, dim, other_work, trial_work, most_work, panels, &state);
    memcpy(kept, &state.kept, sizeof state.kept);
    *best = state.best;
    *farthest = state.farthest;
    return FPP_OK;
}

FPP_API int32_t fpp_race_small(const double *x, int64_t m, int64_t dim, fpp_winner *winner)
{
    double panels[FPP_SMALL_RACE];
    if (m < 2 || dim < 1 || m > FPP_SMALL_RACE || dim > FPP_SMALL_RACE || (m + EARLY - 1) * dim > FPP_SMALL_RACE || x == NULL
        || winner == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    early_state state = {m, -1.0, {0}};
    winner->best = FPP_AT_LEVEL(small)(x, m, dim, panels, &state) ? state.best : -1;
    winner->farthest = state.farthest;
    return FPP_OK;
}

/* Whether rows (16) name points of m, or -1. */
static int32_t cover_is_valid(const double *x, int64_t m, int64_t dim, const int64_t *rows, int64_t begin, int64_t end)
{
    if (m < 1 || dim < 1 || dim > FPP_DIM_MAX || m > INT64_MAX / 8 / dim || x == NULL || rows == NULL || begin < 0 || end > m) {
        return 0;
    }
    for (int64_t v = 0; v < EARLY; v++) {
        if (rows[v] < -1 || rows[v] >= m) {
            return 0;
        }
    }
    return 1;
}

FPP_API int32_t fpp_race_cover(const double *x, int64_t m, int64_t dim, const int64_t *pivots, int64_t begin, int64_t end,
                               double *panel, double *nearest, int64_t *group)
{
    if (!cover_is_valid(x, m, dim, pivots, begin, end) || panel == NULL || nearest == NULL || group == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    FPP_AT_LEVEL(cover)(x, dim, pivots, begin, end, panel, nearest, group);
    return FPP_OK;
}

FPP_API int32_t fpp_race_leave(const double *x, int64_t m, int64_t dim, const int64_t *members, int64_t first, int64_t last,
                               double limit, double *panel, int64_t *queue, int64_t *left)
{
    if (m < 1 || dim < 1 || dim > FPP_DIM_MAX || m > INT64_MAX / 8 / dim || x == NULL || members == NULL || first < 0 || last > m
        || panel == NULL || queue == NULL || left == NULL || *left < 0 || *left > m) {
        return FPP_ERR_ARGUMENT;
    }
    *left = FPP_AT_LEVEL(leave)(x, dim, members, first, last, limit, panel, queue, *left);
    return FPP_OK;
}

FPP_API int32_t fpp_race_contend(const double *x, int64_t m, int64_t dim, const int64_t *rows, int64_t begin, int64_t end,
                                 double *panel, double *nearest, int64_t *at, double *second)
{
    if (!cover_is_valid(x, m, dim, rows, begin, end) || panel == NULL || nearest == NULL || at == NULL || second == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    FPP_AT_LEVEL(contend)(x, dim, rows, begin, end, panel, nearest, at, second);
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
