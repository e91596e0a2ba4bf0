/* Sum of q q^T over rows, exactly: rows rounded to int16, multiplied pairwise into int32, added up in int64. Where the outer pieces of
 * the rows are wanted too, both come from one product.
 *
 * Two rows share one int32 word per column, so that one instruction multiplies and adds a pair (pmaddwd; vpdpwssd also adds to the
 * accumulator). That is four times the multiply-adds per cycle of double precision, and the integers are exact, so the order is
 * free. An accumulator holds FPP_GRAM_FLUSH rows before it goes to int64; a tile of the result stays in L1 over a whole
 * super-panel of packed rows, so that the result itself is read and written once per super-panel.
 */
#include "rowmap.h"

#include <math.h>
#include <string.h>
#if FPP_X86
#include <immintrin.h>
#endif

#define ROWS_MAX 8         /* tile rows over the instruction sets */
#define NEAR_COLUMNS 256   /* whose result the second cache holds beside the packed rows */
#define FLUSH_PAIRS (FPP_GRAM_FLUSH / 2)

typedef struct {
    int64_t rows, width;      /* of a tile */
    int64_t step;             /* columns that `tile` can leave out at the right */
    /* tile (rows, width) += sum over pairs of a[pair][row] . b[pair][column], for `columns` of the columns at least */
    void (*tile)(const int32_t *a, const int32_t *b, int64_t pairs, int64_t columns, int64_t *tile);
} gram_kernel;

#if FPP_X86
typedef int32_t words4 __attribute__((vector_size(16)));
typedef int32_t words8 __attribute__((vector_size(32)));
typedef int32_t words16 __attribute__((vector_size(64)));

/* One register block: MR rows by NV vectors, int32 accumulators emptied every FLUSH_PAIRS pairs. They have GCC's own vector type:
 * an array of __m512i, which may alias anything, would be stored in every turn of the loop. */
#define GRAM_BODY(MR, NV, WIDTH, VEC, WORDS, LANES, LOAD, SPREAD, MULADD, ADD)                            \
    for (int64_t p0 = 0; p0 < pairs; p0 += FLUSH_PAIRS) {                                             \
        const int64_t p1 = fpp_min(pairs, p0 + FLUSH_PAIRS);                                          \
        WORDS acc[MR][NV];                                                                            \
        for (int i = 0; i < (MR); i++) {                                                              \
            for (int v = 0; v < (NV); v++) {                                                          \
                acc[i][v] = (WORDS){0};                                                               \
            }                                                                                         \
        }                                                                                             \
        for (int64_t p = p0; p < p1; p++) {                                                           \
            VEC right[NV];                                                                            \
            for (int v = 0; v < (NV); v++) {                                                          \
                right[v] = LOAD((const VEC *)(const void *)(b + p * (WIDTH) + v * (LANES)));          \
            }                                                                                         \
            for (int i = 0; i < (MR); i++) {                                                          \
                const VEC left = SPREAD(a[p * (WIDTH) + i]);                                          \
                for (int v = 0; v < (NV); v++) {                                                      \
                    acc[i][v] = (WORDS)MULADD((VEC)acc[i][v], left, right[v]);                        \
                }                                                                                     \
            }                                                                                         \
        }                                                                                             \
        for (int i = 0; i < (MR); i++) {                                                              \
            for (int v = 0; v < (NV); v++) {                                                          \
                ADD(tile + i * (WIDTH) + v * (LANES), (VEC)acc[i][v]);                                \
            }                                                                                         \
        }                                                                                             \
    }

#define MULADD_SSE2(c, a, b) _mm_add_epi32(c, _mm_madd_epi16(a, b))
#define MULADD_AVX2(c, a, b) _mm256_add_epi32(c, _mm256_madd_epi16(a, b))
#define MULADD_AVX512(c, a, b) _mm512_add_epi32(c, _mm512_madd_epi16(a, b))
#define MULADD_VNNI(c, a, b) _mm512_dpwssd_epi32(c, a, b)
#define TARGET_VNNI __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

