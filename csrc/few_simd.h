/* Column sums of at most sixteen columns for one vector width: included by sums_simd.h alone, under the same macros.
 *
 * A row is in a lane. Vectors along a row would be half empty, and each wait for a fold: 5 times as slow in four columns under AVX2, as
 * fast under AVX-512 where rows are clipped. Rows are turned in registers, as numbers loaded one by one take twice as long. Squares are
 * added in the order of fpp_fold. A block of up to four groups of eight rows is taken in three steps, its z, its factors, its sums: one
 * group after another, a group waits for a chain of 120 cycles, and no processor looks far enough ahead to fill them. Factors are left
 * out of a block in which no row is clipped.
 *
 * Four columns of doubles on a full-width machine, 5e6 rows with half of them clipped / none, in readings of 1.3 ns a row: 1.18 / .97
 * with AVX-512 and 1.25 / 1.01 with AVX2. What lost: root and quotient by the divider with AVX-512, group by group, and rows fetched 2 KB
 * ahead (1.72 / 1.48; AVX2 1.78 / 1.57); factors without the divider group by group (1.76) or for AVX2 (1.7); the same in blocks, and
 * still 2 KB ahead (1.51 / 1.34), where 8 to 16 KB into either cache are much the same and 32 KB into the first worse (1.38 / 1.20); the
 * check of integers where none can fail; strides that the compiler does not know (1.24 / 1.06); blocks of eight groups or of two (1.19
 * and 1.23; AVX2, two and four, 1.22 and 1.31). In a near cache, rows of 1, 4, 8, 12 and 16 columns take .8, 1.4, 2.5, 4.0 and 5.3 ns
 * where they took 1.3, 1.7, 3.2, 5.0 and 6.9 group by group, and with AVX2 1.2, 1.6, 2.8, 4.9 and 6.3 for 1.2, 1.9, 4.1, 6.2 and 7.9. */

/* Groups of a block. */
#if W == 8
#define TOGETHER (width < 4 ? 2 : 4)
#elif W == 4
#define TOGETHER (width <= FPP_LANES ? 1 : 2)
#else
#define TOGETHER 1
#endif
#define TOGETHER_MOST 4

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
/* Four columns of FPP_LANES rows from column `begin` on, a row in a lane, zeros after the last of `dim`; `close` if these rows have four
 * columns and no gaps. They are turned in registers: eight shuffles on one port for a group, 28 when each number was loaded by itself. */
