/* Rows to integers: any map and any rows give what the definition in fpp.h gives, the same alone and in company, on every
 * instruction set, inside the bound that privacy rests on. */
#include "fuzz.h"

typedef struct {
    fpp_row_map map;
    int64_t n, stride, size;
    int32_t narrow;
    double *x, *center, *matrix, *offset, *edges_sq, *slope, *scored;
    fpp_row_score score; /* of some maps */
    float *x32;
    int64_t n_edges;
} problem;

static problem make(fuzz_input *in)
{
    static const double sizes[] = {1.0, 1.0, 1e-3, 1e100, 1e155, 1e300, 1e-200, 0x1p-1050};
    problem p;
    memset(&p, 0, sizeof p);
    const int64_t dim = pick(in, 1, 9) < 7 ? pick(in, 1, 26) : pick(in, 27, 140);
    const int32_t kind = (int32_t)pick(in, 0, 3);
    const int64_t out_dim = kind == FPP_MATRIX_FULL ? pick(in, 1, 60) : kind == FPP_MATRIX_LOWER ? dim + pick(in, 0, 30) : dim;
    const int64_t entries = kind >= FPP_MATRIX_LOWER ? out_dim * dim : dim;
    uint64_t seed = take(in, 2);
    p.n = pick(in, 0, 40);
    p.stride = pick(in, 0, 7) ? dim + pick(in, 0, 3) : 0; /* 0: one row again and again */
    p.size = p.n > 0 ? (p.n - 1) * p.stride + dim + 2 : 0; /* and a label and a weight after the last row */
    p.narrow = (int32_t)pick(in, 0, 1);
    p.x = numbers(p.size, &seed, sizes[pick(in, 0, 7)]);
    p.center = numbers(dim, &seed, 0.5);
    p.matrix = numbers(entries, &seed, pick(in, 0, 3) ? 1.0 : 1e200);
    p.offset = numbers(out_dim, &seed, 0.5);
    p.n_edges = pick(in, 0, 5);
    p.edges_sq = room(p.n_edges, sizeof *p.edges_sq);
    for (int64_t e = 0; e < p.n_edges; e++) {
        p.edges_sq[e] = (double)e;
    }
    sprinkle(in, p.edges_sq, p.n_edges, 3);
    sprinkle(in, p.x, p.size, 15);
    sprinkle(in, p.center, dim, 3);
    sprinkle(in, p.matrix, entries, 3);
    sprinkle(in, p.offset, out_dim, 3);
    const int64_t with = pick(in, 0, 3);
    const int64_t quant_bound = pick(in, 0, 3) ? pick(in, 1, 3000) : pick(in, INT64_MIN, INT64_MAX);
    const double inv_step = pick(in, 0, 3) ? 77.7 : number(in), limit = pick(in, 0, 3) ? (double)pick(in, 1, 3000) : number(in);
    p.map = (fpp_row_map){dim, out_dim, quant_bound, kind, with & 1 ? p.center : NULL, kind ? p.matrix : NULL,
                          with & 2 ? p.offset : NULL, inv_step, limit, NULL};
    p.slope = numbers(dim, &seed, 1.0);
    p.scored = room(p.n, sizeof *p.scored);
    p.score = (fpp_row_score){(int32_t)pick(in, FPP_LOSS_SQUARED, FPP_LOSS_WEIGHTED_LOGISTIC), (int32_t)pick(in, 0, 1),
                              (int32_t)pick(in, 0, 1), {0.5, 1.0}, 2.0, pick(in, 0, 3) ? 0.7 : number(in), p.slope};
    p.x32 = as_floats(p.x, p.size);
    for (int64_t i = 0; p.narrow && i < p.size; i++) {
        p.x[i] = (double)p.x32[i]; /* the twin reads doubles */
    }
    return p;
}

static int has_valid_score(const problem *p)
{
    return p->score.step > 0.0 && p->score.step < INFINITY;
}

