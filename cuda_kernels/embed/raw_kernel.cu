// embed: tokens [T], table [V, K] -> out [T, K]. One block per token; each thread copies TKV_VEC elements at a time.
// registers: spills 0
#include "common/element.cuh"

extern "C" __global__ void embed(global_ptr<const int> tokens, global_ptr<const Elem> table, global_ptr<Elem> out, offset_t vocabulary, int K) {
    const offset_t token_index = blockIdx.x;
    const offset_t token = tokens[token_index];
    // guard[embed-range]: an id outside the table must be seen, not read from the neighbour's memory: the row becomes NaN
    // mutant[embed-range/unchecked]:
    //   - const bool known = token >= 0 && token < vocabulary;
    //   + const bool known = true;
    const bool known = token >= 0 && token < vocabulary;
    for (int k = static_cast<int>(threadIdx.x) * TKV_VEC; k < K; k += static_cast<int>(blockDim.x) * TKV_VEC) {
        Floats<TKV_VEC> values;
#pragma unroll
        for (int i = 0; i < TKV_VEC; ++i) values.v[i] = __uint_as_float(0x7fffffffu);
        if (known) values = load<TKV_VEC>(table, token * K + k);
        store<TKV_VEC>(out, token_index * K + k, values);
    }
}
