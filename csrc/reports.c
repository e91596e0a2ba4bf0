/* Reports of the local model: PrivUnit, PrivUnitG and Duchi's randomizer over ChaCha20; reference/local.py is the readable twin.
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

#define SMALL_DIM 64             /* below it an angle is made of normals, one for each column */
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

static int64_t blocks_of(const fpp_report_law *law)
{
    return (law->dim + FPP_DRAW_BLOCK - 1) / FPP_DRAW_BLOCK;
}

FPP_LOCAL int32_t fpp_reports_fit(const fpp_report_law *law, int64_t first, int64_t n)
{
    const int64_t blocks = ((int64_t)1 << (ATTEMPT_SHIFT - 1)) / blocks_of(law);
    const int64_t most = blocks < FPP_REPORTS_MAX ? blocks : FPP_REPORTS_MAX;
    return first >= 0 && n >= 0 && first <= most && n <= most - first;
}

FPP_API int64_t fpp_report_workspace_size(const fpp_report_law *law)
{
    return fpp_law_is_valid(law) ? (int64_t)sizeof(fpp_report_room) + 2 * 8 * law->dim + 63 : -1;
}

/* ---- Coins ---- */

FPP_LOCAL void fpp_coins_open(fpp_coins *coins, const uint8_t *key, uint32_t kind, uint64_t report)
{
    fpp_chacha_init(&coins->chacha, key, kind, report);
    coins->at = FPP_COIN_WORDS;
    coins->exhausted = 0;
}

FPP_LOCAL uint64_t fpp_coin_word(fpp_coins *coins)
{
    if (coins->at == FPP_COIN_WORDS) {
        if (coins->chacha.word[12] > UINT32_MAX - FPP_COIN_WORDS) {
            coins->exhausted = 1;
            return 0;
        }
        fpp_chacha_words(&coins->chacha, FPP_COIN_WORDS / FPP_CHACHA_BLOCK_WORDS, coins->word);
        coins->at = 0;
    }
    return coins->word[coins->at++];
}

FPP_LOCAL double fpp_coin_uniform(fpp_coins *coins)
{
    double unit = 0x1p-64;
    uint64_t high = fpp_coin_word(coins);
    for (int zeros = 0; high == 0 && zeros < 15; zeros++) {
        unit *= 0x1p-64;
        high = fpp_coin_word(coins);
    }
    const double low = ((double)(int64_t)(fpp_coin_word(coins) >> 11) + 0.5) * 0x1p-53;
    /* Not the conversion of all 64 bits: it would round the largest up to 1. */
    return ((double)(int64_t)(high >> 11) * 0x1p11 + ((double)(int64_t)(high & 2047) + low)) * unit;
}

/* The next normal that serves the angle of this report. */
static double next_spare(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report)
{
    if (room->spare_at == room->spare_end) {
        const int64_t n = law->dim < SMALL_DIM ? SMALL_DIM : 8;
        if (room->refills == MOST_REFILLS
            || fpp_normal_block(FPP_NORMALS_SCALAR, key, report * MOST_REFILLS + (uint64_t)room->refills, n, &room->stream,
                                room->spare) != FPP_OK) {
            room->coins.exhausted = 1;
            return 0.0;
        }
        room->refills++;
        room->spare_at = 0;
        room->spare_end = n;
    }
    return room->spare[room->spare_at++];
}

/* ---- The direction of a row ---- */

FPP_LOCAL void fpp_report_direction(const double *row, const fpp_report_law *law, fpp_coins *coins, double *direction)
{
    const int64_t dim = law->dim;
    const double coin = law->ball ? fpp_coin_uniform(coins) : 0.0; /* drawn for every row */
    double facts[2], square = 0.0, length = 0.0;
    fpp_row_size(row, dim, facts);
    if (facts[1] == 0.0 && facts[0] > 0.0) {
        int shift;
        (void)frexp(facts[0], &shift); /* powers of two, in two steps: exact, but for columns too small to matter */
        fpp_row_scaled(row, dim, ldexp(1.0, -shift / 2), ldexp(1.0, -shift - -shift / 2), direction, &square);
        const double norm = sqrt(square);
        fpp_row_scaled(direction, dim, 1.0, 1.0 / norm, direction, &square);
        length = ldexp(norm / law->radius, shift);
    } else {
        memset(direction, 0, (size_t)dim * sizeof *direction);
        direction[0] = 1.0;
    }
    length = length < 1.0 ? length : 1.0;
    if (law->ball && coin >= 0.5 * (1.0 + length)) {
        for (int64_t j = 0; j < dim; j++) {
            direction[j] = -direction[j];
        }
    }
}

/* ---- The angle: t = cosine to v, s = its sine ---- */

