/* Draws from one hypothesis against all others, for one vector width: included by hypotheses_simd.h alone, under the same macros.
 *
 * Only comparisons of codes are wanted, and the codes of `own` are the same for all pairs of a draw. So log densities are taken in single
 * precision, twice as many at a time, and held against the two edges of the code of `own`; what is so near to an edge that the bound of
 * single_simd.h does not decide it is taken again, alone, by the arithmetic of the codes. The counts are those of the codes, on every processor.
 *
 * With 1,000 candidates of two components in 3 columns a draw takes a third of the time of its codes. Where more than a quarter of all
 * vectors hold a pair in doubt, as when hypotheses differ by next to nothing, the other draws are coded as rows are. What lost: taking what is in
 * doubt again at once, which ends in a branch that no processor foresees. */

/* counts += rows of codes (panels, FPP_ROWS_MAX, FPP_PANEL) in which `own` beats a later candidate, and in which an earlier one beats it. */
TARGET static void NAME(count_codes)(const int16_t *codes, int64_t n, int64_t panels, int64_t own, int32_t *counts)
{
    const int16_t *mine = codes + own / FPP_PANEL * FPP_ROWS_MAX * FPP_PANEL + own % FPP_PANEL;
    for (int64_t p = 0; p < panels; p++) {
        int16_t above[FPP_PANEL] = {0}, below[FPP_PANEL] = {0};
        for (int64_t r = 0; r < n; r++) {
            const int16_t code = mine[r * FPP_PANEL];
            const int16_t *theirs = codes + (p * FPP_ROWS_MAX + r) * FPP_PANEL;
            for (int64_t l = 0; l < FPP_PANEL; l++) {
                above[l] = (int16_t)(above[l] + (code > theirs[l]));
                below[l] = (int16_t)(below[l] + (code < theirs[l]));
            }
        }
        for (int64_t l = 0; l < FPP_PANEL; l++) {
            counts[p * FPP_PANEL + l] += p * FPP_PANEL + l > own ? above[l] : below[l];
        }
    }
}

#if W > 2
#include "single_simd.h"

/* Lanes (bits of mask[r]) of a vector of hypotheses in which row r is in doubt go into the list, without a branch for each. */
TARGET FPP_INLINE void NAME(note_doubts)(NAME(group) *group, int64_t at, const uint16_t *mask)
{
    uint32_t rows = 0;
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        rows |= (uint32_t)(mask[r] != 0) << r;
    }
    for (; rows != 0; rows &= rows - 1) {
        const int64_t r = __builtin_ctz(rows), low = mask[r] & ((1 << W) - 1), high = mask[r] >> W;
        group->doubtful[group->doubts] = at << 12 | r << 8 | low;
        group->doubts += low != 0;
        group->doubtful[group->doubts] = (at + W) << 12 | r << 8 | high;
        group->doubts += high != 0;
    }
}

/* All log densities of a group; most (FPP_ROWS_MAX): what the largest is not below, of each lane. */
TARGET static void NAME(all_singles)(const fpp_draws *draws, const NAME(group) *group, const S *bend, S *most)
{
    const fpp_mixtures *const mix = draws->mix;
    const int64_t dim = mix->dim;
    float *logs = draws->logs;
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        most[r] = (S){0.0f} + (float)(group->own[r] - 0x1p-20 * fabs(group->own[r]));
    }
    for (int64_t at = 0; at < draws->width; at += SL) {
        const float *parameters = draws->parameters + at * mix->components * EACH;
        const S margin = AT(draws->margin + at), floor = AT(draws->floor + at);
        for (int first = 0; first < FPP_ROWS_MAX; first += SR, logs += SR * SL) {
            S found[SR];
            if (draws->narrow[at / SL]) {
                NAME(single_densities)(mix, parameters, draws->points + first * dim, bend, 1, floor, found);
            } else {
                NAME(single_densities)(mix, parameters, draws->points + first * dim, bend, 0, floor, found);
            }
            for (int r = 0; r < SR; r++) {
                *(NAME(single_u) *)(logs + r * SL) = found[r];
                most[first + r] = LARGEST(found[r] - margin, most[first + r]);
            }
        }
    }
}

