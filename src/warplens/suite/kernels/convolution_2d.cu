// 3x3 convolution of a plane with fixed coefficients; the outermost pixels are left alone.
extern "C" __global__ void convolution_2d(const float* __restrict__ input, float* __restrict__ output, int width,
                                          int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || x >= width - 1 || y < 1 || y >= height - 1) return;
  const float* above = input + (long long)(y - 1) * width + x;
  const float* here = above + width;
  const float* below = here + width;
  output[(long long)y * width + x] = 0.2f * above[-1] + 0.5f * above[0] - 0.8f * above[1] -
                                     0.3f * here[-1] + 0.6f * here[0] - 0.9f * here[1] +
                                     0.4f * below[-1] + 0.7f * below[0] + 0.1f * below[1];
}
