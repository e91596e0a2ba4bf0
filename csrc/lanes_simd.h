/* Distances from the 64 rows of a panel for one vector width: included under W, NAME and TARGET (see rows_simd.h). Double precision
 * adds up column by column without fused multiply-adds, so that its bits are those of one row at a time; single precision, which
 * decides nothing, may fuse.
 */
#include "vector_simd.h"

typedef float NAME(single) __attribute__((vector_size(8 * W)));
typedef float NAME(single_u) __attribute__((vector_size(8 * W), aligned(4), may_alias));
typedef int32_t NAME(sbits) __attribute__((vector_size(8 * W)));
typedef int32_t NAME(sbits_u) __attribute__((vector_size(8 * W), aligned(4), may_alias));
#define S NAME(single)
#define SI NAME(sbits)

#if W == 8
#define FUSED(sum, d) ((S)_mm512_fmadd_ps((__m512)(d), (__m512)(d), (__m512)(sum)))
#elif W == 4
#define FUSED(sum, d) ((S)_mm256_fmadd_ps((__m256)(d), (__m256)(d), (__m256)(sum)))
#else
#define FUSED(sum, d) ((sum) + (d) * (d))
#endif

TARGET FPP_INLINE S NAME(load_s)(const float *p)
{
    return *(const NAME(single_u) *)p;
}

TARGET FPP_INLINE void NAME(store_s)(float *p, S v)
{
    *(NAME(single_u) *)p = v;
}

/* a where it is larger, or smaller, than b, else b, for NaN too. */
TARGET FPP_INLINE S NAME(larger_s)(S a, S b)
{
#if W == 8
    return (S)_mm512_max_ps((__m512)a, (__m512)b);
#elif W == 4
    return (S)_mm256_max_ps((__m256)a, (__m256)b);
#else
    const SI mask = a > b;
    return (S)((mask & (SI)a) | (~mask & (SI)b));
#endif
}

TARGET FPP_INLINE S NAME(smaller_s)(S a, S b)
{
#if W == 8
    return (S)_mm512_min_ps((__m512)a, (__m512)b);
#elif W == 4
    return (S)_mm256_min_ps((__m256)a, (__m256)b);
#else
    const SI mask = a < b;
    return (S)((mask & (SI)a) | (~mask & (SI)b));
#endif
}

/* Bit l is set if lane l of v is at most that of bound; never for NaN. */
TARGET FPP_INLINE uint64_t NAME(at_most)(V v, V bound)
{
#if W == 8
    return _mm512_cmp_pd_mask((__m512d)v, (__m512d)bound, _CMP_LE_OQ);
#elif W == 4
    return (uint64_t)_mm256_movemask_pd((__m256d)(v <= bound));
#elif FPP_X86
    return (uint64_t)_mm_movemask_pd((__m128d)(v <= bound));
#else
    return (uint64_t)(v[0] <= bound[0]) | (uint64_t)(v[1] <= bound[1]) << 1;
#endif
}

TARGET FPP_INLINE uint64_t NAME(at_most_s)(S v, S bound)
{
#if W == 8
    return _mm512_cmp_ps_mask((__m512)v, (__m512)bound, _CMP_LE_OQ);
#elif W == 4
    return (uint64_t)_mm256_movemask_ps((__m256)(v <= bound));
#elif FPP_X86
    return (uint64_t)_mm_movemask_ps((__m128)(v <= bound));
#else
    uint64_t bits = 0;
    for (int l = 0; l < 4; l++) {
        bits |= (uint64_t)(v[l] <= bound[l]) << l;
    }
    return bits;
#endif
}

/* Bit l is set if lane l of a is below that of b. */
TARGET FPP_INLINE uint64_t NAME(below_s)(SI a, SI b)
{
#if W == 8
    return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b);
#elif W == 4
    return (uint64_t)_mm256_movemask_ps((__m256)(a < b));
#elif FPP_X86
    return (uint64_t)_mm_movemask_ps((__m128)(a < b));
#else
    uint64_t bits = 0;
    for (int l = 0; l < 4; l++) {
        bits |= (uint64_t)(a[l] < b[l]) << l;
    }
    return bits;
#endif
}

/* Bit l is set if distance l of 64 is at most bound. */
TARGET FPP_INLINE uint64_t NAME(within)(const double *distances, double bound)
{
    uint64_t bits = 0;
    for (int64_t lane = 0; lane < LANES; lane += W) {
        bits |= NAME(at_most)(NAME(load)(distances + lane), (V){0.0} + bound) << lane;
    }
    return bits;
}

TARGET FPP_INLINE uint64_t NAME(within_s)(const float *distances, float bound)
{
    uint64_t bits = 0;
    for (int64_t lane = 0; lane < LANES; lane += 2 * W) {
        bits |= NAME(at_most_s)(NAME(load_s)(distances + lane), (S){0.0f} + bound) << lane;
    }
    return bits;
}

/* out (64) += squared differences of a row and a panel in columns begin ... end - 1; begin = 0 starts at zero. */
TARGET FPP_INLINE void NAME(add_columns)(const double *restrict panel, const double *restrict row, int64_t begin, int64_t end,
                                         double *restrict out)
{
    for (int64_t lane = 0; lane < LANES; lane += 8 * W) {
        V sum[8];
        for (int v = 0; v < 8; v++) {
            sum[v] = begin == 0 ? (V){0.0} : NAME(load)(out + lane + v * W);
        }
        for (int64_t k = begin; k < end; k++) {
            for (int v = 0; v < 8; v++) {
                const V gap = NAME(load)(panel + k * LANES + lane + v * W) - row[k];
                sum[v] += gap * gap;
            }
        }
        for (int v = 0; v < 8; v++) {
            NAME(store)(out + lane + v * W, sum[v]);
        }
    }
}

