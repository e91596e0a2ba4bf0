/* Gradients of labelled rows: the rule for pointers and sizes, a case by hand, and the bound on what a function may do. Linked into
 * test_fpp. */
#include "test_support.h"

#include <math.h>
#include <string.h>

static const double doubles[9] = {2.0, 0.0, 2.0, 6.0, 8.0, -99.0, 1.0, 1.0, 1.0};
static const float floats[9] = {2.0f, 0.0f, 2.0f, 6.0f, 8.0f, -99.0f, 1.0f, 1.0f, 1.0f};

static double wild(double score, double label)
{
    return score * 1e300 + label;
}

static void wild_outputs(const double *scores, int64_t outputs, double label, double *found)
{
    for (int64_t o = 0; o < outputs; o++) {
        found[o] = o == 0 ? NAN : scores[o] + label;
    }
}

static void check_refusals(void)
{
    static const double weights[2] = {0.5, 0.0};
    static const int64_t places[4] = {1, 0, 2, -1}; /* of two rows: the last ones are not there */
    const int64_t huge = INT64_C(1) << 62;
    const fpp_gradient_map map = {.dim = 2, .outputs = 1, .quant_bound = 60, .loss = FPP_LOSS_SQUARED, .weights = weights,
                                  .inv_scale = 1.0, .limit = 5.0, .inv_step = 10.0};
    static const double endless[2] = {1.0, INFINITY};
    fpp_gradient_map bad[18];
    char *work = room(fpp_gradients_workspace_size(&map), 1);
    int64_t sums[2] = {0};
    for (int i = 0; i < 18; i++) {
        bad[i] = map;
    }
    bad[0].dim = 0;
    bad[1].dim = FPP_DIM_MAX + 1;
    bad[2].outputs = 0;
    bad[3].outputs = FPP_DIM_MAX;
    bad[4].quant_bound = 0;
    bad[5].quant_bound = INT64_C(94906265); /* 2 Q^2 > 2^53 */
    bad[6].loss = -1;
    bad[7].loss = FPP_LOSS_SOFTMAX + 1;
    bad[8].loss = FPP_LOSS_FUNCTION; /* without one */
    bad[9].function = wild;          /* with a loss that has none */
    bad[10].weights = NULL;
    bad[11].limit = NAN;
    bad[12].inv_step = INFINITY;
    bad[13].inv_scale = 0.0;
    bad[14].spread = weights; /* without clip */
    bad[15].outputs = 2;      /* of a loss with one */
    bad[16].spread = endless;
    bad[16].clip = 1.0;
    bad[17].weighted = 2;
    CHECK(fpp_gradients_workspace_size(NULL) == -1);
    for (int i = 0; i < 18; i++) {
        CHECK(fpp_gradients_workspace_size(&bad[i]) == -1);
        REFUSED(fpp_gradients_sum(doubles, 0, 1, 3, NULL, 0, &bad[i], work, sums));
    }
#define REFUSALS(places, count)                                                        \
    REFUSED(fpp_gradients_sum(NULL, 0, 2, 3, places, count, &map, work, sums));        \
    REFUSED(fpp_gradients_sum(doubles, 0, 2, 3, places, count, NULL, work, sums));     \
    REFUSED(fpp_gradients_sum(doubles, 0, 2, 3, places, count, &map, NULL, sums));     \
    REFUSED(fpp_gradients_sum(doubles, 0, 2, 3, places, count, &map, work, NULL));     \
    REFUSED(fpp_gradients_sum(doubles, 0, -1, 3, places, count, &map, work, sums));    \
    REFUSED(fpp_gradients_sum(doubles, 0, huge, 3, places, count, &map, work, sums));  \
    REFUSED(fpp_gradients_sum(doubles, 0, 3, huge, places, count, &map, work, sums))
    REFUSALS(NULL, 0);
    REFUSALS(places, 1);
    ACCEPTED(fpp_gradients_sum(NULL, 0, 0, 3, NULL, 0, &map, work, sums));
    ACCEPTED(fpp_gradients_sum(doubles, 0, 1, huge, NULL, 0, &map, work, sums));
    REFUSED(fpp_gradients_sum(doubles, 0, 2, 3, places, -1, &map, work, sums));
    REFUSED(fpp_gradients_sum(doubles, 0, 2, 3, places, 3, &map, work, sums));
    REFUSED(fpp_gradients_sum(doubles, 0, 2, 3, places + 3, 1, &map, work, sums));
    ACCEPTED(fpp_gradients_sum(doubles, 0, 2, 3, places, 0, &map, work, sums));
    free(work);
}

