// Kernels of a chain that is launched early (cuda_kernels/raw/driver.py): a kernel may begin while the one before it still runs.
// What no earlier kernel of the chain writes (weights) may be read at once; everything else only after wait_for_previous().
// Before sm_90, on the host and after an ordinary launch both words do nothing.
//
//     kernel n     [let_next_begin | .... works .... ]
//     kernel n+1              [ asks for its weights |wait_for_previous ... works ... ]
//
// Arrays that change between kernels are aliased_ptr: for a __restrict__ pointer to const the compiler may read before the wait.
#include "common/words.cuh"

__device__ __forceinline__ void let_next_begin() {
#if !defined(TKV_HOST) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_previous() {
#if !defined(TKV_HOST) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Brings 128 bytes into L2. All writes meet there, so it may run ahead of them.
template <class T>
__device__ __forceinline__ void prefetch_line([[maybe_unused]] T from, [[maybe_unused]] offset_t at) {
#if !defined(TKV_HOST) && __CUDA_ARCH__ >= 800
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
#endif
}

// 16 bytes of what a kernel before this one wrote, or zeros. One piece for the compiler: it lets many of them be on their way at once,
// which a load behind a branch does not.
template <class T>
__device__ __forceinline__ uint4 fresh_words(aliased_ptr<const T> p, offset_t at, bool valid) {
#ifdef TKV_HOST
    return valid ? vec_at<uint4>(p, at) : make_uint4(0u, 0u, 0u, 0u);
#else
    uint4 v;
    asm volatile(
        "{\n.reg .pred there;\nsetp.ne.s32 there, %5, 0;\nmov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
        "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(p + at), "r"(static_cast<int>(valid)));
    return v;
#endif
}
