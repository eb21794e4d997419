// One block of 64 positions on the tensor cores, for 16 queries at once: what decode and prefill share, so that their bits agree.
//
// M rows are (token, head of the group) pairs of one KV head: m = token * P + head, P = H / G. A lane holds rows g and g + 8.
// Head dim: a group of 32 dims per pair of mma steps for the scores, a chunk of 64 dims for the values; what lies past D is zero.
#include "common/geometry.cuh"
#include "common/mma.cuh"
#include "common/reduce.cuh"

constexpr int kDimGroups = (TKV_D + 31) / 32;
constexpr int kDimChunks = (TKV_D + 63) / 64;

constexpr bool kQueriesStay = TKV_D <= 128;  // in registers; larger ones are read again for every block

// Where the lane's two M rows of q start, and what of them is held. A operand of dims 32 c + 8 t .. + 7: rows g and g + 8.
struct Queries {
    global_ptr<const Elem> q;
    offset_t at[2];
    bool there[2];
    uint4 held[kQueriesStay ? kDimGroups : 1][2];

    __device__ __forceinline__ uint4 read(int c, int r) const {
        const int d = 32 * c + 8 * (static_cast<int>(threadIdx.x) % 4);
        if constexpr (kQueriesStay) return words_at(q, at[r] + d, there[r] && d < TKV_D);
        // guard[lanes-agree]: asked in the loop over blocks, the question is drawn around it, and on a GPU the warp waits for itself for ever
        // mutant[lanes-agree/asked]:
        //   - else return masked_words_at(q, at[r] + d, there[r] && d < TKV_D);
        //   + else return words_at(q, at[r] + d, there[r] && d < TKV_D);
        else return masked_words_at(q, at[r] + d, there[r] && d < TKV_D);
    }
    __device__ __forceinline__ uint4 words(int c, int r) const {
        if constexpr (kQueriesStay) return held[c][r];
        else return read(c, r);
    }
};

// The part of a block that one query sees, as offsets 0 .. 63; empty when low > high.
struct Reach {
    int low, high;
};

__device__ __forceinline__ Reach reach_in(Span seen, int block_first) {
    if (seen.first > seen.last) return {1, 0};
    return {max(seen.first - block_first, 0), min(seen.last - block_first, kBlock - 1)};
}

__device__ __forceinline__ Span union_of(Span a, Span b) {
    if (a.first > a.last) return b;
    if (b.first > b.last) return a;
    return {a.first < b.first ? a.first : b.first, a.last > b.last ? a.last : b.last};
}

// s[j][...]: scores of positions 8 j + 2 t, 8 j + 2 t + 1 for rows g, g + 8. k_words(position, dim) -> 8 elements of K.
// kAhead groups of 32 dims are loaded before the first is used: 2 from global memory, where a load takes long; 1 from shared.
template <int kAhead, class Words>
__device__ __forceinline__ void block_scores(const Queries& q, float (&s)[8][4], Words k_words) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[j][e] = 0.0f;
#pragma unroll
    for (int c0 = 0; c0 < kDimGroups; c0 += kAhead) {
        uint4 k[kAhead][8];
#pragma unroll
        for (int c = 0; c < kAhead && c0 + c < kDimGroups; ++c)
#pragma unroll
            for (int j = 0; j < 8; ++j) k[c][j] = k_words(8 * j + g, 32 * (c0 + c) + 8 * t);
#pragma unroll
        for (int c = 0; c < kAhead && c0 + c < kDimGroups; ++c) {
            const uint4 upper = q.words(c0 + c, 0), lower = q.words(c0 + c, 1);
#pragma unroll
            for (int pair = 0; pair < 2; ++pair)  // steps into the same sum are kept apart
#pragma unroll
                for (int j = 0; j < 8; ++j) mma_half(s[j], upper, lower, k[c][j], pair);
        }
    }
}

// Scores become probabilities rounded to storage, packed as A operands for the values; m and l of the lane's two rows.
struct BlockSoftmax {
    float m[2], l[2];
    unsigned p[4][4];
};

__device__ __forceinline__ float scaled(float score, float scale) {
#ifdef TKV_HOST
    return score * scale;
#else
    return __fmul_rn(score, scale);  // never fused with the subtraction that follows
#endif
}

__device__ __forceinline__ BlockSoftmax block_softmax(float (&s)[8][4], const Reach (&reach)[2], float scale) {
    const int t = static_cast<int>(threadIdx.x) % 4;
    BlockSoftmax out;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float m = minus_infinity(), l = 0.0f;
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int e = 2 * r; e < 2 * r + 2; ++e) {
                const int position = 8 * j + 2 * t + e % 2;
                // guard[unseen]: the future, the dead prefix and slack weigh nothing, whatever the tile had to load
                // mutant[unseen/zero-score]:
                //   - s[j][e] = position >= reach[r].low && position <= reach[r].high ? scaled(s[j][e], scale) : minus_infinity();
                //   + s[j][e] = position >= reach[r].low && position <= reach[r].high ? scaled(s[j][e], scale) : 0.0f;
                // mutant[unseen/sees-future]:
                //   - s[j][e] = position >= reach[r].low && position <= reach[r].high ? scaled(s[j][e], scale) : minus_infinity();
                //   + s[j][e] = position >= reach[r].low && position <= reach[r].high + 1 ? scaled(s[j][e], scale) : minus_infinity();
                s[j][e] = position >= reach[r].low && position <= reach[r].high ? scaled(s[j][e], scale) : minus_infinity();
                m = fmaxf(m, s[j][e]);
            }
        m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 1));
        m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, 2));
        const float top = m == minus_infinity() ? 0.0f : m;
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int e = 2 * r; e < 2 * r + 2; ++e) {
                s[j][e] = exp2f(s[j][e] - top);
                l += s[j][e];
            }
        l += __shfl_xor_sync(kAllLanes, l, 1);
        l += __shfl_xor_sync(kAllLanes, l, 2);
        out.m[r] = m, out.l[r] = l;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        out.p[i][0] = pack2(s[2 * i][0], s[2 * i][1]), out.p[i][1] = pack2(s[2 * i][2], s[2 * i][3]);
        out.p[i][2] = pack2(s[2 * i + 1][0], s[2 * i + 1][1]), out.p[i][3] = pack2(s[2 * i + 1][2], s[2 * i + 1][3]);
    }
    return out;
}

