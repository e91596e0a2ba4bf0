/* The rule for pointers and sizes, held against the searches among rows: linked into test_fpp. */
#include "test_support.h"
#include <math.h>

enum { LANES = FPP_ROW_LANES };
static const int64_t huge = INT64_C(1) << 62;
static const double doubles[8] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0};

static void check_cover(void)
{
    int64_t rows[16], wrong[16], at[16], group[2], left = 2, queue[2] = {0, 1};
    double panel[16], nearest[16], second[16];
    for (int v = 0; v < 16; v++) {
        rows[v] = v < 2 ? v : -1;
        wrong[v] = v < 15 ? 0 : 2;
        at[v] = 0;
        nearest[v] = second[v] = INFINITY;
    }
    REFUSED(fpp_race_cover(NULL, 2, 1, rows, 0, 2, panel, nearest, group));
    REFUSED(fpp_race_cover(doubles, 2, 0, rows, 0, 2, panel, nearest, group));
    REFUSED(fpp_race_cover(doubles, huge, 8, rows, 0, 2, panel, nearest, group));
    REFUSED(fpp_race_cover(doubles, 2, 1, NULL, 0, 2, panel, nearest, group));
    REFUSED(fpp_race_cover(doubles, 2, 1, wrong, 0, 2, panel, nearest, group));
    REFUSED(fpp_race_cover(doubles, 2, 1, rows, -1, 2, panel, nearest, group));
    REFUSED(fpp_race_cover(doubles, 2, 1, rows, 0, 3, panel, nearest, group));
    REFUSED(fpp_race_cover(doubles, 2, 1, rows, 0, 2, NULL, nearest, group));
    REFUSED(fpp_race_cover(doubles, 2, 1, rows, 0, 2, panel, NULL, group));
    REFUSED(fpp_race_cover(doubles, 2, 1, rows, 0, 2, panel, nearest, NULL));
    ACCEPTED(fpp_race_cover(doubles, 2, 1, rows, 0, 2, panel, nearest, group));
    REFUSED(fpp_race_leave(NULL, 2, 1, queue, 0, 2, 1.0, panel, queue, &left));
    REFUSED(fpp_race_leave(doubles, 2, 1, NULL, 0, 2, 1.0, panel, queue, &left));
    REFUSED(fpp_race_leave(doubles, 2, 1, rows, 0, 3, 1.0, panel, queue, &left));
    REFUSED(fpp_race_leave(doubles, 2, 1, rows, 0, 2, 1.0, NULL, queue, &left));
    REFUSED(fpp_race_leave(doubles, 2, 1, rows, 0, 2, 1.0, panel, NULL, &left));
    REFUSED(fpp_race_leave(doubles, 2, 1, rows, 0, 2, 1.0, panel, queue, NULL));
    ACCEPTED(fpp_race_leave(doubles, 2, 1, rows, 0, 2, 0.5, panel, queue, &left));
    REFUSED(fpp_race_contend(NULL, 2, 1, rows, 0, 2, panel, nearest, at, second));
    REFUSED(fpp_race_contend(doubles, 2, 1, wrong, 0, 2, panel, nearest, at, second));
    REFUSED(fpp_race_contend(doubles, 2, 1, rows, 0, 2, NULL, nearest, at, second));
    REFUSED(fpp_race_contend(doubles, 2, 1, rows, 0, 2, panel, NULL, at, second));
    REFUSED(fpp_race_contend(doubles, 2, 1, rows, 0, 2, panel, nearest, NULL, second));
    REFUSED(fpp_race_contend(doubles, 2, 1, rows, 0, 2, panel, nearest, at, NULL));
    ACCEPTED(fpp_race_contend(doubles, 2, 1, rows, 0, 2, panel, nearest, at, second));
}

