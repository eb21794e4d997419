// decode_head: x [T, K] -> rms_norm -> logits [T, V] = h @ w.T in float32; w [V, K] in one chunk, as for every vocabulary of some size.
// Grid (strips of 8 outputs in turn, tokens): a block norms its tokens once, then its warps go from strip to strip. Bits of rms_norm and lm_head.
// registers: spills 0
#include "common/decode_linear.cuh"

constexpr int kWarps = TKV_THREADS / 32, kRounds = (TKV_K + kRound - 1) / kRound;
constexpr int kRoom = TKV_SLOTS * kRound * 8;  // of one warp
static_assert(TKV_SLOTS <= kRounds, "at most one strip ahead");

extern "C" __global__ void __launch_bounds__(TKV_THREADS) decode_head(
    aliased_ptr<const Elem> x, global_ptr<const Elem> norm, global_ptr<const Elem> w, aliased_ptr<float> out, float eps, offset_t T, offset_t V) {
    let_next_begin();
    SHARED_POOL(pool);
    auto held = pool.take<Elem>(kWarps * kRoom);
    auto scale = pool.take<Elem>(TKV_K);
    auto tile = pool.take<Elem>(static_cast<int>(min(static_cast<offset_t>(TKV_TOKENS), T)) * kPitch);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const offset_t first_token = static_cast<offset_t>(blockIdx.y) * TKV_TOKENS, apart = static_cast<offset_t>(gridDim.x) * kWarps * 8;
    offset_t first = (static_cast<offset_t>(blockIdx.x) * kWarps + warp) * 8;
    request_scale(scale, norm);
    Strip strip(w, first, V, 0, TKV_K, warp * kRoom);
    for (int slot = 0; slot < TKV_SLOTS; ++slot) strip.request(held, slot, slot);

    wait_for_previous();
    const int rows = rows_here(first_token, T);
    norm_rows<TKV_SLOTS, kWarps>(tile, x, scale, first_token, rows, eps);
    for (int slot = 0; first < V; first += apart) {
        const Strip next(w, first + apart, V, 0, TKV_K, warp * kRoom);
        float acc[kTokenTiles][4] = {};
#pragma unroll 1
        for (int number = 0; number < kRounds; ++number) {
            async_wait<TKV_SLOTS - 1>();  // each lane reads only what it asked for: no barrier
            multiply(acc, held, strip.place + slot * TKV_STEPS * 256, number * kRound, NormedRows{tile, rows});
            const int ahead = number + TKV_SLOTS;
            if (ahead < kRounds) strip.request(held, ahead, slot);
            else next.request(held, ahead - kRounds, slot);
            slot = slot + 1 == TKV_SLOTS ? 0 : slot + 1;
        }
#pragma unroll
        for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const offset_t token = first_token + 16 * i + g + 8 * (e / 2), n = first + 2 * t + e % 2;
                if (token < T && n < V) out[token * V + n] = 0.0f + acc[i][e];
            }
        strip = next;
    }
}
