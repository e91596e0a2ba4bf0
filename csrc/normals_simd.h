/* Loops of normals.c for one vector width: included under W, NAME and TARGET (see rows_simd.h). No fused multiply-adds. */
#include "vector_simd.h"

#define CHOOSE(mask, a, b) ((V)(((mask) & (VI)(a)) | (~(mask) & (VI)(b))))

TARGET FPP_INLINE V NAME(all)(double x)
{
    return (V){0.0} + x;
}

TARGET FPP_INLINE int NAME(any)(VI mask)
{
    int64_t found = 0;
    for (int i = 0; i < W; i++) {
        found |= mask[i];
    }
    return found != 0;
}

TARGET FPP_INLINE V NAME(polynomial)(V x, V start, const double *more, int count)
{
    for (int i = 0; i < count; i++) {
        start = start * x + more[i];
    }
    return start;
}

/* Phi(-size) for size >= 0; NaN stays. */
TARGET FPP_INLINE V NAME(tail)(V size)
{
    const V x = size * -ROOT_HALF, far = size * ROOT_HALF, square = x * x;
    const VI near = far < 1.0, beyond = far >= 8.0, unknown = far != far;
    V found = {0.0};
    if (NAME(any)(near)) {
        const V top = NAME(polynomial)(square, NAME(all)(near_top[0]), near_top + 1, COUNT(near_top) - 1);
        const V bottom = NAME(polynomial)(square, square + near_bottom[0], near_bottom + 1, COUNT(near_bottom) - 1);
        found = (V)(near & (VI)(0.5 + 0.5 * (x * top / bottom)));
    }
    const VI counts = ~near & (square <= FARTHEST_SQ);
    if (NAME(any)(counts)) {
        V e = {0.0};
        for (int i = 0; i < W; i++) {
            /* Not by counts[i]: gcc 12 with -fwrapv, as Python is built, stops on that in gimple_expand_vec_cond_expr. */
            e[i] = square[i] >= 1.0 && square[i] <= FARTHEST_SQ ? exp(-square[i]) : 0.0;
        }
        if (NAME(any)(counts & ~beyond)) {
            const V top = NAME(polynomial)(far, NAME(all)(middle_top[0]), middle_top + 1, COUNT(middle_top) - 1);
            const V bottom = NAME(polynomial)(far, far + middle_bottom[0], middle_bottom + 1, COUNT(middle_bottom) - 1);
            found = CHOOSE(counts & ~beyond, 0.5 * (e * top / bottom), found);
        }
        if (NAME(any)(counts & beyond)) {
            const V top = NAME(polynomial)(far, NAME(all)(far_top[0]), far_top + 1, COUNT(far_top) - 1);
            const V bottom = NAME(polynomial)(far, far + far_bottom[0], far_bottom + 1, COUNT(far_bottom) - 1);
            found = CHOOSE(counts & beyond, 0.5 * (e * top / bottom), found);
        }
    }
    return CHOOSE(unknown, size, found);
}

TARGET static double NAME(normal_below)(double z)
{
    if (!(z > 0.0)) {
        return NAME(tail)(NAME(all)(-z))[0];
    }
    const double x = z * ROOT_HALF;
    if (x < 1.0) {
        double top = near_top[0], bottom = x * x + near_bottom[0];
        for (int i = 1; i < COUNT(near_top); i++) {
            top = top * (x * x) + near_top[i];
        }
        for (int i = 1; i < COUNT(near_bottom); i++) {
            bottom = bottom * (x * x) + near_bottom[i];
        }
        return 0.5 + 0.5 * (x * top / bottom);
    }
    return 1.0 - NAME(tail)(NAME(all)(z))[0];
}

TARGET static void NAME(scores)(const double *edges, int64_t n_edges, double mean, double std, double *z, double *exponents)
{
    int64_t j = 0;
    for (; j + W <= n_edges; j += W) {
        const V v = (NAME(load)(edges + j) - mean) / std;
        NAME(store)(z + j, v);
        if (exponents != NULL) {
            NAME(store)(exponents + j, -0.5 * v * v);
        }
    }
    for (; j < n_edges; j++) {
        z[j] = (edges[j] - mean) / std;
        if (exponents != NULL) {
            exponents[j] = -0.5 * z[j] * z[j];
        }
    }
}

