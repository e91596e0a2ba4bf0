/* All pairs of hypotheses: codes of log densities at rows, how many rows prefer one hypothesis to another, and scores over cells.
 * Everything that is compared is an integer, so a row or cell belongs to a Scheffe set or not, on every instruction set alike. */
#include "internal.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define FPP_ROWS_MAX 16
#define FPP_DRAWN_COMPONENTS 16
#define FPP_PAIR_ROWS 256 /* two panels of codes then fit into the first-level cache */

/* Draws from one hypothesis that are compared with all: see draws_simd.h. */
typedef struct {
    const fpp_mixtures *mix;
    int64_t own, width; /* width: hypotheses in whole panels */
    float *parameters;  /* for each vector of hypotheses: of each component a constant, -inf if it has a limit, then a factor and a shift for each column */
    int32_t *narrow;    /* for each vector: whether some component has a limit */
    float *reach;       /* (width): the largest factor of components without a limit */
    float *narrowest;   /* (width): the largest factor of all */
    float *floor;       /* (width): what a component with a limit may come up to and yet count for nothing */
    float *highest;     /* (width): the largest constant */
    float *size;        /* (width): the largest size of a constant */
    float *margin;      /* (width): how near to an edge single precision cannot tell */
    float *logs;        /* (vectors, FPP_ROWS_MAX, lanes) */
    float *points;      /* (FPP_ROWS_MAX, dim) */
    double *center, *scale, *rows, *work;
    int16_t *codes;
} fpp_draws;

typedef struct {
    void (*codes)(const fpp_mixtures *mix, const double *x, int64_t n, int64_t capacity, double *work, int16_t *codes);
    void (*count_pairs)(const int16_t *codes, int64_t n, int64_t capacity, int64_t panels, int64_t panel, int32_t *work,
                        int32_t *counts);
    void (*count_draws)(const fpp_draws *draws, const double *x, int64_t n, int32_t *counts);
    void (*score_cells)(const int32_t *table, int64_t cells, int64_t panels, int64_t panel, int32_t shift, int32_t *worst);
} fpp_pair_kernels;

/* Whether single precision is tried. */
static int fits_single(const fpp_mixtures *mix)
{
    return FPP_X86 && !mix->lower && mix->dim <= 1024 && mix->components <= FPP_DRAWN_COMPONENTS;
}

#if FPP_X86
#define FPP_BEND_TERMS 5
#define FPP_BEND_END(pieces) ((pieces) == 16 ? 13.5f : 11.0f)
#define FPP_BEND_INVERSE(pieces) ((float)((pieces) - 1) / FPP_BEND_END(pieces))

/* (FPP_BEND_TERMS, pieces): polynomials for log(1 + e^-g) around each g = piece / FPP_BEND_INVERSE, in numbers of pieces, through its values
 * at Chebyshev's nodes, so that [0, FPP_BEND_END] is covered; 8 or 16 pieces. */
static void make_bend(int pieces, float *table)
{
    const double near = 0.29389262614623657, far = 0.47552825814757677, near_sq = near * near, far_sq = far * far; /* sines of 36, 72 degrees */
    for (int piece = 0; piece < pieces; piece++) {
        double at[5]; /* at 0, +-near, +-far */
        const double offsets[5] = {0.0, near, -near, far, -far};
        for (int i = 0; i < 5; i++) {
            at[i] = log1p(exp(-(piece + offsets[i]) / (double)FPP_BEND_INVERSE(pieces)));
        }
        const double even_near = (0.5 * (at[1] + at[2]) - at[0]) / near_sq, even_far = (0.5 * (at[3] + at[4]) - at[0]) / far_sq;
        const double odd_near = 0.5 * (at[1] - at[2]) / near, odd_far = 0.5 * (at[3] - at[4]) / far;
        const double fourth = (even_far - even_near) / (far_sq - near_sq), third = (odd_far - odd_near) / (far_sq - near_sq);
        table[piece] = (float)at[0];
        table[pieces + piece] = (float)(odd_near - third * near_sq);
        table[2 * pieces + piece] = (float)(even_near - fourth * near_sq);
        table[3 * pieces + piece] = (float)third;
        table[4 * pieces + piece] = (float)fourth;
    }
}

