/* Occupied bins of columns, counted: a dense window of cells where most rows are, and a hash table for all others.
 *
 * Which bin a number is in depends on that number and the rule alone. Every step is an IEEE operation in a fixed order, so that
 * blocks, threads and instruction sets agree on every bit; how a row is counted (cell or slot) changes the speed only.
 */
#include "internal.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define BLOCK FPP_BIN_BLOCK /* numbers, addresses and the hot part of the window stay in the first-level cache */
#define GROUP 32 /* of BLOCK, looked at for numbers that are counted one by one */
#define ROUNDER 0x1.8p52
#define ROUNDER_BITS INT64_C(0x4338000000000000)
#define MINUS_HALF_BITS (INT64_C(0x3fe0000000000000) | INT64_MIN)
#define CELL_TINY 0    /* 2^-1022 and below: the exponent does not tell the bin */
#define CELL_HUGE 2046 /* above 2^1023, or infinite */
#define OCTAVES 16     /* dyadic cells that are counted in registers */
#define SAMPLE 64      /* numbers of a block by which they are chosen */
#define PATIENCE 32    /* blocks before what failed is tried again */

/* Nearest integer to (x - offset) / width, the lower one halfway between two: x is in (offset + (i - 1/2) width, offset + (i + 1/2)
 * width], up to the rounding of one subtraction and one division. Exact for |t| <= 2^53; the difference t - r has no rounding. */
static int64_t width_key(double x, double offset, double width)
{
    const double t = (x - offset) / width;
    if (!(fabs(t) <= FPP_BIN_KEY_MAX)) {
        return FPP_BIN_NONE; /* too far, infinite or NaN */
    }
    if (fabs(t) >= 0x1p51) {
        return (int64_t)floor(t); /* a fraction here is a half, and a half goes down */
    }
    const double r = (t + ROUNDER) - ROUNDER;
    return (int64_t)r - (t - r == -0.5);
}

/* i with 2^i < |x| <= 2^(i + 1), from the bits; none for zero, an infinity and NaN. */
static int64_t dyadic_key(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= INT64_MAX;
    if (bits == 0 || bits >= UINT64_C(0x7ff) << 52) {
        return FPP_BIN_NONE;
    }
    if (bits >> 52 != 0) {
        return (int64_t)((bits - 1) >> 52) - 1023;
    }
    return (63 - __builtin_clzll(bits)) - 1074 - ((bits & (bits - 1)) == 0); /* x = bits 2^-1074 */
}

/* Exponent, one lower for a power of two: an integer subtraction and a shift. Zero gives 4095 and NaN 2047. */
FPP_INLINE int64_t dyadic_cell(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int64_t)(((bits & INT64_MAX) - 1) >> 52);
}

static int64_t bin_key(double x, const fpp_bin_rule *rule)
{
    return rule->kind == FPP_BINS_DYADIC ? dyadic_key(x) : width_key(x, rule->offset, rule->width);
}

enum { CELLS_NEAR, CELLS_EXACT, CELLS_DYADIC };

/* How a block finds the counters of its numbers. NEAR takes (x - start) inverse for the quotient less `base`, in bytes of counters:
 * where that is at most `sure` from a whole cell, the quotient is so near to the same one that they round alike. */
typedef struct {
    uint32_t *dense, *nobody;
    double offset, width, start, inverse, sure;
    int64_t base, lanes;
    int64_t bytes, surely; /* of the window, and the largest power of two in that */
    int32_t shift; /* log2 of the bytes of a cell */
} spots;

typedef int block_kernel(const spots *at, const double *x, uint64_t *to, const uint64_t *from, const char *next,
                         int64_t stride_bytes);
typedef struct {
    block_kernel *near, *exact, *dyadic;
    int64_t (*octaves)(const double *x, int64_t lowest, uint32_t *counted, const char *next, int64_t stride_bytes);
    int64_t (*outside)(const uint64_t *address, uint64_t dense, uint64_t bytes, int32_t *where);
    int64_t (*others)(const double *x, uint64_t lowest, uint64_t width, int32_t *where);
    int by_octaves;
} block_kernels;

#define KERNELS "bins_simd.h"
#include "each_level.h"

static uint64_t mixed(uint64_t word)
{
    word ^= word >> 32;
    word *= UINT64_C(0xd6e8feb86659fd93);
    word ^= word >> 32;
    word *= UINT64_C(0xd6e8feb86659fd93);
    return word ^ (word >> 32);
}

