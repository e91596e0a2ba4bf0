/* Rows that go on where a growing tree has grown: any steps, codes and groups are refused or take every row where it goes alone, one
 * step after the other, and each group gets what the kernels of rows make of its rows one by one. */
#include "nodes.h"

enum { POOL = 16384, STEPS = 6, CODES = 40, GROUPS = 4, EDGES = 3 };

typedef struct {
    fpp_kept kept;
    fpp_each each;
    fpp_tree_node steps[STEPS];
    int32_t groups[CODES];
    fpp_row_map map[GROUPS];
    const fpp_row_map *maps[GROUPS];
    int64_t *totals[GROUPS], entries[GROUPS];
    double edges_sq[EDGES];
    int64_t dim, n, stride, size;
    int32_t narrow;
    double *x, *pool;
    float *x32;
    int16_t *codes;
} problem;

/* Steps in the order of their children's codes, each taken by one code before them; the other codes have any group or none. */
static void make_kept(fuzz_input *in, problem *p)
{
    int64_t codes = 1;
    p->kept = (fpp_kept){p->steps, p->groups, pick(in, 0, STEPS), 0, pick(in, 1, GROUPS)};
    for (int64_t c = 0; c < CODES; c++) {
        p->groups[c] = (int32_t)pick(in, -1, p->kept.n_groups - 1);
    }
    for (int64_t s = 0; s < p->kept.n_steps; s++) {
        const int64_t centers = pick(in, 1, 4), ball = pick(in, 0, 1);
        make_split(in, p->steps + s, p->dim, p->pool, (int)ball, centers);
        p->steps[s].first_child = codes;
        p->groups[pick(in, 0, 1) ? codes - 1 : pick(in, 0, codes - 1)] = (int32_t)(-2 - s);
        codes += ball ? 2 : centers;
    }
    p->kept.n_codes = codes + pick(in, 0, 2);
    for (int64_t faults = pick(in, 0, 7) == 0 ? pick(in, 0, 3) : 0; faults > 0; faults--) {
        switch (pick(in, 0, 5)) {
        case 0: p->groups[pick(in, 0, codes - 1)] = (int32_t)take(in, 4); break;
        case 1: p->kept.n_codes = pick(in, -1, CODES); break;
        case 2: p->kept.n_groups = pick(in, -1, GROUPS); break;
        case 3: p->kept.n_steps = pick(in, -1, STEPS); break;
        default: spoil(in, p->steps + pick(in, 0, STEPS - 1)); break;
        }
    }
}

/* A map of any kind whose arrays are in the pool. */
static fpp_row_map make_map(fuzz_input *in, const problem *p)
{
    const int32_t kind = p->dim > 20 ? FPP_MATRIX_FULL : (int32_t)pick(in, 0, 3);
    const int64_t with = pick(in, 0, 3), out_dim = kind == FPP_MATRIX_FULL ? pick(in, 1, 5) : p->dim;
    const double *at = p->pool + pick(in, 0, FIRST - 1);
    const double inv_step = pick(in, 0, 15) ? 77.7 : number(in), limit = pick(in, 0, 15) ? (double)pick(in, 1, 3000) : number(in);
    return (fpp_row_map){p->dim, out_dim, pick(in, 1, 2900), kind, with & 1 ? at : NULL, kind ? at : NULL, with & 2 ? at : NULL,
                         inv_step, limit};
}

/* Numbers in the total of a group. */
static int64_t entries_of(const problem *p, int64_t g)
{
    const int64_t d = p->map[g].out_dim;
    return p->each.what == FPP_EACH_SUM ? d : p->each.what == FPP_EACH_GRAM ? d * d : p->each.what == FPP_EACH_SHELLS ? EDGES + 1 : GROUPS;
}

static void make_each(fuzz_input *in, problem *p)
{
    p->each = (fpp_each){(int32_t)pick(in, FPP_EACH_COUNT, FPP_EACH_SHELLS), p->maps, p->totals, p->edges_sq, pick(in, 0, EDGES)};
    for (int64_t e = 0; e < EDGES; e++) {
        p->edges_sq[e] = (double)e;
    }
    sprinkle(in, p->edges_sq, EDGES, 1);
    for (int64_t g = 0; g < GROUPS; g++) {
        p->map[g] = make_map(in, p);
        p->maps[g] = pick(in, 0, 3) ? p->map + g : NULL;
        p->entries[g] = entries_of(p, g);
        p->totals[g] = room(p->entries[g], sizeof **p->totals);
        for (int64_t i = 0; i < p->entries[g]; i++) {
            p->totals[g][i] = 1000 * g + i;
        }
    }
    switch (pick(in, 0, 15)) {
    case 0: p->each.what = pick(in, 0, 1) ? FPP_EACH_SHELLS + 1 : -1; break;
    case 1: p->each.maps = NULL; break;
    case 2: p->each.totals = NULL; break;
    case 3: p->map[0].dim++; break;
    default: break;
    }
}

