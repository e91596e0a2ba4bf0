/* The row pipeline for one vector width: included by rows.c once per instruction set, with
 *   W       doubles per vector (2, 4 or 8), a divisor of FPP_LANES
 *   NAME    makes a name unique to the instruction set
 *   TARGET  function attribute
 *   RB, CB  rows and vectors of the register block of the matrix product
 *   RG      rows that the rounding loops take together
 * Padding columns hold zero everywhere, so that tails need no second loop.
 */
typedef double NAME(vec) __attribute__((vector_size(8 * W)));
typedef double NAME(vec_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef float NAME(vecf_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef int64_t NAME(veci) __attribute__((vector_size(8 * W)));
typedef int32_t NAME(half) __attribute__((vector_size(4 * W)));
typedef int32_t NAME(half_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
#define V NAME(vec)
#define VI NAME(veci)
#define PANEL (CB * W)
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
        return is_f32 ? (V)__builtin_convertvector(*(const NAME(vecf_u) *)x32, V)
                      : (V)*(const NAME(vec_u) *)x64;
    }
#if W == 8
    const __mmask8 mask = (__mmask8)(left <= 0 ? 0U : (1U << left) - 1U);
    return is_f32 ? (V)_mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, x32))
                  : (V)_mm512_maskz_loadu_pd(mask, x64);
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

/* Rows of an identity or diagonal map. One loop over the row: it is in L1 when the rounding loops want it. */
TARGET FPP_INLINE void NAME(rows_diagonal)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq,
                                           int shifted, int general, int is_f32)
{
    const int64_t dim = plan->dim;
    const double inv_step = plan->inv_step;
    const double *restrict center = plan->center;
    const double *restrict diagonal = plan->diagonal;
    const double *restrict offset = plan->offset;
    for (int64_t r = 0; r < rows; r++) {
        const char *row = x + r * stride_bytes;
        double *restrict z = plan->z + r * plan->ld;
        V acc[PARTS];
        for (int s = 0; s < PARTS; s++) {
            acc[s] = (V){0.0};
        }
#define STEP(k, left)                                                                      \
    for (int s = 0; s < PARTS; s++) {                                                      \
        V t = NAME(load_x)(row, (k) + s * W, (left)-s * W, is_f32);                        \
        t = shifted ? t - NAME(load)(center + (k) + s * W) : t;                            \
        t = general ? t * NAME(load)(diagonal + (k) + s * W) : t;                          \
        t = general ? t + NAME(load)(offset + (k) + s * W) : t;                            \
        t = t * inv_step;                                                                  \
        NAME(store)(z + (k) + s * W, t);                                                   \
        acc[s] += t * t;                                                                   \
    }
        int64_t k = 0;
        for (; k + FPP_LANES <= dim; k += FPP_LANES) {
            STEP(k, FPP_LANES)
        }
        if (k < dim) {
            STEP(k, dim - k)
        }
#undef STEP
        double lanes[FPP_LANES];
        for (int s = 0; s < PARTS; s++) {
            NAME(store)(lanes + s * W, acc[s]);
        }
        norm_sq[r] = fpp_fold(lanes);
    }
}

/* RB rows by one panel of outputs: z += t . panel over `depth` columns, each output in ascending order of the column. */
TARGET FPP_INLINE void NAME(product_block)(const double *restrict t, const double *restrict panel, int64_t depth, double *restrict z,
                                           int64_t ld, int first)
{
    V acc[RB][CB];
    for (int r = 0; r < RB; r++) {
        for (int c = 0; c < CB; c++) {
            acc[r][c] = first ? (V){0.0} : NAME(load)(z + r * ld + c * W);
        }
    }
    for (int64_t k = 0; k < depth; k++) {
        V b[CB];
        for (int c = 0; c < CB; c++) {
            b[c] = NAME(load)(panel + k * PANEL + c * W);
        }
        for (int r = 0; r < RB; r++) {
            const double a = t[r * FPP_T_LD + k];
            for (int c = 0; c < CB; c++) {
                acc[r][c] += a * b[c];
            }
        }
    }
    for (int r = 0; r < RB; r++) {
        for (int c = 0; c < CB; c++) {
            NAME(store)(z + r * ld + c * W, acc[r][c]);
        }
    }
}

