/* The race for one vector width, over panels in single and in double precision: included by isolated.c once per instruction set. */
#include "lanes_simd.h"

/* What is computed for a lane, in the precision of the panels. */
typedef union {
    float s[LANES];
    double d[LANES];
} NAME(squares);

FPP_INLINE double NAME(square)(const NAME(squares) *squares, int64_t lane, int single)
{
    return single ? (double)squares->s[lane] : squares->d[lane];
}

/* bounds[0], [1]: a computed square below [0] means an exact one below limit, and one above [1] means one above limit. */
static void NAME(bounds)(const fpp_race *race, double limit, int single, double *bounds)
{
    bounds[0] = bounds[1] = limit;
    if (race->drift > 0.0) {
        const double root = sqrt(limit), low = (root - race->drift) * (1.0 - race->kappa);
        const double high = (root + race->drift) * (1.0 + race->kappa);
        /* A smaller one is no larger than what squares lose. */
        bounds[0] = low > race->drift ? low * low * (1.0 - 1e-6) : 0.0;
        bounds[1] = high * high * (1.0 + 1e-6);
    }
    for (int e = 0; single && e < 2; e++) {
        bounds[e] = (double)(float)bounds[e];
    }
}

/* The squared distance of two rows that decides. */
static double NAME(exact)(const fpp_race *race, int64_t i, int64_t j)
{
    const lane_rows rows = {race->points, race->m, race->dim};
    double total = 0.0;
    for (int64_t k = 0; k < race->dim; k++) {
        const double gap = entry(&rows, i, k, race->points_f32) - entry(&rows, j, k, race->points_f32);
        total += gap * gap;
    }
    return total;
}

/* Look at the neighbours of row i, whose copy is `row` and group `group`, group by group. With shrink, the exact squared distance
 * of the nearest. Without, -1 if one is below limit, or equal to it when tie, else limit. */
TARGET FPP_INLINE double NAME(scan)(const fpp_race *race, const void *row, int64_t i, int64_t group, double limit, int tie,
                                    int shrink, int single, race_state *state)
{
    const int64_t dim = race->dim;
    NAME(squares) out, away;
    double bounds[2];
    uint64_t seen = 0;
    memset(&away, 0, sizeof away);
    NAME(bounds)(race, limit, single, bounds);
    for (int64_t visit = 0; visit < race->groups; visit++) {
        if (visit == 1) {
            if (single) {
                NAME(add_columns_s)(race->middles, row, 0, dim, away.s);
            } else {
                NAME(add_columns)(race->middles, row, 0, dim, away.d);
            }
            state->looked += dim * LANES;
        }
        if (visit > 0) {
            group = -1;
            for (int64_t g = 0; g < race->groups; g++) {
                if (!(seen >> g & 1) && (group < 0 || NAME(square)(&away, g, single) < NAME(square)(&away, group, single))) {
                    group = g;
                }
            }
        }
        seen |= UINT64_C(1) << group;
        const double center = sqrt(NAME(square)(&away, group, single));
        for (int64_t p = race->starts[group]; p < race->starts[group + 1]; p++) {
            if (visit > 0 && center < INFINITY && race->far[p] < INFINITY) {
                /* Triangle inequality, with room for the rounding of all three sides and for squares that underflow. */
                const double reach = sqrt(limit) + race->drift + 4.0 * race->kappa * (center + race->far[p]) + 1e-150;
                if (center - race->far[p] > reach || race->near[p] - center > reach) {
                    continue;
                }
            }
            int64_t begin = 0;
            uint64_t found = 1;
            while (begin < dim && found != 0) {
                const int64_t end = least(begin + COLUMNS_AT_ONCE, dim);
                if (single) {
                    NAME(add_columns_s)((const float *)race->panels + p * dim * LANES, row, begin, end, out.s);
                    found = NAME(within_s)(out.s, (float)bounds[1]);
                } else {
                    NAME(add_columns)((const double *)race->panels + p * dim * LANES, row, begin, end, out.d);
                    found = NAME(within)(out.d, bounds[1]);
                }
                begin = end;
            }
            state->looked += begin * LANES;
            for (; found != 0; found &= found - 1) {
                const int lane = __builtin_ctzll(found);
                const int64_t j = race->order[p * LANES + lane];
                const double square = NAME(square)(&out, lane, single);
                if (!(square <= bounds[1]) || j == i || j < 0) {
                    continue;
                }
                if (!shrink && square < bounds[0]) {
                    return -1.0;
                }
                const double total = NAME(exact)(race, i, j);
                state->doubts++;
                if (shrink && total < limit) {
                    limit = total;
                    NAME(bounds)(race, limit, single, bounds);
                } else if (!shrink && (total < limit || (tie && total == limit))) {
                    return -1.0;
                }
            }
        }
    }
    return limit;
}

