/* Exact Gaussian and Laplace noise over ChaCha20. tests/twins/sampler.py is the readable twin, word for word;
 * tables/make_tables.py builds the tables.
 *
 * A magnitude k lies in bin b = k / width. A draw is one word: a column of the alias table and the first bits of the compare that
 * turns it into b (with probability weight[b] / 2^64), a sign, the offset inside the bin, and the first bits of a uniform U. It is
 * kept iff U weight[b] < SCALE exp(-s), where s = (k + f)^2 / (2 scale^2) with a uniform fraction f (Gaussian: averaged over f, k is
 * kept in proportion to the integral of the density over [k, k + 1)), or s = k / scale (Laplace).
 * 98.5 % of Gaussian draws end there, by integer compares. For the others further words continue the compare, U and f, and doubles
 * decide unless they come within a window 2^9 times wider than their error: then 384-bit fixed point decides the same inequality.
 * The words taken depend on the integer compares and on the decisions, never on doubles, so they are the same on every machine.
 */
#include "fixed.h"
#include "stream.h"

#include "sampler_tables.h"

#define WINDOW_LOG2 (-34)

/* ---- Gaussian and Laplace noise ---- */

typedef struct {
    const uint64_t *first;  /* see first_look in make_tables.py */
    const uint64_t *alias;  /* threshold << 10 | other bin */
    const uint64_t *weight; /* of 2^64 */
    const uint16_t *quick;
    const double *ratio; /* SCALE density(left edge) / weight */
    uint64_t scale;
    uint32_t kind;
    uint32_t lazy_kind;
    int32_t laplace;
} noise_law;

#define GAUSSIAN_LAW(kind, lazy_kind) \
    {gaussian_first, gaussian_alias, gaussian_weight, gaussian_quick, gaussian_ratio, FPP_GAUSSIAN_SCALE, kind, lazy_kind, 0}

static const noise_law gaussian_law = GAUSSIAN_LAW(FPP_KIND_GAUSSIAN, FPP_KIND_GAUSSIAN_LAZY);
static const noise_law report_law = GAUSSIAN_LAW(FPP_KIND_REPORT, FPP_KIND_REPORT_LAZY);
static const noise_law report_scalar_law = GAUSSIAN_LAW(FPP_KIND_REPORT_SCALAR, FPP_KIND_REPORT_SCALAR_LAZY);
static const noise_law seed_law = GAUSSIAN_LAW(FPP_KIND_SEED, FPP_KIND_SEED_LAZY);
static const noise_law laplace_law = {laplace_first, laplace_alias, laplace_weight, laplace_quick, laplace_ratio,
                                      FPP_LAPLACE_SCALE, FPP_KIND_LAPLACE, FPP_KIND_LAPLACE_LAZY, 1};

/* The bits of a draw's word, from the lowest: column (10), start of the alias compare, start of U, sign (1), unused; the offset
 * inside the bin is at the top. */
#define COLUMN_BITS 10
#define COMPARE_BITS 54
FPP_INLINE int alias_bits(int laplace) { return laplace ? FPP_LAPLACE_ALIAS_BITS : FPP_GAUSSIAN_ALIAS_BITS; }
FPP_INLINE int quick_bits(int laplace) { return laplace ? FPP_LAPLACE_QUICK_BITS : FPP_GAUSSIAN_QUICK_BITS; }
FPP_INLINE int offset_bits(int laplace, int32_t log2_scale) { return log2_scale - (laplace ? 3 : 6); }
FPP_INLINE uint64_t alias_part(int laplace, uint64_t w) { return w >> COLUMN_BITS & ((1u << alias_bits(laplace)) - 1); }
FPP_INLINE uint64_t u_part(int laplace, uint64_t w)
{
    return w >> (COLUMN_BITS + alias_bits(laplace)) & ((1u << quick_bits(laplace)) - 1);
}
FPP_INLINE uint64_t sign_mask(int laplace, uint64_t w)
{
    return 0 - (w >> (COLUMN_BITS + alias_bits(laplace) + quick_bits(laplace)) & 1);
}
/* Laplace: the distance into the bin, low / scale, rounded up to the resolution of U; exp(-x) >= 1 - x. */
FPP_INLINE uint64_t quick_drop(int laplace, int32_t log2_scale, uint64_t low)
{
    return laplace ? (low << (FPP_LOG2_SCALE_MAX - log2_scale) >> (FPP_LOG2_SCALE_MAX - FPP_LAPLACE_QUICK_BITS)) + 1 : 0;
}
/* Gaussian: ~k is the floor of -(k + f). */
FPP_INLINE int64_t signed_value(int laplace, uint64_t magnitude, uint64_t sign)
{
    return (int64_t)(laplace ? (magnitude ^ sign) - sign : magnitude ^ sign);
}
/* The Laplace law would have two zeros, +0 and -0: the second is dropped, whatever U is. */
FPP_INLINE int void_zero(int laplace, uint64_t magnitude, uint64_t sign) { return laplace && (magnitude | ~sign) == 0; }

