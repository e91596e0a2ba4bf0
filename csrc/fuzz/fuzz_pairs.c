/* Pairs of hypotheses: counts and scores are those of two plain loops, codes are those of log densities in long doubles and the
 * same alone and in company, roots are ascending and inside the grid. */
#include "fuzz.h"

enum { PANELS = 3, CAPACITY = 40 };

static int16_t code_at(const int16_t *codes, int64_t capacity, int64_t r, int64_t j)
{
    return codes[(j / FPP_PANEL * capacity + r) * FPP_PANEL + j % FPP_PANEL];
}

static void check_counts(fuzz_input in)
{
    const int64_t panels = pick(&in, 1, PANELS), capacity = pick(&in, 0, CAPACITY), n = pick(&in, 0, capacity);
    const int64_t many = pick(&in, 1, 65536);
    const int64_t size = panels * capacity * FPP_PANEL, hypotheses = panels * FPP_PANEL, own = pick(&in, 0, hypotheses - 1);
    int16_t *codes = room(size, sizeof *codes);
    int32_t *work = room(FPP_PAIR_WORKSPACE, 1);
    uint64_t seed = take(&in, 2);
    for (int64_t i = 0; i < size; i++) {
        codes[i] = (int16_t)(next_word(&seed) % (uint64_t)many - (uint64_t)many / 2);
    }
    for (int64_t i = pick(&in, 0, 12); i > 0 && size > 0; i--) {
        const int64_t at = pick(&in, 0, size - 1);
        codes[at] = (int16_t)take(&in, 2);
    }
    const int64_t panel = own / FPP_PANEL, width = (panels - panel) * FPP_PANEL;
    int32_t *counts = zeros(FPP_PANEL * width, sizeof *counts);
    AGREE(fpp_pair_counts_i32(codes, n, capacity, panels, panel, work, counts) == FPP_OK);
    for (int64_t i = panel * FPP_PANEL; i < (panel + 1) * FPP_PANEL; i++) {
        for (int64_t j = panel * FPP_PANEL; j < hypotheses; j++) {
            int32_t held = 0;
            for (int64_t r = 0; r < n; r++) {
                held += code_at(codes, capacity, r, i) + PLANTED > code_at(codes, capacity, r, j);
            }
            AGREE(counts[(i - panel * FPP_PANEL) * width + j - panel * FPP_PANEL] == held);
        }
    }
    free(codes);
    free(work);
    free(counts);
}

static void check_cells(fuzz_input in)
{
    const int64_t panels = pick(&in, 1, 2), cells = pick(&in, 1, 9), panel = pick(&in, 0, panels - 1), many = pick(&in, 1, 60000);
    const int32_t shift = (int32_t)pick(&in, 0, 30), half = shift > 0 ? (int32_t)1 << (shift - 1) : 0;
    const int64_t size = panels * cells * FPP_PANEL, hypotheses = panels * FPP_PANEL;
    int32_t *table = room(size, sizeof *table), *worst = zeros(hypotheses, sizeof *worst), *twin = zeros(hypotheses, sizeof *twin);
    uint64_t seed = take(&in, 2);
    for (int64_t i = 0; i < size; i++) {
        table[i] = (int32_t)(next_word(&seed) % (uint64_t)many) - (int32_t)(many / 2);
    }
    for (int64_t i = pick(&in, 0, 12); i > 0; i--) {
        const int64_t at = pick(&in, 0, size - 1);
        table[at] = (int32_t)take(&in, 4) / 64; /* 9 cells and the half stay within 31 bits */
    }
    AGREE(fpp_cell_scores_i32(table, cells, panels, panel, shift, worst) == FPP_OK);
    for (int64_t i = panel * FPP_PANEL; i < (panel + 1) * FPP_PANEL; i++) {
        for (int64_t j = i + 1; j < hypotheses; j++) {
            int64_t own = half, other = half;
            for (int64_t g = 0; g < cells; g++) {
                const int32_t a = table[(i / FPP_PANEL * cells + g) * FPP_PANEL + i % FPP_PANEL];
                const int32_t b = table[(j / FPP_PANEL * cells + g) * FPP_PANEL + j % FPP_PANEL];
                own += a > b ? a : 0;
                other += a > b ? b : 0;
            }
            const int32_t one = (int32_t)llabs(own >> shift), two = (int32_t)llabs(other >> shift) + PLANTED;
            twin[i] = one > twin[i] ? one : twin[i];
            twin[j] = two > twin[j] ? two : twin[j];
        }
    }
    AGREE(memcmp(worst, twin, (size_t)hypotheses * sizeof *worst) == 0);
    free(table);
    free(worst);
    free(twin);
}

