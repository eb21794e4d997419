// kv_align: copy M runs of `length` columns from src [Rs, G, Cs, D] to dst [Rd, G, Cd, D]. A run of one head is contiguous memory.
//
//   shift right by 2      a b c d . .        the last chunk goes first, so no source is overwritten before it is read
//                         . . a b c d
//
// src may be dst and a run may overlap itself. One block per (move, head): chunk by chunk, all loads of a chunk before its stores.
// registers: spills 0
#include "common/copy.cuh"

constexpr int kWords = 4;  // per thread and chunk

// src and dst may be one buffer. Declared as unaliased, a load was once moved behind the barrier and read what its neighbour had
// already overwritten: right in every plain run, wrong only under a checker that changed the timing.
extern "C" __global__ void __launch_bounds__(TKV_THREADS) kv_align(
    aliased_ptr<const Elem> src, global_ptr<const int> src_row, global_ptr<const int> src_col, aliased_ptr<Elem> dst, global_ptr<const int> dst_row,
    global_ptr<const int> dst_col, global_ptr<const int> length, offset_t G, offset_t Cs, offset_t Cd) {
    const offset_t move = blockIdx.x / G, g = blockIdx.x % G;
    const offset_t from = ((src_row[move] * G + g) * Cs + src_col[move]) * TKV_D;
    const offset_t to = ((dst_row[move] * G + g) * Cd + dst_col[move]) * TKV_D;
    const offset_t words = static_cast<offset_t>(length[move]) * TKV_D / TKV_COPY;
    constexpr int kChunk = kWords * TKV_THREADS;
    const offset_t chunks = (words + kChunk - 1) / kChunk;
    // guard[shift-order]: a run shifted right over itself is copied from its end, else it repeats its head
    // mutant[shift-order/always-forward]:
    //   - const bool backward = to > from;
    //   + const bool backward = false;
    const bool backward = to > from;

    for (offset_t n = 0; n < chunks; ++n) {
        const offset_t first = (backward ? chunks - 1 - n : n) * kChunk + threadIdx.x;
        CopyWord held[kWords];
#pragma unroll
        for (int i = 0; i < kWords; ++i)
            if (first + i * TKV_THREADS < words) held[i] = vec_at<CopyWord>(src, from + (first + i * TKV_THREADS) * TKV_COPY);
        // guard[sync-align]: a neighbour's source may lie under this thread's target
        // mutant[sync-align/removed]: sync
        //   - __syncthreads();
        //   + ;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kWords; ++i)
            if (first + i * TKV_THREADS < words) vec_put(dst, to + (first + i * TKV_THREADS) * TKV_COPY, held[i]);
    }
}
