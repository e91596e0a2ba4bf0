/* Column sums of at most sixteen columns for one vector width: included by sums_simd.h alone, under the same macros.
 *
 * A row is in a lane. Vectors along a row would be half empty, and each wait for a fold: 5 times as slow in four columns under AVX2, as
 * fast under AVX-512 where rows are clipped. Roots and quotients are left out of a group in which no row is clipped. Squares are added
 * in the order of fpp_fold. Four columns of doubles on a full-width machine, 2.5e6 rows with half of them clipped / none, where
 * reading takes 2.8 to 3.9 ms as memory is shared: numbers loaded one by one and totals in memory 9.2 / 4.6 ms, AVX2 9.5 / 4.7; turned
 * in registers, totals there too 5.4 / 5.2, 5.6 / 4.7; and fetched 2 KB ahead into the second cache 4.8 / 4.1, 5.5 / 4.3 (4 KB 5.0 /
 * 4.2, 5.8 / 4.4). What is left where rows are clipped is the divider: 51 cycles for eight
 * roots and quotients of full width. Rows of 5, 8, 12 and 16 columns in a near cache take 2.0, 2.9, 4.6 and 6.1 ns where vectors along
 * them took 4.4, 4.4, 6.5 and 6.6; with AVX2 2.3, 3.6, 5.3 and 7.1 for 8.9, 8.2, 10.1 and 10.7. Left for nothing: an estimate of the
 * factor (rsqrt14 and a step of third order, good to 2^-39), and the true one only where a product lies so near a half that it decides:
 * 5.2 for 4.9 ms. */

/* W numbers of one column, from rows below each other. */
TARGET FPP_INLINE V NAME(column)(const char *x, int64_t stride_bytes, int is_f32)
{
#define ROW(r) ((const void *)(x + (r) * stride_bytes))
#define AT(r) (is_f32 ? (double)*(const float *)ROW(r) : *(const double *)ROW(r))
#if W == 2
    return (V){AT(0), AT(1)};
#elif W == 4
    return (V){AT(0), AT(1), AT(2), AT(3)};
#else
    return (V){AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7)};
#endif
#undef AT
#undef ROW
}

#if W >= 4
/* Four columns of FPP_LANES rows from column `begin` on, a row in a lane, zeros after the last of `dim`. They are turned in registers:
 * eight shuffles on one port for a group, 28 when each number was loaded by itself. */
TARGET FPP_INLINE void NAME(four_columns)(const char *x, int64_t stride_bytes, const int begin, const int dim, V column[4][PARTS],
                                          int is_f32)
{
#if W == 8
    __m512d pair[4], low[2], high[2];
    const __mmask8 mask = (__mmask8)(dim - begin >= 4 ? 0xf : 0xf >> (4 - (dim - begin)));
    const char *row = x + begin * (is_f32 ? 4 : 8);
    for (int i = 0; i < 4; i++, row += 2 * stride_bytes) {
        const float *narrow = (const float *)(const void *)row, *narrow_after = (const float *)(const void *)(row + stride_bytes);
        const double *one = (const double *)(const void *)row, *after = (const double *)(const void *)(row + stride_bytes);
        pair[i] = is_f32 ? _mm512_cvtps_pd(_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_maskz_loadu_ps(mask, narrow)),
                                                                _mm_maskz_loadu_ps(mask, narrow_after), 1))
                         : _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_maskz_loadu_pd(mask, one)),
                                              _mm256_maskz_loadu_pd(mask, after), 1);
    }
    for (int i = 0; i < 2; i++) {
        low[i] = _mm512_unpacklo_pd(pair[2 * i], pair[2 * i + 1]);
        high[i] = _mm512_unpackhi_pd(pair[2 * i], pair[2 * i + 1]);
    }
    column[0][0] = (V)_mm512_shuffle_f64x2(low[0], low[1], 0x88);
    column[1][0] = (V)_mm512_shuffle_f64x2(high[0], high[1], 0x88);
    column[2][0] = (V)_mm512_shuffle_f64x2(low[0], low[1], 0xdd);
    column[3][0] = (V)_mm512_shuffle_f64x2(high[0], high[1], 0xdd);
