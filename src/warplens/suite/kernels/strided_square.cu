// Listing 1 of the Memory Divergence Model's paper: squares of an array, `grid_stride` apart between
// threads, reorganised into a matrix. The rows of a block leave shared memory at the end.
constexpr int kValues = 8;
constexpr int kThreads = 256;

extern "C" __global__ void strided_square(const float* __restrict__ input, float* __restrict__ matrix,
                                          int grid_stride) {
  __shared__ float output[kThreads][kValues];
  int ix = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < kValues; ++i) {
    long long index = (long long)grid_stride * ix + i;
    float t = input[index];
    output[threadIdx.x][i] = t * t;
  }
  __syncthreads();
  float* block_matrix = matrix + (long long)blockIdx.x * kThreads * kValues;
  const float* flat = &output[0][0];
  for (int i = threadIdx.x; i < kThreads * kValues; i += kThreads) block_matrix[i] = flat[i];
}
