/* The row pipeline that sums, Gram matrices, quantised rows and shell counts share. Not installed.
 *
 * A plan is the map with its vectors padded, its matrix repacked and its scratch laid out in the caller's workspace. Rows go
 * through it in tiles: `tile` leaves z (rows of `ld` doubles, zero beyond out_dim up to the next multiple of 8) and the eight-lane
 * squared norms, `factors` makes the clip factors. What a row becomes depends on that row and the map alone: no step mixes
 * rows, and the order of every floating-point sum is fixed, so tiles, chunks, threads and instruction sets all give the same bits.
 */
#ifndef FPP_ROWMAP_H
#define FPP_ROWMAP_H
#include "internal.h"

#define FPP_LANES 8            /* lanes of every squared norm, on every instruction set */
#define FPP_TILE_ROWS 64       /* most rows of a tile; a multiple of every row group */
#define FPP_TILE_ROWS_FEW 16   /* rows of a tile under a LOWER or FULL matrix, */
#define FPP_TILE_ROWS_FEW_DIM 256 /* of rows of at most so many columns */
#define FEW_MOST 16            /* most columns of rows that are added up with a row in a lane */
#define FPP_FUSED_DIM 24       /* least columns of rows whose products are fused */
#define FPP_DEPTH 128          /* columns of x per pass of the matrix product */
#define FPP_T_LD (FPP_DEPTH + FPP_LANES)
#define FPP_PANEL_MAX 24       /* widest panel of the matrix product over the instruction sets */
#define FPP_AHEAD 16384        /* bytes between a load of x and the prefetch beside it */
/* For column sums, into the second cache: at 16 KB ahead the first one has lost many of the lines again before they are read. */
#define FPP_FETCH(p) __builtin_prefetch((p), 0, 2)
#define FPP_GRAM_WIDTH_MAX 48  /* most tile columns of a Gram matrix, which are also the columns of a packed panel */
#define FPP_GRAM_PACKED (INT64_C(1) << 19) /* bytes of packed rows: half of an L2 cache */
#define FPP_GRAM_FLUSH 256     /* 256 * FPP_GRAM_QUANT_MAX^2 < 2^31: rows that an int32 accumulator can hold */

/* 1.5 * 2^52: adding it to a double below 2^51 in size rounds to the nearest integer, ties to even. */
#define FPP_ROUNDER 0x1.8p52
#define FPP_ROUNDER_BITS UINT64_C(0x4338000000000000)

typedef struct {
    int64_t dim, out_dim;
    int64_t ld;               /* doubles from one row of z to the next */
    int64_t tile_rows;
    int64_t stream_rows;      /* rows of a group of the column sums */
    int32_t matrix_kind;
    int32_t general;          /* not just z = (x - center) * inv_step */
    int32_t is_f32;
    int32_t linear;           /* outer pieces are those of fpp_rows_radial, not of fpp_rows_pieces */
    int64_t *fused;           /* (1): integers come from fused products, see products_simd.h; LOWER and FULL only */
    double inv_step, limit, quant_bound_sq;
    double rho;               /* of the bound of a fused product, */
    double *weights;          /* (dim padded to 8) times inv_step, zero in the padding, */
    double *tau_sq;           /* (FPP_TILE_ROWS): of the rows of the tile */
    const fpp_row_map *map;
    double *center;           /* (dim padded to 8), zeros if absent */
    double *diagonal;         /* (dim padded to 8), ones if absent; zero in the padding */
    double *offset;           /* (ld), zeros if absent */
    double *panels;           /* the matrix in panels of outputs, each [k][output], see fpp_panel_begin; LOWER and FULL only */
    double *z;                /* (FPP_TILE_ROWS, ld); a product writes up to FPP_PANEL_MAX - 1 in front of each row as well */
    double *t;                /* (FPP_TILE_ROWS, FPP_T_LD): x - center of one pass of the product */
    double *row;              /* (dim padded to 8): one row, for the rare rescaling */
    double *slope;            /* (dim padded to 8): of a score only */
    uint64_t *sums;           /* (ld) */
    uint64_t *outer_sums;     /* (ld): for fpp_rows_radial */
    int64_t *neutral;         /* or NULL: rows that count as zero, as an entry is not finite */
    void *gram;               /* what is left, for gram.c */
} fpp_plan;

/* One set of these for each instruction set. */
typedef struct {
    int64_t panel;            /* output columns of a panel of the matrix product */
    void (*score)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *factor);
    void (*tile)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq);
    void (*factors)(const fpp_plan *plan, int64_t rows, const double *norm_sq, double *factor);
    void (*sum)(const fpp_plan *plan, int64_t rows, const double *factor);
    void (*quantise)(const fpp_plan *plan, int64_t rows, double *factor, int32_t *out);
    void (*single)(const fpp_plan *plan, int64_t rows, double *factor, int64_t out_stride, float *out);
    void (*pack)(const fpp_plan *plan, int64_t rows, double *factor, int64_t width, int64_t panel_stride, int32_t *packed);
    void (*stream)(const fpp_plan *plan, const char *x, int64_t n, int64_t stride_bytes);
    /* Of fused products, NULL on processors without them: */
    int32_t (*weigh)(fpp_plan *plan);
    void (*tile_fused)(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, double *norm_sq);
    uint64_t (*doubts)(const fpp_plan *plan, int64_t rows, const double *norm_sq, const double *factor, const double *outer);
    double (*row_alone)(const fpp_plan *plan, const char *x, int64_t r);
} fpp_row_kernels;

