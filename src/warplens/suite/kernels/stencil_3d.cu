// 7-point Jacobi step on a volume; the outermost cells are left alone.
extern "C" __global__ void stencil_3d(const float* __restrict__ input, float* __restrict__ output, int width,
                                      int height, int depth, float centre_weight, float neighbour_weight) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x < 1 || x >= width - 1 || y < 1 || y >= height - 1 || z < 1 || z >= depth - 1) return;
  long long plane = (long long)width * height;
  long long cell = z * plane + (long long)y * width + x;
  float neighbours = input[cell - 1] + input[cell + 1] + input[cell - width] + input[cell + width] +
                     input[cell - plane] + input[cell + plane];
  output[cell] = neighbour_weight * neighbours - centre_weight * input[cell];
}
