/* Loops of gradients.c for one vector width: included under W, NAME and TARGET (see row_vectors_simd.h). As the stream of column sums
 * (sums_simd.h): while scores and norms of a group of rows are taken, the group before it, whose factors are known, is rounded onto
 * the sums, so that reading is even and roots and quotients have time to finish. */
#include "row_vectors_simd.h"
#include "losses_simd.h"

#define RT (W == 8 ? 2 : 1)                   /* rows of single precision side by side, whose z are kept */
#define RT_WIDE (W == 8 ? 4 : W == 4 ? 2 : 1) /* rows side by side that are read again */
#define RT_MOST 4

/* One output of `count` rows side by side, number r0 of their group, and of as many of the group before. The `first` output takes the norms
 * of the new rows. `keep`: z of the new rows goes to `to` and that of the old ones is in
 * `from`; else the old rows are read again. */
TARGET FPP_INLINE void NAME(gradient_rows)(const gradient_plan *plan, const row_group *group, int64_t r0, int64_t output, int count,
                                           int first, int spread, int keep, int is_f32)
{
    const int64_t dim = plan->map->dim, ld = plan->ld;
    const double *restrict weights = plan->weights + output * ld;
    const double *restrict factors = plan->spread;
    const double *restrict from = group->from + r0 * ld;
    double *restrict to = group->to + r0 * ld;
    double *restrict scores = plan->scores + (output * FPP_LANES + r0) * FPP_LANES;
    double *restrict norms = plan->norms + r0 * FPP_LANES;
    uint64_t *restrict sums = plan->sums + output * ld;
    const char *row[RT_MOST], *old[RT_MOST], *ahead[RT_MOST];
    V score[RT_MOST][PARTS], norm[RT_MOST][PARTS], step[RT_MOST];
    for (int r = 0; r < count; r++) {
        row[r] = group->row[r0 + r];
        old[r] = group->old[r0 + r];
        ahead[r] = group->ahead[r0 + r];
        step[r] = (V){0.0} + plan->steps[output * FPP_LANES + r0 + r];
        for (int s = 0; s < PARTS; s++) {
            score[r][s] = (V){0.0};
            norm[r][s] = (V){0.0};
        }
    }
#define STEP(k, left)                                                                                                \
    for (int s = 0; s < PARTS; s++) {                                                                                \
        const int64_t at = (k) + s * W;                                                                              \
        const V weight = NAME(load)(weights + at);                                                                   \
        VI sum = *(const NAME(bits_u) *)(sums + at);                                                                 \
        for (int r = 0; r < count; r++) {                                                                            \
            V z = keep && !first ? NAME(load)(to + r * ld + at) : NAME(load_x)(row[r], at, (left)-s * W, is_f32);   \
            score[r][s] += z * weight;                                                                               \
            if (spread) {                                                                                            \
                z = z * NAME(load)(factors + at);                                                                    \
            }                                                                                                        \
            if (first) {                                                                                             \
                norm[r][s] = is_f32 && !spread ? ADD_SQUARE(norm[r][s], z) : norm[r][s] + z * z;                     \
            }                                                                                                        \
            if (keep && first) {                                                                                     \
                NAME(store)(to + r * ld + at, z);                                                                    \
            }                                                                                                        \
            const V last = keep ? NAME(load)(from + r * ld + at) : NAME(load_x)(old[r], at, (left)-s * W, is_f32); \
            sum += (VI)(last * step[r] + FPP_ROUNDER);                                                               \
        }                                                                                                            \
        *(NAME(bits_u) *)(sums + at) = sum;                                                                          \
    }
    int64_t k = 0;
    for (; k + FPP_LANES <= dim; k += FPP_LANES) {
        for (int r = 0; r < count && first && (!is_f32 || k % 16 == 0); r++) {
            FPP_FETCH(ahead[r] + k * (is_f32 ? 4 : 8));
        }
        STEP(k, FPP_LANES)
    }
    if (k < dim) {
        for (int r = 0; r < count && first && (!is_f32 || k % 16 == 0); r++) {
            FPP_FETCH(ahead[r] + k * (is_f32 ? 4 : 8));
        }
        STEP(k, dim - k)
    }
#undef STEP
    for (int r = 0; r < count; r++) {
        for (int s = 0; s < PARTS; s++) {
            NAME(store)(scores + r * FPP_LANES + s * W, score[r][s]);
            if (first) {
                NAME(store)(norms + r * FPP_LANES + s * W, norm[r][s]);
            }
        }
    }
}

