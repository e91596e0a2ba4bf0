/* Gradients of labelled rows: any map, rows and residuals give what the definition in fpp.h gives, the same alone and in company, on
 * every instruction set, inside the bound that privacy rests on. */
#include "fuzz.h"

typedef struct {
    fpp_gradient_map map;
    int64_t n, stride;
    int32_t narrow;
    double *x, *weights, *spread;
    float *x32;
} problem;

/* Functions of a caller: one raises a residual to anything, one leaves an entry out. */
static double steep(double score, double label)
{
    return (label - score) * 1e150 * (label - score);
}

static void several(const double *scores, int64_t outputs, double label, double *found)
{
    for (int64_t o = 0; o + 1 < outputs; o++) {
        found[o] = label - scores[o] / (label + 1.0);
    }
}

static problem make(fuzz_input *in)
{
    static const double sizes[] = {1.0, 1.0, 10.0, 1e-3, 1e100, 1e155, 1e300, 0x1p-1050};
    problem p;
    memset(&p, 0, sizeof p);
    const int64_t dim = pick(in, 1, 9) < 8 ? pick(in, 1, 20) : pick(in, 21, 70);
    const int32_t loss = (int32_t)pick(in, FPP_LOSS_FUNCTION, FPP_LOSS_SOFTMAX);
    const int64_t called = pick(in, 0, 1), several_outputs = loss == FPP_LOSS_SOFTMAX || (loss == FPP_LOSS_FUNCTION && called);
    const int64_t outputs = several_outputs ? pick(in, 1, 5) : 1;
    uint64_t seed = take(in, 2);
    p.n = pick(in, 0, 40);
    p.narrow = (int32_t)pick(in, 0, 1);
    p.stride = dim + 1 + pick(in, 0, 1);
    p.x = numbers(p.n * p.stride, &seed, sizes[pick(in, 0, 7)]);
    p.weights = numbers(outputs * dim, &seed, 1.0);
    p.spread = numbers(dim, &seed, 1.0);
    for (int64_t i = 0; i < p.n; i++) {
        p.x[i * p.stride + dim] = (double)pick(in, 0, 3);
        if (p.stride > dim + 1) {
            p.x[i * p.stride + dim + 1] = (double)pick(in, 0, 6) * 0.25 - 0.25;
        }
    }
    sprinkle(in, p.x, p.n * p.stride, 15);
    sprinkle(in, p.weights, outputs * dim, 3);
    sprinkle(in, p.spread, dim, 3);
    const int64_t spread = pick(in, 0, 1) && !several_outputs;
    const int64_t bound = pick(in, 0, 3) ? pick(in, 1, 3000) : pick(in, INT64_MIN, INT64_MAX);
    const double limit = pick(in, 0, 3) ? 1.5 : number(in), inv_step = pick(in, 0, 3) ? (double)pick(in, 1, 3000) : number(in);
    p.map = (fpp_gradient_map){
        .dim = dim, .outputs = outputs, .quant_bound = bound, .loss = loss, .numbers = {0.25, 1.0},
        .function = loss == FPP_LOSS_FUNCTION && !called ? steep : NULL,
        .functions = loss == FPP_LOSS_FUNCTION && called ? several : NULL,
        .weighted = p.stride > dim + 1, .weights = p.weights, .spread = spread ? p.spread : NULL,
        .inv_scale = spread ? 0.5 : 1.0, .clip = 2.0, .limit = limit, .inv_step = inv_step,
    };
    p.x32 = as_floats(p.x, p.n * p.stride);
    for (int64_t i = 0; p.narrow && i < p.n * p.stride; i++) {
        p.x[i] = (double)p.x32[i]; /* the twin reads doubles */
    }
    return p;
}

static int is_valid(const fpp_gradient_map *map)
{
    if (map->spread != NULL && !is_finite_row(map->spread, map->dim)) {
        return 0;
    }
    return map->quant_bound >= 1 && map->quant_bound <= 94906265
           && map->dim * map->outputs <= (INT64_C(1) << 53) / (map->quant_bound * map->quant_bound) && map->limit > 0.0
           && map->limit < INFINITY && map->inv_step > 0.0 && map->inv_step < INFINITY;
}

