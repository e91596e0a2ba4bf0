/* Column sums for one vector width: the part of rows_simd.h that adds up. Included by it alone, under the same macros. */

/* Adds the rounded rows to plan->sums. The bits of FPP_ROUNDER + q are those of FPP_ROUNDER plus q, so they add up as integers,
 * modulo 2^64, which spares a port that the floating-point additions want. The sums of a group wait in a second buffer until all
 * its rows have passed. */
TARGET static void NAME(sum)(const fpp_plan *plan, int64_t rows, double *factor)
{
    const int64_t ld = plan->ld, width = fpp_round_up(plan->out_dim, FPP_LANES);
    uint64_t *restrict sums = plan->sums;
    uint64_t *restrict group = plan->sums + ld;
    const uint64_t surplus = FPP_ROUNDER_BITS * RG;
    for (int64_t r0 = 0; r0 < rows; r0 += RG) {
        double *restrict z = plan->z + r0 * ld;
        int rejected;
        do {
            V f[RG], sum_sq[RG];
            for (int r = 0; r < RG; r++) {
                f[r] = (V){0.0} + factor[r0 + r];
                sum_sq[r] = (V){0.0};
            }
            for (int64_t k = 0; k < width; k += W) {
                VI total = (VI){0};
                for (int r = 0; r < RG; r++) {
                    const V raised = NAME(load)(z + r * ld + k) * f[r] + FPP_ROUNDER;
                    const V q = raised - FPP_ROUNDER;
                    sum_sq[r] += q * q;
                    total += (VI)raised;
                }
                *(NAME(bits_u) *)(group + k) = total - surplus;
            }
            rejected = NAME(reject_group)(plan, z, factor + r0, sum_sq);
        } while (rejected);
        for (int64_t k = 0; k < width; k += W) {
            *(NAME(bits_u) *)(sums + k) += *(const NAME(bits_u) *)(group + k);
        }
    }
}

/* One step of the stream below: forms z of a new row and rounds an old one, whose factor is known, onto the sums. Under AVX2 with float32
 * rows it is bound by arithmetic, ten operations for four numbers: 1.9 to 2.2 readings of 50 columns, 1.7 to 1.9 of 500. The half of a
 * row's last vectors that is beyond its end is left out, which gave 6 % in 50 columns, and FMA for the squares 3 %. */
TARGET FPP_INLINE void NAME(stream_row)(const fpp_plan *plan, const char *row, double *restrict to, const double *restrict from,
                                        double factor, double *norm_lanes, double *square_lanes, int shifted, int general, int is_f32)
{
    const int64_t dim = plan->dim;
    const double inv_step = plan->inv_step;
    const double *restrict center = plan->center;
    const double *restrict diagonal = plan->diagonal;
    const double *restrict offset = plan->offset;
    uint64_t *restrict sums = plan->sums;
    V norm[PARTS], sum_sq = {0.0};
    for (int s = 0; s < PARTS; s++) {
        norm[s] = (V){0.0};
    }
#define STEP(k, left)                                                            \
    for (int s = 0; s < PARTS && s * W < (left); s++) {                          \
        const int64_t at = (k) + s * W;                                          \
        V t = NAME(load_x)(row, at, (left)-s * W, is_f32);                       \
        t = shifted ? t - NAME(load)(center + at) : t;                           \
        t = general ? t * NAME(load)(diagonal + at) : t;                         \
        t = general ? t + NAME(load)(offset + at) : t;                           \
        t = t * inv_step;                                                        \
        NAME(store)(to + at, t);                                                 \
        norm[s] += t * t;                                                        \
        const V raised = NAME(load)(from + at) * factor + FPP_ROUNDER;           \
        const V q = raised - FPP_ROUNDER;                                        \
        sum_sq = ADD_SQUARE(sum_sq, q);                                          \
        *(NAME(bits_u) *)(sums + at) += (VI)raised;                              \
    }
    int64_t k = 0;
    for (; k + FPP_LANES <= dim; k += FPP_LANES) {
        FPP_FETCH(row + k * (is_f32 ? 4 : 8) + FPP_AHEAD);
        STEP(k, FPP_LANES)
    }
    if (k < dim) {
        STEP(k, dim - k)
    }
#undef STEP
    for (int s = 0; s < PARTS; s++) {
        NAME(store)(norm_lanes + s * W, norm[s]);
    }
    NAME(store)(square_lanes, sum_sq);
}

