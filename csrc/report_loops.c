/* Loops over one row of a report: on every instruction set the same sums in the same order. */
#include "reports.h"

#include <math.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define SUM_LANES 8
#define SUM_BLOCK 128
#define ROUNDING 0x1.8p52 /* added and taken off, it leaves the nearest integer, of two the even one */
#define ROUNDING_BITS INT64_C(0x4338000000000000)

FPP_INLINE void add_compensated(double term, double *total, double *carry)
{
    const double sum = *total + term, back = sum - *total;
    *carry += (*total - (sum - back)) + (term - back); /* exact, and without a branch */
    *total = sum;
}

#define KERNELS "report_simd.h"
#include "each_level.h"

FPP_LOCAL void fpp_row_products(const double *x, const int64_t *g, int64_t n, fpp_products *sums)
{
    FPP_AT_LEVEL(products)(x, g, n, sums);
}

FPP_LOCAL void fpp_row_round(const double *x, const int64_t *g, int64_t n, double across, double along, double largest, int32_t *out)
{
    if (largest < 0x1p30) {
        FPP_AT_LEVEL(round)(x, g, n, across, along, out);
        return;
    }
    const double most = (double)FPP_REPORT_MOST;
    for (int64_t j = 0; j < n; j++) {
        double y = ((double)g[j] + 0.5) * across + x[j] * along;
        y = y > most ? most : y;
        y = y > -most ? y : -most;
        out[j] = (int32_t)((y + ROUNDING) - ROUNDING);
    }
}

FPP_LOCAL void fpp_row_tame(const double *row, int64_t n, double *copy, fpp_heading *heading)
{
    double most = 0.0, odd = 0.0;
    for (int64_t j = 0; j < n; j++) {
        const double size = fabs(row[j]);
        most = size > most ? size : most;
        odd += row[j] * 0.0; /* NaN as soon as an entry is not finite */
    }
    heading->at = copy;
    if (odd == 0.0 && most > 0.0) {
        int shift;
        (void)frexp(most, &shift);
        /* Powers of two, in two steps: exact, but for columns too small to matter. */
        const double first = ldexp(1.0, -shift / 2), second = ldexp(1.0, -shift - -shift / 2);
        for (int64_t j = 0; j < n; j++) {
            copy[j] = row[j] * first * second;
        }
        heading->shift = shift;
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        copy[j] = 0.0;
    }
    copy[0] = 1.0;
    heading->nowhere = 1;
}
