/* One rule for pointers and sizes, "Pointers" in fpp.h, held against every exported function: linked into test_fpp. */
#include "test_support.h"

#include <math.h>
#include <string.h>

static const int64_t huge = INT64_C(1) << 62;
static const double doubles[8] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0};
static const float floats[8] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f};

static void check_draws(void)
{
    static const uint8_t key[FPP_KEY_BYTES] = {1}, nonce[FPP_NONCE_BYTES] = {2};
    const int64_t last = FPP_DRAW_END_MAX - FPP_DRAW_BLOCK;
    uint8_t bytes[4] = {0};
    int64_t whole[4] = {0};
    uint64_t words[7] = {0};
    double reals[4] = {0.0};
    REFUSED(fpp_chacha20_keystream(NULL, nonce, 0, 4, bytes));
    REFUSED(fpp_chacha20_keystream(key, NULL, 0, 4, bytes));
    REFUSED(fpp_chacha20_keystream(key, nonce, 0, 4, NULL));
    ACCEPTED(fpp_chacha20_keystream(key, nonce, 0, 0, NULL));
#define CHECK_RANGE(function, out, ...)                                  \
    REFUSED(function(NULL, 0, 4, __VA_ARGS__ out));                      \
    REFUSED(function(key, 0, 4, __VA_ARGS__ NULL));                      \
    REFUSED(function(key, 4, 4, __VA_ARGS__ out));                       \
    REFUSED(function(key, last, FPP_DRAW_END_MAX + 1, __VA_ARGS__ out)); \
    REFUSED(function(key, 0, huge, __VA_ARGS__ out));                    \
    ACCEPTED(function(key, last, last + 4, __VA_ARGS__ out));            \
    ACCEPTED(function(key, last, last, __VA_ARGS__ NULL))
#define NO_MORE
#define MORE(...) __VA_ARGS__,
    CHECK_RANGE(fpp_words_u64, words, NO_MORE);
    CHECK_RANGE(fpp_gaussian_floor_i64, whole, MORE(8));
    CHECK_RANGE(fpp_laplace_i64, whole, MORE(8));
    CHECK_RANGE(fpp_uniform_f64, reals, NO_MORE);
    CHECK_RANGE(fpp_below_i64, whole, MORE(10));
    CHECK_RANGE(fpp_test_noise_i64, whole, MORE(0, 8, 0));
    REFUSED(fpp_permutation_i64(NULL, 4, whole));
    REFUSED(fpp_permutation_i64(key, 4, NULL));
    REFUSED(fpp_permutation_i64(key, -1, whole));
    ACCEPTED(fpp_permutation_i64(key, 0, NULL));
    REFUSED(fpp_test_fixed_exp(NULL, words));
    REFUSED(fpp_test_fixed_exp(words, NULL));
}

