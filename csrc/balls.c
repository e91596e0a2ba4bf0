/* Rows in balls, and the public search for a ball that splits the rows: fastpubpriv/kernels/balls.py says what is searched for. */
#include "lanes.h"

#define FEW_CENTERS 2                /* centers for which a panel costs more than it saves */
#define TOGETHER 64                  /* centers that meet a tile together */
#define NEAR_NUMBERS (INT64_C(1) << 13) /* of panels, in single precision, that stay in the nearest cache */
#define ROWS_AHEAD 64               /* rows to ask memory for before their turn */
#define BYTES_AHEAD 2560             /* the same of rows that are turned where they lie: at least, and at most */
#define BYTES_AHEAD_MOST 8192

typedef struct {
    const double *centers;  /* (k, dim) */
    const double *radii_sq; /* (radii), ascending */
    int64_t k, radii;
    int64_t *counts; /* (k, radii) */
} ball_list;

/* What is known of a tile and of a group of centers. */
typedef struct {
    double *panel;           /* (columns, 64) */
    double *box;             /* (dim, 2) */
    float *moved;            /* (TOGETHER, dim): centers less the middle of the tile */
    float *bounds;           /* (radii): radii_sq in single precision */
    int32_t *none, *full;    /* (TOGETHER, 64) */
    float slack[TOGETHER];
    uint64_t open[TOGETHER]; /* panels that a radius may part */
} tile_scratch;

typedef struct {
    double *row, *near, *far; /* (dim), (tiles, 64), (tiles, 64) */
    uint8_t *alive;           /* (radii) */
} search_scratch;

typedef struct {
    void (*count_rows)(const lane_rows *rows, int32_t is_f32, const ball_list *balls, double *panel);
    void (*distances)(const lane_rows *rows, int64_t begin, int64_t end, double *panel, double *out);
    void (*route)(const lane_rows *rows, int32_t is_f32, const int64_t *side, int64_t depth, const double *cut, double *panel,
                  int32_t *leaf);
    void (*gather)(const lane_rows *rows, int32_t is_f32, const fpp_tiles *tiles, int64_t begin, int64_t end, double *panel);
    void (*count_tile)(const lane_rows *rows, int32_t is_f32, const fpp_tiles *tiles, int64_t q, const ball_list *balls,
                       tile_scratch *scratch);
    void (*terrific)(const fpp_blocks *blocks, const double *spread, int64_t begin, int64_t end, const fpp_radii *radii, int64_t m,
                     search_scratch *scratch, int64_t *best);
    void (*box_tile)(const double *lower, const double *upper, const double *row, int64_t dim, double *near, double *far);
} ball_kernels;

/* The box (dim, 2) of all rows of a tile. */
static void tile_box(const fpp_tiles *tiles, int64_t q, int64_t dim, int64_t panels_used, double *box)
{
    for (int64_t k = 0; k < dim; k++) {
        const double *low = tiles->boxes + 2 * q * dim * LANES + k * LANES, *high = low + dim * LANES;
        box[2 * k] = INFINITY;
        box[2 * k + 1] = -INFINITY;
        for (int64_t v = 0; v < panels_used; v++) {
            box[2 * k] = low[v] < box[2 * k] ? low[v] : box[2 * k];
            box[2 * k + 1] = high[v] > box[2 * k + 1] ? high[v] : box[2 * k + 1];
        }
    }
}

/* The least and largest squared distance of a center from a box, and what single precision may be wrong by, in squared distances
 * from moved = center - middle to rows, and to boxes of rows, within the box less the middle. */
static float tile_slack(const double *box, const double *middle, const double *center, int64_t dim, float *moved, double *near,
                        double *far)
{
    *near = *far = 0.0;
    for (int64_t k = 0; k < dim; k++) {
        const double below = box[2 * k] - center[k], above = center[k] - box[2 * k + 1];
        const double larger = below > above ? below : above, across = below > above ? above : below;
        const double gap = larger > 0.0 ? larger : 0.0;
        *near += gap * gap;
        *far += across * across;
        moved[k] = (float)(center[k] - middle[k]);
    }
    /* With f the largest distance in a column, row and center lie within 3 f of the middle together, which is among the rows. Their
     * rounding and that of the difference move it by 4 parts in 2^24 of f, its square by 9, and their sum by dim more. */
    return (float)((double)(dim + 16) * 0x1p-24 * *far);
}