#define GROUP 8 /* draws that are looked at together for one that is undecided */

/* Decides the draws that integers can decide, and writes the indices of the others, ascending, to `open`; returns their number.
 * `split` keeps the serial list out of the first loop, so that it vectorizes; with SSE2 that does not pay. */
FPP_INLINE int64_t first_attempts(const uint64_t *restrict first, int laplace, int split, int32_t log2_scale,
                                  const uint64_t *restrict words, int64_t n, int64_t *restrict out, uint16_t *restrict open)
{
    const int low_bits = offset_bits(laplace, log2_scale);
    uint64_t undecided[FPP_DRAW_BLOCK];
    int64_t n_open = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t w = words[i], column = w & 1023, entry = first[column];
        const uint64_t compare = alias_part(laplace, w), threshold = entry >> 10 & 1023;
        const uint64_t stays = 0 - (uint64_t)(compare < threshold);
        const uint64_t bin = (column & stays) | (entry & 1023 & ~stays);
        const uint64_t quick = ((entry >> 20 & 1023) & stays) | (entry >> 32 & ~stays);
        const uint64_t low = w >> (64 - low_bits), magnitude = bin << low_bits | low, sign = sign_mask(laplace, w);
        uint64_t open_mask = 0 - (uint64_t)(u_part(laplace, w) + quick_drop(laplace, log2_scale, low) >= quick);
        open_mask |= 0 - (uint64_t)(compare == threshold);
        if (laplace) {
            open_mask |= 0 - (uint64_t)((magnitude | ~sign) == 0);
        }
        out[i] = signed_value(laplace, magnitude, sign);
        if (split) {
            undecided[i] = open_mask;
        } else {
            open[n_open] = (uint16_t)i;
            n_open += (int64_t)(open_mask & 1);
        }
    }
    for (int64_t at = 0; split && at < n; at += GROUP) {
        const int64_t end = n - at < GROUP ? n : at + GROUP;
        uint64_t any = end - at < GROUP;
        if (FPP_LIKELY(!any)) {
            for (int l = 0; l < GROUP; l++) {
                any |= undecided[at + l];
            }
        }
        for (int64_t i = at; FPP_UNLIKELY(any != 0) && i < end; i++) { /* one group of nine */
            open[n_open] = (uint16_t)i;
            n_open += (int64_t)(undecided[i] & 1);
        }
    }
    return n_open;
}

#define DEFINE_FIRST(NAME, SPLIT, ATTRIBUTE) \
    ATTRIBUTE static int64_t NAME(const noise_law *law, int32_t log2_scale, const uint64_t *words, int64_t n, int64_t *out, \
                                  uint16_t *open) \
    { \
        return law->laplace ? first_attempts(law->first, 1, SPLIT, log2_scale, words, n, out, open) \
                            : first_attempts(law->first, 0, SPLIT, log2_scale, words, n, out, open); \
    }
DEFINE_FIRST(first_baseline, 0, )
#if FPP_X86
DEFINE_FIRST(first_avx2, 1, FPP_TARGET_AVX2)
DEFINE_FIRST(first_avx512, 1, FPP_TARGET_AVX512)
#endif

typedef struct {
    const noise_law *law;
    const uint8_t *key;
    int32_t log2_scale;
    double window; /* relative; the doubles below are good to 2^-43 */
} noise_context;

