/* Column sums of rows that are read twice: included by sums_simd.h alone, under its macros, for vectors of four doubles. Norms of a group
 * of rows are taken while it is fetched, and the group before it, whose factors are known, is read again from the first cache: nothing
 * is stored but the sums, once for all rows of a group, where the stream stores z of each row. */

enum { AGAIN_ROWS = 8, AGAIN_MOST = 64 }; /* rows of a group; its most columns */

/* Squared norms of a group by lanes. */
TARGET FPP_INLINE void NAME(again_norms)(const fpp_plan *plan, const char *x, int64_t stride_bytes, double (*lanes)[FPP_LANES],
                                         int shifted)
{
    const int64_t dim = plan->dim;
    const double *restrict center = plan->center;
    const V inv_step = (V){0.0} + plan->inv_step;
    for (int r = 0; r < AGAIN_ROWS; r++, x += stride_bytes) {
        V norm[PARTS];
        for (int s = 0; s < PARTS; s++) {
            norm[s] = (V){0.0};
        }
#define STEP(k, left)                                                   \
    for (int s = 0; s < PARTS && s * W < (left); s++) {                 \
        const int64_t at = (k) + s * W;                                 \
        V t = NAME(load_x)(x, at, (left)-s * W, 0);                     \
        t = (shifted ? t - NAME(load)(center + at) : t) * inv_step;     \
        norm[s] += t * t;                                               \
    }
        int64_t k = 0;
        for (; k + FPP_LANES <= dim; k += FPP_LANES) {
            FPP_FETCH(x + k * 8 + FPP_AHEAD);
            STEP(k, FPP_LANES)
        }
        if (k < dim) {
            STEP(k, dim - k)
        }
#undef STEP
        for (int s = 0; s < PARTS; s++) {
            NAME(store)(lanes[r] + s * W, norm[s]);
        }
    }
}

/* Rounds W columns of a group, of which `left` are before the rows' end, and adds them up. */
TARGET FPP_INLINE void NAME(again_round)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t k, int64_t left,
                                         const V *factor, V *sum_sq, uint64_t *group, int shifted)
{
    const V inv_step = (V){0.0} + plan->inv_step, center = NAME(load)(plan->center + k);
    VI total = {0};
    for (int r = 0; r < AGAIN_ROWS; r++) {
        const V t = NAME(load_x)(x + r * stride_bytes, k, left, 0);
        const V z = (shifted ? t - center : t) * inv_step;
        const V raised = z * factor[r] + FPP_ROUNDER;
        const V q = raised - FPP_ROUNDER;
        sum_sq[r] = ADD_SQUARE(sum_sq[r], q);
        total += (VI)raised;
    }
    *(NAME(bits_u) *)(group + k) = total;
}

/* Adds a group whose factors are known to plan->sums if every row passes its check, and says whether it did. */
TARGET FPP_INLINE int NAME(again_add)(const fpp_plan *plan, const char *x, int64_t stride_bytes, const double *factor, int shifted)
{
    const int64_t dim = plan->dim;
    uint64_t *restrict sums = plan->sums;
    uint64_t *restrict group = (uint64_t *)(void *)plan->z;
    double lanes[AGAIN_ROWS][FPP_LANES] = {{0.0}}, row_sq[AGAIN_ROWS];
    V f[AGAIN_ROWS], sum_sq[AGAIN_ROWS];
    for (int r = 0; r < AGAIN_ROWS; r++) {
        f[r] = (V){0.0} + factor[r];
        sum_sq[r] = (V){0.0};
    }
    int64_t k = 0;
    for (; k + W <= dim; k += W) {
        NAME(again_round)(plan, x, stride_bytes, k, W, f, sum_sq, group, shifted);
    }
    if (k < dim) {
        NAME(again_round)(plan, x, stride_bytes, k, dim - k, f, sum_sq, group, shifted);
    }
    for (int r = 0; r < AGAIN_ROWS; r++) {
        NAME(store)(lanes[r], sum_sq[r]);
    }
    NAME(fold)((const double(*)[FPP_LANES])lanes, row_sq);
    for (int r = 0; r < AGAIN_ROWS; r++) {
        if (FPP_UNLIKELY(!(row_sq[r] <= plan->quant_bound_sq))) {
            return 0;
        }
    }
    for (k = 0; k < dim; k += W) {
        *(NAME(bits_u) *)(sums + k) += *(const NAME(bits_u) *)(group + k) - AGAIN_ROWS * FPP_ROUNDER_BITS;
    }
    return 1;
}

/* Whole groups of doubles under an identity map; returns the rows done. A group with a row that is not finite, or fails its check,
 * goes through the stream. */
TARGET FPP_INLINE int64_t NAME(sum_again)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes, int shifted)
{
    const int64_t groups = n / AGAIN_ROWS, group_bytes = AGAIN_ROWS * stride_bytes;
    double norm_lanes[AGAIN_ROWS][FPP_LANES], norm_sq[AGAIN_ROWS], factor[AGAIN_ROWS];
    int finite = 0;
    /* One more turn than groups: the first has no group before it, the last none after it. */
    for (int64_t g = 0; g <= groups; g++) {
        const char *last = x + (g > 0 ? g - 1 : 0) * group_bytes;
        NAME(again_norms)(plan, x + fpp_min(g, groups - 1) * group_bytes, stride_bytes, norm_lanes, shifted);
        if (g > 0 && !(FPP_LIKELY(finite) && FPP_LIKELY(NAME(again_add)(plan, last, stride_bytes, factor, shifted)))) {
            NAME(stream_rows)(plan, last, AGAIN_ROWS, stride_bytes);
        }
        NAME(fold)((const double(*)[FPP_LANES])norm_lanes, norm_sq);
        NAME(factors)(plan, AGAIN_ROWS, norm_sq, factor);
        finite = 1;
        for (int r = 0; r < AGAIN_ROWS; r++) {
            finite &= norm_sq[r] < INFINITY;
        }
    }
    return groups * AGAIN_ROWS;
}
