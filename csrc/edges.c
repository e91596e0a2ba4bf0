/* Numbers of columns between ascending edges, counted: any edges, where columns.c has cells that follow from the bits of a number. */
#include "rowmap.h"

#include <math.h>

#define TOGETHER 8 /* rows whose cells are found in step */

/* How many of the ascending edges are at most each of TOGETHER numbers: halvings in step, without branches. */
FPP_INLINE void find_cells(const double *edges, int64_t n_edges, const double *value, int64_t *cell)
{
    int64_t step = 1;
    while (2 * step <= n_edges) {
        step *= 2;
    }
    for (int r = 0; r < TOGETHER; r++) {
        cell[r] = 0;
    }
    /* The first steps are taken from either end, so that no step leads beyond the last edge. */
    if (n_edges > 0) {
        for (int r = 0; r < TOGETHER; r++) {
            cell[r] = edges[step - 1] <= value[r] ? n_edges - step + 1 : 0;
        }
    }
    for (step /= 2; step > 0; step /= 2) {
        for (int r = 0; r < TOGETHER; r++) {
            cell[r] += edges[cell[r] + step - 1] <= value[r] ? step : 0;
        }
    }
}

FPP_INLINE int32_t columns_cells(const char *x, int64_t n, int64_t row_stride, int64_t dim, int32_t is_f32, const double *edges,
                                 const int64_t *begins, int64_t *counts)
{
    int64_t stride_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || dim < 1 || dim > FPP_DIM_MAX || begins == NULL || counts == NULL
        || begins[0] != 0) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t k = 0; k < dim; k++) {
        if (begins[k + 1] < begins[k]) {
            return FPP_ERR_ARGUMENT;
        }
    }
    if (!fpp_is_given(edges, begins[dim], (int64_t)sizeof *edges)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t first = 0; first < n; first += TOGETHER) {
        const int64_t used = n - first < TOGETHER ? n - first : TOGETHER;
        for (int64_t k = 0; k < dim; k++) {
            double value[TOGETHER] = {0.0};
            int64_t cell[TOGETHER];
            for (int64_t r = 0; r < used; r++) {
                value[r] = fpp_entry(x + (first + r) * stride_bytes, k, is_f32);
            }
            find_cells(edges + begins[k], begins[k + 1] - begins[k], value, cell);
            for (int64_t r = 0; r < used; r++) {
                counts[begins[k] + k + cell[r]] += fabs(value[r]) < INFINITY;
            }
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_columns_cells_f64(const double *x, int64_t n, int64_t row_stride, int64_t dim, const double *edges,
                                      const int64_t *begins, int64_t *counts)
{
    return columns_cells((const char *)x, n, row_stride, dim, 0, edges, begins, counts);
}

FPP_API int32_t fpp_columns_cells_f32(const float *x, int64_t n, int64_t row_stride, int64_t dim, const double *edges,
                                      const int64_t *begins, int64_t *counts)
{
    return columns_cells((const char *)x, n, row_stride, dim, 1, edges, begins, counts);
}
