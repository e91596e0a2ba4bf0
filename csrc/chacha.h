/* Keystreams inside the library: state set-up, whole blocks, wiping. */
#ifndef FPP_CHACHA_H
#define FPP_CHACHA_H
#include "internal.h"

#define FPP_CHACHA_BLOCK_BYTES 64
#define FPP_CHACHA_BLOCK_WORDS 8 /* 64-bit words */

/* Kinds of draws: the first four bytes of a nonce, read as little-endian text. The other eight are the block index. */
#define FPP_KIND(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
#define FPP_KIND_WORDS FPP_KIND('w', 'o', 'r', 'd')
#define FPP_KIND_GAUSSIAN FPP_KIND('g', 'a', 'u', 's')
#define FPP_KIND_GAUSSIAN_LAZY FPP_KIND('g', 'l', 'a', 'z')
#define FPP_KIND_LAPLACE FPP_KIND('l', 'a', 'p', 'l')
#define FPP_KIND_LAPLACE_LAZY FPP_KIND('l', 'l', 'a', 'z')
#define FPP_KIND_UNIFORM FPP_KIND('u', 'n', 'i', 'f')
#define FPP_KIND_BELOW FPP_KIND('b', 'e', 'l', 'o')
#define FPP_KIND_PERMUTATION FPP_KIND('p', 'e', 'r', 'm')
#define FPP_KIND_REPORT FPP_KIND('r', 'e', 'p', 'o')
#define FPP_KIND_REPORT_LAZY FPP_KIND('r', 'l', 'a', 'z')
#define FPP_KIND_REPORT_SCALAR FPP_KIND('r', 's', 'c', 'a')
#define FPP_KIND_REPORT_SCALAR_LAZY FPP_KIND('r', 's', 'l', 'z')
#define FPP_KIND_REPORT_COINS FPP_KIND('r', 'c', 'o', 'n')
#define FPP_KIND_REPORT_MORE_COINS FPP_KIND('r', 'm', 'o', 'r')
#define FPP_KIND_REPORT_SEEDS FPP_KIND('r', 's', 'e', 'e')
#define FPP_KIND_SEED FPP_KIND('s', 'e', 'e', 'd')
#define FPP_KIND_SEED_LAZY FPP_KIND('s', 'l', 'a', 'z')

typedef struct {
    uint32_t word[16]; /* RFC 8439 section 2.3; word[12] is the block counter */
} fpp_chacha_state;

FPP_LOCAL void fpp_chacha_init(fpp_chacha_state *state, const uint8_t *key, uint32_t kind, uint64_t index);
/* n_blocks of keystream to out, advancing the counter; the caller has checked that the counter does not wrap. */
FPP_LOCAL void fpp_chacha_blocks(fpp_chacha_state *state, int64_t n_blocks, uint8_t *out);
/* The same as host 64-bit words (each 8 bytes of keystream, little-endian). */
FPP_LOCAL void fpp_chacha_words(fpp_chacha_state *state, int64_t n_blocks, uint64_t *out);
FPP_LOCAL void fpp_wipe(void *memory, int64_t n_bytes);

#endif