static uint64_t first_slot(const fpp_bin_table *table, const int64_t *key)
{
    uint64_t hash = 0;
    for (int64_t w = 0; w < table->words; w++) {
        hash = mixed(hash + (uint64_t)key[w]);
    }
    return hash & ((uint64_t)table->slots - 1);
}

/* Add to the count of one key, looking from its first slot on; the caller has seen to it that a slot is free. */
static void insert(fpp_bin_table *table, const int64_t *key, int64_t count, uint64_t slot)
{
    const uint64_t mask = (uint64_t)table->slots - 1;
    for (;; slot = (slot + 1) & mask) {
        int64_t *there = table->keys + (int64_t)slot * table->words;
        if (table->counts[slot] == 0) {
            memcpy(there, key, (size_t)table->words * sizeof *key);
            table->counts[slot] = count;
            table->used++;
            return;
        }
        if (memcmp(there, key, (size_t)table->words * sizeof *key) == 0) {
            if (__builtin_add_overflow(table->counts[slot], count, table->counts + slot)) {
                table->counts[slot] = INT64_MAX; /* a count that wrapped to zero would free the slot */
            }
            return;
        }
    }
}

static int32_t rule_error(const fpp_bin_rule *rule)
{
    if (rule == NULL || (rule->kind != FPP_BINS_WIDTH && rule->kind != FPP_BINS_DYADIC)) {
        return FPP_ERR_ARGUMENT;
    }
    if (rule->kind == FPP_BINS_WIDTH && !(rule->width > 0.0 && rule->width < INFINITY && fabs(rule->offset) < INFINITY)) {
        return FPP_ERR_ARGUMENT;
    }
    return FPP_OK;
}

/* Slots that may be taken: three quarters. */
static int64_t room(const fpp_bin_table *table)
{
    return table->slots - table->slots / 4;
}

/* A window of none or of at most 2^30 cells, lanes 1, 2, 4 or 8, and a power of two of slots, a quarter of them free. */
static int32_t table_error(const fpp_bin_table *table)
{
    if (table == NULL || table->words < 1 || table->words > FPP_BIN_WORDS_MAX || table->slots < 2 * FPP_BIN_BLOCK
        || (table->slots & (table->slots - 1)) != 0 || table->used < 0 || table->used > room(table) || table->keys == NULL
        || table->counts == NULL || table->window < 0 || table->window > INT64_C(1) << 30) {
        return FPP_ERR_ARGUMENT;
    }
    if (table->window > 0
        && (table->dense == NULL || table->words != 1 || table->base < -(INT64_C(1) << 50) || table->base > INT64_C(1) << 50
            || !(table->lanes == 1 || table->lanes == 2 || table->lanes == 4 || table->lanes == 8))) {
        return FPP_ERR_ARGUMENT;
    }
    return FPP_OK;
}

#include "bins_counting.h"

FPP_INLINE double number_at(const char *x, int32_t is_f32)
{
    return is_f32 ? (double)*(const float *)(const void *)x : *(const double *)(const void *)x;
}

static int32_t count_rows(const char *x, int64_t n, int64_t row_stride, int32_t is_f32, const fpp_bin_rule *rule,
                          fpp_bin_table *table, int64_t *done)
{
    int64_t stride_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || done == NULL || rule_error(rule) != FPP_OK
        || table_error(table) != FPP_OK || table->words != 1 || table->window < 1
        || (rule->kind == FPP_BINS_DYADIC && (table->window != FPP_BIN_DYADIC_CELLS || table->base != -1023))) {
        return FPP_ERR_ARGUMENT;
    }
    counting run;
    double buffer[BLOCK];
    const int copied = is_f32 || stride_bytes != (int64_t)sizeof(double);
    *done = 0;
    start_counting(&run, copied ? (const char *)buffer : x, rule, table);
    while (*done < n && has_room(&run)) {
        const int64_t rows = n - *done < BLOCK ? n - *done : BLOCK;
        const char *from = x + *done * stride_bytes;
        const double *numbers = (const double *)(const void *)from;
        if (copied || rows < BLOCK) {
            for (int64_t i = 0; i < rows; i++) {
                buffer[i] = number_at(from + i * stride_bytes, is_f32);
            }
            for (int64_t i = rows; i < BLOCK; i++) {
                buffer[i] = NAN;
            }
            numbers = buffer;
        }
        const int64_t after = *done + 3 * BLOCK <= n ? 2 * BLOCK : 0;
        const char *next = from + after * stride_bytes;
        if (rule->kind == FPP_BINS_DYADIC) {
            count_dyadic(&run, numbers, next, after > 0 ? stride_bytes : 0);
        } else {
            count_width(&run, numbers, next, after > 0 ? stride_bytes : 0);
        }
        *done += rows;
    }
    finish_counting(&run);
    return FPP_OK;
}

