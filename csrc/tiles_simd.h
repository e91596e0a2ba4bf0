/* Tiles of 64 panels against centers and radii, for one vector width: included by balls_simd.h alone. */

/* Radii none[v] to full[v], of those from begin to end, may part box v of lower and upper (dim, 64): distances from `center` that
 * differ from bounds by at most slack may be on either side. counts += 64 for each box that lies within a radius. Returns bit v
 * where a radius may part box v. */
TARGET FPP_INLINE uint64_t NAME(reach)(const float *lower, const float *upper, int64_t dim, const float *center, float slack,
                                       const float *bounds, int64_t begin, int64_t end, int32_t *none, int32_t *full,
                                           int64_t *counts)
{
    uint64_t open = 0;
    for (int64_t lane = 0; lane < LANES; lane += 4 * 2 * W) {
        S near[4], far[4];
        SI reached[4], covered[4];
        for (int v = 0; v < 4; v++) {
            near[v] = far[v] = (S){0.0f};
            reached[v] = covered[v] = (SI){0} + (int32_t)begin;
        }
        for (int64_t k = 0; k < dim; k++) {
            for (int v = 0; v < 4; v++) {
                const S below = NAME(load_s)(lower + k * LANES + lane + v * 2 * W) - center[k];
                const S above = center[k] - NAME(load_s)(upper + k * LANES + lane + v * 2 * W);
                const S gap = NAME(larger_s)((S){0.0f}, NAME(larger_s)(below, above)), across = NAME(smaller_s)(above, below);
                near[v] = FUSED(near[v], gap);
                far[v] = FUSED(far[v], across);
            }
        }
        for (int64_t r = begin; r < end; r++) {
            const S outer = (S){0.0f} + (bounds[r] + slack), inner = (S){0.0f} + (bounds[r] - slack);
            uint64_t whole = 0;
            for (int v = 0; v < 4; v++) {
                reached[v] -= near[v] > outer;
                covered[v] += 1 + (far[v] <= inner);
                whole |= NAME(at_most_s)(far[v], inner) << (v * 2 * W);
            }
            counts[r] += LANES * __builtin_popcountll(whole);
        }
        for (int v = 0; v < 4; v++) {
            *(NAME(sbits_u) *)(none + lane + v * 2 * W) = reached[v];
            *(NAME(sbits_u) *)(full + lane + v * 2 * W) = covered[v];
            open |= NAME(below_s)(reached[v], covered[v]) << (lane + v * 2 * W);
        }
    }
    return open;
}

/* out (64) = squared distances of a panel from a center; counts += those within bounds, of those from begin to end. Returns bit v
 * where distance v differs from one of them by at most slack. */
TARGET FPP_INLINE uint64_t NAME(count_lanes)(const float *panel, int64_t dim, const float *center, float slack, const float *bounds,
                                             int64_t begin, int64_t end, float *out, int64_t *counts)
{
    uint64_t close = 0;
    for (int64_t lane = 0; lane < LANES; lane += 4 * 2 * W) {
        S total[4], closest[4];
        for (int v = 0; v < 4; v++) {
            total[v] = (S){0.0f};
            closest[v] = (S){0.0f} + INFINITY;
        }
        for (int64_t k = 0; k < dim; k++) {
            for (int v = 0; v < 4; v++) {
                const S gap = center[k] - NAME(load_s)(panel + k * LANES + lane + v * 2 * W);
                total[v] = FUSED(total[v], gap);
            }
        }
        for (int64_t r = begin; r < end; r++) {
            const S bound = (S){0.0f} + bounds[r];
            uint64_t inside = 0;
            for (int v = 0; v < 4; v++) {
                const S apart = (S)((SI)(total[v] - bound) & INT32_MAX);
                inside |= NAME(at_most_s)(total[v], bound) << (v * 2 * W);
                closest[v] = NAME(smaller_s)(apart, closest[v]);
            }
            counts[r] += __builtin_popcountll(inside);
        }
        for (int v = 0; v < 4; v++) {
            NAME(store_s)(out + lane + v * 2 * W, total[v]);
            close |= NAME(at_most_s)(closest[v], (S){0.0f} + slack) << (lane + v * 2 * W);
        }
    }
    return close;
}

/* counts of radii begin ... end - 1 by the rows of `order` themselves, less what `single` counted for them (NaN: nothing). */
TARGET static void NAME(correct)(const lane_rows *rows, int32_t is_f32, const int64_t *order, const double *center,
                                 const double *radii_sq, const float *bounds, int64_t begin, int64_t end, const float *single,
                                 double *panel, int64_t *counts)
{
    double distances[LANES];
    if (is_f32) {
        NAME(load_panel)(rows, order, panel, 1);
    } else {
        NAME(load_panel)(rows, order, panel, 0);
    }
    NAME(add_columns)(panel, center, 0, rows->dim, distances);
    for (int64_t r = begin; r < end; r++) {
        counts[r] += __builtin_popcountll(NAME(within)(distances, radii_sq[r]));
        counts[r] -= __builtin_popcountll(NAME(within_s)(single, bounds[r]));
    }
}

