/* Loops of columns.c for one vector width: included under the macros W, NAME and TARGET of an instruction set. A lane is a number,
 * and what becomes of it is what `boxed_number` and `cell_of` say, operation by operation. */
#include "vector_simd.h"

typedef uint64_t NAME(words) __attribute__((vector_size(8 * W)));
typedef int32_t NAME(places_u) __attribute__((vector_size(4 * W), aligned(4), may_alias));

/* a / width to the last bit. With AVX-512, in an ordinary box, from a reciprocal that is rounded once: its product with a is off by less
 * than two units in the last place, one fused correction makes that less than one, and a second one the nearest number (Markstein's
 * theorem). A box with rows in the cache takes .8 of the time of one that divides; with AVX2, 1.05 times. */
TARGET FPP_INLINE V NAME(quotient)(V a, const double *width, const double *inverse)
{
#if W == 8
    if (inverse != NULL) {
        const __m512d r = _mm512_loadu_pd(inverse), w = _mm512_loadu_pd(width), b = (__m512d)a, q = _mm512_mul_pd(b, r);
        const __m512d near = _mm512_fmadd_pd(_mm512_fnmadd_pd(q, w, b), r, q);
        return (V)_mm512_fmadd_pd(_mm512_fnmadd_pd(near, w, b), r, near);
    }
#else
    (void)inverse;
#endif
    return a / NAME(load)(width);
}

/* y where x is finite, else `absent`. */
TARGET FPP_INLINE V NAME(present)(V x, V y, const double *absent)
{
#if W == 8
    return (V)_mm512_mask_loadu_pd((__m512d)y, _mm512_fpclass_pd_mask((__m512d)x, BEYOND), absent);
#else
    return NAME(where)(NAME(is_finite)(x), y, NAME(load)(absent));
#endif
}

TARGET FPP_INLINE void NAME(box_strip)(const char *restrict x, int64_t count, const box_tables *t, double *restrict out, int is_f32,
                                       int ordinary)
{
    int64_t i = 0;
    for (; i + W <= count; i += W) {
        FPP_FETCH(x + i * (is_f32 ? 4 : 8) + FPP_AHEAD);
        const V value = NAME(load_x)(x, i, is_f32), v = value - NAME(load)(t->center + i);
        const V within = NAME(clipped)(v, NAME(load)(t->lower + i), NAME(load)(t->upper + i));
        const V y = NAME(quotient)(within - NAME(load)(t->middle + i), t->width + i, ordinary ? t->inverse + i : NULL);
        NAME(store)(out + i, NAME(present)(value, y, t->absent + i));
    }
    for (; i < count; i++) {
        out[i] = boxed_number(fpp_entry(x, i, is_f32), t, i);
    }
}

/* So many strips of `count` numbers, one after another. */
TARGET static void NAME(boxed)(const char *x, int64_t count, int64_t times, const box_tables *t, double *out, int is_f32)
{
    for (; times > 0; times--, x += count * (is_f32 ? 4 : 8), out += count) {
        if (is_f32 && t->inverse != NULL) {
            NAME(box_strip)(x, count, t, out, 1, 1);
        } else if (is_f32) {
            NAME(box_strip)(x, count, t, out, 1, 0);
        } else if (t->inverse != NULL) {
            NAME(box_strip)(x, count, t, out, 0, 1);
        } else {
            NAME(box_strip)(x, count, t, out, 0, 0);
        }
    }
}

