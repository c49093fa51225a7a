// Heat in a plate until little changes: a stencil, and a reduction that the host waits for.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

constexpr int N = 256, MOST_STEPS = 96, BETWEEN = 8;

__global__ void step(const float* from, float* to) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, at = y * N + x;
  bool edge = x == 0 || y == 0 || x == N - 1 || y == N - 1;
  to[at] = edge ? from[at] : 0.25f * (from[at - 1] + from[at + 1] + from[at - N] + from[at + N]);
}

__global__ void change(const float* one, const float* other, float* sums) {
  __shared__ float part[256];
  float sum = 0;
  for (int at = blockIdx.x * 256 + threadIdx.x; at < N * N; at += gridDim.x * 256) sum += fabsf(one[at] - other[at]);
  part[threadIdx.x] = sum;
  for (int left = 128; left; left /= 2) {
    __syncthreads();
    if (threadIdx.x < left) part[threadIdx.x] += part[threadIdx.x + left];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

int main() {
  std::vector<float> plate(N * N), sums(32);
  for (int x = 0; x < N; x++) plate[x] = 100;
  float *from, *to, *changes;
  cudaMalloc(&from, sizeof(float) * N * N);
  cudaMalloc(&to, sizeof(float) * N * N);
  cudaMalloc(&changes, sizeof(float) * 32);
  cudaMemcpy(from, plate.data(), sizeof(float) * N * N, cudaMemcpyHostToDevice);
  float first = 0, last = 0;
  for (int steps = 1; steps <= MOST_STEPS; steps++) {
    step<<<dim3(N / 32, N / 8), dim3(32, 8)>>>(from, to);
    if (steps % BETWEEN == 0) {
      change<<<32, 256>>>(from, to, changes);
      cudaMemcpy(sums.data(), changes, sizeof(float) * 32, cudaMemcpyDeviceToHost);
      last = 0;
      for (float each : sums) last += each;
      if (!first) first = last;
    }
    std::swap(from, to);
  }
  cudaMemcpy(plate.data(), from, sizeof(float) * N * N, cudaMemcpyDeviceToHost);
  bool good = last < first && plate[N / 2] == 100 && plate[N + N / 2] > 80;
  printf("change %g, then %g: %s\n", first, last, good ? "passed" : "failed");
  return !good;
}
