#include "fpp.h"
#define FPP_EXPORT __attribute__((visibility("default")))
FPP_EXPORT int32_t fpp_isa_detect(void) { return 1; }
FPP_EXPORT int32_t fpp_isa_limit(int32_t level) { (void)level; return 1; }