static double plain_min(double a, double b)
{
    return b < a ? b : a;
}

static double plain_max(double a, double b)
{
    return b > a ? b : a;
}

static double plain_residual(const fpp_gradient_map *map, double score, double label)
{
    const int known = label == 0.0 || label == 1.0;
    const double sign = 2.0 * label - 1.0, chance = plain_chance(score);
    switch (map->loss) {
    case FPP_LOSS_FUNCTION:
        return steep(score, label);
    case FPP_LOSS_SQUARED:
        return label - score;
    case FPP_LOSS_LOGISTIC:
        return known ? label - chance : NAN;
    case FPP_LOSS_WEIGHTED_LOGISTIC:
        return !known ? NAN : label == 1.0 ? map->numbers[1] * (1.0 - chance) : -map->numbers[0] * chance;
    case FPP_LOSS_SMOOTH_HINGE:
        return known ? sign * plain_min(plain_max(1.0 - sign * score, 0.0), 1.0) : NAN;
    case FPP_LOSS_HUBER:
        return plain_min(plain_max(label - score, -map->numbers[0]), map->numbers[0]);
    default:
        return label >= 0.0 ? label - exp(plain_min(score, 700.0)) : NAN;
    }
}

static void plain_softmax(const double *scores, int64_t outputs, double label, double *found)
{
    double top = scores[0], total = 0.0;
    for (int64_t o = 0; o < outputs; o++) {
        top = plain_max(top, scores[o]);
    }
    for (int64_t o = 0; o < outputs; o++) {
        total += exp(scores[o] - top);
    }
    const int known = label >= 0.0 && label < (double)outputs && label == floor(label);
    for (int64_t o = 0; o < outputs; o++) {
        const double fall = -exp(scores[o] - top) / total;
        found[o] = label == (double)o ? fall + 1.0 : fall;
    }
    found[0] = known ? found[0] : NAN;
}

