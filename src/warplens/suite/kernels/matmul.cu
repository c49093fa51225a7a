// c = a b for row-major a (rows x inner) and b (inner x columns).
extern "C" __global__ void matmul_naive(const float* __restrict__ a, const float* __restrict__ b,
                                        float* __restrict__ c, int rows, int columns, int inner) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || column >= columns) return;
  float sum = 0.0f;
  for (int k = 0; k < inner; ++k) sum += a[(long long)row * inner + k] * b[(long long)k * columns + column];
  c[(long long)row * columns + column] = sum;
}

constexpr int kTile = 16;

extern "C" __global__ void matmul_tiled(const float* __restrict__ a, const float* __restrict__ b,
                                        float* __restrict__ c, int rows, int columns, int inner) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  int tx = threadIdx.x, ty = threadIdx.y;
  int column = blockIdx.x * kTile + tx;
  int row = blockIdx.y * kTile + ty;
  float sum = 0.0f;
  for (int first = 0; first < inner; first += kTile) {
    a_tile[ty][tx] = row < rows && first + tx < inner ? a[(long long)row * inner + first + tx] : 0.0f;
    b_tile[ty][tx] = column < columns && first + ty < inner ? b[(long long)(first + ty) * columns + column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) sum += a_tile[ty][k] * b_tile[k][tx];
    __syncthreads();
  }
  if (row < rows && column < columns) c[(long long)row * columns + column] = sum;
}
