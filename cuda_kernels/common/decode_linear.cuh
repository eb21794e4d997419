// Linear layers of the decode chain: few tokens, and the weights are asked for before x is there.
// x [T, K], w [N, K], K = TKV_K, a multiple of 8. A warp sums a strip: 8 outputs over one chunk of K, from zero, for TKV_TOKENS tokens
// (8, 16 or 32). The strips of an output are added in ascending order. Chunks, mma steps and their order are those of linear_rows and
// linear_tiles: the bits as well.
#include "common/chain.cuh"
#include "common/linear_epilogue.cuh"
#include "common/mma.cuh"
#include "common/norm.cuh"

constexpr int kTokenTiles = (TKV_TOKENS + 15) / 16;
constexpr bool kLower = TKV_TOKENS > 8;  // is there anything in rows 8 .. 15 of a tile?
constexpr int kRound = 32 * TKV_STEPS;   // k that are multiplied at once
constexpr int kStripSums = TKV_TOKENS * 8;
constexpr int kPitch = (TKV_K + 31) / 64 * 64 + 32;  // normed rows lie 64 bytes apart modulo the 32 banks
static_assert(kPitch >= TKV_K, "rows must not overlap");

// 8 neighbouring rows of w over a run of K. Lane (g, t) takes 8 k of row g out of every 32. They wait in shared memory, each lane's at
// places that only this lane reads: plain loads into registers the compiler moves behind the wait.
struct Strip {
    global_ptr<const Elem> w;
    offset_t at;  // the lane's first 8 weights
    int stop;     // k from the start of the strip, where the lane's weights end
    int place;    // where the lane's first 8 weights go

    // Outputs first_row .. + 7 of `rows`, k in [begin, begin + length); `room` is where the warp's part of shared memory starts.
    __device__ __forceinline__ Strip(global_ptr<const Elem> matrix, offset_t first_row, offset_t rows, int begin, int length, int room) : w(matrix) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const offset_t row = first_row + lane / 4;
        at = row * TKV_K + begin + 8 * (lane % 4);
        stop = row < rows ? min(length, TKV_K - begin) - 8 * (lane % 4) : 0;
        place = room + 8 * lane;
    }
    // One group of copies: round `number` into `slot`. Steps past the end of K have no room.
    __device__ __forceinline__ void request(shared_array<Elem> held, int number, int slot) const {
#pragma unroll
        for (int i = 0; i < TKV_STEPS; ++i) {
            const int k = number * kRound + 32 * i;
            async_copy16(held, place + (slot * TKV_STEPS + i) * 256, w, at + k, k < stop);
        }
        async_commit();
    }
};

// A row of w in steps of 32, in elements of shared memory for 8 rows.
constexpr int kStripRoom = (TKV_K + kRound - 1) / kRound * kRound * 8;

// acc += x times one round of weights, which has arrived; k0 is its first k. x_words(token, k) -> 8 elements of x, zeros past T and past K;
// kFar: they come from L2.
template <class Words>
__device__ __forceinline__ void multiply(float (&acc)[kTokenTiles][4], shared_array<Elem> held, int place, int k0, Words x_words) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    uint4 upper[kTokenTiles][TKV_STEPS], lower[kTokenTiles][TKV_STEPS];
#pragma unroll
    for (int tile = 0; tile < kTokenTiles; ++tile)
#pragma unroll
        for (int i = 0; i < TKV_STEPS; ++i) {
            const int k = k0 + 32 * i + 8 * t;
            upper[tile][i] = x_words(16 * tile + g, k);
            lower[tile][i] = kLower ? x_words(16 * tile + 8 + g, k) : make_uint4(0u, 0u, 0u, 0u);
        }
    if constexpr (Words::kFar) __syncwarp();  // or the compiler asks for x piece by piece, each after the last one's product
#pragma unroll
    for (int i = 0; i < TKV_STEPS; ++i) {
        const uint4 weights = vec_at<uint4>(held, place + i * 256);
#pragma unroll
        for (int pair = 0; pair < 2; ++pair)
#pragma unroll
            for (int tile = 0; tile < kTokenTiles; ++tile) mma_half(acc[tile], upper[tile][i], lower[tile][i], weights, pair);
    }
}

// Leaves a warp's sums at sums[place]: [token, output].
__device__ __forceinline__ void leave_sums(shared_array<float> sums, int place, const float (&acc)[kTokenTiles][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int tile = 0; tile < kTokenTiles; ++tile)
#pragma unroll
        for (int e = 0; e < (kLower ? 4 : 2); ++e) sums[place * kStripSums + (16 * tile + g + 8 * (e / 2)) * 8 + 2 * t + e % 2] = acc[tile][e];
}

