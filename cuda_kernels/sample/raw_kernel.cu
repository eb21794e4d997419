// sample: logits [B, V] float32, settings [B] -> tokens [B]. One block per row.
//
// Whatever top-k, top-p and min-p keep is a prefix of one order: likelier first, equal values by ascending id. So a row is reduced
// to a cut (key, ties): all tokens with a smaller key stay, and of those on the key the first `ties` by id. The cut is found by a
// radix select over the bits of the distance to the largest logit. Mass is counted in integers (units of 2^-40 of the likeliest
// token), so its sums do not depend on the order in which threads add.
// registers: spills 256 (sm_80: 1024 threads leave 64 registers)
#include "common/reduce.cuh"

using u64 = unsigned long long;
constexpr double kSlack = 1.0 / 1048576.0;  // a limit within 2^-20 counts as reached
constexpr int kWarps = TKV_THREADS / 32;
constexpr int kEverything = 0x7fffffff;

struct Row {
    global_ptr<const float> logits;
    offset_t start;
    int V;
    float best, temperature;
    __device__ __forceinline__ float scale(float logit) const { return (logit - best) / temperature; }
    __device__ __forceinline__ float scaled(int id) const { return scale(logits[start + id]); }

    // Every logit once, in no order: visit(id, logit). A thread asks for sixteen before it looks at the first: one block has a
    // multiprocessor for itself, and only loads in flight keep it busy. Rows of a V that is no multiple of 4 begin anywhere.
    template <class Visit>
    __device__ __forceinline__ void each(Visit visit) const {
        constexpr int kLoads = 4, kRound = 4 * kLoads * TKV_THREADS;
        const int me = static_cast<int>(threadIdx.x), even = V % 4 == 0 ? V / kRound * kRound : 0;
        for (int base = 0; base < even; base += kRound) {
            float4 four[kLoads];
#pragma unroll
            for (int i = 0; i < kLoads; ++i) four[i] = vec_at<float4>(logits, start + base + 4 * (i * TKV_THREADS + me));
#pragma unroll
            for (int i = 0; i < kLoads; ++i) {
                const int id = base + 4 * (i * TKV_THREADS + me);
                visit(id, four[i].x), visit(id + 1, four[i].y), visit(id + 2, four[i].z), visit(id + 3, four[i].w);
            }
        }
#pragma unroll 4
        for (int id = even + me; id < V; id += TKV_THREADS) visit(id, static_cast<float>(logits[start + id]));
    }
};

struct Cut {
    unsigned key;
    int ties;
};

// Distance to the maximum as an unsigned that grows as the token gets less likely. The sign bit is dropped: -0 is 0.
__device__ __forceinline__ unsigned key_of(float scaled) { return __float_as_uint(scaled) & 0x7fffffffu; }
__device__ __forceinline__ u64 mass_of(float scaled) { return static_cast<u64>(expf(scaled) * 1099511627776.0f); }

// The largest logit and its lowest id; NaN wins over everything. Every thread returns the same.
struct Best {
    float value;
    int id;
};
__device__ __forceinline__ bool beats(Best a, Best b) {
    if (isnan(a.value) || isnan(b.value)) return isnan(a.value) && (!isnan(b.value) || a.id < b.id);
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

__device__ Best find_best(const Row& row, shared_array<float> value, shared_array<int> id) {
    Best best{__uint_as_float(0xff800000u), kEverything};
    row.each([&](int id, float logit) {
        const Best other{logit, id};
        if (beats(other, best)) best = other;
    });
    for (int step = 16; step > 0; step /= 2) {
        const Best other{__shfl_xor_sync(kAllLanes, best.value, step), __shfl_xor_sync(kAllLanes, best.id, step)};
        if (beats(other, best)) best = other;
    }
    if (threadIdx.x % 32 == 0) value[threadIdx.x / 32] = best.value, id[threadIdx.x / 32] = best.id;
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) {
        const Best other{value[w], id[w]};
        if (beats(other, best)) best = other;
    }
    return best;
}

