/* Column sums of at most sixteen columns (four without AVX2) for one vector width: included by sums_simd.h alone, under the same macros.
 * A row is in a lane: vectors along such rows would be half empty, and each wait for a fold. A block is taken in three steps, its z, its
 * factors and its sums, so that no group waits for the factors of the one before it. */

/* Groups of a block. */
#if W == 4
#define TOGETHER (width <= FPP_LANES ? 1 : 2)
#else
#define TOGETHER 1
#endif
#define TOGETHER_MOST 2

/* W numbers of one column, from rows below each other. */
TARGET FPP_INLINE V NAME(column)(const char *x, int64_t stride_bytes, int is_f32)
{
#define ROW(r) ((const void *)(x + (r) * stride_bytes))
#define AT(r) (is_f32 ? (double)*(const float *)ROW(r) : *(const double *)ROW(r))
#if W == 2
    return (V){AT(0), AT(1)};
#else
    return (V){AT(0), AT(1), AT(2), AT(3)};
#endif
#undef AT
#undef ROW
}

#if W == 4
/* Four columns of FPP_LANES rows from column `begin` on, a row in a lane, zeros after the last of `dim`. */
TARGET FPP_INLINE void NAME(four_columns)(const char *x, int64_t stride_bytes, const int begin, const int dim, V column[4][PARTS],
                                          int is_f32)
{
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
}
#endif

/* Columns of FPP_LANES rows, a row in a lane; which lane is open where there are four columns or more, as no two rows are ever
 * compared. */
TARGET FPP_INLINE void NAME(columns)(const char *x, int64_t stride_bytes, const int width, const int dim, V column[FEW_MOST][PARTS],
                                     int is_f32)
{
#if W == 4
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

/* In which lanes a <= b does not hold: NaN among them. */
TARGET FPP_INLINE int NAME(not_within)(V a, V b)
{
#if W == 4
    return _mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_NLE_UQ));
#else
    return (a[0] <= b[0] ? 0 : 1) | (a[1] <= b[1] ? 0 : 2);
#endif
}

/* limit / norm for rows longer than the limit, else 1; as `factors`. */
TARGET FPP_INLINE V NAME(factor)(V norm_sq, V limit)
{
#if W == 4
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

/* Makes zeros of the rows, in part s of a group, whose squared norm is NaN, and of that norm; returns their number. The differences of
 * finite numbers, and their squares, are finite or infinite: NaN comes from an entry alone. */
TARGET FPP_INLINE int NAME(without_nan)(V z[FEW_MOST][PARTS], const int s, const int width, V *norm_sq)
{
    const VI kept = (VI)(*norm_sq == *norm_sq);
    const int lost = NAME(not_within)(*norm_sq, *norm_sq);
    for (int k = 0; k < width; k++) {
        z[k][s] = (V)((VI)z[k][s] & kept);
    }
    *norm_sq = (V)((VI)*norm_sq & kept);
    return __builtin_popcount((unsigned)lost);
}

/* Whole blocks of rows of at most sixteen columns under an identity map; returns the rows done. From nine columns
 * on, `width` is a multiple of four, and the columns beyond those of the rows are zeros. A row with a NaN becomes zeros here; a block
 * with a row that is infinite, too long for its squared norm, or fails its check goes through the stream. */
TARGET FPP_INLINE int64_t NAME(sum_few)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes, const int width,
                                        int is_f32)
{
    const int dim = width > FPP_LANES ? (int)plan->dim : width;
    const int64_t blocks = n / (TOGETHER * FPP_LANES);
    /* A root of no more than `inside` is within the limit. */
    const V inside = (V){0.0} + plan->limit * plan->limit * (1.0 - 0x1p-50), largest = (V){0.0} + DBL_MAX;
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
        int longer = 0, failed = 0, neutral = 0;
        for (int b = 0; b < TOGETHER; b++) {
            const char *group = x + b * FPP_LANES * stride_bytes;
            V square[FEW_MOST];
            for (int line = 0; line < (is_f32 ? (dim + 1) / 2 : dim); line++) {
                FPP_FETCH(group + FPP_AHEAD + line * 64);
            }
            NAME(columns)(group, stride_bytes, width, dim, z[b], is_f32);
            for (int s = 0; s < PARTS; s++) {
                for (int k = 0; k < width; k++) {
                    z[b][k][s] = (z[b][k][s] - center[k]) * inv_step;
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
                longer |= NAME(not_within)(f[b][s], inside);
            }
        }
        for (int b = 0; b < TOGETHER; b++) {
            for (int s = 0; s < PARTS; s++) {
                if (longer) {
                    neutral += NAME(without_nan)(z[b], s, width, f[b] + s);
                    failed |= NAME(not_within)(f[b][s], largest);
                    f[b][s] = NAME(factor)(f[b][s], limit);
                } else {
                    f[b][s] = (V){0.0} + 1.0;
                }
            }
        }
        for (int b = 0; b < TOGETHER && FPP_UNLIKELY(!surely); b++) {
            for (int s = 0; s < PARTS; s++) {
                V row_sq = {0.0};
                for (int k = 0; k < width; k++) {
                    const V q = (z[b][k][s] * f[b][s] + FPP_ROUNDER) - FPP_ROUNDER;
                    row_sq = ADD_SQUARE(row_sq, q);
                }
                failed |= NAME(not_within)(row_sq, most);
            }
        }
        if (FPP_UNLIKELY(failed)) {
            NAME(stream_rows)(plan, x, TOGETHER * FPP_LANES, stride_bytes);
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
        if (plan->neutral != NULL) {
            *plan->neutral += neutral;
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
    return blocks * TOGETHER * FPP_LANES;
}

#define FEW(width)                                                          \
    case width:                                                             \
        return plan->is_f32 ? NAME(sum_few)(plan, x, n, stride_bytes, width, 1) \
                            : NAME(sum_few)(plan, x, n, stride_bytes, width, 0);

TARGET static int64_t NAME(few)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes)
{
    switch (plan->dim <= FPP_LANES ? plan->dim : (plan->dim + 3) / 4 * 4) {
        FEW(1)
        FEW(2)
        FEW(3)
        FEW(4)
#if W == 4
        FEW(5)
        FEW(6)
        FEW(7)
        FEW(8)
        FEW(12)
        FEW(16)
#endif
    default:
        return 0;
    }
}
#undef FEW
#undef TOGETHER
#undef TOGETHER_MOST