/* Log density of a mixture at a row; `h` is its place in the table. */
static long double plain_density(const fpp_mixtures *mix, int64_t h, const double *x)
{
    const int64_t length = mix->lower ? mix->dim * (mix->dim + 1) / 2 : mix->dim, lane = h % FPP_PANEL;
    long double sum = 0.0L, best = -INFINITY, terms[4];
    for (int64_t c = 0; c < mix->components; c++) {
        const int64_t at = h / FPP_PANEL * mix->components + c;
        const double *factor = mix->factors + at * length * FPP_PANEL + lane;
        long double q = 0.0L;
        for (int64_t a = 0; a < mix->dim; a++) {
            long double t = 0.0L;
            for (int64_t b = mix->lower ? 0 : a; b <= a; b++, factor += FPP_PANEL) {
                t += (long double)(x[b] - mix->means[(at * mix->dim + b) * FPP_PANEL + lane]) * *factor;
            }
            q += t * t;
        }
        terms[c] = mix->constants[at * FPP_PANEL + lane] - 0.5L * q;
        best = terms[c] > best ? terms[c] : best;
    }
    for (int64_t c = 0; c < mix->components; c++) {
        sum += expl(terms[c] - best);
    }
    return best + logl(sum) + PLANTED * (long double)h;
}

static void compare_codes(const fpp_mixtures *mix, const double *x, const int16_t *codes, int64_t capacity, int64_t r)
{
    const int64_t hypotheses = mix->panels * FPP_PANEL;
    long double *logs = room(hypotheses, sizeof *logs), top = -INFINITY;
    for (int64_t h = 0; h < hypotheses; h++) {
        logs[h] = plain_density(mix, h, x + r * mix->dim);
        top = logs[h] > top ? logs[h] : top;
    }
    for (int64_t h = 0; h < hypotheses; h++) {
        const long double below = (logs[h] - top) * FPP_CODES_PER_NAT, code = below < -65535.0L ? -32768.0L : FPP_TOP_CODE + below;
        AGREE(fabsl(code_at(codes, capacity, r, h) - code) <= 1.5L);
    }
    free(logs);
}