#else
    for (int s = 0; s < PARTS; s++, x += 4 * stride_bytes) {
        V row[4];
        for (int r = 0; r < 4; r++) {
            row[r] = NAME(load_x)(x + r * stride_bytes, begin, dim - begin, is_f32);
        }
        const V a = FPP_SHUFFLE(VI, row[0], row[1], 0, 4, 2, 6), b = FPP_SHUFFLE(VI, row[0], row[1], 1, 5, 3, 7);
        const V c = FPP_SHUFFLE(VI, row[2], row[3], 0, 4, 2, 6), d = FPP_SHUFFLE(VI, row[2], row[3], 1, 5, 3, 7);
        column[0][s] = FPP_SHUFFLE(VI, a, c, 0, 1, 4, 5);
        column[1][s] = FPP_SHUFFLE(VI, b, d, 0, 1, 4, 5);
        column[2][s] = FPP_SHUFFLE(VI, a, c, 2, 3, 6, 7);
        column[3][s] = FPP_SHUFFLE(VI, b, d, 2, 3, 6, 7);
    }
#endif
}
#endif

/* Columns of FPP_LANES rows, a row in a lane; which lane is open where there are four columns or more, as no two rows are ever
 * compared. */
TARGET FPP_INLINE void NAME(columns)(const char *x, int64_t stride_bytes, const int width, const int dim, V column[FEW_MOST][PARTS],
                                     int is_f32)
{
#if W >= 4
    if (width >= 4) {
        for (int k = 0; k < width; k += 4) {
            NAME(four_columns)(x, stride_bytes, k, k + 4 < width ? width : dim, column + k, is_f32);
        }
        return;
    }
#else
    (void)dim; /* as many as `width` */
#endif
    for (int s = 0; s < PARTS; s++) {
        for (int k = 0; k < width; k++) {
            column[k][s] = NAME(column)(x + s * W * stride_bytes + k * (is_f32 ? 4 : 8), stride_bytes, is_f32);
        }
    }
}

/* limit / norm for rows longer than the limit, else 1: as `factors` has it. */
TARGET FPP_INLINE V NAME(factor)(V norm_sq, V limit)
{
#if W == 8
    return limit / (V)_mm512_max_pd(_mm512_sqrt_pd((__m512d)norm_sq), (__m512d)limit);
#elif W == 4
    return limit / (V)_mm256_max_pd(_mm256_sqrt_pd((__m256d)norm_sq), (__m256d)limit);
#else
    V norm = limit;
    for (int l = 0; l < W; l++) {
        const double root = __builtin_sqrt(norm_sq[l]);
        norm[l] = root > limit[l] ? root : limit[l];
    }
    return limit / norm;
#endif
}

/* Whether a > b in some lane; and whether in some lane not a <= most, or not b < infinity. */
TARGET FPP_INLINE int NAME(any_above)(V a, V b)
{
#if W == 8
    return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ) != 0;
#elif W == 4
    return _mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_GT_OQ)) != 0;
#else
    return (a[0] > b[0]) | (a[1] > b[1]);
#endif
}

TARGET FPP_INLINE int NAME(any_failed)(V a, V most, V b)
{
    const V infinity = (V){0.0} + INFINITY;
#if W == 8
    return (_mm512_cmp_pd_mask((__m512d)a, (__m512d)most, _CMP_NLE_UQ)
            | _mm512_cmp_pd_mask((__m512d)b, (__m512d)infinity, _CMP_NLT_UQ)) != 0;
#elif W == 4
    return _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd((__m256d)a, (__m256d)most, _CMP_NLE_UQ),
                                           _mm256_cmp_pd((__m256d)b, (__m256d)infinity, _CMP_NLT_UQ))) != 0;