// A strip of kRounds rounds at most that lies in shared memory, from k = begin on. Rounds past the end of K are left out: they add zeros.
template <int kRounds, class Words>
__device__ __forceinline__ void sum_strip(float (&acc)[kTokenTiles][4], shared_array<Elem> held, const Strip& strip, int begin, Words x_words) {
    async_wait<0>();  // each lane reads only what it asked for: no barrier
    for (int number = 0; number < kRounds; ++number)
        if (begin + number * kRound < TKV_K) multiply(acc, held, strip.place + number * TKV_STEPS * 256, begin + number * kRound, x_words);
}

// The chunks of one output of one token, which lie at places first, first + 1, ...
__device__ __forceinline__ float add_chunks(shared_array<float> sums, int first, int chunks, int inside) {
    float total = 0.0f;
    for (int c = 0; c < chunks; ++c) total += sums[(first + c) * kStripSums + inside];
    return total;
}

// Reads rows that the kernel before this one wrote.
struct FreshRows {
    static constexpr bool kFar = true;
    aliased_ptr<const Elem> x;
    offset_t first, T;
    __device__ __forceinline__ uint4 operator()(int token, int k) const {
        return fresh_words<Elem>(x, (first + token) * TKV_K + k, first + token < T && k < TKV_K);
    }
};

#ifdef TKV_NORM_THREADS
// The norm's weights [K] into shared memory, as one group of copies.
__device__ __forceinline__ void request_scale(shared_array<Elem> scale, global_ptr<const Elem> weight) {
    for (int k = 8 * static_cast<int>(threadIdx.x); k < TKV_K; k += 8 * static_cast<int>(blockDim.x)) async_copy16(scale, k, weight, k, true);
    async_commit();
}

// RMS norm of `rows` rows of x [T, K] from `first` on into shared memory, a warp per row. It adds in the tree of the kernel rms_norm: there
// each of TKV_NORM_THREADS threads sums the squares of its elements, 32 threads are added by a butterfly, and these sums ascending.
// kLater: groups of copies asked for after request_scale.
template <int kLater, int kWarps>
__device__ __forceinline__ void norm_rows(shared_array<Elem> tile, aliased_ptr<const Elem> x, shared_array<Elem> scale, offset_t first, int rows, float eps) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    constexpr int kPieces = (TKV_K + 255) / 256, kBatch = kPieces > 8 ? 1 : (16 + kPieces - 1) / kPieces;  // rows that are on their way at once
    for (int row0 = warp; row0 < rows; row0 += kWarps * kBatch) {
        uint4 piece[kBatch][kPieces];
#pragma unroll
        for (int j = 0; j < kBatch; ++j)
#pragma unroll
            for (int i = 0; i < kPieces; ++i) {
                const int row = row0 + j * kWarps, k = 256 * i + 8 * lane;
                piece[j][i] = fresh_words<Elem>(x, (first + row) * TKV_K + k, row < rows && k < TKV_K);
            }
#pragma unroll
        for (int j = 0; j < kBatch; ++j)
#pragma unroll
            for (int i = 0; i < kPieces; ++i) {
                const int row = row0 + j * kWarps, k = 256 * i + 8 * lane;
                if (row < rows && k < TKV_K) vec_put(tile, row * kPitch + k, piece[j][i]);
            }
    }
    async_wait<kLater>();
    // guard[sync-scale]: a lane reads what others have copied, the rows and the norm's weights
    // mutant[sync-scale/removed]: sync
    //   - __syncthreads();
    //   + ;
    __syncthreads();
    for (int row = warp; row < rows; row += kWarps) {
        float total = 0.0f;
#pragma unroll
        for (int base = 0; base < TKV_NORM_THREADS; base += 32) {
            float squares = 0.0f;
            for (int k = 4 * (base + lane); k < TKV_K; k += 4 * TKV_NORM_THREADS) {
                const Floats<4> values = load<4>(tile, row * kPitch + k);
#pragma unroll
                for (int i = 0; i < 4; ++i) squares += values.v[i] * values.v[i];
            }
            total += warp_sum(squares);
        }
        const float factor = inverse_rms(total, TKV_K, eps);
#pragma unroll
        for (int k = 4 * lane; k < TKV_K; k += 128) {  // each lane changes only what it alone has read
            Floats<4> values = load<4>(tile, row * kPitch + k);
            const Floats<4> weights = load<4>(scale, k);
#pragma unroll
            for (int i = 0; i < 4; ++i) values.v[i] = values.v[i] * factor * weights.v[i];
            store<4>(tile, row * kPitch + k, values);
        }
    }
    // guard[sync-normed]: a warp multiplies with rows that other warps have normed
    // mutant[sync-normed/removed]: sync
    //   - __syncthreads();
    //   + ;
    __syncthreads();
}

// Reads normed rows. Rows past `rows` were never written.
struct NormedRows {
    static constexpr bool kFar = false;
    shared_array<Elem> tile;
    int rows;
    __device__ __forceinline__ uint4 operator()(int token, int k) const { return words_at(tile, token * kPitch + k, token < rows && k < TKV_K); }
};

__device__ __forceinline__ int rows_here(offset_t first, offset_t T) { return static_cast<int>(min(static_cast<offset_t>(TKV_TOKENS), T - first)); }
#endif
