// Sums with one fixed tree each: the result depends on the block size, never on how many rows run beside it.
#include "common/words.cuh"

constexpr unsigned kAllLanes = 0xffffffffu;

// Butterfly: a + b == b + a exactly, so every lane ends with the same bits.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
    return x;
}

// Sum over the block; `partial` holds one float per warp. Every thread gets the sum. Warps are added in ascending order.
__device__ __forceinline__ float block_sum(float x, shared_array<float> partial) {
    const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
    x = warp_sum(x);
    __syncthreads();  // the last call's readers are done with `partial`
    if (threadIdx.x % 32 == 0) partial[warp] = x;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < warps; ++w) total += partial[w];
    return total;
}
