/* log and exp: against long double functions of libm where these have more bits, and at the ends of their ranges. */
#include "test_support.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Units in the last place between a number and the exact one. */
static long double apart(double found, long double exact)
{
    const double near = fabs((double)exact);
    const double unit = fmax(nextafter(near, INFINITY) - near, 0x1p-1074);
    return fabsl((long double)found - exact) / (long double)unit;
}

static void check_ends(void)
{
    const double x[] = {0.0, -0.0, -1.0, 1.0, INFINITY, -INFINITY, NAN, 0x1p-1074, 0x1.62e42fefa39efp9, 0x1.62e42fefa39f0p9, -746.5};
    double log_x[11], exp_x[11];
    ACCEPTED(fpp_log_f64(x, 11, log_x));
    ACCEPTED(fpp_exp_f64(x, 11, exp_x));
    CHECK(log_x[0] == -INFINITY && log_x[1] == -INFINITY && isnan(log_x[2]) && log_x[3] == 0.0);
    CHECK(log_x[4] == INFINITY && isnan(log_x[5]) && isnan(log_x[6]) && fabs(log_x[7] + 744.4400719213812) < 1e-12);
    CHECK(exp_x[0] == 1.0 && exp_x[1] == 1.0 && exp_x[4] == INFINITY && exp_x[5] == 0.0 && isnan(exp_x[6]));
    CHECK(isfinite(exp_x[8]) && exp_x[9] == INFINITY && exp_x[10] == 0.0);
}

static void check_accuracy(void)
{
    enum { MANY = 20000 };
    double *x = room(MANY, sizeof *x), *out = room(MANY, sizeof *out);
    uint64_t state = 5;
    long double worst = 0.0L;
    for (int i = 0; i < MANY; i++) {
        const uint64_t bits = next_word(&state) >> 1;
        memcpy(&x[i], &bits, sizeof bits);
        x[i] = isfinite(x[i]) ? x[i] : 1.0;
        x[i] = i % 2 ? x[i] : 1.0 + ldexp((double)(int64_t)next_word(&state), -66);
    }
    ACCEPTED(fpp_log_f64(x, MANY, out));
    for (int i = 0; i < MANY; i++) {
        worst = fmaxl(worst, x[i] > 0.0 ? apart(out[i], logl((long double)x[i])) : 0.0L);
        x[i] = ldexp((double)(int64_t)next_word(&state), i % 2 ? -54 : -63);
    }
    /* Where a long double is a double, libm itself may be wrong in the last place. */
    CHECK(worst < (LDBL_MANT_DIG > DBL_MANT_DIG ? 0.9L : 2.0L));
    worst = 0.0L;
    ACCEPTED(fpp_exp_f64(x, MANY, out));
    for (int i = 0; i < MANY; i++) {
        worst = fmaxl(worst, isfinite(out[i]) && out[i] > 0.0 ? apart(out[i], expl((long double)x[i])) : 0.0L);
    }
    CHECK(worst < (LDBL_MANT_DIG > DBL_MANT_DIG ? 0.9L : 2.0L));
    free(x);
    free(out);
}

int test_elementary(void)
{
    const int before = n_failed;
    check_ends();
    check_accuracy();
    return n_failed - before;
}
