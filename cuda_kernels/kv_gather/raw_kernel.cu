// kv_gather: columns start .. start + blocks * block_tokens of one row of cache [R, G, C, D] -> out [blocks, G, block_tokens, D].
// Grid (block * G + head, chunk of a block).
// registers: spills 0
#include "common/copy.cuh"

extern "C" __global__ void kv_gather(
    global_ptr<const Elem> cache, global_ptr<Elem> out, offset_t row, offset_t start, offset_t block_tokens, offset_t G, offset_t C) {
    const offset_t block = blockIdx.x / G, g = blockIdx.x % G;
    const offset_t words = block_tokens * TKV_D / TKV_COPY;
    const offset_t from = ((row * G + g) * C + start + block * block_tokens) * TKV_D, to = blockIdx.x * block_tokens * TKV_D;
    for (offset_t w = static_cast<offset_t>(blockIdx.y) * blockDim.x + threadIdx.x; w < words; w += static_cast<offset_t>(gridDim.y) * blockDim.x)
        vec_put(out, to + w * TKV_COPY, vec_at<CopyWord>(cache, from + w * TKV_COPY));
}