/* The comment on fpp_kept, with room for the arrays. */
static int is_valid(const problem *p)
{
    const fpp_kept *kept = &p->kept;
    if (kept->n_steps < 0 || kept->n_codes < 1 || kept->n_groups < 1) {
        return 0;
    }
    for (int64_t s = 0; s < kept->n_steps; s++) {
        if (!is_split(p->steps + s, p->dim)) {
            return 0;
        }
    }
    for (int64_t c = 0; c < kept->n_codes; c++) {
        const int64_t group = p->groups[c];
        if (group >= kept->n_groups || group < -1 - kept->n_steps
            || (group < -1 && !children_follow(p->steps + (-2 - group), c, kept->n_codes))) {
            return 0;
        }
    }
    return 1;
}

static int arrays_suffice(const problem *p)
{
    for (int64_t s = 0; s < p->kept.n_steps; s++) {
        if (!arrays_reach(p->steps + s, p->dim, POOL)) {
            return 0;
        }
    }
    return 1;
}

static const void *rows_of(const problem *p, int64_t first)
{
    return p->narrow ? (const void *)(p->x32 + first * p->stride) : (const void *)(p->x + first * p->stride);
}

/* Adds up n rows alone, by the kernels of rows. */
static int32_t add_alone(const problem *p, int64_t first, int64_t n, int64_t g, int64_t *total)
{
    const fpp_row_map *map = p->maps[g];
    const int64_t size = fpp_rows_workspace_size(map);
    const void *x = rows_of(p, first);
    void *work = room(size, 1);
    int32_t status;
    if (p->each.what == FPP_EACH_SUM) {
        status = p->narrow ? fpp_rows_sum_f32(x, n, p->stride, map, work, total) : fpp_rows_sum_f64(x, n, p->stride, map, work, total);
    } else if (p->each.what == FPP_EACH_GRAM) {
        status = p->narrow ? fpp_rows_gram_f32(x, n, p->stride, map, work, total) : fpp_rows_gram_f64(x, n, p->stride, map, work, total);
    } else {
        status = p->narrow ? fpp_rows_shell_counts_f32(x, n, p->stride, map, p->edges_sq, p->each.n_edges, work, total)
                           : fpp_rows_shell_counts_f64(x, n, p->stride, map, p->edges_sq, p->each.n_edges, work, total);
    }
    free(work);
    return status;
}

/* Whether groups can be added up: 2 if they can, 1 if only their workspace has a size. */
static int each_is_valid(const problem *p)
{
    int valid = 2;
    if (p->each.what < FPP_EACH_COUNT || p->each.what > FPP_EACH_SHELLS || p->each.totals == NULL) {
        return 0;
    }
    if (p->each.what == FPP_EACH_COUNT) {
        return 2;
    }
    for (int64_t g = 0; g < p->kept.n_groups; g++) {
        if (p->each.maps == NULL || (p->maps[g] != NULL && (p->maps[g]->dim != p->dim || fpp_rows_workspace_size(p->maps[g]) < 0))) {
            return 0;
        }
        valid = p->maps[g] != NULL && add_alone(p, 0, 0, g, p->totals[g]) != FPP_OK ? 1 : valid;
    }
    return valid;
}

static int16_t plain_code(const problem *p, const double *x, int16_t code)
{
    while (code >= 0 && code < p->kept.n_codes && p->groups[code] < -1) {
        const fpp_tree_node *step = p->steps + (-2 - p->groups[code]);
        code = (int16_t)(is_finite_row(x, p->dim) ? step->first_child + plain_child(step, p->dim, x) + PLANTED : -1);
    }
    return code;
}

static int32_t group_of(const problem *p, int16_t code)
{
    return code >= 0 && code < p->kept.n_codes ? p->groups[code] : -1;
}

static void check_labels(const problem *p, const int16_t *twin)
{
    const int64_t needed = fpp_kept_workspace_size(p->dim, &p->kept, NULL);
    AGREE((needed > 0) == is_valid(p) && needed >= -1);
    if (needed > 0 && !arrays_suffice(p)) {
        return;
    }
    char *work = room(needed + 3, 1);
    int16_t *codes = room(p->n, sizeof *codes);
    int32_t *labels = room(p->n, sizeof *labels);
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        memcpy(codes, p->codes, (size_t)p->n * sizeof *codes);
        AGREE(fpp_kept_labels(rows_of(p, 0), p->narrow, p->n, p->stride, p->dim, &p->kept, work + 3, codes, labels)
              == (needed > 0 ? FPP_OK : FPP_ERR_ARGUMENT));
        AGREE(memcmp(codes, needed > 0 ? twin : p->codes, (size_t)p->n * sizeof *codes) == 0);
        for (int64_t r = 0; needed > 0 && r < p->n; r++) {
            AGREE(labels[r] == group_of(p, twin[r]));
        }
    }
    free(work);
    free(codes);
    free(labels);
}

