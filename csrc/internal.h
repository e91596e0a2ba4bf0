/* Shared by the C files, not installed: instruction-set levels and the attributes that go with them. */
#ifndef FPP_INTERNAL_H
#define FPP_INTERNAL_H
#include "fpp.h"

#include <stddef.h>

#define FPP_API __attribute__((visibility("default")))
#define FPP_LOCAL __attribute__((visibility("hidden")))
#define FPP_INLINE static inline __attribute__((always_inline))
#define FPP_LIKELY(x) __builtin_expect(!!(x), 1)
#define FPP_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Lanes of two vectors, those of `b` counted on from those of `a`, in the order of the indices; MASK is an integer vector of the
 * same shape. clang and gcc 12 share a builtin, older gcc has its own. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define FPP_SHUFFLE(MASK, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif
#ifndef FPP_SHUFFLE
#define FPP_SHUFFLE(MASK, a, b, ...) __builtin_shuffle(a, b, (MASK){__VA_ARGS__})
#endif

/* What "Pointers" in fpp.h asks: an array with entries is there, and its `entries` of `size` bytes fit into an address space. */
FPP_INLINE int32_t fpp_is_given(const void *array, int64_t entries, int64_t size)
{
    return entries >= 0 && entries <= INT64_MAX / size && (array != NULL || entries == 0);
}

/* The same for n rows of which the next is row_stride elements on; in bytes, and nothing for a row without a next. */
FPP_INLINE int32_t fpp_rows_are_given(const void *x, int64_t n, int64_t row_stride, int32_t is_f32, int64_t *stride_bytes)
{
    const int64_t farthest = n > 1 ? INT64_MAX / 8 / n : INT64_MAX;
    if (!fpp_is_given(x, n, 8) || (n > 1 && (row_stride > farthest || row_stride < -farthest))) {
        return 0;
    }
    *stride_bytes = n > 1 ? row_stride * (is_f32 ? 4 : 8) : 0;
    return 1;
}

FPP_INLINE int64_t fpp_round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Memory from the next multiple of 64 on, where vectors lie on one line each: a workspace has 64 bytes more than what is taken of it. */
FPP_INLINE void *fpp_aligned(void *memory)
{
    return (char *)memory + (64 - (uintptr_t)memory % 64) % 64;
}

/* `bytes` from *used on, which goes to the next multiple of 64; NULL if base is, which only counts. */
FPP_INLINE void *fpp_take(char *base, int64_t *used, int64_t bytes)
{
    char *begin = base == NULL ? NULL : base + *used;
    *used += fpp_round_up(bytes, 64);
    return begin;
}

/* A hot loop is one FPP_INLINE body, called from one wrapper per level; the wrappers carry these attributes. */
#if defined(__x86_64__) || defined(__i386__)
#define FPP_X86 1
#define FPP_TARGET_AVX2 __attribute__((target("avx2,fma")))
#define FPP_TARGET_AVX512 __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define FPP_X86 0
#define FPP_TARGET_AVX2
#define FPP_TARGET_AVX512
#endif

/* min(detected, limit): the level to dispatch on. */
FPP_LOCAL int32_t fpp_isa_level(void);

/* The wrapper, or with & the table, of a name for that level. */
#if FPP_X86
#define FPP_AT_LEVEL(NAME) \
    (fpp_isa_level() >= FPP_ISA_AVX512 ? NAME##_avx512 : fpp_isa_level() >= FPP_ISA_AVX2 ? NAME##_avx2 : NAME##_baseline)
#else
#define FPP_AT_LEVEL(NAME) NAME##_baseline
#endif

#endif
