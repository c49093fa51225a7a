// Transposition of a row-major matrix. Naive: stores are coalesced, loads are a row apart.
extern "C" __global__ void transpose_naive(const float* __restrict__ input, float* __restrict__ output, int rows,
                                           int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  int column = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || column >= columns) return;
  output[(long long)column * rows + row] = input[(long long)row * columns + column];
}

// Through a tile in shared memory, padded against bank conflicts; 32 x 8 threads per tile.
extern "C" __global__ void transpose_tiled(const float* __restrict__ input, float* __restrict__ output, int rows,
                                           int columns) {
  __shared__ float tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x;
  for (int y = threadIdx.y; y < 32; y += blockDim.y) {
    int row = blockIdx.y * 32 + y;
    if (row < rows && column < columns) tile[y][threadIdx.x] = input[(long long)row * columns + column];
  }
  __syncthreads();
  int row = blockIdx.y * 32 + threadIdx.x;
  for (int y = threadIdx.y; y < 32; y += blockDim.y) {
    int out_row = blockIdx.x * 32 + y;
    if (row < rows && out_row < columns) output[(long long)out_row * rows + row] = tile[threadIdx.x][y];
  }
}
