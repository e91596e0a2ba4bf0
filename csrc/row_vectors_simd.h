/* Vectors along a row for one width, and what becomes of its eight lanes: included under W, NAME and TARGET, with
 *   W       doubles per vector (2, 4 or 8), a divisor of FPP_LANES
 *   NAME    makes a name unique to the instruction set
 *   TARGET  function attribute
 * by the loops that read row after row. They undefine V, VI, PARTS and ADD_SQUARE.
 */
typedef double NAME(vec) __attribute__((vector_size(8 * W)));
typedef double NAME(vec_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef float NAME(vecf_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef uint64_t NAME(bits) __attribute__((vector_size(8 * W)));
typedef uint64_t NAME(bits_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef int32_t NAME(half) __attribute__((vector_size(4 * W)));
typedef int32_t NAME(half_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
#define V NAME(vec)
#define VI NAME(bits)
#define PARTS (FPP_LANES / W)

TARGET FPP_INLINE V NAME(load)(const double *p)
{
    return *(const NAME(vec_u) *)p;
}

TARGET FPP_INLINE void NAME(store)(double *p, V v)
{
    *(NAME(vec_u) *)p = v;
}

/* W entries of a row of x from column k, `left` of them before the row ends; zeros after its end, which is never read. */
TARGET FPP_INLINE V NAME(load_x)(const char *x, int64_t k, int64_t left, int32_t is_f32)
{
    const double *x64 = (const double *)(const void *)x + k;
    const float *x32 = (const float *)(const void *)x + k;
    if (left >= W) {
        /* gcc 12 makes three instructions of the general form where one will do. */
#if W == 8
        return is_f32 ? (V)_mm512_cvtps_pd(_mm256_loadu_ps(x32)) : (V)*(const NAME(vec_u) *)x64;
#elif W == 4
        return is_f32 ? (V)_mm256_cvtps_pd(_mm_loadu_ps(x32)) : (V)*(const NAME(vec_u) *)x64;
#elif FPP_X86
        return is_f32 ? (V)_mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(const void *)x32)))
                      : (V)*(const NAME(vec_u) *)x64;
#else
        return is_f32 ? (V)__builtin_convertvector(*(const NAME(vecf_u) *)x32, V)
                      : (V)*(const NAME(vec_u) *)x64;
#endif
    }
#if W == 8
    const __mmask8 mask = (__mmask8)(left <= 0 ? 0U : (1U << left) - 1U);
    return is_f32 ? (V)_mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, x32))
                  : (V)_mm512_maskz_loadu_pd(mask, x64);
#elif W == 4
    if (is_f32) {
        const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32((int32_t)left), _mm_setr_epi32(0, 1, 2, 3));
        return (V)_mm256_cvtps_pd(_mm_maskload_ps(x32, mask));
    }
    return (V)_mm256_maskload_pd(x64, _mm256_cmpgt_epi64(_mm256_set1_epi64x(left), _mm256_setr_epi64x(0, 1, 2, 3)));
#else
    V v = {0.0};
    for (int l = 0; l < W; l++) {
        if (l < left) {
            v[l] = is_f32 ? (double)x32[l] : x64[l];
        }
    }
    return v;
#endif
}

/* Folds the lanes of eight rows as fpp_fold does those of one. */
TARGET FPP_INLINE void NAME(fold)(const double lanes[FPP_LANES][FPP_LANES], double *sums)
{
#if W == 8
    V half[4], quarter[2];
    for (int i = 0; i < 4; i++) {
        const V a = NAME(load)(lanes[2 * i]), b = NAME(load)(lanes[2 * i + 1]);
        half[i] = FPP_SHUFFLE(VI, a, b, 0, 1, 2, 3, 8, 9, 10, 11) + FPP_SHUFFLE(VI, a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 2; i++) {
        const V a = half[2 * i], b = half[2 * i + 1];
        quarter[i] = FPP_SHUFFLE(VI, a, b, 0, 1, 4, 5, 8, 9, 12, 13) + FPP_SHUFFLE(VI, a, b, 2, 3, 6, 7, 10, 11, 14, 15);
    }
    NAME(store)(sums, FPP_SHUFFLE(VI, quarter[0], quarter[1], 0, 2, 4, 6, 8, 10, 12, 14)
                          + FPP_SHUFFLE(VI, quarter[0], quarter[1], 1, 3, 5, 7, 9, 11, 13, 15));
#else
    for (int r = 0; r < FPP_LANES; r++) {
        sums[r] = fpp_fold(lanes[r]);
    }
#endif
}

/* Exact where it matters, as multiplying and adding is. */
#if W == 8
#define ADD_SQUARE(sum, q) ((V)_mm512_fmadd_pd(q, q, sum))
#elif W == 4
#define ADD_SQUARE(sum, q) ((V)_mm256_fmadd_pd((__m256d)(q), (__m256d)(q), (__m256d)(sum)))
#else
#define ADD_SQUARE(sum, q) ((sum) + (q) * (q))
#endif
