/* Bin tables: any order of columns counted, keys inserted, tables grown and windows flushed gives the counts of a sorted list. */
#include "fuzz.h"

#include <math.h>

enum { EVENTS_MAX = 4000, WORDS = 3 };

typedef struct {
    int64_t key[WORDS], count;
} event;

typedef struct {
    event *list;
    int64_t n;
} events;

static int64_t sum_of(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int by_key(const void *a, const void *b)
{
    const event *one = a, *other = b;
    for (int w = 0; w < WORDS; w++) {
        if (one->key[w] != other->key[w]) {
            return one->key[w] < other->key[w] ? -1 : 1;
        }
    }
    return 0;
}

static void note(events *all, const int64_t *key, int64_t words, int64_t count)
{
    event *last = all->list + all->n;
    memset(last, 0, sizeof *last);
    for (int64_t w = 0; w < words; w++) {
        if (key[w] == FPP_BIN_NONE) {
            return;
        }
        last->key[w] = key[w];
    }
    last->count = count;
    all->n += count > 0;
}

/* Sorted, each key once. */
static void put_together(events *all)
{
    int64_t kept = 0;
    qsort(all->list, (size_t)all->n, sizeof(event), by_key);
    for (int64_t i = 0; i < all->n; i++) {
        if (kept > 0 && by_key(all->list + kept - 1, all->list + i) == 0) {
            all->list[kept - 1].count = sum_of(all->list[kept - 1].count, all->list[i].count);
        } else {
            all->list[kept++] = all->list[i];
        }
    }
    all->n = kept;
}

/* The definition: frexp, and floor(t + 1/2) by comparing with the middle between two integers. */
static int64_t plain_key(double x, const fpp_bin_rule *rule)
{
    if (rule->kind == FPP_BINS_DYADIC) {
        int exponent;
        if (x == 0.0 || !isfinite(x)) {
            return FPP_BIN_NONE;
        }
        return frexp(fabs(x), &exponent) == 0.5 ? exponent - 2 : exponent - 1;
    }
    const double t = (x - rule->offset) / rule->width;
    if (!(fabs(t) <= FPP_BIN_KEY_MAX)) {
        return FPP_BIN_NONE;
    }
    /* The difference is exact, but for t in (-1/2, 0), where it is above 1/2 and rounds to 1/2 at least. */
    const double whole = floor(t), part = t - whole;
    return (int64_t)whole + (PLANTED ? part > 0.5 : part >= 0.5);
}

static void allocate(fpp_bin_table *table, int64_t slots)
{
    table->slots = slots;
    table->used = 0;
    table->keys = room(slots * table->words, sizeof *table->keys);
    table->counts = zeros(slots, sizeof *table->counts);
}

static void grow(fpp_bin_table *table)
{
    int64_t *keys = table->keys, *counts = table->counts, slots = table->slots, used = table->used, done = 0;
    allocate(table, 2 * slots);
    AGREE(fpp_bins_insert(keys, counts, slots, table, &done) == FPP_OK);
    AGREE(done == slots && table->used == used);
    free(keys);
    free(counts);
}

/* Numbers in arithmetic progression, some of them replaced. */
static double *column(fuzz_input *in, int64_t n)
{
    double *x = room(n, sizeof *x);
    const double first = number(in), step = number(in);
    for (int64_t i = 0; i < n; i++) {
        x[i] = first + (double)i * step;
    }
    sprinkle(in, x, n, 8);
    return x;
}

static void count_column(fuzz_input *in, const fpp_bin_rule *rule, fpp_bin_table *table, events *all)
{
    const int64_t n = pick(in, 0, 1600), stride = pick(in, 1, 3), size = n > 0 ? (n - 1) * stride + 1 : 0;
    const int narrow = (int)pick(in, 0, 1);
    if (all->n + n > EVENTS_MAX) {
        return;
    }
    double *x = column(in, size);
    float *x32 = as_floats(x, size);
    int64_t *keys = room(n, sizeof *keys), done = 0;
    AGREE((narrow ? fpp_bins_keys_f32(x32, n, stride, rule, 1, keys) : fpp_bins_keys_f64(x, n, stride, rule, 1, keys)) == FPP_OK);
    for (int64_t i = 0; i < n; i++) {
        const int64_t key = plain_key(narrow ? (double)x32[i * stride] : x[i * stride], rule);
        AGREE(keys[i] == key);
        note(all, &key, 1, 1);
    }
    for (int64_t begin = 0; begin < n; begin += done) {
        const int32_t status = narrow ? fpp_bins_count_f32(x32 + begin * stride, n - begin, stride, rule, table, &done)
                                      : fpp_bins_count_f64(x + begin * stride, n - begin, stride, rule, table, &done);
        AGREE(status == FPP_OK && done >= 0 && done <= n - begin && table->used <= table->slots / 4 * 3);
        if (done < n - begin) {
            grow(table);
        }
    }
    free(x);
    free(x32);
    free(keys);
}

static void insert_keys(fuzz_input *in, fpp_bin_table *table, events *all)
{
    const int64_t n = pick(in, 0, 1100), words = table->words, many = pick(in, 1, 2000);
    const int with_counts = (int)pick(in, 0, 1);
    uint64_t seed = take(in, 2);
    if (all->n + n > EVENTS_MAX) {
        return;
    }
    int64_t *keys = room(n * words, sizeof *keys), *counts = room(n, sizeof *counts), done = 0;
    for (int64_t i = 0; i < n * words; i++) {
        keys[i] = (int64_t)(next_word(&seed) % (uint64_t)many) - many / 2;
    }
    for (int64_t i = 0; i < n; i++) {
        counts[i] = (int64_t)(next_word(&seed) % 5);
    }
    for (int64_t i = pick(in, 0, 8); i > 0 && n > 0; i--) {
        const int64_t at = pick(in, 0, n - 1);
        keys[at * words] = pick(in, 0, 1) ? FPP_BIN_NONE : (int64_t)take(in, 8);
        counts[at] = (int64_t)take(in, 8);
    }
    for (int64_t i = 0; i < n; i++) {
        note(all, keys + i * words, words, with_counts ? counts[i] : 1);
    }
    for (int64_t begin = 0; begin < n; begin += done) {
        AGREE(fpp_bins_insert(keys + begin * words, with_counts ? counts + begin : NULL, n - begin, table, &done) == FPP_OK);
        AGREE(done >= 0 && done <= n - begin && table->used <= table->slots / 4 * 3);
        if (done < n - begin) {
            grow(table);
        }
    }
    free(keys);
    free(counts);
}

static void compare(const fpp_bin_table *table, const int64_t *totals, int dyadic, events *all)
{
    const int64_t low = dyadic ? 1 : 0, high = dyadic ? 2046 : table->window;
    events found = {room(table->slots + table->window, sizeof(event)), 0};
    int64_t used = 0;
    for (int64_t slot = 0; slot < table->slots; slot++) {
        AGREE(table->counts[slot] >= 0);
        used += table->counts[slot] > 0;
        if (table->counts[slot] > 0) {
            note(&found, table->keys + slot * table->words, table->words, table->counts[slot]);
        }
    }
    AGREE(used == table->used);
    for (int64_t cell = low; cell < high; cell++) {
        const int64_t key = table->base + cell;
        note(&found, &key, 1, totals[cell]);
    }
    put_together(&found);
    AGREE(found.n == all->n && memcmp(found.list, all->list, (size_t)all->n * sizeof(event)) == 0);
    free(found.list);
}

static void run(fuzz_input in, int32_t level)
{
    /* One choice a statement: C leaves the order inside braces open. */
    const int32_t kind = (int32_t)pick(&in, 0, 2);
    const double offset = number(&in), width = number(&in);
    const int64_t words = pick(&in, 1, WORDS), lanes = INT64_C(1) << pick(&in, 0, 3);
    const fpp_bin_rule rule = {kind, offset, width};
    fpp_bin_table table = {.words = words, .lanes = lanes};
    events all = {room(EVENTS_MAX + 1, sizeof(event)), 0};
    int64_t none = 0;
    fpp_isa_limit(level);
    allocate(&table, 2 * FPP_BIN_BLOCK);
    const int valid = fpp_bins_keys_f64(NULL, 0, 1, &rule, 1, NULL) == FPP_OK;
    const int dyadic = rule.kind == FPP_BINS_DYADIC;
    AGREE(valid == (dyadic || (rule.kind == FPP_BINS_WIDTH && rule.width > 0.0 && isfinite(rule.width) && isfinite(rule.offset))));
    if (table.words == 1) {
        table.window = dyadic ? FPP_BIN_DYADIC_CELLS : pick(&in, 0, 300);
        table.base = dyadic ? -1023 : pick(&in, 0, 3) ? pick(&in, -200, 200) : pick(&in, -(INT64_C(1) << 50), INT64_C(1) << 50);
        table.dense = zeros((table.window + 1) * table.lanes, sizeof *table.dense);
    }
    int64_t *totals = zeros(table.window, sizeof *totals);
    const int counts = valid && table.words == 1 && table.window > 0;
    AGREE((fpp_bins_count_f64(NULL, 0, 1, &rule, &table, &none) == FPP_OK) == counts);
    for (int step = 0; step < 6 && in.left > 0; step++) {
        const int64_t what = pick(&in, 0, 7);
        if (what < 4 && counts) {
            count_column(&in, &rule, &table, &all);
        } else if (what < 6) {
            insert_keys(&in, &table, &all);
        } else if (what == 6) {
            grow(&table);
        } else {
            AGREE(fpp_bins_flush(&table, totals) == FPP_OK);
        }
    }
    AGREE(fpp_bins_flush(&table, totals) == FPP_OK);
    put_together(&all);
    compare(&table, totals, dyadic && table.window > 0, &all);
    free(table.keys);
    free(table.counts);
    free(table.dense);
    free(totals);
    free(all.list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        run((fuzz_input){data, size}, level);
    }
    return 0;
}
