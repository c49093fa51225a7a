// Launches that fail before they begin, which the program looks past, and launches from another thread afterwards.
#include "checked.h"
#include <cooperative_groups.h>
#include <thread>

__global__ void fill(float* values) { values[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x; }
__global__ void __launch_bounds__(64) small(float* values) { values[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x; }
__global__ void together(float* values) {
    values[blockIdx.x * blockDim.x + threadIdx.x] += 1;
    cooperative_groups::this_grid().sync();
    values[blockIdx.x * blockDim.x + threadIdx.x] *= values[threadIdx.x];
}

int main() {
    float* values;
    CHECK(cudaMalloc(&values, 1 << 24));
    const auto say = [](const char* what) { fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(cudaGetLastError())); };
    fill<<<64, 256>>>(values);
    fill<<<64, 2048>>>(values);
    say("2048 threads");
    fill<<<0, 256>>>(values);
    say("no blocks");
    fill<<<64, 256, 1 << 20>>>(values);
    say("1 MiB of shared memory");
    small<<<64, 128>>>(values);
    say("beyond the launch bounds");
    void* arguments[] = {&values};
    cudaLaunchCooperativeKernel((void*)together, 1 << 14, 256, arguments, 0, nullptr);
    say("cooperative, too many blocks");
    small<<<64, 64>>>(values);
    say("good");
    CHECK(cudaDeviceSynchronize());
    std::thread other([&] {
        fill<<<64, 256>>>(values);
        CHECK(cudaLaunchCooperativeKernel((void*)together, 64, 256, arguments, 0, nullptr));
        CHECK(cudaDeviceSynchronize());
    });
    other.join();
    fill<<<32, 256>>>(values);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