/* Vectors of single precision that cover 64 lanes, at most eight at a time. */
#define PARTS (LANES / (2 * W) < 8 ? LANES / (2 * W) : 8)

TARGET FPP_INLINE void NAME(add_columns_s)(const float *restrict panel, const float *restrict row, int64_t begin, int64_t end,
                                           float *restrict out)
{
    for (int64_t lane = 0; lane < LANES; lane += PARTS * 2 * W) {
        S sum[PARTS];
        for (int v = 0; v < PARTS; v++) {
            sum[v] = begin == 0 ? (S){0.0f} : NAME(load_s)(out + lane + v * 2 * W);
        }
        for (int64_t k = begin; k < end; k++) {
            for (int v = 0; v < PARTS; v++) {
                const S gap = NAME(load_s)(panel + k * LANES + lane + v * 2 * W) - row[k];
                sum[v] = FUSED(sum[v], gap);
            }
        }
        for (int v = 0; v < PARTS; v++) {
            NAME(store_s)(out + lane + v * 2 * W, sum[v]);
        }
    }
}

/* m = columns k ... k + W - 1 of W rows from `rows` on. */
TARGET FPP_INLINE void NAME(turned)(const char *rows, int64_t dim, int64_t k, V *m, int is_f32)
{
    if (is_f32) {
        NAME(vecf) narrow[W];
        for (int r = 0; r < W; r++) {
            narrow[r] = *(const NAME(vecf_u) *)(const void *)(rows + (r * dim + k) * 4);
        }
        NAME(transpose_f)(narrow); /* before it takes twice the room */
        for (int r = 0; r < W; r++) {
            m[r] = NAME(widened)(narrow[r]);
        }
        return;
    }
    for (int r = 0; r < W; r++) {
        m[r] = NAME(load_x)(rows + r * dim * 8, k, 0);
    }
    NAME(transpose)(m);
}

/* Ask for row `number`, which may lie beyond the last, ahead of its use. */
TARGET FPP_INLINE void NAME(fetch)(const lane_rows *rows, int64_t number, int is_f32)
{
    const uintptr_t size = (uintptr_t)rows->dim * (is_f32 ? 4 : 8), start = (uintptr_t)rows->at + (uintptr_t)number * size;
    for (uintptr_t line = 0; line < size; line += 64) {
        __builtin_prefetch((const void *)(start + line));
    }
}

#if W == 8
/* m = four columns of eight rows: the first four rows lie in the low halves of vectors, which are turned, the others in the high ones.
 * One number at a time takes twice as long. */
TARGET FPP_INLINE void NAME(turn_four)(const char *columns, const int64_t *index, int64_t row_bytes, V *m, int is_f32)
{
    V h[4];
    for (int r = 0; r < 4; r++) {
        const char *low = columns + index[r] * row_bytes, *high = columns + index[r + 4] * row_bytes;
        m[r] = is_f32 ? (V)_mm512_cvtps_pd(_mm256_set_m128(_mm_loadu_ps((const void *)high), _mm_loadu_ps((const void *)low)))
                      : (V)_mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd((const void *)low)),
                                              _mm256_loadu_pd((const void *)high), 1);
    }
    for (int r = 0; r < 4; r += 2) {
        h[r] = FPP_SHUFFLE(VI, m[r], m[r + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        h[r + 1] = FPP_SHUFFLE(VI, m[r], m[r + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int r = 0; r < 2; r++) {
        m[r] = FPP_SHUFFLE(VI, h[r], h[r + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        m[r + 2] = FPP_SHUFFLE(VI, h[r], h[r + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
}
#endif

/* panel (dim, 64) = the rows that index (64) names, side by side; NaN where it says -1. */
TARGET FPP_INLINE void NAME(load_panel)(const lane_rows *rows, const int64_t *index, double *restrict panel, int is_f32)
{
    const int64_t dim = rows->dim, row_bytes = dim * (is_f32 ? 4 : 8);
    const int64_t width = W == 8 && dim < W ? 4 : W; /* columns that are turned at once */
    int whole = dim >= width;
    for (int64_t v = 0; v < LANES; v++) {
        whole &= index[v] >= 0;
    }
    if (!whole) {
        for (int64_t v = 0; v < LANES; v++) {
            for (int64_t k = 0; k < dim; k++) {
                panel[k * LANES + v] = index[v] >= 0 ? entry(rows, index[v], k, is_f32) : NAN;
            }
        }
        return;
    }
    for (int64_t lane = 0; lane < LANES; lane += W) {
        for (int64_t k = 0; k < dim; k += width) {
            const int64_t at = least(k, dim - width); /* the last columns are done with some of those before them, a second time */
            V m[W];
#if W == 8
            if (width == 4) {
                NAME(turn_four)(rows->at + at * (is_f32 ? 4 : 8), index + lane, row_bytes, m, is_f32);
            } else
#endif
            {
                for (int r = 0; r < W; r++) {
                    m[r] = NAME(load_x)(rows->at + index[lane + r] * row_bytes, at, is_f32);
                }
                NAME(transpose)(m);
            }
            for (int r = 0; r < width; r++) {
                NAME(store)(panel + (at + r) * LANES + lane, m[r]);
            }
        }
    }
}
