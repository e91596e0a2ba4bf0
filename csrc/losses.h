/* Residuals of losses that C and fastpubpriv/rowwise/losses.py know, and those of functions. Not installed. */
#ifndef FPP_LOSSES_H
#define FPP_LOSSES_H
#include "internal.h"

#include <math.h>

/* As Python's min and max: the first of two that are equal or cannot be compared. */
FPP_INLINE double fpp_smaller(double a, double b)
{
    return b < a ? b : a;
}

FPP_INLINE double fpp_larger(double a, double b)
{
    return b > a ? b : a;
}

/* Of one score, but for the squared and the logistic loss (losses_simd.h): operation by operation as in fastpubpriv/rowwise/losses.py. */
FPP_INLINE double fpp_residual_of(const fpp_gradient_map *map, double score, double label)
{
    const int is_class = label == 0.0 || label == 1.0;
    switch (map->loss) {
    case FPP_LOSS_FUNCTION:
        return map->function(score, label);
    case FPP_LOSS_HUBER:
        return fpp_smaller(fpp_larger(label - score, -map->numbers[0]), map->numbers[0]);
    case FPP_LOSS_SMOOTH_HINGE: {
        const double sign = 2.0 * label - 1.0;
        return is_class ? sign * fpp_smaller(fpp_larger(1.0 - sign * score, 0.0), 1.0) : NAN;
    }
    default: /* FPP_LOSS_POISSON */
        return label >= 0.0 ? label - exp(fpp_smaller(score, 700.0)) : NAN;
    }
}

#endif
