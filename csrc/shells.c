/* How many rows lie in each of a set of concentric shells. One fixed order of additions decides, on every instruction set. */
#include "rowmap.h"

#include <math.h>

FPP_LOCAL int32_t fpp_edges_ascend(const double *edges_sq, int64_t n_edges)
{
    if (!fpp_is_given(edges_sq, n_edges, (int64_t)sizeof *edges_sq)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t e = 0; e < n_edges; e++) {
        if (!(edges_sq[e] >= (e > 0 ? edges_sq[e - 1] : 0.0))) {
            return FPP_ERR_ARGUMENT;
        }
    }
    return FPP_OK;
}

/* How many of the ascending edges are below each squared norm: halvings in step, without branches, which would be guessed wrongly. */
static void find_shells(const double *edges_sq, int64_t n_edges, const double *norm_sq, int64_t rows, int64_t *cells)
{
    for (int64_t r = 0; r < rows; r++) {
        cells[r] = 0;
    }
    for (int64_t left = n_edges; left > 0; left /= 2) {
        const int64_t half = (left + 1) / 2;
        for (int64_t r = 0; r < rows; r++) {
            cells[r] += edges_sq[cells[r] + half - 1] < norm_sq[r] ? half : 0;
        }
    }
}

FPP_LOCAL void fpp_tile_shells(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, const double *norm_sq,
                               const double *times, const double *edges_sq, int64_t n_edges, int64_t *counts)
{
    int64_t cells[FPP_TILE_ROWS];
    find_shells(edges_sq, n_edges, norm_sq, fpp_round_up(rows, FPP_LANES), cells);
    for (int64_t r = 0; r < rows; r++) {
        int64_t cell = cells[r];
        if (FPP_UNLIKELY(!(norm_sq[r] < INFINITY))) {
            if (!fpp_row_is_finite(x + r * stride_bytes, plan->dim, plan->is_f32)) {
                continue;
            }
            /* Finite, but the norm overflows: beyond every edge, unless the row is multiplied by zero. */
            cell = times != NULL && times[r] == 0.0 ? 0 : n_edges;
        }
        counts[cell] = (int64_t)((uint64_t)counts[cell] + 1);
    }
}

/* The row pipeline without a step: a plan starts with inv_step 1, and y * 1.0 is y. */
FPP_LOCAL void fpp_plan_shells(const fpp_plan *plan, const fpp_row_kernels *kernels, const char *x, int64_t n, int64_t stride_bytes,
                               const double *edges_sq, int64_t n_edges, int64_t *counts)
{
    const int scored = plan->map->score != NULL;
    for (int64_t i = 0; i < n; i += plan->tile_rows) {
        double norm_sq[FPP_TILE_ROWS], times[FPP_TILE_ROWS];
        const int64_t rows = fpp_min(plan->tile_rows, n - i);
        const char *const tile = x + i * stride_bytes;
        kernels->tile(plan, tile, stride_bytes, rows, norm_sq);
        if (scored) {
            fpp_score_norms(plan, kernels, tile, stride_bytes, rows, times, norm_sq);
        }
        fpp_tile_shells(plan, tile, stride_bytes, rows, norm_sq, scored ? times : NULL, edges_sq, n_edges, counts);
    }
}

FPP_API int32_t fpp_rows_shell_counts(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map,
                                      const double *edges_sq, int64_t n_edges, void *workspace, int64_t *counts)
{
    fpp_plan plan;
    int64_t stride_bytes;
    const fpp_row_kernels *kernels = fpp_row_kernels_now();
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || fpp_edges_ascend(edges_sq, n_edges) != FPP_OK || counts == NULL
        || fpp_plan_make(map, is_f32, kernels, workspace, &plan) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    fpp_plan_shells(&plan, kernels, x, n, stride_bytes, edges_sq, n_edges, counts);
    return FPP_OK;
}
