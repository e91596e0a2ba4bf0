/* Codes of densities by fused instructions, for mixtures of at most two components with independent columns: included by
 * hypotheses_simd.h alone, under the same macros.
 *
 * What a code is, is what `few_densities` and `quantise` make, without fused instructions and with divisions. Here the same polynomials are
 * taken by fused instructions, and a quotient from a reciprocal. A log density then differs from the other by less than
 *     E = 2^-51 (2 dim + 20) (|constant| + |top| + 100), u = 2^-53:
 * the rows less the means and their products with the factors are the same bits; the sums of dim squares differ by (2 dim + 3) u of themselves,
 * a log density of a component by (2 dim + 6) u (|constant| + |itself|), the log of their sum by four times that and some roundings. Of
 * components and hypotheses that are 73 below the top or lower nothing is seen, so |itself| <= |top| + 73. A code, 2,048 times the
 * distance of two such numbers, differs by less than 4096 E before it is rounded. A row has to be taken again, as ever, if a number of it is so
 * near to halfway between two codes, or if `exp` or `log` is so near to where it changes over from one polynomial to the next, where it jumps:
 * one in some ten thousand rows. Where a hypothesis has two equal components it is every row: then later rows are taken as ever at once. */

#if W == 8
#define FMA(a, b, c) ((R)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define LESS(c, a, b) ((R)_mm512_fnmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define ANY_ABOVE(a, most) (_mm512_cmp_pd_mask((__m512d)(a), _mm512_set1_pd(most), _CMP_NLE_UQ) != 0)
#else
#define FMA(a, b, c) ((R)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define LESS(c, a, b) ((R)_mm256_fnmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define ANY_ABOVE(a, most) (_mm256_movemask_pd(_mm256_cmp_pd((__m256d)(a), _mm256_set1_pd(most), _CMP_NLE_UQ)) != 0)
#endif
#if W == 8
#define LARGER_SIZE(a, b) ((R)_mm512_range_pd((__m512d)(a), (__m512d)(b), 11))
#else
#define LARGER_SIZE(a, b) NAME(larger)(SIZE(a), b)
#endif
#define SIZE(a) ((R)((B)(a) & ~((B)(L){0} + (UINT64_C(1) << 63))))

/* a / b to a last bit, for 0 <= a <= 1 and 2 <= b <= 3. */
TARGET FPP_INLINE R NAME(quotient)(R a, R b)
{
#if W == 8
    R y = (R)_mm512_rcp14_pd((__m512d)b);
    y = FMA(LESS((R){0.0} + 1.0, b, y), y, y);
    const R q = a * y;
    return FMA(LESS(a, q, b), y, q);
#else
    return a / b;
#endif
}

