/* Splits of cluster trees made from an input, what makes one valid, and where one sends a row. */
#ifndef FPP_FUZZ_NODES_H
#define FPP_FUZZ_NODES_H
#include "fuzz.h"

enum { FIRST = 256 }; /* arrays of a split begin in a pool of numbers before this */

/* A split as a builder makes it, but for its children. */
static inline void make_split(fuzz_input *in, fpp_tree_node *node, int64_t dim, const double *pool, int ball, int64_t centers)
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
static inline void spoil(fuzz_input *in, fpp_tree_node *node)
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
static inline int is_split(const fpp_tree_node *node, int64_t dim)
{
    const int ball = node->rule == FPP_NODE_BALL;
    return (ball || node->rule == FPP_NODE_NEAREST) && node->origin != NULL && node->centers != NULL && node->out_dim >= 1
           && node->out_dim <= FPP_DIM_MAX && (node->projection != NULL || node->out_dim == dim) && node->n_centers >= 1
           && node->n_centers <= FPP_DIM_MAX && !(ball && node->n_centers != 1);
}

/* Whether the children of a valid split are among `count`, after number `own`. */
static inline int children_follow(const fpp_tree_node *node, int64_t own, int64_t count)
{
    const int64_t children = node->rule == FPP_NODE_BALL ? 2 : node->n_centers;
    return node->first_child > own && node->first_child <= count && node->first_child + children <= count;
}

/* Whether the arrays of a valid split, which begin before FIRST, end within a pool. */
static inline int arrays_reach(const fpp_tree_node *node, int64_t dim, int64_t pool)
{
    return node->n_centers * node->out_dim <= pool - FIRST && (node->projection == NULL || node->out_dim * dim <= pool - FIRST);
}

/* Which child of a split takes a row. */
static inline int64_t plain_child(const fpp_tree_node *node, int64_t dim, const double *x)
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

#endif
