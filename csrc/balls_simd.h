/* Rows in balls for one vector width: included by balls.c once per instruction set. Which rows are within a radius is decided by
 * the squares of add_columns; what boxes and single precision say only saves looking. */
#include "lanes_simd.h"

/* Every second lane of two vectors, from the first or from the second on. */
TARGET FPP_INLINE V NAME(alternate)(V a, V b, int odd)
{
#if W == 2
    return odd ? FPP_SHUFFLE(VI, a, b, 1, 3) : FPP_SHUFFLE(VI, a, b, 0, 2);
#elif W == 4
    return odd ? FPP_SHUFFLE(VI, a, b, 1, 3, 5, 7) : FPP_SHUFFLE(VI, a, b, 0, 2, 4, 6);
#else
    return odd ? FPP_SHUFFLE(VI, a, b, 1, 3, 5, 7, 9, 11, 13, 15) : FPP_SHUFFLE(VI, a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#endif
}

/* out (64) = squared distances of 64 rows, as they come from memory, from a center: 1, 2, 4 or 8 p columns. */
TARGET FPP_INLINE void NAME(measure)(const char *rows, int64_t dim, const double *center, double *out, int is_f32)
{
    const int64_t size = is_f32 ? 4 : 8, ahead = dim < 8 ? BYTES_AHEAD : bytes_ahead(2 * W * dim * size);
    for (int64_t lane = 0; lane < LANES; lane += W, rows += W * dim * size) {
        V m[8], total = {0.0};
        if (dim >= 8) {
            for (int64_t k = 0; k < dim; k += W) {
                for (int r = 0; r < W; r++) {
                    __builtin_prefetch(rows + (r * dim + k) * size + ahead);
                }
                NAME(turned)(rows, dim, k, m, is_f32);
                for (int r = 0; r < W; r++) {
                    const V gap = m[r] - center[k + r];
                    total += gap * gap;
                }
            }
        } else {
            for (int64_t e = 0; e < dim; e++) {
                __builtin_prefetch(rows + e * W * size + ahead);
                m[e] = NAME(load_x)(rows, e * W, is_f32);
            }
            if (dim == 4) {
                const V a = NAME(alternate)(m[0], m[1], 0), b = NAME(alternate)(m[2], m[3], 0);
                const V c = NAME(alternate)(m[0], m[1], 1), d = NAME(alternate)(m[2], m[3], 1);
                m[0] = NAME(alternate)(a, b, 0);
                m[1] = NAME(alternate)(c, d, 0);
                m[2] = NAME(alternate)(a, b, 1);
                m[3] = NAME(alternate)(c, d, 1);
            } else if (dim == 2) {
                const V a = m[0];
                m[0] = NAME(alternate)(a, m[1], 0);
                m[1] = NAME(alternate)(a, m[1], 1);
            }
            for (int64_t k = 0; k < dim; k++) {
                const V gap = m[k] - center[k];
                total += gap * gap;
            }
        }
        NAME(store)(out + lane, total);
    }
}

TARGET FPP_INLINE void NAME(add_counts)(const double *distances, const ball_list *balls, int64_t c)
{
    for (int64_t r = 0; r < balls->radii; r++) {
        balls->counts[c * balls->radii + r] += __builtin_popcountll(NAME(within)(distances, balls->radii_sq[r]));
    }
}

/* counts += rows first ... last - 1 in each of a few balls. */
TARGET FPP_INLINE int64_t NAME(measure_rows)(const lane_rows *rows, const ball_list *balls, int64_t dim, int is_f32)
{
    double out[LANES];
    int64_t first = 0;
    for (; first + LANES <= rows->n; first += LANES) {
        for (int64_t c = 0; c < balls->k; c++) {
            NAME(measure)(rows->at + first * dim * (is_f32 ? 4 : 8), dim, balls->centers + c * dim, out, is_f32);
            NAME(add_counts)(out, balls, c);
        }
    }
    return first;
}

TARGET FPP_INLINE void NAME(count_in)(const lane_rows *rows, const ball_list *balls, double *panel, int is_f32)
{
    const int64_t dim = rows->dim;
    int64_t first = 0, index[LANES];
    double out[LANES];
    if (balls->k <= FEW_CENTERS) {
        switch (dim) { /* a constant width spares the loop over columns */
        case 1: first = NAME(measure_rows)(rows, balls, 1, is_f32); break;
        case 2: first = NAME(measure_rows)(rows, balls, 2, is_f32); break;
        case 4: first = NAME(measure_rows)(rows, balls, 4, is_f32); break;
        default: first = dim % 8 == 0 ? NAME(measure_rows)(rows, balls, dim, is_f32) : 0; break;
        }
    }
    for (; first < rows->n; first += LANES) {
        for (int64_t v = 0; v < LANES; v++) {
            if (dim >= 8) { /* shorter rows share lines, and come by themselves */
                NAME(fetch)(rows, first + ROWS_AHEAD + v, is_f32);
            }
            index[v] = first + v < rows->n ? first + v : -1;
        }
        NAME(load_panel)(rows, index, panel, is_f32);
        for (int64_t c = 0; c < balls->k; c++) {
            NAME(add_columns)(panel, balls->centers + c * dim, 0, dim, out);
            NAME(add_counts)(out, balls, c);
        }
    }
}

TARGET static void NAME(count_rows)(const lane_rows *rows, int32_t is_f32, const ball_list *balls, double *panel)
{
    if (is_f32) {
        NAME(count_in)(rows, balls, panel, 1);
    } else {
        NAME(count_in)(rows, balls, panel, 0);
    }
}

/* out (end - begin, 64 q) = squared distances of all rows from those from begin to end, and NaN behind them. */
TARGET static void NAME(distances)(const lane_rows *rows, int64_t begin, int64_t end, double *panel, double *out)
{
    const int64_t width = (rows->n + LANES - 1) / LANES * LANES;
    for (int64_t first = 0; first < rows->n; first += LANES) {
        int64_t index[LANES];
        for (int64_t v = 0; v < LANES; v++) {
            index[v] = first + v < rows->n ? first + v : -1;
        }
        NAME(load_panel)(rows, index, panel, 0);
        for (int64_t c = begin; c < end; c++) {
            const double *row = (const double *)(const void *)rows->at + c * rows->dim;
            NAME(add_columns)(panel, row, 0, rows->dim, out + (c - begin) * width + first);
        }
    }
}

/* ---- Rows sorted into tiles of 64 panels ---------------------------------------------------------------------------- */

TARGET FPP_INLINE void NAME(route_in)(const lane_rows *rows, const int64_t *side, int64_t depth, const double *cut, double *panel,
                                      int32_t *leaf, int is_f32)
{
    const int64_t dim = rows->dim;
    for (int64_t first = 0; first < rows->n; first += LANES) {
        const int64_t n = least(LANES, rows->n - first);
        int64_t index[LANES], node[LANES];
        double zero[LANES] = {0.0};
        for (int64_t v = 0; v < LANES; v++) {
            if (dim >= 8) {
                NAME(fetch)(rows, first + ROWS_AHEAD + v, is_f32);
            }
            index[v] = v < n ? first + v : -1;
            node[v] = 1;
        }
        NAME(load_panel)(rows, index, panel, is_f32);
        for (int64_t k = 0; k < dim; k++) {
            for (int64_t v = 0; v < LANES; v++) {
                zero[v] += panel[k * LANES + v] * 0.0; /* NaN from an infinity or NaN */
            }
        }
        for (int64_t level = 0; level < depth; level++) {
            const double *column = panel + side[level] * LANES;
            for (int64_t v = 0; v < LANES; v++) {
                int64_t here = node[v];
#if W == 8
                __asm__("" : "+r"(here)); /* gathers, which would be made of this, take half as long again on many processors */
#endif
                node[v] = 2 * here + (column[v] >= cut[here]);
            }
        }
        for (int64_t v = 0; v < n; v++) {
            leaf[first + v] = zero[v] == 0.0 ? (int32_t)(node[v] - (INT64_C(1) << depth)) : -1;
        }
    }
}

TARGET static void NAME(route)(const lane_rows *rows, int32_t is_f32, const int64_t *side, int64_t depth, const double *cut,
                               double *panel, int32_t *leaf)
{
    if (is_f32) {
        NAME(route_in)(rows, side, depth, cut, panel, leaf, 1);
    } else {
        NAME(route_in)(rows, side, depth, cut, panel, leaf, 0);
    }
}

/* The least or the largest of 64 numbers, where NaN may only follow numbers. */
TARGET FPP_INLINE double NAME(extent)(const double *numbers, int largest)
{
    V best = NAME(load)(numbers);
    for (int64_t lane = W; lane < LANES; lane += W) {
        const V v = NAME(load)(numbers + lane);
        const VI take = largest ? v > best : v < best;
        best = (V)((take & (VI)v) | (~take & (VI)best));
    }
    double found = best[0];
    for (int l = 1; l < W; l++) {
        found = (largest ? best[l] > found : best[l] < found) ? best[l] : found;
    }
    return found;
}

/* Tiles begin ... end - 1: their middles, panels less them, boxes of the rows and boxes less the middles. */
TARGET FPP_INLINE void NAME(gather_in)(const lane_rows *rows, const fpp_tiles *tiles, int64_t begin, int64_t end, double *panel,
                                       int is_f32)
{
    const int64_t dim = rows->dim, count = tiles->count;
    for (int64_t q = begin; q < end; q++) {
        const int64_t first = q * LANES, last = least(first + LANES, count);
        double *middle = tiles->middles + q * dim;
        int64_t drawn = 0;
        /* Any place among the rows will do for a middle; that of a few keeps differences small, and sums of it do not overflow. */
        for (int64_t p = first; p < last; p++) {
            drawn += tiles->order[p * LANES] >= 0;
        }
        for (int64_t k = 0; k < dim; k++) {
            middle[k] = 0.0;
        }
        for (int64_t p = first; p < first + drawn; p++) {
            for (int64_t k = 0; k < dim; k++) {
                middle[k] += entry(rows, tiles->order[p * LANES], k, is_f32) / (double)drawn;
            }
        }
        for (int64_t p = first; p < last; p++) {
            const int64_t *index = tiles->order + p * LANES;
            for (int64_t v = 0; p + 1 < count && v < LANES; v++) {
                NAME(fetch)(rows, index[LANES + v] < 0 ? 0 : index[LANES + v], is_f32);
            }
            NAME(load_panel)(rows, index, panel, is_f32);
            for (int64_t k = 0; k < dim; k++) {
                const double *column = panel + k * LANES;
                float *narrow = tiles->panels + (p * dim + k) * LANES;
                const double low = NAME(extent)(column, 0), high = NAME(extent)(column, 1);
                const int64_t box = q * dim * LANES + k * LANES + (p - first);
                for (int64_t v = 0; v < LANES; v++) {
                    narrow[v] = (float)(column[v] - middle[k]);
                }
                tiles->boxes[2 * q * dim * LANES + k * LANES + (p - first)] = low;
                tiles->boxes[(2 * q + 1) * dim * LANES + k * LANES + (p - first)] = high;
                tiles->lower[box] = (float)(low - middle[k]);
                tiles->upper[box] = (float)(high - middle[k]);
            }
        }
    }
}

TARGET static void NAME(gather)(const lane_rows *rows, int32_t is_f32, const fpp_tiles *tiles, int64_t begin, int64_t end,
                                double *panel)
{
    if (is_f32) {
        NAME(gather_in)(rows, tiles, begin, end, panel, 1);
    } else {
        NAME(gather_in)(rows, tiles, begin, end, panel, 0);
    }
}

#include "tiles_simd.h"
#include "search_simd.h"
#include "lanes_end.h"
