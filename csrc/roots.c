/* Where on the line one mixture of Gaussians overtakes another. Public numbers only: which sets come out is not a privacy matter. */
#include "internal.h"

#include <math.h>

#define FPP_ROOT_STEPS 100
#define SIZE_LIMIT (INT64_MAX / (int64_t)sizeof(double))

typedef struct {
    const double *constants, *means, *inverses; /* (components,): log weight over deviation, mean, 1 / deviation */
    int64_t components;
} line_mixture;

static double term(const line_mixture *mixture, int64_t c, double x)
{
    const double z = (x - mixture->means[c]) * mixture->inverses[c];
    return mixture->constants[c] - 0.5 * fmin(z * z, 1e300);
}

static double log_density(const line_mixture *mixture, double x)
{
    double best = -INFINITY, sum = 0.0;
    for (int64_t c = 0; c < mixture->components; c++) {
        best = fmax(best, term(mixture, c, x));
    }
    if (mixture->components == 1) {
        return best;
    }
    for (int64_t c = 0; c < mixture->components; c++) {
        sum += exp(term(mixture, c, x) - best);
    }
    return best + log(sum);
}

static double lead(const line_mixture *one, const line_mixture *other, double x)
{
    return log_density(one, x) - log_density(other, x);
}

/* A point of [low, high] where the lead changes its sign: false position, an end that stays twice counting half, and every third
 * step a bisection, so that neither a pole nor a flat piece holds it up. */
static double root_between(const line_mixture *one, const line_mixture *other, double low, double high, double at_low, double at_high)
{
    const double narrow = 1e-13 * (high - low);
    int32_t side = 0;
    for (int32_t step = 0; step < FPP_ROOT_STEPS && high - low > narrow + 1e-15 * (fabs(low) + fabs(high)); step++) {
        double middle = step % 3 == 2 ? low + 0.5 * (high - low) : low + (high - low) * (at_low / (at_low - at_high));
        if (!(middle > low && middle < high)) {
            middle = low + 0.5 * (high - low);
        }
        const double here = lead(one, other, middle);
        if (here == 0.0 || middle <= low || middle >= high) {
            return middle;
        }
        if ((here > 0.0) == (at_low > 0.0)) {
            low = middle;
            at_low = here;
            at_high *= side < 0 ? 0.5 : 1.0;
            side = -1;
        } else {
            high = middle;
            at_high = here;
            at_low *= side > 0 ? 0.5 : 1.0;
            side = 1;
        }
    }
    return low + 0.5 * (high - low);
}

FPP_API int32_t fpp_pair_roots_f64(const double *constants, const double *means, const double *inverses, const double *grids,
                                   int64_t size, int64_t components, int64_t points, int64_t own, int64_t most, double *roots,
                                   int64_t *counts)
{
    if (components < 1 || points < 1 || most < 1 || size < 1 || size > SIZE_LIMIT / components || size > SIZE_LIMIT / points
        || size > SIZE_LIMIT / most || own < 0 || own >= size) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t others = size - own - 1;
    if (constants == NULL || means == NULL || inverses == NULL || grids == NULL || (roots == NULL && others > 0)
        || (counts == NULL && others > 0)) {
        return FPP_ERR_ARGUMENT;
    }
    const line_mixture one = {constants + own * components, means + own * components, inverses + own * components, components};
    for (int64_t j = own + 1; j < size; j++) {
        const line_mixture other = {constants + j * components, means + j * components, inverses + j * components, components};
        const double *a = grids + own * points, *b = grids + j * points;
        double *found = roots + (j - own - 1) * most;
        double x = 0.0, ahead = 0.0;
        int64_t n = 0, at_a = 0, at_b = 0;
        int32_t leads_first = 0;
        while ((at_a < points || at_b < points) && n < most) {
            const double next = at_b == points || (at_a < points && a[at_a] <= b[at_b]) ? a[at_a++] : b[at_b++];
            const double here = lead(&one, &other, next);
            if (at_a + at_b == 1) {
                leads_first = here > 0.0;
            } else if ((here > 0.0) != (ahead > 0.0)) {
                const double root = root_between(&one, &other, x, next, ahead, here);
                found[n] = n > 0 ? fmax(root, found[n - 1]) : root;
                n++;
            }
            x = next;
            ahead = here;
        }
        counts[j - own - 1] = leads_first ? n : -n - 1;
        for (int64_t k = n; k < most; k++) {
            found[k] = INFINITY;
        }
    }
    return FPP_OK;
}
