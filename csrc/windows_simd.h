/* Loops of windows.c over all cells of a column: included under the macros W, NAME and TARGET of an instruction set, whose vectors the
 * compiler uses. */

#define NEAR 32 /* sums that are compared before one is asked for */

TARGET static double NAME(least_of)(const double *a, const double *b, int64_t cells)
{
    double least[16];
    for (int l = 0; l < 16; l++) {
        least[l] = INFINITY;
    }
    int64_t k = 0;
    for (; k + 16 <= cells; k += 16) {
        for (int l = 0; l < 16; l++) {
            const double v = b == NULL ? a[k + l] : a[k + l] + b[k + l];
            least[l] = v < least[l] ? v : least[l];
        }
    }
    for (; k < cells; k++) {
        const double v = b == NULL ? a[k] : a[k] + b[k];
        least[0] = v < least[0] ? v : least[0];
    }
    double found = INFINITY;
    for (int l = 0; l < 16; l++) {
        found = least[l] < found ? least[l] : found;
    }
    return found;
}

TARGET static void NAME(add_cells)(const double *a, const double *b, int64_t cells, double *restrict out)
{
    for (int64_t k = 0; k < cells; k++) {
        out[k] = a[k] + b[k];
    }
}

TARGET static void NAME(note_windows)(window_search *search, enum side side, int64_t width, const double *total, const double *half,
                                      const double *a, const double *b, double least)
{
    const int64_t sums = search->cells - width + 1;
    for (int64_t k = 0; k < sums; k += NEAR) {
        const int64_t end = k + NEAR < sums ? k + NEAR : sums;
        int64_t some = 0;
        if (end - k == NEAR) {
            for (int l = 0; l < NEAR; l++) {
                some |= total[k + l] > least;
            }
        } else {
            some = 1;
        }
        for (int64_t i = k; some && i < end; i++) {
            if (total[i] > least) {
                note_window(search, side, width, i, total[i], half[i + width / 2], a, b);
            }
        }
    }
}

#undef NEAR
#undef W
#undef NAME
#undef TARGET
