/* A private sum and a local report from C: what a program in another language would do through the same functions.
 *
 *     cc private_sum.c $(pkg-config --cflags --libs fastpubpriv) -lm -o private_sum && ./private_sum
 *
 * The library makes rows to integers and draws noise; the program keeps three promises that make the sum private:
 * the noise is large enough for the bound Q on a row, each release has a fresh key from the operating system, and nothing but the
 * noisy integers leaves. Here Q = 2^20 and the noise has scale 2^22, so that one row, replaced, moves the sum by at most 2 Q,
 * half of the noise: rho = (2 Q / scale)^2 / 2 = 1/8 of zero-concentrated differential privacy. */
#include <fpp.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 100000, COLUMNS = 3, LOG2_SCALE = 22 };

static void stop(const char *what)
{
    fprintf(stderr, "%s failed\n", what);
    exit(EXIT_FAILURE);
}

static void *taken(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        stop("malloc");
    }
    return memory;
}

/* A key serves one release. It comes from the operating system, never from a seed. */
static void draw_key(uint8_t key[FPP_KEY_BYTES])
{
    FILE *source = fopen("/dev/urandom", "rb");
    if (source == NULL || fread(key, 1, FPP_KEY_BYTES, source) != FPP_KEY_BYTES) {
        stop("reading /dev/urandom");
    }
    fclose(source);
}

/* Rows that depend on nothing, so that the exact sums are known: column j of row i is (i mod 100) / 100 + j. */
static double *made_rows(void)
{
    double *rows = taken(sizeof(double) * ROWS * COLUMNS);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLUMNS; j++) {
            rows[i * COLUMNS + j] = (i % 100) / 100.0 + j;
        }
    }
    return rows;
}

static void print_private_mean(const double *rows)
{
    /* Rows are moved by a public centre, clipped to a ball of radius 1 and rounded to 2^20 steps. */
    static const double center[COLUMNS] = {0.5, 1.5, 2.5};
    const fpp_row_map map = {.dim = COLUMNS, .out_dim = COLUMNS, .quant_bound = 1 << 20, .matrix_kind = FPP_MATRIX_IDENTITY,
                             .center = center, .inv_step = 1048570.0, .limit = 1048570.0};
    const int64_t bytes = fpp_rows_workspace_size(&map);
    if (bytes < 0) {
        stop("fpp_rows_workspace_size");
    }
    void *workspace = taken((size_t)bytes);
    int64_t sums[COLUMNS] = {0}, noise[COLUMNS];
    if (fpp_rows_sum(rows, 0, ROWS, COLUMNS, &map, workspace, sums) != FPP_OK) {
        stop("fpp_rows_sum");
    }
    free(workspace);

    uint8_t key[FPP_KEY_BYTES];
    draw_key(key);
    if (fpp_gaussian_floor_i64(key, 0, COLUMNS, LOG2_SCALE, noise) != FPP_OK) {
        stop("fpp_gaussian_floor_i64");
    }
    for (int j = 0; j < COLUMNS; j++) {
        /* floor(N) is half a step below N on average. */
        const double noisy = ((double)(sums[j] + noise[j]) + 0.5) / map.inv_step;
        printf("mean of column %d: %.4f +- %.4f\n", j, center[j] + noisy / ROWS, 1.96 * ldexp(1.0, LOG2_SCALE) / map.inv_step / ROWS);
    }
}

/* What one client sends: its row of norm one, hidden by PrivUnit. The law's numbers come from `fastpubpriv.local.PrivUnit`:
 * cap threshold .7 in 3 columns has mass .15, and the report lies in it with probability .9, so
 * epsilon = ln(.9 / .15) - ln(.1 / .85) = 3.93. */
static void print_local_report(void)
{
    const fpp_report_law law = {.dim = COLUMNS, .kind = FPP_REPORT_SPHERE, .log2_grid = 20, .ball = 0,
                                .threshold = 0.7, .miss = 0.1, .radius = 1.0};
    static const double row[COLUMNS] = {0.6, 0.0, 0.8};
    const int64_t bytes = fpp_report_workspace_size(&law);
    if (bytes < 0) {
        stop("fpp_report_workspace_size");
    }
    void *workspace = taken((size_t)bytes);
    uint8_t key[FPP_KEY_BYTES];
    int32_t report[COLUMNS];
    draw_key(key);
    if (fpp_reports_f64(row, 1, COLUMNS, &law, key, 0, workspace, report) != FPP_OK) {
        stop("fpp_reports_f64");
    }
    free(workspace);
    printf("a report: (%" PRId32 ", %" PRId32 ", %" PRId32 ") / 2^20\n", report[0], report[1], report[2]);
}

int main(void)
{
    if (fpp_abi_version() != FPP_ABI_VERSION) {
        stop("the library that was loaded has another interface: fpp_abi_version");
    }
    double *rows = made_rows();
    print_private_mean(rows);
    free(rows);
    print_local_report();
    return EXIT_SUCCESS;
}
