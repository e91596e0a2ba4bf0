/* The race among few rows of few columns for one vector width: all rows in panels, and each row against one panel after the other until
 * one is near. Included by isolated_simd.h. A row is in a lane, its sums those that decide: column by column, without fused
 * multiply-adds. */

/* The squared distance of the nearest other row from row i, or -1 once one is at most `most`. hint: the row that sent the last one home;
 * it comes first, then the panel of row i and those around it. Not a number, which is near to nothing, stands in unused lanes. */
TARGET FPP_INLINE double NAME(small_nearest)(const double *restrict x, int64_t count, int64_t dim, int64_t i, double most,
                                          double *restrict panels, int64_t *hint)
{
    enum { PARTS_OF = EARLY / W };
    const double *row = x + i * dim;
    const int64_t own = i / EARLY;
    double *self = panels + own * dim * EARLY + i % EARLY;
    if (NAME(early_exact)(row, x + *hint * dim, dim) <= most && *hint != i) {
        return -1.0;
    }
    *self = INFINITY; /* no row is its own neighbour */
    V nearest[PARTS_OF], limit = (V){0.0} + most;
    for (int v = 0; v < PARTS_OF; v++) {
        nearest[v] = (V){0.0} + (double)INFINITY;
    }
    double found = -1.0;
    int64_t visit = 0, p = own;
    for (; visit < count; visit++, p = p + 1 < count ? p + 1 : 0) {
        V sum[PARTS_OF];
        for (int v = 0; v < PARTS_OF; v++) {
            sum[v] = (V){0.0};
        }
        for (int64_t k = 0; k < dim; k++) {
            for (int v = 0; v < PARTS_OF; v++) {
                const V gap = NAME(load)(panels + (p * dim + k) * EARLY + v * W) - row[k];
                sum[v] += gap * gap;
            }
        }
        uint64_t near = 0;
        for (int v = 0; v < PARTS_OF; v++) {
            near |= NAME(at_most)(sum[v], limit) << (v * W);
            const VI less = sum[v] < nearest[v];
            nearest[v] = (V)((less & (VI)sum[v]) | (~less & (VI)nearest[v]));
        }
        if (near != 0) {
            *hint = p * EARLY + __builtin_ctzll(near);
            break;
        }
    }
    if (visit == count) {
        found = INFINITY;
        for (int v = 0; v < EARLY; v++) {
            const double square = nearest[v / W][v % W];
            found = square < found ? square : found;
        }
    }
    *self = row[0];
    return found;
}

/* A race among all rows, each at most SMALL_COLUMNS long, to its end; 0 if one is not finite. */
TARGET FPP_INLINE int32_t NAME(small_in)(const double *x, int64_t m, int64_t dim, double *panels, early_state *state)
{
    if (!NAME(is_finite)(x, m * dim)) {
        return 0;
    }
    const int64_t count = (m + EARLY - 1) / EARLY;
    early_fill(x, m, dim, count, panels, state);
    /* The row that is farthest from the first is often the winner where tails are heavy, and sets a high bar anywhere. */
    int64_t away = 0, hint = 0;
    double farthest = -1.0;
    for (int64_t j = 0; j < m; j++) {
        const double square = NAME(early_exact)(x, x + j * dim, dim);
        away = square > farthest ? j : away;
        farthest = square > farthest ? square : farthest;
    }
    state->best = away;
    state->farthest = NAME(small_nearest)(x, count, dim, away, -1.0, panels, &hint);
    double below = nextafter(state->farthest, -1.0);
    for (int64_t i = 0; i < m; i++) {
        if (i == state->best) {
            continue;
        }
        /* A row leaves at a tie with one before it. */
        const double nearest = NAME(small_nearest)(x, count, dim, i, i > state->best ? state->farthest : below, panels, &hint);
        if (nearest >= 0.0) {
            state->best = i;
            state->farthest = nearest;
            below = nextafter(nearest, -1.0);
        }
    }
    return 1;
}

TARGET static int32_t NAME(small)(const double *x, int64_t m, int64_t dim, double *panels, early_state *state)
{
    if (dim > SMALL_COLUMNS) {
        return NAME(early)(x, m, dim, INT64_MAX, INT64_MAX, INT64_MAX, panels, state) == 0;
    }
    switch (dim) { /* loops of a known length */
    case 1:
        return NAME(small_in)(x, m, 1, panels, state);
    case 2:
        return NAME(small_in)(x, m, 2, panels, state);
    case 3:
        return NAME(small_in)(x, m, 3, panels, state);
    case 4:
        return NAME(small_in)(x, m, 4, panels, state);
    default:
        return NAME(small_in)(x, m, dim, panels, state);
    }
}
