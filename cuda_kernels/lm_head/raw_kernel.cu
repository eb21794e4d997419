// lm_head: the kernels of linear with float32 output and no epilogue terms. x [T, K], w [V, K] -> out [T, V].
// registers: spills 0
#include "common/linear_simple.cuh"

extern "C" __global__ void __launch_bounds__(256) linear_simple(
    global_ptr<const Elem> x, global_ptr<const Elem> w, global_ptr<const Elem> bias, global_ptr<const Elem> gate, global_ptr<const Elem> residual,
    global_ptr<Out> out, offset_t T, offset_t N, int K, int chunk) {
    linear_simple_body(x, w, Epilogue{bias, gate, residual, out, N}, T, K, chunk);
}
