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
#define MOST_APART (INT64_C(1) << 22) /* of the counters of columns: places in a strip fit into 32 bits */
#define NEAR 1024 /* bytes between a load and the nearer of its two prefetches */
#define STRIP 512 /* most numbers looked at together; they, their places and their tables stay in the first cache */

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

/* Of a box, for each number of a strip; no `inverse` of widths where a quotient might leave the ordinary numbers. */
typedef struct {
    const double *center, *lower, *upper, *middle, *width, *absent, *inverse;
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

#define LAG 32 /* numbers between the cell of one and its count: read back at once, a place waits for the store */
#define BEYOND 0x99 /* classes of AVX-512: NaN of both kinds, infinity of both signs */
#define BLOCK 24576 /* bytes of boxed rows */
#define LEAST_MIDDLE 0x1p-300
#define MOST 0x1p400
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

FPP_API int32_t fpp_columns_count(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, int64_t dim, const double *center,
                                  int32_t log2_parts, int32_t neutral, int64_t apart, int64_t *counts)
{
    strips all = {.x = x, .n = n, .dim = dim, .is_f32 = is_f32};
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &all.stride_bytes) || dim < 1 || dim > FPP_DIM_MAX || center == NULL
        || log2_parts < 0 || log2_parts > FPP_COLUMN_LOG2_PARTS_MAX || apart < 2 * (INT64_C(2047) << log2_parts) + 2
        || apart > MOST_APART || counts == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    cut_strips(&all);
    const int64_t cells = 2 * (INT64_C(2047) << log2_parts) + 2;
    double room[STRIP];
    int32_t first[STRIP];
    char buffer[STRIP * sizeof(double)];
    for (int64_t i = 0; i < STRIP; i++) {
        first[i] = (int32_t)(i % (all.rows > 1 ? dim : STRIP) * apart);
    }
    const double *of_strip = all.rows > 1 ? spread(&all, center, room) : center;
    for (int64_t row = 0, rows; row < n; row += rows) {
        rows = lesser(all.rows, n - row);
        /* Of a strip with a row to be left out, one row at a time. */
        if (neutral && !rows_are_whole(&all, row, rows)) {
            rows = 1;
            if (!rows_are_whole(&all, row, rows)) {
                for (int64_t k = 0; k < dim; k++) {
                    counts[k * apart + cells - 1]++;
                }
                continue;
            }
        }
        for (int64_t column = 0; column < dim; column += all.columns) {
            const int64_t columns = lesser(all.columns, dim - column);
            const char *at = strip_at(&all, row, rows, column, columns, buffer);
            FPP_AT_LEVEL(counted)(at, rows * columns, of_strip + column, first, log2_parts, counts + column * apart, is_f32);
        }
    }
    return FPP_OK;
}

/* A box, ready for the rows of x. */
typedef struct {
    strips all;
    int32_t neutral;
    box_tables tables;
    _Alignas(64) double room[7][STRIP + 72]; /* not all in the same sets of the first cache */
} ready_box;

/* Whether no number on the way to a quotient of a box overflows or underflows. What is left of a middle of at least LEAST_MIDDLE is
 * zero, and never minus zero, or at least 53 binary places below it. */
static int32_t is_ordinary(const fpp_column_box *box)
{
    int32_t ordinary = 1;
    for (int64_t k = 0; k < box->dim; k++) {
        ordinary &= fabs(box->lower[k]) <= MOST && fabs(box->upper[k]) <= MOST && fabs(box->middle[k]) <= MOST
                    && fabs(box->middle[k]) >= LEAST_MIDDLE && box->width[k] <= MOST && box->width[k] >= 1.0 / MOST;
    }
    return ordinary;
}

/* `inverse` is room for the inverse of each width, or NULL where rows of more than STRIP columns may have none. */
static int32_t make_ready(const char *x, int64_t n, int64_t row_stride, int32_t is_f32, const fpp_column_box *box, double *inverse,
                          ready_box *ready)
{
    ready->all = (strips){.x = x, .n = n, .is_f32 = is_f32};
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &ready->all.stride_bytes) || box == NULL || box->dim < 1
        || box->dim > FPP_DIM_MAX || box->center == NULL || box->lower == NULL || box->upper == NULL || box->middle == NULL
        || box->width == NULL || box->absent == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    ready->all.dim = box->dim;
    ready->neutral = box->neutral;
    cut_strips(&ready->all);
    const strips *all = &ready->all;
    double (*room)[STRIP + 72] = ready->room, own[STRIP];
    inverse = inverse == NULL && box->dim <= STRIP ? own : inverse;
    inverse = inverse != NULL && is_ordinary(box) ? inverse : NULL;
    for (int64_t k = 0; inverse != NULL && k < box->dim; k++) {
        inverse[k] = 1.0 / box->width[k];
    }
    if (inverse == own) {
        inverse = memcpy(room[6], own, sizeof own);
    }
    ready->tables = (box_tables){box->center, box->lower, box->upper, box->middle, box->width, box->absent, inverse};
    if (all->rows > 1) {
        ready->tables = (box_tables){spread(all, box->center, room[0]), spread(all, box->lower, room[1]),
                                     spread(all, box->upper, room[2]), spread(all, box->middle, room[3]),
                                     spread(all, box->width, room[4]), spread(all, box->absent, room[5]),
                                     inverse == NULL ? NULL : spread(all, inverse, room[6])};
    }
    return FPP_OK;
}

