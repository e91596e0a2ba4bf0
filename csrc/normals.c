/* Normals on the line and in columns: masses of cells and what follows from them, and the statistic of a row under a mixture. Only
 * additions, products, quotients and roots, each rounded by itself and in one order, and exp of the C library: the bits are those of
 * the plain program (tests/twins/normals.py), whatever is searched for in between. Exponentials of whole arrays stay with the
 * caller. */
#include "internal.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

/* The error function by the rational functions of Cephes (S. Moshier), leading coefficient first; a leading 1 is left out. */
static const double near_top[] = {9.60497373987051638749E0, 9.00260197203842689217E1, 2.23200534594684319226E3,
    7.00332514112805075473E3, 5.55923013010394962768E4};
static const double near_bottom[] = {3.35617141647503099647E1, 5.21357949780152679795E2, 4.59432382970980127987E3,
    2.26290000613890934246E4, 4.92673942608635921086E4};
static const double middle_top[] = {2.46196981473530512524E-10, 5.64189564831068821977E-1, 7.46321056442269912687E0,
    4.86371970985681366614E1, 1.96520832956077098242E2, 5.26445194995477358631E2, 9.34528527171957607540E2,
    1.02755188689515710272E3, 5.57535335369399327526E2};
static const double middle_bottom[] = {1.32281951154744992508E1, 8.67072140885989742329E1, 3.54937778887819891062E2,
    9.75708501743205489753E2, 1.82390916687909736289E3, 2.24633760818710981792E3, 1.65666309194161350182E3,
    5.57535340817727675546E2};
static const double far_top[] = {5.64189583547755073984E-1, 1.27536670759978104416E0, 5.01905042251180477414E0,
    6.16021097993053585195E0, 7.40974269950448939160E0, 2.97886665372100240670E0};
static const double far_bottom[] = {2.26052863220117276590E0, 9.39603524938001434673E0, 1.20489539808096656605E1,
    1.70814450747565897222E1, 9.60896809063285878198E0, 3.36907645100081516050E0};
#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))
#define ROOT_HALF 0.70710678118654752440
#define ROOT_TWO_PI 0.39894228040143267794 /* its inverse */
#define FARTHEST_SQ 7.09782712893383996843E2 /* beyond, exp(-x^2) is nothing */
#define FARTHEST 40.0                        /* a distance whose product with the density counts as nothing */
#define WIDEST 1e70                          /* squares of squares stay finite */
#define LEAST_SQ 1e-300
#define BLOCK 64                             /* cells that a fit works on at a time */
#define ROWS 8                               /* of a tile: one in each lane, whatever the instruction set */

typedef struct {
    void (*scores)(const double *edges, int64_t n_edges, double mean, double std, double *z, double *exponents);
    void (*cells)(const double *z, const double *exponentials, int64_t n_edges, double *room, double *inside, double *density,
                  double *tilted);
    void (*slopes)(const fpp_cell_fit *fit, int64_t row, const double *exponentials, double *room, double *slopes, double *weighted,
                   double *residuals);
    void (*distances)(const char *x, int64_t n, int64_t stride_bytes, int is_f32, const fpp_normals *at, double *tiles, double *length_sq,
                      uint8_t *whole);
    void (*statistic)(int64_t n, const fpp_normals *at, const double *tiles, const double *length_sq, const double *share,
                      const uint8_t *whole, const double *radii, double *out);
} fpp_normal_loops;

#define KERNELS "normals_simd.h"
#include "each_level.h"

static const fpp_normal_loops *loops_now(void)
{
    return FPP_AT_LEVEL(&normal_loops);
}

FPP_API int32_t fpp_normal_scores_f64(const double *edges, int64_t n_edges, const double *means, const double *stds, int64_t n,
                                      double *z, double *exponents)
{
    if (n_edges < 2 || n_edges > FPP_DIM_MAX || edges == NULL || !fpp_is_given(means, n, n_edges * 8) || !fpp_is_given(stds, n, n_edges * 8)
        || !fpp_is_given(z, n, n_edges * 8)) {
        return FPP_ERR_ARGUMENT;
    }
    const fpp_normal_loops *loops = loops_now();
    for (int64_t i = 0; i < n; i++) {
        loops->scores(edges, n_edges, means[i], stds[i], z + i * n_edges, exponents == NULL ? NULL : exponents + i * n_edges);
    }
    return FPP_OK;
}

