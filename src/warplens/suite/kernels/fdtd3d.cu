// Finite differences in time, radius 4 in three dimensions: a block marches through the planes of its
// share of z with the column of each thread in registers and the current plane in shared memory.
// The volume has a border of kRadius cells on every side that is read and never written.
constexpr int kRadius = 4;
constexpr int kTileX = 32;
constexpr int kTileY = 8;

extern "C" __global__ void fdtd3d(const float* __restrict__ input, float* __restrict__ output,
                                  const float* __restrict__ coefficients, int width, int height, int depth,
                                  int planes_per_block) {
  __shared__ float tile[kTileY + 2 * kRadius][kTileX + 2 * kRadius];
  int x = blockIdx.x * kTileX + threadIdx.x;
  int y = blockIdx.y * kTileY + threadIdx.y;
  int first = blockIdx.z * planes_per_block;
  int last = min(first + planes_per_block, depth);
  int tx = threadIdx.x + kRadius, ty = threadIdx.y + kRadius;
  int row = width + 2 * kRadius;
  long long plane = (long long)row * (height + 2 * kRadius);
  long long cell = (first + kRadius) * plane + (long long)(y + kRadius) * row + x + kRadius;

  float c[kRadius + 1];
#pragma unroll
  for (int i = 0; i <= kRadius; ++i) c[i] = coefficients[i];
  float behind[kRadius], front[kRadius];  // the planes around the current one, nearest first
#pragma unroll
  for (int i = 0; i < kRadius; ++i) behind[i] = input[cell - (i + 1) * plane];
  float current = input[cell];
#pragma unroll
  for (int i = 0; i < kRadius; ++i) front[i] = input[cell + (i + 1) * plane];

  for (int z = first; z < last; ++z) {
    tile[ty][tx] = current;
    if (threadIdx.y < kRadius) {
      tile[threadIdx.y][tx] = input[cell - kRadius * row];
      tile[ty + kTileY][tx] = input[cell + kTileY * row];
    }
    if (threadIdx.x < kRadius) {
      tile[ty][threadIdx.x] = input[cell - kRadius];
      tile[ty][tx + kTileX] = input[cell + kTileX];
    }
    __syncthreads();
    float value = c[0] * current;
#pragma unroll
    for (int i = 1; i <= kRadius; ++i)
      value += c[i] * (front[i - 1] + behind[i - 1] + tile[ty - i][tx] + tile[ty + i][tx] + tile[ty][tx - i] +
                       tile[ty][tx + i]);
    output[cell] = value;
    __syncthreads();

    if (z + 1 < last) {
#pragma unroll
      for (int i = kRadius - 1; i > 0; --i) behind[i] = behind[i - 1];
      behind[0] = current;
      current = front[0];
#pragma unroll
      for (int i = 0; i < kRadius - 1; ++i) front[i] = front[i + 1];
      cell += plane;
      front[kRadius - 1] = input[cell + kRadius * plane];
    }
  }
}
