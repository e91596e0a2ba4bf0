/* Checks of the bin kernels against the definition, on heap blocks of the exact size: linked into test_fpp. */
#include "test_support.h"

#include <math.h>
#include <string.h>

/* Key of the definition: floor(t + 1/2) by comparisons with t, and frexp. */
static int64_t plain_key(double x, const fpp_bin_rule *rule)
{
    if (rule->kind == FPP_BINS_DYADIC) {
        int exponent;
        if (x == 0.0 || !isfinite(x)) {
            return FPP_BIN_NONE;
        }
        return frexp(fabs(x), &exponent) == 0.5 ? exponent - 2 : exponent - 1;
    }
    const double t = (x - rule->offset) / rule->width;
    if (!(fabs(t) <= FPP_BIN_KEY_MAX)) {
        return FPP_BIN_NONE;
    }
    const int64_t whole = (int64_t)floor(t);
    return t - (double)whole >= 0.5 ? whole + 1 : whole;
}

static fpp_bin_table make_table(int64_t words, const fpp_bin_rule *rule, int64_t window, int64_t lanes)
{
    fpp_bin_table table = {.words = words, .slots = 2 * FPP_BIN_BLOCK, .lanes = lanes, .window = window, .base = -window / 2};
    if (rule != NULL && rule->kind == FPP_BINS_DYADIC) {
        table.base = -1023;
        table.window = FPP_BIN_DYADIC_CELLS;
    }
    if (table.window > 0) {
        table.dense = block((table.window + 1) * lanes, sizeof *table.dense);
    }
    table.keys = room(table.slots * words, sizeof *table.keys);
    table.counts = block(table.slots, sizeof *table.counts);
    return table;
}

static void free_table(fpp_bin_table *table)
{
    free(table->dense);
    free(table->keys);
    free(table->counts);
}

static void grow(fpp_bin_table *table)
{
    const int64_t slots = table->slots;
    int64_t *keys = table->keys, *counts = table->counts, done;
    table->slots *= 2;
    table->used = 0;
    table->keys = room(table->slots * table->words, sizeof *keys);
    table->counts = block(table->slots, sizeof *counts);
    CHECK(fpp_bins_insert(keys, counts, slots, table, &done) == FPP_OK && done == slots);
    free(keys);
    free(counts);
}

static int64_t count_of(const fpp_bin_table *table, const int64_t *totals, int64_t key, int dyadic)
{
    int64_t found = 0;
    for (int64_t slot = 0; slot < table->slots; slot++) {
        found += table->counts[slot] > 0 && table->keys[slot] == key ? table->counts[slot] : 0;
    }
    const int64_t cell = key - table->base;
    const int64_t low = dyadic ? 1 : 0, high = dyadic ? 2046 : table->window;
    return found + (cell >= low && cell < high ? totals[cell] : 0);
}

