/* Which bin a number is in, and the hash table of bins that are in no window. */
#ifndef FPP_BINS_TABLE_H
#define FPP_BINS_TABLE_H

#include "internal.h"

#include <math.h>
#include <string.h>

#define ROUNDER 0x1.8p52

/* Nearest integer to (x - offset) / width, the upper one halfway between two: x is in [offset + (i - 1/2) width, offset + (i + 1/2)
 * width), up to the rounding of one subtraction and one division. Exact for |t| <= 2^53; the difference t - r has no rounding. */
static int64_t width_key(double x, double offset, double width)
{
    const double t = (x - offset) / width;
    if (!(fabs(t) <= FPP_BIN_KEY_MAX)) {
        return FPP_BIN_NONE; /* too far, infinite or NaN */
    }
    if (fabs(t) >= 0x1p51) {
        return (int64_t)ceil(t); /* a fraction here is a half, and a half goes up */
    }
    const double r = (t + ROUNDER) - ROUNDER;
    return (int64_t)r + (t - r == 0.5);
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

static int64_t bin_key(double x, const fpp_bin_rule *rule)
{
    return rule->kind == FPP_BINS_DYADIC ? dyadic_key(x) : width_key(x, rule->offset, rule->width);
}

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

/* Slots that may be taken: three quarters. */
static int64_t room(const fpp_bin_table *table)
{
    return table->slots - table->slots / 4;
}

#endif