/* What labelled rows are multiplied by: the residual or the root of the curvature of the loss. */
static void plain_scores(const problem *p)
{
    const int64_t dim = p->map.dim;
    for (int64_t r = 0; r < p->n; r++) {
        const double *row = p->x + r * p->stride;
        double lane[8] = {0.0}, factor;
        for (int64_t k = 0; k < dim; k++) {
            lane[k % 8] += row[k] * p->slope[k];
        }
        const double s = (((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]))) * p->score.unit;
        const double chance = plain_chance(s), label = row[dim];
        const double weight = p->score.loss == FPP_LOSS_WEIGHTED_LOGISTIC && label != 1.0 ? 0.5 : 1.0;
        if (p->score.loss == FPP_LOSS_SQUARED) {
            factor = p->score.curvature && label - s - (label - s) == 0.0 ? 1.0 : label - s;
        } else if (p->score.curvature) {
            factor = sqrt(weight * (chance * (1.0 - chance)));
        } else {
            factor = p->score.loss == FPP_LOSS_LOGISTIC ? label - chance : weight * (label == 1.0 ? 1.0 - chance : -chance);
        }
        if (p->score.loss != FPP_LOSS_SQUARED && label != 0.0 && label != 1.0) {
            factor = 0.0;
        }
        if (p->score.weighted) {
            const double part = row[dim + 1] > 1.0 ? 1.0 : row[dim + 1] > 0.0 ? row[dim + 1] : 0.0;
            factor *= p->score.curvature ? sqrt(part) : part;
        }
        factor *= p->score.step;
        p->scored[r] = factor - factor == 0.0 ? factor : 0.0;
    }
}

