/* Released counts of columns pooled with those of public rows, by inverse variance: nearly all cells are far from every public row and
 * have one weight; the others follow one by one. */
#include "internal.h"

#include <math.h>
#include <string.h>

static void pool_far(const double *counts, int64_t cells, double weight, double variance, double *restrict values,
                     double *restrict variances)
{
    for (int64_t k = 0; k < cells; k++) {
        values[k] = (0.0 - counts[k]) * weight + counts[k];
        variances[k] = variance;
    }
}

/* Cells of the public numbers of one column: seen (sides, cells) has how many there are of each. */
static void count_public(const double *public, int64_t m, int64_t stride, double center, int32_t log2_parts, int64_t side, int64_t size,
                         int32_t *seen)
{
    memset(seen, 0, (size_t)size * sizeof *seen);
    for (int64_t i = 0; i < m; i++) {
        const double distance = public[i * stride] - center;
        uint64_t bits;
        memcpy(&bits, &distance, sizeof bits);
        const int64_t key = (int64_t)(((bits & INT64_MAX) - 1) >> (52 - log2_parts)) + (distance < 0.0 ? side : 0);
        if (distance != 0.0 && key < size) {
            seen[key]++;
        }
    }
}

FPP_API int64_t fpp_counts_pool(const double *counts, int64_t columns, int64_t apart, int32_t sides, int32_t log2_parts,
                                const double *public, int64_t m, int64_t row_stride, const double *centers, const double *own,
                                const double *factor, int32_t *workspace, double *values, double *variances, int64_t *lines,
                                int64_t *places)
{
    if (sides < 1 || sides > 2 || log2_parts < 0 || log2_parts > FPP_COLUMN_LOG2_PARTS_MAX) {
        return -1;
    }
    const int64_t side = INT64_C(2047) << log2_parts, size = sides * side;
    int64_t stride_bytes, found = 0;
    if (apart < size || apart > INT64_MAX / 16 || !fpp_is_given(counts, columns, apart * (int64_t)sizeof *counts)
        || !fpp_rows_are_given(public, m, row_stride, 0, &stride_bytes) || centers == NULL || own == NULL || factor == NULL
        || workspace == NULL || values == NULL || variances == NULL || lines == NULL || places == NULL || m > INT32_MAX) {
        return -1;
    }
    for (int64_t j = 0; j < columns; j++, counts += apart, values += size, variances += size) {
        const double square = factor[j] * factor[j], far = factor[j] > 0.0 ? own[j] / (own[j] + square * 0.5) : 0.0;
        pool_far(counts, size, far, own[j] * (1.0 - far), values, variances);
        count_public(public + j, m, row_stride, centers[j], log2_parts, side, size, workspace);
        for (int64_t k = 0; k < size; k++) {
            if (FPP_LIKELY(workspace[k] == 0)) {
                continue;
            }
            const int64_t at = k % side;
            lines[found] = j * sides + k / side;
            places[found++] = at;
            /* This cell and its neighbours on either side; one between two public rows is worked out twice, to the same numbers. */
            for (int64_t c = at > 0 ? k - 1 : k; c <= (at + 1 < side ? k + 1 : k); c++) {
                const double before = c % side > 0 ? workspace[c - 1] : 0.0, after = c % side + 1 < side ? workspace[c + 1] : 0.0;
                const double mean = (before + workspace[c] + after) / 3.0, weight = own[j] / (own[j] + square * (mean + 0.5));
                values[c] = counts[c] + weight * (factor[j] * workspace[c] - counts[c]);
                variances[c] = own[j] * (1.0 - weight);
            }
        }
    }
    return found;
}