/* A group of centers meets the panels of a tile while they are in the nearest cache. */
TARGET static void NAME(count_open)(const lane_rows *rows, int32_t is_f32, const fpp_tiles *tiles, int64_t q, int64_t panels_used,
                                    const ball_list *balls, int64_t start, int64_t group, tile_scratch *scratch)
{
    const int64_t dim = rows->dim, near_by = dim * LANES > NEAR_NUMBERS ? 1 : least(LANES, NEAR_NUMBERS / (dim * LANES));
    float single[LANES];
    for (int64_t some = 0; some < panels_used; some += near_by) {
        const uint64_t these = ALL_LANES >> (LANES - near_by) << some;
        for (int64_t g = 0; g < group; g++) {
            int64_t *counts = balls->counts + (start + g) * balls->radii;
            for (uint64_t open = scratch->open[g] & these; open != 0; open &= open - 1) {
                const int64_t v = __builtin_ctzll(open), p = q * LANES + v;
                const int64_t low = scratch->none[g * LANES + v], high = scratch->full[g * LANES + v];
                const uint64_t close = NAME(count_lanes)(tiles->panels + p * dim * LANES, dim, scratch->moved + g * dim,
                                                         scratch->slack[g], scratch->bounds, low, high, single, counts);
                if (close != 0) {
                    NAME(correct)(rows, is_f32, tiles->order + p * LANES, balls->centers + (start + g) * dim, balls->radii_sq,
                                  scratch->bounds, low, high, single, scratch->panel, counts);
                }
            }
        }
    }
}

TARGET static void NAME(count_tile)(const lane_rows *rows, int32_t is_f32, const fpp_tiles *tiles, int64_t q,
                                    const ball_list *balls, tile_scratch *scratch)
{
    const int64_t dim = rows->dim, radii = balls->radii;
    int64_t total = 0, panels_used = 0;
    float nothing[LANES];
    for (int64_t p = q * LANES; p < (q + 1) * LANES; p++) {
        total += tiles->sizes[p];
        panels_used += tiles->sizes[p] > 0;
    }
    if (panels_used == 0) {
        return;
    }
    for (int64_t v = 0; v < LANES; v++) {
        nothing[v] = NAN;
    }
    tile_box(tiles, q, dim, panels_used, scratch->box);
    for (int64_t start = 0; start < balls->k; start += TOGETHER) {
        const int64_t group = least(TOGETHER, balls->k - start);
        for (int64_t g = 0; g < group; g++) {
            const double *center = balls->centers + (start + g) * dim;
            int64_t *counts = balls->counts + (start + g) * radii, first = 0;
            double near, far;
            scratch->open[g] = 0;
            scratch->slack[g] = tile_slack(scratch->box, tiles->middles + q * dim, center, dim, scratch->moved + g * dim, &near,
                                           &far);
            while (first < radii && balls->radii_sq[first] < near) {
                first++;
            }
            int64_t last = first;
            while (last < radii && balls->radii_sq[last] < far) {
                last++;
            }
            for (int64_t r = last; r < radii; r++) {
                counts[r] += total;
            }
            if (first == last) {
                continue;
            }
            if (far > 1e-30 && far < 1e37) {
                int32_t *none = scratch->none + g * LANES, *full = scratch->full + g * LANES;
                const int64_t box = q * dim * LANES, missing = panels_used * LANES - total; /* in the last panel in use */
                scratch->open[g] = ALL_LANES >> (LANES - panels_used)
                                   & NAME(reach)(tiles->lower + box, tiles->upper + box, dim, scratch->moved + g * dim,
                                                 scratch->slack[g], scratch->bounds, first, last, none, full, counts);
                for (int64_t r = full[panels_used - 1]; missing > 0 && r < last; r++) {
                    counts[r] -= missing;
                }
            } else { /* squares leave the range of single precision */
                for (int64_t p = q * LANES; p < q * LANES + panels_used; p++) {
                    NAME(correct)(rows, is_f32, tiles->order + p * LANES, center, balls->radii_sq, scratch->bounds, first, last,
                                  nothing,
                                  scratch->panel, counts);
                }
            }
        }
        NAME(count_open)(rows, is_f32, tiles, q, panels_used, balls, start, group, scratch);
    }
}
