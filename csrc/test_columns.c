/* Cells and boxes of columns: the vectors of each instruction set against one number at a time, on memory of the exact size. */
#include "test_support.h"

#include <math.h>
#include <string.h>

/* Any bit pattern, numbers near the centre, and the notorious ones. */
static double some_number(uint64_t *state)
{
    static const double notorious[] = {0.0, -0.0, 0x1p-1074, -0x1p-1074, 1.0, -2.0, 1.25, 0x1.fffffffffffffp1023, INFINITY, -INFINITY, NAN};
    const uint64_t kind = next_word(state) % 4, bits = next_word(state);
    double number;
    if (kind == 0) {
        return notorious[bits % (sizeof notorious / sizeof *notorious)];
    }
    memcpy(&number, &bits, sizeof number);
    return kind == 1 ? number : (double)(int64_t)bits * 0x1p-60;
}

static int64_t cell_of(double x, double center, int32_t log2_parts)
{
    const int64_t side = INT64_C(2047) << log2_parts;
    const double v = x - center;
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint64_t size = bits & INT64_MAX;
    if (!isfinite(x)) {
        return 2 * side + 1;
    }
    return size == 0 ? 2 * side : (int64_t)((size - 1) >> (52 - log2_parts)) + (bits >> 63 != 0 ? side : 0);
}

static double boxed(double x, const fpp_column_box *box, int64_t k)
{
    double v = x - box->center[k];
    v = v < box->lower[k] ? box->lower[k] : v;
    v = v > box->upper[k] ? box->upper[k] : v;
    return isfinite(x) ? (v - box->middle[k]) / box->width[k] : box->absent[k];
}

