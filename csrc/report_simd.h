/* Loops over one row and its normals for one vector width: included by report_loops.c once per instruction set. Sums go through eight
 * lanes in blocks of SUM_BLOCK, in the same order whatever the width. */
#include "vector_simd.h"

#define PARTS (SUM_LANES / W)
typedef int64_t NAME(bits_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));

/* k + 1/2, exactly, for |k| < 2^51. */
TARGET FPP_INLINE V NAME(normal)(const int64_t *k)
{
    return ((V)(*(const NAME(bits_u) *)k + ROUNDING_BITS) - ROUNDING) + 0.5;
}

TARGET static void NAME(products)(const double *restrict x, const int64_t *restrict g, int64_t n, fpp_products *sums)
{
    for (int64_t at = 0; at < n; at += SUM_BLOCK) {
        const int64_t m = n - at < SUM_BLOCK ? n - at : SUM_BLOCK;
        const V zero = {0.0};
        V square[PARTS], mixed[PARTS], other[PARTS];
        for (int p = 0; p < PARTS; p++) {
            square[p] = mixed[p] = other[p] = zero;
        }
        int64_t j = 0;
        for (; j + SUM_LANES <= m; j += SUM_LANES) {
            for (int p = 0; p < PARTS; p++) {
                const V u = NAME(load)(x + at + j + p * W), k = NAME(normal)(g + at + j + p * W);
                square[p] += u * u;
                mixed[p] += u * k;
                other[p] += k * k;
            }
        }
        double lanes[3][SUM_LANES];
        for (int p = 0; p < PARTS; p++) {
            NAME(store)(lanes[0] + p * W, square[p]);
            NAME(store)(lanes[1] + p * W, mixed[p]);
            NAME(store)(lanes[2] + p * W, other[p]);
        }
        for (int l = 0; j + l < m; l++) {
            const double u = x[at + j + l], k = (double)g[at + j + l] + 0.5;
            lanes[0][l] += u * u;
            lanes[1][l] += u * k;
            lanes[2][l] += k * k;
        }
        for (int i = 0; i < 3; i++) {
            for (int width = SUM_LANES / 2; width > 0; width /= 2) {
                for (int l = 0; l < width; l++) {
                    lanes[i][l] += lanes[i][l + width];
                }
            }
            add_compensated(lanes[i][0], &sums->total[i], &sums->carry[i]);
        }
    }
}

/* The sum is below 2^31 in size. */
TARGET static void NAME(round)(const double *restrict x, const int64_t *restrict g, int64_t n, double across, double along,
                               int32_t *restrict out)
{
    int64_t j = 0;
    for (; j + W <= n; j += W) {
        const V y = NAME(normal)(g + j) * across + NAME(load)(x + j) * along;
        /* The lowest bits of the sum are the nearest integer, of two the even one. */
        const VI bits = (VI)(y + ROUNDING);
        *(NAME(half_u) *)(out + j) = __builtin_convertvector(bits, NAME(half));
    }
    for (; j < n; j++) {
        const double y = ((double)g[j] + 0.5) * across + x[j] * along;
        out[j] = (int32_t)((y + ROUNDING) - ROUNDING);
    }
}

#undef PARTS
#undef V
#undef VI
#undef W
#undef NAME
#undef TARGET
