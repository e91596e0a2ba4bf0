/* The race by cover: distances are those of plain loops within the room that callers leave for another order of additions, and rows
 * leave, and neighbours are told apart, wherever that room decides; by few rows at a time as by all at once. */
#include "fuzz.h"

enum { ROWS = 90, DIM = 70, LANES = 16 };

typedef struct {
    int64_t n, dim;
    double *x, *panel;
    int64_t rows[LANES]; /* that the panel holds, -1 for none */
} problem;

static problem make(fuzz_input *in)
{
    problem p = {.dim = pick(in, 1, DIM)};
    p.n = pick(in, 1, ROWS);
    uint64_t seed = take(in, 2);
    p.x = places(in, p.n * p.dim, &seed);
    for (int v = 0; v < LANES; v++) {
        p.rows[v] = pick(in, -1, p.n - 1);
    }
    p.panel = room(LANES * p.dim, sizeof *p.panel);
    return p;
}

static double apart(const problem *p, int64_t i, int64_t j)
{
    const double total = distance_sq(p->x + i * p->dim, p->x + j * p->dim, p->dim);
    return total < INFINITY ? total : INFINITY; /* what is not a number is not near */
}

/* Whether a is less than b in any order of additions; next to the ends of the range nothing is sure. */
static int is_less(const problem *p, double a, double b)
{
    const double room_for = 1.0 - (double)(4 * p->dim + 16) * 0x1p-53;
    return a < b * room_for && a < 1e307 && b > 1e-300;
}

static int is_about(const problem *p, double a, double b)
{
    return !is_less(p, a, b) && !is_less(p, b, a);
}

/* ---- The nearest of the rows of a panel ---- */

static void check_nearest(fuzz_input in)
{
    problem p = make(&in);
    double *nearest = room(p.n, sizeof *nearest);
    int64_t *group = room(p.n, sizeof *group);
    const int64_t cut = pick(&in, 0, p.n);
    AGREE(fpp_race_cover(p.x, p.n, p.dim, p.rows, 0, cut, p.panel, nearest, group) == FPP_OK);
    AGREE(fpp_race_cover(p.x, p.n, p.dim, p.rows, cut, p.n, p.panel, nearest, group) == FPP_OK);
    for (int64_t i = 0; i < p.n; i++) {
        double plain = INFINITY;
        for (int v = 0; v < LANES; v++) {
            const int counts = p.rows[v] >= 0 && (p.rows[v] != i || PLANTED);
            const double square = counts ? apart(&p, i, p.rows[v]) : INFINITY;
            plain = square < plain ? square : plain;
        }
        AGREE(is_about(&p, nearest[i], plain));
        AGREE(group[i] >= 0 && group[i] < LANES);
        if (nearest[i] < INFINITY) {
            AGREE(p.rows[group[i]] >= 0 && p.rows[group[i]] != i);
            AGREE(is_about(&p, nearest[i], apart(&p, i, p.rows[group[i]])));
        }
    }
    free(nearest);
    free(group);
    free(p.x);
    free(p.panel);
}

/* ---- Rows that leave ---- */

static void check_leave(fuzz_input in)
{
    problem p = make(&in);
    const int64_t members = pick(&in, 0, p.n), first = pick(&in, 0, members), count = pick(&in, 0, p.n);
    int64_t *member = room(p.n, sizeof *member), *queue = room(count, sizeof *queue), *before = room(count, sizeof *before), left = count;
    const int64_t at = pick(&in, 0, p.n - 1), on_edge = pick(&in, 0, 1); /* a limit that some row has exactly, or any */
    const double chosen = number(&in), limit = on_edge ? apart(&p, p.rows[0] < 0 ? 0 : p.rows[0], at) : chosen;
    for (int64_t i = 0; i < p.n; i++) {
        member[i] = (i * 7 + at) % p.n;
    }
    for (int64_t q = 0; q < count; q++) {
        queue[q] = before[q] = (q + at) % p.n;
    }
    AGREE(fpp_race_leave(p.x, p.n, p.dim, member, first, members, limit, p.panel, queue, &left) == FPP_OK);
    int64_t kept = 0;
    for (int64_t q = 0; q < count; q++) {
        int leaves = 0, may_leave = 0;
        for (int64_t j = first; j < members; j++) {
            const double square = apart(&p, before[q], member[j]);
            const int counts = member[j] != before[q] || PLANTED;
            leaves |= counts && is_less(&p, square, limit);
            may_leave |= counts && !is_less(&p, limit, square) && square < INFINITY;
        }
        const int stays = kept < left && queue[kept] == before[q];
        AGREE(stays ? !leaves : may_leave);
        kept += stays;
    }
    AGREE(kept == left);
    free(member);
    free(queue);
    free(before);
    free(p.x);
    free(p.panel);
}

/* ---- The nearest two of all rows ---- */

static void check_contend(fuzz_input in)
{
    problem p = make(&in);
    double nearest[LANES], second[LANES];
    int64_t at[LANES] = {0};
    const int64_t cut = pick(&in, 0, p.n);
    for (int v = 0; v < LANES; v++) {
        nearest[v] = second[v] = INFINITY;
    }
    AGREE(fpp_race_contend(p.x, p.n, p.dim, p.rows, 0, cut, p.panel, nearest, at, second) == FPP_OK);
    AGREE(fpp_race_contend(p.x, p.n, p.dim, p.rows, cut, p.n, p.panel, nearest, at, second) == FPP_OK);
    for (int v = 0; v < LANES; v++) {
        double plain[2] = {INFINITY, INFINITY};
        for (int64_t j = 0; p.rows[v] >= 0 && j < p.n; j++) {
            const double square = j != p.rows[v] || PLANTED ? apart(&p, p.rows[v], j) : INFINITY;
            if (square < plain[0]) {
                plain[1] = plain[0];
                plain[0] = square;
            } else if (square < plain[1]) {
                plain[1] = square;
            }
        }
        AGREE(is_about(&p, nearest[v], plain[0]) && is_about(&p, second[v], plain[1]));
        AGREE(nearest[v] <= second[v]);
        if (nearest[v] < INFINITY) {
            AGREE(at[v] >= 0 && at[v] < p.n && at[v] != p.rows[v]);
            AGREE(is_about(&p, nearest[v], apart(&p, p.rows[v], at[v])));
        }
    }
    free(p.x);
    free(p.panel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(fuzz_input) = {check_nearest, check_leave, check_contend};
    run_one(checks, 3, data, size);
    return 0;
}
