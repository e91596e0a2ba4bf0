/* Draws from one hypothesis against all others, for one vector width: included by hypotheses_simd.h alone, under the same macros.
 *
 * Only comparisons of codes are wanted, and the codes of `own` are the same for all pairs of a draw. So log densities are taken in single
 * precision, twice as many at a time, and held against the two edges of the code of `own`; what is so near to an edge that the bound below
 * does not decide it is taken again, alone, by the arithmetic of the codes. The counts are those of the codes, on every processor.
 *
 * The bound, with u = 2^-24, s = sqrt(1/2). Rows and means are taken less a centre and columns divided by a scale, in double, so that of a
 * component |s factor (x - mean)|^2 = T is a sum of squares of t = x f - g, with |x| <= N for the row and f <= reach of the hypothesis. In single
 * precision t is off by less than u (3 |x f| + 2 |t|), T with its sum over dim columns by less than u ((2 dim + 6) T + dim |constant|
 * + 6 reach N sqrt(T)) + 9 (u reach N)^2. With the largest constant C, an edge at E or above, and Q = C - E + 20, components with T beyond Q
 * are 13 below one that comes up to E - 1 - log k, k <= 16, or more; so
 *     A = u ((dim + 6) Q + (dim + k + 6) (C + Q)) + e,  margin = A + 6 u reach N sqrt(Q) + 9 (u reach N)^2
 * is more than the distance of a log density near E from the right one. Constants are up by a fiftieth or more for what is squared in u. Beyond
 * a margin of 1/4 the logarithm of the sum of components, which is log 2 above the largest at most, or log k, is held for nothing: log k more.
 * e is what the sum of k components adds. log(1 + e^-g) is a polynomial of degree 4 in each of 8 pieces of [0, 11] or more, through Chebyshev's
 * nodes: off by less than .13 h^5 / (120 2^9) = 2.04e-5 for h = 11/7, as a fifth derivative is below .13, and beyond 11 by e^-11 = 1.7e-5. The
 * `exp` of the codes is off by 5.9e-5 of itself, which is up to half of the sum of two; their `log` by 1.3e-5. So e = 2.1e-5 (k - 1)
 * + 4.4e-5, or 7.4e-5 for k > 2, or nothing for k = 1.
 * A draw in some four has a pair that is taken again. Where more than a quarter of all vectors hold one, as when hypotheses differ by next to
 * nothing, the other draws are coded as rows are.
 * With 1,000 candidates of two components in 3 columns a draw takes a quarter of the time of its codes. */

/* counts += rows of codes (panels, FPP_ROWS_MAX, FPP_PANEL) in which `own` beats a later candidate, and in which an earlier one beats it. */
TARGET static void NAME(count_codes)(const int16_t *codes, int64_t n, int64_t panels, int64_t own, int32_t *counts)
{
    const int16_t *mine = codes + own / FPP_PANEL * FPP_ROWS_MAX * FPP_PANEL + own % FPP_PANEL;
    for (int64_t p = 0; p < panels; p++) {
        int16_t above[FPP_PANEL] = {0}, below[FPP_PANEL] = {0};
        for (int64_t r = 0; r < n; r++) {
            const int16_t code = mine[r * FPP_PANEL];
            const int16_t *theirs = codes + (p * FPP_ROWS_MAX + r) * FPP_PANEL;
            for (int64_t l = 0; l < FPP_PANEL; l++) {
                above[l] = (int16_t)(above[l] + (code > theirs[l]));
                below[l] = (int16_t)(below[l] + (code < theirs[l]));
            }
        }
        for (int64_t l = 0; l < FPP_PANEL; l++) {
            counts[p * FPP_PANEL + l] += p * FPP_PANEL + l > own ? above[l] : below[l];
        }
    }
}

