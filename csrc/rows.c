/* Rows to integers: column sums and quantised rows. */
#include "rowmap.h"

FPP_LOCAL void fpp_plan_sum(const fpp_plan *plan, const fpp_row_kernels *kernels, const char *x, int64_t n, int64_t stride_bytes)
{
    if (plan->matrix_kind < FPP_MATRIX_LOWER && plan->map->score == NULL) {
        kernels->stream(plan, x, n, stride_bytes);
        return;
    }
    for (int64_t i = 0; i < n; i += plan->tile_rows) {
        double factor[FPP_TILE_ROWS], norm_sq[FPP_TILE_ROWS];
        const int64_t rows = fpp_min(plan->tile_rows, n - i);
        fpp_row_tile(plan, kernels, x + i * stride_bytes, stride_bytes, rows, norm_sq, factor, NULL);
        kernels->sum(plan, rows, factor);
    }
}

FPP_LOCAL void fpp_plan_total(const fpp_plan *plan, int64_t *sums)
{
    for (int64_t k = 0; k < plan->out_dim; k++) {
        sums[k] = (int64_t)((uint64_t)sums[k] + plan->sums[k]);
    }
}

static int32_t rows_sum(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                        int64_t *sums, int64_t *neutral)
{
    fpp_plan plan;
    int64_t stride_bytes;
    const fpp_row_kernels *kernels = fpp_row_kernels_now();
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || sums == NULL
        || fpp_plan_make(map, is_f32, kernels, workspace, &plan) != FPP_OK || fpp_plan_scale(&plan, kernels) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    plan.neutral = neutral;
    fpp_plan_sum(&plan, kernels, x, n, stride_bytes);
    fpp_plan_total(&plan, sums);
    return FPP_OK;
}

FPP_API int32_t fpp_rows_sum(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                             int64_t *sums)
{
    return rows_sum(x, is_f32, n, row_stride, map, workspace, sums, NULL);
}

FPP_API int32_t fpp_rows_sum_counted(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map,
                                     void *workspace, int64_t *sums, int64_t *neutral)
{
    return neutral == NULL ? FPP_ERR_ARGUMENT : rows_sum(x, is_f32, n, row_stride, map, workspace, sums, neutral);
}

/* Integers of rows, whole or, where `single` is given, in single precision. */
static int32_t rows_quantise(const char *x, int64_t n, int64_t row_stride, const fpp_row_map *map, int32_t is_f32,
                             void *workspace, int32_t *out, int64_t out_stride, float *single)
{
    fpp_plan plan;
    int64_t stride_bytes;
    const fpp_row_kernels *kernels = fpp_row_kernels_now();
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || map == NULL
        || fpp_plan_make(map, is_f32, kernels, workspace, &plan) != FPP_OK || fpp_plan_scale(&plan, kernels) != FPP_OK
        || out_stride < map->out_dim || out_stride > INT64_MAX / 4
        || !fpp_is_given(single == NULL ? (const void *)out : (const void *)single, n, out_stride * 4)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; i < n; i += plan.tile_rows) {
        double factor[FPP_TILE_ROWS], norm_sq[FPP_TILE_ROWS];
        const int64_t rows = fpp_min(plan.tile_rows, n - i);
        fpp_row_tile(&plan, kernels, x + i * stride_bytes, stride_bytes, rows, norm_sq, factor, NULL);
        if (single == NULL) {
            kernels->quantise(&plan, rows, factor, out + i * out_stride);
        } else {
            kernels->single(&plan, rows, factor, out_stride, single + i * out_stride);
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_rows_quantise(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                                  int32_t *out)
{
    return rows_quantise(x, n, row_stride, map, is_f32 != 0, workspace, out, map == NULL ? 0 : map->out_dim, NULL);
}

FPP_API int32_t fpp_rows_single(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                                int64_t out_stride, float *out)
{
    return rows_quantise(x, n, row_stride, map, is_f32 != 0, workspace, NULL, out_stride, out);
}
