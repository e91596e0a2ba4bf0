/* Checks of the row kernels against a scalar rewrite of their definition, on heap blocks of the exact size: linked into test_fpp. */
#include "test_support.h"

#include <math.h>
#include <string.h>

/* A number around 1; once in a while any bit pattern, for which every path must be ready. */
static double next_number(uint64_t *state)
{
    const uint64_t word = next_word(state);
    double value;
    if (word % 61 == 0) {
        const uint64_t bits = next_word(state);
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return (double)(int64_t)(next_word(state) >> 11) * 0x1p-52 - 1.0;
}

/* The definition of fpp.h for rows whose squared norm does not overflow; -1 if it does, and the caller skips the row. */
static int plain_row(const double *x, const fpp_row_map *map, double *z, int64_t *q)
{
    double lane[8] = {0.0}, sum_sq = 0.0;
    for (int64_t i = 0; i < map->out_dim; i++) {
        const int matrix = map->matrix_kind >= FPP_MATRIX_LOWER;
        const int64_t begin = matrix ? 0 : i;
        const int64_t end = map->matrix_kind == FPP_MATRIX_FULL || i >= map->dim ? map->dim : i + 1;
        double y = 0.0;
        for (int64_t k = begin; k < end; k++) {
            const double t = x[k] - (map->center ? map->center[k] : 0.0);
            const double m = map->matrix_kind == FPP_MATRIX_IDENTITY ? 1.0
                             : matrix                               ? map->matrix[i * map->dim + k]
                                                                    : map->matrix[i];
            y += m * t;
        }
        z[i] = (y + (map->offset ? map->offset[i] : 0.0)) * map->inv_step;
        lane[i % 8] += z[i] * z[i];
    }
    const double norm_sq = ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    int finite = 1;
    for (int64_t k = 0; k < map->dim; k++) {
        finite &= isfinite(x[k]) != 0;
    }
    memset(q, 0, (size_t)map->out_dim * sizeof *q);
    if (!finite) {
        return 0;
    }
    if (!isfinite(norm_sq)) {
        return -1;
    }
    const double norm = sqrt(norm_sq), factor = norm > map->limit ? map->limit / norm : 1.0;
    for (int64_t i = 0; i < map->out_dim; i++) {
        z[i] = nearbyint(z[i] * factor);
        sum_sq += z[i] * z[i];
    }
    for (int64_t i = 0; i < map->out_dim && sum_sq <= (double)(map->quant_bound * map->quant_bound); i++) {
        q[i] = (int64_t)z[i];
    }
    return 0;
}

/* The pieces of the rows that were quantised: the inner one is what they are, and squares go on to twice the limit. */
static void check_radial(const double *x, int64_t n, int64_t stride, const fpp_row_map *map, void *workspace, const int32_t *out)
{
    const int64_t d = map->out_dim, bound = 150;
    const double per_step = (double)bound / (2.5 * map->limit);
    int64_t *sums = block(4 * d, sizeof *sums), *gram = block(2 * d * d, sizeof *gram);
    CHECK(fpp_rows_radial(x, 0, n, stride, map, per_step, bound, NULL, 0, workspace, sums, gram, NULL) == FPP_OK);
    for (int64_t r = 0; r < n; r++) {
        int64_t norm_sq = 0, outer_sq = 0;
        memset(sums + 2 * d, 0, (size_t)(2 * d) * sizeof *sums);
        memset(gram + d * d, 0, (size_t)(d * d) * sizeof *gram);
        CHECK(fpp_rows_radial(x + r * stride, 0, 1, stride, map, per_step, bound, NULL, 0, workspace, sums + 2 * d, gram + d * d, NULL)
              == FPP_OK);
        for (int64_t i = 0; i < d; i++) {
            CHECK(sums[2 * d + i] == out[r * d + i]);
            outer_sq += sums[3 * d + i] * sums[3 * d + i];
            norm_sq += gram[d * d + i * d + i];
            sums[i] -= sums[2 * d + i];
            sums[d + i] -= sums[3 * d + i];
        }
        CHECK(norm_sq <= bound * bound && outer_sq <= map->quant_bound * map->quant_bound);
        for (int64_t i = 0; i < d * d; i++) {
            gram[i] -= gram[d * d + i];
        }
    }
    for (int64_t i = 0; i < d * d; i++) {
        CHECK(gram[i] == 0 && sums[i % (2 * d)] == 0);
    }
    free(sums);
    free(gram);
}

/* Labelled rows are what their products with their factors are. */
static void check_scores(void)
{
    const double slope[3] = {3.0, -1.0, 2.0}, x[4][5] = {{1.0, 2.0, 3.0, 1.0, 0.25}, {0.0, 8.0, -1.0, 0.0, 1.0},
                                                          {5.0, 1.0, 1.0, NAN, 1.0}, {5.0, NAN, 1.0, 1.0, 1.0}};
    fpp_row_score score = {.loss = FPP_LOSS_SQUARED, .weighted = 1, .numbers = {0.5, 1.0}, .unit = 0.5, .step = 4.0, .slope = slope};
    fpp_row_map map = {.dim = 3, .out_dim = 3, .quant_bound = 1000, .inv_step = 1.0, .limit = 990.0, .score = &score};
    char *workspace = room(fpp_rows_workspace_size(&map), 1);
    int32_t out[12];
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        score.loss = FPP_LOSS_SQUARED;
        score.curvature = 0;
        CHECK(fpp_rows_quantise(x[0], 0, 4, 5, &map, workspace, out) == FPP_OK);
        /* s = 3.5 and -5: residuals -2.5 and 5, weights 1/4 and 1; a row without a label, and no row. */
        const int32_t expected[12] = {-2, -5, -8, 0, 160, -20, 0, 0, 0, 0, 0, 0};
        CHECK(memcmp(out, expected, sizeof out) == 0);
        float single[20] = {0.0F};
        CHECK(fpp_rows_single(x[0], 0, 4, 5, &map, workspace, 5, single) == FPP_OK);
        for (int64_t i = 0; i < 20; i++) {
            CHECK(single[i] == (i % 5 < 3 ? (float)expected[i / 5 * 3 + i % 5] : 0.0F));
        }
        score.curvature = 1;
        CHECK(fpp_rows_quantise(x[0], 0, 4, 5, &map, workspace, out) == FPP_OK);
        CHECK(out[0] == 2 && out[1] == 4 && out[2] == 6 && out[4] == 32 && out[6] == 0 && out[9] == 0);
        score.loss = FPP_LOSS_WEIGHTED_LOGISTIC;
        CHECK(fpp_rows_quantise(x[0], 0, 4, 5, &map, workspace, out) == FPP_OK);
        const double chance = 1.0 / (1.0 + exp(-3.5));
        CHECK(out[2] == (int32_t)nearbyint(12.0 * sqrt(0.25 * chance * (1.0 - chance))) && out[6] == 0);
        score.curvature = 0;
        CHECK(fpp_rows_quantise(x[0], 0, 4, 5, &map, workspace, out) == FPP_OK);
        CHECK(out[2] == (int32_t)nearbyint(3.0 * (1.0 - chance)) && out[4] == 0 && out[6] == 0 && out[9] == 0);
        /* A threshold between both residuals, then one that is a residual. */
        score.loss = FPP_LOSS_HUBER;
        score.numbers[0] = 3.0;
        CHECK(fpp_rows_quantise(x[0], 0, 4, 5, &map, workspace, out) == FPP_OK);
        CHECK(out[0] == -2 && out[2] == -8 && out[4] == 96 && out[5] == -12 && out[6] == 0 && out[9] == 0);
        score.curvature = 1;
        CHECK(fpp_rows_quantise(x[0], 0, 4, 5, &map, workspace, out) == FPP_OK);
        CHECK(out[0] == 2 && out[2] == 6 && out[4] == 0 && out[6] == 0 && out[9] == 0);
        score.numbers[0] = 2.5;
        CHECK(fpp_rows_quantise(x[0], 0, 4, 5, &map, workspace, out) == FPP_OK);
        CHECK(out[0] == 0 && out[2] == 0 && out[4] == 0);
        score.numbers[0] = 0.5;
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    free(workspace);
}

static void check_shape(int64_t n, int64_t dim, int64_t out_dim, int32_t kind, int32_t level, uint64_t seed)
{
    const int64_t stride = dim + (int64_t)(seed % 3), bound = 100 + (int64_t)(seed % 2000);
    double *x = block(n > 0 ? (n - 1) * stride + dim : 0, sizeof(double));
    double *center = block(dim, sizeof(double)), *offset = block(out_dim, sizeof(double));
    double *matrix = block(kind >= FPP_MATRIX_LOWER ? out_dim * dim : dim, sizeof(double));
    double *z = block(out_dim, sizeof(double));
    int64_t *q = block(n * out_dim, sizeof(int64_t)), *sums = block(out_dim, sizeof(int64_t));
    int64_t *gram = block(out_dim * out_dim, sizeof(int64_t));
    int32_t *out = room(n * out_dim, sizeof(int32_t));
    for (int64_t i = 0; n > 0 && i < (n - 1) * stride + dim; i++) {
        x[i] = next_number(&seed);
    }
    for (int64_t k = 0; k < dim; k++) {
        center[k] = 0.01 * (double)k;
    }
    for (int64_t i = 0; i < out_dim; i++) {
        offset[i] = 0.03;
    }
    for (int64_t i = 0; i < (kind >= FPP_MATRIX_LOWER ? out_dim * dim : dim); i++) {
        matrix[i] = (double)(next_word(&seed) % 1000) * 0.001;
    }
    const fpp_row_map map = {
        dim, out_dim, bound, kind, seed % 2 ? center : NULL, kind ? matrix : NULL, seed % 5 ? offset : NULL, 77.7,
        (double)bound + (seed % 4 ? -5.0 : 30.0), /* now and then too loose, so that rows fail the integer check */
        NULL,
    };
    const int64_t size = fpp_rows_workspace_size(&map);
    CHECK(size > 0);
    char *memory = room(size + 3, 1), *workspace = memory + 3; /* any alignment */
    fpp_isa_limit(level);
    CHECK(fpp_rows_quantise(x, 0, n, stride, &map, workspace, out) == FPP_OK);
    CHECK(fpp_rows_sum(x, 0, n, stride, &map, workspace, sums) == FPP_OK);
    CHECK(fpp_rows_gram(x, 0, n, stride, &map, workspace, gram) == FPP_OK);
    check_radial(x, n, stride, &map, workspace, out);
    fpp_isa_limit(FPP_ISA_AVX512);
    for (int64_t r = 0; r < n; r++) {
        int64_t norm_sq = 0, differ = 0;
        const int known = plain_row(x + r * stride, &map, z, q + r * out_dim);
        for (int64_t i = 0; i < out_dim; i++) {
            differ += known == 0 && out[r * out_dim + i] != q[r * out_dim + i];
            q[r * out_dim + i] = out[r * out_dim + i];
            norm_sq += q[r * out_dim + i] * q[r * out_dim + i];
        }
        CHECK(differ == 0);
        CHECK(norm_sq <= bound * bound);
    }
    for (int64_t i = 0; i < out_dim; i++) {
        for (int64_t j = 0; j <= i; j++) {
            for (int64_t r = 0; r < n; r++) {
                gram[i * out_dim + j] -= q[r * out_dim + i] * q[r * out_dim + j];
            }
            CHECK(gram[i * out_dim + j] == 0);
        }
        for (int64_t r = 0; r < n; r++) {
            sums[i] -= q[r * out_dim + i];
        }
        CHECK(sums[i] == 0);
    }
    free(x);
    free(center);
    free(offset);
    free(matrix);
    free(z);
    free(q);
    free(sums);
    free(gram);
    free(out);
    free(memory);
}

/* Rows of few columns that are added together are those added alone: rows with a NaN or an infinity are counted and add nothing, rows
 * too long for their squared norms are clipped. */
static void check_neutral_rows(int64_t dim, int32_t level, uint64_t seed)
{
    enum { N = 61 };
    const fpp_row_map map = {.dim = dim, .out_dim = dim, .quant_bound = 1000, .inv_step = 77.7, .limit = 990.0 + (double)(seed % 2) * 30.0};
    double *x = block(N * dim, sizeof *x);
    int64_t *sums = block(2 * dim, sizeof *sums), *alone = sums + dim, together = 0, one_by_one = 0, expected = 0;
    char *workspace = room(fpp_rows_workspace_size(&map), 1);
    for (int64_t i = 0; i < N * dim; i++) {
        x[i] = next_number(&seed);
    }
    for (int64_t r = 0; r < N; r++) {
        static const double special[6] = {NAN, NAN, NAN, INFINITY, 1e300, 0.0};
        const double entry = special[next_word(&seed) % 6];
        x[r * dim + (int64_t)(next_word(&seed) % (uint64_t)dim)] = entry;
    }
    for (int64_t r = 0; r < N; r++) {
        int finite = 1;
        for (int64_t k = 0; k < dim; k++) {
            finite &= isfinite(x[r * dim + k]) != 0;
        }
        expected += !finite;
    }
    fpp_isa_limit(level);
    CHECK(fpp_rows_sum_counted(x, 0, N, dim, &map, workspace, sums, &together) == FPP_OK);
    for (int64_t r = 0; r < N; r++) {
        CHECK(fpp_rows_sum_counted(x + r * dim, 0, 1, dim, &map, workspace, alone, &one_by_one) == FPP_OK);
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    CHECK(together == expected && one_by_one == expected);
    for (int64_t k = 0; k < dim; k++) {
        CHECK(sums[k] == alone[k]);
    }
    free(x);
    free(sums);
    free(workspace);
}

static void check_shells(void)
{
    const double x[5][2] = {{3.0, 4.0}, {5.0, 1e-7}, {NAN, 0.0}, {1e200, 1.0}, {0.0, -0.0}};
    const double edges_sq[3] = {0.0, 25.0, INFINITY}, falling[2] = {2.0, 1.0};
    const fpp_row_map map = {.dim = 2, .out_dim = 2, .matrix_kind = FPP_MATRIX_IDENTITY};
    const int64_t expected[4] = {1, 1, 1, 1};
    int64_t counts[4] = {0};
    char *workspace = room(fpp_rows_workspace_size(&map), 1);
    CHECK(fpp_rows_shell_counts(x[0], 0, 5, 2, &map, edges_sq, 3, workspace, counts) == FPP_OK);
    CHECK(memcmp(counts, expected, sizeof counts) == 0);
    CHECK(fpp_rows_shell_counts(x[0], 0, 5, 2, &map, falling, 2, workspace, counts) == FPP_ERR_ARGUMENT);
    free(workspace);
}

static void check_refusals(void)
{
    const fpp_row_map good = {.dim = 3, .out_dim = 3, .quant_bound = 50, .inv_step = 1.0, .limit = 40.0};
    const double x[3] = {1.0, 2.0, 3.0};
    int64_t sums[9] = {0};
    char *workspace = room(fpp_rows_workspace_size(&good), 1);
    fpp_row_map bad[11];
    for (int i = 0; i < 11; i++) {
        bad[i] = good;
    }
    bad[0].dim = 0;
    bad[1].out_dim = 2;
    bad[2].quant_bound = 0;
    bad[3].quant_bound = INT64_C(94906265); /* 3 Q^2 > 2^53 */
    bad[4].quant_bound = INT64_C(1) << 62;
    bad[5].inv_step = NAN;
    bad[6].limit = 0.0;
    bad[7].matrix_kind = 4;
    bad[8].matrix_kind = FPP_MATRIX_FULL; /* without a matrix */
    bad[9].limit = INFINITY;
    bad[10].matrix_kind = FPP_MATRIX_LOWER;
    bad[10].matrix = x;
    bad[10].out_dim = 2;
    for (int i = 0; i < 11; i++) {
        CHECK(fpp_rows_sum(x, 0, 1, 3, &bad[i], workspace, sums) == FPP_ERR_ARGUMENT);
    }
    CHECK(fpp_rows_workspace_size(&bad[0]) < 0 && fpp_rows_workspace_size(NULL) < 0);
    CHECK(fpp_rows_sum(x, 0, -1, 3, &good, workspace, sums) == FPP_ERR_ARGUMENT);
    CHECK(fpp_rows_sum(x, 0, 0, 3, &good, workspace, sums) == FPP_OK);
    bad[0] = good;
    bad[0].quant_bound = FPP_GRAM_QUANT_MAX + 1;
    CHECK(fpp_rows_gram(x, 0, 1, 3, &bad[0], workspace, sums) == FPP_ERR_ARGUMENT);
    free(workspace);
}

int test_rows(void)
{
    static const int64_t dims[] = {1, 2, 3, 4, 7, 8, 9, 16, 17, 49, 64, 65, 130};
    static const int64_t rows[] = {0, 1, 7, 8, 9, 33, 300};
    const int before = n_failed;
    uint64_t seed = 1;
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            for (int32_t kind = FPP_MATRIX_IDENTITY; kind <= FPP_MATRIX_FULL; kind++) {
                const int64_t longer = kind == FPP_MATRIX_LOWER ? (int64_t)(next_word(&seed) % 12) : 0;
                const int64_t out_dim = kind == FPP_MATRIX_FULL ? dims[d] % 50 + 3 : dims[d] + longer;
                const int32_t level = (int32_t)(next_word(&seed) % 3);
                check_shape(rows[r], dims[d], out_dim, kind, level, next_word(&seed) >> 8);
            }
        }
    }
    for (int64_t dim = 1; dim <= 17; dim++) {
        for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
            check_neutral_rows(dim, level, next_word(&seed) >> 8);
            check_neutral_rows(dim, level, next_word(&seed) >> 8);
        }
    }
    check_scores();
    check_shells();
    check_refusals();
    return n_failed - before;
}
