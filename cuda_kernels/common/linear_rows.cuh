// y = x @ w.T for few tokens: the weights stream from global memory straight into the tensor cores, each byte once.
// x [T, K], w [N, K]; K a multiple of 8. A warp makes 8 * TKV_OUTPUT_TILES outputs for 16 * TKV_TOKEN_TILES tokens over one chunk
// of K, from zero; the warps of a block are (group of outputs, chunk). The chunks are added in ascending order in shared memory.
//
//     warp 0        1        2     ...        weights of 8 outputs, cut along K
//     [chunk 0 ][chunk 1 ][chunk 2 ]          -> sum in this order
#include "common/linear_epilogue.cuh"
#include "common/mma.cuh"

constexpr int kTokens = 16 * TKV_TOKEN_TILES, kOutputs = 8 * TKV_OUTPUT_TILES;

// 16 bytes that are used once: past L1, and the neighbouring 64 bytes come along into L2.
__device__ __forceinline__ uint4 stream_words(global_ptr<const Elem> p, offset_t at, bool valid) {
#if defined(TKV_HOST) || __CUDA_ARCH__ < 800
    return words_at(p, at, valid);
#else
    uint4 v = make_uint4(0u, 0u, 0u, 0u);
    if (valid)
        asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p + at));
    return v;
#endif
}

__device__ __forceinline__ void linear_rows_body(
    global_ptr<const Elem> x, global_ptr<const Elem> w, const Epilogue& epilogue, offset_t T, int K, int chunk, int chunks) {
    SHARED_POOL(pool);
    const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
    auto sums = pool.take<float>(warps * kTokens * kOutputs);
    const int groups = warps / chunks, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const offset_t first_token = static_cast<offset_t>(blockIdx.y) * kTokens, first_output = static_cast<offset_t>(blockIdx.x) * groups * kOutputs;
    const offset_t n = first_output + warp / chunks * kOutputs + g;
    const int begin = warp % chunks * chunk, stop = min(begin + chunk, K);

    float acc[TKV_TOKEN_TILES][TKV_OUTPUT_TILES][4] = {};
    for (int k0 = begin; k0 < stop; k0 += 32 * TKV_AHEAD) {
        uint4 weights[TKV_AHEAD][TKV_OUTPUT_TILES];
#pragma unroll
        for (int i = 0; i < TKV_AHEAD; ++i)
#pragma unroll
            for (int j = 0; j < TKV_OUTPUT_TILES; ++j) {
                const int k = k0 + 32 * i + 8 * t;
                weights[i][j] = stream_words(w, (n + 8 * j) * K + k, n + 8 * j < epilogue.N && k < stop);
            }
#pragma unroll
        for (int i = 0; i < TKV_AHEAD; ++i) {
            const int k = k0 + 32 * i + 8 * t;
#pragma unroll
            for (int tile = 0; tile < TKV_TOKEN_TILES; ++tile) {
                const offset_t token = first_token + 16 * tile + g;
                const uint4 upper = words_at(x, token * K + k, token < T && k < stop);
                const uint4 lower = words_at(x, (token + 8) * K + k, token + 8 < T && k < stop);
#pragma unroll
                for (int pair = 0; pair < 2; ++pair)
#pragma unroll
                    for (int j = 0; j < TKV_OUTPUT_TILES; ++j) mma_half(acc[tile][j], upper, lower, weights[i][j], pair);
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < TKV_TOKEN_TILES; ++tile)
#pragma unroll
        for (int j = 0; j < TKV_OUTPUT_TILES; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sums[(warp * kTokens + 16 * tile + g + 8 * (e / 2)) * kOutputs + 8 * j + 2 * t + e % 2] = acc[tile][j][e];
    // guard[sync-chunks]: the chunks of one output were summed by different warps
    // mutant[sync-chunks/removed]: sync
    //   - __syncthreads();
    //   + ;
    __syncthreads();
    constexpr int kTile = kTokens * kOutputs;
    for (int i = static_cast<int>(threadIdx.x); i < groups * kTile; i += static_cast<int>(blockDim.x)) {
        const int group = i / kTile, inside = i % kTile;
        const offset_t token = first_token + inside / kOutputs, output = first_output + group * kOutputs + inside % kOutputs;
        if (token >= T || output >= epilogue.N) continue;
        float total = 0.0f;
        for (int c = 0; c < chunks; ++c) total += sums[(group * chunks + c) * kTile + inside];
        epilogue.put(token, output, total);
    }
}