// The dims of one chunk of 64 that acc[i][e] of this lane stands for.
__device__ __forceinline__ int dim_of(int chunk, int i, int e) {
    return 64 * chunk + 16 * (static_cast<int>(threadIdx.x) % 4) + 8 * (e % 2) + i;
}

// acc = P * V over one block, for 64 dims, from zero. Lane (g, t) loads 8 dims of positions 2 t, 2 t + 1, 2 t + 8, 2 t + 9 and pairs
// neighbours; so column g of the i-th mma is dim 8 g + i.
template <class Words>
__device__ __forceinline__ void block_values(const BlockSoftmax& soft, int chunk, float (&acc)[8][4], Words v_words) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[i][e] = 0.0f;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        uint4 v[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) v[n] = v_words(16 * step + 2 * t + n % 2 + n / 2 * 8, 64 * chunk + 8 * g);
        const unsigned(&p)[4] = soft.p[step];
        mma_step(acc[0], p[0], p[1], p[2], p[3], lower_halves(v[0].x, v[1].x), lower_halves(v[2].x, v[3].x));
        mma_step(acc[1], p[0], p[1], p[2], p[3], upper_halves(v[0].x, v[1].x), upper_halves(v[2].x, v[3].x));
        mma_step(acc[2], p[0], p[1], p[2], p[3], lower_halves(v[0].y, v[1].y), lower_halves(v[2].y, v[3].y));
        mma_step(acc[3], p[0], p[1], p[2], p[3], upper_halves(v[0].y, v[1].y), upper_halves(v[2].y, v[3].y));
        mma_step(acc[4], p[0], p[1], p[2], p[3], lower_halves(v[0].z, v[1].z), lower_halves(v[2].z, v[3].z));
        mma_step(acc[5], p[0], p[1], p[2], p[3], upper_halves(v[0].z, v[1].z), upper_halves(v[2].z, v[3].z));
        mma_step(acc[6], p[0], p[1], p[2], p[3], lower_halves(v[0].w, v[1].w), lower_halves(v[2].w, v[3].w));
        mma_step(acc[7], p[0], p[1], p[2], p[3], upper_halves(v[0].w, v[1].w), upper_halves(v[2].w, v[3].w));
    }
}

// V in shared memory: 8 lanes read 32 bytes of rows 0, 2, 4, 6 at once, so rows lie 16 bytes apart modulo the 32 banks (128 bytes).
constexpr int kPitchV = (TKV_D + 55) / 64 * 64 + 8;
static_assert(kPitchV >= TKV_D, "rows must not overlap");

// Asks for 64 cached rows from `base` on, as far as they are in reach; the rest becomes zero and is not read.
template <int kPitch>
__device__ __forceinline__ void request_rows(
    shared_array<Elem> to, int at, global_ptr<const Elem> cache, offset_t base, const Reach& loaded, int thread, int threads) {
    constexpr int kPieces = TKV_D / 8;
    for (int i = thread; i < kBlock * kPieces; i += threads) {
        const int position = i / kPieces, d = i % kPieces * 8;
        // guard[dead-rows]: only what some query sees is read; the rest is zero without a look at memory
        // mutant[dead-rows/tail-removed]:
        //   - const bool seen = position >= loaded.low && position <= loaded.high;
        //   + const bool seen = position >= loaded.low;
        // mutant[dead-rows/head-removed]:
        //   - const bool seen = position >= loaded.low && position <= loaded.high;
        //   + const bool seen = position <= loaded.high;
        const bool seen = position >= loaded.low && position <= loaded.high;
        async_copy16(to, at + position * kPitch + d, cache, base + position * TKV_D + d, seen);
    }
}

// The element of q or out where M row m of KV head `group` starts; q, out [T, H, D].
__device__ __forceinline__ offset_t query_at(const BatchRow& r, int m, int H, int P, int group) {
    return (static_cast<offset_t>(r.first_token + m / P) * H + group * P + m % P) * TKV_D;
}

__device__ __forceinline__ Queries load_queries(global_ptr<const Elem> q, const BatchRow& r, int first_m, int H, int P, int group) {
    const int rows = r.count * P;
    Queries out;
    out.q = q;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int m = first_m + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * i;
        out.there[i] = m < rows;
        out.at[i] = m < rows ? query_at(r, m, H, P, group) : 0;
        if constexpr (kQueriesStay)
#pragma unroll
            for (int c = 0; c < kDimGroups; ++c) out.held[c][i] = out.read(c, i);
    }
    return out;
}