TARGET FPP_INLINE void NAME(four_columns)(const char *x, int64_t stride_bytes, const int begin, const int dim, V column[4][PARTS],
                                          int is_f32, int close)
{
#if W == 8
    __m512d pair[4], low[2], high[2];
    const __mmask8 mask = (__mmask8)(dim - begin >= 4 ? 0xf : 0xf >> (4 - (dim - begin)));
    const char *row = x + begin * (is_f32 ? 4 : 8);
    for (int i = 0; i < 4 && close; i++) {
        pair[i] = (__m512d)NAME(load_x)(x, 8 * i, 8, is_f32);
    }
    for (int i = 0; i < 4 && !close; i++, row += 2 * stride_bytes) {
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
    (void)close; /* a row fills a vector */
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
                                     int is_f32, int close)
{
#if W >= 4
    if (width >= 4) {
        for (int k = 0; k < width; k += 4) {
            NAME(four_columns)(x, stride_bytes, k, k + 4 < width ? width : dim, column + k, is_f32, close);
        }
        return;
    }
#else
    (void)dim, (void)close; /* as many as `width` */
#endif
    for (int s = 0; s < PARTS; s++) {
        for (int k = 0; k < width; k++) {
            column[k][s] = NAME(column)(x + s * W * stride_bytes + k * (is_f32 ? 4 : 8), stride_bytes, is_f32);
        }
    }
}

/* Whether a > b in some lane. */
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

/* Rows by tiles of eight: those of a block that has a row which is not finite, or fails its check. */
TARGET static __attribute__((noinline)) void NAME(sum_tiles)(const fpp_plan *plan, const char *x, int64_t rows, int64_t stride_bytes)
{
    for (int64_t r = 0; r < rows; r += FPP_LANES) {
        double factor[FPP_LANES];
        fpp_row_tile(plan, &NAME(kernels), x + r * stride_bytes, stride_bytes, FPP_LANES, factor);
        NAME(sum)(plan, FPP_LANES, factor);
    }
}

/* Whole blocks of rows of at most sixteen columns under an identity map; returns the rows done. From nine columns
 * on, `width` is a multiple of four, and the columns beyond those of the rows are zeros. A block with a row that is not
 * finite or fails its check goes through the tiles instead. */
TARGET FPP_INLINE int64_t NAME(sum_blocks)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes, const int width,
                                           int shifted, int is_f32, int close)
{
    const int dim = width > FPP_LANES ? (int)plan->dim : width;
    const int64_t blocks = n / (TOGETHER * FPP_LANES);
    const V inside = NAME(inside)(plan), above_one = NAME(above_one)(plan);
    const V inv_step = (V){0.0} + plan->inv_step, limit = (V){0.0} + plan->limit, most = (V){0.0} + plan->quant_bound_sq;
    /* Rounding moves each entry by at most 1/2, and no clipped row is longer than the limit by more than 2^-40 of it: where both stay
     * within the bound, all integers pass. */
    const int surely = sqrt(plan->quant_bound_sq) >= (plan->limit + 0.5 * sqrt((double)dim)) * (1.0 + 0x1p-40);
    V center[FEW_MOST];
    uint64_t taken = 0;
    VI total[FEW_MOST];
    for (int k = 0; k < width; k++) {
        center[k] = (V){0.0} + plan->center[k];
        total[k] = (VI){0};
    }
    for (int64_t block = 0; block < blocks; block++, x += TOGETHER * FPP_LANES * stride_bytes) {
        V z[TOGETHER_MOST][FEW_MOST][PARTS], f[TOGETHER_MOST][PARTS];
        int longer[TOGETHER_MOST][PARTS], any = 0, failed = 0;
        for (int b = 0; b < TOGETHER; b++) {
            const char *group = x + b * FPP_LANES * stride_bytes;
            V square[FEW_MOST];
            for (int line = 0; line < (is_f32 ? (dim + 1) / 2 : dim); line++) {
                FPP_FETCH(group + FPP_AHEAD + line * 64);
            }
            NAME(columns)(group, stride_bytes, width, dim, z[b], is_f32, close);
            for (int s = 0; s < PARTS; s++) {
                for (int k = 0; k < width; k++) {
                    z[b][k][s] = (shifted ? z[b][k][s] - center[k] : z[b][k][s]) * inv_step;
                    square[k] = z[b][k][s] * z[b][k][s];
                }
                for (int k = FPP_LANES; k < width; k++) {
                    square[k - FPP_LANES] += square[k];
                }
                for (int k = 4; k < width && k < FPP_LANES; k++) {
                    square[k - 4] += square[k];
                }
                const V even = width > 2 ? square[0] + square[2] : square[0];
                f[b][s] = width > 3 ? even + (square[1] + square[3]) : width > 1 ? even + square[1] : even;
                longer[b][s] = NAME(longer)(f[b][s], inside);
                any |= longer[b][s];
            }
        }
        for (int b = 0; b < TOGETHER; b++) {
            for (int s = 0; s < PARTS; s++) {
                f[b][s] = any ? NAME(factor)(f[b][s], longer[b][s], limit, above_one, &failed) : (V){0.0} + 1.0;
            }
        }
        for (int b = 0; b < TOGETHER && FPP_UNLIKELY(!surely); b++) {
            for (int s = 0; s < PARTS; s++) {
                V row_sq = {0.0};
                for (int k = 0; k < width; k++) {
                    const V q = (z[b][k][s] * f[b][s] + FPP_ROUNDER) - FPP_ROUNDER;
                    row_sq = ADD_SQUARE(row_sq, q);
                }
                failed |= NAME(any_above)(row_sq, most);
            }
        }
        if (FPP_UNLIKELY(failed)) {
            NAME(sum_tiles)(plan, x, TOGETHER * FPP_LANES, stride_bytes);
            continue;
        }
        for (int k = 0; k < width; k++) {
            for (int b = 0; b < TOGETHER; b++) {
                for (int s = 0; s < PARTS; s++) {
                    total[k] += (VI)(z[b][k][s] * f[b][s] + FPP_ROUNDER);
                }
            }
        }
        taken += (uint64_t)TOGETHER * FPP_LANES;
    }
    for (int k = 0; k < width; k++) {
        uint64_t lanes[W];
        *(NAME(bits_u) *)lanes = total[k];
        for (int l = 0; l < W; l++) {
            plan->sums[k] += lanes[l];
        }
        plan->sums[k] -= taken * FPP_ROUNDER_BITS;
    }
    return blocks * TOGETHER * FPP_LANES;
}

TARGET FPP_INLINE int64_t NAME(sum_few)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes, const int width,
                                        int shifted, int is_f32)
{
    return NAME(sum_blocks)(plan, x, n, stride_bytes, width, shifted, is_f32, 0);
}

/* Four columns without gaps. */
TARGET FPP_INLINE int64_t NAME(sum_close)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes, const int width,
                                          int shifted, int is_f32)
{
    (void)stride_bytes;
    return NAME(sum_blocks)(plan, x, n, width * (is_f32 ? 4 : 8), width, shifted, is_f32, 1);
}
#undef TOGETHER
#undef TOGETHER_MOST
