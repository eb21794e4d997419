// What every way to multiply tiles agrees on: a block makes TKV_BM tokens x TKV_BN outputs with TKV_WM x TKV_WN warps, K in steps of 64.
#include "common/chain.cuh"
#include "common/linear_epilogue.cuh"

constexpr int kStep = 64, kWide = TKV_PAIRS ? 2 : 1;  // pairs of outputs in one access, where rows have even length
constexpr int kThreads = TKV_THREADS;
constexpr int kTokenTiles = TKV_BM / TKV_WM / 16, kOutputTiles = TKV_BN / TKV_WN / 8;

using Sums = float[kTokenTiles][kOutputTiles][4];  // a thread's, as the tensor cores leave them

// Where a warp's part of a tile lies.
struct WarpPlace {
    int token_row, output_row, g, t;
    __device__ __forceinline__ WarpPlace() {
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        token_row = warp / TKV_WN * (TKV_BM / TKV_WM), output_row = warp % TKV_WN * (TKV_BN / TKV_WN), g = lane / 4, t = lane % 4;
    }
};