/* A row with a number that is not finite is no row where a box is neutral: NaN throughout, in rows `begin` to `end` of x. */
static void leave_out(const strips *all, int64_t begin, int64_t end, double *out)
{
    for (int64_t r = begin; r < end; r++) {
        for (int64_t k = 0, whole = rows_are_whole(all, r, 1); !whole && k < all->dim; k++) {
            out[(r - begin) * all->dim + k] = NAN;
        }
    }
}

/* Rows `begin` to `end` of x, boxed: out (end - begin, dim). `begin` is a multiple of the rows of a strip. */
static void box_rows(const ready_box *ready, int64_t begin, int64_t end, double *out)
{
    const strips *all = &ready->all;
    const box_tables *t = &ready->tables;
    const int64_t strip = all->rows * all->dim;
    char buffer[STRIP * sizeof(double)];
    int64_t row = begin;
    if (all->rows > 1 && all->stride_bytes == all->dim * (all->is_f32 ? 4 : 8)) {
        const int64_t times = (end - begin) / all->rows;
        FPP_AT_LEVEL(boxed)(all->x + row * all->stride_bytes, strip, times, t, out, all->is_f32);
        row += times * all->rows;
    }
    for (; row < end; row += all->rows) {
        const int64_t rows = lesser(all->rows, end - row);
        double *to = out + (row - begin) * all->dim;
        for (int64_t column = 0; column < all->dim; column += all->columns) {
            const int64_t columns = lesser(all->columns, all->dim - column);
            const box_tables here = {t->center + column, t->lower + column,  t->upper + column, t->middle + column,
                                     t->width + column,  t->absent + column, t->inverse == NULL ? NULL : t->inverse + column};
            const char *at = strip_at(all, row, rows, column, columns, buffer);
            FPP_AT_LEVEL(boxed)(at, rows * columns, 1, &here, to + column, all->is_f32);
        }
    }
    if (ready->neutral) {
        leave_out(all, begin, end, out);
    }
}

FPP_API int32_t fpp_columns_box(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_column_box *box, double *out)
{
    ready_box ready;
    if (make_ready(x, n, row_stride, is_f32, box, NULL, &ready) != FPP_OK || !fpp_is_given(out, n, box->dim * (int64_t)sizeof *out)) {
        return FPP_ERR_ARGUMENT;
    }
    box_rows(&ready, 0, n, out);
    return FPP_OK;
}

/* Rows of a block, which is boxed and then used while it is in the second cache; whole strips. */
static int64_t block_rows(int64_t dim)
{
    strips all = {.dim = dim};
    cut_strips(&all);
    const int64_t unit = all.rows < TOGETHER ? TOGETHER : all.rows, fit = BLOCK / (dim * (int64_t)sizeof(double)) / unit * unit;
    return fit < unit ? unit : fit;
}

FPP_API int64_t fpp_boxed_workspace_size(const fpp_row_map *map)
{
    const int64_t size = fpp_rows_workspace_size(map);
    return size < 0 ? size : size + (block_rows(map->dim) + 1) * map->dim * (int64_t)sizeof(double) + 64;
}

/* Rows go through the box and then through the map, a block at a time: to column sums, or to counts of shells. */
static int32_t boxed(const char *x, int64_t n, int64_t row_stride, int32_t is_f32, const fpp_column_box *box, const fpp_row_map *map,
                     int32_t shells, const double *edges_sq, int64_t n_edges, void *workspace, int64_t *out)
{
    ready_box ready;
    fpp_plan plan;
    const fpp_row_kernels *kernels = fpp_row_kernels_now();
    const int64_t own = fpp_rows_workspace_size(map);
    if (own < 0 || workspace == NULL || out == NULL || box == NULL || box->dim != map->dim || map->score != NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t rows = block_rows(map->dim);
    double *block = fpp_aligned((char *)workspace + own), *inverse = block + rows * map->dim;
    if (make_ready(x, n, row_stride, is_f32, box, inverse, &ready) != FPP_OK
        || fpp_plan_make(map, 0, kernels, workspace, &plan) != FPP_OK
        || (shells ? fpp_edges_ascend(edges_sq, n_edges) : fpp_plan_scale(&plan, kernels)) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t stride_bytes = map->dim * (int64_t)sizeof(double);
    for (int64_t row = 0; row < n; row += rows) {
        const int64_t count = lesser(rows, n - row);
        box_rows(&ready, row, row + count, block);
        if (shells) {
            fpp_plan_shells(&plan, kernels, (const char *)block, count, stride_bytes, edges_sq, n_edges, out);
        } else {
            fpp_plan_sum(&plan, kernels, (const char *)block, count, stride_bytes);
        }
    }
    if (!shells) {
        fpp_plan_total(&plan, out);
    }
    return FPP_OK;
}

FPP_API int32_t fpp_boxed_sum(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_column_box *box,
                              const fpp_row_map *map, void *workspace, int64_t *sums)
{
    return boxed(x, n, row_stride, is_f32, box, map, 0, NULL, 0, workspace, sums);
}

FPP_API int32_t fpp_boxed_shell_counts(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_column_box *box,
                                       const fpp_row_map *map, const double *edges_sq, int64_t n_edges, void *workspace, int64_t *counts)
{
    return boxed(x, n, row_stride, is_f32, box, map, 1, edges_sq, n_edges, workspace, counts);
}
