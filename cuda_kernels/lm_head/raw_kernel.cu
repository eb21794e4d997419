// lm_head: the kernels of linear with float32 output and no epilogue terms. x [T, K], w [V, K] -> out [T, V].
// Three kernels, one result: which of them runs depends on T, the bits of a row do not. TKV_PATH chooses what is compiled:
// 0 simple (float32, odd K, before sm_80), 1 rows (few tokens), 2 tiles (many tokens).
// registers: spills 96 (slow path of a division in linear_simple)
#if TKV_PATH == 0
#include "common/linear_simple.cuh"

extern "C" __global__ void __launch_bounds__(256) linear_simple(
    global_ptr<const Elem> x, global_ptr<const Elem> w, global_ptr<const Elem> bias, global_ptr<const Elem> gate, global_ptr<const Elem> residual,
    global_ptr<Out> out, offset_t T, offset_t N, int K, int chunk) {
    linear_simple_body(x, w, Epilogue{bias, gate, residual, out, N}, T, K, chunk);
}
#endif
#if TKV_PATH == 1
#include "common/linear_rows.cuh"

extern "C" __global__ void __launch_bounds__(512) linear_rows(
    global_ptr<const Elem> x, global_ptr<const Elem> w, global_ptr<const Elem> bias, global_ptr<const Elem> gate, global_ptr<const Elem> residual,
    global_ptr<Out> out, offset_t T, offset_t N, int K, int chunk, int chunks) {
    linear_rows_body(x, w, Epilogue{bias, gate, residual, out, N}, T, K, chunk, chunks);
}
#endif
#if TKV_PATH == 2
#include "common/linear_tiles.cuh"

extern "C" __global__ void __launch_bounds__(TKV_THREADS, 1) linear_tiles(
    aliased_ptr<const Elem> x, global_ptr<const Elem> w, global_ptr<const Elem> bias, aliased_ptr<const Elem> gate, aliased_ptr<const Elem> residual,
    aliased_ptr<Out> out, aliased_ptr<float> partial, offset_t T, offset_t N, int K, int chunk, int chunks) {
    linear_tiles_body(x, w, Epilogue{bias, gate, residual, out, N}, partial, T, K, chunk, chunks);
}

extern "C" __global__ void __launch_bounds__(256) linear_reduce(
    aliased_ptr<const float> partial, global_ptr<const Elem> bias, aliased_ptr<const Elem> gate, aliased_ptr<const Elem> residual, aliased_ptr<Out> out,
    offset_t T, offset_t N, int chunks) {
    linear_reduce_body(partial, Epilogue{bias, gate, residual, out, N}, T, chunks);
}
#endif
