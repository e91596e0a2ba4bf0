/* Which interface, with the sizes of its structures, and which instruction set: what the library was built as, what the machine has,
 * and what tests allow. */
#include "internal.h"

#include <stdatomic.h>

/* The only mutable state of the library. It decides the speed and never a result, so relaxed memory order is enough. */
static _Atomic int32_t allowed_level = FPP_ISA_AVX512;
static _Atomic int32_t found_level = -1; /* asking the processor's table takes longer than a short loop */

FPP_API int32_t fpp_abi_version(void)
{
    return FPP_ABI_VERSION;
}

#define SIZE_OF(type)                \
    FPP_API int64_t type##_size(void) \
    {                                \
        return (int64_t)sizeof(type); \
    }
SIZE_OF(fpp_row_score)
SIZE_OF(fpp_row_map)
SIZE_OF(fpp_tree_node)
SIZE_OF(fpp_bin_rule)
SIZE_OF(fpp_bin_table)
SIZE_OF(fpp_column_box)
SIZE_OF(fpp_gradient_map)
SIZE_OF(fpp_mixtures)
SIZE_OF(fpp_report_law)
SIZE_OF(fpp_report_header)
SIZE_OF(fpp_report_book)
SIZE_OF(fpp_normals)

static int32_t detect(void)
{
#if FPP_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return FPP_ISA_BASELINE;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl")) {
        return FPP_ISA_AVX512;
    }
    return FPP_ISA_AVX2;
#else
    return FPP_ISA_BASELINE;
#endif
}

FPP_API int32_t fpp_isa_detect(void)
{
    int32_t level = atomic_load_explicit(&found_level, memory_order_relaxed);
    if (level < 0) {
        level = detect();
        atomic_store_explicit(&found_level, level, memory_order_relaxed);
    }
    return level;
}

FPP_LOCAL int32_t fpp_isa_level(void)
{
    const int32_t allowed = atomic_load_explicit(&allowed_level, memory_order_relaxed);
    const int32_t detected = fpp_isa_detect();
    return detected < allowed ? detected : allowed;
}

FPP_API int32_t fpp_isa_limit(int32_t level)
{
    const int32_t low = level < FPP_ISA_BASELINE ? FPP_ISA_BASELINE : level;
    atomic_store_explicit(&allowed_level, low > FPP_ISA_AVX512 ? FPP_ISA_AVX512 : low, memory_order_relaxed);
    return fpp_isa_level();
}
