// y = A x for a sparse matrix in compressed rows, one thread per row.
extern "C" __global__ void spmv_csr(const int* __restrict__ row_offsets, const int* __restrict__ columns,
                                    const float* __restrict__ values, const float* __restrict__ x,
                                    float* __restrict__ y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  int end = row_offsets[row + 1];
  for (int entry = row_offsets[row]; entry < end; ++entry) sum += values[entry] * __ldg(x + columns[entry]);
  y[row] = sum;
}