/* Differences of phi(z) and z phi(z), these only if `tilted` is not NULL; room as for `cells`. */
TARGET FPP_INLINE void NAME(densities)(const double *z, const double *exponentials, int64_t n_edges, double *room, double *density,
                                       double *tilted)
{
    double *const products = room, *const heights = room + n_edges + 8;
    for (int64_t j = 0; j < n_edges; j++) {
        heights[j] = ROOT_TWO_PI * exponentials[j];
        products[j] = (fabs(z[j]) < FARTHEST ? z[j] : 0.0) * heights[j];
    }
    for (int64_t j = 0; j < n_edges - 1; j++) {
        density[j] = heights[j + 1] - heights[j];
    }
    for (int64_t j = 0; tilted != NULL && j < n_edges - 1; j++) {
        tilted[j] = products[j + 1] - products[j];
    }
}

/* room holds two tables with a number for each edge and one vector to spare. */
TARGET static void NAME(cells)(const double *z, const double *exponentials, int64_t n_edges, double *room, double *inside,
                               double *density, double *tilted)
{
    double *const tail = room;
    int64_t j = 0;
    for (; j < n_edges; j += W) {
        V v;
        if (j + W <= n_edges) {
            v = NAME(load)(z + j);
        } else {
            for (int i = 0; i < W; i++) {
                v[i] = j + i < n_edges ? z[j + i] : 0.0;
            }
        }
        NAME(store)(tail + j, NAME(tail)((V)((VI)v & INT64_MAX)));
    }
    const int64_t cells = n_edges - 1;
    for (j = 0; j < cells; j++) {
        const double left = tail[j], right = tail[j + 1]; /* a difference of the nearer tail: Phi near one has no digits left */
        inside[j] = z[j] > 0.0 ? left - right : right - left;
    }
    for (j = 0; j < cells; j++) {
        if (z[j + 1] > 0.0 && !(z[j] > 0.0)) {
            inside[j] = NAME(normal_below)(z[j + 1]) - tail[j];
        }
    }
    if (exponentials == NULL) {
        return;
    }
    NAME(densities)(z, exponentials, n_edges, room, density, tilted);
}

/* to = total * weight * from (less the mass, if there is one), and the same times the precision. */
TARGET FPP_INLINE void NAME(slope)(int64_t n, double total, double weight, const double *restrict from, const double *restrict mass,
                                   const double *restrict precision, double *restrict to, double *restrict with_precision)
{
    for (int64_t j = 0; j < n; j++) {
        to[j] = total * (weight * (mass == NULL ? from[j] : from[j] - mass[j]));
        with_precision[j] = to[j] * precision[j];
    }
}

