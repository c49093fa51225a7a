// Dynamic parallelism: kernels that launch others and themselves (-rdc=true), between ordinary ones.
#include "checked.h"

__global__ void child(int* out, int base) { atomicAdd(&out[(base + threadIdx.x) % 1024], 1); }

__global__ void quarter(int* out, int first, int count, int depth) {
    const int i = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < first + count) out[i] += depth;
    __syncthreads();
    if (depth > 0 && threadIdx.x == 0 && blockIdx.x == 0)
        for (int k = 0; k < 4; ++k)
            quarter<<<2, 64, 0, cudaStreamFireAndForget>>>(out, first + k * count / 4, count / 4, depth - 1);
}

__global__ void parent(int* out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 0) child<<<4, 64, 0, cudaStreamFireAndForget>>>(out, blockIdx.x * 64);
}

__global__ void plain(int* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] += out[(i * 7) % n];
}

int main() {
    int* out;
    CHECK(cudaMalloc(&out, 4096 * sizeof(int)));
    CHECK(cudaMemset(out, 0, 4096 * sizeof(int)));
    plain<<<1, 256>>>(out, 4096);
    parent<<<8, 64>>>(out);
    CHECK(cudaDeviceSynchronize());
    quarter<<<16, 64>>>(out, 0, 1024, 3);
    CHECK(cudaDeviceSynchronize());
    plain<<<1, 256>>>(out, 4096);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
