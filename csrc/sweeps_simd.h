/* Loops of sweeps.c for one vector width: included under F (floats in a vector, a divisor of LANES), BLOCK and TILE (below), NAME, TARGET,
 * SPLAT(a) = a in each lane, and FUSED(a, b, c) = a b + c. */
typedef float NAME(vec) __attribute__((vector_size(4 * F)));
typedef float NAME(vec_u) __attribute__((vector_size(4 * F), aligned(4), may_alias));
#define V NAME(vec)
#define PARTS (LANES / F)
#define LOAD(p) ((V) * (const NAME(vec_u) *)(const void *)(p))
#define STORE(p, v) (*(NAME(vec_u) *)(void *)(p) = (v))

/* LANES entries of a row from column k; zeros beyond its end, which is never read. */
TARGET FPP_INLINE void NAME(entries)(const float *row, int64_t k, int64_t dim, V *x)
{
    if (k + LANES <= dim) {
        for (int s = 0; s < PARTS; s++) {
            x[s] = LOAD(row + k + s * F);
        }
        return;
    }
    float rest[LANES] = {0.0f};
    memcpy(rest, row + k, (size_t)(dim - k) * sizeof(float));
    for (int s = 0; s < PARTS; s++) {
        x[s] = LOAD(rest + s * F);
    }
}

TARGET FPP_INLINE float NAME(folded)(const V *sums)
{
    float lanes[LANES];
    for (int s = 0; s < PARTS; s++) {
        STORE(lanes + s * F, sums[s]);
    }
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            lanes[l] += lanes[l + half];
        }
    }
    return lanes[0];
}

/* Four sums hide the latency of additions. */
TARGET static float NAME(norm)(const float *row, int64_t dim)
{
    V sums[4][PARTS], x[PARTS];
    for (int j = 0; j < 4; j++) {
        for (int s = 0; s < PARTS; s++) {
            sums[j][s] = (V){0.0f};
        }
    }
    for (int64_t k = 0; k < dim; k += 4 * LANES) {
        for (int j = 0; j < 4 && k + j * LANES < dim; j++) {
            NAME(entries)(row, k + j * LANES, dim, x);
            for (int s = 0; s < PARTS; s++) {
                sums[j][s] = FUSED(x[s], x[s], sums[j][s]);
            }
        }
    }
    for (int s = 0; s < PARTS; s++) {
        sums[0][s] = (sums[0][s] + sums[1][s]) + (sums[2][s] + sums[3][s]);
    }
    return sqrtf(NAME(folded)(sums[0]));
}

/* One setting, columns side by side: found[r][0] = score of each row of a group of FEW_ROWS. With `norms`, their norms are found too: a
 * pass of its own over rows in the cache, when nothing is fetched, took .15 ms for paper B's 700 rows. */
TARGET FPP_INLINE void NAME(few_scores)(const sweep_plan *plan, const row_group *group, const float *weights, int fetch, float *norms)
{
    V sums[FEW_ROWS][PARTS], squares[FEW_ROWS][PARTS], x[PARTS], w[PARTS];
    for (int r = 0; r < FEW_ROWS; r++) {
        for (int s = 0; s < PARTS; s++) {
            sums[r][s] = squares[r][s] = (V){0.0f};
        }
    }
    for (int64_t k = 0; k < plan->dim; k += LANES) {
        for (int r = 0; fetch && r < FEW_ROWS / 2; r++) {
            FPP_FETCH(group->ahead[r] + k);
        }
        for (int s = 0; s < PARTS; s++) {
            w[s] = LOAD(weights + k + s * F);
        }
        for (int r = 0; r < FEW_ROWS; r++) {
            NAME(entries)(group->row[r], k, plan->dim, x);
            for (int s = 0; s < PARTS; s++) {
                sums[r][s] = FUSED(x[s], w[s], sums[r][s]);
                if (norms != NULL) {
                    squares[r][s] = FUSED(x[s], x[s], squares[r][s]);
                }
            }
        }
    }
    for (int r = 0; r < FEW_ROWS; r++) {
        plan->found[r * LANES] = NAME(folded)(sums[r]);
        if (norms != NULL) {
            norms[r] = sqrtf(NAME(folded)(squares[r]));
        }
    }
}

