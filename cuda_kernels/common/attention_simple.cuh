// Attention by plain multiply-adds: any dtype, any architecture; the readable form. q [T, H, D], caches [R, G, C, D] -> out [T, H, D].
// One warp per (token, query head). Per block of 64 positions: lane i scores positions i and i + 32, then the lanes turn
// to the head dim: lane i sums dims i, i + 32, ... of V over the block, in ascending order.
#include "common/element.cuh"
#include "common/geometry.cuh"
#include "common/reduce.cuh"

constexpr int kDims = (TKV_D + 31) / 32;

struct Piece {
    float m, l, acc[kDims];
};

__device__ __forceinline__ void join(Piece& total, const Piece& part) {
    const Weights w = merge_weights(total.m, part.m);
    total.m = w.m;
    total.l = weighted(total.l, part.l, w);
#pragma unroll
    for (int i = 0; i < kDims; ++i) total.acc[i] = weighted(total.acc[i], part.acc[i], w);
}

__device__ __forceinline__ float score(shared_array<float> q, global_ptr<const Elem> k_cache, offset_t at) {
    float sum = 0.0f;
    for (int d = 0; d < TKV_D; d += 4) {
        const Floats<4> k = load<4>(k_cache, at + d);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum = fmaf(q[d + i], k.v[i], sum);
    }
    return sum;
}

// One block of positions [first, first + 64), of which `seen` are visible. `base` is the element of position 0.
__device__ __forceinline__ Piece one_block(
    shared_array<float> q, shared_array<float> p, global_ptr<const Elem> k_cache, global_ptr<const Elem> v_cache, offset_t base, int first, Span seen,
    float scale) {
    const int lane = static_cast<int>(threadIdx.x);
    float s[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int position = first + lane + 32 * i;
        const bool visible_here = position >= seen.first && position <= seen.last;
        // guard[scale]: scores are divided by sqrt(D) (and turned to base 2), or the softmax saturates
        // mutant[scale/removed]:
        //   - s[i] = visible_here ? score(q, k_cache, base + static_cast<offset_t>(position) * TKV_D) * scale : minus_infinity();
        //   + s[i] = visible_here ? score(q, k_cache, base + static_cast<offset_t>(position) * TKV_D) : minus_infinity();
        s[i] = visible_here ? score(q, k_cache, base + static_cast<offset_t>(position) * TKV_D) * scale : minus_infinity();
    }
    Piece part{warp_max(fmaxf(s[0], s[1])), 0.0f, {}};
    const float top = part.m == minus_infinity() ? 0.0f : part.m;
    const float low = exp2f(s[0] - top), high = exp2f(s[1] - top);
    part.l = warp_sum(low + high);
    __syncwarp();
    p[lane] = rounded(low), p[lane + 32] = rounded(high);
    // guard[sync-softmax]: the lanes of a warp swap their probabilities through shared memory
    // mutant[sync-softmax/removed]: sync
    //   - __syncwarp();
    //   + ;
    __syncwarp();
    for (int j = 0; j < kBlock; ++j) {
        const int position = first + j;
        // guard[dead-value]: what a query does not see is skipped; a weight of zero does not help, 0 * NaN is NaN
        // mutant[dead-value/zero-not-skip]:
        //   - if (position < seen.first || position > seen.last) continue;
        //   + if (position > seen.last) continue;
        // mutant[dead-value/tail-removed]:
        //   - if (position < seen.first || position > seen.last) continue;
        //   + if (position < seen.first) continue;
        if (position < seen.first || position > seen.last) continue;
#pragma unroll
        for (int i = 0; i < kDims; ++i)
            if (lane + 32 * i < TKV_D) part.acc[i] = fmaf(p[j], to_float(static_cast<Elem>(v_cache[base + static_cast<offset_t>(position) * TKV_D + lane + 32 * i])), part.acc[i]);
    }
    return part;
}

__device__ __forceinline__ void attention_simple_body(
    global_ptr<const Elem> q, global_ptr<const Elem> k_cache, global_ptr<const Elem> v_cache, global_ptr<Elem> out, const Geometry& geometry, int H, int G,
    float scale) {
    SHARED_POOL(pool);
    auto query = pool.take<float>(TKV_D);
    auto p = pool.take<float>(kBlock);
    const offset_t t = blockIdx.x / static_cast<unsigned>(H), h = blockIdx.x % static_cast<unsigned>(H);
    const offset_t b = find_row(geometry.B, t, [&](offset_t i) { return static_cast<offset_t>(geometry.cu_seqlens[i]); }), at = (t * H + h) * TKV_D;
    const BatchRow mine = batch_row(geometry, b);
    const int lane = static_cast<int>(threadIdx.x);
    for (int d = lane; d < TKV_D; d += 32) query[d] = to_float(q[at + d]);
    __syncwarp();

    const Span seen = span_of(geometry, mine, static_cast<int>(t) - mine.first_token);
    const offset_t base = ((static_cast<offset_t>(mine.row) * G + h / (H / G)) * geometry.C + mine.lead_pad) * TKV_D;
    Piece total{minus_infinity(), 0.0f, {}};
    for (int segment = seen.first / kSegment; segment * kSegment <= seen.last; ++segment) {
        Piece sum{minus_infinity(), 0.0f, {}};
        for (int block = 4 * segment; block < 4 * segment + 4; ++block)
            if (block * kBlock <= seen.last && (block + 1) * kBlock > seen.first)
                join(sum, one_block(query, p, k_cache, v_cache, base, block * kBlock, seen, scale));
        join(total, sum);
    }
#pragma unroll
    for (int i = 0; i < kDims; ++i)
        if (lane + 32 * i < TKV_D) out[at + lane + 32 * i] = to_elem(total.l > 0.0f ? total.acc[i] / total.l : 0.0f);
}
