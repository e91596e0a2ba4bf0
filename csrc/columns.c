/* Columns of rows: signed dyadic cells about a centre, counted, and rows clipped to a box. Each number by itself, in whatever lane of
 * a vector, so that what a row adds, or becomes, depends on that row and public values alone; every step is one IEEE operation or
 * one of integers, so that instruction sets agree on every bit. */
#include "rowmap.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define TOGETHER 8 /* rows whose cells are found in step; a multiple of every vector width */
#define STRIP 512 /* most numbers looked at together; they, their places and their tables stay in the first cache */

FPP_INLINE double entry(const char *row, int64_t column, int32_t is_f32)
{
    return is_f32 ? (double)((const float *)(const void *)row)[column] : ((const double *)(const void *)row)[column];
}

/* Rows that are looked at together: a strip of whole rows below each other where they are short, else a part of one row. What is
 * public of a column, its `tables`, is written out once for each number of a strip, so that vectors run over the ends of rows. */
typedef struct {
    const char *x;
    int64_t n, stride_bytes, dim;
    int32_t is_f32;
    int64_t rows, columns; /* of a whole strip */
} strips;

FPP_INLINE int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of a box, for each number of a strip. */
typedef struct {
    const double *center, *lower, *upper, *middle, *width, *absent;
} box_tables;

/* Sizes of strips: rows of at most STRIP / TOGETHER columns together, so many that the next strip begins where a vector does. */
static void cut_strips(strips *all)
{
    all->rows = 1;
    all->columns = lesser(all->dim, STRIP);
    if (all->dim <= STRIP / TOGETHER) {
        while (all->rows * all->dim % TOGETHER != 0) {
            all->rows *= 2;
        }
        while (2 * all->rows * all->dim <= STRIP / 2) {
            all->rows *= 2;
        }
    }
}

/* Where a strip's numbers are: in place if they are adjacent, else in `buffer`. */
FPP_INLINE const char *strip_at(const strips *all, int64_t row, int64_t rows, int64_t column, int64_t columns, char *buffer)
{
    const int64_t width = all->is_f32 ? 4 : 8;
    const char *from = all->x + row * all->stride_bytes + column * width;
    if (rows == 1 || all->stride_bytes == all->dim * width) {
        return from;
    }
    for (int64_t r = 0; r < rows; r++) {
        memcpy(buffer + r * columns * width, from + r * all->stride_bytes, (size_t)(columns * width));
    }
    return buffer;
}

/* The table of a strip: a column's number once for each of its rows. */
static const double *spread(const strips *all, const double *table, double *room)
{
    for (int64_t i = 0; i < all->rows * all->dim; i++) {
        room[i] = table[i % all->dim];
    }
    return room;
}

/* A column's cell of one number: that of the bits of v = x - center but for the sign, less one. A finite x whose distance overflows is
 * in the last cell of its sign by itself: infinity has the pattern after the largest number. */
FPP_INLINE int64_t cell_of(double value, double center, int32_t log2_parts)
{
    const int64_t side = INT64_C(2047) << log2_parts;
    const double v = value - center;
    if (!(fabs(value) < INFINITY)) {
        return 2 * side + 1;
    }
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint64_t size = bits & INT64_MAX;
    return size == 0 ? 2 * side : (int64_t)((size - 1) >> (52 - log2_parts)) + (v < 0.0 ? side : 0);
}

FPP_INLINE double boxed_number(double value, const box_tables *t, int64_t i)
{
    const double v = value - t->center[i];
    const double below = v < t->lower[i] ? t->lower[i] : v;
    const double within = below > t->upper[i] ? t->upper[i] : below;
    const double y = (within - t->middle[i]) / t->width[i];
    return fabs(value) < INFINITY ? y : t->absent[i];
}

#define LAG 32 /* numbers between the cell of one and its count: read back at once, a place waits for the store (2.2 times as slow with AVX-512) */
#define BEYOND 0x99 /* classes of AVX-512: NaN of both kinds, infinity of both signs */
#define KERNELS "columns_simd.h"
#include "each_level.h"

