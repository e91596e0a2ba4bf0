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
