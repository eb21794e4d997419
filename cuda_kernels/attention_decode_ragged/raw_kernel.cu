// attention_decode_ragged: one query token per row (a few under speculation), each row at its own length.
// q [T, H, D], caches [R, G, C, D], cu_seqlens [B + 1], row, end, lead_pad [B] -> out [T, H, D].
// T tokens, B rows of the batch, R rows of the cache, H query heads, G KV heads, P = H / G heads per group, C columns, D head dim.
//
//   columns   0 1 2 3 4 5 ...                     end
//   row 0     . . . k k k k k k k k k k k k k k k k      '.' dead prefix: lead_pad columns, never read
//   row 1     . . . . . . . . . . . . k k k k k k k
//                   |<- segment 0: 256 ->|<- segment 1 ...   counted from the row's own first live column
//
// Grid (row b and KV head, slot). A block takes one or two segments of one row's live columns: 4 or 8 warps, a block of 64 positions each.
//   1. each warp asks for its 64 rows of V (to shared memory) and of K (to registers) at once
//   2. scores = Q K^T, softmax against the block's own maximum, acc = P V                                    (attention_block)
//   3. shared memory: the 4 pieces of a segment are folded in ascending order
//   4. a row with no more segments is done. Else the segments go to `pieces`, and the block that arrives last merges them in
//      ascending order: who is last does not matter
// Nothing here depends on the other rows, on the lead pad or on how many segments the longest row has: bits neither.
// registers: spills 104 (head dim 256)
#if TKV_PATH == 0
#include "common/attention_simple.cuh"

extern "C" __global__ void __launch_bounds__(32) attention_decode_ragged_simple(
    global_ptr<const Elem> q, global_ptr<const Elem> k_cache, global_ptr<const Elem> v_cache, global_ptr<Elem> out, global_ptr<const int> cu_seqlens,
    global_ptr<const int> row, global_ptr<const int> end, global_ptr<const int> lead_pad, int B, int H, int G, offset_t C, int window, float scale) {
    attention_simple_body(q, k_cache, v_cache, out, Geometry{cu_seqlens, row, end, lead_pad, B, C, window}, H, G, scale);
}
#endif
#if TKV_PATH == 1
#include "common/attention_block.cuh"
#include "common/chain.cuh"

constexpr int kPitch = TKV_D + 4;   // floats per M row of a piece: its acc, then m and l
constexpr int kPerBlock = TKV_SEGMENTS;  // segments a block takes: 2, or 1 where shared memory is short
constexpr int kWarps = 4 * kPerBlock;
constexpr int kThreads = 32 * kWarps;

// Softmax so far of one M row, for four neighbouring dims.
struct Four {
    float m, l;
    float4 acc;
};
__device__ __forceinline__ Four nothing() { return {minus_infinity(), 0.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)}; }

template <class P>
__device__ __forceinline__ Four piece_at(P pieces, offset_t at, int d) {
    const float2 ml = vec_at<float2>(pieces, at + TKV_D);
    return {ml.x, ml.y, vec_at<float4>(pieces, at + d)};
}
template <class P>
__device__ __forceinline__ void put_piece(P pieces, offset_t at, int d, const Four& f) {
    vec_put(pieces, at + d, f.acc);
    if (d == 0) vec_put(pieces, at + TKV_D, make_float2(f.m, f.l));
}

// Takes `part`, whose positions come later, into `total`. Fold and merge alike.
__device__ __forceinline__ void join(Four& total, const Four& part) {
    const Weights w = merge_weights(total.m, part.m);
    total.m = w.m;
    total.l = weighted(total.l, part.l, w);
    total.acc = make_float4(weighted(total.acc.x, part.acc.x, w), weighted(total.acc.y, part.acc.y, w), weighted(total.acc.z, part.acc.z, w),
                            weighted(total.acc.w, part.acc.w, w));
}

__device__ __forceinline__ void finish(global_ptr<Elem> out, offset_t at, const Four& f) {
    const bool any = f.l > 0.0f;  // a query that sees nothing gives zeros
    store<4>(out, at, Floats<4>{{any ? f.acc.x / f.l : 0.0f, any ? f.acc.y / f.l : 0.0f, any ? f.acc.z / f.l : 0.0f, any ? f.acc.w / f.l : 0.0f}});
}

