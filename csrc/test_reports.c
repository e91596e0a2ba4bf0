/* Local reports: how often the cap is hit, and that they are the same in any call and on every instruction set. */
#include "test_support.h"

#include <math.h>
#include <string.h>

enum { DIM = 20, N = 4000 };

static int is_hit(const int32_t *report, double threshold)
{
    double square = 0.0;
    for (int j = 0; j < DIM; j++) {
        square += (double)report[j] * (double)report[j];
    }
    return (double)report[0] >= threshold * sqrt(square);
}

int test_reports(void)
{
    const int before = n_failed;
    static const uint8_t key[FPP_KEY_BYTES] = {7};
    const fpp_report_law law = {.dim = DIM, .kind = FPP_REPORT_SPHERE, .log2_grid = 12, .threshold = 0.3, .miss = 0.2, .radius = 1.0};
    double *x = block((int64_t)N * DIM, sizeof *x);
    int32_t *whole = block((int64_t)N * DIM, sizeof *whole), part[3 * DIM];
    void *work = room(fpp_report_workspace_size(&law), 1);
    for (int i = 0; i < N; i++) {
        x[i * DIM] = 5.0;
    }
    ACCEPTED(fpp_reports_f64(x, N, DIM, &law, key, 0, work, whole));
    int hits = 0;
    for (int i = 0; i < N; i++) {
        hits += is_hit(whole + i * DIM, law.threshold);
    }
    /* 0.8 within 6 standard deviations; the grid moves some reports near the edge to the other side. */
    CHECK(abs(hits - 3200) < 6 * 26);
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        ACCEPTED(fpp_reports_f64(x + 50 * DIM, 3, DIM, &law, key, 50, work, part));
        CHECK(memcmp(part, whole + 50 * DIM, sizeof part) == 0);
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    free(x);
    free(whole);
    free(work);
    return n_failed - before;
}
