/* The loops over pairs of hypotheses for one vector width: included by hypotheses.c once per instruction set, with
 *   W       doubles per vector (2, 4 or 8)
 *   NAME    makes a name unique to the instruction set
 *   TARGET  function attribute
 *   IB      hypotheses of a register block, each against two vectors of others
 *   RT      rows whose densities are computed together, a divisor of FPP_ROWS_MAX
 * Lanes run over hypotheses, so that nothing is ever summed across a vector and every width gives the same bits.
 */
typedef double NAME(real) __attribute__((vector_size(8 * W)));
typedef double NAME(real_u) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef int64_t NAME(long) __attribute__((vector_size(8 * W)));
typedef uint64_t NAME(bits) __attribute__((vector_size(8 * W)));
typedef int32_t NAME(int) __attribute__((vector_size(8 * W)));
typedef int32_t NAME(int_u) __attribute__((vector_size(8 * W), aligned(4), may_alias));
typedef int16_t NAME(narrow_u) __attribute__((vector_size(2 * W), aligned(2), may_alias));
typedef int16_t NAME(code) __attribute__((vector_size(8 * W)));
typedef int16_t NAME(code_u) __attribute__((vector_size(8 * W), aligned(2), may_alias));
#define R NAME(real)
#define L NAME(long)
#define B NAME(bits)
#define I NAME(int)
#define C NAME(code)

/* ---- Densities ----------------------------------------------------------------------------------------------------- */

/* The larger and the smaller of two numbers; b where a is NaN. */
TARGET FPP_INLINE R NAME(larger)(R a, R b)
{
#if W == 8
    return (R)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif W == 4
    return (R)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
    const L mask = (L)(a > b);
    return (R)(((L)a & mask) | ((L)b & ~mask));
#endif
}

TARGET FPP_INLINE R NAME(smaller)(R a, R b)
{
#if W == 8
    return (R)_mm512_min_pd((__m512d)a, (__m512d)b);
#elif W == 4
    return (R)_mm256_min_pd((__m256d)a, (__m256d)b);
#else
    const L mask = (L)(a < b);
    return (R)(((L)a & mask) | ((L)b & ~mask));
#endif
}

/* e^x for -40 <= x <= 0, to 5e-5: a tenth of a code. */
TARGET FPP_INLINE R NAME(exp)(R x)
{
    const R shifted = x * 0x1.71547652b82fep+0 + 0x1.8p+52;
    const R r = x - (shifted - 0x1.8p+52) * 0x1.62e42fefa39efp-1;
    R p = r * (1.0 / 24.0) + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return (R)((B)p + ((B)shifted << 52));
}

/* log x for x >= 1, to 2e-5. */
TARGET FPP_INLINE R NAME(log)(R x)
{
    const B word = (B)x;
    const R exponent = (R)((word >> 52) + (B)(L){0} + (UINT64_C(0x4330000000000000) - 1023)) - 0x1p+52;
    const R f = (R)((word & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000));
    const R t = (f - 1.0) / (f + 1.0), s = t * t;
    R p = s * (1.0 / 7.0) + 1.0 / 5.0;
    p = p * s + 1.0 / 3.0;
    p = p * s + 1.0;
    return exponent * 0x1.62e42fefa39efp-1 + 2.0 * t * p;
}

