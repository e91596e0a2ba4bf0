/* How many rows lie in each of a set of concentric shells. One fixed order of additions decides, on every instruction set. */
#include "rowmap.h"

#include <math.h>

/* The row pipeline without a step: a plan starts with inv_step 1, and y * 1.0 is y. */
static int32_t shell_counts(const char *x, int64_t n, int64_t row_stride, const fpp_row_map *map, int32_t is_f32,
                            const double *edges_sq, int64_t n_edges, void *workspace, int64_t *counts)
{
    fpp_plan plan;
    int64_t stride_bytes;
    const fpp_row_kernels *kernels = fpp_row_kernels_now();
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || !fpp_is_given(edges_sq, n_edges, (int64_t)sizeof *edges_sq)
        || counts == NULL || fpp_plan_make(map, is_f32, kernels, workspace, &plan) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t e = 0; e < n_edges; e++) {
        if (!(edges_sq[e] >= (e > 0 ? edges_sq[e - 1] : 0.0))) {
            return FPP_ERR_ARGUMENT;
        }
    }
    for (int64_t i = 0; i < n; i += plan.tile_rows) {
        double norm_sq[FPP_TILE_ROWS];
        const int64_t rows = fpp_min(plan.tile_rows, n - i);
        kernels->tile(&plan, x + i * stride_bytes, stride_bytes, rows, norm_sq);
        for (int64_t r = 0; r < rows; r++) {
            int64_t cell = 0;
            if (norm_sq[r] < INFINITY) {
                /* Halving without branches: which half is as good as random. */
                for (int64_t left = n_edges; left > 0;) {
                    const int64_t half = (left + 1) / 2;
                    cell += edges_sq[cell + half - 1] < norm_sq[r] ? half : 0;
                    left -= half;
                }
            } else if (fpp_row_is_finite(x + (i + r) * stride_bytes, map->dim, is_f32)) {
                cell = n_edges; /* finite, but the norm overflows: beyond every edge */
            } else {
                continue;
            }
            counts[cell] = (int64_t)((uint64_t)counts[cell] + 1);
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_rows_shell_counts_f64(const double *x, int64_t n, int64_t row_stride, const fpp_row_map *map,
                                          const double *edges_sq, int64_t n_edges, void *workspace, int64_t *counts)
{
    return shell_counts((const char *)x, n, row_stride, map, 0, edges_sq, n_edges, workspace, counts);
}

FPP_API int32_t fpp_rows_shell_counts_f32(const float *x, int64_t n, int64_t row_stride, const fpp_row_map *map,
                                          const double *edges_sq, int64_t n_edges, void *workspace, int64_t *counts)
{
    return shell_counts((const char *)x, n, row_stride, map, 1, edges_sq, n_edges, workspace, counts);
}
