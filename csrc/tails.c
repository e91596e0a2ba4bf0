/* Sides of columns as masses of cells: counted up to the last cell that stands out, guessed for five octaves beyond it. Counts that have
 * been released: nothing here sees a row. Sums add up in the order that NumPy has for them. */
#include "internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define INNER 64 /* octaves that are looked at below the last cell */
#define OUTER 5 /* and beyond it */
#define LARGEST_RATIO 0.4
#define LEAST_FACTOR 1e-3
#define BEND 6
#define POINTS 41
#define LEAST_INDEX 0.3
#define LEAST_RATIO 0.02
#define HIDDEN_GROWTH 1.2
#define FAR_BELOW_NOISE 1e-6
#define LEEWAY 1.0
#define GAP_ROWS 6.0
#define PARTS_MAX (1 << FPP_COLUMN_LOG2_PARTS_MAX)
#define CELLS_MAX ((INNER + OUTER) * PARTS_MAX)

enum kind { LOWER, UPPER, MASS, VARIANCE, SPREAD, HIDDEN };

FPP_INLINE double larger(double a, double b)
{
    return a > b ? a : b;
}

FPP_INLINE double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* In halves of whole lanes until no more than 128 numbers are left, and these in eight lanes. */
static double sum_of(const double *x, int64_t n)
{
    if (n > 128) {
        const int64_t half = n / 2 - n / 2 % 8;
        return sum_of(x, half) + sum_of(x + half, n - half);
    }
    double sum = 0.0;
    int64_t i = 0;
    if (n >= 8) {
        double lane[8];
        for (int l = 0; l < 8; l++) {
            lane[l] = x[l];
        }
        for (i = 8; i + 8 <= n; i += 8) {
            for (int l = 0; l < 8; l++) {
                lane[l] += x[i + l];
            }
        }
        sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    }
    for (; i < n; i++) {
        sum += x[i];
    }
    return sum;
}

/* Octaves of a side from its last cell that stands out: `in` inwards from it, `out` outwards. */
typedef struct {
    double in[4], in_std[4], out[OUTER], out_std[OUTER];
} octaves_of_side;

/* What the tail holds: rows of each octave beyond the last, their deviations, and the most they are believed to be. */
typedef struct {
    double rows[OUTER], std[OUTER], most[OUTER], fall[OUTER];
} tail_of_side;

/* Mean and deviation of a number of rows: one of `fractions` of 1.5 times `prior`, all as likely, then seen as `count`. */
static void guess_rows(double prior, const double *fractions, double count, double std, double *mean, double *spread)
{
    double weight[POINTS], points[POINTS], product[POINTS], most = -INFINITY;
    for (int k = 0; k < POINTS; k++) {
        points[k] = 1.5 * prior * fractions[k];
        const double away = (count - points[k]) / std;
        weight[k] = -0.5 * (away * away);
        most = larger(most, weight[k]);
    }
    for (int k = 0; k < POINTS; k++) {
        weight[k] = exp(weight[k] - most);
    }
    const double total = sum_of(weight, POINTS);
    for (int k = 0; k < POINTS; k++) {
        weight[k] /= total;
        product[k] = weight[k] * points[k];
    }
    *mean = sum_of(product, POINTS);
    for (int k = 0; k < POINTS; k++) {
        product[k] = weight[k] * ((points[k] - *mean) * (points[k] - *mean));
    }
    *spread = sqrt(larger(0.0, sum_of(product, POINTS)));
    if (prior < FAR_BELOW_NOISE * std) {
        *mean = 0.3 * prior;
        *spread = 0.5 * prior;
    }
}