static void check_races(void)
{
    const int64_t order[LANES] = {0, 1}, starts[2] = {0, 1}, queue[2] = {0, 1};
    double *panels = block(LANES, sizeof *panels), far[1] = {1.0};
    const fpp_race race = {.m = 2, .dim = 1, .groups = 1, .points = doubles, .panels = panels, .order = order, .starts = starts,
                           .near = far, .far = far, .middles = panels, .kappa = 1e-15};
    fpp_race bad[10];
    int64_t best = 2, done;
    double farthest = -1.0, work[1], sums[LANES] = {0.0};
    int64_t group[2];
    int32_t settled;
    for (int i = 0; i < 10; i++) {
        bad[i] = race;
    }
    bad[0].points = NULL;
    bad[1].panels = NULL;
    bad[2].order = NULL;
    bad[3].starts = NULL;
    bad[4].near = NULL;
    bad[5].far = NULL;
    bad[6].middles = NULL;
    bad[7].dim = INT64_MAX;
    bad[8].groups = LANES + 1;
    bad[9].m = 0;
    for (int i = 0; i < 10; i++) {
        REFUSED(fpp_race_run(&bad[i], queue, 2, 100, work, &best, &farthest, &done, &settled));
    }
    REFUSED(fpp_race_run(NULL, queue, 2, 100, work, &best, &farthest, &done, &settled));
    REFUSED(fpp_race_run(&race, NULL, 2, 100, work, &best, &farthest, &done, &settled));
    REFUSED(fpp_race_run(&race, queue, 2, 100, NULL, &best, &farthest, &done, &settled));
    REFUSED(fpp_race_run(&race, queue, 2, 100, work, NULL, &farthest, &done, &settled));
    REFUSED(fpp_race_run(&race, queue, 2, 100, work, &best, NULL, &done, &settled));
    REFUSED(fpp_race_run(&race, queue, 2, 100, work, &best, &farthest, NULL, &settled));
    REFUSED(fpp_race_run(&race, queue, 2, 100, work, &best, &farthest, &done, NULL));
    ACCEPTED(fpp_race_run(&race, NULL, 0, 100, work, &best, &farthest, &done, &settled));
    int64_t kept[9] = {0}, wrong[4][9] = {{-1}, {0, 2}, {0, -1}, {0, 0, 2}};
    int32_t left;
    for (int i = 0; i < 4; i++) {
        REFUSED(fpp_race_early(doubles, 2, 1, 100, 100, 100, panels, wrong[i], &best, &farthest, &left));
    }
    REFUSED(fpp_race_early(NULL, 2, 1, 100, 100, 100, panels, kept, &best, &farthest, &left));
    REFUSED(fpp_race_early(doubles, 0, 1, 100, 100, 100, panels, kept, &best, &farthest, &left));
    REFUSED(fpp_race_early(doubles, 2, 0, 100, 100, 100, panels, kept, &best, &farthest, &left));
    REFUSED(fpp_race_early(doubles, huge, 8, 100, 100, 100, panels, kept, &best, &farthest, &left));
    REFUSED(fpp_race_early(doubles, 2, 1, 100, 100, 100, NULL, kept, &best, &farthest, &left));
    REFUSED(fpp_race_early(doubles, 2, 1, 100, 100, 100, panels, NULL, &best, &farthest, &left));
    REFUSED(fpp_race_early(doubles, 2, 1, 100, 100, 100, panels, kept, NULL, &farthest, &left));
    REFUSED(fpp_race_early(doubles, 2, 1, 100, 100, 100, panels, kept, &best, NULL, &left));
    REFUSED(fpp_race_early(doubles, 2, 1, 100, 100, 100, panels, kept, &best, &farthest, NULL));
    ACCEPTED(fpp_race_early(doubles, 2, 1, 100, 100, 100, panels, kept, &best, &farthest, &left));
    fpp_winner winner;
    REFUSED(fpp_race_small(NULL, 2, 1, &winner));
    REFUSED(fpp_race_small(doubles, 1, 1, &winner));
    REFUSED(fpp_race_small(doubles, 2, 0, &winner));
    REFUSED(fpp_race_small(doubles, 2, FPP_SMALL_RACE, &winner));
    REFUSED(fpp_race_small(doubles, huge, 1, &winner));
    REFUSED(fpp_race_small(doubles, FPP_SMALL_RACE - 14, 1, &winner));
    REFUSED(fpp_race_small(doubles, 2, 1, NULL));
    ACCEPTED(fpp_race_small(doubles, 2, 1, &winner));
    check_cover();
    REFUSED(fpp_race_join(NULL, 0, 2, 1, panels, group, sums));
    REFUSED(fpp_race_join(doubles, 0, 2, 1, NULL, group, sums));
    REFUSED(fpp_race_join(doubles, 0, 2, 1, panels, NULL, sums));
    REFUSED(fpp_race_join(doubles, 0, 2, 1, panels, group, NULL));
    REFUSED(fpp_race_join(doubles, 0, 2, huge, panels, group, sums));
    ACCEPTED(fpp_race_join(NULL, 0, 0, 1, panels, NULL, sums));
    REFUSED(fpp_panels_fill(NULL, 0, 2, 1, order, 1, panels));
    REFUSED(fpp_panels_fill(doubles, 0, 2, 1, NULL, 1, panels));
    REFUSED(fpp_panels_fill(doubles, 0, 2, 1, order, 1, NULL));
    REFUSED(fpp_panels_fill(doubles, 0, 2, 1, order, huge, panels));
    ACCEPTED(fpp_panels_fill(NULL, 0, 0, 1, NULL, 0, NULL));
    free(panels);
}

