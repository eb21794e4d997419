// attention_decode_ragged: q [T, H, D], caches [R, G, C, D], cu_seqlens [B + 1], row, end, lead_pad [B] -> out [T, H, D].
// registers: spills 0
#include "common/attention_simple.cuh"

extern "C" __global__ void __launch_bounds__(32) attention_decode_ragged_simple(
    global_ptr<const Elem> q, global_ptr<const Elem> k_cache, global_ptr<const Elem> v_cache, global_ptr<Elem> out, global_ptr<const int> cu_seqlens,
    global_ptr<const int> row, global_ptr<const int> end, global_ptr<const int> lead_pad, int B, int H, int G, offset_t C, offset_t window, float scale) {
    attention_simple_body(q, k_cache, v_cache, out, Geometry{cu_seqlens, row, end, lead_pad, B, C, window}, H, G, scale);
}