/* Memory is read evenly if it is asked for little more than two groups of rows ahead. Least times of one ball, 1e7 x 4 rows and
 * 1e6 x 16, with AVX-512 / AVX2 on a busy full-width machine, where reading takes 18.7 and 6.8 ms: 2560 bytes ahead 17.1 / 15.9 and
 * 6.0 / 6.4, 8192 ahead 28 / 16 and 9.1 / 10.8, none asked for 17 / 27 and 14 / 14, 8192 into the second cache 22 / 16 and 9 / 10. In
 * rows of 64 columns, of which eight take 4096 bytes, 2560 ahead takes 7.0, two groups 5.3. */
FPP_INLINE int64_t bytes_ahead(int64_t two_groups)
{
    return two_groups < BYTES_AHEAD ? BYTES_AHEAD : least(two_groups, BYTES_AHEAD_MOST);
}

#define KERNELS "balls_simd.h"
#include "each_level.h"

static const ball_kernels *kernels_now(void)
{
    return FPP_AT_LEVEL(&kernels);
}

static int32_t rows_are_given(const void *x, int64_t n, int64_t dim)
{
    return dim >= 1 && dim <= FPP_DIM_MAX && fpp_is_given(x, n, dim * (int64_t)sizeof(double));
}

static int32_t balls_are_given(const double *centers, int64_t k, int64_t dim, const double *radii_sq, int64_t radii,
                               const int64_t *counts)
{
    return k >= 0 && k <= FPP_DIM_MAX && radii >= 0 && radii <= FPP_DIM_MAX && fpp_is_given(centers, k,
                                                                                            dim * (int64_t)sizeof(double))
           && fpp_is_given(radii_sq, radii, (int64_t)sizeof(double)) && fpp_is_given(counts, k * radii, (int64_t)sizeof *counts);
}

static int64_t lay_out(int64_t dim, int64_t radii, char *base, tile_scratch *scratch)
{
    int64_t used = 0;
    scratch->panel = fpp_take(base, &used, panel_size(dim) * 8);
    scratch->box = fpp_take(base, &used, dim * 2 * 8);
    scratch->moved = fpp_take(base, &used, TOGETHER * dim * 4);
    scratch->bounds = fpp_take(base, &used, radii * 4);
    scratch->none = fpp_take(base, &used, TOGETHER * LANES * 4);
    scratch->full = fpp_take(base, &used, TOGETHER * LANES * 4);
    return used;
}

FPP_API int64_t fpp_ball_workspace_size(int64_t dim, int64_t radii)
{
    tile_scratch scratch;
    return dim < 1 || dim > FPP_DIM_MAX || radii < 0 || radii > FPP_DIM_MAX ? -1 : 64 + lay_out(dim, radii, NULL, &scratch);
}

FPP_API int32_t fpp_ball_counts(const void *x, int32_t is_f32, int64_t n, int64_t dim, const double *centers, int64_t k,
                                const double *radii_sq, int64_t radii, void *workspace, int64_t *counts)
{
    if (!rows_are_given(x, n, dim) || !balls_are_given(centers, k, dim, radii_sq, radii, counts) || workspace == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const lane_rows rows = {x, n, dim};
    const ball_list balls = {centers, radii_sq, k, radii, counts};
    kernels_now()->count_rows(&rows, is_f32, &balls, fpp_aligned(workspace));
    return FPP_OK;
}

FPP_API int32_t fpp_distances_f64(const double *x, int64_t n, int64_t dim, int64_t begin, int64_t end, void *workspace, double *out)
{
    if (!rows_are_given(x, n, dim) || begin < 0 || end < begin || end > n || workspace == NULL
        || !fpp_is_given(out, end - begin, (n + LANES) * (int64_t)sizeof *out)) {
        return FPP_ERR_ARGUMENT;
    }
    const lane_rows rows = {(const char *)x, n, dim};
    kernels_now()->distances(&rows, begin, end, fpp_aligned(workspace), out);
    return FPP_OK;
}

FPP_API int32_t fpp_cells_route(const void *x, int32_t is_f32, int64_t n, int64_t dim, const int64_t *side, int64_t depth,
                                const double *cut, void *workspace, int32_t *leaf)
{
    if (!rows_are_given(x, n, dim) || depth < 0 || depth > 30 || !fpp_is_given(side, depth, (int64_t)sizeof *side) || cut == NULL
        || workspace == NULL || !fpp_is_given(leaf, n, (int64_t)sizeof *leaf)) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t level = 0; level < depth; level++) {
        if (side[level] < 0 || side[level] >= dim) {
            return FPP_ERR_ARGUMENT;
        }
    }
    const lane_rows rows = {x, n, dim};
    kernels_now()->route(&rows, is_f32, side, depth, cut, fpp_aligned(workspace), leaf);
    return FPP_OK;
}

