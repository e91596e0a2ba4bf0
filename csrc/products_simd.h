/* Rows under a LOWER or FULL matrix, for one vector width: the part of rows_simd.h that multiplies. Included by it alone, under the same
 * macros.
 *
 * What z is, is the unfused product, which every processor can do. Where multiplying and adding is one instruction, the fused
 * product takes half as many; it differs from z by less than a bound that is known for each row. The fused product therefore says what integers a row
 * becomes unless one of its numbers is so near to halfway between two integers that the bound does not decide: `doubts` finds such rows, and
 * `row_alone` takes them again, unfused. The integers are the same on every processor, and a row in some thousands is taken twice.
 *
 * The bound, with u = 2^-53, n columns, m outputs, and for output i the sum w_i of |a_ik t_k|. Both products are within n u w_i of the exact
 * one. With any weights c_k > 0 (here the lengths of the columns of the matrix, so that the units of columns do not matter) and the largest
 * length rho of a row (a_ik / c_k), Cauchy gives w_i <= rho tau, tau^2 = sum of (c_k t_k)^2; and the length of w is at most sqrt(n) tau. The
 * two v_i = y_i inv_step differ by at most 2 n u inv_step rho tau + 4 u |v_i|, the norms by 2 n u inv_step sqrt(n) tau + (m + 9) u norm, and
 * so p_i = v_i factor, which is rounded, by less than
 *     e0 + e1 |p_i|,  e0 = 2.25 (n + 2) u factor inv_step rho tau + 2^-40,
 *                     e1 = 2.25 (n + 2) u factor inv_step sqrt(n) tau / limit + 1.25 (m + 32) u
 * as long as e1 is below 1/64; the factor (1 - f^2)^.5 of an outer piece errs by (e1 + 2 u) f^2 / (1 - f^2) where the factor f errs by
 * e1, as a share. Constants are up by an eighth or more for the roundings of the bound itself, and 2^-40 is far above all that
 * underflows, as `weigh` refuses steps and columns beyond 1e100 and 1e140. */

#if W == 8
#define MULTIPLY_ADD(a, b, c) ((V)_mm512_fmadd_pd(_mm512_set1_pd(a), (__m512d)(b), (__m512d)(c)))
#define LARGER(a, b) ((V)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#define ANY_NOT_BELOW(v, most) (_mm512_cmp_pd_mask((__m512d)(v), _mm512_set1_pd(most), _CMP_NLT_UQ) != 0)
#elif W == 4
#define MULTIPLY_ADD(a, b, c) ((V)_mm256_fmadd_pd(_mm256_set1_pd(a), (__m256d)(b), (__m256d)(c)))
#define LARGER(a, b) ((V)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#define ANY_NOT_BELOW(v, most) (_mm256_movemask_pd(_mm256_cmp_pd((__m256d)(v), _mm256_set1_pd(most), _CMP_NLT_UQ)) != 0)
#else
#define MULTIPLY_ADD(a, b, c) ((c) + (a) * (b))
#endif

/* `rows` rows by one panel of outputs: z += t . panel, each output in ascending order of the column. Vector c of the panel reads the
 * first end[c] columns, and end ascends: each vector stops where the rows of a LOWER matrix that it holds do. */
TARGET FPP_INLINE void NAME(product_block)(const double *restrict t, const double *restrict panel, const int64_t *end,
                                           double *restrict z, int64_t ld, int first, int rows, int fused)
{
    V acc[RB][CB];
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < CB; c++) {
            acc[r][c] = first ? (V){0.0} : NAME(load)(z + r * ld + c * W);
        }
    }
    int64_t k = 0;
#define FROM(vector)                                                                          \
    for (; k < end[vector]; k++) {                                                            \
        V b[CB];                                                                              \
        for (int c = (vector); c < CB; c++) {                                                 \
            b[c] = NAME(load)(panel + k * PANEL + c * W);                                     \
        }                                                                                     \
        for (int r = 0; r < rows; r++) {                                                      \
            const double a = t[r * FPP_T_LD + k];                                             \
            for (int c = (vector); c < CB; c++) {                                             \
                acc[r][c] = fused ? MULTIPLY_ADD(a, b[c], acc[r][c]) : acc[r][c] + a * b[c];  \
            }                                                                                 \
        }                                                                                     \
    }
    FROM(0)
    FROM(1)
