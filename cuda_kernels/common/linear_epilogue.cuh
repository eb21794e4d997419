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

struct Epilogue {
    global_ptr<const Elem> bias, gate, residual;  // [N], [T, N], [T, N]; each may be absent
    global_ptr<Out> out;                          // [T, N]
    offset_t N;

    __device__ __forceinline__ void put(offset_t t, offset_t n, float y) const {
        const offset_t at = t * N + n;
        // guard[absent-term]: an absent term is skipped; there is no memory behind it, and 0 * NaN is NaN
        // origin: ggml-org/llama.cpp#5574
        // mutant[absent-term/always-added]:
        //   - if (bias) y += to_float(bias[n]);
        //   + y += to_float(bias[n]);
        if (bias) y += to_float(bias[n]);
        if (gate) {
            const float x = to_float(gate[at]);
            y *= silu(x);
        }
        if (residual) y += to_float(residual[at]);
        out[at] = from_float<Out>(y);
    }
};
