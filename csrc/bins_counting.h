/* How bins.c goes from block to block: included by it alone. The addresses of one block's counters are found while those of the block
 * before it are raised. */
#ifndef FPP_BINS_COUNTING_H
#define FPP_BINS_COUNTING_H

#include "bins_table.h"
#if FPP_X86
#include <immintrin.h>
#endif

#define BLOCK FPP_BIN_BLOCK /* numbers, addresses and the hot part of the window stay in the first-level cache */
#define GROUP 32 /* of BLOCK, looked at for numbers that are counted one by one */
#define ROUNDER_BITS INT64_C(0x4338000000000000)
#define HALF_BITS INT64_C(0x3fe0000000000000)
#define CELL_TINY 0    /* 2^-1022 and below: the exponent does not tell the bin */
#define CELL_HUGE 2046 /* above 2^1023, or infinite */
#define OCTAVES 16     /* dyadic cells that are counted in registers */
#define SAMPLE 64      /* numbers of a block by which they are chosen */
#define PATIENCE 32    /* blocks before what failed is tried again */

/* Exponent, one lower for a power of two: an integer subtraction and a shift. Zero gives 4095 and NaN 2047. */
FPP_INLINE int64_t dyadic_cell(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int64_t)(((bits & INT64_MAX) - 1) >> 52);
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

/* Counting on: what is known of the blocks so far, which changes the speed and nothing else. */
typedef struct {
    const fpp_bin_rule *rule;
    fpp_bin_table *table;
    const block_kernels *kernels;
    spots at;
    int64_t exact;              /* blocks that will be divided, as near cells failed */
    int64_t by_address, lowest; /* dyadic blocks that will not be counted by octaves, and the first octave of those that will */
    int32_t stale;              /* whether that is to be chosen anew */
    uint32_t octaves[OCTAVES];
    int32_t turn;
    uint64_t *address[2];       /* (BLOCK) of counters: one block's are found while those of the other are raised */
    uint32_t idle;
    int64_t waits; /* numbers for the hash table */
    uint64_t room[2 * BLOCK + BLOCK + BLOCK / 2 + 8];
    double waiting[BLOCK];
} counting;

static void count_octaves(counting *run)
{
    for (int64_t i = 0; i < OCTAVES; i++) {
        if (run->octaves[i] > 0) {
            run->at.dense[(run->lowest + i) * run->at.lanes] += run->octaves[i];
            run->octaves[i] = 0;
        }
    }
}

/* The OCTAVES neighbouring cells that hold most of a sample of a block, or none for a while if many numbers are elsewhere. */
static void choose_octaves(counting *run, const double *x)
{
    int64_t cells[SAMPLE], most = 0;
    for (int64_t i = 0; i < SAMPLE; i++) {
        const int64_t cell = dyadic_cell(x[i * (BLOCK / SAMPLE)]);
        int64_t at = i;
        for (; at > 0 && cells[at - 1] > cell; at--) {
            cells[at] = cells[at - 1];
        }
        cells[at] = cell;
    }
    count_octaves(run);
    for (int64_t begin = 0, end = 0; end < SAMPLE && cells[end] < CELL_HUGE; end++) {
        while (cells[begin] == CELL_TINY && begin < end) {
            begin++;
        }
        while (cells[end] - cells[begin] >= OCTAVES) {
            begin++;
        }
        if (end - begin + 1 > most && cells[end] != CELL_TINY) {
            /* What is left of the sixteen goes to smaller numbers, but for one. */
            const int64_t top = cells[end] + (cells[end] - cells[begin] < OCTAVES - 1);
            most = end - begin + 1;
            run->lowest = top < OCTAVES ? 1 : top < CELL_HUGE ? top - OCTAVES + 1 : CELL_HUGE - OCTAVES;
        }
    }
    run->by_address = most >= SAMPLE - SAMPLE / 16 ? 0 : PATIENCE;
    run->stale = 0;
}

/* Counts the waiting numbers in the hash table, which is not in any near cache: all of their lines are asked for before the first is
 * needed. */
static void count_waiting(counting *run)
{
    fpp_bin_table *table = run->table;
    int64_t keys[BLOCK], known = 0;
    uint64_t slots[BLOCK];
    for (int64_t i = 0; i < run->waits; i++) {
        keys[known] = bin_key(run->waiting[i], run->rule);
        slots[known] = first_slot(table, keys + known);
        __builtin_prefetch(table->counts + slots[known]);
        __builtin_prefetch(table->keys + slots[known]);
        known += keys[known] != FPP_BIN_NONE;
    }
    for (int64_t i = 0; i < known; i++) {
        insert(table, keys + i, 1, slots[i]);
    }
    run->waits = 0;
}

/* Lets the numbers at `where`, at most BLOCK, wait for the hash table. */
static void count_outside(counting *run, const double *x, const int32_t *where, int64_t found)
{
    if (run->waits + found > BLOCK) {
        count_waiting(run);
    }
    for (int64_t i = 0; i < found; i++) {
        run->waiting[run->waits++] = x[where[i]];
    }
}

/* Whether the hash table has room for a further block. */
static int has_room(counting *run)
{
    if (run->table->used + run->waits + BLOCK > room(run->table)) {
        count_waiting(run);
    }
    return run->table->used + BLOCK <= room(run->table);
}