/* Log weighted density of component `at` at RT rows: -|factor (x - mean)|^2 / 2 and the constant. `gaps` has room for dim RT vectors. */
TARGET FPP_INLINE void NAME(component)(const fpp_mixtures *mix, int lower, int64_t at, int64_t lane, const double *x, double *gaps,
                                       double *found)
{
    const int64_t dim = mix->dim;
    const double *mean = mix->means + at * dim * FPP_PANEL + lane;
    const double *factor = mix->factors + at * (lower ? dim * (dim + 1) / 2 : dim) * FPP_PANEL + lane;
    const R constant = *(const NAME(real_u) *)(mix->constants + at * FPP_PANEL + lane);
    R q[RT];
    for (int r = 0; r < RT; r++) {
        q[r] = (R){0.0};
    }
    for (int64_t a = 0; a < dim; a++) {
        R t[RT], gap[RT];
        for (int r = 0; r < RT; r++) {
            t[r] = (R){0.0};
            gap[r] = x[r * dim + a] - *(const NAME(real_u) *)(mean + a * FPP_PANEL);
            *(NAME(real_u) *)(gaps + (lower ? a * RT + r : 0) * W) = gap[r];
        }
        for (int64_t b = lower ? 0 : a; b <= a; b++, factor += FPP_PANEL) {
            const R f = *(const NAME(real_u) *)factor;
            for (int r = 0; r < RT; r++) {
                t[r] += (lower ? (R) *(const NAME(real_u) *)(gaps + (b * RT + r) * W) : gap[r]) * f;
            }
        }
        for (int r = 0; r < RT; r++) {
            q[r] += t[r] * t[r];
        }
    }
    for (int r = 0; r < RT; r++) {
        /* A row beyond the range of doubles is at a huge distance, not at NaN. */
        *(NAME(real_u) *)(found + r * W) = constant - 0.5 * NAME(smaller)(q[r], (R){0.0} + 1e300);
    }
}

/* Log densities of the mixtures from `lane` of a panel on at the rows of x that `left` names, into logs, rows `stride` apart. Parameters
 * of a component stay in the cache for all rows; those of vectors without mixtures, most of a short list's panel, are not read. */
TARGET static void NAME(densities)(const fpp_mixtures *mix, int64_t panel, int64_t lane, const double *x, uint32_t left, double *work,
                                   double *logs, int64_t stride)
{
    double *gaps = work + FPP_ROWS_MAX * W * mix->components;
    int64_t there = 0;
    for (int64_t i = 0; i < mix->components * W; i++) {
        there |= !(mix->constants[(panel * mix->components + i / W) * FPP_PANEL + lane + i % W] <= -1e300);
    }
    for (int64_t c = 0; there && c < mix->components; c++) {
        for (int64_t r = 0; r < FPP_ROWS_MAX; r += RT) {
            if (left >> r & ((1 << RT) - 1)) {
                const int64_t at = panel * mix->components + c;
                mix->lower ? NAME(component)(mix, 1, at, lane, x + r * mix->dim, gaps, work + (c * FPP_ROWS_MAX + r) * W)
                           : NAME(component)(mix, 0, at, lane, x + r * mix->dim, gaps, work + (c * FPP_ROWS_MAX + r) * W);
            }
        }
    }
    for (uint32_t rows = left; rows != 0; rows &= rows - 1) {
        const int64_t r = __builtin_ctz(rows);
        R best = (R){0.0} - (there ? INFINITY : 1e300), sum = {0.0};
        for (int64_t c = 0; there && c < mix->components; c++) {
            best = NAME(larger)(*(const NAME(real_u) *)(work + (c * FPP_ROWS_MAX + r) * W), best);
        }
        for (int64_t c = 0; there && mix->components > 1 && c < mix->components; c++) {
            const R gap = *(const NAME(real_u) *)(work + (c * FPP_ROWS_MAX + r) * W) - best;
            sum += NAME(exp)(NAME(larger)(gap, (R){0.0} - 40.0));
        }
        *(NAME(real_u) *)(logs + r * stride) = there && mix->components > 1 ? best + NAME(log)(sum) : best;
    }
}

