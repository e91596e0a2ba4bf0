/* Cluster trees: any array of nodes is refused or sends every row where a walk of one row ends, and rows are put together by
 * label. */
#include "fuzz.h"

enum { NODES = 12 };

typedef struct {
    fpp_tree_node nodes[NODES];
    int64_t n_nodes, dim, n, stride, size;
    int32_t narrow;
    double *x, *pool;
    float *x32;
} problem;

enum { POOL = 4096 };

enum { FIRST = 256 }; /* arrays of a split begin in a pool of numbers before this */

/* A split as a builder makes it, but for its children. */
static void make_split(fuzz_input *in, fpp_tree_node *node, int64_t dim, const double *pool, int ball, int64_t centers)
{
    node->rule = ball ? FPP_NODE_BALL : FPP_NODE_NEAREST;
    node->n_centers = ball ? 1 : centers;
    node->out_dim = pick(in, 0, 1) ? dim : pick(in, 1, 9);
    node->origin = pool + pick(in, 0, FIRST - 1);
    node->centers = pool + pick(in, 0, FIRST - 1);
    node->projection = node->out_dim != dim || pick(in, 0, 1) ? pool + pick(in, 0, FIRST - 1) : NULL;
    node->radius_sq = pick(in, 0, 1) ? 0.5 * (double)node->out_dim : number(in);
}

/* A field becomes anything. */
static void spoil(fuzz_input *in, fpp_tree_node *node)
{
    switch (pick(in, 0, 6)) {
    case 0: node->rule = (int32_t)take(in, 4); break;
    case 1: node->first_child = (int64_t)take(in, 8); break;
    case 2: node->n_centers = (int64_t)take(in, 8); break;
    case 3: node->out_dim = (int64_t)take(in, 8); break;
    case 4: node->origin = NULL; break;
    case 5: node->centers = NULL; break;
    default: node->projection = NULL; break;
    }
}

/* The comment on fpp_tree_node, in long integers. */
static int is_split(const fpp_tree_node *node, int64_t dim)
{
    const int ball = node->rule == FPP_NODE_BALL;
    return (ball || node->rule == FPP_NODE_NEAREST) && node->origin != NULL && node->centers != NULL && node->out_dim >= 1
           && node->out_dim <= FPP_DIM_MAX && (node->projection != NULL || node->out_dim == dim) && node->n_centers >= 1
           && node->n_centers <= FPP_DIM_MAX && !(ball && node->n_centers != 1);
}

/* Whether the children of a valid split are among `count`, after number `own`. */
static int children_follow(const fpp_tree_node *node, int64_t own, int64_t count)
{
    const int64_t children = node->rule == FPP_NODE_BALL ? 2 : node->n_centers;
    return node->first_child > own && node->first_child <= count && node->first_child + children <= count;
}

/* Whether the arrays of a valid split, which begin before FIRST, end within a pool. */
static int arrays_reach(const fpp_tree_node *node, int64_t dim, int64_t pool)
{
    return node->n_centers * node->out_dim <= pool - FIRST && (node->projection == NULL || node->out_dim * dim <= pool - FIRST);
}

/* Which child of a split takes a row. */
static int64_t plain_child(const fpp_tree_node *node, int64_t dim, const double *x)
{
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
        if (c == 0 || distance < best || (PLANTED && distance == best)) {
            best = distance;
            child = c;
        }
    }
    return node->rule == FPP_NODE_BALL ? !(best <= node->radius_sq) : child;
}

/* Nodes as a builder makes them, then a few fields replaced by anything. */
static void make_nodes(fuzz_input *in, problem *p)
{
    int64_t next = 1;
    p->n_nodes = pick(in, 1, NODES);
    for (int64_t i = 0; i < p->n_nodes; i++) {
        fpp_tree_node *node = p->nodes + i;
        const int64_t centers = pick(in, 1, 4), what = pick(in, 0, 3);
        node->label = (int32_t)pick(in, -1, 5);
        const int64_t children = what < 2 ? 2 : centers;
        if (what == 0 || next + children > p->n_nodes) {
            continue;
        }
        node->first_child = next;
        next += children;
        make_split(in, node, p->dim, p->pool, what < 2, centers);
    }
    for (int64_t faults = pick(in, 0, 7) == 0 ? pick(in, 0, 3) : 0; faults > 0; faults--) {
        spoil(in, p->nodes + pick(in, 0, NODES - 1));
    }
}