#else
    const VI passed = (VI)(a <= most) & (VI)(b < infinity);
    return (passed[0] & passed[1]) == 0;
#endif
}

/* Whole groups of eight rows of at most sixteen columns under an identity map; returns the rows done. From nine columns
 * on, `width` is a multiple of four, and the columns beyond those of the rows are zeros. A group with a row that is not
 * finite or fails its check goes through the tiles instead. */
TARGET FPP_INLINE int64_t NAME(sum_few)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes, const int width,
                                        int shifted, int is_f32)
{
    const int dim = width > FPP_LANES ? (int)plan->dim : width;
    const int64_t groups = n / FPP_LANES;
    /* The root of no more than this is within the limit, and the factor 1. */
    const V inside = (V){0.0} + plan->limit * plan->limit * (1.0 - 0x1p-50);
    const V inv_step = (V){0.0} + plan->inv_step, limit = (V){0.0} + plan->limit, most = (V){0.0} + plan->quant_bound_sq;
    V center[FEW_MOST];
    uint64_t taken = 0;
    VI total[FEW_MOST];
    for (int k = 0; k < width; k++) {
        center[k] = (V){0.0} + plan->center[k];
        total[k] = (VI){0};
    }
    for (int64_t g = 0; g < groups; g++, x += FPP_LANES * stride_bytes) {
        V z[FEW_MOST][PARTS], square[FEW_MOST], norm[PARTS], f[PARTS];
        VI raised[FEW_MOST][PARTS];
        int beyond = 0, failed = 0;
        for (int line = 0; line < (is_f32 ? (dim + 1) / 2 : dim); line++) {
            FPP_FETCH(x + 2048 + line * 64);
        }
        NAME(columns)(x, stride_bytes, width, dim, z, is_f32);
        for (int s = 0; s < PARTS; s++) {
            for (int k = 0; k < width; k++) {
                z[k][s] = (shifted ? z[k][s] - center[k] : z[k][s]) * inv_step;
                square[k] = z[k][s] * z[k][s];
            }
            for (int k = FPP_LANES; k < width; k++) {
                square[k - FPP_LANES] += square[k];
            }
            for (int k = 4; k < width && k < FPP_LANES; k++) {
                square[k - 4] += square[k];
            }
            const V even = width > 2 ? square[0] + square[2] : square[0];
            norm[s] = width > 3 ? even + (square[1] + square[3]) : width > 1 ? even + square[1] : even;
            beyond |= NAME(any_above)(norm[s], inside);
            f[s] = (V){0.0} + 1.0;
        }
        if (beyond) {
            for (int s = 0; s < PARTS; s++) {
                f[s] = NAME(factor)(norm[s], limit);
            }
        }
        for (int s = 0; s < PARTS; s++) {
            V row_sq = {0.0};
            for (int k = 0; k < width; k++) {
                const V up = z[k][s] * f[s] + FPP_ROUNDER;
                const V q = up - FPP_ROUNDER;
                row_sq = ADD_SQUARE(row_sq, q);
                raised[k][s] = (VI)up;
            }
            failed |= NAME(any_failed)(row_sq, most, norm[s]);
        }
        if (FPP_LIKELY(!failed)) {
            for (int k = 0; k < width; k++) {
                for (int s = 0; s < PARTS; s++) {
                    total[k] += raised[k][s];
                }
            }
            taken += FPP_LANES;
        } else {
            double factor[FPP_LANES];
            fpp_row_tile(plan, &NAME(kernels), x, stride_bytes, FPP_LANES, factor);
            NAME(sum)(plan, FPP_LANES, factor);
        }
    }
    for (int k = 0; k < width; k++) {
        uint64_t lanes[W];
        *(NAME(bits_u) *)lanes = total[k];
        for (int l = 0; l < W; l++) {
            plan->sums[k] += lanes[l];
        }
        plan->sums[k] -= taken * FPP_ROUNDER_BITS;
    }
    return groups * FPP_LANES;
}
