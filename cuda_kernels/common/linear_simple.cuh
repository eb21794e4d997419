// y = x @ w.T by plain multiply-adds: any dtype, any N and K, any architecture. x [T, K], w [N, K].
// A block makes 32 tokens x 32 outputs from tiles in shared memory; a thread makes 1 token x 4 outputs (n, n + 8, n + 16, n + 24).
// Each output sums k ascending from zero within a chunk of K, then the chunks ascending: the same for every T.
#include "common/linear_epilogue.cuh"

constexpr int kTile = 32;
constexpr int kPitch = kTile + 1;  // one word of padding: a column of the tile hits 32 banks

__device__ __forceinline__ void fill_tile(shared_array<float> tile, global_ptr<const Elem> from, offset_t row0, offset_t rows, int k0, int stop, int K) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += 256) {
        const int r = i / kTile, k = i % kTile;
        // guard[tail]: the last tile is short in rows and in k; what lies past it is another row, or nobody's memory
        // mutant[tail/removed]:
        //   - const bool there = row0 + r < rows && k0 + k < stop;
        //   + const bool there = row0 + r < rows;
        const bool there = row0 + r < rows && k0 + k < stop;
        tile[r * kPitch + k] = there ? to_float(static_cast<Elem>(from[(row0 + r) * K + k0 + k])) : 0.0f;
    }
}

__device__ __forceinline__ void linear_simple_body(
    global_ptr<const Elem> x, global_ptr<const Elem> w, const Epilogue& epilogue, offset_t T, int K, int chunk) {
    SHARED_POOL(pool);
    auto tokens = pool.take<float>(kTile * kPitch);
    auto weights = pool.take<float>(kTile * kPitch);
    const offset_t t0 = static_cast<offset_t>(blockIdx.y) * kTile, n0 = static_cast<offset_t>(blockIdx.x) * kTile;
    const int t = static_cast<int>(threadIdx.x) / 8, n = static_cast<int>(threadIdx.x) % 8;

    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int begin = 0; begin < K; begin += chunk) {
        const int stop = min(begin + chunk, K);
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int k0 = begin; k0 < stop; k0 += kTile) {
            __syncthreads();
            fill_tile(tokens, x, t0, T, k0, stop, K);
            fill_tile(weights, w, n0, epilogue.N, k0, stop, K);
            __syncthreads();
            for (int k = 0; k < kTile; ++k)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[j] = fmaf(tokens[t * kPitch + k], weights[(n + 8 * j) * kPitch + k], sum[j]);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) total[j] += sum[j];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (t0 + t < T && n0 + n + 8 * j < epilogue.N) epilogue.put(t0 + t, n0 + n + 8 * j, total[j]);
}