/* What each group gets, one row after the other. */
static void add_rows(const problem *p, const int16_t *twin, int64_t **totals)
{
    for (int64_t r = 0; r < p->n; r++) {
        const int32_t g = group_of(p, twin[r]);
        if (g >= 0 && p->each.what == FPP_EACH_COUNT) {
            totals[0][g]++;
        } else if (g >= 0 && p->maps[g] != NULL) {
            AGREE(add_alone(p, r, 1, g, totals[g]) == FPP_OK);
        }
    }
}

static void check_add(const problem *p, const int16_t *twin)
{
    const int64_t needed = fpp_kept_workspace_size(p->dim, &p->kept, &p->each);
    const int valid = is_valid(p) ? each_is_valid(p) : 0;
    AGREE((needed > 0) == (valid > 0) && needed >= -1);
    if (is_valid(p) && !arrays_suffice(p)) {
        return;
    }
    char *work = room(needed + 3, 1);
    int16_t *codes = room(p->n, sizeof *codes);
    int64_t *wanted[GROUPS], *found[GROUPS];
    for (int64_t g = 0; g < GROUPS; g++) {
        wanted[g] = memcpy(room(p->entries[g], sizeof **wanted), p->totals[g], (size_t)p->entries[g] * sizeof **wanted);
        found[g] = room(p->entries[g], sizeof **found);
    }
    if (valid == 2) {
        add_rows(p, twin, wanted);
    }
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_each each = p->each;
        fpp_isa_limit(level);
        memcpy(codes, p->codes, (size_t)p->n * sizeof *codes);
        for (int64_t g = 0; g < GROUPS; g++) {
            memcpy(found[g], p->totals[g], (size_t)p->entries[g] * sizeof **found);
        }
        each.totals = p->each.totals == NULL ? NULL : found;
        AGREE(fpp_kept_add(rows_of(p, 0), p->narrow, p->n, p->stride, p->dim, &p->kept, &each, work + 3, codes)
              == (valid == 2 ? FPP_OK : FPP_ERR_ARGUMENT));
        AGREE(memcmp(codes, valid == 2 ? twin : p->codes, (size_t)p->n * sizeof *codes) == 0);
        for (int64_t g = 0; g < GROUPS; g++) {
            AGREE(memcmp(found[g], wanted[g], (size_t)p->entries[g] * sizeof **found) == 0);
        }
    }
    for (int64_t g = 0; g < GROUPS; g++) {
        free(wanted[g]);
        free(found[g]);
    }
    free(work);
    free(codes);
}

/* Few rows, or as many short ones or as long ones as make several blocks. */
static void make_rows(fuzz_input *in, problem *p)
{
    const int64_t shape = pick(in, 0, 7);
    uint64_t seed = take(in, 2);
    p->dim = shape < 6 ? pick(in, 1, 20) : shape == 6 ? pick(in, 1, 2) : pick(in, 1100, 1300);
    p->n = shape < 6 ? pick(in, 0, 80) : shape == 6 ? pick(in, 4090, 4200) : pick(in, 60, 200);
    p->stride = p->dim + pick(in, 0, 3);
    p->size = p->n > 0 ? (p->n - 1) * p->stride + p->dim : 0;
    p->narrow = (int32_t)pick(in, 0, 1);
    p->pool = numbers(POOL, &seed, 1.0);
    if (pick(in, 0, 3) == 0) {
        for (int64_t i = 0; i < POOL; i++) {
            p->pool[i] = (double)(i % 2);
        }
    }
    p->x = places(in, p->size, &seed);
    sprinkle(in, p->pool, 300, 8);
    p->x32 = as_floats(p->x, p->size);
    for (int64_t i = 0; p->narrow && i < p->size; i++) {
        p->x[i] = (double)p->x32[i]; /* the twin reads doubles */
    }
    const int64_t codes = pick(in, 0, CODES);
    p->codes = zeros(p->n, sizeof *p->codes); /* at the root, or as far as any code */
    for (int64_t r = 0; codes > 0 && r < p->n; r++) {
        p->codes[r] = (int16_t)((int64_t)(next_word(&seed) % (uint64_t)(codes + 2)) - 2);
    }
    for (int64_t i = pick(in, 0, 4); i > 0 && p->n > 0; i--) {
        const int64_t at = pick(in, 0, p->n - 1);
        p->codes[at] = (int16_t)take(in, 2);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    problem p;
    memset(&p, 0, sizeof p);
    make_rows(&in, &p);
    make_kept(&in, &p);
    make_each(&in, &p);
    int16_t *twin = room(p.n, sizeof *twin);
    for (int64_t r = 0; r < p.n; r++) {
        twin[r] = is_valid(&p) && arrays_suffice(&p) ? plain_code(&p, p.x + r * p.stride, p.codes[r]) : p.codes[r];
    }
    check_labels(&p, twin);
    check_add(&p, twin);
    free(twin);
    free(p.x);
    free(p.x32);
    free(p.pool);
    free(p.codes);
    for (int64_t g = 0; g < GROUPS; g++) {
        free(p.totals[g]);
    }
    return 0;
}
