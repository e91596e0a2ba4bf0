/* Nodes of a cluster tree for a group of rows: from columns turned to children. */
#ifndef FPP_TREE_H
#define FPP_TREE_H
#include "rowmap.h"

#define FPP_TREE_ROWS 32   /* rows that a node takes at a time; a multiple of every vector */
#define FPP_TREE_DEPTH 128 /* columns turned at a time: 32 KiB */

typedef struct {
    double *t;         /* (FPP_TREE_DEPTH, FPP_TREE_ROWS) */
    double *y;         /* (widest projection, FPP_TREE_ROWS) */
    double *distances; /* (most centers, FPP_TREE_ROWS) */
} fpp_node_scratch;

/* child (FPP_TREE_ROWS) = which child of a node that is no leaf takes each of so many rows, from 0; -1 for a row with a non-finite
 * entry where `check` asks for it. */
typedef void (*fpp_decide)(const fpp_tree_node *node, int64_t dim, const char *const *rows, int32_t is_f32, int32_t check,
                           const fpp_node_scratch *scratch, int32_t *child);

FPP_LOCAL fpp_decide fpp_decide_now(void);
FPP_LOCAL int64_t fpp_tree_children(const fpp_tree_node *node);
/* Whether a node that is no leaf can take rows of `dim` columns; its children are not looked at. */
FPP_LOCAL int32_t fpp_node_is_valid(const fpp_tree_node *node, int64_t dim);
/* Scratch for any of these nodes; leaves need none. */
FPP_LOCAL void fpp_take_scratch(int64_t dim, const fpp_tree_node *nodes, int64_t n_nodes, char *base, int64_t *used,
                                fpp_node_scratch *scratch);

#endif
