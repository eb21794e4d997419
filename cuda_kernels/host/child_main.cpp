// The program around one kernel launch under a sanitizer: reads arguments from a file, runs, writes the arrays back.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "host/runtime.h"

namespace {

FILE* input = nullptr;

template <class T>
T take() {
    T value;
    if (std::fread(&value, sizeof value, 1, input) != 1) std::exit(3);
    return value;
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) return 2;
    input = std::fopen(words[1], "rb");
    if (input == nullptr) return 2;
    std::string entry(static_cast<size_t>(take<int>()), ' ');
    if (std::fread(entry.data(), 1, entry.size(), input) != entry.size()) return 3;
    host::Launch launch{};
    launch.grid = take<dim3>(), launch.block = take<dim3>(), launch.shared_bytes = take<long long>();
    std::vector<host::Argument> arguments(static_cast<size_t>(take<int>()));
    std::vector<bool> again;
    for (host::Argument& argument : arguments) {
        argument.bytes = take<long long>();
        if (argument.bytes < 0) {  // absent, or the same memory as an earlier one
            argument = argument.bytes == -1 ? host::Argument{nullptr, 0} : arguments[static_cast<size_t>(-2 - argument.bytes)];
            again.push_back(true);
            continue;
        }
        again.push_back(false);
        const size_t bytes = static_cast<size_t>(argument.bytes);
        argument.data = std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
        if (bytes != 0 && std::fread(argument.data, 1, bytes, input) != bytes) return 3;
    }
    char error[1024] = "";
    launch.kernel = entry.c_str(), launch.error = error;
    using Run = int (*)(const host::Argument*, const host::Launch*);
    const Run run = reinterpret_cast<Run>(dlsym(RTLD_DEFAULT, ("host_run_" + entry).c_str()));
    if (run == nullptr) return 4;
    if (run(arguments.data(), &launch) != 0) {
        std::fprintf(stderr, "%s\n", error);
        return 5;
    }
    FILE* output = std::fopen(words[2], "wb");
    for (size_t i = 0; i < arguments.size(); ++i)
        if (!again[i]) std::fwrite(arguments[i].data, 1, static_cast<size_t>(arguments[i].bytes), output);
    std::fclose(output);
    return 0;
}