/* Whether rows hold finite numbers alone. */
static int32_t rows_are_whole(const strips *all, int64_t row, int64_t rows)
{
    for (int64_t r = row; r < row + rows; r++) {
        if (!FPP_AT_LEVEL(whole)(all->x + r * all->stride_bytes, all->dim, all->is_f32)) {
            return 0;
        }
    }
    return 1;
}

static int32_t columns_count(const char *x, int64_t n, int64_t row_stride, int64_t dim, int32_t is_f32, const double *center,
                             int32_t log2_parts, int32_t neutral, int64_t *counts)
{
    strips all = {.x = x, .n = n, .dim = dim, .is_f32 = is_f32};
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &all.stride_bytes) || dim < 1 || dim > FPP_DIM_MAX || center == NULL
        || log2_parts < 0 || log2_parts > FPP_COLUMN_LOG2_PARTS_MAX || counts == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    cut_strips(&all);
    const int64_t cells = 2 * (INT64_C(2047) << log2_parts) + 2;
    double room[STRIP];
    int64_t first[STRIP];
    char buffer[STRIP * sizeof(double)];
    for (int64_t i = 0; i < STRIP; i++) {
        first[i] = i % (all.rows > 1 ? dim : STRIP) * cells;
    }
    const double *of_strip = all.rows > 1 ? spread(&all, center, room) : center;
    for (int64_t row = 0, rows; row < n; row += rows) {
        rows = lesser(all.rows, n - row);
        /* Of a strip with a row to be left out, one row at a time. */
        if (neutral && !rows_are_whole(&all, row, rows)) {
            rows = 1;
            if (!rows_are_whole(&all, row, rows)) {
                for (int64_t k = 0; k < dim; k++) {
                    counts[(k + 1) * cells - 1]++;
                }
                continue;
            }
        }
        for (int64_t column = 0; column < dim; column += all.columns) {
            const int64_t columns = lesser(all.columns, dim - column);
            const char *at = strip_at(&all, row, rows, column, columns, buffer);
            FPP_AT_LEVEL(counted)(at, rows * columns, of_strip + column, first, log2_parts, counts + column * cells, is_f32);
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

static int32_t columns_box(const char *x, int64_t n, int64_t row_stride, int32_t is_f32, const fpp_column_box *box, double *out)
{
    strips all = {.x = x, .n = n, .is_f32 = is_f32};
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &all.stride_bytes) || box == NULL || box->dim < 1 || box->dim > FPP_DIM_MAX
        || box->center == NULL || box->lower == NULL || box->upper == NULL || box->middle == NULL || box->width == NULL
        || box->absent == NULL || !fpp_is_given(out, n, box->dim * (int64_t)sizeof *out)) {
        return FPP_ERR_ARGUMENT;
    }
    all.dim = box->dim;
    cut_strips(&all);
    double room[6][STRIP];
    char buffer[STRIP * sizeof(double)];
    box_tables t = {box->center, box->lower, box->upper, box->middle, box->width, box->absent};
    if (all.rows > 1) {
        t = (box_tables){spread(&all, t.center, room[0]), spread(&all, t.lower, room[1]), spread(&all, t.upper, room[2]),
                         spread(&all, t.middle, room[3]), spread(&all, t.width, room[4]), spread(&all, t.absent, room[5])};
    }
    for (int64_t row = 0; row < n; row += all.rows) {
        const int64_t rows = lesser(all.rows, n - row);
        for (int64_t column = 0; column < all.dim; column += all.columns) {
            const int64_t columns = lesser(all.columns, all.dim - column);
            const box_tables here = {t.center + column, t.lower + column,  t.upper + column,
                                     t.middle + column, t.width + column, t.absent + column};
            const char *at = strip_at(&all, row, rows, column, columns, buffer);
            FPP_AT_LEVEL(boxed)(at, rows * columns, &here, out + row * all.dim + column, is_f32);
        }
        for (int64_t r = row; box->neutral && r < row + rows; r++) {
            for (int64_t k = 0, whole = rows_are_whole(&all, r, 1); !whole && k < all.dim; k++) {
                out[r * all.dim + k] = NAN;
            }
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