/* Log densities of W hypotheses at one row, as codes are made of. */
TARGET static R NAME(alone)(const fpp_draws *draws, int64_t at, int64_t row)
{
    R log;
    double *const x = draws->rows + row * draws->mix->dim;
    NAME(few_densities)(draws->mix, at / FPP_PANEL, at % FPP_PANEL, x, 1, draws->work, (double *)&log, 0);
    return log;
}

/* group->top: the largest log density of each row, among those that may be it. */
TARGET static void NAME(raise_tops)(const fpp_draws *draws, NAME(group) *group)
{
    for (int64_t i = 0; i < group->doubts; i++) {
        const int64_t r = group->doubtful[i] >> 8 & 15;
        const R log = NAME(alone)(draws, group->doubtful[i] >> 12, r);
        double top = group->top[r];
        for (int l = 0; l < W; l++) {
            top = log[l] > top ? log[l] : top;
        }
        group->top[r] = top;
    }
    group->doubts = 0;
}

TARGET static void NAME(find_tops)(const fpp_draws *draws, const S *most, NAME(group) *group)
{
    float least[FPP_ROWS_MAX];
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        least[r] = most[r][0];
        for (int l = 1; l < SL; l++) {
            least[r] = most[r][l] > least[r] ? most[r][l] : least[r];
        }
        group->top[r] = group->own[r];
    }
    const float *logs = draws->logs;
    for (int64_t at = 0; at < draws->width; at += SL) {
        const S margin = AT(draws->margin + at);
        uint16_t may[FPP_ROWS_MAX];
        for (int r = 0; r < FPP_ROWS_MAX; r++, logs += SL) {
            may[r] = (uint16_t)NOT_ABOVE(SPREAD(least[r]), AT(logs) + margin);
        }
        NAME(note_doubts)(group, at, may);
        if (group->doubts > DOUBTS_MAX - 2 * FPP_ROWS_MAX - 2) {
            NAME(raise_tops)(draws, group);
        }
    }
    NAME(raise_tops)(draws, group);
}

/* A code less FPP_TOP_CODE, as `quantise` makes it. */
FPP_INLINE double NAME(code_of)(double log, double top)
{
    const double below = (log - top) * (double)FPP_CODES_PER_NAT, kept = below > -65535.0 ? below : -65535.0;
    return kept + 0x1.8p+52 - 0x1.8p+52;
}

static void NAME(find_edges)(NAME(group) *group, int64_t rows)
{
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        const double code = NAME(code_of)(group->own[r], group->top[r]), step = 1.0 / FPP_CODES_PER_NAT;
        const int counts = r < rows && group->finite[r];
        group->code[r] = code;
        group->counted[r] = counts ? UINT16_MAX : 0;
        group->below[r] = counts && code > -65535.0 ? (float)(group->top[r] + (code - 0.5) * step) : -INFINITY;
        group->above[r] = counts ? (float)(group->top[r] + (code + 0.5) * step) : INFINITY;
    }
}

/* counts += what pairs in doubt say, by codes; how many there were. */
TARGET static int64_t NAME(settle_doubts)(const fpp_draws *draws, NAME(group) *group, int32_t *counts)
{
    const int64_t settled = group->doubts;
    for (int64_t i = 0; i < settled; i++) {
        const int64_t at = group->doubtful[i] >> 12, r = group->doubtful[i] >> 8 & 15;
        const R log = NAME(alone)(draws, at, r), below = (log - group->top[r]) * (double)FPP_CODES_PER_NAT;
        const R codes = NAME(larger)(below, (R){0.0} - 65535.0) + 0x1.8p+52 - 0x1.8p+52, own = (R){0.0} + group->code[r];
        L lane, wins;
        for (int l = 0; l < W; l++) {
            lane[l] = l;
        }
        wins = ((codes < own) & (lane + at > draws->own)) | ((codes > own) & (lane + at < draws->own));
        wins &= (group->doubtful[i] >> lane) & 1;
        for (int l = 0; l < W; l++) {
            counts[at + l] += (int32_t)wins[l];
        }
    }
    group->doubts = 0;
    return settled;
}

