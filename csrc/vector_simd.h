/* Vectors of doubles for one width, read from rows and turned: included under the macros W, NAME and TARGET of an instruction set
 * by the loops that hold one row in a lane. They undefine V and VI. */
typedef double NAME(vec) __attribute__((vector_size(8 * W)));
typedef double NAME(vec_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef float NAME(vecf) __attribute__((vector_size(4 * W)));
typedef float NAME(vecf_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef int64_t NAME(bits) __attribute__((vector_size(8 * W)));
typedef int32_t NAME(half) __attribute__((vector_size(4 * W)));
typedef int32_t NAME(half_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
#define V NAME(vec)
#define VI NAME(bits)

TARGET FPP_INLINE V NAME(load)(const double *p)
{
    return *(const NAME(vec_u) *)p;
}

TARGET FPP_INLINE void NAME(store)(double *p, V v)
{
    *(NAME(vec_u) *)p = v;
}

/* gcc 12 makes three instructions of the general form where one will do. */
TARGET FPP_INLINE V NAME(widened)(NAME(vecf) v)
{
#if W == 8
    return (V)_mm512_cvtps_pd((__m256)v);
#else
    return __builtin_convertvector(v, V);
#endif
}

TARGET FPP_INLINE NAME(vecf) NAME(narrowed)(V v)
{
#if W == 8
    return (NAME(vecf))_mm512_cvtpd_ps((__m512d)v);
#elif W == 4
    return (NAME(vecf))_mm256_cvtpd_ps((__m256d)v);
#else
    return __builtin_convertvector(v, NAME(vecf));
#endif
}

TARGET FPP_INLINE V NAME(load_x)(const char *x, int64_t k, int is_f32)
{
    return is_f32 ? NAME(widened)(*(const NAME(vecf_u) *)(const void *)(x + k * 4))
                  : (V)*(const NAME(vec_u) *)(const void *)(x + k * 8);
}

/* Lanes of a where the mask has ones, of b elsewhere. */
TARGET FPP_INLINE V NAME(where)(VI mask, V a, V b)
{
#if W == 8
    return (V)_mm512_mask_blend_pd(_mm512_movepi64_mask((__m512i)mask), (__m512d)b, (__m512d)a);
#elif W == 4
    return (V)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)mask);
#else
    return (V)((mask & (VI)a) | (~mask & (VI)b));
#endif
}

/* v < low ? low : v, then high < v ? high : v. */
TARGET FPP_INLINE V NAME(clipped)(V v, V low, V high)
{
#if W == 8
    return (V)_mm512_min_pd((__m512d)high, _mm512_max_pd((__m512d)low, (__m512d)v));
#elif W == 4
    return (V)_mm256_min_pd((__m256d)high, _mm256_max_pd((__m256d)low, (__m256d)v));
#elif FPP_X86
    return (V)_mm_min_pd((__m128d)high, _mm_max_pd((__m128d)low, (__m128d)v));
#else
    const V below = NAME(where)(v < low, low, v);
    return NAME(where)(below > high, high, below);
#endif
}

TARGET FPP_INLINE VI NAME(is_finite)(V x)
{
    const V size = (V)((VI)x & INT64_MAX);
    return size < (V){0.0} + INFINITY;
}

/* W rows of W columns, turned. */
#if W == 2
#define TURN(T, MASK) \
    const T a = m[0], b = m[1]; \
    m[0] = FPP_SHUFFLE(MASK, a, b, 0, 2); \
    m[1] = FPP_SHUFFLE(MASK, a, b, 1, 3);
#elif W == 4
#define TURN(T, MASK) \
    T h[4]; \
    for (int i = 0; i < 4; i += 2) { \
        h[i] = FPP_SHUFFLE(MASK, m[i], m[i + 1], 0, 4, 2, 6); \
        h[i + 1] = FPP_SHUFFLE(MASK, m[i], m[i + 1], 1, 5, 3, 7); \
    } \
    for (int i = 0; i < 2; i++) { \
        m[i] = FPP_SHUFFLE(MASK, h[i], h[i + 2], 0, 1, 4, 5); \
        m[i + 2] = FPP_SHUFFLE(MASK, h[i], h[i + 2], 2, 3, 6, 7); \
    }
#else
#define TURN(T, MASK) \
    T h[8], q[8]; \
    for (int i = 0; i < 8; i += 2) { \
        h[i] = FPP_SHUFFLE(MASK, m[i], m[i + 1], 0, 8, 2, 10, 4, 12, 6, 14); \
        h[i + 1] = FPP_SHUFFLE(MASK, m[i], m[i + 1], 1, 9, 3, 11, 5, 13, 7, 15); \
    } \
    for (int i = 0; i < 8; i += 4) { \
        for (int j = 0; j < 2; j++) { \
            q[i + j] = FPP_SHUFFLE(MASK, h[i + j], h[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13); \
            q[i + j + 2] = FPP_SHUFFLE(MASK, h[i + j], h[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15); \
        } \
    } \
    for (int i = 0; i < 4; i++) { \
        m[i] = FPP_SHUFFLE(MASK, q[i], q[i + 4], 0, 1, 2, 3, 8, 9, 10, 11); \
        m[i + 4] = FPP_SHUFFLE(MASK, q[i], q[i + 4], 4, 5, 6, 7, 12, 13, 14, 15); \
    }
#endif

TARGET FPP_INLINE void NAME(transpose)(V *m)
{
    TURN(V, VI)
}

TARGET FPP_INLINE void NAME(transpose_f)(NAME(vecf) *m)
{
    TURN(NAME(vecf), NAME(half))
}
#undef TURN

/* tile (dim, side) = `used` rows side by side, zero in the other lanes; `side` is a multiple of W. */
TARGET FPP_INLINE void NAME(turn_rows)(const char *x, int64_t stride_bytes, int64_t used, int64_t side, int64_t dim,
                                       double *restrict tile, int is_f32)
{
    if (used < side || dim < W) {
        for (int64_t k = 0; k < dim; k++) {
            for (int64_t r = 0; r < side; r++) {
                const char *row = x + (r < used ? r : 0) * stride_bytes;
                const double number = is_f32 ? (double)((const float *)(const void *)row)[k] : ((const double *)(const void *)row)[k];
                tile[k * side + r] = r < used ? number : 0.0;
            }
        }
        return;
    }
    for (int64_t lane = 0; lane < side; lane += W) {
        for (int64_t k = 0; k < dim; k += W) {
            const int64_t at = k < dim - W ? k : dim - W; /* the last columns are turned with some of those before them, a second time */
            V m[W];
            for (int r = 0; r < W; r++) {
                m[r] = NAME(load_x)(x + (lane + r) * stride_bytes, at, is_f32);
            }
            NAME(transpose)(m);
            for (int r = 0; r < W; r++) {
                NAME(store)(tile + (at + r) * side + lane, m[r]);
            }
        }
    }
}