static double by_halves(const double *a)
{
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

/* q of one row, (outputs, dim). */
static void plain_row(const fpp_gradient_map *map, const double *x, double *steps, int64_t *q)
{
    const int64_t dim = map->dim, outputs = map->outputs;
    const double label = x[dim];
    double sum_sq = 0.0, length_sq = 0.0, scores[5] = {0.0}, norm_lanes[8] = {0.0}, score_lanes[5][8] = {{0.0}};
    int finite = 1;
    memset(q, 0, (size_t)(outputs * dim) * sizeof *q);
    memset(steps, 0, (size_t)outputs * sizeof *steps);
    for (int64_t k = 0; k < dim; k++) {
        const double z = map->spread != NULL ? map->spread[k] * x[k] : x[k];
        norm_lanes[k % 8] += z * z;
        for (int64_t o = 0; o < outputs; o++) {
            score_lanes[o][k % 8] += map->weights[o * dim + k] * x[k];
        }
    }
    const double norm_sq = by_halves(norm_lanes);
    for (int64_t o = 0; o < outputs; o++) {
        scores[o] = by_halves(score_lanes[o]);
    }
    if (map->loss == FPP_LOSS_SOFTMAX || map->functions != NULL) {
        if (map->functions != NULL) {
            several(scores, outputs, label, steps);
        } else {
            plain_softmax(scores, outputs, label, steps);
        }
        for (int64_t o = 0; o < outputs; o++) {
            length_sq += steps[o] * steps[o];
        }
        const double length = sqrt(length_sq), longest = map->limit / sqrt(norm_sq);
        for (int64_t o = 0; o < outputs; o++) {
            steps[o] *= (length > longest ? longest / length : 1.0) * map->inv_step;
        }
        finite = fabs(label) < INFINITY;
    } else if (map->spread != NULL) {
        const double residual = plain_residual(map, scores[0], label) * map->inv_scale, norm = sqrt(norm_sq);
        const double shortened = norm > map->limit ? map->limit / norm : 1.0;
        finite = fabs(residual) < INFINITY;
        steps[0] = shortened * (plain_min(plain_max(residual, -map->clip), map->clip) / map->clip) * map->inv_step;
    } else {
        const double residual = plain_residual(map, scores[0], label), longest = map->limit / sqrt(norm_sq);
        finite = fabs(residual) < INFINITY && fabs(label) < INFINITY;
        steps[0] = plain_min(plain_max(residual, -longest), longest) * map->inv_step;
    }
    for (int64_t o = 0; o < outputs; o++) {
        finite &= fabs(steps[o]) < INFINITY;
        if (map->weighted) {
            steps[o] *= x[dim + 1] > 0.0 ? plain_min(x[dim + 1], 1.0) : 0.0;
        }
    }
    for (int64_t i = 0; i < outputs * dim; i++) {
        const double z = map->spread != NULL ? map->spread[i % dim] * x[i % dim] : x[i % dim];
        const double rounded = nearbyint(steps[i / dim] * z);
        sum_sq += rounded * rounded;
    }
    for (int64_t i = 0; i < outputs * dim && finite && sum_sq <= (double)(map->quant_bound * map->quant_bound); i++) {
        const double z = map->spread != NULL ? map->spread[i % dim] * x[i % dim] : x[i % dim];
        q[i] = (int64_t)nearbyint(steps[i / dim] * z) * (PLANTED && i == 0 ? -1 : 1);
    }
}

static int32_t sum(const problem *p, int64_t first, int64_t n, void *work, int64_t *sums)
{
    const int64_t stride = p->stride;
    const void *const x = p->narrow ? (const void *)(p->x32 + first * stride) : p->x + first * stride;
    return fpp_gradients_sum(x, p->narrow, n, stride, NULL, 0, &p->map, work, sums);
}

static void run(fuzz_input in, int32_t level)
{
    problem p = make(&in);
    const int64_t entries = p.map.outputs * p.map.dim, size = fpp_gradients_workspace_size(&p.map);
    AGREE((size > 0) == is_valid(&p.map));
    if (size > 0) {
        int64_t *sums = zeros(entries, sizeof *sums), *one = zeros(entries, sizeof *one), *q = zeros(entries, sizeof *q);
        double *steps = room(p.map.outputs, sizeof *steps);
        char *work = room(size + 3, 1);
        fpp_isa_limit(level);
        AGREE(sum(&p, 0, p.n, work + 3, sums) == FPP_OK);
        /* All rows by their places, from the last on. */
        int64_t *places = room(p.n, sizeof *places), *others = zeros(entries, sizeof *others);
        for (int64_t r = 0; r < p.n; r++) {
            places[r] = p.n - 1 - r;
        }
        const void *const x = p.narrow ? (const void *)p.x32 : p.x;
        AGREE(fpp_gradients_sum(x, p.narrow, p.n, p.stride, places, p.n, &p.map, work + 3, others) == FPP_OK);
        AGREE(memcmp(others, sums, (size_t)entries * sizeof *sums) == 0);
        free(places);
        free(others);
        for (int64_t r = 0; r < p.n; r++) {
            plain_row(&p.map, p.x + r * p.stride, steps, q);
            memset(one, 0, (size_t)entries * sizeof *one);
            AGREE(sum(&p, r, 1, work + 3, one) == FPP_OK);
            AGREE(memcmp(one, q, (size_t)entries * sizeof *q) == 0);
            for (int64_t i = 0; i < entries; i++) {
                sums[i] -= q[i];
            }
        }
        for (int64_t i = 0; i < entries; i++) {
            AGREE(sums[i] == 0);
        }
        free(sums);
        free(one);
        free(q);
        free(steps);
        free(work);
    }
    free(p.x);
    free(p.weights);
    free(p.spread);
    free(p.x32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        run((fuzz_input){data, size}, level);
    }
    return 0;
}
