// The host build's runtime: threads of a block as fibers, barriers that are checked, shared memory that starts as NaN.
// Compiled without sanitizers (see runtime.h); under ThreadSanitizer each fiber is announced as a thread of its own, and only
// barriers order them.
#include "host/runtime.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifdef TKV_TSAN
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* at);
void __tsan_release(void* at);
}
#endif
#ifdef TKV_ASAN
extern "C" {
void __sanitizer_start_switch_fiber(void** save, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* save, const void** bottom, size_t* size);
void __asan_unpoison_memory_region(void const volatile* at, size_t size);
}
#endif

namespace host {

dim3 thread_index, block_index, block_size, grid_size;
bool tracing = false;

namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kSlot = 96;
enum class State { kReady, kBlock, kWarp, kSync, kDone };

struct Fiber {
    ucontext_t context;
    unsigned char* stack = nullptr;
    State state = State::kDone;
    unsigned mask = 0;
    const char* file = "";
    int line = 0;
    int index = 0;
    int barriers = 0, warp_barriers = 0;  // passed so far
    std::vector<AsyncCopy> copies;
    int group = 0;
#ifdef TKV_TSAN
    void* tsan = nullptr;
#endif
};

struct Warp {
    unsigned char slots[2][32 * kSlot];
    int phase = 0;
    char order[2] = {0, 0};  // addresses for ThreadSanitizer, as below
};

ucontext_t scheduler;
std::vector<Fiber*> fibers;
std::vector<Warp> warps;
Fiber* current = nullptr;
const Launch* launch = nullptr;
void (*kernel_body)(void*) = nullptr;
void* kernel_closure = nullptr;
bool failed = false;
std::vector<unsigned char> shared_storage;
unsigned char* shared_base = nullptr;
// Addresses that ThreadSanitizer orders by: what is released there happens before what acquires it. Start, end and odd and even
// barriers have their own, or a thread that has run ahead to the next barrier would order one that has not left this one yet.
char start_order = 0, end_order = 0, barrier_order[2] = {0, 0};
std::vector<std::string> names;
std::vector<Access> accesses;
int linear_block = 0;
#ifdef TKV_TSAN
void* scheduler_tsan = nullptr;
#endif
#ifdef TKV_ASAN
const void* scheduler_stack = nullptr;
size_t scheduler_stack_size = 0;
#endif

void enter_order(char* at) {
#ifdef TKV_TSAN
    __tsan_acquire(at);
#else
    (void)at;
#endif
}
void leave_order(char* at) {
#ifdef TKV_TSAN
    __tsan_release(at);
#else
    (void)at;
#endif
}

void switch_to_scheduler(bool for_good) {
    Fiber* me = current;
#ifdef TKV_TSAN
    __tsan_switch_to_fiber(scheduler_tsan, 1);
#endif
#ifdef TKV_ASAN
    void* save = nullptr;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &save, scheduler_stack, scheduler_stack_size);
#else
    (void)for_good;
#endif
    swapcontext(&me->context, &scheduler);
#ifdef TKV_ASAN
    __sanitizer_finish_switch_fiber(save, &scheduler_stack, &scheduler_stack_size);
#endif
}

void switch_to(Fiber* fiber) {
    current = fiber;
    const unsigned i = static_cast<unsigned>(fiber->index);
    thread_index = {i % block_size.x, i / block_size.x % block_size.y, i / block_size.x / block_size.y};
#ifdef TKV_TSAN
    __tsan_switch_to_fiber(fiber->tsan, 1);
#endif
#ifdef TKV_ASAN
    void* save = nullptr;
    __sanitizer_start_switch_fiber(&save, fiber->stack, kStackBytes);
#endif
    swapcontext(&scheduler, &fiber->context);
#ifdef TKV_ASAN
    __sanitizer_finish_switch_fiber(save, nullptr, nullptr);
#endif
}

void fiber_main() {
#ifdef TKV_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
#endif
    enter_order(&start_order);
    kernel_body(kernel_closure);
    leave_order(&end_order);
    current->state = State::kDone;
    switch_to_scheduler(true);
}

void wait_as(State state, unsigned mask, const char* file, int line) {
    Fiber* me = current;
    me->state = state, me->mask = mask, me->file = file, me->line = line;
    switch_to_scheduler(false);
}

