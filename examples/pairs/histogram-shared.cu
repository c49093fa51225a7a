// Sums of weights by bin for each block, where few bins get the data. The fault: lanes add to one shared word
// atomically, and try again until each has had its turn. The cure: every thread has sums of its own, without atomics.
constexpr int kThreads = 256, kBins = 16;

extern "C" __global__ void fault(int count, const float *weights, const unsigned char *values, float *bins)
{
    __shared__ float own[kBins];
    if (threadIdx.x < kBins)
        own[threadIdx.x] = 0.0f;
    __syncthreads();
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads)
        atomicAdd(&own[values[i] % kBins], weights[i]);
    __syncthreads();
    if (threadIdx.x < kBins)
        bins[blockIdx.x * kBins + threadIdx.x] = own[threadIdx.x];
}

extern "C" __global__ void cure(int count, const float *weights, const unsigned char *values, float *bins)
{
    __shared__ float own[kBins][kThreads];
    for (int bin = 0; bin < kBins; ++bin)
        own[bin][threadIdx.x] = 0.0f;
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads)
        own[values[i] % kBins][threadIdx.x] += weights[i];
    __syncthreads();
    for (int bin = threadIdx.x / 32; bin < kBins; bin += kThreads / 32) {
        float sum = 0.0f;
        for (int thread = threadIdx.x % 32; thread < kThreads; thread += 32)
            sum += own[bin][thread];
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_down_sync(0xffffffff, sum, distance);
        if (threadIdx.x % 32 == 0)
            bins[blockIdx.x * kBins + bin] = sum;
    }
}