static void check_counts(int64_t n, const fpp_bin_rule *rule, int32_t level, int64_t lanes, int64_t stride, uint64_t wild,
                         uint64_t seed)
{
    double *x = block(n > 0 ? (n - 1) * stride + 1 : 0, sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t word = next_word(&seed);
        double value = (double)(int64_t)(word >> 40) * 0x1p-16 - 128.0; /* many on the edges of bins */
        if (word % wild == 0) {
            const uint64_t bits = next_word(&seed);
            memcpy(&value, &bits, sizeof value);
        }
        x[i * stride] = value;
    }
    fpp_bin_table table = make_table(1, rule, 64, lanes);
    fpp_isa_limit(level);
    for (int64_t begin = 0, done; begin < n; begin += done) {
        CHECK(fpp_bins_count_f64(x + begin * stride, n - begin, stride, rule, &table, &done) == FPP_OK);
        if (done < n - begin) {
            grow(&table);
        }
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    int64_t *totals = block(table.window, sizeof *totals), *keys = room(n, sizeof *keys);
    CHECK(fpp_bins_flush(&table, totals) == FPP_OK);
    CHECK(fpp_bins_keys_f64(x, n, stride, rule, 1, keys) == FPP_OK);
    for (int64_t i = 0; i < n; i++) {
        CHECK(keys[i] == plain_key(x[i * stride], rule));
        int64_t same = 0;
        for (int64_t j = 0; j < n; j++) {
            same += keys[j] == keys[i];
        }
        if (keys[i] != FPP_BIN_NONE) {
            CHECK(count_of(&table, totals, keys[i], rule->kind == FPP_BINS_DYADIC) == same);
        }
    }
    for (int64_t cell = 0; cell < (table.window + 1) * lanes; cell++) {
        CHECK(table.dense[cell] == 0);
    }
    free(x);
    free(totals);
    free(keys);
    free_table(&table);
}

static void check_float(void)
{
    const float x[6] = {0.75f, -0.25f, 1e30f, NAN, INFINITY, 2.5f};
    const int64_t expected[6] = {1, 0, FPP_BIN_NONE, FPP_BIN_NONE, FPP_BIN_NONE, 2};
    const fpp_bin_rule rule = {FPP_BINS_WIDTH, 0.25, 1.0};
    int64_t keys[12], done, totals[64] = {0};
    CHECK(fpp_bins_keys_f32(x, 6, 1, &rule, 2, keys) == FPP_OK);
    for (int i = 0; i < 6; i++) {
        CHECK(keys[2 * i] == expected[i]);
    }
    fpp_bin_table table = make_table(1, &rule, 64, 2);
    CHECK(fpp_bins_count_f32(x, 6, 1, &rule, &table, &done) == FPP_OK && done == 6);
    CHECK(fpp_bins_flush(&table, totals) == FPP_OK && totals[33] == 1 && totals[32] == 1 && totals[34] == 1);
    free_table(&table);
}

static void check_tuples(void)
{
    const int64_t keys[] = {1, 2, 1, 2, FPP_BIN_NONE, 2, 2, 1, 1, 2};
    fpp_bin_table table = make_table(2, NULL, 0, 1);
    int64_t done, most = 0;
    CHECK(fpp_bins_insert(keys, NULL, 5, &table, &done) == FPP_OK && done == 5 && table.used == 2);
    for (int64_t slot = 0; slot < table.slots; slot++) {
        most = table.counts[slot] > most ? table.counts[slot] : most;
    }
    CHECK(most == 3);
    free_table(&table);
}

static void check_refusals(void)
{
    const fpp_bin_rule good = {FPP_BINS_WIDTH, 0.0, 1.0};
    fpp_bin_rule bad[5] = {good, good, good, good, good};
    bad[0].kind = 2;
    bad[1].width = 0.0;
    bad[2].width = NAN;
    bad[3].width = INFINITY;
    bad[4].offset = INFINITY;
    const double x[1] = {1.0};
    int64_t done, keys[1];
    fpp_bin_table table = make_table(1, &good, 64, 4);
    for (int i = 0; i < 5; i++) {
        CHECK(fpp_bins_count_f64(x, 1, 1, &bad[i], &table, &done) == FPP_ERR_ARGUMENT);
        CHECK(fpp_bins_keys_f64(x, 1, 1, &bad[i], 1, keys) == FPP_ERR_ARGUMENT);
    }
    CHECK(fpp_bins_count_f64(x, -1, 1, &good, &table, &done) == FPP_ERR_ARGUMENT);
    CHECK(fpp_bins_count_f64(x, 1, 1, NULL, &table, &done) == FPP_ERR_ARGUMENT);
    const fpp_bin_rule dyadic = {FPP_BINS_DYADIC, 0.0, 1.0};
    CHECK(fpp_bins_count_f64(x, 1, 1, &dyadic, &table, &done) == FPP_ERR_ARGUMENT); /* its window is another */
    fpp_bin_table wrong[7];
    for (int i = 0; i < 7; i++) {
        wrong[i] = table;
    }
    wrong[0].slots = 1000;
    wrong[1].slots = 512;
    wrong[2].words = 0;
    wrong[3].words = FPP_BIN_WORDS_MAX + 1;
    wrong[4].lanes = 3;
    wrong[5].used = table.slots;
    wrong[6].base = INT64_MIN;
    for (int i = 0; i < 7; i++) {
        CHECK(fpp_bins_count_f64(x, 1, 1, &good, &wrong[i], &done) == FPP_ERR_ARGUMENT);
        CHECK(fpp_bins_insert(keys, NULL, 0, &wrong[i], &done) == FPP_ERR_ARGUMENT);
    }
    CHECK(fpp_bins_flush(NULL, keys) == FPP_ERR_ARGUMENT);
    free_table(&table);
}

int test_bins(void)
{
    static const fpp_bin_rule rules[] = {
        {FPP_BINS_WIDTH, 0.0, 1.0}, {FPP_BINS_WIDTH, 0.1, 0.3}, {FPP_BINS_WIDTH, 0.0, 0x1p-300}, {FPP_BINS_WIDTH, 1e9, 3.7},
        {FPP_BINS_DYADIC, 0.0, 1.0},
    };
    static const int64_t rows[] = {0, 1, 511, 512, 513, 1100, 1700};
    const int before = n_failed;
    uint64_t seed = 7;
    for (size_t rule = 0; rule < sizeof rules / sizeof *rules; rule++) {
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            for (int32_t level = 0; level < 3; level++) {
                const int64_t lanes = INT64_C(1) << next_word(&seed) % 4;
                const int64_t stride = 1 + (int64_t)(next_word(&seed) % 2);
                const uint64_t wild = r % 2 == 0 ? 13 : 1000; /* few enough to be counted by octaves */
                check_counts(rows[r], &rules[rule], level, lanes, stride, wild, next_word(&seed));
            }
        }
    }
    check_float();
    check_tuples();
    check_refusals();
    return n_failed - before;
}
