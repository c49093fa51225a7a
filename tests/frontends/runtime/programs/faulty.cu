// Kernels that compute with memory which nobody has set, or that race in global memory, and their cures: `PART…`.
#include <cstdio>
#include <cstring>
#include <cuda_pipeline.h>

constexpr int N = 1024;

__global__ void sum(const float* from, float* to) { to[blockIdx.x * blockDim.x + threadIdx.x] += from[threadIdx.x]; }

__global__ void scratch(float* values, float* own) {  // each thread sets its word, then reads it
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  own[i] = values[i];
  values[i] = 2 * own[i];
}

__global__ void neighbours(float* values, float* own, int divided) {  // words of other threads of the block
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  own[i] = values[i];
  if (divided) __syncthreads();
  values[i] = own[blockIdx.x * blockDim.x + (threadIdx.x + 64) % blockDim.x];
}

__device__ unsigned arrived;
__global__ void last_block(const float* values, float* partial, float* total) {  // the last block adds up the others'
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = values[blockIdx.x];
    __threadfence();
    last = atomicAdd(&arrived, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0)
    for (int i = 0; i < gridDim.x; i++) *total += partial[i];
}

__global__ void piped(float* values) {
  __shared__ float tile[128];
  __pipeline_memcpy_async(&tile[threadIdx.x], &values[threadIdx.x], 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  values[threadIdx.x] = tile[127 - threadIdx.x];
}

int main(int count, char** given) {
  float *values, *other, zero = 0;
  for (int index = 1; index < count; index++) {
    const char* part = given[index];
    cudaMalloc(&values, N * sizeof(float));
    cudaMalloc(&other, N * sizeof(float));
    if (strcmp(part, "unset")) cudaMemset(values, 0, N * sizeof(float));
    if (!strcmp(part, "sum")) cudaMemset(other, 0, N * sizeof(float));
    if (!strcmp(part, "half")) cudaMemset(other, 0, N / 2 * sizeof(float));
    if (!strcmp(part, "scratch")) scratch<<<8, 128>>>(values, other);
    else if (!strcmp(part, "race")) neighbours<<<8, 128>>>(values, other, 0);
    else if (!strcmp(part, "divided")) neighbours<<<8, 128>>>(values, other, 1);
    else if (!strcmp(part, "piped")) piped<<<1, 128>>>(values);
    else if (!strcmp(part, "last")) {
      cudaMemcpy(other + 8, &zero, sizeof zero, cudaMemcpyHostToDevice);
      last_block<<<8, 128>>>(values, other, other + 8);
    } else sum<<<8, 128>>>(values, other);
    cudaDeviceSynchronize();
    cudaFree(values);
    cudaFree(other);
  }
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
