// attention_decode_ragged: one query token per row (a few under speculation), each row at its own length.
// q [T, H, D], caches [R, G, C, D], cu_seqlens [B + 1], row, end, lead_pad [B] -> out [T, H, D].
// T tokens, B rows of the batch, R rows of the cache, H query heads, G KV heads, P = H / G heads per group, C columns, D head dim.
//
//   columns   0 1 2 3 4 5 ...                     end
//   row 0     . . . k k k k k k k k k k k k k k k k      '.' dead prefix: lead_pad columns, never read
//   row 1     . . . . . . . . . . . . k k k k k k k
//                   |<- segment 0: 256 ->|<- segment 1 ...   counted from the row's own first live column
//
// Grid (row b and KV head, slot). A block takes one segment of one row's live columns: 4 warps, one block of 64 positions each.
//   1. each warp: scores = Q K^T straight from global memory, softmax against its own maximum, acc = P V      (attention_block)
//   2. shared memory: the 4 pieces are folded in ascending order
//   3. a row of one segment is done; else the piece goes to `pieces` and attention_merge joins the segments in ascending order
// Nothing here depends on the other rows, on the lead pad or on how many segments the longest row has: bits neither.
// registers: spills 0
#if TKV_PATH == 0
#include "common/attention_simple.cuh"

extern "C" __global__ void __launch_bounds__(32) attention_decode_ragged_simple(
    global_ptr<const Elem> q, global_ptr<const Elem> k_cache, global_ptr<const Elem> v_cache, global_ptr<Elem> out, global_ptr<const int> cu_seqlens,
    global_ptr<const int> row, global_ptr<const int> end, global_ptr<const int> lead_pad, int B, int H, int G, offset_t C, offset_t window, float scale) {
    attention_simple_body(q, k_cache, v_cache, out, Geometry{cu_seqlens, row, end, lead_pad, B, C, window}, H, G, scale);
}
#endif
#if TKV_PATH == 1
#include "common/attention_block.cuh"

constexpr int kPitch = TKV_D + 4;  // floats per M row of a piece: its acc, then m and l

// The fold of up to `count` pieces of one M row, at stride `stride`, for dim d. m and l come out too.
struct Folded {
    float m, l, acc;
};
template <class P>
__device__ __forceinline__ Folded fold_pieces(P pieces, offset_t at, offset_t stride, int count, int d) {
    Folded f{minus_infinity(), 0.0f, 0.0f};
    for (int i = 0; i < count; ++i, at += stride) {
        const float m = pieces[at + TKV_D], l = pieces[at + TKV_D + 1], acc = pieces[at + d];
        const Weights w = merge_weights(f.m, m);
        f = {w.m, weighted(f.l, l, w), weighted(f.acc, acc, w)};
    }
    return f;
}

__device__ __forceinline__ float finish(const Folded& f) { return f.l > 0.0f ? f.acc / f.l : 0.0f; }

// The first segment any query of the row looks at; slot 0 stands for it.
__device__ __forceinline__ offset_t first_segment(const Geometry& geometry, const BatchRow& r) { return span_of(geometry, r, 0).first / kSegment; }