/* The check of the integers of row r, which has been added (`reject` in rows_simd.h says why one comparison is enough): one that fails it
 * is taken off again. Its bits are formed by the same operations. */
TARGET static void NAME(check_row)(const gradient_plan *plan, const char *row, const double *z, int64_t r, int is_f32)
{
    V sum_sq = {0.0};
    double total = 0.0;
    for (int taken_off = 0; taken_off < 2; taken_off++) {
        for (int64_t o = 0; o < plan->map->outputs; o++) {
            for (int64_t k = 0; k < plan->map->dim; k += W) {
                const V last = z != NULL ? NAME(load)(z + k) : NAME(load_x)(row, k, plan->map->dim - k, is_f32);
                const V raised = last * plan->steps[o * FPP_LANES + r] + FPP_ROUNDER;
                const V q = raised - FPP_ROUNDER;
                sum_sq += q * q;
                if (taken_off) {
                    *(NAME(bits_u) *)(plan->sums + o * plan->ld + k) += FPP_ROUNDER_BITS - (VI)raised;
                }
            }
        }
        for (int l = 0; l < W; l++) {
            total += sum_sq[l];
        }
        if (total <= plan->quant_bound_sq) {
            return;
        }
    }
}

/* As larger(smaller()), with the same answer where something is NaN. */
TARGET FPP_INLINE V NAME(between)(V v, V bound)
{
    v = NAME(chosen)((VI)(-bound > v), -bound, v);
    return NAME(chosen)((VI)(bound < v), bound, v);
}

/* Steps of up to eight rows from their scores: see fpp_gradient_map. */
TARGET FPP_INLINE void NAME(shortened_steps)(const fpp_gradient_map *map, const double *restrict labels, const double *restrict norm_sq,
                                             int64_t used, double *restrict steps, int spread)
{
    const V limit = (V){0.0} + map->limit, clip = (V){0.0} + map->clip;
    double norms[FPP_LANES];
    for (int r = 0; r < FPP_LANES; r++) {
        norms[r] = __builtin_sqrt(norm_sq[r]);
    }
    if (map->loss == FPP_LOSS_LOGISTIC || map->loss == FPP_LOSS_WEIGHTED_LOGISTIC) {
        static const double even[2] = {1.0, 1.0};
        const double *const classes = map->loss == FPP_LOSS_LOGISTIC ? even : map->numbers;
        for (int r = 0; r < FPP_LANES; r += W) {
            NAME(store)(steps + r, NAME(class_factor)(classes, NAME(load)(steps + r), NAME(load)(labels + r), 0));
        }
    } else if (map->loss != FPP_LOSS_SQUARED) {
        for (int64_t r = 0; r < used; r++) {
            steps[r] = fpp_residual_of(map, steps[r], labels[r]);
        }
    }
    for (int r = 0; r < FPP_LANES; r += W) {
        const V label = NAME(load)(labels + r), found = NAME(load)(steps + r), norm = NAME(load)(norms + r);
        const V residual = (map->loss == FPP_LOSS_SQUARED ? label - found : found) * map->inv_scale;
        V step;
        if (spread) {
            step = limit / NAME(chosen)((VI)(norm > limit), norm, limit) * (NAME(between)(residual, clip) / clip) * map->inv_step;
        } else {
            step = NAME(between)(residual, limit / norm) * map->inv_step;
        }
        VI finite = NAME(is_finite)(residual) & NAME(is_finite)(step);
        finite &= spread ? finite : NAME(is_finite)(label);
        NAME(store)(steps + r, (V)(finite & (VI)step));
    }
}

/* Lanes of the `used` rows of a group become its steps, zeros for rows that are not there; steps_sq: their squared norms, within 2^-26. A
 * step times a row is not summed again, entry by entry. Where squares underflow, those of steps that
 * are large enough to matter overflow, and what is not a number goes to the check too. */
