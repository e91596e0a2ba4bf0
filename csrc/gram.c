#include "fpp.h"
#define FPP_EXPORT __attribute__((visibility("default")))
FPP_EXPORT int32_t fpp_rows_gram_f64(const double *x, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace, int64_t *gram) { (void)x; (void)n; (void)row_stride; (void)map; (void)workspace; (void)gram; return 1; }
FPP_EXPORT int32_t fpp_rows_gram_f32(const float *x, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace, int64_t *gram) { (void)x; (void)n; (void)row_stride; (void)map; (void)workspace; (void)gram; return 1; }