static int same_bits(const double *a, const double *b, int64_t n)
{
    return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Rows of n by dim numbers, `apart` elements from one to the next, as both types: single precision is read as doubles below. */
static void check_rows(int64_t n, int64_t dim, int64_t apart, int32_t log2_parts, int32_t neutral, uint64_t *state)
{
    const int64_t size = n > 0 ? (n - 1) * apart + dim : 0, cells = 2 * (INT64_C(2047) << log2_parts) + 2;
    double *x = room(size, sizeof *x), *numbers = room(6 * dim, sizeof *numbers), *wanted = room(n * dim, sizeof *wanted);
    float *single = room(size, sizeof *single);
    double *out = room(n * dim, sizeof *out);
    int64_t *expected = block(dim * cells, sizeof *expected);
    for (int64_t i = 0; i < size; i++) {
        single[i] = (float)some_number(state);
    }
    for (int64_t k = 0; k < dim; k++) {
        numbers[k] = k % 3 == 0 ? 0.0 : (double)(k % 5) - 2.5;
        numbers[dim + k] = -1.0 - (double)k;
        numbers[2 * dim + k] = 2.0 + (double)k;
        numbers[3 * dim + k] = 0.3;
        numbers[4 * dim + k] = 0.7 + (double)k;
        numbers[5 * dim + k] = (double)k;
    }
    const fpp_column_box box = {dim, neutral, numbers, numbers + dim, numbers + 2 * dim, numbers + 3 * dim, numbers + 4 * dim,
                                numbers + 5 * dim};
    for (int is_f32 = 0; is_f32 < 2; is_f32++) {
        for (int64_t i = 0; i < size; i++) {
            x[i] = is_f32 ? (double)single[i] : some_number(state);
        }
        memset(expected, 0, (size_t)(dim * cells) * sizeof *expected);
        for (int64_t i = 0; i < n; i++) {
            int whole = 1;
            for (int64_t k = 0; k < dim; k++) {
                whole &= isfinite(x[i * apart + k]) != 0;
            }
            for (int64_t k = 0; k < dim; k++) {
                const double number = x[i * apart + k];
                expected[k * cells + (neutral && !whole ? cells - 1 : cell_of(number, numbers[k], log2_parts))]++;
                wanted[i * dim + k] = neutral && !whole ? NAN : boxed(number, &box, k);
            }
        }
        for (int32_t level = 0; level < 3; level++) {
            int64_t *counts = block(dim * cells, sizeof *counts);
            fpp_isa_limit(level);
            const void *const rows = is_f32 ? (const void *)single : x;
            ACCEPTED(fpp_columns_count(rows, is_f32, n, apart, dim, numbers, log2_parts, neutral, cells, counts));
            CHECK(memcmp(counts, expected, (size_t)(dim * cells) * sizeof *counts) == 0);
            ACCEPTED(fpp_columns_box(rows, is_f32, n, apart, &box, out));
            CHECK(same_bits(out, wanted, n * dim));
            free(counts);
        }
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    free(x);
    free(numbers);
    free(wanted);
    free(single);
    free(out);
    free(expected);
}

static void check_boxed_arguments(void)
{
    static const double doubles[4] = {1.0, 2.0, 3.0, 4.0};
    static const float floats[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    const int64_t huge = INT64_MAX / 2;
    const double ones[2] = {1.0, 1.0}, zeros[2] = {0.0, 0.0};
    const fpp_column_box box = {.dim = 2, .center = zeros, .lower = zeros, .upper = ones, .middle = zeros, .width = ones,
                                .absent = zeros};
    fpp_column_box bad[8] = {box, box, box, box, box, box, box, box};
    bad[0].dim = 0;
    bad[1].dim = FPP_DIM_MAX + 1;
    bad[2].center = bad[3].lower = bad[4].upper = bad[5].middle = bad[6].width = bad[7].absent = NULL;
    fpp_row_map map = {.dim = 2, .out_dim = 2, .quant_bound = 8, .inv_step = 1.0, .limit = 1.0}, other = map;
    other.dim = other.out_dim = 3;
    void *work = room(fpp_boxed_workspace_size(&map), 1);
    int64_t found[3] = {0};
    const double falling_edges[2] = {2.0, 1.0};
    CHECK(fpp_boxed_workspace_size(NULL) == -1);
#define BOXED(is_f32, x)                                                                         \
    REFUSED(fpp_boxed_sum(NULL, is_f32, 2, 2, &box, &map, work, found));                         \
    REFUSED(fpp_boxed_sum(x, is_f32, -1, 2, &box, &map, work, found));                           \
    REFUSED(fpp_boxed_sum(x, is_f32, 3, huge, &box, &map, work, found));                         \
    REFUSED(fpp_boxed_sum(x, is_f32, 2, 2, NULL, &map, work, found));                            \
    REFUSED(fpp_boxed_sum(x, is_f32, 2, 2, &box, NULL, work, found));                            \
    REFUSED(fpp_boxed_sum(x, is_f32, 2, 2, &box, &other, work, found));                          \
    REFUSED(fpp_boxed_sum(x, is_f32, 2, 2, &box, &map, NULL, found));                            \
    REFUSED(fpp_boxed_sum(x, is_f32, 2, 2, &box, &map, work, NULL));                             \
    REFUSED(fpp_boxed_shell_counts(NULL, is_f32, 2, 2, &box, &map, ones, 2, work, found));       \
    REFUSED(fpp_boxed_shell_counts(x, is_f32, 2, 2, &box, &other, ones, 2, work, found));        \
    REFUSED(fpp_boxed_shell_counts(x, is_f32, 2, 2, &box, &map, NULL, 2, work, found));          \
    REFUSED(fpp_boxed_shell_counts(x, is_f32, 2, 2, &box, &map, ones, -1, work, found));         \
    REFUSED(fpp_boxed_shell_counts(x, is_f32, 2, 2, &box, &map, falling_edges, 2, work, found)); \
    REFUSED(fpp_boxed_shell_counts(x, is_f32, 2, 2, &box, &map, ones, 2, NULL, found));          \
    REFUSED(fpp_boxed_shell_counts(x, is_f32, 2, 2, &box, &map, ones, 2, work, NULL));           \
    for (int i = 0; i < 8; i++) {                                                                \
        REFUSED(fpp_boxed_sum(x, is_f32, 2, 2, &bad[i], &map, work, found));                     \
        REFUSED(fpp_boxed_shell_counts(x, is_f32, 2, 2, &bad[i], &map, ones, 2, work, found));   \
    }                                                                                            \
    ACCEPTED(fpp_boxed_sum(x, is_f32, 2, 2, &box, &map, work, found));                           \
    ACCEPTED(fpp_boxed_sum(NULL, is_f32, 0, 2, &box, &map, work, found));                        \
    ACCEPTED(fpp_boxed_shell_counts(x, is_f32, 2, 2, &box, &map, NULL, 0, work, found));
    BOXED(0, doubles)
    BOXED(1, floats)
    free(work);
}

static void check_count_arguments(void)
{
    static const int64_t huge = INT64_C(1) << 62;
    static const double doubles[4] = {1.0, 2.0, 3.0, 4.0}, zeros[2] = {0.0, 0.0};
    static const float floats[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    int64_t *counts = block(2 * 4096, sizeof *counts);
    REFUSED(fpp_columns_count(NULL, 0, 2, 2, 2, zeros, 0, 0, 4096, counts));
    REFUSED(fpp_columns_count(doubles, 0, -1, 2, 2, zeros, 0, 0, 4096, counts));
    REFUSED(fpp_columns_count(doubles, 0, huge, 2, 2, zeros, 0, 0, 4096, counts));
    REFUSED(fpp_columns_count(doubles, 0, 3, huge, 2, zeros, 0, 0, 4096, counts));
    REFUSED(fpp_columns_count(doubles, 0, 2, 2, 0, zeros, 0, 0, 4096, counts));
    REFUSED(fpp_columns_count(doubles, 0, 2, 2, huge, zeros, 0, 0, 4096, counts));
    REFUSED(fpp_columns_count(doubles, 0, 2, 2, 2, NULL, 0, 0, 4096, counts));
    REFUSED(fpp_columns_count(doubles, 0, 2, 2, 2, zeros, -1, 0, 4096, counts));
    REFUSED(fpp_columns_count(doubles, 0, 2, 2, 2, zeros, 3, 0, 4096, counts));
    REFUSED(fpp_columns_count(doubles, 0, 2, 2, 2, zeros, 0, 0, 4095, counts));
    REFUSED(fpp_columns_count(doubles, 0, 2, 2, 2, zeros, 0, 0, huge, counts));
    REFUSED(fpp_columns_count(doubles, 0, 2, 2, 2, zeros, 0, 0, 4096, NULL));
    ACCEPTED(fpp_columns_count(NULL, 0, 0, 2, 2, zeros, 0, 0, 4096, counts));
    ACCEPTED(fpp_columns_count(doubles, 0, 2, 2, 2, zeros, 0, 1, 4096, counts));
    ACCEPTED(fpp_columns_count(floats, 1, 2, 2, 2, zeros, 0, 1, 4096, counts));
    CHECK(counts[1022] == 2); /* 1.0 in either type */
    free(counts);
}

int test_columns(void)
{
    static const int64_t dims[] = {1, 2, 3, 7, 8, 9, 50, 63, 64, 65, 520}; /* rows side by side, up to 64; parts of a row, beyond 512 */
    const int before = n_failed;
    uint64_t state = 11;
    check_count_arguments();
    check_boxed_arguments();
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        for (int32_t neutral = 0; neutral < 2; neutral++) {
            const int64_t rows = 1 + (int64_t)(next_word(&state) % 40);
            check_rows(0, dims[d], dims[d], 0, neutral, &state);
            check_rows(rows, dims[d], dims[d], (int32_t)(next_word(&state) % 3), neutral, &state);
            check_rows(rows, dims[d], dims[d] + 1 + (int64_t)(next_word(&state) % 3), (int32_t)(next_word(&state) % 3), neutral, &state);
        }
    }
    return n_failed - before;
}
