// A weighted histogram of data that mostly falls into few bins. The fault: lanes of a warp add to one shared word.
// The cure: every lane has counters of its own, in its own bank, which are added up at the end.
constexpr int kBins = 64, kLanes = 32;

extern "C" __global__ void fault(int count, const int *weights, const unsigned char *values, int *bins)
{
    __shared__ int own[kBins];
    for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x)
        own[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&own[values[i] / 4], weights[i]);
    __syncthreads();
    for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x)
        atomicAdd(&bins[bin], own[bin]);
}

extern "C" __global__ void cure(int count, const int *weights, const unsigned char *values, int *bins)
{
    __shared__ int own[kBins][kLanes];
    for (int k = threadIdx.x; k < kBins * kLanes; k += blockDim.x)
        own[k / kLanes][k % kLanes] = 0;
    __syncthreads();
    int lane = threadIdx.x % kLanes;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&own[values[i] / 4][lane], weights[i]);
    __syncthreads();
    for (int bin = threadIdx.x / kLanes; bin < kBins; bin += blockDim.x / kLanes) {
        int sum = own[bin][lane];
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_down_sync(0xffffffff, sum, distance);
        if (lane == 0)
            atomicAdd(&bins[bin], sum);
    }
}