// Which of 256 bins holds the target, and the weight before it: one warp, 8 bins per lane. answer = {bin, weight before}.
__device__ void find_bin(u64 before, u64 target, shared_array<u64> bins, shared_array<u64> answer) {
    if (threadIdx.x < 32) {
        const int lane = static_cast<int>(threadIdx.x);
        u64 mine = 0;
        for (int i = 0; i < 8; ++i) mine += bins[8 * lane + i];
        u64 upto = mine;
        for (int step = 1; step < 32; step *= 2) {
            const u64 left = __shfl_up_sync(kAllLanes, upto, step);
            if (lane >= step) upto += left;
        }
        const unsigned past = __ballot_sync(kAllLanes, before + upto >= target);
        const int owner = past == 0u ? 31 : __ffs(static_cast<int>(past)) - 1;
        if (lane == owner) {
            u64 sum = before + upto - mine;
            int bin = 8 * lane;
            while (bin < 8 * lane + 7 && sum + bins[bin] < target) sum += bins[bin++];
            answer[0] = static_cast<u64>(bin), answer[1] = sum;
        }
    }
    __syncthreads();
}

// A first cut at even distances: the bits of a float crowd into few values of its upper byte, and threads would queue there.
__device__ __forceinline__ int coarse_bin(float scaled) { return static_cast<int>(fminf(-scaled * 8.0f, 255.0f)); }

// Smallest key whose cumulative weight (1 per token, or its mass) reaches `target`; `before` = weight of all smaller keys.
// Mass (at most 40 bits) is added in three parts of 14 bits: 32-bit atomics are quick in shared memory, 64-bit ones are not.
struct Found {
    unsigned key;
    u64 before;
};
__device__ Found select(const Row& row, bool by_mass, u64 target, shared_array<u64> bins, shared_array<unsigned> parts, shared_array<u64> answer) {
    for (int i = static_cast<int>(threadIdx.x); i < 3 * 256; i += TKV_THREADS) parts[i] = 0u;
    __syncthreads();
    row.each([&](int, float logit) {
        const float scaled = row.scale(logit);
        const int bin = coarse_bin(scaled);
        const u64 weight = by_mass ? mass_of(scaled) : 1ull;
        for (int p = 0; p < (by_mass ? 3 : 1); ++p)
            if ((weight >> 14 * p & 0x3fffull) != 0ull) atomicAdd(&parts[256 * p + bin], static_cast<unsigned>(weight >> 14 * p & 0x3fffull));
    });
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += TKV_THREADS)
        bins[i] = parts[i] + (static_cast<u64>(parts[256 + i]) << 14) + (static_cast<u64>(parts[512 + i]) << 28);
    __syncthreads();
    find_bin(0ull, target, bins, answer);
    const int coarse = static_cast<int>(answer[0]);
    Found found{0u, answer[1]};
    for (int shift = 24; shift >= 0; shift -= 8) {  // the few that are left: bit by bit
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < 256; i += TKV_THREADS) bins[i] = 0ull;
        __syncthreads();
        row.each([&](int, float logit) {
            const float scaled = row.scale(logit);
            if (coarse_bin(scaled) != coarse) return;
            const unsigned key = key_of(scaled);
            if (shift < 24 && (key >> (shift + 8)) != (found.key >> (shift + 8))) return;
            const u64 weight = by_mass ? mass_of(scaled) : 1ull;
            if (weight != 0ull) atomicAdd(&bins[static_cast<int>(key >> shift & 255u)], weight);
        });
        __syncthreads();
        find_bin(found.before, target, bins, answer);
        found.key |= static_cast<unsigned>(answer[0]) << shift;
        found.before = answer[1];
    }
    __syncthreads();
    return found;
}

__device__ __forceinline__ Cut tighter(Cut a, Cut b) { return a.key != b.key ? (a.key < b.key ? a : b) : (a.ties < b.ties ? a : b); }

