// y = x @ w.T for few tokens: the weights stream from global memory straight into the tensor cores, each byte once.
// x [T, K], w [N, K]; K a multiple of 8. A warp makes 8 outputs for 16 tokens over one chunk of K,
// from zero; the warps of a block are (group of outputs, chunk). The chunks are added in ascending order in shared memory.
//
//     warp 0        1        2     ...        weights of 8 outputs, cut along K
//     [chunk 0 ][chunk 1 ][chunk 2 ]          -> sum in this order
#include "common/linear_epilogue.cuh"
#include "common/mma.cuh"

constexpr int kTokens = 16, kOutputs = 8;
constexpr int kAhead = 4;  // 16-byte loads of weights in flight per lane; 8 are no faster

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

    float acc[4] = {};
    for (int k0 = begin; k0 < stop; k0 += 32 * kAhead) {
        uint4 weights[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const int k = k0 + 32 * i + 8 * t;
            weights[i] = stream_words(w, n * K + k, n < epilogue.N && k < stop);
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const int k = k0 + 32 * i + 8 * t;
            const offset_t token = first_token + g;
            const uint4 upper = words_at(x, token * K + k, token < T && k < stop);
            const uint4 lower = words_at(x, (token + 8) * K + k, token + 8 < T && k < stop);
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) mma_half(acc, upper, lower, weights[i], pair);
        }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[(warp * kTokens + g + 8 * (e / 2)) * kOutputs + 2 * t + e % 2] = acc[e];
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
