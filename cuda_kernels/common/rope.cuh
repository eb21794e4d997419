// Rotation of one pair of dims by an angle; rope_and_append and the fused kernel share it, so that their bits agree.
// Source: Su et al. 2021, RoFormer, with dimensions i and i + D/2 as a pair.
#include "common/element.cuh"

struct Pair {
    float low, high;
};

// a * b + c * d. Rounding is written out, or the compiler would fuse either product, here this one and there that.
__device__ __forceinline__ float two_products(float a, float b, float c, float d) {
#ifdef TKV_HOST
    return fmaf(a, b, c * d);
#else
    return __fmaf_rn(a, b, __fmul_rn(c, d));
#endif
}

__device__ __forceinline__ Pair turn(Pair x, float c, float s) { return {two_products(x.low, c, -x.high, s), two_products(x.high, c, x.low, s)}; }
