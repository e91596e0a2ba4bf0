/* Panels of the early race in single precision, for one vector width: the rows less the first one, rounded. What they may be wrong by is
 * in narrow_bounds. Included by isolated_simd.h. */

/* out (16) = squared distances of a row from those of a panel. Returns bit v where one is at most `most`; 0 where fewer columns show that
 * none is. */
TARGET FPP_INLINE uint64_t NAME(narrow_panel)(const float *restrict panel, const float *restrict row, int64_t dim, float most,
                                          float *restrict out, int64_t *looked)
{
    enum { PARTS_OF = EARLY / (2 * W), CHAINS = W >= 4 ? W / 2 : 1 };
    S sum[CHAINS][PARTS_OF];
    for (int v = 0; v < CHAINS * PARTS_OF; v++) {
        sum[v / PARTS_OF][v % PARTS_OF] = (S){0.0f};
    }
    int64_t k = 0;
    uint64_t found = 0;
    while (k < dim) {
        const int64_t end = least(k + COLUMNS_AT_ONCE, dim);
        *looked += (end - k) * EARLY / 2;
        for (; k + CHAINS <= end; k += CHAINS) {
            for (int c = 0; c < CHAINS; c++) {
                for (int v = 0; v < PARTS_OF; v++) {
                    const S gap = NAME(load_s)(panel + (k + c) * EARLY + v * 2 * W) - row[k + c];
                    sum[c][v] = FUSED(sum[c][v], gap);
                }
            }
        }
        for (; k < end; k++) {
            for (int v = 0; v < PARTS_OF; v++) {
                const S gap = NAME(load_s)(panel + k * EARLY + v * 2 * W) - row[k];
                sum[0][v] = FUSED(sum[0][v], gap);
            }
        }
        found = 0;
        for (int v = 0; v < PARTS_OF; v++) {
            S square = sum[0][v];
            for (int c = 1; c < CHAINS; c++) {
                square += sum[c][v];
            }
            NAME(store_s)(out + v * 2 * W, square);
            found |= NAME(at_most_s)(square, (S){0.0f} + most) << (v * 2 * W);
        }
        if (found == 0) {
            return 0;
        }
    }
    return found;
}

/* Rows to single precision, less the row `center`: the columns of W of them, turned, and the squares of their norms. */
TARGET FPP_INLINE void NAME(narrow_rows)(const double *x, int64_t dim, const double *center, float *to, double *norm_sq)
{
    V total = {0.0};
    for (int64_t k = 0; k < dim; k += W) {
        const int64_t at = least(k, dim - W); /* the last columns once more with some of those before them: norms may be larger */
        V m[W];
        for (int r = 0; r < W; r++) {
            m[r] = NAME(load)(x + r * dim + at) - NAME(load)(center + at);
        }
        NAME(transpose)(m);
        for (int r = 0; r < W; r++) {
            total += m[r] * m[r];
            *(NAME(vecf_u) *)(void *)(to + (at + r) * EARLY) = NAME(narrowed)(m[r]);
        }
    }
    NAME(store)(norm_sq, total);
}

/* As early_fill, in single precision; a point that does not fit is in no panel. */
TARGET static void NAME(narrow_fill)(const double *x, int64_t m, int64_t dim, int64_t most, const narrow_panels *panels,
                                     early_state *state)
{
    for (; state->kept.filled < least(most, (m + EARLY - 1) / EARLY); state->kept.filled++) {
        const int64_t p = state->kept.filled, first = p * EARLY, count = least(EARLY, m - first);
        float *to = panels->at + p * dim * EARLY;
        double norm_sq[EARLY], widest = 0.0;
        state->kept.looked += dim * EARLY;
        if (count == EARLY) {
            for (int64_t lane = 0; lane < EARLY; lane += W) {
                NAME(narrow_rows)(x + (first + lane) * dim, dim, x, to + lane, norm_sq + lane);
            }
        }
        for (int64_t lane = 0; count < EARLY && lane < EARLY; lane++) {
            norm_sq[lane] = lane < count ? 0.0 : (double)NAN;
            for (int64_t k = 0; lane < count && k < dim; k++) {
                const double gap = x[(first + lane) * dim + k] - x[k];
                to[k * EARLY + lane] = (float)gap;
                norm_sq[lane] += gap * gap;
            }
        }
        for (int64_t lane = 0; lane < EARLY; lane++) {
            const int fits = norm_sq[lane] < NARROW_LARGEST;
            widest = fits && norm_sq[lane] > widest ? norm_sq[lane] : widest;
            for (int64_t k = 0; !fits && k < dim; k++) {
                to[k * EARLY + lane] = NAN;
            }
        }
        panels->widest[p] = sqrt(widest) * (1.0 + 1e-6);
    }
}

/* to (dim) = a row less the row `center`, in single precision; the square of its norm, not below NARROW_LARGEST where it does not fit. */
TARGET FPP_INLINE double NAME(narrow_row)(const double *row, int64_t dim, const double *center, float *to)
{
    V total = {0.0};
    double sum = 0.0;
    int64_t k = 0;
    for (; k + W <= dim; k += W) {
        const V gap = NAME(load)(row + k) - NAME(load)(center + k);
        total += gap * gap;
        *(NAME(vecf_u) *)(void *)(to + k) = NAME(narrowed)(gap);
    }
    for (; k < dim; k++) {
        const double gap = row[k] - center[k];
        sum += gap * gap;
        to[k] = (float)gap;
    }
    for (int l = 0; l < W; l++) {
        sum += total[l];
    }
    return sum;
}