static void sphere_angle(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report, int hit, double *t,
                         double *s)
{
    const double gamma = law->threshold, dim = (double)law->dim;
    fpp_coins *const coins = &room->coins;
    if (hit && gamma * gamma * dim >= 1.0) { /* 1 - t^2 has density y^(alpha - 1) (1 - y)^(-1/2) on [0, 1 - gamma^2] */
        const double top = log1p(-gamma * gamma), inverse = 2.0 / (dim - 1.0);
        do {
            const double exponent = top + log(fpp_coin_uniform(coins)) * inverse;
            *t = sqrt(-expm1(exponent));
            *s = sqrt(exp(exponent));
        } while (!(fpp_coin_uniform(coins) * *t < gamma) && !coins->exhausted);
        return;
    }
    if (law->dim < SMALL_DIM) {
        do {
            const double g = next_spare(room, law, key, report);
            double rest = 0.0;
            for (int64_t j = 1; j < law->dim; j++) {
                const double other = next_spare(room, law, key, report);
                rest += other * other;
            }
            const double norm = sqrt(g * g + rest);
            *t = (hit ? fabs(g) : g) / norm;
            *s = sqrt(rest) / norm;
        } while ((hit ? *t < gamma : *t >= gamma) && !coins->exhausted);
        return;
    }
    /* Density (1 - t^2)^((dim - 3) / 2), below that of a normal of variance 1 / (dim - 3). Beyond 1 - t^2 = 2^-6 lies less than
     * 2^-184 of it, as much as the cut of the normals. */
    const double power = 0.5 * (dim - 3.0), unit = 1.0 / sqrt(dim - 3.0);
    for (;;) {
        const double g = next_spare(room, law, key, report) * unit;
        *t = hit ? fabs(g) : g;
        const double square = *t * *t;
        if (coins->exhausted) {
            break;
        }
        if ((hit ? *t < gamma : *t >= gamma) || square > 1.0 - 0x1p-6) {
            continue;
        }
        *s = sqrt(1.0 - square);
        if (log(fpp_coin_uniform(coins)) < power * (log1p(-square) + square)) {
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

/* Normals of attempt `attempt` at report `report`, to `*g` or where it points to from then on. */
static int32_t draw_normals(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report, uint64_t attempt,
                            double **at)
{
    const int64_t blocks = blocks_of(law);
    if (law->dim <= FPP_SHARED_DIM && attempt == 0) {
        const uint64_t together = (uint64_t)(FPP_DRAW_BLOCK / law->dim), number = report / together;
        if (room->held != (int64_t)number) {
            room->held = (int64_t)number;
            /* The first draws of a block do not depend on the others: a client draws those of its one report alone. */
            const uint64_t wanted = room->end - number * together < together ? room->end - number * together : together;
            const int32_t status = fpp_normal_block(FPP_NORMALS_REPORT, key, number, (int64_t)wanted * law->dim, &room->stream,
                                                    room->shared);
            if (status != FPP_OK) {
                return status;
            }
        }
        *at = room->shared + (int64_t)(report % together) * law->dim;
        return FPP_OK;
    }
    double *const g = *at;
    for (int64_t b = 0; b < blocks; b++) {
        const uint64_t number = attempt << ATTEMPT_SHIFT | (report * (uint64_t)blocks + (uint64_t)b);
        const int32_t status = fpp_normal_block(FPP_NORMALS_REPORT, key, number, block_size(b * FPP_DRAW_BLOCK, law->dim),
                                                &room->stream, g + b * FPP_DRAW_BLOCK);
        if (status != FPP_OK) {
            return status;
        }
    }
    return FPP_OK;
}

static int32_t one_report(fpp_report_room *room, const fpp_report_law *law, const uint8_t *key, uint64_t report, const double *row,
                          int32_t *out)
{
    const int64_t dim = law->dim;
    double *const own = (double *)(void *)(room + 1), *const v = own + dim, *g = own;
    const double grid = ldexp(1.0, law->log2_grid);
    fpp_coins *const coins = &room->coins;
    fpp_coins_open(coins, key, FPP_KIND_REPORT_COINS, report);
    room->spare_at = room->spare_end = room->refills = 0;
    fpp_report_direction(row, law, coins, v);
    const int hit = !(fpp_coin_uniform(coins) < law->miss);
    if (dim == 1 && law->kind == FPP_REPORT_SPHERE) {
        out[0] = (int32_t)((hit ? v[0] : -v[0]) * grid);
        return FPP_OK;
    }
    double t = 0.0, s = 1.0, whole[2], across[2];
    if (law->kind == FPP_REPORT_SPHERE) {
        sphere_angle(room, law, key, report, hit, &t, &s);
    } else {
        t = gaussian_part(room, law, key, report, hit);
    }
    /* Normals that lie nearly along v would make w inexact; w does not depend on how near they lie, so others may be taken. */
    const double least = dim < 16 ? 0x1p-6 : 0x1p-2;
    for (uint64_t attempt = 0;; attempt++) {
        g = own;
        if (attempt == MOST_ATTEMPTS || coins->exhausted || draw_normals(room, law, key, report, attempt, &g) != FPP_OK) {
            return FPP_ERR_EXHAUSTED;
        }
        fpp_row_sums(v, g, dim, 0, 0.0, whole);
        fpp_row_sums(v, g, dim, 1, whole[0], across);
        if (law->kind == FPP_REPORT_GAUSSIAN || across[1] >= least * whole[1]) {
            break;
        }
    }
    if (law->kind == FPP_REPORT_SPHERE) {
        const double length = sqrt(whole[1]) * grid;
        fpp_row_round(g, v, dim, length * s / sqrt(across[1]), length * t, out);
    } else {
        fpp_row_round(g, v, dim, grid, grid * t, out);
    }
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
    fpp_report_room *const room = (void *)(((uintptr_t)workspace + 63) & ~(uintptr_t)63);
    room->held = -1;
    room->end = (uint64_t)(first + n);
    int32_t status = FPP_OK;
    for (int64_t i = 0; i < n && status == FPP_OK; i++) {
        const double *const row = (const double *)(const void *)((const char *)x + i * stride);
        status = one_report(room, law, key, (uint64_t)(first + i), row, out + i * law->dim);
    }
    fpp_wipe(room, (int64_t)sizeof *room + 2 * 8 * law->dim);
    return status;
}
