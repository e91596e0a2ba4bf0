#include "fpp.h"
#define FPP_EXPORT __attribute__((visibility("default")))
FPP_EXPORT int32_t fpp_chacha20_keystream(const uint8_t *key, const uint8_t *nonce, uint32_t counter, int64_t n_bytes, uint8_t *out) { (void)key; (void)nonce; (void)counter; (void)n_bytes; (void)out; return 1; }
FPP_EXPORT int32_t fpp_words_u64(const uint8_t *key, int64_t begin, int64_t end, uint64_t *out) { (void)key; (void)begin; (void)end; (void)out; return 1; }
