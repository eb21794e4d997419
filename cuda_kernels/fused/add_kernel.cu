// decode_add: out [T, N] = x [T, K] @ w.T [K, N] + bias [N] + residual [T, N]; the o and down projections of a decode step.
// Grid (group of 8 * TKV_UNITS outputs, tokens); a warp per (8 outputs, chunk of K). Bits of linear with the same terms.
// registers: spills 0
#include "common/decode_linear.cuh"

static_assert(TKV_CHUNK % kRound == 0, "a round of weights must not pass the end of its chunk");
constexpr int kChunks = (TKV_K + TKV_CHUNK - 1) / TKV_CHUNK, kRounds = TKV_CHUNK / kRound;

extern "C" __global__ void __launch_bounds__(32 * TKV_UNITS * kChunks) decode_add(
    aliased_ptr<const Elem> x, global_ptr<const Elem> w, global_ptr<const Elem> bias, aliased_ptr<const Elem> residual, aliased_ptr<Elem> out,
    offset_t T, offset_t N) {
    let_next_begin();
    SHARED_POOL(pool);
    auto held = pool.take<Elem>(TKV_UNITS * kStripRoom);
    auto sums = pool.take<float>(TKV_UNITS * kChunks * kStripSums);
    const int warp = static_cast<int>(threadIdx.x) / 32, begin = warp % kChunks * TKV_CHUNK;
    const offset_t first_token = static_cast<offset_t>(blockIdx.y) * TKV_TOKENS, first_output = static_cast<offset_t>(blockIdx.x) * 8 * TKV_UNITS;
    const Strip strip(w, first_output + warp / kChunks * 8, N, begin, TKV_CHUNK, warp / kChunks * kStripRoom + begin * 8);
    for (int round = 0; round < kRounds; ++round)
        if (begin + round * kRound < TKV_K) strip.request(held, round, round);

    // x and the residual are written by the kernels before this one, which may still run.
    wait_for_previous();
    float acc[kTokenTiles][4] = {};
    sum_strip<kRounds>(acc, held, strip, begin, FreshRows{x, first_token, T});
    leave_sums(sums, warp, acc);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < TKV_UNITS * kStripSums; i += static_cast<int>(blockDim.x)) {
        const int unit = i / kStripSums, inside = i % kStripSums;
        const offset_t token = first_token + inside / 8, n = first_output + 8 * unit + inside % 8, at = token * N + n;
        if (token >= T || n >= N) continue;
        float y = add_chunks(sums, unit * kChunks, kChunks, inside);
        if (bias) y += to_float(static_cast<Elem>(bias[n]));
        y += to_float(static_cast<Elem>(residual[at]));
        out[at] = to_elem(y);
    }
}
