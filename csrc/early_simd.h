/* The early race for one vector width: every row against panels of the first rows, then against one row after the other, until one is
 * near. Included by isolated_simd.h.
 *
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

TARGET FPP_INLINE double NAME(early_exact)(const double *restrict row, const double *restrict other, int64_t dim)
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

/* 1 if row j, at about `square`, is nearer to row i than limit, or as near when tie; only the exact square decides what `below` (1, 0
 * or -1 for not known) leaves open. */
TARGET FPP_INLINE int NAME(early_nearer)(const double *x, int64_t dim, int64_t i, int64_t j, int below, double limit, int tie,
                                         early_state *state)
{
    if (below < 0 && j != i) {
        const double square = NAME(early_exact)(x + i * dim, x + j * dim, dim);
        state->kept.doubts++;
        below = square < limit || (tie && square == limit);
    }
    if (below <= 0 || j == i) {
        return 0;
    }
    state->kept.hint = j;
    return 1;
}

/* Whether the row that sent the last one home does so with row i, which is then finite. */
TARGET FPP_INLINE int NAME(early_hinted)(const double *x, int64_t dim, int64_t i, double limit, early_state *state)
{
    const int64_t hint = state->kept.hint;
    state->kept.looked += dim;
    return hint != i && NAME(early_below)(NAME(early_square)(x + i * dim, x + hint * dim, dim), limit, early_slack(dim)) == 1;
}

/* 1 if a row of the panels, but row i itself, is nearer to row i than limit, or as near when tie. The panel of the row that sent the
 * last one home comes first. */
TARGET FPP_INLINE int NAME(early_leaves)(const double *x, int64_t m, int64_t dim, int64_t i, double limit, int tie, double *panels,
                                         double norm_sq, early_state *state)
{
    const double slack = early_slack(dim), *row = x + i * dim;
    const double most = limit * (1.0 + slack) > EARLY_SMALLEST ? limit * (1.0 + slack) : EARLY_SMALLEST;
    const double root = sqrt(limit), norm = sqrt(norm_sq) * (1.0 + 1e-6);
    const int64_t hint = state->kept.hint / EARLY, wide = state->kept.wide;
    const narrow_panels narrow = narrow_of(panels, m, dim);
    for (int64_t visit = hint < state->kept.filled ? -1 : 0; visit < state->kept.filled; visit++) {
        const int64_t p = visit < 0 ? hint : visit;
        if (visit == hint) {
            continue;
        }
        if (wide) {
            double out[EARLY];
            uint64_t some = NAME(early_panel)(panels + p * dim * EARLY, row, dim, most, out, &state->kept.looked);
            for (; some != 0; some &= some - 1) {
                const int v = __builtin_ctzll(some);
                if (NAME(early_nearer)(x, dim, i, p * EARLY + v, NAME(early_below)(out[v], limit, slack), limit, tie, state)) {
                    return 1;
                }
            }
        } else {
            float out[EARLY];
            double bounds[2];
            narrow_bounds(root, norm + narrow.widest[p], dim, bounds);
            uint64_t some = NAME(narrow_panel)(narrow.at + p * dim * EARLY, narrow.row, dim, (float)bounds[1], out,
                                               &state->kept.looked);
            for (; some != 0; some &= some - 1) {
                const int v = __builtin_ctzll(some);
                if (NAME(early_nearer)(x, dim, i, p * EARLY + v, (double)out[v] < bounds[0] ? 1 : -1, limit, tie, state)) {
                    return 1;
                }
            }
        }
    }
    return 0;
}

/* The squared distance of the nearest other row from row i, or -1 once one is nearer than limit, or as near when tie; away: the row that
 * is about the farthest. */
TARGET static double NAME(early_nearest)(const double *x, int64_t m, int64_t dim, int64_t i, double limit, int tie, early_state *state,
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
            state->kept.looked += (j + 1) * dim;
            state->kept.hint = j;
            return -1.0;
        }
    }
    state->kept.passed += m * dim;
    return nearest;
}