__device__ u64 block_total(u64 mine, shared_array<u64> bins) {
    for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(kAllLanes, mine, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) bins[static_cast<int>(threadIdx.x / 32)] = mine;
    __syncthreads();
    u64 total = 0;
    for (int w = 0; w < kWarps; ++w) total += bins[w];
    __syncthreads();
    return total;
}

__device__ Cut find_cut(const Row& row, int top_k, float top_p, shared_array<u64> bins, shared_array<unsigned> parts, shared_array<u64> answer) {
    Cut cut{kEverything, kEverything};
    if (0 < top_k && top_k < row.V) {
        const Found found = select(row, false, static_cast<u64>(top_k), bins, parts, answer);
        // guard[topk-ties]: a tie at the k-th place is cut by id, or k tokens become more
        // mutant[topk-ties/all]:
        //   - cut = {found.key, static_cast<int>(static_cast<u64>(top_k) - found.before)};
        //   + cut = {found.key, kEverything};
        cut = {found.key, static_cast<int>(static_cast<u64>(top_k) - found.before)};
    }
    if (top_p < 1.0f) {
        u64 mine = 0;
        row.each([&](int, float logit) {
            const float scaled = row.scale(logit);
            if (key_of(scaled) < cut.key) mine += mass_of(scaled);
        });
        const u64 at_cut = mass_of(-__uint_as_float(cut.key));
        const u64 whole = block_total(mine, bins) + (cut.key == kEverything ? 0ull : at_cut * static_cast<u64>(cut.ties));
        u64 target = static_cast<u64>(static_cast<double>(whole) * static_cast<double>(top_p) * (1.0 - kSlack));
        if (target == 0ull) target = 1ull;
        const Found found = select(row, true, target, bins, parts, answer);
        const u64 each = mass_of(-__uint_as_float(found.key));
        const u64 ties = each == 0ull ? 1ull : (target - found.before + each - 1ull) / each;
        cut = tighter(cut, {found.key, static_cast<int>(ties)});
    }
    return cut;
}

// A run of ids [first, last), how many tokens on the cut's key have come before it, and the mass of all that is kept before it.
struct Run {
    int first, last, ties;
    u64 mass;
};

// One warp goes through a run in ascending order, 32 ids at a time: visit(id of lane 0, mass of this lane's token, 0 if it is not
// kept) until it returns true.
template <class Visit>
__device__ __forceinline__ void go_through(const Row& row, Cut cut, float least, const Run& run, Visit visit) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int ties = run.ties;
#pragma unroll 4
    for (int base = run.first; base < run.last; base += 32) {
        const bool there = base + lane < run.last;
        const float scaled = row.scaled(min(base + lane, row.V - 1));
        const unsigned key = key_of(scaled), votes = __ballot_sync(kAllLanes, there && key == cut.key);
        const int rank = ties + __popc(votes & ((1u << lane) - 1u));
        const bool kept = there && (key < cut.key || (key == cut.key && rank < cut.ties)) && expf(scaled) >= least;
        if (visit(base, kept ? mass_of(scaled) : 0ull)) return;
        ties += __popc(votes);
    }
}

// This warp's strip of a run; its ties and mass as if it were the first.
__device__ __forceinline__ Run strip_of(const Run& run, int warp) {
    const int ids = (run.last - run.first + 32 * kWarps - 1) / (32 * kWarps) * 32;
    return {min(run.first + warp * ids, run.last), min(run.first + (warp + 1) * ids, run.last), run.ties, run.mass};
}

// Every warp adds up one strip of the run: bins[w] = mass kept in strip w, tied[w] = its tokens on the cut's key.
__device__ void add_up(const Row& row, Cut cut, float least, const Run& run, shared_array<u64> bins, shared_array<int> tied) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    Run mine = strip_of(run, warp);
    int on_key = 0;
    if (cut.ties != kEverything)