/* Codes of one row, panel by panel, `stride` apart; all zero unless is_finite is -1. */
TARGET static void NAME(quantise)(const double *logs, int64_t panels, int64_t is_finite, int64_t stride, int16_t *codes)
{
    R tops = *(const NAME(real_u) *)logs;
    for (int64_t i = W; i < panels * FPP_PANEL; i += W) {
        tops = NAME(larger)(*(const NAME(real_u) *)(logs + i), tops);
    }
    double top = tops[0];
    for (int l = 1; l < W; l++) {
        top = tops[l] > top ? tops[l] : top;
    }
    for (int64_t p = 0; p < panels; p++) {
        const double *from = logs + p * FPP_PANEL;
        int16_t *to = codes + p * stride;
        for (int64_t l = 0; l < FPP_PANEL; l += W) {
            const R below = (*(const NAME(real_u) *)(from + l) - top) * (double)FPP_CODES_PER_NAT;
            /* The sum rounds to a whole number and leaves it in the low bits. */
            const L code = (L)(NAME(larger)(below, (R){0.0} - 65535.0) + 0x1.8p+52) + FPP_TOP_CODE;
            *(NAME(narrow_u) *)(to + l) = __builtin_convertvector(code & is_finite, NAME(narrow_u));
        }
    }
}

#if W > 2
#include "densities_simd.h"
#endif

/* Rows `first` on of x, FPP_ROWS_MAX of them, the last one again after the end; zeros and finite[r] = 0 in place of a row that is not
 * finite, else -1. */
TARGET static void NAME(take_rows)(const double *x, int64_t first, int64_t n, int64_t dim, double *rows, int64_t *finite)
{
    for (int64_t r = 0; r < FPP_ROWS_MAX; r++) {
        const double *row = x + (first + r < n ? first + r : n - 1) * dim;
        finite[r] = -1;
        for (int64_t j = 0; j < dim; j++) {
            finite[r] &= -(int64_t)(fabs(row[j]) < INFINITY);
        }
        for (int64_t j = 0; j < dim; j++) {
            rows[r * dim + j] = finite[r] ? row[j] : 0.0;
        }
    }
}

/* Codes of the first `group` of the rows; *fused says whether to try fused instructions, and then, whether that was worth it. */
TARGET static void NAME(code_group)(const fpp_mixtures *mix, const double *rows, const int64_t *finite, int64_t group, int64_t capacity,
                                    double constant, int *fused, double *work, int16_t *codes)
{
    const int64_t width = mix->panels * FPP_PANEL;
    double *logs = work, *parts = logs + FPP_ROWS_MAX * width;
    uint32_t left = (UINT32_C(1) << group) - 1; /* rows whose codes are not known yet */
#if W > 2
    if (*fused) {
        uint32_t near = 0;
        for (int64_t at = 0; at < width; at += W) {
            for (int64_t r = 0; r < group; r += RT) {
                const int64_t panel = at / FPP_PANEL, lane = at % FPP_PANEL;
                double *const to = logs + r * width + at;
                near |= (mix->components > 1 ? NAME(fused_densities)(mix, 2, panel, lane, rows + r * mix->dim, to, width)
                                             : NAME(fused_densities)(mix, 1, panel, lane, rows + r * mix->dim, to, width))
                        << r;
            }
        }
        for (int64_t r = 0; r < group; r++) {
            const int again = NAME(fused_quantise)(mix, logs + r * width, constant, finite[r], capacity * FPP_PANEL, codes + r * FPP_PANEL);
            left &= ~((uint32_t)(!again && !(near >> r & 1)) << r);
        }
        *fused = __builtin_popcount(left) <= FPP_ROWS_MAX / 4;
    }
#else
    (void)constant;
    (void)fused;
#endif
    for (int64_t at = 0; left != 0 && at < width; at += W) {
        NAME(densities)(mix, at / FPP_PANEL, at % FPP_PANEL, rows, left, parts, logs + at, width);
    }
    for (int64_t r = 0; r < group; r++) {
        if (left >> r & 1) {
            NAME(quantise)(logs + r * width, mix->panels, finite[r], capacity * FPP_PANEL, codes + r * FPP_PANEL);
        }
    }
}

/* Whether fused instructions may be tried, and the largest constant of a component that is there. */
static int NAME(may_fuse)(const fpp_mixtures *mix, double *constant)
{
    *constant = 0.0;
    for (int64_t i = 0; W > 2 && i < mix->panels * mix->components * FPP_PANEL; i++) {
        const double size = fabs(mix->constants[i]);
        *constant = mix->constants[i] > -1e299 && size > *constant ? size : *constant;
    }
    return W > 2 && !mix->lower && mix->components <= 2;
}

