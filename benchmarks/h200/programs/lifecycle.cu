// Lives of a process: `reset` (a context is destroyed and made again), `exit` (exit() from within, launches under way),
// `child` (only a forked child uses the GPU), `threads` (launches from four threads at once), `memory` (nearly all GPU
// memory is allocated after the first launch), `stdin` (the number of launches is read), `host` (a kernel that waits for
// the host after its launch); anything else is an error.
#include "checked.h"
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

__global__ void before(float* values, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) values[i] = i;
}
__global__ void after(float* values, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) values[i] += values[n - 1 - i];
}
__global__ void wait_for_host(volatile int* flag, float* values) {
    while (*flag == 0) {}
    values[threadIdx.x] = 1;
}

constexpr int kCount = 1 << 18;

float* some() {
    float* values;
    CHECK(cudaMalloc(&values, kCount * sizeof(float)));
    return values;
}

int work(int launches) {
    float* values = some();
    for (int k = 0; k < launches; ++k) before<<<64, 256>>>(values, kCount);
    after<<<64, 256>>>(values, kCount);
    CHECK(cudaDeviceSynchronize());
    return 0;
}

int main(int, char** words) {
    const char* what = words[1];
    if (!strcmp(what, "reset")) {
        work(1);
        CHECK(cudaDeviceReset());
        work(2);
        CHECK(cudaDeviceReset());
        return 0;
    }
    if (!strcmp(what, "exit")) {
        float* values = some();
        before<<<64, 256>>>(values, kCount);
        after<<<64, 256>>>(values, kCount);
        exit(0);
    }
    if (!strcmp(what, "child")) {
        pid_t child = fork();
        if (child == 0) exit(work(1));
        int status = 0;
        waitpid(child, &status, 0);
        return status != 0;
    }
    if (!strcmp(what, "threads")) {
        std::vector<std::thread> threads;
        for (int k = 0; k < 4; ++k) threads.emplace_back([] { work(5); });
        for (auto& each : threads) each.join();
        return 0;
    }
    if (!strcmp(what, "memory")) {
        work(1);
        size_t unused = 0, total = 0;
        CHECK(cudaMemGetInfo(&unused, &total));
        float* most;
        CHECK(cudaMalloc(&most, total - (size_t(2) << 30)));
        after<<<64, 256>>>(most, kCount);
        CHECK(cudaDeviceSynchronize());
        return 0;
    }
    if (!strcmp(what, "stdin")) {
        int launches = 0;
        if (scanf("%d", &launches) != 1) return 9;
        return work(launches);
    }
    if (!strcmp(what, "host")) {
        volatile int* flag;
        CHECK(cudaHostAlloc((void**)&flag, sizeof(int), cudaHostAllocMapped));
        *flag = 0;
        float* values = some();
        before<<<64, 256>>>(values, kCount);
        wait_for_host<<<1, 32>>>(flag, values);
        *flag = 1;
        CHECK(cudaDeviceSynchronize());
        return 0;
    }
    return 5;
}
