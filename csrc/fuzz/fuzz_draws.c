/* Draws: the keystream is that of RFC 8439 block by block, words and uniforms are read off it, every range of draws is the same in
 * one piece or several and on every instruction set, and the slow comparison agrees with the quick one. */
#include "fuzz.h"

enum { DRAWS = 3 * FPP_DRAW_BLOCK };

static uint32_t rotated(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

static void quarter(uint32_t *x, int a, int b, int c, int d)
{
    x[d] = rotated(x[d] ^ (x[a] += x[b]), 16);
    x[b] = rotated(x[b] ^ (x[c] += x[d]), 12);
    x[d] = rotated(x[d] ^ (x[a] += x[b]), 8);
    x[b] = rotated(x[b] ^ (x[c] += x[d]), PLANTED ? 8 : 7);
}

static uint32_t word_of(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* RFC 8439, section 2.3. */
static void plain_block(const uint8_t *key, const uint8_t *nonce, uint32_t counter, uint8_t *out)
{
    uint32_t start[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u}, x[16];
    for (int i = 0; i < 8; i++) {
        start[4 + i] = word_of(key + 4 * i);
    }
    start[12] = counter;
    for (int i = 0; i < 3; i++) {
        start[13 + i] = word_of(nonce + 4 * i);
    }
    memcpy(x, start, sizeof x);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++) {
            quarter(x, i, 4 + i, 8 + i, 12 + i);
        }
        for (int i = 0; i < 4; i++) {
            quarter(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
        }
    }
    for (int i = 0; i < 64; i++) {
        out[i] = (uint8_t)((x[i / 4] + start[i / 4]) >> (8 * (i % 4)));
    }
}

static void read_key(fuzz_input *in, uint8_t *bytes, int count)
{
    for (int i = 0; i < count; i++) {
        bytes[i] = (uint8_t)take(in, 1);
    }
}

static void check_keystream(fuzz_input in)
{
    uint8_t key[FPP_KEY_BYTES], nonce[FPP_NONCE_BYTES], one[64];
    const int64_t n = pick(&in, 0, 2400);
    const uint32_t counter = (uint32_t)(pick(&in, 0, 1) ? (uint64_t)pick(&in, 0, 20) : take(&in, 4));
    read_key(&in, nonce, FPP_NONCE_BYTES);
    read_key(&in, key, FPP_KEY_BYTES);
    uint8_t *out = room(n, 1);
    const int32_t status = fpp_chacha20_keystream(key, nonce, counter, n, out);
    AGREE(status == ((n + 63) / 64 > (INT64_C(1) << 32) - counter ? FPP_ERR_EXHAUSTED : FPP_OK));
    for (int64_t at = 0; status == FPP_OK && at < n; at += 64) {
        plain_block(key, nonce, (uint32_t)(counter + at / 64), one);
        AGREE(memcmp(out + at, one, (size_t)(n - at < 64 ? n - at : 64)) == 0);
    }
    free(out);
}

enum { WORDS, UNIFORM, GAUSSIAN, LAPLACE, BELOW, LAWS };

typedef struct {
    int32_t log2_scale;
    int64_t bound;
} law_arguments;

/* Draws of any law as 64-bit patterns, so that one loop compares them all. */
static int32_t draw(int law, const law_arguments *with, const uint8_t *key, int64_t begin, int64_t end, uint64_t *out)
{
    switch (law) {
    case WORDS: return fpp_words_u64(key, begin, end, out);
    case UNIFORM: return fpp_uniform_f64(key, begin, end, (double *)(void *)out);
    case GAUSSIAN: return fpp_gaussian_floor_i64(key, begin, end, with->log2_scale, (int64_t *)out);
    case LAPLACE: return fpp_laplace_i64(key, begin, end, with->log2_scale, (int64_t *)out);
    default: return fpp_below_i64(key, begin, end, with->bound, (int64_t *)out);
    }
}

static int is_valid(int law, const law_arguments *with, int64_t begin, int64_t end)
{
    const int scaled = law == GAUSSIAN || law == LAPLACE;
    return begin % FPP_DRAW_BLOCK == 0 && end <= FPP_DRAW_END_MAX
           && (!scaled || (with->log2_scale >= FPP_LOG2_SCALE_MIN && with->log2_scale <= FPP_LOG2_SCALE_MAX))
           && (law != BELOW || with->bound >= 1);
}

/* What a draw must be, as far as a few lines can say; `word` is its first word of the keystream of WORDS and UNIFORM. */
static void check_value(int law, const law_arguments *with, uint64_t value, uint64_t word)
{
    const int64_t whole = (int64_t)value, scale = INT64_C(1) << with->log2_scale;
    double real;
    memcpy(&real, &value, sizeof real);
    switch (law) {
    case WORDS: AGREE(value == word); break;
    case UNIFORM: AGREE(real == (double)(word >> 11) * 0x1p-53); break;
    case GAUSSIAN: AGREE(whole >= -16 * scale && whole < 16 * scale); break;
    case LAPLACE: AGREE(whole > -128 * scale && whole < 128 * scale); break;
    default: AGREE(whole >= 0 && whole < with->bound); break;
    }
}

static void check_draws(fuzz_input in)
{
    uint8_t key[FPP_KEY_BYTES], nonce[FPP_NONCE_BYTES] = {0}, stream[64];
    const int law = (int)pick(&in, 0, LAWS - 1);
    const int64_t n = pick(&in, 0, DRAWS), blocks = pick(&in, 0, 3), cut = FPP_DRAW_BLOCK * pick(&in, 0, 2);
    const int64_t begin = blocks == 0   ? (int64_t)(take(&in, 8) >> 1)
                          : blocks == 1 ? FPP_DRAW_END_MAX - pick(&in, 0, 4) * FPP_DRAW_BLOCK
                                        : FPP_DRAW_BLOCK * (int64_t)take(&in, 4);
    law_arguments with = {.log2_scale = (int32_t)pick(&in, 0, 48)};
    with.bound = INT64_C(1) << pick(&in, 0, 62);
    with.bound += pick(&in, 0, 1) ? pick(&in, -3, 3) : 0;
    read_key(&in, key, FPP_KEY_BYTES);
    const int64_t end = begin > INT64_MAX - n ? INT64_MAX : begin + n;
    uint64_t *first = room(end - begin, sizeof *first), *again = room(end - begin, sizeof *again);
    const int32_t status = draw(law, &with, key, begin, end, first);
    AGREE(status == (is_valid(law, &with, begin, end) ? FPP_OK : FPP_ERR_ARGUMENT));
    if (status == FPP_OK) {
        const int64_t middle = begin + (cut < end - begin ? cut : 0);
        fpp_isa_limit(FPP_ISA_BASELINE);
        AGREE(draw(law, &with, key, begin, middle, again) == FPP_OK);
        AGREE(draw(law, &with, key, middle, end, again + (middle - begin)) == FPP_OK);
        AGREE(memcmp(first, again, (size_t)(end - begin) * sizeof *first) == 0);
        if (law == GAUSSIAN || law == LAPLACE) {
            AGREE(fpp_test_noise_i64(key, begin, end, law == LAPLACE, with.log2_scale, -3, (int64_t *)again) == FPP_OK);
            AGREE(memcmp(first, again, (size_t)(end - begin) * sizeof *first) == 0);
        }
        memcpy(nonce, law == UNIFORM ? "unif" : "word", 4);
        for (int64_t i = 0; i < end - begin; i++) {
            const uint64_t block = (uint64_t)(begin + i) / FPP_DRAW_BLOCK;
            uint64_t word = 0;
            for (int b = 0; b < 8; b++) {
                nonce[4 + b] = (uint8_t)(block >> (8 * b));
            }
            if (law <= UNIFORM && i % 8 == 0) {
                plain_block(key, nonce, (uint32_t)((begin + i) % FPP_DRAW_BLOCK / 8), stream);
            }
            for (int b = 0; law <= UNIFORM && b < 8; b++) {
                word |= (uint64_t)stream[i % 8 * 8 + b] << (8 * b);
            }
            check_value(law, &with, first[i], word);
        }
    }
    free(first);
    free(again);
}

static void check_permutation(fuzz_input in)
{
    uint8_t key[FPP_KEY_BYTES];
    const int64_t n = pick(&in, 0, 3000);
    int64_t *order = room(n, sizeof *order);
    uint8_t *seen = zeros(n, 1);
    read_key(&in, key, FPP_KEY_BYTES);
    AGREE(fpp_permutation_i64(key, n, order) == FPP_OK);
    for (int64_t i = 0; i < n; i++) {
        AGREE(order[i] >= 0 && order[i] < n && !seen[order[i]]);
        seen[order[i]] = 1;
    }
    free(order);
    free(seen);
}

/* Long doubles have 64 bits: the fixed point agrees with them to that. */
static void check_fixed(fuzz_input in)
{
    uint64_t s[7], result[7];
    for (int i = 5; i >= 0; i--) {
        s[i] = take(&in, 8);
    }
    s[6] = (uint64_t)pick(&in, 0, 140);
    const int32_t status = fpp_test_fixed_exp(s, result);
    AGREE(status == (s[6] <= 128 ? FPP_OK : FPP_ERR_ARGUMENT));
    if (status == FPP_OK) {
        const long double exponent = (long double)s[6] + (long double)s[5] * 0x1p-64L + (long double)s[4] * 0x1p-128L;
        const long double fraction = (long double)result[5] * 0x1p-64L + (long double)result[4] * 0x1p-128L;
        const long double found = ldexpl(fraction, -(int)result[6]), expected = expl(-exponent);
        AGREE(fabsl(found - expected) <= expected * 0x1p-54L);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(fuzz_input) = {check_keystream, check_draws, check_permutation, check_fixed, check_draws};
    run_one(checks, 5, data, size);
    return 0;
}
