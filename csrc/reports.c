/* Reports of the local model: PrivUnit, PrivUnitG and Duchi's randomizer over ChaCha20; tests/twins/local.py is the readable twin.
 *
 * A row becomes a unit vector v. Its report is round(2^log2_grid X) for a vector X whose density, relative to d standard normals, has
 * two levels: p / q where X lies in the cap of v, (1 - p) / (1 - q) elsewhere, q the mass of the cap. SPHERE: X = R (t v + s w) with R
 * the length and w the direction, across v, of d normals, and t drawn for X's side of the cap {t >= threshold}; SPHERE reports are read
 * as X / |X|, and R is there so that rounding is a fact about cells of space, of which every machine computes the mass within a known
 * factor (mechanisms/notes/local_reports.md). GAUSSIAN: X = a v + what d normals have across v, cap {a >= threshold}.
 */
#include "reports.h"

#include <math.h>
#include <string.h>

#define MOST_REFILLS (1 << 20)
#define ATTEMPT_SHIFT 44         /* of a block's number: the attempt at the normals of a report */
#define MOST_ATTEMPTS 256

FPP_LOCAL int32_t fpp_law_is_valid(const fpp_report_law *law)
{
    if (law == NULL || law->dim < 1 || law->dim > FPP_DIM_MAX || law->log2_grid < 0 || law->log2_grid > FPP_REPORT_GRID_MAX
        || (law->kind != FPP_REPORT_SPHERE && law->kind != FPP_REPORT_GAUSSIAN) || (law->ball != 0 && law->ball != 1)) {
        return 0;
    }
    const double most = law->kind == FPP_REPORT_SPHERE ? 1.0 : 1e3;
    return law->threshold >= 0.0 && law->threshold < most && law->miss > 0.0 && law->miss < 1.0 && law->radius > 0.0
           && law->radius < INFINITY && (law->dim > 1 || law->threshold == 0.0 || law->kind == FPP_REPORT_GAUSSIAN);
}

/* Normals of a report: one for each column, and those that its angle takes first. */
static int64_t normals_of(const fpp_report_law *law)
{
    return law->dim + (law->kind == FPP_REPORT_SPHERE && law->dim < FPP_SMALL_DIM ? law->dim : 1);
}

static int64_t blocks_of(const fpp_report_law *law)
{
    return (normals_of(law) + FPP_DRAW_BLOCK - 1) / FPP_DRAW_BLOCK;
}

FPP_LOCAL int32_t fpp_reports_fit(const fpp_report_law *law, int64_t first, int64_t n)
{
    const int64_t blocks = ((int64_t)1 << (ATTEMPT_SHIFT - 1)) / blocks_of(law);
    const int64_t most = blocks < FPP_REPORTS_MAX ? blocks : FPP_REPORTS_MAX;
    return first >= 0 && n >= 0 && first <= most && n <= most - first;
}

FPP_LOCAL fpp_report_room *fpp_room_in(void *workspace)
{
    return fpp_aligned(workspace);
}

FPP_LOCAL fpp_report_room *fpp_room_open(void *workspace, int64_t first, int64_t n)
{
    fpp_report_room *const room = fpp_room_in(workspace);
    room->held = -1;
    room->coins_begin = room->coins_end = 0;
    room->end = (uint64_t)(first + n);
    return room;
}

FPP_LOCAL int64_t fpp_room_bytes(const fpp_report_law *law)
{
    return (int64_t)sizeof(fpp_report_room) + 8 * (2 * law->dim + FPP_SMALL_DIM);
}

FPP_API int64_t fpp_report_workspace_size(const fpp_report_law *law)
{
    return fpp_law_is_valid(law) ? fpp_room_bytes(law) + 63 : -1;
}

/* ---- Coins ---- */

FPP_LOCAL void fpp_coins_open(fpp_coins *coins, const uint8_t *key, uint32_t kind, uint64_t report)
{
    fpp_chacha_init(&coins->chacha, key, kind, report);
    coins->at = coins->end = FPP_COIN_WORDS;
    coins->exhausted = 0;
    coins->key = NULL;
}

