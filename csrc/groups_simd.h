/* Loop of groups.c for one vector width: included under the macros W, NAME and TARGET of an instruction set. */
#include "vector_simd.h"

typedef int64_t NAME(bits_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));

TARGET FPP_INLINE void NAME(add_integers)(int64_t *sums, VI v)
{
    *(NAME(bits_u) *)sums += v;
}

/* bucket = the bucket of each of ROWS numbers, which never falls from one number to a larger one; BUCKETS of what is not finite. */
TARGET static void NAME(find_buckets)(const double *value, double low, double inverse, int64_t *bucket)
{
    const V most = (V){0.0} + (BUCKETS - 1), rounder = (V){0.0} + FPP_ROUNDER;
    for (int64_t i = 0; i < ROWS; i += W) {
        const V v = NAME(load)(value + i), t = (v - low) * inverse;
        const VI inside = (VI)t & (t > (V){0.0}), near = (VI)most & (t >= most), place = (inside & (t < most)) | near;
        const V found = NAME(where)(NAME(is_finite)(v), (V)place, most + 1.0);
        *(NAME(bits_u) *)(bucket + i) = (VI)(found + rounder) - (VI)rounder;
    }
}

/* Adds W numbers to three rows of sums, `apart` entries after each other: whether they are finite, q, and q^2 // Q - Q // 2. Integers are
 * read off the bits of what FPP_ROUNDER has rounded. The product with 1 / Q may lie on the other side of an integer: the rest tells. */
TARGET FPP_INLINE void NAME(add_moments)(V value, const double *middle, const double *steps, int squared, V most, V inverse,
                                         int64_t half, int64_t apart, int64_t *restrict sums)
{
    const V rounder = (V){0.0} + FPP_ROUNDER, one = (V){0.0} + 1.0, end = squared ? one : most;
    const V t = NAME(clipped)((value - NAME(load)(middle)) * NAME(load)(steps), -end, end), scaled = squared ? (2.0 * t * t - 1.0) * most : t;
    const V rounded = scaled + rounder, q = rounded - rounder, whole = q * q, near = whole * inverse + rounder;
    const VI there = NAME(is_finite)(value), square = (VI)near - (VI)rounder + (whole < (near - rounder) * most) - half;
    /* This test carries the guarantee; a NaN fails it. */
    const VI within = there & ((V)((VI)q & INT64_MAX) <= most);
    NAME(add_integers)(sums, -there);
    NAME(add_integers)(sums + apart, ((VI)rounded - (VI)rounder) & within);
    NAME(add_integers)(sums + 2 * apart, square & within);
}

TARGET static void NAME(add_rows)(const char *x, int64_t n, int64_t stride_bytes, int64_t dim, int is_f32, const int32_t *code,
                                  int64_t groups, const double *middle, const double *steps, int squared, double quant_bound, int64_t *sums)
{
    const V most = (V){0.0} + quant_bound, inverse = 1.0 / most;
    const int64_t width = is_f32 ? 4 : 8, apart = fpp_round_up(dim, FPP_LANES), half = (int64_t)quant_bound / 2;
    for (int64_t r = 0; r < n; r++) {
        const int64_t group = group_of(code, r, groups);
        const char *row = x + r * stride_bytes;
        /* Whole vectors are loaded where rows follow that are no shorter; what lies beyond a row's columns adds nothing. */
        const int64_t inside = stride_bytes >= dim * width && r + FPP_LANES < n ? apart : dim / W * W;
        for (int64_t k = 0; k < apart && group >= 0; k += W) {
            V value = {0.0};
            if (k < inside) {
                value = is_f32 ? NAME(load_x)(row, k, 1) : NAME(load_x)(row, k, 0);
            } else {
                for (int64_t i = k; i < dim && i < k + W; i++) {
                    value[i - k] = fpp_entry(row, i, is_f32);
                }
            }
            const double *at = middle + group * apart + k;
            const int64_t left = dim - k < 0 ? 0 : fpp_min(dim - k, FPP_LANES);
            value = (V)((VI)value | *(const NAME(bits_u) *)(BEYOND + FPP_LANES - left));
            NAME(add_moments)(value, at, steps + (at - middle), squared, most, inverse, half, apart, sums + 3 * group * apart + k);
        }
    }
}

/* out (rows, dim) = ROWS numbers of each of dim columns, side by side. */
TARGET static void NAME(join)(const double *const *columns, int64_t begin, int64_t dim, double *restrict out)
{
    for (int64_t k = 0; k < dim; k += W) {
        const int64_t at = k < dim - W ? k : dim - W; /* the last columns are written with some of those before them, a second time */
        for (int64_t r = 0; r < ROWS; r += W) {
            V m[W];
            for (int i = 0; i < W; i++) {
                m[i] = NAME(load)(columns[at + i] + begin + r);
            }
            NAME(transpose)(m);
            for (int i = 0; i < W; i++) {
                NAME(store)(out + (r + i) * dim + at, m[i]);
            }
        }
    }
}

#undef V
#undef VI
#undef W
#undef NAME
#undef TARGET
