// The few words that differ between a GPU and the host build. A kernel written in these words runs on both.
#ifdef TKV_HOST
#include "host/cuda_words.h"
#else

using offset_t = long long;  // every element offset is 64-bit: a KV cache passes 2^31 elements

// An array in device memory, as a kernel parameter. The host build puts a bounds check behind the same name.
template <class T>
using global_ptr = T* __restrict__;

// The same where another parameter may be the same memory. Without it the compiler may move a load past a barrier and past the
// store that overwrites its place.
template <class T>
using aliased_ptr = T*;

template <class T>
using shared_array = T*;

// Hands out pieces of the block's dynamic shared memory. The launcher computes the same total on the host and checks it.
struct SharedPool {
    unsigned char* next;
    template <class T>
    __device__ __forceinline__ T* take(int count) {
        T* piece = reinterpret_cast<T*>(next);
        next += (count * sizeof(T) + 15) / 16 * 16;
        return piece;
    }
};
#define SHARED_POOL(name)                                              \
    extern __shared__ __align__(16) unsigned char dynamic_shared[];    \
    SharedPool name { dynamic_shared }

// One access of 4, 8 or 16 bytes at an element offset; the address must be a multiple of its size.
template <class V, class T>
__device__ __forceinline__ V vec_at(const T* p, offset_t at) {
    return *reinterpret_cast<const V*>(p + at);
}
template <class V, class T>
__device__ __forceinline__ void vec_put(T* p, offset_t at, V value) {
    *reinterpret_cast<V*>(p + at) = value;
}

// Global to shared without registers in between; what is not `valid` becomes zero, and its address is not looked at.
// The data is there only after async_wait and a barrier.
template <class T>
__device__ __forceinline__ void async_copy16(T* to, offset_t to_at, const T* from, offset_t from_at, bool valid) {
#if __CUDA_ARCH__ >= 800
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(to + to_at));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(from + from_at), "r"(valid ? 16 : 0) : "memory");
#endif
}
__device__ __forceinline__ void async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kGroupsLeft>
__device__ __forceinline__ void async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
#endif
}
#endif
