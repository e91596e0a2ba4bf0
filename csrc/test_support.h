/* What the checks of the library share: the counters, the checks themselves, memory of the exact size, words to test with. */
#ifndef FPP_TEST_SUPPORT_H
#define FPP_TEST_SUPPORT_H
#include "fpp.h"

#include <stdio.h>
#include <stdlib.h>

extern int n_passed, n_failed; /* test_fpp.c */

/* One function per topic; each returns how many of its checks failed. */
int test_rows(void);
int test_tree(void);
int test_pairs(void);
int test_bins(void);
int test_columns(void);
int test_arguments(void);
int test_arguments_of_reports(void);
int test_gradients(void);
int test_reports(void);
int test_threads(void);
int test_elementary(void);

/* Counts a check; says where it failed. */
#define CHECK(condition) \
    do { \
        if (condition) { \
            n_passed++; \
        } else { \
            n_failed++; \
            printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
        } \
    } while (0)

#define REFUSED(call) CHECK((call) == FPP_ERR_ARGUMENT)
#define ACCEPTED(call) CHECK((call) == FPP_OK)

/* `calls` for the functions that end in f64 and for those that end in f32, with rows `x` of that type. */
#define FOR_BOTH(calls)                  \
    do {                                 \
        const double *const x = doubles; \
        calls(f64)                       \
    } while (0);                         \
    do {                                 \
        const float *const x = floats;   \
        calls(f32)                       \
    } while (0)

/* Exactly n elements of zeros on the heap, so that the sanitizer sees one element too many. */
static inline void *block(int64_t n, size_t size)
{
    void *memory = calloc((size_t)(n > 0 ? n : 1), n > 0 ? size : 1);
    if (memory == NULL) {
        printf("out of memory\n");
        exit(2);
    }
    return memory;
}

/* Memory without values, for workspaces and what is overwritten: the memory sanitizer sees what is read before it is written. */
static inline void *room(int64_t n, size_t size)
{
    void *memory = malloc(n > 0 ? (size_t)n * size : 1);
    if (memory == NULL) {
        printf("out of memory\n");
        exit(2);
    }
    return memory;
}

static inline uint64_t next_word(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state ^ (*state >> 29);
}

#endif