/* Puts the broadest component of a hypothesis first, whose parameters are `lanes` apart, and sets the limits of those that are 256 times
 * narrower; reach (components) is of each, 0 of one that is missing, and reach[0] becomes that of all without a limit. Whether there are limits. */
static int limit_narrow(const fpp_mixtures *mix, float *parameters, int64_t lanes, double *reach, float *narrowest)
{
    const int64_t length = 2 + 2 * mix->dim;
    int64_t broadest = 0;
    int limited = 0;
    *narrowest = 0.0f;
    for (int64_t c = 1; c < mix->components; c++) {
        broadest = reach[c] > 0.0 && !(reach[c] >= reach[broadest] && reach[broadest] > 0.0) ? c : broadest;
    }
    double most = reach[broadest];
    for (int64_t c = 0; c < mix->components; c++) {
        limited |= reach[c] > 256.0 * most;
        *narrowest = reach[c] > *narrowest ? (float)reach[c] : *narrowest;
    }
    for (int64_t i = 0; limited && i < length * lanes; i += lanes) {
        const float first = parameters[i];
        parameters[i] = parameters[broadest * length * lanes + i];
        parameters[broadest * length * lanes + i] = first;
    }
    const double lowest = most;
    if (limited) {
        reach[broadest] = reach[0];
    }
    for (int64_t c = limited ? 1 : 0; c < mix->components; c++) {
        if (reach[c] > 256.0 * lowest) {
            parameters[(c * length + 1) * lanes] = -INFINITY;
        } else {
            most = reach[c] > most ? reach[c] : most;
        }
    }
    reach[0] = most;
    return limited;
}
#endif

#define W 2
#define NAME(x) x##_baseline
#define TARGET
#define IB 4
#define RT 2
#include "hypotheses_simd.h"

#if FPP_X86
#define W 4
#define NAME(x) x##_avx2
#define TARGET FPP_TARGET_AVX2
#define IB 4
#define RT 4
#include "hypotheses_simd.h"

#define W 8
#define NAME(x) x##_avx512
#define TARGET FPP_TARGET_AVX512
#define IB 8
#define RT 4
#include "hypotheses_simd.h"
#endif

static const fpp_pair_kernels *kernels_now(void)
{
    return FPP_AT_LEVEL(&pair_kernels);
}

static int32_t mixtures_are_valid(const fpp_mixtures *mix)
{
    if (mix == NULL || mix->dim < 1 || mix->dim > FPP_DIM_MAX || mix->components < 1 || mix->components > FPP_DIM_MAX
        || mix->panels < 1 || mix->panels > FPP_DIM_MAX || mix->means == NULL || mix->constants == NULL) {
        return 0;
    }
    const int64_t length = mix->lower ? mix->dim * (mix->dim + 1) / 2 : mix->dim;
    return fpp_is_given(mix->factors, mix->components * mix->panels, FPP_PANEL * length * (int64_t)sizeof(double));
}

/* `entries` for each of the panels: 2-byte codes or 4-byte cells. */
static int32_t panels_are_given(const void *array, int64_t entries, int64_t panels)
{
    return panels >= 1 && panels <= FPP_DIM_MAX && fpp_is_given(array, entries, panels * FPP_PANEL * (int64_t)sizeof(int32_t));
}

static int32_t codes_are_valid(const int16_t *codes, int64_t n, int64_t capacity, int64_t panels)
{
    return n >= 0 && n <= capacity && panels_are_given(codes, capacity, panels);
}

FPP_API int64_t fpp_density_workspace_size(const fpp_mixtures *mix)
{
    if (!mixtures_are_valid(mix)) {
        return -1;
    }
    return (int64_t)sizeof(double) * FPP_ROWS_MAX * (mix->dim + mix->panels * FPP_PANEL + 8 * mix->components);
}

