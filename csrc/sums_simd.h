/* Column sums for one vector width: the part of rows_simd.h that adds up. Included by it alone, under the same macros.
 *
 * The bits of FPP_ROUNDER + q are those of FPP_ROUNDER plus q, so rounded numbers add up as integers, modulo 2^64. A row is added
 * before its check is known: if it fails, it is taken off again, exactly. */

/* Adds W rounded numbers to the sums, and their squares to sum_sq. */
TARGET FPP_INLINE V NAME(add_rounded)(const double *restrict z, double factor, uint64_t *restrict sums, V sum_sq)
{
    const V raised = NAME(load)(z) * factor + FPP_ROUNDER;
    const V q = raised - FPP_ROUNDER;
    *(NAME(bits_u) *)sums += (VI)raised;
    return ADD_SQUARE(sum_sq, q);
}

/* What is left of a row that failed its check is that of a row of zeros. */
TARGET static void NAME(take_off)(const fpp_plan *plan, const double *z, double factor)
{
    for (int64_t k = 0; k < plan->out_dim; k += W) {
        const V raised = NAME(load)(z + k) * factor + FPP_ROUNDER;
        *(NAME(bits_u) *)(plan->sums + k) += FPP_ROUNDER_BITS - (VI)raised;
    }
}

/* Adds the rows of a tile. Few of them have an outer piece: a row times zero, which is finite, adds nothing. */
TARGET static void NAME(sum)(const fpp_plan *plan, int64_t rows, const double *factor)
{
    int64_t added = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double *z = plan->z + r * plan->ld;
        V sum_sq = {0.0};
        if (factor[r] == 0.0) {
            continue;
        }
        added++;
        for (int64_t k = 0; k < plan->out_dim; k += W) {
            sum_sq = NAME(add_rounded)(z + k, factor[r], plan->sums + k, sum_sq);
        }
        if (FPP_UNLIKELY(!(NAME(lane_sum)(sum_sq) <= plan->quant_bound_sq))) {
            NAME(take_off)(plan, z, factor[r]);
        }
    }
    for (int64_t k = 0; k < plan->out_dim; k++) {
        plan->sums[k] -= FPP_ROUNDER_BITS * (uint64_t)added;
    }
}

/* One step of the stream below: forms z of a new row and rounds an old one, whose factor is known, onto the sums. */
TARGET FPP_INLINE void NAME(stream_row)(const fpp_plan *plan, const char *row, double *restrict to, const double *restrict from,
                                        double factor, double *norm_lanes, double *square_lanes, int general, int is_f32)
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
#define STEP(k, left)                                                                \
    for (int s = 0; s < PARTS && s * W < (left); s++) {                              \
        const int64_t at = (k) + s * W;                                              \
        V t = NAME(load_x)(row, at, (left)-s * W, is_f32) - NAME(load)(center + at); \
        t = general ? t * NAME(load)(diagonal + at) + NAME(load)(offset + at) : t;   \
        t = t * inv_step;                                                            \
        NAME(store)(to + at, t);                                                     \
        norm[s] += t * t;                                                            \
        sum_sq = NAME(add_rounded)(from + at, factor, sums + at, sum_sq);            \
    }
    int64_t k = 0;
    for (; k + FPP_LANES <= dim; k += FPP_LANES) {
        FPP_FETCH(row + k * (is_f32 ? 4 : 8) + FPP_AHEAD);
        STEP(k, FPP_LANES)
    }
    if (k < dim) {
        FPP_FETCH(row + k * (is_f32 ? 4 : 8) + FPP_AHEAD);
        STEP(k, dim - k)
    }
#undef STEP
    for (int s = 0; s < PARTS; s++) {
        NAME(store)(norm_lanes + s * W, norm[s]);
    }
    NAME(store)(square_lanes, sum_sq);
}

/* Adds up n >= 1 rows of an identity or diagonal map, in groups: while z of a group is formed, the group before it is rounded, so that
 * reading is even and roots and quotients have time to finish. */
TARGET FPP_INLINE void NAME(sum_stream)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes, int general, int is_f32)
{
    const int64_t ld = plan->ld, rows = plan->stream_rows;
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
                             norm_lanes[r], square_lanes[r], general, is_f32);
        }
        NAME(fold)((const double(*)[FPP_LANES])square_lanes, row_sq);
        for (int64_t r = 0; r < rows; r++) {
            if (FPP_UNLIKELY(!(row_sq[r] <= plan->quant_bound_sq))) {
                NAME(take_off)(plan, last + r * ld, factor[r]);
            }
        }
        NAME(fold)((const double(*)[FPP_LANES])norm_lanes, norm_sq);
        NAME(factors)(plan, FPP_LANES, norm_sq, factor);
        for (int64_t r = 0; r < rows; r++) {
            if (FPP_UNLIKELY(!(norm_sq[r] < INFINITY)) && i + r < n) {
                rescue(plan, x + (i + r) * stride_bytes, next + r * ld, factor + r);
            }
            if (i + r >= n) {
                memset(next + r * ld, 0, (size_t)fpp_round_up(plan->dim, FPP_LANES) * sizeof(double));
                factor[r] = 1.0;
            }
        }
        double *swap = next;
        next = last;
        last = swap;
    }
    for (int64_t k = 0; k < plan->dim; k++) {
        plan->sums[k] -= FPP_ROUNDER_BITS * (uint64_t)fpp_round_up(n + rows, rows);
    }
}

TARGET static __attribute__((noinline)) void NAME(stream_rows)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes)
{
    BY_KIND(NAME(sum_stream), plan, x, n, stride_bytes);
}

#if W == 8
#define FEW few_avx2 /* there is little to gain from wider vectors */
#else
#include "few_simd.h"
#define FEW NAME(few)
#endif

/* Adds rows of an identity or diagonal map. */
TARGET static void NAME(stream)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes)
{
    const int64_t done = plan->general ? 0 : FEW(plan, x, n, stride_bytes);
    if (done < n) {
        NAME(stream_rows)(plan, x + done * stride_bytes, n - done, stride_bytes);
    }
}
#undef FEW
