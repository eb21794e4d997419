// What follows the product of a linear layer, in float32 and in this order: bias, silu(gate) * y, residual. One rounding at the end.
#include "common/element.cuh"

#if TKV_OUT_F32
using Out = float;
#else
using Out = Elem;
#endif

// x / (1 + exp(-x)). The quick division is right to 2 units in the last place, and 0 for a divisor of infinity, as it should.
__device__ __forceinline__ float silu(float x) {
#ifdef TKV_HOST
    return x / (1.0f + expf(-x));
#else
    return __fdividef(x, 1.0f + expf(-x));
#endif
}

// One result, or two neighbours in one access.
template <int kWide>
__device__ __forceinline__ void put_out(aliased_ptr<Out> out, offset_t at, const float* y) {
    if constexpr (kWide == 1) {
        out[at] = from_float<Out>(y[0]);
    } else {
#if TKV_OUT_F32
        vec_put(out, at, make_float2(y[0], y[1]));
#else
        vec_put(out, at, pack2(y[0], y[1]));
#endif
    }
}

struct Epilogue {
    global_ptr<const Elem> bias;             // [N]; each of the terms may be absent
    aliased_ptr<const Elem> gate, residual;  // [T, N]; what earlier kernels of a chain wrote
    aliased_ptr<Out> out;                    // [T, N]
    offset_t N;

    // All sums of one thread. `each(visit)` calls visit(offset in [T, N], n, y) for every kWide neighbouring sums y. A term is asked for
    // once, not per element, and its loads do not wait for one another.
    template <int kWide, class Each>
    __device__ __forceinline__ void finish(Each each) const {
        // guard[absent-term]: an absent term is skipped; there is no memory behind it, and 0 * NaN is NaN
        // origin: ggml-org/llama.cpp#5574
        // mutant[absent-term/always-added]:
        //   - if (bias)
        //   + if (true)
        if (bias)
            each([&](offset_t, offset_t n, float* y) {
                const auto term = load<kWide>(bias, n);
                for (int i = 0; i < kWide; ++i) y[i] += term.v[i];
            });
        if (gate)
            each([&](offset_t at, offset_t, float* y) {
                const auto term = load<kWide>(gate, at);
                for (int i = 0; i < kWide; ++i) y[i] *= silu(term.v[i]);
            });
        if (residual)
            each([&](offset_t at, offset_t, float* y) {
                const auto term = load<kWide>(residual, at);
                for (int i = 0; i < kWide; ++i) y[i] += term.v[i];
            });
        each([&](offset_t at, offset_t, float* y) { put_out<kWide>(out, at, y); });
    }
    __device__ __forceinline__ void put(offset_t t, offset_t n, float y) const {
        finish<1>([&](auto visit) { visit(t * N + n, n, &y); });
    }
};
