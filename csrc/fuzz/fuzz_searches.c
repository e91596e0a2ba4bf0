/* Searches among rows: the most isolated row, counts in balls and the first terrific ball are those of plain loops over all
 * distances, whatever is in a panel with what. */
#include "fuzz.h"

enum { LANES = FPP_ROW_LANES, ROWS = 300, DIM = 20 };

typedef struct {
    int64_t n, dim;
    int32_t narrow;
    double *x; /* finite where the search asks for it */
    float *x32;
} problem;

static int64_t panels_of(int64_t n)
{
    return (n + LANES - 1) / LANES;
}

static problem make(fuzz_input *in, int64_t least_rows, int finite)
{
    problem p = {.dim = pick(in, 1, DIM)};
    p.n = pick(in, least_rows, ROWS);
    uint64_t seed = take(in, 2);
    p.narrow = (int32_t)pick(in, 0, 1);
    p.x = places(in, p.n * p.dim, &seed);
    for (int64_t i = 0; finite && i < p.n * p.dim; i++) {
        p.x[i] = fabs(p.x[i]) < (p.narrow ? 1e37 : INFINITY) ? p.x[i] : 0.0;
    }
    p.x32 = as_floats(p.x, p.n * p.dim);
    for (int64_t i = 0; p.narrow && i < p.n * p.dim; i++) {
        p.x[i] = (double)p.x32[i];
    }
    return p;
}

static const void *rows_of(const problem *p)
{
    return p->narrow ? (const void *)p->x32 : (const void *)p->x;
}

/* ---- The most isolated row ---- */

static void plain_race(const problem *p, int64_t *best, double *farthest)
{
    *best = p->n;
    *farthest = -1.0;
    for (int64_t i = 0; i < p->n; i++) {
        double nearest = INFINITY;
        for (int64_t j = 0; j < p->n; j++) {
            const double square = distance_sq(p->x + i * p->dim, p->x + j * p->dim, p->dim);
            nearest = j != i && square < nearest ? square : nearest;
        }
        if (nearest > *farthest || (PLANTED && nearest == *farthest)) {
            *best = i;
            *farthest = nearest;
        }
    }
}

/* Rows in `groups` groups, in turn, each a run of panels; near and far from the first row of the group. */
static void check_race(fuzz_input in)
{
    const problem p = make(&in, 2, 1);
    const int64_t groups = pick(&in, 1, 6), places = (panels_of(p.n) + groups) * LANES, step = pick(&in, 1, 200);
    int64_t *order = room(places, sizeof *order), *queue = room(places, sizeof *queue), starts[7] = {0}, best = p.n, plain_best;
    double *panels = room(places * p.dim, sizeof *panels), *near = room(places / LANES, sizeof *near), *far =
        room(places / LANES, sizeof *far);
    double *middles = zeros(p.dim * LANES, sizeof *middles), *work = room(p.dim, sizeof *work), farthest = -1.0, plain_farthest;
    for (int64_t g = 0, panel = 0; g < groups; g++) {
        int64_t lane = 0;
        for (int64_t i = g; i < p.n; i += groups, lane++) {
            order[panel * LANES + lane] = i;
        }
        panel += panels_of(lane);
        for (int64_t place = starts[g] * LANES + lane; place < panel * LANES; place++) {
            order[place] = -1;
        }
        for (int64_t k = 0; k < p.dim; k++) {
            middles[k * LANES + g] = g < p.n ? p.x[g * p.dim + k] : 0.0;
        }
        starts[g + 1] = panel;
    }
    for (int64_t q = 0; q < starts[groups]; q++) {
        int64_t g = 0;
        while (starts[g + 1] <= q) {
            g++;
        }
        near[q] = INFINITY;
        far[q] = 0.0;
        for (int64_t v = 0; v < LANES; v++) {
            const int64_t i = order[q * LANES + v];
            const double away = i >= 0 ? sqrt(distance_sq(p.x + i * p.dim, p.x + g * p.dim, p.dim)) : 0.0;
            near[q] = i >= 0 && away < near[q] ? away : near[q];
            far[q] = i >= 0 && !(away <= far[q]) ? away : far[q];
        }
    }
    AGREE(fpp_panels_fill(p.x, 0, p.n, p.dim, order, starts[groups], panels) == FPP_OK);
    const fpp_race race = {p.n,   p.dim,  groups, p.narrow, 0,    rows_of(&p), panels,
                           order, starts, near,   far,      middles, 0.0,         (double)(p.dim + 8) * 0x1p-53};
    for (int64_t place = 0; place < starts[groups] * LANES; place++) {
        queue[place] = place;
    }
    for (int64_t begin = 0, done = 0; begin < starts[groups] * LANES; begin += done) {
        const int64_t left = starts[groups] * LANES - begin;
        int32_t settled = 0;
        AGREE(fpp_race_run(&race, queue + begin, left < step ? left : step, 1 << 20, work, &best, &farthest, &done,
                           &settled) == FPP_OK);
        AGREE(done > 0 && settled == 1);
    }
    plain_race(&p, &plain_best, &plain_farthest);
    AGREE(best == plain_best && farthest == plain_farthest);
    int64_t kept[9] = {0}, early = p.n;
    double *copies = room((p.n + 15) * p.dim, sizeof *copies), away = -1.0;
    for (int32_t left = 1; left != 0;) {
        AGREE(fpp_race_early(p.x, p.n, p.dim, INT64_MAX, INT64_MAX, step * 100, copies, kept, &early, &away, &left) == FPP_OK);
        AGREE(left >= 0);
    }
    AGREE(early == plain_best && away == plain_farthest);
    fpp_winner winner = {plain_best, plain_farthest};
    AGREE(fpp_race_small(p.x, p.n, p.dim, &winner) == ((p.n + 15) * p.dim <= FPP_SMALL_RACE ? FPP_OK : FPP_ERR_ARGUMENT));
    AGREE(winner.best == plain_best && winner.farthest == plain_farthest);
    free(copies);
    free(order);
    free(queue);
    free(panels);
    free(near);
    free(far);
    free(middles);
    free(work);
    free(p.x);
    free(p.x32);
}

