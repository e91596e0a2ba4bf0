/* Columns of rows: signed dyadic cells about a centre, counted, and rows clipped to a box. One number at a time, so that what a row
 * adds, or becomes, depends on that row and public values alone. */
#include "internal.h"

#include <math.h>
#include <string.h>

#define TOGETHER 8 /* rows whose cells are found in step */

FPP_INLINE double entry(const char *row, int64_t column, int32_t is_f32)
{
    return is_f32 ? (double)((const float *)(const void *)row)[column] : ((const double *)(const void *)row)[column];
}

FPP_INLINE int32_t is_whole(const char *row, int64_t dim, int32_t is_f32)
{
    for (int64_t k = 0; k < dim; k++) {
        if (!(fabs(entry(row, k, is_f32)) < INFINITY)) {
            return 0;
        }
    }
    return 1;
}

/* A finite x whose distance overflows is in the last cell of its sign by itself: infinity has the pattern after the largest number. */
FPP_INLINE int64_t signed_cell(double x, double center, int32_t shift, int64_t side)
{
    const double v = x - center;
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint64_t size = bits & INT64_MAX;
    if (size == 0) {
        return 2 * side;
    }
    return (int64_t)((size - 1) >> shift) + (bits >> 63 != 0 ? side : 0);
}

FPP_INLINE int32_t columns_count(const char *x, int64_t n, int64_t row_stride, int64_t dim, int32_t is_f32, const double *center,
                                 int32_t log2_parts, int32_t neutral, int64_t *counts)
{
    int64_t stride_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || dim < 1 || dim > FPP_DIM_MAX || center == NULL
        || log2_parts < 0 || log2_parts > FPP_COLUMN_LOG2_PARTS_MAX || counts == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t side = INT64_C(2047) << log2_parts, cells = 2 * side + 2;
    for (int64_t i = 0; i < n; i++) {
        const char *row = x + i * stride_bytes;
        const int32_t dropped = neutral && !is_whole(row, dim, is_f32);
        for (int64_t k = 0; k < dim; k++) {
            const double value = entry(row, k, is_f32);
            const int32_t missing = dropped || !(fabs(value) < INFINITY);
            counts[k * cells + (missing ? 2 * side + 1 : signed_cell(value, center[k], 52 - log2_parts, side))]++;
        }
    }
    return FPP_OK;
}

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
                value[r] = entry(x + (first + r) * stride_bytes, k, is_f32);
            }
            find_cells(edges + begins[k], begins[k + 1] - begins[k], value, cell);
            for (int64_t r = 0; r < used; r++) {
                counts[begins[k] + k + cell[r]] += fabs(value[r]) < INFINITY;
            }
        }
    }
    return FPP_OK;
}

FPP_INLINE int32_t columns_box(const char *x, int64_t n, int64_t row_stride, int32_t is_f32, const fpp_column_box *box, double *out)
{
    int64_t stride_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || box == NULL || box->dim < 1 || box->dim > FPP_DIM_MAX
        || box->center == NULL || box->lower == NULL || box->upper == NULL || box->middle == NULL || box->width == NULL
        || box->absent == NULL || !fpp_is_given(out, n, box->dim * (int64_t)sizeof *out)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; i < n; i++) {
        const char *row = x + i * stride_bytes;
        double *to = out + i * box->dim;
        const int32_t dropped = box->neutral && !is_whole(row, box->dim, is_f32);
        for (int64_t k = 0; k < box->dim; k++) {
            const double value = entry(row, k, is_f32);
            const double v = value - box->center[k];
            const double below = v < box->lower[k] ? box->lower[k] : v;
            const double within = below > box->upper[k] ? box->upper[k] : below;
            const double y = (within - box->middle[k]) / box->width[k];
            to[k] = dropped ? NAN : fabs(value) < INFINITY ? y : box->absent[k];
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_columns_count_f64(const double *x, int64_t n, int64_t row_stride, int64_t dim, const double *center,
                                      int32_t log2_parts, int32_t neutral, int64_t *counts)
{
    return columns_count((const char *)x, n, row_stride, dim, 0, center, log2_parts, neutral, counts);
}

FPP_API int32_t fpp_columns_count_f32(const float *x, int64_t n, int64_t row_stride, int64_t dim, const double *center,
                                      int32_t log2_parts, int32_t neutral, int64_t *counts)
{
    return columns_count((const char *)x, n, row_stride, dim, 1, center, log2_parts, neutral, counts);
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

FPP_API int32_t fpp_columns_box_f64(const double *x, int64_t n, int64_t row_stride, const fpp_column_box *box, double *out)
{
    return columns_box((const char *)x, n, row_stride, 0, box, out);
}

FPP_API int32_t fpp_columns_box_f32(const float *x, int64_t n, int64_t row_stride, const fpp_column_box *box, double *out)
{
    return columns_box((const char *)x, n, row_stride, 1, box, out);
}