/* Adds up n rows of an identity or diagonal map, in groups: while z of a group is formed, the group before it is rounded, so that
 * reading is even and roots and quotients have time to finish. Rows are added before their check is known: adding integers modulo
 * 2^64 can be undone exactly, and is if a row fails: its bits are formed again by the same operations. */
TARGET FPP_INLINE void NAME(sum_stream)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes, int shifted, int general,
                                        int is_f32)
{
    const int64_t ld = plan->ld, width = fpp_round_up(plan->dim, FPP_LANES), rows = plan->stream_rows;
    uint64_t *sums = plan->sums;
    double *next = plan->z, *last = plan->z + rows * ld;
    double factor[FPP_LANES], norm_sq[FPP_LANES], row_sq[FPP_LANES];
    double norm_lanes[FPP_LANES][FPP_LANES] = {{0.0}}, square_lanes[FPP_LANES][FPP_LANES] = {{0.0}};
    for (int64_t r = 0; r < FPP_LANES; r++) {
        factor[r] = 1.0;
    }
    memset(last, 0, (size_t)(rows * ld) * sizeof(double));
    /* Beyond the end the last row is read again, and replaced by zeros. */
    for (int64_t i = 0; i < n + rows; i += rows) {
        for (int64_t r = 0; r < rows; r++) {
            NAME(stream_row)(plan, x + fpp_min(i + r, n - 1) * stride_bytes, next + r * ld, last + r * ld, factor[r],
                             norm_lanes[r], square_lanes[r], shifted, general, is_f32);
        }
        NAME(fold)((const double(*)[FPP_LANES])square_lanes, row_sq);
        for (int64_t r = 0; r < rows; r++) {
            if (FPP_UNLIKELY(!(row_sq[r] <= plan->quant_bound_sq))) {
                for (int64_t k = 0; k < width; k += W) {
                    const V raised = NAME(load)(last + r * ld + k) * factor[r] + FPP_ROUNDER;
                    *(NAME(bits_u) *)(sums + k) += FPP_ROUNDER_BITS - (VI)raised;
                }
            }
        }
        NAME(fold)((const double(*)[FPP_LANES])norm_lanes, norm_sq);
        NAME(factors)(plan, FPP_LANES, norm_sq, factor);
        for (int64_t r = 0; r < rows; r++) {
            if (FPP_UNLIKELY(!(norm_sq[r] < INFINITY))) {
                rescue(plan, x + fpp_min(i + r, n - 1) * stride_bytes, next + r * ld, factor + r);
            }
            if (i + r >= n) {
                memset(next + r * ld, 0, (size_t)width * sizeof(double));
                factor[r] = 1.0;
            }
        }
        double *swap = next;
        next = last;
        last = swap;
    }
    for (int64_t k = 0; k < width; k++) {
        sums[k] -= FPP_ROUNDER_BITS * (uint64_t)fpp_round_up(n + rows, rows);
    }
}

static const fpp_row_kernels NAME(kernels);

#include "few_simd.h"

/* The form of a loop for the numbers and the map of a plan. */
#define BY_MAP(loop, plan, x, n, stride_bytes, count)                       \
    if ((plan)->plain && (plan)->is_f32) {                                  \
        return loop(plan, x, n, stride_bytes, count, 0, 1);                 \
    } else if ((plan)->plain) {                                             \
        return loop(plan, x, n, stride_bytes, count, 0, 0);                 \
    } else if ((plan)->is_f32) {                                            \
        return loop(plan, x, n, stride_bytes, count, 1, 1);                 \
    } else {                                                                \
        return loop(plan, x, n, stride_bytes, count, 1, 0);                 \
    }

