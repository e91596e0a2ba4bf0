/* The random words of one block of draws: first one word for each draw, then further words for the draws that need more than one, which
 * take them in the order of the draws. */
#ifndef FPP_STREAM_H
#define FPP_STREAM_H
#include "chacha.h"

#define FPP_POOL_CHACHA_BLOCKS 8 /* of a block of normals, 33 words are taken on average */
#define FPP_POOL_WORDS (FPP_POOL_CHACHA_BLOCKS * FPP_CHACHA_BLOCK_WORDS)

typedef struct {
    fpp_chacha_state chacha;
    int64_t pool_at, pool_end; /* a fetch brings all it has room for, or half of that for a short range of draws: the same words */
    int32_t exhausted;
    uint64_t first[FPP_DRAW_BLOCK];
    uint64_t pool[FPP_POOL_WORDS];
} word_stream;

static inline void stream_open(word_stream *stream, const uint8_t *key, uint32_t kind, uint64_t block, int64_t n_draws)
{
    fpp_chacha_init(&stream->chacha, key, kind, block);
    fpp_chacha_words(&stream->chacha, (n_draws + FPP_CHACHA_BLOCK_WORDS - 1) / FPP_CHACHA_BLOCK_WORDS, stream->first);
    stream->chacha.word[12] = FPP_DRAW_BLOCK / FPP_CHACHA_BLOCK_WORDS;
    stream->pool_end = n_draws < FPP_DRAW_BLOCK / 2 ? FPP_POOL_WORDS / 2 : FPP_POOL_WORDS;
    stream->pool_at = stream->pool_end;
    stream->exhausted = 0;
}

static inline uint64_t stream_next(word_stream *stream)
{
    if (stream->pool_at == stream->pool_end) {
        if (stream->chacha.word[12] > UINT32_MAX - FPP_POOL_CHACHA_BLOCKS) {
            stream->exhausted = 1;
            return 0;
        }
        fpp_chacha_words(&stream->chacha, stream->pool_end / FPP_CHACHA_BLOCK_WORDS, stream->pool);
        stream->pool_at = 0;
    }
    return stream->pool[stream->pool_at++];
}

/* Up to a block of normals of a report or of a seed (sampler.c), by way of a stream that the caller wipes: the floors k of Gaussians of
 * scale 2^40. A normal is read as (k + 1/2) / 2^40, within 2^-41 of one that is exact. */
enum fpp_normals { FPP_NORMALS_REPORT, FPP_NORMALS_SCALAR, FPP_NORMALS_SEED };
FPP_LOCAL int32_t fpp_normal_block(enum fpp_normals kind, const uint8_t *key, uint64_t block, int64_t n, word_stream *stream,
                                   int64_t *out);

/* Ranges begin on a block, and no block ends beyond the integers. */
static inline int32_t range_error(const uint8_t *key, int64_t begin, int64_t end, const void *out)
{
    if (key == NULL || begin < 0 || end < begin || end > FPP_DRAW_END_MAX || begin % FPP_DRAW_BLOCK != 0
        || !fpp_is_given(out, end - begin, (int64_t)sizeof(int64_t))) {
        return FPP_ERR_ARGUMENT;
    }
    return FPP_OK;
}

static inline int64_t block_size(int64_t at, int64_t end)
{
    return end - at < FPP_DRAW_BLOCK ? end - at : FPP_DRAW_BLOCK;
}

#endif