static void check_rows(void)
{
    const fpp_row_map map = {.dim = 2, .out_dim = 2, .quant_bound = 50, .inv_step = 1.0, .limit = 40.0};
    fpp_row_map bad[6] = {map, map, map, map, map, map};
    char *work = room(fpp_rows_workspace_size(&map), 1);
    int64_t sums[4] = {0};
    int32_t rounded[4] = {0};
    bad[0].dim = bad[0].out_dim = FPP_DIM_MAX + 1;
    bad[1].dim = bad[1].out_dim = INT64_MAX;
    bad[2].matrix_kind = FPP_MATRIX_DIAGONAL;
    bad[3].matrix_kind = FPP_MATRIX_LOWER;
    bad[4].matrix_kind = FPP_MATRIX_FULL;
    bad[5].matrix_kind = FPP_MATRIX_FULL;
    bad[5].matrix = doubles;
    bad[5].out_dim = INT64_MAX;
    CHECK(fpp_rows_workspace_size(NULL) == -1);
    for (int i = 0; i < 6; i++) {
        CHECK(fpp_rows_workspace_size(&bad[i]) == -1);
    }
#define ROWS(name, ...)                                                    \
    REFUSED(name(NULL, 0, 2, 2, &map, __VA_ARGS__));                       \
    REFUSED(name(doubles, 0, 2, 2, NULL, __VA_ARGS__));                    \
    REFUSED(name(doubles, 0, -1, 2, &map, __VA_ARGS__));                   \
    REFUSED(name(doubles, 0, huge, 2, &map, __VA_ARGS__));                 \
    REFUSED(name(doubles, 0, 3, huge, &map, __VA_ARGS__));                 \
    REFUSED(name(doubles, 0, 3, -huge, &map, __VA_ARGS__));                \
    ACCEPTED(name(doubles, 0, 1, INT64_MIN, &map, __VA_ARGS__));           \
    ACCEPTED(name(NULL, 0, 0, 2, &map, __VA_ARGS__));                      \
    for (int i = 0; i < 6; i++) {                                          \
        REFUSED(name(doubles, 0, 1, 2, &bad[i], __VA_ARGS__));             \
    }
    ROWS(fpp_rows_sum, work, sums)
    REFUSED(fpp_rows_sum(doubles, 0, 2, 2, &map, NULL, sums));
    REFUSED(fpp_rows_sum(doubles, 0, 2, 2, &map, work, NULL));
    REFUSED(fpp_rows_sum(NULL, 0, 0, 2, &map, work, NULL));
    ROWS(fpp_rows_sum_counted, work, sums, sums)
    REFUSED(fpp_rows_sum_counted(doubles, 0, 2, 2, &map, work, sums, NULL));
    ROWS(fpp_rows_gram, work, sums)
    REFUSED(fpp_rows_gram(doubles, 0, 2, 2, &map, NULL, sums));
    REFUSED(fpp_rows_gram(doubles, 0, 2, 2, &map, work, NULL));
    ROWS(fpp_rows_gram_counted, work, sums, sums)
    REFUSED(fpp_rows_gram_counted(doubles, 0, 2, 2, &map, work, sums, NULL));
    REFUSED(fpp_rows_pieces(NULL, 0, 2, 2, &map, work, sums, sums));
    REFUSED(fpp_rows_pieces(doubles, 0, 2, 2, NULL, work, sums, sums));
    REFUSED(fpp_rows_pieces(doubles, 0, 2, 2, &map, NULL, sums, sums));
    REFUSED(fpp_rows_pieces(doubles, 0, 2, 2, &map, work, NULL, sums));
    REFUSED(fpp_rows_pieces(doubles, 0, 2, 2, &map, work, sums, NULL));
    REFUSED(fpp_rows_radial(NULL, 0, 2, 2, &map, 1.0, 9, NULL, 0, work, sums, sums, NULL));
    REFUSED(fpp_rows_radial(doubles, 0, 2, 2, NULL, 1.0, 9, NULL, 0, work, sums, sums, NULL));
    REFUSED(fpp_rows_radial(doubles, 0, 2, 2, &map, 0.0, 9, NULL, 0, work, sums, sums, NULL));
    REFUSED(fpp_rows_radial(doubles, 0, 2, 2, &map, NAN, 9, NULL, 0, work, sums, sums, NULL));
    REFUSED(fpp_rows_radial(doubles, 0, 2, 2, &map, 1.0, 0, NULL, 0, work, sums, sums, NULL));
    REFUSED(fpp_rows_radial(doubles, 0, 2, 2, &map, 1.0, FPP_GRAM_QUANT_MAX + 1, NULL, 0, work, sums, sums, NULL));
    REFUSED(fpp_rows_radial(doubles, 0, 2, 2, &map, 1.0, 9, NULL, 0, NULL, sums, sums, NULL));
    REFUSED(fpp_rows_radial(doubles, 0, 2, 2, &map, 1.0, 9, doubles, 1, work, NULL, NULL, sums));
    REFUSED(fpp_rows_radial(doubles, 0, 2, 2, &map, 1.0, 9, doubles, -1, work, sums, sums, sums));
    REFUSED(fpp_rows_radial(doubles, 0, 2, 2, &map, 1.0, 9, NULL, 1, work, sums, sums, sums));
    ACCEPTED(fpp_rows_radial(doubles, 0, 1, 2, &map, 1.0, 9, NULL, 0, work, sums, NULL, NULL));
    ACCEPTED(fpp_rows_radial(doubles, 0, 1, 2, &map, 1.0, 9, NULL, 0, work, NULL, sums, sums));
    const fpp_row_score score = {.loss = FPP_LOSS_LOGISTIC, .unit = 1.0, .step = 1.0, .slope = doubles};
    fpp_row_score wrong[6] = {score, score, score, score, score, score};
    wrong[0].loss = FPP_LOSS_FUNCTION;
    wrong[1].loss = FPP_LOSS_HUBER; /* without a threshold */
    wrong[2].unit = 0.0;
    wrong[3].step = INFINITY;
    wrong[4].slope = NULL;
    wrong[5].step = NAN;
    for (int i = 0; i < 6; i++) {
        fpp_row_map scored = map;
        scored.score = &wrong[i];
        CHECK(fpp_rows_workspace_size(&scored) == -1);
        REFUSED(fpp_rows_sum(doubles, 0, 1, 2, &scored, work, sums));
        scored.score = &score;
        *(i % 2 ? &scored.center : &scored.offset) = doubles;
        CHECK(fpp_rows_workspace_size(&scored) == -1);
    }
    float single[8];
    REFUSED(fpp_rows_single(doubles, 0, 2, 2, &map, NULL, 2, single));
    REFUSED(fpp_rows_single(doubles, 0, 2, 2, NULL, work, 2, single));
    REFUSED(fpp_rows_single(doubles, 0, 2, 2, &map, work, map.out_dim - 1, single));
    REFUSED(fpp_rows_single(doubles, 0, 2, 2, &map, work, INT64_MAX, single));
    REFUSED(fpp_rows_single(doubles, 0, 2, 2, &map, work, map.out_dim, NULL));
    REFUSED(fpp_rows_single(NULL, 0, 2, 2, &map, work, map.out_dim, single));
    ACCEPTED(fpp_rows_single(NULL, 0, 0, 2, &map, work, map.out_dim, NULL));
    ROWS(fpp_rows_quantise, work, rounded)
    REFUSED(fpp_rows_quantise(doubles, 0, 2, 2, &map, NULL, rounded));
    REFUSED(fpp_rows_quantise(doubles, 0, 2, 2, &map, work, NULL));
    ACCEPTED(fpp_rows_quantise(NULL, 0, 0, 2, &map, work, NULL));
    ROWS(fpp_rows_shell_counts, doubles, 3, work, sums)
    REFUSED(fpp_rows_shell_counts(doubles, 0, 2, 2, &map, NULL, 3, work, sums));
    REFUSED(fpp_rows_shell_counts(doubles, 0, 2, 2, &map, doubles, -1, work, sums));
    REFUSED(fpp_rows_shell_counts(doubles, 0, 2, 2, &map, doubles, huge, work, sums));
    REFUSED(fpp_rows_shell_counts(doubles, 0, 2, 2, &map, doubles, 3, NULL, sums));
    REFUSED(fpp_rows_shell_counts(doubles, 0, 2, 2, &map, doubles, 3, work, NULL));
    ACCEPTED(fpp_rows_shell_counts(doubles, 0, 2, 2, &map, NULL, 0, work, sums));
    free(work);
}