/* Counts of one vector of hypotheses, all later than `own` (1), all earlier (-1) or with it (0). */
TARGET FPP_INLINE void NAME(compare)(const fpp_draws *draws, NAME(group) *group, int64_t at, int side, int32_t *counts)
{
    const float *logs = draws->logs + at * FPP_ROWS_MAX;
    const S margin = AT(draws->margin + at);
    uint16_t doubts[FPP_ROWS_MAX];
    I wins = {0}, later = {0};
    for (int l = 0; l < SL; l++) {
        later[l] = -(int32_t)(at + l > draws->own);
    }
    for (int r = 0; r < FPP_ROWS_MAX; r++) {
        const S log = AT(logs + r * SL), over = log - group->below[r], under = group->above[r] - log;
        const S off = side > 0 ? over : side < 0 ? under : (S)(((I)over & later) | ((I)under & ~later));
        wins -= (I)(off < -margin);
        doubts[r] = (uint16_t)(NOT_ABOVE((S)((I)off & INT32_MAX), margin) & group->counted[r]);
    }
    *(NAME(int_u) *)(counts + at) += wins;
    NAME(note_doubts)(group, at, doubts);
}

/* Adds what the rows of a group say; -1 if they have to be coded, else how many vectors of hypotheses had to be looked at again. */
TARGET static int64_t NAME(single_group)(const fpp_draws *draws, NAME(group) *group, int64_t rows, const S *bend, int32_t *counts)
{
    const int64_t own = draws->own, dim = draws->mix->dim, at = own / W * W, before = own / SL * SL;
    for (int64_t r = 0; r < FPP_ROWS_MAX; r += RT) {
        double logs[RT * W];
        NAME(few_densities)(draws->mix, at / FPP_PANEL, at % FPP_PANEL, draws->rows + r * dim, RT, draws->work, logs, W);
        for (int64_t i = 0; i < RT; i++) {
            group->own[r + i] = logs[i * W + own % W];
        }
    }
    if (!NAME(make_margins)(draws, group)) {
        return -1;
    }
    S most[FPP_ROWS_MAX];
    int64_t again = 0;
    group->doubts = 0;
    NAME(all_singles)(draws, group, bend, most);
    NAME(find_tops)(draws, most, group);
    NAME(find_edges)(group, rows);
    for (int64_t v = 0; v < draws->width; v += SL) {
        if (v < before) {
            NAME(compare)(draws, group, v, -1, counts);
        } else if (v > before) {
            NAME(compare)(draws, group, v, 1, counts);
        } else {
            NAME(compare)(draws, group, v, 0, counts);
        }
        if (group->doubts > DOUBTS_MAX - 2 * FPP_ROWS_MAX - 2) {
            again += NAME(settle_doubts)(draws, group, counts);
        }
    }
    return again + NAME(settle_doubts)(draws, group, counts);
}
#endif

TARGET static void NAME(count_draws)(const fpp_draws *draws, const double *x, int64_t n, int32_t *counts)
{
    const fpp_mixtures *const mix = draws->mix;
    double constant;
    int fused = NAME(may_fuse)(mix, &constant);
#if W > 2
    float pieces[FPP_BEND_TERMS * SL];
    S bend[FPP_BEND_TERMS];
    NAME(group) group;
    int64_t *const finite = group.finite;
    int single = n > 0 && fits_single(mix) && NAME(make_single)(draws);
    make_bend(SL, pieces);
    for (int i = 0; i < FPP_BEND_TERMS; i++) {
        bend[i] = AT(pieces + i * SL);
    }
#else
    int64_t finite[FPP_ROWS_MAX];
#endif
    for (int64_t first = 0; first < n; first += FPP_ROWS_MAX) {
        const int64_t rows = n - first < FPP_ROWS_MAX ? n - first : FPP_ROWS_MAX;
        NAME(take_rows)(x, first, n, mix->dim, draws->rows, finite);
#if W > 2
        const int64_t again = single ? NAME(single_group)(draws, &group, rows, bend, counts) : -1;
        if (again >= 0) {
            single = again * W <= draws->width * FPP_ROWS_MAX / 4;
            continue;
        }
#endif
        NAME(code_group)(mix, draws->rows, finite, rows, FPP_ROWS_MAX, constant, &fused, draws->work, draws->codes);
        NAME(count_codes)(draws->codes, rows, mix->panels, draws->own, counts);
    }
}

#if W > 2
#undef S
#undef SL
#undef EACH
#undef SR
#undef DOUBTS_MAX
#undef AT
#undef SPREAD
#undef TIMES_LESS
#undef TIMES_MORE
#undef LESS_TIMES
#undef LARGEST
#undef SMALLEST
#undef PICKED
#undef ROOT
#undef NOT_ABOVE
#endif
