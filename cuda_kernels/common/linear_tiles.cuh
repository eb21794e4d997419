// y = x @ w.T for many tokens: tiles of x [T, K] and w [N, K] pass through shared memory, loaded ahead by cp.async.
// A block makes TKV_BM tokens x TKV_BN outputs with TKV_WM x TKV_WN warps. K goes by in steps of 64; each chunk of K is summed from
// zero and the chunks are added ascending, exactly as in linear_rows. With TKV_SPLIT a block takes a run of chunks and leaves
// their sums in `partial` [chunks, T, N] for linear_reduce.
//
// A row of 64 elements is 8 pieces of 16 bytes. Odd rows swap their halves (piece ^ 4): the 8 lanes of one shared-memory pass read
// two neighbouring rows, 4 pieces each, and so meet all 32 banks.
#include "common/chain.cuh"
#include "common/linear_epilogue.cuh"
#include "common/mma.cuh"

constexpr int kStep = 64, kWide = TKV_PAIRS ? 2 : 1;  // pairs of outputs in one access, where rows have even length
constexpr int kThreads = 32 * TKV_WM * TKV_WN;
constexpr int kTokenTiles = TKV_BM / TKV_WM / 16, kOutputTiles = TKV_BN / TKV_WN / 8;

__device__ __forceinline__ int place(int row, int piece) { return row * kStep + (piece ^ (row % 2 * 4)) * 8; }

// What one thread loads of a tile of kRows rows, every step of K: piece `piece` of rows first, first + kApart, ...
// Rows past the end are the last row again: what is made of them is written nowhere.
template <int kRows>
struct Loader {
    static constexpr int kRounds = kRows * 8 / kThreads, kApart = kThreads / 8;
    static_assert(kRows * 8 % kThreads == 0 && kApart % 2 == 0, "whole rounds, and rows of one parity per thread");
    aliased_ptr<const Elem> from;
    offset_t at[kRounds];
    int to, k, K;

    __device__ __forceinline__ Loader(aliased_ptr<const Elem> matrix, offset_t row0, offset_t rows, int begin, int width) : from(matrix), K(width) {
        const int row = static_cast<int>(threadIdx.x) / 8, piece = static_cast<int>(threadIdx.x) % 8;
        k = begin + piece * 8;
        to = place(row, piece);
#pragma unroll
        for (int i = 0; i < kRounds; ++i) at[i] = min(row0 + row + i * kApart, rows - 1) * K + k;
    }
    // The next 64 of K, to the tile that begins at `tile_at`.
    __device__ __forceinline__ void request(shared_array<Elem> stages, int tile_at) {
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
            async_copy16(stages, tile_at + to + i * kApart * kStep, from, at[i], k < K);
            at[i] += kStep;
        }
        k += kStep;
    }
};

