// y = x @ w.T for many tokens: tiles of x [T, K] and w [N, K] pass through shared memory, loaded ahead by cp.async.
// A block makes TKV_BM tokens x TKV_BN outputs with TKV_WM x TKV_WN warps. K goes by in steps of 64; each chunk of K is summed from
// zero and the chunks are added ascending, exactly as in linear_rows. With TKV_SPLIT a block takes a run of chunks and leaves
// their sums in `partial` [chunks, T, N] for linear_reduce.
//
// A step is 64 values of k: 128 bytes, 8 pieces of 16 bytes, 2 groups of 32 values.
// Weights (B operands): a lane reads one piece, two operands side by side. Odd rows swap their halves (piece ^ 4): the 8 lanes of one
// shared-memory pass read two neighbouring rows, 4 pieces each, and so meet all 32 banks.
// Tokens (A operands): an operand takes words from two rows, so a piece would have to be taken apart register by register. Instead
// the words of a group are transposed on the way in: word w of pieces 0..3 lies together, and a lane reads single words; a row's
// pieces are turned by the row (piece ^ row % 8), so that 8 rows meet 8 different places.
//
//     memory   piece 0: 0 1 2 3   piece 1: 4 5 6 7   ...      shared   0 4 8 12   1 5 9 13   2 6 10 14   3 7 11 15
#include "common/linear_epilogue.cuh"
#include "common/mma.cuh"

constexpr int kStep = 64;
constexpr int kThreads = 32 * TKV_WM * TKV_WN;
constexpr int kTokenTiles = TKV_BM / TKV_WM / 16, kOutputTiles = TKV_BN / TKV_WN / 8;

__device__ __forceinline__ int weight_place(int row, int piece) { return row * kStep + (piece ^ (row % 2 * 4)) * 8; }
// Word `word` of piece `piece` of a row's group.
__device__ __forceinline__ int token_place(int row, int group, int piece, int word) { return row * kStep + ((group * 4 + word) ^ (row % 8)) * 8 + piece * 2; }

// What one thread loads of a tile of kRows rows, every step of K: kValues values of rows first, first + kApart, ...
// All that does not change from step to step is worked out once.
template <int kRows, int kValues>
struct Loader {
    static constexpr int kPerRow = kStep / kValues, kRounds = kRows * kPerRow / kThreads, kApart = kThreads / kPerRow;
    static_assert(kRows * kPerRow % kThreads == 0 && kRounds <= 32, "whole rounds");
    static_assert(kValues == 8 ? kApart % 2 == 0 : kApart % 4 == 0, "places repeat from round to round");
    global_ptr<const Elem> from;
    offset_t at;
    int to[2], k, K;
    unsigned there;  // bit i: row of round i exists

    __device__ __forceinline__ Loader(global_ptr<const Elem> matrix, offset_t row0, offset_t rows, int width) : from(matrix), K(width) {
        const int row = static_cast<int>(threadIdx.x) / kPerRow, unit = static_cast<int>(threadIdx.x) % kPerRow;
        k = unit * kValues;
        at = (row0 + row) * K + k;
        // Two places, for tokens in blocks of 4 warps: rows 4 apart are turned differently.
#pragma unroll
        for (int i = 0; i < 2; ++i)
            to[i] = kValues == 8 ? weight_place(row + i * kApart, unit) : token_place(row + i * kApart, unit / 16, unit % 16 / 4, unit % 4);
        there = 0;
#pragma unroll
        for (int i = 0; i < kRounds; ++i) there |= row0 + row + i * kApart < rows ? 1u << i : 0u;
    }
    __device__ __forceinline__ void request(shared_array<Elem> stages, int tile_at, int k0) const {
        const bool inside = k0 + k < K;
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
            const int place = tile_at + to[i % 2] + i / 2 * 2 * kApart * kStep;
            const offset_t source = at + k0 + static_cast<offset_t>(i * kApart) * K;
            const bool valid = inside && (there >> i & 1u) != 0u;
            if constexpr (kValues == 8) async_copy16(stages, place, from, source, valid);
            else async_copy4(stages, place, from, source, valid);
        }
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

    const Loader<TKV_BM, 2> token_rows(x, first_token, T, K);
    const Loader<TKV_BN, 8> output_rows(w, first_output, epilogue.N, K);
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
            uint4 weights[kOutputTiles];
            const int inside = at + (TKV_BM + output_row) * kStep + weight_place(g, 4 * half + t);  // tiles start at rows of g's parity
#pragma unroll
            for (int j = 0; j < kOutputTiles; ++j) weights[j] = vec_at<uint4>(stages, inside + 8 * j * kStep);
            // A tensor-core step takes some 30 cycles; steps into the same sum are kept far apart.
#pragma unroll
            for (int pair = 0; pair < 2; ++pair)
#pragma unroll
                for (int i = 0; i < kTokenTiles; ++i) {
                    unsigned a[4];
#pragma unroll
                    for (int r = 0; r < 4; ++r)
                        a[r] = vec_at<unsigned>(stages, at + (token_row + 16 * i + r % 2 * 8) * kStep + token_place(g, half, t, 2 * pair + r / 2));
#pragma unroll
                    for (int j = 0; j < kOutputTiles; ++j) {
                        const unsigned low = pair == 0 ? weights[j].x : weights[j].z, high = pair == 0 ? weights[j].y : weights[j].w;
                        mma_step(acc[i][j], a[0], a[1], a[2], a[3], low, high);
                    }
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
    // Through shared memory, so that a warp writes whole runs of a row and the epilogue's code stands here once.
    constexpr int kPitch = TKV_BN + 4;
    static_assert(TKV_BM * kPitch * 4 <= TKV_STAGES * kStage * 2, "the result takes the place of the stages");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
        for (int j = 0; j < kOutputTiles; ++j)
#pragma unroll
            for (int row = 0; row < 2; ++row)
                vec_put(stages, ((token_row + 16 * i + g + 8 * row) * kPitch + output_row + 8 * j + 2 * t) * 2, make_float2(total[i][j][2 * row], total[i][j][2 * row + 1]));
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < TKV_BM * TKV_BN; i += kThreads) {
        const offset_t token = first_token + i / TKV_BN, output = first_output + i % TKV_BN;
        if (token < T && output < epilogue.N) epilogue.put(token, output, vec_at<float>(stages, (i / TKV_BN * kPitch + i % TKV_BN) * 2));
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