/* What the map gives a row, in the order of operations of the library; the squared norm of z. */
static double plain_row(const double *x, const fpp_row_map *map, double inv_step, double *z)
{
    double lane[8] = {0.0};
    for (int64_t i = 0; i < map->out_dim; i++) {
        const int matrix = map->matrix_kind >= FPP_MATRIX_LOWER;
        const int64_t begin = matrix ? 0 : i, end = map->matrix_kind == FPP_MATRIX_FULL || i >= map->dim ? map->dim : i + 1;
        double y = 0.0;
        for (int64_t k = begin; k < end; k++) {
            const double t = x[k] - (map->center ? map->center[k] : 0.0);
            y += map->matrix_kind == FPP_MATRIX_IDENTITY ? t : (matrix ? map->matrix[i * map->dim + k] : map->matrix[i]) * t;
        }
        z[i] = (y + (map->offset ? map->offset[i] : 0.0)) * inv_step;
        lane[i % 8] += z[i] * z[i];
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* 1 if q of a row is known: neutral, or rounded from a norm that does not overflow. */
static int plain_integers(const double *x, const fpp_row_map *map, double times, double *z, int64_t *q)
{
    const double norm_sq = plain_row(x, map, map->inv_step, z) * times * times, norm = sqrt(norm_sq);
    double sum_sq = 0.0;
    memset(q, 0, (size_t)map->out_dim * sizeof *q);
    if (!is_finite_row(x, map->dim)) {
        return 1;
    }
    if (!(norm_sq < INFINITY)) {
        return 0;
    }
    for (int64_t i = 0; i < map->out_dim; i++) {
        z[i] = nearbyint(z[i] * ((norm > map->limit ? map->limit / norm : 1.0) * times));
        sum_sq += z[i] * z[i];
    }
    for (int64_t i = 0; i < map->out_dim && sum_sq <= (double)(map->quant_bound * map->quant_bound); i++) {
        q[i] = (int64_t)z[i];
    }
    if (PLANTED && sum_sq > 0.0) {
        q[0] = -q[0];
    }
    return 1;
}

static int is_valid(const fpp_row_map *map)
{
    return map->quant_bound >= 1 && map->quant_bound <= 94906265
           && map->out_dim <= (INT64_C(1) << 53) / (map->quant_bound * map->quant_bound) && map->inv_step > 0.0
           && map->inv_step < INFINITY && map->limit > 0.0 && map->limit < INFINITY;
}

static const void *row_of(const problem *p, int64_t r)
{
    return p->narrow ? (const void *)(p->x32 + r * p->stride) : p->x + r * p->stride;
}

static int32_t quantise(const problem *p, int64_t first, int64_t n, void *work, int32_t *out)
{
    return fpp_rows_quantise(row_of(p, first), p->narrow, n, p->stride, &p->map, work, out);
}

static void check_sums(const problem *p, const int32_t *out, void *work)
{
    const int64_t d = p->map.out_dim;
    int64_t *sums = zeros(d, sizeof *sums), *gram = zeros(d * d, sizeof *gram);
    AGREE(fpp_rows_sum(row_of(p, 0), p->narrow, p->n, p->stride, &p->map, work, sums) == FPP_OK);
    const int32_t status = fpp_rows_gram(row_of(p, 0), p->narrow, p->n, p->stride, &p->map, work, gram);
    AGREE((status == FPP_OK) == (p->map.quant_bound <= FPP_GRAM_QUANT_MAX));
    for (int64_t i = 0; i < d; i++) {
        for (int64_t r = 0; r < p->n; r++) {
            sums[i] -= out[r * d + i];
        }
        AGREE(sums[i] == 0);
        for (int64_t j = 0; status == FPP_OK && j <= i; j++) {
            for (int64_t r = 0; r < p->n; r++) {
                gram[i * d + j] -= (int64_t)out[r * d + i] * out[r * d + j];
            }
            AGREE(gram[i * d + j] == 0);
        }
    }
    free(sums);
    free(gram);
}

/* Both pieces of a few rows, each row by itself and all together. */
static void check_pieces(const problem *p, const int32_t *out, void *work)
{
    const int64_t d = p->map.out_dim, size = d * d, n = p->map.quant_bound <= FPP_GRAM_QUANT_MAX ? p->n : 0;
    const int64_t bound_sq = p->map.quant_bound * p->map.quant_bound;
    int64_t *all = zeros(2 * size, sizeof *all), *one = zeros(2 * size, sizeof *one);
    const int32_t status = fpp_rows_pieces(row_of(p, 0), p->narrow, p->n, p->stride, &p->map, work, all, all + size);
    AGREE((status == FPP_OK) == (p->map.quant_bound <= FPP_GRAM_QUANT_MAX));
    for (int64_t r = 0; r < n; r++) {
        int64_t inside = 0, outer = 0;
        memset(one, 0, (size_t)(2 * size) * sizeof *one);
        AGREE(fpp_rows_pieces(row_of(p, r), p->narrow, 1, p->stride, &p->map, work, one, one + size)
              == FPP_OK);
        for (int64_t i = 0; i < d; i++) {
            inside += one[i * d + i];
            outer += one[size + i * d + i];
            for (int64_t j = 0; j <= i; j++) {
                const int64_t whole = (int64_t)out[r * d + i] * out[r * d + j];
                AGREE(one[i * d + j] == whole || one[i * d + j] == 0);
                all[i * d + j] -= one[i * d + j];
                all[size + i * d + j] -= one[size + i * d + j];
            }
        }
        AGREE(inside <= bound_sq && outer <= bound_sq);
    }
    for (int64_t i = 0; n > 0 && i < 2 * size; i++) {
        AGREE(i % size % d > i % size / d || all[i] == 0);
    }
    free(all);
    free(one);
}

static void check_shells(const problem *p, void *work)
{
    int64_t *counts = zeros(p->n_edges + 1, sizeof *counts);
    double *z = room(p->map.out_dim, sizeof *z);
    int ascending = 1;
    for (int64_t e = 0; e < p->n_edges; e++) {
        ascending &= p->edges_sq[e] >= (e > 0 ? p->edges_sq[e - 1] : 0.0);
    }
    const int32_t status =
        fpp_rows_shell_counts(row_of(p, 0), p->narrow, p->n, p->stride, &p->map, p->edges_sq, p->n_edges, work, counts);
    AGREE((status == FPP_OK) == ascending);
    for (int64_t r = 0; ascending && r < p->n; r++) {
        const double norm_sq = plain_row(p->x + r * p->stride, &p->map, 1.0, z);
        int64_t cell = 0;
        if (!is_finite_row(p->x + r * p->stride, p->map.dim)) {
            continue;
        }
        for (int64_t e = 0; e < p->n_edges; e++) {
            cell += !(norm_sq < INFINITY) || p->edges_sq[e] < norm_sq;
        }
        counts[cell]--;
    }
    for (int64_t e = 0; e <= p->n_edges; e++) {
        AGREE(counts[e] == 0);
    }
    free(counts);
    free(z);
}

/* Scored rows are quantised as their products with their factors; all together, each by itself, in pieces, and in single precision. */
static void check_scored(const problem *p)
{
    const int64_t d = p->map.out_dim;
    fpp_row_map map = p->map;
    map.center = map.offset = NULL;
    map.score = &p->score;
    const int64_t size = fpp_rows_workspace_size(&map);
    AGREE((size > 0) == has_valid_score(p));
    if (size < 0 || !is_valid(&p->map)) {
        return;
    }
    void *work = room(size, 1);
    int32_t *out = room(p->n * d, sizeof *out);
    float *single = room(p->n * (d + 1), sizeof *single);
    double *z = room(d, sizeof *z);
    int64_t *q = room(d, sizeof *q), *sums = zeros(2 * d, sizeof *sums), *gram = zeros(d * d, sizeof *gram);
    const double edges_sq[2] = {1.0, 1e4};
    plain_scores(p);
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        AGREE(fpp_rows_quantise(row_of(p, 0), p->narrow, p->n, p->stride, &map, work, out) == FPP_OK);
        AGREE(fpp_rows_single(row_of(p, 0), p->narrow, p->n, p->stride, &map, work, d + 1, single) == FPP_OK);
        for (int64_t r = 0; r < p->n; r++) {
            int64_t outer = 0, squares = 0;
            const int known = plain_integers(p->x + r * p->stride, &map, p->scored[r], z, q);
            for (int64_t i = 0; i < d; i++) {
                AGREE(!known || out[r * d + i] == q[i]);
                AGREE(single[r * (d + 1) + i] == (float)out[r * d + i]);
            }
            memset(sums, 0, (size_t)(2 * d) * sizeof *sums);
            memset(gram, 0, (size_t)(d * d) * sizeof *gram);
            int64_t counts[3] = {0};
            AGREE(fpp_rows_radial(row_of(p, r), p->narrow, 1, p->stride, &map, 0.3, 99, edges_sq, 2, work,
                                  sums, gram, counts)
                  == FPP_OK);
            const double norm_sq = plain_row(p->x + r * p->stride, &map, map.inv_step, z) * p->scored[r] * p->scored[r];
            AGREE(counts[0] + counts[1] + counts[2] == is_finite_row(p->x + r * p->stride, map.dim));
            AGREE(!(norm_sq < INFINITY) || counts[(edges_sq[0] < norm_sq) + (edges_sq[1] < norm_sq)] == 1);
            for (int64_t i = 0; i < d; i++) {
                AGREE(sums[i] == out[r * d + i]);
                outer += sums[d + i] * sums[d + i];
                squares += gram[i * d + i];
            }
            AGREE(outer <= p->map.quant_bound * p->map.quant_bound && squares <= 99 * 99);
        }
    }
    free(work);
    free(out);
    free(single);
    free(z);
    free(q);
    free(sums);
    free(gram);
}

static void check(const problem *p)
{
    const int64_t d = p->map.out_dim, bound = p->map.quant_bound;
    void *work = room(fpp_rows_workspace_size(&p->map), 1);
    int32_t *first = room(p->n * d, sizeof *first), *out = room(p->n * d, sizeof *out), *alone = room(d, sizeof *alone);
    int64_t *q = room(d, sizeof *q);
    double *z = room(d, sizeof *z);
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        check_shells(p, work);
        const int32_t status = quantise(p, 0, p->n, work, level == 0 ? first : out);
        AGREE((status == FPP_OK) == is_valid(&p->map));
        if (status != FPP_OK) {
            break;
        }
        AGREE(level == 0 || memcmp(first, out, (size_t)(p->n * d) * sizeof *out) == 0);
        check_sums(p, first, work);
        check_pieces(p, first, work);
        for (int64_t r = 0; r < p->n; r++) {
            AGREE(quantise(p, r, 1, work, alone) == FPP_OK);
            AGREE(memcmp(alone, first + r * d, (size_t)d * sizeof *alone) == 0);
        }
    }
    for (int64_t r = 0; r < p->n && is_valid(&p->map); r++) {
        const int known = plain_integers(p->x + r * p->stride, &p->map, 1.0, z, q);
        int64_t norm_sq = 0;
        for (int64_t i = 0; i < d; i++) {
            AGREE(!known || first[r * d + i] == q[i]);
            AGREE(llabs(first[r * d + i]) <= bound);
            norm_sq += (int64_t)first[r * d + i] * first[r * d + i];
        }
        AGREE(norm_sq <= bound * bound);
    }
    free(work);
    free(first);
    free(out);
    free(alone);
    free(q);
    free(z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    problem p = make(&in);
    check(&p);
    check_scored(&p);
    free(p.slope);
    free(p.scored);
    free(p.x);
    free(p.x32);
    free(p.center);
    free(p.matrix);
    free(p.offset);
    free(p.edges_sq);
    return 0;
}
