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

/* ---- The early race: every row against panels of the first rows, then against one row after the other, until one is near ----
 * What is added up here is added up in any order: A stands for the squared distance E that decides. Both add up the same squares of
 * the same differences, so that they differ by less than a factor of 1 + early_slack(dim), but where squares underflow or overflow. */

#if W == 8
#define FUSED_D(sum, d) ((V)_mm512_fmadd_pd((__m512d)(d), (__m512d)(d), (__m512d)(sum)))
#else
#define FUSED_D(sum, d) ((sum) + (d) * (d))
#endif

/* 0: E is above limit. 1: E is below. -1: not known. Written so that NaN is above. */
FPP_INLINE int NAME(early_below)(double square, double limit, double slack)
{
    if (!(square <= limit * (1.0 + slack) || square <= EARLY_SMALLEST)) {
        return 0;
    }
    return square < limit * (1.0 - slack) && square > EARLY_SMALLEST && square < EARLY_LARGEST ? 1 : -1;
}

static double NAME(early_exact)(const double *restrict row, const double *restrict other, int64_t dim)
{
    double total = 0.0;
    for (int64_t k = 0; k < dim; k++) {
        const double gap = row[k] - other[k];
        total += gap * gap;
    }
    return total;
}

/* out (16) = squared distances of a row from those of a panel. Returns bit v where one is at most limit; 0, without distances, where
 * fewer columns show that none is. */
TARGET FPP_INLINE uint64_t NAME(early_panel)(const double *restrict panel, const double *restrict row, int64_t dim, double limit,
                                         double *restrict out, int64_t *looked)
{
    enum { PARTS_OF = EARLY / W, CHAINS = 2 }; /* two chains of sums, for one would wait for its own additions */
    V sum[CHAINS][PARTS_OF];
    for (int v = 0; v < CHAINS * PARTS_OF; v++) {
        sum[v / PARTS_OF][v % PARTS_OF] = (V){0.0};
    }
    int64_t k = 0;
    while (k < dim) {
        const int64_t end = least(k + COLUMNS_AT_ONCE, dim);
        *looked += (end - k) * EARLY;
        for (; k + CHAINS <= end; k += CHAINS) {
            for (int c = 0; c < CHAINS; c++) {
                for (int v = 0; v < PARTS_OF; v++) {
                    const V gap = NAME(load)(panel + (k + c) * EARLY + v * W) - row[k + c];
                    sum[c][v] = FUSED_D(sum[c][v], gap);
                }
            }
        }
        for (; k < end; k++) {
            for (int v = 0; v < PARTS_OF; v++) {
                const V gap = NAME(load)(panel + k * EARLY + v * W) - row[k];
                sum[0][v] = FUSED_D(sum[0][v], gap);
            }
        }
        if (k < dim) {
            uint64_t open = 0;
            for (int v = 0; v < PARTS_OF; v++) {
                open |= NAME(at_most)(sum[0][v] + sum[1][v], (V){0.0} + limit);
            }
            if (open == 0) {
                return 0;
            }
        }
    }
    uint64_t found = 0;
    for (int v = 0; v < PARTS_OF; v++) {
        const V square = sum[0][v] + sum[1][v];
        NAME(store)(out + v * W, square);
        found |= NAME(at_most)(square, (V){0.0} + limit) << (v * W);
    }
    return found;
}

TARGET FPP_INLINE double NAME(early_square)(const double *restrict row, const double *restrict other, int64_t dim)
{
    if (dim < 2 * W) {
        return NAME(early_exact)(row, other, dim);
    }
    V sum[2] = {{0.0}, {0.0}};
    int64_t k = 0;
    for (; k + 2 * W <= dim; k += 2 * W) {
        for (int v = 0; v < 2; v++) {
            const V gap = NAME(load)(row + k + v * W) - NAME(load)(other + k + v * W);
            sum[v] = FUSED_D(sum[v], gap);
        }
    }
    sum[0] += sum[1];
    double total = 0.0;
    for (; k < dim; k++) {
        const double gap = row[k] - other[k];
        total += gap * gap;
    }
    for (int l = 0; l < W; l++) {
        total += sum[0][l];
    }
    return total;
}

/* 1 if a row of the panels, but row i itself, is nearer to row i than limit, or as near when tie. The row that sent the last one home
 * comes first, then its panel. */
