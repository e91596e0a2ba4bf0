/* Columns of rows in groups: cells between edges, places among keys, sums of boxed numbers and joined columns are those of slow
 * loops, for the same rows at once and in two parts, on every instruction set. */
#include "fuzz.h"

enum { EDGES_MAX = 330 };

typedef struct {
    int64_t n, dim, stride, groups;
    int32_t narrow;
    double *x;
    float *x32;
    int32_t *code; /* NULL: all rows are in group 0 */
} table;

static table make(fuzz_input *in)
{
    table t;
    t.dim = pick(in, 1, 20);
    t.n = pick(in, 0, 3) ? pick(in, 0, 40) : pick(in, 200, 800);
    t.stride = pick(in, 0, 7) ? t.dim + pick(in, 0, 3) : 0;
    t.groups = pick(in, 1, 6);
    t.narrow = (int32_t)pick(in, 0, 1);
    uint64_t seed = take(in, 2);
    const int64_t size = t.n > 0 ? (t.n - 1) * t.stride + t.dim : 0;
    t.x = places(in, size, &seed);
    t.x32 = as_floats(t.x, size);
    for (int64_t i = 0; t.narrow && i < size; i++) {
        t.x[i] = (double)t.x32[i];
    }
    t.code = room(t.n, sizeof *t.code);
    for (int64_t r = 0; r < t.n; r++) {
        t.code[r] = (int32_t)(next_word(&seed) % (uint64_t)(t.groups + 2)) - 1; /* some are in no group */
    }
    if (t.groups == 1 && pick(in, 0, 2)) {
        free(t.code);
        t.code = NULL;
    }
    return t;
}

static const void *from(const table *t, int64_t row)
{
    return t->narrow ? (const void *)(t->x32 + row * t->stride) : (const void *)(t->x + row * t->stride);
}

static int64_t group_of_row(const table *t, int64_t row)
{
    const int64_t group = t->code == NULL ? 0 : t->code[row];
    return group >= 0 && group < t->groups ? group : -1;
}

static int ascending(const void *a, const void *b)
{
    const double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

/* At most EDGES_MAX ascending finite numbers, some of them numbers of the rows; each once if asked. */
static int64_t edges_of(fuzz_input *in, const table *t, uint64_t *seed, int once, double *edges)
{
    int64_t n = 0;
    const int64_t asked = pick(in, 0, 5) ? pick(in, 0, 30) : pick(in, 0, EDGES_MAX);
    const double size = pick(in, 0, 2) ? 1.0 : fabs(number(in));
    for (int64_t i = 0; i < asked; i++) {
        const uint64_t word = next_word(seed);
        double edge = ((double)(int64_t)(word >> 11) * 0x1p-52 - 1.0) * size;
        if (t->n > 0 && word % 3 == 0) {
            edge = t->x[(int64_t)(word >> 8) % t->n * t->stride + (int64_t)(word >> 40) % t->dim];
        }
        if (fabs(edge) < INFINITY) {
            edges[n++] = edge + 0.0;
        }
    }
    qsort(edges, (size_t)n, sizeof *edges, ascending);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!once || kept == 0 || edges[i] > edges[kept - 1]) {
            edges[kept++] = edges[i];
        }
    }
    return kept;
}

static void check_cells(const table *t, fuzz_input *in)
{
    const int32_t own = t->code != NULL && pick(in, 0, 1);
    const int64_t lists = t->dim * (own ? t->groups : 1), times = own ? 1 : t->groups;
    uint64_t seed = take(in, 2);
    int64_t *begins = zeros(lists + 1, sizeof *begins);
    double *edges = room(lists * EDGES_MAX, sizeof *edges);
    for (int64_t l = 0; l < lists; l++) {
        begins[l + 1] = begins[l] + edges_of(in, t, &seed, 0, edges + begins[l]);
    }
    double *given = memcpy(room(begins[lists], sizeof *given), edges, (size_t)begins[lists] * sizeof *given);
    const int64_t cells = (begins[lists] + lists) * times;
    int64_t *found = zeros(cells, sizeof *found), *expected = zeros(cells, sizeof *expected);
    for (int64_t r = 0; r < t->n; r++) {
        for (int64_t k = 0; k < t->dim && group_of_row(t, r) >= 0; k++) {
            const int64_t group = group_of_row(t, r), l = own ? k * t->groups + group : k, size = begins[l + 1] - begins[l] + 1;
            const double x = t->x[r * t->stride + k];
            int64_t cell = 0;
            while (cell < size - 1 && (PLANTED ? given[begins[l] + cell] < x : given[begins[l] + cell] <= x)) {
                cell++;
            }
            expected[(begins[l] + l) * times + (own ? 0 : group * size) + cell] += fabs(x) < INFINITY;
        }
    }
    const int64_t half = pick(in, 0, t->n);
    for (int part = 0; part < 2; part++) {
        const int64_t first = part ? half : 0, rows = part ? t->n - half : half;
        AGREE(fpp_columns_cells(from(t, first), t->narrow, rows, t->stride, t->dim, t->code == NULL ? NULL : t->code + first, t->groups,
                                own, given, begins, found)
              == FPP_OK);
    }
    AGREE(memcmp(found, expected, (size_t)cells * sizeof *found) == 0);
    free(begins);
    free(edges);
    free(given);
    free(found);
    free(expected);
}

