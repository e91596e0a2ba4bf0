/* Columns of rows that are in groups: numbers counted between ascending edges, and clipped to the box of their group and added up. Each
 * number by itself, so that what a row adds depends on that row, its group and public values alone. */
#include "rowmap.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define ROWS 256       /* looked at together, one column after another: they stay in the first cache; fewer get no buckets */
#define STRIP 16       /* columns whose lists are ready at a time */
#define BUCKETS 512    /* of a list */
#define MOST_LISTED 255

/* Ascending edges, or keys. A number has a bucket, none before that of a smaller one, and only edges in its own are compared with it;
 * `start` of them lie in buckets before. A list that has none of its own puts all numbers into the first. */
typedef struct {
    const double *edges;
    int64_t n;
    double low, inverse, edge[BUCKETS + 1]; /* of a bucket without edges infinite; of several, and of what is not finite, NaN */
    uint16_t start[BUCKETS];
    uint32_t counts[2 * BUCKETS]; /* below and above the edge of each bucket: neighbors seldom share one, and need not wait for each other */
} list;

/* The group of a row, -1 if it is in none. */
FPP_INLINE int64_t group_of(const int32_t *code, int64_t row, int64_t groups)
{
    const int64_t group = code == NULL ? 0 : code[row];
    return group < groups && group >= 0 ? group : -1;
}

/* Bits that make lanes beyond the last column NaN: from entry FPP_LANES less the columns that are left. */
static const int64_t BEYOND[2 * FPP_LANES] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};

#define KERNELS "groups_simd.h"
#include "each_level.h"

/* How many of n ascending edges are at most the number: halvings without branches. */
FPP_INLINE int64_t at_most(const double *edges, int64_t n, double value)
{
    const double *first = edges;
    for (; n > 0; n /= 2) {
        const int64_t half = n - n / 2;
        first += (first[half - 1] <= value) * half;
    }
    return first - edges;
}

/* ROWS numbers of a column, the last of them NaN if there are fewer rows. */
FPP_INLINE void read_column(const char *x, int64_t stride_bytes, int64_t rows, int32_t is_f32, double *value)
{
    for (int64_t r = 0; r < rows; r++) {
        value[r] = fpp_entry(x + r * stride_bytes, 0, is_f32);
    }
    for (int64_t r = rows; r < ROWS; r++) {
        value[r] = NAN;
    }
}

/* Buckets as wide as the middle of the edges asks: this changes the speed and nothing else. */
static void make_list(const double *edges, int64_t n, int64_t rows, list *l)
{
    l->edges = edges;
    l->n = n;
    const double begin = n > 1 ? edges[n / 16] : 0.0, reach = n > 1 ? edges[n - 1 - n / 16] - begin : 0.0, inverse = BUCKETS / (1.5 * reach);
    const int32_t bare = rows < ROWS || n > MOST_LISTED || !(reach > 0.0 && reach < 1e300 && inverse < 1e300);
    l->low = bare ? 0.0 : begin - reach / 4.0;
    l->inverse = bare ? 0.0 : inverse;
    memset(l->counts, 0, sizeof l->counts);
    l->edge[0] = l->edge[BUCKETS] = NAN;
    double copied[ROWS];
    int64_t bucket[ROWS];
    read_column((const char *)edges, sizeof *edges, fpp_min(n, ROWS), 0, copied);
    FPP_AT_LEVEL(find_buckets)(copied, l->low, l->inverse, bucket);
    for (int64_t b = 0, at = 0; b < BUCKETS && !bare; b++) {
        const int64_t before = at;
        while (at < n && bucket[at] <= b) {
            at++;
        }
        l->start[b] = (uint16_t)before;
        l->edge[b] = at > before + 1 ? NAN : at > before ? edges[before] : INFINITY;
    }
}

/* The cells of at most ROWS numbers. */
static void find_cells(const list *l, const double *value, int64_t rows, int64_t *cell)
{
    FPP_AT_LEVEL(find_buckets)(value, l->low, l->inverse, cell);
    for (int64_t r = 0; r < rows; r++) {
        const double edge = l->edge[cell[r]];
        cell[r] = FPP_UNLIKELY(isnan(edge)) ? at_most(l->edges, l->n, value[r]) : l->start[cell[r]] + (edge <= value[r]);
    }
}

/* Adds the cells of at most ROWS numbers that are in no groups to the counters of a list, or to `counts`. */
static void count_listed(list *l, const double *value, int64_t rows, int64_t *counts)
{
    int64_t bucket[ROWS];
    FPP_AT_LEVEL(find_buckets)(value, l->low, l->inverse, bucket);
    for (int64_t r = 0; r < rows; r++) {
        const double edge = l->edge[bucket[r]];
        if (FPP_UNLIKELY(isnan(edge))) {
            counts[at_most(l->edges, l->n, value[r])] += fabs(value[r]) < INFINITY;
        } else {
            l->counts[2 * bucket[r] + (edge <= value[r])]++;
        }
    }
}

static int32_t lists_are_given(const double *edges, const int64_t *begins, int64_t lists)
{
    int32_t ascend = begins != NULL && begins[0] == 0;
    for (int64_t i = 0; i < lists && ascend; i++) {
        ascend = begins[i + 1] >= begins[i];
    }
    return ascend && fpp_is_given(edges, begins[lists], (int64_t)sizeof *edges);
}

