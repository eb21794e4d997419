// How tiles of linear_tiles are multiplied by warpgroups, on sm_90. x and w come in panels (common/panels.cuh), so a step of a tile is one
// run of memory: one thread asks the copy engine for it, the tensor cores read both operands from shared memory, and the other threads
// keep nothing but sums. So tiles are large, and L2 is asked for less.
#include "common/bulk.cuh"
#include "common/panels.cuh"
#include "common/tile_shape.cuh"
#include "common/wgmma.cuh"

static_assert(TKV_WN == 1 && TKV_BM == 16 * TKV_WM && TKV_WM % 4 == 0, "whole warpgroups, each with all outputs");
static_assert(TKV_STAGES >= 3, "one stage is read, one may still be read, one is filled");

// The runs of one tile, which is rows row0 .. row0 + kRows - 1 of the panels of a matrix [rows, width], from k = begin on.
template <int kRows>
struct Loader {
    aliased_ptr<const Elem> panels;
    offset_t at;

    __device__ __forceinline__ Loader(aliased_ptr<const Elem> matrix, offset_t row0, offset_t, int begin, int width)
        : panels(matrix), at(panel_start<kRows>(row0 / kRows, width) + begin * kRows) {}
    // Of the panels of two matrices, 8 rows of each in turn.
    __device__ __forceinline__ Loader(aliased_ptr<const Elem> both, aliased_ptr<const Elem>, offset_t row0, offset_t rows, int begin, int width)
        : Loader(both, 2 * row0, 2 * rows, begin, width) {}
    // The next 64 of K, to the tile that begins at `tile_at`.
    __device__ __forceinline__ void request(shared_array<Elem> stages, int tile_at, shared_array<Arrival> arrivals, int stage) {
        bulk_copy(stages, tile_at, panels, at, kPanelStep<kRows>, arrivals, stage);
        at += kPanelStep<kRows>;
    }
};

// The sums of this block over k in [begin, stop), chunk by chunk: end_of_chunk(acc) takes each chunk's, which then start from zero again.
template <class End>
__device__ __forceinline__ void sum_chunks(Loader<TKV_BM> token_rows, Loader<TKV_BN> output_rows, int begin, int stop, int chunk, End end_of_chunk) {
    constexpr int kOutputsAt = kPanelStep<TKV_BM>, kStage = kOutputsAt + kPanelStep<TKV_BN>, kAhead = TKV_STAGES - 2;
    SHARED_POOL(pool);
    auto stages = pool.take<Elem>(TKV_STAGES * kStage);
    auto arrivals = pool.take<Arrival>(TKV_STAGES);
    const int steps = stop > begin ? (stop - begin + kStep - 1) / kStep : 0, chunk_steps = chunk / kStep;
    const bool asks = threadIdx.x == 0;
    auto request = [&](int step, int stage) {
        if (!asks || step >= steps) return;
        expect(arrivals, stage, kStage * static_cast<int>(sizeof(Elem)));
        token_rows.request(stages, stage * kStage, arrivals, stage);
        output_rows.request(stages, stage * kStage + kOutputsAt, arrivals, stage);
    };
    if (asks) prepare(arrivals, TKV_STAGES);
    __syncthreads();
    for (int step = 0; step < kAhead; ++step) request(step, step);
    Sums acc = {};
    Warpgroup<TKV_BM, TKV_BN> group(stages);
    int stage = 0, free_stage = kAhead, turn = 0;
#pragma unroll 1
    for (int first = 0; first < steps; first += chunk_steps) {
        const int last = min(first + chunk_steps, steps);
#pragma unroll 1
        for (int step = first; step < last; ++step) {
            // guard[sync-refill]: the stage that is filled next is one that every warp has waited for
            // mutant[sync-refill/removed]: sync
            //   - __syncthreads();
            //   + ;
            __syncthreads();
            request(step + kAhead, free_stage);
            await(arrivals, stage, turn);
            group.begin();
#pragma unroll
            for (int i = 0; i < kStep / 16; ++i) group.step(acc[0], stage * kStage, stage * kStage + kOutputsAt, 2 * i, step != first || i != 0);
            group.commit();
            // guard[stage-still-read]: the tensor cores read while the warps go on; two steps back they must have done with their stage
            // mutant[stage-still-read/one-too-few]:
            //   - group.template wait<1>(acc[0]);
            //   + group.template wait<2>(acc[0]);
            group.template wait<1>(acc[0]);
            if (++stage == TKV_STAGES) stage = 0, turn ^= 1;
            if (++free_stage == TKV_STAGES) free_stage = 0;
        }
        group.template wait<0>(acc[0]);
        end_of_chunk(acc);
    }
}