TARGET FPP_INLINE void NAME(steps_of_group)(const gradient_plan *plan, const row_group *group, int64_t rows, int64_t used, int spread, int is_f32,
                                            double *steps_sq)
{
    const fpp_gradient_map *map = plan->map;
    double norm_sq[FPP_LANES], labels[FPP_LANES] = {0.0};
    NAME(fold)((const double(*)[FPP_LANES])plan->norms, norm_sq);
    for (int64_t o = 0; o < map->outputs; o++) {
        NAME(fold)((const double(*)[FPP_LANES])(plan->scores + o * FPP_LANES * FPP_LANES), plan->steps + o * FPP_LANES);
    }
    for (int64_t r = 0; r < used; r++) {
        labels[r] = number(group->row[r], map->dim, is_f32);
    }
    if (plan->has_outputs) {
        for (int64_t r = 0; r < used; r++) {
            steps_of_outputs(plan, labels[r], norm_sq[r], r);
        }
    } else {
        NAME(shortened_steps)(map, labels, norm_sq, used, plan->steps, spread);
    }
    for (int64_t r = 0; map->weighted && r < used; r++) {
        weigh_steps(plan, number(group->row[r], map->dim + 1, is_f32), r);
    }
    for (int64_t r = used; r < rows; r++) {
        no_steps(plan, r);
    }
    for (int64_t r = 0; r < rows; r++) {
        double factor_sq = 0.0;
        for (int64_t o = 0; o < map->outputs; o++) {
            factor_sq += plan->steps[o * FPP_LANES + r] * plan->steps[o * FPP_LANES + r];
        }
        steps_sq[r] = factor_sq * norm_sq[r];
    }
}

/* The loop over n >= 1 rows; returns how many passed, those among them that are not there. Rows are added before their check is known:
 * adding integers modulo 2^64 can be undone exactly. */
TARGET FPP_INLINE int64_t NAME(gradients)(const gradient_plan *plan, const labelled_rows *x, int64_t rows, int spread, int keep, int is_f32)
{
    const int64_t outputs = plan->map->outputs;
    const int together = !keep ? RT_WIDE : is_f32 ? RT : 1;
    double steps_sq[FPP_LANES];
    row_group group = {.to = plan->z, .from = plan->z + rows * plan->ld};
    int64_t i = 0;
    look_ahead(plan, x, rows, &group);
    begin_group(x, 0, rows, &group); /* whose steps are zeros, but zero times what is not finite is not: they are checked */
    for (int64_t r = 0; r < rows; r++) {
        steps_sq[r] = NAN;
    }
    for (; i < x->n + rows; i += rows) {
        begin_group(x, i, rows, &group);
        for (int64_t r = 0, done; r < rows; r += done) {
            done = rows - r >= together ? together : 1;
            if (together > 1 && done == together) {
                NAME(gradient_rows)(plan, &group, r, 0, together, 1, spread, keep, is_f32);
            } else {
                NAME(gradient_rows)(plan, &group, r, 0, 1, 1, spread, keep, is_f32);
            }
            for (int64_t each = r; outputs > 1 && each < r + done; each++) {
                for (int64_t o = 1; o < outputs; o++) {
                    NAME(gradient_rows)(plan, &group, each, o, 1, 0, 0, keep, is_f32);
                }
            }
        }
        for (int64_t r = 0; r < rows; r++) {
            if (FPP_UNLIKELY(!(steps_sq[r] <= plan->surely_sq))) {
                NAME(check_row)(plan, group.old[r], keep ? group.from + r * plan->ld : NULL, r, is_f32);
            }
        }
        NAME(steps_of_group)(plan, &group, rows, fpp_min(rows, i < x->n ? x->n - i : 0), spread, is_f32, steps_sq);
        double *swap = group.to;
        group.to = group.from;
        group.from = swap;
    }
    return i;
}

/* Rows whose z are read again share loads of weights and sums, eight to a group, if three groups stay in the second cache. */
TARGET static int64_t NAME(stream)(const gradient_plan *plan, const labelled_rows *x)
{
    const int spread = plan->map->spread != NULL, is_f32 = x->is_f32, one = plan->map->outputs == 1;
    const int again = one && !spread && is_f32 && (W < 8 || plan->ld > 256), keep = plan->has_z && !again;
    const int64_t many = one && !keep && plan->map->dim * (is_f32 ? 4 : 8) <= FPP_AHEAD;
    const int64_t rows = fpp_min(many ? FPP_LANES : plan->rows, x->n);
    if (is_f32) {
        return spread ? NAME(gradients)(plan, x, rows, 1, 1, 1)
               : keep ? NAME(gradients)(plan, x, rows, 0, 1, 1)
                      : NAME(gradients)(plan, x, rows, 0, 0, 1);
    }
    return spread ? NAME(gradients)(plan, x, rows, 1, 1, 0)
           : keep ? NAME(gradients)(plan, x, rows, 0, 1, 0)
                  : NAME(gradients)(plan, x, rows, 0, 0, 0);
}

#undef RT_MOST
#undef RT_WIDE
#undef RT
#undef PARTS
#undef ADD_SQUARE
#undef V
#undef VI
#undef W
#undef NAME
#undef TARGET