FPP_LOCAL void fpp_report_coins(fpp_report_room *room, const uint8_t *key, uint64_t report)
{
    fpp_coins *const coins = &room->coins;
    if (report < room->coins_begin || report >= room->coins_end) {
        const uint64_t skipped = report % FPP_COIN_BATCH, batch_end = report - skipped + FPP_COIN_BATCH;
        room->coins_begin = report;
        room->coins_end = batch_end < room->end ? batch_end : room->end;
        fpp_chacha_init(&coins->chacha, key, FPP_KIND_REPORT_COINS, report / FPP_COIN_BATCH);
        coins->chacha.word[12] = (uint32_t)skipped;
        fpp_chacha_words(&coins->chacha, (int64_t)(room->coins_end - report), room->first_coins);
    }
    memcpy(coins->word, room->first_coins + (report - room->coins_begin) * FPP_CHACHA_BLOCK_WORDS, FPP_CHACHA_BLOCK_BYTES);
    coins->at = coins->exhausted = 0;
    coins->end = FPP_CHACHA_BLOCK_WORDS;
    coins->key = key;
    coins->report = report;
}

FPP_LOCAL uint64_t fpp_coin_word(fpp_coins *coins)
{
    if (coins->at == coins->end) {
        if (coins->key != NULL) {
            fpp_coins_open(coins, coins->key, FPP_KIND_REPORT_MORE_COINS, coins->report);
        }
        if (coins->chacha.word[12] > UINT32_MAX - FPP_COIN_WORDS) {
            coins->exhausted = 1;
            return 0;
        }
        fpp_chacha_words(&coins->chacha, FPP_COIN_WORDS / FPP_CHACHA_BLOCK_WORDS, coins->word);
        coins->at = 0;
        coins->end = FPP_COIN_WORDS;
    }
    return coins->word[coins->at++];
}

FPP_LOCAL double fpp_coin_uniform(fpp_coins *coins)
{
    double unit = 1.0;
    uint64_t high = fpp_coin_word(coins);
    for (int zeros = 0; high == 0 && zeros < 15; zeros++) {
        unit *= 0x1p-64;
        high = fpp_coin_word(coins);
    }
    /* 52 bits from the first one that is set, and the middle of what is left: exact, and never 1. One word nearly always. */
    const int shift = __builtin_clzll(high | 1);
    const uint64_t bits = (shift > 12 ? fpp_coin_word(coins) >> (64 - shift) : 0) | high << shift;
    const uint64_t power = (uint64_t)(1023 - 52 - shift) << 52;
    double scale;
    memcpy(&scale, &power, sizeof scale);
    return ((double)(int64_t)(bits >> 12) + 0.5) * scale * unit;
}

/* The next normal that serves the angle of this report. */
static double next_spare(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report)
{
    if (room->spare_next == room->spare_end) {
        const int64_t n = law->dim < FPP_SMALL_DIM ? FPP_SMALL_DIM : 8;
        if (room->refills == MOST_REFILLS
            || fpp_normal_block(FPP_NORMALS_SCALAR, key, report * MOST_REFILLS + (uint64_t)room->refills, n, &room->stream,
                                room->spare) != FPP_OK) {
            room->coins.exhausted = 1;
            return 0.0;
        }
        room->refills++;
        room->spare_next = room->spare;
        room->spare_end = room->spare + n;
    }
    return ((double)*room->spare_next++ + 0.5) * 0x1p-40;
}

/* ---- The direction of a row ---- */

FPP_LOCAL void fpp_heading_settle(fpp_heading *heading, const int64_t *g, int64_t dim, double *copy, fpp_products *sums)
{
    const double square = fpp_product(sums, 0);
    if (heading->at == copy || (square > 0x1p-900 && square < 0x1p900)) {
        return;
    }
    const fpp_products none = {{0.0}, {0.0}};
    fpp_row_tame(heading->at, dim, copy, heading);
    *sums = none;
    fpp_row_products(copy, g, dim, sums);
}

FPP_LOCAL double fpp_heading_inverse(const fpp_heading *heading, const fpp_report_law *law, double coin, double square)
{
    const double norm = sqrt(square);
    if (!law->ball) {
        return 1.0 / norm;
    }
    const double length = heading->nowhere ? 0.0 : ldexp(norm / law->radius, heading->shift);
    return coin >= 0.5 * (1.0 + (length < 1.0 ? length : 1.0)) ? -1.0 / norm : 1.0 / norm;
}

/* ---- The angle: t = cosine to v, s = its sine ---- */

static void prepare_angle(fpp_report_room *room, const fpp_report_law *law)
{
    const double gamma = law->threshold, dim = (double)law->dim;
    if (law->kind == FPP_REPORT_SPHERE && law->dim > 1) {
        room->top = log1p(-gamma * gamma);
        room->inverse = 2.0 / (dim - 1.0);
        room->power = 0.5 * (dim - 3.0);
        room->unit = law->dim >= FPP_SMALL_DIM ? 1.0 / sqrt(dim - 3.0) : 1.0;
    }
}