/* to += words, widened: four, eight or sixteen. */
FPP_INLINE void add_sse2(int64_t *to, __m128i words)
{
    __m128i *const at = (__m128i *)(void *)to;
    const __m128i sign = _mm_srai_epi32(words, 31);
    _mm_storeu_si128(at, _mm_add_epi64(_mm_loadu_si128(at), _mm_unpacklo_epi32(words, sign)));
    _mm_storeu_si128(at + 1, _mm_add_epi64(_mm_loadu_si128(at + 1), _mm_unpackhi_epi32(words, sign)));
}

FPP_TARGET_AVX2 FPP_INLINE void add_avx2(int64_t *to, __m256i words)
{
    __m256i *const at = (__m256i *)(void *)to;
    const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(words));
    const __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(words, 1));
    _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), low));
    _mm256_storeu_si256(at + 1, _mm256_add_epi64(_mm256_loadu_si256(at + 1), high));
}

FPP_TARGET_AVX512 FPP_INLINE void add_avx512(int64_t *to, __m512i words)
{
    const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(words));
    const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(words, 1));
    _mm512_storeu_si512(to, _mm512_add_epi64(_mm512_loadu_si512(to), low));
    _mm512_storeu_si512(to + 8, _mm512_add_epi64(_mm512_loadu_si512(to + 8), high));
}

static void tile_sse2(const int32_t *a, const int32_t *b, int64_t pairs, int64_t columns, int64_t *restrict tile)
{
    (void)columns;
    GRAM_BODY(4, 2, 8, __m128i, words4, 4, _mm_loadu_si128, _mm_set1_epi32, MULADD_SSE2, add_sse2)
}

/* Without the client's dot product (AVX-VNNI): tests held to AVX2 would no longer run this tile, which other processors need. */
FPP_TARGET_AVX2 static void tile_avx2(const int32_t *a, const int32_t *b, int64_t pairs, int64_t columns, int64_t *restrict tile)
{
    (void)columns;
    GRAM_BODY(4, 2, 16, __m256i, words8, 8, _mm256_loadu_si256, _mm256_set1_epi32, MULADD_AVX2, add_avx2)
}

#define LOAD_AVX512(p) _mm512_loadu_si512((const void *)(p))
#define BY_WIDTH(MULADD)                                                                                              \
    if (columns <= 16) {                                                                                              \
        GRAM_BODY(8, 1, 48, __m512i, words16, 16, LOAD_AVX512, _mm512_set1_epi32, MULADD, add_avx512)                \
    } else if (columns <= 32) {                                                                                       \
        GRAM_BODY(8, 2, 48, __m512i, words16, 16, LOAD_AVX512, _mm512_set1_epi32, MULADD, add_avx512)                \
    } else {                                                                                                          \
        GRAM_BODY(8, 3, 48, __m512i, words16, 16, LOAD_AVX512, _mm512_set1_epi32, MULADD, add_avx512)                \
    }

FPP_TARGET_AVX512 static void tile_avx512(const int32_t *a, const int32_t *b, int64_t pairs, int64_t columns, int64_t *restrict tile)
{
    BY_WIDTH(MULADD_AVX512)
}

TARGET_VNNI static void tile_vnni(const int32_t *a, const int32_t *b, int64_t pairs, int64_t columns, int64_t *restrict tile)
{
    BY_WIDTH(MULADD_VNNI)
}

static gram_kernel kernel_now(void)
{
    switch (fpp_isa_level()) {
    case FPP_ISA_AVX512:
        return (gram_kernel){8, 48, 16, __builtin_cpu_supports("avx512vnni") ? tile_vnni : tile_avx512};
    case FPP_ISA_AVX2:
        return (gram_kernel){4, 16, 16, tile_avx2};
    default:
        return (gram_kernel){4, 8, 8, tile_sse2};
    }
}
#else
static void tile_plain(const int32_t *a, const int32_t *b, int64_t pairs, int64_t columns, int64_t *restrict tile)
{
    (void)columns;
    for (int64_t p0 = 0; p0 < pairs; p0 += FLUSH_PAIRS) {
        const int64_t p1 = fpp_min(pairs, p0 + FLUSH_PAIRS);
        int32_t acc[4][8] = {{0}};
        for (int64_t p = p0; p < p1; p++) {
            for (int i = 0; i < 4; i++) {
                const int32_t low = (int16_t)(a[p * 8 + i] & 0xffff), high = a[p * 8 + i] >> 16;
                for (int j = 0; j < 8; j++) {
                    acc[i][j] += low * (int16_t)(b[p * 8 + j] & 0xffff) + high * (b[p * 8 + j] >> 16);
                }
            }
        }
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < 8; j++) {
                tile[i * 8 + j] += acc[i][j];
            }
        }
    }
}

