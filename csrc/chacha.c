/* ChaCha20 (RFC 8439: 32-bit counter, 96-bit nonce), several blocks side by side: lane i of every vector works on block i. */
#include "chacha.h"

#include <string.h>

#define ROUND_PAIRS 10

typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));

static uint32_t load_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

FPP_LOCAL void fpp_wipe(void *memory, int64_t n_bytes)
{
    memset(memory, 0, (size_t)n_bytes);
    __asm__ volatile("" : : "r"(memory) : "memory"); /* the store is observable, so it cannot be dropped as dead */
}

static void init_words(fpp_chacha_state *state, const uint8_t *key, uint32_t counter)
{
    static const uint32_t sigma[4] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
    memcpy(state->word, sigma, sizeof sigma);
    for (int i = 0; i < 8; i++) {
        state->word[4 + i] = load_le32(key + 4 * i);
    }
    state->word[12] = counter;
}

FPP_LOCAL void fpp_chacha_init(fpp_chacha_state *state, const uint8_t *key, uint32_t kind, uint64_t index)
{
    init_words(state, key, 0);
    state->word[13] = kind;
    state->word[14] = (uint32_t)index;
    state->word[15] = (uint32_t)(index >> 32);
}

/* Four words of one block, as bytes in stream order. */
typedef uint32_t piece __attribute__((vector_size(16), may_alias));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define STREAM_ORDER(x) ((ROTL(x, 8) & 0x00ff00ffu) | (ROTL(x, 24) & 0xff00ff00u))
#else
#define STREAM_ORDER(x) (x)
#endif

static const uint32_t lane_numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

#define ROTL(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define ROTL16(x) ROTL(x, 16)
#define ROTL8(x) ROTL(x, 8)
/* Rotations by whole bytes are one shuffle where AVX2 has no rotate instruction. */
typedef uint8_t u8x32 __attribute__((vector_size(32)));
#define LANES32(f) f(0), f(4), f(8), f(12), f(16), f(20), f(24), f(28)
#define BY16(i) i + 2, i + 3, i, i + 1
#define BY8(i) i + 3, i, i + 1, i + 2
#define SHUFFLE16(x) ((u32x8)FPP_SHUFFLE(u8x32, (u8x32)(x), (u8x32)(x), LANES32(BY16)))
#define SHUFFLE8(x) ((u32x8)FPP_SHUFFLE(u8x32, (u8x32)(x), (u8x32)(x), LANES32(BY8)))

#define QUARTER(a, b, c, d, R16, R8) \
    do { \
        a += b; d ^= a; d = R16(d); \
        c += d; b ^= c; b = ROTL(b, 12); \
        a += b; d ^= a; d = R8(d); \
        c += d; b ^= c; b = ROTL(b, 7); \
    } while (0)

/* One body per vector type: GCC vectors cannot be passed by value between levels without changing the ABI, so this is a macro.
 * Every 4 words of 4 blocks are transposed inside 128-bit lanes and leave as 16-byte pieces of their blocks. */
#define DEFINE_BLOCKS(NAME, VEC, LANES, R16, R8, ATTRIBUTE) \
    ATTRIBUTE static void NAME(const uint32_t *start, uint8_t *out) \
    { \
        VEC x[16], lane; \
        memcpy(&lane, lane_numbers, sizeof lane); \
        for (int i = 0; i < 16; i++) { \
            x[i] = start[i] + (VEC){0}; \
        } \
        x[12] += lane; \
        _Pragma("GCC unroll 10") for (int round = 0; round < ROUND_PAIRS; round++) { \
            QUARTER(x[0], x[4], x[8], x[12], R16, R8); \
            QUARTER(x[1], x[5], x[9], x[13], R16, R8); \
            QUARTER(x[2], x[6], x[10], x[14], R16, R8); \
            QUARTER(x[3], x[7], x[11], x[15], R16, R8); \
            QUARTER(x[0], x[5], x[10], x[15], R16, R8); \
            QUARTER(x[1], x[6], x[11], x[12], R16, R8); \
            QUARTER(x[2], x[7], x[8], x[13], R16, R8); \
            QUARTER(x[3], x[4], x[9], x[14], R16, R8); \
        } \
        for (int quad = 0; quad < 4; quad++) { \
            VEC row[4]; \
            for (int i = 0; i < 4; i++) { \
                row[i] = x[4 * quad + i] + start[4 * quad + i]; \
            } \
            if (quad == 3) { \
                row[0] += lane; \
            } \
            TRANSPOSE_##LANES(row); \
            for (int i = 0; i < 4; i++) { \
                for (int group = 0; group < (LANES) / 4; group++) { \
                    const piece part = STREAM_ORDER(((const piece *)&row[i])[group]); \
                    memcpy(out + 64 * (4 * group + i) + 16 * quad, &part, 16); \
                } \
            } \
        } \
    }