#pragma unroll 4
        for (int base = mine.first; base < mine.last; base += 32)
            on_key += __popc(__ballot_sync(kAllLanes, base + lane < mine.last && key_of(row.scaled(min(base + lane, row.V - 1))) == cut.key));
    if (lane == 0) tied[warp] = on_key;
    __syncthreads();
    for (int w = 0; w < warp; ++w) mine.ties += tied[w];
    u64 mass = 0;
    go_through(row, cut, least, mine, [&](int, u64 each) { return mass += each, false; });
    for (int step = 16; step > 0; step /= 2) mass += __shfl_xor_sync(kAllLanes, mass, step);
    if (lane == 0) bins[warp] = mass;
    __syncthreads();
}

// Inverse of the cumulative mass in ascending order of id. All ids are cut into one strip per warp, and the strip that holds the
// target again, until one warp can walk through what is left.
__device__ int draw(const Row& row, Cut cut, float least, double uniform, shared_array<u64> bins, shared_array<u64> answer, shared_array<int> tied) {
    constexpr int kWalk = 8 * 32;
    Run run{0, row.V, 0, 0ull};
    add_up(row, cut, least, run, bins, tied);
    u64 total = 0;
    for (int w = 0; w < kWarps; ++w) total += bins[w];
    const u64 wanted = static_cast<u64>(uniform * static_cast<double>(total)), target = wanted + 1ull > total ? total - 1ull : wanted;
    while (true) {
        int w = 0;
        Run next = strip_of(run, 0);
        for (; w + 1 < kWarps && target >= next.mass + bins[w]; ++w) {
            const u64 mass = next.mass + bins[w];
            const int ties = next.ties + tied[w];
            next = strip_of(run, w + 1);
            next.mass = mass, next.ties = ties;
        }
        run = next;
        __syncthreads();
        if (run.last - run.first <= kWalk) break;
        add_up(row, cut, least, run, bins, tied);
    }
    if (threadIdx.x < 32) {
        const int lane = static_cast<int>(threadIdx.x);
        u64 before = run.mass;
        go_through(row, cut, least, run, [&](int base, u64 upto) {
            for (int step = 1; step < 32; step *= 2) {
                const u64 left = __shfl_up_sync(kAllLanes, upto, step);
                if (lane >= step) upto += left;
            }
            const unsigned past = __ballot_sync(kAllLanes, before + upto > target);
            if (past != 0u && lane == 0) answer[0] = static_cast<u64>(base + __ffs(static_cast<int>(past)) - 1);
            before += __shfl_sync(kAllLanes, upto, 31);
            return past != 0u;
        });
    }
    __syncthreads();
    return static_cast<int>(answer[0]);
}

extern "C" __global__ void __launch_bounds__(TKV_THREADS) sample(
    global_ptr<const float> logits, global_ptr<const float> temperature, global_ptr<const int> top_k, global_ptr<const float> top_p,
    global_ptr<const float> min_p, global_ptr<const double> uniform, global_ptr<int> tokens, int V) {
    SHARED_POOL(pool);
    auto bins = pool.take<u64>(256);
    auto answer = pool.take<u64>(2);
    auto parts = pool.take<unsigned>(3 * 256);
    auto value = pool.take<float>(kWarps);
    auto id = pool.take<int>(kWarps);
    const offset_t b = blockIdx.x;
    const float heat = temperature[b];
    Row row{logits, b * V, V, 0.0f, fmaxf(heat, 1e-30f)};

    const Best best = find_best(row, value, id);
    row.best = best.value;
    const bool finite = fabsf(best.value) < __uint_as_float(0x7f800000u);  // false for NaN
    int token = best.id;
    // guard[finite-logits-raw]: argmax of NaN is an index and looks like a token
    // mutant[finite-logits-raw/removed]:
    //   - if (!finite) token = -1;
    //   + ;
    if (!finite) token = -1;
    if (finite && heat > 0.0f) {
        __syncthreads();
        const Cut cut = find_cut(row, top_k[b], top_p[b], bins, parts, answer);
        const float least = static_cast<float>(static_cast<double>(static_cast<float>(min_p[b])) * (1.0 - kSlack));
        token = draw(row, cut, min_p[b] > 0.0f ? least : 0.0f, uniform[b], bins, answer, id);
    }
    if (threadIdx.x == 0) tokens[b] = token;
}
