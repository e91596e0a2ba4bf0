/* Loops of normals.c for one vector width: included under W, NAME and TARGET (see rows_simd.h). No fused multiply-adds. */
#include "vector_simd.h"

#define CHOOSE(mask, a, b) ((V)(((mask) & (VI)(a)) | (~(mask) & (VI)(b))))

TARGET FPP_INLINE V NAME(all)(double x)
{
    return (V){0.0} + x;
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

static const fpp_normal_loops NAME(normal_loops) = {NAME(distances), NAME(statistic)};

#undef PARTS
#undef CHOOSE
#undef V
#undef VI
#undef W
#undef NAME
#undef TARGET
