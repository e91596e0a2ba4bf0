#include "fpp.h"
#define FPP_EXPORT __attribute__((visibility("default")))
FPP_EXPORT int64_t fpp_rows_workspace_size(const fpp_row_map *map) { (void)map; return 1; }
FPP_EXPORT int32_t fpp_rows_sum_f64(const double *x, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace, int64_t *sums) { (void)x; (void)n; (void)row_stride; (void)map; (void)workspace; (void)sums; return 1; }
FPP_EXPORT int32_t fpp_rows_sum_f32(const float *x, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace, int64_t *sums) { (void)x; (void)n; (void)row_stride; (void)map; (void)workspace; (void)sums; return 1; }
FPP_EXPORT int32_t fpp_rows_quantise_f64(const double *x, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace, int32_t *out) { (void)x; (void)n; (void)row_stride; (void)map; (void)workspace; (void)out; return 1; }
FPP_EXPORT int32_t fpp_rows_quantise_f32(const float *x, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace, int32_t *out) { (void)x; (void)n; (void)row_stride; (void)map; (void)workspace; (void)out; return 1; }
