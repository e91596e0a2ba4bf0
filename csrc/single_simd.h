/* Log densities in single precision, how far they may be from those that codes are made of, and what they are made from, for one vector
 * width: included by draws_simd.h alone, under the same macros.
 *
 * The bound, with u = 2^-24, s = sqrt(1/2). Rows and means are taken less a centre and columns divided by a scale, in double, so that of a
 * component |s factor (x - mean)|^2 = T is a sum of squares of t = x f - g, with |x| <= N for the row and f <= reach of the hypothesis. In single
 * precision t is off by less than u (3 |x f| + 2 |t|), T with its sum over dim columns by less than u ((2 dim + 6) T + (dim + 1) |constant|
 * + 6 reach N sqrt(T)) + 9 (u reach N)^2. Let C be the largest of the k constants of the hypothesis, D the largest size of one, and E an edge
 * or below it. Where the sum of components comes up to E - log k - .3, the largest has T <= C - E + 2 log k + .3, and the error of one that is
 * g below that counts 1 / (1 + e^g) times, up to 9/8: as g / (1 + e^g) < .28, all are together within the bound for
 *     Q = C - E + 2 log k + .32 k,
 *     margin = u ((2 dim + k + 12) Q + (dim + k + 6) D) + 6 u reach N sqrt(Q) + 9 (u reach N)^2 + e.
 * Constants are up by a fiftieth or more for what is squared in u, and by some u (D + Q) for the roundings of the sum, the edge and the
 * difference. Sums further below do not come up to E either: components err upwards by no more than that, as T - 6 u reach N sqrt(T) grows in T
 * but for 9 (u reach N)^2. All this for margins below 1/32; beyond, log k more makes up for a sum that is wrong altogether.
 * e is what the sum of k components adds. log(1 + e^-g) is a polynomial of degree 4 in each of 8 or 16 pieces of [0, 11] or [0, 13.5], through
 * Chebyshev's nodes: off by less than .13 h^5 / (120 2^9), 2.04e-5 or 1.3e-6 for pieces of h = 11/7 or .9, as a fifth derivative is below .13,
 * and beyond by e^-11 = 1.7e-5 or e^-13.5 = 1.4e-6. Of two components the codes' `exp` is off by up to 2.45e-5 of the sum (at g = log(2) / 2),
 * their `log` by 1.3e-5 (at g = 0, where `exp` is exact, and 1.4e-6 at the former), together 2.7e-5; of more, `exp` by up to 5.9e-5.
 * A component 256 times narrower than the broadest of its hypothesis, in the units above, would make a margin too wide for all rows: its reach
 * n is left out of N reach where its T is found to be (sqrt(Q + 16) + 3 u n N)^2 or more, so that it is 16 or more below E and counts for
 * nothing; else the row is in doubt. */

typedef float NAME(single) __attribute__((vector_size(8 * W)));
typedef float NAME(single_u) __attribute__((vector_size(8 * W), aligned(4), may_alias));
typedef float NAME(half_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));
#define S NAME(single)
#define SL (2 * W) /* lanes */
#define EACH (2 + 2 * dim) /* vectors of parameters of a component */
#define SR (W == 8 ? 8 : 4) /* rows at a time */
#define DOUBTS_MAX 1024 /* enough for a vector of each row: the list is looked through when there may be no room for another */
#define AT(p) (*(const NAME(single_u) *)(p))
#if W == 8
#define SPREAD(p) _mm512_set1_ps(p)
#define TIMES_LESS(a, b, c) ((S)_mm512_fmsub_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define TIMES_MORE(a, b, c) ((S)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define LESS_TIMES(c, a, b) ((S)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define LARGEST(a, b) ((S)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define SMALLEST(a, b) ((S)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define PICKED(table, at) ((S)_mm512_permutexvar_ps((__m512i)(at), (__m512)(table)))
#define ROOT(a) ((S)_mm512_sqrt_ps((__m512)(a)))
#define NOT_ABOVE(a, b) ((uint32_t)_mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_NGT_UQ))
#else
#define SPREAD(p) _mm256_set1_ps(p)
#define TIMES_LESS(a, b, c) ((S)_mm256_fmsub_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define TIMES_MORE(a, b, c) ((S)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define LESS_TIMES(c, a, b) ((S)_mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define LARGEST(a, b) ((S)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SMALLEST(a, b) ((S)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define PICKED(table, at) ((S)_mm256_permutevar8x32_ps((__m256)(table), (__m256i)(at)))
#define ROOT(a) ((S)_mm256_sqrt_ps((__m256)(a)))
#define NOT_ABOVE(a, b) ((uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_NGT_UQ)))
#endif

