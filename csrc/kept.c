/* Rows of which it is known how far down a growing tree they have gone: they go on, and are added up by the node they reach.
 *
 * One pass over a block of rows: those whose node has been split since go on by the operations of tree.c, rows are put together by
 * group, and each group is added up while the second cache holds it. Which rows a group gets, and what a row adds, is what
 * fpp_tree_assign, fpp_rows_group and the kernels of rows make of them one after another.
 */
#include "tree.h"

#include <string.h>

#define BLOCK_ROWS 4096
#define BLOCK_BYTES (INT64_C(1) << 19)
#define LEAST_ROWS 64
#define AHEAD 16 /* rows to ask memory for before their turn */

/* Rows of one call. */
typedef struct {
    const char *x;
    int64_t n, stride_bytes, dim, row_bytes;
    int32_t is_f32;
} rows_given;

typedef struct {
    fpp_node_scratch node;
    int32_t *table;  /* (n_codes): the groups, -1 for one that nothing is added up of */
    int32_t *listed; /* (BLOCK_ROWS): numbers of rows */
    int32_t *mine;   /* (BLOCK_ROWS) */
    int64_t *ends;   /* (n_groups) */
    char *rows;      /* (block_rows, dim): rows of a block, put together by group */
    char *rest;      /* workspace of the kernels of rows */
} kept_scratch;

static int64_t block_rows(int64_t row_bytes)
{
    const int64_t fit = BLOCK_BYTES / row_bytes;
    return fit < LEAST_ROWS ? LEAST_ROWS : fpp_min(fit, BLOCK_ROWS);
}

static int32_t kept_is_valid(const fpp_kept *kept, int64_t dim)
{
    if (kept == NULL || dim < 1 || dim > FPP_DIM_MAX || kept->n_groups < 1 || kept->n_groups > FPP_DIM_MAX || kept->n_codes < 1
        || kept->n_codes > INT16_MAX || kept->groups == NULL || kept->n_steps > INT16_MAX
        || !fpp_is_given(kept->steps, kept->n_steps, (int64_t)sizeof *kept->steps)) {
        return 0;
    }
    for (int64_t s = 0; s < kept->n_steps; s++) {
        if (!fpp_node_is_valid(kept->steps + s, dim)) {
            return 0;
        }
    }
    for (int64_t c = 0; c < kept->n_codes; c++) {
        const int64_t group = kept->groups[c];
        if (group >= kept->n_groups || group < -1 - kept->n_steps) {
            return 0;
        }
        if (group < -1) { /* codes only rise, so that every row arrives */
            const fpp_tree_node *step = kept->steps + (-2 - group);
            if (step->first_child <= c || step->first_child > kept->n_codes - fpp_tree_children(step)) {
                return 0;
            }
        }
    }
    return 1;
}

/* Bytes of the workspace of a map, 0 for none, -1 if it does not fit the rows. */
static int64_t map_bytes(const fpp_each *each, int64_t group, int64_t dim)
{
    const fpp_row_map *map = each == NULL || each->what == FPP_EACH_COUNT ? NULL : each->maps[group];
    return map == NULL ? 0 : map->dim != dim ? -1 : fpp_rows_workspace_size(map);
}

/* Lays the scratch out from `base` and returns the bytes used, -1 for what is invalid; a null base only counts. */
static int64_t lay_out(int64_t dim, const fpp_kept *kept, const fpp_each *each, char *base, kept_scratch *scratch)
{
    int64_t used = 0, most = 0;
    if (!kept_is_valid(kept, dim)
        || (each != NULL && (each->what < FPP_EACH_COUNT || each->what > FPP_EACH_SHELLS || each->totals == NULL
                             || (each->what != FPP_EACH_COUNT && each->maps == NULL)))) {
        return -1;
    }
    for (int64_t g = 0; g < kept->n_groups; g++) {
        const int64_t bytes = map_bytes(each, g, dim);
        if (bytes < 0) {
            return -1;
        }
        most = bytes > most ? bytes : most;
    }
    fpp_take_scratch(dim, kept->steps, kept->n_steps, base, &used, &scratch->node);
    scratch->table = fpp_take(base, &used, kept->n_codes * 4);
    scratch->listed = fpp_take(base, &used, BLOCK_ROWS * 4);
    scratch->mine = fpp_take(base, &used, BLOCK_ROWS * 4);
    scratch->ends = fpp_take(base, &used, kept->n_groups * 8);
    scratch->rows = fpp_take(base, &used, most > 0 ? (block_rows(dim * 8) + 1) * dim * 8 : 0); /* one more: of floats as many bytes may fit */
    scratch->rest = fpp_take(base, &used, most);
    return used;
}

FPP_API int64_t fpp_kept_workspace_size(int64_t dim, const fpp_kept *kept, const fpp_each *each)
{
    kept_scratch scratch;
    const int64_t used = lay_out(dim, kept, each, NULL, &scratch);
    return used < 0 ? -1 : used + 64;
}