/* One attempt, its bin known. */
typedef struct {
    uint64_t bin, low, magnitude, u;
} attempt;

/* The exact comparison: U and f are read 192 bits further, from a block of keystream that belongs to this attempt alone. */
static int accepts_fixed(const noise_context *context, attempt a, uint64_t u_more, uint64_t f_first, uint64_t draw, uint32_t trial)
{
    const noise_law *law = context->law;
    fpp_chacha_state chacha;
    uint64_t lazy[FPP_CHACHA_BLOCK_WORDS], s[FPP_FIXED_S_LIMBS];
    fpp_chacha_init(&chacha, context->key, law->lazy_kind, draw);
    chacha.word[12] = trial;
    fpp_chacha_words(&chacha, 1, lazy);
    const uint64_t u[FPP_FIXED_U_LIMBS] = {lazy[2], lazy[1], lazy[0], u_more, a.u};
    if (law->laplace) {
        fpp_fixed_laplace_exponent(a.magnitude, context->log2_scale, s);
    } else {
        const uint64_t f[4] = {lazy[5], lazy[4], lazy[3], f_first};
        fpp_fixed_gaussian_exponent(a.magnitude, f, context->log2_scale, s);
    }
    fpp_wipe(&chacha, (int64_t)sizeof chacha);
    return fpp_fixed_accepts(u, (uint32_t)quick_bits(law->laplace) + 256, law->weight[a.bin], law->scale, s);
}

/* exp(-x) for 0 <= x < 0.26 by its series: the first term left out is below 2^-46. */
static double exp_minus(double x)
{
    static const double inverse[] = {1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8, 1.0 / 9, 1.0 / 10};
    double value = 1.0;
    for (int i = 8; i >= 0; i--) {
        value = 1.0 - x * inverse[i] * value;
    }
    return 1.0 - x * value;
}

#define GAUSSIAN_U_UNIT (1.0 / (1 << FPP_GAUSSIAN_QUICK_BITS))
#define LAPLACE_U_UNIT (1.0 / (1 << FPP_LAPLACE_QUICK_BITS))

static int accepts(const noise_context *context, attempt a, word_stream *stream, uint64_t draw, uint32_t trial)
{
    const noise_law *law = context->law;
    const double unit = 1.0 / (double)((uint64_t)1 << context->log2_scale);
    const uint64_t u_more = stream_next(stream);
    uint64_t f_first = 0;
    double x; /* s less its value at the left edge of the bin */
    if (law->laplace) {
        x = (double)a.low * unit;
    } else {
        f_first = stream_next(stream);
        const double y = ((double)a.low + (double)f_first * 0x1p-64) * unit;
        x = y * ((double)a.bin * 0x1p-6 + 0.5 * y);
    }
    const double bound = law->ratio[a.bin] * exp_minus(x);
    const double u = ((double)a.u + (double)u_more * 0x1p-64) * (law->laplace ? LAPLACE_U_UNIT : GAUSSIAN_U_UNIT);
    if (u + 0x1p-70 < bound * (1.0 - context->window)) {
        return 1;
    }
    if (u > bound * (1.0 + context->window)) {
        return 0;
    }
    return accepts_fixed(context, a, u_more, f_first, draw, trial);
}

/* One whole draw, from its first word to the decision; `trial` counts the attempts of this draw. */
static int64_t finish_draw(const noise_context *context, uint64_t w, word_stream *stream, uint64_t draw)
{
    const noise_law *law = context->law;
    const int laplace = law->laplace, low_bits = offset_bits(laplace, context->log2_scale);
    for (uint32_t trial = 0; !stream->exhausted; trial++) {
        const uint64_t column = w & 1023, entry = law->alias[column];
        const int more = COMPARE_BITS - alias_bits(laplace);
        uint64_t compare = alias_part(laplace, w) << more, threshold = entry >> COLUMN_BITS;
        if (compare >> more == threshold >> more) {
            compare |= stream_next(stream) >> (64 - more);
        }
        attempt a;
        a.bin = compare < threshold ? column : entry & 1023;
        a.low = w >> (64 - low_bits);
        a.magnitude = a.bin << low_bits | a.low;
        a.u = u_part(laplace, w);
        const uint64_t sign = sign_mask(laplace, w);
        const int certain = a.u + quick_drop(laplace, context->log2_scale, a.low) < law->quick[a.bin];
        if (!void_zero(laplace, a.magnitude, sign) && (certain || accepts(context, a, stream, draw, trial))) {
            return signed_value(laplace, a.magnitude, sign);
        }
        w = stream_next(stream);
    }
    return 0;
}