TARGET FPP_INLINE void NAME(race_in)(const fpp_race *race, const int64_t *queue, int64_t n, int64_t most_work, void *row,
                                     int single, race_state *state)
{
    const int64_t dim = race->dim;
    /* Double precision leaves nothing open but ties, which cost what they cost. */
    while (state->done < n && state->looked < most_work
           && (race->drift == 0.0 || (double)state->doubts * (double)(LANES * dim) <= 1e6 + DOUBTS * (double)state->looked)) {
        const int64_t place = queue[state->done++], p = place / LANES, lane = place % LANES, i = race->order[place];
        if (i < 0 || i == state->best) {
            continue;
        }
        for (int64_t k = 0; k < dim; k++) {
            const int64_t at = (p * dim + k) * LANES + lane;
            if (single) {
                ((float *)row)[k] = ((const float *)race->panels)[at];
            } else {
                ((double *)row)[k] = ((const double *)race->panels)[at];
            }
        }
        int64_t group = 0;
        while (group + 1 < race->groups && race->starts[group + 1] <= p) {
            group++;
        }
        /* First against the bar, which most rows miss; then for the neighbour of those that do not. */
        if (state->farthest >= 0.0 && NAME(scan)(race, row, i, group, state->farthest, i > state->best, 0, single, state) < 0.0) {
            continue;
        }
        const double nearest = NAME(scan)(race, row, i, group, INFINITY, 0, 1, single, state);
        if (nearest > state->farthest || (nearest == state->farthest && i < state->best)) {
            state->best = i;
            state->farthest = nearest;
        }
    }
}

TARGET static void NAME(race)(const fpp_race *race, const int64_t *queue, int64_t n, int64_t most_work, void *row,
                              race_state *state)
{
    if (race->panels_f32) {
        NAME(race_in)(race, queue, n, most_work, row, 1, state);
    } else {
        NAME(race_in)(race, queue, n, most_work, row, 0, state);
    }
}

/* group[i] = the nearest of the pivots (dim, 64) to row i, the first of equals; sums (64, dim) += rows by group. */
TARGET FPP_INLINE void NAME(join_in)(const void *rows, int64_t n, int64_t dim, const void *pivots, int64_t *group, double *sums,
                                     int single)
{
    NAME(squares) out;
    for (int64_t i = 0; i < n; i++) {
        if (single) {
            NAME(add_columns_s)(pivots, (const float *)rows + i * dim, 0, dim, out.s);
        } else {
            NAME(add_columns)(pivots, (const double *)rows + i * dim, 0, dim, out.d);
        }
        double least_sq = INFINITY;
        for (int64_t v = 0; v < LANES; v++) {
            least_sq = NAME(square)(&out, v, single) < least_sq ? NAME(square)(&out, v, single) : least_sq;
        }
        const uint64_t nearest = single ? NAME(within_s)(out.s, (float)least_sq) : NAME(within)(out.d, least_sq);
        const int64_t best = nearest != 0 ? __builtin_ctzll(nearest) : 0; /* 0 for a row that is not finite */
        group[i] = best;
        for (int64_t k = 0; k < dim; k++) {
            sums[best * dim + k] += single ? (double)((const float *)rows)[i * dim + k] : ((const double *)rows)[i * dim + k];
        }
    }
}

TARGET static void NAME(join)(const void *rows, int32_t is_f32, int64_t n, int64_t dim, const void *pivots, int64_t *group,
                              double *sums)
{
    if (is_f32) {
        NAME(join_in)(rows, n, dim, pivots, group, sums, 1);
    } else {
        NAME(join_in)(rows, n, dim, pivots, group, sums, 0);
    }
}

#include "narrow_simd.h"
#include "early_simd.h"
#include "cover_simd.h"
#include "small_simd.h"
#include "lanes_end.h"
