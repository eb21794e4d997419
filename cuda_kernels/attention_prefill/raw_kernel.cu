// attention_prefill: prompts or chunks of them, packed on the token axis, cached prefix or not.
// q [T, H, D], caches [R, G, C, D], cu_seqlens [B + 1], row, end, lead_pad [B] -> out [T, H, D].
// T tokens, B rows of the batch, R rows of the cache, H query heads, G KV heads, P = H / G heads per group, C columns, D head dim.
//
// A block takes 64 M rows (token, head of the group) of one row and one KV head; its 4 warps have 16 each. Blocks of 64 positions
// of K and V pass through shared memory, the next one loaded by cp.async while this one is used. Per warp the same steps as in
// decode: pieces of a block, folded into the segment, segments merged into the total; so the bits are the same.
// registers: spills 640 (head dims 128 and 256: outside the loop over blocks)
#if TKV_PATH == 0
#include "common/attention_simple.cuh"

extern "C" __global__ void __launch_bounds__(32) attention_prefill_simple(
    global_ptr<const Elem> q, global_ptr<const Elem> k_cache, global_ptr<const Elem> v_cache, global_ptr<Elem> out, global_ptr<const int> cu_seqlens,
    global_ptr<const int> row, global_ptr<const int> end, global_ptr<const int> lead_pad, int B, int H, int G, offset_t C, int window, float scale) {
    attention_simple_body(q, k_cache, v_cache, out, Geometry{cu_seqlens, row, end, lead_pad, B, C, window}, H, G, scale);
}
#endif
#if TKV_PATH == 1
#include "common/attention_block.cuh"

constexpr int kTileRows = 64;  // M rows per block
constexpr int kThreads = 128;

// K in shared memory: 8 lanes read 2 rows x 64 bytes at once, so rows lie 64 bytes apart modulo the 32 banks (128 bytes).
constexpr int kPitchK = (TKV_D + 31) / 64 * 64 + 32;
static_assert(kPitchK >= TKV_D, "rows must not overlap");

// First tile of row b when every row starts a new tile: floor(cu P / 64) + b leaves room for ceil(n P / 64) tiles.
__device__ __forceinline__ offset_t first_tile(const Geometry& geometry, offset_t b, int P) {
    return static_cast<offset_t>(geometry.cu_seqlens[b]) * P / kTileRows + b;
}

// Softmax so far of the lane's two rows, and their weighted sum of V.
struct Running {
    float m[2], l[2], acc[kDimChunks][8][4];
};

__device__ __forceinline__ void clear(Running& r) {
#pragma unroll
    for (int i = 0; i < 2; ++i) r.m[i] = minus_infinity(), r.l[i] = 0.0f;
#pragma unroll
    for (int c = 0; c < kDimChunks; ++c)
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) r.acc[c][i][e] = 0.0f;
}

// Takes one block's piece into the segment.
template <class Words>
__device__ __forceinline__ void fold_block(Running& segment, const BlockSoftmax& soft, Words v_words) {
    Weights w[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        w[r] = merge_weights(segment.m[r], soft.m[r]);
        segment.m[r] = w[r].m, segment.l[r] = weighted(segment.l[r], soft.l[r], w[r]);
    }
#pragma unroll
    for (int chunk = 0; chunk < kDimChunks; ++chunk) {
        float acc[8][4];
        block_values(soft, chunk, acc, v_words);
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) segment.acc[chunk][i][e] = weighted(segment.acc[chunk][i][e], acc[i][e], w[e / 2]);
    }
}

// The row's total lives in shared memory, each thread at its own places: registers are short, and it is touched once in 256 positions.
struct Total {
    float m[2], l[2];
    __device__ __forceinline__ static int place(int chunk, int i, int e) { return ((chunk * 8 + i) * 4 + e) * kThreads + static_cast<int>(threadIdx.x); }
};

__device__ __forceinline__ void merge_segment(Total& total, shared_array<float> acc, const Running& segment) {
    Weights w[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        w[r] = merge_weights(total.m[r], segment.m[r]);
        total.m[r] = w[r].m, total.l[r] = weighted(total.l[r], segment.l[r], w[r]);
    }
#pragma unroll
    for (int c = 0; c < kDimChunks; ++c)
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int at = Total::place(c, i, e);
                acc[at] = weighted(acc[at], segment.acc[c][i][e], w[e / 2]);
            }
}

