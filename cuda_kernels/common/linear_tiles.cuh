// y = x @ w.T for many tokens: tiles of x [T, K] and w [N, K] pass through shared memory.
// A block makes TKV_BM tokens x TKV_BN outputs. K goes by in steps of 64; each chunk of K is summed from zero and the chunks are added
// ascending, exactly as in linear_rows. With TKV_SPLIT a block takes a run of chunks and leaves their sums in `partial` [chunks, T, N]
// for linear_reduce. TKV_WGMMA chooses how a tile is multiplied: 0 mma.sync, 1 Hopper's warpgroup steps. The bits are the same.
#if TKV_WGMMA
#include "common/tile_wgmma.cuh"
#else
#include "common/tile_mma.cuh"
#endif

__device__ __forceinline__ void add_to(Sums& total, const Sums& acc) {
#pragma unroll
    for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
        for (int j = 0; j < kOutputTiles; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) total[i][j][e] += acc[i][j][e];
}

// Visits what a thread made, kWide neighbouring outputs at a time: visit(token, output, i, j, e). kEach: tiles of 8 that belong
// to the same outputs (2 for gate and up); j is the first of them.
template <int kEach, class Visit>
__device__ __forceinline__ void of_thread(offset_t first_token, offset_t first_output, offset_t T, offset_t N, Visit visit) {
    const WarpPlace here;
#pragma unroll
    for (int i = 0; i < kTokenTiles; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const offset_t token = first_token + here.token_row + 16 * i + here.g + 8 * half;
#pragma unroll
            for (int j = 0; j < kOutputTiles; j += kEach)
#pragma unroll
                for (int e = 0; e < 2; e += kWide) {
                    const offset_t output = first_output + (here.output_row + 8 * j) / kEach + 2 * here.t + e;
                    if (token < T && output < N) visit(token, output, i, j, 2 * half + e);
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
    wait_for_previous();
#if TKV_SPLIT
    offset_t plane = static_cast<offset_t>(begin / chunk) * T * N;
    sum_chunks(token_rows, output_rows, begin, stop, chunk, [&](const Sums& acc) {
        of_thread<1>(first_token, first_output, T, N, [&](offset_t token, offset_t n, int i, int j, int e) {
            const offset_t to = plane + token * N + n;
            if constexpr (kWide == 2) vec_put(partial, to, make_float2(acc[i][j][e], acc[i][j][e + 1]));
            else partial[to] = acc[i][j][e];
        });
        plane += T * N;
    });
#else
    Sums total = {};
    sum_chunks(token_rows, output_rows, begin, stop, chunk, [&](const Sums& acc) { add_to(total, acc); });
    epilogue.finish<kWide>([&](auto visit) {
        of_thread<1>(first_token, first_output, T, N, [&](offset_t token, offset_t n, int i, int j, int e) { visit(token * N + n, n, &total[i][j][e]); });
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
