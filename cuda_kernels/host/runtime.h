// What the host build's runtime offers to kernel code. The runtime itself is compiled without sanitizers, so that ThreadSanitizer
// sees only what the kernel does. Threads of a block are fibers of one OS thread; blocks run one after another.
#pragma once
#include <cstddef>

struct dim3 {
    unsigned x, y, z;
};

namespace host {

// One kernel argument as Python passes it: an array (data, bytes) or a scalar (data points to it).
struct Argument {
    void* data;
    long long bytes;
};

struct Launch {
    dim3 grid, block;
    long long shared_bytes;
    const char* kernel;
    char* error;  // 1 KiB, one line
};

// One recorded access, 40 bytes; offsets and sizes in bytes.
struct Access {
    int block, thread, array, is_write;
    long long offset, bytes;
    long long order;
};

extern dim3 thread_index, block_index, block_size, grid_size;
extern bool tracing;

int run(void (*body)(void*), void* closure, const Launch& launch);

[[noreturn]] void fail(const char* format, ...);
void record(int array, long long offset, long long bytes, bool is_write);
const char* array_name(int array);
int name_array(const char* name);

void block_barrier(const char* file, int line);
void warp_barrier(unsigned mask, const char* file, int line);
// Every lane of `mask` leaves `bytes` (at most 96) here and gets a view of all 32; lane i starts at byte 96 * i.
const unsigned char* warp_exchange(unsigned mask, const void* mine, size_t bytes, const char* file, int line);

unsigned char* shared_begin();
long long shared_size();

// cp.async: copies wait in a queue of the thread until their group is waited for.
struct AsyncCopy {
    unsigned char* to;
    const unsigned char* from;  // null = zero fill
    int group;
    size_t bytes;
};
void async_push(unsigned char* to, const unsigned char* from, size_t bytes);
void async_commit();
// Takes the next copy whose group has to be complete with `groups_left` younger groups allowed; false when there is none.
bool async_pop(int groups_left, AsyncCopy* copy);

}  // namespace host