static void check_balls(void)
{
    const double *d = doubles;
    char *work = room(fpp_ball_workspace_size(1, 2), 1);
    int64_t counts[2] = {0}, order[LANES], starts[3], kept;
    const int32_t leaves[2] = {0, 1};
    int32_t leaf[2];
    double out[2 * LANES], cut[2];
    CHECK(fpp_ball_workspace_size(0, 1) == -1 && fpp_ball_workspace_size(1, -1) == -1 && fpp_ball_workspace_size(huge, 1) == -1);
    REFUSED(fpp_ball_counts(NULL, 0, 2, 1, d, 1, d, 2, work, counts));
    REFUSED(fpp_ball_counts(d, 0, 2, 1, NULL, 1, d, 2, work, counts));
    REFUSED(fpp_ball_counts(d, 0, 2, 1, d, 1, NULL, 2, work, counts));
    REFUSED(fpp_ball_counts(d, 0, 2, 1, d, 1, d, 2, NULL, counts));
    REFUSED(fpp_ball_counts(d, 0, 2, 1, d, 1, d, 2, work, NULL));
    REFUSED(fpp_ball_counts(d, 0, huge, 1, d, 1, d, 2, work, counts));
    ACCEPTED(fpp_ball_counts(NULL, 0, 0, 1, d, 1, d, 2, work, counts));
    ACCEPTED(fpp_ball_counts(d, 0, 2, 1, NULL, 0, d, 2, work, NULL));
    REFUSED(fpp_distances_f64(NULL, 2, 1, 0, 2, work, out));
    REFUSED(fpp_distances_f64(d, 2, 1, 0, 2, NULL, out));
    REFUSED(fpp_distances_f64(d, 2, 1, 0, 2, work, NULL));
    REFUSED(fpp_distances_f64(d, 2, 1, 0, 3, work, out));
    ACCEPTED(fpp_distances_f64(d, 2, 1, 1, 1, work, NULL));
    REFUSED(fpp_cells_plant(NULL, 2, 1, 1, order, starts, cut));
    REFUSED(fpp_cells_plant(d, 2, 1, 1, NULL, starts, cut));
    REFUSED(fpp_cells_plant(d, 2, 1, 1, order, NULL, cut));
    REFUSED(fpp_cells_plant(d, 2, 1, 1, order, starts, NULL));
    REFUSED(fpp_cells_plant(d, 2, 1, 2, order, starts, cut)); /* fewer rows than cells */
    ACCEPTED(fpp_cells_plant(NULL, 0, 1, 0, NULL, NULL, cut));
    starts[0] = 0;
    REFUSED(fpp_cells_route(NULL, 0, 2, 1, starts, 1, d, work, leaf));
    REFUSED(fpp_cells_route(d, 0, 2, 1, NULL, 1, d, work, leaf));
    REFUSED(fpp_cells_route(d, 0, 2, 1, starts, 1, NULL, work, leaf));
    REFUSED(fpp_cells_route(d, 0, 2, 1, starts, 1, d, NULL, leaf));
    REFUSED(fpp_cells_route(d, 0, 2, 1, starts, 1, d, work, NULL));
    starts[0] = 1;
    REFUSED(fpp_cells_route(d, 0, 2, 1, starts, 1, d, work, leaf)); /* a column that is not there */
    ACCEPTED(fpp_cells_route(NULL, 0, 0, 1, NULL, 0, d, work, NULL));
    REFUSED(fpp_cells_sort(NULL, 2, 2, starts, order, &kept));
    REFUSED(fpp_cells_sort(leaves, 2, 2, NULL, order, &kept));
    REFUSED(fpp_cells_sort(leaves, 2, 2, starts, NULL, &kept));
    REFUSED(fpp_cells_sort(leaves, 2, 2, starts, order, NULL));
    ACCEPTED(fpp_cells_sort(NULL, 0, 2, starts, NULL, &kept));
    free(work);
}