// The fold of one segment's four pieces, which lie in shared memory `stride` apart. All loads come before the first use.
template <class P>
__device__ __forceinline__ Four fold_segment(P held, int at, int stride, int d) {
    Four part[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) part[i] = piece_at(held, at + i * stride, d);
    Four sum = nothing();
#pragma unroll
    for (int i = 0; i < 4; ++i) join(sum, part[i]);
    return sum;
}

// Segments any query of the row looks at.
struct Segments {
    int first, count;
};
__device__ __forceinline__ Segments segments_of(Span all) {
    const int first = all.first / kSegment;
    return {first, all.first > all.last ? 1 : all.last / kSegment - first + 1};
}

// Is this the last of `count` blocks to get here? The counter is 0 again afterwards. Everything written before is visible then.
__device__ __forceinline__ bool last_to_arrive(global_ptr<unsigned> counters, offset_t at, int count, shared_array<unsigned> answer) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) answer[0] = atomicInc(&counters[at], static_cast<unsigned>(count - 1));
    __syncthreads();
    __threadfence();
    return answer[0] == static_cast<unsigned>(count - 1);
}

// Merges the segments of every M row of one KV head, ascending, from `pieces` [segment, T, H, kPitch]; four are loaded at a time.
__device__ __forceinline__ void merge_row(
    const Geometry& geometry, const BatchRow& mine, global_ptr<float> pieces, global_ptr<Elem> out, int H, int P, int group, int origin, offset_t plane) {
    for (int i = static_cast<int>(threadIdx.x); i < mine.count * P * (TKV_D / 4); i += kThreads) {
        const int m = i / (TKV_D / 4), d = i % (TKV_D / 4) * 4;
        const Span seen = span_of(geometry, mine, m / P);
        const int first = seen.first / kSegment, count = seen.first > seen.last ? 0 : seen.last / kSegment - first + 1;
        const offset_t to = query_at(mine, m, H, P, group), at = (first - origin) * plane + to / TKV_D * kPitch;
        Four total = nothing();
        for (int n = 0; n < count; n += 4) {
            Four part[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) part[j] = n + j < count ? piece_at(pieces, at + (n + j) * plane, d) : nothing();
#pragma unroll
            for (int j = 0; j < 4; ++j)
                if (n + j < count) join(total, part[j]);
        }
        finish(out, to + d, total);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, TKV_BLOCKS) attention_decode_ragged(
    aliased_ptr<const Elem> q, aliased_ptr<const Elem> k_cache, aliased_ptr<const Elem> v_cache, aliased_ptr<Elem> out, aliased_ptr<float> pieces,
    aliased_ptr<unsigned> counters, global_ptr<const int> cu_seqlens, global_ptr<const int> row, global_ptr<const int> end,
    global_ptr<const int> lead_pad, int B, int H, int G, offset_t C, int window, float scale, offset_t T) {
    let_next_begin();
    SHARED_POOL(pool);
    auto held = pool.take<float>(kWarps * 16 * kPitch);
    auto values = pool.take<Elem>(kWarps * kBlock * kPitchV);
    auto answer = pool.take<unsigned>(1);
    const Geometry geometry{cu_seqlens, row, end, lead_pad, B, C, window};
    const BatchRow mine = batch_row(geometry, blockIdx.x / static_cast<unsigned>(G));
    const int group = static_cast<int>(blockIdx.x % static_cast<unsigned>(G)), slot = static_cast<int>(blockIdx.y);
    const int P = H / G, warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4;
    const Span all = union_of(span_of(geometry, mine, 0), span_of(geometry, mine, mine.count - 1));
    const Segments segments = segments_of(all);
    if (slot * kPerBlock >= segments.count) return;
    const bool alone = segments.count <= kPerBlock;  // this block sees the whole row: no merge through memory
    // guard[split]: segments and blocks are counted from position 0; a count from column 0 would move with the lead pad
    // mutant[split/from-column-zero]:
    //   - const int block_first = (segments.first + slot * kPerBlock) * kSegment + warp * kBlock;
    //   + const int block_first = (segments.first + slot * kPerBlock) * kSegment + warp * kBlock - mine.lead_pad % kBlock;
    const int block_first = (segments.first + slot * kPerBlock) * kSegment + warp * kBlock;

    const offset_t base = ((static_cast<offset_t>(mine.row) * G + group) * C + mine.lead_pad + block_first) * TKV_D;
    const Reach loaded = reach_in(all, block_first);
    const int mine_v = warp * kBlock * kPitchV;
    // The newest column may still be on its way here; the others are brought nearer meanwhile.
    for (int position = loaded.low + lane; position <= loaded.high; position += 32)
        for (int d = 0; d < TKV_D; d += 64) prefetch_line(k_cache, base + position * TKV_D + d), prefetch_line(v_cache, base + position * TKV_D + d);
    // q and the newest column are written by the kernel before this one, which may still run. The geometry is not: it came from the host.
    wait_for_previous();
    request_rows<kPitchV>(values, mine_v, v_cache, base, loaded, lane, 32);
    async_commit();
    auto k_words = [&](int position, int d) {
        // guard[dead-words]: as for V: what no query sees may lie outside the cache
        // mutant[dead-words/tail-removed]:
        //   - return words_at(k_cache, base + position * TKV_D + d, position >= loaded.low && position <= loaded.high && d < TKV_D);
        //   + return words_at(k_cache, base + position * TKV_D + d, position >= loaded.low && d < TKV_D);
        return words_at(k_cache, base + position * TKV_D + d, position >= loaded.low && position <= loaded.high && d < TKV_D);
    };

    for (int first_m = 0; first_m < mine.count * P; first_m += 16) {
        const Queries queries = load_queries(q, mine, first_m, H, P, group);
        float s[8][4];
        block_scores<2>(queries, s, k_words);
        Reach reach[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int m = first_m + g + 8 * r;
            reach[r] = m < mine.count * P ? reach_in(span_of(geometry, mine, m / P), block_first) : Reach{1, 0};
        }
        const BlockSoftmax soft = block_softmax(s, reach, scale);
        const int at = (warp * 16 + g) * kPitch;
        if (lane % 4 == 0) held[at + TKV_D] = soft.m[0], held[at + TKV_D + 1] = soft.l[0];
        if (lane % 4 == 0) held[at + 8 * kPitch + TKV_D] = soft.m[1], held[at + 8 * kPitch + TKV_D + 1] = soft.l[1];
        async_wait<0>();
        __syncwarp();  // each warp reads only the V that its own lanes asked for
#pragma unroll 1
        for (int chunk = 0; chunk < kDimChunks; ++chunk) {
            float acc[8][4];
            block_values(soft, chunk, acc, [&](int position, int d) { return words_at(values, mine_v + position * kPitchV + d, d < TKV_D); });
#pragma unroll
            for (int e = 0; e < 4; ++e)
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    if (dim_of(chunk, i, e) < TKV_D) held[at + e / 2 * 8 * kPitch + dim_of(chunk, i, e)] = acc[i][e];
        }
        // guard[sync-fold]: the four blocks of a segment were computed by four warps
        // mutant[sync-fold/removed]: sync
        //   - __syncthreads();
        //   + ;
        __syncthreads();
        const int rows = min(16, mine.count * P - first_m), here = min(kPerBlock, segments.count - slot * kPerBlock);
        for (int i = static_cast<int>(threadIdx.x); i < rows * (TKV_D / 4); i += kThreads) {
            const int m = i / (TKV_D / 4), d = i % (TKV_D / 4) * 4;
            const offset_t to = query_at(mine, first_m + m, H, P, group);
            Four total = nothing();
            for (int n = 0; n < here; ++n) {
                const Four sum = fold_segment(held, (4 * n * 16 + m) * kPitch, 16 * kPitch, d);
                if (alone) join(total, sum);
                else put_piece(pieces, ((slot * kPerBlock + n) * T * H + to / TKV_D) * kPitch, d, sum);
            }
            if (alone) finish(out, to + d, total);
        }
        __syncthreads();  // the next queries reuse `held`
    }
    const int blocks = (segments.count + kPerBlock - 1) / kPerBlock;
    if (!alone && last_to_arrive(counters, blockIdx.x, blocks, answer))
        merge_row(geometry, mine, pieces, out, H, P, group, segments.first, T * H * kPitch);
}
#endif
