/* Checks of the loops over pairs of hypotheses against scalar rewrites, on heap blocks of the exact size: linked into test_fpp. */
#include "test_support.h"

#include <math.h>

static double next_number(uint64_t *state)
{
    return (double)(int64_t)next_word(state) * 0x1p-62;
}

static int16_t code_at(const int16_t *codes, int64_t capacity, int64_t r, int64_t j)
{
    return codes[(j / FPP_PANEL * capacity + r) * FPP_PANEL + j % FPP_PANEL];
}

static void test_counts(int64_t panels, int64_t n, int64_t capacity, uint64_t *state)
{
    int16_t *codes = block(panels * capacity * FPP_PANEL, sizeof *codes);
    int32_t *work = room(FPP_PAIR_WORKSPACE, 1);
    for (int64_t i = 0; i < panels * capacity * FPP_PANEL; i++) {
        codes[i] = (int16_t)(next_word(state) % (i % 3 == 0 ? 3 : 65536));
    }
    for (int64_t panel = 0; panel < panels; panel++) {
        const int64_t width = (panels - panel) * FPP_PANEL;
        int32_t *counts = block(FPP_PANEL * width, sizeof *counts);
        CHECK(fpp_pair_counts_i32(codes, n, capacity, panels, panel, work, counts) == FPP_OK);
        for (int64_t k = 0; k < 200; k++) {
            const int64_t i = (int64_t)(next_word(state) % FPP_PANEL), j = (int64_t)(next_word(state) % (uint64_t)width);
            int32_t held = 0;
            for (int64_t r = 0; r < n; r++) {
                held += code_at(codes, capacity, r, panel * FPP_PANEL + i) > code_at(codes, capacity, r, panel * FPP_PANEL + j);
            }
            CHECK(counts[i * width + j] == held);
        }
        free(counts);
    }
    CHECK(fpp_pair_counts_i32(codes, capacity + 1, capacity, panels, 0, work, work) == FPP_ERR_ARGUMENT);
    free(codes);
    free(work);
}

static void test_cells(int64_t panels, int64_t cells, uint64_t *state)
{
    int32_t *table = block(panels * cells * FPP_PANEL, sizeof *table);
    int32_t *worst = block(panels * FPP_PANEL, sizeof *worst);
    for (int64_t i = 0; i < panels * cells * FPP_PANEL; i++) {
        table[i] = (int32_t)(next_word(state) % 2001) - 1000;
    }
    for (int64_t panel = 0; panel < panels; panel++) {
        CHECK(fpp_cell_scores_i32(table, cells, panels, panel, 3, worst) == FPP_OK);
    }
    int32_t most = 0; /* of the last hypothesis, which every other one comes before */
    const int64_t last = panels * FPP_PANEL - 1;
    for (int64_t i = 0; i < last; i++) {
        int32_t sum = 0;
        for (int64_t g = 0; g < cells; g++) {
            const int32_t theirs = table[((panels - 1) * cells + g) * FPP_PANEL + FPP_PANEL - 1];
            sum += table[(i / FPP_PANEL * cells + g) * FPP_PANEL + i % FPP_PANEL] > theirs ? theirs : 0;
        }
        const int32_t off = abs((sum + 4) >> 3);
        most = off > most ? off : most;
    }
    CHECK(worst[last] == most);
    CHECK(fpp_cell_scores_i32(table, cells, panels, panels, 3, worst) == FPP_ERR_ARGUMENT);
    free(table);
    free(worst);
}

static void test_codes(int64_t panels, int64_t components, int64_t dim, int32_t lower, int64_t n, uint64_t *state)
{
    const int64_t length = lower ? dim * (dim + 1) / 2 : dim, blocks = panels * components * FPP_PANEL;
    double *means = block(blocks * dim, sizeof *means), *factors = block(blocks * length, sizeof *factors);
    double *constants = block(blocks, sizeof *constants), *x = block(n * dim, sizeof *x);
    int16_t *codes = room(panels * n * FPP_PANEL, sizeof *codes);
    for (int64_t i = 0; i < blocks * dim; i++) {
        means[i] = next_number(state);
    }
    for (int64_t i = 0; i < blocks * length; i++) {
        factors[i] = 1.0 + 0.25 * next_number(state);
    }
    for (int64_t i = 0; i < n * dim; i++) {
        x[i] = i % 11 == 0 ? NAN : i % 7 == 0 ? 1.7e308 : next_number(state);
    }
    const fpp_mixtures mix = {dim, components, panels, lower, means, factors, constants};
    double *work = room(fpp_density_workspace_size(&mix), 1);
    CHECK(fpp_density_codes_i16(&mix, x, n, n, work, codes) == FPP_OK);
    for (int64_t r = 0; r < n; r++) {
        int32_t finite = 1, top = INT16_MIN;
        for (int64_t j = 0; j < dim; j++) {
            finite &= fabs(x[r * dim + j]) < INFINITY;
        }
        for (int64_t j = 0; j < panels * FPP_PANEL; j++) {
            top = code_at(codes, n, r, j) > top ? code_at(codes, n, r, j) : top;
        }
        CHECK(top == (finite ? INT16_MAX : 0));
    }
    CHECK(fpp_density_codes_i16(&mix, x, n, n - 1, work, codes) == FPP_ERR_ARGUMENT);
    free(means);
    free(factors);
    free(constants);
    free(x);
    free(codes);
    free(work);
}

static void test_roots(void)
{
    /* N(0, 1), N(3, 1) and N(0, 1) again: one root in the middle, and none between equals. */
    const double constants[] = {0.0, 0.0, 0.0}, means[] = {0.0, 3.0, 0.0}, inverses[] = {1.0, 1.0, 1.0};
    const double grids[] = {-8.0, 0.0, 8.0, -5.0, 3.0, 11.0, -8.0, 0.0, 8.0};
    double *roots = room(2, sizeof *roots);
    int64_t *counts = room(2, sizeof *counts);
    CHECK(fpp_pair_roots_f64(constants, means, inverses, grids, 3, 1, 3, 0, 1, roots, counts) == FPP_OK);
    CHECK(fabs(roots[0] - 1.5) < 1e-12 && counts[0] == 1);
    CHECK(roots[1] == INFINITY && counts[1] == -1);
    CHECK(fpp_pair_roots_f64(constants, means, inverses, grids, 3, 1, 3, 3, 1, roots, counts) == FPP_ERR_ARGUMENT);
    free(roots);
    free(counts);
}

int test_pairs(void)
{
    const int before = n_failed;
    uint64_t state = 7;
    for (int32_t level = FPP_ISA_BASELINE; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        test_counts(1, 1, 1, &state);
        test_counts(3, 300, 301, &state);
        test_cells(1, 1, &state);
        test_cells(3, 17, &state);
        test_codes(1, 1, 1, 0, 1, &state);
        test_codes(2, 3, 5, 0, 37, &state);
        test_codes(2, 2, 4, 1, 19, &state);
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    test_roots();
    return n_failed - before;
}