#if W > 2
typedef float NAME(single) __attribute__((vector_size(8 * W)));
typedef float NAME(single_u) __attribute__((vector_size(8 * W), aligned(4), may_alias));
typedef float NAME(half_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
#define S NAME(single)
#define SL (2 * W) /* lanes */
#define SR (W == 8 ? 8 : 4) /* rows at a time */
#define AT(p) (*(const NAME(single_u) *)(p))
#if W == 8
#define SPREAD(p) _mm512_set1_ps(p)
#define TIMES_LESS(a, b, c) ((S)_mm512_fmsub_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define TIMES_MORE(a, b, c) ((S)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define LESS_TIMES(c, a, b) ((S)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define LARGEST(a, b) ((S)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define SMALLEST(a, b) ((S)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define PICKED(table, at) ((S)_mm512_permutexvar_ps((__m512i)(at), (__m512)(table)))
#define NOT_ABOVE(a, b) ((uint32_t)_mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_NGT_UQ))
#else
#define SPREAD(p) _mm256_set1_ps(p)
#define TIMES_LESS(a, b, c) ((S)_mm256_fmsub_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define TIMES_MORE(a, b, c) ((S)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define LESS_TIMES(c, a, b) ((S)_mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define LARGEST(a, b) ((S)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SMALLEST(a, b) ((S)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define PICKED(table, at) ((S)_mm256_permutevar8x32_ps((__m256)(table), (__m256i)(at)))
#define NOT_ABOVE(a, b) ((uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_NGT_UQ)))
#endif

/* The rows of a group, and what is known of them. */
typedef struct {
    int64_t finite[FPP_ROWS_MAX];
    double own[FPP_ROWS_MAX], top[FPP_ROWS_MAX], code[FPP_ROWS_MAX]; /* log density of `own`, the largest, and the code of `own` */
    float below[FPP_ROWS_MAX], above[FPP_ROWS_MAX];                  /* edges of that code */
} NAME(group);

/* log(e^a + e^b) */
TARGET FPP_INLINE S NAME(joined)(S a, S b, const S *bend)
{
    const S most = LARGEST(a, b), gap = SMALLEST(most - SMALLEST(a, b), (S){0.0f} + (float)FPP_BEND_END);
    const S inverse = (S){0.0f} + FPP_BEND_INVERSE(SL), piece = TIMES_MORE(gap, inverse, (S){0.0f} + 0x1.8p+23f);
    const S r = TIMES_LESS(gap, inverse, piece - 0x1.8p+23f);
    S p = TIMES_MORE(PICKED(bend[4], piece), r, PICKED(bend[3], piece));
    p = TIMES_MORE(p, r, PICKED(bend[2], piece));
    p = TIMES_MORE(p, r, PICKED(bend[1], piece));
    p = TIMES_MORE(p, r, PICKED(bend[0], piece));
    return most + p;
}

/* Log densities of one component of a vector of hypotheses at SR rows. */
TARGET FPP_INLINE void NAME(single_component)(const float *parameters, const float *x, int64_t dim, S *found)
{
    for (int r = 0; r < SR; r++) {
        found[r] = AT(parameters);
    }
    for (int64_t k = 0; k < dim; k++) {
        const S factor = AT(parameters + (1 + 2 * k) * SL), shift = AT(parameters + (2 + 2 * k) * SL);
        for (int r = 0; r < SR; r++) {
            const S t = TIMES_LESS(SPREAD(x[r * dim + k]), factor, shift);
            found[r] = LESS_TIMES(found[r], t, t);
        }
    }
}

TARGET FPP_INLINE void NAME(single_densities)(const fpp_mixtures *mix, const float *parameters, const float *x, const S *bend, S *logs)
{
    NAME(single_component)(parameters, x, mix->dim, logs);
    for (int64_t c = 1; c < mix->components; c++) {
        S found[SR];
        NAME(single_component)(parameters + c * (1 + 2 * mix->dim) * SL, x, mix->dim, found);
        for (int r = 0; r < SR; r++) {
            logs[r] = NAME(joined)(logs[r], found[r], bend);
        }
    }
}

/* All log densities of a group; most (FPP_ROWS_MAX): what the largest is not below, of each lane. */
TARGET static void NAME(all_singles)(const fpp_draws *draws, const S *bend, S *most)
{
    const fpp_mixtures *const mix = draws->mix;
    float *logs = draws->logs;
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        most[r] = (S){0.0f} - INFINITY;
    }
    for (int64_t at = 0; at < draws->width; at += SL) {
        const float *parameters = draws->parameters + at * mix->components * (1 + 2 * mix->dim);
        const S margin = AT(draws->margin + at);
        for (int first = 0; first < FPP_ROWS_MAX; first += SR, logs += SR * SL) {
            S found[SR];
            NAME(single_densities)(mix, parameters, draws->points + first * mix->dim, bend, found);
            for (int r = 0; r < SR; r++) {
                *(NAME(single_u) *)(logs + r * SL) = found[r];
                most[first + r] = LARGEST(found[r] - margin, most[first + r]);
            }
        }
    }
}