FPP_INLINE int32_t group_of(const int32_t *table, int64_t n_codes, int16_t code)
{
    return (uint16_t)code < n_codes ? table[code] : -1;
}

FPP_INLINE void fetch(const char *row, int64_t row_bytes)
{
    for (int64_t line = 0; line < row_bytes; line += 64) {
        __builtin_prefetch(row + line);
    }
}

/* Rows that have the code of a step take it: codes of `count` rows of a block. */
static void take_step(const rows_given *given, const char *x, const fpp_tree_node *step, const int32_t *numbers, int64_t count,
                      fpp_decide decide, const fpp_node_scratch *scratch, int16_t *codes)
{
    for (int64_t p = 0; p < count; p += FPP_TREE_ROWS) {
        const char *rows[FPP_TREE_ROWS];
        int32_t child[FPP_TREE_ROWS];
        for (int64_t r = 0; r < FPP_TREE_ROWS; r++) {
            rows[r] = x + numbers[fpp_min(p + r, count - 1)] * given->stride_bytes; /* the last row fills the group */
            fetch(x + numbers[fpp_min(p + FPP_TREE_ROWS + r, count - 1)] * given->stride_bytes, given->row_bytes);
        }
        decide(step, given->dim, rows, given->is_f32, 1, scratch, child);
        for (int64_t r = 0; r < fpp_min(FPP_TREE_ROWS, count - p); r++) {
            codes[numbers[p + r]] = (int16_t)(child[r] < 0 ? -1 : step->first_child + child[r]);
        }
    }
}

/* All rows of a block go as far as the steps lead. */
static void move_on(const rows_given *given, const char *x, int64_t n, const fpp_kept *kept, fpp_decide decide,
                    const kept_scratch *scratch, int16_t *codes)
{
    int32_t *const listed = scratch->listed, *const mine = scratch->mine;
    for (;;) {
        int64_t waiting = 0;
        for (int64_t i = 0; i < n; i++) {
            listed[waiting] = (int32_t)i;
            waiting += group_of(kept->groups, kept->n_codes, codes[i]) < -1;
        }
        if (waiting == 0) {
            return;
        }
        while (waiting > 0) {
            const int16_t code = codes[listed[0]];
            int64_t here = 0, left = 0;
            for (int64_t w = 0; w < waiting; w++) {
                const int32_t row = listed[w];
                const int64_t is_mine = codes[row] == code;
                mine[here] = row;
                listed[left] = row;
                here += is_mine;
                left += !is_mine;
            }
            take_step(given, x, kept->steps + (-2 - kept->groups[code]), mine, here, decide, &scratch->node, codes);
            waiting = left;
        }
    }
}

/* Sixteen bytes at a time: a call for each row would take as long as the copy. */
FPP_INLINE void copy_row(char *to, const char *from, int64_t bytes)
{
    int64_t at = 0;
    for (; at + 16 <= bytes; at += 16) {
        memcpy(to + at, from + at, 16);
    }
    for (; at < bytes; at += 4) {
        memcpy(to + at, from + at, 4);
    }
}

static int32_t add_rows(const rows_given *given, const char *x, int64_t stride, int64_t n, const fpp_each *each, int64_t group,
                        char *workspace)
{
    const void *const rows = x;
    const fpp_row_map *const map = each->maps[group];
    int64_t *const total = each->totals[group];
    switch (each->what) {
    case FPP_EACH_SUM:
        return given->is_f32 ? fpp_rows_sum_f32(rows, n, stride, map, workspace, total)
                             : fpp_rows_sum_f64(rows, n, stride, map, workspace, total);
    case FPP_EACH_GRAM:
        return given->is_f32 ? fpp_rows_gram_f32(rows, n, stride, map, workspace, total)
                             : fpp_rows_gram_f64(rows, n, stride, map, workspace, total);
    default:
        return given->is_f32
                   ? fpp_rows_shell_counts_f32(rows, n, stride, map, each->edges_sq, each->n_edges, workspace, total)
                   : fpp_rows_shell_counts_f64(rows, n, stride, map, each->edges_sq, each->n_edges, workspace, total);
    }
}

/* How many rows of a block each group has, in scratch->ends, and which rows have one, in scratch->listed. */
static int64_t count_groups(int64_t n, const fpp_kept *kept, const kept_scratch *scratch, const int16_t *codes)
{
    int64_t members = 0;
    for (int64_t i = 0; i < n; i++) {
        scratch->listed[members] = (int32_t)i;
        members += group_of(scratch->table, kept->n_codes, codes[i]) >= 0;
    }
    memset(scratch->ends, 0, (size_t)kept->n_groups * sizeof *scratch->ends);
    if (kept->n_groups == 1) {
        scratch->ends[0] = members;
        return members;
    }
    for (int64_t m = 0; m < members; m++) {
        scratch->ends[scratch->table[codes[scratch->listed[m]]]]++;
    }
    return members;
}

