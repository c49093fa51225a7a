// One step of LU factorisation in tiles, in place, for a batch of square matrices. The tile on the
// diagonal is factored already: unit lower triangle and upper triangle in one.
constexpr int kTile = 16;

// The tiles right of and below the diagonal tile: the first half of the threads solves a tile of U
// column by column, the second half a tile of L row by row.
extern "C" __global__ void lu_perimeter(float* __restrict__ matrices, int size, int step) {
  __shared__ float diagonal[kTile][kTile];
  __shared__ float right[kTile][kTile];
  __shared__ float below[kTile][kTile];
  float* matrix = matrices + (long long)blockIdx.y * size * size;
  long long at = (long long)step * kTile;
  long long other = at + (blockIdx.x + 1) * kTile;
  int t = threadIdx.x % kTile;
  for (int row = threadIdx.x / kTile; row < kTile; row += 2) {
    diagonal[row][t] = matrix[(at + row) * size + at + t];
    right[row][t] = matrix[(at + row) * size + other + t];
    below[row][t] = matrix[(other + row) * size + at + t];
  }
  __syncthreads();
  if (threadIdx.x < kTile) {
    for (int row = 1; row < kTile; ++row)
      for (int k = 0; k < row; ++k) right[row][t] -= diagonal[row][k] * right[k][t];
  } else {
    for (int column = 0; column < kTile; ++column) {
      for (int k = 0; k < column; ++k) below[t][column] -= below[t][k] * diagonal[k][column];
      below[t][column] /= diagonal[column][column];
    }
  }
  __syncthreads();
  for (int row = threadIdx.x / kTile; row < kTile; row += 2) {
    matrix[(at + row) * size + other + t] = right[row][t];
    matrix[(other + row) * size + at + t] = below[row][t];
  }
}

// The tiles behind: each less the product of its tile of L and its tile of U.
extern "C" __global__ void lu_internal(float* __restrict__ matrices, int size, int step) {
  __shared__ float lower[kTile][kTile];
  __shared__ float upper[kTile][kTile];
  float* matrix = matrices + (long long)blockIdx.z * size * size;
  int tx = threadIdx.x, ty = threadIdx.y;
  long long at = (long long)step * kTile;
  long long column = at + (blockIdx.x + 1) * kTile + tx;
  long long row = at + (blockIdx.y + 1) * kTile + ty;
  lower[ty][tx] = matrix[row * size + at + tx];
  upper[ty][tx] = matrix[(at + ty) * size + column];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kTile; ++k) sum += lower[ty][k] * upper[k][tx];
  matrix[row * size + column] -= sum;
}
