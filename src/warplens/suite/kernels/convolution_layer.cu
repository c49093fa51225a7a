// Direct convolution of a layer of a neural network, with bias and rectifier: one thread per output
// pixel, one filter per blockIdx.y, one image per blockIdx.z. Images are channel by channel.
template <int kSide>
__device__ void convolve(const float* __restrict__ images, const float* __restrict__ filters,
                         const float* __restrict__ biases, float* __restrict__ output, int channels, int side,
                         int output_side, int stride, int padding) {
  int pixel = blockIdx.x * blockDim.x + threadIdx.x;
  if (pixel >= output_side * output_side) return;
  int filter = blockIdx.y;
  int left = pixel % output_side * stride - padding;
  int top = pixel / output_side * stride - padding;
  const float* weights = filters + (long long)filter * channels * kSide * kSide;
  const float* image = images + (long long)blockIdx.z * channels * side * side;
  float sum = biases[filter];
  for (int channel = 0; channel < channels; ++channel) {
    for (int dy = 0; dy < kSide; ++dy) {
      int y = top + dy;
      if (y < 0 || y >= side) continue;
      const float* image_row = image + ((long long)channel * side + y) * side;
      const float* weight_row = weights + (channel * kSide + dy) * kSide;
#pragma unroll
      for (int dx = 0; dx < kSide; ++dx) {
        int x = left + dx;
        if (x >= 0 && x < side) sum += image_row[x] * weight_row[dx];
      }
    }
  }
  long long plane = (long long)blockIdx.z * gridDim.y + filter;
  output[plane * output_side * output_side + pixel] = fmaxf(sum, 0.0f);
}

extern "C" __global__ void convolution_alexnet(const float* __restrict__ images, const float* __restrict__ filters,
                                               const float* __restrict__ biases, float* __restrict__ output,
                                               int channels, int side, int output_side, int stride, int padding) {
  convolve<11>(images, filters, biases, output, channels, side, output_side, stride, padding);
}

extern "C" __global__ void convolution_resnet(const float* __restrict__ images, const float* __restrict__ filters,
                                              const float* __restrict__ biases, float* __restrict__ output,
                                              int channels, int side, int output_side, int stride, int padding) {
  convolve<3>(images, filters, biases, output, channels, side, output_side, stride, padding);
}
