/* Checks of the library without Python; `make test` runs them under the address and undefined-behaviour sanitizers.
 * One function per topic; each returns how many of its checks failed. */
#include "test_support.h"

#include <string.h>

int n_passed, n_failed;

static void fill_key(uint8_t key[FPP_KEY_BYTES], int first)
{
    for (int i = 0; i < FPP_KEY_BYTES; i++) {
        key[i] = (uint8_t)(first + i);
    }
}

static int test_isa(void)
{
    const int before = n_failed;
    CHECK(fpp_abi_version() == FPP_ABI_VERSION);
    CHECK(fpp_row_map_size() == (int64_t)sizeof(fpp_row_map));
    const int32_t detected = fpp_isa_detect();
    CHECK(detected >= FPP_ISA_BASELINE && detected <= FPP_ISA_AVX512);
    CHECK(fpp_isa_limit(FPP_ISA_BASELINE) == FPP_ISA_BASELINE);
    CHECK(fpp_isa_limit(-7) == FPP_ISA_BASELINE);
    CHECK(fpp_isa_limit(1000) == detected);
    return n_failed - before;
}

static int test_chacha(void)
{
    const int before = n_failed;
    static const uint8_t expected[64] = { /* RFC 8439, section 2.3.2 */
        0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3, 0x20, 0x71, 0xc4,
        0xc7, 0xd1, 0xf4, 0xc7, 0x33, 0xc0, 0x68, 0x03, 0x04, 0x22, 0xaa, 0x9a, 0xc3, 0xd4, 0x6c, 0x4e,
        0xd2, 0x82, 0x64, 0x46, 0x07, 0x9f, 0xaa, 0x09, 0x14, 0xc2, 0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2,
        0xb5, 0x12, 0x9c, 0xd1, 0xde, 0x16, 0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e};
    static const uint8_t nonce[FPP_NONCE_BYTES] = {0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0};
    uint8_t key[FPP_KEY_BYTES];
    fill_key(key, 0);
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        uint8_t block[64];
        CHECK(fpp_chacha20_keystream(key, nonce, 1, 64, block) == FPP_OK);
        CHECK(memcmp(block, expected, 64) == 0);
    }
    /* Every length is a prefix of the longest, at every level. */
    enum { LONGEST = 64 * 40 + 5 };
    uint8_t *whole = room(LONGEST, 1);
    fpp_isa_limit(FPP_ISA_BASELINE);
    CHECK(fpp_chacha20_keystream(key, nonce, 7, LONGEST, whole) == FPP_OK);
    for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
        fpp_isa_limit(level);
        int wrong = 0;
        for (int64_t n = 0; n <= LONGEST; n += n < 130 ? 1 : 61) {
            uint8_t *part = room(n, 1);
            wrong += fpp_chacha20_keystream(key, nonce, 7, n, part) != FPP_OK || memcmp(part, whole, (size_t)n) != 0;
            free(part);
        }
        CHECK(wrong == 0);
    }
    fpp_isa_limit(FPP_ISA_AVX512);
    CHECK(fpp_chacha20_keystream(key, nonce, UINT32_MAX, 64, whole) == FPP_OK);
    CHECK(fpp_chacha20_keystream(key, nonce, UINT32_MAX, 65, whole) == FPP_ERR_EXHAUSTED);
    CHECK(fpp_chacha20_keystream(NULL, nonce, 0, 64, whole) == FPP_ERR_ARGUMENT);
    CHECK(fpp_chacha20_keystream(key, nonce, 0, -1, whole) == FPP_ERR_ARGUMENT);
    free(whole);
    return n_failed - before;
}

/* Draws of one law by number, so that tests can loop over all integer samplers. */
static int32_t draw(int law, const uint8_t *key, int64_t begin, int64_t end, int32_t m, int64_t *out)
{
    switch (law) {
    case 0: return fpp_gaussian_floor_i64(key, begin, end, m, out);
    case 1: return fpp_laplace_i64(key, begin, end, m, out);
    case 2: return fpp_below_i64(key, begin, end, ((int64_t)1 << 62) + m, out);
    default: return fpp_words_u64(key, begin, end, (uint64_t *)out);
    }
}

static int test_noise_is_deterministic(void)
{
    const int before = n_failed;
    enum { N = 5000 };
    const size_t bytes = N * sizeof(int64_t);
    uint8_t key[FPP_KEY_BYTES];
    fill_key(key, 50);
    int64_t *first = room(N, sizeof *first), *again = room(N, sizeof *again);
    for (int32_t m = FPP_LOG2_SCALE_MIN; m <= FPP_LOG2_SCALE_MAX; m++) {
        for (int law = 0; law < 4; law++) {
            fpp_isa_limit(FPP_ISA_BASELINE);
            CHECK(draw(law, key, 0, N, m, first) == FPP_OK);
            for (int32_t level = 0; level <= fpp_isa_detect(); level++) {
                fpp_isa_limit(level);
                CHECK(draw(law, key, 0, 2048, m, again) == FPP_OK && draw(law, key, 2048, N, m, again + 2048) == FPP_OK);
                CHECK(memcmp(first, again, bytes) == 0);
            }
            if (law < 2) { /* the exact comparison decides as the doubles do */
                CHECK(fpp_test_noise_i64(key, 0, N, law, m, -2, again) == FPP_OK);
                CHECK(memcmp(first, again, bytes) == 0);
            }
        }
    }
    free(first);
    free(again);
    return n_failed - before;
}

