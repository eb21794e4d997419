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

// What one thread loads of a tile of kRows rows, every step of K: piece `piece` of rows first, first + kApart, ...
// All that does not change from step to step is worked out once.
template <int kRows>
struct Loader {
    static constexpr int kRounds = kRows * 8 / kThreads, kApart = kThreads / 8;
    static_assert(kRows * 8 % kThreads == 0 && kApart % 2 == 0, "whole rounds, and rows of one parity per thread");
    global_ptr<const Elem> from;
    offset_t at;
    int to, piece, K;
    unsigned there;  // bit i: row of round i exists

    __device__ __forceinline__ Loader(global_ptr<const Elem> matrix, offset_t row0, offset_t rows, int width) : from(matrix), K(width) {
        const int row = static_cast<int>(threadIdx.x) / 8;
        piece = static_cast<int>(threadIdx.x) % 8;
        at = (row0 + row) * K + piece * 8;
        to = place(row, piece);
        there = 0;
#pragma unroll
        for (int i = 0; i < kRounds; ++i) there |= row0 + row + i * kApart < rows ? 1u << i : 0u;
    }
    __device__ __forceinline__ void request(shared_array<Elem> stages, int tile_at, int k0) const {
        const bool inside = k0 + piece * 8 < K;
#pragma unroll
        for (int i = 0; i < kRounds; ++i)
            async_copy16(stages, tile_at + to + i * kApart * kStep, from, at + k0 + static_cast<offset_t>(i * kApart) * K, inside && (there >> i & 1u) != 0u);
    }
};

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

    const Loader<TKV_BM> token_rows(x, first_token, T, K);
    const Loader<TKV_BN> output_rows(w, first_output, epilogue.N, K);
    auto request = [&](int step) {
        if (step < steps) {
            const int at = step % TKV_STAGES * kStage;
            token_rows.request(stages, at, begin + step * kStep);
            output_rows.request(stages, at + TKV_BM * kStep, begin + step * kStep);
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
            uint4 weights[kOutputTiles], upper[kTokenTiles], lower[kTokenTiles];
            const int inside = place(g, 4 * half + t);  // tiles start at even rows, so the swizzle is that of row g
#pragma unroll
            for (int j = 0; j < kOutputTiles; ++j) weights[j] = vec_at<uint4>(stages, at + inside + (TKV_BM + output_row + 8 * j) * kStep);
#pragma unroll
            for (int i = 0; i < kTokenTiles; ++i) {
                upper[i] = vec_at<uint4>(stages, at + inside + (token_row + 16 * i) * kStep);
                lower[i] = vec_at<uint4>(stages, at + inside + (token_row + 16 * i + 8) * kStep);
            }
            // A tensor-core step takes some 30 cycles; steps into the same sum are kept far apart.
#pragma unroll
            for (int pair = 0; pair < 2; ++pair)
#pragma unroll
                for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
                    for (int j = 0; j < kOutputTiles; ++j) mma_half(acc[i][j], upper[i], lower[i], weights[j], pair);
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
