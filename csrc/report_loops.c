/* Loops over one row of a report: on every instruction set the same sums in the same order. */
#include "reports.h"

#include <math.h>

#define SUM_LANES 16
#define SUM_BLOCK 256
#define ROUNDING 0x1.8p52 /* added and taken off, it leaves the nearest integer, of two the even one */

FPP_INLINE void add_compensated(double term, double *total, double *carry)
{
    const double sum = *total + term;
    *carry += fabs(*total) >= fabs(term) ? (*total - sum) + term : (term - sum) + *total;
    *total = sum;
}

/* sums = sum a b, sum b^2; with `across`, b becomes b - scale a first and the first sum is not wanted. */
FPP_INLINE void sums_body(const double *restrict a, double *restrict b, int64_t n, int across, double scale, double *sums)
{
    double total[2] = {0.0, 0.0}, carry[2] = {0.0, 0.0};
    for (int64_t at = 0; at < n; at += SUM_BLOCK) {
        const int64_t m = n - at < SUM_BLOCK ? n - at : SUM_BLOCK;
        double p[SUM_LANES] = {0.0}, q[SUM_LANES] = {0.0};
        int64_t j = 0;
        for (; j + SUM_LANES <= m; j += SUM_LANES) {
            for (int l = 0; l < SUM_LANES; l++) {
                const double x = a[at + j + l];
                double y = b[at + j + l];
                if (across) {
                    y -= scale * x;
                    b[at + j + l] = y;
                } else {
                    p[l] += x * y;
                }
                q[l] += y * y;
            }
        }
        for (int l = 0; j + l < m; l++) {
            const double x = a[at + j + l];
            double y = b[at + j + l];
            if (across) {
                y -= scale * x;
                b[at + j + l] = y;
            }
            p[l] += x * y;
            q[l] += y * y;
        }
        for (int width = SUM_LANES / 2; width > 0; width /= 2) {
            for (int l = 0; l < width; l++) {
                p[l] += p[l + width];
                q[l] += q[l + width];
            }
        }
        add_compensated(p[0], &total[0], &carry[0]);
        add_compensated(q[0], &total[1], &carry[1]);
    }
    sums[0] = total[0] + carry[0];
    sums[1] = total[1] + carry[1];
}

/* facts = max |row|, and 0 only if every entry is finite. */
FPP_INLINE void size_body(const double *restrict row, int64_t n, double *restrict facts)
{
    double most[SUM_LANES] = {0.0}, odd[SUM_LANES] = {0.0};
    int64_t j = 0;
    for (; j + SUM_LANES <= n; j += SUM_LANES) {
        for (int l = 0; l < SUM_LANES; l++) {
            const double size = fabs(row[j + l]);
            most[l] = size > most[l] ? size : most[l];
            odd[l] += row[j + l] * 0.0;
        }
    }
    for (int l = 0; j + l < n; l++) {
        const double size = fabs(row[j + l]);
        most[l] = size > most[l] ? size : most[l];
        odd[l] += row[j + l] * 0.0;
    }
    facts[0] = facts[1] = 0.0;
    for (int l = 0; l < SUM_LANES; l++) {
        facts[0] = most[l] > facts[0] ? most[l] : facts[0];
        facts[1] += odd[l];
    }
}

/* out = row * a * b, and the sum of its squares in the order of sums_body. */
FPP_INLINE void scaled_body(const double *row, int64_t n, double a, double b, double *out, double *square)
{
    double total = 0.0, carry = 0.0;
    for (int64_t at = 0; at < n; at += SUM_BLOCK) {
        const int64_t m = n - at < SUM_BLOCK ? n - at : SUM_BLOCK;
        double q[SUM_LANES] = {0.0};
        int64_t j = 0;
        for (; j + SUM_LANES <= m; j += SUM_LANES) {
            double y[SUM_LANES];
            for (int l = 0; l < SUM_LANES; l++) {
                y[l] = row[at + j + l] * a * b;
                q[l] += y[l] * y[l];
            }
            for (int l = 0; l < SUM_LANES; l++) {
                out[at + j + l] = y[l];
            }
        }
        for (int l = 0; j + l < m; l++) {
            const double y = row[at + j + l] * a * b;
            out[at + j + l] = y;
            q[l] += y * y;
        }
        for (int width = SUM_LANES / 2; width > 0; width /= 2) {
            for (int l = 0; l < width; l++) {
                q[l] += q[l + width];
            }
        }
        add_compensated(q[0], &total, &carry);
    }
    *square = total + carry;
}

/* out = round(across g + along v), at most FPP_REPORT_MOST in size. */
FPP_INLINE void round_body(const double *restrict g, const double *restrict v, int64_t n, double across, double along,
                           int32_t *restrict out)
{
    const double most = (double)FPP_REPORT_MOST;
    for (int64_t j = 0; j < n; j++) {
        double y = across * g[j] + along * v[j];
        y = y > most ? most : y;
        y = y > -most ? y : -most;
        out[j] = (int32_t)((y + ROUNDING) - ROUNDING);
    }
}

#define DEFINE_LOOPS(NAME, ATTRIBUTE) \
    ATTRIBUTE static void sums_##NAME(const double *a, double *b, int64_t n, int across, double scale, double *sums) \
    { \
        if (across) { \
            sums_body(a, b, n, 1, scale, sums); \
        } else { \
            sums_body(a, b, n, 0, 0.0, sums); \
        } \
    } \
    ATTRIBUTE static void size_##NAME(const double *row, int64_t n, double *facts) { size_body(row, n, facts); } \
    ATTRIBUTE static void scaled_##NAME(const double *row, int64_t n, double a, double b, double *out, double *square) \
    { \
        scaled_body(row, n, a, b, out, square); \
    } \
    ATTRIBUTE static void round_##NAME(const double *g, const double *v, int64_t n, double across, double along, int32_t *out) \
    { \
        round_body(g, v, n, across, along, out); \
    }
DEFINE_LOOPS(baseline, )
#if FPP_X86
DEFINE_LOOPS(avx2, FPP_TARGET_AVX2)
DEFINE_LOOPS(avx512, FPP_TARGET_AVX512)
#endif

FPP_LOCAL void fpp_row_sums(const double *a, double *b, int64_t n, int across, double scale, double *sums)
{
    FPP_AT_LEVEL(sums)(a, b, n, across, scale, sums);
}

FPP_LOCAL void fpp_two_sums(const double *a, const double *b, int64_t n, double *sums)
{
    fpp_row_sums(a, (double *)(uintptr_t)b, n, 0, 0.0, sums); /* not written to without `across` */
}

FPP_LOCAL void fpp_row_size(const double *row, int64_t n, double *facts)
{
    FPP_AT_LEVEL(size)(row, n, facts);
}

FPP_LOCAL void fpp_row_scaled(const double *row, int64_t n, double a, double b, double *out, double *square)
{
    FPP_AT_LEVEL(scaled)(row, n, a, b, out, square);
}

FPP_LOCAL void fpp_row_round(const double *g, const double *v, int64_t n, double across, double along, int32_t *out)
{
    FPP_AT_LEVEL(round)(g, v, n, across, along, out);
}
