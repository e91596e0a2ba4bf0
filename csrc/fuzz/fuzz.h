/* What the fuzz programs share: an input as a string of choices, arrays of the exact size, and the end of a run that disagrees.
 *
 * Each program turns bytes into arguments, calls the library on every instruction set, and compares with a slow twin. Arrays are
 * filled from a seed, and the rest of the input puts chosen numbers in chosen places: a short input can then reach everything.
 * PLANTED_FAULT makes each twin wrong in one place; the corpus must tell (`make test`).
 */
#ifndef FPP_FUZZ_H
#define FPP_FUZZ_H
#include "../fpp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PLANTED_FAULT
#define PLANTED 1
#else
#define PLANTED 0
#endif

typedef struct {
    const uint8_t *at;
    size_t left;
} fuzz_input;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The last line of a program: for libFuzzer, and for the replay of the corpus without it. */
#define AGREE(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: disagrees: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                   \
        }                                                                              \
    } while (0)

/* The next `count` bytes as an integer, least first; zeros beyond the end. */
static inline uint64_t take(fuzz_input *in, int count)
{
    uint64_t word = 0;
    for (int i = 0; i < count && in->left > 0; i++, in->at++, in->left--) {
        word |= (uint64_t)*in->at << (8 * i);
    }
    return word;
}

/* One of low ... high, from as many bytes as that needs. */
static inline int64_t pick(fuzz_input *in, int64_t low, int64_t high)
{
    const uint64_t count = (uint64_t)high - (uint64_t)low + 1; /* 0 for all integers */
    const uint64_t word = take(in, count == 0 || count > 65536 ? 8 : count > 256 ? 2 : 1);
    return (int64_t)((uint64_t)low + (count == 0 ? word : word % count));
}

/* Any double: small fractions, on which ties and edges lie, extremes, or a bit pattern. */
static inline double number(fuzz_input *in)
{
    static const double extremes[] = {
        0.0,   -0.0,    5e-324, -5e-324, 0x1p-1022, 1e-160, 0x1p51, 0x1.8p51, 0x1p52, 0x1p53, -0x1p53, 0x1p512, -1e155, 1e200, 0x1p1023,
        1.7976931348623157e308, -1.7976931348623157e308, INFINITY, -INFINITY, NAN};
    const int64_t kind = pick(in, 0, 7);
    if (kind < 4) {
        return (double)(int16_t)take(in, 2) * (kind < 2 ? 0.125 : 0x1p-10);
    }
    if (kind < 6) {
        return extremes[pick(in, 0, (int64_t)(sizeof extremes / sizeof *extremes) - 1)];
    }
    const uint64_t bits = take(in, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* n entries of `size` bytes without values; the sanitizer sees one entry too many. */
static inline void *room(int64_t n, size_t size)
{
    void *memory = malloc(n > 0 ? (size_t)n * size : 1);
    if (memory == NULL) {
        exit(2);
    }
    return memory;
}

static inline void *zeros(int64_t n, size_t size)
{
    return memset(room(n, size), 0, n > 0 ? (size_t)n * size : 1);
}

static inline uint64_t next_word(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state ^ (*state >> 29);
}

/* n numbers between -1 and 1, times `size`. */
static inline double *numbers(int64_t n, uint64_t *state, double size)
{
    double *values = room(n, sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        values[i] = ((double)(int64_t)(next_word(state) >> 11) * 0x1p-52 - 1.0) * size;
    }
    return values;
}

/* Up to `most` numbers of the input at places of an array. */
static inline void sprinkle(fuzz_input *in, double *values, int64_t n, int64_t most)
{
    for (int64_t i = pick(in, 0, most); i > 0 && n > 0; i--) {
        const int64_t at = pick(in, 0, n - 1);
        values[at] = number(in);
    }
}

/* Coordinates of n / dim rows: of a size, on a grid of few places, so that there are ties, or neither, and some numbers of the input. */
static inline double *places(fuzz_input *in, int64_t n, uint64_t *state)
{
    static const double sizes[] = {1.0, 0.0, 1e-6, 1e12, 1e150, 1e-160};
    double *x = numbers(n, state, sizes[pick(in, 0, 5)]);
    const int64_t grid = pick(in, 0, 3);
    for (int64_t i = 0; grid > 0 && i < n; i++) {
        x[i] = nearbyint(x[i] * (double)grid);
    }
    sprinkle(in, x, n, 15);
    return x;
}

static inline float *as_floats(const double *values, int64_t n)
{
    float *narrow = room(n, sizeof *narrow);
    for (int64_t i = 0; i < n; i++) {
        const int small = fabs(values[i]) <= 3.4028234663852886e38; /* the conversion of others is undefined */
        narrow[i] = small ? (float)values[i] : isnan(values[i]) ? NAN : values[i] > 0.0 ? INFINITY : -INFINITY;
    }
    return narrow;
}

static inline int is_finite_row(const double *x, int64_t dim)
{
    int finite = 1;
    for (int64_t k = 0; k < dim; k++) {
        finite &= fabs(x[k]) < INFINITY;
    }
    return finite;
}

/* One of `count` checks, which the first byte chooses, on every instruction set. */
static inline void run_one(void (*const *checks)(fuzz_input), int64_t count, const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const int64_t which = pick(&in, 0, count - 1);
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        checks[which](in);
    }
}

/* 1 / (1 + exp(-score)) in the order of operations of the library, whose bits depend on no C library. */
static inline double plain_chance(double score)
{
    const double x = fabs(score) > 708.0 ? -708.0 : -fabs(score), k = x * 0x1.71547652b82fep0 + 0x1.8p52 - 0x1.8p52;
    const double rest = x - k * 0x1.62e42feep-1 - k * 0x1.a39ef35793c76p-33, square = rest * rest;
    double even = 1.0 / 479001600.0, odd = 1.0 / 6227020800.0;
    for (int i = 10; i >= 0; i -= 2) {
        double below = 1.0, factorial = 1.0; /* i! and (i + 1)! are exact */
        for (int j = 2; j <= i + 1; j++) {
            below *= j <= i ? j : 1;
            factorial *= j;
        }
        even = even * square + 1.0 / below;
        odd = odd * square + 1.0 / factorial;
    }
    const double grown = score == score ? ldexp(even + rest * odd, (int)k) : score;
    return (score >= 0.0 ? 1.0 : grown) / (1.0 + grown);
}

#endif