extern "C" __global__ void __launch_bounds__(128, TKV_BLOCKS) attention_decode_ragged(
    global_ptr<const Elem> q, global_ptr<const Elem> k_cache, global_ptr<const Elem> v_cache, global_ptr<Elem> out, global_ptr<float> pieces,
    global_ptr<const int> cu_seqlens, global_ptr<const int> row, global_ptr<const int> end, global_ptr<const int> lead_pad,
    int B, int H, int G, offset_t C, offset_t window, float scale, offset_t T) {
    SHARED_POOL(pool);
    auto held = pool.take<float>(4 * 16 * kPitch);
    const Geometry geometry{cu_seqlens, row, end, lead_pad, B, C, window};
    const BatchRow mine = batch_row(geometry, blockIdx.x / static_cast<unsigned>(G));
    const offset_t group = blockIdx.x % static_cast<unsigned>(G);
    const int P = H / G, warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4;
    const Span oldest = span_of(geometry, mine, 0), newest = span_of(geometry, mine, mine.count - 1), all = union_of(oldest, newest);
    // guard[split]: segments are counted from the row's first live position; a count from column 0 would move with the lead pad
    // mutant[split/from-column-zero]:
    //   - const offset_t segment = first_segment(geometry, mine) + blockIdx.y, block_first = segment * kSegment + warp * kBlock;
    //   + const offset_t segment = first_segment(geometry, mine) + blockIdx.y, block_first = segment * kSegment + warp * kBlock - mine.lead_pad % kBlock;
    const offset_t segment = first_segment(geometry, mine) + blockIdx.y, block_first = segment * kSegment + warp * kBlock;
    if (blockIdx.y > 0 && segment * kSegment > all.last) return;
    const bool alone = all.last < (first_segment(geometry, mine) + 1) * kSegment;  // the row lies in one segment: no merge

    const offset_t base = ((mine.row * G + group) * C + mine.lead_pad + block_first) * TKV_D;
    const Reach loaded = reach_in(all, block_first);
    auto words = [&](global_ptr<const Elem> cache, int position, int d) {
        // guard[dead-words]: only what some query of this row sees is read; the rest is zero without a look at memory
        // mutant[dead-words/tail-removed]:
        //   - return words_at(cache, base + position * TKV_D + d, position >= loaded.low && position <= loaded.high && d < TKV_D);
        //   + return words_at(cache, base + position * TKV_D + d, position >= loaded.low && d < TKV_D);
        // mutant[dead-words/head-removed]:
        //   - return words_at(cache, base + position * TKV_D + d, position >= loaded.low && position <= loaded.high && d < TKV_D);
        //   + return words_at(cache, base + position * TKV_D + d, position <= loaded.high && d < TKV_D);
        return words_at(cache, base + position * TKV_D + d, position >= loaded.low && position <= loaded.high && d < TKV_D);
    };

    for (offset_t first_m = 0; first_m < mine.count * P; first_m += 16) {
        const Queries queries = load_queries(q, mine, first_m, H, P, group);
        float s[8][4];
        block_scores(queries, s, [&](int position, int d) { return words(k_cache, position, d); });
        Reach reach[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const offset_t m = first_m + g + 8 * r;
            reach[r] = m < mine.count * P ? reach_in(span_of(geometry, mine, m / P), block_first) : Reach{1, 0};
        }
        const BlockSoftmax soft = block_softmax(s, reach, scale);
        const int at = (warp * 16 + g) * kPitch;
        if (lane % 4 == 0) held[at + TKV_D] = soft.m[0], held[at + TKV_D + 1] = soft.l[0];
        if (lane % 4 == 0) held[at + 8 * kPitch + TKV_D] = soft.m[1], held[at + 8 * kPitch + TKV_D + 1] = soft.l[1];
#pragma unroll 1
        for (int chunk = 0; chunk < kDimChunks; ++chunk) {
            float acc[8][4];
            block_values(soft, chunk, acc, [&](int position, int d) { return words(v_cache, position, d); });
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
        const int rows = static_cast<int>(min(static_cast<offset_t>(16), mine.count * P - first_m));
        for (int i = static_cast<int>(threadIdx.x); i < rows * TKV_D; i += 128) {
            const int m = i / TKV_D, d = i % TKV_D;
            const Folded f = fold_pieces(held, m * kPitch, 16 * kPitch, 4, d);
            const offset_t token_head = query_at(mine, first_m + m, H, P, group) / TKV_D;
            const offset_t slot = (blockIdx.y * T * H + token_head) * kPitch;
            if (alone) out[token_head * TKV_D + d] = to_elem(finish(f));
            else pieces[slot + d] = f.acc;
            if (!alone && d == 0) pieces[slot + TKV_D] = f.m, pieces[slot + TKV_D + 1] = f.l;
        }
        __syncthreads();  // the next queries reuse `held`
    }
}

// Joins the segments of rows that have more than one. Grid (row b and query head); a thread takes dims d, d + blockDim.x, ...
extern "C" __global__ void __launch_bounds__(64) attention_merge(
    global_ptr<const float> pieces, global_ptr<Elem> out, global_ptr<const int> cu_seqlens, global_ptr<const int> row, global_ptr<const int> end,
    global_ptr<const int> lead_pad, int B, int H, offset_t C, offset_t window, offset_t T) {
    const Geometry geometry{cu_seqlens, row, end, lead_pad, B, C, window};
    const BatchRow mine = batch_row(geometry, blockIdx.x / static_cast<unsigned>(H));
    const offset_t head = blockIdx.x % static_cast<unsigned>(H);
    const offset_t origin = first_segment(geometry, mine);
    if (union_of(span_of(geometry, mine, 0), span_of(geometry, mine, mine.count - 1)).last < (origin + 1) * kSegment) return;
    for (offset_t i = 0; i < mine.count; ++i) {
        const Span seen = span_of(geometry, mine, i);
        const offset_t first = seen.first / kSegment - origin, last = seen.first > seen.last ? first - 1 : seen.last / kSegment - origin;
        const offset_t token_head = (mine.first_token + i) * H + head;
        for (int d = static_cast<int>(threadIdx.x); d < TKV_D; d += static_cast<int>(blockDim.x)) {
            const Folded f = fold_pieces(pieces, (first * T * H + token_head) * kPitch, T * H * kPitch, static_cast<int>(last - first + 1), d);
            out[token_head * TKV_D + d] = to_elem(finish(f));
        }
    }
}
#endif