/* Rows of the last octave, their ratio to those of the one before, and the least factor that a tail may fall by at first. */
static void start_tail(const octaves_of_side *octaves, double *one, double *ratio, double *factor)
{
    double safe[3];
    for (int k = 0; k < 3; k++) {
        safe[k] = larger(octaves->in_std[k], DBL_MIN);
    }
    *one = larger(octaves->in[0], safe[0] / 2.0);
    const double two = larger(octaves->in[1], safe[1] / 2.0);
    *ratio = *one < two ? smaller(LARGEST_RATIO, *one / two) : LARGEST_RATIO;
    *factor = LEAST_FACTOR;
    const int clear = octaves->in[0] > 4.0 * safe[0] && octaves->in[1] > 3.0 * safe[1] && octaves->in[2] > 3.0 * safe[2];
    if (clear && octaves->in[0] < octaves->in[1]) { /* a straight power law is believed, one that bends is not */
        const double bend = octaves->in[0] * octaves->in[2] / (octaves->in[1] * octaves->in[1]);
        *factor = smaller(0.5, larger(LEAST_FACTOR, 0.1 * pow(smaller(1.0, bend), BEND)));
    }
}

static void guess_tail(const octaves_of_side *octaves, tail_of_side *tail)
{
    double before, step, factor, fractions[POINTS];
    start_tail(octaves, &before, &step, &factor);
    double most = before + octaves->in_std[0], growth = HIDDEN_GROWTH * step;
    for (int k = 0; k < POINTS; k++) {
        fractions[k] = pow(factor, 1.0 - (k < POINTS - 1 ? k * (1.0 / (POINTS - 1)) : 1.0));
    }
    for (int j = 0; j < OUTER; j++) {
        const double std = larger(octaves->out_std[j], DBL_MIN);
        if (!(octaves->out_std[j] > 0.0)) { /* an octave beyond the largest double has no cells */
            tail->rows[j] = tail->std[j] = tail->most[j] = tail->fall[j] = 0.0;
            continue;
        }
        guess_rows(before * step, fractions, octaves->out[j], std, &tail->rows[j], &tail->std[j]);
        /* Octaves that fall off like a cliff are not believed to fall off more slowly further out. */
        tail->most[j] = smaller(growth * most, larger(octaves->out[j], 0.0) + 2.0 * std);
        growth = smaller(growth, HIDDEN_GROWTH * tail->most[j] / larger(most, DBL_MIN));
        most = tail->most[j];
        tail->fall[j] = smaller(LARGEST_RATIO, larger(tail->rows[j] / larger(before, DBL_MIN), DBL_MIN));
        before = tail->rows[j];
        step = smaller(step, larger(tail->fall[j], LEAST_RATIO));
    }
}

/* Shares of the cells of an octave under a tail u^-index; alike where the edges say nothing. */
static void share_octave(const double *edges, int32_t parts, double index, double *shares)
{
    double powers[PARTS_MAX + 1], total = 0.0;
    const int known = edges[0] > 0.0 && edges[parts] > edges[0];
    for (int k = 0; k <= parts; k++) {
        powers[k] = pow(edges[k] / (known ? edges[0] : 1.0), -index);
    }
    for (int k = 0; k < parts; k++) {
        shares[k] = powers[k] - powers[k + 1];
        total += shares[k];
    }
    for (int k = 0; k < parts; k++) {
        shares[k] = known && total > 0.0 ? shares[k] / total : 1.0 / parts;
    }
}

/* Whether three octaves from `first` on, of the one beyond the last and those inwards, fall off as slowly as a tail without a variance:
 * one that goes on as slowly holds so many rows further out that they would show; a bounded column does not. */
static int is_slow(const double *octaves, const double *stds, int first)
{
    const double heavy = 0.25 * sqrt(2.0), *x = octaves + first, *std = stds + first;
    int slow = x[0] > 4.0 * std[0] && x[1] > 3.0 * std[1] && x[2] > 3.0 * std[2];
    slow = slow && heavy * x[1] <= x[0] && x[0] < x[1] && heavy * x[2] <= x[1] && x[1] < x[2];
    for (int k = 0; k < first; k++) {
        slow = slow && heavy * octaves[k + 1] <= octaves[k] + LEEWAY * stds[k];
    }
    return slow;
}

/* Sums of the cells of the octave that begins at `first`. */
static double octave_of(const double *cells, int64_t first, int32_t parts)
{
    double sum = 0.0;
    for (int k = 0; k < parts; k++) {
        sum += cells[first + k];
    }
    return sum;
}

