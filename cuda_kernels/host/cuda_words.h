// Gives C++ the CUDA words the kernels use. Included by common/words.cuh in the host build, never on a device.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "host/runtime.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

#define threadIdx (host::thread_index)
#define blockIdx (host::block_index)
#define blockDim (host::block_size)
#define gridDim (host::grid_size)

#define __syncthreads() host::block_barrier(__FILE__, __LINE__)
#define __syncwarp(...) host::warp_barrier(0xffffffffu, __FILE__, __LINE__)
#define __shfl_sync(mask, value, lane) host::shuffle(mask, value, (lane) & 31, __FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, bits) host::shuffle(mask, value, host::lane_id() ^ (bits), __FILE__, __LINE__)
#define __shfl_up_sync(mask, value, by) \
    host::shuffle(mask, value, host::lane_id() >= (by) ? host::lane_id() - (by) : host::lane_id(), __FILE__, __LINE__)
#define __shfl_down_sync(mask, value, by) \
    host::shuffle(mask, value, host::lane_id() + (by) < 32 ? host::lane_id() + (by) : host::lane_id(), __FILE__, __LINE__)
#define __ballot_sync(mask, predicate) host::ballot(mask, predicate, __FILE__, __LINE__)
#define __any_sync(mask, predicate) (host::ballot(mask, predicate, __FILE__, __LINE__) != 0u)

using offset_t = long long;

