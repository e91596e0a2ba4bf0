/* The logistic and the Huber loss for vectors of rows: included under W, NAME and TARGET after row_vectors_simd.h. One order of operations without a call
 * and without fused instructions, so that all instruction sets and C libraries give the same bits. */
TARGET FPP_INLINE V NAME(chosen)(VI where, V then, V otherwise)
{
    return (V)((where & (VI)then) | (~where & (VI)otherwise));
}

TARGET FPP_INLINE VI NAME(is_finite)(V v)
{
    return ((VI)v & (UINT64_MAX >> 1)) < UINT64_C(0x7ff) << 52;
}

/* exp(x) for x <= 0, to a few units in the last place, exp(-708) below -708, NaN for NaN: 2^k times a series, k = x / log 2 rounded. */
TARGET FPP_INLINE V NAME(exp_below)(V x)
{
    static const double series[14] = {1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0,
                                      1.0 / 362880.0, 1.0 / 3628800.0, 1.0 / 39916800.0, 1.0 / 479001600.0, 1.0 / 6227020800.0};
    const V held = NAME(chosen)((VI)(x < -708.0), (V){0.0} - 708.0, x), raised = held * 0x1.71547652b82fep0 + FPP_ROUNDER;
    const V k = raised - FPP_ROUNDER, rest = held - k * 0x1.62e42feep-1 - k * 0x1.a39ef35793c76p-33, square = rest * rest;
    V even = (V){0.0} + series[12], odd = (V){0.0} + series[13];
    for (int i = 10; i >= 0; i -= 2) {
        even = even * square + series[i];
        odd = odd * square + series[i + 1];
    }
    return (even + rest * odd) * (V)(((VI)raised + 1023) << 52); /* the low bits of `raised` are those of k */
}

TARGET FPP_INLINE V NAME(chance_of)(V score)
{
    const V grown = NAME(exp_below)((V)((VI)score | UINT64_C(1) << 63));
    return NAME(chosen)((VI)(score >= 0.0), (V){0.0} + 1.0, grown) / (1.0 + grown);
}

/* The residual, or the root of the curvature, with weights of the two classes; NaN for other labels. */
TARGET FPP_INLINE V NAME(class_factor)(const double *classes, V score, V label, int curvature)
{
    const VI second = (VI)(label == 1.0), known = second | (VI)(label == 0.0);
    const V chance = NAME(chance_of)(score), weight = NAME(chosen)(second, (V){0.0} + classes[1], (V){0.0} + classes[0]);
    V found = NAME(chosen)(second, weight * (1.0 - chance), -weight * chance);
    if (curvature) {
        const V square = weight * (chance * (1.0 - chance));
        for (int l = 0; l < W; l++) {
            found[l] = __builtin_sqrt(square[l]);
        }
    }
    return (V)((VI)found | ~known); /* all bits set are a NaN */
}

/* A residual clipped to the threshold of the Huber loss, or its curvature, 1 within and 0 from there on; NaN if it is not finite. */
TARGET FPP_INLINE V NAME(bounded_factor)(double threshold, V residual, int curvature)
{
    const VI above = (VI)(residual >= threshold), below = (VI)(residual <= -threshold);
    const V zero = residual - residual, bound = zero + threshold;
    if (curvature) {
        return NAME(chosen)(above | below, zero, zero + 1.0);
    }
    return NAME(chosen)(above, bound, NAME(chosen)(below, -bound, residual));
}
