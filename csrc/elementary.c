/* log and exp of columns in operations of a fixed order: the same bits on every processor and with every compiler, unlike those of
 * libm and of NumPy. No contraction, no table, no library. Both are within one unit in the last place of the exact value. */
#include "internal.h"

#include <math.h>
#include <string.h>

#define LN2_HIGH 0x1.62e42feep-1        /* 32 bits of ln 2: a multiple by an exponent is exact */
#define LN2_LOW 0x1.a39ef35793c76p-33   /* the rest */
#define PER_LN2 0x1.71547652b82fep+0    /* 1 / ln 2 */
#define SQRT_HALF_HIGH 0x3fe6a09e       /* the upper half of sqrt(1/2) */
#define ROUNDING 0x1.8p52               /* adding and subtracting it rounds to a whole number */

static double of_bits(uint64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2); s = f / (2 + f), so that log(1 + f) = 2 (s + s^3 / 3 + s^5 / 5 + ...), of which
 * 2 s = f - f^2 / 2 + s f^2 / 2 is taken apart, as in fdlibm, so that f is added last. The first term left out is below 2^-60 of the sum. */
static double log_of(double x)
{
    int64_t k = 0;
    if (!(x > 0.0)) {
        return x == 0.0 ? -INFINITY : NAN;
    }
    if (x == INFINITY) {
        return x;
    }
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    const uint64_t shifted = bits_of(x) - ((uint64_t)SQRT_HALF_HIGH << 32);
    k += (int64_t)shifted >> 52;
    const double f = of_bits((shifted & 0xfffffffffffff) + ((uint64_t)SQRT_HALF_HIGH << 32)) - 1.0;
    const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f, power = (double)k;
    double series = 2.0 / 25.0;
    for (int32_t j = 23; j >= 3; j -= 2) {
        series = series * z + 2.0 / (double)j;
    }
    return power * LN2_HIGH - ((half - (s * (half + z * series) + power * LN2_LOW)) - f);
}

static const double inverse_factorials[] = {1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
                                            1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
#define INVERSES ((int32_t)(sizeof inverse_factorials / sizeof *inverse_factorials))

/* x = k ln 2 + r with |r| <= ln(2) / 2: exp(r) = 1 + (r + (r^2 / 2 + r^3 (1 / 6 + r / 24 + ...))), by Horner. The first term left out is
 * below 2^-57. A power of two is multiplied in two steps, so that it may leave the range of exponents. */
static double exp_of(double x)
{
    if (!(x <= 0x1.62e42fefa39efp9)) {
        return x > 0.0 ? INFINITY : x;
    }
    if (x < -746.0) {
        return 0.0;
    }
    const double power = (x * PER_LN2 + ROUNDING) - ROUNDING, high = x - power * LN2_HIGH, low = power * LN2_LOW, r = high - low;
    const double lost = (high - r) - low; /* by rounding r */
    double series = inverse_factorials[INVERSES - 1];
    for (int32_t j = INVERSES - 2; j >= 0; j--) {
        series = series * r + inverse_factorials[j];
    }
    const double sum = 1.0 + (r + (0.5 * r * r + (r * r * r * series + lost)));
    const int64_t k = (int64_t)power;
    return sum * of_bits((uint64_t)(k > 0 ? 1022 + k : 1077 + k) << 52) * (k > 0 ? 2.0 : 0x1p-54);
}

FPP_API int32_t fpp_log_f64(const double *x, int64_t n, double *out)
{
    if (!fpp_is_given(x, n, 8) || !fpp_is_given(out, n, 8)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = log_of(x[i]);
    }
    return FPP_OK;
}

FPP_API int32_t fpp_exp_f64(const double *x, int64_t n, double *out)
{
    if (!fpp_is_given(x, n, 8) || !fpp_is_given(out, n, 8)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = exp_of(x[i]);
    }
    return FPP_OK;
}
