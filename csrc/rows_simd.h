/* The row pipeline for one vector width: included by rows.c once per instruction set, with
 *   W       doubles per vector (2, 4 or 8), a divisor of FPP_LANES
 *   NAME    makes a name unique to the instruction set
 *   TARGET  function attribute
 *   RB, CB  rows and vectors of the register block of the matrix product
 *   RG      rows that the rounding loops take together
 *   RT      rows that the loop over x takes together; RB, RG and RT divide 8
 *   SR      rows of a group of the stream of column sums, when rows are wide
 * Padding columns hold zero everywhere, so that tails need no second loop.
 */
typedef double NAME(vec) __attribute__((vector_size(8 * W)));
typedef double NAME(vec_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef float NAME(vecf_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef uint64_t NAME(bits) __attribute__((vector_size(8 * W)));
typedef uint64_t NAME(bits_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef int32_t NAME(half) __attribute__((vector_size(4 * W)));
typedef int32_t NAME(half_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
#define V NAME(vec)
#define VI NAME(bits)
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

/* Folds the lanes of eight rows as fpp_fold does those of one. */
TARGET FPP_INLINE void NAME(fold)(const double lanes[FPP_LANES][FPP_LANES], double *sums)
{
#if W == 8
    V half[4], quarter[2];
    for (int i = 0; i < 4; i++) {
        const V a = NAME(load)(lanes[2 * i]), b = NAME(load)(lanes[2 * i + 1]);
        half[i] = __builtin_shuffle(a, b, (VI){0, 1, 2, 3, 8, 9, 10, 11}) + __builtin_shuffle(a, b, (VI){4, 5, 6, 7, 12, 13, 14, 15});
    }
    for (int i = 0; i < 2; i++) {
        const V a = half[2 * i], b = half[2 * i + 1];
        quarter[i] = __builtin_shuffle(a, b, (VI){0, 1, 4, 5, 8, 9, 12, 13}) + __builtin_shuffle(a, b, (VI){2, 3, 6, 7, 10, 11, 14, 15});
    }
    NAME(store)(sums, __builtin_shuffle(quarter[0], quarter[1], (VI){0, 2, 4, 6, 8, 10, 12, 14})
                          + __builtin_shuffle(quarter[0], quarter[1], (VI){1, 3, 5, 7, 9, 11, 13, 15}));
#else
    for (int r = 0; r < FPP_LANES; r++) {
        sums[r] = fpp_fold(lanes[r]);
    }
#endif
}

/* `count` rows of an identity or diagonal map, side by side. */
TARGET FPP_INLINE void NAME(rows_together)(const fpp_plan *plan, const char *x, int64_t stride_bytes, double *restrict z,
                                           double (*restrict lanes)[FPP_LANES], int count, int shifted, int general, int is_f32)
{
    const int64_t dim = plan->dim, ld = plan->ld;
    const double inv_step = plan->inv_step;
    const double *restrict center = plan->center;
    const double *restrict diagonal = plan->diagonal;
    const double *restrict offset = plan->offset;
    V acc[RT][PARTS];
    for (int r = 0; r < count; r++) {
        for (int s = 0; s < PARTS; s++) {
            acc[r][s] = (V){0.0};
        }
    }
#define STEP(k, left)                                                                      \
    for (int s = 0; s < PARTS; s++) {                                                      \
        for (int r = 0; r < count; r++) {                                                  \
            V t = NAME(load_x)(x + r * stride_bytes, (k) + s * W, (left)-s * W, is_f32);   \
            t = shifted ? t - NAME(load)(center + (k) + s * W) : t;                        \
            t = general ? t * NAME(load)(diagonal + (k) + s * W) : t;                      \
            t = general ? t + NAME(load)(offset + (k) + s * W) : t;                        \
            t = t * inv_step;                                                              \
            NAME(store)(z + r * ld + (k) + s * W, t);                                      \
            acc[r][s] += t * t;                                                            \
        }                                                                                  \
    }
    int64_t k = 0;
    for (; k + FPP_LANES <= dim; k += FPP_LANES) {
        for (int r = 0; r < count; r++) {
            __builtin_prefetch(x + r * stride_bytes + k * (is_f32 ? 4 : 8) + FPP_AHEAD);
        }
        STEP(k, FPP_LANES)
    }
    if (k < dim) {
        STEP(k, dim - k)
    }
#undef STEP
    for (int r = 0; r < count; r++) {
        for (int s = 0; s < PARTS; s++) {
            NAME(store)(lanes[r] + s * W, acc[r][s]);
        }
    }
}

TARGET FPP_INLINE void NAME(rows_diagonal)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq,
                                           int shifted, int general, int is_f32)
{
    double lanes[FPP_LANES][FPP_LANES] = {{0.0}};
    int64_t r = 0;
    while (r < rows) {
        const int64_t at = r % FPP_LANES;
        double *z = plan->z + r * plan->ld;
        if (rows - r >= RT) {
            NAME(rows_together)(plan, x + r * stride_bytes, stride_bytes, z, lanes + at, RT, shifted, general, is_f32);
            r += RT;
        } else {
            NAME(rows_together)(plan, x + r * stride_bytes, stride_bytes, z, lanes + at, 1, shifted, general, is_f32);
            r += 1;
        }
        if (r % FPP_LANES == 0 || r == rows) {
            NAME(fold)((const double(*)[FPP_LANES])lanes, norm_sq + (r - 1) / FPP_LANES * FPP_LANES);
        }
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
    /* The rounding loops take groups of rows: give them zero rows to fill the last one. */
    for (int64_t r = rows; r % FPP_LANES != 0; r++) {
        norm_sq[r] = 0.0;
        memset(plan->z + r * plan->ld, 0, (size_t)fpp_round_up(plan->out_dim, FPP_LANES) * sizeof(double));
    }
}

/* limit / norm for rows longer than the limit, else limit / limit = 1: no branch, for half of the rows may be clipped. */
TARGET static void NAME(factors)(const fpp_plan *plan, int64_t rows, const double *restrict norm_sq, double *restrict factor)
{
    const double limit = plan->limit;
    for (int64_t r = 0; r < fpp_round_up(rows, FPP_LANES); r++) {
        const double norm = __builtin_sqrt(norm_sq[r]);
        factor[r] = limit / (norm > limit ? norm : limit);
    }
}

/* A row that fails the integer check counts as zero. The sum of squares is taken in doubles: integers up to quant_bound^2 <= 2^53
 * are exact there, a rounded sum never falls below a term or a true sum that exceeds 2^53, and infinity and NaN fail. So this one
 * comparison is the check of each |q_j| <= quant_bound and of the exact sum of squares together. */
TARGET FPP_INLINE int NAME(reject)(const fpp_plan *plan, double *z, double *factor, double sum_sq)
{
    if (FPP_LIKELY(sum_sq <= plan->quant_bound_sq)) {
        return 0;
    }
    memset(z, 0, (size_t)fpp_round_up(plan->out_dim, FPP_LANES) * sizeof(double));
    *factor = 1.0;
    return 1;
}

TARGET FPP_INLINE double NAME(lane_sum)(V v)
{
    double sum = 0.0;
    for (int l = 0; l < W; l++) {
        sum += v[l];
    }
    return sum;
}

TARGET FPP_INLINE int NAME(reject_group)(const fpp_plan *plan, double *z, double *factor, const V *sum_sq)
{
    double lanes[FPP_LANES][FPP_LANES] = {{0.0}}, sums[FPP_LANES];
    int rejected = 0;
    for (int r = 0; r < RG; r++) {
        NAME(store)(lanes[r], sum_sq[r]);
    }
    NAME(fold)((const double(*)[FPP_LANES])lanes, sums);
    for (int r = 0; r < RG; r++) {
        rejected |= NAME(reject)(plan, z + r * plan->ld, factor + r, sums[r]);
    }
    return rejected;
}

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

/* The low 32 bits of FPP_ROUNDER + q are q modulo 2^32: no cast that could overflow. */
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
            rejected = NAME(reject)(plan, z, factor + r, NAME(lane_sum)(sum_sq));
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
            rejected = NAME(reject)(plan, z, f0, NAME(lane_sum)(low_sq)) | NAME(reject)(plan, z + ld, f1, NAME(lane_sum)(high_sq));
        } while (rejected);
    }
}

#if W == 8
#define ADD_SQUARE(sum, q) ((V)_mm512_fmadd_pd(q, q, sum)) /* exact where it matters, as multiplying and adding is */
#else
#define ADD_SQUARE(sum, q) ((sum) + (q) * (q))
#endif

/* One step of the stream below: forms z of a new row and rounds an old one, whose factor is known, onto the sums. */
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
    for (int s = 0; s < PARTS; s++) {                                            \
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
        __builtin_prefetch(row + k * (is_f32 ? 4 : 8) + FPP_AHEAD);
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
 * 2^64 can be undone exactly, and is if a row fails. */
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

#if W == 8
static const fpp_row_kernels NAME(kernels);

/* Whole groups of eight rows of at most 64 columns under an identity map; returns the rows done. Norms of a group are taken while
 * the group before it is rounded, whose factors have had the time of a group to finish; z is formed again rather than stored. A
 * group with a row that is not finite or fails its check goes through the tiles instead. Variants that lost: z kept in registers
 * from the norm to the sums (twice as slow: the rounding of two rows filled the schedulers, waiting for a quotient), and z of a
 * group kept in memory (1.5 times). */
TARGET FPP_INLINE V NAME(load_masked)(const char *x, int64_t k, __mmask8 mask, int32_t is_f32)
{
    return is_f32 ? (V)_mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, (const float *)(const void *)x + k))
                  : (V)_mm512_maskz_loadu_pd(mask, (const double *)(const void *)x + k);
}

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
        VI total0 = {0}, total1 = {0}, total2 = {0}, total3 = {0}, total4 = {0}, total5 = {0}, total6 = {0}, total7 = {0};
        for (int64_t r = 0; r < 8; r++, next += stride_bytes, last += stride_bytes) {
            V norm = {0.0}, even_sq = {0.0}, odd_sq = {0.0};
            const V f = (V){0.0} + factor[r];
#define COLUMNS(v, square)                                                                            \
    if (count > (v)) {                                                                                \
        const __mmask8 mask = (v) + 1 < count ? (__mmask8)0xff : tail;                                \
        if (!is_f32 || (v) % 2 == 0) {                                                                \
            __builtin_prefetch(next + (v) * (is_f32 ? 32 : 64) + FPP_AHEAD);                          \
        }                                                                                             \
        V t = (v) + 1 < count ? NAME(load_x)(next, 8 * (v), 8, is_f32) : NAME(load_masked)(next, 8 * (v), mask, is_f32); \
        t = (shifted ? t - NAME(load)(center + 8 * (v)) : t) * inv_step;                              \
        norm += t * t;                                                                                \
        V z = (v) + 1 < count ? NAME(load_x)(last, 8 * (v), 8, is_f32) : NAME(load_masked)(last, 8 * (v), mask, is_f32); \
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
            COLUMNS(4, even_sq)
            COLUMNS(5, odd_sq)
            COLUMNS(6, even_sq)
            COLUMNS(7, odd_sq)
#undef COLUMNS
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
            FLUSH(0) FLUSH(1) FLUSH(2) FLUSH(3) FLUSH(4) FLUSH(5) FLUSH(6) FLUSH(7)
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

#define NARROW(count)                                                              \
    case count:                                                                    \
        if (plan->plain && plan->is_f32) {                                         \
            return NAME(sum_narrow)(plan, x, n, stride_bytes, count, 0, 1);               \
        } else if (plan->plain) {                                                  \
            return NAME(sum_narrow)(plan, x, n, stride_bytes, count, 0, 0);               \
        } else if (plan->is_f32) {                                                 \
            return NAME(sum_narrow)(plan, x, n, stride_bytes, count, 1, 1);               \
        } else {                                                                   \
            return NAME(sum_narrow)(plan, x, n, stride_bytes, count, 1, 0);               \
        }

TARGET static int64_t NAME(narrow)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes)
{
    switch ((plan->dim + 7) / 8) {
        NARROW(1)
        NARROW(2)
        NARROW(3)
        NARROW(4)
        NARROW(5)
        NARROW(6)
        NARROW(7)
        NARROW(8)
    default:
        return 0;
    }
}
#undef NARROW
#endif

/* Adds up as many rows as the stream can take, and returns their number. */
TARGET static int64_t NAME(stream)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes)
{
    const int64_t count = plan->matrix_kind >= FPP_MATRIX_LOWER ? 0 : n;
    if (count == 0) {
        return 0;
    }
#if W == 8
    if ((plan->plain || plan->shifted) && plan->dim <= 64) {
        return n < 8 ? 0 : NAME(narrow)(plan, x, n, stride_bytes);
    }
#endif
    if (plan->plain) {
        if (plan->is_f32) {
            NAME(sum_stream)(plan, x, count, stride_bytes, 0, 0, 1);
        } else {
            NAME(sum_stream)(plan, x, count, stride_bytes, 0, 0, 0);
        }
    } else if (plan->shifted) {
        if (plan->is_f32) {
            NAME(sum_stream)(plan, x, count, stride_bytes, 1, 0, 1);
        } else {
            NAME(sum_stream)(plan, x, count, stride_bytes, 1, 0, 0);
        }
    } else {
        if (plan->is_f32) {
            NAME(sum_stream)(plan, x, count, stride_bytes, 1, 1, 1);
        } else {
            NAME(sum_stream)(plan, x, count, stride_bytes, 1, 1, 0);
        }
    }
    return count;
}
#undef ADD_SQUARE

static const fpp_row_kernels NAME(kernels) = {
    PANEL, SR, NAME(tile), NAME(factors), NAME(sum), NAME(quantise), NAME(pack), NAME(stream),
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
#undef RT
#undef SR
