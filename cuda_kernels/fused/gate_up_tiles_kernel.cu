// gate_up_tiles: x [T, K], gate and up [F, K] -> out [T, F] = silu(x @ gate.T + gate_bias) * (x @ up.T + up_bias), for many tokens.
// Grid (TKV_BM tokens, TKV_BN / 2 outputs). A tile's outputs are 8 gates, 8 ups, 8 gates, ...: a thread that holds a gate holds its up, so
// x is read once and the gates never leave the registers. TKV_ROWS: `out` in panels of so many rows, for the product that follows; 0: [T, F]. Bits of two calls of linear: same chunks, and the gate is rounded to storage.
// registers: spills 0
#include "common/linear_tiles.cuh"
#include "common/panels.cuh"

static_assert(kOutputTiles % 2 == 0, "a warp takes gates and ups");

extern "C" __global__ void __launch_bounds__(TKV_THREADS, 1) gate_up_tiles(
    aliased_ptr<const Elem> x, global_ptr<const Elem> gate, global_ptr<const Elem> up, global_ptr<const Elem> gate_bias, global_ptr<const Elem> up_bias,
    aliased_ptr<Elem> out, offset_t T, offset_t F, int K, int chunk) {
    let_next_begin();
    const offset_t first_token = static_cast<offset_t>(blockIdx.x) * TKV_BM, first_output = static_cast<offset_t>(blockIdx.y) * (TKV_BN / 2);
    const Loader<TKV_BM> token_rows(x, first_token, T, 0, K);
#if TKV_WGMMA
    const Loader<TKV_BN> output_rows(gate, 2 * first_output, 2 * F, 0, K);  // the panels hold both
#else
    const Loader<TKV_BN> output_rows(gate, up, first_output, F, 0, K);
#endif
    wait_for_previous();
    Sums total = {};
    sum_chunks(token_rows, output_rows, 0, K, chunk, [&](const Sums& acc) { add_to(total, acc); });

    auto each = [&](auto visit) {
        of_thread<2>(first_token, first_output, T, F, [&](offset_t token, offset_t n, int i, int j, int e) {
            visit(token, n, &total[i][j][e], &total[i][j + 1][e]);
        });
    };
    if (gate_bias)
        each([&](offset_t, offset_t n, float* g, float*) {
            const auto term = load<kWide>(gate_bias, n);
            for (int w = 0; w < kWide; ++w) g[w] += term.v[w];
        });
    if (up_bias)
        each([&](offset_t, offset_t n, float*, float* y) {
            const auto term = load<kWide>(up_bias, n);
            for (int w = 0; w < kWide; ++w) y[w] += term.v[w];
        });
    each([&](offset_t token, offset_t n, const float* g, float* y) {
        // guard[gate-rounded-tiles]: two calls of linear round the gate to storage between them; kept wide, a row's bits depend on T
        // mutant[gate-rounded-tiles/kept-wide]:
        //   - for (int w = 0; w < kWide; ++w) y[w] *= silu(rounded(g[w]));
        //   + for (int w = 0; w < kWide; ++w) y[w] *= silu(g[w]);
        for (int w = 0; w < kWide; ++w) y[w] *= silu(rounded(g[w]));
        if constexpr (TKV_ROWS != 0) put_out<kWide>(out, panel_place<TKV_ROWS>(token, static_cast<int>(n), static_cast<int>(F)), y);
        else put_out<kWide>(out, token * F + n, y);
    });
}