__device__ __forceinline__ void linear_tiles_body(
    aliased_ptr<const Elem> x, global_ptr<const Elem> w, const Epilogue& epilogue, aliased_ptr<float> partial, offset_t T, int K, int chunk, int chunks) {
    constexpr int kStage = (TKV_BM + TKV_BN) * kStep, kStages = TKV_STAGES * kStage;
    let_next_begin();
    SHARED_POOL(pool);
    auto stages = pool.take<Elem>(kStages);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const int token_row = warp / TKV_WN * (TKV_BM / TKV_WM), output_row = warp % TKV_WN * (TKV_BN / TKV_WN);
    const offset_t first_token = static_cast<offset_t>(blockIdx.x) * TKV_BM, first_output = static_cast<offset_t>(blockIdx.y) * TKV_BN;
    constexpr bool split = TKV_SPLIT != 0;
    const int each_part = (chunks + static_cast<int>(gridDim.z) - 1) / static_cast<int>(gridDim.z);
    const int begin = static_cast<int>(blockIdx.z) * each_part * chunk, stop = min(begin + each_part * chunk, K);
    const int steps = stop > begin ? (stop - begin + kStep - 1) / kStep : 0, chunk_steps = chunk / kStep;

    Loader<TKV_BM> token_rows(x, first_token, T, begin, K);
    Loader<TKV_BN> output_rows(w, first_output, epilogue.N, begin, K);
    auto request = [&](bool wanted, int at) {
        if (wanted) {
            token_rows.request(stages, at);
            output_rows.request(stages, at + TKV_BM * kStep);
        }
        async_commit();  // an empty group keeps the count
    };
    wait_for_previous();
    for (int step = 0; step < TKV_STAGES - 1; ++step) request(step < steps, step * kStage);

    float total[kTokenTiles][kOutputTiles][4] = {}, acc[kTokenTiles][kOutputTiles][4] = {};
    // Visits what this thread made, kWide neighbouring outputs at a time: offset in [T, N], output, sums.
    auto of_thread = [&](float (&sums)[kTokenTiles][kOutputTiles][4], auto visit) {
#pragma unroll
        for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const offset_t token = first_token + token_row + 16 * i + g + 8 * half, row_at = token * epilogue.N;
#pragma unroll
                for (int j = 0; j < kOutputTiles; ++j)
#pragma unroll
                    for (int e = 0; e < 2; e += kWide) {
                        const offset_t output = first_output + output_row + 8 * j + 2 * t + e;
                        if (token < T && output < epilogue.N) visit(row_at + output, output, &sums[i][j][2 * half + e]);
                    }
            }
    };
    offset_t plane = static_cast<offset_t>(begin / chunk) * T * epilogue.N;
    const unsigned zero = static_cast<unsigned>(K) >> 31;
    int left = chunk_steps, at = 0, free_at = kStages - kStage;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        async_wait<TKV_STAGES - 2>();
        __syncthreads();  // this stage has arrived for all, and all are done with the one that is requested next
        request(step + TKV_STAGES - 1 < steps, free_at);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint4 weights[kOutputTiles], upper[kTokenTiles], lower[kTokenTiles];
            const int inside = at + place(g, 4 * half + t);  // tiles start at even rows, so the swizzle is that of row g
#pragma unroll
            for (int j = 0; j < kOutputTiles; ++j) weights[j] = vec_at<uint4>(stages, inside + (TKV_BM + output_row + 8 * j) * kStep);
#pragma unroll
            for (int i = 0; i < kTokenTiles; ++i) {
                upper[i] = vec_at<uint4>(stages, inside + (token_row + 16 * i) * kStep);
                lower[i] = vec_at<uint4>(stages, inside + (token_row + 16 * i + 8) * kStep);
            }
            // A tensor-core step takes some 30 cycles; steps into the same sum are kept far apart.
#pragma unroll
            for (int pair = 0; pair < 2; ++pair)
#pragma unroll
                for (int i = 0; i < kTokenTiles; ++i) {
                    const AWords a = a_words(upper[i], lower[i], pair, zero);
#pragma unroll
                    for (int j = 0; j < kOutputTiles; ++j) mma_step(acc[i][j], a, weights[j], pair);
                }
        }
        free_at = at;
        at = at + kStage == kStages ? 0 : at + kStage;
        if (--left != 0 && step + 1 != steps) continue;
        left = chunk_steps;
        if constexpr (split) {
            of_thread(acc, [&](offset_t to, offset_t, const float* y) {
                if constexpr (kWide == 2) vec_put(partial, plane + to, make_float2(y[0], y[1]));
                else partial[plane + to] = y[0];
            });
            plane += T * epilogue.N;
        }
#pragma unroll
        for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
            for (int j = 0; j < kOutputTiles; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if constexpr (!split) total[i][j][e] += acc[i][j][e];
                    acc[i][j][e] = 0.0f;
                }
    }
    if constexpr (!split) epilogue.finish<kWide>([&](auto visit) { of_thread(total, visit); });
}

// Adds the chunks of a split product, ascending. partial [chunks, T, N].
__device__ __forceinline__ void linear_reduce_body(aliased_ptr<const float> partial, const Epilogue& epilogue, offset_t T, int chunks) {
    let_next_begin();
    wait_for_previous();
    const offset_t i = static_cast<offset_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= T * epilogue.N) return;
    float total = 0.0f;
    for (int c = 0; c < chunks; ++c) total += partial[c * T * epilogue.N + i];
    epilogue.put(i / epilogue.N, i % epilogue.N, total);
}