/* Log densities of W hypotheses at one row, as codes are made of. */
TARGET static R NAME(alone)(const fpp_draws *draws, int64_t at, int64_t row)
{
    R log;
    double *const x = draws->rows + row * draws->mix->dim;
    NAME(few_densities)(draws->mix, at / FPP_PANEL, at % FPP_PANEL, x, 1, draws->work, (double *)&log, 0);
    return log;
}

/* The largest log density of each row: of those that may be it. */
TARGET static void NAME(find_tops)(const fpp_draws *draws, const S *most, NAME(group) *group)
{
    float least[FPP_ROWS_MAX];
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        least[r] = -INFINITY;
        for (int l = 0; l < SL; l++) {
            least[r] = most[r][l] > least[r] ? most[r][l] : least[r];
        }
        group->top[r] = group->own[r];
    }
    const float *logs = draws->logs;
    for (int64_t at = 0; at < draws->width; at += SL) {
        const S margin = AT(draws->margin + at);
        for (int r = 0; r < FPP_ROWS_MAX; r++, logs += SL) {
            /* Not below, and NaN is not below. */
            const uint32_t may = NOT_ABOVE(SPREAD(least[r]), AT(logs) + margin);
            for (int half = 0; may != 0 && half < 2; half++) {
                if (may >> half * W & ((1u << W) - 1)) {
                    const R log = NAME(alone)(draws, at + half * W, r);
                    for (int l = 0; l < W; l++) {
                        group->top[r] = log[l] > group->top[r] ? log[l] : group->top[r];
                    }
                }
            }
        }
    }
}

/* A code less FPP_TOP_CODE, as `quantise` makes it. */
FPP_INLINE double NAME(code_of)(double log, double top)
{
    const double below = (log - top) * (double)FPP_CODES_PER_NAT, kept = below > -65535.0 ? below : -65535.0;
    return kept + 0x1.8p+52 - 0x1.8p+52;
}

static void NAME(find_edges)(NAME(group) *group, int64_t rows)
{
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        const double code = NAME(code_of)(group->own[r], group->top[r]), step = 1.0 / FPP_CODES_PER_NAT;
        const int counts = r < rows && group->finite[r];
        group->code[r] = code;
        group->below[r] = counts && code > -65535.0 ? (float)(group->top[r] + (code - 0.5) * step) : -INFINITY;
        group->above[r] = counts ? (float)(group->top[r] + (code + 0.5) * step) : INFINITY;
    }
}

/* Counts of one vector of hypotheses, all later than `own` (1), all earlier (-1) or with it (0); how many rows had to be looked at again. */
TARGET FPP_INLINE int64_t NAME(compare)(const fpp_draws *draws, const NAME(group) *group, int64_t at, int side, int32_t *counts)
{
    const float *logs = draws->logs + at * FPP_ROWS_MAX;
    const S margin = AT(draws->margin + at);
    uint32_t doubts[FPP_ROWS_MAX];
    int64_t again = 0;
    I wins = {0}, later = {0};
    for (int l = 0; l < SL; l++) {
        later[l] = -(int32_t)(at + l > draws->own);
    }
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        const S log = AT(logs + r * SL), over = log - group->below[r], under = group->above[r] - log;
        const S off = side > 0 ? over : side < 0 ? under : (S)(((I)over & later) | ((I)under & ~later));
        wins -= (I)(off < -margin);
        doubts[r] = NOT_ABOVE((S)((I)off & INT32_MAX), margin);
    }
    *(NAME(int_u) *)(counts + at) += wins;
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        for (int half = 0; doubts[r] != 0 && half < 2; half++) {
            const uint32_t some = doubts[r] >> half * W & ((1u << W) - 1);
            if (some == 0 || !(group->above[r] < INFINITY)) {
                continue;
            }
            const R log = NAME(alone)(draws, at + half * W, r);
            for (int l = 0; l < W; l++) {
                const int64_t j = at + half * W + l;
                const double code = NAME(code_of)(log[l], group->top[r]);
                counts[j] += (some >> l & 1) && (j > draws->own ? code < group->code[r] : code > group->code[r]);
            }
        }
        again += doubts[r] != 0;
    }
    return again;
}

