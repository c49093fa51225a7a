// Separate compilation (-rdc=true): a kernel that reads through a function of another file, one with a table of
// function pointers, and one that needs neither.
#include "checked.h"
extern __device__ float gather(const float* values, int i, int n);
extern __device__ float twice(float x);
extern __device__ float square(float x);
__device__ float (*const table[])(float) = {twice, square};

__global__ void plain(float* values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = i % 13;
}
__global__ void through_other(const float* values, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = gather(values, i, n);
}
__global__ void through_pointers(const float* values, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table[i / 32 % 2](values[i]);
}
int main() {
    const int n = 1 << 18;
    float *values, *out;
    CHECK(cudaMalloc(&values, n * sizeof(float)));
    CHECK(cudaMalloc(&out, n * sizeof(float)));
    plain<<<n / 256, 256>>>(values, n);
    through_other<<<n / 256, 256>>>(values, out, n);
    through_pointers<<<n / 256, 256>>>(values, out, n);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