/* ---- Counts in balls ---- */

static void count_by_tiles(const problem *p, const double *centers, int64_t k, const double *radii_sq, int64_t radii, void *work,
                           int64_t *counts)
{
    const int64_t count = panels_of(p->n), outer = panels_of(count), depth = p->n >= 8 ? 3 : 0;
    double *columns = room(p->n * p->dim, sizeof *columns), cut[8];
    int64_t side[3], starts[9], *order = room(count * LANES, sizeof *order), kept = 0, finite = 0;
    int64_t *sizes = zeros(outer * LANES, sizeof *sizes);
    int32_t *leaf = room(p->n, sizeof *leaf);
    double *middles = room(outer * p->dim, sizeof *middles), *boxes = room(2 * outer * p->dim * LANES, sizeof *boxes);
    float *panels = room(count * p->dim * LANES, sizeof *panels), *lower = room(outer * p->dim * LANES, sizeof *lower);
    float *upper = room(outer * p->dim * LANES, sizeof *upper);
    for (int64_t i = 0; i < p->n * p->dim; i++) {
        columns[i % p->dim * p->n + i / p->dim] = fabs(p->x[i]) < INFINITY ? p->x[i] : 0.0;
    }
    AGREE(fpp_cells_plant(columns, p->n, p->dim, depth, order, side, cut) == FPP_OK);
    AGREE(fpp_cells_route(rows_of(p), p->narrow, p->n, p->dim, side, depth, cut, work, leaf) == FPP_OK);
    AGREE(fpp_cells_sort(leaf, p->n, INT64_C(1) << depth, starts, order, &kept) == FPP_OK);
    for (int64_t i = 0; i < p->n; i++) {
        AGREE((leaf[i] >= 0) == is_finite_row(p->x + i * p->dim, p->dim));
        finite += leaf[i] >= 0;
    }
    AGREE(kept == finite);
    for (int64_t place = 0; place < count * LANES; place++) {
        order[place] = place < kept ? order[place] : -1;
        sizes[place / LANES] += place < kept;
    }
    for (int64_t i = 0; i < outer * p->dim * LANES; i++) {
        boxes[2 * i] = boxes[2 * i + 1] = NAN;
        lower[i] = upper[i] = NAN;
    }
    const fpp_tiles tiles = {count, panels, middles, order, boxes, lower, upper, sizes};
    AGREE(fpp_tiles_gather(rows_of(p), p->narrow, p->n, p->dim, &tiles, 0, outer, work) == FPP_OK);
    AGREE(fpp_tiles_count(rows_of(p), p->narrow, p->n, p->dim, &tiles, 0, outer, centers, k, radii_sq, radii, work,
                          counts) == FPP_OK);
    free(columns);
    free(order);
    free(sizes);
    free(leaf);
    free(middles);
    free(boxes);
    free(panels);
    free(lower);
    free(upper);
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void check_balls(fuzz_input in)
{
    const problem p = make(&in, 0, 0);
    const int64_t k = pick(&in, 1, 5), radii = pick(&in, 1, 6);
    double *centers = room(k * p.dim, sizeof *centers), *radii_sq = room(radii, sizeof *radii_sq);
    int64_t *counts = zeros(k * radii, sizeof *counts), *tiled = zeros(k * radii, sizeof *tiled);
    char *work = room(fpp_ball_workspace_size(p.dim, radii) + 3, 1);
    uint64_t seed = 5;
    for (int64_t i = 0; i < k * p.dim; i++) {
        centers[i] = p.n > 0 && i % 3 ? p.x[i % p.dim] : (double)(int64_t)(next_word(&seed) >> 11) * 0x1p-52;
    }
    sprinkle(&in, centers, k * p.dim, 4);
    for (int64_t i = 0; i < k * p.dim; i++) {
        centers[i] = fabs(centers[i]) < INFINITY ? centers[i] : 0.0;
    }
    for (int64_t r = 0; r < radii; r++) { /* many on an edge: the distance of a row */
        const int64_t i = p.n > 0 ? pick(&in, 0, p.n - 1) : 0;
        const double square = pick(&in, 0, 2) > 0 && p.n > 0 ? distance_sq(p.x + i * p.dim, centers, p.dim) : fabs(number(&in));
        radii_sq[r] = square < INFINITY ? square : 1.0;
    }
    qsort(radii_sq, (size_t)radii, sizeof *radii_sq, ascending);
    AGREE(fpp_ball_counts(rows_of(&p), p.narrow, p.n, p.dim, centers, k, radii_sq, radii, work + 3, counts) == FPP_OK);
    if (p.n > 0) {
        count_by_tiles(&p, centers, k, radii_sq, radii, work + 3, tiled);
    }
    for (int64_t c = 0; c < k; c++) {
        for (int64_t r = 0; r < radii; r++) {
            int64_t held = 0;
            for (int64_t i = 0; i < p.n; i++) {
                const double square = distance_sq(p.x + i * p.dim, centers + c * p.dim, p.dim);
                held += PLANTED ? square < radii_sq[r] : square <= radii_sq[r];
            }
            AGREE(counts[c * radii + r] == held && tiled[c * radii + r] == held);
        }
    }
    free(centers);
    free(radii_sq);
    free(counts);
    free(tiled);
    free(work);
    free(p.x);
    free(p.x32);
}

/* ---- Terrific balls ---- */

static int passes(const problem *p, int64_t j, double inner, double outer, int64_t min_count)
{
    int64_t inside = 0, between = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const double square = distance_sq(p->x + i * p->dim, p->x + j * p->dim, p->dim);
        inside += square <= inner;
        between += square > inner && square <= outer;
    }
    return inside >= min_count && between == PLANTED && p->n - inside - between >= min_count;
}

