/* Words, uniforms, bounded integers and permutations over ChaCha20; tests/twins/sampler.py is the readable twin. */
#include "stream.h"

#include <string.h>

__extension__ typedef unsigned __int128 u128;

FPP_API int32_t fpp_words_u64(const uint8_t *key, int64_t begin, int64_t end, uint64_t *out)
{
    if (range_error(key, begin, end, out) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    word_stream stream;
    for (int64_t at = begin; at < end; at += FPP_DRAW_BLOCK) {
        const int64_t n = block_size(at, end);
        stream_open(&stream, key, FPP_KIND_WORDS, (uint64_t)at / FPP_DRAW_BLOCK, n);
        memcpy(out + (at - begin), stream.first, (size_t)n * sizeof *out);
    }
    fpp_wipe(&stream, (int64_t)sizeof stream);
    return FPP_OK;
}

FPP_API int32_t fpp_uniform_f64(const uint8_t *key, int64_t begin, int64_t end, double *out)
{
    if (range_error(key, begin, end, out) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    word_stream stream;
    for (int64_t at = begin; at < end; at += FPP_DRAW_BLOCK) {
        const int64_t n = block_size(at, end);
        stream_open(&stream, key, FPP_KIND_UNIFORM, (uint64_t)at / FPP_DRAW_BLOCK, n);
        for (int64_t i = 0; i < n; i++) {
            out[at - begin + i] = (double)(int64_t)(stream.first[i] >> 11) * 0x1p-53;
        }
    }
    fpp_wipe(&stream, (int64_t)sizeof stream);
    return FPP_OK;
}

/* Uniform below bound: the high half of word * bound, dropped when the low half is one of the 2^64 mod bound too many (Lemire). */
static uint64_t below(uint64_t word, uint64_t bound, word_stream *stream)
{
    u128 product = (u128)word * bound;
    if ((uint64_t)product < bound) {
        const uint64_t excess = (0 - bound) % bound;
        while ((uint64_t)product < excess && !stream->exhausted) {
            product = (u128)stream_next(stream) * bound;
        }
    }
    return (uint64_t)(product >> 64);
}

FPP_API int32_t fpp_below_i64(const uint8_t *key, int64_t begin, int64_t end, int64_t bound, int64_t *out)
{
    if (range_error(key, begin, end, out) != FPP_OK || bound < 1) {
        return FPP_ERR_ARGUMENT;
    }
    int32_t status = FPP_OK;
    word_stream stream;
    for (int64_t at = begin; at < end && status == FPP_OK; at += FPP_DRAW_BLOCK) {
        const int64_t n = block_size(at, end);
        stream_open(&stream, key, FPP_KIND_BELOW, (uint64_t)at / FPP_DRAW_BLOCK, n);
        for (int64_t i = 0; i < n; i++) {
            out[at - begin + i] = (int64_t)below(stream.first[i], (uint64_t)bound, &stream);
        }
        status = stream.exhausted ? FPP_ERR_EXHAUSTED : FPP_OK;
    }
    fpp_wipe(&stream, (int64_t)sizeof stream);
    return status;
}

FPP_API int32_t fpp_permutation_i64(const uint8_t *key, int64_t n, int64_t *out)
{
    if (range_error(key, 0, n, out) != FPP_OK) {
        return FPP_ERR_ARGUMENT;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = i;
    }
    int32_t status = FPP_OK;
    word_stream stream;
    for (int64_t at = 0; at < n && status == FPP_OK; at += FPP_DRAW_BLOCK) {
        const int64_t steps = block_size(at, n);
        stream_open(&stream, key, FPP_KIND_PERMUTATION, (uint64_t)at / FPP_DRAW_BLOCK, steps);
        for (int64_t i = 0; i < steps; i++) { /* Fisher-Yates from the back */
            const int64_t last = n - 1 - (at + i);
            const int64_t other = (int64_t)below(stream.first[i], (uint64_t)(last + 1), &stream);
            const int64_t kept = out[other];
            out[other] = out[last];
            out[last] = kept;
        }
        status = stream.exhausted ? FPP_ERR_EXHAUSTED : FPP_OK;
    }
    fpp_wipe(&stream, (int64_t)sizeof stream);
    return status;
}
