// The sum of an array. The fault: one atomic addition per thread, all to one address.
// The cure: warps and blocks add up first, and a block does one atomic addition.
__device__ float sum_of_thread(int count, const float *values)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        sum += values[i];
    return sum;
}

extern "C" __global__ void fault(int count, const float *values, float *total)
{
    atomicAdd(total, sum_of_thread(count, values));
}

extern "C" __global__ void cure(int count, const float *values, float *total)
{
    __shared__ float of_warp[32];
    float sum = sum_of_thread(count, values);
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    sum = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0.0f;
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (threadIdx.x == 0)
        atomicAdd(total, sum);
}