static void check_terrific(fuzz_input in)
{
    enum { RADII = 5 };
    problem p = make(&in, 1, 1);
    const int64_t count = panels_of(p.n), outer_tiles = panels_of(count), step = pick(&in, 1, ROWS);
    double *columns = room(p.n * p.dim, sizeof *columns), *panels = room(count * p.dim * LANES, sizeof *panels);
    double *lower = room(outer_tiles * p.dim * LANES, sizeof *lower), *upper = room(outer_tiles * p.dim * LANES, sizeof *upper);
    double *spread = room(p.dim * LANES, sizeof *spread), inner[RADII], outer[RADII], radius = fabs(number(&in));
    int64_t *order = room(count * LANES, sizeof *order), *sizes = zeros(outer_tiles * LANES, sizeof *sizes), best[2] = {RADII, -1}, plain[2] =
        {RADII, -1};
    radius = radius > 0.0 && radius < INFINITY ? radius : 1.0;
    for (int64_t i = 0; i < p.n * p.dim; i++) {
        columns[i % p.dim * p.n + i / p.dim] = p.x[i];
    }
    for (int64_t i = 0; i < outer_tiles * p.dim * LANES; i++) {
        lower[i] = upper[i] = NAN;
    }
    for (int64_t i = 0; i < p.dim * LANES; i++) {
        spread[i] = p.x[i % LANES * p.n / LANES * p.dim + i / LANES];
    }
    for (int i = 0; i < RADII; i++, radius *= 0.5) {
        inner[i] = radius * radius;
        outer[i] = (11.0 * radius) * (11.0 * radius);
    }
    AGREE(fpp_blocks_make(columns, p.n, p.dim, order, panels, lower, upper) == FPP_OK);
    for (int64_t place = 0; place < count * LANES; place++) {
        sizes[place / LANES] += order[place] >= 0;
    }
    const fpp_blocks blocks = {count, p.dim, panels, order, lower, upper, sizes};
    const fpp_radii radii = {inner, outer, RADII, pick(&in, 1, 20)};
    char *work = room(fpp_blocks_workspace_size(&blocks, RADII) + 3, 1);
    for (int64_t begin = 0; begin < p.n; begin += step) {
        const int64_t end = begin + step < p.n ? begin + step : p.n;
        AGREE(fpp_blocks_terrific(&blocks, spread, begin, end, &radii, work + 3, best) == FPP_OK);
    }
    for (int64_t i = 0; i < RADII && plain[1] < 0; i++) {
        for (int64_t j = 0; j < p.n && plain[1] < 0; j++) {
            if (passes(&p, j, inner[i], outer[i], radii.min_count)) {
                plain[0] = i;
                plain[1] = j;
            }
        }
    }
    AGREE(best[0] == plain[0] && best[1] == plain[1]);
    free(columns);
    free(panels);
    free(lower);
    free(upper);
    free(spread);
    free(order);
    free(sizes);
    free(work);
    free(p.x);
    free(p.x32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(fuzz_input) = {check_race, check_balls, check_terrific};
    run_one(checks, 3, data, size);
    return 0;
}
