// Listing 1 of MDM for strides from 1 to 32 words: loads of a warp that fall apart more and more.
#include <cstdio>
#include <vector>

constexpr int THREADS = 8192, LENGTH = 8;

__global__ void squares(const float* input, float* output, int stride) {
  int ix = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < LENGTH; i++) {
    float t = input[stride * ix + i];
    sum += t * t;
  }
  output[ix] = sum;
}

int main() {
  std::vector<float> values(THREADS * 32 + LENGTH), sums(THREADS);
  for (size_t i = 0; i < values.size(); i++) values[i] = i % 7;
  float *input, *output;
  cudaMalloc(&input, values.size() * sizeof(float));
  cudaMalloc(&output, THREADS * sizeof(float));
  cudaMemcpy(input, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  int wrong = 0;
  for (int stride = 1; stride <= 32; stride *= 2) {
    squares<<<THREADS / 256, 256>>>(input, output, stride);
    cudaMemcpy(sums.data(), output, THREADS * sizeof(float), cudaMemcpyDeviceToHost);
    for (int ix = 0; ix < THREADS; ix++) {
      float sum = 0;
      for (int i = 0; i < LENGTH; i++) sum += values[stride * ix + i] * values[stride * ix + i];
      wrong += sums[ix] != sum;
    }
  }
  printf("%d sums are wrong: %s\n", wrong, wrong ? "failed" : "passed");
  return wrong != 0;
}
