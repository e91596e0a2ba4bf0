/* Shared by reports.c, report_loops.c, seeds.c and codes.c: a checked law, the coins of one report, and the loops over one row. */
#ifndef FPP_REPORTS_H
#define FPP_REPORTS_H
#include "stream.h"

#define FPP_COIN_WORDS 32
#define FPP_COIN_BATCH 16  /* reports whose first FPP_CHACHA_BLOCK_WORDS coins are drawn together */
#define FPP_SHARED_DIM 511 /* up to so many columns, reports share a block of normals */
#define FPP_SMALL_DIM 64   /* below it an angle is made of normals, one for each column */

typedef struct {
    fpp_chacha_state chacha;
    const uint8_t *key; /* for a report whose first words are used up; NULL for one stream */
    uint64_t report;
    int32_t at, end, exhausted;
    uint64_t word[FPP_COIN_WORDS];
} fpp_coins;

/* The unit vector of a row: at / |at|, and where the row has no direction the first axis. */
typedef struct {
    const double *at;
    int32_t shift, nowhere; /* the row is at 2^shift; 1: it has no direction */
} fpp_heading;

/* sum x^2, sum x g, sum g^2; normals g = k + 1/2 in steps of 2^-40. */
typedef struct {
    double total[3], carry[3];
} fpp_products;

/* What a call needs besides the rows, at the start of the caller's workspace. Behind it: normals of one report that do not fit into
 * `shared`, FPP_SMALL_DIM more than columns, and then dim doubles. */
typedef struct {
    word_stream stream;
    fpp_coins coins, seeds;
    uint64_t first_coins[FPP_COIN_BATCH * FPP_CHACHA_BLOCK_WORDS];
    uint64_t coins_begin, coins_end; /* reports that those belong to */
    int64_t spare[FPP_SMALL_DIM];    /* normals for the angle, after those that came with the report's */
    const int64_t *spare_next, *spare_end;
    int64_t refills;
    double top, inverse, power, unit; /* of the angle, for all reports of a call */
    uint64_t end; /* number after that of the last report of the call */
    int64_t held; /* number of the block of normals in `shared`, which serves several reports of few columns; -1 for none */
    int64_t shared[FPP_DRAW_BLOCK];
    int64_t cosines[FPP_BOOK_WORDS_MAX]; /* of the words of a book */
} fpp_report_room;

FPP_LOCAL int32_t fpp_law_is_valid(const fpp_report_law *law);
/* Normals come in blocks of FPP_DRAW_BLOCK; `blocks` of them for a report. Reports that are numbered too high are refused. */
FPP_LOCAL int32_t fpp_reports_fit(const fpp_report_law *law, int64_t first, int64_t n);
/* The parts of a workspace, and the bytes to wipe. */
FPP_LOCAL fpp_report_room *fpp_room_in(void *workspace);
/* For reports `first` to `first + n`: nothing of an earlier call is held. */
FPP_LOCAL fpp_report_room *fpp_room_open(void *workspace, int64_t first, int64_t n);
FPP_INLINE const double *fpp_report_row(const double *x, int64_t i, int64_t stride)
{
    return (const double *)(const void *)((const char *)x + i * stride);
}
FPP_INLINE int64_t *fpp_room_normals(fpp_report_room *room) { return (int64_t *)(void *)(room + 1); }
FPP_INLINE double *fpp_room_copy(fpp_report_room *room, int64_t dim)
{
    return (double *)(void *)(fpp_room_normals(room) + dim + FPP_SMALL_DIM);
}
FPP_LOCAL int64_t fpp_room_bytes(const fpp_report_law *law);

FPP_LOCAL void fpp_coins_open(fpp_coins *coins, const uint8_t *key, uint32_t kind, uint64_t report);
/* room->coins = those of a report. */
FPP_LOCAL void fpp_report_coins(fpp_report_room *room, const uint8_t *key, uint64_t report);
FPP_LOCAL uint64_t fpp_coin_word(fpp_coins *coins);
/* Uniform on (0, 1), correct to a relative 2^-52 down to 2^-1000: comparing it with a probability changes the latter by a factor. */
FPP_LOCAL double fpp_coin_uniform(fpp_coins *coins);

/* sums += those of n more entries. */
FPP_LOCAL void fpp_row_products(const double *x, const int64_t *g, int64_t n, fpp_products *sums);
FPP_INLINE double fpp_product(const fpp_products *sums, int which) { return sums->total[which] + sums->carry[which]; }
/* out = round(across g + along x), whose entries are at most `largest`, cut off at FPP_REPORT_MOST. */
FPP_LOCAL void fpp_row_round(const double *x, const int64_t *g, int64_t n, double across, double along, double largest, int32_t *out);
/* out = the report that normals without a row stand for. */
FPP_LOCAL void fpp_normals_round(const int64_t *g, const fpp_report_law *law, int32_t *out);
/* heading->at = copy, of about length one. */
FPP_LOCAL void fpp_row_tame(const double *row, int64_t n, double *copy, fpp_heading *heading);
/* If the squares of a row left the range of doubles: its tamed copy instead, and its products. */
FPP_LOCAL void fpp_heading_settle(fpp_heading *heading, const int64_t *g, int64_t dim, double *copy, fpp_products *sums);
/* 1 / |at|, with the sign that rounding from the ball gives. */
FPP_LOCAL double fpp_heading_inverse(const fpp_heading *heading, const fpp_report_law *law, double coin, double square);

#endif