/* Whether all columns of a row are finite. */
TARGET FPP_INLINE int NAME(is_finite)(const double *row, int64_t dim)
{
    V zero = (V){0.0};
    double sum = 0.0;
    int64_t k = 0;
    for (; k + W <= dim; k += W) {
        zero += NAME(load)(row + k) * 0.0;
    }
    for (; k < dim; k++) {
        sum += row[k] * 0.0;
    }
    for (int l = 0; l < W; l++) {
        sum += zero[l];
    }
    return sum == 0.0;
}

/* At least `most` panels hold their rows. */
TARGET FPP_INLINE void NAME(fill)(const double *x, int64_t m, int64_t dim, int64_t most, double *panels, early_state *state)
{
    if (state->kept.wide) {
        early_fill(x, m, dim, most, panels, state);
    } else {
        const narrow_panels narrow = narrow_of(panels, m, dim);
        NAME(narrow_fill)(x, m, dim, most, &narrow, state);
    }
}

TARGET static int32_t NAME(early)(const double *x, int64_t m, int64_t dim, int64_t other_work, int64_t trial_work, int64_t most_work,
                                  double *panels, early_state *state)
{
    const int64_t begin = state->kept.looked + state->kept.passed;
    int64_t away = 0;
    if (state->kept.row == 0 && state->farthest < 0.0) {
        /* The row that is farthest from some row is often the winner where tails are heavy, and sets a high bar anywhere. */
        state->best = 0;
        state->farthest = NAME(early_nearest)(x, m, dim, 0, -1.0, 0, state, &away);
        const double nearest = NAME(early_nearest)(x, m, dim, away, -1.0, 0, state, &state->kept.hint);
        state->kept.hint = 0;
        if (nearest > state->farthest) {
            state->best = away;
            state->farthest = nearest;
        }
    }
    for (; state->kept.row < m; state->kept.row++) {
        const int64_t i = state->kept.row;
        if (state->kept.looked - state->kept.marked_looked >= trial_work / 2 && i - state->kept.marked_row >= EARLY_SAMPLE) {
            /* The first half of the trial pays for panels and for a bar. */
            const double each = (double)(state->kept.looked - state->kept.marked_looked) / (double)(i - state->kept.marked_row + 1);
            const double bars = (double)m * (double)dim * log((double)m / (double)(i + 1)); /* if rows come in any order */
            const int dear = state->kept.marked_looked > 0 && each * (double)(m - i) + bars > (double)other_work;
            state->kept.marked_looked = state->kept.looked;
            state->kept.marked_row = i;
            if (dear) {
                return -1;
            }
        }
        if (state->kept.looked + state->kept.passed - begin >= most_work) {
            return 1;
        }
        if (i != state->best && NAME(early_hinted)(x, dim, i, state->farthest, state)) {
            continue;
        }
        double norm_sq = 0.0;
        if (!state->kept.wide) {
            const narrow_panels narrow = narrow_of(panels, m, dim);
            norm_sq = NAME(narrow_row)(x + i * dim, dim, x, narrow.row);
            state->kept.looked += dim / 4;
            /* Also where squares leave the range of single precision, or it leaves too much open. */
            if (!(norm_sq < NARROW_LARGEST && state->farthest > NARROW_SMALLEST && state->farthest < NARROW_LARGEST
                  && state->kept.doubts * dim <= NARROW_DOUBTS * dim + state->kept.looked / 4)) {
                state->kept.wide = 1;
                state->kept.filled = 0;
            }
        }
        if (state->kept.wide && !NAME(is_finite)(x + i * dim, dim)) {
            return -1;
        }
        if (state->kept.filled == 0) {
            NAME(fill)(x, m, dim, 1, panels, state);
        }
        const int tie = i > state->best;
        if (i == state->best || NAME(early_leaves)(x, m, dim, i, state->farthest, tie, panels, norm_sq, state)) {
            continue;
        }
        const double nearest = NAME(early_nearest)(x, m, dim, i, state->farthest, tie, state, &away);
        if (nearest > state->farthest || (nearest == state->farthest && i < state->best)) {
            state->best = i;
            state->farthest = nearest;
        }
        /* The more rows come as far as this, the more panels there are. */
        NAME(fill)(x, m, dim, state->kept.filled + 1 + state->kept.filled / 4, panels, state);
    }
    return 0;
}

#undef FUSED_D
