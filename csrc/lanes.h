/* Panels of 64 rows side by side, for the searches among rows: (dim, 64) numbers, a row in each lane, NaN or infinity in unused
 * ones. */
#ifndef FPP_LANES_H
#define FPP_LANES_H
#include "internal.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define LANES FPP_ROW_LANES
#define ALL_LANES (~UINT64_C(0))

/* Rows (n, dim) without gaps. */
typedef struct {
    const char *at;
    int64_t n, dim;
} lane_rows;

FPP_INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

FPP_INLINE double entry(const lane_rows *rows, int64_t row, int64_t column, int is_f32)
{
    const char *at = rows->at + (row * rows->dim + column) * (is_f32 ? 4 : 8);
    return is_f32 ? (double)*(const float *)(const void *)at : *(const double *)(const void *)at;
}

/* Doubles of a (columns, 64) panel with room for the loads of rows that have fewer than eight. */
FPP_INLINE int64_t panel_size(int64_t dim)
{
    return (dim < 8 ? 8 : dim) * LANES;
}

#endif