#if CB > 2
    FROM(2)
#endif
#undef FROM
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < CB; c++) {
            NAME(store)(z + r * ld + c * W, acc[r][c]);
        }
    }
}

TARGET FPP_INLINE void NAME(fetch)(const char *row, int64_t from, int64_t to)
{
    for (int64_t line = from; line < to; line++) {
        __builtin_prefetch(row + line * 64);
    }
}

/* Columns [k0, k0 + depth) of `rows` rows, less the center, into plan->t; fused: their share of tau^2 is added to plan->tau_sq. */
TARGET FPP_INLINE void NAME(take_block)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, int64_t k0, int64_t depth,
                                        int is_f32, int fused)
{
    double lanes[FPP_LANES][FPP_LANES] = {{0.0}}, sums[FPP_LANES];
    for (int64_t r = 0; r < rows; r++) {
        double *t = plan->t + r * FPP_T_LD;
        const char *row = x + r * stride_bytes;
        V sum = {0.0};
#define TAKE(k, left)                                                                                            \
    do {                                                                                                         \
        const V v = NAME(load_x)(row, k0 + (k), left, is_f32) - NAME(load)(plan->center + k0 + (k));             \
        NAME(store)(t + (k), v);                                                                                 \
        if (fused) {                                                                                             \
            const V weighted = v * NAME(load)(plan->weights + k0 + (k));                                         \
            sum += weighted * weighted;                                                                          \
        }                                                                                                        \
    } while (0)
        int64_t k = 0;
        for (; k + W <= depth; k += W) {
            TAKE(k, W);
        }
        if (k < depth) {
            TAKE(k, depth - k);
        }
#undef TAKE
        if (fused) {
            NAME(store)(lanes[r % FPP_LANES], sum);
        }
        if (fused && (r % FPP_LANES == FPP_LANES - 1 || r + 1 == rows)) {
            NAME(fold)((const double(*)[FPP_LANES])lanes, sums);
            for (int64_t l = 0; l <= r % FPP_LANES; l++) {
                double *const tau_sq = plan->tau_sq + r / FPP_LANES * FPP_LANES + l;
                *tau_sq = (k0 == 0 ? 0.0 : *tau_sq) + sums[l];
            }
        }
    }
}