static int32_t tiles_are_valid(const fpp_tiles *tiles, int64_t begin, int64_t end)
{
    return tiles != NULL && tiles->count >= 0 && begin >= 0 && begin <= end && end <= (tiles->count + LANES - 1) / LANES
           && (begin == end
               || (tiles->panels != NULL && tiles->middles != NULL && tiles->order != NULL && tiles->boxes != NULL
                   && tiles->lower != NULL
                   && tiles->upper != NULL && tiles->sizes != NULL));
}

FPP_API int32_t fpp_tiles_gather(const void *x, int32_t is_f32, int64_t n, int64_t dim, const fpp_tiles *tiles, int64_t begin,
                                 int64_t end, void *workspace)
{
    if (!rows_are_given(x, n, dim) || !tiles_are_valid(tiles, begin, end) || workspace == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const lane_rows rows = {x, n, dim};
    kernels_now()->gather(&rows, is_f32, tiles, begin, end, fpp_aligned(workspace));
    return FPP_OK;
}

FPP_API int32_t fpp_tiles_count(const void *x, int32_t is_f32, int64_t n, int64_t dim, const fpp_tiles *tiles, int64_t begin,
                                int64_t end,
                                const double *centers, int64_t k, const double *radii_sq, int64_t radii, void *workspace,
                                    int64_t *counts)
{
    tile_scratch scratch;
    if (!rows_are_given(x, n, dim) || !tiles_are_valid(tiles, begin, end) || !balls_are_given(centers, k, dim, radii_sq, radii,
                                                                                              counts)
        || workspace == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const lane_rows rows = {x, n, dim};
    const ball_list balls = {centers, radii_sq, k, radii, counts};
    lay_out(dim, radii, fpp_aligned(workspace), &scratch);
    for (int64_t r = 0; r < radii; r++) {
        scratch.bounds[r] = (float)radii_sq[r];
    }
    for (int64_t q = begin; q < end; q++) {
        kernels_now()->count_tile(&rows, is_f32, tiles, q, &balls, &scratch);
    }
    return FPP_OK;
}

static int32_t blocks_are_valid(const fpp_blocks *blocks)
{
    return blocks != NULL && blocks->dim >= 1 && blocks->dim <= FPP_DIM_MAX && blocks->count >= 1
           && blocks->count <= INT64_MAX / (8 * LANES * blocks->dim) && blocks->panels != NULL && blocks->order != NULL
           && blocks->lower != NULL && blocks->upper != NULL && blocks->sizes != NULL;
}

static int64_t lay_out_search(const fpp_blocks *blocks, int64_t radii, char *base, search_scratch *scratch)
{
    const int64_t boxes = (blocks->count + LANES - 1) / LANES * LANES;
    int64_t used = 0;
    scratch->row = fpp_take(base, &used, blocks->dim * 8);
    scratch->near = fpp_take(base, &used, boxes * 8);
    scratch->far = fpp_take(base, &used, boxes * 8);
    scratch->alive = fpp_take(base, &used, radii);
    return used;
}

FPP_API int64_t fpp_blocks_workspace_size(const fpp_blocks *blocks, int64_t radii)
{
    search_scratch scratch;
    return !blocks_are_valid(blocks) || radii < 0 || radii > FPP_DIM_MAX ? -1 : 64 + lay_out_search(blocks, radii, NULL, &scratch);
}

FPP_API int32_t fpp_blocks_terrific(const fpp_blocks *blocks, const double *spread, int64_t begin, int64_t end,
                                    const fpp_radii *radii, void *workspace, int64_t *best)
{
    search_scratch scratch;
    int64_t m = 0;
    if (!blocks_are_valid(blocks) || spread == NULL || begin < 0 || begin > end || end > blocks->count * LANES || radii == NULL
        || radii->count < 0 || radii->count > FPP_DIM_MAX || (radii->count > 0 && (radii->inner == NULL || radii->outer == NULL))
        || workspace == NULL || best == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    lay_out_search(blocks, radii->count, fpp_aligned(workspace), &scratch);
    for (int64_t p = 0; p < blocks->count; p++) {
        m += blocks->sizes[p];
    }
    kernels_now()->terrific(blocks, spread, begin, end, radii, m, &scratch, best);
    return FPP_OK;
}

FPP_API int32_t fpp_test_box_tile(const double *lower, const double *upper, const double *row, int64_t dim, double *near,
                                  double *far)
{
    if (lower == NULL || upper == NULL || row == NULL || near == NULL || far == NULL || dim < 1 || dim > FPP_DIM_MAX) {
        return FPP_ERR_ARGUMENT;
    }
    kernels_now()->box_tile(lower, upper, row, dim, near, far);
    return FPP_OK;
}