/* The parameters in single precision, less the centre of `own`, in units of its factors; whether `own` has any. */
TARGET static int NAME(make_single)(const fpp_draws *draws)
{
    const fpp_mixtures *const mix = draws->mix;
    const int64_t dim = mix->dim, own = draws->own;
    for (int64_t k = 0; k < dim; k++) {
        double sum = 0.0, largest = 0.0, there = 0.0;
        for (int64_t c = 0; c < mix->components; c++) {
            const int64_t place = own / FPP_PANEL * mix->components + c, entry = (place * dim + k) * FPP_PANEL + own % FPP_PANEL;
            if (mix->constants[place * FPP_PANEL + own % FPP_PANEL] > -1e299) {
                sum += mix->means[entry];
                largest = mix->factors[entry] > largest ? mix->factors[entry] : largest;
                there += 1.0;
            }
        }
        draws->center[k] = sum / there;
        draws->scale[k] = largest;
        if (!(fabs(draws->center[k]) < 1e300 && largest > 1e-290 && largest < 1e290)) {
            return 0;
        }
    }
    float *to = draws->parameters;
    for (int64_t at = 0; at < draws->width; at += W) {
        const int64_t half = at % SL;
        float *const first = to + half;
        const float *const last = first + mix->components * (1 + 2 * dim) * SL;
        R reach = {0.0}, sizes = {0.0}; /* the sum of sizes is NaN where one is */
        float *p = first;
        for (int64_t c = 0; c < mix->components; c++) {
            const int64_t place = at / FPP_PANEL * mix->components + c;
            const R constant = *(const NAME(real_u) *)(mix->constants + place * FPP_PANEL + at % FPP_PANEL);
            const L there = constant > -1e299;
            sizes += (R)((L)((R){0.0} + INFINITY) & ~(L)(constant < 1e30));
            *(NAME(half_u) *)p = __builtin_convertvector(NAME(larger)(constant, (R){0.0} - 1e37), NAME(half_u));
            p += SL;
            for (int64_t k = 0; k < dim; k++, p += 2 * SL) {
                const int64_t entry = (place * dim + k) * FPP_PANEL + at % FPP_PANEL;
                const R mean = *(const NAME(real_u) *)(mix->means + entry), given = *(const NAME(real_u) *)(mix->factors + entry);
                const R factor = (R)((L)(given * 0x1.6a09e667f3bcdp-1) & there), shift = (R)((L)((mean - draws->center[k]) * factor) & there);
                const R scaled = factor / draws->scale[k];
                *(NAME(half_u) *)p = __builtin_convertvector(scaled, NAME(half_u));
                *(NAME(half_u) *)(p + SL) = __builtin_convertvector(shift, NAME(half_u));
                reach = NAME(larger)((R)((L)scaled & INT64_MAX), reach);
                sizes += (R)((L)scaled & INT64_MAX) + (R)((L)shift & INT64_MAX);
            }
        }
        for (int64_t l = 0; l < W; l++) {
            const int held = reach[l] < 1e9 && sizes[l] < 1e17;
            draws->reach[at + l] = held ? (float)reach[l] : INFINITY;
            for (p = first + l; !held && p < last; p += SL) {
                *p = 0.0f; /* too large for single precision: every draw is in doubt, whatever stands here */
            }
        }
        to += half != 0 ? mix->components * (1 + 2 * dim) * SL : 0;
    }
    return 1;
}

/* Points and margins of a group whose log densities of `own` are known; whether single precision can tell anything. */
TARGET static int NAME(make_margins)(const fpp_draws *draws, const NAME(group) *group, double constant)
{
    const int64_t dim = draws->mix->dim, k = draws->mix->components;
    double least = INFINITY, farthest_sq = 1e-6;
    for (int64_t r = 0; r < FPP_ROWS_MAX; r++) {
        double sum = 0.0;
        for (int64_t j = 0; j < dim; j++) {
            const double x = group->finite[r] ? (draws->rows[r * dim + j] - draws->center[j]) * draws->scale[j] : 0.0;
            draws->points[r * dim + j] = fabs(x) < 1e9 ? (float)x : 0.0f;
            sum += x * x;
        }
        farthest_sq = sum > farthest_sq || !(sum < INFINITY) ? sum : farthest_sq;
        least = group->finite[r] && group->own[r] < least ? group->own[r] : least;
    }
    least = least < INFINITY ? least : 0.0;
    const double u = 0x1p-24, farthest = sqrt(farthest_sq), q = constant - least + 20.0, joint = k == 1 ? 0.0 : 2.1e-5 * (double)(k - 1) + (k > 2 ? 7.4e-5 : 4.4e-5);
    const double a = 1.02 * u * ((double)(dim + 6) * q + (double)(dim + k + 6) * (constant + q)) + joint;
    const double b = 6.2 * u * farthest * sqrt(q), c = 10.0 * (u * farthest) * (u * farthest);
    if (!(farthest < 1e8 && q < 1e8)) {
        return 0;
    }
    const float more = k == 1 ? 0.0f : (float)log((double)k) + 0.01f;
    for (int64_t at = 0; at < draws->width; at += SL) {
        const S reach = AT(draws->reach + at), margin = ((S){0.0f} + (float)c * reach + (float)b) * reach + (float)a;
        *(NAME(single_u) *)(draws->margin + at) = margin + (S)((I)((S){0.0f} + more) & (I)(margin > 0.25f));
    }
    return draws->margin[draws->own] < 0x1p-6f;
}