#define UNPACK_LO(i, n) i, i + n, i + 1, i + n + 1
#define UNPACK_HI(i, n) i + 2, i + n + 2, i + 3, i + n + 3
#define PAIR_LO(i, n) i, i + 1, i + n, i + n + 1
#define PAIR_HI(i, n) i + 2, i + 3, i + n + 2, i + n + 3
#define EACH_4(f) f(0, 4)
#define EACH_8(f) f(0, 8), f(4, 8)
#define EACH_16(f) f(0, 16), f(4, 16), f(8, 16), f(12, 16)
#define MIX(VEC, a, b, ...) FPP_SHUFFLE(VEC, a, b, __VA_ARGS__)
#define TRANSPOSE(VEC, EACH, r) \
    do { \
        const VEC t0 = MIX(VEC, r[0], r[1], EACH(UNPACK_LO)), t1 = MIX(VEC, r[2], r[3], EACH(UNPACK_LO)); \
        const VEC t2 = MIX(VEC, r[0], r[1], EACH(UNPACK_HI)), t3 = MIX(VEC, r[2], r[3], EACH(UNPACK_HI)); \
        r[0] = MIX(VEC, t0, t1, EACH(PAIR_LO)); \
        r[1] = MIX(VEC, t0, t1, EACH(PAIR_HI)); \
        r[2] = MIX(VEC, t2, t3, EACH(PAIR_LO)); \
        r[3] = MIX(VEC, t2, t3, EACH(PAIR_HI)); \
    } while (0)
#define TRANSPOSE_4(r) TRANSPOSE(u32x4, EACH_4, r)
#define TRANSPOSE_8(r) TRANSPOSE(u32x8, EACH_8, r)
#define TRANSPOSE_16(r) TRANSPOSE(u32x16, EACH_16, r)

DEFINE_BLOCKS(blocks_baseline, u32x4, 4, ROTL16, ROTL8, )
#if FPP_X86
DEFINE_BLOCKS(blocks_avx2, u32x8, 8, SHUFFLE16, SHUFFLE8, FPP_TARGET_AVX2)
DEFINE_BLOCKS(blocks_avx512, u32x16, 16, ROTL16, ROTL8, FPP_TARGET_AVX512)
#endif

FPP_LOCAL void fpp_chacha_blocks(fpp_chacha_state *state, int64_t n_blocks, uint8_t *out)
{
    void (*many)(const uint32_t *, uint8_t *) = blocks_baseline;
    int64_t lanes = 4;
#if FPP_X86
    const int32_t level = fpp_isa_level();
    if (level >= FPP_ISA_AVX512 && n_blocks > 8) {
        many = blocks_avx512;
        lanes = 16;
    } else if (level >= FPP_ISA_AVX2 && n_blocks > 4) {
        many = blocks_avx2;
        lanes = 8;
    }
#endif
    while (n_blocks >= lanes) {
        many(state->word, out);
        state->word[12] += (uint32_t)lanes;
        out += lanes * FPP_CHACHA_BLOCK_BYTES;
        n_blocks -= lanes;
    }
    if (n_blocks > 0) {
        uint8_t rest[16 * FPP_CHACHA_BLOCK_BYTES];
        many(state->word, rest);
        memcpy(out, rest, (size_t)(n_blocks * FPP_CHACHA_BLOCK_BYTES));
        state->word[12] += (uint32_t)n_blocks;
        fpp_wipe(rest, (int64_t)sizeof rest);
    }
}

FPP_LOCAL void fpp_chacha_words(fpp_chacha_state *state, int64_t n_blocks, uint64_t *out)
{
    fpp_chacha_blocks(state, n_blocks, (uint8_t *)out);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int64_t i = 0; i < n_blocks * FPP_CHACHA_BLOCK_WORDS; i++) {
        out[i] = __builtin_bswap64(out[i]);
    }
#endif
}

FPP_API int32_t fpp_chacha20_keystream(const uint8_t *key, const uint8_t *nonce, uint32_t counter, int64_t n_bytes, uint8_t *out)
{
    if (key == NULL || nonce == NULL || n_bytes < 0 || (out == NULL && n_bytes > 0)) {
        return FPP_ERR_ARGUMENT;
    }
    const int64_t whole = n_bytes / FPP_CHACHA_BLOCK_BYTES, rest = n_bytes % FPP_CHACHA_BLOCK_BYTES;
    if (whole + (rest > 0) > ((int64_t)1 << 32) - (int64_t)counter) {
        return FPP_ERR_EXHAUSTED;
    }
    fpp_chacha_state state;
    init_words(&state, key, counter);
    for (int i = 0; i < 3; i++) {
        state.word[13 + i] = load_le32(nonce + 4 * i);
    }
    fpp_chacha_blocks(&state, whole, out);
    if (rest > 0) {
        uint8_t last[FPP_CHACHA_BLOCK_BYTES];
        fpp_chacha_blocks(&state, 1, last);
        memcpy(out + n_bytes - rest, last, (size_t)rest);
        fpp_wipe(last, (int64_t)sizeof last);
    }
    fpp_wipe(&state, (int64_t)sizeof state);
    return FPP_OK;
}