/* Prediction 1, residual 1, |z| = 2: a gradient inside of the bound. Prediction 3, residual -102, |z| = 10: shortened to 5. */
static void check_by_hand(void)
{
    static const double weights[2] = {0.5, 0.0}, spread[2] = {1.0, 1.0}, flat[2] = {0.0, 0.0};
    fpp_gradient_map map = {.dim = 2, .outputs = 1, .quant_bound = 60, .loss = FPP_LOSS_SQUARED, .weights = weights,
                            .inv_scale = 1.0, .limit = 5.0, .inv_step = 10.0};
    char *work = room(fpp_gradients_workspace_size(&map), 1);
    int64_t sums[2] = {1, 1};
    ACCEPTED(fpp_gradients_sum(doubles, 0, 2, 3, NULL, 0, &map, work, sums));
    CHECK(sums[0] == 1 + 20 - 30 && sums[1] == 1 - 40);
    static const int64_t places[3] = {1, 1, 0};
    memset(sums, 0, sizeof sums);
    ACCEPTED(fpp_gradients_sum(doubles, 0, 2, 3, places, 3, &map, work, sums));
    CHECK(sums[0] == 20 - 60 && sums[1] == -80);
    map.spread = spread;
    map.inv_scale = 0.5;
    map.clip = 1.0;
    free(work);
    work = room(fpp_gradients_workspace_size(&map), 1); /* a map with a spread needs more */
    memset(sums, 0, sizeof sums);
    ACCEPTED(fpp_gradients_sum(floats, 1, 2, 3, NULL, 0, &map, work, sums));
    CHECK(sums[0] == 10 - 30 && sums[1] == -40);
    /* Half the weight, more than 1, none, and a negative one. */
    static const double weighted[16] = {2.0, 0.0, 2.0, 0.5, 2.0, 0.0, 2.0, 1e300, 2.0, 0.0, 2.0, NAN, 2.0, 0.0, 2.0, -1.0};
    map.weighted = 1;
    memset(sums, 0, sizeof sums);
    ACCEPTED(fpp_gradients_sum(weighted, 0, 4, 4, NULL, 0, &map, work, sums));
    CHECK(sums[0] == 5 + 10 && sums[1] == 0);
    free(work);
    const fpp_gradient_map classes = {.dim = 1, .outputs = 2, .quant_bound = 200, .loss = FPP_LOSS_SOFTMAX, .weights = flat,
                                      .inv_scale = 1.0, .limit = 1.0, .inv_step = 100.0};
    work = room(fpp_gradients_workspace_size(&classes), 1);
    memset(sums, 0, sizeof sums);
    ACCEPTED(fpp_gradients_sum(doubles + 6, 0, 1, 2, NULL, 0, &classes, work, sums));
    CHECK(sums[0] == -50 && sums[1] == 50);
    free(work);
}

/* Rows of blocks of the exact size; whatever the function returns, one row adds at most quant_bound. */
static void check_bound(int32_t level, int64_t dim, int64_t outputs)
{
    const int64_t n = 21, bound = 50;
    uint64_t seed = (uint64_t)(dim + outputs);
    double *x = block(n * (dim + 1), sizeof *x), *weights = block(outputs * dim, sizeof *weights);
    int64_t *sums = block(outputs * dim, sizeof *sums);
    for (int64_t i = 0; i < n * (dim + 1); i++) {
        const uint64_t word = next_word(&seed);
        memcpy(x + i, &word, word % 9 == 0 ? sizeof word : 0);
        x[i] = word % 9 == 0 ? x[i] : (double)(word % 100) * 0.1 - 5.0;
    }
    for (int64_t k = 0; k < outputs * dim; k++) {
        weights[k] = 0.1;
    }
    fpp_gradient_map map = {.dim = dim, .outputs = outputs, .quant_bound = bound, .loss = FPP_LOSS_FUNCTION, .weights = weights,
                            .inv_scale = 1.0, .limit = 5.0, .inv_step = 20.0}; /* too loose, so that rows fail the check */
    map.function = outputs == 1 ? wild : NULL;
    map.functions = outputs == 1 ? NULL : wild_outputs;
    char *work = room(fpp_gradients_workspace_size(&map) + 5, 1);
    fpp_isa_limit(level);
    for (int64_t i = 0; i < n; i++) {
        double length_sq = 0.0;
        memset(sums, 0, (size_t)(outputs * dim) * sizeof *sums);
        ACCEPTED(fpp_gradients_sum(x + i * (dim + 1), 0, 1, dim + 1, NULL, 0, &map, work + 5, sums));
        for (int64_t k = 0; k < outputs * dim; k++) {
            length_sq += (double)sums[k] * (double)sums[k];
        }
        CHECK(length_sq <= (double)(bound * bound));
    }
    ACCEPTED(fpp_gradients_sum(x, 0, n, dim + 1, NULL, 0, &map, work + 5, sums));
    fpp_isa_limit(FPP_ISA_AVX512);
    free(x);
    free(weights);
    free(sums);
    free(work);
}

int test_gradients(void)
{
    const int before = n_failed;
    check_refusals();
    for (int32_t level = FPP_ISA_BASELINE; level <= FPP_ISA_AVX512; level++) {
        fpp_isa_limit(level);
        check_by_hand();
        for (int64_t dim = 1; dim <= 20; dim++) {
            check_bound(level, dim, 1);
            check_bound(level, dim, 3);
        }
        check_bound(level, 250, 1); /* smaller groups, then rows that are read again */
        check_bound(level, 1030, 1);
        check_bound(level, 1030, 2);
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    return n_failed - before;
}
