/* Reports as seeds: a proposal is drawn without regard to the row, and the row decides only which one is sent. */
#include "reports.h"

#include <math.h>
#include <string.h>

#define MOST_TRIALS (1 << 24)

/* g = the normals that a seed stands for. */
static int32_t normals_of(const uint8_t *seed, int64_t dim, word_stream *stream, int64_t *g)
{
    for (int64_t at = 0; at < dim; at += FPP_DRAW_BLOCK) {
        const int32_t status = fpp_normal_block(FPP_NORMALS_SEED, seed, (uint64_t)at / FPP_DRAW_BLOCK, block_size(at, dim), stream,
                                                g + at);
        if (status != FPP_OK) {
            return status;
        }
    }
    return FPP_OK;
}

static void next_seed(fpp_coins *seeds, uint8_t *seed)
{
    for (int part = 0; part < FPP_SEED_BYTES / 8; part++) {
        const uint64_t word = fpp_coin_word(seeds);
        for (int i = 0; i < 8; i++) {
            seed[8 * part + i] = (uint8_t)(word >> (8 * i));
        }
    }
}

/* The coins that accept come from a stream of their own: a coin made of the seed would make some seeds impossible for some rows. */
static int32_t one_seed(fpp_report_room *room, const fpp_report_law *law, double tail, int64_t most_trials, const uint8_t *key,
                        uint64_t report, const double *row, uint8_t *seed)
{
    const int64_t dim = law->dim;
    int64_t *const g = fpp_room_normals(room);
    double *const copy = fpp_room_copy(room, dim);
    fpp_coins *const coins = &room->coins;
    fpp_heading heading = {row, 0, 0};
    fpp_report_coins(room, key, report);
    fpp_coins_open(&room->seeds, key, FPP_KIND_REPORT_SEEDS, report);
    const double ball_coin = law->ball ? fpp_coin_uniform(coins) : 0.0; /* drawn for every row */
    for (int64_t trial = 0; trial < most_trials && !coins->exhausted && !room->seeds.exhausted; trial++) {
        uint8_t proposed[FPP_SEED_BYTES];
        fpp_products sums = {{0.0}, {0.0}};
        next_seed(&room->seeds, proposed);
        if (normals_of(proposed, dim, &room->stream, g) != FPP_OK) {
            break;
        }
        fpp_row_products(heading.at, g, dim, &sums);
        fpp_heading_settle(&heading, g, dim, copy, &sums);
        const double along = fpp_product(&sums, 1) * fpp_heading_inverse(&heading, law, ball_coin, fpp_product(&sums, 0));
        const double edge = law->threshold * (law->kind == FPP_REPORT_SPHERE ? sqrt(fpp_product(&sums, 2)) : 0x1p40);
        const double coin = fpp_coin_uniform(coins); /* tossed for every proposal */
        const int taken = along >= edge || coin < tail;
        if (taken) {
            memcpy(seed, proposed, sizeof proposed);
        }
        fpp_wipe(proposed, (int64_t)sizeof proposed);
        if (taken) {
            return FPP_OK;
        }
    }
    return FPP_ERR_EXHAUSTED;
}

FPP_API int32_t fpp_report_seeds_f64(const double *x, int64_t n, int64_t row_stride, const fpp_report_law *law, double tail,
                                     int64_t most_trials, const uint8_t *key, int64_t first, void *workspace, uint8_t *seeds)
{
    int64_t stride;
    if (!fpp_law_is_valid(law) || key == NULL || !fpp_rows_are_given(x, n, row_stride, 0, &stride) || !fpp_reports_fit(law, first, n)
        || !(tail > 0.0 && tail < 1.0) || most_trials < 1 || most_trials > MOST_TRIALS || !fpp_is_given(seeds, n, FPP_SEED_BYTES)
        || (workspace == NULL && n > 0)) {
        return FPP_ERR_ARGUMENT;
    }
    if (n == 0) {
        return FPP_OK;
    }
    fpp_report_room *const room = fpp_room_open(workspace, first, n);
    int32_t status = FPP_OK;
    for (int64_t i = 0; i < n && status == FPP_OK; i++) {
        const double *const row = fpp_report_row(x, i, stride);
        status = one_seed(room, law, tail, most_trials, key, (uint64_t)(first + i), row, seeds + i * FPP_SEED_BYTES);
    }
    fpp_wipe(room, fpp_room_bytes(law));
    return status;
}

FPP_LOCAL void fpp_normals_round(const int64_t *g, const fpp_report_law *law, int32_t *out)
{
    const double step = ldexp(1.0, law->log2_grid - 40), most = (double)FPP_REPORT_MOST;
    for (int64_t j = 0; j < law->dim; j++) {
        const double y = ((double)g[j] + 0.5) * step; /* below 2^35 */
        out[j] = (int32_t)((fmin(fmax(y, -most), most) + 0x1.8p52) - 0x1.8p52);
    }
}

FPP_API int32_t fpp_report_of_seeds_i32(const uint8_t *seeds, int64_t n, const fpp_report_law *law, void *workspace, int32_t *out)
{
    if (!fpp_law_is_valid(law) || n < 0 || n > INT64_MAX / 4 / law->dim || !fpp_is_given(seeds, n, FPP_SEED_BYTES)
        || !fpp_is_given(out, n * law->dim, 4) || (workspace == NULL && n > 0)) {
        return FPP_ERR_ARGUMENT;
    }
    if (n == 0) {
        return FPP_OK;
    }
    fpp_report_room *const room = fpp_room_in(workspace);
    int64_t *const g = fpp_room_normals(room);
    for (int64_t i = 0; i < n; i++) {
        if (normals_of(seeds + i * FPP_SEED_BYTES, law->dim, &room->stream, g) != FPP_OK) {
            return FPP_ERR_EXHAUSTED;
        }
        fpp_normals_round(g, law, out + i * law->dim);
    }
    return FPP_OK;
}
