// Long copies from global to shared memory by the copy engine of sm_90: one thread asks, all wait for the bytes.
#include "common/words.cuh"

// Counts the bytes of the copies into one stage. Lives in shared memory, 8 bytes each.
#ifdef TKV_HOST
using Arrival = long long;
#else
using Arrival = unsigned long long;
#endif

// One thread, before a barrier and before any use.
__device__ __forceinline__ void prepare(shared_array<Arrival> arrivals, int count) {
#ifndef TKV_HOST
    for (int i = 0; i < count; ++i) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(arrivals + i));
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// One thread: so many bytes will come.
__device__ __forceinline__ void expect([[maybe_unused]] shared_array<Arrival> arrivals, [[maybe_unused]] int which, [[maybe_unused]] int bytes) {
#ifndef TKV_HOST
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(arrivals + which));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
#endif
}

// One thread: `count` elements, of a multiple of 16 bytes. On the host they are there at once: a stage that is still read shows it.
template <class T>
__device__ __forceinline__ void bulk_copy(
    shared_array<T> to, int to_at, aliased_ptr<const T> from, offset_t from_at, int count, [[maybe_unused]] shared_array<Arrival> arrivals, [[maybe_unused]] int which) {
#ifdef TKV_HOST
    for (int i = 0; i < count; ++i) to[to_at + i] = from[from_at + i];
#else
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(arrivals + which));
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(to + to_at));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target), "l"(from + from_at),
                 "r"(count * static_cast<int>(sizeof(T))), "r"(at)
                 : "memory");
#endif
}

// All threads: until the bytes of the use before `turn` + 1 are there. turn: 0 for the first use of an arrival, 1 for the second, 0, 1, ...
__device__ __forceinline__ void await([[maybe_unused]] shared_array<Arrival> arrivals, [[maybe_unused]] int which, [[maybe_unused]] int turn) {
#ifndef TKV_HOST
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(arrivals + which));
    asm volatile(
        "{\n.reg .pred there;\nagain_%=:\nmbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n@!there bra again_%=;\n}" ::"r"(at), "r"(turn)
        : "memory");
#endif
}