static void add_block(const rows_given *given, const char *x, int64_t n, const fpp_kept *kept, const fpp_each *each,
                      const kept_scratch *scratch, const int16_t *codes)
{
    const int64_t members = count_groups(n, kept, scratch, codes), row_bytes = given->row_bytes;
    const int32_t *const listed = scratch->listed;
    if (each->what == FPP_EACH_COUNT) {
        for (int64_t g = 0; g < kept->n_groups; g++) {
            each->totals[0][g] += scratch->ends[g];
        }
        return;
    }
    if (members == n && kept->n_groups == 1) { /* together as they are */
        add_rows(given, x, given->stride_bytes / (given->is_f32 ? 4 : 8), n, each, 0, scratch->rest);
        return;
    }
    int64_t next = 0;
    for (int64_t g = 0; g < kept->n_groups; g++) {
        const int64_t count = scratch->ends[g];
        scratch->ends[g] = next;
        next += count;
    }
    for (int64_t m = 0; m < members; m++) {
        const int64_t row = listed[m];
        int64_t *const to = scratch->ends + scratch->table[codes[row]];
        fetch(x + listed[fpp_min(m + AHEAD, members - 1)] * given->stride_bytes, row_bytes);
        copy_row(scratch->rows + (*to)++ * row_bytes, x + row * given->stride_bytes, row_bytes);
    }
    int64_t begin = 0;
    for (int64_t g = 0; g < kept->n_groups; g++) { /* a group ends where the next begins */
        const int64_t end = scratch->ends[g];
        if (end > begin) {
            add_rows(given, scratch->rows + begin * row_bytes, given->dim, end - begin, each, g, scratch->rest);
        }
        begin = end;
    }
}

static int32_t open_kept(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, int64_t dim, const fpp_kept *kept,
                         const fpp_each *each, void *workspace, const int16_t *codes, rows_given *given, kept_scratch *scratch)
{
    const int64_t row_bytes = dim * (is_f32 ? 4 : 8);
    int64_t stride_bytes;
    if (!fpp_rows_are_given(x, n, row_stride, is_f32, &stride_bytes) || workspace == NULL
        || !fpp_is_given(codes, n, (int64_t)sizeof *codes) || lay_out(dim, kept, each, NULL, scratch) < 0) {
        return FPP_ERR_ARGUMENT;
    }
    *given = (rows_given){(const char *)x, n, stride_bytes, dim, row_bytes, is_f32};
    lay_out(dim, kept, each, fpp_aligned(workspace), scratch);
    return FPP_OK;
}

FPP_API int32_t fpp_kept_labels(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, int64_t dim, const fpp_kept *kept,
                                void *workspace, int16_t *codes, int32_t *labels)
{
    rows_given given;
    kept_scratch scratch;
    const fpp_decide decide = fpp_decide_now();
    if (!fpp_is_given(labels, n, (int64_t)sizeof *labels)
        || open_kept(x, is_f32, n, row_stride, dim, kept, NULL, workspace, codes, &given, &scratch) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; i < n; i += BLOCK_ROWS) {
        const int64_t rows = fpp_min(BLOCK_ROWS, n - i);
        move_on(&given, given.x + i * given.stride_bytes, rows, kept, decide, &scratch, codes + i);
        for (int64_t r = i; r < i + rows; r++) {
            labels[r] = group_of(kept->groups, kept->n_codes, codes[r]);
        }
    }
    return FPP_OK;
}

FPP_API int32_t fpp_kept_add(const void *x, int32_t is_f32, int64_t n, int64_t row_stride, int64_t dim, const fpp_kept *kept,
                             const fpp_each *each, void *workspace, int16_t *codes)
{
    rows_given given;
    kept_scratch scratch;
    const fpp_decide decide = fpp_decide_now();
    if (each == NULL || open_kept(x, is_f32, n, row_stride, dim, kept, each, workspace, codes, &given, &scratch) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t g = 0; g < (each->what == FPP_EACH_COUNT ? 1 : kept->n_groups); g++) {
        const int32_t left_out = each->what != FPP_EACH_COUNT && each->maps[g] == NULL;
        if (!left_out && (each->totals[g] == NULL
                          || (each->what != FPP_EACH_COUNT && add_rows(&given, NULL, dim, 0, each, g, scratch.rest) != FPP_OK))) {
            return FPP_ERR_ARGUMENT;
        }
    }
    for (int64_t c = 0; c < kept->n_codes; c++) {
        const int32_t group = kept->groups[c];
        scratch.table[c] = group < 0 || (each->what != FPP_EACH_COUNT && each->maps[group] == NULL) ? -1 : group;
    }
    const int64_t block = block_rows(given.row_bytes);
    for (int64_t i = 0; i < n; i += block) {
        const char *const rows = given.x + i * given.stride_bytes;
        const int64_t count = fpp_min(block, n - i);
        move_on(&given, rows, count, kept, decide, &scratch, codes + i);
        add_block(&given, rows, count, kept, each, &scratch, codes + i);
    }
    return FPP_OK;
}
