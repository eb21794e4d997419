// The step of Hopper's tensor cores that four warps take together (sm_90a): C [64, N] += A [64, 16] * B [N, 16], N = 8 kOutputTiles,
// operands in shared memory, float32 sums. It runs beside the warps until they wait for it. Its sums have the bits of mma_step: on an H200
// 184,320 sums of up to 4,864 terms in bfloat16 and float16, close, far apart in size and cancelling, differed in none, and the order of k
// inside a step changed none either.
//
// What the hardware reads: atoms of 8 rows x 8 k, each a run of 128 bytes, row by row. Here the atoms of 8 k of all rows of a tile lie
// one after another, then those of the next 8 k.
#include "common/element.cuh"

template <int kRows>
constexpr int kAtomPitch = kRows * 8;  // elements from 8 k of a tile of kRows rows to the next 8 k

#define TKV_R32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TKV_R64 \
    TKV_R32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TKV_R80 \
    TKV_R64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define TKV_R96 TKV_R80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TKV_C1(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define TKV_C4(j) TKV_C1(j), TKV_C1(j + 1), TKV_C1(j + 2), TKV_C1(j + 3)
#define TKV_C8(j) TKV_C4(j), TKV_C4(j + 4)
#if TKV_DTYPE == 1
#define TKV_KIND ".f32.f16.f16"
#else
#define TKV_KIND ".f32.bf16.bf16"
#endif
#define TKV_WGMMA_STEP(n, registers, a, b, add, ...)                                                                                     \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add ", 0;\nwgmma.mma_async.sync.aligned.m64n" n "k16" TKV_KIND " {" registers "}, " a \
                 ", " b ", add, 1, 1, 0, 0;\n}"                                                                                          \
                 : __VA_ARGS__                                                                                                           \
                 : "l"(from_a), "l"(from_b), "r"(static_cast<int>(keep)))

// The steps of one warp. They are asked for (step), closed as a group (commit) and waited for (wait).
template <int kRowsA, int kRowsB>
class Warpgroup {
  public:
    __device__ __forceinline__ explicit Warpgroup(shared_array<Elem> shared) : shared_(shared) {}

    // A's tile begins at element a of shared memory, of which the warpgroup takes 64 rows from 64 * its number on; B's at element b. `at`: 8 k
    // atoms to skip. Not keep: C starts from zero. Nobody touches c and the tiles before the wait.
    template <int kTiles>
    __device__ __forceinline__ void step(float (&c)[kTiles][4], int a, int b, int at, bool keep) {
        const int group_a = a + at * kAtomPitch<kRowsA> + static_cast<int>(threadIdx.x) / 128 * 64 * 8, group_b = b + at * kAtomPitch<kRowsB>;
#ifdef TKV_HOST
        if (count_ == kMostAsked) host::fail("wgmma: more than %d steps are asked for and not waited for", kMostAsked);
        asked_[count_++] = {&c[0][0], kTiles, group_a, group_b, keep, group_};
#else
        const unsigned long long from_a = place<kRowsA>(shared_ + group_a), from_b = place<kRowsB>(shared_ + group_b);
        static_assert(kTiles == 8 || kTiles == 16 || kTiles == 20 || kTiles == 24, "one instruction per width");
        if constexpr (kTiles == 8) TKV_WGMMA_STEP("64", TKV_R32, "%32", "%33", "%34", TKV_C8(0));
        if constexpr (kTiles == 16) TKV_WGMMA_STEP("128", TKV_R64, "%64", "%65", "%66", TKV_C8(0), TKV_C8(8));
        if constexpr (kTiles == 20) TKV_WGMMA_STEP("160", TKV_R80, "%80", "%81", "%82", TKV_C8(0), TKV_C8(8), TKV_C4(16));
        if constexpr (kTiles == 24) TKV_WGMMA_STEP("192", TKV_R96, "%96", "%97", "%98", TKV_C8(0), TKV_C8(8), TKV_C8(16));
#endif
    }
    // C as the warp has written it is there for the steps that follow.
    __device__ __forceinline__ static void begin() {
#ifndef TKV_HOST
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
    }
    __device__ __forceinline__ void commit() {
#ifdef TKV_HOST
        ++group_;
#else
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
    }
    // All groups but the youngest kGroupsLeft are done; c may be read when none is left.
    template <int kGroupsLeft, int kTiles>
    __device__ __forceinline__ void wait([[maybe_unused]] float (&c)[kTiles][4]) {
#ifdef TKV_HOST
        int left = 0;
        for (int i = 0; i < count_; ++i) {
            if (asked_[i].group < group_ - kGroupsLeft) run(asked_[i]);
            else asked_[left++] = asked_[i];
        }
        count_ = left;
#else
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroupsLeft) : "memory");
        if constexpr (kGroupsLeft == 0)
#pragma unroll
            for (int j = 0; j < kTiles; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(c[j][e])::"memory");  // the compiler reads none of them before
#endif
    }

  private:
    shared_array<Elem> shared_;
#ifdef TKV_HOST
    // The tensor cores read late: a step runs when it is waited for, on what then lies in shared memory.
    struct Asked {
        float* c;
        int tiles;
        int a, b;
        bool keep;
        int group;
    };
    void run(const Asked& ask) const {
        const int lane = host::lane_id(), g = lane / 4, t = lane % 4, warp = static_cast<int>(threadIdx.x) / 32 % 4;
        for (int i = 0; i < 4 * ask.tiles; ++i) {
            const int row = 16 * warp + g + 8 * (i % 4 / 2), column = i / 4 * 8 + 2 * t + i % 2;
            float sum = ask.keep ? ask.c[i] : 0.0f;
            for (int k = 0; k < 16; ++k) {  // in the order of mma_step
                const int slot = 4 * (k % 8 / 2) + 2 * (k / 8) + k % 2, atom = slot / 8, inside = slot % 8;
                sum = fmaf(to_float(shared_[ask.a + atom * kAtomPitch<kRowsA> + row * 8 + inside]),
                           to_float(shared_[ask.b + atom * kAtomPitch<kRowsB> + column * 8 + inside]), sum);
            }
            ask.c[i] = sum;
        }
    }
    static constexpr int kMostAsked = 16;
    Asked asked_[kMostAsked] = {};
    int count_ = 0, group_ = 0;
#else
    // Where a tile's atoms lie, in units of 16 bytes: the first, the step to the next 8 k, the step to the next 8 rows.
    template <int kRows>
    __device__ __forceinline__ static unsigned long long place(const Elem* tile) {
        const unsigned long long first = __cvta_generic_to_shared(tile) / 16, next_k = kAtomPitch<kRows> / 8, next_rows = 8;
        return first | next_k << 16 | next_rows << 32;
    }
#endif
};
