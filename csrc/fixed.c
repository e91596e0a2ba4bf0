/* This code runs about once in 2^34 draws, so it is written to be checked, not to be fast. Every step rounds down by less than one unit
 * of 2^-384. */
#include "fixed.h"

#include "sampler_tables.h"
#include <string.h>

#define HALVINGS 16 /* exp(-r) = exp(-r / 2^16)^(2^16); each squaring doubles the error, so 16 of the 384 bits are lost */
#define TERMS 20    /* (ln 2 / 2^16)^21 / 21! < 2^-400 */
#define WIDE 12

__extension__ typedef unsigned __int128 u128;

/* out (na + nb limbs) = a b. */
static void multiply(const uint64_t *a, int na, const uint64_t *b, int nb, uint64_t *out)
{
    memset(out, 0, (size_t)(na + nb) * sizeof *out);
    for (int i = 0; i < na; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < nb; j++) {
            const u128 t = (u128)a[i] * b[j] + out[i + j] + carry;
            out[i + j] = (uint64_t)t;
            carry = (uint64_t)(t >> 64);
        }
        out[i + nb] = carry;
    }
}

/* a -= b, n limbs; the caller knows that a >= b. */
static void subtract(uint64_t *a, const uint64_t *b, int n)
{
    uint64_t borrow = 0;
    for (int i = 0; i < n; i++) {
        const u128 t = (u128)a[i] - b[i] - borrow;
        a[i] = (uint64_t)t;
        borrow = (uint64_t)(t >> 64) & 1;
    }
}

static void add(uint64_t *a, const uint64_t *b, int n)
{
    uint64_t carry = 0;
    for (int i = 0; i < n; i++) {
        const u128 t = (u128)a[i] + b[i] + carry;
        a[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
}

static void divide_small(uint64_t *a, int n, uint64_t divisor)
{
    u128 rest = 0;
    for (int i = n - 1; i >= 0; i--) {
        rest = rest << 64 | a[i];
        a[i] = (uint64_t)(rest / divisor);
        rest %= divisor;
    }
}

static uint64_t limb(const uint64_t *a, int n, int i)
{
    return i >= 0 && i < n ? a[i] : 0;
}

/* out (n_out limbs) = a 2^shift, rounded down; shift may be negative. */
static void shift_by(const uint64_t *a, int n, int shift, uint64_t *out, int n_out)
{
    const int whole = shift >= 0 ? shift / 64 : -((-shift + 63) / 64);
    const int bits = shift - 64 * whole;
    for (int i = 0; i < n_out; i++) {
        const uint64_t high = limb(a, n, i - whole), low = limb(a, n, i - whole - 1);
        out[i] = bits == 0 ? high : high << bits | low >> (64 - bits);
    }
}

static int less(const uint64_t *a, const uint64_t *b, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        if (a[i] != b[i]) {
            return a[i] < b[i];
        }
    }
    return 0;
}

FPP_LOCAL uint32_t fpp_fixed_exp(const uint64_t s[FPP_FIXED_S_LIMBS], uint64_t e[FPP_FIXED_LIMBS])
{
    /* n ln 2 <= s, with n at most one too small: 1549082004 < 2^30 / ln 2, and s keeps 24 fraction bits here. */
    const uint64_t coarse = s[6] << 24 | s[5] >> 40;
    const uint64_t n = coarse * 1549082004u >> 54;
    uint64_t rest[FPP_FIXED_S_LIMBS], whole[FPP_FIXED_S_LIMBS];
    memcpy(rest, s, sizeof rest);
    multiply(fixed_ln2, FPP_FIXED_LIMBS, &n, 1, whole);
    subtract(rest, whole, FPP_FIXED_S_LIMBS);

    uint64_t t[FPP_FIXED_LIMBS], y[FPP_FIXED_LIMBS] = {0}, product[WIDE];
    const uint64_t *const top = product + FPP_FIXED_LIMBS;
    shift_by(rest, FPP_FIXED_S_LIMBS, -HALVINGS, t, FPP_FIXED_LIMBS);
    /* y = 1 - exp(-t) by Horner: y_j = t (1 - y_(j+1)) / j, kept as the complement because 1 itself has no place in the fraction. */
    for (uint64_t j = TERMS; j >= 1; j--) {
        multiply(t, FPP_FIXED_LIMBS, y, FPP_FIXED_LIMBS, product);
        memcpy(y, t, sizeof y);
        subtract(y, top, FPP_FIXED_LIMBS);
        divide_small(y, FPP_FIXED_LIMBS, j);
    }
    for (int i = 0; i < HALVINGS; i++) { /* (1 - y)^2 = 1 - (2 y - y^2) */
        multiply(y, FPP_FIXED_LIMBS, y, FPP_FIXED_LIMBS, product);
        add(y, y, FPP_FIXED_LIMBS);
        subtract(y, top, FPP_FIXED_LIMBS);
    }
    for (int i = 0; i < FPP_FIXED_LIMBS; i++) {
        e[i] = ~y[i]; /* 1 - y less one unit, so that exp(0) fits */
    }
    return (uint32_t)n;
}

FPP_LOCAL int fpp_fixed_accepts(const uint64_t u[FPP_FIXED_U_LIMBS], uint32_t u_bits, uint64_t weight, uint64_t scale,
                                const uint64_t s[FPP_FIXED_S_LIMBS])
{
    uint64_t e[FPP_FIXED_LIMBS], product[FPP_FIXED_LIMBS + 1], left[WIDE], right[WIDE] = {0};
    const uint32_t n = fpp_fixed_exp(s, e);
    multiply(u, FPP_FIXED_U_LIMBS, &weight, 1, product);
    shift_by(product, FPP_FIXED_U_LIMBS + 1, FPP_FIXED_BITS + (int)n - (int)u_bits, left, WIDE);
    multiply(e, FPP_FIXED_LIMBS, &scale, 1, product);
    memcpy(right, product, sizeof product);
    return less(left, right, WIDE);
}

FPP_LOCAL void fpp_fixed_gaussian_exponent(uint64_t k, const uint64_t f[4], int32_t log2_scale, uint64_t s[FPP_FIXED_S_LIMBS])
{
    const uint64_t x[5] = {f[0], f[1], f[2], f[3], k};
    uint64_t square[10];
    multiply(x, 5, x, 5, square); /* 512 fraction bits */
    shift_by(square, 10, FPP_FIXED_BITS - 512 - 2 * log2_scale - 1, s, FPP_FIXED_S_LIMBS);
}

FPP_LOCAL void fpp_fixed_laplace_exponent(uint64_t k, int32_t log2_scale, uint64_t s[FPP_FIXED_S_LIMBS])
{
    shift_by(&k, 1, FPP_FIXED_BITS - log2_scale, s, FPP_FIXED_S_LIMBS);
}

/* Test hook: exp(-s) as (e, n). */
FPP_API int32_t fpp_test_fixed_exp(const uint64_t *s, uint64_t *e_and_n)
{
    if (s == NULL || e_and_n == NULL || s[FPP_FIXED_LIMBS] > 128) {
        return FPP_ERR_ARGUMENT;
    }
    e_and_n[FPP_FIXED_LIMBS] = fpp_fixed_exp(s, e_and_n);
    return FPP_OK;
}
