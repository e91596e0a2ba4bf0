/* The rule for pointers and sizes, held against counts of columns and what becomes of them once released: linked into test_fpp. */
#include "test_support.h"

#include <math.h>
#include <string.h>

static const int64_t huge = INT64_C(1) << 62;
static const double doubles[8] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0};
static const float floats[8] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f};
static const double zeros[2] = {0.0, 0.0}, ones[2] = {1.0, 1.0};

static void check_counts(void)
{
    int64_t *counts = block(2 * 4096, sizeof *counts);
#define CELLS(type)                                                               \
    REFUSED(fpp_columns_count_##type(NULL, 2, 2, 2, zeros, 0, 0, 4096, counts));  \
    REFUSED(fpp_columns_count_##type(x, -1, 2, 2, zeros, 0, 0, 4096, counts));    \
    REFUSED(fpp_columns_count_##type(x, huge, 2, 2, zeros, 0, 0, 4096, counts));  \
    REFUSED(fpp_columns_count_##type(x, 3, huge, 2, zeros, 0, 0, 4096, counts));  \
    REFUSED(fpp_columns_count_##type(x, 2, 2, 0, zeros, 0, 0, 4096, counts));     \
    REFUSED(fpp_columns_count_##type(x, 2, 2, huge, zeros, 0, 0, 4096, counts));  \
    REFUSED(fpp_columns_count_##type(x, 2, 2, 2, NULL, 0, 0, 4096, counts));      \
    REFUSED(fpp_columns_count_##type(x, 2, 2, 2, zeros, -1, 0, 4096, counts));    \
    REFUSED(fpp_columns_count_##type(x, 2, 2, 2, zeros, 3, 0, 4096, counts));     \
    REFUSED(fpp_columns_count_##type(x, 2, 2, 2, zeros, 0, 0, 4095, counts));     \
    REFUSED(fpp_columns_count_##type(x, 2, 2, 2, zeros, 0, 0, huge, counts));     \
    REFUSED(fpp_columns_count_##type(x, 2, 2, 2, zeros, 0, 0, 4096, NULL));       \
    ACCEPTED(fpp_columns_count_##type(NULL, 0, 2, 2, zeros, 0, 0, 4096, counts)); \
    ACCEPTED(fpp_columns_count_##type(x, 2, 2, 2, zeros, 0, 1, 4096, counts));
    FOR_BOTH(CELLS);
    CHECK(counts[1022] == 2); /* 1.0 in either type */
    free(counts);
}

static void check_pooled(void)
{
    double *counts = block(2 * 2047, sizeof *counts), *values = room(2 * 2047, sizeof *values), *noise = room(2 * 2047, sizeof *noise);
    int32_t *work = room(2 * 2047, sizeof *work);
    int64_t lines[2], places[2];
#define POOL(counts, columns, apart, sides, parts, x, m, row, work, values, lines) \
    fpp_counts_pool(counts, columns, apart, sides, parts, x, m, row, zeros, ones, ones, work, values, noise, lines, places)
    CHECK(POOL(NULL, 1, 4094, 2, 0, doubles, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, -1, 4094, 2, 0, doubles, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, huge, 4094, 2, 0, doubles, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, 1, 4093, 2, 0, doubles, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, 1, huge, 2, 0, doubles, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 3, 0, doubles, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 0, 0, doubles, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 2, 3, doubles, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 2, -1, doubles, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 2, 0, NULL, 2, 1, work, values, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 2, 0, doubles, -1, 1, work, values, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 2, 0, doubles, 3, huge, work, values, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 2, 0, doubles, 2, 1, NULL, values, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 2, 0, doubles, 2, 1, work, NULL, lines) == -1);
    CHECK(POOL(counts, 1, 4094, 2, 0, doubles, 2, 1, work, values, NULL) == -1);
    CHECK(POOL(counts, 1, 4094, 2, 0, NULL, 0, 1, work, values, lines) == 0);
    CHECK(POOL(counts, 1, 4094, 2, 0, doubles, 2, 1, work, values, lines) == 2);
    CHECK(lines[0] == 0 && places[0] == 1022 && lines[1] == 0 && places[1] == 1023); /* 1 and 2, each the upper end of its cell */
    CHECK(values[1022] > 0.0 && values[1021] == values[1024] && values[1021] < 0.0 + 1.0);
    free(counts);
    free(values);
    free(noise);
    free(work);
}

static void check_windows(void)
{
    double *above = block(8, sizeof *above), *thresholds = block(2 * 9, sizeof *thresholds), *work = room(2 * 8, sizeof *work);
    double *even = room(8, sizeof *even), score;
    int64_t *found = room(4, sizeof *found), end, ends[2], stood[2];
    uint64_t references[2];
    for (int k = 0; k < 8; k++) {
        even[k] = 1.0;
    }
    for (int k = 0; k < 18; k++) {
        thresholds[k] = 3.0;
    }
    above[7] = 9.0;
    const double *const counts[4] = {above, even, even, even}, *const missing[4] = {above, even, NULL, even};
#define FIND(counts, cells, thresholds, widths, work, room, found, score, end) \
    fpp_windows_find(counts, cells, thresholds, widths, 5.0, 1.5, work, room, found, score, end)
    CHECK(FIND(NULL, 8, thresholds, 2, work, 1, found, &score, &end) == -1);
    CHECK(FIND(missing, 8, thresholds, 2, work, 1, found, &score, &end) == -1);
    CHECK(FIND(counts, 7, thresholds, 2, work, 1, found, &score, &end) == -1);
    CHECK(FIND(counts, huge, thresholds, 2, work, 1, found, &score, &end) == -1);
    CHECK(FIND(counts, 8, NULL, 2, work, 1, found, &score, &end) == -1);
    CHECK(FIND(counts, 8, thresholds, 0, work, 1, found, &score, &end) == -1);
    CHECK(FIND(counts, 8, thresholds, 5, work, 1, found, &score, &end) == -1);
    CHECK(FIND(counts, 8, thresholds, 2, NULL, 1, found, &score, &end) == -1);
    CHECK(FIND(counts, 8, thresholds, 2, work, -1, found, &score, &end) == -1);
    CHECK(FIND(counts, 8, thresholds, 2, work, 1, NULL, &score, &end) == -1);
    CHECK(FIND(counts, 8, thresholds, 2, work, 1, found, NULL, &end) == -1);
    CHECK(FIND(counts, 8, thresholds, 2, work, 1, found, &score, NULL) == -1);
    CHECK(FIND(counts, 8, thresholds, 2, work, 0, NULL, &score, &end) == 2);
    CHECK(FIND(counts, 8, thresholds, 2, work, 1, found, &score, &end) == 2); /* the cell, and the two that end in it */
    CHECK(found[0] == 0 && found[1] == 7 && found[2] == 0 && found[3] == 9 && score == 9.0 && end == 7);
    const int64_t two[8] = {0, 3, 0, 2, 1, 5, 1, 3}, known[2] = {4, 1}, outside[4] = {0, 8, 0, 3};
    REFUSED(fpp_windows_stand(NULL, 2, 8, known, 2, 1, references, stood, ends));
    REFUSED(fpp_windows_stand(two, -1, 8, known, 2, 1, references, stood, ends));
    REFUSED(fpp_windows_stand(two, huge, 8, known, 2, 1, references, stood, ends));
    REFUSED(fpp_windows_stand(two, 2, 0, known, 2, 1, references, stood, ends));
    REFUSED(fpp_windows_stand(two, 2, 8, NULL, 2, 1, references, stood, ends));
    REFUSED(fpp_windows_stand(two, 2, 8, outside, 2, 1, references, stood, ends));
    REFUSED(fpp_windows_stand(outside, 1, 8, known, 2, 1, references, stood, ends));
    REFUSED(fpp_windows_stand(two, 2, 8, known, 2, -1, references, stood, ends));
    REFUSED(fpp_windows_stand(two, 2, 8, known, 2, 1, NULL, stood, ends));
    REFUSED(fpp_windows_stand(two, 2, 8, known, 2, 1, references, NULL, ends));
    REFUSED(fpp_windows_stand(two, 2, 8, known, 2, 1, references, stood, NULL));
    ACCEPTED(fpp_windows_stand(two, 2, 8, NULL, 0, 1, references, stood, ends));
    CHECK(!stood[0] && !stood[1] && ends[0] == -1 && ends[1] == -1);
    ACCEPTED(fpp_windows_stand(two, 2, 8, known, 2, 1, references, stood, ends));
    CHECK(stood[0] && stood[1] && ends[0] == 3 && ends[1] == 6);
    free(above);
    free(even);
    free(thresholds);
    free(work);
    free(found);
}

static void check_sides(void)
{
    double *counts = block(2047, sizeof *counts), *edges = room(2048, sizeof *edges), *made = room(6 * 69, sizeof *made), out[2], more[2],
           most[2];
    int32_t kind[2];
    for (int k = 0; k < 2048; k++) {
        edges[k] = ldexp(1.0, k - 1023);
    }
#define SIDE(counts, edges, cells, last, parts, apart, made, kind) \
    fpp_side_make(counts, counts, edges, cells, last, parts, 0, apart, made, kind)
    REFUSED(SIDE(NULL, edges, 2047, 1023, 1, 69, made, kind));
    REFUSED(SIDE(counts, NULL, 2047, 1023, 1, 69, made, kind));
    REFUSED(SIDE(counts, edges, 0, 1023, 1, 69, made, kind));
    REFUSED(SIDE(counts, edges, huge, 1023, 1, 69, made, kind));
    REFUSED(SIDE(counts, edges, 2047, 2047, 1, 69, made, kind));
    REFUSED(SIDE(counts, edges, 2047, -7, 1, 69, made, kind));
    REFUSED(SIDE(counts, edges, 2047, 1023, 3, 69, made, kind));
    REFUSED(SIDE(counts, edges, 2047, 1023, 1, 68, made, kind));
    REFUSED(SIDE(counts, edges, 2047, 1023, 1, huge, made, kind));
    REFUSED(SIDE(counts, edges, 2047, 1023, 1, 69, NULL, kind));
    REFUSED(SIDE(counts, edges, 2047, 1023, 1, 69, made, NULL));
    ACCEPTED(SIDE(counts, edges, 2047, 2046, 1, 69, made, kind));
    ACCEPTED(SIDE(counts, edges, 2047, -6, 1, 69, made, kind));
    counts[1022] = 100.0;
    ACCEPTED(SIDE(counts, edges, 2047, 1022, 1, 69, made, kind));
    CHECK(made[63] == 0.5 && made[69 + 63] == 1.0 && made[2 * 69 + 63] == 100.0 && kind[0] == 0);
    REFUSED(fpp_sides_exceed(NULL, 1, 1, zeros, 2, out, more, most));
    REFUSED(fpp_sides_exceed(made, -1, 1, zeros, 2, out, more, most));
    REFUSED(fpp_sides_exceed(made, huge, 1, zeros, 2, out, more, most));
    REFUSED(fpp_sides_exceed(made, 1, 0, zeros, 2, out, more, most));
    REFUSED(fpp_sides_exceed(made, 1, 1, NULL, 2, out, more, most));
    REFUSED(fpp_sides_exceed(made, 1, 1, zeros, -1, out, more, most));
    REFUSED(fpp_sides_exceed(made, 1, 1, zeros, huge, out, more, most));
    REFUSED(fpp_sides_exceed(made, 1, 1, zeros, 2, NULL, more, most));
    REFUSED(fpp_sides_exceed(made, 1, 1, zeros, 2, out, NULL, most));
    REFUSED(fpp_sides_exceed(made, 1, 1, zeros, 2, out, more, NULL));
    ACCEPTED(fpp_sides_exceed(made, 1, 1, zeros, 2, out, more, most));
    CHECK(out[0] >= 75.0 && out[0] == out[1]);
    REFUSED(fpp_sides_clip(NULL, 1, 1, ones, 2, out, more));
    REFUSED(fpp_sides_clip(made, 1, 5, ones, 2, out, more));
    REFUSED(fpp_sides_clip(made, 1, 1, NULL, 2, out, more));
    REFUSED(fpp_sides_clip(made, 1, 1, ones, 2, NULL, more));
    REFUSED(fpp_sides_clip(made, 1, 1, ones, 2, out, NULL));
    ACCEPTED(fpp_sides_clip(made, 1, 1, ones, 2, out, more));
    CHECK(out[0] >= 75.0 && out[0] == out[1] && more[0] > 0.0);
    free(counts);
    free(edges);
    free(made);
}

int test_arguments_of_counts(void)
{
    const int before = n_failed;
    check_counts();
    check_pooled();
    check_windows();
    check_sides();
    return n_failed - before;
}
