// Who reads what: rows, their columns, and the tokens of a packed batch.
#include "common/softmax.cuh"

struct Geometry {
    global_ptr<const int> cu_seqlens, row, end, lead_pad;  // [B + 1], [B], [B], [B] or absent
    int B;
    offset_t C;
    int window;
};

// One row of the batch: tokens first_token .. first_token + count - 1 are its queries, at columns end - count .. end - 1.
struct BatchRow {
    int row, first_token, count, end, lead_pad;
};

__device__ __forceinline__ BatchRow batch_row(const Geometry& g, offset_t b) {
    const int first = g.cu_seqlens[b];
    // guard[dead-prefix]: position 0 is the row's first live column; the columns before it hold other rows' leftovers
    // mutant[dead-prefix/off-by-one]:
    //   - const int lead_pad = g.lead_pad ? static_cast<int>(g.lead_pad[b]) : 0;
    //   + const int lead_pad = g.lead_pad ? static_cast<int>(g.lead_pad[b]) - 1 : 0;
    // mutant[dead-prefix/removed]:
    //   - const int lead_pad = g.lead_pad ? static_cast<int>(g.lead_pad[b]) : 0;
    //   + const int lead_pad = 0;
    const int lead_pad = g.lead_pad ? static_cast<int>(g.lead_pad[b]) : 0;
    return {g.row[b], first, g.cu_seqlens[b + 1] - first, g.end[b], lead_pad};
}

// What query i of a row sees, in positions; nothing for padding.
__device__ __forceinline__ Span span_of(const Geometry& g, const BatchRow& r, int i) {
    if (r.row < 0) return {0, -1};
    return visible(r.end - r.count + i, r.lead_pad, g.window);
}

// The last b in 0 .. B - 1 whose start(b) is at most `at`.
template <class Start>
__device__ __forceinline__ int find_row(int B, offset_t at, Start start) {
    int low = 0, high = B;
    while (low + 1 < high) {
        const int middle = (low + high) / 2;
        if (start(static_cast<offset_t>(middle)) <= at) low = middle;
        else high = middle;
    }
    return low;
}