/* The rows of a group, and what is known of them. */
typedef struct {
    int64_t finite[FPP_ROWS_MAX];
    double own[FPP_ROWS_MAX], top[FPP_ROWS_MAX], code[FPP_ROWS_MAX]; /* log density of `own`, the largest, and the code of `own` */
    float below[FPP_ROWS_MAX], above[FPP_ROWS_MAX];                  /* edges of that code */
    uint16_t counted[FPP_ROWS_MAX];                                  /* all bits for a row that counts */
    int64_t doubts, doubtful[DOUBTS_MAX];                            /* 2^12 (first hypothesis of a vector) + 2^8 row + mask of W lanes */
} NAME(group);

/* log(e^a + e^b) */
TARGET FPP_INLINE S NAME(joined)(S a, S b, const S *bend)
{
    const S most = LARGEST(a, b), gap = SMALLEST(most - SMALLEST(a, b), (S){0.0f} + FPP_BEND_END(SL));
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
        const S factor = AT(parameters + (2 + 2 * k) * SL), shift = AT(parameters + (3 + 2 * k) * SL);
        for (int r = 0; r < SR; r++) {
            const S t = TIMES_LESS(SPREAD(x[r * dim + k]), factor, shift);
            found[r] = LESS_TIMES(found[r], t, t);
        }
    }
}

TARGET FPP_INLINE void NAME(single_densities)(const fpp_mixtures *mix, const float *parameters, const float *x, const S *bend, int narrow,
                                              S floor, S *logs)
{
    const int64_t dim = mix->dim;
    I doubt[SR] = {{0}};
    NAME(single_component)(parameters, x, dim, logs);
    for (int64_t c = 1; c < mix->components; c++) {
        S found[SR];
        parameters += EACH * SL;
        NAME(single_component)(parameters, x, dim, found);
        const S limit = LARGEST(AT(parameters + SL), floor);
        for (int r = 0; r < SR; r++) {
            logs[r] = NAME(joined)(logs[r], found[r], bend);
            doubt[r] |= narrow ? (I)(found[r] > limit) : (I){0};
        }
    }
    for (int r = 0; narrow && r < SR; r++) {
        logs[r] = (S)((I)logs[r] | doubt[r]); /* all bits: not a number */
    }
}

