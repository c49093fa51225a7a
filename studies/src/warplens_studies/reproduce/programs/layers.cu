// Two layers of a network: products of matrices by tiles, and what follows each of them.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int N = 128, TILE = 16;

__global__ void product(const float* a, const float* b, float* c) {
  __shared__ float left[TILE][TILE], right[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0;
  for (int tile = 0; tile < N; tile += TILE) {
    left[y][x] = a[row * N + tile + x];
    right[y][x] = b[(tile + y) * N + column];
    __syncthreads();
    for (int k = 0; k < TILE; k++) sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[row * N + column] = sum;
}

__global__ void positive(float* values, const float* bias) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  values[at] = fmaxf(values[at] + bias[at % N], 0);
}

int main() {
  std::vector<float> a(N * N), b(N * N), bias(N), found(N * N);
  for (int i = 0; i < N * N; i++) a[i] = (i % 5 - 2) / 4.f, b[i] = (i % 3 - 1) / 2.f;
  for (int i = 0; i < N; i++) bias[i] = i % 2;
  float *in, *weights, *shift, *out;
  for (float** each : {&in, &weights, &out}) cudaMalloc(each, sizeof(float) * N * N);
  cudaMalloc(&shift, sizeof(float) * N);
  cudaMemcpy(in, a.data(), sizeof(float) * N * N, cudaMemcpyHostToDevice);
  cudaMemcpy(weights, b.data(), sizeof(float) * N * N, cudaMemcpyHostToDevice);
  cudaMemcpy(shift, bias.data(), sizeof(float) * N, cudaMemcpyHostToDevice);
  for (int layer = 0; layer < 2; layer++) {
    product<<<dim3(N / TILE, N / TILE), dim3(TILE, TILE)>>>(layer ? out : in, weights, layer ? in : out);
    positive<<<N * N / 256, 256>>>(layer ? in : out, shift);
  }
  cudaMemcpy(found.data(), in, sizeof(float) * N * N, cudaMemcpyDeviceToHost);
  double most = 0;
  for (int layer = 0; layer < 2; layer++) {
    std::vector<float> next(N * N);
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) {
        float sum = bias[j];
        for (int k = 0; k < N; k++) sum += a[i * N + k] * b[k * N + j];
        next[i * N + j] = fmaxf(sum, 0);
      }
    a = next;
  }
  for (int i = 0; i < N * N; i++) most = fmax(most, fabs(found[i] - a[i]));
  printf("largest difference %g: %s\n", most, most < 1e-3 ? "passed" : "failed");
  return !(most < 1e-3);
}
