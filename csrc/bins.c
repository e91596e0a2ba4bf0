/* Occupied bins of columns, counted: a dense window of cells where most rows are, and a hash table for all others.
 *
 * Which bin a number is in depends on that number and the rule alone. Every step is an IEEE operation in a fixed order, so that
 * blocks, threads and instruction sets agree on every bit; how a row is counted (cell or slot) changes the speed only.
 */
#include "bins_counting.h"

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