#define FEW(width) \
    case width:    \
        BY_MAP(NAME(sum_few), plan, x, n, stride_bytes, width)

TARGET static int64_t NAME(few)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes)
{
    if (plan->dim == 4 && stride_bytes == (plan->is_f32 ? 16 : 32)) {
        BY_MAP(NAME(sum_close), plan, x, n, stride_bytes, 4)
    }
    switch (plan->dim <= FPP_LANES ? plan->dim : (plan->dim + 3) / 4 * 4) {
        FEW(1)
        FEW(2)
        FEW(3)
        FEW(4)
#if W >= 4
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

#if W == 8
TARGET FPP_INLINE V NAME(load_masked)(const char *x, int64_t k, __mmask8 mask, int32_t is_f32)
{
    return is_f32 ? (V)_mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, (const float *)(const void *)x + k))
                  : (V)_mm512_maskz_loadu_pd(mask, (const double *)(const void *)x + k);
}

/* Whole groups of eight rows of 17 to 32 columns under an identity map; returns the rows done. Norms of a group are taken while
 * the group before it is rounded, whose factors have had the time of a group to finish; z is formed again rather than stored. A
 * group with a row that is not finite or fails its check goes through the tiles instead. Variants that lost: z kept in registers
 * from the norm to the sums (twice as slow: the rounding of two rows filled the schedulers, waiting for a quotient), and z of a
 * group kept in memory (1.5 times). */
TARGET FPP_INLINE int64_t NAME(sum_narrow)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes, int count, int shifted,
                                           int is_f32)
{
    const __mmask8 tail = (__mmask8)(0xff >> (8 * count - plan->dim));
    const int64_t groups = n / 8;
    const double *const center = plan->center;
    const V inv_step = (V){0.0} + plan->inv_step;
    double norm_lanes[8][8], square_lanes[8][8], norm_sq[8], row_sq[8], factor[8] = {0.0};
    int passed = 1;
    /* One more turn than groups: the first has no group before it, the last none after it. */
    for (int64_t g = 0; g <= groups; g++) {
        const char *next = x + fpp_min(g, groups - 1) * 8 * stride_bytes;
        const char *last = x + (g > 0 ? g - 1 : 0) * 8 * stride_bytes;
        /* Named one by one, for an array of them would live in memory. */
        VI total0 = {0}, total1 = {0}, total2 = {0}, total3 = {0};
        for (int64_t r = 0; r < 8; r++, next += stride_bytes, last += stride_bytes) {
            V norm = {0.0}, even_sq = {0.0}, odd_sq = {0.0};
            const V f = (V){0.0} + factor[r];
#define LOAD(row, v, mask) \
    ((v) + 1 < count ? NAME(load_x)(row, 8 * (v), 8, is_f32) : NAME(load_masked)(row, 8 * (v), mask, is_f32))
#define COLUMNS(v, square)                                                                            \
    if (count > (v)) {                                                                                \
        if (!is_f32 || (v) % 2 == 0) {                                                                \
            FPP_FETCH(next + (v) * (is_f32 ? 32 : 64) + FPP_AHEAD);                          \
        }                                                                                             \
        V t = LOAD(next, v, tail);                                                                    \
        t = (shifted ? t - NAME(load)(center + 8 * (v)) : t) * inv_step;                              \
        norm += t * t;                                                                                \
        V z = LOAD(last, v, tail);                                                                    \
        z = (shifted ? z - NAME(load)(center + 8 * (v)) : z) * inv_step;                              \
        const V raised = z * f + FPP_ROUNDER;                                                         \
        const V q = raised - FPP_ROUNDER;                                                             \
        square = ADD_SQUARE(square, q);                                                               \
        total##v += (VI)raised;                                                                       \
    }
            COLUMNS(0, even_sq)
            COLUMNS(1, odd_sq)
            COLUMNS(2, even_sq)
            COLUMNS(3, odd_sq)
#undef COLUMNS
#undef LOAD
            NAME(store)(norm_lanes[r], norm);
            NAME(store)(square_lanes[r], even_sq + odd_sq);
        }
        NAME(fold)((const double(*)[FPP_LANES])square_lanes, row_sq);
        passed &= _mm512_cmp_pd_mask(_mm512_loadu_pd(row_sq), _mm512_set1_pd(plan->quant_bound_sq), _CMP_LE_OQ) == 0xff;
        if (FPP_LIKELY(passed && g > 0)) {
#define FLUSH(v)                                                                                      \
    if (count > (v)) {                                                                                \
        *(NAME(bits_u) *)(plan->sums + 8 * (v)) += total##v - 8 * FPP_ROUNDER_BITS;                   \
    }
            FLUSH(0) FLUSH(1) FLUSH(2) FLUSH(3)
#undef FLUSH
        } else if (g > 0) {
            fpp_row_tile(plan, &NAME(kernels), last - 8 * stride_bytes, stride_bytes, 8, factor);
            NAME(sum)(plan, 8, factor);
        }
        NAME(fold)((const double(*)[FPP_LANES])norm_lanes, norm_sq);
        NAME(factors)(plan, 8, norm_sq, factor);
        passed = _mm512_cmp_pd_mask(_mm512_loadu_pd(norm_sq), _mm512_set1_pd(INFINITY), _CMP_LT_OQ) == 0xff;
    }
    return groups * 8;
}