extern "C" __global__ void __launch_bounds__(128, TKV_BLOCKS) attention_prefill(
    global_ptr<const Elem> q, global_ptr<const Elem> k_cache, global_ptr<const Elem> v_cache, global_ptr<Elem> out, global_ptr<const int> cu_seqlens,
    global_ptr<const int> row, global_ptr<const int> end, global_ptr<const int> lead_pad, int B, int H, int G, offset_t C, int window, float scale) {
    constexpr int kStage = kBlock * (kPitchK + kPitchV);
    SHARED_POOL(pool);
    auto stages = pool.take<Elem>(TKV_STAGES * kStage);
    auto sums = pool.take<float>(kDimChunks * 32 * kThreads);
    const Geometry geometry{cu_seqlens, row, end, lead_pad, B, C, window};
    const int P = H / G, warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4;
    const int group = static_cast<int>(blockIdx.x % static_cast<unsigned>(G));
    const offset_t tile = blockIdx.x / static_cast<unsigned>(G), b = find_row(B, tile, [&](offset_t i) { return first_tile(geometry, i, P); });
    const BatchRow mine = batch_row(geometry, b);
    const int tile_m = static_cast<int>(tile - first_tile(geometry, b, P)) * kTileRows, rows = mine.count * P;
    if (tile_m >= rows) return;
    const int last_m = min(tile_m + kTileRows, rows) - 1, first_m = tile_m + 16 * warp;
    const Span all = union_of(span_of(geometry, mine, tile_m / P), span_of(geometry, mine, last_m / P));
    Span seen[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int m = first_m + g + 8 * r;
        seen[r] = m < rows ? span_of(geometry, mine, m / P) : Span{0, -1};
    }

    const offset_t base = ((static_cast<offset_t>(mine.row) * G + group) * C + mine.lead_pad) * TKV_D;
    const int first_block = all.first / kBlock, blocks = all.first > all.last ? 0 : all.last / kBlock - first_block + 1;
    auto request = [&](int n) {
        if (n < blocks) {
            const int first = (first_block + n) * kBlock, at = n % TKV_STAGES * kStage;
            const Reach loaded = reach_in(all, first);
            request_rows<kPitchK>(stages, at, k_cache, base + static_cast<offset_t>(first) * TKV_D, loaded, static_cast<int>(threadIdx.x), kThreads);
            request_rows<kPitchV>(stages, at + kBlock * kPitchK, v_cache, base + static_cast<offset_t>(first) * TKV_D, loaded, static_cast<int>(threadIdx.x), kThreads);
        }
        async_commit();
    };
    for (int n = 0; n < TKV_STAGES - 1; ++n) request(n);
    const Queries queries = load_queries(q, mine, first_m, H, P, group);
    Running segment;
    clear(segment);
    Total total{{minus_infinity(), minus_infinity()}, {0.0f, 0.0f}};
    for (int i = 0; i < kDimChunks * 32; ++i) sums[i * kThreads + static_cast<int>(threadIdx.x)] = 0.0f;

    for (int n = 0; n < blocks; ++n) {
        __syncthreads();  // all warps are done with the stage that is requested next
        request(n + TKV_STAGES - 1);
        async_wait<TKV_STAGES - 1>();
        // guard[sync-stage]: a warp reads what all threads of the block have loaded
        // mutant[sync-stage/removed]: sync
        //   - __syncthreads();
        //   + ;
        __syncthreads();
        const int block = first_block + n, at = n % TKV_STAGES * kStage;
        const Reach reach[2] = {reach_in(seen[0], block * kBlock), reach_in(seen[1], block * kBlock)};
        float s[8][4];
        // Dims past D are not in shared memory; they are zero for both sides.
        block_scores<1>(queries, s, [&](int position, int d) { return words_at(stages, at + position * kPitchK + d, d < TKV_D); });
        const BlockSoftmax soft = block_softmax(s, reach, scale);
        fold_block(segment, soft, [&](int position, int d) { return words_at(stages, at + kBlock * kPitchK + position * kPitchV + d, d < TKV_D); });
        if ((block + 1) % (kSegment / kBlock) == 0 || n + 1 == blocks) {
            merge_segment(total, sums, segment);
            clear(segment);
        }
    }
#pragma unroll
    for (int c = 0; c < kDimChunks; ++c)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int m = first_m + g + e / 2 * 8;
            if (m >= rows) continue;
            const offset_t to = query_at(mine, m, H, P, group);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if (dim_of(c, i, e) < TKV_D) out[to + dim_of(c, i, e)] = to_elem(total.l[e / 2] > 0.0f ? sums[Total::place(c, i, e)] / total.l[e / 2] : 0.0f);
        }
}
#endif