/* The cosine of `dim` normals to the first axis. Short ones, of which the angle would be inexact, are drawn again: how long they are does
 * not depend on their direction. */
static void small_angle(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report, int hit, double *t,
                        double *s)
{
    const double gamma = law->threshold, least = (double)law->dim * 0x1p-6;
    for (;;) {
        const double g = next_spare(room, law, key, report);
        double rest = 0.0;
        for (int64_t j = 1; j < law->dim; j++) {
            const double other = next_spare(room, law, key, report);
            rest += other * other;
        }
        const double square = g * g + rest, norm = sqrt(square);
        *t = (hit ? fabs(g) : g) / norm;
        *s = sqrt(rest) / norm;
        if (room->coins.exhausted || (square >= least && (hit ? *t >= gamma : *t < gamma))) {
            return;
        }
    }
}

static void sphere_angle(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report, int hit, double *t,
                         double *s)
{
    const double gamma = law->threshold;
    fpp_coins *const coins = &room->coins;
    if (hit && gamma * gamma * (double)law->dim >= 1.0) {
        /* 1 - t^2 has density y^(alpha - 1) (1 - y)^(-1/2) on [0, 1 - gamma^2] */
        double exponent;
        do {
            exponent = room->top + log(fpp_coin_uniform(coins)) * room->inverse;
            *t = sqrt(-expm1(exponent));
        } while (!(fpp_coin_uniform(coins) * *t < gamma) && !coins->exhausted);
        *s = *t * *t < 0.5 ? sqrt(1.0 - *t * *t) : sqrt(exp(exponent));
        return;
    }
    if (law->dim < FPP_SMALL_DIM) {
        small_angle(room, law, key, report, hit, t, s);
        return;
    }
    /* Density (1 - t^2)^((dim - 3) / 2), below that of a normal of variance 1 / (dim - 3). Beyond 1 - t^2 = 2^-6 lies less than
     * 2^-184 of it, as much as the cut of the normals. */
    for (;;) {
        const double g = next_spare(room, law, key, report) * room->unit;
        *t = hit ? fabs(g) : g;
        const double square = *t * *t;
        if (coins->exhausted) {
            break;
        }
        if ((hit ? *t < gamma : *t >= gamma) || square > 1.0 - 0x1p-6) {
            continue;
        }
        *s = sqrt(1.0 - square);
        const double u = fpp_coin_uniform(coins);
        /* log(1 - x) + x >= -x^2 / (2 (1 - x)) and e^-x >= 1 - x: nearly all end here. */
        if (u < 1.0 - room->power * square * square / (2.0 * (1.0 - square))
            || log(u) < room->power * (log1p(-square) + square)) {
            break;
        }
    }
}

/* A standard normal above c, or below it. */
static double gaussian_part(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report, int hit)
{
    const double c = law->threshold;
    fpp_coins *const coins = &room->coins;
    if (hit && c > 0.5) { /* Robert: an exponential tail, and a rejection */
        const double rate = 0.5 * (c + sqrt(c * c + 4.0));
        double a, gap;
        do {
            a = c - log(fpp_coin_uniform(coins)) / rate;
            gap = a - rate;
        } while (!(log(fpp_coin_uniform(coins)) < -0.5 * gap * gap) && !coins->exhausted);
        return a;
    }
    double a;
    do {
        a = next_spare(room, law, key, report);
    } while ((hit ? a < c : a >= c) && !coins->exhausted);
    return a;
}

/* ---- One report ---- */

/* Normals of attempt `attempt` at report `report`, to `*g` or where it points to from then on, and their products with x. */
static int32_t draw_normals(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report, uint64_t attempt,
                            const double *x, int64_t **g, fpp_products *sums)
{
    const fpp_products none = {{0.0}, {0.0}};
    const int64_t blocks = blocks_of(law), wanted = normals_of(law), dim = law->dim;
    *sums = none;
    if (dim <= FPP_SHARED_DIM && attempt == 0) {
        const uint64_t together = (uint64_t)(FPP_DRAW_BLOCK / wanted), number = report / together, left = room->end - number * together;
        if (room->held != (int64_t)number) {
            room->held = (int64_t)number;
            /* The first draws of a block do not depend on the others: a client draws those of its one report alone. */
            const int32_t status = fpp_normal_block(FPP_NORMALS_REPORT, key, number,
                                                    (int64_t)(left < together ? left : together) * wanted, &room->stream,
                                                    room->shared);
            if (status != FPP_OK) {
                return status;
            }
        }
        *g = room->shared + (int64_t)(report % together) * wanted;
        fpp_row_products(x, *g, dim, sums);
        return FPP_OK;
    }
    for (int64_t b = 0; b < blocks; b++) {
        const uint64_t number = attempt << ATTEMPT_SHIFT | (report * (uint64_t)blocks + (uint64_t)b);
        const int64_t at = b * FPP_DRAW_BLOCK;
        const int32_t status = fpp_normal_block(FPP_NORMALS_REPORT, key, number, block_size(at, wanted), &room->stream, *g + at);
        if (status != FPP_OK) {
            return status;
        }
        if (at < dim) {
            fpp_row_products(x + at, *g + at, block_size(at, dim), sums);
        }
    }
    return FPP_OK;
}