/* Rows of a LOWER or FULL map: a blocked matrix product, then offset, step and norm. */
TARGET FPP_INLINE void NAME(rows_matrix)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq,
                                         int is_f32)
{
    const int64_t dim = plan->dim, ld = plan->ld, groups = (rows + RB - 1) / RB;
    for (int64_t k0 = 0; k0 < dim; k0 += FPP_DEPTH) {
        const int64_t depth = fpp_min(FPP_DEPTH, dim - k0);
        for (int64_t r = 0; r < groups * RB; r++) {
            double *t = plan->t + r * FPP_T_LD;
            for (int64_t k = 0; k < depth; k += W) {
                NAME(store)(t + k, r < rows ? NAME(load_x)(x + r * stride_bytes, k0 + k, depth - k, is_f32)
                                                  - NAME(load)(plan->center + k0 + k)
                                            : (V){0.0});
            }
        }
        for (int64_t p = 0; p * PANEL < fpp_round_up(plan->out_dim, FPP_LANES); p++) {
            /* Above the diagonal a panel is zero: skipping it changes no value, only the sign of a zero. */
            const int64_t end = plan->matrix_kind == FPP_MATRIX_LOWER ? (p + 1) * PANEL - k0 : depth;
            if (end <= 0) {
                continue;
            }
            const double *panel = plan->panels + (p * dim + k0) * PANEL;
            for (int64_t g = 0; g < groups; g++) {
                double *z = plan->z + g * RB * ld + p * PANEL;
                if (k0 == 0) {
                    NAME(product_block)(plan->t + g * RB * FPP_T_LD, panel, fpp_min(depth, end), z, ld, 1);
                } else {
                    NAME(product_block)(plan->t + g * RB * FPP_T_LD, panel, fpp_min(depth, end), z, ld, 0);
                }
            }
        }
    }
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
        double lanes[FPP_LANES];
        for (int s = 0; s < PARTS; s++) {
            NAME(store)(lanes + s * W, acc[s]);
        }
        norm_sq[r] = fpp_fold(lanes);
    }
}

TARGET static void NAME(tile)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq)
{
    if (plan->matrix_kind >= FPP_MATRIX_LOWER) {
        if (plan->is_f32) {
            NAME(rows_matrix)(plan, x, stride_bytes, rows, norm_sq, 1);
        } else {
            NAME(rows_matrix)(plan, x, stride_bytes, rows, norm_sq, 0);
        }
    } else if (plan->plain) {
        if (plan->is_f32) {
            NAME(rows_diagonal)(plan, x, stride_bytes, rows, norm_sq, 0, 0, 1);
        } else {
            NAME(rows_diagonal)(plan, x, stride_bytes, rows, norm_sq, 0, 0, 0);
        }
    } else if (plan->shifted) {
        if (plan->is_f32) {
            NAME(rows_diagonal)(plan, x, stride_bytes, rows, norm_sq, 1, 0, 1);
        } else {
            NAME(rows_diagonal)(plan, x, stride_bytes, rows, norm_sq, 1, 0, 0);
        }
    } else {
        if (plan->is_f32) {
            NAME(rows_diagonal)(plan, x, stride_bytes, rows, norm_sq, 1, 1, 1);
        } else {
            NAME(rows_diagonal)(plan, x, stride_bytes, rows, norm_sq, 1, 1, 0);
        }
    }
    /* The rounding loops take RG rows at a time: give them zero rows to fill the last group. */
    for (int64_t r = rows; r % RG != 0; r++) {
        memset(plan->z + r * plan->ld, 0, (size_t)fpp_round_up(plan->out_dim, FPP_LANES) * sizeof(double));
    }
}

TARGET static void NAME(factors)(const fpp_plan *plan, int64_t rows, const double *restrict norm_sq, double *restrict factor)
{
    const double limit = plan->limit;
    for (int64_t r = 0; r < rows; r++) {
        const double norm = __builtin_sqrt(norm_sq[r]);
        const double shrink = limit / norm;
        factor[r] = norm > limit ? shrink : 1.0;
    }
}

TARGET FPP_INLINE double NAME(lane_sum)(V v)
{
    double sum = 0.0;
    for (int l = 0; l < W; l++) {
        sum += v[l];
    }
    return sum;
}

/* A row that fails the integer check counts as zero. The sum of squares is taken in doubles: integers up to quant_bound^2 <= 2^53
 * are exact there, a rounded sum never falls below a term or a true sum that exceeds 2^53, and infinity and NaN fail. So this one
 * comparison is the check of each |q_j| <= quant_bound and of the exact sum of squares together. */
TARGET FPP_INLINE int NAME(reject)(const fpp_plan *plan, double *z, double *factor, V sum_sq)
{
    if (FPP_LIKELY(NAME(lane_sum)(sum_sq) <= plan->quant_bound_sq)) {
        return 0;
    }
    memset(z, 0, (size_t)fpp_round_up(plan->out_dim, FPP_LANES) * sizeof(double));
    *factor = 1.0;
    return 1;
}

