// The tensor-core step the raw kernels share: C [16, 8] += A [16, 16] * B [16, 8], float32 sums, one warp.
//
// Lane = 4 g + t holds of A rows g and g + 8, of B column g, of C rows g and g + 8 at columns 2 t and 2 t + 1; along k it holds the
// pairs at 2 t and 2 t + 8. The sum over k may run in any order as long as A and B agree, so a lane loads 8 neighbouring k at once
// (16 bytes, k = 8 t .. 8 t + 7 of a group of 32) and feeds words 0, 1 to one step and words 2, 3 to the next. No ldmatrix, no
// shuffles, and global memory can feed the tensor cores directly.
#include "common/element.cuh"

__device__ __forceinline__ void mma_step(
    float (&c)[4], unsigned a_low_g, unsigned a_low_g8, unsigned a_high_g, unsigned a_high_g8, unsigned b_low, unsigned b_high) {
#ifdef TKV_HOST
    const unsigned mine[6] = {a_low_g, a_low_g8, a_high_g, a_high_g8, b_low, b_high};
    const unsigned char* all = host::warp_exchange(0xffffffffu, mine, sizeof mine, __FILE__, __LINE__);
    const int lane = host::lane_id(), g = lane / 4, t = lane % 4;
    auto element = [&](int from_lane, int word, int half) {
        unsigned packed;
        std::memcpy(&packed, all + 96 * from_lane + 4 * word, 4);
        Elem e;
        const unsigned short bits = static_cast<unsigned short>(packed >> (16 * half));
        std::memcpy(&e, &bits, 2);
        return to_float(e);
    };
    for (int i = 0; i < 4; ++i) {
        const int row8 = i / 2, column = 2 * t + i % 2;
        for (int k = 0; k < 16; ++k) {
            const int quad = k % 8 / 2, upper = k / 8;
            c[i] = fmaf(element(4 * g + quad, 2 * upper + row8, k % 2), element(4 * column + quad, 4 + upper, k % 2), c[i]);
        }
    }
#elif TKV_DTYPE == 1 && __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a_low_g), "r"(a_low_g8), "r"(a_high_g), "r"(a_high_g8), "r"(b_low), "r"(b_high));
#elif TKV_DTYPE == 2 && __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a_low_g), "r"(a_low_g8), "r"(a_high_g), "r"(a_high_g8), "r"(b_low), "r"(b_high));
#endif
}

// One of the two steps that 16-byte loads make: words 0, 1 or words 2, 3.
__device__ __forceinline__ void mma_half(float (&c)[4], const uint4& a_g, const uint4& a_g8, const uint4& b, int pair) {
    if (pair == 0) mma_step(c, a_g.x, a_g8.x, a_g.y, a_g8.y, b.x, b.y);
    else mma_step(c, a_g.z, a_g8.z, a_g.w, a_g8.w, b.z, b.w);
}

// A's words of one of the two steps, in registers of their own, for several B. `zero` is 0, but only the launch knows: a plain copy
// counts as free for the compiler, which makes it anew before every step (216 copies for 64 steps in linear_tiles); an XOR it makes once.
struct AWords {
    unsigned low_g, low_g8, high_g, high_g8;
};
__device__ __forceinline__ AWords a_words(const uint4& a_g, const uint4& a_g8, int pair, unsigned zero) {
    if (pair == 0) return {a_g.x ^ zero, a_g8.x ^ zero, a_g.y ^ zero, a_g8.y ^ zero};
    return {a_g.z ^ zero, a_g8.z ^ zero, a_g.w ^ zero, a_g8.w ^ zero};
}
__device__ __forceinline__ void mma_step(float (&c)[4], const AWords& a, const uint4& b, int pair) {
    mma_step(c, a.low_g, a.low_g8, a.high_g, a.high_g8, pair == 0 ? b.x : b.z, pair == 0 ? b.y : b.w);
}

// Eight elements, or zeros where there is nothing to read.
template <class P>
__device__ __forceinline__ uint4 words_at(P p, offset_t at, bool valid) {
    return valid ? vec_at<uint4>(p, at) : make_uint4(0u, 0u, 0u, 0u);
}

// The same without a branch: every lane reads, element 0 if need be, and `valid` becomes a mask the compiler cannot look into. For a
// question whose answer stays the same through a loop: the compiler may draw it around the loop, tensor-core steps and all, and a warp
// whose lanes are in both halves waits for itself for ever. (So it was with attention_prefill of head dims above 128.)
template <class P>
__device__ __forceinline__ uint4 masked_words_at(P p, offset_t at, bool valid) {
#ifdef TKV_HOST
    return words_at(p, at, valid);
#else
    unsigned keep = valid ? 0xffffffffu : 0u;
    asm("" : "+r"(keep));
    const uint4 words = vec_at<uint4>(p, at & static_cast<int>(keep));
    return make_uint4(words.x & keep, words.y & keep, words.z & keep, words.w & keep);
#endif
}

// Two halves of different words side by side: the lower halves, or the upper ones.
__device__ __forceinline__ unsigned lower_halves(unsigned a, unsigned b) { return (a & 0xffffu) | (b << 16); }
__device__ __forceinline__ unsigned upper_halves(unsigned a, unsigned b) { return (a >> 16) | (b & 0xffff0000u); }