/* total (ld) += the rows of such a group times found[r][0]. */
TARGET FPP_INLINE void NAME(few_totals)(const sweep_plan *plan, const row_group *group, float *total, int fetch)
{
    V x[PARTS], sums[PARTS], found[FEW_ROWS];
    for (int r = 0; r < FEW_ROWS; r++) {
        found[r] = SPLAT(plan->found[r * LANES]);
    }
    for (int64_t k = 0; k < plan->dim; k += LANES) {
        for (int r = FEW_ROWS / 2; fetch && r < FEW_ROWS; r++) {
            FPP_FETCH(group->ahead[r] + k);
        }
        for (int s = 0; s < PARTS; s++) {
            sums[s] = LOAD(total + k + s * F);
        }
        for (int r = 0; r < FEW_ROWS; r++) {
            NAME(entries)(group->row[r], k, plan->dim, x);
            for (int s = 0; s < PARTS; s++) {
                sums[s] = FUSED(x[s], found[r], sums[s]);
            }
        }
        for (int s = 0; s < PARTS; s++) {
            STORE(total + k + s * F, sums[s]);
        }
    }
}

/* LANES settings side by side: found[r] = scores of rows r ... r + BLOCK - 1 of a group, with weights (dim, LANES). */
TARGET FPP_INLINE void NAME(many_scores)(const sweep_plan *plan, const row_group *group, const float *weights, int64_t r0, int fetch)
{
    V sums[BLOCK][PARTS], w[PARTS];
    const float *row[BLOCK];
    for (int r = 0; r < BLOCK; r++) {
        row[r] = group->row[r0 + r];
        for (int s = 0; s < PARTS; s++) {
            sums[r][s] = (V){0.0f};
        }
    }
    for (int64_t begin = 0; begin < plan->dim; begin += LANES) {
        const int64_t end = fpp_min(begin + LANES, plan->dim);
        for (int r = 0; fetch && r < BLOCK; r += 2) {
            FPP_FETCH(group->ahead[r0 + r] + begin);
        }
        for (int64_t k = begin; k < end; k++) {
            for (int s = 0; s < PARTS; s++) {
                w[s] = LOAD(weights + k * LANES + s * F);
            }
            for (int r = 0; r < BLOCK; r++) {
                const V x = SPLAT(row[r][k]);
                for (int s = 0; s < PARTS; s++) {
                    sums[r][s] = FUSED(x, w[s], sums[r][s]);
                }
            }
        }
    }
    for (int r = 0; r < BLOCK; r++) {
        for (int s = 0; s < PARTS; s++) {
            STORE(plan->found + (r0 + r) * LANES + s * F, sums[r][s]);
        }
    }
}

/* total (width, LANES) += `width` columns of the rows of a group, from where they stand, times found; rows move on. gcc 12 makes a register
 * of each sum k + c of a pointer to a row and a column, and moves them through the ports of the multiply-adds. */
