/* Local reports: whatever the rows, the same in one call or several, alone or in company, on every instruction set, and for a row times
 * a power of two; no entry is longer than its grid allows. Seeds and codes likewise, and what they stand for. */
#include "fuzz.h"

enum { MOST_ROWS = 20, MOST_DIM = 1100 };

typedef struct {
    fpp_report_law law;
    uint8_t key[FPP_KEY_BYTES];
    int64_t n, first;
    double *rows;
    void *work;
} report_case;

static void read_case(fuzz_input *in, report_case *c)
{
    const fpp_report_law law = {
        .dim = pick(in, 0, 3) == 0 ? pick(in, 1, MOST_DIM) : pick(in, 1, 70),
        .kind = (int32_t)pick(in, 0, 1),
        .log2_grid = (int32_t)pick(in, 0, FPP_REPORT_GRID_MAX),
        .ball = (int32_t)pick(in, 0, 1),
        .threshold = (double)pick(in, 0, 99) * (pick(in, 0, 1) ? 0.01 : 0.001),
        .miss = ((double)pick(in, 0, 255) + 0.5) / 256.0,
        .radius = ldexp(1.0, (int)pick(in, -20, 20)),
    };
    c->law = law;
    if (law.dim == 1 && law.kind == FPP_REPORT_SPHERE) {
        c->law.threshold = 0.0;
    }
    c->n = pick(in, 1, law.dim > 70 ? 4 : MOST_ROWS);
    c->first = pick(in, 0, 1) ? pick(in, 0, 40) : FPP_REPORTS_MAX - c->n;
    for (int i = 0; i < FPP_KEY_BYTES; i++) {
        c->key[i] = (uint8_t)(i < 8 ? take(in, 1) : 0);
    }
    c->rows = room(c->n * law.dim, sizeof *c->rows);
    for (int64_t i = 0; i < c->n * law.dim; i++) {
        c->rows[i] = (double)((i * 37 + 11) % 19 - 9);
    }
}

/* Chosen numbers in chosen places. */
static void spoil(fuzz_input *in, report_case *c)
{
    while (in->left > 2) {
        c->rows[pick(in, 0, c->n * c->law.dim - 1)] = number(in);
    }
}

static void draw(const report_case *c, int64_t begin, int64_t end, int32_t *out)
{
    const int64_t dim = c->law.dim, shift = PLANTED && begin > 0;
    AGREE(fpp_reports_f64(c->rows + begin * dim, end - begin, dim, &c->law, c->key, c->first + begin - shift, c->work,
                          out + begin * dim)
          == FPP_OK);
}

/* Any entry can be negated, and a single column shows its sign alone. */
static void check_entries(const report_case *c, const int32_t *reports)
{
    for (int64_t i = 0; i < c->n * c->law.dim; i++) {
        AGREE(reports[i] >= -FPP_REPORT_MOST);
        if (c->law.dim == 1 && c->law.kind == FPP_REPORT_SPHERE) {
            const int64_t step = INT64_C(1) << c->law.log2_grid;
            AGREE(reports[i] == step || reports[i] == -step);
        }
    }
}

