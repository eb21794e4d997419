// decode_qkv: x [T, K] -> rms_norm -> q, k, v with bias -> rope on q and k -> q_out [T, H, D], k and v to the caches [R, G, C, D].
// Grid (8 dims and their partners D/2 further on of one head, tokens); heads are q's, then k's, then v's. A warp per (lower or upper dims,
// chunk of K). Row -1 is padding: its q is made, nothing is appended. Bits of rms_norm, linear and rope_and_append, with their roundings.
// registers: spills 0
#include "common/decode_linear.cuh"
#include "common/rope.cuh"

constexpr int kSlices = TKV_D / 16;
constexpr int kChunksQ = (TKV_K + TKV_CHUNK - 1) / TKV_CHUNK, kChunksKV = (TKV_K + TKV_CHUNK_KV - 1) / TKV_CHUNK_KV;
constexpr int kRoundsQ = TKV_CHUNK / kRound, kRoundsKV = TKV_CHUNK_KV / kRound;
static_assert(TKV_CHUNK % kRound == 0 && TKV_CHUNK_KV % kRound == 0, "a round of weights must not pass the end of its chunk");
constexpr int kWarps = 2 * (kChunksQ > kChunksKV ? kChunksQ : kChunksKV), kRounds = kRoundsQ > kRoundsKV ? kRoundsQ : kRoundsKV;

extern "C" __global__ void __launch_bounds__(32 * kWarps) decode_qkv(
    aliased_ptr<const Elem> x, global_ptr<const Elem> norm, global_ptr<const Elem> q, global_ptr<const Elem> k, global_ptr<const Elem> v,
    global_ptr<const Elem> q_bias, global_ptr<const Elem> k_bias, global_ptr<const Elem> v_bias, global_ptr<const float> cos,
    global_ptr<const float> sin, global_ptr<const int> row, global_ptr<const int> column, aliased_ptr<Elem> q_out, aliased_ptr<Elem> k_cache,
    aliased_ptr<Elem> v_cache, float eps, offset_t T, int H, int G, offset_t C, offset_t R) {
    let_next_begin();
    SHARED_POOL(pool);
    auto held = pool.take<Elem>(2 * kStripRoom);
    auto sums = pool.take<float>(kWarps * kStripSums);
    auto scale = pool.take<Elem>(TKV_K);
    auto tile = pool.take<Elem>(static_cast<int>(min(static_cast<offset_t>(TKV_TOKENS), T)) * kPitch);
    const int any = static_cast<int>(blockIdx.x) / kSlices, slice = static_cast<int>(blockIdx.x) % kSlices * 8;
    const int kind = any < H ? 0 : (any < H + G ? 1 : 2), head = kind == 0 ? any : (kind == 1 ? any - H : any - H - G);
    const global_ptr<const Elem> w = kind == 0 ? q : (kind == 1 ? k : v), bias = kind == 0 ? q_bias : (kind == 1 ? k_bias : v_bias);
    const int chunk = kind == 0 ? TKV_CHUNK : TKV_CHUNK_KV, chunks = kind == 0 ? kChunksQ : kChunksKV;
    const int warp = static_cast<int>(threadIdx.x) / 32, half = warp / chunks, begin = warp % chunks * chunk;  // 0 lower dims, 1 upper ones, more: nothing to do
    const offset_t first_token = static_cast<offset_t>(blockIdx.y) * TKV_TOKENS, low = static_cast<offset_t>(head) * TKV_D + slice;
    const Strip strip(w, low + half * (TKV_D / 2), low + TKV_D, begin, chunk, half * kStripRoom + begin * 8);
    request_scale(scale, norm);
    for (int round = 0; round < kRounds; ++round)
        if (half < 2 && round * kRound < chunk && begin + round * kRound < TKV_K) strip.request(held, round, round);
        else async_commit();  // an empty group keeps the count

    wait_for_previous();
    const int rows = rows_here(first_token, T);
    norm_rows<kRounds, kWarps>(tile, x, scale, first_token, rows, eps);
    if (half < 2) {
        float acc[kTokenTiles][4] = {};
        if (kind == 0) sum_strip<kRoundsQ>(acc, held, strip, begin, NormedRows{tile, rows});
        else sum_strip<kRoundsKV>(acc, held, strip, begin, NormedRows{tile, rows});
        leave_sums(sums, warp, acc);
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < rows * 8; i += static_cast<int>(blockDim.x)) {
        const offset_t t = first_token + i / 8, d = slice + i % 8, n = low + i % 8;
        Pair y{add_chunks(sums, 0, chunks, i), add_chunks(sums, chunks, chunks, i)};
        if (bias) y.low += to_float(static_cast<Elem>(bias[n])), y.high += to_float(static_cast<Elem>(bias[n + TKV_D / 2]));
        y = {rounded(y.low), rounded(y.high)};
        if (kind < 2) y = turn(y, cos[t * (TKV_D / 2) + d], sin[t * (TKV_D / 2) + d]);
        const offset_t r = row[t], c = column[t];
        // guard[append-range-fused]: as in rope_and_append: padding and what lies outside the cache is someone else's memory
        // mutant[append-range-fused/writes-padding]:
        //   - if (kind > 0 && !(r >= 0 && r < R && c >= 0 && c < C)) continue;
        //   + if (kind > 0 && !(r < R && c >= 0 && c < C)) continue;
        if (kind > 0 && !(r >= 0 && r < R && c >= 0 && c < C)) continue;
        const aliased_ptr<Elem> to = kind == 0 ? q_out : (kind == 1 ? k_cache : v_cache);
        const offset_t at = (kind == 0 ? t * H + head : (r * G + head) * C + c) * TKV_D + d;
        to[at] = to_elem(y.low), to[at + TKV_D / 2] = to_elem(y.high);
    }
}
