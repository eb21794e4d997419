// Panels: a matrix [rows, K] laid out for the tensor cores of sm_90. A panel is kRows rows; in it 64 k after 64 k; of these the atoms of 8 k
// that wgmma.cuh wants, each 8 k of all rows. What lies past the last row or past K is zero.
//
// A step takes 16 k, and they must be the 16 that mma_half takes together: of 32 k the first four of every eight, or the last four.
//
//     k of a row     0-3 4-7 | 8-11 12-15 | 16-19 20-23 | 24-27 28-31
//     atoms          0-3 8-11 | 16-19 24-27 | 4-7 12-15 | 20-23 28-31
#include "common/element.cuh"

constexpr int kPanelK = 64;
template <int kRows>
constexpr int kPanelStep = kPanelK * kRows;  // elements of 64 k of a panel

__device__ __forceinline__ int panel_steps(int K) { return (K + kPanelK - 1) / kPanelK; }

// Atoms of a row before the one that holds element k.
__device__ __forceinline__ int atom_of(int k) { return k / 32 * 4 + k / 4 % 2 * 2 + k / 8 % 4 / 2; }

// Where element k of row `row` of a panel lies in it. The three after it follow, if k is a multiple of 4.
template <int kRows>
__device__ __forceinline__ int place_in_panel(int row, int k) {
    return (atom_of(k) * kRows + row) * 8 + k / 8 % 2 * 4 + k % 4;
}

// Where a panel of a matrix [.., K] begins.
template <int kRows>
__device__ __forceinline__ offset_t panel_start(offset_t panel, int K) {
    return panel * panel_steps(K) * kPanelStep<kRows>;
}

// Where element k of a row of a matrix [.., K] lies in its panels.
template <int kRows>
__device__ __forceinline__ offset_t panel_place(offset_t row, int k, int K) {
    return panel_start<kRows>(row / kRows, K) + place_in_panel<kRows>(static_cast<int>(row % kRows), k);
}

// One thread: 32 k of one row, from k0 on. from [.., K], its row at `row_at` or none (< 0).
template <int kRows>
__device__ __forceinline__ void put_in_panel(aliased_ptr<Elem> panels, offset_t row, aliased_ptr<const Elem> from, offset_t row_at, int k0, int K) {
    const offset_t to = panel_place<kRows>(row, k0, K);
    uint4 eighths[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int k = k0 + 8 * i;
        // guard[panel-end]: past the end there are zeros; whatever else lay there would be multiplied, and 0 * NaN is NaN
        // mutant[panel-end/reads-on]:
        //   - eighths[i] = row_at >= 0 && k < K ? vec_at<uint4>(from, row_at + k) : make_uint4(0u, 0u, 0u, 0u);
        //   + eighths[i] = row_at >= 0 ? vec_at<uint4>(from, row_at + k) : make_uint4(0u, 0u, 0u, 0u);
        eighths[i] = row_at >= 0 && k < K ? vec_at<uint4>(from, row_at + k) : make_uint4(0u, 0u, 0u, 0u);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint4 &a = eighths[2 * i], &b = eighths[2 * i + 1];
        vec_put(panels, to + i * kRows * 8, make_uint4(a.x, a.y, b.x, b.y));
        vec_put(panels, to + (2 + i) * kRows * 8, make_uint4(a.z, a.w, b.z, b.w));
    }
}