FPP_API int32_t fpp_side_make(const double *counts, const double *variances, const double *edges, int64_t cells, int64_t last,
                              int32_t parts, int32_t exponent, int64_t apart, double *block, int32_t *kind)
{
    const int64_t seen = INNER * (int64_t)parts, all = seen + OUTER * (int64_t)parts;
    if (counts == NULL || variances == NULL || edges == NULL || cells < 1 || cells > INT64_MAX / 16 || last < -1 - OUTER * parts
        || last >= cells || (parts != 1 && parts != 2 && parts != 4) || apart < all || apart > INT64_MAX / 64 || block == NULL
        || kind == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    double *mass = block + MASS * apart, *variance = block + VARIANCE * apart, scaled[CELLS_MAX + 1];
    const int64_t first = last + 1 - seen;
    for (int64_t i = 0; i <= all; i++) {
        const int64_t edge = first + i < 0 ? 0 : first + i > cells ? cells : first + i;
        scaled[i] = ldexp(edges[edge], -exponent);
    }
    for (int64_t i = 0; i < all; i++) {
        const int inside = first + i >= 0 && first + i < cells;
        block[LOWER * apart + i] = scaled[i];
        block[UPPER * apart + i] = scaled[i + 1];
        mass[i] = inside ? counts[first + i] : 0.0;
        variance[i] = inside ? variances[first + i] : 0.0;
        block[SPREAD * apart + i] = block[HIDDEN * apart + i] = 0.0;
    }
    octaves_of_side octaves;
    for (int j = 0; j < 4; j++) {
        octaves.in[j] = octave_of(mass, seen - (j + 1) * parts, parts);
        octaves.in_std[j] = sqrt(octave_of(variance, seen - (j + 1) * parts, parts));
    }
    for (int j = 0; j < OUTER; j++) {
        octaves.out[j] = octave_of(mass, seen + j * parts, parts);
        octaves.out_std[j] = sqrt(octave_of(variance, seen + j * parts, parts));
    }
    tail_of_side tail;
    guess_tail(&octaves, &tail);
    for (int j = 0; j < OUTER; j++) {
        double shares[PARTS_MAX] = {1.0};
        if (parts > 1) {
            share_octave(scaled + seen + j * parts, parts, larger(LEAST_INDEX, -log2(tail.fall[j])), shares);
        }
        for (int k = 0; k < parts; k++) {
            const int64_t at = seen + j * parts + k;
            mass[at] = tail.rows[j] * shares[k];
            variance[at] = 0.0;
            block[SPREAD * apart + at] = tail.std[j] * shares[k];
            block[HIDDEN * apart + at] = tail.most[j] * shares[k];
        }
    }
    double around[5] = {octaves.out[0]}, around_std[5] = {octaves.out_std[0]}, noise_sq = 0.0;
    memcpy(around + 1, octaves.in, sizeof octaves.in);
    memcpy(around_std + 1, octaves.in_std, sizeof octaves.in_std);
    for (int64_t i = 0; i < seen; i++) {
        noise_sq = larger(noise_sq, variance[i]);
    }
    kind[0] = is_slow(around, around_std, 1) || is_slow(around, around_std, 2);
    kind[1] = octaves.in[1] + octaves.in[2] < 3.0 * hypot(octaves.in_std[1], octaves.in_std[2])
              && octaves.in[0] < GAP_ROWS * sqrt(noise_sq);
    return FPP_OK;
}

/* A cell below which all are inside of a clip: they add zeros to all sums. Sums from there on have the bits of the whole ones, as whole
 * lanes of zeros are left out of the last part only. `inside` of the clip before is where to look from. */
static int64_t first_beyond(const double *upper, int64_t cells, int64_t seen, double clip, int64_t *inside)
{
    *inside = *inside > 0 && upper[*inside - 1] <= clip ? *inside : 0;
    while (*inside < seen && upper[*inside] <= clip) {
        ++*inside;
    }
    int64_t first = 0;
    for (int64_t rest = cells; rest > 128; rest = cells - first) {
        first += rest / 2 - rest / 2 % 8;
    }
    return *inside < first ? 0 : first + (*inside - first) / 8 * 8;
}

/* By how much the numbers of a cell exceed a clip on average, and how much of the cell is beyond it. They are taken to lie evenly in it:
 * also in one that a clip is inside of. Beyond the largest double there is no cell. */
FPP_INLINE double over_of(double lower, double upper, double clip, double *part)
{
    const double width = upper - lower, beyond = smaller(larger(upper - clip, 0.0), width);
    *part = beyond;
    return 0.5 * beyond / larger(width, DBL_MIN) * beyond + (beyond > 0.0 ? larger(lower - clip, 0.0) : 0.0);
}

static int sides_are_given(const double *block, int64_t sides, int32_t parts, const double *clips, int64_t k, const double *a,
                           const double *b)
{
    return (parts == 1 || parts == 2 || parts == 4) && fpp_is_given(block, sides, 6 * CELLS_MAX * (int64_t)sizeof *block)
           && (sides == 0 || fpp_is_given(clips, k, sides * (int64_t)sizeof *clips)) && k >= 0 && a != NULL && b != NULL;
}

FPP_API int32_t fpp_sides_exceed(const double *block, int64_t sides, int32_t parts, const double *clips, int64_t k, double *excess,
                                 double *variance, double *hidden)
{
    if (!sides_are_given(block, sides, parts, clips, k, excess, variance) || hidden == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t seen = INNER * (int64_t)parts, cells = seen + OUTER * (int64_t)parts, apart = sides * cells;
    for (int64_t s = 0; s < sides; s++, block += cells, clips += k, excess += k, variance += k, hidden += k) {
        const double *lower = block + LOWER * apart, *upper = block + UPPER * apart, *mass = block + MASS * apart;
        const double *noise = block + VARIANCE * apart, *spread = block + SPREAD * apart, *most = block + HIDDEN * apart;
        int64_t inside = 0;
        for (int64_t c = 0; c < k; c++) {
            const int64_t begin = first_beyond(upper, cells, seen, clips[c], &inside);
            double over[CELLS_MAX], within[CELLS_MAX], sum[CELLS_MAX], square[CELLS_MAX], tail[OUTER * PARTS_MAX],
                unseen[OUTER * PARTS_MAX];
            for (int64_t i = begin; i < cells; i++) {
                over[i] = over_of(lower[i], upper[i], clips[c], within + i);
                const double part = within[i] * larger(mass[i], 0.0);
                within[i] = part * part;
                sum[i] = over[i] * mass[i];
                square[i] = over[i] * over[i] * noise[i];
            }
            for (int64_t i = seen; i < cells; i++) {
                tail[i - seen] = spread[i] * over[i];
                unseen[i - seen] = larger(most[i] - mass[i], 0.0) * over[i];
            }
            const double guessed = sum_of(tail, cells - seen);
            excess[c] = sum_of(sum + begin, cells - begin);
            hidden[c] = sum_of(unseen, cells - seen);
            variance[c] = sum_of(square + begin, cells - begin) + guessed * guessed + sum_of(within + begin, cells - begin) / 12.0;
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_sides_clip(const double *block, int64_t sides, int32_t parts, const double *clips, int64_t k, double *sums,
                               double *squares)
{
    if (!sides_are_given(block, sides, parts, clips, k, sums, squares)) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t cells = (INNER + OUTER) * (int64_t)parts, apart = sides * cells;
    for (int64_t s = 0; s < sides; s++, block += cells) {
        const double *lower = block + LOWER * apart, *upper = block + UPPER * apart, *mass = block + MASS * apart;
        for (int64_t c = 0; c < k; c++, clips++, sums++, squares++) {
            double number[CELLS_MAX], square[CELLS_MAX];
            for (int64_t i = 0; i < cells; i++) {
                const double cut = smaller(lower[i] + (upper[i] - lower[i]) / 2.0, *clips);
                const double width = smaller(upper[i], *clips) - smaller(lower[i], *clips);
                number[i] = mass[i] * cut;
                square[i] = mass[i] * (cut * cut + width * width / 12.0);
            }
            *sums = sum_of(number, cells);
            *squares = sum_of(square, cells);
        }
    }
    return FPP_OK;
}
