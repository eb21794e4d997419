// kv_strip: columns start .. start + count of one row of cache [R, G, C, D] -> out [G, count, D].
// Block (chunk, head): a head's run is contiguous memory, TKV_COPY elements per access.
// registers: spills 0
#include "common/copy.cuh"

extern "C" __global__ void kv_strip(global_ptr<const Elem> cache, global_ptr<Elem> out, offset_t row, offset_t start, offset_t count, offset_t G, offset_t C) {
    const offset_t g = blockIdx.y;
    const offset_t words = count * TKV_D / TKV_COPY;
    const offset_t from = ((row * G + g) * C + start) * TKV_D, to = g * count * TKV_D;
    for (offset_t w = static_cast<offset_t>(blockIdx.x) * blockDim.x + threadIdx.x; w < words; w += static_cast<offset_t>(gridDim.x) * blockDim.x)
        vec_put(out, to + w * TKV_COPY, vec_at<CopyWord>(cache, from + w * TKV_COPY));
}
