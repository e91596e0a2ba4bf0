/* Clip factors for one vector width: limit / norm for rows longer than the limit, else 1. Included by rows_simd.h alone, under the same
 * macros, for rows of few columns.
 *
 * A factor is a root and a quotient, each rounded once: 51 cycles of the divider for eight of both, in which AVX-512 adds up eight rows
 * of four columns and has time left. There both come from an estimate of 1 / root in 18 operations that leave the divider alone,
 * and are shown to be the rounded ones; where that cannot be shown, root and quotient are taken.
 *
 * Let a be the squared norm, u = 2^-53, and y0 the estimate of the processor: y0 = (1 + eta) / sqrt(a), |eta| <= 2^-14. Then w = 1 - a y0^2
 * has |w| < 2^-12.99, and 1 / sqrt(a) is y0 (1 - w)^(-1/2) = y0 (1 + w / 2 + 3 w^2 / 8 + ...), where what is left out is below 2^-40.5. In
 * place of w stands e, that is w + 2^-36 but for an error below 1.1 u, and roundings add 4 u, which makes
 *     y = (1 + d) / sqrt(a)   with   2^-37 - 2^-40 <= d <= 2^-37 + 2^-40:
 * sure to be too large, and by that little.
 *     ROOT: a y (1 + u) and one Newton step with y / 2 leave an error of 2^-73 before the last rounding, that to g. Let r = a - g^2,
 * rounded once. sqrt(a) is g + (a - g^2) / (sqrt(a) + g), and g + r y / 2 lies as far from g or farther, on the same side, because
 * 1 / (sqrt(a) + g) <= (1 + u) / (2 sqrt(a)) <= (1 - u) y / 2. If g + r y / 2 rounds to g, so does all that lies between it and g, as
 * rounding is monotone: g is the rounded root. It fails where sqrt(a) is next to the middle of two numbers, by 2^-37 of their distance.
 *     QUOTIENT: limit y and one step with y leave 2^-73 before the rounding to q. With r = limit - g q, limit / g is q + (limit - g q) / g,
 * and 1 / g <= (1 + 2 u) / sqrt(a) <= (1 - u) y: again, if q + r y rounds to q, then q is the rounded quotient.
 * About one row in 2^21 fails a test. Nothing may underflow or overflow: a limit outside of 2^-50 to 2^50 makes e NaN, and every test
 * fails; otherwise longer rows have squares above 2^-101, and no number on the way leaves the range, unless a is infinite, which makes
 * NaN. Rows that are not longer get 1 in the end, whatever was computed. A rounded root may be the limit or less although the square
 * is more: its quotient is then 1 or more, and 1 is taken.
 *
 * What lost: the same with AVX2, from an estimate in single precision with one term more (four columns 1.7 readings in place of 1.25; eight
 * rows take twice as many operations), and in rows of 17 columns or more, for which the divider works beside all else (20 columns 9.0 ns in
 * place of 8.4, 50 columns 21.2 and 20.4). */

/* The root of no more than this is within the limit, and the factor 1. */
TARGET FPP_INLINE V NAME(inside)(const fpp_plan *plan)
{
    return (V){0.0} + plan->limit * plan->limit * (1.0 - 0x1p-50);
}

/* What e is taken from: 1 + 2^-36, or NaN where no estimate will do. */
TARGET FPP_INLINE V NAME(above_one)(const fpp_plan *plan)
{
    return (V){0.0} + (plan->limit > 0x1p-50 && plan->limit < 0x1p50 ? 1.0 + 0x1p-36 : NAN);
}

/* In which lanes a row is longer, or nobody knows: NaN is. */
TARGET FPP_INLINE int NAME(longer)(V norm_sq, V inside)
{
#if W == 8
    return _mm512_cmp_pd_mask((__m512d)norm_sq, (__m512d)inside, _CMP_NLE_UQ);
#elif W == 4
    return _mm256_movemask_pd(_mm256_cmp_pd((__m256d)norm_sq, (__m256d)inside, _CMP_NLE_UQ));
#else
    return (norm_sq[0] <= inside[0] ? 0 : 1) | (norm_sq[1] <= inside[1] ? 0 : 2);
#endif
}

/* Factors of rows where some are longer, as `longer` has it; *failed is set where some square is not finite. */
TARGET FPP_INLINE V NAME(factor)(V norm_sq, int longer, V limit, V above_one, int *failed)
{
    const V infinity = (V){0.0} + INFINITY;
#if W == 8
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define LESS(c, a, b) _mm512_fnmadd_pd(a, b, c)
    const __m512d a = (__m512d)norm_sq, most = (__m512d)limit, half = _mm512_set1_pd(0.5), one = _mm512_set1_pd(1.0);
    const __mmask8 wanted = (__mmask8)longer;
    const __m512d y0 = _mm512_rsqrt14_pd(a);
    const __m512d e = LESS((__m512d)above_one, a * y0, y0);
    const __m512d y = FMA(y0 * e, FMA(e, _mm512_set1_pd(0.375), half), y0), y_half = y * half;
    const __m512d g0 = a * y, g = FMA(LESS(a, g0, g0), y_half, g0);
    const __m512d q0 = most * y, q = FMA(LESS(most, g, q0), y, q0);
    const __mmask8 root = _mm512_mask_cmp_pd_mask(wanted, FMA(LESS(a, g, g), y_half, g), g, _CMP_EQ_OQ);
    const __mmask8 both = _mm512_mask_cmp_pd_mask(root, FMA(LESS(most, g, q), y, q), q, _CMP_EQ_OQ);
    if (FPP_LIKELY(both == wanted)) {
        return (V)_mm512_mask_min_pd(one, wanted, q, one);
    }
    *failed |= _mm512_cmp_pd_mask(a, (__m512d)infinity, _CMP_NLT_UQ);
    return limit / (V)_mm512_max_pd(_mm512_sqrt_pd(a), most);
#undef FMA
#undef LESS
#elif W == 4
    (void)longer, (void)above_one;
    *failed |= _mm256_movemask_pd(_mm256_cmp_pd((__m256d)norm_sq, (__m256d)infinity, _CMP_NLT_UQ));
    return limit / (V)_mm256_max_pd(_mm256_sqrt_pd((__m256d)norm_sq), (__m256d)limit);
#else
    V norm = limit;
    (void)longer, (void)above_one;
    for (int l = 0; l < W; l++) {
        const double root = __builtin_sqrt(norm_sq[l]);
        norm[l] = root > limit[l] ? root : limit[l];
        *failed |= !(norm_sq[l] < infinity[l]);
    }
    return limit / norm;
#endif
}