static void check_trees(void)
{
    const fpp_tree_node leaf = {.rule = FPP_NODE_LEAF};
    const fpp_tree_node ball = {.rule = FPP_NODE_BALL, .out_dim = 2, .n_centers = 1, .first_child = 1, .origin = doubles,
                                .centers = doubles};
    const fpp_tree_node nodes[3] = {ball, leaf, leaf};
    fpp_tree_node without[2][3];
    char *work = room(fpp_tree_workspace_size(2, nodes, 3), 1);
    int32_t labels[2] = {0};
    int64_t begins[3];
    double memory[4];
    void *const out = memory;
    memcpy(without[0], nodes, sizeof nodes);
    memcpy(without[1], nodes, sizeof nodes);
    without[0][0].origin = NULL;
    without[1][0].centers = NULL;
    CHECK(fpp_tree_workspace_size(2, NULL, 3) == -1);
    CHECK(fpp_tree_workspace_size(2, nodes, 0) == -1);
    CHECK(fpp_tree_workspace_size(2, nodes, FPP_DIM_MAX + 1) == -1);
    CHECK(fpp_tree_workspace_size(INT64_MAX, &leaf, 1) == -1);
    CHECK(fpp_tree_workspace_size(2, without[0], 3) == -1 && fpp_tree_workspace_size(2, without[1], 3) == -1);
#define ASSIGNED(type)                                                          \
    REFUSED(fpp_tree_assign_##type(NULL, 2, 2, 2, nodes, 3, work, labels));     \
    REFUSED(fpp_tree_assign_##type(x, 2, 2, 2, NULL, 3, work, labels));         \
    REFUSED(fpp_tree_assign_##type(x, 2, 2, 2, without[0], 3, work, labels));   \
    REFUSED(fpp_tree_assign_##type(x, 2, 2, 2, without[1], 3, work, labels));   \
    REFUSED(fpp_tree_assign_##type(x, 2, 2, 2, nodes, 3, NULL, labels));        \
    REFUSED(fpp_tree_assign_##type(x, 2, 2, 2, nodes, 3, work, NULL));          \
    REFUSED(fpp_tree_assign_##type(x, huge, 2, 2, nodes, 3, work, labels));     \
    REFUSED(fpp_tree_assign_##type(x, 2, huge, 2, nodes, 3, work, labels));     \
    ACCEPTED(fpp_tree_assign_##type(NULL, 0, 2, 2, nodes, 3, work, NULL));
    FOR_BOTH(ASSIGNED);
#define GROUPED(type)                                                       \
    REFUSED(fpp_rows_group_##type(NULL, 2, 2, 2, labels, 2, out, begins));       \
    REFUSED(fpp_rows_group_##type(x, 2, 2, 2, NULL, 2, out, begins));            \
    REFUSED(fpp_rows_group_##type(x, 2, 2, 2, labels, 2, NULL, begins));         \
    REFUSED(fpp_rows_group_##type(x, 2, 2, 2, labels, 2, out, NULL));            \
    REFUSED(fpp_rows_group_##type(NULL, 0, 2, 2, NULL, 2, NULL, NULL));          \
    REFUSED(fpp_rows_group_##type(x, 2, 2, huge, labels, 2, out, begins));       \
    REFUSED(fpp_rows_group_##type(x, 2, huge, 2, labels, 2, out, begins));       \
    REFUSED(fpp_rows_group_##type(x, 2, 2, 2, labels, huge, out, begins));       \
    ACCEPTED(fpp_rows_group_##type(NULL, 0, 2, 2, NULL, 2, NULL, begins));
    FOR_BOTH(GROUPED);
    free(work);
}

static void check_bins(void)
{
    const fpp_bin_rule rule = {FPP_BINS_WIDTH, 0.0, 1.0}, dyadic = {FPP_BINS_DYADIC, 0.0, 0.0};
    enum { SLOTS = 2 * FPP_BIN_BLOCK, WINDOW = FPP_BIN_DYADIC_CELLS };
    uint32_t *dense = block(WINDOW + 1, sizeof *dense);
    int64_t *keys = room(SLOTS, sizeof *keys), *counts = block(SLOTS, sizeof *counts), *totals = block(WINDOW, sizeof *totals);
    int64_t done;
    fpp_bin_table table = {.base = -1023, .window = WINDOW, .lanes = 1, .dense = dense, .words = 1, .slots = SLOTS, .keys = keys,
                           .counts = counts};
    fpp_bin_table bad[3] = {table, table, table}, bare = {.words = 1, .slots = SLOTS, .keys = keys, .counts = counts};
    bad[0].dense = NULL;
    bad[1].keys = NULL;
    bad[2].counts = NULL;
    bare.lanes = huge; /* not read without a window */
#define COUNTED(type)                                                       \
    REFUSED(fpp_bins_count_##type(NULL, 2, 1, &rule, &table, &done));       \
    REFUSED(fpp_bins_count_##type(x, 2, 1, NULL, &table, &done));           \
    REFUSED(fpp_bins_count_##type(x, 2, 1, &rule, NULL, &done));            \
    REFUSED(fpp_bins_count_##type(x, 2, 1, &rule, &bare, &done));           \
    REFUSED(fpp_bins_count_##type(x, 2, 1, &rule, &table, NULL));           \
    REFUSED(fpp_bins_count_##type(x, 2, huge, &rule, &table, &done));       \
    for (int i = 0; i < 3; i++) {                                           \
        REFUSED(fpp_bins_count_##type(x, 2, 1, &rule, &bad[i], &done));     \
    }                                                                       \
    ACCEPTED(fpp_bins_count_##type(NULL, 0, 1, &rule, &table, &done));      \
    CHECK(done == 0);                                                       \
    REFUSED(fpp_bins_keys_##type(NULL, 2, 1, &rule, 1, keys));              \
    REFUSED(fpp_bins_keys_##type(x, 2, 1, NULL, 1, keys));                  \
    REFUSED(fpp_bins_keys_##type(x, 2, 1, &rule, 1, NULL));                 \
    REFUSED(fpp_bins_keys_##type(x, 2, huge, &rule, 1, keys));              \
    REFUSED(fpp_bins_keys_##type(x, 2, 1, &rule, huge, keys));              \
    ACCEPTED(fpp_bins_keys_##type(NULL, 0, 1, &rule, 1, NULL));
    FOR_BOTH(COUNTED);
    REFUSED(fpp_bins_insert(NULL, counts, 2, &table, &done));
    REFUSED(fpp_bins_insert(keys, counts, 2, NULL, &done));
    REFUSED(fpp_bins_insert(keys, counts, 2, &table, NULL));
    REFUSED(fpp_bins_insert(keys, counts, huge, &table, &done));
    ACCEPTED(fpp_bins_insert(NULL, NULL, 0, &table, &done));
    ACCEPTED(fpp_bins_insert(totals, NULL, 2, &table, &done));
    REFUSED(fpp_bins_flush(NULL, totals));
    REFUSED(fpp_bins_flush(&table, NULL));
    ACCEPTED(fpp_bins_flush(&table, totals));
    ACCEPTED(fpp_bins_flush(&bare, NULL)); /* nothing to flush: once a write of `lanes` counters to NULL */
    for (int i = 0; i < 3; i++) {
        REFUSED(fpp_bins_insert(totals, NULL, 2, &bad[i], &done));
        REFUSED(fpp_bins_flush(&bad[i], totals));
    }
    table.base = 0;
    REFUSED(fpp_bins_count_f64(doubles, 2, 1, &dyadic, &table, &done)); /* cells of another base are no exponents */
    free(dense);
    free(keys);
    free(counts);
    free(totals);
}

/* Counts that no rows give end at the largest integer, rather than at zero, which means a free slot. */
static void check_sums_of_counts(void)
{
    enum { SLOTS = 2 * FPP_BIN_BLOCK };
    int64_t *keys = block(SLOTS, sizeof *keys), *counts = block(SLOTS, sizeof *counts), done, total = 0;
    fpp_bin_table table = {.words = 1, .slots = SLOTS, .keys = keys, .counts = counts};
    const int64_t same[4] = {5, 5, 5, 5}, most[4] = {INT64_MAX, INT64_MAX, 2, -7};
    ACCEPTED(fpp_bins_insert(same, most, 4, &table, &done));
    for (int64_t slot = 0; slot < SLOTS; slot++) {
        total += counts[slot];
    }
    CHECK(done == 4 && table.used == 1 && total == INT64_MAX);
    free(keys);
    free(counts);
}

static void check_pairs(void)
{
    const fpp_mixtures mix = {1, 1, 1, 0, block(FPP_PANEL, 8), block(FPP_PANEL, 8), block(FPP_PANEL, 8)};
    fpp_mixtures bad[9];
    double *scratch = room(fpp_density_workspace_size(&mix), 1);
    int16_t *codes = block(2 * FPP_PANEL, sizeof *codes);
    int32_t *work = room(FPP_PAIR_WORKSPACE, 1), *counts = block(FPP_PANEL * FPP_PANEL, sizeof *counts);
    for (int i = 0; i < 9; i++) {
        bad[i] = mix;
    }
    bad[0].means = NULL;
    bad[1].factors = NULL;
    bad[2].constants = NULL;
    bad[3].dim = INT64_MAX; /* sizes whose product would wrap around, to a workspace too small */
    bad[4].dim = FPP_DIM_MAX + 1;
    bad[5].components = INT64_C(1) << 60;
    bad[6].panels = INT64_C(1) << 60;
    bad[7].dim = bad[7].components = bad[7].panels = FPP_DIM_MAX;
    bad[8].dim = 0;
    CHECK(fpp_density_workspace_size(NULL) == -1);
    for (int i = 0; i < 9; i++) {
        CHECK(fpp_density_workspace_size(&bad[i]) == -1);
        REFUSED(fpp_density_codes_i16(&bad[i], doubles, 2, 2, scratch, codes));
    }
    REFUSED(fpp_density_codes_i16(NULL, doubles, 2, 2, scratch, codes));
    REFUSED(fpp_density_codes_i16(&mix, NULL, 2, 2, scratch, codes));
    REFUSED(fpp_density_codes_i16(&mix, doubles, 2, 2, NULL, codes));
    REFUSED(fpp_density_codes_i16(&mix, doubles, 2, 2, scratch, NULL));
    REFUSED(fpp_density_codes_i16(&mix, doubles, 2, huge, scratch, codes));
    ACCEPTED(fpp_density_codes_i16(&mix, NULL, 0, 0, scratch, NULL));
    REFUSED(fpp_pair_counts_i32(NULL, 2, 2, 1, 0, work, counts));
    REFUSED(fpp_pair_counts_i32(codes, 2, 2, 1, 0, NULL, counts));
    REFUSED(fpp_pair_counts_i32(codes, 2, 2, 1, 0, work, NULL));
    REFUSED(fpp_pair_counts_i32(codes, 2, huge, 1, 0, work, counts));
    REFUSED(fpp_pair_counts_i32(codes, 2, 2, huge, 0, work, counts));
    ACCEPTED(fpp_pair_counts_i32(NULL, 0, 0, 1, 0, work, counts));
    REFUSED(fpp_cell_scores_i32(NULL, 1, 1, 0, 1, counts));
    REFUSED(fpp_cell_scores_i32(work, 1, 1, 0, 1, NULL));
    REFUSED(fpp_cell_scores_i32(work, huge, 1, 0, 1, counts));
    REFUSED(fpp_cell_scores_i32(work, 1, huge, 0, 1, counts));
    free((void *)(uintptr_t)mix.means);
    free((void *)(uintptr_t)mix.factors);
    free((void *)(uintptr_t)mix.constants);
    free(scratch);
    free(codes);
    free(work);
    free(counts);
}

static void check_roots(void)
{
    const double *d = doubles;
    double roots[2];
    int64_t counts[1];
    REFUSED(fpp_pair_roots_f64(NULL, d, d, d, 2, 1, 2, 0, 2, roots, counts));
    REFUSED(fpp_pair_roots_f64(d, NULL, d, d, 2, 1, 2, 0, 2, roots, counts));
    REFUSED(fpp_pair_roots_f64(d, d, NULL, d, 2, 1, 2, 0, 2, roots, counts));
    REFUSED(fpp_pair_roots_f64(d, d, d, NULL, 2, 1, 2, 0, 2, roots, counts));
    REFUSED(fpp_pair_roots_f64(d, d, d, d, 2, 1, 2, 0, 2, NULL, counts));
    REFUSED(fpp_pair_roots_f64(d, d, d, d, 2, 1, 2, 0, 2, roots, NULL));
    REFUSED(fpp_pair_roots_f64(d, d, d, d, huge, 1, 2, 0, 2, roots, counts));
    REFUSED(fpp_pair_roots_f64(d, d, d, d, 2, huge, 2, 0, 2, roots, counts));
    REFUSED(fpp_pair_roots_f64(d, d, d, d, 2, 1, huge, 0, 2, roots, counts));
    REFUSED(fpp_pair_roots_f64(d, d, d, d, 2, 1, 2, 0, huge, roots, counts));
    ACCEPTED(fpp_pair_roots_f64(d, d, d, d, 2, 1, 2, 1, 2, NULL, NULL)); /* none is later than the last */
}

static void check_elementary(void)
{
    double out[1];
    REFUSED(fpp_log_f64(NULL, 1, out));
    REFUSED(fpp_log_f64(doubles, 1, NULL));
    REFUSED(fpp_log_f64(doubles, -1, out));
    REFUSED(fpp_log_f64(doubles, huge, out));
    REFUSED(fpp_exp_f64(NULL, 1, out));
    REFUSED(fpp_exp_f64(doubles, 1, NULL));
    REFUSED(fpp_exp_f64(doubles, -1, out));
    REFUSED(fpp_exp_f64(doubles, huge, out));
    ACCEPTED(fpp_log_f64(NULL, 0, NULL));
    ACCEPTED(fpp_exp_f64(NULL, 0, NULL));
}

static void check_columns(void)
{
    const double ones[2] = {1.0, 1.0}, zeros[2] = {0.0, 0.0};
    const fpp_column_box box = {.dim = 2, .center = zeros, .lower = zeros, .upper = ones, .middle = zeros, .width = ones,
                                .absent = zeros};
    fpp_column_box bad[8] = {box, box, box, box, box, box, box, box};
    double out[4];
    bad[0].dim = 0;
    bad[1].dim = FPP_DIM_MAX + 1;
    bad[2].center = bad[3].lower = bad[4].upper = bad[5].middle = bad[6].width = bad[7].absent = NULL;
    static const int64_t begins[3] = {0, 2, 3}, falling[3] = {0, 2, 1}, late[3] = {1, 2, 3}, none[3] = {0, 0, 0};
    const int32_t code[3] = {1, 0, 7};
    int64_t cells[10] = {0}, sums[48] = {0};
    double keys[2] = {0.0, 2.0}, tables[16] = {0};
    int32_t place[2];
    const void *in = doubles;
#define CELLS(...) fpp_columns_cells(__VA_ARGS__)
    REFUSED(CELLS(NULL, 0, 2, 2, 2, NULL, 1, 0, doubles, begins, cells));
    REFUSED(CELLS(in, 0, -1, 2, 2, NULL, 1, 0, doubles, begins, cells));
    REFUSED(CELLS(in, 0, 3, huge, 2, NULL, 1, 0, doubles, begins, cells));
    REFUSED(CELLS(in, 0, 2, 2, 0, NULL, 1, 0, doubles, begins, cells));
    REFUSED(CELLS(in, 0, 2, 2, 2, NULL, 2, 0, doubles, begins, cells));
    REFUSED(CELLS(in, 0, 2, 2, 2, NULL, 1, 1, doubles, begins, cells));
    REFUSED(CELLS(in, 0, 2, 2, 2, code, 0, 0, doubles, begins, cells));
    REFUSED(CELLS(in, 0, 2, 2, 2, code, huge, 0, doubles, begins, cells));
    REFUSED(CELLS(in, 0, 2, 2, 2, NULL, 1, 0, NULL, begins, cells));
    REFUSED(CELLS(in, 0, 2, 2, 2, NULL, 1, 0, doubles, NULL, cells));
    REFUSED(CELLS(in, 0, 2, 2, 2, NULL, 1, 0, doubles, falling, cells));
    REFUSED(CELLS(in, 0, 2, 2, 2, NULL, 1, 0, doubles, late, cells));
    REFUSED(CELLS(in, 0, 2, 2, 2, NULL, 1, 0, doubles, begins, NULL));
    ACCEPTED(CELLS(in, 0, 2, 2, 2, NULL, 1, 0, NULL, none, cells));
    memset(cells, 0, sizeof cells);
    ACCEPTED(CELLS(in, 0, 3, 2, 2, NULL, 1, 0, doubles, begins, cells));
    CHECK(cells[0] == 0 && cells[1] == 1 && cells[2] == 2 && cells[3] == 1 && cells[4] == 2);
    memset(cells, 0, sizeof cells);
    ACCEPTED(CELLS(in, 0, 3, 2, 2, code, 2, 0, doubles, begins, cells));
    CHECK(cells[0] + cells[1] + cells[2] == 1 && cells[3] + cells[4] + cells[5] == 1 && cells[6] + cells[7] + cells[8] + cells[9] == 2);
    REFUSED(fpp_column_codes(NULL, 0, 2, 1, keys, 2, place));
    REFUSED(fpp_column_codes(in, 0, 2, huge, keys, 2, place));
    REFUSED(fpp_column_codes(in, 0, 2, 1, NULL, 2, place));
    REFUSED(fpp_column_codes(in, 0, 2, 1, keys, -1, place));
    REFUSED(fpp_column_codes(in, 0, 2, 1, keys, 2, NULL));
    ACCEPTED(fpp_column_codes(keys + 1, 0, 1, 1, keys, 2, place));
    CHECK(place[0] == 1);
    const double *two[2] = {keys, NULL};
    REFUSED(fpp_columns_join(NULL, 2, 2, tables));
    REFUSED(fpp_columns_join(two, 2, 2, tables));
    REFUSED(fpp_columns_join(two, 2, 0, tables));
    REFUSED(fpp_columns_join(two, 2, 1, NULL));
    ACCEPTED(fpp_columns_join(two, 2, 1, tables));
    REFUSED(fpp_group_moments(NULL, 0, 2, 2, 2, NULL, 1, tables, tables, 0, 4, sums));
    REFUSED(fpp_group_moments(in, 0, 2, 2, 0, NULL, 1, tables, tables, 0, 4, sums));
    REFUSED(fpp_group_moments(in, 0, 2, 2, 2, NULL, 2, tables, tables, 0, 4, sums));
    REFUSED(fpp_group_moments(in, 0, 2, 2, 2, code, huge, tables, tables, 0, 4, sums));
    REFUSED(fpp_group_moments(in, 0, 2, 2, 2, NULL, 1, NULL, tables, 0, 4, sums));
    REFUSED(fpp_group_moments(in, 0, 2, 2, 2, NULL, 1, tables, NULL, 0, 4, sums));
    REFUSED(fpp_group_moments(in, 0, 2, 2, 2, NULL, 1, tables, tables, 0, 0, sums));
    REFUSED(fpp_group_moments(in, 0, 2, 2, 2, NULL, 1, tables, tables, 0, (1 << 26) + 1, sums));
    REFUSED(fpp_group_moments(in, 0, 2, 2, 2, NULL, 1, tables, tables, 0, 4, NULL));
    ACCEPTED(fpp_group_moments(in, 0, 3, 2, 2, code, 2, tables, tables, 0, 4, sums));
    CHECK(sums[0] == 1 && sums[1] == 1 && sums[24] == 1 && sums[8] == 0 && sums[16] == -2);
    REFUSED(fpp_columns_box(NULL, 0, 2, 2, &box, out));
    REFUSED(fpp_columns_box(doubles, 0, 2, 2, NULL, out));
    REFUSED(fpp_columns_box(doubles, 0, -1, 2, &box, out));
    REFUSED(fpp_columns_box(doubles, 0, huge, 2, &box, out));
    REFUSED(fpp_columns_box(doubles, 0, 3, -huge, &box, out));
    REFUSED(fpp_columns_box(doubles, 0, 2, 2, &box, NULL));
    for (int i = 0; i < 8; i++) {
        REFUSED(fpp_columns_box(doubles, 0, 2, 2, &bad[i], out));
    }
    ACCEPTED(fpp_columns_box(NULL, 0, 0, 2, &box, NULL));
    ACCEPTED(fpp_columns_box(doubles, 0, 2, 2, &box, out));
    CHECK(out[0] == 1.0 && out[3] == 1.0);
}

static void check_normals(void)
{
    double length_sq[4], radii[3] = {1.0, 1.0, 1.0}, out[18];
    uint8_t whole[2];
    const fpp_normals at = {.dim = 2, .components = 1, .means = doubles, .stds = doubles}, without = {.dim = 2, .components = 1};
    CHECK(fpp_statistic_tiles(NULL, 2) == -1 && fpp_statistic_tiles(&without, 2) == -1 && fpp_statistic_tiles(&at, huge) == -1);
    double *tiles = room(fpp_statistic_tiles(&at, 2) * (int64_t)sizeof *tiles, 1);
    REFUSED(fpp_normal_distances(NULL, 0, 2, 2, &at, tiles, length_sq, whole));
    REFUSED(fpp_normal_distances(doubles, 0, -1, 2, &at, tiles, length_sq, whole));
    REFUSED(fpp_normal_distances(doubles, 0, 2, 2, &without, tiles, length_sq, whole));
    REFUSED(fpp_normal_distances(doubles, 0, 2, 2, &at, NULL, length_sq, whole));
    REFUSED(fpp_normal_distances(doubles, 0, 2, 2, &at, tiles, NULL, whole));
    ACCEPTED(fpp_normal_distances(doubles, 0, 2, 2, &at, tiles, length_sq, whole));
    REFUSED(fpp_normal_statistic_f64(NULL, length_sq, doubles, whole, 2, &at, radii, out));
    REFUSED(fpp_normal_statistic_f64(tiles, length_sq, NULL, whole, 2, &at, radii, out));
    REFUSED(fpp_normal_statistic_f64(tiles, length_sq, doubles, whole, 2, &without, radii, out));
    REFUSED(fpp_normal_statistic_f64(tiles, length_sq, doubles, whole, 2, &at, NULL, out));
    REFUSED(fpp_normal_statistic_f64(tiles, length_sq, doubles, whole, 2, &at, radii, NULL));
    ACCEPTED(fpp_normal_statistic_f64(tiles, length_sq, doubles, whole, 2, &at, radii, out));
    free(tiles);
}

int test_arguments(void)
{
    const int before = n_failed;
    check_draws();
    check_rows();
    check_trees();
    check_bins();
    check_sums_of_counts();
    check_pairs();
    check_roots();
    check_elementary();
    check_columns();
    check_normals();
    return n_failed - before;
}