/* Cells of W numbers. */
TARGET FPP_INLINE VI NAME(cells)(V value, V v, int32_t log2_parts)
{
    const int64_t side = INT64_C(2047) << log2_parts;
    const NAME(words) size = (((NAME(words))v & INT64_MAX) - 1) >> (uint64_t)(52 - log2_parts);
#if W == 8
    const __m512i zero = _mm512_setzero_si512(), sides = _mm512_set1_epi64(side);
    __m512i cell = _mm512_mask_add_epi64((__m512i)size, _mm512_cmplt_epi64_mask((__m512i)v, zero), (__m512i)size, sides);
    cell = _mm512_mask_mov_epi64(cell, _mm512_cmp_pd_mask((__m512d)v, (__m512d)zero, _CMP_EQ_OQ), _mm512_set1_epi64(2 * side));
    return (VI)_mm512_mask_mov_epi64(cell, _mm512_fpclass_pd_mask((__m512d)value, BEYOND), _mm512_set1_epi64(2 * side + 1));
#else
    const V zero = {0.0};
    const VI key = (VI)size + ((v < zero) & side);
    const V cell = NAME(where)(v == zero, (V)((VI){0} + 2 * side), (V)key);
    return (VI)NAME(where)(NAME(is_finite)(value), cell, (V)((VI){0} + (2 * side + 1)));
#endif
}

/* Cells as 32-bit integers: half the memory on the way to the counters. */
TARGET FPP_INLINE NAME(places_u) NAME(narrow_cells)(VI cell)
{
#if W == 8
    return (NAME(places_u))_mm512_cvtepi64_epi32((__m512i)cell);
#elif W == 4
    const __m256i halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 0, 0, 0);
    return (NAME(places_u))_mm256_castsi256_si128(_mm256_permutevar8x32_epi32((__m256i)cell, halves));
#else
    return __builtin_convertvector(cell, NAME(places_u));
#endif
}

/* counts[first[i] + cell] += 1 for each number. Places go through memory to the counters, LAG numbers later, while the next ones are
 * computed, so that stores to counters and arithmetic overlap. What was fetched into the second cache is fetched into the first here. */
TARGET FPP_INLINE void NAME(count_strip)(const char *restrict x, int64_t count, const double *restrict center,
                                         const int32_t *restrict first, int32_t log2_parts, int64_t *restrict counts, int is_f32)
{
    int64_t i = 0, bumped = 0;
    int32_t place[STRIP];
    for (; i + TOGETHER <= count; i += TOGETHER) {
        FPP_FETCH(x + i * (is_f32 ? 4 : 8) + FPP_AHEAD);
        __builtin_prefetch(x + i * (is_f32 ? 4 : 8) + NEAR);
        for (int s = 0; s < TOGETHER; s += W) {
            const V value = NAME(load_x)(x, i + s, is_f32);
            const VI cell = NAME(cells)(value, value - NAME(load)(center + i + s), log2_parts);
            *(NAME(places_u) *)(place + i + s) = NAME(narrow_cells)(cell) + *(const NAME(places_u) *)(first + i + s);
        }
        if (i >= LAG) {
            for (int s = 0; s < TOGETHER; s++) {
                counts[place[bumped + s]]++;
            }
            bumped += TOGETHER;
        }
    }
    for (; bumped < i; bumped++) {
        counts[place[bumped]]++;
    }
    for (; i < count; i++) {
        counts[first[i] + cell_of(fpp_entry(x, i, is_f32), center[i], log2_parts)]++;
    }
}

TARGET static void NAME(counted)(const char *x, int64_t count, const double *center, const int32_t *first, int32_t log2_parts,
                                 int64_t *counts, int is_f32)
{
    if (is_f32) {
        NAME(count_strip)(x, count, center, first, log2_parts, counts, 1);
    } else {
        NAME(count_strip)(x, count, center, first, log2_parts, counts, 0);
    }
}

/* Whether all numbers are finite. */
TARGET static int32_t NAME(whole)(const char *x, int64_t count, int is_f32)
{
    VI finite = (VI){0} - 1;
    int64_t i = 0;
    for (; i + W <= count; i += W) {
        finite &= NAME(is_finite)(NAME(load_x)(x, i, is_f32));
    }
    int32_t whole = 1;
    for (int l = 0; l < W; l++) {
        whole &= finite[l] != 0;
    }
    for (; i < count; i++) {
        whole &= fabs(fpp_entry(x, i, is_f32)) < INFINITY;
    }
    return whole;
}

#undef V
#undef VI
#undef W
#undef NAME
#undef TARGET
