#include "fpp.h"
#define FPP_EXPORT __attribute__((visibility("default")))
FPP_EXPORT int32_t fpp_rows_shell_counts_f64(const double *x, int64_t n, int64_t row_stride, const fpp_row_map *map, const double *edges_sq,
                                  int64_t n_edges, void *workspace, int64_t *counts) { (void)x; (void)n; (void)row_stride; (void)map; (void)edges_sq; (void)n_edges; (void)workspace; (void)counts; return 1; }
FPP_EXPORT int32_t fpp_rows_shell_counts_f32(const float *x, int64_t n, int64_t row_stride, const fpp_row_map *map, const double *edges_sq,
                                  int64_t n_edges, void *workspace, int64_t *counts) { (void)x; (void)n; (void)row_stride; (void)map; (void)edges_sq; (void)n_edges; (void)workspace; (void)counts; return 1; }
