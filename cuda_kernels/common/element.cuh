// Elem: what activations, weights and caches are stored in. All arithmetic is float32; this file holds the two rounding points.
// TKV_DTYPE: 0 = float32, 1 = float16, 2 = bfloat16 (set by the launcher).
#include "common/words.cuh"

struct Half {
    unsigned short bits;
};
struct BFloat16 {
    unsigned short bits;
};

__device__ __forceinline__ float to_float(float x) { return x; }

__device__ __forceinline__ float to_float(BFloat16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }

__device__ __forceinline__ float to_float(Half x) {
#ifdef TKV_HOST
    return host::half_to_float(x.bits);
#else
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#endif
}

template <class T>
__device__ __forceinline__ T from_float(float x);

template <>
__device__ __forceinline__ float from_float<float>(float x) {
    return x;
}

template <>
__device__ __forceinline__ Half from_float<Half>(float x) {
#ifdef TKV_HOST
    return Half{host::float_to_half(x)};
#else
    Half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
#endif
}

// Round to nearest even on the upper half of the bits; sm_75 has no instruction for it. NaN stays NaN.
template <>
__device__ __forceinline__ BFloat16 from_float<BFloat16>(float x) {
    const unsigned u = __float_as_uint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return BFloat16{static_cast<unsigned short>((u >> 16) | 0x40u)};
    return BFloat16{static_cast<unsigned short>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

#if TKV_DTYPE == 0
using Elem = float;
#elif TKV_DTYPE == 1
using Elem = Half;
#else
using Elem = BFloat16;
#endif

__device__ __forceinline__ Elem to_elem(float x) { return from_float<Elem>(x); }

// The value after one trip through storage.
__device__ __forceinline__ float rounded(float x) { return to_float(to_elem(x)); }

// Two storage values in one register, the lower one first.
__device__ __forceinline__ unsigned pack2(float low, float high) {
#if TKV_DTYPE == 1 || TKV_DTYPE == 2
#if !defined(TKV_HOST) && TKV_DTYPE == 2 && __CUDA_ARCH__ >= 800
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#else
    return static_cast<unsigned>(to_elem(low).bits) | (static_cast<unsigned>(to_elem(high).bits) << 16);
#endif
#else
    return 0u;
#endif
}

// One of the two storage values in a register.
#if TKV_DTYPE != 0
__device__ __forceinline__ Elem half_of(unsigned both, int which) {
    return Elem{static_cast<unsigned short>(both >> (16 * which))};
}
#else
__device__ __forceinline__ Elem half_of(unsigned, int) { return 0.0f; }  // float32 has no halves; nobody calls it
#endif

// N neighbouring elements as floats. N = 4: one access of 8 or 16 bytes; head dims are multiples of 4, so rows stay aligned.
// N = 2, for 16-bit types: rows of even length. N = 1: any length.
template <int N>
struct Floats {
    float v[N];
};

template <int N, class P>
__device__ __forceinline__ Floats<N> load(P p, offset_t at) {
    Floats<N> out;
    if constexpr (N == 1) {
        out.v[0] = to_float(static_cast<Elem>(p[at]));
    } else if constexpr (N == 2) {
        const unsigned raw = vec_at<unsigned>(p, at);
#pragma unroll
        for (int i = 0; i < 2; ++i) out.v[i] = to_float(half_of(raw, i));
    } else {
        static_assert(N == 4, "1, 2 or 4 elements");
#if TKV_DTYPE == 0
        const float4 raw = vec_at<float4>(p, at);
        out.v[0] = raw.x, out.v[1] = raw.y, out.v[2] = raw.z, out.v[3] = raw.w;
#else
        const uint2 raw = vec_at<uint2>(p, at);
        const unsigned word[2] = {raw.x, raw.y};
#pragma unroll
        for (int i = 0; i < 4; ++i) out.v[i] = to_float(half_of(word[i / 2], i % 2));
#endif
    }
    return out;
}

template <int N, class P>
__device__ __forceinline__ void store(P p, offset_t at, const Floats<N>& value) {
    if constexpr (N == 1) {
        p[at] = to_elem(value.v[0]);
    } else {
#if TKV_DTYPE == 0
        vec_put(p, at, make_float4(value.v[0], value.v[1], value.v[2], value.v[3]));
#else
        vec_put(p, at, make_uint2(pack2(value.v[0], value.v[1]), pack2(value.v[2], value.v[3])));
#endif
    }
}