FPP_LOCAL const fpp_row_kernels *fpp_row_kernels_now(void);
FPP_LOCAL int32_t fpp_plan_make(const fpp_row_map *map, int32_t is_f32, const fpp_row_kernels *kernels, void *workspace,
                                fpp_plan *plan);
/* Checks quant_bound, inv_step and limit, copies them into the plan, and decides whether products are fused. */
FPP_LOCAL int32_t fpp_plan_scale(fpp_plan *plan, const fpp_row_kernels *kernels);
/* z, squared norms and clip factors of up to tile_rows rows, and if `outer` is given the factors of their outer pieces, see fpp_rows_pieces: z of a
 * fused product may differ from the unfused one where the integers do not. Where many rows are taken twice, products of later tiles
 * are not fused. */
FPP_LOCAL void fpp_row_tile(const fpp_plan *plan, const fpp_row_kernels *kernels, const char *x, int64_t stride_bytes,
                            int64_t rows, double *norm_sq, double *factor, double *outer);
/* Factors of the rows of a tile by their scores, whose squares their squared norms are multiplied by. */
FPP_LOCAL void fpp_score_norms(const fpp_plan *plan, const fpp_row_kernels *kernels, const char *x, int64_t stride_bytes, int64_t rows,
                               double *times, double *norm_sq);
/* Adds rows to the sums of the plan, and those to `sums` (out_dim). */
FPP_LOCAL void fpp_plan_sum(const fpp_plan *plan, const fpp_row_kernels *kernels, const char *x, int64_t n, int64_t stride_bytes);
FPP_LOCAL void fpp_plan_total(const fpp_plan *plan, int64_t *sums);
/* FPP_OK for edges that ascend from zero on; and the rows between each two, counted. */
FPP_LOCAL int32_t fpp_edges_ascend(const double *edges_sq, int64_t n_edges);
/* Counts the rows of a tile by their squared norms; `times` (or NULL for ones) is zero for rows that become zero. */
FPP_LOCAL void fpp_tile_shells(const fpp_plan *plan, const char *x, int64_t stride_bytes, int64_t rows, const double *norm_sq,
                               const double *times, const double *edges_sq, int64_t n_edges, int64_t *counts);
FPP_LOCAL void fpp_plan_shells(const fpp_plan *plan, const fpp_row_kernels *kernels, const char *x, int64_t n, int64_t stride_bytes,
                               const double *edges_sq, int64_t n_edges, int64_t *counts);
FPP_LOCAL int32_t fpp_row_is_finite(const char *x, int64_t dim, int32_t is_f32);

FPP_INLINE double fpp_entry(const char *row, int64_t column, int32_t is_f32)
{
    return is_f32 ? (double)((const float *)(const void *)row)[column] : ((const double *)(const void *)row)[column];
}

FPP_INLINE int64_t fpp_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows of a super-panel of a Gram matrix: a multiple of FPP_GRAM_FLUSH whose packed form takes about FPP_GRAM_PACKED bytes. */
FPP_INLINE int64_t fpp_gram_super_rows(int64_t out_dim)
{
    const int64_t fit = FPP_GRAM_PACKED / (2 * fpp_round_up(out_dim, FPP_GRAM_WIDTH_MAX)) / FPP_GRAM_FLUSH * FPP_GRAM_FLUSH;
    return fit < FPP_GRAM_FLUSH ? FPP_GRAM_FLUSH : fpp_min(fit, 4 * FPP_GRAM_FLUSH);
}

FPP_INLINE int64_t fpp_gram_workspace_size(int64_t out_dim)
{
    return fpp_gram_super_rows(out_dim) * 2 * (out_dim + FPP_GRAM_WIDTH_MAX);
}

/* Outputs that the first panel has in front of output 0, so that the last one ends with the last output. Under a LOWER matrix the
 * vector that is not full then reads few columns, not all: with 50 outputs and vectors of 8, 182 products of vectors in place of 218. */
FPP_INLINE int64_t fpp_panels_before(int64_t out_dim, int64_t panel)
{
    return fpp_round_up(out_dim, panel) - out_dim;
}

/* Where panel p of `panel` outputs begins: a panel holds all columns of x, or, if the matrix is LOWER, as many as its last row has
 * where panel 0 has nothing in front. */
FPP_INLINE int64_t fpp_panel_begin(int32_t matrix_kind, int64_t dim, int64_t panel, int64_t p)
{
    const int64_t growing = matrix_kind == FPP_MATRIX_LOWER ? fpp_min(p, dim / panel) : 0;
    return panel * panel * (growing * (growing + 1) / 2) + (p - growing) * dim * panel;
}

/* Reduction of the eight lanes of a squared norm: by halves, as a vector unit folds a register. */
FPP_INLINE double fpp_fold(const double *a)
{
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

#endif