#define NARROW(count) \
    case count:       \
        BY_MAP(NAME(sum_narrow), plan, x, n, stride_bytes, count)

TARGET static int64_t NAME(narrow)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes)
{
    switch ((plan->dim + 7) / 8) {
        NARROW(3)
        NARROW(4)
    default:
        return 0;
    }
}
#undef NARROW
#endif
#undef BY_MAP

#if W == 4
#include "again_simd.h"
#endif

/* Adds up as many rows as the loops above can take, and returns their number; the tiles do the rest. */
TARGET static int64_t NAME(stream)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes)
{
    const int64_t count = plan->matrix_kind >= FPP_MATRIX_LOWER ? 0 : n;
    if (count == 0) {
        return 0;
    }
    if ((plan->plain || plan->shifted) && plan->dim <= (W >= 4 ? FEW_MOST : 4)) {
        return NAME(few)(plan, x, n, stride_bytes);
    }
#if W == 8
    /* Of more columns the stream is faster: doubles of 32, 40, 50 and 64 columns took 1.26, 1.19, 1.19 and 1.22 readings in groups, and
     * 1.31, 1.16, 1.12 and 1.00 as a stream; floats of 50 columns 2.06 and 1.85. */
    if ((plan->plain || plan->shifted) && plan->dim <= 32) {
        return n < 8 ? 0 : NAME(narrow)(plan, x, n, stride_bytes);
    }
#endif
#if W == 4
    if ((plan->plain || plan->shifted) && !plan->is_f32 && plan->dim <= AGAIN_MOST && n >= AGAIN_ROWS) {
        return plan->plain ? NAME(sum_again)(plan, x, n, stride_bytes, 0) : NAME(sum_again)(plan, x, n, stride_bytes, 1);
    }
    if ((plan->plain || plan->shifted) && !plan->is_f32 && plan->dim >= AGAIN_WIDE && NAME(sum_wide)(plan, x, n, stride_bytes) > 0) {
        return n;
    }
    /* Zeros are taken from the numbers, which changes no bit: the loop without a centre took up to a tenth longer (28.0 to 30.8 ms for
     * 1e6 x 50 where this one took 27.1 to 28.7). */
    if (plan->plain && !plan->is_f32) {
        NAME(sum_stream)(plan, x, count, stride_bytes, 1, 0, 0);
        return count;
    }
#endif
    BY_KIND(NAME(sum_stream), plan, x, count, stride_bytes);
    return count;
}
