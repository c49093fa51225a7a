// Counts of values below `bins`, with an atomic addition in global memory for every value.
extern "C" __global__ void histogram_global(const unsigned* __restrict__ values, unsigned* __restrict__ counts,
                                            int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(counts + values[i], 1u);
}

// The same with a histogram per block in dynamic shared memory, added to the global one at the end.
extern "C" __global__ void histogram_shared(const unsigned* __restrict__ values, unsigned* __restrict__ counts,
                                            int n, int bins) {
  extern __shared__ unsigned mine[];
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) mine[bin] = 0;
  __syncthreads();
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    atomicAdd(mine + values[i], 1u);
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x)
    if (mine[bin] > 0) atomicAdd(counts + bin, mine[bin]);
}
