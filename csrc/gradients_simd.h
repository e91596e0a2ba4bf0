/* Loops of gradients.c for one vector width: included under W, NAME and TARGET (see rows_simd.h). Sums along a row go column by column
 * without fused multiply-adds, a row in each lane, so that their bits are those of one row at a time. */
#include "vector_simd.h"

typedef uint64_t NAME(words) __attribute__((vector_size(8 * W)));
typedef uint64_t NAME(words_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));
#define PARTS (SIDE / W)

/* scores (SIDE) of the rows of a tile for one output; with `norms` also norm_sq (SIDE). */
TARGET FPP_INLINE void NAME(predict)(const fpp_gradient_map *map, const double *restrict weights, const double *restrict tile,
                                     double *restrict scores, double *restrict norm_sq, int norms, int spread)
{
    V sum[PARTS], squares[PARTS];
    for (int p = 0; p < PARTS; p++) {
        sum[p] = (V){0.0};
        squares[p] = (V){0.0};
    }
    for (int64_t k = 0; k < map->dim; k++) {
        for (int p = 0; p < PARTS; p++) {
            const V v = NAME(load)(tile + k * SIDE + p * W);
            sum[p] += v * weights[k];
            if (norms) {
                const V s = spread ? v * map->spread[k] : v;
                squares[p] += s * s;
            }
        }
    }
    for (int p = 0; p < PARTS; p++) {
        NAME(store)(scores + p * W, sum[p]);
        if (norms) {
            NAME(store)(norm_sq + p * W, squares[p]);
        }
    }
}

/* Adds the rows of a tile, each times its steps (outputs, SIDE), to sums (outputs, dim, W) without those that fail the check of the
 * integers (`reject` in rows_simd.h says why one comparison is enough): they become rows of zeros. */
TARGET FPP_INLINE void NAME(add_tile)(const fpp_gradient_map *map, const gradient_scratch *scratch, int spread)
{
    const int64_t dim = map->dim;
    const double bound_sq = (double)(map->quant_bound * map->quant_bound);
    double *restrict tile = scratch->tile, *restrict steps = scratch->steps;
    V squares[PARTS];
    double sum_sq[SIDE];
#define RAISED(o, k, p)                                                                                                     \
    ((spread ? NAME(load)(tile + (k) * SIDE + (p) * W) * map->spread[k] : NAME(load)(tile + (k) * SIDE + (p) * W))          \
         * NAME(load)(steps + (o) * SIDE + (p) * W)                                                                         \
     + FPP_ROUNDER)
    for (int p = 0; p < PARTS; p++) {
        squares[p] = (V){0.0};
    }
    for (int64_t o = 0; o < map->outputs; o++) {
        for (int64_t k = 0; k < dim; k++) {
            for (int p = 0; p < PARTS; p++) {
                const V q = RAISED(o, k, p) - FPP_ROUNDER;
                squares[p] += q * q;
            }
        }
    }
    for (int p = 0; p < PARTS; p++) {
        NAME(store)(sum_sq + p * W, squares[p]);
    }
    for (int64_t r = 0; r < SIDE; r++) {
        if (FPP_LIKELY(sum_sq[r] <= bound_sq)) {
            continue;
        }
        for (int64_t k = 0; k < dim; k++) {
            tile[k * SIDE + r] = 0.0;
        }
        for (int64_t o = 0; o < map->outputs; o++) {
            steps[o * SIDE + r] = 0.0;
        }
    }
    for (int64_t o = 0; o < map->outputs; o++) {
        uint64_t *restrict sums = scratch->sums + o * dim * W;
        for (int64_t k = 0; k < dim; k++) {
            NAME(words) sum = *(const NAME(words_u) *)(sums + k * W);
            for (int p = 0; p < PARTS; p++) {
                sum += (NAME(words))RAISED(o, k, p);
            }
            *(NAME(words_u) *)(sums + k * W) = sum;
        }
    }
#undef RAISED
}

TARGET static void NAME(tile)(const fpp_gradient_map *map, const char *x, int64_t stride_bytes, int64_t used, int is_f32,
                              const gradient_scratch *scratch)
{
    double norm_sq[SIDE];
    if (is_f32) {
        NAME(turn_rows)(x, stride_bytes, used, SIDE, map->dim, scratch->tile, 1);
    } else {
        NAME(turn_rows)(x, stride_bytes, used, SIDE, map->dim, scratch->tile, 0);
    }
    if (map->spread != NULL) {
        NAME(predict)(map, map->weights, scratch->tile, scratch->steps, norm_sq, 1, 1);
    } else {
        NAME(predict)(map, map->weights, scratch->tile, scratch->steps, norm_sq, 1, 0);
    }
    for (int64_t o = 1; o < map->outputs; o++) {
        NAME(predict)(map, map->weights + o * map->dim, scratch->tile, scratch->steps + o * SIDE, norm_sq, 0, 0);
    }
    for (int64_t r = 0; r < SIDE; r++) {
        if (r < used) {
            row_steps(map, number(x + r * stride_bytes, map->dim, is_f32), norm_sq[r], scratch, r);
            if (map->weighted) {
                weigh_steps(map, number(x + r * stride_bytes, map->dim + 1, is_f32), scratch, r);
            }
        } else {
            no_steps(map, scratch, r);
        }
    }
    if (map->spread != NULL) {
        NAME(add_tile)(map, scratch, 1);
    } else {
        NAME(add_tile)(map, scratch, 0);
    }
}

#undef PARTS
#undef V
#undef VI
#undef W
#undef NAME
#undef TARGET
