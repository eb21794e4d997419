// qk_norm: x [T, H, D], weight [D] -> out [T, H, D]. One warp per head; lane i holds elements 4 i .. 4 i + 3 and, past D = 128,
// 128 + 4 i .. 128 + 4 i + 3.
// registers: spills 0
#include "common/norm.cuh"

extern "C" __global__ void qk_norm(global_ptr<const Elem> x, global_ptr<const Elem> weight, global_ptr<Elem> out, float eps, offset_t heads) {
    constexpr int kRounds = (TKV_D + 127) / 128;
    const offset_t head = static_cast<offset_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (head >= heads) return;  // whole warps leave together
    const int lane = static_cast<int>(threadIdx.x % 32);

    Floats<4> values[kRounds];
    float squares = 0.0f;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
        const int d = 128 * r + 4 * lane;
        if (d < TKV_D) {
            values[r] = load<4>(x, head * TKV_D + d);
#pragma unroll
            for (int i = 0; i < 4; ++i) squares += values[r].v[i] * values[r].v[i];
        }
    }
    const float factor = inverse_rms(warp_sum(squares), TKV_D, eps);
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
        const int d = 128 * r + 4 * lane;
        if (d < TKV_D) {
            const Floats<4> weights = load<4>(weight, d);
#pragma unroll
            for (int i = 0; i < 4; ++i) values[r].v[i] = values[r].v[i] * factor * weights.v[i];
            store<4>(out, head * TKV_D + d, values[r]);
        }
    }
}