TARGET static void NAME(codes)(const fpp_mixtures *mix, const double *x, int64_t n, int64_t capacity, double *work, int16_t *codes)
{
    double constant, *rows = work;
    int fused = NAME(may_fuse)(mix, &constant);
    for (int64_t first = 0; first < n; first += FPP_ROWS_MAX) {
        int64_t finite[FPP_ROWS_MAX];
        NAME(take_rows)(x, first, n, mix->dim, rows, finite);
        NAME(code_group)(mix, rows, finite, n - first < FPP_ROWS_MAX ? n - first : FPP_ROWS_MAX, capacity, constant, &fused,
                         rows + FPP_ROWS_MAX * mix->dim, codes + first * FPP_PANEL);
    }
}

/* ---- Pairs --------------------------------------------------------------------------------------------------------- */

/* counts (IB, FPP_PANEL) += rows in which a hypothesis of `mine` (n, IB), each code twice in 32 bits, beats one of `theirs`. */
TARGET static void NAME(count_block)(const int32_t *mine, const int16_t *theirs, int64_t n, int64_t stride, int32_t *counts)
{
    for (int64_t lane = 0; lane < FPP_PANEL; lane += 8 * W) {
        C sums[IB][2];
        for (int i = 0; i < IB; i++) {
            sums[i][0] = sums[i][1] = (C){0};
        }
#if W == 8
        const __m512i one = _mm512_set1_epi16(1);
#endif
        for (int64_t r = 0; r < n; r++) {
            const C low = *(const NAME(code_u) *)(theirs + r * FPP_PANEL + lane);
            const C high = *(const NAME(code_u) *)(theirs + r * FPP_PANEL + lane + 4 * W);
            for (int i = 0; i < IB; i++) {
                const C own = (C)((I){0} + mine[r * IB + i]);
#if W == 8
                sums[i][0] = (C)_mm512_mask_add_epi16((__m512i)sums[i][0], _mm512_cmpgt_epi16_mask((__m512i)own, (__m512i)low),
                                                      (__m512i)sums[i][0], one);
                sums[i][1] = (C)_mm512_mask_add_epi16((__m512i)sums[i][1], _mm512_cmpgt_epi16_mask((__m512i)own, (__m512i)high),
                                                      (__m512i)sums[i][1], one);
#else
                sums[i][0] -= (C)(own > low);
                sums[i][1] -= (C)(own > high);
#endif
            }
        }
        for (int i = 0; i < IB; i++) {
            int32_t *to = counts + i * stride + lane;
            for (int half = 0; half < 2; half++) {
                for (int l = 0; l < 4 * W; l++) {
                    to[half * 4 * W + l] += sums[i][half][l];
                }
            }
        }
    }
}

TARGET static void NAME(count_pairs)(const int16_t *codes, int64_t n, int64_t capacity, int64_t panels, int64_t panel, int32_t *work,
                                     int32_t *counts)
{
    const int64_t stride = (panels - panel) * FPP_PANEL;
    for (int64_t first = 0; first < n; first += FPP_PAIR_ROWS) {
        const int64_t rows = n - first < FPP_PAIR_ROWS ? n - first : FPP_PAIR_ROWS;
        const int16_t *mine = codes + (panel * capacity + first) * FPP_PANEL;
        for (int64_t block = 0; block < FPP_PANEL / IB; block++) {
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t i = 0; i < IB; i++) {
                    const uint32_t code = (uint16_t)mine[r * FPP_PANEL + block * IB + i];
                    work[(block * rows + r) * IB + i] = (int32_t)(code << 16 | code);
                }
            }
        }
        for (int64_t p = panel; p < panels; p++) {
            const int16_t *theirs = codes + (p * capacity + first) * FPP_PANEL;
            for (int64_t block = 0; block < FPP_PANEL / IB; block++) {
                NAME(count_block)(work + block * rows * IB, theirs, rows, stride,
                                  counts + block * IB * stride + (p - panel) * FPP_PANEL);
            }
        }
    }
}

