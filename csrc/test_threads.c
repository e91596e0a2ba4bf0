/* Several threads at once, each with a range of the rows and accumulators of its own, all of them changing the instruction set: the
 * answers are those of one thread. `make tsan` runs this under the thread sanitizer. Linked into test_fpp. */
#include "test_support.h"

#include <pthread.h>
#include <string.h>

enum {
    THREADS = 4,
    ROWS_EACH = 1024, /* of FPP_DRAW_BLOCK draws as well */
    ROWS = THREADS * ROWS_EACH,
    DIM = 11,
    CELLS = 64,
    SLOTS = 2 * FPP_BIN_BLOCK,
    TURNS = 5
};

/* What all threads read. */
typedef struct {
    double x[ROWS * DIM];
    double matrix[DIM * DIM];
    fpp_row_map map;
    fpp_tree_node nodes[5];
    double means[3 * FPP_PANEL * DIM], factors[3 * FPP_PANEL * DIM], constants[3 * FPP_PANEL];
    uint8_t key[FPP_KEY_BYTES];
} input;

/* What a thread adds to, and arrays of which it writes its rows. */
typedef struct {
    int64_t sums[DIM], gram[DIM * DIM], shells[3], cells[CELLS], others;
} totals;

typedef struct {
    int32_t rounded[ROWS * DIM], labels[ROWS];
    int64_t noise[ROWS], keys[ROWS];
    int16_t codes[ROWS * FPP_PANEL];
} by_row;

typedef struct {
    const input *in;
    int64_t begin, end;
    totals total;
    by_row *rows;
    int32_t failures;
} job;

static void *work_on(void *argument)
{
    job *task = argument;
    const input *in = task->in;
    const int64_t begin = task->begin, n = task->end - begin;
    const double *x = in->x + begin * DIM, edges_sq[2] = {1.0, 4.0};
    const fpp_mixtures mix = {DIM, 3, 1, 0, in->means, in->factors, in->constants};
    const fpp_bin_rule rule = {FPP_BINS_WIDTH, 0.0, 1.0 / 32.0};
    const int32_t level = (int32_t)(begin / ROWS_EACH);
    totals *to = &task->total;
    void *rows_work = room(fpp_rows_workspace_size(&in->map), 1);
    void *tree_work = room(fpp_tree_workspace_size(DIM, in->nodes, 5), 1);
    double *density_work = room(fpp_density_workspace_size(&mix), 1);
    uint32_t *dense = block(CELLS + 1, sizeof *dense);
    int64_t *keys = block(SLOTS, sizeof *keys), *counts = block(SLOTS, sizeof *counts), done = 0;
    fpp_bin_table table = {.base = -CELLS / 2, .window = CELLS, .lanes = 1, .dense = dense, .words = 1, .slots = SLOTS,
                           .keys = keys, .counts = counts};
    memset(to, 0, sizeof *to);
    task->failures = 0;
    fpp_isa_limit((level + 0) % 3);
    task->failures += fpp_rows_sum(x, 0, n, DIM, &in->map, rows_work, to->sums) != FPP_OK;
    fpp_isa_limit((level + 1) % 3);
    task->failures += fpp_rows_gram(x, 0, n, DIM, &in->map, rows_work, to->gram) != FPP_OK;
    fpp_isa_limit((level + 2) % 3);
    task->failures += fpp_rows_shell_counts(x, 0, n, DIM, &in->map, edges_sq, 2, rows_work, to->shells) != FPP_OK;
    fpp_isa_limit((level + 3) % 3);
    task->failures += fpp_rows_quantise(x, 0, n, DIM, &in->map, rows_work, task->rows->rounded + begin * DIM) != FPP_OK;
    fpp_isa_limit((level + 4) % 3);
    task->failures += fpp_tree_assign_f64(x, n, DIM, DIM, in->nodes, 5, tree_work, task->rows->labels + begin) != FPP_OK;
    fpp_isa_limit((level + 5) % 3);
    task->failures += fpp_density_codes_i16(&mix, x, n, ROWS, density_work, task->rows->codes + begin * FPP_PANEL) != FPP_OK;
    fpp_isa_limit((level + 6) % 3);
    task->failures += fpp_gaussian_floor_i64(in->key, begin, task->end, 20, task->rows->noise + begin) != FPP_OK;
    task->failures += fpp_bins_keys_f64(x, n, DIM, &rule, 1, task->rows->keys + begin) != FPP_OK;
    task->failures += fpp_bins_count_f64(x, n, DIM, &rule, &table, &done) != FPP_OK || done != n;
    task->failures += fpp_bins_flush(&table, to->cells) != FPP_OK;
    for (int64_t slot = 0; slot < SLOTS; slot++) {
        to->others += counts[slot];
    }
    free(rows_work);
    free(tree_work);
    free(density_work);
    free(dense);
    free(keys);
    free(counts);
    return NULL;
}

