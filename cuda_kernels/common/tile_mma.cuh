// How tiles of linear_tiles are multiplied by mma.sync, from sm_80 on: loaded ahead by cp.async, fragments read from shared memory.
//
// A row of 64 elements is 8 pieces of 16 bytes. Odd rows swap their halves (piece ^ 4): the 8 lanes of one shared-memory pass read
// two neighbouring rows, 4 pieces each, and so meet all 32 banks.
#include "common/mma.cuh"
#include "common/tile_shape.cuh"

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

    // matrix [rows, width] from row0 on; or of two matrices 8 rows in turn, half as many of each.
    __device__ __forceinline__ Loader(aliased_ptr<const Elem> matrix, offset_t row0, offset_t rows, int begin, int width) : from(matrix) {
        start(thread_row(), kApart, row0, rows, begin, width);
    }
    __device__ __forceinline__ Loader(
        aliased_ptr<const Elem> even, aliased_ptr<const Elem> odd, offset_t row0, offset_t rows, int begin, int width)
        : from(thread_row() / 8 % 2 == 0 ? even : odd) {
        static_assert(kApart % 16 == 0, "a thread stays with its matrix");
        start(thread_row() / 16 * 8 + thread_row() % 8, kApart / 2, row0, rows, begin, width);
    }
    __device__ __forceinline__ static int thread_row() { return static_cast<int>(threadIdx.x) / 8; }
    __device__ __forceinline__ void start(int row, int apart, offset_t row0, offset_t rows, int begin, int width) {
        const int piece = static_cast<int>(threadIdx.x) % 8;
        K = width, k = begin + piece * 8;
        to = place(thread_row(), piece);
#pragma unroll
        for (int i = 0; i < kRounds; ++i) at[i] = min(row0 + row + i * apart, rows - 1) * K + k;
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

// acc += one step of 64 k that lies in shared memory at `at`. `zero` is 0 (see a_words).
__device__ __forceinline__ void multiply_step(Sums& acc, shared_array<Elem> stages, int at, const WarpPlace& here, unsigned zero) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        uint4 weights[kOutputTiles], upper[kTokenTiles], lower[kTokenTiles];
        const int inside = at + place(here.g, 4 * half + here.t);  // tiles start at even rows, so the swizzle is that of row g
#pragma unroll
        for (int j = 0; j < kOutputTiles; ++j) weights[j] = vec_at<uint4>(stages, inside + (TKV_BM + here.output_row + 8 * j) * kStep);
#pragma unroll
        for (int i = 0; i < kTokenTiles; ++i) {
            upper[i] = vec_at<uint4>(stages, inside + (here.token_row + 16 * i) * kStep);
            lower[i] = vec_at<uint4>(stages, inside + (here.token_row + 16 * i + 8) * kStep);
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
}

// The sums of this block over k in [begin, stop), chunk by chunk: end_of_chunk(acc) takes each chunk's, which then start from zero again.
template <class End>
__device__ __forceinline__ void sum_chunks(Loader<TKV_BM> token_rows, Loader<TKV_BN> output_rows, int begin, int stop, int chunk, End end_of_chunk) {
    constexpr int kStage = (TKV_BM + TKV_BN) * kStep, kStages = TKV_STAGES * kStage;
    SHARED_POOL(pool);
    auto stages = pool.take<Elem>(kStages);
    const int steps = stop > begin ? (stop - begin + kStep - 1) / kStep : 0, chunk_steps = chunk / kStep;
    const WarpPlace here;
    const unsigned zero = static_cast<unsigned>(token_rows.K) >> 31;
    auto request = [&](bool wanted, int at) {
        if (wanted) {
            token_rows.request(stages, at);
            output_rows.request(stages, at + TKV_BM * kStep);
        }
        async_commit();  // an empty group keeps the count
    };
    for (int step = 0; step < TKV_STAGES - 1; ++step) request(step < steps, step * kStage);
    Sums acc = {};
    int left = chunk_steps, at = 0, free_at = kStages - kStage;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        async_wait<TKV_STAGES - 2>();
        __syncthreads();  // this stage has arrived for all, and all are done with the one that is requested next
        request(step + TKV_STAGES - 1 < steps, free_at);
        multiply_step(acc, stages, at, here, zero);
        free_at = at;
        at = at + kStage == kStages ? 0 : at + kStage;
        if (--left != 0 && step + 1 != steps) continue;
        left = chunk_steps;
        end_of_chunk(acc);
#pragma unroll
        for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
            for (int j = 0; j < kOutputTiles; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.0f;
    }
}
