// y = x @ w.T for few tokens: the weights stream from global memory straight into the tensor cores, each byte once.
// x [T, K], w [N, K]; K a multiple of 8. A block makes `tiles` times 8 outputs for 16 * TKV_TOKEN_TILES tokens. Its warps are
// (tile, chunk): each sums one chunk of K from zero, then the chunks are added in ascending order through shared memory.
//
//     warp 0        1        2     ...        weights of 8 outputs, cut along K
//     [chunk 0 ][chunk 1 ][chunk 2 ]          -> sum in this order
#include "common/linear_epilogue.cuh"
#include "common/mma.cuh"

constexpr int kAhead = 4;  // 16-byte weight loads in flight per lane: 128 values of k

__device__ __forceinline__ void linear_rows_body(
    global_ptr<const Elem> x, global_ptr<const Elem> w, const Epilogue& epilogue, offset_t T, int K, int chunk, int chunks) {
    constexpr int kTokens = 16 * TKV_TOKEN_TILES;
    SHARED_POOL(pool);
    const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
    auto sums = pool.take<float>(warps * kTokens * 8);
    const int tiles = warps / chunks, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const offset_t first_token = static_cast<offset_t>(blockIdx.y) * kTokens;
    const offset_t first_output = (static_cast<offset_t>(blockIdx.x) * tiles) * 8;
    const offset_t n = first_output + warp / chunks * 8 + g;
    const int begin = warp % chunks * chunk, stop = min(begin + chunk, K);

    float acc[TKV_TOKEN_TILES][4] = {};
    for (int k0 = begin; k0 < stop; k0 += 32 * kAhead) {
        uint4 weights[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const int k = k0 + 32 * i + 8 * t;
            weights[i] = words_at(w, n * K + k, n < epilogue.N && k < stop);
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const int k = k0 + 32 * i + 8 * t;
#pragma unroll
            for (int tile = 0; tile < TKV_TOKEN_TILES; ++tile) {
                const offset_t token = first_token + 16 * tile + g;
                const uint4 upper = words_at(x, token * K + k, token < T && k < stop);
                const uint4 lower = words_at(x, (token + 8) * K + k, token + 8 < T && k < stop);
                mma_32(acc[tile], upper, lower, weights[i]);
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < TKV_TOKEN_TILES; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[(warp * kTokens + 16 * tile + g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = acc[tile][i];
    // guard[sync-chunks]: the chunks of one output were summed by different warps
    // mutant[sync-chunks/removed]: sync
    //   - __syncthreads();
    //   + ;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < tiles * kTokens * 8; i += static_cast<int>(blockDim.x)) {
        const int tile = i / (kTokens * 8), inside = i % (kTokens * 8);
        const offset_t token = first_token + inside / 8, output = first_output + tile * 8 + inside % 8;
        float total = 0.0f;
        for (int c = 0; c < chunks; ++c) total += sums[(tile * chunks + c) * kTokens * 8 + inside];
        if (token < T && output < epilogue.N) epilogue.put(token, output, total);
    }
}
