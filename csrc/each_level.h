/* Compiles the header that KERNELS names once for each instruction set, with W doubles in a vector; the header undefines W, NAME and
 * TARGET at its end. Files whose loops have further sizes for each set write these lines out. */
#define W 2
#define NAME(x) x##_baseline
#define TARGET
#include KERNELS

#if FPP_X86
#define W 4
#define NAME(x) x##_avx2
#define TARGET FPP_TARGET_AVX2
#include KERNELS

#define W 8
#define NAME(x) x##_avx512
#define TARGET FPP_TARGET_AVX512
#include KERNELS
#endif

#undef KERNELS