/* One block of BLOCK numbers; those past the last row are NaN, which is in no bin. `next` and its stride say where a block soon to
 * be read is, or this one again where there is none. */
static void count_width(counting *run, const double *x, const char *next, int64_t stride_bytes)
{
    const spots *at = &run->at;
    uint64_t *to = run->address[run->turn], *from = run->address[!run->turn];
    int found;
    if (run->exact > 0) {
        run->exact--;
        found = run->kernels->exact(at, x, to, from, next, stride_bytes);
    } else {
        found = run->kernels->near(at, x, to, from, next, stride_bytes);
        if (found < 0) {
            run->exact = PATIENCE;
            found = run->kernels->exact(at, x, to, NULL, next, 0);
        }
    }
    run->turn = !run->turn;
    if (found) {
        int32_t where[BLOCK];
        const int64_t n = run->kernels->outside(to, (uint64_t)(uintptr_t)at->dense, (uint64_t)at->bytes, where);
        for (int64_t i = 0; i < n; i++) {
            to[where[i]] = (uint64_t)(uintptr_t)at->nobody;
        }
        count_outside(run, x, where, n);
    }
}

/* The numbers of a block that are not in the octaves being counted. */
static void count_others(counting *run, const double *x)
{
    int32_t where[BLOCK];
    const int64_t found = run->kernels->others(x, (uint64_t)run->lowest, OCTAVES, where);
    int64_t hashed = 0;
    for (int64_t i = 0; i < found; i++) {
        const int64_t cell = dyadic_cell(x[where[i]]);
        run->at.dense[cell * run->at.lanes]++;
        where[hashed] = where[i];
        hashed += cell == CELL_TINY || cell == CELL_HUGE;
    }
    count_outside(run, x, where, hashed);
    run->stale |= found > BLOCK / 16;
}

static void count_dyadic(counting *run, const double *x, const char *next, int64_t stride_bytes)
{
    const block_kernels *kernels = run->kernels;
    if (kernels->by_octaves && run->by_address == 0 && run->stale) {
        choose_octaves(run, x);
    }
    if (kernels->by_octaves && run->by_address == 0) {
        if (kernels->octaves(x, run->lowest, run->octaves, next, stride_bytes) < BLOCK) {
            count_others(run, x);
        }
        return;
    }
    run->by_address -= run->by_address > 0;
    run->stale = 1;
    const int found = kernels->dyadic(&run->at, x, run->address[run->turn], run->address[!run->turn], next, stride_bytes);
    run->turn = !run->turn;
    if (found) {
        int32_t where[BLOCK];
        count_outside(run, x, where, kernels->others(x, CELL_TINY + 1, CELL_HUGE - CELL_TINY - 1, where));
    }
}

/* A load waits for a store before it at the same place of another page. Numbers, new addresses and old ones go on side by side: a
 * quarter of a page apart or more. */
static void place_addresses(counting *run, const char *x)
{
    const uint64_t page = BLOCK * sizeof *run->room, room = (uint64_t)(uintptr_t)run->room;
    const uint64_t gap = (((uint64_t)(uintptr_t)x - page / 4 - room) & (page - 1)) + room;
    run->address[0] = run->room + (((gap + 63) & ~UINT64_C(63)) - room) / sizeof *run->room;
    run->address[1] = run->address[0] + BLOCK + BLOCK / 2;
    for (int64_t i = 0; i < BLOCK; i++) {
        run->address[1][i] = (uint64_t)(uintptr_t)&run->idle;
    }
}

static void start_counting(counting *run, const char *x, const fpp_bin_rule *rule, fpp_bin_table *table)
{
    memset(run, 0, offsetof(counting, room));
    place_addresses(run, x);
    run->rule = rule;
    run->table = table;
    run->kernels = FPP_AT_LEVEL(&kernels);
    run->stale = 1;
    run->lowest = 1;
    const double base = (double)table->base, width = rule->width;
    spots *at = &run->at;
    const int32_t shift = 2 + (int32_t)__builtin_ctzll((uint64_t)table->lanes);
    const int64_t bytes = table->window << shift;
    *at = (spots){table->dense, table->dense + table->window * table->lanes, rule->offset, width, 0.0, 1.0, 0.5,
                  table->base, table->lanes, bytes, INT64_C(1) << (63 - __builtin_clzll((uint64_t)bytes)), shift};
    if (rule->kind == FPP_BINS_WIDTH) {
        /* A number of the window is at most `reach` widths from the offset or from 0, each of ten roundings errs by 2^-53 of that
         * at most, and the margin is more than twice as much. */
        const double reach = fabs(base) + (double)table->window + 2.0 + fabs(rule->offset) / width, margin = reach * 0x1p-48;
        at->start = rule->offset + base * width;
        at->inverse = 1.0 / width;
        at->sure = (0.5 - margin) * (double)(INT64_C(1) << shift);
        run->exact = margin < 0x1p-10 && width > 0x1p-1000 && width < 0x1p1000 && fabs(at->start) < INFINITY ? 0 : INT64_MAX;
    }
}

static void finish_counting(counting *run)
{
    count_octaves(run);
    count_waiting(run);
    for (int64_t i = 0; i < BLOCK; i++) {
        ++*(uint32_t *)(uintptr_t)run->address[!run->turn][i];
    }
}

#endif
