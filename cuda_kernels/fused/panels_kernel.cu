// panels: even and odd [rows, K] -> panels of TKV_ROWS rows (common/panels.cuh), for products of many tokens on sm_90.
// Grid (panels of even and odd together, 64 k, 1); a thread takes 32 k of one row. With odd, 8 rows of each matrix lie in turn.
// registers: spills 0
#include "common/chain.cuh"
#include "common/panels.cuh"

extern "C" __global__ void __launch_bounds__(2 * TKV_ROWS) panels(
    aliased_ptr<const Elem> even, aliased_ptr<const Elem> odd, aliased_ptr<Elem> out, offset_t rows, int K) {
    let_next_begin();
    const int inside = static_cast<int>(threadIdx.x) % TKV_ROWS, half = static_cast<int>(threadIdx.x) / TKV_ROWS;
    const offset_t place = static_cast<offset_t>(blockIdx.x) * TKV_ROWS + inside, row = odd ? place / 16 * 8 + place % 8 : place;
    const auto from = odd && place / 8 % 2 == 1 ? odd : even;
    wait_for_previous();
    put_in_panel<TKV_ROWS>(out, place, from, row < rows ? row * K : -1, static_cast<int>(blockIdx.y) * kPanelK + 32 * half, K);
}