/* A blocked matrix product, `block` rows at a time (RB or 1), then offset, step and norm. */
TARGET FPP_INLINE void NAME(rows_matrix)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq,
                                         int is_f32, int block, int fused)
{
    const int64_t dim = plan->dim, ld = plan->ld, groups = (rows + block - 1) / block, size = is_f32 ? 4 : 8;
    for (int64_t k0 = 0; k0 < dim; k0 += FPP_DEPTH) {
        const int64_t depth = fpp_min(FPP_DEPTH, dim - k0);
        NAME(take_block)(plan, x, stride_bytes, rows, k0, depth, is_f32, fused);
        for (int64_t r = rows; r < groups * block; r++) {
            memset(plan->t + r * FPP_T_LD, 0, (size_t)fpp_round_up(depth, W) * sizeof(double));
        }
        /* What the next block reads comes into the cache during this product, a share beside each panel: the product leaves memory
         * idle, and reading leaves the arithmetic idle. */
        const int last = k0 + FPP_DEPTH >= dim;
        const char *next = x + (last ? rows * stride_bytes : (k0 + FPP_DEPTH) * size);
        const int64_t lines = (fpp_min(FPP_DEPTH, last ? dim : dim - k0 - FPP_DEPTH) * size + 63) / 64;
        const int64_t panels = (plan->out_dim + PANEL - 1) / PANEL;
        /* The panels end with the last output: what is missing to whole panels is in front of the first, where columns are few. */
        for (int64_t p = 0, out = -fpp_panels_before(plan->out_dim, PANEL); out < plan->out_dim; p++, out += PANEL) {
            int64_t end[CB];
            for (int c = 0; c < CB; c++) {
                /* Above the diagonal a panel is zero: skipping it changes no value, only the sign of a zero. */
                const int64_t after = out + (c + 1) * W;
                end[c] = after <= 0 ? 0 : plan->matrix_kind == FPP_MATRIX_LOWER ? fpp_min(depth, after - k0) : depth;
            }
            for (int64_t r = 0; end[CB - 1] <= 0 && r < rows; r++) {
                NAME(fetch)(next + r * stride_bytes, p * lines / panels, (p + 1) * lines / panels);
            }
            if (end[CB - 1] <= 0) {
                continue;
            }
            const double *panel = plan->panels + fpp_panel_begin(plan->matrix_kind, dim, PANEL, p) + k0 * PANEL;
            for (int64_t g = 0; g < groups; g++) {
                double *z = plan->z + g * block * ld + out;
                for (int64_t r = g * block; r < (g + 1) * block; r++) {
                    NAME(fetch)(next + r * stride_bytes, p * lines / panels, (p + 1) * lines / panels);
                }
                if (k0 == 0) {
                    NAME(product_block)(plan->t + g * block * FPP_T_LD, panel, end, z, ld, 1, block, fused);
                } else {
                    NAME(product_block)(plan->t + g * block * FPP_T_LD, panel, end, z, ld, 0, block, fused);
                }
            }
        }
    }
    double lanes[FPP_LANES][FPP_LANES] = {{0.0}};
    for (int64_t r = 0; r < rows; r++) {
        double *z = plan->z + r * ld;
        V acc[PARTS];
        for (int s = 0; s < PARTS; s++) {
            acc[s] = (V){0.0};
        }
        for (int64_t k = 0; k < plan->out_dim; k += FPP_LANES) {
            for (int s = 0; s < PARTS; s++) {
                const V y = NAME(load)(z + k + s * W) + NAME(load)(plan->offset + k + s * W);
                const V v = y * plan->inv_step;
                NAME(store)(z + k + s * W, v);
                acc[s] += v * v;
            }
        }
        for (int s = 0; s < PARTS; s++) {
            NAME(store)(lanes[r % FPP_LANES] + s * W, acc[s]);
        }
        if (r % FPP_LANES == FPP_LANES - 1 || r + 1 == rows) {
            NAME(fold)((const double(*)[FPP_LANES])lanes, norm_sq + r / FPP_LANES * FPP_LANES);
        }
    }
}

#if W > 2
/* plan->weights and rho; false where the bound would not hold, and NaN makes it false. */
TARGET static int32_t NAME(weigh)(fpp_plan *plan)
{
    const int64_t dim = plan->dim, panels = (plan->out_dim + PANEL - 1) / PANEL;
    double *const weights = plan->weights;
    int32_t usable = plan->inv_step >= 1e-100 && plan->inv_step <= 1e100 && plan->limit >= 1.0;
    memset(weights, 0, (size_t)fpp_round_up(dim, FPP_LANES) * sizeof(double));
#define EACH_PANEL                                                                                                              \
    for (int64_t p = 0; p < panels; p++) {                                                                                      \
        const double *const panel = plan->panels + fpp_panel_begin(plan->matrix_kind, dim, PANEL, p);                           \
        const int64_t after = (p + 1) * PANEL - fpp_panels_before(plan->out_dim, PANEL);                                        \
        const int64_t depth = plan->matrix_kind == FPP_MATRIX_LOWER ? fpp_min(after, dim) : dim;
    EACH_PANEL
        for (int64_t k = 0; k < depth; k++) {
            V sum = {0.0};
            for (int c = 0; c < CB; c++) {
                const V a = NAME(load)(panel + k * PANEL + c * W);
                sum += a * a;
            }
            weights[k] += NAME(lane_sum)(sum);
        }
    }
    for (int64_t k = 0; k < dim; k++) {
        /* A column of zeros would do, but not one of numbers whose squares vanish: they are not told apart. */
        weights[k] = __builtin_sqrt(weights[k]);
        usable &= weights[k] > 1e-140 && weights[k] < 1e140;
    }
    V largest = {0.0};
    EACH_PANEL
        V sums[CB];
        for (int c = 0; c < CB; c++) {
            sums[c] = (V){0.0};
        }
        for (int64_t k = 0; usable && k < depth; k++) {
            const double inverse = 1.0 / weights[k];
            for (int c = 0; c < CB; c++) {
                const V a = NAME(load)(panel + k * PANEL + c * W) * inverse;
                sums[c] += a * a;
            }
        }
        for (int c = 0; c < CB; c++) {
            const VI more = (VI)(sums[c] > largest);
            largest = (V)(((VI)sums[c] & more) | ((VI)largest & ~more));
        }
    }
