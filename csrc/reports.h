/* Shared by reports.c, report_loops.c and seeds.c: a checked law, the coins of one report, and the loops over one row. */
#ifndef FPP_REPORTS_H
#define FPP_REPORTS_H
#include "stream.h"

#define FPP_COIN_WORDS 32
#define FPP_SHARED_DIM 512 /* up to so many columns, reports share a block of normals */

typedef struct {
    fpp_chacha_state chacha;
    int32_t at, exhausted;
    uint64_t word[FPP_COIN_WORDS];
} fpp_coins;

/* What a call needs besides the rows, at the start of the caller's workspace; two arrays of dim doubles follow. */
typedef struct {
    word_stream stream;
    fpp_coins coins, seeds;
    double spare[64]; /* normals for the angle */
    int64_t spare_at, spare_end, refills;
    uint64_t end; /* number after that of the last report of the call */
    int64_t held; /* number of the block of normals in `shared`, which serves several reports of few columns; -1 for none */
    double shared[FPP_DRAW_BLOCK];
} fpp_report_room;

FPP_LOCAL int32_t fpp_law_is_valid(const fpp_report_law *law);
/* Normals come in blocks of FPP_DRAW_BLOCK; `blocks` of them for a report. Reports that are numbered too high are refused. */
FPP_LOCAL int32_t fpp_reports_fit(const fpp_report_law *law, int64_t first, int64_t n);

FPP_LOCAL void fpp_coins_open(fpp_coins *coins, const uint8_t *key, uint32_t kind, uint64_t report);
FPP_LOCAL uint64_t fpp_coin_word(fpp_coins *coins);
/* Uniform on (0, 1), correct to a relative 2^-52 down to 2^-1000: comparing it with a probability changes the latter by a factor. */
FPP_LOCAL double fpp_coin_uniform(fpp_coins *coins);

/* Loops over one row, in an order that is the same on every machine. sums = a . b, b . b; with `across`, b becomes b - scale a first
 * and only the second sum is wanted. */
FPP_LOCAL void fpp_two_sums(const double *a, const double *b, int64_t n, double *sums);
FPP_LOCAL void fpp_row_sums(const double *a, double *b, int64_t n, int across, double scale, double *sums);
/* facts = max |row|, and 0 only if every entry is finite. */
FPP_LOCAL void fpp_row_size(const double *row, int64_t n, double *facts);
/* out = row a b, and the sum of its squares. */
FPP_LOCAL void fpp_row_scaled(const double *row, int64_t n, double a, double b, double *out, double *square);
/* out = round(across g + along v), at most FPP_REPORT_MOST in size. */
FPP_LOCAL void fpp_row_round(const double *g, const double *v, int64_t n, double across, double along, int32_t *out);
/* The unit vector of a row that its report is made of: the first axis for a row without direction. */
FPP_LOCAL void fpp_report_direction(const double *row, const fpp_report_law *law, fpp_coins *coins, double *direction);

#endif
