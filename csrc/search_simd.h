/* The search for a terrific ball, and the kernels of one vector width: included by balls_simd.h alone. */

/* near, far (64): least and largest squared distance that a row can have from rows in boxes (dim, 64). Rounding is monotone, and
 * the order of the sum is that of add_columns: the bounds hold for computed distances as they are. */
TARGET static void NAME(box_tile)(const double *restrict lower, const double *restrict upper, const double *restrict row,
                                  int64_t dim, double *restrict near, double *restrict far)
{
    for (int64_t lane = 0; lane < LANES; lane += W) {
        V least_sq = {0.0}, most_sq = {0.0};
        for (int64_t k = 0; k < dim; k++) {
            const V below = NAME(load)(lower + k * LANES + lane) - row[k], above = row[k] - NAME(load)(upper + k * LANES + lane);
            const VI larger = below > above;
            V gap = (V)((larger & (VI)below) | (~larger & (VI)above));
            const V a = below * below, b = above * above;
            const VI farther = a > b;
            gap = (V)((gap > 0.0) & (VI)gap);
            least_sq += gap * gap;
            most_sq += (V)((farther & (VI)a) | (~farther & (VI)b));
        }
        NAME(store)(near + lane, least_sq);
        NAME(store)(far + lane, most_sq);
    }
}

/* What the bounds of boxes say of a ball: 0 nothing, 1 it fails, 2 smaller ones fail too. */
TARGET static int NAME(boxes_refuse)(const fpp_blocks *blocks, const search_scratch *scratch, double inner, double outer, int64_t m,
                                     int64_t min_count)
{
    VI reached = {0}, within = {0}, between = {0};
    for (int64_t p = 0; p < (blocks->count + LANES - 1) / LANES * LANES; p += W) {
        VI n;
        memcpy(&n, blocks->sizes + p, sizeof n);
        const V near = NAME(load)(scratch->near + p);
        const VI far_in = NAME(load)(scratch->far + p) <= outer;
        reached += n & (near <= inner);
        within += n & far_in;
        between += n & (near > inner) & far_in;
    }
    int64_t sums[3] = {0};
    for (int l = 0; l < W; l++) {
        sums[0] += reached[l];
        sums[1] += within[l];
        sums[2] += between[l];
    }
    if (sums[0] < min_count) {
        return 2;
    }
    return sums[2] > 0 || m - sums[1] < min_count;
}

TARGET FPP_INLINE int NAME(any_between)(const double *distances, double inner, double outer)
{
    return NAME(within)(distances, inner) != NAME(within)(distances, outer);
}

/* Rows within inner of a row, or -1 if there is one between inner and outer; panels that are clear are not read. */
TARGET static int64_t NAME(passes)(const fpp_blocks *blocks, const double *row, const search_scratch *scratch, double inner,
                                   double outer)
{
    double out[LANES];
    int64_t inside = 0;
    for (int64_t p = 0; p < blocks->count; p++) {
        if (scratch->far[p] <= inner) {
            inside += blocks->sizes[p];
        } else if (scratch->near[p] <= outer) {
            NAME(add_columns)(blocks->panels + p * blocks->dim * LANES, row, 0, blocks->dim, out);
            const uint64_t reached = NAME(within)(out, inner);
            if (reached != NAME(within)(out, outer)) {
                return -1;
            }
            inside += __builtin_popcountll(reached);
        }
    }
    return inside;
}

TARGET static void NAME(terrific)(const fpp_blocks *blocks, const double *spread, int64_t begin, int64_t end,
                                  const fpp_radii *radii, int64_t m, search_scratch *scratch, int64_t *best)
{
    const int64_t dim = blocks->dim, outer_tiles = (blocks->count + LANES - 1) / LANES;
    double out[LANES];
    for (int64_t place = begin; place < end; place++) {
        const int64_t p = place / LANES, j = blocks->order[place];
        if (j < 0) {
            continue;
        }
        const double *own = blocks->panels + p * dim * LANES;
        for (int64_t k = 0; k < dim; k++) {
            scratch->row[k] = own[k * LANES + place % LANES];
        }
        const int64_t last = least(j < best[1] ? best[0] + 1 : best[0], radii->count); /* radii from here on cannot win any more */
        int64_t left = 1;
        memset(scratch->alive, 1, (size_t)radii->count);
        /* One row between the two radii is enough to refuse a ball: most are met among neighbours or in a sample. */
        for (int e = 0; e < 2 && left > 0; e++) {
            NAME(add_columns)(e == 0 ? spread : own, scratch->row, 0, dim, out);
            left = 0;
            for (int64_t i = 0; i < last; i++) {
                scratch->alive[i] = scratch->alive[i] && !NAME(any_between)(out, radii->inner[i], radii->outer[i]);
                left += scratch->alive[i];
            }
        }
        if (left == 0) {
            continue;
        }
        for (int64_t q = 0; q < outer_tiles; q++) {
            const int64_t box = q * dim * LANES;
            NAME(box_tile)(blocks->lower + box, blocks->upper + box, scratch->row, dim, scratch->near + q * LANES,
                           scratch->far + q * LANES);
        }
        for (int64_t i = 0; i < last; i++) {
            if (!scratch->alive[i]) {
                continue;
            }
            const double inner = radii->inner[i], outer = radii->outer[i];
            const int refused = NAME(boxes_refuse)(blocks, scratch, inner, outer, m, radii->min_count);
            if (refused == 2) {
                break;
            }
            const int64_t inside = refused == 1 ? -1 : NAME(passes)(blocks, scratch->row, scratch, inner, outer);
            if (inside >= radii->min_count && m - inside >= radii->min_count) {
                best[0] = i;
                best[1] = j;
                break;
            }
        }
    }
}

static const ball_kernels NAME(kernels) = {
    NAME(count_rows), NAME(distances), NAME(route), NAME(gather), NAME(count_tile), NAME(terrific), NAME(box_tile),
};
