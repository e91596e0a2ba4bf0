/* exp(-s) in 384-bit fixed point, and the comparison that decides an acceptance when doubles cannot. */
#ifndef FPP_FIXED_H
#define FPP_FIXED_H
#include "internal.h"

/* Numbers are arrays of 64-bit limbs, least significant first; s has 384 fraction bits and one limb of whole part. */
#define FPP_FIXED_LIMBS 6
#define FPP_FIXED_BITS 384
#define FPP_FIXED_S_LIMBS (FPP_FIXED_LIMBS + 1)
#define FPP_FIXED_U_LIMBS 5

/* exp(-s) = e / 2^(384 + n), the return value being n; relative error below 2^-360 for 0 <= s < 129. */
FPP_LOCAL uint32_t fpp_fixed_exp(const uint64_t s[FPP_FIXED_S_LIMBS], uint64_t e[FPP_FIXED_LIMBS]);
/* Whether u / 2^u_bits * weight < scale * exp(-s). */
FPP_LOCAL int fpp_fixed_accepts(const uint64_t u[FPP_FIXED_U_LIMBS], uint32_t u_bits, uint64_t weight, uint64_t scale,
                                const uint64_t s[FPP_FIXED_S_LIMBS]);
/* s = (k + f)^2 / 2^(2 log2_scale + 1), f a fraction of four limbs, rounded down. */
FPP_LOCAL void fpp_fixed_gaussian_exponent(uint64_t k, const uint64_t f[4], int32_t log2_scale, uint64_t s[FPP_FIXED_S_LIMBS]);
/* s = k / 2^log2_scale, exactly. */
FPP_LOCAL void fpp_fixed_laplace_exponent(uint64_t k, int32_t log2_scale, uint64_t s[FPP_FIXED_S_LIMBS]);

#endif
