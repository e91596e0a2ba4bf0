/* Reports of a few bits: the number of a book of random vectors, drawn without regard to the row, and the number of one of its words.
 *
 * Of a book's words exactly `chosen` are likelier, those nearest to the row. A client has to look at all of them, so words share
 * blocks of normals: a block of FPP_DRAW_BLOCK for each word would be drawn for a few columns of it. */
#include "reports.h"

#include <math.h>
#include <string.h>

#define CHANCE_BITS 62
#define COSINE_BITS 53 /* cosines are compared as integers from 0 to 2^COSINE_BITS */

__extension__ typedef unsigned __int128 u128;

static int32_t book_is_valid(const fpp_report_law *law, const fpp_report_book *book)
{
    return fpp_law_is_valid(law) && law->kind == FPP_REPORT_SPHERE && book != NULL && book->words >= 2
           && book->words <= FPP_BOOK_WORDS_MAX && book->chosen >= 1 && book->chosen < book->words && book->miss >= 1
           && book->miss < INT64_C(1) << CHANCE_BITS;
}

/* The normals of a word; NULL if the stream of its book ends, which no number of a book does. A block in room->shared serves the next
 * words too: `end` is the first word that is not wanted. */
static const int64_t *word_normals(fpp_report_room *room, const uint8_t *seed, int64_t word, int64_t end, int64_t dim)
{
    if (dim <= FPP_DRAW_BLOCK) {
        const int64_t together = FPP_DRAW_BLOCK / dim, number = word / together, left = end - number * together;
        if (room->held != number) {
            room->held = number;
            if (fpp_normal_block(FPP_NORMALS_SEED, seed, (uint64_t)number, (left < together ? left : together) * dim, &room->stream,
                                 room->shared)
                != FPP_OK) {
                return NULL;
            }
        }
        return room->shared + word % together * dim;
    }
    int64_t *const g = fpp_room_normals(room);
    const int64_t first = word * ((dim + FPP_DRAW_BLOCK - 1) / FPP_DRAW_BLOCK);
    for (int64_t at = 0; at < dim; at += FPP_DRAW_BLOCK) {
        if (fpp_normal_block(FPP_NORMALS_SEED, seed, (uint64_t)(first + at / FPP_DRAW_BLOCK), block_size(at, dim), &room->stream, g + at)
            != FPP_OK) {
            return NULL;
        }
    }
    return g;
}

static void seed_of_book(uint64_t number, uint8_t *seed)
{
    memset(seed, 0, FPP_SEED_BYTES);
    for (int i = 0; i < 8; i++) {
        seed[i] = (uint8_t)(number >> (8 * i));
    }
}

/* Uniform below bound (Lemire), as in coins.c. */
static int64_t coin_below(fpp_coins *coins, int64_t bound)
{
    const uint64_t excess = (0 - (uint64_t)bound) % (uint64_t)bound;
    u128 product;
    do {
        product = (u128)fpp_coin_word(coins) * (uint64_t)bound;
    } while ((uint64_t)product < excess && !coins->exhausted);
    return (int64_t)(product >> 64);
}

/* The cosine of each word to the row, as an integer: whatever the numbers are, NaN too, these have an order. */
static int32_t compare_words(fpp_report_room *room, const fpp_report_law *law, int64_t words, const uint8_t *seed, double ball_coin,
                             const double *row)
{
    double *const copy = fpp_room_copy(room, law->dim);
    fpp_heading heading = {row, 0, 0};
    room->held = -1;
    for (int64_t w = 0; w < words; w++) {
        const int64_t *const g = word_normals(room, seed, w, words, law->dim);
        fpp_products sums = {{0.0}, {0.0}};
        if (g == NULL) {
            return FPP_ERR_EXHAUSTED;
        }
        fpp_row_products(heading.at, g, law->dim, &sums);
        fpp_heading_settle(&heading, g, law->dim, copy, &sums);
        const double inverse = fpp_heading_inverse(&heading, law, ball_coin, fpp_product(&sums, 0));
        double cosine = fpp_product(&sums, 1) * inverse / sqrt(fpp_product(&sums, 2));
        cosine = cosine > -1.0 ? cosine : -1.0;
        cosine = cosine < 1.0 ? cosine : 1.0;
        room->cosines[w] = (int64_t)((cosine + 1.0) * ldexp(1.0, COSINE_BITS - 1));
    }
    return FPP_OK;
}

/* The word in place `place` of those that are near, or of the others. Near are the `chosen` words with the largest cosines, of equal ones
 * the first: never more words or fewer. The same steps for all cosines. */
