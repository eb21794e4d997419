// Root mean square normalisation of one row held by one group of threads.
// Rounding points: the stream x after the residual add; the result, once. Between them float32.
// Source: Zhang and Sennrich 2019, Root Mean Square Layer Normalization.
#include "common/element.cuh"
#include "common/reduce.cuh"

__device__ __forceinline__ float inverse_rms(float sum_of_squares, int count, float eps) {
    return 1.0f / sqrtf(sum_of_squares / static_cast<float>(count) + eps);
}
