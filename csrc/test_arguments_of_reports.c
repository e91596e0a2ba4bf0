/* The rule for pointers and sizes, for local reports and their bytes. */
#include "test_support.h"

#include <math.h>

static const int64_t huge = INT64_C(1) << 62;
static const double rows[8] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0};
static const uint8_t key[FPP_KEY_BYTES] = {1};

#define BAD_LAWS 12

static fpp_report_law sound_law(void)
{
    const fpp_report_law law = {.dim = 2, .kind = FPP_REPORT_SPHERE, .log2_grid = 8, .threshold = 0.25, .miss = 0.25, .radius = 1.0};
    return law;
}

static void bad_laws(fpp_report_law *bad)
{
    for (int i = 0; i < BAD_LAWS; i++) {
        bad[i] = sound_law();
    }
    bad[0].dim = 0;
    bad[1].dim = FPP_DIM_MAX + 1;
    bad[2].kind = 2;
    bad[3].log2_grid = -1;
    bad[4].log2_grid = FPP_REPORT_GRID_MAX + 1;
    bad[5].threshold = 1.0;
    bad[6].threshold = (double)NAN;
    bad[7].miss = 0.0;
    bad[8].miss = 1.0;
    bad[9].radius = (double)INFINITY;
    bad[10].ball = 2;
    bad[11].dim = 1; /* with a threshold */
}

static void check_draws_of_reports(void)
{
    const fpp_report_law law = sound_law();
    fpp_report_law bad[BAD_LAWS];
    char *work = room(fpp_report_workspace_size(&law), 1);
    int32_t out[6] = {0};
    uint8_t seeds[3 * FPP_SEED_BYTES] = {0};
    bad_laws(bad);
    CHECK(fpp_report_workspace_size(NULL) == -1);
#define REPORTS(name, result, ...)                                                      \
    REFUSED(name(NULL, 2, 2, &law, __VA_ARGS__ key, 0, work, result));                  \
    REFUSED(name(rows, -1, 2, &law, __VA_ARGS__ key, 0, work, result));                 \
    REFUSED(name(rows, huge, 2, &law, __VA_ARGS__ key, 0, work, result));               \
    REFUSED(name(rows, 3, huge, &law, __VA_ARGS__ key, 0, work, result));               \
    REFUSED(name(rows, 2, 2, NULL, __VA_ARGS__ key, 0, work, result));                  \
    REFUSED(name(rows, 2, 2, &law, __VA_ARGS__ NULL, 0, work, result));                 \
    REFUSED(name(rows, 2, 2, &law, __VA_ARGS__ key, -1, work, result));                 \
    REFUSED(name(rows, 2, 2, &law, __VA_ARGS__ key, FPP_REPORTS_MAX - 1, work, result)); \
    REFUSED(name(rows, 2, 2, &law, __VA_ARGS__ key, 0, NULL, result));                  \
    REFUSED(name(rows, 2, 2, &law, __VA_ARGS__ key, 0, work, NULL));                    \
    ACCEPTED(name(rows, 2, 2, &law, __VA_ARGS__ key, FPP_REPORTS_MAX - 2, work, result)); \
    ACCEPTED(name(NULL, 0, 2, &law, __VA_ARGS__ key, 0, NULL, NULL));                   \
    for (int i = 0; i < BAD_LAWS; i++) {                                                \
        CHECK(fpp_report_workspace_size(&bad[i]) == -1);                                \
        REFUSED(name(rows, 1, 1, &bad[i], __VA_ARGS__ key, 0, work, result));           \
    }
#define NOTHING
    REPORTS(fpp_reports_f64, out, NOTHING)
    REFUSED(fpp_reports_f64(rows, 2, 2, &law, NULL, 0, work, out));
#define TRIALS 0.5, 1000,
    REPORTS(fpp_report_seeds_f64, seeds, TRIALS)
    REFUSED(fpp_report_seeds_f64(rows, 2, 2, &law, 0.5, 1000, NULL, 0, work, seeds));
    REFUSED(fpp_report_seeds_f64(rows, 2, 2, &law, 0.0, 1000, key, 0, work, seeds));
    REFUSED(fpp_report_seeds_f64(rows, 2, 2, &law, 1.0, 1000, key, 0, work, seeds));
    REFUSED(fpp_report_seeds_f64(rows, 2, 2, &law, 0.5, 0, key, 0, work, seeds));
    REFUSED(fpp_report_seeds_f64(rows, 2, 2, &law, 0.5, huge, key, 0, work, seeds));
    REFUSED(fpp_report_of_seeds_i32(NULL, 2, &law, work, out));
    REFUSED(fpp_report_of_seeds_i32(seeds, -1, &law, work, out));
    REFUSED(fpp_report_of_seeds_i32(seeds, huge, &law, work, out));
    REFUSED(fpp_report_of_seeds_i32(seeds, 2, NULL, work, out));
    REFUSED(fpp_report_of_seeds_i32(seeds, 2, &law, NULL, out));
    REFUSED(fpp_report_of_seeds_i32(seeds, 2, &law, work, NULL));
    ACCEPTED(fpp_report_of_seeds_i32(seeds, 3, &law, work, out));
    free(work);
}