bool same_place(const Fiber* a, const Fiber* b) { return a->state == b->state && a->line == b->line && std::strcmp(a->file, b->file) == 0; }

// Frees a warp whose lanes all wait at one place. Lanes that do not exist (a short last warp) are not waited for.
bool release_warp(size_t first) {
    const size_t last = first + 32 < fibers.size() ? first + 32 : fibers.size();
    const Fiber* leader = nullptr;
    for (size_t i = first; i < last; ++i)
        if (fibers[i]->state == State::kWarp || fibers[i]->state == State::kSync) leader = fibers[i];
    if (leader == nullptr) return false;
    for (size_t i = first; i < last; ++i)
        if ((leader->mask >> (i - first) & 1u) != 0u && !same_place(fibers[i], leader)) return false;
    warps[first / 32].phase ^= leader->state == State::kWarp;
    for (size_t i = first; i < last; ++i)
        if ((leader->mask >> (i - first) & 1u) != 0u) fibers[i]->state = State::kReady;
    return true;
}

bool release_block() {
    for (const Fiber* fiber : fibers)
        if (fiber->state != State::kBlock || !same_place(fiber, fibers[0])) return false;
    for (Fiber* fiber : fibers) fiber->state = State::kReady;
    return true;
}

void say(const char* format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(launch->error, 1024, format, list);
    va_end(list);
    failed = true;
}

void report_stuck() {
    const Fiber* waiting = nullptr;
    size_t here = 0, done = 0;
    for (const Fiber* fiber : fibers)
        if (fiber->state != State::kDone && waiting == nullptr) waiting = fiber;
    for (const Fiber* fiber : fibers) here += same_place(fiber, waiting), done += fiber->state == State::kDone;
    const char* what = waiting->state == State::kBlock ? "__syncthreads" : waiting->state == State::kSync ? "__syncwarp" : "warp exchange";
    say("%s:%d: %s reached by %zu of %zu threads of block (%u, %u, %u) in kernel %s; %zu have left the kernel", waiting->file, waiting->line, what, here,
        fibers.size(), block_index.x, block_index.y, block_index.z, launch->kernel, done);
}

void prepare_fiber(Fiber* fiber, int index) {
    if (fiber->stack == nullptr) {
        void* got = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (got == MAP_FAILED) abort();
        fiber->stack = static_cast<unsigned char*>(got);
    }
#ifdef TKV_ASAN
    __asan_unpoison_memory_region(fiber->stack, kStackBytes);
#endif
#ifdef TKV_TSAN
    if (fiber->tsan == nullptr) fiber->tsan = __tsan_create_fiber(0);
#endif
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, fiber_main, 0);
    fiber->state = State::kReady, fiber->index = index, fiber->group = 0;
    fiber->barriers = fiber->warp_barriers = 0;
    fiber->copies.clear();
}

void prepare_shared() {
    const size_t bytes = static_cast<size_t>(launch->shared_bytes);
    shared_storage.assign(bytes + 32, 0xff);  // all bits set is NaN in every float type
    shared_base = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(shared_storage.data()) + 15) / 16 * 16);
}

void run_block() {
    prepare_shared();
    leave_order(&start_order);
    for (size_t i = 0; i < fibers.size(); ++i) prepare_fiber(fibers[i], static_cast<int>(i));
    for (;;) {
        bool ran = false, all_done = true;
        for (Fiber* fiber : fibers) {
            while (fiber->state == State::kReady && !failed) switch_to(fiber), ran = true;
            if (failed) return;
            all_done = all_done && fiber->state == State::kDone;
        }
        if (all_done) break;
        bool released = release_block();
        for (size_t first = 0; first < fibers.size(); first += 32) released = release_warp(first) || released;
        if (!released && !ran) return report_stuck();
    }
    enter_order(&end_order);
}

}  // namespace

void fail(const char* format, ...) {
    char text[700];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    say("%s (kernel %s, block (%u, %u, %u), thread (%u, %u, %u))", text, launch->kernel, block_index.x, block_index.y, block_index.z, thread_index.x,
        thread_index.y, thread_index.z);
    for (;;) switch_to_scheduler(false);
}