static int64_t choose_word(const int64_t *cosines, const fpp_report_book *book, int32_t near, int64_t place)
{
    int64_t edge = 0, above = 0; /* the largest number that `chosen` cosines reach, and how many are beyond it */
    for (int64_t bit = INT64_C(1) << COSINE_BITS; bit > 0; bit /= 2) {
        uint64_t below = 0;
        for (int64_t w = 0; w < book->words; w++) {
            below += (uint64_t)(cosines[w] - (edge + bit)) >> 63;
        }
        const int64_t reached = book->words - (int64_t)below;
        if (reached >= book->chosen) {
            edge += bit;
        } else {
            above = reached; /* in the end, of the numbers from edge + 1 on */
        }
    }
    int64_t equal = book->chosen - above, found = 0;
    for (int64_t w = 0; w < book->words; w++) {
        const int64_t level = cosines[w] == edge, is_near = cosines[w] > edge || (level && equal > 0);
        equal -= level;
        const int64_t counts = is_near == near;
        found = counts && place == 0 ? w : found;
        place -= counts;
    }
    return found;
}

static int32_t one_code(fpp_report_room *room, const fpp_report_law *law, const fpp_report_book *book, const uint8_t *key,
                        uint64_t report, const double *row, uint8_t *code)
{
    fpp_coins *const coins = &room->coins;
    uint8_t seed[FPP_SEED_BYTES];
    fpp_report_coins(room, key, report);
    const double ball_coin = law->ball ? fpp_coin_uniform(coins) : 0.0; /* drawn for every row */
    const uint64_t number = fpp_coin_word(coins) >> (64 - CHANCE_BITS);
    const int32_t near = fpp_coin_word(coins) >> (64 - CHANCE_BITS) >= (uint64_t)book->miss;
    const int64_t place = coin_below(coins, near ? book->chosen : book->words - book->chosen);
    seed_of_book(number, seed);
    if (coins->exhausted || compare_words(room, law, book->words, seed, ball_coin, row) != FPP_OK) {
        return FPP_ERR_EXHAUSTED;
    }
    const int64_t word = choose_word(room->cosines, book, near, place);
    memcpy(code, seed, 8);
    code[8] = (uint8_t)word;
    code[9] = (uint8_t)(word >> 8);
    return FPP_OK;
}

FPP_API int32_t fpp_report_codes_f64(const double *x, int64_t n, int64_t row_stride, const fpp_report_law *law,
                                     const fpp_report_book *book, const uint8_t *key, int64_t first, void *workspace, uint8_t *codes)
{
    int64_t stride;
    if (!book_is_valid(law, book) || key == NULL || !fpp_rows_are_given(x, n, row_stride, 0, &stride) || !fpp_reports_fit(law, first, n)
        || !fpp_is_given(codes, n, FPP_CODE_BYTES) || (workspace == NULL && n > 0)) {
        return FPP_ERR_ARGUMENT;
    }
    if (n == 0) {
        return FPP_OK;
    }
    fpp_report_room *const room = fpp_room_open(workspace, first, n);
    int32_t status = FPP_OK;
    for (int64_t i = 0; i < n && status == FPP_OK; i++) {
        const double *const row = fpp_report_row(x, i, stride);
        status = one_code(room, law, book, key, (uint64_t)(first + i), row, codes + i * FPP_CODE_BYTES);
    }
    fpp_wipe(room, fpp_room_bytes(law));
    return status;
}

FPP_API int32_t fpp_report_of_codes_i32(const uint8_t *codes, int64_t n, const fpp_report_law *law, void *workspace, int32_t *out)
{
    if (!fpp_law_is_valid(law) || n < 0 || n > INT64_MAX / 4 / law->dim || !fpp_is_given(codes, n, FPP_CODE_BYTES)
        || !fpp_is_given(out, n * law->dim, 4) || (workspace == NULL && n > 0)) {
        return FPP_ERR_ARGUMENT;
    }
    if (n == 0) {
        return FPP_OK;
    }
    fpp_report_room *const room = fpp_room_in(workspace);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *const code = codes + i * FPP_CODE_BYTES;
        const int64_t word = code[8] | (int64_t)code[9] << 8; /* whatever it is, a word: its blocks have numbers below 2^28 */
        const int32_t begins = i == 0 || memcmp(code, code - FPP_CODE_BYTES, 8) != 0;
        const int32_t goes_on = i + 1 < n && memcmp(code, code + FPP_CODE_BYTES, 8) == 0;
        uint8_t seed[FPP_SEED_BYTES] = {0};
        memcpy(seed, code, 8);
        room->held = begins ? -1 : room->held;
        /* Words of one book, one after another: whole blocks are drawn. */
        const int64_t *const g = word_normals(room, seed, word, word + (goes_on ? FPP_DRAW_BLOCK : 1), law->dim);
        if (g == NULL) {
            return FPP_ERR_EXHAUSTED;
        }
        fpp_normals_round(g, law, out + i * law->dim);
    }
    return FPP_OK;
}