static void check_codes(void)
{
    const fpp_report_law law = sound_law();
    fpp_report_law bad[BAD_LAWS];
    const fpp_report_book book = {.words = 8, .chosen = 3, .miss = INT64_C(1) << 60};
    fpp_report_book wrong[6];
    char *work = room(fpp_report_workspace_size(&law), 1);
    uint8_t codes[3 * FPP_CODE_BYTES] = {0};
    int32_t out[6] = {0};
    bad_laws(bad);
#define BOOK &book,
    REPORTS(fpp_report_codes_f64, codes, BOOK)
    REFUSED(fpp_report_codes_f64(rows, 2, 2, &law, NULL, key, 0, work, codes));
    REFUSED(fpp_report_codes_f64(rows, 2, 2, &law, &book, NULL, 0, work, codes));
    for (int i = 0; i < 6; i++) {
        wrong[i] = book;
    }
    wrong[0].words = 1;
    wrong[1].words = FPP_BOOK_WORDS_MAX + 1;
    wrong[2].chosen = 0;
    wrong[3].chosen = 8;
    wrong[4].miss = 0;
    wrong[5].miss = INT64_C(1) << 62;
    for (int i = 0; i < 6; i++) {
        REFUSED(fpp_report_codes_f64(rows, 2, 2, &law, &wrong[i], key, 0, work, codes));
    }
    fpp_report_law gaussian = law;
    gaussian.kind = FPP_REPORT_GAUSSIAN;
    REFUSED(fpp_report_codes_f64(rows, 2, 2, &gaussian, &book, key, 0, work, codes));
    REFUSED(fpp_report_of_codes_i32(NULL, 2, &law, work, out));
    REFUSED(fpp_report_of_codes_i32(codes, -1, &law, work, out));
    REFUSED(fpp_report_of_codes_i32(codes, huge, &law, work, out));
    REFUSED(fpp_report_of_codes_i32(codes, 2, NULL, work, out));
    REFUSED(fpp_report_of_codes_i32(codes, 2, &law, NULL, out));
    REFUSED(fpp_report_of_codes_i32(codes, 2, &law, work, NULL));
    ACCEPTED(fpp_report_of_codes_i32(codes, 3, &law, work, out));
    free(work);
}

static void check_batches(void)
{
    const fpp_report_header header = {.dim = 2, .count = 3, .log2_grid = 8, .entry_bytes = 2, .radius = 1.0, .epsilon = 1.0};
    fpp_report_header found, bad[9];
    const int32_t entries[6] = {1, -2, 3, -40000, 5, 6};
    int32_t again[6] = {0};
    for (int i = 0; i < 9; i++) {
        bad[i] = header;
    }
    bad[0].dim = 0;
    bad[1].count = -1;
    bad[2].kind = 2;
    bad[3].form = 2;
    bad[4].entry_bytes = 3;
    bad[5].threshold = (double)NAN;
    bad[6].radius = 0.0;
    bad[7].form = FPP_REPORT_SEEDS; /* with entries */
    bad[8].count = FPP_REPORTS_MAX + 1;
    const int64_t size = fpp_report_batch_size(&header);
    uint8_t *bytes = room(size, 1);
    CHECK(fpp_report_batch_size(NULL) == -1 && size == FPP_REPORT_HEADER_BYTES + 12);
    for (int i = 0; i < 9; i++) {
        CHECK(fpp_report_batch_size(&bad[i]) == -1);
        REFUSED(fpp_report_batch_write(&bad[i], entries, NULL, bytes));
    }
    REFUSED(fpp_report_batch_write(NULL, entries, NULL, bytes));
    REFUSED(fpp_report_batch_write(&header, NULL, NULL, bytes));
    REFUSED(fpp_report_batch_write(&header, entries, NULL, NULL));
    ACCEPTED(fpp_report_batch_write(&header, entries, NULL, bytes));
    REFUSED(fpp_report_batch_read(NULL, size, &found));
    REFUSED(fpp_report_batch_read(bytes, -1, &found));
    REFUSED(fpp_report_batch_read(bytes, size, NULL));
    ACCEPTED(fpp_report_batch_read(bytes, size, &found));
    CHECK(fpp_report_batch_read(bytes, size - 1, &found) == FPP_ERR_FOREIGN);
    REFUSED(fpp_report_batch_entries(bytes, size, NULL, NULL));
    REFUSED(fpp_report_batch_entries(NULL, size, again, NULL));
    ACCEPTED(fpp_report_batch_entries(bytes, size, again, NULL));
    CHECK(again[1] == -2 && again[3] == -32767 && again[5] == 6);
    bytes[4] = 9;
    CHECK(fpp_report_batch_read(bytes, size, &found) == FPP_ERR_VERSION);
    free(bytes);
}

int test_arguments_of_reports(void)
{
    const int before = n_failed;
    check_draws_of_reports();
    check_codes();
    check_batches();
    return n_failed - before;
}