/* Adds one column of at most ROWS rows to `counts`: by its list or, without, by that of each group from `begins` on. */
static void count_column(const char *x, int64_t stride_bytes, int64_t rows, int32_t is_f32, const int32_t *code, int64_t groups,
                         list *shared, const double *edges, const int64_t *begins, int64_t *counts)
{
    double copied[ROWS];
    int64_t cell[ROWS];
    const double *value = rows == ROWS && stride_bytes == 8 && !is_f32 ? (const double *)(const void *)x : copied;
    if (value == copied) {
        read_column(x, stride_bytes, rows, is_f32, copied);
    }
    if (code == NULL) {
        count_listed(shared, value, rows, counts);
        return;
    }
    if (shared != NULL) {
        const int64_t size = shared->n + 1;
        find_cells(shared, value, rows, cell);
        for (int64_t r = 0; r < rows; r++) {
            const int64_t group = group_of(code, r, groups);
            if (group >= 0) {
                counts[group * size + cell[r]] += fabs(value[r]) < INFINITY;
            }
        }
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        const int64_t group = group_of(code, r, groups);
        if (group >= 0) {
            const double *own = edges + begins[group];
            counts[own - edges - begins[0] + group + at_most(own, begins[group + 1] - begins[group], value[r])] += fabs(value[r]) < INFINITY;
        }
    }
}

FPP_API int32_t fpp_columns_cells(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, int64_t dim, const int32_t *code,
                                  int64_t groups, int32_t own, const double *edges, const int64_t *begins, int64_t *counts)
{
    int64_t stride_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || dim < 1 || dim > FPP_DIM_MAX || groups < 1
        || groups > FPP_GROUPS_MAX || n > UINT32_MAX || (code == NULL && (groups > 1 || own)) || counts == NULL
        || !lists_are_given(edges, begins, own ? dim * groups : dim)) {
        return FPP_ERR_ARGUMENT;
    }
    list lists[STRIP];
    for (int64_t strip = 0; strip < dim; strip += STRIP) {
        const int64_t last = fpp_min(strip + STRIP, dim), each = own ? groups : 1;
        for (int64_t k = strip; k < last && !own; k++) {
            make_list(edges + begins[k], begins[k + 1] - begins[k], n, lists + (k - strip));
        }
        for (int64_t first = 0; first < n; first += ROWS) {
            for (int64_t k = strip; k < last; k++) {
                count_column((const char *)x + first * stride_bytes + k * (is_f32 ? 4 : 8), stride_bytes, fpp_min(ROWS, n - first), is_f32,
                             code == NULL ? NULL : code + first, groups, own ? NULL : lists + (k - strip), edges, begins + k * each,
                             counts + (begins[k * each] + k * each) * (own ? 1 : groups));
            }
        }
        for (int64_t k = strip; k < last && code == NULL; k++) {
            const list *l = lists + (k - strip);
            for (int64_t i = 0; i < 2 * BUCKETS; i++) {
                counts[begins[k] + k + (l->counts[i] > 0 ? l->start[i / 2] + i % 2 : 0)] += l->counts[i];
            }
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_column_codes(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const double *keys, int64_t n_keys,
                                 int32_t *code)
{
    const int64_t begins[2] = {0, n_keys};
    int64_t stride_bytes;
    list known;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || n_keys < 0 || n_keys > FPP_GROUPS_MAX
        || !lists_are_given(keys, begins, 1) || !fpp_is_given(code, n, (int64_t)sizeof *code)) {
        return FPP_ERR_ARGUMENT;
    }
    make_list(keys, n_keys, n, &known);
    for (int64_t first = 0; first < n; first += ROWS) {
        double value[ROWS];
        int64_t cell[ROWS];
        const int64_t rows = fpp_min(ROWS, n - first);
        read_column((const char *)x + first * stride_bytes, stride_bytes, rows, is_f32, value);
        find_cells(&known, value, rows, cell);
        for (int64_t r = 0; r < rows; r++) {
            const int64_t found = cell[r] > 0 && keys[cell[r] - 1] == value[r] ? cell[r] - 1 : n_keys;
            code[first + r] = (int32_t)(fabs(value[r]) < INFINITY ? found : n_keys + 1);
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_group_moments(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, int64_t dim, const int32_t *code,
                                  int64_t groups, const double *middle, const double *steps, int32_t squared, int64_t quant_bound, int64_t *sums)
{
    int64_t stride_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || dim < 1 || dim > FPP_DIM_MAX || groups < 1
        || groups > FPP_GROUPS_MAX || (code == NULL && groups > 1) || middle == NULL || steps == NULL || quant_bound < 1
        || quant_bound > INT64_C(1) << 26 || sums == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    FPP_AT_LEVEL(add_rows)(x, n, stride_bytes, dim, is_f32, code, groups, middle, steps, squared, (double)quant_bound, sums);
    return FPP_OK;
}

FPP_API int32_t fpp_columns_join(const double *const *columns, int64_t n, int64_t dim, double *out)
{
    if (columns == NULL || dim < 1 || dim > FPP_DIM_MAX || !fpp_is_given(out, n, dim * (int64_t)sizeof *out)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t k = 0; k < dim; k++) {
        if (!fpp_is_given(columns[k], n, (int64_t)sizeof **columns)) {
            return FPP_ERR_ARGUMENT;
        }
    }
    for (int64_t begin = 0; begin < n; begin += ROWS) {
        if (dim >= 8 && n - begin >= ROWS) {
            FPP_AT_LEVEL(join)(columns, begin, dim, out + begin * dim);
            continue;
        }
        for (int64_t r = begin; r < fpp_min(begin + ROWS, n); r++) {
            for (int64_t k = 0; k < dim; k++) {
                out[r * dim + k] = columns[k][r];
            }
        }
    }
    return FPP_OK;
}
