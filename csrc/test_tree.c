/* Checks of the cluster tree against a scalar walk of one row, on heap blocks of the exact size: linked into test_fpp. */
#include "test_support.h"

#include <math.h>
#include <string.h>

/* A number around 1; once in a while any bit pattern. */
static double next_number(uint64_t *state, int hostile)
{
    const uint64_t word = next_word(state);
    double value;
    if (hostile && word % 97 == 0) {
        const uint64_t bits = next_word(state);
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return (double)(int64_t)(next_word(state) >> 11) * 0x1p-52 - 1.0;
}

static double *numbers(int64_t n, uint64_t *state)
{
    double *values = block(n, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        values[i] = next_number(state, 0);
    }
    return values;
}

static int32_t walk(const double *x, int64_t dim, const fpp_tree_node *nodes)
{
    const fpp_tree_node *node = nodes;
    for (int64_t k = 0; k < dim; k++) {
        if (!isfinite(x[k])) {
            return -1;
        }
    }
    while (node->rule != FPP_NODE_LEAF) {
        double best = 0.0;
        int64_t child = 0;
        for (int64_t c = 0; c < node->n_centers; c++) {
            double distance = 0.0;
            for (int64_t j = 0; j < node->out_dim; j++) {
                double y = node->projection == NULL ? x[j] - node->origin[j] : 0.0;
                for (int64_t k = 0; node->projection != NULL && k < dim; k++) {
                    y += (x[k] - node->origin[k]) * node->projection[j * dim + k];
                }
                const double gap = y - node->centers[c * node->out_dim + j];
                distance += gap * gap;
            }
            if (c == 0 || distance < best) {
                best = distance;
                child = c;
            }
        }
        if (node->rule == FPP_NODE_BALL) {
            child = best <= node->radius_sq ? 0 : 1;
        }
        node = nodes + node->first_child + child;
    }
    return node->label;
}

/* A random tree: leaf after leaf is split until there are `splits` inner nodes. Returns the number of nodes. */
static int64_t grow(fpp_tree_node *nodes, int64_t dim, int64_t splits, uint64_t *seed)
{
    int64_t n_nodes = 1;
    memset(nodes, 0, sizeof *nodes);
    for (int64_t s = 0; s < splits; s++) {
        int64_t at = (int64_t)(next_word(seed) % (uint64_t)n_nodes);
        while (nodes[at].rule != FPP_NODE_LEAF) {
            at = (at + 1) % n_nodes;
        }
        fpp_tree_node *node = nodes + at;
        const int projected = next_word(seed) % 3 > 0;
        node->rule = next_word(seed) % 2 ? FPP_NODE_BALL : FPP_NODE_NEAREST;
        node->out_dim = projected ? 1 + (int64_t)(next_word(seed) % 9) : dim;
        node->n_centers = node->rule == FPP_NODE_BALL ? 1 : 1 + (int64_t)(next_word(seed) % 6);
        node->first_child = n_nodes;
        node->origin = numbers(dim, seed);
        node->projection = projected ? numbers(node->out_dim * dim, seed) : NULL;
        node->centers = numbers(node->n_centers * node->out_dim, seed);
        node->radius_sq = 0.5 * (double)node->out_dim * (projected ? 0.3 * (double)dim + 1.0 : 1.5);
        const int64_t children = node->rule == FPP_NODE_BALL ? 2 : node->n_centers;
        memset(nodes + n_nodes, 0, (size_t)children * sizeof *nodes);
        n_nodes += children;
    }
    for (int64_t i = 0; i < n_nodes; i++) {
        nodes[i].label = (int32_t)(next_word(seed) % 5) - 1;
    }
    return n_nodes;
}

/* A tree whose codes are its nodes' numbers: `inner` of its splits are steps, what lies below the others counts for no group. */
static fpp_kept as_kept(const fpp_tree_node *nodes, int64_t n_nodes, int64_t inner, fpp_tree_node *steps, int32_t *groups)
{
    fpp_kept kept = {.steps = steps, .groups = groups, .n_codes = n_nodes, .n_groups = 4};
    for (int64_t i = 0; i < n_nodes; i++) {
        groups[i] = nodes[i].rule == FPP_NODE_LEAF ? nodes[i].label : -1;
        if (nodes[i].rule != FPP_NODE_LEAF && kept.n_steps < inner) {
            steps[kept.n_steps] = nodes[i];
            groups[i] = (int32_t)(-2 - kept.n_steps++);
        }
    }
    return kept;
}

/* Rows go down in two calls, as labels say, and then each group is added up, but for group 2. */
static void check_kept(const double *x, int64_t n, int64_t stride, int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes,
                       const int32_t *labels, const double *grouped, const int64_t *begins)
{
    fpp_tree_node *steps = room(n_nodes, sizeof(fpp_tree_node));
    int32_t *groups = room(n_nodes, sizeof(int32_t)), *found = room(n, sizeof(int32_t));
    int16_t *codes = room(n, sizeof(int16_t));
    const double edges[2] = {0.5 * (double)dim, 2.0 * (double)dim};
    const fpp_row_map map = {.dim = dim, .out_dim = dim, .quant_bound = 100, .inv_step = 30.0, .limit = 90.0};
    const fpp_row_map *maps[4] = {&map, &map, NULL, &map};
    int64_t counts[4] = {0}, *totals[4], *expected = room(dim * dim + 3, sizeof(int64_t));
    memset(codes, 0, (size_t)n * sizeof *codes);
    fpp_kept kept = as_kept(nodes, n_nodes, 1, steps, groups);
    char *work = room(fpp_kept_workspace_size(dim, &kept, NULL), 1);
    CHECK(fpp_kept_labels(x, 0, n, stride, dim, &kept, work, codes, found) == FPP_OK);
    free(work);
    kept = as_kept(nodes, n_nodes, n_nodes, steps, groups);
    for (int32_t what = FPP_EACH_COUNT; what <= FPP_EACH_SHELLS; what++) {
        const int64_t size = what == FPP_EACH_SUM ? dim : what == FPP_EACH_GRAM ? dim * dim : 3;
        fpp_each each = {.what = what, .maps = maps, .totals = totals, .edges_sq = edges, .n_edges = 2};
        char *memory = room(fpp_kept_workspace_size(dim, &kept, &each) + 3, 1), *rest = room(fpp_rows_workspace_size(&map), 1);
        for (int g = 0; g < 4; g++) {
            totals[g] = room(size, sizeof(int64_t));
            memset(totals[g], 0, (size_t)size * sizeof(int64_t));
        }
        free(what == FPP_EACH_COUNT ? totals[0] : NULL);
        totals[0] = what == FPP_EACH_COUNT ? counts : totals[0];
        CHECK(fpp_kept_add(x, 0, n, stride, dim, &kept, &each, memory + 3, codes) == FPP_OK);
        for (int g = 0; g < 4; g++) {
            const double *rows = grouped + begins[g] * dim;
            const int64_t count = begins[g + 1] - begins[g];
            if (what == FPP_EACH_COUNT) {
                CHECK(counts[g] == count);
            } else {
                memset(expected, 0, (size_t)size * sizeof(int64_t));
                CHECK(g == 2 || what != FPP_EACH_SUM || fpp_rows_sum_f64(rows, count, dim, &map, rest, expected) == FPP_OK);
                CHECK(g == 2 || what != FPP_EACH_GRAM || fpp_rows_gram_f64(rows, count, dim, &map, rest, expected) == FPP_OK);
                CHECK(g == 2 || what != FPP_EACH_SHELLS
                      || fpp_rows_shell_counts_f64(rows, count, dim, &map, edges, 2, rest, expected) == FPP_OK);
                CHECK(memcmp(totals[g], expected, (size_t)size * sizeof(int64_t)) == 0);
            }
            free(what == FPP_EACH_COUNT && g == 0 ? NULL : totals[g]);
        }
        free(memory);
        free(rest);
    }
    work = room(fpp_kept_workspace_size(dim, &kept, NULL), 1);
    CHECK(fpp_kept_labels(x, 0, n, stride, dim, &kept, work, codes, found) == FPP_OK);
    CHECK(memcmp(found, labels, (size_t)n * sizeof *found) == 0);
    free(work);
    free(expected);
    free(codes);
    free(found);
    free(groups);
    free(steps);
}

static void check_tree(int64_t n, int64_t dim, int64_t splits, int32_t level, uint64_t seed)
{
    const int64_t stride = dim + (int64_t)(seed % 3), size = n > 0 ? (n - 1) * stride + dim : 0;
    fpp_tree_node *nodes = block(1 + 6 * splits, sizeof(fpp_tree_node));
    const int64_t n_nodes = grow(nodes, dim, splits, &seed), needed = fpp_tree_workspace_size(dim, nodes, n_nodes);
    double *x = block(size, sizeof(double)), *out = room(n * dim, sizeof(double));
    int32_t *labels = room(n, sizeof(int32_t));
    char *memory = room(needed + 3, 1); /* any alignment */
    int64_t begins[5], grouped = 0;
    for (int64_t i = 0; i < size; i++) {
        x[i] = next_number(&seed, 1);
    }
    CHECK(needed > 0);
    fpp_isa_limit(level);
    CHECK(fpp_tree_assign_f64(x, n, stride, dim, nodes, n_nodes, memory + 3, labels) == FPP_OK);
    for (int64_t i = 0; i < n; i++) {
        CHECK(labels[i] == walk(x + i * stride, dim, nodes));
    }
    CHECK(fpp_rows_group_f64(x, n, stride, dim, labels, 4, out, begins) == FPP_OK);
    for (int32_t g = 0; g < 4; g++) {
        CHECK(begins[g] == grouped);
        for (int64_t i = 0; i < n; i++) {
            if (labels[i] == g) {
                CHECK(memcmp(out + grouped * dim, x + i * stride, (size_t)dim * sizeof(double)) == 0);
                grouped++;
            }
        }
    }
    CHECK(begins[4] == grouped);
    if (nodes[0].rule != FPP_NODE_LEAF) { /* the first step finds out rows that are not finite */
        check_kept(x, n, stride, dim, nodes, n_nodes, labels, out, begins);
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    for (int64_t i = 0; i < n_nodes; i++) {
        free((void *)(uintptr_t)nodes[i].origin);
        free((void *)(uintptr_t)nodes[i].projection);
        free((void *)(uintptr_t)nodes[i].centers);
    }
    free(nodes);
    free(x);
    free(out);
    free(labels);
    free(memory);
}

static void check_refusals(void)
{
    const double numbers3[3] = {1.0, 2.0, 3.0};
    const fpp_tree_node leaf = {.rule = FPP_NODE_LEAF}, ball = {.rule = FPP_NODE_BALL, .out_dim = 3, .n_centers = 1, .first_child = 1,
                                                               .origin = numbers3, .centers = numbers3, .radius_sq = 1.0};
    fpp_tree_node tree[3] = {ball, leaf, leaf}, bad[9];
    int32_t labels[1];
    int64_t begins[3];
    double out[3];
    char *workspace = room(fpp_tree_workspace_size(3, tree, 3), 1);
    for (int i = 0; i < 9; i++) {
        bad[i] = ball;
    }
    bad[0].rule = 3;
    bad[1].origin = NULL;
    bad[2].centers = NULL;
    bad[3].out_dim = 2;    /* without a projection */
    bad[4].n_centers = 2;  /* of a ball */
    bad[5].first_child = 0;
    bad[6].first_child = 2; /* the second child is missing */
    bad[7].first_child = INT64_MAX;
    bad[8].out_dim = 0;
    for (int i = 0; i < 9; i++) {
        tree[0] = bad[i];
        CHECK(fpp_tree_workspace_size(3, tree, 3) < 0);
        CHECK(fpp_tree_assign_f64(numbers3, 1, 3, 3, tree, 3, workspace, labels) == FPP_ERR_ARGUMENT);
    }
    tree[0] = ball;
    CHECK(fpp_tree_assign_f64(numbers3, -1, 3, 3, tree, 3, workspace, labels) == FPP_ERR_ARGUMENT);
    CHECK(fpp_tree_assign_f64(numbers3, 1, 3, 3, tree, 3, NULL, labels) == FPP_ERR_ARGUMENT);
    CHECK(fpp_tree_assign_f64(numbers3, 1, 3, 3, tree, 3, workspace, labels) == FPP_OK);
    CHECK(fpp_rows_group_f64(numbers3, 1, 3, 3, labels, 0, out, begins) == FPP_ERR_ARGUMENT);
    free(workspace);
}

int test_tree(void)
{
    static const int64_t dims[] = {1, 2, 7, 8, 9, 16, 17, 64, 130, 260};
    static const int64_t rows[] = {0, 1, 31, 33, 300, 1100};
    const int before = n_failed;
    uint64_t seed = 2;
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            for (int32_t level = FPP_ISA_BASELINE; level <= FPP_ISA_AVX512; level++) {
                const int64_t splits = (int64_t)(next_word(&seed) % 7);
                check_tree(rows[r], dims[d], splits, level, next_word(&seed) >> 8);
            }
        }
    }
    check_refusals();
    return n_failed - before;
}
