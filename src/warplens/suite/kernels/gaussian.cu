// One elimination step of Gauss on a row-major matrix of rows x columns.

// The multipliers of the rows below the pivot: one column, read and written a row apart.
extern "C" __global__ void gaussian_fan1(const float* __restrict__ matrix, float* __restrict__ multipliers, int rows,
                                         int columns, int pivot) {
  int row = blockIdx.x * blockDim.x + threadIdx.x + pivot + 1;
  if (row >= rows) return;
  multipliers[(long long)row * columns + pivot] =
      matrix[(long long)row * columns + pivot] / matrix[(long long)pivot * columns + pivot];
}

// The rows below the pivot less their multiple of the pivot's row; threadIdx.x runs down the rows.
extern "C" __global__ void gaussian_fan2(const float* __restrict__ multipliers, float* __restrict__ matrix,
                                         float* __restrict__ right_side, int rows, int columns, int pivot) {
  int row = blockIdx.x * blockDim.x + threadIdx.x + pivot + 1;
  int column = blockIdx.y * blockDim.y + threadIdx.y + pivot;
  if (row >= rows || column >= columns) return;
  float multiplier = multipliers[(long long)row * columns + pivot];
  matrix[(long long)row * columns + column] -= multiplier * matrix[(long long)pivot * columns + column];
  if (column == pivot) right_side[row] -= multiplier * right_side[pivot];
}