static void check_tiles(void)
{
    const double *d = doubles;
    const int64_t order[LANES] = {0, 1};
    int64_t sizes[LANES] = {2}, counts[2] = {0};
    char *work = room(fpp_ball_workspace_size(1, 2), 1);
    float *panels = block(LANES, sizeof *panels), *sides = block(LANES, sizeof *sides);
    double middles[1], *boxes = block(2 * LANES, sizeof *boxes);
    const fpp_tiles tiles = {1, panels, middles, order, boxes, sides, sides, sizes}, none = {.count = 0};
    fpp_tiles bad[8] = {tiles, tiles, tiles, tiles, tiles, tiles, tiles, tiles};
    bad[0].panels = NULL;
    bad[1].middles = NULL;
    bad[2].order = NULL;
    bad[3].boxes = NULL;
    bad[4].lower = NULL;
    bad[5].upper = NULL;
    bad[6].sizes = NULL;
    bad[7].count = -1;
    for (int i = 0; i < 8; i++) {
        REFUSED(fpp_tiles_gather(d, 0, 2, 1, &bad[i], 0, 1, work));
        REFUSED(fpp_tiles_count(d, 0, 2, 1, &bad[i], 0, 1, d, 1, d, 2, work, counts));
    }
    REFUSED(fpp_tiles_gather(NULL, 0, 2, 1, &tiles, 0, 1, work));
    REFUSED(fpp_tiles_gather(d, 0, 2, 1, NULL, 0, 1, work));
    REFUSED(fpp_tiles_gather(d, 0, 2, 1, &tiles, 0, 2, work));
    REFUSED(fpp_tiles_gather(d, 0, 2, 1, &tiles, 0, 1, NULL));
    ACCEPTED(fpp_tiles_gather(NULL, 0, 0, 1, &none, 0, 0, work));
    REFUSED(fpp_tiles_count(NULL, 0, 2, 1, &tiles, 0, 1, d, 1, d, 2, work, counts));
    REFUSED(fpp_tiles_count(d, 0, 2, 1, NULL, 0, 1, d, 1, d, 2, work, counts));
    REFUSED(fpp_tiles_count(d, 0, 2, 1, &tiles, 0, 1, NULL, 1, d, 2, work, counts));
    REFUSED(fpp_tiles_count(d, 0, 2, 1, &tiles, 0, 1, d, 1, NULL, 2, work, counts));
    REFUSED(fpp_tiles_count(d, 0, 2, 1, &tiles, 0, 1, d, 1, d, 2, NULL, counts));
    REFUSED(fpp_tiles_count(d, 0, 2, 1, &tiles, 0, 1, d, 1, d, 2, work, NULL));
    free(work);
    free(panels);
    free(sides);
    free(boxes);
}