int run(void (*body)(void*), void* closure, const Launch& wanted) {
    launch = &wanted, kernel_body = body, kernel_closure = closure, failed = false;
    grid_size = wanted.grid, block_size = wanted.block;
    const size_t threads = static_cast<size_t>(block_size.x) * block_size.y * block_size.z;
    while (fibers.size() < threads) fibers.push_back(new Fiber);
    while (fibers.size() > threads) {
        munmap(fibers.back()->stack, kStackBytes);
        delete fibers.back();
        fibers.pop_back();
    }
    warps.resize((threads + 31) / 32);
#ifdef TKV_TSAN
    scheduler_tsan = __tsan_get_current_fiber();
#endif
    linear_block = 0;
    for (unsigned z = 0; z < grid_size.z && !failed; ++z)
        for (unsigned y = 0; y < grid_size.y && !failed; ++y)
            for (unsigned x = 0; x < grid_size.x && !failed; ++x, ++linear_block) {
                block_index = {x, y, z};
                run_block();
            }
    names.clear();
    return failed ? 1 : 0;
}

void record(int array, long long offset, long long bytes, bool is_write) {
    accesses.push_back({linear_block, current->index, array, is_write, offset, bytes, static_cast<long long>(accesses.size())});
}

int name_array(const char* name) {
    names.emplace_back(name);
    return static_cast<int>(names.size()) - 1;
}
const char* array_name(int array) { return array < static_cast<int>(names.size()) ? names[static_cast<size_t>(array)].c_str() : "?"; }

void block_barrier(const char* file, int line) {
    char* order = &barrier_order[current->barriers++ % 2];
    leave_order(order);
    wait_as(State::kBlock, 0, file, line);
    enter_order(order);
}

void warp_barrier(unsigned mask, const char* file, int line) {
    char* order = &warps[static_cast<size_t>(current->index) / 32].order[current->warp_barriers++ % 2];
    leave_order(order);
    wait_as(State::kSync, mask, file, line);
    enter_order(order);
}

const unsigned char* warp_exchange(unsigned mask, const void* mine, size_t bytes, const char* file, int line) {
    Warp& warp = warps[static_cast<size_t>(current->index) / 32];
    const int phase = warp.phase;
    unsigned char* slot = warp.slots[phase] + kSlot * (current->index % 32);
    const auto* from = static_cast<const unsigned char*>(mine);
    for (size_t i = 0; i < bytes; ++i) slot[i] = from[i];  // memcpy would be seen by ThreadSanitizer, and be no ordering on a device
    wait_as(State::kWarp, mask, file, line);
    return warp.slots[phase];
}

unsigned char* shared_begin() { return shared_base; }
long long shared_size() { return launch->shared_bytes; }

void async_push(unsigned char* to, const unsigned char* from, size_t bytes) { current->copies.push_back({to, from, current->group, bytes}); }
void async_commit() { ++current->group; }
bool async_pop(int groups_left, AsyncCopy* copy) {
    if (current->copies.empty() || current->copies.front().group >= current->group - groups_left) return false;
    *copy = current->copies.front();
    current->copies.erase(current->copies.begin());
    return true;
}

float half_to_float(unsigned short bits) {
    const unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
    float value;
    unsigned u = sign | (exponent == 31u ? 0x7f800000u : (exponent + 112u) << 23) | fraction << 13;
    if (exponent == 0u) {
        value = static_cast<float>(fraction) * 5.9604644775390625e-8f;  // subnormal: units of 2^-24
        return sign != 0u ? -value : value;
    }
    std::memcpy(&value, &u, sizeof value);
    return value;
}

unsigned short float_to_half(float x) {
    unsigned u;
    std::memcpy(&u, &x, sizeof u);
    const unsigned sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<unsigned short>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);  // rounds to 65536 or more
    if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded units of 2^-24 in the low bits
        float shifted;
        std::memcpy(&shifted, &magnitude, sizeof shifted);
        shifted += 0.5f;
        std::memcpy(&u, &shifted, sizeof u);
        return static_cast<unsigned short>(sign | (u - 0x3f000000u));
    }
    return static_cast<unsigned short>(sign | ((magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13));
}

extern "C" void host_trace(int on) {
    tracing = on != 0;
    if (on != 0) accesses.clear();
}
extern "C" long long host_trace_size() { return static_cast<long long>(accesses.size()); }
extern "C" const void* host_trace_data() { return accesses.data(); }

}  // namespace host