TARGET FPP_INLINE int NAME(early_leaves)(const double *x, int64_t dim, int64_t i, double limit, int tie, const double *panels,
                                         fpp_early *state)
{
    const double slack = early_slack(dim), *row = x + i * dim;
    const double most = limit * (1.0 + slack) > EARLY_SMALLEST ? limit * (1.0 + slack) : EARLY_SMALLEST;
    const int64_t hint = state->hint / EARLY;
    double out[EARLY];
    state->looked += dim;
    if (state->hint != i && NAME(early_below)(NAME(early_square)(row, x + state->hint * dim, dim), limit, slack) == 1) {
        return 1;
    }
    for (int64_t visit = hint < state->filled ? -1 : 0; visit < state->filled; visit++) {
        const int64_t p = visit < 0 ? hint : visit;
        if (visit == hint) {
            continue;
        }
        uint64_t some = NAME(early_panel)(panels + p * dim * EARLY, row, dim, most, out, &state->looked);
        for (; some != 0; some &= some - 1) {
            const int v = __builtin_ctzll(some);
            const int64_t j = p * EARLY + v;
            int below = j == i ? 0 : NAME(early_below)(out[v], limit, slack);
            if (below < 0) {
                const double square = NAME(early_exact)(row, x + j * dim, dim);
                below = square < limit || (tie && square == limit);
            }
            if (below) {
                state->hint = j;
                return 1;
            }
        }
    }
    return 0;
}

/* The squared distance of the nearest other row from row i, or -1 once one is nearer than limit, or as near when tie; away: the row that
 * is about the farthest. */
TARGET static double NAME(early_nearest)(const double *x, int64_t m, int64_t dim, int64_t i, double limit, int tie, fpp_early *state,
                                         int64_t *away)
{
    const double slack = early_slack(dim), *row = x + i * dim;
    double nearest = INFINITY, most = -1.0;
    for (int64_t j = 0; j < m; j++) {
        const double about = NAME(early_square)(row, x + j * dim, dim);
        if (about > most) {
            most = about;
            *away = j;
        }
        if (j == i || NAME(early_below)(about, nearest, slack) == 0) {
            continue;
        }
        const double square = NAME(early_exact)(row, x + j * dim, dim);
        nearest = square < nearest ? square : nearest;
        if (nearest < limit || (tie && nearest == limit)) {
            state->looked += (j + 1) * dim;
            state->hint = j;
            return -1.0;
        }
    }
    state->passed += m * dim;
    return nearest;
}

TARGET static int32_t NAME(early)(const double *x, int64_t m, int64_t dim, int64_t other_work, int64_t trial_work, int64_t most_work,
                                  double *panels, fpp_early *state)
{
    const int64_t begin = state->looked + state->passed;
    int64_t away = 0;
    if (state->row == 0 && state->farthest < 0.0) {
        /* The row that is farthest from some row is often the winner where tails are heavy, and sets a high bar anywhere. */
        state->best = 0;
        state->farthest = NAME(early_nearest)(x, m, dim, 0, -1.0, 0, state, &away);
        const double nearest = NAME(early_nearest)(x, m, dim, away, -1.0, 0, state, &state->hint);
        state->hint = 0;
        if (nearest > state->farthest) {
            state->best = away;
            state->farthest = nearest;
        }
        early_fill(x, m, dim, 1, panels, state);
    }
    for (; state->row < m; state->row++) {
        const int64_t i = state->row;
        if (state->looked - state->marked_looked >= trial_work / 2 && i - state->marked_row >= EARLY_SAMPLE) {
            /* The first half of the trial pays for panels and for a bar. */
            const double each = (double)(state->looked - state->marked_looked) / (double)(i - state->marked_row + 1);
            const double bars = (double)m * (double)dim * log((double)m / (double)(i + 1)); /* if rows come in any order */
            const int dear = state->marked_looked > 0 && each * (double)(m - i) + bars > (double)other_work;
            state->marked_looked = state->looked;
            state->marked_row = i;
            if (dear) {
                return -1;
            }
        }
        if (state->looked + state->passed - begin >= most_work) {
            return 1;
        }
        V zero = (V){0.0};
        int64_t k = 0;
        for (; k + W <= dim; k += W) {
            zero += NAME(load)(x + i * dim + k) * 0.0;
        }
        for (; k < dim; k++) {
            zero[0] += x[i * dim + k] * 0.0;
        }
        double sum = 0.0;
        for (int l = 0; l < W; l++) {
            sum += zero[l];
        }
        if (!(sum == 0.0)) {
            return -1;
        }
        const int tie = i > state->best;
        if (i == state->best || NAME(early_leaves)(x, dim, i, state->farthest, tie, panels, state)) {
            continue;
        }
        const double nearest = NAME(early_nearest)(x, m, dim, i, state->farthest, tie, state, &away);
        if (nearest > state->farthest || (nearest == state->farthest && i < state->best)) {
            state->best = i;
            state->farthest = nearest;
        }
        /* The more rows come as far as this, the more panels there are. */
        early_fill(x, m, dim, state->filled + 1 + state->filled / 4, panels, state);
    }
    return 0;
}

#undef FUSED_D
#include "lanes_end.h"
