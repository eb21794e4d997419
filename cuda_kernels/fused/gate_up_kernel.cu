// decode_gate_up: x [T, K] -> rms_norm -> out [T, F] = silu(h @ gate.T + gate_bias) * (h @ up.T + up_bias); gate, up [F, K], norm [K].
// Grid (group of 8 * TKV_UNITS outputs, tokens). Every block norms its tokens anew: cheaper than another kernel. A warp per (gate or up,
// 8 outputs, chunk of K). The gate is rounded to storage, as between two calls of linear: same bits.
// registers: spills 0
#include "common/decode_linear.cuh"

static_assert(TKV_CHUNK % kRound == 0, "a round of weights must not pass the end of its chunk");
constexpr int kChunks = (TKV_K + TKV_CHUNK - 1) / TKV_CHUNK, kRounds = TKV_CHUNK / kRound;
constexpr int kWarps = 2 * TKV_UNITS * kChunks;

extern "C" __global__ void __launch_bounds__(32 * kWarps) decode_gate_up(
    aliased_ptr<const Elem> x, global_ptr<const Elem> norm, global_ptr<const Elem> gate, global_ptr<const Elem> up, global_ptr<const Elem> gate_bias,
    global_ptr<const Elem> up_bias, aliased_ptr<Elem> out, float eps, offset_t T, offset_t F) {
    let_next_begin();
    SHARED_POOL(pool);
    const int warp = static_cast<int>(threadIdx.x) / 32, unit = warp / (2 * kChunks), begin = warp % kChunks * TKV_CHUNK;
    const offset_t first_token = static_cast<offset_t>(blockIdx.y) * TKV_TOKENS, first_output = static_cast<offset_t>(blockIdx.x) * 8 * TKV_UNITS;
    SharedPool later = pool;
    auto held = pool.take<Elem>(2 * TKV_UNITS * kStripRoom);
    auto sums = later.take<float>(kWarps * kStripSums);  // in place of the weights, when these have been used
    static_assert(kWarps * kStripSums * 4 <= 2 * TKV_UNITS * kStripRoom * 2, "the sums must fit where the weights were");
    auto scale = pool.take<Elem>(TKV_K);
    auto tile = pool.take<Elem>(static_cast<int>(min(static_cast<offset_t>(TKV_TOKENS), T)) * kPitch);
    const Strip strip(warp / kChunks % 2 == 0 ? gate : up, first_output + 8 * unit, F, begin, TKV_CHUNK, warp / kChunks * kStripRoom + begin * 8);
    request_scale(scale, norm);
    for (int round = 0; round < kRounds; ++round)
        if (begin + round * kRound < TKV_K) strip.request(held, round, round);
        else async_commit();  // an empty group keeps the count

    wait_for_previous();
    const int rows = rows_here(first_token, T);
    norm_rows<kRounds, kWarps>(tile, x, scale, first_token, rows, eps);
    float acc[kTokenTiles][4] = {};
    sum_strip<kRounds>(acc, held, strip, begin, NormedRows{tile, rows});
    // guard[sync-reuse]: the sums go where other warps' weights lie
    // mutant[sync-reuse/removed]: sync
    //   - __syncthreads();
    //   + ;
    __syncthreads();
    leave_sums(sums, warp, acc);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < TKV_UNITS * kStripSums; i += static_cast<int>(blockDim.x)) {
        const int u = i / kStripSums, inside = i % kStripSums;
        const offset_t token = first_token + inside / 8, n = first_output + 8 * u + inside % 8;
        if (token >= T || n >= F) continue;
        float g = add_chunks(sums, 2 * u * kChunks, kChunks, inside), y = add_chunks(sums, (2 * u + 1) * kChunks, kChunks, inside);
        if (gate_bias) g += to_float(static_cast<Elem>(gate_bias[n]));
        if (up_bias) y += to_float(static_cast<Elem>(up_bias[n]));
        // guard[gate-rounded]: prefill rounds the gate to storage between its two products; so does decode, or their bits differ
        // mutant[gate-rounded/kept-wide]:
        //   - y *= silu(rounded(g));
        //   + y *= silu(g);
        y *= silu(rounded(g));
        out[token * F + n] = to_elem(y);
    }
}
