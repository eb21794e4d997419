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

using Sums = float[kTokenTiles][kOutputTiles][4];

// Where a warp's part of a tile lies.
struct WarpPlace {
    int token_row, output_row, g, t;
    __device__ __forceinline__ WarpPlace() {
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        token_row = warp / TKV_WN * (TKV_BM / TKV_WM), output_row = warp % TKV_WN * (TKV_BN / TKV_WN), g = lane / 4, t = lane % 4;
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
__device__ __forceinline__ void sum_chunks(
    Loader<TKV_BM> token_rows, Loader<TKV_BN> output_rows, int begin, int stop, int chunk, unsigned zero, End end_of_chunk) {
    constexpr int kStage = (TKV_BM + TKV_BN) * kStep, kStages = TKV_STAGES * kStage;
    SHARED_POOL(pool);
    auto stages = pool.take<Elem>(kStages);
    const int steps = stop > begin ? (stop - begin + kStep - 1) / kStep : 0, chunk_steps = chunk / kStep;
    const WarpPlace here;
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

__device__ __forceinline__ void add_to(Sums& total, const Sums& acc) {
#pragma unroll
    for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
        for (int j = 0; j < kOutputTiles; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) total[i][j][e] += acc[i][j][e];
}

// Visits what a thread made, kWide neighbouring outputs at a time: visit(offset in [T, N], output, i, j, e). kEach: tiles of 8 that belong
// to the same outputs (2 for gate and up); j is the first of them.
template <int kEach, class Visit>
__device__ __forceinline__ void of_thread(offset_t first_token, offset_t first_output, offset_t T, offset_t N, Visit visit) {
    const WarpPlace here;
#pragma unroll
    for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const offset_t token = first_token + here.token_row + 16 * i + here.g + 8 * half, row_at = token * N;
#pragma unroll
            for (int j = 0; j < kOutputTiles; j += kEach)
#pragma unroll
                for (int e = 0; e < 2; e += kWide) {
                    const offset_t output = first_output + (here.output_row + 8 * j) / kEach + 2 * here.t + e;
                    if (token < T && output < N) visit(row_at + output, output, i, j, 2 * half + e);
                }
        }
}

__device__ __forceinline__ void linear_tiles_body(
    aliased_ptr<const Elem> x, global_ptr<const Elem> w, const Epilogue& epilogue, aliased_ptr<float> partial, offset_t T, int K, int chunk, int chunks) {
    let_next_begin();
    const offset_t first_token = static_cast<offset_t>(blockIdx.x) * TKV_BM, first_output = static_cast<offset_t>(blockIdx.y) * TKV_BN, N = epilogue.N;
    const int each_part = (chunks + static_cast<int>(gridDim.z) - 1) / static_cast<int>(gridDim.z);
    const int begin = static_cast<int>(blockIdx.z) * each_part * chunk, stop = min(begin + each_part * chunk, K);
    const Loader<TKV_BM> token_rows(x, first_token, T, begin, K);
    const Loader<TKV_BN> output_rows(w, first_output, N, begin, K);
    const unsigned zero = static_cast<unsigned>(K) >> 31;
    wait_for_previous();
#if TKV_SPLIT
    offset_t plane = static_cast<offset_t>(begin / chunk) * T * N;
    sum_chunks(token_rows, output_rows, begin, stop, chunk, zero, [&](const Sums& acc) {
        of_thread<1>(first_token, first_output, T, N, [&](offset_t to, offset_t, int i, int j, int e) {
            if constexpr (kWide == 2) vec_put(partial, plane + to, make_float2(acc[i][j][e], acc[i][j][e + 1]));
            else partial[plane + to] = acc[i][j][e];
        });
        plane += T * N;
    });
#else
    Sums total = {};
    sum_chunks(token_rows, output_rows, begin, stop, chunk, zero, [&](const Sums& acc) { add_to(total, acc); });
    epilogue.finish<kWide>([&](auto visit) {
        of_thread<1>(first_token, first_output, T, N, [&](offset_t at, offset_t n, int i, int j, int e) { visit(at, n, &total[i][j][e]); });
    });
#endif
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
