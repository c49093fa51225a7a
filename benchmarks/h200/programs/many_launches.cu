// Gaussian elimination as benchmark suites write it: two small kernels for every column, from a loop on the host.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void multipliers(const float* a, float* m, int n, int column) {
    int row = blockIdx.x * blockDim.x + threadIdx.x + column + 1;
    if (row < n) m[row * n + column] = a[row * n + column] / a[column * n + column];
}

__global__ void subtract(float* a, float* b, const float* m, int n, int column) {
    int row = blockIdx.x * blockDim.x + threadIdx.x + column + 1;
    int at = blockIdx.y * blockDim.y + threadIdx.y + column;
    if (row >= n || at >= n) return;
    a[row * n + at] -= m[row * n + column] * a[column * n + at];
    if (at == column) b[row] -= m[row * n + column] * b[column];
}

int main() {
    const int n = 512;
    float *a, *b, *m;
    cudaMallocHost(&a, n * n * sizeof(float));
    cudaMallocHost(&b, n * sizeof(float));
    cudaMalloc(&m, n * n * sizeof(float));
    for (int i = 0; i < n * n; ++i) a[i] = float(i * 7919 % 1009) / 1009 + (i % (n + 1) == 0 ? n : 0);
    for (int i = 0; i < n; ++i) b[i] = 1;
    for (int column = 0; column < n - 1; ++column) {
        int rest = n - column - 1;
        multipliers<<<(rest + 255) / 256, 256>>>(a, m, n, column);
        subtract<<<dim3((rest + 15) / 16, (rest + 16) / 16), dim3(16, 16)>>>(a, b, m, n, column);
    }
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s %g\n", cudaGetErrorString(error), b[n - 1]);
    return error != cudaSuccess;
}