static void check_blocks(void)
{
    const double *d = doubles;
    int64_t order[LANES], best[2] = {1, -1};
    const int64_t sizes[LANES] = {2};
    double *panels = block(LANES, sizeof *panels), *lower = block(LANES, sizeof *lower), *upper = block(LANES, sizeof *upper);
    const fpp_blocks blocks = {1, 1, panels, order, lower, upper, sizes};
    const fpp_radii radii = {d, d, 1, 1}, empty = {NULL, NULL, 0, 1}, no_inner = {NULL, d, 1, 1}, no_outer = {d, NULL, 1, 1};
    fpp_blocks bad[7] = {blocks, blocks, blocks, blocks, blocks, blocks, blocks};
    char *work = room(fpp_blocks_workspace_size(&blocks, 1), 1);
    REFUSED(fpp_blocks_make(NULL, 2, 1, order, panels, lower, upper));
    REFUSED(fpp_blocks_make(d, 2, 1, NULL, panels, lower, upper));
    REFUSED(fpp_blocks_make(d, 2, 1, order, NULL, lower, upper));
    REFUSED(fpp_blocks_make(d, 2, 1, order, panels, NULL, upper));
    REFUSED(fpp_blocks_make(d, 2, 1, order, panels, lower, NULL));
    REFUSED(fpp_blocks_make(d, huge, 1, order, panels, lower, upper));
    ACCEPTED(fpp_blocks_make(d, 2, 1, order, panels, lower, upper));
    bad[0].panels = NULL;
    bad[1].order = NULL;
    bad[2].lower = NULL;
    bad[3].upper = NULL;
    bad[4].sizes = NULL;
    bad[5].count = huge;
    bad[6].dim = INT64_MAX;
    CHECK(fpp_blocks_workspace_size(NULL, 1) == -1 && fpp_blocks_workspace_size(&blocks, huge) == -1);
    for (int i = 0; i < 7; i++) {
        CHECK(fpp_blocks_workspace_size(&bad[i], 1) == -1);
        REFUSED(fpp_blocks_terrific(&bad[i], panels, 0, 2, &radii, work, best));
    }
    REFUSED(fpp_blocks_terrific(NULL, panels, 0, 2, &radii, work, best));
    REFUSED(fpp_blocks_terrific(&blocks, NULL, 0, 2, &radii, work, best));
    REFUSED(fpp_blocks_terrific(&blocks, panels, 0, LANES + 1, &radii, work, best));
    REFUSED(fpp_blocks_terrific(&blocks, panels, 0, 2, NULL, work, best));
    REFUSED(fpp_blocks_terrific(&blocks, panels, 0, 2, &no_inner, work, best));
    REFUSED(fpp_blocks_terrific(&blocks, panels, 0, 2, &no_outer, work, best));
    REFUSED(fpp_blocks_terrific(&blocks, panels, 0, 2, &radii, NULL, best));
    REFUSED(fpp_blocks_terrific(&blocks, panels, 0, 2, &radii, work, NULL));
    ACCEPTED(fpp_blocks_terrific(&blocks, panels, 0, 2, &empty, work, best));
    REFUSED(fpp_test_box_tile(NULL, upper, d, 1, panels, panels));
    REFUSED(fpp_test_box_tile(lower, NULL, d, 1, panels, panels));
    REFUSED(fpp_test_box_tile(lower, upper, NULL, 1, panels, panels));
    REFUSED(fpp_test_box_tile(lower, upper, d, 1, NULL, panels));
    REFUSED(fpp_test_box_tile(lower, upper, d, 1, panels, NULL));
    free(panels);
    free(lower);
    free(upper);
    free(work);
}

int test_arguments_of_searches(void)
{
    const int before = n_failed;
    check_races();
    check_balls();
    check_tiles();
    check_blocks();
    return n_failed - before;
}
