// A histogram of bytes. The fault: every thread adds to the 256 counters in global memory.
// The cure: a block counts in shared memory and adds its counters to the global ones once.
constexpr int kBins = 256;

extern "C" __global__ void fault(int count, const unsigned char *values, unsigned *bins)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[values[i]], 1u);
}

extern "C" __global__ void cure(int count, const unsigned char *values, unsigned *bins)
{
    __shared__ unsigned own[kBins];
    for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x)
        own[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&own[values[i]], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x)
        atomicAdd(&bins[bin], own[bin]);
}