TARGET FPP_INLINE I NAME(greater)(I a, I b)
{
    const I mask = a > b;
    return (a & mask) | (b & ~mask);
}

/* worst (panels * FPP_PANEL) = the larger of itself and of the scores that the pairs of `panel` with later candidates give. */
TARGET static void NAME(score_cells)(const int32_t *table, int64_t cells, int64_t panels, int64_t panel, int32_t shift, int32_t *worst)
{
    enum { LANES = 2 * W, BLOCK = W == 8 ? 4 : 2 };
    const int32_t half = shift > 0 ? (int32_t)1 << (shift - 1) : 0;
    I number = {0};
    for (int l = 0; l < LANES; l++) {
        number[l] = l;
    }
    for (int64_t p = panel; p < panels; p++) {
        const int32_t *theirs = table + p * cells * FPP_PANEL;
        for (int64_t first = 0; first < FPP_PANEL; first += BLOCK) {
            const int32_t *mine = table + panel * cells * FPP_PANEL + first;
            for (int64_t lane = 0; lane < FPP_PANEL; lane += 2 * LANES) {
                if (p == panel && lane + 2 * LANES <= first + 1) {
                    continue; /* no later candidate here */
                }
                I own[BLOCK][2], other[BLOCK][2];
                for (int i = 0; i < BLOCK; i++) {
                    own[i][0] = own[i][1] = other[i][0] = other[i][1] = (I){0};
                }
                for (int64_t g = 0; g < cells; g++) {
                    I b[2];
                    b[0] = *(const NAME(int_u) *)(theirs + g * FPP_PANEL + lane);
                    b[1] = *(const NAME(int_u) *)(theirs + g * FPP_PANEL + lane + LANES);
                    for (int i = 0; i < BLOCK; i++) {
                        const I a = (I){0} + mine[g * FPP_PANEL + i];
                        for (int v = 0; v < 2; v++) {
#if W == 8
                            const __mmask16 wins = _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b[v]);
                            own[i][v] = (I)_mm512_mask_add_epi32((__m512i)own[i][v], wins, (__m512i)own[i][v], (__m512i)a);
                            other[i][v] = (I)_mm512_mask_add_epi32((__m512i)other[i][v], wins, (__m512i)other[i][v], (__m512i)b[v]);
#else
                            const I wins = a > b[v];
                            own[i][v] += a & wins;
                            other[i][v] += b[v] & wins;
#endif
                        }
                    }
                }
                for (int i = 0; i < BLOCK; i++) {
                    I most = {0};
                    for (int v = 0; v < 2; v++) {
                        const I later = p > panel ? (I){0} - 1 : number + (int32_t)(lane + v * LANES) > (I){0} + (int32_t)(first + i);
                        int32_t *at = worst + p * FPP_PANEL + lane + v * LANES;
                        const I mine_off = ((own[i][v] + half) >> shift) & later, theirs_off = ((other[i][v] + half) >> shift) & later;
                        most = NAME(greater)(most, NAME(greater)(mine_off, -mine_off));
                        *(NAME(int_u) *)at = NAME(greater)(*(const NAME(int_u) *)at, NAME(greater)(theirs_off, -theirs_off));
                    }
                    int32_t *at = worst + panel * FPP_PANEL + first + i;
                    for (int l = 0; l < LANES; l++) {
                        *at = most[l] > *at ? most[l] : *at;
                    }
                }
            }
        }
    }
}

static const fpp_pair_kernels NAME(pair_kernels) = {
    NAME(codes), NAME(count_pairs), NAME(score_cells),
};

#undef R
#undef L
#undef B
#undef I
#undef C
#undef W
#undef NAME
#undef TARGET
#undef IB
#undef RT
