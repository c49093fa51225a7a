// Sums of a grid-stride partition of an array: one partial sum per block.

template <int kThreads>
__device__ float block_sum(float value) {
  __shared__ float warp_sums[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) warp_sums[warp] = value;
  __syncthreads();
  float total = 0.0f;
  if (warp == 0) {
    total = lane < kThreads / 32 ? warp_sums[lane] : 0.0f;
    for (int offset = kThreads / 64; offset > 0; offset /= 2)
      total += __shfl_down_sync(0xffffffffu, total, offset);
  }
  return total;  // valid in thread 0
}

extern "C" __global__ void reduction(const float* __restrict__ values, float* __restrict__ block_sums, int n) {
  float sum = 0.0f;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    sum += values[i];
  sum = block_sum<256>(sum);
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum;
}