static int test_noise_stays_in_range(void)
{
    const int before = n_failed;
    enum { N = 20000 };
    uint8_t key[FPP_KEY_BYTES];
    fill_key(key, 3);
    int64_t *x = room(N, sizeof *x);
    for (int32_t m = FPP_LOG2_SCALE_MIN; m <= FPP_LOG2_SCALE_MAX; m += 4) {
        for (int law = 0; law < 2; law++) {
            CHECK(draw(law, key, 0, N, m, x) == FPP_OK);
            const int64_t cut = (int64_t)(law == 0 ? 16 : 128) << m;
            int64_t outside = 0, negative = 0, small = 0;
            for (int64_t i = 0; i < N; i++) {
                outside += x[i] >= cut || x[i] < -cut;
                negative += x[i] < 0;
                small += x[i] >= -((int64_t)1 << m) && x[i] < (int64_t)1 << m;
            }
            CHECK(outside == 0);
            CHECK(llabs(negative - N / 2) < 600);                                        /* 8 standard deviations */
            CHECK(llabs(small - (int64_t)((law == 0 ? 0.6827 : 0.6325) * N)) < 600); /* |x| below one scale */
        }
    }
    int64_t one = 0;
    CHECK(fpp_gaussian_floor_i64(key, 0, 1, 7, &one) == FPP_ERR_ARGUMENT);
    CHECK(fpp_laplace_i64(key, 0, 1, 41, &one) == FPP_ERR_ARGUMENT);
    CHECK(fpp_gaussian_floor_i64(key, 1, 2, 8, &one) == FPP_ERR_ARGUMENT);
    CHECK(fpp_gaussian_floor_i64(key, 1024, 0, 8, &one) == FPP_ERR_ARGUMENT);
    CHECK(fpp_gaussian_floor_i64(key, 0, 0, 8, NULL) == FPP_OK);
    CHECK(fpp_test_noise_i64(key, 0, 1, 0, 8, -35, &one) == FPP_ERR_ARGUMENT);
    free(x);
    return n_failed - before;
}

static int test_other_samplers(void)
{
    const int before = n_failed;
    enum { N = 10000 };
    uint8_t key[FPP_KEY_BYTES];
    fill_key(key, 90);
    double *u = room(N, sizeof *u);
    CHECK(fpp_uniform_f64(key, 0, N, u) == FPP_OK);
    int64_t outside = 0;
    for (int64_t i = 0; i < N; i++) {
        outside += !(u[i] >= 0.0 && u[i] < 1.0);
    }
    CHECK(outside == 0);
    free(u);

    static const int64_t bounds[] = {1, 2, 3, 1000, ((int64_t)1 << 62) + 1, INT64_MAX};
    int64_t *x = room(N, sizeof *x);
    for (int j = 0; j < 6; j++) {
        CHECK(fpp_below_i64(key, 0, N, bounds[j], x) == FPP_OK);
        outside = 0;
        for (int64_t i = 0; i < N; i++) {
            outside += x[i] < 0 || x[i] >= bounds[j];
        }
        CHECK(outside == 0);
    }
    CHECK(fpp_below_i64(key, 0, N, 0, x) == FPP_ERR_ARGUMENT);
    free(x);
    return n_failed - before;
}

static int test_permutation(void)
{
    const int before = n_failed;
    static const int64_t sizes[] = {0, 1, 2, 1023, 1024, 1025, 30000};
    uint8_t key[FPP_KEY_BYTES];
    fill_key(key, 120);
    for (int j = 0; j < 7; j++) {
        const int64_t n = sizes[j];
        int64_t *order = room(n, sizeof *order), repeated = 0, moved = 0;
        uint8_t *seen = block(n, 1);
        memset(seen, 0, (size_t)n);
        CHECK(fpp_permutation_i64(key, n, order) == FPP_OK);
        for (int64_t i = 0; i < n; i++) {
            const int inside = order[i] >= 0 && order[i] < n;
            repeated += !inside || seen[order[i]];
            moved += order[i] != i;
            if (inside) {
                seen[order[i]] = 1;
            }
        }
        CHECK(repeated == 0);
        CHECK(n < 100 || moved > n - 20);
        free(order);
        free(seen);
    }
    return n_failed - before;
}

static int test_fixed_point(void)
{
    const int before = n_failed;
    uint64_t s[7] = {0}, result[7];
    CHECK(fpp_test_fixed_exp(s, result) == FPP_OK);
    CHECK(result[6] == 0 && result[0] == UINT64_MAX && result[5] == UINT64_MAX);
    s[6] = 1; /* exp(-1) = e / 2^(384 + 1), e the binary digits of 2 / e = 0.7357588823428846... */
    CHECK(fpp_test_fixed_exp(s, result) == FPP_OK);
    CHECK(result[6] == 1 && result[5] == 0xbc5ab1b16779be35u);
    s[6] = 129;
    CHECK(fpp_test_fixed_exp(s, result) == FPP_ERR_ARGUMENT);
    return n_failed - before;
}

int main(void)
{
    static int (*const tests[])(void) = {
        test_isa,
        test_chacha,
        test_noise_is_deterministic,
        test_noise_stays_in_range,
        test_other_samplers,
        test_permutation,
        test_fixed_point,
        test_rows,
        test_tree,
        test_pairs,
        test_bins,
        test_columns,
        test_gradients,
        test_arguments,
        test_arguments_of_reports,
        test_reports,
        test_threads,
        test_elementary,
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        failed += tests[i]() != 0;
    }
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return failed != 0;
}
