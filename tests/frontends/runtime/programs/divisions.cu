// Every second warp divides zeros, for which machine code has a path of its own.
#include <cstdio>

__global__ void divide(const double* a, const double* b, double* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i] / b[i];
}

int main() {
  constexpr int kBlocks = 4, kThreads = 64, kCount = kBlocks * kThreads;
  double host[2][kCount];
  for (int i = 0; i < kCount; ++i) {
    host[0][i] = i / 32 % 2 ? 0 : 1;
    host[1][i] = i + 3;
  }
  double *inputs, *out;
  cudaMalloc(&inputs, sizeof(host));
  cudaMalloc(&out, sizeof(host) / 2);
  cudaMemcpy(inputs, host, sizeof(host), cudaMemcpyHostToDevice);
  divide<<<kBlocks, kThreads>>>(inputs, inputs + kCount, out);
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