static input *make_input(void)
{
    input *in = block(1, sizeof *in);
    uint64_t seed = 11;
    for (int64_t i = 0; i < ROWS * DIM; i++) {
        in->x[i] = (double)(int64_t)(next_word(&seed) >> 11) * 0x1p-51 - 2.0;
    }
    for (int64_t i = 0; i < DIM * DIM; i++) {
        in->matrix[i] = i % (DIM + 1) == 0 ? 1.0 : 0.01;
    }
    for (int64_t i = 0; i < 3 * FPP_PANEL * DIM; i++) {
        in->means[i] = (double)(int64_t)(next_word(&seed) >> 11) * 0x1p-52 - 1.0;
        in->factors[i] = 1.0;
    }
    in->map = (fpp_row_map){.dim = DIM, .out_dim = DIM, .quant_bound = 1000, .matrix_kind = FPP_MATRIX_LOWER, .matrix = in->matrix,
                            .inv_step = 200.0, .limit = 900.0};
    in->nodes[0] = (fpp_tree_node){.rule = FPP_NODE_BALL, .out_dim = DIM, .n_centers = 1, .first_child = 1, .origin = in->means,
                                   .centers = in->means, .radius_sq = 15.0};
    in->nodes[1] = (fpp_tree_node){.rule = FPP_NODE_NEAREST, .out_dim = DIM, .n_centers = 2, .first_child = 3, .origin = in->means,
                                   .centers = in->means};
    for (int32_t leaf = 2; leaf < 5; leaf++) {
        in->nodes[leaf] = (fpp_tree_node){.rule = FPP_NODE_LEAF, .label = leaf};
    }
    return in;
}

static void merge(totals *whole, const totals *part)
{
    int64_t *to = (int64_t *)whole;
    const int64_t *from = (const int64_t *)part;
    for (size_t i = 0; i < sizeof *whole / sizeof *to; i++) {
        to[i] += from[i];
    }
}

int test_threads(void)
{
    const int before = n_failed;
    input *in = make_input();
    job *alone = block(1, sizeof *alone), *tasks = block(THREADS, sizeof *tasks);
    *alone = (job){.in = in, .end = ROWS, .rows = block(1, sizeof(by_row))};
    work_on(alone);
    CHECK(alone->failures == 0);
    by_row *rows = block(1, sizeof *rows);
    pthread_t threads[THREADS];
    for (int turn = 0; turn < TURNS; turn++) {
        totals whole = {{0}, {0}, {0}, {0}, 0};
        memset(rows, 0, sizeof *rows);
        for (int t = 0; t < THREADS; t++) {
            tasks[t] = (job){.in = in, .begin = t * ROWS_EACH, .end = (t + 1) * ROWS_EACH, .rows = rows};
            CHECK(pthread_create(&threads[t], NULL, work_on, &tasks[t]) == 0);
        }
        for (int t = 0; t < THREADS; t++) {
            CHECK(pthread_join(threads[t], NULL) == 0);
            CHECK(tasks[t].failures == 0);
            merge(&whole, &tasks[t].total);
        }
        CHECK(memcmp(&whole, &alone->total, sizeof whole) == 0);
        CHECK(memcmp(rows, alone->rows, sizeof *rows) == 0);
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    free(alone->rows);
    free(alone);
    free(tasks);
    free(rows);
    free(in);
    return n_failed - before;
}