TARGET FPP_INLINE void NAME(tile)(const sweep_plan *plan, int64_t rows, const float **at, float *total, int width)
{
    V sums[TILE][PARTS], found[PARTS];
    for (int c = 0; c < width; c++) {
        for (int s = 0; s < PARTS; s++) {
            sums[c][s] = LOAD(total + c * LANES + s * F);
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        const float *row = at[r];
        at[r] = row + width;
        for (int s = 0; s < PARTS; s++) {
            found[s] = LOAD(plan->found + r * LANES + s * F);
        }
        for (int c = 0; c < width; c++) {
            const V x = SPLAT(row[c]);
            for (int s = 0; s < PARTS; s++) {
                sums[c][s] = FUSED(x, found[s], sums[c][s]);
            }
        }
    }
    for (int c = 0; c < width; c++) {
        for (int s = 0; s < PARTS; s++) {
            STORE(total + c * LANES + s * F, sums[c][s]);
        }
    }
}

TARGET FPP_INLINE void NAME(many_totals)(const sweep_plan *plan, const row_group *group, float *total, int fetch)
{
    const float *at[GROUP_ROWS];
    int64_t k = 0;
    memcpy(at, group->row, (size_t)group->rows * sizeof *at);
    for (; k + TILE <= plan->dim; k += TILE) {
        for (int64_t r = 1; fetch && k % LANES == 0 && r < group->rows; r += 2) {
            FPP_FETCH(group->ahead[r] + k);
        }
        NAME(tile)(plan, group->rows, at, total + k * LANES, TILE);
    }
    for (; k < plan->dim; k++) {
        NAME(tile)(plan, group->rows, at, total + k * LANES, 1);
    }
}

/* Scores of one setting, and norms that are not known yet. */
TARGET FPP_INLINE void NAME(first_scores)(const sweep_plan *plan, const sweep_rows *x, const row_group *group, int64_t begin)
{
    float norms[FEW_ROWS];
    if (knows_norms(x, group, begin)) {
        NAME(few_scores)(plan, group, plan->weights, 1, NULL);
        return;
    }
    NAME(few_scores)(plan, group, plan->weights, 1, norms);
    for (int64_t r = 0; r < group->used; r++) {
        float *norm = x->norms + place_of(x, begin + r);
        *norm = *norm >= 0.0f ? *norm : norms[r];
    }
}

TARGET FPP_INLINE void NAME(few_settings)(const sweep_plan *plan, const sweep_rows *x, const row_group *group, int64_t begin)
{
    for (int64_t p = 0; p < plan->panels; p++) {
        const float *weights = plan->weights + p * plan->panel_size;
        float *total = plan->totals + p * plan->panel_size;
        if (p == 0) {
            NAME(first_scores)(plan, x, group, begin);
        } else {
            NAME(few_scores)(plan, group, weights, 0, NULL);
        }
        turn_into_steps(plan, x, group, begin, p);
        if (p == 0) {
            NAME(few_totals)(plan, group, total, 1);
        } else {
            NAME(few_totals)(plan, group, total, 0);
        }
    }
}

TARGET FPP_INLINE void NAME(many_settings)(const sweep_plan *plan, const sweep_rows *x, const row_group *group, int64_t begin)
{
    for (int64_t r = 0; r < group->used; r++) {
        float *norm = x->norms + place_of(x, begin + r);
        if (!(*norm >= 0.0f)) {
            *norm = NAME(norm)(group->row[r], plan->dim);
        }
    }
    for (int64_t p = 0; p < plan->panels; p++) {
        float *total = plan->totals + p * plan->panel_size;
        for (int64_t r = 0; r < group->rows; r += BLOCK) {
            NAME(many_scores)(plan, group, plan->weights + p * plan->panel_size, r, p == 0);
        }
        turn_into_steps(plan, x, group, begin, p * LANES);
        NAME(many_totals)(plan, group, total, p == 0);
    }
}

TARGET static void NAME(sweep_rows)(const sweep_plan *plan, const sweep_rows *x)
{
    row_group group;
    for (int64_t i = 0; i < x->count; i += plan->rows) {
        begin_group(plan, x, i, &group);
        if (plan->few) {
            NAME(few_settings)(plan, x, &group, i);
        } else {
            NAME(many_settings)(plan, x, &group, i);
        }
    }
}

#undef STORE
#undef LOAD
#undef PARTS
#undef V
#undef FUSED
#undef SPLAT
#undef TILE
#undef BLOCK
#undef F
#undef NAME
#undef TARGET
