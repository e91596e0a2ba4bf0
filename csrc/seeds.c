/* Reports as seeds: a proposal is drawn without regard to the row, and the row decides only which one is sent. */
#include "reports.h"

#include <math.h>
#include <string.h>

#define MOST_TRIALS (1 << 24)

/* g = the normals that a seed stands for. */
static int32_t normals_of(const uint8_t *seed, int64_t dim, word_stream *stream, double *g)
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
    double *const g = (double *)(void *)(room + 1), *const v = g + law->dim;
    fpp_coins_open(&room->coins, key, FPP_KIND_REPORT_COINS, report);
    fpp_coins_open(&room->seeds, key, FPP_KIND_REPORT_SEEDS, report);
    fpp_report_direction(row, law, &room->coins, v);
    for (int64_t trial = 0; trial < most_trials && !room->coins.exhausted && !room->seeds.exhausted; trial++) {
        uint8_t proposed[FPP_SEED_BYTES];
        double sums[2];
        next_seed(&room->seeds, proposed);
        if (normals_of(proposed, law->dim, &room->stream, g) != FPP_OK) {
            break;
        }
        fpp_two_sums(v, g, law->dim, sums);
        const double edge = law->kind == FPP_REPORT_SPHERE ? law->threshold * sqrt(sums[1]) : law->threshold;
        const double coin = fpp_coin_uniform(&room->coins); /* tossed for every proposal */
        const int taken = sums[0] >= edge || coin < tail;
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

static fpp_report_room *room_in(void *workspace)
{
    return (void *)(((uintptr_t)workspace + 63) & ~(uintptr_t)63);
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
    fpp_report_room *const room = room_in(workspace);
    int32_t status = FPP_OK;
    for (int64_t i = 0; i < n && status == FPP_OK; i++) {
        const double *const row = (const double *)(const void *)((const char *)x + i * stride);
        status = one_seed(room, law, tail, most_trials, key, (uint64_t)(first + i), row, seeds + i * FPP_SEED_BYTES);
    }
    fpp_wipe(room, (int64_t)sizeof *room + 2 * 8 * law->dim);
    return status;
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
    fpp_report_room *const room = room_in(workspace);
    double *const g = (double *)(void *)(room + 1);
    const double grid = ldexp(1.0, law->log2_grid);
    for (int64_t i = 0; i < n; i++) {
        if (normals_of(seeds + i * FPP_SEED_BYTES, law->dim, &room->stream, g) != FPP_OK) {
            return FPP_ERR_EXHAUSTED;
        }
        for (int64_t j = 0; j < law->dim; j++) {
            const double y = g[j] * grid; /* below 2^35 */
            const double most = (double)FPP_REPORT_MOST;
            out[i * law->dim + j] = (int32_t)((fmin(fmax(y, -most), most) + 0x1.8p52) - 0x1.8p52);
        }
    }
    return FPP_OK;
}