/* The comment on fpp_tree_node, in long integers. */
static int is_valid(const problem *p)
{
    for (int64_t i = 0; i < p->n_nodes; i++) {
        const fpp_tree_node *node = p->nodes + i;
        if (node->rule != FPP_NODE_LEAF && !(is_split(node, p->dim) && children_follow(node, i, p->n_nodes))) {
            return 0;
        }
    }
    return 1;
}

/* Whether the arrays of a valid tree are as long as its sizes say, or nothing may read them. */
static int arrays_suffice(const problem *p)
{
    for (int64_t i = 0; i < p->n_nodes; i++) {
        const fpp_tree_node *node = p->nodes + i;
        if (node->rule != FPP_NODE_LEAF && !arrays_reach(node, p->dim, POOL)) {
            return 0;
        }
    }
    return 1;
}

static int32_t walk(const problem *p, const double *x)
{
    const fpp_tree_node *node = p->nodes;
    if (!is_finite_row(x, p->dim)) {
        return -1;
    }
    while (node->rule != FPP_NODE_LEAF) {
        node = p->nodes + node->first_child + plain_child(node, p->dim, x);
    }
    return node->label;
}

static void check_groups(const problem *p, const int32_t *labels, int64_t n_groups)
{
    int64_t *begins = room(n_groups + 1, sizeof *begins), at = 0;
    double *out = room(p->n * p->dim, sizeof *out);
    float *out32 = room(p->n * p->dim, sizeof *out32);
    AGREE((p->narrow ? fpp_rows_group_f32(p->x32, p->n, p->stride, p->dim, labels, n_groups, out32, begins)
                     : fpp_rows_group_f64(p->x, p->n, p->stride, p->dim, labels, n_groups, out, begins))
          == FPP_OK);
    for (int64_t g = 0; g < n_groups; g++) {
        AGREE(begins[g] == at);
        for (int64_t r = 0; r < p->n; r++) {
            if (labels[r] == g) {
                AGREE(p->narrow ? memcmp(out32 + at * p->dim, p->x32 + r * p->stride, (size_t)p->dim * sizeof *out32) == 0
                                : memcmp(out + at * p->dim, p->x + r * p->stride, (size_t)p->dim * sizeof *out) == 0);
                at++;
            }
        }
    }
    AGREE(begins[n_groups] == at);
    free(begins);
    free(out);
    free(out32);
}

static void check(const problem *p, int64_t n_groups)
{
    const int64_t needed = fpp_tree_workspace_size(p->dim, p->nodes, p->n_nodes);
    int32_t *labels = room(p->n, sizeof *labels);
    AGREE(needed == -1 || needed > 0);
    AGREE((needed > 0) == is_valid(p));
    if (needed > 0 && !arrays_suffice(p)) {
        free(labels);
        return;
    }
    char *work = room(needed, 1);
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        const int32_t status = p->narrow ? fpp_tree_assign_f32(p->x32, p->n, p->stride, p->dim, p->nodes, p->n_nodes, work, labels)
                                         : fpp_tree_assign_f64(p->x, p->n, p->stride, p->dim, p->nodes, p->n_nodes, work, labels);
        AGREE((status == FPP_OK) == (needed > 0));
        for (int64_t r = 0; status == FPP_OK && r < p->n; r++) {
            AGREE(labels[r] == walk(p, p->x + r * p->stride));
        }
    }
    if (needed > 0) {
        check_groups(p, labels, n_groups);
    }
    free(work);
    free(labels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    problem p;
    memset(&p, 0, sizeof p);
    uint64_t seed = take(&in, 2);
    p.dim = pick(&in, 1, 9) < 9 ? pick(&in, 1, 20) : pick(&in, 120, 140);
    p.n = pick(&in, 0, 80);
    p.stride = p.dim + pick(&in, 0, 3);
    p.size = p.n > 0 ? (p.n - 1) * p.stride + p.dim : 0;
    p.narrow = (int32_t)pick(&in, 0, 1);
    p.pool = numbers(POOL, &seed, 1.0);
    p.x = numbers(p.size, &seed, pick(&in, 0, 3) ? 1.0 : 0.0); /* zeros: every distance is a tie */
    if (pick(&in, 0, 3) == 0) {
        for (int64_t i = 0; i < POOL; i++) {
            p.pool[i] = (double)(i % 2); /* more ties */
        }
    }
    make_nodes(&in, &p);
    sprinkle(&in, p.pool, 300, 8);
    sprinkle(&in, p.x, p.size, 15);
    p.x32 = as_floats(p.x, p.size);
    for (int64_t i = 0; p.narrow && i < p.size; i++) {
        p.x[i] = (double)p.x32[i];
    }
    check(&p, pick(&in, 1, 6));
    free(p.x);
    free(p.x32);
    free(p.pool);
    return 0;
}