FPP_API int32_t fpp_bins_count_f64(const double *x, int64_t n, int64_t row_stride, const fpp_bin_rule *rule, fpp_bin_table *table,
                                   int64_t *done)
{
    return count_rows((const char *)x, n, row_stride, 0, rule, table, done);
}

FPP_API int32_t fpp_bins_count_f32(const float *x, int64_t n, int64_t row_stride, const fpp_bin_rule *rule, fpp_bin_table *table,
                                   int64_t *done)
{
    return count_rows((const char *)x, n, row_stride, 1, rule, table, done);
}

static int32_t keys_of(const char *x, int64_t n, int64_t row_stride, int32_t is_f32, const fpp_bin_rule *rule, int64_t key_stride,
                       int64_t *keys)
{
    int64_t from_bytes, to_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &from_bytes) || !fpp_rows_are_given(keys, n, key_stride, 0, &to_bytes)
        || rule_error(rule) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; i < n; i++) {
        keys[i * (to_bytes / 8)] = bin_key(number_at(x + i * from_bytes, is_f32), rule);
    }
    return FPP_OK;
}

FPP_API int32_t fpp_bins_keys_f64(const double *x, int64_t n, int64_t row_stride, const fpp_bin_rule *rule, int64_t key_stride,
                                  int64_t *keys)
{
    return keys_of((const char *)x, n, row_stride, 0, rule, key_stride, keys);
}

FPP_API int32_t fpp_bins_keys_f32(const float *x, int64_t n, int64_t row_stride, const fpp_bin_rule *rule, int64_t key_stride,
                                  int64_t *keys)
{
    return keys_of((const char *)x, n, row_stride, 1, rule, key_stride, keys);
}

FPP_API int32_t fpp_bins_insert(const int64_t *keys, const int64_t *counts, int64_t n, fpp_bin_table *table, int64_t *done)
{
    if (table_error(table) != FPP_OK || done == NULL || !fpp_is_given(keys, n, table->words * (int64_t)sizeof *keys)) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t most = room(table);
    for (*done = 0; *done < n && table->used < most; ++*done) {
        const int64_t *key = keys + *done * table->words;
        const int64_t count = counts == NULL ? 1 : counts[*done];
        int known = count > 0; /* none: a free slot of another table */
        for (int64_t w = 0; w < table->words; w++) {
            known &= key[w] != FPP_BIN_NONE;
        }
        if (known) {
            insert(table, key, count, first_slot(table, key));
        }
    }
    return FPP_OK;
}

FPP_INLINE void add_lanes(const fpp_bin_table *table, const int64_t lanes, int64_t *restrict totals)
{
    const uint32_t *restrict dense = table->dense;
    for (int64_t cell = 0; cell < table->window; cell++) {
        for (int64_t lane = 0; lane < lanes; lane++) {
            totals[cell] += dense[cell * lanes + lane];
        }
    }
}

FPP_API int32_t fpp_bins_flush(fpp_bin_table *table, int64_t *totals)
{
    if (table_error(table) != FPP_OK || !fpp_is_given(totals, table->window, (int64_t)sizeof *totals)) {
        return FPP_ERR_ARGUMENT;
    }
    if (table->window == 0) {
        return FPP_OK; /* `lanes` and `dense` mean nothing */
    }
    switch (table->lanes) { /* a constant number makes vectors of it */
    case 1: add_lanes(table, 1, totals); break;
    case 2: add_lanes(table, 2, totals); break;
    case 4: add_lanes(table, 4, totals); break;
    default: add_lanes(table, 8, totals); break;
    }
    memset(table->dense, 0, (size_t)((table->window + 1) * table->lanes) * sizeof *table->dense);
    return FPP_OK;
}