static void check_codes(fuzz_input in)
{
    const int64_t dim = pick(&in, 1, 6), components = pick(&in, 1, 4), panels = pick(&in, 1, 2);
    fpp_mixtures mix = {dim, components, panels, (int32_t)pick(&in, 0, 1), NULL, NULL, NULL};
    const int64_t n = pick(&in, 0, 20), capacity = n + pick(&in, 0, 2), blocks = mix.panels * mix.components * FPP_PANEL;
    const int64_t length = mix.lower ? mix.dim * (mix.dim + 1) / 2 : mix.dim, size = mix.panels * capacity * FPP_PANEL;
    uint64_t seed = take(&in, 2);
    double *means = numbers(blocks * mix.dim, &seed, 3.0), *factors = numbers(blocks * length, &seed, 1.0);
    double *constants = numbers(blocks, &seed, 5.0), *x = numbers(n * mix.dim, &seed, 4.0);

    int16_t *first = zeros(size, sizeof *first), *codes = zeros(size, sizeof *codes);
    int16_t *alone = room(mix.panels * FPP_PANEL, sizeof *alone);
    const int tame = pick(&in, 0, 1) == 0;
    sprinkle(&in, x, n * mix.dim, 6);
    if (!tame) {
        sprinkle(&in, means, blocks * mix.dim, 6);
        sprinkle(&in, factors, blocks * length, 6);
        sprinkle(&in, constants, blocks, 6);
    }
    mix.means = means;
    mix.factors = factors;
    mix.constants = constants;
    void *work = room(fpp_density_workspace_size(&mix), 1);
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        AGREE(fpp_density_codes_i16(&mix, x, n, capacity, work, level == 0 ? first : codes) == FPP_OK);
        AGREE(level == 0 || memcmp(first, codes, (size_t)size * sizeof *codes) == 0);
        for (int64_t r = 0; r < n; r++) {
            AGREE(fpp_density_codes_i16(&mix, x + r * mix.dim, 1, 1, work, alone) == FPP_OK);
            for (int64_t h = 0; h < mix.panels * FPP_PANEL; h++) {
                AGREE(code_at(first, capacity, r, h) == alone[h]);
                AGREE(alone[h] == 0 || is_finite_row(x + r * mix.dim, mix.dim));
            }
        }
    }
    for (int64_t r = 0; r < n && tame; r++) {
        int moderate = 1;
        for (int64_t k = 0; k < mix.dim; k++) {
            moderate &= fabs(x[r * mix.dim + k]) < 1e4; /* beyond, a code is less than the rounding of a log density */
        }
        if (moderate) {
            compare_codes(&mix, x, first, capacity, r);
        }
    }
    free(means);
    free(factors);
    free(constants);
    free(x);
    free(work);
    free(first);
    free(codes);
    free(alone);
}

static void check_roots(fuzz_input in)
{
    const int64_t size = pick(&in, 1, 4), components = pick(&in, 1, 3), points = pick(&in, 1, 8), own = pick(&in, 0, size - 1);
    const int64_t most = pick(&in, 1, 5), others = size - own - 1;
    uint64_t seed = take(&in, 2);
    double *constants = numbers(size * components, &seed, 2.0), *means = numbers(size * components, &seed, 5.0);
    double *inverses = numbers(size * components, &seed, 2.0), *grids = room(size * points, sizeof *grids);
    double *roots = room(others * most, sizeof *roots);
    int64_t *counts = room(others, sizeof *counts);
    for (int64_t i = 0; i < size * points; i++) {
        grids[i] = (double)(i % points - points / 2) * 1.5 + (double)(i / points) * 0.3;
    }
    const int tame = pick(&in, 0, 1) == 0;
    if (!tame) {
        sprinkle(&in, constants, size * components, 4);
        sprinkle(&in, means, size * components, 4);
        sprinkle(&in, inverses, size * components, 4);
        sprinkle(&in, grids, size * points, 4);
    }
    AGREE(fpp_pair_roots_f64(constants, means, inverses, grids, size, components, points, own, most, roots, counts) == FPP_OK);
    for (int64_t j = 0; j < others; j++) {
        const double *a = grids + own * points, *b = grids + (own + 1 + j) * points, *found = roots + j * most;
        const int64_t n = counts[j] >= 0 ? counts[j] : -counts[j] - 1;
        AGREE(n >= 0 && n <= most);
        for (int64_t k = 0; k < most; k++) {
            AGREE(k < n || found[k] == INFINITY);
            AGREE(!tame || k >= n
                  || (found[k] >= fmin(a[0], b[0]) && found[k] <= fmax(a[points - 1], b[points - 1])
                      && (k == 0 || found[k] >= found[k - 1])));
        }
    }
    free(constants);
    free(means);
    free(inverses);
    free(grids);
    free(roots);
    free(counts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(fuzz_input) = {check_counts, check_cells, check_codes, check_roots};
    fuzz_input in = {data, size};
    const int64_t which = pick(&in, 0, 3);
    /* Codes see to the levels themselves, and roots have none. */
    for (int32_t level = which < 2 ? 0 : fpp_isa_detect(); level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        checks[which](in);
    }
    return 0;
}