TARGET static void NAME(slopes)(const fpp_cell_fit *fit, int64_t row, const double *exponentials, double *room, double *restrict slopes,
                                double *restrict weighted, double *restrict residuals)
{
    const int64_t cells = fit->cells, k = fit->components;
    const double *const weights = fit->weights + row * k;
    double *const density = room, *const tilted = fit->fixed_std ? NULL : room + k * cells;
    double mass[BLOCK], precision[BLOCK];
    for (int64_t c = 0; c < k; c++) {
        NAME(densities)(fit->z + (row * k + c) * (cells + 1), exponentials + c * (cells + 1), cells + 1, room + 2 * k * cells,
                        density + c * cells, tilted == NULL ? NULL : tilted + c * cells);
    }
    for (int64_t begin = 0; begin < cells; begin += BLOCK) {
        const int64_t n = cells - begin < BLOCK ? cells - begin : BLOCK;
        for (int64_t c = 0; c < k; c++) {
            const double *const inside = fit->inside + (row * k + c) * cells + begin;
            for (int64_t j = 0; j < n; j++) {
                mass[j] = c > 0 ? mass[j] + weights[c] * inside[j] : weights[c] * inside[j];
            }
        }
        for (int64_t j = 0; j < n; j++) {
            const double expected = fit->total * mass[j];
            precision[j] = 1.0 / (fit->noise_variance + (expected < 0.0 ? 0.0 : expected) + 1e-9);
            residuals[begin + j] = precision[j] * (fit->counts[begin + j] - expected);
        }
        for (int64_t c = 0; c < k; c++) {
            const int64_t from = (row * k + c) * cells + begin, to = c * cells + begin, next = k * cells;
            NAME(slope)(n, fit->total, weights[c], fit->inside + from, mass, precision, slopes + to, weighted + to);
            NAME(slope)(n, fit->total, -weights[c], density + to, NULL, precision, slopes + to + next, weighted + to + next);
            if (tilted != NULL) {
                NAME(slope)(n, fit->total, -weights[c], tilted + to, NULL, precision, slopes + to + 2 * next,
                            weighted + to + 2 * next);
            }
        }
    }
}

#define PARTS (ROWS / W)

/* tiles (tile, component, column, ROWS): rows in standard deviations, within WIDEST; length_sq (component, n) their squared lengths,
 * added up column by column; whole (n): every entry is finite. The last tile holds the rows themselves while they are turned. */
TARGET static void NAME(distances)(const char *x, int64_t n, int64_t stride_bytes, int is_f32, const fpp_normals *at, double *tiles,
                                   double *length_sq, uint8_t *whole)
{
    const int64_t dim = at->dim, count = (n + ROWS - 1) / ROWS;
    double *const turned = tiles + count * at->components * dim * ROWS;
    for (int64_t t = 0; t < count; t++) {
        const int64_t first = t * ROWS, used = n - first < ROWS ? n - first : ROWS;
        NAME(turn_rows)(x + first * stride_bytes, stride_bytes, used, ROWS, dim, turned, is_f32);
        VI finite[PARTS];
        for (int p = 0; p < PARTS; p++) {
            finite[p] = (VI){0} - 1;
        }
        for (int64_t j = 0; j < dim; j++) {
            for (int p = 0; p < PARTS; p++) {
                finite[p] &= (V)((VI)NAME(load)(turned + j * ROWS + p * W) & INT64_MAX) < (double)INFINITY;
            }
        }
        for (int64_t r = 0; r < used; r++) {
            whole[first + r] = finite[r / W][r % W] != 0;
        }
        for (int64_t c = 0; c < at->components; c++) {
            double *const tile = tiles + (t * at->components + c) * dim * ROWS;
            const double *const mean = at->means + c * dim, *const std = at->stds + c * dim;
            V sum[PARTS];
            for (int p = 0; p < PARTS; p++) {
                sum[p] = (V){0.0};
            }
            for (int64_t j = 0; j < dim; j++) {
                for (int p = 0; p < PARTS; p++) {
                    V v = (NAME(load)(turned + j * ROWS + p * W) - mean[j]) / std[j];
                    v = CHOOSE(v < -WIDEST, NAME(all)(-WIDEST), v);
                    v = CHOOSE(v > WIDEST, NAME(all)(WIDEST), v);
                    NAME(store)(tile + j * ROWS + p * W, v);
                    sum[p] += v * v;
                }
            }
            for (int64_t r = 0; r < used; r++) {
                length_sq[c * n + first + r] = sum[r / W][r % W];
            }
        }
    }
}

/* share times the least of one and radius over length, nothing for rows that are not whole. */
TARGET FPP_INLINE V NAME(factor)(V share, V length_sq, double radius)
{
    V length = CHOOSE(length_sq < LEAST_SQ, NAME(all)(LEAST_SQ), length_sq);
    for (int i = 0; i < W; i++) {
        length[i] = sqrt(length[i]);
    }
    const V ratio = radius / length;
    return share * CHOOSE(ratio > 1.0, NAME(all)(1.0), ratio);
}