static void check_codes(const table *t, fuzz_input *in)
{
    uint64_t seed = take(in, 2);
    double *keys = room(EDGES_MAX, sizeof *keys);
    const int64_t n_keys = edges_of(in, t, &seed, 1, keys);
    int32_t *code = room(t->n, sizeof *code);
    AGREE(fpp_column_codes(from(t, 0), t->narrow, t->n, t->stride, keys, n_keys, code) == FPP_OK);
    for (int64_t r = 0; r < t->n; r++) {
        const double x = t->x[r * t->stride];
        int64_t place = 0;
        while (place < n_keys && keys[place] != x) {
            place++;
        }
        AGREE(code[r] == (fabs(x) < INFINITY ? place : n_keys + 1));
    }
    free(keys);
    free(code);
}

static void check_moments(const table *t, fuzz_input *in)
{
    static const int64_t bounds[] = {1, 2, 7, 1000, (1 << 20) + 3, 1 << 26};
    const int64_t bound = bounds[pick(in, 0, 5)], apart = (t->dim + FPP_VECTOR - 1) / FPP_VECTOR * FPP_VECTOR;
    const int32_t squared = (int32_t)pick(in, 0, 1);
    uint64_t seed = take(in, 2);
    double *middle = numbers(t->groups * apart, &seed, 1.0);
    double *steps = numbers(t->groups * apart, &seed, pick(in, 0, 1) ? (double)bound : 1.0);
    sprinkle(in, middle, t->groups * apart, 3);
    sprinkle(in, steps, t->groups * apart, 3);
    int64_t *found = zeros(3 * t->groups * apart, sizeof *found), *expected = zeros(3 * t->groups * apart, sizeof *expected);
    for (int64_t r = 0; r < t->n; r++) {
        for (int64_t k = 0; k < t->dim && group_of_row(t, r) >= 0; k++) {
            const int64_t group = group_of_row(t, r), at = group * apart + k;
            const double x = t->x[r * t->stride + k], end = squared ? 1.0 : (double)bound, away = (x - middle[at]) * steps[at];
            const double cut = away < -end ? -end : away > end ? end : away;
            const double y = nearbyint(squared ? (2.0 * cut * cut - 1.0) * (double)bound : cut);
            const int64_t there = fabs(x) < INFINITY, q = there && fabs(y) <= (double)bound ? (int64_t)y : 0;
            int64_t *sums = expected + 3 * group * apart + k;
            sums[0] += there;
            sums[apart] += PLANTED ? -q : q;
            sums[2 * apart] += there && fabs(y) <= (double)bound ? q * q / bound - bound / 2 : 0;
        }
    }
    const int64_t half = pick(in, 0, t->n);
    for (int part = 0; part < 2; part++) {
        const int64_t first = part ? half : 0, rows = part ? t->n - half : half;
        AGREE(fpp_group_moments(from(t, first), t->narrow, rows, t->stride, t->dim, t->code == NULL ? NULL : t->code + first, t->groups,
                                middle, steps, squared, bound, found)
              == FPP_OK);
    }
    for (int64_t i = 0; i < 3 * t->groups * apart; i++) {
        AGREE(i % apart >= t->dim || found[i] == expected[i]);
    }
    free(middle);
    free(steps);
    free(found);
    free(expected);
}

static void check_join(const table *t)
{
    const double **columns = room(t->dim, sizeof *columns);
    double *out = room(t->n * t->dim, sizeof *out), *values = room(t->n * t->dim, sizeof *values);
    for (int64_t i = 0; i < t->n * t->dim; i++) {
        values[i] = t->x[i % t->n * t->stride + i / t->n];
        columns[i / t->n] = values + i / t->n * t->n;
    }
    AGREE(t->n == 0 || fpp_columns_join(columns, t->n, t->dim, out) == FPP_OK);
    for (int64_t i = 0; i < t->n * t->dim; i++) {
        AGREE(memcmp(out + i, values + i % t->dim * t->n + i / t->dim, sizeof *out) == 0);
    }
    free(columns);
    free(out);
    free(values);
}

static void check(fuzz_input in)
{
    table t = make(&in);
    switch (pick(&in, 0, 3)) {
    case 0:
        check_cells(&t, &in);
        break;
    case 1:
        check_codes(&t, &in);
        break;
    case 2:
        check_moments(&t, &in);
        break;
    default:
        check_join(&t);
    }
    free(t.x);
    free(t.x32);
    free(t.code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(fuzz_input) = {check};
    run_one(checks, 1, data, size);
    return 0;
}