/* The parameters in single precision, less the centre of `own`, in units of its factors; false where some are not finite. */
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
    for (int64_t at = 0; at < draws->width; at += W) {
        float *const to = draws->parameters + at / SL * SL * mix->components * EACH + at % SL;
        R reach[FPP_DRAWN_COMPONENTS], highest = {0.0}, size = {0.0}, sizes = {0.0}; /* the sum of sizes is NaN where one is */
        for (int64_t c = 0; c < mix->components; c++) {
            const int64_t place = at / FPP_PANEL * mix->components + c;
            const R constant = *(const NAME(real_u) *)(mix->constants + place * FPP_PANEL + at % FPP_PANEL);
            const L there = constant > -1e299;
            const R given = (R)(((L)constant & there) | ((L)((R){0.0} - 1e9) & ~there));
            float *p = to + c * EACH * SL;
            highest = c == 0 ? given : NAME(larger)(given, highest);
            size = NAME(larger)((R)((L)constant & there & INT64_MAX), size);
            sizes += (R)((L)((R){0.0} + INFINITY) & ~(L)(constant < 1e30));
            *(NAME(half_u) *)p = __builtin_convertvector(NAME(larger)(constant, (R){0.0} - 1e37), NAME(half_u));
            *(NAME(half_u) *)(p + SL) = (NAME(half_u)){0.0f} + INFINITY;
            reach[c] = (R){0.0};
            for (int64_t k = 0; k < dim; k++) {
                const int64_t entry = (place * dim + k) * FPP_PANEL + at % FPP_PANEL;
                const R mean = *(const NAME(real_u) *)(mix->means + entry), inverse = *(const NAME(real_u) *)(mix->factors + entry);
                const R factor = (R)((L)(inverse * 0x1.6a09e667f3bcdp-1) & there), shift = (R)((L)((mean - draws->center[k]) * factor) & there);
                const R scaled = factor / draws->scale[k];
                p += 2 * SL;
                *(NAME(half_u) *)p = __builtin_convertvector(scaled, NAME(half_u));
                *(NAME(half_u) *)(p + SL) = __builtin_convertvector(shift, NAME(half_u));
                reach[c] = NAME(larger)((R)((L)scaled & INT64_MAX), reach[c]);
                sizes += (R)((L)scaled & INT64_MAX) + (R)((L)shift & INT64_MAX);
            }
        }
        *(NAME(half_u) *)(draws->highest + at) = __builtin_convertvector(highest, NAME(half_u));
        *(NAME(half_u) *)(draws->size + at) = __builtin_convertvector(size, NAME(half_u));
        int narrow = at % SL != 0 ? draws->narrow[at / SL] : 0;
        for (int64_t l = 0; l < W; l++) {
            double each[FPP_DRAWN_COMPONENTS] = {0.0};
            for (int64_t c = 0; c < mix->components; c++) {
                each[c] = reach[c][l];
            }
            if (!(sizes[l] < INFINITY)) {
                return 0;
            }
            narrow |= limit_narrow(mix, to + l, SL, each, draws->narrowest + at + l);
            draws->reach[at + l] = (float)each[0];
            if (!(each[0] < 1e9 && sizes[l] < 1e17) || at + l == own) {
                draws->reach[at + l] = at + l == own ? 0.0f : INFINITY;
                for (int64_t i = 0; i < mix->components * EACH; i++) {
                    /* `own` is known by itself; what is too large is in doubt whatever stands here. */
                    to[i * SL + l] = at + l == own && i % EACH == 0 ? -1e30f : 0.0f;
                }
            }
        }
        draws->narrow[at / SL] = narrow;
    }
    return 1;
}

/* Points and margins of a group whose log densities of `own` are known; whether single precision can tell anything. */
TARGET static int NAME(make_margins)(const fpp_draws *draws, const NAME(group) *group)
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
    if (!(farthest_sq < 1e16 && fabs(least) < 1e8)) {
        return 0;
    }
    const double u = 0x1p-24, farthest = sqrt(farthest_sq), log_k = log((double)k), room = 2.0 * log_k + 0.32 * (double)k + 0.01;
    const double joint = k == 1 ? 0.0 : (SL == 16 ? 2e-6 : 2.1e-5) * (double)(k - 1) + (k > 2 ? 7.4e-5 : 2.7e-5);
    const float a = (float)(1.02 * u * (double)(2 * dim + k + 12)), a_size = (float)(1.02 * u * (double)(dim + k + 6));
    const float b = (float)(6.2 * u * farthest), c = (float)(10.0 * (u * farthest) * (u * farthest));
    const float more = k == 1 ? 0.0f : (float)log_k + 0.01f, limit = (float)(3.2 * u * farthest);
    for (int64_t at = 0; at < draws->width; at += SL) {
        const S reach = AT(draws->reach + at), size = AT(draws->size + at);
        const S q = LARGEST(AT(draws->highest + at) + (float)(room - least), (S){0.0f} + (float)room);
        const S margin = (c * reach + b * ROOT(q)) * reach + a * q + a_size * size + (float)joint;
        const S distance = ROOT(q + 16.0f) + limit * AT(draws->narrowest + at);
        *(NAME(single_u) *)(draws->margin + at) = margin + (S)((I)((S){0.0f} + more) & (I)(margin > 0x1p-5f));
        *(NAME(single_u) *)(draws->floor + at) = AT(draws->highest + at) - distance * distance;
    }
    return 1;
}
