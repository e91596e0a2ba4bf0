#include "fpp.h"
#define FPP_EXPORT __attribute__((visibility("default")))
FPP_EXPORT int32_t fpp_gaussian_floor_i64(const uint8_t *key, int64_t begin, int64_t end, int32_t log2_scale, int64_t *out) { (void)key; (void)begin; (void)end; (void)log2_scale; (void)out; return 1; }
FPP_EXPORT int32_t fpp_laplace_i64(const uint8_t *key, int64_t begin, int64_t end, int32_t log2_scale, int64_t *out) { (void)key; (void)begin; (void)end; (void)log2_scale; (void)out; return 1; }
FPP_EXPORT int32_t fpp_uniform_f64(const uint8_t *key, int64_t begin, int64_t end, double *out) { (void)key; (void)begin; (void)end; (void)out; return 1; }
FPP_EXPORT int32_t fpp_bernoulli_u8(const uint8_t *key, int64_t begin, int64_t end, double p, uint8_t *out) { (void)key; (void)begin; (void)end; (void)p; (void)out; return 1; }
FPP_EXPORT int32_t fpp_below_i64(const uint8_t *key, int64_t begin, int64_t end, int64_t bound, int64_t *out) { (void)key; (void)begin; (void)end; (void)bound; (void)out; return 1; }
FPP_EXPORT int32_t fpp_permutation_i64(const uint8_t *key, int64_t n, int64_t *out) { (void)key; (void)n; (void)out; return 1; }
FPP_EXPORT int32_t fpp_normal_f64(const uint8_t *key, int64_t begin, int64_t end, double *out) { (void)key; (void)begin; (void)end; (void)out; return 1; }
FPP_EXPORT int32_t fpp_test_noise_i64(const uint8_t *key, int64_t begin, int64_t end, int32_t law, int32_t log2_scale, int32_t window_log2,
                           int64_t *out) { (void)key; (void)begin; (void)end; (void)law; (void)log2_scale; (void)window_log2; (void)out; return 1; }
