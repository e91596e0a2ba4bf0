/* All pairs of hypotheses: codes of log densities at rows, how many rows prefer one hypothesis to another, and scores over cells.
 * Everything that is compared is an integer, so a row or cell belongs to a Scheffe set or not, on every instruction set alike. */
#include "internal.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define FPP_ROWS_MAX 16
#define FPP_PAIR_ROWS 256 /* two panels of codes then fit into the first-level cache */

typedef struct {
    void (*codes)(const fpp_mixtures *mix, const double *x, int64_t n, int64_t capacity, double *work, int16_t *codes);
    void (*count_pairs)(const int16_t *codes, int64_t n, int64_t capacity, int64_t panels, int64_t panel, int32_t *work,
                        int32_t *counts);
    void (*score_cells)(const int32_t *table, int64_t cells, int64_t panels, int64_t panel, int32_t shift, int32_t *worst);
} fpp_pair_kernels;

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
    return (int64_t)sizeof(double) * FPP_ROWS_MAX * (3 * mix->dim + mix->panels * FPP_PANEL + 8 * mix->components);
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

FPP_API int32_t fpp_cell_scores_i32(const int32_t *table, int64_t cells, int64_t panels, int64_t panel, int32_t shift, int32_t *worst)
{
    if (cells < 1 || !panels_are_given(table, cells, panels) || worst == NULL || panel < 0 || panel >= panels || shift < 0
        || shift > 30) {
        return FPP_ERR_ARGUMENT;
    }
    kernels_now()->score_cells(table, cells, panels, panel, shift, worst);
    return FPP_OK;
}