#undef EACH_PANEL
    double rho_sq = 0.0;
    for (int l = 0; l < W; l++) {
        rho_sq = largest[l] > rho_sq ? largest[l] : rho_sq;
    }
    for (int64_t k = 0; k < dim; k++) {
        weights[k] *= plan->inv_step;
    }
    plan->rho = __builtin_sqrt(rho_sq);
    return usable;
}

TARGET static void NAME(tile_fused)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq)
{
    if (plan->is_f32) {
        NAME(rows_matrix)(plan, x, stride_bytes, rows, norm_sq, 1, RB, 1);
    } else {
        NAME(rows_matrix)(plan, x, stride_bytes, rows, norm_sq, 0, RB, 1);
    }
    NAME(fill_group)(plan, rows, norm_sq);
}

/* The squared norm of one row, and its z in place of row r of a tile, unfused: the same operations in the same order as in `tile`. */
TARGET static double NAME(row_alone)(const fpp_plan *plan, const char *x, int64_t r)
{
    fpp_plan one = *plan;
    double norm_sq[FPP_LANES];
    one.z += r * plan->ld;
    if (plan->is_f32) {
        NAME(rows_matrix)(&one, x, 0, 1, norm_sq, 1, 1, 0);
    } else {
        NAME(rows_matrix)(&one, x, 0, 1, norm_sq, 0, 1, 0);
    }
    return norm_sq[0];
}

/* Whether a number of the row is within e0 + e1 times its size of halfway between two integers; all are finite. */
TARGET FPP_INLINE int NAME(row_is_near)(const double *z, int64_t out_dim, double factor, double e0, double e1, int by_size)
{
    const VI sign = (VI){0} + (UINT64_C(1) << 63);
    V worst = {0.0};
    for (int64_t k = 0; k < out_dim; k += W) {
        const V p = NAME(load)(z + k) * factor;
        const V off = p - ((p + FPP_ROUNDER) - FPP_ROUNDER);
        V reach = (V)((VI)off & ~sign);
        reach = by_size ? reach + (V)((VI)p & ~sign) * e1 : reach;
        worst = LARGER(worst, reach);
    }
    return ANY_NOT_BELOW(worst, 0.5 - e0);
}

/* Bit r: the integers of row r, from a fused product, may differ from those of the unfused one. Written so that NaN says so. Where the
 * bound is small, the size of a number is put at the limit, which saves finding it. */
TARGET static uint64_t NAME(doubts)(const fpp_plan *plan, int64_t rows, const double *norm_sq, const double *factor,
                                    const double *outer)
{
    const double unit = 2.25 * (double)(plan->dim + 2) * 0x1p-53, limit = plan->limit * (1.0 + 0x1p-20);
    const double spread = __builtin_sqrt((double)plan->dim) / plan->limit, floor = 1.25 * (double)(plan->out_dim + 32) * 0x1p-53;
    uint64_t found = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double *const z = plan->z + r * plan->ld;
        const double scaled = unit * factor[r] * __builtin_sqrt(plan->tau_sq[r]);
        const double e0 = scaled * plan->rho + 0x1p-40, e1 = scaled * spread + floor;
        int near;
        if (!(e1 < 0x1p-6 && norm_sq[r] < 1e290)) {
            near = 1;
        } else if (e1 * limit < 0x1p-16) {
            near = NAME(row_is_near)(z, plan->out_dim, factor[r], e0 + e1 * limit, 0.0, 0);
        } else {
            near = NAME(row_is_near)(z, plan->out_dim, factor[r], e0, e1, 1);
        }
        if (!near && outer != NULL) {
            const double f = factor[r], grown = f * f < 0.5 ? e1 : e1 * (1.0 + 1.125 / (1.0 - f * f));
            near = f < 1.0 ? !(grown < 0x1p-6) || NAME(row_is_near)(z, plan->out_dim, outer[r], e0, grown, 1)
                           : !(norm_sq[r] * (1.0 + 4.0 * e1) < plan->limit * plan->limit);
        }
        found |= (uint64_t)near << r;
    }
    return found;
}
#endif

#undef MULTIPLY_ADD
#undef LARGER
#undef ANY_NOT_BELOW