static void check_reports(fuzz_input *in)
{
    report_case c;
    read_case(in, &c);
    const int64_t size = c.n * c.law.dim, cut = pick(in, 0, c.n);
    const double power = ldexp(1.0, (int)pick(in, -900, 900));
    int32_t *whole = room(size, sizeof *whole), *again = room(size, sizeof *again);
    c.work = room(fpp_report_workspace_size(&c.law), 1);
    if (!c.law.ball) { /* before the rows are spoiled: small integers stay exact */
        draw(&c, 0, c.n, whole);
        for (int64_t i = 0; i < size; i++) {
            c.rows[i] *= power;
        }
        draw(&c, 0, c.n, again);
        AGREE(memcmp(whole, again, (size_t)size * sizeof *whole) == 0);
    }
    spoil(in, &c);
    draw(&c, 0, c.n, whole);
    check_entries(&c, whole);
    for (int32_t level = FPP_ISA_BASELINE; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        memset(again, 0, (size_t)size * sizeof *again);
        draw(&c, 0, cut, again);
        draw(&c, cut, c.n, again);
        AGREE(memcmp(whole, again, (size_t)size * sizeof *whole) == 0);
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    free(whole);
    free(again);
    free(c.rows);
    free(c.work);
}

static void check_seeds(fuzz_input *in)
{
    report_case c;
    read_case(in, &c);
    const double tail = 0.05 + 0.9 * (double)pick(in, 0, 255) / 256.0;
    c.n = c.n < 3 ? c.n : 3;
    spoil(in, &c);
    c.work = room(fpp_report_workspace_size(&c.law), 1);
    uint8_t *seeds = room(c.n * FPP_SEED_BYTES, 1), *again = room(c.n * FPP_SEED_BYTES, 1);
    int32_t *whole = room(c.n * c.law.dim, sizeof *whole), *part = room(c.law.dim, sizeof *part);
    AGREE(fpp_report_seeds_f64(c.rows, c.n, c.law.dim, &c.law, tail, 1 << 12, c.key, c.first, c.work, seeds) == FPP_OK);
    AGREE(fpp_report_of_seeds_i32(seeds, c.n, &c.law, c.work, whole) == FPP_OK);
    for (int32_t level = FPP_ISA_BASELINE; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        for (int64_t i = 0; i < c.n; i++) {
            AGREE(fpp_report_seeds_f64(c.rows + i * c.law.dim, 1, c.law.dim, &c.law, tail, 1 << 12, c.key, c.first + i + PLANTED,
                                       c.work, again + i * FPP_SEED_BYTES)
                  == FPP_OK);
            AGREE(fpp_report_of_seeds_i32(seeds + i * FPP_SEED_BYTES, 1, &c.law, c.work, part) == FPP_OK);
            AGREE(memcmp(part, whole + i * c.law.dim, (size_t)c.law.dim * sizeof *part) == 0);
        }
        AGREE(memcmp(seeds, again, (size_t)c.n * FPP_SEED_BYTES) == 0);
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    free(seeds);
    free(again);
    free(whole);
    free(part);
    free(c.rows);
    free(c.work);
}

/* Whether a word is one of the `chosen` nearest to a unit row, by what its code stands for; -1 where rounding decides. */
static int is_near(const report_case *c, const fpp_report_book *book, const double *row, const uint8_t *code)
{
    fpp_report_law fine = c->law;
    fine.log2_grid = 24;
    int32_t *word = room(c->law.dim, sizeof *word);
    double cosine[64], own = 0.0;
    int above = 0, close = 0;
    for (int64_t w = 0; w < book->words; w++) {
        uint8_t other[FPP_CODE_BYTES];
        double along = 0.0, square = 0.0;
        memcpy(other, code, 8);
        other[8] = (uint8_t)w;
        other[9] = 0;
        AGREE(fpp_report_of_codes_i32(other, 1, &fine, c->work, word) == FPP_OK);
        for (int64_t j = 0; j < c->law.dim; j++) {
            along += row[j] * (double)word[j];
            square += (double)word[j] * (double)word[j];
        }
        cosine[w] = along / sqrt(square);
        own = w == code[8] ? cosine[w] : own;
    }
    for (int64_t w = 0; w < book->words; w++) {
        close += w != code[8] && fabs(cosine[w] - own) < 1e-4;
        above += cosine[w] > own;
    }
    free(word);
    return close ? -1 : above < book->chosen;
}

/* With a miss of 2^-62 the word is a near one, with 1 - 2^-62 another; codes are the same in any company and on every instruction set. */
static void check_codes(fuzz_input *in)
{
    report_case c;
    read_case(in, &c);
    c.law.kind = FPP_REPORT_SPHERE;
    c.law.threshold = 0.0;
    c.law.ball = 0;
    const int64_t words = pick(in, 2, 40), often = pick(in, 0, 1);
    const fpp_report_book book = {.words = words, .chosen = pick(in, 1, words - 1), .miss = often ? (INT64_C(1) << 62) - 1 : 1};
    uint8_t codes[3 * FPP_CODE_BYTES], again[FPP_CODE_BYTES];
    c.n = c.n < 3 ? c.n : 3;
    c.work = room(fpp_report_workspace_size(&c.law), 1);
    AGREE(fpp_report_codes_f64(c.rows, c.n, c.law.dim, &c.law, &book, c.key, c.first, c.work, codes) == FPP_OK);
    for (int64_t i = 0; i < c.n; i++) {
        const double *const row = c.rows + i * c.law.dim;
        double square = 0.0;
        for (int64_t j = 0; j < c.law.dim; j++) {
            square += row[j] * row[j];
        }
        double *const unit = room(c.law.dim, sizeof *unit);
        for (int64_t j = 0; j < c.law.dim; j++) {
            unit[j] = square > 0.0 ? row[j] / sqrt(square) : j == 0;
        }
        const int near = is_near(&c, &book, unit, codes + i * FPP_CODE_BYTES);
        AGREE(near < 0 || near == !often);
        free(unit);
    }
    spoil(in, &c);
    AGREE(fpp_report_codes_f64(c.rows, c.n, c.law.dim, &c.law, &book, c.key, c.first, c.work, codes) == FPP_OK);
    for (int32_t level = FPP_ISA_BASELINE; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        for (int64_t i = 0; i < c.n; i++) {
            AGREE(fpp_report_codes_f64(c.rows + i * c.law.dim, 1, c.law.dim, &c.law, &book, c.key, c.first + i + PLANTED, c.work, again)
                  == FPP_OK);
            AGREE(memcmp(codes + i * FPP_CODE_BYTES, again, sizeof again) == 0 && again[8] < words && again[9] == 0);
        }
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    free(c.rows);
    free(c.work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const int64_t what = pick(&in, 0, 4);
    if (what == 4) {
        check_codes(&in);
    } else if (what == 0) {
        check_seeds(&in);
    } else {
        check_reports(&in);
    }
    return 0;
}
