/* The statistic of a row under a mixture of normals. Only additions, products, quotients and roots, each rounded by itself and in one
 * order: the bits are those of the plain program (tests/twins/normals.py), whatever is searched for in between. Shares of the
 * components, which take exponentials, stay with the caller. */
#include "internal.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define ROOT_HALF 0.70710678118654752440
#define WIDEST 1e70 /* squares of squares stay finite */
#define LEAST_SQ 1e-300
#define ROWS 8      /* of a tile: one in each lane, whatever the instruction set */

typedef struct {
    void (*distances)(const char *x, int64_t n, int64_t stride_bytes, int is_f32, const fpp_normals *at, double *tiles, double *length_sq,
                      uint8_t *whole);
    void (*statistic)(int64_t n, const fpp_normals *at, const double *tiles, const double *length_sq, const double *share,
                      const uint8_t *whole, const double *radii, double *out);
} fpp_normal_loops;

#define KERNELS "normals_simd.h"
#include "each_level.h"

static const fpp_normal_loops *loops_now(void)
{
    return FPP_AT_LEVEL(&normal_loops);
}

static int32_t normals_are_valid(const fpp_normals *at)
{
    return at != NULL && at->dim >= 1 && at->dim <= FPP_DIM_MAX && at->components >= 1 && at->components <= FPP_DIM_MAX
        && at->means != NULL && at->stds != NULL;
}

FPP_API int64_t fpp_statistic_tiles(const fpp_normals *at, int64_t n)
{
    if (!normals_are_valid(at) || n < 0 || n > INT64_MAX / 16 / ((at->components + 1) * at->dim) - ROWS) {
        return -1;
    }
    return ((n + ROWS - 1) / ROWS * at->components + 1) * at->dim * ROWS;
}

FPP_API int32_t fpp_normal_distances(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_normals *at, double *tiles,
                                     double *length_sq, uint8_t *whole)
{
    int64_t stride_bytes;
    if (!normals_are_valid(at) || !fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || fpp_statistic_tiles(at, n) < 0
        || tiles == NULL || !fpp_is_given(length_sq, n, at->components * 8) || !fpp_is_given(whole, n, 1)) {
        return FPP_ERR_ARGUMENT;
    }
    loops_now()->distances(x, n, stride_bytes, is_f32, at, tiles, length_sq, whole);
    return FPP_OK;
}

FPP_API int32_t fpp_normal_statistic_f64(const double *tiles, const double *length_sq, const double *share, const uint8_t *whole,
                                         int64_t n, const fpp_normals *at, const double *radii, double *out)
{
    if (!normals_are_valid(at) || n < 0 || fpp_statistic_tiles(at, n) < 0 || tiles == NULL || radii == NULL
        || !fpp_is_given(length_sq, n, at->components * 8) || !fpp_is_given(share, n, at->components * 8) || !fpp_is_given(whole, n, 1)
        || !fpp_is_given(out, n, at->components * (1 + 2 * at->dim) * 8)) {
        return FPP_ERR_ARGUMENT;
    }
    loops_now()->statistic(n, at, tiles, length_sq, share, whole, radii, out);
    return FPP_OK;
}