/* What `few_densities` does; bit r of the answer: row r was near to where a polynomial changes. */
TARGET FPP_INLINE uint32_t NAME(fused_densities)(const fpp_mixtures *mix, int components, int64_t panel, int64_t lane, const double *x,
                                                 double *logs, int64_t stride)
{
    const int64_t dim = mix->dim;
    uint32_t near = 0;
    R found[2][RT];
    for (int c = 0; c < components; c++) {
        const int64_t at = panel * components + c;
        const double *mean = mix->means + at * dim * FPP_PANEL + lane, *factor = mix->factors + at * dim * FPP_PANEL + lane;
        const R constant = *(const NAME(real_u) *)(mix->constants + at * FPP_PANEL + lane);
        R q[RT];
        for (int r = 0; r < RT; r++) {
            q[r] = (R){0.0};
        }
        for (int64_t a = 0; a < dim; a++) {
            const R m = *(const NAME(real_u) *)(mean + a * FPP_PANEL), f = *(const NAME(real_u) *)(factor + a * FPP_PANEL);
            for (int r = 0; r < RT; r++) {
                const R t = (x[r * dim + a] - m) * f;
                q[r] = FMA(t, t, q[r]);
            }
        }
        for (int r = 0; r < RT; r++) {
            found[c][r] = LESS(constant, q[r], (R){0.0} + 0.5);
        }
    }
    for (int r = 0; r < RT; r++) {
        R log = found[0][r];
        if (components > 1) {
            const R best = NAME(larger)(found[1][r], found[0][r]), other = NAME(smaller)(found[1][r], found[0][r]);
            const R gap = NAME(larger)(other - best, (R){0.0} - 40.0);
            const R shifted = FMA(gap, (R){0.0} + 0x1.71547652b82fep+0, (R){0.0} + 0x1.8p+52);
            const R e = LESS(gap, shifted - 0x1.8p+52, (R){0.0} + 0x1.62e42fefa39efp-1);
            R p = FMA(e, (R){0.0} + 1.0 / 24.0, (R){0.0} + 1.0 / 6.0);
            p = FMA(p, e, (R){0.0} + 0.5);
            p = FMA(p, e, (R){0.0} + 1.0);
            p = FMA(p, e, (R){0.0} + 1.0);
            const R less = (R)((B)p + ((B)shifted << 52)); /* the sum of both is 1 more */
            const R t = NAME(quotient)(less, less + 2.0), s = t * t;
            R l = FMA(s, (R){0.0} + 2.0 / 7.0, (R){0.0} + 2.0 / 5.0);
            l = FMA(l, s, (R){0.0} + 2.0 / 3.0);
            l = FMA(l, s, (R){0.0} + 2.0);
            log = FMA(t, l, best);
            /* Half of log 2, and a sum of 2 where there is a hypothesis: the last panel has absent ones, all of whose components are equal. */
            const R there = NAME(smaller)(less, best + 1e300);
            const int far_from_whole = ANY_ABOVE(SIZE(e), 0x1.62e42fefa39efp-2 - 0x1p-28), double_sum = ANY_ABOVE(there, 1.0 - 0x1p-28);
            near |= (uint32_t)(far_from_whole | double_sum) << r;
        }
        *(NAME(real_u) *)(logs + r * stride) = log;
    }
    return near;
}

/* What `quantise` does; whether a code may differ from that of the unfused numbers. `constant` is the largest of the constants. */
TARGET static int NAME(fused_quantise)(const fpp_mixtures *mix, const double *logs, double constant, int64_t is_finite, int64_t stride,
                                       int16_t *codes)
{
    R tops = *(const NAME(real_u) *)logs, farthest = {0.0};
    for (int64_t i = W; i < mix->panels * FPP_PANEL; i += W) {
        tops = NAME(larger)(*(const NAME(real_u) *)(logs + i), tops);
    }
    double top = tops[0];
    for (int l = 1; l < W; l++) {
        top = tops[l] > top ? tops[l] : top;
    }
    const double bound = 0x1p-39 * (double)(2 * mix->dim + 20) * (constant + fabs(top) + 100.0);
    if (!(bound < 0x1p-18)) {
        return 1;
    }
    const R lowered = (R){0.0} - top * (double)FPP_CODES_PER_NAT;
    for (int64_t p = 0; p < mix->panels; p++) {
        const double *from = logs + p * FPP_PANEL;
        int16_t *to = codes + p * stride;
        for (int64_t l = 0; l < FPP_PANEL; l += W) {
            const R below = FMA(*(const NAME(real_u) *)(from + l), (R){0.0} + (double)FPP_CODES_PER_NAT, lowered);
            const R kept = NAME(larger)(below, (R){0.0} - 65535.0), raised = kept + (0x1.8p+52 + FPP_TOP_CODE);
            *(NAME(narrow_u) *)(to + l) = __builtin_convertvector((L)raised & is_finite, NAME(narrow_u));
            farthest = LARGER_SIZE(kept - (raised - (0x1.8p+52 + FPP_TOP_CODE)), farthest);
        }
    }
    return ANY_ABOVE(farthest, 0.5 - bound);
}

#undef FMA
#undef LESS
#undef ANY_ABOVE
#undef SIZE
#undef LARGER_SIZE
