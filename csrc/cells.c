/* Rows brought near to one another before they are searched: halvings along the longest side. Which rows share a panel decides how
 * much is looked at, never what is found. Public rows, or the places of private ones in a tree over a sample. */
#include "lanes.h"

#define STACK 128

/* Reorder order[begin ... end - 1] so that the key is nowhere larger before middle than from middle on. */
static void select_middle(const double *key, int64_t *order, int64_t begin, int64_t end, int64_t middle)
{
    int64_t low = begin, high = end - 1;
    while (low < high) {
        const double a = key[order[low]], b = key[order[(low + high) / 2]], c = key[order[high]];
        const double small = a < b ? a : b, large = a < b ? b : a, upper = large < c ? large : c, pivot = small > upper ? small
            : upper;
        int64_t i = low, j = high;
        while (i <= j) {
            while (key[order[i]] < pivot) {
                i++;
            }
            while (key[order[j]] > pivot) {
                j--;
            }
            if (i <= j) {
                const int64_t held = order[i];
                order[i++] = order[j];
                order[j--] = held;
            }
        }
        if (middle <= j) {
            high = j;
        } else if (middle >= i) {
            low = i;
        } else {
            break;
        }
    }
}

static double side_length(const double *column, const int64_t *order, int64_t begin, int64_t end)
{
    double low = column[order[begin]], high = low;
    for (int64_t i = begin; i < end; i++) {
        const double x = column[order[i]];
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    return high - low;
}

/* Order rows so that each run of 64 is a cell. */
static void split(const double *columns, int64_t m, int64_t dim, int64_t *order)
{
    int64_t first[STACK] = {0}, last[STACK] = {m}, depth = 1;
    while (depth > 0) {
        const int64_t begin = first[--depth], end = last[depth];
        if (end - begin <= LANES) {
            continue;
        }
        int64_t longest = 0;
        double side = -1.0;
        for (int64_t k = 0; k < dim; k++) {
            const double length = side_length(columns + k * m, order, begin, end);
            if (length > side) {
                longest = k;
                side = length;
            }
        }
        const int64_t middle = begin + (end - begin + LANES) / (2 * LANES) * LANES;
        select_middle(columns + longest * m, order, begin, end, middle);
        first[depth] = begin;
        last[depth++] = middle;
        first[depth] = middle;
        last[depth++] = end;
    }
}

FPP_API int32_t fpp_blocks_make(const double *columns, int64_t m, int64_t dim, int64_t *order, double *panels, double *lower,
                                double *upper)
{
    if (dim < 1 || dim > FPP_DIM_MAX || m < 1 || !fpp_is_given(columns, m, dim * (int64_t)sizeof(double)) || order == NULL
        || panels == NULL
        || lower == NULL || upper == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t count = (m + LANES - 1) / LANES;
    for (int64_t i = 0; i < count * LANES; i++) {
        order[i] = i < m ? i : -1;
    }
    split(columns, m, dim, order);
    for (int64_t p = 0; p < count; p++) {
        for (int64_t k = 0; k < dim; k++) {
            const double *column = columns + k * m;
            double *panel = panels + (p * dim + k) * LANES, low = INFINITY, high = -INFINITY;
            for (int64_t v = 0; v < LANES; v++) {
                const int64_t i = order[p * LANES + v];
                panel[v] = i >= 0 ? column[i] : NAN;
                low = panel[v] < low ? panel[v] : low;
                high = panel[v] > high ? panel[v] : high;
            }
            lower[(p / LANES * dim + k) * LANES + p % LANES] = low;
            upper[(p / LANES * dim + k) * LANES + p % LANES] = high;
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_cells_plant(const double *columns, int64_t s, int64_t dim, int64_t depth, int64_t *order, int64_t *side,
                                double *cut)
{
    if (dim < 1 || dim > FPP_DIM_MAX || !fpp_is_given(columns, s, dim * (int64_t)sizeof(double)) || depth < 0 || depth > 30
        || s < (depth > 0 ? INT64_C(1) << depth : 0) || !fpp_is_given(order, s, (int64_t)sizeof *order)
        || !fpp_is_given(side, depth, (int64_t)sizeof *side) || cut == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; i < s; i++) {
        order[i] = i;
    }
    for (int64_t level = 0; level < depth; level++) {
        const int64_t cells = INT64_C(1) << level;
        /* The columns are taken by the sum of their extents over all cells, so that the rows of a block move in step. */
        double width = -1.0;
        side[level] = 0;
        for (int64_t k = 0; k < dim; k++) {
            double total = 0.0;
            for (int64_t cell = 0; cell < cells; cell++) {
                total += side_length(columns + k * s, order, s * cell >> level, s * (cell + 1) >> level);
            }
            if (total > width) {
                side[level] = k;
                width = total;
            }
        }
        const double *column = columns + side[level] * s;
        for (int64_t cell = 0; cell < cells; cell++) {
            const int64_t middle = s * (2 * cell + 1) >> (level + 1);
            select_middle(column, order, s * cell >> level, s * (cell + 1) >> level, middle);
            cut[cells + cell] = column[order[middle]];
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_cells_sort(const int32_t *leaf, int64_t n, int64_t cells, int64_t *starts, int64_t *order, int64_t *kept)
{
    if (!fpp_is_given(leaf, n, (int64_t)sizeof(int64_t)) || cells < 1 || starts == NULL
        || !fpp_is_given(order, n, (int64_t)sizeof *order) || kept == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    /* starts[c + 1] counts cell c, starts[0] what is in none of them, and then each says where the next row of its cell goes. */
    memset(starts, 0, (size_t)(cells + 1) * sizeof *starts);
    for (int64_t i = 0; i < n; i++) {
        starts[leaf[i] >= 0 && leaf[i] < cells ? leaf[i] + 1 : 0]++;
    }
    int64_t total = 0;
    for (int64_t c = 1; c <= cells; c++) {
        const int64_t count = starts[c];
        starts[c] = total;
        total += count;
    }
    for (int64_t i = 0; i < n; i++) {
        if (leaf[i] >= 0 && leaf[i] < cells) {
            order[starts[leaf[i] + 1]++] = i;
        }
    }
    *kept = total;
    return FPP_OK;
}

FPP_API int32_t fpp_panels_fill(const void *x, int32_t is_f32, int64_t m, int64_t dim, const int64_t *order, int64_t count,
                                void *panels)
{
    if (dim < 1 || dim > FPP_DIM_MAX || !fpp_is_given(x, m, dim * 8) || !fpp_is_given(order, count, LANES * 8)
        || !fpp_is_given(panels, count, LANES * dim * 8)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t p = 0; p < count; p++) {
        for (int64_t k0 = 0; k0 < dim; k0 += 16) { /* a cache line or two of each row, and pages of the panel that stay near */
            const int64_t k1 = least(k0 + 16, dim);
            for (int64_t v = 0; v < LANES; v++) {
                const int64_t i = order[p * LANES + v];
                for (int64_t k = k0; k < k1; k++) {
                    const int64_t to = (p * dim + k) * LANES + v;
                    if (is_f32) {
                        ((float *)panels)[to] = i >= 0 ? ((const float *)x)[i * dim + k] : INFINITY;
                    } else {
                        ((double *)panels)[to] = i >= 0 ? ((const double *)x)[i * dim + k] : (double)INFINITY;
                    }
                }
            }
        }
    }
    return FPP_OK;
}