static gram_kernel kernel_now(void)
{
    return (gram_kernel){4, 8, 8, tile_plain};
}
#endif

/* gram, lower triangle, += packed^T packed. */
static void gram_add(const gram_kernel *kernel, const int32_t *packed, int64_t pairs, int64_t panel_stride, int64_t out_dim,
                     int64_t *gram)
{
    const int64_t rows = kernel->rows, width = kernel->width;
    for (int64_t j0 = 0; j0 < out_dim; j0 += width) {
        const int32_t *right = packed + j0 / width * panel_stride;
        for (int64_t i0 = j0; i0 < out_dim; i0 += rows) {
            int64_t tile[ROWS_MAX * FPP_GRAM_WIDTH_MAX];
            const int64_t i1 = fpp_min(out_dim, i0 + rows);
            const int64_t columns = fpp_min(width, i1 - j0);
            /* A large result is in no near cache: it comes while the tile is made. */
            for (int64_t i = i0; out_dim > NEAR_COLUMNS && i < i1; i++) {
                for (int64_t j = 0; j < columns; j += 8) {
                    __builtin_prefetch(gram + i * out_dim + j0 + j, 1);
                }
            }
            memset(tile, 0, (size_t)(rows * width) * sizeof(int64_t));
            kernel->tile(packed + i0 / width * panel_stride + i0 % width, right, pairs, columns, tile);
            for (int64_t i = i0; i < i1; i++) {
                int64_t *restrict to = gram + i * out_dim + j0;
                const int64_t *from = tile + (i - i0) * width;
                const int64_t end = fpp_min(columns, i + 1 - j0);
                for (int64_t j = 0; j < end; j++) {
                    to[j] = (int64_t)((uint64_t)to[j] + (uint64_t)from[j]);
                }
            }
        }
    }
}

/* What else fpp_rows_radial asks for. */
typedef struct {
    int64_t *sums;          /* (2, out_dim) or NULL */
    double per_step;
    int64_t square_bound;
    const double *edges_sq;
    int64_t n_edges, *counts; /* or NULL */
} radial_parts;