/* Adds what the rows of a group say; -1 if they have to be coded, else how many vectors of hypotheses had to be looked at again. */
TARGET static int64_t NAME(single_group)(const fpp_draws *draws, NAME(group) *group, int64_t rows, double constant, const S *bend,
                                         int32_t *counts)
{
    const int64_t own = draws->own, dim = draws->mix->dim, at = own / W * W, before = own / SL * SL;
    for (int64_t r = 0; r < FPP_ROWS_MAX; r += RT) {
        double logs[RT * W];
        NAME(few_densities)(draws->mix, at / FPP_PANEL, at % FPP_PANEL, draws->rows + r * dim, RT, draws->work, logs, W);
        for (int64_t i = 0; i < RT; i++) {
            group->own[r + i] = logs[i * W + own % W];
        }
    }
    if (!NAME(make_margins)(draws, group, constant)) {
        return -1;
    }
    S most[FPP_ROWS_MAX];
    NAME(all_singles)(draws, bend, most);
    NAME(find_tops)(draws, most, group);
    NAME(find_edges)(group, rows);
    int64_t again = 0;
    for (int64_t v = 0; v < before; v += SL) {
        again += NAME(compare)(draws, group, v, -1, counts);
    }
    again += NAME(compare)(draws, group, before, 0, counts);
    for (int64_t v = before + SL; v < draws->width; v += SL) {
        again += NAME(compare)(draws, group, v, 1, counts);
    }
    return again;
}
#endif

TARGET static void NAME(count_draws)(const fpp_draws *draws, const double *x, int64_t n, int32_t *counts)
{
    const fpp_mixtures *const mix = draws->mix;
    double constant;
    int fused = NAME(may_fuse)(mix, &constant);
#if W > 2
    float pieces[FPP_BEND_TERMS * SL];
    S bend[FPP_BEND_TERMS];
    NAME(group) group;
    int64_t *const finite = group.finite;
    int single = n > 0 && !mix->lower && mix->dim <= 1024 && mix->components <= 16 && NAME(make_single)(draws);
    make_bend(SL, pieces);
    for (int i = 0; i < FPP_BEND_TERMS; i++) {
        bend[i] = AT(pieces + i * SL);
    }
#else
    int64_t finite[FPP_ROWS_MAX];
#endif
    for (int64_t first = 0; first < n; first += FPP_ROWS_MAX) {
        const int64_t rows = n - first < FPP_ROWS_MAX ? n - first : FPP_ROWS_MAX;
        NAME(take_rows)(x, first, n, mix->dim, draws->rows, finite);
#if W > 2
        const int64_t again = single ? NAME(single_group)(draws, &group, rows, constant, bend, counts) : -1;
        if (again >= 0) {
            single = again * SL <= draws->width * FPP_ROWS_MAX / 4;
            continue;
        }
#endif
        NAME(code_group)(mix, draws->rows, finite, rows, FPP_ROWS_MAX, constant, &fused, draws->work, draws->codes);
        NAME(count_codes)(draws->codes, rows, mix->panels, draws->own, counts);
    }
}

#if W > 2
#undef S
#undef SL
#undef SR
#undef AT
#undef SPREAD
#undef TIMES_LESS
#undef TIMES_MORE
#undef LESS_TIMES
#undef LARGEST
#undef SMALLEST
#undef PICKED
#undef NOT_ABOVE
#endif