/* Adds the rounded rows to plan->sums. The column sums of a group wait in a second buffer until all its rows have passed. */
TARGET static void NAME(sum)(const fpp_plan *plan, int64_t rows, double *factor)
{
    const int64_t ld = plan->ld, width = fpp_round_up(plan->out_dim, FPP_LANES);
    double *restrict sums = plan->sums;
    double *restrict group = plan->sums + ld;
    for (int64_t r0 = 0; r0 < rows; r0 += RG) {
        double *restrict z = plan->z + r0 * ld;
        int rejected;
        do {
            V f[RG], sum_sq[RG];
            for (int r = 0; r < RG; r++) {
                f[r] = (V){0.0} + (r0 + r < rows ? factor[r0 + r] : 1.0);
                sum_sq[r] = (V){0.0};
            }
            for (int64_t k = 0; k < width; k += W) {
                V total = {0.0};
                for (int r = 0; r < RG; r++) {
                    const V q = (NAME(load)(z + r * ld + k) * f[r] + FPP_ROUNDER) - FPP_ROUNDER;
                    sum_sq[r] += q * q;
                    total += q;
                }
                NAME(store)(group + k, total);
            }
            rejected = 0;
            for (int r = 0; r < RG; r++) {
                if (r0 + r < rows) {
                    rejected |= NAME(reject)(plan, z + r * ld, factor + r0 + r, sum_sq[r]);
                }
            }
        } while (rejected);
        for (int64_t k = 0; k < width; k += W) {
            NAME(store)(sums + k, NAME(load)(sums + k) + NAME(load)(group + k));
        }
    }
}

/* The bits of FPP_ROUNDER + q are those of FPP_ROUNDER plus q: the low 32 are q modulo 2^32, with no cast that could overflow. */
TARGET static void NAME(quantise)(const fpp_plan *plan, int64_t rows, double *factor, int32_t *out)
{
    const int64_t ld = plan->ld, out_dim = plan->out_dim;
    for (int64_t r = 0; r < rows; r++) {
        double *restrict z = plan->z + r * ld;
        int32_t *restrict row = out + r * out_dim;
        int rejected;
        do {
            V sum_sq = {0.0};
            for (int64_t k = 0; k < out_dim; k += W) {
                const V raised = NAME(load)(z + k) * factor[r] + FPP_ROUNDER;
                const V q = raised - FPP_ROUNDER;
                sum_sq += q * q;
                const NAME(half) low = __builtin_convertvector((VI)raised, NAME(half));
                if (k + W <= out_dim) {
                    *(NAME(half_u) *)(row + k) = low;
                } else {
                    memcpy(row + k, &low, (size_t)(out_dim - k) * sizeof(int32_t));
                }
            }
            rejected = NAME(reject)(plan, z, factor + r, sum_sq);
        } while (rejected);
    }
}

/* Pairs of rows as int32 words of two int16, low half first: packed[panel][pair][column of the panel]. */
TARGET static void NAME(pack)(const fpp_plan *plan, int64_t rows, double *factor, int64_t width, int64_t panel_stride,
                              int32_t *packed)
{
    const int64_t ld = plan->ld, columns = fpp_round_up(plan->out_dim, FPP_LANES);
    for (int64_t r = 0; r < rows; r += 2) {
        double *restrict z = plan->z + r * ld;
        int32_t *restrict target = packed + r / 2 * width;
        double one = 1.0;
        double *f0 = factor + r, *f1 = r + 1 < rows ? f0 + 1 : &one;
        int rejected;
        do {
            V low_sq = {0.0}, high_sq = {0.0};
            for (int64_t begin = 0; begin < columns; begin += width) {
                int32_t *restrict words = target + begin / width * panel_stride;
                const int64_t end = fpp_min(width, columns - begin);
                for (int64_t k = 0; k < end; k += W) {
                    const V low = NAME(load)(z + begin + k) * *f0 + FPP_ROUNDER;
                    const V high = NAME(load)(z + ld + begin + k) * *f1 + FPP_ROUNDER;
                    const V q0 = low - FPP_ROUNDER, q1 = high - FPP_ROUNDER;
                    low_sq += q0 * q0;
                    high_sq += q1 * q1;
                    const VI word = ((VI)low & 0xffff) | ((VI)high << 16);
                    *(NAME(half_u) *)(words + k) = __builtin_convertvector(word, NAME(half));
                }
            }
            rejected = NAME(reject)(plan, z, f0, low_sq) | NAME(reject)(plan, z + ld, f1, high_sq);
        } while (rejected);
    }
}

static const fpp_row_kernels NAME(kernels) = {
    PANEL, NAME(tile), NAME(factors), NAME(sum), NAME(quantise), NAME(pack),
};

#undef V
#undef VI
#undef PANEL
#undef PARTS
#undef W
#undef NAME
#undef TARGET
#undef RB
#undef CB
#undef RG
