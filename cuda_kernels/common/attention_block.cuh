// One block of 64 positions on the tensor cores, for 16 queries at once: what decode and prefill share, so that their bits agree.
//
// M rows are (token, head of the group) pairs of one KV head: m = token * P + head, P = H / G. A lane holds rows g and g + 8.
// Head dim: a group of 32 dims per pair of mma steps for the scores, a chunk of 64 dims for the values; what lies past D is zero.
#include "common/geometry.cuh"
#include "common/mma.cuh"
#include "common/reduce.cuh"

constexpr int kDimGroups = (TKV_D + 31) / 32;
constexpr int kDimChunks = (TKV_D + 63) / 64;

// Queries of 16 M rows as A operands: word i of dims 32 c + 8 t .. + 7, rows g and g + 8.
struct Queries {
    uint4 upper[kDimGroups], lower[kDimGroups];
};

// The part of a block that one query sees, as offsets 0 .. 63; empty when low > high.
struct Reach {
    int low, high;
};

__device__ __forceinline__ Reach reach_in(Span seen, offset_t block_first) {
    const offset_t low = seen.first - block_first, high = seen.last - block_first;
    if (low > high) return {1, 0};
    return {static_cast<int>(low < 0 ? 0 : low > kBlock ? kBlock : low), static_cast<int>(high < -1 ? -1 : high >= kBlock ? kBlock - 1 : high)};
}

__device__ __forceinline__ Span union_of(Span a, Span b) {
    if (a.first > a.last) return b;
    if (b.first > b.last) return a;
    return {a.first < b.first ? a.first : b.first, a.last > b.last ? a.last : b.last};
}

// s[j][...]: scores of positions 8 j + 2 t, 8 j + 2 t + 1 for rows g, g + 8. k_words(position, dim) -> 8 elements of K.
template <class Words>
__device__ __forceinline__ void block_scores(const Queries& q, float (&s)[8][4], Words k_words) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[j][e] = 0.0f;
#pragma unroll
        for (int c = 0; c < kDimGroups; ++c) mma_32(s[j], q.upper[c], q.lower[c], k_words(8 * j + g, 32 * c + 8 * t));
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

// The element of q or out where M row m of KV head `group` starts; q, out [T, H, D].
__device__ __forceinline__ offset_t query_at(const BatchRow& r, offset_t m, int H, int P, offset_t group) {
    return ((r.first_token + m / P) * H + group * P + m % P) * TKV_D;
}

__device__ __forceinline__ Queries load_queries(global_ptr<const Elem> q, const BatchRow& r, offset_t first_m, int H, int P, offset_t group) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const offset_t rows = r.count * P, m = first_m + g;
    Queries out;
#pragma unroll
    for (int c = 0; c < kDimGroups; ++c) {
        const int d = 32 * c + 8 * t;
        out.upper[c] = words_at(q, m < rows ? query_at(r, m, H, P, group) + d : 0, m < rows && d < TKV_D);
        out.lower[c] = words_at(q, m + 8 < rows ? query_at(r, m + 8, H, P, group) + d : 0, m + 8 < rows && d < TKV_D);
    }
    return out;
}
