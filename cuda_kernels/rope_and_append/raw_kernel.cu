// rope_and_append: q [T, H, D] rotated IN PLACE; rotated k and plain v [T, G, D] written to caches [R, G, C, D] at (row, column).
// cos, sin [T, D/2] float32. Row -1 is padding: its q is rotated, nothing is written.
// One block per token; a thread takes pairs (i, i + D/2) of q and k heads, then elements of v.
// registers: spills 0
#include "common/rope.cuh"

extern "C" __global__ void rope_and_append(
    global_ptr<Elem> q, global_ptr<const Elem> k, global_ptr<const Elem> v, global_ptr<const float> cos, global_ptr<const float> sin,
    global_ptr<Elem> k_cache, global_ptr<Elem> v_cache, global_ptr<const int> row, global_ptr<const int> column,
    int H, int G, offset_t C, offset_t R) {
    constexpr int kHalf = TKV_D / 2;
    const offset_t t = blockIdx.x;
    const offset_t r = row[t], c = column[t];
    // guard[append-range]: row -1 is padding of a fixed-size batch; what lies outside the cache is someone else's memory
    // mutant[append-range/writes-padding]:
    //   - const bool append = r >= 0 && r < R && c >= 0 && c < C;
    //   + const bool append = r < R && c >= 0 && c < C;
    const bool append = r >= 0 && r < R && c >= 0 && c < C;

    for (int i = static_cast<int>(threadIdx.x); i < (H + G) * kHalf; i += static_cast<int>(blockDim.x)) {
        const int head = i / kHalf, d = i % kHalf;
        const float cosine = cos[t * kHalf + d], sine = sin[t * kHalf + d];
        if (head < H) {
            const offset_t at = (t * H + head) * TKV_D + d;
            const Pair x = turn({to_float(static_cast<Elem>(q[at])), to_float(static_cast<Elem>(q[at + kHalf]))}, cosine, sine);
            q[at] = to_elem(x.low), q[at + kHalf] = to_elem(x.high);
        } else if (append) {
            const offset_t g = head - H, at = (t * G + g) * TKV_D + d, to = ((r * G + g) * C + c) * TKV_D + d;
            const Pair x = turn({to_float(k[at]), to_float(k[at + kHalf])}, cosine, sine);
            k_cache[to] = to_elem(x.low), k_cache[to + kHalf] = to_elem(x.high);
        }
    }
    if (!append) return;
    for (int i = static_cast<int>(threadIdx.x); i < G * TKV_D; i += static_cast<int>(blockDim.x)) {
        const offset_t g = i / TKV_D;
        v_cache[((r * G + g) * C + c) * TKV_D + i % TKV_D] = v[t * G * TKV_D + i];
    }
}