static int32_t one_report(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report, const double *row,
                          int32_t *out)
{
    const int64_t dim = law->dim;
    int64_t *const own = fpp_room_normals(room), *g = own;
    double *const copy = fpp_room_copy(room, dim);
    const double grid = (double)((int64_t)1 << law->log2_grid), step = 0x1p-40;
    const int sphere = law->kind == FPP_REPORT_SPHERE;
    fpp_coins *const coins = &room->coins;
    fpp_heading heading = {row, 0, 0};
    fpp_products sums;
    fpp_report_coins(room, key, report);
    const double ball_coin = law->ball ? fpp_coin_uniform(coins) : 0.0; /* drawn for every row */
    const int hit = !(fpp_coin_uniform(coins) < law->miss);
    if (draw_normals(room, law, key, report, 0, row, &g, &sums) != FPP_OK) {
        return FPP_ERR_EXHAUSTED;
    }
    fpp_heading_settle(&heading, g, dim, copy, &sums);
    const double inverse = fpp_heading_inverse(&heading, law, ball_coin, fpp_product(&sums, 0));
    if (dim == 1 && sphere) {
        /* The sign alone: at times its length would tell the row. */
        out[0] = (int32_t)((heading.at[0] * inverse > 0.0) == hit ? grid : -grid);
        return FPP_OK;
    }
    room->spare_next = g + dim;
    room->spare_end = g + normals_of(law);
    room->refills = 0;
    double t = 0.0, s = 1.0, along, square, across;
    if (sphere) {
        sphere_angle(room, law, key, report, hit, &t, &s);
    } else {
        t = gaussian_part(room, law, key, report, hit);
    }
    /* Normals that lie nearly along v would make w inexact; w does not depend on how near they lie, so others may be taken. */
    const double least = dim < 16 ? 0x1p-6 : 0x1p-2;
    for (uint64_t attempt = 1;; attempt++) {
        along = fpp_product(&sums, 1) * inverse;
        square = fpp_product(&sums, 2);
        across = square - along * along;
        if (!sphere || across >= least * square) {
            break;
        }
        g = own;
        if (attempt == MOST_ATTEMPTS || draw_normals(room, law, key, report, attempt, heading.at, &g, &sums) != FPP_OK) {
            return FPP_ERR_EXHAUSTED;
        }
    }
    if (coins->exhausted) {
        return FPP_ERR_EXHAUSTED;
    }
    const double length = sphere ? sqrt(square) * step * grid : grid, scale = sphere ? length * s / sqrt(across) : grid * step;
    /* No normal is beyond 2^44 steps, and no entry of v beyond 1. */
    const double largest = scale * (0x1p44 + fabs(along)) + length * fabs(t);
    fpp_row_round(heading.at, g, dim, scale, (length * t - scale * along) * inverse, largest, out);
    return FPP_OK;
}

FPP_API int32_t fpp_reports_f64(const double *x, int64_t n, int64_t row_stride, const fpp_report_law *law, const uint8_t *key,
                                int64_t first, void *workspace, int32_t *out)
{
    int64_t stride;
    if (!fpp_law_is_valid(law) || key == NULL || !fpp_rows_are_given(x, n, row_stride, 0, &stride) || !fpp_reports_fit(law, first, n)
        || n > INT64_MAX / 4 / law->dim || !fpp_is_given(out, n * law->dim, 4) || (workspace == NULL && n > 0)) {
        return FPP_ERR_ARGUMENT;
    }
    if (n == 0) {
        return FPP_OK;
    }
    fpp_report_room *const room = fpp_room_open(workspace, first, n);
    prepare_angle(room, law);
    int32_t status = FPP_OK;
    for (int64_t i = 0; i < n && status == FPP_OK; i++) {
        const double *const row = fpp_report_row(x, i, stride);
        status = one_report(room, law, key, (uint64_t)(first + i), row, out + i * law->dim);
    }
    fpp_wipe(room, fpp_room_bytes(law));
    return status;
}
