// rms_norm: x [T, K], weight [K], residual [T, K] or absent -> out [T, K]; with a residual x += residual first, IN PLACE.
// TKV_ROWS: `out` in panels of so many rows (common/panels.cuh), for products of many tokens; 0: [T, K].
// One block per token. The block size depends on K alone, and so does the tree of the sum.
// registers: spills 0
#include "common/chain.cuh"
#include "common/norm.cuh"
#include "common/panels.cuh"

extern "C" __global__ void __launch_bounds__(TKV_THREADS) rms_norm(
    aliased_ptr<Elem> x, global_ptr<const Elem> weight, aliased_ptr<const Elem> residual, aliased_ptr<Elem> out, float eps, int K) {
    let_next_begin();
    SHARED_POOL(pool);
    auto partial = pool.take<float>(TKV_THREADS / 32);
    const offset_t start = static_cast<offset_t>(blockIdx.x) * K;
    const int first = static_cast<int>(threadIdx.x) * TKV_VEC;

    wait_for_previous();
    float squares = 0.0f;
    for (int k = first; k < K; k += TKV_THREADS * TKV_VEC) {
        Floats<TKV_VEC> values = load<TKV_VEC>(x, start + k);
        if (residual) {
            const Floats<TKV_VEC> more = load<TKV_VEC>(residual, start + k);
#pragma unroll
            for (int i = 0; i < TKV_VEC; ++i) values.v[i] = rounded(values.v[i] + more.v[i]);
            store<TKV_VEC>(x, start + k, values);
        }
#pragma unroll
        for (int i = 0; i < TKV_VEC; ++i) squares += values.v[i] * values.v[i];
    }
    const float factor = inverse_rms(block_sum(squares, partial), K, eps);
    for (int k = first; k < K; k += TKV_THREADS * TKV_VEC) {  // each thread reads back only what it wrote
        Floats<TKV_VEC> values = load<TKV_VEC>(x, start + k);
        const Floats<TKV_VEC> weights = load<TKV_VEC>(weight, k);
#pragma unroll
        for (int i = 0; i < TKV_VEC; ++i) values.v[i] = values.v[i] * factor * weights.v[i];
        if constexpr (TKV_ROWS != 0) store<TKV_VEC>(out, panel_place<TKV_ROWS>(blockIdx.x, k, K), values);
        else store<TKV_VEC>(out, start + k, values);
    }
}
