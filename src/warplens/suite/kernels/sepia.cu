// Ages an image of interleaved 8-bit red, green and blue, with weights in thousandths.
extern "C" __global__ void sepia(const unsigned char* __restrict__ input, unsigned char* __restrict__ output,
                                 int pixels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pixels) return;
  long long base = 3LL * i;
  int red = input[base], green = input[base + 1], blue = input[base + 2];
  output[base] = min(255, (393 * red + 769 * green + 189 * blue) / 1000);
  output[base + 1] = min(255, (349 * red + 686 * green + 168 * blue) / 1000);
  output[base + 2] = min(255, (272 * red + 534 * green + 131 * blue) / 1000);
}
