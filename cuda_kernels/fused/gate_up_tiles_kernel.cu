// gate_up_tiles: x [T, K], gate and up [F, K] -> out [T, F] = silu(x @ gate.T + gate_bias) * (x @ up.T + up_bias), for many tokens.
// Grid (TKV_BM tokens, TKV_BN / 2 outputs). A tile's outputs are 8 gates, 8 ups, 8 gates, ...: a thread that holds a gate holds its up, so
// x is read once and the gates never leave the registers. Bits of two calls of linear: same chunks, and the gate is rounded to storage.
// With TKV_WGMMA x is in panels, and `gate` the panels of both matrices. TKV_ROWS: `out` is left in panels of so many rows; 0: [T, F].
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
    const Loader<TKV_BN> output_rows(gate, up, first_output, F, 0, K);
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
    auto product = [&](const float* g, float* y) {
        // guard[gate-rounded-tiles]: two calls of linear round the gate to storage between them; kept wide, a row's bits depend on T
        // mutant[gate-rounded-tiles/kept-wide]:
        //   - for (int w = 0; w < kWide; ++w) y[w] *= silu(rounded(g[w]));
        //   + for (int w = 0; w < kWide; ++w) y[w] *= silu(g[w]);
        for (int w = 0; w < kWide; ++w) y[w] *= silu(rounded(g[w]));
    };
#if TKV_ROWS
    // Through shared memory, so that one run of the panel is written: a tile's outputs are whole groups of 32, which lie together.
    static_assert(TKV_ROWS == TKV_BM && kWide == 2 && TKV_BN / 2 % 32 == 0, "a tile is a part of one panel");
    __syncthreads();  // the tensor cores have done with the stages
    SHARED_POOL(pool);
    auto made = pool.take<Elem>(TKV_BM * TKV_BN / 2);
    each([&](offset_t token, offset_t n, const float* g, float* y) {
        product(g, y);
        vec_put(made, place_in_panel<TKV_BM>(static_cast<int>(token - first_token), static_cast<int>(n - first_output)), pack2(y[0], y[1]));
    });
    __syncthreads();
    const int outputs = static_cast<int>(min(F - first_output, static_cast<offset_t>(TKV_BN / 2)));
    const offset_t to = panel_start<TKV_BM>(blockIdx.x, static_cast<int>(F)) + first_output * TKV_BM;
    for (int i = 8 * static_cast<int>(threadIdx.x); i < outputs * TKV_BM; i += 8 * kThreads) vec_put(out, to + i, vec_at<uint4>(made, i));
#else
    each([&](offset_t token, offset_t n, const float* g, float* y) {
        product(g, y);
        put_out<kWide>(out, token * F + n, y);
    });
#endif
}