/* Draws of one block, its stream left open: the caller wipes it. */
static int32_t noise_block(const noise_law *law, const uint8_t *key, uint64_t block, int64_t n, int32_t log2_scale,
                           int32_t window_log2, word_stream *stream, int64_t *out)
{
    int64_t (*first)(const noise_law *, int32_t, const uint64_t *, int64_t, int64_t *, uint16_t *) = FPP_AT_LEVEL(first);
    const noise_context context = {law, key, log2_scale, 1.0 / (double)((uint64_t)1 << -window_log2)};
    uint16_t open[FPP_DRAW_BLOCK];
    stream_open(stream, key, law->kind, block, n);
    const int64_t n_open = first(law, log2_scale, stream->first, n, out, open);
    for (int64_t i = 0; i < n_open; i++) {
        const int64_t draw = open[i];
        out[draw] = finish_draw(&context, stream->first[draw], stream, block * FPP_DRAW_BLOCK + (uint64_t)draw);
    }
    return stream->exhausted ? FPP_ERR_EXHAUSTED : FPP_OK;
}

static int32_t noise_range(const noise_law *law, const uint8_t *key, int64_t begin, int64_t end, int32_t log2_scale,
                           int32_t window_log2, int64_t *out)
{
    if (range_error(key, begin, end, out) != FPP_OK || log2_scale < FPP_LOG2_SCALE_MIN || log2_scale > FPP_LOG2_SCALE_MAX) {
        return FPP_ERR_ARGUMENT;
    }
    int32_t status = FPP_OK;
    word_stream stream;
    for (int64_t at = begin; at < end && status == FPP_OK; at += FPP_DRAW_BLOCK) {
        status = noise_block(law, key, (uint64_t)at / FPP_DRAW_BLOCK, block_size(at, end), log2_scale, window_log2, &stream,
                             out + (at - begin));
    }
    fpp_wipe(&stream, (int64_t)sizeof stream);
    return status;
}

FPP_API int32_t fpp_gaussian_floor_i64(const uint8_t *key, int64_t begin, int64_t end, int32_t log2_scale, int64_t *out)
{
    return noise_range(&gaussian_law, key, begin, end, log2_scale, WINDOW_LOG2, out);
}

FPP_API int32_t fpp_laplace_i64(const uint8_t *key, int64_t begin, int64_t end, int32_t log2_scale, int64_t *out)
{
    return noise_range(&laplace_law, key, begin, end, log2_scale, WINDOW_LOG2, out);
}

FPP_API int32_t fpp_test_noise_i64(const uint8_t *key, int64_t begin, int64_t end, int32_t law, int32_t log2_scale,
                                   int32_t window_log2, int64_t *out)
{
    if ((law != 0 && law != 1) || window_log2 > 0 || window_log2 < WINDOW_LOG2) {
        return FPP_ERR_ARGUMENT;
    }
    const int32_t window = window_log2 == 0 ? WINDOW_LOG2 : window_log2;
    return noise_range(law == 1 ? &laplace_law : &gaussian_law, key, begin, end, log2_scale, window, out);
}

FPP_LOCAL int32_t fpp_normal_block(enum fpp_normals kind, const uint8_t *key, uint64_t block, int64_t n, word_stream *stream,
                                   int64_t *out)
{
    const noise_law *const law = kind == FPP_NORMALS_REPORT ? &report_law
                                 : kind == FPP_NORMALS_SCALAR ? &report_scalar_law : &seed_law;
    return noise_block(law, key, block, n, FPP_LOG2_SCALE_MAX, WINDOW_LOG2, stream, out);
}