struct uint2 {
    unsigned x, y;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

template <class To, class From>
inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return bits_as<float>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline offset_t min(offset_t a, offset_t b) { return a < b ? a : b; }
inline offset_t max(offset_t a, offset_t b) { return a > b ? a : b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
using std::fabs;
using std::fmaxf;
using std::fminf;
using std::isnan;

namespace host {

inline int lane_id() { return static_cast<int>(thread_index.x % 32u); }

template <class T>
T shuffle(unsigned mask, T value, int lane, const char* file, int line) {
    const unsigned char* all = warp_exchange(mask, &value, sizeof value, file, line);
    std::memcpy(&value, all + 96 * lane, sizeof value);
    return value;
}

inline unsigned ballot(unsigned mask, bool predicate, const char* file, int line) {
    const unsigned char* all = warp_exchange(mask, &predicate, sizeof predicate, file, line);
    unsigned votes = 0;
    for (int lane = 0; lane < 32; ++lane) votes |= (mask >> lane & 1u) != 0u && all[96 * lane] != 0 ? 1u << lane : 0u;
    return votes;
}

float half_to_float(unsigned short bits);
unsigned short float_to_half(float x);

// A place in global memory that can be read or written; every use is checked and, when tracing, recorded.
template <class T>
struct Cell {
    T* at;
    int array;
    long long offset;
    operator T() const {
        if (tracing) record(array, offset, sizeof(T), false);
        return *at;
    }
    Cell operator&() const { return *this; }  // for atomics
    T operator=(T value) {
        if (tracing) record(array, offset, sizeof(T), true);
        return *at = value;
    }
    T operator=(const Cell& other) { return *this = static_cast<T>(other); }
    T operator+=(T value) { return *this = static_cast<T>(*this) + value; }
};

template <class T>
struct Reading;  // what p[i] is: a value for const arrays, a Cell otherwise
template <class T>
struct Reading<const T> {
    static T make(const T* p, int array, long long offset) {
        if (tracing) record(array, offset, sizeof(T), false);
        return *p;
    }
    using type = T;
};
template <class T>
struct Reading {
    static Cell<T> make(T* p, int array, long long offset) { return {p, array, offset}; }
    using type = Cell<T>;
};

}  // namespace host

// An array in global memory. Offsets must be 64-bit: an int here would be an int product that wraps past 2^31 elements.
template <class T>
class global_ptr {
  public:
    global_ptr() = default;
    global_ptr(const host::Argument& argument, const char* name)
        : begin_(static_cast<T*>(argument.data)), bytes_(argument.bytes), array_(host::name_array(name)) {}
    global_ptr(decltype(nullptr)) {}

    explicit operator bool() const { return begin_ != nullptr; }
    typename host::Reading<T>::type operator[](offset_t i) const {
        return host::Reading<T>::make(place(i, sizeof(T)), array_, i * static_cast<long long>(sizeof(T)));
    }
    typename host::Reading<T>::type operator[](int) const = delete;
    typename host::Reading<T>::type operator[](unsigned) const = delete;

    T* place(offset_t i, size_t bytes) const {
        const long long at = i * static_cast<long long>(sizeof(T));
        if (begin_ == nullptr) host::fail("array '%s' is absent, but element %lld of it is used", host::array_name(array_), i);
        if (at < 0 || at + static_cast<long long>(bytes) > bytes_)
            host::fail("array '%s': element %lld (%zu bytes) lies outside its %lld bytes", host::array_name(array_), i, bytes, bytes_);
        if (reinterpret_cast<uintptr_t>(begin_ + i) % bytes != 0)
            host::fail("array '%s': element %lld is not aligned to %zu bytes", host::array_name(array_), i, bytes);
        return begin_ + i;
    }
    int array() const { return array_; }

  private:
    T* begin_ = nullptr;
    long long bytes_ = 0;
    int array_ = 0;
};

template <class T>
using aliased_ptr = global_ptr<T>;  // the host compiler is promised nothing either way

// A piece of the block's shared memory; filled with NaN before the block starts.
template <class T>
class shared_array {
  public:
    shared_array(T* begin, offset_t count) : begin_(begin), count_(count) {}
    T& operator[](offset_t i) const { return *place(i, sizeof(T)); }
    T* place(offset_t i, size_t bytes) const {
        if (i < 0 || i * static_cast<offset_t>(sizeof(T)) + static_cast<offset_t>(bytes) > count_ * static_cast<offset_t>(sizeof(T)))
            host::fail("shared memory: element %lld (%zu bytes) lies outside a piece of %lld elements", i, bytes, count_);
        if (reinterpret_cast<uintptr_t>(begin_ + i) % bytes != 0)
            host::fail("shared memory: element %lld is not aligned to %zu bytes", i, bytes);
        return begin_ + i;
    }

  private:
    T* begin_;
    offset_t count_;
};

struct SharedPool {
    long long used = 0;
    template <class T>
    shared_array<T> take(int count) {
        const long long start = used;
        used += (count * static_cast<long long>(sizeof(T)) + 15) / 16 * 16;
        if (used > host::shared_size())
            host::fail("shared memory: the kernel takes %lld bytes, the launch gave %lld", used, host::shared_size());
        return {reinterpret_cast<T*>(host::shared_begin() + start), count};
    }
};
#define SHARED_POOL(name) SharedPool name

template <class V, class T>
V vec_at(const global_ptr<T>& p, offset_t at) {
    T* from = p.place(at, sizeof(V));
    if (host::tracing) host::record(p.array(), at * static_cast<long long>(sizeof(T)), sizeof(V), false);
    V value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
template <class V, class T>
void vec_put(const global_ptr<T>& p, offset_t at, V value) {
    T* to = p.place(at, sizeof(V));
    if (host::tracing) host::record(p.array(), at * static_cast<long long>(sizeof(T)), sizeof(V), true);
    std::memcpy(to, &value, sizeof value);
}
template <class V, class T>
V vec_at(const shared_array<T>& p, offset_t at) {
    V value;
    std::memcpy(&value, p.place(at, sizeof(V)), sizeof value);
    return value;
}
template <class V, class T>
void vec_put(const shared_array<T>& p, offset_t at, V value) {
    std::memcpy(p.place(at, sizeof(V)), &value, sizeof value);
}

template <int kBytes, class T, class S>
void async_copy(const shared_array<T>& to, offset_t to_at, const global_ptr<S>& from, offset_t from_at, bool valid) {
    auto* target = reinterpret_cast<unsigned char*>(to.place(to_at, kBytes));
    const unsigned char* source = nullptr;
    if (valid) {
        source = reinterpret_cast<const unsigned char*>(from.place(from_at, kBytes));
        if (host::tracing) host::record(from.array(), from_at * static_cast<long long>(sizeof(S)), kBytes, false);
    }
    host::async_push(target, source, kBytes);
}
template <class T, class S>
void async_copy16(const shared_array<T>& to, offset_t to_at, const global_ptr<S>& from, offset_t from_at, bool valid) {
    async_copy<16>(to, to_at, from, from_at, valid);
}
inline void async_commit() { host::async_commit(); }
template <int kGroupsLeft>
void async_wait() {
    host::AsyncCopy copy;
    while (host::async_pop(kGroupsLeft, &copy)) {
        if (copy.from == nullptr) std::memset(copy.to, 0, copy.bytes);
        else std::memcpy(copy.to, copy.from, copy.bytes);
    }
}

// Real atomics, so that ThreadSanitizer tells them from plain writes.
template <class T>
T atomicAdd(T* at, T value) {
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicAdd(const host::Cell<T>& cell, T value) {
    if (host::tracing) host::record(cell.array, cell.offset, sizeof(T), true);
    return __atomic_fetch_add(cell.at, value, __ATOMIC_RELAXED);
}
// Counts up to `limit`, then starts again at 0.
inline unsigned atomicInc(const host::Cell<unsigned>& cell, unsigned limit) {
    if (host::tracing) host::record(cell.array, cell.offset, sizeof(unsigned), true);
    const unsigned old = __atomic_load_n(cell.at, __ATOMIC_RELAXED);
    __atomic_store_n(cell.at, old >= limit ? 0u : old + 1u, __ATOMIC_RELAXED);
    return old;
}
#define __threadfence() ((void)0)
