// kv_scatter: blocks [n, G, block_tokens, D] -> columns start .. start + n * block_tokens of one row of cache [R, G, C, D], in place.
// Grid (block * G + head, chunk of a block); the inverse of kv_gather.
// registers: spills 0
#include "common/copy.cuh"

extern "C" __global__ void kv_scatter(
    global_ptr<const Elem> blocks, global_ptr<Elem> cache, offset_t row, offset_t start, offset_t block_tokens, offset_t G, offset_t C) {
    const offset_t block = blockIdx.x / G, g = blockIdx.x % G;
    const offset_t words = block_tokens * TKV_D / TKV_COPY;
    const offset_t from = blockIdx.x * block_tokens * TKV_D, to = ((row * G + g) * C + start + block * block_tokens) * TKV_D;
    for (offset_t w = static_cast<offset_t>(blockIdx.y) * blockDim.x + threadIdx.x; w < words; w += static_cast<offset_t>(gridDim.y) * blockDim.x)
        vec_put(cache, to + w * TKV_COPY, vec_at<CopyWord>(blocks, from + w * TKV_COPY));
}
