/* Sums of clipped gradients of many settings: any rows, places, losses and settings give what the definition in fpp.h gives, to single
 * precision, on every instruction set; norms are found where they are not known, and no entry beyond a row is read. */
#include "fuzz.h"

typedef struct {
    fpp_gradient_map map;
    int64_t n, stride, count;
    int32_t bounded;
    int64_t *places;
    float *x, *labels, *weights, *factors, *norms;
} problem;

static double below(double score, double label)
{
    return (label - score) * 0.5;
}

static float *floats(int64_t n, uint64_t *seed)
{
    double *wide = numbers(n, seed, 1.0);
    float *narrow = as_floats(wide, n);
    free(wide);
    return narrow;
}

static problem make(fuzz_input *in)
{
    problem p;
    memset(&p, 0, sizeof p);
    const int64_t dim = pick(in, 1, 70), settings = pick(in, 1, 40);
    const int32_t loss = (int32_t)pick(in, FPP_LOSS_FUNCTION, FPP_LOSS_POISSON);
    uint64_t seed = take(in, 2);
    p.n = pick(in, 0, 40);
    p.stride = dim + pick(in, 0, 1);
    p.bounded = (int32_t)pick(in, 0, 2);
    p.x = floats(p.n * p.stride, &seed);
    p.weights = floats(dim * settings, &seed);
    p.factors = floats(settings, &seed);
    p.labels = room(p.n, sizeof *p.labels);
    p.norms = room(p.n, sizeof *p.norms);
    for (int64_t i = 0; i < p.n; i++) {
        static const float labels[] = {0.0f, 1.0f, 0.25f, -3.0f, NAN, INFINITY};
        p.labels[i] = labels[pick(in, 0, 5)];
        p.norms[i] = pick(in, 0, 3) ? -1.0f : 2.0f;
        for (int64_t k = 0; k < dim && pick(in, 0, 15) == 15; k++) {
            p.x[i * p.stride + k] = 0.0f; /* the norm may then be zero */
        }
    }
    p.count = pick(in, 0, 1) || p.n == 0 ? pick(in, 0, p.n) : -pick(in, 0, 50);
    if (p.count < 0) {
        p.count = -p.count;
        p.places = room(p.count, sizeof *p.places);
        for (int64_t i = 0; i < p.count; i++) {
            p.places[i] = pick(in, 0, p.n - 1);
        }
    }
    p.map = (fpp_gradient_map){.dim = dim, .outputs = settings, .loss = loss, .numbers = {0.25, 1.5}, .limit = 0.5,
                               .function = loss == FPP_LOSS_FUNCTION ? below : NULL};
    return p;
}

/* NaN stays NaN. */
static double within(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static double chance_of(double score)
{
    return 1.0 / (1.0 + exp(-score));
}

static double plain_residual(const fpp_gradient_map *map, double score, double label)
{
    const int known = label == 0.0 || label == 1.0;
    const double sign = 2.0 * label - 1.0;
    switch (map->loss) {
    case FPP_LOSS_FUNCTION:
        return below(score, label);
    case FPP_LOSS_SQUARED:
        return label - score;
    case FPP_LOSS_LOGISTIC:
        return known ? label - chance_of(score) : NAN;
    case FPP_LOSS_WEIGHTED_LOGISTIC:
        return !known ? NAN : label == 1.0 ? map->numbers[1] * (1.0 - chance_of(score)) : -map->numbers[0] * chance_of(score);
    case FPP_LOSS_SMOOTH_HINGE:
        return known ? sign * within(1.0 - sign * score, 0.0, 1.0) : NAN;
    case FPP_LOSS_HUBER:
        return within(label - score, -map->numbers[0], map->numbers[0]);
    default:
        return label >= 0.0 ? label - exp(fmin(score, 700.0)) : NAN;
    }
}

/* What setting s makes of a row, and by how much single precision may be off. */
static double plain_step(const problem *p, const float *row, float label, double norm, int64_t s, double *off)
{
    const double longest = p->map.limit / fmax(norm, 1e-30);
    double score = 0.0, size = 0.0;
    for (int64_t k = 0; k < p->map.dim; k++) {
        const double term = (double)row[k] * (double)p->weights[k * p->map.outputs + s];
        score += term;
        size += fabs(term);
    }
    double step = plain_residual(&p->map, score, (double)label);
    if (!(fabs(step) < INFINITY)) {
        *off = 0.0;
        return 0.0;
    }
    const double slope = p->map.loss == FPP_LOSS_POISSON ? exp(score) : 1.5;
    *off = 1e-5 * (fabs(step) + slope * size + 1e-5);
    if (p->bounded == 2) {
        *off = fabs(step) <= *off ? 2.0 * longest : 1e-6 * longest; /* near zero the sign may be either */
        return step > 0.0 ? longest : step < 0.0 ? -longest : 0.0;
    }
    if (p->bounded == 1) {
        *off = fmin(*off + 1e-6 * longest, 2.0 * longest);
        step = within(step, -longest, longest);
    }
    return step;
}

static void compare(const problem *p, const float *norms, const float *total)
{
    const int64_t dim = p->map.dim, settings = p->map.outputs;
    for (int64_t s = 0; s < settings; s++) {
        double *sum = zeros(dim, sizeof *sum), *most = zeros(dim, sizeof *most);
        for (int64_t i = 0; i < p->count; i++) {
            const int64_t at = p->places == NULL ? i : p->places[i];
            const float *row = p->x + at * p->stride;
            double norm_sq = 0.0, off;
            for (int64_t k = 0; k < dim; k++) {
                norm_sq += (double)row[k] * (double)row[k];
            }
            const double norm = p->norms[at] >= 0.0f ? (double)p->norms[at] : sqrt(norm_sq);
            AGREE(fabs((double)norms[at] - norm) <= 1e-5 * norm);
            const double step = plain_step(p, row, p->labels[at], norm, s, &off);
            for (int64_t k = 0; k < dim; k++) {
                const double part = (double)p->factors[s] * (double)row[k];
                sum[k] += part * step;
                most[k] += fabs(part) * (off + 1e-5 * fabs(step));
            }
        }
        for (int64_t k = 0; k < dim; k++) {
            const double found = (double)total[k * settings + s] - 1.0;
            AGREE(fabs(found - (PLANTED && k == 0 ? -sum[k] : sum[k])) <= most[k] + 1e-5);
        }
        free(sum);
        free(most);
    }
}

static void run(fuzz_input in, int32_t level)
{
    problem p = make(&in);
    const int64_t entries = p.map.dim * p.map.outputs, size = fpp_sweep_workspace_size(&p.map);
    float *total = room(entries, sizeof *total), *norms = room(p.n, sizeof *norms);
    char *work = room(size + 3, 1);
    AGREE(size > 0);
    for (int64_t i = 0; i < entries; i++) {
        total[i] = 1.0f;
    }
    memcpy(norms, p.norms, (size_t)p.n * sizeof *norms);
    fpp_isa_limit(level);
    AGREE(fpp_sweep_sum_f32(p.x, p.n, p.stride, p.labels, p.places, p.count, &p.map, p.weights, p.factors, p.bounded, work + 3, norms, total)
          == FPP_OK);
    compare(&p, norms, total);
    free(total);
    free(norms);
    free(work);
    free(p.places);
    free(p.x);
    free(p.labels);
    free(p.weights);
    free(p.factors);
    free(p.norms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        run((fuzz_input){data, size}, level);
    }
    return 0;
}
