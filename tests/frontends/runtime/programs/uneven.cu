// The first thread block does nearly all the work: `LENGTH` turns in it, one in each of the others.
#include <cstdio>
#include <cstdlib>

__global__ void normalize(float* values, int length) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] *= 2;
  if (i == 0)
    for (int k = 1; k < length; ++k) values[k % 64] += values[(k - 1) % 64];
}

int main(int argc, char** argv) {
  constexpr int kBlocks = 1000, kThreads = 64;
  float* values;
  cudaMalloc(&values, kBlocks * kThreads * sizeof(float));
  cudaMemset(values, 0, kBlocks * kThreads * sizeof(float));
  normalize<<<kBlocks, kThreads>>>(values, atoi(argv[1]));
  cudaThreadSynchronize();  // as older programs have it
  printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