TARGET FPP_INLINE V NAME(square)(V z)
{
    return (z * z - 1.0) * ROOT_HALF;
}

/* out, one row after another `apart`: entries of a tile, or their squares, times the factor of each row, zero where it is not whole. */
TARGET FPP_INLINE void NAME(spread)(const double *tile, int64_t dim, int64_t used, const V *factor, const VI *whole, int squares,
                                    double *out, int64_t apart)
{
    for (int p = 0; p < PARTS; p++) {
        for (int64_t j = 0; j < dim; j += W) {
            const int64_t from = j < dim - W || dim < W ? j : dim - W; /* the last columns a second time, with some before them */
            const int columns = dim - from < W ? (int)(dim - from) : W;
            V m[W];
            for (int i = 0; i < W; i++) {
                const V z = NAME(load)(tile + (i < columns ? from + i : from) * ROWS + p * W);
                m[i] = CHOOSE(whole[p], (squares ? NAME(square)(z) : z) * factor[p], (V){0.0});
            }
            NAME(transpose)(m);
            for (int r = 0; r < W && p * W + r < used; r++) {
                double *const to = out + (p * W + r) * apart + from;
                if (columns == W) {
                    NAME(store)(to, m[r]);
                } else {
                    for (int i = 0; i < columns; i++) {
                        to[i] = m[r][i];
                    }
                }
            }
        }
    }
}

/* out (n, components (1 + dim), or (1 + 2 dim) with a third radius): shares, first moments, second moments of one row after another. */
TARGET static void NAME(statistic)(int64_t n, const fpp_normals *at, const double *tiles, const double *length_sq, const double *share,
                                   const uint8_t *whole, const double *radii, double *out)
{
    const int64_t dim = at->dim, k = at->components, apart = k * (1 + dim * (radii[2] > 0.0 ? 2 : 1));
    for (int64_t first = 0; first < n; first += ROWS) {
        const int64_t used = n - first < ROWS ? n - first : ROWS;
        for (int64_t c = 0; c < k; c++) {
            const double *const tile = tiles + (first / ROWS * k + c) * dim * ROWS;
            double *const row = out + first * apart;
            double row_share[ROWS], row_length[ROWS], row_whole[ROWS];
            for (int r = 0; r < ROWS; r++) {
                const int64_t at_row = first + (r < used ? r : 0);
                row_share[r] = share[c * n + at_row];
                row_length[r] = length_sq[c * n + at_row];
                row_whole[r] = whole[at_row] ? 1.0 : 0.0;
            }
            V factors[PARTS];
            VI kept[PARTS];
            for (int p = 0; p < PARTS; p++) {
                factors[p] = NAME(factor)(NAME(load)(row_share + p * W), NAME(load)(row_length + p * W), radii[1]);
                kept[p] = NAME(load)(row_whole + p * W) > 0.0;
            }
            for (int64_t r = 0; r < used; r++) {
                row[r * apart + c] = whole[first + r] ? radii[0] * share[c * n + first + r] : 0.0;
            }
            NAME(spread)(tile, dim, used, factors, kept, 0, row + k + c * dim, apart);
            if (radii[2] > 0.0) {
                for (int p = 0; p < PARTS; p++) {
                    V sum = {0.0};
                    for (int64_t j = 0; j < dim; j++) {
                        const V square = NAME(square)(NAME(load)(tile + j * ROWS + p * W));
                        sum += square * square;
                    }
                    factors[p] = NAME(factor)(NAME(load)(row_share + p * W), sum, radii[2]);
                }
                NAME(spread)(tile, dim, used, factors, kept, 1, row + k * (1 + dim) + c * dim, apart);
            }
        }
    }
}

static const fpp_normal_loops NAME(normal_loops) = {NAME(scores), NAME(cells), NAME(slopes), NAME(distances), NAME(statistic)};

#undef PARTS
#undef CHOOSE
#undef V
#undef VI
#undef W
#undef NAME
#undef TARGET