FPP_API int32_t fpp_density_codes_i16(const fpp_mixtures *mix, const double *x, int64_t n, int64_t capacity, double *workspace,
                                      int16_t *codes)
{
    if (!mixtures_are_valid(mix) || !codes_are_valid(codes, n, capacity, mix->panels) || workspace == NULL
        || !fpp_is_given(x, n, mix->dim * (int64_t)sizeof *x)) {
        return FPP_ERR_ARGUMENT;
    }
    kernels_now()->codes(mix, x, n, capacity, workspace, codes);
    return FPP_OK;
}

FPP_API int32_t fpp_pair_counts_i32(const int16_t *codes, int64_t n, int64_t capacity, int64_t panels, int64_t panel,
                                    int32_t *workspace, int32_t *counts)
{
    if (!codes_are_valid(codes, n, capacity, panels) || panel < 0 || panel >= panels || workspace == NULL || counts == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    kernels_now()->count_pairs(codes, n, capacity, panels, panel, workspace, counts);
    return FPP_OK;
}

/* Where everything stands in a workspace; how many bytes that takes. */
static int64_t lay_out(const fpp_mixtures *mix, int64_t own, char *workspace, fpp_draws *draws)
{
    const int64_t width = mix->panels * FPP_PANEL, single = (int64_t)sizeof(float), dim = mix->dim;
    char *const begin = workspace == NULL ? NULL : fpp_aligned(workspace);
    int64_t at = 0;
    *draws = (fpp_draws){.mix = mix, .own = own, .width = width};
    draws->parameters = fpp_take(begin, &at, fits_single(mix) ? width * mix->components * (2 + 2 * dim) * single : 0);
    draws->narrow = fpp_take(begin, &at, width * single);
    draws->reach = fpp_take(begin, &at, width * single);
    draws->narrowest = fpp_take(begin, &at, width * single);
    draws->floor = fpp_take(begin, &at, width * single);
    draws->highest = fpp_take(begin, &at, width * single);
    draws->size = fpp_take(begin, &at, width * single);
    draws->margin = fpp_take(begin, &at, width * single);
    draws->logs = fpp_take(begin, &at, FPP_ROWS_MAX * width * single);
    draws->points = fpp_take(begin, &at, FPP_ROWS_MAX * dim * single);
    draws->center = fpp_take(begin, &at, dim * (int64_t)sizeof(double));
    draws->scale = fpp_take(begin, &at, dim * (int64_t)sizeof(double));
    draws->rows = fpp_take(begin, &at, FPP_ROWS_MAX * dim * (int64_t)sizeof(double));
    draws->work = fpp_take(begin, &at, fpp_density_workspace_size(mix));
    draws->codes = fpp_take(begin, &at, FPP_ROWS_MAX * width * (int64_t)sizeof(int16_t));
    return at + 64;
}

FPP_API int64_t fpp_draw_workspace_size(const fpp_mixtures *mix)
{
    fpp_draws draws;
    return mixtures_are_valid(mix) ? lay_out(mix, 0, NULL, &draws) : -1;
}

FPP_API int32_t fpp_draw_counts_i32(const fpp_mixtures *mix, const double *x, int64_t n, int64_t own, void *workspace, int32_t *counts)
{
    fpp_draws draws;
    if (!mixtures_are_valid(mix) || n < 0 || n > INT32_MAX || !fpp_is_given(x, n, mix->dim * (int64_t)sizeof *x) || own < 0
        || own >= mix->panels * FPP_PANEL || workspace == NULL || counts == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    lay_out(mix, own, workspace, &draws);
    memset(counts, 0, (size_t)(mix->panels * FPP_PANEL) * sizeof *counts);
    kernels_now()->count_draws(&draws, x, n, counts);
    return FPP_OK;
}

FPP_API int32_t fpp_cell_scores_i32(const int32_t *table, int64_t cells, int64_t panels, int64_t panel, int32_t shift, int32_t *worst)
{
    if (cells < 1 || !panels_are_given(table, cells, panels) || worst == NULL || panel < 0 || panel >= panels || shift < 0
        || shift > 30) {
        return FPP_ERR_ARGUMENT;
    }
    kernels_now()->score_cells(table, cells, panels, panel, shift, worst);
    return FPP_OK;
}
