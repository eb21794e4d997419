// Softmax in pieces. The rule that prefill and decode, every window and every split share, so that their bits agree:
//
//   block    64 positions: m = its own maximum, l = sum of 2^(s - m), acc = sum of round(2^(s - m)) * v, each from zero
//   segment  the fold of its 4 blocks, ascending
//   row      the merge of its segments, ascending; the result is acc / l
//
// Fold and merge are the same step. Scores are in units of log 2, so the exponential is 2^x. A piece that saw nothing has m = -inf
// and l = 0, and leaves the other side exactly as it was.
// Source: Milakov and Gimelshein 2018, Online normalizer calculation for softmax.
#include "common/words.cuh"

constexpr int kBlock = 64;               // positions
constexpr int kSegment = 4 * kBlock;     // positions
constexpr float kLog2E = 1.4426950408889634f;

__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

// How much each side of a merge counts. Subtracting -inf from -inf would be NaN; a side that saw nothing counts 0.
struct Weights {
    float m, left, right;
};

__device__ __forceinline__ Weights merge_weights(float left_m, float right_m) {
    const float m = fmaxf(left_m, right_m);
    const float base = m == minus_infinity() ? 0.0f : m;
    return {m, exp2f(left_m - base), exp2f(right_m - base)};
}

// Rounding is written out, or the compiler would fuse differently in different places.
__device__ __forceinline__ float weighted(float left, float right, const Weights& w) {
#ifdef TKV_HOST
    return fmaf(right, w.right, left * w.left);
#else
    return __fmaf_rn(right, w.right, __fmul_rn(left, w.left));
#endif
}

// The positions a query sees: [first, last], last inclusive; empty when first > last. Positions fit an int; offsets do not.
struct Span {
    int first, last;
};

// Position = column - lead_pad. A negative lead_pad is a ring whose column 0 holds position -lead_pad.
__device__ __forceinline__ Span visible(int column, int lead_pad, int window) {
    int first = lead_pad > 0 ? lead_pad : 0;
    // guard[kernel-window]: a query sees exactly `window` keys, itself among them
    // mutant[kernel-window/one-too-wide]:
    //   - if (window > 0 && column + 1 - window > first) first = column + 1 - window;
    //   + if (window > 0 && column - window > first) first = column - window;
    if (window > 0 && column + 1 - window > first) first = column + 1 - window;
    return {first - lead_pad, column - lead_pad};
}