FPP_API int32_t fpp_normal_cells_f64(const double *z, const double *exponentials, int64_t n, int64_t n_edges, double *workspace,
                                     double *inside, double *density, double *tilted)
{
    if (n_edges < 2 || n_edges > FPP_DIM_MAX || !fpp_is_given(z, n, n_edges * 8) || workspace == NULL
        || !fpp_is_given(inside, n, n_edges * 8)
        || (exponentials != NULL && (!fpp_is_given(density, n, n_edges * 8) || !fpp_is_given(tilted, n, n_edges * 8)))) {
        return FPP_ERR_ARGUMENT;
    }
    const fpp_normal_loops *loops = loops_now();
    for (int64_t i = 0; i < n; i++) {
        const int64_t cell = i * (n_edges - 1);
        loops->cells(z + i * n_edges, exponentials == NULL ? NULL : exponentials + i * n_edges, n_edges, workspace, inside + cell,
                     exponentials == NULL ? NULL : density + cell, exponentials == NULL ? NULL : tilted + cell);
    }
    return FPP_OK;
}

FPP_API int32_t fpp_normal_slopes_f64(const fpp_cell_fit *fit, const int64_t *rows, const double *exponentials, int64_t n,
                                      double *workspace, double *slopes, double *weighted, double *residuals)
{
    if (fit == NULL || fit->size < 0 || fit->size > FPP_DIM_MAX || fit->components < 1 || fit->components > FPP_DIM_MAX || fit->cells < 1
        || fit->cells > FPP_DIM_MAX || fit->counts == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t parameters = fit->components * (fit->fixed_std ? 2 : 3), row_bytes = fit->components * (fit->cells + 1) * 8;
    if (!fpp_is_given(fit->weights, fit->size, 8) || !fpp_is_given(fit->inside, fit->size, row_bytes)
        || !fpp_is_given(fit->z, fit->size, row_bytes) || !fpp_is_given(rows, n, 3 * row_bytes)
        || !fpp_is_given(exponentials, n, row_bytes) || workspace == NULL || !fpp_is_given(slopes, n, 8)
        || !fpp_is_given(weighted, n, 8) || !fpp_is_given(residuals, n, 8)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; i < n; i++) {
        if (rows[i] < 0 || rows[i] >= fit->size) {
            return FPP_ERR_ARGUMENT;
        }
    }
    const fpp_normal_loops *loops = loops_now();
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i * parameters * fit->cells;
        loops->slopes(fit, rows[i], exponentials + i * fit->components * (fit->cells + 1), workspace, slopes + at, weighted + at, residuals + i * fit->cells);
    }
    return FPP_OK;
}

static int32_t normals_are_valid(const fpp_normals *at)
{
    return at != NULL && at->dim >= 1 && at->dim <= FPP_DIM_MAX && at->components >= 1 && at->components <= FPP_DIM_MAX
        && at->means != NULL && at->stds != NULL;
}

FPP_API int64_t fpp_statistic_tiles(const fpp_normals *at, int64_t n)
{
    if (!normals_are_valid(at) || n < 0 || n > INT64_MAX / 16 / ((at->components + 1) * at->dim) - ROWS) {
        return -1;
    }
    return ((n + ROWS - 1) / ROWS * at->components + 1) * at->dim * ROWS;
}

static int32_t normal_distances(const char *x, int64_t n, int64_t row_stride, int is_f32, const fpp_normals *at, double *tiles,
                                double *length_sq, uint8_t *whole)
{
    int64_t stride_bytes;
    if (!normals_are_valid(at) || !fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || fpp_statistic_tiles(at, n) < 0
        || tiles == NULL || !fpp_is_given(length_sq, n, at->components * 8) || !fpp_is_given(whole, n, 1)) {
        return FPP_ERR_ARGUMENT;
    }
    loops_now()->distances(x, n, stride_bytes, is_f32, at, tiles, length_sq, whole);
    return FPP_OK;
}

FPP_API int32_t fpp_normal_distances_f64(const double *x, int64_t n, int64_t row_stride, const fpp_normals *at, double *tiles,
                                         double *length_sq, uint8_t *whole)
{
    return normal_distances((const char *)x, n, row_stride, 0, at, tiles, length_sq, whole);
}

FPP_API int32_t fpp_normal_distances_f32(const float *x, int64_t n, int64_t row_stride, const fpp_normals *at, double *tiles,
                                         double *length_sq, uint8_t *whole)
{
    return normal_distances((const char *)x, n, row_stride, 1, at, tiles, length_sq, whole);
}

FPP_API int32_t fpp_normal_statistic_f64(const double *tiles, const double *length_sq, const double *share, const uint8_t *whole,
                                         int64_t n, const fpp_normals *at, const double *radii, double *out)
{
    if (!normals_are_valid(at) || n < 0 || fpp_statistic_tiles(at, n) < 0 || tiles == NULL || radii == NULL
        || !fpp_is_given(length_sq, n, at->components * 8) || !fpp_is_given(share, n, at->components * 8) || !fpp_is_given(whole, n, 1)
        || !fpp_is_given(out, n, at->components * (1 + 2 * at->dim) * 8)) {
        return FPP_ERR_ARGUMENT;
    }
    loops_now()->statistic(n, at, tiles, length_sq, share, whole, radii, out);
    return FPP_OK;
}
