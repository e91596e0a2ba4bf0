/* The race by cover for one vector width: most rows are near one of 16 pivots, the rest near the rows around theirs. Included by
 * isolated_simd.h. What is added up here is added up in any order, as in early_simd.h: the caller leaves room for it. */

/* The 16 rows that `rows` names side by side, NaN for -1. */
TARGET static void NAME(cover_fill)(const double *x, int64_t dim, const int64_t *rows, double *panel)
{
    for (int64_t lane = 0; lane < EARLY; lane++) {
        for (int64_t k = 0; k < dim; k++) {
            panel[k * EARLY + lane] = rows[lane] < 0 ? (double)NAN : x[rows[lane] * dim + k];
        }
    }
}

TARGET static void NAME(cover)(const double *x, int64_t dim, const int64_t *pivots, int64_t begin, int64_t end, double *panel,
                               double *nearest, int64_t *group)
{
    double out[EARLY];
    int64_t looked = 0;
    NAME(cover_fill)(x, dim, pivots, panel);
    for (int64_t i = begin; i < end; i++) {
        double least_sq = INFINITY;
        int64_t at = 0;
        if (NAME(early_panel)(panel, x + i * dim, dim, INFINITY, out, &looked) != 0) {
            for (int64_t v = 0; v < EARLY; v++) {
                const int nearer = out[v] < least_sq && pivots[v] != i; /* never where a row or a pivot is not finite */
                least_sq = nearer ? out[v] : least_sq;
                at = nearer ? v : at;
            }
        }
        nearest[i] = least_sq;
        group[i] = at;
    }
}

/* Rows of queue (left) that no row from first to last of members is nearer to than limit, put together; returns how many. */
TARGET static int64_t NAME(leave)(const double *x, int64_t dim, const int64_t *members, int64_t first, int64_t last, double limit,
                                  double *panel, int64_t *queue, int64_t left)
{
    enum { FEW = 4 }; /* rows for which a panel is not worth its filling */
    double out[EARLY];
    int64_t looked = 0;
    for (; first < last && left > 0; first += EARLY) {
        const int64_t count = least(EARLY, last - first), open = left, few = left <= FEW;
        int64_t rows[EARLY];
        for (int64_t lane = 0; lane < EARLY; lane++) {
            rows[lane] = lane < count ? members[first + lane] : -1;
        }
        if (!few) {
            NAME(cover_fill)(x, dim, rows, panel);
        }
        left = 0;
        for (int64_t q = 0; q < open; q++) {
            const int64_t i = queue[q];
            int near = 0;
            if (few) {
                for (int64_t lane = 0; lane < count && !near; lane++) {
                    near = rows[lane] != i && NAME(early_square)(x + i * dim, x + rows[lane] * dim, dim) < limit;
                }
            } else {
                uint64_t some = NAME(early_panel)(panel, x + i * dim, dim, limit, out, &looked);
                for (; some != 0 && !near; some &= some - 1) {
                    const int lane = __builtin_ctzll(some);
                    near = rows[lane] != i && out[lane] < limit;
                }
            }
            queue[left] = i;
            left += !near;
        }
    }
    return left;
}

TARGET static void NAME(contend)(const double *x, int64_t dim, const int64_t *rows, int64_t begin, int64_t end, double *panel,
                                 double *nearest, int64_t *at, double *second)
{
    double out[EARLY], most = -1.0;
    int64_t looked = 0;
    NAME(cover_fill)(x, dim, rows, panel);
    for (int64_t v = 0; v < EARLY; v++) {
        most = rows[v] >= 0 && second[v] > most ? second[v] : most;
    }
    for (int64_t j = begin; j < end; j++) {
        uint64_t some = NAME(early_panel)(panel, x + j * dim, dim, most, out, &looked);
        int changed = 0;
        for (; some != 0; some &= some - 1) {
            const int v = __builtin_ctzll(some);
            if (rows[v] == j || !(out[v] < second[v])) {
                continue;
            }
            changed = 1;
            if (out[v] < nearest[v]) {
                second[v] = nearest[v];
                nearest[v] = out[v];
                at[v] = j;
            } else {
                second[v] = out[v];
            }
        }
        if (changed) {
            most = -1.0;
            for (int64_t v = 0; v < EARLY; v++) {
                most = rows[v] >= 0 && second[v] > most ? second[v] : most;
            }
        }
    }
}
