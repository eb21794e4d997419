// y = x @ w.T for many tokens: tiles of x [T, K] and w [N, K] pass through shared memory, loaded ahead by cp.async.
// A block makes TKV_BM tokens x TKV_BN outputs with TKV_WM x TKV_WN warps. K goes by in steps of 64; each chunk of K is summed from
// zero and the chunks are added ascending, exactly as in linear_rows. With TKV_SPLIT a block takes a run of chunks and leaves
// their sums in `partial` [chunks, T, N] for linear_reduce.
//
// A row of 64 elements is 8 pieces of 16 bytes. Odd rows swap their halves (piece ^ 4): the 8 lanes of one shared-memory pass read
// two neighbouring rows, 4 pieces each, and so meet all 32 banks.
#include "common/linear_epilogue.cuh"
#include "common/mma.cuh"

constexpr int kStep = 64;
constexpr int kThreads = 32 * TKV_WM * TKV_WN;
constexpr int kTokenTiles = TKV_BM / TKV_WM / 16, kOutputTiles = TKV_BN / TKV_WN / 8;

__device__ __forceinline__ int place(int row, int piece) { return row * kStep + (piece ^ (row % 2 * 4)) * 8; }

template <int kRows>
__device__ __forceinline__ void load_rows(shared_array<Elem> tile, int tile_at, global_ptr<const Elem> from, offset_t row0, offset_t rows, int k0, int K) {
    static_assert(kRows * 8 % kThreads == 0, "whole rounds");
#pragma unroll
    for (int i = 0; i < kRows * 8 / kThreads; ++i) {
        const int unit = i * kThreads + static_cast<int>(threadIdx.x), row = unit / 8, piece = unit % 8;
        const bool there = row0 + row < rows && k0 + piece * 8 < K;
        async_copy16(tile, tile_at + place(row, piece), from, (row0 + row) * K + k0 + piece * 8, there);
    }
}

__device__ __forceinline__ void linear_tiles_body(
    global_ptr<const Elem> x, global_ptr<const Elem> w, const Epilogue& epilogue, global_ptr<float> partial, offset_t T, int K, int chunk, int chunks) {
    constexpr int kStage = (TKV_BM + TKV_BN) * kStep;
    SHARED_POOL(pool);
    auto stages = pool.take<Elem>(TKV_STAGES * kStage);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const int token_row = warp / TKV_WN * (TKV_BM / TKV_WM), output_row = warp % TKV_WN * (TKV_BN / TKV_WN);
    const offset_t first_token = static_cast<offset_t>(blockIdx.x) * TKV_BM, first_output = static_cast<offset_t>(blockIdx.y) * TKV_BN;
    constexpr bool split = TKV_SPLIT != 0;
    const int each = (chunks + static_cast<int>(gridDim.z) - 1) / static_cast<int>(gridDim.z);
    const int begin = static_cast<int>(blockIdx.z) * each * chunk, stop = min(begin + each * chunk, K);
    const int steps = stop > begin ? (stop - begin + kStep - 1) / kStep : 0, chunk_steps = chunk / kStep;

    auto request = [&](int step) {
        if (step < steps) {
            const int at = step % TKV_STAGES * kStage;
            load_rows<TKV_BM>(stages, at, x, first_token, T, begin + step * kStep, K);
            load_rows<TKV_BN>(stages, at + TKV_BM * kStep, w, first_output, epilogue.N, begin + step * kStep, K);
        }
        async_commit();  // an empty group keeps the count
    };
    for (int step = 0; step < TKV_STAGES - 1; ++step) request(step);

    auto leave = [&](global_ptr<float> to, offset_t plane, int i, int j, int e, float value) {
        const offset_t token = first_token + token_row + 16 * i + g + 8 * (e / 2), output = first_output + output_row + 8 * j + 2 * t + e % 2;
        if (token < T && output < epilogue.N) to[(plane + token) * epilogue.N + output] = value;
    };

    float total[kTokenTiles][kOutputTiles][4] = {}, acc[kTokenTiles][kOutputTiles][4] = {};
    for (int step = 0; step < steps; ++step) {
        async_wait<TKV_STAGES - 2>();
        __syncthreads();  // this stage has arrived for all, and all are done with the one that is requested next
        request(step + TKV_STAGES - 1);
        const int at = step % TKV_STAGES * kStage;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint4 weights[kOutputTiles];
#pragma unroll
            for (int j = 0; j < kOutputTiles; ++j) weights[j] = vec_at<uint4>(stages, at + TKV_BM * kStep + place(output_row + 8 * j + g, 4 * half + t));
#pragma unroll
            for (int i = 0; i < kTokenTiles; ++i) {
                const uint4 upper = vec_at<uint4>(stages, at + place(token_row + 16 * i + g, 4 * half + t));
                const uint4 lower = vec_at<uint4>(stages, at + place(token_row + 16 * i + g + 8, 4 * half + t));
#pragma unroll
                for (int j = 0; j < kOutputTiles; ++j) mma_32(acc[i][j], upper, lower, weights[j]);
            }
        }
        if ((step + 1) % chunk_steps != 0 && step + 1 != steps) continue;
#pragma unroll
        for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
            for (int j = 0; j < kOutputTiles; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if constexpr (split) leave(partial, (begin / chunk + step / chunk_steps) * T, i, j, e, acc[i][j][e]);
                    else total[i][j][e] += acc[i][j][e];
                    acc[i][j][e] = 0.0f;
                }
    }
    if (split) return;
#pragma unroll
    for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
        for (int j = 0; j < kOutputTiles; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const offset_t token = first_token + token_row + 16 * i + g + 8 * (e / 2), output = first_output + output_row + 8 * j + 2 * t + e % 2;
                if (token < T && output < epilogue.N) epilogue.put(token, output, total[i][j][e]);
            }
}

// Adds the chunks of a split product, ascending. partial [chunks, T, N].
__device__ __forceinline__ void linear_reduce_body(global_ptr<const float> partial, const Epilogue& epilogue, offset_t T, int chunks) {
    const offset_t i = static_cast<offset_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= T * epilogue.N) return;
    float total = 0.0f;
    for (int c = 0; c < chunks; ++c) total += partial[c * T * epilogue.N + i];
    epilogue.put(i / epilogue.N, i % epilogue.N, total);
}
