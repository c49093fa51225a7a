// Sums by key, with sorted keys. The fault: every lane does an atomic addition, mostly 32 of a warp to one address.
// The cure: a warp whose keys are equal adds up its lanes first and does one atomic addition.
extern "C" __global__ void fault(int count, const int *keys, const float *values, float *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        atomicAdd(&sums[keys[i]], values[i]);
}

extern "C" __global__ void cure(int count, const int *keys, const float *values, float *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int key = i < count ? keys[i] : -1;
    float value = i < count ? values[i] : 0.0f;
    int first = __shfl_sync(0xffffffff, key, 0);
    if (!__all_sync(0xffffffff, key == first)) {
        if (key >= 0)
            atomicAdd(&sums[key], value);
        return;
    }
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffff, value, distance);
    if (threadIdx.x % 32 == 0 && key >= 0)
        atomicAdd(&sums[key], value);
}
