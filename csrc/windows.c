/* Windows of neighbouring counts of a column that stand out of their noise, and which of them are believed beside what is known.
 * Counts that have been released: nothing here sees a row. */
#include "internal.h"

#include <math.h>
#include <string.h>

#define WIDTHS 4 /* of windows: 1, 2, 4 and 8 cells */
#define SLACK (1.0 - 1e-9) /* the estimate of what a window may be lets some more through: it must miss none */
enum side { ABOVE, BELOW, BOTH };
enum window_number { IS_BELOW, BEGIN, OUTER, REACH };

/* What is looked for in one column, and what was found so far. */
typedef struct {
    int64_t cells, room, found, *windows;
    double anchor_least, outer_half, best;
    const double *thresholds; /* of the width at hand */
    int64_t end, best_group;
} window_search;

/* Sum of a power of two of numbers, halves of halves: the order in which sums of windows themselves come about. */
static double sum_of(const double *a, const double *b, int64_t width)
{
    if (width == 1) {
        return b == NULL ? *a : *a + *b;
    }
    const int64_t half = width / 2;
    return sum_of(a, b, half) + sum_of(a + half, b == NULL ? NULL : b + half, half);
}

/* How many of the ascending thresholds are below a score: the first distance that is too far for it. */
static int64_t reach_of(const double *thresholds, int64_t cells, double score)
{
    int64_t low = 0, high = cells + 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (thresholds[middle] < score) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* A window whose sum may stand out: `half` is that of its outer half, a and b are the variances of its cells. Of windows that stand out
 * alike, the first of each width and side counts, and of these the one that ends last. */
static void note_window(window_search *search, enum side side, int64_t width, int64_t begin, double total, double half,
                        const double *a, const double *b)
{
    const double score = total / sqrt(sum_of(a + begin, b == NULL ? NULL : b + begin, width));
    const int64_t last = begin + width - 1, group = 3 * width + (int64_t)side;
    if (score > search->anchor_least && score >= search->best && !(score == search->best && group == search->best_group)) {
        search->end = score > search->best || last > search->end ? last : search->end;
        search->best = score;
        search->best_group = group;
    }
    const int64_t outer = width / 2;
    if (side == BOTH || !(score > search->thresholds[0])
        || (width > 1 && !(half > search->outer_half * sqrt(sum_of(a + begin + outer, NULL, outer))))) {
        return;
    }
    if (search->found < search->room) {
        int64_t *window = search->windows + 4 * search->found;
        window[IS_BELOW] = side == BELOW;
        window[BEGIN] = begin;
        window[OUTER] = outer;
        window[REACH] = reach_of(search->thresholds, search->cells, score);
    }
    search->found++;
}

#define KERNELS "windows_simd.h"
#include "each_level.h"

FPP_API int64_t fpp_windows_find(const double *const *counts, int64_t cells, const double *thresholds, int32_t widths,
                                 double anchor_least, double outer_half, double *workspace, int64_t room, int64_t *windows,
                                 double *score, int64_t *end)
{
    if (counts == NULL || cells < 8 || cells > INT64_MAX / 128 || thresholds == NULL || widths < 1 || widths > WIDTHS
        || workspace == NULL || !fpp_is_given(windows, room, 4 * (int64_t)sizeof *windows) || score == NULL || end == NULL) {
        return -1;
    }
    for (int k = 0; k < 4; k++) {
        if (counts[k] == NULL) {
            return -1;
        }
    }
    window_search search = {.cells = cells, .room = room, .windows = windows, .anchor_least = anchor_least,
                            .outer_half = outer_half, .best = -INFINITY, .end = -1, .best_group = -1};
    for (enum side side = ABOVE; side <= BOTH; side++) {
        const double *a = counts[side == BELOW ? 3 : 2], *b = side == BOTH ? counts[3] : NULL;
        const double *total = counts[side == BELOW];
        double *rooms[2] = {workspace, workspace + cells};
        const double spread = sqrt(FPP_AT_LEVEL(least_of)(a, b, cells));
        if (side == BOTH) {
            FPP_AT_LEVEL(add_cells)(counts[0], counts[1], cells, rooms[1]);
            total = rooms[1];
        }
        const double *half = total;
        for (int64_t w = 0, width = 1; w < widths; w++, width *= 2) {
            search.thresholds = thresholds + w * (cells + 1);
            if (width > 1) {
                double *to = rooms[w % 2 == 1 ? 0 : 1];
                FPP_AT_LEVEL(add_cells)(half, half + width / 2, cells - width + 1, to);
                total = to;
            }
            const double least = side == BOTH || search.thresholds[0] > anchor_least ? anchor_least : search.thresholds[0];
            FPP_AT_LEVEL(note_windows)(&search, side, width, total, half, a, b, least * spread * (SLACK * sqrt((double)width)));
            half = total;
        }
    }
    *score = search.best;
    *end = search.end;
    return search.found;
}

/* Cells, a bit each: the nearest one before `begin`, and from it on; `none` where there is none. */
static int64_t last_before(const uint64_t *bits, int64_t begin, int64_t none)
{
    int64_t word = begin / 64;
    uint64_t some = begin % 64 > 0 ? bits[word] << (64 - begin % 64) : 0;
    int64_t base = begin - 1;
    while (some == 0) {
        base = 64 * word - 1;
        if (--word < 0) {
            return none;
        }
        some = bits[word];
    }
    return base - __builtin_clzll(some);
}

static int64_t first_from(const uint64_t *bits, int64_t words, int64_t begin, int64_t none)
{
    int64_t word = begin / 64, base = begin;
    uint64_t some = bits[word] >> (begin % 64);
    while (some == 0) {
        if (++word == words) {
            return none;
        }
        base = 64 * word;
        some = bits[word];
    }
    return base + __builtin_ctzll(some);
}

FPP_API int32_t fpp_windows_stand(const int64_t *windows, int64_t n, int64_t cells, const int64_t *known, int64_t n_known,
                                  int32_t passes, uint64_t *workspace, int64_t *stood, int64_t *ends)
{
    if (!fpp_is_given(windows, n, 4 * (int64_t)sizeof *windows) || cells < 1 || !fpp_is_given(known, n_known, (int64_t)sizeof *known)
        || cells > INT64_MAX / 64 || passes < 0 || workspace == NULL || !fpp_is_given(stood, n, (int64_t)sizeof *stood)
        || ends == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t words = (cells + 63) / 64, far_away = 4 * cells;
    uint64_t *references = workspace, *found = workspace + words;
    memset(references, 0, (size_t)words * sizeof *references);
    for (int64_t k = 0; k < n_known; k++) {
        if (known[k] < 0 || known[k] >= cells) {
            return FPP_ERR_ARGUMENT;
        }
        references[known[k] / 64] |= UINT64_C(1) << known[k] % 64;
    }
    for (int64_t k = 0; k < n; k++) {
        const int64_t *window = windows + 4 * k;
        if (window[OUTER] < 0 || window[OUTER] > cells || window[BEGIN] < 0
            || window[BEGIN] > cells - (window[OUTER] > 0 ? 2 * window[OUTER] : 1)) {
            return FPP_ERR_ARGUMENT;
        }
        stood[k] = 0;
    }
    ends[0] = ends[1] = -1;
    for (int64_t pass = 0, more = 1; pass < passes && more; pass++) {
        more = 0;
        memcpy(found, references, (size_t)words * sizeof *found);
        for (int64_t k = 0; k < n; k++) {
            const int64_t *window = windows + 4 * k, begin = window[BEGIN], outer = window[OUTER];
            if (stood[k] || outer >= window[REACH]) {
                continue;
            }
            /* Cells between the window and the nearest reference; none where one is inside. */
            const int64_t last = begin + (outer > 0 ? 2 * outer : 1) - 1, right = first_from(references, words, begin, far_away);
            int64_t far = begin - last_before(references, begin, -far_away);
            far = right - last < far ? (right > last ? right - last : 0) : far;
            /* Its outer half is what makes a window reach so far: from there on it counts as a mistake that costs. */
            far = far + outer < cells ? far + outer : cells;
            if (far < window[REACH]) {
                stood[k] = more = 1;
                found[last / 64] |= UINT64_C(1) << last % 64;
                int64_t *end = ends + (window[IS_BELOW] != 0);
                *end = last > *end ? last : *end;
            }
        }
        memcpy(references, found, (size_t)words * sizeof *found);
    }
    return FPP_OK;
}
