/* Counting one block of numbers for one vector width: included by bins.c once for each instruction set, under W, NAME and TARGET.
 *
 * Every number gets the address of its counter. While the addresses of one block are found, the counters of the block before it are
 * raised: the two want different parts of the processor, and memory is read evenly. */
#include "vector_simd.h"

typedef uint64_t NAME(words) __attribute__((vector_size(8 * W)));
typedef uint64_t NAME(words_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef int32_t NAME(ints) __attribute__((vector_size(8 * W)));
#define VU NAME(words)
#define SIZE_BITS ((VU){0} + (uint64_t)INT64_MAX)
/* The larger of the size of e and of what was largest so far; NaN is passed over. */
TARGET FPP_INLINE V NAME(larger)(V so_far, V e)
{
#if W == 8
    return (V)_mm512_range_pd((__m512d)so_far, (__m512d)e, 11); /* 3: the larger size; 8: without its sign */
#elif W == 4
    return (V)_mm256_max_pd((__m256d)((VU)e & SIZE_BITS), (__m256d)so_far);
#else
    const V size = (V)((VU)e & SIZE_BITS);
    const VU above = (VU)(size > so_far);
    return (V)(((VU)size & above) | ((VU)so_far & ~above));
#endif
}

/* a b + c, fused where the instruction set can. */
TARGET FPP_INLINE V NAME(multiplied)(V a, V b, V c)
{
#if W == 8
    return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif W == 4
    return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

/* Addresses of the counters of a block, to `to`; raises those of the block before it, `from`. Returns whether a number of the block
 * may be in no cell of the window, whose address is then to be changed (`outside`); or, of CELLS_NEAR, -1 if one is so near to an
 * end that only its quotient tells.
 *
 * With t bytes from the window's first counter to a number's, the bits of t + ROUNDER count up with t while |t| < 2^51, and are
 * further from those of ROUNDER than any window for all other t, infinities and NaN among them. */
TARGET FPP_INLINE int NAME(block)(const spots *where, const double *restrict x, uint64_t *to, const uint64_t *from, const char *next,
                                  int64_t stride_bytes, const int kind)
{
    const spots at = *where; /* what counters and addresses cannot overlap stays in registers */
    const VU rounder_bits = (VU){0} + (uint64_t)ROUNDER_BITS;
    const V bytes = (V){0.0} + (double)(INT64_C(1) << at.shift);
    const V scale = bytes * at.inverse, start = -at.start * scale, coarse = bytes * ROUNDER;
    VU lane[8 / W], outside = {0};
    V worst = {0.0};
    for (int p = 0; p < 8 / W; p++) {
        for (int l = 0; l < W; l++) {
            lane[p][l] = (uint64_t)(uintptr_t)(at.dense + ((p * W + l) & (at.lanes - 1)));
        }
    }
    for (int64_t i = 0; i < BLOCK; i += 8) {
        __builtin_prefetch(next + i * stride_bytes, 0, 2);
        for (int p = 0; p < 8 / W; p++) {
            const V number = NAME(load)(x + i + p * W);
            VU address;
            if (kind == CELLS_DYADIC) {
                const VU cell = (((VU)number & SIZE_BITS) - 1) >> 52;
#if W == 2
                /* Comparisons of 32 bits are all there is: the upper half of a cell is 0, and never as that of `no`. */
                const VU no = (VU){0} + (UINT64_C(1) << 32);
                const NAME(ints) half = (NAME(ints))cell;
                outside |= (VU)(half == (NAME(ints))(no + CELL_TINY)) | (VU)(half == (NAME(ints))(no + CELL_HUGE));
#else
                outside |= (VU)(cell == CELL_TINY) | (VU)(cell == CELL_HUGE);
#endif
                address = (cell << (uint64_t)at.shift) + lane[p];
            } else {
                V t;
                if (kind == CELLS_NEAR) {
                    const V near = NAME(multiplied)(number, scale, start);
                    t = (near + coarse) - coarse;
                    worst = NAME(larger)(worst, near - t);
                } else {
                    const V quotient = (number - at.offset) / at.width, rounded = (quotient + ROUNDER) - ROUNDER;
                    const VU half = (VU)((VU)(quotient - rounded) == (uint64_t)HALF_BITS);
                    t = (rounded + (V)(half & (VU)((V){0.0} + 1.0)) - (double)at.base) * bytes;
                }
                const VU place = (VU)(t + ROUNDER) ^ rounder_bits;
                outside |= place;
                address = place + lane[p];
            }
            *(NAME(words_u) *)(void *)(to + i + p * W) = address;
        }
        for (int j = 0; from != NULL && j < 8; j++) {
            ++*(uint32_t *)(uintptr_t)from[i + j];
        }
    }
    int found = 0;
    for (int l = 0; l < W; l++) {
        if (kind == CELLS_NEAR && !(worst[l] <= at.sure)) {
            return -1;
        }
        found |= (kind == CELLS_DYADIC ? outside[l] : outside[l] / (uint64_t)at.surely) != 0;
    }
    return found;
}

TARGET static int NAME(near)(const spots *at, const double *x, uint64_t *to, const uint64_t *from, const char *next,
                             int64_t stride_bytes)
{
    return NAME(block)(at, x, to, from, next, stride_bytes, CELLS_NEAR);
}

TARGET static int NAME(exact)(const spots *at, const double *x, uint64_t *to, const uint64_t *from, const char *next,
                              int64_t stride_bytes)
{
    return from == NULL ? NAME(block)(at, x, to, NULL, next, stride_bytes, CELLS_EXACT)
                        : NAME(block)(at, x, to, from, next, stride_bytes, CELLS_EXACT);
}

TARGET static int NAME(dyadic)(const spots *at, const double *x, uint64_t *to, const uint64_t *from, const char *next,
                               int64_t stride_bytes)
{
    return NAME(block)(at, x, to, from, next, stride_bytes, CELLS_DYADIC);
}

/* Adds the numbers of a block whose cells are `lowest` ... lowest + 15 to counted (16), and returns how many they are: four bits of
 * a word for each cell, which eight vectors cannot fill. No counter in memory is raised. */
TARGET static int64_t NAME(octaves)(const double *x, int64_t lowest, uint32_t *counted, const char *next, int64_t stride_bytes)
{
#if W == 2
    (void)x, (void)lowest, (void)counted, (void)next, (void)stride_bytes;
    return 0; /* shifts that differ between lanes are missing, and `by_octaves` says so */
#else
    const VU nibbles = (VU){0} + UINT64_C(0x0f0f0f0f0f0f0f0f), bytes = (VU){0} + UINT64_C(0x00ff00ff00ff00ff);
    const VU down = (VU){0} + (((uint64_t)lowest << 52) + 1), one = (VU){0} + 1;
    VU even = {0}, odd = {0}; /* a byte for each second cell: at most BLOCK / W */
    for (int64_t i = 0; i < BLOCK; i += 8 * W) {
        VU sum = {0};
        for (int v = 0; v < 8; v++) {
            if (v * W % 8 == 0) {
                __builtin_prefetch(next + (i + v * W) * stride_bytes, 0, 2);
            }
            const VU place = ((((VU)NAME(load)(x + i + v * W) & SIZE_BITS) - down) >> 50) & 0x3ffc;
#if W == 8
            sum += (VU)_mm512_sllv_epi64((__m512i)one, (__m512i)place); /* 0 beyond the last bit */
#else
            sum += (VU)_mm256_sllv_epi64((__m256i)one, (__m256i)place);
#endif
        }
        even += sum & nibbles;
        odd += (sum >> 4) & nibbles;
    }
    uint16_t four[4][4 * W];
    *(NAME(words_u) *)(void *)four[0] = even & bytes;
    *(NAME(words_u) *)(void *)four[1] = odd & bytes;
    *(NAME(words_u) *)(void *)four[2] = (even >> 8) & bytes;
    *(NAME(words_u) *)(void *)four[3] = (odd >> 8) & bytes;
    int64_t all = 0;
    for (int64_t cell = 0; cell < 16; cell++) {
        uint32_t found = 0;
        for (int64_t l = 0; l < W; l++) {
            found += four[cell % 4][4 * l + cell / 4];
        }
        counted[cell] += found;
        all += found;
    }
    return all;
#endif
}

/* Where a number of a block passes a test; returns how many do. A look without stores is enough for most groups. */
#define FIND(test)                                               \
    int64_t found = 0;                                           \
    for (int64_t first = 0; first < BLOCK; first += GROUP) {     \
        uint64_t any = 0;                                        \
        for (int64_t i = first; i < first + GROUP; i++) {        \
            any |= (test);                                       \
        }                                                        \
        for (int64_t i = first; any && i < first + GROUP; i++) { \
            where[found] = (int32_t)i;                           \
            found += (test);                                     \
        }                                                        \
    }                                                            \
    return found;

/* Those whose counters would be in no cell of a window of so many bytes. */
TARGET static int64_t NAME(outside)(const uint64_t *address, uint64_t dense, uint64_t bytes, int32_t *where)
{
    FIND(address[i] - dense >= bytes)
}

/* Those whose dyadic cell is not `lowest` ... lowest + width - 1. */
TARGET static int64_t NAME(others)(const double *x, uint64_t lowest, uint64_t width, int32_t *where)
{
    uint64_t bits[BLOCK];
    memcpy(bits, x, sizeof bits);
    FIND((((bits[i] & INT64_MAX) - 1) >> 52) - lowest >= width)
}
#undef FIND

static const block_kernels NAME(kernels) = {
    NAME(near), NAME(exact), NAME(dyadic), NAME(octaves), NAME(outside), NAME(others), W > 2,
};

#undef SIZE_BITS
#undef VU
#undef V
#undef VI
#undef W
#undef NAME
#undef TARGET