/* Squares of rows, and with `outer` of their outer pieces; or, `radial`, sums of both pieces, counts, and squares of whole rows if wanted. */
static int32_t rows_gram(const char *x, int64_t n, int64_t row_stride, const fpp_row_map *map, int32_t is_f32, void *workspace,
                         int64_t *gram, int64_t *outer, const radial_parts *radial, int64_t *neutral)
{
    fpp_plan plan;
    int64_t stride_bytes;
    const fpp_row_kernels *kernels = fpp_row_kernels_now();
    const gram_kernel kernel = kernel_now();
    const int32_t pieces = outer != NULL;
    int64_t *const sums = radial == NULL ? NULL : radial->sums;
    const int64_t bound = radial != NULL ? radial->square_bound : map != NULL ? map->quant_bound : 0;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || (gram == NULL && sums == NULL)
        || fpp_plan_make(map, is_f32, kernels, workspace, &plan) != FPP_OK || fpp_plan_scale(&plan, kernels) != FPP_OK
        || bound < 1 || bound > FPP_GRAM_QUANT_MAX) {
        return FPP_ERR_ARGUMENT;
    }
    plan.neutral = neutral;
    fpp_plan beyond_plan = plan, squares = plan;
    beyond_plan.sums = plan.outer_sums;
    squares.quant_bound_sq = (double)(bound * bound);
    if (radial != NULL) { /* `doubts` knows no such pieces */
        *plan.fused = 0;
        plan.linear = 1;
    }
    const int64_t super = fpp_gram_super_rows(map->out_dim) / (1 + pieces); /* both pieces are packed into the same room */
    const int64_t n_panels = (map->out_dim + kernel.width - 1) / kernel.width;
    int32_t *const inside = plan.gram, *const outside = inside + super / 2 * n_panels * kernel.width;
    for (int64_t begin = 0; begin < n; begin += super) {
        const int64_t count = fpp_min(super, n - begin);
        const int64_t pairs = (count + 1) / 2;
        const int64_t panel_stride = pairs * kernel.width;
        if (begin == 0 || count < super) {
            /* The columns beyond out_dim of the last panel are multiplied too: give them a value. */
            memset(inside + (n_panels - 1) * panel_stride, 0, (size_t)panel_stride * sizeof(int32_t));
            memset(outside + (n_panels - 1) * panel_stride, 0, (size_t)(pieces * panel_stride) * sizeof(int32_t));
        }
        int far = 0;
        for (int64_t i = 0; i < count; i += plan.tile_rows) {
            double norm_sq[FPP_TILE_ROWS], factor[FPP_TILE_ROWS], beyond[FPP_TILE_ROWS];
            const int64_t rows = fpp_min(plan.tile_rows, count - i);
            const char *const tile = x + (begin + i) * stride_bytes;
            fpp_row_tile(&plan, kernels, tile, stride_bytes, rows, norm_sq, factor, pieces || radial != NULL ? beyond : NULL);
            if (radial != NULL && radial->counts != NULL) {
                fpp_tile_shells(&plan, tile, stride_bytes, rows, norm_sq, factor, radial->edges_sq, radial->n_edges, radial->counts);
            }
            if (sums != NULL) {
                kernels->sum(&plan, rows, factor);
                kernels->sum(&beyond_plan, rows, beyond);
            }
            for (int64_t r = 0; radial != NULL && r < rows; r++) {
                factor[r] = (factor[r] + beyond[r]) * radial->per_step;
            }
            for (int64_t r = 0; pieces && r < rows; r++) {
                far |= beyond[r] > 0.0;
            }
            if (pieces) { /* first: a row that fails the integer check there is zero from then on */
                kernels->pack(&plan, rows, beyond, kernel.width, panel_stride, outside + i / 2 * kernel.width);
            }
            if (gram != NULL) {
                kernels->pack(&squares, rows, factor, kernel.width, panel_stride, inside + i / 2 * kernel.width);
            }
        }
        if (gram != NULL) {
            gram_add(&kernel, inside, pairs, panel_stride, map->out_dim, gram);
        }
        if (far) {
            gram_add(&kernel, outside, pairs, panel_stride, map->out_dim, outer);
        }
    }
    if (sums != NULL) {
        fpp_plan_total(&plan, sums);
        fpp_plan_total(&beyond_plan, sums + map->out_dim);
    }
    return FPP_OK;
}

FPP_API int32_t fpp_rows_gram(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                              int64_t *gram)
{
    return rows_gram(x, n, row_stride, map, is_f32 != 0, workspace, gram, NULL, NULL, NULL);
}

FPP_API int32_t fpp_rows_gram_counted(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map,
                                      void *workspace, int64_t *gram, int64_t *neutral)
{
    return neutral == NULL ? FPP_ERR_ARGUMENT
                           : rows_gram(x, n, row_stride, map, is_f32 != 0, workspace, gram, NULL, NULL, neutral);
}

FPP_API int32_t fpp_rows_pieces(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, void *workspace,
                                int64_t *gram, int64_t *outer)
{
    return outer == NULL ? FPP_ERR_ARGUMENT
                         : rows_gram(x, n, row_stride, map, is_f32 != 0, workspace, gram, outer, NULL, NULL);
}

FPP_API int32_t fpp_rows_radial(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, const fpp_row_map *map, double per_step,
                                int64_t square_bound, const double *edges_sq, int64_t n_edges, void *workspace, int64_t *sums,
                                int64_t *gram, int64_t *counts)
{
    const radial_parts radial = {sums, per_step, square_bound, edges_sq, n_edges, counts};
    return !(per_step > 0.0 && per_step < INFINITY) || (counts != NULL && fpp_edges_ascend(edges_sq, n_edges) != FPP_OK)
               ? FPP_ERR_ARGUMENT
               : rows_gram(x, n, row_stride, map, is_f32 != 0, workspace, gram, NULL, &radial, NULL);
}
